"""What SPIRE says of one workload: its events by the throughput that they allow it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pandas as pd

from perfkit.base.results import Tabled, draw
from perfkit.errors import SettingError, counted, expect, listed
from perfkit.fitters.machine_code import as_machine_code
from perfkit.fitters.spire.piecewise import Roofline
from perfkit.fitters.spire.points import Points
from perfkit.samples.events import per_unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DRAWN_AT_ONCE = 1_000_000  # random numbers, to bound the memory
_MANY = 500_000  # draws of samples: adding them up in Python takes as long as to import numba
_AS_LOW = 0.05  # share of training within which percentiles are alike
COLUMNS = ["event", "throughput_bound", "left_fraction", "n_samples", "status"]
_DETAILS = [*COLUMNS, "low", "high", "candidate", "outside", "n_training", "n_missing", "n_empty", "n_left_out"]


@dataclass(frozen=True, eq=False, repr=False)
class Ranking(Tabled):
    """The events of one workload, lowest bound (likeliest bottleneck) first.

    Attributes
    ----------
    table : DataFrame
        See `to_frame`.
    throughput : float
        The workload's measured throughput, work per time.
    training_kind, kind : str
        What the model was trained on and what was analysed: measured, simulated, generated or published samples.
    time_event, work_event : str
        The units of throughput.
    bootstrap, level : int, float
        How many draws gave the spread, and the share of them it covers.
    caveats : tuple of str
        Why this ranking means little or nothing, where that is known: a model ranked on the samples it was trained on,
        or trained on very few.

    Examples
    --------
    >>> import perfkit as pk
    >>> samples = pk.datasets.load("spire/memory")
    >>> ranking = pk.Spire().fit(samples).rank(samples)
    >>> ranking.to_frame()["event"].iloc[0], round(ranking.throughput, 3), round(ranking.throughput_bound, 3)
    ('resource_stalls.any', 0.814, 0.824)
    """

    _rows: ClassVar[str] = "table"

    table: pd.DataFrame
    throughput: float
    training_kind: str
    kind: str
    time_event: str
    work_event: str
    bootstrap: int
    level: float
    caveats: tuple[str, ...] = ()

    @property
    def throughput_bound(self) -> float:
        """The ensemble's bound: the lowest of the events' bounds, in work per time."""
        return float(self.table["throughput_bound"].min())

    @property
    def candidates(self) -> list[str]:
        """The pool of events to look at: those whose bound lies within the spread of the lowest one."""
        return [str(e) for e in self.table.loc[self.table["candidate"], "event"]]

    def to_frame(self, details: bool = False) -> pd.DataFrame:
        """Return one row per event, by rising bound; events that could not be ranked come last, without a bound.

        Columns: ``event``; ``throughput_bound`` (work per time); ``left_fraction`` (the share of the workload's time
        at or left of the event's peak intensity: near 1, fewer of the event would help; near 0, more of it would);
        ``n_samples`` used; ``status``: ok, untrained (never counted together with work in training), other core (not
        the kind whose cycles are the time), unknown (not in training) or unmeasured (no usable sample of it here).

        With ``details``: ``low`` and ``high`` (the bootstrap spread), ``candidate``, ``outside`` (the share of time at
        intensities that training did not reach, where the bound is an extrapolation), ``n_training`` samples, and the
        samples not used: ``n_missing``, ``n_empty`` (neither work nor events), ``n_left_out`` (by the settings).
        """
        how = "ask for a ranking's details with details=True"
        expect(isinstance(details, bool | np.bool_), details, "Ranking.to_frame", "True or False (details)", how)
        honest = [c for c in ("percentile",) if c in self.table]
        return self.table[[*(_DETAILS if details else COLUMNS), *honest]].copy()

    def plot(self, ax: "Axes | None" = None, *, top: int = 10) -> "Axes":
        """Draw the lowest bounds as bars coloured by area; return the matplotlib axes."""
        return draw("spire:plot_ranking", self, top=top, ax=ax)

    def summary(self) -> str:
        """Say which event bounds the workload most, which others may, and how many could not be ranked."""
        ok = self.table["status"] == "ok"
        others = self.candidates[1:]
        kinds = self.kind if self.kind == self.training_kind else f"{self.kind}, trained on {self.training_kind}"
        first = self.table.iloc[0]
        share = f" (lower in {first['percentile']:.0%} of the training)" if "percentile" in self.table else ""
        lines = [
            (
                f"{first['event']} has the lowest bound of {counted(ok.sum(), 'events')}{share}: at most "
                f"{first['throughput_bound']:.4g} {per_unit(self.work_event, self.time_event)}, where "
                f"{self.throughput:.4g} was reached ({kinds} data)"
            )
        ]
        lines += [f"caution: {told}" for told in self.caveats]
        if others:
            lines.append(f"as low within the bootstrap spread: {listed(others, 6)}")
        if not ok.all():
            counts = self.table.loc[~ok, "status"].value_counts()
            lines.append("not ranked: " + ", ".join(f"{n} {status}" for status, n in counts.items()))
        return "\n".join(lines)


def rank_points(
    points: Points,
    rooflines: Mapping[str, Roofline],
    training: pd.DataFrame,
    *,
    throughput: float,
    kinds: tuple[str, str],
    axes: tuple[str, str],
    bootstrap: int,
    level: float,
    seed: int,
    caveats: tuple[str, ...] = (),
) -> Ranking:
    """Return the ranking of grouped samples (SPIRE, section III-C, Eq. 1)."""
    rows, percentiles, drawn = [], {}, {}
    of_training = training.to_dict(orient="index")
    for i, event in enumerate(points.events):
        time, intensity, _ = points.of(i)
        if event not in rooflines or not len(time):
            known = of_training[event]["status"] if event in of_training else "unknown"
            rows.append((event, np.nan, np.nan, "unmeasured" if known == "ok" else known, np.nan, np.nan))
            continue
        roofline = rooflines[event]
        bounds = roofline.bound(intensity)
        total = time.sum()
        mean = float((time * bounds).sum() / total)
        left = float(time[roofline.is_left(intensity)].sum() / total)
        trained = of_training[event]
        beyond = (intensity < trained["min_intensity"]) | (intensity > trained["max_intensity"])
        drawn[event] = time, bounds
        if "bounds" in trained:
            percentiles[event] = _percentile(mean, trained["bounds"])
        outside = float(time[beyond].sum() / total)
        rows.append((event, mean, left, "ok", outside, trained["n_samples"]))
    columns = ["event", "throughput_bound", "left_fraction", "status", "outside", "n_training"]
    spreads = pd.DataFrame.from_dict(
        _spreads(drawn, bootstrap, level, seed), orient="index", columns=["low", "high"], dtype="float64"
    )
    table = pd.DataFrame(rows, columns=columns).join(spreads, on="event").join(points.counted, on="event")
    if not (table["status"] == "ok").any():
        raise SettingError("no event has both a trained roofline and a usable sample; nothing can be ranked")
    table = table.sort_values("throughput_bound", kind="stable", na_position="last", ignore_index=True)
    if percentiles:
        table["percentile"] = table["event"].map(percentiles)
        table = table.sort_values(["percentile", "throughput_bound"], kind="stable", ignore_index=True)
        table["candidate"] = table["percentile"] <= table["percentile"].iloc[0] + _AS_LOW
        table = table[[*_DETAILS, "percentile"]]
        return Ranking(table, throughput, kinds[0], kinds[1], axes[0], axes[1], bootstrap, level, caveats)
    limit = np.fmax(table["high"].iloc[0], table["throughput_bound"].iloc[0])
    table["candidate"] = table["throughput_bound"] <= limit
    return Ranking(table[_DETAILS], throughput, kinds[0], kinds[1], axes[0], axes[1], bootstrap, level, caveats)


def _percentile(bound: float, quantiles: Sequence[float]) -> float:
    """Return the share of the training's time that has a lower bound, ties counted half."""
    low, high = (np.searchsorted(quantiles, bound, side=side) for side in ("left", "right"))
    return float((low + high) / 2 / len(quantiles))


def _spreads(
    samples: Mapping[str, tuple[np.ndarray, np.ndarray]], draws: int, level: float, seed: int
) -> dict[str, tuple[float, float]]:
    """Return the bootstrap spread of each event's weighted mean; the same for any order of rows and other events.

    Events with as many samples share the draws: each event's samples by rising bound, and time where that is the same.
    """
    if draws == 0:
        return dict.fromkeys(samples, (np.nan, np.nan))
    found: dict[str, tuple[float, float]] = {}
    many = draws * sum(len(time) for time, _ in samples.values()) > _MANY
    means_of = as_machine_code(_means) if many else _means
    for n, events in groupby(sorted(samples, key=lambda event: len(samples[event][0])), lambda e: len(samples[e][0])):
        pairs = {}
        for event in events:
            time, bounds = samples[event]
            pairs[event] = np.column_stack([time, time * bounds])[np.lexsort((time, bounds))]
        means = {event: np.empty(draws) for event in pairs}
        bits = np.random.SFC64([seed, n])
        words = (n + 1) // 2  # each holds the random numbers of two samples
        at_once = max(1, _DRAWN_AT_ONCE // words)
        for first in range(0, draws, at_once):
            now = min(at_once, draws - first)
            often = _often(bits.random_raw(now * words).reshape(now, words), n)
            for event, of_event in pairs.items():
                means[event][first : first + now] = means_of(of_event, often)
        ends = np.quantile(np.array(list(means.values())), [0.5 - level / 2, 0.5 + level / 2], axis=1)
        found.update(zip(pairs, zip(*ends.tolist(), strict=True), strict=True))
    return found


def _often(random: np.ndarray, n: int) -> np.ndarray:
    """Return how often each of n samples is drawn, with replacement, in each draw: (n, draws).

    A half of a 64-bit word, times n, over 2**32 is a number below n; its bias is below n / 2**32.
    """
    draws = len(random)
    # Both halves of a word, the lower one first.
    halves = np.stack([random & np.uint64(0xFFFFFFFF), random >> np.uint64(32)], axis=2).reshape(draws, -1)[:, :n]
    chosen = ((halves * np.uint64(n)) >> np.uint64(32)).astype(np.int64)
    chosen *= draws
    chosen += np.arange(draws)[:, None]
    return np.bincount(chosen.ravel(), minlength=n * draws).reshape(n, draws).astype(np.uint16)


def _means(pairs: np.ndarray, often: np.ndarray) -> np.ndarray:
    """Return the weighted mean of each draw; side by side, so that the processor adds several at once."""
    total, weighted = np.zeros(often.shape[1]), np.zeros(often.shape[1])
    for k in range(len(pairs)):
        for d in range(often.shape[1]):
            total[d] += often[k, d] * pairs[k, 0]
            weighted[d] += often[k, d] * pairs[k, 1]
    return weighted / total
