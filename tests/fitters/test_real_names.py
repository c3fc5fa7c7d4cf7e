"""`pk.Bottlenecks` on what a processor can count: its own events, what it has none for, and counts that cannot be."""

import numpy as np
import pandas as pd
import pytest

import perfkit as pk
from perfkit.fitters.bottlenecks.doubts import impossible_shares
from perfkit.fitters.bottlenecks.features import PORTS, SUMS, any_of, features, port_events, unhelpful
from perfkit.fitters.bottlenecks.model import rates_of
from perfkit.fitters.bottlenecks.names import countable, matched, names_for, unused
from perfkit.machine.core import Microarchitecture
from tests.fitters.event_names import map_table

CORES = ("skylake_x", "golden_cove", "zen4", "zen5")
TRACES = ("branchy", "divider", "l2-bound", "latency-add", "load-bound", "pointer-chase", "store-bound", "triad")
DIVIDING = ("divider", "mine")
SINGLE = ("uops.p0", "uops.p1", "uops.p5", "uops.p6")


def as_dump(samples: pk.Samples, core: Microarchitecture, changes: dict[str, float] | None = None) -> pk.Samples:
    """Give simulated samples as a dump of a processor: every event that it has a name for, by that name.

    ``changes`` maps real events to counts for each cycle, instead of theirs.
    """
    wide = samples.to_wide().reset_index()
    cycles = wide["cycles"].to_numpy(dtype=float)
    simulated = {str(e): wide[e].to_numpy(dtype=float) for e in samples.events}
    simulated |= {whole: sum(simulated[part] for part in parts) for whole, parts in SUMS.items()}
    shares = features({event: counts / cycles for event, counts in simulated.items()}, core)
    simulated |= {any_of(name): shares[f"{name}: ports"] * cycles for name in PORTS if port_events(core)[name]}
    has = countable(core.vendor, core.name)
    all_ports = next((g for g in ("uops.p0156B", "uops.p0156") if g in has), "")
    if all_ports:  # what any port takes is spread evenly, and a real port's event counts that, too
        units = len(core.ports[all_ports.removeprefix("uops.")].units)
        free = (simulated[all_ports] - sum(simulated[port] for port in SINGLE)) / units
        simulated |= {port: simulated[port] + free for port in SINGLE}
    counts: dict[str, np.ndarray] = {}
    if all_ports == "uops.p0156B":  # one event of two ports
        counts["uops_dispatched.port_5_11"] = simulated["uops.p5"] + free
    for event in sorted(has & set(simulated)):
        names = names_for(event, core.vendor, core.name)
        if not any(name in counts or "+" in name for name in names):
            counts[names[0]] = simulated[event]
        elif names[0] == "uops_dispatched_port.port_2+uops_dispatched_port.port_3":
            counts |= dict.fromkeys(names[0].split("+"), simulated[event] / 2)
            counts["uops_dispatched_port.port_7"] = simulated["uops.p237"] - simulated["uops.p23"]
    if core.vendor == "AMD":  # no event of the simulator: of these programs, one divides
        counts["fp_ret_sse_avx_ops.div_flops"] = np.where(wide["run"].astype(str).isin(DIVIDING), 0.3, 0.0) * cycles
    counts |= {event: rate * cycles for event, rate in (changes or {}).items()}
    parts = [
        pd.DataFrame(
            {
                "run": wide["run"].astype(str), "interval": wide["interval"], "event": event, "time": cycles,
                "work": wide["instructions"], "count": values,
            }
        )
        for event, values in counts.items()
    ]  # fmt: skip
    return pk.Samples.from_frame(
        pd.concat(parts, ignore_index=True), kind="measured", time_event="cycles", work_event="instructions"
    )


@pytest.fixture(scope="module", params=CORES)
def both(request):
    core = Microarchitecture.load(request.param)
    samples = pk.SimulatedPmu(core, intervals=4).collect({n: pk.datasets.load(f"traces/{n}") for n in TRACES})
    return core, samples


