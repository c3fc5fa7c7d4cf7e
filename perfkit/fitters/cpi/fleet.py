"""CPI stacks of a fleet: one for each version, service or hour, all from one pass over the files.

A stack is fitted to sums of products that merge (`perfkit.fitters.cpi.moments`): the same least squares as of all
intervals in memory. The unit is the machine: intervals come from drawing machines with replacement, and one of the two
cross-validations keeps whole machines out, because intervals of one machine are alike.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
import pandas as pd

from perfkit.base.results import Tabled, draw, joint_kind, kinds_of, labelled
from perfkit.errors import DataError, SettingError, counted
from perfkit.fitters.cpi.checks import impossible_penalties, same_names, unlikely_penalties
from perfkit.fitters.cpi.counts import MOST_MISSING, clocks_among
from perfkit.fitters.cpi.estimator import Estimator, keeps_signs, make_estimator
from perfkit.fitters.cpi.moments import Moments, merge_moments, moments_of_pieces, packed, unpacked
from perfkit.fitters.cpi.solvers import Form, r_squared, squared_error, squared_spread, to_stack, unexplained
from perfkit.fitters.cpi.validation import CpiBracket, CpiR2, for_few, interval_of, outside, spread_of
from perfkit.fitters.cpi.verdict import verdict_of
from perfkit.samples.events import normalise
from perfkit.samples.fleet import Fleet, expect_fleet, groups_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from perfkit.fitters.cpi.stack import CpiStack

_ALL = "all"
_COLUMNS = ("component", "low", "high", "share", "penalty", "rate", "other_form")


@dataclass(frozen=True, eq=False, repr=False)
class FleetStacks(Tabled):
    """CPI stacks of the groups of a fleet.

    Attributes
    ----------
    table : DataFrame
        One row per group and part (base, each event, residual): ``group``, the labels, ``part``, ``component`` (CPI),
        ``low`` and ``high`` (from drawing machines), ``share``, ``penalty`` (cycles each), ``rate`` (events per
        instruction) and ``other_form`` (the component by the other form).
    groups : DataFrame
        One row per group: the labels, ``cpi``, ``machines``, ``intervals`` used, ``missing`` and ``idle`` ones,
        ``r2``, ``r2_random``, ``r2_machines`` (whole machines kept out; NaN below two folds of them), ``placebo_r2``,
        the base by both forms, ``verdict`` and ``reasons``.
    by : tuple of str
        The labels.
    form, kind : str
        The form of the model, and what the data is.
    level : float
        Coverage of the intervals.
    notes : tuple of str
        What was left out.
    events, axes, settings
        The events asked for, time and work, and what the stacks were fitted with: `update` goes on with them.
    cells, sums : DataFrame, array of shape (cells, numbers)
        The groups' machines, and the sums of their intervals that the stacks are made of (13 kB each for 10 events).

    Examples
    --------
    >>> samples, _ = pk.synthetic_cpi(intervals=60, seed=1)
    >>> _ = [samples.save(f"{name}.parquet") for name in ("a", "b")]
    >>> fleet = pk.open_samples(".", memory=False)
    >>> stacks = pk.CpiStack().fit_each(fleet, ["run"])
    >>> len(stacks.groups), stacks.kind
    (1, 'generated')
    >>> stacks.update(fleet).groups["intervals"].item()
    240
    """

    _rows: ClassVar[str] = "table"

    table: pd.DataFrame
    groups: pd.DataFrame
    by: tuple[str, ...]
    form: str
    kind: str
    level: float
    notes: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    axes: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    cells: pd.DataFrame = field(default_factory=pd.DataFrame)
    sums: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))

    def to_frame(self) -> pd.DataFrame:
        """Return one row per group and part: see ``table``."""
        return self.table.copy()

    def wide(self) -> pd.DataFrame:
        """Return one column per group: the CPI of base, events and residual, as `CpiComparison.to_frame` does."""
        order = list(dict.fromkeys(self.table["part"]))
        return self.table.pivot(index="part", columns="group", values="component").loc[
            order, list(self.groups["group"])
        ]

    def difference(self, a: str, b: str) -> pd.DataFrame:
        """Return b minus a of two groups, part by part (CPI). For intervals of a change use `fleet_changes`.

        Raises
        ------
        SettingError
            There is no such group.
        """
        wide = self.wide()
        for name in (a, b):
            if str(name) not in wide:
                raise SettingError(f"no group {name!r}; there are {', '.join(map(str, wide.columns[:10]))}")
        return pd.DataFrame({a: wide[a], b: wide[b], "difference": wide[b] - wide[a]})

    def update(self, fleet: Fleet) -> "FleetStacks":
        """Return the stacks of what these were fitted to and of a further fleet: the same as of all at once.

        Settings, events and labels are these stacks'. Samples that are given twice count twice.

        Raises
        ------
        SettingError
            Its time or work are other quantities, or these stacks' file was written before they kept their sums.
        DataError
            Something else than a fleet was given.
        """
        expect_fleet(fleet, "FleetStacks.update")
        if not len(self.sums):
            raise SettingError("these stacks were saved by an older perfkit, without their sums: fit them again")
        if _axes(fleet) != tuple(self.axes):
            raise SettingError(f"time and work were {', '.join(self.axes)}; the further fleet's are {_axes(fleet)}")
        settings = cast("CpiStack", SimpleNamespace(**self.settings))
        cells, moments = _scanned(fleet, self.events, self.by, settings.folds)
        size = len(self.events) + 2
        merged = {
            key: unpacked(sums, settings.folds, size)
            for key, sums in zip(self.cells.itertuples(index=False, name=None), self.sums, strict=True)
        }
        for key, found in zip(cells.itertuples(index=False, name=None), moments, strict=True):
            merged[key] = merge_moments(merged[key], found) if key in merged else found
        kind = joint_kind({*kinds_of(self.kind), *kinds_of(fleet.kind)})
        both = pd.DataFrame(list(merged), columns=self.cells.columns)
        return _stacks(settings, self.events, self.by, both, list(merged.values()), kind, self.axes, [])

    def summary(self) -> str:
        """Say what CPI the groups have, what they mostly consist of, and whether the data support the stacks."""
        cpi = self.groups.set_index("group")["cpi"]
        lines = [
            (
                f"CPI {cpi.min():.4g} ({cpi.idxmin()}) to {cpi.max():.4g} ({cpi.idxmax()}) in {len(cpi)} stack"
                f"{'s' * (len(cpi) > 1)} by {', '.join(self.by) or 'nothing'}{labelled(self.kind)}"
            )
        ]
        parts = self.table[self.table["part"] != "residual"]
        for group in self.groups.head(4).itertuples():
            of = parts[parts["group"] == group.group]
            most = of.loc[of["component"].idxmax()]
            lines.append(
                f"{group.group}: CPI {group.cpi:.4f}, mostly {most['part']} {most['component']:.3f}; "
                f"{counted(group.machines, 'machines')}; verdict: {group.verdict}"
            )
        more = [f"and {len(cpi) - 4} more"] if len(cpi) > 4 else []
        return "\n".join([*lines, *more, *self.notes[:2]])

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the stacks beside each other, at most 24 of them; return the axes."""
        return draw("fleet:plot_fleet_stacks", self, ax=ax)


