"""Plain tables: wide (one row per interval, one column per event) and long (one row per count), CSV, TSV or parquet.

Long tables have a column ``event`` and a column ``count``, and as known ``run``, ``place``, ``interval``, ``at``,
``seconds``, ``running``, ``time`` and ``work``. In wide tables every column that is none of these is an event, except
ratios that somebody wrote beside the counts (IPC, CPI): those are found by name or by value, left out and noted.
"""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa

from perfkit.errors import FormatError, counted
from perfkit.readers.dates import date_columns, with_seconds
from perfkit.readers.grid import Grid, as_float, as_text, cells_of, find_header, is_number, numbers, read_grid
from perfkit.readers.joined_runs import with_joined_runs
from perfkit.readers.labels import labels, varying_parameters
from perfkit.readers.long_rows import (
    counts_of_totals,
    dated_lengths,
    lengths_told,
    numbered,
    refuse_gaps,
    shares_counted,
    stamped,
)
from perfkit.readers.numbers import DRESSED, NUMBER_PATTERN
from perfkit.readers.open import Opened
from perfkit.readers.perf import settle_duplicates
from perfkit.readers.report import Dump, Report
from perfkit.readers.row_order import begins_anew, even, in_time_order, rises, with_groups
from perfkit.readers.running_totals import (
    SAY_WHICH,
    Rows,
    counts_between,
    find_totals,
    is_axis,
    lone_totals,
    note_few_that_rise,
)
from perfkit.readers.scales import (
    bears_scale,
    factor_of,
    is_gauge,
    is_ratio,
    is_spread,
    is_spread_alone,
    is_statistic,
    is_word_of_another,
    multiplied,
    scaled,
    scaled_beside,
    statistics_of,
)
from perfkit.readers.summary_rows import (
    is_called_summary,
    named_sums,
    refuse_trees,
    without_levels,
    without_levels_of_columns,
    without_named_summaries,
    without_summaries,
)
from perfkit.readers.units_row import with_second_header, without_units_row
from perfkit.samples.clocks import (
    between,
    clock_of,
    is_name_of_beginning,
    is_name_of_clock,
    is_name_of_length,
    since_1970,
)
from perfkit.samples.divided import is_rate
from perfkit.samples.events import TIME_EVENTS, WORK_EVENTS, normalise, sounds_like_event

NAME = "plain-table"
TITLE = "tables of counts, wide or long (CSV, TSV, parquet)"

_KEYS = {
    "run": ("run", "workload", "benchmark", "bench", "program", "application", "app"),
    "place": ("place", "cpu", "core", "socket", "thread", "region", "function"),
    "interval": ("interval", "sample", "index", "row", "no.", "no", "nr.", "nr"),
    "at": ("at",),
    "seconds": ("seconds",),
    "event": ("event", "metric", "counter", "counter_name", "series", "variable", "_field"),
    "count": ("count", "value", "counter-value", "counter_value", "_value"),
    "time": ("time",),
    "work": ("work",),
    "running": (
        "running",
        "pcnt_running",
        "pcnt-running",
        "pct_running",
        "pct-running",
        "running_pct",
        "running (%)",
        "running_percent",
        "percent_running",
        "time_running",
    ),
}
# What tells runs apart beside a column that is called run.
_OF_RUNS = ("program_name", "programname", "executable", "exe", "binary", "command", "cmd", "kernel", "name", "test",
            "testcase", "test_case", "case", "scenario", "input", "dataset", "config", "configuration")  # fmt: skip
_SMALL = 1000  # numbers of programs; larger ones may be counts
_ENABLED = ("enabled", "time_enabled")
_COUNTING = re.compile(r"^((?:time_)?(?:enabled|running))[ _(\[]+(?:ns|us|µs|ms|s)[)\]]?$")  # with a unit
# Times, energies and amounts of data, whose counts may have fractions.
_HAS_FRACTIONS = re.compile(
    r"time|clock|second|sec\b|energy|joule|power|[ _(]m?j\b|[kmgt]i?b(?:ytes?)?\b", re.IGNORECASE
)
# Of columns that are shares of one whole: how many there are, how far rounding takes their sum, rows looked at first.
_FEWEST_SHARES, _MOST_SHARES, _NEARLY, _FIRST = 3, 64, 1.01, 16
_TOPDOWN = re.compile(
    r"(?:tma_)?(?:retiring|bad[ _.-]?spec(?:ulation)?|(?:fe|be|front[ _.-]?end|back[ _.-]?end)[ _.-]?bound)$",
    re.IGNORECASE,
)
# Columns of long tables whose words are statistics of an event's count, and such words.
_OF_STATISTICS = re.compile(
    r"(?:stat(?:istic)?s?|agg(?:regat\w+)?|measure|quantity|field|metric[ _]?type)$", re.IGNORECASE
)
_OF_ONE_COUNT = re.compile(
    r"(?:raw|(?:un)?scaled|corrected|normali[sz]ed|estimated|predicted|expected|per[ _-]\w+|rate|ratio)$", re.IGNORECASE
)
_SCALED = r"(?:raw|(?:un)?scaled|corrected|extrapolated)"
_SCALED_NAME = re.compile(
    rf"(?P<of>.+?)(?:[ _.-]{_SCALED}| ?\({_SCALED}\))$|{_SCALED}[ _.-](?P<behind>.+)$", re.IGNORECASE
)
_IPC = re.compile(r"^(?:ipc|insn[ _]per[ _]cycle|instructions?[ _]per[ _]cycle)(?::\w+)?$", re.IGNORECASE)
_CPI = re.compile(r"^(?:cpi|cycles?[ _]per[ _]ins(?:n|truction))(?::\w+)?$", re.IGNORECASE)
_PROBE_ROWS = 8
_SOME, _MOST_EVENTS = 20, 20_000
# Where the times of the rows are kept beside the columns of the table.
_CLOCK_COLUMN = {"at": -10, "seconds": -11}
_SURE = 9  # steps that must all go up before it is no accident
_FEWEST_ALIKE, _MOST_COMPARED, _ALIKE = 10, 100_000, 0.2  # rows that are compared, and the share of identical ones
_MOST_OF_RATIO = 1000.0  # per thousand instructions
_LENGTH = re.compile(r"second|elapsed|duration|run[ _-]?time|wall|real|took|[\[(_ ][mun]?s[\])]?$", re.IGNORECASE)
_STAMP = re.compile(r"stamp|epoch|uptime|date|^ts$|^at$", re.IGNORECASE)
_KILO = re.compile(
    r"(?:k[ _]?(?:cycles|instr?(?:uctions?)?s?|insns?)|(?:cycles|instr?(?:uctions?)?s?|insns?)[ _.]k)$",
    re.IGNORECASE,
)
_FAR = 3.0  # times the longest step: stamps that began elsewhere
_SAME_CLOCK = 0.7  # of the logarithm: a core's clock varies by less than twice
_FEWEST_WHOLE = 5  # counts, of which but one are whole
_LARGE = 1e5  # counts that are never the same by chance
_TIMES_OF_PERF = ("duration_time", "user_time", "system_time")
_PART_OF_TIME = re.compile(r"user|sys|^[us]time|cpu|kernel|gpu|start|begin|end|stop", re.IGNORECASE)
_LONG_AGO = 1e8  # in s since 1970: a date, and no time of day
_LONG_BEFORE = 10.0  # steps between a clock's beginning and the first row that no run takes
# Other tools' names of what every tool counts. Arm Streamline's columns are "Group:Counter (Core)"; node_exporter's
# are the counters of its collector "perf".
_STREAMLINE = {
    "cycles:cpu cycles": "cycles",
    "clock:cycles": "cycles",
    "instructions:executed": "instructions",
    "instruction:executed": "instructions",
    "branch:mispredicted": "branch-misses",
    "node_perf_cpucycles_total": "cycles",
    "node_perf_instructions_total": "instructions",
    "node_perf_branch_misses_total": "branch-misses",
    "node_perf_branch_instructions_total": "branches",
    "node_perf_cache_misses_total": "cache-misses",
}
_PROMETHEUS = re.compile(r"^node_perf_\w+_total$")
_NUMBERED = re.compile(r"^([A-Z][A-Z0-9_]*)\(\d+\)$")
_STREAMLINE_NAME = re.compile(r"^(?P<counter>[A-Z][\w ]*:[^(]+?|node_perf_\w+)(?: \((?P<core>[^)]+)\))?$")