def test_with_all_that_a_processor_can_count_no_answer_waits_for_more(both):
    """Nine of thirteen loops were "cannot tell: it depends on events that were not counted", and none was asked for."""
    core, samples = both
    model = pk.Bottlenecks.load(core)
    full, found = model.explain(samples), model.explain(as_dump(samples, core))
    assert found.doubts.empty, found.doubts.to_string()
    named = {run: found.answer(run) for run in TRACES}
    # AMD counts no cycles in which nothing begins, and few ports: five on a Zen 5, four on a Zen 4.
    assert sum(name != "cannot tell" for name in named.values()) >= (6 if core.vendor == "Intel" else 4), named
    for run in [name for name in named if core.vendor == "Intel" or name not in DIVIDING]:
        rows = found.of(run)
        assert "depends on events that were not counted" not in found.why(run)
        assert rows["status"].eq("told").all()
        assert rows["probability"].between(0, 1).all()
        lacks = found.remarks.loc[found.remarks["run"] == run, "remark"]
        assert lacks.str.contains("as in simulated runs that look alike").any()
        assert lacks.str.contains("no event for instruction latency, integer units").any() == (core.vendor == "AMD")
    other = {run: name for run, name in named.items() if name not in ("cannot tell", full.answer(run))}
    assert len(other) <= 1, other


@pytest.mark.parametrize("core", ["zen4", "zen5"])
def test_divisions_of_which_no_event_tells_are_not_given_to_another_class(core):
    """Latency, with 51 % on a Zen 4 and 61 % on a Zen 5: AMD counts the integer divider's cycles alone."""
    event, model = "fp_ret_sse_avx_ops.div_flops", pk.Bottlenecks.load(core)
    samples = pk.SimulatedPmu(core, intervals=4).collect({"divider": pk.datasets.load("traces/divider")})
    dump = as_dump(samples, model.core)
    for part in (dump, dump.select(events=[e for e in dump.events if e != event])):
        found = model.explain(part, intervals=False)
        assert found.answer("divider") == "cannot tell"
        assert "or floating-point divisions, of which no event tells here" in found.summary()
        assert (event in found.command("divider")) == (event not in part.events)
    none = model.explain(as_dump(samples, model.core, {event: 0.0}), intervals=False)
    assert "floating-point divisions" not in none.why("divider")
    assert none.of("divider")["status"].eq("told").all()


def test_the_integer_divider_alone_is_not_all_dividers():
    samples = pk.SimulatedPmu("zen4", intervals=4).collect({"divider": pk.datasets.load("traces/divider")})
    found = pk.Bottlenecks.load("zen4").explain(as_dump(samples, Microarchitecture.load("zen4")), intervals=False)
    evidence = found.of("divider").set_index("resource").loc["dividers", "evidence"]
    assert "0% of its busiest ports used (of those that were counted)" in evidence


def test_what_can_be_counted_and_was_not_is_still_asked_for(both):
    core, samples = both
    dump = as_dump(samples, core)
    few = dump.select(events=[e for e in dump.events if "branch" in e or "br_" in e or "brn" in e])
    found = pk.Bottlenecks.load(core).explain(few)
    for run in TRACES:
        assert found.answer(run) == "cannot tell"
        assert "measure next" in found.why(run)
    own = {name for names in found.next_events["names"] for name in names.replace("+", ", ").split(", ") if name}
    table = map_table()
    for name in own:
        rows = table[table["real"] == name]
        assert any(not cores or core.name in cores for cores in rows["cores"]), name


