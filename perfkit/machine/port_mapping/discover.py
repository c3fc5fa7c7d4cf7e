"""From throughputs to a whole port map: which mixtures to measure, and what they say."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from perfkit.errors import DataError
from perfkit.machine.port_mapping.basis import Basis, choose, ports_of, union_size
from perfkit.machine.port_mapping.mapping import FormUses, Mixture, PortModel
from perfkit.machine.port_mapping.port_sets import port_sets

Counts = tuple[tuple[str, int], ...]
"""A mixture: forms, and how many instructions of each."""
Measure = Callable[[Sequence[Counts]], Mapping[Counts, float]]
"""Measures mixtures; what could not be measured is not in the answer."""

_MOST_OWN, _MOST_OTHERS = 8, 48  # instructions in a mixture


@dataclass(frozen=True)
class PortMap:
    """What was found.

    Parameters
    ----------
    model
        The basis forms' ports, and the front end.
    basis
        The basis, with the candidates of each cluster.
    mapped
        Form -> its uses.
    missing
        Forms of which too few mixtures could be measured.
    """

    model: PortModel
    basis: Basis
    mapped: Mapping[str, FormUses]
    missing: tuple[str, ...] = ()

    def cycles(self, counts: Counts) -> float:
        """Return the cycles of a mixture of mapped forms."""
        return self.model.cycles([(n, self.mapped[form].uses, self.mapped[form].slots) for form, n in counts])


def pairs_of(sizes: Mapping[str, int], apart: Callable[[str, str], bool]) -> list[Counts]:
    """Return the mixtures of two candidates, as many of each as it has ports; none of those known to be apart."""
    return [_balanced(sizes, some) for some in combinations(sorted(sizes), 2) if not apart(*some)]


def _never(_a: str, _b: str) -> bool:
    return False


def _balanced(sizes: Mapping[str, int], forms: Sequence[str]) -> Counts:
    return tuple((form, sizes[form]) for form in sorted(forms))


def found_basis(
    candidates: Mapping[str, float],
    front: float,
    measure: Measure,
    apart: Callable[[str, str], bool] | None = None,
) -> tuple[Basis, PortModel]:
    """Choose the basis among candidates and find its ports.

    Parameters
    ----------
    candidates
        Form -> cycles per instruction, alone.
    front
        Instructions that the front end delivers in a cycle.
    measure
        Measures mixtures.
    apart
        Whether two candidates are known to share no ports (registers of different files); their mixtures are left out.

    Raises
    ------
    DataError
        No candidate is of one operation on a whole number of ports.
    """
    counted = {form: ports_of(cycles, front) for form, cycles in candidates.items()}
    sizes = {form: count for form, count in counted.items() if count is not None}
    if not sizes:
        raise DataError("no form has a throughput of a whole number of ports: nothing can be told of the ports")
    told = measure(pairs_of(sizes, apart or _never))
    unions = _unions(sizes, told)
    basis = choose(sizes, unions)
    chosen = basis.sizes
    triples = [
        _balanced(chosen, some)
        for some in combinations(sorted(chosen), 3)
        if all(
            unions.get(frozenset(two), np.inf) < min(sum(chosen[one] for one in two), front) - 0.5
            for two in combinations(some, 2)
        )
    ]
    few = {pair: size for pair, size in unions.items() if pair <= set(chosen)}
    sets = port_sets(chosen, few | _unions(chosen, measure(triples)), front)
    return basis, PortModel(sets, front)


def _unions(sizes: Mapping[str, int], told: Mapping[Counts, float]) -> dict[frozenset[str], float]:
    return {
        frozenset(form for form, _ in counts): union_size(tuple(sizes[form] for form, _ in counts), cycles)
        for counts, cycles in told.items()
    }


def mixtures_for(form: str, alone: float, sizes: Mapping[str, int], basis: Sequence[str], front: float) -> list[Counts]:
    """Return the mixtures of a form with each basis form, both of which take about as long alone.

    Where the front end would then bound the mixture even if the two shared nothing, there are fewer of the form.
    """
    found: list[Counts] = []
    for other in basis:
        if other == form:
            continue
        own = min(_MOST_OWN, max(1, round(1 / alone)))
        count = min(_MOST_OTHERS, max(1, round(own * alone * sizes[other])))
        room = int(front * count / sizes[other] * 1.02) - count
        if own > 1 and own + count > front * own * alone:
            own = min(own, max(1, room))
        found.append(((form, own), (other, count)))
    return found


def mapped_forms(
    alone: Mapping[str, float],
    basis: Basis,
    model: PortModel,
    measure: Measure,
    partners: Callable[[str], Sequence[str]],
    slots: Callable[[str], float] | None = None,
) -> PortMap:
    """Map forms by their mixtures with basis forms.

    Parameters
    ----------
    alone
        Form -> cycles per instruction.
    partners
        The basis forms that a form is mixed with.
    slots
        How many places of the front end a form takes.
    """
    wanted = {
        form: mixtures_for(form, cycles, basis.sizes, partners(form), model.front)
        for form, cycles in alone.items()
        if form not in basis.sizes and cycles > 1.05 / model.front
    }
    told = measure([counts for several in wanted.values() for counts in several])
    mapped = {form: FormUses({model.sets[form]: 1.0}, 1.0, 0.0) for form in basis.sizes}
    missing = []
    for form, cycles in alone.items():
        if form in mapped:
            continue
        known = [counts for counts in wanted.get(form, []) if counts in told]
        if len(known) < len(wanted.get(form, [])):
            missing.append(form)
            continue
        mixtures = [Mixture(counts[0][1], dict(counts[1:]), told[counts]) for counts in known]
        mapped[form] = model.map(cycles, mixtures, slots(form) if slots else 1.0)
    return PortMap(model, basis, mapped, tuple(missing))
