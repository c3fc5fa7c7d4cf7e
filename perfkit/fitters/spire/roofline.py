"""Fit one event's roofline to its samples: the left hull, the Pareto front, and the right chain over it.

SPIRE, section III-D. Everything is in linear coordinates. The two passes over all samples are linear in time: most
samples are dominated by one in a bucket further towards the axis, and only the rest is sorted.
"""

import numpy as np

from perfkit.errors import DataError
from perfkit.fitters.spire.hull import upper_hull
from perfkit.fitters.spire.piecewise import Roofline
from perfkit.fitters.spire.right import right_chain

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
    peak, first, last, *_, highest = surveyed or survey(intensity, throughput)
    if not highest > 0.0:
        return np.empty((0, 2))
    with np.errstate(over="ignore"):
        hull = upper_hull(*_maybe_on_the_hull(intensity, throughput, first, peak), first, peak, True)[1:]
        front = pareto_front(*_maybe_on_the_front(intensity, throughput, last), last, peak)
    return np.concatenate([hull, front[: -1 if first == last else None]])


def _maybe_on_the_hull(
    intensity: np.ndarray, throughput: np.ndarray, first: float, peak: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return intensity and throughput of the samples that may lie on the left hull, both strictly rising.

    One is below it if it is below the line from the origin to the peak, or if one of at most its intensity has at least
    its throughput.
    """
    slope = peak / first * _CERTAINLY if first > 0.0 else 0.0
    above = throughput >= intensity * slope if slope < np.inf else throughput > 0.0
    left = (above & (intensity < first) & (intensity > 0.0)).nonzero()[0]
    x, y = intensity.take(left), throughput.take(left)
    if len(x) > _FEW and slope < np.inf:
        highest = int((y - x * slope).argmax())
        at, height = float(x[highest]), float(y[highest])
        up, on = height / at * _CERTAINLY, (peak - height) / (first - at)
        low = height - 1e-12 * peak - at * on  # rounding of the second line is some 1e-16 of the peak
        if up < np.inf and at * on < peak:
            kept = ((y >= x * up) | (y >= x * on + low)).nonzero()[0]
            x, y = x.take(kept), y.take(kept)
    order = x.argsort()
    return _stairs(x.take(order), y.take(order))


def _maybe_on_the_front(intensity: np.ndarray, throughput: np.ndarray, last: float) -> tuple[np.ndarray, np.ndarray]:
    """Return intensity and throughput of the samples that may lie on the right front: one sample beats most of them."""
    right = ((intensity > last) & (intensity < np.inf) & (throughput > 0.0)).nonzero()[0]
    x, y = intensity.take(right), throughput.take(right)
    best = int((x * y).argmax()) if len(x) else 0
    kept = ((x >= x[best : best + 1]) | (y >= y[best : best + 1])).nonzero()[0]
    return x.take(kept), y.take(kept)


def _stairs(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the points that are higher than all before them; of those with the same x the last."""
    if len(x) > 1:
        rises = np.empty(len(y), dtype=bool)
        rises[0] = True
        np.greater(y[1:], np.maximum.accumulate(y)[:-1], out=rises[1:])
        x, y = x[rises], y[rises]
        if (x[1:] == x[:-1]).any():
            lasts = np.append(x[1:] != x[:-1], True)
            x, y = x[lasts], y[lasts]
    return x, y


def _left_and_right(corners: np.ndarray, start: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the left hull with (0, 0), and the Pareto front above the best sample at infinity with the peak."""
    top = int(corners[:, 1].argmax())
    first, peak = corners[top]
    # Of corners on a straight line but for rounding only the ends are wanted.
    hull = upper_hull(corners[:top, 0], corners[:top, 1], first, peak, False)
    # Only throughputs up to the start's are left out, and never the peak's own: they rise from right to left.
    begin = top + 1 + int(np.count_nonzero((corners[top + 1 :, 1] <= start) & (corners[top + 1 :, 1] < peak)))
    front = np.concatenate([corners[begin:], corners[top : top + 1]])
    return hull, front[:-1] if len(front) > 1 and front[-2, 1] == peak else front  # a plateau has its own end


def pareto_front(intensity: np.ndarray, throughput: np.ndarray, peak_intensity: float, peak: float) -> np.ndarray:
    """Return the samples that no other one beats in both axes, as points (n, 2) from right to left (SPIRE, Fig. 6).

    Throughput rises strictly while intensity falls; the last point is the peak. Samples left of the peak or at
    infinity play no part; give only those above the best sample at infinity.
    """
    right = ((intensity > peak_intensity) & (intensity < np.inf)).nonzero()[0]
    x, y = intensity.take(right), throughput.take(right)
    order = x.argsort()[::-1]
    x, y = _stairs(x.take(order), y.take(order))
    front = np.empty((len(x) + 1, 2))
    front[:-1, 0], front[:-1, 1], front[-1] = x, y, (peak_intensity, peak)
    return front


def survey(intensity: np.ndarray, throughput: np.ndarray) -> tuple[float, float, float, float, float, float]:
    """Return what one pass over samples tells.

    The finite peak, its first and last intensity, the best throughput at infinity (-1: no sample), and the lowest and
    highest finite intensity of samples with work (infinity and minus infinity where there is none).
    """
    x, y, start = intensity, throughput, -1.0
    if not len(x):
        return -1.0, np.inf, 0.0, start, np.inf, -np.inf
    # argmax is faster than max.
    if x[x.argmax()] == np.inf:
        start = float(y.max(where=x == np.inf, initial=-1.0))
        finite = (x < np.inf).nonzero()[0]
        x, y = x.take(finite), y.take(finite)
    if len(y) and y[y.argmin()] <= 0.0:
        working = (y > 0.0).nonzero()[0]
        x, y = x.take(working), y.take(working)
    if not len(y):
        return -1.0, np.inf, 0.0, start, np.inf, -np.inf
    peak = y[y.argmax()]
    at = x.take((y == peak).nonzero()[0])
    return float(peak), float(at.min()), float(at.max()), start, float(x[x.argmin()]), float(x[x.argmax()])


def _join(hull: np.ndarray, front: np.ndarray, chain: np.ndarray, corner: float, peak: float) -> np.ndarray:
    """Put hull, plateau and chain together, by rising intensity."""
    parts = [hull]
    if corner > hull[-1, 0]:
        parts.append(np.array([[corner, peak]]))
    tail = front[chain[::-1]]
    parts.append(tail[tail[:, 0] > parts[-1][-1, 0]])
    return np.concatenate(parts)
