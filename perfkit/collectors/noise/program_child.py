"""The process that adds noise to a program's function: ``python -m perfkit...program_child FILE``.

It loads the program as the tracer does, and runs it up to the wanted call of the function. There the program stops for
good: the function's copies run in processes forked from it, on the program's own stack and memory.
"""

import ctypes
import mmap
import os
import signal
import struct
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from iced_x86 import Code, Instruction, MemoryOperand, Register
from numpy.typing import NDArray

from perfkit.collectors.host.code import flags
from perfkit.collectors.host.measuring import pointer, started
from perfkit.collectors.noise.copies import Copies, NoiseVariant, restored, saved, source_set
from perfkit.collectors.noise.function import read_function
from perfkit.collectors.noise.kinds import BACK, BUFFER, FAR, RESULTS, STATE, WIDE_ROUND
from perfkit.collectors.noise.measure import in_processes, must_agree, named_rows, plain_first
from perfkit.collectors.noise.memory import MappedArea, Span, changed_spans, writable
from perfkit.collectors.noise.place import NoisePlace, noise_place
from perfkit.collectors.tracer.child import Session, say, specified, start_session
from perfkit.collectors.tracer.clone import beginning

_RSP = 4
_STATE_SIZE, _RESULT_SIZE = 128 + 16 * 64, 48
_STACK = 1 << 18  # bytes for what calls the copies
_AT_ONCE = 8  # variants that are checked beside one run of the plain copy
_MOST = 64 << 20  # bytes that a call may change
_NAMES = {0: "read", 1: "write", 2: "open", 3: "close", 4: "stat", 5: "fstat", 8: "lseek", 16: "ioctl", 20: "writev",
          35: "nanosleep", 56: "clone", 57: "fork", 202: "futex (to wait for another thread, or wake one)",
          230: "clock_nanosleep", 257: "openat", 262: "newfstatat", 318: "getrandom", 435: "clone3"}  # fmt: skip
_TOO_LONG = -(1 << 63)


class NoiseSession(Session):
    """What the child holds: the program, with a hook at the function's entry."""

    def build(self) -> None:
        """Patch the function's entry so that the wanted call comes back here."""
        from perfkit.collectors.tracer.accesses import Refused
        from perfkit.collectors.tracer.clone import Region

        self.function = self.entry()
        if self.function.size < 5:
            raise Refused(f"{self.function.name} is too short to be stopped at ({self.function.size} bytes)")
        code = Region(self.function, self.read, lambda _: None).instructions(self.function)
        base = self._near(self.function.start, 20 * self.function.size + 4 * 4096)
        plain = base + 4096 + self.function.start % 4096
        self.place(beginning(self.function, code), plain)
        self.native = ctypes.CDLL(self.spec["timer"])
        hook = ctypes.cast(self.native.perfkit_hook, ctypes.c_void_p).value or 0
        ctypes.memmove(base, b"\xff\x25\0\0\0\0" + struct.pack("<Q", hook), 14)  # jmp [rip]
        self._callback = ctypes.CFUNCTYPE(None)(self._stopped)
        known = flags()
        width = 64 if "avx512f" in known else 32 if "avx" in known else 16
        back = ctypes.cast(self._callback, ctypes.c_void_p).value or 0
        values = {"plain": plain, "back": back, "until": self.spec["call"], "width": width}
        for name, value in values.items():
            ctypes.c_uint64.in_dll(self.native, f"perfkit_{name}").value = value
        self._patch(self.function, base)

    def run(self) -> None:
        """Run the program, without the handlers that recording needs."""
        self._run_program()

    def _stopped(self) -> None:
        """Measure, at the wanted call; the program does not go on."""
        try:
            for start, first in self._first.items():
                ctypes.memmove(start, first, len(first))
            timer, pairs, link = started(self.spec)
            in_processes(self.spec, timer, pairs, link, partial(ProgramCall, self))
            say(self.spec["channel"], b"D")
        except BaseException as error:  # noqa: BLE001 - the parent raises it
            known = isinstance(error, SystemExit)
            say(self.spec["channel"], b"R" if known else b"E", str(error if known else repr(error)).encode())
        finally:
            sys.stderr.flush()
            os._exit(0)


