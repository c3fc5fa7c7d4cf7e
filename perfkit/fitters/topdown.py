"""Top-down analysis, first level: which share of a processor's issue slots went where.

A. Yasin: A Top-Down Method for Performance Analysis and Counters Architecture (ISPASS 2014), with the formulas as the
Gus paper prints them (Fig. 3). It is the baseline that SPIRE is compared with (SPIRE, section IV).
"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pandas as pd

from perfkit.base.results import Settings, Tabled, draw, labelled
from perfkit.errors import DataError, PerfkitWarning, SettingError, counted, listed
from perfkit.samples.events import TIME_EVENTS, normalise
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
    """

    name: str
    needs: tuple[str, ...]
    width: float | None
    formula: Formula
    source: str


@dataclass(frozen=True)
class TopDown(Settings):
    """Settings of the first level of top-down analysis; `fit` returns the fractions.

    Parameters
    ----------
    width : float, optional
        Issue slots per cycle, for processors on which the events do not tell. By default that of the scheme's
        processors: 4 for Intel before Ice Lake, 6 for AMD Zen 4; Arm needs it given.
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
        counted in different intervals.

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
        needed = samples.select(events=[names[n] for n in scheme.needs if names[n] in samples.events])
        by_run = _fractions(needed, scheme, names, width, ["run"])
        by_interval = _fractions(needed, scheme, names, width, ["run", "place", "interval"])
        if by_run[list(FRACTIONS)].isna().any(axis=1).all():
            raise DataError(
                f"no run has issue slots to part: its time is 0, or none of {listed(scheme.needs, 4)} was counted in it"
            )
        _warn_outside(by_run, scheme)
        return TopDownFractions(by_run, by_interval, scheme.name, scheme.source, samples.kind)

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
    """

    _rows: ClassVar[str] = "runs"

    runs: pd.DataFrame
    intervals: pd.DataFrame
    scheme: str
    source: str
    kind: str

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
            shares = ", ".join(f"{part.replace('_', ' ')} {row[part]:.0%}" for part in FRACTIONS if part != main[run])
            lost = str(main[run])
            lines.append(f"{run}: {lost.replace('_', ' ')} {row[lost]:.0%} of the issue slots; {shares}")
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
        lost = rates[recovery] * (slots / rates[CYCLES] if CYCLES in rates else 1.0)
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
_GUS = "Gus paper, Fig. 3 (after Yasin, ISPASS 2014)"

SCHEMES = (
    Scheme(
        "Intel, topdown metrics",
        _METRICS,
        None,
        _metrics,
        "Gus paper, Fig. 3: provided by events of their own on recent Intel cores",
    ),
    Scheme("Intel before Ice Lake", (CYCLES, *_INTEL), 4.0, _yasin(*_INTEL), _GUS),
    Scheme("Linux topdown events", ("topdown-total-slots", *_LINUX), None, _yasin(*_LINUX), _GUS),
    Scheme(
        "AMD Zen 4",
        (CYCLES, "ex_ret_ops", "de_src_op_disp.all", "de_no_dispatch_per_slot.no_ops_from_frontend"),
        6.0,
        _zen4,
        "AMD, pipeline utilisation metrics of Zen 4 (Linux perf's metric group PipelineL1)",
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
) -> pd.DataFrame:
    """Return the four fractions for each group of rows."""
    table = samples.table
    known = table[table["count"].notna() & table["time"].notna()]
    sums = known.groupby([*by, "event"], observed=True)[["count", "time"]].sum()
    rate = (sums["count"] / sums["time"].where(sums["time"] > 0)).unstack("event")
    if samples.work_event in {names[n] for n in scheme.needs}:  # where it stands in for the work
        each = known.drop_duplicates(["run", "place", "interval"]).groupby(by, observed=True)[["work", "time"]].sum()
        rate[samples.work_event] = each["work"] / each["time"].where(each["time"] > 0)
    rates = {n: _rate(rate, names[n], samples.time_event) for n in scheme.needs}
    slots = rates[CYCLES] * width if width is not None else _slots(rates)
    retiring, front_end, bad_speculation = scheme.formula(rates, slots)
    out = pd.DataFrame({"retiring": retiring, "front_end": front_end, "bad_speculation": bad_speculation})
    out["back_end"] = 1.0 - out.sum(axis=1, skipna=False)
    return out.reset_index().astype({k: "str" for k in by if k != "interval"}).set_index(by)


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