def recognise(head: str) -> bool:
    """Whether the beginning of a file looks like this format: a header of names, and rows with as many fields."""
    header = find_header(head)
    if header is not None and len(header.names) == 1:
        return _is_aligned(header.text, head[header.end :])
    if header is None:
        return False
    rows = [x for x in head[header.end :].splitlines()[:20] if x.strip()]
    named = [header.names, *(cells_of(x, header.delimiter) for x in rows[:1])]  # the second may be a header, too
    if max(sum(bool(n) and not _is_figure(n) for n in names) for names in named) < 2:
        return False
    return any(x.count(header.delimiter) >= len(header.names) - 1 for x in rows)


def read(content: Opened, report: Report, run: str) -> Dump:
    """Read all counts of a file."""
    data = content.hand_over()
    head = data[: 1 << 16].decode(errors="replace")
    header = find_header(head)
    if header is not None and len(header.names) == 1 and _is_aligned(header.text, head[header.end :]):
        lines = data.split(b"\n")
        report.written = lambda number: lines[number - 1].decode(errors="replace")
        rows = [line.split() for line in lines]
        rows[header.line - 1] = header.text.encode().split()
        if _has_row_names(header.text, head[header.end :]):
            rows[header.line - 1].insert(0, b"index")
        data = b"\n".join(b"\t".join(row) for row in rows)
        report.note("columns that are separated by blanks")
    return to_dump(read_grid(data, report), report, run)


def _is_aligned(header: str, below: str) -> bool:
    """Whether lines without a delimiter are the rows of a table: as many words as the header, mostly figures.

    Of a table that was damaged one row in four may have another number of words: each is told as a problem.
    """
    names = header.split()
    rows = _rows_of_words(below)
    if len(names) < 2 or len(rows) < 2 or any(_is_figure(n) or n == "..." for n in names):
        return False
    first = _has_row_names(header, below)
    whole = [r for r in rows if len(r) == len(names) + first and r != names]
    if 4 * len(whole) < 3 * len(rows):
        return False
    return sum(all(NUMBER_PATTERN.fullmatch(r[i + first]) for r in whole) for i in range(len(names))) >= 2


def _has_row_names(header: str, below: str) -> bool:
    """Whether the rows below have a number before the columns that the header names, as pandas and R print it."""
    rows = _rows_of_words(below)
    numbered = [r[0].strip('"').isdecimal() for r in rows if len(r) == len(header.split()) + 1]
    return bool(rows) and 4 * len(numbered) >= 3 * len(rows) and all(numbered)


def _rows_of_words(below: str) -> list[list[str]]:
    return [x.split() for x in below.splitlines()[:20] if x.strip() and not x.startswith("#")]


def to_dump(grid: Grid, report: Report, run: str) -> Dump:
    """Make a dump of a table of cells, wide or long."""
    dump = _dump_of(grid, report, run)
    _note_lone_decimals(dump.counts, report)
    return dump


def _dump_of(grid: Grid, report: Report, run: str) -> Dump:
    grid = without_units_row(with_second_header(grid, report), report)
    grid = with_seconds(_with_index(_without_empty_rows(grid, report), report), report)
    keys = _key_columns(grid.names)
    refuse_trees(grid, report)
    grid = _filled_down(grid, keys, report)
    grid, keys = with_groups(grid, keys, report)
    if "event" in keys and "count" in keys:
        named = [*(keys[k] for k in ("run", "place") if k in keys), *_further_runs(grid, keys)]
        grid = without_named_summaries(grid, named, keys["event"], keys["count"], report)
        grid, keys = _of_joined_runs(grid, keys, report)
        levels = [i for i in range(len(grid.names)) if i not in keys.values() or i == keys.get("place")]
        grid, place = without_levels(grid, levels, keys["event"], keys["count"], report)
        return _long(grid, keys if place is None else {"place": place} | keys, report, run)
    events = _column_of_events(grid)
    if events is not None:
        return _one_row_an_event(grid, events, report)
    grid, place = without_levels_of_columns(grid, _of_levels(grid, keys), report)
    keys = keys if place is None else {"place": place} | keys
    grid, keys = _of_joined_runs(without_summaries(grid, report), keys, report)
    grid, _ = in_time_order(grid, _series(grid, keys), report)
    return _wide(grid, keys, report, run)


def _is_unnamed(name: str) -> bool:
    """Whether a column has no name, or the one that pandas gives it then."""
    return not name or name.lower().startswith("unnamed:")


def _without_empty_rows(grid: Grid, report: Report) -> Grid:
    """Return a table without its rows of delimiters alone, as spreadsheets save rows that were used once."""
    empty = np.ones(grid.n_rows, dtype=bool)
    for column in grid.columns:
        empty &= np.isnan(column) if isinstance(column, np.ndarray) else column.is_null().to_numpy()
        if not empty.any():
            return grid
    report.left_out(np.asarray(grid.lines)[empty].tolist(), "of empty cells, left out", "rows")
    return grid.only(~empty)


def _with_index(grid: Grid, report: Report) -> Grid:
    """Return a table whose first column, without a name, names the runs if it holds words, as pandas writes an index.

    Dates are no names, nor are events.
    """
    if (
        not _is_unnamed(grid.names[0])
        or "run" in _key_columns(grid.names)
        or not grid.n_rows
        or is_number(grid.columns[0])
    ):
        return grid
    words = as_text(grid.columns[0])
    named = all(w and not _is_figure(w) and w[0].isalpha() for w in words)
    if not named or "event" in _key_columns(grid.names) or _column_of_events(grid) is not None:
        return grid
    report.note("a first column without a name holds words, taken as the names of runs")
    return replace(grid, names=("run", *grid.names[1:]))


def _of_levels(grid: Grid, keys: dict[str, int]) -> list[int]:
    """Return the columns of a wide table whose words may tell levels apart, as cores and sockets."""
    place, runs = keys.get("place"), (keys.get("run"), *_further_runs(grid, keys))
    words = [i for i, c in enumerate(grid.columns) if not is_number(c) and i not in (place, *runs)]
    words = [i for i in words if not is_name_of_clock(grid.names[i]) and not _holds_numbers(grid, i)]
    return words if place is None else [place, *words]


def _note_lone_decimals(counts: pd.DataFrame, report: Report) -> None:
    """Say where one count of an event has decimals and no other, as by a decimal sign that got into it."""
    if len(counts) > _MOST_COMPARED:
        return
    values = counts["count"].to_numpy(dtype="float64")
    fraction = np.isfinite(values) & (values % 1 != 0)
    for event in dict.fromkeys(counts["event"][fraction]):
        of = (counts["event"] == event).to_numpy() & np.isfinite(values)
        own = values[of & fraction]
        if len(own) == 1 and of.sum() >= _FEWEST_WHOLE and not _HAS_FRACTIONS.search(str(event)):
            report.note(
                f"caution: {event} is {own[0]:g} once and a whole number in its {of.sum() - 1:,} other rows: a decimal "
                "sign that got into a count makes it too small"
            )


def _is_figure(name: str) -> bool:
    try:
        float(name.replace(",", "."))
    except ValueError:
        return False
    return True


def _lower(name: str) -> str:
    """Return a name in small letters; of how long something was counted, without the unit."""
    return _COUNTING.sub(r"\1", name.lower())


def _key_columns(names: tuple[str, ...]) -> dict[str, int]:
    lower = [_lower(n) for n in names]
    if any(normalise(n) in (*TIME_EVENTS[:-1], *WORK_EVENTS) for n in lower):
        lower = ["" if n == "variable" else n for n in lower]  # a parameter of a table that has a column per event
    return {key: lower.index(alias) for key, words in _KEYS.items() for alias in words[::-1] if alias in lower}


def _further_runs(grid: Grid, keys: dict[str, int]) -> list[int]:
    """Return the columns that name runs, too, beside the one that is taken: ``program`` beside ``run``.

    They hold words, or whole numbers that are small or come again.
    """
    words = [*_KEYS["run"][::-1], *(_OF_RUNS if "run" in keys and grid.names[keys["run"]].lower() == "run" else ())]
    named = [i for word in words for i, n in enumerate(grid.names) if n.lower() == word]
    return [i for i in named if i != keys.get("run") and (not is_number(grid.columns[i]) or _may_name(grid, i))]


def _may_name(grid: Grid, i: int) -> bool:
    """Whether a column of numbers can name runs; one that may be a parameter or a count is left to others."""
    values, rows = np.unique(as_float(grid.columns[i]), return_counts=True)
    small = grid.names[i].lower() in ("program", "application", "app") and values.max(initial=0) < _SMALL
    whole = len(values) > 0 and bool((values % 1 == 0).all())
    return whole and grid.names[i].lower() in _KEYS["run"] and (small or bool((rows > 1).all()))


def _of_joined_runs(grid: Grid, keys: dict[str, int], report: Report) -> tuple[Grid, dict[str, int]]:
    further = _further_runs(grid, keys)
    joined = with_joined_runs(grid, keys["run"], further, report) if further else grid
    at = {name: i for i, name in reversed([*enumerate(joined.names)])}  # of two the first
    return joined, keys if joined is grid else {key: at[grid.names[i]] for key, i in keys.items()}


