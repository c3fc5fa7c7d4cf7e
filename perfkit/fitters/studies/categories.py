"""Categories of a continuous target: fixed bins, or the valleys of its kernel density (MARTA, section II-B).

Boundaries lie at the density's minima and centroids at its peaks, on the target's own scale or on its logarithm.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from perfkit.base.results import UNKNOWN, Plain, Settings, draw, kind_of, labelled
from perfkit.errors import DataError, SettingError, did_you_mean, expect, listed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_GRID = 4096
NOT_MEASURED = "not_measured"  # of a table's attrs: a status -> rows of a study that have it and were left out
BANDWIDTHS = ("silverman", "silverman-0.9", "isj", "grid")


@dataclass(frozen=True, repr=False)
class Categories(Plain):
    """A target cut into categories: category i holds the values in [boundaries[i - 1], boundaries[i]).

    Parameters
    ----------
    target : str
        The column.
    boundaries : tuple of float
        Ascending; one less than there are categories.
    centroids : tuple of float
        The density's peak in each category; its median for fixed bins or moved boundaries.
    counts : tuple of int
        Values in each category at the fit.
    left_out : int
        Values at the fit that were missing.
    log : bool
        Whether the density is of the logarithm.
    method : str
        How it was made.
    bandwidth : float
        Of the density, on its scale; NaN for bins.
    grid, density : tuple of float
        The density (per unit of the target's scale, or per unit of its natural logarithm) at target values; empty for
        bins.
    kind : str
        What the data is: measured, simulated, generated or published; unknown for a plain table that does not say.

    Examples
    --------
    >>> runs = pk.datasets.load("studies/fma")
    >>> categories = pk.FixedBins("tsc", 3).fit(runs)
    >>> sum(categories.counts) == len(runs.table)
    True
    """

    target: str
    boundaries: tuple[float, ...]
    centroids: tuple[float, ...]
    counts: tuple[int, ...]
    left_out: int
    log: bool
    method: str
    bandwidth: float
    grid: tuple[float, ...] = ()
    density: tuple[float, ...] = ()
    kind: str = UNKNOWN

    def __len__(self) -> int:
        return len(self.boundaries) + 1

    @property
    def labels(self) -> tuple[str, ...]:
        """A name for each category: the range of values that it holds."""
        edges = [f"{value:.4g}" for value in self.boundaries]
        if not edges:
            return ("all",)
        inner = [f"{low} to {high}" for low, high in itertools.pairwise(edges)]
        return (f"< {edges[0]}", *inner, f">= {edges[-1]}")

    def assign(self, values: ArrayLike) -> NDArray[np.int64]:
        """Return each value's category, -1 where the value is missing."""
        try:
            data = np.asarray(values, dtype=float)
        except (TypeError, ValueError):
            how = f"give values of {self.target!r}"
            expect(False, values, "Categories.assign", "numbers, or an array of them", how)
        found = np.digitize(data, np.array(self.boundaries)) if self.boundaries else np.zeros(data.shape, dtype=int)
        return np.where(np.isnan(data), -1, found).astype(np.int64)

    def with_boundaries(self, boundaries: Sequence[float], table: Any) -> Self:
        """Return categories of the same target with boundaries set by hand; centroids are the medians of `table`.

        Raises
        ------
        SettingError
            A boundary is not finite, or stands there twice.
        """
        fits = hasattr(boundaries, "__iter__") and all(isinstance(value, Real) for value in boundaries)
        expect(fits, boundaries, "with_boundaries", "a list of numbers (boundaries)", "list them, as [100, 150.5]")
        wanted = tuple(sorted(float(value) for value in boundaries))
        if not all(math.isfinite(value) for value in wanted) or len(set(wanted)) < len(wanted):
            raise SettingError(f"boundaries must be finite and different, not {list(boundaries)}")
        values = _values(table, self.target)
        return _from_boundaries(self, wanted, values, "by hand")

    def to_frame(self) -> pd.DataFrame:
        """Return one row per category: its range, centroid, count and share."""
        low, high = (-math.inf, *self.boundaries), (*self.boundaries, math.inf)
        total = max(sum(self.counts), 1)
        return pd.DataFrame(
            {
                "label": self.labels,
                "from": low,
                "to": high,
                "centroid": self.centroids,
                "count": self.counts,
                "share": [n / total for n in self.counts],
            },
            index=pd.RangeIndex(len(self), name="category"),
        )

    def summary(self) -> str:
        """Say how many categories the target falls into, and where."""
        around = [
            f"{centre:.4g} ({label}: {count})"
            for centre, label, count in zip(self.centroids, self.labels, self.counts, strict=True)
        ]
        missing = f"\n{self.left_out} values were missing" if self.left_out else ""
        found = f"{len(self)} categories of {self.target}" if len(self) > 1 else f"one category of {self.target}"
        return f"{found} ({self.method}){labelled(self.kind)}: around {listed(around, 5)}{missing}"

    def plot(self, ax: "Axes | None" = None, *, table: Any = None) -> "Axes":
        """Draw the distribution with boundaries and centroids (`perfkit.plots.studies.plot_distribution`)."""
        return draw("studies:plot_distribution", self, table=table, ax=ax)


@dataclass(frozen=True)
class KdeCategories(Settings):
    """Cut a target at the valleys of its Gaussian kernel density.

    Parameters
    ----------
    target : str
        The column to categorise.
    bandwidth : {"silverman", "silverman-0.9", "isj", "grid"} or float
        Silverman's rule of thumb with the factor 1.06, as MARTA takes it from KDEpy (this reproduces the paper), or
        with the factor 0.9 that he recommends for several modes (1986, eq. 3.31); the Improved Sheather-Jones algorithm
        (Botev et al. 2010, through KDEpy), for data of many modes; a search of the bandwidth that best predicts
        held-out data; or the bandwidth itself.
    log : bool
        Work on the natural logarithm (for targets over 0 that span decades).
    prominence : float
        The least height of a peak over its higher valley, as a share of the highest peak: lower ripples are no
        category.
    folds, seed : int
        Of the grid search's splits.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> rng = np.random.default_rng(0)
    >>> table = pd.DataFrame({"tsc": np.r_[rng.normal(100, 2, 300), rng.normal(150, 2, 100)]})
    >>> len(KdeCategories("tsc", bandwidth="isj", prominence=0.1).fit(table))
    2
    """

    _instead = "name the column (target); its table goes to .fit(table)"

    target: str
    bandwidth: str | float = "silverman"
    log: bool = False
    prominence: float = 1e-4
    folds: int = 5
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.bandwidth, str) and self.bandwidth not in BANDWIDTHS:
            raise SettingError(f"unknown bandwidth {self.bandwidth!r}; {did_you_mean(self.bandwidth, BANDWIDTHS)}")
        if not isinstance(self.bandwidth, str) and not (math.isfinite(self.bandwidth) and self.bandwidth > 0):
            raise SettingError(f"a bandwidth is over 0, not {self.bandwidth}")
        if not 0 < self.prominence < 1 or self.folds < 2:
            raise SettingError("prominence lies between 0 and 1, and folds are at least 2")

    def fit(self, table: Any) -> Categories:
        """Categorise a table's column (a DataFrame, or anything with ``to_frame``, e.g. `StudyRuns`).

        Raises
        ------
        DataError
            If the column is not there, holds no numbers, or values at or below 0 with ``log=True``.
        """
        raw = _values(table, self.target)
        data = _scaled(raw[~np.isnan(raw)], self.log, self.target)
        named = f"{self.bandwidth}{' (factor 1.06)' if self.bandwidth == 'silverman' else ''}"
        name = f"KDE, {named}" if isinstance(self.bandwidth, str) else "KDE, given bandwidth"
        empty = Categories(
            self.target, (), (), (), int(np.isnan(raw).sum()), self.log, name, math.nan, kind=kind_of(table)
        )
        if data.size < 2 or np.ptp(data) == 0:  # one value: one category, and no density to speak of
            return _from_boundaries(empty, (), raw, name)
        width = self._width(data)
        grid, density = _density(data, width)
        peaks, valleys = _modes(grid, density, self.prominence)
        back = np.exp if self.log else np.asarray
        boundaries = tuple(float(back(value)) for value in valleys)
        found = _from_boundaries(empty, boundaries, raw, name)
        return Categories(
            **{
                **found.__dict__,
                "centroids": tuple(float(back(value)) for value in peaks),
                "bandwidth": width,
                "grid": tuple(back(grid).tolist()),
                "density": tuple(density.tolist()),
            }
        )

    def _width(self, data: NDArray[np.float64]) -> float:
        if not isinstance(self.bandwidth, str):
            return float(self.bandwidth)
        if self.bandwidth == "silverman":
            return _silverman(data, (4 / 3) ** 0.2)
        if self.bandwidth == "silverman-0.9":
            return _silverman(data, 0.9)
        if self.bandwidth == "isj":
            return _improved_sheather_jones(data)
        return _searched(data, self.folds, self.seed)


