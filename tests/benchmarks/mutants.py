"""Small mutations of the code, one at a time, and whether the tests notice.

``python -m tests.benchmarks.mutants all --number 50 --seed 1 --folder /tmp/mutants`` plants 50 mutations in each of the
parts fitters, engines, readers and tracer (with its C), chosen at random among all that there are, runs tests on each
in a copy of the tree, and prints how many were noticed, by part; nothing is changed here. Tests of more than ten
seconds, and those that read the clock or drive a browser, are left out. A mutation is noticed if a test fails; one
under which the tests take too long is undecided. Exit status 1 where fewer than nine in ten are noticed.

Which tests: a first run without mutations notes which functions each test enters (kept by the text of the test's file,
in `REACHED` with ``--keep``, else in the folder: only files that changed are run again). A mutation is tried on those
that enter its function, the quickest first; one of a constant, on those that enter a function which names it. What
tests start notes what it enters, too. What is compiled is tried on the tests that enter its file, then on others of its
part. All end at `_MOST_SECONDS`. So few tests can only err towards "survived": ``--again`` tries on all of them what
survived, or was undecided. A test that fails without the mutation, too, has noticed nothing.

One process collects all tests and forks a child for each mutation, in which the code of its function is exchanged
(`Warm`): nothing is imported anew, except for constants and what is compiled.

`EQUIVALENT` is the list of mutations that were looked at and change no answer, each with the reason; they are counted
apart. With ``--store FILE`` each answer is kept as soon as it is known, and what the file holds is not run again: a
list can be run in pieces (``--seconds 150``). ``--of COMMIT`` plants the mutations of an earlier commit, each where its
line is now: a list is followed while the code changes.
"""

import argparse
import ast
import compileall
import difflib
import gc
import gzip
import hashlib
import inspect
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from cProfile import Profile
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import accumulate, pairwise, zip_longest
from pathlib import Path, PurePath
from types import CodeType, FunctionType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
EQUIVALENT = Path(__file__).with_name("equivalent.json")  # {"file: new text of the line": reason}, or "without OLD"
REACHED = Path(__file__).with_name("reached.json.gz")
_SLOW_SECONDS = 10
_MOST_SECONDS, _MOST_TESTS, _MOST_CASES = 12, 300, 30  # on one mutation; of one test with parameters


def _files(folder: str, *names: str) -> list[str]:
    return [f"tests/{folder}/test_{name}.py" for name in names]


_READERS = [
    *_files("readers", "small_rules", "neighbours", "two_names_of_a_run", "joined_lines", "read_as_before"),
    *_files("readers", "dialects", "traps", "strangers", "formats", "read", "labels_and_dates", "no_silent_loss"),
    *_files(
        "readers", "row_order", "dressed_tables", "perf_text", "sources", "damaged", "foreign_tables", "counts_kept"
    ),
]
_SPIRE = [
    *_files("fitters", "answers_as_before"),
    *_files("fitters", "spire_right", "roofline", "spire", "known_figures"),
    *_files("fleet", "fleet_spire"),
    *_files("results", "contract"),
]
_CPI = [
    *_files("fitters", "answers_as_before"),
    *_files("fitters", "known_figures", "cpi_solvers", "cpi_checks", "cpi_stack", "cpi_comparison", "cpi_validation"),
    *_files("fitters", "paper_cpi_stack"),
    *_files("fleet", "fleet_groups"),
]
_DAG = [
    *_files("simulators", "answers_as_before"),
    *_files(
        "simulators", "known_figures", "dag_schedule", "dag_reference", "dag_others", "dag_relax", "dag_sweep", "reuse"
    ),
    *_files("simulators", "dag_doubts", "dag_beyond", "dag_paper", "extended_roofline", "small_parts"),
]
_GUS = [
    *_files("simulators", "answers_as_before"),
    *_files(
        "simulators", "known_figures", "gus", "gus_consistency", "gus_schedulers", "memory", "streamed", "gus_diff"
    ),
    *_files("simulators", "small_parts", "timeline", "gus_blocks", "prepared", "gus_files", "columns", "compiled"),
]
_PLUGIN = {"perfkit/collectors/tracer/*.c": ["tests/collectors/tracer"]}
# What is mutated, by part, and the tests that should notice, those most likely to first. A file that several patterns
# of a part fit is tested by those of the first.
PARTS: dict[str, dict[str, list[str]]] = {
    "readers": {
        "perfkit/readers/*fleet*.py": ["tests/fleet"],
        "perfkit/readers/*.py": _READERS,
        "perfkit/samples/[fp]*.py": ["tests/fleet"],
        "perfkit/samples/*.py": ["tests/samples", "tests/exploration", *_READERS],
    },
    "exploration": {"perfkit/exploration/*.py": ["tests/exploration", "tests/readers/test_dialects.py"]},
    "fitters": {
        "perfkit/fitters/*/*fleet*.py": ["tests/fleet", *_files("fitters", "answers_as_before")],
        "perfkit/fitters/spire/*.py": _SPIRE,
        "perfkit/fitters/cpi/*.py": _CPI,
        "perfkit/fitters/bottlenecks/*.py": _files(
            "fitters",
            "answers_as_before",
            "bottlenecks",
            "learnt_stacks",
            "known_figures",
            "published_events",
            "real_names",
        ),
        "perfkit/fitters/studies/*.py": _files("fitters", "answers_as_before", "studies_analysis", "known_figures"),
        "perfkit/fitters/topdown.py": _files("fitters", "answers_as_before", "topdown", "known_figures"),
    },
    "engines": {
        "perfkit/dag/*.py": _DAG,
        "perfkit/simulators/dag/*.py": _DAG,
        "perfkit/simulators/gus/*.py": _GUS,
        "perfkit/simulators/memory/*.py": ["tests/simulators/test_memory.py", *_GUS],
        "perfkit/simulators/program/*.py": _GUS,
    },
    "tracer": {
        "perfkit/trace/aarch64.py": ["tests/aarch64", "tests/machine"],
        "perfkit/trace/*.py": ["tests/trace", "tests/collectors/test_blocks.py", "tests/machine"],
        "perfkit/collectors/tracer/*.py": ["tests/collectors/tracer", "tests/collectors/test_pinned.py"],
        **_PLUGIN,
    },
    "plugin": _PLUGIN,  # of which a draw of the tracer holds few
}
_EVERY = _files("project", "examples")  # those in documentation
_NOT_RUN = (
    "benchmarks",
    "browser",
    "cli",
    "course",
    "diagnosis",
    "notebooks",
    "plots",
    "widgets",
)  # or slow, and of much
_COMPILES = re.compile(rb"njit|\bcompiled import|numba\.extending")  # in a file with functions that numba compiles
_COPIED, _LINKED = (
    ("perfkit", "tests"),
    ("data", "docs", "notebooks", "scripts", "widgets", "pyproject.toml", "README.md", "locks", "kit"),
)
_OTHER: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
}  # fmt: skip
_C_OTHER = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&", "+": "-", "-": "+",
    "&": "|", "|": "&", "<<": ">>", ">>": "<<",
}  # fmt: skip
_C_LEFT = re.compile(rb'/\*.*?\*/|"(?:\\.|[^"\\\n])*"|^#[^\n]*|^(?:extern|typedef|struct)[^;]*;', re.S | re.M)
_C_CHANGED = re.compile(
    rb"(?<= )(?P<sign><<|>>|[<>=!]=|&&|\|\||[-+<>&|])(?= )|(?<![\w.])(?P<number>\d+)(?![\w.])"
    rb"|(?:^ +|(?<=[;{)] ))(?P<left>(?!return)[\w.>-]+(?:\+\+| [-+&|]= [^;{}]*|\([^;{}]*\));)",
    re.M,
)


