"""The contract that every result keeps: a table, a picture, a file, a summary in a few lines.

A settings object's ``fit`` or ``run`` returns a new result. Whatever the method, a result can be asked the same things:
see `Result`. Pictures live in `perfkit.plots`, above the results; `draw` is the only way up.
"""

import html
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, get_args, runtime_checkable

if TYPE_CHECKING:
    import pandas as pd

# Where a figure comes from: every set of data says one of these.
Kind = Literal["measured", "simulated", "generated", "published"]
KINDS: tuple[str, ...] = get_args(Kind)


@runtime_checkable
class Result(Protocol):
    """What can be asked of any result of perfkit."""

    @property
    def kind(self) -> Kind:
        """Where the figures come from: measured, simulated, generated or published."""

    def to_frame(self) -> "pd.DataFrame":
        """Return the result as a table, one row per thing that was found."""

    def plot(self, ax: Any = None) -> Any:
        """Draw the result: into ``ax`` if given; returns the axes (the figure, where there are several axes)."""

    def summary(self) -> str:
        """Say what was found in a few lines of plain text."""

    def save(self, path: str | Path) -> Path:
        """Write the result to a file, replacing an older one only when the new one is complete."""

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a saved result again; FileNotFoundError if there is no such file, FormatError if it is another's."""


class Summarised:
    """Short displays made from ``summary()``; decorate dataclasses with ``repr=False`` so that these are kept."""

    def summary(self) -> str:
        """Say what was found in a few lines of plain text."""
        raise NotImplementedError

    def __repr__(self) -> str:
        """Return the class and the first line of the summary, at most 300 characters."""
        first = self.summary().splitlines()[0] if self.summary() else ""
        text = f"<{type(self).__name__}: {first}>"
        return text if len(text) <= 300 else text[:298] + "…>"

    def _repr_html_(self) -> str:
        """Return the summary for a notebook, at most 4 kB."""
        shown = html.escape(self.summary())
        if len(shown.encode()) > 3900:
            shown = shown.encode()[:3900].decode(errors="ignore").rsplit("&", 1)[0] + "…"
        return f"<pre>{shown}</pre>"


def draw(picture: str, result: Any, /, **options: Any) -> Any:
    """Draw a result with a function of `perfkit.plots`, imported when it is first needed.

    Parameters
    ----------
    picture
        Module and function below `perfkit.plots`, for example ``"spire:plot_ranking"``.
    result
        The function's first argument.
    options
        Passed on; ``ax`` among them.
    """
    module, _, name = picture.partition(":")
    return getattr(import_module(f"perfkit.plots.{module}"), name)(result, **options)
