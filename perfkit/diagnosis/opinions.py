"""What the other methods hold for the bottleneck, and which one to believe."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from perfkit.collectors.profile.hot import Profile
from perfkit.diagnosis.diagnosis import Diagnosis, Opinion
from perfkit.diagnosis.noise_curves import NONE
from perfkit.diagnosis.ports import divides
from perfkit.errors import PerfkitError, listed
from perfkit.machine.core import Microarchitecture
from perfkit.simulators.groups import group
from perfkit.trace.standing import standing
from perfkit.trace.trace import Trace

if TYPE_CHECKING:
    from perfkit.dag.program import NodeSource
    from perfkit.diagnosis.noise_result import NoiseResult
    from perfkit.simulators.dag.measures import Schedule
    from perfkit.simulators.dag.schedule import DagScheduler

NOISE = "noise in the hot loop"
_NEAR = 0.5  # a line's share of the simulated time over its share of the samples: less is another opinion
_MUCH, _HARDLY = 0.4, 0.1  # of the samples in a line, and of the simulated time for each of these
DAG_LIMIT = 60_000  # instructions of the trace that the extended roofline schedules


# What `NoiseResult.bottleneck` says -> the group of resources that it speaks of (`perfkit.scoring.dag_gus.group`).
_OF_NOISE = {
    "latency": "latency of operations", "front end": "front end", "nop": "front end", "long nop": "front end",
    "restarts": "mispredicted branches", "integer": "integer units", "shift": "integer units",
    "branch": "integer units", "load": "load and store units", "vector load": "load and store units",
    "store": "load and store units", "load L2": "bandwidth of L2", "load L3": "bandwidth of memory",
    "load memory": "bandwidth of memory", "vector add": "floating-point units",
    "vector multiply": "floating-point units", "vector integer": "floating-point units",
    "shuffle": "floating-point units", "divide": "divider",
}  # fmt: skip


def opinions(
    answer: Diagnosis, found: Profile | None, noise: "NoiseResult | PerfkitError | None" = None
) -> tuple[Opinion, ...]:
    """Return the methods' opinions, the sensitivity's first.

    Parameters
    ----------
    answer : Diagnosis
        What was recorded, simulated and measured.
    found : Profile or None
        The samples of the run, where there are any.
    noise : NoiseResult or PerfkitError, optional
        What adding noise to the hot loop showed, or why none could be added.
    """
    resource = answer.bottleneck
    both = answer.together
    change = answer.change
    how = f"with {change}" if change.startswith("half as many") else "at twice the capacity"
    alone = f"{resource} ({answer.gain:+.0%} {how})" if resource else "no single resource"
    pair = f"; {listed(both.resources)} together {both.gain:+.0%}" if both else ""
    told = [Opinion("sensitivity", alone + pair)]
    told += [_account(answer), _causality(answer), *_roofline(answer)]
    if found is not None and (seen := _samples(answer, found)) is not None:
        told.append(seen)
    if noise is not None:
        told.append(_noise(answer, noise))
    return (*told, _belief(answer, told))


def _noise(answer: Diagnosis, noise: "NoiseResult | PerfkitError") -> Opinion:
    """Return what the machine itself says of the loop that runs most; of the call that is recorded first."""
    if isinstance(noise, PerfkitError):
        return Opinion(NOISE, f"cannot say: {noise}")
    tight = noise.bottleneck
    meant = _OF_NOISE.get(tight)
    slack = (
        f" (no slack: {', '.join(none)})" if (none := [k for k, said in noise.slack.items() if said == NONE]) else ""
    )
    agrees = None if meant is None else meant in map(group, _held(answer))
    return Opinion(NOISE, f"{tight}{slack} (measured)", agrees)


def _held(answer: Diagnosis) -> tuple[str, ...]:
    """Return what the sensitivity holds for the bottleneck: one resource, two together, or none."""
    if answer.together:
        return answer.together.resources
    return (answer.bottleneck,) if answer.bottleneck else ()


def _account(answer: Diagnosis) -> Opinion:
    cause, share = max(answer.causes().items(), key=lambda row: row[1])
    agrees = group(cause) in map(group, _held(answer))
    return Opinion("account of the cycles", f"{cause} takes {share:.0%} of them", agrees)


def _causality(answer: Diagnosis) -> Opinion:
    top = answer.lines.iloc[0]
    if not top["causality"]:
        return Opinion("causality", "no instruction delays what comes two windows later")
    slowest = answer.lines.sort_values("time", ascending=False).iloc[0]
    same = top["place"] == slowest["place"]
    beside = (
        "where most of the simulated time is, too" if same else f"most of the simulated time is at {slowest['place']}"
    )
    return Opinion("causality", f"{top['place']} is responsible ({top['causality']:.0%}); {beside}", bool(same))


def scheduled(answer: Diagnosis) -> "tuple[NodeSource, DagScheduler, Schedule]":
    """Return `scheduled_part` of the beginning of the trace."""
    return scheduled_part(answer.result.trace.head(DAG_LIMIT), answer.result.settings.core)


def scheduled_part(trace: Trace, core: Microarchitecture) -> "tuple[NodeSource, DagScheduler, Schedule]":
    """Return the graph of a trace, what schedules it, and the schedule.

    Raises
    ------
    PerfkitError
        The recording cannot be made a graph of, with why.
    """
    from perfkit.collectors.dag.x86_dag import trace_source
    from perfkit.simulators.dag.core import DagCore
    from perfkit.simulators.dag.schedule import DagScheduler

    dag = trace_source(trace, whole=True, core=core).in_memory()
    scheduler = DagScheduler(DagCore.from_microarchitecture(core))
    return dag, scheduler, scheduler.run(dag)


def _roofline(answer: Diagnosis) -> list[Opinion]:
    """Return the extended roofline's opinion, of the beginning of the trace."""
    from perfkit.simulators.dag.relax import relax

    try:
        dag, scheduler, schedule = scheduled(answer)
        found = relax(dag, scheduler, schedule)
    except PerfkitError as error:
        return [Opinion("extended roofline", f"cannot say: {error}")]
    trace = answer.result.trace.head(DAG_LIMIT)
    table = found.to_frame()
    tied = table[(table["gain"] >= table["gain"].max() - 0.02) & (table["gain"] > 0.005)]["resource"].tolist()
    held = {"divider" if divides(answer.result, each) else group(each) for each in _held(answer)}
    agrees = any(group(each) in held for each in tied) if held else not tied
    part = (
        f" (first {trace.instruction_count:,} instructions)"
        if trace.instruction_count < answer.result.instructions
        else ""
    )
    return [Opinion("extended roofline", f"{found.bottleneck or 'no single resource'}{part}", agrees)]


