"""`perfkit dag`."""

import html
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import perfkit as pk
from perfkit.cli.main import app
from perfkit.errors import SettingError
from perfkit.machine.recognise import Recognised
from perfkit.scoring.dag_gus import checked
from tests.simulators.assembled import loop, needs_assembler

RUN = CliRunner()


def test_kernel_prints_verdict_and_roofs(tmp_path):
    picture = tmp_path / "plot.png"
    done = RUN.invoke(app, ["dag", "kernel", "reduction", "--size", "500", "--set", "rs=20", "--picture", str(picture)])
    assert done.exit_code == 0, done.output
    assert "flops/cycle" in done.output
    assert "peak computation" not in done.output.split("\n\n")[0]
    assert "throughput" in done.output
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_all_instructions_take_more_cycles():
    def performance(*options):
        done = RUN.invoke(app, ["dag", "kernel", "mmm_sixfold", "--size", "20", "--core", "zen4", *options])
        assert done.exit_code == 0, done.output
        return float(re.search(r"([\d.]+) flops/cycle", done.stdout)[1])

    assert performance("--count-all") < 0.7 * performance()


def test_wrong_settings_are_named():
    for arguments, words in (
        (["--set", "rs"], "PARAMETER=NUMBER"),
        (["--set", "speed=1"], "unknown parameter speed"),
        (["--set", "rob=100", "--set", "rob=200"], "rob has a value already"),
    ):
        done = RUN.invoke(app, ["dag", "kernel", "mvm", *arguments])
        assert isinstance(done.exception, SettingError)
        assert words in str(done.exception)


def test_what_is_missing_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("k.c").write_text("void f(double *a, long n) { for (long i = 0; i < n; i++) a[i] = a[i] / 3; }\n")
    for call, words in (
        (["progs/absent", "-f", "f", "--", "3"], "progs/absent: no such file"),
        (["absent.c", "-f", "f", "--sizes", "28", "--", "3"], "absent.c: no such file"),
        (["k.c", "-f", "f", "--", "f8[N]", "N"], "N stands for a size in the arguments, and no size is given"),
    ):
        done = RUN.invoke(app, ["dag", "run", *call])
        assert words in str(done.exception)


@pytest.mark.parametrize("sizes", ["0", "10.5", "100,-1"])
def test_sizes_are_whole_numbers_from_1_on(sizes):
    done = RUN.invoke(app, ["dag", "run", "no.c", "-f", "f", "--sizes", sizes, "--", "f8[N]", "N"])
    assert isinstance(done.exception, SettingError)
    assert f"--sizes takes whole numbers from 1 on, separated by commas; found {sizes!r}" in str(done.exception)


def test_sweep_keeps_and_goes_on(tmp_path):
    arguments = [
        "dag",
        "sweep",
        "reduction",
        "rs",
        "54",
        "20",
        "inf",
        "--size",
        "500",
        "--cold",
        "--folder",
        str(tmp_path),
    ]
    first, second = RUN.invoke(app, arguments), RUN.invoke(app, arguments)
    assert first.exit_code == 0, first.output
    assert len(list(tmp_path.glob("*.json"))) == 3
    assert first.stdout == second.stdout
    assert [line.split()[0] for line in first.stdout.splitlines()] == ["rs", "54", "20", "inf"]


def test_own_code_in_every_language(tmp_path, monkeypatch):
    (tmp_path / "own folder").mkdir()
    monkeypatch.chdir(tmp_path / "own folder")
    source = "double sum(const double *x, long n) { double s = 0; for (long i = 0; i < n; i++) s += x[i]; return s; }"
    Path("sum.c").write_text(source)
    Path("scale.py").write_text("def scale(x, a):\n    for i in range(x.size):\n        x[i] *= a\n")
    for arguments in (
        ["--source", "sum.c", "-f", "sum", "--arguments", "f8[N], N", "--sizes", "100,200"],
        ["--python", "scale.py:scale", "--arguments", "f8[100], 2.0", "--set", "inflight_blocking=1"],
        ["--trace", "triad"],
    ):
        if "--source" in arguments and shutil.which("clang") is None:
            continue
        done = RUN.invoke(app, ["dag", *arguments, "--core", "zen4"])
        assert done.exit_code == 0, done.output
        assert "twice as good would gain" in done.stdout
        assert done.stdout.count("(simulated): ") == 2 * (1 + ("--sizes" in arguments))
        assert "\r" not in done.stderr  # no bar where nobody looks
    assert "Gus agrees" in done.stdout


