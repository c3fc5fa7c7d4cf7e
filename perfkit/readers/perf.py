"""What the three outputs of ``perf stat`` share: how rows become runs, intervals and counts.

Text, ``-x`` and ``-j`` print the same things in different dress. Their readers make `Row`s; `build` settles digit
grouping, splits concatenated runs, numbers the intervals, and says what is missing or double.
"""

import json
import re
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pandas as pd

from perfkit.readers.numbers import SIGNS, Token, settle
from perfkit.readers.report import Dump, Report

NOT_COUNTED, NOT_SUPPORTED = "<not counted>", "<not supported>"
# Event names that hold their unit, as perf printed them before version 4.20.
_UNIT_IN_NAME = re.compile(r"^(?P<event>\S+) \((?P<unit>msec|ns|sec)\)$")


class Row(NamedTuple):
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
class Block:
    """What one output of perf says beside its counts."""

    started: str = ""
    command: str = ""
    repeats: int = 1
    elapsed: float = float("nan")


@dataclass
class PerfRows:
    """Rows and blocks as a reader finds them; ``decimal_sign`` is what percentages prove it to be."""

    rows: list[Row] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    decimal_sign: str = ""
    text: bool = False


def build(found: PerfRows, report: Report, run: str) -> Dump:
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
    rows.loc[rows["mark"] == NOT_SUPPORTED, "running"] = np.nan
    _note_missing(rows, report)
    part = _split(rows, report)
    names = [run, *[f"{run} ({i})" for i in range(2, int(part.max(initial=0)) + 2)]]
    rows["run"] = pd.Categorical.from_codes(part, categories=names)
    rows["interval"], rows["seconds"] = _intervals(rows, part, found.blocks)
    rows["at"] = rows["at"].fillna(rows["seconds"])
    _note_long_start(rows, report)
    rows = settle_duplicates(rows, report)
    _note_ragged(rows, report)
    return Dump(
        rows[["run", "place", "interval", "at", "seconds", "event", "count", "running"]].reset_index(drop=True),
        _runs(rows, found.blocks),
    )


def _categorical(values: list[str]) -> pd.Categorical:
    """Return values as categories in order of first appearance."""
    order = {v: i for i, v in enumerate(dict.fromkeys(values))}
    return pd.Categorical.from_codes(np.fromiter(map(order.__getitem__, values), "int32", len(values)), list(order))


def running_share(text: str) -> float:
    """Return a percentage as a fraction; ``100,00`` and ``100.00`` both mean 1."""
    return round(float(text.replace(",", ".")) / 100.0, 6)


# ------------------------------------------------------------------ numbers


def _values(found: PerfRows, report: Report) -> np.ndarray:
    """Return the counts as numbers; ``<not counted>`` and ``<not supported>`` are NaN."""
    marked = [
        Token(r.value, r.line, not r.unit and (" " not in r.event or not _UNIT_IN_NAME.match(r.event)))
        for r in found.rows
        if not r.value.isdigit() and r.value[0] != "<"
    ]
    style = settle(marked, report, decimal_sign=found.decimal_sign, two_decimals=found.text)
    if style.grouping or style.decimal != ".":
        report.note(f"numbers: {style.describe()}")
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


def _intervals(rows: pd.DataFrame, part: np.ndarray, blocks: list[Block]) -> tuple[np.ndarray, np.ndarray]:
    """Return each row's interval number within its run, and the length of that interval in seconds."""
    at = rows["at"].to_numpy()
    number, seconds = np.zeros(len(rows), dtype="int64"), np.full(len(rows), np.nan)
    for run in range(int(part[-1]) + 1 if len(part) else 0):
        of_run = part == run
        if np.isnan(at[of_run]).all():
            seconds[of_run] = blocks[rows["block"].to_numpy()[of_run][0]].elapsed
            continue
        ends, number[of_run] = np.unique(at[of_run], return_inverse=True)
        seconds[of_run] = np.diff(ends, prepend=0.0)[number[of_run]]
    return number, seconds


