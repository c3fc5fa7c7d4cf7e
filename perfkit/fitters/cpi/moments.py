"""What a CPI stack needs of samples: sums of products that merge, whoever read which files.

With r = [cycles, the events' counts, instructions] of an interval, both forms of the model are least squares in sums of
r r' over cycles and over instructions (`perfkit.fitters.cpi.solvers`), and the placebo in plain sums of r r': shuffled
counts have, averaged over all shuffles, the products of their own moments with those of cycles and instructions.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perfkit.fitters.cpi.solvers import Form
from perfkit.fitters.machine_code import as_machine_code
from perfkit.samples.fleet import Key, Piece
from perfkit.samples.parts import Intervals, batches


@dataclass(frozen=True, eq=False)
class Moments:
    """Sums over the usable intervals of a cell; m = events + 2.

    Attributes
    ----------
    by_cycles, by_work : array of shape (folds, m, m)
        Sums of r r' / cycles and r r' / instructions, of each random fifth of the intervals.
    plain : array of shape (m, m)
        Sums of r r'.
    shares : array of shape (4,)
        Sums of 1/cycles, instructions/cycles, 1/instructions and cycles/instructions.
    n, missing, idle : int
        Intervals used, those in which a count is missing, and those without cycles or instructions.
    """

    by_cycles: np.ndarray
    by_work: np.ndarray
    plain: np.ndarray
    shares: np.ndarray
    n: int
    missing: int
    idle: int

    def fold_moments(self, form: Form) -> np.ndarray:
        """Return M = Z' diag(w) Z of each random fold, shape (folds, m, m), with weights that sum to the total's own.

        Z = [1, columns, target] as in `build_system`, and the weights are cycles (IPC form) or instructions.
        """
        if form == "ipc":
            sign = np.ones(self.plain.shape[0])
            sign[1:-1] = -1.0
            return np.asarray(self.by_cycles * sign[:, None] * sign)
        order = [self.plain.shape[0] - 1, *range(1, self.plain.shape[0] - 1), 0]
        return np.asarray(self.by_work[:, order][:, :, order])

    def placebo(self, form: Form) -> np.ndarray:
        """Return the mean of M over all ways in which intervals can be given the counts of others."""
        M = self.fold_moments(form).sum(axis=0)
        ones, target = self.shares[:2] if form == "ipc" else self.shares[2:]
        sums = M[0, 1:-1]  # the sums of the counts, which a shuffle leaves as they are
        out = M.copy()
        out[1:-1, 1:-1] = ones * self.plain[1:-1, 1:-1] / self.n
        out[1:-1, -1] = out[-1, 1:-1] = target * sums / self.n
        return out


def merge_moments(one: Moments, two: Moments) -> Moments:
    """Return the sums over the intervals of both."""
    return Moments(
        one.by_cycles + two.by_cycles,
        one.by_work + two.by_work,
        one.plain + two.plain,
        one.shares + two.shares,
        one.n + two.n,
        one.missing + two.missing,
        one.idle + two.idle,
    )


def packed(moments: Moments) -> np.ndarray:
    """Return everything as one row of numbers: see `unpacked`."""
    counted = np.array([moments.n, moments.missing, moments.idle], dtype="float64")
    return np.concatenate(
        [moments.by_cycles.ravel(), moments.by_work.ravel(), moments.plain.ravel(), moments.shares, counted]
    )


def unpacked(row: np.ndarray, folds: int, size: int) -> Moments:
    """Return what `packed` gave, of so many folds and events + 2."""
    square = size * size
    ends = np.cumsum([folds * square, folds * square, square, 4])
    a, b, plain, shares, counted = np.split(row, ends)
    shape = (folds, size, size)
    return Moments(a.reshape(shape), b.reshape(shape), plain.reshape(size, size), shares, *map(int, counted.tolist()))


def moments_of_pieces(pieces: Sequence[Piece], events: tuple[str, ...], folds: int) -> dict[Key, Moments]:
    """Return the sums of each cell: what `Fleet.scan` calls."""
    m = len(events) + 2
    found: dict[Key, tuple[np.ndarray, ...]] = {}
    for piece in pieces:
        for batch in batches(piece.part, piece.groups, at=piece.period > 0):
            table = _rows(batch, events)
            for key, rows in piece.slices(batch):
                sums = found.get(key)
                if sums is None:
                    sums = found[key] = (
                        np.zeros((folds, m, m)), np.zeros((folds, m, m)), np.zeros((m, m)), np.zeros(4),
                        np.zeros(3, dtype=np.int64),
                    )  # fmt: skip
                as_machine_code(_add)(table[rows], *sums)
    return {key: _closed(*sums) for key, sums in found.items()}


def _rows(batch: Intervals, events: tuple[str, ...]) -> np.ndarray:
    """Return r of each interval, one per row; an event that the file does not have is missing."""
    table = np.empty((len(batch.time), len(events) + 2))
    table[:, 0], table[:, -1] = batch.time, batch.work
    for j, event in enumerate(events, 1):
        table[:, j] = batch.counts.get(event, np.nan)
    return table


def _add(
    table: np.ndarray,
    by_cycles: np.ndarray,
    by_work: np.ndarray,
    plain: np.ndarray,
    shares: np.ndarray,
    counted: np.ndarray,
) -> None:
    """Add the products of rows [cycles, counts, instructions] to the sums (lower triangles)."""
    n, m = table.shape
    folds = np.uint64(len(by_cycles))
    bits = table.view(np.uint64)
    for i in range(n):
        row = table[i]
        total = 0.0
        for j in range(m):
            total += row[j]
        if np.isnan(total):
            counted[1] += 1
            continue
        if row[0] <= 0.0 or row[m - 1] <= 0.0:
            counted[2] += 1
            continue
        counted[0] += 1
        # The fold is drawn from the counts themselves (splitmix64), so that it does not depend on files or order.
        word = bits[i, 0] ^ (bits[i, m - 1] * np.uint64(0x9E3779B97F4A7C15))
        word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        fold = np.int64((word ^ (word >> np.uint64(31))) % folds)
        per_cycle, per_work = 1.0 / row[0], 1.0 / row[m - 1]
        a, b = by_cycles[fold], by_work[fold]
        for j in range(m):
            value = row[j]
            c, w = value * per_cycle, value * per_work
            for k in range(j + 1):
                a[j, k] += c * row[k]
                b[j, k] += w * row[k]
                plain[j, k] += value * row[k]
        shares[0] += per_cycle
        shares[1] += row[m - 1] * per_cycle
        shares[2] += per_work
        shares[3] += row[0] * per_work


def _closed(
    by_cycles: np.ndarray, by_work: np.ndarray, plain: np.ndarray, shares: np.ndarray, counted: np.ndarray
) -> Moments:
    """Fill in the upper triangles."""
    a, b, c = (M + np.tril(M, -1).swapaxes(-1, -2) for M in (by_cycles, by_work, plain))
    used, missing, idle = counted.tolist()
    return Moments(a, b, c, shares, used, missing, idle)