def _filled_down(grid: Grid, keys: dict[str, int], report: Report) -> Grid:
    """Return a table in which an empty cell of a run or place is the one above it, as spreadsheets merge them."""
    for i in (*(keys[k] for k in ("run", "place") if k in keys), *_further_runs(grid, keys)):
        column = grid.columns[i]
        if not (np.isnan(column).any() if isinstance(column, np.ndarray) else column.null_count):
            continue
        cells = as_text(column)
        named = sum(map(bool, cells))
        # Merged cells: at least as many are empty as not, and each name stands there once.
        if not cells[0] or 2 * named > len(cells) or len({*filter(None, cells)}) < named:
            continue
        report.note(f"column {grid.names[i]}: an empty cell is taken to repeat the one above it")
        filled = pa.chunked_array([pd.Series([c or None for c in cells], dtype=object).ffill().tolist()])
        grid = replace(grid, columns=(*grid.columns[:i], filled, *grid.columns[i + 1 :]), matrix=None)
    return grid


# ------------------------------------------------------------------ long


def _long(grid: Grid, keys: dict[str, int], report: Report, run: str) -> Dump:
    unit = next(
        (i for i, n in enumerate(grid.names) if n.lower() in ("unit", "units") and i not in keys.values()), None
    )
    others = [i for i in range(len(grid.names)) if i not in (*keys.values(), unit)]
    enabled = next((i for i in others if "running" in keys and _lower(grid.names[i]) in _ENABLED), None)
    pair = {"time", "work"} <= keys.keys()
    clocks = [] if pair or "at" in keys else _clocks_of_rows(grid, keys, others)
    left = [grid.names[i] for i in others if i not in (*clocks, enabled)]
    if twice := [n for n in left if "running" in keys and re.fullmatch(_SCALED, n, re.IGNORECASE)]:
        raise FormatError(
            f"{report.file}: columns {grid.names[keys['count']]} and {twice[0]} are two counts of one event, as "
            "counted and scaled up to the whole time. Keep the scaled one (perf's are scaled), and call it count"
        )
    if left:
        report.note(f"columns that say nothing of counts, left out: {', '.join(left)}")
    wanted = [keys[k] for k in ("interval", "at", "seconds", "count", "time", "work", "running") if k in keys]
    dates = date_columns(grid, [*(keys[k] for k in ("at", "time") if k in keys), *clocks], report)
    values = numbers(grid, [i for i in {*wanted, *clocks} if i not in dates], report, counted=True)
    values |= {i: v - np.fmin.reduce(v) for i, v in dates.items()}
    if keys["count"] not in values:
        raise FormatError(f"{report.file}: expected numbers in the column {grid.names[keys['count']]}; it holds text")
    _refuse_repeats(grid, keys, values[keys["count"]], report)
    table = pd.DataFrame({k: values[i] for k, i in keys.items() if i in values})
    if textual := [grid.names[i] for i in clocks if i not in values and i not in dates]:
        report.note(f"columns named like clocks that hold no numbers, left out: {', '.join(textual)}")
    dated = next((i for i in (*clocks, keys.get("time", -1)) if i in dates), None)
    if dated is not None and not pair:
        report.note(f"column {grid.names[dated]} holds the date of each row; it is no event")
        table = table.drop(columns=["at", "time"], errors="ignore").assign(at=values[dated])
        keys = {k: i for k, i in keys.items() if k != "time"}
        began = next((i for i in dates if is_name_of_beginning(grid.names[i])), None)
        if began is not None and "seconds" not in table:
            rest = {grid.names[i]: values[i] for i in clocks if i in values and i not in dates}
            none = {grid.names[began]: np.full(grid.n_rows, np.nan)}
            lengths = between(dates[began], dates[dated]) if began != dated else lengths_told(none | rest)
            table = table if lengths is None else table.assign(seconds=lengths)
    clock = next((i for i in clocks if i in values and i not in dates), None) if dated is None else None
    if clock is not None:
        table["stamp"] = values[clock]
        if any(is_name_of_beginning(grid.names[i]) for i in clocks) and "seconds" not in table:
            told = lengths_told({grid.names[i]: values[i] for i in clocks if i in values and i not in dates})
            table = table if told is None else table.assign(seconds=told)
        table = table.drop(columns="time", errors="ignore") if keys.get("time") == clock else table
    table["event"] = _names(grid, keys["event"])
    table["run"] = _names(grid, keys["run"], run) if "run" in keys else run
    table["run"] = _with_parts(table["run"].to_numpy(dtype=object), grid)
    table["place"] = _names(grid, keys["place"]) if "place" in keys else ""
    nameless = (table["event"] == "").to_numpy()
    for row in np.flatnonzero(nameless).tolist():
        report.problem(grid.lines[row], "", "a count without the name of its event")
    ratio = table["event"].map({e: is_ratio(e) for e in table["event"].unique()}).to_numpy(dtype=bool)
    if unit is not None:
        table["count"] = multiplied(table["count"].to_numpy(), _unit_factors(grid, unit, report))
        ratio = ratio | _rates_by_unit(grid, unit)
    if ratio.any():
        _note_ratios(table["event"][ratio], report)
    timed = _tells_time(table["event"], report)
    kept = ~nameless & ~ratio & ~timed
    table = table[kept].reset_index(drop=True)
    if "running" in table:
        of = numbers(grid, [enabled], report).get(enabled) if enabled is not None else None
        if enabled is not None and of is None:
            report.note(f"column {grid.names[enabled]} holds text, left out")
        called = (grid.names[keys["running"]], grid.names[enabled or 0])
        table["running"] = shares_counted(table["running"].to_numpy(), None if of is None else of[kept], report, called)
    if pair and not {"time", "work"} & set(table["event"]):
        if "interval" not in table and "at" in table:
            table["interval"] = table.groupby("run", sort=False)["at"].rank("dense").sub(1)
        report.note("time and work are columns of their own; taken as cycles and instructions unless said otherwise")
        return Dump(table, axes=("", ""))
    if "interval" in table:
        table = numbered(table, report)
    if clock is not None:
        table = stamped(table, grid.names[clock], report)
    elif dated is not None:
        table = dated_lengths(table)
    if "interval" not in table and "at" in table:
        table["interval"] = table.groupby("run", sort=False)["at"].rank("dense").sub(1)
    left = [c for c in ("time", "work") if c in table]
    if left:
        report.note(f"columns that tell nothing without each other, left out: {', '.join(left)}")
    table = table.drop(columns=["time", "work"], errors="ignore")
    telling = [i for i in others if i not in clocks and _tells_apart(grid, i, keys["event"])]
    _refuse_statistics(grid, telling, report)
    apart = [grid.names[i] for i in telling]
    if "interval" in table:
        if apart and table.duplicated(["run", "place", "interval", "event"]).any():
            raise FormatError(
                f"{report.file}: an interval has several rows of an event, told apart under {', '.join(apart)} alone. "
                "If those are places side by side, none of which sums up others, call the column place; if they are "
                "runs, call it run; else keep the rows of one of them."
            )
        table = settle_duplicates(table, report)
    else:
        refuse_gaps(table, report)
        if apart:
            report.note(
                f"caution: no column tells the interval of a row, and rows of one event are taken for intervals; "
                f"{', '.join(apart)} told them apart. If those are places or levels that sum up others, say so in place"
            )
    return Dump(counts_of_totals(table, "at" in table or clock is not None, report))


def _refuse_repeats(grid: Grid, keys: dict[str, int], counts: np.ndarray, report: Report) -> None:
    """Refuse a long table in which what is called its counts is one number, of time and of work, too."""
    known = {normalise(name) for name in _names(grid, keys["event"])}
    axes = bool(known & set(TIME_EVENTS)) and bool(known & set(WORK_EVENTS))
    if axes and grid.n_rows > _FEWEST_SHARES and (counts == counts[0]).all() and counts[0] != 0:
        raise FormatError(
            f"{report.file}: {grid.names[keys['count']]} is {counts[0]:g} in every row, of cycles and of instructions: "
            "how often was measured, and no count. Call the column of the counts value, and this one n"
        )


def _tells_apart(grid: Grid, i: int, event: int) -> bool:
    """Whether a column of text has a word of its own for some rows of each event, and no other for any other event."""
    if is_number(grid.columns[i]):
        return False
    words: dict[str | None, set[str | None]] = {}
    for name, word in zip(as_text(grid.columns[event]), as_text(grid.columns[i]), strict=True):
        words.setdefault(name, set()).add(word)
    return len({frozenset(w) for w in words.values()}) == 1 and len(next(iter(words.values()))) > 1


