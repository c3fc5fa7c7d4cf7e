"""Every picture of an analysis can be read, also where there is next to nothing to draw."""

import re

import numpy as np
import pandas as pd
import pytest

from perfkit.fitters.studies.analysis import Analysis
from perfkit.fitters.studies.categories import FixedBins
from perfkit.plots.studies import pictures, plot_distribution, plot_lines, plot_scatter, with_unit
from tests.browser.inked import Eye, of_axes

RNG = np.random.default_rng(3)
SIZES = np.tile(2.0 ** np.arange(6), 10)
FAMILIES = {
    "one value": np.full(60, 100.0),
    "one category": 100 + RNG.normal(size=60),
    "two categories": np.where(SIZES > 4, 300, 100) + RNG.normal(size=60),
}
SETTINGS = """
input: table.csv
categories: {target: tsc, log: false}
tree: {features: [N, KIND]}
regression: {features: [N, KIND]}
forest: {features: [N, KIND], trees: 5}
classifiers: [{features: [N], method: knn}]
lines: [{x: N, y: tsc, by: [KIND]}]
scatter: [{x: N, y: tsc, by: [KIND]}]
"""


@pytest.fixture(scope="module", params=FAMILIES)
def result(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("analysis")
    table = pd.DataFrame({"N": SIZES, "KIND": ["short", "rather long a name"] * 30, "tsc": FAMILIES[request.param]})
    table.to_csv(folder / "table.csv", index=False)
    (folder / "analysis.yaml").write_text(SETTINGS)
    return Analysis.from_yaml(folder / "analysis.yaml").run()


@pytest.mark.filterwarnings("error")
def test_no_text_of_any_picture_is_cut_off_covered_or_faint(result):
    seen = {}
    for name, ax in pictures(result).items():
        with Eye() as eye:
            ax.figure.savefig("/dev/null", format="png", dpi=110)
        faults = eye.faults + [fault for axes in ax.figure.axes for fault in of_axes(axes)]
        if faults:
            seen[name] = faults
    assert seen == {}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("groups", [2, 12, 66])
def test_a_picture_is_as_high_as_its_legend(groups):
    of = np.tile(np.arange(groups), 4)
    table = pd.DataFrame({"N": np.arange(len(of)), "KIND": of, "tsc": 100.0 * of + RNG.normal(size=len(of))})
    categories = FixedBins("tsc", bins=groups).fit(table)
    drawn = [
        plot_distribution(categories, table),
        plot_lines(table, "N", "tsc", ["KIND"]),
        plot_scatter(table, "N", "tsc", ["KIND"]),
    ]
    for ax in drawn:
        ax.figure.savefig("/dev/null", format="png", dpi=110)
        legend = ax.get_legend().get_window_extent()
        assert legend.y0 >= 0, ax.get_title()
        assert (ax.figure.get_figheight() < 4.5) == (groups < 20)


def test_lines_lie_within_their_picture(result):
    ax = pictures(result)["lines-1"]
    assert all(0 < y.max() < 0.97 * ax.get_ylim()[1] for y in (line.get_ydata() for line in ax.lines))


def test_one_is_one_category(result):
    assert not re.search(r"\b1 (categories|nodes|rows)", result.summary())


def test_a_column_whose_unit_nobody_knows_is_in_that_of_the_table():
    assert with_unit("N") == "N (as in the table)"
    assert with_unit("ns") == "ns (nanoseconds)"
