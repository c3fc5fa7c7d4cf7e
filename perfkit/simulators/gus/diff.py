"""What changed between two simulations: cycles by cause and by source line, and which resource is the bottleneck now.

Every tick of a simulated run belongs to one instruction and one cause (`GusResult.cpi_stack`), so the difference of two
runs is an exact sum over causes, and over lines.
"""

import re
import textwrap
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import zip_longest
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self

from perfkit.base.results import Kind, Tabled, check_top, draw, markdown_table
from perfkit.errors import DataError, SettingError, counted, expect, of_extra
from perfkit.simulators.gus import timing
from perfkit.simulators.gus.added import COLUMNS, added_lines
from perfkit.simulators.gus.beside import beside
from perfkit.simulators.gus.gus import ACCOUNT, GusResult, cpi_by_cause
from perfkit.simulators.gus.sensitivity import sensitivity
from perfkit.trace.calls import calls_of, first_calls
from perfkit.trace.standing import standing
from perfkit.trace.trace import StreamedTrace, Trace

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

WEIGHT = 2.0
"""A resource is asked for with so many times its capacity."""
ALIKE = 0.6  # lines that changed are the same line where so much of their text is (difflib's ratio)
_TELLING = 6  # letters: a brace is a part of every other line
_WARM = {
    "none": "caches cold",
    "caches": "caches warm",
    "all": "caches and predictor warm",
    "predicted": "caches warm, all branches predicted",
}
_WORK = 0.001  # of the instructions: a line that executes fewer and costs nothing is left out
_PART = 0.1  # of the whole change: a rewritten line that explains less did not make it
_COST = 0.5  # cycles below which a line costs nothing in a table of whole cycles
_LACKS = "lacks functions that it called"
_CUT = "was cut after"
UNLIKE_CALLS = "is not like the others"
"""Of calls that stand for no others: how `GusDiff.doubts` say so."""
_ASKED = 5  # lines that only the slower run has, which is simulated without each of the costliest
_NAMED = 3  # lines that were rewritten, of which the summary tells
LEAST = 0.01  # speedup below which a resource is no bottleneck
FAR = 0.25  # measured and simulated changes further apart than this are not the same thing explained
HOLDS = 0.05  # speedup, by twice the capacity, from which a resource is said to hold a run back


class Line(NamedTuple):
    """A source line (or an instruction) of one run: what it costs, and what it executes.

    ``instructions`` counts executions; ``mix`` stands for which operations the executed code has, each as often as it
    is in the code. It begins with ``=``; one that does not, of an older baseline, holds how often each was executed.
    """

    place: str
    text: str
    cycles: float
    instructions: float
    mix: str


class Instruction(NamedTuple):
    """An executed instruction of a line: where it stands (as objdump prints it), its text and what it costs."""

    place: str
    address: str
    text: str
    cycles: float
    executions: float


@dataclass(frozen=True)
class Side:
    """One simulated run, as much of it as a comparison needs: small enough to be kept in a file.

    Attributes
    ----------
    name, core, warm : str
        What ran, on which core, and what was warm before.
    cycles, instructions : float
        Simulated cycles, executed instructions.
    stopped : str
        Why the recording is not whole; "" where it is.
    lines : tuple of Line
        Those that cost half a cycle, or execute a thousandth of the instructions.
    causes, speedups : mapping
        Cause -> its cycles; resource -> what twice its capacity would bring.
    listing : tuple of Instruction
        The executed instructions of the lines, in the program's order; empty where they were not kept.
    calls : int
        How many calls the recording holds where all figures are per call; 0 where they are those of all of it.
    missing : (int, int)
        Calls that were asked for and calls that there were, where these are fewer; else (0, 0).
    """

    name: str
    core: str
    warm: str
    cycles: float
    instructions: float
    stopped: str
    lines: tuple[Line, ...]
    causes: Mapping[str, float]
    speedups: Mapping[str, float]
    listing: tuple[Instruction, ...] = ()
    calls: int = 0
    missing: tuple[int, int] = (0, 0)

    @classmethod
    def of(cls, result: GusResult, name: str = "", calls: int = 0, held: int = 0) -> Self:
        """Take a run apart: all of it, or one call of so many, of a recording that holds more."""
        origin, each = result.trace.provenance, max(calls, 1)
        lines, listing = _lines(result, calls)
        return cls(
            name or origin.title,
            result.settings.core.name,
            str(result.settings.warm),
            result.cycles / each,
            result.instructions / each if calls else result.instructions,
            "" if origin.complete else origin.stopped or "its end",
            lines,
            {cause: cycles / each for cause, cycles in _causes(result).items()},
            _speedups(result),
            listing,
            held,
            _missing(result.trace) if origin.complete else (0, 0),
        )


def _check_row(fits: bool, given: object, where: str) -> None:
    expect(fits, given, where, "rows of its to_frame()", "take them from there, as to_frame().iloc[0]")


