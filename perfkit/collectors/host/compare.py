"""Which of two kernels is faster, and by how much: interleaved, shuffled runs in many processes.

In each process both kernels are loaded, at addresses of its own, and sampled in turns, in a random order within each
round, between readings of the clock (`perfkit.collectors.host.cycle_clock`). So what changes over time or with the
place in memory hits both. Only rounds count in which both samples are steady and quiet. A process gives one figure: the
median ratio of its rounds; and the processes, which are independent, give the effect and its confidence interval
(Student's t of the logarithms). Calls before each sample bring back caches and branch predictors, and tell what rare
calls add to the mean (`perfkit.collectors.host.rare_calls`).
"""

import ctypes
import json
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from perfkit.collectors.host.code import processor as processor_name
from perfkit.collectors.host.comparison import SELDOM_ALONE, KernelComparison, mean_cycles
from perfkit.collectors.host.cycle_clock import Judged, judge, link_cycles, rough_cycles
from perfkit.collectors.host.machine_state import now
from perfkit.collectors.host.measuring import (
    Callee,
    build_timer,
    calls_per_sample,
    described,
    expect_time,
    fence_cycles,
    fenced_calls,
    in_measuring_process,
    in_own_place,
    loaded,
    pointer,
    started,
    until_enough,
)
from perfkit.collectors.host.rare_calls import ITSELF, added_by_rare, share_waited
from perfkit.collectors.host.true_cycles import ALONE, FENCE
from perfkit.collectors.kernel_notes import goes_by_time, no_work, starts_threads
from perfkit.collectors.tracer.demangle import named_as
from perfkit.collectors.tracer.elf import elf_as_it_is
from perfkit.errors import PerfkitWarning, SettingError, UnavailableError, of_extra

if TYPE_CHECKING:
    import pandas as pd

    from perfkit.collectors.kernels import Kernel

_FIRST = 3  # rounds of the kernel that is loaded first, before the other one is
_AGREE = [0.2, 0.8]  # shares of the processes beyond whose change none is seen
_FEW_FIRST = 2  # processes that have to tell what those took
_SAMPLE = 7  # columns of a sample; behind them, who waited, its own ticks, and what was called before it
_ROW = _SAMPLE + 2 + 40  # of a round of a kernel: PAIR in timer.c
_MEDIANS_ERROR = 1.25 * 1.48  # standard error of a normal sample's median, by the median distance from it
_SURE = 5  # standard errors
_TRIAL = 15  # rounds that say how many calls make one sample
_SECONDS = 100.0  # for which all rounds may take, beyond twice the fewest: as long as they take in the first process
_FEWEST = 5  # rounds of a process that must count, else it gives no figure
_PROCESSES = 6  # that must give a figure
_ALIKE = 4  # times as long as the other kernel, up to which one is called as often in a sample
_START = 3e7  # cycles of a kernel that a process calls, at most, before it times any
_INTERRUPTED = 2e6  # cycles of a sample: interrupts and other programs meet nearly every one that is longer


_BUSY = (
    "{:.0%} of the rounds ran beside a busy thread of the same core and too few on a quiet one: the effect is one "
    "beside a busy thread; compare again when the machine is quieter"
)
_ONE_PROCESSOR = (
    "code here starts threads, and all of them run on the one processor that is measured: what they gain by running "
    "beside each other does not show"
)
_LOCKED = (
    ". From {}'s first thread on the C library's locks (of files, `malloc`, `shared_ptr`) cost more in the other, too, "
    "which is in the same process: the effect may be less than in programs of their own"
)
_WAITS = (
    "in most of the others the processor was not the kernel's all the time: other programs had it, or the kernel "
    "waits (for a process, a file, a lock or a clock), which cycles do not measure"
)
_MODES = (  # which control word (0: of SSE), its bits, and what they say
    (0, 0x8000, "subnormal results are flushed to zero"),
    (0, 0x0040, "subnormal operands count as zero"),
    (0, 0x6000, "rounding"),
    (0, 0x1F80, "exceptions"),
    (1, 0x0300, "precision of x87"),
    (1, 0x0C00, "rounding of x87"),
    (1, 0x003F, "exceptions of x87"),
)
_GIVES_WAY = 0.3  # of a kernel's rounds, from which that is why there are hardly any steady ones


