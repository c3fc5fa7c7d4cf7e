"""What a DAG does not know of its program, and when that is too much for its cycles to be trusted.

Whoever makes a DAG counts what it saw (the names below are keys of ``facts``); `doubts` weighs that against the cycles
of a schedule.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from perfkit.errors import counted

MISSED, MISSED_AT_FIRST = "mispredicted branches", "mispredicted branches of data never seen"
UNMISSED = "cycles if no branch were mispredicted"
MOVING = "indirect jumps predicted to go elsewhere than the time before"
SYSTEM_CALLS, WAITING, X87 = "system calls", "cycles of fences and the like, at least", "x87 instructions"
WALKS = "cycles of page walks, at least"
CALLS, STRINGS, SPLIT, GATHERS = "returns", "string instructions", "instructions in two passes", "gathers"
UNSEEN_CALLS, SURPRISES = "calls that are no nodes", "branches that took another way than before"
EXTERNAL = "calls of functions that are not traced"
CROWDED, CROWDED_UNKNOWN = "lines that wait for their set of L1", "lines that would wait for their set of L1"
FETCHED, ACCESSED = "instructions where fetch is nearly full", "accesses where their ports are nearly full"
COMPUTED, TAKEN = "floating-point operations where their pipes are nearly full", "jumps that are taken"
WIDE_DIVISIONS = "divisions of 64-bit integers"
PRODUCTS, MULTIPLIED = "multiplications of integers", "multiplications of integers where their units are nearly full"
VECTORS = "operations on vector registers where their pipes are nearly full"
DOUBLE_PRODUCTS = "cycles that multiplications with two results keep other units of integers, at least"
SLOWER = "cycles of rotations through the carry and the like, at least"
GUESSED = "cycles of microcode that are a guess"
FILLED, PARTIAL = "lines filled by stores past the caches", "lines left in part by stores past the caches"
CODE = "lines of code that L1 does not hold"
SUBNORMAL = "arithmetic that met subnormal numbers"
UNITS = "cycles of the busiest units of the core's instruction table"
SHARED = "lines from L3 where its bandwidth decides"
NARROW = "hits of L2 and L3 where addresses share few sets"
NOR_GUS = "Gus does not know that, either"
"""How the sentences end that are true of `perfkit.Gus`, too: where one is told, it is no judge of the cycles."""
NOTABLE = 0.15  # of the cycles: what is left out and takes more is said
# Of branches that follow no pattern: conditional sums over 500 random numbers took a Zen 5 1.1 to 1.6 times as long.
_FORGOTTEN = 0.1
_SYSTEM_CALL = 100  # cycles: getppid took 400 on a Zen 4 guest
_WIDE, _ANYWHERE = 8, 4.4  # instructions per cycle of a core's fetch; and of code that may lie anywhere
_RETURN = 3  # cycles of a call and its return that no node stands for: fib(18), 8,361 calls, is 12,000 cycles short
_LINE = 8  # cycles of a line from the level below, at least: 8 bytes per cycle
_CODE_LINE = 1.5  # cycles of a line of code from L2, at least
_STRING_START = 14  # of a string instruction: 40 bytes take 14 cycles on Zen 4, and 30 and more on Intel's cores
# Blocks that a prediction knows of, the most first: predictors have seen how a loop of some 30 turns ends (the core
# files' `branch_history` is 12 to 38), not one of 100; what is new to so long a memory may not be to a shorter one.
_HISTORY, _SHORT, _TABLE = 32, 8, 1 << 16


def _leaving(history: int) -> int:
    """Return what the oldest of so many blocks has become in their key, as a signed number of 64 bits."""
    found = pow(31, history, 1 << 64)
    return found - (found >> 63 << 64)


_OLD, _RECENT = _leaving(_HISTORY), _leaving(_SHORT)


class _Seen(NamedTuple):
    """What a rule weighs: counts by name, instructions, cycles; cycles of a misprediction and of a line's way in."""

    counts: Mapping[str, int]
    instructions: int
    cycles: int
    penalty: float
    set_fill: float

    def notable(self, name: str, each: float) -> int:
        """Return a count where it would take a notable part of the cycles at `each` of them; 0 elsewhere."""
        found = self.counts.get(name, 0)
        return found if found * each > NOTABLE * self.cycles else 0


