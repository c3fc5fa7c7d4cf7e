"""What `why` says of a function that runs in several threads: all recorded, and simulated beside each other."""

import math
import shlex
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from perfkit.collectors.profile.hot import HotFunction
from perfkit.collectors.tracer.tracer import Tracer
from perfkit.diagnosis.words import brief
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
_BESIDE = 1_000_000  # instructions of each thread that are simulated beside the others', where their calls were cut
_CHANCE = 4.0  # standard deviations beyond what chance brings to the threads' numbers of samples
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
    skip : int
        Calls of each thread before the one that was recorded.
    sampled : tuple of int
        The function's samples in each thread of the run, in the order in which they were started (measured); empty
        where that is not known.
    lines : SharedLines, optional
        The lines of memory that they share, where these have been looked for.
    """

    name: str
    traces: ThreadTraces
    result: ThreadsResult
    command: str
    explained: bool = False
    whole: tuple[int, ...] = ()
    skip: int = 0
    sampled: tuple[int, ...] = ()
    lines: SharedLines | None = None

    @property
    def number(self) -> int:
        """The thread that the others wait for, as far as that is known: of parts that were cut it is not."""
        return self.whole.index(max(self.whole)) if self.whole else self.result.critical

    @property
    def slowest(self) -> Trace:
        """What that thread ran."""
        return self.traces[self.number]

    @property
    def _explained(self) -> str:
        """Say which thread is explained."""
        which = (
            "the slowest" if self.traces.complete else "which executes most" if self.whole else "maybe not the slowest"
        )
        return f"thread {self.number}, {which}" if self.explained else "a run with one thread"

    @property
    def imbalance(self) -> tuple[float, str]:
        """What the slowest thread takes over the mean of all, and how that is known; 0 where it is not."""
        if len(self.result) < 2:
            return 0.0, ""
        if self.traces.complete:
            return self.result.imbalance, "simulated"
        if self.whole:
            return max(self.whole) / (sum(self.whole) / len(self.whole)), "by the instructions of whole calls"
        if not self.sampled or len(self.sampled) % len(self.result):
            return 0.0, ""
        # Threads that are started anew for each round come in the same order again.
        counts = np.reshape(self.sampled, (-1, len(self.result))).sum(axis=0)
        mean, free = float(counts.mean()), len(counts) - 1
        apart = float(((counts - mean) ** 2).sum() / max(mean, 1))  # chi squared, if their work were even
        is_uneven = apart > free + _CHANCE * math.sqrt(2 * free)
        return (float(counts.max()) / mean, "by the samples of the run") if is_uneven else (0.0, "")

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
        """Say what holds the threads up before anything in one of them does: shared lines, and uneven work."""
        told = list(filter(None, [_by_turns(f"The threads of {self.name}", self.traces, self._lines)]))
        much, how = self.imbalance
        if much >= _MUCH:
            told.append(
                f"The threads of {self.name} have uneven work: the slowest takes {much:.2f} times the mean ({how}), "
                "and the others wait for it"
            )
        return ". ".join(told)

    @cached_property
    def _lines(self) -> SharedLines:
        return self.lines or self.traces.shared_lines()

    @cached_property
    def _written(self) -> "pd.Series | None":
        return _written(self.traces, self._lines)

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
        result = self.result
        if len(result) == 1:
            lines = [f"{self.name} runs in one thread at a time, and this explains a call in one of them"]
        else:
            lines = [f"{self.name} runs in {len(result)} threads, and this explains {self._explained}", *self._even()]
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

    def _even(self) -> list[str]:
        """Say how even the threads' work is."""
        much, how = self.imbalance
        if self.traces.complete:
            return [
                f"one call of each thread was recorded, and simulated on a core of its own: imbalance {much:.2f} "
                "(slowest over mean)" + (f"; the others wait for thread {self.number}" if much >= _MUCH else "")
            ]
        if counted := self._counted():
            return [counted]
        stopped = sorted({t.provenance.stopped for t in self.traces.values() if not t.provenance.complete})
        seen = f"; {how}, the imbalance is {much:.2f} (most over mean)" if much else ""
        return [f"the threads cannot be compared by what was recorded: they were cut ({'; '.join(stopped)}){seen}"]


