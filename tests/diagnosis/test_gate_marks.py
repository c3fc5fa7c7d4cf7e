"""A gate's recording is the same on every host: beside those that other hosts have put into the table."""

import pytest

from tests.diagnosis.gate_marks import NAMES, read, row_of, rows
from tests.diagnosis.programs import needed

pytestmark = needed


@pytest.mark.parametrize("name", NAMES)
def test_the_recordings_of_other_hosts_are_repeated(name, tmp_path):
    mine = row_of(name, read(name, tmp_path))
    same = [row for row in rows() if row["name"] == name and row["binary"] == mine["binary"]]
    if not same:
        pytest.skip(f"{mine['compiler']} makes another program of {name}.c than on the hosts of the table")
    alike = [row for row in same if row["libraries"] == mine["libraries"]]
    if not alike:
        pytest.skip(f"libraries {mine['libraries']} are not those of the table's hosts: {same[0]['libraries']}")
    assert {row["host"]: row["trace"] for row in alike} == {row["host"]: mine["trace"] for row in alike}
    model = [row for row in alike if row["model"] == mine["model"]]
    assert {row["host"]: row["cycles"] for row in model} == {row["host"]: mine["cycles"] for row in model}


def test_the_table_has_each_program_of_each_host_once():
    table = rows()
    assert {row["name"] for row in table} == set(NAMES)
    keys = [(row["name"], row["binary"], str(row["libraries"]), row["host"]) for row in table]
    assert len(set(keys)) == len(keys)
