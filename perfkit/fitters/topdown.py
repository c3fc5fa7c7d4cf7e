"""Top-down analysis, first level: which share of a processor's issue slots went where.

A. Yasin: A Top-Down Method for Performance Analysis and Counters Architecture (ISPASS 2014), with the formulas as the
Gus paper prints them (Fig. 3). It is the baseline that SPIRE is compared with (SPIRE, section IV).
"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd

from perfkit.base.results import Settings, Tabled, draw, labelled
from perfkit.errors import DataError, PerfkitWarning, SettingError, counted, listed
from perfkit.fitters.bottlenecks.recognise import core_named
from perfkit.machine.core import Microarchitecture
from perfkit.samples.events import TIME_EVENTS, WORK_EVENTS, normalise
from perfkit.samples.impossible import leave_out
from perfkit.samples.table import Samples, expect_samples

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FRACTIONS = ("retiring", "front_end", "bad_speculation", "back_end")
CYCLES = "cycles"  # stands for whichever event counts cycles

Rates = Mapping[str, pd.Series]
Formula = Callable[[Rates, pd.Series], tuple[pd.Series, pd.Series, pd.Series]]


@dataclass(frozen=True)
class Scheme:
    """One family of events from which the first level can be computed.

    Attributes
    ----------
    name : str
        What the family is called in results.
    needs : tuple of str
        Normalised names of the events; ``cycles`` stands for any event that counts cycles.
    width : float or None
        Issue slots per cycle; None where the events count slots themselves, NaN where it must be given.
    formula : function
        Of the rates of the needed events and of slots; gives retiring, front end and bad speculation.
    source : str
        Where the formulas come from.
    uses : tuple of str
        Further events that change the slots, or show how many there are, where they were counted.
    """

    name: str
    needs: tuple[str, ...]
    width: float | None
    formula: Formula
    source: str
    uses: tuple[str, ...] = ()


@dataclass(frozen=True)
class TopDown(Settings):
    """Settings of the first level of top-down analysis; `fit` returns the fractions.

    Parameters
    ----------
    width : float, optional
        Issue slots per cycle, for processors on which the events do not tell. By default that of the scheme's
        processors: 4 for Intel before Ice Lake; of AMD's, 6 for Zen 4 and 8 for Zen 5, by the processor's name or by
        all parts of the slots together, and where neither says which, what both give is told; Arm needs it given.
    scheme : str, optional
        Use this scheme only, by name (see `SCHEMES`); by default the first whose events are all there.

    Examples
    --------
    >>> import perfkit as pk
    >>> from perfkit.fitters.topdown import TopDown
    >>> TopDown().fit(pk.datasets.load("spire/memory")).main["memory"]
    'back_end'
    """

    _instead = "the counts go to .fit(samples)"

    width: float | None = None
    scheme: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.width is not None and not (np.isfinite(self.width) and self.width > 0):
            raise SettingError(f"width is a number of slots per cycle above 0; found {self.width}")
        names = [s.name for s in SCHEMES]
        if self.scheme is not None and self.scheme not in names:
            raise SettingError(f"unknown scheme {self.scheme!r}; known: {', '.join(names)}")

    def fit(self, samples: Samples) -> "TopDownFractions":
        """Return the four fractions of each run and of each of its intervals.

        Rates are total counts over the total time in which each event was counted, so that events may have been
        counted in different intervals. Intervals whose counts cannot be are left out, and told; where they take more
        than a tenth of a run's time, or the sums cannot be, the run is doubted.

        Raises
        ------
        DataError
            No scheme's events are all there: the message says what is missing from each.
        SettingError
            The scheme needs a width and none was given.
        """
        expect_samples(samples, "TopDown.fit")
        names = _names(samples)
        scheme = self._choose(samples, names)
        width = self.width if self.width is not None else scheme.width
        if width is not None and np.isnan(width):
            raise SettingError(
                f"the events of {scheme.name} do not tell the issue width; give TopDown(width=...), for example 8 for "
                "Neoverse V1 or 5 for Neoverse N2"
            )
        needed = samples.select(
            events=[names[n] for n in (*scheme.needs, *scheme.uses) if names.get(n) in samples.events]
        )
        either = _amd_widths(needed, names) if scheme.width == _ZEN4 and self.width is None else ()
        width = either[0] if either else width
        intervals, cannot = _fractions(needed, scheme, names, width, _INTERVAL)
        # A run of one interval is judged as a whole.
        several = intervals.groupby(level="run").size().loc[lambda n: n > 1].index
        kept = leave_out(needed, {key: told for key, told in cannot.items() if key[0] in several})
        needed, left_out = kept.samples, {run: f"left out: {told}" for run, told in kept.left_out.items()}
        by_run, doubts = _fractions(needed, scheme, names, width, ["run"])
        if by_run[list(FRACTIONS)].isna().any(axis=1).all():
            raise DataError(
                f"no run has issue slots to part: its time is 0, or none of {listed(scheme.needs, 4)} was counted in it"
            )
        _warn_outside(by_run, scheme)
        doubts |= {run: told for run, told in kept.damaged.items() if run not in doubts}
        for wider in either[1:]:
            other = _fractions(needed, scheme, names, wider, ["run"])[0]
            for run, told in _either_width(by_run, other).items():
                same = by_run.loc[run, list(FRACTIONS[1:])].idxmax() == other.loc[run, list(FRACTIONS[1:])].idxmax()
                if same:
                    left_out[run] = "; ".join(filter(None, [left_out.get(run, ""), told]))
                else:
                    doubts.setdefault(run, told)
        for run, told in [(run, told) for run, told in doubts.items() if not _outside(by_run.loc[run])][:1]:
            warnings.warn(f"top-down of {run} is not supported: {told}", PerfkitWarning, stacklevel=2)
        return TopDownFractions(
            by_run,
            intervals,
            scheme.name,
            scheme.source,
            samples.kind,
            _told(doubts, "doubt"),
            _told(left_out, "remark"),
        )

    def _choose(self, samples: Samples, names: Mapping[str, str]) -> Scheme:
        lines = []
        for scheme in SCHEMES:
            if self.scheme not in (None, scheme.name):
                continue
            lacking = [n for n in scheme.needs if n not in names]
            if not lacking:
                return scheme
            lines.append(f"{scheme.name} lacks {', '.join(lacking)}")
        raise DataError(
            f"no known set of top-down events is complete among the {len(samples.events)} events of these samples: "
            f"{'; '.join(lines)}. Collect one of these sets."
        )


@dataclass(frozen=True, eq=False, repr=False)
class TopDownFractions(Tabled):
    """Fractions of issue slots: retiring, front_end, bad_speculation and back_end; they add up to 1.

    Attributes
    ----------
    runs : DataFrame
        One row per run (index).
    intervals : DataFrame
        One row per interval (index run, place, interval); NaN where an event was not counted in it.
    scheme, source : str
        Which events they were computed from, and whose formulas those are.
    kind : str
        What was analysed: measured, simulated, generated or published samples.
    doubts : DataFrame
        Why a run's fractions are not supported: run, doubt.
    remarks : DataFrame
        What else to know of a run: run, remark (intervals that were left out; a width that is not known).
    """

    _rows: ClassVar[str] = "runs"

    runs: pd.DataFrame
    intervals: pd.DataFrame
    scheme: str
    source: str
    kind: str
    doubts: pd.DataFrame = field(default_factory=lambda: _told({}, "doubt"))
    remarks: pd.DataFrame = field(default_factory=lambda: _told({}, "remark"))

    @property
    def main(self) -> pd.Series:
        """What each run loses most slots to: front_end, bad_speculation or back_end; of runs without slots, nothing."""
        return self.runs[list(FRACTIONS[1:])].dropna().idxmax(axis=1)

    def to_frame(self) -> pd.DataFrame:
        """Return one row per run: run and the four fractions."""
        return self.runs.reset_index()

    def summary(self) -> str:
        """Say what each run loses most issue slots to."""
        main, lines = self.main, []
        for run, row in self.runs.head(4).iterrows():
            if run not in main.index:
                lines.append(f"{run}: no issue slots were counted")
                continue
            if _outside(row):
                lines.append(f"{run}: unsupported: fractions outside 0 to 1, so that the counts are inconsistent")
                continue
            doubts = self.doubts.loc[self.doubts["run"] == str(run), "doubt"].tolist()
            if doubts:
                lines.append(f"{run}: unsupported: {'; '.join(doubts)}")
                continue
            shares = ", ".join(f"{part.replace('_', ' ')} {row[part]:.0%}" for part in FRACTIONS if part != main[run])
            lost = str(main[run])
            lines.append(f"{run}: {lost.replace('_', ' ')} {row[lost]:.0%} of the issue slots; {shares}")
            lines[-1] += "".join(f"; {told}" for told in self.remarks.loc[self.remarks["run"] == str(run), "remark"])
        more = [f"and {counted(len(self.runs) - 4, 'more runs')}"] if len(self.runs) > 4 else []
        lines[0] += labelled(self.kind)
        return "\n".join([*lines, *more, f"events: {self.scheme}"])

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw a stacked bar per run; return the matplotlib axes."""
        return draw("spire:plot_topdown", self, ax=ax)


