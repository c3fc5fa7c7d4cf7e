"""`pk.Bottlenecks`: rules by hand, forests as arrays, what cannot be told, and real dumps."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import perfkit as pk
from perfkit.errors import DataError, FormatError, SettingError
from perfkit.fitters.bottlenecks.explanation import Weighed
from perfkit.fitters.bottlenecks.features import (
    CAPACITIES,
    NAMES,
    PORTS,
    RULES,
    SUMS,
    features,
    matrix,
    needed,
    port_events,
    rule_scores,
    ruled_out,
)
from perfkit.fitters.bottlenecks.forest import Forest, learn
from perfkit.fitters.bottlenecks.model import rates_of
from perfkit.fitters.bottlenecks.names import Named, countable, event_map, matched
from perfkit.machine.classes import CLASSES, classes_of
from tests.fitters.event_names import map_table
from tests.simulators.assembled import loop, needs_assembler

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
    assert np.allclose(ours.probability(votes), votes)  # before any calibration
    back = Forest.load(ours.save(tmp_path / "forest.npz"))
    assert np.array_equal(back.predict(x)[0], mean)
    (tmp_path / "other.npz").write_bytes(b"no")
    with pytest.raises(FormatError, match=r"expected a forest that Forest\.save wrote"):
        Forest.load(tmp_path / "other.npz")


def test_a_forest_keeps_a_curve_for_each_vendors_events_and_reads_files_without(tmp_path):
    forest = pk.datasets.load("bottlenecks/model")
    curves = np.array([[[0.0, 0.5, 1.0], [0.0, 0.4, 0.9]], [[0.0, 0.5, 1.0], [0.0, 0.2, 0.6]]])
    back = Forest.load(replace(forest, real=curves).save(tmp_path / "forest.npz"))
    assert back.real_probability(np.array([0.25, 0.75]), "Intel").tolist() == pytest.approx([0.2, 0.65])
    assert back.real_probability(np.array([0.25, 0.75]), "AMD").tolist() == pytest.approx([0.1, 0.4])
    assert back.real_probability(np.array([0.25, 0.75]), "ARM").tolist() == [0.25, 0.75]  # no map of names
    with np.load(tmp_path / "forest.npz") as found:
        np.savez(tmp_path / "older.npz", **{name: found[name] for name in found.files if name != "real"})
    assert Forest.load(tmp_path / "older.npz").real_probability(np.array([0.3]), "AMD").tolist() == [0.3]


@pytest.mark.parametrize(("core", "vendor"), [("skylake_x", 0), ("zen4", 1)])
def test_the_curve_of_real_names_is_for_runs_of_which_no_more_can_be_counted(core, vendor):
    """The share of the trees in all ways goes through the vendor's curve; not where an event could still be counted."""
    model = pk.Bottlenecks.load(core)
    has = countable(model.core.vendor, core)
    bare = replace(model.forest, real=np.tile([[0.0, 1.0], [0.0, 1.0]], (2, 1, 1)))
    halved = bare.real.copy()
    halved[vendor, 1] /= 2
    every = pd.DataFrame([dict.fromkeys([*sorted(has), "instructions"], 0.2)])
    for rates, factor in ((every, 0.5), (every.drop(columns="branch-misses"), 1.0)):
        plain, half = (
            pk.Bottlenecks(model.core, replace(model.forest, real=real)).judge(rates, decide=False, has=has)
            for real in (bare.real, halved)
        )
        assert plain.final.all() == half.final.all() == (factor == 0.5)
        assert half.probability == pytest.approx(plain.probability * factor, nan_ok=True)


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
    assert told["mispredicted branches"] == "uncertain"  # that depends on what was not counted
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
    assert set(event_map()["events"]) - set(SUMS) <= known
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


def test_the_cycles_of_any_divider_are_those_of_all():
    """arith.div_active counts both dividers of a Golden Cove; it was left aside, and the class untold."""
    for core, name in (("golden_cove", "arith.div_active"), ("skylake_x", "arith.divider_active")):
        model = pk.Bottlenecks.load(core)
        found = model.explain(counted({name: 0.97, "uops_retired.slots": 0.3, "branch-misses": 0.0}))
        rows = found.of("mine").set_index("resource")
        assert "97%" in rows.loc["dividers", "evidence"]
        assert rows.loc["dividers", "status"] != "cannot tell"
        assert not found.next_events["resource"].eq("dividers").any()
        none = model.explain(counted({name: 0.0, "uops_retired.slots": 0.3, "branch-misses": 0.0}))
        assert none.of("mine").set_index("resource").loc["dividers", "probability"] == 0.0


