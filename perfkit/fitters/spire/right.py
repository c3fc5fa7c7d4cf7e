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

import numpy as np
from numba import njit

# Two slopes count as equal within this share: points on one line must not hide each other by rounding. A chord may
# then pass below a sample by that share of the chord's rise, which is below what interpolation itself rounds away.
_SLACK = 1e-12


@njit(cache=True)
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
    cost = np.full((n, n + 1), np.inf)  # cost[y, x + 1]: best chain ending with chord x -> y; x = -1 is the start
    for y in range(n):
        level = 0.0
        for w in range(y):
            level += (throughput[y] - throughput[w]) ** 2
        cost[y, 0] = level
    slopes = np.empty(n + 1)
    best = np.empty(n + 1)
    total, last, last_slope = np.inf, n - 1, np.inf
    for y in range(n):
        known = _arrivals(intensity, throughput, cost, y, slopes, best)
        steepest = _departures(intensity, throughput, cost, y, slopes, best, known)
        exit_slope = steepest if y < n - 1 else np.inf
        through = best[_last_at_most(slopes, known, exit_slope)] + _exit_error(intensity, throughput, y, steepest)
        if through < total:
            total, last, last_slope = through, y, exit_slope
    corner = intensity[n - 1]
    if last < n - 1:
        rise = throughput[n - 1] - throughput[last]
        corner = max(corner, intensity[last] - rise / last_slope)
    return _walk_back(intensity, throughput, cost, last, last_slope), corner, total


@njit(cache=True, inline="always")
def _slope(intensity: np.ndarray, throughput: np.ndarray, right: int, left: int) -> float:
    """Steepness of the chord between two points of the front; 0 from the start at infinity."""
    if right < 0:
        return 0.0
    return (throughput[left] - throughput[right]) / (intensity[right] - intensity[left])


@njit(cache=True)
def _arrivals(
    intensity: np.ndarray, throughput: np.ndarray, cost: np.ndarray, y: int, slopes: np.ndarray, best: np.ndarray
) -> int:
    """List the visible chords that end in y by rising slope, with the least cost up to each; return how many."""
    known = 0
    least = np.inf
    for x in range(-1, y):
        if cost[y, x + 1] < np.inf:
            least = min(least, cost[y, x + 1])
            slopes[known] = _slope(intensity, throughput, x, y)
            best[known] = least
            known += 1
    return known


@njit(cache=True)
def _departures(
    intensity: np.ndarray,
    throughput: np.ndarray,
    cost: np.ndarray,
    y: int,
    slopes: np.ndarray,
    best: np.ndarray,
    known: int,
) -> float:
    """Fill in the cost of every visible chord from y to the left; return the steepest slope among them."""
    steepest = 0.0
    arrival = 0
    squares_a, products, squares_b = 0.0, 0.0, 0.0  # of the points passed, relative to y: no cancellation of big sums
    for z in range(y + 1, len(intensity)):
        a = intensity[y] - intensity[z]
        b = throughput[z] - throughput[y]
        slope = b / a
        if slope >= steepest * (1.0 - _SLACK):
            while arrival + 1 < known and slopes[arrival + 1] <= slope * (1.0 + _SLACK):
                arrival += 1
            error = slope * (slope * squares_a - 2.0 * products) + squares_b
            cost[z, y + 1] = max(error, 0.0) + best[arrival]
        steepest = max(steepest, slope)
        squares_a += a * a
        products += a * b
        squares_b += b * b
    return steepest


@njit(cache=True)
def _exit_error(intensity: np.ndarray, throughput: np.ndarray, y: int, slope: float) -> float:
    """Squared error left of y of the line that leaves y with this slope and goes level at the peak's height."""
    n = len(intensity)
    error = 0.0
    for z in range(y + 1, n):
        height = min(throughput[n - 1], throughput[y] + slope * (intensity[y] - intensity[z]))
        error += (height - throughput[z]) ** 2
    return error


@njit(cache=True)
def _last_at_most(slopes: np.ndarray, known: int, limit: float) -> int:
    index = 0
    while index + 1 < known and slopes[index + 1] <= limit * (1.0 + _SLACK):
        index += 1
    return index


@njit(cache=True)
def _walk_back(intensity: np.ndarray, throughput: np.ndarray, cost: np.ndarray, last: int, slope: float) -> np.ndarray:
    """Follow the cheapest chords back from ``last`` to the start; return the points from right to left."""
    chain = np.empty(len(intensity), dtype=np.int64)
    length = 0
    y = last
    while y >= 0:
        chain[length] = y
        length += 1
        chosen, least = -1, cost[y, 0]
        for x in range(y):
            if cost[y, x + 1] == np.inf:
                continue
            if _slope(intensity, throughput, x, y) > slope * (1.0 + _SLACK):
                break
            if cost[y, x + 1] < least:
                chosen, least = x, cost[y, x + 1]
        slope = _slope(intensity, throughput, chosen, y)
        y = chosen
    return chain[:length][::-1]
