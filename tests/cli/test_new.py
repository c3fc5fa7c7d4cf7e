"""./kit new: what it writes passes its own checks, unchanged."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from perfkit.machine.core import Microarchitecture

RUFF = Path(sys.executable).with_name("ruff")
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def copy(tmp_path):
    """A copy of what the checks need, with what numba has compiled: it holds for the same text of the same time."""
    compiled = (".nbi", ".nbc")

    def ignore(folder, names):
        return [name for name in names if folder.endswith("__pycache__") and not name.endswith(compiled)]

    shutil.copytree(ROOT / "perfkit", tmp_path / "perfkit", ignore=ignore)
    (tmp_path / "tests" / "readers").mkdir(parents=True)
    for folder in ("data", "widgets", "notebooks", "tests/readers/fixtures"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def new(root, *words, status=0):
    done = subprocess.run(
        # -S: as in a fresh clone, where nothing is installed
        [sys.executable, "-S", ROOT / "scripts" / "new.py", *words, "--root", root],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


def check(root, *words):
    environment = {**os.environ, "PYTHONPATH": f"{root}:{root / 'widgets'}"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words],
        cwd=root, capture_output=True, text=True, check=False, timeout=300, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-500:]
    assert " passed" in done.stdout
    linted = subprocess.run([RUFF, "check", "--no-cache", "perfkit"], cwd=root, capture_output=True, check=False)
    assert linted.returncode == 0, linted.stdout
    formatted = subprocess.run([RUFF, "format", "--check", "--no-cache", "perfkit", "tests"], cwd=root, check=False)
    assert formatted.returncode == 0


def test_a_name_in_capitals_is_refused_with_the_one_to_use(tmp_path):
    assert "found 'My-Tool'; use 'my_tool'" in new(tmp_path, "reader", "My-Tool", status=2)


def test_names_that_would_hide_something_are_refused(tmp_path):
    assert "nnls is one of perfkit's own methods" in new(tmp_path, "solver", "nnls", status=2)
    assert "use 'class_format'" in new(tmp_path, "reader", "class", status=2)
    assert not list(tmp_path.iterdir())


def test_a_name_that_a_core_or_notebook_already_goes_by_is_refused(tmp_path):
    assert "host is the name of this machine's core" in new(tmp_path, "core", "host", status=2)
    for core in map(Microarchitecture.load, Microarchitecture.names()):
        for alias in core.aliases:
            if alias.isidentifier():
                said = new(tmp_path, "core", alias, status=2)
                assert f"{alias} is another name of the core {core.name}; choose another name" in said
    assert "spire is short for 10_spire_walkthrough" in new(tmp_path, "notebook", "spire", status=2)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["reader", "solver", "notebook"])
def test_like_is_for_a_core(tmp_path, kind):
    said = new(tmp_path, kind, "my_own", "--like", "zen4", status=2)
    assert f"--like names the core that a new core starts from; a {kind} starts from none" in said
    assert not list(tmp_path.iterdir())


def test_a_core_may_start_from_one_named_by_its_alias(tmp_path):
    new(tmp_path, "core", "hosting", "--like", "sapphire_rapids")
    new(tmp_path, "core", "zen")  # part of other cores' names, which are named in full
    written = tmp_path / "perfkit" / "machine" / "cores"
    assert Microarchitecture.load(written / "hosting.toml").value("rob") == Microarchitecture.load("golden_cove").value(
        "rob"
    )
    assert Microarchitecture.load(written / "zen.toml").value("rob") == Microarchitecture.load("skylake_x").value("rob")


def test_a_core_is_one_file(copy):
    assert "wrote perfkit/machine/cores/my_core.toml" in new(copy, "core", "my_core", "--like", "zen4")
    shutil.copytree(ROOT / "tests" / "machine", copy / "tests" / "machine")
    shutil.copy(ROOT / "tests" / "encoded.py", copy / "tests")
    (copy / "tests" / "simulators").mkdir()
    shutil.copy(ROOT / "tests" / "simulators" / "assembled.py", copy / "tests" / "simulators")
    check(copy, "tests/machine", "-k", "my_core")
    core = Microarchitecture.load(copy / "perfkit" / "machine" / "cores" / "my_core.toml")
    assert core.value("rob") == Microarchitecture.load("zen4").value("rob")
    assert set(core.to_frame()["source"]) <= {"estimate: zen4's figure, to replace", core.sources["model"]}
    told = subprocess.run(
        [sys.executable, "-m", "perfkit", "gus", "fig1a", "--core", "my_core", "--json"],
        cwd=copy, capture_output=True, text=True, check=True, timeout=120, env={**os.environ, "PYTHONPATH": str(copy)},
    )  # fmt: skip
    assert json.loads(told.stdout)["core"] == "my_core"


@pytest.mark.parametrize("kind", ["reader", "solver"])
def test_a_reader_or_solver_is_a_file_and_its_test(copy, kind):
    """Also of a long name: a line of a solver's skeleton grew over the limit of 120 characters."""
    new(copy, kind, "my_own_method_of_this_year")
    found = list((copy / "tests").rglob("test_*my_own_method_of_this_year.py"))
    assert len(found) == 1
    check(copy, str(found[0]))


def test_a_notebook_holds_what_notebooks_must(tmp_path):
    new(tmp_path, "notebook", "70_my_page")
    shutil.copytree(ROOT / "tests" / "notebooks", tmp_path / "tests" / "notebooks")
    shutil.copy(ROOT / "tests" / "warm.py", tmp_path / "tests")
    for folder in ("perfkit", "widgets", "data"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'widgets'}"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/notebooks", "-k", "70_my_page"],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]
    assert " passed" in done.stdout


def test_bad_names_are_refused(copy):
    assert "lower-case letters" in new(copy, "core", "My-Core", status=2)
    assert "already there" in new(copy, "reader", "papi", status=2)
    assert "--like takes the name of a core file: alder_lake_p" in new(copy, "core", "x", "--like", "none", status=2)


def test_the_checks_of_a_reader_find_one_that_takes_every_file(copy):
    """It would read other formats' dumps as its own; a test of its own format alone passes."""
    new(copy, "reader", "greedy")
    path = copy / "perfkit" / "readers" / "greedy.py"
    path.write_text(path.read_text().replace("return head.startswith(_HEADER)", "return True"))
    with pytest.raises(AssertionError, match="test_the_dumps_of_other_formats_are_left_to_their_readers"):
        check(copy, "tests/readers", "-k", "greedy")


def test_the_checks_of_a_core_find_a_name_and_a_processor_that_are_taken(copy):
    shutil.copytree(ROOT / "tests" / "machine", copy / "tests" / "machine")
    new(copy, "core", "my_core", "--like", "zen4")
    path = copy / "perfkit" / "machine" / "cores" / "my_core.toml"
    text = path.read_text()
    for line in ('aliases = ["zen5"]', 'aliases = []\nprocessors = ["GenuineIntel 6 85"]'):
        path.write_text(text.replace("aliases = []", line))
        with pytest.raises(AssertionError, match="already: take it out of"):
            check(copy, "tests/machine/test_microarchitecture.py", "-k", "shares_no_name and my_core")
