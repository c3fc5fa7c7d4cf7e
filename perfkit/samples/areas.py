"""Top-down areas of events: whether an event belongs to front end, bad speculation, memory or core."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType

import pandas as pd

from perfkit.base.files import toml_of
from perfkit.errors import FormatError, SettingError, counted
from perfkit.samples.events import normalise

AREAS = ("front-end", "bad speculation", "memory", "core")
OTHER = "other"

# Colours that stay apart for colour-blind readers (Okabe and Ito); the same in every plot and widget.
COLOURS: Mapping[str, str] = MappingProxyType(
    {
        "front-end": "#0072B2",
        "bad speculation": "#D55E00",
        "memory": "#009E73",
        "core": "#CC79A7",
        OTHER: "#7F7F7F",
    }
)


@dataclass(frozen=True)
class Areas:
    """A mapping of event names to areas, by shell patterns on the name without PMU, modifiers and case.

    Attributes
    ----------
    patterns : tuple of (str, str)
        Pattern and area. Of several patterns that fit an event, one that was added later wins over the shipped ones;
        otherwise the longest does.
    own : tuple of (str, str)
        Those that were added (`extended`).

    Examples
    --------
    >>> areas = Areas.load()
    >>> areas.of("cpu_core/BR_MISP_RETIRED.ALL_BRANCHES/u")
    'bad speculation'
    >>> areas.extended({"my_dma.*": "memory"}).of("my_dma.beats")
    'memory'
    """

    patterns: tuple[tuple[str, str], ...]
    own: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        """Return how many patterns there are; `patterns` lists them."""
        return f"<Areas: {counted(len(self.patterns), 'pattern')} of event names, {len(self.own)} of them added>"

    @classmethod
    def load(cls) -> "Areas":
        """Return the shipped mapping (perfkit/areas.toml)."""
        return cls(_read(Path(__file__).with_name("areas.toml")))

    def extended(self, more: "Mapping[str, str] | str | Path") -> "Areas":
        """Return this mapping with further patterns, which win over the shipped ones.

        Parameters
        ----------
        more : mapping of pattern to area, or path
            A TOML file has one list of patterns per area, as the shipped one has.

        Raises
        ------
        SettingError
            An area is not one of those there are.
        """
        added = _read(Path(more)) if isinstance(more, str | Path) else tuple(more.items())
        wrong = sorted({area for _, area in added} - {*AREAS, OTHER})
        if wrong:
            raise SettingError(f"areas are {', '.join((*AREAS, OTHER))}; found {', '.join(map(repr, wrong))}")
        return Areas(self.patterns, self.own + tuple((normalise(p), a) for p, a in added))

    def of(self, event: str) -> str:
        """Return the area of an event, or "other"."""
        name = normalise(event)
        for patterns in (self.own, self.patterns):
            fitting = [(len(p), area) for p, area in patterns if fnmatchcase(name, p)]
            if fitting:
                return max(fitting)[1]
        return OTHER

    def to_frame(self, events: Iterable[str]) -> pd.DataFrame:
        """Return one row per event: event and area."""
        listed = list(events)
        return pd.DataFrame({"event": listed, "area": [self.of(e) for e in listed]})


def _read(path: Path) -> tuple[tuple[str, str], ...]:
    content = toml_of(path, "TOML with a list of patterns per area")
    for area, patterns in content.items():
        if (
            area not in (*AREAS, OTHER)
            or not isinstance(patterns, list)
            or not all(isinstance(p, str) for p in patterns)
        ):
            raise FormatError(
                f"{path}: expected lists of text under {', '.join((*AREAS, OTHER))}; found {area} = {patterns!r}"
            )
    return tuple((pattern, area) for area, patterns in content.items() for pattern in patterns)
