"""``perf stat`` as people read it: with and without ``-I``, ``-r``, ``-A``, ``--per-core`` and the like.

The notes behind ``#`` are never read: they are rounded, and in real dumps "insn per cycle" was off by more than 2 % in
up to 95 % of the intervals, because perf divides counts of different intervals when counters are multiplexed.
"""

import re

from perfkit.errors import FormatError
from perfkit.readers.numbers import NUMBER
from perfkit.readers.open import Opened
from perfkit.readers.perf import (
    COMMA_IN_TIME,
    TWO_IN_ONE,
    PerfOutput,
    PerfRows,
    PrintedCount,
    decimal_sign_of,
    running_share,
    samples_of_rows,
    without_counts,
)
from perfkit.readers.report import Dump, Report

NAME = "perf-text"
TITLE = "perf stat, text"

_VALUE = rf"(?P<value><not counted>|<not supported>|{NUMBER})"
_AT = r"(?:(?P<at>\d+\.\d{9})[ \t]+)?"
# S0, S0-D0, S0-D0-C3, S0-D0-L3-ID0, S0-D0-CLS2 and N0 are followed by how many CPUs they sum up.
_PLACE = r"(?:(?P<cpu>CPU\d+)[ \t]+|(?P<part>S\d+(?:-[A-Z]+\d+)*|N\d+)[ \t]+\d+[ \t]+)?"
_THREAD = r"(?P<cpu>\S.*?-\d+)[ \t]+(?P<part>\Z)?"
_REST = r"(?P<rest>[^#\s\d].*)$"
_LINE = re.compile(rf"^[ \t]*{_AT}{_PLACE}{_VALUE}[ \t]+{_REST}")
_THREAD_LINE = re.compile(rf"^[ \t]*{_AT}{_THREAD}{_VALUE}[ \t]+{_REST}")
# The most frequent line, without place and variance, at once.
_PLAIN = re.compile(
    r"^[ \t]*(?P<at>\d+\.\d{9})[ \t]+(?P<value>[\d.,]*\d)[ \t]+(?P<event>[^\s\d#(<][^\s#]*)"
    r"(?:[ \t]+#[ \t]*[-\d.,na]*[^()\d]*)?(?:[ \t]*\([ \t]*(?P<pct>\d+[.,]\d+)%\))?[ \t]*$"
)
# Another line's count behind the note of a count, or another interval's behind anything: the end of a line is lost.
_SOME_PLACE = r"(?:(?:CPU\d+|S\d+(?:-[A-Z]+\d+)*[ \t]+\d+|N\d+[ \t]+\d+)[ \t]+)?"
_TWO_IN_ONE = re.compile(
    rf"[^#]*#.*[ \t]\d+\.\d{{9}}[ \t]+(?:\S.*?[ \t]+)?(?:<not |{NUMBER}[ \t]+\S)"
    rf"|[^\s#][^#]*#.*(?:[^\W\d_][ \t]{{3,}}{_SOME_PLACE}|%[ \t]*\)[ \t]*)(?:<not [cs]|{NUMBER}[ \t]+[^\W\d])"
)
_STARTED_BEHIND = re.compile(r"[^#]*[^\s#][^#]*# started on ")
_PERCENT = re.compile(r"[ \t]*\([ \t]*(?P<pct>\d+[.,]\d+)%\)[ \t]*$")
_VARIANCE = re.compile(r"[ \t]*\([ \t]*\+-[ \t]*(?P<pct>\d+[.,]\d+|-?nan)%[ \t]*\)[ \t]*$")
_EVENT = re.compile(
    r"^(?:(?P<unit>msec|usec|nsec|ms|us|ns|sec|s|Joules|Watts|[KMGT]?i?B|[KMGT]?i?Bytes|bytes|%)[ \t]+)?"
    r"(?P<event>\S+(?:[ \t]\((?:msec|ns|sec)\)|[ \t]\[[^\]]+\])?)(?:[ \t]+(?P<cgroup>[^\s(#]\S*))?$"
)
_COMMA_AT = re.compile(rf"^[ \t]*\d+,\d{{3,9}}[ \t]+{_PLACE}{_VALUE}[ \t]+{_REST}")
_HEADER = re.compile(r"^#[ \t]+time\b(?P<columns>.*)$")
_STARTED = re.compile(r"^# started on (?P<when>.+)$")
_STATS_FOR = re.compile(r"^[ \t]*Performance counter stats for (?P<what>.*?)(?: \((?P<runs>\d+) runs\))?:[ \t]*$")
# JMH (-prof perf) prints perf's output of a benchmark, without its first line, in the middle of its own.
_OF_JMH = re.compile(r'^Secondary result "(?P<what>.+?):\W?perf":[ \t]*$', re.MULTILINE)
_SECONDS = re.compile(
    r"^[ \t]*(?P<s>\d+[.,]\d+)[ \t]+(?:\+-[ \t]+\d+[.,]\d+[ \t]+)?seconds (?P<what>time elapsed|user|sys)\b"
)
_DERIVED = re.compile(rf"^[ \t]*{_AT}{_PLACE}#[ \t]+[-\d<n]")
# The heading of a group of metrics, with its first metric behind it: "TopdownL1 (cpu_core)   #   31.1 %  tma_...".
_TOPDOWN = re.compile(rf"^[ \t]*{_AT}{_PLACE}[A-Za-z]\w*(?:[ \t]\(\w+\))?[ \t]+#[ \t]+[-\d<n]")
_TOPDOWN_HEADER = re.compile(r"^[ \t]*(?:retiring[ \t]+bad speculation|%[ \t]+tma_\w+[ \t]+%[ \t]+tma_)")
_METRIC_HEADER = re.compile(r"^[^#\d]*\b(?:insn per cycle|of all \S+ \w+|of all branches)\b[^#\d]*$")  # --metric-only
# The command, typed behind a prompt or told by a wrapper (ocperf.py).
_COMMAND = re.compile(
    r"^(?:(?:\S.*)?[$#>%] )?(?:(?:sudo|time|taskset|numactl)\b.* )?(?:\S*/)?(?:oc)?perf(?:\.py)? stat\b(?! \.\.\.)"
)
_ADVICE = re.compile(
    r"^[ \t]*(?:Some events weren't counted|echo [01] > /proc/sys/kernel/nmi_watchdog|perf stat \.\.\.|"
    r"The events in group usually have to be|Try disabling the NMI watchdog|Using CPUID |Control descriptor |"
    r"\S+: (?:-?\d+: )?\d+ \d+ \d+$|\S.* -> \S+/.*/\w*$|-{40,}$|perf_event_attr:$|sys_perf_event_open(?:: |_failed)|"
    r"(?:type|size|config\d?|(?:sample|read|exclude|bp)_\w+|\{ sample_\w+, \w+ \}|disabled|inherit|pinned|exclusive|"
    r"enable_on_exec|precise_ip|freq|mmap|comm|task|watermark)[ \t]{2,}\S.*$|Weak group for |WARNING: |Warning: )"
)
# The runs of -r one by one (--table): seconds, their distance from the mean, and a bar.
_SINGLE = re.compile(
    r"^[ \t]*(?:# (?:Table of individual measurements|Final result):|\d+[.,]\d+ \([+-]\d+[.,]\d+\)[ \t]*#*)[ \t]*$"
)


