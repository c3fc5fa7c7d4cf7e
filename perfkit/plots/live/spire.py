"""SPIRE for the browser: rooflines and samples, from which a view ranks the events of any part of the run."""

from typing import TYPE_CHECKING

import numpy as np

from perfkit.errors import DataError
from perfkit.fitters.spire.points import Points, arrange
from perfkit.plots.live.packed import LiveModel
from perfkit.plots.samples import throughput_label
from perfkit.plots.spire_views import on_bound, sample_positions
from perfkit.plots.style import abbreviate, area_colour
from perfkit.plots.time_axis import SECONDS, TimeAxis
from perfkit.samples.areas import Areas
from perfkit.samples.table import Samples, expect_samples

if TYPE_CHECKING:
    from perfkit.fitters.spire.model import SpireModel

_CLOUD = 400  # training samples drawn an event


def live_spire(
    model: "SpireModel",
    samples: Samples,
    training: Samples | None = None,
    *,
    areas: Areas | None = None,
    top: int = 12,
) -> LiveModel:
    """Return what the browser needs to rank the events of any window as `SpireModel.rank` does.

    The samples travel as they are (time, intensity and throughput, 28 bytes each); a ranking in the browser differs
    from Python's by rounding only. The bootstrap spread is not worked out there.

    Parameters
    ----------
    model : SpireModel
    samples : Samples
        The analysed workload.
    training : Samples, optional
        Drawn behind each roofline, at most some hundred samples of an event: those on the roofline, and others evenly.
    areas : Areas, optional
        The shipped ones by default.
    top : int
        How many events the ranking shows.

    Raises
    ------
    SettingError
        As `SpireModel.rank` does.
    DataError
        More samples than a page should hold.
    """
    for given in (samples, *([] if training is None else [training])):
        expect_samples(given, "LiveSpire")
    ranking = model.rank(samples, bootstrap=0)  # refuses what cannot be ranked, and knows the caveats
    points = arrange(samples, model.settings.min_running)
    axis = TimeAxis.of(samples)
    chosen = [i for i, event in enumerate(points.events) if event in model.rooflines and len(points.of(i)[0])]
    events = [points.events[i] for i in chosen]
    known = areas or Areas.load()
    training_of = model.training
    workloads = [str(w) for w in samples.runs["workload"].unique()]
    head = {
        "events": [
            {
                "name": event,
                "area": known.of(event),
                "colour": area_colour(known.of(event)),
                "n_training": int(training_of.loc[event, "n_samples"]),
            }
            for event in events
        ],
        "unranked": {
            str(status): int(n) for status, n in ranking.table["status"].value_counts().items() if status != "ok"
        },
        "throughput": throughput_label(samples),
        "work": samples.work_event,
        "unit": "seconds" if axis.unit in SECONDS else axis.unit,
        "runs": [[str(axis.run[i]), int(i)] for i in np.flatnonzero(axis.first_of_run)],
        "training_kind": model.kind,
        "caveats": list(ranking.caveats),
        "top": top,
    }
    title = f"What bounds {abbreviate(', '.join(workloads[:3]), 60)}{', …' if len(workloads) > 3 else ''}"
    arrays = {
        **_samples(points, chosen, axis),
        **_rooflines(model, events),
        **_intervals(samples, points, axis),
        **_clouds(model, events, training),
    }
    return LiveModel.of("spire", title, samples.kind, head, arrays, events)


def _samples(points: Points, chosen: list[int], axis: TimeAxis) -> dict[str, np.ndarray]:
    """Return the samples of each event, in the order of the intervals."""
    parts = []
    for i in chosen:
        time, intensity, throughput = points.of(i)
        at = axis.row[points.rows_of(i)]
        order = np.argsort(at, kind="stable")
        parts.append((at[order], time[order], intensity[order], throughput[order]))
    at, time, intensity, throughput = (np.concatenate(column) for column in zip(*parts, strict=True))
    return {
        "offsets": _offsets([len(part[0]) for part in parts]),
        "at": at.astype("int32"),
        "time": time,
        "intensity": intensity,
        "throughput": throughput,
    }


def _rooflines(model: "SpireModel", events: list[str]) -> dict[str, np.ndarray]:
    lines = [model.rooflines[event] for event in events]
    corners = np.concatenate([line.breakpoints for line in lines])
    return {
        "corner_offsets": _offsets([len(line.breakpoints) for line in lines]),
        "corner_x": corners[:, 0],
        "corner_y": corners[:, 1],
        "peak": np.array([line.peak_intensity for line in lines]),
        "at_infinity": np.array([line.at_infinity for line in lines]),
        "least": model.training.loc[events, "min_intensity"].to_numpy(dtype="float64"),
        "most": model.training.loc[events, "max_intensity"].to_numpy(dtype="float64"),
    }


def _intervals(samples: Samples, points: Points, axis: TimeAxis) -> dict[str, np.ndarray]:
    """Return time and work of each interval, and whether its samples disagree on them.

    They are what `perfkit.fitters.spire.points.measured_throughput` adds up: each run, place and interval once, or,
    where its events' times differ, all usable samples.
    """
    table, n = samples.table, len(axis.position)
    time, work = table["time"].to_numpy(), table["work"].to_numpy()
    known = np.flatnonzero(np.isfinite(time) & np.isfinite(work))
    place = table["place"].cat.codes.to_numpy().astype("int64")[known]
    cell = axis.row[known] * (place.max(initial=0) + 1) + place
    _, first, number = np.unique(cell, return_index=True, return_inverse=True)
    once = known[first]
    differs = (time[known] != time[once][number]) | (work[known] != work[once][number])
    used = axis.row[points.rows]
    return {
        "position": axis.position * SECONDS.get(axis.unit, 1.0),
        "begin": axis.begins * SECONDS.get(axis.unit, 1.0),
        "interval_time": np.bincount(axis.row[once], time[once], n),
        "interval_work": np.bincount(axis.row[once], work[once], n),
        "interval_throughput": axis.throughput,
        "conflict": np.bincount(axis.row[known][differs], minlength=n).astype("float64"),
        "point_time": np.bincount(used, time[points.rows], n),
        "point_work": np.bincount(used, work[points.rows], n),
    }


def _clouds(model: "SpireModel", events: list[str], training: Samples | None) -> dict[str, np.ndarray]:
    """Return some training samples of each event to draw: those on its roofline, and of the others every n-th."""
    parts = []
    for event in events:
        x, y, _ = sample_positions(training, event)
        rest = np.arange(0, len(x), max(1, -(-len(x) // _CLOUD)))
        picked = np.union1d(on_bound(model.rooflines[event], x, y), rest)
        parts.append((x[picked], y[picked]))
    xs, ys = (np.concatenate(column).astype("float32") for column in zip(*parts, strict=True))
    return {"cloud_offsets": _offsets([len(x) for x, _ in parts]), "cloud_x": xs, "cloud_y": ys}


def _offsets(lengths: list[int]) -> np.ndarray:
    if not lengths:
        raise DataError("no event has both a roofline and samples; see model.rank(samples)")
    return np.concatenate([[0], np.cumsum(lengths)]).astype("int32")
