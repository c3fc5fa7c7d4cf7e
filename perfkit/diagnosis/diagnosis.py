"""The answer to "why is this slow?": what was measured, what was simulated, and what follows."""

import re
import textwrap
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from perfkit.base.files import a_path, json_text, of_json
from perfkit.base.results import Kind, Summarised, draw
from perfkit.collectors.profile.hot import HotFunction, too_few
from perfkit.collectors.tracer.demangle import named_as
from perfkit.collectors.tracer.lines import inlined_from
from perfkit.diagnosis import words
from perfkit.diagnosis.huge_pages import TRANSLATION
from perfkit.diagnosis.ports import in_words, keeping
from perfkit.diagnosis.unmodelled import fetched, guessed, waiting
from perfkit.diagnosis.words import SETS
from perfkit.errors import FormatError, counted, listed, of_extra
from perfkit.simulators.groups import group
from perfkit.simulators.gus.causality import causality
from perfkit.simulators.gus.diff import HOLDS, in_the_object
from perfkit.simulators.gus.files import load_result
from perfkit.simulators.gus.gus import GusResult, cpi_by_cause
from perfkit.simulators.gus.mispredicted import branch_ticks, moving_branches, said_of_moving
from perfkit.simulators.gus.sensitivity import Sensitivity, sensitivity
from perfkit.simulators.gus.timing import CAUSES, MISPREDICTION
from perfkit.trace.standing import foreign, places, standing
from perfkit.trace.system import STUB
from perfkit.trace.without import trace_spread

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from perfkit.simulators.gus.causality import Causality
    from perfkit.trace.code import StaticCode

WEIGHT = 2.0
_SHORT_NAME = 30  # letters of what a line calls, up to which that stands in the first sentence
_UNMEASURED = "nothing was measured: this is the model's word alone"
_HELD = 0.05  # share of the cycles that a line must cost by the bottleneck to be named for it
LEAST = 0.01  # a smaller speedup is no bottleneck
_CLEAR_SAMPLES, _CLEAR = 10, 0.8  # so many samples, and so large a share of all: no other one can be hotter
# What small loops wait for; how busy it is is not known. A turn per cycle is the chain of the loop's own counter, too.
_TURNING = ("taken_branches", "op_cache", "front_end", "instruction_latency")
_NUMBERS = {2: "two", 3: "three", 4: "four"}
_SEVERAL = 4  # resources that are named together, at most
_PAIRED = 7  # resources that are asked about in pairs: those that are busiest, or cost most cycles
_MORE = 0.05  # a further gain that is worth a word
_MOST = 0.5  # of what delays
_IMPORTANT = 0.2  # share of what stands at a line from which a library's function is named beside it
_SAYS = re.compile(r"\w")  # a line of braces says nothing
# Latencies whose chains are compared line by line, what part of its share of the gain a line must bring alone, and how
# many others are named.
_CHAINS = ("instruction_latency", "L1_latency")
_OF_ITS_SHARE = 0.5
_FEW = 3
_SPREAD = 0.1  # of what delays: where no line has so much, none is named for it
_EQUAL = 0.005  # of the measured time: what is said in whole per cent is none
_NEARLY = 0.8  # of the best change's gain: the two are as good as equal
SHORT = 0.5  # overlap from which calls are too short to be explained one behind the other
_OVERLAP = 0.05  # overlap from which it is told
STEADY = (4, 1.03)  # so many runs, whose median is at most so much above the least
_ALIKE = 0.9  # share of calls' time that is the median call's, above which none of them was interrupted
_BUSY = 0.1  # of a run waiting for a processor: its cycles are not the calls' alone
_CROWDED = 0.3  # from which other programs' use of caches and memory may double the calls' own time
_SHARED = 2.0  # times as long, then
_NEVER = -0.85  # off: other programs in the same caches do not make anything so much slower
_KERNEL = 0.2  # of the processor time, from which the kernel's work is told
# Arithmetic on SSE and AVX registers, which sets the flags of MXCSR.
_FLOATING = re.compile(r"v?(add|sub|mul|div|sqrt|fn?m(add|sub)\d*|cvt\w*)[sp][sd]\b")
_MOVES = 20  # cycles of an indirect jump that goes elsewhere than the time before, at most
_FAULT, _FAULT_MOST = 1000, 4000  # cycles of the kernel for a page fault: 0.25 to 1 us, more in virtual machines
_BRANCHES = "misprediction_penalty"
_NEXT_LEVEL = ("L2_latency", "L2_bandwidth")  # where lines are that had no room in their sets of L1
_NO_LIMIT = 1000.0  # times as good: the resource no longer counts