@pytest.mark.parametrize("core", ["skylake_x", "golden_cove"])
def test_misses_of_the_last_level_are_lines_and_not_waits(core):
    """They count prefetches, too: those were added once more (200 % of the bandwidth), and waits were seen in them."""
    machine = Microarchitecture.load(core)
    events = ["longest_lat_cache.miss", "l2_rqsts.pf_miss", "ls_hw_pf_dc_fills.dram_io_near"]
    names = {one.simulated: one.real for one in matched(events, simulated=False, vendor="Intel", core=core)}
    assert names["lines.memory"] == "longest_lat_cache.miss"
    assert not {"l3.misses", "l3.prefetch-misses"} & set(names)
    found = features({"lines.memory": np.array([0.1]), "l3.misses": np.array([0.1])}, machine)
    alone = features({"lines.memory": np.array([0.1])}, machine)
    feature = "memory bandwidth: lines.memory"
    assert found[feature][0] == alone[feature][0] > 0
    assert np.isnan(alone["memory latency: l3.misses"][0])


def test_two_ports_of_a_skylake_are_its_load_ports():
    names = matched(
        [f"uops_dispatched_port.port_{n}" for n in range(8)], simulated=False, vendor="Intel", core="skylake_x"
    )
    parts: dict[str, list[str]] = {}
    for one in names:
        parts.setdefault(one.simulated, []).append(one.real[-1])
    assert parts["uops.p23"] == ["2", "3"]
    assert parts["uops.p237"] == ["2", "3", "7"]
    assert parts["uops.p0156"] == ["0", "1", "5", "6"]
    without = matched(["uops_dispatched_port.port_2"], simulated=False, vendor="Intel", core="skylake_x")
    assert not without  # a part of a sum is no sum
    asked = " ".join(names_for("uops.p23", "Intel", "skylake_x"))
    assert "uops_dispatched.port_2_3" not in asked
    assert "uops_dispatched_port" not in " ".join(names_for("uops.p23A", "Intel", "golden_cove"))


def test_events_that_are_not_used_are_told_with_the_reason():
    events = ["cycles", "instructions", "ex_ret_ops", "uops_dispatched.port_0", "resource_stalls.rob", "page-faults",
              "br_misp_retired.all_branches", "branch-misses"]  # fmt: skip
    names = matched(events, simulated=False, vendor="Intel", core="skylake_x")
    left = unused(events, names, "Intel", "skylake_x").set_index("event")
    assert list(left.index) == ["ex_ret_ops", "uops_dispatched.port_0", "resource_stalls.rob", "page-faults",
                                "branch-misses"]  # fmt: skip
    assert "AMD" in left.loc["ex_ret_ops", "why"]
    assert left["foreign"].tolist() == [
        True,
        True,
        False,
        False,
        False,
    ]  # no processor lists all that this one does not
    assert left.loc["branch-misses", "why"] == "counts what br_misp_retired.all_branches does"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"uops_dispatched_port.port_4": 10.0}, "1000% of the cycles of the busiest store ports"),
        ({"br_misp_retired.all_branches": 5.0}, "would restart"),
        ({"cycle_activity.stalls_l3_miss": 100.0}, "10000% of the cycles (exec.0.pending.l3)"),
        ({"uops_retired.retire_slots": 20.0}, "500% of the width of the front end (uops)"),
        ({"ex_ret_ops": 1.0}, "an event of AMD's processors, which skylake_x is none of"),
        ({"uops_dispatched.port_4_9": 0.1}, "not an event of skylake_x"),
    ],
)
def test_counts_that_no_such_core_can_have_end_in_no_answer(changes, told):
    core = Microarchitecture.load("skylake_x")
    samples = pk.SimulatedPmu(core, intervals=4).collect({"divider": pk.datasets.load("traces/divider")})
    model = pk.Bottlenecks.load(core)
    right, wrong = as_dump(samples, core), as_dump(samples, core, changes)
    assert model.explain(right).answer("divider") == "dividers"
    assert model.explain(right).doubts.empty
    assert model.stacks(right).runs["doubt"].eq("").all()
    found = model.explain(wrong)
    assert found.answer("divider") == "cannot tell"
    assert told in found.why("divider")
    assert told in found.summary() or "and 1 more" in found.summary()
    assert "measure next" not in found.why("divider")
    stack = model.stacks(wrong)
    assert stack.runs["verdict"].eq("unsupported").all()
    assert told in stack.summary()


