"""Traces: which instructions ran, in which order, and which addresses they touched.

A trace is a static table (every instruction once, grouped in basic blocks) plus three flat streams: the executed
blocks, one address for every memory operand of every executed instruction, and the sizes of those few accesses whose
size is known only at run time. Every backend (see :mod:`perfkit.collectors`) writes this one form, every simulator
reads it, and ``docs/tracing.md`` describes the file.

The Gus paper (Dutilleul et al., 2024, section 3.1, Algorithm 1) calls this the stream ``T`` of instructions.
"""

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from perfkit.base.files import a_path, replaced
from perfkit.base.results import Kind, Summarised, draw, labelled
from perfkit.errors import DataError, FormatError, SettingError, expect, expect_number
from perfkit.trace import file
from perfkit.trace.code import Provenance, StaticCode, TraceChunk, expand, flat, missing_where_zero

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from perfkit.machine.core import Microarchitecture
    from perfkit.machine.instruction_tables import Coverage


@dataclass(frozen=True, eq=False, repr=False)  # arrays: two traces are equal where they are one
class Trace(Summarised):
    """What ran: static code, executed blocks, and the address of every memory access.

    Parameters
    ----------
    code : StaticCode
        The static instruction table.
    stream : (blocks executed,) uint32
        Block ids in execution order.
    addresses : (accesses,) uint64
        For every executed block, in order, one address for each of its memory operands, in operand order;
        :data:`NO_ACCESS` where the operand did not touch memory.
    sizes : (accesses of dynamic size,) uint32
        Bytes, for the accesses whose operand has ``code.size == 0``, in execution order.
    provenance : Provenance
        What ran, how, where.

    Examples
    --------
    >>> from perfkit.trace.code import StaticCode
    >>> from perfkit.trace.trace import Trace
    >>> code = StaticCode("x86-64", pc=[0, 4], encoding=[bytes(4), bytes(2)],
    ...     text=["vaddsd xmm0,xmm0,[rdi]", "jne 0"], function=["f", "f"], block_start=[0, 2],
    ...     operand_start=[0, 1, 1], read=[True], write=[False], size=[8])
    >>> trace = Trace.from_parts(code, stream=[0, 0], addresses=[4096, 4104])
    >>> trace.instruction_count, trace.access_count
    (4, 2)
    """

    code: StaticCode
    stream: NDArray[np.uint32]
    addresses: NDArray[np.uint64]
    sizes: NDArray[np.uint32]
    provenance: Provenance = field(default_factory=Provenance)

    @classmethod
    def from_parts(
        cls,
        code: StaticCode,
        stream: ArrayLike,
        addresses: ArrayLike = (),
        sizes: ArrayLike = (),
        provenance: Provenance | None = None,
    ) -> Self:
        """Build a trace and check that its parts fit together.

        `code` is the blocks of the program, `stream` the blocks executed, in order; `addresses` and `sizes` are those
        of their accesses, and `provenance` says what recorded it.

        Raises
        ------
        DataError
            When a block id is unknown, or the streams do not have exactly the addresses and sizes that the executed
            blocks call for.
        """
        trace = cls(
            code,
            flat(stream, np.uint32, "stream"),
            flat(addresses, np.uint64, "addresses"),
            flat(sizes, np.uint32, "sizes"),
            provenance if provenance is not None else Provenance(),
        )
        if trace.stream.size and int(trace.stream.max()) >= code.block_count:
            raise DataError(f"the stream names block {trace.stream.max()}, the code has only {code.block_count} blocks")
        executed = trace.block_counts()
        for name, found, starts in (
            ("addresses", trace.addresses, code.block_operand_start),
            ("sizes", trace.sizes, code.block_dynamic_start),
        ):
            wanted = int(executed @ np.diff(starts))
            if len(found) != wanted:
                raise DataError(f"the executed blocks call for {wanted} {name}, found {len(found)}")
        return trace

    @property
    def isa(self) -> str:
        """Instruction set, one of :data:`ISAS`."""
        return self.code.isa

    @property
    def instruction_count(self) -> int:
        """Executed instructions."""
        return int(self.block_counts() @ np.diff(self.code.block_start))

    @property
    def blocks_executed(self) -> int:
        """Executed basic blocks."""
        return len(self.stream)

    @property
    def access_count(self) -> int:
        """Recorded memory operands, those of :data:`NO_ACCESS` included."""
        return len(self.addresses)

    def block_counts(self) -> NDArray[np.int64]:
        """How often each block ran, shape (b,)."""
        return np.bincount(self.stream, minlength=self.code.block_count).astype(np.int64)

    def instruction_counts(self) -> NDArray[np.int64]:
        """How often each static instruction ran, shape (n,)."""
        return self.block_counts()[self.code.block]

    def chunks(self, blocks: int = 1 << 18) -> Iterator[TraceChunk]:
        """Go through the trace in windows of at most `blocks` executed blocks.

        Raises
        ------
        SettingError
            `blocks` is less than 1.
        """
        expect_number(blocks, "Trace.chunks", "blocks", "say how many executed blocks a chunk has", whole=True)
        if blocks < 1:
            raise SettingError(f"a chunk holds at least one block, not {blocks}")
        lengths = np.diff(self.code.block_start).astype(np.int64)
        operands = np.diff(self.code.block_operand_start).astype(np.int64)
        dynamics = np.diff(self.code.block_dynamic_start).astype(np.int64)
        instruction = access = size = 0
        for first in range(0, len(self.stream), blocks):
            part = self.stream[first : first + blocks]
            accesses, sizes = int(operands[part].sum()), int(dynamics[part].sum())
            yield TraceChunk(
                instruction,
                access,
                part,
                self.addresses[access : access + accesses],
                self.sizes[size : size + sizes],
            )
            instruction += int(lengths[part].sum())
            access += accesses
            size += sizes

    def instructions(self, blocks: int = 1 << 18) -> Iterator[NDArray[np.int32]]:
        """Yield the static index of every executed instruction, in order, an array for each chunk of `blocks`."""
        for chunk in self.chunks(blocks):
            yield expand(chunk.stream, self.code.block_start)

    def operands(self, blocks: int = 1 << 18) -> Iterator[NDArray[np.int32]]:
        """Yield the static operand (index into ``code.size``) of every recorded access, in order, in chunks."""
        for chunk in self.chunks(blocks):
            yield expand(chunk.stream, self.code.block_operand_start)

    def access_sizes(self) -> NDArray[np.uint32]:
        """Bytes of every recorded access, dynamic sizes filled in, shape (accesses,)."""
        which = expand(self.stream, self.code.block_operand_start)
        found = self.code.size[which]
        found[self.code.dynamic[which]] = self.sizes
        return found

    def head(self, instructions: int) -> Self:
        """Return the longest run of whole blocks from the start with at most `instructions` instructions."""
        expect_number(instructions, "Trace.head", "instructions", "say how many to keep")
        lengths = np.diff(self.code.block_start).astype(np.int64)
        keep = int(np.searchsorted(np.cumsum(lengths[self.stream]), instructions, side="right"))
        if keep == len(self.stream):
            return self
        return self.part(0, keep, f"cut to the first {instructions} instructions")

    def part(self, first: int, last: int, stopped: str) -> Self:
        """Return the executed blocks from number `first` up to `last`; ``stopped`` says why not all of them."""
        for name, block in (("first", first), ("last", last)):
            expect_number(block, "Trace.part", name, "number executed blocks from 0", whole=True)
        provenance = self.provenance
        if last - first < len(self.stream):
            provenance = replace(provenance, complete=False, stopped=provenance.stopped or stopped)
        operands = np.diff(self.code.block_operand_start).astype(np.int64)
        dynamics = np.diff(self.code.block_dynamic_start).astype(np.int64)
        a, s = (int(per[self.stream[:first]].sum()) for per in (operands, dynamics))
        part = self.stream[first:last]
        b, t = a + int(operands[part].sum()), s + int(dynamics[part].sum())
        return replace(self, stream=part, addresses=self.addresses[a:b], sizes=self.sizes[s:t], provenance=provenance)

    def to_frame(self) -> "pd.DataFrame":
        """Return the static table with a column `executed`: how often each instruction ran."""
        return self.code.to_frame().assign(executed=self.instruction_counts())

    def places(self) -> dict[str, Any]:
        """Return where each static instruction comes from, as columns: file, line and source_line.

        ``line`` is missing where it is unknown; ``source_line``, the line's text, is ``""`` where the trace does not
        hold it (`Provenance.sources`).
        """
        texts = {name: text.splitlines() for name, text in self.provenance.sources.items()}
        found = []
        for name, line in zip(self.code.file, self.code.line.tolist(), strict=True):
            lines = texts.get(name, [])
            found.append(lines[line - 1].strip() if 1 <= line <= len(lines) else "")
        return {"file": list(self.code.file), "line": missing_where_zero(self.code.line), "source_line": found}

    def object_addresses(self) -> NDArray[np.uint64]:
        """Return each static instruction's address as objdump prints it; as it ran where its file is not known.

        Recordings note where the files lay (``provenance.extra["loaded"]``); those of before that do not.
        """
        found = self.code.pc.copy()
        for start, end, base in json.loads(self.provenance.extra.get("loaded", "[]")):
            inside = (self.code.pc >= start) & (self.code.pc < end)
            found[inside] = self.code.pc[inside] - np.uint64(base)
        return found

    def coverage(self, core: "Microarchitecture") -> "Coverage":
        """Say which share of the executed instructions each layer of a core's instruction table serves.

        See :meth:`perfkit.machine.core.Microarchitecture.coverage`.
        """
        expect(
            hasattr(core, "coverage"),
            core,
            "Trace.coverage",
            "a Microarchitecture",
            "load one with perfkit.Microarchitecture.load",
        )
        return core.coverage(self)

    def save(self, path: str | Path, *, level: int = 3) -> Path:
        """Write the trace to the file `path` (``docs/tracing.md``); `level` is zstd's, 1 to 22."""
        return file.save_trace(
            a_path(path, "Trace.save"), self.code, self.provenance, self.chunks(file.BLOCKS_PER_CHUNK), level
        )

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a trace file; FileNotFoundError if there is none, FormatError if it is another's or damaged."""
        with file.TraceFile(path) as opened:
            parts = opened.streams()
        try:
            trace = cls.from_parts(opened.code, **parts, provenance=opened.provenance)
        except DataError as error:
            raise FormatError(f"{path}: the parts of this trace do not fit together: {error}") from error
        if trace.instruction_count != opened.instruction_count:
            raise FormatError(
                f"{path}: the header says {opened.instruction_count} instructions, the streams hold "
                f"{trace.instruction_count}"
            )
        return trace

    @classmethod
    def open(cls, path: str | Path) -> "Trace":
        """Open a trace file without reading its streams: they are read piece by piece, for traces larger than memory.

        Simulators go through it as through a loaded trace; what needs a whole stream at once raises `DataError`.
        """
        return StreamedTrace(path)

    @property
    def kind(self) -> Kind:
        """``"measured"`` for what was recorded of a run, ``"generated"`` for what was written by hand or a program."""
        return "measured" if self.provenance.kind == "recorded" else "generated"

    def summary(self) -> str:
        """Say how much ran, of what, and where most of it was executed."""
        origin, runs = self.provenance, self.instruction_counts()
        where = origin.title
        lines = [
            (
                f"{where or 'without a name'}: {self.instruction_count:,} instructions ({self.isa}), "
                f"{self.access_count:,} accesses, {origin.kind} by {origin.backend}"
                f"{labelled(self.kind)}{'' if origin.complete else ', incomplete: ' + origin.stopped}"
            )
        ]
        if runs.any():
            hot = int(runs.argmax())
            inside = int((runs == runs[hot]).sum())
            lines.append(
                f"{len(runs):,} static instructions; {inside} of them ran most often, {runs[hot]:,} times, from "
                f"{self.code.pc[hot]:#x} in {self.code.function[hot] or 'a function without a name'}"
            )
        return "\n".join(lines)

    def plot(self, ax: "Axes | None" = None, top: int = 20) -> "Axes":
        """Draw how often the instructions that ran most often were executed; return the axes."""
        return draw("gus:plot_executions", self, top=top, ax=ax)


