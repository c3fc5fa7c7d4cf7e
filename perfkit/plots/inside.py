"""Titles, names and legends that stay inside a small figure: matplotlib lets them end at its edge."""

from __future__ import annotations

import textwrap
from typing import Any

_SMALLEST = 5  # points of a letter that can still be read
_LEAST = 0.15  # of the figure's size: smaller axes show nothing


def keep_inside(ax: Any, legend_share: float = 0.5) -> None:
    """Break the title and the name of the x axis where they would leave the figure, and make room for them.

    A legend beside the axes that takes more than `legend_share` of the figure's width is set in smaller letters. In a
    figure that lays nothing out itself, the axes give way for what would be cut.
    """
    figure = ax.figure
    figure.draw_without_rendering()
    lays_out = figure.get_layout_engine() is not None
    legend = ax.get_legend()
    beside = legend is not None and legend.get_window_extent().x0 >= ax.get_window_extent().x1 - 1
    if beside:
        _shrink(legend, legend_share * figure.bbox.width)
    if not lays_out:
        _give_way(ax)  # to the left: it moves the middle of what is broken below
        figure.draw_without_rendering()
        if beside:
            _narrow(ax, legend.get_window_extent().x1 - figure.bbox.x1)
    figure.draw_without_rendering()
    for text in (ax.title, ax.xaxis.label):
        _break(text, figure.bbox)
    if not lays_out:
        figure.draw_without_rendering()
        _give_way(ax)


def _shrink(legend: Any, most: float) -> None:
    wide = legend.get_window_extent().width
    if wide > most:
        for text in legend.get_texts():
            text.set_fontsize(max(_SMALLEST, text.get_fontsize() * most / wide))
        legend.figure.draw_without_rendering()


def _narrow(ax: Any, pixels: float) -> None:
    """Take pixels from the right of axes, at most two thirds of them."""
    place, width = ax.get_position(), ax.get_window_extent().width
    share = max(1 / 3, 1 - max(0.0, pixels) / width)
    ax.set_position([place.x0, place.y0, place.width * share, place.height])


def _break(text: Any, page: Any) -> None:
    """Break a text that is centred and wider than the figure at both sides of its middle."""
    box = text.get_window_extent()
    middle = (box.x0 + box.x1) / 2
    room = 2 * min(middle - page.x0, page.x1 - middle)
    words = text.get_text()
    if room <= 0 or box.width <= room:
        return
    longest = max(map(len, words.split("\n")))
    letters = max(8, int(longest * 0.95 * room / box.width))
    text.set_text("\n".join(textwrap.fill(line, letters) for line in words.split("\n")))


def _give_way(ax: Any) -> None:
    """Let axes give way for a title above them and for names below and beside them that the figure's edge would cut."""
    page, place = ax.figure.bbox, ax.get_position()
    beside = ax.yaxis.get_tightbbox()
    left = max(0.0, page.x0 - beside.x0) / page.width if beside is not None else 0.0
    above = max(0.0, ax.title.get_window_extent().y1 - page.y1) / page.height
    below = max(0.0, page.y0 - ax.xaxis.label.get_window_extent().y0) / page.height
    width, height = place.width - left, place.height - above - below
    if (left or above or below) and min(width, height) >= _LEAST:
        ax.set_position([place.x0 + left, place.y0 + below, width, height])
