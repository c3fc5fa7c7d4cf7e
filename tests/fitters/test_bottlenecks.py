"""`pk.Bottlenecks`: rules by hand, forests as arrays, what cannot be told, and real dumps."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import perfkit as pk
from perfkit.errors import DataError, FormatError, SettingError
from perfkit.fitters.bottlenecks.features import NAMES, PORTS, RULES, features, matrix, needed, rule_scores
from perfkit.fitters.bottlenecks.forest import Forest, learn
from perfkit.fitters.bottlenecks.names import event_map, map_table, matched
from perfkit.machine.classes import CLASSES, classes_of

PERF = Path(__file__).parents[2].parent / "shared" / "data" / "perf"
KNOWN = {"divider": "dividers", "branchy": "mispredicted branches"}


@pytest.fixture(scope="module")
def core():
    return pk.Microarchitecture.load("skylake_x")


@pytest.fixture(scope="module")
def simulated():
    pmu = pk.SimulatedPmu("zen4", intervals=4)
    return pmu.collect({name: pk.datasets.load(f"traces/{name}") for name in KNOWN})


def counted(rates: dict[str, float], kind: str = "measured", intervals: int = 3) -> pk.Samples:
    """So many counts a cycle in each interval."""
    rows = [
        {"run": "mine", "interval": k, "event": e, "time": 1e6, "work": 1e6, "count": 1e6 * rate}
        for k in range(intervals)
        for e, rate in rates.items()
    ]
    return pk.Samples.from_frame(pd.DataFrame(rows), kind=kind, time_event="cycles", work_event="instructions")


def test_shares_of_capacity_follow_from_the_meaning_of_a_counter(core):
    found = features({"uops": np.array([2.0]), "uops.p0156": np.array([3.0]), "branch-misses": np.array([0.01])}, core)
    assert found["pipeline width: uops"][0] == pytest.approx(0.5)  # of a width of four
    assert found["integer units: ports"][0] == pytest.approx(0.75)  # of four ports
    assert found["mispredicted branches: branch-misses"][0] == pytest.approx(0.16)  # sixteen cycles each
    assert np.isnan(found["L2: l2.hits"][0])
    scores = rule_scores(found)
    assert scores["integer units"][0] == pytest.approx(0.75)
    assert np.isnan(scores["store ports"][0])
    assert list(found) == list(NAMES)


def test_what_is_not_counted_is_not_zero_to_the_model(core):
    x = matrix({"uops": np.array([2.0])}, core)
    assert x.shape == (1, len(NAMES))
    assert x[0, NAMES.index("L2: l2.hits")] == -1.0
    assert x[0, NAMES.index("pipeline width: uops")] == 0.5


def test_every_rule_is_of_a_class_and_every_class_can_be_judged(core):
    assert {rule.of for rule in RULES} <= set(CLASSES)
    for name in classes_of(core):
        assert needed(name, core), name


def test_a_forest_of_arrays_predicts_as_the_one_it_was_made_of(tmp_path):
    ensemble = pytest.importorskip("sklearn.ensemble")
    rng = np.random.default_rng(0)
    x = rng.random((300, 6)).astype(np.float32)
    y = np.stack([x[:, 0] + x[:, 1], x[:, 2], 1.0 - x[:, 3]], axis=1)
    ours = learn(x, y, features=tuple("abcdef"), outputs=("p", "q", "r"), trees=7, leaf=2, seed=3)
    theirs = ensemble.ExtraTreesRegressor(7, min_samples_leaf=2, max_features=0.5, random_state=3).fit(x, y)
    mean, votes = ours.predict(x)
    assert np.allclose(mean, theirs.predict(x), atol=2e-3)  # leaves have 11 bits
    assert np.allclose(votes.sum(axis=1), 1.0)
    back = Forest.load(ours.save(tmp_path / "forest.npz"))
    assert np.array_equal(back.predict(x)[0], mean)
    (tmp_path / "other.npz").write_bytes(b"no")
    with pytest.raises(FormatError, match=r"expected a forest that Forest\.save wrote"):
        Forest.load(tmp_path / "other.npz")


@pytest.mark.parametrize("run", KNOWN)
def test_the_bottleneck_of_a_known_kernel_is_named_with_its_evidence(simulated, run):
    found = pk.Bottlenecks.load("zen4").explain(simulated)
    assert found.answer(run) == KNOWN[run]
    rows = found.of(run)
    assert rows["status"].eq("told").all()
    assert rows["probability"].between(0, 1).all()
    assert rows["evidence"].iloc[0]
    assert KNOWN[run] in found.why(run)
    first = found.intervals[found.intervals["run"] == run].groupby("interval").first()
    assert (first["resource"] == KNOWN[run]).mean() >= 0.75
    assert found.kind == "simulated"


def test_an_answer_does_not_depend_on_the_order_of_rows(simulated):
    model = pk.Bottlenecks.load("zen4")
    turned = pk.Samples(simulated.table.sample(frac=1.0, random_state=1), simulated.runs)
    one, two = model.explain(simulated), model.explain(turned)
    for run in KNOWN:
        pd.testing.assert_frame_equal(one.of(run), two.of(run))


def test_events_that_tell_nothing_give_no_answer():
    found = pk.Bottlenecks.load("skylake_x").explain(counted({"page-faults": 1e-6}))
    assert found.answer("mine") == "cannot tell"
    assert found.of("mine")["status"].eq("cannot tell").all()
    assert found.of("mine")["probability"].isna().all()
    assert "cannot tell" in found.summary()
    assert len(found.next_events)


def test_few_events_are_not_enough_to_name_anything_and_say_what_to_measure():
    found = pk.Bottlenecks.load("skylake_x").explain(counted({"branch-misses": 0.03, "branches": 0.2}))
    told = found.of("mine").set_index("resource")["status"]
    assert told["mispredicted branches"] == "told"
    assert told["dividers"] == told["memory latency"] == "cannot tell"
    assert found.answer("mine") == "cannot tell"
    assert "arith.divider_active" in " ".join(found.next_events["names"])


def test_seconds_are_refused():
    rows = pd.DataFrame({"event": ["branch-misses"], "time": [1.0], "work": [2.0], "count": [1.0]})
    timed = pk.Samples.from_frame(rows, kind="measured", time_event="seconds", work_event="instructions")
    with pytest.raises(DataError, match="need cycles"):
        pk.Bottlenecks.load("zen4").explain(timed)
    with pytest.raises(SettingError, match="unknown run"):
        pk.Bottlenecks.load("zen4").explain(counted({"branch-misses": 0.1})).of("other")


def test_the_map_names_only_events_of_the_pmu_and_each_real_name_once_per_event(core):
    known = set(pk.SimulatedPmu(core).events().index)
    assert set(event_map()["events"]) <= known
    cores = [pk.Microarchitecture.load(name) for name in ("skylake_x", "golden_cove", "zen4")]
    assert set(event_map()["ports"]) <= {port for c in cores for port in c.ports}
    table = map_table()
    assert not table.duplicated(["simulated", "real"]).any()
    assert (table["real"] == table["real"].str.lower()).all()


def test_events_are_known_without_pmu_modifiers_and_case():
    found = matched(["cpu_core/BR_MISP_RETIRED.ALL_BRANCHES/u", "L1-dcache-load-misses", "what"], simulated=False)
    assert {one.simulated: one.real for one in found} == {
        "branch-misses": "cpu_core/BR_MISP_RETIRED.ALL_BRANCHES/u",
        "l1.misses": "L1-dcache-load-misses",
    }
    assert any("prefetches" in one.note for one in found)


@pytest.mark.skipif(not PERF.is_dir(), reason=f"the real dumps are not in {PERF}")
@pytest.mark.parametrize("path", sorted(PERF.glob("*")) if PERF.is_dir() else [], ids=lambda p: p.name)
def test_a_real_dump_without_the_events_is_not_guessed_at(path):
    samples = pk.read_samples(path)
    core = "alder_lake_p" if "hybrid" in path.name else "skylake_x"
    found = pk.Bottlenecks.load(core).explain(samples)
    assert len(found.events) >= 3  # the map knows the dump's events
    assert found.events["note"].str.len().gt(0).any()  # and says which do not mean the same
    for run in found.runs["run"].unique():
        assert found.answer(run) == "cannot tell"  # none counts ports, dividers or cycles by uops
        rows = found.of(run)
        assert (rows["status"] == "told").any()
        assert (rows["status"] == "cannot tell").sum() >= 8
        assert "measure next" in found.why(run)
    assert found.kind == samples.kind


def test_a_class_with_ports_is_as_large_as_its_busiest_ports():
    found = {rule.name: np.array([0.1]) for rule in RULES} | {f"{name}: ports": np.array([0.7]) for name in PORTS}
    assert {name: float(score[0]) for name, score in rule_scores(found).items()} == {
        name: 0.7 if name in PORTS else 0.1 for name in CLASSES
    }


def test_a_model_prints_its_core_and_its_size():
    """Its tables and the core's sources took twelve thousand characters in a notebook's cell."""
    assert re.fullmatch(r"<Bottlenecks of zen4: \d+ classes, \d+ trees>", repr(pk.Bottlenecks.load("zen4")))


def test_the_words_of_a_rule_say_its_factor():
    """The words are what the reader is told; the factor is what ranks."""
    of_words = {
        "tenths": 0.1,
        "of two ": 0.5,
        "two at once": 0.5,
        "four at once": 0.25,
        "had four": 0.5,
        "nothing began": 0.5,
        "bandwidth": 64,
    }
    for rule in RULES:
        expected = next((factor for words, factor in of_words.items() if words in rule.words), 1.0)
        assert rule.factor == expected, rule.name
