"""Whatever is given first to a public function or method, no error comes from deep inside."""

import inspect
import math
import re

import pandas as pd
import pytest

import perfkit as pk
from perfkit.errors import PerfkitError, SettingError, WrongTypeError
from tests.results.examples import EXAMPLES

WRONG = {"int": 3, "str": "no such thing", "None": None, "DataFrame": pd.DataFrame({"a": [1.0, 2.0]})}
# Results, which functions and methods make: nobody gives their fields by hand; and the base of all errors.
MADE = {"PerfkitError", "Schedule", "SpireModel", "ThreadsResult", "ThreadTraces"}
PACKAGES = [value for name in pk.__all__ if hasattr(value := getattr(pk, name), "__all__")]
UNHELPFUL = (TypeError, AttributeError, LookupError, NameError)
SETTINGS = {
    "Bottlenecks": lambda: pk.Bottlenecks.load("skylake_x"),
    "Classifier": lambda: pk.Classifier(["a"]),
    "CpiStack": pk.CpiStack,
    "DagCore": lambda: pk.DagCore.load("skylake_x"),
    "DagScheduler": lambda: pk.DagScheduler(pk.DagCore.load("skylake_x")),
    "DecisionTree": lambda: pk.DecisionTree(["a"]),
    "FixedBins": lambda: pk.FixedBins("a", [1.0, 2.0]),
    "Gus": lambda: pk.Gus("skylake_x"),
    "KMeansCategories": lambda: pk.KMeansCategories("a", 2),
    "KdeCategories": lambda: pk.KdeCategories("a"),
    "Microarchitecture": lambda: pk.Microarchitecture.load("skylake_x"),
    "Microbenchmark": pk.Microbenchmark,
    "Noise": pk.Noise,
    "RandomForest": lambda: pk.RandomForest(["a"]),
    "SimulatedPmu": lambda: pk.SimulatedPmu("skylake_x"),
    "Spire": pk.Spire,
    "TopDown": pk.TopDown,
}


def own(function):
    return getattr(function, "__module__", "").startswith("perfkit.")


def functions():
    """Return name -> how to get every public function, class and class method."""
    found = {}
    names = {name: getattr(pk, name) for name in pk.__all__}
    for package in PACKAGES:  # what is public there only: pk.collectors.compile_kernel, say
        names |= {f"{package.__name__[8:]}.{name}": getattr(package, name) for name in package.__all__}
    for name, thing in names.items():
        if inspect.ismodule(thing) or not callable(thing):
            continue
        if name not in MADE:
            found[name] = thing
        if inspect.isclass(thing):
            for part, raw in inspect.getmembers_static(thing):
                if not part.startswith("_") and isinstance(raw, classmethod | staticmethod) and own(raw.__func__):
                    found[f"{name}.{part}"] = getattr(thing, part)
    return found


FUNCTIONS = functions()
METHODS = [
    (name, part)
    for name in SETTINGS
    for part, raw in inspect.getmembers_static(getattr(pk, name))
    if inspect.isfunction(raw) and not part.startswith("_") and own(raw)
]


RESULTS = {cls.__name__: make for cls, make in EXAMPLES.items()}
OF_RESULTS = [
    (cls.__name__, part)
    for cls in sorted(EXAMPLES, key=lambda cls: cls.__name__)
    for part, raw in inspect.getmembers_static(cls)
    if inspect.isfunction(raw) and not part.startswith("_") and own(raw) and len(inspect.signature(raw).parameters) > 1
]


def called(function, given):
    """Call a function with a value for each argument that it needs, at least one; return what it raises, or None."""
    parameters = inspect.signature(function).parameters.values()
    places = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if not places and not any(p.kind == p.VAR_POSITIONAL for p in parameters):
        return None
    needed = max(1, sum(p.default is p.empty for p in places))
    named = {p.name: given for p in parameters if p.kind == p.KEYWORD_ONLY and p.default is p.empty}
    try:
        found = function(*[given] * needed, **named)
        if inspect.isgenerator(found):
            next(found, None)
    except Exception as error:  # noqa: BLE001 - the one question is which
        return error
    return None


def check(name, error):
    assert isinstance(error, PerfkitError) or not isinstance(error, UNHELPFUL), f"{name}: {error!r}"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", WRONG)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_wrong_first_argument_of_a_function_gets_no_error_from_deep_inside(name, kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check(name, called(FUNCTIONS[name], WRONG[kind]))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", WRONG)
