"""The process that runs the traced code: ``python -m perfkit.collectors.tracer.child FILE``.

It loads the kernel or program, clones the region, patches the original's entry, and runs it with the buffers that its
parent (:mod:`perfkit.collectors.tracer.cloner`) mapped to file descriptors. A fault in the region, be it a crash or
the end of a buffer, writes its details to the parent, which lets the child go on or kills it.
"""

import ctypes
import gc
import json
import marshal
import mmap
import os
import re
import signal
import struct
import sys
import time
from bisect import bisect_left
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

_PERSONALITY_NO_RANDOMIZE = 0x0040000
_MAP_FIXED, _MAP_NORESERVE, _MAP_FIXED_NOREPLACE = 0x10, 0x4000, 0x100000
RWX = 7
_ARENA, _PLACE = 1 << 20, 1 << 24  # bytes that Python takes from the system at once; of which the places are multiples
_SA_SIGINFO, _SA_ONSTACK = 4, 0x08000000
_SYS_READ, _SYS_WRITEV, _SYS_ARCH_PRCTL, _ARCH_GET_FS = 0, 20, 158, 0x1003
_GREGS_OFFSET, _RIP = 40, 16  # of uc_mcontext.gregs in ucontext_t; where rip is in it
_UNWINDS = re.compile(
    r"__cxa_(re)?throw|__cxa_begin_catch|_Unwind_|__gxx_personality|__?rust_|pthread_(exit|cancel)|backtrace"
)
FAULT_SIZE = 128 + 184  # siginfo_t, then 23 registers


class Unloadable(Exception):  # noqa: N818 - as the other end has it
    """The code cannot be loaded; the message says why."""


S = TypeVar("S", bound="Session")

if TYPE_CHECKING:
    from perfkit.collectors.tracer.clone import ClonedBlock
    from perfkit.collectors.tracer.elf import ElfFile
    from perfkit.collectors.tracer.emit import Emitter
    from perfkit.collectors.tracer.pinned_child import Pinned


def say(channel: int, kind: bytes, payload: bytes = b"") -> None:
    """Send one message: a letter, a length, a payload."""
    message = kind + struct.pack("<I", len(payload)) + payload
    while message:
        message = message[os.write(channel, message) :]


def start_session(make: type[S], specification: dict[str, Any], module: str) -> S:
    """Return a session that is loaded and built; where that fails, tell the parent and end this process."""
    libc = ctypes.CDLL(None, use_errno=True)
    without_random_addresses(libc, specification, module)
    try:
        session = make(libc, specification)
        session.load()
        gc.disable()  # copies of large libraries are millions of objects, which all stay
        session.build()
        gc.freeze()
        gc.enable()
    except Exception as error:  # noqa: BLE001 - the parent raises it
        kind = {"Refused": b"R", "Unloadable": b"L"}.get(type(error).__name__, b"E")
        text = f"{type(error).__name__}: {error}" if kind == b"E" else str(error)
        say(specification["channel"], kind, text.encode())
        os._exit(0)
    return session


def unloaded(path: Path, said: str) -> str:
    """Say why the dynamic linker does not load a file, and what to do, from its own words.

    Parameters
    ----------
    path : Path
        The file.
    said : str
        What the linker said of it: ``undefined symbol: _Znwm``.
    """
    from perfkit.collectors.tracer.demangle import demangled

    _, found, symbol = said.partition("undefined symbol: ")
    name = demangled([symbol]).get(symbol, "")
    needed = f"it needs {symbol}{f' ({name})' if name else ''}, which no library that it is linked with defines"
    advice = "install what is missing, or name its folder in LD_LIBRARY_PATH"
    if found:
        advice = "link the one that does (flags: -lNAME), or define it in the source"
    return f"{path.name} cannot be loaded: {needed if found else said}; {advice}"


def unwinds(*files: "ElfFile") -> bool:
    """Whether exceptions may pass functions of these files, or something else that walks up the stack."""
    names = (name for file in files for name in (*file.imports.values(), *file.functions))
    return any(map(_UNWINDS.match, names))


