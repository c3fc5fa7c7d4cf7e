"""A first look at a dump that is dragged into the notebook."""

import base64
import html
import io
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ipywidgets

from perfkit_widgets.base import Pictured

if TYPE_CHECKING:
    from perfkit.exploration.exploration import Exploration


class YourDump(ipywidgets.VBox):
    """A field that takes files, and what a first look at them tells; names in them are shown as text.

    Parameters
    ----------
    explore : function
        Given paths, returns what is to be shown (`perfkit.explore`); its ``report()`` is shown.
    shown : optional
        What is shown before a file is given.

    Attributes
    ----------
    found
        What `explore` returned last.

    Examples
    --------
    >>> view = pw.YourDump(lambda paths: pk.explore(*paths))
    >>> events = view.follow(lambda: "nothing yet" if view.found is None else view.found.headline)
    """

    def __init__(self, explore: Callable[[list[Path]], "Exploration"], shown: "Exploration | None" = None) -> None:
        self._explore = explore
        self.found = shown
        self._followers: list[Following] = []
        self.upload = ipywidgets.FileUpload(multiple=True, description="Your dumps")
        self.upload.layout.width = "16em"
        self.answer = ipywidgets.HTML(_page(shown.report()) if shown is not None else "")
        self.upload.observe(self._take, names="value")
        super().__init__([self.upload, self.answer])

    def follow(self, show: Callable[[], Any]) -> "Following":
        """Return what is shown elsewhere of the same files: it is drawn again whenever others are given.

        Parameters
        ----------
        show : function
            Returns a view, or text.
        """
        follower = Following(show)
        self._followers.append(follower)
        return follower

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
            except PerfkitError as error:
                self.answer.value = _page(str(error))
                return
        self.answer.value = _page(self.found.report())
        for follower in self._followers:
            follower.draw()


class Following(ipywidgets.VBox):
    """A view, or text, of the files that `YourDump` holds; `YourDump.follow` makes it.

    Parameters
    ----------
    show : function
        Returns a view, or text; what it cannot show (an error of perfkit) is said in its place.
    """

    def __init__(self, show: Callable[[], Any]) -> None:
        self._show = show
        self._drawn: ipywidgets.Widget | None = None
        super().__init__(layout={"width": "100%"})
        self.draw()

    def draw(self) -> None:
        """Show what there is now."""
        from perfkit.errors import PerfkitError

        before = self._drawn
        try:
            self._shown = self._show()
        except PerfkitError as error:
            self._shown = str(error)
        view = self._shown
        self._drawn = view if isinstance(view, ipywidgets.Widget) else ipywidgets.HTML(_text(str(view)))
        self.children = [self._drawn]
        if before is not None:
            before.close()

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """Show the text, or the view's picture, where widgets are not shown."""
        bundle = super()._repr_mimebundle_(**kwargs)
        data = bundle[0] if isinstance(bundle, tuple) else bundle
        if isinstance(data, dict) and isinstance(self._shown, Pictured):
            data["image/png"] = base64.b64encode(self._shown.png()).decode()
        elif isinstance(data, dict):
            data["text/plain"] = str(self._shown)
        return bundle


def _png(found: Any) -> bytes:
    import matplotlib.pyplot as plt

    figure = found.plot().figure
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=110)
    plt.close(figure)
    return stream.getvalue()


def _page(text: str) -> str:
    first, _, rest = text.partition("\n")
    return f"<h3>{html.escape(first)}</h3>{_text(rest)}"


def _text(text: str) -> str:
    font = "font-family: var(--jp-code-font-family, monospace); line-height: 1.4"  # apps have another for widgets
    style = f"white-space: pre-wrap; word-break: normal; overflow-wrap: anywhere; {font}"
    return f"<pre style='{style}'>{html.escape(text)}</pre>"
