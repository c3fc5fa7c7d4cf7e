"""Which points of a large cloud or a long line to draw: all that can be seen, and less of what lies together."""

import numpy as np

LIMIT = 10_000
_CELLS = 96


def thin(x: np.ndarray, y: np.ndarray, keep: np.ndarray | None = None, limit: int = LIMIT) -> np.ndarray:
    """Return the sorted indices of at most about ``limit`` points that show the shape of the whole cloud.

    Points are dealt to the cells of a grid, and each cell gives up its points in turn until the limit is reached: a
    lone outlier is always drawn, and only where points lie on top of each other are some left out. The result depends
    on the data alone.

    Parameters
    ----------
    x, y : arrays of shape (n,)
        Where the points are drawn (give logarithms for logarithmic axes); those not finite are left out.
    keep : array of int or bool, optional
        Points that are drawn in any case, even beyond the limit: those on a hull or a front.
    limit : int
        How many to draw.
    """
    wanted = np.zeros(len(x), dtype=bool)
    if keep is not None:
        wanted[keep] = True
    finite = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
    if len(finite) <= limit:
        wanted[finite] = True
        return np.flatnonzero(wanted)
    cell = _cells(x[finite]) * _CELLS + _cells(y[finite])
    order = np.argsort(cell, kind="stable")
    counts = np.bincount(cell, minlength=_CELLS * _CELLS)
    # The how-manieth of its cell each point is, in the order of the data.
    turn = np.empty(len(finite), dtype="int64")
    turn[order] = np.arange(len(finite)) - np.repeat(np.cumsum(counts) - counts, counts)
    wanted[finite[np.argsort(turn, kind="stable")[:limit]]] = True
    return np.flatnonzero(wanted)


def thin_line(x: np.ndarray, y: np.ndarray, parts: int = 2000) -> tuple[np.ndarray, np.ndarray]:
    """Return the points of a line over time that can be seen: of each of ``parts`` stretches the ends and the extremes.

    A picture is at most so many pixels wide, and a browser takes seconds for 25,000 corners. Where the line is broken
    (NaN), it stays so; a line of at most four points a part is returned as it is.
    """
    n = len(x)
    if n <= 4 * parts:
        return x, y
    part = np.arange(n) * parts // n
    first = np.flatnonzero(np.r_[True, part[1:] != part[:-1]])
    kept = [first, np.r_[first[1:], n] - 1, np.flatnonzero(np.isnan(y))]
    for worst in (np.inf, -np.inf):  # a stable order by part, then by value: the lowest and the highest of each
        filled = np.where(np.isnan(y), worst, y)
        order = np.lexsort((filled, part))
        kept.append(order[first if worst > 0 else np.r_[first[1:], n] - 1])
    chosen = np.unique(np.concatenate(kept))
    chosen = np.unique(np.concatenate([chosen, _partners(np.isnan(y), chosen)]))
    return x[chosen], y[chosen]


def _partners(broken: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Return a neighbour of each chosen point that would stand alone between two breaks: one point is not drawn."""
    piece = np.cumsum(broken)
    points = chosen[~broken[chosen]]
    _, at, count = np.unique(piece[points], return_index=True, return_counts=True)
    alone = points[at[count == 1]]
    after, before = np.minimum(alone + 1, len(broken) - 1), np.maximum(alone - 1, 0)
    return np.where(~broken[after], after, np.where(~broken[before], before, alone))


def _cells(values: np.ndarray) -> np.ndarray:
    low, high = values.min(), values.max()
    if high <= low:
        return np.zeros(len(values), dtype="int64")
    return np.minimum((values - low) / (high - low) * _CELLS, _CELLS - 1).astype("int64")
