"""What a scheduled DAG tells: times of node types, stalls, overlaps, utilisations and performance.

Source: Caparros Cabezas and Pueschel, ISPASS 2014, section III-C, Tables II and III, equations (3) to (8), (11) to
(14). All times are sizes of sets of cycles, so that a cycle is never counted twice.
"""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from perfkit.base.files import a_path, existing, json_text, of_json, reading, replaced
from perfkit.base.results import Kind, Summarised, answering, draw
from perfkit.dag.doubts import NOR_GUS
from perfkit.dag.program import WORD
from perfkit.errors import DataError, FormatError, SettingError, UnavailableError, expect, of_extra
from perfkit.simulators.dag.core import BUFFERS, MEMORY, TYPES, DagCore, lanes, parameter_names
from perfkit.simulators.dag.extended_roofline import TOLERANCE, Roofs

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

Ints = npt.NDArray[np.int64]

FLOPS = ("A", "M", "D", "F")
PORTS = ("A", "M", "F")  # share `DagCore.fp_ports`
COMPONENTS = ("issue", "latency", *BUFFERS, "stall", "span", "total")
_FORMAT = 2
_PAPER_TYPES = 7


@dataclass(frozen=True, eq=False, repr=False)
class Schedule(Summarised):
    """A scheduled DAG.

    Parameters
    ----------
    name, core, settings
        What was scheduled, on what, and with which switches.
    states, counts
        The cycles by state. With the paper's seven types, in state s, s & 127 are the executing node types (A, M, D,
        L1, L2, L3, mem from bit 0), s >> 7 & 127 the issuing ones, s >> 14 the stalling buffers (RS, ROB, LB, SB, LFB);
        with n types (F and I follow) the shifts are n and 2 n.
    nodes, shapes
        Nodes by type (a row for each of `types`) and shape; a shape is (elements, bytes of an element).
    issue, done, type
        Of each node its issue cycle, its completion (the first cycle after its execution), and its type's index, where
        recorded.
    stall_mask
        Of each cycle the stalling buffers, where recorded.
    doubts
        Why the cycles may be far off, a sentence each (`perfkit.dag.doubts`).
    remarks
        What other runs would take, where that is notably longer.
    instructions, covered
        Executed instructions, and how many of them are nodes of the DAG; 0 where they were not counted.
    on_pipes
        How many nodes of integer work took floating-point units (conversions, work on vector registers).

    Examples
    --------
    >>> import perfkit as pk
    >>> dags = pk.open_dags("reduction", sizes=[8])
    >>> pk.DagScheduler(pk.DagCore.load("sandy_bridge_erm")).run(dags["reduction(8)"]).cycles
    35
    """

    name: str
    core: DagCore
    settings: Mapping[str, Any]
    states: Ints
    counts: Ints
    nodes: Ints
    shapes: Ints
    issue: Ints | None = None
    done: Ints | None = None
    type: npt.NDArray[np.uint8] | None = None
    stall_mask: npt.NDArray[np.uint8] | None = None
    instructions: int = 0
    covered: int = 0
    on_pipes: int = 0
    doubts: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.nodes.sum():
            raise DataError(f"{self.name} has no nodes: no floating-point operation and no access to memory was found")

    @classmethod
    def from_table(
        cls,
        type: Sequence[str],  # noqa: A002 - the paper's word
        issue: Sequence[int],
        done: Sequence[int],
        stalls: Mapping[str, Iterable[int]],
        core: DagCore,
        name: str = "given",
    ) -> Schedule:
        """Make a schedule of given cycles (as in the paper's Fig. 5(b)), to analyse it.

        Parameters
        ----------
        type, issue, done
            Of each node its type ("A", "M", "D", "L1", "L2", "L3", "mem"), issue cycle and first cycle after it.
        stalls
            Of each stalling buffer ("RS", "ROB", "LB", "SB", "LFB") the cycles in which it stalls.
        core, name
            The core's parameters, and what to call the schedule.

        Raises
        ------
        DataError
            A type or buffer is unknown, the lengths differ, or a node is done before it issues.
        """
        how = "name each node's type, such as ['L1', 'A']"
        expect(isinstance(type, Sequence), type, "Schedule.from_table", "a list of types", how)
        if unknown := (set(type) - set(TYPES)) | (set(stalls) - set(BUFFERS)):
            raise DataError(f"unknown node types or buffers: {sorted(unknown)}; known: {TYPES}, {BUFFERS}")
        begins, ends = np.asarray(issue, dtype=np.int64), np.asarray(done, dtype=np.int64)
        kinds = np.array([TYPES.index(kind) for kind in type], dtype=np.uint8)
        if not len(kinds) == len(begins) == len(ends) or (ends < begins).any() or (begins < 0).any():
            raise DataError("type, issue and done need equal lengths and 0 <= issue <= done")
        cycles = max(
            [int(max(ends.max(), begins.max() + 1)), *(max(c, default=-1) + 1 for c in map(list, stalls.values()))]
        )
        types = max(_PAPER_TYPES, int(kinds.max(initial=0)) + 1)
        state, stall = np.zeros(cycles, dtype=np.int64), np.zeros(cycles, dtype=np.uint8)
        for kind, first, last in zip(kinds.tolist(), begins.tolist(), ends.tolist(), strict=True):
            state[first : max(last, first + 1)] |= 1 << kind
            state[first] |= 1 << (types + kind)
        for buffer, when in stalls.items():
            stall[list(when)] |= 1 << BUFFERS.index(buffer)
        states, counts = np.unique(state | stall.astype(np.int64) << 2 * types, return_counts=True)
        nodes = np.bincount(kinds, minlength=types).reshape(-1, 1)
        return cls(name, core, {}, states, counts, nodes, np.array([[1, 8]]), begins, ends, kinds, stall)

    # --- counts ------------------------------------------------------------------------------------------------

    @property
    def types(self) -> tuple[str, ...]:
        """The node types that the states tell apart: the paper's seven, and F and I where the DAG has them."""
        return TYPES[: len(self.nodes)]

    @property
    def coverage(self) -> float:
        """The fraction of the executed instructions that are nodes; NaN where instructions were not counted."""
        return self.covered / self.instructions if self.instructions else math.nan

    @property
    def work(self) -> int:
        """W: floating-point operations (elements of vectors count one each, fused multiply-adds two).

        A kernel without any is measured by its integer operations instead (`work_unit`).
        """
        return self.elements("comp") or self.elements("I")

    @property
    def work_unit(self) -> str:
        """What `work` counts: "flops", or "integer operations" for a kernel without floating-point operations."""
        return "flops" if self.elements("comp") or not self.elements("I") else "integer operations"

    @property
    def unit(self) -> str:
        """The unit of work per cycle or byte: "flops", or "ops" for integer operations."""
        return "flops" if self.work_unit == "flops" else "ops"

    @property
    def traffic(self) -> int:
        """Q: bytes accessed, at any level."""
        return sum(self.bytes(level) for level in MEMORY)

    @property
    def cycles(self) -> int:
        """T: the last completion."""
        return int(self.counts.sum())

    @property
    def performance(self) -> float:
        """P = W / T in flops per cycle, equation (8)."""
        return self.work / self.cycles

    @property
    def intensity(self) -> float:
        """I = W / Q in flops per byte over all levels, equation (9); infinite without memory accesses."""
        return self.work / self.traffic if self.traffic else math.inf

    def n_nodes(self, kind: str) -> int:
        """N: nodes of a type ("A", ..., "mem", or "comp" for all computation)."""
        return int(self._rows(kind).sum())

    def elements(self, kind: str) -> int:
        """Elements that a type's nodes work on: the nodes, each counted with its width, and the fused ones twice."""
        rows = self._rows(kind)
        if kind == "comp":
            return sum(self.elements(k) for k in FLOPS)
        return int((rows * self.shapes[:, 0]).sum()) * (2 if kind == "F" else 1)

    def _rows(self, kind: str) -> Ints:
        """Return the nodes of a type by shape; types that the DAG has no room for have none."""
        found: Ints = self.nodes[[i for i in _indices(kind) if i < len(self.nodes)]]
        return found

    def bytes(self, kind: str) -> int:
        """Q_x: bytes that a type's nodes access; 0 for computation."""
        moved = self._rows(kind) * self.shapes.prod(axis=1)
        return int(moved.sum()) if kind in MEMORY else 0

    @property
    def kinds(self) -> tuple[str, ...]:
        """The node types of the roofline that occur: "comp", "I" (integer work) and the memory levels."""
        return tuple(kind for kind in ("comp", "I", *MEMORY) if self.n_nodes(kind))

    # --- times -------------------------------------------------------------------------------------------------

    def time(self, kind: str, component: str = "total") -> int:
        """Return cycles of a node type.

        Parameters
        ----------
        kind
            The type: "A", "M", "D", "L1", "L2", "L3", "mem", ..., or "comp" for all computation.
        component
            "issue": T_issue, in which it issues. "span": in which it executes. "latency": T_lat, the span without the
            issue cycles. "stall": T_stall, of any buffer. "total": T_x, the span and all stalls. A buffer's name
            ("RS", ...): the issue cycles and those in which the buffer stalls (equation (14)'s denominator).

        Raises
        ------
        SettingError
            There is no such component.
        """
        mask = _mask(kind)
        types = len(self.nodes)
        mask &= (1 << types) - 1
        executes, issues = (self.states & mask) > 0, (self.states >> types & mask) > 0
        stalls = self.states >> 2 * types
        sets = {
            "issue": issues,
            "span": executes,
            "latency": executes & ~issues,
            "stall": stalls > 0,
            "total": executes | (stalls > 0),
            **{name: issues | (stalls >> k & 1 > 0) for k, name in enumerate(BUFFERS)},
        }
        if component not in sets:
            raise SettingError(f"unknown component {component!r}; known: {', '.join(sets)}")
        return int(self.counts[sets[component]].sum())

    @property
    def stalls(self) -> dict[str, int]:
        """T_stall of each buffer in cycles, equation (4)."""
        return {
            name: int(self.counts[self.states >> (2 * len(self.nodes) + k) & 1 > 0].sum())
            for k, name in enumerate(BUFFERS)
        }

    def overlap_cycles(self, x: str, y: str) -> int:
        """T^o of the types `x` and `y`: cycles that belong to the T_x of both, equation (6)."""
        stalls = self.states >> 2 * len(self.nodes) > 0
        known = self.states & (1 << len(self.nodes)) - 1
        both = ((known & _mask(x)) > 0) & ((known & _mask(y)) > 0)
        return int(self.counts[both | stalls].sum())

    def overlap(self, x: str, y: str) -> float:
        """Alpha of the types `x` and `y`, equation (7): 0 is no overlap, 1 the most possible; NaN without one."""
        least = min(self.time(x), self.time(y))
        if not least or not self.n_nodes(x) or not self.n_nodes(y):
            return math.nan
        return self.overlap_cycles(x, y) / least

    # --- utilisation ---------------------------------------------------------------------------------------------

    def peak(self, kind: str) -> float:
        """Pi: elements of a type that can be issued in a cycle; pi = pi_A + pi_M for "comp" (with its divisions)."""
        rows = self._rows(kind)
        if kind == "comp":
            return self._peak_of_computation()
        throughput = self.core.throughput(kind) * (2 if kind == "F" else 1)
        if kind == "I" and self.on_pipes:  # two kinds of units, each busy with its share
            done = self.n_nodes("I")
            least = max((done - self.on_pipes) / throughput, self.on_pipes / (self.core.fp_ports or math.inf))
            throughput = done / least if least else math.inf
        present = self.shapes[rows.sum(axis=0) > 0, 0]
        if kind in FLOPS or kind in ("L1", "I"):
            return throughput * (float(self.shapes[self.nodes.sum(axis=0) > 0, 0].max()) if len(present) else 1.0)
        below = self.settings.get("below_l1")
        if (self.core.whole_lines if below is None else below == "line") and self.n_nodes(kind):
            whole = self.core.line / WORD
            return throughput / whole * self.elements(kind) / self.n_nodes(kind)
        return throughput

    def _peak_of_computation(self) -> float:
        """Return pi: what additions and multiplications of the widest operations could do, with divisions if there are.

        A fused multiply-add takes a multiplier: where there are some, they stand for the multiplications.
        """
        rows = self.nodes.sum(axis=0)
        widest = float(self.shapes[rows > 0, 0].max()) if rows.any() else 1.0
        fused = 2 * self.core.throughput("F") if self.n_nodes("F") else 0.0
        shared = widest * (self.core.throughput("A") + max(self.core.throughput("M"), fused))
        if (ports := self.core.fp_ports) and not math.isinf(ports):
            shared = min(shared, ports * widest * (2 if fused else 1))
        return shared + (self.peak("D") if self.n_nodes("D") else 0.0)

    def utilisation(self, kind: str, component: str = "total") -> float:
        """U = N / (T Pi), equations (11) to (14).

        Parameters
        ----------
        kind
            As of `time`.
        component
            "total": U of equation (11). "issue": (12). "span": (13), U^lat. A buffer's name: (14).
        """
        cycles = self.time(kind, component)
        if not cycles:
            return math.nan
        used = self.elements(kind) / (cycles * self.peak(kind))
        return min(used, 1.0) if self._kept_longer(kind) else used

    def _kept_longer(self, kind: str) -> bool:
        """Whether a node keeps its unit for longer than the cycle in which it begins.

        A line of two cycles of L2's bandwidth, or a division: in that cycle more begins than the peak, a mean.
        """
        if kind in ("comp", "D"):
            return bool(self.n_nodes("D")) and self.core.throughput("D") < 1
        nodes = self.n_nodes(kind)
        return bool(nodes) and (
            lanes(self.core.throughput(kind))[1] > 1 or self.elements(kind) > nodes * self.peak(kind)
        )

    def to_frame(self) -> pd.DataFrame:
        """Return the properties of every node type that occurs (Table II): N, elements, bytes, times, utilisations."""
        pd = of_extra("pandas")

        present = [kind for kind in (*FLOPS, "comp", "I", *MEMORY) if self.n_nodes(kind)]
        rows = [
            {
                "type": kind,
                "nodes": self.n_nodes(kind),
                "elements": self.elements(kind),
                "bytes": self.bytes(kind),
                "peak": self.peak(kind),
                **{f"T_{name}": self.time(kind, name) for name in ("issue", "latency", "span", "total")},
                **{f"U_{name}": self.utilisation(kind, name) for name in ("issue", "span", "total")},
            }
            for kind in present
        ]
        return pd.DataFrame(rows).set_index("type")

    def overlaps(self) -> pd.DataFrame:
        """Return alpha of every pair of node types (A, M, D, comp and levels) that occur."""
        pd = of_extra("pandas")

        present = [kind for kind in (*FLOPS, "comp", "I", *MEMORY) if self.n_nodes(kind)]
        table = [[1.0 if x == y else self.overlap(x, y) for y in present] for x in present]
        return pd.DataFrame(table, index=present, columns=present)

    def node_table(self) -> pd.DataFrame:
        """Return type, issue and done of each node.

        Raises
        ------
        UnavailableError
            If the run did not record them.
        """
        pd = of_extra("pandas")

        if self.issue is None or self.done is None or self.type is None:
            raise UnavailableError(f"the run of {self.name} recorded no nodes; run DagScheduler(..., record=True)")
        return pd.DataFrame({"type": np.array(TYPES)[self.type], "issue": self.issue, "done": self.done})

    @property
    def kind(self) -> Kind:
        """``"simulated"``."""
        return "simulated"

    def summary(self) -> str:
        """Say how long the DAG takes, and in how many of the cycles which buffer is full."""
        full = {name: cycles for name, cycles in self.stalls.items() if cycles}
        listed = ", ".join(f"{name} {cycles / self.cycles:.0%}" for name, cycles in full.items()) or "none"
        return "\n".join(
            [
                (
                    f"{self.cycles:,} cycles for {int(self.nodes.sum()):,} nodes of {self.name} on {self.core.name} "
                    f"(simulated), {self.performance:.3g} flops/cycle"
                ),
                f"full buffers, by share of the cycles: {listed}",
            ]
        )

    def plot(self, ax: Axes | None = None, **options: Any) -> Axes:
        """Draw how many nodes of each type execute in each cycle; return the axes.

        Raises
        ------
        UnavailableError
            If the run recorded no nodes.
        """
        return draw("extended_roofline:plot_schedule", self, ax=ax, **options)

    def roofline(self, tolerance: float = 0.05) -> ExtendedRoofline:
        """Return the generalized roofline of this schedule; see `perfkit.simulators.dag.extended_roofline`."""
        return ExtendedRoofline(self, tolerance)

    def save(self, path: str | Path) -> Path:
        """Write the schedule as a compressed .npz file and return its path."""
        path = a_path(path, "Schedule.save")
        core = {name: getattr(self.core, name) for name in ("name", *parameter_names())}
        about = json_text(
            {"format": _FORMAT, "name": self.name, "core": core, "settings": dict(self.settings)}
            | {name: getattr(self, name) for name in ("instructions", "covered", "on_pipes", "doubts", "remarks")},
        )
        arrays = {name: getattr(self, name) for name in ("states", "counts", "nodes", "shapes", *_OPTIONAL)}
        kept = {name: array for name, array in arrays.items() if array is not None}
        with replaced(path, ".npz") as temporary, temporary.open("wb") as out:
            np.savez_compressed(out, about=np.array(about), **kept)
        return path

    @classmethod
    def load(cls, path: str | Path) -> Schedule:
        """Read what `save` wrote; FileNotFoundError if there is none, FormatError if it is another's or damaged."""
        path = existing(path)
        with reading(path, "a schedule saved by perfkit (an .npz file)"), np.load(path, allow_pickle=False) as saved:
            about = of_json(str(saved["about"]))
            if about.get("format") != _FORMAT:
                raise FormatError(f"{path} has schedule format {about.get('format')!r}; this perfkit reads {_FORMAT}")
            arrays = {name: _numbers(saved[name]) for name in ("states", "counts", "nodes", "shapes")}
            optional = {name: _numbers(saved[name]) for name in _OPTIONAL if name in saved}
            counted = {name: about[name] for name in ("instructions", "covered")}
            counted["on_pipes"] = about.get("on_pipes", 0)
            doubts = tuple(str(doubt) for doubt in about.get("doubts", ()))  # files before there were any have none
            remarks = tuple(str(remark) for remark in about.get("remarks", ()))
            core = DagCore(**about["core"])
            found = cls(about["name"], core, about["settings"], **arrays, **optional, **counted, doubts=doubts)
            return answering(replace(found, remarks=remarks))


