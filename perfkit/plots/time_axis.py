"""Intervals of one or more runs laid out on one time axis, for pictures of samples over time."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from perfkit.samples.table import Samples

SECONDS = {"seconds": 1.0, "milliseconds": 1e-3, "microseconds": 1e-6}  # of one of each


@dataclass(frozen=True, eq=False)
class TimeAxis:
    """The intervals of samples in order, run after run, and what was counted in each.

    Attributes
    ----------
    position : array of (n_intervals,)
        Where each interval ends on the axis: in ``unit``, with runs laid end to end, or interval numbers where the dump
        tells no times.
    unit : str
        ``"seconds"``, for short runs ``"milliseconds"`` or ``"microseconds"``, or ``"intervals"``.
    run : array of str, (n_intervals,)
        The run of each interval.
    interval : array of int, (n_intervals,)
        Its number within the run.
    work, time : arrays of (n_intervals,)
        Sums over places (CPUs) and samples of the interval in which both are known; NaN where there is none.
    row : array of int, (n_samples,)
        The interval of each row of the samples' table, as an index into the arrays above.
    """

    samples: Samples
    position: np.ndarray
    unit: str
    run: np.ndarray
    interval: np.ndarray
    work: np.ndarray
    time: np.ndarray
    row: np.ndarray

    @classmethod
    def of(cls, samples: Samples) -> "TimeAxis":
        """Lay out the intervals of ``samples``; its places (CPUs) share one axis."""
        table = samples.table
        runs = table["run"].cat.codes.to_numpy(dtype="int64")
        interval = table["interval"].to_numpy()
        stride = int(interval.max()) + 1 if len(interval) else 1
        keys, first, row = np.unique(runs * stride + interval, return_index=True, return_inverse=True)
        n = len(keys)
        position, unit = _positions(table["at"].to_numpy(), runs, row, runs[first], n)
        work, time = _interval_sums(table, row, n)
        names = np.asarray(table["run"].cat.categories, dtype=object)
        order = np.argsort(position, kind="stable")
        rank = np.empty(n, dtype="int64")
        rank[order] = np.arange(n)
        return cls(
            samples,
            position[order],
            unit,
            names[runs[first]][order],
            interval[first][order],
            work[order],
            time[order],
            rank[row],
        )

    @property
    def throughput(self) -> np.ndarray:
        """W/T of each interval (NaN where its time is zero or unknown)."""
        return _ratio(self.work, self.time)

    @property
    def starts(self) -> list[tuple[str, float]]:
        """Each run with the position where it begins, in order; between two numbers where the axis has no times."""
        at = self.begins if self.unit in SECONDS else self.position - 0.5
        return [(str(self.run[i]), float(at[i])) for i in np.flatnonzero(self.first_of_run)]

    @property
    def first_of_run(self) -> np.ndarray:
        """Which intervals are the first of their run."""
        return np.r_[True, self.run[1:] != self.run[:-1]][: len(self.run)]

    def counts(self, event: str) -> np.ndarray:
        """Return the event's count of each interval (sum over places; NaN where it was not counted)."""
        chosen, count = self._rows(event)
        return _sum(self.row[chosen], count, len(self.position))

    def rates(self, event: str, per: str = "work") -> np.ndarray:
        """Return the event's count over the work, the time or the seconds of the same samples, per interval.

        It is a total over a total, never a mean of ratios; NaN where nothing was counted.
        """
        chosen, count = self._rows(event)
        base = self.samples.table[per].to_numpy()[chosen]
        known = np.isfinite(count) & np.isfinite(base)
        row, n = self.row[chosen][known], len(self.position)
        return _ratio(_sum(row, count[known], n), _sum(row, base[known], n))

    def line(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the points of a line through the values of the intervals, each at its end.

        A value without a neighbour (only one interval, or an event that is counted in every other) would be a dot that
        nobody sees: it gets two points, at the begin and the end of its interval. Where nothing was measured for a
        while, by the lengths of the intervals, and where a run ends, the line is broken (NaN).
        """
        if self.unit != "intervals":
            return line_between(self.begins, self.position, values, self.first_of_run)
        # Intervals without times are drawn at their numbers; one alone is as wide as a number.
        ends = self.position.copy()
        ends[_alone(np.isfinite(values), self.first_of_run)] += 0.5
        return _broken(self.position - 0.5, ends, values, self.first_of_run)

    @property
    def begins(self) -> np.ndarray:
        """Where each interval begins on the axis: where the one before ended, or later if nothing was measured then."""
        first = 0.0 if self.unit in SECONDS else float(self.position[:1].sum()) - 1.0
        length = np.full(len(self.position), np.nan)
        np.fmax.at(length, self.row, self.samples.table["seconds"].to_numpy())
        begins = begins_of(self.position, length / SECONDS.get(self.unit, np.nan), first)
        later = np.flatnonzero(self.first_of_run)[1:]
        begins[later] = self.position[later - 1]  # runs are laid end to end
        return begins

    def selection(self, low: float, high: float) -> np.ndarray:
        """Return which intervals end in a stretch of the axis: after ``low``, up to ``high``.

        An interval is the time before its end, so that the one that ends where the stretch begins lies outside: from 2
        to 120 seconds are 59 intervals of 2 seconds. Where the dump tells no times, ``low`` and ``high`` are numbers of
        intervals, and both are inside.
        """
        slack = 1e-9 * (float(np.ptp(self.position)) if len(self.position) else 0.0)  # sliders add their steps up
        until = self.position <= high + slack
        if self.unit == "intervals":
            return until & (self.position >= low - slack)
        return until & ((self.position > low + slack) | (low <= 0))

    def select(self, low: float, high: float) -> Samples:
        """Return the samples of the intervals that end in this stretch of the axis (see `selection`)."""
        return self.samples.select(mask=self.selection(low, high)[self.row])

    def _rows(self, event: str) -> tuple[np.ndarray, np.ndarray]:
        column = self.samples.table["event"]
        code = column.cat.categories.get_loc(event)
        chosen = np.flatnonzero(column.cat.codes.to_numpy() == code)
        return chosen, self.samples.table["count"].to_numpy()[chosen]


def _positions(at: np.ndarray, runs: np.ndarray, row: np.ndarray, run_of: np.ndarray, n: int) -> tuple[np.ndarray, str]:
    if not len(at) or np.isnan(at).any():
        # Intervals are sorted by run and number already; their order is the axis.
        return np.arange(n, dtype="float64"), "intervals"
    position = np.full(n, -np.inf)
    np.maximum.at(position, row, at)
    ends = np.zeros(int(runs.max()) + 1)
    np.maximum.at(ends, runs, at)
    offset = np.r_[0.0, np.cumsum(ends)[:-1]]
    seconds = position + offset[run_of]
    unit = next((name for name, one in SECONDS.items() if seconds.max() >= one), "microseconds")
    return seconds if unit == "seconds" else seconds / SECONDS[unit], unit


def _interval_sums(table: pd.DataFrame, row: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    work, time = table["work"].to_numpy(), table["time"].to_numpy()
    known = np.isfinite(work) & np.isfinite(time)
    # An interval whose events share one time and work counts once for each event: the ratio is what matters, and it is
    # the same; dividing by the number of samples gives back the interval's own figures.
    number = np.bincount(row[known], minlength=n)
    return _ratio(_sum(row[known], work[known], n), number), _ratio(_sum(row[known], time[known], n), number)


def _sum(row: np.ndarray, values: np.ndarray, n: int) -> np.ndarray:
    """Return the sums by interval; NaN where there is no value, and where one of them is missing."""
    total = np.bincount(row, weights=values, minlength=n)
    return np.where(np.bincount(row, minlength=n) > 0, total, np.nan)


def begins_of(ends: np.ndarray, lengths: np.ndarray, first: float) -> np.ndarray:
    """Return where intervals begin that end at ``ends``: where the one before ended; ``first`` for the first of them.

    One that begins more than half of its length (NaN: unknown) after the end of the one before comes after a gap, in
    which nothing was measured: it begins its length before its end.
    """
    before = np.r_[first, ends[:-1]][: len(ends)]
    late = ends - lengths > before + 0.5 * lengths
    late[:1] = False
    return np.where(late, ends - lengths, before)


def line_between(
    begins: np.ndarray, ends: np.ndarray, values: np.ndarray, first: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the points of a line through ``values``, each at the end of its interval, that is broken (NaN) at gaps.

    A gap is where an interval begins later than the one before ended (`begins_of`), or is the ``first`` (boolean array)
    of its run or place. A value without a neighbour gets two points, at the begin and the end of its interval.
    """
    return _broken(begins, ends, values, first | np.r_[False, begins[1:] > ends[:-1]][: len(ends)])


def _broken(begins: np.ndarray, ends: np.ndarray, values: np.ndarray, gap: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the points of the line of `line_between`, which is broken before the intervals of ``gap``."""
    alone, broken = _alone(np.isfinite(values), gap), np.flatnonzero(gap[1:]) + 1
    at = np.r_[broken, alone]
    nothing = np.full(len(broken), np.nan)
    return np.insert(ends, at, begins[at]), np.insert(values, at, np.r_[nothing, values[alone]])


def _alone(known: np.ndarray, gap: np.ndarray) -> np.ndarray:
    """Return the indices of known values whose neighbours are unknown or beyond a gap."""
    joined = np.r_[False, known[1:] & known[:-1] & ~gap[1:]][: len(known)]  # with the one before
    return np.flatnonzero(known & ~joined & ~np.r_[joined[1:], False][: len(known)])


def _ratio(top: np.ndarray, bottom: np.ndarray) -> np.ndarray:
    out = np.full(len(top), np.nan)
    np.divide(top, bottom, out=out, where=np.isfinite(bottom) & (bottom > 0))
    return out
