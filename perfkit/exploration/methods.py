"""Each method of the kit tried on a dump: whether it applies, why not, and what it finds."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from perfkit.base.results import Summarised
from perfkit.errors import PerfkitError, counted, listed
from perfkit.exploration.costs import cost_in_words
from perfkit.exploration.facts import FEW, contradictions
from perfkit.exploration.models import nearest_core, simulated_model
from perfkit.fitters.bottlenecks.explanation import Explanation
from perfkit.fitters.bottlenecks.model import CANNOT_TELL, Bottlenecks
from perfkit.fitters.bottlenecks.recognise import core_of
from perfkit.fitters.cpi.checks import inseparable
from perfkit.fitters.cpi.stack import CpiFit, CpiStack
from perfkit.fitters.spire.model import SpireModel
from perfkit.fitters.topdown import TopDown, TopDownFractions
from perfkit.samples.clocks import is_fixed_rate
from perfkit.samples.events import TIME_EVENTS, WORK_EVENTS, normalise, other_core, per_unit
from perfkit.samples.processors import processor_of
from perfkit.samples.table import Samples

Trust = Literal["supported", "uncertain", "unsupported", "not applicable"]
# What tells a part of the second level of top-down from the rest of its first level, on Intel since Sapphire Rapids.
_SECOND_LEVEL = {
    "back_end": ("topdown-be-bound", "topdown-mem-bound", "memory", "execution units"),
    "front_end": ("topdown-fe-bound", "topdown-fetch-lat", "latency of fetches", "bandwidth of decoding"),
    "bad_speculation": ("topdown-bad-spec", "topdown-br-mispredict", "mispredicted branches", "machine clears"),
}
# Cycles in which nothing is begun or ends, for whatever reason: a stack of them says that lost time is lost.
_SAME_AS_TIME = frozenset(
    {
        "uops_executed.stall_cycles", "uops_executed.stalls", "uops_executed.core_stall_cycles",
        "uops_issued.stall_cycles", "uops_issued.stalls", "uops_retired.stall_cycles", "uops_retired.stalls",
        "cycle_activity.stalls_total", "cycle_activity.cycles_no_execute", "exe_activity.exe_bound_0_ports",
        "resource_stalls.any", "ex_no_retire.all", "stalled-cycles-backend", "stalled-cycles-frontend",
    }
)  # fmt: skip
_PART = 1.1  # of the first level, which a part of the second may be by chance
_SURE, _JUDGED, FEW_EVENTS = 0.9, 300, 8
_WORTH_TELLING = 0.05  # the probability of a second class
_ABOVE_BOUND = 1.02  # times the lowest bound: what was reached refutes it
_FAR_BOUND = 1.5  # times what was reached: a lowest bound above it limits nothing
_TRAIN = "train one on your own runs: perfkit spire train 'runs/*.txt' -o mine.spire"


@dataclass(frozen=True)
class Tried:
    """A method tried on a dump.

    ``finding`` in one sentence ("" where it does not apply), ``why`` it does or does not, and how far to trust it;
    ``result`` is what the method returned.
    """

    method: str
    trust: Trust
    finding: str
    why: str
    how: str = ""
    result: Any = None

    def told(self) -> str:
        """Say how far to trust the method, and then what it found; nothing of what the counts do not support."""
        found = str(self.result) if isinstance(self.result, Summarised) else self.finding
        if self.trust == "supported":
            return found
        words = f"{self.method}: {self.trust}: {self.why}"
        # A result's own verdict is the reason why it is uncertain: once is enough.
        rest = "\n".join(line for line in found.splitlines() if not line or line not in self.why)
        return f"{words}\n\n{rest}" if self.trust == "uncertain" else words


def try_all(samples: Samples, model: SpireModel | None = None) -> list[Tried]:
    """Try the methods that read samples; what fails says why and stops none of the others."""
    return [
        _tried("top-down", "pk.TopDown().fit(samples)", lambda: _topdown(samples)),
        _tried("Bottlenecks", "pk.Bottlenecks.load(core).explain(samples)", lambda: _bottlenecks(samples)),
        _tried("CPI stack", "pk.CpiStack().fit(samples)", lambda: _cpi(samples)),
        _tried("SPIRE", "model.rank(samples)", lambda: _spire(samples, model)),
        _tried("typical costs", "rates times what such events usually cost", lambda: typical_costs(samples)),
        Tried("Gus, extended roofline, studies", "not applicable", "", "they need the program, not counts of it",
              "pk.Gus, pk.Dag, perfkit asm"),
    ]  # fmt: skip


def _tried(method: str, how: str, attempt: Callable[[], Tried]) -> Tried:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return attempt()
    except PerfkitError as error:
        return Tried(method, "not applicable", "", str(error), how)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        return Tried(method, "not applicable", "", f"it failed on this dump: {type(error).__name__}: {error}", how)


def _topdown(samples: Samples) -> Tried:
    found = TopDown().fit(samples)
    shares = found.intervals[["retiring", "front_end", "bad_speculation", "back_end"]].dropna()
    lost = found.runs.mean()
    main = lost.drop("retiring").idxmax()
    outside = bool(((found.runs < -0.02) | (found.runs > 1.02)).any(axis=None))
    words = {"bad_speculation": "bad speculation"}.get(str(main), f"the {str(main).replace('_', ' ')}")
    finding = (
        f"{lost['retiring']:.0%} of the issue slots retire work; most of the others are lost to {words} "
        f"({lost[main]:.0%}{_second_level(samples, str(main), float(lost[main]))})"
    )
    why = f"the events of {found.scheme} are there, over {counted(len(shares), 'intervals')}"
    if len(found.doubts):
        return Tried("top-down", "unsupported", "", f"{why}, but {found.doubts['doubt'].iloc[0]}", "", found)
    if outside:
        return Tried("top-down", "unsupported", "", f"{why}, but fractions lie outside 0 to 1", "", found)
    trust: Trust = "supported"
    beside = [*found.remarks["remark"][:1], *_parts_above(samples)[:1], *_unlike(found)]
    if beside:
        trust, why = "uncertain", "; ".join([why, *beside])
    return Tried("top-down", trust, finding, why, "pk.TopDown().fit(samples).plot()", found)


def _parts_above(samples: Samples) -> list[str]:
    """Return which parts of the second level were counted above their first level, which they are a part of."""
    each = samples.describe()["rate"].items()
    rates = {normalise(str(e)): rate for e, rate in each if not other_core(str(e), samples.work_event)}
    return [
        f"{part} is {rates[part] / rates[of]:.0%} of {of}, a part of which it is: count all in one group"
        for of, part, *_ in _SECOND_LEVEL.values()
        if rates.get(of, 0) > 0 and rates.get(part, 0.0) > _PART * rates[of]
    ]


def _unlike(found: TopDownFractions) -> list[str]:
    """Say that runs lose most of their slots to different parts; nothing where all lose it to the same."""
    each = found.runs.drop(columns="retiring").dropna().idxmax(axis=1)
    if len(set(each)) < 2:
        return []
    told = listed([f"{run}: {str(where).replace('_', ' ')}" for run, where in each.items()], 4)
    return [f"the runs lose most to different parts ({told}), of which the mean tells nothing"]


def _second_level(samples: Samples, main: str, share: float) -> str:
    """Return how the largest loss parts on the second level, where the processor counted that; or ""."""
    of, part, name, rest = _SECOND_LEVEL[main]
    each = samples.describe()["rate"].items()
    rates = {normalise(str(e)): rate for e, rate in each if not other_core(str(e), samples.work_event)}
    if not rates.get(of, 0) > 0 or not 0 <= rates.get(part, np.nan) <= rates[of]:
        return ""
    known = rates[part] / rates[of] * share
    return f": {name} {known:.0%}, {rest} {share - known:.0%}"


def _bottlenecks(samples: Samples) -> Tried:
    """Name the class of resources that holds most runs back, where the core and its events are known."""
    _, named = processor_of(samples)
    core, others = core_of(samples, named)
    cycles = normalise(samples.time_event) in TIME_EVENTS and samples.time_event != "seconds"
    why = ""
    if samples.kind not in ("measured", "simulated"):
        why = f"{samples.kind} counts are of no core"
    elif not cycles or normalise(samples.work_event) not in WORK_EVENTS:
        why = "it needs cycles and instructions"
    elif not core:
        why = "no core that was simulated is known to count these events: pk.Bottlenecks.load(core)"
    if why:
        return Tried("Bottlenecks", "not applicable", "", why)
    found = Bottlenecks.load(core).explain(samples, intervals=samples.n_intervals <= _JUDGED)
    how = f'pk.Bottlenecks.load("{core}").explain(samples)'
    runs = [str(run) for run in found.runs["run"].unique()]
    answers = pd.Series({run: found.answer(run) for run in runs})
    guessed = f"the core is taken for {core} by its events, which are those of {listed(others, 3)}, too"
    first = str(answers.value_counts().index[0])
    least = found.why(str(answers.index[answers == first][0])).splitlines()
    if first == CANNOT_TELL:
        asked = next((line for line in least if line.startswith("measure next")), "")
        why = f"{least[0]}" + (f"; {guessed}" if others else "") + (f"; {asked}" if asked else "")
        if partly := _of_what_can_be_told(found, runs):
            return Tried("Bottlenecks", "uncertain", partly, why, how, found)
        trust: Trust = "not applicable" if len(found.events) < FEW_EVENTS else "unsupported"
        return Tried("Bottlenecks", trust, "", why, how, found)
    mine = [run for run in runs if answers[run] == first]
    rows = pd.DataFrame([found.of(run).iloc[0] for run in mine])
    share = float(rows["probability"].min())
    evidence = str(rows["evidence"].iloc[0]).partition(";")[0]
    of = "" if len(runs) == 1 else f" in {len(mine)} of {len(runs)} runs"
    finding = f"{first} {'hold' if first.endswith('s') else 'holds'} it back{of} ({share:.0%}): {evidence}"
    if second := _second(found, mine):
        finding += f"; else {second}"
    differ = [told for run in mine for told in found.phases(run)][:1]
    doubts = [guessed] if others else []
    doubts += differ
    doubts += [told for run in mine for told in found.left_out(run)][:1]
    doubts += [f"it is {share:.0%} likely"] if share < _SURE else []
    doubts += ["other runs are held back by something else"] if len(mine) < len(runs) else []
    doubts += [f"not modelled: {told}" for told in found.beside(mine[0])[:1]]
    why = f"{counted(len(found.events), 'events')} of {core}, by what was learnt of simulated runs"
    why += f"; {'; '.join(doubts)}" if doubts else ""
    return Tried("Bottlenecks", "uncertain" if doubts else "supported", finding, why, how, found)


def _of_what_can_be_told(found: Explanation, runs: list[str]) -> str:
    """Say what takes a run's time by the events that are there, where they leave the answer open; else ""."""
    if len(runs) != 1 or len(found.doubts):
        return ""
    if beside := found.beside(runs[0]):
        return beside[0]
    rows = found.of(runs[0])
    first = rows.iloc[0]
    silent = int((rows["status"] == CANNOT_TELL).sum())
    if first["status"] != "told" or not silent or not first["probability"] >= _SURE or not first["evidence"]:
        return ""
    return (
        f"of the {len(rows) - silent} of {len(rows)} classes that can be told, {first['resource']} is likeliest "
        f"({first['probability']:.0%}): {str(first['evidence']).partition(';')[0]}"
    )


