"""The documentation site builds without warnings, holds every public name and page; the forge's workflow is sound."""

import re
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
import yaml

import perfkit as pk
import perfkit_widgets as pw

ROOT = Path(__file__).resolve().parents[2]
PAGES = [path for path in (ROOT / "docs").rglob("*.md") if "_build" not in path.parts]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", "docs", str(folder)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.timeout(1200)
def test_every_page_and_every_public_name_is_there(site: Path):
    for page in PAGES:
        assert (site / page.relative_to(ROOT / "docs").with_suffix(".html")).is_file(), page
    inventory = (site / "objects.inv").read_bytes().split(b"\n", 4)[4]
    known = {line.split()[0] for line in zlib.decompress(inventory).decode().splitlines() if " py:" in line}
    names = [f"{m.__name__}.{name}" for m in (pk, pk.course, pw) for name in m.__all__ if not name.startswith("_")]
    assert {name for name in names if name not in known and not isinstance(value_of(name), type(pk))} == set()


def value_of(name: str) -> object:
    package, _, last = name.rpartition(".")
    return getattr({"perfkit": pk, "perfkit.course": pk.course, "perfkit_widgets": pw}[package], last)


def test_the_site_asks_nothing_of_the_network(site: Path):
    loads = re.compile(r"<(?:script|img|iframe|link)\b[^>]*(?:src|href)=\"(?:https?:)?//[^\"]*\"")
    for page in site.rglob("*.html"):
        assert loads.findall(page.read_text()) == [], page
    for style in site.rglob("*.css"):
        assert re.findall(r"url\(['\"]?https?:", style.read_text()) == [], style


def test_every_page_is_reached_from_the_first(site: Path):
    shown = set(re.findall(r'class="reference internal" href="([^"#]+\.html)"', (site / "index.html").read_text()))
    assert {p.relative_to(ROOT / "docs").with_suffix(".html").as_posix() for p in PAGES} - shown == {"index.html"}


def test_links_between_documents_lead_somewhere():
    for page in [*PAGES, ROOT / "README.md", ROOT / "CONTRIBUTING.md"]:
        text = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
        for target in re.findall(r"\]\((?!https?:|mailto:)([^)#\s]+)[^)]*\)", text):
            assert (page.parent / target).exists(), f"{page.relative_to(ROOT)}: {target}"


def test_every_methods_page_says_when_not_to_trust_it():
    table = (ROOT / "docs" / "methods.md").read_text()
    linked = set(re.findall(r"\(([\w-]+)\.md#when-not-to-trust-it\)", table))
    assert linked == set(re.findall(r"^\| \[[^]]+\]\(([\w-]+)\.md\)", table, re.M))
    for page in linked:
        text = (ROOT / "docs" / f"{page}.md").read_text()
        doubts = re.search(r"^## When not to trust it\n\n(.+?)^## ", text, re.M | re.S)
        assert doubts, page
        assert doubts[1].startswith("- "), page


def test_every_tool_of_the_comparison_says_what_it_does_better():
    text = (ROOT / "docs" / "about" / "comparison.md").read_text()
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| **")]
    tools = "VTune pmu-tools LIKWID llvm-mca uiCA OSACA MARTA Hatchet,Thicket coz CodSpeed"
    named = [re.search(r"\*\*(.+?)\*\*", row[0])[1].replace(", ", ",") for row in rows]
    assert named == tools.split()
    for row in rows:
        sources = re.findall(r"\[(\d+)\]", row[1])
        assert sources, row[0]
        assert all(re.search(rf"^{n}\. ", text, re.M) for n in sources), row[0]


def test_the_forges_workflow_is_pinned_and_runs_what_a_person_runs():
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        flow = yaml.safe_load(path.read_text())
        assert set(flow) == {"name", True, "permissions", "concurrency", "jobs"}  # YAML 1.1 reads `on` as true
        assert flow["permissions"] == {"contents": "read"}
        steps = [step for job in flow["jobs"].values() for step in job["steps"]]
        assert all(("uses" in step) != ("run" in step) for step in steps)
        for step in steps:
            assert re.fullmatch(r"[\w-]+/[\w-]+@(v\d+\.\d+\.\d+|[0-9a-f]{40})", step.get("uses", "a/b@v0.0.0")), step
        assert "./kit test" in [step.get("run") for step in steps]
        kit = (ROOT / "kit").read_text()
        for command in re.findall(r"^\./kit (\w+)", "\n".join(step.get("run", "") for step in steps), re.M):
            assert f"\n{command})\n" in kit
