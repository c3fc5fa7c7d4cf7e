"""Arrows between modules point one way: the contracts of pyproject.toml, each broken on purpose.

import-linter sees every import, those inside functions included. It cannot see an estimator that comes through the
public namespace or as an argument, nor a module that is imported by its name as text: those are looked for in the
source, and planted here as well.
"""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).resolve().parents[2]
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]

# What estimators, simulators and collectors are asked to do. A widget shows a result; a question that takes a fit or a
# simulation is answered by a function that the notebook hands to it.
COMPUTES = {"fit", "run", "collect", "trace", "simulate"}
# Statistics, which the picture of a result would have to repeat: they belong to `perfkit`.
COMPUTES |= {"quantile", "nanquantile", "percentile", "nanpercentile", "histogram", "bincount", "polyfit", "accumulate"}
COMPUTES |= {"median", "nanmedian", "mean", "nanmean", "average", "std", "var", "corr", "groupby", "rolling", "dot"}
# The modules that may import others by their name as text: results from plots (`draw`), readers of their own package,
# the loaders of data sets, the program's commands, solvers found by their file's name, and a user's own module.
BY_NAME = {
    "perfkit/cli/main.py",
    "perfkit/fitters/cpi/estimator.py",
    "perfkit/base/results.py",
    "perfkit/errors.py",  # packages of extras
    "perfkit/readers/recognise.py",
    "perfkit/datasets.py",
    "perfkit/base/warm.py",  # what it is told to import
    "perfkit/collectors/dag/python_function.py",
    "perfkit/collectors/tracer/child.py",  # the user's script
}


# What imports a module by its name as text.
IMPORTERS = {
    "import_module", "__import__", "resolve_name", "runpy", "run_module", "run_path", "module_from_spec", "exec_module",
    "load_module", "SourceFileLoader", "__loader__",
}  # fmt: skip

MOST_ARROWS = 89


@pytest.fixture(scope="module")
def sources_copy(tmp_path_factory):
    """A copy of the packages' sources; import-linter's cache in it serves all tests."""
    root = tmp_path_factory.mktemp("copy")
    skipped = shutil.ignore_patterns("__pycache__", "*.toml", "*.gz", "*.js", "*.css", "*.c", "*.h")
    shutil.copytree(ROOT / "perfkit", root / "perfkit", ignore=skipped)
    shutil.copytree(ROOT / "widgets" / "perfkit_widgets", root / "widgets" / "perfkit_widgets", ignore=skipped)
    shutil.copy(ROOT / "pyproject.toml", root)
    return root


