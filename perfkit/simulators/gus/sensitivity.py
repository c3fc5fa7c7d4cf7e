"""Sensitivity: what the run would cost if one resource were better (Gus, section 3.2).

The speedup of weighting the capacity c of resource r by w is s = f(c) / f(w c) - 1, with f the simulated time. The
resources that give a speedup are the bottlenecks; the others are not worth an effort.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from numbers import Real
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from perfkit.base.results import Kind, Tabled, draw
from perfkit.errors import SettingError, expect, listed, of_extra
from perfkit.machine.core import Microarchitecture
from perfkit.simulators.gus.passes import Progress
from perfkit.trace.trace import Trace

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from perfkit.simulators.gus.gus import Gus


@dataclass(frozen=True, eq=False, repr=False)
class Sensitivity(Tabled):
    """The speedups of a trace on a core.

    Attributes
    ----------
    core : str
        Name of the core.
    cycles : float
        Simulated cycles of the core as it is, f(c).
    weights : tuple of float
        The weights tried.
    resources : tuple of tuple of str
        What was weighted: one resource each, or a pair.
    speedup : (resources, weights) float
        s = f(c) / f(w c) - 1.
    perfect : dict of str to float
        The speedup if branch prediction, the caches or the window of instructions were perfect (`Gus.perfect`), where
        that was asked for.
    """

    core: str
    cycles: float
    weights: tuple[float, ...]
    resources: tuple[tuple[str, ...], ...]
    speedup: NDArray[np.float64]
    perfect: dict[str, float] = field(default_factory=dict)

    @property
    def kind(self) -> Kind:
        """``"simulated"``."""
        return "simulated"

    @property
    def bottleneck(self) -> str:
        """The resource with the largest speedup at the largest weight, or ``""`` where none gives one."""
        best = int(np.argmax(self.speedup[:, -1]))
        return " + ".join(self.resources[best]) if self.speedup[best, -1] > 0 else ""

    def to_frame(self) -> "pd.DataFrame":
        """Return the ranked table: resource, and the speedup of each weight (simulated), best first."""
        pd = of_extra("pandas")

        frame = pd.DataFrame(self.speedup, columns=[f"x{w:g}" for w in self.weights])
        frame.insert(0, "resource", [" + ".join(r) for r in self.resources])
        return frame.iloc[self._ranked()].reset_index(drop=True)

    def _ranked(self) -> NDArray[np.intp]:
        return np.argsort(-self.speedup[:, -1], kind="stable")

    def summary(self) -> str:
        """Say which resource would make the run faster, and by how much."""
        weight, speedup = self.weights[-1], self.speedup[:, -1]
        tried = f"{len(self.resources)} {'pairs of resources' if len(self.resources[0]) > 1 else 'resources'} tried"
        run = f"{self.cycles:,.0f} cycles on {self.core} (simulated)"
        found = [f"{' + '.join(self.resources[k])} {speedup[k]:+z.1%}" for k in self._ranked() if speedup[k] > 0]
        if not found:
            return f"no resource {weight:g} times better makes the run faster; {run}, {tried}"
        return f"gain by {weight:g} times better {listed(found, 5)}\n{run}, {tried}"

    def plot(self, ax: "Axes | None" = None, top: int = 12) -> "Axes":
        """Draw the speedup of each weighted resource as ranked bars; return the axes."""
        return draw("gus:plot_sensitivity", self, top=top, ax=ax)


# Core files have the size of one scheduler for all operations for the extended roofline; Gus has no such thing.
_NOT_MODELLED = ("scheduler",)


def sensitivity(
    gus: "Gus",
    trace: Trace,
    weights: Sequence[float] = (1.1, 1.5, 2.0),
    resources: Sequence[str] | None = None,
    *,
    pairs: bool = False,
    progress: Progress | None = None,
    core: Microarchitecture | None = None,
    perfect: bool = False,
) -> Sensitivity:
    """Return how much faster the trace would run if each resource's capacity were ``weights`` times what it is.

    `GusResult.sensitivity` asks the same of a result.

    Parameters
    ----------
    gus : Gus
        The core and its tables.
    trace : Trace
        What ran.
    weights : sequence of float
        Factors on the capacity, above 0 (above 1: a better machine; a latency is divided by it).
    resources : sequence of str, optional
        Which; by default all of the core that the simulator models.
    pairs : bool
        Weight pairs of resources together: lifting one bottleneck uncovers the next.
    progress : callable, optional
        Called with the passes done and their total.
    core : Microarchitecture, optional
        Weight the resources of this variant of ``gus.core`` (other capacities; caches and instruction table stay).
    perfect : bool
        Simulate perfect branch prediction, caches and window, too (of ``gus.core``; three simulations more).

    Raises
    ------
    SettingError
        No weight, a weight outside 1e-6 to 1e6, an unknown resource.

    Examples
    --------
    >>> trace = pk.datasets.load("traces/fig1a")
    >>> pk.sensitivity(pk.Gus("skylake_x"), trace, (2.0,)).to_frame()["resource"].iloc[0]
    'instruction_latency'
    """
    fits = hasattr(weights, "__iter__") and not isinstance(weights, str | bytes)
    weights = tuple(weights) if fits else weights
    expect(fits and all(isinstance(w, Real) for w in weights), weights, "sensitivity", "weights", "list numbers: [1.5]")
    weights = tuple(float(w) for w in weights)
    if not weights or not all(1e-6 <= w <= 1e6 for w in weights):
        raise SettingError(f"weights are numbers from 1e-6 to 1e6; found {', '.join(map(str, weights)) or 'none'}")
    _expect(gus, "sensitivity")
    base = gus.core if core is None else core
    modelled = (name for name in base.resources if name not in _NOT_MODELLED)
    names = tuple(resources) if resources is not None else tuple(modelled)
    for name in names:
        base.resource(name)
    what = tuple(combinations(names, 2)) if pairs else tuple((name,) for name in names)
    if not what:
        raise SettingError("no resource to weight: name at least one (two for pairs)")
    variants = [base]
    for group in what:
        for w in weights:
            variant = base
            for name in group:
                variant = variant.scaled(name, w)
            variants.append(variant)
    found = gus.cycles(trace, variants, progress=progress)
    speedup = (found[0] / found[1:] - 1.0).reshape(len(what), len(weights))
    better = gus.perfect(trace) if perfect else {}
    scenarios = {name: float(found[0]) / cycles - 1.0 for name, cycles in better.items()}
    return Sensitivity(base.name, float(found[0]), weights, what, speedup, scenarios)


def _expect(gus: "Gus", where: str) -> None:
    expect(hasattr(gus, "core"), gus, where, "the settings of Gus", "make them with perfkit.Gus(core)")


def what_if(
    gus: "Gus",
    trace: Trace,
    capacities: Mapping[str, float],
    weight: float = 2.0,
    resources: Sequence[str] | None = None,
) -> Sensitivity:
    """Return the sensitivity of another core: ``gus.core`` with some capacities multiplied.

    Its ``cycles`` tell what the change is worth, its ``bottleneck`` what holds the run back next. `GusResult.what_if`
    asks the same of a result.

    Parameters
    ----------
    gus, trace, resources
        As for `sensitivity`.
    capacities : mapping of str to float
        Resource -> factor on its capacity (a latency is divided by it).
    weight : float
        The weight of the ranking on the changed core.

    Examples
    --------
    >>> import perfkit as pk
    >>> pk.what_if(gus, trace, {"instruction_latency": 2}).bottleneck  # doctest: +SKIP
    'instruction_latency'
    """
    _expect(gus, "what_if")
    core = gus.core
    how = 'give factors by resource: {"front_end": 2}'
    expect(isinstance(capacities, Mapping), capacities, "what_if", "a mapping (capacities)", how)
    for name, factor in capacities.items():
        core = core.scaled(name, factor)
    return sensitivity(gus, trace, (weight,), resources, core=core)