# ------------------------------------------------------------------ the schemes


def _yasin(issued: str, retired: str, bubbles: str, recovery: str) -> Formula:
    """Fig. 3 of the Gus paper; recovery is in cycles where the slots come from cycles."""

    def formula(rates: Rates, slots: pd.Series) -> tuple[pd.Series, pd.Series, pd.Series]:
        per_cycle = slots / rates[CYCLES] if CYCLES in rates else 1.0
        lost = rates[recovery] * per_cycle
        if _BOTH in rates:  # the core's cycles are half of what its two threads count
            lost = rates[recovery] * slots / (rates[_BOTH] / 2) if _LOST not in rates else rates[_LOST] / 2 * 4.0
        return rates[retired] / slots, rates[bubbles] / slots, (rates[issued] - rates[retired] + lost) / slots

    return formula


def _metrics(rates: Rates, slots: pd.Series) -> tuple[pd.Series, pd.Series, pd.Series]:
    return rates["topdown-retiring"] / slots, rates["topdown-fe-bound"] / slots, rates["topdown-bad-spec"] / slots


def _shares(rates: Rates, slots: pd.Series) -> tuple[pd.Series, pd.Series, pd.Series]:
    return rates["retiring"] / slots, rates["frontend_bound"] / slots, rates["bad_speculation"] / slots