@dataclass(frozen=True, eq=False, repr=False)
class GusDiff(Tabled):
    """Two simulated runs side by side.

    Attributes
    ----------
    names, cores : (str, str)
        What ran, and on which core.
    cycles : (float, float)
        Simulated cycles.
    instructions : (float, float)
        Executed instructions.
    calls : (int, int)
        How many calls each recording holds, where that differs: then **every figure is per call**, of as many first
        calls of either as the shorter one has; else (0, 0), and all figures are those of the whole recordings.
    warm : (str, str)
        What was warm before each run (`Gus.warm`): none, caches or all.
    table : DataFrame
        One row per source line (or instruction, where the source is not known) that costs half a cycle or more in
        either run, or whose code changed: place_a and place_b (``""`` where that run has no such line), text, cycles_a,
        cycles_b, instructions_a, instructions_b (executed), code: ``"same"``, ``"text"`` (the line was written, or
        rewritten), ``"operations"`` (the compiler made something else of it: also where only one of two runs of one
        source has code of it) or ``"unknown"`` (an older baseline does not say).
    causes : DataFrame
        One row per cause: cause, cycles_a, cycles_b; each column sums to the cycles.
    resources : DataFrame
        One row per resource: resource, speedup_a, speedup_b if its capacity were twice as large, as gains: 0.5 is half
        as fast again (`speedup` is a ratio: 1.5 is as much); missing where a core has no such resource.
    notes : tuple of str
        Why the two may not be comparable: a recording that was cut, other cores, caches that were warm in one only.
    listing : DataFrame
        One row per executed instruction of these lines: side (``"a"`` or ``"b"``), place, address (as objdump prints
        it), text, cycles, executions. No rows where the runs' instructions were not kept.
    added : DataFrame
        One row per line that only the slower run has (the costliest ones): place, cycles (that the run takes more than
        one in which the line's instructions never ran), cause (with most of these cycles), cause_cycles. No rows where
        that run is not at hand.
    measured : (float, float)
        **Measured** core cycles per call of either, on the machine that simulated them; not numbers where nothing was
        measured. All other figures are simulated.
    how_measured : str
        What was measured, or why nothing was; "" where nobody tried.
    measured_between : (float, float)
        Between which figures `measured_speedup` lies, as far as the runs of each agree; not numbers where that is not
        known.
    doubts : tuple of str
        Why neither figure says what the programs take: calls that are not like the others, several threads.

    Examples
    --------
    >>> import perfkit as pk
    >>> a, b = (pk.Gus(core).run(pk.datasets.load("traces/fig1a")) for core in ("skylake_x", "zen4"))
    >>> pk.diff(a, b).notes
    ('A ran on skylake_x and B on zen4',)
    """

    _rows: ClassVar[str] = "table"

    names: tuple[str, str]
    cores: tuple[str, str]
    cycles: tuple[float, float]
    instructions: tuple[float, float]
    warm: tuple[str, str]
    table: "pd.DataFrame"
    causes: "pd.DataFrame"
    resources: "pd.DataFrame"
    notes: tuple[str, ...] = ()
    listing: "pd.DataFrame" = field(default_factory=lambda: _listing((), ()))
    calls: tuple[int, int] = (0, 0)
    added: "pd.DataFrame" = field(default_factory=lambda: _nothing_added())
    measured: tuple[float, float] = (float("nan"), float("nan"))
    how_measured: str = ""
    measured_between: tuple[float, float] = (float("nan"), float("nan"))
    doubts: tuple[str, ...] = ()

    @property
    def kind(self) -> Kind:
        """``"simulated"``: no figure but `measured` was measured."""
        return "simulated"

    @property
    def measured_speedup(self) -> float:
        """How many times as fast the second run is as measured; not a number where nothing was."""
        return self.measured[0] / self.measured[1]

    @property
    def is_told_apart(self) -> bool:
        """Whether the two were measured to differ by more than their runs do; also where it is not known how far."""
        low, high = self.measured_between
        return not low <= 1 <= high

    @property
    def is_of_unlike_calls(self) -> bool:
        """Whether calls were simulated that are not like the others of their run."""
        return any(UNLIKE_CALLS in doubt for doubt in self.doubts)

    @property
    def is_far(self) -> bool:
        """Whether the measured change is so far from the simulated one that its reasons are not the simulated ones."""
        low, high = self.measured_between
        nearest = min(max(self.speedup, low), high) if low > 0 else self.measured_speedup
        apart = nearest / self.speedup
        return max(apart, 1 / apart) > 1 + FAR

    @property
    def speedup(self) -> float:
        """How many times as fast the second run is: cycles of the first over cycles of the second."""
        return self.cycles[0] / self.cycles[1]

    @property
    def unit(self) -> str:
        """What the cycles are: ``"cycles"`` of the whole recordings, or ``"cycles per call"``."""
        return "cycles per call" if any(self.calls) else "cycles"

    @property
    def is_cut(self) -> bool:
        """Whether a recording ends before its work does: cycles of other work are no measure of speed."""
        return any(_CUT in note for note in self.notes)

    @property
    def lacks_callees(self) -> bool:
        """Whether a recording lacks functions that were called, and their time: it may be what the two differ by."""
        return any(_LACKS in note for note in self.notes)

    @property
    def bottlenecks(self) -> tuple[str, str]:
        """Each run's resource with the largest speedup at twice the capacity; ``""`` where none gives 5 %."""
        found = []
        for column in ("speedup_a", "speedup_b"):
            best = self.resources[column].idxmax()
            found.append(self.resources["resource"][best] if self.resources[column][best] >= HOLDS else "")
        return found[0], found[1]

    def changed_line(self) -> "pd.Series | None":
        """Return the row of `to_frame` that most likely made the change; None where nothing changed by a cycle.

        Cycles are counted where an instruction could not retire, which may be behind the one that was changed: so of
        the lines that were rewritten, the one with the largest change (of a line that only the slower run has, what it
        takes less without: `added`); where none of them explains a tenth of it, of those that execute other operations;
        and else of all.
        """
        change = self.cycles[1] - self.cycles[0]
        if abs(change) < 1:
            return None
        frame, least = self.to_frame(), _PART * abs(change)
        toward = frame["change"] * (1 if change > 0 else -1)
        work = (frame["instructions_b"] - frame["instructions_a"]) * (1 if change > 0 else -1)
        large = (toward >= least) | (work >= least)
        toward = self._asked(frame).fillna(toward)
        for kinds in (("text",), ("text", "operations", "unknown")):
            mine = frame["code"].isin(kinds) & (large | (toward >= least))
            if mine.any():
                return frame.loc[toward.where(mine, -float("inf")).idxmax()]
        return frame.loc[toward.idxmax()] if len(frame) else None

    def _asked(self, frame: "pd.DataFrame") -> "pd.Series":
        """Return what each line of a table makes the slower run take, where that was asked; else missing."""
        slower = "b" if self.cycles[1] > self.cycles[0] else "a"
        cycles = dict(zip(self.added["place"], self.added["cycles"], strict=True))
        return frame[f"place_{slower}"].map(cycles).astype(float)

    def explains(self, row: "pd.Series") -> bool:
        """Whether a run without a line of the slower run said that it makes most of the change."""
        _check_row(hasattr(row, "to_frame") and "place_a" in row, row, "GusDiff.explains")
        asked = float(self._asked(row.to_frame().T).iloc[0])
        return asked >= abs(self.cycles[1] - self.cycles[0]) / 2

    def told_change(self) -> str:
        """Say which lines were changed, the one that made most of the difference first; "" where none is known."""
        row = self.changed_line()
        if row is None or row["code"] in ("same", "unknown"):
            return ""
        frame = self.to_frame()
        others = frame[(frame["code"] == "text") & (frame.index != row.name) & self._asked(frame).isna()]
        others = others[others["change"].abs() >= _COST]
        if abs(row["change"]) < _PART * abs(self.cycles[1] - self.cycles[0]) and row["code"] == "text":
            told = others[others["change"].abs() > abs(row["change"])].head(_NAMED - 1)
        else:
            told = others.head(0)
        return "; ".join([*(said_of(each) for each in told.itertuples()), self.said(row)])

    def places(self, rows: "pd.DataFrame") -> list[str]:
        """Return where each of some rows of `to_frame` is: in both runs where that differs."""
        _check_row("place_a" in getattr(rows, "columns", ()), rows, "GusDiff.places")
        return [place_of(row) for row in rows.itertuples()]

    def said(self, row: "pd.Series") -> str:
        """Say what happened to a row of `to_frame`; of a line that only the slower run has, what it makes that take."""
        _check_row(hasattr(row, "to_frame") and "place_a" in row, row, "GusDiff.said")
        slower = row["place_b"] if self.cycles[1] > self.cycles[0] else row["place_a"]
        mine = self.added[(self.added["place"] == slower) & (slower != "")]
        if not len(mine):
            return said_of(row)
        found, sign = mine.iloc[0], 1 if self.cycles[1] > self.cycles[0] else -1
        cause = f", by {found['cause']} ({sign * found['cause_cycles']:+z,.0f})" if found["cause_cycles"] >= 1 else ""
        return said_of(row, sign * found["cycles"], f"{cause}, as a run without it shows")

    def to_frame(self) -> "pd.DataFrame":
        """Return one row per line, the largest change first: `table` with the change in cycles (simulated)."""
        return _by_change(self.table)

    def by_cause(self) -> "pd.DataFrame":
        """Return one row per cause, the largest change first: `causes` with the change in cycles (simulated)."""
        return _by_change(self.causes)

    def aligned(self) -> "pd.DataFrame":
        """Return the two listings side by side, aligned by source line (simulated).

        One row per pair of instructions of a line, in the order of the source: line (the row of `table`), place_a,
        place_b, source (the line's text), and for either side address, instruction, cycles and executions (``""`` and 0
        where it has no further instruction of this line).
        """
        pd = of_extra("pandas")

        held: dict[tuple[str, str], list[Any]] = {}
        for row in self.listing.itertuples(index=False):
            held.setdefault((row.side, row.place), []).append(row)
        rows = []
        for number, line in enumerate(self.table.itertuples(index=False)):
            mine, other = held.get(("a", line.place_a), []), held.get(("b", line.place_b), [])
            for a, b in zip_longest(mine, other):
                both = [
                    (each.address, each.text, each.cycles, each.executions) if each is not None else ("", "", 0.0, 0)
                    for each in (a, b)
                ]
                rows.append((number, line.place_a, line.place_b, line.text, *both[0], *both[1]))
        sides = [f"{what}_{side}" for side in "ab" for what in ("address", "instruction", "cycles", "executions")]
        return pd.DataFrame(rows, columns=["line", "place_a", "place_b", "source", *sides])

    def summary(self) -> str:
        """Say how the runs differ: cycles, the bottleneck that went and the one that came, causes and lines."""
        (a, b), (first, second) = self.cycles, self.bottlenecks
        cores = self.cores[0] if len(set(self.cores)) == 1 else " and ".join(self.cores)
        cores += f", {_WARM[self.warm[0]]}" if len(set(self.warm)) == 1 else ""
        work = self.instructions[1] / self.instructions[0]
        causes = self.by_cause()
        so_far = " as far as they were recorded" if self.is_cut else ""
        both = f"{self.names[1]} takes {b:,.0f} {self.unit}, {self.names[0]} {a:,.0f} (simulated on {cores})"
        lines = [
            f"{self._beware}{both}: {self.speedup:.2f} times as fast{so_far}, with {work:.2f} times the instructions",
            *self._measured(),
            _bottlenecks(first, second),
            f"twice as good would help {self.names[1]}: {self._gains('speedup_b')}",
            f"by cause ({ACCOUNT}): " + _largest(zip(causes["cause"], causes["change"], strict=True)),
        ]
        frame = self.to_frame()
        places = [place_of(row) for row in frame.head(4).itertuples()]
        lines.append("by line: " + _largest(zip(places, frame["change"], strict=False)))
        if told := self.told_change():
            one = self.changed_line()
            otherwise = one is not None and one["code"] == "operations"
            lines.append(f"the code that {'is compiled otherwise' if otherwise else 'changed'}: {told}")
        return "\n".join([*lines, *(f"careful: {note}" for note in self.notes)])

    @property
    def _beware(self) -> str:
        first = "".join(f"Careful: {doubt}. " for doubt in self.doubts)
        if not self.is_far:
            return first
        return f"{first}Do not rely on this: measured it is {self.measured_speedup:.2f} times as fast. "

    def _measured(self) -> Iterator[str]:
        """Say what was measured, and where that is far from what is simulated, or why nothing was."""
        if not self.measured_speedup > 0:
            if self.how_measured:
                yield f"not measured: {self.how_measured}"
            return
        a, b = self.measured
        yield (
            f"measured on this machine ({self.how_measured}): {b:,.0f} and {a:,.0f} cycles per call: "
            f"{self.measured_speedup:.2f} times as fast{self._spread}"
            + (
                "; BEWARE: that is far from the simulated change, so the model misses something in one of them, or the "
                "recorded calls are not like the others, or found other data in the caches: what follows explains "
                "simulated cycles alone"
                if self.is_far
                else ""
            )
        )

    @property
    def _spread(self) -> str:
        """Say between which figures the measured change lies; "" where it is not known."""
        low, high = self.measured_between
        if not low > 0:
            return ""
        if self.is_told_apart:
            return f" ({low:.2f} to {high:.2f})"
        return f", NOT told apart: the runs of each differ by as much ({low:.2f} to {high:.2f} times)"

    def _gains(self, column: str, count: int = 3) -> str:
        best = self.resources[self.resources[column] >= LEAST].nlargest(count, column)
        said = [f"{name} {gain:+z.0%}" for name, gain in zip(best["resource"], best[column], strict=True)]
        return ", ".join(said) or "no single resource"

    def markdown(self, top: int = 10) -> str:
        """Return the summary and three tables in Markdown, for a pull request.

        Parameters
        ----------
        top
            Rows of each table.
        """
        check_top(top)
        causes = self.by_cause().head(top)
        gains = self.resources.assign(most=self.resources[["speedup_a", "speedup_b"]].max(axis=1))
        gains = gains[gains["most"] >= LEAST].sort_values("most", ascending=False).head(top)
        head = "\n".join(f"- {line}" for line in self.summary().splitlines())
        tables = [
            markdown_table(
                ("cause", f"A [{self.unit}]", f"B [{self.unit}]", "change"),
                [(r.cause, *_counts(r.cycles_a, r.cycles_b)) for r in causes.itertuples()],
            ),
            markdown_table(
                ("if twice as good", "A", "B"),
                [(r.resource, _percent(r.speedup_a), _percent(r.speedup_b)) for r in gains.itertuples()],
            ),
            markdown_table(
                ("line of A", "line of B", f"A [{self.unit}]", f"B [{self.unit}]", "change", "text"),
                [
                    (r.place_a, r.place_b, *_counts(r.cycles_a, r.cycles_b), f"`{_cell(r.text)}`" if r.text else "")
                    for r in self.to_frame().head(top).itertuples()
                ],
            ),
        ]
        return "\n\n".join([f"A: {self.names[0]}, B: {self.names[1]}", head, *tables]) + "\n"

    def plot(
        self, ax: "Axes | None" = None, top: int = 12, by: Literal["cause", "line", "resource"] = "cause"
    ) -> "Axes":
        """Draw the change in cycles by cause or line as bars, or what twice each resource would bring; return the axes.

        Parameters
        ----------
        ax
            Where to draw; by default in a new figure.
        top
            So many bars, the largest first.
        by
            What the bars are.
        """
        return draw("gus:plot_diff", self, top=top, ax=ax, by=by)