def _refuse_statistics(grid: Grid, columns: list[int], report: Report) -> None:
    """Refuse a long table in which a column says that the rows of an event are its mean, its spread, or scaled."""
    for i in columns:
        words = list(dict.fromkeys(w for w in as_text(grid.columns[i]) if w))
        if _OF_STATISTICS.match(grid.names[i]) or any(
            is_statistic(w) or is_spread_alone(w) or _OF_ONE_COUNT.match(w) for w in words
        ):
            raise FormatError(
                f"{report.file}: column {grid.names[i]} tells several numbers of one event apart "
                f"({', '.join(words[:4])}{', ...' if len(words) > 4 else ''}), of which one at most is its count. Keep "
                "the rows of that one; where all are counts, side by side or in turn, call the column place or run"
            )


def _clocks_of_rows(grid: Grid, keys: dict[str, int], others: list[int]) -> list[int]:
    """Return the columns of a long table that may tell the time of its rows, the likeliest first."""
    named = [i for i in (*others, keys.get("time", -1)) if i >= 0 and is_name_of_clock(grid.names[i])]
    if not named:  # what holds dates that change is one by any name
        dates = date_columns(grid.take(np.arange(min(grid.n_rows, _SOME))), others, Report("", collect=True))
        named = [i for i in dates if len(set(as_text(grid.columns[i]))) > 1]
    named.sort(key=lambda i: (is_name_of_length(grid.names[i]), is_name_of_beginning(grid.names[i])))
    return [*named, *([keys["seconds"]] if "seconds" in keys and "interval" not in keys else [])]


def _unit_factors(grid: Grid, unit: int, report: Report) -> np.ndarray:
    """Return what each row's unit scales its count by."""
    units = _names(grid, unit)
    factors = {u: factor_of(u) for u in dict.fromkeys(units)}
    scaling = [u for u, f in factors.items() if f != 1.0]
    others = [u for u, f in factors.items() if f == 1.0 and u]
    if scaling:
        report.note(f"counts in {', '.join(scaling)}, multiplied out")
    if others:
        report.note(f"counts keep their unit: {', '.join(others[:8])}")
    return np.array([factors[u] for u in units])


def _rates_by_unit(grid: Grid, unit: int) -> np.ndarray:
    """Tell which rows hold rates or shares, by their unit (``1/s``, ``%``, ``GHz``)."""
    units = _names(grid, unit)
    rates = {u: is_rate(f"count ({u})") for u in dict.fromkeys(units)}
    return np.array([rates[u] for u in units], dtype=bool)


def _tells_time(events: pd.Series, report: Report) -> np.ndarray:
    """Tell which rows of a long table hold times under a name such as ``runtime``, beside rows of cycles."""
    names = [str(n) for n in events.unique()]
    cycles = any(normalise(n) in TIME_EVENTS[:-1] for n in names)
    timed = [n for n in names if cycles and n not in report.asked.axes and is_name_of_clock(n)]
    timed = [n for n in timed if normalise(n) not in (*_TIMES_OF_PERF, *TIME_EVENTS[:-1])]
    if timed:
        report.note(f"rows that tell the time, no events: {', '.join(timed)}")
    return events.isin(timed).to_numpy()


def _note_ratios(events: pd.Series, report: Report) -> None:
    report.note(f"{counted(len(events), 'rows')} of rates and quotients, left out: {', '.join(events.unique()[:8])}")


# ------------------------------------------------------------------ one row per event, one column per run


def _column_of_events(grid: Grid) -> int | None:
    """Return the column whose cells name events, time and work among them, each once; None where there is none."""
    for i, column in enumerate(grid.columns if grid.n_rows <= _MOST_EVENTS else ()):
        # A heading that is an event itself is the first row of perf's output that lost the signs of it, and no heading.
        if is_number(column) or normalise(grid.names[i]) in (*TIME_EVENTS, *WORK_EVENTS):
            continue
        cells = [normalise(c) if c else "" for c in as_text(column)]
        known = {c for c in cells if c}
        if known & set(TIME_EVENTS) and known & set(WORK_EVENTS) and len(known) == len(cells):
            return i
    return None


def _one_row_an_event(grid: Grid, events: int, report: Report) -> Dump:
    """Read a table that was turned: a row per event, and a column per run."""
    rest = [i for i in range(len(grid.names)) if i != events]
    statistics = _statistics(grid, [i for i in rest if _holds_numbers(grid, i)], report)
    values = numbers(grid, [i for i in rest if i not in statistics], report, counted=True)
    counting = _counting_of_rows(grid, values)
    shares = {k: values.pop(i) for k, i in counting.items()}
    spreads = [
        i
        for i in values
        if is_spread(grid.names[i], set(grid.names)) or is_spread_alone(grid.names[i]) or is_ratio(grid.names[i])
    ]
    runs = [i for i in values if i not in spreads]
    runs = [i for i in runs if _one_of_several(i, runs, grid) or not _of_other_runs(i, runs, values)]
    sums = named_sums({grid.names[i]: values[i] for i in runs})
    runs = [i for i in runs if grid.names[i] not in sums]
    unit = next((i for i in rest if i not in values and grid.names[i].lower() in ("unit", "units")), None)
    left = [i for i in rest if i not in runs and i != unit and not ("running" in counting and i in counting.values())]
    if left:
        named = ", ".join(grid.names[i] or f"column {i + 1}" for i in left)
        report.note(f"columns that hold no counts, left out: {named}")
    if not runs:
        raise FormatError(f"{report.file}: a table of events without a column of counts")
    if len(runs) > 1 and all(_OF_ONE_COUNT.match(grid.names[i]) for i in runs):
        raise FormatError(
            f"{report.file}: the columns {', '.join(grid.names[i] for i in runs)} tell several numbers of one event, "
            "of which one at most is its count. Keep that one (perf's own is the scaled one)"
        )
    report.note(f"one row per event, one column per run: {counted(len(runs), 'runs')} of one interval each")
    factors = np.ones(grid.n_rows) if unit is None else _unit_factors(grid, unit, report)
    names = _names(grid, events)
    share = None
    if "running" in shares:
        called = (grid.names[counting["running"]], grid.names[counting.get("enabled", 0)])
        share = shares_counted(shares["running"], shares.get("enabled"), report, called)
    parts = [
        pd.DataFrame(
            {"run": grid.names[i] or f"column {i + 1}", "event": names, "count": multiplied(values[i], factors)}
        )
        for i in runs
    ]
    table = pd.concat(parts, ignore_index=True)
    if share is not None:
        table["running"] = np.tile(share, len(runs))
    ratio = table["event"].map(is_ratio).to_numpy(dtype=bool)
    if unit is not None:
        ratio = ratio | np.tile(_rates_by_unit(grid, unit), len(runs))
    table, timed = _lengths_of_runs(table, report)
    ratio = ratio & ~timed
    if ratio.any():
        _note_ratios(table["event"][ratio], report)
    return Dump(table[~(ratio | timed)].reset_index(drop=True).assign(interval=0))


def _counting_of_rows(grid: Grid, values: dict[int, np.ndarray]) -> dict[str, int]:
    """Return the columns of a turned table that say how long each event was counted."""
    words = {"running": _KEYS["running"], "enabled": _ENABLED}
    return {k: i for k, of in words.items() for i in values if _lower(grid.names[i]) in of}


def _lengths_of_runs(table: pd.DataFrame, report: Report) -> tuple[pd.DataFrame, np.ndarray]:
    """Return a turned table with the length of each run as its rows ``time (s)`` tell, and which rows tell times.

    Events of perf that count time (``user_time``, ``task-clock``) stay events.
    """
    names = [n for n in table["event"].unique() if n not in report.asked.axes and is_name_of_clock(n)]
    names = [n for n in names if normalise(n) not in _TIMES_OF_PERF]
    timed = table["event"].isin(names).to_numpy()
    lengths: pd.Series | None = None
    for name in names:
        own = table[table["event"] == name]
        clock = clock_of(name, own["count"].to_numpy(), rises=False)
        if lengths is None and clock is not None and np.isfinite(clock.seconds) and not _PART_OF_TIME.search(name):
            lengths = own.drop_duplicates("run").set_index("run")["count"] * clock.seconds
    if names:
        report.note(f"rows that tell the time, no events: {', '.join(names)}")
    return (table if lengths is None else table.assign(seconds=table["run"].map(lengths))), timed


def _holds_numbers(grid: Grid, i: int) -> bool:
    cells = as_text(grid.columns[i])
    return sum(c is not None and DRESSED.fullmatch(c) is not None for c in cells) * 2 > len(cells)


