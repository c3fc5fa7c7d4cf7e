import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from perfkit.cli.main import app
from perfkit.cli.study import show_summary, write_table
from perfkit.collectors.microbenchmark.passes import record_of
from perfkit.collectors.microbenchmark.store import Store
from perfkit.errors import DataError, PerfkitError
from perfkit.fitters.studies.analysis import read_tables
from perfkit.study.runs import StudyRuns
from perfkit.study.study import Configuration, Study

LINE = b"\n"
KERNEL = "PK_REGION { for (long i = 0; i < N; i++) PK_KEEP(i); }\n"
FILE = "kernel: k.c\ndimensions: {N: [4, 16]}\npolicy: {repetitions: 3, attempts: 2, windows: 3, tolerance: 0.5}\n"


@pytest.fixture
def study(tmp_path):
    (tmp_path / "k.c").write_text(KERNEL)
    (tmp_path / "s.yaml").write_text(FILE)
    return tmp_path / "s.yaml"


def invoke(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def test_dry_run_counts_and_estimates_and_measures_nothing(study, tmp_path):
    done = invoke("study", "run", study, "--folder", tmp_path / "out", "--dry-run")
    assert done.exit_code == 0, done.output
    assert "2 configurations, 0 of them already" in done.output
    assert "estimate" in done.output
    assert not (tmp_path / "out").exists()


@pytest.mark.measures
@pytest.mark.words
def test_run_show_and_export(study, tmp_path):
    done = invoke("study", "run", study, "--folder", tmp_path / "out", "--output", tmp_path / "t.csv", "--jobs", 1)
    assert done.exit_code == 0, done.output
    # Whether they settle is the machine's affair (tests/collectors/microbenchmark asks): a Zen 5's clock moved.
    told = re.search(r"2 configurations: (\d) settled, (\d) measured but never settled, 0 failed", done.output)
    assert told, done.output
    assert sum(map(int, told.groups())) == 2
    assert pd.read_csv(tmp_path / "t.csv")["N"].tolist() == [4, 16]
    shown = invoke("study", "show", tmp_path / "out", "--output", tmp_path / "t.parquet")
    assert shown.exit_code == 0, shown.output
    figures = [line.split() for line in shown.stdout.splitlines()]
    assert figures[0] == ["N", "cycles", "cycles_low", "cycles_high", "cycles_apart", "settled"]
    assert [line[0] for line in figures[1:3]] == ["4", "16"]
    assert float(figures[1][1]) > 0
    assert invoke("study", "show", tmp_path / "t.parquet").stdout.splitlines()[:3] == shown.stdout.splitlines()[:3]
    assert len(StudyRuns.from_parquet(tmp_path / "t.parquet").raw) >= 6
    assert "2 of them already" in invoke("study", "run", study, "--folder", tmp_path / "out", "--dry-run").output


def test_a_folder_that_holds_no_row_yet_is_shown_as_such(study, tmp_path):
    """A study that was stopped while it compiled."""
    out = tmp_path / "out"
    with Store(out, "of the study"):
        pass
    (out / "study.yaml").write_text(Study.from_yaml(study).to_yaml())
    (out / "metadata.json").write_text("{}")
    done = invoke("study", "show", out)
    assert (done.exit_code, done.output.splitlines()[0]) == (
        0,
        "0 configurations: 0 settled, 0 measured but never settled, 0 failed",
    )
    shown = json.loads(invoke("study", "show", out, "--json").stdout)
    assert (shown["predicted"], shown["failures"]) == (0, [])


def test_a_study_of_which_every_row_failed_is_no_success_when_shown_either(tmp_path):
    """It ended with 0."""
    failed = record_of(Configuration(values={"N": 1}, compiler="gcc", flags="", threads=1), "key", message="broke")
    for rows in (1, 2):
        out = tmp_path / f"out{rows}"
        with Store(out, "of the study") as store:
            for each in (failed, failed | {"key": "other", "values": {"N": 2}, "status": "ok"})[:rows]:
                store.add(each)
        (out / "metadata.json").write_text("{}")
        (out / "study.yaml").write_text(Study("PK_REGION { }", {"N": [1, 2]}).to_yaml())
        shown = invoke("study", "show", out)
        assert "failed: N=1" in shown.output
        told = "nothing was measured: all 1 configurations failed, for the reasons above"
        assert (isinstance(shown.exception, DataError) and str(shown.exception) == told) == (rows == 1), shown.exception
        assert (shown.exit_code == 0) == (rows == 2)


@pytest.mark.measures
@pytest.mark.words
@pytest.mark.parametrize("folder", [None, "here", "a b/c"])
def test_relative_folders_measure_as_absolute_ones_do(study, tmp_path, monkeypatch, folder):
    monkeypatch.chdir(tmp_path)
    words = [] if folder is None else ["--folder", folder]
    done = invoke("study", "run", "s.yaml", *words, "--output", "t.csv")
    assert done.exit_code == 0, done.output
    assert pd.read_csv(tmp_path / "t.csv")["status"].tolist() == ["ok", "ok"]
    assert (tmp_path / (folder or "perfkit-out/s") / "results.jsonl").exists()


@pytest.mark.measures
@pytest.mark.words
def test_a_study_that_measured_nothing_is_an_error(study, tmp_path):
    study.write_text(FILE + "compilers: [no-such-compiler]\n")
    done = invoke("study", "run", study, "--folder", tmp_path / "out")
    assert done.exit_code != 0
    assert "all 2 configurations failed" in str(done.exception)
    assert "no-such-compiler" in done.output


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kernal: k.c\n", "did you mean 'kernel'"),
        ("kernel: k.c\ndimensions: {N: []}\n", "has no values"),
        ("kernel: k.c\nthreads: many\n", "threads"),
        ("kernel: k.c\ndimensions: {A: {from: 1, to: 1000}, B: {from: 1, to: 1000}}\n", "--yes"),
    ],
)
def test_bad_files_are_one_line_errors(study, tmp_path, text, message):
    study.write_text(text)
    done = invoke("study", "run", study, "--folder", tmp_path / "out")
    assert isinstance(done.exception, PerfkitError)
    assert message in str(done.exception)


