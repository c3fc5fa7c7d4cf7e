"""SPIRE rankings of a fleet: one for each version, service or hour, all from one pass over the files.

Each event's bound is a mean of its samples' bounds, weighted with their time (SPIRE, Eq. 1), so sums over machines are
enough; the spread comes from drawing machines with replacement, because the samples of one machine are alike.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd

from perfkit.base.results import Tabled, draw
from perfkit.errors import DataError, SettingError
from perfkit.fitters.machine_code import as_machine_code
from perfkit.samples.events import per_unit
from perfkit.samples.fleet import Fleet, Key, Piece, groups_of
from perfkit.samples.parts import by_event

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from perfkit.fitters.spire.model import SpireModel
    from perfkit.fitters.spire.piecewise import Roofline

_COLUMNS = (
    "event",
    "throughput_bound",
    "left_fraction",
    "outside",
    "low",
    "high",
    "candidate",
    "n_samples",
    "machines",
)
_NOTHING = np.empty(0)


@dataclass(frozen=True, eq=False, repr=False)
class FleetRankings(Tabled):
    """The events of each group of a fleet, lowest bound (likeliest bottleneck) first.

    Attributes
    ----------
    table : DataFrame
        One row per group and event: ``group``, the labels, and the columns of `Ranking.to_frame`; ``low`` and ``high``
        are the spread over draws of machines (NaN below three), ``machines`` how many counted the event.
    by : tuple of str
        The labels.
    kind, training_kind : str
        What was ranked, and what the model was trained on.
    time_event, work_event : str
        The units of throughput.

    Examples
    --------
    >>> samples, _ = pk.synthetic_cpi(intervals=60, seed=1)
    >>> _ = [samples.save(f"{name}.parquet") for name in ("a", "b")]
    >>> rankings = pk.Spire().fit(samples).rank_each(pk.open_samples(".", memory=False), "run")
    >>> rankings.by, rankings.kind
    (('run',), 'generated')
    """

    _rows: ClassVar[str] = "table"

    table: pd.DataFrame
    by: tuple[str, ...]
    kind: str
    training_kind: str
    time_event: str
    work_event: str

    def to_frame(self) -> pd.DataFrame:
        """Return one row per group and event: see ``table``."""
        return self.table.copy()

    def first(self) -> pd.DataFrame:
        """Return the row of the lowest bound of each group."""
        return self.table.groupby("group", sort=False).head(1).reset_index(drop=True)

    def summary(self) -> str:
        """Say which event bounds each group most."""
        first = self.first()
        kinds = self.kind if self.kind == self.training_kind else f"{self.kind}, trained on {self.training_kind}"
        often = first["event"].value_counts()
        lines = [
            (
                f"{len(first):,} rankings by {', '.join(self.by) or 'nothing'} ({kinds} data); lowest most often: "
                f"{often.index[0]} ({often.iloc[0]:,})"
            )
        ]
        lines += [
            f"{row.group}: {row.event}, at most {row.throughput_bound:.4g} {per_unit(self.work_event, self.time_event)}"
            for row in first.head(5).itertuples()
        ]
        return "\n".join([*lines, *([f"and {len(first) - 5:,} more"] if len(first) > 5 else [])])

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the bounds of the events in each group as a map; return the axes."""
        return draw("fleet:plot_fleet_rankings", self, ax=ax)


def rank_fleet(
    model: "SpireModel", fleet: Fleet, by: Sequence[str], bootstrap: int, level: float, seed: int
) -> FleetRankings:
    """Return the rankings of a fleet's groups; see `SpireModel.rank_each`."""
    events = [e for e in fleet.events if e in model.rooflines]
    if not events:
        raise SettingError(
            f"none of the fleet's events was trained; the model knows {', '.join(list(model.rooflines)[:5])}"
        )
    trained = model.training[["min_intensity", "max_intensity"]].to_dict(orient="index")
    work = partial(
        sums_of_pieces,
        rooflines={e: model.rooflines[e] for e in events},
        ranges={e: (r["min_intensity"], r["max_intensity"]) for e, r in trained.items()},
        min_running=model.settings.min_running,
    )
    cells, sums = fleet.scan(work, _added, list(dict.fromkeys([*by, "machine"])))
    if not sums:
        raise DataError("no interval of the fleet could be used")
    tables = []
    for key, mine in groups_of(cells, by):
        rows = _group(events, [sums[i] for i in mine], bootstrap, level, seed)
        tables += [(" / ".join(key) or "all", *key, *row) for row in rows]
    table = pd.DataFrame(tables, columns=["group", *by, *_COLUMNS])
    return FleetRankings(table, tuple(by), fleet.kind, model.kind, model.time_event, model.work_event)


