"""NoiseView: curves of slowdown against added instructions; the chosen kind's stands out, measured and simulated."""

import html
from typing import TYPE_CHECKING, Any

import ipywidgets as widgets
import numpy as np
import pandas as pd
import traitlets

from perfkit.errors import SettingError
from perfkit.plots.noise import HIGHEST, SLACK
from perfkit.plots.style import CLOUD, SERIES
from perfkit_widgets.base import Downloads, Explorer, heading, keys, kind_html
from perfkit_widgets.figures import axis, bq, figure, line, set_range, set_xy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from perfkit.diagnosis.noise_result import NoiseResult


class NoiseView(Explorer):
    """What a loop absorbs: all measured curves, one of them chosen, with the model's beside it.

    Parameters
    ----------
    result : NoiseResult
        What was measured.
    kind : str, optional
        The first choice; by default what holds the loop back, where it is a kind of noise.

    Attributes
    ----------
    kind : str
        The chosen kind of noise.

    Examples
    --------
    >>> view = pw.NoiseView(pk.datasets.load("noise/zen4/additions"))
    """

    kind = traitlets.Unicode()

    def __init__(self, result: "NoiseResult", kind: str = "") -> None:
        super().__init__()
        self._result, self._frame_of = result, result.to_frame().set_index("kind")
        self._choice = widgets.Dropdown(
            options=[(f"{name}: {SLACK[slack]}", name) for name, slack in result.slack.items()],
            description="Noise",
            tooltip="Which kind of instructions was added",
            layout={"width": "320px"},
        )
        scales = {"x": bq.LinearScale(), "y": bq.LinearScale()}
        self._others = {name: line(scales, CLOUD, 1) for name in result.kinds}
        self._measured = line(scales, SERIES[0], 2.5, marker="circle", marker_size=40)
        self._low, self._high = (line(scales, SERIES[0], 1, "dotted") for _ in range(2))
        self._simulated = line(scales, SERIES[1], 2, "dashed")
        axes = [
            axis(scales["x"], "bottom", "added instructions per iteration"),
            axis(scales["y"], "left", "slowdown (times)"),
        ]
        marks = [*self._others.values(), self._low, self._high, self._simulated, self._measured]
        self._figure = figure(marks, axes, height=360, margin={"top": 12, "bottom": 48, "left": 58, "right": 16})
        curves = result.curves
        set_range(axes[0], 0, float(curves["added"].max()))
        top = float(np.nanmax(curves[["slowdown", "simulated"]].to_numpy()))
        self._top = max(1.2, min(HIGHEST, top))
        set_range(axes[1], 0.9, self._top)
        for name, mark in self._others.items():
            self._set(mark, result.curve(name), "slowdown")
        self._words = widgets.HTML(layout={"width": "100%"})
        self._downloads = Downloads(self, "noise")
        shown = {"measured, chosen": (SERIES[0], "line"), "measured, others": (CLOUD, "line")}
        if result.core:
            shown |= {f"SIMULATED ({result.core})": (SERIES[1], "dash")}
        head = heading(result.name, html.escape(result.summary().partition("\n")[0])) + kind_html(result.kind)
        self.children = [
            widgets.HTML(head), self._choice, self._figure, widgets.HTML(keys(shown)), self._words, self._downloads
        ]  # fmt: skip
        self.observe(lambda _: self._draw(), "kind")
        self.kind = kind or (result.bottleneck if result.bottleneck in result.kinds else result.kinds[0])
        traitlets.link((self, "kind"), (self._choice, "value"))
        self._downloads.refresh()

    @traitlets.validate("kind")
    def _known(self, proposal: Any) -> str:
        if proposal["value"] not in self._result.kinds:
            raise SettingError(f"no kind {proposal['value']!r} here; it has: {', '.join(self._result.kinds)}")
        return str(proposal["value"])

    def table(self) -> pd.DataFrame:
        """Return the curves."""
        return self._result.curves

    def picture(self) -> "Figure":
        """Return the curves as a static picture, a strip for each kind."""
        return self._result.plot()

    def _draw(self) -> None:
        curve, row = self._result.curve(self.kind), self._frame_of.loc[self.kind]
        for mark, column in (
            (self._measured, "slowdown"), (self._low, "low"), (self._high, "high"), (self._simulated, "simulated")
        ):  # fmt: skip
            self._set(mark, curve, column)
        said = f"absorbs {row['absorbed']:.1f} per iteration ({row['low']:.1f} to {row['high']:.1f}, measured)"
        if self._result.core:
            said += f"; the model says {row['simulated_absorbed']:.1f} (simulated)"
        self._words.value = (
            f'<div class="pk-hint"><b>{html.escape(self.kind)}</b>, {html.escape(str(row["resource"]))}: {said}</div>'
        )

    def _set(self, mark: Any, curve: pd.DataFrame, column: str) -> None:
        set_xy(mark, curve["added"].to_numpy(dtype=float), curve[column].to_numpy(dtype=float))
