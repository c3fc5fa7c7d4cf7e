"""Outputs of common tools that are recognised and hold no counts over intervals: each is refused by its name.

A reader that guessed at them would make events of ratios, times and addresses.
"""

import re
from typing import NoReturn

from perfkit.errors import FormatError
from perfkit.readers.open import Opened
from perfkit.readers.report import Report

NAME = "no-counts"
TITLE = "outputs without counts, refused by name"

_STAT = "Count the events with `perf stat -I 100 -e cycles,instructions,...`."
# What the beginning looks like (a regular expression over all of it), what it is, and what to do instead.
_KNOWN: tuple[tuple[str, str, str], ...] = (
    (
        r'\A\s*\{[\s\S]*"benchmarks"[\s\S]*"(?:runs|warmups)"[\s\S]*"(?:values|warmups|metadata)"',
        "pyperf's JSON: times of benchmarks, no counts of events",
        _STAT,
    ),
    (
        r"(?m)\A(?:#.*\n|\s*\n)*\s*\S.{0,40}?\s+\d+(?:/\d+)?\s+(?:\[\d+\]\s+)?\d+\.\d{3,}:\s+\d*\s*\S+:",
        "`perf script`: single samples of a profile, no counts over intervals",
        "`perf stat` counts; of a recorded profile, `perf report` shows where its samples fell. " + _STAT,
    ),
    (
        r"(?m)^# (?:Overhead|Children)\s.*(?:Command|Shared Object|Symbol)|^# Samples: .* of events? ",
        "`perf report`: shares of a profile's samples, no counts over intervals",
        _STAT,
    ),
    (r"\A\s*comm,tid,time,event", "fields of `perf script`: single samples of a profile, no counts", _STAT),
    (
        r"\A[^\n]*AMDuProfPcm|\A\s*AMDuProfPcm",
        "AMDuProfPcm's table of metrics: ratios and rates, no counts",
        _STAT,
    ),
    (
        r"(?m)\A[^\n]*\b(?:System|Core\s?\d+ \(Socket \d+\)|Socket ?\d+)[^\n]*\n[^\n]*\b(?:EXEC|IPC)\b[^\n]*$",
        "Intel PCM's table of metrics: shares, rates and rounded counts of the whole machine",
        "Use `pcm-core -e ...`' events with `perf stat -a -I 1000 -e ...` instead. " + _STAT,
    ),
    (
        r"\A\s*Hierarchy Level[,\t;]Metric Name[,\t;]Metric Value",
        "VTune's summary: a table of metrics (ratios and times), no counts over intervals",
        "Export the counts: vtune -report hw-events -format csv.",
    ),
    (
        r"\A\s*run,stage,group,metric,value,units",
        "Arm topdown-tool's table of metrics (ratios: percent of slots, per thousand instructions), no counts",
        "Count its events with `perf stat -I 100 -e ...` (topdown-tool --dump-events lists them).",
    ),
    (
        r"(?m)\A(?:[A-Za-z][\w.:/ ]*: -?\d+(?:\.\d+)?\s*\n){2,}\s*\Z",
        "nanoBench's output: averages of one code sequence per repetition, no counts over intervals",
        "Ask `perfkit asm` what an instruction costs. " + _STAT,
    ),
    (
        r"\*\* Running group [\w-]+ :",
        "uarch-bench's table: averages per operation, no counts over intervals",
        _STAT,
    ),
    (
        r"\A\s*(?:time,)?[^\n]*\b(?:insn per cycle|of all branches|tma_\w+)[^\n]*,\s*\n\s*\d",
        "`perf stat --metric-only -x`: ratios and no counts",
        "Measure again without --metric-only.",
    ),
    (
        r"\A(?:\s*\d+\.\d{9},(?:-?\d+\.\d+,)+,*\s*\n?)+\Z",
        "`perf stat --metric-only -x`: ratios without names and no counts",
        "Measure again without --metric-only.",
    ),
    (
        r"\A\s*<\?xml[\s\S]{0,400}<trace-query-result",
        "xctrace's XML export of Instruments",
        "Export a table of counters as CSV, one column per event.",
    ),
    (
        r"\A\s*<(?:\?xml|!DOCTYPE|html)",
        "XML or HTML, no dump of counts",
        "Export a table as CSV.",
    ),
)
_PATTERNS = tuple((re.compile(p), what, instead) for p, what, instead in _KNOWN)
_LOOKED_AT = 20_000


def recognise(head: str) -> bool:
    """Whether the beginning of a file is the output of such a tool."""
    return _of(head) is not None


def read(content: Opened, report: Report, run: str) -> NoReturn:
    """Refuse the file by its name."""
    del report, run
    what, instead = _of(content.head()) or ("output without counts", _STAT)
    raise FormatError(f"{content.name}: {what}; perfkit's methods need counts. {instead}")


def _of(head: str) -> tuple[str, str] | None:
    text = head.lstrip("\ufeff")[:_LOOKED_AT].replace("\r\n", "\n")
    return next(((what, instead) for pattern, what, instead in _PATTERNS if pattern.search(text)), None)
