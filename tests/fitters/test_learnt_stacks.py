"""`pk.Bottlenecks.stacks`: a forest by hand, known stacks of simulated runs, what is not counted, and refusals."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

import perfkit as pk
from perfkit.errors import DataError, SettingError
from perfkit.fitters.bottlenecks.alike import Completed, deciding
from perfkit.fitters.bottlenecks.features import NAMES
from perfkit.fitters.bottlenecks.forest import Forest
from perfkit.fitters.bottlenecks.stacks import shares_of, stacks_of
from perfkit.plots.bottlenecks import plot_learnt_stacks
from perfkit.plots.cpi_stack import BASE_COLOUR
from perfkit.plots.style import AREA_COLOURS
from perfkit.scoring.evidence import COMPONENTS

KNOWN = {"branchy": "supported", "pointer-chase": "supported", "divider": "supported"}


def leaves(*shares: list[float]) -> Forest:
    """Trees of one leaf each, which predict these shares' roots whatever is asked."""
    trees = len(shares)
    value = np.sqrt(np.array(shares)).astype(np.float16)
    minus, none = np.full(trees, -1, dtype=np.int16), np.zeros(trees, dtype=np.float32)
    return Forest(
        np.arange(trees + 1, dtype=np.int32), minus, none, np.arange(trees, dtype=np.int32), value,
        np.array(["one"]), np.array(["base", "memory", "L2"][: value.shape[1]]),
        np.array([[0.0, 0.5, 1.0], [0.0, 0.1, 0.8]]), np.zeros(value.shape[1]), np.array("by hand"),
    )  # fmt: skip


@pytest.fixture(scope="module")
def simulated() -> pk.Samples:
    pmu = pk.SimulatedPmu("zen4", intervals=4)
    return pmu.collect({name: pk.datasets.load(f"traces/{name}") for name in KNOWN})


@pytest.fixture(scope="module")
def stacks(simulated) -> pk.LearntStacks:
    return pk.Bottlenecks.load("zen4").stacks(simulated)


def test_trees_that_agree_leave_no_doubt():
    shares, spread = shares_of(leaves([0.64, 0.36], [0.64, 0.36]), np.zeros((1, 1), dtype=np.float32))
    assert shares[0] == pytest.approx([0.64, 0.36], abs=1e-3)
    assert spread[0] == pytest.approx(0.0, abs=1e-6)


def test_trees_that_disagree_are_so_far_from_their_mean():
    """Roots (1, 0) and (0, 1) have the mean (1/2, 1/2): shares of one half, and each tree half of the cycles away."""
    forest = leaves([1.0, 0.0], [0.0, 1.0])
    two = [Completed.of(np.zeros((2, 1), dtype=np.float32))]
    table = stacks_of(forest, two, np.array([2.0, 3.0]), ["a", "b"], ["", "memory"])
    assert table["base"].tolist() == pytest.approx([1.0, 1.5])
    assert table["memory"].tolist() == pytest.approx([1.0, 1.5])
    assert table["distance"].tolist() == pytest.approx([0.1, 0.1])  # what a spread of one half was calibrated to
    assert table["verdict"].tolist() == ["uncertain", "unsupported"]


def test_one_tree_far_off_counts_for_nothing():
    shares, spread = shares_of(leaves([0.64, 0.36], [0.64, 0.36], [0.0, 1.0]), np.zeros((1, 1), dtype=np.float32))
    assert shares[0] == pytest.approx([0.64, 0.36], abs=1e-3)
    assert spread[0] == pytest.approx(0.64 / 3, abs=1e-3)


def test_trees_of_which_each_names_something_else_give_their_mean():
    """The median of every root is zero then."""
    forest = leaves([1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0])
    shares, spread = shares_of(forest, np.zeros((2, 1), dtype=np.float32))
    assert shares == pytest.approx(np.full((2, 3), 1 / 3), abs=1e-3)
    assert spread == pytest.approx(np.full(2, 2 / 3), abs=1e-3)


def test_a_feature_decides_only_by_values_that_differ():
    """Three ways, of which two name one class: parted by a feature that differs, nothing is left of 1 - 4/9 - 1/9."""
    x = np.array([[[0.5, 0.1, 0.3], [0.5, 0.1, 0.7], [0.5, 0.9, 0.3]]], dtype=np.float32)
    third = np.full((1, 3), 1 / 3)
    ways = Completed(np.arange(1), x, third, np.ones(3, dtype=np.bool_), {})
    first = np.array([[[1, 0], [1, 0], [0, 1]]]) / 3
    same, parts, mixes = deciding(ways, first)[0]
    assert same == 0.0
    assert parts == pytest.approx(4 / 9)
    assert mixes == pytest.approx(4 / 9 - 2 / 3 * 1 / 2)  # a pair of both classes, and one alone


def test_components_sum_to_the_cpi_that_was_counted(simulated, stacks):
    runs = stacks.runs.set_index("run")
    wide = simulated.to_wide().groupby("run", observed=True).sum()
    counted = wide["cycles"] / wide["instructions"]
    assert runs["cpi"].to_dict() == pytest.approx(counted.to_dict())
    assert runs[stacks.components].sum(axis=1).to_dict() == pytest.approx(runs["cpi"].to_dict())
    assert stacks.components == ["base", *COMPONENTS]
    assert stacks.kind == "simulated"


