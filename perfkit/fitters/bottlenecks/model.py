"""`Bottlenecks`: which class of resources holds a program back, from its counters.

What each counter means gives shares of capacity (`perfkit.fitters.bottlenecks.features`); a forest learnt on simulated
runs says what such shares went with: the credit that each class has in the speedup a better core would give. It is
learnt from a simulator: on a real processor's dump its figures are no measurement, and say so.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from perfkit import datasets
from perfkit.errors import DataError, expect, listed
from perfkit.fitters.bottlenecks.alike import Pool, as_numbers, completed, deciding
from perfkit.fitters.bottlenecks.doubts import (
    FASTER,
    TOO_FEW,
    ahead,
    at_least,
    beyond_file,
    beyond_shares,
    contradicting_counts,
    counted_enough,
    impossible_beyond,
    impossible_shares,
    looks,
    mixed_modes,
    share_counted,
    unmodelled_shares,
    without_judged,
    without_time,
)
from perfkit.fitters.bottlenecks.explanation import (
    CANNOT_TELL,
    DIVISIONS,
    EITHER,
    OUT,
    SURE,
    UNCERTAIN,
    Explanation,
    Weighed,
    remarks,
)
from perfkit.fitters.bottlenecks.features import (
    NAMES,
    OF_LOADS,
    OF_THE_MACHINE,
    WHOLE,
    Known,
    any_of,
    dividing,
    either_units,
    features,
    features_of,
    full_capacities,
    known,
    needed,
    ruled_out,
    unhelpful,
    unused_of,
    without_loads,
)
from perfkit.fitters.bottlenecks.forest import Forest
from perfkit.fitters.bottlenecks.intervals import intervals_left
from perfkit.fitters.bottlenecks.names import Named, countable, matched, unused
from perfkit.fitters.bottlenecks.recognise import SIMULATED, SIMULATED_ON
from perfkit.fitters.bottlenecks.stacks import CLASSES_OF, LearntStacks, against, stacks_of, telling
from perfkit.machine.classes import classes_of
from perfkit.machine.core import Microarchitecture
from perfkit.samples.events import counter_unit, modes, other_core
from perfkit.samples.impossible import Kept
from perfkit.samples.table import Samples, expect_samples

DATA, STACKS = "bottlenecks/model", "bottlenecks/stacks"
WAYS = 30  # in which a row of a run with missing events is completed
# A processor's program that loads nothing at all was not counted: virtual machines give 0 for an event they lack.
_NEVER_NONE = ("mem-loads", "l1.accesses")
_LESSER = "cpu_atom"  # the PMU of the small cores of hybrid processors, of which there is no model
# Where no event tells a divider: the probability from which it may be what holds a run back, and the elements divided
# per cycle that keep none busy for more than a tenth (a scalar division takes 4 to 7 cycles).
_MAY_DIVIDE, _FEW_DIVISIONS = 0.05, 0.015
_FULL_PORT, _LESS_BUSY = 0.95, 0.9  # of the cycles; of the busiest port's
_ALL_PORTS = ("uops.p0156B", "uops.p0156", "uops.p015")  # that arithmetic takes, of one core each
_ALIKE = ["uops.p0", "uops.p5"]  # both of the vector units
_PORTS_TOLD = 2  # ports counted in a row, above which what they share can be told
Rates = dict[str, NDArray[np.float64]]


@dataclass(frozen=True, repr=False)
class Bottlenecks:
    """A learnt model, and the core that the samples are of.

    Parameters
    ----------
    core : Microarchitecture
        Its widths, sizes and latencies turn counts into shares of capacity.
    forest : Forest
        What was learnt: the roots of the credits, which span orders of magnitude.

    Examples
    --------
    >>> import perfkit as pk
    >>> samples = pk.SimulatedPmu("zen4", intervals=4).collect(pk.datasets.load("traces/divider"))
    >>> pk.Bottlenecks.load("zen4").explain(samples).answer("divider")
    'dividers'
    """

    core: Microarchitecture
    forest: Forest

    def __repr__(self) -> str:
        """Name the core, and the size of the model: not its tables."""
        return f"<Bottlenecks of {self.core.name}: {len(self.forest.outputs)} classes, {len(self.forest.roots)} trees>"

    @classmethod
    def load(cls, core: str | Microarchitecture) -> "Bottlenecks":
        """Return the model that ships, for a core (or its name)."""
        found = core if isinstance(core, Microarchitecture) else Microarchitecture.load(core)
        return cls(found, datasets.load(DATA))

    def explain(self, samples: Samples, *, intervals: bool = True) -> Explanation:
        """Return what holds each run back, and each of its intervals.

        Parameters
        ----------
        samples : Samples
            Of the simulated PMU, or a dump of an Intel or AMD processor: events are known by their names
            (docs/bottlenecks.md). Time must be in cycles.
        intervals : bool
            Whether each interval is judged, too: some milliseconds each where events are missing.

        Raises
        ------
        DataError
            Time is not in cycles.
        """
        names, simulated = self._names(samples, "Bottlenecks.explain")
        samples, few = counted_enough(samples)
        kept = self._possible(samples, names, simulated=simulated)
        samples = kept.samples
        has = None if simulated else countable(self.core.vendor, self.core.name)
        by_run = rates_of(samples, names, ["run"])
        by_interval = rates_of(samples, names, ["run", "place", "interval"]).iloc[: None if intervals else 0]
        runs = self.judge(by_run, has=has)
        each = self.judge(by_interval, WAYS // 3, decide=False, has=has).table(by_interval.index, evidence=False)
        left = self._left(samples, names, simulated=simulated)
        called: dict[str, str] = {}
        for one in names:
            called[one.simulated] = f"{called[one.simulated]}+{one.real}" if one.simulated in called else one.real
        found = beyond_shares(samples, self.core, by_run)
        table = runs.table(by_run.index, called=called)
        first = {run: (str(mine["resource"].iloc[0]), float(mine["speedup"].max())) for run, mine in _by_run(table)}
        beside = unmodelled_shares(without_judged(found, first, runs.names.tolist()))
        # What is full cannot be freed by any other cycles: all that is not modelled leaves it as full as it is.
        full = np.any([rows for name, rows in runs.full.items() if name not in OF_THE_MACHINE], axis=0)
        beside.loc[beside.index.isin(by_run.index[full].astype(str)), "left"] = 1.0
        shares = features(at_least(_arrays(by_run)), self.core)
        opened = self._open(samples, names, by_run, shares, table, few, kept.left_out)
        told = pd.concat([remarks(samples, by_run.index, runs, table, each), opened])
        for run, mine in _by_run(table):
            if (
                ahead(beside[beside.index == run], float(mine["speedup"].max()))
                or told["open"][told["run"] == run].any()
            ):
                likely = mine.index[(mine["status"] == "told") & (mine["probability"] > OUT)]
                table.loc[likely, "status"] = UNCERTAIN
        return Explanation(
            runs=table,
            intervals=each,
            events=pd.DataFrame([vars(one) for one in names], columns=["simulated", "real", "note"]),
            next_events=runs.measure_next(by_run.index, "" if simulated else self.core.vendor, self.core.name),
            core=self.core.name,
            trained_on=str(self.forest.digest),
            kind=samples.kind,
            time_event=samples.time_event,
            unused=left[["event", "why"]],
            doubts=self._doubts(samples, by_run, shares, left, found, kept.damaged),
            unmodelled=beside,
            remarks=told[["run", "remark"]].reset_index(drop=True),
        )

    def _open(
        self,
        samples: Samples,
        names: tuple[Named, ...],
        by_run: pd.DataFrame,
        shares: Rates,
        table: pd.DataFrame,
        few: Mapping[str, list[str]],
        left_out: Mapping[str, str],
    ) -> pd.DataFrame:
        """Return what else to know of the runs' counts: run, remark, open (whether that leaves the answer open)."""
        rows = [(run, told, False) for run, told in left_out.items()]
        rows += [(run, f"{listed(events, 4)}: counted in {TOO_FEW}", False) for run, events in few.items()]
        rows += [(run, told, True) for run, told in mixed_modes(samples, [one.real for one in names]).items()]
        counted, seen = share_counted(samples, by_run.index), looks(samples, by_run.index)
        first = table.groupby("run", sort=False)["resource"].first()
        more = beyond_file(shares, counted, seen)
        rows += [
            (str(run), f"more lines come from memory than {self.core.name}'s file says that it gives: {FASTER}", True)
            for run in by_run.index[more]
            if first[str(run)] != "memory bandwidth"
        ]
        return pd.DataFrame(rows, columns=["run", "remark", "open"])

    def _possible(self, samples: Samples, names: tuple[Named, ...], *, simulated: bool) -> Kept:
        """Return samples without the intervals whose counts no core can have; simulated ones are not damaged."""
        if simulated:
            return Kept(samples, {}, {})

        def rates(of: Samples) -> pd.DataFrame:
            return rates_of(of, names, ["run"])

        def shares(of: Samples) -> tuple[pd.Index, Rates]:
            mine = rates(of)
            return mine.index, features(at_least(_arrays(mine)), self.core)

        return intervals_left(samples, shares, lambda of: beyond_shares(of, self.core, rates(of)))

    def _doubts(
        self,
        samples: Samples,
        by_run: pd.DataFrame,
        shares: Rates,
        left: pd.DataFrame,
        found: pd.DataFrame,
        damaged: Mapping[str, str],
    ) -> pd.DataFrame:
        """Return why the counts of runs cannot be believed: run, doubt."""
        counted = share_counted(samples, by_run.index)
        seen = looks(samples, by_run.index)
        impossibly = impossible_shares(shares, counted, seen)
        timeless = without_time(samples)
        foreign = left[left["foreign"]]
        rows = [(str(run), told) for run, each in zip(by_run.index, impossibly, strict=True) for told in each]
        rows += [(run, told) for run, each in contradicting_counts(samples).items() for told in each]
        rows += [*timeless, *impossible_beyond(found, samples)]
        rows += [(run, told) for run, told in damaged.items() if run not in {of for of, _ in rows}]
        hosts = samples.runs.loc[samples.runs["source"] == SIMULATED, "host"]
        rows += [
            (str(run), f"it was simulated on {host.removeprefix(SIMULATED_ON)}, and is judged as {self.core.name}")
            for run, host in hosts[hosts != SIMULATED_ON + self.core.name].items()
        ]
        if counter_unit(samples.time_event) == _LESSER:
            rows += [(str(run), f"{samples.time_event} are of the smaller kind of core") for run in by_run.index]
        if len(foreign):
            told = f"{listed(foreign['event'], 3)}: {foreign['why'].iloc[0]}"
            rows += [(str(run), told) for run in by_run.index]
        return pd.DataFrame(rows, columns=["run", "doubt"])

    def stacks(self, samples: Samples) -> LearntStacks:
        """Return the CPI stack of each run, as simulated runs with such counts had it.

        Parameters
        ----------
        samples : Samples
            As for `explain`. Where events are missing, a run's stack is the mean over the ways in which simulated runs
            that look alike complete it, and the distance that the verdict expects is wider by what these differ.

        Raises
        ------
        DataError
            Time is not in cycles, or a run has no instructions.
        """
        names, simulated = self._names(samples, "Bottlenecks.stacks")
        samples, _ = counted_enough(samples)
        kept = self._possible(samples, names, simulated=simulated)
        samples = kept.samples
        if timeless := without_time(samples):
            raise DataError(f"a CPI stack needs cycles for each run; of {timeless[0][0]}, {timeless[0][1]}")
        rates = rates_of(samples, names, ["run"])
        ipc = rates["instructions"].to_numpy(dtype=float)
        if not (np.isfinite(ipc) & (ipc > 0)).all():
            raise DataError("a CPI stack needs instructions for each run: they were not counted, or are 0")
        arrays = {str(event): rates[event].to_numpy(dtype=float) for event in rates.columns}
        forest = datasets.load(STACKS)
        named = [str(name) for name in forest.outputs[1:]]
        counted = {part: self._told(telling(part, self.core), arrays, len(rates)) for part in named}
        has = None if simulated else countable(self.core.vendor, self.core.name)
        given = known(arrays, self.core, has)
        counted["store forwarding"] |= without_loads(as_numbers(given.values))
        missing = [", ".join(part for part in named if not counted[part][row]) for row in range(len(rates))]
        runs = [str(run) for run in rates.index]
        found = beyond_shares(samples, self.core, rates)
        of_parts = [name for names in CLASSES_OF.values() for name in names]
        beside = unmodelled_shares(found[~found["of"].isin(of_parts)])["share"].groupby(level=0).max()
        elsewhere = beside.reindex(runs).fillna(0.0).to_numpy(dtype=float)
        table = stacks_of(forest, completed(given, WAYS), 1.0 / ipc, runs, missing, elsewhere)
        left = self._left(samples, names, simulated=simulated)
        doubts = (
            self._doubts(samples, rates, features(at_least(_arrays(rates)), self.core), left, found, kept.damaged)
            .groupby("run")["doubt"]
            .agg("; ".join)
        )
        table["doubt"] = [str(doubts.get(run, "")) for run in runs]
        table["verdict"] = table["verdict"].where(table["doubt"] == "", "unsupported")
        mixed = mixed_modes(samples, [one.real for one in names])
        table["against"] = [
            "; ".join(filter(None, [told, mixed.get(run, ""), kept.left_out.get(run, "")]))
            for run, told in zip(runs, against(table, features(arrays, self.core)), strict=True)
        ]
        table["verdict"] = table["verdict"].mask(
            (table["against"] != "") & (table["verdict"] == "supported"), UNCERTAIN
        )
        return LearntStacks(table, self.core.name, str(forest.digest), samples.kind)

    def _names(self, samples: Samples, asked: str) -> tuple[tuple[Named, ...], bool]:
        """Return which events are known, and whether the simulated PMU counted them; DataError without cycles."""
        expect_samples(samples, asked)
        if samples.time_event == "seconds":
            raise DataError(
                "shares of a core's capacity need cycles; these samples have seconds for their time. Count cycles too, "
                "or give them with samples.with_axes."
            )
        simulated = samples.kind == "simulated" and bool((samples.runs["source"] == SIMULATED).all())
        events = [event for event in samples.events if simulated or not other_core(event, samples.time_event)]
        events.sort(key=lambda event: modes(event) != modes(samples.time_event))  # of one in two modes, that of time
        return matched(events, simulated=simulated, vendor=self.core.vendor, core=self.core.name), simulated

    def _left(self, samples: Samples, names: tuple[Named, ...], *, simulated: bool) -> pd.DataFrame:
        """Return the events that are not used (`perfkit.fitters.bottlenecks.names.unused`)."""
        events = () if simulated else samples.events
        return unused(events, names, self.core.vendor, self.core.name, samples.time_event)

    def judge(
        self,
        rates: pd.DataFrame,
        ways: int = WAYS,
        *,
        decide: bool = True,
        has: Collection[str] | None = None,
        runs: Pool | None = None,
    ) -> Weighed:
        """Return what is known of each row of rates (counts per cycle; columns: events of the simulated PMU).

        Where events are missing, every row is completed in ``ways`` ways (`perfkit.fitters.bottlenecks.alike`) and
        judged in all of them. Unless ``decide``, it is left open which missing event would decide most. ``has`` are the
        events that the processor can count, by default all; what depends on others alone is told by how likely it is.
        ``runs`` are the simulated runs that complete rows, by default those that ship.
        """
        how = "make it of samples with Bottlenecks.fit, or of counts per cycle"
        expect(hasattr(rates, "columns"), rates, "Bottlenecks.judge", "a DataFrame", how)
        arrays = _arrays(rates)
        never = _uncountable(self.core, has)
        own = [
            each
            for name in OF_LOADS
            for each in (*features_of(name), *map("share: {}".format, needed(name, self.core)))
        ]
        of_loads = np.isin(NAMES, own)
        counted_whole = [name for name in WHOLE if any_of(name) in arrays]  # also where the core's file has none apart
        classes = dict.fromkeys(counted_whole, ()) | classes_of(self.core)
        outputs = [str(name) for name in self.forest.outputs]
        shape = (len(rates), len(outputs))
        credit, probability, first = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        gain = np.zeros((len(rates), len(NAMES)))
        rival, final = np.zeros(shape, dtype=np.bool_), np.zeros(len(rates), dtype=np.bool_)
        given = known(arrays, self.core, has)
        nothing_loaded = without_loads(as_numbers(given.values))
        for part in completed(given, ways, runs):
            n, k = part.x.shape[:2]
            flat = part.x.reshape(n * k, -1)
            roots, votes = self.forest.predict(flat, ruled_out(flat, tuple(outputs)))
            each = part.weight[:, :, None] * np.eye(len(outputs))[votes.argmax(axis=1)].reshape(n, k, -1)
            first[part.rows] = each.sum(axis=1)
            open_ = part.missing & ~never
            last = np.where(nothing_loaded[part.rows], not (open_ & ~of_loads).any(), not open_.any())
            final[part.rows] = last & (has is not None)
            # Where no more can be counted, how often all ways together are right is learnt of such rows.
            ended = (final[part.rows] & part.missing.any())[:, None]
            mean, each_sure, voted = (
                (values.reshape(n, k, -1) * part.weight[:, :, None]).sum(axis=1)
                for values in (np.square(roots), self.forest.probability(votes), votes)
            )
            credit[part.rows] = mean
            probability[part.rows] = np.where(ended, self.forest.real_probability(voted, self.core.vendor), each_sure)
            likeliest = np.array(outputs)[probability[part.rows].argmax(axis=1)]
            for name, may in part.rivals(likeliest, never).items():
                rival[part.rows, outputs.index(name)] = may
            if decide:
                gain[part.rows] = deciding(part, each)
        counted = np.stack(
            [
                self._told(needed(name, self.core), arrays, len(rates))
                if name in classes
                else np.zeros(len(rates), dtype=np.bool_)
                for name in outputs
            ],
            axis=1,
        )
        counted |= final[:, None]  # what no event here tells is told by how likely it is
        divides = np.zeros(len(rates), dtype=np.bool_)
        if has is not None and (name := dividing(self.core, has)):
            rate = arrays.get(DIVISIONS, np.full(len(rates), np.nan))
            divides = (probability[:, outputs.index(name)] >= _MAY_DIVIDE) & ~(rate < _FEW_DIVISIONS)
        shares = features(arrays, self.core)
        counted |= nothing_loaded[:, None] & np.isin(outputs, OF_LOADS)
        full = full_capacities(shares)
        rival[np.any(list(full.values()), axis=0)] = False  # by what was counted: nothing else could be ahead of it
        useful = [each for name, each in full.items() if name not in unhelpful(self.core)]
        credit[np.any(list(full.values()), axis=0) & ~np.any(useful, axis=0)] = 0.0
        pair = [outputs.index(name) for name in EITHER if name in classes]
        either = np.zeros(len(rates), dtype=np.bool_)
        if has is not None and len(pair) == len(EITHER):
            either = either_units(arrays) & (probability[:, pair].sum(axis=1) >= SURE)
            half = np.minimum(probability[:, pair].sum(axis=1), 1.0) / 2
            probability[np.ix_(either, pair)] = half[either, None]
        mine = np.array([name in classes for name in outputs])
        return Weighed(
            names=np.array(outputs)[mine],
            credit=np.where(counted, credit, np.nan)[:, mine],
            probability=np.where(counted, np.minimum(probability, 1.0), np.nan)[:, mine],
            first=first[:, mine],
            rival=rival[:, mine],
            final=final,
            divides=divides,
            either=either,
            prior=self.forest.prior[mine],
            gain=gain,
            shares=shares,
            full=full,
            needs={name: needed(name, self.core) for name in classes},
            counted={event: np.isfinite(values) for event, values in arrays.items()},
            unused=unused_of(shares, self.forest.outputs[mine]),
        )

    def _told(self, events: tuple[str, ...], arrays: Rates, rows: int) -> NDArray[np.bool_]:
        """Return in which rows any of the events was counted."""
        told = np.zeros(rows, dtype=np.bool_)
        for event in events:
            if event in arrays:
                told |= np.isfinite(arrays[event])
        return told