def test_a_million_fold_space_is_counted_only_with_yes(study, tmp_path):
    study.write_text("kernel: k.c\ndimensions: {A: {from: 1, to: 1000}, B: {from: 1, to: 500}}\n")
    done = invoke("study", "run", study, "--folder", tmp_path / "out", "--dry-run", "--yes")
    assert "500000 configurations" in done.output
    assert "add --yes" in done.output


@pytest.mark.measures
@pytest.mark.words
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_study_says_what_is_kept_and_goes_on(study, tmp_path, stop):
    study.write_text(FILE.replace("[4, 16]", "{from: 1, to: 60}") + "steps: 200000\n")
    out = tmp_path / "out"
    # Where tests run in the background, SIGINT is ignored and children inherit that: a person's shell does not do it.
    listen = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    program = [sys.executable, "-c", f"{listen}; from perfkit.cli import main; main()"]
    command = [*program, "study", "run", str(study), "--folder", str(out), "--jobs", "1"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ})
    deadline = time.monotonic() + 60
    results = out / "results.jsonl"
    while time.monotonic() < deadline and not (results.exists() and results.read_bytes().count(b"\n") >= 3):
        time.sleep(0.01)
    passes = (out / "passes.jsonl").read_bytes().count(LINE) > 60
    child.send_signal(stop)
    _, told = child.communicate(timeout=60)
    kept = results.read_bytes()
    assert child.returncode == 130
    assert f"stopped: {kept.count(LINE)} finished rows" in told.decode()
    assert f"are kept in {out}, and the same command resumes" in told.decode()
    assert passes  # rows are finished by their last pass: those of others lie before
    assert "and passes of" in told.decode()
    assert 3 <= kept.count(b"\n") < 60
    study.write_text(FILE.replace("[4, 16]", "{from: 1, to: 6}") + "steps: 200000\n")
    assert "6 configurations" in invoke("study", "run", study, "--folder", out).output
    assert results.read_bytes().startswith(kept)


