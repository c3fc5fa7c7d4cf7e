"""A first look at unknown dumps: right, never empty-handed, and honest about what it does not know."""

import contextlib
import dataclasses
import html.parser
import json
import re
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import perfkit as pk
from perfkit.cli.main import app
from perfkit.cli.pages.answer import of_cpi, of_exploration, of_spire, page
from perfkit.errors import FormatError, PerfkitError, SettingError
from perfkit.exploration import exploration
from perfkit.exploration.methods import Tried
from perfkit.fitters.bottlenecks.recognise import core_of
from perfkit.samples.events import mode_cautions
from perfkit.samples.processors import processor_of
from tests.results.examples import EXAMPLES

DIALECTS = Path(__file__).parents[1] / "readers" / "dialects"
TRUST = {"supported", "uncertain", "unsupported", "not applicable"}


def dump(folder, name, *, base=0.5, penalty=180.0, rate=0.002, n=120, seed=0, events=None):
    """Write a perf dump whose CPI is ``base`` and a penalty for each miss."""
    rng = np.random.default_rng(seed)
    instructions = rng.integers(10**8, 2 * 10**8, n)
    misses = (instructions * rate * rng.uniform(0.2, 1.8, n)).astype(int)
    cycles = (base * instructions + penalty * misses + rng.normal(0, 1e5, n)).astype(int)
    columns = {"cycles": cycles, "instructions": instructions, "LLC-load-misses": misses} | (events or {})
    lines = [
        f"{0.1 * (i + 1):.9f},{values[i]},,{event},100000,100.00,,"
        for i in range(n)
        for event, values in columns.items()
    ]
    path = folder / name
    path.write_text("\n".join(lines) + "\n")
    return path


def test_the_first_sentence_of_one_dump_is_its_bottleneck(tmp_path):
    found = pk.explore(dump(tmp_path, "app.csv"))
    share = 180 * 0.002 / (0.5 + 180 * 0.002)
    assert re.match(
        r"IPC 1\.1\d?: CPI 0\.8\d+; after the base \(\d+%\) the largest part is LLC-load-misses", found.headline
    )
    said = int(re.search(r"LLC-load-misses \((\d+)%\)", found.headline)[1]) / 100
    assert said == pytest.approx(share, abs=0.05)
    trust = found.methods.set_index("method")["trust"]
    assert trust["CPI stack"] == "supported"
    assert trust["top-down"] == "not applicable"
    assert set(trust) <= TRUST
    assert found.methods["why"].str.len().min() > 10
    assert "perf stat -I 100 -x, -o dump.csv -e 'cycles,instructions,branch-misses" in found.measure_next[0]


def both_modes(folder, events):
    """Write a dump whose cycles and instructions are of user and of kernel mode, each for itself."""
    lines = [f"{0.1 * (i + 1):.9f},{1000 + 7 * i},,{e},100000,100.00,," for i in range(30) for e in events]
    (folder / "modes.csv").write_text("\n".join(lines) + "\n")
    return folder / "modes.csv"


def test_events_of_other_modes_than_time_and_work_are_told(tmp_path):
    split = ["cycles:u", "cycles:k", "instructions:u", "instructions:k"]
    found = pk.explore(both_modes(tmp_path, [*split, "branch-misses", "cache-misses:u"]))
    assert found.facts["time and work"] == "cycles:u and instructions:u (user mode only)"
    assert found.quality[0].startswith(
        "branch-misses counts user and kernel mode, cycles:u and instructions:u user mode only: rates mix modes"
    )
    assert found.quality[1] == (
        "instructions:u per cycles:u is of user mode only: cycles:k and instructions:k were counted too, and are not "
        "part of it"
    )
    assert "mode" not in " ".join(pk.explore(both_modes(tmp_path, ["cycles:u", "instructions:u", "x:u"])).quality)
    uneven = dump(tmp_path, "uneven.csv")
    uneven.write_text(uneven.read_text().replace("cycles,", "cycles:u,").replace("instructions,", "instructions:u,"))
    fit = pk.CpiStack(resamples=20, placebos=5).fit(pk.read_samples(uneven))
    assert any(told.startswith("LLC-load-misses counts user and kernel mode") for told in fit.warnings)
    assert mode_cautions("cycles", "instructions", ["branch-misses", "cycles:uk"]) == []
    (mixed,) = mode_cautions("cycles", "cpu_core/instructions/u", ["branch-misses"])
    assert "work per time and all rates mix modes" in mixed


def test_two_events_of_one_interval_are_no_multiples(tmp_path):
    one = dump(tmp_path, "one.csv", n=1, events={"branch-misses": [1000], "cache-misses": [900]})
    assert "fixed multiple" not in pk.explore(one).report()


def test_reasons_of_a_supported_stack_are_no_warnings(tmp_path):
    fit = pk.CpiStack(resamples=20, placebos=5).fit(pk.read_samples(dump(tmp_path, "app.csv")))
    assert fit.verdict.level == "supported"
    answer = of_cpi(fit)
    assert answer.caveats == fit.warnings
    assert ("Why", str(fit.verdict)) in answer.evidence


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("a.csv", "1,001000000;{};;{};1000;100,00;;"),
        ("b.csv", "1,001;CPU0;{};;{};1000;100,00;;"),
        ("c.txt", "     1,001061824        {}      {}"),
    ],
)
def test_a_comma_in_the_times_is_named(tmp_path, name, line):
    head = "#           time             counts unit events\n" if name.endswith("txt") else ""
    body = "\n".join(line.format(1000, e) for e in ("cycles:u", "instructions:u"))
    (tmp_path / name).write_text(head + body + "\n")
    with pytest.raises(FormatError, match="the interval's end has a comma: expected a point"):
        pk.read_samples(tmp_path / name)
    with pytest.raises(SettingError, match="the interval's end has a comma: expected a point"):
        pk.explore(tmp_path / name)


def test_several_dumps_get_one_headline_that_tells_them_apart(tmp_path):
    paths = [
        dump(tmp_path, "a.csv", rate=0.0001, seed=1),
        dump(tmp_path, "b.csv", rate=0.004, seed=2),
        dump(tmp_path, "c.csv", rate=0.0002, seed=3),
    ]
    found = pk.explore(paths)
    assert found.headline.startswith("3 runs: CPI from 0.51")
    assert "(b); LLC-load-misses differs most for it: 3.96 against 0.1" in found.headline
    assert found.compared["time per work"].idxmax() == "b"
    assert found.methods.set_index("method")["trust"]["CPI stack"] != "supported"  # runs are mixed in it


def test_runs_that_hardly_differ_are_said_to(tmp_path):
    paths = [dump(tmp_path, f"{i}.csv", seed=i) for i in range(2)]
    assert "they hardly differ" in pk.explore(paths).headline