@pytest.mark.parametrize(
    ("core", "event", "rate", "told"),
    [
        ("skylake_x", "machine_clears.count", 0.05, "machine clears"),
        ("golden_cove", "machine_clears.memory_ordering", 0.05, "machine clears"),
        ("golden_cove", "assists.any", 0.05, "assists by microcode"),
        ("skylake_x", "icache_16b.ifdata_stall", 0.9, "fetching instructions that are not in the first cache"),
        ("golden_cove", "icache_tag.stalls", 0.9, "translating the addresses of instructions"),
    ],
)
def test_what_is_not_modelled_and_may_give_more_ends_in_no_answer(core, event, rate, told):
    """Machine clears and fetching were nobody's share: with half of the cycles in them, another class was named."""
    machine = Microarchitecture.load(core)
    samples = pk.SimulatedPmu(core, intervals=4).collect({"branchy": pk.datasets.load("traces/branchy")})
    model = pk.Bottlenecks.load(core)
    without, much, little = (as_dump(samples, machine, {event: r} if r else None) for r in (0.0, rate, rate / 50))
    before = model.explain(without, intervals=False)
    assert before.answer("branchy") == "mispredicted branches"
    assert "not modelled" not in before.why("branchy")
    found = model.explain(much, intervals=False)
    assert found.answer("branchy") == "cannot tell"
    share = rate * (machine.value("misprediction_penalty") if rate < 0.1 else 1.0)
    assert f"not modelled: {told}, at least {share:.0%} of the cycles ({event})" in found.summary()
    assert found.unmodelled["share"].tolist() == [pytest.approx(share)]
    same = model.explain(little, intervals=False)
    assert same.runs.equals(before.runs)
    assert same.unmodelled.empty
    pd.testing.assert_series_equal(
        model.stacks(much).runs["distance"], (model.stacks(without).runs["distance"] + share).clip(upper=1.0)
    )
    assert model.stacks(much).runs["verdict"].tolist() == ["unsupported"]


def test_what_is_not_modelled_and_gives_less_is_told_beside_the_answer():
    core = Microarchitecture.load("golden_cove")
    samples = pk.SimulatedPmu(core, intervals=4).collect({"pointer-chase": pk.datasets.load("traces/pointer-chase")})
    dump = as_dump(samples, core, {"machine_clears.count": 0.01, "machine_clears.smc": 0.01})
    found = pk.Bottlenecks.load(core).explain(dump, intervals=False)
    plain = pk.Bottlenecks.load(core).explain(as_dump(samples, core), intervals=False)
    assert found.answer("pointer-chase") == plain.answer("pointer-chase") != "cannot tell"
    assert "; beside it machine clears, at least" in found.summary()
    assert found.why("pointer-chase").count("not modelled: machine clears, at least") == 1  # one is a part of the other


def test_counters_in_turns_may_be_off_by_more_and_not_by_anything():
    core = Microarchitecture.load("zen4")
    shares = features({"full.rob": np.array([1.2, 1.3, 1.3, 2.1, 6.0, 9.0]), "uops": np.full(6, 3.0)}, core)
    told = impossible_shares(shares, np.array([1.0, 1.0, 0.5, 0.5, 0.1, 0.1]))
    assert [bool(each) for each in told] == [False, True, False, True, False, True]
    assert told[5] == ("900% of the cycles (full.rob)",)
    traces = {name: pk.datasets.load(f"traces/{name}") for name in ("l2-bound", "load-bound", "branchy")}
    samples = pk.SimulatedPmu(core, intervals=12, counters=8, noise=0.05).collect(traces)
    assert pk.Bottlenecks.load(core).explain(samples, intervals=False).doubts.empty


