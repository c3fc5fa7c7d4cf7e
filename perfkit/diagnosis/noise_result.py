"""The result of adding noise to a loop: a curve for each kind, what it absorbed, and what holds the loop back."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, overload

import numpy as np

from perfkit.base.results import Tabled, draw, drawn, expect_shown
from perfkit.diagnosis.noise_curves import NONE, PLENTY, SOME, UNTOLD, Bend, bend, first_bottleneck, word
from perfkit.errors import SettingError, did_you_mean, of_extra

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MEANINGS = {
    "front end": "held back by the front end: no-operations hurt at once",
    "restarts": "held back by restarts of the front end, or a full window: no-operations hurt at once although "
    "dispatch is not busy, as behind mispredicted branches, or where the reorder buffer is full",
    UNTOLD: "what holds it back cannot be told",
    "none of these": "none of the kinds that were tried hurts at once",
}
_SLACK = {NONE: "no slack", SOME: "some slack", PLENTY: "plenty of slack"}
COPY = 0.05
"""By how much the plain copy may differ from the original before the summary warns."""


@dataclass(frozen=True, eq=False, repr=False)
class NoiseResult(Tabled):
    """How many added instructions of each kind a loop absorbs before it gets slower.

    Parameters
    ----------
    name : str
        The kernel.
    place : str
        The loop.
    curves : DataFrame
        One row per kind and number of added instructions: ``kind``, ``resource``, ``added`` (per iteration),
        ``slowdown`` (measured, relative to the plain copy: the median of the processes' medians), ``low`` and
        ``high`` (the least and the largest of the processes: with five, 94 % of the time around the median), ``turns``
        (that count), ``quiet`` (whether all of them were on a quiet core), ``simulated`` (slowdown in the model;
        missing where none was asked) and ``own`` (whether the loop itself has such instructions; may be missing).
    instructions : float
        The loop's own instructions per iteration.
    cycles : float
        Measured cycles per iteration of the plain copy; NaN where the iterations of a call are not known.
    original : float
        Time of the original function relative to its plain copy, both timed like a variant: far from 1, the copy is
        another program.
    least : float
        Slowdown that counts as one.
    simulated_cycles : float
        Cycles of an iteration with nothing added in the model, what runs outside of the loop shared out; NaN where
        nothing was simulated, or by an earlier version.
    refused : mapping
        Kinds that could not be added -> why.
    notes : tuple of str
        What else to know.
    host : str
        Where this was measured.
    core : str
        The model's core; empty where nothing was simulated.

    Examples
    --------
    >>> result = pk.Noise(core="host").run(kernel)  # doctest: +SKIP
    >>> result.to_frame().set_index("kind")["idle"]  # doctest: +SKIP
    """

    name: str
    place: str
    curves: "pd.DataFrame"
    instructions: float
    cycles: float
    original: float
    least: float
    host: str
    core: str = ""
    simulated_cycles: float = math.nan
    refused: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    _rows: ClassVar[str] = "curves"

    @property
    def kind(self) -> str:
        """Measured; with curves of a model beside them, measured and simulated."""
        return "mixed (measured, simulated)" if self.core else "measured"

    @property
    def kinds(self) -> list[str]:
        """The kinds that were added, in order."""
        return list(dict.fromkeys(self.curves["kind"]))

    def curve(self, kind: str) -> "pd.DataFrame":
        """Return one kind's rows of `curves`.

        Raises
        ------
        SettingError
            That kind was not added.
        """
        if str(kind) not in self.kinds:
            raise SettingError(f"no noise of the kind {kind!r} was added; {did_you_mean(str(kind), self.kinds)}")
        return self.curves[self.curves["kind"] == kind]

    @cached_property
    def _measured(self) -> dict[str, Bend]:
        curves = {kind: self.curve(kind) for kind in self.kinds}
        return {kind: bend(c["added"], c["slowdown"], self.least, c["low"], self.cycles) for kind, c in curves.items()}

    @cached_property
    def _simulated(self) -> dict[str, Bend]:
        curves = {kind: self.curve(kind) for kind in self._modelled}
        cycles = self.simulated_cycles
        return {kind: bend(c["added"], c["simulated"], self.least, cycles=cycles) for kind, c in curves.items()}

    @cached_property
    def _modelled(self) -> list[str]:
        """The kinds that the model has seen."""
        return [kind for kind in self.kinds if self.curve(kind)["simulated"].notna().any()] if self.core else []

    @cached_property
    def slack(self) -> dict[str, str]:
        """How much slack each kind's resource has, in a word, measured: none, some, plenty, or that it is not known."""
        quiet = self.curves.groupby("kind")["quiet"].all()
        return {kind: word(found, self.cycles) if quiet[kind] else UNTOLD for kind, found in self._measured.items()}

    @property
    def bottleneck(self) -> str:
        """What holds the loop back, measured: a kind of noise, or a word of `noise_curves.first_bottleneck`.

        It cannot be told where the plain copy does not take the original's time.
        """
        if not abs(self.original - 1) <= COPY:
            return UNTOLD
        return self._first(self._measured, self.slack)

    @property
    def simulated_bottleneck(self) -> str:
        """The same by the same rule from the simulated curves; empty without a model."""
        if not self._modelled:
            return ""
        words = {kind: word(found, self.simulated_cycles) for kind, found in self._simulated.items()}
        return self._first(self._simulated, words)

    def _first(self, bends: Mapping[str, Bend], words: Mapping[str, str]) -> str:
        slack = {kind: found.slack for kind, found in bends.items()}
        slope = {kind: found.slope for kind, found in bends.items()}
        own = set(self.curves.loc[self.curves["own"], "kind"]) if "own" in self.curves else set()
        exposed = {kind: found.exposed for kind, found in bends.items()}
        return first_bottleneck(slack, words, self._dispatched(bends), slope, own, exposed)

    def _dispatched(self, bends: Mapping[str, Bend]) -> float:
        """Return the share of the time in which dispatch is busy: the loop's instructions, at a nop's cost each.

        Where no-operations never hurt, at most what leaves room for those that were added; 1 where none were.
        """
        nop = bends.get("nop")
        if nop is None:
            return 1.0
        if not np.isfinite(nop.slope):
            return self.instructions / (self.instructions + nop.absorbed)
        return self.instructions * nop.slope

    def disagreement(self, kind: str) -> float:
        """Return how far the model's curve of one kind is off: the mean absolute difference of logarithms."""
        curve = self.curve(kind)
        return float(np.abs(np.log(curve["simulated"] / curve["slowdown"])).mean()) if self.core else np.nan

    def to_frame(self) -> "pd.DataFrame":
        """One row per kind of noise.

        Columns: kind, resource, absorbed (instructions per iteration before it gets slower), low and high (from the
        ends of the curve's intervals), first_slower (the fewest added instructions with a significant slowdown),
        cycles_each (cycles per further instruction), idle (share of the time in which the resource had nothing to
        do), slack (in a word), and, with a model, simulated_absorbed, simulated_idle and disagreement.
        """
        pd = of_extra("pandas")

        rows = []
        for kind in self.kinds:
            curve, found = self.curve(kind), self._measured[kind]
            ends = [
                bend(curve["added"], curve[end], self.least, cycles=self.cycles).absorbed for end in ("high", "low")
            ]
            row = {
                "kind": kind,
                "resource": curve["resource"].iloc[0],
                "absorbed": found.absorbed,
                "low": min(*ends, found.absorbed),
                "high": max(*ends, found.absorbed),
                "first_slower": found.first,
                "cycles_each": found.slope * self.cycles,
                "idle": found.slack,
                "slack": self.slack[kind],
            }
            if self.core:
                model = self._simulated.get(kind)
                row |= {
                    "simulated_absorbed": model.absorbed if model else np.nan,
                    "simulated_idle": model.slack if model else np.nan,
                    "disagreement": self.disagreement(kind),
                }
            rows.append(row)
        return pd.DataFrame(rows)

    def summary(self) -> str:
        """Say what holds the loop back, which resources have no slack, some, plenty, and what the model says."""
        names = {said: [kind for kind in self.kinds if self.slack[kind] == said] for said in (NONE, SOME, PLENTY)}
        cycles = f"{self.cycles:.2f}" if np.isfinite(self.cycles) else "an unknown number of"
        lines = [
            f"{self.name}: {self._meaning(self.bottleneck)} (measured)",
            (
                f"{self.place}: {cycles} cycles and {self.instructions:.1f} instructions per iteration, on "
                f"{self.host}; data: {self.kind}"
            ),
            "; ".join(f"{_SLACK[said]}: {', '.join(kinds)}" for said, kinds in names.items() if kinds)
            or "slack unknown",
        ]
        if self._modelled:
            worst = max(self._modelled, key=self.disagreement)
            lines.append(
                f"simulated on {self.core}: {self._meaning(self.simulated_bottleneck)}; its curves are "
                f"{np.expm1(np.mean([self.disagreement(kind) for kind in self._modelled])):.0%} off the measured ones, "
                f"most for {worst} ({np.expm1(self.disagreement(worst)):.0%})"
            )
        if self.refused:
            lines.append("not added: " + "; ".join(f"{kind} ({why})" for kind, why in self.refused.items()))
        if not self.curves["quiet"].all():
            lines.append("Too few turns were on a quiet core: these are curves beside a busy thread; try again later.")
        if abs(self.original - 1) > COPY:
            lines.append(
                f"The original takes {self.original:.2f} times as long as its plain copy: what holds for one need not "
                "hold for the other."
            )
        return "\n".join([*lines, *self.notes][:8])

    def _meaning(self, found: str) -> str:
        if found in MEANINGS:
            return MEANINGS[found]
        return f"held back by {self.curve(found)['resource'].iloc[0]}: added ones ({found}) hurt at once"

    @overload
    def plot(self, ax: "Axes", kinds: "list[str] | None" = ...) -> "Axes": ...

    @overload
    def plot(self, ax: "Axes | None" = ..., *, kinds: "list[str]") -> "Axes": ...

    @overload
    def plot(self, ax: None = ..., kinds: None = ...) -> "Figure": ...

    @overload
    def plot(self, ax: "Axes | None" = ..., kinds: "list[str] | None" = ...) -> "Axes | Figure": ...

    def plot(self, ax: "Axes | None" = None, kinds: "list[str] | None" = None) -> "Axes | Figure":
        """Draw a strip for each kind; into `ax`, or where `kinds` chooses some, all in one picture.

        Measured curves are solid, with their intervals; simulated ones dashed.
        """
        expect_shown(len(self.curves), "no curve was measured")
        if ax is None and kinds is None:
            figure: Figure = drawn("noise:plot_strips", self)
            return figure
        return draw("noise:plot_noise", self, kinds=kinds, ax=ax)
