"""What the three outputs of ``perf stat`` share: how rows become runs, intervals and counts.

Text, ``-x`` and ``-j`` print the same things in different dress. Their readers make `PrintedCount`s;
`samples_of_rows` settles digit grouping, splits concatenated runs, numbers the intervals, and says what is missing or
double.
"""

import json
import re
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pandas as pd

from perfkit.errors import FormatError, counted, listed
from perfkit.readers.numbers import SIGNS, Token, settle
from perfkit.readers.report import Dump, Report
from perfkit.readers.summary_rows import places_above

NOT_COUNTED, NOT_SUPPORTED = "<not counted>", "<not supported>"
# Event names that hold their unit, as perf printed them before version 4.20.
_UNIT_IN_NAME = re.compile(r"^(?P<event>\S+) \((?P<unit>msec|ns|sec)\)$")
# Events in units that perf printed with decimals before it printed the unit beside them.
_MAY_HAVE_DECIMALS = re.compile(r" \(\w+\)$|clock|time|energy|power|bytes|bandwidth|read|write", re.IGNORECASE)


COMMA_IN_TIME = (
    "the interval's end has a comma: expected a point, as perf prints it in every language (1.001061824). Something "
    "else rewrote the file's numbers; put the points back, or export it again with a decimal point"
)


TWO_IN_ONE = (
    "two lines in one: what begins another line stands behind this one. Put the end of the line back between them"
)


class PrintedCount(NamedTuple):
    """One printed count. ``block`` numbers the outputs of perf that were written one after another to a file."""

    line: int
    block: int
    at: float
    place: str
    value: str
    unit: str
    event: str
    running: float
    variance: float = float("nan")


@dataclass
class PerfOutput:
    """What one output of perf says beside its counts."""

    started: str = ""
    command: str = ""
    repeats: int = 1
    elapsed: float = float("nan")


@dataclass
class PerfRows:
    """Rows and blocks as a reader finds them; ``decimal_sign`` is what percentages prove it to be."""

    rows: list[PrintedCount] = field(default_factory=list)
    blocks: list[PerfOutput] = field(default_factory=list)
    decimal_sign: str = ""
    text: bool = False


def samples_of_rows(found: PerfRows, report: Report, run: str) -> Dump:
    """Make one dump of all rows of a file."""
    events = [r.event if " " not in r.event else _UNIT_IN_NAME.sub(r"\g<event>", r.event) for r in found.rows]
    values = _values(found, report)
    rows = pd.DataFrame(
        {
            "line": [r.line for r in found.rows],
            "block": [r.block for r in found.rows],
            "at": [r.at for r in found.rows],
            "place": _categorical([r.place for r in found.rows]),
            "mark": _categorical([r.value if r.value[0] == "<" else "" for r in found.rows]),
            "unit": _categorical([r.unit for r in found.rows]),
            "event": _categorical(events),
            "running": [r.running for r in found.rows],
            "variance": [r.variance for r in found.rows],
            "count": values,
        }
    )
    rows = rows[~np.isnan(values) | (rows["mark"] != "")]  # numbers that fit no style are problems already
    if rows.empty:
        raise without_counts(report, "output of perf stat")
    report.counts(rows["line"].to_numpy())
    rows.loc[rows["mark"] == NOT_SUPPORTED, "running"] = np.nan
    _note_missing(rows, report)
    part = _split(rows, report)
    names = [run, *[f"{run} ({i})" for i in range(2, int(part.max(initial=0)) + 2)]]
    rows["run"] = pd.Categorical.from_codes(part, categories=names)
    rows["interval"], rows["seconds"] = _intervals(rows, part, found.blocks)
    rows["at"] = rows["at"].fillna(rows["seconds"])
    _note_long_start(rows, report)
    rows = settle_duplicates(rows, report)
    rows = _without_groups_above(rows, report)
    _note_ragged(rows, report)
    return Dump(
        rows[["run", "place", "interval", "at", "seconds", "event", "count", "running"]].reset_index(drop=True),
        _runs(rows, found.blocks),
    )


def _categorical(values: list[str]) -> pd.Categorical:
    """Return values as categories in order of first appearance."""
    order = {v: i for i, v in enumerate(dict.fromkeys(values))}
    return pd.Categorical.from_codes(np.fromiter(map(order.__getitem__, values), "int32", len(values)), list(order))


def without_counts(report: Report, what: str) -> FormatError:
    """Return the error of a file that has no count, with the first line that was no count, and why."""
    first = f"; line {report.rows[0][1]}: {report.rows[0][3]}. Found: {report.rows[0][2]!r}" if report.rows else ""
    return FormatError(f"{report.file}: {what} without a single count{first}")


