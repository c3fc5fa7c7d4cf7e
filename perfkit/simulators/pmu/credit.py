"""Which class of resources deserves how much of the speedup that a better core would give: Shapley credit.

Doubling one resource says nothing where two bind together: each alone gives nothing, both give everything. So classes
of resources are doubled in random orders, one after the other. A class's credit is the mean of what it adds to the
logarithm of the speedup when its turn comes (L. S. Shapley, 1953), over orders that are drawn in pairs, each with its
reverse. The credits of a run sum to the logarithm of the speedup by doubling everything.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from perfkit.machine.classes import classes_of
from perfkit.machine.core import Microarchitecture
from perfkit.simulators.gus.gus import Gus
from perfkit.trace.trace import Trace


@dataclass(frozen=True)
class Credit:
    """Of one run: what each class of resources is worth.

    Attributes
    ----------
    credit : Series
        Shapley credit of each class (index) in natural logarithms of speedup.
    alone : Series
        Speedup by doubling the class alone, f(c) / f(2 c) - 1.
    """

    credit: pd.Series
    alone: pd.Series


class Variants:
    """A core with sets of its classes of resources doubled; made once for each set.

    Parameters
    ----------
    core : Microarchitecture
        The core.
    orders : int
        Orders of the classes, an even number: half of them drawn, half their reverses.
    seed : int
        Of the orders.
    """

    def __init__(self, core: Microarchitecture, orders: int = 8, seed: int = 0) -> None:
        self.core, self.classes = core, classes_of(core)
        names = list(self.classes)
        rng = np.random.default_rng(seed)
        drawn = [rng.permutation(len(names)) for _ in range(orders // 2)]
        self.orders = [order for one in drawn for order in (one, one[::-1])]
        prefixes = [frozenset(order[:k].tolist()) for order in self.orders for k in range(len(names) + 1)]
        self.sets = list(dict.fromkeys([frozenset(), *(frozenset([k]) for k in range(len(names))), *prefixes]))
        self.cores = [self._doubled([names[k] for k in sorted(one)]) for one in self.sets]

    def _doubled(self, names: list[str]) -> Microarchitecture:
        better = self.core
        for name in names:
            for resource in self.classes[name]:
                better = better.scaled(resource, 2.0)
        return better

    def credit(self, gus: Gus, trace: Trace) -> Credit:
        """Simulate a trace on all of them and share the speedup out."""
        return self.shared(gus.cycles(trace, self.cores))

    def shared(self, cycles: NDArray[np.float64]) -> Credit:
        """Return the credits where the sets' cycles are known."""
        names = list(self.classes)
        gain = dict(zip(self.sets, np.log(cycles[0] / cycles), strict=True))
        total = np.zeros(len(names))
        for order in self.orders:
            for k, name in enumerate(order):
                total[name] += gain[frozenset(order[: k + 1].tolist())] - gain[frozenset(order[:k].tolist())]
        alone = [np.expm1(gain[frozenset([k])]) for k in range(len(names))]
        return Credit(pd.Series(total / len(self.orders), index=names), pd.Series(alone, index=names))