@pytest.mark.parametrize(("run", "verdict"), KNOWN.items())
def test_a_known_program_is_as_near_to_its_exact_stack_as_the_verdict_says(stacks, run, verdict):
    """At most 0.08 of the cycles are in the wrong place, also where a little more is expected there."""
    shares = stacks.of(run) / stacks.of(run).sum()
    assert stacks.runs.set_index("run").loc[run, "verdict"] == verdict
    assert sum(abs(shares[part] - value) for part, value in exact_parts(run).items()) / 2 <= 0.08


def test_without_telling_events_no_stack_is_supported(simulated):
    """Branch misses alone tell neither caches nor forwarding."""
    few = pk.Bottlenecks.load("zen4").stacks(simulated.select(events=["branches", "branch-misses"]))
    assert (few.runs["verdict"] == "unsupported").all()
    assert few.runs["missing"].unique().tolist() == ["store forwarding, L2, L3, memory, full buffers"]
    assert "no event tells store forwarding" in few.summary()


def exact_parts(run: str) -> dict[str, float]:
    """Return the exact share of each component in the cycles."""
    trace = pk.datasets.load(f"traces/{run}")
    causes = pk.Gus("zen4").run(trace).cpi_stack()
    parts = {part: float(causes.reindex(list(of)).sum() / causes.sum()) for part, (of, _) in COMPONENTS.items()}
    return {"base": 1.0 - sum(parts.values()), **parts}


@pytest.mark.parametrize(
    ("left", "dropped"),
    [
        ("all but memory's", ("l3", "pending", "occupancy.misses", "tlb")),
        ("all but branches'", ("branch",)),
        ("all but dividers'", ("ivider",)),
        ("all but misses of L3", ("l3.misses",)),
        ("l3.misses alone", None),
    ],
)
def test_events_that_were_not_counted_are_not_taken_for_nothing(simulated, left, dropped):
    """A pointer chase without events of memory was all base, nine tenths of its cycles in the wrong place, where 0.2 to
    0.3 were expected there.

    What is expected is a mean. Of one event alone it holds for the mean of the runs: nothing tells that one of them has
    half of its cycles behind mispredicted branches, and none is supported.
    """
    events = [e for e in simulated.events if dropped and not any(part in e for part in dropped)] or ["l3.misses"]
    found = pk.Bottlenecks.load("zen4").stacks(simulated.select(events=events)).runs.set_index("run")
    off = {}
    for run in KNOWN:
        shares = found.loc[run, ["base", *COMPONENTS]].astype(float) / found.loc[run, "cpi"]
        off[run] = sum(abs(shares[part] - value) for part, value in exact_parts(run).items()) / 2
        assert off[run] <= 0.08 or found.loc[run, "verdict"] != "supported"
        assert off[run] <= found.loc[run, "distance"] + 0.15 or not dropped, (run, off)
    assert sum(off.values()) / len(off) <= found["distance"].mean() + 0.15, off
    assert dropped or (found["verdict"] == "unsupported").all()


def test_events_that_do_not_matter_to_a_stack_change_none(simulated, stacks):
    """Dividers are part of the base, and what they took was counted as cycles without a start."""
    events = [e for e in simulated.events if "ivider" not in e]
    less = pk.Bottlenecks.load("zen4").stacks(simulated.select(events=events))
    for run in KNOWN:
        assert less.of(run).to_numpy() == pytest.approx(stacks.of(run).to_numpy(), abs=0.02 * stacks.of(run).sum())
        assert less.runs.set_index("run").loc[run, "verdict"] == KNOWN[run]


def test_the_expected_distance_never_falls_with_the_spread():
    forest = pk.datasets.load("bottlenecks/stacks")
    assert (np.diff(forest.levels[1]) >= 0).all()
    assert (np.diff(forest.levels[0]) >= 0).all()
    assert tuple(forest.features) == NAMES
    assert str(forest.digest) == pk.datasets.find("bottlenecks/runs").sha256[:16]


def test_time_must_be_in_cycles_and_instructions_must_be_counted():
    table = pd.DataFrame(
        {"run": "a", "interval": [0, 1], "event": "branch-misses", "time": 1.0, "work": 0.0, "count": 2.0}
    )
    model = pk.Bottlenecks.load("zen4")
    seconds = pk.Samples.from_frame(
        table.assign(work=1.0), kind="measured", time_event="seconds", work_event="instructions"
    )
    with pytest.raises(DataError, match="need cycles"):
        model.stacks(seconds)
    none = pk.Samples.from_frame(table, kind="measured", time_event="cycles", work_event="instructions")
    with pytest.raises(DataError, match="instructions for each run: they were not counted, or are 0"):
        model.stacks(none)


def test_the_parts_have_the_colours_of_fitted_stacks_and_areas(stacks):
    """The base was blue and memory brown; in the stack of a fit and in a ranking they are grey and green."""
    drawn = plot_learnt_stacks(stacks, Figure().subplots())
    bars = [to_hex(group.patches[0].get_facecolor()).upper() for group in drawn.containers]
    colours = dict(zip(stacks.components, bars, strict=True))
    assert colours["base"] == to_hex(BASE_COLOUR).upper()
    assert colours["memory"] == AREA_COLOURS["memory"].upper()
    assert colours["misprediction"] == AREA_COLOURS["bad speculation"].upper()
    assert len(set(bars)) == len(bars)


def test_an_unknown_run_is_named(stacks):
    with pytest.raises(SettingError, match="did you mean 'divider'"):
        stacks.of("dividr")