def test_twenty_instructions_per_cycle_are_too_many():
    rows = pd.DataFrame(
        {"run": "mine", "interval": range(4), "event": "branch-misses", "time": 1e6, "work": 2e7, "count": 1e3}
    )
    samples = pk.Samples.from_frame(rows, kind="measured", time_event="cycles", work_event="instructions")
    found = pk.Bottlenecks.load("skylake_x").explain(samples)
    assert "500% of the width of the front end (instructions)" in found.why("mine")


def test_nothing_is_forwarded_where_nothing_is_loaded():
    """A stack had 1.19 of 3.20 cycles in store forwarding, of a program without loads."""
    core = Microarchitecture.load("skylake_x")
    samples = pk.SimulatedPmu(core, intervals=4).collect({"store-bound": pk.datasets.load("traces/store-bound")})
    table = samples.table
    none = table["event"].astype(str).isin(["mem-loads", "l1.accesses"])
    samples = pk.Samples(table.assign(count=table["count"].where(~none, 0.0)), samples.runs)
    forwards = [e for e in samples.events if e.startswith("store-forwards")]
    without = samples.select(events=[e for e in samples.events if e not in forwards])
    model = pk.Bottlenecks.load(core)
    stack = model.stacks(without)
    assert stack.of("store-bound")["store forwarding"] == 0.0
    assert stack.of("store-bound").sum() == pytest.approx(stack.runs["cpi"][0])
    assert "store forwarding" not in stack.runs["missing"][0]
    rows = model.explain(without).of("store-bound").set_index("resource")
    assert rows.loc["store forwarding", "probability"] == 0.0
    assert not model.explain(without).next_events["resource"].eq("store forwarding").any()


def test_counters_in_turns_and_intervals_that_differ_are_told():
    core = Microarchitecture.load("zen4")
    pmu = pk.SimulatedPmu(core, intervals=4)
    parts = [pmu.collect({"mine": pk.datasets.load(f"traces/{name}")}) for name in ("divider", "branchy")]
    tables = [part.table.assign(interval=part.table["interval"] + 4 * k) for k, part in enumerate(parts)]
    joined = pk.Samples.from_frame(
        pd.concat(tables, ignore_index=True)[["run", "interval", "event", "time", "work", "count", "running"]].assign(
            run="mine", running=0.019
        ),
        kind="simulated",
    )
    joined = pk.Samples(joined.table, parts[0].runs.assign(kind="simulated"))
    found = pk.Bottlenecks.load(core).explain(joined)
    assert "counted 0.019 of the time" in found.why("mine")
    assert "its intervals differ" in found.why("mine")
    alone = pk.Bottlenecks.load(core).explain(parts[0])
    assert "intervals differ" not in alone.why("mine")
    assert "of the time" not in alone.why("mine")


def test_a_full_port_whose_doubling_gives_nothing_is_told_as_such():
    """A Skylake ends one store per cycle: of such loops, doubling everything gave 1 %, and "about 52 %" was told."""
    runs = pk.datasets.load("bottlenecks/runs")
    mine = runs[(runs["core"] == "skylake_x") & (runs["rate:uops.p4"] > 0.97)]
    assert len(mine) > 10
    credit = [c for c in runs.columns if c.startswith("credit:")]
    assert mine[credit].max(axis=1).max() < 0.02
    model = pk.Bottlenecks.load("skylake_x")
    rates = {c.removeprefix("rate:"): mine[c] for c in mine if c.startswith("rate:") and "stall." not in c}
    judged = model.judge(pd.DataFrame(rates).reset_index(drop=True), decide=False)
    first = judged.order()[:, 0]
    alone = judged.credit[np.arange(len(mine)), first] == 0.0
    assert alone.mean() > 0.9
    other = runs[(runs["core"] == "zen4") & (runs["credit:store ports"] > 0.3)]
    rates = {c.removeprefix("rate:"): other[c] for c in other if c.startswith("rate:") and "stall." not in c}
    judged = pk.Bottlenecks.load("zen4").judge(pd.DataFrame(rates).reset_index(drop=True), decide=False)
    assert (judged.credit[np.arange(len(other)), judged.order()[:, 0]] > 0.0).all()


