"""The upper left hull of samples, decided without rounding.

Which samples are corners of a hull is a question of signs: does a point lie above, on or below a line? Answered with
rounded products the answer may depend on which other samples were there, and the hull of two hulls would not be the
hull of everything. Here the sign is that of the exact sum (J. R. Shewchuk, "Adaptive Precision Floating-Point
Arithmetic and Fast Robust Geometric Predicates", 1997: the filter of its `orient2d`, then an exact expansion), so that
the hull of the union of partitions is the hull of their hulls.
"""

from collections.abc import MutableSequence, Sequence

import numpy as np

from perfkit.fitters.machine_code import as_machine_code

_FILTER = 3.3306690738754716e-16  # (3 + 16 eps) eps, of the rounded determinant
_SPLIT = 134217729.0  # 2**27 + 1
_FEW = 12  # points: a walk in Python is faster than numpy's calls
_MANY = 512  # points: a walk in Python, each step in doubt, takes as long as to import numba
_ROUNDS = 12
_STEEPER, _TINY = 1.0 + 1e-14, 1e-290  # slopes that differ by more differ in truth: each is rounded three times
_END = np.array([True])


def upper_hull(
    intensity: np.ndarray, throughput: np.ndarray, peak_intensity: float, peak: float, exact: bool
) -> np.ndarray:
    """Return the corners of the hull from (0, 0) to the peak, as points (n, 2) by rising intensity (SPIRE, Fig. 5).

    ``intensity`` must rise. Samples at or right of the peak play no part. Slopes fall strictly: without rounding where
    ``exact`` says so; else corners on a line that is straight but for rounding are left out, too.
    """
    inside = ((intensity > 0.0) & (intensity < peak_intensity)).nonzero()[0]
    x, y = np.zeros((2, len(inside) + 2))
    x[1:-1], y[1:-1] = intensity.take(inside), throughput.take(inside)
    x[-1], y[-1] = peak_intensity, peak
    if len(x) > _FEW and (x[1:] > x[:-1]).all():
        x, y, known = _pruned(x, y, exact)
        if known:
            return np.column_stack([x, y])
    if len(x) > _MANY:
        hull = np.empty((2, len(x)))
        size = as_machine_code(_walk)(x, y, exact, hull[0], hull[1])
        return hull[:, :size].T.copy()
    hull_x, hull_y = [0.0] * len(x), [0.0] * len(x)
    size = _walk(x.tolist(), y.tolist(), exact, hull_x, hull_y)
    return np.array([hull_x[:size], hull_y[:size]]).T.copy()


def _pruned(x: np.ndarray, y: np.ndarray, exact: bool) -> tuple[np.ndarray, np.ndarray, bool]:
    """Return what is left without points certainly below a line between neighbours, and whether that is a hull."""
    if not exact:
        rise, run = y[1:] - y[:-1], x[1:] - x[:-1]
        return x, y, bool((rise[:-1] * run[1:] > rise[1:] * run[:-1]).all())
    for _ in range(_ROUNDS):
        slopes = (y[1:] - y[:-1]) / (x[1:] - x[:-1])
        stay = slopes[1:] <= slopes[:-1] * _STEEPER + _TINY
        if stay.all():
            return x, y, bool((slopes[1:] * _STEEPER + _TINY < slopes[:-1]).all())
        kept = np.concatenate([_END, stay, _END]).nonzero()[0]
        x, y = x.take(kept), y.take(kept)
    return x, y, False


def _walk(
    x: Sequence[float], y: Sequence[float], exact: bool, hull_x: MutableSequence[float], hull_y: MutableSequence[float]
) -> int:
    """Fill in the hull's corners, of points by rising x of which the first and last are on it; return how many."""
    hull_x[0], hull_y[0] = x[0], y[0]
    size = 1
    for k in range(1, len(x)):
        cx, cy = x[k], y[k]
        while size > 1:
            ax, ay, bx, by = hull_x[size - 2], hull_y[size - 2], hull_x[size - 1], hull_y[size - 1]
            if turn(ax, ay, bx, by, cx, cy) < 0 if exact else (by - ay) * (cx - bx) > (cy - by) * (bx - ax):
                break
            size -= 1
        hull_x[size], hull_y[size] = cx, cy
        size += 1
    return size


def turn(ax: float, ay: float, bx: float, by: float, cx: float, cy: float) -> int:
    """Return 1 where b lies below the line from a to c (the path a, b, c turns up), 0 on it, -1 above; ax < bx < cx."""
    left = (bx - ax) * (cy - ay)
    right = (by - ay) * (cx - ax)
    rounded = left - right
    bound = _FILTER * (abs(left) + abs(right))
    if rounded > bound:
        return 1
    if rounded < -bound:
        return -1
    # bx cy - bx ay - ax cy + ax ay - by cx + by ax + ay cx - ay ax: the products of ax and ay cancel.
    sum_ = [0.0] * 16
    n = 0
    for x, y, sign in ((bx, cy, 1.0), (bx, ay, -1.0), (ax, cy, -1.0), (by, cx, -1.0), (by, ax, 1.0), (ay, cx, 1.0)):
        product = sign * (x * y)
        n = _grow(sum_, n, product)
        n = _grow(sum_, n, sign * _rest(x, y))
    for i in range(n - 1, -1, -1):  # the largest part that is not zero has the sign of the whole
        if sum_[i] != 0.0:
            return 1 if sum_[i] > 0.0 else -1
    return 0


def _rest(x: float, y: float) -> float:
    """Return x y minus its rounded value, exactly (Dekker's product)."""
    a, b = _SPLIT * x, _SPLIT * y
    xh, yh = a - (a - x), b - (b - y)
    xl, yl = x - xh, y - yh
    return xl * yl - (((x * y - xh * yh) - xl * yh) - xh * yl)


def _grow(sum_: list[float], n: int, value: float) -> int:
    """Add a number to an expansion (parts that do not overlap, the smallest first); return its length."""
    carried = value
    for i in range(n):
        total = carried + sum_[i]
        virtual = total - carried
        sum_[i] = (carried - (total - virtual)) + (sum_[i] - virtual)
        carried = total
    sum_[n] = carried
    return n + 1
