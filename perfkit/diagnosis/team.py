"""What `why` says of a function that runs in several threads: all recorded, and simulated beside each other."""

import shlex
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from perfkit.collectors.tracer.tracer import Tracer
from perfkit.errors import DataError, PerfkitWarning, UnavailableError
from perfkit.machine.core import Microarchitecture
from perfkit.simulators.gus.gus import Gus
from perfkit.simulators.gus.threads import ThreadsResult, run_threads
from perfkit.trace.sharing import SharedLines
from perfkit.trace.threads import ThreadTraces
from perfkit.trace.trace import Trace

if TYPE_CHECKING:
    import pandas as pd

_OFTEN = 0.001  # of the instructions are writes to a line: fewer cost nothing that matters
_FAR = 10  # times the limit: so much of each thread is counted where the limit cuts its call
_MUCH = 1.1  # a slowdown beside the others, or an imbalance, that is worth a word of its own


@dataclass(frozen=True)
class Team:
    """A function's threads.

    Attributes
    ----------
    name : str
        The function, as its source writes it.
    traces, result
        What each thread ran, and how they run beside each other (simulated).
    command : str
        The program and its words.
    explained : bool
        Whether it is the slowest thread that the answer explains, rather than a run with one thread.
    whole : tuple of int
        Instructions that each thread executes in its whole call, where that is longer than what is simulated; empty
        where it is not, or is longer than can be counted.
    """

    name: str
    traces: ThreadTraces
    result: ThreadsResult
    command: str
    explained: bool = False
    whole: tuple[int, ...] = ()

    @property
    def number(self) -> int:
        """The thread that the others wait for, as far as that is known: of parts that were cut it is not."""
        return self.whole.index(max(self.whole)) if self.whole else self.result.critical

    @property
    def slowest(self) -> Trace:
        """What that thread ran."""
        return self.traces[self.number]

    def _first(self) -> str:
        """Say what the threads do to each other that may cost more than anything in one of them."""
        if self.traces.complete and self.result.imbalance >= _MUCH:
            return f". Beside that, the slowest takes {self.result.imbalance:.2f} times the mean, and the others wait"
        return ""

    def _counted(self) -> str:
        """Compare whole calls by their instructions; "" where these are not known."""
        if not self.whole:
            return ""
        most, mean = max(self.whole), sum(self.whole) / len(self.whole)
        return (
            f"a part of each thread's call was simulated; by the instructions of the whole calls, {min(self.whole):,} "
            f"to {most:,}, the imbalance is {most / mean:.2f} (most over mean)"
            + (f"; the others wait for thread {self.whole.index(most)}" if most / mean >= _MUCH else "")
        )

    @property
    def first(self) -> str:
        """Say what holds the threads up before anything in one of them does: lines that they write by turns."""
        row = self._written
        if row is None:
            return ""
        apart = "" if self._lines.phased else ", if they run side by side, which is not known here"
        what, remedy = (
            (f"one variable by turns (true sharing{apart})", "let each thread sum up in a variable of its own")
            if row["sharing"] == "true"
            else (f"one line of memory by turns (false sharing{apart})", "give each thread 64 bytes of its own")
        )
        return (
            f"The threads of {self.name} write {what}: {row['variable'] or 'memory'}, at {row['places']}. On a machine "
            f"that costs several times as much as is simulated: {remedy} first"
        )

    @cached_property
    def _lines(self) -> SharedLines:
        return self.traces.shared_lines()

    @cached_property
    def _written(self) -> "pd.Series | None":
        """The line of memory that threads write most by turns, those first whose bytes they do not share; or None."""
        often = _OFTEN * sum(each.instruction_count for each in self.traces.values())
        table = self._lines.to_frame()
        for found in (self._lines.false(), table[table["sharing"] == "true"]):
            if not len(found):
                continue
            row = found.iloc[(found["reads"] + found["writes"]).argmax()]
            if row["writes"] >= often:
                return row
        return None

    @property
    def shared(self) -> str:
        """That line, who wrote it how often, and where; "" where that is rare."""
        row = self._written
        if row is None:
            return ""
        how = "truly" if row["sharing"] == "true" else "falsely"
        return (
            f"threads share lines {how}: {row['variable'] or 'memory'} at {row['address']:#x} by threads "
            f"{row['threads']}, {row['writes']:,} writes and {row['reads']:,} reads, from {row['places']}"
        )

    def told(self) -> tuple[str, ...]:
        """Say how the threads were looked at, how even they are, and what they take from each other (simulated)."""
        result, number = self.result, self.number
        which = (
            "the slowest" if self.traces.complete else "which executes most" if self.whole else "maybe not the slowest"
        )
        seen = f"thread {number}, {which}" if self.explained else "a run with one thread"
        threads = f"{len(result)} threads" if len(result) > 1 else "one thread at a time"
        lines = [f"{self.name} runs in {threads}, and this explains {seen}{self._first()}"]
        if not self.traces.complete:
            stopped = sorted({t.provenance.stopped for t in self.traces.values() if not t.provenance.complete})
            lines.append(self._counted() or f"the threads cannot be compared: they were cut ({'; '.join(stopped)})")
        else:
            lines.append(
                f"one call of each thread was recorded, and simulated on a core of its own: imbalance "
                f"{result.imbalance:.2f} (slowest over mean)"
                + (f"; the others wait for thread {number}" if result.imbalance >= _MUCH else "")
            )
        lines.append(
            f"beside the others thread {result.critical} takes {result.slowdown:.2f} times as long as alone"
            + (": they hold each other up" if result.slowdown >= _MUCH else "")
        )
        lines += [self.shared] if self.shared else []
        symbol = shlex.quote(self.traces[0].provenance.function)
        program, *arguments = shlex.split(self.command)
        after = f" -- {shlex.join(arguments)}" if arguments else ""
        lines.append(
            f"more: perfkit trace {shlex.quote(program)} -f {symbol} --threads -o all.threads{after}, "
            "then perfkit gus all.threads"
        )
        return tuple(lines)


def team_of(
    tracer: Tracer, program: Path, symbol: str, arguments: Sequence[str], core: Microarchitecture, name: str
) -> Team:
    """Record one call of every thread, the second one where each has one, and simulate them beside each other.

    Raises
    ------
    DataError, UnavailableError
        As `Tracer.run_threads` does.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PerfkitWarning)
        try:
            traces = replace(tracer, skip=1).run_threads(program, symbol, arguments)
            if len(traces) < 2:  # the others made one call only
                raise DataError("one thread")
        except DataError:
            traces = replace(tracer, skip=0).run_threads(program, symbol, arguments)
        result = run_threads(Gus(core, warm="caches"), traces)
        whole = () if traces.complete else _whole(tracer, program, symbol, arguments)
    return Team(name, traces, result, shlex.join([str(program), *arguments]), whole=whole)


def _whole(tracer: Tracer, program: Path, symbol: str, arguments: Sequence[str]) -> tuple[int, ...]:
    """Return the instructions of the whole first call of each thread; nothing where they cannot be counted."""
    try:
        found = replace(tracer, limit=_FAR * tracer.limit).run_threads(program, symbol, arguments)
    except (DataError, UnavailableError):
        return ()
    return tuple(found.instructions.tolist()) if found.complete and len(found) > 1 else ()
