"""What lines that only one of two runs has make it take: the run is simulated once more without each of them.

Cycles are accounted where an instruction could not retire. That may be another line than the one that made it wait: a
rare addition that lengthens a chain delays whatever stands behind it, and a comparison beside it, which costs nothing,
gets the cycles of its retirement. Only a run without the line tells.
"""

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from perfkit.errors import PerfkitWarning, of_extra
from perfkit.simulators.gus.gus import GusResult, cpi_by_cause
from perfkit.trace.without import trace_without

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("place", "cycles", "cause", "cause_cycles")


def added_lines(result: GusResult, lines: Mapping[str, Sequence[int]], calls: int = 0) -> "pd.DataFrame":
    """Return what a run takes more for each of some lines, and the cause with most of that.

    Parameters
    ----------
    result : GusResult
        Of a trace in memory.
    lines : mapping
        Static instructions of each line.
    calls : int
        Figures are of one of so many calls; 0: of all.
    """
    pd = of_extra("pandas")

    rows, all_of_it = [], _cycles(result)
    for place, instructions in lines.items():
        removed = np.zeros(len(result.trace.code.pc), dtype=bool)
        removed[list(instructions)] = True
        left = trace_without(result.trace, removed)
        if not left.blocks_executed:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PerfkitWarning)  # what no table knows was said of the whole run
            other = result.settings.run(left)
        rest = _cycles(other)
        more = {cause: all_of_it.get(cause, 0.0) - rest.get(cause, 0.0) for cause in {**all_of_it, **rest}}
        cause = max(more, key=lambda name: more[name])
        each = max(calls, 1)
        rows.append((place, (result.cycles - other.cycles) / each, cause, more[cause] / each))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _cycles(result: GusResult) -> dict[str, float]:
    return {cause: cpi * result.instructions for cause, cpi in cpi_by_cause(result).items()}
