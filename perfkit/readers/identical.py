"""Runs that are identical in every count: the same dump given, or appended, twice."""

import numpy as np
import pandas as pd


def identical_runs(table: pd.DataFrame) -> list[str]:
    """Return a note for each run whose counts (over several rows) are those of an earlier run, row by row."""
    codes = table["run"].cat.codes.to_numpy()
    if len(table) == 0 or (codes == codes[0]).all():
        return []
    names = table["run"].cat.categories
    first: dict[bytes, str] = {}
    notes = []
    counts, events = table["count"].to_numpy(), table["event"].cat.codes.to_numpy()
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    for rows in np.split(order, starts[1:]):
        of_run = counts[rows]
        if len(np.unique(of_run[of_run > 0])) < 2:
            continue  # nothing that could not be equal by accident
        key = of_run.tobytes() + events[rows].tobytes()
        name = str(names[codes[rows[0]]])
        if key in first:
            notes.append(
                f"caution: run {name} is identical to run {first[key]} in every count: the same dump twice? "
                "Identical runs are no further evidence"
            )
        first.setdefault(key, name)
    return notes
