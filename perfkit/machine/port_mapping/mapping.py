"""Map a form on the ports of the basis, from its time alone and in mixtures with basis forms, by linear programming."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from perfkit.machine.port_mapping.families import Ports, family, loads

SINGLE = 0.015
"""Mean relative error up to which one group of ports explains a form's mixtures."""
_BETTER = 0.5  # what several groups have to bring the error down to, relative to one group's
_SPARSE = 0.003  # what an operation costs the program, beside relative errors: none that explains nothing


@dataclass(frozen=True)
class Mixture:
    """A measured mixture.

    Parameters
    ----------
    own
        How many instructions of the form that is mapped.
    others
        Basis form -> how many of it.
    cycles
        What one such mixture takes, in a steady state.
    """

    own: int
    others: Mapping[str, int]
    cycles: float


@dataclass(frozen=True)
class FormUses:
    """What was found of a form.

    Parameters
    ----------
    uses
        Ports -> operations that may run on any of these; an operation of a port that is not pipelined counts for as
        many cycles as it takes.
    slots
        Places that it takes at the front end.
    error
        Mean relative error of its mixtures, predicted with these.
    """

    uses: Mapping[Ports, float]
    slots: float
    error: float


@dataclass(frozen=True, eq=False)
class PortModel:
    """The ports of the basis forms, and the width of the front end.

    Parameters
    ----------
    sets
        Basis form -> its ports.
    front
        Instructions that the front end delivers in a cycle.
    """

    sets: Mapping[str, Ports]
    front: float

    @cached_property
    def groups(self) -> list[Ports]:
        """Every group of ports that may bound a mixture, and last a port that no basis form uses."""
        return [*family(self.sets.values()), frozenset((self.unknown,))]

    @cached_property
    def unknown(self) -> int:
        """The number of a port that no basis form uses: what a form that none of these hinders waits for."""
        return max((port for ports in self.sets.values() for port in ports), default=-1) + 1

    @cached_property
    def _basis(self) -> dict[str, NDArray[np.float64]]:
        return {name: loads(self.groups, [(ports, 1.0)]) for name, ports in self.sets.items()}

    @cached_property
    def _inside(self) -> NDArray[np.float64]:
        """Load of each group (column) by one operation on each group (row)."""
        return np.array([[float(own <= group) / len(group) for group in self.groups] for own in self.groups])

    def cycles(self, uses: Sequence[tuple[float, Mapping[Ports, float], float]]) -> float:
        """Return the cycles of a mixture: this many instructions, each with its uses and its slots."""
        operations = [(ports, count * n) for n, used, _ in uses for ports, count in used.items()]
        slots = sum(n * slots for n, _, slots in uses)
        return max(float(loads(self.groups, operations).max(initial=0.0)), slots / self.front)

    def map(self, alone: float, mixtures: Sequence[Mixture], slots: float = 1.0) -> FormUses:
        """Return the uses of a form that takes `alone` cycles, from its mixtures.

        First one group of ports is tried, each in turn; where none explains the mixtures, operations on several groups
        are found by a linear program: no group may be busier than the mixture takes, and the group that bounds it (the
        one that does so in the last solution) should be as busy.
        """
        given = [Mixture(1, {}, alone), *mixtures]
        if alone <= 1.05 / self.front or not self.groups:
            return FormUses({}, slots, 0.0)
        own = np.array([one.own for one in given], dtype=float)
        cycles = np.array([one.cycles for one in given])
        others = np.array([self._others(one.others) for one in given])
        counts = np.array([sum(one.others.values()) for one in given], dtype=float)
        floor = (own * slots + counts) / self.front
        sizes = np.array([len(group) for group in self.groups])
        single = alone * sizes[:, None] * self._inside  # (candidate, group)
        told = (own[None, :, None] * single[:, None, :] + others[None]).max(axis=2)
        errors = np.abs(np.maximum(told, floor) / cycles - 1).mean(axis=1)
        best = int(np.lexsort((sizes, errors.round(3)))[0])
        found = np.zeros(len(self.groups))
        found[best] = alone * sizes[best]
        error = float(errors[best])
        if error > SINGLE:
            several, less = self._program(found, error, own, others, cycles, floor)
            if less < _BETTER * error:
                found, error = several, less
        uses = {group: float(count) for group, count in zip(self.groups, found, strict=True) if count > 0.04 * alone}
        return FormUses(uses, slots, error)

    def _others(self, others: Mapping[str, int]) -> NDArray[np.float64]:
        total = np.zeros(len(self.groups))
        for name, count in others.items():
            total += count * self._basis[name]
        return total

    def _program(
        self,
        found: NDArray[np.float64],
        error: float,
        own: NDArray[np.float64],
        others: NDArray[np.float64],
        cycles: NDArray[np.float64],
        floor: NDArray[np.float64],
    ) -> tuple[NDArray[np.float64], float]:
        n, m = len(self.groups), len(cycles)
        best, least = found, error
        current = found
        for _ in range(4):
            load = own[:, None] * (current @ self._inside)[None, :] + others
            bounding = load.argmax(axis=1)
            # Variables: operations per group; by how much a mixture is too slow, and too fast.
            cost = np.concatenate([np.full(n, _SPARSE), 1 / cycles, 1 / cycles])
            upper, limit = [], []
            for k in range(m):
                slack = np.zeros((n, 2 * m))
                slack[:, k] = -1.0
                upper.append(np.hstack([own[k] * self._inside.T, slack]))
                limit.append(cycles[k] - others[k])
                if load[k].max() >= floor[k]:
                    row = np.concatenate([-own[k] * self._inside[:, bounding[k]], np.zeros(2 * m)])
                    row[n + m + k] = -1.0
                    upper.append(row[None])
                    limit.append(np.array([others[k, bounding[k]] - cycles[k]]))
            done = linprog(cost, A_ub=np.vstack(upper), b_ub=np.concatenate(limit), bounds=(0, None), method="highs")
            if done.x is None:
                break
            current = done.x[:n]
            told = (own[:, None] * (current @ self._inside)[None, :] + others).max(axis=1)
            now = float(np.abs(np.maximum(told, floor) / cycles - 1).mean())
            if now < least - 1e-6:
                best, least = current, now
            else:
                break
        return best, least