def test_what_cannot_be_read_is_told_and_the_rest_is_explored(tmp_path):
    good = dump(tmp_path, "good.csv")
    (tmp_path / "bad.txt").write_text("no dump at all\n")
    found = pk.explore([good, tmp_path / "bad.txt", tmp_path / "absent.txt"])
    assert "LLC-load-misses" in found.headline
    assert len(found.failed) == 2
    assert "bad.txt" in found.failed[0]
    with pytest.raises(SettingError, match=r"no dump could be read: bad\.txt"):
        pk.explore(tmp_path / "bad.txt")


def test_a_dump_without_cycles_and_instructions_is_described(tmp_path):
    path = tmp_path / "d.csv"
    path.write_text("".join(f"{i}.000000000,{100 * i},,page-faults,1000,100.00,,\n" for i in range(1, 9)))
    found = pk.explore(path)
    assert found.facts["time and work"] == "seconds and page-faults"
    assert any("cycles or instructions were not counted, or never together" in n for n in found.notes)
    assert found.headline.startswith("450 page-faults per second")
    assert any("cycles,instructions" in m for m in found.measure_next)


def test_a_device_is_no_dump():
    with pytest.raises(PerfkitError, match=r"'/dev/null' is no regular file"):
        pk.explore("/dev/null")


def test_lines_that_cannot_be_used_do_not_stop_it(tmp_path):
    path = dump(tmp_path, "d.csv")
    path.write_text(path.read_text() + "<not counted>,,cycles\n")
    found = pk.explore(path)
    assert any("1 line could not be used" in q for q in found.quality)


def test_quality_tells_of_aliases_multiplexing_and_clocks(tmp_path):
    rng = np.random.default_rng(1)
    branch = rng.integers(1000, 2000, 60)
    extra = {"branch-misses": branch, "branch-load-misses": branch + 1, "ref-cycles": np.full(60, 10**6)}
    path = dump(tmp_path, "d.csv", n=60, events=extra)
    path.write_text(path.read_text().replace("100.00", "40.00"))
    told = " | ".join(pk.explore(path).quality)
    assert "branch-misses and branch-load-misses count the same thing under two names" in told
    assert "counted only part of the time (on average 40%" in told
    assert "ref-cycles count time or slots" in told


def test_the_same_event_of_two_kinds_of_core_is_no_alias(tmp_path):
    names = ("cpu_core/cache-misses/", "cpu_atom/cache-misses/")
    path = dump(tmp_path, "d.csv", n=60, events={n: np.arange(1000, 1060) for n in names})
    assert "under two names" not in " ".join(pk.explore(path).quality)
    twice = {"cpu_core/cache-misses/": np.arange(9, 69), "cpu_core/longest_lat_cache.miss/": np.arange(9, 69)}
    assert "under two names" in " ".join(pk.explore(dump(tmp_path, "e.csv", n=60, events=twice)).quality)


def test_a_stack_of_few_intervals_is_not_called_supported(tmp_path):
    few, many = (pk.explore(dump(tmp_path, f"{n}.csv", n=n)) for n in (10, 120))
    trust = [found.methods.set_index("method").loc["CPI stack", "trust"] for found in (few, many)]
    assert trust == ["uncertain", "supported"]
    assert not any("nothing can be fitted" in q for q in few.quality)


def test_fewer_events_at_a_time_are_fewer(tmp_path):
    path = dump(tmp_path, "d.csv", events={"branch-misses": np.arange(100, 220), "faults": np.arange(120)})
    path.write_text(path.read_text().replace("100.00", "40.00"))
    line = next(m for m in pk.explore(path).measure_next if m.startswith("fewer events at a time"))
    assert "'cycles,instructions,LLC-load-misses'" in line
    assert "1 of 3 here and the others in further runs" in line
    one = dump(tmp_path, "one.csv")
    one.write_text(one.read_text().replace("100.00", "40.00"))
    assert not any(m.startswith("fewer events") for m in pk.explore(one).measure_next)


@pytest.mark.parametrize(
    ("event", "family"),
    [
        ("cpu_core/branch-misses/", "intel-hybrid"),
        ("ex_ret_brn_misp", "amd"),
        ("de_no_dispatch_per_slot.no_ops_from_frontend", "amd-slots"),
        ("armv8_pmuv3_0/l1d_cache_refill/", "arm"),
        ("topdown-retiring", "intel-topdown"),
        ("uops_issued.any", "intel"),
        ("branch-misses", ""),
    ],
)
def test_the_processor_is_told_by_its_events_and_gets_its_own_line(tmp_path, event, family):
    samples = pk.read_samples(dump(tmp_path, "d.csv", n=5, events={event: np.arange(1, 6)}))
    assert processor_of(samples)[0] == family
    line = " ".join(pk.explore(samples).measure_next)
    own = {
        "amd": "dTLB-load-misses",
        "amd-slots": "de_src_op_disp.all",
        "arm": "ll_cache_miss_rd",
        "intel": "idq_uops_not_delivered.core",
    }
    assert own.get(family, "branch" if not family else "cycles") in line or family in ("intel-hybrid", "intel-topdown")


@pytest.mark.parametrize(
    ("events", "told"),
    [
        (("CPU_CYCLES", "INSTRUCTIONS", "L1I_DIR_WRITES"), "IBM z, by the names of its events"),
        (("CPU_CYCLES", "INSTRUCTIONS", "l1d_cache_refill"), "Arm, by the names of its events"),
        (("CPU_CYCLES", "INSTRUCTIONS", "branch-misses"), "Arm, by the names of its events"),
    ],
)
def test_a_name_that_two_kinds_of_processors_count_by_is_told_by_the_others(tmp_path, events, told):
    path = tmp_path / "d.csv"
    path.write_text(",".join(events) + "\n5203311022,2301120334,10233412\n5203312022,2201120334,10133412\n")
    assert processor_of(pk.read_samples(path))[1] == told


