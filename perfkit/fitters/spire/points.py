"""Samples as SPIRE sees them: time, intensity and throughput, grouped by event."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from perfkit.errors import DataError, listed
from perfkit.samples.table import Samples

# What Linux calls the counters of one kind of core, where a machine has several.
_USED, _MISSING, _EMPTY, _LEFT_OUT, _NO_TIME = range(5)


@dataclass(frozen=True, eq=False)
class Points:
    """The usable samples of each event; their figures are worked out event by event, so that few are in memory.

    Attributes
    ----------
    events : list of str
        In order of first appearance.
    offsets : int array of shape (events + 1,)
        Where each event's samples start among ``rows``.
    rows : int array of shape (samples,)
        The row of the samples' table that each came from, event by event.
    columns : tuple of arrays
        Time, work and count of that table.
    counted : DataFrame
        How many samples were used and left out, and why; indexed by event.
    """

    events: list[str]
    offsets: np.ndarray
    rows: np.ndarray
    columns: tuple[np.ndarray, np.ndarray, np.ndarray]
    counted: pd.DataFrame

    def of(self, index: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return T, I = W / M (infinite where M = 0) and P = W / T of one event's samples (SPIRE, section III-A)."""
        rows = self.rows_of(index)
        time, work, count = (column.take(rows) for column in self.columns)
        with np.errstate(divide="ignore", over="ignore"):  # none has W = M = 0
            return time, work / np.abs(count), work / time  # counts are not negative; -0 is one of them

    def rows_of(self, index: int) -> np.ndarray:
        """Return the rows of one event's samples in the samples' table."""
        return self.rows[self.offsets[index] : self.offsets[index + 1]].astype(np.intp)


def arrange(samples: Samples, min_running: float = 0.0) -> Points:
    """Return the usable samples grouped by event; the events of time and work themselves are left out.

    Raises
    ------
    DataError
        No event is left, or samples have work but no time.
    """
    events = samples.events
    if not events:
        raise DataError(
            f"expected events besides {samples.time_event} (time) and {samples.work_event} (work); found none. "
            "SPIRE needs at least one counted event."
        )
    table = samples.table
    categories = table["event"].cat.categories
    number = {event: i for i, event in enumerate(events)}
    to_event = np.array([number.get(str(c), -1) for c in categories], dtype=table["event"].cat.codes.dtype)
    time, work, count = (table[c].to_numpy() for c in ("time", "work", "count"))
    codes = table["event"].cat.codes.to_numpy()
    fate = _fates(time, work, count, table["running"].to_numpy(), min_running)
    no_time = np.flatnonzero(fate == _NO_TIME)
    no_time = no_time[to_event[codes[no_time]] >= 0]
    if len(no_time):
        raise DataError(
            f"work without time has no throughput: time is 0 and work is not in "
            f"row{'s' * (len(no_time) > 1)} {listed(no_time, 5)}. "
            "Leave them out with samples.select(mask=samples.table['time'] > 0)."
        )
    tally, offsets, rows = _group(codes, to_event, fate, len(events))
    counted = pd.DataFrame(
        tally[:, :_NO_TIME],
        index=pd.Index(events, name="event"),
        columns=["n_samples", "n_missing", "n_empty", "n_left_out"],
    )
    return Points(events, offsets, rows, (time, work, count), counted)


def measured_throughput(samples: Samples, points: Points) -> float:
    """Return total work over total time, each interval once; over all usable samples where intervals disagree.

    Time and work may differ between the events of an interval: counters that were read one after another have each
    their own. This is `Samples.throughput` without its sort, which would take longer than the ranking.
    """
    table = samples.table
    run, place = (table[c].cat.codes.to_numpy().astype(np.int64) for c in ("run", "place"))
    interval = table["interval"].to_numpy()
    n_places, n_intervals = int(place.max()) + 1, int(interval.max()) + 1
    cells = (int(run.max()) + 1) * n_places * n_intervals
    total, done = np.nan, np.nan
    if cells <= max(1_000_000, 8 * len(table)):
        key = (run * n_places + place) * n_intervals + interval
        total, done = _totals(key, cells, table["time"].to_numpy(), table["work"].to_numpy())
    if np.isnan(total):
        total, done = (column[points.rows].sum() for column in points.columns[:2])
    return float(done / total) if total > 0 else float("nan")


def _totals(key: np.ndarray, cells: int, time: np.ndarray, work: np.ndarray) -> tuple[float, float]:
    """Sum time and work over distinct keys, in their order; NaN where one key has two values."""
    known = ~(np.isnan(time) | np.isnan(work))
    if not known.all():
        key, time, work = key[known], time[known], work[known]
    first = np.full(cells, -1, dtype=np.int32)
    first[key[::-1]] = np.arange(len(key) - 1, -1, -1, dtype=np.int32)  # of several assignments the last one stays
    row = first[key]
    if (time[row] != time).any() or (work[row] != work).any():
        return np.nan, np.nan
    firsts = np.flatnonzero(row == np.arange(len(key), dtype=np.int32))
    if not len(firsts):
        return 0.0, 0.0
    # One after another, as a running total has it: `sum` would round otherwise.
    return float(np.cumsum(time[firsts])[-1]), float(np.cumsum(work[firsts])[-1])


def _fates(
    time: np.ndarray, work: np.ndarray, count: np.ndarray, running: np.ndarray, min_running: float
) -> np.ndarray:
    """Return for each row what becomes of it: used, or why not."""
    fate = np.zeros(len(time), dtype=np.int8)
    idle = work == 0.0
    fate[idle & (count == 0.0)] = _EMPTY
    still = time == 0.0
    if still.any():
        fate[still] = np.where(idle[still], _EMPTY, _NO_TIME)
    if min_running > 0.0:
        fate[running < min_running] = _LEFT_OUT
    fate[np.isnan(time) | np.isnan(work) | np.isnan(count)] = _MISSING
    return fate


def _group(
    codes: np.ndarray, to_event: np.ndarray, fate: np.ndarray, n_events: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Count the fates and put the used rows together by event, in their order."""
    rows, n_each = _by_event(codes, to_event, n_events)
    tally = np.zeros((n_events, 5), dtype=np.int64)
    tally[:, _USED] = n_each
    if fate.any():
        unused = rows[fate[rows] != _USED]
        of, why = to_event[codes[unused]], fate[unused]
        np.add.at(tally, (of, why), 1)
        np.subtract.at(tally, (of, _USED), 1)
        rows = rows[fate[rows] == _USED]
    return tally, np.concatenate([[0], np.cumsum(tally[:, _USED])]), rows


def _by_event(codes: np.ndarray, to_event: np.ndarray, n_events: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of each event, event by event and in their order, and how many each has."""
    small = np.min_scalar_type(len(codes))
    width = len(to_event)
    first = codes[:width]
    once_each = len(codes) % width == 0 and (np.bincount(first, minlength=width) == 1).all()
    if once_each and (codes.reshape(-1, width) == first).all():  # a table of intervals: all events, in one order
        of = to_event[first]
        columns = np.argsort(of)[np.count_nonzero(of < 0) :]
        rows = np.arange(len(codes), dtype=small).reshape(-1, width).T[columns].ravel()
        return rows, np.full(n_events, len(codes) // width)
    of = to_event[codes]
    n_each = np.bincount(of[of >= 0], minlength=n_events)
    return np.argsort(of, kind="stable")[len(of) - n_each.sum() :].astype(small), n_each