def test_own_code_that_is_not_there():
    for arguments, words in (
        (["--trace", "nosuch"], "no trace"),
        (["sum.c"], "sum.c: no such file"),
        (["--core", "zen4"], "say what"),
    ):
        done = RUN.invoke(app, ["dag", *arguments])
        assert done.exit_code
        assert words in str(done.exception)


def test_own_code_meets_the_core_of_this_machine_and_the_papers_kernels_say_where_they_run(monkeypatch):
    """Issue: one command took skylake_x where all others took the host's core."""
    host = Recognised("zen3", exact=True, processor="a processor of this test", reason="as told")
    monkeypatch.setattr("perfkit.machine.core.recognised_host", lambda: host)
    done = RUN.invoke(app, ["dag", "run", "triad", "--no-relax"])
    assert " on zen3 (simulated)" in done.stdout
    done = RUN.invoke(app, ["dag", "kernel", "reduction", "--size", "50"])
    assert " on sandy_bridge_erm (simulated)" in done.stdout
    assert "the paper's machine" in done.stderr
    done = RUN.invoke(app, ["dag", "kernel", "reduction", "--size", "50", "--core", "host"])
    assert " on zen3 (simulated)" in done.stdout
    assert not done.stderr


@pytest.mark.parametrize(("times", "told"), [(1.1, ""), (1.9, "1.9 times"), (0.5, "0.5 times")])
def test_a_measured_time_far_from_the_simulated_one_is_in_the_verdict(tmp_path, monkeypatch, times, told):
    from perfkit.collectors.dag import kernel_timing

    source = tmp_path / "k.c"
    source.write_text("void f(double *a, long n) { for (long i = 0; i < n; i++) a[i] = a[i] / 3; }\n")
    call = ["dag", "run", str(source), "-f", "f", "--no-relax", "--json", "--measure", "--", "f8[500]", "500"]
    simulated: list[float] = [1000.0]

    def measured(dag, warm):
        return kernel_timing.KernelCycles(dag.name, np.full(5, times * simulated[0]), 0)

    monkeypatch.setattr(kernel_timing, "measure_kernel", measured)
    simulated[0] = json.loads(CliRunner().invoke(app, call).stdout)[0]["cycles"]
    (row,) = json.loads(CliRunner().invoke(app, call).stdout)
    assert [told in doubt for doubt in row["doubts"]] == [True] * bool(told)
    assert ("Do not rely on these cycles: measured here" in row["verdict"]) == bool(told)
    assert ("what this DAG lacks decides" in row["verdict"]) == (times > 1.5)
    assert ("calls in a row overlap" in row["verdict"]) == (times < 1)
    other = "zen4" if row["core"] != "zen4" else "zen5"  # what this machine takes says nothing of another core
    assert json.loads(CliRunner().invoke(app, [*call[:3], "--core", other, *call[3:]]).stdout)[0]["doubts"] == []