def doubts(
    facts: Mapping[str, str], instructions: int, cycles: int, penalty: float, set_fill: float
) -> tuple[str, ...]:
    """Return why the cycles of a schedule may be far off, a sentence each; none where nothing says so.

    Parameters
    ----------
    facts
        Of the DAG: its counts, as text.
    instructions, cycles
        What was executed, and how long the schedule takes.
    penalty, set_fill
        Cycles of a mispredicted branch, and of a line that comes into a set of L1.
    """
    count = {key: int(value) for key, value in facts.items() if key in _COUNTED}
    rules: list[Callable[[_Seen], str]]
    told = {of: partial(_told, of, *how) for of, how in _NOTABLE.items()}
    rules = [_branches, _surprises, told[MOVING], _calls, told[STRINGS], _passes, told[GATHERS], _external, _divided]
    rules += [
        _taken,
        _units,
        _system,
        told[WAITING],
        told[SLOWER],
        told[DOUBLE_PRODUCTS],
        told[GUESSED],
        told[X87],
        told[WALKS],
    ]
    rules += [told[PARTIAL], told[FILLED], told[CODE], _subnormal]
    rules += [_sets, told[NARROW], _shared, *(partial(_rate, of, said) for of, said in _RATES.items())]
    seen = _Seen(count, max(instructions, 1), max(cycles, 1), penalty, set_fill)
    found = (rule(seen) for rule in rules)
    return tuple(sentence for sentence in found if sentence)


def _branches(s: _Seen) -> str:
    seen, best = s.counts.get(MISSED, 0), s.counts.get(UNMISSED, 0)
    remembered = s.counts.get(MISSED_AT_FIRST, 0) - seen
    if _FORGOTTEN * remembered * s.penalty > NOTABLE * s.cycles:
        return (
            f"mispredicted branches decide: {remembered:,} follow no pattern and are simulated as remembered from runs "
            f"with the same data; if one in {1 / _FORGOTTEN:.0f} is not, it takes {NOTABLE:.0%} longer or more (each "
            f"is {s.penalty:g} cycles and more of {s.cycles:,}, and {seen:,} are simulated as missed); {NOR_GUS}"
        )
    # What a misprediction at the end of a short run takes overlaps with the rest, and what its branch waits for may be
    # many times the penalty (a search in a tree): only a schedule without tells.
    if not seen or s.cycles <= (1 + NOTABLE) * best or not (best or s.notable(MISSED, s.penalty)):
        return ""
    without = f"; with none it would be {best:,}" if best else ""
    return (
        f"mispredicted branches decide: {seen:,} are simulated as missed, as by a predictor that knows these data, "
        f"each {s.penalty:g} cycles and more of {s.cycles:,}{without}. Real predictors may learn more, or less; "
        f"{NOR_GUS}"
    )


def notes_of_other_runs(facts: Mapping[str, str], cycles: int, penalty: float) -> tuple[str, ...]:
    """Return what the cycles of a schedule are of, where other runs would take notably longer; see `doubts`."""
    first = int(facts.get(MISSED_AT_FIRST, 0)) - int(facts.get(MISSED, 0))
    if first * penalty <= NOTABLE * cycles:
        return ()
    share = first * penalty / cycles
    said = (
        "these cycles are of a run whose branches are known from runs with the same data; with new data "
        f"{first:,} more would be mispredicted, {share:.0%} of the cycles and more"
    )
    return (said,)


def notes_of_places(instructions: int, cycles: int, width: float) -> tuple[str, ...]:
    """Return what a place in memory may do to machine code that executes so many instructions in so many cycles.

    Wide cores read what they decoded before in lines of 64 bytes. On a Zen 5 a loop of 16 instructions (67 bytes, a
    wave equation's step) took 2.5 cycles per turn at 16, 32 and 48 bytes behind a multiple of 64, and 4.0 at one.
    """
    if width < _WIDE or instructions <= _ANYWHERE * cycles:
        return ()
    said = (
        f"{instructions / max(cycles, 1):.1f} instructions per cycle: so many depend on where in memory the loop lies, "
        "which is not modelled. A Zen 5 took 2.5 cycles for the 16 instructions of a loop, and 4.0 where it began at a "
        "multiple of 64 bytes"
    )
    return (said,)