@dataclass(frozen=True)
class Mutant:
    """A change of one place of a file: the bytes from ``start`` to ``stop`` become ``new``."""

    file: str
    line: int
    start: int
    stop: int
    new: str

    def applied(self, source: bytes) -> bytes:
        return source[: self.start] + self.new.encode() + source[self.stop :]

    def told(self, source: bytes) -> str:
        """Return what changed, as the lines of a difference."""
        old, new = (s.decode().splitlines() for s in (source, self.applied(source)))
        return "\n".join(x for x in difflib.unified_diff(old, new, n=0, lineterm="") if x[:2] not in ("--", "++", "@@"))


# ------------------------------------------------------------------ mutations


def mutants(file: str, source: bytes) -> Iterator[Mutant]:
    """Give every mutation of a file: of comparisons, arithmetic, conditions, constants and statements left out."""
    if file.endswith(".c"):
        yield from _mutants_of_c(file, source)
        return
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    tree = ast.parse(source)
    untouched = _untouched(tree)
    for node in ast.walk(tree):
        if id(node) in untouched or not hasattr(node, "end_lineno"):
            continue
        for new in _changed(node):
            start = starts[node.lineno - 1] + node.col_offset
            stop = starts[node.end_lineno - 1] + node.end_col_offset
            yield Mutant(file, node.lineno, start, stop, new)


def _mutants_of_c(file: str, source: bytes) -> Iterator[Mutant]:
    """Give the mutations of a file of C: of its comparisons, arithmetic, constants and statements left out."""
    code = _C_LEFT.sub(lambda m: re.sub(rb"[^\n]", b" ", m[0]), source)
    at = 0
    while (match := _C_CHANGED.search(code, at)) is not None:
        kind = match.lastgroup or ""
        text, start = match[kind].decode(), match.start(kind)
        new = {"sign": _C_OTHER.get(text, ""), "left": ";"}.get(kind) or str(int(text) + 1)
        yield Mutant(file, code.count(b"\n", 0, start) + 1, start, match.end(kind), new)
        at = start + (1 if kind == "left" else len(text))  # what stands in a statement is changed, too


def _untouched(tree: ast.AST) -> set[int]:
    """Return the nodes whose change nothing could notice, or nothing should: annotations, texts, what errors say."""
    out: set[int] = set()
    for node in ast.walk(tree):
        inside: list[ast.AST | None] = []
        if isinstance(node, ast.AnnAssign | ast.arg):
            inside = [node.annotation]
        elif isinstance(node, ast.FunctionDef):
            inside = [node.returns, *node.decorator_list]
        elif isinstance(node, ast.JoinedStr | ast.Raise | ast.Import | ast.ImportFrom) or _is_for_types(node):
            inside = [node]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "note":
            inside = list(node.args)
        for each in inside:
            out |= {id(n) for n in ast.walk(each)} if each is not None else set()
    return out


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _changed(node: ast.AST) -> Iterator[str]:
    """Give the text of each mutation of a node."""
    if isinstance(node, ast.Compare):
        for i, op in enumerate(node.ops):
            if type(op) in _OTHER:
                ops = [_OTHER[type(op)]() if j == i else o for j, o in enumerate(node.ops)]
                yield f"({ast.unparse(ast.Compare(node.left, ops, node.comparators))})"
    elif isinstance(node, ast.BinOp) and type(node.op) in _OTHER and not _is_text(node):
        yield f"({ast.unparse(ast.BinOp(node.left, _OTHER[type(node.op)](), node.right))})"
    elif isinstance(node, ast.BoolOp):
        yield f"({ast.unparse(ast.BoolOp(_OTHER[type(node.op)](), node.values))})"
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.Invert | ast.USub):
        yield f"({ast.unparse(node.operand)})"
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield str(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        yield repr(node.value + 1 if isinstance(node.value, int) else node.value * 1.5 + (node.value == 0))
    elif isinstance(node, ast.IfExp):
        yield f"({ast.unparse(ast.IfExp(node.test, node.orelse, node.body))})"
    elif isinstance(node, ast.Continue | ast.Break | ast.AugAssign) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    ):
        yield "pass"


