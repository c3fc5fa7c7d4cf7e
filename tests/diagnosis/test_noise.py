"""What curves of noise say, by hand; kernels whose bottleneck is known, measured; what is refused."""

import json
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from iced_x86 import Decoder, Register
from typer.testing import CliRunner

import perfkit as pk
from perfkit.cli.main import app
from perfkit.collectors.noise import kinds
from perfkit.collectors.noise.function import read_function
from perfkit.collectors.noise.instructions import kinds_like
from perfkit.collectors.tracer.elf import ElfFile
from perfkit.diagnosis.noise import _beside_copy
from perfkit.diagnosis.noise_curves import NONE, PLENTY, SOME, UNTOLD, bend, first_bottleneck, word
from perfkit.diagnosis.noise_result import COPY
from perfkit.errors import DataError, SettingError
from tests.diagnosis.noise_kernels import FLAGS, KERNELS

LOOP = "long f(long *a, long n) { long s = 0; for (long i = 0; i < n; i++) s += a[i]; return s; }"


def curve(busy: float, each: float, counts=(0, 1, 2, 4, 8, 16)) -> tuple[list[float], list[float]]:
    """Of a resource that is busy for a share of the time, with instructions of `each` of it."""
    return list(counts), [max(1.0, busy + n * each) for n in counts]


@pytest.mark.parametrize(
    ("busy", "each", "absorbed", "slack"),
    [(1, 0.25, 0, 0), (0.5, 0.125, 4, 0.5), (0, 1.5, 2 / 3, 1), (0.2, 0.1, 8, 0.8)],
)  # fmt: skip
def test_bends_by_hand(busy, each, absorbed, slack):
    found = bend(*curve(busy, each), 0.03)
    assert (found.absorbed, found.slope, found.slack) == pytest.approx((absorbed, each, slack))


@pytest.mark.parametrize(
    ("values", "right"),
    [
        ([1, 1.1, 1.2, 1.4, 1.8, 2.6], NONE),
        ([1, 1.0, 1.0, 1.3, 1.7, 2.5], SOME),  # the line says that it was never idle; the start, that it was
        ([1, 1.06, 1.11, 1.2, 1.35, 1.7], NONE),  # busy in one part of the time, idle in another
        ([1, 1.4, 2.8, 5.6, 11.2, 22.4], PLENTY),  # one instruction takes longer than an iteration
        ([1, 1.0, 1.0, 1.0, 1.5, 2.5], PLENTY),
        ([1, 1.66, 2.32, 3.64, 6.28, 11.9], NONE),  # the first costs its 0.66; the line of the last ones is steeper
        ([1, 1.46, 2.12, 3.44, 6.08, 11.7], SOME),  # a fifth of an iteration was free
    ],
)
def test_words_by_hand(values, right):
    assert word(bend([0, 1, 2, 4, 8, 16], values, 0.03)) == right


def test_a_curve_that_never_rises():
    found = bend(*curve(0.1, 0.01), 0.03)
    assert found.absorbed == 16
    assert math.isnan(found.slope)
    assert word(found) == PLENTY


def test_a_curve_that_creeps_up_never_rises():
    """Less than a tenth of a cycle each: it is no unit's, on a core of any width."""
    n, values = [0, 4, 8, 16, 24, 32], [1, 1.0, 1.01, 1.04, 1.06, 1.09]
    found = bend(n, values, 0.03, cycles=25)
    assert (found.absorbed, word(found)) == (32, PLENTY)
    assert word(bend(n, values, 0.03, cycles=250)) == word(bend(n, values, 0.03)) == NONE


