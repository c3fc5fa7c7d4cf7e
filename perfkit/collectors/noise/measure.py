"""Measure what noise costs: all variants of a kernel in one process, in turns, each between two runs of the plain copy.

The rules are those of `perfkit.collectors.host.compare`: turns in a random order, readings of the clock around each,
several processes with everything at other addresses; only turns on a quiet core count. Before any of it, every variant
is called once on the same data as the original, and must leave the same results.
"""

import ctypes
import json
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from perfkit.collectors.host.code import flags
from perfkit.collectors.host.cycle_clock import judge, link_cycles, rough_cycles
from perfkit.collectors.host.measuring import (
    Callee,
    build_timer,
    calls_per_sample,
    described,
    in_measuring_process,
    in_own_place,
    loaded,
    pointer,
    started,
    until_enough,
)
from perfkit.collectors.noise.copies import Copies, NoiseVariant
from perfkit.collectors.noise.function import read_function
from perfkit.collectors.noise.place import noise_place
from perfkit.collectors.noise.removal import REMOVALS
from perfkit.collectors.tracer.elf import ElfFile
from perfkit.errors import UnavailableError

if TYPE_CHECKING:
    from perfkit.collectors.kernels import Kernel

STEADY = 0.05
"""By how much the runs of the plain copy around a variant may differ in a turn that counts."""
BUSY = "this machine is too busy to tell the cycles of a multiplication; try again when it is quieter"
_TRIAL = 5
_SLOWER = 1.5  # how much longer noise makes a turn, on average
_MOST = 512 << 20  # bytes of data that are compared
_OTHER, _LACKING = 1, 2  # what may be wrong with a variant
_MESSAGES = {
    1: "its results differ from run to run on the same data, so that nobody can tell whether noise changes them",
    2: "a plain copy of it leaves other results than the original",
    3: f"its data are more than {_MOST >> 20} MB, too many to compare",
    4: "it changed its own code while it ran",
}


@dataclass(frozen=True)
class Turns:
    """What was measured.

    Parameters
    ----------
    variants : tuple of NoiseVariant
        The plain copy first.
    which : (turns,) int64
        The variant of each turn; -1: the original function.
    process : (turns,) int64
        The process of each turn.
    ratio : (turns,) float64
        Ticks of the variant over those of the plain copy around it; NaN where the clock was not steady.
    cycles : (turns,) float64
        Of a call of the plain copy.
    quiet : (turns,) bool
        Whether the core's other hardware thread slept and the turn was steady.
    changed, lacking : tuple of NoiseVariant
        Those that were not timed, because they left other results, or because there was no memory for their lines.
    calls : int
        Timed as one.
    """

    variants: tuple[NoiseVariant, ...]
    which: NDArray[np.int64]
    process: NDArray[np.int64]
    ratio: NDArray[np.float64]
    cycles: NDArray[np.float64]
    quiet: NDArray[np.bool_]
    changed: tuple[NoiseVariant, ...]
    lacking: tuple[NoiseVariant, ...]
    calls: int


def measure(
    kernel: "Kernel",
    arguments: tuple[Any, ...],
    address: int,
    variants: Sequence[NoiseVariant],
    *,
    processes: int = 5,
    rounds: int = 8,
    seconds: float = 30.0,
    processor: int | None = None,
    timeout: float = 300.0,
    seed: int = 0,
) -> Turns:
    """Time variants of a kernel in turns.

    Parameters
    ----------
    kernel, arguments
        What to call.
    address : int
        The header of the loop that gets the noise, before relocation.
    variants : sequence of NoiseVariant
        The first is the plain copy.
    processes, rounds : int
        Processes, and quiet turns of each variant that are wanted in each.
    seconds : float
        Over all processes, to wait for quiet turns; every variant gets one turn at least.
    processor, timeout, seed
        As of :func:`perfkit.compare`.

    Raises
    ------
    DataError
        The kernel crashes, does not end, or its results cannot be checked.
    UnavailableError
        This machine is too busy to tell a cycle.
    """
    with tempfile.TemporaryDirectory(prefix="perfkit-noise-") as scratch:
        folder = Path(scratch)
        specification = {
            "timer": str(build_timer(folder)),
            "name": kernel.name,
            "library": str(kernel.path),
            "function": kernel.function,
            "setup": kernel.has_setup,
            "arguments": described(kernel, arguments, folder),
            "address": address,
            "variants": [[variant.kind, variant.count] for variant in variants],
            "processor": min(os.sched_getaffinity(0)) if processor is None else processor,
            "output": str(folder / "turns.npz"),
            "processes": processes,
            "rounds": rounds,
            "seconds": seconds,
            "timeout": timeout,
            "seed": seed,
        }
        found = in_measuring_process(f"{__name__}:_measure", specification, timeout)
    return turns_of(found, variants)


