"""The second backend: QEMU's user mode with a plugin, for AArch64, RISC-V, and x86-64 code that the cloner refuses.

QEMU translates blocks of its own; what it executed is cut anew into basic blocks here, and the accesses it reported
are matched to instructions. Its AVX-512 does not exist and its gathers report wrong addresses (QEMU 7.2), so both are
refused.
"""

import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import as_file, files
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from perfkit.collectors.tracer.elf import ElfFile
from perfkit.collectors.tracer.recording import Recording
from perfkit.errors import DataError, NeverCalledError, UnavailableError, how_often
from perfkit.trace.code import NO_ACCESS, expand

if TYPE_CHECKING:
    from perfkit.collectors.tracer.tracer import Tracer

_EMULATORS = {"x86-64": "qemu-x86_64", "aarch64": "qemu-aarch64", "riscv64": "qemu-riscv64"}
_SYSROOTS = {"aarch64": "/usr/aarch64-linux-gnu", "riscv64": "/usr/riscv64-linux-gnu"}
_EXECUTION = np.dtype([("block", "<u4"), ("unused", "<u4"), ("events", "<u8")])
_EVENT = np.dtype([("address", "<u8"), ("instruction", "<u2"), ("size", "<u2"), ("store", "<u4")])
_PT_LOAD, _PF_X = 1, 1
# AArch64's and RISC-V's conditional stores, which QEMU makes of a compare-and-swap: its load is no load of theirs.
_CONDITIONAL_STORE = re.compile(r"^(stl?x[rp][bh]?|sc\.[wd](\.\w+)?)\b")
_X86_REPEATED = re.compile(r"^(rep|repz|repe|repnz|repne)\b")


@dataclass(frozen=True)
class _Instruction:
    """An instruction; `size` is that of its one memory operand where the decoder knows better than QEMU (else 0)."""

    pc: int
    code: bytes
    text: str
    function: str
    size: int = 0


def record(settings: "Tracer", path: Path, function: str, arguments: Sequence[str]) -> Recording:
    """Run a program under QEMU and record one function.

    Raises
    ------
    UnavailableError
        When QEMU or a C compiler is missing, or the code is of a kind that QEMU does not emulate truthfully.
    DataError
        When the program fails, or never calls the function.
    """
    elf = ElfFile(path)
    symbol = elf.function(function)
    emulator = _emulator(elf.isa)
    if elf.isa == "x86-64":
        start = next(
            s for s in elf.segments if s.kind == _PT_LOAD and s.address <= symbol.address < s.address + s.file_size
        )
        at = symbol.address - start.address + start.offset
        _refuse_what_qemu_gets_wrong([(symbol.address, elf.data[at : at + symbol.size])])
    with tempfile.TemporaryDirectory(prefix="perfkit-qemu-") as scratch:
        folder = Path(scratch)
        plugin = _build_plugin(folder)
        text = min(s.address for s in elf.segments if s.kind == _PT_LOAD and s.flags & _PF_X)
        options = {
            "lo": symbol.address,
            "hi": symbol.address + symbol.size,
            "text": text,
            "callees": int(settings.callees),
            "first": settings.skip + 1,
            "last": settings.skip + settings.repeat,
            "limit": settings.limit,
            "out": folder / "trace.",
        }
        argument = ",".join([str(plugin), *(f"{key}={value}" for key, value in options.items())])
        processor = [] if elf.isa == "riscv64" else ["-cpu", "max"]
        command = [emulator, *_sysroot(elf), *processor, "-plugin", argument, str(path), *arguments]
        stopped, status = _run(command, settings.timeout, folder)
        return _recording(elf, folder, settings, stopped, status, path.name, function)


def _emulator(isa: str) -> str:
    name = _EMULATORS[isa]
    if shutil.which(name) is None:
        raise UnavailableError(f"tracing {isa} code needs {name}, which is not installed (Debian's package qemu-user)")
    told = subprocess.run([name, "--version"], capture_output=True, text=True, check=False).stdout
    version = re.search(r"version (\d+)\.(\d+)", told)
    if version is None or not (6, 0) <= (int(version[1]), int(version[2])) <= (8, 1):
        raise UnavailableError(
            f"the plugin is written for QEMU 6.0 to 8.1; {name} says: {told.splitlines()[0] if told else 'nothing'}"
        )
    return name


