"""`explore`: dumps of any kind, and what can be said of them in one look."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd

from perfkit.base.results import Tabled, draw
from perfkit.errors import MissingFileError, PerfkitError, SettingError, counted, expect
from perfkit.exploration import facts as known
from perfkit.exploration.costs import usual_costs, work_in_words
from perfkit.exploration.measure_next import advice
from perfkit.exploration.methods import Tried, try_all
from perfkit.fitters.spire.model import SpireModel
from perfkit.readers.open_samples import dump_files, is_shipped, open_samples
from perfkit.readers.read import events_of, read_samples
from perfkit.samples.clocks import is_fixed_rate
from perfkit.samples.events import WORK_EVENTS, modes, normalise, per_unit
from perfkit.samples.fleet import Fleet
from perfkit.samples.processors import processor_of
from perfkit.samples.table import Samples, expect_samples

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ORDER = ("top-down", "Bottlenecks", "CPI stack", "SPIRE", "typical costs")
_RATIO = 1.1
_MUCH = 0.3  # of the cycles, in the kernel
_STAND_IN = "stands in for the throughput"


@dataclass(frozen=True, eq=False, repr=False)
class Exploration(Tabled):
    """What one look at dumps tells.

    Attributes
    ----------
    methods : DataFrame
        One row per method: method, trust (supported, uncertain, unsupported or not applicable), finding, why.
    headline : str
        The first insight, in one sentence.
    facts : dict
        What the dumps are.
    quality, notes, measure_next, failed : tuple of str
        What to know of the counts; what the readers left out; ready commands; files that could not be read, with why.
    kind : str
        What the data are: measured, simulated, generated or published.
    compared : DataFrame
        One row per run: cycles per work and rates per 1000 of work.

    Examples
    --------
    >>> import perfkit as pk
    >>> pk.explore("spire/memory").kind
    'generated'
    """

    _rows: ClassVar[str] = "methods"

    methods: pd.DataFrame
    headline: str
    facts: dict[str, str]
    quality: tuple[str, ...]
    notes: tuple[str, ...]
    measure_next: tuple[str, ...]
    failed: tuple[str, ...]
    kind: str
    compared: pd.DataFrame = field(default_factory=pd.DataFrame)

    def to_frame(self) -> pd.DataFrame:
        """Return one row per method: method, trust, finding and why."""
        return self.methods.copy()

    def summary(self) -> str:
        """Return the headline, the methods by how far each can be trusted, and the first thing to measure next."""
        lines = [self.headline]
        for trust in ("supported", "uncertain", "unsupported", "not applicable"):
            here = self.methods.loc[self.methods["trust"] == trust, "method"]
            lines += [f"{trust}: {', '.join(here)}"] if len(here) else []
        lines += [f"beware: {self.quality[0]}"] if self.quality else []
        lines += [f"measure next: {self.measure_next[0]}"] if self.measure_next else []
        return "\n".join(lines)

    def report(self) -> str:
        """Return all of it as text: what the dump is, its quality, each method with reasons, what to measure next."""
        lines = [self.headline, ""]
        lines += [f"{name + ':':15}{value}" for name, value in self.facts.items()]
        lines += ["", *(f"- {told}" for told in self.quality)] if self.quality else []
        lines += ["", "methods"]
        for row in self.methods.itertuples():
            lines.append(f"  {row.method}: {row.trust}" + (f". {row.finding}" if row.finding else ""))
            lines.append(f"      {row.why}")
        lines += ["", "measure next", *(f"  {told}" for told in self.measure_next)]
        lines += ["", *(f"note: {n}" for n in self.notes)] if self.notes else []
        lines += ["", *(f"not read: {n}" for n in self.failed)] if self.failed else []
        return "\n".join(lines)

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw cycles per work of each run; return the matplotlib axes."""
        return draw("samples:plot_compared", self, ax=ax)