@pytest.mark.parametrize(("name", "part"), METHODS)
def test_a_wrong_first_argument_of_a_method_gets_no_error_from_deep_inside(name, part, kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check(f"{name}.{part}", called(getattr(SETTINGS[name](), part), WRONG[kind]))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "part"), OF_RESULTS)
def test_a_wrong_argument_of_a_results_method_gets_an_error_of_perfkit(name, part, tmp_path, monkeypatch):
    """Of 668 calls 245 ended in a bare TypeError, as `result.save(3)` did, or in pandas' own words."""
    monkeypatch.chdir(tmp_path)
    result = RESULTS[name]()
    for kind, wrong in {**WRONG, "list": [1], "dict": {"a": 1}, "bytes": b"x", "object": object()}.items():
        error = called(getattr(result, part), wrong)
        assert error is None or isinstance(error, PerfkitError), f"{name}.{part} of {kind}: {error!r}"


@pytest.mark.parametrize("name", RESULTS)
def test_what_is_no_path_is_refused_as_such(name):
    for wrong in (3, None, b"result.json", WRONG["DataFrame"]):
        with pytest.raises(WrongTypeError, match=rf" takes the path of a file; found {type(wrong).__name__}.*: give"):
            RESULTS[name]().save(wrong)


def test_what_was_not_measured_or_found_is_refused_by_name():
    """They gave an empty table, text or list, as for one of which nothing is to be said."""
    noise = next(make() for cls, make in EXAMPLES.items() if cls.__name__ == "NoiseResult")
    with pytest.raises(SettingError, match=r"no noise of the kind 'lod' was added; did you mean 'load'\?"):
        noise.curve("lod")
    explained = next(make() for cls, make in EXAMPLES.items() if cls.__name__ == "Explanation")
    for asked in (explained.command, explained.phases):
        with pytest.raises(SettingError, match="unknown run 'none such'"):
            asked("none such")


def taking_samples():
    """Return (name, how to get it, parameter) of whatever is annotated to take Samples or a Fleet."""
    every = [(name, lambda name=name: FUNCTIONS[name]) for name in FUNCTIONS]
    every += [(f"{n}.{part}", lambda n=n, part=part: getattr(SETTINGS[n](), part)) for n, part in METHODS]
    every += [(f"{n}.{part}", lambda n=n, part=part: getattr(RESULTS[n](), part)) for n, part in OF_RESULTS]
    raw = {**FUNCTIONS, **{f"{n}.{part}": getattr(getattr(pk, n), part) for n, part in METHODS}}
    raw |= {
        f"{cls.__name__}.{part}": getattr(cls, part) for cls in EXAMPLES for n, part in OF_RESULTS if cls.__name__ == n
    }
    for name, get in every:
        for parameter in inspect.signature(raw[name]).parameters.values():
            if re.search(r"\b(Samples|Fleet)\b", str(parameter.annotation)) and not parameter.name.endswith("_out"):
                yield name, get, parameter.name


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "get", "place"), [pytest.param(*each, id=f"{each[0]}-{each[2]}") for each in taking_samples()]
)
def test_a_table_where_samples_or_a_fleet_are_meant_gets_the_helpful_error(name, get, place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    function = get()
    positional, named = [], {}
    for p in inspect.signature(function).parameters.values():
        if p.name == place and p.kind in (p.POSITIONAL_ONLY, p.VAR_POSITIONAL):
            positional.append(WRONG["DataFrame"])
        elif p.name == place:
            named[p.name] = WRONG["DataFrame"]
        elif p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            named[p.name] = "some words"
    with pytest.raises(WrongTypeError, match=r"takes .*(Samples|Fleet).*found DataFrame: \w+ .*perfkit\."):
        function(*positional, **named)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda wrong: pk.DagScheduler(pk.DagCore.load("zen4")).run(wrong), r"DagScheduler\.run takes a dependence"),
        (lambda wrong: pk.relax(wrong, pk.DagScheduler(pk.DagCore.load("zen4"))), "relax takes a dependence graph"),
        (lambda wrong: pk.run_threads(wrong, wrong), "run_threads takes the settings of Gus"),
        (lambda wrong: pk.run_threads(pk.Gus("zen4"), wrong), "run_threads takes ThreadTraces"),
        (lambda wrong: pk.Microbenchmark().collect(wrong), "Microbenchmark takes a Study"),
        (lambda wrong: pk.fleet_changes(wrong, "version", "v1", "v2"), "fleet_changes takes a Fleet"),
        (pk.Gus("zen4").run, r"Gus\.run takes a Trace"),
        (lambda wrong: pk.Spire().fit(wrong), "takes Samples"),
    ],
)
@pytest.mark.parametrize("kind", WRONG)
def test_the_error_says_what_was_expected_and_found_and_what_to_do(call, message, kind):
    with pytest.raises(WrongTypeError, match=rf"{message}.*; found {type(WRONG[kind]).__name__}.*: \w+ .*perfkit\."):
        call(WRONG[kind])