def compare(
    a: "Kernel",
    b: "Kernel",
    *arguments: Any,
    processes: int = 30,
    rounds: int = 30,
    confidence: float = 0.99,
    least: float = 0.005,
    apart: bool = False,
    processor: int | None = None,
    patience: float = 20.0,
    timeout: float = 600.0,
    seed: int = 0,
) -> KernelComparison:
    """Compare the cycles of two kernels: other code, another build, another compiler, another commit.

    Parameters
    ----------
    a, b : Kernel
        From :func:`~perfkit.collectors.compile_kernel` or :func:`~perfkit.collectors.corpus_kernel`. The effect is that
        of b relative to a.
    *arguments
        Of both, as for :meth:`Kernel.trace <perfkit.collectors.kernels.Kernel.trace>`.
    processes : int
        Processes to measure in, at least 6; the confidence interval is that of their mean, so more make it narrower.
    rounds : int
        Rounds in each process; in each round both kernels are sampled once.
    confidence : float
        Of the interval. An A/A comparison is called a difference in at most ``1 - confidence`` of all cases.
    least : float
        The smallest effect that matters to you: if the whole interval lies within ±``least``, the verdict is "same".
    apart : bool
        Whether each call is to begin when the one before has ended (latency). Calls of a short kernel in a row overlap
        otherwise (throughput); the result says then what a call alone takes.
    processor : int, optional
        Which processor to pin to; by default the first that this process may use.
    patience : float
        Seconds, over all processes, to wait for a quiet core, beside those that the rounds themselves take: of long
        calls these may be more.
    timeout : float
        Seconds after which to give up. Where a first process tells that all will take longer, none is waited for.
    seed : int
        Of the orders.

    Warns
    -----
    PerfkitWarning
        If too few rounds were quiet: the effect is then one beside a busy thread of the same core.

    Raises
    ------
    UnavailableError
        When this machine is not x86-64, or too busy to measure.
    DataError
        When a kernel crashes or does not end.

    Examples
    --------
    >>> import perfkit as pk
    >>> source = "double f(double *x) { double s = 0; for (int i = 0; i < 999; i++) s += x[i]; return s; }"
    >>> slow = pk.collectors.compile_kernel(source, flags="-O3")  # doctest: +SKIP
    >>> fast = pk.collectors.compile_kernel(source, flags="-O3 -ffast-math")  # doctest: +SKIP
    >>> pk.compare(slow, fast, np.ones(999)).verdict  # doctest: +SKIP
    'faster'
    """
    _check(a, b, processes, rounds, confidence, least)
    with tempfile.TemporaryDirectory(prefix="perfkit-compare-") as scratch:
        folder = Path(scratch)
        with warnings.catch_warnings(record=True) as raised:
            warnings.simplefilter("always")
            told, other = (described(kernel, arguments, folder) for kernel in (a, b))
        notes = list(dict.fromkeys(str(one.message) for one in raised))
        for note in notes:  # also where what they tell of ends the process
            warnings.warn(note, PerfkitWarning, stacklevel=2)
        if other != told:
            raise SettingError(f"{a.name} and {b.name} take numbers of different types: one call cannot serve both")
        specification = {
            "timer": str(build_timer(folder)),
            "name": f"{a.name} or {b.name}" if a.name != b.name else f"{a.name} of A or of B",
            "sides": [_side(kernel, folder / f"{k}.so") for k, kernel in enumerate((a, b))],
            "arguments": told,
            "names": [f"{kernel.name} ({side})" for kernel, side in ((a, "A"), (b, "B"))],
            "turn": str(folder / "turn"),
            "processor": min(os.sched_getaffinity(0)) if processor is None else processor,
            "output": str(folder / "ticks.npz"),
            "processes": processes,
            "rounds": rounds,
            "patience": patience,
            "seconds": _SECONDS,
            "timeout": timeout,
            "seed": seed,
            "apart": apart,
        }
        (folder / "turn").write_bytes(bytes(1))
        found = in_measuring_process(f"{__name__}:_measure", specification, timeout)
    link = link_cycles(found["pairs"])
    ticks, process, calls = found["ticks"], found["process"], found["calls"]
    fence = fence_cycles(found, link)
    alone, in_row = (
        by_process(_judged(found[name], link), found[f"{name}_process"], calls, added, fewest=2)[0]
        for name, added in (("alone", fence), ("in_row", 0.0))
    )
    grain = _grain(float(found["step"]), ticks)
    judged = _judged(ticks, link)
    waited, own = ticks[..., _SAMPLE], ticks[..., _SAMPLE + 1 :]
    table, quiet = by_process(judged, process, calls, fence if apart else 0.0, grain=grain, before=(own, waited))
    longer = _disturbed(table, calls) if len(table) else None
    if longer is not None:
        table, quiet = by_process(judged, process, calls, fence if apart else 0.0, lowest=longer)
    if len(table) < _PROCESSES:
        why = (
            _WAITS
            if np.mean(ticks[..., 0] == 0) > 0.5
            else "this machine is too busy, or its clock rate changes too often, to compare"
        )
        why += "; try again on a quieter machine, with shorter calls, or with more patience (--patience 60)"
        shares = [share_waited(waited[:, k]) for k in range(2)]
        if max(shares) > _GIVES_WAY:
            gives = [f"{_names(a, b)[k]} gives the processor up in {shares[k]:.0%} of its rounds" for k in range(2)]
            gave = " and ".join(one for one, share in zip(gives, shares, strict=True) if share > _GIVES_WAY)
            why = f"{gave}: waiting for a process, a file, a lock or a clock is no time that cycles measure"
        raise UnavailableError(f"only {len(table)} of {processes} processes had {_FEWEST} steady rounds: {why}")
    a_call, may_be_off = _alone(alone, in_row, table)
    result = KernelComparison(
        names=_names(a, b),
        builds=(_build(a), _build(b)),
        table=table,
        confidence=confidence,
        least=least,
        quiet=quiet,
        calls=int(calls.max()),
        apart=apart,
        alone=a_call,
        alone_off=may_be_off,
        called=(_call(a, arguments), _call(b, arguments)),
        host=processor_name(),
        date=now(),
        grain=grain,
        asked=processes,
        start=int(found["start"]),
        disturbed=longer is not None,
        before=_before(found, link, table, fence if apart else 0.0) if longer is None else None,
    )
    starting = [name for kernel, name in zip((a, b), result.names, strict=True) if starts_threads(kernel.path)]
    later = [_ONE_PROCESSOR + _LOCKED.format(starting[0]) * (len(starting) == 1)] if starting else []
    later += filter(None, map(goes_by_time, (a, b), result.names))
    later += filter(None, map(no_work, (a, b), result.names, result.cycles))
    later += filter(None, map(_modes_changed, result.names, found["control"].tolist()))
    # Whether the rounds were quiet is a part of the result.
    for note in later if quiet else [_BUSY.format(result.busy_share), *later]:
        warnings.warn(note, PerfkitWarning, stacklevel=2)
    return replace(result, notes=(*notes, *later))


