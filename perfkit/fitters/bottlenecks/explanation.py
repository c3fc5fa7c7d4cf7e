"""What `perfkit.Bottlenecks` says: classes of resources with predicted speedup, probability and evidence."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from perfkit.base.results import Tabled, draw, expect_shown
from perfkit.errors import SettingError, counted, did_you_mean, listed
from perfkit.fitters.bottlenecks.doubts import (
    FASTER,
    LEFT_OUT,
    ahead,
    as_said,
    in_turns,
    places_or_cycles,
    share_counted,
)
from perfkit.fitters.bottlenecks.features import (
    NAMES,
    OF_LOADS,
    PORTS,
    RULES,
    SUMS,
    any_of,
    loads_nothing,
    telling_all,
)
from perfkit.fitters.bottlenecks.names import lacking, names_for, pasted
from perfkit.samples.events import as_perf_types, spelt
from perfkit.samples.table import Samples

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CANNOT_TELL = "cannot tell"
UNCERTAIN = "uncertain"
DIVISIONS = "divisions"  # of floating-point numbers: an event of the map that is none of the simulator's
SEVERAL = "tells several classes apart"
SURE = 0.5  # the probability below which no class is named
# A class is told where it is the likeliest, or is not, whatever the events that were not counted may have been: in so
# large, or so small, a share of the ways in which they are completed.
_SETTLED, OUT = 0.75, 0.1
_DIVIDING, _MUCH = ("integer units", "vector units"), 0.5
_DIFFER, _FEWEST = 0.2, 4  # of at least so many intervals name another class than the others do
_RATHER = 0.4  # of the intervals are likeliest held back by others than the only class that is named
_AGREE = 0.5  # of the cycles are in intervals of which the likeliest class is that of their sum; else they differ
_TELLING = 0.02  # the gain below which an event is not worth a count where the answer is known
_MOST_UNKNOWN = 0.5  # of the runs trained on, bound by what cannot be told here: then nothing is named
_DIFFERING, _DEPENDS = "its intervals differ", "it depends on events that were not counted"
EITHER = ("integer units", "vector units")
_IS_EITHER = (
    "ports 0 and 6 are as busy as each other and ports 1 and 5 are not: shifts, moves on a condition and branches take "
    "either port, vector instructions do not take port 6; the events of ports do not say what was executed"
)
_DIVIDES = "floating-point divisions may hold it back: no event is known that counts this processor's divider of them"
MIXED = "rates mix modes"  # `perfkit.samples.events.mode_cautions`
_NEXT = 3  # events to measure next that are told at once


def rows_of_run(runs: pd.DataFrame, run: str) -> pd.DataFrame:
    """Return one run's rows; SettingError, with the nearest name, where there is no such run."""
    found = runs[runs["run"] == str(run)]
    if found.empty:
        known = [str(name) for name in runs["run"].unique()]
        raise SettingError(f"unknown run {run!r}; {did_you_mean(run, known)}")
    return found


