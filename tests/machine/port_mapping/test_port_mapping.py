"""Port maps of generated machines are found again from mixtures, and predict others; what is known by hand is met."""

import zlib

import numpy as np
import pytest

from perfkit.errors import DataError
from perfkit.machine.port_mapping.basis import choose, ports_of, union_size
from perfkit.machine.port_mapping.discover import found_basis, mapped_forms
from perfkit.machine.port_mapping.families import atoms_of, components, family
from perfkit.machine.port_mapping.mapping import Mixture, PortModel
from perfkit.machine.port_mapping.port_sets import port_sets
from tests.machine.port_mapping.synthetic import machine


def found_map(real):
    """Measure a generated machine and map all its forms."""
    alone = {form: real.cycles(((form, 1),)) for form in real.uses}
    basis, model = found_basis(alone, real.front, real.measure)
    return mapped_forms(alone, basis, model, real.measure, lambda form: list(basis.sizes))


@pytest.mark.parametrize("seed", range(8))
def test_mixtures_never_measured_are_predicted_on_generated_machines(seed):
    found, truth = found_map(machine(seed)), machine(seed, noise=0)
    rng = np.random.default_rng(zlib.crc32(b"unseen") + seed)
    errors = []
    for _ in range(200):
        some = rng.choice(sorted(found.mapped), 3, replace=False)
        counts = tuple((str(form), int(rng.integers(1, 5))) for form in some)
        errors.append(abs(found.cycles(counts) / truth.cycles(counts) - 1))
    assert not found.missing
    assert np.mean(errors) < 0.05
    assert np.mean(np.array(errors) < 0.05) > 0.9


def test_a_known_map_is_found_exactly():
    """Two integer groups that share a port, and vectors on two of the same ports, as on Intel's cores."""
    sets = {"add": {0, 1, 5, 6}, "shift": {0, 6}, "vector": {0, 1, 5}, "shuffle": {5}, "load": {2, 3}}
    sizes = {form: len(ports) for form, ports in sets.items()}
    unions = {frozenset((a, b)): float(len(sets[a] | sets[b])) for a in sets for b in sets if a < b} | {
        frozenset(("add", "shift", "vector")): 4.0
    }
    found = port_sets(sizes, unions, front=8)
    for a in sets:
        for b in sets:
            assert len(found[a] & found[b]) == len(sets[a] & sets[b]), (a, b)
    assert len(frozenset().union(*found.values())) == 6


def test_forms_of_several_operations_are_no_basis():
    sizes = {"a": 2, "b": 2, "odd": 1}
    unions = {frozenset("ab"): 3.0, frozenset(("a", "odd")): 2.5, frozenset(("b", "odd")): 2.4}
    assert set(choose(sizes, unions).sizes) == {"a", "b"}


def test_forms_with_the_same_ports_are_one_cluster():
    basis = choose({"a": 2, "b": 2, "c": 2}, {frozenset("ab"): 2.0, frozenset("ac"): 4.0, frozenset("bc"): 4.0})
    assert sorted(map(sorted, basis.members.values())) == [["a", "b"], ["c"]]


@pytest.mark.parametrize(
    ("cycles", "ports"), [(0.25, 4), (0.333, 3), (0.5, 2), (1.0, 1), (0.4, None), (1.5, None), (0.167, None)]
)
def test_only_whole_numbers_of_ports_below_the_front_end_count(cycles, ports):
    assert ports_of(cycles, front=6) == ports


def test_a_union_is_the_operations_over_the_cycles():
    assert union_size((4, 2), 1.5) == 4
    assert union_size((4, 2), 0.9) == 6, "no mixture is faster than each part alone"


def test_nothing_to_build_on_is_an_error():
    with pytest.raises(DataError, match="whole number of ports"):
        found_basis({"slow": 7.0}, 6.0, lambda mixtures: {})


def test_an_operation_on_no_known_port_is_one_of_its_own():
    model = PortModel({"add": frozenset({0, 1})}, 6.0)
    found = model.map(4.0, [Mixture(1, {"add": 8}, 4.0)])
    assert found.uses == {frozenset({model.unknown}): 4.0}
    shares = model.map(4.0, [Mixture(1, {"add": 8}, 8.0)])
    assert shares.uses == {frozenset({0, 1}): 8.0}


def test_families_hold_every_union_within_a_component():
    groups = [frozenset({0, 1}), frozenset({1, 2}), frozenset({5})]
    assert sorted(map(sorted, atoms_of(groups[:2]))) == [[0], [1], [2]]
    assert len(components(groups)) == 2
    assert frozenset({0, 1, 2}) in family(groups)
    assert not any(5 in group and len(group) > 1 for group in family(groups))
