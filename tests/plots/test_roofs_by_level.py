"""Several kernels below the roofs of one core: what is drawn, where labels lie, and what the pointer is told."""

import math
import re

import matplotlib as mpl
import numpy as np
import pytest

import perfkit as pk
from perfkit.cli.output import write_picture
from perfkit.cli.pages.answer import write_page
from perfkit.cli.pages.levels import of_levels
from perfkit.errors import SettingError
from perfkit.plots.extended_roofline import COLOURS, STALL_COLOURS, TYPE_COLOURS, UNNAMED
from perfkit.plots.roofs_by_level import _intensities, host_gid, host_titles, level_titles, plot_levels, svg_with

mpl.use("Agg")


@pytest.fixture(scope="module")
def rooflines():
    scheduler = pk.DagScheduler(pk.DagCore.load("zen4"), record=False)
    dags = pk.open_dags("mvm,reduction", sizes=[20, 300])
    return {name: scheduler.run(dag).roofline() for name, dag in dags.items()}


def test_roofs_that_the_legend_does_not_name_are_counted_there(rooflines):
    """They were drawn in the colours of those that it names."""
    roofline = rooflines["mvm, 300"] if "mvm, 300" in rooflines else next(iter(rooflines.values()))
    ax = roofline.plot(labels=3)
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    thin = [line for line in ax.lines if line.get_linewidth() < 1]
    assert {line.get_color() for line in thin} == {UNNAMED["color"]}
    assert len(ax.lines) == len(roofline.roofs) + 1
    more = next(text for text in texts if "more roof" in text)
    assert more.startswith(f"{len(thin)} more roof")
    assert len(texts) == len(ax.lines) - len(thin) + 1
    assert "more roof" not in str([t.get_text() for t in roofline.plot(labels=99).get_legend().get_texts()])


def test_each_level_has_its_intensity_and_its_roof(rooflines):
    ax = plot_levels(rooflines)
    marked = {line.get_gid(): line for line in ax.lines if line.get_gid()}
    assert set(marked) == set(level_titles(rooflines, {}))
    for name, roofline in rooflines.items():
        s = roofline.schedule
        x, y = (float(v[0]) for v in marked[f"{name}: L1"].get_data())
        assert (x, y) == (s.work / s.traffic, s.performance)
    beyond = rooflines["mvm(300)"].schedule
    assert beyond.n_nodes("L2") > 0
    x = float(marked["mvm(300): L2"].get_xdata()[0])
    assert x == beyond.work / (64 * beyond.n_nodes("L2"))  # lines move, not elements
    # The roof of L2 is what the core file says: 32 bytes per cycle; no point lies above its own level's roof.
    texts = [text.get_text() for text in ax.texts]
    assert "L2: 32 bytes/cycle" in texts
    assert x * 32 >= beyond.performance
    assert any(text.startswith("peak computation") for text in texts)


def test_no_label_lies_on_another(rooflines):
    ax = plot_levels(rooflines, {"mvm(20)": (1.0, 0.9, 1.1)})
    ax.figure.canvas.draw()
    names = [text for text in ax.texts if "bytes/cycle" not in text.get_text()]
    boxes = [text.get_window_extent() for text in names]
    assert not any(a.overlaps(b) for k, a in enumerate(boxes) for b in boxes[:k])
    roofs = [text for text in ax.texts if "bytes/cycle" in text.get_text()]
    assert len(roofs) >= 2
    # Rotated labels: samples along the middle line of each keep a text's height from those of the others.
    lines = []
    for text in roofs:
        start, angle = ax.transData.transform(text.xy), math.radians(text.get_rotation())
        length = 4.2 * len(text.get_text()) * ax.figure.dpi / 72
        lines.append(start + np.linspace(0, length, 20)[:, None] * [math.cos(angle), math.sin(angle)])
    for k, one in enumerate(lines):
        for other in lines[:k]:
            apart = np.linalg.norm(one[:, None] - other[None], axis=2).min()
            assert apart > 8 * ax.figure.dpi / 72
        slope = np.diff(ax.transData.inverted().transform(one[[0, -1]]), axis=0)[0]
        assert slope[0] > 0
        ends = ax.transData.inverted().transform(one[[0, -1]])
        # A label follows its roof: performance per intensity is the same at both ends.
        assert ends[1, 1] / ends[1, 0] == pytest.approx(ends[0, 1] / ends[0, 0], rel=0.05)


