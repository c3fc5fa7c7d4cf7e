"""``perfkit cpi``: what it prints, its JSON, and errors of one line."""

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import perfkit as pk
from perfkit.cli.main import app
from perfkit.errors import SettingError


def run(*args):
    result = CliRunner().invoke(app, ["cpi", *map(str, args)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture(scope="module")
def perf_dump(tmp_path_factory):
    """A dump as perf stat -I writes it, of a planted stack."""
    samples, _ = pk.synthetic_cpi(penalties={"branch-misses": 20.0}, intervals=200, seed=4)
    lines = ["# started on Mon Nov 30 11:12:56 2020", "", "#           time             counts unit events"]
    rows = samples.table.sort_values("interval", kind="stable").itertuples()
    lines += [f"{r.at:15.9f} {r.count:20.0f}      {r.event:30}                (100.00%)" for r in rows]
    path = tmp_path_factory.mktemp("cpi") / "dump.txt"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_dump_gives_a_stack_with_placebo_bracket_and_verdict(perf_dump):
    text = run(perf_dump)
    assert "CPI stack of dump: CPI" in text
    assert "placebo R2" in text
    assert "bracket 0.3" in text
    assert "The data support this stack" in text


def test_json_holds_the_stack_and_sums_to_the_cpi(perf_dump):
    found = json.loads(run(perf_dump, "--json", "--form", "cpi"))["dump"]
    assert found["form"] == "cpi"
    assert sum(part["component"] for part in found["parts"].values()) == pytest.approx(found["cpi"])
    assert found["parts"]["branch-misses"]["penalty"] == pytest.approx(20, rel=0.02)
    assert set(found["parts"]) == {"base", "branch-misses", "residual"}
    assert found["parts"]["residual"]["low"] is None


def test_several_workloads_are_compared(tmp_path):
    text = run("cpi/workloads", "--picture", tmp_path / "stacks.png")
    assert text.count("CPI stack of") == 3
    assert "[generated data]" in text
    assert "CPI by part:" in text
    assert (tmp_path / "stacks.png").stat().st_size > 5000


def test_the_papers_procedure_prints_its_trail_and_a_warning(perf_dump):
    text = run(perf_dump, "--paper")
    assert "correlation branch-misses" in " ".join(text.split())
    assert "see the placebo" in text
    assert json.loads(run(perf_dump, "--paper", "--json"))["statistics"]["r2"] > 0.9


def test_a_saved_fit_can_be_loaded(perf_dump, tmp_path):
    run(perf_dump, "--output", tmp_path / "fit.parquet")
    assert pk.CpiFit.load(tmp_path / "fit.parquet").penalties["branch-misses"] == pytest.approx(20, rel=0.02)
    with pytest.raises(SettingError, match="--output takes the fit of one workload"):
        run("cpi/workloads", "--output", tmp_path / "all.parquet")


def test_an_unknown_event_is_one_line_and_exit_code_2(perf_dump):
    code = "from perfkit.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "cpi", str(perf_dump), "--events", "branch-mises"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    message = "perfkit: unknown event 'branch-mises'; did you mean branch-misses?"
    assert done.stderr.strip() == message
