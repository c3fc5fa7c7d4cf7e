"""The contract of results (`perfkit.base.results`), kept by every result class, and none is forgotten."""

import importlib
import inspect
import json
import math
import os
import pkgutil
import re
import subprocess
import sys
import zipfile
from dataclasses import is_dataclass, replace
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import perfkit
from perfkit.base.files import ENDINGS
from perfkit.base.results import KINDS, UNKNOWN, Result, Summarised
from perfkit.diagnosis.gate_verdict import GateVerdict
from perfkit.errors import DataError, FormatError, SettingError, WrongTypeError
from perfkit.fitters.studies.decision_tree import Tree
from tests.results.examples import EXAMPLES

mpl.use("Agg")
ROOT = Path(__file__).resolve().parents[2]

# What has a table, or is returned by a public function, and is no result.
NO_RESULTS = {
    "bases of results": {"Tabled", "Plain", "Comparison", "Roofs"},
    "machines and what is known of them": {
        "Microarchitecture", "DagCore", "InstructionTables", "InstructionForm", "Resource", "CacheLevel", "Coverage",
        "Areas", "Evidence", "Figure",
    },
    "settings": {"Analysis", "Study", "Gus", "Prepared", "Plan", "Bottlenecks", "Noise"},
    "programs, not yet timed": {
        "TraceSource", "PredictedNodes", "Kernel", "KernelTrace", "Program", "StaticCode", "Dag",
    },
    "parts of results": {"Weighed", "Roof", "Roofline", "CpiCounts", "RankScore", "MemoryPass"},
    "parts of traces and of fleets": {"TraceChunk", "Piece"},
    "exercises of the course, which are checked and not analysed": {"Exercises", "Checked", "CheckedUnit"},
    "what was planted in generated data": {"PlantedCpi"},
    "a trace of which only parts are in memory": {"StreamedTrace"},
    "what a calibration begins with and ends in: a state, a core file": {"MachineState", "CoreMeasurement"},
}  # fmt: skip
# Whatever answers to one of these is a result (also what only a fixture or a command returns: gates were forgotten).
ASKED = ("to_frame", "plot", "summary", "markdown")
OWN = {
    **dict.fromkeys(
        ("GateVerdict", "Categories", "Tree", "Importance", "Calibration", "Classification", "Fleet"), ".json"
    ),
    **dict.fromkeys(("Dag", "Schedule", "ExtendedRoofline", "TrueCycles"), ".npz"),
    **dict.fromkeys(("ThreadTraces", "ThreadsResult"), ".threads"),
    "AnalysisResult": "",  # a folder
    "SpireModel": ".spire",
    "Trace": ".trace",
    "GusResult": ".gus",
    "Diagnosis": ".answer",
}


# What a call fills while it runs, and nobody holds afterwards (a memory pass: as it goes through the trace).
GROWING = {
    "IrBlock", "IrFunction", "IrPart", "X86Block", "MeasuredFigures", "Waits", "Region", "Area", "_Known", "Emitter",
    "Module", "Course", "Ahead", "_Inquiry", "Opened", "PerfOutput", "PerfRows", "Report", "Replay", "MemoryPass",
    "SequentialDesign",
}  # fmt: skip


def own(result):
    """The ending of a class's files."""
    return OWN.get(type(result).__name__, ".parquet")


@pytest.fixture(params=sorted(EXAMPLES, key=lambda cls: cls.__name__), ids=lambda cls: cls.__name__)
def result(request):
    return EXAMPLES[request.param]()


def classes():
    """Every class that perfkit defines."""
    for module in pkgutil.walk_packages(perfkit.__path__, "perfkit."):
        if module.name.endswith("__main__"):  # runs the command line
            continue
        for value in vars(importlib.import_module(module.name)).values():
            if inspect.isclass(value) and value.__module__ == module.name:
                yield value


def public():
    """Every function, and method of a class, that `perfkit` or one of its public packages offers by name."""
    offered = [getattr(perfkit, name) for name in perfkit.__all__]
    for package in filter(inspect.ismodule, list(offered)):
        offered += [getattr(package, name) for name in getattr(package, "__all__", ())]
    for value in offered:
        if inspect.isclass(value) and value.__module__.startswith("perfkit."):
            yield from (getattr(f, "__func__", f) for name, f in vars(value).items() if not name.startswith("_"))
        elif inspect.isfunction(value):
            yield value


