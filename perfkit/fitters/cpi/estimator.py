"""The ways to estimate a CPI stack's coefficients, behind one interface: moments or rows in, coefficients out."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import numpy as np

from perfkit.errors import SettingError, expect
from perfkit.fitters.cpi.solvers import (
    Form,
    System,
    refine,
    solve_bounded,
    solve_lasso,
    solve_nnls,
    solve_nnls_many,
    solve_ols,
    squared_error,
)

# A further method is a file ``solver_NAME.py`` beside this one with a function ``solve(M)``: moments in, coefficients
# out. `./kit new solver NAME` writes one.
ADDED: Mapping[str, str] = {
    name.removeprefix("solver_"): f"perfkit.fitters.cpi.{name}"
    for _, name, _ in iter_modules([str(Path(__file__).parent)])
    if name.startswith("solver_")
}
Method = str
BUILT_IN: tuple[Method, ...] = ("nnls", "ols", "lasso", "huber")
METHODS: tuple[Method, ...] = (*BUILT_IN, *sorted(ADDED))
Bounds = Mapping[str, tuple[float, float]]

_HUBER = 1.345  # 95 % efficiency on normal residuals (Huber 1981)
_HUBER_STEPS, _HUBER_STEPS_ON = 25, 4


@dataclass(frozen=True, eq=False)
class Estimator:
    """One method with its bounds and, for the lasso, its price.

    ``limits`` are rows of K x >= c in the model's own coefficients; None leaves each at zero or above.
    """

    method: Method
    limits: tuple[np.ndarray, np.ndarray] | None = None
    alpha: float = 0.0

    def solve(self, M: np.ndarray, start: np.ndarray | None = None) -> np.ndarray:
        """Return the coefficients for one moment matrix."""
        if self.method in ADDED:
            return _solve_added(self.method, M)
        if self.method == "ols":
            return solve_ols(M)
        if self.limits is not None:
            return solve_bounded(_priced(M, self.alpha), *self.limits)
        if self.alpha > 0:
            return solve_lasso(M, self.alpha, start)
        return solve_nnls(M, start)

    def solve_many(self, M: np.ndarray, start: np.ndarray) -> np.ndarray:
        """Return the coefficients for many moment matrices, shape (b, m + 1, m + 1), one row each."""
        if not len(M):
            return np.empty((0, len(start)))
        if self.method == "ols" or self.method in ADDED or self.limits is not None:
            return np.array([self.solve(each, start) for each in M])
        return solve_nnls_many(M if self.alpha == 0 else np.array([_priced(each, self.alpha) for each in M]), start)

    def fit(
        self, system: System, rows: np.ndarray | None = None, start: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the coefficients for some rows and, for Huber's method, the factor on each row's weight."""
        if self.method != "huber":
            return self.solve(system.moments(rows), start), None
        # From a good start (cross-validation) a few steps are enough.
        steps = _HUBER_STEPS if start is None else _HUBER_STEPS_ON
        return self._fit_huber(system if rows is None else replace_rows(system, rows), start, steps)

    def polish(self, system: System, x: np.ndarray, factor: np.ndarray | None) -> np.ndarray:
        """Bring back the digits that normal equations lose, where no bound or price holds."""
        if self.limits is not None or self.alpha > 0 or self.method in ADDED:
            return x
        free = np.ones(len(x), dtype=bool) if self.method == "ols" else x > 0
        better = refine(system, x, free, factor)
        return better if self.method == "ols" else np.maximum(better, 0.0)

    def _fit_huber(self, system: System, start: np.ndarray | None, steps: int) -> tuple[np.ndarray, np.ndarray]:
        """Reweight least squares until it settles; rows far off count in proportion to 1/distance."""
        root = np.sqrt(system.weights)
        factor = np.ones(len(root))
        x = self.solve(system.moments(), start) if start is None else start
        for _ in range(steps):
            distance = np.abs(system.residuals(x) * root)
            scale = 1.4826 * float(np.median(distance))
            if scale <= 1e-14 * abs(float(system.target.mean())):
                break  # most rows are met exactly: there is no scale to be far off by
            factor = np.minimum(1.0, _HUBER * scale / np.maximum(distance, 1e-300))
            new = self.solve(system.moments(factor=factor), x)
            done = np.abs(new - x).max() <= 1e-6 * np.abs(new).max()
            x = new
            if done:
                break
        return x, factor


def _solve_added(method: Method, M: np.ndarray) -> np.ndarray:
    """Return what an added method finds; whatever is no set of coefficients is its fault, and said so."""
    module = ADDED[method]
    if method in BUILT_IN:
        raise SettingError(f"{module}: {method!r} is one of perfkit's own methods; rename the file")
    solve = getattr(import_module(module), "solve", None)
    if not callable(solve):
        raise SettingError(f"{module}: expected a function solve(M); found none")
    found = solve(M)
    try:
        x = np.asarray(found, dtype=float)
    except (TypeError, ValueError):
        x = np.empty(0)
    if x.shape != (len(M) - 1,) or not np.isfinite(x).all():
        what = np.array2string(x, threshold=6) if x.size else repr(found)[:80]
        raise SettingError(f"{module}: expected solve(M) to return {len(M) - 1} finite coefficients; found {what}")
    return x