@pytest.mark.parametrize(("core", "event"), [("skylake_x", "mem_inst_retired.all_loads"), ("zen4", "L1-dcache-loads")])
def test_an_event_that_stands_for_several_serves_all_of_them(core, event):
    """All loads retire, and ask L1: the class of L1's latency was never told, and asked for the event again."""
    model = pk.Bottlenecks.load(core)
    samples = counted({event: 0.25, "branch-misses": 0.0})
    names = matched(samples.events, simulated=False, vendor=model.core.vendor)
    twice = {one.simulated for one in names if one.real == event}
    assert len(twice) > 1
    rates = rates_of(samples, names, ["run"])
    assert (rates[sorted(twice)] == 0.25).all(axis=None)
    asked = model.explain(samples).next_events.to_string().casefold()
    assert event.casefold() not in asked


@pytest.mark.parametrize(
    ("core", "event", "simulated"),
    [
        ("zen4", "cache-misses", "l2.misses"), ("skylake_x", "cache-misses", "lines.memory"),
        ("zen4", "dTLB-load-misses", "tlb.walks"), ("skylake_x", "dTLB-load-misses", "tlb.walks"),
        ("zen4", "dTLB-loads", "tlb.misses"), ("skylake_x", "LLC-load-misses", "l3.misses"),
        ("zen4", "branch-misses", "branch-misses"), ("skylake_x", "branch-misses", "branch-misses"),
    ],
)  # fmt: skip
def test_generic_events_stand_for_what_the_vendor_counts(core, event, simulated):
    found = pk.Bottlenecks.load(core).explain(counted({event: 0.01}))
    assert simulated in found.events["simulated"].tolist()
    other = {"l2.misses": "l3.misses", "l3.misses": "l2.misses", "tlb.walks": "tlb.misses"}.get(simulated, "")
    assert other not in found.events["simulated"].tolist()


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


def test_evidence_names_the_events_of_the_dump():
    """It named the simulator's (l3.misses), which no dump has."""
    dump = counted({"cpu_core/branch-misses/u": 0.01, "LLC-load-misses": 0.001})
    evidence = pk.Bottlenecks.load("golden_cove").explain(dump).of("mine").set_index("resource")["evidence"]
    assert evidence["mispredicted branches"].endswith("(cpu_core/branch-misses/u)")
    assert "(LLC-load-misses)" in evidence["memory latency"]


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


def test_cycles_in_which_nothing_began_are_told_as_they_were_counted():
    """Half of their share ranks a class, and was told: 42 % of branchy's cycles where 83 % were counted."""
    samples = pk.SimulatedPmu("zen4", intervals=4).collect({"branchy": pk.datasets.load("traces/branchy")})
    of = samples.to_wide()[["exec.0", "cycles"]].sum()
    evidence = pk.Bottlenecks.load("zen4").explain(samples).runs.set_index("resource")["evidence"]
    assert f"{of['exec.0'] / of['cycles']:.0%} of cycles nothing began" in evidence["instruction latency"]


def test_simulated_samples_of_another_core_are_doubted():
    """A Zen 4's divider was "instruction latency, 91 %" on a Zen 5, and its stack supported."""
    samples = pk.SimulatedPmu("zen4", intervals=4).collect({"divider": pk.datasets.load("traces/divider")})
    told = "it was simulated on zen4, and is judged as zen5"
    assert told in pk.Bottlenecks.load("zen5").explain(samples).doubts["doubt"].tolist()
    stack = pk.Bottlenecks.load("zen5").stacks(samples).runs.iloc[0]
    assert stack["verdict"] == "unsupported"
    assert told in stack["doubt"]
    assert not len(pk.Bottlenecks.load("zen4").explain(samples).doubts)


def test_what_is_counted_in_tenths_is_told_whole():
    samples = pk.SimulatedPmu("zen4", intervals=4).collect({"chase": pk.datasets.load("traces/pointer-chase")})
    of = samples.to_wide()[["mem-loads", "cycles"]].sum()
    under_way = of["mem-loads"] * 4 / of["cycles"]  # L1 answers in 4 cycles
    told = pk.Bottlenecks.load("zen4").explain(samples).to_frame()["evidence"]
    assert f"{under_way:.2g} loads under way in L1 (mem-loads)" in told.str.cat()


