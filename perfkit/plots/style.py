"""Colours, number formats and labels that the static pictures and the widgets share."""

import html
import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from perfkit.samples.areas import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import ArrayLike

# Top-down areas, and the work that is done in none of them.
AREA_COLOURS: Mapping[str, str] = {**COLOURS, "retiring": "#56B4E9"}
ROOF = "#222222"
CLOUD = "#7B8794"
OUTSIDE = "#A88B4A"
ACCENT = "#B34700"
_LETTER = 8  # pixels, of a letter of names at 12 pixels, with what `fitted` spares
_PLACES = 3  # where names differ, shown at most
THIN = 0.008  # of the tallest bar: a part of a stack that is thinner in every bar cannot be seen
# Lines and bars that stand beside each other: each has a contrast of at least 2.98 on white and on a dark page.
SERIES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#A6761D", "#8C6BB1")
# What a share is of, in whatever picture or view (static/listing.js has the same).
SHARE_COLOURS: Mapping[str, str] = {"time_share": SERIES[1], "causality": SERIES[3]}
# Where figures of several kinds stand beside each other.
KIND_COLOURS: Mapping[str, str] = {"measured": SERIES[0], "simulated": SERIES[1], "published": SERIES[2]}

# Of a change (static/frame.css has the same).
LESS, MORE = SERIES[0], SERIES[1]

# What a picture says of data that no hardware counter measured.
KIND_NOTES: Mapping[str, str] = {
    "measured": "",
    "simulated": "SIMULATED data: counts of a model, not of a processor",
    "generated": "GENERATED data: made by a formula, not measured",
    "published": "PUBLISHED data: transcribed from a paper",
}


