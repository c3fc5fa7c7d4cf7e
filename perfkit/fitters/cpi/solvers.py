"""Least squares for CPI stacks on normal equations: a few dozen unknowns, however many intervals there are.

Everything is computed from the moment matrix M = Z' diag(w) Z of Z = [A, y], the columns of the model and its target.
Moments of disjoint sets of rows add up, so a cross-validation fold costs a subtraction and a bootstrap resample a sum.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

Form = Literal["ipc", "cpi"]

_RIDGE = 1e-12  # relative to columns of unit length: keeps collinear events solvable, and is refined away
_ROUNDING = 1e-12  # of a CPI: less is what adding up its parts costs


@dataclass(frozen=True, eq=False)
class System:
    """A weighted linear model of one form: rows of Z = [1, columns, target] and their weights (mean 1).

    Form ``"cpi"`` (paper, section II-E): C/I = base + sum p_j e_j/I. Form ``"ipc"``: the same additive cycles divided
    by cycles, I/C = a - sum d_j e_j/C with base = 1/a and p_j = d_j/a.
    """

    form: Form
    Z: np.ndarray
    weights: np.ndarray

    @property
    def target(self) -> np.ndarray:
        """The column that is explained: IPC or CPI of each interval."""
        return self.Z[:, -1]

    def moments(self, rows: "np.ndarray | slice | None" = None, factor: np.ndarray | None = None) -> np.ndarray:
        """Return M over some rows, each row's weight multiplied by ``factor``."""
        Z = self.Z if rows is None else self.Z[rows]
        w = self.weights if rows is None else self.weights[rows]
        return cross_products(Z, Z * (w if factor is None else w * factor)[:, None])

    def residuals(self, x: np.ndarray) -> np.ndarray:
        """Return target minus prediction of each row."""
        return np.asarray(self.Z[:, -1] - self.Z[:, :-1] @ x)


def build_system(
    form: Form, cycles: np.ndarray, instructions: np.ndarray, counts: np.ndarray, weights: np.ndarray
) -> System:
    """Divide the counts of every interval by cycles or instructions and put the model's columns side by side."""
    n, k = counts.shape
    Z = np.empty((n, k + 2))
    Z[:, 0] = 1.0
    if form == "ipc":
        np.divide(counts, -cycles[:, None], out=Z[:, 1:-1])
        Z[:, -1] = instructions / cycles
    else:
        np.divide(counts, instructions[:, None], out=Z[:, 1:-1])
        Z[:, -1] = cycles / instructions
    return System(form, Z, weights / weights.mean())


