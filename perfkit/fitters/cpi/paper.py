"""The procedure of "Multiple Regression model for CPI stack" (Ratnawat, Shekhar, Gautam), step by step.

Kept for comparison and for teaching: `perfkit.CpiStack` says what to believe of such a fit.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from perfkit.base.results import Tabled, draw, labelled
from perfkit.errors import DataError, SettingError
from perfkit.fitters.cpi.counts import CpiCounts
from perfkit.samples.table import Samples, expect_samples

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False, repr=False)
class PaperCpiFit(Tabled):
    """A CPI stack as the paper makes it, with the trail of what was dropped.

    Attributes
    ----------
    base : float
        The intercept a_0: "CPI in absence of any miss events" (section II-E).
    coefficients : Series
        a_i, cycles per event (Tables III to VI).
    stack : Series
        Base and a_i times the mean of the event's rate over all rows (Tables VIII, X, XII, XIV); sums to
        ``predicted_cpi``.
    predicted_cpi, average_cpi : float
        Sum of the stack, and the paper's "True CPI": the plain mean of the intervals' CPI.
    r2, rmse : float
        On the rows kept for testing.
    adjusted_r2, f, p : float
        From the test rows' R2, but with the number of all rows: that is what the paper's figures are.
    rows, train_rows, test_rows : int
        Intervals after trimming, and of the two parts.
    trail : DataFrame
        One row per decision, in order: step, event, figure (correlation or coefficient) and what was done.
    correlation : DataFrame
        Correlations of the normalised events and CPI (Fig. 1).
    kind : str
        Of the samples: measured, simulated, generated or published.

    Examples
    --------
    >>> samples, _ = pk.synthetic_cpi(intervals=200, seed=1)
    >>> fit = pk.paper_cpi_stack(samples)
    >>> fit.train_rows + fit.test_rows == fit.rows
    True
    """

    base: float
    coefficients: pd.Series
    stack: pd.Series
    predicted_cpi: float
    average_cpi: float
    r2: float
    rmse: float
    adjusted_r2: float
    f: float
    p: float
    rows: int
    train_rows: int
    test_rows: int
    trail: pd.DataFrame
    correlation: pd.DataFrame
    kind: str

    @property
    def events(self) -> tuple[str, ...]:
        """The events of the final model."""
        return tuple(self.coefficients.index)

    def to_frame(self) -> pd.DataFrame:
        """Return one row per part: coefficient (cycles per event) and component (CPI)."""
        table = pd.DataFrame({"coefficient": self.coefficients, "component": self.stack})
        table = table.reindex(self.stack.index)
        table.loc["base", "coefficient"] = self.base
        return table.rename_axis("part")

    def statistics(self) -> pd.Series:
        """Return the figures of the paper's Tables VII, IX, XI and XIII."""
        return pd.Series(
            {
                "rmse": self.rmse,
                "r2": self.r2,
                "adjusted_r2": self.adjusted_r2,
                "f": self.f,
                "p": self.p,
                "average_cpi": self.average_cpi,
            },
            name="value",
        )

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the stack as one bar, as the paper's Fig. 2 (matplotlib); return the axes."""
        return draw("cpi_stack:plot_paper_stack", self, ax=ax)

    def summary(self) -> str:
        """Say what the CPI consists of by the paper's procedure, and how well it predicts the rows kept for testing."""
        parts = self.stack.sort_values(ascending=False, kind="stable").head(4)
        listed = ", ".join(f"{part} {value:z.3f}" for part, value in parts.items())
        more = f" and {len(self.stack) - 4} more" if len(self.stack) > 4 else ""
        return "\n".join(
            [
                (
                    f"predicted CPI {self.predicted_cpi:.4f}, average CPI {self.average_cpi:.4f}{labelled(self.kind)} "
                    f"(cycles per instruction): {listed}{more}"
                ),
                f"R2 {self.r2:z.3f}, RMSE {self.rmse:.4g} on {self.test_rows} test rows of {self.rows}",
                "by the paper's procedure, without placebo or bracket: see CpiStack for what the data support",
            ]
        )


