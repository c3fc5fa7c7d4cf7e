"""Every source can be followed by whoever has the repository, and the licences travel with what they cover."""

import ast
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
import yaml

import perfkit as pk
from perfkit.machine.core import Microarchitecture

ROOT = Path(__file__).resolve().parents[2]
# Words of a source that only someone else has.
ELSEWHERE = re.compile(r"design notes|preceded perfkit|shared/|private|internal|unpublished", re.IGNORECASE)
LICENCES = ["LICENSE", "NOTICE", "LICENSES/Apache-2.0-with-LLVM-exceptions.txt"]


def sources():
    """(where, text) of every source that a figure or a data set names."""
    for name in Microarchitecture.names():
        core = Microarchitecture.load(name)
        yield from ((f"{name}.toml", text) for text in core.sources.values())
    for path in (ROOT / "perfkit" / "machine" / "cores" / "corrections").glob("*.toml"):
        yield path.name, path.read_text()
    for dataset in pk.datasets.catalogue():
        yield dataset.name, f"{dataset.source} {dataset.holds}"
    for path in (ROOT / "data").rglob("manifest.toml"):
        yield str(path.relative_to(ROOT)), path.read_text()


def test_no_source_lies_outside_the_repository():
    found = list(sources())
    assert len(found) > 50
    assert [(where, text[:120]) for where, text in found if ELSEWHERE.search(text)] == []


def test_pages_that_sources_cite_are_there():
    cited = {(where, page) for where, text in sources() for page in re.findall(r"\b(?:docs/)?[\w-]+\.md\b", text)}
    assert cited
    assert [(where, page) for where, page in cited if not (ROOT / page).is_file()] == []


def test_files_that_documents_name_are_there():
    """Paths in README, CONTRIBUTING and docs; capital letters in a name stand for what the reader chooses."""
    named = {
        (page.name, path.rstrip("./"))
        for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md"))
        for path in re.findall(
            r"(?<![\w/.-])(?:perfkit|tests|data|scripts|notebooks|docs|widgets|binder)/[\w./-]+", page.read_text()
        )
        if not re.search(r"NAME|METHOD|70_name", path)
    }
    assert len(named) > 40
    assert [one for one in sorted(named) if not (ROOT / one[1]).exists()] == []


def test_the_page_of_machines_holds_the_figures_of_the_core_files():
    """Buffers and latencies, core by core; the note of one that differs says why."""
    lines = (ROOT / "docs" / "machines.md").read_text().splitlines()
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    column = {
        "sandy_bridge": 1,
        "skylake_x": 2,
        "ice_lake": 3,
        "alder_lake_p": 4,
        "zen3": 5,
        "zen4": 6,
        "cortex_a72": 7,
    }
    row = {cells[0]: cells for cells in table}
    names = {
        "front_end": "rename width", "retire": "retire width", "rob": "reorder buffer",
        "load_buffer": "load / store buffer", "store_buffer": "load / store buffer",
        "line_fill_buffers": "line fill buffers",
        "L2_latency": "L2 size / ways, latency", "L3_latency": "L3, latency",
    }  # fmt: skip
    agree = 0
    for core, k in column.items():
        for resource in Microarchitecture.load(core).resources.values():
            if resource.name in names:
                said = row[names[resource.name]][k]
                same = bool(re.search(rf"\b{resource.value:g}\b", said))
                noted = bool(resource.note)
                assert same or noted, f"{core} {resource.name} {resource.value:g}: {said}"
                agree += same
    assert agree > 50


def test_no_figure_rests_on_the_page_of_machines():
    """Its table was made by hand, from sources that nobody wrote down."""
    cores = (ROOT / "perfkit" / "machine" / "cores").glob("*.toml")
    texts = {path.stem: path.read_text() for path in cores}
    assert len(texts) > 10
    assert [name for name, text in texts.items() if re.search(r'source = "machines"|^machines = ', text, re.M)] == []


def test_the_text_of_llvms_licence_is_whole():
    text = (ROOT / LICENCES[2]).read_text()
    for part in (
        "Version 2.0, January 2004",
        "9. Accepting Warranty",
        "---- LLVM Exceptions to the Apache 2.0 License ----",
    ):
        assert part in text
    notice = (ROOT / "NOTICE").read_text()
    for pattern in re.findall(r"^    (perfkit/\S+)", notice, re.M):
        assert list(ROOT.glob(pattern)), pattern
    for path in re.findall(r"\b(?:data/make|LICENSES)/[\w.-]+\w", notice):
        assert (ROOT / path).is_file(), path


def test_wheel_and_source_archive_hold_the_licences(tmp_path):
    pytest.importorskip("hatchling", reason="hatchling builds the wheel; it is in the group `build`")
    build = "import sys; from hatchling.build import *; build_wheel(sys.argv[1]); build_sdist(sys.argv[1])"
    subprocess.run([sys.executable, "-c", build, tmp_path], cwd=ROOT, check=True, capture_output=True, timeout=300)
    wheel = zipfile.ZipFile(next(tmp_path.glob("*.whl")))
    names = wheel.namelist()
    for licence in LICENCES:
        assert any(name.endswith(f".dist-info/licenses/{licence}") for name in names), licence
    metadata = wheel.read(next(name for name in names if name.endswith(".dist-info/METADATA"))).decode()
    assert "License-Expression: MIT AND Apache-2.0 WITH LLVM-exception" in metadata
    archive = tarfile.open(next(tmp_path.glob("*.tar.gz"))).getnames()  # noqa: SIM115
    for licence in (*LICENCES, "CITATION.cff"):
        assert any(name.endswith(f"/{licence}") for name in archive), licence


def test_the_citation_says_what_this_is():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= set(cited)
    assert cited["version"] == pk.__version__
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["license"].startswith(cited["license"])
    for reference in cited["references"]:
        assert {"type", "title", "authors"} <= set(reference)


# What perfkit starts as a program (`python -m NAME`), and stubs, which only a type checker reads.
STARTED = {"jupyterlab", "voila"}
READ_BY_A_TYPE_CHECKER = {"pandas-stubs"}


def imported(path):
    """The modules that a file imports, at its top or inside functions, by name or through `of_extra("name")`."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "of_extra":
            yield from (str(word.value).partition(".")[0] for word in node.args if isinstance(word, ast.Constant))


def test_every_dependency_is_used():
    """What nothing imports is not asked of users: pooch was not imported, nor was rich, which typer brings itself."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"], *(each for extra in project["optional-dependencies"].values() for each in extra)]
    names = {re.split(r"[\[<>=;,! ]", each)[0].lower() for each in asked} - {"perfkit"} - READ_BY_A_TYPE_CHECKER
    sources = [path for folder in ("perfkit", "widgets/perfkit_widgets") for path in (ROOT / folder).rglob("*.py")]
    modules = {name for path in sources for name in imported(path)}
    brought_by = packages_distributions()  # reads every package's files
    used = {dist.lower() for name in modules for dist in brought_by.get(name, [name.replace("_", "-")])}
    serving = (ROOT / "perfkit" / "cli" / "serve.py").read_text()
    used |= {name for name in STARTED if f'"-m", "{name}"' in serving}
    assert len(names) > 20
    assert sorted(names - used) == []
