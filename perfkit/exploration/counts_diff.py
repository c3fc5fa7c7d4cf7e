"""What changed between two dumps of counters: time per work, the events' rates, and the CPI stacks where data allow."""

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import pandas as pd

from perfkit.base.results import Tabled, check_top, draw, expect_shown, joint_kind, labelled, markdown_table
from perfkit.errors import DataError, PerfkitError, SettingError, listed
from perfkit.exploration.exploration import per_work
from perfkit.exploration.facts import clock, passed
from perfkit.fitters.cpi.stack import CpiComparison, CpiFit, CpiStack
from perfkit.readers.open_samples import open_samples
from perfkit.samples.events import per_unit
from perfkit.samples.processors import processor_of
from perfkit.samples.table import Samples, expect_samples

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SAME_CLOCK = 1.05  # by so much the clocks of two runs may differ
_PARTS = ("part", "cpi_a", "cpi_b", "difference", "low", "high")


@dataclass(frozen=True, eq=False, repr=False)
class CountsDiff(Tabled):
    """Two dumps of counters side by side.

    Attributes
    ----------
    names : (str, str)
        What to call them.
    kinds : (str, str)
        What each holds: measured, simulated, generated or published counts.
    events : (str, str)
        The events that measure time and work, the same ones for both.
    time_per_work : (float, float)
        Time over work of each dump: CPI where these are cycles and instructions.
    table : DataFrame
        One row per event that either counted: event, rate_a, rate_b (per 1000 of work; missing where it was not
        counted), ratio (rate_b over rate_a; missing where either is missing or rate_a is 0).
    stack : DataFrame
        One row per part of the CPI stacks, fitted to the events that both counted: part, cpi_a, cpi_b, difference, low,
        high (its block-bootstrap interval). No rows where either dump does not support a stack.
    verdicts : (str, str)
        Of the stacks: supported, uncertain, unsupported, or why there is none.
    notes : tuple of str
        What makes the two hard to compare.
    seconds_per_work : (float, float)
        The seconds that passed over the work of each dump; NaN where a dump has none, or is of no machine.

    Examples
    --------
    >>> import perfkit as pk
    >>> before, _ = pk.synthetic_cpi(intervals=150, workload="before", seed=1)
    >>> after, _ = pk.synthetic_cpi(intervals=150, workload="after", base=0.3, seed=1)
    >>> pk.diff_counts(before, after, names=("before", "after")).kind
    'generated'
    """

    _rows: ClassVar[str] = "table"

    names: tuple[str, str]
    kinds: tuple[str, str]
    events: tuple[str, str]
    time_per_work: tuple[float, float]
    table: pd.DataFrame
    stack: pd.DataFrame
    verdicts: tuple[str, str]
    notes: tuple[str, ...] = ()
    seconds_per_work: tuple[float, float] = (float("nan"), float("nan"))

    @property
    def kind(self) -> str:
        """What the data are; ``mixed (...)`` where the two dumps are of different kinds."""
        return joint_kind(self.kinds)

    @property
    def unit(self) -> str:
        """What the time per work is: CPI, or the two events."""
        time, work = self.events
        return "CPI" if time != "seconds" and "inst" in work.lower() else per_unit(time, work)

    def to_frame(self) -> pd.DataFrame:
        """Return one row per event, those whose rate changed by the largest factor first."""
        far = (self.table["ratio"].where(self.table["ratio"] > 0)).map(lambda r: max(r, 1 / r), na_action="ignore")
        order = far.sort_values(ascending=False, kind="stable", na_position="last").index
        return self.table.loc[order].reset_index(drop=True)

    def summary(self) -> str:
        """Say how time per work changed, which rates changed most, and what the CPI stacks say, if anything."""
        a, b = self.time_per_work
        each = [
            f"{name} {value:.4g}{labelled(kind)}"
            for name, value, kind in zip(self.names, (a, b), self.kinds, strict=True)
        ]
        what = "time per work" if self.events[0] == "seconds" else per_unit(*self.events)
        lines = [*self._seconds(), f"{self.unit}: {each[0]}, {each[1]}: {b / a - 1:+.1%} {what}"]
        most = self.to_frame().dropna(subset="ratio").head(4)
        if len(most):
            told = [f"{row.event} {row.rate_a:.3g} to {row.rate_b:.3g}" for row in most.itertuples()]
            lines.append(f"per 1000 {self.events[1]}: {', '.join(told)}")
        lines.append(self._stacks())
        return "\n".join([*lines, *(f"careful: {note}" for note in self.notes)])

    def _seconds(self) -> list[str]:
        """Say what changed in seconds: the same cycles take longer at another clock, and so does waiting."""
        a, b = self.seconds_per_work
        if not (a > 0 and b > 0) or self.events[0] == "seconds":
            return []
        each = [f"{name} {value * 1e9:.4g} ns" for name, value in zip(self.names, (a, b), strict=True)]
        return [f"{per_unit('seconds', self.events[1])}: {each[0]}, {each[1]}: {b / a - 1:+.1%} time per work"]

    def _stacks(self) -> str:
        if not len(self.stack):
            reasons = [f"{name}: {verdict}" for name, verdict in zip("AB", self.verdicts, strict=True)]
            return f"no CPI stacks to compare ({'; '.join(reasons)})"
        parts = self.stack[~self.stack["part"].isin(["cpi", "residual"])]
        row = parts.loc[parts["difference"].abs().idxmax()]
        within = f" (from {row['low']:+.3g} to {row['high']:+.3g})" if pd.notna(row["low"]) else ""
        known = parts["low"].notna() & parts["high"].notna()
        if known.all() and ((parts["low"] <= 0) & (parts["high"] >= 0)).all():
            changed = f"no part changed by more than its interval; most {row['part']}, "
        else:
            changed = f"{row['part']} changed most, "
        told = listed(dict.fromkeys(self.verdicts))
        return f"by CPI stack ({told}): {changed}{row['difference']:+.3g} CPI{within}"

    def markdown(self, top: int = 10) -> str:
        """Return the summary and the tables in Markdown, for a pull request.

        Parameters
        ----------
        top
            Rows of the table of rates.
        """
        check_top(top)
        head = "\n".join(f"- {line}" for line in self.summary().splitlines())
        rates = [
            (row.event, *("not counted" if pd.isna(v) else f"{v:.4g}" for v in (row.rate_a, row.rate_b, row.ratio)))
            for row in self.to_frame().head(top).itertuples()
        ]
        tables = [markdown_table((f"per 1000 {self.events[1]}", "A", "B", "B / A"), rates)]
        if len(self.stack):
            parts = [
                (row.part, *("" if pd.isna(v) else f"{v:.4f}" for v in (row.cpi_a, row.cpi_b, row.difference)))
                for row in self.stack.itertuples()
            ]
            tables.append(markdown_table(("CPI stack", "A", "B", "difference"), parts))
        return "\n\n".join([f"A: {self.names[0]}, B: {self.names[1]}", head, *tables]) + "\n"

    def plot(self, ax: "Axes | None" = None, top: int = 12) -> "Axes":
        """Draw how many times as large each event's rate is in B, the largest factors on top; return the axes."""
        expect_shown(self.to_frame()["ratio"].notna().any(), "no event was counted, per work, on both sides")
        return draw("samples:plot_counts_diff", self, top=top, ax=ax)