def _is_text(node: ast.BinOp) -> bool:
    return any(
        isinstance(n, ast.JoinedStr) or (isinstance(n, ast.Constant) and isinstance(n.value, str | bytes))
        for n in ast.walk(node)
    )


def drawn(part: str, number: int, seed: int, commit: str = "") -> list[tuple[Mutant | None, list[str]]]:
    """Return so many mutations of a part, drawn without repetition, each with the tests that should notice.

    Of an earlier commit those whose line is gone are None.
    """
    files = _git("ls-tree", "-r", "--name-only", commit, "perfkit").decode().splitlines() if commit else []
    tests_of: dict[str, list[str]] = {}
    for pattern, tests in PARTS[part].items():
        here = files or [str(file.relative_to(ROOT)) for file in ROOT.glob(pattern)]
        for file in sorted(file for file in here if PurePath(file).match(pattern)):
            tests_of.setdefault(file, tests)
    sources = {f: _git("show", f"{commit}:{f}") if commit else (ROOT / f).read_bytes() for f in tests_of}
    every = [(m, t) for f, t in tests_of.items() for m in mutants(f, sources[f])]
    chosen = random.Random(f"{seed} {part}").sample(every, min(number, len(every)))
    return [(followed(m, sources[m.file]) if commit else m, tests) for m, tests in chosen]


def followed(mutant: Mutant, old: bytes) -> Mutant | None:
    """Return a mutation of an older text of its file where that line is now; None where there is none of that text."""
    new = (ROOT / mutant.file).read_bytes() if (ROOT / mutant.file).exists() else b""
    begin, end = old.rfind(b"\n", 0, mutant.start) + 1, old.find(b"\n", mutant.stop)
    line, at = old[begin:end], -1
    for _ in range(old[:begin].count(line) + 1 if new.count(line) != 1 else 1):  # the one of several that it was
        at = new.find(line, at + 1)
        if at < 0:
            return None
    moved = at - begin
    number = new.count(b"\n", 0, mutant.start + moved) + 1
    return Mutant(mutant.file, number, mutant.start + moved, mutant.stop + moved, mutant.new)


def _git(*words: str) -> bytes:
    return subprocess.run(["git", "-C", ROOT, *words], check=True, capture_output=True).stdout


# ------------------------------------------------------------------ the tests


class _Watch:
    """A plug-in of pytest that runs the tests chosen, in their order, and says the first that fails.

    With `traced` it runs all, and writes down for each how long it takes, whether it passes, and which functions below
    that folder it enters.
    """

    def __init__(self, told: Path, chosen: list[str], traced: str = "") -> None:
        self.told, self.traced, self.failed, self.why = told, traced, "", ""
        self.place = {name: i for i, name in enumerate(chosen)}
        self.seconds, self.broken = dict[str, float](), set[str]()
        self.entered: dict[str, Any] = {}  # a profile of each test, in C: a trace in Python takes several times as long
        self.children: dict[str, set[str]] = {"": set()}

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        if self.place:
            items[:] = sorted((i for i in items if i.nodeid in self.place), key=lambda i: self.place[i.nodeid])

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Iterator[None]:
        if not self.traced:
            return (yield)
        Path(self.traced, _NOTED).touch()
        before = sum(os.times()[:4])  # of this process and its children: the machine may be busy
        self.now = self.entered[item.nodeid] = Profile(builtins=False)
        self.now.enable()
        done = yield
        self.now.disable()
        self.children[item.nodeid] = self._of_children()
        self.seconds[item.nodeid] = sum(os.times()[:4]) - before
        return done

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> Iterator[None]:
        if not self.traced or fixturedef.scope == "function":
            return (yield)
        of_test = self.now
        of_test.disable()
        self.now = self.entered.setdefault("", Profile(builtins=False))  # what it enters, it does for all of the file
        self.now.enable()
        done = yield
        self.now.disable()
        self.children[""] |= self._of_children()
        self.now = of_test
        of_test.enable()
        return done

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            if not self.failed:
                self.failed, self.why = report.nodeid, report.longreprtext[-500:]
            self.broken.add(report.nodeid)

    def pytest_collectreport(self, report: Any) -> None:
        self.pytest_runtest_logreport(report)

    def pytest_sessionfinish(self) -> None:
        told: dict[str, Any] = {"by": self.failed, "why": self.why}
        if self.traced:
            Path(self.traced, _NOTED).unlink(missing_ok=True)
            everyone = self._functions(self.entered.pop("", None)) | self.children[""]
            told["tests"] = {
                name: [
                    round(self.seconds[name], 2),
                    name not in self.broken,
                    sorted(everyone | self._functions(of) | self.children[name]),
                ]
                for name, of in self.entered.items()
            }
        self.told.write_text(json.dumps(told))

    def _functions(self, profile: Profile | None) -> set[str]:
        codes = [row.code for row in profile.getstats()] if profile else []
        return self._named((c.co_filename, c.co_qualname) for c in codes if not isinstance(c, str))

    def _of_children(self) -> set[str]:
        """Return what the processes that a test started have noted since this was asked last."""
        noted = Path(self.traced, _NOTED)
        rows = [line.rpartition(":") for line in noted.read_text().splitlines()]
        noted.write_text("")
        return self._named((file, name) for file, _, name in rows)

    def _named(self, codes: Iterable[tuple[str, str]]) -> set[str]:
        inside = [(file, name) for file, name in codes if file.startswith(f"{self.traced}perfkit/")]
        return {f"{file.removeprefix(self.traced)}:{_INNER.sub('', name)}" for file, name in inside}


