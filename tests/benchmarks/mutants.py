"""Small mutations of the code, one at a time, and whether the tests notice.

``python -m tests.benchmarks.mutants readers fitters --number 50 --seed 1`` plants 50 mutations in each of these parts,
chosen at random among all that there are, and runs the part's tests on each in a copy of the tree; nothing is changed
here. Tests of more than ten seconds, and those that read the clock or drive a browser, are left out. A mutation is
noticed if a test fails; one under which the tests take too long is counted apart, and not as noticed. Those that
survive are printed as differences. Exit status 1 where fewer than nine in ten are noticed.

Only those tests are run that executed the changed line in a run without mutations (at most 80 of them; all where none
did, as where numba compiled it or a child process runs it). ``--again`` runs all of them on what survived.

With ``--store FILE`` each answer is kept as soon as it is known, and what the file holds is not run again: a list can
be run in pieces (``--seconds 150``), and what survived be tried again with new tests (``--again``). ``--of COMMIT``
plants the mutations of an earlier commit, each where its line is now: a list is followed while the code changes.
"""

import argparse
import ast
import difflib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from itertools import zip_longest
from pathlib import Path, PurePath
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
_SLOW_SECONDS = 10
_MOST_TESTS, _MOST_CASES = 80, 10  # of one line, and of them of one test with parameters


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
# What is mutated, by part, and the tests that should notice, those most likely to first. A file that several patterns
# of a part fit is tested by those of the first.
PARTS: dict[str, dict[str, list[str]]] = {
    "readers": {
        "perfkit/readers/*fleet*.py": ["tests/fleet"],
        "perfkit/readers/*.py": _READERS,
        "perfkit/samples/[fp]*.py": ["tests/fleet"],
        "perfkit/samples/*.py": ["tests/samples", *_READERS],
    },
    "exploration": {"perfkit/exploration/*.py": ["tests/exploration", "tests/readers/test_dialects.py"]},
    "fitters": {
        "perfkit/fitters/*/*fleet*.py": ["tests/fleet", *_files("fitters", "answers_as_before")],
        "perfkit/fitters/spire/*.py": _SPIRE,
        "perfkit/fitters/cpi/*.py": _CPI,
        "perfkit/fitters/bottlenecks/*.py": _files(
            "fitters", "answers_as_before", "bottlenecks", "learnt_stacks", "known_figures"
        ),
        "perfkit/fitters/studies/*.py": _files("fitters", "answers_as_before", "studies_analysis", "known_figures"),
        "perfkit/fitters/topdown.py": _files("fitters", "answers_as_before", "topdown", "known_figures"),
    },
    "engines": {
        "perfkit/simulators/dag/*.py": _DAG,
        "perfkit/simulators/gus/*.py": _GUS,
        "perfkit/simulators/memory/*.py": ["tests/simulators/test_memory.py", *_GUS],
    },
    "tracer": {
        "perfkit/trace/aarch64.py": ["tests/aarch64", "tests/machine"],
        "perfkit/trace/*.py": ["tests/trace", "tests/collectors/test_blocks.py", "tests/machine"],
        "perfkit/collectors/tracer/*.py": ["tests/collectors/tracer", "tests/collectors/test_pinned.py"],
    },
}
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
    """A plug-in of pytest that leaves tests out, and writes down how long each takes and the first that fails."""

    def __init__(self, told: Path, leave: list[str], traced: str = "") -> None:
        self.told, self.leave, self.failed, self.seconds = told, set(leave), "", dict[str, float]()
        self.traced = traced  # where the files lie whose executed lines are kept, by test
        self.ran: dict[str, set[tuple[str, int]]] = {}
        self.now = ""

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items[:] = [item for item in items if item.nodeid not in self.leave]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Iterator[None]:
        before = sum(os.times()[:4])  # of this process and its children: the machine may be busy
        self.now = item.nodeid
        sys.settrace(self._call if self.traced else None)
        done = yield
        sys.settrace(None)
        self.seconds[item.nodeid] = sum(os.times()[:4]) - before
        return done

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> Iterator[None]:
        of_test = self.now
        if fixturedef.scope != "function":  # what it executes, it executes for every test of the file
            self.now = of_test.partition("::")[0]
        done = yield
        self.now = of_test
        return done

    def _some(self, numbers: list[int]) -> list[int]:
        """Choose some of the tests of a line, of many different ones."""
        names, found, of = list(self.ran), [], Counter[str]()
        for number in numbers:
            of[name := names[number].partition("[")[0]] += 1
            if of[name] <= _MOST_CASES:
                found.append(number)
        return found[:_MOST_TESTS]

    def _call(self, frame: Any, event: str, argument: Any) -> Any:
        return self._line if frame.f_code.co_filename.startswith(self.traced) else None

    def _line(self, frame: Any, event: str, argument: Any) -> Any:
        self.ran.setdefault(self.now, set()).add((frame.f_code.co_filename, frame.f_lineno))
        return self._line

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.failed = self.failed or (report.nodeid if report.failed else "")

    def pytest_collectreport(self, report: Any) -> None:
        self.pytest_runtest_logreport(report)

    def pytest_sessionfinish(self) -> None:
        slow = [name for name, seconds in self.seconds.items() if seconds > _SLOW_SECONDS]
        of_line: dict[str, list[int]] = {}
        for number, lines in enumerate(self.ran.values()):
            for file, line in lines:
                of_line.setdefault(f"perfkit/{file.removeprefix(self.traced)}:{line}", []).append(number)
        ran = {"tests": list(self.ran), "covers": {line: self._some(by) for line, by in of_line.items()}}
        self.told.write_text(json.dumps({"by": self.failed, "slow": slow} | (ran if self.traced else {})))