def _second(found: Explanation, runs: list[str]) -> str:
    """Return the likeliest other class of some runs, with its largest probability, from 5 % on; else ""."""
    others = pd.concat([found.of(run).iloc[1:2] for run in runs]).sort_values("probability", ascending=False)
    first = others.iloc[0]
    return f"{first['resource']} ({first['probability']:.0%})" if first["probability"] >= _WORTH_TELLING else ""


def _cpi(samples: Samples) -> Tried:
    places = samples.table["place"].cat.categories
    same = [e for e in samples.events if normalise(e) in _SAME_AS_TIME]
    rest = [e for e in samples.events if e not in same and not is_fixed_rate(e)]
    # As the command fits it: fewer resamples would judge otherwise at the edge.
    fit = CpiStack().fit(samples.select(events=rest) if same and rest else samples)
    parts = fit.components.drop("base").sort_values(ascending=False)
    named = {normalise(samples.time_event) in TIME_EVENTS[:-1], normalise(samples.work_event) in WORK_EVENTS} == {True}
    amount = f"CPI {fit.cpi:.3g}" if named else f"{fit.cpi:.3g} {per_unit(samples.time_event, samples.work_event)}"
    finding = f"{amount}; after the base ({fit.base / fit.cpi:.0%}) the largest part is {_largest(fit, parts)}"
    why = str(fit.verdict)
    trust = fit.verdict.level
    if same and rest:
        why += f" Without {', '.join(same)}: that nothing is done in these cycles explains no cycles."
    elif same:
        why, trust = f"{', '.join(same)}: cycles in which nothing is done explain no cycles. {why}", "unsupported"
    if samples.n_intervals < FEW:
        why += f" {samples.n_intervals} intervals are few: it may be chance."
        trust = "uncertain" if trust == "supported" else trust
    if len(places) > 1:
        why += f" {len(places)} places are in one fit."
    if len(samples.runs) > 1:
        why += f" {len(samples.runs)} runs are in one fit, whose penalties may differ: pk.CpiStack().fit_each(samples)."
        trust = "uncertain" if trust == "supported" else trust
    if doubted := [told for event, told in contradictions(samples).items() if event in fit.penalties.index]:
        why, trust = f"{doubted[0]}. {why}", "unsupported"
    return Tried("CPI stack", trust, finding, why, "pk.CpiStack().fit(samples).plot()", fit)


