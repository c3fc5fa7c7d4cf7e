"""What a simulation does not model, or has no measured figures of, and what may explain a difference from the clock."""

import re

import numpy as np

from perfkit.simulators.gus.gus import GusResult
from perfkit.trace.code_lines import HELD, LINE, CodeLines

_MISS = 15  # cycles of a line of code that comes from L2
_SHARE = 0.2  # of the instructions, or of the simulated time, from which their figures decide
_X87 = re.compile(r"f(?!x(save|rstor)|emms)\w+")
_STRINGS = re.compile(r"rep(n?[ez])? \w+")
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


def _lines_fetched(result: GusResult) -> tuple[int, int]:
    """Return how many lines of code ran, and how often one did that was not in the first cache any more."""
    trace = result.trace
    lines = CodeLines(trace.code, trace.block_counts())
    for chunk in trace.chunks():
        lines.see(chunk.stream)
    return lines.known, lines.missed
