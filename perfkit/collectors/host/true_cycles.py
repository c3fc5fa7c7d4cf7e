"""True core cycles without hardware counters: a kernel timed against a chain of known length.

The clock is `perfkit.collectors.host.cycle_clock`: before and after the kernel, a chain of dependent multiplications
says how long a cycle is, and two probes say whether the core's other hardware thread was at work. Where the chains
differ, the sample is rejected; samples beside a busy thread do not count while there are quiet ones.

Where a program's code and data lie in memory changes its cycles, too (conflicts in caches, aliases in predictors), and
stays the same as long as the process lives. So the samples are taken in several processes, each of which loads the
kernel to other addresses, and the median of the processes is quoted.

Behind its samples each process goes on to call the kernel for some ten milliseconds, behind as many calls as those
before it looked at (all would look at the same calls of a kernel that counts them, or draws from a fixed seed). It
says what calls take on average, whether later ones take what the first ones do, and whether the kernel gives the
processor up (`perfkit.collectors.host.later_calls`).
"""

import ctypes
import json
import os
import platform
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from perfkit.base.files import existing, json_text, of_json, reading, replaced
from perfkit.base.results import Kind, Summarised, answering, draw
from perfkit.collectors.host.cycle_clock import (
    QUANTILE,
    SHARED,
    TOLERANCE,
    Judged,
    interval,
    judge,
    link_cycles,
    rough_cycles,
)
from perfkit.collectors.host.later_calls import Later, Windows, later_calls, rarest
from perfkit.collectors.host.measuring import (
    Callee,
    build_timer,
    described,
    enough_calls,
    expect_time,
    fence_cycles,
    fenced_calls,
    in_measuring_process,
    in_own_place,
    loaded,
    pointer,
    started,
)
from perfkit.collectors.kernel_notes import goes_by_time, no_work
from perfkit.collectors.kernels import expect_kernel
from perfkit.errors import PerfkitWarning, SettingError, UnavailableError, expect_number, of_extra

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from perfkit.collectors.kernels import Kernel

_LONG = 2e6  # cycles of a sample: interrupts and other programs meet nearly every one that is longer
_OFTEN = 50_000  # ticks of a sample, as of timer.c's LONG_CALLS: of longer ones what others had is taken off
_SWITCHING = 0.02  # of what others had: with 44 to 49 % of the time theirs, calls on a Zen 4 took .4 to .9 % longer
_INTERRUPTED = 0.01  # of the samples' time, from which that is told
_TRIAL = 15  # samples that say how many calls make one
_PAUSE = 0.02  # seconds between rounds of samples while the core is busy
_FEW = 3  # processes below which they say nothing about the differences between processes
CLOCK = 0.003
"""By how much the clock itself may be off: chains of 30,000 to 1,500,000 known cycles were measured 0.1 to 0.25 % too
low on a Zen 5 whose counter advances in steps."""
_APART = 0.10  # of the quoted cycles: a longer interval determines them no more
MOSTLY = 0.4
"""Of a kernel's calls, or rounds, those in which it gives the processor up, from which what is quoted may be such."""
ALONE = 4
"""Samples per process of calls that are kept apart, where those that are measured may overlap."""
FENCE = 6
"""Cycles to which it is known what keeps calls apart."""
_OVERLAP = 0.02  # of a call's cycles: more than this is told
_DIFFER = 0.05  # by how much longer samples take on average than what is quoted, from which that is told, in old files
_LATER = 0.04  # seconds that each process goes on to call the kernel,
_LATER_SHARE = 0.2  # or so many times as long as its samples took,
_LATEST = 0.15  # and no longer
_ROOM = (4_000, 40_000)  # blocks and windows of these calls that there is room for
_GAVE = 3  # times that the kernel gave the processor up, from which it is told to wait
_SAMPLE = 7  # columns of a sample; behind them, ticks that others had
_COLUMNS = {"ticks": _SAMPLE + 1, "alone": _SAMPLE + 1, "in_row": _SAMPLE + 1, "blocks": 10, "windows": 5}
_NUMBERS = 3  # of a process: calls timed as one, how often the kernel gave the processor up, calls made untimed
_ARRAYS = ("samples", "process")


