"""Passes over a shuffled space: one experiment per configuration in each, until its passes agree or are used up."""

import math
import os
import random
import shlex
import subprocess
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from perfkit.collectors.host import toolchain
from perfkit.collectors.host.machine_state import now, read_state
from perfkit.collectors.host.true_cycles import CLOCK, MOSTLY
from perfkit.collectors.microbenchmark.compile import Built
from perfkit.collectors.microbenchmark.not_flushed import NOT_COLD
from perfkit.collectors.microbenchmark.policy import Agreement, Verdict, agreement, judge_repetitions, unsettled_by
from perfkit.collectors.microbenchmark.process import (
    Experiment,
    KernelError,
    MeasuringProcess,
    Request,
    Run,
    event_numbers,
)  # fmt: skip
from perfkit.errors import PerfkitWarning, SettingError, UnavailableError
from perfkit.study.parts import EMPTY, FENCE_ERROR
from perfkit.study.study import RESERVED, Configuration, Study, fill

_QUIET = 1.06  # of the quietest probe: as in clock.h
_FEW_STEPS = 50  # of the counter: one is the tolerance of 2 % of so many
# Nanoseconds, as in measure.c; a shorter window may have lasted so long because something interrupted it.
_LONG_WINDOW = 1e6
_SENTINEL = 0.02  # by how much the cycles of what takes one may be off
Task = tuple[Configuration, str]
Note = Callable[[str, dict[str, Any]], None]
"""Called with a key and an experiment that is to be kept."""


def measure_all(
    study: Study,
    todo: Sequence[Task],
    built: Mapping[str, Built],
    harness: Path,
    folder: Path,
    seed: int = 0,
    earlier: Mapping[str, Sequence[dict[str, Any]]] | None = None,
    note: Note | None = None,
    say: Callable[[str], None] | None = None,
) -> Iterator[dict[str, Any]]:
    """Measure every configuration in passes and yield its record when it is done.

    Parameters
    ----------
    study : Study
        With its host's facts filled in.
    todo : sequence of (Configuration, str)
        What to measure, with its key.
    built : mapping
        Key -> what compiling gave.
    harness, folder : Path
        The measuring process and the folder of the objects.
    seed : int
        Of the passes' orders.
    earlier : mapping, optional
        Key -> experiments that were made before a stop.
    note : callable, optional
        Called with each new experiment.
    say : callable, optional
        Called with what is being done.
    """
    cpus, state = usable_cpus(study), read_state()
    where = {"host": state.host, "processor": f"{state.processor} (family {state.family}, model {state.model})"}
    made: dict[str, list[dict[str, Any]]] = {key: list((earlier or {}).get(key, ())) for _, key in todo}
    left = []
    for one, key in todo:
        reason = built[key].message if built[key].failed else ""
        if not reason and one.threads > len(cpus):
            reason = f"{one.threads} threads need as many CPUs; this process may use {len(cpus)}"
        if reason:
            yield record_of(one, key, message=reason, static=built[key].static, **where)
        else:
            left.append((one, key))
    events = _countable(study) if left else []
    with ExitStack() as stack:
        processes: dict[int, MeasuringProcess] = {}
        number = 0
        while left:
            number += 1
            random.Random(f"{seed} {number}").shuffle(left)  # noqa: S311 (an order, not a secret)
            unfinished = []
            for at, (one, key) in enumerate(left):
                if say is not None:
                    say(f"measuring, pass {number}: {at} of {len(left)}")
                process = processes.get(one.threads)
                if process is None:
                    process = stack.enter_context(_process(study, one.threads, cpus, harness, folder))
                    processes[one.threads] = process
                try:
                    if not _finished(study, made[key], process.level):
                        for experiment in _experiments(study, one, key, built[key], process, events, made[key], folder):
                            made[key].append(experiment)
                            if note is not None:
                                note(key, experiment)
                except (KernelError, UnavailableError) as error:
                    kept = {"experiments": made[key], "static": built[key].static}
                    yield record_of(one, key, message=str(error), **kept, **where)
                    continue
                if _finished(study, made[key], process.level):
                    yield _row(study, one, key, built[key], made[key], process.level) | where
                else:
                    unfinished.append((one, key))
            left = unfinished