def diff(a: GusResult, b: GusResult, *, names: tuple[str, str] | None = None) -> GusDiff:
    """Compare two simulated runs: two builds, two versions, or the same trace on two cores.

    Lines are aligned by their text, in their order (`difflib`), so that they are found again where lines were added
    above them; instructions whose source is not known, by theirs.

    Parameters
    ----------
    a, b : GusResult
        Before and after.
    names : (str, str), optional
        What to call them; by default the traced functions' names.

    Returns
    -------
    GusDiff

    Raises
    ------
    SettingError
        One of the two is no simulation.
    DataError
        They hold different numbers of calls, and what one call takes cannot be known.

    Examples
    --------
    >>> import perfkit as pk
    >>> a, b = (pk.Gus("zen4").run(pk.datasets.load(f"traces/correlation-{v}-small")) for v in ("v0", "v6"))
    >>> pk.diff(a, b).speedup > 2
    True
    """
    for result in (a, b):
        if not isinstance(result, GusResult):
            raise SettingError(f"diff compares two GusResult (Gus(core).run(trace)); found a {type(result).__name__}")
    held = _calls(a, b, names or ("A", "B"))
    count = min(held)
    pair = beside(_of_first_calls, (a, b), (count, count)) if count else [a, b]
    # What would help either is simulated.
    first, second = beside(Side.of, pair, names or ("", ""), (count, count), held)
    return diff_sides(first, second, (pair[0], pair[1]))