@dataclass(frozen=True)
class FixedBins(Settings):
    """Cut a target at given edges, or into equal steps between its extremes.

    Parameters
    ----------
    target : str
        The column.
    bins : int or sequence of float
        How many, or the inner boundaries.
    log : bool
        Equal steps of the logarithm.

    Examples
    --------
    >>> import pandas as pd
    >>> len(FixedBins("tsc", bins=2).fit(pd.DataFrame({"tsc": [100.0, 101.0, 150.0, 151.0]})))
    2
    """

    _instead = "name the column (target); its table goes to .fit(table)"

    target: str
    bins: int | tuple[float, ...] = 5
    log: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.bins, int) and self.bins < 1:
            raise SettingError(f"bins={self.bins}: at least 1")
        if not isinstance(self.bins, int):
            fits = hasattr(self.bins, "__iter__") and all(isinstance(value, Real) for value in self.bins)
            expect(fits, self.bins, "FixedBins", "a whole number, or boundaries (bins)", "list them, as [100, 150.5]")
            if list(self.bins) != sorted(set(self.bins)):
                raise SettingError(f"bin boundaries must ascend: {list(self.bins)}")
            object.__setattr__(self, "bins", tuple(float(value) for value in self.bins))

    def fit(self, table: Any) -> Categories:
        """Categorise a table's column."""
        raw = _values(table, self.target)
        empty = Categories(
            self.target, (), (), (), int(np.isnan(raw).sum()), self.log, "bins", math.nan, kind=kind_of(table)
        )
        if isinstance(self.bins, tuple):
            return _from_boundaries(empty, self.bins, raw, "bins")
        data = _scaled(raw[~np.isnan(raw)], self.log, self.target)
        edges = np.linspace(data.min(), data.max(), self.bins + 1)[1:-1]
        boundaries = tuple(float(value) for value in (np.exp(edges) if self.log else edges))
        return _from_boundaries(empty, boundaries if np.ptp(data) > 0 else (), raw, "bins")