def _zen4(rates: Rates, slots: pd.Series) -> tuple[pd.Series, pd.Series, pd.Series]:
    retired = rates["ex_ret_ops"]
    front_end = rates["de_no_dispatch_per_slot.no_ops_from_frontend"]
    return retired / slots, front_end / slots, (rates["de_src_op_disp.all"] - retired) / slots


def _arm(rates: Rates, slots: pd.Series) -> tuple[pd.Series, pd.Series, pd.Series]:
    stalled = (rates["stall_slot_frontend"] + rates["stall_slot_backend"]) / slots
    useful = rates["op_retired"] / rates["op_spec"]
    return (1 - stalled) * useful, rates["stall_slot_frontend"] / slots, (1 - stalled) * (1 - useful)


_INTEL = ("uops_issued.any", "uops_retired.retire_slots", "idq_uops_not_delivered.core", "int_misc.recovery_cycles")
_LINUX = ("topdown-slots-issued", "topdown-slots-retired", "topdown-fetch-bubbles", "topdown-recovery-bubbles")
_METRICS = ("topdown-retiring", "topdown-fe-bound", "topdown-bad-spec", "topdown-be-bound")
_TOPLEV = ("retiring", "frontend_bound", "bad_speculation", "backend_bound")
_BOTH, _LOST = "cpu_clk_unhalted.thread_any", "int_misc.recovery_cycles_any"  # of both threads of a core
_SLOTS = ("slots", "topdown.slots")
_OTHER_THREAD, _BACK = "de_no_dispatch_per_slot.smt_contention", "de_no_dispatch_per_slot.backend_stalls"
_ZEN4, _ZEN5 = 6.0, 8.0  # slots per cycle of AMD's that have these events
_INTERVAL = ["run", "place", "interval"]
# Of the slots, by which the parts may be off; of the interval's, where slots are what is left of others. Per cycle:
# half of Ice Lake's, where two threads share them, and more than any has. Two instructions that are fused are one uop.
_OFF, _FEWEST, _MOST, _FUSED = 0.1, 2.2, 9.0, 2.5
_WIDER, _AMD = 0.05, 3  # by which the parts of a cycle's slots may be off; the scheme of AMD's in SCHEMES
_GUS = "Gus paper, Fig. 3 (after Yasin, ISPASS 2014)"