def _of_first_calls(result: GusResult, count: int) -> GusResult:
    """Return a run of its first calls: calls in a row may overlap, more of them more than fewer."""
    part = first_calls(result.trace, count)
    return result if part is result.trace else result.settings.run(part)


def _calls(a: GusResult, b: GusResult, names: tuple[str, str]) -> tuple[int, int]:
    """Return how many calls either recording holds; (0, 0) where both hold as many, and are compared as they are.

    Raises
    ------
    DataError
        They hold different numbers of calls, and what one call takes cannot be known.
    """
    found = calls_of(a.trace), calls_of(b.trace)
    origins = a.trace.provenance, b.trace.provenance
    held = [f"{name} holds {_number(n)}" for name, n in zip(names, found, strict=True)]
    if found[0] == found[1]:
        # Between markers, or of a processor whose returns are not known, as many calls as were asked for are held.
        asked = [origin.extra.get("repeat", "") for origin in origins]
        whole = all(origin.complete for origin in origins) and asked[0] == asked[1]
        if found[0] is None and not whole and origins[0] != origins[1] and "recorded" in (o.kind for o in origins):
            raise DataError(
                f"{held[0]}, and so does {names[1]}: cycles of whole recordings say nothing of which one is faster "
                "where the one may hold more of the work. Record whole calls of both (--repeat N)"
            )
        return 0, 0
    for name, n, origin in zip(names, found, origins, strict=True):
        if n is None or not origin.complete:
            why = f"{name} was cut ({origin.stopped or 'before its end'})" if n else f"{name} does not say"
            raise DataError(
                f"{held[0]} and {held[1]}: what one call takes cannot be told, for {why}. Record as many whole calls "
                "of both (--repeat N, a higher --limit)"
            )
    return found[0] or 0, found[1] or 0


