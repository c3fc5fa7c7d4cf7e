"""Tables in which two columns name a run together: a program, and which of its runs (``a, 1``)."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa

from perfkit.errors import FormatError, counted, listed
from perfkit.readers.dates import date_columns
from perfkit.readers.grid import Grid, as_float, as_text, is_number
from perfkit.readers.report import Report
from perfkit.readers.summary_rows import without_called_summaries
from perfkit.samples.clocks import is_name_of_clock, is_name_of_length


def with_joined_runs(grid: Grid, run: int, further: list[int], report: Report) -> Grid:
    """Return a table whose column ``run`` names pairs, where one name of a run stands in rows of several programs.

    A column of words that change back and forth while the clock goes on says what was there at a moment: it stays.

    Parameters
    ----------
    run : int
        The column that is taken for the name of the run.
    further : list of int
        Columns of words that can name it, too.

    Raises
    ------
    FormatError
        The clock goes on from one program's rows to the next one's: these are parts of one recording, or runs.
    """
    apart = _that_part(grid, run, further, report)
    if not apart:
        return grid
    grid = without_called_summaries(grid, [*apart, run], report)
    words = list(zip(*(_words(grid, i) for i in (*apart, run)), strict=True))
    names = [", ".join(filter(None, each)) for each in words]
    told = listed([grid.names[i] for i in (*apart, run)])
    report.note(f"columns {told} name a run together: {counted(len({*names}), 'runs')}, such as {names[0]!r}")
    keep = [i for i in range(len(grid.names)) if i not in apart]
    columns = [pa.chunked_array([names]) if i == run else grid.columns[i] for i in keep]
    return replace(grid, names=tuple(grid.names[i] for i in keep), columns=tuple(columns), matrix=None)


def _that_part(grid: Grid, run: int, further: list[int], report: Report) -> list[int]:
    """Return the columns of whose words several stand beside one name of a run, without those of moments."""
    runs = _words(grid, run)
    apart = [i for i in further if len({*zip(runs, _words(grid, i), strict=True)}) > len({*runs})]
    return [i for i in apart if not _of_moments(grid, run, i, report)]


def _words(grid: Grid, i: int) -> list[str]:
    return [cell or "" for cell in as_text(grid.columns[i])]


def _of_moments(grid: Grid, run: int, i: int, report: Report) -> bool:
    """Whether the words of a column change back and forth within runs while the clock goes on."""
    rows = pd.DataFrame({"run": _words(grid, run), "word": _words(grid, i)})
    clock = _clock_going_on(grid, rows)
    pairs = len(rows.drop_duplicates())
    if not clock or pairs == len(rows):  # a row for each pair: when it was, or how long it took
        return False
    if _changes(rows).sum() > pairs:
        return True
    what, name = grid.names[i], grid.names[run]
    raise FormatError(
        f"{report.file}: within a {name} the clock ({clock}) goes on from one {what} to the next: parts of one "
        f"recording, or runs of their own. If they are runs, join {what} and {name} to one column called run; if "
        f"parts, leave the column {what} out"
    )


def _changes(rows: pd.DataFrame) -> pd.Series:
    """Return where within a run another word begins; the first row of each is one."""
    return rows["word"] != rows.groupby("run", sort=False)["word"].shift()


def _clock_going_on(grid: Grid, rows: pd.DataFrame) -> str:
    """Return the name of a clock that within no run goes back, nor shows one time for two words; "" for none."""
    named = [
        i for i, n in enumerate(grid.names) if n.lower() == "at" or (is_name_of_clock(n) and not is_name_of_length(n))
    ]
    dates = date_columns(grid, named, Report("", collect=True))
    for i in named:
        if i not in dates and not is_number(grid.columns[i]):
            continue
        at = pd.Series(dates[i] if i in dates else as_float(grid.columns[i]))
        steps = at.groupby(rows["run"], sort=False).diff()
        least = np.where(_changes(rows), np.finfo(float).tiny, 0.0)
        if steps.notna().any() and not (steps < least).any():
            return grid.names[i]
    return ""