def _surprises(s: _Seen) -> str:
    found = s.notable(SURPRISES, s.penalty)
    if not found:
        return ""
    return (
        f"its branches are hard to predict: {found:,} went another way than after the same {_HISTORY} blocks before, "
        f"and this DAG counts no misprediction, which takes {s.penalty:g} cycles and more (of {s.cycles:,}): record a "
        "program (perfkit dag run ./program -f FUNCTION), whose branches are predicted"
    )


def _calls(s: _Seen) -> str:
    if returns := s.notable(CALLS, _RETURN):
        return (
            f"one of {s.instructions / returns:.0f} instructions is a return: what calls cost in the front end (taken "
            "branches, code that is decoded in small pieces) and in the stack is not modelled; recursive functions "
            "took up to 2.4 times as long on a Zen 4, and nobody measured others"
        )
    if s.counts.get(UNSEEN_CALLS, 0):
        return (
            "it calls functions that are not inlined: return addresses and saved registers are no nodes of a C, C++ or "
            "Python function, and recursion is simulated up to 3.3 times too fast: record a program"
        )
    return ""


def _passes(s: _Seen) -> str:
    found = s.counts.get(SPLIT, 0)
    if found <= NOTABLE * s.instructions / 2:
        return ""
    return (
        f"{found / s.instructions:.0%} of the instructions are of 512 bits, which this core runs in two passes and the "
        "model in one: where their units limit the time, it is up to twice as long"
    )


def _external(s: _Seen) -> str:
    found = s.notable(EXTERNAL, _RETURN)
    if not found:
        return ""
    return (
        f"the work of {counted(found, 'calls')} of functions that are not in the source, or that are called through "
        "pointers, is not in this DAG: record a program (perfkit dag run ./program -f FUNCTION), with what it calls"
    )


def _sets(s: _Seen) -> str:
    stride = "addresses a power of two apart share few sets of L1: pad the rows"
    if found := s.notable(CROWDED, s.set_fill):
        return (
            f"{found:,} lines wait for others that come into their set of L1 ({stride}); what that takes is known "
            "roughly: on a Zen 5 columns of 128 to 512 doubles took from 0.9 to 2.1 times as long as simulated"
        )
    if found := s.notable(CROWDED_UNKNOWN, s.set_fill):
        return (
            f"{found:,} lines come into a set of L1 that others just came into ({stride}); what that takes is not "
            "known of this core, and takes no time here: on others such code took up to 6 times as long"
        )
    return ""


def _told(of: str, each: float, said: str, s: _Seen) -> str:
    """Return what is to be said of a count where it would take a notable part of the cycles."""
    found = s.notable(of, each)
    return said.format(found=found, cycles=s.cycles) if found else ""


def _rate(of: str, said: str, s: _Seen) -> str:
    """Return what is to be said of a rate that a core hardly reaches."""
    found = s.counts.get(of, 0)
    return f"{found / s.cycles:.1f} {said}" if found else ""


def _divided(s: _Seen) -> str:
    found = s.counts.get(WIDE_DIVISIONS, 0)
    if found * _WIDE_DIVISION < s.cycles / 2:
        return ""
    return (
        f"{found:,} divisions of 64-bit integers decide: what one takes depends on its quotient, which is not known "
        f"here (on a Zen 5 1.4 times as long as simulated where the quotient has some 50 bits); {NOR_GUS}"
    )


def _units(s: _Seen) -> str:
    found = s.counts.get(UNITS, 0)
    if found <= (1 + NOTABLE) * s.cycles:
        return ""
    return (
        f"the units of its instructions need at least {found:,} cycles by the core's instruction table, "
        f"{found / s.cycles:.1f} times as many: shuffles, moves between registers of both kinds and others take "
        "any unit here, and only some of them on the core"
    )


def _system(s: _Seen) -> str:
    found = s.notable(SYSTEM_CALLS, _SYSTEM_CALL)
    if not found:
        return ""
    return (
        f"{counted(found, 'system calls')} take no time here: some {_SYSTEM_CALL} cycles and more each, and what the "
        f"kernel does in them; {NOR_GUS}"
    )