def paper_cpi_stack(
    samples: Samples | CpiCounts,
    *,
    trim: int = 0,
    test_share: float = 0.2,
    seed: int = 100,
    min_correlation: float = 0.0,
    events: Sequence[str] | None = None,
) -> PaperCpiFit:
    """Fit a CPI stack by the paper's own procedure.

    Leave out the first and last ``trim`` intervals; divide all counts by instructions; leave out events that are zero
    throughout, that duplicate another, or whose correlation with CPI is not above ``min_correlation``; fit ordinary
    least squares to a random part; leave out the event with the most negative component and fit again, until no
    coefficient is negative.

    Parameters
    ----------
    samples : Samples
        Counts of one run.
    trim : int
        Intervals to leave out at each end. The paper's figures are those of 300 for 521.wrf_r, 100 for 526.blender_r
        and 0 for 531.deepsjeng_r.
    test_share : float
        Share of rows kept for testing: 0.2, and 0.3 for 526.blender_r.
    seed : int
        Of the split: with 100, the rows are those of scikit-learn's train_test_split(random_state=100), which is how
        the paper's tables come out.
    min_correlation : float
        Below or at it an event is dropped (section II-D2 says only "< 0" and "~ 0").
    events : sequence of str, optional
        Take these events and select nothing: the paper's final lists hold choices that no rule of the text gives.

    Raises
    ------
    SettingError
        A setting outside its range or an unknown event.
    DataError
        Too few intervals, or no event left.

    Examples
    --------
    >>> import perfkit as pk
    >>> samples, truth = pk.synthetic_cpi(intervals=400, seed=1)
    >>> fit = pk.paper_cpi_stack(samples)
    >>> bool(abs(fit.stack.sum() - fit.predicted_cpi) < 1e-12)
    True
    """
    if not 0 < test_share < 1:
        raise SettingError(f"test_share must be between 0 and 1; found {test_share}")
    if trim < 0:
        raise SettingError(f"trim must be at least 0; found {trim}")
    if not isinstance(samples, CpiCounts):
        expect_samples(samples, "paper_cpi_stack")
    counts = samples if isinstance(samples, CpiCounts) else CpiCounts.from_samples(samples, events)
    if isinstance(samples, CpiCounts) and events is not None:
        counts = counts.select(events=list(events))
    counts = _trimmed(counts, trim)
    rates = pd.DataFrame(counts.counts / counts.instructions[:, None], columns=list(counts.events))
    cpi = counts.cycles / counts.instructions
    train, test = _split(len(cpi), test_share, seed)
    trail: list[tuple[str, str, float, str]] = [("trim", "", float(2 * trim), "rows left out")]
    correlation = _correlation(rates, cpi)
    if events is None:
        kept = _select(rates, correlation["CPI"], min_correlation, trail)
        kept = _drop_negative(rates, cpi, train, kept, trail)
    else:
        kept = list(events)
        trail += [("given", e, float(correlation.loc[e, "CPI"]), "kept as given") for e in kept]
    coefficients = _least_squares(rates[kept].to_numpy()[train], cpi[train])
    trail += [("fit", e, float(c), "kept") for e, c in zip(kept, coefficients[1:], strict=True)]
    return _result(rates[kept], cpi, train, test, coefficients, trail, correlation, counts.kind)


def _result(
    rates: pd.DataFrame,
    cpi: np.ndarray,
    train: np.ndarray,
    test: np.ndarray,
    coefficients: np.ndarray,
    trail: list[tuple[str, str, float, str]],
    correlation: pd.DataFrame,
    kind: str,
) -> PaperCpiFit:
    from scipy.special import fdtrc

    n, k = rates.shape
    error = cpi[test] - coefficients[0] - rates.to_numpy()[test] @ coefficients[1:]
    spread = float(((cpi[test] - cpi[test].mean()) ** 2).sum())
    r2 = 1.0 - float((error**2).sum()) / spread if spread > 0 else math.nan
    free = n - k - 1
    f = (r2 / k) / ((1 - r2) / free) if r2 < 1 else math.inf
    names = list(rates.columns)
    stack = pd.Series([coefficients[0], *(coefficients[1:] * rates.mean().to_numpy())], ["base", *names])
    return PaperCpiFit(
        base=float(coefficients[0]),
        coefficients=pd.Series(coefficients[1:], index=names, name="coefficient"),
        stack=stack.rename("component"),
        predicted_cpi=float(stack.sum()),
        average_cpi=float(cpi.mean()),
        r2=r2,
        rmse=float(np.sqrt((error**2).mean())),
        adjusted_r2=1.0 - (1.0 - r2) * (n - 1) / free,
        f=f,
        p=float(fdtrc(k, free, max(f, 0.0))),  # a negative F (R2 of unseen rows below zero) explains nothing
        rows=n,
        train_rows=len(train),
        test_rows=len(test),
        trail=pd.DataFrame(trail, columns=["step", "event", "figure", "done"]),
        correlation=correlation,
        kind=kind,
    )