@pytest.fixture
def copy(sources_copy):
    """The copy, to plant something in; what was planted is taken out again."""
    before = {p: p.read_text() for p in sources_copy.rglob("*.py")}
    yield sources_copy
    for p in sources_copy.rglob("*.py"):
        if p not in before:
            p.unlink()
        elif p.read_text() != before[p]:
            p.write_text(before[p])
    for folder in sorted(sources_copy.rglob("*/"), reverse=True):
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def broken(root: Path) -> set[str]:
    """Return the ids of the contracts that the packages in a folder break."""
    path = os.pathsep.join([str(root), str(root / "widgets")])
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from importlinter.cli import lint_imports_command; lint_imports_command()",
            "--no-logo",
        ],
        cwd=root,
        env={**os.environ, "PYTHONPATH": path, "COLUMNS": "300", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    verdicts: dict[str, bool] = {}
    lines = done.stdout.splitlines()
    for contract in CONTRACTS:
        verdict = re.compile(re.escape(contract["name"]) + r" (KEPT|BROKEN)( \(\d+ ignored imports?\))?")
        found = [match[1] for line in lines if (match := verdict.fullmatch(line))]
        assert len(found) == 1, done.stdout + done.stderr
        verdicts[contract["id"]] = found[0] == "BROKEN"
    assert done.returncode == any(verdicts.values())
    return {name for name, is_broken in verdicts.items() if is_broken}


def plant(root: Path, module: str, code: str) -> None:
    """Append a function that imports something to a module."""
    path = root / module
    path.write_text(path.read_text() + f"\n\ndef _planted():\n    {code}\n")


def sources(root: Path, folder: str) -> dict[str, ast.Module]:
    return {str(p.relative_to(root)): ast.parse(p.read_text()) for p in sorted((root / folder).rglob("*.py"))}


def called(tree: ast.Module) -> set[str]:
    """Return the names of the functions and methods that a module calls."""
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return {f.attr if isinstance(f, ast.Attribute) else f.id for f in calls if isinstance(f, ast.Attribute | ast.Name)}


def computing_widgets(root: Path) -> set[tuple[str, str]]:
    """Return (module, method) of every call in a widget that computes; `thinning` only chooses which points to draw."""
    parsed = sources(root, "widgets/perfkit_widgets")
    found = {path: called(tree) & COMPUTES for path, tree in parsed.items() if not path.endswith("thinning.py")}
    return {(path, name) for path, names in found.items() for name in names}


def importing_by_name(root: Path) -> set[str]:
    """Return the modules that import others by their name as text, whatever they call the function that does it."""
    files = [p for folder in ("perfkit", "widgets/perfkit_widgets") for p in (root / folder).rglob("*.py")]
    likely = [p for p in files if any(name in p.read_text() for name in IMPORTERS)]
    return {str(p.relative_to(root)) for p in likely if named(ast.parse(p.read_text())) & IMPORTERS}


def named(tree: ast.Module) -> set[str]:
    """Return the names that a module reads or imports, before they are renamed, and its words that are one name."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.ImportFrom | ast.Import):
            found |= {part for alias in node.names for part in alias.name.split(".")}
            found |= set((getattr(node, "module", None) or "").split("."))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
    return found


def without_init(root: Path) -> set[str]:
    """Return the folders with modules that are no packages, which grimp and import-linter do not look into."""
    files = [p for folder in ("perfkit", "widgets/perfkit_widgets") for p in (root / folder).rglob("*.py")]
    return {str(p.parent.relative_to(root)) for p in files if not (p.parent / "__init__.py").is_file()}


def test_no_more_arrows_between_rooms():
    """A room is a folder or module of perfkit itself; an arrow says that one imports another, however often."""
    graph = grimp.build_graph("perfkit", exclude_type_checking_imports=True, cache_dir=None)
    room = {module: ".".join(module.split(".")[:2]) for module in graph.modules}
    imports = [(room[a], room[b]) for a in graph.modules for b in graph.find_modules_directly_imported_by(a)]
    arrows = Counter(pair for pair in imports if pair[0] != pair[1])
    assert len(arrows) <= MOST_ARROWS, (
        f"{len(arrows)} arrows between {len(set(room.values()))} rooms, {MOST_ARROWS} allowed. Move what is needed to "
        f"a room that is imported already; these rest on one import: {sorted(p for p, n in arrows.items() if n == 1)}"
    )


def test_nothing_is_broken(copy):
    assert broken(copy) == set()


@pytest.mark.parametrize(
    ("module", "code", "contracts"),
    [
        ("perfkit/readers/open.py", "from perfkit.cli import main", {"layers", "acyclic"}),
        ("perfkit/readers/open.py", "import matplotlib.pyplot", {"pictures"}),
        ("perfkit/fitters/topdown.py", "import seaborn", {"pictures"}),
        ("widgets/perfkit_widgets/tree_view.py", "import statistics", {"widgets"}),
        ("perfkit/trace/trace.py", "from perfkit.fitters.spire.model import Spire", {"layers"}),
        ("perfkit/fitters/spire/ranking.py", "from perfkit.plots.spire import plot_ranking", {"layers", "pictures"}),
        ("perfkit/fitters/topdown.py", "from perfkit.simulators.gus.gus import Gus", {"layers"}),
        ("perfkit/fitters/topdown.py", "import perfkit as pk", {"public"}),
        ("perfkit/collectors/kernels.py", "import rich", {"terminal"}),
        ("perfkit/diagnosis/why.py", "import typer", {"terminal"}),
        ("perfkit/base/record.py", "import matplotlib.pyplot", {"pictures"}),
        ("perfkit/exploration/exploration.py", "import rich", {"terminal"}),
        ("perfkit/exploration/exploration.py", "import matplotlib", {"pictures"}),
        ("perfkit/simulators/gus/timing.py", "from perfkit.simulators.gus.gus import Gus", {"acyclic"}),
        ("perfkit/simulators/memory/memory.py", "from perfkit.simulators.gus.gus import Gus", {"acyclic"}),
        ("perfkit/collectors/dag/llvm_ir.py", "import perfkit.collectors.dag.numba_kernel", {"acyclic"}),
        ("perfkit/samples/table.py", "import ipywidgets", {"notebook-libraries"}),
        ("widgets/perfkit_widgets/tree_view.py", "from perfkit.fitters.spire.model import Spire", {"widgets"}),
        ("widgets/perfkit_widgets/tree_view.py", "import scipy.stats", {"widgets"}),
        ("widgets/perfkit_widgets/tree_view.py", "from perfkit.exploration.exploration import explore", {"widgets"}),
        ("widgets/perfkit_widgets/tree_view.py", "from perfkit.diagnosis.why import why", {"widgets"}),
        ("widgets/perfkit_widgets/tree_view.py", "from perfkit.course.unit1 import unit1", {"widgets"}),
        ("widgets/perfkit_widgets/tree_view.py", "import perfkit as pk; pk.Spire().fit(None)", {"public"}),
        ("widgets/perfkit_widgets/tree_view.py", "from perfkit import Spire; Spire().fit(None)", {"public"}),
    ],
)
def test_a_planted_import_breaks_its_contract(copy, module, code, contracts):
    plant(copy, module, code)
    assert contracts <= broken(copy)


def test_contracts_that_list_packages_list_all_but_those_that_may():
    packages = {f"perfkit.{p.name}" for p in (ROOT / "perfkit").iterdir() if (p / "__init__.py").is_file()}
    may = {"pictures": {"perfkit.cli", "perfkit.plots"}, "terminal": {"perfkit.cli"}}
    listed = {each["id"]: set(each["source_modules"]) for each in CONTRACTS if each["id"] in may}
    assert {name: packages - modules for name, modules in listed.items()} == may


def test_a_module_in_no_layer_breaks_the_contract(copy):
    (copy / "perfkit" / "helpers.py").write_text('"""A module that nobody placed."""\n')
    assert broken(copy) == {"layers"}


def test_widgets_compute_nothing(copy):
    assert computing_widgets(ROOT) == set()
    for code, method in (
        ("pk.Spire().fit(1)", "fit"),
        ("gus.run(trace)", "run"),
        ("Spire.fit(model, 1)", "fit"),
        ("np.median(x)", "median"),
    ):
        plant(copy, "widgets/perfkit_widgets/tree_view.py", code)
        assert ("widgets/perfkit_widgets/tree_view.py", method) in computing_widgets(copy)


def test_modules_are_imported_by_their_name_as_text_in_listed_places_only():
    assert importing_by_name(ROOT) == BY_NAME


@pytest.mark.parametrize(
    "code",
    [
        'importlib.import_module("perfkit.cli")',
        'from importlib import import_module as im; im("perfkit.cli.main")',
        'load = importlib.import_module; load("perfkit.cli.main")',
        'getattr(importlib, "import_module")("perfkit.cli.main")',
        'import pkgutil; pkgutil.resolve_name("perfkit.cli.main:main")',
        'from pkgutil import resolve_name as name; name("perfkit.cli.main:main")',
        '__import__("perfkit.cli.main")',
        'import runpy; runpy.run_module("perfkit.cli.main")',
    ],
)
@pytest.mark.parametrize("module", ["perfkit/readers/open.py", "widgets/perfkit_widgets/tree_view.py"])
def test_an_import_by_name_is_found_whatever_it_is_called(copy, module, code):
    plant(copy, module, code)
    assert importing_by_name(copy) == BY_NAME | {module}


def test_every_folder_with_modules_is_a_package(copy):
    """Imports in a folder without ``__init__.py`` are seen by no contract."""
    assert without_init(ROOT) == set()
    (copy / "perfkit" / "helpers").mkdir()
    (copy / "perfkit" / "helpers" / "planted.py").write_text("from perfkit.cli import main\n")
    assert without_init(copy) == {"perfkit/helpers"}


def test_the_root_holds_few_modules():
    assert len(list((ROOT / "perfkit").glob("*.py"))) <= 8