def _statistics(grid: Grid, columns: list[int], report: Report) -> list[int]:
    """Return the columns that sum up or compare runs; where there are no others, one of them is kept as the counts."""
    statistics = statistics_of(grid.names[i] for i in columns)
    summaries = {n for n in grid.names if is_called_summary(n) and not is_spread_alone(n)}
    found = [i for i in columns if grid.names[i] in statistics | summaries]
    others = [
        i for i in columns if i not in found and not is_spread_alone(grid.names[i]) and not is_ratio(grid.names[i])
    ]
    if not found or others:
        return found
    for word in ("total", "sum", "mean", "average", "avg", "median"):
        for i in found:
            if grid.names[i].strip().lower() == word:
                report.note(f"column {grid.names[i]} taken as the counts of one run")
                return [j for j in found if j != i]
    raise FormatError(
        f"{report.file}: the columns {', '.join(grid.names[i] for i in found)} sum up or compare runs; none holds the "
        "counts of one. Give a column per run, or one called mean or total."
    )


def _one_of_several(i: int, runs: list[int], grid: Grid) -> bool:
    """Whether a column is named like another but for its number (``run3`` beside ``run1``)."""
    shape = re.sub(r"\d+", "0", grid.names[i])
    return shape != grid.names[i] and any(j != i and re.sub(r"\d+", "0", grid.names[j]) == shape for j in runs)


def _of_other_runs(i: int, runs: list[int], values: dict[int, np.ndarray]) -> bool:
    """Whether a column is the sum of all others, or the quotient of two, in every row."""
    others = [values[j] for j in runs if j != i]
    column = values[i]
    if len(others) < 2 or len(column) < 3:
        return False
    if np.allclose(column, np.sum(others, axis=0), rtol=1e-9, atol=0):
        return True
    if not (column < 1000).all():
        return False
    with np.errstate(divide="ignore", invalid="ignore"):
        return any(a is not b and (np.abs(a / b / column - 1) < 0.005).all() for a in others for b in others)


def _names(grid: Grid, i: int, default: str = "") -> list[str]:
    return [c or default for c in as_text(grid.columns[i])]


def _with_parts(runs: np.ndarray, grid: Grid) -> np.ndarray:
    """Give the runs of files that were put one after another their own names."""
    for part, row in enumerate(grid.parts, 2):
        stop = grid.parts[part - 1] if part - 1 < len(grid.parts) else grid.n_rows
        runs[row:stop] = [f"{r} ({part})" for r in runs[row:stop]]
    return runs


# ------------------------------------------------------------------ wide


def _wide(grid: Grid, keys: dict[str, int], report: Report, run: str) -> Dump:
    keys = {k: i for k, i in keys.items() if k in ("run", "place", "interval", "at", "seconds")}
    rest = [i for i in range(len(grid.names)) if i not in keys.values()]
    if "interval" in keys and not _may_number(grid, keys["interval"]):
        rest.append(keys.pop("interval"))
    unnamed = [i for i in rest if _is_unnamed(grid.names[i])]
    empty = [i for i in unnamed if not any(as_text(grid.columns[i]))]  # each row ends with a delimiter
    _refuse_side_by_side(grid, report)
    rest = [i for i in rest if i not in empty]
    unnamed = [i for i in unnamed if i not in empty]
    if numbering := [i for i in unnamed if _is_index(grid, i)]:
        report.note("a column without a name numbers the rows; left out")
        rest = [i for i in rest if i not in numbering]
        unnamed = [i for i in unnamed if i not in numbering]
    if unnamed and date_columns(grid, unnamed[:1], Report(report.file, collect=True)).keys() != {*unnamed}:
        raise FormatError(f"{report.file}: column {unnamed[0] + 1} has no name; every event needs one")
    dates = date_columns(grid, [*rest, *(keys[k] for k in ("at", "seconds") if k in keys)], report)
    keys = {k: i for k, i in keys.items() if i not in dates}
    rest = [i for i in rest if i not in dates]
    of_keys = numbers(grid, [keys[k] for k in ("interval", "at", "seconds") if k in keys], report)
    values = numbers(grid, rest, report)
    sweep = bool(varying_parameters(grid, values))
    lengths = of_keys.get(keys.get("seconds", -1))
    if not (sweep and lengths is not None and _is_length_in_sweep(grid, values, lengths, "seconds")):
        keys = _with_stamps(grid, keys, of_keys, report)
    text = [grid.names[i] for i in rest if i not in values]
    if text:
        report.note(f"columns that hold text, left out: {', '.join(text)}")
    named = sum(_PROMETHEUS.match(grid.names[i]) is not None for i in values) > 1
    grid, values = _scaled(_plain_names(grid, report), values, report)
    series = _series(grid, keys)
    _ask_about_steps(grid, values, Rows.of(series), report)
    values = _drop_ratios(grid, values, report)
    sweep = bool(varying_parameters(grid, values))
    values, times = _take_clocks(grid, values, dates, None if sweep else Rows.of(series), report)
    of_keys, keys = of_keys | times, keys | {k: _CLOCK_COLUMN[k] for k in _CLOCK_COLUMN if _CLOCK_COLUMN[k] in times}
    of_run = np.array(_names(grid, keys["run"]) if "run" in keys else [""] * grid.n_rows, dtype=object)
    values = labels(grid, values, _with_parts(of_run, grid), report)
    names = _settle_columns(grid, values, report)
    if "at" not in keys:
        _twice(grid, values, report)
    rows = Rows.of(_by_time(series, of_keys.get(keys.get("at", 0))))
    totals = find_totals(names, values, rows, "at" in keys, sweep, report, named)
    if totals is not None:
        known = {k: of_keys[keys[k]] for k in ("interval", "at", "seconds") if keys.get(k) in of_keys}
        values, known, grid = counts_between(grid, values, known, totals, rows, report)
        keys |= {k: _CLOCK_COLUMN[k] for k in known if k in _CLOCK_COLUMN and k not in keys}
        of_keys |= {keys[k]: v for k, v in known.items()}
        names = {i: names[i] for i in values}
    else:
        for i in lone_totals(names, values, rows, "at" in keys, report):
            del values[i], names[i]
        if "at" in keys or any(is_name_of_clock(n) for n in grid.names):
            note_few_that_rise(names, values, rows, report)
    missing = {names[i]: int(np.isnan(values[i]).sum()) for i in names}
    if any(missing.values()):
        report.note(f"missing counts: {', '.join(f'{e} {n:,} of {grid.n_rows:,}' for e, n in missing.items() if n)}")
    if not names:
        raise FormatError(
            f"{report.file}: a table without a column of counts: {'; '.join(report.notes) or 'only text'}"
        )
    return Dump(_lengthen(grid, keys, of_keys, names, values, run, report))


def _refuse_side_by_side(grid: Grid, report: Report) -> None:
    """Refuse two tables side by side: time and work under one name each, twice, as of two sheets or machines.

    pandas gives the second of two equal names a number (``cycles.1``).
    """
    plain = [re.sub(r"\.1$", "", n) for n in grid.names]
    twice = {n for n in plain if n and plain.count(n) > 1 and n in grid.names}
    roles = [next((n for n in twice if normalise(n) in of), "") for of in (TIME_EVENTS[:-1], WORK_EVENTS)]
    if not all(roles) or any(n in report.asked.axes for n in twice):
        return
    if any(c and not c[0].isdecimal() for i, n in enumerate(plain) if n in roles for c in as_text(grid.columns[i])):
        return  # a second row of headers
    pairs = [[as_text(grid.columns[i]) for i, n in enumerate(plain) if n == role][:2] for role in roles]
    if all(a != b for a, b in pairs):
        raise FormatError(
            f"{report.file}: {roles[0]} and {roles[1]} are there twice, with other counts: two tables side by side. "
            "Write one below the other with a column run, or a file each"
        )


def _plain_names(grid: Grid, report: Report) -> Grid:
    """Call what Streamline counts as other tools do, and counters without the numbers behind their names.

    With several kinds of core, each keeps its core's name.
    """
    parts = [_STREAMLINE_NAME.match(n) for n in grid.names]
    called = [_STREAMLINE.get(m["counter"].lower(), "") if m else "" for m in parts]
    # What lscpumf's tools write behind a counter's name is its number (CPU_CYCLES(0)), unless names need it.
    counters = [m[1] if (m := _NUMBERED.match(n)) else n for n in grid.names]
    numbered = (
        len(set(counters)) == len(counters) and sum(c != n for c, n in zip(counters, grid.names, strict=True)) > 2
    )
    new = []
    for name, match, plain in zip(counters if numbered else grid.names, parts, called, strict=True):
        core = f" ({match['core']})" if match and match["core"] and called.count(plain) > 1 else ""
        new.append(f"{plain}{core}" if plain else name)
    renamed = [f"{a} as {b}" for a, b in zip(grid.names, new, strict=True) if a != b]
    if renamed:
        report.note(f"columns by the names of other tools: {', '.join(renamed)}")
    return replace(grid, names=tuple(new)) if renamed else grid