@needs_assembler
@pytest.mark.parametrize(
    ("switches", "doubts", "notes"),
    [
        ([], 1, 0),
        (["--no-relax"], 1, 0),
        (["--no-gus"], 0, 1),
        (["--no-relax", "--no-gus"], 0, 1),
    ],
)
def test_gus_contradicting_the_cycles_is_a_doubt_wherever_these_are_told(tmp_path, switches, doubts, notes):
    """A load from each of 6,000 pages, whose walks are Gus's alone. Only its sentence in the text said so."""
    trace = loop("mov rax,[rsi]\ndec r15\njnz .", 6000, lambda turn, _: (1 << 20) + 4160 * turn)
    trace.save(tmp_path / "walks.trace")
    call = ["dag", "run", "--trace", str(tmp_path / "walks.trace"), "--core", "zen4", *switches]
    done = RUN.invoke(app, [*call, "--json", "-o", str(tmp_path / "page.html")])
    assert done.exit_code == 0, done.output
    (row,) = json.loads(done.stdout)
    told = RUN.invoke(app, call).stdout
    page = html.unescape((tmp_path / "page.html").read_text())
    said = [doubt for doubt in row["doubts"] if doubt.startswith("Gus takes ")]
    assert (len(said), len([note for note in row["notes"] if "nothing has checked" in note])) == (doubts, notes)
    for sentence in said:
        assert f"{row['cycles']:,} are scheduled (-" in sentence
        assert f"Do not rely on these cycles: {sentence}." in told
        assert sentence in page
    for note in row["notes"]:
        assert f"Note: {note}." in told
        assert note in page


def test_a_contradicted_schedule_keeps_the_doubt_in_its_file(tmp_path):
    machine = pk.Microarchitecture.load("zen4")
    source = pk.open_dags("triad", core=machine)["triad"]
    schedule = pk.DagScheduler(machine, record=False).run(source)
    assert checked(schedule, source.trace, machine) is schedule
    apart = replace(schedule, counts=3 * schedule.counts)  # three times the cycles
    (doubt,) = checked(apart, source.trace, machine).doubts
    assert "(+" in doubt
    assert pk.Schedule.load(checked(apart, source.trace, machine).save(tmp_path / "s.npz")).doubts == (doubt,)


def test_whom_to_believe_follows_from_what_was_measured_on_the_cores_own_machine(tmp_path, monkeypatch):
    from perfkit.collectors.dag import kernel_timing

    source = tmp_path / "k.c"
    source.write_text("void f(double *a, long n) { for (long i = 0; i < n; i++) a[i] = a[i] / 3; }\n")
    call = ["dag", "run", str(source), "-f", "f", "--json", "--measure", "--", "f8[100]", "100"]

    def measured(dag, warm):
        return kernel_timing.KernelCycles(dag.name, np.full(5, 123_456.0), 0)

    monkeypatch.setattr(kernel_timing, "measure_kernel", measured)
    (row,) = json.loads(CliRunner().invoke(app, call).stdout)
    assert "123,456 measured" in row["gus"]["sentence"]
    other = "zen4" if row["core"] != "zen4" else "zen5"
    (row,) = json.loads(CliRunner().invoke(app, [*call[:3], "--core", other, *call[3:]]).stdout)
    assert "measured" not in row["gus"]["sentence"]


@pytest.mark.parametrize("relax", ["--relax", "--no-relax"])
def test_the_page_of_one_kernel_says_what_the_command_says(tmp_path, relax):
    page = tmp_path / "page.html"
    done = RUN.invoke(app, ["dag", "--trace", "triad", "--core", "zen4", relax, "-o", str(page)])
    assert done.exit_code == 0, done.output
    text = html.unescape(page.read_text())
    assert "<h1>" in text
    assert "Extended roofline: triad on zen4 (simulated)" in text
    assert done.stdout.splitlines()[0] in text
    assert re.search(r'<div class="wide"><svg [^>]*>', text)
    assert ".wide > svg { filter: invert" in text, "on a dark page, as pictures are"
    assert ("What each better resource gains" in text) == (relax == "--relax")
    assert ("What Gus says" in text) == (relax == "--relax")


def test_the_page_of_several_has_a_row_of_each(tmp_path):
    page = tmp_path / "page.html"
    done = RUN.invoke(app, ["dag", "triad,fig1a", "--core", "zen4", "-o", str(page)])
    assert done.exit_code == 0, done.output
    text = html.unescape(page.read_text())
    assert "<h1>2 kernels below the roofs of zen4</h1>" in text
    assert text.count("Roofs that hit the point: ") == 2