def copied(folder: Path) -> Path:
    """Copy the code and its tests; data and documents are linked. What is there already is brought up to date."""
    for name in _COPIED:
        shutil.rmtree(folder / name, ignore_errors=True)
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in _LINKED:
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(ROOT / name)
    return folder


def planted(tree: Path, mutant: Mutant, tests: list[str], limit: float, leave: list[str]) -> dict[str, Any]:
    """Return what the tests say of one mutation in the copy, which is whole again afterwards."""
    path = tree / mutant.file
    source, times = path.read_bytes(), path.stat()
    # numba keeps the compiled callers of what is changed, which hold it: none of a file that uses this one may be used.
    users = [path, *_compiled_users(tree, path)] if b"njit" in source else [path]
    kept = {user: user.stat() for user in users}
    cache, spare = tree / "numba", tree / "numba-of-the-mutant"
    shutil.rmtree(spare, ignore_errors=True)
    if users != [path] or b"njit" in source:
        shutil.copytree(cache, spare, copy_function=os.link)  # numba replaces its files, and never changes one
    path.write_bytes(mutant.applied(source))
    try:
        for user in users:
            os.utime(user)
        return outcome(tree, tests, limit, leave, spare if spare.exists() else cache)
    finally:
        path.write_bytes(source)
        for user, was in {**kept, path: times}.items():
            os.utime(user, ns=(was.st_atime_ns, was.st_mtime_ns))


def _compiled_users(tree: Path, path: Path) -> list[Path]:
    """Return the files with compiled functions that may call those of a file, directly or through others."""
    compiled = {p: p.read_text() for p in tree.glob("perfkit/**/*.py") if b"njit" in p.read_bytes()}
    users, todo = set[Path](), [path]
    while todo:
        name = todo.pop().stem
        found = {p for p, text in compiled.items() if f"{name} import" in text or f"import {name}" in text}
        todo += found - users
        users |= found
    return sorted(users - {path})


def outcome(
    tree: Path, tests: list[str], limit: float, leave: list[str], cache: Path, traced: str = ""
) -> dict[str, Any]:
    """Run tests in a child of this process, which has the libraries: noticed, survived or too slow, and by whom."""
    begin, told = time.monotonic(), tree / "told.json"
    told.unlink(missing_ok=True)
    child = os.fork()
    if not child:
        status = 3
        try:
            os.setsid()
            status = _run(tree, tests, cache, _Watch(told, leave, traced))
        finally:  # nothing of the parent's is to be cleaned up here
            os._exit(status)
    status = None
    while status is None and time.monotonic() < begin + limit:
        done, how = os.waitpid(child, os.WNOHANG)
        status = os.waitstatus_to_exitcode(how) if done else None
        time.sleep(0.05)
    if status is None:
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
    what = "too slow" if status is None else "noticed" if status else "survived"
    said = json.loads(told.read_text()) if told.exists() else {"by": f"exit status {status}", "slow": []}
    return {"outcome": what, "seconds": round(time.monotonic() - begin, 1)} | said


