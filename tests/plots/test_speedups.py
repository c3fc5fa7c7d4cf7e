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
