"""`pk.Bottlenecks` on programs unlike those it learnt from: loops of other kinds, and compiled functions in C.

Run: python -m tests.benchmarks.unlike SEED [--programs 228] [--functions] [--to FILE]; needs GNU as and objcopy, or a
compiler. Everything is simulated. Of files that were written so: python -m tests.benchmarks.unlike --of FILE ...

The loops' pieces are written anew, after what programs do (search, hash, sort, parse, transpose, ...); none is of
data/make/loops.py, of which only the assembling is used. One to three pieces share a loop, often shuffled. The
functions are those that `tests.benchmarks.dag_draws` writes, compiled by gcc. Truth is the
classes' credit. Each program is asked about on one core, drawn of eight, of which four were learnt from: with all of
the simulator's events, and with those that the core's map has a name for, under these names. Change nothing in the
model for what a seed prints: draw another seed to quote a figure.
"""

import argparse
import itertools
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

import perfkit as pk
from perfkit.collectors import compile_kernel
from perfkit.simulators.pmu.credit import Variants
from tests.benchmarks.dag_any_code import arguments
from tests.benchmarks.dag_draws import draws

sys.path.insert(0, str(Path(__file__).parents[2] / "data" / "make"))
from league import apart
from loops import MEMORY, Line, Loop, Scattered, _footprint_of, _trace, hot, strided
from real_names import as_real

CORES = ("skylake_x", "golden_cove", "zen4", "zen5", "ice_lake", "sandy_bridge", "zen3", "raptor_cove")
NEAR, LEAST, SURE = 0.9, 0.02, 0.5  # as data/make/league.py
EDGES = (0.5, 0.65, 0.8, 0.95, 1.0001)
_DIVIDES = re.compile(r"v?(div|sqrt)[sp][sd]\b")
_FLAGS = ("-O2", "-O3", "-O3 -mavx2 -mfma")
LENGTHS = range(2000, 400_001)  # instructions of a function
Rng = np.random.Generator
_REGISTERS = (("rax", "rdx", "ymm0", "ymm1"), ("rsi", "rdi", "ymm3", "ymm4"), ("r8", "r9", "ymm6", "ymm7"))