def _extent(block: "ClonedBlock") -> tuple[int, int]:
    """Return where a block begins, and how many bytes it has."""
    start = block.instructions[0].ip
    return start, block.instructions[-1].next_ip - start


def handed(specification: dict[str, Any]) -> tuple[int, str]:
    """Return a file in memory that holds a specification, and the argument that names it to a child.

    Not the specification itself: the stack of a process begins below its arguments, so that a region's addresses would
    depend on the lengths of paths and lists; and an argument of more than 128 KiB is refused.
    """
    file = os.memfd_create("perfkit-specification", 0)
    with os.fdopen(file, "wb", closefd=False) as out:
        out.write(json.dumps(specification).encode())
    return file, f"{file:08d}"


def specified(argument: str) -> dict[str, Any]:
    """Return the specification in the file that an argument names."""
    with os.fdopen(int(argument), "rb") as file:
        file.seek(0)
        return dict(json.load(file))


def main(argument: str, make: "type[Session]", module: str) -> None:
    """Do what the specification says in the file that an argument names; never returns."""
    specification = specified(argument)
    channel = specification["channel"]
    session = start_session(make, specification, module)
    say(channel, b"I", marshal.dumps(session.describe()))  # thousands of blocks: JSON takes five times as long
    os.read(specification["answers"], 1)
    session.run()
    if session.code_changed():
        say(channel, b"M")
    sys.stdout.flush()
    say(channel, b"D")
    os.read(specification["answers"], 1)  # the parent looks at what is mapped here, then ends this process
    os._exit(0)


def without_random_addresses(libc: Any, specification: dict[str, Any], module: str) -> None:
    """Start anew with reproducible addresses where the kernel allows it; a container may not."""
    random = not libc.personality(0xFFFFFFFF) & _PERSONALITY_NO_RANDOMIZE
    if specification.get("again"):
        return
    anew = random and libc.personality(_PERSONALITY_NO_RANDOMIZE) != -1
    if specification.get("pinned"):
        from perfkit.collectors.tracer.pinned_child import bounded_stack

        anew |= bounded_stack()
    if anew:
        file, argument = handed(specification | {"again": True})
        os.set_inheritable(file, True)
        os.execv("/proc/self/exe", [sys.executable, "-P", "-m", module, argument])  # noqa: S606