_INNER = re.compile(r"((\.<locals>)?(\.|^)<(listcomp|dictcomp|setcomp|genexpr|lambda|module)>)+")


_NOTED = "entered"
# What every Python started in the copy does first: where the file is, it notes there which functions it enters.
_NOTES = f'''\
import os
import sys

noted, seen = os.path.join(os.path.dirname(__file__), "{_NOTED}"), {{}}


def note(frame, event, _):
    code = frame.f_code
    if event == "call" and id(code) not in seen:
        seen[id(code)] = code
        if "/perfkit/" in code.co_filename and code.co_name != "<module>":
            with open(noted, "a") as file:
                file.write(f"{{code.co_filename}}:{{code.co_qualname}}\\n")


if os.path.exists(noted):
    sys.setprofile(note)
'''


def copied(folder: Path) -> Path:
    """Copy the code and its tests; data and documents are linked. What is there already is brought up to date."""
    for name in _COPIED:
        shutil.rmtree(folder / name, ignore_errors=True)
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in _LINKED:
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(ROOT / name)
    (folder / "sitecustomize.py").write_text(_NOTES)
    # Once, for all children, which write none: that of a mutated file, whose time differs, is not used.
    compileall.compile_dir(folder / "perfkit", quiet=1)
    return folder


def planted(reached: "Reached", mutant: Mutant, tests: list[str], limit: float) -> dict[str, Any]:
    """Return what the tests say of one mutation in the copy, which is whole again afterwards.

    A test that fails without it, too, has noticed nothing: the next one is asked.
    """
    seconds = 0.0
    while True:
        said = _planted(reached, mutant, tests, limit)
        seconds, by = seconds + said["seconds"], said["by"]
        if by not in tests or reached.warm([], [by], limit)["outcome"] == "survived":
            return said | {"seconds": round(seconds, 1)}
        reached.broken.add(by)
        print(f"{by} fails without a mutation, too: {said['why']}", flush=True)
        tests = tests[tests.index(by) + 1 :]


def _planted(reached: "Reached", mutant: Mutant, tests: list[str], limit: float) -> dict[str, Any]:
    tree = reached.tree
    path = tree / mutant.file
    source, times = path.read_bytes(), path.stat()
    # numba keeps the compiled callers of what is changed, which hold it: none of a file that uses this one may be used.
    users = [path, *_compiled_users(tree, path)] if _COMPILES.search(source) else [path]
    kept = {user: user.stat() for user in users}
    cache, spare = tree / "numba", tree / "numba-of-the-mutant"
    shutil.rmtree(spare, ignore_errors=True)
    if _COMPILES.search(source):
        cache.mkdir(exist_ok=True)
        shutil.copytree(cache, spare, copy_function=os.link)  # numba replaces its files, and never changes one
    cache = spare if spare.exists() else cache
    functions = _functions_of(tree, mutant)
    path.write_bytes(mutant.applied(source))
    try:
        for user in users:
            os.utime(user)
        if functions and _place(source, mutant)[0]:
            said = reached.warm([str(path), source.decode(), mutant.applied(source).decode(), str(cache)], tests, limit)
            if said["outcome"] != "not exchanged":
                return said
        return outcome(tree, lambda told: _run(tree, tests, cache, _Watch(told, tests)), limit)
    finally:
        path.write_bytes(source)
        for user, was in {**kept, path: times}.items():
            os.utime(user, ns=(was.st_atime_ns, was.st_mtime_ns))


def _compiled_users(tree: Path, path: Path) -> list[Path]:
    """Return the files with compiled functions that may call those of a file, directly or through others."""
    compiled = {p: p.read_text() for p in tree.glob("perfkit/**/*.py") if _COMPILES.search(p.read_bytes())}
    users, todo = set[Path](), [path]
    while todo:
        name = todo.pop().stem
        found = {p for p, text in compiled.items() if f"{name} import" in text or f"import {name}" in text}
        todo += found - users
        users |= found
    return sorted(users - {path})


def outcome(tree: Path, run: Callable[[Path], int], limit: float) -> dict[str, Any]:
    """Run tests in a child of this process, which has the libraries: noticed, survived or undecided, and by whom."""
    begin, told = time.monotonic(), tree / "told.json"
    told.unlink(missing_ok=True)
    child = os.fork()
    if not child:
        status = 3
        try:
            os.setsid()
            status = run(told)
        finally:  # nothing of the parent's is to be cleaned up here
            os._exit(status)
    status = None
    # By its own time where others work beside it: a wait has an end, too.
    while status is None and _spent(child) < limit and time.monotonic() < begin + 4 * limit:
        done, how = os.waitpid(child, os.WNOHANG)
        status = os.waitstatus_to_exitcode(how) if done else None
        time.sleep(0.02)
    if status is None:
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
    what = "undecided" if status is None else "noticed" if status else "survived"
    said = json.loads(told.read_text()) if told.exists() else {"by": f"exit status {status}" * (status is not None)}
    return {"outcome": what, "seconds": round(time.monotonic() - begin, 1)} | said


