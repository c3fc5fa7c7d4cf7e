"""What the traced process pins so that its data lie at the same places in every run, on every host.

The traced code shares this process with Python, whose heap depends on the lengths of paths, the version, the user. So
before the code is loaded, and again before it runs, all free pieces of the heap are taken (what is allocated from then
on comes from its fresh end), all holes between mappings are filled (what is mapped from then on lies below one fixed
address), and the code gets a stack, arguments and an environment of its own at fixed addresses.
"""

import ctypes
import mmap
import os
import resource
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

ARGUMENTS, MAPPED_BELOW, STACK_TOP = 0x6E00_0000_0000, 0x6D00_0000_0000, 0x6F00_0000_0000
_STACK = 64 << 20
_ARGUMENTS = 1 << 36  # address space, not memory
_FIXED, _NORESERVE = 0x100000, 0x4000
_FD = 230  # its number is a part of the name that the code is loaded by
_PAGE = 4096
_HEAP = 1 << 36  # bytes that the heap may grow by
_PIECE = 65536  # bytes of the heap taken at once to find its end
_TRIM, _TOP_PAD, _MMAP_THRESHOLD, _DEFAULT = -1, -2, -3, 128 << 10  # mallopt's parameters, at their defaults
_STACK_WORDS = 24  # arguments on the caller's stack that are copied to the new one
_TRIES = 20
_FAILED = (None, 2**64 - 1)
# As many free pieces of the heap as there are sizes: those of its small bins, and coarser ones above.
_SIZES = 2 * [*(int(49152 * 0.8**k) for k in range(18) if 49152 * 0.8**k > 1040), *range(1032, 23, -16)]