@dataclass(frozen=True)
class Measured:
    """The same calls in an unchanged run, in core cycles (measured).

    Attributes
    ----------
    cycles, high : float
        Of the least and of the most disturbed run, all recorded calls together.
    runs : int
        How often they were timed.
    calls : int
        How many calls these are.
    typical : float
        The median of the runs; 0 where it is not known.
    part : float
        Of a call that is longer than what is recorded: the recorded share of its instructions, and these figures are
        that share of the whole call's cycles.
    waited : float
        Share of the least disturbed run in which other programs had the processors, from 0 to 1.
    kernel : float
        Share of the run's processor time in which the kernel worked for it, from 0 to 1; it is not simulated.
    taken_off : bool
        Whether that share is taken off `cycles`, `high` and `typical`, as of calls of 10 ms or more: in that time they
        are interrupted as the whole run is. Shorter ones mostly run between two interruptions.
    alike : float
        Of several calls of less than a millisecond: their median times their number, relative to their sum, or what
        each took in the quickest of at least four runs. Near 1, none of them was interrupted; 0 where there were too
        few to tell.
    subnormal : bool
        Whether arithmetic first met numbers below the normal range within a timed call (`CallTimes.subnormal`).
    faults : float
        Page faults that fall to these calls, about (`CallTimes.faults_in`), and at most one for each page they touch.
    samples : int
        Where the recorded part is a loop that makes short calls: as many samples of the run are what `cycles` follows
        from, with the number of calls that the run made; `runs` is 0, and `high` twice the standard error above. 0
        where calls were timed.
    """

    cycles: float
    high: float
    runs: int
    calls: int
    typical: float = 0.0
    part: float = 1.0
    waited: float = 0.0
    faults: float = 0.0
    samples: int = 0
    taken_off: bool = False
    kernel: float = 0.0
    subnormal: bool = False
    alike: float = 0.0

    @property
    def is_steady(self) -> bool:
        """Whether several runs took the same time, as they do not where other programs come between."""
        return self.runs >= STEADY[0] and 0 < self.typical <= STEADY[1] * self.cycles

    @property
    def was_alone(self) -> bool:
        """Whether the timed calls hold no time of other programs.

        Short ones run between two interruptions; and what takes as long again and again was not interrupted.
        """
        return self.alike > _ALIKE or self.is_steady

    @property
    def least(self) -> float:
        """The fewest cycles that the calls may have taken without other programs, by the time that these had."""
        if self.was_alone:
            return self.cycles
        alone = self.cycles * (1.0 if self.taken_off else 1 - self.waited)
        return alone / _SHARED if self.waited > _CROWDED else alone

    @property
    def spread(self) -> float:
        """How far the most disturbed run is above the least disturbed, relative to it."""
        return self.high / self.cycles - 1


@dataclass(frozen=True)
class Promise:
    """A change of the core that would make the calls faster, and what it promises (simulated).

    Attributes
    ----------
    change : str
        What is made better.
    factor : float
        How many times as fast the calls would run: 1.75 is a gain of 75 %.
    helps : str
        What usually brings the like in the program.
    most : float
        How many times as fast they would run if that were no limit at all, as where the program no longer needs it
        (another layout, branches taken out), by the same instructions; of a farther cache's latency, or memory's, at
        that of L1. 0 where it was not asked.
    how : str
        What that is.
    """

    change: str
    factor: float
    helps: str = ""
    most: float = 0.0
    how: str = "if it were no limit at all"

    @property
    def has_more(self) -> bool:
        """Whether the two factors differ."""
        return self.most > self.factor + _MORE

    @property
    def gain(self) -> str:
        """Both factors in words."""
        if not self.has_more:
            return self.change
        if self.how != words.as_no_limit(""):
            return f"{self.change}; {self.most:.2f}x {self.how}"
        return f"{self.change}; up to {self.most:.2f}x {self.how}, by the same instructions"


@dataclass(frozen=True)
class Together:
    """Resources that hold a function back together, and what all of them twice as good would bring (simulated)."""

    resources: tuple[str, ...]
    gain: float