@pytest.mark.parametrize(
    ("processor", "family"),
    [
        ("Intel(R) Core(TM) i7-4770 CPU @ 3.40GHz", "intel-before"),
        ("Intel(R) Core(TM) i7-3770 CPU @ 3.40GHz", "intel-oldest"),
        ("Intel(R) Xeon(R) CPU E5-2670 v2 @ 2.50GHz", "intel-oldest"),
        ("Intel(R) Xeon(R) CPU E5-2670 0 @ 2.60GHz", "intel-oldest"),
        ("Intel(R) Xeon(R) CPU E5-2680 v3 @ 2.50GHz", "intel-before"),
        ("Intel(R) Xeon(R) CPU E5-2680 v4 @ 2.40GHz", "intel-before"),
        ("Intel(R) Xeon(R) CPU E3-1230 v5 @ 3.40GHz", "intel"),
        ("Intel(R) Core(TM) i7-8700 CPU @ 3.20GHz", "intel"),
        ("Intel(R) Xeon(R) Gold 6154 CPU @ 3.00GHz", "intel"),
        ("Intel(R) Xeon(R) Gold 6338 CPU @ 2.00GHz", "intel-topdown"),
        ("Intel(R) Xeon(R) Platinum 8480+", "intel-topdown"),
        ("12th Gen Intel(R) Core(TM) i7-12700K", "intel-hybrid"),
        ("AMD EPYC 7763 64-Core Processor", "amd"),
        ("AMD EPYC 9654 96-Core Processor", "amd-slots"),
        ("AMD Ryzen 9 5950X 16-Core Processor", "amd"),
        ("AMD Ryzen 9 7950X 16-Core Processor", "amd-slots"),
        ("ARM Neoverse-N1", "arm"),
        ("ARM Neoverse-V2", "arm-slots"),
    ],
)
def test_the_processor_that_a_dump_names_decides_which_events_there_are(tmp_path, processor, family):
    """perf stops at the first event that a processor does not have, and counts nothing."""
    samples = pk.read_samples(dump(tmp_path, "d.csv", n=5))
    named = dataclasses.replace(samples, runs=samples.runs.assign(parameters=json.dumps({"cpu": processor})))
    assert processor_of(named) == (family, processor)
    line = " ".join(pk.explore(named).measure_next)
    assert ("mem_load_uops_retired.l3_miss" in line) == (family == "intel-before")
    assert ("de_no_dispatch" in line or "stall_slot" in line) == family.endswith("-slots")
    assert ("idq_uops_not_delivered.core" in line) == (family in ("intel", "intel-before", "intel-oldest"))


@pytest.mark.parametrize(
    ("events", "asked", "lacks"),
    [
        (
            ("mem_uops_retired.all_loads", "uops_executed_port.port_1"),
            "mem_load_uops_retired.l3_miss",
            "mem_load_retired",
        ),
        (("mem_load_uops_retired.llc_miss",), "LLC-load-misses", "l3_miss"),  # an Ivy Bridge's
        (("cycle_activity.cycles_no_dispatch",), "LLC-load-misses", "l3_miss"),  # a Sandy Bridge's
        (("uops_retired.slots", "uops_dispatched.port_5"), "{slots,topdown-retiring,", "retire_slots"),  # an Ice Lake's
        (("uops_dispatched.port_5_11",), "{slots,topdown-retiring,", "retire_slots"),  # a Golden Cove's
        (("uops_dispatched_port.port_7", "mem_load_retired.l1_hit"), "mem_load_retired.l3_miss", "slots,topdown"),
        (("page_walks.cycles",), "LLC-load-misses", "mem_load"),  # small cores'
        (("uops_issued.any",), "LLC-load-misses", "mem_load"),  # any Intel's
        (("cpu_core/branches/",), "{cpu_core/slots/,cpu_core/topdown-retiring/,", "retire_slots"),
    ],
)
def test_lines_ask_for_what_the_processor_has_that_the_events_tell(tmp_path, events, asked, lacks):
    """A Haswell was asked for a Skylake's mem_load_retired.l3_miss, and an Ice Lake for uops_retired.retire_slots."""
    path = dump(tmp_path, "d.csv", n=5, events={event: np.arange(1, 6) for event in events})
    line = " ".join(pk.explore(path).measure_next)
    assert asked in line
    assert lacks not in line


def test_spire_takes_the_users_model_and_labels_the_simulated_one(tmp_path):
    runs = [str(dump(tmp_path, f"run{i}.csv", rate=r, seed=i)) for i, r in enumerate((0.0001, 0.001, 0.003))]
    result = CliRunner().invoke(app, ["spire", "train", *runs, "-o", str(tmp_path / "mine.spire")])
    assert result.exit_code == 0, result.output
    assert "1 rooflines of measured samples, at most 360 per event" in result.output
    target = dump(tmp_path, "app.csv", seed=9)
    own = pk.explore(target, model=tmp_path / "mine.spire").methods.set_index("method").loc["SPIRE"]
    assert "rooflines trained on measured runs" in own["why"]
    # A model of one program would say the same: nothing in it tells of how many it is.
    assert own["trust"] == "uncertain"
    assert "does not tell of how many programs" in own["why"]
    shipped = pk.explore(target).methods.set_index("method").loc["SPIRE"]
    assert "trained on simulated runs of" in shipped["why"]
    assert shipped["trust"] != "supported"


@pytest.mark.parametrize(("cycles", "bounds"), [(150, False), (100, False), (250, True), (280, True)])
def test_a_bound_below_what_was_reached_bounds_nothing(tmp_path, cycles, bounds):
    """With 12 misses of L3 per 1000 instructions the simulated runs reached an IPC of 1.4."""
    path = tmp_path / "vtune.csv"
    event = "Hardware Event Count:"
    path.write_text(
        f"Function,{event}INST_RETIRED.ANY,{event}CPU_CLK_UNHALTED.THREAD,{event}MEM_LOAD_RETIRED.L3_MISS\n"
        f"foo,300000000,{cycles}000000,3600000\nbar,300000000,{cycles}000000,3600000\n"
    )
    found = pk.explore(path)
    spire = found.methods.set_index("method").loc["SPIRE"]
    assert (spire["trust"] == "uncertain") == bounds
    assert ("has the lowest bound" in found.headline) == bounds
    if not bounds:
        assert "was reached, more than the lowest bound (1.4" in spire["why"]


def test_a_method_that_the_counts_do_not_support_says_so_and_nothing_else(tmp_path):
    tried = []
    pk.explore(dump(tmp_path, "run.csv", n=6, base=4.0), tried_out=tried)
    by_trust = {one.trust: one for one in tried}
    refused = by_trust["unsupported"]
    assert refused.told() == f"{refused.method}: unsupported: {refused.why}"
    assert refused.result is not None
    unsure = by_trust["uncertain"]
    assert unsure.told().startswith(f"{unsure.method}: uncertain: {unsure.why}\n\n")


def test_axes_under_other_names_are_named_in_the_headline(tmp_path):
    """A method that applies to what stands in for cycles and instructions is no method that does not apply."""
    rng = np.random.default_rng(2)
    work, misses = rng.integers(3e8, 5e8, 200), rng.integers(1e5, 9e6, 200)
    time = (0.4 * work + 15 * misses).astype(int)
    table = pd.DataFrame({"Cyc": time, "Instr": work, "L2 misses": misses, "Mispredicts": rng.integers(1, 9, 200)})
    table.to_csv(tmp_path / "own.csv")
    told = pk.explore(tmp_path / "own.csv").headline
    assert told.startswith("with Cyc as time and Instr as work, IPC ")
    assert "the largest part is L2 misses" in told
    assert "no method applies" not in told


