"""./kit and its plain equivalents: which checks run when, and that what is documented is there."""

import itertools
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from _pytest.mark.expression import Expression

ROOT = Path(__file__).resolve().parents[2]
BESIDE = "words or browser and not measures"


@pytest.fixture
def kit(tmp_path):
    """./kit in a folder whose environment is ready and whose programs only say that they were called."""
    (tmp_path / "kit").write_bytes((ROOT / "kit").read_bytes())
    (tmp_path / "kit").chmod(0o755)
    (tmp_path / "locks").mkdir()
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "apt-test.txt").write_text("# nothing\n")
    (tmp_path / "perfkit").mkdir()
    for name in ("locks/dev.lock", "locks/app.lock", "pyproject.toml", "perfkit/_version.py"):
        (tmp_path / name).write_text("same\n")
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name in ("python", "ruff", "mypy", "lint-imports", "jupyter"):
        (programs / name).write_text(f'#!/bin/sh\necho "{name} $@"\n')
        (programs / name).chmod(0o755)
    state = "cat locks/dev.lock pyproject.toml perfkit/_version.py | sha256sum > .venv/.kit-dev"
    subprocess.run(["bash", "-c", state], cwd=tmp_path, check=True)

    def run(*words):
        done = subprocess.run(["./kit", *words], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return run


def test_chosen_tests_run_at_once(kit):
    assert kit("test", "-k", "spire") == ["python -m pytest -k spire"]


def test_all_tests_come_after_all_checks(kit):
    lines = kit("test")
    assert [line.split()[0] for line in lines] == ["ruff", "ruff", "mypy", "lint-imports", "python", "python", "python"]
    together, browsers, alone = (line.partition(" -m pytest")[2] for line in lines[-3:])
    assert together.endswith("-m not measures and not browser")
    assert browsers.endswith(f" -m {BESIDE}")
    assert alone == " -m measures and not words"  # what is left, one at a time


def test_every_test_runs_in_one_part_of_all(kit):
    chosen = [Expression.compile(line.rpartition(" -m ")[2]) for line in kit("test")[-3:]]
    for marks in itertools.product([False, True], repeat=3):
        marked = dict(zip(("browser", "measures", "words"), marks, strict=True))
        if marked["words"] <= marked["measures"]:  # as the next test sees to
            assert sum(one.evaluate(lambda name, **_: marked[name]) for one in chosen) == 1, marked  # noqa: B023


def test_only_files_that_name_a_mark_are_looked_through_for_it(kit, tmp_path):
    for name, mark in {"a": "browser", "b": "measures", "c": "words", "d": "skipif", "benchmarks/e": "browser"}.items():
        path = tmp_path / "tests" / "x" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_name(f"test_{path.name}.py").write_text(f"@pytest.mark.{mark}\n")
    files = [re.findall(r"tests/\S+", line) for line in kit("test")[-3:]]
    assert files == [[], ["tests/x/test_a.py", "tests/x/test_c.py"], ["tests/x/test_b.py"]]


def test_a_mark_that_its_file_does_not_name_is_refused(tmp_path):
    path = tmp_path / "test_made.py"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest", "-c", ROOT / "pyproject.toml",
               "--rootdir", tmp_path, "-p", "no:cacheprovider", path]  # fmt: skip
    for mark, status in (("pytest.mark.measures", 0), ("getattr(pytest.mark, 'measures')", 4)):
        path.write_text(f"import pytest\n@{mark}\ndef test_this(): pass\n")
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == status, done.stdout + done.stderr
    assert "test_this has the mark measures, which its file does not name" in done.stderr