def fit_fleet(settings: "CpiStack", fleet: Fleet, by: Sequence[str]) -> FleetStacks:
    """Return the stacks of a fleet's groups; see `CpiStack.fit_each`."""
    _possible(settings, fleet)
    events, notes = _events(settings, fleet)
    cells, moments = _scanned(fleet, events, by, settings.folds)
    return _stacks(settings, events, by, cells, moments, fleet.kind, _axes(fleet), notes)


def _axes(fleet: Fleet) -> tuple[str, ...]:
    return normalise(fleet.time_event), normalise(fleet.work_event)


def _scanned(
    fleet: Fleet, events: tuple[str, ...], by: Sequence[str], folds: int
) -> tuple[pd.DataFrame, list[Moments]]:
    """Return the groups' machines, and the sums of each."""
    labels = list(dict.fromkeys([*by, "machine"]))
    cells, moments = fleet.scan(partial(moments_of_pieces, events=events, folds=folds), merge_moments, labels)
    if not moments:
        raise DataError("no interval of the fleet could be used")
    return cells.astype(str), moments


def _stacks(
    settings: "CpiStack", events: tuple[str, ...], by: Sequence[str], cells: pd.DataFrame,
    moments: Sequence[Moments], kind: str, axes: tuple[str, ...], notes: list[str],
) -> FleetStacks:  # fmt: skip
    machines = cells["machine"].tolist()
    found = groups_of(cells, by)
    rows, groups = [], []
    for key, mine in found:
        name = " / ".join(key) or _ALL
        try:
            stack, facts = _Group(settings, events, [moments[i] for i in mine], [machines[i] for i in mine]).result()
        except DataError as error:  # one of thousands of groups is too small: the others stand
            if len(found) == 1:
                raise
            notes.append(f"{name}: no stack, {error}")
            continue
        rows += [(name, *key, *row) for row in stack]
        groups.append({"group": name, **dict(zip(by, key, strict=True)), **facts})
    if not rows:
        raise DataError(f"no group has enough intervals for a stack. {' '.join(notes[:3])}")
    table = pd.DataFrame(rows, columns=["group", *by, "part", *_COLUMNS])
    facts = pd.DataFrame(groups)
    lost = facts[["missing", "idle"]].sum()
    if lost["missing"]:
        notes.append(f"{lost['missing']:,} intervals are left out: a count is missing in them")
    if lost["idle"]:
        notes.append(f"{lost['idle']:,} intervals are left out: no cycles or no instructions were counted")
    asked = settings.get_params() if hasattr(settings, "get_params") else vars(settings)
    sums = np.array([packed(one) for one in moments])
    return FleetStacks(
        table, facts, tuple(by), settings.form, kind, settings.level, tuple(notes), events, axes, asked, cells, sums
    )


