"""CPI stacks of several workloads, runs or machines beside each other, and their differences with intervals."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from perfkit.base.files import a_path
from perfkit.base.results import Summarised, draw, joint_kind, labelled
from perfkit.errors import DataError, SettingError, closest, expect
from perfkit.fitters.cpi.files import save_each
from perfkit.fitters.cpi.validation import interval_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from perfkit.fitters.cpi.stack import CpiFit


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Summarised, Mapping[str, "CpiFit"]):
    """What can be asked of several CPI stacks by name, whatever made them: see `perfkit.CpiComparison`."""

    fits: "Mapping[str, CpiFit]"

    def __post_init__(self) -> None:
        how = "fit each with perfkit.CpiStack().fit(samples), and give them by name"
        expect(isinstance(self.fits, Mapping), self.fits, "CpiComparison", "fits by name", how)
        if not self.fits:
            raise DataError("nothing to compare: expected at least one fit")
        forms = {f.settings.form for f in self.fits.values()}
        if len(forms) > 1:
            raise SettingError("the stacks to compare have different forms (ipc and cpi); refit them in one form")

    def __getitem__(self, name: str) -> "CpiFit":
        if str(name) not in self.fits:
            near = closest(str(name), self.fits) or self.fits
            raise SettingError(f"no stack named {name!r}; there are {', '.join(near)}")
        return self.fits[name]

    @property
    def kind(self) -> str:
        """What the data is: measured, simulated, generated or published, or ``mixed (...)`` naming them."""
        return joint_kind(fit.kind for fit in self.fits.values())

    def summary(self) -> str:
        """Say what CPI each stack has, what it mostly consists of, and whether its data support it."""
        low, *_, high = sorted(self.fits, key=lambda name: self.fits[name].cpi) * 2
        lines = [
            (
                f"CPI {self[low].cpi:.4g} ({low}) to {self[high].cpi:.4g} ({high}) in {len(self)} stacks"
                f"{labelled(self.kind)}"
            )
        ]
        for name, fit in list(self.fits.items())[:5]:
            part = fit.components.idxmax()
            lines.append(
                f"{name}: CPI {fit.cpi:.4f}, mostly {part} {fit.components[part]:.3f}; verdict: {fit.verdict.level}"
            )
        return "\n".join([*lines, *([f"and {len(self) - 5} more"] if len(self) > 5 else [])])

    def save(self, path: str | Path) -> Path:
        """Write all fits with their data into one parquet file and return its path."""
        return save_each(a_path(path, "CpiComparison.save"), self.fits, self.to_frame())

    def __contains__(self, name: object) -> bool:
        return name in self.fits

    def __iter__(self) -> Iterator[str]:
        return iter(self.fits)

    def __len__(self) -> int:
        return len(self.fits)

    def to_frame(self) -> pd.DataFrame:
        """Return one column per stack: base, events and residual of each (CPI), and the CPI they sum to.

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
        random order, wider by what few blocks and the two forms make it too narrow, as those of the stacks are. An
        event that only one of them has is not compared (NaN).
        """
        one, two = self[a], self[b]
        parts = [*_parts({a: one, b: two})]
        rows = {}
        times, level = min(len(one.component_draws), len(two.component_draws)), one.settings.level
        order = np.random.default_rng(one.settings.seed).permutation(times)
        draws = [
            pd.DataFrame(fit.for_few_blocks(fit.component_draws), columns=fit.components.index) for fit in (one, two)
        ]
        for part in parts:
            values = [f.components.get(part, np.nan) for f in (one, two)]
            low = high = np.nan
            if times and part in one.components and part in two.components:
                apart = draws[1][part].to_numpy()[order] - draws[0][part].to_numpy()[:times]
                further = two.aside[[part]].to_numpy() - one.aside[[part]].to_numpy()
                (low,), (high,) = interval_of(apart[:, None], further, level, -np.inf, np.inf)
            rows[part] = (*values, values[1] - values[0], low, high)
        for part, values in (("residual", [one.residual, two.residual]), ("cpi", [one.cpi, two.cpi])):
            rows[part] = (*values, values[1] - values[0], np.nan, np.nan)
        return pd.DataFrame.from_dict(rows, orient="index", columns=[a, b, "difference", "low", "high"]).rename_axis(
            "part"
        )

    def verdicts(self) -> pd.DataFrame:
        """Return one row per stack: its verdict, R2, placebo R2 and both bases."""
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

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the stacks beside each other (matplotlib); return the axes."""
        return draw("cpi_stack:plot_stacks", self.fits, ax=ax)


def _parts(fits: "Mapping[str, CpiFit]") -> list[str]:
    """Return base and all events of the fits, in order of first appearance."""
    return list(dict.fromkeys(p for f in fits.values() for p in f.components.index))
