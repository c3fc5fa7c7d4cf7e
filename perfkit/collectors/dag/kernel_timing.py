"""Core cycles of a traced kernel's own scalar code on this machine, without hardware counters.

The clock is a chain of dependent multiplications of known length (3 cycles each on x86-64 cores since Nehalem and Zen),
timed just before and after each run of the kernel; where the two differ, the run is rejected. See
`perfkit.collectors.host.true_cycles` for compiled C kernels.
"""

from __future__ import annotations

import ctypes
import math
import platform
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from perfkit.base.results import Kind, Tabled, draw
from perfkit.collectors.dag.kernel_trace import KernelTrace, jit
from perfkit.errors import SettingError, UnavailableError, of_extra

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_SHORTEST = 1e-3  # seconds: below that several calls are timed as one
_LINKS, _UNROLLED, _CYCLES = 640_000, 64, 3
_CHAIN = (
    "define i64 @chain(i64 %n) {\nentry:\n  br label %loop\nloop:\n"
    "  %i = phi i64 [ 0, %entry ], [ %j, %loop ]\n  %x = phi i64 [ 3, %entry ], [ %y, %loop ]\n"
    '  %y = call i64 asm sideeffect "'
    + "imulq $0, $0\\0A" * _UNROLLED
    + '", "=r,0,~{flags}"(i64 %x)\n'
    + f"  %j = add i64 %i, {_UNROLLED}\n  %more = icmp ult i64 %j, %n\n"
    "  br i1 %more, label %loop, label %out\nout:\n  ret i64 %y\n}\n"
)


@dataclass(frozen=True, eq=False, repr=False)
class KernelCycles(Tabled):
    """Measured cycles of a kernel.

    Parameters
    ----------
    name
        The kernel.
    samples
        Cycles of each run that was not rejected.
    rejected
        How many runs were: the clock changed, or something interrupted.
    """

    name: str
    samples: npt.NDArray[np.float64]
    rejected: int

    @property
    def cycles(self) -> float:
        """The tenth percentile of the samples: all disturbances add."""
        return float(np.quantile(self.samples, 0.1))

    @property
    def kind(self) -> Kind:
        """``"measured"``."""
        return "measured"

    def to_frame(self) -> pd.DataFrame:
        """Return one row: kernel, cycles, kept, rejected."""
        pd = of_extra("pandas")

        row = {"kernel": self.name, "cycles": self.cycles, "kept": len(self.samples), "rejected": self.rejected}
        return pd.DataFrame([row])

    def summary(self) -> str:
        """Say how many cycles a run takes, and of how many samples that is."""
        kept = f"tenth percentile of {len(self.samples)} runs, {self.rejected} rejected"
        return f"{self.name}: {self.cycles:,.2f} cycles per run, measured ({kept})"

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the distribution of the samples; return the axes."""
        return draw("cycles:plot_cycles", self.samples, cycles=self.cycles, name=self.name, ax=ax)


def measure_kernel(
    kernel: KernelTrace, repetitions: int = 20, warm: bool = True, tolerance: float = 0.05
) -> KernelCycles:
    """Measure how many core cycles the kernel's code takes on this machine, without recording.

    Parameters
    ----------
    warm
        Run it once before each measured run, so that caches are filled.
    tolerance
        Reject a run whose two clock readings differ by more than this.

    Raises
    ------
    UnavailableError
        If the machine is no x86-64, or so busy that nearly every run was rejected.
    """
    if platform.machine() != "x86_64":
        raise UnavailableError(f"the clock is a chain of x86-64 multiplications; this is {platform.machine()}")
    if repetitions < 1:
        raise SettingError(f"repetitions is at least 1, not {repetitions}")
    engine = jit(_CHAIN)
    chain = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(engine.get_function_address("chain"))
    calls = max(1, math.ceil(_SHORTEST / kernel.seconds(3)))
    found = []
    for _ in range(repetitions):
        before, seconds, after = _rate(chain), kernel.seconds(calls, warm), _rate(chain)
        if abs(before / after - 1) <= tolerance:
            found.append(seconds * (before + after) / 2)
    if len(found) < max(1, repetitions // 10):
        raise UnavailableError(
            f"{repetitions - len(found)} of {repetitions} runs of {kernel.name} were rejected: the machine is too busy "
            "to measure; try again on a quiet one"
        )
    return KernelCycles(kernel.name, np.array(found), repetitions - len(found))


def _rate(chain: Any) -> float:
    """Return core cycles per second now."""
    begin = time.thread_time()
    chain(_LINKS)
    return _LINKS * _CYCLES / (time.thread_time() - begin)
