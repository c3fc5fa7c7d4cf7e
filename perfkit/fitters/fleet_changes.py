"""What changed between two versions, days or settings of a fleet: with intervals by machine and a false discovery rate.

The unit is the machine. Millions of intervals of one machine share its load and its neighbours, and tell no more of a
version than one machine does; a test over intervals would find a change in everything. Each machine gives one number
before and one after; with many quantities and groups, those called changes are few of the wrong ones (Benjamini and
Hochberg, "Controlling the False Discovery Rate", 1995).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd

from perfkit.base.results import Tabled, draw, labelled
from perfkit.errors import DataError, SettingError
from perfkit.samples.events import per_unit
from perfkit.samples.fleet import Fleet, Key, Piece, expect_fleet, groups_of
from perfkit.samples.parts import by_event

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_Machines = Mapping[str, Mapping[str, np.ndarray]]  # the totals of each machine: see totals_of_pieces
FEWEST = 3  # machines on either side; of fewer no interval is told
_COLUMNS = (
    "quantity",
    "before",
    "after",
    "change",
    "low",
    "high",
    "zeros",
    "p",
    "q",
    "changed",
    "machines",
    "paired",
    "why_not",
)


@dataclass(frozen=True, eq=False, repr=False)
class FleetChanges(Tabled):
    """What changed from ``before`` to ``after`` in each group of a fleet.

    Attributes
    ----------
    table : DataFrame
        One row per group and quantity (time per work, and each event per work), the smallest p first: ``before`` and
        ``after`` (totals over totals), ``change`` (relative to before, 0.5 is +50 %: of the geometric mean over
        machines) with its interval ``low`` to ``high`` (that of a row called a change is the wider for having been
        selected), ``zeros`` (how many machines have none on a side: where there
        are any, the change is that of the mean over machines, and -1 or infinite, without an interval, where a side
        has none at all), ``p``, ``q`` (the least false discovery rate at which it counts as changed), ``changed``,
        ``machines``, ``paired`` (whether the same machines were compared) and ``why_not`` where it could not be
        tested.
    label, before, after : str
        What was compared.
    by : tuple of str
        The labels of the groups.
    rate, level : float
        The false discovery rate, and the coverage of the intervals.
    kind, time_event, work_event : str
        What the data is.
    notes : tuple of str
        What should be known of the comparison.

    Examples
    --------
    >>> from perfkit.collectors.synthetic_fleet import generate_fleet
    >>> folder = generate_fleet("fleet", machines=40)
    >>> fleet = pk.open_samples(folder, memory=False, paths="{machine}/{version}-{processor}.parquet")
    >>> changes = pk.fleet_changes(fleet, "version", "v1", "v2", by="processor")
    >>> changes.kind, sorted(set(changes.found["processor"]))
    ('generated', ['small'])
    """

    _rows: ClassVar[str] = "table"

    table: pd.DataFrame
    label: str
    before: str
    after: str
    by: tuple[str, ...]
    rate: float
    level: float
    kind: str
    time_event: str
    work_event: str
    notes: tuple[str, ...] = ()

    def to_frame(self) -> pd.DataFrame:
        """Return one row per group and quantity: see ``table``."""
        return self.table.copy()

    @property
    def found(self) -> pd.DataFrame:
        """The rows called changes, the largest first."""
        rows = self.table[self.table["changed"]]
        return rows.loc[rows["change"].abs().sort_values(ascending=False).index].reset_index(drop=True)

    def summary(self) -> str:
        """Say what changed, by how much, on how many machines."""
        tested = int(self.table["p"].notna().sum())
        found = self.found
        lines = [
            (
                f"{len(found)} of {tested} quantities changed from {self.label} {self.before} to {self.after} at a "
                f"false discovery rate of {self.rate:g}{labelled(self.kind)}"
            )
        ]
        for row in found.head(4).to_dict(orient="records"):
            where = " / ".join(str(row[name]) for name in self.by)
            lines.append(f"{where + ': ' if where else ''}{row['quantity']} {_said(row)} on {row['machines']} machines")
        if (untested := len(self.table) - tested) > 0:
            lines.append(f"{untested} could not be tested: see why_not")
        return "\n".join([*lines, *self.notes[:2]])

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the largest changes with their intervals; return the axes."""
        return draw("fleet:plot_fleet_changes", self, ax=ax)


