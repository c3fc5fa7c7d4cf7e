"""Public names: one way of lazy loading, complete for editors and type checkers, and shipped."""

import ast
import importlib
import importlib.util
import inspect
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import get_overloads

import pytest

ROOT = Path(__file__).resolve().parents[2]
LAZY = (
    "perfkit",
    "perfkit.collectors",
    "perfkit.course",
    "perfkit.fitters",
    "perfkit.readers",
    "perfkit.scoring",
    "perfkit_widgets",
)
STUBS = sorted(p for folder in ("perfkit", "widgets") for p in (ROOT / folder).rglob("*.pyi"))


@pytest.mark.parametrize("package", LAZY)
def test_every_name_of_a_stub_can_be_loaded_and_is_listed(package):
    module = importlib.import_module(package)
    stub = ast.parse(Path(module.__file__).with_suffix(".pyi").read_text())
    names = {alias.name for node in ast.walk(stub) if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert names == set(dir(module)) == set(module.__all__)
    for name in names:
        assert getattr(module, name) is not None
    assert all(a.asname == a.name for n in ast.walk(stub) if isinstance(n, ast.ImportFrom) for a in n.names)


@pytest.mark.parametrize(
    ("typed", "offered"),
    [("pk.Sam", "Samples"), ("pk.Spire().fi", "fit"), ("pk.collectors.compile", "compile_kernel")],
)
def test_an_editor_completes_names_without_running_anything(typed, offered):
    jedi = pytest.importorskip("jedi", reason="jedi, which IPython and editors complete names with, is not installed")
    found = jedi.Script(f"import perfkit as pk\n{typed}", project=jedi.Project(ROOT)).complete()
    assert offered in [each.name for each in found]


def test_only_stubs_are_loaded_lazily():
    """No package has a `__getattr__` of its own."""
    own = [p for folder in ("perfkit", "widgets") for p in (ROOT / folder).rglob("*.py")]
    assert [p for p in own if re.search(r"^def __getattr__", p.read_text(), re.M)] == []
    assert {p.parent for p in STUBS} == {Path(importlib.import_module(name).__file__).parent for name in LAZY}


def test_the_wheel_ships_the_stubs():
    builder = pytest.importorskip("hatchling.builders.wheel", reason="hatchling is not installed")
    shipped = {Path(f.path) for f in builder.WheelBuilder(str(ROOT)).recurse_included_files()}
    assert {*STUBS, ROOT / "perfkit" / "py.typed", ROOT / "widgets" / "perfkit_widgets" / "py.typed"} <= shipped


# Functions of one name that are one thing: what modules offer that can stand in for each other, ...
INTERFACES = {
    "perfkit/readers": {"read", "recognise", "to_dump"},  # one format a module
    "perfkit/trace": {"class_of", "decode", "form_names", "is_vector", "memory_access", "simpler_forms"},  # decoders
    "perfkit/simulators/program": {"lower"},  # instruction sets
    "perfkit/collectors/tracer": {"record", "main"},  # backends, and the processes that they run
    "perfkit/collectors/profile": {"sample"},  # ways of watching a run
}
# ... and parts of compiled loops, which nothing outside their folder calls.
INSIDE_LOOPS = {"begin", "implements", "load", "touch", "zeros"}


def public(kind: type | tuple[type, ...]) -> dict[str, set[Path]]:
    """Return name -> modules of every public class or function."""
    found: dict[str, set[Path]] = {}
    for path in sorted(p for folder in ("perfkit", "widgets") for p in (ROOT / folder).rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, kind) and not node.name.startswith("_"):
                found.setdefault(node.name, set()).add(path.relative_to(ROOT))
    return found


def test_no_two_public_classes_share_a_name():
    assert {name: modules for name, modules in public(ast.ClassDef).items() if len(modules) > 1} == {}


def test_no_two_public_functions_share_a_name():
    twice = {}
    for name, modules in public((ast.FunctionDef, ast.AsyncFunctionDef)).items():
        rest = {m for m in modules if m.parts[1] != "cli"}  # commands, which nobody calls as functions
        rest -= {m for m in rest if any(str(m).startswith(f) for f, names in INTERFACES.items() if name in names)}
        rest -= {m for m in rest if name in INSIDE_LOOPS and m.parts[1] == "simulators"}
        if len(rest) > 1:
            twice[name] = rest
    assert twice == {}


CONSUMER = """
import perfkit as pk
import perfkit_widgets as pw
from perfkit import Gus, Samples, read_samples
from perfkit.collectors import compile_kernel

samples: Samples = read_samples(["a.txt"])
core = pk.Microarchitecture.load("zen4")
trace = compile_kernel("k.c").trace()
"""
ASKED = {
    "pk.Spire().fit(samples)": "perfkit.fitters.spire.model.SpireModel",
    "pk.Spire().fit(samples).rank(samples)": "perfkit.fitters.spire.ranking.Ranking",
    'pk.CpiStack(form="ipc").fit(samples)': "perfkit.fitters.cpi.stack.CpiFit",
    'core.resource("rob").value': "float",
    "trace": "perfkit.trace.trace.Trace",
    "Gus(core).run(trace)": "perfkit.simulators.gus.gus.GusResult",
    "Gus(core).run(trace).ipc": "float",
    'Gus("zen4").core': "perfkit.machine.core.Microarchitecture",
    "pk.DagScheduler(pk.DagCore.load('zen4')).run(pk.Dag.from_nodes('A', [[]])).performance": "float",
    "pk.fitters.topdown.TopDown()": "perfkit.fitters.topdown.TopDown",
    "pk.datasets.names()": "list[str]",
    'pk.open_samples("spire/train")': "perfkit.samples.table.Samples",
    'pk.open_samples("dumps", memory=False)': "perfkit.samples.fleet.Fleet",
    'pk.CpiStack().fit(pk.open_samples("a.txt"))': "perfkit.fitters.cpi.stack.CpiFit",
    'pk.CpiStack().fit_each(pk.open_samples("a.txt"))': "perfkit.fitters.cpi.stack.CpiComparison",
    'pk.CpiStack().fit(pk.open_samples("d", memory=False))': "perfkit.fitters.cpi.fleet.FleetStacks",
    'pk.Block("4883c008", syntax="intel").code': "bytes",
    "pk.trace_dag(trace)": "perfkit.dag.graph.Dag",
    "samples.plot()": "matplotlib.axes._axes.Axes",
    'samples.plot(events=["cycles"])': "matplotlib.figure.Figure",
    "pk.Spire().fit(samples).rank(samples).plot()": "matplotlib.axes._axes.Axes",
    "pk.Spire().fit(samples).rooflines['a'].bound(1.0)": "numpy.float64",
}


def test_a_strict_type_checker_sees_the_type_of_every_public_name(tmp_path):
    """A consumer's file under ``mypy --strict``: what is asked has its type, and no public name is ``Any``."""
    modules = [importlib.import_module(name) for name in LAZY]
    public = [f"{m.__name__}.{n}" for m in modules for n in m.__all__ if not inspect.ismodule(getattr(m, n))]
    tables = [name.replace("perfkit", "pk", 1) for name in public if _has_table(name)]
    asked = [
        *ASKED,
        *(f"{name}.to_frame" for name in tables),
        *(name.replace("perfkit_widgets.", "pw.").replace("perfkit.", "pk.", 1) for name in public),
    ]
    (tmp_path / "pandas").mkdir()  # in the place of pandas-stubs, which the extra `types` brings: pandas ships no types
    (tmp_path / "pandas" / "__init__.pyi").write_text("class DataFrame: ...\n")
    consumer = tmp_path / "consumer.py"
    consumer.write_text(CONSUMER + "".join(f"reveal_type({each})\n" for each in asked))
    arguments = ["--strict", "--config-file=", "--follow-imports=silent", "--ignore-missing-imports"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *arguments, f"--cache-dir={ROOT / '.mypy_cache' / 'consumer'}", str(consumer)],
        env={**os.environ, "MYPYPATH": f"{tmp_path}{os.pathsep}{ROOT}{os.pathsep}{ROOT / 'widgets'}"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    revealed = re.findall(r'note: Revealed type is "(.*)"$', done.stdout, re.M)
    assert len(revealed) == len(asked), done.stdout
    found = dict(zip(asked, revealed, strict=True))
    assert {each: found[each] for each in ASKED} == ASKED
    assert [each for each, kind in found.items() if kind == "Any"] == []
    assert len(tables) > 30
    assert [name for name in tables if not found[f"{name}.to_frame"].endswith("-> pandas.DataFrame")] == []


def _has_table(name):
    module, _, last = name.rpartition(".")
    thing = getattr(importlib.import_module(module), last)
    return inspect.isclass(thing) and hasattr(thing, "to_frame")


# What holds whatever somebody put into it: a data set by its name, a feature of a core file, an exercise's data.
OF_ANY_TYPE = {"load", "Microarchitecture.feature", "Exercises.data", "of_extra"}


def test_no_public_function_returns_what_a_user_must_narrow():
    """Neither Any nor one of several types, unless the arguments' types tell which (overloads); None may be one."""
    unclear = {}
    for package in LAZY:
        module = importlib.import_module(package)
        for thing in (getattr(module, name) for name in module.__all__):
            for function in _functions(thing):
                text = str(inspect.signature(function).return_annotation).strip("'")
                kinds = {part.strip(" '\"") for part in re.sub(r"\[.*\]", "", text).split("|")} - {"None"}
                if (len(kinds) > 1 or kinds & {"Any", "typing.Any"}) and not get_overloads(function):
                    unclear[function.__qualname__] = text
    assert {name: text for name, text in unclear.items() if name not in OF_ANY_TYPE} == {}


def _functions(thing):
    """A function, or those of a class or module, properties' among them, that perfkit defines and may be called."""
    if not inspect.isclass(thing) and not inspect.ismodule(thing):
        return [thing] if inspect.isfunction(thing) else []
    get = getattr if inspect.ismodule(thing) else inspect.getattr_static  # a module may load its names late
    found = [get(thing, name) for name in dir(thing) if not name.startswith("_")]
    bare = [
        getattr(each, "fget", None) or getattr(each, "func", None) or getattr(each, "__func__", each) for each in found
    ]
    own = thing.__name__ if inspect.ismodule(thing) else "perfkit"
    return [each for each in bare if inspect.isfunction(each) and each.__module__.startswith(own)]


def test_scripts_and_benchmarks_import_what_there_is():
    """No other test runs them: a name that moved would be missed."""
    scripts = [p for pattern in ("data/make/*.py", "tests/benchmarks/**/*.py") for p in ROOT.glob(pattern)]
    wanted = {
        (path.name, node.module, alias.name)
        for path in scripts
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and not node.level and str(node.module).startswith("perfkit")
        for alias in node.names
    }
    assert len(wanted) > 50
    assert [each for each in sorted(wanted) if not _is_there(*each[1:])] == []


def _is_there(module: str, name: str) -> bool:
    found = importlib.import_module(module)
    return hasattr(found, name) or importlib.util.find_spec(f"{module}.{name}") is not None


def test_every_public_function_that_raises_says_so():
    """What its own code raises, by name or in words ("refused", "an error")."""
    silent = {}
    for package in LAZY:
        module = importlib.import_module(package)
        things = [getattr(module, name) for name in module.__all__]
        for thing in (each for each in things if not inspect.ismodule(each)):
            for function in _functions(thing):
                source = ast.parse(textwrap.dedent(inspect.getsource(function)))
                calls = [n.exc for n in ast.walk(source) if isinstance(n, ast.Raise) and isinstance(n.exc, ast.Call)]
                errors = {c.func.id for c in calls if isinstance(c.func, ast.Name) and c.func.id.endswith("Error")}
                if errors and not re.search("|".join(("refus", "error", *errors)), function.__doc__):
                    silent[function.__qualname__] = errors
    assert silent == {}


def test_the_docstrings_of_public_functions_and_classes_name_what_they_take():
    """Of two or more parameters, each; `ax`, which every picture takes, is `perfkit.base.results`' to tell."""
    silent = {}
    for package in LAZY:
        module = importlib.import_module(package)
        for thing in (getattr(module, name) for name in module.__all__):
            if inspect.ismodule(thing):
                continue
            own = inspect.isclass(thing) and thing.__module__.startswith("perfkit")
            if own and not issubclass(thing, Exception):
                silent[thing.__qualname__] = _not_named(
                    thing, "".join(filter(None, (c.__doc__ for c in thing.__mro__)))
                )
            for function in _functions(thing):
                silent[function.__qualname__] = _not_named(function, function.__doc__ or "")
    assert {name: missing for name, missing in silent.items() if missing} == {}


def _not_named(thing, text):
    taken = [p.name for p in inspect.signature(thing).parameters.values() if p.kind is not p.VAR_KEYWORD]
    taken = [name for name in taken if name not in ("self", "cls", "ax", "args") and not name.startswith("_")]
    return [name for name in taken if len(taken) > 1 and not re.search(rf"\b{name}\b", text)]