class ProgramCall:
    """A call of a program's function, and its copies: each runs in processes forked from this one.

    Parameters
    ----------
    session : NoiseSession
        Stopped at the call.
    timer, spec, variants, number
        As `measure.Prepare` has them.
    """

    def __init__(
        self, session: NoiseSession, timer: ctypes.CDLL, spec: dict[str, Any], variants: list[NoiseVariant], number: int
    ) -> None:
        self.timer, self.spec = timer, spec
        _privately([area for area in writable() if area.shared])
        base = session.home_address
        function = read_function(session.home, spec["function"], base)
        place = noise_place(function, function.loop_at(spec["address"] + base))
        self.copies = Copies(function, place, variants, "avx" in flags(), entered, number)
        self.near = self.copies.buffers.near
        state = ctypes.addressof(ctypes.c_char.in_dll(timer, "perfkit_state"))
        ctypes.memmove(self.near + STATE, state, _STATE_SIZE)
        stack = ctypes.c_uint64.from_address(self.near + STATE + 8 * _RSP).value
        self.stack = mmap.mmap(-1, _STACK, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.stack_at = ctypes.addressof(ctypes.c_char.from_buffer(self.stack))
        areas = writable()
        below = next((area.start for area in areas if area.start <= stack < area.end), stack)
        self.left_out = [
            (below, stack + 8),
            (self.stack_at, self.stack_at + _STACK),
            (self.near, self.near + 2 * BUFFER),
            (self.copies.buffers.far, self.copies.buffers.far + FAR),
            (self.copies.buffers.wide, self.copies.buffers.wide + 2 * WIDE_ROUND),
            *((area.start, area.end) for area in areas if area.name == spec["timer"]),
            *_behind(areas, spec["timer"]),
        ]
        self._first_calls()

    def _first_calls(self) -> None:
        """Call the original and the plain copy: what a call changes, and whether a second one changes no more."""
        original, plain = self.copies.original, self.copies.calls[0]
        runs = [(original, 0), (original, 1), (original, 1), (plain, 1), (plain, 2)]
        children, notes = self._each(runs)
        try:
            self._refuse(notes[:-1], children[:-1])
            untouched, first, again, copy, twice = children
            self.changed = changed_spans(untouched, first, self.left_out)
            size = sum(b - a for a, b in self.changed)
            if size > _MOST:
                raise SystemExit(
                    f"a call changes {size >> 20} MB of memory, too much to bring back before each of thousands of "
                    f"calls (at most {_MOST >> 20} MB); run a smaller problem"
                )
            self.wrong = 1 if self._unlike(first, again, results=True) else 2 if self._unlike(first, copy) else 0
            self.repeats = bool(twice) and not self._unlike(copy, twice)
        finally:
            _end(children)
        kept = mmap.mmap(-1, max(size, 1), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        at = ctypes.addressof(ctypes.c_char.from_buffer(kept))
        rows, self._kept = [], kept
        for a, b in self.changed:
            rows.append((a, at, b - a))
            at += b - a
        self.pieces = np.array(rows, dtype=np.uint64).reshape(-1, 3)

    def check(self) -> tuple[int, NDArray[np.int64]]:
        """Call everything once on the same data; say what is wrong with all of it, and which copies are wrong."""
        changed = np.zeros(len(self.copies.calls), dtype=np.int64)
        if self.wrong:
            return self.wrong, changed
        plain = self.copies.calls[0]
        others = must_agree(self.copies.variants)[1:]
        for first in range(0, len(others), _AT_ONCE):
            some = others[first : first + _AT_ONCE]
            children, notes = self._each([(plain, 1), *((self.copies.calls[k], 1) for k in some)])
            try:
                self._refuse(notes[:1], children[:1])
                for k, child in zip(some, children[1:], strict=True):
                    changed[k] = not child or self._unlike(children[0], child, results=True)
            finally:
                _end(children)
        return 0, changed

    def turns(self, calls: int, which: list[int]) -> NDArray[np.int64]:
        """Time variants in a process of their own, in this order."""
        addresses, swapped = plain_first([self.copies.original, *self.copies.calls], which)
        shared = mmap.mmap(-1, 72 * len(which) + 16)
        told = np.frombuffer(shared, dtype=np.int64)
        at = told.ctypes.data
        failed = self.timer.perfkit_turns_apart(
            addresses, ctypes.c_long(calls), ctypes.c_long(len(which)), pointer(swapped), ctypes.c_void_p(at + 16),
            ctypes.c_void_p(at), ctypes.c_void_p(self.stack_at), ctypes.c_long(_STACK), pointer(self.pieces),
            ctypes.c_long(len(self.pieces)), ctypes.c_double(self.spec["timeout"]),
        )  # fmt: skip
        if failed:
            raise SystemExit(_why(int(told[1])))
        return named_rows(which, told[2:].reshape(-1, 9).copy())

    def calls(self, usual: int) -> int:
        """Return how many calls make a sample: one where a second one would meet other data."""
        return usual if self.repeats else 1

    def _each(self, runs: Sequence[tuple[int, int]]) -> tuple[list[int], NDArray[np.int64]]:
        """Make calls in processes that wait afterwards; return these (0: ended), and their notes."""
        # What is written between one fork and the next must not lie in memory that is compared.
        shared = mmap.mmap(-1, 24 * len(runs))
        notes = np.frombuffer(shared, dtype=np.int64)[: 2 * len(runs)].reshape(-1, 2)
        children = np.frombuffer(shared, dtype=np.int64)[2 * len(runs) :]
        functions = (ctypes.c_void_p * len(runs))(*(function for function, _ in runs))
        times = np.array([count for _, count in runs], dtype=np.int64)
        self.timer.perfkit_each(
            ctypes.c_long(len(runs)), functions, pointer(times), pointer(notes), pointer(children),
            ctypes.c_void_p(self.stack_at), ctypes.c_long(_STACK), ctypes.c_double(self.spec["timeout"]),
        )  # fmt: skip
        return children.tolist(), notes.copy()

    def _refuse(self, notes: NDArray[np.int64], children: Sequence[int]) -> None:
        for note, child in zip(notes, children, strict=True):
            if not child:
                raise SystemExit(_why(int(note[1])))

    def _unlike(self, one: int, other: int, *, results: bool = False) -> bool:
        """Whether two processes hold different memory (or results, in registers)."""
        if results and len({_peek(child, self.near + RESULTS, _RESULT_SIZE) for child in (one, other)}) > 1:
            return True
        return bool(changed_spans(one, other, self.left_out))


def entered(place: NoisePlace, target: int, near: int) -> list[Instruction]:
    """Return code that calls a function as the program did: with all of its registers, on its stack."""
    make = Instruction
    out = [*saved(), make.create_mem_reg(Code.MOV_RM64_R64, _slot(near + BACK), Register.RSP)]
    code, first = {
        16: (Code.MOVUPS_XMM_XMMM128, Register.XMM0), 32: (Code.VEX_VMOVUPS_YMM_YMMM256, Register.YMM0),
        64: (Code.EVEX_VMOVUPS_ZMM_K1Z_ZMMM512, Register.ZMM0),
    }[place.width]  # fmt: skip
    registers: list[Any] = [first + k for k in range(16)]
    out += [make.create_reg_mem(code, r, _slot(near + STATE + 128 + 64 * k)) for k, r in enumerate(registers)]
    out += source_set(place, near)
    general: list[Any] = [Register.RAX + k for k in range(16)]
    out += [
        make.create_reg_mem(Code.MOV_R64_RM64, register, _slot(near + STATE + 8 * k))
        for k, register in enumerate(general)
    ]
    rsp = Register.RSP  # the return address of the program's own call makes room for that of this one
    out.append(make.create_reg_mem(Code.LEA_R64_M, rsp, MemoryOperand(rsp, displ=8, displ_size=1)))
    out.append(make.create_branch(Code.CALL_REL32_64, target))
    out.append(make.create_reg_mem(Code.MOV_R64_RM64, rsp, _slot(near + BACK)))
    for k, register in enumerate((Register.RAX, Register.RDX)):
        out.append(make.create_mem_reg(Code.MOV_RM64_R64, _slot(near + RESULTS + 8 * k), register))
    for k, register in enumerate((Register.XMM0, Register.XMM1)):
        out.append(make.create_mem_reg(Code.MOVUPS_XMMM128_XMM, _slot(near + RESULTS + 16 + 16 * k), register))
    if place.width > 16:
        out.append(make.create(Code.VEX_VZEROUPPER))
    return out + restored()


def _slot(address: int) -> MemoryOperand:
    return MemoryOperand(Register.RIP, displ=address, displ_size=8)


def _privately(areas: Sequence[MappedArea]) -> None:
    """Exchange memory that other processes see for a copy of it."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    for area in areas:
        size = area.end - area.start
        data = ctypes.string_at(area.start, size)
        fixed = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x10
        if libc.mmap(area.start, size, mmap.PROT_READ | mmap.PROT_WRITE, fixed, -1, 0) != area.start:
            raise SystemExit("it shares memory with other processes, of which no copy can be made")
        ctypes.memmove(area.start, data, size)


def _behind(areas: Sequence[MappedArea], name: str) -> list[Span]:
    """Return the memory right behind a file's: its variables that begin as zero."""
    ends = {area.end for area in areas if area.name == name}
    return [(area.start, area.end) for area in areas if area.start in ends and not area.name]


def _peek(process: int, address: int, size: int) -> bytes:
    handle = os.open(f"/proc/{process}/mem", os.O_RDONLY)
    try:
        return os.pread(handle, size, address)
    finally:
        os.close(handle)


def _end(children: Sequence[int]) -> None:
    for child in children:
        if child:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def _why(note: int) -> str:
    """Say why a call did not come to its end."""
    if note == _TOO_LONG:
        return "a call takes too long; run a smaller problem"
    if note > 0:
        number = note - 1
        asked = _NAMES.get(number, f"system call {number}")
        return (
            f"it asks the system for {asked}: called again and again, it would reach files, devices or other processes "
            "each time; choose a function that only computes"
        )
    if note < 0:
        return f"this system does not let a process give up its system calls (seccomp, errno {-note})"
    return "it crashes when it is called from its beginning again"


def measure_forks(argument: str) -> None:
    """Do what the specification says in the file that an argument names; never returns."""
    specification = specified(argument)
    session = start_session(NoiseSession, specification, __spec__.name)
    session.run()
    sys.stdout.flush()
    say(specification["channel"], b"D")
    os._exit(0)


if __name__ == "__main__":
    measure_forks(sys.argv[1])