def fleet_changes(
    fleet: Fleet,
    label: str,
    before: Any,
    after: Any,
    *,
    by: str | Sequence[str] = (),
    rate: float = 0.05,
    level: float = 0.95,
) -> FleetChanges:
    """Return what changed between two values of a label, such as two versions or two days, in each group of a fleet.

    Parameters
    ----------
    fleet : Fleet
        Its machines must be known (`Fleet.machines_known`).
    label, before, after
        A label of the runs and two of its values.
    by : str or sequence of str
        The labels of the groups, for example ``("service", "processor")``.
    rate : float
        The false discovery rate over all groups and quantities: the expected share of wrong ones among those called
        changes.
    level : float
        The share of intervals that hold the true change: of those called changes together, whose intervals are wider
        for it (`coverage_of_found`), and of each other one by itself.

    Raises
    ------
    SettingError
        A label or a value is unknown, the two values are the same, or nothing says which machine a file is of.

    Examples
    --------
    >>> from perfkit.collectors.synthetic_fleet import generate_fleet
    >>> folder = generate_fleet("fleet", machines=40)
    >>> fleet = pk.open_samples(folder, memory=False, paths="{machine}/{version}-{processor}.parquet")
    >>> changes = pk.fleet_changes(fleet, "version", "v1", "v2", by="processor")
    >>> str(changes.found["quantity"].iloc[0])
    'cycles per instruction'
    """
    expect_fleet(fleet, "fleet_changes")
    groups = [by] if isinstance(by, str) else list(by)
    if label in (*groups, "machine") or "machine" in groups:
        raise SettingError(f"`by` names the groups to compare one by one: it may name neither {label!r} nor 'machine'")
    if str(before) == str(after):
        raise SettingError(f"before and after are both {before!r}; a comparison needs two values of {label!r}")
    if not (0 < rate < 1 and 0 < level < 1):
        raise SettingError(f"rate and level are between 0 and 1; found {rate} and {level}")
    if not fleet.machines_known:
        raise SettingError(
            "nothing says which machine each file is of, and files of one machine are no separate evidence. Name the "
            "part of the path that does, open_samples(..., memory=False, paths='{machine}/{day}.txt'), or give a table "
            "of labels."
        )
    chosen = fleet.where(**{label: [before, after]})
    cells, sums = chosen.scan(totals_of_pieces, _added, [*groups, label, "machine"])
    if not sums:
        raise DataError("no interval of these runs could be used")
    machines, values = cells["machine"].tolist(), cells[label].astype(str).tolist()
    events = ["", *chosen.events]
    rows: list[Callable[[float], tuple[Any, ...]]] = []  # each, given the coverage of its interval
    for key, mine in groups_of(cells, groups):
        sides = [{machines[i]: sums[i] for i in mine if values[i] == str(value)} for value in (before, after)]
        rows += [partial(_row, key, event, sides[0], sides[1], fleet) for event in events]
    columns = [*groups, *(c for c in _COLUMNS if c not in ("q", "changed"))]
    table = _discovered(pd.DataFrame([row(level) for row in rows], columns=columns), rate)[[*groups, *_COLUMNS]]
    found = np.flatnonzero(table["changed"])
    wider = coverage_of_found(level, len(found), int(table["p"].notna().sum()))
    low = [*groups, *_COLUMNS].index("low")
    for i in found.tolist():
        table.iloc[i, [low, low + 1]] = rows[i](wider)[low : low + 2]
    table = table.sort_values("p", kind="stable", na_position="last", ignore_index=True)
    return FleetChanges(
        table, label, str(before), str(after), tuple(groups), rate, level, fleet.kind, fleet.time_event,
        fleet.work_event, _cautions(cells, groups, label),
    )  # fmt: skip