def _subnormal(s: _Seen) -> str:
    if not s.counts.get(SUBNORMAL, 0):
        return ""
    return (
        "its arithmetic met subnormal numbers (nearer to zero than 1e-308, or 1e-38 of single precision: the "
        "processor's flags say so), each of which may cost more (over 100 cycles on Intel's cores, a few on AMD's): "
        f"flush them to zero (-ffast-math, _MM_SET_FLUSH_ZERO_MODE), or keep numbers from decaying so far; {NOR_GUS}"
    )


def _taken(s: _Seen) -> str:
    found = s.counts.get(TAKEN, 0)
    if found <= _TAKEN * s.cycles:
        return ""
    return (
        f"{found / s.cycles:.1f} jumps are taken per cycle, and nothing is lost by one here: cores go on at one or two "
        "new places per cycle, where their predictors know them"
    )


def _shared(s: _Seen) -> str:
    found = s.counts.get(SHARED, 0)
    if not found:
        return ""
    return (
        f"L3 decides ({found:,} lines): its room and its bandwidth are this program's alone here, but other cores "
        "share them, those of a neighbour's machine too: sums over 32 MB took 1.0 to 2.6 times as long on a Zen 5 "
        f"guest; {NOR_GUS}"
    )


def bound_by(accesses: int, cycles: int, each: float) -> int:
    """Return the accesses where a level's bandwidth takes half of the cycles or more at `each` of them, else 0.

    Examples
    --------
    >>> bound_by(200, 1000, 2.7), bound_by(100, 1000, 2.7)
    (200, 0)
    """
    return accesses if accesses * each >= cycles / 2 else 0


def nearly_full(done: int, cycles: int, most: float, wide: int, share: float) -> int:
    """Return what is done where so large a share of what a core can do in these cycles is, else 0.

    Narrower cores than `wide` do what they can (on a Zen 4 four chains do four operations per cycle).

    Examples
    --------
    >>> nearly_full(810, 100, 8, *FETCH), nearly_full(790, 100, 8, *FETCH), nearly_full(600, 100, 6, *FETCH)
    (810, 0, 0)
    """
    return done if wide <= most < math.inf and done >= share * most * cycles else 0


def full_early(columns: Any, capacities: tuple[float, ...]) -> list[bool]:
    """Return whether lines that fit into each cache share so few of its sets that they do not fit there.

    Physical addresses are not known, but within a page they are the virtual ones: lines that use one in eight of a
    page's places use one set in eight of every cache with so many sets. Pages fall where they will: sets are full long
    before half of the cache is in use.

    Parameters
    ----------
    columns
        How many of the lines are in each place of a page.
    capacities
        Lines that each cache holds.

    Examples
    --------
    >>> import numpy as np
    >>> eighth = 1000 * (np.arange(64) % 8 == 0)
    >>> full_early(eighth, (4_096, 100_000, 1_000_000))
    [False, True, False]
    >>> full_early(np.full(64, 125), (4_096, 100_000, 1_000_000))
    [False, False, False]
    """
    lines = int(columns.sum())
    if not lines:
        return [False] * len(capacities)
    used = lines**2 / (len(columns) * float((columns.astype(float) ** 2).sum()))
    return [bool(used <= _FEW and used * c / 2 < lines <= c) for c in capacities]


