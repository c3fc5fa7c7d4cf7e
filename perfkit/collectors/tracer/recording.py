"""What every backend hands over, and how it becomes a trace."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfkit.trace import Provenance, StaticCode, Trace


@dataclass(frozen=True)
class Recording:
    """Raw results of a backend.

    Parameters
    ----------
    isa : str
        Instruction set.
    blocks : list of dict
        ``{"function": name, "instructions": [[pc, bytes as hex, text, [[read, write, size], ...]], ...]}``.
    stream, addresses, sizes : arrays
        As in :class:`~perfkit.trace.Trace`.
    stopped : str
        Why recording ended early; empty when it did not.
    notes : dict
        More for the provenance.
    """

    isa: str
    blocks: list[dict[str, Any]]
    stream: NDArray[np.uint32]
    addresses: NDArray[np.uint64]
    sizes: NDArray[np.uint32]
    stopped: str = ""
    notes: dict[str, str] = field(default_factory=dict)

    def code(self) -> StaticCode:
        """Make the static table."""
        rows = [(block["function"], *row) for block in self.blocks for row in block["instructions"]]
        operands = [operand for row in rows for operand in row[4]]
        return StaticCode(
            isa=self.isa,
            pc=np.array([row[1] for row in rows], dtype=np.uint64),
            encoding=tuple(bytes.fromhex(row[2]) for row in rows),
            text=tuple(row[3] for row in rows),
            function=tuple(row[0] for row in rows),
            block_start=_offsets([len(block["instructions"]) for block in self.blocks]),
            operand_start=_offsets([len(row[4]) for row in rows]),
            read=np.array([operand[0] for operand in operands], dtype=np.bool_),
            write=np.array([operand[1] for operand in operands], dtype=np.bool_),
            size=np.array([operand[2] for operand in operands], dtype=np.uint32),
        )

    def trace(self, provenance: Provenance) -> Trace:
        """Make the trace, checked."""
        return Trace.from_parts(self.code(), self.stream, self.addresses, self.sizes, provenance)


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