def _largest(fit: CpiFit, parts: pd.Series) -> str:
    """Return the largest part of a stack; two of which only the sum is known are one part."""
    events = list(fit.penalties.index)
    rates = fit.data.rates / fit.cpi
    known = fit.penalty_draws[events].to_numpy() * rates
    name, share = str(parts.index[0]), float(parts.iloc[0] / fit.cpi)
    for i, j, _, _ in inseparable(known, fit.settings.level):
        both = float((fit.components[events[i]] + fit.components[events[j]]) / fit.cpi)
        if both > share:
            name, share = f"{events[i]} and {events[j]} together, which the data do not tell apart", both
    return f"{name} ({share:.0%})"


def _spire(samples: Samples, model: SpireModel | None) -> Tried:
    own = model is not None
    family, _ = processor_of(samples)
    cycles = normalise(samples.time_event) in TIME_EVENTS and samples.time_event != "seconds"
    if not own and not (cycles and normalise(samples.work_event) in WORK_EVENTS):
        why = f"the shipped models bound instructions per cycle, and these were not both counted; {_TRAIN}"
        return Tried("SPIRE", "not applicable", "", why)
    if model is None:
        model = simulated_model(samples, family)
    if model is None:
        why = f"no event of this dump is in a shipped model; {_TRAIN}"
        return Tried("SPIRE", "not applicable", "", why)
    ranking = model.rank(samples, bootstrap=50)
    finding = (
        f"{ranking.table['event'].iloc[0]} has the lowest bound ({ranking.throughput_bound:.3g} "
        f"{per_unit(samples.work_event, samples.time_event)}, where {ranking.throughput:.3g} was reached)"
    )
    if doubted := contradictions(samples).get(str(ranking.table["event"].iloc[0])):
        return Tried("SPIRE", "unsupported", finding, doubted, "model.rank(samples).plot()", ranking)
    if ranking.throughput > _ABOVE_BOUND * ranking.throughput_bound:
        why = (
            f"{ranking.throughput:.3g} {per_unit(samples.work_event, samples.time_event)} was reached, more than the "
            f"lowest bound ({ranking.throughput_bound:.3g}): the model has seen no runs like this one; {_TRAIN}"
        )
        return Tried("SPIRE", "unsupported", "", why, "perfkit spire train, then --model mine.spire", ranking)
    if not own and ranking.throughput_bound > _FAR_BOUND * ranking.throughput:
        why = (
            f"the model was trained on simulated runs of {nearest_core(family)}; all its bounds lie far above what was "
            f"reached, so that it tells nothing of this workload; {_TRAIN}"
        )
        return Tried("SPIRE", "unsupported", "", why, "perfkit spire train, then --model mine.spire", ranking)
    if not own:
        why = (
            f"the model was trained on simulated runs of {nearest_core(family)}, with {len(model.rooflines)} events: a "
            f"hint what to look at, no finding; {_TRAIN}"
        )
        return Tried("SPIRE", "uncertain", finding, why, "perfkit spire train, then --model mine.spire", ranking)
    why = f"{len(model.rooflines)} rooflines trained on {model.kind} runs" + "".join(f"; {c}" for c in ranking.caveats)
    if not ranking.caveats:
        why += "; a model does not tell of how many programs: bounds learnt from one are that program's"
    trust: Trust = "unsupported" if ranking.caveats else "uncertain"
    return Tried("SPIRE", trust, finding, why, "model.rank(samples).plot()", ranking)


def typical_costs(samples: Samples) -> Tried:
    """Order the events by their rate times their usual cost: an estimate, for dumps of one interval too."""
    finding, shares = cost_in_words(samples)
    if not finding:
        why = "no event whose usual cost is known was counted together with cycles and instructions"
        return Tried("typical costs", "not applicable", "", why)
    first = max(shares, key=lambda e: shares[e], default="")
    if first and shares[first] < _WORTH_TELLING and (doubted := next(iter(contradictions(samples).values()), "")):
        return Tried("typical costs", "not applicable", "", f"nothing is left that could take the time: {doubted}")
    why = "an estimate from rates; misses overlap, and costs differ"
    if normalise(first) == "cache-misses" and not processor_of(samples)[0]:
        why += "; cache-misses are taken for those of the last level, as on Intel's processors; on AMD's they are L2's"
    return Tried("typical costs", "uncertain", finding, why, "", shares)
