"""How often ``perfkit compare`` is wrong, on this machine: A/A comparisons, and a planted slowdown of 2 %.

    python -m tests.benchmarks.compare --alike 200 --planted 100 --rows rows.jsonl

With ``--rows`` it can be stopped at any time: the same command goes on.

Kernels of the corpus are compared with themselves (two copies of one library), and with themselves followed by a chain
of multiplications that takes 2 % of their cycles (both sides have a fence and a short chain after the kernel). Programs
that add without end keep the other processors busy meanwhile. Functions of a few cycles, shorter than a step of some
processors' counters, are compared with themselves as well, without fences. It prints the share of A/A comparisons that
are called a difference (a false alarm), the share of planted ones that are found, and how often the interval holds the
truth.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scipy.stats import binomtest

from perfkit.collectors import compile_kernel, corpus
from perfkit.collectors.host.compare import compare
from perfkit.collectors.host.true_cycles import true_cycles
from perfkit.collectors.kernels import Kernel
from perfkit.errors import UnavailableError

KERNELS = (
    "latency-add", "throughput-add", "load-bound", "store-bound", "divider", "fig1a", "triad", "string-copy", "gather",
    "correlation-v4",
)  # fmt: skip
SHORT = {
    "nothing": "void nothing(void) {}",
    "links": 'void links(void) { __asm__ volatile(".rept 10\\n imul %%eax, %%eax\\n .endr" ::: "eax", "cc"); }',
    "no-turn": "long no_turn(long n) { long x = 1; for (long i = 0; i < n; i++) x = x * 3 + i; return x; }",
    "store": "static volatile long s; void store(void) { for (int i = 0; i < 8; i++) s = i; }",
}
SLOWDOWN, CHAIN, LINK = 0.02, 64, 3
SOURCE = """#include "{name}.c"
EXPORT void lengthened(void) {{
    {function}();
    unsigned long x = 1, y = 3;
    __asm__ volatile("lfence");
    for (long k = 0; k < EXTRA; k++) __asm__ volatile("imul %1, %0" : "+r"(x) : "r"(y) : "cc");
    __asm__ volatile("lfence");
}}
"""
BURN = r"""int main(void) {
    for (;;) __asm__ volatile(".rept 99\n add %%rdi,%%rax\n add %%rdi,%%rcx\n .endr" ::: "rax", "rcx", "cc");
}"""


def lengthened(name: str, links: int) -> Kernel:
    """Compile a kernel of the corpus with a chain of so many multiplications behind it."""
    source = SOURCE.format(name=name, function=corpus().loc[name, "function"])
    return compile_kernel(source, "lengthened", build="avx2", defines={"EXTRA": links}, name=name)


@contextlib.contextmanager
def neighbours(measured: int) -> Iterator[int]:
    """Keep all other processors busy; gives their number."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "burn.c").write_text(BURN)
        subprocess.run(["gcc", "-O1", "burn.c", "-o", "burn"], cwd=folder, check=True)
        others = sorted(os.sched_getaffinity(0) - {measured})
        burning = [
            subprocess.Popen(["nice", "-n", "15", "taskset", "-c", str(cpu), f"{folder}/burn"]) for cpu in others
        ]
        try:
            yield len(burning)
        finally:
            for one in burning:
                one.kill()
                one.wait()


def interval(called: int, made: int) -> str:
    """Return the 95 % interval of a share that was counted (Clopper and Pearson)."""
    found = binomtest(called, made).proportion_ci(0.95, "exact")
    return f"{found.low:.1%} to {found.high:.1%}"


def row(what: str, number: int, a: Kernel, b: Kernel, options: argparse.Namespace) -> dict[str, Any]:
    """Make one comparison; returns what is stored of it."""
    start = time.monotonic()
    about = {"what": what, "number": number, "kernel": a.name}
    try:
        given = [-5] if a.name == "no-turn" else []
        found = compare(a, b, *given, processes=options.processes, seed=number, processor=min(os.sched_getaffinity(0)))
    except UnavailableError as error:
        return about | {"verdict": "refused", "message": str(error)}
    return about | {
        "verdict": found.verdict, "effect": found.effect, "low": found.interval[0], "high": found.interval[1],
        "busy": found.busy_share, "quiet": found.quiet, "seconds": time.monotonic() - start,
    }  # fmt: skip


def main() -> None:
    """Make what the file does not hold yet, and print the figures of all that it holds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--alike", type=int, default=200)
    parser.add_argument("--planted", type=int, default=100)
    parser.add_argument("--short", type=int, default=100)
    parser.add_argument("--processes", type=int, default=30, help="as the command, unless said")
    parser.add_argument("--kernels", default=",".join(KERNELS))
    parser.add_argument("--rows", type=Path, help="keep a line per comparison here, and go on after them")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    known = options.rows.read_text().splitlines() if options.rows is not None and options.rows.exists() else []
    rows: list[dict[str, Any]] = [json.loads(line) for line in known]
    names = options.kernels.split(",")
    pairs = {}
    for name in names:
        links = round(SLOWDOWN * true_cycles(lengthened(name, CHAIN)).cycles / LINK)
        pairs[name] = (lengthened(name, CHAIN), lengthened(name, CHAIN + links), lengthened(name, CHAIN))
    short = [[compile_kernel(source, name=name) for _ in "ab"] for name, source in SHORT.items()]
    done = {(one["what"], one["number"]) for one in rows}
    wanted = [("alike", number) for number in range(options.alike)]
    wanted += [("planted", number) for number in range(options.planted)]
    wanted += [("short", number) for number in range(options.short)]
    # In turns, so that a part of them says something of both.
    wanted.sort(key=lambda one: (one[1] / max(getattr(options, one[0]), 1), one[0]))
    with neighbours(min(os.sched_getaffinity(0))) as busy:
        for what, number in wanted:
            if (what, number) in done:
                continue
            a, slow, same = pairs[names[number % len(names)]]
            sides = {"alike": (a, same), "planted": (a, slow), "short": short[number % len(short)]}
            one = row(what, number, *sides[what], options)
            rows.append(one)
            print(json.dumps(one), file=sys.stderr, flush=True)
            if options.rows is not None:
                with options.rows.open("a") as file:
                    file.write(json.dumps(one) + "\n")
    for what, truth in (("alike", 0.0), ("planted", SLOWDOWN), ("short", 0.0)):
        made = [one for one in rows if one["what"] == what]
        told = [one for one in made if one["verdict"] != "refused"]
        if not told:
            continue
        called = [one for one in told if one["verdict"] in ({"slower"} if truth else {"slower", "faster"})]
        held = sum(one["low"] <= truth <= one["high"] for one in told)
        mean = {name: sum(one[name] for one in told) / len(told) for name in ("busy", "seconds")}
        print(f"{what}: {len(called)} of {len(told)} called {'slower' if truth else 'a difference'}")
        print(f"    (95 % interval of the share: {interval(len(called), len(told))});")
        print(f"    {held} intervals hold the truth; {len(made) - len(told)} refused; {mean['busy']:.0%} of the rounds")
        print(f"    beside a busy thread, {busy} other processors kept busy; {mean['seconds']:.1f} s per comparison")


main()
