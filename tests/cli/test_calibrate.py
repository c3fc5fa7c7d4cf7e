"""``perfkit calibrate`` from the command line."""

import json
import platform

import pytest
from typer.testing import CliRunner

from perfkit.cli.main import app
from perfkit.machine.core import Microarchitecture
from perfkit.machine.instruction_tables import InstructionTables

run = CliRunner().invoke
pytestmark = [
    pytest.mark.measures,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="perfkit calibrate measures x86-64 hosts only"),
    # A busy host says that it is busy; what is measured must be right all the same.
    pytest.mark.filterwarnings("ignore:.*of the samples were rejected:perfkit.errors.PerfkitWarning"),
    pytest.mark.filterwarnings("ignore:left out, because conditions:perfkit.errors.PerfkitWarning"),
]
QUICK = ["calibrate", "--form", "ADD_R64_RM64", "--no-memory", "--repetitions", "5", "--core", "skylake_x"]


def test_prints_what_was_measured_and_writes_an_overlay(tmp_path):
    path = tmp_path / "host.toml"
    result = run(app, [*QUICK, "--all", "--output", str(path)])
    assert result.exit_code == 0, result.output
    assert "ADD_R64_RM64" in result.output
    assert "a cycle is" in result.output
    tables = InstructionTables.load(Microarchitecture.load("skylake_x"), calibration=path)
    assert tables.form("ADD_R64_RM64").latency == 1


def test_json():
    result = run(app, [*QUICK, "--json"])
    assert result.exit_code == 0, result.output
    assert set(json.loads(result.stdout)) == {
        "host",
        "cycle_seconds",
        "latencies",
        "throughputs",
        "resources",
        "rejected",
        "busy",
        "left_out",
        "spreads",
    }