SCHEMES = (
    Scheme(
        "Intel, topdown metrics",
        _METRICS,
        None,
        _metrics,
        "Gus paper, Fig. 3: provided by events of their own on recent Intel cores",
        (*_SLOTS, CYCLES),
    ),
    Scheme("Intel before Ice Lake", (CYCLES, *_INTEL), 4.0, _yasin(*_INTEL), _GUS, (_BOTH, _LOST)),
    Scheme("Linux topdown events", ("topdown-total-slots", *_LINUX), None, _yasin(*_LINUX), _GUS),
    Scheme(
        "AMD Zen 4",
        (CYCLES, "ex_ret_ops", "de_src_op_disp.all", "de_no_dispatch_per_slot.no_ops_from_frontend"),
        _ZEN4,
        _zen4,
        "AMD, pipeline utilisation metrics of Zen 4 (Linux perf's metric group PipelineL1)",
        (_OTHER_THREAD, _BACK),
    ),
    Scheme(
        "Arm Neoverse",
        (CYCLES, "stall_slot_frontend", "stall_slot_backend", "op_retired", "op_spec"),
        float("nan"),
        _arm,
        "Arm, Neoverse telemetry specification, top-down level 1",
    ),
    Scheme(
        "toplev's first level",
        _TOPLEV,
        None,
        _shares,
        "toplev (pmu-tools), which computes the four nodes after Yasin, ISPASS 2014",
        _SLOTS,
    ),
)


# ------------------------------------------------------------------ helpers


def _names(samples: Samples) -> dict[str, str]:
    """Return the samples' name of each event by its normalised name; ``cycles`` is whatever counts cycles."""
    present = [*samples.events, samples.time_event, samples.work_event]
    # toplev's shares of an interval whose slots nobody counted are in slots x seconds, all in the same unit.
    names = {normalise(e).removesuffix(" [slots x s]"): e for e in reversed(present)}
    counting = [names[c] for c in TIME_EVENTS if c in names and c != "seconds"]
    if normalise(samples.time_event) in TIME_EVENTS and samples.time_event != "seconds":
        counting.insert(0, samples.time_event)
    if counting:
        names[CYCLES] = counting[0]
    return names


def _fractions(
    samples: Samples, scheme: Scheme, names: Mapping[str, str], width: float | None, by: list[str]
) -> tuple[pd.DataFrame, dict[Any, str]]:
    """Return the four fractions for each group of rows, and why they cannot be, for those of which that is so."""
    table = samples.table
    known = table[table["count"].notna() & table["time"].notna()]
    sums = known.groupby([*by, "event"], observed=True)[["count", "time"]].sum()
    rate = (sums["count"] / sums["time"].where(sums["time"] > 0)).unstack("event")
    used = [*scheme.needs, *(n for n in scheme.uses if n in names)]
    work = _work_rate(known, by)
    if samples.work_event in {names[n] for n in used}:  # where it stands in for the work
        rate[samples.work_event] = work
    rates = {n: _rate(rate, names[n], samples.time_event) for n in used}
    slots = rates[CYCLES] * width if width is not None else _slots(rates)
    if _BOTH in rates and width is not None:
        slots = (rates[_BOTH] / 2 * width).fillna(slots)
    if _OTHER_THREAD in rates:  # the other thread's are not this one's to use
        slots = slots - rates[_OTHER_THREAD].fillna(0.0)
    retiring, front_end, bad_speculation = scheme.formula(rates, slots)
    out = pd.DataFrame({"retiring": retiring, "front_end": front_end, "bad_speculation": bad_speculation})
    out["back_end"] = 1.0 - out.sum(axis=1, skipna=False)
    each_second = samples.time_event == "seconds" and any("slots x s" in names[n].lower() for n in scheme.needs)
    retired = slots * retiring
    if normalise(samples.work_event) not in WORK_EVENTS or each_second:
        retired = retired * np.nan
    cannot = _impossible(out, rates, slots, work / retired.where(retired > 0), each_second=each_second)
    out = out.reset_index().astype({k: "str" for k in by if k != "interval"}).set_index(by)
    keys = out.index.tolist()
    return out, {key: told for key, told in zip(keys, cannot, strict=True) if told}


def _work_rate(known: pd.DataFrame, by: list[str]) -> pd.Series:
    each = known.drop_duplicates(_INTERVAL).groupby(by, observed=True)[["work", "time"]].sum()
    return each["work"] / each["time"].where(each["time"] > 0)


