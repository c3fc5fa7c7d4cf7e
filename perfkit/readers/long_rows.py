"""Long tables, one row per count: which interval a row belongs to by its time stamp, and counts of running totals."""

import numpy as np
import pandas as pd

from perfkit.errors import FormatError, counted
from perfkit.readers.grid import Grid
from perfkit.readers.report import Report
from perfkit.readers.row_order import begins_anew, even
from perfkit.readers.running_totals import Rows, counts_between, find_totals, lone_totals, note_few_that_rise
from perfkit.samples.clocks import Clock, between, clock_of, is_name_of_beginning, is_name_of_length, since_1970

_PERCENT = 100.0
_FEW = 10  # lengths rise by accident in fewer intervals than these
_SERIES = ["run", "place"]


def stamped(table: pd.DataFrame, name: str, report: Report) -> pd.DataFrame:
    """Return a table whose column ``stamp``, called ``name``, says which interval a row belongs to, or how long it is.

    The columns ``run`` (where the clock begins anew), ``interval``, ``at`` and ``seconds`` are filled in as known;
    ``stamp`` is taken out.

    Raises
    ------
    FormatError
        A row has no time stamp, or an event has two rows of the same time.
    """
    values = table["stamp"].to_numpy(dtype="float64")
    table = table.drop(columns="stamp")
    anew = None if is_name_of_length(name) else _beginnings(table, values)
    lengths = name.lower() == "seconds" and len(np.unique(values)) < _FEW
    if anew is not None and "interval" not in table and _each_its_own(table, values):
        report.note(f"column {name} differs between the events of an interval; their rows are paired in their order")
        return table
    if anew is None or lengths:
        return _with_lengths(table, values, name, report)
    clock = clock_of(name, values, rises=True) or Clock(True, np.nan)
    if np.isnan(values).any():
        raise FormatError(
            f"{report.file}: {counted(int(np.isnan(values).sum()), 'rows')} without {name}; add it or take them out"
        )
    if anew.any():
        table = _split(table, anew)
        report.note(
            f"column {name} goes back to its beginning {counted(int(anew.sum()), 'times')}: runs put one after another"
        )
    if "interval" not in table:
        _refuse_twice(table, values, name, report)
        table["interval"] = pd.Series(values, index=table.index).groupby(table["run"], sort=False).rank("dense").sub(1)
        report.note(f"column {name} is the time of each row and tells which interval it belongs to; it is no event")
    else:
        report.note(f"column {name} holds the time of each row; it is no event")
    if np.isnan(clock.seconds):
        return table
    at = values * clock.seconds
    dated = since_1970(np.sort(at), 1.0)
    table["at"] = at - np.fmin.reduce(at) if dated else at
    if "seconds" not in table or name.lower() == "seconds":
        table["seconds"] = _lengths(table, dated)
    return table


def _beginnings(table: pd.DataFrame, values: np.ndarray) -> np.ndarray | None:
    """Return in which rows the clock begins anew; None where the values are no stamps."""
    if len(np.unique(values[np.isfinite(values)])) < 2:
        return None
    place = table.groupby(_SERIES, sort=False).ngroup().to_numpy()
    rows = Rows.of(place)
    moved = np.flatnonzero((rows.before < 0) | (values != values[rows.before]))
    found = begins_anew(values[moved], Rows.of(place[moved]))
    none = np.zeros(len(values), dtype=bool)
    if found is not None:
        anew = none.copy()
        anew[moved[found]] = True
        part = pd.Series(anew.astype("int64")).groupby(place).cumsum().to_numpy()
        of_event = pd.Series(part).groupby([place, table["event"].to_numpy()]).nunique()
        return anew if of_event.max() > 1 else none  # one event after another is one run
    event = Rows.of(table.groupby([*_SERIES, "event"], sort=False).ngroup().to_numpy())
    in_order = bool((event.steps(values) >= 0).all())
    return none if in_order or even(np.unique(values)) else None


def numbered(table: pd.DataFrame, report: Report) -> pd.DataFrame:
    """Return a table with intervals, where their numbers begin anew as those of a run of its own."""
    anew = _beginnings(table, table["interval"].to_numpy(dtype="float64"))
    if anew is None or not anew.any():
        return table
    report.note(
        f"the numbers of the intervals begin anew {counted(int(anew.sum()), 'times')}: runs put one after another"
    )
    return _split(table, anew)