def recognise(head: str) -> bool:
    """Whether the beginning of a file looks like this format."""
    if _OF_JMH.search(head) is not None:
        return True
    lines = [x[:400] for x in _unquoted(head.splitlines()[:400])]
    if any(_STATS_FOR.match(x) or _HEADER.match(x) for x in lines):
        return True
    timed = (m for x in lines if (m := _LINE.match(x)) is not None and m["at"])
    return any(_EVENT.match(_strip(m["rest"])[0]) for m in timed)


def read(content: Opened, report: Report, run: str) -> Dump:
    """Read all counts of a file."""
    whole = content.lines()
    lines = _unquoted(whole)
    report.describes([n for n, (line, of) in enumerate(zip(lines, whole, strict=True), 1) if of.strip() and not line])
    jmh = any(_OF_JMH.match(line) for line in lines)
    reader = _Reader(report, threads=_by_thread(lines), begins=_first_head(lines), jmh=jmh)
    ends_whole = content.ends_with_newline
    for number, line in enumerate(lines, 1):
        if not line or line.isspace():
            continue
        if not reader.take(number, line):
            if not reader.found.rows and _TOPDOWN_HEADER.match(line):
                raise FormatError(
                    f"{report.file}, line {number}: written by perf stat --topdown, which prints percentages and no "
                    "counts. Count slots and topdown-* events (or -M TopdownL1) with perf stat -I 100 -x,."
                )
            if not reader.found.rows and _METRIC_HEADER.match(line):
                raise _metric_only(report)
            last = number == len(lines) and not ends_whole
            report.problem(number, line, "the file ends in the middle of a line" if last else reader.why(line))
    return reader.finish(run, cut_at=0 if ends_whole else len(lines))


