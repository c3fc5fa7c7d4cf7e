"""What a reader cannot read inside matplotlib pictures: looked at while they are drawn, text by text.

A picture reaches the browser as pixels, where nobody finds the words again. So the kernel that draws it looks
(`watch`): each text leaves ink on the canvas, and that ink is held against what was there before.
"""

import functools
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

_PAPERS = ((255.0, 255.0, 255.0), (17.0, 17.0, 17.0))  # of the light and the dark theme, where a picture has none
_NUMBER = re.compile(r"[-−+]?[\d.,]+ ?[kMGT%]?|\$.*\d.*\$")  # a tick's text, also a power of ten
_ROOM = 0.22  # of its part of a picture is the least that what is drawn in axes needs beside its names
_LEAST = 4.5  # contrast of text with what is behind it
_LEAST_OF_LINES = 3.0


def watch(folder: Path) -> None:
    """From now on in this process, write what is wrong with each picture of matplotlib to ``folder``/pictures.jsonl.

    A line holds the picture's size in pixels, its smallest text in pixels, and its faults as [fault, text].
    """
    from matplotlib.backend_bases import FigureCanvasBase

    drawn = FigureCanvasBase.print_figure

    @functools.wraps(drawn)
    def print_figure(canvas: Any, *args: Any, **kwargs: Any) -> Any:
        with Eye() as eye:
            result = drawn(canvas, *args, **kwargs)
        if eye.size != (0, 0):
            faults = eye.faults + [fault for axes in canvas.figure.axes for fault in of_axes(axes)]
            seen = {"size": eye.size, "smallest": eye.smallest, "faults": faults}
            with (folder / "pictures.jsonl").open("a") as stream:
                stream.write(json.dumps(seen) + "\n")
        return result

    FigureCanvasBase.print_figure = print_figure  # type: ignore[method-assign, assignment]


def of_axes(axes: Any) -> list[tuple[str, str]]:
    """Return the faults of axes that were drawn: numbers that nothing names, and a legend that covers what it names."""
    if not axes.get_visible() or not axes.axison:
        return []
    faults = []
    # What is drawn upwards may be named over the axis, at its left end.
    names = [axes.get_title(loc="left")] if axes.get_title(loc="left") else []
    names += [text.get_text() for text in axes.figure.texts] + [
        axes.figure.get_supxlabel(),
        axes.figure.get_supylabel(),
    ]
    for axis in (axes.xaxis, axes.yaxis):
        shown = [text.get_text() for text in axis.get_ticklabels() if text.get_visible() and text.get_text()]
        numbers = shown and all(_NUMBER.fullmatch(text) for text in shown)
        if axis.get_visible() and numbers and not axis.get_label_text() and not any(names):
            faults.append(("axis without a name", ", ".join(shown[:4])))
    grid = axes.get_subplotspec()
    columns = 1 if grid is None else grid.get_gridspec().ncols / len(grid.colspan)
    if grid is not None and axes.get_position().width * columns < _ROOM:
        faults.append(("squeezed axes", f"{axes.get_position().width * columns:.0%} of its part of the picture"))
    legend = axes.get_legend()
    if legend is not None and legend.get_visible() and _covers(legend.get_window_extent().padded(-3), axes):
        faults.append(("legend over data", ", ".join(text.get_text() for text in legend.get_texts()[:3])))
    faults += [("faint line in picture", str(line.get_label())) for line in axes.lines if _hardly_seen(line)]
    return faults


def _hardly_seen(line: Any) -> bool:
    """Return whether a line that a legend names is paler than its colour: thin, dotted or transparent, on white."""
    from matplotlib.colors import to_rgb

    if str(line.get_label()).startswith("_") or line.get_linestyle() in ("None", "none", "", " "):
        return False
    if line.get_linewidth() == 0 or line.get_marker() not in ("None", "none", None, ""):
        return False
    ink = (line.get_alpha() or 1.0) * min(1.0, line.get_linewidth()) * (0.6 if line.get_linestyle() == ":" else 1.0)
    colour = np.array([[255 * (1 - ink * (1 - part)) for part in to_rgb(line.get_color())]])
    return bool((1.05 / (_luminance(colour) + 0.05))[0] < _LEAST_OF_LINES - 0.02)


def _covers(box: Any, axes: Any) -> bool:
    """Return whether a box of the canvas lies over a line, a point (of many points: three) or a bar of the axes."""
    from matplotlib.transforms import Bbox

    for line in axes.lines:
        path = line.get_transform().transform_path(line.get_path()).cleaned(remove_nans=True)
        joined = line.get_linestyle() not in ("None", "none", "", " ")
        if len(path) > 1 and joined and path.intersects_bbox(box, filled=False):
            return True
        if not joined and sum(box.contains(x, y) for x, y in path.vertices) >= (1 if len(path) <= 100 else 3):
            return True
    for collection in axes.collections:
        points = collection.get_offset_transform().transform(np.ma.filled(collection.get_offsets(), np.nan))
        if sum(box.contains(x, y) for x, y in points) >= (1 if len(points) <= 100 else 3):
            return True
    overlaps = (Bbox.intersection(box, patch.get_window_extent()) for patch in axes.patches)
    return any(one is not None and one.width > 2 and one.height > 2 for one in overlaps)