@dataclass(frozen=True)
class Opinion:
    """What one method holds for the bottleneck, and whether that agrees with the sensitivity."""

    method: str
    says: str
    agrees: bool | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Diagnosis(Summarised):
    """Why a function is slow.

    Attributes
    ----------
    program, function, symbol, file : str
        What ran; the function as its source writes it, its symbol, and the file that holds it.
    chosen : str
        Why this function.
    candidates : tuple of HotFunction
        Where the run spent its time, the hottest first; empty where the function was given and nothing was sampled.
    profiled : str
        How that was found.
    share : float or None
        Of all samples, those in the function itself; None where nothing was sampled.
    result : GusResult
        The simulation of the recorded calls.
    measured : Measured or None
        The same calls timed; None where that could not be, and `not_measured` says why.
    opinions : tuple of Opinion
        What the methods hold for the bottleneck.
    unseen : tuple of str
        What the answer does not know of.
    sources : mapping
        File -> its lines, where the source lies where the program's debug information says.
    seconds : mapping
        Stage -> seconds it took.
    threads : tuple of str
        Of a function that runs in several threads: how they were looked at, how even they are, and what they take from
        each other (simulated); the first says what is explained.
    first : str
        What comes before the bottleneck of the function or of a single thread: that the run waits for other threads,
        that these write one line by turns, or have uneven work.
    doubts : tuple of str
        Why this may not be the function to explain: the run spends its time elsewhere, say.
    later : str
        That the run was stopped, and what it does later was not seen; "" where it was watched to its end.
    tried : str
        What came of a remedy that was tried on the program itself (measured).

    Examples
    --------
    >>> found = pk.why("./program", arguments=["input.txt"])  # doctest: +SKIP
    >>> print(found.summary())  # doctest: +SKIP
    """

    program: str
    function: str
    symbol: str
    file: str
    chosen: str
    candidates: tuple[HotFunction, ...]
    profiled: str
    share: float | None
    result: GusResult
    measured: Measured | None
    not_measured: str
    opinions: tuple[Opinion, ...]
    unseen: tuple[str, ...]
    sources: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False)
    seconds: Mapping[str, float] = field(default_factory=dict, repr=False)
    threads: tuple[str, ...] = ()
    first: str = ""
    doubts: tuple[str, ...] = ()
    later: str = ""
    tried: str = ""

    @property
    def kind(self) -> Kind:
        """``"simulated"``: the reasons are, whatever was measured beside them."""
        return "simulated"

    def but(self, **changes: Any) -> Self:
        """Return the answer with other words; what was worked out of its simulation is kept.

        Parameters
        ----------
        **changes
            Fields that nothing simulated depends on: program, opinions, unseen, doubts, seconds, tried.
        """
        assert changes.keys() <= {"program", "opinions", "unseen", "doubts", "seconds", "tried"}, changes
        found = replace(self, **changes)
        cached = {name for name, value in vars(type(self)).items() if isinstance(value, cached_property)}
        found.__dict__.update({name: value for name, value in vars(self).items() if name in cached})
        return found

    @cached_property
    def ranked(self) -> Sensitivity:
        """What each better resource would bring (simulated)."""
        return sensitivity(self.result.settings, self.result.trace, (WEIGHT,))

    @cached_property
    def responsible(self) -> "Causality":
        """Which instructions the time hangs on (simulated)."""
        return self.result.causality()

    @property
    def apart(self) -> float | None:
        """How far the simulated cycles are from the measured ones, relative to these; None without measured ones."""
        return self.result.cycles / self.measured.cycles - 1 if self.measured is not None else None

    @property
    def overlap(self) -> float:
        """Share of the measured cycles, at most, that calls in a row save by beginning before the last one has ended.

        They are timed one by one, where that cannot be: the program may spend less on each, by what the core's reorder
        buffer holds of the next one, at the simulated rate. 0 for one call.
        """
        if self.measured is None or self.measured.calls < 2 or not self.result.instructions:
            return 0.0
        held = self.result.settings.core.resource("rob").value / self.result.instructions * self.result.cycles
        return min(1.0, held * self.measured.calls / self.measured.cycles)

    @property
    def uncertain(self) -> str:
        """Why the measured runs do not say whether the model is near the measured time; "" where they do."""
        if self.measured is None or self.apart is None:
            return ""
        if self.measured.samples and self.apart < -words.FAR:
            return (
                f"by its {self.measured.samples:,} samples the run took longer than is simulated (the model is "
                f"{words.lies(self.apart)} it). Whatever ran on the same core may explain that: ask again when the "
                "machine is quiet"
            )
        if not self.measured.typical:
            return ""
        if self.overlap >= SHORT:
            per_call = self.measured.cycles / self.measured.calls
            return (
                f"calls of {per_call:,.0f} cycles are so short that they may overlap in the program, by up to "
                f"{self.overlap:.0%}. They were timed and recorded one behind the other, without what their caller "
                f"does between them (the model is {words.lies(self.apart)} that): ask about the caller (-f)"
            )
        crowded = self.measured.taken_off and self.measured.waited > _CROWDED and self.measured.kernel < _KERNEL
        if crowded and _NEVER < self.apart < -words.FAR:
            return (
                f"other programs had the processors for {self.measured.waited:.0%} of the time. It is taken off the "
                f"measured cycles, but they also shared caches and memory (the model is {words.lies(self.apart)} "
                "them): measure again when the machine is quiet"
            )
        alone = self.measured.cycles * (1.0 if self.measured.taken_off else 1 - self.measured.waited)
        is_explained = self.result.cycles >= (1 - words.FAR) * alone
        if self.apart < -words.FAR and is_explained and self.measured.waited > _BUSY and not self.measured.was_alone:
            return (
                f"other programs had the processors for {self.measured.waited:.0%} of the time in which the calls were "
                f"timed. The measured cycles hold that, so that the model is {words.lies(self.apart)} "
                "them: measure again when the machine is quiet"
            )
        quick, typical = (self.result.cycles / each - 1 for each in (self.measured.cycles, self.measured.typical))
        if (abs(quick) > words.FAR) == (abs(typical) > words.FAR):
            return ""
        low, high, runs = self.measured.cycles, self.measured.high, self.measured.runs
        return (
            f"the same calls took {low:,.0f} to {high:,.0f} cycles in {runs} runs. The model is "
            f"{words.lies(quick)} the quickest and {words.lies(typical)} the median: something else runs on this "
            "machine, so measure again when it is quiet"
        )

    @property
    def overlap_told(self) -> str:
        """What `overlap` means for the measured cycles; "" where it is little."""
        if self.overlap < _OVERLAP:
            return ""
        return (
            "how far calls in a row overlap: they were timed one by one, and in the program each may begin before the "
            f"last has ended, which saves up to {self.overlap:.0%} of the measured cycles (simulated in a row, they do "
            "as far as their registers let them, without their caller's code)"
        )

    @property
    def is_far(self) -> bool:
        """Whether the model is far from the measured time, as far as the measured runs agree on that."""
        return self.apart is not None and abs(self.apart) > words.FAR and not self.uncertain

    @property
    def doubt(self) -> str:
        """Why the answer cannot be relied on as it stands, "" where the measured cycles support it."""
        grave, slight = self._doubted
        return "; ".join((*grave, *slight))

    @property
    def _doubted(self) -> tuple[list[str], list[str]]:
        """What speaks against the answer, and what merely does not support it, the gravest first."""
        grave, slight = list(self.doubts), []
        if self.measured is None:
            slight.append(_UNMEASURED)
        elif self.uncertain:
            grave.append(f"uncertain: {self.uncertain}")
        elif self.is_far and self.apart is not None:
            far = f"the model is {words.lies(self.apart)} the measured time: do not rely on this"
            grave.append(". ".join(filter(None, (far, self._explanation))))
        hottest = self.candidates[0] if self.candidates else None
        if hottest is not None and hottest.share and _unsure(hottest):
            slight.append("hardly any samples were taken: this may not be where the time goes")
        return grave, slight

    @property
    def difference(self) -> str:
        """Say that measured and simulated cycles differ, though not so far that there is a `doubt`; "" where little."""
        if self.measured is None or self.apart is None or self.is_far or self.uncertain or self.measured.samples:
            return ""
        others = 0.0 if self.measured.was_alone or self.measured.taken_off else self.measured.waited
        is_told = self._subnormal or not 0 < -self.apart <= max(self.overlap, others)
        if abs(self.apart) <= words.SOME or not is_told:
            return ""
        most = max(self.measured.cycles, self.result.cycles)
        by = most / self.result.cycles - 1 if self.apart < 0 else 1 - self.measured.cycles / most
        return f"{by:.0%} {'more' if self.apart < 0 else 'fewer'} cycles are measured than simulated"

    @property
    def difference_explained(self) -> str:
        """`difference`, with what may explain it, or that nothing does."""
        if not self.difference:
            return ""
        why = self._explanation
        return f"{self.difference}. {why}" if why else f"{self.difference}, which nothing here explains"

    @cached_property
    def _explanation(self) -> str:
        """What may explain that measured and simulated cycles differ; "" where nothing here does."""
        more = self.measured.cycles - self.result.cycles if self.measured is not None else 0.0
        found = (waiting(self.result, more) or self._faulted or fetched(self.result, more)) if more > 0 else ""
        return found or guessed(self.result)

    @property
    def _faulted(self) -> str:
        """Say that the kernel's work explains why more was measured than is simulated, where it may."""
        more = self.measured.cycles - self.result.cycles if self.measured is not None else 0.0
        kernel = self.measured.kernel if self.measured is not None else 0.0
        if self.measured is not None and kernel >= _KERNEL and kernel * self.measured.cycles > more / 2 > 0:
            faults = self.measured.faults * _FAULT >= self.measured.kernel * self.measured.cycles / 20
            calls = counted(self.measured.calls, "measured calls")
            pages = f"about {self.measured.faults:,.0f} page faults in {calls}, memory touched for the first time"
            told = pages if faults else ""
            return (
                f"{self.measured.kernel:.0%} of the run's processor time is the kernel's work for it ("
                f"{told or 'system calls, or page faults'}), which is not simulated: "
                + ("touch the memory before, or use it again" if faults else "make fewer and larger calls")
            )
        if self.measured is None or more <= 0:
            return ""
        if self.measured.faults * _FAULT_MOST < more / 2:
            return self._subnormal or self._moving(more)
        return (
            f"The measured time holds the kernel's work for about {self.measured.faults:,.0f} page faults (memory "
            "touched for the first time), and that is not simulated: touch the memory before, or use it again"
        )

    @property
    def _subnormal(self) -> str:
        """Say that subnormal numbers may explain why more was measured than is simulated."""
        if self.measured is None or not self.measured.subnormal:
            return ""
        if not any(_FLOATING.match(text) for text in self.result.trace.code.text):
            return ""
        return (
            "Its arithmetic met subnormal numbers (nearer to zero than 1e-308, or 1e-38 of single "
            "precision: the processor's flags say so), each of which may cost more (over 100 cycles on Intel's cores, "
            "a few on a Zen 5) and is not simulated: flush them to zero (-ffast-math, _MM_SET_FLUSH_ZERO_MODE), or "
            "keep numbers from decaying so far"
        )

    @cached_property
    def _moving_jumps(self) -> int:
        return moving_branches(self.result.settings, self.result.trace)

    def _moving(self, more: float) -> str:
        """Say that jumps with several targets may explain so many cycles more than simulated."""
        found = self._moving_jumps
        if found * _MOVES < more / 2:
            return ""
        return _capital(said_of_moving(found))

    @property
    def what_ifs(self) -> tuple[Promise, ...]:
        """The changes of the core that would help most, the best first (simulated)."""
        alone = [
            Promise(self._change(name), 1 + gain, self._words(name)[1], self._most(name), words.as_no_limit(name))
            for name, gain in self._best
        ]
        both = self.together
        if both is None:
            return tuple(alone)
        change = listed(map(_better, both.resources))
        helps = listed(self._words(name)[1] for name in both.resources)
        return (Promise(f"{change} together", 1 + both.gain, helps), *alone[:2])

    def _most(self, resource: str) -> float:
        """How many times as fast without a limit (simulated); 0 where a remedy was tried, which is measured."""
        return 0.0 if self.tried and resource in TRANSLATION else self._without.get(resource, 0.0)

    @cached_property
    def together(self) -> "Together | None":
        """The resources that hold the function back together, where none does alone; else None (simulated).

        Each hides behind the others: made twice as good alone, none brings 5 %. Two of those that are busiest, or
        cost most; three or four where no two bring it.
        """
        if self.gain >= HOLDS:
            return None
        known = self._gains.keys()
        used, causes = self.result.occupancy(), self.causes()
        shares = {name: max(float(used.get(name, 0.0)), causes.get(name, 0.0)) for name in known}
        names = sorted(shares, key=lambda name: (-shares[name], name))[:_PAIRED]
        if len(names) < 2:
            return None
        found = sensitivity(self.result.settings, self.result.trace, (WEIGHT,), names, pairs=True)
        most = int(np.argmax(found.speedup[:, -1]))
        gain = float(found.speedup[most, -1])
        if gain >= HOLDS:
            return Together(found.resources[most], gain)
        return self._several([*names, *(name for name in _TURNING if name in known and name not in names)])

    def _several(self, names: list[str]) -> "Together | None":
        """Leave out of these resources, the least busy first, what is not needed for most of their gain."""

        def gain(some: list[str]) -> float:
            core = self.result.settings.core
            for name in some:
                core = core.scaled(name, WEIGHT)
            return self.result.cycles / replace(self.result.settings, core=core).run(self.result.trace).cycles - 1

        left, best = names, gain(names)
        if best < HOLDS:
            return None
        for name in reversed(names):
            rest = [other for other in left if other != name]
            if rest and gain(rest) >= max(HOLDS, _MOST * best):
                left = rest
        return Together(tuple(left), gain(left)) if len(left) <= _SEVERAL else None

    @property
    def ranked_with_pair(self) -> Sensitivity:
        """`ranked`, and what holds the function back together where nothing does alone (simulated).

        Of mispredicted branches what half as many bring, where that is more than half of their penalty does.
        """
        speedup = self.ranked.speedup.copy()
        speedup[:, -1] = [self._gains[names[0]] for names in self.ranked.resources]
        both = self.together
        if both is None:
            return replace(self.ranked, speedup=speedup)
        speedup = np.vstack([speedup, np.full((1, len(self.ranked.weights)), both.gain)])
        return replace(self.ranked, resources=(*self.ranked.resources, both.resources), speedup=speedup)

    @cached_property
    def _without(self) -> dict[str, float]:
        """How many times as fast the calls would run if each of the best resources were no limit (simulated)."""
        best = [name for name, _ in self._best]
        if not best:
            return {}
        core = self.result.settings.core
        nearest = core.value(f"{words.NEAREST}_latency", 0.0)
        # A farther cache, or memory, is no nearer than L1 when its data lie there.
        most = {name: max(WEIGHT, core.value(name) / nearest) for name in best if nearest and words.is_farther(name)}
        better = [core.scaled(name, most.get(name, _NO_LIMIT)) for name in best]
        base, *cycles = self.result.settings.cycles(self.result.trace, (core, *better)).tolist()
        without = {name: base / max(each, 1.0) for name, each in zip(best, cycles, strict=True)}
        if SETS in without:
            without[SETS] = max(without[SETS], self._spread_out)
        return without | ({_BRANCHES: self._predicted} if _BRANCHES in without else {})

    @cached_property
    def _spread_out(self) -> float:
        """How many times as fast the calls would run if their lines lay in all sets of L1 (simulated).

        More than with sets that take lines at once: a line that shares its set with no more than fit stays there.
        """
        return self.result.cycles / max(self.result.settings.run(trace_spread(self.result.trace)).cycles, 1.0)

    @cached_property
    def _predicted(self) -> float:
        """How many times as fast the calls would run if no branch were mispredicted (simulated)."""
        core = self.result.settings.core
        cycles = self.result.settings.cycles(self.result.trace, (core,), mispredicted=False)
        return self.result.cycles / max(float(cycles[0]), 1.0)

    @property
    def _alone(self) -> dict[str, float]:
        """What each resource brings where it is twice as good, as the sensitivity has it (simulated)."""
        rows = zip(self.ranked.resources, self.ranked.speedup[:, -1].tolist(), strict=True)
        return {names[0]: gain for names, gain in rows}

    @cached_property
    def _gains(self) -> dict[str, float]:
        """What each resource brings where it is twice as good (simulated).

        Of mispredicted branches what half as many bring, where that is more: with half of the penalty the processor
        still waits until each branch is decided, which is most of what one costs that hangs on a load or a division.
        """
        gains = self._alone
        lost = self.result.branches[1] * self.result.settings.core.value(_BRANCHES, 0.0)
        if _BRANCHES in gains and lost > LEAST / 30 * self.result.cycles:  # one may cost far more than the penalty
            gains[_BRANCHES] = max(gains[_BRANCHES], 2 / (1 + 1 / self._predicted) - 1)
        return gains

    @property
    def _best(self) -> list[tuple[str, float]]:
        """The three resources that bring most, and what, the best first."""
        return sorted((row for row in self._gains.items() if row[1] >= LEAST), key=lambda row: -row[1])[:3]

    def _change(self, resource: str) -> str:
        """Say what is changed where a resource is made twice as good."""
        is_fewer = resource == _BRANCHES and self._gains[resource] > self._alone[resource]
        return "half as many mispredicted branches" if is_fewer else words.better(resource, WEIGHT)

    @property
    def change(self) -> str:
        """What is changed where the bottleneck is made twice as good; "" where there is none."""
        return self._change(self.bottleneck) if self.bottleneck else ""

    @property
    def gain(self) -> float:
        """What the bottleneck brings where it is made twice as good: the speedup less one (simulated)."""
        return max(self._gains.values())

    @property
    def bottleneck(self) -> str:
        """The resource with the largest speedup, "" where none brings one per cent."""
        return self._best[0][0] if self._best else ""

    @cached_property
    def lines(self) -> "pd.DataFrame":
        """One row per source line, or per instruction where no line is known, the most responsible first (simulated).

        Columns: place (``file:line``, or the address as objdump prints it), file, line, function, causality (share of
        the time for which the dispatch is held up, `Causality.held`), time (share of the cycles), cause (the largest of
        the time), held (share of the cycles that the bottleneck, or a resource of its group, takes there), library
        (functions of libraries that have a good part of that, called from there; one a line), source_line.
        """
        pd = of_extra("pandas")

        code, spent = self.result.trace.code, self.result.spent
        at = standing(self.result.trace)
        causes = [*CAUSES, *self.result.program.groups]
        table = pd.DataFrame(
            {
                "place": places(self.result.trace),
                "file": [code.file[k] for k in at],
                "line": code.line[at],
                "function": [code.function[k] for k in at],
                "causality": self.responsible.held,
                "time": spent.sum(axis=1) / max(1, self.result.ticks),
            }
        )
        keys = ["place", "file", "line", "function"]
        found = table.groupby(keys, sort=False, as_index=False).sum()
        first = table.groupby(keys, sort=False).indices
        by_cause = [spent[first[tuple(row)]].sum(axis=0) for row in found[keys].itertuples(index=False)]
        found["cause"] = [causes[int(np.argmax(row))] if row.any() else "" for row in by_cause]
        mine = [bool(self.bottleneck) and _akin(cause, self.bottleneck) for cause in causes]
        if mine[MISPREDICTION]:  # the branch is meant, not what waited for it
            held = branch_ticks(self.result)
            found["held"] = [
                float(held[first[tuple(row)]].sum()) / max(1, self.result.ticks)
                for row in found[keys].itertuples(index=False)
            ]
        else:
            found["held"] = [float(row[mine].sum()) / max(1, self.result.ticks) for row in by_cause]
        weights = self.responsible.held + table["time"].to_numpy()
        libraries = foreign(self.result.trace)
        here = [first[tuple(row)] for row in found[keys].itertuples(index=False)]
        found["library"] = [
            "\n".join(_libraries_at(code, at[libraries[at]], weights, weights[at].sum())) for at in here
        ]
        found["source_line"] = [self._text(f, n) for f, n in zip(found["file"], found["line"], strict=True)]
        return found.sort_values(["causality", "time"], ascending=False, kind="stable").reset_index(drop=True)

    def _text(self, file: str, line: int) -> str:
        lines = self.sources.get(file, ())
        return lines[line - 1].strip() if 1 <= line <= len(lines) else ""

    @property
    def line(self) -> "pd.Series":
        """The row of `lines` that the bottleneck costs most at; the most responsible one where it costs little.

        Of a latency the responsible one, where most hangs on it: the cycles are those of whatever waits for it. Of
        operations that keep a group of ports, theirs: so are these.
        """
        keeps = keeping(self.result, self.bottleneck)
        if len(keeps):
            at = Counter(np.array(places(self.result.trace))[keeps].tolist()).most_common(1)[0][0]
            return self.lines.loc[self.lines["place"].eq(at).idxmax()]
        if "latency" in self.bottleneck and self.lines.iloc[0]["causality"] >= _SPREAD:
            return self._speaking("causality")
        most = self._speaking("held")
        return most if most["held"] >= _HELD else self._speaking("causality")

    def _speaking(self, column: str) -> "pd.Series":
        """Return the row of `lines` with the most of a column; rather one with half of it than one that says nothing.

        A function's return is of the line of its closing brace, a loop's branch sometimes, too.
        """
        most = self.lines.loc[self.lines[column].idxmax()]
        if not most["source_line"] or _SAYS.search(most["source_line"]):
            return most
        others = self.lines[self.lines["source_line"].str.contains(_SAYS) & (self.lines[column] >= most[column] / 2)]
        return most if others.empty else self.lines.loc[others[column].idxmax()]

    def _said(self, row: "pd.Series") -> str:
        """Return a line's place, its text where that is known, and what it calls, or was inlined into it."""
        called, inlined = self._within(row)
        said = self._placed(row) + (f", in {called}, which it calls" if called else "")
        return said + (f", with code inlined from {inlined}" if inlined else "")

    def _placed(self, row: "pd.Series") -> str:
        """Return a line's place, and its text where that is known."""
        said = str(row["place"]) + (f" ({textwrap.shorten(row['source_line'], 60)})" if row["source_line"] else "")
        is_named = not row["line"] and row["function"] and row["function"] != self.symbol
        return said + (f" in {words.brief(named_as(row['function']))}" if is_named else "")

    def _within(self, row: "pd.Series") -> tuple[str, str]:
        """Return which functions of libraries a line calls that have a good part of it, and which are inlined there."""
        names = [words.brief(name) for name in inlined_from(self.result.trace, row["file"], row["line"])]
        called = [words.brief(name) for name in row["library"].split("\n") if name]
        return listed(called[:2]) if called else "", textwrap.shorten(", ".join(names[:2]), 80) if names else ""

    def headline(self) -> str:
        """Say what holds the function back, and where; before it `first`, and what the `doubt` is.

        Whole sentences, but for the last one's full stop. `lead` has those that a reader needs first.
        """
        return ". ".join(filter(None, (*self._answered, self.later)))

    @property
    def lead(self) -> tuple[str, ...]:
        """The answer in a few short sentences: the gravest doubt, what holds the function back and where, the gain."""
        grave, _ = self._doubted
        first, doubt = _sentences(self.first), _sentences(_capital(grave[0]) if grave else "")
        unmeasured = _capital(_UNMEASURED) if self.measured is None else ""
        verdict, gain, _ = self._causes
        told = (*doubt[:1], *first[:1], verdict, gain, self._near or unmeasured, self.later)
        return tuple(f"{each}." for each in told if each)

    @property
    def more(self) -> tuple[str, ...]:
        """What `headline` says beyond `lead`, a sentence each."""
        grave, slight = self._doubted
        first = _sentences(self.first)
        doubts = [each for doubt in (*grave, *slight) if doubt != _UNMEASURED for each in _sentences(_capital(doubt))]
        told = (*doubts[bool(grave) :], *first[1:], *self._causes[2], self.tried, *self.threads[:1])
        return tuple(f"{each}." for each in told if each)

    @property
    def _answered(self) -> tuple[str, ...]:
        doubts = [_capital(each) for some in self._doubted for each in some]
        return self.first, *doubts, self._cause(), self._near, self.tried, *self.threads[:1]

    @property
    def _near(self) -> str:
        """Say how far the model is from the measured time, at every size; "" where the `doubt` has said it."""
        if self.apart is None or self.is_far or self.uncertain:
            return ""
        if abs(self.apart) < _EQUAL:
            return "The model takes the measured time"
        care = ": take the factor with care" if abs(self.apart) > words.SOME else ""
        return f"The model is {words.lies(self.apart)} the measured time{care}"

    def _cause(self) -> str:
        verdict, gain, more = self._causes
        return ". ".join(filter(None, (verdict, gain, *more)))

    @property
    def _causes(self) -> tuple[str, str, tuple[str, ...]]:
        """What holds the function back, and on which line; what would make it faster; and more about the lines."""
        top, at = self._speaking("causality"), self.line
        where, name = self._placed(at), words.brief(self.function)
        called, inlined = self._within(at)
        if called and len(called) <= _SHORT_NAME:
            where, called = f"{where}, in {called}, which it calls,", ""
        there = called and f"There it calls {called}", inlined and f"Code is inlined there from {inlined}"
        runs = [each for each in there if each]
        resource, both = self.bottleneck, self.together
        if both is not None:
            of = both.resources if "front_end" not in both.resources else [r for r in both.resources if r != "retire"]
            *first, last = dict.fromkeys(self._words(name)[0] for name in of)
            held = f"{'; '.join(first)}; and {last}" if first else last
            change = _capital(listed(map(_better, both.resources)))
            number, none = _NUMBERS[len(both.resources)], "neither" if len(both.resources) == 2 else "none"
            return (
                f"{name} is held back at {where} by {number} things at once, of which {none} alone would bring 5 %",
                f"{change} together would make it {1 + both.gain:.2f} times as fast",
                (f"The {number} things are {held}", *runs),
            )
        if not resource:
            return (
                f"No single resource holds {name} back: none, made twice as good, brings 1 %",
                f"See {where.rstrip(',')}",
                (*runs,),
            )
        gain = self.gain
        mine = "that" if at["held"] >= _HELD else "its time"
        if 0 < top["causality"] < _SPREAD:
            shares = self.lines["causality"].cumsum()  # the largest first
            several = int((shares < _MOST).sum()) + 1
            hangs = f"Most of {mine} is at {at['place']}, and half of its delays come from {several} places"
        elif top["place"] != at["place"] and round(100 * top["causality"]):
            hangs = f"Most of that is at {at['place']}, while {top['causality']:.0%} of its delays come from "
            hangs += self._said(top)
        elif top["place"] == at["place"] and top["causality"] > 0:
            hangs = f"{top['causality']:.0%} of its delays come from {at['place']}"
        else:
            hangs = f"Most of {mine} is at {at['place']}"
        if gain < HOLDS:
            return (
                (
                    f"Nothing dominates {name}: the best single resource, made twice as good, would make it "
                    f"{1 + gain:.2f} times as fast"
                ),
                f"See {where.rstrip(',')}",
                (f"That resource is {self._words(resource)[0]}", hangs, *runs),
            )
        # Three such loops took 1.4 to 1.6 cycles per turn when aligned, and nothing modelled keeps them from 1.
        at_most = "at most " if resource == "op_cache" else ""
        return (
            f"{name} is held back at {where} by {self._words(resource)[0]}",
            f"{_capital(self.change)} would make it {at_most}{1 + gain:.2f} times as fast{self._laid_out}",
            tuple(filter(None, (hangs, *runs, self._as_long, self._rival))),
        )

    @cached_property
    def _as_long(self) -> str:
        """Say that shortening the line that is named brings nothing, as another chain is as long; "" where it does.

        Of chains as long as each other it is chance which has most of the delays.
        """
        share, here = self.line["causality"], np.array(places(self.result.trace)) == self.line["place"]
        if self.bottleneck not in _CHAINS or share < _SPREAD:
            return ""
        found = causality(self.result.settings, self.result.trace, shorter=here)
        alone = self.result.cycles / found.cycles - 1
        if alone >= _OF_ITS_SHARE * (1 / (1 - share / WEIGHT) - 1):
            return ""
        held: dict[str, float] = {}
        for place, each in zip(places(self.result.trace), found.held, strict=True):
            held[place] = held.get(place, 0.0) + float(each)
        least = max(held.values()) / 2
        others = sorted((p for p in held if p != self.line["place"] and held[p] >= least), key=lambda p: -held[p])
        said = [self._said(self.lines.loc[self.lines["place"].eq(place).idxmax()]) for place in others[:_FEW]]
        if not said:
            return ""
        much = "nothing" if alone < _EQUAL else f"{alone:.0%}"
        return (
            f"Half the latency of the operations of {self.line['place']} alone would bring {much}: "
            f"{listed(said)} {'is a chain' if len(said) == 1 else 'are chains'} as long"
        )

    @property
    def _laid_out(self) -> str:
        """Tell beside half of a set's or L2's time what another layout brings, which is what a program can do."""
        if self.bottleneck == SETS:
            best = self.what_ifs[0]
            return f", and {best.most:.2f} times {best.how}" if best.has_more else ""
        if self.bottleneck in _NEXT_LEVEL and self._spread_out >= 1 + HOLDS:
            return (
                f", and {self._spread_out:.2f} times with its lines in all sets of L1: they are a large power of two "
                "apart, so make rows longer by a line (64 bytes)"
            )
        return ""

    def _words(self, resource: str) -> tuple[str, str]:
        """Return what holds the function back, and what would help."""
        if resource not in self._told:
            self._told[resource] = in_words(self.result, resource)
        return self._told[resource]

    @cached_property
    def _told(self) -> dict[str, tuple[str, str]]:
        return {}

    @property
    def _rival(self) -> str:
        """Name the second best change, where it promises so nearly as much that the model's error may decide."""
        first, second = (*self.what_ifs, None, None)[:2]
        if first is None or second is None or second.factor - 1 < _NEARLY * (first.factor - 1):
            return ""
        return (
            f"{_capital(second.change)} would make it {second.factor:.2f} times as fast: which of the two is the "
            "first, the model cannot tell"
        )

    def to_frame(self) -> "pd.DataFrame":
        """Return one row per source line: `lines`."""
        return self.lines.copy()

    def listing(self) -> "pd.DataFrame":
        """Return `GusResult.to_frame` with addresses as objdump prints them, in its columns pc and text (simulated)."""
        trace, table = self.result.trace, self.result.to_frame()
        there, ran = trace.object_addresses().tolist(), trace.code.pc.tolist()
        moved = zip(table["text"], there, ran, strict=True)
        return table.assign(pc=there, text=[in_the_object(text, at - was) for text, at, was in moved])

    def causes(self) -> dict[str, float]:
        """Return the share of the cycles that each cause takes (simulated)."""
        return {name: value / self.result.cpi for name, value in cpi_by_cause(self.result).items()}

    def summary(self) -> str:
        """Return the answer in a few lines; `report` has all of it."""
        lines = [" ".join(self.lead)]
        if self.measured is not None:
            lines.append(
                f"{self.measured.cycles:,.0f} cycles measured, {self.result.cycles:,.0f} simulated ({self.apart:+.0%})"
            )
        else:
            lines.append(f"{self.result.cycles:,.0f} cycles simulated; nothing measured: {self.not_measured}")
        lines += [f"{each.factor:.2f}x (simulated): {each.gain}" for each in self.what_ifs]
        return "\n".join(lines + [f"{o.method}: {o.says}" for o in self.opinions if o.method == "believe"])

    def report(self) -> str:
        """Return the answer on one screen, and where the run spends its time."""
        from perfkit.diagnosis.screen import screen, spent_in

        return "\n\n".join(filter(None, (screen(self), spent_in(self))))

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw what each better resource would bring; return the axes."""
        return draw("gus:plot_sensitivity", self.ranked_with_pair, ax=ax)

    def save(self, path: str | Path) -> Path:
        """Write the answer with its simulation: `load` opens it, and `perfkit.GusResult.load` opens the simulation."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "result"}
        return self.result.save_with(a_path(path, "Diagnosis.save"), {"answer": of_json(json_text(values, _plain))})

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read an answer that `save` wrote.

        Raises
        ------
        FileNotFoundError
            There is no such file.
        FormatError
            The file is damaged, or no saved answer.
        """
        result = GusResult.load(path)
        values = load_result(a_path(path, "Diagnosis.load"))[0].get("answer")
        if not isinstance(values, dict):
            raise FormatError(f"{path}: a saved simulation, but no answer of perfkit why")
        try:
            measured = Measured(**values.pop("measured")) if values["measured"] else values.pop("measured")
            return cls(
                candidates=tuple(HotFunction(**each) for each in values.pop("candidates")),
                opinions=tuple(Opinion(**each) for each in values.pop("opinions")),
                unseen=tuple(values.pop("unseen")),
                threads=tuple(values.pop("threads", ())),
                doubts=tuple(values.pop("doubts", ())),
                sources={name: tuple(lines) for name, lines in values.pop("sources").items()},
                result=result,
                measured=measured,
                **values,
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise FormatError(f"{path}: an answer with a part missing or changed: {error}") from error

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as plain values, for JSON."""
        from perfkit.diagnosis.screen import as_values

        return as_values(self)