@pytest.mark.parametrize("kind", [k for k in WRONG if k != "DataFrame"])
@pytest.mark.parametrize("name", ["from_frame", "from_counts", "from_wide"])
def test_samples_are_made_of_a_data_frame(name, kind):
    with pytest.raises(WrongTypeError, match=rf"Samples\.{name} takes a DataFrame; found .*perfkit\.read_samples"):
        getattr(pk.Samples, name)(WRONG[kind])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: pk.Microarchitecture.load(None),
            r"name or file; found NoneType: .*Microarchitecture\.names\(\)",
        ),
        (
            lambda: pk.datasets.load(None),
            r"data set's name; found NoneType: perfkit\.datasets\.names\(\)",
        ),
        (lambda: pk.CpiStack(placebos="a"), r"CpiStack takes a whole number \(placebos\); found str"),
        (lambda: pk.CpiStack(resamples=1.5), r"CpiStack takes a whole number \(resamples\); found float \(1\.5\)"),
        (lambda: pk.CpiStack(level="a"), r"CpiStack takes a number \(level\); found str"),
        (lambda: pk.CpiStack(bounds="a"), r"CpiStack takes a mapping \(bounds\); found str"),
        (lambda: pk.Classifier(["a"], neighbours="b"), r"Classifier takes a whole number \(neighbours\); found str"),
        (lambda: pk.DecisionTree(["a"], max_depth=math.nan), r"DecisionTree takes a whole number \(max_depth\)"),
        (lambda: pk.RandomForest(["a"], max_depth="b"), r"RandomForest takes a whole number \(max_depth\); found str"),
        (lambda: pk.RandomForest(["a"], group=3), r"RandomForest takes a column's name, or several \(group\)"),
        (lambda: pk.KMeansCategories("a", count=None), r"KMeansCategories takes a whole number \(count\); found None"),
        (lambda: pk.KdeCategories("a", bandwidth=[1]), r"KdeCategories takes text or a number \(bandwidth\); found li"),
        (lambda: pk.FixedBins("a", log="b"), r"FixedBins takes True or False \(log\); found str"),
        (lambda: pk.FixedBins("a", bins="bc"), r"FixedBins takes a whole number, or boundaries \(bins\); found str"),
        (lambda: pk.Noise(rounds="a"), r"Noise takes a whole number \(rounds\); found str"),
        (lambda: pk.Noise(counts=3), r"Noise takes whole numbers from 1, rising \(counts\); found int"),
        (lambda: pk.explore([3]), r"explore takes Samples or dumps; found int \(3\): give the path of a dump"),
        (lambda: pk.Gus(3), r"Gus takes a core, or its name; found int \(3\)"),
    ],
)
def test_settings_of_the_wrong_type_are_refused_where_they_are_given(call, message):
    with pytest.raises(WrongTypeError, match=message):
        call()


SEEDED = ["Classifier", "CpiStack", "DecisionTree", "KMeansCategories", "KdeCategories", "Noise", "RandomForest"]


@pytest.mark.parametrize("name", SEEDED)
def test_settings_that_nothing_can_be_done_with_are_refused_where_they_are_given(name):
    settings = SETTINGS[name]()
    with pytest.raises(SettingError, match="seed must be at least 0; found -1"):
        settings.set_params(seed=-1)
    with pytest.raises(WrongTypeError, match=rf"{name} takes a whole number \(seed\); found str"):
        settings.set_params(seed="a")


WITH_TOP = [
    (cls, verb)
    for cls in sorted(EXAMPLES, key=lambda cls: cls.__name__)
    for verb in ("plot", "markdown")
    if hasattr(cls, verb) and "top" in inspect.signature(getattr(cls, verb)).parameters
]


@pytest.mark.parametrize("top", [0, -3, 1.5, "all"])
@pytest.mark.parametrize(("cls", "verb"), WITH_TOP, ids=[f"{cls.__name__}.{verb}" for cls, verb in WITH_TOP])
def test_how_many_to_show_is_a_whole_number_of_at_least_one(cls, verb, top):
    with pytest.raises(SettingError, match="top is a whole number of at least 1"):
        getattr(EXAMPLES[cls](), verb)(top=top)