def test_the_same_counts_changed_in_no_part(tmp_path):
    one, other = dump(tmp_path, "a.csv", n=200), dump(tmp_path, "b.csv", n=200, penalty=60.0)
    same = pk.diff_counts(pk.read_samples(one), pk.read_samples(one)).summary()
    assert "no part changed by more than its interval; most" in same
    assert "LLC-load-misses changed most, -" in pk.diff_counts(pk.read_samples(one), pk.read_samples(other)).summary()


def test_the_verdict_of_an_uncertain_stack_is_told_once():
    fit = EXAMPLES[pk.CpiFit]()
    verdict = str(fit.verdict)
    why = f"{verdict} 12 intervals are few: it may be chance."
    told = Tried("CPI stack", "uncertain", "", why, result=fit).told()
    assert told.count(verdict) == 1
    assert "cycles per instruction" in told, "the stack itself is told, too"


@pytest.mark.measures
def test_it_takes_seconds_of_processor_time(tmp_path):
    path = dump(tmp_path, "d.csv", n=1000)
    pk.explore(path)  # compiled and loaded
    begin = time.process_time()
    pk.explore(path)
    assert time.process_time() - begin < 5


# ------------------------------------------------------------------ pages


HOSTILE = '<img src=x onerror="alert(1)">$\\alpha$'


class Names(html.parser.HTMLParser):
    """Collects the tags and the visible text of a page."""

    def __init__(self):
        super().__init__()
        self.tags, self.text = [], ""

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data


def parsed(text):
    reader = Names()
    reader.feed(text)
    return reader


def test_names_are_text_on_a_page(tmp_path):
    samples = pk.read_samples(dump(tmp_path, "<b>run.csv", n=60, events={HOSTILE: np.arange(60) % 7}))
    tried = []
    found = pk.explore(samples, tried_out=tried)
    seen = parsed(page(of_exploration(found, tried)))
    assert HOSTILE in seen.text
    assert all(a["src"].startswith("data:image/png") for t, a in seen.tags if t == "img")
    assert not any(t in ("script", "b", "iframe", "object", "link") for t, _ in seen.tags if t != "b")
    assert not any(name.startswith("on") for _, a in seen.tags for name in a)
    fit = pk.CpiStack(resamples=0, placebos=2).fit(samples)
    assert HOSTILE in parsed(page(of_cpi(fit))).text


def test_the_picture_on_top_is_never_of_a_method_that_may_not_be_believed(tmp_path):
    """One interval: the page opened with the ranking that its own table calls unsupported."""
    from perfkit.cli.pages.answer import drawn

    for n, believed in ((1, "none: a bar alone is no picture"), (120, "CPI stack")):
        tried: list[Tried] = []
        found = pk.explore(pk.read_samples(dump(tmp_path, f"{n}.csv", n=n)), tried_out=tried)
        results = {t.trust: t.result for t in tried if hasattr(t.result, "plot")}
        seen = of_exploration(found, tried)
        assert not ("unsupported" in results and seen.picture == drawn(results["unsupported"]))
        assert seen.picture == (drawn(results["supported"]) if believed == "CPI stack" else b""), believed
        assert (f"{n}", "interval" if n == 1 else "intervals") in seen.numbers
        assert "interval(s)" not in " ".join(found.quality)


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ("cycles,instructions,misses", "instructions per cycle"),
        ("cpu-cycles,instructions:u,misses", "instructions:u per cpu-cycle"),
        ("sm__cycles_elapsed.max,smsp__inst_executed.sum,misses", "smsp__inst_executed.sum per sm__cycles_elapsed.max"),
    ],
)
def test_the_number_beside_the_picture_says_what_it_is_of(tmp_path, columns, told):
    """It was called IPC whatever it was."""
    path = tmp_path / "d.csv"
    path.write_text(columns + "\n" + "".join(f"{1000 + 7 * i},{2000 + 3 * i},{10 + i % 4}\n" for i in range(20)))
    time, work = columns.split(",")[:2]
    tried = []
    found = pk.explore(path, time_event=time, work_event=work, tried_out=tried)
    assert of_exploration(found, tried).numbers[0] == ("1.9", told)


def test_shares_of_slots_are_no_throughput(tmp_path):
    """The page called the front end's share of toplev's slots an IPC."""
    path = tmp_path / "toplev.csv"
    shares = {"Frontend_Bound": 10, "Bad_Speculation": 5, "Backend_Bound": 50, "Retiring": 35}
    rows = "".join(
        f"{i}.0,,{name},{share + (i % 5) * (name == 'Frontend_Bound')},% Slots\n"
        for i in range(1, 31)
        for name, share in shares.items()
    )
    path.write_text("Timestamp,CPUs,Area,Value,Unit\n" + rows)
    tried = []
    found = pk.explore(path, tried_out=tried)
    assert "lost to the back end" in found.headline
    assert [what for _, what in of_exploration(found, tried).numbers] == ["intervals", "events"]
    assert "phases" not in found.facts


def test_dollar_signs_in_names_are_text_in_pictures(tmp_path):
    import matplotlib.pyplot as plt

    samples = pk.read_samples(dump(tmp_path, "d.csv", n=60, events={"$\\nosuchmacro$": np.arange(60) % 7}))
    for drawn in (
        pk.CpiStack(resamples=0, placebos=2).fit(samples).plot(),
        pk.Spire().fit(samples).rank(samples).plot(),
    ):
        drawn.figure.canvas.draw()
        plt.close(drawn.figure)


def numbers_of(text):
    return set(re.findall(r"\d+\.\d{2,}", text))


def test_no_number_of_a_shipped_data_set_gets_onto_a_page(tmp_path):
    """Pages of one's own dump hold its own figures only: none of those that the shipped data sets give."""
    samples = pk.read_samples(dump(tmp_path, "mine.csv"))
    training = pk.read_samples(dump(tmp_path, "train.csv", seed=4))
    tried = []
    mine = parsed(page(of_exploration(pk.explore(samples, tried_out=tried), tried))).text
    mine += parsed(page(of_cpi(pk.CpiStack(resamples=20, placebos=5).fit(samples)))).text
    mine += parsed(page(of_spire(pk.Spire().fit(training).rank(samples), "train.csv"))).text
    for name in ("cpi/planted", "spire/memory", "spire/train"):
        shipped = pk.datasets.load(name)
        theirs = numbers_of(pk.explore(shipped).report()) | numbers_of(shipped.describe().to_string())
        assert len(theirs) > 5
        assert not [r for r in shipped.runs.index if len(r) > 3 and str(r) in mine]
        assert numbers_of(mine).isdisjoint({n for n in theirs if len(n) > 5})


