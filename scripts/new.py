"""Write the skeleton of a new core, reader, solver or notebook; it passes its own checks before anything is changed.

./kit new core NAME [--like CORE]     a core file: every figure is CORE's, marked as an estimate to replace
./kit new reader NAME                 a reader of counter dumps, and its test
./kit new solver NAME                 a regression for CPI stacks, and its test
./kit new notebook NAME               a notebook with parameters
"""

import argparse
import json
import keyword
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CORES = ROOT / "perfkit" / "machine" / "cores"
# The tests that name what was added.
CHECKS = {"core": "tests/machine", "reader": "tests/readers", "solver": "tests/fitters", "notebook": "tests/notebooks"}


def main() -> int:
    """Write the files, and say what to do next."""
    parser = argparse.ArgumentParser(
        prog="./kit new", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kind", choices=["core", "reader", "solver", "notebook"])
    parser.add_argument("name", help="lower-case letters, digits and _ (a notebook: 70_my_page)")
    parser.add_argument("--like", metavar="CORE", help="for a core: the one to start from (default: skylake_x)")
    parser.add_argument("--root", type=Path, default=ROOT, help=argparse.SUPPRESS)  # tests write elsewhere
    options = parser.parse_args()
    start = "[0-9a-z]" if options.kind == "notebook" else "[a-z]"
    if not re.fullmatch(rf"{start}[a-z0-9_]*", options.name):
        near = re.sub(r"[^a-z0-9]+", "_", options.name.lower()).strip("_")
        use = f"; use {near!r}" if re.fullmatch(rf"{start}[a-z0-9_]*", near) else ""
        first = "" if options.kind == "notebook" else ", and starts with a letter"
        parser.error(f"a name holds lower-case letters, digits and _{first}; found {options.name!r}{use}")
    if keyword.iskeyword(options.name):
        parser.error(
            f"{options.name} is a word of Python, which cannot name a module; use {options.name + '_format'!r}"
        )
    if options.like is not None and options.kind != "core":
        parser.error(
            f"--like names the core that a new core starts from; a {options.kind} starts from none: leave it out"
        )
    makers = {"core": core, "reader": reader, "solver": solver, "notebook": notebook}
    try:
        files = makers[options.kind](options.name, options)
    except ValueError as error:
        parser.error(str(error))
    taken = [path for path in files if (options.root / path).exists()]
    if taken:
        parser.error(f"already there: {', '.join(map(str, taken))}; choose another name")
    for path, text in files.items():
        (options.root / path).parent.mkdir(parents=True, exist_ok=True)
        (options.root / path).write_text(text, encoding="utf-8")
        print(f"wrote {path}")
    if options.kind == "reader":
        register(options.name, options.root)
    if options.kind == "notebook":
        print("metadata perfkit.pictures says how many pictures the page must show (now 1: samples.plot())")
        add_links(options.root)
    print(f"next: edit, then ./kit test {CHECKS[options.kind]} -k {options.name} (CONTRIBUTING.md)")
    return 0


def add_links(root: Path) -> None:
    """Write the table of Binder links anew, with the new notebook's."""
    program = root / "scripts" / "binder_links.py"
    if program.is_file():
        subprocess.run([sys.executable, str(program)], check=True)


def core(name: str, options: argparse.Namespace) -> dict[str, str]:
    """Return a core file with another core's figures, each an estimate to replace."""
    owners = core_names()
    if name == "host":
        raise ValueError("host is the name of this machine's core wherever a core is named; choose another name")
    if owners.get(name, name) != name:
        raise ValueError(f"{name} is another name of the core {owners[name]}; choose another name")
    if (like := owners.get(options.like or "skylake_x")) is None:
        known = ", ".join(sorted(set(owners.values())))
        raise ValueError(f"--like takes the name of a core file: {known}; found {options.like!r}")
    lines = []
    skipping = False
    for line in (CORES / f"{like}.toml").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            skipping = line == "[sources]"
            lines += [line] if not skipping else [line, f'estimate = "estimate: {like}\'s figure, to replace"']
        elif skipping or line.startswith(("aliases", "processors", "uops_info", "#")):
            lines += [""] if skipping and not line else []
        elif line.startswith("name = "):
            lines += [f'name = "{name}"']
        elif line.startswith("title = "):
            lines += [f'title = "{name}, a skeleton with the figures of {like}"', *HINTS, "aliases = []"]
        elif "source = " in line:
            line = re.sub(r', note = "(\\.|[^"\\])*"', "", line)
            lines += [re.sub(r'source = "[^"]*"', f'source = "estimate", note = "that of {like}"', line)]
        else:
            lines += [line]
    return {f"perfkit/machine/cores/{name}.toml": "\n".join(lines) + "\n"}


def core_names() -> dict[str, str]:
    """Return the name of each core file, by that name and by each alias in it."""
    names = {}
    for path in CORES.glob("*.toml"):
        names |= dict.fromkeys([path.stem, *tomllib.loads(path.read_text(encoding="utf-8"))["aliases"]], path.stem)
    return names


HINTS = [
    "# Replace each figure by this core's own and name its source in [sources]; delete `estimate` with its last use.",
    "# `table` is the instruction table: keep another core's (its port groups are [ports]), or make one with",
    "# data/make/instruction_tables.py. Two more lists may follow `aliases`:",
    '#   processors = ["GenuineIntel 6 85"]   vendor, family and model of /proc/cpuinfo, for perfkit calibrate',
    '#   uops_info = ["SKX"]                  the names by which uops.info knows the core',
]


def reader(name: str, _: argparse.Namespace) -> dict[str, str]:
    """Return a reader of a small text format of its own, and its test."""
    names = {"@name@": name, "@NAME@": name.replace("_", "-")}
    return {
        f"perfkit/readers/{name}.py": fill(READER, names),
        f"tests/readers/test_{name}.py": fill(READER_TEST, names),
    }


def register(name: str, root: Path) -> None:
    """List a reader where formats are told apart."""
    path = root / "perfkit" / "readers" / "recognise.py"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("FORMATS = (\n", f'FORMATS = (\n    "{name}",\n', 1), encoding="utf-8")
    print("listed in perfkit/readers/recognise.py (FORMATS: an unmistakable beginning before a vague one)")


