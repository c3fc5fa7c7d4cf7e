"""SPIRE: a statistical piecewise-linear roofline ensemble, inferred from counter samples.

N. Wendt, M. Ketkar, V. Bertacco: SPIRE: Inferring Hardware Bottlenecks from Performance Counter Data, sections III-V.
Every event gets a roofline of its own, fitted to training samples. To analyse a workload, each roofline bounds the
throughput of the workload's samples; the lowest bounds point at likely bottlenecks.
"""

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from perfkit.base.files import a_path, arrow_table, existing, reading, replaced
from perfkit.base.results import Settings, Summarised, draw, expect_shown, joint_kind, kinds_of
from perfkit.errors import DataError, FormatError, PerfkitWarning, SettingError, closest, counted
from perfkit.fitters.spire.fleet import FleetRankings, rank_fleet
from perfkit.fitters.spire.piecewise import Roofline
from perfkit.fitters.spire.points import Points, arrange, measured_throughput
from perfkit.fitters.spire.ranking import Ranking, rank_points
from perfkit.fitters.spire.roofline import fit_points
from perfkit.fitters.spire.summary import EventSummary, counted_table, merge_events, summarise, summarise_pieces
from perfkit.samples.clocks import is_fixed_rate
from perfkit.samples.events import TIME_EVENTS, WORK_EVENTS, normalise, other_core
from perfkit.samples.fleet import Fleet, expect_fleet
from perfkit.samples.impossible import warn_of_impossible
from perfkit.samples.table import Samples, expect_samples

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FORMAT = "perfkit-spire"
_FORMAT_VERSION = 1
_FEW_SAMPLES = 10
_SUMMARY_NUMBERS = ("at_infinity", "lowest", "highest", "slowest", "fastest")
_RANGE = ("min_intensity", "max_intensity")


@dataclass(frozen=True)
class Spire(Settings):
    """Settings of SPIRE; `fit` returns a model.

    Parameters
    ----------
    min_running : float
        Leave out samples whose event was counted during a smaller share of their interval than this (0 to 1).
        Counts scaled up from a small share are noisy, and a bound follows its highest samples. Samples whose share
        is not known stay in.
    honest : bool
        A bound only where samples give one: the left hull, and its peak beyond (the paper's right part lets an event's
        absence bound the throughput). Events are then ranked by how low their bound is among those of the training
        samples, not by the bound itself: a bound that is low for every program says nothing of this one.

    Examples
    --------
    >>> import pandas as pd, perfkit as pk
    >>> train = pk.Samples.from_frame(pd.DataFrame(
    ...     {"event": ["misses"] * 3, "time": [100, 100, 100], "work": [100, 200, 150], "count": [50, 20, 0]}))
    >>> model = pk.Spire().fit(train)
    >>> model.rooflines["misses"].bound([0, 2, 10, float("inf")]).tolist()
    [0.0, 1.0, 2.0, 1.5]
    """

    _instead = "SPIRE's input goes to .fit(samples)"

    min_running: float = 0.0
    honest: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 <= self.min_running <= 1.0:
            raise SettingError(f"min_running is a share from 0 to 1; found {self.min_running}")

    def fit(self, samples: Samples | Fleet) -> "SpireModel":
        """Fit one roofline per event; to a `Fleet` exactly as to the same samples in memory.

        Samples in which time, work or count was not measured, and those with neither work nor events (their
        intensity is undefined), are left out and counted in the model's ``to_frame()``. So are events that another
        kind of core counts than the one whose cycles are the time (``cpu_atom/.../`` beside ``cpu_core/cycles/``), and
        those that come at one rate whatever the program does (``TOPDOWN.SLOTS``, clocks): they bound nothing.

        Raises
        ------
        DataError
            There are no events besides those of time and work, or a sample has work but no time (rows named).
        """
        if not isinstance(samples, Fleet):
            expect_samples(samples, "Spire.fit")
        model = _model(_summaries(samples, self), samples.time_event, samples.work_event, samples.kind, self)
        return _honest(model, samples) if self.honest else model

    def fit_each(self, fleet: Fleet, by: str | Sequence[str]) -> "dict[tuple[str, ...], SpireModel]":
        """Fit a model to the runs of a fleet that share each value of some labels, all in one pass over the files.

        Returns
        -------
        dict
            The labels' values, in the order of ``by``, to the model.

        Raises
        ------
        SettingError
            Samples in memory are given, not a fleet.
        """
        if self.honest:
            raise SettingError(_IN_MEMORY)
        expect_fleet(fleet, "Spire.fit_each")
        names = [by] if isinstance(by, str) else list(by)
        table, found = _scanned(fleet, self, names)
        return {
            tuple(map(str, values)): _model(summaries, fleet.time_event, fleet.work_event, fleet.kind, self)
            for values, summaries in zip(table.itertuples(index=False, name=None), found, strict=True)
        }


