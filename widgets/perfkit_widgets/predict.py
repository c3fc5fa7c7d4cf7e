"""Predict, commit, reveal: a question whose answer stays hidden until the reader has said what they expect."""

import base64
import html
import io
import textwrap
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import ipywidgets as widgets
import pandas as pd
import traitlets

from perfkit.errors import SettingError
from perfkit_widgets.base import Explorer, heading

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BEFORE = "Commit a prediction above; the answer then appears here."


class Predict(Explorer):
    """A question, and a prediction that can be changed until it is committed, and never after.

    By keyboard: Tab goes to the choices, the arrow keys choose, Tab and Enter commit.

    Parameters
    ----------
    question : str
        What to predict, as plain text.
    choices : sequence of str, optional
        Answers to choose from.
    between : (float, float, float), optional
        Lowest number, highest number and step of a slider. Without choices and slider, the answer is a line of text.
    unit : str
        Of the number.
    commit : str or float, optional
        Commit this at once: for a run without a reader.

    Attributes
    ----------
    value : str, float or None
        The prediction as it stands; None before anything was chosen.
    committed : bool
        Whether it is locked.

    Examples
    --------
    >>> guess = Predict("Which is faster?", ["a", "b"])
    >>> guess.value = "b"
    >>> guess.commit()
    >>> guess.committed
    True
    """

    value = traitlets.Any(None, allow_none=True)
    committed = traitlets.Bool(False)

    def __init__(
        self,
        question: str,
        choices: Sequence[str] = (),
        *,
        between: tuple[float, float, float] | None = None,
        unit: str = "",
        commit: str | float | None = None,
    ) -> None:
        super().__init__()
        if choices and between is not None:
            raise SettingError("a prediction is one of choices, or a number between two others; both were given")
        self.question, self.choices, self.between, self.unit = question, tuple(choices), between, unit
        self._field = self._input()
        self._field.observe(lambda change: setattr(self, "value", _filled(change["new"])), "value")
        self._button = widgets.Button(
            description="Commit", icon="lock", disabled=True, tooltip="Lock this prediction and see the answer"
        )
        self._button.on_click(lambda _: self.commit())
        self._said = widgets.HTML()
        row = widgets.HBox([self._button, self._said], layout={"align_items": "center"})
        self.children = [widgets.HTML(heading("Predict") + _paragraph(question)), self._field, row]
        self.observe(lambda _: self._show(), ["value", "committed"])
        if commit is not None:
            self.value = commit
            self.commit()

    def commit(self) -> None:
        """Lock the prediction; what hangs on it (`Reveal`) shows itself.

        Raises
        ------
        SettingError
            Nothing was predicted yet.
        """
        if self.value is None:
            raise SettingError("nothing to commit: choose or write a prediction first")
        self.committed = True

    @property
    def said(self) -> str:
        """The prediction in words."""
        text = f"{self.value:g}" if isinstance(self.value, float | int) else str(self.value)
        return f"{text} {self.unit}".strip()

    @traitlets.validate("value")
    def _allowed(self, proposal: Any) -> Any:
        value = proposal["value"]
        if self.committed and value != self.value:
            self._field.value = self.value
            raise SettingError(f"this prediction is committed: {self.said}")
        if value is None:
            return value
        if self.choices and value not in self.choices:
            raise SettingError(f"expected one of {', '.join(self.choices)}; found {value!r}")
        if self.between is not None and not self.between[0] <= value <= self.between[1]:
            raise SettingError(f"expected a number from {self.between[0]:g} to {self.between[1]:g}; found {value!r}")
        return value

    @traitlets.validate("committed")
    def _for_good(self, proposal: Any) -> bool:
        if self.committed and not proposal["value"]:
            raise SettingError("a committed prediction stays committed; run the cell again for a new one")
        return bool(proposal["value"])

    def table(self) -> pd.DataFrame:
        """Return question and prediction as a table of one row."""
        return pd.DataFrame([{"question": self.question, "prediction": self.value, "committed": self.committed}])

    def picture(self) -> "Figure":
        """Return the question and its choices as a static picture."""
        return _written(self.question, *(f"○ {choice}" for choice in self.choices))

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        items = "".join(f"<li>{html.escape(choice)}</li>" for choice in self.choices)
        text = _paragraph(self.question) + (f"<ul>{items}</ul>" if items else "")
        return _with_words(super()._repr_mimebundle_(**kwargs), f"Predict: {self.question}", text)

    def _input(self) -> Any:
        if self.choices:
            layout = {"width": "100%"}
            return widgets.RadioButtons(options=self.choices, value=None, layout=layout)
        if self.between is not None:
            low, high, step = self.between
            layout = {"width": "420px"}
            # As many as the step has, which may be 1e-05; "g" shows 0.00000.
            digits = f".{max(0, -int(Decimal(f'{step:g}').normalize().as_tuple().exponent))}f"
            return widgets.FloatSlider(
                value=low, min=low, max=high, step=step, description=self.unit, readout_format=digits, layout=layout
            )
        return widgets.Text(placeholder="What do you expect, and why?", layout={"width": "70%"})

    def _show(self) -> None:
        if self.value is not None and self._field.value != self.value:
            self._field.value = self.value
        self._field.disabled = self.committed
        self._button.disabled = self.committed or self.value is None
        self._said.value = _paragraph(f"Committed: {self.said}") if self.committed else ""


