"""The generalized roofline: throughput, issue, latency, stall and overlap bounds of a scheduled DAG in one plot.

Source: Caparros Cabezas and Pueschel, ISPASS 2014, section IV, equations (9) to (16). Every roof is a time that some
part of the schedule takes, turned into a bound on performance; at the program's own intensity a roof is W / T of that
part, and so never below the performance W / T. Equation (16) is misprinted in the paper; here it is derived anew
from equations (6) and (7), see `Roof`.
"""

from __future__ import annotations

import itertools
import json
import math
import zipfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from perfkit.base.files import replaced
from perfkit.base.results import Kind, Summarised, draw
from perfkit.errors import DataError, SettingError, expect, expect_number, listed, of_extra
from perfkit.simulators.dag.core import BUFFERS

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from perfkit.simulators.dag.measures import Schedule

KINDS = ("throughput", "issue", "latency", "stall", "overlap")
NAMES = {
    "comp": "computation",
    "D": "division",
    "I": "integer work",
    "L1": "L1",
    "L2": "L2",
    "L3": "L3",
    "mem": "memory",
}
_FLAT = ("comp", "D", "I")  # roofs of these are horizontal
_FULL_OVERLAP = 0.95
_HARDLY = 0.05  # of the cycles: waits and stalls that add little to those of issue
TOLERANCE = "tolerance.json"  # the member of a saved roofline beside those of its schedule
_BUFFER_NAMES = {
    "RS": "reservation station",
    "ROB": "reorder buffer",
    "LB": "load buffer",
    "SB": "store buffer",
    "LFB": "line fill buffers",
}