def _summaries(samples: Samples | Fleet, settings: Spire) -> dict[str, EventSummary]:
    """Return what the rooflines need of samples, by event."""
    if isinstance(samples, Fleet):
        found = _scanned(samples, settings, [])[1][0]
        if not found:
            raise DataError(
                f"expected events besides {samples.time_event} (time) and {samples.work_event} (work); found none"
            )
        return {event: found[event] for event in samples.events if event in found}
    points = arrange(warn_of_impossible(samples, "the training"), settings.min_running)
    counted = points.counted.to_numpy()
    return {event: summarise(*points.of(i)[1:], counted[i].tolist()) for i, event in enumerate(points.events)}


def _scanned(fleet: Fleet, settings: Spire, by: list[str]) -> tuple[pd.DataFrame, list[dict[str, EventSummary]]]:
    return fleet.scan(partial(summarise_pieces, min_running=settings.min_running), merge_events, by)


def _model(
    summaries: Mapping[str, EventSummary], time_event: str, work_event: str, kind: str, settings: Spire
) -> "SpireModel":
    """Return the model of the summaries of samples."""
    rooflines, rows = {}, []
    for event, summary in summaries.items():
        if other_core(event, time_event):
            rows.append((np.nan, np.nan, "other core"))
        elif _counts_time(event, time_event) or summary.is_even:
            rows.append((np.nan, np.nan, "fixed rate"))
        elif summary.is_trainable:
            rooflines[event] = Roofline(*fit_points(summary.corners, summary.at_infinity), event)
            rows.append((summary.lowest, summary.highest, "ok"))
        else:
            rows.append((np.nan, np.nan, "untrained"))
    counted = counted_table(summaries)
    training = counted.join(
        pd.DataFrame(rows, columns=["min_intensity", "max_intensity", "status"], index=counted.index)
    )
    return SpireModel(rooflines, training, time_event, work_event, kind, settings, summaries)


def _counts_time(event: str, time_event: str) -> bool:
    """Whether an event counts time by its name."""
    return is_fixed_rate(event) and (time_event != "seconds" or normalise(event) not in (*TIME_EVENTS, *WORK_EVENTS))


def _extent(of: tuple[np.ndarray, np.ndarray, np.ndarray]) -> tuple[int, float, float]:
    """Return how many samples an event has, and the range of intensities of those with work."""
    _, intensity, throughput = of
    working = intensity[throughput > 0.0]
    return len(intensity), *((working.min(), working.max()) if len(working) else (np.nan, np.nan))


_IN_MEMORY = (
    "honest=True ranks by the bounds of single samples, which must be in memory; a fleet's are not. Use samples"
)


def _honest(model: "SpireModel", samples: Samples | Fleet) -> "SpireModel":
    """Return the model with the left parts alone, and the quantiles of the bounds of its training samples.

    Raises
    ------
    SettingError
        The samples are not in memory.
    """
    if isinstance(samples, Fleet):
        raise SettingError(_IN_MEMORY)
    points = arrange(samples, model.settings.min_running)
    rooflines = {event: roofline.left_only() for event, roofline in model.rooflines.items()}
    bounds = {event: _quantiles(rooflines.get(event), points.of(i)) for i, event in enumerate(points.events)}
    training = model.training.assign(bounds=[bounds[str(event)] for event in model.training.index])
    return replace(model, rooflines=rooflines, training=training, summaries={})