def _possible(settings: "CpiStack", fleet: Fleet) -> None:
    if fleet.time_event == "seconds":
        raise SettingError("a CPI stack needs cycles as time; this fleet measures time in seconds")
    if settings.method == "huber" or (settings.method == "lasso" and settings.alpha is None):
        raise SettingError(
            "a fleet's stacks are made of sums: method='huber' needs every interval repeatedly, and 'lasso' needs "
            "its price alpha. Use 'nnls' or 'ols', give alpha, or fit fleet.where(...).to_samples()."
        )
    if (
        settings.weights not in ("auto", "cycles" if settings.form == "ipc" else "instructions")
        or settings.aggregate > 1
    ):
        raise SettingError("a fleet's stacks have weights='auto' and aggregate=1; fit fleet.where(...).to_samples()")


def _events(settings: "CpiStack", fleet: Fleet) -> tuple[tuple[str, ...], list[str]]:
    """Return the events that were counted nearly everywhere, and what is said of the others."""
    if settings.events is not None:
        unknown = [e for e in settings.events if e not in fleet.events]
        if unknown:
            raise SettingError(f"unknown event {unknown[0]!r}; there are {', '.join(fleet.events)}")
        return settings.events, []
    clocks = clocks_among(fleet.events)
    candidates = [e for e in fleet.events if e not in clocks]
    notes = [f"left out because they count time or work: {', '.join(clocks)}"] if clocks else []
    rows = np.array([p.intervals for p in fleet.parts], dtype="float64")
    rarely = []
    for event in candidates:
        lost = [
            p.missing[p.events.index(event)] if event in p.events else n
            for p, n in zip(fleet.parts, rows.tolist(), strict=True)
        ]
        if sum(lost) > MOST_MISSING * rows.sum():
            rarely.append(event)
    if rarely:
        notes.append(f"missing in over {MOST_MISSING:.0%} of the intervals, and left out: {', '.join(rarely)}")
    chosen = tuple(e for e in candidates if e not in rarely)
    if not chosen:
        raise DataError(f"no event is left to explain the CPI with. {' '.join(notes)}")
    return chosen, notes