def _trimmed(counts: CpiCounts, trim: int) -> CpiCounts:
    n, k = len(counts), len(counts.events)
    if n - 2 * trim < k + 3:
        raise DataError(
            f"{n} intervals less {trim} at each end leave {max(n - 2 * trim, 0)}; a base and {k} coefficients with "
            f"rows to test on need at least {k + 3}. Trim less, or measure longer."
        )
    keep = np.zeros(n, dtype=bool)
    keep[trim : n - trim] = True
    return counts.select(rows=keep)


def _split(n: int, test_share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows to train and to test on, those of scikit-learn's train_test_split."""
    # The paper's figures hang on this very shuffle, which NumPy keeps for ever in its old generator only.
    if not 0 <= seed < 1 << 32:  # scikit-learn's generator, which the paper used, takes no others
        raise SettingError(f"the seed of the paper's split is from 0 to {(1 << 32) - 1}; found {seed}")
    order = np.random.RandomState(seed).permutation(n)
    tested = math.ceil(test_share * n)
    return order[tested:], order[:tested]


def _correlation(rates: pd.DataFrame, cpi: np.ndarray) -> pd.DataFrame:
    """Return all correlations, CPI first; NaN for what never changes."""
    values = np.column_stack([cpi, rates.to_numpy()])
    centred = values - values.mean(axis=0)
    length = np.sqrt((centred**2).sum(axis=0))
    flat = length <= 1e-12 * np.abs(values).max(axis=0, initial=0.0) * math.sqrt(len(values))
    unit = centred / np.where(flat, np.nan, length)
    names = ["CPI", *rates.columns]
    return pd.DataFrame(unit.T @ unit, index=names, columns=names)


def _select(
    rates: pd.DataFrame, with_cpi: pd.Series, min_correlation: float, trail: list[tuple[str, str, float, str]]
) -> list[str]:
    kept: list[str] = []
    for event in rates.columns:
        values = rates[event].to_numpy()
        if not values.any():
            trail.append(("zero", event, 0.0, "dropped: zero throughout"))
            continue
        twin = next((k for k in kept if np.allclose(rates[k].to_numpy(), values, rtol=1e-12, atol=0)), None)
        r = float(with_cpi[event])
        if twin is not None:
            trail.append(("duplicate", event, r, f"dropped: the same as {twin}"))
        elif not r > min_correlation:
            trail.append(("correlation", event, r, f"dropped: not above {min_correlation:g}"))
        else:
            trail.append(("correlation", event, r, "kept"))
            kept.append(event)
    if not kept:
        raise DataError(f"no event has a correlation with CPI above {min_correlation:g}; nothing is left to fit")
    return kept


def _drop_negative(
    rates: pd.DataFrame, cpi: np.ndarray, train: np.ndarray, kept: list[str], trail: list[tuple[str, str, float, str]]
) -> list[str]:
    kept = list(kept)
    while kept:
        coefficients = _least_squares(rates[kept].to_numpy()[train], cpi[train])[1:]
        parts = coefficients * rates[kept].mean().to_numpy()
        worst = int(np.argmin(parts))
        if parts[worst] >= 0:
            return kept
        trail.append(("coefficient", kept[worst], float(coefficients[worst]), "dropped: most negative component"))
        del kept[worst]
    raise DataError("every event came out with a negative coefficient; nothing is left to fit")


def _least_squares(rates: np.ndarray, cpi: np.ndarray) -> np.ndarray:
    """Return intercept and coefficients of ordinary least squares, on columns scaled to unit length."""
    A = np.column_stack([np.ones(len(cpi)), rates])
    scale = np.sqrt((A**2).sum(axis=0))
    scale[scale == 0] = 1.0
    return np.asarray(np.linalg.lstsq(A / scale, cpi, rcond=None)[0] / scale)