def _modes_changed(name: str, bits: list[int]) -> str:
    """Say which modes of floating-point arithmetic a kernel changed, from the bits of the control words."""
    what = [mode for at, mask, mode in _MODES if bits[at] & mask]
    if not what:
        return ""
    return (
        f"{name} sets how the processor computes with floating-point numbers ({', '.join(what)}), when it is loaded or "
        "in its calls. Here each kernel has only what it sets itself; in one program it would hold for both"
    )


def _samples(rounds: NDArray[np.int64]) -> NDArray[np.int64]:
    return rounds[..., :_SAMPLE].reshape(-1, _SAMPLE)


def _judged(rounds: NDArray[np.int64], link: int) -> Judged:
    return judge(_samples(rounds), link)


def _before(
    found: dict[str, NDArray[Any]], link: int, table: "pd.DataFrame", fence: float
) -> tuple[float, float] | None:
    """Return how many times as long a and b took once the other was loaded and called in their process, than before.

    Each within the processes in which it was loaded first: what four of five exceed; 1 where these do not agree.
    None where too few processes tell.
    """
    ratios = []
    for k, name in enumerate(("cycles_a", "cycles_b")):
        judged = _judged(found[f"first_{k}"], link)
        process = np.repeat(found[f"first_{k}_process"], 2)
        cycles = np.where(judged.quiet | judged.busy, judged.cycles, np.nan) / found["calls"][k] - fence
        beside = table.set_index("process")[name]
        each = [
            _times(float(np.nanmedian(cycles[process == number])), float(beside[number]))
            for number in np.unique(process)
            if number in beside.index and np.isfinite(cycles[process == number]).any()
        ]
        if len(each) < _FEW_FIRST:
            return None
        # What nearly all processes agree on: of two states that come and go, nothing.
        low, high = np.quantile(each, _AGREE)
        ratios.append(float(low) if low > 1 else float(high) if high < 1 else 1.0)
    return ratios[0], ratios[1]


