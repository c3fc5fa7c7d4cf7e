"""`why`: find a program's hot function, time it, record it, simulate it, and say what holds it back."""

import itertools
import json
import math
import re
import shlex
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import BuiltinFunctionType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfkit.base.files import a_path
from perfkit.collectors.kernel_notes import starts_threads
from perfkit.collectors.profile.hot import HotFunction, Profile, check_program, few, is_openmp, own, profile, shown
from perfkit.collectors.profile.perf import METHOD as PERF
from perfkit.collectors.profile.perf import RATE
from perfkit.collectors.profile.sampled import Target, mapped_code, opened, place
from perfkit.collectors.profile.waits import IDLE, IN_KERNEL, NEARLY, WAITS, Waits, waits_of
from perfkit.collectors.profile.watched import STOPPED
from perfkit.collectors.tracer.cloner import LeavingError, Refusal
from perfkit.collectors.tracer.demangle import named_as
from perfkit.collectors.tracer.elf import ElfFile, elf_as_it_is
from perfkit.collectors.tracer.lines import places_of
from perfkit.collectors.tracer.registers_read import registers_read
from perfkit.collectors.tracer.stubs import callers
from perfkit.collectors.tracer.timed import CallTimes, time_calls
from perfkit.collectors.tracer.tracer import Tracer
from perfkit.diagnosis.advice import allocating, asked_again, called_alike, copying, reads_alike
from perfkit.diagnosis.ahead import ALL, Ahead
from perfkit.diagnosis.calls import (
    BRIEF,
    Calls,
    choose_calls,
    fewer,
    from_address,
    judged,
    middle,
    share_of,
    share_of_counted,
    undisturbed,
    whole_calls,
    windows_of,
)
from perfkit.diagnosis.diagnosis import SHORT, STEADY, Diagnosis, Measured
from perfkit.diagnosis.huge_pages import TRANSLATION, may_help, told, touched_pages, tried
from perfkit.diagnosis.kernel import why_kernel
from perfkit.diagnosis.noise import Noise
from perfkit.diagnosis.noise_result import NoiseResult
from perfkit.diagnosis.opinions import opinions, without_simulated_time
from perfkit.diagnosis.progress import signs
from perfkit.diagnosis.sources import built, called_kernel, is_called
from perfkit.diagnosis.team import Team, team_of, written_beside
from perfkit.diagnosis.words import FAR, brief
from perfkit.errors import (
    DataError,
    NeverCalledError,
    PerfkitError,
    PerfkitWarning,
    SettingError,
    UnavailableError,
    listed,
    of_extra,
)
from perfkit.machine.core import Microarchitecture
from perfkit.simulators.gus.beside import beside
from perfkit.simulators.gus.gus import Gus, GusResult, cpi_by_cause
from perfkit.trace.standing import places
from perfkit.trace.trace import Trace

Say = Callable[[str], None]
_CLOCKS = 1.5  # times as many ticks in a cycle as in another run: what was read is no clock rate
_RUNS, _AGAIN = 5, 1.5  # the recorded calls are timed so often more, as long as that takes fewer seconds
_BESIDE = 0.1  # of the run: what other threads do for so much of it may hold this one up
_CALLS_BESIDE, _RAN_BESIDE = 1000, 300_000  # calls and instructions of each thread that are recorded then, at most
_OF_A_THREAD = 1_000_000  # instructions recorded of each thread, where there are several
_PATIENCE = 60.0  # seconds for a busy machine to start a recording
_FAR_IN = 10  # times the limit may pass before the code is reached that the samples are in
_LEAST_PART = 0.1  # of the limit: a part of a long call that ends before has left what is recorded
_COVERED = 0.5  # of the samples in a function: a recording that holds fewer is of something else
_SCRIPT = 0.1  # of a script's time: a function with less does not explain it
_MUCH = 0.05  # of the run: a library that has so much of it is named
_QUICKEST = 7  # instructions per cycle of code that waits for nothing: printf's on a Zen 5
_SEEN = 500  # addresses with samples that are looked at for what is called through pointers
_ASKED_BY = "is asked for by"  # of a program: which of its lines
_WORTH = 0.01  # of the run: a function with less is not offered
_ABOUT = 0.5  # of the time of the caller that has most: about as much, on a machine that others use
_PART = 0.2  # of the time of `main`, from which a function that it calls is meant
_COUNT_TO, _COUNTABLE = 2_000_000_000, 3e9  # instructions of a call that are counted, and cycles that it may take
_ENDLESS = 30  # cycles per instruction that is recorded, from which a call is recorded where its samples are at once
_NEARLY_ALL = 0.99  # of what may be recorded: recording ends with a block
_FITS = 0.5  # of the limit: a call whose second half is shorter may be recorded whole
_IN_VAIN = 1.3  # times the instructions that are counted: a call that is expected to have more is not counted
_HOTTER = 2  # times the program's own hottest function: a library's has more of the run, and who calls it is sought
_WORTH_KEEPING = 0.2  # of the run: a function with less is not looked at for calls that repeat
_SEVERAL_CALLS, _ALIKE_CALLS = 20, 0.9  # calls from which that is told, and the share that must repeat the one before
_TRIES = 3  # single calls that are tried, where exceptions leave them
_HALF = 0.5  # of a run: what follows is about the smaller part
_NOT_BY_OTHERS = 4.0  # times the cycles with data in the caches
_THROWING = 0.1  # of the run: exceptions that take so long come before the bottleneck of what remains
# What unwinds: all of libgcc_s, and these of other libraries.
_UNWINDER = re.compile(r"__cxa_|__gxx_personality|_Unwind_|_?_?dl_(find_object|iterate_phdr)|_dl_find_dso|__gcclibcxx")
_CALLERS = 4  # functions that are named as callers
_SMALL = 0.25  # of the run: an answer about less is not one about the program
_WAITING = 0.2  # of the run: threads that wait so long come before what one of them does
_UNTIMED = 100  # calls that are recorded where none was timed
_MOSTLY = 0.5  # of a function's samples, below which what is explained is the lesser part
_MOST_ALIKE = 0.8  # of a function's time, in calls about as long as those recorded
_ALIKE = 0.3  # of a function's time, below which other calls than those recorded have it
_SAMPLES = 100  # that a time is told from: 20 % within twice the standard error
_GLANCE = 0.5  # seconds for a first call that only tells its caller: one that is the whole run is timed once
_UP = 5  # callers that are looked at where calls are too short: one of the program's own may lie behind a library's
_STARTS = re.compile(
    r"start_thread|_start|_*libc_start(_call)?_main(@.*)?|clone3?|__clone(3|_internal)?"
)  # what starts programs and threads
_AHEAD = 3e8  # cycles that may pass before the recorded calls: about a tenth of a second
_SLOWEST = 1e9  # cycles per second of a slow processor
_SLICE = 0.001  # seconds below which calls run between two interruptions
_SEVERAL = 5  # calls from which their median tells that none of them was interrupted
_INTERRUPTED = 0.01  # seconds from which a call is interrupted by other programs as the whole run is
_WIDEST = 1.05  # more instructions per cycle than the core's width times this were not run in the measured cycles


def why(
    program: str | Path | Callable[..., Any],
    function: str = "",
    arguments: Sequence[Any] = (),
    *,
    core: str = "host",
    seconds: float = 3.0,
    limit: int = 3_000_000,
    stdin: str | Path | None = None,
    flags: str = "",
    noise: bool = False,
    say: Say | bool | None = None,
    ahead: Ahead | None = None,
) -> Diagnosis:
    """Say why a program is slow: its hot function, what holds that back, on which line, and what would help.

    The program runs several times: once to find the function, a few times to time its calls, once to record them.

    Parameters
    ----------
    program : str or Path
        A program (x86-64, Linux); a Python script, whose hot function is one of a library that it loads; a source file
        in C, C++, Rust or Fortran, which is compiled; a library, of which `function` is called. A source without a main
        function, and a library, are called with `arguments`, or with some that are made for the parameters' types. Or a
        function that numba compiles, which is called with `arguments`: numbers and arrays.
    function : str
        The function, as its source or its symbol names it, or ``lib.so:function``; by default the hottest one of the
        program's own.
    arguments : sequence of str
        The program's words; of a function its arguments: ``["f8[1000]", "2.0", "1000"]``.
    core : str
        A core's name, a core file, or ``host``.
    seconds : float
        Watch, and time, each run for so long at most.
    limit : int
        Record this many instructions at most.
    stdin : path, optional
        What the program reads from its standard input, in each run; nothing by default.
    flags : str
        What a source is compiled with; optimised for this machine by default.
    noise : bool
        Of a program: also add instructions to its hot loop and time it (`perfkit.Noise`), for a minute or so, and set
        what that says against the other methods.
    say : callable or bool, optional
        Called with what is being done, before each stage. True: what is being done goes to the error output, as of the
        command; False: nothing does. By default it does in a plain script, and not in a notebook or a test.
    ahead : Ahead, optional
        What compiles the simulators meanwhile, where that has begun already.

    Raises
    ------
    DataError
        There is no such program or function, or nothing of it can be recorded, with why.
    SettingError
        `noise` is asked of what is called, not run.
    UnavailableError
        The hot function cannot be found here, with what to install.

    Examples
    --------
    >>> import perfkit as pk
    >>> print(pk.why("./solver", arguments=["grid.txt"]))  # doctest: +SKIP
    """
    of_extra("pandas")  # before the program has run, not after
    Microarchitecture.load(core)  # a name that is none is refused at once
    with signs(say, "starting") as told:
        if callable(program):
            return _of_function(program, arguments, core, limit, told)
        path, words = a_path(program, "why").absolute(), tuple(map(str, arguments))
        reads = Path(stdin) if stdin else None
        with ahead or Ahead(core, told) as ahead, built(path, flags, told) as made:
            if is_called(made):
                if noise:
                    raise SettingError(
                        f"noise is added to programs here; {path.name} is called: ask perfkit noise {path.name}"
                    )
                kernel, values, notes = called_kernel(path, made, function, words, flags)
                ahead.start()
                ahead.wait(*ALL)  # nothing is compiled beside what is timed
                told(f"recording, simulating and timing {kernel.function}")
                found = why_kernel(kernel, *values, core=core, limit=limit)
                return found.but(unseen=(*notes, *found.unseen))
            is_script = path.suffix == ".py"
            target = Target(Path(sys.executable) if is_script else made, words, reads, path if is_script else None)
            check_program(target)
            ahead.start()
            answer = _Inquiry(target, function, core, seconds, limit, told, ahead, noise).answer()
            return answer if made == path else answer.but(program=path.name)


