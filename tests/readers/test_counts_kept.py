"""Rules that leave out what is no count leave real counts alone: dumps that a rule once took too much of."""

import numpy as np
import pytest

from perfkit.errors import FormatError
from perfkit.exploration import exploration
from perfkit.samples.events import sounds_like_event


def events(samples):
    return list(samples.table["event"].cat.categories)


def seconds(samples):
    return samples.table.groupby("interval")["seconds"].first().to_numpy()


@pytest.mark.parametrize("misses", ["3912345.678", "1234567.8", "12.4"])
def test_counts_with_decimals_beside_counters_that_were_never_scaled_are_counts(read, misses):
    """What a counter in turns counted is scaled up, and means of several runs have decimals."""
    found = read(f"cycles,instructions,branch-misses\n1411821624,1933392528,{misses}\n1850463696,1181674211,{misses}\n")
    assert found.table.loc[found.table["event"] == "branch-misses", "count"].tolist() == [float(misses)] * 2


def test_a_ratio_under_an_unknown_name_is_still_left_out(read):
    found = read("cycles,instructions,foo\n1411821624,1933392528,0.731\n1850463696,1181674211,1.566\n")
    assert events(found) == ["cycles", "instructions"]


@pytest.mark.parametrize("first", [84524.301, 120.201, 1764227000.301])
@pytest.mark.parametrize("parameter", ["iter", "threads"])
def test_time_stamps_that_began_elsewhere_are_no_lengths(read, first, parameter):
    steps = np.array([0.0, 1.078, 3.482, 5.394])
    rows = "".join(f"{k},{first + s:.3f},{1_000_000_000 + 7919 * k},1213823287,2187200\n" for k, s in enumerate(steps))
    found = read(f"{parameter},timestamp,cycles,instructions,branch-misses\n{rows}")
    assert seconds(found)[1:] == pytest.approx(np.diff(steps), abs=2e-3)


def test_run_times_of_a_sweep_are_lengths(read):
    took = [0.043, 0.081, 0.19, 0.41]
    rows = "".join(f"{2**k},{s},{int(3e9 * s)},{int(4e9 * s)},{1000 * (k + 3)}\n" for k, s in enumerate(took))
    assert seconds(read(f"size,seconds,cycles,instructions,misses\n{rows}")) == pytest.approx(took)


@pytest.mark.parametrize("step", [0.01, 0.02])
def test_an_uptime_in_hundredths_is_no_date(read, step):
    rows = "".join(f"{40000 + step * k:.2f},{20_000_000 + k},24276465,43744\n" for k in range(20))
    assert seconds(read(f"time,cycles,instructions,branch-misses\n{rows}"))[1:] == pytest.approx(step)


@pytest.mark.parametrize("name", ["duration_ms", "duration_us", "time_ns"])
def test_a_grouped_time_is_not_read_as_a_thousandth(read, name):
    with pytest.raises(FormatError, match=r"can mean 4626 or 4\.626"):
        read(f'{name},cycles,instructions\n"4,626",16264427720,28018106530\n"4,843",18430561050,15561640420\n')


def test_the_decimals_of_seconds_settle_the_decimal_sign(read):
    found = read(
        "benchmark,seconds,cycles,instructions\na,4.999,16264427720,28018106530\nb,1.250,3430561050,6561640420\n"
    )
    assert found.table.groupby("run", observed=True)["seconds"].first().tolist() == [4.999, 1.25]


def test_runs_of_a_turned_table_may_be_called_as_bounds_are(read):
    found = read(
        "event,zen4,zen4_old,zen4_high\ncycles,1234567890,2234567890,1\ninstructions,3234567890,3334567890,2\n"
    )
    assert list(found.runs.index) == ["zen4", "zen4_old", "zen4_high"]


def test_queues_of_low_and_high_priority_are_events(read):
    found = read("cycles,instructions,rpq,rpq_low,rpq_high\n1626442772,2801810653,2178768,726256,1452512\n")
    assert events(found) == ["cycles", "instructions", "rpq", "rpq_low", "rpq_high"]


def test_what_is_asked_for_is_read_whatever_it_is_called(read):
    text = "cycles,sim_cycles,instructions,instructions_base\n3000,2900,6000,5900\n1000,900,1500,1400\n"
    assert read(text, time_event="sim_cycles").time_event == "sim_cycles"
    assert read(text, work_event="instructions_base").work_event == "instructions_base"


