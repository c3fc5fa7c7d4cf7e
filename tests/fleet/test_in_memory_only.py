"""Calls that take samples in memory: given a fleet, each refuses it and says what to do."""

import inspect

import matplotlib as mpl
import pytest

import perfkit as pk
import perfkit_widgets as pw
from perfkit.errors import DataError

mpl.use("agg")
TAKES_BOTH = {"CpiStack.fit", "CpiStack.fit_each", "Spire.fit", "SpireModel.update", "Fleet"}
EVENT = "branch-misses"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fleet")
    for seed in (1, 2):
        pk.synthetic_cpi(intervals=80, workload=f"w{seed}", seed=seed)[0].save(folder / f"{seed}.parquet")
    return pk.open_samples(folder, memory=False)


@pytest.fixture(scope="module")
def fitted(fleet):
    samples = fleet.sample(100)
    return pk.Spire().fit(fleet), samples, pk.CpiStack().fit(fleet)


def calls(model, samples):
    """Every public call, by name and parameter, with what it is called with in place of samples."""
    first = samples.events[0]
    return {
        "Bottlenecks.explain samples": lambda given: pk.Bottlenecks.load("skylake_x").explain(given),
        "Bottlenecks.stacks samples": lambda given: pk.Bottlenecks.load("skylake_x").stacks(given),
        "CpiCounts.from_samples samples": pk.CpiCounts.from_samples,
        "Samples.concat parts": lambda given: pk.Samples.concat([given]),
        "SpireModel.plot training": lambda given: model.plot(event=first, training=given),
        "SpireModel.plot analysed": lambda given: model.plot(event=first, analysed=given),
        "SpireModel.rank samples": model.rank,
        "diff_counts a": lambda given: pk.diff_counts(given, samples),
        "diff_counts b": lambda given: pk.diff_counts(samples, given),
        "TopDown.fit samples": lambda given: pk.TopDown().fit(given),
        "explore source": pk.explore,
        "paper_cpi_stack samples": pk.paper_cpi_stack,
        "BottleneckExplorer samples": lambda given: pw.BottleneckExplorer(pk.Bottlenecks.load("skylake_x"), given),
        "LiveSpire samples": lambda given: pw.LiveSpire(model, given),
        "LiveSpire training": lambda given: pw.LiveSpire(model, samples, given),
        "SamplesExplorer samples": pw.SamplesExplorer,
        "SpireExplorer samples": lambda given: pw.SpireExplorer(model, given),
        "SpireExplorer training": lambda given: pw.SpireExplorer(model, samples, given),
        "CpiStackExplorer fits": pw.CpiStackExplorer,
        "LiveCpiStack fits": pw.LiveCpiStack,
        "DecisionTree.fit table": lambda given: pk.DecisionTree((first,)).fit(given, "time"),
        "RandomForest.fit table": lambda given: pk.RandomForest((first,)).fit(given, "time"),
        "KdeCategories.fit table": lambda given: pk.KdeCategories("time").fit(given),
    }


def public():
    """Every public function and method with a parameter whose annotation names Samples and not Fleet."""
    for module in (pk, pw):
        for name in module.__all__:
            found = getattr(module, name)
            if not callable(found):
                continue
            own = {name: found.__init__ if inspect.isclass(found) else found}
            if inspect.isclass(found):
                own |= {f"{name}.{k}": getattr(found, k) for k, v in vars(found).items() if k[0] != "_" and callable(v)}
                own |= {f"{name}.{k}": v.__func__ for k, v in vars(found).items() if isinstance(v, classmethod)}
            for called, function in own.items():
                try:
                    parameters = inspect.signature(function).parameters.values()
                except (TypeError, ValueError):
                    continue
                for p in parameters:
                    told = str(p.annotation)
                    if "Samples" in told and "Fleet" not in told and "samples_out" not in p.name:
                        yield called, p.name


def test_every_public_call_that_takes_samples_is_tried_here(fitted):
    model, samples, _ = fitted
    known = set(calls(model, samples))
    found = {f"{called} {name}" for called, name in public() if called not in TAKES_BOTH}
    assert len(found) >= 12
    assert found <= known, found - known


@pytest.mark.filterwarnings("default")
def test_each_refuses_a_fleet_and_says_what_to_do(fleet, fitted):
    model, samples, stacks = fitted
    for call in calls(model, samples).values():
        with pytest.raises(DataError, match=r"found Fleet.*(\.sample\(20_000\))"):
            call(fleet)
    for explorer in (pw.CpiStackExplorer, pw.LiveCpiStack):
        with pytest.raises(DataError, match=r"found FleetStacks.*(\.sample\(20_000\))"):
            explorer(stacks)