def test_thousands_of_intervals_are_counted_in_thousands(tmp_path):
    tried = []
    found = pk.explore(dump(tmp_path, "d.csv", n=1234), tried_out=tried)
    assert ("1,234", "intervals") in of_exploration(found, tried).numbers


def test_the_command_prints_and_writes(tmp_path):
    path = dump(tmp_path, "d.csv")
    out = tmp_path / "look.html"
    result = CliRunner().invoke(app, ["explore", str(path), "-o", str(out)])
    assert result.exit_code == 0, result.output
    assert result.output.startswith("IPC 1.1")
    assert "<b>120</b><span>intervals</span>" in out.read_text()
    verdict = out.read_text().index("<h1>")
    assert verdict < out.read_text().index("<img")
    whole = json.loads(CliRunner().invoke(app, ["explore", str(path), "--json"]).output)
    assert whole["headline"].startswith("IPC")
    assert pd.DataFrame(whole["methods"])["trust"].isin(TRUST).all()


def test_events_of_another_kind_of_core_are_not_ranked(tmp_path):
    path = tmp_path / "hybrid.csv"
    counts = {"cycles": (1000, 4000), "instructions": (700, 8000), "branch-misses": (100, 8)}
    path.write_text(
        "".join(
            f"{n},,cpu_{kind}/{event}/,1000,50.00,,\n"
            for event, both in counts.items()
            for kind, n in zip(("atom", "core"), both, strict=True)
        )
    )
    found = pk.explore(path)
    assert found.facts["time and work"] == "cpu_core/cycles/ and cpu_core/instructions/"
    assert found.headline.startswith("IPC 2 (estimated: the counters ran 50% of the time): ")
    assert "atom" not in found.headline
    assert any("cpu_atom/branch-misses/ were counted on other cores" in q for q in found.quality)


