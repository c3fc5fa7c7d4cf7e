"""Pictures of a measured core: which ports its forms use, and its latencies beside a known core's."""

from typing import TYPE_CHECKING, Any

import numpy as np

from perfkit.plots.style import SERIES, axes_or_new, plain_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from perfkit.machine.core import Microarchitecture

_MOST = 14  # port groups in the picture


def plot_port_map(core: "Microarchitecture", ax: Any = None) -> "Axes":
    """Draw which ports the measured forms use: a row for each group of ports, a mark for each port in it.

    Beside each row is the number of forms whose narrowest group it is; groups with few forms are left out.

    Parameters
    ----------
    core : Microarchitecture
        A core that ``perfkit calibrate --full`` measured.
    ax : matplotlib axes, optional
        Where to draw.
    """
    axes = axes_or_new(ax, 7, 4.4)
    counts: dict[str, int] = {}
    for form in core.forms.values():
        uses = form.row.uses or {}
        if form.source == "measured" and uses:
            narrowest = min(uses, key=lambda name: (len(core.resource(name).units), name))
            counts[narrowest] = counts.get(narrowest, 0) + 1
    rows = sorted(counts, key=lambda name: -counts[name])[:_MOST]
    order = sorted({unit for name in rows for unit in core.resource(name).units}, key=lambda unit: (len(unit), unit))
    rows.sort(key=lambda name: [order.index(unit) for unit in core.resource(name).units])
    for k, name in enumerate(rows):
        places = sorted(order.index(unit) for unit in core.resource(name).units)
        axes.plot(places, np.full(len(places), k), "o-", color=SERIES[0], markersize=7)
    axes.set_yticks(range(len(rows)), [f"{counts[name]:,} forms" for name in rows])
    axes.set_xticks(range(len(order)), order, rotation=45 if max(map(len, order), default=0) > 4 else 0)
    axes.set(ylim=(len(rows) - 0.5, -0.5), xlabel="port", title="Which ports the measured forms use")
    axes.grid(axis="x", alpha=0.3)
    return axes


def plot_latencies(core: "Microarchitecture", known: "Microarchitecture", ax: Any = None) -> "Axes":
    """Draw the latencies of the memory levels and of forwarding of two cores, side by side.

    Parameters
    ----------
    core, known : Microarchitecture
        The measured core, and the one to compare it with.
    ax : matplotlib axes, optional
        Where to draw.
    """
    axes = axes_or_new(ax, 7, 3.4)
    names = [
        name
        for name in ("L1_latency", "store_forward_latency", "misprediction_penalty", "L2_latency", "L3_latency")
        if name in core.resources and name in known.resources
    ]
    names += ["memory_latency"]
    places = np.arange(len(names))
    for k, (one, shift) in enumerate(((core, -0.2), (known, 0.2))):
        values = [one.value(name) for name in names]
        bars = axes.barh(places + shift, values, height=0.38, color=SERIES[k], label=one.title)
        axes.bar_label(bars, [f"{value:.3g}" for value in values], padding=3, fontsize=8)
    axes.set_yticks(places, [name.replace("_", " ") for name in names])
    axes.set(xscale="log", xlabel="cycles", ylim=(len(names) - 0.5, -0.5), title="Latencies")
    axes.set_xlim(right=4 * max(one.value(name) for one in (core, known) for name in names))
    plain_ticks(axes)
    axes.legend(fontsize=8, frameon=False)
    return axes