class _Group:
    """One group: the sums of its machines, and the stack that they give."""

    def __init__(
        self, settings: "CpiStack", events: tuple[str, ...], parts: Sequence[Moments], machines: Sequence[str]
    ) -> None:
        self.settings, self.form = settings, settings.form
        merged: dict[str, Moments] = {}
        for machine, part in sorted(zip(machines, parts, strict=True), key=lambda pair: pair[0]):
            merged[machine] = merge_moments(merged[machine], part) if machine in merged else part
        self.machines = list(merged.values())
        self.total = self.machines[0]
        for part in self.machines[1:]:
            self.total = merge_moments(self.total, part)
        if self.total.n < len(events) + 2:
            raise DataError(
                f"{self.total.n} usable intervals cannot tell {len(events) + 1} unknowns apart "
                f"({self.total.missing} have a count missing, {self.total.idle} no cycles or instructions)"
            )
        forms: tuple[Form, ...] = ("ipc", "cpi")
        self.folds = {form: self.total.fold_moments(form) for form in forms}
        self.keep = self._usable()
        self.all_events = events
        self.events = [e for e, kept in zip(events, self.keep[1:-1], strict=True) if kept]

    def _usable(self) -> np.ndarray:
        """Return which columns can be told from the base and from those before them."""
        M = self.folds[self.form].sum(axis=0)
        k = len(M) - 2
        keep = np.ones(k + 2, dtype=bool)
        length = np.sqrt(np.diag(M))
        alike = np.abs(np.tril(M[:-1, :-1], -1)) > (1 - 1e-12) * np.outer(length[:-1], length[:-1])
        if length[:-1].all() and not alike.any():  # nearly always
            return keep
        for j in range(1, k + 1):
            if length[j] == 0:
                keep[j] = False
                continue
            cosine = np.abs(M[j, :j]) / (length[j] * np.where(length[:j] > 0, length[:j], 1.0))
            keep[j] = not (cosine[keep[:j]] > 1 - 1e-12).any()
        return keep

    def moments(self, form: Form) -> np.ndarray:
        """Return the moments of the random folds with the usable columns, on weights of mean 1."""
        M = self.folds[form][:, self.keep][:, :, self.keep]
        return np.asarray(M * (self.total.n / M[:, 0, 0].sum()))

    def result(self) -> tuple[list[tuple[Any, ...]], dict[str, Any]]:
        """Return the rows of the group's table, from part on, and the facts of the group."""
        settings = self.settings
        other: Form = "cpi" if self.form == "ipc" else "ipc"
        folds = self.moments(self.form)
        whole = folds.sum(axis=0)
        estimator = self._estimator(self.form)
        positive = np.ones(len(whole) - 1)  # nearly always all of them are: a guess that saves most steps
        x = estimator.solve(whole, positive)
        stack = to_stack(self.form, x)
        sums = self.folds["cpi"].sum(axis=0)[0][self.keep]
        rates, cpi = sums[1:-1] / sums[0], float(sums[-1] / sums[0])
        beside = to_stack(other, self._estimator(other).solve(self.moments(other).sum(axis=0), positive))
        placebo = self.total.placebo(self.form)[self.keep][:, self.keep]
        placebo_r2 = r_squared(placebo, estimator.solve(placebo, positive))
        r2 = CpiR2(r_squared(whole, x), _validated(estimator, folds, x), self._by_machine(estimator, x))
        draws, known = self._draws(estimator, x)
        names = ["base", *self.events]
        all_rates = np.append(1.0, rates)
        components = stack * all_rates
        ends = np.full((2, len(names)), np.nan)
        if len(draws):
            aside = (beside * all_rates - components) * (self.form == "ipc")
            least = 0.0 if keeps_signs(settings.method) else -np.inf
            ends = np.array(interval_of(self._wide(draws), aside, settings.level, least, np.inf))
        residual = unexplained(cpi, components)
        nan = np.nan
        rows = [
            *zip(
                names, components.tolist(), *ends.tolist(), (components / cpi).tolist(), [nan, *stack[1:].tolist()],
                [nan, *rates.tolist()], (beside * all_rates).tolist(), strict=True,
            ),
            ("residual", residual, nan, nan, residual / cpi, nan, nan, nan),
        ]  # fmt: skip
        bases = {self.form: float(stack[0]), other: float(beside[0])}
        bracket = CpiBracket(bases["ipc"], bases["cpi"], cpi)
        known = known * all_rates / cpi
        lengths = spread_of(self._wide(known), settings.level)
        spreads = dict(zip(names, lengths.tolist(), strict=True))
        kept_out = (r2.blocked, "machines") if np.isfinite(r2.blocked) else (r2.random, "intervals")
        wrong = self._wrong(stack, components / cpi)
        beyond = outside(known, beside * all_rates / cpi, settings.level)
        apart = [name for name, is_ in zip(names, beyond, strict=True) if is_ and self.form == "ipc"]
        verdict = verdict_of(*kept_out, placebo_r2, bracket, spreads, False, wrong, self.total.n, apart)
        left = [e for e, kept in zip(self.all_events, self.keep[1:-1], strict=True) if not kept]
        facts = {
            "cpi": cpi, "machines": len(self.machines), "intervals": self.total.n, "missing": self.total.missing,
            "idle": self.total.idle, "r2": r2.in_sample, "r2_random": r2.random, "r2_machines": r2.blocked,
            "placebo_r2": placebo_r2, "base_ipc": bracket.ipc, "base_cpi": bracket.cpi, "verdict": verdict.level,
            "reasons": "; ".join(verdict.reasons), "left_out": ", ".join(left),
        }  # fmt: skip
        return rows, facts

    def _wide(self, draws: np.ndarray) -> np.ndarray:
        """Return draws of machines, spread out by what few machines make them too narrow."""
        return for_few(draws, len(self.machines), self.settings.level, taken=1)

    def _estimator(self, form: Form) -> Estimator:
        bounds: Mapping[str, tuple[float, float]] | None = self.settings.bounds
        if bounds:
            bounds = {k: v for k, v in bounds.items() if k in ("base", *self.events)}
        return make_estimator(self.settings.method, form, self.events, bounds, self.settings.alpha)

    def _by_machine(self, estimator: Estimator, x: np.ndarray) -> float:
        """Return R2 on machines that were kept out; NaN where there are not two."""
        if len(self.machines) < 2:
            return float("nan")
        n = min(self.settings.folds, len(self.machines))
        scale = self.total.n / self.folds[self.form][:, 0, 0].sum()
        folds = [
            sum(part.fold_moments(self.form).sum(axis=0) for part in self.machines[i::n]) * scale for i in range(n)
        ]
        return _validated(estimator, np.array(folds)[:, self.keep][:, :, self.keep], x)

    def _draws(self, estimator: Estimator, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return base and components, and base and penalties, of fleets whose machines are drawn with replacement.

        None below three machines.
        """
        times = self.settings.resamples
        if not times or len(self.machines) < 3:
            return np.empty((0, len(x))), np.empty((0, len(x)))
        rng = np.random.default_rng(self.settings.seed)
        n = len(self.machines)
        often = np.array([np.bincount(rng.integers(n, size=n), minlength=n) for _ in range(times)], dtype="float64")
        each = np.array([part.fold_moments(self.form).sum(axis=0)[self.keep][:, self.keep] for part in self.machines])
        sums = np.array([part.fold_moments("cpi").sum(axis=0)[0][self.keep] for part in self.machines])
        m = each.shape[1]
        resampled = (often @ each.reshape(n, -1)).reshape(times, m, m)
        resampled /= resampled[:, :1, :1] / self.total.n
        totals = often @ sums
        stacks = np.asarray(to_stack(self.form, estimator.solve_many(resampled, x)))
        components = stacks.copy()
        components[:, 1:] *= totals[:, 1:-1] / totals[:, :1]
        return components, stacks

    def _wrong(self, stack: np.ndarray, shares: np.ndarray) -> tuple[int, int, int]:
        def penalised(least: float) -> tuple[list[str], np.ndarray]:
            here = shares[1:] > least
            return [e for e, yes in zip(self.events, here, strict=True) if yes], stack[1:][here]

        return (
            len(impossible_penalties(*penalised(0.0))),
            len(unlikely_penalties(*penalised(0.01))),
            len(same_names(self.events)),
        )


def _validated(estimator: Estimator, folds: np.ndarray, x: np.ndarray) -> float:
    """Return R2 over all rows, each predicted by the fit to the other folds."""
    used = folds[folds[:, 0, 0] > 0]
    if len(used) < 2:
        return float("nan")
    whole = used.sum(axis=0)
    solutions = estimator.solve_many(whole - used, x)
    error = sum(squared_error(part, y) for part, y in zip(used, solutions, strict=True))
    spread = squared_spread(whole)
    return 1.0 - error / spread if spread > 1e-14 * whole[-1, -1] else float("nan")
