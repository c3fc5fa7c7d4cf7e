"""Bars of what better resources would bring."""

import pandas as pd

from perfkit.plots.gus import plot_speedups


def test_resources_that_bring_nothing_get_no_bars_of_zero_length():
    """They are counted below the axis; where none brings anything, one bar says so."""
    names = ["latency", "p1", "rob", "retire"]
    frame = pd.DataFrame({"resource": names, "x2": [0.9, 0.04, 0.001, 0.0]})
    ax = plot_speedups(frame, "Sensitivity")
    assert [label.get_text() for label in ax.get_yticklabels()] == ["p1", "latency"]
    assert ax.get_xlabel().endswith("\n2 more resources bring too little to see")
    ax = plot_speedups(frame.assign(x2=0.0), "Sensitivity")
    assert [label.get_text() for label in ax.get_yticklabels()] == ["latency"]
    assert len(ax.containers[0]) == 1
    assert "more" not in plot_speedups(frame.head(2), "Sensitivity").get_xlabel()


def test_the_legend_names_the_weights_in_the_order_of_their_bars():
    """The legend began with the smallest weight, whose bar is the lowest of each resource."""
    ax = plot_speedups(pd.DataFrame({"resource": ["a", "b"], "x1.5": [0.2, 0.1], "x2": [0.4, 0.3]}), "Sensitivity")
    heights = {bars.get_label(): bars[0].get_y() for bars in ax.containers}
    told = [text.get_text() for text in ax.get_legend().get_texts()]
    assert told == sorted(heights, key=heights.get, reverse=True) == ["x2", "x1.5"]
