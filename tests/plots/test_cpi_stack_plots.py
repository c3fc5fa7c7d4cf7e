"""Pictures of CPI stacks show what the fits hold."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

import perfkit as pk
from perfkit.plots import cpi_stack as plots
from perfkit.plots.style import ACCENT, SERIES

mpl.use("Agg")


@pytest.fixture(scope="module")
def fit():
    samples, _ = pk.synthetic_cpi(intervals=200, seed=1)
    return pk.CpiStack(resamples=50).fit(samples)


def heights(ax):
    return {c.get_label(): [p.get_height() for p in c.patches] for c in ax.containers}


def test_bars_are_the_components(fit):
    ax = fit.plot()
    found = heights(ax)
    seen = fit.components[fit.components >= plots.THIN * fit.cpi]
    assert 2 < len(seen) < len(fit.components)
    named = {k: v[0] for k, v in found.items() if k != "unattributed" and "too thin" not in k}
    assert named == pytest.approx(seen.to_dict())
    assert "(generated)" in ax.get_xticklabels()[0].get_text()


def test_many_events_are_drawn_as_others_and_stacks_keep_their_height(fit):
    ax = plots.plot_stacks({"a": fit, "b": fit.refit(events=["branch-misses"])}, at_most=2)
    found = heights(ax)
    assert "4 others" in found
    assert sum(v[0] for v in found.values()) == pytest.approx(fit.cpi)
    assert sum(v[1] for v in found.values()) == pytest.approx(fit.cpi)


def test_the_line_of_a_prediction_ends_with_each_run():
    samples, _ = pk.synthetic_cpi(intervals=60, seed=1)
    table = samples.table.assign(run=samples.table["run"].astype(str))
    table.loc[table["interval"] >= 30, "run"] = "later"
    frame = table[["run", "interval", "at", "seconds", "event", "count"]]
    two = pk.CpiStack(resamples=0).fit(pk.Samples.from_counts(frame))
    predicted = plots.plot_prediction(two).lines[1].get_ydata()
    assert np.flatnonzero(np.isnan(predicted)).tolist() == [30]


def test_the_legend_names_no_part_that_is_too_thin_to_see(fit):
    thin = fit.refit(events=["branch-misses", "LLC-load-misses", "dTLB-load-misses", "iTLB-load-misses"])
    thin.components[["dTLB-load-misses", "iTLB-load-misses"]] = 1e-5
    ax = plots.plot_stacks({"w": thin})
    assert [text.get_text() for text in ax.get_legend().get_texts()][-1] == "base"
    named = {text.get_text() for text in ax.get_legend().get_texts()}
    assert "2 others (too thin to see)" in named
    assert not named & {"dTLB-load-misses", "iTLB-load-misses"}
    tallest = sum(p.get_height() for c in ax.containers for p in c.patches)
    told = {c.get_label(): c.patches[0].get_height() for c in ax.containers if "too thin" not in c.get_label()}
    assert min(told.values()) > plots.THIN * tallest


def test_the_stack_of_a_simulated_run_keeps_its_height_and_names_what_can_be_seen():
    run = pk.Gus(pk.Microarchitecture.load("skylake_x")).run(pk.datasets.load("traces/correlation-v5-small"))
    ax = run.plot()
    widths = {c.get_label(): c.patches[0].get_width() for c in ax.containers}
    whole = run.cpi_stack()
    assert sum(widths.values()) == pytest.approx(whole.sum())
    thin = whole[(whole > 0) & (whole < plots.THIN * whole.sum())]
    assert len(thin) > 1
    assert not set(widths) & set(thin.index)
    assert any(name.startswith(f"{len(thin)} others") for name in widths)


def test_the_legend_of_learnt_stacks_names_what_can_be_seen():
    from perfkit.fitters.bottlenecks.stacks import LearntStacks

    row = {
        "run": "a",
        "cpi": 2.0,
        "base": 1.5,
        "L2": 0.5,
        "L3": 0.001,
        "distance": 0.1,
        "missing": "",
        "verdict": "supported",
    }
    ax = LearntStacks(pd.DataFrame([row]), "zen4", "zen4", "simulated").plot()
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["base", "L2"]
    assert sum(bar.get_width() for bar in ax.patches) == pytest.approx(2.001)
    assert ax.get_xlim()[1] > 2.001


def test_negative_components_are_drawn_below_zero(fit):
    least = fit.refit(method="ols")
    least.components.iloc[1] = -0.1
    ax = plots.plot_stacks({"w": least})
    below = [p for c in ax.containers for p in c.patches if p.get_height() < 0]
    assert [p.get_y() for p in below] == [0.0]


def test_the_other_pictures_draw_every_interval_and_part(fit):
    line = plots.plot_prediction(fit).lines[0]
    assert len(line.get_xdata()) == 200
    assert len(plots.plot_residuals(fit).lines[0].get_xdata()) == 200
    assert len(plots.plot_penalties(fit).get_yticks()) == 7
    axes = plots.plot_gauges(fit)
    assert axes[0].patches[0].get_width() == pytest.approx(max(fit.placebo_r2, 0))
    matrix = fit.correlation()
    matrix.iloc[0, 1] = np.nan
    assert len(plots.plot_correlation(matrix).texts) == 48
    samples, _ = pk.synthetic_cpi(intervals=200, seed=1)
    paper = pk.paper_cpi_stack(samples)
    assert sum(p.get_height() for p in paper.plot().patches) == pytest.approx(paper.predicted_cpi)
    comparison = pk.CpiComparison({"a": fit, "b": fit})
    assert len(comparison.plot().get_xticks()) == 2


def test_colours_tell_events_apart():
    palette = plots.colours([f"e{i}" for i in range(20)])
    assert len(set(palette.values())) == 22


@pytest.mark.parametrize(("form", "other"), [("ipc", "CPI form"), ("cpi", "IPC form")])
def test_the_two_forms_have_the_names_and_colours_of_the_explorer(fit, form, other):
    """The picture said "the other form", in red; the explorer beside it names the form, in dark orange."""
    ax = plots.plot_penalties(fit.refit(form=form))
    drawn = {line.get_label(): mpl.colors.to_hex(line.get_color()).upper() for line in ax.lines}
    assert drawn == {f"{form.upper()} form": SERIES[0], other: ACCENT}


def test_the_figure_of_a_stack_stands_above_the_whisker_of_a_base_that_takes_all():
    """The whisker struck through the CPI's figure and ran out of the picture at the top."""
    rng = np.random.default_rng(2)
    counts = {
        "cycles": rng.integers(600_000, 1_600_000, 40),
        "instructions": 1_000_000,
        "loads": rng.integers(1, 99, 40),
    }
    table = pd.DataFrame(counts).melt(var_name="event", value_name="count", ignore_index=False)
    samples = pk.Samples.from_counts(table.reset_index(names="interval").assign(run="a"))
    fit = pk.CpiStack(resamples=50).fit(samples)
    high = float(fit.intervals_of(fit.component_draws)[1]["base"])
    assert high > fit.cpi
    ax = fit.plot()
    figure = next(text for text in ax.texts if text.get_text() == f"{fit.cpi:.3f}")
    assert figure.xy[1] >= high
    assert ax.get_ylim()[1] > high