class Eye:
    """Sees every text that Agg draws while this context lasts."""

    def __init__(self) -> None:
        self.faults: list[tuple[str, str]] = []
        self.smallest: tuple[float, str] = (float("inf"), "")
        self.size = (0, 0)
        self._owner = np.empty((0, 0), dtype=np.int32)
        self._texts: list[str] = []

    def __enter__(self) -> "Eye":
        from matplotlib.backends.backend_agg import RendererAgg

        self._draw = RendererAgg.draw_text
        RendererAgg.draw_text = self._seeing(self._draw)  # type: ignore[method-assign]
        return self

    def __exit__(self, *_: object) -> None:
        from matplotlib.backends.backend_agg import RendererAgg

        RendererAgg.draw_text = self._draw  # type: ignore[method-assign]

    def _seeing(self, draw: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(draw)
        def draw_text(
            renderer: Any,
            gc: Any,
            x: float,
            y: float,
            s: str,
            prop: Any,
            angle: Any,
            ismath: Any = False,
            mtext: Any = None,
        ) -> Any:
            before = np.array(renderer.buffer_rgba())
            result = draw(renderer, gc, x, y, s, prop, angle, ismath, mtext)
            after = np.asarray(renderer.buffer_rgba())
            if s.strip():
                # The part of a text that lies within the canvas is all that Agg draws; ask how wide it should be.
                self._look(before, after, s, prop.get_size_in_points() * renderer.dpi / 72)
                self._edges(renderer, gc, x, y, s, prop, angle, ismath)
            return result

        return draw_text

    def _look(self, before: np.ndarray, after: np.ndarray, text: str, pixels: float) -> None:
        height, width = before.shape[:2]
        if self._owner.shape != (height, width):  # another canvas
            self._owner, self._texts, self.size = np.zeros((height, width), np.int32), [], (width, height)
        self.smallest = min(self.smallest, (round(pixels, 1), text))
        part = _part(before, after)
        before, after, owner = before[part].astype(np.int16), after[part].astype(np.int16), self._owner[part]
        changed = np.abs(after - before).max(axis=2, initial=0) > 40
        if not changed.any():
            self.faults.append(("invisible text in picture", text))
            return
        covered = owner[_wider(changed)]
        for other in np.unique(covered[covered > 0]):
            if np.count_nonzero(covered == other) >= 4:
                self.faults.append(("overlap in picture", f"{self._texts[other - 1]} / {text}"))
        self._texts.append(text)
        owner[changed] = len(self._texts)
        ratio = _contrast_of(before[changed].astype(float), after[changed].astype(float))
        if ratio < _LEAST - 0.05:
            self.faults.append(("faint text in picture", f"{text} ({ratio:.2f})"))

    def _edges(self, renderer: Any, gc: Any, x: float, y: float, text: str, prop: Any, angle: Any, ismath: Any) -> None:
        wide, high, descent = renderer.get_text_width_height_descent(text, prop, ismath)
        turn = np.deg2rad(float(angle))
        # From the left end of the baseline, along the text and up; y goes down in Agg.
        along, up = np.array([np.cos(turn), -np.sin(turn)]), np.array([-np.sin(turn), -np.cos(turn)])
        corners = [np.array([x, y]) + a * along + u * up for a in (0, wide) for u in (-descent, high - descent)]
        left, top = np.min(corners, axis=0)
        right, bottom = np.max(corners, axis=0)
        frame = gc.get_clip_rectangle()
        low, high_, x0, x1 = 0.0, float(self.size[1]), 0.0, float(self.size[0])
        if frame is not None:
            x0, x1 = max(x0, frame.x0), min(x1, frame.x1)
            low, high_ = max(low, self.size[1] - frame.y1), min(high_, self.size[1] - frame.y0)
        if left < x0 - 2 or right > x1 + 2 or top < low - 3 or bottom > high_ + 3:
            self.faults.append(("clipped in picture", text))


def _part(before: np.ndarray, after: np.ndarray) -> tuple[slice, slice]:
    """Return the rectangle of a canvas that changed, and a pixel around it: all texts of all pictures take minutes."""
    other = np.ascontiguousarray(before).view(np.uint32)[..., 0] != np.ascontiguousarray(after).view(np.uint32)[..., 0]
    across, down = np.flatnonzero(other.any(axis=0)), np.flatnonzero(other.any(axis=1))
    if not len(across):
        return slice(0), slice(0)
    return slice(max(down[0] - 1, 0), down[-1] + 2), slice(max(across[0] - 1, 0), across[-1] + 2)


def _wider(ink: np.ndarray) -> np.ndarray:
    """Return ink and its neighbours on the left and right: letters that touch cannot be read either."""
    wide = ink.copy()
    wide[:, 1:] |= ink[:, :-1]
    wide[:, :-1] |= ink[:, 1:]
    return wide


def _contrast_of(before: np.ndarray, after: np.ndarray) -> float:
    """Return the contrast of a text's fullest ink with what it stands on, on the worse of the two themes' papers."""
    worst = float("inf")
    for paper in _PAPERS if before[:, 3].min() < 250 else _PAPERS[:1]:
        ground, ink = (_over(part, paper) for part in (before, after))
        # Letters have soft edges: their colour is that of the pixels that changed most.
        most = np.abs(ink - ground).sum(axis=1)
        full = most >= 0.9 * most.max()
        a, b = _luminance(ground[full]), _luminance(ink[full])
        ratio = (np.maximum(a, b) + 0.05) / (np.minimum(a, b) + 0.05)
        worst = min(worst, float(np.median(ratio)))
    return worst


def _over(pixels: np.ndarray, paper: tuple[float, float, float]) -> np.ndarray:
    alpha = pixels[:, 3:] / 255
    return pixels[:, :3] * alpha + np.array(paper) * (1 - alpha)


def _luminance(pixels: np.ndarray) -> np.ndarray:
    share = pixels / 255
    linear = np.where(share <= 0.03928, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
    return np.asarray(linear @ np.array([0.2126, 0.7152, 0.0722]))
