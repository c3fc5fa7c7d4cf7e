"""NoiseView without a browser: what is drawn are the curves."""

import dataclasses

import perfkit as pk
from perfkit_widgets import NoiseView


def test_a_curve_that_leaves_the_picture_at_once_is_drawn_up_to_its_edge():
    """Points above the edge were left out: of a kind that costs 20 times at once, one point at the left remained."""
    result = pk.datasets.load("noise/zen4/additions")
    kind = result.kinds[0]
    curves = result.curves.copy()
    steep = (curves["kind"] == kind) & (curves["added"] > 0)
    curves.loc[steep, ["slowdown", "low", "high"]] *= 20
    view = NoiseView(dataclasses.replace(result, curves=curves), kind)
    assert view._measured.y.tolist() == curves.loc[curves["kind"] == kind, "slowdown"].tolist()
    assert view._measured.scales["y"].max < view._measured.y[-1]  # which is where bqplot cuts it
