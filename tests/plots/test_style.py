import math
import time

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Text

from perfkit.plots.style import (
    SERIES,
    _luminance,
    abbreviate,
    area_colour,
    distinct,
    fitted,
    kind_note,
    mark_kind,
    short,
)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"), (0.000123, "0.000123"), (1.5, "1.5"), (999.4, "999"), (1000, "1,000"), (1424.2, "1,424"),
        (9999, "9,999"), (20_000, "20k"), (1_234_567, "1.23M"), (3e9, "3G"), (2.5e12, "2.5T"), (-20_000, "-20k"),
        (1e17, "1e+17"), (math.nan, "–"), (math.inf, "∞"), (-math.inf, "-∞"),
    ],
)  # fmt: skip
def test_numbers_for_people(number, text):
    assert short(number) == text


def test_long_names_keep_both_ends():
    assert abbreviate("short", 10) == "short"
    cut = abbreviate("cycle_activity.stalls_l1d_miss", 15)
    assert len(cut) == 15
    assert cut.startswith("cycle_a")
    assert cut.endswith("1d_miss")


def test_data_that_was_not_measured_says_so():
    assert kind_note("measured") == ""
    assert "GENERATED" in kind_note("generated")
    assert "MIXED" in kind_note("mixed (generated, measured)")


def test_lines_beside_each_other_are_seen_on_white_and_on_a_dark_page():
    """The fifth and the sixth were pale on white (2.3); no shipped picture had so many lines."""
    dark = _luminance(np.full(3, 0x11 / 255))
    for colour in SERIES:
        light = _luminance(np.array(to_rgb(colour)))
        assert 1.05 / (light + 0.05) > 2.98, colour
        assert (light + 0.05) / (dark + 0.05) > 2.98, colour
    assert len(set(SERIES)) == len(SERIES)


def test_unknown_areas_are_grey():
    assert area_colour("memory") != area_colour("whatever") == area_colour(None)


def test_names_that_differ_in_the_middle_are_told_apart():
    """Twelve events of one unit had one label; names that fit, and equal ones, stay as they are."""
    names = [f"uncore_cha_0.{k}.that_never_ends_because_it_is_very_long" for k in ("reads", "writes", "inserts")]
    shown = distinct(names, 150)
    assert len({fitted(name, 150) for name in names}) == 1
    assert len(set(shown)) == 3
    for label, part in zip(shown, ("reads", "writes", "inserts"), strict=True):
        assert label.startswith("….")
        assert part in label
        assert fitted(label, 150) == label, "and it fits"
    assert distinct(["cycles", "loads", "cycles"], 150) == ["cycles", "loads", "cycles"]
    twice = [f"{a}_that_never_ends_because_it_is_very_long_{b}_and_longer" for a in ("ab", "xy") for b in ("in", "out")]
    assert len(set(distinct(twice, 150))) == 4, "also where they differ in two places"
    assert distinct([names[0], names[0]], 150) == [fitted(names[0], 150)] * 2


def test_hundreds_of_long_names_are_cut_at_once():
    """Eighty took more than a minute: their widths were measured letter by letter less."""
    names = [f"uncore_cha_0.that_never_ends_{k % 7}_because_it_is_very_long_{k}_and_longer" * 2 for k in range(400)]
    start = time.process_time()
    assert len(set(distinct(names, 238))) == 400
    assert time.process_time() - start < 5


@pytest.mark.parametrize("side", ["left", "center"])
def test_a_title_stands_above_what_the_data_is(side):
    """They were written over one another."""
    ax = Figure().subplots()
    ax.set_title("before to after", loc=side, fontsize=9)
    mark_kind(ax, "generated")
    ax.figure.canvas.draw()
    note = next(text for text in ax.texts if text.get_text().startswith("GENERATED"))
    title = next(text for text in ax.findobj(Text) if text.get_text() == "before to after")
    assert title.get_fontsize() == 9
    assert title.get_window_extent().y0 >= note.get_window_extent().y1


def test_a_title_over_measured_data_stays_where_it_is():
    places = []
    for mark in (True, False):
        ax = Figure().subplots()
        ax.set_title("before to after", loc="left")
        if mark:
            mark_kind(ax, "measured")
        ax.figure.canvas.draw()
        places.append(next(t for t in ax.findobj(Text) if t.get_text() == "before to after").get_window_extent().y0)
    assert places[0] == places[1]
