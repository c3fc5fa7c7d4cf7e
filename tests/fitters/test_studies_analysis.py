import itertools
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import perfkit as pk
from perfkit.errors import DataError, FormatError, SettingError
from perfkit.fitters.studies.categories import Categories, _modes, _searched, as_frame
from perfkit.fitters.studies.decision_tree import Tree, folds_of, learning_data
from perfkit.fitters.studies.random_forest import Importance

mpl.use("Agg")


@pytest.fixture
def marta():
    folder = Path(__file__).parents[2].parent / "shared" / "data" / "marta"
    if not folder.is_dir():
        pytest.skip("the authors' gather tables are not beside the project (../shared/data/marta)")
    return folder


def mixture(means, sizes, sd=1.0, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"t": np.concatenate([rng.normal(m, sd, n) for m, n in zip(means, sizes, strict=True)])})


def planted(rows=400, noise=0.0, seed=0):
    """Times by a rule: 10 for N <= 4; else 20 for layout "row", 40 for "column"; a third column decides nothing."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "N": rng.integers(1, 9, rows),
            "layout": rng.choice(["row", "column"], rows),
            "nothing": rng.integers(0, 50, rows),
        }
    )
    table["t"] = np.where(table["N"] <= 4, 10.0, np.where(table["layout"] == "row", 20.0, 40.0))
    table["t"] += rng.normal(0, noise, rows) if noise else 0
    return table


# -- categories --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bandwidth", ["isj", "grid", 1.0])
def test_kde_finds_the_modes_of_a_mixture(bandwidth):
    means = [100, 120, 150]
    found = pk.KdeCategories("t", bandwidth, prominence=0.1).fit(mixture(means, [500, 300, 200]))
    assert len(found) == 3
    assert found.centroids == pytest.approx(means, abs=1)
    assert found.counts == (500, 300, 200)
    assert 100 < found.boundaries[0] < 120 < found.boundaries[1] < 150


def test_boundary_of_two_equal_modes_is_their_middle():
    data = np.concatenate([np.linspace(-1, 1, 201) - 10, np.linspace(-1, 1, 201) + 10])
    found = pk.KdeCategories("t", 1.0).fit(pd.DataFrame({"t": data}))
    assert found.boundaries == pytest.approx((0,), abs=0.02)


def test_silverman_is_the_published_rule_with_either_factor():
    """The default is KDEpy's, which MARTA calls: its factor (4 / 3)^(1/5), its IQR / 1.349 for a normal's 1.34."""
    from KDEpy.bw_selection import silvermans_rule

    table = mixture([0], [1000])
    data = table["t"]
    iqr = data.quantile(0.75) - data.quantile(0.25)
    spread = min(data.std(), iqr / 1.34) * 1000**-0.2
    assert pk.KdeCategories("t", "silverman-0.9").fit(table).bandwidth == pytest.approx(0.9 * spread)
    assert pk.KdeCategories("t", "silverman").fit(table).bandwidth == pytest.approx((4 / 3) ** 0.2 * spread)
    assert pk.KdeCategories("t").fit(table).bandwidth == pytest.approx(
        silvermans_rule(data.to_numpy()[:, None]), rel=0.01
    )


def test_log_scale_finds_decades_that_a_linear_scale_merges():
    rng = np.random.default_rng(1)
    table = pd.DataFrame({"t": np.concatenate([10.0**k * rng.lognormal(0, 0.1, 300) for k in range(4)])})
    found = pk.KdeCategories("t", 0.15, log=True).fit(table)
    assert len(found) == 4
    assert found.counts == (300,) * 4
    assert np.log10(found.centroids) == pytest.approx([0, 1, 2, 3], abs=0.05)


def test_fixed_bins():
    table = pd.DataFrame({"t": [0.0, 1, 2, 3, 4, 10]})
    assert pk.FixedBins("t", 5).fit(table).boundaries == pytest.approx((2, 4, 6, 8))
    assert pk.FixedBins("t", (2, 4)).fit(table).counts == (2, 2, 2)
    assert pk.FixedBins("t", 2, log=True).fit(table.iloc[1:]).boundaries == pytest.approx((10**0.5,))


def test_missing_values_stay_missing_and_are_counted():
    table = pd.DataFrame({"t": [1.0, 1.1, np.nan, 9.0, 9.1]})
    found = pk.KdeCategories("t", 0.5).fit(table)
    assert found.left_out == 1
    assert found.assign(table["t"]).tolist() == [0, 0, -1, 1, 1]


def test_moved_boundaries():
    table = mixture([0, 10], [100, 100])
    moved = pk.KdeCategories("t", 1.0).fit(table).with_boundaries([12, 5], table)
    assert moved.boundaries == (5, 12)
    assert len(moved) == 3
    with pytest.raises(SettingError, match="different"):
        moved.with_boundaries([5, 5], table)


def test_one_value_is_one_category():
    assert len(pk.KdeCategories("t").fit(pd.DataFrame({"t": [3.0, 3.0, 3.0]}))) == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pk.KdeCategories("tt").fit(pd.DataFrame({"t": [1]})), "did you mean 't'|known: t"),
        (lambda: pk.KdeCategories("t").fit(pd.DataFrame({"t": ["a"]})), "expected numbers"),
        (lambda: pk.KdeCategories("t").fit(pd.DataFrame({"t": [np.nan]})), "no values"),
        (lambda: pk.KdeCategories("t").fit(pd.DataFrame({"t": [1, np.inf]})), "infinite"),
        (lambda: pk.KdeCategories("t", log=True).fit(pd.DataFrame({"t": [0.0, 1.0]})), "not over 0"),
        (lambda: pk.KdeCategories("t", "isj").fit(pd.DataFrame({"t": [1.0, 2.0]})), "silverman"),
        (lambda: pk.KdeCategories("t", "silvermann"), "did you mean 'silverman'"),
        (lambda: pk.KdeCategories("t", 0.0), "over 0"),
        (lambda: pk.FixedBins("t", (3, 1)), "ascend"),
        (lambda: pk.DecisionTree([]), "at least one"),
        (lambda: pk.DecisionTree(["N"]).fit(pd.DataFrame({"N": [1], "t": [1.0]}), "t"), "folds need"),
        (lambda: pk.DecisionTree(["t"]).fit(planted(), "t"), "is the target"),
        (lambda: pk.RandomForest(["M"]).fit(planted(), "t"), "no column"),
    ],
)
def test_bad_input_is_an_error_that_says_why(call, message):
    with pytest.raises((DataError, SettingError), match=message):
        call()


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=60), st.floats(0.1, 50))
def test_categories_partition_the_values(values, width):
    table = pd.DataFrame({"t": values})
    found = pk.KdeCategories("t", width).fit(table)
    assert sum(found.counts) == len(values)
    assert list(found.boundaries) == sorted(found.boundaries)
    assert len(found.centroids) == len(found) == len(found.labels)
    assert np.bincount(found.assign(values), minlength=len(found)).tolist() == list(found.counts)


# -- trees and forests -------------------------------------------------------------------------------------------------


def test_tree_recovers_a_planted_rule():
    table = planted()
    categories = pk.FixedBins("t", (15, 30)).fit(table)
    tree = pk.DecisionTree(["N", "layout", "nothing"]).fit(table, categories)
    assert tree.score == 1
    assert len(tree.nodes) == 5
    root = tree.nodes[0]
    assert (root.feature, root.threshold) == ("N", 4.5)
    split = tree.nodes[root.right]
    assert (split.feature, split.equals) == ("layout", "row")
    assert tree.importance["nothing"] == 0
    assert sum(tree.importance.values()) == pytest.approx(1)
    assert (tree.predict(table) == categories.assign(table["t"])).all()
    leaf = int(tree.apply(table.iloc[[0]])[0])
    assert tree.rows_of(leaf, table).sum() == tree.nodes[leaf].samples
    assert tree.path(leaf)[0].startswith("N ")
    assert np.trace(tree.confusion) == len(table)


def test_regression_tree_finds_the_means():
    table = planted(noise=0.5)
    tree = pk.DecisionTree(["N", "layout"], max_depth=2).fit(table, "t")
    leaves = sorted(node.value[0] for node in tree.nodes if node.is_leaf)
    assert leaves[0] == pytest.approx(10, abs=0.2)
    assert leaves[-1] == pytest.approx(40, abs=0.2)
    assert tree.score > 0.99
    assert tree.is_regression


def test_rows_of_one_category_are_predicted_to_be_of_it():
    table = planted()
    categories = pk.FixedBins("t", (1e9,)).fit(table)
    tree = pk.DecisionTree(["N", "layout"]).fit(table, categories)
    assert set(tree.predict(table)) == {0.0}  # it was the number of rows
    assert tree.to_text().startswith(f"-> {tree.classes[0]}")
    assert list(tree.to_frame()["prediction"]) == [tree.classes[0]]


def test_predictions_are_scikit_learns():
    from sklearn.tree import DecisionTreeRegressor

    rng = np.random.default_rng(3)
    table = pd.DataFrame(rng.normal(size=(200, 3)), columns=list("abc"))
    table["t"] = table["a"] * 2 + np.sin(table["b"] * 3)
    ours = pk.DecisionTree(list("abc"), max_depth=6).fit(table, "t").predict(table)
    theirs = DecisionTreeRegressor(max_depth=6, random_state=0).fit(table[list("abc")], table["t"])
    assert ours == pytest.approx(theirs.predict(table[list("abc")]))


def test_repetitions_of_a_configuration_never_sit_on_both_sides():
    """A rule-free target: a tree can only remember. By rows it seems perfect, by configuration it is worthless."""
    rng = np.random.default_rng(0)
    base = pd.DataFrame({"N": range(60), "t": rng.normal(size=60)})
    table = pd.concat([base] * 5, ignore_index=True)
    by_row = pk.DecisionTree(["N"], max_depth=30).fit(table, "t")
    grouped = pk.DecisionTree(["N"], max_depth=30, group="N").fit(table, "t")
    assert by_row.score > 0.9
    assert grouped.score < 0.2


def test_folds_are_seeded_and_whole():
    groups = np.repeat(np.arange(20), 3)
    folds = folds_of(groups, 5, seed=1)
    assert np.sum(folds, axis=0).tolist() == [1] * 60
    assert all(set(groups[f]).isdisjoint(groups[~f]) for f in folds)
    assert all((a == b).all() for a, b in zip(folds, folds_of(groups, 5, seed=1), strict=True))


def test_a_fold_whose_other_values_are_equal_says_nothing_of_a_bandwidth():
    """Values among their equals are the likelier the narrower the density; the lone one has only equals left."""
    from perfkit.fitters.studies.categories import _searched, _silverman

    data = np.array([0.0, 0.0, 0.0, 1.0])
    assert _searched(data, 4, seed=0) == pytest.approx(0.05 * _silverman(data, 0.9))


def test_forest_ranks_what_decides_and_is_repeatable():
    table = planted()
    categories = pk.FixedBins("t", (15, 30)).fit(table)
    forest = pk.RandomForest(["N", "layout", "nothing"], trees=20)
    found = forest.fit(table, categories)
    assert found == forest.fit(table, categories)
    frame = found.to_frame()
    assert frame.index[-1] == "nothing"
    assert frame.loc["nothing", "permutation"] == pytest.approx(0, abs=0.02)
    assert frame.loc["N", "permutation"] > 0.2
    assert frame["mdi"].sum() == pytest.approx(1)
    assert found.without_effect == ("nothing",)
    assert "shuffling nothing changes nothing" in found.summary()


def test_shares_of_dimensions_without_effect_are_called_noise():
    """Shares sum to 1 whatever they share: 64 equal configurations must not name an important dimension."""
    rng = np.random.default_rng(3)
    table = pd.DataFrame(list(itertools.product(range(4), repeat=3)), columns=list("ABC"))
    table["t"] = 1000 * (1 + 0.002 * rng.standard_normal(64))
    result = pk.Analysis(
        categories={"target": "t"}, tree={"features": list("ABC")}, forest={"features": list("ABC")},
        regression={"features": list("ABC")},
    ).run(table)  # fmt: skip
    said = result.summary()
    assert said.count("not shown to be better than guessing: what it splits by may be noise") == 2
    assert "its shares may divide up noise" in said
    assert "may divide up noise" in result.pictures()["importance"].get_title()
    assert "guessing:" not in pk.DecisionTree(["N", "layout"]).fit(planted(), "t").summary()


def test_rows_with_missing_features_are_counted_not_guessed():
    table = planted()
    table["N"] = table["N"].astype(float)
    table.loc[:9, "N"] = np.nan
    tree = pk.DecisionTree(["N", "layout"]).fit(table, "t")
    assert (tree.rows, tree.left_out) == (390, 10)
    assert np.isnan(tree.predict(table)[:10]).all()


def test_results_are_saved_and_loaded(tmp_path):
    table = planted(noise=1)
    categories = pk.KdeCategories("t", 1.0, prominence=0.01).fit(table)
    tree = pk.DecisionTree(["N", "layout"]).fit(table, categories)
    forest = pk.RandomForest(["N"], trees=3).fit(table, categories)
    for kind, value in ((Categories, categories), (Tree, tree), (Importance, forest)):
        value.save(tmp_path / "x.json")
        again = kind.load(tmp_path / "x.json")
        assert repr(again) == repr(value)
    (tmp_path / "x.json").write_text("[]")
    with pytest.raises(FormatError):
        Tree.load(tmp_path / "x.json")


# -- the analysis file -------------------------------------------------------------------------------------------------

FILE = """
input: data.csv
derive: {double: "2 * N"}
filter: ["N > 0"]
normalize: {t: z-score}
categories: {target: t, method: bins, bins: [15, 30]}
tree: {features: [N, layout]}
regression: {features: [double, layout]}
forest: {features: [N, layout], trees: 5}
lines: [{x: N, y: t, by: [layout]}]
"""


def test_an_analysis_file_runs_whole(tmp_path):
    planted().to_csv(tmp_path / "data.csv", index=False)
    (tmp_path / "a.yaml").write_text(FILE)
    result = pk.Analysis.from_yaml(tmp_path / "a.yaml").run()
    assert result.tree.score == 1
    assert result.table["t.normalized"].mean() == pytest.approx(0, abs=1e-12)
    assert set(result.table["category"]) == {0, 1, 2}
    files = {path.name for path in result.save(tmp_path / "out").iterdir()}
    assert {"processed.csv", "tree.json", "tree.png", "distribution.png", "confusion.png", "lines-1.png"} <= files
    assert all((tmp_path / "out" / name).stat().st_size > 0 for name in files)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("inputs: x.csv", "did you mean 'input'"),
        ("input: none.csv", "no file matches"),
        ("input: data.csv\nfilter: ['N > 100']", "leaves no row"),
        ("input: data.csv\nfilter: ['M > 1']", "needs 'M'"),
        ("input: data.csv\ntree: {features: [N]}", "needs categories"),
        ("input: data.csv\ncategories: {target: t, bandwith: isj}", "did you mean 'bandwidth'"),
        ("input: data.csv\nnormalize: {layout: min-max}", "only numbers"),
        ("{}", "no input"),
    ],
)
def test_bad_analysis_files(tmp_path, text, message):
    planted().to_csv(tmp_path / "data.csv", index=False)
    (tmp_path / "a.yaml").write_text(text)
    with pytest.raises((DataError, SettingError), match=message):
        pk.Analysis.from_yaml(tmp_path / "a.yaml").run()


@pytest.mark.shared_data
def test_the_authors_gather_tables(marta):
    """Their Intel rows of 3, 4, 6 and 8 elements: six categories, and the lines touched decide nearly everything."""
    analysis = pk.Analysis(
        input=[f"{marta}/gather_scatter_*.csv.xz"],
        filter=["GATHER == 1"],
        derive={"WIDTH": "128 if ELEMS <= 4 else 256"},
        categories={"target": "tsc", "bandwidth": "silverman-0.9"},
        tree={"features": ["N_CL", "WIDTH", "ELEMS"]},
        forest={"features": ["N_CL", "WIDTH"], "trees": 50},
    )
    result = analysis.run()
    assert (result.rows_read, len(result.table)) == (4932, 2466)
    assert len(result.categories) == 6
    assert result.tree.score == pytest.approx(0.968, abs=0.006)  # the design page's figure and its spread
    default = pk.KdeCategories("tsc").fit(result.table)  # MARTA's factor: as many categories, other boundaries
    assert len(default) == 6
    assert default.bandwidth == pytest.approx(result.categories.bandwidth * (4 / 3) ** 0.2 / 0.9)
    assert result.tree.baseline == pytest.approx(0.6115, abs=1e-3)
    assert result.importance.mdi["N_CL"] == pytest.approx(0.997, abs=0.002)


# -- what MARTA has beside trees ---------------------------------------------------------------------------------------


def test_k_means_cuts_half_way_between_its_centres():
    table = mixture([100, 120, 150], [500, 300, 200])
    found = pk.KMeansCategories("t", 3).fit(table)
    assert found.counts == (500, 300, 200)
    assert found.centroids == pytest.approx((100, 120, 150), abs=0.2)
    assert found.boundaries == pytest.approx((110, 135), abs=0.2)
    decades = pk.KMeansCategories("t", 2, log=True).fit(pd.DataFrame({"t": [1.0, 1.0, 100.0, 100.0]}))
    assert decades.boundaries == pytest.approx((10,))
    with pytest.raises(DataError, match="2 different values: too few for 3"):
        pk.KMeansCategories("t", 3).fit(pd.DataFrame({"t": [1.0, 2.0]}))


@pytest.mark.parametrize("method", ["knn", "svm"])
def test_classifiers_tell_a_planted_rule_and_not_more_than_there_is(method):
    table = planted(noise=0.5)
    bins = pk.FixedBins("t", (15, 30)).fit(table)
    told = pk.Classifier(["N", "layout"], method=method).fit(table, bins)
    assert told.score > 0.97
    assert told.baseline == pytest.approx(max(bins.counts) / len(table))
    assert sum(map(sum, told.confusion)) == len(table)
    nothing = pk.Classifier(["nothing"], method=method).fit(table, bins)
    assert nothing.score < told.baseline + 0.1


def test_an_analysis_file_asks_for_classifiers_scatter_plots_and_formats(tmp_path):
    result = pk.Analysis(
        categories={"target": "t", "method": "kmeans", "bins": 3},
        classifiers=[{"features": ["N", "layout"]}, {"features": ["N"], "method": "svm"}],
        scatter=[{"x": "N", "y": "t", "by": ["layout"], "log_y": True}],
        formats=["svg", "pdf"],
    ).run(planted(noise=0.5))
    assert "knn: accuracy 1.000" in result.summary() or "knn: accuracy 0.99" in result.summary()
    result.save(tmp_path)
    assert {path.name for path in tmp_path.glob("scatter-1.*")} == {"scatter-1.svg", "scatter-1.pdf"}
    again = type(result).load(tmp_path)
    assert again.classifications == result.classifications
    assert len(again.pictures()["scatter-1"].lines) == 2


def test_a_support_vector_machine_of_one_category_tells_that_one():
    table = planted().assign(t=10.0)
    found = pk.Classifier(["N"], "svm").fit(table, pk.FixedBins("t", 1).fit(table))
    assert set(found.scores) == {1.0}


def test_rows_that_a_budget_predicted_were_measured_on_no_processor():
    table = planted().assign(processor=["one"] * 399 + [np.nan])
    assert pk.DecisionTree(["N"]).fit(table, "t").rows == 400


def test_rows_of_two_processors_are_not_mixed():
    table = planted().assign(processor=["one"] * 200 + ["other"] * 200)
    with pytest.raises(DataError, match=r"rows of 2 processors \(one, other\) do not compare"):
        pk.DecisionTree(["N"]).fit(table, "t")
    assert pk.DecisionTree(["N"]).fit(table.query("processor == 'one'"), "t").rows == 200
    runs = pk.StudyRuns(table.assign(status="ok", settled=True), pd.DataFrame(), ("N", "layout"), {})
    for fit in (pk.FixedBins("t", 2).fit, lambda runs: pk.DecisionTree(["N"]).fit(runs, "t")):
        with pytest.raises(DataError, match=r"rows of 2 processors \(one, other\) do not compare"):
            fit(runs)


def test_a_files_kind_of_data_is_that_of_its_study(tmp_path):
    pk.datasets.load("studies/fma").save(tmp_path / "fma.parquet")
    planted().to_csv(tmp_path / "t.csv", index=False)
    assert pk.Analysis(input="fma.parquet", folder=tmp_path).run().kind == "measured"
    assert pk.Analysis(input="t.csv", folder=tmp_path).run().kind == "unknown"
    both = pk.Analysis(input=("fma.parquet", "t.csv"), folder=tmp_path).run()
    assert both.kind == "mixed (measured, unknown)"


def test_a_grid_search_needs_a_value_for_each_fold():
    assert _searched(np.array([1.0, 2.0, 4.0]), 3, 0) > 0
    with pytest.raises(DataError, match="needs as many values"):
        _searched(np.array([1.0, 2.0]), 3, 0)


def test_a_valley_lies_between_its_peaks():
    peaks, valleys = _modes(np.arange(6.0), np.array([0.0, 3, 2, 3, 0, 0]), 0.1)
    assert (peaks.tolist(), valleys.tolist()) == ([1, 3], [2])


def test_the_error_of_a_regression_by_hand():
    # Each of two groups is predicted by the other's mean: 10 is off by 100 %, 20 by 50 %; the median is 75 %.
    table = pd.DataFrame({"N": [1, 1, 1, 1], "g": ["a", "a", "b", "b"], "t": [10.0, 10.0, 20.0, 20.0]})
    assert pk.DecisionTree(["N"], folds=2, group="g").fit(table, "t").error == pytest.approx(0.75)


def test_rows_without_a_group_are_a_group():
    table = pd.DataFrame({"N": [1, 2, 3, 4], "g": ["a", None, "a", None], "t": [1.0, 2.0, 3.0, 4.0]})
    assert learning_data(table, ["N"], "t", "g").groups.tolist() == [0, 1, 0, 1]


def test_the_depth_of_a_node_is_its_distance_from_the_root():
    nodes = pk.DecisionTree(["N", "layout"], max_depth=4).fit(planted(), "t").nodes
    assert [n.depth for n in nodes if n.parent < 0] == [0]
    assert all(n.depth == nodes[n.parent].depth + 1 for n in nodes if n.parent >= 0)
    assert max(n.depth for n in nodes) >= 2


def test_rows_that_a_study_did_not_measure_are_counted_from_its_folder_too(tmp_path):
    """Only the rows that were measured were counted as read."""
    runs = pk.datasets.load("studies/fma")
    table = runs.table.copy()
    table.loc[table.index[:4], ["status", "tsc"]] = ["failed", np.nan]
    table.loc[table.index[4:10], "settled"] = False
    settings = {"regression": {"features": ["WIDTH"], "target": "tsc"}, "filter": "INSTRUCTIONS > 0"}
    failed = pk.StudyRuns(table, runs.raw, runs.dimensions, runs.metadata)
    whole = pk.Analysis(**settings).run(failed)
    assert whole.rows_learnt == len(table) - 4
    told = (
        "4 rows left out: failed, not measured",
        f"6 of the {len(table) - 4} rows never settled: their figures may be off",
    )
    assert whole.about_rows == told
    assert whole.rows_read == len(table)
    again = type(whole).load(whole.save(tmp_path / "out"))
    assert again.about_rows == told
    assert pk.Analysis(**settings).run(runs).about_rows == ()


@pytest.mark.parametrize("features", [2, 6])
def test_the_legend_of_importances_hides_no_bar(features):
    """It lay over the last feature's bars, as long as the first one's."""
    from matplotlib.figure import Figure

    from perfkit.plots.studies import plot_importance

    equal = pd.DataFrame(
        {"mdi": np.ones(features), "permutation": np.ones(features), "permutation_spread": 0.2},
        index=[f"feature {k}" for k in range(features)],
    )

    class Result:
        target, score, spread, caveat = "t", 1.0, 0.0, ""

        def to_frame(self):
            return equal

    figure = Figure(figsize=(7, 1.4 + 0.5 * features), layout="constrained")
    axes = plot_importance(Result(), figure.subplots())
    figure.canvas.draw()
    legend = axes.get_legend().get_window_extent()
    assert not any(legend.overlaps(bar.get_window_extent()) for bar in axes.patches)


def test_the_path_to_a_node_says_which_rows_pass_through_it():
    """Also the condition of the root, which the first two nodes below it alone have."""
    rng = np.random.default_rng(5)
    table = pd.DataFrame({"a": rng.integers(0, 9, 200), "b": rng.integers(0, 9, 200)})
    table["t"] = 100.0 * (table["a"] > 4) + 10.0 * (table["b"] > 2) + table["a"]
    tree = pk.DecisionTree(["a", "b"], max_depth=3).fit(table, "t")
    assert len(tree.nodes) > 6
    for node in range(len(tree.nodes)):
        said = np.ones(len(table), dtype=bool)
        for condition in tree.path(node):
            said &= table.eval(condition).to_numpy()
        assert (said == tree.rows_of(node, table)).all()


class WithFrame:
    ok = "a word"

    def to_frame(self):
        return pd.DataFrame({"t": [1.0]})


def test_a_table_is_a_frame_or_what_gives_one():
    assert as_frame(WithFrame()).equals(pd.DataFrame({"t": [1.0]}))
    for other in (3, "t.csv", [1.0]):
        with pytest.raises(DataError, match="expected a DataFrame or an object with to_frame"):
            as_frame(other)


def test_the_first_picture_is_of_the_first_method_that_has_something_to_show():
    table = planted()
    asked = {"tree": {"features": ["N"]}, "forest": {"features": ["N"], "trees": 2}}
    for bins, first in (([15, 30], "tree"), ([1e9], "categories")):
        found = pk.Analysis(categories={"target": "t", "method": "bins", "bins": bins}, **asked).run(table)
        assert found.plot().get_title() == getattr(found, first).plot().get_title()
