"""What a simulation does not model, or has no measured figures of, and what may explain a difference from the clock."""

import re
from collections import Counter

import numpy as np

from perfkit.collectors.dag.x86_whole import LEAST_WAITS
from perfkit.errors import how_often
from perfkit.simulators.gus.gus import GusResult
from perfkit.trace.code_lines import HELD, LINE, CodeLines

_MISS = 15  # cycles of a line of code that comes from L2
_SHARE = 0.2  # of the instructions, or of the simulated time, from which their figures decide
_X87 = re.compile(r"f(?!x(save|rstor)|emms)\w+")
_STRINGS = re.compile(r"rep(n?[ez])? \w+")
_COMPRESSED = re.compile(r"v?p?compress\w+ (?:\w+ ptr )?\[")  # to memory: a Zen 4's microcode
_SCANS = re.compile(r"rep(?:n?[ez])? (?:lods|scas|cmps)\w*")  # an iteration at a time, and simulated as one
_AT_MOST, _TRAPPED = 10, 70_000  # times `LEAST_WAITS`; cycles of a CPUID that a virtual machine's host answers
_LEAST = 8  # cycles beyond the simulated ones
_NOT_MEASURED = ("llvm", "llvm-mca", "class default")


def fetched(result: GusResult, more: float) -> str:
    """Say that fetching instructions may explain so many cycles more than simulated; "" where it cannot."""
    lines, missed = _lines_fetched(result)
    if lines <= HELD or missed * _MISS < more / 2:
        return ""
    return (
        f"The code that it runs fills {lines * LINE / 1024:,.0f} KiB, and a first instruction cache holds 32 (64 on a "
        f"Granite Rapids): some {missed:,} lines of it come from L2 or farther, which is not simulated. Smaller code "
        "(less inlining and unrolling, -Os), or calls of the same function in a row, need fewer"
    )


def guessed(result: GusResult) -> str:
    """Say that much of the time is of instructions whose figures were not measured; "" where it is not."""
    runs = result.executions
    texts = result.trace.code.text
    x87 = np.array(
        [
            bool(_X87.match(text)) and form.source in _NOT_MEASURED
            for text, form in zip(texts, result.program.forms, strict=True)
        ]
    )
    share = float(runs[x87].sum()) / result.instructions
    if share >= _SHARE:
        return (
            f"{share:.0%} of its instructions are x87's (long double), whose latencies and ports come from LLVM's "
            "tables and were not measured: three loops took 0.5, 1.3 and 1.3 times the simulated time on a Zen 4. "
            "double, if its precision will do, is simulated better"
        )
    strings = np.array([bool(_STRINGS.match(text)) for text in texts])
    spent = result.spent.sum(axis=1)
    # What retires behind such an instruction waits for it.
    behind = np.concatenate(([False], strings[:-1]))
    if spent[strings | behind].sum() >= _SHARE * max(result.ticks, 1):
        return (
            "Much of its time is in repeated string instructions (rep movs, rep stos and the like), whose microcode "
            "takes a time that depends on sizes, alignment and where the data lie: one figure for all is simulated"
        )
    return ""


def not_modelled(result: GusResult) -> dict[str, int]:
    """Return how often instructions were executed whose time is not simulated, by name.

    Fences and others that wait, strings that are searched by microcode, vectors that are compressed to memory, and
    microcode of which tables have a guess.
    """
    found: Counter[str] = Counter()
    each = zip(result.trace.code.text, result.program.forms, result.executions.tolist(), strict=True)
    for text, form, times in each:
        name = text.split(" ")[0]
        string = _SCANS.match(text)
        waits = LEAST_WAITS.get(name.upper(), 0) >= _LEAST
        guessed = form.is_guessed and not _STRINGS.match(text) and not name.startswith("endbr")
        if times and (waits or guessed or string or _COMPRESSED.match(text)):
            found[string.group() if string else name] += times
    return dict(sorted(found.items()))


def waiting(result: GusResult, more: float) -> str:
    """Say that instructions which wait for others may explain so many cycles more than simulated; "" where not."""
    found = {name: times for name, times in not_modelled(result).items() if name.upper() in LEAST_WAITS}
    most = {name: _TRAPPED if name == "cpuid" else _AT_MOST * LEAST_WAITS[name.upper()] for name in found}
    if sum(times * most[name] for name, times in found.items()) < more / 2:
        return ""
    told = ", ".join(f"{name} {how_often(times)}" for name, times in found.items())
    return f"It ran {told}: what these take is not simulated, or less than they take"


def _lines_fetched(result: GusResult) -> tuple[int, int]:
    """Return how many lines of code ran, and how often one did that was not in the first cache any more."""
    trace = result.trace
    lines = CodeLines(trace.code, trace.block_counts())
    for chunk in trace.chunks():
        lines.see(chunk.stream)
    return lines.known, lines.missed