def _process(study: Study, threads: int, cpus: Sequence[int], harness: Path, folder: Path) -> MeasuringProcess:
    fifo = study.machine.scheduler == "fifo"
    lists = study.assembly is not None
    process = MeasuringProcess(harness, folder, cpus[:threads], threads, fifo, study.limits, lists=lists)
    process.start()
    if fifo and not process.is_fifo:
        reason = "machine state: the FIFO scheduling class was refused (it needs root); measuring without it"
        warnings.warn(reason, PerfkitWarning, stacklevel=3)
    return process


def _experiments(
    study: Study,
    one: Configuration,
    key: str,
    built: Built,
    process: MeasuringProcess,
    events: Sequence[str],
    before: Sequence[dict[str, Any]],
    folder: Path,
) -> Iterator[dict[str, Any]]:
    """Make one experiment of a configuration, and at its first visit those of the events, in runs of their own."""
    _commands(study.preamble, one)
    request = _request(study, one, key, built, folder)
    counted = {each["event"] for each in before}
    for event in events:
        if event not in counted:
            yield from _settled_event(study, process, replace(request, event=event))
    attempt = sum(each["event"] == "" for each in before)
    got = process.measure(request, study.time_limit)
    taken = RESERVED.union(one.values, built.static, (event.replace("-", "_") for event in study.events))
    for name in got.reports:
        if name in taken:
            raise KernelError(
                f"PK_REPORT of {name!r}: the table has a column of that name already, which it would overwrite: name "
                "it otherwise"
            )
    yield _plain("", attempt, got)
    _commands(study.finalize, one)


def _settled_event(study: Study, process: MeasuringProcess, request: Request) -> Iterator[dict[str, Any]]:
    """Repeat an event's experiment until it settles; counts hardly depend on what else the machine does."""
    for attempt in range(study.policy.attempts):
        got = process.measure(request, study.time_limit)
        yield _plain(request.event or "", attempt, got)
        if judge_repetitions([run.event for run in got.runs], study.policy.tolerance).settled:
            return


def _plain(event: str, attempt: int, got: Experiment) -> dict[str, Any]:
    runs = [[run.tsc, run.ns, run.cycles, run.event, run.kept, run.tried, run.quiet, run.level] for run in got.runs]
    apart = judge_repetitions([run.cycles for run in got.runs], 1).mean if got.apart is None else got.apart
    return {
        "event": event, "attempt": attempt, "at": now(), "steps": got.steps, "reports": _nullable(got.reports),
        "sentinel": got.sentinel if math.isfinite(got.sentinel) else None,
        "grain": asdict(got.grain) if got.grain is not None else None,
        "bias": _nullable(asdict(got.bias)) if got.bias is not None else None,
        "lost": got.lost,
        "varies": got.varies,
        "average": got.average,
        "average_cycles": got.average_cycles,
        "rare": list(got.rare),
        "gave": list(got.gave),
        "later": got.later,
        "unflushed": got.unflushed,
        "pairs": list(got.pairs) if got.pairs is not None else None,
        "apart": apart if math.isfinite(apart) else None,
        "runs": [[value if math.isfinite(value) else None for value in run] for run in runs],
    }  # fmt: skip


# -- what the passes say -----------------------------------------------------------------------------------------------


def _runs(experiment: Mapping[str, Any]) -> list[Run]:
    found = []
    for run in experiment["runs"]:
        tsc, ns, cycles, event, kept, tried, quiet, level = (math.nan if value is None else value for value in run)
        found.append(Run(tsc, ns, cycles, event, int(kept), int(tried), int(quiet), level))
    return found


def _is_calm(experiment: Mapping[str, Any], level: float) -> bool:
    """Whether an experiment ran beside no busy neighbour: nearly all its runs, by what is known of the core by now."""
    runs = _runs(experiment)
    sentinel = experiment["sentinel"]
    bound = level * _QUIET if level > 0 else math.inf
    quiet = sum(run.quiet > 0 and run.level <= bound for run in runs)
    clock_is_right = sentinel is None or abs(sentinel - 1) <= _SENTINEL
    marks_are_known = None not in (experiment.get("bias") or {}).values()
    return quiet >= len(runs) - 2 and clock_is_right and marks_are_known


class _Judged(NamedTuple):
    """The timing experiments of a configuration, what each says, whether it was calm, and what they say together."""

    timing: list[dict[str, Any]]
    verdicts: list[Verdict]
    calm: list[bool]
    said: Agreement


