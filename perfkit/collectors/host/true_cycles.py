"""True core cycles without hardware counters: a kernel timed against a chain of known length.

The clock is `perfkit.collectors.host.cycle_clock`: before and after the kernel, a chain of dependent multiplications
says how long a cycle is, and two probes say whether the core's other hardware thread was at work. Where the chains
differ, the sample is rejected; samples beside a busy thread do not count while there are quiet ones.

Where a program's code and data lie in memory changes its cycles, too (conflicts in caches, aliases in predictors), and
stays the same as long as the process lives. So the samples are taken in several processes, each of which loads the
kernel to other addresses, and the median of the processes is quoted.
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
from perfkit.collectors.host.measuring import (
    Callee,
    build_timer,
    described,
    enough_calls,
    fence_cycles,
    fenced_calls,
    in_measuring_process,
    in_own_place,
    loaded,
    pointer,
    started,
)
from perfkit.errors import PerfkitWarning, SettingError, UnavailableError, of_extra

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from perfkit.collectors.kernels import Kernel

_LONG = 2e6  # cycles of a sample: interrupts and other programs meet nearly every one that is longer
_TRIAL = 15  # samples that say how many calls make one
_PAUSE = 0.02  # seconds between rounds of samples while the core is busy
_FEW = 3  # processes below which they say nothing about the differences between processes
CLOCK = 0.003
"""By how much the clock itself may be off: chains of 30,000 to 1,500,000 known cycles were measured 0.1 to 0.25 % too
low on a Zen 5 whose counter advances in steps."""
_APART = 0.10  # of the quoted cycles: a longer interval determines them no more
ALONE = 4
"""Samples per process of calls that are kept apart, where those that are measured may overlap."""
FENCE = 6
"""Cycles to which it is known what keeps calls apart."""
_OVERLAP = 0.02  # of a call's cycles: more than this is told
_DIFFER = 0.05  # by how much longer samples take on average than what is quoted, from which that is told
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
        """The mean of a process's samples, the median of the processes: more than `cycles` where calls differ."""
        return float(np.median(self._of_each(lambda samples: float(samples.mean()))))

    @property
    def interval(self) -> tuple[float, float]:
        """Where `cycles` lie with about 95 % probability; reaches down to half of them if no sample was quiet.

        From the lowest process to the highest, which hold the median in 94 % of five; of one process, from its samples.
        Down to the fastest sample where a sample takes so long that something interrupts nearly every one. `CLOCK`,
        which all processes have in common, is added at either end.
        """
        found = self.by_process
        if len(found) < _FEW:
            low, high = interval(self.samples, self.quantile, self.quiet is not False)
        else:
            low = found.min() if self.cycles * self.calls < _LONG else self.samples.min()
            low, high = low / (SHARED if self.quiet is False else 1), found.max()
        return float(low * (1 - CLOCK)), float(high * (1 + CLOCK))

    @property
    def settled(self) -> bool:
        """Whether the processes agree: on a quiet core, within a tenth of the cycles.

        Samples whose probes are quiet can have been disturbed between them, the longer a call the more; and there are
        kernels whose cycles depend on where code and data lie. Either way `interval` holds the truth, not `cycles`.
        """
        low, high = self.interval
        return self.quiet is not False and high - low <= _APART * self.cycles

    @property
    def busy_share(self) -> float:
        """Share of the steady repetitions that ran beside a busy thread."""
        return self.busy / max(self.repetitions - self.rejected, 1)

    @property
    def kind(self) -> Kind:
        """``"measured"``."""
        return "measured"

    def summary(self) -> str:
        """Say how many cycles a call takes, within which interval, and how many samples were left out."""
        low, high = self.interval
        quiet = {True: "quiet core", False: "BESIDE A BUSY THREAD", None: "neighbours not judged"}[self.quiet]
        apart = "" if self.settled or self.quiet is False else "; THE PROCESSES DIFFER: take the interval"
        lines = [
            (
                f"{self.kernel}: {self.cycles:,.2f} cycles per call, measured on {self.host} "
                f"({low:,.2f} to {high:,.2f} with 95 % probability; {quiet}{apart})"
            ),
            (
                f"{len(self.samples)} of {self.repetitions} repetitions count, {self.rejected} rejected, "
                f"{self.busy} beside a busy thread; {self.calls} calls timed as one"
            ),
        ]
        if self.quiet is not False and self.mean > (1 + _DIFFER) * self.cycles:
            lines.append(
                f"Samples take {self.mean:,.0f} cycles on average, {self.mean / self.cycles - 1:.0%} longer than the "
                "fastest tenth, which is quoted: calls differ, or caches and memory do."
            )
        if self.alone is not None and self.alone - self.cycles > max(FENCE, _OVERLAP * self.cycles):
            lines.append(
                f"Calls overlap, so these are the cycles from call to call (throughput): a call alone takes some "
                f"{self.alone:,.0f} cycles (give or take {FENCE}); apart=True measures that."
            )
        if self.apart:
            lines.append("Each call began when the one before had ended (latency).")
        return "\n".join(lines)

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the distribution of the samples with the quoted quantile; return the axes."""
        return draw("cycles:plot_cycles", self.samples, cycles=self.cycles, name=self.kernel, ax=ax)

    def per(self, iterations: float) -> float:
        """Return cycles per iteration, for a kernel of so many."""
        return self.cycles / iterations

    def to_frame(self) -> "pd.DataFrame":
        """One row: kernel, cycles and their interval, spread, what counts, calls, ticks per cycle, apart, alone."""
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
            return answering(cls(**arrays, **of_json(str(data["described"]))))


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
        Seconds after which to give up.
    patience : float
        Seconds to wait for a quiet core.
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
            "processes": processes,
            "apart": apart,
        }
        found = in_measuring_process(f"{__name__}:_measure", specification, timeout)
    link, calls = link_cycles(found["pairs"]), int(found["calls"])
    fence = fence_cycles(found, link)
    judged = judge(found["ticks"], link, tolerance)
    result = _result(kernel.name, judged, found["process"], calls, quantile, link, fence if apart else None)
    alone = judge(found["alone"], link, tolerance, judged.width)
    counts = alone.quiet if result.quiet else alone.quiet | alone.busy
    if not counts.any():
        return result
    return replace(result, alone=max(float(np.quantile(alone.cycles[counts], quantile)) / calls - fence, 1.0))


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
    ticks, process = [np.zeros((0, 7), dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    alone, fenced = ticks.copy(), fenced_calls(timer)
    calls = spec["calls"] or 1
    for number in range(spec["processes"] if link else 0):  # without a link, the caller says why

        def work(number: int = number) -> NDArray[np.int64]:
            callee = loaded(spec["library"], spec["function"], spec["setup"], spec["arguments"], [number])
            found, calls = _sample(partial(_times, timer, callee, spec["apart"]), link, spec)
            apart = _times(timer, callee, True, ALONE, calls) if calls > 1 and not spec["apart"] else found[:0]
            return np.concatenate([[[calls, len(apart), 0, 0, 0, 0, 0]], apart, found])

        found = in_own_place(timer, number, work, f"{spec['output']}.{number}.npy")
        spec["calls"] = calls = int(found[0, 0])  # the first process says how many calls are timed as one
        apart = 1 + int(found[0, 1])
        alone.append(found[1:apart])
        ticks.append(found[apart:])
        process.append(np.full(len(found) - apart, number))
    np.savez(
        spec["output"], pairs=pairs, ticks=np.concatenate(ticks), process=np.concatenate(process), calls=calls,
        alone=np.concatenate(alone), **fenced,
    )  # fmt: skip


def _times(timer: ctypes.CDLL, callee: Callee, apart: bool, repetitions: int, calls: int) -> NDArray[np.int64]:
    ticks = np.zeros((repetitions, 7), dtype=np.int64)
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
    return ticks


def _sample(
    samples: Callable[[int, int], NDArray[np.int64]], link: int, spec: dict[str, Any]
) -> tuple[NDArray[np.int64], int]:
    """Choose the calls timed as one, and sample until half of the wanted samples are quiet, or patience ends."""
    until = time.monotonic() + spec["patience"] / spec["processes"]
    calls = spec["calls"]
    if calls is None:
        calls = enough_calls(lambda n: float(np.median(rough_cycles(samples(_TRIAL, n), link))) / n)
    wanted = -(-spec["repetitions"] // spec["processes"])
    ticks = samples(wanted, calls)
    while time.monotonic() < until:
        if np.count_nonzero(judge(ticks, link, spec["tolerance"]).quiet) >= wanted // 2:
            break
        time.sleep(_PAUSE)
        ticks = np.concatenate([ticks, samples(wanted, calls)])
    return ticks, calls


def _host() -> str:
    from perfkit.collectors.tracer.tracer import processor_name

    return f"{platform.machine()} {processor_name()}"