def turns_of(found: dict[str, NDArray[Any]], variants: Sequence[NoiseVariant]) -> Turns:
    """Judge what a measuring process saved."""
    link = link_cycles(found["pairs"])
    return _judged(found["rows"], found["process"], link, int(found["calls"]), tuple(variants), found["changed"])


def _judged(
    rows: NDArray[np.int64],
    process: NDArray[np.int64],
    link: int,
    calls: int,
    variants: tuple[NoiseVariant, ...],
    changed: NDArray[np.int64],
) -> Turns:
    """Judge rows of (variant, reading, plain, variant, plain, reading)."""
    first, one, last = (rows[:, k].astype(np.float64) for k in (4, 5, 6))
    judged = judge(rows[:, [1, 2, 3, 5, 7, 8, 9]], link)
    plain = (first + last) / 2
    steady = np.isfinite(judged.cycles) & (np.abs(first - last) <= STEADY * plain)
    return Turns(
        variants=variants,
        which=rows[:, 0] - 1,
        process=process,
        ratio=np.where(steady, one / plain, np.nan),
        cycles=np.where(steady, plain / judged.rates / calls, np.nan),
        quiet=judged.quiet & steady,
        changed=tuple(variants[k] for k in np.flatnonzero(changed == _OTHER)),
        lacking=tuple(variants[k] for k in np.flatnonzero(changed == _LACKING)),
        calls=calls,
    )


def _measure(argument: str) -> None:
    """Be the measuring process."""
    spec = json.loads(argument)
    in_processes(spec, *started(spec), prepared=_Kernel)


