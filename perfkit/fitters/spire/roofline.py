"""Fit one event's roofline to its samples: the left hull, the Pareto front, and the right chain over it.

SPIRE, section III-D. Everything is in linear coordinates. The two passes over all samples are linear in time: most
samples are dominated by one in a bucket further towards the axis, and only the rest is sorted.
"""

import numpy as np
from numba import njit

from perfkit.errors import DataError
from perfkit.fitters.spire.hull import upper_hull
from perfkit.fitters.spire.piecewise import Roofline
from perfkit.fitters.spire.right import right_chain

_BUCKETS = 256
_FEW = 64  # samples: sorting them is faster
_CERTAINLY = 1.0 - 1e-12  # rounding of a line through two samples is some 1e-15


def fit_roofline(intensity: np.ndarray, throughput: np.ndarray, event: str = "") -> Roofline:
    """Return the SPIRE roofline of samples of one event.

    Parameters
    ----------
    intensity : array of shape (n,)
        I = W / M, work per event; infinity where the event did not happen.
    throughput : array of shape (n,)
        P = W / T, work per time; finite.
    event : str
        The event's name, kept with the result.

    Raises
    ------
    DataError
        A value is NaN or negative, a throughput is infinite, or no sample has both a finite intensity and a
        throughput above 0: such samples say nothing about the event.

    Examples
    --------
    >>> roofline = fit_roofline([1, 2, 4, 8], [1, 2, 3, 2])
    >>> roofline.breakpoints.tolist()
    [[0.0, 0.0], [2.0, 2.0], [4.0, 3.0], [8.0, 2.0]]
    """
    at = np.ascontiguousarray(intensity, dtype="float64")
    height = np.ascontiguousarray(throughput, dtype="float64")
    if at.ndim != 1 or at.shape != height.shape:
        raise DataError(f"intensity and throughput are two arrays of one length; found {at.shape} and {height.shape}")
    if np.isnan(at).any() or (at < 0).any() or not np.isfinite(height).all() or (height < 0).any():
        bad = np.flatnonzero(np.isnan(at) | (at < 0) | ~np.isfinite(height) | (height < 0))
        raise DataError(f"expected intensities >= 0 and finite throughputs >= 0; not so in rows {bad[:5].tolist()}")
    corners, start = _given(at, height)
    if not len(corners):
        raise DataError(
            f"{event or 'the event'}: no sample has both a finite intensity and a throughput above 0, "
            "so there is nothing to fit"
        )
    return Roofline(*fit_points(corners, start), event)


def corner_samples(intensity: np.ndarray, throughput: np.ndarray) -> np.ndarray:
    """Return the sorted indices of the samples on the left hull and the Pareto front, and the best at infinity.

    The roofline depends on no other sample; leaving others out of a picture hides nothing that it rests on.
    """
    at = np.ascontiguousarray(intensity, dtype="float64")
    height = np.ascontiguousarray(throughput, dtype="float64")
    keep = np.zeros(len(at), dtype=bool)
    corners, start = _given(at, height)
    if len(corners):
        hull, front = _left_and_right(corners, start)
        touched = {(x, y) for x, y in np.vstack([hull, front]).tolist()} | {(np.inf, start)}
        keep = np.array([pair in touched for pair in zip(at.tolist(), height.tolist(), strict=True)])
    return np.flatnonzero(keep)