def _scaled(grid: Grid, values: dict[int, np.ndarray], report: Report) -> tuple[Grid, dict[int, np.ndarray]]:
    """Multiply out what the names of columns scale by (``cycles (M)``)."""
    of = scaled_beside if any(bears_scale(grid.names[i]) for i in values) else scaled
    found = {i: of(grid.names[i]) for i in values}
    found = {i: f for i, f in found.items() if f[1] != 1.0}
    kilo = [grid.names[i] for i in values if _KILO.match(grid.names[i])]
    users = {f"{name[:-1]}u" for name in kilo if name.lower().endswith("k")}  # cycles_k beside cycles_u
    if kilo and not users & set(grid.names):
        report.note(
            f"caution: {', '.join(kilo)} may be thousands, or what the kernel did, and are read as they stand; if they "
            "are thousands, call them 'cycles (K)' and the like"
        )
    if not found:
        return grid, values
    told = ", ".join(f"{grid.names[i]} as {name} times {factor:g}" for i, (name, factor) in found.items())
    report.note(f"columns that name a scale, multiplied out: {told}")
    names = tuple(found[i][0] if i in found else n for i, n in enumerate(grid.names))
    return replace(grid, names=names, matrix=None), {
        i: multiplied(v, found[i][1]) if i in found else v for i, v in values.items()
    }


def _series(grid: Grid, keys: dict[str, int]) -> np.ndarray:
    """Return, for each row, what names the series of rows that it belongs to: its run, part and place."""
    codes = np.zeros(grid.n_rows, dtype="int64")
    codes[[p for p in grid.parts if p < grid.n_rows]] = 1
    codes = np.cumsum(codes)
    for key in (k for k in ("run", "place") if k in keys):
        of_key, names = pd.factorize(np.array(_names(grid, keys[key]), dtype=object))
        codes = codes * len(names) + of_key
    return codes


def _with_stamps(grid: Grid, keys: dict[str, int], of_keys: dict[int, np.ndarray], report: Report) -> dict[str, int]:
    """Take a column of seconds that counts up evenly from zero for the time of each row, and not for its length."""
    values = of_keys.get(keys.get("seconds", -1))
    if "at" in keys or values is None or not np.isfinite(values).all():
        return keys
    rows = Rows.of(_series(grid, keys))
    parts = np.unique(values)
    if not (even(parts) and parts[0] <= 2 * parts[1] - 2 * parts[0] and rises(values, rows)):
        return keys
    report.note(f"column {grid.names[keys['seconds']]} counts up evenly: the time of each row's end, not its length")
    return {k: i for k, i in keys.items() if k != "seconds"} | {"at": keys["seconds"]}


def _by_time(series: np.ndarray, at: np.ndarray | None) -> np.ndarray:
    """Return the series of rows, those after a clock that begins anew as series of their own."""
    anew = None if at is None else begins_anew(at, Rows.of(series))
    if anew is None or not anew.any():
        return series
    parts = pd.Series(anew.astype("int64")).groupby(series).cumsum().to_numpy()
    return series * (int(parts.max()) + 1) + parts


def _is_numbering(grid: Grid, i: int) -> bool:
    """Whether a column counts up by one."""
    if not is_number(grid.columns[i]):
        return False
    values = as_float(grid.columns[i])
    return bool(len(values) and values[0] in (0, 1) and (np.diff(values) == 1).all())


def _is_index(grid: Grid, i: int) -> bool:
    """Whether a column without a name numbers the rows, or did before some were taken out or all were sorted."""
    values = as_float(grid.columns[i]) if is_number(grid.columns[i]) else np.array([np.nan])
    whole = np.isfinite(values).all() and (values % 1 == 0).all()
    return _is_numbering(grid, i) or bool(i == 0 and whole and len(np.unique(values)) == len(values))


def _may_number(grid: Grid, i: int) -> bool:
    """Whether a column can be the number of the interval: whole where it is called so, else counting up by one."""
    if grid.names[i].lower() != "interval":
        return _is_numbering(grid, i)
    return is_number(grid.columns[i]) and bool((as_float(grid.columns[i]) % 1 == 0).all())


def _settle_columns(grid: Grid, values: dict[int, np.ndarray], report: Report) -> dict[int, str]:
    """Name the columns of events: of two with one name and the same values one is kept, others are numbered."""
    names: dict[int, str] = {}
    first: dict[str, int] = {}
    copies: dict[str, int] = {}
    for i in list(values):
        name = grid.names[i]
        if name not in first:
            first[name] = i
            names[i] = name
        elif np.array_equal(values[first[name]], values[i], equal_nan=True):
            report.note(f"column {name} is there twice with the same values; one is kept")
        else:
            copies[name] = copies.get(name, 1) + 1
            names[i] = f"{name}#{copies[name]}"
            report.note(f"column {name} is there twice with different values; the further one is called {names[i]}")
    return names


def _lengthen(
    grid: Grid,
    keys: dict[str, int],
    of_keys: dict[int, np.ndarray],
    names: dict[int, str],
    values: dict[int, np.ndarray],
    run: str,
    report: Report,
) -> pd.DataFrame:
    """Make one row per count, one event after another."""
    n, k = grid.n_rows, len(names)
    one = pd.DataFrame(index=pd.RangeIndex(n))
    runs = np.array(_names(grid, keys["run"], run) if "run" in keys else [run] * n, dtype=object)
    one["run"] = _with_parts(runs, grid)
    one["place"] = _names(grid, keys["place"]) if "place" in keys else ""
    for key in ("at", "seconds"):
        one[key] = of_keys.get(keys.get(key, -1), np.full(n, np.nan))
    if "at" in keys:
        one["run"] = _split_by_time(one, report)
        if "seconds" not in keys:
            ends = one.groupby(["run", "place"], sort=False)["at"]
            one["seconds"] = one["at"] - ends.shift().fillna(_beginnings(one, report))
            # A row that ends where its clock begins, or with the row before it, has a length that nobody knows.
            one.loc[one["seconds"] == 0, "seconds"] = np.nan
    number = of_keys.get(keys.get("interval", -1))
    one["interval"] = one.groupby(["run", "place"], sort=False).cumcount() if number is None else number
    columns: dict[str, object] = {}
    for key in ("run", "place"):
        codes, labels = pd.factorize(one[key].to_numpy(dtype=object))
        columns[key] = pd.Categorical.from_codes(np.tile(codes, k), categories=labels)
    columns["interval"] = np.tile(one["interval"].to_numpy(dtype="int64"), k)
    for key in ("at", "seconds"):
        columns[key] = np.tile(one[key].to_numpy(dtype="float64"), k)
    columns["event"] = pd.Categorical.from_codes(np.repeat(np.arange(k), n), categories=list(names.values()))
    unknown = np.full(n * k, np.nan)
    columns |= {"time": unknown, "work": unknown, "count": _stacked(grid, names, values), "running": unknown}
    return pd.DataFrame(columns, copy=False)


def _stacked(grid: Grid, names: dict[int, str], values: dict[int, np.ndarray]) -> np.ndarray:
    if grid.matrix is not None and len(names) == len(grid.names) and all(values[i] is grid.columns[i] for i in names):
        return grid.matrix.reshape(-1)
    return np.concatenate([values[i] for i in names])


def _beginnings(one: pd.DataFrame, report: Report) -> "pd.Series | float":
    """Return where the clock of each row's run begins: zero, or its first time where it shows dates or ran before.

    The first time of a clock that ran before is far above its steps.
    """
    first = one.groupby("run", sort=False)["at"].transform("min")
    if report.dated:
        return first
    steps = one.groupby(["run", "place"], sort=False)["at"].diff()
    step = steps.where(steps > 0).groupby(one["run"], sort=False).transform("median")
    ran_before = first > _LONG_BEFORE * step
    if ran_before.any():
        report.note("the clock ran before the first row, whose length is therefore not known")
    return first.where(ran_before, 0.0)


def _twice(grid: Grid, values: dict[int, np.ndarray], report: Report) -> None:
    """Say where the second half of the rows repeats the first: a dump that was appended to itself."""
    half = grid.n_rows // 2
    halves = [(v[:half], v[half:]) for v in values.values()]
    if half < 2 or grid.n_rows % 2 or not all(np.array_equal(a, b, equal_nan=True) for a, b in halves):
        _repeated(grid, values, report)
        return
    if any(np.ptp(a) > 0 for a, _ in halves):
        report.note(
            f"caution: rows {half + 1:,} to {grid.n_rows:,} are identical to the {half:,} before them: "
            "the same dump twice? Identical rows are no further evidence"
        )