_FEW = 0.5  # of a page's places: more spread lines well enough
_COUNTED = {MISSED, MISSED_AT_FIRST, UNMISSED, CALLS, STRINGS, SPLIT, GATHERS, UNSEEN_CALLS, SURPRISES, EXTERNAL}
_COUNTED |= {CROWDED, CROWDED_UNKNOWN, NARROW, SHARED, FETCHED, ACCESSED, COMPUTED}
_COUNTED |= {SLOWER, DOUBLE_PRODUCTS, GUESSED, FILLED, PARTIAL, CODE, SUBNORMAL}
_COUNTED |= {SYSTEM_CALLS, WAITING, X87, WALKS, MOVING, TAKEN, WIDE_DIVISIONS, UNITS, MULTIPLIED, VECTORS}
FETCH, ACCESSES, FLOATS, PIPES, INTEGERS = (8, 1.0), (4, 0.95), (4, 0.8), (4, 0.9), (4, 0.8)
"""Slots of fetch, ports of memory, floating-point pipes, these with integer work on vector registers, and integer units
from which on a core does less than its most; how much."""
OFTEN = 0.5
"""Multiplications of integers per cycle and multiplier from which on other work that waits for its queue is delayed."""
MOVES = (
    "indirect jumps or calls (a switch, functions through pointers) go elsewhere than the time before {found:,} times, "
    "and are simulated as predicted, at no cost: a Zen 4 took 2 to 5 cycles for each where the targets follow a short "
    "pattern, and some 20 where a longer one comes again"
)
"""What is said of jumps that `perfkit.simulators.gus.mispredicted.moving_branches` counts."""
_NOTABLE: dict[str, tuple[float, str]] = {  # of a count, the cycles of each, and what is said where these are many
    # A Zen 4 took 1.5 to 5.6 cycles more for a jump through a table whose target follows a pattern than for one that
    # goes to one place, and 16 to 23 where a random pattern of 256 or more came again and again.
    MOVING: (3, MOVES + f" (of {{cycles:,}} cycles); {NOR_GUS}"),
    STRINGS: (
        _STRING_START,
        (
            "{found:,} string instructions (REP MOVS and the like) begin without delay here; each takes "
            f"{_STRING_START} cycles or more to start, of {{cycles:,}} in all"
        ),
    ),
    GATHERS: (4, "{found:,} gathers are one operation and their loads here; cores run them as many operations"),
    WAITING: (
        1,
        (
            "instructions that wait for all others, or leave the core (fences, CPUID, PAUSE, CLFLUSH, RDTSCP, RDRAND, "
            "XCHG with memory, CMPXCHG16B, LDMXCSR, comparisons of strings by SSE4.2), are hardly simulated: they take "
            "{found:,} cycles and more, of {cycles:,}"
        ),
    ),
    SLOWER: (
        1,
        (
            "rotations through the carry by more than 1 (RCL, RCR), bits of memory that a register names (BTS and the "
            "like), XADD, masked stores, atomic additions and, on other cores than a Zen 4 and a Zen 5, arithmetic by "
            "LEAs of three parts take "
            "{found:,} cycles more or less than here, or more (of {cycles:,}): a Zen 4 took 4 for RCL by 5 (1 here), 6 "
            "for a masked store (3.7), 3 for BTS (8), 6 to 9 for an atomic addition (6), 2 for such a LEA (1); "
            + NOR_GUS
        ),
    ),
    DOUBLE_PRODUCTS: (
        1,
        (
            "multiplications with two results (MUL, MULX and the like) take one unit here; on this core they keep the "
            "others, too, for {found:,} cycles of theirs (of {cycles:,}): sums of products of words, whose carries "
            "follow them, took a Zen 4 1.2 to 1.7 times as long as simulated, one hash of such products as long"
        ),
    ),
    GUESSED: (
        1,
        (
            "{found:,} cycles (of {cycles:,}) are of microcode that the core's table has a guess of, 100 cycles each "
            "(FSIN, FYL2X, FPREM, ENTER and the like): a Zen 4 took 18 to 67; " + NOR_GUS
        ),
    ),
    PARTIAL: (
        20,
        (
            "{found:,} lines are filled in part by stores past the caches (MOVNTI, MOVNTPD and the like), which write "
            "each part to memory: a Zen 4 took 40 cycles for each (of {cycles:,}), here it is a store like others; "
            + NOR_GUS
        ),
    ),
    FILLED: (
        4,
        (
            "{found:,} lines are written by stores past the caches (MOVNTI, MOVNTPD and the like), straight to memory: "
            "a Zen 4 took 8 cycles and more for each (of {cycles:,}), here it is a store like others; " + NOR_GUS
        ),
    ),
    CODE: (
        _CODE_LINE,
        (
            "code comes from L1 alone here, and {found:,} lines of it come from L2 or beyond: a Zen 4 took 1.7 cycles "
            "for each in code without jumps (of {cycles:,}), more in other code; " + NOR_GUS
        ),
    ),
    X87: (  # beyond what one is simulated with
        2,
        (
            "{found:,} instructions of the x87 unit (long double) are taken for work on integers here, without their "
            "latencies and the register stack: a sum of squares took twice as long on a Zen 4, moves 16 times as long"
        ),
    ),
    WALKS: (
        1,
        (
            "page walks take no time here, and {found:,} cycles or more on this core (of {cycles:,}): its data lie in "
            "more pages than the TLBs hold: huge pages, or data nearer together. Gus, which simulates them, took 0.3 "
            "to 2.3 times as long as a Zen 4 for such loops"
        ),
    ),
    NARROW: (
        _LINE,
        (
            "{found:,} accesses hit L2 or L3 here, but their addresses are a power of two of lines apart and share few "
            "sets of these levels, which are not modelled: they may come from the level below (every 64th double of 32 "
            "MB took 3.9 times as long on a Zen 5, every 67th 1.08 times): pad the rows"
        ),
    ),
}
_RATES = {  # of a rate that a core hardly reaches, what is to be said behind it
    FETCHED: "instructions per cycle: that many are fetched here in every cycle; a Zen 5 did 5.3 to 8.0 of such loops, "
    "and took 1.0 to 1.6 times as long as simulated",
    ACCESSED: "accesses to memory per cycle: four ports do as many only where no address waits for a load; loops with "
    "tables took a Zen 5 1.5 to 1.7 times as long as simulated",
    COMPUTED: "floating-point operations per cycle: four pipes do as many only where few wait for each other; loops "
    "that store what they computed took a Zen 5 1.1 to 1.6, a Zen 4 1.4 times as long as simulated",
    MULTIPLIED: "multiplications of integers per cycle beside full integer units: they have one unit, in whose queue "
    "other work waits that any unit could do; loops so full took a Zen 4 0.9 to 1.7 times as long as simulated",
    VECTORS: "operations on vector registers per cycle: four pipes do as many only where any of them will do; of moves "
    "from integer registers and shuffles a Zen 4's loops took 1.0 to 1.5 times as long as simulated",
}
_WIDE_DIVISION = 7  # cycles that it keeps the divider, at least
_TAKEN = 1  # per cycle: loops of one turn per cycle reach it


