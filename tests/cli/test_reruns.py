"""Many runs of a notebook: resumed after a stop, a full disk and a killed kernel; failures listed and tried again."""

import base64
import csv
import io
import json
import os
import shlex
import signal
import subprocess
import sys
import time

import nbformat
import psutil
import pytest
from PIL import Image
from typer.testing import CliRunner

import perfkit as pk
from perfkit.cli import reruns
from perfkit.cli.main import app
from perfkit.cli.notebook_runs import execute
from perfkit.cli.warm_kernels import WarmKernels, names_in, warm_manager
from perfkit.errors import FormatError, SettingError

pytestmark = pytest.mark.notebook
CODE = """%matplotlib inline
import os, pathlib
import matplotlib.pyplot as plt
import perfkit as pk
pk.record("twice", 2 * a)
pk.record("half", a / 2)
plt.plot([0, a])
plt.show()
place = pathlib.Path(folder) / f"{a} seen"
if a == 2 and not place.exists():
    place.touch()
    os.kill(os.getpid(), 9)
if a == 3 and not (pathlib.Path(folder) / "mended").exists():
    raise ValueError("three")"""


KILLS_ITS_WORKER = """import os, pathlib, time
from perfkit.base.record import record
record("worker", os.getppid())
marker = pathlib.Path(folder) / f"{a} was begun"
first = not marker.exists()
marker.touch()
if a == 2 and first:
    assert os.getppid() != listed[0], "this is the program itself, not a worker"
    os.kill(os.getppid(), 9)
    time.sleep(60)"""


SLEEPS = """%matplotlib inline
import pathlib, time
pathlib.Path(folder, f"{a} began").touch()
time.sleep(30)"""


def made(path, *code):
    """A notebook with a cell of parameters and others of code."""
    parameters = nbformat.v4.new_code_cell(
        'a: int = 1  # a number\nfolder: str = ""  # where to leave marks\nlisted: list = [1]  # some'
    )
    parameters.metadata["tags"] = ["parameters"]
    node = nbformat.v4.new_notebook(cells=[parameters, *map(nbformat.v4.new_code_cell, code)])
    node.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(node, path)
    return path


@pytest.fixture
def notebook(tmp_path):
    return made(tmp_path / "a notebook.ipynb", CODE)