@dataclass(frozen=True)
class _Sampled:
    """The line with most of a function's samples: its share of them and of the simulated time, and the line before."""

    line: tuple[str, int]
    share: float
    simulated: float
    costly: tuple[str, int]
    waited: float

    @property
    def agrees(self) -> bool:
        return self.simulated + (self.waited if self.costly != self.line else 0.0) > _NEAR * self.share


def _most_sampled(answer: Diagnosis, found: Profile) -> _Sampled | None:
    """Return where most samples of the recorded functions are, and the simulated time there, by line."""
    if found.unit != "samples":
        return None
    trace = answer.result.trace
    code = trace.code
    here = _of_file(answer)
    places = [(code.file[k], int(code.line[k])) for k in standing(trace)]
    index = dict(zip(trace.object_addresses()[here].tolist(), here.tolist(), strict=True))
    by_line: Counter[tuple[str, int]] = Counter()
    sampled: dict[tuple[str, int], list[int]] = {}
    for path, address, n in found.addresses[["file", "address", "samples"]].itertuples(index=False):
        if path == answer.file and address in index and places[index[address]][1]:
            by_line[places[index[address]]] += n
            sampled.setdefault(places[index[address]], []).append(index[address])
    if not by_line:
        return None
    line, most = by_line.most_common(1)[0]
    spent = answer.result.spent.sum(axis=1)
    time: Counter[tuple[str, int]] = Counter()
    for k in here.tolist():
        time[places[k]] += int(spent[k])
    simulated = {place: ticks / max(time.total(), 1) for place, ticks in time.items()}
    # A sample falls on the instruction behind the one that was waited for.
    before = {places[k] for k in _before(trace, sampled[line])} - {line}
    costly = max(before, key=lambda place: simulated.get(place, 0.0), default=line)
    return _Sampled(line, most / by_line.total(), simulated[line], costly, simulated.get(costly, 0.0))


