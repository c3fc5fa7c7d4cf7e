"""Columns that name a run's parameter (a size, a number of threads) or number its rows, and count nothing."""

import re

import numpy as np
import pandas as pd

from perfkit.readers.grid import Grid
from perfkit.readers.report import Report
from perfkit.samples.events import TIME_EVENTS, WORK_EVENTS, normalise, sounds_like_event

_OF = (
    r"(?:(?:array|problem|matrix|block|tile|batch|vector|input|working[ _-]?set|buffer|cache|n|num|number[ _-]of)"
    r"[ _-]?)?"
)
# Names of parameters; they prove in few rows what other names prove in many.
_PARAMETER = re.compile(
    rf"^{_OF}"
    r"(?:size|n|m|k|threads?|stride|block|tile|batch|iterations?|iters?|reps?|repetitions?|repeat|seed|param(?:eter)?\w*|"
    r"config\w*|level|freq\w*|mhz|ghz|cores|cpus|procs|processes|ranks|nodes|length|len|dim|width|height|depth|order|"
    r"unroll|density|bytes|kib|kb|mib|mb|elements|id|variant|version)$",
    re.IGNORECASE,
)
# Names that count nothing, whether or not they change from row to row.
_NEVER_COUNTED = re.compile(
    rf"^{_OF}"
    r"(?:size|größe|groesse|taille|tamaño|n|m|threads?|stride|seed|ranks|nodes|cores|cpus|procs|processes|unroll|order|dim|width|height|depth)$|"
    r"^(?:pid|tid|tgid|ppid|pgid|rank|seed|uid|gid|nid|(?:thread|process|core|cpu|gpu|queue|run)id|(?:\w+[ _-]+)+id|"
    r"exit|rc|errno|retval|(?:exit|return|ret)[ _-]?(?:code|status|value)|"
    r"checksum|crc(?:\d\d)?|score|phase|count|value|weight|prio(?:rity)?|nice|percentile|quantile|hour|minute|weekday|month|year|"
    r"row|(?:line|row|sample|record)(?:no| ?#)|line|rep|trial|repetition|iter|iteration|"
    r"(?:\w+[ _-])?(?:addr|address|ptr|pointer|(?:begin|start|end|stop)[ _-](?:cycles?|ticks?|tsc)))$",
    re.IGNORECASE,
)
# What rocprof writes of each kernel's launch beside its counters; known by the first two together.
_OF_LAUNCHES = {"grd", "wgr", "lds", "scr", "vgpr", "arch_vgpr", "accum_vgpr", "sgpr", "wave_size", "sig", "obj",
                "fbar", "queue-index"}  # fmt: skip
# Names of a row's number, where it goes up by one from row to row.
_NUMBER = re.compile(
    r"^(?:[ijk]|id|idx|index|seq(?:uence)?|step|nr|no|num|number|pos(?:ition)?|sample|snapshot|record|round)$",
    re.IGNORECASE,
)
_FEW_ROWS = 4  # from which on other columns that count 0, 1, 2, ... or 1, 2, 3, ... number their rows, too
_MANY_ROWS = 10
_LARGE = 1000.0
_SHOWN = 3


def labels(grid: Grid, values: dict[int, np.ndarray], runs: np.ndarray, report: Report) -> dict[int, np.ndarray]:
    """Leave out the columns that name a parameter, of the runs or of their rows, and note them."""
    return _without_parameters(grid, _varying(grid, _without_numbers(grid, values, runs, report), runs, report), report)


def _without_numbers(
    grid: Grid, values: dict[int, np.ndarray], runs: np.ndarray, report: Report
) -> dict[int, np.ndarray]:
    """Leave out the columns that number the rows, of all or of each run, and note them."""
    same = runs[1:] == runs[:-1]

    def numbers(name: str, column: np.ndarray) -> bool:
        up = np.diff(column) == 1
        of_all = len(up) > 0 and bool(up.all())
        if not of_all and not (same.any() and up[same].all() and np.all(column[1:][~same] == column[0])):
            return False
        if _NUMBER.match(name.lstrip("# ")):
            return True
        return len(column) >= _FEW_ROWS and column[0] in (0.0, 1.0) and not sounds_like_event(name)

    found = [i for i in values if grid.names[i] not in report.asked.axes and numbers(grid.names[i], values[i])]
    if found:
        report.note(f"columns that number the rows, left out: {', '.join(grid.names[i] for i in found)}")
    return {i: v for i, v in values.items() if i not in found}


def _varying(grid: Grid, values: dict[int, np.ndarray], runs: np.ndarray, report: Report) -> dict[int, np.ndarray]:
    """Leave out the columns that are constant in all rows, or within each of several runs, and note them.

    Counts are never exactly the same again and again, except zeros, and except where time or work are too, as in a
    simulation of a loop; there only names of parameters are taken. In fewer than 10 rows, small numbers of another
    name may be counts.
    """
    codes, names = pd.factorize(runs)
    order = np.argsort(codes, kind="stable")
    within = np.diff(codes[order]) == 0  # pairs of rows of one run
    repeated = len(np.unique(codes[order][1:][within]))
    if len(order) < 2 or not repeated or (len(names) > 1 and repeated < 2):
        return values

    def constant(column: np.ndarray) -> bool:
        known = column[order]
        return bool((known[1:] == known[:-1])[within].all() and known[0] == known[0] and (known != 0).any())

    axes = [i for i in values if normalise(grid.names[i]) in (*TIME_EVENTS, *WORK_EVENTS)]
    kept = {i for i in values if i in axes or grid.names[i] in report.asked.axes}
    varies = bool(axes) and not any(constant(values[i]) for i in axes)
    found = {}
    for i in (i for i in values if i not in kept and constant(values[i])):
        sure = len(order) >= _MANY_ROWS or (len(order) > 2 and float(values[i].max()) > _LARGE)
        if _PARAMETER.match(grid.names[i]) or (varies and sure):
            found[i] = [f"{v:g}" for v in dict.fromkeys(values[i].tolist())]
    if found:
        where = "in all rows" if len(names) == 1 else "within each run"
        each = (
            f"{grid.names[i]} ({', '.join(v[:_SHOWN])}{', ...' if len(v) > _SHOWN else ''})" for i, v in found.items()
        )
        report.note(f"columns constant {where}, labels and no counters, left out: {', '.join(each)}")
    return {i: v for i, v in values.items() if i not in found}


def varying_parameters(grid: Grid, values: dict[int, np.ndarray]) -> list[int]:
    """Return the columns that name a parameter (a size, a number of threads) which changes from row to row."""
    return [i for i, v in values.items() if _NEVER_COUNTED.match(grid.names[i]) and len(np.unique(v)) > 1]


def _without_parameters(grid: Grid, values: dict[int, np.ndarray], report: Report) -> dict[int, np.ndarray]:
    launches = _OF_LAUNCHES if {"grd", "wgr"} <= set(grid.names) else set()
    named = [i for i in values if _NEVER_COUNTED.match(grid.names[i]) or grid.names[i] in launches]
    named = [i for i in named if grid.names[i] not in report.asked.axes]
    if named:
        names = ", ".join(grid.names[i] for i in named)
        report.note(f"columns that name a parameter of their row and count nothing, left out: {names}")
    return {i: v for i, v in values.items() if i not in named}