def in_processes(
    spec: dict[str, Any], timer: ctypes.CDLL, pairs: NDArray[np.int64], link: int, prepared: "Prepare"
) -> None:
    """Start one process after another that makes the copies and times them in turns; save what they found."""
    if not link:
        raise SystemExit(BUSY)
    spec["calls"] = 0
    rows, process = [np.zeros((0, 10), dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    changed = np.zeros(len(spec["variants"]), dtype=np.int64)
    for number in range(spec["processes"]):
        spec["skip"] = np.flatnonzero(changed).tolist()
        work = partial(_one_process, timer, link, number, spec, prepared)
        found = in_own_place(timer, number, work, f"{spec['output']}.{number}.npy")
        if found[0, 0]:
            raise SystemExit(f"no noise is added to {spec['name']}: {_MESSAGES[int(found[0, 0])]}")
        spec["calls"] = int(found[0, 1])
        count = len(spec["variants"])
        changed |= found[1 : 1 + count, 0]
        rows.append(found[1 + count :])
        process.append(np.full(len(rows[-1]), number))
    np.savez(
        spec["output"], pairs=pairs, rows=np.concatenate(rows), process=np.concatenate(process), changed=changed,
        calls=spec["calls"],
    )  # fmt: skip


class Ready(Protocol):
    """A function and its copies in this process, ready to be called."""

    copies: Copies

    def check(self) -> tuple[int, NDArray[np.int64]]:
        """Call everything once on the same data; say what is wrong with all of it, and which copies are wrong."""

    def turns(self, calls: int, which: list[int]) -> NDArray[np.int64]:
        """Time variants, in this order; each row names its variant, plus one (0: the original)."""

    def calls(self, usual: int) -> int:
        """Return how many calls make a sample, where so many would take long enough."""


Prepare = Callable[[ctypes.CDLL, dict[str, Any], list[NoiseVariant], int], Ready]


def _one_process(
    timer: ctypes.CDLL, link: int, number: int, spec: dict[str, Any], prepared: Prepare
) -> NDArray[np.int64]:
    """Return a row (what is wrong, calls timed as one), one row per variant (whether it is wrong), and the turns."""
    variants = [NoiseVariant(kind, count) for kind, count in spec["variants"]]
    ready = prepared(timer, spec, variants, number)
    wrong, changed = ready.check() if number == 0 else (0, np.zeros(len(variants), dtype=np.int64))
    lacking = ready.copies.lacking()
    changed[lacking] = _LACKING
    head = np.zeros((1 + len(variants), 10), dtype=np.int64)
    head[0, 0], head[1:, 0] = wrong, changed if number == 0 else 0
    if wrong:
        return head
    skip = {*spec["skip"], *np.flatnonzero(changed).tolist()}
    taken = [-1, *(k for k in range(len(variants)) if k not in skip)]  # -1: the original
    random = np.random.default_rng([spec["seed"], number])
    head[0, 1] = calls = spec["calls"] or _calls(ready, link)
    if number == 0:
        _refuse_long(ready, calls, len(taken) * spec["processes"], spec["timeout"])
    return np.concatenate([head, _sampled(ready.turns, taken, calls, link, random, spec)])


class _Kernel:
    """A kernel of a library, loaded with its arguments."""

    def __init__(self, timer: ctypes.CDLL, spec: dict[str, Any], variants: list[NoiseVariant], number: int) -> None:
        self.timer, elf = timer, ElfFile(spec["library"])
        self.symbol = elf.function(spec["function"])
        self.callee = loaded(spec["library"], spec["function"], spec["setup"], spec["arguments"], [number])
        self.original = ctypes.cast(self.callee.function, ctypes.c_void_p).value or 0
        base = self.original - self.symbol.address
        function = read_function(elf, spec["function"], base)
        place = noise_place(function, function.loop_at(spec["address"] + base))
        self.copies = Copies(function, place, variants, "avx" in flags())
        rooms = [(room.ctypes.data, room.nbytes) for room in self.callee.arrays]
        self.memory = rooms + own_variables(elf, base)
        if self.callee.setup:
            self.callee.setup()
        changes = len(must_agree(variants)) < len(variants)
        self.kept = [(at, ctypes.string_at(at, size)) for at, size in self.memory] if changes else []

    def check(self) -> tuple[int, NDArray[np.int64]]:
        code = ctypes.string_at(self.original, self.symbol.size)
        alike = must_agree(self.copies.variants)
        wrong, changed = _checked(self.timer, self.callee, self.original, self.copies.calls, self.memory, alike)
        if not wrong and ctypes.string_at(self.original, self.symbol.size) != code:
            wrong = 4
        return wrong, changed

    def turns(self, calls: int, which: list[int]) -> NDArray[np.int64]:
        found = _turns(self.timer, self.callee, [self.original, *self.copies.calls], calls, which)
        for at, data in self.kept:
            ctypes.memmove(at, data, len(data))
        return found

    def calls(self, usual: int) -> int:
        return usual


def _refuse_long(ready: Ready, calls: int, turns: int, timeout: float) -> None:
    """Refuse what would not be done in time: every variant needs a turn in every process."""
    began = time.monotonic()
    ready.turns(calls, [0])
    least = _SLOWER * turns * (time.monotonic() - began)
    if least > timeout:
        raise SystemExit(
            f"its {turns} turns, each of five calls, take some {least:.0f} s, and {timeout:.0f} are allowed: ask for "
            "fewer kinds or counts, or run a smaller problem"
        )


def _calls(ready: Ready, link: int) -> int:
    """Return how many calls make a sample."""

    def wanted(calls: int) -> int:
        rows = ready.turns(calls, [0] * _TRIAL)
        each = float(np.median(rough_cycles(rows[:, [1, 2, 3, 5, 7, 8, 9]], link))) / calls
        return ready.calls(calls_per_sample(each))  # a call of a program may allow no other behind it

    return until_enough(1, wanted)


def _sampled(
    turns: Any, taken: list[int], calls: int, link: int, random: np.random.Generator, spec: dict[str, Any]
) -> NDArray[np.int64]:
    """Take turns until every variant has the quiet ones that are wanted, or the time is up."""
    until = time.monotonic() + spec["seconds"] / spec["processes"]
    found, wanted = np.zeros((0, 10), dtype=np.int64), np.array(taken)
    while len(wanted):
        for _ in range(max(1, spec["rounds"] // 2)):
            found = np.concatenate([found, turns(calls, random.permutation(wanted).tolist())])
            if time.monotonic() > until:
                return found
        quiet = _judged(found, np.zeros(len(found), dtype=np.int64), link, calls, (), np.zeros(0, dtype=np.int64)).quiet
        have = np.array([np.count_nonzero(quiet & (found[:, 0] - 1 == k)) for k in taken])
        wanted = np.array(taken)[have < spec["rounds"]]
    return found


def _turns(timer: ctypes.CDLL, callee: Callee, functions: list[int], calls: int, which: list[int]) -> NDArray[np.int64]:
    out = np.zeros((len(which), 9), dtype=np.int64)
    addresses, swapped = plain_first(functions, which)
    timer.perfkit_turns(
        addresses, callee.integers, callee.floats, ctypes.c_long(calls), ctypes.c_long(len(which)), pointer(swapped),
        pointer(out), None,
    )  # fmt: skip
    return named_rows(which, out)


def plain_first(functions: list[int], which: list[int]) -> tuple[Any, NDArray[np.uint32]]:
    """Return C's list of functions, and variants as its numbers; the plain copy comes first: it frames all others."""
    addresses = (ctypes.c_void_p * len(functions))(functions[1], functions[0], *functions[2:])
    return addresses, np.array([{0: 1, 1: 0}.get(k + 1, k + 1) for k in which], dtype=np.uint32)


def named_rows(which: list[int], out: NDArray[np.int64]) -> NDArray[np.int64]:
    """Put each row's variant, plus one, before it."""
    return np.column_stack([np.array(which, dtype=np.int64) + 1, out])


def must_agree(variants: Sequence[NoiseVariant]) -> list[int]:
    """Return which variants must leave the plain copy's results: those that nothing was removed from."""
    return [k for k, variant in enumerate(variants) if variant.kind not in REMOVALS]


def _checked(
    timer: ctypes.CDLL,
    callee: Callee,
    original: int,
    copies: Sequence[int],
    memory: list[tuple[int, int]],
    alike: Sequence[int],
) -> tuple[int, NDArray[np.int64]]:
    """Call everything once on the same data; return what is wrong with all of it, and which variants are wrong."""
    if sum(size for _, size in memory) > _MOST:
        return 3, np.zeros(len(copies), dtype=np.int64)
    before = [ctypes.string_at(at, size) for at, size in memory]

    def result(address: int) -> tuple[list[bytes], bytes]:
        for (at, size), data in zip(memory, before, strict=True):
            ctypes.memmove(at, data, size)
        registers = (ctypes.c_char * 16)()
        timer.perfkit_call(ctypes.c_void_p(address), callee.integers, callee.floats, registers)
        return [ctypes.string_at(at, size) for at, size in memory], registers.raw

    first = result(original)
    if result(original) != first:
        return 1, np.zeros(len(copies), dtype=np.int64)
    plain = result(copies[0])
    if plain[0] != first[0]:
        return 2, np.zeros(len(copies), dtype=np.int64)
    # Registers are compared with the copy's: where a function returns nothing, they hold what was left in them.
    changed = np.array([k in alike and result(copy) != plain for k, copy in enumerate(copies)], dtype=np.int64)
    for (at, size), data in zip(memory, before, strict=True):
        ctypes.memmove(at, data, size)
    return 0, changed


def own_variables(elf: ElfFile, base: int) -> list[tuple[int, int]]:
    """Return address and size of what a library, loaded at `base`, may write: its variables.

    The linker has made some pages read-only by now, and the system may have put other memory right behind them.
    """
    wanted = [(s.address + base, s.address + base + s.size) for s in elf.segments if s.kind == 1 and s.flags & 2]
    found = []
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, rights = line.split()[:2]
        first, last = (int(word, 16) for word in span.split("-"))
        if rights.startswith("rw"):
            common = [(max(first, a), min(last, b)) for a, b in wanted]
            found += [(a, b - a) for a, b in common if a < b]
    return found


def check_machine(isa: str) -> None:
    """Refuse what cannot be measured here.

    Raises
    ------
    UnavailableError
        This machine or the kernel is not x86-64.
    """
    if isa != "x86-64" or os.uname().machine != "x86_64":
        raise UnavailableError(f"noise needs an x86-64 machine and kernel (found {os.uname().machine} and {isa})")