@pytest.mark.parametrize(
    "name", ["branch_predictor/branches", "load_queue/loads", "instr_fetch/cycles", "l2_store/cycles"]
)
def test_names_by_path_are_no_quotients(read, name):
    assert name in events(read(f"cycles,instructions,{name}\n1626442772,2801810653,2178768\n"))


@pytest.mark.parametrize("name", ["branch-misses/instructions", "stalls/cycles", "misses/kinst"])
def test_quotients_are_left_out(read, name):
    assert name not in events(read(f"cycles,instructions,{name}\n1626442772,2801810653,0.0218768\n"))


def test_a_loop_of_a_hundred_instructions_is_no_baseline(read):
    found = read("loop,cycles,instructions,uops\nadd,100,100,100\nmul,300,100,100\ndiv,2600,100,1000\n")
    assert found.table["count"].sum() == 4500


def test_a_column_of_words_under_the_name_of_lengths_is_left_out(read):
    rows = "".join(f"{k},fast,1711504540,2174760584,2300725\n" for k in range(1, 5))
    assert events(read(f"n,seconds,cycles,instructions,branch-misses\n{rows}")) == [
        "cycles",
        "instructions",
        "branch-misses",
    ]


def test_a_parameter_called_variable_is_no_long_table(read):
    found = read(
        "variable,value,cycles,instructions\nthreads,1,1626442772,2801810653\nthreads,2,1843056105,1556164042\n"
    )
    assert {"cycles", "instructions"} <= set(events(found))


@pytest.mark.parametrize(
    "name", ["load", "payload", "workload_size", "cache_kb", "n_branches", "default", "tsc_cycles"]
)
def test_parameters_and_clocks_with_an_events_letters_in_them_are_no_events(name):
    assert not sounds_like_event(name)


@pytest.mark.parametrize("name", ["branches", "cache-misses", "branch-misses", "l1d_loads", "context-switches"])
def test_events_sound_like_events(name):
    assert sounds_like_event(name)


def test_of_a_hybrid_processor_the_second_level_is_of_the_cores_that_did_the_work(tmp_path):
    shares = {"retiring": 0.3, "bad-spec": 0.1, "fe-bound": 0.1, "be-bound": 0.5}
    lines = []
    for core, memory in (("cpu_core", 0.05), ("cpu_atom", 0.45)):
        counts = {"cycles": 1e9, "instructions": 2e9, "slots": 6e9, "topdown-mem-bound": memory * 6e9}
        counts |= {f"topdown-{name}": share * 6e9 for name, share in shares.items()}
        lines += [f"     {t:.9f},{c * (1 if core == 'cpu_core' else 0.2):.0f},,{core}/{e}/,100000000,100.00,,"
                  for t in (0.1, 0.2, 0.3) for e, c in counts.items()]  # fmt: skip
    began = "# started on Sat Nov 21 06:10:05 2026\n\n"
    (tmp_path / "d.csv").write_text(began + "\n".join(sorted(lines, key=lambda line: float(line.split(",")[0]))) + "\n")
    told = exploration.explore(tmp_path / "d.csv").headline
    assert "back end (50%: memory 5%, execution units 45%)" in told


@pytest.mark.parametrize(
    "header",
    [
        "cycles_G,instructions_G,branch_misses_M",
        "cycles x1e9,instructions x1e9,branch_misses x1e6",
        "cycles (Mrd),instructions (Mrd),branch_misses (Mio)",
        "Gcycles,Ginst,branch_misses (M)",
    ],
)
def test_all_columns_that_bear_a_scale_are_scaled(read, header):
    """Misses stood as they were beside cycles that were multiplied out: millions of cycles for each."""
    found = read(f"{header}\n0.993386,1.948676,3.297741\n0.5,0.25,1.5\n")
    counts = found.table.pivot(index="interval", columns="event", values="count")
    assert counts.loc[0].round().to_numpy() == pytest.approx(np.array([993_386_000, 1_948_676_000, 3_297_741]))


def test_thousands_that_may_be_the_kernels_are_a_caution(read):
    axes = {"time_event": "kcycles", "work_event": "kinstructions"}
    found = read("kcycles,kinstructions,branch-misses\n993385,1948676,3297741\n500000,900000,12345\n", **axes)
    assert any("kcycles, kinstructions may be thousands, or what the kernel did" in note for note in found.notes)
