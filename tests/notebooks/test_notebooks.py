"""Every notebook of the folder: what it must hold, and that it runs, with its defaults and with other parameters."""

import ast
import json
import re
from pathlib import Path
from typing import Any

import nbformat
import papermill
import pytest

import perfkit as pk
from perfkit.cli.notebook_runs import parameters_of
from perfkit.cli.warm_kernels import warm_manager
from perfkit.machine.overlays import write_overlay
from tests.warm import names_in

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "notebooks"
NOTEBOOKS = sorted(FOLDER.rglob("*.ipynb"))
SHARED = ROOT.parent / "shared" / "data" / "perf"

# Parameters other than the defaults, a notebook, and what its output then says. One without an entry runs with its
# defaults only. "{dumps}" is a folder of small perf dumps that this test writes.
CHANGED: dict[str, list[tuple[dict[str, Any], list[str]]]] = {
    "00_tour": [({"source": "{dumps}/app.csv"}, ["2 events in 20 intervals"])],
    "01_your_dump": [({"dump": "{dumps}/train-*.csv"}, ["runs: CPI from", "measure next"])],
    "30_gus_optimization": [
        (
            {"kernel": "triad", "core": "zen4", "calibration": "{dumps}/host.toml", "top": 3},
            # The calibration's FMAs take 5 cycles and not 4.
            ["calibrated by", "fig1a: 10.0", "No published or measured figures", "triad:", "simulated"],
        ),
        (
            {
                "kernel": "{dumps}/mine.c",
                "arguments": "f8[400], f8[400], 2.0, 400",
                "size": "STEP=2",
                "build": "scalar",
                "core": "zen3",
                "weights": [1.5, 3.0],
                "top": 4,
            },
            # The chain of additions: its line, its instruction, and what helps.
            ["No published or measured figures", "mine:", "sum += y[i];", "(line 7)", "instruction_latency"],
        ),
    ],
    "40_extended_roofline": [
        (
            {
                "what": "{dumps}/two.c",
                "function": "dot,odd",
                "arguments": "f8[N], f8[N], N",
                "size": "300,6000",
                "whole": True,
                "core": "zen5",
            },
            # Every kernel at every size has its column, its row, its view, its schedule and its gains.
            [
                *("nodes of dot(300)", "nodes of odd(6000)", "flops/cycle", "integer operations"),
                *(f"Extended roofline: {name}({n}) on zen5" for name in ("dot", "odd") for n in (300, 6000)),
                *(f"Schedule of {name}({n}) on zen5" for name in ("dot", "odd") for n in (300, 6000)),
                "dot(6000) on zen5 (simulated): twice as good would gain: latency of additions",
            ],
        ),
    ],
    "unit1_what_bounds_code": [
        (
            {"student": "Zoë Müller", "predictions": ["4: one FMA's latency", 2.0]},
            ["Exercises drawn for Zoë Müller", "Found: 8: two FMAs", "You predicted: 2 cycles"],
        ),
    ],
    "unit2_counters_and_spire": [
        (
            {"predictions": ["exe_activity.1_ports_util"]},
            ["You predicted: exe_activity.1_ports_util. Found: br_misp_retired.all_branches", "samples are generated"],
        ),
    ],
    "unit3_measuring": [
        (
            {"student": "Zoë Müller", "predictions": ["the median", 5]},
            [
                "Exercises of Zoë Müller",
                "You predicted: the median. Found: the fastest",
                "You predicted: 5 of 100. Found: ",
            ],
        ),
    ],
    "unit4_what_if": [
        (
            {"student": "Zoë Müller", "predictions": ["1.4", "vfmadd231pd: executed most often"]},
            ["Exercises of Zoë Müller", "You predicted: 1.4. Found: 1.02", "Found: vmovapd"],
        ),
    ],
    "unit5_rooflines": [
        (
            {"student": "Zoë Müller", "predictions": ["1: half of it", "each of them"]},
            ["Exercises of Zoë Müller", "Found: 0.67: a third", "Found: the number of floating-point units"],
        ),
    ],
    "unit6_cpi_stacks": [
        (
            {"student": "Zoë Müller", "predictions": [0.2, "both rise"]},
            ["Exercises of Zoë Müller", "You predicted: 0.2. Found: 0.9", "You predicted: both rise. Found: the first"],
        ),
    ],
    "60_methods_check_each_other": [
        ({"core": "skylake_x", "trace": "traces/divider", "intervals": 12}, ["divider: dividers"]),
    ],
    "15_bottlenecks": [
        (
            {"dump": "{dumps}/app.csv", "core": "golden_cove", "traces": ["traces/branchy"]},
            ["measure next", "cannot tell"],
        ),
        ({"core": "zen3", "traces": ["traces/branchy"]}, ["mispredicted branches"]),  # it has not learnt from this core
    ],
    "10_spire_walkthrough": [
        (
            {"training": "{dumps}/train-*.csv", "analysed": "{dumps}/app.csv", "top": 3},
            ["bound of the ensemble", "cache-misses", "branch-misses"],
        ),
        (
            {"time_event": "inst_retired.any", "work_event": "br_inst_retired.all_branches", "top": 5},
            ["bound of the ensemble"],
        ),
    ],
    "20_gather": [
        ({"live": True, "live_elements": 2, "log": True, "max_depth": 2}, ["{'configurations': 3,"]),
        (
            {"table": "{dumps}/gather.parquet", "max_depth": 3},
            ["accuracy here", "rows that touch the same lines are off"],
        ),  # one width
    ],
    "21_fma": [({"live": True, "live_instructions": 2, "max_depth": 2}, ["{'configurations': 8,"])],
    "22_stream": [
        ({"live": True, "live_blocks_log2": 12, "max_depth": 2}, ["precomputed"]),
        (
            {"table": "{dumps}/stream.parquet"},
            ["each array is", "b strided, 2 to 64"],
        ),  # one thread, nothing drawn before
    ],
}


