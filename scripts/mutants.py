"""Do the tests notice small changes of the code? Two hundred mutations, one at a time, in a copy of the clone.

``python scripts/mutants.py --start 0 --count 20 --store mutants.jsonl`` runs a part of the list and keeps a row for
each mutation as soon as it is known; those that the file holds are not run again, so that the list can be run in
parts. The list is the same every time: 50 mutations of the fitters, the engines, the readers and the tracer each,
chosen at random (a comparison, a sign, a logical operator, an integer, min for max). Tests that read the clock or
drive a browser are left out, as are those of more than ten seconds.
"""

import argparse
import ast
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_EACH, _SEED, _LIMIT = 50, 16, 130
_SWAPS: dict[type, tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.And: ("and", "or"),
    ast.Or: ("or", "and"),
}
_CALLS = {"min": "max", "max": "min", "any": "all", "all": "any"}
# What is changed, and the tests of it: the nearest first.
_CPI = [f"fitters/test_{n}.py" for n in ("cpi_solvers", "cpi_checks", "cpi_stack", "cpi_validation", "paper_cpi_stack")]
_DAG = [
    "dag_schedule",
    "dag_reference",
    "reuse",
    "dag_others",
    "dag_paper",
    "dag_relax",
    "dag_sweep",
    "extended_roofline",
]
_READ = ["dialects", "read", "formats", "traps", "strangers", "perf_text", "labels_and_dates", "row_order"]
_READ += ["dressed_tables", "damaged", "no_silent_loss"]
_RECORD = ["tracer", "oracle", "lines", "inlined_lines", "source_names", "outside", "threads", "qemu"]
_AREAS: dict[str, list[tuple[str, list[str]]]] = {
    "fitters": [
        ("perfkit/fitters/spire/*.py", ["fitters/test_spire.py", "fitters/test_spire_right.py"]),
        ("perfkit/fitters/cpi/*.py", [*_CPI, "fitters/test_cpi_comparison.py"]),
        ("perfkit/fitters/topdown.py", ["fitters/test_topdown.py"]),
    ],
    "engines": [
        (
            "perfkit/simulators/gus/[cprst]*.py",
            [f"simulators/test_{n}.py" for n in ("gus", "gus_consistency", "memory", "columns", "timeline")],
        ),
        ("perfkit/simulators/memory/*.py", [f"simulators/test_{n}.py" for n in ("memory", "columns", "gus")]),
        ("perfkit/simulators/dag/[elrst]*.py", [f"simulators/test_{n}.py" for n in _DAG]),
    ],
    "readers": [("perfkit/readers/*.py", [f"readers/test_{n}.py" for n in _READ])],
    "tracer": [
        ("perfkit/trace/*.py", ["trace", *(f"collectors/tracer/test_{n}.py" for n in ("tracer", "threads"))]),
        ("perfkit/collectors/tracer/*.py", [f"collectors/tracer/test_{n}.py" for n in _RECORD]),
    ],
}


@dataclass(frozen=True)
class Mutation:
    """One change: `old` at a place of a file (offset in bytes) becomes `new`."""

    area: str
    file: str
    line: int
    at: int
    old: str
    new: str
    tests: tuple[str, ...]


def mutations() -> list[Mutation]:
    """Return the list, in the order in which it is run: the areas take turns."""
    rng = random.Random(_SEED)  # noqa: S311  the same list every time
    chosen = []
    for area, groups in _AREAS.items():
        found = [
            Mutation(area, str(path.relative_to(ROOT)), *change, tuple(f"tests/{name}" for name in tests))
            for pattern, tests in groups
            for path in sorted(ROOT.glob(pattern))
            for change in _changes(path.read_bytes())
        ]
        chosen.append(rng.sample(found, _EACH))
    return [mutation for turn in zip(*chosen, strict=True) for mutation in turn]


def _changes(source: bytes) -> Iterator[tuple[int, int, str, str]]:
    """Go through a file's possible changes: line, offset, the old text and the new one."""
    starts = [0]
    for line in source.split(b"\n"):
        starts.append(starts[-1] + len(line) + 1)
    todo: list[ast.AST] = [ast.parse(source)]
    while todo:
        node = todo.pop(0)
        if isinstance(node, (ast.Raise, ast.JoinedStr, ast.Import, ast.ImportFrom, ast.Assert)):
            continue  # words, and what only states the truth
        for name, value in ast.iter_fields(node):
            if name not in ("annotation", "returns", "decorator_list"):
                todo += [one for one in (value if isinstance(value, list) else [value]) if isinstance(one, ast.AST)]
        for before, after, operator in _operators(node):
            low = starts[before.end_lineno - 1] + before.end_col_offset
            high = starts[after.lineno - 1] + after.col_offset
            old, new = _SWAPS[type(operator)]
            at = source.find(old.encode(), low, high)
            if at >= 0 and b"#" not in source[low:high]:
                yield before.end_lineno, at, old, new
        if isinstance(node, ast.Constant) and type(node.value) is int:
            at = starts[node.lineno - 1] + node.col_offset
            old = source[at : starts[node.end_lineno - 1] + node.end_col_offset].decode()
            yield node.lineno, at, old, str(node.value + 1)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _CALLS:
            yield node.lineno, starts[node.lineno - 1] + node.col_offset, node.func.id, _CALLS[node.func.id]