def _times(before: float, beside: float) -> float:
    """Return how many times as long a call takes; 1 where it is cycles that the loop around the calls may add."""
    return 1.0 if abs(beside - before) <= FENCE else beside / max(before, 1.0)


def _grain(step: float, ticks: NDArray[np.int64]) -> float:
    """Return by how much the ratio of two readings may be off for the counter's steps; 0 where it has none."""
    return 2 * step / max(float(np.median(ticks[..., 3])), 1.0) if step > 2 and ticks.size else 0.0


def _disturbed(table: "pd.DataFrame", calls: NDArray[np.int64]) -> int | None:
    """Return which kernel's samples (0: a) last so long that nearly all are interrupted, where the other's do not."""
    each = table[["cycles_a", "cycles_b"]].median().to_numpy() * calls
    return int(each.argmax()) if each.max() > max(_INTERRUPTED, _ALIKE * each.min()) else None


def _calls(cycles: NDArray[np.float64]) -> list[int]:
    """Return how many calls of a and of b, which take so many cycles, make a sample.

    As many of both as the shorter one needs, so that nothing but the kernels differs. A kernel that takes more than
    `_ALIKE` times as long is called less often: its samples would last milliseconds, which something interrupts.
    """
    shorter = float(cycles.min())
    return [calls_per_sample(shorter if each <= _ALIKE * shorter else float(each)) for each in cycles]


def _enough(tried: Callable[[list[int]], NDArray[np.float64]]) -> list[int]:
    """Return how many calls of a and of b make a sample, from the cycles of trials with so many of each."""
    return until_enough([1, 1], lambda calls: _calls(np.median(tried(calls).reshape(-1, 2), axis=0) / calls))


def _alone(
    alone: "pd.DataFrame", in_row: "pd.DataFrame", table: "pd.DataFrame"
) -> tuple[tuple[float, float] | None, float]:
    """Return the cycles of a call alone, of a and of b, from those in a row and by how much it takes longer.

    And how far the logarithm of the ratio of the two may be off: five standard errors of the median of the processes.

    Within each process: where processes differ by more than the overlap, medians of each would be of other processes.
    Longer than calls in a row before them and behind them: else calls change.
    """
    if not len(alone) or not len(in_row):
        return None, np.inf
    both = alone.merge(table, on="process", suffixes=("", "_before")).merge(
        in_row, on="process", suffixes=("", "_behind")
    )
    if not len(both):
        return None, np.inf
    longer = [
        (both[name] / both[[f"{name}_before", f"{name}_behind"]].max(axis=1)).to_numpy()
        for name in ("cycles_a", "cycles_b")
    ]
    moved = np.log(longer[1] / longer[0])
    off = np.abs(moved - np.median(moved))
    error = _MEDIANS_ERROR * float(np.median(off)) / np.sqrt(len(moved)) if len(moved) >= _PROCESSES else np.inf
    a, b = mean_cycles(table)
    return (a * float(np.median(longer[0])), b * float(np.median(longer[1]))), _SURE * error