def division(core: str) -> pk.Samples:
    """Divisions that wait for nothing but the divider, the first of which loads a line that no cache holds."""
    trace = loop("vdivpd ymm1, ymm14, ymm15\nvdivpd ymm2, ymm14, ymm15\nvaddpd ymm3, ymm14, [rax]\ndec r15", 600)
    return pk.SimulatedPmu(core, intervals=4).collect({"mine": trace})


@needs_assembler
@pytest.mark.parametrize("core", ["skylake_x", "golden_cove", "zen4"])
def test_a_bottleneck_whose_events_were_not_counted_is_not_given_to_another_class(core):
    """Without the divider's event, such a loop was bound by latency with 85 %: nothing else stands out."""
    samples, model = division(core), pk.Bottlenecks.load(core)
    dividers = {f"uops.{group}" for group in port_events(model.core)["dividers"]}
    assert model.explain(samples).answer("mine") == "dividers"
    for left_out in (dividers, dividers - {"uops.Divider", "uops.integer_divider"}):
        few = model.explain(samples.select(events=[e for e in samples.events if e not in left_out]))
        assert few.answer("mine") == "cannot tell"
        assert few.next_events["resource"].iloc[0] == "dividers"
        assert few.next_events["event"].iloc[0] in left_out
        assert "uncertain" in few.of("mine")["status"].to_numpy()
        assert "depends on events that were not counted" in few.why("mine")


@needs_assembler
@pytest.mark.parametrize("core", ["skylake_x", "zen4"])
def test_following_the_advice_to_its_end_gives_the_right_answer(core):
    samples, model = division(core), pk.Bottlenecks.load(core)
    have = ["uops", "branches", "branch-misses", "mem-loads", "l1.misses"]
    advised = []
    for _ in samples.events:
        found = model.explain(samples.select(events=have))
        assert found.answer("mine") in ("cannot tell", "dividers")
        if found.answer("mine") == "dividers" or found.next_events.empty:
            break
        advised.append(found.next_events["event"].iloc[0])
        have = [*have, advised[-1]]
    assert found.answer("mine") == "dividers"
    assert len(advised) < len(samples.events) / 2


def test_what_to_measure_next_depends_on_what_was_counted():
    model = pk.Bottlenecks.load("zen4")
    busy = model.explain(
        counted({"uops": 4.0, "branches": 0.5, "branch-misses": 0.0, "l1.misses": 0.0}, kind="simulated")
    )
    idle = model.explain(
        counted({"uops": 0.1, "branches": 0.01, "branch-misses": 0.0, "l1.misses": 0.01}, kind="simulated")
    )
    assert busy.next_events["resource"].head(3).tolist() != idle.next_events["resource"].head(3).tolist()


@pytest.mark.parametrize("run", KNOWN)
def test_a_class_whose_events_are_all_zero_is_never_likely(simulated, run):
    """Of each class in turn, everything is said to be zero that it can be judged by."""
    model = pk.Bottlenecks.load("zen4")
    table = simulated.table
    for name in classes_of(model.core):
        if name == "pipeline width":
            continue  # without uops, nothing runs
        zero = table.assign(count=table["count"].where(~table["event"].astype(str).isin(needed(name, model.core)), 0.0))
        rows = model.explain(pk.Samples(zero, simulated.runs)).of(run).set_index("resource")
        assert rows.loc[name, "probability"] == 0.0, name


def test_one_cold_load_is_no_ratio_of_misses(core):
    """One miss of one access was a ratio of 1, as of a program that waits for memory all the time."""

    def ratios(cycles: float) -> list[float]:
        rates = {event: np.array([1.0 / cycles]) for event in ("l1.accesses", "l1.misses", "l2.misses", "l3.misses")}
        rates |= {event: np.array([200.0 / cycles]) for event in ("pending.l1", "pending.l2", "pending.l3")}
        found = features(rates, core)
        names = ("L1 misses an access", "L3 misses an L2 miss", "L3 pending of L1 pending")
        return [float(found[name][0]) for name in names]

    assert max(ratios(30_000)) < 0.05  # one miss of a whole run
    assert min(ratios(250)) > 0.95  # one after the other


def same_lines(_iteration: int, operand: int) -> int:
    return 2**22 + 64 * operand