def test_no_result_is_forgotten():
    every = list(classes())
    returned = " ".join(str(getattr(function, "__annotations__", {}).get("return", "")) for function in public())
    words = set(re.findall(r"\w+", returned))
    found = {
        cls
        for cls in every
        if any(hasattr(cls, verb) for verb in ASKED)
        or issubclass(cls, Summarised)
        or (cls.__name__ in words and is_dataclass(cls))
    } - {Summarised, Result}
    found = {cls for cls in found if not cls.__name__.startswith("_")}
    excused = set().union(*NO_RESULTS.values())
    forgotten = {cls for cls in found if cls not in EXAMPLES and cls.__name__ not in excused}
    assert not forgotten, f"give each an example in tests/results/examples.py: {forgotten}"
    assert {cls.__name__ for cls in EXAMPLES} & excused == set()
    assert excused - {cls.__name__ for cls in every} == set(), "not there any more"


def test_what_is_handed_out_cannot_be_changed():
    """A field that is set to another value would contradict what was derived from it, and kept."""
    changeable = {c.__name__ for c in classes() if is_dataclass(c) and not c.__dataclass_params__.frozen}
    assert changeable == GROWING


def test_it_is_a_result(result):
    assert isinstance(result, Result)
    assert type(result) in EXAMPLES


def test_it_says_what_data_it_is_of(result):
    assert result.kind in (*KINDS, UNKNOWN) or result.kind.startswith("mixed (")


def test_one_that_holds_a_table_is_itself_and_no_other(result):
    """Fields that are tables or arrays have no one truth: what compared them would raise, and have no hash."""
    held = [v for v in vars(result).values() if isinstance(v, pd.DataFrame | pd.Series | np.ndarray)]
    made = getattr(type(result), "__dataclass_params__", None)
    assert not held or made is None or not made.eq


def test_its_table_is_a_new_one(result):
    before, table = result.to_frame(), result.to_frame()
    assert isinstance(table, pd.DataFrame)
    assert len(table)
    assert table.notna().any(axis=None)
    del table[table.columns[0]]
    pd.testing.assert_frame_equal(result.to_frame(), before)


def test_it_is_drawn_into_the_axes_that_are_given(result):
    drawn = result.plot()
    assert isinstance(drawn, (Axes, Figure))
    if isinstance(drawn, Figure):
        assert len(drawn.axes) > 1, "one pair of axes is returned as such"
        assert drawn not in map(plt.figure, plt.get_fignums()), (
            "a notebook would show it twice: as result and as figure"
        )
        return
    assert drawn.figure in map(plt.figure, plt.get_fignums()), "a notebook would show <Axes> and no picture"
    for given in ("by its name", "first"):
        _, ax = plt.subplots()
        assert (result.plot(ax) if given == "first" else result.plot(ax=ax)) is ax
        assert ax.has_data()


@pytest.mark.parametrize("wrong", [5, "cycles", ["cycles"], pd.DataFrame({"a": [1]})], ids=lambda w: type(w).__name__)
def test_what_is_no_axes_is_no_place_to_draw_in(result, wrong):
    with pytest.raises(
        WrongTypeError, match=rf"takes matplotlib's axes first .*found {type(wrong).__name__}.*new figure"
    ):
        result.plot(wrong)