def explainable(target: Target, found: Profile, hot: HotFunction, say: Say) -> HotFunction:
    """Return the function of a program that `why` would explain where one is hot: its caller, if its calls are short.

    Raises
    ------
    DataError
        The program does not call it as it was watched.
    """
    return _Inquiry(target, "", "host", 3.0, 3_000_000, say, Ahead("host", say)).explainable(found, hot)


def _of_function(function: Callable[..., Any], arguments: Sequence[Any], core: str, limit: int, say: Say) -> Diagnosis:
    """Answer for a function of this process: one that numba compiles."""
    from perfkit.collectors.jitted import is_jitted, jitted_kernel

    if not is_jitted(function):
        name = getattr(function, "__name__", repr(function))
        if isinstance(function, BuiltinFunctionType) or hasattr(function, "restype"):  # of an extension, or ctypes'
            raise SettingError(
                f"{name} is a {type(function).__name__}, not a function of Python that numba compiles: what calls it "
                f"cannot be seen from here. Ask about the library that holds it (perfkit why LIBRARY.so -f {name} -- "
                "'f8[1000]' 1000), or put the calls into a script and ask about that: perfkit why script.py"
            )
        raise SettingError(
            f"{name} is interpreted: Python runs it without machine code of its own. Compile it with numba.njit, or "
            "put the calls into a script and ask about that: perfkit why script.py finds the hot function of the "
            "libraries that it loads"
        )
    say(f"compiling {function.__name__} once more")
    kernel, values = jitted_kernel(function, *arguments)
    say(f"recording, simulating and timing {kernel.function}")
    return why_kernel(kernel, *values, core=core, limit=limit)