TWO = """double dot(const double *a, const double *b, long n) {
    double s = 0;
    for (long i = 0; i < n; i++) s += a[i] * b[i];
    return s;
}
long odd(const double *a, const double *b, long n) {
    long s = 0;
    for (long i = 0; i < n; i++) s += a[i] > b[i] ? i : -1;
    return s;
}
"""
MINE = """\
static double weigh(double x) { return x * 1.5; }

double mine(double *y, const double *x, double a, long n) {
    double sum = 0;
    for (long i = 0; i < n; i += STEP) {
        y[i] += a * weigh(x[i]);
        sum += y[i];
    }
    return sum;
}
"""
"""Anyone's own C source: a function with arguments, whose sum is a chain of additions."""


@pytest.fixture(scope="module", autouse=True)
def kernels_find_the_packages(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Kernels import the packages of this checkout, and write nothing into the user's Jupyter folders."""
    patch = pytest.MonkeyPatch()
    patch.setenv("PYTHONPATH", f"{ROOT}:{ROOT / 'widgets'}")
    for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR"):
        patch.setenv(name, str(tmp_path_factory.mktemp(name.lower())))
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        patch.setenv(name, "1")
    yield
    patch.undo()


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of perf dumps (``-I -x,``), generated here, three to train on, one to analyse; and a C source."""
    folder = tmp_path_factory.mktemp("dumps")
    for number, name in enumerate(("train-a", "train-b", "train-c", "app")):
        lines = []
        for i in range(1, 21):
            cycles = 2_000_000_000 + 10_000_000 * i
            misses = 1_000_000 * (1 + (i * (number + 3)) % 7)
            branches = 4_000_000 + 100_000 * ((i + number) % 5)
            instructions = int(cycles * 3 / (1 + misses / 2e6 + branches / 2e7))
            counts = {"cycles": cycles, "instructions": instructions, "cache-misses": misses, "branch-misses": branches}
            lines += [f"{i}.000100200,{count},,{event},1000000000,75.00,," for event, count in counts.items()]
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
    (folder / "mine.c").write_text(MINE)
    (folder / "two.c").write_text(TWO)
    parts = {"gather": "WIDTH == 128 and ELEMENTS <= 4", "stream": "ACCESS != 'precomputed' and threads == 1"}
    for name, part in parts.items():
        pk.datasets.load(f"studies/{name}").where(part).save(folder / f"{name}.parquet")
    write_overlay(folder / "host.toml", "zen4", "a test's host", {"VEX_VFMADD*": {"latency": 5}})
    return folder


def run(path: Path, out: Path, parameters: dict[str, Any], warm: bool = False) -> Any:
    """Execute a notebook; a warm kernel has imported what notebooks do."""
    manager = warm_manager(names_in(path)) if warm else None
    papermill.execute_notebook(
        str(path),
        str(out),
        parameters=parameters,
        kernel_name="python3",
        execution_timeout=120,
        progress_bar=False,
        # Nobody looks at the file before the end.
        request_save_on_cell_execute=False,
        autosave_cell_every=0,
        **({"kernel_manager_class": manager} if manager else {}),
    )
    return nbformat.read(out, as_version=4)


def texts(executed: Any) -> str:
    outputs = [o for cell in executed.cells for o in cell.get("outputs", [])]
    plain = [
        o.get("text") or "".join(o.get("data", {}).get(k, "") for k in ("text/plain", "text/html")) for o in outputs
    ]
    return "\n".join("".join(p) for p in plain)


# What a table or a line says of a number that is missing, and of one that was rounded to zero from below.
_UNREADABLE = re.compile(r"<t[dh][^>]*>\s*(?:nan|NaN|None|NaT|<NA>|-0(?:\.0+)?)\s*</t[dh]>|(?<![\w.])-0\.0+(?![\w.])")


def unreadable(executed: Any) -> list[str]:
    """Return the cells of tables that hold NaN and the like where a reader expects a dash, and negative zeros."""
    outputs = [o for cell in executed.cells for o in cell.get("outputs", [])]
    shown = [
        o.get("text") or o.get("data", {}).get("text/html") or o.get("data", {}).get("text/plain", "") for o in outputs
    ]
    return [found for text in shown for found in _UNREADABLE.findall("".join(text).replace("&lt;", "<"))]


def test_a_missing_number_and_a_negative_zero_are_seen():
    html = "<table><tr><td>NaN</td><td>none</td><td>–</td></tr></table>"
    outputs = [
        nbformat.v4.new_output("display_data", {"text/html": html}),
        nbformat.v4.new_output("stream", text="R2 -0.00, 1-0.05"),
    ]
    cell = nbformat.v4.new_code_cell("", outputs=outputs)
    assert unreadable(nbformat.v4.new_notebook(cells=[cell])) == ["<td>NaN</td>", "-0.00"]


def test_there_are_notebooks():
    assert {"00_tour", "10_spire_walkthrough"} <= {p.stem for p in NOTEBOOKS}


def test_every_entry_of_the_changed_parameters_names_a_notebook():
    assert set(CHANGED) <= {p.stem for p in NOTEBOOKS}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_notebook_is_stripped_and_defines_no_functions(path: Path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert notebook.nbformat_minor >= 5, "cells need ids"
    assert set(notebook.metadata) <= {"kernelspec", "language_info", "title", "perfkit"}
    # How many pictures a reader must see (tests/browser/test_look.py looks).
    assert notebook.metadata.perfkit.pictures >= 1
    assert notebook.metadata.kernelspec.name == "python3"
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        assert not cell.outputs
        assert cell.execution_count is None
        code = "\n".join(line for line in cell.source.splitlines() if not line.lstrip().startswith(("%", "!")))
        defined = [n for n in ast.walk(ast.parse(code)) if isinstance(n, ast.FunctionDef | ast.ClassDef)]
        assert not defined, f"{path.name}: {[n.name for n in defined]} belongs in the package, with a test"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_first_code_cell_holds_described_parameters(path: Path):
    notebook = nbformat.read(path, as_version=4)
    first = next(cell for cell in notebook.cells if cell.cell_type == "code")
    assert "parameters" in first.metadata.get("tags", [])
    statements = ast.parse(first.source).body
    assert all(isinstance(s, ast.AnnAssign) for s in statements), "each parameter needs a type: name: int = 10  # what"
    parameters = parameters_of(path)
    assert len(parameters) == len(statements) > 0
    for name, entry in parameters.items():
        assert entry["help"], f"{path.name}: parameter {name} needs a comment that says what it is"


@pytest.mark.notebook
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_notebook_runs_with_its_defaults(path: Path, tmp_path: Path):
    executed = run(path, tmp_path / path.name, {})
    errors = [o for cell in executed.cells for o in cell.get("outputs", []) if o.output_type == "error"]
    assert not errors
    assert unreadable(executed) == []
    views = [o for c in executed.cells for o in c.get("outputs", []) if _is_view(o)]
    # A reader without widgets sees a picture in place of each view of perfkit's, or its text where it is one.
    assert all("image/png" in v.data or not re.match(r"\w+\(", v.data["text/plain"]) for v in views)


def _is_view(output: Any) -> bool:
    return "application/vnd.jupyter.widget-view+json" in output.get("data", {})


@pytest.mark.notebook
@pytest.mark.parametrize(("stem", "case"), [(s, k) for s, cases in CHANGED.items() for k in range(len(cases))])
def test_notebook_is_a_report_with_other_parameters(stem: str, case: int, dumps: Path, tmp_path: Path):
    parameters, expected = CHANGED[stem][case]
    given = json.loads(json.dumps(parameters).replace("{dumps}", str(dumps)))
    (path,) = (p for p in NOTEBOOKS if p.stem == stem)
    executed = run(path, tmp_path / "out.ipynb", given, warm=True)
    assert unreadable(executed) == []
    text = texts(executed)
    for words in expected:
        assert words in text
    if "{dumps}" in str(parameters):
        assert "Generated data" not in text


@pytest.mark.notebook
@pytest.mark.shared_data
@pytest.mark.skipif(not SHARED.is_dir(), reason="the real perf dumps are not beside the project (../shared/data/perf)")
def test_walkthrough_is_a_report_on_real_dumps(tmp_path: Path):
    given = {
        "training": f"{SHARED}/i5-5[02]*.txt.xz",
        "analysed": f"{SHARED}/i5-531.deepsjeng_r.txt.xz",
        "top": 5,
    }
    executed = run(FOLDER / "10_spire_walkthrough.ipynb", tmp_path / "out.ipynb", given)
    text = texts(executed)
    assert "bound of the ensemble" in text
    assert "branch-misses:u" in text