def test_a_loop_of_whole_cycles_leaves_the_rest_of_one_idle():
    """As on a Zen 5: 15 vector operations on four units take four cycles; so do 12 there, beside a chain of four."""
    n = [0, 1, 2, 3, 4, 6, 8, 12, 16]
    for own, idle in ((15, NONE), (12, SOME)):
        found = bend(n, [max(4.0, (own + k) / 4) / 4 for k in n], 0.03, cycles=4.04)
        assert (word(found, 4.04), word(found)) == (idle, SOME)
        assert word(found, 4.4) == SOME
    divider = bend(n, [max(4.0, 3.3 + k) / 4 for k in n], 0.03, cycles=4.0)
    assert word(divider, 4.0) == SOME  # one unit


def test_many_at_once_that_cost_less_each_do_not_make_the_first_ones_slack_nothing():
    """As on a Zen 5: loads from L2 take 2.9 cycles each, of more than a dozen 1.7; the loop of 2 cycles has none."""
    n, cycles = [0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32], 1.97
    values = [1.97, 3.21, 6.01, 8.87, 11.81, 17.4, 23.16, 28.75, 30.01, 43.44, 58.13]
    found = bend(n, np.array(values) / cycles, 0.03, cycles=cycles)
    assert (word(found), found.slack > 0.8) == (PLENTY, True)


def test_a_leap_within_a_line_from_the_start_is_no_slack():
    """As measured on a Zen 5: ten stores to ten lines; the thirteenth line halves the rate of all of them."""
    n = [0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32]
    values = [1.0016, 1.0994, 1.1987, 2.6775, 2.8833, 3.2978, 3.7083, 4.493, 4.7521, 5.5456, 6.3346]
    found = bend(n, values, 0.03, cycles=5.04)
    assert (word(found, 5.04), found.slack) == (NONE, 0)
    plateau = [1, 1.02, 1.04, 1.04, 1.04, 1.04, 1.04, 1.04, 1.04, 1.12, 1.2, 1.28, 1.36]
    assert bend([0, 1, 2, *range(4, 41, 4)], plateau, 0.03).absorbed > 20
    cheaper = [1.0, 1.02, 1.04, *values[3:]]  # the first ones cost a fifth of what the last do
    assert word(bend(n, cheaper, 0.03, cycles=5.04), 5.04) != NONE


def test_one_disturbed_point_is_not_a_bend():
    n, values = curve(0.1, 0.01)
    values[2] = 1.8
    assert bend(n, values, 0.03).absorbed == 16


def test_a_slowdown_within_its_interval_is_none():
    n, values = curve(1, 0.02)
    assert bend(n, values, 0.03, low=np.ones(len(n))).absorbed == 16


@pytest.mark.parametrize(
    ("slack", "dispatched", "right"),
    [
        ({"nop": 0.6, "latency": 0.0, "load": 0.05}, 0.3, "latency"),
        ({"nop": 0.0, "integer": 0.0}, 0.95, "front end"),
        ({"nop": 0.02, "latency": 0.0}, 0.1, "restarts"),
        ({"nop": 0.1, "integer": 0.0}, 0.7, "integer"),
        ({"nop": 0.5, "load": 0.9}, 0.5, "none of these"),
        ({"nop": 0.1, "long nop": 0.0}, 0.3, "restarts"),
        ({"nop": 0.5, "latency": 0.1, "vector add": 0.0}, 0.3, "latency"),
        ({"nop": math.nan, "long nop": 0.08, "latency": 0.0}, 0.04, "restarts"),  # as on a Zen 5
        ({"nop": 0.9, "long nop": 0.08, "latency": 0.0}, 0.8, "latency"),
    ],
)
def test_the_first_bottleneck(slack, dispatched, right):
    words = {kind: NONE if s <= 0.12 else PLENTY for kind, s in slack.items()}
    assert first_bottleneck(slack, words, dispatched) == right
    assert first_bottleneck(slack, words | {"nop": UNTOLD}, dispatched) == UNTOLD