# Loops and how many lines they write in turn.
STORES = {
    "stores of a line each": ("mov [rax], ecx\ninc edx\ndec r15", 1),
    "vectors": ("vmovupd [rax], ymm1\nvmovupd [rbx], ymm1\nadd r14, 64\ndec r15", 2),
    "four lines": ("mov [rax], ecx\nmov [rbx], ecx\nmov [rcx], edx\nmov [rdx], ecx\ndec r15", 4),
}
# Loops that no memory holds back, and what does.
OTHERS = {
    "stores of the same lines": (STORES["four lines"][0], "store ports"),
    "sums of their own": ("\n".join(f"vaddpd ymm{k}, ymm{k}, ymm15" for k in range(10)) + "\ndec r15", "vector units"),
    "a chain": ("vaddpd ymm1, ymm1, ymm15\nvaddpd ymm1, ymm1, ymm15\ndec r15", "instruction latency"),
    "loads of the same lines": ("\n".join(f"mov r{8 + k}, [rbx]" for k in range(6)) + "\ndec r15", "load ports"),
}


@needs_assembler
@pytest.mark.parametrize("core", ["skylake_x", "golden_cove", "zen4", "zen5"])
@pytest.mark.parametrize("name", STORES)
def test_a_full_memory_bandwidth_is_named_in_streams_of_stores(core, name):
    """No such stream was learnt from: with all of the bandwidth in use, latency was named, as no load waits."""
    body, lines = STORES[name]
    trace = loop(body, 6000, lambda iteration, operand: 2**22 + 64 * (lines * iteration + operand))
    samples = pk.SimulatedPmu(core, intervals=4).collect({"mine": trace})
    found = pk.Bottlenecks.load(core).explain(samples)
    assert found.answer("mine") == "memory bandwidth"
    assert "of the memory bandwidth used" in found.of("mine")["evidence"][0]


@needs_assembler
@pytest.mark.parametrize("core", ["skylake_x", "golden_cove", "zen4", "zen5"])
@pytest.mark.parametrize("name", OTHERS)
def test_other_loops_are_bound_by_what_they_are_bound_by(core, name):
    body, expected = OTHERS[name]
    samples = pk.SimulatedPmu(core, intervals=4).collect({"mine": loop(body, 2000, same_lines)})
    assert pk.Bottlenecks.load(core).explain(samples).answer("mine") == expected


def lines_in_turn(lines: int, apart: int):
    """Addresses of stores to so many lines in turn, several of an iteration so many bytes from each other."""
    return lambda iteration, operand: 2**22 + 64 * (iteration % lines) + apart * operand


# Loops of stores that L2 holds, and what holds them back by sets of doubled resources, on each core.
TO_L2 = {
    "a line each": ("mov [rax], ecx\ninc edx\ndec r15", 0, {"golden_cove": "store ports", "zen4": "L2", "zen5": "L2"}),
    "four of a line": (
        "mov [rax], ecx\nmov [rbx], ecx\nmov [rcx], ecx\nmov [rdx], ecx\ndec r15", 8,
        {"golden_cove": "store ports", "zen4": "store ports", "zen5": "store ports"},
    ),
}  # fmt: skip


@needs_assembler
@pytest.mark.parametrize("core", ["golden_cove", "zen4", "zen5"])
@pytest.mark.parametrize("name", TO_L2)
def test_stores_that_l2_holds_are_told_by_what_holds_them_back(core, name):
    """No such loop was learnt from: on a Zen 4 they were "instruction latency, 56 %", or nothing was told."""
    body, apart, expected = TO_L2[name]
    trace = loop(body, 8000, lines_in_turn(3000, apart))
    samples = pk.SimulatedPmu(core, intervals=4, warm="all").collect({"mine": trace})
    assert pk.Bottlenecks.load(core).explain(samples, intervals=False).answer("mine") == expected[core]


@needs_assembler
@pytest.mark.parametrize("core", ["skylake_x", "golden_cove", "zen4", "zen5"])
def test_a_list_in_l2_is_held_back_by_l2_however_much_is_read_of_each_node(core):
    """Two more words of each node were loads under way in L1: "L1 latency", 58 to 62 %, on every core."""
    order = np.random.default_rng(0).permutation(4000)
    body = "add rdx, [rax+8]\nadd rcx, [rax+16]\nmov rax, [rax]\ndec r15"
    trace = loop(body, 9000, lambda iteration, operand: 2**22 + 64 * int(order[iteration % 4000]) + 8 * operand)
    samples = pk.SimulatedPmu(core, intervals=4, warm="all").collect({"mine": trace})
    assert pk.Bottlenecks.load(core).explain(samples, intervals=False).answer("mine") == "L2"