def _sysroot(elf: ElfFile) -> list[str]:
    """Name where a dynamically linked foreign program finds its libraries (Debian's cross packages)."""
    root = _SYSROOTS.get(elf.isa)
    return ["-L", root] if root and elf.is_dynamic and Path(root).is_dir() else []


def _build_plugin(folder: Path) -> Path:
    compiler = next((name for name in ("gcc", "cc", "clang") if shutil.which(name)), None)
    if compiler is None:
        raise UnavailableError("QEMU's plugin must be compiled, and there is no C compiler (Debian's package gcc)")
    plugin = folder / "plugin.so"
    with as_file(files("perfkit.collectors.tracer") / "qemu_plugin.c") as source:
        command = [compiler, "-O2", "-shared", "-fPIC", "-Wl,--unresolved-symbols=ignore-all", "-o", str(plugin)]
        done = subprocess.run([*command, str(source)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise UnavailableError(f"QEMU's plugin does not compile: {done.stderr[:1000]}")
    return plugin


def _refuse_what_qemu_gets_wrong(pieces: Sequence[tuple[int, bytes]]) -> None:
    from iced_x86 import CpuidFeature, Decoder

    names = {value: name for name, value in vars(CpuidFeature).items() if isinstance(value, int)}
    for address, code in pieces:
        for i in Decoder(64, code, ip=address):
            features = [names[f] for f in i.cpuid_features()]
            wrong = "a gather" if i.is_vsib else next((f for f in features if f.startswith("AVX512")), "")
            if wrong:
                raise UnavailableError(
                    f"QEMU does not emulate {wrong} truthfully (at {i.ip:#x}); build it for AVX2 without gathers "
                    "(-march=haswell -mno-gather with clang, -mtune-ctrl=^use_gather with gcc), or use the cloner"
                )


def _run(command: list[str], timeout: float, folder: Path) -> tuple[str, int]:
    """Run QEMU; say why it was stopped, if it was, and its exit status."""
    with (folder / "output").open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        try:
            return "", process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise DataError(
                f"under QEMU the program still ran after {timeout:g} s; give it more time or a smaller limit"
            ) from None
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()


def _recording(
    elf: ElfFile, folder: Path, settings: "Tracer", stopped: str, status: int, program: str, function: str
) -> Recording:
    printed = (folder / "output").read_bytes()[-500:].decode(errors="replace").strip()
    printed = f" It printed: {printed}" if printed else ""
    code_file = folder / "trace.code"
    if not code_file.exists():
        raise UnavailableError(f"QEMU did not start (status {status}).{printed}")
    blocks, calls, executed, bias, left = _read_code(code_file, elf)
    if status < 0 or calls is None:
        raise DataError(f"the program crashed under QEMU (status {status}).{printed}")
    if calls == 0:
        raise NeverCalledError(f"{program} never called {function}; {NeverCalledError.WHY}.{printed}")
    executions = np.fromfile(folder / "trace.stream", dtype=_EXECUTION)
    events = np.fromfile(folder / "trace.memory", dtype=_EVENT)
    if not len(executions):
        raise DataError(
            f"{program} called {function} {how_often(calls)}; the trace was to begin with call {settings.skip + 1}"
        )
    if elf.isa == "x86-64" and settings.callees:
        _refuse_what_qemu_gets_wrong([(i.pc, i.code) for b in blocks for i in b])
    notes = {"exit_status": str(status), "load_bias": hex(bias)} if executed <= settings.limit else {}
    if left:
        notes["not_followed"] = ", ".join(sorted(left))
        notes["not_followed_calls"] = ", ".join(f"{name}: {count}" for name, count in sorted(left.items()))
    _refuse_changed([blocks[k] for k in np.unique(executions["block"])], function)
    # QEMU runs each turn of a repeated instruction as one of its own: the limit may be reached before so many of the
    # recording's instructions have run.
    stopped = stopped or (f"limit of {settings.limit} instructions" if executed > settings.limit else "")
    made = Rebuilt(blocks, executions, events).recording(elf.isa, notes, stopped)
    return made.within(settings.limit)


def _refuse_changed(blocks: Sequence[Sequence[_Instruction]], function: str) -> None:
    """Refuse code that was translated more than once and was not the same each time.

    Of an instruction that lies across two pages QEMU may tell the first page's bytes alone.
    """
    seen: dict[int, bytes] = {}
    for i in (i for block in blocks for i in block):
        before = seen.setdefault(i.pc, i.code)
        if not (before.startswith(i.code) or i.code.startswith(before)):
            raise DataError(
                f"code of {function}, or that it calls, at {i.pc:#x} was {seen[i.pc].hex()} and later {i.code.hex()}: "
                "self-modifying or generated code is not traced"
            )


def _read_code(path: Path, elf: ElfFile) -> tuple[list[list[_Instruction]], int | None, int, int, dict[str, int]]:
    """Read the translated blocks.

    Also calls seen (None if the plugin did not end), instructions, load bias, and the calls of what was not recorded.
    """
    blocks: list[list[_Instruction]] = []
    left: Counter[str] = Counter()
    calls, executed, bias = None, 0, 0
    for line in path.read_text(errors="replace").splitlines():
        kind, _, rest = line.partition(" ")
        if kind == "B":
            bias = int(rest.split()[2])
            blocks.append([])
        elif kind == "I":
            pc, code, symbol, text = (*rest.split(" ", 3), "")[:4]
            known = elf.holds(int(pc) - bias)
            name = known.name if known else symbol.strip("?")
            blocks[-1].append(_instruction(elf.isa, int(pc), bytes.fromhex(code), text, name))
        elif kind == "O":
            start, count = (int(word) for word in rest.split())
            known = elf.holds(start - bias)
            left[known.name if known else f"{start:#x}" if start else "others"] += count
        elif kind == "E":
            calls, executed = (int(word) for word in rest.split())
    return blocks, calls, executed, bias, dict(left)


def _instruction(isa: str, pc: int, code: bytes, text: str, function: str) -> _Instruction:
    """Make an instruction; x86-64 is decoded anew, for the same text as the cloner's and true operand sizes."""
    if isa != "x86-64":
        return _Instruction(pc, code, " ".join(text.split()), function)
    from iced_x86 import Decoder, Formatter, FormatterSyntax

    from perfkit.collectors.tracer.accesses import Refused, accesses

    i = Decoder(64, code, ip=pc).decode()
    try:
        found = accesses(i)
    except Refused:
        found = []
    # QEMU 7.2 reads 16 bytes for the scalar FMAs' 4 or 8.
    size = found[0].size if len(found) == 1 else 0
    return _Instruction(pc, code[: i.len or len(code)], Formatter(FormatterSyntax.INTEL).format(i), function, size)


class Rebuilt:
    """QEMU's executed translation blocks, as basic blocks with memory operands.

    Parameters
    ----------
    blocks : list of list of _Instruction
        QEMU's blocks, by number.
    executions : array of _EXECUTION
        Which block ran, and how many memory events came before.
    events : array of _EVENT
        Accesses, merged where they came in pieces.
    """

    def __init__(self, blocks: list[list[_Instruction]], executions: NDArray[Any], events: NDArray[Any]) -> None:
        self.blocks = blocks
        self.block = executions["block"].astype(np.int64)
        self.events = events
        bounds = np.append(executions["events"].astype(np.int64), len(events))
        self.execution = np.repeat(np.arange(len(executions)), np.diff(bounds))
        self.starts = np.cumsum([0, *(len(b) for b in blocks)])
        # The static instruction of an event, counted through all of QEMU's blocks.
        self.static = self.starts[self.block[self.execution]] + events["instruction"]
        self._drop_loads_of_stores()
        self._fold_repeated()

    def _drop_loads_of_stores(self) -> None:
        conditional = np.array([bool(_CONDITIONAL_STORE.match(i.text)) for b in self.blocks for i in b])
        if conditional.any() and len(self.static):
            keep = ~conditional[self.static] | (self.events["store"] != 0)
            self.events, self.execution, self.static = self.events[keep], self.execution[keep], self.static[keep]

    def _fold_repeated(self) -> None:
        """Make one execution of a REP string instruction's many: QEMU runs a block for every iteration."""
        last = np.array([bool(_X86_REPEATED.match(b[-1].text)) for b in self.blocks])
        first_pc = np.array([b[0].pc for b in self.blocks], dtype=np.uint64)
        last_pc = np.array([b[-1].pc for b in self.blocks], dtype=np.uint64)
        again = np.zeros(len(self.block), dtype=np.bool_)
        if last.any():
            again[1:] = last[self.block[:-1]] & (last_pc[self.block[:-1]] == first_pc[self.block[1:]])
        self.again = again
        if not again.any():
            return
        keep = np.cumsum(~again) - 1  # the execution that an iteration belongs to
        ends = self.starts[self.block + 1] - 1
        heads = np.flatnonzero(~again)
        moved = again[self.execution]
        self.static[moved] = ends[heads[keep[self.execution[moved]]]]
        self.execution = keep[self.execution]
        self.block = self.block[heads]

    def recording(self, isa: str, notes: dict[str, str], stopped: str) -> Recording:
        """Put everything together."""
        operands = self._operands()
        pieces, rows = self._basic_blocks(operands)
        which = expand(self.block.astype(np.uint32), np.cumsum([0, *(len(p) for p in pieces)]).astype(np.int32))
        stream = np.array([k for piece in pieces for k in piece], dtype=np.uint32)[which]
        addresses, sizes = self._place(operands)
        return Recording(isa, rows, stream, addresses, sizes, stopped, notes)

    def _operands(self) -> "_Operands":
        """Work out how many operands each instruction has, and of which kind, from all its executions."""
        count = int(self.starts[-1])
        # Instructions at the same address are one, in whichever block of QEMU's they lie.
        flat = [i for b in self.blocks for i in b]
        first_at: dict[int, int] = {}
        same = np.array([first_at.setdefault(i.pc, k) for k, i in enumerate(flat)], dtype=np.int64)
        which = same[self.static] if len(self.static) else np.empty(0, dtype=np.int64)
        string = np.array([bool(_X86_REPEATED.match(i.text)) for i in flat])
        address, size = self.events["address"].copy(), self.events["size"].astype(np.int64)
        store = self.events["store"] != 0
        known = np.array([i.size for i in flat], dtype=np.int64)[which] if len(which) else size
        size = np.where(known > 0, known, size)
        key = self.execution * count + which
        keep, updates = _fold_updates(key, address, size, store)
        keep &= ~string[which]
        place = _position_in_group(key[keep])
        nth = np.zeros(len(key), dtype=np.int64)
        nth[keep] = place
        _fold_strings(key, string[which], address, size, store, nth, keep)
        address, size, store = address[keep], size[keep], store[keep]
        which, nth, updates = which[keep], nth[keep], updates[keep]
        execution, static = self.execution[keep], self.static[keep]
        slots = np.zeros(count, dtype=np.int64)
        np.maximum.at(slots, which, nth + 1)
        offset = np.concatenate(([0], np.cumsum(slots)))
        slot = offset[which] + nth
        total = int(offset[-1])
        low, high = np.full(total, 1 << 40), np.zeros(total, dtype=np.int64)
        np.minimum.at(low, slot, size)
        np.maximum.at(high, slot, size)
        writes, reads = np.zeros(total, dtype=np.bool_), np.zeros(total, dtype=np.bool_)
        writes[slot[store]] = True
        writes[slot[updates]] = True
        reads[slot[~store]] = True
        fixed = np.where(low == high, high, 0)
        fixed[np.repeat(string, slots)] = 0
        return _Operands(same, slots, offset, reads, writes, fixed, execution, static, which, nth, address, size)

    def _basic_blocks(self, operands: "_Operands") -> tuple[list[list[int]], list[dict[str, Any]]]:
        """Cut QEMU's blocks where another one begins; say which pieces each is made of."""
        leaders = {b[0].pc for b in self.blocks}
        numbers: dict[tuple[int, ...], int] = {}
        pieces: list[list[int]] = []
        rows: list[dict[str, Any]] = []
        for b, start in zip(self.blocks, self.starts, strict=False):
            cuts = [k for k, i in enumerate(b) if k == 0 or i.pc in leaders] + [len(b)]
            parts = []
            for first, end in pairwise(cuts):
                key = tuple(i.pc for i in b[first:end])
                if key not in numbers:
                    numbers[key] = len(rows)
                    rows.append(
                        {
                            "function": b[first].function,
                            "instructions": [
                                [b[k].pc, b[k].code.hex(), b[k].text, operands.describe(int(start) + k)]
                                for k in range(first, end)
                            ],
                        }
                    )
                parts.append(numbers[key])
            pieces.append(parts)
        return pieces, rows

    def _place(self, operands: "_Operands") -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
        """Lay the events out: a slot for every operand of every executed instruction."""
        slots = operands.slots[operands.same]
        within = np.concatenate(([0], np.cumsum(slots)))  # of an instruction, through all of QEMU's blocks
        per_block = within[self.starts[1:]] - within[self.starts[:-1]]
        base = np.concatenate(([0], np.cumsum(per_block[self.block])))
        addresses = np.full(int(base[-1]), NO_ACCESS, dtype=np.uint64)
        block = self.block[operands.execution]
        at = base[operands.execution] + within[operands.static] - within[self.starts[block]] + operands.nth
        addresses[at] = operands.address
        all_sizes = np.zeros(len(addresses), dtype=np.uint32)
        all_sizes[at] = operands.size
        flat = expand(np.arange(len(slots), dtype=np.uint32), np.concatenate(([0], np.cumsum(slots))).astype(np.int32))
        of_slot = np.repeat(operands.offset[operands.same], slots) + (flat - np.repeat(within[:-1], slots))
        dynamic = operands.size_of[of_slot] == 0
        in_order = expand(self.block.astype(np.uint32), within[self.starts].astype(np.int32))
        return addresses, all_sizes[dynamic[in_order]]


@dataclass(frozen=True)
class _Operands:
    """Operands by instruction (`same` maps an instruction to the first at its address), and the events in order."""

    same: NDArray[np.int64]
    slots: NDArray[np.int64]
    offset: NDArray[np.int64]
    reads: NDArray[np.bool_]
    writes: NDArray[np.bool_]
    size_of: NDArray[np.int64]
    execution: NDArray[np.int64]
    static: NDArray[np.int64]
    which: NDArray[np.int64]
    nth: NDArray[np.int64]
    address: NDArray[np.uint64]
    size: NDArray[np.int64]

    def describe(self, instruction: int) -> list[list[Any]]:
        """List [read, write, size] of an instruction's operands."""
        k = self.same[instruction]
        return [
            [bool(self.reads[s]), bool(self.writes[s]), int(self.size_of[s])]
            for s in range(self.offset[k], self.offset[k] + self.slots[k])
        ]


def _position_in_group(key: NDArray[np.int64]) -> NDArray[np.int64]:
    """Position of each value in its run of equal values: 0, 1, 2, ... from the run's start."""
    if not len(key):
        return key
    new = np.concatenate(([True], key[1:] != key[:-1]))
    starts = np.flatnonzero(new)
    return np.arange(len(key)) - np.repeat(starts, np.diff(np.append(starts, len(key))))


def _fold_updates(
    key: NDArray[np.int64], address: NDArray[np.uint64], size: NDArray[np.int64], store: NDArray[np.bool_]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Find loads that the same instruction stores back to: the load stays, as a read-modify-write, the store goes."""
    keep, updates = np.ones(len(key), dtype=np.bool_), np.zeros(len(key), dtype=np.bool_)
    if len(key) > 1:
        back = store[1:] & ~store[:-1] & (key[1:] == key[:-1]) & (address[1:] == address[:-1]) & (size[1:] == size[:-1])
        keep[1:] = ~back
        updates[:-1] = back
    return keep, updates


def _fold_strings(
    key: NDArray[np.int64],
    string: NDArray[np.bool_],
    address: NDArray[np.uint64],
    size: NDArray[np.int64],
    store: NDArray[np.bool_],
    nth: NDArray[np.int64],
    keep: NDArray[np.bool_],
) -> None:
    """Make one access per direction of a REP string instruction's many, in place: the first of each is kept."""
    for run in np.unique(key[string]):
        members = np.flatnonzero(key == run)
        place = 0
        for direction in (False, True):
            part = members[store[members] == direction]
            if len(part):
                first = part[0]
                address[first], size[first] = address[part].min(), size[part].sum()
                nth[first], keep[first] = place, True
                place += 1