def _unquoted(lines: list[str]) -> list[str]:
    """Take off the signs of a quotation in a mail or a comment, where every line has one."""
    quoted = all(line.startswith(">") or line.isspace() or not line for line in lines)
    return [line.removeprefix(">").removeprefix(" ") for line in lines] if quoted else lines


def _by_thread(lines: list[str]) -> bool:
    """Whether the counts of an output without intervals stand behind threads (``--per-thread``)."""
    counts = [x for x in lines[:400] if x[:1] in " \t" and "seconds" not in x and x.strip() and x.lstrip()[0] != "#"]
    threads = sum(_LINE.match(x) is None and _THREAD_LINE.match(x) is not None for x in counts)
    return threads > sum(_LINE.match(x) is not None for x in counts)


def _first_head(lines: list[str]) -> int:
    """Return the number of the line that begins perf's own output; 0 where it has none, or begins with counts."""
    for number, line in enumerate(lines, 1):
        if _STATS_FOR.match(line) or _OF_JMH.match(line):
            return number
        if _STARTED.match(line) or _HEADER.match(line) or ((match := _LINE.match(line)) is not None and match["at"]):
            return 0
    return 0


def _metric_only(report: Report) -> FormatError:
    return FormatError(
        f"{report.file}: written by perf stat --metric-only, which prints ratios and no counts. "
        "Measure again without that option."
    )