def test_no_bottleneck_of_the_runs_is_ruled_out_where_misses_chain_or_memory_is_full():
    """What is ruled out is not learnt: so it has to hold of every simulated run."""
    frame, names = pk.datasets.load("bottlenecks/runs"), tuple(CLASSES)
    credit = frame[[f"credit:{name}" for name in names]].fillna(0.0).to_numpy(dtype=float)
    chained, full, wrong = 0, 0, []
    for core, part in frame.groupby("core"):
        rates = {c.removeprefix("rate:"): part[c].to_numpy(dtype=float) for c in part if c.startswith("rate:")}
        rates = {event: values for event, values in rates.items() if not event.startswith("stall.")}
        x, mine = matrix(rates, pk.Microarchitecture.load(str(core))), credit[part.index]
        column = {name: x[:, NAMES.index(name)] for name in NAMES}
        lines = column["memory bandwidth: lines.memory"]
        is_full = (lines >= 0.85) & (lines < 0.95) & (column["share: exec.0"] >= 0.1)
        one = np.abs(column["misses at once"] - 0.1) <= 0.01
        one &= (column["share: pending.l1"] >= 0.95) & (column["share: exec.0.pending.l1"] >= 0.5)
        bound = mine.max(axis=1) >= 0.02
        right = mine >= 0.9 * mine.max(axis=1, keepdims=True)
        for which in (is_full & bound, one & bound):
            lost = which & ~(right & ~ruled_out(x, names)).any(axis=1)
            wrong += part["run"][lost].tolist()
        chained, full = chained + int((one & bound).sum()), full + int((is_full & bound).sum())
    assert chained > 100
    assert full > 20
    assert wrong == []


def test_what_is_full_cannot_stand_behind_what_is_not():
    names = tuple(CLASSES)
    x = np.zeros((4, len(NAMES)), dtype=np.float32)
    x[:, [NAMES.index("instruction latency: exec.0"), NAMES.index("share: exec.0")]] = 0.4
    x[:, NAMES.index("memory bandwidth: lines.memory")] = [0.84, 0.96, 0.99, 3.0]  # the last: not of this core
    x[2, NAMES.index("store ports: ports")] = 1.0
    out = ruled_out(x, names)
    allowed = [{name for name, ruled in zip(names, row, strict=True) if not ruled} for row in out]
    assert allowed[0] >= {"instruction latency", "memory bandwidth"}
    assert allowed[1] == {"memory bandwidth"}
    assert allowed[2] == {"memory bandwidth", "store ports"}
    assert allowed[3] >= {"instruction latency", "memory bandwidth"}
    # A machine's memory may be faster than the file says: where every cycle begins something, nothing waits for it.
    x[1, NAMES.index("share: exec.0")] = 0.01
    x[1, NAMES.index("pipeline width: uops")] = 0.93
    now = {name for name, ruled in zip(names, ruled_out(x, names)[1], strict=True) if not ruled}
    assert now >= {"pipeline width", "memory bandwidth"}


@needs_assembler
def test_classes_that_are_full_together_are_told_as_such():
    """Four additions per cycle fill both the front end and the ports of a Skylake: neither alone makes it faster."""
    body = "\n".join(f"add r{8 + k}, 1" for k in range(7)) + "\ndec r15"
    found = pk.Bottlenecks.load("skylake_x").explain(
        pk.SimulatedPmu("skylake_x", intervals=4).collect({"mine": loop(body, 2000)})
    )
    evidence = found.of("mine").set_index("resource")["evidence"]
    assert "full together with integer units" in evidence["pipeline width"]
    assert "full together with pipeline width" in evidence["integer units"]
    assert "full together" not in evidence["instruction latency"]


@needs_assembler
@pytest.mark.parametrize(("core", "apart"), [("zen5", False), ("zen4", True), ("golden_cove", True)])
def test_where_the_divider_is_a_port_the_evidence_says_so(core, apart):
    found = pk.Bottlenecks.load(core).explain(division(core))
    first = found.of("mine").iloc[0]
    assert first["resource"] == ("dividers" if apart else "vector units")
    assert ("no divider apart" in first["evidence"]) is not apart


def test_what_is_full_is_used_and_something_is_always_left():
    """A stream that L3's prefetchers keep up with: no hit, no wait, and its bandwidth full."""
    names = tuple(CLASSES)
    x = np.zeros((2, len(NAMES)), dtype=np.float32)
    x[0, [NAMES.index(CAPACITIES["L3"]), NAMES.index("share: exec.0")]] = 1.0, 0.6
    out = ruled_out(x, names)
    assert [name for name, gone in zip(names, out[0], strict=True) if not gone] == ["L3"]
    assert not out[1].any()


