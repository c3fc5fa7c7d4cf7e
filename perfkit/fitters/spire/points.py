"""Samples as SPIRE sees them: time, intensity and throughput, grouped by event."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numba import njit

from perfkit.errors import DataError
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
        time, work, count = (column[self.rows_of(index)] for column in self.columns)
        happened = count > 0.0
        return time, np.divide(work, count, out=np.full(len(count), np.inf), where=happened), work / time

    def rows_of(self, index: int) -> np.ndarray:
        """Return the rows of one event's samples in the samples' table."""
        return self.rows[self.offsets[index] : self.offsets[index + 1]]


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
    to_event = np.array([number.get(str(c), -1) for c in categories], dtype=np.int64)
    time, work, count = (table[c].to_numpy() for c in ("time", "work", "count"))
    codes = table["event"].cat.codes.to_numpy().astype(np.int32)  # one type, so that numba compiles once
    fate = _fates(codes, to_event, time, work, count, table["running"].to_numpy(), min_running)
    no_time = np.flatnonzero(fate == _NO_TIME)
    if len(no_time):
        told = ", ".join(map(str, no_time[:5])) + (f" and {len(no_time) - 5:,} more" if len(no_time) > 5 else "")
        raise DataError(
            f"work without time has no throughput: time is 0 and work is not in row(s) {told}. "
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


@njit(cache=True)
def _totals(key: np.ndarray, cells: int, time: np.ndarray, work: np.ndarray) -> tuple[float, float]:
    """Sum time and work over distinct keys; NaN where one key has two values."""
    T, W = np.full(cells, np.nan), np.full(cells, np.nan)
    total, done = 0.0, 0.0
    for i in range(len(key)):
        k = key[i]
        if np.isnan(time[i]) or np.isnan(work[i]):
            continue
        if np.isnan(T[k]):
            T[k], W[k] = time[i], work[i]
            total += time[i]
            done += work[i]
        elif T[k] != time[i] or W[k] != work[i]:
            return np.nan, np.nan
    return total, done


@njit(cache=True)
def _fates(
    codes: np.ndarray,
    to_event: np.ndarray,
    time: np.ndarray,
    work: np.ndarray,
    count: np.ndarray,
    running: np.ndarray,
    min_running: float,
) -> np.ndarray:
    """Return for each row what becomes of it: used, or why not (-1: time or work themselves)."""
    fate = np.empty(len(codes), dtype=np.int8)
    for i in range(len(codes)):
        if to_event[codes[i]] < 0:
            fate[i] = -1
        elif np.isnan(time[i]) or np.isnan(work[i]) or np.isnan(count[i]):
            fate[i] = _MISSING
        elif running[i] < min_running:
            fate[i] = _LEFT_OUT
        elif time[i] == 0.0:
            fate[i] = _EMPTY if work[i] == 0.0 else _NO_TIME
        elif work[i] == 0.0 and count[i] == 0.0:
            fate[i] = _EMPTY
        else:
            fate[i] = _USED
    return fate


@njit(cache=True)
def _group(
    codes: np.ndarray,
    to_event: np.ndarray,
    fate: np.ndarray,
    n_events: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Count the fates and put the used rows together by event, in their order (a counting sort)."""
    tally = np.zeros((n_events, 5), dtype=np.int64)
    for i in range(len(codes)):
        if fate[i] >= 0:
            tally[to_event[codes[i]], fate[i]] += 1
    offsets = np.zeros(n_events + 1, dtype=np.int64)
    place = np.zeros(n_events, dtype=np.int64)
    for event in range(n_events):  # a loop: numba takes seconds to compile a cumulative sum into a slice
        place[event] = offsets[event]
        offsets[event + 1] = offsets[event] + tally[event, 0]
    used = offsets[n_events]
    rows = np.empty(used, dtype=np.int64)
    for i in range(len(codes)):
        if fate[i] != 0:
            continue
        event = to_event[codes[i]]
        at = place[event]
        place[event] = at + 1
        rows[at] = i
    return tally, offsets, rows
