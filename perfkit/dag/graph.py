"""The computation DAG of a kernel: floating-point operations and memory accesses, with dependences, in trace order.

The nodes are those of the extended roofline (Caparros Cabezas and Pueschel, ISPASS 2014, section III): additions,
multiplications and divisions, floating-point loads and stores, and fused multiply-adds (F), which the paper's machine
does not have. Integer, address and control work is left out, as in the paper, unless the whole kernel was asked for:
then integer operations (I), branches (B), and integer loads and stores are nodes too.

A DAG of a hundred million nodes is never written out node by node. It is held as a `BlockProgram` (what each basic
block does, once) and a stream of executed blocks with the addresses they touched; dependences follow from the program.
A DAG given by hand is the same thing: one block, executed once.
"""

from __future__ import annotations

import hashlib
import math
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from perfkit.base.files import (
    a_path,
    array_of,
    check_fields,
    existing,
    json_object,
    json_text,
    member,
    reading,
    replaced,
)
from perfkit.dag.handmade import program_of_nodes
from perfkit.dag.program import HOLD, OPS, OTHER, BlockProgram, Consumer, Ints
from perfkit.errors import DataError, FormatError, SettingError, expect

if TYPE_CHECKING:
    import pandas as pd

_ALWAYS = ("A", "M", "D", "L", "S")  # counted also where there are none
_FORMAT = 3  # 2, but for what divides integers


def expect_dag(given: Any, where: str) -> None:
    """Refuse what is no `NodeSource`, and say how to get one (WrongTypeError)."""
    how = "trace one with perfkit.trace_dag, trace_c or trace_numba, or make one with perfkit.Dag.from_nodes"
    expect(hasattr(given, "replay") and hasattr(given, "program"), given, where, "a dependence graph", how)


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

    Examples
    --------
    >>> dag = pk.trace_dag(pk.datasets.load("traces/fig1a"))
    >>> pk.Dag.load(dag.save("fig1a.dag")).digest() == dag.digest()
    True
    """

    program: BlockProgram
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
            Elements that a node works on: above 1 it is a vector instruction.
        bytes
            Bytes of an element.
        name
            What to call it.

        Examples
        --------
        >>> dag = Dag.from_nodes(["L", "M", "A"], [[], [0], [1]], level=["L1", None, None])
        >>> len(dag), dag.counts["A"]
        (3, 1)
        """
        return cls(*program_of_nodes(op, deps, address, level, width, bytes), name, "handmade")

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

        runs: Ints = block_counts(self.stream, len(self.stream), self.program.block_addresses)
        return runs

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
        from perfkit.dag.expand import node_table

        if len(self) > limit:
            raise SettingError(f"{self.name} has {len(self)} nodes; raise limit={limit} to write them all out")
        return node_table(self.program, self.stream)

    def to_frame(self) -> pd.DataFrame:
        """Return `nodes` with its default limit."""
        return self.nodes()

    def save(self, path: str | Path) -> Path:
        """Write the DAG as a compressed .npz file and return its path."""
        path = a_path(path, "Dag.save")
        about = json_text({"format": _FORMAT, "name": self.name, "kind": self.kind, "facts": self.facts})
        arrays: dict[str, Any] = {**self.program._asdict(), "stream": self.stream, "about": np.array(about)}
        with replaced(path, ".npz") as temporary, temporary.open("wb") as out:
            np.savez_compressed(out, **arrays)
        return path

    @classmethod
    def load(cls, path: str | Path) -> Dag:
        """Read what `save` wrote; FileNotFoundError if there is none, FormatError if it is another's or damaged."""
        from perfkit.dag.check import check_stream

        what = "a DAG saved by perfkit (an .npz file)"
        with reading(path, what), zipfile.ZipFile(existing(path)) as saved:

            def table(name: str) -> Any:
                return array_of(member(saved, f"{name}.npy", path, what), path, name, ndim=1 + (name == "shapes"))

            head = array_of(member(saved, "about.npy", path, what), path, "about", ndim=0)
            about = json_object(str(head), path, "the description of a DAG")
            old = about.get("format") == _FORMAT - 1 and HOLD not in table("op")
            if about.get("format") != _FORMAT and not old:
                raise FormatError(f"{path} has DAG format {about.get('format')!r}; this perfkit reads {_FORMAT}")
            check_fields(about, {"name": str, "kind": str, "facts": dict}, path, "the description of a DAG")
            program = BlockProgram(**{name: table(name) for name in BlockProgram._fields})
            stream = table("stream")
        try:
            check_stream(program, stream)
        except DataError as error:
            raise FormatError(f"{path}: a DAG whose parts do not fit together ({error})") from error
        return cls(program, stream, about["name"], about["kind"], about["facts"])