@dataclass
class _Inquiry:
    """The stages, one after the other."""

    target: Target
    asked: str
    core: str
    seconds: float
    limit: int
    say: Say
    ahead: Ahead
    noisy: bool = False
    longer: Trace | None = None  # a call that is longer than what is simulated, as far as it was recorded
    before: Trace | None = None  # of a part of such a call, what ran before it
    placed: bool = False  # whether what is explained is such a part, chosen by where the time goes
    ran_on: bool = False  # whether the call went on for as long as such a part may be recorded
    expected: float = 0.0  # cycles of such a part with that in the caches
    inner: HotFunction | None = None  # the hottest function, also where one that calls it is explained
    timings: dict[tuple[str, str], CallTimes] = field(default_factory=dict)  # the first run of each timed function
    watched: Waits | None = None  # what one run more waited for, once somebody asks
    spent: dict[str, float] = field(default_factory=dict)  # seconds of each stage
    found: Profile | None = None
    asking: str = ""  # by which lines of the program a run is asked for that is not in its own functions
    unseen: list[str] = field(default_factory=list)
    bare: bool = False  # whether short calls are explained without the code that makes them
    others: int = 0  # calls that could not be recorded, for an exception leaves them
    crowded: bool = False  # whether other threads than the first call the function, too
    left: int = 0  # recorded calls that were to be and are not, for a jump left one of them
    uncounted: bool = False  # whether a part was recorded of a call whose instructions can be counted

    def answer(self) -> Diagnosis:
        """Return the answer."""
        with self._stage("finding the hot function"):
            found = self.found = self._profile()
        hot, reason = self._function(found)
        if found is not None and not hot.samples and not self.asked:
            self.say(f"{hot.name}: {reason}")
        elif found is not None:
            self.say(f"{hot.name} has {hot.share:.0%} of {found.total:,} {found.unit}")
        for much in filter(None, (_throwing(found, self.target.program), _waiting(found))):
            self.say(f"{much}. What comes next is about the rest.")
        self._check_process(hot)
        try:
            return self._explained(found, hot, reason)
        except LeavingError as error:
            throwing = _throwing(found, self.target.program)
            where = f"The run: {found.summary()}" if found is not None else ""
            raise DataError(". ".join(filter(None, (throwing, str(error), where)))) from error
        except NeverCalledError as error:
            if not hot.samples:
                raise
            raise DataError(
                f"{hot.name} has {hot.share:.0%} of the run, and the process of {self.target.subject.name} that was "
                f"started never called it while it was watched ({error}). Most likely a process that it forks does, "
                "and only the first can be recorded: have the program do its work in the first (one job, no daemon, no "
                "workers), or ask about a program that calls the function by itself. If it is called late, --timeout"
            ) from error

    def explainable(self, found: Profile, hot: HotFunction) -> HotFunction:
        """Return the function that is explained where that one is hot: its caller, where its calls are short."""
        with self._stage(f"timing the calls of {brief(hot.name)}"):
            timed, _ = self._timed(hot, brief=True)
        above = self._caller_of(hot, "", timed, found)[0] if self._too_short(timed) else hot
        return hot if self._place(above) else above

    def _check_process(self, hot: HotFunction) -> None:
        """Refuse a function of several processes, and one of another program than the one that is asked about."""
        if hot.processes > 1:
            raise DataError(
                f"{hot.name} runs in {hot.processes} processes, whose calls would be recorded into one "
                "another: have the program do its work in one process"
            )
        if self._place(hot) and not elf_as_it_is(hot.path).is_loadable:
            raise DataError(
                f"{hot.name} has {hot.share:.0%} of the run, and is a function of {hot.library}, a program that "
                f"{self.target.subject.name} starts: ask about that program, with the words that it is given, "
                f"perfkit why {shlex.quote(hot.path)} -f {shlex.quote(hot.name)} -- ..."
            )

    def _explained(self, found: Profile | None, hot: HotFunction, reason: str) -> Diagnosis:
        """Return the answer about a function."""
        timed: list[CallTimes] = []
        why_not = ""
        self.inner = hot
        part = self._of_main(found, hot)
        if part is None:
            with self._stage(f"timing the calls of {hot.name}"):
                timed, why_not = self._timed(hot, brief=not self.asked)
        if self._too_short(timed):
            hot, reason, timed = self._caller_of(hot, reason, timed, found)
        if timed and timed[0].brief:
            with self._stage(f"timing all calls of {hot.name}"):
                timed, why_not = self._timed(hot)
        core = Microarchitecture.load(self.core)
        team = None
        if self.crowded or hot.threads > 1:
            with self._stage(f"recording every thread of {hot.name}, and simulating them beside each other"):
                team = self._team(hot, core)
        with self._stage(f"recording {hot.name}") if part is None else nullcontext():
            if part is not None:
                calls, trace = Calls(0, 1), part
            elif team is not None and team.explained:
                calls, trace = Calls(team.skip, 1), team.slowest
                if trace.provenance.complete and core.resource("rob").value >= SHORT * trace.instruction_count:
                    self.unseen.append(
                        f"BEWARE: what calls in a row do beside each other: one of {trace.instruction_count:,} "
                        "instructions was recorded alone; ask about the function that calls it (-f)"
                    )
            else:
                calls, trace = self._recorded(hot, timed, found)
                overlaps = self._may_overlap(timed, trace, calls, core)
                above = self._above(hot, reason, timed, found, core) if overlaps and not self.asked else None
                if above is not None:
                    hot, reason, timed, calls, trace = above
                else:
                    self.bare = overlaps
                    trace = self._where_the_time_goes(found, hot, trace, core)
        self.ahead.wait("memory", "time")
        with self._stage(f"simulating {trace.instruction_count:,} instructions"), self.ahead.resting():
            states = tuple(beside(lambda warm: Gus(core, warm=warm).run(trace), ("none", "caches")))
            self.expected = self._after_what_ran(core, calls, trace)
        once, _ = self._measured(timed, calls, trace, why_not, core)
        nearest = _nearest(states, calls, once, self.expected)[0]
        if part is None:
            self.uncounted = self.uncounted and _is_countable(timed, nearest)
            self._answer_first(hot, nearest, once)
        else:
            self.uncounted = True
            self._answer_first(hot, nearest, None)
            with self._stage(f"timing the call of {hot.name}"):
                timed, why_not = self._timed(hot)
            self.uncounted = _returned(timed, calls) and _is_countable(timed, nearest)
        by_turns = self._beside(found, hot) if team is None else ""
        if self.uncounted:
            with self._stage(f"counting the instructions of the call of {hot.name}, to compare with its time"):
                self._count(hot, calls)
        if timed and self._whole(trace) is not None:
            with self._stage(f"timing the recorded calls of {hot.name} again"):
                timed += self._again(hot, calls.skip + calls.count)
        measured, why_not = self._measured(timed, calls, trace, why_not, core)
        if measured is None and (self.inner is not hot or self.bare):
            alone = calls.count if self.bare and self.inner is hot else 0
            measured = self._sampled_quietly(found, trace, states[1].cycles, alone)
        result = self._simulated(self._learnt(states, core, calls, trace, measured), calls, measured)
        inside = _seen(found, trace) if found is not None else None
        self._look(found, hot, timed, calls, trace, inside)
        if hot.threads > 1 and team is None:
            self.unseen.append(f"{hot.name} ran in {hot.threads} threads; it was timed and recorded in one")
        waiting = _waiting(found)
        before = (
            self._idle(found, timed), waiting or self._asked_for(found, timed, trace),
            _throwing(found, self.target.program), asked_again(result) or self._called_alike(found, hot, timed, trace),
            allocating(found, trace) or copying(found, trace),
        )  # fmt: skip
        called = _called_at(hot, timed[0], self.target.program) if timed and hot.is_system else ""
        # A function that was found by what it calls has no samples of its own, and how much it has is not known.
        share = hot.share if found and (hot.samples or self.asked) else None
        answer = Diagnosis(
            program=self.target.subject.name, function=hot.name, symbol=hot.symbol, file=hot.path, chosen=reason,
            candidates=found.functions[:10] if found else (), profiled=_how(found), share=share,
            result=result, measured=measured, not_measured=why_not, opinions=(), unseen=(),
            sources=_sources(trace), seconds=self.spent, threads=team.told() if team is not None else (),
            first=". ".join(filter(None, (*before, team.first if team is not None else by_turns, called))),
            doubts=tuple(self._doubts(found, result, measured, timed, calls, inside)), later=self._later(found),
        )  # fmt: skip
        return self._asked(answer, found, hot, calls, bool(timed) and self._whole(trace) is not None)

    def _of_main(self, found: Profile | None, hot: HotFunction) -> Trace | None:
        """Return a part of the one call of `main`, where its samples are; None of others, and of short runs.

        The call is the run, whose length is known: timing it takes as long once more, and can come behind the first
        answer.
        """
        is_main = hot.symbol == "main" and not self._place(hot) and hot.threads <= 1 and not self.target.script
        if not is_main or self.asked or _lasts(found) <= _ENDLESS * self.limit:
            return None
        with self._stage(f"recording {hot.name}"):
            return self._from_the_middle(found, hot, _FITS)

    def _asked(
        self, answer: Diagnosis, found: Profile | None, hot: HotFunction, calls: Calls, timed: bool
    ) -> Diagnosis:
        """Work out what would help, which lines are responsible and what the other methods say; return all of it."""
        self.ahead.wait("lanes")
        with self._stage("asking what would help"):
            answer.what_ifs  # noqa: B018 - worked out here, where its time is seen
        if timed and may_help(answer):
            with self._stage("trying huge pages"), self.ahead.resting():
                last = calls.skip + calls.count
                ratio = tried(partial(self._once, hot, last), calls.skip, last)
                answer = answer.but(tried=told(ratio, always=answer.bottleneck in TRANSLATION))
        self.ahead.wait("causality")
        with self._stage("asking which instructions are responsible"):
            answer.lines  # noqa: B018
        self.ahead.wait("roofline")
        with self._stage("asking the other methods"):
            held = opinions(answer, found, self._noise(hot, calls) if self.noisy else None)
        unseen = (*self.unseen, *filter(None, [answer.overlap_told]))
        elsewhere = without_simulated_time(answer, found) if found is not None and not few(found) else ""
        doubts = (*answer.doubts, *filter(None, [elsewhere]))
        return answer.but(opinions=held, unseen=unseen, doubts=doubts, seconds=dict(self.spent))

    def _answer_first(self, hot: HotFunction, result: GusResult, measured: Measured | None) -> None:
        """Say what is known already: how long one run takes, and where."""
        by_place: Counter[str] = Counter()
        for where, ticks in zip(places(result.trace), result.spent.sum(axis=1).tolist(), strict=True):
            by_place[where] += ticks
        place, most = by_place.most_common(1)[0]
        cause, cycles = next(iter(cpi_by_cause(result).items()))
        taken = f"{measured.cycles:,.0f} cycles measured once" if measured else "nothing measured"
        taken = "measured cycles come later" if self.uncounted else taken
        self.say(
            f"{hot.name}: {taken}, {result.cycles:,.0f} simulated; {most / max(result.ticks, 1):.0%} of these at "
            f"{place}, {cycles / result.cpi:.0%} for {cause}. What would help comes next."
        )

    @contextmanager
    def _stage(self, what: str) -> Iterator[None]:
        self.say(what)
        began = time.perf_counter()
        try:
            yield
        finally:
            self.spent[what] = time.perf_counter() - began

    def _profile(self) -> Profile | None:
        """Return where the run spends its time; None where that cannot be seen and the function is given."""
        try:
            return profile(self.target, self.seconds, say=self.say)
        except UnavailableError as error:
            if not self.asked:
                waits = self._waits_of(None).told(self.target.subject.name)
                if not waits:
                    raise
                raise DataError(f"{waits}. {error}") from error
            self.unseen.append(f"how much of the run {self.asked} is: {error}")
            return None

    def _function(self, found: Profile | None) -> tuple[HotFunction, str]:
        """Return the function to explain, and why this one."""
        if self.asked:
            from perfkit.diagnosis.named import AS_ASKED, named

            hot, reason = named(self.asked, self.target, found)
            if hot.samples and reason != AS_ASKED:
                told = reason.removeprefix(f"{AS_ASKED}; ")
                self.unseen.append(f"others called {self.asked}: {brief(hot.name)} is {told} (-f explains those)")
            return hot, reason
        assert found is not None
        hottest = found.functions[0]
        mine = own(found.functions, self.target.program if self.target.script else None)
        made = max((each.share for each in found.functions if not each.path.startswith("/")), default=0.0)
        if self.target.script and (mine is None or mine.share < max(_SCRIPT, made)):
            seen = (
                "no function of a library of yours was seen running"
                if mine is None
                else f"the hottest function of a library has {mine.share:.0%} of it"
                + (f" (-f {mine.name} asks about that)" if mine.share >= _WORTH else "")
            )
            raise DataError(
                f"{self.target.subject.name} spends its time in Python's interpreter, in libraries of the system or in "
                f"code made while it runs, and {seen}: {found.summary()}. What is interpreted has "
                "no machine code to explain: move its loop into numpy, numba or C first. What numba compiles is asked "
                "about as pk.why(function, arguments=...). What comes later is seen with --timeout"
            )
        if mine is None or hottest.share > _HOTTER * mine.share:
            calling = self._calling(hottest, mine)
            if calling is None and mine is None:
                nothing = f"no function of {self.target.subject.name} itself was seen running: {found.summary()}"
                waits, throws = self._waits_of(found), _throwing(found, self.target.program)
                if not throws and waits.idle < NEARLY and (calling := self._asking(waits)) is not None:
                    return calling, f"what it calls has the run ({hottest.name} of {hottest.library} is the hottest)"
                ask = self._ask_instead(hottest) if waits.idle < NEARLY else ""
                told = waits.told(self.target.subject.name)
                why_not = told, throws, nothing, ask
                raise DataError(". ".join(filter(None, why_not)))
            if calling is not None:
                return calling, f"it calls {hottest.name} of {hottest.library}, the hottest function"
        assert mine is not None
        if mine.path != str(self.target.program.resolve()) and Path(mine.path).name != self.target.subject.name:
            self.unseen.append(f"{self.target.subject.name} spends its time in {mine.library}")
        if (mine.symbol, mine.path) == (hottest.symbol, hottest.path):
            return mine, "the hottest function"
        return mine, f"the hottest of the program's own functions ({hottest.name} of {hottest.library} is hotter)"

    def _called_alike(self, found: Profile | None, hot: HotFunction, timed: list[CallTimes], trace: Trace) -> str:
        """Say that a function of the program's own is called again and again on memory that nothing changes.

        Its caller is recorded for that, where its own recorded calls are alike: "" where it is not known to be so, and
        where it takes numbers with a fraction, which it may be given others of.
        """
        if hot.is_system or self.target.script or hot.share < _WORTH_KEEPING or not timed:
            return ""
        if timed[0].calls < _SEVERAL_CALLS or not reads_alike(trace, _begins(trace, hot)):
            return ""
        if starts_threads(self.target.program):  # others may write there, which no recording of one thread tells
            return ""
        above = _returned_to(timed[0], self._known(found))
        if above is None or above.is_system or (above.path, above.symbol) == (hot.path, hot.symbol):
            return ""
        try:
            if registers_read(elf_as_it_is(hot.path), hot.symbol).floats:
                return ""
            with self._stage(f"looking at what {above.name} calls {hot.name} with"):
                alike, calls, place = called_alike(self._tracer(above, Calls(0, 1), self.limit), hot.symbol)
        except (DataError, UnavailableError, Refusal):
            return ""
        if alike < _ALIKE_CALLS * (calls - 1) or calls < _SEVERAL_CALLS:
            return ""
        return (
            f"{brief(hot.name)} is called again and again on the same memory, which nothing changes in between: "
            f"{calls:,} times at {place} in what was recorded, {hot.share:.0%} of the run. Call it once and keep its "
            "result, if the numbers that it is given are the same ones, too"
        )

    def _waits_of(self, found: Profile | None) -> Waits:
        """Return for how much of the run it waits, and what for; nothing where its samples say that it works."""
        if found is not None and _works(found) > 1 - IDLE:
            return Waits()
        return self._watched("waits for")

    def _asking(self, waits: Waits) -> HotFunction | None:
        """Return the program's function from which most of a run was asked for; None where too few looks tell it."""
        elf = elf_as_it_is(self.target.program)
        waits = waits if waits.seconds else self._watched(_ASKED_BY)
        by_symbol: Counter[str] = Counter()
        for at, looks in waits.asked.items():
            if (symbol := elf.function_at(at - 1)) is not None:
                by_symbol[symbol.name] += looks
        if not by_symbol or not (told := waits.asked_told(self.target.program)):
            return None
        self.asking = told
        symbol_name = by_symbol.most_common(1)[0][0]
        path = str(self.target.program.resolve())
        title = shown({(path, symbol_name)}, {path: elf})[path, symbol_name]
        return HotFunction(title, symbol_name, path, 0, 0.0, 1, 1)

    def _asked_for(self, found: Profile | None, timed: list[CallTimes], trace: Trace) -> str:
        """Say which lines ask for the run, where what was recorded is a small part of it, or the kernel works."""
        if self.asking or found is None or self.asked or self.target.script:
            return self.asking
        in_kernel = timed[0].in_kernel if timed else 0.0
        if in_kernel < IN_KERNEL and _covered(found, trace) >= _HALF:
            return ""
        return self._watched(_ASKED_BY).asked_told(self.target.program)

    def _watched(self, what: str) -> Waits:
        """Return what the run waits for, and is asked for by: it is run once more for both, and not twice."""
        if self.watched is None:
            with self._stage(f"looking at what {self.target.subject.name} {what}"):
                self.watched = waits_of(self.target, self.seconds)
        return self.watched

    def _idle(self, found: Profile | None, timed: list[CallTimes]) -> str:
        """Say that the run does nothing for much of its time; "" where it hardly does, and where other threads work.

        Where that is nearly all of it, it is watched once more: what for, as far as its first thread shows it.
        """
        idle = timed[0].idle if timed else 0.0
        if idle < IDLE or (found is not None and _works(found) > 1 - IDLE):
            return ""
        rest = "What follows is about the rest"
        if idle >= NEARLY and (told := self._waits_of(found).told(self.target.subject.name)):
            return f"{told}. {rest}"
        answer = ". That is the answer: what it waits for decides" if idle >= NEARLY else ""
        return f"For {idle:.0%} of its time the run does nothing: {WAITS}{answer}. {rest}"

    def _ask_instead(self, hottest: HotFunction) -> str:
        """Say what to ask about where a library's function, or code without a name, has all of the time."""
        elf = elf_as_it_is(self.target.program)
        if elf.is_stripped and elf.debug_file is None:
            return "It was stripped: build it without -s"
        name, symbols = self._callers(hottest)
        if symbols:
            asks = listed((f"-f {shlex.quote(brief(named_as(one)))}" for one in symbols), last="or")
            return f"Ask about what calls {name} there: {asks}"
        return (
            "Ask about the function of the program that calls it (-f FUNCTION), or about the library's own "
            "(-f LIBRARY:FUNCTION)"
        )

    def _callers(self, hottest: HotFunction) -> tuple[str, list[str]]:
        """Return the program's name of a library's function, and the symbols of some functions there that call it.

        Where only `main` does: also of those that call a relative of it, as snprintf is of printf.
        """
        elf = elf_as_it_is(self.target.program)
        # libc's own names of memcpy are __memcpy_avx512_unaligned_erms and the like.
        library = elf_as_it_is(hottest.path).functions if Path(hottest.path).is_file() else {}
        at = library[hottest.symbol].address if hottest.symbol in library else None
        # memcpy and memmove may be one piece of code under two names.
        alike = {hottest.symbol, *(name for name, one in library.items() if one.address == at)}
        parts = {part for name in alike for part in re.split(r"__?|@", name)}
        names = sorted({name for name in elf.imports.values() if name in parts})
        names.sort(key=lambda name: (-len(name), hottest.symbol.find(name)))
        relatives = [each for each in sorted(set(elf.imports.values())) if any(one in each for one in names)]
        asked: list[str] = []
        found: dict[str, None] = {}
        for name in dict.fromkeys([*names, *relatives]):
            if some := list(itertools.islice(callers(elf, name), _CALLERS)):
                asked.append(name)
                found |= dict.fromkeys(some)
            if found.keys() - {"main"}:
                break
        return listed(asked, last="or"), list(found)

    def _calling(self, hottest: HotFunction, mine: HotFunction | None) -> HotFunction | None:
        """Return the function of the program that spends the run in a library's; None where none is known.

        Of several the one whose calls take most of the run, and of those that take about as much the shortest; `main`
        only where no other one takes a good part of it.
        """
        if self.target.script or not hottest.is_system or not Path(hottest.path).is_file():
            return None
        path = str(self.target.program.resolve())
        elf = elf_as_it_is(self.target.program)
        titles = shown({(path, symbol) for symbol in self._callers(hottest)[1]}, {path: elf})
        found = [  # of as many processes as the library's function was in: calls of several cannot be told apart
            HotFunction(title, symbol, path, 0, 0.0, 1, hottest.processes) for (_, symbol), title in titles.items()
        ]
        found += [mine] if mine is not None and mine.symbol not in {each.symbol for each in found} else []
        if len(found) < 2:
            return found[0] if found and (mine is None or found[0].symbol != mine.symbol) else None
        taken: dict[str, float] = {}
        for each in found:
            with self._stage(f"timing the calls of {each.name}, one of {len(found)} that may call {hottest.name}"):
                try:
                    runs, _ = self._timed(each)
                except NeverCalledError:  # an error path, say
                    runs = []
            self.crowded = False
            taken[each.symbol] = float(runs[0].ticks.sum()) if runs else 0.0
        inner = {symbol: time for symbol, time in taken.items() if symbol != "main"}
        most = max(inner.values())
        if most < _PART * taken.get("main", 0.0):
            inner, most = taken, taken["main"]
        much = [each for each in found if inner.get(each.symbol, 0.0) >= _ABOUT * most > 0]
        chosen = min(much, key=lambda each: elf.functions[each.symbol].size, default=None)
        return None if chosen is None or (mine is not None and chosen.symbol == mine.symbol) else chosen

    def _place(self, hot: HotFunction) -> str:
        """Return the library that holds the function, "" for the program itself."""
        return "" if Path(hot.path).resolve() == self.target.program.resolve() else hot.path

    def _timed(self, hot: HotFunction, *, brief: bool = False) -> tuple[list[CallTimes], str]:
        """Return the function's calls timed in some runs, or why they cannot be; those of one run are kept.

        With `brief` the run may end as soon as it is known that they are too short; not where other threads may come.
        """
        runs: list[CallTimes] = []
        try:
            if (hot.path, hot.symbol) not in self.timings:
                with self.ahead.resting():
                    run = self._once(hot, least=BRIEF if brief and hot.threads <= 1 else 0.0)
                if run.brief:
                    return [run], ""
                self.timings[hot.path, hot.symbol] = run
            runs.append(self.timings[hot.path, hot.symbol])
        except (Refusal, UnavailableError) as error:
            return runs, f"{hot.name} cannot be timed call by call: {error}"
        if runs[0].others:
            self.crowded = True
            return [], (
                f"{hot.name} runs in several threads ({runs[0].others:,} calls in others than the first), and those "
                "of one alone can be timed"
            )
        return runs, ""

    def _too_short(self, timed: list[CallTimes]) -> bool:
        """Whether the calls of a function that nobody asked for are too short to be told from what timing costs."""
        return not self.asked and bool(timed) and len(timed[0].ticks) > 1 and middle(timed[0].cycles) < BRIEF

    def _may_overlap(self, timed: list[CallTimes], trace: Trace, calls: Calls, core: Microarchitecture) -> bool:
        """Whether the reorder buffer holds much of the next call.

        Calls are recorded and timed one behind the other, without their caller's code: what a short one returns would
        be what the next one is given, and nothing that the processor does beside each other would be seen.
        """
        held = core.resource("rob").value * calls.count / max(trace.instruction_count, 1)
        is_timed = bool(timed) and len(timed[0].ticks) > 0
        return is_timed and not self.crowded and calls.count > 1 and held >= SHORT

    def _above(
        self, hot: HotFunction, reason: str, timed: list[CallTimes], found: Profile | None, core: Microarchitecture
    ) -> tuple[HotFunction, str, list[CallTimes], Calls, Trace] | None:
        """Return the caller of a function, why it, its times and what was recorded of it; None where that fails."""
        said = len(self.unseen)
        try:
            above, reason, timed = self._caller_of(hot, reason, timed, found)
            if above is hot:
                return None
            calls, trace = self._recorded(above, timed, found)
            return above, reason, timed, calls, self._where_the_time_goes(found, above, trace, core)
        except (DataError, Refusal, UnavailableError) as error:
            self.longer, self.before, self.placed, self.crowded = None, None, False, False
            self.unseen[said:] = [
                f"what {hot.name} does in the function that calls it, which cannot be recorded: {error}"
            ]
            return None

    def _caller_of(
        self, hot: HotFunction, reason: str, timed: list[CallTimes], found: Profile | None
    ) -> tuple[HotFunction, str, list[CallTimes]]:
        """Return the nearest caller whose calls can be timed; the function itself where there is none.

        What such a function waits for is often its caller's: a loop that calls it, or a table of functions.
        """
        caller, runs = hot, timed
        within: tuple[HotFunction, str, list[CallTimes]] | None = None  # the last caller of a library: qsort
        much = False  # whether the library's callers have much of the run
        for _ in range(_UP):
            above = _returned_to(runs[0], self._known(found))
            if above is None or (above.symbol, above.path) == (caller.symbol, caller.path):
                break
            if above.is_system and (self.target.script or _STARTS.fullmatch(above.symbol)):
                break
            caller = above
            if within and caller.symbol == "main" and _lasts(found) > _FAR_IN * self.limit:
                break
            much = much or (caller.is_system and caller.share >= _MUCH)
            if caller.is_system and (first := self._passed_on(caller, found)) is not None:
                runs = [first]
                continue
            with self._stage(f"timing the calls of {caller.name}, which calls {hot.name}"):
                runs, _ = self._timed(caller, brief=True)
                if runs and runs[0].brief and middle(runs[0].cycles) >= BRIEF:  # half of its first calls were shorter
                    runs, _ = self._timed(caller)
            if not runs or self.crowded:
                self.crowded = False
                break
            if len(runs[0].ticks) <= 1 or middle(runs[0].cycles) >= BRIEF:
                chosen = caller, f"it calls {hot.name}, {reason}, whose calls are too short to be explained alone", runs
                if caller.is_system:
                    within = chosen if within or much else None
                elif within and float(runs[0].cycles.mean()) > _FAR_IN * self.limit:
                    break  # too long to be recorded whole, and where in it the library was called not to be seen
                else:
                    return chosen
        return within or (hot, reason, timed)

    def _passed_on(self, caller: HotFunction, found: Profile | None) -> CallTimes | None:
        """Return the first call of a system's function that another one of the system calls, which is explained then.

        None of others, and where the first call takes long: their calls are all timed.
        """
        try:
            with self._stage(f"asking what calls {caller.name}"):
                first = self._once(caller, calls=1, seconds=_GLANCE)
        except (DataError, Refusal, UnavailableError):
            return None
        above = _returned_to(first, self._known(found)) if len(first.ticks) and not first.others else None
        if above is None or not above.is_system or _STARTS.fullmatch(above.symbol):
            return None
        return first if (above.symbol, above.path) != (caller.symbol, caller.path) else None

    def _known(self, found: Profile | None) -> dict[tuple[str, str], HotFunction]:
        return {(each.path, each.symbol): each for each in found.functions} if found else {}

    def _team(self, hot: HotFunction, core: Microarchitecture) -> Team | None:
        """Record all threads, and simulate them beside each other.

        Raises
        ------
        DataError
            They cannot be recorded together, and one alone cannot be told from the others.
        """
        limit = min(self.limit, max(_OF_A_THREAD, 2 * self.limit // max(hot.threads, 2)))
        tracer = Tracer(
            limit=limit, callees=True, timeout=_PATIENCE + 4 * self.seconds,
            library=self._place(hot), stdin=self.target.stdin,
        )  # fmt: skip
        run = self.timings.get((hot.path, hot.symbol))
        once = run is not None and not run.ended and run.calls + run.others <= max(hot.threads, 2)
        try:
            team = team_of(
                tracer, self.target.subject, hot.symbol, self.target.arguments, core, hot.name, once=once, say=self.say
            )
        except (DataError, SettingError, UnavailableError) as error:
            if self.crowded:
                raise DataError(
                    f"{hot.name} runs in several threads, which cannot be recorded together: {error}. Run the program "
                    "with one thread"
                ) from error
            self.unseen.append(f"how {hot.name}'s threads run beside each other: {error}")
            return None
        return replace(team, explained=self.crowded, sampled=tuple(map(int, hot.by_thread.split())))

    def _beside(self, found: Profile | None, hot: HotFunction) -> str:
        """Say that other threads, which run other functions, write the lines of memory that this one does."""
        thread = hot.thread if hot.samples else self.inner.thread if self.inner is not None else -1
        if found is None or found.unit != "samples" or thread < 0 or hot.threads > 1:
            return ""
        others = [
            each
            for each in found.functions
            if each.share >= _BESIDE and each.thread not in (thread, -1) and not (each.is_system or each.only_waits)
        ]
        held = [each for each in others if each.path == hot.path and each.symbol and each.symbol != hot.symbol]
        if elsewhere := [each for each in others if each not in held]:
            self.unseen.append(f"{_not_compared(elsewhere)}: another file's functions are not recorded with it")
        if not held:
            return ""
        tracer = Tracer(
            limit=min(self.limit, _RAN_BESIDE), repeat=_CALLS_BESIDE, callees=True, early=True, timeout=_PATIENCE,
            library=self._place(hot), stdin=self.target.stdin,
        )  # fmt: skip
        try:
            with self._stage(f"recording what other threads run beside {hot.name}"):
                by_turns = written_beside(tracer, self.target.subject, hot, held, self.target.arguments)
        except (DataError, SettingError, UnavailableError) as error:
            self.unseen.append(f"{_not_compared(held)}: {error}")
            return ""
        if by_turns:
            self.say(f"{by_turns}. What would help besides comes next.")
        else:
            self.unseen.append(f"{_other_threads(held)}, but for the lines of memory that all write: none at first")
        return by_turns

    def _tracer(self, hot: HotFunction, calls: Calls, limit: int, after: float = 0.0, count_to: int = 0) -> Trace:
        """Record calls with their callees; what that warns of is said under "not seen"."""
        tracer = Tracer(
            limit=limit, skip=calls.skip, repeat=calls.count, callees=True, early=True, after=after, count_to=count_to,
            timeout=_PATIENCE + 4 * self.seconds, library=self._place(hot), stdin=self.target.stdin,
            pointed=self._within(hot),
        )  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PerfkitWarning)
            return tracer.run(self.target.subject, hot.symbol, self.target.arguments)

    def _within(self, hot: HotFunction) -> list[tuple[str, int]]:
        """Return code that the function most likely reaches through pointers: recording begins anew for what it meets.

        What is called back, which was hot itself before its caller was taken; and of what the program's own function
        calls, where the run was seen in the system's libraries.
        """
        inner = self.inner
        found = []
        if inner is not None and inner is not hot:
            found = [(inner.path, elf_as_it_is(inner.path).functions[inner.symbol].address)]
        if self.found is None or hot.is_system or self.found.unit != "samples":
            return found
        libraries = {each.path for each in self.found.functions if each.is_system and Path(each.path).is_file()}
        rows = self.found.addresses[self.found.addresses["file"].isin(libraries)]
        return found + list(zip(rows["file"].tolist(), rows["address"].astype(int).tolist(), strict=True))[:_SEEN]

    def _once(
        self, hot: HotFunction, calls: int = 0, environment: Mapping[str, str] | None = None, least: float = 0.0,
        seconds: float = math.inf,
    ) -> CallTimes:  # fmt: skip
        return time_calls(
            self.target.subject, hot.symbol, self.target.arguments, library=self._place(hot),
            stdin=self.target.stdin, seconds=min(seconds, self.seconds), calls=calls, environment=environment,
            least=least,
        )  # fmt: skip

    def _again(self, hot: HotFunction, calls: int) -> list[CallTimes]:
        """Time the first so many calls a few times more: the least disturbed run counts."""
        runs: list[CallTimes] = []
        began = time.monotonic()
        with self.ahead.resting():
            while len(runs) < _RUNS and time.monotonic() - began < _AGAIN:
                runs.append(self._once(hot, calls))
        return runs

    def _recorded(self, hot: HotFunction, timed: list[CallTimes], found: Profile | None) -> tuple[Calls, Trace]:
        """Record whole calls, fewer where they are longer than there is room for.

        More of a longer call is recorded, but not simulated, where it was timed or no samples say where its time goes.
        A single call that is far longer is recorded where its samples are at once, and counted after the first answer.
        """
        calls, cycles = Calls(0, 1), timed[0].cycles if timed else np.zeros(0)
        if len(cycles):
            calls = choose_calls(_own_cycles(timed[0]), self.limit, most=_AHEAD)
        longest = cycles[0] if len(cycles) == 1 else _goes_on(timed)
        if longest > _ENDLESS * self.limit and (middle_part := self._from_the_middle(found, hot, _FITS)) is not None:
            self.uncounted = bool(len(cycles))
            return calls, middle_part
        while True:
            try:
                trace = self._first_of(hot, calls, timed)
            except LeavingError as error:
                calls = self._beside_exception(calls, timed, error)
                continue
            # What a jump leaves has not returned: the next calls are taken for calls within it, and not recorded.
            begun = _entered(trace, hot)
            if trace.provenance.complete and begun and begun < calls.count:
                self.left = calls.count - begun
                self.say(f"only {begun:,} of {calls.count:,} calls were recorded: recording fewer")
                calls = fewer(calls) if begun > 1 else replace(calls, count=1)
                continue
            if not trace.provenance.complete and (held := whole_calls(trace, _begins(trace, hot))) is not None:
                trace, count = held
                calls = replace(calls, count=count)
            if trace.provenance.complete or calls.count == 1:
                break
            self.say(f"{calls.count:,} calls are more than {self.limit:,} instructions: recording fewer")
            calls = fewer(calls)
        if not timed and trace.provenance.complete:
            return self._more(hot, trace)
        unsure = found is None or few(found)
        if not trace.provenance.complete and self.longer is None and (unsure or _returned(timed, calls)):
            self.say(f"one call is more than {self.limit:,} instructions: counting them")
            try:
                self.longer = self._counting(hot, calls, timed)
            except UnavailableError:  # counting so far takes more address space than a limit (ulimit -v) leaves
                self.longer = self._tracer(hot, calls, _FAR_IN * self.limit)
        if timed and len(timed[0].ticks):
            calls = judged(calls, _own_cycles(timed[0]))
        return calls, trace

    def _first_of(self, hot: HotFunction, calls: Calls, timed: list[CallTimes]) -> Trace:
        """Record calls; of one that may be longer than the limit more at once, of which the first is returned.

        Recording once takes seconds, mostly for copying the code.
        """
        may_be = calls.count == 1 and _returned(timed, calls)
        is_long = may_be and _QUICKEST * float(timed[0].cycles[calls.skip]) > self.limit
        if not is_long:
            return self._tracer(hot, calls, self.limit)
        try:
            longer = self._counting(hot, calls, timed)
        except UnavailableError:  # see `_recorded`
            return self._tracer(hot, calls, self.limit)
        if longer.provenance.complete and longer.instruction_count <= self.limit:
            return longer
        self.longer, limit = longer, f"limit of {self.limit} instructions"
        part = longer.part(*windows_of(longer, self.limit)[0], limit)
        return replace(part, provenance=replace(part.provenance, complete=False, stopped=limit))

    def _counting(self, hot: HotFunction, calls: Calls, timed: list[CallTimes]) -> Trace:
        """Record further than the limit, and count where the call was timed to its end, and takes some seconds."""
        can = _returned(timed, calls) and float(timed[0].cycles[calls.skip]) < _COUNTABLE
        return self._tracer(hot, calls, _FAR_IN * self.limit, count_to=_COUNT_TO if can else 0)

    def _count(self, hot: HotFunction, calls: Calls) -> None:
        """Count the instructions of a call of which a part is recorded, which tells the part's share of its time."""
        try:
            self.longer = self._tracer(hot, calls, self.limit, count_to=_COUNT_TO)
        except (DataError, UnavailableError) as error:
            self.unseen.append(f"how many instructions the call has: {error}")

    def _beside_exception(self, calls: Calls, timed: list[CallTimes], error: LeavingError) -> Calls:
        """Return other calls, where one of those that were to be recorded is left by an exception: fewer, then later.

        Raises
        ------
        LeavingError
            All that were tried are.
        """
        self.others += calls.count == 1
        known = len(timed[0].ticks) if timed else 0
        if calls.count > 1:
            self.say(f"one of {calls.count:,} calls is left by an exception, or longjmp: recording fewer")
            return fewer(fewer(calls))  # each attempt takes seconds, and most calls are recorded until one is left
        if self.others > _TRIES or calls.skip + 1 >= known:
            raise error
        return replace(calls, skip=calls.skip + 1)

    def _more(self, hot: HotFunction, first: Trace) -> tuple[Calls, Trace]:
        """Record as many calls behind the first as there is room for, where none was timed: it meets empty caches."""
        count = min(self.limit // max(first.instruction_count, 1) // 2, _UNTIMED)
        while count:
            calls = Calls(1, count)
            try:
                trace = self._tracer(hot, calls, self.limit)
            except DataError:  # so many calls there are not
                break
            if trace.provenance.complete:
                self.unseen.append(
                    f"calls but {count:,}, at most, from the second on: how many there are, nobody counted"
                )
                return calls, trace
            count //= 8
        self.unseen.append("calls but the first, which meets empty caches: how many there are, nobody counted")
        return Calls(0, 1), first

    def _where_the_time_goes(
        self, found: Profile | None, hot: HotFunction, trace: Trace, core: Microarchitecture
    ) -> Trace:
        """Return the recording, or of a call that is not whole a later part of it, where the run spends its time.

        The samples say where that is, and when; without enough of them, and where the beginning runs other code than
        the rest, simulating all that was recorded of the call does.

        Raises
        ------
        DataError
            The samples lie in code that the recording does not reach: it would explain something else.
        """
        inside = _seen(found, trace) if found is not None and not few(found) else None
        if trace.provenance.complete or self.placed:  # whole, or recorded where its samples are
            return trace
        if (steady := self._steady(found, hot)) is not None:
            return steady
        if inside is None and self.longer is not None and share_of(trace, self.longer) is None:
            self.ahead.wait("memory", "time")
            self.say(f"the beginning of {hot.name} is not like the rest: simulating {self.longer.instruction_count:,}")
            slowest = int(Gus(core).run(self.longer).spent.sum(axis=1).argmax())
            later = from_address(self.longer, int(self.longer.object_addresses()[slowest]), self.limit)
            assert later is not None
            self.unseen.append(f"what {hot.name} runs outside of the part that takes longest, by simulating the call")
            return later
        if inside is None or inside >= _COVERED:
            return trace
        assert found is not None
        self.say(f"the beginning of {hot.name} is not what takes the time: recording further")
        longer = self.longer or self._tracer(hot, Calls(0, 1), _FAR_IN * self.limit)
        part = from_address(longer, _hottest(found, hot), self.limit)
        if part is None or (_seen(found, part) or 0.0) < _COVERED:
            raise DataError(
                f"one call of {hot.name} runs longer than can be recorded, and its first "
                f"{longer.instruction_count:,} instructions do not reach the code where the samples are. Record more "
                "(--limit), run a smaller problem, or name a function that it calls (-f)"
            )
        self.unseen.append(f"what {hot.name} runs before its hot code, and after the part that is recorded")
        return part

    def _steady(self, found: Profile | None, hot: HotFunction) -> Trace | None:
        """Return a part from the middle of a call that is longer than what is simulated; None where none is known.

        Of a call that was recorded whole its middle, if that runs what all of it runs; so of one that was counted to
        its end, the middle of what was recorded of it. What ran before the part is kept: it warms the caches.
        """
        if self.longer is not None and (self.longer.provenance.complete or "counted" in self.longer.provenance.extra):
            parts = windows_of(self.longer, self.limit)
            part = self._part(self.longer, *parts[len(parts) // 2])
            if self._whole(part) is not None:
                return part
            self.before, self.placed = None, False
            if self.longer.provenance.complete:
                return None
        return self._from_the_middle(found, hot)

    def _from_the_middle(self, found: Profile | None, hot: HotFunction, least: float = _LEAST_PART) -> Trace | None:
        """Return a part of a long call that runs when half of the samples of its hottest code have been taken.

        None where that is not known, or the call returns before `least` of the limit has been recorded.
        """
        moment = math.nan if found is None or few(found) else _half_done(found, self.inner or hot)
        for after in (moment, moment / 2):  # the run may be shorter this time
            if not after > 0:
                break
            self.say(f"one call is longer than can be recorded: recording it from {after:.2f} s of the run on")
            try:
                longer = self._tracer(hot, Calls(0, 1), _FAR_IN * self.limit, after)
            except (DataError, UnavailableError):
                continue
            if longer.instruction_count < least * self.limit:
                continue  # as an inner call of a recursion, which has returned to what is not recorded
            assert found is not None
            parts = windows_of(longer, self.limit)
            seen = [_seen(found, longer.part(*each, "")) or 0.0 for each in parts]
            chosen = max(range(len(parts)), key=lambda k: (round(seen[k], 1), k))
            if seen[chosen] >= _COVERED:
                part = self._part(longer, *parts[chosen])
                self.ran_on = longer.instruction_count > _NEARLY_ALL * _FAR_IN * self.limit
                how = f", which is longer than {_FAR_IN * self.limit:,} instructions" if self.ran_on else ""
                self.unseen.append(
                    f"the rest of the call{how}: what is explained ran after {after:.2f} s, when half of the samples "
                    "of its hottest code had been taken"
                )
                return part
        return None

    def _after_what_ran(self, core: Microarchitecture, calls: Calls, trace: Trace) -> float:
        """Return the cycles of a part of a call with what ran before it in the caches; 0 where that is not known.

        Of the beginning of a later call that is the call before: as much of it as was recorded, which leaves the end of
        the data there, and not what the part itself touches.
        """
        if self.before is not None:
            return Gus(core).cycles_after(self.before, trace)
        if not calls.skip or self.longer is None or trace.provenance.complete:
            return 0.0
        part = trace if trace.code is self.longer.code else self.longer.head(trace.instruction_count)
        return Gus(core).cycles_after(self.longer, part)

    def _learnt(
        self,
        states: Sequence[GusResult],
        core: Microarchitecture,
        calls: Calls,
        trace: Trace,
        measured: Measured | None,
    ) -> Sequence[GusResult]:
        """Return the simulations, without mispredictions where those alone explain why more is simulated than measured.

        Calls with the same data meet the same outcomes again and again: a processor learns some ten thousand of them
        by heart, the simulated predictor fewer.
        """
        warm = states[1]
        if measured is None or not calls.skip or not warm.branches[1] or self.expected:
            return states
        if warm.cycles <= (1 + FAR) * measured.cycles:
            return states
        without = float(warm.settings.cycles(trace, (core,), mispredicted=False)[0])
        if abs(math.log(max(without, 1.0) / measured.cycles)) > math.log(1 + FAR):
            return states
        self.unseen.append(
            f"mispredicted branches: with the {warm.branches[1]:,} that the simulated predictor misses "
            f"{warm.cycles:,.0f} cycles are simulated, and {without:,.0f} without, near the measured time. Outcomes "
            "that come again in every call are learnt by heart: with other data in each call they would cost that"
        )
        return states[0], Gus(core, warm="predicted").run(trace)

    def _part(self, longer: Trace, first: int, last: int) -> Trace:
        """Return so many blocks, and keep what ran before them: never a whole call, though it may end with the call."""
        limit = f"limit of {self.limit} instructions"
        self.before, self.placed = longer.part(0, first, limit) if first else None, True
        part = longer.part(first, last, limit)
        return replace(
            part, provenance=replace(part.provenance, complete=False, stopped=part.provenance.stopped or limit)
        )

    def _simulated(self, states: Sequence[GusResult], calls: Calls, measured: Measured | None) -> GusResult:
        """Return the nearest of both simulations; say what else it might have been, where that is far from it."""
        warm = states[1]
        taken, other, why = _nearest(states, calls, measured, self.expected)
        if self.expected and abs(taken.cycles / self.expected - 1) > FAR:
            self.unseen.append(
                f"BEWARE: with what ran before it in the caches, {self.expected:,.0f} cycles of this part are simulated"
            )
        if abs(other.cycles / max(taken.cycles, 1.0) - 1) > FAR:
            held = ("empty caches", "these calls' data in the caches")
            self.unseen.append(
                f"what the caches held before: {held[taken is warm]} taken ({why}); with {held[other is warm]} "
                f"{other.cycles:,.0f} cycles are simulated"
            )
        return taken

    def _measured(
        self, timed: list[CallTimes], calls: Calls, trace: Trace, why_not: str, core: Microarchitecture
    ) -> tuple[Measured | None, str]:
        """Return the cycles of the recorded calls, or why they are not known."""
        if why_not or not timed:
            return None, why_not
        part = self._whole(trace)
        if part is None:
            return None, self._in_part(trace)
        last = calls.skip + calls.count
        whole = _clocked([run for run in timed if len(run.ticks) >= last])
        if not whole:
            return None, "the recorded call did not return while it was timed"
        per_call = min(float(np.median(run.cycles[calls.skip : last])) for run in whole)
        if per_call < BRIEF:
            return None, (
                f"the calls are too short to time: about {per_call:,.0f} cycles each with what timing costs; at least "
                f"{BRIEF:,.0f} are needed. Name the function that makes them (-f)"
            )
        seconds = [per_call / run.cycles_per_second if run.cycles_per_second else 0.0 for run in whole]
        off = [run.shared if long >= _INTERRUPTED else 0.0 for run, long in zip(whole, seconds, strict=True)]
        sums = [
            part * float(run.cycles[calls.skip : last].sum()) * (1 - less) for run, less in zip(whole, off, strict=True)
        ]
        least = min(sums)
        if least <= 0 or trace.instruction_count / least > _WIDEST * core.resource("retire").value:
            return None, (
                f"the timed calls took {least:,.0f} cycles, too few for the {trace.instruction_count:,} instructions "
                "recorded: the runs of this program are not alike"
            )
        at = int(np.argmin(sums))
        best = whole[at]
        faults = min(float(touched_pages(trace)), part * best.faults_in(calls.skip, calls.count))
        middle_run = float(np.median(sums))
        mine = best.cycles[calls.skip : last]
        is_brief, alike = 0 < seconds[at] < _SLICE, 0.0  # longer ones may all be interrupted alike
        if is_brief and len(mine) >= _SEVERAL:
            alike = float(np.median(mine)) * len(mine) / float(mine.sum())
        if is_brief and len(whole) >= STEADY[0]:  # no call is interrupted in all of so many runs
            quickest = np.min([run.cycles[calls.skip : last] for run in whole], axis=0)
            alike = max(alike, float(quickest.sum()) / float(mine.sum()))
        return Measured(
            least,
            max(sums),
            len(sums),
            calls.count,
            middle_run,
            part,
            best.waited,
            faults,
            taken_off=off[at] > 0,
            kernel=max(run.kernel for run in whole),
            subnormal=any(run.subnormal for run in whole),
            alike=alike,
        ), ""

    def _sampled_quietly(
        self, found: Profile | None, trace: Trace, simulated: float, recorded: int = 0
    ) -> Measured | None:
        """Return `_by_samples`; of two runs the quicker, where the first was far slower than what is simulated.

        The first run is beside what compiles the simulators, and whatever else a processor's other thread does.
        """
        measured = self._by_samples(found, trace, recorded)
        if measured is None or simulated >= (1 - FAR) * measured.cycles:
            return measured
        try:
            with self.ahead.resting(), self._stage("watching the run once more: it was slower than what is simulated"):
                again = self._by_samples(self._profile(), trace, recorded)
        except (DataError, UnavailableError):
            return measured
        return again if again is not None and again.cycles < measured.cycles else measured

    def _by_samples(self, found: Profile | None, trace: Trace, recorded: int) -> Measured | None:
        """Return about how long a part of a caller takes by the samples of its code and the short calls in it.

        The run's samples count processor time, and all calls of the hottest function were counted: each comes with as
        much of its caller's time. Where only such calls themselves are recorded, without their caller, these are so
        many. None where that is not known, or by too few samples.
        """
        inner = self.inner
        if inner is None or found is None or not (runs := self._timed(inner)[0]):
            return None
        run = runs[0]
        if not (each := _cycles_of_a_sample(found, run)):
            return None
        samples, _ = _hits(found, trace)
        entry = np.uint64(elf_as_it_is(inner.path).functions[inner.symbol].address)
        code = trace.code
        own = np.array([name == inner.symbol for name in code.function])
        at = np.flatnonzero((trace.object_addresses() == entry) & own)
        calls = recorded
        if len(at) and not recorded:  # calls within a call are no calls of their own: nor did the clock count them
            begins = trace.stream == code.block[at[0]]
            calls = int(np.count_nonzero(begins[1:] & ~own[code.block_start[trace.stream[:-1]]]))
        if samples < _SAMPLES or not calls:
            return None
        cycles = samples * each * calls / run.calls
        return Measured(cycles, cycles * (1 + 2 / math.sqrt(samples)), 0, 0, samples=samples)

    def _whole(self, trace: Trace) -> float | None:
        """Return which share of whole calls is recorded: 1, or less of one call that is longer and runs alike."""
        if trace.provenance.complete:
            return 1.0
        if self.longer is None:
            return None
        shared = share_of if self.longer.provenance.complete else share_of_counted
        return shared(trace, self.longer)

    def _in_part(self, trace: Trace) -> str:
        """Say why a part of a call is not compared with what the whole call takes."""
        known = self.longer is not None and (
            self.longer.provenance.complete or "counted" in self.longer.provenance.extra
        )
        if self.before is not None and not known:
            if not self.ran_on:
                return "a part of one call is recorded, and how long that is nobody counted"
            return f"one call is longer than {_FAR_IN * self.limit:,} instructions, and how long nobody counted"
        if self.longer is None:
            return f"only a part of one call is recorded ({trace.provenance.stopped})"
        if not self.longer.provenance.complete and "counted" not in self.longer.provenance.extra:
            return f"one call is longer than can be counted ({self.longer.provenance.stopped})"
        whole = int(self.longer.provenance.extra.get("counted", self.longer.instruction_count))
        return (
            f"the recorded part of one call runs other code than the rest of its {whole:,} instructions (--limit "
            "records more)"
        )

    def _noise(self, hot: HotFunction, calls: Calls) -> NoiseResult | PerfkitError:
        """Return what noise in the hot loop of the first recorded call shows, or why there is none."""
        place = self._place(hot)
        function = f"{place}:{hot.symbol}" if place else hot.symbol
        if self.target.script:
            return DataError(f"noise is added to programs, and {self.target.subject.name} is a script")
        self.say(f"adding noise to the hot loop of {hot.name}, and timing it")
        words, stdin = self.target.arguments, self.target.stdin
        try:
            with warnings.catch_warnings(), self.ahead.resting():
                warnings.simplefilter("ignore", PerfkitWarning)
                return Noise().run_program(self.target.program, function, words, stdin=stdin, call=calls.skip + 1)
        except PerfkitError as error:
            return error

    def _doubts(
        self,
        found: Profile | None,
        result: GusResult,
        measured: Measured | None,
        timed: list[CallTimes],
        calls: Calls,
        inside: float | None,
    ) -> Iterator[str]:
        """Yield why the answer may not hold: other code or calls have the time, calls without their caller."""
        trace, rob = result.trace, result.settings.core.resource("rob").value
        if (thrown := _thrown(found)) >= _HALF:
            yield (
                f"exceptions have {thrown:.0%} of the run: what holds the function back is about the other "
                f"{1 - thrown:.0%}, and what would gain there changes nothing of them"
            )
        if inside is not None and inside < _MOSTLY and found is not None and not few(found):
            outside = f"{1 - inside:.0%} of this function's samples"
            yield f"{outside} lie in code that was not recorded, and is not explained"
        elif timed and (part := _part_of_time(found, trace, measured, timed[0])) < _ALIKE:
            yield (
                f"calls like those that were recorded have about {part:.1%} of this function's time: a few that take "
                "far longer have the most, and are not explained"
            )
        elif timed and not calls.is_like_the_mean and calls.alike < _MOST_ALIKE and middle(timed[0].cycles) >= BRIEF:
            yield (
                f"its calls are of several kinds: those recorded take {calls.typical:.2f} times the mean, and "
                f"calls about as long have {calls.alike:.0%} of its time; what holds the others back is not explained"
            )
        if self.left:
            yield (
                "uncertain: its calls do not return one by one (longjmp, or an exit, leaves them), so that fewer are "
                "recorded than begin, and what is measured of one lasts until another begins"
            )
        held = rob / max(result.instructions, 1) * result.cycles
        if self.bare and (measured is None or held * measured.calls < SHORT * measured.cycles):  # else it says so
            yield (
                "uncertain: its calls are so short that what calls them decides how long they take, and they were "
                "recorded and simulated one behind the other, without that code"
                + ("; ask without -f, or about the function that calls it" if self.asked else "")
            )
        if self.asked or found is None:
            return
        covered = _covered(found, trace)
        waits = _waits(found)
        if covered < _SMALL and covered < 1 - covered - waits:
            elsewhere = _elsewhere(found, {name for name in trace.code.function if name})
            yield f"what is explained has only {covered:.1%} of the run{elsewhere}"

    def _later(self, found: Profile | None) -> str:
        """Say that the run was stopped before its end, where nobody named the function."""
        if self.asked or found is None or not found.ended.startswith(STOPPED):
            return ""
        return (
            f"The run was {found.ended}, and what it does later was not seen (--timeout {10 * self.seconds:g} watches "
            "it longer)"
        )

    def _look(
        self,
        found: Profile | None,
        hot: HotFunction,
        timed: list[CallTimes],
        calls: Calls,
        trace: Trace,
        inside: float | None,
    ) -> None:
        """Say what the answer does not know of; `inside` of the samples are in code that was recorded (`_seen`)."""
        origin, unseen = trace.provenance, self.unseen
        if found is not None:
            if found.ended:
                unseen.append(f"the run was {found.ended}: what comes later is not in these shares")
            if few(found):
                unseen.append(f"only {found.total} samples were taken: the order of the functions is uncertain")
            names = {name for name in trace.code.function if name}
            covered = _covered(found, trace)
            if covered < 0.995:
                unseen.append(f"{1 - covered:.0%} of the run, outside of what was recorded{_elsewhere(found, names)}")
            if inside is not None and inside < 0.8:
                unseen.append(
                    f"BEWARE: {1 - inside:.0%} of the samples in {hot.name} lie in code that was not recorded"
                )
        if not origin.complete and not self.placed:
            unseen.append(f"the rest of the call: recording ended at the {origin.stopped} (--limit)")
        if timed and len(timed[0].ticks):
            n, ended = timed[0].calls, timed[0].ended
            if calls.count < n:
                # How many a run that was stopped would have made, nobody counted: that depends on the machine's load.
                some = (
                    f"all but {calls.count:,} of at least {n:,} calls (their run was {ended})"
                    if ended
                    else f"{n - calls.count:,} of {n:,} calls"
                )
                unseen.append(
                    f"{some}; the recorded ones are from call {calls.skip + 1:,} on"
                    + (
                        f" and take {calls.typical:.2f} times the mean, the longest and shortest twentieth left out"
                        if middle(timed[0].cycles) >= BRIEF
                        else ""
                    )
                )
        if left := origin.extra.get("not_followed_calls"):
            unseen.append(f"calls that were not followed: {_short(left)}")
        if note := origin.extra.get("no_lines"):
            unseen.append(f"source lines: {note}")
        unseen += _left_out(origin.extra)


def _nearest(
    states: Sequence[GusResult], calls: Calls, measured: Measured | None, expected: float = 0.0
) -> tuple[GusResult, GusResult, str]:
    """Return, of the simulations with empty caches and with the calls' own data, the one nearer to the measured.

    What came before the recorded calls is not recorded: their data may lie in the caches, or never have been seen.
    Of a part of a call it is, and `expected` are the cycles that are simulated with it. Where calls came before, their
    data are taken to be there as long as the measured time allows it. Returned are the one that is taken, the other,
    and why. Where other programs had the processors for a part of the time, the measured time tells them apart only if
    it does with that part and without it: one answer was of empty caches, and the next one not.
    """
    cold, warm = states
    before = (warm, cold, "calls came before") if calls.skip else (cold, warm, "no call came before")
    if expected:
        apart = [abs(math.log(max(each.cycles, 1.0) / expected)) for each in states]
        taken, other = (cold, warm) if apart[0] < apart[1] else (warm, cold)
        return taken, other, "nearer to what is simulated with what ran before in the caches"
    if measured is None:
        return before
    # Without their time, and in the same caches, other programs do not make anything so much slower.
    is_clear = measured.taken_off and measured.cycles > _NOT_BY_OTHERS * warm.cycles
    found = [
        _nearer(cold, warm, target, came_before=bool(calls.skip))
        for target in (measured.cycles if is_clear else measured.least, measured.cycles)
    ]
    if found[0][0] is found[1][0]:
        return found[1]
    others = f"other programs had the processors for {measured.waited:.0%} of the run"
    return *before[:2], f"{before[2]}; the measured time does not decide it, for {others}"


def _nearer(cold: GusResult, warm: GusResult, target: float, *, came_before: bool) -> tuple[GusResult, GusResult, str]:
    """Return the simulation that is nearer to some cycles, the other one, and why."""
    apart = [abs(math.log(max(each.cycles, 1.0) / max(target, 1.0))) for each in (cold, warm)]
    if came_before and apart[1] <= math.log(1 + FAR):
        return warm, cold, "calls came before, and it is near the measured time"  # empty ones may be nearer by chance
    return *((cold, warm) if apart[0] < apart[1] else (warm, cold)), "nearer to the measured time"


def _entered(trace: Trace, hot: HotFunction) -> int:
    """Return how many calls of a function are in what was recorded of it, inner ones left out; 0 if not known."""
    return len(_begins(trace, hot))


def _begins(trace: Trace, hot: HotFunction) -> NDArray[np.int64]:
    """Return the blocks that each recorded call of a function begins with, inner ones left out; none if not known.

    The caller's code is not recorded: a call begins behind the last one's end, and an inner one behind what calls it.
    """
    nothing = np.zeros(0, dtype=np.int64)
    symbol = elf_as_it_is(hot.path).functions.get(hot.symbol)
    if symbol is None:
        return nothing
    code = trace.code
    own = np.array([name == hot.symbol for name in code.function])
    at = np.flatnonzero((trace.object_addresses() == np.uint64(symbol.address)) & own)
    if not len(at):
        return nothing
    entry, start = int(code.block[at[0]]), int(code.pc[at[0]])
    last = code.block_start[1:] - 1
    calls = np.array([code.text[k].startswith("call") for k in last])
    leads = np.array([bool(re.match(rf"j.*\b0*{start:X}h$", code.text[k])) for k in last])
    goes_on = np.array([not code.text[k].startswith(("ret", "jmp")) for k in last])
    leads |= goes_on & (code.pc[last] + np.array([len(code.encoding[k]) for k in last], dtype=np.uint64) == start)
    behind = np.flatnonzero(trace.stream[1:] == entry)
    return np.concatenate(([0], 1 + behind[~(calls | leads)[trace.stream[behind]]]))


def _clocked(runs: list[CallTimes]) -> list[CallTimes]:
    """Return the runs whose clock was read beside a core as fast as the fastest one's, about.

    What disturbs that reading makes a cycle seem long, and the calls short: the least would be of that run.
    """
    rates = [float(np.mean(run.ticks_per_cycle)) for run in runs]
    return [run for run, rate in zip(runs, rates, strict=True) if rate <= _CLOCKS * min(rates)]


def _returned(timed: list[CallTimes], calls: Calls) -> bool:
    """Whether the first of some calls was timed to its end."""
    return bool(timed) and len(timed[0].ticks) > calls.skip


def _is_countable(timed: list[CallTimes], simulated: GusResult) -> bool:
    """Whether the instructions of a long call can be counted to its end: not if it most likely has more."""
    own = float(timed[0].cycles[0]) * (1 - timed[0].shared)  # without others' turns
    return own < _COUNTABLE and own / simulated.cpi < _IN_VAIN * _COUNT_TO


def _own_cycles(run: CallTimes) -> NDArray[np.float64]:
    """Return the cycles of each timed call, without what other programs took."""
    return undisturbed(run.cycles, max(run.waited, run.shared))


def _goes_on(timed: list[CallTimes]) -> float:
    """Return the cycles, at least, of a single call that had not returned when the run was stopped; 0 for others."""
    alone = bool(timed) and not len(timed[0].ticks) and timed[0].unfinished and timed[0].calls == 1
    return timed[0].seconds * _SLOWEST if alone else 0.0


def _returned_to(times: CallTimes, known: dict[tuple[str, str], HotFunction]) -> HotFunction | None:
    """Return the function that the last timed call returned to; None where no symbol names it."""
    files: dict[str, ElfFile | None] = {}
    where = place(times.returned - 1, mapped_code(times.maps), files)
    elf = opened(where.path, files)
    symbol = elf.function_at(where.address) if elf is not None else None
    if symbol is None:
        return None
    path = str(Path(where.path).resolve())
    title = shown({(path, symbol.name)}, {path: elf})[path, symbol.name]
    return known.get((path, symbol.name)) or HotFunction(title, symbol.name, path, 0, 0.0, 1, 1)


def _called_at(hot: HotFunction, times: CallTimes, program: Path) -> str:
    """Say where the program calls a library's function, by the last call that was timed; "" where that is not known."""
    where = place(times.returned - 1, mapped_code(times.maps), {})
    path = Path(where.path)
    if not path.is_file() or path.resolve() != program.resolve():
        return ""
    symbol = elf_as_it_is(path).function_at(where.address)
    file, line = places_of(path, [where.address]).get(where.address, ("", 0))
    at = f"{Path(file).name}:{line}" if line else f"{where.address:#x}"
    by = f" in {brief(named_as(symbol.name))}" if symbol is not None else ""
    return f"{brief(hot.name)} of {hot.library} is called at {at}{by}"


def _hottest(found: Profile, hot: HotFunction) -> int:
    """Return the sampled address of a function that has most samples."""
    symbol = elf_as_it_is(hot.path).functions[hot.symbol]
    inside = range(symbol.address, symbol.address + symbol.size)
    rows = found.addresses[found.addresses["file"] == hot.path]
    return next((int(address) for address in rows["address"] if address in inside), symbol.address)


def _half_done(found: Profile, hot: HotFunction) -> float:
    """Return the seconds of user time after which half of the hottest code's samples had been taken; nan if unknown."""
    table = found.addresses
    mine = table[(table["file"] == hot.path) & (table["address"] == _hottest(found, hot))]
    return float(mine["seconds"].iloc[0]) if len(mine) and "seconds" in mine else math.nan


def _seen(found: Profile, trace: Trace) -> float | None:
    """Return the share of the samples in the recorded functions that lie in code that was recorded."""
    if found.unit != "samples":
        return None
    hit, total = _hits(found, trace)
    return hit / total if total else None


def _part_of_time(found: Profile | None, trace: Trace, measured: Measured | None, run: CallTimes) -> float:
    """Return what part of the recorded functions' processor time all calls take if they are like those measured.

    1 where that is not known: the samples count processor time, so that calls that waited for others are not taken for
    long ones.
    """
    each = _cycles_of_a_sample(found, run)
    if found is None or measured is None or not measured.calls or not each:
        return 1.0
    samples = _hits(found, trace)[1]
    if samples < _SAMPLES:
        return 1.0
    return min(1.0, run.calls * measured.cycles / measured.part / measured.calls / (samples * each))


def _cycles_of_a_sample(found: Profile | None, run: CallTimes) -> float:
    """Return the cycles per run that a sample stands for; 0 where samples and counted calls are not of whole runs."""
    if found is None or not found.method.startswith(PERF) or not run.calls:
        return 0.0
    is_whole = not (found.ended or run.ended or run.unfinished or run.others)
    return run.cycles_per_second / RATE / found.runs if is_whole else 0.0


def _hits(found: Profile, trace: Trace) -> tuple[int, int]:
    """Return the samples in code that was recorded, and all those in the recorded functions."""
    ran = trace.block_counts()[trace.code.block] > 0
    starts = trace.object_addresses()
    names = set(trace.code.function)
    held = {int(a) for a in starts[ran]}
    total = hit = 0
    files: dict[str, ElfFile] = {}
    for path, address, n in found.addresses[["file", "address", "samples"]].itertuples(index=False):
        if not path.startswith("/"):
            continue
        try:
            elf = files[path] if path in files else files.setdefault(path, elf_as_it_is(path))
        except PerfkitError:
            continue
        symbol = elf.holds(address)
        if symbol is not None and symbol.name in names:
            total += n
            hit += n * (address in held)
    return hit, total


def _other_threads(functions: Sequence[HotFunction]) -> str:
    return f"{' and '.join(brief(each.name) for each in functions)}, which other threads run"


def _not_compared(functions: Sequence[HotFunction]) -> str:
    return f"whether {_other_threads(functions)}, write the same lines of memory"


def _elsewhere(found: Profile, names: set[str]) -> str:
    """Say where most of the run is that was not recorded."""
    by_library: dict[str, float] = {}
    for each in found.functions:
        if each.symbol not in names:
            by_library[each.library] = by_library.get(each.library, 0.0) + each.share
    library, share = max(by_library.items(), key=lambda row: row[1], default=("", 0.0))
    if share < _MUCH:
        return ""
    most = next(each for each in found.functions if each.symbol not in names and each.library == library)
    named = f", most of that in {brief(most.name)}" if most.symbol else ""
    waits = " (OpenMP's: threads that wait for others)" if is_openmp(library) else named
    return f", {share:.0%} of it in {library or 'code of no file'}{waits}"


def _covered(found: Profile, trace: Trace) -> float:
    """Return the share of the run that the recorded functions have."""
    names = {name for name in trace.code.function if name}
    return sum(each.share for each in found.functions if each.symbol in names)


def _waits(found: Profile) -> float:
    """Return the share of the run in which OpenMP's threads wait for others."""
    return sum(each.share for each in found.functions if is_openmp(each.library))


def _lasts(found: Profile | None) -> float:
    """Return the cycles that a run takes at least, and one call of `main` with it; 0 where that is not known."""
    is_sampled = found is not None and found.method.startswith(PERF)
    return found.total / RATE / found.runs * _SLOWEST if found is not None and is_sampled else 0.0


def _works(found: Profile) -> float:
    """Return the processors that the run had, by its samples; 0 where these do not tell it."""
    return found.total / RATE / found.seconds if found.method.startswith(PERF) else 0.0


def _waiting(found: Profile | None) -> str:
    """Say that the run waits for other threads; "" where it hardly does."""
    waits = _waits(found) if found is not None else 0.0
    if waits < _WAITING:
        return ""
    return (
        f"{waits:.1%} of the run's processor time is spent in OpenMP's library, where threads wait for others: their "
        "work is uneven, too little for so many threads, or the processors are not theirs alone"
    )


def _thrown(found: Profile | None) -> float:
    """Return the share of the run in which exceptions are thrown and caught."""
    mine = [] if found is None else [each for each in found.functions if each.is_system]
    return sum(e.share for e in mine if e.library.startswith("libgcc_s") or _UNWINDER.match(e.symbol))


def _throwing(found: Profile | None, program: Path) -> str:
    """Say that the run throws exceptions for much of its time, and who does; "" where it hardly does."""
    share = _thrown(found)
    if share < _THROWING:
        return ""
    known = itertools.islice(callers(elf_as_it_is(program), "__cxa_throw"), _CALLERS) if program.is_file() else ()
    names = list(dict.fromkeys(brief(named_as(each.partition(".")[0])) for each in known))
    thrown = f", thrown in {listed(names, last='or')}" if names else ""
    return (
        f"{share:.0%} of the run is throwing and catching exceptions (unwinding the stack)"
        f"{thrown}: return a value where failing is common"
    )


def _how(found: Profile | None) -> str:
    if found is None:
        return ""
    runs = f" in {found.runs} runs" if found.runs > 1 else ""
    return f"{found.total:,} {found.unit} in {found.seconds:.1f} s{runs}, {found.method}"


def _short(text: str, most: int = 6) -> str:
    each = text.split(", ")
    return text if len(each) <= most else listed(each, most)


def _left_out(extra: Mapping[str, str]) -> list[str]:
    """Say which source files' lines are not shown, and why."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in json.loads(extra.get("no_text", "{}")).items():
        by_reason.setdefault(reason, []).append(Path(name).name)
    return [
        f"the text of source lines: {_short(', '.join(sorted(names)))} {reason}" for reason, names in by_reason.items()
    ]


def _sources(trace: Trace) -> dict[str, tuple[str, ...]]:
    """Return the lines of the source files that travel with the trace."""
    return {name: tuple(text.splitlines()) for name, text in trace.provenance.sources.items()}