def cross_products(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Return A'B of two tall arrays, a few hundred rows at a time.

    Products this small are worked out by one thread. BLAS would share one of thousands of rows among all cores, which
    gains nothing here and costs twentyfold where the cores are busy.
    """
    m = A.shape[1]
    size = max(16, 200_000 // (m * m))
    whole = len(A) // size * size
    parts = np.matmul(A[:whole].reshape(-1, size, m).transpose(0, 2, 1), B[:whole].reshape(-1, size, m))
    return np.asarray(parts.sum(axis=0) + A[whole:].T @ B[whole:])


def to_stack(form: Form, x: np.ndarray) -> np.ndarray:
    """Return [base, penalties] in cycles of the model's coefficients x (one row or many)."""
    if form == "cpi":
        return x
    # An IPC at zero misses of zero or below has no base CPI.
    with np.errstate(divide="ignore", invalid="ignore"):
        a = np.where(x[..., :1] > 0, x[..., :1], np.nan)
        return np.asarray(np.concatenate([1.0 / a, x[..., 1:] / a], axis=-1))


def unexplained(cpi: float, components: np.ndarray) -> float:
    """Return what the components leave of the CPI; what is left by rounding alone is 0."""
    left = cpi - float(components.sum())
    return 0.0 if abs(left) <= _ROUNDING * cpi else left


def squared_error(M: np.ndarray, x: np.ndarray) -> float:
    """Return the weighted sum of squared residuals of x over the rows of M."""
    z = np.append(x, -1.0)
    return max(float(z @ M @ z), 0.0)


def squared_spread(M: np.ndarray, mean: float | None = None) -> float:
    """Return the weighted sum of squares of the target about its weighted mean (or about another value)."""
    total, first, second = M[0, 0], M[0, -1], M[-1, -1]
    if mean is None:
        return max(float(second - first * first / total), 0.0)
    return max(float(second - 2 * mean * first + mean * mean * total), 0.0)


def r_squared(M: np.ndarray, x: np.ndarray) -> float:
    """Return 1 - SSE/SST over the rows of M; NaN where the target does not vary."""
    spread = squared_spread(M)
    return 1.0 - squared_error(M, x) / spread if spread > 1e-14 * M[-1, -1] else float("nan")


# ------------------------------------------------------------------ solvers of one moment matrix


def solve_ols(M: np.ndarray) -> np.ndarray:
    """Return ordinary least squares; of collinear columns the solution of least norm (in scaled columns)."""
    G, h, scale = _scaled(M)
    return np.asarray(np.linalg.lstsq(G, h, rcond=1e-13)[0] / scale)


def solve_nnls(M: np.ndarray, start: np.ndarray | None = None) -> np.ndarray:
    """Return non-negative least squares; ``start`` (a solution of similar moments) saves most of the steps."""
    G, h, scale = _scaled(M)
    return nnls(G, h, None if start is None else start > 0) / scale


def solve_nnls_many(M: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Return non-negative least squares of many moment matrices, shape (b, m + 1, m + 1), as rows."""
    G, h, scale = _scaled(M)
    return nnls_many(G, h, start > 0) / scale


def solve_lasso(M: np.ndarray, alpha: float, start: np.ndarray | None = None) -> np.ndarray:
    """Return the non-negative lasso: NNLS with alpha times each event's weighted standard deviation as its price.

    ``alpha`` is in units of the target. For non-negative coefficients the lasso's price is linear, so it only shifts
    the right-hand side of the normal equations. The base has no price.
    """
    G, h, scale = _scaled(M)
    n = M[0, 0]
    spread = np.sqrt(np.maximum(np.diag(M)[:-1] / n - (M[0, :-1] / n) ** 2, 0.0))
    return nnls(G, h - alpha * n * spread / scale, None if start is None else start > 0) / scale


def solve_bounded(M: np.ndarray, K: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Return least squares under the linear bounds K x >= c, by NNLS on the dual (Lawson and Hanson, chapter 23)."""
    G, h, scale = _scaled(M)
    Ks = K / scale
    length = np.sqrt((Ks**2).sum(axis=1))
    Ks, cs = Ks / length[:, None], c / length
    inverse = np.linalg.inv(G + _RIDGE * np.eye(len(G)))
    free = inverse @ h
    Q = Ks @ inverse @ Ks.T
    unit = np.sqrt(np.diag(Q))
    multipliers = nnls(Q / np.outer(unit, unit), (cs - Ks @ free) / unit) / unit
    return np.asarray((free + inverse @ (Ks.T @ multipliers)) / scale)


def nnls(G: np.ndarray, h: np.ndarray, passive: np.ndarray | None = None) -> np.ndarray:
    """Return the x >= 0 that minimises x'Gx/2 - h'x (Bro and de Jong 1997), for G of unit diagonal.

    ``passive`` guesses which entries are above zero.
    """
    m = len(h)
    G = G + _RIDGE * np.eye(m)
    tolerance = 1e-12 * max(float(np.abs(h).max(initial=0.0)), 1e-300)
    active = np.zeros(m, dtype=bool) if passive is None else passive.copy()
    x = np.zeros(m)
    while active.any():  # a guess is taken as it is, less what comes out negative
        z = _solve_some(G, h, active)
        if (z[active] > 0).all():
            x = z
            break
        active &= z > 0
    for _ in range(10 * m + 10):
        gradient = np.where(active, -np.inf, h - G @ x)
        best = int(np.argmax(gradient))
        if gradient[best] <= tolerance:
            break
        active[best] = True
        while True:
            z = _solve_some(G, h, active)
            if (z[active] > 0).all():
                break
            falling = active & (z <= 0)
            step = x[falling] / np.maximum(x[falling] - z[falling], 1e-300)
            x = x + step.min() * (z - x)
            out = active & (x <= 1e-15 * max(float(x.max()), 1e-300))
            if not out.any():  # rounding: the entry that limits the step leaves
                out[np.flatnonzero(falling)[np.argmin(step)]] = True
            active &= ~out
            x[~active] = 0.0
            if not active.any():
                return x
        if not active[best]:
            break  # the entry came in and went out again: rounding, and no better point
        x = z
    return x


def nnls_many(G: np.ndarray, h: np.ndarray, passive: np.ndarray) -> np.ndarray:
    """Return the non-negative solutions of many problems, G of shape (b, m, m) and h of (b, m), all at once.

    Block principal pivoting (Kim and Park 2011): every problem exchanges all of its infeasible entries in each step,
    and only its last one where that stops helping. The few that have not ended after forty steps are left to `nnls`.
    """
    b, m = h.shape
    G = G + _RIDGE * np.eye(m)
    tolerance = 1e-12 * np.abs(h).max(axis=1, initial=1e-300, keepdims=True)
    active = np.tile(passive, (b, 1))
    fewest, patience = np.full(b, m + 1), np.full(b, 3)
    x = np.zeros((b, m))
    for _ in range(40):
        both = active[:, :, None] & active[:, None, :]
        x = np.linalg.solve(np.where(both, G, np.eye(m)), np.where(active, h, 0.0)[..., None])[..., 0]
        gradient = h - (G @ x[..., None])[..., 0]
        small = 1e-14 * np.abs(x).max(axis=1, keepdims=True)
        wrong = (active & (x < -small)) | (~active & (gradient > tolerance))
        count = wrong.sum(axis=1)
        if not count.any():
            break
        better = count < fewest
        fewest, patience = np.where(better, count, fewest), np.where(better, 3, patience - 1)
        last = wrong & (np.arange(m) == m - 1 - np.argmax(wrong[:, ::-1], axis=1)[:, None])
        active ^= np.where((patience >= 0)[:, None], wrong, last)
    else:
        for i in np.flatnonzero(count):
            x[i] = nnls(G[i], h[i])
    return np.maximum(x, 0.0)


def refine(system: System, x: np.ndarray, free: np.ndarray, factor: np.ndarray | None = None) -> np.ndarray:
    """Improve the entries ``free`` of x by one least squares step on the residuals themselves.

    Normal equations lose half of the digits; a step on the rows brings most of them back.
    """
    if not free.any():
        return x
    w = system.weights if factor is None else system.weights * factor
    A = system.Z[:, :-1][:, free] * np.sqrt(w)[:, None]
    scale = np.sqrt((A**2).sum(axis=0))
    scale[scale == 0] = 1.0
    A /= scale
    G = cross_products(A, A)
    gradient = A.T @ (np.sqrt(w) * system.residuals(x))
    out = x.copy()
    out[free] += np.linalg.lstsq(G, gradient, rcond=1e-13)[0] / scale
    return out


def _scaled(M: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return normal equations (of one M, or of many) with columns of unit length: counts differ by many orders."""
    scale = np.sqrt(np.diagonal(M, axis1=-2, axis2=-1)[..., :-1])
    scale = np.where(scale > 0, scale, 1.0)
    return M[..., :-1, :-1] / (scale[..., :, None] * scale[..., None, :]), M[..., :-1, -1] / scale, scale


def _solve_some(G: np.ndarray, h: np.ndarray, which: np.ndarray) -> np.ndarray:
    out = np.zeros(len(h))
    out[which] = np.linalg.solve(G[np.ix_(which, which)], h[which])
    return out