@dataclass(frozen=True)
class Roof:
    """One bound on performance, P <= 1 / (a + b / I - alpha min(a, b / I)).

    The three numbers cover every equation of the paper. A roof of computation has b = 0 and is horizontal; one of a
    memory level has a = 0 and is diagonal; the overlap of computation and a level, equation (15), is curved unless
    alpha = 1. The overlap of two levels x and y, x the shorter, is diagonal: equation (16) corrected is
    P <= U_x b_x U_y b_y I Q / (U_y b_y (1 - alpha) Q_x + U_x b_x Q_y).

    Parameters
    ----------
    kind
        "throughput" (equations (2) and (10), the classical roofs), "issue" (12), "latency" (13), "stall" (14),
        "overlap" (15, 16).
    of
        The node types: "comp", "L1", "L2", "L3", "mem"; two for an overlap. Beyond the paper: "D", divisions, whose
        unit is slower than the others, and "I", integer work.
    buffer
        The stalling buffer of a stall roof, else "".
    label
        A short name.
    formula
        The equation with its numbers.
    utilisation
        The fraction of the throughput that is used in the roof's cycles; for an overlap, alpha.
    a, b, alpha
        Cycles per flop; cycles per byte (of all levels); overlap.
    bound
        The roof at the program's own intensity, in flops per cycle.
    distance
        That bound over the performance: 1 where the roof hits the performance point, never below.
    """

    kind: str
    of: tuple[str, ...]
    buffer: str
    label: str
    formula: str
    utilisation: float
    a: float
    b: float
    alpha: float
    bound: float
    distance: float

    def at(self, intensity: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return the bound in flops per cycle at operational intensities (flops per byte over all levels)."""
        with np.errstate(divide="ignore"):
            memory = self.b / np.asarray(intensity, dtype=np.float64)
        return 1.0 / (self.a + memory - self.alpha * np.minimum(self.a, memory))


@dataclass(frozen=True, eq=False, repr=False)
class Roofs(Summarised):
    """All roofs of a schedule with the performance point, and what they say: all of `ExtendedRoofline` but loading.

    Parameters
    ----------
    schedule
        The scheduled DAG.
    tolerance
        A roof hits the point when it is at most this fraction above it.

    Raises
    ------
    DataError
        If the schedule has no floating-point operation: performance in flops per cycle then says nothing.

    Examples
    --------
    >>> from perfkit import Dag, DagCore, DagScheduler
    >>> dag = Dag.from_nodes("LMA", [[], [0], [1]], level=["L1", None, None])
    >>> roofline = DagScheduler(DagCore.sandy_bridge_erm()).run(dag).roofline()
    >>> roofline.hits[0].label
    'overlap of computation and L1'
    """

    schedule: Schedule
    tolerance: float = 0.05

    def __post_init__(self) -> None:
        expect_number(self.tolerance, "a roofline", "tolerance", "give a fraction of the nearest roof's distance")
        if not self.tolerance >= 0:
            raise SettingError(f"tolerance is a fraction of at least 0, not {self.tolerance!r}")
        how = "schedule a dependence graph: perfkit.DagScheduler(core).run(dag)"
        expect(hasattr(self.schedule, "work"), self.schedule, "ExtendedRoofline", "a Schedule", how)
        if not self.schedule.work:
            raise DataError(
                f"{self.schedule.name} has no floating-point operation, only {self.schedule.nodes.sum()} accesses in "
                f"{self.schedule.cycles} cycles: there is no performance in flops/cycle and no roofline of it. "
                "Trace it with whole=True (perfkit dag run: without --paper-nodes) to count its integer work; its "
                "times are in schedule.to_frame()"
            )

    @property
    def kind(self) -> Kind:
        """``"simulated"``: every time is of the scheduled DAG."""
        return "simulated"

    def summary(self) -> str:
        """Say which performance the schedule reaches, and which roofs limit it."""
        s, near = self.schedule, self.hits or self.roofs[:1]
        roofs = listed((f"{roof.label} ({roof.distance:.2f})" for roof in near), 4)
        held = "held back by" if self.hits else "no roof hits the point; the nearest is"
        return "\n".join(
            [
                f"{s.performance:.3g} flops/cycle for {s.name} on {s.core.name} (simulated), {held} {roofs}",
                f"{s.work:,} flops in {s.cycles:,} cycles, {s.intensity:.3g} flops/byte; verdict gives the reasons",
            ]
        ) + doubted(s)

    def save(self, path: str | Path) -> Path:
        """Write the schedule and the tolerance to one .npz file, which `Schedule.load` opens too; return its path."""
        with replaced(path, ".npz") as temporary:
            self.schedule.save(temporary)
            with zipfile.ZipFile(temporary, "a") as archive:
                archive.writestr(TOLERANCE, json.dumps(self.tolerance))
        return Path(path)

    @property
    def intensity(self) -> float:
        """I: flops per byte over all levels, equation (9)."""
        return self.schedule.intensity

    @property
    def performance(self) -> float:
        """P: flops per cycle, equation (8)."""
        return self.schedule.performance

    @cached_property
    def roofs(self) -> tuple[Roof, ...]:
        """Every roof, the nearest to the performance point first; within 1 %, those of single types before overlaps."""
        found = [*_single_roofs(self.schedule), *_overlap_roofs(self.schedule)]
        return tuple(sorted(found, key=lambda roof: (round(roof.distance, 2), KINDS.index(roof.kind), roof.distance)))

    @property
    def hits(self) -> tuple[Roof, ...]:
        """The roofs that hit the performance point, the nearest first."""
        return tuple(roof for roof in self.roofs if roof.distance <= 1 + self.tolerance)

    @property
    def verdict(self) -> str:
        """The likely bottlenecks in words: the roofs that hit the point, ranked, each with its reason.

        A roof that hits the point is a candidate, not a proof (section IV-C): `perfkit.sweep` tells whether changing
        its parameter helps.
        """
        s = self.schedule
        head = (
            f"{s.name} on {s.core.name} (simulated): {s.performance:.3g} {s.unit}/cycle at {s.intensity:.3g} "
            f"{s.unit}/byte, {s.work:,} {s.work_unit} in {s.cycles:,} cycles." + _seen(s) + doubted(s)
        ) + "".join(f"\nNote: {remark}." for remark in s.remarks)
        if not self.hits:
            roof = self.roofs[0]
            return (
                f"{head}\nNo roof comes within {self.tolerance:.0%} of the point; the nearest is {roof.label}, "
                f"{roof.distance:.2f} times higher: no single resource explains the time."
            )
        # A full overlap says no more than the longer of its two parts, so that the paper names none.
        telling = [roof for roof in self.hits if roof.kind != "overlap" or roof.utilisation < _FULL_OVERLAP]
        shown = telling or list(self.hits)
        lines = [f"{k}. {roof.label} ({roof.distance:.2f}): {_reason(s, roof)}." for k, roof in enumerate(shown, 1)]
        if len(shown) < len(self.hits):
            left_out = len(self.hits) - len(shown)
            lines.append(f"(Left out: {left_out} overlap{'s' * (left_out > 1)} of {_FULL_OVERLAP:.0%} and more.)")
        return "\n".join([head, f"Roofs that hit the point (within {self.tolerance:.0%}), nearest first:", *lines])

    def to_frame(self) -> pd.DataFrame:
        """Return a row per roof: kind, of, buffer, label, bound, distance, utilisation, hits, formula."""
        pd = of_extra("pandas")

        rows = [
            {
                "kind": roof.kind,
                "of": "+".join(roof.of),
                "buffer": roof.buffer,
                "label": roof.label,
                "bound": roof.bound,
                "distance": roof.distance,
                "utilisation": roof.utilisation,
                "hits": roof.distance <= 1 + self.tolerance,
                "formula": roof.formula,
            }
            for roof in self.roofs
        ]
        return pd.DataFrame(rows)

    def plot(self, ax: Axes | None = None, **options: Any) -> Axes:
        """Draw it with matplotlib; see `perfkit.plots.extended_roofline.plot_extended_roofline`."""
        return draw("extended_roofline:plot_extended_roofline", self, ax=ax, **options)


def _seen(s: Schedule) -> str:
    """Return how much of the kernel the DAG holds, where that is known and less than all."""
    if not s.coverage < 0.995:
        return ""
    moves = "moves between registers, jumps and the like, which take no unit"
    left_out = moves if s.n_nodes("I") else "integer work, addresses and control; whole=True counts them"
    return f"\n{s.coverage:.0%} of the executed instructions are in this DAG; the others are {left_out}."


def doubted(s: Schedule) -> str:
    """Return why the cycles may be far off, a line each."""
    return "".join(f"\nDo not rely on these cycles: {doubt}." for doubt in s.doubts)


def _single_roofs(s: Schedule) -> list[Roof]:
    roofs = []
    if s.n_nodes("D") and not math.isinf(s.peak("D")):
        cycles = s.elements("D") / s.peak("D")
        formula = f"(2) of divisions alone: P <= W pi_D / W_D = {s.work} x {s.peak('D'):.3g} / {s.elements('D')}"
        roofs.append(_roof(s, "throughput", "D", "", "division throughput", cycles, 1.0, formula))
    for kind in s.kinds:
        if not math.isinf(s.peak(kind)):
            cycles = s.elements(kind) / s.peak(kind)
            roofs.append(_roof(s, "throughput", kind, "", _throughput_label(kind), cycles, 1.0, _throughput(s, kind)))
        for component, name in (("issue", "issue"), ("span", "latency")):
            roofs.append(_bounded(s, name, kind, "", f"{NAMES[kind]} {name}", component))
        stalling = [buffer for buffer in BUFFERS if s.stalls[buffer]]
        roofs += [_bounded(s, "stall", kind, name, f"{name} stall with {NAMES[kind]}", name) for name in stalling]
    return roofs


def _bounded(s: Schedule, name: str, kind: str, buffer: str, label: str, component: str) -> Roof:
    cycles, used = s.time(kind, component), s.utilisation(kind, component)
    equation = {"issue": "12", "latency": "13", "stall": "14"}[name]
    times = {"issue": "T_issue", "latency": "(T_issue + T_lat)", "stall": f"|T_issue or T_stall,{buffer}|"}[name]
    peak = {"comp": "pi", "I": "pi_I"}.get(kind, f"beta_{kind}")
    capped = used * cycles * s.peak(kind) < 0.999 * s.elements(kind)
    most = " at most (each keeps its unit for longer than it issues)" if capped else ""
    formula = (
        f"({equation}) U = N / ({times} {peak}) = {s.elements(kind)} / ({cycles} x {s.peak(kind):g}) = {used:.3g}"
        f"{most}; " + (f"P <= U {peak}" if kind in _FLAT else f"P <= U beta_{kind} I Q / Q_{kind}")
    )
    return _roof(s, name, kind, buffer, label, cycles, used, formula)


def _roof(s: Schedule, name: str, kind: str, buffer: str, label: str, cycles: float, used: float, formula: str) -> Roof:
    """Make the roof of a time of one node type: W / cycles at the program's intensity."""
    flat = kind in _FLAT
    a, b = (cycles / s.work, 0.0) if flat else (0.0, cycles / s.traffic)
    bound = s.work / cycles
    return Roof(name, (kind,), buffer, label, formula, used, a, b, 0.0, bound, s.cycles / cycles)


def _overlap_roofs(s: Schedule) -> list[Roof]:
    roofs = []
    for x, y in itertools.combinations(s.kinds, 2):
        shorter, longer = sorted((x, y), key=s.time)
        alpha = s.overlap(x, y)
        cycles = s.time(longer) + (1 - alpha) * s.time(shorter)
        label = f"overlap of {NAMES[x]} and {NAMES[y]}"
        equation = "15" if x in _FLAT else "16"
        formula = (
            f"({equation}) alpha = T^o / min(T_{x}, T_{y}) = {s.overlap_cycles(x, y)} / min({s.time(x)}, {s.time(y)}) "
            f"= {alpha:.3g}; P <= W / (T_{x} + T_{y} - alpha min(T_{x}, T_{y}))"
        )
        if x in _FLAT and y in _FLAT:
            a, b, curve = cycles / s.work, 0.0, 0.0
        elif x in _FLAT:
            a, b, curve = s.time(x) / s.work, s.time(y) / s.traffic, alpha
        else:
            a, b, curve = 0.0, cycles / s.traffic, 0.0
        roofs.append(
            Roof("overlap", (x, y), "", label, formula, alpha, a, b, curve, s.work / cycles, s.cycles / cycles)
        )
    return roofs


def _throughput_label(kind: str) -> str:
    return f"peak {NAMES[kind]}" if kind in _FLAT else f"{NAMES[kind]} bandwidth"


def _throughput(s: Schedule, kind: str) -> str:
    if kind == "comp":
        return f"(2) P <= pi = {s.peak(kind):g} flops/cycle"
    if kind == "I":
        return f"(2) of integer work: P <= W pi_I / W_I = {s.work} x {s.peak(kind):g} / {s.elements(kind)}"
    return (
        f"(10) P <= I beta_{kind} Q / Q_{kind}, beta_{kind} = {s.peak(kind) * s.bytes(kind) / s.elements(kind):g} "
        f"bytes/cycle, Q_{kind} / Q = {s.bytes(kind)} / {s.traffic}"
    )


def _reason(s: Schedule, roof: Roof) -> str:
    x = NAMES[roof.of[0]]
    share = {c: s.time(roof.of[0], c) / s.cycles for c in ("issue", "span", "latency")}
    if roof.kind == "throughput":
        return f"{x} runs at its full throughput nearly all the time"
    if roof.kind == "issue":
        return f"{x} issues in {share['issue']:.0%} of the cycles, at {roof.utilisation:.0%} of its throughput"
    if roof.kind == "latency":
        if share["latency"] < _HARDLY:
            return (
                f"{x} executes in {share['span']:.0%} of the cycles, and issues in nearly all of these: waiting for "
                "its results adds hardly anything"
            )
        return (
            f"{x} executes in {share['span']:.0%} of the cycles, and in {share['latency']:.0%} it only waits for "
            "results: its latency is not hidden by independent work"
        )
    if roof.kind == "stall":
        stalled = s.stalls[roof.buffer] / s.cycles
        verb = "are" if roof.buffer == "LFB" else "is"
        if stalled < _HARDLY:
            return (
                f"{x} issues in {share['issue']:.0%} of the cycles, which are nearly all; that the "
                f"{_BUFFER_NAMES[roof.buffer]} ({roof.buffer}) {verb} full at times adds hardly anything"
            )
        return (
            f"the {_BUFFER_NAMES[roof.buffer]} ({roof.buffer}) {verb} full in {stalled:.0%} of the cycles; these and "
            f"the cycles in which {x} issues are nearly all"
        )
    y = NAMES[roof.of[1]]
    times = listed(f"{NAMES[kind]} {s.time(kind) / s.cycles:.0%}" for kind in roof.of)
    return f"{x} and {y} overlap by {roof.utilisation:.0%} of the shorter; with stalls they take {times} of the cycles"