def test_what_measures_for_words_measures():
    asked = [sys.executable, "-m", "pytest", "--co", "-q", "-p", "no:cacheprovider", "-m", "words and not measures"]
    files = [path for path in (ROOT / "tests").rglob("test_*.py") if "pytest.mark.words" in path.read_text()]
    done = subprocess.run([*asked, *files], cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert re.search(r"no tests collected \(\d+ deselected", done.stdout), done.stdout + done.stderr


def test_what_fails_beside_another_browser_is_tried_again_alone(kit, tmp_path):
    python = tmp_path / ".venv" / "bin" / "python"
    python.write_text('#!/bin/sh\necho "python $@"\ncase "$*" in *worksteal*) exit 1;; esac\n')
    browsers, again, _ = kit("test")[-3:]
    assert "-n 3" in browsers
    assert again == "python -m pytest --last-failed -m " + BESIDE
    python.write_text('#!/bin/sh\necho "python $@"\ncase "$*" in *or\\ browser*) exit 1;; esac\n')
    with pytest.raises(AssertionError):  # its status is not 0
        kit("test")


@pytest.mark.parametrize("lock", ["app", "dev"])
def test_nothing_is_installed_that_every_import_of_a_notebook_would_wait_for(lock):
    """A grammar of international addresses, read by a parser of grammars: 1.3 s of each import of jsonschema."""
    named = re.findall(r"^(?:lark|rfc3987-syntax)==.*", (ROOT / "locks" / f"{lock}.lock").read_text(), re.M)
    assert [line for line in named if "sys_platform == 'never'" not in line] == []


def test_new_hands_its_words_on(kit):
    assert kit("new", "core", "x") == ["python scripts/new.py core x"]


def test_help_lists_every_command(kit):
    commands = set(re.findall(r"^([a-z]+)\)$", (ROOT / "kit").read_text(), re.M))
    assert {re.search(r"\./kit ([a-z]+)", line)[1] for line in kit() if "./kit " in line} == commands


@pytest.mark.parametrize("asked", ["help", "--help", "-h"])
def test_help_is_no_unknown_command(asked):
    done = subprocess.run([ROOT / "kit", asked], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "./kit test" in done.stdout


def test_plain_equivalents_are_documented():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    for line in ("pip install -e '.[lab,studies]'", "pytest -k spire", "pre-commit install"):
        assert line in text


def test_pre_commit_hooks_are_local_and_there():
    text = (ROOT / ".pre-commit-config.yaml").read_text()
    assert "://" not in text
    repos = yaml.safe_load(text)["repos"]
    assert [repo["repo"] for repo in repos] == ["local"]
    for hook in repos[0]["hooks"]:
        assert hook["language"] == "system"
        program = next(word for word in hook["entry"].split() if word.startswith(".venv/bin/"))
        assert os.stat(ROOT / program).st_mode & stat.S_IXUSR, program  # noqa: PTH116


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give an environment to somebody else")
def test_an_environment_of_somebody_elses_that_cannot_be_run_is_told(kit, tmp_path):
    """As after root's ./kit setup with a Python in a private folder, here the other way round: nobody's folder."""
    python = tmp_path / ".venv" / "bin" / "python"
    python.unlink()
    python.symlink_to("/nowhere/private/python3")
    os.chown(tmp_path / ".venv", 65534, 65534)
    done = subprocess.run(["./kit", "setup"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert re.search(r"\.venv belongs to \w+, and its Python cannot be run by \w+", done.stderr)
    assert "Make a clone of your own (git clone" in done.stderr


def test_a_new_environment_compiles_the_simulators_and_is_ready_where_they_cannot_be(kit, tmp_path):
    """The first answer of all waited for it, half a minute on an idle machine."""
    (tmp_path / ".venv" / ".kit-dev").unlink()
    python, calls = tmp_path / ".venv" / "bin" / "python", tmp_path / "calls"
    python.write_text(f'#!/bin/sh\necho "$@" >> "{calls}"\ncase "$*" in *util*|*compiling*) exit 1;; esac\n')
    for asked in ("setup", "test"):
        (tmp_path / ".venv" / ".kit-dev").unlink(missing_ok=True)
        kit(asked, *["dev"] * (asked == "setup"))
        said = [line for line in calls.read_text().splitlines() if "compiling" in line or "pytest" in line]
        assert said[0] == "-m perfkit.diagnosis.compiling host"  # before the tests, which use them
        assert len(said) == (1 if asked == "setup" else 4)
        calls.unlink()
    assert (tmp_path / ".venv" / ".kit-dev").is_file()
    kit("setup", "dev")
    assert not calls.exists()


def test_the_hook_for_notebooks_changes_none_that_is_committed(tmp_path):
    """It takes outputs out, and leaves the names of cells alone."""
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    program, *options = next(hook["entry"] for hook in hooks if hook["id"] == "nbstripout").split()
    notebooks = sorted((ROOT / "notebooks").rglob("*.ipynb"))
    copies = [tmp_path / f"{n}.ipynb" for n in range(len(notebooks))]
    for notebook, copy in zip(notebooks, copies, strict=True):
        copy.write_bytes(notebook.read_bytes())
    subprocess.run([Path(sys.executable).with_name(Path(program).name), *options, *copies], check=True, timeout=120)
    assert [a.name for a, b in zip(notebooks, copies, strict=True) if a.read_bytes() != b.read_bytes()] == []


def test_an_environment_that_is_none_is_refused(tmp_path, kit):
    done = subprocess.run(["./kit", "setup", "nix"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "(./kit setup dev); found: nix" in done.stderr
    kit("setup", "dev")


@pytest.mark.parametrize(
    "words", ["check extra", "setup dev extra", "wheel extra", "lock --nix", "docs site extra", "docs kit"]
)
def test_words_without_a_meaning_are_refused(tmp_path, kit, words):
    done = subprocess.run(["./kit", *words.split()], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert re.search(r"takes no further words; found: |kit is a file", done.stderr)
