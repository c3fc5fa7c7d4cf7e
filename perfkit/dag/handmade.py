"""DAGs given by hand: their nodes as a program of one block that is executed once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from perfkit.dag.program import FORWARD, LEVELS, OPS, BlockProgram, Ints
from perfkit.errors import DataError, expect


def program_of_nodes(
    op: Sequence[str],
    deps: Sequence[Sequence[int]],
    address: Sequence[int | None] | None,
    level: Sequence[str | None] | None,
    width: Sequence[int] | int,
    element_bytes: int,
) -> tuple[BlockProgram, Ints]:
    """Return the program of one block and its stream; parameters as those of `perfkit.dag.graph.Dag.from_nodes`."""
    how = "name each node's operation: from_nodes(['L1', 'A'], [[], [0]])"
    expect(isinstance(op, Sequence), op, "Dag.from_nodes", "a list of operations", how)
    n = len(op)
    for label, given in (("deps", deps), ("address", address), ("level", level)):
        if given is not None and len(given) != n:
            raise DataError(f"{label} has {len(given)} entries for {n} nodes")
    codes = np.array([_code(i, name_) for i, name_ in enumerate(op)], dtype=np.uint8)
    widths = np.broadcast_to(np.asarray(width, dtype=np.int64), (n,))
    if n and widths.min() < 1:
        raise DataError(f"width is the number of elements of a node, at least 1, not {widths.min()}")
    levels, addresses, addressed = _places(op, address, level)
    shapes, shape = np.unique(widths, return_inverse=True) if n else (np.array([1]), np.zeros(0, dtype=np.int64))
    tables = _Tables()
    for i in range(n):
        left, right = tables.merge(_checked_deps(i, deps[i]), spare=n)
        tables.add(int(codes[i]), left, right, i, int(shape[i]), int(levels[i]), addressed[i])
    # Accesses without an address still take a place in the stream, so that every access of a block has one: -1.
    stream = np.concatenate(([0], addresses)).astype(np.int64)
    return tables.program(shapes, element_bytes, n), stream


def _code(index: int, name: str) -> int:
    if name not in OPS:
        raise DataError(f"node {index} has the unknown operation {name!r}; known: {', '.join(OPS)}")
    return OPS[name]


def _checked_deps(index: int, deps: Sequence[int]) -> list[int]:
    for other in deps:
        if not 0 <= other < index:
            why = "itself" if other == index else "a later node, so the graph has a cycle or is not in trace order"
            if other < 0:
                why = "a negative index"
            raise DataError(f"node {index} depends on {other}: {why}; dependences point to earlier nodes only")
    return list(dict.fromkeys(int(other) for other in deps))


def _places(
    op: Sequence[str], address: Sequence[int | None] | None, level: Sequence[str | None] | None
) -> tuple[list[int], list[int], list[bool]]:
    """Return per node its given level (-1: none) and whether it accesses memory, and the accesses' addresses."""
    levels, addresses, accesses = [], [], []
    for i, name in enumerate(op):
        where = address[i] if address is not None else None
        given = level[i] if level is not None else None
        access = name in "LS"
        if not access and (where is not None or given is not None):
            raise DataError(f"node {i} is an operation {name!r} and has an address or a level; only L and S may")
        if access and where is None and given is None:
            raise DataError(f"node {i} is a {name!r} with neither an address nor a level ({', '.join(LEVELS)})")
        if given is not None and given not in LEVELS:
            raise DataError(f"node {i} has the unknown level {given!r}; known: {', '.join(LEVELS)}")
        if where is not None and where < 0:
            raise DataError(f"node {i} has the negative address {where}")
        levels.append(-1 if given is None else LEVELS.index(given))
        accesses.append(access)
        if access:
            addresses.append(-1 if where is None else int(where))
    return levels, addresses, accesses


class _Tables:
    """Collects the operations of the single block of a handmade DAG."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, int, int, int, int, int]] = []
        self.accesses = 0
        self.slots = 0

    def merge(self, deps: list[int], spare: int) -> tuple[int, int]:
        """Bring any number of dependences down to two operands, with FORWARD operations where there are more."""
        while len(deps) > 2:
            slot = spare + self.slots
            self.slots += 1
            self.rows.append((FORWARD, deps.pop(), deps.pop(), slot, 0, -1))
            deps.insert(0, slot)
        left, right = [*deps, -1, -1][:2]
        return left, right

    def add(self, code: int, left: int, right: int, into: int, shape: int, level: int, access: bool) -> None:
        self.rows.append((code, left, right, into, shape, level))
        self.accesses += access

    def program(self, widths: Ints, element_bytes: int, n: int) -> BlockProgram:
        table = np.array([(*row, 0) for row in self.rows], dtype=np.int64).reshape(-1, 7)
        shapes = np.stack([widths, np.full_like(widths, element_bytes)], axis=1).astype(np.int64)
        return BlockProgram.of_operations(table, [(len(table), self.accesses, 0, 0)], shapes, n + self.slots)
