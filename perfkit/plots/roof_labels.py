"""Labels that stand on the sloped roofs of a roofline plot, where nothing else is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

_STEP = 4.0  # points between two places that are tried
_FREE = 2.0  # points that stay free around a label
_MARGIN = 6.0  # points from where a roof comes in to its label
_SIZES = (8.0, 7.0, 6.0)  # of letters, in points; smaller ones only where larger ones find no place


def paper_of(ax: Any) -> dict[str, Any]:
    """Return what lies behind letters on axes: their own background."""
    return {"facecolor": ax.get_facecolor(), "edgecolor": "none", "pad": 0.8, "alpha": 0.9}


@dataclass(frozen=True)
class RoofLabel:
    """What a roof of so many bytes per cycle is called, and in which colour."""

    bandwidth: float
    words: str
    colour: str


def label_roofs(ax: Any, labels: Sequence[RoofLabel], boxes: Sequence[Any]) -> list[RoofLabel]:
    """Write each label along its roof, as far to the left as nothing else is there.

    All roofs rise at one angle, so that seen along them labels are upright rectangles. Letters are smaller where larger
    ones find no free place.

    Parameters
    ----------
    ax
        Log-log axes whose limits do not change any more.
    labels
        The first ones choose first.
    boxes
        What labels must not cover: matplotlib boxes in pixels.

    Returns
    -------
    list of RoofLabel
        Those of roofs in the picture that found no free place.
    """
    # Text follows the roofs, whose angle is known once the axes have their place.
    ax.figure.draw_without_rendering()
    pixel = ax.figure.dpi / 72
    (low, _), (bottom, _) = ax.get_xlim(), ax.get_ylim()
    left, right = ax.transData.transform([(low, bottom), (low * 10, bottom * 10)])
    angle = math.atan2(right[1] - left[1], right[0] - left[0])
    turn = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
    taken = [_dots(box, _STEP * pixel) @ turn.T for box in boxes]
    dots = np.concatenate(taken) if taken else np.empty((0, 2))
    placed: list[tuple[float, float, float, float]] = []  # begin, end, lower, upper: along the roofs and across them
    left_over = []
    for label in labels:
        if not _crosses(ax, label.bandwidth):
            continue
        entry, leaving = (ax.transData.transform(point) @ turn.T for point in _visible(ax, label.bandwidth))
        for size in _SIZES:
            length, height = (side + 2 * _FREE * pixel for side in _extent(ax, label.words, size))
            across = (entry[1] - height / 2, entry[1] + height / 2)
            begins = np.arange(entry[0] + _MARGIN * pixel, leaving[0] - length, _STEP * pixel)
            free = (b for b in begins if not _covers((b, b + length, *across), placed, dots))
            if (begin := next(free, None)) is not None:
                break
        else:
            left_over.append(label)
            continue
        placed.append((begin, begin + length, *across))
        start = ax.transData.inverted().transform(turn.T @ np.array([begin + _FREE * pixel, entry[1]]))
        ax.annotate(
            label.words, start, rotation=math.degrees(angle), rotation_mode="anchor", ha="left", va="center",
            fontsize=size, color=label.colour, bbox=paper_of(ax), zorder=4,
        )  # fmt: skip
    return left_over


def _crosses(ax: Any, bandwidth: float) -> bool:
    """Return whether a roof passes through the picture."""
    (begin, _), (end, _) = _visible(ax, bandwidth)
    return begin < end


def _visible(ax: Any, bandwidth: float) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return the points at which a roof comes into the picture and leaves it."""
    (low, high), (bottom, top) = ax.get_xlim(), ax.get_ylim()
    begin, end = max(low, bottom / bandwidth), min(high, top / bandwidth)
    return (begin, begin * bandwidth), (end, end * bandwidth)


def _extent(ax: Any, words: str, size: float) -> tuple[float, float]:
    """Return how long and high words are, in pixels."""
    text = ax.text(0, 0, words, fontsize=size, transform=None)
    box = text.get_window_extent()
    text.remove()
    return box.width, box.height


def _dots(box: Any, step: float) -> npt.NDArray[np.float64]:
    """Return points that lie close together in a box."""
    x, y = (np.linspace(a, b, max(2, math.ceil((b - a) / step) + 1)) for a, b in ((box.x0, box.x1), (box.y0, box.y1)))
    return np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)


def _covers(
    box: tuple[float, float, float, float],
    placed: Sequence[tuple[float, float, float, float]],
    dots: npt.NDArray[np.float64],
) -> bool:
    """Return whether a label would cover another label or something else."""
    begin, end, lower, upper = box
    if any(begin < e and end > b and lower < u and upper > w for b, e, w, u in placed):
        return True
    inside = (dots[:, 0] > begin) & (dots[:, 0] < end) & (dots[:, 1] > lower) & (dots[:, 1] < upper)
    return bool(inside.any())