def explore(
    source: "Samples | str | Path | Iterable[str | Path]",
    *,
    model: SpireModel | str | Path | None = None,
    time_event: str = "",
    work_event: str = "",
    samples_out: list[Samples] | None = None,
    tried_out: list[Tried] | None = None,
) -> Exploration:
    """Look at dumps: what they are, what they allow, the first insight, and what to measure next.

    Parameters
    ----------
    source : Samples, path or several paths
        Dumps of any format, or patterns of them; a file that cannot be read is told of, and the others are explored.
    model : SpireModel or path, optional
        A model trained on runs of the same machine (``perfkit spire train``); without it one trained on simulated runs
        is used where it knows the events, and said to be so.
    time_event, work_event : str
        The events that measure time and work; "" leaves the choice to the dump.
    samples_out, tried_out : list, optional
        Given lists take the samples and the methods' results, for a closer look.

    Raises
    ------
    SettingError
        No file could be read; the message says why, for each. A MissingFileError where none of them is there.

    Examples
    --------
    >>> explore("spire/memory").kind
    'generated'
    """
    failed: list[str] = []
    if isinstance(source, Samples):
        parts = [source]
    elif isinstance(source, Fleet) or hasattr(source, "columns"):  # a table, whose columns' names are no files
        expect_samples(source, "explore")
    else:
        parts, failed, kind = _read(source, time_event, work_event)
        if not parts:
            raise kind("no dump could be read: " + " | ".join(failed))
    if isinstance(model, str | Path):
        model = SpireModel.load(model)
    alone = _each_alone(parts, model)
    samples, damaged = known.sound(_joined(parts, failed))
    doubt = damaged or known.impossible(samples)
    tried = [_doubted(each, doubt) for each in try_all(samples, model)]
    compared = compared_runs(samples)
    frame = pd.DataFrame(
        [(t.method, t.trust, t.finding, t.why) for t in tried], columns=["method", "trust", "finding", "why"]
    )
    facts, told = known.facts(samples), headline(samples, tried, compared, damaged)
    if alone:
        frame = pd.concat([one.methods.assign(method=one.methods["method"] + f" ({name})") for name, one in alone])
        frame = frame.reset_index(drop=True)
        facts["processor"] = "; ".join(f"{name}: {one.facts['processor']}" for name, one in alone)
        told += "".join(f" {name}: {one.headline}" for name, one in alone)
    if samples_out is not None:
        samples_out.append(samples)
    if tried_out is not None:
        tried_out.extend(tried)
    return Exploration(
        frame,
        told,
        facts,
        (*([damaged] if damaged else []), *known.quality(samples)),
        samples.notes,
        tuple(advice(samples)),
        tuple(failed),
        samples.kind,
        compared,
    )


def _read(source: Any, time_event: str, work_event: str) -> tuple[list[Samples], list[str], type[SettingError]]:
    """Return what can be read, what is said of the others, and what kind of error it is if nothing can."""
    how = "give the path of a dump, several, or the name of a data set"
    expect(isinstance(source, str | Path | Iterable), source, "explore", "Samples or dumps", how)
    parts, failed, missing = [], [], True
    for each in [source] if isinstance(source, str | Path) else source:
        expect(isinstance(each, str | Path), each, "explore", "Samples or dumps", how)
        try:
            if is_shipped(each):
                parts.append(open_samples(each, memory=True, time_event=time_event, work_event=work_event))
                continue
            paths = dump_files(each)
        except PerfkitError as error:
            failed.append(f"{each}: {error}")
            missing &= isinstance(error, FileNotFoundError)
            continue
        for path in paths:
            try:
                parts.append(_one(path, time_event, work_event))
            except (PerfkitError, OSError) as error:
                failed.append(str(error) if Path(path).name in str(error) else f"{Path(path).name}: {error}")
                missing &= isinstance(error, FileNotFoundError)
    return parts, failed, MissingFileError if failed and missing else SettingError


def _one(path: Path, time_event: str, work_event: str) -> Samples:
    """Read a file; where some of its lines cannot be used, read the others."""
    time, work = time_event or None, work_event or None
    try:
        found = read_samples(path, time_event=time, work_event=work)
    except SettingError:
        return _without_axes(path, time, work)
    except PerfkitError:
        found = read_samples(path, errors="collect", time_event=time, work_event=work)
    if time is None and work is None and not found.throughput() > 0:  # counted nowhere, or never together
        with suppress(SettingError):
            return _without_axes(path, time, work)
    return found