def _passes(study: Study) -> int:
    """Return how many experiments must agree."""
    return min(study.policy.passes, study.policy.attempts)


def _judged(study: Study, experiments: Sequence[dict[str, Any]], level: float) -> _Judged:
    timing = [one for one in experiments if one["event"] == ""]
    policy = study.policy
    values = [[getattr(run, policy.metric) for run in _runs(one)] for one in timing]
    verdicts = [judge_repetitions(one, policy.tolerance) for one in values]
    calm = [_is_calm(one, level) for one in timing]
    return _Judged(timing, verdicts, calm, agreement(verdicts, calm, policy.tolerance, _passes(study)))


def _finished(study: Study, experiments: Sequence[dict[str, Any]], level: float) -> bool:
    timing = sum(one["event"] == "" for one in experiments)
    if not timing:
        return False
    return timing >= study.policy.attempts or _judged(study, experiments, level).said.settled


def _row(
    study: Study,
    one: Configuration,
    key: str,
    built: Built,
    experiments: Sequence[dict[str, Any]],
    level: float,
) -> dict[str, Any]:
    timing, verdicts, calm, said = _judged(study, experiments, level)
    chosen = [timing[at] for at in said.chosen]
    figures = {name: _mean([_figure(each, name) for each in chosen]) for name in ("tsc", "ns", "cycles")}
    apart = [each["apart"] for each in chosen if each.get("apart") is not None]  # of before there was one: missing
    cycles = [_figure(timing[at], "cycles") for at in said.among]
    runs = [run for each in timing for run in _runs(each)]
    tried = sum(run.tried for run in runs)
    agreeing = sum(abs(each.mean - said.mean) <= study.policy.tolerance * abs(said.mean) for each in verdicts)
    counts = {}
    for event in dict.fromkeys(each["event"] for each in experiments if each["event"]):
        tries = [each for each in experiments if each["event"] == event]
        judged = [judge_repetitions([run.event for run in _runs(each)], study.policy.tolerance) for each in tries]
        counts[event] = next((each.mean for each in judged if each.settled), judged[-1].mean)
    ends = [said.low, said.high, min(cycles, default=math.nan), max(cycles, default=math.nan)]
    grain = chosen[0].get("grain")
    steps = int(chosen[0]["steps"])
    below, above = _errors(study, chosen, figures["cycles"], steps)
    lost = max(float(one.get("lost", 0.0)) for one in chosen) if figures["ns"] * steps > _LONG_WINDOW else 0.0
    told = _INTERRUPTED.format(lost) if lost else ""
    ends = [
        max(end + moved, 0.0)
        for end, moved in zip(ends, _moved(study, figures, below + lost * figures["cycles"], above), strict=True)
    ]
    own = figures if study.policy.metric == "cycles" else figures | {"cycles": math.nan}
    more = median(  # nothing is among them where no pass was told from nothing
        [_longer_on_average(timing[at], own["tsc"], own["cycles"]) for at in said.among] or [0.0]
    )
    readings = (below + above) / figures["cycles"] if figures["cycles"] > 0 else math.inf
    kept = [timing[at].get("rare") for at in said.among]  # an earlier version kept a number, or nothing
    seen = [one for one in kept if isinstance(one, Sequence) and len(one) == _OF_RARE]
    in_turns = all(one[0] for one in seen)  # with chains, which tell what interrupts take
    rare = _added_by_rare(seen, max(study.policy.tolerance * (1 if in_turns else _MUCH), readings))
    much = max(_MUCH * study.policy.tolerance, readings)
    varies = on_average = _on_average(more, much)
    if rare and (rare > more or not varies):
        varies = (_RARE if in_turns else _RARE_OR_OTHERS).format(rare)
    executions = steps * sum(int(one[1]) for one in seen)
    changes = _changes([timing[at] for at in said.among if calm[at]], figures["cycles"], much, max(more, rare))
    varies = varies or _less_apart(_mean(apart), figures["cycles"], much)
    states = _states(said, verdicts, much)
    few = _few_seen(executions) if 0 < executions < _MANY and not varies else ""
    if changes and varies == on_average:
        varies = ""  # the same again, by other windows: a second percentage of it
    what, runs_of = ("program", "runs") if study.is_program else ("region", "executions")
    gave, of = (sum(each.get("gave", (0, 0))[k] for each in timing) for k in (0, 1))
    waits = _GAVE_WAY.format(what, gave, of, runs_of) if gave >= _GAVE_OFTEN * len(timing) else ""
    give = _SURE_OF_PAIRS * median(_pairs_error(each) for each in chosen)
    differ = _PAIRS_DIFFER.format(chosen[0]["pairs"][0], give) if give > study.policy.tolerance / 2 else ""
    whole = _COUNTS_ARE_WHOLE if counts and built.marks and not study.is_program else ""
    bare = study.assembly is None and not (study.is_program or built.marks or built.message)
    idle = _IDLE if bare and figures["cycles"] < _IDLE_CYCLES else ""
    warm = "" if NOT_COLD in built.message else _as_unflushed(chosen, figures["cycles"])
    vague = _VAGUE if below + above >= figures["cycles"] and below + above > 0 else ""
    why = "" if said.settled else unsettled_by(verdicts, calm, study.policy.tolerance, _passes(study), readings)
    short = _short(grain, steps * figures["cycles"])
    message = "; ".join(
        filter(
            None,
            (built.message, warm, why, short, vague, idle, waits, differ, changes, varies, states, few, told, whole),
        )
    )
    empty = built.message == EMPTY
    asleep = waits and not study.is_program and gave > MOSTLY * of  # what it takes to wake up is in the figure
    settled = said.settled and not (vague or changes or empty or asleep or give > study.policy.tolerance)
    low, high, cycles_low, cycles_high = ends if len(cycles) > 1 else [math.nan] * 4  # one pass has no interval
    return record_of(
        one, key, status="ok", message=message, settled=settled, attempts=len(timing),
        passes=agreeing, steps=steps, spread=said.spread, low=low, high=high,
        cycles_low=cycles_low, cycles_high=cycles_high, cycles_error=max(below, above),
        cycles_apart=_mean(apart),
        quiet=sum(run.quiet for run in runs) / tried if tried else math.nan,
        **figures, events=counts, reports=chosen[-1]["reports"], static=built.static, experiments=list(experiments),
    )  # fmt: skip