def diff_counts(
    a: Samples | str | Path, b: Samples | str | Path, *, names: tuple[str, str] | None = None
) -> CountsDiff:
    """Compare two dumps of counters: time per work, each event's rate, and the CPI stacks.

    Parameters
    ----------
    a, b : Samples or path
        Before and after: dumps of any format. All runs of a dump are taken together.
    names : (str, str), optional
        What to call them; by default the files' names.

    Raises
    ------
    SettingError
        The two measure time or work by different events.
    DataError
        Neither samples in memory nor a path: a fleet, for example; or no samples.

    Examples
    --------
    >>> found = pk.diff_counts("before.txt", "after.txt")  # doctest: +SKIP
    """
    for each in (a, b):
        if not isinstance(each, str | Path):
            expect_samples(each, "diff_counts")
    sides = [each if isinstance(each, Samples) else open_samples(each, memory=True) for each in (a, b)]
    given = [
        Path(each).name if not isinstance(each, Samples) else name for each, name in zip((a, b), "AB", strict=True)
    ]
    for name, side in zip(names or given, sides, strict=True):
        if not len(side.table):
            raise DataError(f"{name} holds no samples: there is nothing to compare")
    first, second = sides[0], _like(sides[0], sides[1])
    totals = [per_work(side, pd.Series("all", index=side.table.index)).iloc[0] for side in (first, second)]
    rates = (
        pd.DataFrame({"rate_a": totals[0].iloc[1:], "rate_b": totals[1].iloc[1:]}).rename_axis("event").reset_index()
    )
    rates["ratio"] = (rates["rate_b"] / rates["rate_a"].where(rates["rate_a"] > 0)).astype("float64")
    stack, verdicts = _stacks(first, second)
    return CountsDiff(
        names or (given[0], given[1]),
        (first.kind, second.kind),
        (first.time_event, first.work_event),
        (float(totals[0].iloc[0]), float(totals[1].iloc[0])),
        rates,
        stack,
        verdicts,
        tuple(_notes(first, second)),
        (_seconds_per_work(first), _seconds_per_work(second)),
    )


