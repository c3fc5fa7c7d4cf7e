"""What traces are made of: static code, provenance and windows of executed blocks (see `perfkit.trace.trace`)."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from perfkit.errors import DataError, of_extra

if TYPE_CHECKING:
    import pandas as pd

ISAS = ("x86-64", "aarch64", "riscv64")
NO_ACCESS = 0xFFFF_FFFF_FFFF_FFFF
"""The address of an operand that did not access memory this time (a gather's masked-off lane, a count of zero)."""


@dataclass(frozen=True)
class Provenance:
    """Where a trace comes from. Every field is text or a flag; empty means unknown.

    Parameters
    ----------
    workload, function : str
        What ran (a program, a kernel's name) and the region of interest in it.
    backend : str
        ``"cloner"``, ``"qemu"`` or ``"hand-made"``, with why it was chosen in `backend_reason`.
    kind : {"recorded", "generated"}
        Recorded from an execution, or generated without one.
    complete : bool
        False when recording stopped early; `stopped` then says why.
    extra : mapping of str to str
        Whatever else a backend has to say (calls that were not followed, versions of tools).
    sources : mapping of str to str
        Texts of the source files that :attr:`StaticCode.file` names, for kernels that were given as source.
    """

    workload: str = ""
    function: str = ""
    backend: str = "hand-made"
    backend_reason: str = ""
    kind: str = "generated"
    command: str = ""
    compiler: str = ""
    flags: str = ""
    binary_sha256: str = ""
    host: str = ""
    created: str = ""
    complete: bool = True
    stopped: str = ""
    extra: Mapping[str, str] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self.kind not in ("recorded", "generated"):
            raise DataError(f"a trace's kind is 'recorded' or 'generated', not {self.kind!r}")
        if not isinstance(self.complete, bool):
            raise DataError(f"whether a trace is complete is true or false, not {self.complete!r}")

    @property
    def title(self) -> str:
        """What ran, for people: ``workload:function``, as its source names it; "" where nothing is known."""
        return f"{self.workload}:{self.extra.get('source_name', self.function)}".strip(":")

    @property
    def missing(self) -> tuple[str, ...]:
        """What ran and is not in the trace: functions that it called, and what came after it stopped."""
        called = self.extra.get("not_followed_calls", "")
        return (
            *((f"functions that it called (name: calls): {called}",) if called else ()),
            *((f"the rest of the run: recording ended at the {self.stopped}",) if not self.complete else ()),
        )

    @property
    def lacks_callees(self) -> str:
        """A warning that the trace lacks functions which callees=True would have recorded; "" where it does not."""
        called = self.extra.get("not_followed_calls", "")
        if not called or self.extra.get("callees") == "True":
            return ""
        return (
            f"{self.function or self.workload or 'the trace'}: the trace lacks functions that it called (name: calls): "
            f"{called}; their time is missing. Record with callees (perfkit trace --callees, callees=True)"
        )


@dataclass(frozen=True)
class StaticCode:
    """Every instruction of a trace once, ordered by basic block; ``n`` instructions, ``b`` blocks, ``m`` operands.

    Parameters
    ----------
    isa : str
        One of :data:`ISAS`.
    pc : (n,) uint64
        Virtual address of the instruction in the traced process.
    encoding : tuple of bytes, length n
        Its machine code; ``len(encoding[i])`` is its length.
    text : tuple of str, length n
        Its disassembly (Intel syntax for x86-64), for people.
    function : tuple of str, length n
        The symbol it lies in, ``""`` when unknown.
    block_start : (b + 1,) int32
        Block ``k`` is made of instructions ``block_start[k]`` to ``block_start[k + 1] - 1``. Blocks are entered at
        their first instruction and run to their last.
    operand_start : (n + 1,) int32
        Instruction ``i`` has memory operands ``operand_start[i]`` to ``operand_start[i + 1] - 1``, in the order in
        which their addresses are recorded. A gather has one operand per lane.
    read, write : (m,) bool
        Whether the operand is loaded, stored, or both (read-modify-write).
    size : (m,) uint32
        Bytes accessed; 0 where the size is dynamic (REP strings, masked vectors) and recorded in `Trace.sizes`.
    file : tuple of str, length n
        The source file that the instruction comes from, ``""`` where unknown; nothing given: all unknown.
    line : (n,) int32
        The line in it, from 1; 0 where unknown.
    """

    isa: str
    pc: NDArray[np.uint64]
    encoding: tuple[bytes, ...]
    text: tuple[str, ...]
    function: tuple[str, ...]
    block_start: NDArray[np.int32]
    operand_start: NDArray[np.int32]
    read: NDArray[np.bool_]
    write: NDArray[np.bool_]
    size: NDArray[np.uint32]
    file: tuple[str, ...] = ()
    line: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, dtype=np.int32))

    def __post_init__(self) -> None:
        if not len(self.file) and not len(self.line):
            object.__setattr__(self, "file", ("",) * len(self.pc))
            object.__setattr__(self, "line", np.zeros(len(self.pc), dtype=np.int32))
        kinds = {"pc": np.uint64, "block_start": np.int32, "operand_start": np.int32, "line": np.int32}
        for name, kind in (kinds | {"read": np.bool_, "write": np.bool_, "size": np.uint32}).items():
            object.__setattr__(self, name, flat(getattr(self, name), kind, name))
        for name in ("encoding", "text", "function", "file"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if self.isa not in ISAS:
            raise DataError(f"unknown instruction set {self.isa!r}; known: {', '.join(ISAS)}")
        n, m = len(self.pc), len(self.size)
        for name in ("encoding", "text", "function", "file", "line"):
            _same_length(name, len(getattr(self, name)), "pc", n)
        for name in ("read", "write"):
            _same_length(name, len(getattr(self, name)), "size", m)
        _check_offsets("block_start", self.block_start, n, strict=True)
        _same_length("operand_start", len(self.operand_start), "pc (plus one)", n + 1)
        _check_offsets("operand_start", self.operand_start, m, strict=False)
        if (self.line < 0).any():
            raise DataError(f"lines begin with 1 (0: unknown); found {self.line.min()}")
        idle = np.flatnonzero(~(self.read | self.write))
        if idle.size:
            raise DataError(f"memory operands {idle[:5].tolist()} neither read nor write")
        if any(not 1 <= len(code) <= 15 for code in self.encoding):
            raise DataError("every instruction needs its machine code, 1 to 15 bytes")

    @property
    def instruction_count(self) -> int:
        """Static instructions."""
        return len(self.pc)

    @property
    def block_count(self) -> int:
        """Basic blocks."""
        return len(self.block_start) - 1

    @property
    def length(self) -> NDArray[np.uint8]:
        """Length of each instruction in bytes, shape (n,)."""
        return np.array([len(code) for code in self.encoding], dtype=np.uint8)

    @property
    def block(self) -> NDArray[np.int32]:
        """The block each instruction belongs to, shape (n,)."""
        return np.repeat(np.arange(self.block_count, dtype=np.int32), np.diff(self.block_start))

    @property
    def index(self) -> NDArray[np.int32]:
        """Position of each instruction in its block, from 0, shape (n,)."""
        return (np.arange(len(self.pc)) - self.block_start[self.block]).astype(np.int32)

    @property
    def block_operand_start(self) -> NDArray[np.int32]:
        """First operand of each block, shape (b + 1,): a block's operands are contiguous."""
        return self.operand_start[self.block_start]

    @property
    def dynamic(self) -> NDArray[np.bool_]:
        """Which operands have a size recorded at run time, shape (m,)."""
        return self.size == 0

    @property
    def block_dynamic_start(self) -> NDArray[np.int32]:
        """Like `block_operand_start`, counting dynamic-size operands only."""
        return np.concatenate(([0], np.cumsum(self.dynamic))).astype(np.int32)[self.block_operand_start]

    def to_frame(self) -> "pd.DataFrame":
        """One row per instruction: pc, length, bytes (hex), block, index, function, text, operands, file, line."""
        pd = of_extra("pandas")

        return pd.DataFrame(
            {
                "pc": self.pc,
                "length": self.length,
                "bytes": [code.hex() for code in self.encoding],
                "block": self.block,
                "index": self.index,
                "function": list(self.function),
                "text": list(self.text),
                "operands": [self._describe(i) for i in range(len(self.pc))],
                "file": list(self.file),
                "line": missing_where_zero(self.line),
            }
        )

    def _describe(self, instruction: int) -> str:
        """Operands as text: ``r32`` reads 32 bytes, ``w?`` writes a dynamic size, ``rw8`` both, ``4*r8`` four alike."""
        first, last = self.operand_start[instruction : instruction + 2]
        names = [
            f"{'r' * bool(self.read[k])}{'w' * bool(self.write[k])}{self.size[k] or '?'}" for k in range(first, last)
        ]
        if len(names) > 1 and len(set(names)) == 1:
            return f"{len(names)}*{names[0]}"
        return " ".join(names)


@dataclass(frozen=True)
class TraceChunk:
    """Consecutive executed blocks: a window into a trace (arrays are views where possible).

    Parameters
    ----------
    first_instruction, first_access : int
        How many instructions and accesses ran before this chunk.
    stream, addresses, sizes
        As in :class:`Trace`, for these blocks only.
    """

    first_instruction: int
    first_access: int
    stream: NDArray[np.uint32]
    addresses: NDArray[np.uint64]
    sizes: NDArray[np.uint32]


def expand(stream: NDArray[np.uint32], starts: NDArray[np.int32]) -> NDArray[np.int32]:
    """Lay out the ranges ``starts[k] .. starts[k + 1] - 1`` for every ``k`` of the stream, one after the other."""
    first = starts[:-1][stream].astype(np.int64)
    count = np.diff(starts)[stream].astype(np.int64)
    end = np.cumsum(count)
    total = int(end[-1]) if len(end) else 0
    return (np.repeat(first - (end - count), count) + np.arange(total)).astype(np.int32)


def provenance_to_dict(provenance: Provenance) -> dict[str, Any]:
    """Plain values, for JSON."""
    return asdict(provenance)


def provenance_from_dict(values: Mapping[str, Any]) -> Provenance:
    """Read what :func:`provenance_to_dict` wrote; keys of later versions go to `extra`."""
    known = {f.name for f in fields(Provenance)} - {"extra"}
    extra = {str(k): str(v) for k, v in values.items() if k not in known | {"extra"}}
    return Provenance(**{k: v for k, v in values.items() if k in known}, extra={**values.get("extra", {}), **extra})


def flat(values: ArrayLike | Sequence[Any], kind: type[Any], name: str) -> NDArray[Any]:
    """Make a one-dimensional array of one type, refusing values that the type cannot hold."""
    if isinstance(values, (list, tuple)) and kind is not np.bool_ and {type(value) for value in values} == {int}:
        try:
            return np.array(values, dtype=kind)  # numpy's own guess would make floats of the largest integers
        except OverflowError:
            raise DataError(f"{name}: values from {min(values)} to {max(values)} do not fit {np.dtype(kind)}") from None
    given = np.asarray(values)
    if given.size == 0:
        given = given.astype(kind)
    if given.ndim != 1:
        raise DataError(f"{name}: expected one dimension, found shape {given.shape}")
    if given.dtype != kind:
        if given.dtype.kind not in "iub" or (kind is np.bool_ and given.dtype.kind != "b"):
            raise DataError(f"{name}: expected {np.dtype(kind)}, found {given.dtype}")
        if kind is not np.bool_ and (int(given.min()) < 0 or int(given.max()) > np.iinfo(kind).max):
            raise DataError(f"{name}: values from {given.min()} to {given.max()} do not fit {np.dtype(kind)}")
        given = given.astype(kind)
    return given


def missing_where_zero(line: NDArray[np.int32]) -> Any:
    """Return line numbers as a column in which 0, an unknown line, is missing."""
    pd = of_extra("pandas")

    return pd.arrays.IntegerArray(line.astype(np.int64), line == 0)


def _same_length(name: str, found: int, other: str, wanted: int) -> None:
    if found != wanted:
        raise DataError(f"{name} has {found} entries, {other} has {wanted}")


def _check_offsets(name: str, offsets: NDArray[np.int32], end: int, *, strict: bool) -> None:
    """Offsets start at 0, never fall, and end at `end`."""
    steps = np.diff(offsets)
    if not len(offsets) or offsets[0] != 0 or offsets[-1] != end or (steps < (1 if strict else 0)).any():
        rule = "rise" if strict else "never fall"
        raise DataError(f"{name} must begin with 0, {rule}, and end with {end}; found {offsets[:8].tolist()}...")
