"""What a scoring returns, whatever the method."""

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd


@dataclass(frozen=True, eq=False)
class Scores:
    """How well a method found what is known of simulated runs.

    Attributes
    ----------
    method : str
        What was scored.
    table : DataFrame
        One row a run (index) that could be scored.
    summary : DataFrame
        One row a measure (index): ``score``, ``baseline`` (what it would be without the method) and ``against`` (what
        that baseline is), and ``runs`` (over how many).
    left_out : mapping of str to tuple of str
        Reason -> runs that could not be scored.
    """

    method: str
    table: pd.DataFrame
    summary: pd.DataFrame
    left_out: Mapping[str, tuple[str, ...]]

    @property
    def kind(self) -> str:
        """``"simulated"``: the truth is that of a simulator."""
        return "simulated"

    def to_frame(self) -> pd.DataFrame:
        """Return a copy of the table of runs."""
        return self.table.copy()

    def __repr__(self) -> str:
        lines = [f"<Scores of {self.method} on {len(self.table)} simulated runs"]
        lines += [f"  left out, {reason}: {len(runs)}" for reason, runs in self.left_out.items()]
        return "\n".join([*lines, self.summary.round(3).to_string()]) + ">"


def summarise(rows: Mapping[str, tuple[float, float, str, int]]) -> pd.DataFrame:
    """Return a summary of measures: name -> score, baseline, what the baseline is, number of runs."""
    columns = ["score", "baseline", "against", "runs"]
    return pd.DataFrame.from_dict(dict(rows), orient="index", columns=columns).rename_axis("measure")


def noted(left_out: Mapping[str, list[str]]) -> dict[str, tuple[str, ...]]:
    """Return the reasons for which any run was left out."""
    return {reason: tuple(runs) for reason, runs in left_out.items() if runs}