@dataclass(frozen=True, eq=False, repr=False)
class Explanation(Tabled):
    """Which classes of resources hold runs back.

    Examples
    --------
    >>> samples = pk.SimulatedPmu("zen4", intervals=4).collect(pk.datasets.load("traces/divider"))
    >>> found = pk.Bottlenecks.load("zen4").explain(samples)
    >>> found.of("divider")["resource"][0]
    'dividers'

    Attributes
    ----------
    runs : DataFrame
        One row per run and class, the likeliest first: run, resource, speedup (predicted share of the class in what a
        core twice as good in everything would give: exp(credit) - 1), probability (calibrated on simulated runs, that
        this is the first bottleneck), status ("told"; "uncertain": it depends on events that were not counted; "cannot
        tell": no event that it could be judged by was counted), evidence (shares of capacity, in words).
    intervals : DataFrame
        The same for each interval: run, place, interval, resource, speedup, probability, status.
    events : DataFrame
        Which events of the samples were used: simulated (what it stands for), real, note (where it does not mean what
        the simulator's event does).
    next_events : DataFrame
        What to measure next to decide, the most deciding first: run, resource, event, names (on this vendor's
        processors), gain (by how much the chance that two simulated runs which look alike differ in their bottleneck
        falls with the event), possible (the share of such runs that the class would hold back), prior (how often the
        class is the bottleneck in training).
    core, trained_on : str
        The core's name; the digest of the training data.
    kind : str
        Of the samples.
    time_event : str
        That time was measured in: by it, `command` has the mode (``:u``) and the PMU of a hybrid processor.
    unused : DataFrame
        Which events of the samples were not used: event, why.
    doubts : DataFrame
        What no such core can do, or why the counts are of another: run, doubt. Nothing is named of such a run.
    unmodelled : DataFrame
        What takes much of a run's time and is not modelled, as far as it was counted: run (index), what, event, share
        (of the cycles), left (of the cycles, what anything else can take at most). Where no class can give as much as
        half of it would, nothing is named.
    remarks : DataFrame
        What else to know of a run: run, remark (counters in turns, intervals that differ, events that the processor
        lacks).
    """

    _rows: ClassVar[str] = "runs"

    runs: pd.DataFrame
    intervals: pd.DataFrame
    events: pd.DataFrame
    next_events: pd.DataFrame
    core: str
    trained_on: str
    kind: str
    time_event: str = "cycles"
    unused: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=["event", "why"]))
    doubts: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=["run", "doubt"]))
    unmodelled: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=["what", "event", "share", "left"]))
    remarks: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=["run", "remark"]))

    def to_frame(self) -> pd.DataFrame:
        """Return a copy of `runs`."""
        return self.runs.copy()

    def of(self, run: str) -> pd.DataFrame:
        """Return one run's rows, the likeliest class first.

        Raises
        ------
        SettingError
            There is no such run.
        """
        return rows_of_run(self.runs, run).drop(columns="run").reset_index(drop=True)

    def answer(self, run: str) -> str:
        """Return the class that holds a run back, or ``"cannot tell"``.

        Nothing is named where the likeliest class has a probability under one half, where it depends on events that
        were not counted and could be, where half of the runs trained on were bound by classes of which no event was
        counted, where the counts cannot be those of such a core (`doubts`), or where what is not modelled may give as
        much (`unmodelled`).
        """
        rows = self.of(run)
        if self._doubted(run) or self._ahead(run):
            return CANNOT_TELL
        silent = rows.loc[rows["status"] == CANNOT_TELL, "resource"]
        wanted = self.next_events[self.next_events["run"] == run].drop_duplicates("resource")
        unknown = wanted.loc[wanted["resource"].isin(silent), "prior"].sum()
        first = rows.iloc[0]
        if first["status"] != "told" or not first["probability"] >= SURE or unknown >= _MOST_UNKNOWN:
            return CANNOT_TELL
        return str(first["resource"])

    def summary(self) -> str:
        """Say, for the first runs, what holds them back and why, and what to measure next."""
        names = [str(name) for name in self.runs["run"].unique()]
        told = 4 if len(names) == 4 else 3  # "and 1 more run" takes as much room as that run
        lines = [self._sentence(run) for run in names[:told]]
        if len(names) > told:
            lines.append(f"and {len(names) - told} more runs")
        source = "" if self.kind == "simulated" else f" ({self.kind} data; the model was learnt on simulated runs only)"
        return "\n".join([f"bottlenecks of {counted(len(names), 'runs')} on {self.core}{source}", *lines])

    def why(self, run: str) -> str:
        """Say in words what holds a run back, by which evidence, and what would decide."""
        rows, answer = self.of(run), self.answer(run)
        lines = [self._sentence(run)]
        open_ = "it may be divisions" if self._divides(run) else _DEPENDS
        open_ = "the ports do not tell which" if self._either(run) else open_
        open_ = "what is not modelled may give as much" if self._ahead(run) else open_
        if self.phases(run):
            open_ = f"{_DIFFERING}; {_DEPENDS}" if self._lacks_events(run) else _DIFFERING
        open_ = "its counts leave it open" if self._left_open(run) else open_
        lines += [f"impossible on {self.core}: {told}" for told in self._doubted(run)]
        lines += [f"not modelled: {told}" for told in self.beside(run)]
        lines += [
            f"{row.resource}: {row.probability:.0%}, {row.evidence or 'no share of capacity stands out'}"
            + (f" (uncertain: {open_})" if row.status == UNCERTAIN else "")
            for row in rows[rows["status"] != CANNOT_TELL].head(3).itertuples()
        ]
        silent = rows.loc[rows["status"] == CANNOT_TELL, "resource"].tolist()
        if silent:
            lines.append(f"cannot tell, no event counts them: {', '.join(silent)}")
        nxt = self.next_events[(self.next_events["run"] == run) & (self.next_events["names"] != "")]
        nxt = nxt if answer == CANNOT_TELL else nxt[nxt["gain"] > _TELLING]
        nxt = nxt[:0] if self._doubted(run) or self._either(run) or self._ahead(run) else nxt
        lines += [
            f"measure next: {self._asked(str(row.names))} ({_would_tell(row)})" for row in nxt.head(_NEXT).itertuples()
        ]
        lines += [f"as one line: {line}" for line in [self.command(run)] if line and len(nxt)]
        lines += self.remarks.loc[self.remarks["run"] == run, "remark"].tolist()
        lines += [
            f"not used: {listed(part['event'], 4)}: {why}" for why, part in self.unused.groupby("why", sort=False)
        ]
        notes = self.events[self.events["note"] != ""].drop_duplicates(["real", "note"])
        lines += [f"{listed(part['real'], 4)}: {note}" for note, part in notes.groupby("note", sort=False)]
        return "\n".join(lines)

    def command(self, run: str, program: str = "./program") -> str:
        """Return the ``perf stat`` line that counts what was used and what would decide next; "" where nothing would.

        All in one dump: counts of two runs are not judged together. All in the mode and on the kind of core that time
        was counted in and on: rates mix nothing else. perf refuses a whole line for one name that a processor has not:
        the line has only what all processors of the core have that may have made the dump.

        Parameters
        ----------
        run : str
            Whose open question the line is to decide.
        program : str
            What to measure, as a shell takes it.

        Raises
        ------
        SettingError
            There is no such run.
        """
        rows_of_run(self.runs, run)
        nxt = self.next_events[(self.next_events["run"] == run) & (self.next_events["names"] != "")]
        if nxt.empty or self._doubted(run) or self._ahead(run):
            return ""
        choices = (pasted(str(names).split(", "), self.core, self.events["real"]) for names in nxt["names"])
        new = [part for name in list(filter(None, choices))[:_NEXT] for part in name.split("+")]
        if not new:
            return ""
        events = as_perf_types(["cycles", "instructions", *self.events["real"], *new], self.time_event)
        return f"perf stat -I 100 -x, -o dump.csv -e '{events}' -- {program}"

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the probabilities of each run's likeliest classes; return the axes."""
        expect_shown(len(self.runs), "no run was judged")
        return draw("bottlenecks:plot_explanation", self, ax=ax)

    def _asked(self, names: str) -> str:
        """Return an event's names, each with the processors of this core that have it not."""
        lack = {spelt(name): lacking(name, self.core, self.events["real"]) for name in names.split(", ")}
        return ", ".join(f"{name} (not on {listed(of, 3)})" if of else name for name, of in lack.items())

    def _doubted(self, run: str) -> list[str]:
        """Return why a run's counts cannot be those of such a core."""
        found: list[str] = self.doubts.loc[self.doubts["run"] == run, "doubt"].tolist()
        return found

    def beside(self, run: str) -> list[str]:
        """Say what takes a run's time and is not modelled, most first."""
        self.of(run)  # else an error says which runs there are
        rows = self.unmodelled[self.unmodelled.index == run]
        return [
            f"{row.what}, at least {row.share:.0%} of the {places_or_cycles(row.event)} ({row.event})"
            for row in rows.itertuples()
        ]

    def _ahead(self, run: str) -> bool:
        """Return whether what is not modelled may give as much as any class."""
        return ahead(self.unmodelled[self.unmodelled.index == run], float(self.of(run)["speedup"].max()))

    def _left_open(self, run: str) -> str:
        """Return why a run's counts leave open what holds it back, though they may be right: modes, faster memory."""
        mine = self.remarks.loc[self.remarks["run"] == run, "remark"]
        return next((str(told) for told in mine if MIXED in told or told.endswith(FASTER)), "")

    def _divides(self, run: str) -> bool:
        """Return whether floating-point divisions may hold a run back, of which no event tells."""
        return bool((self.remarks.loc[self.remarks["run"] == run, "remark"] == _DIVIDES).any())

    def _either(self, run: str) -> bool:
        """Return whether integer and vector units have one evidence in a run."""
        return bool((self.remarks.loc[self.remarks["run"] == run, "remark"] == _IS_EITHER).any())

    def phases(self, run: str) -> list[str]:
        """Say which classes hold back intervals that differ: phases, or programs one after the other; else nothing.

        Not where `intervals` are not judged.

        Raises
        ------
        SettingError
            There is no such run.
        """
        return self._remarks_that_begin(run, _DIFFERING)

    def left_out(self, run: str) -> list[str]:
        """Say which intervals are not in an answer as their counts cannot be, and why; else nothing.

        Raises
        ------
        SettingError
            There is no such run.
        """
        return self._remarks_that_begin(run, LEFT_OUT)

    def _remarks_that_begin(self, run: str, words: str) -> list[str]:
        rows_of_run(self.runs, run)
        mine = self.remarks.loc[self.remarks["run"] == run, "remark"]
        return [str(told) for told in mine if told.startswith(words)]

    def _lacks_events(self, run: str) -> bool:
        """Whether an event that was not counted may well decide: much of what looks alike is held back by its class."""
        mine = self.next_events[self.next_events["run"] == run]
        return bool((mine["possible"] >= OUT).any())

    def _sentence(self, run: str) -> str:
        rows, answer = self.of(run), self.answer(run)
        first = rows.iloc[0]
        if told := self._doubted(run):
            return f"{run}: cannot tell ({as_said(listed(told, 1), self.core)})"
        if self._ahead(run):
            return f"{run}: cannot tell (not modelled: {listed(self.beside(run), 1)})"
        if left_open := self._left_open(run):
            return f"{run}: cannot tell ({left_open})"
        if answer != CANNOT_TELL and first["speedup"] == 0.0:  # `perfkit.fitters.bottlenecks.features.unhelpful`
            return f"{run}: {answer} (full, and twice as much would give nothing: {self.core} ends one store per cycle)"
        if answer != CANNOT_TELL:
            part = f"its part in what a core twice as good in everything would give: about {first['speedup']:.0%}"
            beside = [f"beside it {listed(told, 1)}, not modelled" for told in [self.beside(run)] if told]
            more = "".join(f"; {one}" for one in (*beside, *self.phases(run), *self.left_out(run)))
            return f"{run}: {answer} ({first['probability']:.0%}; {part}){more}"
        if self._either(run):
            both = rows.loc[rows["resource"].isin(EITHER), "probability"].sum()
            return f"{run}: cannot tell between {listed(EITHER, last='and')} ({both:.0%} together: one evidence)"
        silent = int((rows["status"] == CANNOT_TELL).sum())
        open_ = rows.loc[(rows["status"] == UNCERTAIN) & (rows["probability"] >= OUT), "resource"].tolist()[:3]
        why = [*self.phases(run), *map("not modelled: {}".format, self.beside(run)[:1])]
        why += [f"{silent} of {len(rows)} classes have no event here"] if silent else []
        if open_ and self._divides(run):
            why.append(f"{listed(open_, last='or')}, or floating-point divisions, of which no event tells here")
        elif open_:
            depends = f": {_DEPENDS}" if self._lacks_events(run) or not self.phases(run) else ""
            why.append(f"{listed(open_, last='or')}{depends}")
        elif first["status"] != CANNOT_TELL and first["probability"] > OUT:
            why.append(f"of what can be told, {first['resource']} is likeliest, with {first['probability']:.0%}")
        return f"{run}: cannot tell ({'; '.join([*why, *self.left_out(run)])})"