def _spent(process: int) -> float:
    """Return the processor time of a child and of those that it waited for, in s."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _run(tree: Path, tests: list[str], cache: Path, plugin: Any) -> int:
    import numba

    os.chdir(tree)
    sys.path[:0] = [str(tree), str(tree / "widgets")]
    sys.dont_write_bytecode = True
    os.environ |= {"NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": f"{tree}:{tree / 'widgets'}"}
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    numba.config.reload_config()
    null = os.open(os.devnull, os.O_WRONLY)
    for out in (1, 2):
        os.dup2(null, out)
    files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
    marked = "not measures and not browser and not shared_data"
    options = ["-x", "-q", "-p", "no:cacheprovider", "--basetemp", str(tree / "temporary"), "-m", marked]
    return int(pytest.main([*options, *files], plugins=[plugin]))


class Warm:
    """A process that has collected tests, and forks a child for each run of some of them.

    A mutation of a function written in Python is made in the child: the function's code is exchanged. One whose code
    ran while the tests were collected is not, nor is one of a constant of a file, or compiled by numba: these need a
    process that imports anew (`_planted`).
    """

    def __init__(self, tree: Path, files: list[str]) -> None:
        self.files, (theirs, self._told), (self._asked, ours) = files, os.pipe(), os.pipe()
        self.process = os.fork()
        if not self.process:
            try:
                self.tree, self.asked, self.answers = tree, os.fdopen(theirs), os.fdopen(ours, "w")
                os.close(self._told)
                os.close(self._asked)
                self.collecting = Profile(builtins=False)
                self.collecting.enable()
                _run(tree, files, tree / "numba", self)
            finally:
                os._exit(0)
        os.close(theirs)
        os.close(ours)
        self.out, self.into = os.fdopen(self._told, "w"), os.fdopen(self._asked)

    def __call__(self, exchanged: list[str], tests: list[str], limit: float, traced: str = "") -> dict[str, Any]:
        """Return the `outcome` of some tests; "not exchanged" where the function's code cannot be."""
        self.out.write(json.dumps([exchanged, tests, limit, traced]) + "\n")
        self.out.flush()
        line = self.into.readline()
        if not line:
            raise SystemExit("the tests could not be collected: " + " ".join(self.files))
        found: dict[str, Any] = json.loads(line)
        return found

    def close(self) -> None:
        self.out.close()
        os.waitpid(self.process, 0)

    def pytest_runtestloop(self, session: Any) -> bool:
        self.collecting.disable()
        ran = {row.code for row in self.collecting.getstats() if not isinstance(row.code, str)}
        for line in self.asked:
            exchanged, tests, limit, traced = json.loads(line)
            codes = exchangeable(*exchanged[:3], ran) if exchanged else {}
            said: dict[str, Any] = {"outcome": "not exchanged"}
            if codes is not None:
                run = partial(self._child, session, codes, exchanged[3:], tests, traced)
                said = outcome(self.tree, run, limit)
            self.answers.write(json.dumps(said) + "\n")
            self.answers.flush()
        return True

    def _child(
        self,
        session: Any,
        codes: dict[CodeType, CodeType],
        cache: list[str],
        tests: list[str],
        traced: str,
        told: Path,
    ) -> int:
        for folder in cache:
            os.environ["NUMBA_CACHE_DIR"] = folder  # of what the tests start: files have changed
        for function in _living() if codes else ():
            if function.__code__.co_filename.startswith(f"{self.tree}/perfkit/") and function.__code__ in codes:
                function.__code__ = codes[function.__code__]
        if not traced:
            Path(self.tree, _NOTED).unlink(missing_ok=True)
        watch = _Watch(told, [], traced)
        session.config.pluginmanager.register(watch)
        wanted = set(tests)
        by_name = {item.nodeid: item for item in session.items if item.nodeid in wanted}
        if traced:
            by_name = {item.nodeid: item for item in session.items if item.nodeid.partition("::")[0] in wanted}
        items = [by_name[name] for name in (by_name if traced else tests) if name in by_name]
        for item, following in zip_longest(items, items[1:]):
            item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
            if watch.failed and not traced:
                break
        watch.pytest_sessionfinish()
        return int(bool(watch.failed))


def _living() -> list[FunctionType]:
    gc.unfreeze()
    # Not isinstance: a weak proxy would ask what it stands for, which may be gone.
    return [f for f in gc.get_objects() if type(f) is FunctionType]


def exchangeable(file: str, old: str, new: str, ran: Collection[CodeType] = ()) -> dict[CodeType, CodeType] | None:
    """Return what becomes of the code of each changed function of a file, and of those inside of it.

    None where more changed than functions' code, where one of them ran already, or where none of them can be found.
    """
    codes: dict[CodeType, CodeType] = {}
    if not _paired(compile(old, file, "exec"), compile(new, file, "exec"), codes):
        return None
    if any(code in ran for code in codes):
        return None
    living = [f for f in _living() if f.__code__.co_filename == file and f.__code__ in codes]
    return codes if living else None