def _samples(answer: Diagnosis, found: Profile) -> Opinion | None:
    """Compare where the samples of the recorded functions are with where the simulated time is."""
    seen = _most_sampled(answer, found)
    if seen is None:
        return None
    told = f"{_name(seen.line)} has {seen.share:.0%} of them ({seen.simulated:.0%} of the simulated time)"
    if seen.agrees and seen.simulated <= _NEAR * seen.share:
        told += (
            f": a sample falls behind the instruction that was waited for, here one of {_name(seen.costly)} "
            f"({seen.waited:.0%})"
        )
    return Opinion("samples of the run", told, seen.agrees)


def without_simulated_time(answer: Diagnosis, found: Profile) -> str:
    """Say that a line with much of the samples has hardly any of the simulated time; "" where none has.

    Then the cycles may agree with the measured ones by chance: of empty and filled caches those are taken that do.
    """
    seen = _most_sampled(answer, found)
    if seen is None or seen.agrees or seen.share < _MUCH or seen.simulated + seen.waited > _HARDLY * seen.share:
        return ""
    return (
        f"{seen.share:.0%} of this function's samples lie at {_name(seen.line)}, which has {seen.simulated:.0%} of the "
        "simulated time: what takes long there is not simulated, and not explained"
    )


def _name(place: tuple[str, int]) -> str:
    return f"{place[0].rpartition('/')[2]}:{place[1]}"


def _of_file(answer: Diagnosis) -> NDArray[np.int64]:
    """Return the recorded instructions that lie in the function's own file; all where that is not known."""
    trace = answer.result.trace
    loads = {base for *_, base in json.loads(trace.provenance.extra.get("loaded", "[]"))}
    pc, addresses = trace.code.pc, trace.object_addresses()
    bases = (pc - addresses).astype(np.int64)
    mine = loads & {int(bases[k]) for k, name in enumerate(trace.code.function) if name == answer.symbol}
    return np.flatnonzero(np.isin(bases, sorted(mine))) if mine else np.arange(len(pc))


def _before(trace: Trace, instructions: Sequence[int]) -> set[int]:
    """Return the instructions that ran right before some: in their block, or at the end of the blocks before."""
    starts, found = trace.code.block_start, set()
    for k in instructions:
        block = int(trace.code.block[k])
        if k > starts[block]:
            found.add(k - 1)
            continue
        at = np.flatnonzero(trace.stream == block)
        found |= {int(starts[b + 1]) - 1 for b in np.unique(trace.stream[at[at > 0] - 1]).tolist()}
    return found


def _belief(answer: Diagnosis, told: list[Opinion]) -> Opinion:
    against = [each.method for each in told if each.agrees is False]
    noisy = next((each for each in told if each.method == NOISE and each.agrees is not None), None)
    if noisy is not None and (not noisy.agrees or answer.is_far):
        off = f", and its cycles are {answer.apart:+.0%} from the measured ones" if answer.is_far else ""
        return Opinion("believe", f"the noise: it is measured on this machine, and the sensitivity simulated{off}")
    if answer.uncertain:
        return Opinion(
            "believe", "none firmly: whether the simulation is near the measured cycles is uncertain, see above"
        )
    if answer.is_far:
        return Opinion("believe", f"none firmly: the simulation is {answer.apart:+.0%} from the measured cycles")
    apart = f", but {answer.difference}" if answer.difference else ""
    if not against:
        beside = "contradicts it" if answer.measured else "measured contradicts or supports it"
        said = f"no method {beside}{apart}" if apart else f"nothing {beside}"
        return Opinion("believe", f"the sensitivity: {said}")
    is_near = answer.measured and not apart
    trust = "its cycles are those measured" if is_near else "it changes one thing and simulates everything again"
    verb = "disagrees" if len(against) == 1 else "disagree"
    return Opinion("believe", f"the sensitivity, for {trust}{apart}; with care where {', '.join(against)} {verb}")