def make_estimator(
    method: Method, form: Form, events: Sequence[str], bounds: Bounds | None, alpha: float | None
) -> Estimator:
    """Return the estimator of settings; bounds are in cycles per event, and in cycles per instruction for ``base``."""
    limits = None if not bounds else _limits(form, events, bounds)
    return Estimator(method, limits, (alpha or 0.0) if method == "lasso" else 0.0)


def keeps_signs(method: Method) -> bool:
    """Whether a method's coefficients are zero or above: those of plain least squares and of added ones need not be."""
    return method in BUILT_IN and method != "ols"


def choose_alpha(estimator: Estimator, system: System, folds: Sequence[np.ndarray], steps: int = 12) -> Estimator:
    """Return the estimator with the price of least squared error in cross-validation."""
    whole = system.moments()
    parts = [system.moments(f) for f in folds]
    n = whole[0, 0]
    spread = np.sqrt(np.maximum(np.diag(whole)[1:-1] / n - (whole[0, 1:-1] / n) ** 2, 1e-300))
    centred = whole[1:-1, -1] / n - whole[0, 1:-1] * whole[0, -1] / n**2
    top = float(np.abs(centred / spread).max(initial=0.0))
    if top == 0 or not parts:
        return estimator
    best, least = 0.0, math.inf
    found: list[np.ndarray | None] = [None] * len(parts)
    for alpha in np.append(np.geomspace(top, 1e-4 * top, steps), 0.0):
        candidate = replace(estimator, alpha=float(alpha))
        error = 0.0
        for i, part in enumerate(parts):  # from the solution for the price above: few steps each
            x = candidate.solve(whole - part, found[i])
            found[i] = x
            error += squared_error(part, x)
        if error < least:
            best, least = float(alpha), error
    return replace(estimator, alpha=best)


def replace_rows(system: System, rows: np.ndarray) -> System:
    """Return the system of some of its rows."""
    return System(system.form, system.Z[rows], system.weights[rows])


def _priced(M: np.ndarray, alpha: float) -> np.ndarray:
    """Return moments whose right-hand side carries the lasso's price (see `solve_lasso`)."""
    if alpha == 0:
        return M
    n = M[0, 0]
    out = M.copy()
    out[1:-1, -1] -= alpha * n * np.sqrt(np.maximum(np.diag(M)[1:-1] / n - (M[0, 1:-1] / n) ** 2, 0.0))
    return out


def _limits(form: Form, events: Sequence[str], bounds: Bounds) -> tuple[np.ndarray, np.ndarray]:
    """Return K and c of K x >= c; in the IPC form a bound on d_j/a is the line d_j = bound * a."""
    unknown = [b for b in bounds if b != "base" and b not in events]
    if unknown:
        raise SettingError(f"bounds name {unknown[0]!r}, which is not among the events fitted: {', '.join(events)}")
    m = len(events) + 1
    K, c = [], []

    def add(entries: dict[int, float], least: float) -> None:
        row = np.zeros(m)
        for place, value in entries.items():
            row[place] = value
        K.append(row)
        c.append(least)

    for j, name in enumerate(("base", *events)):
        low, high = bounds.get(name, (0.0, math.inf))
        if j == 0 and form == "ipc":
            add({0: 1.0}, 0.0 if math.isinf(high) else 1.0 / high)
            if low > 0:
                add({0: -1.0}, -1.0 / low)
        elif j == 0 or form == "cpi":
            add({j: 1.0}, low)
            if not math.isinf(high):
                add({j: -1.0}, -high)
        else:
            add({j: 1.0, 0: -low}, 0.0)
            if not math.isinf(high):
                add({j: -1.0, 0: high}, 0.0)
    return np.array(K), np.array(c)


def check_bounds(bounds: Bounds | None, method: Method) -> None:
    """Refuse bounds that are no bounds, and those of least squares that knows none."""
    if not bounds:
        return
    how = 'give the least and most cycles by event: {"branch-misses": (5, 30)}'
    expect(isinstance(bounds, Mapping), bounds, "CpiStack", "a mapping (bounds)", how)
    if method in ADDED:
        raise SettingError(f"method={method!r} takes no bounds; use method='nnls' with bounds=, or leave them out")
    if method == "ols":
        raise SettingError("ordinary least squares knows no bounds; use method='nnls' with bounds=, or leave them out")
    for name, (low, high) in bounds.items():
        if not 0 <= low <= high or (name == "base" and high == 0):
            raise SettingError(f"bounds of {name!r} must be 0 <= low <= high (cycles); found {low} and {high}")