def by_process(
    judged: Judged,
    process: NDArray[np.int64],
    calls: int | NDArray[np.int64],
    fence: float = 0.0,
    fewest: int = _FEWEST,
    grain: float = 0.0,
    lowest: int | None = None,
    before: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None,
) -> tuple["pd.DataFrame", bool]:
    """Return one row per process that has enough rounds, and whether only quiet rounds count.

    Parameters
    ----------
    judged
        Of the samples, two in a row per round: of a and of b.
    process : (rounds,) int64
        Which process each round was made in.
    calls
        Calls timed as one, of both or of each.
    fence
        Cycles that what keeps calls apart added to each.
    fewest
        Rounds that a process needs.
    grain
        By how much the counter's steps may move a ratio: the figures are means of what lies so near the median.
    lowest
        A kernel (0: a) whose figures are those of its lowest round, as nearly all are interrupted.
    before : (rounds, 2, k) int64 and (rounds, 2) int64, optional
        Ticks of each sample without what others had of the processor, and of what was called before it, as far as
        there was something; and who waited: `rare_calls`.
    """
    pd = of_extra("pandas")

    cycles = np.maximum(judged.cycles.reshape(-1, 2) / calls - fence, 1.0)
    still, awake = judged.quiet.reshape(-1, 2).all(axis=1), judged.busy.reshape(-1, 2).any(axis=1)
    steady = (judged.quiet | judged.busy).reshape(-1, 2).all(axis=1)
    own, ready, waited = np.zeros(cycles.shape), np.zeros((*cycles.shape, 0)), np.zeros(cycles.shape, dtype=np.int64)
    if before is not None and np.isfinite(judged.rates).any():
        all_ticks, waited = before
        known = np.isfinite(judged.rates)  # beside a steady clock
        rates = np.where(known, judged.rates, np.median(judged.rates[known]))
        took = np.maximum(all_ticks / rates.reshape(-1, 2, 1) / np.reshape(calls, (1, -1, 1)) - fence, 1.0)
        took *= all_ticks > 0
        own, ready = took[..., 0], took[..., 1:]
    rows: dict[bool, list[dict[str, Any]]] = {True: [], False: []}
    for number in np.unique(process):
        mine = process == number
        for quiet, counts in ((True, still & mine), (False, steady & mine)):
            if np.count_nonzero(counts) < fewest:
                continue
            a, b = (one.min() if k == lowest else _middle(one, grain) for k, one in enumerate(cycles[counts].T))
            ratio = _middle(cycles[counts, 1] / cycles[counts, 0], grain) if lowest is None else b / a
            rows[quiet].append(
                {
                    "process": int(number),
                    "cycles_a": float(a),
                    "cycles_b": float(b),
                    "ratio": float(ratio),
                    **_of_all(ready[mine], cycles[mine], own[mine], waited[mine], counts[mine]),
                    "rounds": int(np.count_nonzero(counts)),
                    "busy": int(np.count_nonzero(awake & steady & mine)),
                    "rejected": int(np.count_nonzero(~steady & mine)),
                }
            )
    quiet = len(rows[True]) >= max(_PROCESSES, len(np.unique(process)) // 3)
    return pd.DataFrame(rows[quiet]), quiet


def _of_all(
    before: NDArray[np.float64],
    cycles: NDArray[np.float64],
    own: NDArray[np.float64],
    waited: NDArray[np.int64],
    counts: NDArray[np.bool_],
) -> dict[str, float]:
    """Return the mean of all calls of each kernel, what rare ones add, its share of rounds that wait, and two tenths.

    A tenth of the rounds takes less than `low`, a tenth more than `high`. The longer a call, the more seldom it counts:
    of long ones all rounds say this, by their own time.
    """
    found: dict[str, float] = {}
    # Both in one way, else their ratio has what interrupts add to one of them.
    long = np.median(cycles[counts], axis=0).max() > SELDOM_ALONE and own.all()
    for k, name in enumerate("ab"):
        of, who, which = cycles[:, k], waited[:, k], counts
        if long:
            of, who, which = own[:, k], waited[:, k] & ITSELF, np.full(len(counts), True)
        rare, mean, looked = added_by_rare(before[:, k], of, who, which)
        low, high = np.quantile(of[which], [0.1, 0.9])
        found |= {f"mean_{name}": mean, f"rare_{name}": rare, f"waited_{name}": share_waited(waited[:, k])}
        found |= {f"low_{name}": float(low), f"high_{name}": float(high), f"samples_{name}": looked}
    return found


def _middle(values: NDArray[np.float64], grain: float) -> float:
    """Return the median; of quantised readings, the geometric mean of those within `grain` of it."""
    logs = np.log(values)
    near = np.abs(logs - np.median(logs)) <= grain
    return float(np.exp(logs[near].mean() if grain > 0 and near.any() else np.median(logs)))


def _check(a: "Kernel", b: "Kernel", processes: int, rounds: int, confidence: float, least: float) -> None:
    from perfkit.collectors.kernels import expect_kernel

    for kernel in (a, b):
        expect_kernel(kernel, "compare")
        if kernel.isa != "x86-64" or os.uname().machine != "x86_64":
            raise UnavailableError(
                f"comparing needs an x86-64 machine and kernels (found {os.uname().machine} and {kernel.isa})"
            )
    if processes < _PROCESSES:
        raise SettingError(f"processes must be {_PROCESSES} or more, found {processes}")
    if rounds < 2 * _FEWEST:
        raise SettingError(f"rounds must be {2 * _FEWEST} or more, found {rounds}")
    if not 0.5 <= confidence < 1:
        raise SettingError(f"confidence must lie between 0.5 and 1, found {confidence}")
    if not 0 <= least < 1:
        raise SettingError(f"least must lie between 0 and 1, found {least}")
    _check_libraries(a, b)


def _check_libraries(a: "Kernel", b: "Kernel") -> None:
    """Refuse two kernels that ask for different libraries of one name: a process loads the first of them only."""
    found = []
    for kernel in (a, b):
        elf = elf_as_it_is(kernel.path)
        places = [Path(folder, name) for name in elf.needed for folder in elf.run_paths]
        found.append({place.name: place for place in reversed(places) if place.is_file()})
    for name in sorted(found[0].keys() & found[1].keys()):
        one, other = found[0][name], found[1][name]
        if not one.samefile(other) and one.read_bytes() != other.read_bytes():
            raise SettingError(
                f"{a.name} needs {one}, and {b.name} needs {other}: a process loads only the first library of a name. "
                "Give one of them another name (-Wl,-soname), or link it in"
            )


def _side(kernel: "Kernel", copy: Path) -> dict[str, Any]:
    """Describe a kernel; a copy of its library, because a library is loaded only once, whatever its name.

    In the copy no variable is one of both libraries (`ElfFile.without_unique`).
    """
    copy.write_bytes(elf_as_it_is(kernel.path).without_unique())
    return {"library": str(copy), "function": kernel.function, "setup": kernel.has_setup}


def _build(kernel: "Kernel") -> str:
    return f"{kernel.compiler} {' '.join(kernel.flags)}".strip()


def _call(kernel: "Kernel", arguments: tuple[Any, ...]) -> str:
    """Return a call as text, arrays by type and size, as on a command line."""
    return f"{named_as(kernel.function)}({', '.join(map(_argument, arguments))})"


def _argument(value: Any) -> str:
    if not isinstance(value, np.ndarray):
        return str(value)
    order = " ascending" if value.size > 1 and value.dtype.kind in "iuf" and (np.diff(value.ravel()) > 0).all() else ""
    return f"{value.dtype.str.lstrip('<>|=')}[{'x'.join(map(str, value.shape))}]{order}"


def _names(a: "Kernel", b: "Kernel") -> tuple[str, str]:
    """Return two names that differ: by their files' paths and by their functions, or else by the sides."""
    names = [a.name, b.name]
    if a.name == b.name and a.file != b.file and all(_stays(kernel) for kernel in (a, b)):
        parts = [kernel.file.absolute().parts for kernel in (a, b)]
        depth = next(n for n in range(1, 1 + max(map(len, parts))) if parts[0][-n:] != parts[1][-n:])
        names = ["/".join(each[-depth:]) for each in parts]
    if (names[0] == names[1] or a.name == b.name) and a.function != b.function:
        names = [f"{name}:{named_as(kernel.function)}" for name, kernel in zip(names, (a, b), strict=True)]
    return (names[0], names[1]) if names[0] != names[1] else (f"{names[0]} (A)", f"{names[1]} (B)")


def _stays(kernel: "Kernel") -> bool:
    """Whether a kernel's file is one of the user's, and not a temporary one: of a text, or out of a commit."""
    return kernel.file.is_file() and not kernel.file.is_relative_to(kernel.folder)


def _measure(argument: str) -> None:
    """Be the measuring process: start one process after another that loads both kernels and samples them in turns."""
    spec = json.loads(argument)
    timer, pairs, link = started(spec)
    of = ("ticks", "alone", "in_row", "first_0", "first_1")
    parts: dict[str, list[NDArray[np.int64]]] = {name: [] for name in of}
    numbers: dict[str, list[NDArray[np.int64]]] = {name: [] for name in of}
    timer.perfkit_step.restype = ctypes.c_double
    fenced = fenced_calls(timer)
    spec["calls"], changed = None, np.zeros((2, 2), dtype=np.int64)
    for number in range(spec["processes"] if link else 0):  # without a link, the caller says why
        found = in_own_place(
            timer, number, partial(_one_process, timer, link, number, spec), f"{spec['output']}.{number}.npy"
        )
        spec["calls"] = found[0, :, 0].tolist()
        alone, first, side, spec["start"] = found[0, 0, 1:5].tolist()
        spec["rounds"] = int(found[0, 1, 1])
        changed |= found[0, :, 5:7]
        ends = [1, 1 + alone, 1 + 2 * alone, 1 + 2 * alone + first, len(found)]
        for name, begin, end in zip(("alone", "in_row", f"first_{side}", "ticks"), ends, ends[1:], strict=False):
            parts[name].append(found[begin:end])
            numbers[name].append(np.full(end - begin, number))
    none, no_number = np.zeros((0, 2, _ROW), dtype=np.int64), np.zeros(0, dtype=np.int64)
    arrays: dict[str, Any] = {name: np.concatenate([none, *parts[name]]) for name in of} | fenced
    arrays |= {f"{name}_process".removeprefix("ticks_"): np.concatenate([no_number, *numbers[name]]) for name in of}
    np.savez(
        spec["output"], pairs=pairs, calls=spec["calls"] or [1, 1], start=spec.get("start", 0),
        step=timer.perfkit_step(), control=changed, **arrays,
    )  # fmt: skip


def _one_process(timer: ctypes.CDLL, link: int, number: int, spec: dict[str, Any]) -> NDArray[np.int64]:
    """Return the rounds of one process, (rounds, 2, `_ROW`), behind a row of numbers and three other kinds of rounds.

    The numbers: how many calls of a and of b are timed as one; how many rounds are of calls alone and, behind them,
    in a row again (none where all are alone, or where a sample is one call anyway); how many are of the kernel that
    was loaded first, before the other was there (none in the first process, which finds how many calls make a
    sample); which kernel that is (0: a); how many calls of each the processes make at most before those that count:
    how many, each draws; how many rounds each process makes, fewer of long calls; and of each kernel which bits it
    changed of the control words of SSE and x87.
    """
    import time

    random = np.random.default_rng([spec["seed"], number])
    # Half of the processes swap the kernels in everything: order of loading, of setting up, addresses.
    swap = -1 if random.random() < 0.5 else 1
    sides: list[Callee] = []
    plain, control = np.zeros(2, dtype=np.uint32), np.zeros((2, 2), dtype=np.uint32)
    timer.perfkit_control(pointer(plain))
    places = np.array([one.ctypes.data for one in control])  # each kernel's own, wherever it is called
    labels = np.array([1, 2][::swap], dtype=np.uint8)
    turn = np.memmap(spec["turn"], dtype=np.uint8, mode="r+", shape=(1,))
    first = np.zeros((0, 2, _ROW), dtype=np.int64)
    for k, side in enumerate(spec["sides"][::swap]):  # with their arrays at the same places of their pages
        # A file has the same pages of memory in all processes: where these lie would be one effect of all of them.
        library = shutil.copyfile(side["library"], f"{side['library']}.{number}.so")
        sides.append(loaded(library, side["function"], side["setup"], spec["arguments"], [spec["seed"], number, 1]))
        Path(library).unlink()
        timer.perfkit_control(pointer(control[k]))
        timer.perfkit_set_control(pointer(plain))
        if not k and spec["calls"] is not None:  # before the other one is there
            alike = (np.repeat(labels[:1], 2), turn, np.repeat(places[:1], 2))
            calls = [spec["calls"][::swap][0]] * 2
            first = _rounds(timer, sides * 2, random, calls, _FIRST, spec["apart"], alike)
    start = 0

    def sampler(calls: list[int], rounds: int, apart: bool = spec["apart"]) -> NDArray[np.int64]:
        return _rounds(timer, sides, random, calls[::swap], rounds, apart, (labels, turn, places), start)[:, ::swap]

    if spec["calls"] is None:
        calls = _enough(lambda calls: rough_cycles(_samples(sampler(calls, _TRIAL)), link))
        began = time.monotonic()
        trial = rough_cycles(_samples(sampler(calls, _TRIAL)), link).reshape(-1, 2)
        took = (time.monotonic() - began) / _TRIAL
        spec |= {"calls": calls, "start": int(_START / (np.median(trial, axis=0) / calls).max())}
        room = spec["seconds"] / (spec["processes"] * took)
        spec["rounds"] = min(spec["rounds"], max(2 * _FEWEST, int(room)))  # of long calls fewer
        _expect_time(spec, took)
    start = int(random.integers(0, spec["start"] + 1))
    began = time.monotonic()
    found = sampler(spec["calls"], spec["rounds"])
    took = (time.monotonic() - began) / spec["rounds"]
    until = time.monotonic() + spec["patience"] / spec["processes"]  # beside what measuring takes on a quiet core
    while (left := until - time.monotonic()) > took:  # a round that is begun is not cut short
        quiet = _judged(found, link).quiet.reshape(-1, 2).all(axis=1)
        if np.count_nonzero(quiet) >= spec["rounds"] // 2:
            break
        time.sleep(0.01)
        found = np.concatenate([found, sampler(spec["calls"], min(spec["rounds"], int(left / took)))])
    alone = in_row = found[:0]
    if max(spec["calls"]) > 1 and not spec["apart"]:
        alone, in_row = sampler(spec["calls"], ALONE, apart=True), sampler(spec["calls"], ALONE)
    numbers = np.zeros((1, 2, _ROW), dtype=np.int64)
    numbers[0, :, 0] = spec["calls"]
    numbers[0, 0, 1:5] = len(alone), len(first), int(swap < 0), spec["start"]
    numbers[0, 1, 1] = spec["rounds"]
    numbers[0, :, 5:7] = (control ^ plain)[::swap]
    return np.concatenate([numbers, alone, in_row, first, found])


def _expect_time(spec: dict[str, Any], took: float) -> None:
    """End where all processes will take longer than they are given, with a round taking so many seconds."""
    expect_time(
        f"a round of both kernels takes {took:.2g} s, so that {spec['processes']} processes of {spec['rounds']} rounds",
        spec["processes"] * spec["rounds"] * took,
        spec["timeout"],
        f"give it more time (--timeout, timeout=), fewer processes (--processes; at least {_PROCESSES}), or shorter "
        "calls",
    )


def _rounds(
    timer: ctypes.CDLL,
    sides: Sequence[Callee],
    random: np.random.Generator,
    calls: list[int],
    rounds: int,
    apart: bool,
    beside: tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.int64]],
    start: int = 0,
) -> NDArray[np.int64]:
    order = random.integers(0, 4, rounds).astype(np.uint8)
    out = np.zeros((rounds, 2, _ROW), dtype=np.int64)

    def both(values: list[Any]) -> Any:
        return (ctypes.c_void_p * 2)(
            *(ctypes.cast(value, ctypes.c_void_p).value if value else None for value in values)
        )

    timer.perfkit_pairs(
        both([side.function for side in sides]),
        both([side.integers for side in sides]),
        both([side.floats for side in sides]),
        (ctypes.c_long * 2)(*calls),
        ctypes.c_long(rounds),
        pointer(order),
        pointer(out),
        both([side.setup for side in sides]),
        ctypes.c_long(apart),
        ctypes.c_long(start),
        *(pointer(one) for one in beside),
    )
    return out