@dataclass(frozen=True, eq=False, repr=False)
class TrueCycles(Summarised):
    """Core cycles of one call of a kernel, measured.

    Parameters
    ----------
    kernel : str
        Its name.
    samples : (kept,) float64
        Cycles per call, one for each repetition that counts, in order: the quiet ones, or all that were not rejected if
        too few were quiet (`quiet`).
    process : (kept,) int64, optional
        Which of the processes each sample was taken in.
    repetitions, rejected : int
        How many were made, and how many of them rejected because the clock rate changed or something interrupted.
    calls : int
        Calls timed as one.
    quantile : float
        Which quantile of the samples is quoted.
    ticks_per_cycle : float
        Ticks of the time stamp counter per cycle, the median over the repetitions kept.
    link : int
        Cycles of one dependent multiplication, as found on this machine.
    host : str
        Where this was measured.
    busy : int
        How many of the steady repetitions ran while the core's other hardware thread was at work.
    quiet : bool, optional
        Whether the samples are those of a quiet core. If not, ``cycles`` holds what the kernel took beside a busy
        thread, and ``interval`` reaches down to half of it. None in files of before this was judged.
    apart : bool
        Whether each call began when the one before had ended (latency). Otherwise calls in a row may overlap, and
        ``cycles`` are those from call to call (throughput).
    alone : float, optional
        Cycles of a call that so began, give or take `FENCE`, where those that were measured may overlap; None if they
        are apart, if one call is as long as a sample has to be, or in files of before it was measured.
    looked : int, optional
        Calls that were looked at on a quiet core, to find what not all of them do. None in files of before this was.
    average : tuple of three float, optional
        Cycles of a call on average, and the interval in which that lies with about 95 % probability; without what
        interrupts, other programs and a busy thread add. None if nothing is known of it.
    differs : bool
        Whether the average is surely another than ``cycles``: some calls take longer.
    changed : float
        How many times as long as ``cycles`` later calls take; 1 if they take as long.
    least : float
        By how much, relative, the average has to differ for that to be told.
    gave : tuple of two int
        How often the kernel gave the processor up, and in how many calls.
    among : int
        Within how many first calls of a process those lie that were looked at, at most; 0 in files of before it was
        kept.
    waited : float
        Of the samples' time, the share in which other programs had the processor: it is taken off each.
    """

    kernel: str
    samples: NDArray[np.float64]
    repetitions: int
    rejected: int
    calls: int
    quantile: float
    ticks_per_cycle: float
    link: int
    host: str
    busy: int = 0
    quiet: bool | None = None
    process: NDArray[np.int64] | None = None
    apart: bool = False
    alone: float | None = None
    looked: int | None = None
    average: tuple[float, float, float] | None = None
    differs: bool = False
    changed: float = 1.0
    least: float = 0.01
    gave: tuple[int, int] = (0, 0)
    waited: float = 0.0
    among: int = 0

    @property
    def by_process(self) -> NDArray[np.float64]:
        """The quoted quantile of each process's samples: cycles per call."""
        return self._of_each(lambda samples: float(np.quantile(samples, self.quantile)))

    def _of_each(self, figure: Callable[[NDArray[np.float64]], float]) -> NDArray[np.float64]:
        process = np.zeros(len(self.samples)) if self.process is None else self.process
        return np.array([figure(self.samples[process == one]) for one in np.unique(process)])

    @property
    def cycles(self) -> float:
        """Cycles per call: the quoted quantile of a process's samples, the median of the processes."""
        return float(np.median(self.by_process))

    @property
    def spread(self) -> float:
        """Distance from the quoted quantile to the median, relative to the quoted value."""
        return float(np.median(self.samples) / self.cycles - 1)

    @property
    def mean(self) -> float:
        """Cycles of a call on average: `average`, or else the mean of a process's samples, the median of them."""
        if self.average is not None:
            return self.average[0]
        return float(np.median(self._of_each(lambda samples: float(samples.mean()))))

    @property
    def interval(self) -> tuple[float, float]:
        """Where `cycles` lie with about 95 % probability; reaches down to half of them if no sample was quiet.

        From the lowest process to the highest, which hold the median in 94 % of five; of one process, from its samples.
        Down to the fastest sample where a sample takes so long that something interrupts nearly every one. `CLOCK`,
        which all processes have in common, is added at either end. Where other programs had the processor, switching to
        them and back is the kernel's own time, and reaches down further.
        """
        found = self.by_process
        if len(found) < _FEW:
            low, high = interval(self.samples, self.quantile, self.quiet is not False)
        else:
            low = found.min() if self.cycles * self.calls < _LONG else self.samples.min()
            low, high = low / (SHARED if self.quiet is False else 1), found.max()
        low *= 1 - _SWITCHING * self.waited
        return float(low * (1 - CLOCK)), float(high * (1 + CLOCK))

    @property
    def settled(self) -> bool:
        """Whether `cycles` hold: on a quiet core, processes agree within a tenth, and calls neither change nor wait.

        Samples whose probes are quiet can have been disturbed between them, the longer a call the more; and there are
        kernels whose cycles depend on where code and data lie. Either way `interval` holds the truth, not `cycles`.
        """
        low, high = self.interval
        return self.quiet is not False and high - low <= _APART * self.cycles and self.changed == 1 and not self.waits

    @property
    def waits(self) -> bool:
        """Whether the kernel gives the processor up: it sleeps, or waits for something."""
        return self.gave[0] >= _GAVE

    @property
    def busy_share(self) -> float:
        """Share of the steady repetitions that ran beside a busy thread."""
        return self.busy / max(self.repetitions - self.rejected, 1)

    @property
    def kind(self) -> Kind:
        """``"measured"``."""
        return "measured"

    def summary(self) -> str:
        """Say how many cycles a call takes, within which interval, what calls differ by, and how many there were."""
        low, high = self.interval
        lines = [
            (
                f"{self.kernel}: {self.cycles:,.2f} cycles per call{self._of_which}, measured on {self.host} "
                f"({low:,.2f} to {high:,.2f} with 95 % probability; {self._holds})"
            ),
            (
                f"{len(self.samples)} of {self.repetitions} repetitions count, {self.rejected} rejected, "
                f"{self.busy} beside a busy thread; {self.calls} calls timed as one"
            ),
            *self._interrupted(),
            *self._looked(),
            *self._calls_differ(),
        ]
        most = max(self.cycles, self.mean if self.differs else 0.0)  # of calls in a row
        alone = self.alone if self.changed == 1 else None
        if alone is not None and alone - most > max(FENCE, _OVERLAP * self.cycles):
            lines.append(
                f"Calls overlap, so these are the cycles from call to call (throughput): a call alone takes some "
                f"{alone:,.0f} cycles (give or take {FENCE}); apart=True measures that."
            )
        if self.apart:
            lines.append("Each call began when the one before had ended (latency).")
        return "\n".join(lines)

    @property
    def _of_which(self) -> str:
        """Say which calls take so long, where not all do."""
        if self.waits:
            return ", falling asleep and waking up included," if self.gave[0] > MOSTLY * self.gave[1] else " of its own"
        if self.changed != 1:
            return f" at first, {self.changed * self.cycles:,.0f} later"
        return f" in the fastest tenth, {self.mean:,.0f} on average" if self.differs else ""

    @property
    def _holds(self) -> str:
        """Say what the figure depends on."""
        found = [{True: "quiet core", False: "BESIDE A BUSY THREAD", None: "neighbours not judged"}[self.quiet]]
        low, high = self.interval
        if self.waits:
            found.append("IT WAITS")
        elif self.changed != 1:
            found.append("CALLS CHANGE")
        elif self.quiet is not False and high - low > _APART * self.cycles:
            found.append("THE PROCESSES DIFFER: take the interval")
        return "; ".join(found)

    def _interrupted(self) -> list[str]:
        """Say that other programs had the processor while samples were taken."""
        if self.waited < _INTERRUPTED:
            return []
        return [f"Other programs had the processor for {self.waited:.0%} of the samples' time; it is taken off."]

    def _looked(self) -> list[str]:
        """Say how many calls were looked at, and what does not show in them."""
        if self.looked is None or self.waits:
            return []
        processes = 1 if self.process is None else len(np.unique(self.process))
        each = self.gave[1] // processes
        many = f"Of the first {each:,} calls of each of {processes} processes, together {self.gave[1]:,},"
        if self.among > each:
            many = f"Of {each:,} calls of each of {processes} processes ({self.gave[1]:,} from among the first "
            many += f"{self.among:,}),"
        many = f"Of the first {each:,} calls," if processes == 1 else many
        return [f"{many} {rarest(self.looked, self.least)}."]

    def _calls_differ(self) -> list[str]:
        """Say what calls differ by, if they do."""
        mean, more = self.mean, self.mean / self.cycles - 1
        told = ""
        if self.waits:
            told = (
                f"The kernel gave the processor up {self.gave[0]:,} times in {self.gave[1]:,} calls (it sleeps, or "
                "waits for a file, a lock or another process): cycles do not measure that."
            )
        elif self.changed != 1:
            told = (
                f"Later calls take {self.changed * self.cycles:,.0f} cycles, {self.changed:.2g} times as long as the "
                "first ones, which are quoted: a table that fills, memory that grows, or what predictors and caches "
                "learn."
            )
        elif self.average is not None and self.differs:
            low, high = self.average[1:]
            why = "some take longer, or caches and memory do"
            if more < 0:
                why = (
                    "without readings of the clock between them, or later, they take less (predictors and caches learn)"
                )
            told = (
                f"Calls take {mean:,.0f} cycles on average ({low:,.0f} to {high:,.0f} with 95 % probability; what else "
                f"runs here apart), {abs(more):.1%} {'longer' if more > 0 else 'less'} than the fastest tenth of the "
                f"samples, which is quoted: {why}."
            )
        elif self.looked is None and self.quiet is not False and more > _DIFFER:
            told = (
                f"Samples take {mean:,.0f} cycles on average, {more:.0%} longer than the fastest tenth, which is "
                "quoted: calls differ, or caches and memory do."
            )
        return [told] if told else []

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the distribution of the samples with the quoted quantile; return the axes."""
        return draw("cycles:plot_cycles", self.samples, cycles=self.cycles, name=self.kernel, ax=ax)

    def per(self, iterations: float) -> float:
        """Return cycles per iteration, for a kernel of so many; SettingError where there are none."""
        expect_number(iterations, "TrueCycles.per", "iterations", "say how many a call has")
        if not iterations > 0:
            raise SettingError(f"a call has more than 0 iterations; found {iterations}")
        return self.cycles / iterations

    def to_frame(self) -> "pd.DataFrame":
        """One row: kernel, cycles and their interval, spread, what counts, calls, ticks per cycle, apart, alone, mean.

        And whether the mean differs, how calls changed, how many were looked at, how often the processor was given up.
        """
        pd = of_extra("pandas")

        low, high = self.interval
        return pd.DataFrame(
            {
                "kernel": [self.kernel],
                "cycles": [self.cycles],
                "low": [low],
                "high": [high],
                "spread": [self.spread],
                "kept": [len(self.samples)],
                "rejected": [self.rejected],
                "busy": [self.busy],
                "quiet": [self.quiet],
                "calls": [self.calls],
                "ticks_per_cycle": [self.ticks_per_cycle],
                "apart": [self.apart],
                "alone": [self.alone],
                "mean": [self.mean],
                "differs": [self.differs],
                "changed": [self.changed],
                "looked": [self.looked],
                "gave": [self.gave[0]],
            }
        )

    def save(self, path: str | Path) -> Path:
        """Write as npz."""
        arrays: dict[str, Any] = {"samples": self.samples} | ({} if self.process is None else {"process": self.process})
        described = {name: getattr(self, name) for name in self.__dataclass_fields__ if name not in _ARRAYS}
        with replaced(path, ".npz") as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, described=np.array(json_text(described)), **arrays)
        return Path(path)

    @classmethod
    def load(cls, path: str | Path) -> "TrueCycles":
        """Read what `save` wrote; FileNotFoundError if there is none, FormatError if it is another's or damaged."""
        path = existing(path)
        with reading(path, "a file of TrueCycles.save"), np.load(path, allow_pickle=False) as data:
            arrays = {name: data[name] for name in _ARRAYS if name in data}
            told = of_json(str(data["described"]))
            told |= {name: tuple(told[name]) for name in ("average", "gave") if told.get(name) is not None}
            return answering(cls(**arrays, **told))