def _errors(study: Study, chosen: Sequence[dict[str, Any]], cycles: float, steps: int) -> tuple[float, float]:
    """Return by how many cycles the truth may lie below and above a row's figure, for how the clock was read.

    A step of the counter is one of the window's, of `steps` executions; between marks, readings are averaged.
    """
    grain = chosen[0].get("grain")
    step = grain["cycles"] / steps if grain is not None and not grain["marks"] else 0.0
    known = [one["bias"] for one in chosen if one.get("bias")]
    if not known:  # measured before there was one
        marks = grain is not None and grain["marks"]
        error = max(step, FENCE_ERROR if marks or study.executions == "apart" else 0.0)
        return error, error
    pairs = _SURE_OF_PAIRS * cycles * median(_pairs_error(one) for one in chosen)
    below, above = (step + pairs + max(one[end] or 0.0 for one in known) for end in ("below", "above"))
    nothing = max(one["nothing"] or 0.0 for one in known)
    return max(below, cycles) if cycles <= nothing else below, above


_SURE_OF_PAIRS = 2  # standard errors


def _pairs_error(experiment: Mapping[str, Any]) -> float:
    """Return the relative standard error of how many pairs of marks an execution has."""
    return float((experiment.get("pairs") or (0.0, 0.0))[1])


def _moved(study: Study, figures: Mapping[str, float], below: float, above: float) -> list[float]:
    """Return by how much these cycles, and the clock's own error, may move the ends of both intervals."""
    cycles = figures["cycles"]
    clock = CLOCK * cycles  # ticks and wall time are not worked out from its rate
    own = clock if study.policy.metric == "cycles" else 0.0
    rate = 1.0
    if study.policy.metric != "cycles":
        rate = figures[study.policy.metric] / cycles if cycles else math.nan
    return [-below * rate - own, above * rate + own, -below - clock, above + clock]


