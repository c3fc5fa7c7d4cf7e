"""The known answers of simulated runs."""

import pandas as pd
import pytest

import perfkit as pk
from perfkit.errors import FormatError, SettingError
from perfkit.simulators.pmu.truth import Truth, truth_of

# What each of these kernels was written to be held back by.
KNOWN = {
    "latency-multiply": "instruction_latency",
    "divider": "FPDivider",
    "store-forward": "store_forward_latency",
    "branchy": "misprediction_penalty",
    "triad": "memory_bandwidth",
}


@pytest.fixture(scope="module")
def truth():
    gus = pk.Gus(pk.Microarchitecture.load("skylake_x"))
    return truth_of(gus, [(name, pk.datasets.load(f"traces/{name}")) for name in KNOWN])


def test_the_bottleneck_is_what_the_kernel_was_written_for(truth):
    assert {run: truth.bottlenecks(run)[0] for run in truth.runs} == KNOWN
    assert truth.to_frame()["bottleneck"].to_dict() == {run: ", ".join(truth.bottlenecks(run)) for run in KNOWN}


def test_the_stack_is_the_account_of_the_simulation(truth):
    gus = pk.Gus(pk.Microarchitecture.load("skylake_x"))
    for run in truth.runs:
        whole = gus.run(pk.datasets.load(f"traces/{run}"))
        assert truth.cpi[run] == pytest.approx(1 / whole.ipc)
        stack = truth.stack.loc[run]
        pd.testing.assert_series_equal(stack[stack > 0].sort_index(), whole.cpi_stack().sort_index(), check_names=False)


def test_speedups_are_those_of_the_sensitivity(truth):
    gus = pk.Gus(pk.Microarchitecture.load("skylake_x"))
    found = pk.sensitivity(gus, pk.datasets.load("traces/divider"), (2.0,))
    expected = {name: s for (name,), s in zip(found.resources, found.speedup[:, 0], strict=True)}
    assert truth.speedup.loc["divider"].to_dict() == expected


def test_bottlenecks_near_the_largest_count_and_small_ones_do_not():
    speedup = pd.DataFrame([[0.5, 0.46, 0.1], [0.01, 0.0, 0.0]], index=["a", "b"], columns=["p", "q", "r"])
    stack = pd.DataFrame({"retire": [1.0, 1.0]}, index=["a", "b"])
    one = Truth("skylake_x", 2.0, stack, speedup, pd.Series({"a": "a", "b": "b"}))
    assert one.bottlenecks("a") == ("p", "q")
    assert one.bottlenecks("a", near=0.95) == ("p",)
    assert one.bottlenecks("b") == ()
    assert one.bottlenecks("b", least=0.005) == ("p",)
    with pytest.raises(SettingError, match="unknown run 'c'"):
        one.bottlenecks("c")


def test_it_is_read_as_it_was_written(truth, tmp_path):
    back = Truth.from_parquet(truth.to_parquet(tmp_path / "truth.parquet"))
    pd.testing.assert_frame_equal(back.stack, truth.stack)
    pd.testing.assert_frame_equal(back.speedup, truth.speedup)
    assert back.workload.to_dict() == truth.workload.to_dict()
    assert (back.core, back.weight, back.kind) == ("skylake_x", 2.0, "simulated")


def test_other_files_are_refused(tmp_path):
    pd.DataFrame({"a": [1]}).to_parquet(tmp_path / "other.parquet")
    with pytest.raises(FormatError, match=r"not one that Truth\.to_parquet wrote"):
        Truth.from_parquet(tmp_path / "other.parquet")
    (tmp_path / "text.parquet").write_text("no")
    with pytest.raises(FormatError, match="expected a parquet file"):
        Truth.from_parquet(tmp_path / "text.parquet")


def test_a_weight_that_makes_nothing_better_is_refused():
    gus = pk.Gus(pk.Microarchitecture.load("skylake_x"))
    with pytest.raises(SettingError, match="above 1"):
        truth_of(gus, [], 1.0)