def _quantiles(roofline: Roofline | None, of: tuple[np.ndarray, np.ndarray, np.ndarray]) -> list[float]:
    """Return 101 quantiles of the bounds of training samples, weighted by time; none without a roofline."""
    if roofline is None:
        return []
    time, intensity, _ = of
    bounds = roofline.bound(intensity)
    order = np.argsort(bounds, kind="stable")
    share = (np.cumsum(time[order]) - time[order] / 2) / time.sum()
    return [float(value) for value in np.interp(np.linspace(0.0, 1.0, 101), share, bounds[order])]


@dataclass(frozen=True, eq=False, repr=False)
class SpireModel(Summarised):
    """A trained ensemble: one roofline per event.

    Attributes
    ----------
    rooflines : mapping of event to Roofline
        The events that could be trained, in the order of the training samples.
    training : DataFrame
        One row per event, also of those that could not be trained: n_samples used, n_missing (not measured), n_empty
        (neither work nor events), n_left_out (by the settings), min_intensity and max_intensity (the range trained,
        infinity where the event did not happen), status (ok, untrained, other core or fixed rate).
    time_event, work_event : str
        The units of throughput: work per time.
    kind : str
        What it was trained on: measured, simulated, generated or published samples.
    settings : Spire
        How it was fitted.
    summaries : mapping of event to EventSummary
        The samples that the rooflines rest on, for `update`.

    Examples
    --------
    >>> import perfkit as pk
    >>> model = pk.Spire().fit(pk.datasets.load("spire/memory"))
    >>> len(model.rooflines), model.kind
    (25, 'generated')
    """

    rooflines: Mapping[str, Roofline]
    training: pd.DataFrame
    time_event: str
    work_event: str
    kind: str
    settings: Spire
    summaries: Mapping[str, EventSummary]

    def __post_init__(self) -> None:
        object.__setattr__(self, "rooflines", Rooflines(self.rooflines))

    def summary(self) -> str:
        """Say what was trained, on what, and how high the rooflines reach."""
        peaks = [roofline.peak for roofline in self.rooflines.values()]
        reach = f"; peaks from {min(peaks):.4g} to {max(peaks):.4g}" if peaks else ""
        lines = [
            (
                f"rooflines of {counted(len(self.rooflines), 'events')}, trained on "
                f"{int(self.training['n_samples'].sum()):,} {self.kind} samples; throughput in {self.work_event} per "
                f"{self.time_event}{reach}"
            )
        ]
        rest = self.training.loc[self.training["status"] != "ok", "status"].value_counts()
        if len(rest):
            lines.append("without a roofline: " + ", ".join(f"{n} {status}" for status, n in rest.items()))
        return "\n".join(lines)

    def rank(self, samples: Samples, *, bootstrap: int = 200, level: float = 0.95, seed: int = 0) -> Ranking:
        """Rank the events by the throughput that they allow the workload of these samples (SPIRE, section III-C).

        The bound of an event is the mean of its samples' bounds, weighted with their time (Eq. 1); the ensemble's
        bound is the lowest of them.

        Parameters
        ----------
        samples : Samples
            The analysed workload, with time and work in the units of the training.
        bootstrap : int
            Draws (with replacement, among each event's samples) that give the spread of the bounds; 0 for none.
        level : float
            The share of the draws that the spread covers.
        seed : int
            Of the draws.

        Warns
        -----
        PerfkitWarning
            Events that are not in both the training and these samples: the ranking is of the others. Intervals of more
            instructions per cycle than any core ends: they are left out.

        Raises
        ------
        SettingError
            Time or work are other quantities than in training, or no event is common.
        """
        expect_samples(samples, "SpireModel.rank")
        self._check_axes(samples)
        if bootstrap < 0 or not 0.0 < level < 1.0:
            raise SettingError(f"expected bootstrap >= 0 and 0 < level < 1; found {bootstrap} and {level}")
        self._check_events(samples)
        samples = warn_of_impossible(samples, "the ranking")
        points = arrange(samples, self.settings.min_running)
        return rank_points(
            points,
            self.rooflines,
            self.training,
            throughput=measured_throughput(samples, points),
            kinds=(self.kind, samples.kind),
            axes=(self.time_event, self.work_event),
            bootstrap=bootstrap,
            level=level,
            seed=seed,
            caveats=self._caveats(points),
        )

    def rank_each(
        self, fleet: Fleet, by: str | Sequence[str], *, bootstrap: int = 200, level: float = 0.95, seed: int = 0
    ) -> FleetRankings:
        """Rank the events of every group of a fleet that shares the values of the labels `by`, in one pass over it.

        The spread, at ``level``, is over ``bootstrap`` draws of machines (with ``seed``), since the samples of one
        machine are alike.

        Raises
        ------
        SettingError
            Time or work are other quantities than in training, a label is unknown, or no event is common.
        """
        expect_fleet(fleet, "SpireModel.rank_each")
        self._check_axes(fleet)
        return rank_fleet(self, fleet, [by] if isinstance(by, str) else list(by), bootstrap, level, seed)

    def update(self, samples: Samples | Fleet) -> "SpireModel":
        """Return the model of what this one was trained on and of further samples: the same as of all at once.

        Raises
        ------
        SettingError
            Their time or work are other quantities than in training, or this model's file was written before models
            kept what this takes.
        """
        if not isinstance(samples, Fleet):
            expect_samples(samples, "SpireModel.update")
        self._check_axes(samples)
        if not self.summaries:
            raise SettingError("this model was saved by an older perfkit, without what an update needs: train it again")
        both = merge_events(self.summaries, _summaries(samples, self.settings))
        kind = joint_kind({*kinds_of(self.kind), *kinds_of(samples.kind)})
        return _model(both, self.time_event, self.work_event, kind, self.settings)

    def to_frame(self) -> pd.DataFrame:
        """Return one row per event: what it was trained on, and its roofline's peak, peak intensity and breakpoints."""
        rows = {
            event: (r.peak, r.peak_intensity, r.at_infinity, len(r.breakpoints)) for event, r in self.rooflines.items()
        }
        columns = ["peak", "peak_intensity", "at_infinity", "n_breakpoints"]
        fitted = pd.DataFrame.from_dict(rows, orient="index", columns=columns)
        return self.training.join(fitted).rename_axis("event").reset_index()

    def plot(
        self,
        ax: "Axes | None" = None,
        *,
        event: str | None = None,
        training: Samples | None = None,
        analysed: Samples | None = None,
        **how: Any,
    ) -> "Axes":
        """Draw an event's roofline (by default the first one's) with samples; return the axes.

        The samples are those of `training` and `analysed`; see `perfkit.plots.spire.plot_roofline` for `how` else.
        """
        for given in (training, analysed):
            if given is not None:
                expect_samples(given, "SpireModel.plot")
        expect_shown(len(self.rooflines), "the model has no rooflines (no event was trained)")
        chosen = next(iter(self.rooflines)) if event is None else event
        return draw("spire:plot_roofline", self, event=chosen, training=training, analysed=analysed, ax=ax, **how)

    # ---------------------------------------------------------------- files

    def save(self, path: str | Path) -> Path:
        """Write the model (``.spire`` or ``.parquet``; ``.json`` for other programs too) and return the path.

        Raises
        ------
        SettingError
            The name ends in none of the three.
        """
        path = a_path(path, "SpireModel.save")
        training = self.training.assign(**{c: self.training[c].map(repr) for c in _RANGE})
        head = {
            "format": _FORMAT,
            "version": _FORMAT_VERSION,
            "time_event": self.time_event,
            "work_event": self.work_event,
            "kind": self.kind,
            "settings": asdict(self.settings),
            # Intensities as text: JSON has no infinity, and pandas would round them.
            "training": training.reset_index().to_dict(orient="records"),
            "summaries": {event: _packed(summary) for event, summary in self.summaries.items()},
        }
        lines = [_as_record(r) for r in self.rooflines.values()]
        if path.suffix not in (".json", ".parquet", ".spire"):
            raise SettingError(f"a SPIRE model is saved as .spire, .parquet or .json; found {path.name!r}")
        with replaced(path) as temporary:
            if path.suffix == ".json":
                text = json.dumps({**head, "rooflines": lines}, indent=1, allow_nan=False)
                temporary.write_text(text, encoding="utf-8")
            else:
                _write_parquet(temporary, head, lines)
        return path

    @classmethod
    def load(cls, path: str | Path) -> "SpireModel":
        """Read what `save` wrote; FileNotFoundError if there is none, FormatError if it is another's or damaged."""
        path = existing(path)
        with reading(path, "a model that SpireModel.save wrote"):
            head, lines = _read_parquet(path) if path.suffix in (".parquet", ".spire") else _read_json(path)
            if head.get("format") != _FORMAT:
                raise FormatError(f"{path}: expected a model that SpireModel.save wrote; its format is not {_FORMAT!r}")
            if head["version"] > _FORMAT_VERSION:
                raise FormatError(
                    f"{path}: model version {head['version']}; this perfkit reads up to {_FORMAT_VERSION}"
                )
            rooflines = {line["event"]: _of_record(line) for line in lines}
            training = pd.DataFrame(head["training"]).set_index("event").astype(dict.fromkeys(_RANGE, float))
            if unknown := sorted(set(rooflines) - set(training.index)):
                raise FormatError(f"{path}: a model of SPIRE whose training does not name {', '.join(unknown[:5])}")
            settings = Spire(**head["settings"])
            summaries = {event: _unpacked(values) for event, values in head.get("summaries", {}).items()}
            return cls(rooflines, training, head["time_event"], head["work_event"], head["kind"], settings, summaries)

    # ---------------------------------------------------------------- checks

    def _caveats(self, points: Points) -> tuple[str, ...]:
        """Say why a ranking of these samples means nothing: the training's own samples, or hardly any training."""
        told = []
        trained = self.training
        most = int(trained["n_samples"].max()) if len(trained) else 0
        if 0 < most < _FEW_SAMPLES:
            told.append(
                f"the model was trained on at most {most} samples per event: its rooflines are little more than those "
                "samples, and the ranking means nothing. Train on many intervals of many programs."
            )
        common = [(i, e) for i, e in enumerate(points.events) if e in self.rooflines and len(points.rows_of(i))]
        known = dict(zip(trained.index, zip(*(trained[c] for c in ("n_samples", *_RANGE)), strict=True), strict=True))
        if common and all(_extent(points.of(i)) == known[event] for i, event in common):
            told.append(
                "the model was trained on these very samples: each touches its own rooflines, and the ranking means "
                "nothing. Train on other runs."
            )
        return tuple(told)

    def _check_axes(self, samples: Samples | Fleet) -> None:
        for role, known, trained, found in (
            ("time", TIME_EVENTS, self.time_event, samples.time_event),
            ("work", WORK_EVENTS, self.work_event, samples.work_event),
        ):
            if other_core(trained, found):
                raise SettingError(
                    f"{role} was {trained} in training and is {found} in the samples, another kind of core; train a "
                    "model for each kind."
                )
            if normalise(trained) == normalise(found):
                continue
            same = {normalise(trained), normalise(found)} <= set(known) - {"seconds"}
            if not same:
                raise SettingError(
                    f"the model was trained with {role} = {trained}, the samples have {role} = {found}; bounds would "
                    "have no meaning. Use samples.with_axes(time, work), or train with the same events."
                )
            warnings.warn(
                f"{role} is {trained} in training and {found} in the samples; taken to be the same quantity",
                PerfkitWarning,
                stacklevel=3,
            )

    def _check_events(self, samples: Samples) -> None:
        trained, found = set(self.training.index), set(samples.events)
        if not found & set(self.rooflines):
            if found & trained:
                why = _some({f"{event} ({self.training.loc[event, 'status']})" for event in found & trained})
                raise SettingError(
                    f"the model has no roofline of any event of these samples: {why}. Train on samples in which they "
                    "occur at rates that differ."
                )
            raise SettingError(
                f"none of the {len(found)} events of these samples was trained. The model knows {_some(trained)}; the "
                f"samples have {_some(found)}. Collect the same events for both."
            )
        unknown = [e for e in samples.events if e not in trained]
        missing = [str(e) for e in self.training.index if e not in found]
        if unknown or missing:
            parts = []
            if unknown:
                parts.append(f"{counted(len(unknown), 'events')} not in training ({_some(unknown, trained)})")
            if missing:
                parts.append(f"{counted(len(missing), 'events')} only in training ({_some(missing)})")
            warnings.warn("ranked without " + " and ".join(parts), PerfkitWarning, stacklevel=3)