def running_share(text: str) -> float:
    """Return a percentage as a fraction; ``100,00`` and ``100.00`` both mean 1."""
    return round(float(text.replace(",", ".")) / 100.0, 6)


# ------------------------------------------------------------------ numbers


def _values(found: PerfRows, report: Report) -> np.ndarray:
    """Return the counts as numbers; ``<not counted>`` and ``<not supported>`` are NaN."""
    marked = [
        Token(r.value, r.line, not r.unit and not _MAY_HAVE_DECIMALS.search(r.event))
        for r in found.rows
        if not r.value.isdecimal() and r.value[0] != "<"
    ]
    style = settle(marked, report, decimal_sign=found.decimal_sign, two_decimals=found.text)
    if style.grouping or style.decimal != ".":
        report.note(f"numbers: {style.describe()}")
    torn = [t for t in marked if t.whole and style.decimal in t.text]
    if 2 * len(torn) <= sum(not r.unit for r in found.rows):  # else somebody averaged the counts of a dump
        for token in torn:
            report.problem(
                token.line, token.text, "expected a whole number: a count of an event without a unit has no decimals"
            )
    bad = {line for _, line, _, _ in report.rows}
    parse = style.parse
    return np.array(
        [np.nan if r.value[0] == "<" or (bad and r.line in bad) else parse(r.value) for r in found.rows],
        dtype="float64",
    )


def decimal_sign_of(text: str) -> str:
    """Return the decimal sign of a percentage or of another number that surely has one (else nothing)."""
    signs = [c for c in text if c in SIGNS]
    return signs[-1] if len(signs) == 1 and signs[0] in ".," else ""


# ------------------------------------------------------------------ runs and intervals


def _split(rows: pd.DataFrame, report: Report) -> np.ndarray:
    """Tell runs apart: a new one begins with each output of perf, and where time goes back within one."""
    block = rows["block"].to_numpy()
    at = rows["at"].to_numpy()
    with np.errstate(invalid="ignore"):
        back = np.concatenate([[False], np.diff(at) < 0])
    new_block = np.concatenate([[False], np.diff(block) != 0])
    again = _sequence_again(rows)
    if again.any():
        lines = ", ".join(str(n) for n in rows["line"].to_numpy()[again][:10])
        report.note(
            f"the events begin again at line {lines}{' ...' if again.sum() > 10 else ''}: "
            f"the outputs of {1 + again.sum():,} runs one after another"
        )
    new_block |= again
    back &= ~new_block
    intervals = 1 + int(np.count_nonzero(np.diff(at)))
    if back.sum() >= 3 and back.sum() > intervals / 4 and len(np.unique(at)) == intervals:
        report.note(
            f"its rows are not in the order of time ({back.sum():,} steps back in {intervals:,} intervals); "
            "taken as one run whose intervals are numbered in time's order"
        )
        back[:] = False
    elif back.any():
        lines = ", ".join(str(n) for n in rows["line"].to_numpy()[back][:10])
        report.note(f"time goes back at line {lines}: the outputs of {1 + back.sum()} runs one after another")
    return np.cumsum(back | new_block)


def _sequence_again(rows: pd.DataFrame) -> np.ndarray:
    """Tell where the events of an output begin again, as where outputs without intervals were appended to one file.

    An event that was given to perf twice comes twice in one output, with counts that are the same or, where counters
    were multiplexed, alike; those are left to `settle_duplicates`.
    """
    again = np.zeros(len(rows), dtype=bool)
    untimed = np.isnan(rows["at"].to_numpy())
    keys = rows["place"].cat.codes.to_numpy("int64") * len(rows["event"].cat.categories) + rows[
        "event"
    ].cat.codes.to_numpy("int64")
    for block in np.unique(rows["block"].to_numpy()[untimed]):
        of = np.flatnonzero(untimed & (rows["block"].to_numpy() == block))
        starts = _beginnings(keys[of])
        if len(starts) > 1 and not _given_twice(rows.iloc[of], keys[of]):
            again[of[starts[1:]]] = True
    return again


def _beginnings(keys: np.ndarray) -> list[int]:
    """Return where a sequence begins again: by its period if it has one, else wherever a key is seen a second time."""
    n = len(keys)
    period = next((int(p) for p in np.flatnonzero(keys == keys[0])[1:65] if (keys[p:] == keys[:-p]).all()), n)
    if n % period == 0:
        return list(range(0, n, period))
    starts: list[int] = [0]
    seen: set[int] = set()
    for i, key in enumerate(keys.tolist()):
        if key in seen:
            starts.append(i)
            seen.clear()
        seen.add(key)
    return starts