def _missing(trace: Trace) -> tuple[int, int]:
    """Return the calls that were asked for and those that a whole recording holds, where these are fewer; else 0, 0."""
    held, asked = calls_of(trace), trace.provenance.extra.get("repeat", "")
    return (int(asked), held) if held and asked.isdecimal() and held < int(asked) else (0, 0)


def _number(calls: int | None) -> str:
    """Say how many calls a recording holds."""
    return "an unknown number of calls" if calls is None else counted(calls, "calls")


def diff_sides(
    a: Side, b: Side, results: tuple[GusResult | None, GusResult | None] = (None, None), one_build: bool = False
) -> GusDiff:
    """Compare two runs of which no more than a `Side` is left, as `diff` does.

    Of a slower one that is at hand it is asked what each line takes that only it has, unless both are known to have run
    the same code (`one_build`).
    """
    pd = of_extra("pandas")

    rows = [row for row in _aligned(list(a.lines), list(b.lines)) if max(row[3:5]) >= _COST or row[-1] != "same"]
    columns = ["place_a", "place_b", "text", "cycles_a", "cycles_b", "instructions_a", "instructions_b", "code"]
    table = pd.DataFrame(rows, columns=columns)
    traces = [result.trace for result in results if result]
    if one_build:
        table["code"] = "same"
    elif len(traces) == 2 and _of_one_source(*traces):
        # Of one build another input led elsewhere; of two the compiler made something else of the same lines.
        table["code"] = "same" if _of_one_build(*traces) else table["code"].replace("text", "operations")
    slower = int(b.cycles > a.cycles)
    return GusDiff(
        (a.name or "A", b.name or "B"),
        (a.core, b.core),
        (a.cycles, b.cycles),
        (a.instructions, b.instructions),
        (a.warm, b.warm),
        table,
        _side_by_side("cause", "cycles", a.causes, b.causes),
        _side_by_side("resource", "speedup", a.speedups, b.speedups, missing=float("nan")),
        (*_notes(a, b), *_lacking((a.name or "A", b.name or "B"), results)),
        _listing(a.listing, b.listing),
        (a.calls, b.calls),
        _added(results[slower], "ab"[slower], table, min(a.calls, b.calls)),
    )


