"""What `perfkit.Bottlenecks` says: classes of resources with predicted speedup, probability and evidence."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from perfkit.errors import SettingError
from perfkit.fitters.bottlenecks.features import PORTS, RULES
from perfkit.fitters.bottlenecks.names import names_for
from perfkit.names import counted, did_you_mean
from perfkit.results import Tabled, draw

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CANNOT_TELL = "cannot tell"
_SURE = 0.5  # the probability below which no class is named
_MOST_UNKNOWN = 0.5  # of the runs trained on, bound by what cannot be told here: then nothing is named
_COLUMNS = ["resource", "speedup", "probability", "status", "evidence"]


def rows_of_run(runs: pd.DataFrame, run: str) -> pd.DataFrame:
    """Return one run's rows; SettingError, with the nearest name, where there is no such run."""
    found = runs[runs["run"] == run]
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
        this is the first bottleneck), status ("told" or "cannot tell": no event that it could be judged by was
        counted), evidence (shares of capacity, in words).
    intervals : DataFrame
        The same for each interval: run, place, interval, resource, speedup, probability, status.
    events : DataFrame
        Which events of the samples were used: simulated (what it stands for), real, note (where it does not mean what
        the simulator's event does).
    next_events : DataFrame
        What to measure next to decide: run, resource, event, names (on this vendor's processors), prior (how often the
        class is the bottleneck in training).
    core, trained_on : str
        The core's name; the digest of the training data.
    kind : str
        Of the samples.
    """

    _rows: ClassVar[str] = "runs"

    runs: pd.DataFrame
    intervals: pd.DataFrame
    events: pd.DataFrame
    next_events: pd.DataFrame
    core: str
    trained_on: str
    kind: str

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

        Nothing is named where the likeliest class has a probability under one half, or where half of the runs trained
        on were bound by classes that these events cannot tell.
        """
        rows = self.of(run)
        told = rows[rows["status"] == "told"]
        unknown = self.next_events.loc[self.next_events["run"] == run].drop_duplicates("resource")["prior"].sum()
        if told.empty or not told["probability"].iloc[0] >= _SURE or unknown >= _MOST_UNKNOWN:
            return CANNOT_TELL
        return str(told["resource"].iloc[0])

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
        rows = self.of(run)
        lines = [self._sentence(run)]
        lines += [
            f"{row.resource}: {row.probability:.0%}, {row.evidence or 'no share of capacity stands out'}"
            for row in rows[rows["status"] == "told"].head(3).itertuples()
        ]
        silent = rows.loc[rows["status"] == CANNOT_TELL, "resource"].tolist()
        if silent:
            lines.append(f"cannot tell, no event counts them: {', '.join(silent)}")
        nxt = self.next_events[(self.next_events["run"] == run) & (self.next_events["names"] != "")].head(3)
        lines += [f"measure next: {row.names} ({row.resource})" for row in nxt.itertuples()]
        notes = self.events[self.events["note"] != ""]
        lines += [f"{row.real}: {row.note}" for row in notes.itertuples()]
        return "\n".join(lines)

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the probabilities of each run's likeliest classes; return the axes."""
        return draw("bottlenecks:plot_explanation", self, ax=ax)

    def _sentence(self, run: str) -> str:
        rows, answer = self.of(run), self.answer(run)
        told = rows[rows["status"] == "told"]
        if answer == CANNOT_TELL:
            silent = int((rows["status"] == CANNOT_TELL).sum())
            guess = f"; of what can be told, {told['resource'].iloc[0]} is likeliest" if len(told) else ""
            return f"{run}: cannot tell ({silent} of {len(rows)} classes have no event here{guess})"
        first = told.iloc[0]
        return f"{run}: {answer} ({first['probability']:.0%}; speedup by its doubling about {first['speedup']:.0%})"


@dataclass(frozen=True)
class Weighed:
    """What is known of rows of rates: classes by rows, and what it follows from."""

    names: NDArray[np.str_]
    credit: NDArray[np.float64]
    probability: NDArray[np.float64]
    prior: NDArray[np.float64]
    shares: Mapping[str, NDArray[np.float64]]
    needs: Mapping[str, tuple[str, ...]]
    counted: frozenset[str]

    def order(self) -> NDArray[np.int64]:
        """Return the classes of each row, the likeliest first; those that cannot be told come last."""
        key = np.where(np.isnan(self.probability), -1.0, self.probability)
        credit = np.where(np.isnan(self.credit), -1.0, self.credit)
        return np.lexsort((-credit, -np.round(key, 6)), axis=1)

    def table(self, index: pd.Index, *, evidence: bool = True) -> pd.DataFrame:
        """Return one row per row and class."""
        order = self.order()
        n, k = order.shape
        rows = np.repeat(np.arange(n), k)
        at = (rows, order.ravel())
        found = index.to_frame(index=False).iloc[rows].reset_index(drop=True)
        found["resource"] = self.names[order.ravel()]
        found["speedup"] = np.expm1(np.maximum(self.credit[at], 0.0))
        found["probability"] = self.probability[at]
        found["status"] = np.where(np.isnan(self.probability[at]), CANNOT_TELL, "told")
        if evidence:
            found["evidence"] = [self._words(str(self.names[c]), int(r)) for r, c in zip(*at, strict=True)]
        return found

    def measure_next(self, index: pd.Index, vendor: str) -> pd.DataFrame:
        """Return the events that would tell most of what cannot be told: by how often each class is the bottleneck."""
        rows = []
        for r, run in enumerate(index):
            for c in np.argsort(-self.prior, kind="stable"):
                name = str(self.names[c])
                if not np.isnan(self.probability[r, c]) or not self.needs[name]:
                    continue
                event, names = _to_measure(self.needs[name], vendor)
                rows.append((str(run), name, event, names, float(self.prior[c])))
        return pd.DataFrame(rows, columns=["run", "resource", "event", "names", "prior"])

    def _words(self, name: str, row: int) -> str:
        """Return the shares of capacity that belong to a class, in words."""
        parts = []
        for rule in RULES:
            value = self.shares[rule.name][row] if rule.of == name else np.nan
            if np.isfinite(value) and value > 0.005:
                number, words = value, rule.words
                if words.startswith("tenths of "):  # counted in tenths, so that its share is like the others'
                    number, words = 10 * value, words.removeprefix("tenths of ")
                shown = f"{number:.0%}" if words.startswith("of ") else f"{number:.2g}"
                parts.append(f"{shown} {words} ({rule.event})")
        if name in PORTS and np.isfinite(self.shares[f"{name}: ports"][row]):
            parts.insert(0, f"{self.shares[f'{name}: ports'][row]:.0%} of its busiest ports used")
        return "; ".join(parts)


def _to_measure(needed: tuple[str, ...], vendor: str) -> tuple[str, str]:
    """Return the first event that processors of a vendor can count, and its names there; "" where none can."""
    if not vendor:
        return needed[0], needed[0]
    named = ((event, ", ".join(names_for(event, vendor)[:2])) for event in needed)
    return next(((event, names) for event, names in named if names), (needed[0], ""))


def judged(
    names: NDArray[np.str_],
    credit: NDArray[np.float64],
    probability: NDArray[np.float64],
    prior: NDArray[np.float64],
    shares: Mapping[str, NDArray[np.float64]],
    needs: Mapping[str, tuple[str, ...]],
    counted: set[str],
) -> Weighed:
    """Return what is known, put together."""
    return Weighed(names, credit, probability, prior, shares, needs, frozenset(counted))
