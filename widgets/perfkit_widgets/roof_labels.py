"""The names of roofs, beside their lines: in a column on the right, and right of the feet of those that rise."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from perfkit_widgets import figures

ROOM = 0.42  # of the picture's width, for the column
_APART = 0.05  # of the picture's height, from one name to the next
MOST = 18  # names; more would not fit one below the other


class RoofLabels:
    """Marks that name the roofs of a plot on logarithmic axes; ``marks`` go into its figure.

    A name of the column stands as near to its line's height as the others allow, and a thin line in the roof's colour
    leads to it, which chooses the roof as well: ``chosen`` is called with its label.
    """

    def __init__(self, scales: dict[str, Any], chosen: Callable[[str], None]) -> None:
        self._scales, self._chosen = scales, chosen
        self._of: list[str] = []  # the label of each lead's roof
        self._leads = [figures.line(scales, figures.INK, 1) for _ in range(MOST)]
        for k, lead in enumerate(self._leads):
            lead.on_element_click(lambda *_, k=k: self._chosen(self._of[k]))
        self._column, self._feet = _texts(scales), _texts(scales)
        self.marks = [*self._leads, self._column, self._feet]

    def draw(self, roofs: list[tuple[Any, str]], x: np.ndarray, low: float, high: float) -> float:
        """Name roofs, each with its line's colour, that are drawn over `x` between two heights; return the right end.

        Those nearest to the point come first, and those that do not fit stay without a name.
        """
        first, last = float(x[0]), float(x[-1])
        right = first * (last / first) ** (1 / (1 - ROOM))
        column: list[tuple[Any, str, float]] = []
        feet: list[tuple[Any, str, float]] = []
        for roof, colour in roofs[:MOST]:
            end = float(roof.at(last))
            (column if low < end < high else feet).append((roof, colour, end))
        heights = spread([math.log(end / low) / math.log(high / low) for *_, end in column])
        at = last * (right / last) ** 0.12
        for lead in self._leads[len(column) + len(feet) :]:
            lead.visible = False
        for lead, (_, colour, end), height in zip(self._leads, column, heights, strict=False):
            lead.colors = [colour]
            figures.set_xy(lead, np.array([last, at]), np.array([end, low * (high / low) ** height]))
        names = [name_of(roof) for roof, *_ in column]
        _write(self._column, [at] * len(column), [low * (high / low) ** h for h in heights], names)
        feet.sort(key=lambda one: -float(one[0].at(first)))
        rising = [low * (high / low) ** (0.04 + _APART * k) for k in range(len(feet))]
        beside = [1.15 * max(_where(roof, x, y) for roof, *_ in feet) for y in rising]
        for lead, (roof, colour, _), y, at in zip(self._leads[len(column) :], feet, rising, beside, strict=False):
            lead.colors = [colour]
            figures.set_xy(lead, np.array([_where(roof, x, y), at]), np.array([y, y]))
        _write(self._feet, beside, rising, [name_of(roof) for roof, *_ in feet])
        self._of = [roof.label for roof, *_ in [*column, *feet]]
        return right


def name_of(roof: Any) -> str:
    """Return what is written beside a roof: its name, and its bound over the performance."""
    short = roof.label.replace("computation", "comp.").replace(" and ", " + ").replace("overlap of", "overlap")
    return f"{short} {roof.distance:.2f}"


def spread(heights: list[float], apart: float = _APART) -> list[float]:
    """Move heights (0 to 1) as little as needed to stand `apart` from each other; their order stays."""
    if not heights:
        return []
    order = np.argsort(heights, kind="stable")
    apart = min(apart, 0.94 / max(1, len(heights) - 1))
    groups: list[list[float]] = []  # [sum of wanted places of its first member, members]
    for rank in order:
        groups.append([heights[rank], 1])
        while len(groups) > 1 and _first(groups[-2]) + groups[-2][1] * apart > _first(groups[-1]):
            wanted, members = groups.pop()
            before = groups[-1]
            before[0] += wanted - members * before[1] * apart
            before[1] += members
            _keep(before, apart)
        _keep(groups[-1], apart)
    placed = [_first(group) + k * apart for group in groups for k in range(int(group[1]))]
    out = [0.0] * len(heights)
    for rank, height in zip(order, placed, strict=True):
        out[rank] = height
    return out


def _first(group: list[float]) -> float:
    return group[0] / group[1]


def _keep(group: list[float], apart: float) -> None:
    """Keep a group within the picture."""
    low, high = 0.03, 0.97 - (group[1] - 1) * apart
    group[0] = min(max(_first(group), low), max(high, low)) * group[1]


def _where(roof: Any, x: np.ndarray, height: float) -> float:
    """Return where a rising roof has a height, or the left end."""
    y = roof.at(x)
    return float(np.exp(np.interp(math.log(height), np.log(y), np.log(x))))


def _texts(scales: dict[str, Any]) -> Any:
    return figures.bq.Label(
        x=[1.0],
        y=[1.0],
        text=[""],
        scales=scales,
        align="start",
        x_offset=4,
        y_offset=4,
        default_size=12,
        font_weight="normal",
        colors=[figures.INK],
        visible=False,
    )


def _write(mark: Any, x: list[float], y: list[float], texts: list[str]) -> None:
    with mark.hold_sync():
        mark.visible = bool(texts)
        if texts:
            mark.x, mark.y, mark.text = np.array(x), np.array(y), np.array(texts)
