"""Small mutations of the code, one at a time, and whether the tests notice.

``python -m tests.benchmarks.mutants readers fitters --number 60 --seed 1`` plants 60 mutations, chosen at random among
all that there are in these parts, and runs the part's tests on each in a copy of the tree; nothing is changed here. A
mutation is noticed if a test fails; one under which the tests take too long is counted apart, and not as noticed.
Those that survive are printed as differences. Exit status 1 where fewer than nine in ten are noticed.
"""

import argparse
import ast
import difflib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def _files(folder: str, *names: str) -> list[str]:
    return [f"tests/{folder}/test_{name}.py" for name in names]


_READERS = _files("readers", "dialects", "traps", "strangers", "formats", "read", "labels_and_dates", "no_silent_loss")
_SPIRE = _files("fitters", "spire", "spire_right", "roofline")
_CPI = _files(
    "fitters", "cpi_solvers", "cpi_checks", "cpi_stack", "cpi_comparison", "cpi_validation", "paper_cpi_stack"
)
_DAG = _files("simulators", "dag_schedule", "dag_reference", "dag_others", "dag_relax", "dag_sweep", "reuse")
_GUS = _files("simulators", "gus", "gus_consistency", "gus_schedulers", "memory", "streamed", "gus_diff")
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
        "perfkit/fitters/*/*fleet*.py": ["tests/fleet"],
        "perfkit/fitters/spire/*.py": _SPIRE,
        "perfkit/fitters/cpi/*.py": _CPI,
        "perfkit/fitters/bottlenecks/*.py": _files("fitters", "bottlenecks"),
        "perfkit/fitters/studies/*.py": _files("fitters", "studies_analysis"),
        "perfkit/fitters/topdown.py": _files("fitters", "topdown"),
    },
    "engines": {
        "perfkit/simulators/dag/*.py": [*_DAG, "tests/simulators/test_extended_roofline.py"],
        "perfkit/simulators/gus/*.py": _GUS,
        "perfkit/simulators/memory/*.py": ["tests/simulators/test_memory.py", *_GUS],
    },
    "tracer": {"perfkit/trace/*.py": ["tests/trace"], "perfkit/collectors/tracer/*.py": ["tests/collectors/tracer"]},
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


def drawn(part: str, number: int, rng: random.Random) -> list[tuple[Mutant, list[str]]]:
    """Return so many mutations of a part, drawn without repetition, each with the tests that should notice."""
    tests_of: dict[Path, list[str]] = {}
    for pattern, tests in PARTS[part].items():
        for file in sorted(ROOT.glob(pattern)):
            tests_of.setdefault(file, tests)
    every = [(m, t) for f, t in tests_of.items() for m in mutants(str(f.relative_to(ROOT)), f.read_bytes())]
    return rng.sample(every, min(number, len(every)))


# ------------------------------------------------------------------ the tests


def copied(folder: Path) -> Path:
    """Copy the code and its tests; data and documents are linked."""
    for name in _COPIED:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in _LINKED:
        (folder / name).symlink_to(ROOT / name)
    return folder


def outcome(tree: Path, tests: list[str], limit: float) -> tuple[str, float]:
    """Run tests in a child of this process, which has the libraries loaded; return noticed, survived or too slow."""
    begin = time.monotonic()
    child = os.fork()
    if not child:
        status = 3
        try:
            os.setsid()
            status = _run(tree, tests)
        finally:  # nothing of the parent's is to be cleaned up here
            os._exit(status)
    status = -1
    while time.monotonic() < begin + limit:
        done, how = os.waitpid(child, os.WNOHANG)
        if done:
            status = os.waitstatus_to_exitcode(how)
            break
        time.sleep(0.05)
    else:
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return "too slow", time.monotonic() - begin
    return "survived" if status == 0 else "noticed", time.monotonic() - begin


def _run(tree: Path, tests: list[str]) -> int:
    import pytest

    os.chdir(tree)
    sys.path[:0] = [str(tree), str(tree / "widgets")]
    sys.dont_write_bytecode = True
    null = os.open(os.devnull, os.O_WRONLY)
    for out in (1, 2):
        os.dup2(null, out)
    chosen = [t for t in tests if (tree / t).exists()]
    return int(
        pytest.main(
            ["-x", "-q", "-p", "no:cacheprovider", "-m", "not measures and not browser and not shared_data", *chosen]
        )
    )


def _check_unchanged(tree: Path, lists: list[list[str]], limit: float) -> None:
    """See that the tests pass before anything is changed: what fails then would count as having noticed."""
    for tests in {tuple(t) for t in lists}:
        what, seconds = outcome(tree, list(tests), 4 * limit)
        if what != "survived":
            raise SystemExit(f"without any mutation, {' '.join(tests)}: {what} after {seconds:.0f} s")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("parts", nargs="+", choices=sorted(PARTS))
    parser.add_argument("--number", type=int, default=20, help="of mutations in each part")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=float, default=240, help="seconds for the tests of one mutation")
    parser.add_argument("--list", action="store_true", help="only print the mutations")
    asked = parser.parse_args()
    for name in ("numba", "pandas", "pyarrow.csv", "pyarrow.parquet", "scipy.optimize"):
        import_module(name)  # once, for all children
    rng = random.Random(asked.seed)
    chosen = [each for part in asked.parts for each in drawn(part, asked.number, rng)]
    tally = dict.fromkeys(("noticed", "survived", "too slow"), 0)
    with tempfile.TemporaryDirectory() as folder:
        tree = copied(Path(folder))
        if not asked.list:
            _check_unchanged(tree, [tests for _, tests in chosen], asked.limit)
        for number, (mutant, tests) in enumerate(chosen, 1):
            source = (ROOT / mutant.file).read_bytes()
            head = f"{number:3} {mutant.file}:{mutant.line}"
            if asked.list:
                print(f"{head}\n{mutant.told(source)}", flush=True)
                continue
            (tree / mutant.file).write_bytes(mutant.applied(source))
            what, seconds = outcome(tree, tests, asked.limit)
            (tree / mutant.file).write_bytes(source)
            tally[what] += 1
            print(
                f"{head}: {what} after {seconds:.0f} s" + ("" if what == "noticed" else f"\n{mutant.told(source)}"),
                flush=True,
            )
    print(f"of {len(chosen)} mutations: {', '.join(f'{n} {what}' for what, n in tally.items())}")
    return int(tally["noticed"] < 0.9 * len(chosen) and not asked.list)


if __name__ == "__main__":
    sys.exit(main())