def _runs(rows: pd.DataFrame, blocks: list[Block]) -> pd.DataFrame:
    described = {}
    units = rows[["event", "unit"]].drop_duplicates()
    units = {str(e): str(u) for e, u in units.itertuples(index=False) if u}
    for name, block in rows[["run", "block"]].drop_duplicates("run").itertuples(index=False):
        said = blocks[block]
        parameters: dict[str, object] = {}
        if said.started:
            parameters["started"] = said.started
        if said.repeats > 1:
            parameters["repeats"] = said.repeats
        of_run = rows[(rows["run"] == name) & rows["variance"].notna()]
        if len(of_run):
            parameters["variance_percent"] = dict(zip(of_run["event"], of_run["variance"].tolist(), strict=True))
        if units:
            parameters["units"] = units
        described[str(name)] = {"command": said.command, "parameters": json.dumps(parameters)}
    return pd.DataFrame.from_dict(described, orient="index")


# ------------------------------------------------------------------ what is missing or double


def settle_duplicates(rows: pd.DataFrame, report: Report) -> pd.DataFrame:
    """Keep one of an event listed twice with the same counts; number its further counts where they differ.

    ``rows`` has the columns run, place, interval, event and count. An event given twice to a tool is counted twice;
    both counts are the same where neither was multiplexed away.
    """
    key = ["run", "place", "interval", "event"]
    if not rows.duplicated(key).any():
        return rows
    nth = rows.groupby(key, sort=False, observed=True).cumcount().to_numpy()
    rows = rows.assign(nth=nth)
    drop = np.zeros(len(rows), dtype=bool)
    event = rows["event"].to_numpy(dtype=object, copy=True)
    for name in rows.loc[nth > 0, "event"].unique():
        of_event = rows["event"] == name
        for copy in range(1, int(nth[of_event].max()) + 1):
            again = (of_event & (rows["nth"] == copy)).to_numpy()
            first = rows[of_event & (rows["nth"] == 0)].set_index(key[:3])["count"]
            second = rows[again].set_index(key[:3])["count"]
            if first.reindex(second.index).equals(second):
                drop |= again
                report.note(f"event {name} is there {copy + 1} times with the same counts; one is kept")
            else:
                event[again] = f"{name}#{copy + 1}"
                report.note(f"event {name} is there {copy + 1} times with different counts; called {name}#{copy + 1}")
    return rows.assign(event=event)[~drop].drop(columns="nth")


def _note_missing(rows: pd.DataFrame, report: Report) -> None:
    total = rows["event"].value_counts(sort=False)
    for mark in (NOT_SUPPORTED, NOT_COUNTED):
        here = rows["mark"] == mark
        if not here.any():
            continue
        of = rows.loc[here, "event"].value_counts(sort=False)
        always = [e for e, n in of.items() if n and n == total[e]]
        sometimes = [f"{e} ({n:,} of {total[e]:,})" for e, n in of.items() if 0 < n < total[e]]
        told = ([f"always for {', '.join(always)}"] if always else []) + sometimes
        report.note(f"{mark} {here.sum():,} times, kept as missing: {'; '.join(told)}")


def _note_long_start(rows: pd.DataFrame, report: Report) -> None:
    """Say where a run's first interval is much longer than the others; it is kept, with its true length."""
    for run, of_run in rows.groupby("run", sort=False, observed=True):
        lengths = of_run.groupby("interval")["seconds"].first()
        usual = lengths.median()
        if len(lengths) > 2 and lengths.iloc[0] > 3 * usual:
            report.note(f"the first interval of run {run!r} lasts {lengths.iloc[0] / usual:.0f} times the usual")


def _note_ragged(rows: pd.DataFrame, report: Report) -> None:
    """Say where an interval lacks events that the others of its run have (a dump that was cut, or edited)."""
    per = rows.groupby(["run", "place", "interval"], sort=False, observed=True).size()
    most = per.groupby(level=["run", "place"], observed=True).transform("max")
    short = per[per < most]
    if len(short):
        run, _, interval = short.index[-1]
        report.note(
            f"{len(short):,} interval(s) lack events that the others have, the last of them interval {interval} of run "
            f"{run!r} ({short.iloc[-1]} of {most[short.index[-1]]}); what is not there stays missing"
        )