def true_cycles(
    kernel: "Kernel",
    *arguments: Any,
    repetitions: int = 400,
    calls: int | None = None,
    quantile: float = QUANTILE,
    tolerance: float = TOLERANCE,
    processor: int | None = None,
    timeout: float = 120.0,
    patience: float = 10.0,
    processes: int = 5,
    apart: bool = False,
) -> TrueCycles:
    """Measure a kernel's core cycles with the time stamp counter.

    A sample is many calls without a pause, which overlap on an out-of-order core: of a kernel of up to a few hundred
    cycles these are the cycles from call to call (throughput), fewer than one call alone takes (latency). The result
    says then what a call alone takes; `apart` measures that.

    Parameters
    ----------
    kernel : Kernel
        From :func:`~perfkit.collectors.compile_kernel` or :func:`~perfkit.collectors.corpus_kernel`.
    *arguments
        As for :meth:`Kernel.trace <perfkit.collectors.kernels.Kernel.trace>`; at most six integers and pointers, and
        eight floating-point numbers.
    repetitions : int
        Samples to take at first, in all processes together. While fewer than half are quiet, as many again are taken
        for up to `patience` seconds.
    calls : int, optional
        Calls timed as one; by default as many as make 20,000 cycles. The first call's data are what ``setup()`` made.
    quantile : float
        What to quote. Low, because all disturbances add; not the minimum, which a clock that rises between the
        chain and the kernel can pull too low.
    tolerance : float
        Reject a repetition whose two chains differ by more than this.
    processor : int, optional
        Which processor to pin the measuring process to; by default the first that it may use.
    timeout : float
        Seconds after which to give up. Where a trial tells that the samples will take longer, none is waited for.
    patience : float
        Seconds to wait for a quiet core, over all processes, beside those that `repetitions` take: of long calls these
        may be more, so ask for fewer.
    processes : int
        Processes to measure in, one after another, each with the kernel at other addresses. Their median is quoted.
    apart : bool
        Whether each call is to begin when the one before has ended. What keeps them apart is subtracted, give or take
        `FENCE` cycles.

    Warns
    -----
    PerfkitWarning
        If no sample was quiet, so that the figure is one beside a busy thread; or half of them were rejected.

    Raises
    ------
    UnavailableError
        When this machine is not x86-64, or so busy that nearly every repetition was rejected.
    DataError
        When the kernel crashes or does not end.
    SettingError
        When `processes` is less than 1.

    Examples
    --------
    >>> import perfkit as pk
    >>> kernel = pk.collectors.corpus_kernel("fig1a", defines={"COUNT": 4000})  # doctest: +SKIP
    >>> round(pk.collectors.true_cycles(kernel).per(4000), 1)  # doctest: +SKIP
    8.0
    """
    expect_kernel(kernel, "true_cycles")
    _check(repetitions, calls, quantile, tolerance, kernel.isa)
    if processes < 1:
        raise SettingError(f"processes must be 1 or more, found {processes}")
    with tempfile.TemporaryDirectory(prefix="perfkit-timer-") as scratch:
        folder = Path(scratch)
        specification = {
            "timer": str(build_timer(folder)),
            "name": kernel.function,
            "library": str(kernel.path),
            "function": kernel.function,
            "setup": kernel.has_setup,
            "arguments": described(kernel, arguments, folder),
            "processor": min(os.sched_getaffinity(0)) if processor is None else processor,
            "output": str(folder / "ticks.npz"),
            "calls": calls,
            "repetitions": repetitions,
            "tolerance": tolerance,
            "patience": patience,
            "timeout": timeout,
            "processes": processes,
            "apart": apart,
        }
        found = in_measuring_process(f"{__name__}:_measure", specification, timeout)
    link, calls = link_cycles(found["pairs"]), int(found["calls"])
    fence = fence_cycles(found, link)
    ticks = _own(found["ticks"])
    judged = judge(ticks, link, tolerance)
    result = _result(kernel.name, judged, found["ticks_process"], calls, quantile, link, fence if apart else None)
    result = _with_later(result, found, judged, fence if apart else 0.0)
    for note in filter(None, (no_work(kernel, kernel.name, result.cycles), goes_by_time(kernel, kernel.name))):
        warnings.warn(note, PerfkitWarning, stacklevel=2)
    result = replace(result, waited=1 - float(ticks[:, 3].sum() / found["ticks"][:, 3].sum()))
    took = []
    for name in ("alone", "in_row"):
        each = judge(found[name][:, :_SAMPLE], link, tolerance, judged.width)
        counts = each.quiet if result.quiet else each.quiet | each.busy
        if not counts.any():
            return result
        took.append(float(np.quantile(each.cycles[counts], quantile)) / calls)
    # Beside calls in a row of the same time: others may take longer or less.
    return replace(result, alone=max(took[0] - fence - max(took[1] - result.cycles, 0.0), 1.0))