class Reveal(Explorer):
    """The answer to a `Predict`: hidden until that is committed, then beside what was predicted.

    Parameters
    ----------
    prediction : Predict
        What must be committed first.
    answer : str
        What is the case, as plain text.
    why : str
        Why, as plain text.
    show : callable, optional
        Returns a picture (matplotlib) or a view; called when the answer is shown.

    Examples
    --------
    >>> asked = pw.Predict("How many cycles does one iteration take?", ["4", "8"])
    >>> view = pw.Reveal(asked, "8", "two chained multiply-adds of four cycles")
    """

    def __init__(self, prediction: Predict, answer: str, why: str = "", show: Callable[[], Any] | None = None) -> None:
        super().__init__()
        self.prediction, self.answer, self.why, self._make = prediction, answer, why, show
        self._words = widgets.HTML(layout={"width": "100%"})
        self._below = widgets.VBox(layout={"width": "100%"})
        self.children = [self._words, self._below]
        prediction.observe(lambda _: self._show(), "committed")
        self._show()

    def table(self) -> pd.DataFrame:
        """Return prediction and answer as a table of one row; no answer before the prediction is committed."""
        answer = self.answer if self.prediction.committed else None
        return self.prediction.table().assign(answer=[answer])

    def picture(self) -> "Figure":
        """Return what is shown as a static picture: before the prediction is committed, that it is missing."""
        if not self.prediction.committed:
            return _written(_BEFORE)
        made = self._make() if self._make is not None else None
        if made is None:
            return _written(f"Predicted: {self.prediction.said}", f"Found: {self.answer}", self.why)
        figure: Figure = made.picture() if hasattr(made, "picture") else _figure_of(made)
        return figure

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """Give readers without widgets the answer, folded away."""
        made = self._make() if self._make is not None else None
        image = "" if made is None else _image(made.png() if hasattr(made, "png") else _png_of(_figure_of(made)))
        words = f"<p><b>{html.escape(self.answer)}</b></p>{_paragraph(self.why)}"
        text = f"<details><summary>Answer</summary>{words}{image}</details>"
        plain = f"You predicted: {self.prediction.said}. Found: {self.answer}. {self.why}"
        shown = plain if self.prediction.committed else _BEFORE
        return _with_words(super()._repr_mimebundle_(**kwargs), shown, text)

    def _show(self) -> None:
        if not self.prediction.committed:
            self._words.value = f'<div class="pk-muted">{_BEFORE}</div>'
            return
        agrees = " ✔" if self.prediction.said == self.answer else ""
        self._words.value = (
            f"<div class='pk-hint'>You predicted: {html.escape(self.prediction.said)}{agrees}<br>"
            f"Found: <b>{html.escape(self.answer)}</b></div>{_paragraph(self.why)}"
        )
        made = self._make() if self._make is not None else None
        if made is not None:
            is_view = isinstance(made, widgets.Widget)
            self._below.children = [made if is_view else widgets.HTML(_image(_png_of(_figure_of(made))))]


def _filled(value: Any) -> Any:
    """Return a field's value, None where it is empty."""
    return None if isinstance(value, str) and not value.strip() else value


def _paragraph(text: str) -> str:
    return f'<p style="margin: 4px 0; max-width: 56em; font-size: 14px">{html.escape(text)}</p>' if text else ""


def _figure_of(made: Any) -> Any:
    """Return the figure of what a plot function returned, closed for pyplot: it is shown here and nowhere else."""
    import matplotlib.pyplot as plt

    first = made.flat[0] if hasattr(made, "flat") else made
    figure = getattr(first, "figure", first)
    plt.close(figure)
    return figure


def _png_of(figure: Any) -> bytes:
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=110, bbox_inches="tight")
    return stream.getvalue()


def _image(png: bytes) -> str:
    data = base64.b64encode(png).decode()
    return f'<img alt="The answer as a picture" style="max-width: 100%" src="data:image/png;base64,{data}">'


def _with_words(bundle: Any, plain: str, text: str) -> Any:
    data = bundle[0] if isinstance(bundle, tuple) else bundle
    if isinstance(data, dict):
        data |= {"text/plain": plain, "text/html": text}
    return bundle


def _written(*lines: str) -> "Figure":
    """Return lines of text as a picture."""
    from matplotlib.figure import Figure

    text = "\n".join(row for line in lines for row in textwrap.wrap(line, 95))
    figure = Figure(figsize=(8, 0.3 + 0.24 * (text.count("\n") + 1)))
    figure.text(0.01, 0.95, text, va="top", fontsize=11)
    return figure