def _run(tree: Path, tests: list[str], cache: Path, watch: _Watch) -> int:
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
    chosen = [t for t in tests if (tree / t.partition("::")[0]).exists()]
    marked = "not measures and not browser and not shared_data"
    stop = [] if watch.traced else ["-x"]
    return int(pytest.main([*stop, "-q", "-p", "no:cacheprovider", "-m", marked, *chosen], plugins=[watch]))


def whole(tree: Path, tests: list[str], limit: float) -> dict[str, Any]:
    """Run tests before anything is changed: what fails then would count as having noticed; who is slow is told."""
    found = outcome(tree, tests, 4 * limit, [], tree / "numba")
    if found["outcome"] != "survived":
        raise SystemExit(f"without any mutation, {' '.join(tests)}: {found}")
    ran = outcome(tree, tests, 16 * limit, found["slow"], tree / "numba", f"{tree}/perfkit/")
    return {"unchanged": tests, "tests": ran.get("tests", []), "covers": ran.get("covers", {})} | found


def pertinent(mutant: Mutant, run: dict[str, Any], tree: Path) -> list[str]:
    """Return the tests that execute a mutation's lines, in their order; all tests where none is known to."""
    source = (tree / mutant.file).read_bytes()
    if b"njit" in source:
        return list(run["unchanged"])  # what is compiled leaves no trace
    lines = range(mutant.line, source[: mutant.stop].count(b"\n") + 2)
    found = {test for line in lines for test in run["covers"].get(f"{mutant.file}:{line}", [])}
    return [run["tests"][test] for test in sorted(found)] or list(run["unchanged"])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("parts", nargs="+", choices=sorted(PARTS))
    parser.add_argument("--number", type=int, default=20, help="of mutations in each part")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--of", metavar="COMMIT", default="", help="the commit whose mutations are drawn; this code's")
    parser.add_argument("--limit", type=float, default=240, help="seconds for the tests of one mutation")
    parser.add_argument("--list", action="store_true", help="only print the mutations")
    parser.add_argument("--store", type=Path, help="the file that keeps what is known")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin nothing more after this time")
    parser.add_argument("--again", action="store_true", help="try what survived again")
    parser.add_argument("--folder", type=Path, help="for the copy of the tree, with what is compiled; used again")
    asked = parser.parse_args()
    end = time.monotonic() + asked.seconds
    for name in ("numba", "pandas", "pyarrow.csv", "pyarrow.parquet", "scipy.optimize"):
        import_module(name)  # once, for all children
    turns = zip_longest(*(drawn(part, asked.number, asked.seed, asked.of) for part in asked.parts))
    chosen = [each for turn in turns for each in turn if each is not None]
    rows = [json.loads(x) for x in asked.store.read_text().splitlines()] if asked.store and asked.store.exists() else []
    whole_runs = {tuple(row["unchanged"]): row for row in rows if "unchanged" in row}
    known = {row["change"]: row for row in rows if "change" in row}
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        tree = folder if asked.list else copied(folder)

        def keep(row: dict[str, Any]) -> None:
            if asked.store:
                with asked.store.open("a") as file:
                    file.write(json.dumps(row) + "\n")

        for number, (mutant, tests) in enumerate(chosen, 1):
            if mutant is None:
                continue
            told = f"{mutant.file}:{mutant.line}\n{mutant.told((ROOT / mutant.file).read_bytes())}"
            if asked.list:
                print(f"{number:3} {told}", flush=True)
                continue
            if told in known and (known[told]["outcome"] == "noticed" or not asked.again):
                continue
            if time.monotonic() > end:
                break
            if tuple(tests) not in whole_runs:
                keep(row := whole(tree, tests, asked.limit))
                whole_runs[tuple(tests)] = row
            row = whole_runs[tuple(tests)]
            chosen_tests = tests if asked.again else pertinent(mutant, row, tree)
            found = planted(tree, mutant, chosen_tests, asked.limit, row["slow"])
            known[told] = {"number": number, "change": told, **found}
            keep(known[told])
            place, _, change = told.partition("\n")
            print(f"{number:3} {place}: {found['outcome']} after {found['seconds']} s by {found['by']}", flush=True)
            if found["outcome"] != "noticed":
                print(change, flush=True)
    tally = {
        what: sum(row["outcome"] == what for row in known.values()) for what in ("noticed", "survived", "too slow")
    }
    print(f"of {len(chosen)} mutations: {', '.join(f'{n} {what}' for what, n in tally.items())}")
    return int(tally["noticed"] < 0.9 * len(known) and not asked.list)


if __name__ == "__main__":
    sys.exit(main())
