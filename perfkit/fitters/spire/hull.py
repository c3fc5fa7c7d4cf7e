"""The upper left hull of samples, decided without rounding.

Which samples are corners of a hull is a question of signs: does a point lie above, on or below a line? Answered with
rounded products the answer may depend on which other samples were there, and the hull of two hulls would not be the
hull of everything. Here the sign is that of the exact sum (J. R. Shewchuk, "Adaptive Precision Floating-Point
Arithmetic and Fast Robust Geometric Predicates", 1997: the filter of its `orient2d`, then an exact expansion), so that
the hull of the union of partitions is the hull of their hulls.
"""

import numpy as np
from numba import njit

_FILTER = 3.3306690738754716e-16  # (3 + 16 eps) eps, of the rounded determinant
_SPLIT = 134217729.0  # 2**27 + 1


@njit(cache=True, nogil=True)
def upper_hull(
    intensity: np.ndarray, throughput: np.ndarray, peak_intensity: float, peak: float, exact: bool
) -> np.ndarray:
    """Return the corners of the hull from (0, 0) to the peak, as points (n, 2) by rising intensity (SPIRE, Fig. 5).

    ``intensity`` must rise. Samples at or right of the peak play no part. Slopes fall strictly: without rounding where
    ``exact`` says so; else corners on a line that is straight but for rounding are left out, too.
    """
    hull = np.zeros((len(intensity) + 2, 2))
    size = 1
    for k in range(len(intensity) + 1):
        x, y = peak_intensity, peak
        if k < len(intensity):
            x, y = intensity[k], throughput[k]
            if not 0.0 < x < peak_intensity:
                continue
        if size > 1 and x == hull[size - 1, 0]:
            if y <= hull[size - 1, 1]:
                continue
            size -= 1
        while size > 1:
            ax, ay, bx, by = hull[size - 2, 0], hull[size - 2, 1], hull[size - 1, 0], hull[size - 1, 1]
            if turn(ax, ay, bx, by, x, y) < 0 if exact else (by - ay) * (x - bx) > (y - by) * (bx - ax):
                break
            size -= 1
        hull[size, 0], hull[size, 1] = x, y
        size += 1
    return hull[:size].copy()


@njit(cache=True, nogil=True)
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
    sum_ = np.zeros(16)
    n = 0
    for x, y, sign in ((bx, cy, 1.0), (bx, ay, -1.0), (ax, cy, -1.0), (by, cx, -1.0), (by, ax, 1.0), (ay, cx, 1.0)):
        product = sign * (x * y)
        n = _grow(sum_, n, product)
        n = _grow(sum_, n, sign * _rest(x, y))
    for i in range(n - 1, -1, -1):  # the largest part that is not zero has the sign of the whole
        if sum_[i] != 0.0:
            return 1 if sum_[i] > 0.0 else -1
    return 0


@njit(cache=True, nogil=True)
def _rest(x: float, y: float) -> float:
    """Return x y minus its rounded value, exactly (Dekker's product)."""
    a, b = _SPLIT * x, _SPLIT * y
    xh, yh = a - (a - x), b - (b - y)
    xl, yl = x - xh, y - yh
    return xl * yl - (((x * y - xh * yh) - xl * yh) - xh * yl)


@njit(cache=True, nogil=True)
def _grow(sum_: np.ndarray, n: int, value: float) -> int:
    """Add a number to an expansion (parts that do not overlap, the smallest first); return its length."""
    carried = value
    for i in range(n):
        total = carried + sum_[i]
        virtual = total - carried
        sum_[i] = (carried - (total - virtual)) + (sum_[i] - virtual)
        carried = total
    sum_[n] = carried
    return n + 1
