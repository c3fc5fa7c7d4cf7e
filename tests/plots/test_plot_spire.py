"""The pictures of SPIRE: what is on them, not how they look."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

mpl.use("agg")


import perfkit as pk
from perfkit.errors import SettingError
from perfkit.fitters.spire.roofline import fit_roofline
from perfkit.fitters.topdown import TopDown
from perfkit.plots.spire import event_points

EVENT = "br_misp_retired.all_branches"


@pytest.fixture(scope="module")
def train():
    return pk.datasets.load("spire/train")


@pytest.fixture(scope="module")
def analysed():
    return pk.datasets.load("spire/bad_speculation")


@pytest.fixture(scope="module")
def model(train):
    return pk.Spire().fit(train)


@pytest.mark.parametrize("scale", ["log", "linear"])
def test_a_roofline_with_its_samples(model, train, analysed, scale):
    ax = model.plot(event=EVENT, training=train, analysed=analysed, scale=scale)
    ax.figure.canvas.draw()
    assert ax.get_title().endswith("[generated data]")
    assert EVENT in ax.get_xlabel()
    assert ax.get_xscale() == scale
    labels = [t.get_text() for t in ax.get_legend().get_texts()]
    assert labels == ["training samples (generated)", "analysed samples (generated)", "bound", "peak"]
    drawn = sum(len(c.get_offsets()) for c in ax.collections)
    assert drawn == len(event_points(train, EVENT)) + len(event_points(analysed, EVENT))
    line = next(x for x in ax.lines if x.get_label() == "bound")
    at, bound = line.get_data()
    np.testing.assert_allclose(bound, model.rooflines[EVENT].bound(at))


def test_a_roofline_without_samples_or_right_part():
    frame = pd.DataFrame({"event": ["a"] * 2, "time": [1, 1], "work": [1, 2], "count": [1, 0]})
    ax = pk.Spire().fit(pk.Samples.from_frame(frame)).plot(event="a")
    ax.figure.canvas.draw()
    assert ax.get_title() == "a"
    with pytest.raises(SettingError, match="log or linear"):
        pk.Spire().fit(pk.Samples.from_frame(frame)).plot(event="a", scale="cubic")


def test_a_ranking(model, analysed):
    ranking = model.rank(analysed)
    ax = ranking.plot(top=5)
    ax.figure.canvas.draw()
    assert [p.get_width() for p in ax.patches[:5]] == ranking.to_frame()["throughput_bound"].head(5).tolist()
    names = [t.get_text().removesuffix(" *") for t in ax.get_yticklabels()]
    assert names == ranking.to_frame()["event"].head(5).tolist()
    assert "generated" in ax.get_title()
    with pytest.raises(SettingError):
        ranking.plot(top=0)


def test_top_down_fractions(analysed):
    ax = TopDown().fit(analysed).plot()
    ax.figure.canvas.draw()
    assert sum(p.get_width() for p in ax.patches) == pytest.approx(1.0)
    assert "generated" in ax.get_title()


def test_thinning_keeps_what_the_roofline_rests_on(train):
    full, thin = event_points(train, EVENT), event_points(train, EVENT, most=200)
    assert len(thin) == 200 < len(full)
    one, two = (fit_roofline(p["intensity"], p["throughput"]) for p in (full, thin))
    np.testing.assert_array_equal(one.breakpoints, two.breakpoints)
    assert event_points(train, EVENT, most=10**6).equals(full)