def _repeated(grid: Grid, values: dict[int, np.ndarray], report: Report) -> None:
    """Say where many rows are identical to others, as a join of tables leaves them; counts of runs hardly ever are."""
    axes = [values[i] for i in values if normalise(grid.names[i]) in (*TIME_EVENTS, *WORK_EVENTS)]
    if len(axes) < 2 or not _FEWEST_ALIKE <= grid.n_rows <= _MOST_COMPARED or min(np.nanmax(a) for a in axes) < _LARGE:
        return
    rows = np.column_stack(list(values.values()))
    different = len(np.unique(rows, axis=0))
    if different > 2 and grid.n_rows - different >= _ALIKE * grid.n_rows:
        report.note(
            f"caution: {grid.n_rows - different:,} of {grid.n_rows:,} rows are identical to others, as a join of "
            "tables leaves them. Identical rows are no further evidence, and totals count them again"
        )


def _split_by_time(one: pd.DataFrame, report: Report) -> np.ndarray:
    """Tell runs apart where time goes back: files that were put one after another without their headers."""
    runs = one["run"].to_numpy(dtype=object, copy=True)
    for key, rows in one.groupby(["run", "place"], sort=False).indices.items():
        back = np.concatenate([[False], np.diff(one["at"].to_numpy()[rows]) < 0])
        if not back.any():
            continue
        if back.sum() >= 3 and back.sum() > len(rows) / 4:
            report.note(f"rows of run {key[0]} are not in the order of time; kept in the order of the file")
            continue
        report.note(f"time goes back {counted(int(back.sum()), 'times')} in run {key[0]}: runs put one after another")
        part = np.cumsum(back)
        runs[rows] = [name if p == 0 else f"{name} ({p + 1})" for name, p in zip(runs[rows], part, strict=True)]
    return runs


# ------------------------------------------------------------------ clocks and running totals


def _take_clocks(
    grid: Grid, values: dict[int, np.ndarray], dates: dict[int, np.ndarray], rows: Rows | None, report: Report
) -> tuple[dict[int, np.ndarray], dict[int, np.ndarray]]:
    """Take out the columns that tell the time: they are no events. Return the rest, and ``at`` and ``seconds``."""
    taken: dict[str, str] = {}
    times: dict[int, np.ndarray] = {}
    rest = dict(values)
    ends: np.ndarray | None = None
    # Of the times of a row's beginning and end, the end is its time.
    for i in sorted(dates, key=lambda i: is_name_of_beginning(grid.names[i])):
        called = grid.names[i] or f"column {i + 1}"
        if ends is None:
            word, ends = "date" if np.fmax.reduce(dates[i]) > _LONG_AGO else "time of day", dates[i]
            taken[called] = f"the {word} of each row's end"
            times[_CLOCK_COLUMN["at"]] = ends - np.fmin.reduce(ends)
        elif is_name_of_beginning(grid.names[i]) and (lengths := between(dates[i], ends)) is not None:
            taken[called] = "the date of each row's beginning"
            times.setdefault(_CLOCK_COLUMN["seconds"], lengths)
        else:
            taken[called] = "a further date"
        report.dated = True
    axes = [column for i, column in values.items() if is_axis(grid.names[i])]
    totals = bool(axes) and all((np.diff(column[np.isfinite(column)]) >= 0).all() for column in axes)
    for i, column in sorted(values.items(), key=lambda c: is_name_of_beginning(grid.names[c[0]])):
        name = grid.names[i]
        stamps = rises(column, rows) if rows else False if _is_length_in_sweep(grid, values, column, name) else None
        clock = None if name in report.asked.axes else clock_of(name, column, rises=stamps)
        if clock is None:
            steps = None if name in report.asked.axes else _steady(column, totals)
            if steps and not is_axis(name) and not sounds_like_event(name):
                taken[name] = "only ever rises, in even steps"
                del rest[i]
            continue
        del rest[i]
        if is_name_of_beginning(name):
            taken[name] = _take_beginning(grid, column * clock.seconds, ends, times, report)
            continue
        key = _CLOCK_COLUMN["at" if clock.stamps else "seconds"]
        known = not np.isnan(clock.seconds)
        keys = _key_columns(grid.names)
        if not known or key in times or ("at" if clock.stamps else "seconds") in keys:
            taken[name] = "a clock" if known else "a clock of unknown unit"
            continue
        column = column * clock.seconds
        ends = column if clock.stamps else ends
        if clock.stamps and since_1970(column, 1.0):
            column = column - column[np.isfinite(column)][0]
            report.dated = report.dated or clock.stamps
        times[key] = column
        taken[name] = "the time of each row's end" if clock.stamps else "each row's length"
    if dates and all(is_name_of_beginning(grid.names[i]) for i in dates):  # how long the last row took, is not known
        times.setdefault(_CLOCK_COLUMN["seconds"], np.full(grid.n_rows, np.nan))
    if taken:
        report.note(f"columns that tell the time, no events: {', '.join(f'{n} ({w})' for n, w in taken.items())}")
    return rest, times


def _is_length_in_sweep(grid: Grid, values: dict[int, np.ndarray], column: np.ndarray, name: str) -> bool:
    """Whether rising times of rows that differ by a parameter are how long each took: cycles go with them.

    Of time stamps, cycles go with their steps.
    """
    cycles = next((v for i, v in values.items() if normalise(grid.names[i]) in TIME_EVENTS[:-1]), None)
    if cycles is None or len(column) <= 2 or not (np.diff(column, prepend=0.0) > 0).all() or not (cycles > 0).all():
        return False
    steps = np.diff(column)
    if _STAMP.search(name) or column[0] > _FAR * steps.max() or (np.ptp(steps) == 0 and not _LENGTH.search(name)):
        return False
    of_values, of_steps = np.ptp(np.log(cycles / column)), np.ptp(np.log(cycles[1:] / np.diff(column)))
    return bool(of_values < _SAME_CLOCK and of_values < of_steps)


def _take_beginning(
    grid: Grid, begins: np.ndarray, ends: np.ndarray | None, times: dict[int, np.ndarray], report: Report
) -> str:
    """Add what the time of each row's beginning tells, in s, to ``times``; return what it is taken for."""
    at, seconds = _CLOCK_COLUMN["at"], _CLOCK_COLUMN["seconds"]
    if np.isnan(begins).all() or _key_columns(grid.names).keys() & {"at", "seconds"}:
        return "a clock of each row's beginning"
    if ends is not None:
        if (lengths := between(begins, ends)) is None:
            return "a time before that of each row"
        times.setdefault(seconds, lengths)
        return "the time of each row's beginning"
    lengths = times.setdefault(seconds, np.full(len(begins), np.nan))
    dated = since_1970(begins, 1.0)
    report.dated = report.dated or dated
    times[at] = begins - (np.fmin.reduce(begins) if dated else 0.0) + np.nan_to_num(lengths)
    return "the time of each row's beginning"


def _steady(values: np.ndarray, totals: bool) -> bool:
    """Whether a column counts up in nearly even steps, as a clock, a row number or an address does.

    A clock of any pace, read out since long ago, moves little beside what it shows; but so do running totals, where
    cycles and instructions are such.
    """
    steps = np.diff(values)
    if len(steps) < _SURE or not np.isfinite(steps).all() or steps.min() <= 0:
        return False
    return bool(steps.max() < 1.5 * steps.min() or (not totals and values[0] > 20 * (values[-1] - values[0])))


# ------------------------------------------------------------------ ratios beside the counts


_STEPS_OF = re.compile(r"^(?P<of>.+?)[ _.\-(\[]+(?:diff(?:erence)?|delta)[)\]]*$", re.IGNORECASE)


def _ask_about_steps(grid: Grid, values: dict[int, np.ndarray], rows: Rows, report: Report) -> None:
    """Refuse columns that are running totals by the steps beside them, unless it was said what they are.

    In a table of versions a column of differences holds the same where each version counts more than the one before.
    """
    if report.asked.cumulative is not None or not any(is_name_of_clock(n) for n in grid.names):
        return
    column = {grid.names[i]: i for i in values}
    for name, i in column.items():
        of = found["of"] if (found := _STEPS_OF.match(name)) else ""
        if of not in column or len(rows.later) < 2:
            continue
        steps = rows.steps(values[column[of]])
        if (steps > 0).all() and np.array_equal(steps, values[i][rows.later]):
            raise FormatError(
                f"{report.file}: {name} holds the steps of {of} from row to row. Is {of} a running total, or a count "
                f"that happens to rise? {SAY_WHICH}"
            )


