"""A first look at a dump that is dragged into the notebook."""

import base64
import html
import io
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ipywidgets


class YourDump(ipywidgets.VBox):
    """A field that takes files, and what a first look at them tells; names in them are shown as text.

    Parameters
    ----------
    explore : function
        Given paths, returns what is to be shown (`perfkit.explore`); its ``report()`` is shown.
    shown : optional
        What is shown before a file is given.
    below : str
        What to say on top once files were given: that what stands below the view is not of them.

    Attributes
    ----------
    found
        What `explore` returned last.

    Examples
    --------
    >>> view = pw.YourDump(lambda paths: pk.explore(*paths))
    """

    def __init__(self, explore: Callable[[list[Path]], Any], shown: Any = None, *, below: str = "") -> None:
        self._explore, self._below = explore, below
        self.found = shown
        self.upload = ipywidgets.FileUpload(multiple=True, description="Your dumps")
        self.upload.layout.width = "16em"
        self.answer = ipywidgets.HTML(_page(shown.report()) if shown is not None else "")
        self.upload.observe(self._take, names="value")
        super().__init__([self.upload, self.answer])

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """Show the text and the picture where widgets are not shown."""
        bundle = super()._repr_mimebundle_(**kwargs)
        data = bundle[0] if isinstance(bundle, tuple) else bundle
        if isinstance(data, dict) and self.found is not None:
            data["text/plain"] = self.found.report()
            data["image/png"] = base64.b64encode(_png(self.found)).decode()
        return bundle

    def _take(self, change: Any) -> None:
        from perfkit.errors import PerfkitError

        if not change["new"]:
            return
        with tempfile.TemporaryDirectory() as folder:
            paths = []
            for file in change["new"]:
                path = Path(folder) / (Path(file["name"]).name or "dump")
                path.write_bytes(bytes(file["content"]))
                paths.append(path)
            try:
                self.found = self._explore(paths)
                self.answer.value = self._note() + _page(self.found.report())
            except PerfkitError as error:
                self.answer.value = _page(str(error))

    def _note(self) -> str:
        return f"<div class='pk-note' role='status'>{html.escape(self._below)}</div>" if self._below else ""


def _png(found: Any) -> bytes:
    import matplotlib.pyplot as plt

    figure = found.plot().figure
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=110)
    plt.close(figure)
    return stream.getvalue()


def _page(text: str) -> str:
    first, _, rest = text.partition("\n")
    style = "white-space: pre-wrap; word-break: normal; overflow-wrap: anywhere"
    return f"<h3>{html.escape(first)}</h3><pre style='{style}'>{html.escape(rest)}</pre>"