def remarks(
    samples: Samples, index: pd.Index, runs: "Weighed", table: pd.DataFrame, intervals: pd.DataFrame
) -> pd.DataFrame:
    """Return what else to know of each run: run, remark.

    That counters ran in turns, which classes no event of the processor tells, and that intervals do not agree: with
    each other, or with the class that is likeliest by their sum (``table``, of `Weighed.table`).
    """
    share, rows = share_counted(samples, index), []
    likeliest = _likeliest_of_intervals(samples, intervals)
    for r, run in enumerate(map(str, index)):
        if in_turns(share[r : r + 1])[0]:
            rows.append(
                (run, f"some events were counted {share[r]:.2g} of the time and scaled up: counts are estimates")
            )
        if runs.divides[r]:
            rows.append((run, _DIVIDES))
        if runs.either[r]:
            rows.append((run, _IS_EITHER))
        if runs.final[r]:
            lacks = runs.lacking(r)
            what = f"the processor has no event for {listed(lacks)}" if lacks else "some events have no name here"
            rows.append((run, f"{what}: what is not counted is as in simulated runs that look alike"))
        mine = likeliest[likeliest["run"] == run]
        if len(mine) >= _FEWEST:
            whole = str(table.loc[table["run"].astype(str) == run, "resource"].iloc[0])
            rows += [(run, f"{_DIFFERING}, and this is of their sum: {told}") for told in _differing(mine, whole)]
    return pd.DataFrame(rows, columns=["run", "remark"])


