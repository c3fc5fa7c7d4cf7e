"""What every view shares: its frame, its plain picture for readers without widgets, and downloads."""

import base64
import functools
import html
import io
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anywidget
import ipywidgets as widgets
import traitlets
from IPython.core.getipython import get_ipython

from perfkit.plots.style import kind_note

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Frame(anywidget.AnyWidget):
    """The style of a view, its right to the arrow keys while one of its controls has the focus, and the order of acts.

    It has nothing to show: that it exists is enough.

    Attributes
    ----------
    view : str
        The model of the view: a click on one of its buttons waits until the kernel is done with its controls' values.
    """

    _esm = Path(__file__).parent / "static" / "frame.js"
    _css = Path(__file__).parent / "static" / "frame.css"
    view = traitlets.Unicode().tag(sync=True)


def one_at_a_time() -> None:
    """Let this kernel handle the messages of widgets one after the other.

    JupyterLab has them handled by a thread of their own, but each control's first by the thread of the cells: two at
    once left a view with the window of one message and the ranking of the other, because links of traits drop a change
    that comes during another.
    """
    handlers = getattr(getattr(get_ipython(), "kernel", None), "shell_handlers", {})
    handle = handlers.get("comm_msg")
    if handle is None or hasattr(handle, "__wrapped__"):
        return
    lock = threading.RLock()

    @functools.wraps(handle)
    def alone(*args: Any, **kwargs: Any) -> Any:
        with lock:
            return handle(*args, **kwargs)

    handlers["comm_msg"] = alone


def own_axes(width: float, height: float) -> "Axes":
    """Return axes in a figure that pyplot does not know, in inches: a notebook would show a view's picture twice."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained").add_subplot()


class Pictured:
    """A widget that has a static picture: it stands in for the view where widgets cannot be shown.

    GitHub, nbviewer and pages without scripts show the picture, which travels with the output as its PNG form.
    """

    def picture(self) -> "Figure":
        """Return what the view shows as a static picture (matplotlib)."""
        raise NotImplementedError

    def png(self, dpi: int = 110) -> bytes:
        """Return `picture` as the bytes of a PNG file."""
        figure = self.picture()
        stream = io.BytesIO()
        figure.savefig(stream, format="png", dpi=dpi, bbox_inches="tight")
        return stream.getvalue()

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        bundle = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        data = bundle[0] if isinstance(bundle, tuple) else bundle
        if isinstance(data, dict):
            data["image/png"] = base64.b64encode(self.png()).decode()
        return bundle


class Explorer(Pictured, widgets.VBox):
    """A view with a selection (traits), a table and a picture of what it shows.

    Subclasses fill ``children`` and give `table` and `picture`.
    """

    def __init__(self, **kwargs: Any) -> None:
        one_at_a_time()
        super().__init__(**kwargs)
        self.add_class("pk-view")
        self.layout.width = "100%"
        self._frame = Frame(view=self.model_id or "")

    def table(self) -> "pd.DataFrame":
        """Return what the view shows as a table."""
        raise NotImplementedError


class Downloads(widgets.HBox):
    """Links that save a view's table and picture; they work in a saved page too, without a kernel.

    The table's link always holds what is shown; the picture is drawn when it is asked for.
    """

    def __init__(self, view: Explorer, name: str) -> None:
        self._view, self._name = view, name
        self._links = widgets.HTML()
        self._draw = widgets.Button(
            description="Draw picture to save", icon="image", layout={"width": "auto"}, tooltip="A PNG of this view"
        )
        self._draw.on_click(lambda _: self.draw())
        self._picture = ""
        super().__init__([self._links, self._draw], layout={"align_items": "center"})

    def refresh(self) -> None:
        """Take the view's table as it is now; a picture drawn before is of another selection and goes."""
        self._picture = ""
        self._show()

    def draw(self) -> None:
        """Draw the picture and show the link that saves it."""
        self._picture = link(f"{self._name}.png", "image/png", self._view.png(dpi=150), "Save picture (PNG)")
        self._show()

    def _show(self) -> None:
        text = self._view.table().to_csv(index=False).encode()
        self._links.value = link(f"{self._name}.csv", "text/csv", text, "Save table (CSV)") + self._picture


def link(filename: str, kind: str, content: bytes, text: str) -> str:
    """Return an HTML link that saves ``content`` as a file."""
    data = base64.b64encode(content).decode()
    target = f'download="{html.escape(filename)}" href="data:{kind};base64,{data}"'
    return f'<a class="pk-key" {target}>⬇ {html.escape(text)}</a>'


def heading(text: str, note: str = "") -> str:
    """Return a heading as HTML, with a muted line below it."""
    below = f'<div class="pk-muted">{note}</div>' if note else ""
    return f'<div class="pk-title">{html.escape(text)}</div>{below}'


def kind_html(kind: str) -> str:
    """Return the label of data that was not measured ("" for measured data)."""
    note = kind_note(kind)
    return f'<div class="pk-note">{html.escape(note)}</div>' if note else ""


_DASHES = "repeating-linear-gradient(90deg,{0} 0 4px,transparent 4px 7px)"  # a border's join where it is so short


def keys(entries: Mapping[str, tuple[str, str]]) -> str:
    """Return a legend as HTML: text -> (colour, shape), where shape is dot, bar, line, dash or circle."""
    out = []
    for text, (colour, shape) in entries.items():
        style = {
            "dot": f"background:{colour}",
            "bar": f"background:{colour}",
            "line": f"border-color:{colour}",
            "dash": f"height:2px;border:0;background:{_DASHES.format(colour)}",
            "circle": f"border:2px solid {colour};width:8px;height:8px;background:white",
        }[shape]
        css = {"bar": "bar", "line": "line", "dash": "line"}.get(shape, "")
        out.append(f'<span class="pk-key"><i class="{css}" style="{style}"></i>{html.escape(text)}</span>')
    return "".join(out)