def _plain(value: Any) -> Any:
    """Return a part that is a dataclass, or a mapping of another type, as JSON holds it."""
    return vars(value) if is_dataclass(value) else dict(value)


def _libraries_at(
    code: "StaticCode", instructions: NDArray[np.int64], weights: NDArray[np.float64], whole: float
) -> tuple[str, ...]:
    """Return the libraries' functions that have a good part of what is told at one place, the largest part first.

    Parameters
    ----------
    code : StaticCode
        What was recorded.
    instructions : (k,) int64
        Those of libraries that are told there.
    weights : (n,) float64
        What each instruction has of all.
    whole : float
        What the place has.
    """
    by_name: dict[str, float] = {}
    for k in instructions.tolist():
        by_name[code.function[k]] = by_name.get(code.function[k], 0.0) + float(weights[k])
    stubs = [name for name in by_name if name.endswith(STUB)]
    ranked = sorted(by_name.items(), key=lambda item: -item[1])
    large = [name for name, part in ranked if name and part >= _IMPORTANT * whole > 0]
    if len(stubs) == 1 and len(large) == 1:  # the name that the program calls it by: strlen, not __strlen_evex
        large = stubs
    return tuple(dict.fromkeys(named_as(name.removesuffix(STUB)) for name in large))


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _sentences(text: str) -> list[str]:
    """Return the sentences of a text whose last one has no full stop."""
    return [each for each in text.split(". ") if each]


def _better(resource: str) -> str:
    return words.better(resource, WEIGHT)


def _unsure(hottest: HotFunction) -> bool:
    """Whether there are so few samples that another function may be the hottest."""
    clear = hottest.samples >= _CLEAR_SAMPLES and hottest.share >= _CLEAR
    return too_few(round(hottest.samples / hottest.share)) and not clear


def _akin(cause: str, resource: str) -> bool:
    """Whether a cause is of the bottleneck's group; waiting for memory and its bandwidth are told apart badly."""
    groups = group(cause), group(resource)
    return groups[0] == groups[1] or all(each.endswith("of memory") for each in groups)
