"""perfkit samples and perfkit convert."""

import json
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
    assert "1 line that could not be used" in done.output
    assert "NaN" in done.output  # the length of intervals is not known, and not zero


def test_convert_to_parquet_and_csv(perfkit, tmp_path):
    sources = [FIXTURES / "two-runs-concatenated.txt", FIXTURES / "indian-digit-groups.txt"]
    assert perfkit("convert", sources[0], tmp_path / "a.parquet").exit_code == 0
    again = pk.read_samples(tmp_path / "a.parquet")
    assert list(again.runs.index) == ["two-runs-concatenated", "two-runs-concatenated (2)"]
    done = perfkit("convert", sources[0], tmp_path / "a.csv")
    assert done.exit_code == 0
    assert "a.csv holds counts only: time stamps, the intervals' seconds, the shares" in done.output
    assert pk.read_samples(tmp_path / "a.csv").throughput() == again.throughput()


def test_convert_writes_over_nothing_that_it_was_not_told_to(perfkit, tmp_path):
    """`convert *.csv` without a file to write replaced the last dump of the list by the others."""
    first, last = tmp_path / "a.csv", tmp_path / "b.csv"
    for path, cycles in ((first, 100), (last, 300)):
        path.write_text(f"run,cycles,instructions\nx,{cycles},200\nx,{cycles + 7},210\n")
    before = last.read_text()
    done = perfkit("convert", first, last)
    assert "is there already" in str(done.exception)
    assert last.read_text() == before
    assert perfkit("convert", first, "-o", last).exit_code == 0
    assert last.read_text() != before
    assert perfkit("convert", first, last, "-o", tmp_path / "both.parquet").exit_code == 0
    assert len(pk.read_samples(tmp_path / "both.parquet").runs) == 2


def test_convert_refuses(perfkit, tmp_path):
    from perfkit.errors import SettingError

    source = FIXTURES / "ragged-row.csv"
    for arguments in ([source], [source, tmp_path / "a.xlsx"], [source, source], ["none.csv", tmp_path / "a.csv"]):
        done = perfkit("convert", *arguments)
        assert isinstance(done.exception, SettingError)


def test_running_totals_have_a_way_on(perfkit, tmp_path):
    rows = [f"{1000 * i + i % 3},{2000 * i + i % 2}" for i in range(1, 13)]
    path = tmp_path / "rising.csv"
    path.write_text("\n".join(["cycles,instructions", *rows]) + "\n")
    assert "--cumulative or --counts" in str(perfkit("samples", path).exception)
    assert "in 12 intervals" in perfkit("samples", path, "--counts").output
    assert "in 11 intervals" in perfkit("samples", path, "--cumulative").output
    out = tmp_path / "out.parquet"
    assert perfkit("convert", path, out, "--cumulative").exit_code == 0
    assert "in 11 intervals" in perfkit("samples", out).output


def test_a_data_set_a_folder_and_what_is_counted(perfkit, tmp_path):
    assert "generated" in perfkit("samples", "spire/memory").output
    assert f"{str(tmp_path)!r} is a folder" in str(perfkit("samples", tmp_path).exception)
    shown = perfkit("samples", FIXTURES / "hybrid-not-counted.txt").output
    assert "(samples of cpu_core/cycles/ and cpu_core/instructions/ included)" in shown


def test_wall_time_is_the_longest_of_the_threads(perfkit, tmp_path):
    path = tmp_path / "places.csv"
    path.write_text("cpu,seconds,cycles,instructions\n0,0.501,1000,2000\n1,0.502,1001,2003\n")
    run = json.loads(perfkit("samples", path, "--json").stdout)["runs"][0]
    assert (run["intervals"], run["seconds"]) == (2, 0.502)


def test_the_same_dump_twice_is_said_to_be(perfkit, tmp_path):
    path = tmp_path / "twice.txt"
    path.write_text((FIXTURES / "hybrid-not-counted.txt").read_text() * 2)
    assert "run twice (2) is identical to run twice" in perfkit("samples", path).output


def test_between_takes_the_earlier_time_first(perfkit):
    assert "5 > 1" in str(perfkit("cpi", "spire/memory", "--between", "5", "1").exception)


def test_an_r2_of_zero_has_no_negative_f():
    from perfkit.fitters.cpi.validation import f_test

    assert f_test(-1e-15, 20, 2)[:2] == (0.0, 1.0)
