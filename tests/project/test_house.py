"""The promises of the house: quick import, lazy names, locks and files without addresses or machine paths."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import perfkit

ROOT = Path(__file__).resolve().parents[2]
TEXT = {
    ".py",
    ".md",
    ".toml",
    ".lock",
    ".txt",
    ".ipynb",
    ".yaml",
    ".yml",
    ".json",
    ".js",
    ".css",
    ".c",
    ".h",
    ".sh",
    "",
}


def tracked() -> list[Path]:
    """The files that git tracks, or, in a tree without git, all of them but the environment's."""
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode == 0 and done.stdout:
        return [ROOT / line for line in done.stdout.splitlines() if (ROOT / line).is_file()]
    return [p for p in ROOT.rglob("*") if p.is_file() and not {".venv", ".git", "gallery"} & set(p.parts)]


def text_files() -> list[Path]:
    return [p for p in tracked() if p.suffix in TEXT]


@pytest.mark.measures
def test_import_is_quick_and_loads_no_heavy_library():
    code = (
        "import sys, time; t = time.perf_counter(); import perfkit; s = time.perf_counter() - t;"
        "heavy = {'numpy', 'pandas', 'numba', 'matplotlib', 'scipy', 'pyarrow'} & set(sys.modules);"
        "assert not heavy, heavy; assert s < 0.5, s"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_every_public_name_can_be_loaded():
    for name in perfkit.__all__:
        assert getattr(perfkit, name) is not None
    with pytest.raises(AttributeError, match="No perfkit attribute Smaples"):
        perfkit.Smaples  # noqa: B018


def test_locks_pin_by_hash_and_record_no_address():
    for lock in (ROOT / "locks").glob("*.lock"):
        text = lock.read_text()
        assert not re.search(r"https?://|--index-url|--extra-index-url|--find-links", text), lock.name
        pins = [line for line in text.splitlines() if re.match(r"^[A-Za-z0-9]", line)]
        assert pins
        assert all(re.match(r"^[A-Za-z0-9._-]+==\S+", p) for p in pins)
        assert text.count("--hash=sha256:") >= len(pins)


def test_no_file_names_a_package_registry():
    hosts = re.compile("|".join(map(re.escape, ["pypi" + ".org", "pythonhosted" + ".org", "registry" + ".npmjs"])))
    assert [p for p in text_files() if hosts.search(p.read_text(errors="replace"))] == []


def test_no_file_holds_a_path_of_the_machine_it_was_written_on():
    paths = re.compile("/wor" + "k/(main|wt|shared)|/ro" + "ot/|/ho" + "me/[a-z]+/")
    assert [p for p in text_files() if paths.search(p.read_text(errors="replace"))] == []


def test_bqplot_gl_is_not_installed():
    """Its presence silently stops bqplot's brushes from reaching Python."""
    import importlib.util

    assert importlib.util.find_spec("bqplot_gl") is None
    for lock in (ROOT / "locks").glob("*.lock"):
        assert "bqplot-gl" not in lock.read_text()


def test_every_module_says_what_it_is_for():
    for path in [*ROOT.glob("perfkit/**/*.py"), *ROOT.glob("widgets/**/*.py")]:
        if path.name == "_version.py":
            continue
        assert path.read_text().lstrip().startswith('"""'), path


def test_links_between_documents_lead_somewhere():
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]
    links = [(p, target) for p in pages for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", p.read_text())]
    assert links
    assert [f"{page.name}: {target}" for page, target in links if not (page.parent / target).exists()] == []


def test_what_is_started_does_not_import_from_the_users_folder():
    """-P, -I, or without its first place: a user's own random.py would be taken for Python's otherwise."""
    started = [
        (path.name, line.strip())
        for path in (ROOT / "perfkit").rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.search(r'sys\.executable, "-', line) and "cmd[:3]" not in line and '"-c", start' not in line
    ]
    assert len(started) >= 7
    assert [each for each in started if not re.search(r'sys\.executable, "-[PI]"', each[1])] == []