@dataclass(frozen=True)
class KMeansCategories(Settings):
    """Cut a target half-way between the centres that k-means finds (scikit-learn).

    Parameters
    ----------
    target : str
        The column.
    count : int
        How many categories.
    log : bool
        Of the natural logarithm.
    seed : int
        Of the first centres.

    Examples
    --------
    >>> import pandas as pd
    >>> len(KMeansCategories("tsc", count=2).fit(pd.DataFrame({"tsc": [100.0, 101.0, 150.0, 151.0]})))
    2
    """

    _instead = "name the column (target); its table goes to .fit(table)"

    target: str
    count: int = 5
    log: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.count < 1:
            raise SettingError(f"count={self.count}: at least 1")

    def fit(self, table: Any) -> Categories:
        """Categorise a table's column; DataError if it has fewer different values than categories."""
        from sklearn.cluster import KMeans

        raw = _values(table, self.target)
        data = _scaled(raw[~np.isnan(raw)], self.log, self.target)
        different = len(np.unique(data))
        if different < self.count:
            raise DataError(f"{self.target!r} has {different} different values: too few for {self.count} categories")
        model = KMeans(self.count, n_init=10, random_state=self.seed).fit(data[:, None])
        centres = np.sort(model.cluster_centers_.ravel())
        back = np.exp if self.log else np.asarray
        empty = Categories(
            self.target, (), (), (), int(np.isnan(raw).sum()), self.log, "k-means", math.nan, kind=kind_of(table)
        )
        boundaries = tuple(float(value) for value in back((centres[1:] + centres[:-1]) / 2))
        found = _from_boundaries(empty, boundaries, raw, "k-means")
        return Categories(**{**found.__dict__, "centroids": tuple(float(value) for value in back(centres))})