def _refuse_two_of_one(names: list[str], report: Report) -> None:
    """Refuse a table that holds the count of time or work twice, as counted and scaled up to the whole time."""
    for name in names:
        found = _SCALED_NAME.match(name)
        plain = (found["of"] or found["behind"]).lower() if found else ""
        of = next((each for each in names if each != name and each.lower() == plain), "")
        if not of or name in report.asked.axes or of in report.asked.axes:
            continue
        if normalise(of) in (*TIME_EVENTS, *WORK_EVENTS):
            raise FormatError(
                f"{report.file}: columns {of} and {name} are two counts of one event, and counts of different "
                "events that were scaled and not scaled cannot be compared. Keep the scaled columns (perf's are scaled)"
            )


def _drop_ratios(grid: Grid, values: dict[int, np.ndarray], report: Report) -> dict[int, np.ndarray]:
    """Leave out columns that are quotients of others: they are no events, and hand-made ones are often stale."""
    _refuse_two_of_one([grid.names[i] for i in values], report)
    dropped = {}
    for i in values:
        ratio = "instructions/cycles" if _IPC.match(grid.names[i]) else "cycles/instructions"
        if ratio == "instructions/cycles" or _CPI.match(grid.names[i]):
            dropped[i] = f"{grid.names[i]} ({_compared(grid, values, i, ratio)})"
    fractions = [i for i, v in values.items() if i not in dropped and np.any(v[np.isfinite(v)] % 1)]
    whole = [i for i in values if i not in dropped and i not in fractions]
    for i in fractions if grid.n_rows >= 3 and len(fractions) <= 64 else []:
        formula = _quotient(values[i], whole, values, grid)
        if formula:
            dropped[i] = f"{grid.names[i]} (= {formula})"
    for i in _of_a_whole(grid, {i: v for i, v in values.items() if i not in dropped}):
        dropped[i] = f"{grid.names[i]} (a share: with those beside it, one whole in every row)"
    axes = [i for i in values if normalise(grid.names[i]) in (*TIME_EVENTS, *WORK_EVENTS)]
    odd = [i for i in fractions if i not in dropped and _is_odd_beside(values, i, axes, grid)]
    for i in (j for j in odd if grid.names[j] not in report.asked.axes):
        dropped[i] = f"{grid.names[i]} (fractions beside whole counts: a ratio, a share or a mean)"
    names = set(grid.names)
    for i in values:
        if i not in dropped and is_rate(grid.names[i]):
            dropped[i] = f"{grid.names[i]} (a rate by its name)"
        elif i not in dropped and _adds_up(grid, i, {j: v for j, v in values.items() if j not in dropped}):
            dropped[i] = f"{grid.names[i]} (the sum of the others)"
        elif i not in dropped and is_spread(grid.names[i], set(grid.names)):
            dropped[i] = f"{grid.names[i]} (a spread or an extreme of another column)"
        elif i not in dropped and grid.names[i] not in report.asked.axes and is_word_of_another(grid.names[i], names):
            dropped[i] = f"{grid.names[i]} (a bound or another's word of another column)"
    if dropped:
        report.note(f"columns derived from others, left out: {', '.join(dropped.values())}")
    if same := [grid.names[i] for i in axes if _is_of_rates(values[i])]:
        report.note(
            f"caution: {same[0]} is {values[grid.names.index(same[0])][0]:g} in every row; if the columns were divided "
            "by it and rounded, they are no counts: give the undivided table"
        )
    gauges = [i for i in values if i not in dropped and is_gauge(grid.names[i])]
    gauges = [i for i in gauges if grid.names[i] not in report.asked.axes]
    if gauges:
        named = ", ".join(grid.names[i] for i in gauges)
        report.note(f"columns that hold readings of a moment by their names and no counts, left out: {named}")
    return {i: v for i, v in values.items() if i not in (*dropped, *gauges)}


def _is_odd_beside(values: dict[int, np.ndarray], i: int, axes: list[int], grid: Grid) -> bool:
    """Whether a column has small fractions in most rows where time and work are whole, and no unit that has them.

    Not by the name of an event: means and scaled counts have fractions, too, beside counters that were never scaled.
    """
    name = grid.names[i]
    known = values[i][np.isfinite(values[i])]
    if len(axes) < 2 or i in axes or is_name_of_clock(name) or _HAS_FRACTIONS.search(name) or sounds_like_event(name):
        return False
    counted = [values[j][np.isfinite(values[j])] for j in axes]
    whole = all(len(each) and not np.any(each % 1) and each.max() >= _SURE for each in counted)
    small = len(known) > 0 and known.max() <= _MOST_OF_RATIO
    return whole and bool(small and 2 * np.count_nonzero(known % 1) > len(known))


def _of_a_whole(grid: Grid, values: dict[int, np.ndarray]) -> list[int]:
    """Return the longest row of columns, three at least, that add up to 100 (or to 1) in every row of the table.

    By accident columns do in few rows, or where they never change: only those of top-down analysis need not be more.
    """
    for whole in (100.0, 1.0):
        small = [i for i, v in values.items() if np.all((v[:_FIRST] >= 0) & (v[:_FIRST] <= whole * _NEARLY))]
        if not grid.n_rows or not _FEWEST_SHARES <= len(small) <= _MOST_SHARES:
            continue
        sums = np.cumsum([np.zeros(min(_FIRST, grid.n_rows)), *(values[i][:_FIRST] for i in small)], axis=0)
        within = (_NEARLY - 1) * whole
        varying = {i for i in small if grid.n_rows >= _FEWEST_SHARES and np.ptp(values[i]) > 0}
        for n in range(len(small), _FEWEST_SHARES - 1, -1):
            found = np.abs(sums[n:] - sums[:-n] - whole).max(axis=1) < within  # in the first rows: few windows are left
            for some in (small[k : k + n] for k in np.flatnonzero(found)):
                if (len(varying & set(some)) > 1 or all(_TOPDOWN.match(grid.names[i]) for i in some)) and np.all(
                    np.abs(np.sum([values[i] for i in some], axis=0) - whole) < within
                ):
                    return some
    return []


def _is_of_rates(column: np.ndarray) -> bool:
    return len(column) > 2 and column[0] in (10.0, 100.0, 1000.0) and bool((column == column[0]).all())


def _adds_up(grid: Grid, i: int, values: dict[int, np.ndarray]) -> bool:
    """Whether a column called total or sum is that of all others in every row."""
    if not is_statistic(grid.names[i]):
        return False
    apart = [j for j in values if is_statistic(grid.names[j]) or is_name_of_clock(grid.names[j])]
    others = [v for j, v in values.items() if j not in apart]
    if len(others) < 2:
        return False
    return bool(np.allclose(np.nansum(others, axis=0), values[i], rtol=1e-9, atol=0))


def _compared(grid: Grid, values: dict[int, np.ndarray], i: int, ratio: str) -> str:
    """Say how many rows of a column named IPC or CPI are off by more than 2 % from what the counts say."""
    cycles = next((v for c, v in values.items() if normalise(grid.names[c]) in TIME_EVENTS), None)
    work = next((v for c, v in values.items() if normalise(grid.names[c]) in WORK_EVENTS), None)
    if cycles is None or work is None:
        return f"named as {ratio}"
    top, bottom = (work, cycles) if ratio.startswith("instr") else (cycles, work)
    with np.errstate(divide="ignore", invalid="ignore"):
        off = int((np.abs(values[i] / (top / bottom) - 1) > 0.02).sum())
    return f"= {ratio}" if not off else f"named as {ratio}, off by more than 2 % in {off:,} of {grid.n_rows:,} rows"


def _quotient(column: np.ndarray, whole: list[int], values: dict[int, np.ndarray], grid: Grid) -> str:
    """Return the quotient of two columns (or that times 100 or 1000) that a column equals in every row, or nothing."""
    known = np.flatnonzero(np.isfinite(column) & (column != 0))
    if len(known) < 3 or len(whole) > 512:
        return ""
    probe = known[np.linspace(0, len(known) - 1, min(_PROBE_ROWS, len(known))).astype(int)]
    stack = np.array([values[i][probe] for i in whole])
    with np.errstate(divide="ignore", invalid="ignore"):
        for bottom in range(len(whole)):
            for scale, word in ((1, ""), (100, " x 100"), (1000, " x 1000")):
                near = np.abs(scale * stack / stack[bottom] / column[probe] - 1) < 0.005
                for top in np.flatnonzero(near.all(axis=1)):
                    full = scale * values[whole[top]][known] / values[whole[bottom]][known]
                    if top != bottom and (np.abs(full / column[known] - 1) < 0.005).all():
                        return f"{grid.names[whole[top]]} / {grid.names[whole[bottom]]}{word}"
    return ""