def _operators(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr, ast.AST]]:
    if isinstance(node, ast.Compare):
        yield from (
            (a, b, op)
            for a, b, op in zip([node.left, *node.comparators], node.comparators, node.ops, strict=False)
            if type(op) in _SWAPS
        )
    elif isinstance(node, ast.BinOp) and type(node.op) in _SWAPS:
        yield node.left, node.right, node.op
    elif isinstance(node, ast.BoolOp):
        yield from ((a, b, node.op) for a, b in zip(node.values, node.values[1:], strict=False))


def outcome(mutation: Mutation, copy: Path) -> dict[str, object]:
    """Run the tests with one mutation in the copy, which is whole again afterwards."""
    path = copy / mutation.file
    whole = path.read_bytes()
    old = mutation.old.encode()
    path.write_bytes(whole[: mutation.at] + mutation.new.encode() + whole[mutation.at + len(old) :])
    environment = os.environ | {"PYTHONPATH": f"{copy}:{copy / 'widgets'}"}
    tests = [name for name in mutation.tests if (copy / name).exists()]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        "--no-header",
        "-p",
        "no:cacheprovider",
        "-m",
        "not measures and not browser",
        *_SLOW,
        *tests,
    ]
    start = time.monotonic()
    try:
        done = subprocess.run(
            command, cwd=copy, env=environment, capture_output=True, text=True, timeout=_LIMIT, check=False
        )
        found = {0: "survived", 1: "noticed", 2: "noticed"}.get(done.returncode, f"exit status {done.returncode}")
        by = next((x for x in done.stdout.splitlines() if x.startswith(("FAILED", "ERROR"))), "")[:160]
    except subprocess.TimeoutExpired:
        found, by = "out of time", ""
    finally:
        path.write_bytes(whole)
    return asdict(mutation) | {"outcome": found, "by": by, "seconds": round(time.monotonic() - start, 1)}


# Tests of more than ten seconds.
_SLOW = [f"--deselect={name}" for name in (
    "tests/readers/test_no_silent_loss.py::test_stray_lines_in_any_format_are_told_of",
    "tests/readers/test_read.py::test_truncated_compressed_file",
)]  # fmt: skip


def _copied(folder: Path) -> Path:
    for name in ("perfkit", "widgets", "tests", "data", "notebooks", "docs", "scripts"):
        if not (folder / name).exists():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("node_modules"))
    for name in ("pyproject.toml", "README.md", "kit"):
        shutil.copy(ROOT / name, folder / name)
    return folder


def main() -> None:
    """Run a part of the list and say how many changes were noticed, of all that the file holds."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--count", type=int, default=4 * _EACH)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no further mutation after this time")
    parser.add_argument("--store", type=Path, default=Path("mutants.jsonl"))
    parser.add_argument("--copy", type=Path, help="a folder for the copy, used again where it exists")
    options = parser.parse_args()
    rows = [json.loads(line) for line in options.store.read_text().splitlines()] if options.store.exists() else []
    rows = [row for row in rows if row["outcome"] != "out of time"]  # on a busy machine that says nothing
    known = {(row["file"], row["at"], row["old"], row["new"]) for row in rows}
    end = time.monotonic() + options.seconds
    with tempfile.TemporaryDirectory() as temporary, options.store.open("a") as store:
        folder = options.copy or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        copy = _copied(folder)
        for number, mutation in list(enumerate(mutations()))[options.start : options.start + options.count]:
            if (mutation.file, mutation.at, mutation.old, mutation.new) in known or time.monotonic() > end:
                continue
            rows.append({"number": number} | outcome(mutation, copy))
            store.write(json.dumps(rows[-1]) + "\n")
            store.flush()
            print(
                *(rows[-1][key] for key in ("number", "outcome", "seconds", "file", "line", "old", "new", "by")),
                flush=True,
            )
    noticed = sum(row["outcome"] == "noticed" for row in rows)
    print(f"{noticed} of {len(rows)} noticed")


if __name__ == "__main__":
    main()
