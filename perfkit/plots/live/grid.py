"""Simulations on a grid of cores, for views that go from one to the next in the browser."""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from perfkit.errors import SettingError
from perfkit.plots.extended_roofline import COLOURS, GREY, unit_of
from perfkit.plots.live.packed import LiveModel
from perfkit.simulators.dag.extended_roofline import NAMES

LARGEST_GRID = 3000
Progress = Callable[[int, int], None]


def live_what_if(
    run: Callable[[Mapping[str, float]], Any],
    resources: Mapping[str, str],
    factors: Sequence[float] = (0.5, 1.0, 2.0, 4.0),
    *,
    top: int = 6,
    title: str = "",
    progress: Progress | None = None,
) -> LiveModel:
    """Simulate every combination of factors on some resources' capacities; return what the browser needs to show them.

    Parameters
    ----------
    run : callable
        Factors (resource -> factor on its capacity, those that are not 1) -> a `perfkit.sensitivity` result, such as
        `perfkit.what_if` returns.
    resources : mapping of str to str
        Resource -> what to write beside its slider. Three of them with four factors are 64 simulations.
    factors : sequence of float
        The places of each slider, 1 among them.
    top : int
        How many resources of the ranking to show.
    title : str
        What is simulated.
    progress : callable, optional
        Called with the simulations done and their total.

    Raises
    ------
    SettingError
        No resource, no factor 1, or more combinations than can be shown.
    """
    values = sorted({float(f) for f in factors})
    if not resources:
        raise SettingError("name at least one resource to change")
    if 1.0 not in values or values[0] <= 0:
        raise SettingError(f"factors are above 0, and 1 (the core as it is) is one of them; found {values}")
    axes = [_axis(name, values, 1.0, about) for name, about in resources.items()]
    results = [run({name: f for name, f in point.items() if f != 1.0}) for point in _points(axes, progress)]
    tables = [result.to_frame() for result in results]
    column = tables[0].columns[-1]
    names = [str(name) for name in tables[0]["resource"]]
    head = {"axes": axes, "ranked": names, "weight": str(column).replace("x", "×"), "top": top}
    arrays = {
        "cycles": np.array([float(result.cycles) for result in results]),
        "speedup": np.concatenate([table.set_index("resource").loc[names, column].to_numpy() for table in tables]),
    }
    return LiveModel.of("whatif", f"What if? {title}".strip(), "simulated", head, arrays, resources)


def live_roofs(
    roofline: Any,
    reschedule: Callable[..., Any],
    sliders: Mapping[str, Sequence[float]],
    *,
    progress: Progress | None = None,
) -> LiveModel:
    """Schedule a DAG on every core of a grid; return what the browser needs to show its roofs.

    Parameters
    ----------
    roofline : ExtendedRoofline
        Of the core as it is.
    reschedule : callable
        Called with the sliders' values as keywords; returns the roofline of that core (`perfkit.rescheduler`).
    sliders : mapping of str to sequence of numbers
        For each parameter of the core the values it may take; its own is added.
    progress : callable, optional
        Called with the schedules done and their total.

    Raises
    ------
    SettingError
        No slider, or more combinations than can be shown.
    """
    if not sliders:
        raise SettingError("name at least one parameter of the core with its values")
    schedule = roofline.schedule
    axes = []
    for name, allowed in sliders.items():
        now = float(getattr(schedule.core, name))
        axes.append(_axis(name, sorted({*map(float, allowed), now}), now, f"core: {now:g} {unit_of(name)}".strip()))
    lines = [reschedule(**point) for point in _points(axes, progress)]
    known: dict[tuple[str, str], int] = {}
    roofs = [roof for one in lines for roof in one.roofs]
    for roof in roofs:
        known.setdefault((roof.label, roof.kind), len(known))
    described: list[dict[str, str]] = [{}] * len(known)
    for roof in roofs:
        overlap = roof.kind == "overlap"
        shade = GREY if overlap else "" if roof.kind == "throughput" else COLOURS[roof.of[0]]
        of = "overlaps" if overlap else NAMES[roof.of[0]]
        described[known[roof.label, roof.kind]] = {"label": roof.label, "kind": roof.kind, "colour": shade, "of": of}
    head = {
        "axes": axes,
        "roofs": described,
        "verdicts": [one.verdict for one in lines],
        "tolerance": roofline.tolerance,
        "unit": schedule.unit,
    }
    numbers = ("a", "b", "alpha", "bound", "distance", "utilisation")
    arrays = {
        "offsets": np.concatenate([[0], np.cumsum([len(one.roofs) for one in lines])]).astype("int32"),
        "which": np.array([known[roof.label, roof.kind] for roof in roofs], dtype="int32"),
        "performance": np.array([one.performance for one in lines]),
        "intensity": np.array([one.intensity for one in lines]),
        **{name: np.array([getattr(roof, name) for roof in roofs], dtype="float64") for name in numbers},
    }
    title = f"Extended roofline: {schedule.name} on {schedule.core.name}"
    return LiveModel.of("roofs", title, "simulated", head, arrays, sliders)


def _axis(name: str, values: list[float], now: float, about: str) -> dict[str, Any]:
    if not all(math.isfinite(value) for value in values):
        raise SettingError(f"{name}: a slider's values are finite numbers; found {values}")
    return {"name": name, "values": values, "start": values.index(now), "about": about}


def _points(axes: list[dict[str, Any]], progress: Progress | None) -> Iterator[dict[str, float]]:
    """Give every combination of the axes' values, the last axis fastest, and tell how many are done."""
    total = math.prod(len(axis["values"]) for axis in axes)
    if total > LARGEST_GRID:
        sizes = " x ".join(f"{len(axis['values'])} ({axis['name']})" for axis in axes)
        raise SettingError(
            f"a grid of {sizes} is {total:,} simulations; at most {LARGEST_GRID:,} are shown. "
            "Leave sliders or values out"
        )
    names = [axis["name"] for axis in axes]
    for done, values in enumerate(itertools.product(*(axis["values"] for axis in axes))):
        if progress is not None:
            progress(done, total)
        yield dict(zip(names, values, strict=True))
    if progress is not None:
        progress(total, total)