def _numbers(array: Any) -> Any:
    """Return an array of whole numbers from a file; TypeError for what else stands in its place."""
    if getattr(getattr(array, "dtype", None), "kind", "") not in "biu":
        raise TypeError("an array of whole numbers was expected")
    return array


class ExtendedRoofline(Roofs):
    """All roofs of a schedule with the performance point, and what they say; `Schedule.roofline` makes one.

    Examples
    --------
    >>> from perfkit import Dag, DagCore, DagScheduler
    >>> dag = Dag.from_nodes("LMA", [[], [0], [1]], level=["L1", None, None])
    >>> roofline = DagScheduler(DagCore.sandy_bridge_erm()).run(dag).roofline()
    >>> roofline.hits[0].label
    'overlap of computation and L1'
    """

    @classmethod
    def load(cls, path: str | Path) -> ExtendedRoofline:
        """Read what `save` wrote; FileNotFoundError if there is none, FormatError if it is another's or damaged."""
        schedule = Schedule.load(path)
        with reading(path, "an extended roofline"), zipfile.ZipFile(path) as archive:
            if TOLERANCE not in archive.namelist():
                raise FormatError(f"{path}: a schedule; Schedule.load(...).roofline() makes a roofline of it")
            return answering(cls(schedule, float(json.loads(archive.read(TOLERANCE)))))


_OPTIONAL = ("issue", "done", "type", "stall_mask")


def unknown_to_gus(doubts: Iterable[str]) -> bool:
    """Return whether one of a schedule's doubts is true of `perfkit.Gus`, too."""
    return any(NOR_GUS in doubt for doubt in doubts)


def _indices(kind: str) -> list[int]:
    if str(kind) == "comp":
        return [TYPES.index(k) for k in FLOPS]
    if str(kind) not in TYPES:
        raise SettingError(f"unknown node type {kind!r}; known: comp, {', '.join(TYPES)}")
    return [TYPES.index(kind)]


def _mask(kind: str) -> int:
    return sum(1 << i for i in _indices(kind))