class Session:
    """What the child holds: the loaded code, its clone, the mapped buffers."""

    def __init__(self, libc: Any, specification: dict[str, Any]) -> None:
        self.libc = libc
        self.pins: Pinned | None = None
        self.spec = specification
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
        libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        self.memory = os.open("/proc/self/mem", os.O_RDONLY)
        self.pages = 1  # of contexts
        self._first: dict[int, bytes] = {}  # what was overwritten at the entries

    def read(self, address: int, size: int) -> bytes:
        """Read memory; OSError where there is none."""
        data = os.pread(self.memory, size, address)
        if len(data) != size:
            raise OSError(f"no {size} bytes at {address:#x}")
        return data

    def load(self) -> None:
        """Load the code, before anything else is mapped: so that its addresses are the same every time."""
        from perfkit.collectors.tracer.copied import bind, construct, held_before, load_mode
        from perfkit.collectors.tracer.elf import ElfFile

        spec = self.spec
        self.elf = ElfFile(spec["path"])
        path = spec["path"]
        program = spec["program"] and not spec.get("script")
        if program:
            path = str(Path(spec["scratch"]) / "program.so")
            # Constructors may look into what is copied (a type, a virtual function); pinned ones have a heap of theirs.
            late = bool(self.elf.copied) and not spec.get("pinned")
            Path(path).write_bytes(self.elf.without_pie_flag(constructs=not late))
            before = held_before(self.elf)
        mode = ctypes.RTLD_GLOBAL if program else load_mode(self.elf)
        if spec.get("pinned"):
            import perfkit.collectors.tracer.pinned_child as pinning

            self.pins = pinning.Pinned(self.libc)
        else:
            self._reserve()
        try:
            self.library = self.pins.load(path, mode) if self.pins else ctypes.CDLL(path, mode=mode)
        except OSError as error:
            raise Unloadable(unloaded(Path(spec["path"]), str(error).removeprefix(f"{path}: "))) from error
        if program:
            bind(self.elf, self.library._handle, before, self.libc)
            if late:
                construct(self.elf, self.library._handle)
        # A dlopen handle is glibc's link_map, whose first field is the load address.
        self.load_address = ctypes.c_uint64.from_address(self.library._handle).value
        self.home, self.home_address = self.elf, self.load_address
        if spec.get("library"):  # the function lies in a library that the program loads, now or later
            self.home = ElfFile(spec["library"])
            other = ctypes.CDLL(spec["library"])
            self.home_address = ctypes.c_uint64.from_address(other._handle).value

    def _reserve(self) -> None:
        """Have what is mapped next lie below a whole place: Python's arenas, of 1 MiB each, depend on lengths of paths.

        The lowest twenty bits stay what they are: sets of caches are told by them.
        """
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
        probe = self.libc.mmap(None, _ARENA, 0, flags, -1, 0)  # larger ones are aligned to huge pages
        if probe in (None, 2**64 - 1):
            return
        self.libc.munmap(probe, _ARENA)
        end = probe + _ARENA
        size = end % _PLACE & -_ARENA
        if size:
            self.libc.mmap(end - size, size, 0, flags | _MAP_FIXED_NOREPLACE, -1, 0)

    def entry(self) -> Any:
        """Return the function that the region begins with."""
        from perfkit.collectors.tracer.clone import Function

        symbol = self.home.function(self.spec["function"])
        return Function(symbol.name, self.home_address + symbol.address, symbol.size)

    def build(self) -> None:
        """Decode, clone and patch."""
        from perfkit.collectors.tracer import clone as cloning

        spec = self.spec
        entry = self.entry()
        bodies = self.bodies(entry)
        self.region = cloning.Region(
            entry, self.read, self._unwritten, spec["callees"], set(spec["leaders"]), self._pointed(), bodies,
            likely=None if spec.get("pinned") else self._of_files, threads=self.pages > 1,
        )  # fmt: skip
        self._map_buffers()
        count = sum(len(block.instructions) for block in self.region.blocks)
        slots = sum(block.slots for block in self.region.blocks)
        copies = sum(20 * each.size + 512 for each in self.region.entries)
        room = 8192 + 400 * count + 400 * slots + copies
        base = self._near(entry.start, room + 4096 * (self.pages + 3))
        self.context, place = base, base + 4096 * (self.pages + 1)
        mapped = self.libc.mmap(base, 4096 * self.pages, 3, mmap.MAP_SHARED | _MAP_FIXED, spec["context"], 0)
        if mapped != base:
            raise OSError(f"cannot map the context page (errno {ctypes.get_errno()})")
        plain, walked = {}, unwinds(self.elf, self.home)
        for function in self.region.entries:
            copy = cloning.plain_copy(self.region, function, place, unwinds=walked)
            ctypes.memmove(place, copy, len(copy))
            plain[function.start], place = place, place + len(copy) + -len(copy) % 64
        address = place + 4096
        tables = self._tables()
        late = bool(spec.get("after"))
        threads = self.pages > 1
        made = cloning.clone(self.region, base, address, plain, tables, threads=threads, late=late, unwinds=walked)
        if address + len(made.code) > base + room + 4096 * (self.pages + 3):
            raise OSError("the clone is larger than expected")
        ctypes.memmove(address, made.code, len(made.code))
        self._fill_tables(tables, made.starts, address)
        self._set_context()
        self.stub = made.stubs[entry.start]
        for function in [] if late else self.region.entries:
            self._patch(function, made.stubs[function.start])
        self._starts = [[at, copy, at in entry] for at, copy in made.starts.items()] if late else []
        self._code = [self._original(*_extent(block)) for block in self.region.blocks]

    def bodies(self, entry: Any) -> list[Any]:  # noqa: ARG002 - of several threads
        """Return more functions that are traced while the entry is."""
        return []

    def describe(self) -> dict[str, Any]:
        """Everything static that the parent needs."""
        blocks = []
        for block, code in zip(self.region.blocks, self._code, strict=True):
            rows, start = [], block.instructions[0].ip
            for i, each in zip(block.instructions, block.accesses, strict=True):
                operands = [[a.read, a.write, a.size] for a in each for _ in range(a.slots)]
                rows.append([i.ip, code[i.ip - start : i.next_ip - start].hex(), "", operands])
            last = block.instructions[-1]
            target = last.near_branch_target if last.is_call_near else 0
            calls = self._name(target) if target else ""
            leaves = 0
            if (last.is_call_near or last.is_jmp_short_or_near) and last.near_branch_target in self.region.outside:
                leaves = last.near_branch_target
            blocks.append({"function": block.function, "instructions": rows, "calls": calls, "leaves": leaves})
        outside = [[target, self._name(target)] for target in self.region.outside]
        return {
            "blocks": blocks,
            "patched": [*self._first, *(each.start for each in self._handlers().values())],
            "outside": outside,
            "block_buffers": [each["blocks"] for each in self.buffers],
            "loaded": self._loaded(),
            "starts": self._starts,
        }

    def _loaded(self) -> list[list[Any]]:
        """Path, start, end and load address of each file that the region's code lies in."""
        end = self.load_address + max(s.address + s.file_size for s in self.elf.segments if s.kind == 1)
        found = [[self.spec["path"], self.load_address, end, self.load_address]]
        for function in self.region.functions:
            if not self.load_address <= function.start < end:
                self._find(0)
                module = self.modules.module(function.start)
                row = [module.path, module.start, module.end, module.load_address] if module else None
                if row and row not in found:
                    found.append(row)
        return found

    def run(self) -> None:
        """Run the program, or call the kernel as often as asked."""
        self._catch_faults()
        self._watch_forks()
        if self.spec["program"]:
            self._hold_handlers()
        if self.spec.get("script"):
            self._run_script()
        elif self.spec["program"]:
            self._run_program()
        else:
            self._run_kernel()

    def code_changed(self) -> bool:
        """Whether the traced code is no longer what was cloned."""
        return any(
            self._original(*_extent(block)) != code for block, code in zip(self.region.blocks, self._code, strict=True)
        )

    def _run_program(self) -> None:
        path = self.spec["path"] if self.pins is None else Path(self.spec["path"]).name
        words = [os.fsencode(word) for word in [path, *self.spec["arguments"]]]
        main_symbol = self.elf.functions.get("main")
        if main_symbol is None:
            raise OSError("the program has no symbol main")
        function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
        main = self.load_address + main_symbol.address
        if self.pins is not None:
            where, environment = self.pins.words(words), self.pins.environment(self.spec["pinned"])
            main = self.pins.trampoline(main, self._near)
        else:
            argv = (ctypes.c_char_p * (len(words) + 1))(*words, None)
            where, environment = ctypes.addressof(argv), ctypes.c_void_p.in_dll(ctypes.CDLL(None), "environ").value or 0
        call = function(main)
        self._ready()
        status = call(len(words), where, environment)
        self.libc.fflush(None)
        say(self.spec["channel"], b"X", struct.pack("<i", status))

    def _run_script(self) -> None:
        """Run a Python script here, in the interpreter that there is."""
        import runpy
        import traceback

        script, status = self.spec["script"], 0
        sys.argv = [script, *self.spec["arguments"]]
        sys.path.insert(0, str(Path(script).parent))
        try:
            runpy.run_path(script, run_name="__main__")
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException:  # noqa: BLE001 - the script's own, shown as Python does
            traceback.print_exc()
            status = 1
        say(self.spec["channel"], b"X", struct.pack("<i", status))

    def _run_kernel(self) -> None:
        setup = self.spec["setup"]
        if setup:
            getattr(self.library, setup)()
        at = self.stub if self.pins is None else self.pins.trampoline(self.stub, self._near)
        function: Any = ctypes.CFUNCTYPE(None)(at)
        function.argtypes = None
        arguments: list[Any] = []
        self._keep: list[Any] = []
        self._placed: list[tuple[int, ...]] = []
        for number, (kind, value) in enumerate(self.spec["arguments"], 1):
            if kind == "array":
                arguments.append(self._array(value, number))
            else:
                arguments.append(
                    {"int": ctypes.c_int64, "double": ctypes.c_double, "float": ctypes.c_float}[kind](value)
                )
        if self.pins is not None:
            self.pins.environment(self.spec["pinned"])
        say(self.spec["channel"], b"A", json.dumps(self._placed).encode())
        self._ready()
        start, cpu = time.perf_counter(), time.process_time()
        for _ in range(self.spec["calls"]):
            function(*arguments)
        seconds = time.perf_counter() - start, time.process_time() - cpu
        say(self.spec["channel"], b"T", struct.pack("<2d", *seconds))

    def _ready(self) -> None:
        """Pin what is left, as the last thing before the code runs; tell the parent where, without allocating."""
        if self.pins is not None:
            from perfkit.collectors.tracer.emit import PINNED

            page = (ctypes.c_uint64 * 5).from_address(self.context + PINNED)
            page[:] = self.pins.ready(self.fs_base())  # type: ignore[call-overload]  # any sequence will do

    def _array(self, path: str, number: int) -> ctypes.c_void_p:
        """Load an array at an address that is a multiple of 64; note where argument `number` lies."""
        import numpy as np

        values = np.load(path, allow_pickle=False)
        if self.pins is not None:
            return ctypes.c_void_p(self.pins.place_array(values.tobytes(order="A")))
        room = np.zeros(values.nbytes + 64, dtype=np.uint8)
        start = -room.ctypes.data % 64
        room[start : start + values.nbytes] = np.frombuffer(values.tobytes(order="A"), dtype=np.uint8)
        self._keep.append(room)
        # Before the room is the size that malloc keeps of it, which only malloc reads.
        before = start + (0 if self.spec["callees"] else 8)
        self._placed.append((number, room.ctypes.data + start, values.nbytes, before, 64 - start))
        return ctypes.c_void_p(room.ctypes.data + start)

    def _pointed(self) -> list[int]:
        """Return where functions lie that earlier attempts called through pointers; files may have moved since."""
        found = []
        for path, offset in self.spec["pointed"]:
            if path:
                self._find(0)
                found += [start + offset for start in {m.load_address for m in self.modules.at(path)}]
            else:
                found.append(self.load_address + offset)
        return found

    def _of_files(self, functions: list[Any]) -> list[int]:
        """Return what libc calls through its table of a file's functions, where a region uses files.

        Most of it is seldom called (once per buffer), and each one met would have the recording begin anew.
        """
        if not any(function.name.startswith("_IO_") for function in functions):
            return []
        try:  # struct _IO_jump_t of glibc's libioP.h: two numbers, then the functions
            table = (ctypes.c_uint64 * 21).in_dll(ctypes.CDLL(None), "_IO_file_jumps")
        except ValueError:
            return []
        return [address for address in table[2:] if address]

    def _find(self, address: int) -> Any:
        if not hasattr(self, "modules"):
            from perfkit.collectors.tracer.modules import Modules

            self.modules = Modules(self.read)
        return self.modules.function(address)

    def _unwritten(self, address: int) -> Any:
        """Return the function that an address lies in, unless the program may write its code."""
        found = self._find(address)
        module = self.modules.module(address)
        writable = module and module.elf and module.elf.is_writable(address - module.load_address)
        return None if writable else found

    def _name(self, address: int) -> str:
        found = self._find(address)
        return found.name.removesuffix("@plt") if found is not None else f"{address:#x}"

    def _original(self, address: int, size: int) -> bytes:
        """Machine code as it was before the entry was patched."""
        code = bytearray(self.read(address, size))
        for start, first in self._first.items():
            for at in range(max(start, address), min(start + len(first), address + size)):
                code[at - address] = first[at - start]
        return bytes(code)

    def _map_buffers(self) -> None:
        self.buffers = [self._mapped_buffers(handles) for handles in self.spec["buffers"]]

    def _mapped_buffers(self, handles: dict[str, int]) -> dict[str, list[int]]:
        """Map one thread's buffers: name -> address and size."""
        found = {}
        ratio = max((block.slots / len(block.instructions) for block in self.region.blocks), default=0)
        longest = max(len(block.instructions) for block in self.region.blocks)
        most = self.spec["limit"] + 32768 * longest
        sizes = {"blocks": 4 * most, "addresses": int(8 * ratio * most) + 65536, "sizes": int(4 * ratio * most) + 65536}
        for name, size in sizes.items():
            handle = handles[name]
            size = -(-size // 4096) * 4096
            if name != "blocks":  # the parent lets that one grow step by step
                os.ftruncate(handle, size)
            at = self.libc.mmap(None, size, 3, mmap.MAP_SHARED | _MAP_NORESERVE, handle, 0)
            if at in (None, 2**64 - 1):
                raise OSError(f"cannot map {size} bytes for {name} (errno {ctypes.get_errno()})")
            found[name] = [at, size]
        return found

    def _near(self, address: int, size: int) -> int:
        """Map writable and executable memory within reach of 32-bit displacements."""
        size = -(-size // 4096) * 4096
        for step in range(1, 1800):
            for sign in (1, -1):
                want = (address + sign * step * 0x100000) & ~0xFFF
                flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_FIXED_NOREPLACE
                at = self.libc.mmap(want, size, RWX, flags, -1, 0) if want > 0 else None
                if at == want:
                    return int(at)
                if at not in (None, 2**64 - 1):
                    self.libc.munmap(at, size)
                elif ctypes.get_errno() in (1, 13):
                    raise OSError("this system forbids memory that is both writable and executable")
        raise OSError("no free memory within 2 GB of the function")

    def place(self, instructions: list[Any], address: int) -> None:
        """Write instructions to an address."""
        from perfkit.collectors.tracer.clone import encoded

        code = encoded(instructions, address)
        ctypes.memmove(address, code, len(code))

    def _tables(self) -> list[tuple[int, int, int]]:
        """Allocate a table for each function where targets are looked up at run time."""
        if not self.region.has_lookups:
            return []
        self._table_memory = [(ctypes.c_int32 * f.size)() for f in self.region.functions]
        return [
            (f.start, f.size, ctypes.addressof(table))
            for f, table in zip(self.region.functions, self._table_memory, strict=True)
        ]

    def _fill_tables(self, tables: list[tuple[int, int, int]], starts: dict[int, int], address: int) -> None:
        copied = sorted(starts)
        for (start, size, _), table in zip(tables, getattr(self, "_table_memory", []), strict=False):
            for original in copied[bisect_left(copied, start) : bisect_left(copied, start + size)]:
                table[original - start] = starts[original] - address

    def _set_context(self) -> None:
        self._fill_page(self.context, self.buffers[0])

    def _fill_page(self, page: int, buffers: dict[str, list[int]], more: dict[int, int] | None = None) -> None:
        """Set the values of a context page that the clone begins with."""
        from perfkit.collectors.tracer import emit

        values = {
            emit.BLOCK_POINTER: buffers["blocks"][0],
            emit.ADDRESS_POINTER: buffers["addresses"][0],
            emit.SIZE_POINTER: buffers["sizes"][0],
            emit.FIRST_CALL: self.spec["first_call"],
            emit.LAST_CALL: self.spec["last_call"],
            emit.MINUS_ONE: 2**64 - 1,
            **(more or {}),
        }
        for offset, value in values.items():
            ctypes.c_uint64.from_address(page + offset).value = value

    def fs_base(self) -> int:
        """Return where this thread's own memory begins."""
        fs = ctypes.c_uint64()
        self.libc.syscall(_SYS_ARCH_PRCTL, _ARCH_GET_FS, ctypes.byref(fs))
        return fs.value

    def _patch(self, entry: Any, stub: int) -> None:
        """Overwrite the function's first bytes with a jump to the stub."""
        from perfkit.collectors.tracer.accesses import Refused

        first = self.read(entry.start, 16)
        if entry.size < 5 and not self.spec["program"]:
            return  # the stub is called directly
        if entry.size < 5 and first[entry.size : 5].strip(b"\x90\xcc\x00\x66\x2e\x0f\x1f\x44\x84\x40"):
            raise Refused(f"{entry.name} is too short to be patched ({entry.size} bytes)")
        page = entry.start & ~0xFFF
        if self.libc.mprotect(page, 8192, RWX):
            raise OSError(f"cannot make the function's code writable (errno {ctypes.get_errno()})")
        self._first[entry.start] = first[:5]
        ctypes.memmove(entry.start, b"\xe9" + struct.pack("<i", stub - entry.start - 5), 5)

    def _catch_faults(self) -> None:
        """On a fault: write its details to the parent, wait for its answer, try again."""
        from iced_x86 import Code, MemoryOperand, Register

        from perfkit.collectors.tracer.clone import encoded
        from perfkit.collectors.tracer.emit import Emitter, Immediate

        header = ctypes.create_string_buffer(b"F" + struct.pack("<I", FAULT_SIZE))
        self._keep_handler = [header, ctypes.create_string_buffer(1 << 16)]
        e = Emitter(self.context)
        # The kernel calls handler(rdi = signal, rsi = siginfo, rdx = ucontext). Three parts are written at once, so
        # that no other thread's come between; their list, and the answer, lie on the stack.
        rsp, rax, rsi, rdx = Register.RSP, Register.RAX, Register.RSI, Register.RDX
        numbers = [signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL]
        e.code(Code.MOV_R64_RM64, Register.RBX, rdx)  # the kernel puts all registers back
        e.lea(rsp, MemoryOperand(rsp, displ=-56, displ_size=1))
        parts = [(rax, 5), (rsi, 128), (rdx, 184)]
        e.constant(rax, ctypes.addressof(header))
        e.lea(rdx, MemoryOperand(rdx, displ=_GREGS_OFFSET, displ_size=1))
        for k, (start, size) in enumerate(parts):
            e.code(Code.MOV_RM64_R64, MemoryOperand(rsp, displ=16 * k, displ_size=1), start)
            e.code(Code.MOV_RM64_IMM32, MemoryOperand(rsp, displ=16 * k + 8, displ_size=1), Immediate(size))
        for number, handle, count in (
            (_SYS_WRITEV, self.spec["channel"], len(parts)),
            (_SYS_READ, self.spec["answers"], 1),
        ):
            e.code(Code.MOV_R32_IMM32, Register.EDI, Immediate(handle))
            e.code(Code.MOV_R64_RM64, rsi, rsp)
            e.code(Code.MOV_R32_IMM32, Register.EDX, Immediate(count))
            e.code(Code.MOV_R32_IMM32, Register.EAX, Immediate(number))
            e.code(Code.SYSCALL)
        e.lea(rsp, MemoryOperand(rsp, displ=56, displ_size=1))
        if self.spec.get("after"):
            numbers.append(signal.SIGTRAP)
            self._go_on_in_copy(e)
        e.code(Code.RETNQ)
        place = self._near(self.context, 4096)
        code = encoded(e.out, place)
        ctypes.memmove(place, code, len(code))
        stack = struct.pack("<QiiQ", ctypes.addressof(self._keep_handler[1]), 0, 0, 1 << 16)
        self.libc.sigaltstack(stack, None)
        # struct sigaction of glibc on x86-64: handler, mask (128 bytes), flags, restorer (which glibc fills in).
        action = struct.pack("<Q128siiQ", place, bytes(128), _SA_SIGINFO | _SA_ONSTACK, 0, 0)
        for number in numbers:
            if self.libc.sigaction(int(number), action, None):
                raise OSError(f"cannot catch signal {number} (errno {ctypes.get_errno()})")

    def _go_on_in_copy(self, e: "Emitter") -> None:
        """Have the handler, rbx with the interrupted context, change where it goes on, if the parent named a place."""
        from iced_x86 import Code, MemoryOperand, Register

        from perfkit.collectors.tracer import emit
        from perfkit.collectors.tracer.emit import Immediate
        from perfkit.collectors.tracer.entry import OWN_THREAD

        end = e.new_label()
        e.load(emit.RAX, emit.LATE)
        e.code(Code.TEST_RM64_R64, emit.RAX, emit.RAX)
        e.branch(Code.JE_REL32_64, end)
        place = MemoryOperand(Register.RBX, displ=_GREGS_OFFSET + 8 * _RIP, displ_size=8)
        e.code(Code.MOV_RM64_R64, place, emit.RAX)
        e.code(Code.MOV_R64_RM64, emit.RAX, OWN_THREAD)
        e.store(emit.FS_BASE, emit.RAX)
        e.code(Code.MOV_RM64_IMM32, e.slot(emit.LATE), Immediate(0))
        e.label(end)

    def _handlers(self) -> dict[str, Any]:
        """Return the functions that set handlers of signals, where a program may call them."""
        names = ("sigaction", "signal") if self.spec["program"] else ()
        return {name: self._find(ctypes.cast(getattr(self.libc, name), ctypes.c_void_p).value or 0) for name in names}

    def _hold_handlers(self) -> None:
        """Have a program's own handlers of faults, as gfortran's runtime sets them, not replace those of the recording.

        They end a recording at its limit. Asked for the old handler, `sigaction` still answers.
        """
        from iced_x86 import Code, Instruction, Register

        from perfkit.collectors.tracer import clone as cloning
        from perfkit.collectors.tracer.emit import Emitter, Immediate

        for name, function in self._handlers().items():
            code = cloning.Region(function, self.read, lambda _: None).instructions(function)
            end = next(i.next_ip for i in code if i.next_ip >= function.start + 5)
            if any(function.start < i.near_branch_target < end for i in code if i.is_jcc_short_or_near):
                continue
            place = self._near(function.start, 8192)
            first = [i.copy() for i in code if i.ip < end]
            plain = cloning.encoded([*first, Instruction.create_branch(Code.JMP_REL32_64, end)], place)
            ctypes.memmove(place, plain, len(plain))
            e = Emitter(0)
            held = e.new_label()
            traps = [signal.SIGTRAP] if self.spec.get("after") else []
            for number in (signal.SIGBUS, signal.SIGSEGV, *traps):
                e.code(Code.CMP_RM32_IMM8, Register.EDI, Immediate(int(number)))
                e.branch(Code.JE_REL32_64, held)
            e.branch(Code.JMP_REL32_64, place)
            e.label(held)
            if name == "signal":  # the old handler was the default
                e.code(Code.XOR_R32_RM32, Register.EAX, Register.EAX)
                e.code(Code.RETNQ)
            else:
                e.code(Code.XOR_R32_RM32, Register.ESI, Register.ESI)
                e.branch(Code.JMP_REL32_64, place)
            stub = cloning.encoded(e.out, place + 4096)
            ctypes.memmove(place + 4096, stub, len(stub))
            self._patch(function, place + 4096)

    def _watch_forks(self) -> None:
        """Have a fork outside of the region leave the new process alone, and one inside of it stop the recording."""
        from perfkit.collectors.tracer import entry
        from perfkit.collectors.tracer.clone import encoded
        from perfkit.collectors.tracer.emit import Emitter

        before, after = (Emitter(self.context, threads=self.pages > 1) for _ in range(2))
        entry.before_fork(before)
        entry.after_fork(after, self._first)
        functions = []
        for e in (before, after):
            place = self._near(self.context, 4096)
            code = encoded(e.out, place)
            ctypes.memmove(place, code, len(code))
            functions.append(place)
        register = getattr(self.libc, "__register_atfork")  # pthread_atfork, which programs have a copy of
        register.argtypes = [ctypes.c_void_p] * 4
        register(functions[0], None, functions[1], None)


if __name__ == "__main__":
    main(sys.argv[1], Session, __spec__.name)