def _likeliest_of_intervals(samples: Samples, intervals: pd.DataFrame) -> pd.DataFrame:
    """Return the likeliest class of each interval: run, resource, named (whether it is told), part (of the cycles)."""
    keys = ["run", "place", "interval"]
    first = intervals.drop_duplicates(keys).astype({"run": "str", "place": "str"})
    time = samples.table.drop_duplicates(keys)[[*keys, "time"]].astype({"run": "str", "place": "str"})
    first = first.merge(time, on=keys, how="left")
    first["part"] = first["time"] / first.groupby("run")["time"].transform("sum")
    first["named"] = (first["status"] == "told") & (first["probability"] >= SURE)
    return first


def _differing(intervals: pd.DataFrame, whole: str) -> list[str]:
    """Return how a run's intervals differ, in words, as a list: from each other, or from what their sum is like."""
    n = len(intervals)
    shares = intervals.loc[intervals["named"], "resource"].value_counts() / n
    if len(shares) > 1 and shares.iloc[1] >= _DIFFER:
        return [
            f"{listed([f'{name} in {part:.0%}' for name, part in shares[shares >= OUT].items()])} of {n} (intervals)"
        ]
    top = str(shares.index[0]) if len(shares) else whole
    others = intervals.loc[intervals["resource"] != top, "resource"].value_counts()
    if len(shares) and shares.iloc[0] >= _DIFFER and others.sum() >= _RATHER * n:
        rest = listed([str(name) for name in others.index[:2]], last="or")
        return [f"{top} in {shares.iloc[0]:.0%}, and rather {rest} in the others of {n} (intervals)"]
    alike = float(intervals.loc[intervals["resource"] == whole, "part"].sum())
    if alike >= _AGREE:
        return []
    return [f"{whole} is the likeliest in intervals that take {alike:.0%} of the cycles, of {n} (intervals)"]