def _lacking(names: tuple[str, str], results: tuple[GusResult | None, GusResult | None]) -> Iterator[str]:
    """Say which functions that were called a recording lacks, with their time."""
    lacking = [result is not None and bool(result.trace.provenance.lacks_callees) for result in results]
    called = [
        r.trace.provenance.extra["not_followed_calls"] if r and k else "" for r, k in zip(results, lacking, strict=True)
    ]
    if all(lacking) and called[0] == called[1]:
        yield f"both lack functions that they called ({called[0]}), and their time: record with callees (--callees)"
        return
    for name, one in zip(names, called, strict=True):
        if one:
            yield f"{name} {_LACKS} ({one}): their time is missing; record both with callees (--callees)"


def _added(result: GusResult | None, side: str, table: "pd.DataFrame", calls: int) -> "pd.DataFrame":
    """Ask the slower run what it would take without each of the costliest lines that only it has."""
    if result is None or isinstance(result.trace, StreamedTrace):
        return _nothing_added()
    only = table[(table[f"place_{'ba'[side == 'b']}"] == "") & (table["code"] == "text")]
    weight = only[f"cycles_{side}"] / result.cycles + only[f"instructions_{side}"] / result.instructions
    places = only[f"place_{side}"][weight.sort_values(ascending=False, kind="stable").index[:_ASKED]]
    held = {place: mine for place, _, mine in _by_line(result)}
    return added_lines(result, {place: held[place] for place in places}, calls)


def _nothing_added() -> "pd.DataFrame":
    return of_extra("pandas").DataFrame(columns=list(COLUMNS))


def _of_one_source(a: Trace, b: Trace) -> bool:
    """Whether two recordings are of one function, in the very same texts as far as they keep them."""
    texts = [sorted(trace.provenance.sources.values()) for trace in (a, b)]
    return bool(texts[0]) and texts[0] == texts[1] and a.provenance.function == b.provenance.function


def _of_one_build(a: Trace, b: Trace) -> bool:
    """Whether the code that both recordings executed is the same at the same places."""
    bytes_of = [dict(zip(trace.object_addresses().tolist(), trace.code.encoding, strict=True)) for trace in (a, b)]
    common = bytes_of[0].keys() & bytes_of[1].keys()
    return bool(common) and all(bytes_of[0][address] == bytes_of[1][address] for address in common)