def along_roofs(ax):
    """Return the labels' rectangles (begin, end, lower, upper), along the roofs and across them, in pixels."""
    found = {}
    for text in ax.texts:
        if angle := math.radians(text.get_rotation()):
            start = ax.transData.transform(text.xy)
            text.set_rotation(0)
            box = text.get_window_extent()
            text.set_rotation(math.degrees(angle))
            u = start[0] * math.cos(angle) + start[1] * math.sin(angle)
            v = start[1] * math.cos(angle) - start[0] * math.sin(angle)
            found[text.get_text()] = (u, u + box.width, v - box.height / 2, v + box.height / 2)
    return found


@pytest.mark.parametrize("size", [(6, 4), (9, 5.5), (14, 8)])
@pytest.mark.parametrize("close", [1.02, 1.2, 2.0])
def test_roofs_close_together_are_each_labelled_in_place(rooflines, size, close):
    """The labels of measured roofs lay under those of the core's."""
    import matplotlib.pyplot as plt

    ax = plt.subplots(figsize=size, layout="constrained")[1]
    host = {"L1": (64 / close, 60 / close, 65 / close), "L2": (32 * close, 31 * close, 32.5 * close)}
    plot_levels(rooflines, {"mvm(20)": (1.0, 0.9, 1.1)}, ax=ax, host=host)
    ax.figure.canvas.draw()
    boxes = along_roofs(ax)
    assert len(boxes) == 4
    placed = list(boxes.values())
    for k, (begin, end, lower, upper) in enumerate(placed):
        assert not any(begin < e and end > b and lower < u and upper > w for b, e, w, u in placed[:k]), list(boxes)
    legend = ax.get_legend().get_window_extent()
    for text in ax.texts:
        if text.get_text() in boxes:
            assert not text.get_window_extent().overlaps(legend)
            assert ax.bbox.padded(3).containsx(text.get_window_extent().x0)
            assert text.get_window_extent().y1 <= ax.bbox.y1 + 3
    plt.close(ax.figure)


def test_a_roof_without_a_free_place_is_named_in_the_legend(rooflines):
    import matplotlib.pyplot as plt

    ax = plt.subplots(figsize=(3.2, 2.4))[1]
    plot_levels(rooflines, ax=ax, host={"L1": (60.0, 59.0, 61.0), "L2": (31.0, 30.0, 33.0)})
    legend = {text.get_text() for text in ax.get_legend().get_texts()}
    placed = set(along_roofs(ax))
    assert {"L1 measured: 60", "L2 measured: 31"} <= legend | placed
    assert "L1 measured: 60" in legend - placed
    plt.close(ax.figure)


PLAIN = {"cycles": 1, "performance": 1.0, "unit": "flops/cycle", "verdict": "", "doubts": ()}


@pytest.mark.parametrize("ending", [".svg", ".html", ".png"])
def test_the_pointer_is_told_what_a_point_is(rooflines, tmp_path, ending):
    measured = {"mvm(20)": (1.0, 0.9, 1.1)}
    path = tmp_path / f"picture{ending}"
    figure, said = plot_levels(rooflines, measured).figure, level_titles(rooflines, measured)
    if ending == ".html":  # the command's page
        rows = [{"name": name, "roofline": each, **PLAIN} for name, each in rooflines.items()]
        write_page(of_levels(rows, svg_with(figure, said)), path)
    else:
        write_picture(figure, path, said)
    if ending == ".png":
        assert path.read_bytes().startswith(b"\x89PNG")
        return
    titles = re.findall(r"<(?:ns0:|svg:)?title>([^<]*)<", path.read_text())
    for name, roofline in rooflines.items():
        assert any(f"{name}: {roofline.performance:.3g} flops/cycle" in title for title in titles)
    assert "mvm(20): 1 flops/cycle measured (0.9 to 1.1)" in titles


def test_what_cannot_be_drawn(rooflines):
    with pytest.raises(SettingError, match="no roofline"):
        plot_levels({})
    other = pk.DagScheduler(pk.DagCore.load("zen5"), record=False).run(pk.open_dags("mvm", sizes=[20])["mvm(20)"])
    with pytest.raises(SettingError, match="several cores"):
        plot_levels([*rooflines.values(), other.roofline()])