def team_of(
    tracer: Tracer,
    program: Path,
    symbol: str,
    arguments: Sequence[str],
    core: Microarchitecture,
    name: str,
    *,
    once: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> Team:
    """Record one call of every thread, the second one where each has one, and simulate them beside each other.

    Lines that they write by turns are said as soon as they are known: simulating takes longer than recording.

    Parameters
    ----------
    tracer, program, symbol, arguments, core
        How, and what.
    name : str
        The function, as its source writes it.
    once : bool
        Whether each thread calls it once, as far as that is known.
    say : callable
        Called with what is known first.

    Raises
    ------
    DataError, UnavailableError
        As `Tracer.run_threads` does.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PerfkitWarning)
        skip = 0 if once else 1
        try:
            traces = replace(tracer, skip=skip).run_threads(program, symbol, arguments)
            if len(traces) < 2 and skip:  # the others made one call only
                raise DataError("one thread")
        except DataError:
            if once:
                raise
            skip = 0
            traces = replace(tracer, skip=0).run_threads(program, symbol, arguments)
        lines = traces.shared_lines()
        if by_turns := _by_turns(f"The threads of {name}", traces, lines):
            say(f"{by_turns}. What would help besides comes next.")
        result = run_threads(Gus(core, warm="caches"), traces if traces.complete else _beginning(traces))
        whole = () if traces.complete else _whole(tracer, program, symbol, arguments)
    return Team(name, traces, result, shlex.join([str(program), *arguments]), whole=whole, skip=skip, lines=lines)


def _written(traces: ThreadTraces, lines: SharedLines) -> "pd.Series | None":
    """Return the line that threads write most by turns, those first whose bytes they do not share; None if none is."""
    often = _OFTEN * sum(each.instruction_count for each in traces.values())
    table = lines.to_frame()
    table = table[table["writes"] >= often]
    by_many = table["writers"].str.contains(",", regex=False)  # one that others only read is not written by turns
    for found in (table[table["sharing"] != "true"], table[(table["sharing"] == "true") & by_many]):
        if len(found):
            return found.iloc[(found["reads"] + found["writes"]).argmax()]
    return None


def written_beside(
    tracer: Tracer, program: Path, hot: HotFunction, others: Sequence[HotFunction], arguments: Sequence[str]
) -> str:
    """Say that a function and those that other threads run meanwhile write one line by turns; "" where they do not.

    The first instructions of each thread are recorded, in one run.

    Raises
    ------
    DataError, SettingError, UnavailableError
        As `Tracer.run_threads` does.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PerfkitWarning)
        traces = tracer.run_threads(program, hot.symbol, arguments, beside=[each.symbol for each in others])
    names = " and ".join(brief(each.name) for each in (hot, *others))
    return _by_turns(f"{names}, which run in different threads,", traces, traces.shared_lines())


def _by_turns(who: str, traces: ThreadTraces, lines: SharedLines) -> str:
    """Say that threads write one line of memory by turns; "" where they do not."""
    row = _written(traces, lines)
    if row is None:
        return ""
    apart = "" if lines.phased else ", if they run side by side, which is not known here"
    what, remedy = (
        (f"one variable by turns (true sharing{apart})", "let each thread sum up in a variable of its own")
        if row["sharing"] == "true"
        else (f"one line of memory by turns (false sharing{apart})", "give each thread 64 bytes of its own")
    )
    return (
        f"{who} write {what}: {row['variable'] or 'memory'}, at {row['places']}. On a machine that "
        f"costs several times as much as is simulated: {remedy} first"
    )


def _beginning(traces: ThreadTraces) -> ThreadTraces:
    """Return the beginning of calls that were cut anyway: simulating threads beside each other takes long."""
    parts = tuple(traces[k].head(_BESIDE) for k in traces)
    calls = tuple(at[at[:, 0] < len(part.stream)] for at, part in zip(traces.calls, parts, strict=True))
    return ThreadTraces(parts, calls, traces.bodies)


def _whole(tracer: Tracer, program: Path, symbol: str, arguments: Sequence[str]) -> tuple[int, ...]:
    """Return the instructions of the whole first call of each thread; nothing where they cannot be counted."""
    try:
        found = replace(tracer, limit=_FAR * tracer.limit).run_threads(program, symbol, arguments)
    except (DataError, UnavailableError):
        return ()
    return tuple(found.instructions.tolist()) if found.complete and len(found) > 1 else ()