def test_a_table_without_cycles_gets_no_made_up_throughput(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("kernel,waves,vector_ops\na,16384,262144\nb,16000,250000\n")
    found = pk.explore(path)
    assert found.headline.startswith("cycles or instructions were not counted, so no method applies")


def test_an_idle_machine_is_not_explained(tmp_path):
    path = dump(tmp_path, "idle.csv")
    lines = [line.split(",") for line in path.read_text().splitlines()]
    idle = "\n".join(",".join([at, str(int(n) // 10_000), *rest]) for at, n, *rest in lines)
    path.write_text(idle + "\n")
    found = pk.explore(path)
    assert "hardly anything ran: 1.35e+05 cycles per second" in found.headline
    assert "largest part" not in found.headline
    assert found.quality[0].startswith("hardly anything ran")
    assert "hardly anything ran" not in str(pk.explore(dump(tmp_path, "app.csv")).report())


def test_two_parts_of_which_only_the_sum_is_known_are_one_part(tmp_path):
    rng = np.random.default_rng(3)
    n = 240
    together = rng.uniform(1e5, 3e6, n)
    first, second = ((together * k * rng.normal(1, 0.02, n)).astype(int) for k in (1, 0.5))
    alone = rng.uniform(1e4, 4e5, n).astype(int)
    instructions = np.full(n, 10**8) + rng.integers(0, 10**7, n)
    cycles = (0.3 * instructions + 12 * first + 25 * second + 180 * alone + rng.normal(0, 5e6, n)).astype(int)
    columns = {"cycles": cycles, "instructions": instructions, "branch-misses": first, "L1-dcache-load-misses": second}
    pd.DataFrame(columns | {"LLC-load-misses": alone}).to_csv(tmp_path / "a.csv", index=False)
    found = pk.explore(tmp_path / "a.csv").methods.set_index("method").loc["CPI stack", "finding"]
    assert "branch-misses and L1-dcache-load-misses together, which the data do not tell apart (" in found
    share = (12 * first.mean() + 25 * second.mean()) / cycles.mean()
    assert int(re.search(r"apart \((\d+)%\)", found)[1]) / 100 == pytest.approx(share, abs=0.05)


@pytest.mark.parametrize("names", ["Zyklen;Befehle", "Ciclos;Instrucciones", "Takte;Instruktionen"])
def test_cycles_and_instructions_in_other_languages(tmp_path, names):
    frame = dumped(tmp_path)
    frame.columns = [*names.split(";"), "Sprungfehler"]
    frame[[frame.columns[2], frame.columns[1], frame.columns[0]]].to_csv(tmp_path / "d.csv", sep=";", index=False)
    found = pk.explore(tmp_path / "d.csv")
    assert found.facts["time and work"] == names.replace(";", " and ")
    assert "after the base (56%) the largest part is Sprungfehler (44%)" in found.headline


def dumped(folder):
    """Return the counts that `dump` writes, a column per event."""
    rows = [line.split(",") for line in dump(folder, "x.csv").read_text().splitlines()]
    table = pd.DataFrame(
        {"at": [r[0] for r in rows], "event": [r[3] for r in rows], "count": [int(r[1]) for r in rows]}
    )
    return table.pivot(index="at", columns="event", values="count")[["cycles", "instructions", "LLC-load-misses"]]


def test_an_even_ratio_of_unknown_events_is_no_phase(tmp_path):
    frame = dumped(tmp_path)
    even = pd.DataFrame({"foo": frame["cycles"], "bar": frame["cycles"] * 2, "baz": frame["instructions"]})
    even.to_csv(tmp_path / "d.csv", index=False)
    found = pk.explore(tmp_path / "d.csv")
    assert found.facts["time and work"] == "foo and bar"
    assert not any("phase" in told for told in found.quality)
    assert any("--time-event EVENT" in note for note in found.notes)
    even.set_axis(["cycles", "instructions", "baz"], axis=1).to_csv(tmp_path / "e.csv", index=False)
    assert any(told.startswith("one phase") for told in pk.explore(tmp_path / "e.csv").quality)


# ------------------------------------------------------------------ what is left of a damaged dump is no dump


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("hexadecimal-without-a-sign", "10 of 12 cells of column cycles are no decimal numbers"),
        ("counts-with-units-behind-them", "12 of 12 cells of column cycles are no decimal numbers"),
        ("semicolon-points-that-group-and-are-decimal", "11 of 12 cells of column time_s are no decimal numbers"),
        ("two-tables-of-different-columns", "a second header with other columns"),
    ],
)
def test_what_mostly_fails_is_not_explored_by_the_rest(name, why):
    with pytest.raises(SettingError, match=re.escape(why)):
        pk.explore(DIALECTS / f"{name}.txt")


@pytest.mark.parametrize(("cycles", "instructions"), [("", "7000"), ("0", "7000"), (str(2**48 - 1), "7000")])
def test_a_dump_without_cycles_is_explored_over_seconds(tmp_path, cycles, instructions):
    rows = [f"{i + 1},{cycles},{instructions},{i % 3}" for i in range(12)]
    (tmp_path / "t.csv").write_text("time_s,cycles,instructions,cache-misses\n" + "\n".join(rows) + "\n")
    told = pk.explore(tmp_path / "t.csv").headline
    assert told.startswith("7e+03 instructions per second")
    assert "nan" not in told.lower()


def test_no_number_is_told_where_there_is_none(tmp_path):
    frame = pd.DataFrame({"run": "a", "interval": range(4), "event": "cache-misses", "time": np.nan, "work": 5.0})
    told = pk.explore(pk.Samples.from_frame(frame.assign(count=1.0), missing="keep")).headline
    assert "no interval holds both" in told
    assert "nan" not in told.lower()


def test_a_dump_in_which_nothing_was_counted_is_read_a_few_times(tmp_path, monkeypatch):
    """Every pair of events was once tried for time and work, each by reading the whole file."""
    names = ["cycles", "instructions", "branches", "branch-misses", "cache-misses", "cache-references", "bus-cycles"]
    lines = [f"     {i}.000123456      <not supported>      {name}" for i in range(1, 4) for name in names]
    path = tmp_path / "vm.txt"
    path.write_text("\n".join(["#           time             counts unit events", *lines]) + "\n")
    reads = []
    first = exploration.read_samples
    monkeypatch.setattr(exploration, "read_samples", lambda *a, **k: (reads.append(a), first(*a, **k))[1])
    with contextlib.suppress(PerfkitError):
        pk.explore(path)
    assert len(reads) < 6


def text_of_perf(counts):
    return "\n".join(f"{count},,{event},1000000,100.00,," for event, count in counts.items()) + "\n"


def test_the_second_level_of_topdown_is_told_where_it_was_counted(tmp_path):
    counts = {"TOPDOWN.SLOTS": 6000, "topdown-retiring": 2100, "topdown-bad-spec": 720, "topdown-fe-bound": 1320,
              "topdown-be-bound": 1860}  # fmt: skip
    (tmp_path / "one.csv").write_text(text_of_perf(counts))
    (tmp_path / "two.csv").write_text(text_of_perf({**counts, "topdown-mem-bound": 1200}))
    first = "35% of the issue slots retire work; most of the others are lost to the back end (31%"
    assert pk.explore(tmp_path / "one.csv").headline.startswith(f"{first})")
    assert pk.explore(tmp_path / "two.csv").headline.startswith(f"{first}: memory 20%, execution units 11%)")


def test_the_share_of_time_on_another_kind_of_core_asks_for_no_fewer_events(tmp_path):
    rng = np.random.default_rng(1)
    rows = [
        f"{0.1 * (i + 1):.9f},{most * rng.integers(10**6, 2 * 10**6)},,cpu_{core}/{event}/,100000,{share},,"
        for i in range(60)
        for core, share, most in (("core", "100.00", 20), ("atom", "5.00", 1))
        for event in ("cycles", "instructions", "branch-misses", "cache-misses")
    ]
    (tmp_path / "d.csv").write_text("\n".join(rows) + "\n")
    assert not any(line.startswith("fewer events") for line in pk.explore(tmp_path / "d.csv").measure_next)


@pytest.mark.parametrize("event", ["MEM_LOAD_RETIRED_L3_MISS", "PAPI_L2_TCM", "RETIRED_BR_INST_MISP"])
def test_usual_costs_are_known_under_the_names_of_other_tools(tmp_path, event):
    (tmp_path / "d.csv").write_text(f"PAPI_TOT_CYC,PAPI_TOT_INS,{event}\n3000000,4000000,20000\n")
    found = pk.explore(tmp_path / "d.csv")
    assert found.headline.startswith(f"IPC 1.33: at its usual cost {event} would take ")


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("Intel(R) Xeon(R) Gold 6338 CPU @ 2.00GHz", "intel-topdown"),
        ("Intel(R) Xeon(R) Platinum 8592+", "intel-topdown"),
        ("Intel(R) Xeon(R) Gold 6230 CPU @ 2.10GHz", "intel"),
        ("Intel(R) Xeon(R) Platinum 8380H CPU @ 2.90GHz", "intel"),
        ("12th Gen Intel(R) Core(TM) i7-12700K", "intel-hybrid"),
        ("AMD EPYC 9354", "amd-slots"),
    ],
)
def test_the_generation_of_a_named_processor_chooses_its_events(tmp_path, name, family):
    text = f"CPU name:\t{name}\nTABLE,Group 1 Raw,X,2\nEvent,Counter,HWThread 0\nINSTR_RETIRED_ANY,FIXC0,2000\n"
    (tmp_path / "d.csv").write_text(text.replace("\t", ",") + "CPU_CLK_UNHALTED_CORE,FIXC1,1000\n")
    assert processor_of(pk.read_samples(tmp_path / "d.csv"))[0] == family


def test_a_gpu_is_not_measured_with_perf(tmp_path):
    (tmp_path / "d.csv").write_text("ID,sm__cycles_elapsed.max,smsp__inst_executed.sum\n0,1000,2000\n1,1100,2100\n")
    (line,) = pk.explore(tmp_path / "d.csv").measure_next
    assert line.startswith("more of this kernel's counters: ncu ")


def test_impossible_counts_are_called_that(tmp_path):
    """ "branch-misses has the lowest bound, where 1.41e+06 was reached" was the first sentence."""
    rows = "".join(f"{984 + i},{1735273627 + 1000 * i},{4369577 + i % 7}\n" for i in range(30))
    (tmp_path / "d.csv").write_text("cycles,instructions,branch-misses\n" + rows)
    found = pk.explore(tmp_path / "d.csv")
    assert "no core ends more than 16 instructions per cycle" in found.headline
    assert any("not of one scale" in each for each in found.quality)


def test_a_machine_without_counters_is_not_asked_to_count(tmp_path):
    lines = [f"<not supported>,,{event},0,0.00,," for event in ("cycles", "instructions", "branch-misses")]
    (tmp_path / "d.csv").write_text("\n".join(lines) + "\n")
    found = pk.explore(tmp_path / "d.csv")
    (line,) = found.measure_next
    assert line.startswith("nothing was counted: the machine has no counters")
    assert not any("scaled up" in each for each in found.quality)


def table_of_perf(folder, counts, *, seconds=1.0, cpu=""):
    """Write what perf prints of one interval: each event's count, with how much of the time it was counted."""
    lines = [
        f"{count if isinstance(count, str) else format(count, ','):>18}      {event:40}"
        + (f"({share:.2%})" if share < 1 else "")
        for event, (count, share) in counts.items()
    ]
    text = " Performance counter stats for './a.out':\n\n" + "\n".join(lines)
    (folder / "table.txt").write_text(f"{text}\n\n       {seconds:.9f} seconds time elapsed\n")
    found = pk.read_samples(folder / "table.txt", time_event="cycles", work_event="instructions")
    if not cpu:
        return folder / "table.txt"
    runs = found.runs.assign(parameters=json.dumps({"cpu": cpu}))
    return dataclasses.replace(found, runs=runs)


WHOLE = {"cycles": (3_000_000_000, 1), "instructions": (6_000_000_000, 1), "branch-misses": (12_000_000, 1)}


@pytest.mark.parametrize(("share", "told"), [(0.25, "25%"), (0.5, "50%"), (0.94, "94%")])
@pytest.mark.parametrize("event", ["cycles", "instructions"])
def test_the_first_sentence_says_how_long_the_counters_of_time_and_work_ran(tmp_path, event, share, told):
    counts = WHOLE | {event: (WHOLE[event][0], share)}
    headline = pk.explore(table_of_perf(tmp_path, counts)).headline
    assert headline.startswith(f"IPC 2 (estimated: the counters ran {told} of the time): ")


@pytest.mark.parametrize(("event", "share"), [("branch-misses", 0.25), ("cycles", 0.96), ("instructions", 1)])
def test_the_first_sentence_says_nothing_of_counters_that_ran(tmp_path, event, share):
    counts = WHOLE | {event: (WHOLE[event][0], share)}
    assert pk.explore(table_of_perf(tmp_path, counts)).headline.startswith("IPC 2: ")


def test_the_first_sentence_says_in_how_many_intervals_time_and_work_were_counted(tmp_path):
    rows = [(1, 3000, 6000), (2, "<not counted>", 5000), (3, 3100, "<not counted>"), (4, 3000, 6000)]
    lines = [
        f"     {t}.000110000 {c:>18}      {e}\n" for t, a, b in rows for e, c in (("cycles", a), ("instructions", b))
    ]
    (tmp_path / "gaps.txt").write_text("# started on Sat Nov 21 06:10:05 2026\n\n" + "".join(lines))
    assert "IPC 2 (in the 2 of 4 intervals in which both were counted" in pk.explore(tmp_path / "gaps.txt").headline


@pytest.mark.parametrize("instructions", ["<not counted>", 0])
def test_without_instructions_nothing_is_said_per_instruction(tmp_path, instructions):
    counts = WHOLE | {"instructions": (instructions, 1), "cache-misses": (900_000_000, 1)}
    path = table_of_perf(tmp_path, counts)
    headline = pk.explore(path).headline
    assert "per 1000 instructions" not in headline
    assert "IPC" not in headline
    assert "(7.5e+04 per 1000 branch-misses)" in headline
    path = table_of_perf(tmp_path, {e: c for e, c in counts.items() if e != "cache-misses"})
    assert "branch-misses would take up to 7% of the cycles; " in pk.explore(path).headline


@pytest.mark.parametrize(
    ("misses", "of"),
    [
        ("cache-misses", "cache-references"),
        ("branch-misses", "branches"),
        ("branch-misses", "branch-instructions"),
        ("LLC-load-misses", "LLC-loads"),
        ("L1-dcache-load-misses", "L1-dcache-loads"),
        ("dTLB-load-misses", "dTLB-loads"),
        ("cache-misses:u", "cache-references:u"),
    ],
)
def test_more_misses_than_accesses_are_a_warning_and_no_insight(tmp_path, misses, of):
    counts = {e: c for e, c in WHOLE.items() if e != "branch-misses"}
    found = pk.explore(table_of_perf(tmp_path, counts | {misses: (90_000_000, 1), of: (20_000_000, 1)}))
    told = f"{misses} are 9e+07 and {of}, of which they should be a part, 2e+07: they do not belong together"
    assert found.headline.startswith(f"IPC 2; {told}")
    assert any(each.startswith(told) for each in found.quality)
    trust = found.methods.set_index("method")["trust"]
    assert trust["typical costs"] == "not applicable"
    assert trust["SPIRE"] in ("unsupported", "not applicable")


@pytest.mark.parametrize(
    ("misses", "of"),
    [
        (("cache-misses", 20_000_000, 1), ("cache-references", 20_000_000, 1)),  # each missed
        (("cache-misses", 21_000_000, 0.5), ("cache-references", 20_000_000, 0.5)),  # estimates differ so much
        (("cache-misses", 90_000_000, 1), ("cache-references:u", 20_000_000, 1)),  # of other modes
        (("iTLB-load-misses", 90_000_000, 1), ("iTLB-loads", 20_000_000, 1)),  # Intel's loads are hits further down
        (("LLC-load-misses", 90_000_000, 1), ("cache-references", 20_000_000, 1)),
        (("branch-misses", 0, 1), ("branches", 0, 1)),
    ],
)
def test_misses_that_can_be_are_no_warning(tmp_path, misses, of):
    counts = {e: c for e, c in WHOLE.items() if e != "branch-misses"}
    found = pk.explore(table_of_perf(tmp_path, counts | {e: (n, s) for e, n, s in (misses, of)}))
    assert not any("do not belong together" in each for each in (found.headline, *found.quality))


@pytest.mark.parametrize(
    ("cpu", "cost", "level"),
    [
        ("AMD EPYC 7763 64-Core Processor", 40, "L2 on AMD's"),
        ("AMD Ryzen 9 7950X", 40, "L2 on AMD's"),
        ("ARM Neoverse-N1", 12, "L1D on Arm's"),
        ("Intel(R) Xeon(R) Gold 6248 CPU @ 2.50GHz", 200, ""),
        ("", 200, ""),
    ],
)
def test_cache_misses_cost_what_a_miss_of_the_level_that_the_kernel_counts_costs(tmp_path, cpu, cost, level):
    misses = 14_000_000
    counts = WHOLE | {"branch-misses": (1, 1), "cache-misses": (misses, 1)}
    found = pk.explore(table_of_perf(tmp_path, counts, cpu=cpu))
    finding = found.methods.set_index("method").loc["typical costs", "finding"]
    assert f"cache-misses would take up to {misses * cost / 3_000_000_000:.0%} of the cycles" in finding
    told = [each for each in found.quality if each.startswith("cache-misses counts misses of ")]
    assert bool(told) is bool(level)
    assert all(level in each for each in told)


@pytest.mark.parametrize("event", ["LLC-load-misses", "branch-misses", "L1-dcache-load-misses"])
def test_other_events_cost_the_same_on_every_processor(tmp_path, event):
    counts = {e: WHOLE[e] for e in ("cycles", "instructions")} | {event: (30_000_000, 1)}
    told = {
        pk.explore(table_of_perf(tmp_path, counts, cpu=cpu)).methods.set_index("method").loc["typical costs", "finding"]
        for cpu in ("AMD EPYC 7763 64-Core Processor", "Intel(R) Xeon(R) Gold 6248 CPU @ 2.50GHz", "ARM Neoverse-N1")
    }
    assert len(told) == 1


def of_core(folder, name, core, trace, changes=None):
    """A dump of a core's own events, by the simulator's counts, in intervals of a tenth of a second."""
    from tests.fitters.test_real_names import as_dump

    machine = pk.Microarchitecture.load(core)
    samples = pk.SimulatedPmu(machine, intervals=4).collect({"mine": pk.datasets.load(f"traces/{trace}")})
    table = as_dump(samples, machine, changes).table
    lines = []
    for interval, part in table.groupby("interval"):
        counts = {"cycles": part["time"].iloc[0], "instructions": part["work"].iloc[0]}
        counts |= dict(zip(part["event"].astype(str), part["count"], strict=True))
        lines += [
            f"{0.1 * (int(interval) + 1):.9f},{round(1e4 * count)},,{e},1,100.00,," for e, count in counts.items()
        ]
    path = folder / name
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("core", ["skylake_x", "golden_cove", "zen4"])
def test_bottlenecks_are_one_of_the_methods_and_carry_the_headline(tmp_path, core):
    """Explore never offered it, though the processor and the events of a dump allowed it."""
    found = pk.explore(of_core(tmp_path, "app.csv", core, "branchy"))
    row = found.methods.set_index("method").loc["Bottlenecks"]
    assert row["trust"] in ("supported", "uncertain")
    assert row["finding"].startswith("mispredicted branches hold it back")
    assert row["finding"] in found.headline
    if row["trust"] == "uncertain":
        assert "is taken for" in row["why"] or "likely" in row["why"]


def test_bottlenecks_are_unsupported_where_the_counts_cannot_be(tmp_path):
    found = pk.explore(of_core(tmp_path, "app.csv", "skylake_x", "branchy", {"uops_dispatched_port.port_4": 10.0}))
    row = found.methods.set_index("method").loc["Bottlenecks"]
    assert row["trust"] == "unsupported"
    assert "1000% of the cycles of the busiest store ports" in row["why"]
    assert "Bottlenecks" not in found.headline


def test_bottlenecks_say_why_they_do_not_apply(tmp_path):
    trust = pk.explore(dump(tmp_path, "app.csv")).methods.set_index("method").loc["Bottlenecks"]
    assert trust["trust"] == "not applicable"
    assert trust["why"]
    assert pk.explore("spire/memory").methods.set_index("method").loc["Bottlenecks", "why"].startswith("generated")


def test_cycles_in_which_nothing_is_done_explain_no_cycles(tmp_path):
    """The headline was that stalled cycles take 95 % of the cycles, with an R2 of 1.00."""
    rng = np.random.default_rng(0)
    misses = rng.integers(10**5, 5 * 10**5, 120)
    stalls = {"uops_executed.stall_cycles": 170 * misses + rng.integers(0, 10**5, 120)}
    path = dump(tmp_path, "app.csv", events={"LLC-load-misses": misses} | stalls)
    text = path.read_text()
    found = pk.explore(path)
    assert "uops_executed.stall_cycles (" not in found.headline
    row = found.methods.set_index("method").loc["CPI stack"]
    assert "Without uops_executed.stall_cycles" in row["why"]
    alone = tmp_path / "alone.csv"
    alone.write_text("\n".join(line for line in text.splitlines() if "LLC" not in line) + "\n")
    row = pk.explore(alone).methods.set_index("method").loc["CPI stack"]
    assert row["trust"] == "unsupported"
    cause = tmp_path / "cause.csv"
    cause.write_text(text.replace("uops_executed.stall_cycles", "cycle_activity.stalls_l3_miss"))
    assert "Without" not in pk.explore(cause).methods.set_index("method").loc["CPI stack", "why"]


@pytest.mark.parametrize(
    ("named", "core"),
    [
        ("AMD Ryzen 5 7600X 6-Core Processor", "zen4"), ("AMD Ryzen 5 5600X 6-Core Processor", "zen3"),
        ("AMD Ryzen 9 9950X 16-Core Processor", "zen5"), ("AMD Ryzen 3 3200G", ""), ("AMD Ryzen 5 5500U", ""),
        ("AMD Ryzen 5 7520U", ""), ("AMD EPYC 9654 96-Core Processor", "zen4"), ("AMD EPYC 9755", "zen5"),
        ("Intel(R) Xeon(R) Platinum 8480+", "golden_cove"), ("sapphirerapids", "golden_cove"), ("featuring", ""),
        ("host milano", ""),
    ],
)  # fmt: skip
def test_a_processors_name_is_read_in_whole_words(named, core):
    """Every "Ryzen 5" was a Zen 5, and sure."""
    rows = [{"run": "a", "interval": 0, "event": "branch-misses", "time": 1.0, "work": 1.0, "count": 1.0}]
    samples = pk.Samples.from_frame(pd.DataFrame(rows), kind="measured", time_event="cycles", work_event="instructions")
    assert core_of(samples, named) == (core, ())


def test_how_the_throughput_changes_is_a_fact_and_no_warning():
    found = pk.explore("spire/memory")
    assert found.facts["phases"].endswith(" inst_retired.any per cpu_clk_unhalted.thread in 90 % of the intervals")
    assert "phases" not in " ".join(found.quality)
    steady = pk.datasets.load("spire/memory")
    table = steady.table.assign(work=steady.table["time"] / 2)
    found = pk.explore(dataclasses.replace(steady, table=table))
    assert "phases" not in found.facts
    assert any(told.startswith("one phase: ") for told in found.quality)  # from which little can be learnt: a warning


def test_intervals_of_several_places_are_told_as_such(tmp_path):
    rows = "".join(f"{t},{cpu},{1000 + t},{2000 + cpu}\n" for t in (1, 2, 3) for cpu in (0, 1))
    (tmp_path / "two.csv").write_text(f"t_s,cpu,cycles,instructions\n{rows}")
    found = pk.explore(tmp_path / "two.csv").facts
    assert found["intervals"].startswith("6 of 2 places, 3 s in all")  # side by side
    assert found["places"] == "0 and 1"
    (tmp_path / "one.csv").write_text("t_s,cycles,instructions\n1,1000,2000\n2,1100,2100\n")
    assert "places" not in pk.explore(tmp_path / "one.csv").facts
