"""What is measured of the forms: figures by name, each in a child process that a form may end."""

from __future__ import annotations

import faulthandler
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from perfkit.collectors.host.bench import FASTEST, Bench
from perfkit.collectors.whole_core.bodies import before, chains, repeated
from perfkit.collectors.whole_core.checkpoint import Checkpoint
from perfkit.errors import DataError, UnavailableError

SAMPLES = 9
_HOPELESS = 40  # figures in a row that were too busy to measure: then the machine is


@dataclass(frozen=True)
class Timing:
    """One figure to measure: a mixture's cycles, or a chain's cycles per link.

    Parameters
    ----------
    counts
        Forms and how many of each; a single form once for a chain.
    operand
        Which operand the chain goes through; None for a mixture.
    turn
        The pass that it belongs to: figures are measured several times, apart from one another.
    """

    counts: tuple[tuple[str, int], ...]
    operand: int | None = None
    turn: int = 0

    @property
    def key(self) -> str:
        """Its name in a checkpoint."""
        forms = " + ".join(f"{count} {form}" for form, count in self.counts)
        chain = "" if self.operand is None else f" through operand {self.operand}"
        return f"{forms}{chain} #{self.turn}"

    def possible(self, cycles: float | None) -> bool:
        """Whether this can be the figure; a form that cannot be measured has none."""
        return cycles is None or cycles * FASTEST >= sum(count for _, count in self.counts)


def timed(bench: Bench, figure: Timing) -> float:
    """Return the cycles of a mixture, or of a chain's link."""
    forms = [form for form, _ in figure.counts]
    bench.fill("PS" if any(part in forms[0] for part in ("PS_", "SS_")) else "PD")
    if figure.operand is not None:
        return bench.cycles([chains(forms[0])[figure.operand]] * 96, 96, before(forms))
    body, times = repeated(figure.counts)
    return bench.cycles(body, times, before(forms))


@dataclass
class Course:
    """How the measuring goes.

    Parameters
    ----------
    checkpoint
        Where figures are kept.
    until
        Time (monotonic) at which to stop; what is not measured then is left out.
    patience
        Seconds, in all, to wait for a quiet core.
    processor
        The processor to run on; None: any.
    progress
        Called with (figures done, of how many) now and then.
    """

    checkpoint: Checkpoint
    until: float
    patience: float = 60.0
    processor: int | None = None
    progress: Callable[[int, int], None] | None = None

    def measured(self, figures: Sequence[Timing]) -> dict[Timing, float]:
        """Measure figures that the checkpoint lacks, or that cannot be; return those that are known then.

        Raises
        ------
        UnavailableError
            The machine is too busy: dozens of figures in a row found no quiet core.
        """
        known = self.checkpoint.known
        todo = [
            figure
            for figure in dict.fromkeys(figures)
            if not (figure.key in known and figure.possible(known[figure.key]))
        ]
        busy = 0
        while todo and time.monotonic() < self.until:
            done = set()
            for number, value, why in self._child(todo):
                figure = todo[number]
                done.add(figure)
                if why == "busy":
                    busy += 1
                    if busy >= _HOPELESS:
                        raise UnavailableError(
                            f"{busy} figures in a row found no quiet core: another thread of the core was at work, or "
                            "its clock changed; the same command resumes where it stopped when the machine is quieter"
                        )
                    continue
                busy = 0
                self.checkpoint.add(figure.key, value)
                if self.progress is not None and number % 50 == 0:
                    self.progress(number, len(todo))
            if not done:
                break
            todo = [figure for figure in todo if figure not in done]
        found = {figure: known.get(figure.key) for figure in figures}
        return {figure: value for figure, value in found.items() if value is not None and figure.possible(value)}

    def _child(self, todo: Sequence[Timing]) -> Iterator[tuple[int, float | None, str]]:
        """Yield (number, value, reason) from a forked child; a figure that ends it has no value."""
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.close(reading)
                faulthandler.disable()
                with os.fdopen(writing, "w") as pipe:
                    self._work(todo, pipe)
            finally:
                os._exit(0)
        os.close(writing)
        started = None
        try:
            with os.fdopen(reading) as pipe:
                for line in pipe:
                    number, value, why = json.loads(line)
                    if why == "start":
                        started = number
                    else:
                        started = None
                        if why.startswith("clock"):
                            raise UnavailableError(why)
                        yield number, value, why
        finally:
            if os.waitpid(child, os.WNOHANG)[0] == 0:
                os.kill(child, 9)
                os.waitpid(child, 0)
        if started is not None:
            yield started, None, "ended the process"

    def _work(self, todo: Sequence[Timing], pipe: Any) -> None:
        def say(*what: Any) -> None:
            pipe.write(json.dumps(what) + "\n")
            pipe.flush()

        if self.processor is not None:
            os.sched_setaffinity(0, {self.processor})
        try:
            bench = Bench(SAMPLES, self.patience)
        except UnavailableError as error:
            say(0, None, f"clock: {error}")
            return
        for number, figure in enumerate(todo):
            if time.monotonic() > self.until:
                return
            say(number, None, "start")
            try:
                say(number, timed(bench, figure), "")
            except UnavailableError:
                say(number, None, "busy")
            except (DataError, ValueError, AttributeError, KeyError) as error:
                say(number, None, str(error)[:80])