_INTERRUPTED = (
    "interrupts meet each of so long windows and count as their time: they, and short waits for the processor, took up "
    "to {:.2%}, by which the interval reaches further down"
)
_MUCH = 1.5  # tolerances by which the quiet windows take longer on average, from which it is said
_VARIES = (
    "its windows take {:.1%} longer on average than the figure, which is that of the fast windows (about the 10th "
    "percentile): work that differs from one execution to the next, as waits for memory do, has no one figure; make "
    "what decides it a dimension"
)
_CONTRADICTS = (
    "the mean of its windows is {:.1%} less than the figure, which is about their 10th percentile and cannot be above "
    "it: passes differ, or the clock's rate was not the same in all, and neither is known"
)
_SEVERAL = 2  # passes that take longer: one may have been disturbed unseen
_STATES = (
    "{} of {} quiet passes took longer than the figure, by up to {:.1%}: it has several states, as by where its memory "
    "lies, or something that was not seen disturbed them (low, high)"
)
_BY_FENCES = 6.0  # cycles: twice what `cycles_apart` may be off
_APART_LESS = (
    "executions that begin when the one before has ended took {:.1%} less (cycles_apart), which no overlap "
    "explains: some executions are shorter; make what decides it a dimension"
)
_CHANGES = (
    "later executions take {:.1%} less than the figure, {:,.1f} cycles on average: what the first ones do differs "
    "(tables that are filled, branches that are learnt), or the work comes in phases, and no figure is settled: make "
    "what decides it a dimension, or do what comes first in PK_SETUP"
)
_SLOWS = (
    "later executions take {:.1%} longer than the figure, {:,.1f} cycles on average: executions differ (they take "
    "turns, come in phases, or the work grows), and no figure is settled: make what decides it a dimension"
)
_OF_RARE = 13  # numbers of `Experiment.rare`
_SURE = 2.5  # standard errors by which rare windows add more than interrupts do, from which it is said
_SURE_OF = 14  # long windows to be expected, of which there are seven, the square of the errors, in 98 of 100 rows
_MANY = 1_000  # executions, below which it is said how many there were
_FEW_SEEN = "work in fewer than one of {:,} executions would not show: {:,} were looked at"
_HARDLY_SEEN = "work in some executions alone would not show: {:,} were looked at"
_RARE = (
    "rare executions take much longer than most: they add {:.1%} to the mean (interrupts apart), which the figure "
    "leaves out; make what decides it a dimension"
)
_RARE_OR_OTHERS = (
    "rare executions take much longer than most, by themselves or by what else runs here: they add {:.1%} to the mean, "
    "which the figure leaves out"
)
_GAVE_OFTEN = 2  # times per experiment: a page that is read from a file makes one wait, as may writing an answer
_GAVE_WAY = (
    "the {} gave the processor up {:,} times in {:,} {} (it sleeps, or waits for a file, a lock, a thread "
    "or another process): cycles do not measure that"
)
_PAIRS_DIFFER = (
    "executions have different numbers of pairs of marks, {:.4g} on average, give or take {:.1%}, by which the "
    "interval is wider: make what decides it a dimension"
)
_VAGUE = (
    "the figure is no longer than the interval that readings of the clock leave open (cycles_low, cycles_high), "
    "which is not settled: repeat the work between them"
)
_IDLE_CYCLES = 3  # an empty region takes 1 to 2: those of the loop of executions
_IDLE = (
    "it takes hardly more than an empty region does (1 to 2 cycles): if you expected more, the compiler worked it out "
    "beforehand or left it out: PK_KEEP the values that it begins with (long n = N; PK_KEEP(n);) and what it results in"
)
_COLDER = 1.1  # times as long as without the flush, from which it made a difference
_AS_UNFLUSHED = (
    NOT_COLD
    + ": executions take no longer than behind a flush of other memory ({:,.1f} cycles). What the region reads "
    "is elsewhere than in `memory`, which alone is flushed (PK_FLUSH {{ pk_flush_range(address, bytes); }} flushes the "
    "rest), or larger than the caches, or it reads nothing"
)
_COUNTS_ARE_WHOLE = "events are counted in whole executions: PK_BEGIN and PK_END limit what is timed alone"