def _uncountable(core: Microarchitecture, has: Collection[str] | None) -> NDArray[np.bool_]:
    """Return which features no event that a processor has determines, (features,); none where it has all events."""
    if has is None:
        return np.zeros(len(NAMES), dtype=np.bool_)
    given = {event: np.ones(1) for event in (*has, "instructions")}
    found: Known = known(given, core, has)
    return np.asarray(np.isnan(found.values).all(axis=0))


def _by_run(table: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    for run, mine in table.groupby(table["run"].astype(str), sort=False):
        yield str(run), mine


def _arrays(rates: pd.DataFrame) -> Rates:
    arrays: Rates = {str(event): rates[event].to_numpy(dtype=float) for event in rates.columns}
    return arrays or {"instructions": np.full(len(rates), np.nan)}


def rates_of(samples: Samples, names: tuple[Named, ...], by: list[str]) -> pd.DataFrame:
    """Return counts per cycle, each over the time in which the event was counted; columns: simulated events."""
    table = samples.table
    chosen = table[table["event"].isin([one.real for one in names]) & table["count"].notna() & (table["time"] > 0)]
    keys = [chosen[key] for key in by]
    sums = chosen.groupby([*keys, chosen["event"].astype(str)], observed=True)[["count", "time"]].sum()
    of_real = (sums["count"] / sums["time"]).unstack("event")
    # One real event may stand for several simulated ones: all loads retire, and ask L1.
    rates = pd.DataFrame(index=of_real.index)
    for one in names:  # and several real events may be added up to one
        here = of_real[one.real] if one.real in of_real else pd.Series(np.nan, index=of_real.index)
        if one.simulated in _NEVER_NONE and one.real != one.simulated:
            here = here.where(here != 0)
        rates[one.simulated] = rates[one.simulated] + here if one.simulated in rates else here
    rates = _without_shared(rates.dropna(axis=1, how="all"), names)
    every = table[by].drop_duplicates()
    index = pd.MultiIndex.from_frame(every) if len(by) > 1 else pd.Index(every[by[0]].astype(str), name=by[0])
    rates.index = rates.index if len(by) > 1 else rates.index.astype(str)
    rates = rates.reindex(index)
    whole = table.drop_duplicates(["run", "place", "interval"]).groupby([table[key] for key in by], observed=True)
    work = whole[["time", "work"]].sum()
    work["time"] = work["time"].where(work["time"] > 0)  # what has no cycles has no rates
    work.index = work.index if len(by) > 1 else work.index.astype(str)
    rates["instructions"] = (work["work"] / work["time"]).reindex(index)
    return rates


def _without_shared(rates: pd.DataFrame, names: tuple[Named, ...]) -> pd.DataFrame:
    """Return rates in which a port's are those of the uops that need it, as far as that can be told.

    A processor counts every uop that a port executed; the simulator's events of one port are of uops that no other port
    takes. What any port takes is spread evenly: so much as the least busy of them had, where three and more were
    counted in a row; of fewer it cannot be told. A port that is busy in nearly every cycle while no other can be, nor
    one of those that were counted together, has no such uops: they would be at the others. Nor have ports 0 and 5 that
    are both so busy: what one or either of them takes is of the vector units; other pairs are of several classes.
    """
    alone = [one.simulated for one in names if one.shared and one.simulated in rates]
    least = rates[alone].min(axis=1).where(rates[alone].notna().sum(axis=1) > _PORTS_TOLD, 0.0)
    most = rates[alone].max(axis=1)
    others = rates[alone].lt(most, axis=0) & rates[alone].lt(_LESS_BUSY * most, axis=0)
    busy = rates[alone].notna() & ~others
    pair = busy.sum(axis=1).eq(len(_ALIKE)) & busy.reindex(columns=_ALIKE, fill_value=False).all(axis=1)
    one = (most >= _FULL_PORT) & (busy.sum(axis=1).eq(1) | (pair & (rates[alone].notna().sum(axis=1) > _PORTS_TOLD)))
    every = [rates[name] for name in _ALL_PORTS if name in rates]
    together = every[0] - rates[alone].sum(axis=1) if every else np.inf
    one &= together < _LESS_BUSY * most
    full = busy.mul(one, axis=0)
    return rates.assign(**rates[alone].sub(least, axis=0).where(~full, rates[alone]))


__all__ = ["CANNOT_TELL", "DATA", "Bottlenecks", "rates_of"]