def test_rates_of_a_dumps_events_by_hand(tmp_path):
    """Two events are added up to one; no loads at all by a real name were not counted, no misses are none."""
    (tmp_path / "a.csv").write_text(
        "cycles,instructions,loads,hits,misses,p0,p1,p5\n100,50,0,10,0,40,10,30\n200,50,20,30,8,90,80,70\n"
    )
    names = (
        Named("mem-loads", "loads"), Named("l1.accesses", "hits"), Named("l1.accesses", "misses"),
        Named("miss", "misses"),
        *(Named(f"port.{i}", f"p{i}", shared=True) for i in (0, 1, 5)),
    )  # fmt: skip
    rates = rates_of(pk.read_samples(tmp_path / "a.csv"), names, ["interval"])
    expected = {
        "mem-loads": [np.nan, 0.1], "l1.accesses": [np.nan, 0.19], "miss": [0.0, 0.04], "instructions": [0.5, 0.25],
        "port.0": [0.3, 0.1], "port.1": [0.0, 0.05], "port.5": [0.2, 0.0],  # without what the least busy had
    }  # fmt: skip
    assert {name: rates[name].tolist() for name in expected} == {
        name: pytest.approx(values, nan_ok=True) for name, values in expected.items()
    }
    two = rates_of(pk.read_samples(tmp_path / "a.csv"), names[:-1], ["interval"])
    assert two["port.0"].tolist() == pytest.approx([0.4, 0.45])  # of two ports it cannot be told


def test_no_loads_by_the_simulators_own_name_are_none(tmp_path):
    (tmp_path / "a.csv").write_text("cycles,instructions,mem-loads\n100,50,0\n200,50,20\n")
    rates = rates_of(pk.read_samples(tmp_path / "a.csv"), (Named("mem-loads", "mem-loads"),), ["interval"])
    assert rates["mem-loads"].tolist() == [0.0, 0.1]


def weighed(first, *, rival=(), probability=None, **other):
    """Four classes of one row, of which only `status` matters."""
    none, row = np.zeros((1, 4), dtype=bool), np.array([first], dtype=float)
    likely = row if probability is None else np.array([probability], dtype=float)
    given = {
        "names": np.array(["L1", "L2", "integer units", "vector units"]), "credit": row, "probability": likely,
        "first": row, "rival": np.array([[i in rival for i in range(4)]]), "final": np.array([False]),
        "divides": np.array([False]), "either": np.array([False]), "prior": row[0], "gain": row, "shares": {},
        "full": {}, "needs": {}, "counted": {}, "unused": none,
    }  # fmt: skip
    return Weighed(**(given | other))


UNSURE, TOLD, NOT = "uncertain", "told", "cannot tell"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (weighed([0.75, 0.1, 0.0, 0.11]), [TOLD, TOLD, TOLD, UNSURE]),  # the likeliest in most ways, or in hardly any
        (weighed([0.74, 0.26, 0.0, 0.0]), [UNSURE, UNSURE, TOLD, TOLD]),
        (weighed([0.9, 0.1, 0.0, 0.0], rival=[3]), [UNSURE, TOLD, TOLD, UNSURE]),  # another may be it instead
        (weighed([0.9, 0.1, 0.0, 0.0], rival=[0]), [UNSURE, TOLD, TOLD, TOLD]),
        (weighed([0.5, 0.5, 0.0, 0.0], final=np.array([True])), [TOLD, TOLD, TOLD, TOLD]),  # no more can be counted
        (weighed([0.9, 0.1, 0.0, 0.0], probability=[0.9, np.nan, 0.1, 0.1]), [TOLD, NOT, TOLD, TOLD]),
        (weighed([0.9, 0.1, 0.0, 0.0], either=np.array([True])), [TOLD, TOLD, UNSURE, UNSURE]),
        (weighed([0.9, 0.1, 0.0, 0.0], divides=np.array([True])), [UNSURE, TOLD, TOLD, TOLD]),
        (weighed([0.9, 0.1, 0.0, 0.0], divides=np.array([True]), full={"L1": np.array([True])}), [TOLD] * 4),
        (weighed([0.9, 0.1, 0.0, 0.0], unused=np.array([[True] * 4])), [UNSURE, TOLD, TOLD, TOLD]),
    ],
)
def test_which_classes_can_be_told(given, said):
    assert given.status().tolist() == [said]