def test_an_added_chain_that_costs_more_than_its_cycle_is_the_noises_own():
    """As on an Emerald Rapids: shifts fill two ports; a first `rorx` between additions of 1 costs 1.9 cycles."""
    slack = {"nop": 0.22, "shift": 0.01, "store": 0.34, "latency": 0.0}
    words = {"nop": SOME, "shift": NONE, "store": SOME, "latency": NONE}
    slope = {"nop": 0.11, "shift": 0.32, "store": 0.65, "latency": 0.65}
    assert first_bottleneck(slack, words, 0.8, slope, {"shift", "store"}, {"latency": 1.92}) == "shift"
    assert first_bottleneck(slack, words, 0.8, slope, {"shift", "store"}, {"latency": 1.0}) == "latency"
    assert first_bottleneck(slack, words, 0.8, slope, {"store"}, {"latency": 1.92}) == "latency"


def test_of_kinds_with_as_little_slack_the_loops_own_and_then_the_cheapest_is_named():
    """As on Golden Cove: branches take two of the ports of integers, shuffles of vectors those of additions."""
    slack = {"nop": 0.3, "integer": 0.041, "branch": 0.040}
    words = {"nop": SOME, "integer": NONE, "branch": NONE}
    slope = {"nop": 0.03, "integer": 0.038, "branch": 0.095}
    assert first_bottleneck(slack, words, 0.8) == "branch"
    assert first_bottleneck(slack, words, 0.8, slope, {"branch", "integer"}) == "integer"
    slack, words = {"vector add": 0.0, "shuffle": 0.004}, {"vector add": NONE, "shuffle": NONE}
    slope = {"vector add": 0.1131, "shuffle": 0.1132}
    assert first_bottleneck(slack, words, 0.4, slope, {"shuffle", "integer"}) == "shuffle"
    assert first_bottleneck(slack, words, 0.4, slope) == "vector add"
    slack["shuffle"] = 0.1  # this much more slack is not as little
    assert first_bottleneck(slack, words, 0.4, slope, {"shuffle"}) == "vector add"


@pytest.mark.parametrize(
    ("code", "right"),
    [
        ("c5fd5806", {"vector add", "vector load"}),  # vaddpd ymm0, ymm0, [rsi]
        ("c5fdc6c000", {"shuffle"}),  # vshufpd ymm0, ymm0, ymm0, 0
        ("c4e2fdb8c0", {"vector multiply"}),  # vfmadd231pd ymm0, ymm0, ymm0
        ("c5fdfec0", {"vector integer"}),  # vpaddd ymm0, ymm0, ymm0
        ("f20f5ec1", {"divide"}),  # divsd xmm0, xmm1
        ("48ffc8", {"integer"}),  # dec rax
        ("75fe", {"branch"}),  # jne
        ("c4e3fbf0c007", {"shift"}),  # rorx rax, rax, 7
        ("488906", {"store"}),  # mov [rsi], rax
        ("480106", {"load", "store", "integer"}),  # add [rsi], rax
        ("488d4601", {"integer"}),  # lea rax, [rsi + 1]: no load
        ("c5f81006", {"vector load"}),  # vmovups xmm0, [rsi]
        ("0f1f00", set()),  # nop
    ],
)
def test_which_kinds_an_instruction_is_like(code, right):
    assert kinds_like(next(iter(Decoder(64, bytes.fromhex(code))))) == right


def test_a_models_curve_is_judged_without_the_machines_cycles():
    """It is relative to simulated ones; a core may take many times as long as another."""
    slow = replace(result(), cycles=0.3)
    assert slow.simulated_bottleneck == result().simulated_bottleneck
    assert slow.to_frame()["simulated_idle"].tolist() == result().to_frame()["simulated_idle"].tolist()


def test_a_models_curve_that_creeps_is_no_resources():
    """A tenth of a cycle for each no-operation: its own cycles say so."""
    n, slower = [0, 4, 8, 16, 24, 32], [1, 1.0, 1.02, 1.05, 1.08, 1.1]
    curves = pd.DataFrame({"kind": "nop", "resource": "front end", "added": n, "slowdown": 1.0, "simulated": slower})
    curves = curves.assign(low=1.0, high=1.0, turns=9, quiet=True)
    found = replace(result(), curves=curves, instructions=6.0)
    assert (found.simulated_bottleneck, replace(found, simulated_cycles=12.0).simulated_bottleneck) == (
        "restarts",
        "none of these",
    )