def axes_or_new(ax: Any, width: float, height: float) -> Any:
    """Return the axes given, or those of a new figure of this size in inches, which pyplot knows and shows."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(width, height), layout="constrained")[1]


def area_colour(area: str | None) -> str:
    """Return the colour of a top-down area; what is not one of them gets the grey of ``other``."""
    return AREA_COLOURS.get(area or "other", AREA_COLOURS["other"])


def ink_on(colour: Any) -> str:
    """Return black or white, whichever reads better on a colour (any that matplotlib knows)."""
    from matplotlib.colors import to_rgb

    # Above this luminance, black has the higher contrast.
    return "white" if _luminance(np.array(to_rgb(colour))) < 0.179 else "black"


def kind_note(kind: str) -> str:
    """Return the label that a picture of such data carries ("" for measured data)."""
    if kind in KIND_NOTES:
        return KIND_NOTES[kind]
    return f"{kind.upper()} data: not all of it measured"


# Of a page with a drawn picture: dark where its reader's screen is, with the same colours.
DARK_PAGE = (
    "@media (prefers-color-scheme: dark){body{color:#e8eaed;background:#16181c}"
    "svg{filter:invert(.91) hue-rotate(180deg)}}"
)


def short(number: float, digits: int = 3) -> str:
    """Return a number for people: 1,234,567 as ``1.23M``, 0.000123 as ``0.000123``, NaN as a dash."""
    if math.isnan(number):
        return "–"
    if math.isinf(number):
        return "∞" if number > 0 else "-∞"
    size = abs(number)
    if size >= 1e15:
        return f"{number:.{digits}g}"
    for limit, divisor, unit in ((1e12, 1e12, "T"), (1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if size >= limit:
            return f"{number / divisor:.{digits}g}{unit}"
    return f"{number:,.0f}" if size >= 1000 else f"{number:.{digits}g}"


def breakable(text: str) -> str:
    """Return text as HTML in which names of events may go on in another line after a dot, an underscore and the like.

    Numbers stay whole.
    """
    return re.sub(r"([._:/,-])(?=[^\W\d])", r"\1<wbr>", html.escape(text))


def abbreviate(text: str, length: int = 34) -> str:
    """Return ``text`` with its middle left out where it is longer than ``length``; both ends tell events apart."""
    if len(text) <= length:
        return text
    head = (length - 1) // 2
    return f"{text[:head]}…{text[len(text) - (length - 1 - head) :]}"


def fitted(text: str, width: float, size: float = 12.0) -> str:
    """Return ``text`` with its middle left out where it is wider than ``width`` pixels at a font size in pixels.

    Measured in DejaVu Sans with a tenth to spare: what fits in it fits in a browser's font.
    """
    if len(text) <= 3 or _fits(text, width, size):
        return text
    return abbreviate(text, _longest(3, len(text), lambda letters: _fits(abbreviate(text, letters), width, size)))


def width_of(text: str, size: float = 12.0) -> float:
    """Return how wide a text is at a font size, both in pixels: in DejaVu Sans, and a tenth to spare."""
    return 1.1 * size * sum(map(_wide, text))


def _fits(text: str, width: float, size: float) -> bool:
    return width_of(text, size) <= width


@cache
def _letter_font() -> Any:
    from matplotlib.font_manager import findfont
    from matplotlib.ft2font import FT2Font

    return FT2Font(findfont("DejaVu Sans"))


@cache
def _wide(letter: str) -> float:
    """Return how wide a letter is in DejaVu Sans, in sizes of the font; kept, as hundreds of names are measured."""
    font = _letter_font()
    font.set_size(100, 72)
    if not font.get_char_index(ord(letter)):  # a sign that it lacks, as Chinese ones, as wide as they are high
        return 1.0
    return float(font.load_char(ord(letter)).linearHoriAdvance / 65536 / 100)


def _longest(least: int, most: int, fits: Callable[[int], bool]) -> int:
    """Return the largest number from ``least`` to ``most`` that fits, at least ``least``; larger ones fit less."""
    while least < most:
        middle = (least + most + 1) // 2
        least, most = (middle, most) if fits(middle) else (least, middle - 1)
    return least


def darkened(colour: str, contrast: float = 3.0) -> str:
    """Return a colour as it is, or as much darker as a line on white needs to be seen (WCAG's contrast)."""
    from matplotlib.colors import to_hex, to_rgb

    rgb = np.array(to_rgb(colour))
    while 1.05 / (_luminance(rgb) + 0.05) < contrast:
        rgb = rgb * 0.95
    return to_hex((float(rgb[0]), float(rgb[1]), float(rgb[2])))


def _luminance(rgb: np.ndarray) -> float:
    """Return WCAG's relative luminance."""
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return float(linear @ (0.2126, 0.7152, 0.0722))


def name_rows(axes: "Axes", names: Sequence[str], letters: int = 34) -> None:
    """Name the horizontal bars at 0, 1, 2, ...: long names are cut so that no two of them look alike.

    Bars whose places are their names would fall together where names that were cut are equal.
    """
    axes.set_yticks(range(len(names)), cut_apart(names, letters))


def cut_apart(names: Sequence[str], letters: int) -> list[str]:
    """Return names that are about as wide as so many letters at most, and `distinct`."""
    return distinct(names, _LETTER * letters)


def mark_kind(axes: "Axes", kind: str) -> None:
    """Write what the data is over the picture, where it is not measured; a title that is there goes above it."""
    from matplotlib.text import Text

    note = kind_note(kind)
    if not note:
        return
    axes.annotate(
        note,
        (0.5, 1.0),
        xycoords="axes fraction",
        xytext=(0, 4),
        textcoords="offset points",
        ha="center",
        va="bottom",
        fontsize=8,
        color=ACCENT,
    )
    for side in ("left", "center", "right"):
        if words := axes.get_title(loc=side):
            size = next(text.get_fontsize() for text in axes.findobj(Text) if text.get_text() == words)
            axes.set_title(words, loc=side, fontsize=size, pad=18)


def typical(values: "ArrayLike") -> float:
    """Return the median of the values that are known, for a caption; NaN where there are none."""
    known = np.asarray(values, dtype="float64")
    known = known[np.isfinite(known)]
    return float(np.median(known)) if len(known) else math.nan


def visible_range(values: "ArrayLike", margin: float) -> tuple[float, float]:
    """Return the range of an axis that shows all finite values but 0.2 % at either end: no outlier squeezes it.

    Parameters
    ----------
    values : array
        What is drawn.
    margin : float
        Room at either end, as a share of the range.
    """
    known = np.asarray(values, dtype="float64")
    low, high = (float(v) for v in np.quantile(known[np.isfinite(known)], [0.002, 0.998]))
    room = margin * (high - low) or 0.01
    return low - room, high + room


def plain_ticks(axes: "Axes") -> None:
    """Write the numbers of logarithmic axes as numbers: 0.6, 2 and 300, not as multiples of powers of ten.

    Over less than two decades also those between the powers of ten.
    """
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    for axis, (low, high) in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
        if axis.get_scale() != "log":
            continue
        steps = (1.0, 2.0, 5.0) if high < 100 * low else (1.0,)
        axis.set_major_locator(LogLocator(subs=steps))
        axis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
        axis.set_minor_formatter(NullFormatter())


def as_written(figure: "Figure") -> None:
    """Show the names in a picture as they are: events and functions hold dollar signs, which are no formulas."""
    from matplotlib.text import Text
    from matplotlib.ticker import LogFormatter

    powers = set()
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            labels = axis.get_ticklabels(which="both")  # those that are not there yet would read their text as formulas
            if isinstance(axis.get_major_formatter(), LogFormatter):
                powers.update(labels)  # powers of ten, which matplotlib itself writes as formulas
    for text in figure.findobj(Text):
        text.set_parse_math(text in powers)


def distinct(names: Sequence[str], width: float, size: float = 12.0) -> list[str]:
    """Return each of some names `fitted` to a width; those that would look alike show where they differ.

    Of more than three such places, or without room for a letter of each, some may look alike all the same.

    Examples
    --------
    >>> distinct(["uncore.requests.read.all_of_them", "uncore.requests.write.all_of_them"], 120)
    ['….read.all_of_th…', '….write.all_of_t…']
    """
    labels = {name: fitted(name, width, size) for name in names}
    places: dict[str, list[int]] = {name: [] for name in labels}
    for _ in range(_PLACES):
        for alike in _by_label(labels):
            letters = list(zip(*alike, strict=False))
            differ = next((k for k, each in enumerate(letters) if len(set(each)) > 1), len(letters))
            for name in alike if len(alike) > 1 else ():
                places[name] = sorted({*places[name], max(0, differ - 1)})
                labels[name] = _parts(name, places[name], width, size)
    return [labels[name] for name in names]


def _by_label(labels: Mapping[str, str]) -> list[list[str]]:
    """Return the names that have each label."""
    groups: dict[str, list[str]] = {}
    for name, label in labels.items():
        groups.setdefault(label, []).append(name)
    return list(groups.values())


def _part_fits(name: str, start: int, width: float, size: float, cut: int) -> bool:
    return _fits(f"…{name[start:cut]}…", width, size)


def _parts(name: str, places: Sequence[int], width: float, size: float) -> str:
    """Return what fits of a name from each of some letters on, with dots for what is left out."""
    shown, until = "", 0
    for k, start in enumerate(places):
        end = places[k + 1] if k + 1 < len(places) else len(name)
        cut = _longest(min(start + 3, end), end, partial(_part_fits, name, start, width / len(places), size))
        shown += ("…" if start > until else "") + name[start:cut]
        until = cut
    return shown + ("…" if until < len(name) else "")