def test_measured_bandwidths_are_drawn_with_their_spread(rooflines):
    host = {"L1": (59.2, 59.0, 59.6), "L2": (31.0, 24.0, 33.0), "mem": (9.0, 8.9, 9.9)}
    ax = plot_levels(rooflines, host=host)
    drawn = {line.get_gid(): line for line in ax.lines if str(line.get_gid()).startswith("host")}
    assert set(drawn) == {host_gid("L1"), host_gid("L2")}, "nothing here accesses memory"
    x, y = (np.asarray(values) for values in drawn[host_gid("L2")].get_data())
    assert y == pytest.approx(31.0 * x)
    bands = [path.vertices for band in ax.collections for path in band.get_paths() if len(path.vertices) > 4]
    ratios = [v[:, 1] / v[:, 0] for v in bands]
    assert any(r.min() == pytest.approx(24) and r.max() == pytest.approx(33) for r in ratios)
    assert "31 bytes/cycle measured (24 to 33)" in host_titles(host)[host_gid("L2")]
    assert "L2 measured: 31" in [text.get_text() for text in ax.texts]


def test_colours_of_roofs_are_told_apart_from_light_and_dark_paper():
    """Divisions and integer work were drawn at 2.3:1 and 2.5:1 on the dark theme's #111."""

    def luminance(colour):
        parts = [v / 12.92 if v <= 0.03928 else ((v + 0.055) / 1.055) ** 2.4 for v in mpl.colors.to_rgb(colour)]
        return float(np.dot(parts, [0.2126, 0.7152, 0.0722]))

    for colour in {*COLOURS.values(), *TYPE_COLOURS.values(), *STALL_COLOURS.values()}:
        own = luminance(colour)
        assert 1.05 / (own + 0.05) >= 3, colour
        assert (own + 0.05) / (luminance("#111111") + 0.05) >= 3, colour


@pytest.mark.parametrize("style", ["default", "dark_background"])
def test_roofs_and_their_labels_stand_out_from_the_background(rooflines, style):
    from matplotlib.colors import to_rgb

    with mpl.style.context(style):
        ax = plot_levels(rooflines)
    paper = sum(to_rgb(ax.get_facecolor()))
    roofs = [line for line in ax.lines if line.get_linewidth() in (1.4, 1.8)]
    labels = [text for text in ax.texts if "/cycle" in text.get_text() and text.get_bbox_patch() is not None]
    assert roofs
    assert labels
    for made in (*roofs, *labels):
        assert abs(sum(to_rgb(made.get_color())) - paper) > 2
    assert all(sum(to_rgb(text.get_bbox_patch().get_facecolor())) == pytest.approx(paper) for text in labels)


@pytest.mark.parametrize(("size", "columns"), [((7, 3), 2), ((4, 2.5), 1), ((12, 4), 3), ((6, 2), 2)])
def test_names_stay_in_the_callers_figure_and_off_other_axes(rooflines, size, columns):
    """In a figure of the caller's, without a layout that makes room, they were cut, or lay over the next axes."""
    import matplotlib.pyplot as plt
    from matplotlib.text import Text

    several = {f"a kernel of a long name, number {k}": r for k, r in enumerate([*rooflines.values()][:2] * 2)}
    figure, axes = plt.subplots(1, columns, figsize=size, squeeze=False)
    for ax in axes[0]:
        plot_levels(several, ax=ax)
    figure.canvas.draw()
    for k, ax in enumerate(axes[0]):
        names = [text for text in ax.texts if text.get_text().startswith("a kernel")]
        boxes = [Text.get_window_extent(text) for text in names]  # without the line to its point
        assert len(names) == len(several)
        for box in boxes:
            assert box.x0 >= ax.bbox.x1 - 1
            assert box.x1 <= figure.bbox.x1
            assert all(box.x1 <= other.yaxis.get_tightbbox().x0 for other in axes[0][k + 1 :])
            assert box.y1 <= ax.bbox.y1 + 8
        assert ax.bbox.width > 0.2 * figure.bbox.width / columns
    plt.close(figure)


def test_all_accesses_are_of_l1_wherever_their_lines_come_from():
    """Two loads and a store of 8 bytes for 2 flops: 1/12, also where one access in eight brings a line from L2."""
    turns, deps, array = range(8000), [[], [], [1], [0, 2], [3]], [0, 1 << 20, None, None, 1 << 21]
    dag = pk.Dag.from_nodes(
        "LLMAS" * 8000,
        [[5 * turn + d for d in each] for turn in turns for each in deps],
        address=[None if begin is None else begin + 8 * turn for turn in turns for begin in array],
    )
    schedule = pk.DagScheduler(pk.DagCore.load("zen4"), record=False).run(dag)
    assert schedule.n_nodes("L2") == 3 * 1000
    assert _intensities(schedule) == {"L1": pytest.approx(1 / 12), "L2": pytest.approx(16_000 / (3000 * 64))}