def solver(name: str, _: argparse.Namespace) -> dict[str, str]:
    """Return a regression for CPI stacks, and its test."""
    # Read, not imported: before any set-up there is no perfkit to import.
    text = (ROOT / "perfkit" / "fitters" / "cpi" / "estimator.py").read_text(encoding="utf-8")
    own = re.findall(r'"(\w+)"', next(line for line in text.splitlines() if line.startswith("BUILT_IN")))
    if name in own:
        raise ValueError(f"{name} is one of perfkit's own methods ({', '.join(own)}); choose another name")
    names = {"@name@": name}
    return {
        f"perfkit/fitters/cpi/solver_{name}.py": fill(SOLVER, names),
        f"tests/fitters/test_solver_{name}.py": fill(SOLVER_TEST, names),
    }


def notebook(name: str, _: argparse.Namespace) -> dict[str, str]:
    """Return a notebook without outputs: text, parameters, one picture."""
    if found := [p.stem for p in sorted((ROOT / "notebooks").glob("*.ipynb")) if name != p.stem and name in p.stem]:
        raise ValueError(f"{name} is short for {found[0]} in perfkit app and report; choose a longer name")
    title = re.sub(r"^\d+_", "", name).replace("_", " ").capitalize()
    cells = [
        ("markdown", {}, f"# {title}\n\nThe question that this page answers, and the method with its source."),
        (
            "code",
            {"tags": ["parameters"]},
            'source: str = "spire/memory"  # samples: data set, counter dump or pattern',
        ),
        (
            "code",
            {},
            (
                "%matplotlib inline\nimport perfkit as pk\n\nsamples = pk.open_samples(source)\n"
                'samples.describe().astype(object).fillna("–")'
            ),
        ),
        ("code", {}, "samples.plot();"),
        ("markdown", {}, "Where the data are simulated or generated, say so here, too."),
    ]
    made = [
        {"cell_type": kind, "id": f"cell-{n:02}", "metadata": metadata, "source": text.splitlines(keepends=True)}
        | ({"execution_count": None, "outputs": []} if kind == "code" else {})
        for n, (kind, metadata, text) in enumerate(cells)
    ]
    metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
        "title": title,
        "perfkit": {"pictures": 1},  # how many a reader must see
    }
    text = json.dumps({"cells": made, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}, indent=1)
    return {f"notebooks/{name}.ipynb": text + "\n"}


def fill(template: str, names: dict[str, str]) -> str:
    """Return a template with its names filled in."""
    for mark, name in names.items():
        template = template.replace(mark, name)
    return template.lstrip("\n")