def coverage_of_found(level: float, found: int, tested: int) -> float:
    """Return the coverage that each interval of those found needs, so that of all of these the share `level` holds.

    Benjamini and Yekutieli, "False Discovery Rate-Adjusted Multiple Confidence Intervals for Selected Parameters",
    2005: those selected are the ones that chance made large, and 95 % intervals of them miss far more often than once
    in twenty.

    >>> round(coverage_of_found(0.95, found=2, tested=20), 6)
    0.995
    """
    return 1.0 - (1.0 - level) * found / tested if found else level


def _row(
    key: tuple[str, ...], event: str, before: _Machines, after: _Machines, fleet: Fleet, level: float
) -> tuple[Any, ...]:
    return (*key, *_compared(event, before, after, fleet, level))


def totals_of_pieces(pieces: Sequence[Piece]) -> dict[Key, dict[str, np.ndarray]]:
    """Return the totals of each cell: [time, work] under "", and [count, work where it was counted] of each event."""
    found: dict[Key, dict[str, np.ndarray]] = {}
    for piece in pieces:
        first = True  # of a file whose events each have a time of their own, the first event's stands for all
        for batch in by_event(piece.part, piece.groups, at=piece.period > 0):
            known = np.isfinite(batch.time) & np.isfinite(batch.work)
            time, work = np.where(known, batch.time, 0.0), np.where(known, batch.work, 0.0)
            for key, rows in piece.slices(batch):
                of_cell = found.setdefault(key, {})
                if first or not piece.part.whole:
                    of_cell.setdefault("", np.zeros(2))
                    of_cell[""] += (time[rows].sum(), work[rows].sum())
                for event, count in batch.counts.items():
                    counted = known[rows] & np.isfinite(count[rows])
                    sums = of_cell.setdefault(event, np.zeros(2))
                    sums += (count[rows][counted].sum(), work[rows][counted].sum())
            first = False
    return found


def _said(row: dict[Any, Any]) -> str:
    """Say one change relative to before, with its interval."""
    if row["change"] == -1 or np.isinf(row["change"]):
        return f"{row['before']:.3g} before, {row['after']:.3g} after"
    some = f", of means: {row['zeros']} machines have none on a side" if row["zeros"] else ""
    return f"{row['change']:+.1%} ({row['low']:+.1%} to {row['high']:+.1%}{some})"


