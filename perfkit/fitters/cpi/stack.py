"""CPI stacks by regression: base CPI plus one penalty per event, with what shows whether the data support one.

After "Multiple Regression model for CPI stack" (Ratnawat, Shekhar, Gautam), with the additive model divided by cycles
instead of instructions as the headline: that form has no built-in correlation (see `CpiFit.placebo_r2`).
"""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
import pandas as pd

from perfkit.base.files import a_path, reading
from perfkit.base.results import Settings, Summarised, answering, draw
from perfkit.errors import DataError, PerfkitWarning, SettingError, expect
from perfkit.fitters.cpi.checks import (
    check_counts,
    check_fit,
    forms_apart,
    impossible_penalties,
    is_sorted,
    same_counters,
    undetermined,
    unlikely_penalties,
    unusable_events,
)
from perfkit.fitters.cpi.comparison import Comparison
from perfkit.fitters.cpi.counts import CpiCounts, block_starts
from perfkit.fitters.cpi.estimator import (
    METHODS,
    Estimator,
    Method,
    check_bounds,
    choose_alpha,
    keeps_signs,
    make_estimator,
)
from perfkit.fitters.cpi.files import load_each, load_fit, save_fit
from perfkit.fitters.cpi.fleet import FleetStacks, fit_fleet
from perfkit.fitters.cpi.solvers import Form, System, build_system, r_squared, squared_error, to_stack, unexplained
from perfkit.fitters.cpi.validation import (
    CpiBracket,
    CpiR2,
    block_bootstrap,
    blocked_folds,
    cross_validate,
    f_test,
    for_few,
    interval_of,
    outside,
    placebo,
    random_folds,
    spread_of,
    variance_inflation,
)
from perfkit.fitters.cpi.verdict import CpiVerdict, verdict_of
from perfkit.samples.fleet import Fleet
from perfkit.samples.table import Samples, expect_samples

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Weights = Literal["auto", "cycles", "instructions", "none"]