def said_of(row: Any, change: float | None = None, how: str = "") -> str:
    """Say what happened to a line, a row of `GusDiff.to_frame`: where it is, its text, cycles and instructions.

    Where its change in cycles is known better than from the account, it is given, and how.
    """
    text = f" ({textwrap.shorten(row.text, 60)})" if row.text else ""
    more = row.instructions_b - row.instructions_a
    executed = f", {more:+,.0f} instructions executed" if round(more) else ""
    what = {"operations": ", compiled otherwise", "same": ", the same code"}.get(row.code, "")
    return f"{place_of(row)}{text}: {row.change if change is None else change:+z,.0f} cycles{how}{executed}{what}"


def _notes(a: Side, b: Side) -> Iterator[str]:
    """Say what makes two runs hard to compare."""
    if a.calls or b.calls:
        yield (
            f"all figures are per call: the recording of A holds {_number(a.calls)} and that of B {_number(b.calls)}, "
            f"of which the first {min(a.calls, b.calls):,} of each are compared"
        )
    for name, side in (("A", a), ("B", b)):
        if side.missing[0]:
            asked, there = side.missing
            yield f"{_number(asked)} of {name} were asked for, and only {there} made"
        if side.stopped:
            yield f"the recording of {name} {_CUT} {side.instructions:,} instructions, with work left"
    if a.core != b.core:
        yield f"A ran on {a.core} and B on {b.core}"
    if a.warm != b.warm:
        yield f"what was warm before the run differs: {a.warm} for A, {b.warm} for B"


def _by_change(table: "pd.DataFrame") -> "pd.DataFrame":
    frame = table.assign(change=table["cycles_b"] - table["cycles_a"])
    return frame.sort_values("change", key=abs, ascending=False, kind="stable").reset_index(drop=True)


def _causes(result: GusResult) -> dict[str, float]:
    return {name: cpi * result.instructions for name, cpi in cpi_by_cause(result).items()}


def _speedups(result: GusResult) -> dict[str, float]:
    found = sensitivity(result.settings, result.trace, (WEIGHT,))
    return {" + ".join(name): float(s) for name, s in zip(found.resources, found.speedup[:, 0], strict=True)}


def _side_by_side(
    what: str, value: str, a: Mapping[str, float], b: Mapping[str, float], missing: float = 0.0
) -> "pd.DataFrame":
    pd = of_extra("pandas")

    rows = [(name, a.get(name, missing), b.get(name, missing)) for name in dict.fromkeys([*a, *b])]
    return pd.DataFrame(rows, columns=[what, f"{value}_a", f"{value}_b"])


def _listing(a: Sequence[Instruction], b: Sequence[Instruction]) -> "pd.DataFrame":
    pd = of_extra("pandas")

    rows = [(side, *each) for side, listing in (("a", a), ("b", b)) for each in listing]
    return pd.DataFrame(rows, columns=["side", *Instruction._fields])


def _short(files: Iterable[str]) -> dict[str, str]:
    """Return each file's name, with the folder's before it where another file has the same name."""
    paths = {file: PurePath(file) for file in files}
    count = Counter(path.name for path in paths.values())
    return {file: path.name if count[path.name] == 1 else str(path) for file, path in paths.items()}


def in_the_object(text: str, shift: int) -> str:
    """Return an instruction's text with a jump's target, or a variable's address, as objdump prints it.

    Examples
    --------
    >>> in_the_object("movsd xmm2,[7FFFF71E8040h]", -0x7FFFF71E6000)
    'movsd xmm2,[0x2040]'
    """
    return re.sub(
        r"\b0000[0-9A-F]{12}h\b|(?<=\[)[0-9A-F]{9,12}h(?=\])",
        lambda found: f"{int(found[0][:-1], 16) + shift:#x}",
        text,
    )


def _by_line(result: GusResult) -> Iterator[tuple[str, str, list[int]]]:
    """Yield each line's place and text, and its static instructions.

    Source lines in the order of their files, then instructions whose source is unknown; a library's code is in the
    user's line that calls it.
    """
    code, places = result.trace.code, result.trace.places()
    addresses = result.trace.object_addresses().tolist()
    held: dict[tuple[str, int], list[int]] = {}
    at = list(range(code.instruction_count)) if isinstance(result.trace, StreamedTrace) else standing(result.trace)
    for k, stands in enumerate(at):
        key = code.file[stands], int(code.line[stands])
        held.setdefault(key if key[1] else ("", -stands), []).append(k)
    names = _short(code.file)
    for file, number in [*sorted(key for key in held if key[1] > 0), *(key for key in held if key[1] <= 0)]:
        first = at[held[file, number][0]]
        place = f"{names[file]}:{number}" if number > 0 else f"{code.function[first]} at {addresses[first]:#x}"
        yield place, places["source_line"][first] if number > 0 else code.text[first], held[file, number]