def test_a_strict_type_checker_takes_each_for_a_result(tmp_path):
    """A consumer's function that returns a `Result`, of every class in turn, under ``mypy --strict``."""
    lines = ["from perfkit.base.results import Result"]
    for cls in sorted(EXAMPLES, key=lambda cls: cls.__name__):
        lines += [f"from {cls.__module__} import {cls.__name__}", f"def f_{cls.__name__}(x: {cls.__name__}) -> Result:"]
        lines += ["    return x"]
    consumer = tmp_path / "consumer.py"
    consumer.write_text("\n".join(lines) + "\n")
    settings = ["--strict", "--config-file=", "--follow-imports=silent", "--ignore-missing-imports"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *settings, f"--cache-dir={ROOT / '.mypy_cache' / 'results'}", str(consumer)],
        env={**os.environ, "MYPYPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.stdout == "Success: no issues found in 1 source file\n", done.stdout + done.stderr


def test_its_summary_is_a_few_lines_of_text(result):
    lines = result.summary().splitlines()
    assert 1 <= len(lines) <= 8
    assert all(line.strip() for line in lines)
    assert result.kind == "measured" or result.kind in result.summary()


def test_other_programs_read_its_table_as_arrow(result):
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    if not isinstance(result, Summarised):
        pytest.skip(f"{type(result).__name__} has displays of its own")
    frame = result.to_frame()
    flat = frame if frame.index.names == [None] else frame.reset_index()
    read = arrow.table(result)
    assert read.num_rows == len(flat)
    assert read.column_names == [str(name) for name in flat.columns]


def test_its_displays_are_short(result):
    assert len(repr(result)) <= 300
    assert repr(result).startswith(f"<{type(result).__name__}")
    assert "\n" not in repr(result)
    assert len(result._repr_html_().encode()) <= 4096


def test_it_is_the_same_when_loaded_again(result, tmp_path):
    path = tmp_path / f"result{own(result)}"
    written = result.save(path)
    assert written == path
    again = type(result).load(path)
    pd.testing.assert_frame_equal(again.to_frame(), result.to_frame())
    assert again.summary() == result.summary()
    assert again.kind == result.kind
    assert isinstance(again == result, bool), "tables make no truth value: results that hold some are themselves alone"
    assert list(tmp_path.iterdir()) == [path], "nothing else is left behind"
    for text in texts(path):
        json.loads(text, parse_constant=no_json)


@pytest.mark.parametrize("ending", [*sorted(ENDINGS), ""])
def test_a_file_is_what_its_ending_says(result, ending, tmp_path):
    """Whatever the ending, a file of that format is written, or none; without an ending, one to load again."""
    if own(result) == "":
        pytest.skip("an analysis is a folder")
    path = tmp_path / f"result{ending}"
    try:
        result.save(path)
    except SettingError as error:
        assert ending != own(result)
        assert ending in str(error) or "found" in str(error)  # noqa: PT017 - either is right
        assert list(tmp_path.iterdir()) == []
        return
    start = path.read_bytes()[:6]
    begins = {".parquet": b"PAR1", ".pq": b"PAR1", ".npz": b"PK", ".json": (b"{", b"[")}
    if ending in begins:
        assert start.startswith(begins[ending])
    if ending == ".csv":
        assert len(pd.read_csv(path))
    if ending in ("", own(result)):
        assert type(result).load(path).summary() == result.summary()


def texts(path):
    """Every piece of JSON in a saved result: files, members of archives, and the descriptions in parquet files."""
    for file in [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]:
        if zipfile.is_zipfile(file):
            with zipfile.ZipFile(file) as archive:
                yield from (archive.read(name) for name in archive.namelist() if name.endswith(".json"))
        elif file.read_bytes().startswith(b"PAR1"):
            yield from (v for v in (pq.read_metadata(file).metadata or {}).values() if v.startswith(b"{"))
        elif file.suffix in (".json", ".parquet"):
            yield file.read_bytes()


def no_json(constant):
    raise AssertionError(f"{constant} is no JSON")


def unknown_figures():
    """Results with figures that are not known, or not finite."""
    verdict = EXAMPLES[GateVerdict]()
    change = replace(verdict.change, cpi=(math.nan, math.inf)) if hasattr(verdict.change, "cpi") else verdict.change
    tree = EXAMPLES[Tree]()
    return {
        "a leaf's threshold": tree,
        "an infinite threshold": replace(tree, nodes=(replace(tree.nodes[0], threshold=-math.inf), *tree.nodes[1:])),
        "a verdict": replace(verdict, cycles=math.nan, before=math.inf, change=change),
    }


@pytest.mark.parametrize("which", ["a leaf's threshold", "an infinite threshold", "a verdict"])
def test_figures_that_are_not_finite_are_json_and_the_same_when_loaded_again(which, tmp_path):
    result = unknown_figures()[which]
    path = result.save(tmp_path / "result.json")
    json.loads(path.read_text(), parse_constant=no_json)
    again = type(result).load(path)
    pd.testing.assert_frame_equal(again.to_frame(), result.to_frame())
    assert repr(vars(again)) == repr(vars(result))
    path.write_text(json.dumps(bare(json.loads(path.read_text()))))  # as older versions wrote it
    assert repr(vars(type(result).load(path))) == repr(vars(result))


def bare(value):
    if isinstance(value, dict):
        return float(*value.values()) if value.keys() == {"not finite"} else {k: bare(v) for k, v in value.items()}
    return [bare(each) for each in value] if isinstance(value, list) else value


EMPTY = {
    "no events": lambda: EXAMPLES[perfkit.Samples]().select(events=[]),
    "no runs": lambda: EXAMPLES[perfkit.Samples]().select(runs=[]),
    "no rows": lambda: perfkit.Samples.from_frame(pd.DataFrame({"event": [], "time": [], "work": [], "count": []})),
    "no row of a study": lambda: EXAMPLES[perfkit.StudyRuns]().where("tsc < 0"),
    "no rooflines": lambda: perfkit.Spire().fit(uncounted()),
    "no classes": lambda: perfkit.Bottlenecks.load("skylake_x").explain(EMPTY["no rows"]()),
    "no method": lambda: perfkit.explore(EMPTY["no rows"]()),
    "no time": lambda: perfkit.diff_counts(uncounted(), uncounted()),
}


def uncounted():
    """Samples of one interval in which nothing happened."""
    return perfkit.Samples.from_frame(pd.DataFrame({"event": ["x"], "time": [0.0], "work": [0.0], "count": [0.0]}))


@pytest.mark.parametrize("empty", EMPTY)
def test_one_that_holds_nothing_is_the_same_when_loaded_again(empty, tmp_path):
    result = EMPTY[empty]()
    assert "()" not in f"{result.kind} {result.summary()}"
    again = type(result).load(result.save(tmp_path / "empty.parquet"))
    pd.testing.assert_frame_equal(again.to_frame(), result.to_frame())
    assert (again.summary(), again.kind) == (result.summary(), result.kind)


@pytest.mark.parametrize("empty", EMPTY)
def test_one_that_holds_nothing_is_drawn_or_says_that_there_is_nothing(empty):
    try:
        drawn = EMPTY[empty]().plot()
    except DataError as error:
        assert str(error).endswith("there is nothing to draw")  # noqa: PT017 - either is right
    else:
        getattr(drawn, "figure", drawn).canvas.draw()


@pytest.mark.parametrize("options", [{}, {"kinds": ["L1D"]}])
def test_noise_without_curves_says_that_there_is_nothing(options):
    result = EXAMPLES[perfkit.NoiseResult]()
    with pytest.raises(DataError, match="no curve was measured: there is nothing to draw"):
        replace(result, curves=result.curves.iloc[:0]).plot(**options)


def test_dumps_without_samples_cannot_be_compared():
    with pytest.raises(DataError, match="A holds no samples"):
        perfkit.diff_counts(EMPTY["no rows"](), EMPTY["no rows"]())


def test_what_is_not_there_cannot_be_loaded(result, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere.*no such"):
        type(result).load(tmp_path / "nowhere.parquet")


def test_other_files_are_refused(result, tmp_path):
    path = tmp_path / "other.parquet"
    path.write_text("nonsense")
    with pytest.raises(FormatError, match=r"other\.parquet"):
        type(result).load(path)
    pd.DataFrame({"a": [1]}).to_parquet(path)
    with pytest.raises(FormatError, match=r"other\.parquet"):
        type(result).load(path)


def held(path):
    """Every file at a path (a file or a folder) with its bytes."""
    files = path.rglob("*") if path.is_dir() else path.parent.iterdir()
    return {file.name: file.read_bytes() for file in files}


def test_a_failed_save_leaves_the_old_file(result, tmp_path, monkeypatch):
    path = tmp_path / f"result{own(result)}"
    result.save(path)
    before = held(path)

    def full(*_args):
        raise OSError("no space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="no space left"):
        result.save(path)
    assert held(path) == before


@pytest.mark.parametrize("more", range(-3, 4))
def test_a_short_display_leaves_out_only_what_does_not_fit(more):
    class Said(Summarised):
        def summary(self):
            return "x" * (300 - len("<Said: >") + more) + "\nmore"

    whole = f"<Said: {'x' * (292 + more)}>"
    assert repr(Said()) == (whole if more <= 0 else whole[:298] + "…>")