class Successors:
    """Counts how often a block is followed by another one than after the same blocks before, and runs of each.

    After blocks that never came in this order, what followed the last of them before is expected.

    Parameters
    ----------
    blocks
        How many blocks there are.
    """

    def __init__(self, blocks: int) -> None:
        self._runs = np.zeros(blocks, dtype=np.int64)
        self._next = np.full(blocks, -1, dtype=np.int64)  # what followed each block
        self._tables = np.full((2, _TABLE), -1, dtype=np.int64)
        # The last blocks; how many came; the keys of as many as the two tables know of; surprises.
        self._recent = np.full(_HISTORY + 4, -1, dtype=np.int64)
        self._recent[_HISTORY:] = 0

    @property
    def surprises(self) -> int:
        """How often."""
        return int(self._recent[-1])

    def executed(self, within: Mapping[int, int]) -> int:
        """Return how often something was executed of which each of these blocks has so many."""
        return sum(int(self._runs[block]) * times for block, times in within.items())

    def see(self, records: Any, length: int, addresses: Any) -> None:
        """Go through executed blocks."""
        _follow(records, length, addresses, self._tables, self._recent, self._runs, self._next)


@njit(cache=True)
def _follow(records: Any, length: Any, addresses: Any, tables: Any, recent: Any, runs: Any, after: Any) -> None:
    at, seen, old, new = 0, recent[_HISTORY], recent[_HISTORY + 1], recent[_HISTORY + 2]
    while at < length:
        block = records[at]
        runs[block] += 1
        i = ((old & 0xFFFFFFFF) * 0x9E3779B1 >> 13) & (tables.shape[1] - 1)
        j = ((new & 0xFFFFFFFF) * 0x9E3779B1 >> 13) & (tables.shape[1] - 1)
        last = recent[(seen - 1) % _HISTORY]
        if last >= 0:
            expected = tables[0, i]
            if expected < 0:
                expected = tables[1, j] if tables[1, j] >= 0 else after[last]
            recent[_HISTORY + 3] += expected >= 0 and expected != block
            after[last] = block
        tables[0, i] = tables[1, j] = block
        old = old * 31 + block + 1 - (recent[seen % _HISTORY] + 1) * _OLD
        new = new * 31 + block + 1 - (recent[(seen - _SHORT) % _HISTORY] + 1) * _RECENT
        recent[seen % _HISTORY] = block
        seen += 1
        at += 1 + addresses[block]
    recent[_HISTORY], recent[_HISTORY + 1], recent[_HISTORY + 2] = seen, old, new
