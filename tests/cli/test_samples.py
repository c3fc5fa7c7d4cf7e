"""perfkit samples and perfkit convert."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

import perfkit as pk
from perfkit.cli.main import app

FIXTURES = Path(__file__).parents[1] / "readers" / "fixtures"


@pytest.fixture
def perfkit():
    return lambda *arguments: CliRunner().invoke(app, [str(a) for a in arguments])


def test_samples_prints_events_rates_and_notes(perfkit):
    done = perfkit("samples", FIXTURES / "hybrid-not-counted.txt")
    assert done.exit_code == 0, done.output
    assert "15 samples of 3 events in 3 intervals" in done.output
    line = next(x for x in done.output.splitlines() if x.startswith("cpu_atom/cycles/"))
    assert line.split()[1:4] == ["3", "2", "0"]  # samples, missing, zero
    assert "<not counted> 4 times" in done.output
    assert f"= {2700 / 2100:.4g} (total over total)" in done.output


def test_samples_collects_problems(perfkit):
    assert perfkit("samples", FIXTURES / "ragged-row.csv").exit_code != 0
    done = perfkit("samples", FIXTURES / "ragged-row.csv", "--collect")
    assert done.exit_code == 0
    assert "1 line(s) that could not be used" in done.output
    assert "NaN" in done.output  # the length of intervals is not known, and not zero


def test_convert_to_parquet_and_csv(perfkit, tmp_path):
    sources = [FIXTURES / "two-runs-concatenated.txt", FIXTURES / "indian-digit-groups.txt"]
    assert perfkit("convert", sources[0], tmp_path / "a.parquet").exit_code == 0
    again = pk.read_samples(tmp_path / "a.parquet")
    assert list(again.runs.index) == ["two-runs-concatenated", "two-runs-concatenated (2)"]
    assert perfkit("convert", sources[0], tmp_path / "a.csv").exit_code == 0
    assert pk.read_samples(tmp_path / "a.csv").throughput() == again.throughput()


def test_convert_refuses(perfkit, tmp_path):
    from perfkit.errors import SettingError

    source = FIXTURES / "ragged-row.csv"
    for arguments in ([source], [source, tmp_path / "a.xlsx"], [source, source], ["none.csv", tmp_path / "a.csv"]):
        done = perfkit("convert", *arguments)
        assert isinstance(done.exception, SettingError)