READER = '''
"""A skeleton: the format of PROGRAM. Say here where the format is described, and what of it is not read."""

import math

import pandas as pd

from perfkit.errors import FormatError
from perfkit.readers.open import Opened
from perfkit.readers.report import Dump, Report

NAME = "@NAME@"
TITLE = "PROGRAM's output (@NAME@)"

_HEADER = "# @NAME@"


def recognise(head: str) -> bool:
    """Whether the beginning of a file looks like this format."""
    return head.startswith(_HEADER)


def read(content: Opened, report: Report, run: str) -> Dump:
    """Read lines of SECONDS EVENT COUNT. Every line is reported as counts, description or problem; none is skipped."""
    rows = []
    intervals: dict[float, int] = {}
    last = -math.inf
    for number, line in enumerate(content.lines(), 1):
        words = line.split()
        if not words or line.startswith("#"):
            report.describes(number)
            continue
        try:
            at, event, count = float(words[0]), words[1], float(words[2])
        except (IndexError, ValueError):
            report.problem(number, line, "expected SECONDS EVENT COUNT")
            continue
        if not (0 <= count < math.inf and at < math.inf):
            report.problem(number, line, "expected a finite count >= 0 at a finite time")
            continue
        if at < last:
            report.problem(number, line, f"expected times that do not go back; the line before is of {last:g} s")
            continue
        last = at
        report.counts(number)
        rows.append({"interval": intervals.setdefault(at, len(intervals)), "at": at, "event": event, "count": count})
    if not rows:
        raise FormatError(f"{report.file}: expected lines of SECONDS EVENT COUNT; found none")
    return Dump(pd.DataFrame(rows).assign(run=run))
'''

READER_TEST = '''
"""The format @NAME@: a dump by hand, and each trap of the format."""

from pathlib import Path

import pytest

import perfkit as pk
from perfkit.errors import FormatError
from perfkit.readers.@name@ import NAME, TITLE, recognise

DUMP = """\\
# @NAME@
1.0 cycles 200
1.0 instructions 100
2.0 cycles 300
2.0 instructions 450
"""


@pytest.fixture
def dump(tmp_path):
    def written(text):
        path = tmp_path / "dump.txt"
        path.write_text(text)
        return path

    return written


def test_counts_and_intervals(dump):
    samples = pk.read_samples(dump(DUMP))
    assert samples.n_intervals == 2
    table = samples.to_frame()
    assert table["time"].tolist() == [200, 200, 300, 300], "cycles of each interval, beside each of its counts"
    assert table["work"].tolist() == [100, 100, 450, 450], "instructions"


def test_the_dumps_of_other_formats_are_left_to_their_readers():
    heads = {p.name: p.read_text(errors="replace")[:4096] for p in Path(__file__).with_name("fixtures").iterdir()}
    assert sorted(name for name, head in heads.items() if recognise(head))[:5] == []
    assert (NAME, bool(TITLE), recognise(DUMP)) == ("@NAME@", True, True)


def test_a_line_that_does_not_fit_is_named(dump):
    with pytest.raises(FormatError, match="SECONDS EVENT COUNT"):
        pk.read_samples(dump(DUMP + "3.0 cycles many\\n"))
    assert len(pk.read_samples(dump(DUMP + "3.0 cycles many\\n"), errors="collect").problems) == 1


@pytest.mark.parametrize("line", ["3.0 cycles inf", "3.0 cycles -1", "3.0 cycles nan", "1.5 cycles 2"])
def test_a_count_that_cannot_be_one_is_named(dump, line):
    assert pk.read_samples(dump(DUMP + line + "\\n"), errors="collect").problems["text"].tolist() == [line]
'''

SOLVER = '''
"""A skeleton of a regression for CPI stacks: cite the paper and its equation here.

``pk.CpiStack(method="@name@")`` and ``perfkit cpi --method`` find it by the name of this file.
"""

import numpy as np


def solve(M: np.ndarray) -> np.ndarray:
    """Return the coefficients [base, one per event] for a moment matrix.

    Parameters
    ----------
    M : array, shape (m + 1, m + 1)
        Z' diag(w) Z of Z = [1, events, target]: `perfkit.fitters.cpi.solvers.System` says in which units.
    """
    A, b = M[:-1, :-1], M[:-1, -1]
    scale = np.sqrt(np.diag(A))  # counts differ by many orders of magnitude
    scale[scale == 0] = 1.0
    return np.asarray(np.linalg.lstsq(A / np.outer(scale, scale), b / scale, rcond=None)[0] / scale)
'''

SOLVER_TEST = '''
"""The regression @name@: a system solved by hand, then a planted stack."""

import numpy as np
import pytest

import perfkit as pk
from perfkit.fitters.cpi.solver_@name@ import solve


def test_a_system_solved_by_hand():
    # y = 2 + 3 x at x = 0, 1, 2
    Z = np.array([[1.0, 0.0, 2.0], [1.0, 1.0, 5.0], [1.0, 2.0, 8.0]])
    assert solve(Z.T @ Z) == pytest.approx([2, 3])


def test_a_planted_stack_is_recovered():
    samples, _ = pk.synthetic_cpi(penalties={"branch-misses": 20.0}, intervals=200, seed=4)
    fit = pk.CpiStack(method="@name@").fit(samples)
    assert fit.penalties["branch-misses"] == pytest.approx(20, rel=0.05)
'''


if __name__ == "__main__":
    sys.exit(main())