def _added(one: dict[str, np.ndarray], two: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {e: one.get(e, np.zeros(2)) + two.get(e, np.zeros(2)) for e in dict.fromkeys([*one, *two])}


def _compared(event: str, before: _Machines, after: _Machines, fleet: Fleet, level: float) -> tuple[Any, ...]:
    """Return one row of the table, from quantity on, without q."""
    work = fleet.work_event
    name = per_unit(event or fleet.time_event, work)
    sides = [
        {m: tuple(s[event].tolist()) for m, s in side.items() if event in s and s[event][1] > 0}
        for side in (before, after)
    ]
    totals = [np.array(list(side.values())).sum(axis=0) if side else np.zeros(2) for side in sides]
    pooled = [float(t[0] / t[1]) if t[1] else np.nan for t in totals]
    rates = [{m: count / done for m, (count, done) in side.items()} for side in sides]
    both = [m for m in rates[0] if m in rates[1]]
    paired = len(both) >= FEWEST
    n = len(both) if paired else len(rates[0]) + len(rates[1])
    why = ""
    if not paired and min(map(len, rates)) < FEWEST:
        counts = f"{len(rates[0])} machines before and {len(rates[1])} after, {len(both)} of them the same"
        why = f"{counts}: {FEWEST} are needed"
    elif not any(pooled):
        why = "it did not happen"
    if why:
        return name, *pooled, np.nan, np.nan, np.nan, 0, np.nan, n, paired, why
    a, b = (np.array([side[m] for m in (both if paired else side)]) for side in rates)
    change, low, high, p = (_paired if paired else _apart)(a, b, level)
    zeros = int(((a == 0) | (b == 0)).sum() if paired else (a == 0).sum() + (b == 0).sum())
    return name, *pooled, change, low, high, zeros, p, n, paired, ""


def _paired(a: np.ndarray, b: np.ndarray, level: float) -> tuple[float, float, float, float]:
    """Return the change of machines that have both, its interval and p (Student's t on the logs of their ratios)."""
    n = len(a)
    if not (a.any() and b.any()):
        return _from_nothing(b.mean() - a.mean(), (b - a).std(ddof=1) / np.sqrt(n), n - 1.0, a)
    if a.all() and b.all():
        logs = np.log(b / a)
        mean = logs.mean()
    else:  # some machine has none, so no ratio: the ratio of the means (delta method)
        mean, logs = np.log(b.mean() / a.mean()), b / b.mean() - a / a.mean()
    return _interval(float(mean), float(logs.std(ddof=1) / np.sqrt(n)), n - 1.0, level)


def _apart(a: np.ndarray, b: np.ndarray, level: float) -> tuple[float, float, float, float]:
    """Return the change from some machines to others, its interval and p (Welch's t on the logs)."""
    if not (a.any() and b.any()):
        return _from_nothing(b.mean() - a.mean(), *_welch(a, b), a)
    if a.all() and b.all():
        a, b = np.log(a), np.log(b)
        mean = b.mean() - a.mean()
    else:  # some machine has none, so no log: the ratio of the means (delta method)
        mean, a, b = np.log(b.mean() / a.mean()), a / a.mean(), b / b.mean()
    return _interval(float(mean), *_welch(a, b), level)


def _welch(a: np.ndarray, b: np.ndarray) -> tuple[float, float]:
    """Return the standard error of a difference of means and its degrees of freedom."""
    va, vb = a.var(ddof=1) / len(a), b.var(ddof=1) / len(b)
    spread = va + vb
    free = spread**2 / (va**2 / (len(a) - 1) + vb**2 / (len(b) - 1)) if spread > 0 else float(len(a) + len(b) - 2)
    return float(np.sqrt(spread)), float(free)


def _from_nothing(mean: float, error: float, free: float, before: np.ndarray) -> tuple[float, float, float, float]:
    """Return what is known where no machine has any before, or none after: p of the difference, and no interval."""
    return -1.0 if before.any() else np.inf, np.nan, np.nan, _p(float(mean), float(error), free)


def _interval(mean: float, error: float, free: float, level: float) -> tuple[float, float, float, float]:
    """Return a mean of log ratios and its interval as changes relative to before, and p."""
    from scipy.special import stdtrit

    half = float(stdtrit(free, 0.5 + level / 2)) * error
    with np.errstate(over="ignore"):  # machines that differ by hundreds of orders: an infinite end is the honest one
        change, low, high = np.expm1([mean, mean - half, mean + half]).tolist()
    return change, low, high, _p(mean, error, free)


def _p(mean: float, error: float, free: float) -> float:
    from scipy.special import stdtr

    if error <= 1e-12 * abs(mean) or error == 0.0:
        return 1.0 if mean == 0.0 else 0.0
    return float(2 * stdtr(free, -abs(mean) / error))


def _discovered(table: pd.DataFrame, rate: float) -> pd.DataFrame:
    from scipy.stats import false_discovery_control

    tested = table["p"].notna().to_numpy()
    q = np.full(len(table), np.nan)
    if tested.any():
        q[tested] = false_discovery_control(table.loc[tested, "p"].to_numpy(), method="bh")
    return table.assign(q=q, changed=q <= rate)


def _cautions(cells: pd.DataFrame, groups: list[str], label: str) -> tuple[str, ...]:
    apart = cells.groupby([*groups, "machine"], sort=False)[label].nunique()
    share = float((apart > 1).mean())
    if share in (0.0, 1.0):
        return () if share else ("other machines before than after: what differs between them counts as a change",)
    return (f"{share:.0%} of the machines have both; where three or more do, only they are compared",)