def _given_twice(rows: pd.DataFrame, keys: np.ndarray) -> bool:
    """Whether counts of the same event and place are the same, or alike and multiplexed: one output, an event twice."""
    by = rows["count"].groupby(keys)
    low, high = by.min(), by.max()
    same = (low == high) | low.isna()
    shared = (rows["running"].groupby(keys).min() < 1.0) & (high <= 1.2 * low) & (by.size() == 2)
    return bool((same | shared).all())


def _intervals(rows: pd.DataFrame, part: np.ndarray, blocks: list[PerfOutput]) -> tuple[np.ndarray, np.ndarray]:
    """Return each row's interval number within its run, and the length of that interval in seconds."""
    at, block = rows["at"].to_numpy(), rows["block"].to_numpy()
    number, seconds = np.zeros(len(rows), dtype="int64"), np.full(len(rows), np.nan)
    edges = np.concatenate([[0], np.flatnonzero(np.diff(part)) + 1, [len(rows)]])  # runs follow one another
    for start, stop in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        if np.isnan(at[start:stop]).all():
            seconds[start:stop] = blocks[block[start]].elapsed if start < stop else np.nan
            continue
        ends, number[start:stop] = np.unique(at[start:stop], return_inverse=True)
        seconds[start:stop] = np.diff(ends, prepend=0.0)[number[start:stop]]
    return number, seconds


def _runs(rows: pd.DataFrame, blocks: list[PerfOutput]) -> pd.DataFrame:
    described = {}
    unit = rows["unit"].astype(object).to_numpy()
    with_unit = np.flatnonzero(unit != "")
    units = dict(zip(rows["event"].iloc[with_unit].astype(str), map(str, unit[with_unit]), strict=True))
    varied = rows[rows["variance"].notna()]
    variances = dict(iter(varied.groupby("run", sort=False, observed=True))) if len(varied) else {}
    _, first = np.unique(rows["run"].cat.codes.to_numpy(), return_index=True)
    blocks_of, names_of = rows["block"].to_numpy(), rows["run"].astype(object).to_numpy()
    for name, block in ((names_of[i], blocks_of[i]) for i in sorted(first.tolist())):
        said = blocks[block]
        parameters: dict[str, object] = {}
        if said.started:
            parameters["started"] = said.started
        if said.repeats > 1:
            parameters["repeats"] = said.repeats
        if name in variances:
            of_run = variances[name]
            parameters["variance_percent"] = dict(zip(of_run["event"], of_run["variance"].tolist(), strict=True))
        if units:
            parameters["units"] = units
        described[str(name)] = {"command": said.command, "parameters": json.dumps(parameters)}
    return pd.DataFrame.from_dict(described, orient="index")


# ------------------------------------------------------------------ what is missing or double


def settle_duplicates(rows: pd.DataFrame, report: Report) -> pd.DataFrame:
    """Keep one of an event listed twice with the same counts; number its further counts where they differ.

    ``rows`` has the columns run, place, interval, event and count, and maybe line. An event given twice to a tool is
    counted twice; both counts are the same where neither was multiplexed away.
    """
    key = ["run", "place", "interval", "event"]
    if not _any_twice(rows, key):
        return rows
    rows = rows.reset_index(drop=True)
    by = rows.groupby(key, sort=False, observed=True)
    nth, first = by.cumcount().to_numpy(), by["count"].transform("first").to_numpy()
    count = rows["count"].to_numpy()
    differs = ~((count == first) | (np.isnan(count) & np.isnan(first)))
    further = pd.DataFrame({"event": rows["event"].astype(object), "nth": nth, "differs": differs})[nth > 0]
    differing = further.groupby(["event", "nth"], sort=False)["differs"].any()
    event = rows["event"].to_numpy(dtype=object, copy=True)
    named = {pair: f"{pair[0]}#{pair[1] + 1}" for pair, other in differing.items() if other}
    here = np.flatnonzero(nth > 0)
    new = [named.get((event[i], nth[i])) for i in here.tolist()]
    drop = np.zeros(len(rows), dtype=bool)
    for i, name in zip(here.tolist(), new, strict=True):
        if name is None:
            drop[i] = True
        else:
            event[i] = name
    for name, copies in further[~_in(further, named)].groupby("event", sort=False)["nth"].max().items():
        report.note(f"event {name} is there {copies + 1} times with the same counts; one is kept")
    for (name, copy), called in named.items():
        report.note(f"event {name} is there {copy + 1} times with different counts; called {called}")
    if "line" in rows:
        report.left_out(rows["line"].to_numpy()[drop].tolist(), "with another count of the same event, left out")
    return rows.assign(event=event)[~drop]


