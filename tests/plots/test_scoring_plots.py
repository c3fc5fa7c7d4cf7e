import pandas as pd
import pytest

import perfkit as pk
from perfkit.errors import SettingError
from perfkit.plots.scoring import plot_components, plot_hits, plot_measures
from perfkit.scoring import spire_scores, stack_scores


@pytest.fixture(scope="module")
def shipped():
    samples, truth = pk.datasets.load("pmu/skylake_x"), pk.datasets.load("pmu/skylake_x-truth")
    # Three kernels are enough for a picture.
    runs = [r for r in map(str, samples.runs.index) if r.startswith(("branchy/", "triad/", "syrk/"))]
    return samples.select(runs=runs), truth


def words(artist):
    return " ".join(t.get_text() for t in artist.findobj(lambda a: hasattr(a, "get_text")))


def test_measures_are_bars_with_marks(shipped):
    rows = pd.DataFrame(
        {"score": [0.5, 0.2], "low": [0.4, 0.1], "high": [0.6, 0.3], "random order": [0.1, 0.1]}, index=["a", "b"]
    )
    axes = plot_measures(rows)
    assert [bar.get_width() for bar in axes.patches] == [0.5, 0.2]
    assert "SIMULATED" in words(axes)
    assert "random order" in words(axes)
    with pytest.raises(SettingError, match="low, high not found"):
        plot_measures(rows[["score"]])


def test_hits_rise_to_the_share_that_is_found_at_all(shipped):
    table = spire_scores(*shipped).table
    axes = plot_hits({"all": table}, most=5)
    line = axes.lines[0].get_ydata()
    assert line[0] == pytest.approx(table["top 1"].mean())
    assert line[4] == pytest.approx(table["top 5"].mean())
    assert axes.lines[1].get_ydata()[2] == pytest.approx(table["chance 3"].mean())
    assert "SIMULATED" in words(axes)


def test_components_have_a_panel_each(shipped):
    figure = plot_components(stack_scores(*shipped).table, ("base", "memory"))
    assert [axes.get_title() for axes in figure.axes] == ["base", "memory"]
    assert "SIMULATED" in words(figure)