def _lines(result: GusResult, calls: int) -> tuple[tuple[Line, ...], tuple[Instruction, ...]]:
    """Return what has a cost, and its instructions, of all or of one of so many calls; lines as `_by_line` has them."""
    each, code = max(calls, 1), result.trace.code
    addresses, pc = result.trace.object_addresses().tolist(), code.pc.tolist()
    cycles, runs = result.spent.sum(axis=1) / timing.TICKS, result.executions.tolist()
    found = []
    listing: dict[str, list[Instruction]] = {}
    for place, text, mine in _by_line(result):
        counts: Counter[str] = Counter()
        for k in mine:
            counts[code.text[k].partition(" ")[0]] += runs[k] > 0
        mix = f"={zlib.crc32(repr(sorted(counts.items())).encode()):08x}"
        executed = sum(runs[k] for k in mine)
        found.append(Line(place, text, float(cycles[mine].sum()) / each, executed / each if calls else executed, mix))
        listing[place] = [
            Instruction(
                place,
                f"{addresses[k]:#x}",
                in_the_object(code.text[k], addresses[k] - pc[k]),
                float(cycles[k]) / each,
                runs[k] / each if calls else runs[k],
            )
            for k in mine
            if runs[k]
        ]
    least = _WORK * result.instructions / each
    # Before aligning: a copy that does nothing is no partner.
    kept = tuple(line for line in found if line.cycles >= _COST or line.instructions >= least)
    return kept, tuple(one for line in kept for one in listing[line.place])


def _aligned(a: list[Line], b: list[Line]) -> list[tuple[Any, ...]]:
    """Pair lines of equal text in order, and those that replace each other where their texts are alike."""
    keys = [[_code(line) or line.place for line in side] for side in (a, b)]
    rows = []
    for what, i, i2, j, j2 in SequenceMatcher(None, keys[0], keys[1], autojunk=False).get_opcodes():
        pairs = list(zip(range(i, i2), range(j, j2), strict=False))
        if what != "equal":
            pairs = [(x, y) for x, y in pairs if _is_changed(keys[0][x], keys[1][y])]
        rows += [_row(a[x], b[y]) for x, y in pairs]
        paired_a, paired_b = {x for x, _ in pairs}, {y for _, y in pairs}
        rows += [_row(a[x], _NOTHING) for x in range(i, i2) if x not in paired_a]
        rows += [_row(_NOTHING, b[y]) for y in range(j, j2) if y not in paired_b]
    return rows


def _is_changed(a: str, b: str) -> bool:
    """Whether a text is another one that was changed: much of it is there, or all of it within the other."""
    inner, outer = sorted((a.strip(), b.strip()), key=len)
    return (len(inner) >= _TELLING and inner in outer) or SequenceMatcher(None, a, b).ratio() >= ALIKE


_NOTHING = Line("", "", 0.0, 0, "")
_SLASHES = re.compile(r"\.(c|cc|cpp|cxx|h|hh|hpp|rs):\d+$")  # of files where // begins a comment
# What looks like a comment within quotes is none: "http://...".
_COMMENT = re.compile(r"""((?:[^"']|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')*?)\s*(?://.*|/\*(?:(?!\*/).)*\*/\s*)""")


def _code(line: Line) -> str:
    """Return a line's text without the comment at its end."""
    found = _COMMENT.fullmatch(line.text) if _SLASHES.search(line.place) else None
    return found[1] if found else line.text


def _row(a: Line, b: Line) -> tuple[Any, ...]:
    code = "text" if _code(a) != _code(b) else "same" if a.mix == b.mix else "operations"
    if code == "operations" and a.mix.startswith("=") != b.mix.startswith("="):
        code = "unknown"
    return a.place, b.place, b.text or a.text, a.cycles, b.cycles, a.instructions, b.instructions, code


def _bottlenecks(first: str, second: str) -> str:
    if first == second:
        return f"the bottleneck stays: {first}" if first else "neither run has a single resource as its bottleneck"
    return f"the bottleneck was {first or 'no single resource'} and is now {second or 'no single resource'}"


def place_of(row: Any) -> str:
    """Return where a line is, a row of `GusDiff.to_frame`: in both runs where that differs."""
    if row.place_a and row.place_b and row.place_a != row.place_b:
        return f"{row.place_a} -> {row.place_b}"
    gone = {"text": "gone", "same": "not executed in B"}.get(row.code, "no code in B")
    return row.place_b or f"{row.place_a} ({gone})"


def _largest(changes: Iterable[tuple[str, float]], count: int = 4) -> str:
    ranked = sorted(((name, change) for name, change in changes if round(change)), key=lambda one: -abs(one[1]))
    return ", ".join(f"{name} {change:+z,.0f}" for name, change in ranked[:count]) or "no change"


def _counts(a: float, b: float) -> tuple[str, str, str]:
    return f"{a:,.0f}", f"{b:,.0f}", f"{b - a:+z,.0f}"


def _percent(speedup: float) -> str:
    return "no such resource" if speedup != speedup else f"{speedup:+z.1%}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("`", "'")