@dataclass(frozen=True)
class CpiStack(Settings):
    """How to break CPI down into a base and the cycles that each event costs.

    Parameters
    ----------
    form : "ipc" or "cpi"
        ``"ipc"`` fits IPC = a - sum d_i (event_i / cycles); then base = 1/a and the penalty of event i is d_i/a.
        ``"cpi"`` fits CPI = base + sum p_i (event_i / instructions), as the paper does (section II-E).
    method : "nnls", "ols", "lasso" or "huber"
        Non-negative least squares; ordinary least squares (penalties may come out negative); the non-negative lasso;
        or non-negative least squares with Huber's weights, which follow outliers less.
    events : sequence of str, optional
        The events to use; by default all that are counted, but no clocks (ref-cycles, task-clock).
    weights : "auto", "cycles", "instructions" or "none"
        What an interval counts. "auto" is cycles for the IPC form and instructions for the CPI form: then the stack of
        least squares sums to the aggregate CPI exactly, and nothing is left unattributed but rounding.
    bounds : mapping, optional
        Event (or ``"base"``) to the least and most cycles it may cost: ``{"branch-misses": (5, 30)}``.
    alpha : float, optional
        The lasso's price, in units of the target; by default the one of least error in blocked cross-validation.
    aggregate : int
        Sum so many consecutive intervals first. Longer intervals have less noise and narrow the bracket on some data.
    folds, placebos, resamples, block : int
        Cross-validation folds; shuffles of the placebo; bootstrap resamples (0: none); intervals per bootstrap block.
    level : float
        Coverage of the bootstrap intervals.
    seed : int
        Of folds, shuffles and resamples.

    Examples
    --------
    >>> import perfkit as pk
    >>> samples, truth = pk.synthetic_cpi(base=0.3, penalties={"branch-misses": 15.0}, intervals=400, seed=1)
    >>> fit = pk.CpiStack().fit(samples)
    >>> abs(fit.base - truth.base) < 0.02
    True
    """

    form: Form = "ipc"
    method: Method = "nnls"
    events: tuple[str, ...] | None = None
    weights: Weights = "auto"
    bounds: Mapping[str, tuple[float, float]] | None = None
    alpha: float | None = None
    aggregate: int = 1
    folds: int = 5
    placebos: int = 20
    resamples: int = 200
    block: int = 25
    level: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        _one_of("form", self.form, ("ipc", "cpi"))
        _one_of("method", self.method, METHODS)
        _one_of("weights", self.weights, ("auto", "cycles", "instructions", "none"))
        check_bounds(self.bounds, self.method)
        if self.events is not None:
            object.__setattr__(self, "events", _names(self.events))
        if self.bounds is not None:
            object.__setattr__(self, "bounds", {k: (float(a), float(b)) for k, (a, b) in self.bounds.items()})
        if self.alpha is not None and (self.method != "lasso" or not self.alpha >= 0):
            raise SettingError(f"alpha is the lasso's price, at least 0; found {self.alpha} with {self.method}")
        whole = (("aggregate", 1), ("folds", 2), ("placebos", 1), ("resamples", 0), ("block", 1), ("seed", 0))
        for name, least in whole:
            if (value := getattr(self, name)) < least:
                raise SettingError(f"{name} must be at least {least}; found {value}")
        if not 0 < self.level < 1:
            raise SettingError(f"level must be between 0 and 1; found {self.level}")

    @overload
    def fit(self, samples: Samples | CpiCounts) -> "CpiFit": ...

    @overload
    def fit(self, samples: Fleet) -> FleetStacks: ...

    def fit(self, samples: Samples | CpiCounts | Fleet) -> "CpiFit | FleetStacks":
        """Fit a stack to samples of one workload; of a `Fleet`, one stack of all of it, as `FleetStacks`.

        Raises
        ------
        SettingError
            Unknown events, or samples whose time is not in cycles.
        DataError
            No usable interval or event, or fewer intervals than unknowns.

        Warns
        -----
        PerfkitWarning
            Intervals or events were left out because counts are missing or zero. `CpiFit.warnings` holds these and
            all else that is suspicious.
        """
        if isinstance(samples, Fleet):
            return fit_fleet(self, samples, [])
        if not isinstance(samples, CpiCounts):
            expect_samples(samples, "CpiStack.fit")
        counts = samples if isinstance(samples, CpiCounts) else CpiCounts.from_samples(samples, self.events)
        if isinstance(samples, CpiCounts) and self.events is not None:
            counts = counts.select(events=self.events)
        elif counts.bad_input:
            warnings.warn(" ".join(counts.left_out), PerfkitWarning, stacklevel=2)
        unknown = [b for b in self.bounds or () if b != "base" and b not in counts.events]
        if unknown:
            raise SettingError(f"bounds name {unknown[0]!r}, which is not among the events: {', '.join(counts.events)}")
        return _fit(self, counts)

    @overload
    def fit_each(self, samples: Samples, by: str = "workload") -> "CpiComparison": ...

    @overload
    def fit_each(self, samples: Fleet, by: str | Sequence[str] = "workload") -> FleetStacks: ...

    def fit_each(self, samples: Samples | Fleet, by: str | Sequence[str] = "workload") -> "CpiComparison | FleetStacks":
        """Fit one stack to each workload (or each run, host, ...: a column of the table of runs) and compare them.

        Of a `Fleet` by any of its labels, several, or ``hour``: all stacks in one pass over its files.

        Raises
        ------
        SettingError
            `by` names no column of the table of runs.
        DataError
            A workload's samples allow no stack; the message names it.
        """
        if isinstance(samples, Fleet):
            return fit_fleet(self, samples, [by] if isinstance(by, str) else list(by))
        if not isinstance(by, str):
            raise SettingError(f"by names one column of the table of runs; found {by!r}")
        expect_samples(samples, "CpiStack.fit_each")
        if by != "run" and by not in samples.runs.columns:
            raise SettingError(
                f"by names a column of the table of runs: run, {', '.join(samples.runs.columns)}; found {by!r}"
            )
        keys = samples.runs.index.to_series() if by == "run" else samples.runs[by]
        fits = {}
        for key in dict.fromkeys(keys):
            part = samples.select(runs=list(keys.index[keys == key]))
            try:
                fits[str(key)] = self.fit(part)
            except DataError as error:
                raise DataError(f"{by} {key!r}: {error}") from error
        return CpiComparison(fits)