def test_a_link_of_a_chain_is_nothing_that_a_core_adds_while_it_renames(monkeypatch):
    """24 times LEA of a register and 0 took no time on Golden Cove: chains of loads were held back by nothing."""
    place = SimpleNamespace(carried=Register.RDX, legacy=False, width=32)
    for found, right in (({"bmi2"}, "rorx rdx,rdx,0"), (set(), "lea rdx,[rdx]")):
        monkeypatch.setattr(kinds, "flags", lambda found=found: found)
        assert [str(i) for i in kinds.KINDS["latency"].make(place, None, 2)] == [right] * 2


def result(quiet: bool = True, original: float = 1.0) -> pk.NoiseResult:
    n, flat = curve(0.3, 0.1)
    _, steep = curve(1, 0.25)
    rows = [
        {"kind": kind, "resource": kind, "added": k, "slowdown": v, "low": v, "high": v, "turns": 9, "quiet": quiet}
        for kind, values in (("nop", flat), ("latency", steep))
        for k, v in zip(n, values, strict=True)
    ]
    table = pd.DataFrame(rows).assign(simulated=[*steep, *flat])
    return pk.NoiseResult("k", "the loop", table, 6.0, 4.0, original, 0.03, "no machine", "zen3")


def test_machine_and_model_are_told_apart():
    found = result()
    assert found.bottleneck == "latency"
    assert found.simulated_bottleneck == "front end"
    table = found.to_frame().set_index("kind")
    assert table.loc["nop", "absorbed"] == pytest.approx(7)
    assert table.loc["nop", "simulated_absorbed"] == pytest.approx(0)
    assert table.loc["latency", "cycles_each"] == pytest.approx(1.0)
    assert table.loc["nop", "disagreement"] == pytest.approx(
        np.log([1, 1.25, 1.5, 2, 3 / 1.1, 5 / 1.9]).mean()
    )  # fmt: skip
    assert found.summary().startswith("k: held back by ")
    assert "simulated on zen3: held back by the front end" in found.summary()


def test_nothing_is_named_from_a_disturbed_measurement():
    assert result(quiet=False).bottleneck == UNTOLD
    assert result(quiet=False).summary().startswith("k: what holds it back cannot be told (measured)")
    assert "beside a busy thread" in result(quiet=False).summary()
    assert result(original=1.3).bottleneck == UNTOLD
    assert "1.30 times" in result(original=1.3).summary()


def test_the_original_is_compared_with_a_copy_in_the_same_place():
    """Calls that know two times, 1 and 0.84 of what runs around them: a median leaps from one to the other."""
    random = np.random.default_rng(1)
    which = np.repeat([-1, 0, 1], 50)

    def beside(slower: float, fast: float) -> float:
        ratio = np.where(random.random(150) < fast, 0.84, 1.0) * np.where(which == -1, slower, 1)
        turns = SimpleNamespace(which=which, ratio=ratio, quiet=np.arange(150) % 5 > 0)
        turns.ratio[~turns.quiet] = 9  # beside a busy thread
        return _beside_copy(turns)

    alike = [beside(1.0, fast) for fast in np.linspace(0.3, 0.7, 100)]
    assert np.mean(np.abs(np.array(alike) - 1) <= COPY) > 0.95
    other = [beside(1.15, fast) for fast in np.linspace(0.3, 0.7, 100)]
    assert np.mean(np.abs(np.array(other) - 1) <= COPY) < 0.02
    nothing = SimpleNamespace(which=which, ratio=np.full(150, np.nan), quiet=np.zeros(150, bool))
    assert np.isnan(_beside_copy(nothing))