def _changes(experiments: Sequence[Mapping[str, Any]], figure: float, tolerance: float, known: float) -> str:
    """Say that executions that came after what was settled take another time, or nothing.

    All passes must say that they are longer, as what disturbs them is, and by more than it is `known` that some are;
    half of the passes that they are shorter: each beside its own figure. Told is how far they are from the row's.
    """
    came = [(one["later"], _figure(one, "cycles")) for one in experiments if one.get("later")]
    ratios = [(later / figure - 1, later) for later, figure in came if figure > 0]
    if not ratios:
        return ""
    less, cycles = sorted(ratios)[(len(ratios) - 1) // 2]
    if less >= -tolerance:
        more, cycles = min(ratios)
        if more <= tolerance + known:
            return ""
    told = cycles / figure - 1 if figure > 0 else 0.0
    if abs(told) <= tolerance:
        return ""
    return _CHANGES.format(-told, cycles) if told < 0 else _SLOWS.format(told, cycles)


def _states(said: Agreement, verdicts: Sequence[Verdict], least: float) -> str:
    """Say that passes beside no busy neighbour took longer than those that settled, or nothing."""
    others = [at for at in said.among if verdicts[at].mean > (1 + least) * said.mean] if said.settled else []
    if len(others) < _SEVERAL:
        return ""
    return _STATES.format(len(others), len(said.among), said.high / said.mean - 1)


def _less_apart(apart: float, cycles: float, least: float) -> str:
    """Say that executions that do not overlap take less than those that do, or nothing: they are the short ones."""
    less = 1 - apart / cycles if cycles > 0 else math.nan
    return _APART_LESS.format(less) if less > least and cycles - apart > _BY_FENCES else ""


def _longer_on_average(experiment: Mapping[str, Any], ticks: float, cycles: float = math.nan) -> float:
    """Return by how much longer than a row's figure an experiment's windows took on average, relative.

    By its cycles where both are known: of executions of several kinds, the windows about a percentile are of several,
    too, and the cycles of these are no other number of the ticks at the percentile. Where a tenth of the executions is
    of another kind, what is quoted is one kind in some runs and the other in others: it is the row's figure that the
    average is told beside.
    """
    share, kept = float(experiment.get("varies", 0.0)), experiment.get("average_cycles")
    average, figure = (float(kept), cycles) if kept and cycles > 0 else (float(experiment.get("average", 0.0)), ticks)
    return average / figure - 1 if share and average > 0 and figure > 0 else share


def _on_average(more: float, much: float) -> str:
    """Say by how much more the windows take on average than the figure; less cannot be. Nothing within `much`."""
    return (_VARIES if more > 0 else _CONTRADICTS).format(abs(more)) if abs(more) > much else ""


def _as_unflushed(chosen: Sequence[Mapping[str, Any]], cycles: float) -> str:
    """Say that the flush of a cold region makes no difference, or nothing."""
    without = median(float(one.get("unflushed", 0.0)) for one in chosen)
    return _AS_UNFLUSHED.format(without) if cycles < _COLDER * without else ""


def _few_seen(executions: int) -> str:
    one_of = executions // _SURE_OF
    return _FEW_SEEN.format(one_of, executions) if one_of > 1 else _HARDLY_SEEN.format(executions)


def _short(grain: Mapping[str, Any] | None, cycles: float) -> str:
    """Say that a window of that many cycles is readings of a clock whose steps are not small beside it, or nothing."""
    if grain is None or grain["marks"] or not cycles < _FEW_STEPS * grain["cycles"]:
        return ""
    return (
        f"a window is shorter than {_FEW_STEPS} steps of this host's time stamp counter ({grain['ticks']:.0f} ticks, "
        f"{grain['cycles']:.0f} cycles each): the figure is a mean of such readings, and its interval a step wider: "
        "repeat the work"
    )


class _Longer(NamedTuple):
    """How many windows there were, and what the long ones take more than the middle one: its mean, and the error."""

    n: float
    added: float
    error: float


def _longer(passes: Sequence[Sequence[float]]) -> _Longer:
    """Pool what passes say of long windows: their number, two sums without the longest three, and these.

    One or two that are much longer than all others are another program's, or the hypervisor's, and would hide the rest.
    """
    n, added, squares = (sum(each[at] for each in passes) for at in range(3))
    longest = sorted((value for each in passes for value in each[3:]), reverse=True)
    most = 2 * longest[2] if longest else 0.0
    longest = [min(value, most) for value in longest]
    added, squares = added + sum(longest), squares + sum(value**2 for value in longest)
    return _Longer(n, added / n, math.sqrt(squares) / n) if n else _Longer(0, 0.0, 0.0)


def _added_by_rare(passes: Sequence[Sequence[float]], tolerance: float) -> float:
    """Return what rare executions add to the mean, relative; 0 where that is within the tolerance, or may be chance.

    From `Experiment.rare` of the passes.
    """
    code, interrupts = _longer([one[1:7] for one in passes]), _longer([one[7:] for one in passes])
    if not code.n or not interrupts.n:
        return 0.0
    more = code.added - interrupts.added
    return more if more > max(_SURE * math.hypot(code.error, interrupts.error), tolerance) else 0.0


_FIGURES = ("tsc", "ns", "cycles", "spread", "low", "high", "cycles_low", "cycles_high", "cycles_apart", "quiet")


def _figure(experiment: Mapping[str, Any], name: str) -> float:
    """Return what an experiment's runs say of one of their figures: the mean without the extremes."""
    return judge_repetitions([getattr(run, name) for run in _runs(experiment)], 1).mean


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan


def record_of(one: Configuration, key: str, **parts: Any) -> dict[str, Any]:
    """Return the store's record of a configuration; failed unless `parts` say otherwise."""
    record: dict[str, Any] = {
        "key": key, "values": one.values, "compiler": one.compiler, "flags": one.flags, "threads": one.threads,
        "status": "failed", "message": "", "settled": False, "at": now(),
    }  # fmt: skip
    record |= {name: value for name, value in parts.items() if name not in {"events", "reports", "static"}}
    for name in _FIGURES:
        if isinstance(record.get(name), float) and not math.isfinite(record[name]):
            record[name] = None
    for name in ("events", "reports", "static"):
        record[name] = _nullable(parts.get(name, {}))
    return record


def _nullable(values: Mapping[str, float | None]) -> dict[str, float | None]:
    return {name: value if value is not None and math.isfinite(value) else None for name, value in values.items()}


# -- around the experiments --------------------------------------------------------------------------------------------


def _request(study: Study, one: Configuration, key: str, built: Built, folder: Path) -> Request:
    path = Path(built.object)
    return Request(
        object=f"./{path.relative_to(folder) if path.is_absolute() else path}", variant=key,
        repetitions=study.policy.repetitions, windows=study.policy.windows,
        # What one execution read, the next would find in the caches.
        steps=study.steps or (1 if study.cache == "cold" else None), warmup=study.warmup, cold=study.cache == "cold",
        memory=study.memory_of(one), huge=study.pages == "huge", threads=one.threads,
        apart=study.executions == "apart", marks=built.marks,
        code=int(built.code), program=study.is_program,
    )  # fmt: skip


def _countable(study: Study) -> list[str]:
    """Return the events that this machine counts, and warn of the others: their columns stay missing."""
    hard = [name for name in study.events if event_numbers(name)[0] != 1]
    reason = read_state().counters if hard else ""
    if not reason:
        return list(study.events)
    warnings.warn(f"no hardware counters here ({reason}): {', '.join(hard)} stay missing", PerfkitWarning, stacklevel=3)
    return [name for name in study.events if name not in hard]


def _commands(commands: Sequence[str], one: Configuration) -> None:
    """Run preamble or finalize commands as argument lists; a failing one fails the row."""
    for text in commands:
        values = {**one.values, "threads": one.threads, "compiler": one.compiler, "flags": one.flags}
        words = [fill(word, values) for word in shlex.split(text)]
        try:
            done = toolchain.run_tool(words, timeout=60, stdin=subprocess.DEVNULL, env=None)
        except UnavailableError as error:
            raise KernelError(f"the command {text!r} did not run: {error}") from None
        if done.returncode:
            raise KernelError(f"the command {text!r} failed with {done.returncode}: {done.stderr.strip()[:200]}")


def usable_cpus(study: Study) -> list[int]:
    """Return the CPUs to pin to; by default the last ones, since the first serves most interrupts."""
    allowed = sorted(os.sched_getaffinity(0))
    if not study.affinity:
        return allowed[::-1]
    foreign = [cpu for cpu in study.affinity if cpu not in allowed]
    if foreign:
        raise SettingError(f"affinity names CPU {foreign[0]}, this process may use {allowed}")
    return list(study.affinity)
