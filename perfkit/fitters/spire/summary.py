"""What SPIRE needs of samples to fit a roofline, in a few hundred numbers per event: summaries that merge exactly.

The fit of a union of samples is the fit of the union of their corners (`corners_of`): the same floating-point numbers,
not about the same. `SpireModel` keeps the summaries it was made of, so that it can take further samples in.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from perfkit.errors import DataError
from perfkit.fitters.machine_code import as_machine_code
from perfkit.fitters.spire.roofline import corners_of, survey
from perfkit.samples.fleet import Key, Piece
from perfkit.samples.parts import by_event

_SEVERAL, _SAME_RATE = 5, 1e-3
_BUFFER, _BLOCK = 8192, 1024
# Buckets of intensity: eight an octave, from 2**-16 to 2**48; what lies beyond shares the outermost ones.
_BUCKETS, _SHIFT = 512, 49
_LOWEST = (1023 - 16) << 3
_CERTAINLY = 1.0 - 1e-12  # rounding of a line through two corners is some 1e-15
_USED, _MISSING, _EMPTY, _LEFT_OUT, _NO_TIME = range(5)
TALLY = ("n_samples", "n_missing", "n_empty", "n_left_out")


@dataclass(frozen=True, eq=False)
class EventSummary:
    """One event's samples, as far as its roofline goes.

    Attributes
    ----------
    corners : array of shape (n, 2)
        Intensity and throughput of `corners_of`.
    at_infinity : float
        The best throughput without the event; -1 where it always happened.
    counted : tuple of int
        Samples used, and those not used: not measured, neither work nor events, left out by the settings.
    lowest, highest : float
        The range of intensities of samples with work (infinity where the event did not happen).
    slowest, fastest : float
        The range of events per time; NaN once it is known to vary, or where a sample's intensity is not finite.
    """

    corners: np.ndarray
    at_infinity: float
    counted: tuple[int, int, int, int]
    lowest: float
    highest: float
    slowest: float
    fastest: float

    @property
    def is_trainable(self) -> bool:
        """Whether some sample has work done and the event counted."""
        return len(self.corners) > 0

    @property
    def is_even(self) -> bool:
        """Whether the event is the same multiple of time in every one of several samples."""
        return self.counted[_USED] >= _SEVERAL and not np.isnan(self.fastest)


def summarise(intensity: np.ndarray, throughput: np.ndarray, counted: Sequence[int]) -> EventSummary:
    """Return the summary of the usable samples of an event; ``counted`` says how many there were and were not."""
    surveyed = survey(intensity, throughput)
    _, _, _, beyond, lowest, highest = surveyed
    return EventSummary(
        corners_of(intensity, throughput, surveyed),
        beyond,
        (int(counted[0]), int(counted[1]), int(counted[2]), int(counted[3])),
        lowest,
        np.inf if beyond > 0.0 else highest,
        *_range_of_rates(intensity, throughput),
    )


def _range_of_rates(intensity: np.ndarray, throughput: np.ndarray) -> tuple[float, float]:
    """Return the lowest and highest number of events per time; NaN once they vary, or are not known."""
    if len(intensity) > _SEVERAL and np.isnan(_range_of_rates(intensity[:_SEVERAL], throughput[:_SEVERAL])[0]):
        return np.nan, np.nan  # most vary at once
    if not len(intensity) or intensity.min() <= 0.0 or intensity.max() == np.inf:
        return np.nan, np.nan
    rates = throughput / intensity
    return _rates(float(rates.min()), float(rates.max()))


def _rates(slowest: float, fastest: float) -> tuple[float, float]:
    """Return the range of rates as long as they are alike: once they vary, no further sample changes that."""
    return (slowest, fastest) if fastest - slowest <= _SAME_RATE * fastest else (np.nan, np.nan)


def merge(one: EventSummary, two: EventSummary) -> EventSummary:
    """Return the summary of the samples of both."""
    both = np.concatenate([one.corners, two.corners])
    none = [not s.counted[_USED] for s in (one, two)]
    slowest = two.slowest if none[0] else one.slowest if none[1] else float(np.minimum(one.slowest, two.slowest))
    fastest = two.fastest if none[0] else one.fastest if none[1] else float(np.maximum(one.fastest, two.fastest))
    a, b = one.counted, two.counted
    return EventSummary(
        corners_of(both[:, 0], both[:, 1]),
        max(one.at_infinity, two.at_infinity),
        (a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3]),
        min(one.lowest, two.lowest),
        max(one.highest, two.highest),
        *_rates(slowest, fastest),
    )


def merge_events(one: Mapping[str, EventSummary], two: Mapping[str, EventSummary]) -> dict[str, EventSummary]:
    """Return the summaries of both, event by event, in order of first appearance."""
    out = dict(one)
    for event, summary in two.items():
        out[event] = merge(out[event], summary) if event in out else summary
    return out


# ------------------------------------------------------------------ a fleet, batch by batch


def summarise_pieces(pieces: Sequence[Piece], min_running: float) -> dict[Key, dict[str, EventSummary]]:
    """Summarise the samples of each cell by event: what `Fleet.scan` calls.

    Raises
    ------
    DataError
        A sample has work but no time; the file is named.
    """
    found: dict[Key, dict[str, _Sieve]] = {}
    for piece in pieces:
        for batch in by_event(piece.part, piece.groups, running=min_running > 0, at=piece.period > 0):
            with np.errstate(divide="ignore", invalid="ignore"):
                throughput = batch.work / batch.time
            for key, rows in piece.slices(batch):
                of_cell = found.setdefault(key, {})
                for event, count in batch.counts.items():
                    sieve = of_cell.get(event)
                    if sieve is None:
                        sieve = of_cell[event] = _Sieve()
                    share = batch.running.get(event, _NOTHING)
                    sieve.take(
                        batch.time[rows], batch.work[rows], throughput[rows], count[rows],
                        share[rows] if len(share) else share, min_running,
                    )  # fmt: skip
                    if sieve.tally[_NO_TIME]:
                        raise DataError(
                            f"{piece.part.path}: {event}: work without time has no throughput: time is 0 and work is "
                            "not in one of the intervals. Leave them out before they are put into the fleet."
                        )
    return {key: {event: sieve.summary() for event, sieve in events.items()} for key, events in found.items()}


_NOTHING = np.empty(0)


class _Sieve:
    """Samples of an event as they come; those that cannot matter are dropped at once.

    A sample is dropped where known ones lie above it on both sides: it is below the hull so far, and one further right
    is at least as high. Both are looked up by the bucket of the sample's intensity.
    """

    def __init__(self) -> None:
        self.tally = np.zeros(5, dtype=np.int64)
        # Best at infinity, lowest and highest intensity, slowest and fastest rate, whether the rate was seen to vary.
        self.ranges = np.array([-1.0, np.inf, -np.inf, np.inf, -np.inf, 0.0])
        self.buffer = np.empty((_BUFFER, 2))
        self.fill = 0
        self.tables = np.zeros((5, _BUCKETS))
        self.tables[2:] = -1.0

    def take(
        self,
        time: np.ndarray,
        work: np.ndarray,
        throughput: np.ndarray,
        count: np.ndarray,
        running: np.ndarray,
        min_running: float,
    ) -> None:
        done = 0
        while done < len(count):
            self.fill, done = as_machine_code(_sift)(
                time, work, throughput, count, running, min_running, done, self.tally, self.ranges, self.tables,
                self.buffer, self.fill,
            )  # fmt: skip
            if done < len(count):
                self._press()

    def _press(self) -> None:
        corners = corners_of(self.buffer[: self.fill, 0].copy(), self.buffer[: self.fill, 1].copy())
        if len(corners) > _BUFFER // 2:  # a front of thousands of samples: make room for as many again
            self.buffer = np.empty((2 * len(self.buffer), 2))
        self.fill = len(corners)
        self.buffer[: self.fill] = corners
        as_machine_code(_look_up)(corners, self.tables)

    def summary(self) -> EventSummary:
        best, lowest, highest, slowest, fastest, _ = self.ranges.tolist()
        found = self.buffer[: self.fill]
        corners = corners_of(found[:, 0].copy(), found[:, 1].copy())
        used, missing, empty, left_out, _ = self.tally.tolist()
        rates = _rates(slowest, fastest) if used else (np.nan, np.nan)
        return EventSummary(corners, best, (used, missing, empty, left_out), lowest, highest, *rates)


def _sift(
    time: np.ndarray,
    work: np.ndarray,
    throughput: np.ndarray,
    count: np.ndarray,
    running: np.ndarray,
    min_running: float,
    first: int,
    tally: np.ndarray,
    ranges: np.ndarray,
    tables: np.ndarray,
    buffer: np.ndarray,
    fill: int,
) -> tuple[int, int]:
    """Take samples in until the buffer is full; return how full it is and how many samples were taken in."""
    n = len(count)
    intensity = np.empty(_BLOCK)
    bits = intensity.view(np.int64)
    level, slope, above, best_at, best = tables[0], tables[1], tables[2], tables[3], tables[4]
    used = 0
    at_infinity, lowest, highest = ranges[0], ranges[1], ranges[2]
    room = len(buffer)
    shares = len(running) > 0
    stopped = n
    for start in range(first, n, _BLOCK):
        end = min(start + _BLOCK, n)
        for i in range(start, end):
            intensity[i - start] = work[i] / count[i] if count[i] > 0.0 else np.inf
        for i in range(start, end):
            p, m = throughput[i], count[i]
            if not (m >= 0.0 and p < np.inf) or (shares and running[i] < min_running):
                tally[_fate(time[i], work[i], m, shares and running[i] < min_running)] += 1
                continue
            if m == 0.0 and p == 0.0:
                tally[_EMPTY] += 1
                continue
            if fill == room:
                stopped = i
                break
            used += 1
            x = intensity[i - start]
            if p > 0.0:
                lowest = min(lowest, x)
                highest = max(highest, x)
            if ranges[5] == 0.0:
                _watch_rate(ranges, x, p)
            if x == np.inf:
                at_infinity = max(at_infinity, p)
                continue
            if p <= 0.0:
                continue
            b = min(max((bits[i - start] >> _SHIFT) - _LOWEST, 0), _BUCKETS - 1)
            below = p < (level[b] + slope[b] * x) * _CERTAINLY
            if below and (p <= above[b] or (p <= best[b] and x <= best_at[b])):
                continue
            buffer[fill, 0], buffer[fill, 1] = x, p
            fill += 1
            if p > best[b] or (p == best[b] and x > best_at[b]):
                best[b], best_at[b] = p, x
            lower = b - 1
            while lower >= 0 and above[lower] < p:
                above[lower] = p
                lower -= 1
        if stopped < n:
            break
    tally[_USED] += used
    ranges[0], ranges[1], ranges[2] = at_infinity, lowest, highest
    return fill, stopped


def _fate(time: float, work: float, count: float, too_short: bool) -> int:
    """Return why a sample is not used, in the order of `points._fates`."""
    if np.isnan(time) or np.isnan(work) or np.isnan(count):
        return _MISSING
    if too_short:
        return _LEFT_OUT
    return _EMPTY if work == 0.0 else _NO_TIME


def _watch_rate(ranges: np.ndarray, x: float, p: float) -> None:
    """Follow the range of events per time until it is seen that it varies: it can only become wider."""
    if not 0.0 < x < np.inf:
        ranges[3] = ranges[4] = np.nan
        ranges[5] = 1.0
        return
    rate = p / x
    ranges[3] = min(ranges[3], rate)
    ranges[4] = max(ranges[4], rate)
    if ranges[4] - ranges[3] > _SAME_RATE * ranges[4]:
        ranges[5] = 1.0


def _look_up(corners: np.ndarray, tables: np.ndarray) -> None:
    """Fill in, for each bucket, a line below the hull, the best to the right of the bucket, and the best in it."""
    tables[0], tables[1] = 0.0, 0.0
    tables[2:] = -1.0
    level, slope, above, best_at, best = tables[0], tables[1], tables[2], tables[3], tables[4]
    bits = corners[:, 0].copy().view(np.int64)
    peak = 0
    for k in range(len(corners)):
        if corners[k, 1] > corners[peak, 1]:
            peak = k
        b = min(max((bits[k] >> _SHIFT) - _LOWEST, 0), _BUCKETS - 1)
        if corners[k, 1] > best[b] or (corners[k, 1] == best[b] and corners[k, 0] > best_at[b]):
            best[b], best_at[b] = corners[k, 1], corners[k, 0]
    for b in range(_BUCKETS - 2, -1, -1):
        above[b] = max(above[b + 1], best[b + 1])
    edges = ((np.arange(_BUCKETS + 1) + _LOWEST) << _SHIFT).view(np.float64)
    k = 0  # the hull's corners come first, by rising intensity, up to the peak
    for b in range(1, _BUCKETS):
        while k < peak and corners[k, 0] < edges[b]:
            k += 1
        here = _height(corners, k, edges[b])
        after_k = k
        while after_k < peak and corners[after_k, 0] < edges[b + 1]:
            after_k += 1
        after = _height(corners, after_k, edges[b + 1])
        if b == _BUCKETS - 1:
            after = here
        slope[b] = (after - here) / (edges[b + 1] - edges[b])
        level[b] = here - slope[b] * edges[b]


def _height(corners: np.ndarray, k: int, x: float) -> float:
    """Return the hull's height at x; corner k is the first one at or right of x, or the peak."""
    if x >= corners[k, 0]:
        return float(corners[k, 1])
    x0, y0 = (0.0, 0.0) if k == 0 else (corners[k - 1, 0], corners[k - 1, 1])
    return float(y0 + (corners[k, 1] - y0) * (x - x0) / (corners[k, 0] - x0))


def counted_table(summaries: Mapping[str, EventSummary]) -> pd.DataFrame:
    """Return how many samples of each event were used and not used."""
    rows = [s.counted for s in summaries.values()]
    return pd.DataFrame(rows, columns=list(TALLY), index=pd.Index(list(summaries), name="event"))
