"""Settings with ``fit`` are used as scikit-learn's estimators are; every loader and saver behaves alike."""

import copy
import inspect
import os
import pickle
import re
import threading
from pathlib import Path

import pandas as pd
import pytest
from sklearn.base import clone

import perfkit
import perfkit as pk
from perfkit.base.results import Settings
from perfkit.errors import DataError, SettingError
from perfkit.fitters.topdown import TopDown
from tests.results.examples import calibration, dag_schedule, gus_result, ranking

PACKAGE = Path(perfkit.__file__).parent
ESTIMATORS = [
    pk.Spire(min_running=0.5),
    TopDown(width=5.0),
    pk.CpiStack(events=["a", "b"], bounds={"a": (1, 30)}, method="nnls", resamples=10),
    pk.KdeCategories("t", bandwidth="isj", log=True),
    pk.FixedBins("t", bins=[1, 2]),
    pk.KMeansCategories("t", count=3),
    pk.DecisionTree(["N"], max_depth=2, group="N"),
    pk.Classifier(("N",), method="svm", penalty=2.0),
    pk.RandomForest(("N",), trees=3),
]


@pytest.fixture(params=ESTIMATORS, ids=lambda settings: type(settings).__name__)
def settings(request):
    return request.param


def test_every_public_estimator_is_tried():
    offered = [getattr(pk, name) for name in pk.__all__]
    estimators = {value for value in offered if inspect.isclass(value) and callable(getattr(value, "fit", None))}
    assert estimators == {type(settings) for settings in ESTIMATORS}
    assert all(issubclass(cls, Settings) for cls in estimators)


def test_settings_are_known_by_name_and_make_the_same_settings(settings):
    params = settings.get_params()
    assert set(params) == set(inspect.signature(type(settings)).parameters)
    assert type(settings)(**params) == settings


def test_a_clone_is_equal_and_another(settings):
    other = clone(settings)
    assert other == settings
    assert other is not settings


def test_settings_can_be_pickled(settings):
    assert pickle.loads(pickle.dumps(settings)) == settings


def test_changed_settings_are_new_ones():
    spire = pk.Spire()
    changed = spire.set_params(min_running=0.25)
    assert (spire.min_running, changed.min_running) == (0.0, 0.25)
    with pytest.raises(SettingError, match="did you mean 'min_running'"):
        spire.set_params(min_runing=1)
    with pytest.raises(SettingError, match="share from 0 to 1"):
        spire.set_params(min_running=2)


TABLE = pd.DataFrame({"event": ["a"], "time": [1.0], "work": [1.0], "count": [1.0]})


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (pk.Spire().fit, "Spire.fit"),
        (TopDown().fit, "TopDown.fit"),
        (pk.CpiStack().fit, "CpiStack.fit"),
        (pk.CpiStack().fit_each, "CpiStack.fit_each"),
        (pk.paper_cpi_stack, "paper_cpi_stack"),
        (lambda table: pk.Spire().fit(pk.Samples.from_frame(TABLE)).rank(table), "SpireModel.rank"),
        (lambda table: pk.Samples.concat([table]), "Samples.concat"),
        (lambda table: pk.scoring.spire_scores(table, None), "a score"),
        (lambda table: pk.scoring.stack_scores(table, None), "a score"),
        (lambda table: pk.scoring.topdown_scores(table, None), "a score"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_plain_table_in_place_of_samples_is_told_how_to_become_some(call, name):
    with pytest.raises(DataError, match=rf"{re.escape(name)} takes Samples; found DataFrame.*from_counts.*from_frame"):
        call(TABLE)


KERNEL, TRACE, BLOCKS = "takes a Kernel; found", "takes a Trace; found", "blocks are a list of"
GUS = pk.Gus("zen4")


@pytest.mark.parametrize("given", ["a.c", Path("a.c"), TABLE, None], ids=lambda given: type(given).__name__)
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda given: pk.compare(given, given), KERNEL),
        (lambda given: pk.Noise().run(given), KERNEL),
        (pk.why_kernel, KERNEL),
        (GUS.run, TRACE),
        (lambda given: pk.prepare(GUS, given), TRACE),
        (pk.trace_dag, TRACE),
        (pk.flops, TRACE),
        (GUS.blocks, BLOCKS),
        (pk.measure_blocks, BLOCKS),
    ],
)
def test_what_is_of_another_kind_is_told_how_to_become_it(given, call, message):
    """They raised AttributeError; of a text each character was a block that could not be measured."""
    with pytest.raises(SettingError, match=message):
        call(given)


CORE = pk.Microarchitecture.load("zen4")
SHOWN = {
    "core": CORE,
    "changed core": CORE.scaled("front_end", 2),
    "tables": pk.InstructionTables.load(CORE),
    "Gus": GUS,
    "Gus with tables": pk.Gus(CORE, tables=pk.InstructionTables.load(CORE)),
    "SimulatedPmu": pk.SimulatedPmu(CORE),
    "Bottlenecks": pk.Bottlenecks.load("skylake_x"),
    "areas": pk.Areas.load(),
}


