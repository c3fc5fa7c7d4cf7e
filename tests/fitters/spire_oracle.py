"""SPIRE's fitting as the paper words it, slowly: a graph of chords and Dijkstra's algorithm; and brute force.

Test oracles. Numbers may be fractions.Fraction for exact answers. Sizes are limited so that they end.
"""

from fractions import Fraction
from itertools import combinations

import networkx as nx

MOST_FOR_THE_GRAPH = 60  # points of a convex front: the edges grow with the third power
MOST_FOR_BRUTE_FORCE = 9
START, END = -1, "end"


def slope(front, right, left):
    """Steepness of a chord; the one from the start at infinity is level."""
    if right == START:
        return 0
    (x0, y0), (x1, y1) = front[right], front[left]
    return (y1 - y0) / (x0 - x1)


def is_visible(front, right, left):
    """Whether no sample between lies above the chord."""
    s = slope(front, right, left)
    between = range(right + 1, left)
    return all(front[left][1] - s * (front[w][0] - front[left][0]) >= front[w][1] for w in between)


def chord_error(front, right, left):
    s = slope(front, right, left)
    return sum((front[left][1] - s * (front[w][0] - front[left][0]) - front[w][1]) ** 2 for w in range(right + 1, left))


def exit_slope(front, right, y):
    """The least slope with which a chain arriving from ``right`` can leave y above all samples and stay convex."""
    return max([slope(front, right, y), *(slope(front, y, z) for z in range(y + 1, len(front)))])


def exit_error(front, right, y):
    s, peak = exit_slope(front, right, y), front[-1][1]
    x0, y0 = front[y]
    return sum((min(peak, y0 + s * (x0 - x)) - p) ** 2 for x, p in front[y + 1 :])


def graph_optimum(front):
    """Return the least error, the chain of points from right to left, and the corner, by the paper's graph."""
    n = len(front)
    if n > MOST_FOR_THE_GRAPH:
        raise ValueError(f"the graph of {n} points has about {n**3 // 6} edges; at most {MOST_FOR_THE_GRAPH}")
    graph = nx.DiGraph()
    chords = [(x, y) for y in range(n) for x in range(START, y) if is_visible(front, x, y)]
    for y in range(n):
        graph.add_edge("start", (START, y), weight=chord_error(front, START, y))
    known = set(chords)
    for x, y in chords:
        graph.add_edge((x, y), END, weight=exit_error(front, x, y))
        for z in range(y + 1, n):
            if (y, z) in known and slope(front, y, z) >= slope(front, x, y):
                graph.add_edge((x, y), (y, z), weight=chord_error(front, y, z))
    error, path = nx.single_source_dijkstra(graph, "start", END)
    last_right, last = path[-2]
    corner = front[-1][0]
    if last < n - 1:
        corner = max(corner, front[last][0] - (front[-1][1] - front[last][1]) / exit_slope(front, last_right, last))
    return error, [y for _, y in path[1:-1]], corner


def brute_force(front):
    """Return the least error over every valid chain, one by one."""
    n = len(front)
    if n > MOST_FOR_BRUTE_FORCE:
        raise ValueError(f"{n} points have {2**n} chains; at most {MOST_FOR_BRUTE_FORCE} points")
    best = None
    for size in range(1, n + 1):
        for chain in combinations(range(n), size):
            steps = list(zip((START, *chain), chain, strict=False))
            slopes = [slope(front, x, y) for x, y in steps]
            if slopes != sorted(slopes) or not all(is_visible(front, x, y) for x, y in steps):
                continue
            error = sum(chord_error(front, x, y) for x, y in steps) + exit_error(front, *steps[-1])
            best = error if best is None else min(best, error)
    return best


def fractions(front):
    return [(Fraction(x), Fraction(p)) for x, p in front]


def fit(samples):
    """Return the breakpoints of a roofline of (intensity, throughput) samples, in plain Python and networkx."""
    inf = float("inf")
    finite = sorted({(x, p) for x, p in samples if 0 < x < inf})
    start = max((p for x, p in samples if x == inf), default=-1)
    peak = max(p for _, p in finite)
    first = min(x for x, p in finite if p == peak)
    last = max(x for x, p in finite if p == peak)
    points = [(0, 0)]
    while points[-1] != (first, peak):  # gift wrapping, as in Fig. 5
        x0, y0 = points[-1]
        ahead = [(x, p) for x, p in finite if x0 < x <= first and p > y0]
        points.append(max(ahead, key=lambda q: ((q[1] - y0) / (q[0] - x0), q[0])))
    if start >= peak:
        return points + ([(last, peak)] if last > first else [])
    front, best = [], start
    for x, p in sorted(finite, reverse=True):
        if x >= last and p > best:
            front = [q for q in front if q[0] != x] + [(x, p)]
            best = p
    _, chain, corner = graph_optimum(front)
    if corner > first:
        points.append((corner, peak))
    return points + [front[k] for k in reversed(chain) if front[k][0] > points[-1][0]]
