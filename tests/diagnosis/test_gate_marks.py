"""A gate's recording is the same on every host: beside those that other hosts have put into the table."""

import pytest

from tests.diagnosis.gate_marks import NAMES, alike, differences, digest, possible, read, row_of, rows
from tests.diagnosis.programs import needed

pytestmark = needed


@pytest.mark.parametrize("name", NAMES)
def test_the_recordings_of_other_hosts_are_repeated(name, tmp_path):
    if not possible(name):
        pytest.skip("no rustc on this machine")
    mine, table = row_of(name, read(name, tmp_path)), rows()
    same = [row for row in table if row["name"] == name and row["binary"] == mine["binary"]]
    if not same:
        pytest.skip(f"{mine['compiler']} makes another program of {name} than on the hosts of the table")
    if not alike(table, mine):
        pytest.skip(f"libraries {mine['libraries']} are not those of the table's hosts: {same[0]['libraries']}")
    assert differences(table, mine) == []


def test_a_host_that_differs_is_named():
    here = {"name": "dot", "binary": "b", "libraries": {}, "trace": "t", "instructions": 5, "cycles": 2.0, "model": "m"}
    there = here | {"host": "another"}
    assert differences([there], here) == []
    assert differences([there | {"trace": "u"}], here) == ["trace u on another"]
    assert differences([there | {"cycles": 3.0}], here) == ["cycles 3.0 on another"]
    assert differences([there | {"cycles": 3.0, "model": "of another version"}], here) == []
    assert differences([there | {"binary": "of another compiler", "trace": "u"}], here) == []


def test_an_intel_host_recorded_all_twenty_programs_as_a_zen_4():
    """Of the Zen 4's 100 runs only the digest of all twenty was kept (docs/gate.md)."""
    assert digest(rows(), "Intel(R) Xeon(R) Processor, family 6, model 207") == "9a8bc7d96ff79827"


def test_the_table_has_each_program_of_each_host_once():
    table = rows()
    assert {row["name"] for row in table} == set(NAMES)
    keys = [(row["name"], row["binary"], str(row["libraries"]), row["host"]) for row in table]
    assert len(set(keys)) == len(keys)