# -- the density -------------------------------------------------------------------------------------------------------


def _silverman(data: NDArray[np.float64], factor: float) -> float:
    """Return Silverman's rule of thumb for a Gaussian kernel: factor min(sd, IQR / 1.34) n^(-1/5) (1986, 3.4.2).

    The factor (4 / 3)^(1/5), about 1.06, is optimal for normal data.
    """
    spread = float(np.std(data, ddof=1))
    quartiles = float(np.subtract(*np.percentile(data, [75, 25]))) / 1.34
    return factor * min(spread, quartiles if quartiles > 0 else spread) * len(data) ** -0.2


def _improved_sheather_jones(data: NDArray[np.float64]) -> float:
    import warnings

    from KDEpy.bw_selection import improved_sheather_jones

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            width = float(improved_sheather_jones(data[:, None]))
    except ValueError as error:
        raise DataError(
            f"Improved Sheather-Jones finds no bandwidth for these {len(data)} values ({error}): use 'silverman'"
        ) from None
    if not width > 0:
        raise DataError("Improved Sheather-Jones finds the bandwidth 0: too many equal values; use 'silverman'")
    return width


def _searched(data: NDArray[np.float64], folds: int, seed: int) -> float:
    """Return the bandwidth whose density best predicts held-out values, of 24 around Silverman's."""
    if len(data) < folds:
        raise DataError(f"a grid search over {folds} folds needs as many values, there are {len(data)}")
    part = np.random.default_rng(seed).permutation(len(data)) % folds
    widths = _silverman(data, 0.9) * np.geomspace(0.05, 3, 24)
    scores = []
    for width in widths:
        likelihood = 0.0
        for fold in range(folds):
            if np.ptp(data[part != fold]) == 0:
                continue
            grid, density = _density(data[part != fold], float(width))
            held = np.interp(data[part == fold], grid, density, left=0, right=0)
            likelihood += float(np.log(np.maximum(held, 1e-300)).sum())
        scores.append(likelihood)
    return float(widths[int(np.argmax(scores))])