@dataclass(frozen=True, eq=False, repr=False)
class CpiFit(Summarised):
    """A CPI stack with its evidence.

    Attributes
    ----------
    settings : CpiStack
        What it was fitted with.
    data : CpiCounts
        The intervals and events that were used.
    base : float
        CPI without any of the events (NaN where the IPC form gives none).
    penalties : Series
        Cycles that one count of each event costs.
    components : Series
        CPI of the base and of each event: penalty times events per instruction.
    cpi : float
        Total cycles over total instructions. Components and `residual` sum to it.
    other : Series
        The components by the other form, beside these.
    r2 : CpiR2
        In sample, under random and under blocked cross-validation.
    placebos : array
        In-sample R2 with shuffled counts, one per shuffle.
    bracket : CpiBracket
        The base by both forms.
    adjusted_r2, rmse, f, p : float
        Of the in-sample fit; rmse in units of the target (IPC or CPI), weighted.
    vif : Series
        Variance inflation of each event.
    penalty_draws, component_draws : DataFrame
        Block-bootstrap draws, one row per resample.
    block : int
        Intervals per bootstrap block, as it was drawn.
    alpha : float
        The lasso's price (0 otherwise).
    warnings : tuple of str
        What the reader should know, in words.
    verdict : CpiVerdict
        Whether the data support this stack.
    source : CpiCounts
        All intervals and events that were given: `perfkit.CpiFit.refit` goes back to them.

    Examples
    --------
    >>> samples, _ = pk.synthetic_cpi(intervals=200, seed=1)
    >>> fit = pk.CpiStack().fit(samples)
    >>> round(fit.cpi, 2), fit.kind
    (0.72, 'generated')
    """

    settings: CpiStack
    data: CpiCounts
    base: float
    penalties: pd.Series
    components: pd.Series
    cpi: float
    other: pd.Series
    r2: CpiR2
    placebos: np.ndarray
    bracket: CpiBracket
    adjusted_r2: float
    rmse: float
    f: float
    p: float
    vif: pd.Series
    penalty_draws: pd.DataFrame
    component_draws: pd.DataFrame
    block: int
    alpha: float
    warnings: tuple[str, ...]
    verdict: CpiVerdict
    source: CpiCounts = field(repr=False)

    @property
    def events(self) -> tuple[str, ...]:
        """The events of the model."""
        return self.data.events

    @property
    def kind(self) -> str:
        """What the data is: measured, simulated, generated or published."""
        return self.data.kind

    @property
    def residual(self) -> float:
        """CPI that neither the base nor an event accounts for (negative: more is attributed than there is)."""
        return unexplained(self.cpi, self.components.to_numpy())

    @property
    def placebo_r2(self) -> float:
        """The median R2 that shuffled counts reach: what this form explains of nothing."""
        return float(np.median(self.placebos))

    @property
    def misplaced(self) -> float:
        """Cycles per instruction that the stack puts into the wrong intervals: the mean absolute error, as CPI."""
        table = self.intervals()
        return float(np.average((table["cpi"] - table["predicted"]).abs(), weights=self.data.instructions))

    def intervals(self) -> pd.DataFrame:
        """Return measured and predicted CPI of each interval with its run, place, number, time and residual."""
        cpi = self.data.cycles / self.data.instructions
        predicted = self.base + (self.data.counts @ self.penalties.to_numpy()) / self.data.instructions
        return self.data.rows.assign(cpi=cpi, predicted=predicted, residual=cpi - predicted)

    def correlation(self) -> pd.DataFrame:
        """Return the correlations of all rates and CPI (paper, section II-D1), over instructions."""
        per = self.source.counts / self.source.instructions[:, None]
        names = ["CPI", *self.source.events]
        values = np.column_stack([self.source.cycles / self.source.instructions, per])
        return pd.DataFrame(values, columns=names).corr()

    def to_frame(self) -> pd.DataFrame:
        """Return one row per part (base, events, residual): CPI, interval, share, penalty, rate, VIF, other form."""
        none = [np.nan]
        low, high = (end.to_numpy() for end in self.intervals_of(self.component_draws))
        penalty_low, penalty_high = (end.to_numpy()[1:] for end in self.intervals_of(self.penalty_draws))
        components = np.append(self.components.to_numpy(), self.residual)
        columns = {
            "component": components,
            "low": np.append(low, none),
            "high": np.append(high, none),
            "share": components / self.cpi,
            "penalty": np.concatenate([none, self.penalties.to_numpy(), none]),
            "penalty_low": np.concatenate([none, penalty_low, none]),
            "penalty_high": np.concatenate([none, penalty_high, none]),
            "rate": np.concatenate([none, self.data.rates, none]),
            "vif": np.concatenate([none, self.vif.to_numpy(), none]),
            "other_form": np.append(self.other.to_numpy(), unexplained(self.cpi, self.other.to_numpy())),
        }
        return pd.DataFrame(columns, index=pd.Index([*self.components.index, "residual"], name="part"))

    def intervals_of(self, draws: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
        """Return the ends of the intervals of each column of a fit's draws (NaN without resamples).

        Those of the bootstrap, wider where it had few blocks, and in the IPC form as much further as the CPI form lies
        to a side: noise in the cycles moves the IPC form only, which resamples do not show. None
        holds what the fit cannot give.
        """
        self._check_draws(draws, "CpiFit.intervals_of")
        if not len(draws):
            missing = pd.Series(np.nan, index=draws.columns)
            return missing, missing.copy()
        rates = np.append(1.0, self.data.rates) if draws is self.penalty_draws else np.ones(draws.shape[1])
        least, most = self._possible(penalties=draws is self.penalty_draws)
        wide, level = self.for_few_blocks(draws), self.settings.level
        low, high = interval_of(wide, self.aside.to_numpy() / np.where(rates > 0, rates, np.nan), level, least, most)
        return pd.Series(low, index=draws.columns), pd.Series(high, index=draws.columns)

    @property
    def aside(self) -> pd.Series:
        """How far the CPI form lies from a component of this one, in CPI; 0 in the CPI form itself."""
        apart = self.other.to_numpy() - self.components.to_numpy()
        return pd.Series(apart * (self.settings.form == "ipc"), index=self.components.index)

    def for_few_blocks(self, draws: pd.DataFrame) -> np.ndarray:
        """Return a fit's draws spread out by what their few blocks make them too narrow."""
        self._check_draws(draws, "CpiFit.for_few_blocks")
        blocks = len(block_starts(self.data.segments(), self.block))
        return for_few(draws.to_numpy(), blocks, self.settings.level)

    def _check_draws(self, draws: object, where: str) -> None:
        mine = [list(own.columns) for own in (self.component_draws, self.penalty_draws)]
        how = "give component_draws or penalty_draws"
        expect(list(getattr(draws, "columns", ())) in mine, draws, where, "a table of the fit's draws", how)

    def _possible(self, *, penalties: bool) -> tuple[np.ndarray, np.ndarray]:
        """Return between what the method and its bounds keep base and penalties, or base and components.

        An event's component is its penalty times a rate that resamples vary, which no bound holds: only its sign is.
        """
        columns = self.components.index
        bounds = self.settings.bounds or {}
        least = np.full(len(columns), 0.0 if keeps_signs(self.settings.method) else -np.inf)
        most = np.full(len(columns), np.inf)
        for at, name in enumerate(columns if penalties else columns[:1]):
            least[at], most[at] = bounds.get(str(name), (least[at], most[at]))
        return least, most

    def refit(
        self,
        *,
        events: Iterable[str] | None = None,
        rows: np.ndarray | None = None,
        **changes: Any,
    ) -> "CpiFit":
        """Return a new fit of the same source with other events, over some intervals, or with other settings.

        Parameters
        ----------
        events : iterable of str, optional
            Events among those of the source.
        rows : boolean array, optional
            Which intervals of the source to use (before aggregation).
        **changes
            Other settings of `CpiStack`: ``form="cpi"``, ``method="ols"``.
        """
        chosen = tuple(events) if events is not None else self.settings.events
        settings = replace(self.settings, **changes, events=None)
        counts = self.source.select(events=chosen, rows=rows)
        return replace(_fit(settings, counts), source=self.source)

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the stack as a bar with its intervals (matplotlib); return the axes."""
        return draw("cpi_stack:plot_stacks", {self.name: self}, ax=ax)

    @property
    def name(self) -> str:
        """The workload, or how many are mixed."""
        names = [str(w) for w in dict.fromkeys(self.data.runs["workload"])]
        return names[0] if len(names) == 1 else f"{len(names)} workloads"

    def report(self) -> str:
        """Return the stack, its placebo, its bracket and its warnings as text."""
        from perfkit.fitters.cpi.report import report_text

        return report_text(self)

    def summary(self) -> str:
        """Say what the CPI consists of, whether the data support it, and the placebo and bracket beside it."""
        from perfkit.fitters.cpi.report import summary

        return summary(self)

    def save(self, path: str | Path) -> Path:
        """Write the fit with its data into one parquet file and return its path."""
        results = {
            "settings": asdict(self.settings),
            "numbers": {name: getattr(self, name) for name in _NUMBERS},
            **{name: getattr(self, name).tolist() for name in ("penalties", "components", "other", "vif", "placebos")},
            "r2": asdict(self.r2),
            "bracket": asdict(self.bracket),
            **{name: getattr(self, name).to_numpy().tolist() for name in ("penalty_draws", "component_draws")},
            "block": self.block,
            "warnings": self.warnings,
            "verdict": asdict(self.verdict),
        }
        return save_fit(a_path(path, "CpiFit.save"), results, self.data)

    @classmethod
    def load(cls, path: str | Path) -> "CpiFit":
        """Read a fit that `save` wrote."""
        with reading(path, "a parquet file of a CPI fit"):
            return answering(_assembled(*load_fit(path)))


class CpiComparison(Comparison):
    """Several CPI stacks by name; behaves as a mapping of names to fits.

    Examples
    --------
    >>> import perfkit as pk
    >>> one, _ = pk.synthetic_cpi(intervals=300, workload="before", seed=1)
    >>> two, _ = pk.synthetic_cpi(intervals=300, workload="after", base=0.30, seed=1)
    >>> both = pk.CpiStack().fit_each(pk.Samples.concat([one, two]))
    >>> float(both.difference("before", "after").loc["base", "difference"].round(2))
    -0.05
    """

    @classmethod
    def load(cls, path: str | Path) -> "CpiComparison":
        """Read what `save` wrote; FileNotFoundError if there is none, FormatError if it is another's or damaged."""
        return cls(load_each(path, CpiFit.load))


_REASONS = 6  # of what was left out, that a message tells
_NUMBERS = ("base", "cpi", "adjusted_r2", "rmse", "f", "p", "alpha")


def _assembled(head: dict[str, Any], data: CpiCounts) -> CpiFit:
    """Return the fit that a file's parts make."""
    settings = CpiStack(**head["settings"])
    events = list(data.events)
    parts = ["base", *events]
    other = "cpi" if settings.form == "ipc" else "ipc"

    def draws(name: str) -> pd.DataFrame:
        return pd.DataFrame(np.array(head[name], dtype="float64").reshape(-1, len(parts)), columns=parts)

    return CpiFit(
        settings=settings,
        data=data,
        penalties=pd.Series(head["penalties"], index=events, name="penalty"),
        components=pd.Series(head["components"], index=parts, name="component"),
        other=pd.Series(head["other"], index=parts, name=f"component ({other} form)"),
        vif=pd.Series(head["vif"], index=events, name="vif"),
        r2=CpiR2(**head["r2"]),
        placebos=np.array(head["placebos"]),
        bracket=CpiBracket(**head["bracket"]),
        penalty_draws=draws("penalty_draws"),
        component_draws=draws("component_draws"),
        block=head["block"],
        warnings=tuple(head["warnings"]),
        verdict=CpiVerdict(head["verdict"]["level"], tuple(head["verdict"]["reasons"])),
        source=data,
        **head["numbers"],
    )


# ------------------------------------------------------------------ the fit


def _fit(settings: CpiStack, source: CpiCounts) -> CpiFit:
    counts, told = _used(settings, source)
    other_form: Form = "cpi" if settings.form == "ipc" else "ipc"
    system = _system(settings, counts, settings.form)
    estimator = _estimator(settings, system, counts)
    x, factor = estimator.fit(system)
    x = estimator.polish(system, x, factor)
    beside = _components(_solve_other(settings, counts, other_form), counts)
    stack = _within(to_stack(settings.form, x), settings, counts)
    whole = system.moments()
    rng = np.random.default_rng(settings.seed)
    n = len(counts)
    folds = (random_folds(n, settings.folds, rng), blocked_folds(n, settings.folds))
    r2 = CpiR2(r_squared(whole, x), *(cross_validate(system, estimator, each, whole, x) for each in folds))
    shuffled = placebo(counts, settings.form, system.weights, estimator, settings.placebos, rng)
    penalty_draws, component_draws, block = block_bootstrap(
        system, estimator, counts, factor, x, block=settings.block, times=settings.resamples, rng=rng
    )
    bases = {settings.form: float(stack[0]), other_form: float(beside[0])}
    bracket = CpiBracket(bases["ipc"], bases["cpi"], counts.cpi)
    vif = variance_inflation(whole)
    F, p, adjusted = f_test(r2.in_sample, n, len(counts.events))
    placebo_r2 = float(np.median(shuffled))
    told += check_counts(counts)
    in_order = is_sorted(counts)
    told += check_fit(
        counts.events, stack[1:], vif, bases[settings.form], bracket, r2, placebo_r2, settings.form, in_order
    )
    # How well a penalty is known, at the rates of all intervals: resamples' own rates are those of their mix of phases.
    known = penalty_draws * np.append(1.0, counts.rates) / counts.cpi
    wide = for_few(known, len(block_starts(counts.segments(), block)), settings.level)
    told += undetermined(counts.events, wide[:, 1:], settings.level)
    names = list(counts.events)
    parts = ["base", *names]
    apart = _at(parts, outside(known, beside / counts.cpi, settings.level))
    told += forms_apart(apart, settings.form)
    spreads = dict(zip(parts, spread_of(wide, settings.level).tolist(), strict=True))
    return CpiFit(
        settings=settings,
        data=counts,
        base=float(stack[0]),
        penalties=pd.Series(stack[1:], index=names, name="penalty"),
        components=pd.Series(_components(stack, counts), index=parts, name="component"),
        cpi=counts.cpi,
        other=pd.Series(beside, index=parts, name=f"component ({other_form} form)"),
        r2=r2,
        placebos=shuffled,
        bracket=bracket,
        adjusted_r2=adjusted,
        rmse=float(np.sqrt(squared_error(whole, x) / whole[0, 0])),
        f=F,
        p=p,
        vif=pd.Series(vif, index=names, name="vif"),
        penalty_draws=pd.DataFrame(penalty_draws, columns=parts),
        component_draws=pd.DataFrame(component_draws, columns=parts),
        block=block,
        alpha=estimator.alpha,
        warnings=tuple(dict.fromkeys(told)),
        verdict=_verdict(
            stack, counts, r2, placebo_r2, bracket, spreads, in_order, apart if settings.form == "ipc" else []
        ),
        source=source,
    )


def _used(settings: CpiStack, source: CpiCounts) -> tuple[CpiCounts, list[str]]:
    """Return the counts that a stack is fitted to, and what is said of those that are left out."""
    counts = source.aggregate(settings.aggregate)
    useless = unusable_events(counts)
    told = [*source.left_out, *useless.values()]
    counts = counts.select(events=[e for e in counts.events if e not in useless])
    _enough(counts, told)
    return counts, told


def _verdict(
    stack: np.ndarray, counts: CpiCounts, r2: CpiR2, placebo: float, bracket: CpiBracket, spreads: dict[str, float],
    in_order: bool, apart: list[str],
) -> CpiVerdict:  # fmt: skip
    kept_out = (r2.random, "intervals") if in_order else (r2.blocked, "phases")
    shares = _components(stack, counts)[1:] / counts.cpi
    impossible = impossible_penalties(_at(counts.events, shares > 0), stack[1:][shares > 0])
    unlikely = unlikely_penalties(_at(counts.events, shares > 0.01), stack[1:][shares > 0.01])
    wrong = (len(impossible), len(unlikely), len(same_counters(counts)))
    return verdict_of(*kept_out, placebo, bracket, spreads, in_order, wrong, len(counts), apart)


def _system(settings: CpiStack, counts: CpiCounts, form: Form) -> System:
    kind = settings.weights
    if kind == "auto":
        kind = "cycles" if form == "ipc" else "instructions"
    weights = {
        "cycles": counts.cycles,
        "instructions": counts.instructions,
        "none": np.ones(len(counts)),
    }[kind]
    return build_system(form, counts.cycles, counts.instructions, counts.counts, weights)


def _estimator(settings: CpiStack, system: System, counts: CpiCounts) -> Estimator:
    bounds = settings.bounds and {k: v for k, v in settings.bounds.items() if k in ("base", *counts.events)}
    estimator = make_estimator(settings.method, system.form, counts.events, bounds, settings.alpha)
    if settings.method == "lasso" and settings.alpha is None:
        return choose_alpha(estimator, system, blocked_folds(len(counts), settings.folds))
    return estimator


def _solve_other(settings: CpiStack, counts: CpiCounts, form: Form) -> np.ndarray:
    system = _system(settings, counts, form)
    estimator = _estimator(settings, system, counts)
    x, factor = estimator.fit(system)
    return to_stack(form, estimator.polish(system, x, factor))


def _components(stack: np.ndarray, counts: CpiCounts) -> np.ndarray:
    out = stack.copy()
    out[1:] *= counts.rates
    return out


def _enough(counts: CpiCounts, told: list[str]) -> None:
    n, k = len(counts), len(counts.events)
    more = f" And {len(told) - _REASONS} more like these." if len(told) > _REASONS else ""
    reasons = " ".join(told[:_REASONS]) + more
    if k == 0:
        raise DataError(f"no event is left to explain the CPI with. {reasons}")
    if n < k + 2:
        raise DataError(
            f"{n} interval{'s' * (n != 1)} cannot tell {k + 1} unknowns (a base and {k} penalties) apart: at least "
            f"{k + 2} are needed, and some {10 * (k + 1)} to mean much. Measure longer or in shorter intervals (perf "
            f"stat -I), or name fewer events (events=, in a shell --events). {reasons}".strip()
        )


def _within(stack: np.ndarray, settings: CpiStack, counts: CpiCounts) -> np.ndarray:
    """Take off the rounding by which a bounded solution may lie outside its bounds."""
    if not settings.bounds:
        return stack
    ends = np.array([settings.bounds.get(e, (0.0, np.inf)) for e in ("base", *counts.events)])
    return np.clip(stack, ends[:, 0], ends[:, 1])


def _at(events: Sequence[str], where: np.ndarray) -> list[str]:
    return [e for e, here in zip(events, where, strict=True) if here]


def _names(events: str | Iterable[str]) -> tuple[str, ...]:
    expect(hasattr(events, "__iter__"), events, "CpiStack", "names of events (events)", "list them")
    return (events,) if isinstance(events, str) else tuple(events)


def _one_of(name: str, value: str, allowed: Iterable[str]) -> None:
    if value not in tuple(allowed):
        raise SettingError(f"{name} is one of {', '.join(allowed)}; found {value!r}")