def _without_axes(path: Path, time: str | None, work: str | None) -> Samples:
    """Read a dump in which cycles or instructions were not counted: seconds, or its first event, stand in for them."""
    every, names = events_of(path)  # what never happened stands for nothing
    if time is not None and time != "seconds" and time not in every:
        raise SettingError(f"{path.name}: no event {time!r} among {', '.join(every[:8])}")
    done = [e for e in names if not is_fixed_rate(e)] or names
    done.sort(key=lambda e: normalise(e) not in WORK_EVENTS)
    for t in dict.fromkeys([time, "seconds", *names]):
        for w in dict.fromkeys([work, *done]):
            if w == t and w != work and len(names) > 1:
                continue
            try:
                found = read_samples(path, time_event=t, work_event=w, errors="collect")
            except SettingError:
                continue
            if not 0 < found.throughput() < np.inf:
                continue
            told = (
                f"{path.name}: cycles or instructions were not counted, or never together; "
                f"{per_unit(found.work_event, found.time_event)} {_STAND_IN}. Count them too (-e "
                "cycles,instructions,...); where they have other names here, give these: --time-event EVENT "
                "--work-event EVENT (in Python: time_event=, work_event=)"
            )
            return replace(found, notes=(told, *found.notes))
    raise SettingError(f"{path.name}: no event of it can stand for time and work")


def _joined(parts: Sequence[Samples], failed: list[str]) -> Samples:
    """Put samples together that measure time and work alike; others are told of."""
    first = parts[0]
    alike = [p for p in parts if (p.time_event, p.work_event) == (first.time_event, first.work_event)]
    for part in parts:
        if all(part is not other for other in alike):
            source = part.runs["source"].iloc[0]
            try:
                alike.append(part.with_axes(first.time_event, first.work_event))
            except PerfkitError:
                failed.append(
                    f"{source}: its time and work are {part.time_event} and {part.work_event}, those of the others "
                    f"{first.time_event} and {first.work_event}; explore it alone"
                )
    return alike[0] if len(alike) == 1 else Samples.concat(alike)


def compared_runs(samples: Samples) -> pd.DataFrame:
    """Return one row per run: time per work (CPI), and each event's count per 1000 of work."""
    return per_work(samples, samples.table["run"])


def per_work(samples: Samples, groups: pd.Series) -> pd.DataFrame:
    """Return one row per group of the samples' rows: time per work (CPI), and each event's count per 1000 of work."""
    table = samples.table.assign(group=groups)
    known = table[table["work"].notna() & table["time"].notna()]
    keys = ["run", "place", "interval"]
    each = known.drop_duplicates([*keys, "time", "work"]).groupby("group", observed=True)[["time", "work"]].sum()
    counted = known[known["count"].notna() & known["event"].isin(samples.events)]
    sums = counted.groupby(["group", "event"], observed=True)[["count", "work"]].sum()
    rates = (1000 * sums["count"] / sums["work"].where(sums["work"] > 0)).unstack("event")
    rates.columns = [str(c) for c in rates.columns]  # pandas 2.2 on Python 3.12 joins no columns of categories
    out = pd.DataFrame({"time per work": each["time"] / each["work"].where(each["work"] > 0)}).join(rates)
    out.index = out.index.astype(str).rename("run")
    return out


def _each_alone(parts: Sequence[Samples], model: SpireModel | None) -> list[tuple[str, Exploration]]:
    """Return what each dump says by itself, where they are of several processors: no method takes these together."""
    if len({processor_of(part) for part in parts}) < 2:
        return []
    names = [str(part.runs.index[0]) if len(part.runs) == 1 else str(part.runs["source"].iloc[0]) for part in parts]
    return [(name, explore(part, model=model)) for name, part in zip(names, parts, strict=True)]


def _doubted(tried: Tried, doubt: str) -> Tried:
    """Return what a method found, never as supported where some of the counts cannot be."""
    if not doubt or tried.trust != "supported":
        return tried
    return replace(tried, trust="uncertain", why=f"{tried.why}; {doubt}")