def _given(intensity: np.ndarray, throughput: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the corners of samples and the best throughput at infinity.

    A sample without work at the right end of all, which samples of counters cannot be (W = 0 makes I = 0), is a corner.
    """
    surveyed = survey(intensity, throughput)
    corners, start = corners_of(intensity, throughput, surveyed), surveyed[3]
    idle = intensity[(throughput == 0.0) & np.isfinite(intensity)].max(initial=-1.0)
    if len(corners) and start < 0.0 and idle > corners[:, 0].max():
        corners = np.insert(corners, corners[:, 1].argmax() + 1, (idle, 0.0), axis=0)
    return corners, start


def fit_points(corners: np.ndarray, start: float) -> tuple[np.ndarray, float, float]:
    """Return breakpoints (n, 2), peak intensity and the bound at infinity.

    Parameters
    ----------
    corners : array of shape (n, 2)
        What `corners_of` returned of trainable samples.
    start : float
        The best throughput at infinity; -1 where there is no such sample.
    """
    hull, front = _left_and_right(corners, start)
    first, peak = corners[np.argmax(corners[:, 1])]
    if start >= peak:  # reached without the event: there is no right part
        return _join(hull, np.empty((0, 2)), np.empty(0, dtype=np.int64), front[-1, 0], peak), np.inf, start
    chain, corner, _ = right_chain(front[:, 0].copy(), front[:, 1].copy())
    points = _join(hull, front, chain, corner, peak)
    return points, first + 0.5 * (corner - first), start if start >= 0.0 else points[-1, 1]


def corners_of(
    intensity: np.ndarray,
    throughput: np.ndarray,
    surveyed: tuple[float, float, float, float, float, float] | None = None,
) -> np.ndarray:
    """Return the samples (n, 2) that the roofline of these and of any further samples rests on.

    Those are the corners of the left hull from left to right, the peak as the last of them, and the Pareto front from
    right to left, which ends at the plateau's other end if it has one. Of a union they are the corners of the
    partitions' corners, exactly: only comparisons and exact signs decide. Samples without work, or at infinity, play
    no part. ``surveyed`` is what `survey` returned, if that is known.
    """
    peak, first, last, _, lowest, highest = surveyed or survey(intensity, throughput)
    if not highest > 0.0:
        return np.empty((0, 2))
    (x, y), (right_x, right_y) = _undominated(intensity, throughput, first, last, lowest, highest)
    rising, falling = x.argsort(), (-right_x).argsort()
    hull = upper_hull(x[rising], y[rising], first, peak, True)[1:]
    front = _front(right_x[falling], right_y[falling], last, peak)
    return np.concatenate([hull, front[: -1 if first == last else None]])


@njit(cache=True, nogil=True)
def _left_and_right(corners: np.ndarray, start: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the left hull with (0, 0), and the Pareto front above the best sample at infinity with the peak."""
    top = 0
    for k in range(len(corners)):
        if corners[k, 1] > corners[top, 1]:
            top = k
    first, peak = corners[top, 0], corners[top, 1]
    # Of corners on a straight line but for rounding only the ends are wanted.
    hull = upper_hull(corners[:top, 0].copy(), corners[:top, 1].copy(), first, peak, False)
    begin = top + 1
    while begin < len(corners) and corners[begin, 1] <= start and corners[begin, 1] < peak:
        begin += 1
    front = np.empty((len(corners) - begin + 1, 2))
    front[:-1] = corners[begin:]
    front[-1, 0], front[-1, 1] = first, peak
    return hull, front[:-1] if len(front) > 1 and front[-2, 1] == peak else front  # a plateau has its own end


def pareto_front(intensity: np.ndarray, throughput: np.ndarray, peak_intensity: float, peak: float) -> np.ndarray:
    """Return the samples that no other one beats in both axes, as points (n, 2) from right to left (SPIRE, Fig. 6).

    Throughput rises strictly while intensity falls; the last point is the peak. Samples left of the peak or at
    infinity play no part; give only those above the best sample at infinity.
    """
    order = np.argsort(-intensity)
    return _front(intensity[order], throughput[order], peak_intensity, peak)


@njit(cache=True, nogil=True)
def _front(intensity: np.ndarray, throughput: np.ndarray, peak_intensity: float, peak: float) -> np.ndarray:
    front = np.empty((len(intensity) + 1, 2))
    size = 0
    best = -1.0
    for k in range(len(intensity)):
        x, y = intensity[k], throughput[k]
        if not peak_intensity < x < np.inf or y <= best:
            continue
        if size > 0 and front[size - 1, 0] == x:
            size -= 1
        front[size, 0], front[size, 1] = x, y
        best = y
        size += 1
    front[size, 0], front[size, 1] = peak_intensity, peak
    return front[: size + 1].copy()


@njit(cache=True, nogil=True)
def survey(intensity: np.ndarray, throughput: np.ndarray) -> tuple[float, float, float, float, float, float]:
    """Return what one pass over samples tells.

    The finite peak, its first and last intensity, the best throughput at infinity (-1: no sample), and the lowest and
    highest finite intensity of samples with work (infinity and minus infinity where there is none).
    """
    peak, first, last, start, lowest, highest = -1.0, np.inf, 0.0, -1.0, np.inf, -np.inf
    for i in range(len(intensity)):
        x, y = intensity[i], throughput[i]
        if x == np.inf:
            start = max(start, y)
        elif y > 0.0:
            if x < lowest:
                lowest = x
            if x > highest:
                highest = x
            if y > peak:
                peak, first, last = y, x, x
            elif y == peak:
                first = min(first, x)
                last = max(last, x)
    return peak, first, last, start, lowest, highest


@njit(cache=True, nogil=True)
def _undominated(
    intensity: np.ndarray, throughput: np.ndarray, first: float, last: float, lowest: float, highest: float
) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Return intensity and throughput of the samples that may lie on the left hull, and on the right front.

    A sample left of the peak is below the hull if one of lower intensity has at least its throughput, or one of higher
    intensity more throughput per intensity; one right of it is off the front if one of higher intensity has at least
    its throughput. Buckets by the bits of the intensity, which rise with its logarithm, decide most cases without
    sorting; samples of one bucket are left for the sort.
    """
    if len(intensity) <= _FEW:
        left = np.flatnonzero((intensity > 0.0) & (intensity < first) & (throughput > 0.0))
        right = np.flatnonzero((intensity > last) & (intensity < np.inf) & (throughput > 0.0))
        return (intensity[left], throughput[left]), (intensity[right], throughput[right])
    bits = intensity.view(np.int64)
    ends = np.array([max(lowest, 0.0), highest]).view(np.int64)
    low, shift = ends[0], np.int64(0)
    while (ends[1] - low) >> shift >= _BUCKETS:
        shift += 1
    best = np.full(_BUCKETS + 2, -1.0)
    for i in range(len(bits)):
        if 0.0 < intensity[i] < np.inf:
            bucket = min(max((bits[i] - low) >> shift, 0), _BUCKETS - 1) + 1
            best[bucket] = max(best[bucket], throughput[i])
    edges = np.fmin(((np.arange(_BUCKETS + 2) << shift) + low).view(np.float64), highest)
    below, above, slope = np.zeros(_BUCKETS + 2), np.zeros(_BUCKETS + 2), np.zeros(_BUCKETS + 2)
    for b in range(1, _BUCKETS + 2):
        below[b] = max(below[b - 1], best[b - 1])
        mirrored = _BUCKETS + 1 - b
        above[mirrored] = max(above[mirrored + 1], best[mirrored + 1])
        slope[mirrored] = max(slope[mirrored + 1], best[mirrored + 1] / edges[mirrored + 1] * _CERTAINLY)
    left = np.empty(len(bits), dtype=np.int64)
    right = np.empty(len(bits), dtype=np.int64)
    n_left, n_right = 0, 0
    for i in range(len(bits)):
        x, y = intensity[i], throughput[i]
        bucket = min(max((bits[i] - low) >> shift, 0), _BUCKETS - 1) + 1
        if x < first:
            if y > below[bucket] and y >= slope[bucket] * x:
                left[n_left] = i
                n_left += 1
        elif last < x < np.inf and y > above[bucket]:
            right[n_right] = i
            n_right += 1
    left, right = left[:n_left], right[:n_right]
    return (intensity[left], throughput[left]), (intensity[right], throughput[right])


def _join(hull: np.ndarray, front: np.ndarray, chain: np.ndarray, corner: float, peak: float) -> np.ndarray:
    """Put hull, plateau and chain together, by rising intensity."""
    parts = [hull]
    if corner > hull[-1, 0]:
        parts.append(np.array([[corner, peak]]))
    tail = front[chain[::-1]]
    parts.append(tail[tail[:, 0] > parts[-1][-1, 0]])
    return np.concatenate(parts)