def _paired(old: CodeType, new: CodeType, codes: dict[CodeType, CodeType]) -> bool:
    """Add to the codes the functions that differ; False where a class or the file itself does."""
    inner = [[c for c in code.co_consts if isinstance(c, CodeType)] for code in (old, new)]
    if [c.co_qualname for c in inner[0]] != [c.co_qualname for c in inner[1]]:
        return False
    kept = len(codes)
    if not all(_paired(*both, codes) for both in zip(*inner, strict=True)):
        return False
    own = [
        (c.co_code, [x if not isinstance(x, CodeType) else None for x in c.co_consts], c.co_names, c.co_varnames)
        for c in (old, new)
    ]
    is_function = bool(old.co_flags & inspect.CO_NEWLOCALS)  # neither a class nor a file
    if repr(own[0]) != repr(own[1]) and not is_function:
        return False
    if is_function and (repr(own[0]) != repr(own[1]) or len(codes) > kept):
        if old.co_freevars != new.co_freevars:
            return False
        codes[old] = new
    return True


def test_files(tree: Path, file: str, patterns: list[str]) -> list[str]:
    """Return the files of tests of a mutated one: those that import it, then those that its part names.

    What runs in a child process (``timed_child``) has those of the module that starts it.
    """
    package, _, module = file.removesuffix(".py").removesuffix("_child").replace("/", ".").rpartition(".")
    imports = re.compile(
        rf"^(from {package}(\.{module} import|\b.* import.*\b{module}\b)|import {package}\.{module}\b)", re.M
    )
    tests = sorted(tree.glob("tests/**/test_*.py"))
    found = [[f for f in tests if f.relative_to(tree).parts[1] not in _NOT_RUN and imports.search(f.read_text())]]
    found += [[tree / p] if p.endswith(".py") else sorted((tree / p).rglob("test_*.py")) for p in [*patterns, *_EVERY]]
    return list(dict.fromkeys(str(f.relative_to(tree)) for some in found for f in some if f.exists()))


Rows = dict[tuple[str, str], dict[str, Any]]
"""By file of tests and its text's hash: of each test its seconds, whether it passes, and the functions entered."""


def known() -> Rows:
    """Return what `REACHED` holds: its functions have numbers, each told by its distance from the one before."""
    if not REACHED.exists():
        return {}
    functions, files = json.loads(gzip.decompress(REACHED.read_bytes()))
    return {
        (file, text): {
            f"{file}::{name}": [seconds, passed, [functions[i] for i in accumulate(steps)]]
            for name, (seconds, passed, steps) in tests.items()
        }
        for file, (text, tests) in files.items()
    }


def keep(rows: Rows) -> None:
    """Write to `REACHED` what is known of each file of tests as it is now."""
    numbers: dict[str, int] = {}
    files: dict[str, Any] = {}
    for (file, text), tests in sorted(rows.items()):
        if (ROOT / file).exists() and _text(ROOT / file) == text:
            entered = {name: sorted(numbers.setdefault(f, len(numbers)) for f in row[2]) for name, row in tests.items()}
            files[file] = (
                text,
                {
                    name.partition("::")[2]: (*row[:2], [b - a for a, b in pairwise((0, *entered[name]))])
                    for name, row in tests.items()
                },
            )
    told = json.dumps([list(numbers), files], separators=(",", ":")).encode()
    REACHED.write_bytes(gzip.compress(told, mtime=0))