def _density(data: NDArray[np.float64], width: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Evaluate the Gaussian density on an even grid that reaches four bandwidths beyond the data."""
    from KDEpy import FFTKDE

    low, high = data.min() - 4 * width, data.max() + 4 * width
    points = int(min(max(_GRID, 2 * (high - low) / width), 1 << 16))  # at least two points per bandwidth
    grid = np.linspace(low, high, points)
    # In units of the bandwidth: KDEpy cannot place a kernel that is very narrow for the data's scale.
    scaled = FFTKDE(kernel="gaussian", bw=1).fit((data - low) / width).evaluate((grid - low) / width)
    return grid, np.maximum(scaled, 0) / width


def _modes(
    grid: NDArray[np.float64], density: NDArray[np.float64], prominence: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the peaks' places and, between neighbours, the middle of the lowest stretch."""
    from scipy.signal import find_peaks

    at, _ = find_peaks(density, prominence=prominence * density.max())
    if len(at) == 0:
        at = np.array([int(np.argmax(density))])
    valleys = []
    for left, right in itertools.pairwise(at):
        between = density[left : right + 1]
        # Where nothing was measured the density is flat at (numerically) zero: the middle of that stretch.
        lowest = np.flatnonzero(between <= between.min() + 1e-12 * density.max())
        valleys.append(grid[left + int(lowest[len(lowest) // 2])])
    return grid[at], np.array(valleys)


# -- tables ------------------------------------------------------------------------------------------------------------


def as_frame(table: Any) -> pd.DataFrame:
    """Return a DataFrame of a table: itself, or what its ``to_frame`` gives (of `StudyRuns`, the measured rows)."""
    if isinstance(table, pd.DataFrame):
        return _of_one_processor(table)
    if hasattr(table, "ok") and isinstance(table.ok, pd.DataFrame):
        return _of_one_processor(measured_rows(table))
    if hasattr(table, "to_samples"):  # its table is of runs and their labels, not of what was counted
        raise DataError(f"expected a table in memory; found {type(table).__name__}: draw some with .sample(20_000)")
    if hasattr(table, "to_frame"):
        return table.to_frame()
    raise DataError(f"expected a DataFrame or an object with to_frame(), found {type(table).__name__}")


def measured_rows(runs: Any) -> pd.DataFrame:
    """Return the rows of `StudyRuns` that were measured; `attrs` say what data it is, and what became of the others."""
    frame: pd.DataFrame = runs.ok.copy(deep=False)
    others = runs.table.query("status != 'ok'")["status"].value_counts() if len(runs.table) else pd.Series(dtype=int)
    frame.attrs = {"kind": kind_of(runs), NOT_MEASURED: {str(status): int(n) for status, n in others.items()}}
    return frame


def _of_one_processor(frame: pd.DataFrame) -> pd.DataFrame:
    """Refuse measurements of several processors: their figures do not compare."""
    # Rows that a budget predicted were measured on none.
    names = [name for name in frame["processor"].dropna().unique() if name] if "processor" in frame else []
    if len(names) > 1:
        raise DataError(
            f"rows of {len(names)} processors ({', '.join(names)}) do not compare: take those of one, for example "
            f'runs.where("processor == {names[0]!r}")'
        )
    return frame


def column(frame: pd.DataFrame, name: str) -> pd.Series:
    """Return a column; an unknown name is an error that suggests the nearest."""
    if name not in frame.columns:
        raise DataError(f"the table has no column {name!r}; {did_you_mean(name, frame.columns)}")
    return frame[name]


def _values(table: Any, target: str) -> NDArray[np.float64]:
    series = column(as_frame(table), target)
    if not pd.api.types.is_numeric_dtype(series):
        raise DataError(f"the target {target!r} holds {series.dtype}, expected numbers")
    values = series.to_numpy(dtype=float, na_value=np.nan)
    if not len(values) or np.isnan(values).all():
        raise DataError(f"the target {target!r} has no values")
    if np.isinf(values).any():
        raise DataError(f"the target {target!r} has {int(np.isinf(values).sum())} infinite values: filter them first")
    return values


def _scaled(values: NDArray[np.float64], log: bool, target: str) -> NDArray[np.float64]:
    if not log:
        return values
    if (values <= 0).any():
        raise DataError(
            f"{int((values <= 0).sum())} values of {target!r} are not over 0: filter them, or use log=False"
        )
    return np.log(values)


def _from_boundaries(like: Categories, boundaries: tuple[float, ...], values: NDArray[np.float64], method: str) -> Any:
    """Return `like` with other boundaries, its counts and medians taken from `values`."""
    known = values[~np.isnan(values)]
    found = np.digitize(known, np.array(boundaries)) if boundaries else np.zeros(len(known), dtype=int)
    groups = [known[found == i] for i in range(len(boundaries) + 1)]
    centroids = tuple(float(np.median(group)) if len(group) else math.nan for group in groups)
    return Categories(
        **{
            **like.__dict__,
            "boundaries": boundaries,
            "centroids": centroids,
            "method": method,
            "counts": tuple(len(group) for group in groups),
            "left_out": int(np.isnan(values).sum()),
        }
    )