def expect_trace(given: Any, where: str) -> None:
    """Refuse what is not a `Trace`, and say how to get one.

    Raises
    ------
    WrongTypeError
        Something else was given, for example a file's name.
    """
    how = "record one with perfkit.collectors.Tracer, or open a file with perfkit.Trace.load"
    expect(isinstance(given, Trace), given, where, "a Trace", how)


class StreamedTrace(Trace):
    """A `Trace` whose streams are read from its file piece by piece, every time they are gone through.

    Everything that goes through a trace in chunks works (all of Gus does); what needs a whole stream at once says so.

    Parameters
    ----------
    path : path
        A trace file; it must stay as it is.
    """

    def __init__(self, path: str | Path) -> None:
        with file.TraceFile(path) as opened:
            values = {"path": opened.path, "code": opened.code, "provenance": opened.provenance}
            values |= {"_sizes": tuple(opened.chunk_sizes), "_instructions": opened.instruction_count}
        for name, value in values.items():  # the class is frozen
            object.__setattr__(self, name, value)

    path: Path
    _sizes: tuple[dict[str, int], ...]
    _instructions: int

    def _whole(self) -> Any:
        raise DataError(f"{self.path} is read piece by piece; load it with Trace.load to have its streams at once")

    stream = property(_whole)
    addresses = property(_whole)
    sizes = property(_whole)

    @property
    def instruction_count(self) -> int:
        """Executed instructions."""
        return self._instructions

    @property
    def blocks_executed(self) -> int:
        """Executed basic blocks."""
        return sum(chunk["stream"] for chunk in self._sizes)

    @property
    def access_count(self) -> int:
        """Recorded memory operands."""
        return sum(chunk["addresses"] for chunk in self._sizes)

    @cached_property
    def _counts(self) -> NDArray[np.int64]:
        counts = np.zeros(self.code.block_count, dtype=np.int64)
        for chunk in self.chunks(1 << 20):
            counts += np.bincount(chunk.stream, minlength=len(counts))
        return counts

    def block_counts(self) -> NDArray[np.int64]:
        """How often each block ran, shape (b,); goes through the file the first time."""
        return self._counts.copy()

    def chunks(self, blocks: int = 1 << 18) -> Iterator[TraceChunk]:
        """Go through the trace in windows of at most `blocks` executed blocks."""
        expect_number(blocks, "Trace.chunks", "blocks", "say how many executed blocks a chunk has", whole=True)
        with file.TraceFile(self.path) as opened:
            for piece in opened.chunks():
                part = Trace(self.code, piece.stream, piece.addresses, piece.sizes, self.provenance)
                for chunk in part.chunks(blocks):
                    yield replace(
                        chunk,
                        first_instruction=piece.first_instruction + chunk.first_instruction,
                        first_access=piece.first_access + chunk.first_access,
                    )

    def head(self, instructions: int) -> Trace:  # type: ignore[override]
        """Return the longest run of whole blocks from the start with at most `instructions`, in memory."""
        expect_number(instructions, "Trace.head", "instructions", "say how many to keep")
        lengths = np.diff(self.code.block_start).astype(np.int64)
        parts: list[TraceChunk] = []
        for chunk in self.chunks():
            parts.append(chunk)
            if chunk.first_instruction + int(lengths[chunk.stream].sum()) >= instructions:
                break
        stream, addresses, sizes = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("stream", "addresses", "sizes")
        )
        start = Trace(self.code, stream, addresses, sizes, self.provenance)
        return start if start.instruction_count < instructions else start.head(instructions)

    def save(self, path: str | Path, *, level: int = 3) -> Path:  # noqa: ARG002 - its file is compressed already
        """Copy the file."""
        with replaced(path, ".trace") as temporary:
            shutil.copyfile(self.path, temporary)
        return Path(path)