def test_what_any_port_takes_is_no_use_of_a_port_of_its_own():
    """Of a loop of additions all four ports are busy, and each counts as many: that is no vector unit's use."""
    ports = {f"uops_dispatched_port.port_{n}": rate for n, rate in ((0, 0.9), (1, 0.9), (5, 0.9), (6, 1.0))}
    rows = [
        {"run": "mine", "interval": k, "event": e, "time": 1e6, "work": 3e6, "count": 1e6 * rate}
        for k in range(3)
        for e, rate in ports.items()
    ]
    samples = pk.Samples.from_frame(pd.DataFrame(rows), kind="measured", time_event="cycles", work_event="instructions")
    names = matched(samples.events, simulated=False, vendor="Intel", core="skylake_x")
    rates = rates_of(samples, names, ["run"]).iloc[0]
    assert rates["uops.p0156"] == pytest.approx(3.7)
    assert rates[["uops.p0", "uops.p1", "uops.p5"]].tolist() == pytest.approx([0.0, 0.0, 0.0])
    assert rates["uops.p6"] == pytest.approx(0.1)
    evidence = pk.Bottlenecks.load("skylake_x").explain(samples).of("mine").set_index("resource")["evidence"]
    assert evidence["integer units"].startswith("92% of its busiest ports used")


def _dump(counts: dict[str, float], ipc: float = 2.0, **more: float) -> pk.Samples:
    """A dump of one run: counts per cycle, the same in three intervals."""
    rows = [
        {"run": "mine", "interval": k, "event": e, "time": 1e9, "work": ipc * 1e9, "count": 1e9 * rate, **more}
        for k in range(3)
        for e, rate in counts.items()
    ]
    return pk.Samples.from_frame(pd.DataFrame(rows), kind="measured", time_event="cycles", work_event="instructions")


@pytest.mark.parametrize(
    ("core", "ipc", "counts"),
    [
        # Two ports in one event: 1.9 uops per cycle is what they can do.
        ("golden_cove", 4.8, {"uops_dispatched.port_5_11": 1.9, "uops_dispatched.port_0": 0.95}),
        # Prefetchers ask for lines that L2 has.
        ("golden_cove", 2.0, {"l2_rqsts.all_hwpf": 0.7, "cycle_activity.stalls_total": 0.3}),
        # A misprediction costs less on the machine than in the file.
        ("zen5", 1.0, {"ex_ret_brn_misp": 1 / 14, "ex_ret_brn": 0.2}),
        # Memory is faster than in the file, or the core runs slower beside it.
        ("redwood_cove", 2.0, {"longest_lat_cache.miss": 0.25}),
    ],
)  # fmt: skip
def test_counts_that_a_machine_can_have_are_not_refused(core, ipc, counts):
    found = pk.Bottlenecks.load(core).explain(_dump(counts, ipc))
    assert found.doubts.empty, found.doubts.to_string()


def test_loads_that_read_zero_were_not_counted(both):
    """A virtual machine gives 0 for what it does not count: "no loads" ruled the chain of loads out, "told"."""
    core, samples = both
    dump = as_dump(samples, core).select(runs=["pointer-chase"])
    loads = [
        e for e in dump.events if e in ("mem_inst_retired.all_loads", "l1-dcache-loads", "ls_dispatch.ld_dispatch")
    ]
    table = dump.table.assign(count=dump.table["count"].where(~dump.table["event"].isin(loads), 0.0))
    zero = pk.Samples.from_frame(table, kind="measured", time_event="cycles", work_event="instructions")
    model = pk.Bottlenecks.load(core)
    without = dump.select(events=[e for e in dump.events if e not in loads])
    assert loads
    assert model.explain(zero).answer("pointer-chase") == model.explain(without).answer("pointer-chase")


