"""perfkit calibrate --full: what it needs, what it says of what it left out, and where the core goes."""

import runpy
from pathlib import Path

import pytest
from typer.testing import CliRunner

from perfkit.cli.main import app
from perfkit.collectors.whole_core import whole
from perfkit.errors import UnavailableError

made_up = runpy.run_path(str(Path(__file__).parents[1] / "collectors" / "whole_core" / "test_core_file.py"))
measurement = made_up["measurement"]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "my cores").mkdir()
    monkeypatch.chdir(tmp_path / "my cores")
    return lambda *words: CliRunner().invoke(app, ["calibrate", *words])


def test_a_core_file_is_written_and_the_left_out_are_counted(run, monkeypatch: pytest.MonkeyPatch):
    found = measurement(True)
    object.__setattr__(found, "left_out", {f"ports of F{k}": "beside a busy thread" for k in range(37)})
    monkeypatch.setattr(whole, "measure_core", lambda keep, **_: found)
    done = run("--full", "-o", "mine.toml")
    assert done.exit_code == 0, done.output
    assert "37 figures left out: beside a busy thread" in done.output
    assert "measures again what was left out" in done.output
    assert "[forms]" in Path("mine.toml").read_text()


@pytest.mark.parametrize(
    ("words", "told"),
    [(("--full",), "--output"), (("--full", "-o", "mine.toml", "--core", "zen4"), "--core has no effect with --full")],
)
def test_what_does_not_go_together_is_refused(run, words: tuple[str, ...], told: str):
    done = run(*words)
    assert done.exit_code != 0
    assert told in f"{done.output} {done.exception}"
    assert not Path("mine.toml").exists()


def test_a_busy_machine_writes_no_core(run, monkeypatch: pytest.MonkeyPatch):
    def busy(keep: Path, **_: object) -> None:
        raise UnavailableError("40 figures in a row found no quiet core")

    monkeypatch.setattr(whole, "measure_core", busy)
    done = run("--full", "-o", "mine.toml")
    assert done.exit_code != 0
    assert not Path("mine.toml").exists()
