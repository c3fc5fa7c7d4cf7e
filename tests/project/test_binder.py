"""Binder: the Dockerfile that repo2docker would build, and what it is made of."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from perfkit.course.units import UNITS
from scripts import binder_links

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def dockerfile(tmp_path_factory: pytest.TempPathFactory) -> str:
    # A copy of what git tracks of the configuration: repo2docker looks at the whole folder otherwise, .venv included.
    folder = tmp_path_factory.mktemp("binder")
    for part in ("binder", "locks"):
        shutil.copytree(ROOT / part, folder / part)
    shutil.copy(ROOT / "pyproject.toml", folder)
    program = Path(sys.executable).with_name("jupyter-repo2docker")
    done = subprocess.run(
        [str(program), "--no-build", "--debug", str(folder)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stderr + done.stdout


def test_the_environment_is_the_locked_one(dockerfile: str):
    assert 'pip install --no-cache-dir -r "binder/requirements.txt"' in dockerfile
    # The lock is beside the configuration, so the repository must be copied before pip runs.
    assert dockerfile.index("COPY --chown=0:0 src/ ") < dockerfile.index('-r "binder/requirements.txt"')
    lines = (ROOT / "binder" / "requirements.txt").read_text().splitlines()
    listed = [line for line in lines if line and not line.startswith("#")]
    assert listed == ["-r ../locks/app.lock"]
    assert (ROOT / "binder" / listed[0].removeprefix("-r ")).resolve() == ROOT / "locks" / "app.lock"


def test_programs_and_steps_are_built_in(dockerfile: str):
    assert re.search(r"apt-get install --yes --no-install-recommends .*gcc.*valgrind", dockerfile)
    assert "RUN ./binder/postBuild" in dockerfile
    assert os.access(ROOT / "binder" / "postBuild", os.X_OK)
    assert "-e ." in (ROOT / "binder" / "postBuild").read_text()


def test_python_is_one_that_perfkit_supports(dockerfile: str):
    version = (ROOT / "binder" / "runtime.txt").read_text().strip()
    assert version == "python-3.11"
    assert "py-3.11" in dockerfile or "3.11" in dockerfile


def test_every_notebook_and_unit_has_its_links():
    page = binder_links.PAGE.read_text()
    notebooks = [p.relative_to(ROOT).as_posix() for p in (ROOT / "notebooks").rglob("*.ipynb")]
    for kind in ("lab/tree", "voila/render"):
        assert sorted(re.findall(rf"\?urlpath={kind}/([^)]+)\)", page)) == sorted(notebooks)
    for path, text in binder_links.documents(binder_links.repository_of(page)).items():
        assert path.read_text() == text, f"{path.relative_to(ROOT)}: python scripts/binder_links.py writes it anew"


def test_each_lecturers_page_links_its_unit():
    for unit in UNITS:
        text = (ROOT / "docs" / "course" / f"{unit.name}.md").read_text()
        assert re.findall(r"\?urlpath=lab/tree/notebooks/course/([^)]+)\)", text) == [unit.notebook]


def test_one_command_gives_every_link_the_repositorys_address():
    made = binder_links.documents("ada/kit")
    assert len(made) == 1 + len(UNITS)
    for text in made.values():
        assert set(re.findall(r"mybinder\.org/v2/gh/([^?]+)\?", text)) == {"ada/kit/HEAD"}
    assert binder_links.main(["no address"]) == 2


@pytest.mark.skipif(
    os.environ.get("PERFKIT_SIMULATE_BINDER") != "1",
    reason="takes minutes: set PERFKIT_SIMULATE_BINDER=1, or run scripts/simulate_binder.sh",
)
@pytest.mark.timeout(1800)
def test_every_notebook_and_unit_runs_in_a_fresh_environment():
    subprocess.run([str(ROOT / "scripts" / "simulate_binder.sh")], check=True, timeout=1700)