class Rooflines(Mapping[str, Roofline]):
    """A read-only mapping of event to roofline, whose error names the events that look alike."""

    def __init__(self, rooflines: Mapping[str, Roofline]) -> None:
        self._of = dict(rooflines)

    def __getitem__(self, event: str) -> Roofline:
        try:
            return self._of[event]
        except KeyError:
            near = closest(str(event), self._of) or list(self._of)[:3]
            message = f"no roofline of {event!r}; did you mean {', '.join(near)}? There are {len(self._of)}."
            raise KeyError(message) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._of)

    def __len__(self) -> int:
        return len(self._of)

    def __repr__(self) -> str:
        return f"<{len(self)} rooflines: {_some(self._of)}>"


# ------------------------------------------------------------------ helpers


def _some(names: Any, known: Any = ()) -> str:
    """Name up to five events; where one is known under a similar name, say so."""
    names = sorted(names) if isinstance(names, set) else list(names)
    alike = {normalise(str(k)): str(k) for k in known}
    shown = [f"{n}, known as {alike[normalise(n)]}" if normalise(n) in alike else str(n) for n in names[:5]]
    return "; ".join(shown) + (f"; and {len(names) - 5} more" if len(names) > 5 else "")


def _as_record(roofline: Roofline) -> dict[str, Any]:
    return {
        "event": roofline.event,
        "intensity": roofline.breakpoints[:, 0].tolist(),
        "throughput": roofline.breakpoints[:, 1].tolist(),
        # JSON has no infinity: null is the peak intensity of a roofline without a right part.
        "peak_intensity": roofline.peak_intensity if np.isfinite(roofline.peak_intensity) else None,
        "at_infinity": roofline.at_infinity,
    }