def sums_of_pieces(
    pieces: Sequence[Piece],
    rooflines: "Mapping[str, Roofline]",
    ranges: Mapping[str, tuple[float, float]],
    min_running: float,
) -> dict[Key, dict[str, np.ndarray]]:
    """Return for each cell and event [time, time x bound, time left of the peak, time outside of training, samples]."""
    found: dict[Key, dict[str, np.ndarray]] = {}
    for piece in pieces:
        for batch in by_event(piece.part, piece.groups, running=min_running > 0, at=piece.period > 0):
            for event, count in batch.counts.items():
                if event not in rooflines:
                    continue
                roofline = rooflines[event]
                x, y = np.ascontiguousarray(roofline.breakpoints.T)
                share = batch.running.get(event, _NOTHING)
                for key, rows in piece.slices(batch):
                    sums = found.setdefault(key, {}).setdefault(event, np.zeros(5))
                    as_machine_code(_sum)(
                        batch.time[rows], batch.work[rows], count[rows], share[rows] if len(share) else share,
                        min_running, x, y, roofline.peak_intensity, roofline.at_infinity, *ranges[event], sums,
                    )  # fmt: skip
    return found


def _added(one: dict[str, np.ndarray], two: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {e: one.get(e, np.zeros(5)) + two.get(e, np.zeros(5)) for e in dict.fromkeys([*one, *two])}


def _sum(
    time: np.ndarray,
    work: np.ndarray,
    count: np.ndarray,
    running: np.ndarray,
    min_running: float,
    x: np.ndarray,
    y: np.ndarray,
    peak_intensity: float,
    at_infinity: float,
    lowest: float,
    highest: float,
    sums: np.ndarray,
) -> None:
    shares = len(running) > 0
    last = len(x) - 1
    alone = at_infinity > y.max()
    for i in range(len(time)):
        t, w, m = time[i], work[i], count[i]
        if not (t > 0.0 and w >= 0.0 and m >= 0.0) or (w == 0.0 and m == 0.0):
            continue
        if shares and running[i] < min_running:
            continue
        at = w / m if m > 0.0 else np.inf
        if at == np.inf:
            bound = at_infinity
        elif at >= x[last]:
            bound = y[last]
        else:
            k = 1
            while x[k] <= at:
                k += 1
            bound = y[k - 1] + (y[k] - y[k - 1]) * ((at - x[k - 1]) / (x[k] - x[k - 1]))
        sums[0] += t
        sums[1] += t * bound
        if at <= peak_intensity and (at < np.inf or alone):
            sums[2] += t
        if at < lowest or at > highest:
            sums[3] += t
        sums[4] += 1.0


def _group(
    events: Sequence[str], machines: Sequence[Mapping[str, np.ndarray]], bootstrap: int, level: float, seed: int
) -> list[tuple[Any, ...]]:
    """Return the rows of one group, the lowest bound first."""
    rng = np.random.default_rng(seed)
    n = len(machines)
    often = np.array([np.bincount(rng.integers(n, size=n), minlength=n) for _ in range(bootstrap)], dtype="float64")
    rows = []
    for event in events:
        each = np.array([m.get(event, np.zeros(5)) for m in machines])
        time, weighted, left, outside, samples = each.sum(axis=0).tolist()
        if not time:
            continue
        low = high = np.nan
        if n >= 3 and bootstrap:
            drawn = often @ each
            means = drawn[:, 1] / np.where(drawn[:, 0] > 0, drawn[:, 0], np.nan)
            low, high = np.nanquantile(means, [0.5 - level / 2, 0.5 + level / 2])
        counted = int((each[:, 4] > 0).sum())
        rows.append((event, weighted / time, left / time, outside / time, low, high, int(samples), counted))
    rows.sort(key=lambda row: row[1])
    limit = np.fmax(rows[0][5], rows[0][1]) if rows else np.nan
    return [(*row[:6], bool(row[1] <= limit), *row[6:]) for row in rows]