def _would_tell(row: Any) -> str:
    likely = f"{row.possible:.0%} of the simulated runs that look like this one" if row.possible >= 0.005 else ""
    return f"{row.resource}: what holds back {likely}" if likely else str(row.resource)


@dataclass(frozen=True)
class Weighed:
    """What is known of rows of rates: classes by rows, and what it follows from.

    Attributes
    ----------
    names : (classes,) str
        The classes of the core.
    credit, probability : (rows, classes) float
        Means over the ways in which rows are completed; NaN where no event of the class was counted.
    first : (rows, classes) float
        The share of these ways in which a class is the likeliest.
    rival : (rows, classes) bool
        Whether it may hold a row back instead of the likeliest, as its events were not counted.
    final : (rows,) bool
        Whether nothing is missing that the processor can count: then likely is all that can be said.
    divides : (rows,) bool
        Whether floating-point divisions may hold it back, of which no event of the processor tells.
    either : (rows,) bool
        Whether integer and vector units have one evidence (`perfkit.fitters.bottlenecks.features.either_units`).
    prior : (classes,) float
        How often it is the bottleneck in training.
    gain : (rows, features) float
        How much each missing feature would decide (`perfkit.fitters.bottlenecks.alike.deciding`).
    shares : mapping of feature to (rows,) float
        Shares of capacity.
    full : mapping of class to (rows,) bool
        Where its capacity is full.
    needs : mapping of class to events
        By any of which it can be judged.
    counted : mapping of event to (rows,) bool
        Where it was.
    unused : (rows, classes) bool
        Of whose capacity less than half a hundredth is used, by each of its events that was counted: such a class is
        never named, whatever its other events may say.
    """

    names: NDArray[np.str_]
    credit: NDArray[np.float64]
    probability: NDArray[np.float64]
    first: NDArray[np.float64]
    rival: NDArray[np.bool_]
    final: NDArray[np.bool_]
    divides: NDArray[np.bool_]
    either: NDArray[np.bool_]
    prior: NDArray[np.float64]
    gain: NDArray[np.float64]
    shares: Mapping[str, NDArray[np.float64]]
    full: Mapping[str, NDArray[np.bool_]]
    needs: Mapping[str, tuple[str, ...]]
    counted: Mapping[str, NDArray[np.bool_]]
    unused: NDArray[np.bool_]

    def status(self) -> NDArray[np.str_]:
        """Return whether each class can be told, (rows, classes)."""
        rivalled = self.rival.any(axis=1, keepdims=True) & (self.first > OUT)
        settled = ((self.first >= _SETTLED) | (self.first <= OUT)) & ~self.rival & ~rivalled
        either = self.either[:, None] & np.isin(self.names, EITHER)
        unused = either | self.unused & (np.nan_to_num(self.probability) >= SURE)
        found = np.where((settled | self.final[:, None]) & ~self._by_divisions() & ~unused, "told", UNCERTAIN)
        return np.where(np.isnan(self.probability), CANNOT_TELL, found)

    def _by_divisions(self) -> NDArray[np.bool_]:
        """Return which classes may be named for what are divisions: those that are likely, and of no full capacity."""
        likely = np.nan_to_num(self.probability) > OUT
        full = np.stack(
            [self.full.get(str(name), np.zeros(len(likely), dtype=np.bool_)) for name in self.names], axis=1
        )
        return np.asarray(self.divides[:, None] & likely & ~full)

    def order(self) -> NDArray[np.int64]:
        """Return the classes of each row, the likeliest first; those of which nothing was counted come last."""
        key = np.where(np.isnan(self.probability), -1.0, self.probability)
        credit = np.where(np.isnan(self.credit), -1.0, self.credit)
        return np.lexsort((-credit, -np.round(key, 6)), axis=1)

    def table(self, index: pd.Index, *, evidence: bool = True, called: Mapping[str, str] | None = None) -> pd.DataFrame:
        """Return one row per row and class; ``called`` says what the samples call the simulator's events."""
        order = self.order()
        n, k = order.shape
        rows = np.repeat(np.arange(n), k)
        at = (rows, order.ravel())
        found = index.to_frame(index=False).iloc[rows].reset_index(drop=True)
        found["resource"] = self.names[order.ravel()]
        found["speedup"] = np.expm1(np.maximum(self.credit[at], 0.0))
        found["probability"] = self.probability[at]
        found["status"] = self.status()[at]
        if evidence:
            found["evidence"] = [
                self._words(str(self.names[c]), int(r), called or {}) for r, c in zip(*at, strict=True)
            ]
        return found

    def measure_next(self, index: pd.Index, vendor: str, core: str) -> pd.DataFrame:
        """Return the events that would decide what the counted ones leave open, one for each class.

        Of a class's events that were not counted, the one that decides most; after all of these, on real processors,
        an event that is no class's own. Classes that may hold the run back come
        first; then the most deciding, then the likeliest, then the one that is the bottleneck most often in training.
        """
        rows = []
        for r, run in enumerate(index):
            for c, name in enumerate(map(str, self.names)):
                lacking = self._lacking(name, r, real=bool(vendor))
                if not lacking or (name in OF_LOADS and loads_nothing(self.shares["loads per instruction"])[r]):
                    continue
                gains = {event: self._gain(name, event, r) for event in lacking}
                lacking = sorted(lacking, key=lambda event: -gains[event])
                event, names = _to_measure(tuple(lacking), vendor, core)
                told = (gains[event], float(self.first[r, c]), float(self.prior[c]))
                open_ = bool(self.rival[r, c] or self.first[r, c] > OUT)
                keys = (r, int(not open_), *(-round(value, 6) for value in told))
                rows.append((keys, (str(run), name, event, names, *told)))
            divide = names_for(DIVISIONS, vendor, core) if vendor and self.divides[r] else ()
            if divide and not self._has(DIVISIONS, r):
                rows.append(((r, 0, -np.inf), (str(run), DIVISIONS, DIVISIONS, divide[0], 0.0, 0.0, 0.0)))
            if vendor and not any(names for (row, *_), (_, _, _, names, *_) in rows if row == r):
                rows += [((r, 2, 0.0, 0.0, 0.0), (str(run), SEVERAL, *each)) for each in self._general(r, vendor, core)]
        columns = ["run", "resource", "event", "names", "gain", "possible", "prior"]
        return pd.DataFrame([row for _, row in sorted(rows, key=lambda both: both[0])], columns=columns)

    def _general(self, row: int, vendor: str, core: str) -> list[tuple[str, str, float, float, float]]:
        """Return the event of no single class that decides most and was not counted, if a core has any, as a list."""
        found = []
        for event, features in telling_all().items():
            names = ", ".join(names_for(event, vendor, core)[:2])
            if names and not self._has(event, row) and not any(event in needs for needs in self.needs.values()):
                gain = float(max(self.gain[row, NAMES.index(feature)] for feature in features))
                found.append((event, names, gain, 0.0, 0.0))
        return sorted(found, key=lambda each: -each[2])[:1]

    def _lacking(self, name: str, row: int, *, real: bool) -> list[str]:
        """Return the events of a class that were not counted: no single ports where all were counted together.

        The simulated PMU counts single ports only, ``real`` processors some of them together.
        """
        lacking = [e for e in self.needs[name] if not self._has(e, row)]
        for whole, parts in SUMS.items():  # some processors count the sum, the simulated one its parts
            if whole in self.needs[name]:
                alone = not real or all(self._has(part, row) for part in parts)
                gone = parts if self._has(whole, row) else (whole,) if alone else ()
                lacking = [e for e in lacking if e not in gone]
        ports = [e for e in lacking if e.startswith("uops.")]
        any_ = any_of(name)
        if any_ not in lacking:
            return [e for e in lacking if e not in ports] if any_ in self.needs[name] else lacking
        return lacking if real and ports else [e for e in lacking if e != any_]

    def lacking(self, row: int) -> list[str]:
        """Return the classes of which no event was counted."""
        return [str(name) for name in self.names if not any(self._has(event, row) for event in self.needs[str(name)])]

    def _has(self, event: str, row: int) -> bool:
        return event in self.counted and bool(self.counted[event][row])

    def _ports(self, name: str) -> list[str]:
        """Return the events of a class's single ports; none where they were counted together."""
        events = [event for event in self.needs[name] if event.startswith("uops.")]
        return [] if any_of(name) in self.counted else events

    def _gain(self, name: str, event: str, row: int) -> float:
        """Return how much an event of a class would decide: as the most telling feature of the class made of it."""
        mine = [rule.name for rule in RULES if rule.of == name and event in (rule.event, *SUMS.get(rule.event, ()))]
        mine += [f"{name}: ports"] if not mine else []
        return float(max(self.gain[row, NAMES.index(feature)] for feature in mine))

    def _words(self, name: str, row: int, called: Mapping[str, str]) -> str:
        """Return the shares of capacity that belong to a class, in words."""
        parts = []
        for rule in RULES:
            value = self.shares[rule.name][row] if rule.of == name else np.nan
            if np.isfinite(value) and value > 0.005:
                number, words = value, rule.words.removeprefix("tenths of ")
                # The factor that makes its share like the others' is told of neither tenths nor counted cycles.
                if words != rule.words or (words.startswith("of cycles ") and not rule.resource):
                    number = value / rule.factor
                shown = f"{number:.0%}" if words.startswith("of ") else f"{number:.2g}"
                parts.append(f"{shown} {words} ({called.get(rule.event, rule.event)})")
        if name in PORTS and np.isfinite(self.shares[f"{name}: ports"][row]):
            used = self.shares[f"{name}: ports"][row]
            only = " (of those that were counted)" if not all(self._has(e, row) for e in self._ports(name)) else ""
            parts.insert(0, f"{used:.0%} of its busiest ports used{only}")
            if name in _DIVIDING and "dividers" not in self.needs and used >= _MUCH:
                parts.append("divisions, if any, keep these ports for cycles: this core has no divider apart from them")
        lines = self.shares[f"lines from {name}"][row] if name in ("L2", "L3") else np.nan
        if np.isfinite(lines) and lines > OUT:
            parts.append(f"{lines:.0%} of its bandwidth used (lines)")
        if not any(self._has(event, row) for event in self.needs[name]):
            no = "no event of this processor tells it" if self.final[row] else "none of its events was counted"
            parts.append(f"{no}: as in simulated runs that look alike")
        full = [each for each, rows in self.full.items() if rows[row]]
        if name in full and len(full) > 1:
            others = ", ".join(each for each in full if each != name)
            parts.append(f"full together with {others}: more of one alone gives nothing")
        return "; ".join(parts)


def _to_measure(needed: tuple[str, ...], vendor: str, core: str) -> tuple[str, str]:
    """Return the first event that a vendor's core can count, and its names there; "" where none can."""
    if not vendor:
        return needed[0], needed[0]
    named = ((event, ", ".join(names_for(event, vendor, core)[:2])) for event in needed)
    return next(((event, names) for event, names in named if names), (needed[0], ""))