def test_one_event_that_was_scaled_up_makes_all_shares_estimates():
    """The mean over many events hid the one that was counted 40 % of the time."""
    counts = {f"uops_dispatched_port.port_{n}": 0.3 for n in range(8)} | {"cycle_activity.stalls_total": 1.4}
    table = _dump(counts, running=1.0).table
    table["running"] = np.where(table["event"] == "cycle_activity.stalls_total", 0.4, 1.0)
    samples = pk.Samples.from_frame(table, kind="measured", time_event="cycles", work_event="instructions")
    found = pk.Bottlenecks.load("skylake_x").explain(samples)
    assert found.doubts.empty, found.doubts.to_string()
    assert "some events were counted 0.4 of the time" in found.why("mine")


def test_ports_of_a_row_are_told_by_those_that_were_counted_in_it():
    """One run had all ports counted, the other a single one: what that one shared was "all of it"."""
    both = pd.concat(
        [
            _dump({f"uops_dispatched_port.port_{n}": 0.9 for n in (0, 1, 5, 6)}).table.assign(run="a"),
            _dump({"uops_dispatched_port.port_0": 0.9}).table.assign(run="b"),
        ],
        ignore_index=True,
    )
    samples = pk.Samples.from_frame(both, kind="measured", time_event="cycles", work_event="instructions")
    names = matched(samples.events, simulated=False, vendor="Intel", core="skylake_x")
    assert rates_of(samples, names, ["run"])["uops.p0"].to_dict() == pytest.approx({"a": 0.0, "b": 0.9})


def test_a_full_store_port_is_the_cores_limit_only_where_it_has_one():
    cores = ("skylake_x", "ice_lake", "golden_cove", "zen4")
    assert [unhelpful(Microarchitecture.load(core)) for core in cores] == [("store ports",), (), (), ()]


@pytest.mark.parametrize("run", ["branchy", "latency-add", "store-bound"])
def test_advice_that_is_followed_ends_in_what_all_events_say(both, run):
    """Events that are no single class's were never asked for, and without them nothing was told."""
    core, samples = both
    model = pk.Bottlenecks.load(core)
    dump = as_dump(samples, core).select(runs=[run])
    expected = model.explain(dump, intervals=False).answer(run)
    have = [e for e in dump.events if e in ("br_misp_retired.all_branches", "branch-misses")]
    for _ in dump.events:
        found = model.explain(dump.select(events=have), intervals=False)
        asked = [e for names in found.next_events["names"] for e in names.replace("+", ", ").split(", ")]
        new = [e for e in asked if e in dump.events and e not in have]
        if found.answer(run) != "cannot tell" or not new:
            break
        have.append(new[0])
    if found.answer(run) == "cannot tell":  # and nothing is left to be asked for
        assert "depends on events that were not counted" not in found.why(run)
    if expected != "cannot tell":
        assert found.answer(run) == expected


@pytest.mark.parametrize("core", ["zen4", "zen5"])
def test_divisions_that_no_event_tells_are_in_a_stacks_base(core):
    """A stack needs no rule for AMD's uncounted divisions: they are part of the base, as all arithmetic is."""
    machine = Microarchitecture.load(core)
    samples = pk.SimulatedPmu(machine, intervals=4).collect({"divider": pk.datasets.load("traces/divider")})
    found = pk.Bottlenecks.load(core).stacks(as_dump(samples, machine)).runs.set_index("run")
    assert found.loc["divider", "base"] / found.loc["divider", "cpi"] > 0.7
    assert found.loc["divider", "verdict"] != "supported"  # whether it waits for memory is not told as well
    assert found.loc["divider", ["misprediction", "store forwarding", "L2", "L3"]].sum() < 0.001
