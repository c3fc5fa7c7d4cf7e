"""Writing a DAG out node by node: a slow, plain replay of the executed blocks (`perfkit.dag.program`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from numba import njit

from perfkit.dag.program import CALL, FORWARD, HOLD, JOIN, LEVELS, LOAD, OPS, OTHER, READ, REDIRECT, RETURN, STORE
from perfkit.errors import of_extra

if TYPE_CHECKING:
    import pandas as pd

    from perfkit.dag.program import BlockProgram

Ints = npt.NDArray[np.int64]
Producers = frozenset[int]
_NAMES = {code: name for name, code in OPS.items()}


@njit(cache=True)
def block_counts(stream: Any, length: Any, addresses: Any) -> Any:
    """Return how often each block was executed."""
    counts = np.zeros(addresses.shape[0], dtype=np.int64)
    at = 0
    while at < length:
        block = stream[at]
        counts[block] += 1
        at += 1 + addresses[block]
    return counts


class _Values:
    """Which nodes produced the value in each slot of each active function."""

    def __init__(self, program: BlockProgram) -> None:
        self.program = program
        self.slots: dict[int, Producers] = {}
        self.base = 0
        self.callers: list[tuple[int, int]] = []

    def get(self, slot: int) -> Producers:
        return self.slots.get(self.base + slot, frozenset()) if slot >= 0 else frozenset()

    def set(self, slot: int, producers: Producers) -> None:
        if slot >= 0:
            self.slots[self.base + slot] = producers

    def phis(self, block: int, previous: int) -> None:
        p = self.program
        taken = []
        for k in range(p.block_phis[block], p.block_phis[block + 1]):
            edges = range(p.phi_edges[k], p.phi_edges[k + 1])
            chosen = next((p.edge_slot[e] for e in edges if p.edge_from[e] == previous), -1)
            taken.append((p.phi_into[k], self.get(chosen)))
        for slot, producers in taken:
            self.set(slot, producers)

    def call(self, k: int) -> None:
        p = self.program
        which = p.call[k]
        inner = self.base + int(p.call_frame[which])
        for arg in range(p.call_args[which], p.call_args[which + 1]):
            self.slots[inner + int(p.arg_into[arg])] = self.get(p.arg_from[arg])
        self.callers.append((self.base, int(p.into[k])))
        self.base = inner

    def leave(self, producers: Producers) -> None:
        self.base, into = self.callers.pop()
        self.set(into, producers)


def node_table(program: BlockProgram, stream: Ints) -> pd.DataFrame:
    """Return the table that `perfkit.dag.graph.Dag.nodes` describes."""
    pd = of_extra("pandas")

    p = program
    values = _Values(p)
    rows: list[tuple[str, tuple[int, ...], int | None, str | None, int, int]] = []
    at, previous = 0, -1
    while at < len(stream):
        block = int(stream[at])
        values.phis(block, previous)
        address_at = at + 1
        for k in range(p.block_ops[block], p.block_ops[block + 1]):
            code, into = int(p.op[k]), int(p.into[k])
            needs = values.get(p.left[k]) | values.get(p.right[k])
            if code == FORWARD:
                values.set(into, needs)
            elif code == CALL:
                values.call(k)
            elif code == RETURN:
                values.leave(needs)
            elif code in (OTHER, JOIN, REDIRECT, HOLD, READ):
                continue
            else:
                address = None
                if code in (LOAD, STORE):
                    address = int(stream[address_at]) if stream[address_at] >= 0 else None
                    address_at += 1
                level = LEVELS[p.level[k]] if p.level[k] >= 0 else None
                width, size = (int(v) for v in p.shapes[p.shape[k]])
                values.set(into, frozenset([len(rows)]))
                rows.append((_NAMES[code], tuple(sorted(needs)), address, level, width, size))
        previous = int(p.block_origin[block])
        at += 1 + int(p.block_addresses[block])
    frame = pd.DataFrame(rows, columns=["op", "deps", "address", "level", "width", "bytes"])
    frame["address"] = pd.array([row[2] for row in rows], dtype="Int64")  # exact above 2**53 too
    frame.index.name = "node"
    return frame