def _own(ticks: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return samples without what others had of the processor, of those so long that it meets nearly every one."""
    own = ticks[:, :_SAMPLE].copy()
    others = np.where(own[:, 3] > _OFTEN, np.minimum(ticks[:, _SAMPLE], own[:, 3] - 1), 0)
    own[:, 3] -= others
    return own


def _with_later(result: TrueCycles, found: dict[str, NDArray[Any]], judged: Judged, fence: float) -> TrueCycles:
    """Add what calls say that come behind the samples, or, where a sample is one call, are samples."""
    windows, first = [], []
    numbers = np.unique(np.asarray(result.process))
    for number in numbers:
        mine = found["ticks_process"] == number
        later = Windows(*(found[name][found[f"{name}_process"] == number] for name in ("blocks", "windows")))
        windows.append(Windows.of_samples(found["ticks"][mine]).before(later) if result.calls == 1 else later)
        samples = result.samples[result.process == number]
        first.append(samples[: -(-len(samples) // 3)])
    later_ones = Later()
    if result.quiet:  # else what is quoted was disturbed itself
        later_ones = later_calls(windows, first, result.by_process.tolist(), result.link, result.calls, fence)
    ends = later_ones.low * (1 - CLOCK), later_ones.high * (1 + CLOCK)
    average = result.cycles * np.array([later_ones.mean, *ends])
    made = result.calls * (len(judged.cycles) + len(found["windows"]))
    return replace(
        result,
        looked=later_ones.calls,
        average=tuple(average.tolist()) if later_ones.calls and np.isfinite(average).all() else None,
        differs=later_ones.differs,
        changed=later_ones.changed,
        least=later_ones.least,
        gave=(int(found["gave"]) + int(found["blocks"][:, 9].sum()), made),
        among=made // len(numbers) + int(found["skipped"]),
    )


def _result(
    name: str,
    judged: Judged,
    process: NDArray[np.int64],
    calls: int,
    quantile: float,
    link: int,
    fence: float | None = None,
) -> TrueCycles:
    """Make the result of judged samples, refuse if there are hardly any, and warn of what makes it uncertain.

    Where calls were kept apart, a fence took so many cycles of each.
    """
    repetitions, rejected, least = len(judged.cycles), judged.rejected, max(5, len(judged.cycles) // 50)
    if repetitions - rejected < least:
        raise UnavailableError(
            f"{rejected} of {repetitions} repetitions were rejected: this machine is too busy, or its clock changes "
            "too often, to measure; try again on a quiet one, or raise repetitions"
        )
    counted, quiet = judged.counted(min(least, 20))
    taken = judged.cycles[counted] / calls
    result = TrueCycles(
        kernel=name,
        samples=taken if fence is None else np.maximum(taken - fence, 1.0),
        process=process[counted],
        repetitions=repetitions,
        rejected=rejected,
        calls=calls,
        quantile=quantile,
        ticks_per_cycle=float(np.nanmedian(judged.rates)),
        link=link,
        host=_host(),
        busy=int(np.count_nonzero(judged.busy)),
        quiet=quiet,
        apart=fence is not None,
    )
    problem = ""
    if not quiet:
        low, high = result.interval
        problem = (
            f"{result.busy_share:.0%} of the samples of {name} ran beside a busy thread of the same core and too few "
            f"on a quiet one: its cycles lie between {low:,.0f} and {high:,.0f}; try again when the machine is quieter"
        )
    elif rejected > repetitions / 2:
        problem = f"{rejected} of {repetitions} repetitions were rejected: the machine is busy, and {name}'s cycles "
        problem += "are less certain"
    if problem:
        warnings.warn(problem, PerfkitWarning, stacklevel=3)
    return result


def _check(repetitions: int, calls: int | None, quantile: float, tolerance: float, isa: str) -> None:
    if isa != "x86-64" or platform.machine() != "x86_64":
        raise UnavailableError(f"true cycles need an x86-64 machine and kernel (found {platform.machine()} and {isa})")
    if repetitions < 10:
        raise SettingError(f"repetitions must be 10 or more, found {repetitions}")
    if calls is not None and calls < 1:
        raise SettingError(f"calls must be 1 or more, found {calls}")
    if not 0 <= quantile <= 1:
        raise SettingError(f"quantile must lie between 0 and 1, found {quantile}")
    if not tolerance > 0:
        raise SettingError(f"tolerance must be positive, found {tolerance}")


def _measure(argument: str) -> None:
    """Be the measuring process: start one process after another that loads the kernel and samples it."""
    spec = json.loads(argument)
    timer, pairs, link = started(spec)
    fenced = fenced_calls(timer)
    parts: dict[str, list[NDArray[np.int64]]] = {name: [] for name in _COLUMNS}
    calls, gave, skipped, number = spec["calls"] or 1, 0, 0, -1
    spec["looks_at"] = 0  # calls
    for number in range(spec["processes"] if link else 0):  # without a link, the caller says why
        found = in_own_place(
            timer, number, partial(_one_process, timer, link, number, spec), f"{spec['output']}.{number}.npy"
        )
        # The first process says how many calls are timed as one.
        spec["calls"] = calls = int(found[0])
        gave += int(found[1])
        skipped = max(skipped, int(found[2]))
        begin = _NUMBERS + len(_COLUMNS)
        for (name, columns), rows in zip(_COLUMNS.items(), found[_NUMBERS:begin].tolist(), strict=True):
            parts[name].append(found[begin : begin + rows * columns].reshape(rows, columns))
            begin += rows * columns
        spec["looks_at"] = max(spec["looks_at"], calls * len(parts["windows"][-1]))
    arrays: dict[str, Any] = {
        name: np.concatenate([np.zeros((0, columns), dtype=np.int64), *parts[name]])
        for name, columns in _COLUMNS.items()
    }
    arrays |= {
        f"{name}_process": np.repeat(np.arange(number + 1), [len(one) for one in parts[name]]) for name in _COLUMNS
    }
    np.savez(spec["output"], pairs=pairs, calls=calls, gave=gave, skipped=skipped, **arrays, **fenced)


def _one_process(timer: ctypes.CDLL, link: int, number: int, spec: dict[str, Any]) -> NDArray[np.int64]:
    """Return `_NUMBERS`, the lengths of `_COLUMNS`, and these in a row."""
    callee = loaded(spec["library"], spec["function"], spec["setup"], spec["arguments"], [number])
    gave: list[int] = []
    began = time.monotonic()
    ticks, calls = _sample(partial(_times, timer, callee, spec["apart"], gave), link, spec)
    took = time.monotonic() - began
    skipped, *later = _going_on(timer, callee, spec["apart"], calls, took, number, spec["looks_at"])
    # At last, as these calls begin with a setup of their own.
    alone = _times(timer, callee, True, gave, ALONE, calls) if calls > 1 and not spec["apart"] else ticks[:0]
    in_row = _times(timer, callee, False, gave, ALONE, calls) if len(alone) else alone
    each = (ticks, alone, in_row, *later)
    return np.concatenate([[calls, sum(gave), skipped], [len(one) for one in each], *(one.ravel() for one in each)])


def _times(
    timer: ctypes.CDLL, callee: Callee, apart: bool, gave: list[int], repetitions: int, calls: int
) -> NDArray[np.int64]:
    """Return samples, and add to `gave` how often the kernel gave the processor up."""
    ticks = np.zeros((repetitions, _COLUMNS["ticks"]), dtype=np.int64)
    gave.append(
        timer.perfkit_time(
            callee.function,
            callee.integers,
            callee.floats,
            ctypes.c_long(calls),
            ctypes.c_long(repetitions),
            pointer(ticks),
            callee.setup,
            ctypes.c_long(apart),
        )
    )
    return ticks


def _going_on(
    timer: ctypes.CDLL, callee: Callee, apart: bool, calls: int, took: float, number: int, looks_at: int
) -> tuple[Any, ...]:
    """Call the kernel for some time more, depending on how long its samples `took`; return the parts of `Windows`.

    Behind those calls that the processes before this one look at, so many each, which are made untimed: how many comes
    first. No longer than looking at them takes.
    """
    names = ("blocks", "windows")
    arrays = [np.zeros((rows, _COLUMNS[name]), dtype=np.int64) for rows, name in zip(_ROOM, names, strict=True)]
    room = np.array([*_ROOM, number * looks_at], dtype=np.int64)
    seconds = min(max(_LATER, _LATER_SHARE * took), _LATEST)
    timer.perfkit_look(
        callee.function,
        callee.integers,
        callee.floats,
        ctypes.c_long(calls),
        ctypes.c_long(apart),
        ctypes.c_double(number * seconds),
        ctypes.c_double(seconds),
        pointer(room),
        *(pointer(one) for one in arrays),
    )
    *made, skipped = room.tolist()
    return skipped, *(one[:rows] for one, rows in zip(arrays, made, strict=True))


def _sample(
    samples: Callable[[int, int], NDArray[np.int64]], link: int, spec: dict[str, Any]
) -> tuple[NDArray[np.int64], int]:
    """Choose the calls timed as one, and sample until half of the wanted samples are quiet, or patience ends."""
    calls = spec["calls"]
    if calls is None:
        tried: list[float] = []

        def cycles_of(n: int) -> float:
            began = time.monotonic()
            cycles = rough_cycles(samples(_TRIAL, n)[:, :_SAMPLE], link)
            tried.append((time.monotonic() - began) / _TRIAL)
            return float(np.median(cycles)) / n

        calls = enough_calls(cycles_of)
        _expect_time(spec, tried[-1])
    wanted = -(-spec["repetitions"] // spec["processes"])
    began = time.monotonic()
    ticks = samples(wanted, calls)
    took = (time.monotonic() - began) / wanted
    until = time.monotonic() + spec["patience"] / spec["processes"]  # beside what measuring takes on a quiet core
    while (left := until - time.monotonic()) > took:  # a sample that is begun is not cut short
        if np.count_nonzero(judge(ticks[:, :_SAMPLE], link, spec["tolerance"]).quiet) >= wanted // 2:
            break
        time.sleep(_PAUSE)
        ticks = np.concatenate([ticks, samples(min(wanted, int(left / took)) if took else wanted, calls)])
    return ticks, calls


def _expect_time(spec: dict[str, Any], took: float) -> None:
    """End where all samples will take longer than they are given, with one taking so many seconds."""
    expect_time(
        f"a sample takes {took:.2g} s, so that {spec['repetitions']}",
        spec["repetitions"] * took,
        spec["timeout"],
        "ask for fewer (repetitions=; at least 10), for more time (timeout=), or shorten the call",
    )


def _host() -> str:
    from perfkit.collectors.tracer.tracer import processor_name

    return f"{platform.machine()} {processor_name()}"