def dated_lengths(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with dates whose rows have the length since the date before theirs."""
    return table if "seconds" in table else table.assign(seconds=_lengths(table, True))


def lengths_told(clocks: dict[str, np.ndarray]) -> np.ndarray | None:
    """Return each row's length in s, of the times of its beginning and end or its duration; NaN where neither tells.

    None where no column tells when each row began.
    """
    begins = next((n for n in clocks if is_name_of_beginning(n)), None)
    if begins is None:  # its column holds other things than numbers, in a damaged file
        return None
    of = clock_of(begins, clocks[begins], rises=True) or Clock(True, np.nan)
    for name in (n for n in clocks if n != begins):
        clock = clock_of(name, clocks[name], rises=not is_name_of_length(name))
        if clock is not None and not np.isnan(clock.seconds):
            own = clocks[name] * clock.seconds
            return between(clocks[begins] * of.seconds, own) if clock.stamps else own
    return np.full(len(clocks[begins]), np.nan)


def _split(table: pd.DataFrame, anew: np.ndarray) -> pd.DataFrame:
    part = pd.Series(anew.astype("int64"), index=table.index).groupby([table[k] for k in _SERIES]).cumsum()
    return table.assign(run=[r if p == 0 else f"{r} ({p + 1})" for r, p in zip(table["run"], part, strict=True)])


def _each_its_own(table: pd.DataFrame, values: np.ndarray) -> bool:
    """Whether no two events have a row of the same time, as where each was read out for itself."""
    stamps = table[_SERIES].assign(stamp=values)
    return len(set(table["event"])) > 1 and not stamps.duplicated().any()


def _with_lengths(table: pd.DataFrame, values: np.ndarray, name: str, report: Report) -> pd.DataFrame:
    clock = clock_of(name, values, rises=False)
    if clock is None or np.isnan(clock.seconds) or ("seconds" in table and name.lower() != "seconds"):
        report.note(f"column {name} is no time stamp of rows in order; left out")
        return table
    report.note(f"column {name} is the length of each row's interval; it is no event")
    return table.assign(seconds=values * clock.seconds)


def _refuse_twice(table: pd.DataFrame, values: np.ndarray, name: str, report: Report) -> None:
    twice = table.assign(stamp=values).duplicated([*_SERIES, "event", "stamp"], keep=False).to_numpy()
    if not twice.any():
        return
    row = int(np.flatnonzero(twice)[0])
    differ = table[twice].groupby([*_SERIES, "event", values[twice]], sort=False)["count"].nunique().max()
    of_event = table["event"].iloc[row]
    listed = table.groupby([*_SERIES, "event"], sort=False).size().groupby(level=[0, 1]).nunique()
    whole = twice[(table["event"] == of_event).to_numpy()].all() and listed.max() <= 2  # given to the tool twice
    if differ > 1 and not whole:
        raise FormatError(
            f"{report.file}: {of_event} has several counts at {name} {values[row]:g}, and no column tells them apart. "
            "Add a column place (cpu, pid, host) or run."
        )


def _lengths(table: pd.DataFrame, dated: bool) -> np.ndarray:
    """Return each row's length: from the stamp before it, in its own run and place, to its own."""
    ends = table[[*_SERIES, "at"]].drop_duplicates().sort_values("at", kind="stable")
    first = np.nan if dated else 0.0
    ends["seconds"] = ends["at"] - ends.groupby(_SERIES, sort=False)["at"].shift().fillna(first)
    ends.loc[ends["seconds"] == 0, "seconds"] = np.nan
    return table[[*_SERIES, "at"]].merge(ends, on=[*_SERIES, "at"], how="left")["seconds"].to_numpy()


def shares_counted(
    running: np.ndarray, enabled: np.ndarray | None, report: Report, names: tuple[str, str] = ("running", "enabled")
) -> np.ndarray:
    """Return the share of its time that each event was counted, 0 to 1, of a column ``running``; NaN where unknown.

    It may hold fractions, per cent, or a time that is part of ``enabled``, as the kernel gives it. Beside ``enabled``
    that is never exceeded it is such a time; where per cent or a fraction would be as likely, nothing is known. The
    columns are called ``names``.
    """
    name, whole = names
    most = np.fmax.reduce(running, initial=0.0)
    if enabled is not None and not (running > enabled).any():
        longest = np.fmax.reduce(enabled, initial=0.0)
        if most > _PERCENT or longest <= _PERCENT or ((running == enabled) & (running > 1.0)).any():
            report.note(f"column {name} is a time; its share of {whole} is read")
            return np.divide(running, enabled, out=np.full(len(running), np.nan), where=enabled > 0)
        if most > 1.0 and longest < _PERCENT * _PERCENT:  # else all would have been counted for less than 1 %
            report.note(f"caution: column {name} may be per cent, or a time of which {whole} is the whole; left out")
            return np.full(len(running), np.nan)
    if enabled is not None:
        report.note(f"column {whole} is no whole of {name}, left out")
    if most > _PERCENT:
        report.note(f"column {name} is a time; left out")
        return np.full(len(running), np.nan)
    if most > 1.0:
        report.note(f"column {name} is in per cent; read as fractions")
        return running / _PERCENT
    return running


def refuse_gaps(table: pd.DataFrame, report: Report) -> None:
    """Refuse a table in which nothing tells the interval of a row and events have not as many rows as others."""
    sizes = table.groupby([*_SERIES, "event"], sort=False).size()
    low, high = sizes.groupby(level=[0, 1]).min(), sizes.groupby(level=[0, 1]).max()
    if (low < high).any():
        most, least = sizes.idxmax()[2], sizes.idxmin()[2]
        raise FormatError(
            f"{report.file}: {most} has {sizes.max():,} rows and {least} {sizes.min():,}, and no column tells which "
            "interval a row belongs to. Add a column interval, or the time of each row (time_s)."
        )


def counts_of_totals(table: pd.DataFrame, stamps: bool, report: Report) -> pd.DataFrame:
    """Return a long table in which the counts of running totals are their differences, as for wide tables."""
    if report.asked.cumulative is False:
        return table
    made = table.reset_index(drop=True)
    if "interval" not in made:
        made["interval"] = made.groupby([*_SERIES, "event"], sort=False).cumcount()
    groups = made[[*_SERIES, "interval"]].drop_duplicates()
    groups = groups.assign(series=groups.groupby(_SERIES, sort=False).ngroup()).sort_values(["series", "interval"])
    number = pd.MultiIndex.from_frame(groups[[*_SERIES, "interval"]])
    row = number.get_indexer(pd.MultiIndex.from_frame(made[[*_SERIES, "interval"]]))
    column, names = pd.factorize(made["event"].to_numpy(dtype=object))
    position = np.full((len(groups), len(names)), -1)
    position[row, column] = np.arange(len(made))
    cells = np.where(position >= 0, made["count"].to_numpy()[position], np.nan)
    values = {i: cells[:, i] for i in range(len(names))}
    called = {i: str(n) for i, n in enumerate(names)}
    rows = Rows.of(groups["series"].to_numpy())
    grid = Grid(tuple(called.values()), tuple(values.values()))
    found = find_totals(called, values, rows, stamps, False, report)
    if found is None:
        alone = [called[i] for i in lone_totals(called, values, rows, stamps, report)]
        if stamps:
            note_few_that_rise(called, values, rows, report)
        return table[~table["event"].isin(alone)] if alone else table
    known = {"row": np.arange(len(groups), dtype="float64")}
    if "at" in made:
        first = position.max(axis=1)
        known["at"] = made["at"].to_numpy()[first]
    counts, known, _ = counts_between(grid, values, known, found, rows, report)
    kept = known["row"].astype("int64")
    parts = []
    for i, count in counts.items():
        there = (position[kept, i] >= 0) & np.isfinite(count)
        part = made.iloc[position[kept, i][there]].assign(count=count[there])
        for key in ("at", "seconds"):
            if key in known:
                part[key] = known[key][there]
        parts.append(part)
    lost = len(made) - sum(map(len, parts)) - (~np.isin(np.arange(len(groups)), kept)).sum() * len(names)
    if lost > 0:
        report.note(f"not known, beside a missing total: {counted(int(lost), 'counts')}")
    return pd.concat(parts, ignore_index=True)
