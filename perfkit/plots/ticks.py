"""Ticks of axes with large numbers: no more than stand beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axis import Axis
from matplotlib.ticker import FuncFormatter, MaxNLocator

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LETTER = 0.64  # of the size of the font: how wide a digit is
_BETWEEN = 1.0  # likewise, at least between two numbers
_MOST = 9


def large_numbers(ax: Axes) -> None:
    """Write the numbers across with commas, as few as have room: matplotlib's run into each other from 10,000 on."""
    ax.xaxis.set_major_locator(_Apart(steps=[1, 2, 5, 10]))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _written(value)))


class _Apart(MaxNLocator):
    """Round numbers, of which as many as fit are shown: by the width of the axis and of the longest of them."""

    def __call__(self) -> Sequence[float]:
        assert isinstance(self.axis, Axis)
        low, high = self.axis.get_view_interval()
        room = 3 * self.axis.get_tick_space()  # matplotlib counts three sizes of the font for each tick
        longest = max(len(_written(float(np.round(end)))) for end in (low, high))
        most = int(np.clip(room / (_LETTER * longest + _BETWEEN), 1, _MOST))
        self.set_params(nbins=most, min_n_ticks=min(2, most))
        return super().__call__()


def _written(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:g}"
