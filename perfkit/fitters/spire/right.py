"""The right part of a SPIRE roofline: the best decreasing, concave-up chain of chords over a Pareto front, exactly.

SPIRE, section III-D ("Right fitting algorithm"), builds a graph whose vertices are the chords (x, y) that no sample
rises above, whose edges join chords (x, y) and (y, z) when the second is at least as steep, weighted with the squared
error of the second, and searches the shortest path from the start (a sample at infinite intensity) to the end. Each
chord may also leave for the end by a line up to the peak's height that continues level to the peak.

The graph need not be built. With the front indexed from right to left, let D[y, x] be the least error of a chain that
ends with the chord from x to y. Seen from y, the visible chords that arrive from the right come sorted by slope, and
the visible ones that leave to the left are those that reach a running maximum of slope, so one walk along both and a
prefix minimum give all D[z, y] in linear time: O(n^2) for the front instead of the graph's O(n^3) edges.
"""

from collections.abc import MutableSequence, Sequence

import numpy as np

from perfkit.fitters.machine_code import as_machine_code

# Two slopes count as equal within this share: points on one line must not hide each other by rounding. A chord may
# then pass below a sample by that share of the chord's rise, which is below what interpolation itself rounds away.
_SLACK = 1e-12
_INFINITE = float("inf")
_MANY = 64  # points: beyond, machine code is worth the import of numba


def right_chain(intensity: np.ndarray, throughput: np.ndarray) -> tuple[np.ndarray, float, float]:
    """Return the best chain over a Pareto front.

    Parameters
    ----------
    intensity, throughput : arrays of shape (n,)
        The front from right to left: finite intensities strictly falling, throughputs strictly rising; the last
        point is the peak. The start at infinite intensity is implied: its chord to y is the level line at P_y.

    Returns
    -------
    chain : int array
        The points that the chain passes, from right to left. Beyond the first the fit is level; the last is the peak,
        or the point from which the chain leaves for the peak's height.
    corner : float
        The intensity at which that last line reaches the peak's height (the peak's own intensity if it ends there).
    error : float
        Sum of squared differences in throughput between the chain and the front's points.
    """
    n = len(intensity)
    room = n * (n + 1) // 2
    if n > _MANY:
        ints, floats = np.ones((2, n), dtype=np.int32), np.empty((2, room))
        whence = np.empty(room, dtype=np.int32)
        length, corner, error = as_machine_code(_search)(
            intensity, throughput, floats[0], floats[1], whence, ints[0], ints[1]
        )
        return ints[1, :length][::-1].astype(np.int64), corner, error
    chain = [0] * n
    length, corner, error = _search(
        intensity.tolist(), throughput.tolist(), [0.0] * room, [0.0] * room, [0] * room, [1] * n, chain
    )
    return np.array(chain[:length][::-1], dtype=np.int64), corner, error


def _search(
    intensity: Sequence[float],
    throughput: Sequence[float],
    slopes: MutableSequence[float],
    best: MutableSequence[float],
    whence: MutableSequence[int],
    known: MutableSequence[int],
    chain: MutableSequence[int],
) -> tuple[int, float, float]:
    """Fill in the chain from left to right; return its length, the corner and the error.

    From ``y * (y + 1) / 2`` on, ``slopes`` lists the ``known[y]`` visible chords that end in y by rising slope,
    ``best`` the least error of the chains up to each, and ``whence`` where that chain's last chord begins. The first
    is the level line from the start, -1.
    """
    n = len(intensity)
    for y in range(n):
        level = 0.0
        for w in range(y):
            rise = throughput[y] - throughput[w]
            level += rise * rise
        first = y * (y + 1) // 2
        slopes[first], best[first], whence[first] = 0.0, level, -1
    total, last, last_slope = _INFINITE, n - 1, _INFINITE
    for y in range(n):
        steepest = _depart(intensity, throughput, slopes, best, whence, known, y)
        exit_slope = steepest if y < n - 1 else _INFINITE
        so_far = best[_last_at_most(slopes, known, y, exit_slope)]
        if so_far < total:
            through = so_far + _exit_error(intensity, throughput, y, steepest)
            if through < total:
                total, last, last_slope = through, y, exit_slope
    corner = intensity[n - 1]
    if last < n - 1:
        rise = throughput[n - 1] - throughput[last]
        corner = max(corner, intensity[last] - rise / last_slope)
    length, y, slope = 0, last, last_slope
    while y >= 0:
        chain[length] = y
        length += 1
        x = whence[_last_at_most(slopes, known, y, slope)]
        if x >= 0:
            slope = (throughput[y] - throughput[x]) / (intensity[x] - intensity[y])
        y = x
    return length, corner, total


def _depart(
    intensity: Sequence[float],
    throughput: Sequence[float],
    slopes: MutableSequence[float],
    best: MutableSequence[float],
    whence: MutableSequence[int],
    known: MutableSequence[int],
    y: int,
) -> float:
    """Add every visible chord from y to the left where it ends; return the steepest slope among them."""
    steepest = 0.0
    arrival = y * (y + 1) // 2
    latest = arrival + known[y] - 1
    right, low = intensity[y], throughput[y]
    squares_a, products, squares_b = 0.0, 0.0, 0.0  # of the points passed, relative to y: no cancellation of big sums
    for z in range(y + 1, len(intensity)):
        a = right - intensity[z]
        b = throughput[z] - low
        slope = b / a
        if slope >= steepest * (1.0 - _SLACK):
            while arrival < latest and slopes[arrival + 1] <= slope * (1.0 + _SLACK):
                arrival += 1
            error = slope * (slope * squares_a - 2.0 * products) + squares_b
            cost = max(error, 0.0) + best[arrival]
            here = z * (z + 1) // 2 + known[z]
            known[z] += 1
            slopes[here] = slope
            if cost < best[here - 1]:
                best[here], whence[here] = cost, y
            else:
                best[here], whence[here] = best[here - 1], whence[here - 1]
        if slope > steepest:
            steepest = slope
        squares_a += a * a
        products += a * b
        squares_b += b * b
    return steepest


def _exit_error(intensity: Sequence[float], throughput: Sequence[float], y: int, slope: float) -> float:
    """Squared error left of y of the line that leaves y with this slope and goes level at the peak's height."""
    n = len(intensity)
    right, low, peak = intensity[y], throughput[y], throughput[n - 1]
    error = 0.0
    for z in range(y + 1, n):
        height = low + slope * (right - intensity[z])
        off = (height if height < peak else peak) - throughput[z]
        error += off * off
    return error


def _last_at_most(slopes: Sequence[float], known: Sequence[int], y: int, limit: float) -> int:
    """Return where the last of the chords that end in y is that is no steeper than this."""
    index = y * (y + 1) // 2
    latest = index + known[y] - 1
    while index < latest and slopes[index + 1] <= limit * (1.0 + _SLACK):
        index += 1
    return index
