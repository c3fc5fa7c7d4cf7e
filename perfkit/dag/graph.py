"""The computation DAG of a kernel: floating-point operations and memory accesses, with dependences, in trace order.

The nodes are those of the extended roofline (Caparros Cabezas and Pueschel, ISPASS 2014, section III): additions,
multiplications and divisions, floating-point loads and stores, and fused multiply-adds (F), which the paper's machine
does not have. Integer, address and control work is left out, as in the paper, unless the whole kernel was asked for:
then integer operations (I), branches (B), and integer loads and stores are nodes too.

A DAG of a hundred million nodes is never written out node by node. It is held as a `Program` (what each basic block
does, once) and a stream of executed blocks with the addresses they touched; dependences follow from the program. A
DAG given by hand is the same thing: one block, executed once.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from perfkit.errors import DataError, FormatError, SettingError

if TYPE_CHECKING:
    import pandas as pd

Ints = npt.NDArray[np.int64]
Consumer = Callable[[Ints, int], None]

LEVELS = ("L1", "L2", "L3", "mem")
# Operation codes of a program. FORWARD passes its operands on (select, negation), after a delay if it has one; CALL and
# RETURN move between frames. OTHER is an instruction that is no node: where it is kept, it takes its place in fetch and
# in the reorder buffer.
# JOIN says that the next node is of the same instruction as the one before: they share a slot of fetch and of the ROB.
ADD, MULTIPLY, DIVIDE, LOAD, STORE, FORWARD, CALL, RETURN, OTHER, FUSED, INTEGER, BRANCH, JOIN = range(13)
OPS = {"A": ADD, "M": MULTIPLY, "D": DIVIDE, "L": LOAD, "S": STORE, "F": FUSED, "I": INTEGER, "B": BRANCH}
_ALWAYS = ("A", "M", "D", "L", "S")  # counted also where there are none
_FORMAT = 2


class Program(NamedTuple):
    """What every basic block does: static tables, indexed by block, by PHI or by operation.

    Values live in slots of the running function's frame; slot -1 means "ready from the start" (constants, integers).

    Parameters
    ----------
    block_ops, block_phis
        Where each block's operations and PHIs begin in the tables below (one entry more than there are blocks).
    block_origin
        The block that PHIs name as predecessor: a block cut at a call keeps its first part's number.
    block_addresses
        How many addresses follow the block's number in the stream.
    phi_into, phi_edges, edge_from, edge_slot
        Slot a PHI writes; where its edges begin; predecessor block and slot of each edge.
    op, left, right, into
        Operation code, the slots read and the slot written (-1: none).
    shape, level
        Index into `shapes`; the memory level of an access, -1 when it follows from the address.
    shapes
        (elements, bytes per element) of the values operated on: (1, 8) is a double, (4, 8) a vector of four.
    call, call_frame, call_args, arg_from, arg_into
        For a CALL its index, else -1; the caller's frame size; where the call's arguments begin; their slots.
    frame
        Slots of each function's frame, the entry function's first.
    delay
        Of a FORWARD the cycles after which it passes its operands on; of a LOAD 1 if it loads an integer; else 0.
    block_instructions, block_covered
        How many instructions a processor would fetch for the block, and how many of them are nodes.
    """

    block_ops: Ints
    block_phis: Ints
    block_origin: Ints
    block_addresses: Ints
    phi_into: Ints
    phi_edges: Ints
    edge_from: Ints
    edge_slot: Ints
    op: npt.NDArray[np.uint8]
    left: Ints
    right: Ints
    into: Ints
    shape: npt.NDArray[np.uint8]
    level: npt.NDArray[np.int8]
    shapes: npt.NDArray[np.int64]
    call: Ints
    call_frame: Ints
    call_args: Ints
    arg_from: Ints
    arg_into: Ints
    frame: Ints
    delay: Ints
    block_instructions: Ints
    block_covered: Ints

    @property
    def needs_reuse(self) -> bool:
        """Whether the level of some access must be found from its address (which takes a line size)."""
        access = (self.op == LOAD) | (self.op == STORE)
        return bool((access & (self.level < 0)).any())


class NodeSource(Protocol):
    """Anything the scheduler can run: a `Dag` in memory, or a kernel that is traced anew each time (streaming)."""

    @property
    def name(self) -> str:
        """What the nodes come from."""

    @property
    def program(self) -> Program:
        """The static tables."""

    def replay(self, consume: Consumer) -> None:
        """Call ``consume(records, length)`` with the executed blocks, in order."""


@dataclass(frozen=True, eq=False)
class Dag:
    """A computation DAG in trace order.

    Make one with `Dag.from_nodes`, or by tracing: `perfkit.collectors.dag.llvm_ir.trace_numba`, ``trace_c``.

    Parameters
    ----------
    program
        What each block does.
    stream
        The executed blocks: block number, then the addresses it touched (bytes), for every execution.
    name, kind
        What was traced; "traced", "handmade" or "simulated".
    facts
        How it was made (sizes, compiler, flags), as text; travels with the saved file.
    """

    program: Program
    stream: Ints
    name: str = "dag"
    kind: str = "traced"
    facts: dict[str, str] = field(default_factory=dict)

    @classmethod
    def from_nodes(
        cls,
        op: Sequence[str],
        deps: Sequence[Sequence[int]],
        address: Sequence[int | None] | None = None,
        level: Sequence[str | None] | None = None,
        width: Sequence[int] | int = 1,
        bytes: int = 8,  # noqa: A002 - the word of the field
        name: str = "handmade",
    ) -> Dag:
        """Make a DAG by hand.

        Parameters
        ----------
        op
            One of "A" (add, subtract, compare), "M" (multiply), "D" (divide), "F" (fused multiply-add), "L" (load),
            "S" (store), "I" (integer operation), "B" (branch), in trace order.
        deps
            For each node the indices of the earlier nodes it needs.
        address
            For each load and store the byte address (None elsewhere): its level then follows from reuse.
        level
            For each load and store that has no address "L1", "L2", "L3" or "mem". A level that is given beside an
            address wins over reuse; the address then still orders loads after stores of the same word.
        width
            Elements a node works on: above 1 it is a vector instruction.
        bytes
            Bytes of an element.

        Examples
        --------
        >>> dag = Dag.from_nodes(["L", "M", "A"], [[], [0], [1]], level=["L1", None, None])
        >>> len(dag), dag.counts["A"]
        (3, 1)
        """
        return _from_nodes(op, deps, address, level, width, bytes, name)

    def __len__(self) -> int:
        return sum(self.counts.values())

    @property
    def counts(self) -> dict[str, int]:
        """How many nodes of each operation (A, M, D, L, S; F, I and B where there are some) were executed."""
        program = self.program
        per_op = np.repeat(self._runs, np.diff(program.block_ops))
        found = {name: int(per_op[program.op == code].sum()) for name, code in OPS.items()}
        return {name: count for name, count in found.items() if count or name in _ALWAYS}

    @property
    def coverage(self) -> float:
        """The fraction of the executed instructions that are nodes of this DAG; NaN where they were not counted."""
        instructions = int((self._runs * self.program.block_instructions).sum())
        covered = int((self._runs * self.program.block_covered).sum())
        return covered / instructions if instructions else math.nan

    @property
    def _runs(self) -> Ints:
        """How often each block was executed."""
        from perfkit.dag.expand import block_counts

        return block_counts(self.stream, len(self.stream), self.program.block_addresses)

    def replay(self, consume: Consumer) -> None:
        """Hand the whole stream to `consume` (`NodeSource`)."""
        consume(self.stream, len(self.stream))

    @property
    def others(self) -> int:
        """How many instructions that are no nodes are kept (``count_all=True`` when it was traced)."""
        return int(np.repeat(self._runs, np.diff(self.program.block_ops))[self.program.op == OTHER].sum())

    def digest(self) -> str:
        """Return a digest of what is scheduled: the program and the executed blocks with their addresses."""
        found = hashlib.sha256()
        for array in (*self.program, self.stream):
            found.update(f"{array.dtype.str}{array.shape}".encode())
            found.update(np.ascontiguousarray(array).data)
        return found.hexdigest()

    def nodes(self, limit: int = 200_000) -> pd.DataFrame:
        """Write the DAG out node by node.

        Returns
        -------
        DataFrame indexed by node: op, deps (tuple of earlier nodes), address (bytes, missing where there is none),
        level (only where it was given), width, bytes.

        Raises
        ------
        SettingError
            If there are more than `limit` nodes.
        """
        from perfkit.dag.expand import expand

        if len(self) > limit:
            raise SettingError(f"{self.name} has {len(self)} nodes; raise limit={limit} to write them all out")
        return expand(self)

    def to_frame(self) -> pd.DataFrame:
        """Return `nodes` with its default limit."""
        return self.nodes()

    def save(self, path: str | Path) -> Path:
        """Write the DAG as a compressed .npz file and return its path."""
        path = Path(path)
        about = json.dumps({"format": _FORMAT, "name": self.name, "kind": self.kind, "facts": self.facts})
        arrays: dict[str, Any] = {**self.program._asdict(), "stream": self.stream, "about": np.array(about)}
        with path.open("wb") as out:
            np.savez_compressed(out, **arrays)
        return path

    @classmethod
    def load(cls, path: str | Path) -> Dag:
        """Read a DAG that `save` wrote.

        Raises
        ------
        FormatError
            If the file is not such a DAG.
        """
        try:
            with np.load(path, allow_pickle=False) as saved:
                about = json.loads(str(saved["about"]))
                program = Program(**{name: saved[name] for name in Program._fields})
                stream = saved["stream"]
        except (KeyError, ValueError, OSError) as error:
            raise FormatError(f"{path} is not a DAG saved by perfkit (an .npz file): {error}") from error
        if about.get("format") != _FORMAT:
            raise FormatError(f"{path} has DAG format {about.get('format')!r}; this perfkit reads {_FORMAT}")
        return cls(program, stream, about["name"], about["kind"], about["facts"])


def _from_nodes(
    op: Sequence[str],
    deps: Sequence[Sequence[int]],
    address: Sequence[int | None] | None,
    level: Sequence[str | None] | None,
    width: Sequence[int] | int,
    element_bytes: int,
    name: str,
) -> Dag:
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
    return Dag(tables.program(shapes, element_bytes, n), stream, name, "handmade")


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

    def program(self, widths: Ints, element_bytes: int, n: int) -> Program:
        table = np.array(self.rows, dtype=np.int64).reshape(-1, 6)
        shapes = np.stack([widths, np.full_like(widths, element_bytes)], axis=1).astype(np.int64)
        none = np.zeros(0, dtype=np.int64)
        zero = np.zeros(1, dtype=np.int64)
        return Program(
            block_ops=np.array([0, len(table)], dtype=np.int64),
            block_phis=np.zeros(2, dtype=np.int64),
            block_origin=zero,
            block_addresses=np.array([self.accesses], dtype=np.int64),
            phi_into=none,
            phi_edges=zero,
            edge_from=none,
            edge_slot=none,
            op=table[:, 0].astype(np.uint8),
            left=table[:, 1].copy(),
            right=table[:, 2].copy(),
            into=table[:, 3].copy(),
            shape=table[:, 4].astype(np.uint8),
            level=table[:, 5].astype(np.int8),
            shapes=shapes,
            call=np.full(len(table), -1, dtype=np.int64),
            call_frame=none,
            call_args=zero,
            arg_from=none,
            arg_into=none,
            frame=np.array([n + self.slots], dtype=np.int64),
            delay=np.zeros(len(table), dtype=np.int64),
            block_instructions=zero,
            block_covered=zero,
        )