def test_a_price_from_beside_a_neighbour_names_nothing():
    """The last points give what an instruction costs: one of these that was not quiet makes its curve untold."""
    found = result()
    last = found.curves.index[found.curves["kind"] == "nop"][-1]
    disturbed = replace(found, curves=found.curves.assign(quiet=found.curves.index != last))
    assert disturbed.slack["nop"] == UNTOLD
    assert disturbed.bottleneck == UNTOLD
    assert "beside a busy thread" in disturbed.summary()


def test_no_verdict_rests_on_random_branches():
    slack, words = {"random branch": 0.0, "load": 0.6}, {"random branch": NONE, "load": PLENTY}
    assert first_bottleneck(slack, words, 0.3) == "none of these"


@pytest.mark.measures
@pytest.mark.parametrize("name", KERNELS)
def test_the_bottleneck_known_by_construction(name):
    known = KERNELS[name]
    kernel = pk.collectors.compile_kernel(known.source, "f", flags=FLAGS, name=name)
    found = pk.Noise(seconds=20).run(kernel, *known.arguments)
    assert found.bottleneck != UNTOLD, f"the machine was busy: {found.summary()}"
    assert found.bottleneck in known.right, found.to_frame().to_string()


@pytest.mark.measures
def test_machine_beside_model_and_the_command_line(tmp_path):
    source = tmp_path / "k.c"
    source.write_text(LOOP)
    words = ["noise", str(source), "--arguments", "i8[2000], 2000", "--kinds", "nop,latency", "--core", "zen3"]
    done = CliRunner().invoke(app, [*words, "--flags", "-O1", "--json", "-o", str(tmp_path / "r.parquet")])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert [row["kind"] for row in told["kinds"]] == ["nop", "latency"]
    again = pk.NoiseResult.load(tmp_path / "r.parquet")
    assert again.core == "zen3"
    assert again.curve("latency")["simulated"].iloc[-1] > 5  # 32 cycles more in each iteration


TWO_LOOPS = """double f(const double *a, double *b, long n, long m) {
    double s = 0;
    for (long i = 0; i < n; i++) s += a[i];
    for (long i = 0; i < m; i++) b[i] = a[i] / (b[i] + 3.0);
    return s;
}"""


@pytest.mark.measures
def test_each_loop_has_a_bottleneck_of_its_own():
    """A chain of additions, then a divider that is always busy: neither is told of the other one.

    Each for as long as the other: what other code takes counts as slack.
    """
    kernel = pk.collectors.compile_kernel(TWO_LOOPS, "f", flags="-O2 -fno-tree-vectorize -g")
    arrays = np.ones(4000), np.ones(4000)
    chain, divider = (pk.collectors.true_cycles(kernel, *arrays, *each).cycles for each in ((2000, 0), (0, 2000)))
    found = pk.Noise(kinds=["nop", "divide", "latency"], seconds=10).each_loop(
        kernel, *arrays, 2000, min(int(2000 * chain / divider), 4000)
    )
    assert {one.place.rpartition("(")[2]: one.bottleneck for one in found} == {
        "kernel.c:3)": "latency",
        "kernel.c:4)": "divide",
    }, "\n".join(f"{one.summary()}\n{one.to_frame()}" for one in found)
    assert ["of the call's instructions" in one.summary() for one in found] == [True, True]


def test_each_of_several_loops_that_cannot_be_measured():
    kernel = pk.collectors.compile_kernel(TWO_LOOPS, "f", flags="-O1")
    with pytest.raises(DataError, match="no loop of f can be measured: none ran"):
        pk.Noise(kinds=["nop"]).each_loop(kernel, np.ones(1), np.ones(1), 0, 0)
    refused = CliRunner().invoke(app, ["noise", "k.c", "--at", "each", "--picture", "x.png"])
    assert isinstance(refused.exception, SettingError)
    assert "name one" in str(refused.exception)


