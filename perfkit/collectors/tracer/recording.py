"""What every backend hands over, and how it becomes a trace."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from iced_x86 import Decoder, Formatter, FormatterSyntax
from numpy.typing import NDArray

from perfkit.collectors.tracer.bounds import Placed
from perfkit.collectors.tracer.lines import Loaded
from perfkit.errors import DataError
from perfkit.trace.code import Provenance, StaticCode
from perfkit.trace.trace import Trace

_FORMATTER = Formatter(FormatterSyntax.INTEL)


@dataclass(frozen=True)
class Recording:
    """Raw results of a backend.

    Parameters
    ----------
    isa : str
        Instruction set.
    blocks : list of dict
        ``{"function": name, "instructions": [[pc, bytes as hex, text, [[read, write, size], ...]], ...]}``, and
        ``"calls"``, the name of the function that the block ends by calling, where there is one. A text is "" where
        x86-64 code is disassembled when it is needed.
    stream, addresses, sizes : arrays
        As in :class:`~perfkit.trace.trace.Trace`.
    stopped : str
        Why recording ended early; empty when it did not.
    notes : dict
        More for the provenance.
    loaded : tuple of Loaded
        The files that the code came from, where the backend knows them.
    arrays : tuple of Placed
        Where a kernel's arguments lay, where the backend knows it.
    """

    isa: str
    blocks: list[dict[str, Any]]
    stream: NDArray[np.uint32]
    addresses: NDArray[np.uint64]
    sizes: NDArray[np.uint32]
    stopped: str = ""
    notes: dict[str, str] = field(default_factory=dict)
    loaded: tuple[Loaded, ...] = ()
    arrays: tuple[Placed, ...] = ()

    def code(self) -> StaticCode:
        """Make the static table."""
        rows = [(block["function"], *row) for block in self.blocks for row in block["instructions"]]
        operands = [operand for row in rows for operand in row[4]]
        return StaticCode(
            isa=self.isa,
            pc=np.array([row[1] for row in rows], dtype=np.uint64),
            encoding=tuple(bytes.fromhex(row[2]) for row in rows),
            text=tuple(row[3] or disassembled(row[1], bytes.fromhex(row[2])) for row in rows),
            function=tuple(row[0] for row in rows),
            block_start=_offsets([len(block["instructions"]) for block in self.blocks]),
            operand_start=_offsets([len(row[4]) for row in rows]),
            read=np.array([operand[0] for operand in operands], dtype=np.bool_),
            write=np.array([operand[1] for operand in operands], dtype=np.bool_),
            size=np.array([operand[2] for operand in operands], dtype=np.uint32),
        )

    def executed(self) -> "Recording":
        """Leave out the code of functions that never ran (callees may drag in many)."""
        counts = np.bincount(self.stream, minlength=len(self.blocks))
        ran = {block["function"] for block, count in zip(self.blocks, counts, strict=True) if count}
        keep = np.array([block["function"] in ran for block in self.blocks])
        if keep.all():
            return self
        number = (np.cumsum(keep) - 1).astype(np.uint32)
        blocks = [block for block, kept in zip(self.blocks, keep, strict=True) if kept]
        return replace(self, blocks=blocks, stream=number[self.stream])

    def between(self, begin: str, end: str) -> "Recording":
        """Keep what ran after each call of `begin`, up to and including the block that calls `end`.

        Raises
        ------
        DataError
            When `begin` was never called.
        """
        calls = np.array([block.get("calls", "") for block in self.blocks])
        begins, ends = calls[self.stream] == begin, calls[self.stream] == end
        if not begins.any():
            raise DataError(f"the region never called the marker {begin!r} directly; it calls: {_names(calls)}")
        places = np.arange(len(self.stream))
        # A block is inside when the last marker before it was a beginning.
        last_begin = np.maximum.accumulate(np.where(begins, places, -1))
        last_end = np.maximum.accumulate(np.where(ends, places, -1))
        keep = np.concatenate(([False], last_begin[:-1] > last_end[:-1]))
        if not keep.any():
            raise DataError(f"nothing ran between {begin!r} and {end!r}")
        _, slots, dynamics = self.sizes_of_blocks()
        return replace(
            self,
            stream=self.stream[keep],
            addresses=self.addresses[np.repeat(keep, slots[self.stream])],
            sizes=self.sizes[np.repeat(keep, dynamics[self.stream])],
        )

    def sizes_of_blocks(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return each block's instructions, operands, and operands of dynamic size."""
        rows = [block["instructions"] for block in self.blocks]
        return (
            np.array([len(block) for block in rows], dtype=np.int64),
            np.array([sum(len(row[3]) for row in block) for block in rows], dtype=np.int64),
            np.array([sum(o[2] == 0 for row in block for o in row[3]) for block in rows], dtype=np.int64),
        )

    def within(self, limit: int) -> "Recording":
        """Cut to the leading whole blocks that make at most `limit` instructions."""
        lengths, slots, dynamics = self.sizes_of_blocks()
        blocks, _, accesses, sizes = whole_blocks(self.stream, lengths, slots, dynamics, limit)
        if blocks == len(self.stream):
            return self
        return replace(
            self,
            stream=self.stream[:blocks],
            addresses=self.addresses[:accesses],
            sizes=self.sizes[:sizes],
            stopped=self.stopped or f"limit of {limit} instructions",
        )

    def trace(self, provenance: Provenance) -> Trace:
        """Make the trace, checked."""
        return Trace.from_parts(self.code(), self.stream, self.addresses, self.sizes, provenance)


def disassembled(pc: int, code: bytes) -> str:
    """Return one x86-64 instruction's text."""
    return _FORMATTER.format(Decoder(64, code, ip=pc).decode())


def _names(calls: NDArray[np.str_]) -> str:
    return ", ".join(sorted({str(name) for name in calls if name})) or "nothing"


def _offsets(counts: list[int]) -> NDArray[np.int32]:
    return np.cumsum([0, *counts]).astype(np.int32)


def whole_blocks(
    stream: NDArray[np.uint32],
    lengths: NDArray[np.int64],
    slots: NDArray[np.int64],
    dynamics: NDArray[np.int64],
    limit: int,
) -> tuple[int, int, int, int]:
    """Count the leading blocks that make at most `limit` instructions.

    Returns blocks, instructions, addresses and sizes. Goes chunk by chunk, to need little memory.
    """
    blocks = instructions = accesses = sizes = 0
    step = 1 << 20
    for first in range(0, len(stream), step):
        part = stream[first : first + step]
        executed = np.bincount(part, minlength=len(lengths))
        more = int(executed @ lengths)
        if instructions + more > limit:
            ends = np.cumsum(lengths[part])
            part = part[: int(np.searchsorted(ends, limit - instructions, side="right"))]
            executed = np.bincount(part, minlength=len(lengths))
            more = int(executed @ lengths)
        blocks += len(part)
        instructions += more
        accesses += int(executed @ slots)
        sizes += int(executed @ dynamics)
        if len(part) < min(step, len(stream) - first):
            break
    return blocks, instructions, accesses, sizes