def _impossible(out: pd.DataFrame, rates: Rates, slots: pd.Series, fused: pd.Series, *, each_second: bool) -> list[str]:
    """Return why the counts of each row cannot be, in words: expected, found, what to do; "" where they can."""
    whole = next((rates[n] for n in _SLOTS if n in rates), None)
    if whole is None:
        whole = pd.Series(1.0 if each_second else np.nan, index=slots.index)
    of_all = (_slots(rates) / whole.where(whole > 0)) if _METRICS[0] in rates or _TOPLEV[0] in rates else whole * np.nan
    per_cycle = slots / rates[CYCLES] if _METRICS[0] in rates and CYCLES in rates else whole * np.nan
    found = []
    for row in out.index:
        sum_, wide, ops = float(of_all[row]), float(per_cycle[row]), float(fused.get(row, np.nan))
        if abs(sum_ - 1.0) > _OFF:
            told = f"the four parts must be all of the slots, and are {sum_:.0%} of them: count all of them together"
        elif wide < _FEWEST or wide > _MOST:
            told = (
                f"a processor has 4 to 8 slots per cycle (half, where two threads share them), and {wide:.2g} were "
                "counted: count slots and cycles in one mode, of one program"
            )
        elif ops > _FUSED:
            told = (
                f"{ops:.2g} instructions for each slot that retired a uop, which are 2 at most: count all in one mode, "
                "of one program"
            )
        elif bool(((out.loc[row] < -_OFF) | (out.loc[row] > 1.0 + _OFF)).any()):
            used, more = 1.0 - float(out.loc[row, "back_end"]), -float(out.loc[row, "bad_speculation"])
            told = (
                f"{more:.0%} of the slots retired more uops than were issued"
                if more > _OFF
                else f"retiring, front end and bad speculation are {used:.0%} of the slots together"
            )
            told += ": count all events in the same intervals, or give the processor's TopDown(width=)"
        else:
            told = ""
        found.append(told)
    return found


def _amd_widths(samples: Samples, names: Mapping[str, str]) -> tuple[float, ...]:
    """Return how many slots per cycle an AMD processor has; both numbers where nothing says which."""
    said = " ".join([*samples.runs["parameters"], *samples.runs["host"]])
    core = core_named(said)
    if core:
        return (float(Microarchitecture.load(core).value("front_end")),)
    table = samples.table[samples.table["count"].notna() & (samples.table["time"] > 0)]
    sums = table.groupby("event", observed=True)[["count", "time"]].sum()
    parts = [names.get(n, "") for n in (*SCHEMES[_AMD].needs[2:], _BACK, _OTHER_THREAD)]
    rates = [float(sums.loc[n, "count"] / sums.loc[n, "time"]) for n in parts if n in sums.index]
    if sum(rates) > _ZEN4 * (1 + _WIDER):
        return (_ZEN5,)
    if len(rates) >= len(parts) - 1 and parts[2] in sums.index and abs(sum(rates) / _ZEN4 - 1) <= _WIDER:
        return (_ZEN4,)
    return (_ZEN4, _ZEN5)


def _either_width(first: pd.DataFrame, second: pd.DataFrame) -> dict[str, str]:
    """Return what two numbers of slots per cycle give, for each run, in words."""
    found = {}
    for run, row in first.dropna().iterrows():
        other = second.loc[run]
        parts = ", ".join(f"{part.replace('_', ' ')} {row[part]:.0%} or {other[part]:.0%}" for part in FRACTIONS)
        found[str(run)] = (
            f"with {_ZEN4:g} slots per cycle (Zen 4) or {_ZEN5:g} (Zen 5): {parts}; neither the processor's name nor "
            f"the counts say which: give TopDown(width=), or count {_BACK}, too"
        )
    return found


def _told(found: Mapping[str, str], what: str) -> pd.DataFrame:
    return pd.DataFrame({"run": list(found), what: list(found.values())}, dtype="str")


def _rate(rate: pd.DataFrame, event: str, time_event: str) -> pd.Series:
    if event == time_event:
        return pd.Series(1.0, index=rate.index)
    return rate[event] if event in rate.columns else pd.Series(np.nan, index=rate.index)


def _slots(rates: Rates) -> pd.Series:
    if "topdown-total-slots" in rates:
        return rates["topdown-total-slots"]
    a, b, c, d = (rates[n] for n in (_METRICS if _METRICS[0] in rates else _TOPLEV))
    return a + b + c + d


def _outside(fractions: pd.Series) -> bool:
    """Return whether fractions of a run cannot be any."""
    return bool(((fractions < -0.02) | (fractions > 1.02)).any())


def _warn_outside(fractions: pd.DataFrame, scheme: Scheme) -> None:
    outside = fractions.apply(_outside, axis=1)
    if outside.any():
        warnings.warn(
            f"top-down fractions outside 0 to 1 in {', '.join(map(str, fractions.index[outside][:5]))}: counts are "
            f"inconsistent, or the width of the scheme ({scheme.name}) is not this processor's: give TopDown(width=)",
            PerfkitWarning,
            stacklevel=3,
        )
