"""The generated processor model: its ceilings, its accounting, and whether SPIRE and top-down find its truth."""

import numpy as np
import pandas as pd
import pytest

import perfkit as pk
from perfkit.collectors import synthetic
from perfkit.errors import SettingError
from perfkit.fitters.topdown import TopDown
from perfkit.samples.areas import AREAS, Areas


@pytest.fixture(scope="module")
def training():
    return synthetic.generate(intervals=40, seed=3)


@pytest.fixture(scope="module")
def analysed():
    return synthetic.generate(synthetic.ANALYSED, intervals=30, seed=4)


def points(samples, event):
    table = samples.table[samples.table["event"] == event]
    with np.errstate(divide="ignore"):
        return (table["work"] / table["count"]).to_numpy(), (table["work"] / table["time"]).to_numpy()


def with_ceiling(*signs):
    return [e for e, sign in synthetic.truth()["sign"].items() if sign in signs]


@pytest.mark.parametrize("event", with_ceiling("harmful", "beneficial"))
def test_no_sample_is_above_its_ceiling(training, event):
    intensity, throughput = points(training.samples, event)
    assert (throughput <= training.ceiling(event, intensity) * (1 + 1e-9)).all()


def test_ceilings_by_hand():
    # 16 cycles a misprediction: at one in 64 instructions, 1/4 + 16/64 = 1/2 cycle each.
    assert synthetic.ceiling("br_misp_retired.all_branches", [64, np.inf]).tolist() == [2.0, 4.0]
    # All micro-ops from the fast decoder: 4; none: 1 / (0.25 + 0.4).
    assert synthetic.ceiling("idq.dsb_uops", [1, np.inf]) == pytest.approx([4.0, 1 / 0.65])
    with pytest.raises(SettingError, match="no ceiling"):
        synthetic.ceiling("br_inst_retired.all_branches", [1])


@pytest.mark.parametrize("event", with_ceiling("harmful"))
def test_the_fitted_left_part_is_below_the_true_ceiling(training, event):
    """A hull over points below a concave ceiling is itself below it: SPIRE never promises more than is possible."""
    model = pk.Spire().fit(training.samples)
    roofline = model.rooflines[event]
    corners = roofline.breakpoints[1:]
    left = corners[corners[:, 0] <= roofline.peak_intensity, 0]
    between = np.concatenate([left, (left[1:] + left[:-1]) / 2])
    assert (roofline.bound(between) <= training.ceiling(event, between) * (1 + 1e-9)).all()


def test_more_training_comes_closer_to_the_ceiling():
    event = "br_misp_retired.all_branches"
    gaps = []
    for n in (6, 60):
        workloads = synthetic.training_workloads(5, n)
        g = synthetic.generate(workloads, intervals=30, seed=5)
        at = np.geomspace(30, 300, 20)
        gaps.append(float(np.mean(1 - pk.Spire().fit(g.samples).rooflines[event].bound(at) / g.ceiling(event, at))))
    assert gaps[1] < gaps[0]


def test_the_stacks_add_up_to_the_measured_cpi(analysed):
    stacks = analysed.stacks
    assert stacks[["base", *AREAS]].sum(axis=1).to_numpy() == pytest.approx(stacks["cpi"].to_numpy())
    for run in stacks.index:
        assert 1 / analysed.samples.select(runs=[run]).throughput() == pytest.approx(stacks.loc[run, "cpi"], rel=1e-6)
    assert analysed.bottleneck.to_dict() == {
        "front_end": "front-end",
        "bad_speculation": "bad speculation",
        "memory": "memory",
        "core": "core",
    }


def test_spire_finds_the_true_area(training, analysed):
    """Most of the three lowest events are of the true area; a stall counter of several areas may come before them."""
    model, areas = pk.Spire().fit(training.samples), Areas.load()
    for run, area in analysed.bottleneck.items():
        lowest = model.rank(analysed.samples.select(runs=[run])).to_frame()["event"].head(3)
        assert [areas.of(e) for e in lowest].count(area) >= 2, run


def test_the_shipped_workloads_have_their_names_as_bottlenecks():
    model, areas = pk.Spire().fit(pk.datasets.load("spire/train")), Areas.load()
    for name in ("front_end", "bad_speculation", "memory", "core"):
        lowest = model.rank(pk.datasets.load(f"spire/{name}")).to_frame()["event"].head(3)
        assert [areas.of(e) for e in lowest].count(name.replace("front_", "front-").replace("_", " ")) >= 2, name


def test_top_down_finds_the_models_accounting(analysed):
    fractions = TopDown().fit(analysed.samples).runs
    share = analysed.stacks[["base", "front-end", "bad speculation"]].div(analysed.stacks["cpi"], axis=0)
    share.columns = ["retiring", "front_end", "bad_speculation"]
    share["back_end"] = 1 - share.sum(axis=1)
    pd.testing.assert_frame_equal(fractions, share, check_exact=False, rtol=1e-5)


def test_the_same_seed_gives_the_same_samples():
    one, two, other = (synthetic.generate({"a": {}}, intervals=5, seed=s, noise=0.1).samples.table for s in (1, 1, 2))
    pd.testing.assert_frame_equal(one, two)
    assert not one["count"].equals(other["count"])


def test_generated_samples_are_labelled(training):
    assert training.samples.kind == "generated"
    assert training.samples.runs["host"].str.contains("not measured").all()
    assert (synthetic.generate({"a": {}}, intervals=2, noise=0.5).samples.table["count"] >= 0).all()


@pytest.mark.parametrize(
    "wrong",
    [
        {"workloads": {"a": {"no such event": 1.0}}},
        {"workloads": {"a": {"memory": -1.0}}},
        {"workloads": {"a": {"slow decode": 2.0}}},
        {"intervals": 0},
        {"noise": -0.1},
        {"seconds": 0.0},
    ],
)
def test_impossible_settings_are_refused(wrong):
    with pytest.raises(SettingError):
        synthetic.generate(**wrong)
