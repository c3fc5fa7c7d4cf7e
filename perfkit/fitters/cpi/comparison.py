"""CPI stacks of several workloads, runs or machines beside each other, and their differences with intervals."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from perfkit.errors import DataError, SettingError
from perfkit.samples.events import nearest

if TYPE_CHECKING:
    from perfkit.fitters.cpi.stack import CpiFit, CpiStack
    from perfkit.samples.table import Samples


@dataclass(frozen=True, eq=False)
class CpiComparison(Mapping[str, "CpiFit"]):
    """Several CPI stacks by name; behaves as a mapping of names to fits.

    Examples
    --------
    >>> import perfkit as pk
    >>> one, _ = pk.synthetic_cpi(intervals=300, workload="before", seed=1)
    >>> two, _ = pk.synthetic_cpi(intervals=300, workload="after", base=0.30, seed=1)
    >>> both = pk.CpiStack().fit_each(pk.Samples.concat([one, two]))
    >>> float(both.difference("before", "after").loc["base", "difference"].round(2))
    -0.05
    """

    fits: "Mapping[str, CpiFit]"

    def __post_init__(self) -> None:
        if not self.fits:
            raise DataError("nothing to compare: expected at least one fit")
        forms = {f.settings.form for f in self.fits.values()}
        if len(forms) > 1:
            raise SettingError("the stacks to compare have different forms (ipc and cpi); refit them in one form")

    def __getitem__(self, name: str) -> "CpiFit":
        if name not in self.fits:
            raise SettingError(f"no stack named {name!r}; there are {', '.join(nearest(name, self.fits) or self.fits)}")
        return self.fits[name]

    def __repr__(self) -> str:
        listed = ", ".join(f"{name} CPI {fit.cpi:.3f} ({fit.verdict.level})" for name, fit in self.fits.items())
        return f"<CpiComparison: {listed}>"

    def __contains__(self, name: object) -> bool:
        return name in self.fits

    def __iter__(self) -> Iterator[str]:
        return iter(self.fits)

    def __len__(self) -> int:
        return len(self.fits)

    def to_frame(self) -> pd.DataFrame:
        """Return one column a stack: base, events and residual of each (CPI), and the CPI they sum to.

        An event that a stack does not have is NaN: not known, rather than zero.
        """
        columns = {}
        for name, fit in self.fits.items():
            column = fit.components.copy()
            column["residual"], column["cpi"] = fit.residual, fit.cpi
            columns[name] = column
        table = pd.DataFrame(columns)
        order = [p for p in _parts(self.fits) if p in table.index]
        return table.loc[[*order, "residual", "cpi"]]

    def difference(self, a: str, b: str) -> pd.DataFrame:
        """Return b minus a: of CPI, base, each event and the residual, with block-bootstrap intervals.

        The two were measured apart, so their draws are independent: the interval is that of the difference of draws in
        random order. An event that only one of them has is not compared (NaN).
        """
        one, two = self[a], self[b]
        parts = [*_parts({a: one, b: two})]
        rows = {}
        times = min(len(one.component_draws), len(two.component_draws))
        tail = (1 - one.settings.level) / 2
        order = np.random.default_rng(one.settings.seed).permutation(times)
        for part in parts:
            values = [f.components.get(part, np.nan) for f in (one, two)]
            low = high = np.nan
            if times and part in one.component_draws and part in two.component_draws:
                apart = two.component_draws[part].to_numpy()[order] - one.component_draws[part].to_numpy()[:times]
                low, high = np.quantile(apart, [tail, 1 - tail])
            rows[part] = (*values, values[1] - values[0], low, high)
        for part, values in (("residual", [one.residual, two.residual]), ("cpi", [one.cpi, two.cpi])):
            rows[part] = (*values, values[1] - values[0], np.nan, np.nan)
        return pd.DataFrame.from_dict(rows, orient="index", columns=[a, b, "difference", "low", "high"]).rename_axis(
            "part"
        )

    def verdicts(self) -> pd.DataFrame:
        """Return one row a stack: its verdict, R2, placebo R2 and both bases."""
        rows = {
            name: {
                "verdict": f.verdict.level,
                "r2": f.r2.in_sample,
                "r2_random": f.r2.random,
                "r2_blocked": f.r2.blocked,
                "placebo_r2": f.placebo_r2,
                "base_ipc": f.bracket.ipc,
                "base_cpi": f.bracket.cpi,
                "bracket_width": f.bracket.width,
                "intervals": len(f.data),
            }
            for name, f in self.fits.items()
        }
        return pd.DataFrame.from_dict(rows, orient="index").rename_axis("workload")

    def plot(self, ax: Any = None) -> Any:
        """Draw the stacks beside each other (matplotlib); return the axes."""
        from perfkit.plots.cpi_stack import plot_stacks

        return plot_stacks(self.fits, ax=ax)


def fit_each(settings: "CpiStack", samples: "Samples", by: str) -> CpiComparison:
    """Fit one stack to the samples of each value of a column of the table of runs (``"run"``: of each run)."""
    if by != "run" and by not in samples.runs.columns:
        raise SettingError(
            f"by names a column of the table of runs: run, {', '.join(samples.runs.columns)}; found {by!r}"
        )
    keys = samples.runs.index.to_series() if by == "run" else samples.runs[by]
    fits = {}
    for key in dict.fromkeys(keys):
        part = samples.select(runs=list(keys.index[keys == key]))
        try:
            fits[str(key)] = settings.fit(part)
        except DataError as error:
            raise DataError(f"{by} {key!r}: {error}") from error
    return CpiComparison(fits)


def _parts(fits: "Mapping[str, CpiFit]") -> list[str]:
    """Return base and all events of the fits, in order of first appearance."""
    return list(dict.fromkeys(p for f in fits.values() for p in f.components.index))