class _Reader:
    """The lines of a file, one after another, and what they have in common."""

    def __init__(self, report: Report, threads: bool, begins: int, jmh: bool) -> None:
        self.report = report
        self.jmh = jmh  # JMH printed the file
        self.begins = begins  # before this line, the program printed
        self.found = PerfRows(text=True)
        self.fresh = True  # the next count begins an output of perf
        self.timed = False  # this output prints intervals
        self.line = _THREAD_LINE if threads else _LINE
        self.in_totals = False
        self.ended = False  # an output of perf is complete: what comes before the next is the program's
        self.benchmark = ""  # of JMH

    def take(self, number: int, line: str) -> bool:
        """Use a line; say whether it made sense."""
        if self.timed and self.line is _LINE and (plain := _PLAIN.match(line)) is not None and not self.in_totals:
            at, value, event, share = plain.groups()
            running = running_share(share) if share else 1.0
            if share and not self.found.decimal_sign:
                self.found.decimal_sign = decimal_sign_of(share)
            self.found.rows.append(
                PrintedCount(number, len(self.found.blocks) - 1, float(at), "", value, "", event, running)
            )
            return True
        if _SINGLE.match(line) is not None:
            self.report.left_out(number, "of single measurements (--table), not read")
            return True
        if "seconds" in line and (said := _SECONDS.match(line)) is not None:
            self.ended = self.ended or said["what"] == "time elapsed"
            if said["what"] == "time elapsed" and self.found.blocks and not self.in_totals:
                self.found.blocks[-1].elapsed = float(said["s"].replace(",", "."))
                self.fresh = self.fresh or self.jmh  # the next fork's counts have no heading
            self.report.describes(number)
            return True
        if (said := _OF_JMH.match(line)) is not None:
            self.benchmark = said["what"]
            self._stats_for(self.benchmark, 1)
        if said is not None or _COMMAND.match(line) is not None or (self.jmh and line.strip() == "Perf stats:"):
            self.report.describes(number)
            return True
        if (number < self.begins or self.ended) and self._of_program(number, line):
            return True
        if _is_two_in_one(line):
            return False
        match = self.line.match(line)
        if match is not None and self._count(number, match):
            return True
        if line.startswith("#"):
            return self._comment(number, line)
        if (said := _STATS_FOR.match(line)) is not None:
            self.report.describes(number)
            self._stats_for(said["what"], int(said["runs"] or 1))
            return True
        if _DERIVED.match(line) or _TOPDOWN.match(line):
            self.report.left_out(number, "with derived metrics only, not read")
            return True
        if _ADVICE.match(line) is not None:
            self.report.left_out(number, "of perf's advice, not read")
            return True
        return False

    def why(self, line: str) -> str:
        """Say what was expected in a line that made no sense."""
        if _COMMA_AT.match(line) is not None:
            return COMMA_IN_TIME
        if _is_two_in_one(line):
            return TWO_IN_ONE
        if self.timed:
            return "expected an interval's end, a count and an event"
        return "expected a count and an event, as perf stat prints them"

    def finish(self, run: str, cut_at: int) -> Dump:
        """Make a dump of all that was found."""
        if cut_at:
            self._check_cut(cut_at)
        if not self.found.rows:
            raise without_counts(self.report, "output of perf stat")
        return samples_of_rows(self.found, self.report, run)

    def _count(self, number: int, match: re.Match[str]) -> bool:
        event, running, variance, sign = _strip(match["rest"])
        named = _EVENT.match(event)
        if named is None:
            return False
        at = match["at"]
        if self.timed and at is None:
            if not self.in_totals:
                return False
            self.report.left_out(number, "of totals behind the intervals (--summary), not read again")
            return True
        if self.fresh or (self.in_totals and at):
            self._begin()
        self.timed = self.timed or at is not None
        self.found.decimal_sign = self.found.decimal_sign or sign
        place = match["cpu"] or match["part"] or ""
        if named["cgroup"]:
            place = f"{place} {named['cgroup']}".strip()
        self.found.rows.append(
            PrintedCount(
                number,
                len(self.found.blocks) - 1,
                float(at) if at else float("nan"),
                place,
                match["value"],
                named["unit"] or "",
                named["event"],
                running,
                variance,
            )
        )
        return True

    def _begin(self) -> None:
        if not self.found.blocks or self.found.rows:
            self.found.blocks.append(PerfOutput(command=self.benchmark))
        self.fresh = self.timed = self.in_totals = False

    def _comment(self, number: int, line: str) -> bool:
        if (said := _STARTED.match(line)) is not None:
            self.fresh = False
            self.timed = self.in_totals = False
            self.found.blocks.append(PerfOutput(started=said["when"].strip()))
            self.report.describes(number)
        elif (header := _HEADER.match(line)) is not None:
            if "counts" not in header["columns"]:
                raise _metric_only(self.report)
            self.line = _THREAD_LINE if "comm-pid" in header["columns"] else _LINE
            self.report.describes(number)
        else:
            self.report.left_out(number, "of comments, not read")
        return True

    def _of_program(self, number: int, line: str) -> bool:
        """Leave out what the program printed before and behind perf's output, which is set in and has headings."""
        match = self.line.match(line) if self.jmh and self.ended else None
        counts = match is not None and _EVENT.match(_strip(match["rest"])[0]) is not None  # of JMH's next fork
        set_in = line.startswith((" ", "\t", "#")) or _ADVICE.match(line) or _DERIVED.match(line)
        if counts or (set_in and not self.jmh):
            return False
        self.report.left_out(number, "of the program's own output, not read")
        return True

    def _stats_for(self, what: str, repeats: int) -> None:
        self.ended = False
        if self.timed:  # --summary repeats the sums of all intervals
            self.in_totals = True
            return
        if self.fresh or any(r.block == len(self.found.blocks) - 1 for r in self.found.rows[-1:]):
            self.found.blocks.append(PerfOutput())
        self.fresh = False
        block = self.found.blocks[-1]
        block.command, block.repeats = what.strip("'"), repeats

    def _check_cut(self, last: int) -> None:
        """Refuse a last line without an end whose event is the beginning of another's name, or has no other line."""
        rows = self.found.rows
        if not rows or rows[-1].line != last:
            return
        cut = rows[-1]
        if cut.event.count("/") % 2:
            rows.pop()
            self.report.problem(last, f"{cut.value} {cut.event}", "the file ends in the middle of a line")
            return
        if not self.timed:
            return
        others = {r.event for r in rows[:-1]}
        intervals = len({r.at for r in rows})
        if cut.event not in others and (intervals > 1 or any(e.startswith(cut.event) for e in others)):
            rows.pop()
            self.report.problem(last, f"{cut.value} {cut.event}", "the file ends in the middle of a line")


def _is_two_in_one(line: str) -> bool:
    """Whether another line's count, or the beginning of another output, stands behind a note."""
    return "#" in line and (_TWO_IN_ONE.match(line.lstrip()) or _STARTED_BEHIND.match(line)) is not None


def _strip(rest: str) -> tuple[str, float, float, str]:
    """Take percentages and notes off the end: the event with its unit, running share, variance, decimal sign."""
    running, variance, sign = 1.0, float("nan"), ""
    while True:
        if (share := _PERCENT.search(rest)) is not None:
            running = running_share(share["pct"])
            sign = decimal_sign_of(share["pct"])
        elif (share := _VARIANCE.search(rest)) is not None:
            variance = float(share["pct"].replace(",", "."))
            sign = sign or decimal_sign_of(share["pct"])
        else:
            break
        rest = rest[: share.start()]
    return rest.split(" #", 1)[0].split("\t#", 1)[0].rstrip(), running, variance, sign