def _text(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()[:16]


class Reached:
    """Which functions each test enters, and how long it takes, of the files of tests asked for; kept in a file.

    Parameters
    ----------
    tree : Path
        The copy of the code, in which tests run that nothing is known of yet.
    limit : float
        Seconds for one file's tests; one that takes longer is left out, and so said.
    """

    def __init__(self, tree: Path, limit: float) -> None:
        self.tree, self.limit, self.file = tree, limit, tree / "reached.jsonl"
        lines = self.file.read_text().splitlines() if self.file.exists() else []
        self.rows = known() | {(row["file"], row["text"]): row["tests"] for row in map(json.loads, lines)}
        self.broken = set[str]()  # tests that fail without a mutation
        self.warm: Any = None

    def collect(self, files: list[str]) -> None:
        """Start the process that runs the tests of these files, and wait until it has read the code."""
        self.warm = Warm(self.tree, files)
        self.warm([], [], self.limit)

    def tests(self, files: list[str]) -> dict[str, tuple[float, set[str]]]:
        """Return by test its seconds and functions: of those that pass without a mutation, within ten seconds."""
        out: dict[str, tuple[float, set[str]]] = {}
        for file in files:
            key = (file, _text(self.tree / file))
            if key not in self.rows:
                ran = self.warm([], [file], self.limit, f"{self.tree}/")
                self.rows[key] = ran.get("tests", {})  # none of a file that takes too long
                with self.file.open("a") as kept:
                    kept.write(json.dumps({"file": key[0], "text": key[1], "tests": self.rows[key]}) + "\n")
                print(f"{file}: {len(self.rows[key])} tests in {ran['seconds']} s", flush=True)
            for name, (seconds, passed, functions) in self.rows[key].items():
                if passed and seconds <= _SLOW_SECONDS and name not in self.broken:
                    out[name] = (seconds, set(functions))
        return out

    def chosen(self, mutant: Mutant, files: list[str], *, every: bool = False) -> list[str]:
        """Return the tests to try a mutation on, in their order."""
        tests = self.tests(files)
        functions = _functions_of(self.tree, mutant)
        # What is compiled leaves no trace: those that enter its file.
        own = f"{mutant.file}:"
        near = [name for name, (_, entered) in tests.items() if any(f.startswith(own) for f in entered)]
        found = [name for name, (_, entered) in tests.items() if (functions or set()) & entered]
        alike = Alike(self.tree, files)
        of = alike.words_of(self.tree, mutant)
        for names in (found, near):
            names.sort(key=lambda name: (round(tests[name][0], 1), len(tests[name][1])))
            names.sort(key=lambda name: alike.place(name, of))
        if every:
            return list(dict.fromkeys([*found, *near, *tests]))
        names = found or list(dict.fromkeys([*near, *tests]))
        taken, seconds, cases = list[str](), 0.0, Counter[str]()
        for name in names:
            cases[one := name.partition("[")[0]] += 1
            if cases[one] <= _MOST_CASES and seconds + tests[name][0] <= _MOST_SECONDS and len(taken) < _MOST_TESTS:
                taken.append(name)
                seconds += tests[name][0]
        return taken


class Alike:
    """Which test functions speak of what a function speaks of: by the words of both texts, the rare ones first."""

    def __init__(self, tree: Path, files: list[str]) -> None:
        self.words: dict[str, set[str]] = {}
        for file in files:
            text = (tree / file).read_text()
            for node in ast.parse(text).body:
                if isinstance(node, ast.FunctionDef):
                    lines = text.splitlines()[node.lineno - 1 : node.end_lineno]
                    self.words[f"{file}::{node.name}"] = _words("\n".join(lines))
        self.often = Counter(word for words in self.words.values() for word in words)
        self.places: dict[str, int] = {}

    def words_of(self, tree: Path, mutant: Mutant) -> set[str]:
        """Return the words of the line of a mutation, of its function and of its file's name."""
        source = (tree / mutant.file).read_bytes()
        inside = [n for _, n, _ in _functions(source) if _holds(source, n, mutant)]
        lines = source.decode().splitlines()
        text = lines[inside[-1].lineno - 1 : inside[-1].end_lineno] if inside else lines[mutant.line - 1 : mutant.line]
        return _words("\n".join([Path(mutant.file).stem, *text]))

    def place(self, name: str, words: set[str]) -> int:
        """Return 0 for a case of one of the twenty test functions that are most alike, and 1 for others."""
        if not self.places:
            score = {test: sum(1 / self.often[w] for w in own & words) for test, own in self.words.items()}
            nearest = sorted(score, key=lambda test: -score[test])[:20]
            self.places = {test: int(test not in nearest) for test in score}
        return self.places.get(name.partition("[")[0], 1)


def _words(text: str) -> set[str]:
    return set(re.findall(r"[a-z]{3,}", text.lower()))


def _functions_of(tree: Path, mutant: Mutant) -> set[str] | None:
    """Return the functions that execute a mutation, as `Reached` names them; None where numba compiles one of them.

    A constant is executed by those that name it, directly or through another constant of the file; what else stands
    outside of functions, by all of its class or file.
    """
    source = (tree / mutant.file).read_bytes()
    if mutant.file.endswith(".c"):  # of the Python that builds it
        name, found = Path(mutant.file).name, set[str]()
        for path in (tree / mutant.file).parent.glob("*.py"):
            functions = _functions(path.read_bytes())
            found |= {f"{path.relative_to(tree)}:{f}" for f, node, _ in functions if name in ast.unparse(node)}
        return found
    place = _place(source, mutant)
    names = {place[2]} if place[2] else set[str]()
    if place[0]:
        found = {f"{mutant.file}:{place[0]}"}
    elif names:
        found = _users(tree, mutant.file, names)
    else:
        found = set()
    if any(_is_compiled(tree, function) for function in found):
        return None
    if not found:
        own = [f for f, _, _ in _functions(source)]
        found = {f"{mutant.file}:{f}" for f in own if not place[1] or f.startswith(f"{place[1]}.")}
    return found


def _functions(source: bytes) -> list[tuple[str, ast.AST, bool]]:
    """Return the functions of a file: name as Python tells it, node, whether numba compiles it."""
    out: list[tuple[str, ast.AST, bool]] = []

    def walk(node: ast.AST, before: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                marks = " ".join(ast.unparse(d) for d in child.decorator_list)
                marked = bool(
                    re.search(r"\b(njit|jit|compiled|inlined|helper|implements|overload|_?intrinsic)\b", marks)
                )
                marked |= any(argument.arg == "builder" for argument in child.args.args)  # it writes what is compiled
                out.append((f"{before}{child.name}", child, marked))
                walk(child, f"{before}{child.name}.<locals>.")
            elif isinstance(child, ast.ClassDef):
                walk(child, f"{before}{child.name}.")
            else:
                walk(child, before)

    walk(_parsed(source), "")
    return out


def _parsed(source: bytes) -> ast.Module:
    """Return a file's tree: an empty one of C, which begins with a comment."""
    return ast.parse(b"" if source.startswith(b"/*") else source)


def _place(source: bytes, mutant: Mutant) -> tuple[str, str, str]:
    """Return where a mutation is: the innermost function, else the class and, outside of one, the constant's name."""
    inside = [(f, n) for f, n, _ in _functions(source) if _holds(source, n, mutant)]
    if inside:
        return inside[-1][0], "", ""
    for node in _parsed(source).body:
        if _holds(source, node, mutant):
            if isinstance(node, ast.ClassDef):
                return "", node.name, ""
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            return "", "", next((t.id for t in targets if isinstance(t, ast.Name)), "")
    return "", "", ""


def _holds(source: bytes, node: Any, mutant: Mutant) -> bool:
    starts = [0, *(m.end() for m in re.finditer(b"\n", source))]
    begin = starts[node.lineno - 1] + node.col_offset
    return bool(begin <= mutant.start and mutant.stop <= starts[node.end_lineno - 1] + node.end_col_offset)


def _users(tree: Path, file: str, names: set[str]) -> set[str]:
    """Return the functions that name constants of a file, or constants of it that are made from them."""
    body = ast.parse((tree / file).read_bytes()).body
    for _ in range(3):
        for node in body:
            if isinstance(node, ast.Assign | ast.AnnAssign) and _names(node) & names:
                names |= {
                    t.id for t in getattr(node, "targets", [getattr(node, "target", None)]) if isinstance(t, ast.Name)
                }
    found = set[str]()
    for path in tree.glob("perfkit/**/*.py"):
        source = path.read_bytes()
        if path == tree / file or any(name.encode() in source for name in names):
            own = str(path.relative_to(tree))
            if (
                own == file
                or f"{Path(file).stem} import".encode() in source
                or f"import {Path(file).stem}".encode() in source
            ):
                found |= {f"{own}:{f}" for f, node, _ in _functions(source) if _names(node) & names}
    return found


def _names(node: ast.AST) -> set[str]:
    return {
        n.id if isinstance(n, ast.Name) else n.attr for n in ast.walk(node) if isinstance(n, ast.Name | ast.Attribute)
    }


def _is_compiled(tree: Path, function: str) -> bool:
    file, _, name = function.partition(":")
    return any(
        marked for f, _, marked in _functions((tree / file).read_bytes()) if name == f or name.startswith(f"{f}.<")
    )


def _key(mutant: Mutant, source: bytes) -> str:
    """Return how `EQUIVALENT` names a mutation: its file and what its lines become, or what is left out."""
    lines = mutant.told(source).splitlines()
    was, now = (" ".join(x[1:].strip() for x in lines if x.startswith(sign)) for sign in "-+")
    return f"{mutant.file}: {f'without {was}' if now in ('pass', ';') else now}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("parts", nargs="+", choices=[*sorted(PARTS), "all"], help="all: fitters engines readers tracer")
    parser.add_argument("--number", type=int, default=20, help="of mutations in each part")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--of", metavar="COMMIT", default="", help="the commit whose mutations are drawn; this code's")
    parser.add_argument(
        "--limit", type=float, default=150, help="seconds of processor time for the tests of one mutation"
    )
    parser.add_argument("--list", action="store_true", help="only print the mutations")
    parser.add_argument("--store", type=Path, help="the file that keeps what is known")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin nothing more after this time")
    parser.add_argument("--again", action="store_true", help="try what survived, or was undecided, on all tests")
    parser.add_argument("--keep", action="store_true", help="write what the tests enter to the file in this folder")
    parser.add_argument("--folder", type=Path, help="for the copy of the tree, with what is compiled; used again")
    asked = parser.parse_args()
    end = time.monotonic() + asked.seconds
    parts = ["fitters", "engines", "readers", "tracer"] if "all" in asked.parts else asked.parts
    for name in ("numba", "pandas", "pyarrow.csv", "pyarrow.parquet", "scipy.optimize"):
        import_module(name)  # once, for all children
    draws = {part: drawn(part, asked.number, asked.seed, asked.of) for part in parts}
    turns = zip_longest(*([(part, *each) for each in draws[part]] for part in parts))
    chosen = [(part, m, tests) for turn in turns for part, m, tests in filter(None, turn) if m is not None]
    rows = [json.loads(x) for x in asked.store.read_text().splitlines()] if asked.store and asked.store.exists() else []
    known = {row["change"]: row for row in rows}
    argued = json.loads(EQUIVALENT.read_text()) if EQUIVALENT.exists() else {}
    tally: dict[str, Counter[str]] = {part: Counter() for part in parts}
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        reached = Reached(folder if asked.list else copied(folder), 10 * asked.limit)
        if not asked.list:
            every = [file for _, m, tests in chosen for file in test_files(reached.tree, m.file, tests)]
            reached.collect(list(dict.fromkeys(every)))
        for number, (part, mutant, tests) in enumerate(chosen, 1):
            source = ((ROOT if asked.list else reached.tree) / mutant.file).read_bytes()
            told = f"{mutant.file}:{mutant.line}\n{mutant.told(source)}"
            if asked.list:
                print(f"{number:3} {told}", flush=True)
                continue
            if (key := _key(mutant, source)) in argued:
                tally[part]["equivalent"] += 1
                print(f"{number:3} {key}: equivalent, {argued[key]}", flush=True)
                continue
            if told not in known or (known[told]["outcome"] != "noticed" and asked.again):
                if time.monotonic() > end:
                    tally[part]["not tried"] += 1
                    continue
                names = reached.chosen(mutant, test_files(reached.tree, mutant.file, tests), every=asked.again)
                known[told] = {"change": told, **planted(reached, mutant, names, asked.limit), "tests": len(names)}
                if asked.store:
                    with asked.store.open("a") as file:
                        file.write(json.dumps(known[told]) + "\n")
            found = known[told]
            tally[part][found["outcome"]] += 1
            place, _, change = told.partition("\n")
            by = f"by {found['by']}" if found["by"] else f"of {found['tests']} tests"
            print(f"{number:3} {place}: {found['outcome']} after {found['seconds']} s {by}", flush=True)
            if found["outcome"] != "noticed":
                print(change, flush=True)
        if asked.keep:
            keep(reached.rows)
    if asked.list:
        return 0
    kinds = ("noticed", "survived", "equivalent", "undecided", "not tried")
    for part, counts in [*tally.items(), ("all", sum(tally.values(), Counter[str]()))]:
        print(f"{part:8}", ", ".join(f"{counts[kind]} {kind}" for kind in kinds))
    tried = sum(counts[kind] for kind in kinds[:4] if kind != "equivalent")  # of all parts, which come last
    return int(counts["noticed"] < 0.9 * tried)


if __name__ == "__main__":
    sys.exit(main())
