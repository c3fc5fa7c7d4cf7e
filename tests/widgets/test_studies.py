import html

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

import perfkit as pk
import perfkit_widgets as pw
from perfkit.errors import SettingError
from perfkit.plots.studies import plot_lines

mpl.use("Agg")


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"N": rng.integers(1, 9, 300), "layout": rng.choice(["row", "column"], 300)})
    frame["t"] = np.where(frame["N"] <= 4, 10.0, np.where(frame["layout"] == "row", 20.0, 40.0))
    frame["t"] += rng.normal(0, 0.5, 300)
    return frame


@pytest.fixture
def view(table):
    features = ["N", "layout"]
    return pw.StudyExplorer(
        table, features, categorise=pk.KdeCategories("t", 1.0, prominence=0.01).fit,
        grow=pk.DecisionTree(features, max_depth=3).fit, rank=pk.RandomForest(features, trees=5).fit,
    )  # fmt: skip


@pytest.fixture
def tree(table):
    return pk.DecisionTree(["N", "layout"]).fit(table, pk.FixedBins("t", (15, 30)).fit(table))


def test_a_dimension_that_is_not_named_stays_as_it_is(view):
    view.chosen = {"layout": ["row"]}
    assert set(view.table()["layout"]) == {"row"}
    assert set(view.table()["N"]) == set(range(1, 9))
    view.chosen = {"N": [1, 2]}
    assert set(view.table()["layout"]) == {"row"}


def test_one_category_is_shown_too(table):
    one = pw.StudyExplorer(
        table, ["N", "layout"], categorise=pk.FixedBins("t", ()).fit, grow=pk.DecisionTree(["N", "layout"]).fit
    )
    assert len(one.table()) == 300


def test_large_numbers_of_rows_have_separators(table):
    many = pd.concat([table] * 10, ignore_index=True)
    view = pw.StudyExplorer(
        many, ["N", "layout"], categorise=pk.FixedBins("t", ()).fit, grow=pk.DecisionTree(["N", "layout"]).fit
    )
    assert "3,000 of 3,000 configurations" in view._head.value
    assert ": 3,000" in view._legend.value


def test_a_node_selects_its_rows(tree, table):
    view = pw.TreeView(tree, table)
    assert len(view.rows) == 300
    view._canvas.set_state({"selected": tree.nodes[0].left})  # as a click in the browser does
    assert view.node == tree.nodes[0].left
    assert (view.rows["N"] <= 4).all()
    assert len(view.table()) == len(view.rows) == tree.nodes[view.node].samples
    assert "N &lt;= 4.5" in view._path.value
    with pytest.raises(SettingError, match="no node 99"):
        view.node = 99


def test_the_drawing_has_every_node_in_its_place(tree, table):
    nodes = pw.TreeView(tree, table)._canvas.nodes
    assert len(nodes) == len(tree.nodes)
    assert len({(node["x"], node["y"]) for node in nodes}) == len(nodes)
    assert nodes[0]["share"] == 1
    assert all(nodes[node["parent"]]["y"] == node["y"] - 1 for node in nodes[1:])


def test_the_static_picture_travels_with_the_view(tree, table, view):
    for one in (pw.TreeView(tree, table), pw.TreeView(tree), view):
        assert one.png().startswith(b"\x89PNG")


def test_choosing_values_learns_from_those_rows_alone(view, table):
    assert len(view.categories) == 3
    view._controls["layout"].value = ("row",)
    assert view.chosen["layout"] == ("row",)
    assert len(view.frame) == (table["layout"] == "row").sum()
    assert set(view.table()["layout"]) == {"row"}
    assert len({node.feature for node in view.tree.nodes} - {""}) == 1
    view._take_all()
    assert len(view.frame) == 300


def test_dragged_and_typed_boundaries_are_the_same_thing(view):
    view._handles.x = np.array([15.0, 35.0])
    view._dragged()
    assert view.boundaries == (15.0, 35.0)
    assert view.categories.boundaries == (15.0, 35.0)
    assert view.tree.classes == view.categories.labels
    view._typed.value = "18"
    assert view.boundaries == (18.0,)
    assert len(view.categories) == 2
    view._refit()
    assert len(view.categories) == 3
    assert list(view._handles.x) == list(view.boundaries)