def _seconds_per_work(samples: Samples) -> float:
    """Return the seconds that passed over the work that was done in them; NaN where nothing tells them."""
    spent = passed(samples) if samples.kind == "measured" else None
    work = samples.intervals()["work"].sum() if spent else 0.0
    return float(spent[0] / work) if spent and work > 0 else float("nan")


def _like(first: Samples, second: Samples) -> Samples:
    """Return the second dump with the first one's time and work."""
    if (first.time_event, first.work_event) == (second.time_event, second.work_event):
        return second
    try:
        return second.with_axes(first.time_event, first.work_event)
    except PerfkitError as error:
        raise SettingError(
            f"A measures {per_unit(first.work_event, first.time_event)} and B "
            f"{per_unit(second.work_event, second.time_event)}: "
            "two dumps are compared where both count the same time and work (perf stat -e cycles,instructions,...)"
        ) from error


def _stacks(first: Samples, second: Samples) -> tuple[pd.DataFrame, tuple[str, str]]:
    """Return the CPI stacks' parts side by side, none where a dump supports no stack, and the two verdicts."""
    axes = {first.time_event, first.work_event}
    both = tuple(event for event in first.events if event in set(second.events) and event not in axes)
    nothing = pd.DataFrame({name: pd.Series(dtype="str" if name == "part" else "float64") for name in _PARTS})
    if not both:
        return nothing, ("no event was counted in both",) * 2
    fits: dict[str, CpiFit] = {}
    verdicts: list[str] = []
    for name, side in (("a", first), ("b", second)):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the verdict holds what matters
                fits[name] = CpiStack(events=both).fit(side)
            verdicts.append(fits[name].verdict.level)
        except PerfkitError as error:
            verdicts.append(f"none: {error}")
    told = (verdicts[0], verdicts[1])
    if not all(verdict in ("supported", "uncertain") for verdict in told):
        return nothing, told
    found = CpiComparison(fits).difference("a", "b").reset_index()
    return found.set_axis(list(_PARTS), axis=1), told


def _notes(first: Samples, second: Samples) -> list[str]:
    """Say what makes the two hard to compare."""
    found = []
    if first.kind != second.kind:
        found.append(
            f"A holds {first.kind} counts and B {second.kind} ones: no change of a program explains the difference"
        )
    processors = [processor_of(each) for each in (first, second)]
    if all(family for family, _ in processors) and processors[0] != processors[1]:
        found.append(f"A is of {processors[0][1]} and B of {processors[1][1]}: their cycles are not of one length")
    rates = [clock(each) for each in (first, second)]
    (a, sure), (b, also) = rates
    if first.kind == second.kind == "measured" and a > 0 and b > 0 and not 1 / _SAME_CLOCK < a / b < _SAME_CLOCK:
        what, unit = ("clock", " GHz") if sure and also else ("cycles per second that passed", "e9")
        found.append(
            f"the {what} differ{'s' if sure and also else ''}: {a / 1e9:.3g}{unit} in A, {b / 1e9:.3g}{unit} in B"
        )
    for name, mine, others in (("A", first, second), ("B", second, first)):
        alone = [event for event in mine.events if event not in set(others.events)]
        if alone:
            found.append(f"counted in {name} only: {listed(alone, 6)}")
    return found