def results(folder):
    with (folder / "results.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.timeout(900)
def test_a_grid_survives_a_killed_kernel_and_tries_again_what_failed(notebook, tmp_path):
    out = tmp_path / "all runs"
    grid = tmp_path / "grid.csv"
    grid.write_text(f"a,folder\n1,{tmp_path}\n2,{tmp_path}\n3,{tmp_path}\n")
    words = ["report", str(notebook), "--grid", str(grid), "-o", str(out), "--jobs", "1"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 1
    assert "2 of 3 runs done (0 from before)" in done.output
    rows = results(out)
    assert [(r["a"], r["twice"], r["half"], r["status"]) for r in rows] == [
        ("1", "2", "0.5", "ok"), ("2", "4", "1.0", "ok"), ("3", "", "", "failed"),
    ]  # fmt: skip
    assert (tmp_path / "2 seen").exists(), "its kernel was killed once"
    index = (out / "index.html").read_text()
    assert "ValueError: three" in index
    assert index.count("thumbnails/") == 2
    pages = {p: p.stat().st_mtime_ns for p in (out / "pages").iterdir()}
    assert len(pages) == 2
    (tmp_path / "mended").touch()
    done = CliRunner().invoke(app, [*words, "--json"])
    assert done.exit_code == 0
    assert [r["kept"] for r in json.loads(done.stdout)["runs"]] == [True, True, False]
    assert [r["status"] for r in results(out)] == ["ok"] * 3
    assert {p: p.stat().st_mtime_ns for p in pages} == pages, "finished pages are not made again"


def test_a_full_disk_stops_the_runs_and_loses_no_finished_page(notebook, tmp_path, monkeypatch):
    out = tmp_path / "out"
    runs = reruns.grid_of(notebook, ["a=1,4,5"], None)
    ran, room = [], [2]

    def executed(path, run, timeout, without):
        ran.append(run.values["a"])
        return nbformat.v4.new_notebook()

    def full(found, place, *_rest):
        if not room[0]:
            raise OSError(28, "No space left on device")
        room[0] -= 1
        (place.parent / "x").touch()

    true = reruns._write_page
    monkeypatch.setattr(reruns, "_executed", executed)
    monkeypatch.setattr(reruns, "_write_page", lambda *given: (full(*given), true(*given)))
    with pytest.raises(pk.errors.UnavailableError, match=r"No space left on device.*Finished pages are kept"):
        reruns.rerun_all(notebook, runs, out, timeout=60, jobs=1)
    assert ran == [1, 4, 5]
    assert len(results(out)) == 2
    room[0] = 9
    records = reruns.rerun_all(notebook, runs, out, timeout=60, jobs=1)
    assert ran == [1, 4, 5, 5]
    assert [r["kept"] for r in records] == [True, True, False]


@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("default")
def test_a_grid_that_is_stopped_says_so_and_nothing_of_its_kernels(tmp_path):
    """Ctrl-C while a cell runs: no kernel tells that it was interrupted."""
    notebook, out = made(tmp_path / "long.ipynb", SLEEPS), tmp_path / "out"
    command = [
        sys.executable,
        "-m",
        "perfkit",
        "report",
        str(notebook),
        "-p",
        "a",
        "1,2",
        "-p",
        "folder",
        str(tmp_path),
    ]
    with subprocess.Popen(
        [*command, "-o", str(out)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as run:
        for _ in range(600):
            if (tmp_path / "1 began").exists():
                break
            time.sleep(0.1)
        assert (tmp_path / "1 began").exists()
        run.send_signal(signal.SIGINT)
        told = run.communicate(timeout=120)[0]
    assert run.returncode != 0
    assert "caught in kernel" not in told
    assert "Traceback" not in told


def test_a_killed_worker_costs_no_page(tmp_path):
    """The second of three runs kills the worker process that it runs on; what was done is not done again."""
    pytest.importorskip("distributed", reason="the optional cluster packages are not installed")
    notebook, out = made(tmp_path / "kills.ipynb", KILLS_ITS_WORKER), tmp_path / "out"
    runs = reruns.grid_of(notebook, ["a=1,2,3", f"folder={tmp_path}", f"listed=[{os.getpid()}]"], None)
    records = reruns.rerun_all(notebook, runs, out, timeout=60, cluster="local:1")
    assert [r["status"] for r in records] == ["ok"] * 3
    workers = [r["recorded"]["worker"] for r in records]
    assert len({*workers, os.getpid()}) == 3, "the first worker was killed, another took over"
    assert workers[0] != workers[1]
    assert len(list((out / "pages").iterdir())) == 3
    again = reruns.rerun_all(notebook, runs, out, timeout=60, cluster="local:1")
    assert [r["kept"] for r in again] == [True] * 3


KILLS_EVERY_WORKER = """import os, pathlib, time
if a == 2:
    assert os.getppid() != listed[0], "this is the program itself, not a worker"
    with (pathlib.Path(folder) / "deaths").open("a") as deaths:
        deaths.write(f"{os.getppid()}\\n")
    os.kill(os.getppid(), 9)
    time.sleep(60)"""


@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("default")
def test_a_run_that_kills_every_worker_costs_only_its_own_row(tmp_path):
    """Three workers die of the second run; it is listed as failed, the others are done, and it is tried again."""
    pytest.importorskip("distributed", reason="the optional cluster packages are not installed")
    notebook, out = made(tmp_path / "kills.ipynb", KILLS_EVERY_WORKER), tmp_path / "out"
    runs = reruns.grid_of(notebook, ["a=1,2,3,4", f"folder={tmp_path}", f"listed=[{os.getpid()}]"], None)
    records = reruns.rerun_all(notebook, runs, out, timeout=60, cluster="local:2")
    assert [r["status"] for r in records] == ["ok", "failed", "ok", "ok"]
    assert "3 workers died of it" in records[1]["error"]
    assert len(set((tmp_path / "deaths").read_text().split())) == 3
    assert [(r["status"], bool(r["page"])) for r in results(out)] == [
        ("ok", True), ("failed", False), ("ok", True), ("ok", True),
    ]  # fmt: skip
    assert "3 workers died of it" in (out / "index.html").read_text()
    assert [reruns.finished(out, r) is None for r in runs] == [False, True, False, False]


@pytest.mark.timeout(900)
def test_a_disk_that_is_full_for_true(tmp_path):
    """A disk of its own with room for the widget libraries and two pages; then with room for all."""
    notebook, disk = made(tmp_path / "big.ipynb", "from IPython.display import HTML\nHTML('x' * 1_000_000)"), "disk"
    (tmp_path / disk).mkdir()
    words = [
        sys.executable,
        "-m",
        "perfkit",
        "report",
        str(notebook),
        "-p",
        "a=1,2,3,4",
        "-o",
        "disk/out",
        "--jobs",
        "1",
    ]
    report = shlex.join(words)
    script = f"""mount -t tmpfs -o size=5500k tmpfs disk || exit 77
    {report}; echo $? > first; ls -l --time-style=full-iso disk/out/pages > before
    mount -o remount,size=50m disk
    {report}; echo $? > second; ls -l --time-style=full-iso disk/out/pages > after; cp disk/out/results.csv ."""
    done = subprocess.run(
        ["unshare", "-rm", "bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip(f"no disk can be mounted here: {done.stderr.strip()}")
    told = done.stderr
    assert (tmp_path / "first").read_text().strip() not in ("0", ""), told
    assert "No space left on device" in told
    assert "Finished pages are kept" in told
    before, after = ((tmp_path / name).read_text().splitlines()[1:] for name in ("before", "after"))
    assert 1 <= len(before) < 4
    assert (tmp_path / "second").read_text().strip() == "0", told
    assert len(after) == 4
    assert set(before) <= set(after), "finished pages are the same files"
    assert f"4 of 4 runs done ({len(before)} from before)" in done.stdout
    with (tmp_path / "results.csv").open(encoding="utf-8", newline="") as file:
        assert [r["status"] for r in csv.DictReader(file)] == ["ok"] * 4


FORKED = """%matplotlib inline
import os, signal, sys
import matplotlib.pyplot as plt
import numpy as np
import perfkit as pk
print(os.getcwd(), __name__, sys.path, signal.getsignal(signal.SIGCHLD), sys.stdin.closed)
print(pk.Microarchitecture.load("zen4").title, sorted(k for k in os.environ if not k.startswith("JPY")))
seen = globals().get("seen", 0) + a
pk.record("seen", seen)
plt.plot([0, a])
plt.title(os.popen("echo out of a shell").read())
plt.show()
pk.record("drawn", np.random.rand())"""


def test_a_forked_kernel_gives_what_a_started_one_gives(tmp_path):
    """The same output to the last byte, nothing of an earlier run, and random numbers of its own."""
    notebook = made(tmp_path / "same.ipynb", FORKED)
    manager = warm_manager(names_in(notebook))
    assert manager is not None
    assert manager is warm_manager(names_in(notebook)), "one process for all runs"
    forked = [execute(notebook, {"a": 3}, 60, quiet=True, many=True) for _ in range(2)]
    started = execute(notebook, {"a": 3}, 60, quiet=True)
    draws = [reruns.recorded(e)["drawn"] for e in (*forked, started)]
    assert len(set(draws)) == 3

    def shown(executed):
        outputs = [o for c in executed.cells for o in c.get("outputs", [])]
        return [o.get("text") or o["data"] for o in outputs if "drawn" not in str(o)]

    assert len(shown(started)) >= 3
    assert shown(forked[0]) == shown(started)
    assert shown(forked[1]) == shown(started)


def test_what_kernels_are_forked_from_is_started_again_when_it_is_killed(tmp_path):
    warm = WarmKernels(["json"])
    try:
        os.kill(warm._process.pid, 9)
        warm._process.wait()
        kernel = warm.fork(["-f", str(tmp_path / "connection.json")], os.environ, str(tmp_path))
        assert kernel.poll() is None
        assert psutil.Process(kernel.pid).ppid() == warm._process.pid
        with pytest.raises(RuntimeError, match="no kernel could be forked in /no/such/folder"):
            warm.fork([], os.environ, "/no/such/folder")
    finally:
        warm.close()
    kernel.wait()  # it ends with what it was forked from
    assert kernel.poll() == 1


def test_what_is_imported_before_a_notebook_runs_is_what_it_names(tmp_path):
    assert set(names_in(made(tmp_path / "a.ipynb", FORKED))) == {
        "matplotlib.pyplot", "numpy", "perfkit", "perfkit.Microarchitecture", "perfkit.record",
    }  # fmt: skip
    own = "%matplotlib inline\nimport mine, pandas as pd\nfrom numpy import linalg\n!ls\nmine.run()"
    assert names_in(made(tmp_path / "b.ipynb", own, "this is no Python")) == ("pandas", "numpy.linalg")
    assert names_in(made(tmp_path / "c.ipynb", "import pandas")) == (), "no %matplotlib inline: started as usual"


@pytest.mark.parametrize("start", ["", "%matplotlib inline\nimport numpy\n"], ids=["started", "forked"])
def test_a_cell_that_takes_too_long_fails_its_run_alone(tmp_path, start):
    notebook = made(tmp_path / "slow.ipynb", f"{start}import time\nif a == 1: time.sleep(60)")
    runs = reruns.grid_of(notebook, ["a=1,2"], None)
    records = reruns.rerun_all(notebook, runs, tmp_path / "out", timeout=2, jobs=1)
    assert [r["status"] for r in records] == ["failed", "ok"]
    assert "a cell took longer than 2 s" in records[0]["error"]


def test_cells_with_a_tag_are_left_out(tmp_path):
    """Runs without them are other runs: pages of the whole notebook are not taken for theirs."""
    notebook = made(tmp_path / "views.ipynb", "raise ValueError('a view')", "import perfkit as pk\npk.record('b', a)")
    node = nbformat.read(notebook, 4)
    node.cells[1].metadata["tags"] = ["view"]
    nbformat.write(node, notebook)
    out = tmp_path / "out"
    words = ["report", str(notebook), "-p", "a=1,2", "-o", str(out), "--jobs", "1"]
    assert CliRunner().invoke(app, words).exit_code == 1
    assert CliRunner().invoke(app, [*words, "--without", "view"]).exit_code == 0
    assert [(r["b"], r["status"]) for r in results(out)] == [("1", "ok"), ("2", "ok")]
    assert len({r.key for w in ("", "view") for r in reruns.grid_of(notebook, ["a=1,2"], None, w)}) == 4


def test_the_thumbnail_is_of_the_cell_that_is_tagged(tmp_path):
    def picture(colour):
        data = io.BytesIO()
        Image.new("RGB", (640, 400), colour).save(data, "PNG")
        shown = nbformat.v4.new_output("display_data", {"image/png": base64.b64encode(data.getvalue()).decode()})
        return nbformat.v4.new_code_cell("", outputs=[shown])

    cells = [picture("red"), picture("lime")]
    for tagged, colour in ((None, (255, 0, 0)), (1, (0, 255, 0))):
        if tagged is not None:
            cells[tagged].metadata["tags"] = ["thumbnail"]
        small = Image.open(io.BytesIO(reruns._thumbnail(nbformat.v4.new_notebook(cells=cells))))
        assert (small.size, small.getpixel((5, 5))) == ((320, 200), colour)


def test_what_is_asked_for_is_checked_before_anything_runs(notebook, tmp_path):
    grid = tmp_path / "grid.csv"
    assert len(reruns.grid_of(notebook, ["a=1,2", "folder=x,y,z", "listed=1,2"], None)) == 6
    grid.write_text("a,b\n1,2\n")
    with pytest.raises(SettingError, match="no parameter 'b'"):
        reruns.grid_of(notebook, [], grid)
    grid.write_text("a\none\n")
    with pytest.raises(SettingError, match="a is of type int; found 'one'"):
        reruns.grid_of(notebook, [], grid)
    grid.write_text("a\n1\n1\n")
    with pytest.raises(SettingError, match="run 2 is asked for twice: a = 1"):
        reruns.grid_of(notebook, [], grid)
    grid.write_text("a,folder\n1\n")
    with pytest.raises(FormatError, match="row 2: 2 cells expected"):
        reruns.grid_of(notebook, [], grid)
    grid.write_text("a\n")
    with pytest.raises(FormatError, match="a row for each run"):
        reruns.grid_of(notebook, [], grid)
    grid.write_text("a\n1\n")
    with pytest.raises(SettingError, match="given by -p and by the table"):
        reruns.grid_of(notebook, ["a=2"], grid)


def test_a_table_means_what_its_cells_say(notebook, tmp_path):
    """Quotes, commas, line breaks of all kinds and characters of all kinds arrive as they stand in the table."""
    texts = ['say "hi", you', "two\nlines", "a\r\nb", "größe \u2028 𝛼", "O'Brien \\ {x} <script>", "  pad ", ""]
    with (tmp_path / "a grid.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["folder", "a"], *([text, i] for i, text in enumerate(texts))])
    runs = reruns.grid_of(notebook, ["listed=1.5, 2"], tmp_path / "a grid.csv")
    assert [r.values["folder"] for r in runs] == texts
    assert [r.values["a"] for r in runs] == list(range(7))
    assert runs[0].values["listed"] == [1.5, 2], "numbers, as the default's are"
    words = made(tmp_path / "words.ipynb")
    words.write_text(words.read_text().replace("listed: list = [1]", "listed: list = ['1']"))
    assert reruns.grid_of(words, ["listed=1.5, 2"], None)[0].values["listed"] == ["1.5", "2"]
    with pytest.raises(SettingError, match=r"listed is of type list; found 'one, 2'"):
        reruns.grid_of(notebook, ["listed=one, 2"], None)


def test_record_takes_plain_values_only(capsys):
    pk.record("cycles", 1200)
    assert capsys.readouterr().out == "cycles = 1200\n"
    for value in ([1], {"a": 1}, float("inf"), None):
        with pytest.raises(SettingError, match="record takes"):
            pk.record("x", value)
    with pytest.raises(SettingError, match="needs a name"):
        pk.record(" ", 1)