class _Body:
    """The drawing of one piece: its registers, its own addresses."""

    def __init__(self, rng: Rng, number: int) -> None:
        self.rng, self.base = rng, 100 + 8 * number
        self.a, self.b, self.v, self.u = _REGISTERS[number]

    def n(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def place(self) -> Scattered:
        """Return lines in L2, L3 or memory."""
        lines = (self.n(1500, 9000), self.n(30000, 60000), MEMORY)[self.n(0, 2)]
        return Scattered(self.base, lines, ordered=bool(self.rng.random() < 0.15))

    def odds(self, low: float = 0.05, high: float = 0.5) -> float:
        return float(self.rng.uniform(low, high))

    def decide(self, odds: float) -> list[Line]:
        """Return a branch over one instruction."""
        return [Line("jne {skip}", ends="skip", chance=odds), Line("xor r10d,r12d", ends="fall")]


def binary_search(b: _Body) -> list[Line]:
    """Each probe depends on the last, and its branch on the probe."""
    probe = [Line(f"mov {b.a},[{b.a}]", b.place()), Line(f"cmp {b.a},r12"), *b.decide(b.odds(0.3))]
    return probe + [Line(f"lea {b.b},[{b.a}+{b.a}]")] * b.n(0, 2)


def hash_probe(b: _Body) -> list[Line]:
    """Multiply, shift and look up; mostly the key is there."""
    key = [Line(f"mov {b.a},[r14]", strided(b.base + 1, 8)), Line(f"imul {b.a},r12"), Line(f"shr {b.a},17")]
    return [*key, Line(f"cmp r12,[{b.a}]", b.place()), *b.decide(b.odds(0.02, 0.3))]


def polynomial(b: _Body) -> list[Line]:
    """Horner's rule, for several values side by side."""
    several, degree = b.n(1, 8), b.n(3, 9)
    return [Line(f"vfmadd213pd ymm{6 + k % 6},ymm14,ymm15") for _ in range(degree) for k in range(several)]


def table_step(b: _Body) -> list[Line]:
    """Go from state to state in a small table."""
    steps = [Line(f"movzx {b.a},word ptr [{b.a}]", hot(200 + k)) for k in range(b.n(1, 4))]
    return steps + [Line(f"inc {b.b}")] * b.n(0, 5)


def histogram(b: _Body) -> list[Line]:
    """Add one to a bin, the same one again more or less often."""
    bins = b.n(1, 12)
    at = lambda k, rng: (1 << 21) + 64 * rng.integers(0, bins, len(k))  # noqa: E731
    return [Line(f"movzx {b.b},byte ptr [r14]", strided(b.base, 1)), Line(f"inc dword ptr [{b.b}]", at)]


def running_sum(b: _Body) -> list[Line]:
    """Keep the sum of what was read, and write it."""
    step, add = (8, "vaddsd") if b.rng.random() < 0.6 else (4, "vaddss")
    x = b.v.replace("ymm", "xmm")
    read, write = (strided(b.base + k, step) for k in (0, 1))
    return [Line(f"{add} {x},{x},[r14]", read), Line(f"vmovsd [r14],{x}", write)] * b.n(1, 4)


def transposed(b: _Body) -> list[Line]:
    """Read by rows, write by columns."""
    stride = 64 * b.n(1, 80)
    read = Line("vmovsd xmm12,[r14]", strided(b.base, 8))
    writes = [Line("vmovsd [r14],xmm12", strided(b.base + 1 + k, stride)) for k in range(b.n(1, 4))]
    return [line for write in writes for line in (read, write)]


def normalised(b: _Body) -> list[Line]:
    """Divide or take roots of what was read."""
    op = ("vdivps {0},{0},ymm15", "vsqrtps {0},{0}", "vdivpd {0},{0},ymm15", "vsqrtsd xmm12,xmm12,xmm12")[b.n(0, 3)]
    head = [Line(f"vmovups {b.v},[r14]", strided(b.base, 32)), Line(op.format(b.v))]
    return head + [Line(f"vmulps {b.u},{b.v},ymm14")] * b.n(0, 6)


def interpreter(b: _Body) -> list[Line]:
    """Fetch an operation, go where it says, do a little."""
    fetch = [Line(f"mov {b.a},[r14]", hot(220)), Line(f"add {b.b},1")]
    return [*fetch, Line("jmp r13", ends="indirect", chance=b.odds(0.1, 0.7)), *[Line(f"add {b.b},r12")] * b.n(1, 5),
            Line("nop", ends="fall")]  # fmt: skip


def parser(b: _Body) -> list[Line]:
    """Bytes, compared with several values: some of the answers are hard to foresee."""
    lines = [Line(f"movzx {b.a},byte ptr [r14]", strided(b.base, 1))]
    for _ in range(b.n(1, 4)):
        lines += [Line(f"cmp {b.a},{b.n(9, 99)}"), *b.decide(b.odds(0.01, 0.4))]
    return lines


def dot_products(b: _Body) -> list[Line]:
    """Several sums at once of what lies in L1 or further away."""
    near, sums = b.rng.random() < 0.6, b.n(1, 8)
    at = [hot(240 + k) if near else strided(b.base + k % 3, 32) for k in range(sums)]
    return [Line(f"vfmadd231pd ymm{k},ymm14,[r14]", at[k]) for k in range(sums)]


def copied(b: _Body) -> list[Line]:
    """Copy or fill, from wherever it lies."""
    lines = (b.n(100, 400), b.n(1500, 9000), MEMORY)[b.n(0, 2)]
    source, target = (Scattered(b.base + k, lines, ordered=True) for k in (0, 1))
    if lines == MEMORY:
        source, target = strided(b.base, 32), strided(b.base + 1, 32)
    return ([Line("vmovups ymm12,[r14]", source)] if b.rng.random() < 0.6 else []) + [
        Line("vmovups [r14],ymm12", target)
    ] * b.n(1, 2)


def bits(b: _Body) -> list[Line]:
    """Shifts, counts of bits, rotations, carried or not."""
    ops = (
        "shl {d},3", "popcnt {d},{s}", "rorx {d},{s},9", "bswap {d}", "adc {d},{s}", "lea {d},[{s}+{s}*4+7]",
        "cmovne {d},{s}",
    )  # fmt: skip
    into, of = ((b.a,), b.a) if b.rng.random() < 0.4 else (("r10", "r11", b.a, b.b), "r12")
    return [Line(ops[b.n(0, 6)].format(d=into[k % len(into)], s=of)) for k in range(b.n(4, 24))]


def shuffled(b: _Body) -> list[Line]:
    """Permute, blend and convert vectors."""
    ops = (
        "vperm2f128 {d},{s},{s},1", "vpermilpd {d},{s},5", "vcvtdq2pd {d},xmm14", "vblendvpd {d},{s},{s},ymm15",
        "vunpcklpd {d},{s},{s}",
    )  # fmt: skip
    return [Line(ops[b.n(0, 4)].format(d=f"ymm{6 + k % 6}", s="ymm14")) for k in range(b.n(4, 18))]


def linked_list(b: _Body) -> list[Line]:
    """Follow a list and use what its nodes hold."""
    at = b.place()
    extra = [Line(f"mov {b.b},[{b.a}+8]", lambda k, rng: at(k, np.random.default_rng(0)) + 8)] * b.n(0, 2)
    return [Line(f"mov {b.a},[{b.a}]", at), *extra, *[Line(f"add r10,{b.b}")] * b.n(0, 8)]


def spilled(b: _Body) -> list[Line]:
    """Keep loop variables in memory, as code without optimisation does."""
    add, places = Line(f"add {b.a},r12"), [hot(260 + k) for k in range(b.n(1, 4))]
    return [line for at in places for line in (Line(f"mov {b.a},[rsp]", at), add, Line(f"mov [rsp],{b.a}", at))]


def many_pages(b: _Body) -> list[Line]:
    """A column of a wide table: a line of each page."""
    at = Scattered(b.base, b.n(300, 8000), 4096 + 64 * b.n(0, 3), ordered=bool(b.rng.random() < 0.5))
    return [Line(f"add {b.b},[r14]", at), *[Line("lea r10,[r12+1]")] * b.n(0, 8)]


def called(b: _Body) -> list[Line]:
    """Small functions after one another: jumps that are always taken."""
    jump = [Line("jmp {next}", ends="jump"), Line("nop", ends="fall")]
    return [line for _ in range(b.n(2, 8)) for line in (*[Line("lea r11,[r12+3]")] * b.n(0, 3), *jump)]


def far_apart(b: _Body) -> list[Line]:
    """A miss, and much work that does not need it."""
    work = ("lea r10,[r12+1]", "vpaddd ymm12,ymm14,ymm15", "mov r11,[r14]", "nop")
    return [Line("mov r10,[r14]", b.place())] + [
        Line(work[k % 4], hot(280 + k % 9)) if k % 4 == 2 else Line(work[k % 4]) for k in range(b.n(20, 250))
    ]


PIECES: tuple[Callable[[_Body], list[Line]], ...] = (
    binary_search, hash_probe, polynomial, table_step, histogram, running_sum, transposed, normalised, interpreter,
    parser, dot_products, copied, bits, shuffled, linked_list, spilled, many_pages, called, far_apart,
)  # fmt: skip


def program(number: int, seed: int) -> Loop:
    """Return one program: one to three pieces, one after the other or, where none branches, shuffled."""
    rng = np.random.default_rng([seed, number])
    chosen = [PIECES[number % len(PIECES)], *(PIECES[int(k)] for k in rng.integers(0, len(PIECES), 2))]
    parts = [piece(_Body(rng, k)) for k, piece in enumerate(chosen[: int(rng.choice([1, 2, 3], p=[0.4, 0.4, 0.2]))])]
    lines = [line for part in parts for line in part]
    if len(parts) > 1 and not any(line.ends for line in lines) and rng.random() < 0.7:
        lines = [lines[k] for k in rng.permutation(len(lines))]
    name = f"{seed}-{number:03d} " + "+".join(piece.__name__ for piece in chosen[: len(parts)])
    return Loop(name, _trace(name, lines, rng, chosen[0].__name__), _footprint_of(lines) != MEMORY)


def divisions_of(loop: Loop) -> int:
    """Return how many elements are divided, or their roots taken."""
    code, found = loop.trace.code, 0
    runs = np.bincount(loop.trace.stream, minlength=len(code.block_start) - 1)
    for block, (start, end) in enumerate(itertools.pairwise(code.block_start)):
        for text in code.text[start:end]:
            if _DIVIDES.match(text):
                found += int(runs[block]) * (4 if "ymm" in text else 1)
    return found


@dataclass(frozen=True)
class Run:
    """One program on one core: its counts, those under real names, and the classes that hold it back."""

    core: str
    samples: pk.Samples
    real: pk.Samples
    right: frozenset[str]

    @property
    def name(self) -> str:
        """What it is made of."""
        return str(self.samples.runs.index[0])


def simulated(loop: Loop, core: pk.Microarchitecture, variants: Variants) -> Run | None:
    """Run a program; None where nothing binds it."""
    length, warm = loop.trace.instruction_count, "caches" if loop.warm else "none"
    pmu = pk.SimulatedPmu(core, interval=max(1, length // 4), unit="instructions", warm=warm)
    credit = variants.credit(pmu.gus, loop.trace).credit
    if credit.max() < LEAST:
        return None
    samples = pmu.collect({loop.name: loop.trace})
    right = frozenset(map(str, credit.index[credit >= NEAR * credit.max()]))
    wide = samples.to_wide()
    return Run(core.name, samples, as_real(wide, core, divisions_of(loop) / len(wide)), right)


def functions(seed: int, count: int) -> Iterator[tuple[str, Loop]]:
    """Yield functions in C, compiled and run on random data, each with the core that it is asked about on."""
    rng = np.random.default_rng([seed, 2])
    for number, draw in enumerate(draws(seed, count)):
        core, warm = CORES[int(rng.integers(len(CORES)))], bool(rng.random() < 0.6)
        flags, name = draw.build or str(rng.choice(_FLAGS)), f"{seed}-{number:03d} {draw.kind}"
        given = arguments(draw.source, np.random.default_rng([seed, number]))
        trace = compile_kernel(draw.source, "f", flags=flags, name=name).trace(*given)
        if trace.instruction_count in LENGTHS:
            yield core, Loop(name, trace, warm)


def loops(seed: int, count: int) -> Iterator[tuple[str, Loop]]:
    """Yield loops, each with its core."""
    rng = np.random.default_rng([seed, 1])
    for number in range(count):
        yield CORES[int(rng.integers(len(CORES)))], program(number, seed)


def runs(seed: int, programs: int, *, compiled: bool = False) -> Iterator[Run]:
    """Yield the programs of a seed that anything binds, each on one core."""
    every = {name: Variants(pk.Microarchitecture.load(name), 4, seed) for name in CORES}
    for core, loop in functions(seed, programs) if compiled else loops(seed, programs):
        run = simulated(loop, every[core].core, every[core])
        if run is not None:
            yield run


def asked(run: Run) -> Iterator[dict[str, object]]:
    """Yield what is said with all events, and with real names."""
    model = pk.Bottlenecks.load(run.core)
    for events, samples in (("all events", run.samples), ("real names", run.real)):
        found = model.explain(samples, intervals=False)
        table = found.of(run.name)
        yield {
            "program": run.name, "core": run.core, "events": events, "truth": " or ".join(sorted(run.right)),
            "first": table["resource"][0], "probability": float(table["probability"][0]),
            "second": table["resource"][1], "named": found.answer(run.name) != "cannot tell",
            "right": table["resource"][0] in run.right, "three": bool(run.right & set(table["resource"][:3])),
        }  # fmt: skip


def table(found: pd.DataFrame) -> str:
    """Return the rows of docs/bottlenecks.md: how often right, by what is said, and how far both are apart."""
    ranges = [f"{low:g} to {min(high, 1):g}" for low, high in itertools.pairwise(EDGES)]
    columns = ["events", "programs", "named, of these right", "first right", "one of three",
               "first, three without latency-bound", *ranges,
               "calibration error (by chance)", "of what is named"]  # fmt: skip
    lines = [f"| {' | '.join(columns)} |", "| --- " * len(columns) + "|"]
    for events, part in found.groupby("events"):
        named, free = part[part["named"]], part[~part["truth"].str.contains("instruction latency")]
        cells = [
            f"{mine['right'].mean():.2f} ({len(mine)})"
            for low, high in itertools.pairwise(EDGES)
            for mine in [named[(named["probability"] >= low) & (named["probability"] < high)]]
        ]
        errors = [apart(each["probability"].to_numpy(), each["right"].to_numpy()) for each in (part, named)]
        lines.append(
            f"| {events} | {len(part)} | {part['named'].mean():.2f}, {named['right'].mean():.2f} | "
            f"{part['right'].mean():.2f} | {part['three'].mean():.2f} | {free['right'].mean():.2f}, "
            f"{free['three'].mean():.2f} | {' | '.join(cells)} | "
            + " | ".join(f"{error:.3f} ({chance:.3f})" for error, chance in errors)
            + " |"
        )
    return "\n".join(lines)


def main() -> None:
    """Print the table of docs/bottlenecks.md."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seed", type=int, nargs="?", metavar="SEED")
    parser.add_argument("--programs", type=int, default=228, metavar="N")
    parser.add_argument("--functions", action="store_true", help="compiled functions in C")
    parser.add_argument("--to", type=Path, metavar="FILE", help="what is said of each program, CSV")
    parser.add_argument("--of", type=Path, nargs="+", metavar="FILE", help="what --to wrote, together")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.of:
        print(table(pd.concat([pd.read_csv(path) for path in given.of])))
        return
    every = runs(given.seed, given.programs, compiled=given.functions)
    found = pd.DataFrame([row for run in every for row in asked(run)])
    if given.to:
        found.to_csv(given.to, index=False)
    print(table(found))


if __name__ == "__main__":
    main()