@pytest.mark.measures
@pytest.mark.words
def test_ctrl_c_in_a_terminal_is_quiet_while_workers_start(study, tmp_path):
    """A terminal interrupts all of a program's processes, the workers in their imports among them."""
    listen = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    program = [sys.executable, "-c", f"{listen}; from perfkit.cli import main; main()"]
    command = [*program, "study", "run", str(study), "--folder", str(tmp_path / "out"), "--jobs", "2", "--batch", "1"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not _descendants(child.pid):
        time.sleep(0.01)
    time.sleep(0.1)
    os.killpg(child.pid, signal.SIGINT)
    _, told = child.communicate(timeout=60)
    assert child.returncode == 130
    assert "Traceback" not in told
    assert "File" not in told


def _descendants(process):
    return Path(f"/proc/{process}/task/{process}/children").read_text().split()


def test_analyse(tmp_path):
    pd.DataFrame({"N": range(40), "t": [1.0] * 20 + [9.0] * 20}).to_csv(tmp_path / "d.csv", index=False)
    (tmp_path / "a.yaml").write_text("categories: {target: t, method: bins, bins: [5]}\ntree: {features: [N]}\n")
    done = invoke("analyse", tmp_path / "a.yaml", "--input", tmp_path / "d.csv", "--output", tmp_path / "o")
    assert done.exit_code == 0, done.output
    assert "N <= 19.5" in done.output
    assert (tmp_path / "o" / "tree.png").exists()


def _table(**columns):
    """A table of eight rows: cycles within 1 %, whatever the ticks do."""
    rows = pd.DataFrame({"N": range(8), "compiler": "gcc", "flags": "-O2", "threads": 1, "message": ""})
    figures = {
        "tsc": 70.0,
        "cycles": 100.0,
        "cycles_low": 100.0,
        "cycles_high": 101.0,
        "settled": False,
        "status": "ok",
    }
    return rows.assign(**{**figures, **columns})


def _shown(capsys, table, metric="tsc", raw=None):
    meta = {"study": "s", "policy": {"metric": metric, "tolerance": 0.02}, "kind": "measured"}
    show_summary(StudyRuns(table, pd.DataFrame() if raw is None else raw, ("N",), meta), Path("out"), as_json=False)
    return " ".join(capsys.readouterr().out.split())


def _passes(table, **figures):
    """Return what two passes over a table found: two values of each figure."""
    rows = [
        {"key": key, "event": "", "attempt": at, **{name: pair[at] for name, pair in figures.items()}}
        for key in table.index
        for at in (0, 1)
    ]
    return pd.DataFrame(rows)


def test_rows_that_settle_in_the_other_clock_say_so(capsys):
    table = _table()
    steady, apart = (100.0, 101.0), (70.0, 90.0)
    moved = _passes(table, cycles=steady, tsc=apart)
    moved.loc[(moved["key"] == table.index[0]) & (moved["attempt"] == 1), "cycles"] = 120
    told = (
        f"in {len(table) - 1} of {len(table)} rows that never settled (tsc) the core cycles did: the clock's rate moved"
    )
    assert told in _shown(capsys, table, raw=moved)
    assert "never settled (" not in _shown(capsys, table, "cycles", moved)
    assert "rate moved" not in _shown(capsys, _table(settled=True), raw=moved)
    waits = _shown(capsys, table, "cycles", _passes(table, cycles=apart, tsc=steady))
    assert "(cycles) the TSC ticks did" in waits
    assert "{metric: tsc}" in waits
    by_chance = _passes(table, cycles=(10.0, 10.3), tsc=(6.0, 6.1))  # of a short region: each advised the other
    assert "never settled (" not in _shown(capsys, table, "cycles", by_chance)


def test_the_figure_that_had_to_settle_is_shown_first(capsys):
    told = _shown(capsys, _table(ns=31.5, ns_low=31.0, ns_high=32.0), "ns")
    assert "ns ns_low ns_high cycles cycles_low cycles_high" in told


def test_a_dimension_stays_in_the_table_where_one_row_alone_was_measured(capsys):
    table = _table()
    table.loc[table.index[1:], "status"] = "failed"
    assert _shown(capsys, table).split()[0] == "N"
    assert _shown(capsys, _table(N=5)).split()[0] != "N"


def test_a_table_written_as_csv_says_what_data_it_is(tmp_path):
    runs = StudyRuns(_table(), pd.DataFrame(), ("N",), {"kind": "measured"})
    write_table(runs, tmp_path / "t.csv")
    assert read_tables(("t.csv",), tmp_path).attrs["kind"] == "measured"


def test_rows_that_a_budget_predicted_are_not_written_as_measured(tmp_path):
    """The column `kind` said "measured" of 204 rows that were not."""
    table = _table(status=["ok"] * 5 + ["predicted"] * 2 + ["failed"])
    write_table(StudyRuns(table, pd.DataFrame(), ("N",), {"kind": "measured"}), tmp_path / "t.csv")
    assert pd.read_csv(tmp_path / "t.csv")["kind"].to_list() == ["measured"] * 5 + ["predicted"] * 2 + ["failed"]
    assert read_tables(("t.csv",), tmp_path).attrs["kind"] == "measured"


def test_a_study_that_nothing_changes_says_so(capsys):
    """84 configurations of 1.004 cycles, whose loops the compiler had removed, were shown without a word."""
    told = _shown(capsys, _table(tsc=[70.0, 71.0] * 4))
    assert "all 8 measured rows take the same time, within 2%: none of N changes it. If you expected" in told
    assert "same time" not in _shown(capsys, _table(tsc=[70.0] * 7 + [72.0]))
    assert "same time" in _shown(capsys, _table(tsc=[0.01] * 7 + [0.03]))
    assert "same time" not in _shown(capsys, _table().head(3))
    assert "same time" not in _shown(capsys, _table(N=4))


def test_settled_rows_with_a_second_slower_state_say_so(capsys):
    told = _shown(capsys, _table(settled=True, cycles_high=[300.0] + [101.0] * 7))
    assert "in 1 of 8 settled rows a quiet pass took over 15% longer than the fastest, up to 3 times as long" in told
    assert "quiet pass" not in _shown(capsys, _table(settled=True))


def test_studies_and_analyses_are_told_apart(tmp_path):
    (tmp_path / "a.yaml").write_text("categories: {target: t, method: bins, bins: [5]}\ntree: {features: [N]}\n")
    (tmp_path / "s.yaml").write_text("kernel: k.c\ndimensions: {N: [1]}\n")
    assert "`perfkit analyse` reads it" in str(invoke("study", "run", tmp_path / "a.yaml").exception)
    assert "`perfkit study run` measures it" in str(invoke("analyse", tmp_path / "s.yaml").exception)


def test_failures_that_are_not_listed_are_counted(capsys):
    failed = _table(status="failed", message="the kernel crashed")
    assert "... and 3 more that failed" in _shown(capsys, failed)
    assert "more that failed" not in _shown(capsys, failed.head(5))


def test_no_compiler_goes_on_after_the_command_was_killed(tmp_path):
    calls = tmp_path / "calls"
    (tmp_path / "slow").write_text(
        f'#!/bin/sh\ncase "$*" in *--version*) echo 1; exit 0;; esac\necho begun >> {calls}\nsleep 0.5\nexec gcc "$@"\n'
    )
    (tmp_path / "slow").chmod(0o755)
    (tmp_path / "k.c").write_text(KERNEL)
    (tmp_path / "s.yaml").write_text(
        f"kernel: k.c\ncompilers: [{tmp_path / 'slow'}]\ndimensions: {{N: {{from: 1, to: 300}}}}\n"
    )
    words = [sys.executable, "-m", "perfkit", "study", "run", "s.yaml", "--folder", "out", "--jobs", "2"]
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as command:
        end = time.monotonic() + 60
        while (not calls.exists() or len(calls.read_text().split()) < 2) and time.monotonic() < end:
            time.sleep(0.1)
        command.kill()
    time.sleep(1.0)  # those that had begun
    begun = calls.read_text().split()
    assert 2 <= len(begun) < 300
    time.sleep(1.5)
    assert calls.read_text().split() == begun