class Pinned:
    """The pins of one process.

    Parameters
    ----------
    libc : ctypes.CDLL
        With `mmap` and `munmap` declared.
    """

    def __init__(self, libc: Any) -> None:
        self.libc = libc
        self.heap = (0, 0)
        self._kept: list[Any] = []
        libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
        libc.sbrk.restype, libc.sbrk.argtypes = ctypes.c_void_p, [ctypes.c_ssize_t]
        libc.dlopen.restype, libc.dlopen.argtypes = ctypes.c_void_p, [ctypes.c_char_p, ctypes.c_int]
        libc.dlerror.restype = ctypes.c_char_p
        for parameter in (_MMAP_THRESHOLD, _TRIM, _TOP_PAD):
            libc.mallopt(parameter, _DEFAULT)
        self._used = ARGUMENTS
        self._reserve(ARGUMENTS, _ARGUMENTS, 3)
        self._reserve(STACK_TOP - _STACK, _STACK + _PAGE, 3)

    def load(self, path: str, mode: int) -> ctypes.CDLL:
        """Load a file by a name whose length is always the same; what its constructors allocate is in a fresh heap."""
        handle = os.open(path, os.O_RDONLY)
        os.dup2(handle, _FD)
        os.close(handle)
        name = f"/proc/self/fd/{_FD}".encode()
        self._unrandom()
        start = self._fresh_heap()
        found = self.libc.dlopen(name, mode | os.RTLD_NOW)
        self.heap = start, self._top()
        if not found:
            raise OSError((self.libc.dlerror() or b"it cannot be loaded").decode(errors="replace").replace(
                name.decode(), path
            ))  # fmt: skip
        return ctypes.CDLL(path, handle=found)

    def place(self, data: bytes, align: int = 16) -> int:
        """Copy bytes to the next free fixed address."""
        at = -(-self._used // align) * align
        ctypes.memmove(at, data, len(data))
        self._used = at + len(data)
        return at

    def place_array(self, data: bytes) -> int:
        """Copy an array to the start of a page of its own, as `malloc` places large ones but for 16 bytes."""
        return self.place(data, _PAGE)

    def words(self, words: Sequence[bytes]) -> int:
        """Place a list of texts as C has it, with an end; return its address."""
        places = [self.place(word + b"\0", 1) for word in words]
        return self.place(b"".join(place.to_bytes(8, "little") for place in (*places, 0)))

    def environment(self, values: Mapping[str, str]) -> int:
        """Make `values` all that the code finds in its environment; return the address of the list."""
        at = self.words([f"{name}={value}".encode() for name, value in values.items()])
        ctypes.c_void_p.in_dll(self.libc, "environ").value = at
        return at

    def trampoline(self, target: int, near: Callable[[int, int], int]) -> int:
        """Return code that calls `target` with its caller's arguments on the stack at the fixed address."""
        from iced_x86 import BlockEncoder, Code, Instruction, MemoryOperand, Register

        out = [
            Instruction.create_reg(Code.PUSH_R64, Register.RBP),
            Instruction.create_reg_reg(Code.MOV_R64_RM64, Register.RBP, Register.RSP),
            Instruction.create_reg_u64(Code.MOV_R64_IMM64, Register.RSP, STACK_TOP),
        ]
        for k in reversed(range(_STACK_WORDS)):
            word = MemoryOperand(Register.RBP, displ=16 + 8 * k, displ_size=1)
            out += [Instruction.create_mem(Code.PUSH_RM64, word)]
        out += [
            Instruction.create_branch(Code.CALL_REL32_64, target),
            Instruction.create_reg_reg(Code.MOV_R64_RM64, Register.RSP, Register.RBP),
            Instruction.create_reg(Code.POP_R64, Register.RBP),
            Instruction.create(Code.RETNQ),
        ]
        encoder = BlockEncoder(64)
        encoder.add_many(out)
        at = near(target, _PAGE)
        code = encoder.encode(at)
        ctypes.memmove(at, code, len(code))
        return at

    def ready(self, thread: int) -> tuple[int, ...]:
        """Pin what is left, as the last thing before the code runs.

        Returns
        -------
        tuple of int
            What has to be renamed afterwards: the start and end of the heap of the constructors and of that of the run,
            and where the thread's own memory begins.
        """
        self._fill_holes()
        for _ in range(_TRIES):  # looking for holes takes memory, and may make another one
            if self._fill_holes():
                break
        else:
            raise OSError("memory is mapped all the time: nothing can be pinned")
        start = self._fresh_heap()
        return *self.heap, start, start + _HEAP, thread

    def _reserve(self, at: int, size: int, access: int) -> None:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE | _FIXED
        if self.libc.mmap(at, size, access, flags, -1, 0) != at:
            raise OSError(f"the addresses from {at:#x} on are not free (errno {ctypes.get_errno()})")

    def _top(self) -> int:
        """Return where the heap's next fresh piece lies, roughly: behind one that is taken now."""
        return int(self.libc.malloc(_PIECE - 16)) + _PIECE

    def _fresh_heap(self) -> int:
        """Take every free piece of the heap; return the start of a page from which on everything new comes."""
        malloc, sbrk = self.libc.malloc, self.libc.sbrk
        end = sbrk(0)
        piece = 0
        while sbrk(0) == end:  # only the heap's end makes it grow
            piece = malloc(_PIECE - 16)
        for size in _SIZES:  # a list made here would itself be freed into the heap
            while malloc(size) < piece:
                pass
        last = malloc(24)
        start = -(-(last + 16 + 32) // _PAGE) * _PAGE
        malloc(start - (last + 16) - 8)
        return int(start)

    def _fill_holes(self) -> bool:
        """Leave no room between mappings above the fixed address: the kernel then maps right below it.

        False where something was mapped in the meantime.
        """
        rows = [line.split(maxsplit=5) for line in Path("/proc/self/maps").read_text().splitlines()]
        self._kept.append(rows)
        spans = [tuple(int(word, 16) for word in row[0].split("-")) for row in rows]
        stack = next((s for s, row in zip(spans, rows, strict=True) if row[-1] == "[stack]"), (1 << 47, 1 << 47))
        at = MAPPED_BELOW
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE
        for start, end in spans:
            if end <= at:
                continue
            if start >= stack[0]:
                break
            if start > at and self.libc.mmap(at, start - at, 0, flags | _FIXED, -1, 0) != at:
                return False
            at = max(at, end)
        while True:
            probe = self.libc.mmap(None, _PAGE, 0, flags, -1, 0)
            if probe in _FAILED:
                raise OSError("no memory can be mapped")
            if probe < MAPPED_BELOW:
                self.libc.munmap(probe, _PAGE)
                return True

    def _unrandom(self) -> None:
        """Have the system's random numbers be the same ones every time, as hash tables of Rust begin with them."""
        for name, result in (("getrandom", b"\x48\x89\xf0"), ("getentropy", b"\x31\xc0")):
            try:
                at = ctypes.cast(getattr(self.libc, name), ctypes.c_void_p).value
            except AttributeError:
                continue
            assert at is not None
            # push rdi; mov rcx, rsi; mov al, 0x5a; rep stosb; pop rdi; the result: rsi (bytes written), or 0; ret
            code = b"\x57\x48\x89\xf1\xb0\x5a\xf3\xaa\x5f" + result + b"\xc3"
            if self.libc.mprotect(at & ~(_PAGE - 1), 2 * _PAGE, 7) == 0:
                ctypes.memmove(at, code, len(code))


def bounded_stack() -> bool:
    """Bound this process's stack; True if it was unbounded: the kernel then maps memory upwards until a new start."""
    soft, hard = resource.getrlimit(resource.RLIMIT_STACK)
    if soft != resource.RLIM_INFINITY:
        return False
    resource.setrlimit(resource.RLIMIT_STACK, (8 << 20, hard))
    return True