def _of_record(line: Mapping[str, Any]) -> Roofline:
    peak_intensity = line["peak_intensity"]
    missing = peak_intensity is None or np.isnan(peak_intensity)
    points = np.column_stack([line["intensity"], line["throughput"]])
    return Roofline(points, np.inf if missing else peak_intensity, line["at_infinity"], line["event"])


def _packed(summary: EventSummary) -> dict[str, Any]:
    """Return a summary as JSON holds it: JSON has no infinity and no NaN."""
    plain = {name: repr(float(getattr(summary, name))) for name in _SUMMARY_NUMBERS}
    return {**plain, "counted": list(summary.counted), "corners": summary.corners.tolist()}


def _unpacked(values: Mapping[str, Any]) -> EventSummary:
    numbers = {name: float(values[name]) for name in _SUMMARY_NUMBERS}
    used, missing, empty, left_out = map(int, values["counted"])
    corners = np.array(values["corners"], dtype="float64").reshape(-1, 2)
    return EventSummary(corners=corners, counted=(used, missing, empty, left_out), **numbers)


def _write_parquet(temporary: Path, head: Mapping[str, Any], lines: list[dict[str, Any]]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    numbers = pa.list_(pa.float64())
    schema = pa.schema(
        {
            "event": pa.string(),
            "intensity": numbers,
            "throughput": numbers,
            "peak_intensity": pa.float64(),
            "at_infinity": pa.float64(),
        },
        metadata={b"perfkit": json.dumps(head, allow_nan=False).encode()},
    )
    pq.write_table(pa.Table.from_pylist(lines, schema=schema), temporary, compression="zstd")


def _read_parquet(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    table = arrow_table(path)
    return json.loads((table.schema.metadata or {}).get(b"perfkit", b"{}")), table.to_pylist()


def _read_json(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    head = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(head, dict):
        raise FormatError(f"{path}: expected a JSON object with a model of SPIRE; found {type(head).__name__}")
    return head, head.get("rooflines", [])
