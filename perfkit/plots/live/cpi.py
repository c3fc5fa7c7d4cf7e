"""CPI stacks for the browser: the counts of each interval, to which a view fits stacks of any part of the run."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from perfkit.errors import SettingError
from perfkit.fitters.cpi.checks import unusable_events
from perfkit.plots.cpi_stack import begins, colours, time_axis
from perfkit.plots.live.packed import LiveModel

if TYPE_CHECKING:
    from perfkit.fitters.cpi.stack import CpiFit

METHODS = ("nnls", "ols", "huber")  # which the browser knows
_MOST = 60_000  # intervals times sixteen columns that a fit of 50 ms goes through


def live_cpi(fits: "Mapping[str, CpiFit]") -> LiveModel:
    """Return what the browser needs to fit the stacks of any window with other events, forms and methods.

    It travels as counts, 8 bytes each: 0.2 MB for 1471 intervals of 15 events. In the browser their moments over a
    window are added up in less than a millisecond, and every fit ends with a step on the residuals, as in Python.

    Parameters
    ----------
    fits : mapping of str to CpiFit
        Stacks with the same settings, by name. They open with their events and settings, on all their intervals.

    Raises
    ------
    SettingError
        Settings that the browser does not know (the lasso, bounds, methods added to the kit), or that differ between
        the stacks.
    DataError
        More counts than a page should hold.
    """
    first = next(iter(fits.values())).settings
    for name, fit in fits.items():
        _check(name, fit)
        if any(getattr(fit.settings, s) != getattr(first, s) for s in ("form", "method", "weights", "aggregate")):
            raise SettingError(f"{name}: fitted with other settings than the first; fit all with one CpiStack")
    events = list(dict.fromkeys(event for fit in fits.values() for event in fit.source.events))
    used = {event for fit in fits.values() for event in fit.data.events}
    useless = {event for fit in fits.values() for event in unusable_events(fit.source.aggregate(first.aggregate))}
    stacks: list[dict[str, str | list[str]]] = []
    arrays: dict[str, np.ndarray] = {}
    for i, (name, fit) in enumerate(fits.items()):
        source, (position, label) = fit.source, time_axis(fit.source.rows)
        stacks.append(
            {
                "name": name,
                "events": list(source.events),
                "unit": "seconds" if label.startswith("time") else "intervals",
                "kind": fit.kind,
                "verdict": str(fit.verdict),
            }
        )
        arrays |= {
            f"cycles{i}": source.cycles,
            f"instructions{i}": source.instructions,
            f"counts{i}": source.counts.ravel(),
            f"segments{i}": source.segments().astype("int32"),
            f"position{i}": position,
            f"begin{i}": begins(source.rows, position),
        }
    kinds = list(dict.fromkeys(fit.kind for fit in fits.values()))
    head = {
        "stacks": stacks,
        "events": events,
        "colours": colours(events),
        "off": [event for event in events if event not in used and event not in useless],
        "settings": {
            "form": first.form,
            "method": first.method,
            "weights": first.weights,
            "sums": first.aggregate,
            "folds": first.folds,
        },
    }
    title = f"CPI stack{'s' * (len(fits) > 1)}: {', '.join(list(fits)[:3])}{', …' if len(fits) > 3 else ''}"
    floats = {name: np.asarray(a, dtype=a.dtype if a.dtype == "int32" else "float64") for name, a in arrays.items()}
    return LiveModel.of("cpi", title, " and ".join(kinds), head, floats, [*fits, *events])


def _check(name: str, fit: "CpiFit") -> None:
    settings = fit.settings
    if settings.method not in METHODS:
        raise SettingError(
            f"{name}: fitted by {settings.method!r}; the browser fits by {', '.join(METHODS)}. Use "
            f"fit.refit(method='nnls'), or CpiStackExplorer with a kernel"
        )
    if settings.bounds:
        raise SettingError(f"{name}: fitted under bounds, which the browser does not know; use CpiStackExplorer")
    size = len(fit.source) * (len(fit.source.events) / 16) ** 2
    if size > _MOST:
        raise SettingError(
            f"{name}: {len(fit.source):,} intervals of {len(fit.source.events)} events are more than a browser fits "
            "while a window is dragged. Add intervals up first (CpiCounts.aggregate), or give fewer events"
        )
