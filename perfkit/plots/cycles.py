"""Pictures of what was timed on this host: cycles of a kernel, and the figures of a calibration."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from perfkit.plots.style import ACCENT, SERIES, axes_or_new

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from perfkit.collectors.host.calibrate import Calibration


def plot_cycles(samples: NDArray[np.float64], cycles: float, name: str, ax: Any = None) -> "Axes":
    """Draw the distribution of measured cycles per call, and the quantile that is quoted."""
    axes = axes_or_new(ax, 7, 3.2)
    axes.hist(samples, bins=min(60, max(5, len(samples) // 5)), color=SERIES[0])
    axes.axvline(cycles, color=ACCENT, label=f"{cycles:,.2f} cycles")
    axes.set(xlabel="cycles per call (measured)", ylabel="repetitions", title=name)
    axes.legend(fontsize=8, frameon=False)
    return axes


def plot_calibration(calibration: "Calibration", ax: Any = None, *, most: int = 40) -> "Axes":
    """Draw the measured latencies and throughputs of the first ``most`` instruction forms."""
    forms = list(dict.fromkeys([*calibration.latencies, *calibration.throughputs]))
    shown = forms[:most]
    axes = axes_or_new(ax, 7, 1.2 + 0.24 * len(shown))
    at = np.arange(len(shown))[::-1]
    for k, (values, label) in enumerate(
        ((calibration.latencies, "latency"), (calibration.throughputs, "cycles per instruction"))
    ):
        axes.plot([values.get(form, np.nan) for form in shown], at, "os"[k], color=SERIES[k], label=label)
    axes.set_yticks(at, shown, fontsize=7)
    axes.set(xlabel="cycles (measured)", title=calibration.host.get("processor", ""))
    axes.set_xlim(left=0)
    axes.legend(fontsize=8, frameon=False)
    return axes