def headline(samples: Samples, tried: Sequence[Tried], compared: pd.DataFrame, damaged: str = "") -> str:
    """Return the first insight: of several runs what tells them apart, of one what it spends its time on.

    ``damaged`` says which intervals were left out, and why.
    """
    label = "" if samples.kind == "measured" else f" [{samples.kind} data]"
    stand_in = samples.time_event != "seconds" and any(_STAND_IN in note for note in samples.notes)
    if stand_in and not any(one.trust in ("supported", "uncertain") and one.finding for one in tried):
        events = ", ".join([*samples.events, samples.work_event][:4])
        intervals = counted(samples.n_intervals, "intervals")
        return (
            f"cycles or instructions were not counted, so no method applies to {intervals} "
            f"of {events}{' and others' if len(samples.events) > 3 else ''}; see what to measure next. If they have "
            f"other names here, say which: --time-event EVENT --work-event EVENT.{label}"
        )
    if not known.impossible(samples) and 2 <= len(compared) <= 40 and (told := _joint(samples, compared)):
        return told + label
    throughput = samples.throughput()
    if not np.isfinite(throughput):
        return (
            f"no interval holds both {samples.work_event} and {samples.time_event}, and nothing can stand for them: no "
            f"method applies; see what to measure next.{label}"
        )
    named = normalise(samples.work_event) in WORK_EVENTS
    # A GPU's (smsp__...) are of all its units.
    inst = (named or "inst" in samples.work_event.lower()) and "__" not in samples.work_event
    unit = "IPC" if inst and samples.time_event != "seconds" else ""
    amount = f"IPC {throughput:.3g}" if unit else f"{throughput:.3g} {per_unit(samples.work_event, samples.time_event)}"
    if stand_in:
        amount = f"with {samples.time_event} as time and {samples.work_event} as work, {amount}"
    if partly := known.incomplete(samples):
        amount += f" ({partly})"
    amount += "".join(f" ({told})" for told in (_of_modes(samples), _of_runs(samples), damaged) if told)
    if told := known.impossible(samples) or known.idle(samples):
        return f"{amount}: {told}.{label}"
    if told := known.waits(samples):
        amount = f"{told}. While it ran: {amount}"
    by_name = {t.method: t for t in tried}
    for trust in ("supported", "uncertain"):
        for method in _ORDER:
            one = by_name.get(method)
            if one is not None and one.trust == trust and one.finding:
                how = "" if trust == "supported" else f"; {method}: uncertain"
                if method == "top-down" and not named:  # of slots alone: the throughput of what stands in says nothing
                    return f"{one.finding}{how}.{label}"
                return f"{amount}: {one.finding}{how}.{label}"
    if doubted := next(iter(known.contradictions(samples).values()), ""):
        return f"{amount}; {doubted}.{label}"
    return f"{amount}; the events that were counted allow no further conclusion, see what to measure next.{label}"


def _of_modes(samples: Samples) -> str:
    """Say of which mode the throughput is, where it is the kernel's alone or the kernel takes much of the time."""
    axes = [e for e in (samples.time_event, samples.work_event) if e != "seconds"]
    share = known.in_kernel(samples)
    told = f"{share:.0%} of the cycles are the kernel's" if share >= _MUCH else ""
    only = {modes(e) for e in axes}
    if only in ({"k"}, {"u"}) and (told or only == {"k"}):
        words = f"of {'kernel' if only == {'k'} else 'user'} mode only"
        return f"{words}; {told}" if told else words
    return told


def _of_runs(samples: Samples) -> str:
    """Say how far repeated runs spread, where perf printed means of them."""
    repeats, told = known.spread_of_repeats(samples)
    return f"mean of {repeats} runs: {told}" if told else ""


def _joint(samples: Samples, compared: pd.DataFrame) -> str:
    """Say which run is slowest, and which event's rate tells it apart, weighted by what such events usually cost."""
    cpi = compared["time per work"].dropna()
    if len(cpi) < 2:
        return ""
    slow, fast = str(cpi.idxmax()), str(cpi.idxmin())
    unit = "CPI" if samples.time_event != "seconds" and "inst" in samples.work_event.lower() else "time per work"
    opening = f"{len(cpi)} runs: {unit} from {cpi.min():.3g} ({fast}) to {cpi.max():.3g} ({slow})"
    if partly := known.incomplete(samples):
        opening += f" ({partly})"
    if cpi.max() < _RATIO * cpi.min():
        return f"{opening}: they hardly differ."
    gap, told = cpi.max() - cpi.min(), ""
    best = 0.0
    costs = usual_costs(samples)
    for event in (e for e in compared.columns[1:] if e in costs):
        cost = costs[event]
        more = compared.loc[slow, event] - compared.loc[fast, event]
        if not np.isfinite(more):
            continue
        share = more / 1000 * cost / gap
        if share > max(best, 0.05):
            best = share
            told = (
                f"; {event} differs most for it: {compared.loc[slow, event]:.3g} against "
                f"{compared.loc[fast, event]:.3g} per 1000 {work_in_words(samples)}, at its usual cost "
                f"{'all' if share >= 1 else f'{share:.0%}'} of the difference (uncertain)"
            )
    return f"{opening}{told or '; none of the events whose usual cost is known accounts for it'}."
