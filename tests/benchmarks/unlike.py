"""`pk.Bottlenecks` on programs unlike those it learnt from: loops of other kinds, several of them in one body.

Run: python -m tests.benchmarks.unlike SEED [PROGRAMS]; needs GNU as and objcopy. Everything is simulated.

The pieces are written anew, after what programs do (search, hash, sort, parse, transpose, ...); none is of
data/make/loops.py, of which only the assembling is used. One to three pieces share a loop, often shuffled. Truth is the
classes' credit. Each program is asked about on one core, drawn of eight, of which four were learnt from: with all of
the simulator's events, and with those that the core's map has a name for, under these names. Change nothing in the
model for what a seed prints: draw another seed to quote a figure.
"""

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
from perfkit.fitters.bottlenecks.features import SUMS, any_of, port_events
from perfkit.fitters.bottlenecks.names import countable, names_for
from perfkit.simulators.pmu.credit import Variants

sys.path.insert(0, str(Path(__file__).parents[2] / "data" / "make"))
from loops import MEMORY, Line, Loop, Scattered, _footprint_of, _trace, hot, strided

CORES = ("skylake_x", "golden_cove", "zen4", "zen5", "ice_lake", "sandy_bridge", "zen3", "raptor_cove")
NEAR, LEAST, SURE = 0.9, 0.02, 0.5  # as data/make/league.py
EDGES = (0.5, 0.65, 0.8, 0.95, 1.0001)
_PORT = {"10": "A", "11": "B"}
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


def busy_ports(counts: pd.DataFrame, core: pk.Microarchitecture) -> pd.DataFrame:
    """Return how many uops each single port executes: those of a group go to its least busy ports."""
    groups = {name: set(group.units) for name, group in core.ports.items() if f"uops.{name}" in counts}
    found = pd.DataFrame(0.0, index=counts.index, columns=sorted(set().union(*groups.values())))
    own: dict[str, pd.Series] = {}
    for name in sorted(groups, key=lambda one: len(groups[one])):  # a group's event counts those of groups within it
        within = [counts[f"uops.{name}"] * 0.0, *(own[other] for other in own if groups[other] < groups[name])]
        own[name] = (counts[f"uops.{name}"] - sum(within)).clip(lower=0.0)
        for row in counts.index:
            units = sorted(groups[name])
            loads = found.loc[row, units].sort_values().to_numpy()
            levels = (float(own[name][row]) + np.cumsum(loads)) / np.arange(1, len(loads) + 1)
            level = next(level for level, above in zip(levels, [*loads[1:], np.inf], strict=True) if level <= above)
            found.loc[row, units] = np.maximum(found.loc[row, units], level)
    return found


def as_real(samples: pk.Samples, core: pk.Microarchitecture, divisions: int) -> pk.Samples:
    """Return the counts under the names that a processor has for them, as a measured dump would have them."""
    wide = samples.to_wide()
    counts = wide.drop(columns=["cycles", "instructions"])
    ports, named = busy_ports(counts, core), {}
    for event in sorted(countable(core.vendor, core.name)):
        for name in names_for(event, core.vendor, core.name)[:1]:
            for real in name.split("+"):
                if (digits := re.search(r"port_([0-9_]+)$", real)) is not None:
                    units = [f"p{_PORT.get(one, one)}" for one in digits[1].split("_")]
                    named[real] = ports[[unit for unit in units if unit in ports]].sum(axis=1)
                elif event == any_of("dividers"):
                    groups = [f"uops.{group}" for group in port_events(core)["dividers"]]
                    named[real] = counts[groups].max(axis=1)
                elif all(part in counts for part in SUMS.get(event, (event,))):
                    named.setdefault(real, counts[list(SUMS.get(event, (event,)))].sum(axis=1))
    if core.vendor == "AMD":
        named["fp_ret_sse_avx_ops.div_flops"] = wide["instructions"] * 0.0 + divisions / len(wide)
    rows = [
        pd.DataFrame({"run": wide.index.get_level_values("run"), "interval": range(len(wide)), "event": real,
                      "time": wide["cycles"], "work": wide["instructions"], "count": values})
        for real, values in named.items()
    ]  # fmt: skip
    return pk.Samples.from_frame(pd.concat(rows), kind="measured", time_event="cycles", work_event="instructions")


def divisions_of(loop: Loop) -> int:
    """Return how many elements are divided, or their roots taken."""
    code, found = loop.trace.code, 0
    runs = np.bincount(loop.trace.stream, minlength=len(code.block_start) - 1)
    for block, (start, end) in enumerate(itertools.pairwise(code.block_start)):
        for text in code.text[start:end]:
            if "div" in text or "sqrt" in text:
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
    return Run(core.name, samples, as_real(samples, core, divisions_of(loop)), right)


def runs(seed: int, programs: int) -> Iterator[Run]:
    """Yield the programs of a seed that anything binds, each on one core."""
    rng = np.random.default_rng([seed, 1])
    cores = {name: pk.Microarchitecture.load(name) for name in CORES}
    every = {name: Variants(core, 4, seed) for name, core in cores.items()}
    for number in range(programs):
        name = CORES[int(rng.integers(len(CORES)))]
        run = simulated(program(number, seed), cores[name], every[name])
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


def main(seed: int, programs: int = 228, path: str = "") -> None:
    """Print the table of docs/bottlenecks.md."""
    warnings.simplefilter("ignore")
    found = pd.DataFrame([row for run in runs(seed, programs) for row in asked(run)])
    if path:
        found.to_csv(path, index=False)
    ranges = [f"{low:g} to {min(high, 1):g}" for low, high in itertools.pairwise(EDGES)]
    columns = ["events", "programs", "named, of these right", "first right", "one of three", *ranges]
    print(f"| {' | '.join(columns)} |\n{'| --- ' * len(columns)}|")
    for events, part in found.groupby("events"):
        named = part[part["named"]]
        cells = [
            f"{mine['right'].mean():.2f} ({len(mine)})"
            for low, high in itertools.pairwise(EDGES)
            for mine in [named[(named["probability"] >= low) & (named["probability"] < high)]]
        ]
        print(
            f"| {events} | {len(part)} | {part['named'].mean():.2f}, {named['right'].mean():.2f} | "
            f"{part['right'].mean():.2f} | {part['three'].mean():.2f} | {' | '.join(cells)} |"
        )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]), *sys.argv[3:])