@pytest.mark.parametrize("shown", SHOWN.values(), ids=SHOWN)
def test_a_notebook_that_ends_a_cell_with_a_machine_is_not_flooded(shown):
    """A core filled 16,000 characters, its tables 1.6 million."""
    assert len(repr(shown)) <= 300
    assert ("front_end x2" in repr(shown)) == (shown is SHOWN["changed core"])


@pytest.mark.parametrize(
    "held",
    [
        *SHOWN.values(), pk.DagCore.load("zen4"), pk.DagScheduler(pk.DagCore.load("zen4")), pk.Microbenchmark(),
        *(gus_result(), dag_schedule(), calibration(), ranking()),
    ],
    ids=lambda held: type(held).__name__,
)  # fmt: skip
def test_what_holds_a_core_can_be_copied_and_sent_to_another_process(held):
    again = pickle.loads(pickle.dumps(held))
    assert (type(again), repr(again)) == (type(held), repr(held))
    assert repr(copy.deepcopy(held)) == repr(held)


def test_a_core_that_was_sent_is_the_same_and_cannot_be_changed():
    again = pickle.loads(pickle.dumps(CORE.scaled("front_end", 2)))
    assert again == CORE.scaled("front_end", 2)
    with pytest.raises(TypeError):
        again.resources["front_end"] = None
    trace = pk.datasets.load("traces/fig1a")
    assert pickle.loads(pickle.dumps(GUS)).run(trace).cycles == GUS.run(trace).cycles


# Everything public that reads a file of its own; results' `load` is tried in test_contract.py.
LOADERS = {
    "read_samples": pk.read_samples,
    "open_samples": pk.open_samples,
    "Samples.from_parquet": pk.Samples.from_parquet,
    "StudyRuns.from_parquet": pk.StudyRuns.from_parquet,
    "StudyRuns.from_folder": pk.StudyRuns.from_folder,
    "Study.from_yaml": pk.Study.from_yaml,
    "Analysis.from_yaml": pk.Analysis.from_yaml,
    "Dag.load": pk.Dag.load,
    "Trace.open": pk.Trace.open,
    "open_traces": pk.open_traces,
    "open_traces, of text": lambda path: pk.open_traces(str(path)),
    "open_traces, a name": lambda path: pk.open_traces("nowhere.trace"),
    "open_dags": pk.open_dags,
    "open_dags, of text": lambda path: pk.open_dags(str(path)),
    "compile_kernel": lambda path: pk.collectors.compile_kernel(str(path)),
    "compile_kernel, a word": lambda path: pk.collectors.compile_kernel("nowhere"),
    "Microarchitecture.load": lambda path: pk.Microarchitecture.load(path.with_suffix(".toml")),
    "Microarchitecture.load, no .toml": lambda path: pk.Microarchitecture.load(str(path.with_suffix(""))),
    "InstructionTables.load": lambda path: pk.InstructionTables.load(pk.Microarchitecture.load("zen4"), path),
    "calibrated_core": lambda path: pk.calibrated_core(pk.Microarchitecture.load("zen4"), path),
}


@pytest.mark.parametrize("load", LOADERS.values(), ids=LOADERS)
def test_a_file_that_is_not_there_is_said_to_be_missing(load, tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        load(tmp_path / "nowhere.file")


def test_every_picture_takes_ax():
    """No plot function has another word for the axes it draws into."""
    found = [
        (path.name, name)
        for path in sorted((PACKAGE / "plots").glob("*.py"))
        for name, arguments in re.findall(r"^def (plot_\w+)\(([^)]*)\)", path.read_text(), re.MULTILINE)
        if re.search(r"\baxes\s*[:=]", arguments)
    ]
    assert not found


def test_a_pipe_is_written_to_and_not_replaced(tmp_path):
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    read = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()), daemon=True)
    reader.start()
    ranking().save(pipe)
    reader.join(timeout=20)
    assert pipe.is_fifo()
    assert read[0].startswith("event,")


def test_a_folder_is_no_file_to_write(tmp_path):
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(SettingError, match="a folder; name a file"):
        ranking().save(tmp_path / "folder.csv")
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        ranking().save(tmp_path / "nowhere" / "ranking.csv")


# Whoever writes elsewhere than to a temporary path of `perfkit.base.files.replaced`, and why.
WRITES_ELSEWHERE = {
    "fitters/cpi/files.py": "a member of the file, unpacked to be read",
    "simulators/gus/files.py": "the trace within the file, unpacked to be read",
    "trace/file.py": "a table in memory",
}


def test_every_file_of_the_kit_is_written_through_the_door():
    """Collectors also write scratch files of measurements; nothing else does."""
    writing = re.compile(
        r"(\S+)\.write_(?:text|bytes)\(|pq\.write_table\([^\n]*?, (\w+)[,)]|\.to_(?:csv|parquet)\((\w+)"
    )
    elsewhere = []
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if name.startswith("collectors/") or name in WRITES_ELSEWHERE:
            continue
        code = "\n".join(line for line in path.read_text().splitlines() if not line.lstrip().startswith((">>>", "...")))
        elsewhere += [(name, found[0]) for found in writing.finditer(code) if "temporary" not in found.groups()]
    assert not elsewhere
