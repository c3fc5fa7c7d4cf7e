"""Huge pages tried: the same calls timed with and without them, where address translation is what is waited for."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from perfkit.collectors.tracer.timed import CallTimes
from perfkit.diagnosis import words
from perfkit.errors import PerfkitError
from perfkit.trace.code import NO_ACCESS

if TYPE_CHECKING:
    from perfkit.diagnosis.diagnosis import Diagnosis
    from perfkit.trace.trace import Trace

TRANSLATION = ("page_walk_latency", "second_tlb_latency")
_SETTING = Path("/sys/kernel/mm/transparent_hugepage/enabled")
_TUNABLES, _TUNABLE = "GLIBC_TUNABLES", "glibc.malloc.hugetlb"
_SINCE = (2, 35)  # version of glibc that knows it
_ROUNDS = 4
_ENTRIES = 64  # of the first TLB of a core whose file says nothing
_TELLING = 1.1  # times as fast, from which it is told where nothing said that translation is what is waited for
_MEMORY = (
    "memory_latency",
    "memory_bandwidth",
    "line_fill_buffers",
    "L3_latency",
    "L3_bandwidth",
    "L2_latency",
    "L2_bandwidth",
)


def tried(once: Callable[[dict[str, str]], CallTimes], first: int, last: int) -> float:
    """Return how many times as fast calls are with huge pages for what `malloc` gives; 0 where that cannot be tried.

    Parameters
    ----------
    once : callable
        Times the calls in a run with some variables set in its environment.
    first, last : int
        The calls that count, from 0, without the last.
    """
    if not _can():
        return 0.0
    least = [np.inf, np.inf]
    others = [one for one in os.environ.get(_TUNABLES, "").split(":") if one and not one.startswith(f"{_TUNABLE}=")]
    with_huge = {_TUNABLES: ":".join([*others, f"{_TUNABLE}=1"])}
    without = {_TUNABLES: ":".join(others)}
    with suppress(PerfkitError):
        for turn in range(_ROUNDS):  # by turns: what else runs on the machine meets both
            for k, environment in enumerate((without, with_huge)):
                times = once(environment)
                if len(times.ticks) < last:
                    return 0.0
                least[k] = min(least[k], float(times.cycles[first:last].sum()))
            if turn and least[0] < _TELLING * least[1]:
                break
    return least[0] / least[1] if np.isfinite(least).all() and least[1] else 0.0


def touched_pages(trace: "Trace") -> int:
    """Return how many pages of 4 KiB the recorded accesses touch."""
    return len(np.unique(trace.addresses[trace.addresses != NO_ACCESS] >> np.uint64(12)))


def may_help(answer: "Diagnosis") -> bool:
    """Whether huge pages are worth trying: the bottleneck is translation, or may be.

    Where more pages are touched than the first TLB holds, and memory and its caches hold the calls back, or the model
    is far below what was measured: it takes page walks that do not depend on each other to cost hardly anything.
    """
    if answer.bottleneck in TRANSLATION:
        return True
    entries = answer.result.settings.core.feature("tlb_entries", _ENTRIES)
    is_below = answer.apart is not None and answer.apart < -words.FAR
    return (is_below or answer.bottleneck in _MEMORY) and touched_pages(answer.result.trace) > entries


def told(ratio: float, *, always: bool) -> str:
    """Say what came of it; "" where it was not tried, or brought nothing (unless `always`)."""
    if not ratio or (ratio < _TELLING and not always):
        return ""
    return (
        f"Huge pages for what malloc gives ({_TUNABLES}={_TUNABLE}=1) were tried: the same calls "
        f"were {ratio:.2f} times as fast (measured)"
    )


def _can() -> bool:
    """Whether the kernel gives huge pages to those who ask, and glibc asks."""
    try:
        gives = "[never]" not in _SETTING.read_text()
        version = tuple(map(int, (os.confstr("CS_GNU_LIBC_VERSION") or "").split()[-1].split(".")[:2]))
    except (OSError, ValueError, IndexError):
        return False
    return gives and version >= _SINCE