def test_results_that_change_from_run_to_run_are_refused():
    source = (
        "long f(long n) { unsigned low, high; __asm__ volatile(\"rdtsc\" : \"=a\"(low), \"=d\"(high)); "
        "static long last; while (n--) last += low; return last; }"
    )  # fmt: skip
    kernel = pk.collectors.compile_kernel(source, "f", flags="-O1")
    with pytest.raises(DataError, match="differ from run to run"):
        pk.Noise(kinds=["nop"], seconds=1).run(kernel, 10)


def test_a_kernel_that_crashes_is_an_error_and_no_crash():
    """Its second call fails: not while it is traced."""
    source = (
        "static long calls; long f(long n) { if (calls++) __builtin_trap(); while (n--) calls |= 4; return calls; }"
    )
    kernel = pk.collectors.compile_kernel(source, "f", flags="-O1")
    with pytest.raises(DataError, match="failed while it was timed"):
        pk.Noise(kinds=["nop"], seconds=1).run(kernel, 10)


def test_loops_that_do_not_run_are_refused():
    kernel = pk.collectors.compile_kernel(LOOP, "f", flags="-O1")
    with pytest.raises(DataError, match="has no loop at"):
        pk.Noise(kinds=["nop"]).run(kernel, np.ones(4, dtype=np.int64), 0)
    header = read_function(ElfFile(kernel.path), "f").loops[0].header
    with pytest.raises(DataError, match="did not run"):
        pk.Noise(kinds=["nop"], at=header).run(kernel, np.ones(4, dtype=np.int64), 0)
    with pytest.raises(SettingError, match="no instruction of f that ran"):
        pk.Noise(kinds=["nop"], at="kernel.c:99").run(kernel, np.ones(4, dtype=np.int64), 4)


@pytest.mark.parametrize(
    "settings", [{"kinds": "nop"}, {"counts": [2, 1]}, {"counts": []}, {"processes": 1}, {"least": 0.0}]
)  # fmt: skip
def test_bad_settings(settings):
    with pytest.raises(SettingError):
        pk.Noise(**settings)


@pytest.mark.measures
def test_variants_are_trained_before_they_are_timed():
    """Among 150 others a copy's branches were forgotten since its last turn: the first samples took 8 % more."""
    kernel = pk.collectors.corpus_kernel("correlation-v6", "avx2")
    found = pk.Noise(processes=3, rounds=3, seconds=10).run(kernel)
    assert found.original == pytest.approx(1, abs=0.03)


@pytest.mark.measures
def test_farther_loads_and_mispredictions_cost_more():
    """A line from L3 takes longer than one from L2, from memory no less; half a misprediction several cycles.

    On an Emerald Rapids guest both take the same: a chase through 8 MiB takes 130 ns a line there, through 512 MiB 150.
    """
    kernel = pk.collectors.compile_kernel(KERNELS["additions in a chain"].source, "f", flags=FLAGS)
    kinds = ["load", "load L2", "load L3", "load memory", "random branch"]
    found = pk.Noise(kinds=kinds, seconds=15, core="zen4").run(kernel, np.ones(1000), np.ones(1000), 1000)
    table = found.to_frame().set_index("kind")
    loads = [each for each in kinds[:4] if each in table.index]
    assert set(kinds[:4]) - set(loads) <= set(found.refused)  # without pages of 2 MB, or CLFLUSHOPT
    assert found.bottleneck != UNTOLD, "the machine was busy"
    nearer = [each for each in loads if each != "load memory"]
    assert table.loc[nearer, "cycles_each"].is_monotonic_increasing, table.to_string()
    assert {"load L3", "load memory"} - set(loads) or (
        table.loc["load memory", "cycles_each"] > 0.85 * table.loc["load L3", "cycles_each"]
    ), table.to_string()
    assert table.loc["random branch", "cycles_each"] > 4
    assert math.isnan(table.loc["random branch", "simulated_absorbed"])  # no trace holds it
    assert found.bottleneck != "random branch"