def _without_groups_above(rows: pd.DataFrame, report: Report) -> pd.DataFrame:
    """Leave out control groups (``/``, ``A`` beside ``A/B``) that hold exactly what others do; tell those that may."""
    names = [str(p) for p in rows["place"].cat.categories if p]
    stems = {p: p[:-1] if p == "/" or p.endswith(" /") else f"{p}/" for p in names}
    above = [p for p, stem in stems.items() if any(q != p and q.startswith(stem) for q in names)]
    if not above:
        return rows
    sums = set(above) & {*places_above(rows[["place", "event", "count"]])}
    drop = rows["place"].isin(sums).to_numpy()
    if sums:
        report.left_out(
            rows["line"].to_numpy()[drop].tolist(),
            f"of control groups that sum up others, left out ({', '.join(sorted(sums))})",
        )
    if rest := [p for p in above if p not in sums]:
        report.note(
            f"caution: control group {listed(rest, 4)} holds what those below it did, which is counted again there; "
            "measure groups of which none holds another"
        )
    return rows[~drop]


def _any_twice(rows: pd.DataFrame, key: list[str]) -> bool:
    """Whether two rows have the same key; codes of categories are much faster to compare than a frame's rows."""
    codes = [rows[k].cat.codes if isinstance(rows[k].dtype, pd.CategoricalDtype) else rows[k] for k in key]
    if any(c.dtype.kind not in "iu" for c in codes):
        return bool(rows.duplicated(key).any())
    together = np.zeros(len(rows), dtype="int64")
    for code in codes:
        values = code.to_numpy("int64")
        together = together * (int(values.max(initial=0)) + 2) + values + 1
    return len(np.unique(together)) < len(rows)


def _in(further: pd.DataFrame, named: dict[tuple[str, int], str]) -> np.ndarray:
    return np.array([pair in named for pair in zip(further["event"], further["nth"], strict=True)], dtype=bool)


def _note_missing(rows: pd.DataFrame, report: Report) -> None:
    present = set(rows["mark"].cat.categories)
    for mark in (NOT_SUPPORTED, NOT_COUNTED):
        if mark not in present or not (here := rows["mark"] == mark).any():
            continue
        total = rows["event"].value_counts(sort=False)
        of = rows.loc[here, "event"].value_counts(sort=False)
        always = [e for e, n in of.items() if n and n == total[e]]
        sometimes = [f"{e} ({n:,} of {total[e]:,})" for e, n in of.items() if 0 < n < total[e]]
        told = ([f"always for {', '.join(always)}"] if always else []) + sometimes
        report.note(f"{mark} {here.sum():,} times, kept as missing: {'; '.join(told)}")


def _note_long_start(rows: pd.DataFrame, report: Report) -> None:
    """Say where a run's first interval is much longer than the others; it is kept, with its true length."""
    run, interval = rows["run"].cat.codes.to_numpy(), rows["interval"].to_numpy()
    seconds = rows["seconds"].to_numpy()
    for code, name in enumerate(rows["run"].cat.categories):
        here = run == code
        _, at = np.unique(interval[here], return_index=True)
        lengths = seconds[here][at]
        known = lengths[~np.isnan(lengths)]
        if len(known) > 2 and lengths[0] > 3 * (usual := float(np.median(known))):
            report.note(f"the first interval of run {name!r} lasts {lengths[0] / usual:.0f} times the usual")


def _note_ragged(rows: pd.DataFrame, report: Report) -> None:
    """Say where an interval lacks events that the others of its run have (a dump that was cut, or edited)."""
    if not len(rows):
        return
    run, place = rows["run"].cat.codes.to_numpy("int64"), rows["place"].cat.codes.to_numpy("int64")
    interval = rows["interval"].to_numpy("int64")
    series = run * len(rows["place"].cat.categories) + place
    _, first, size = np.unique(series * (interval.max() + 1) + interval, return_index=True, return_counts=True)
    of = series[first]
    most = np.zeros(of.max() + 1, dtype=size.dtype)
    np.maximum.at(most, of, size)
    short = np.flatnonzero(size < most[of])
    if len(short):
        last = short[first[short].argmax()]
        row = first[last]
        report.note(
            f"{counted(len(short), 'intervals')} without events that the others have, the last of them "
            f"interval {interval[row]} of run {rows['run'].cat.categories[run[row]]!r} "
            f"({size[last]} of {most[of[last]]}); what is not there stays missing"
        )