def test_many_boundaries_are_shown_in_fewer_digits_and_stay_what_they_are(view):
    """A field that a narrow page cut: seven boundaries of six digits. One that is added moves none of the others."""
    target = view.frame[view.target]
    many = tuple(float(x) for x in np.linspace(target.quantile(0.1), target.quantile(0.9), 7) + 0.123456)
    view.boundaries = many
    shown = view._typed.value
    assert len(shown) <= 44
    assert len(shown.split(", ")) == 7
    view._typed.value = shown.rpartition(", ")[0]
    assert view.boundaries == many[:6]


def test_faults_are_said_and_leave_the_view_as_it_was(view):
    before = view.boundaries
    view._typed.value = "15, lots"
    assert "numbers with commas" in view._note.value
    assert view.boundaries == before
    view._controls["N"].value = ()
    assert "pk-note" in view._note.value
    assert len(view.frame) == 300
    view._take_all()
    assert view._note.value == ""


def test_a_node_narrows_the_lines(view):
    view.x, view.by = "N", "layout"
    assert sum(mark.visible for mark in view._series) == 2
    view.node = view.tree.nodes[0].left
    xs = np.concatenate([mark.x for mark in view._series if mark.visible])
    assert xs.max() <= 4
    view.x = "layout"
    view.by = ""
    assert sum(mark.visible for mark in view._series) == 1


def test_unknown_features_are_errors(table):
    with pytest.raises(SettingError, match="did you mean 'layout'"):
        pw.StudyExplorer(table, ["layuot"], categorise=None, grow=None)


def test_long_names_lose_their_middle_in_nodes_and_on_axes():
    """One name of C++ made every node of the tree wider than the page, and lay over its neighbours on the axis."""
    long = "std::vector<std::pair<int, std::string>, std::allocator<std::pair<int, std::string>>>::emplace_back"
    frame = pd.DataFrame({"KIND": ["short", long] * 10, "tsc": [1.0, 100.0] * 10})
    features = ["KIND"]
    view = pw.StudyExplorer(
        frame,
        features,
        categorise=pk.FixedBins("tsc", (10.0,)).fit,
        grow=pk.DecisionTree(features, max_depth=2).fit,
    )
    lines = [line for node in view._tree._canvas.nodes for line in node["lines"]]
    assert max(map(len, lines)) <= 41
    assert any(long in node["title"] for node in view._tree._canvas.nodes)  # whole where the pointer rests
    texts = list(view._line_axes[0].tick_labels.values())
    assert "short" in texts
    assert all(len(text) < 30 for text in texts)


def test_a_line_has_the_colour_of_the_picture_beside_it(view, table):
    """The static lines and the explorer's had two palettes."""
    view.x, view.by = "N", "layout"
    shown = [mark.colors[0].lower() for mark in view._series if mark.visible]
    drawn = plot_lines(table, "N", "t", ["layout"], ax=Figure().subplots())
    assert [mpl.colors.to_hex(line.get_color()) for line in drawn.lines] == shown


def test_thirty_lines_are_all_drawn_and_told_apart():
    many = pd.DataFrame(
        {"x": [1, 2] * 30, "y": np.arange(60.0), "kind": np.repeat([f"k{i:02d}" for i in range(30)], 2)}
    )
    lines = plot_lines(many, "x", "y", ["kind"], ax=Figure().subplots()).lines
    assert len({(line.get_color(), line.get_linestyle(), line.get_marker()) for line in lines}) == 30


@pytest.mark.parametrize("typed", ["18", None])
def test_a_valid_entry_takes_the_old_message_away(view, typed):
    same = ", ".join(f"{value:.17g}" for value in view.boundaries)  # the boundaries that are shown already
    view._typed.value = "abc"
    assert "not 'abc'" in html.unescape(view._note.value)
    view._typed.value = typed or same
    assert view._note.value == ""
    assert view._typed.value == ", ".join(f"{value:.6g}" for value in view.boundaries)
