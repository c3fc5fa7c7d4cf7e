"""How often ``perfkit compare`` is wrong, on this machine: A/A comparisons, and a planted slowdown of 2 %.

    python -m tests.benchmarks.compare --alike 200 --planted 100

Kernels of the corpus are compared with themselves (two copies of one library), and with themselves followed by a chain
of multiplications that takes 2 % of their cycles (both sides have a fence and a short chain after the kernel). Programs
that add without end keep the other processors busy meanwhile. It prints the share of A/A comparisons that are called a
difference (a false alarm), the share of planted ones that are found, and how often the interval holds the truth.
"""

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

from perfkit.collectors import compile_kernel, corpus
from perfkit.collectors.host.compare import compare
from perfkit.collectors.host.true_cycles import true_cycles
from perfkit.collectors.kernels import Kernel
from perfkit.errors import UnavailableError

KERNELS = (
    "latency-add", "throughput-add", "load-bound", "store-bound", "divider", "fig1a", "triad", "string-copy", "gather",
    "correlation-v4",
)  # fmt: skip
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


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--alike", type=int, default=200)
    parser.add_argument("--planted", type=int, default=100)
    parser.add_argument("--processes", type=int, default=20)
    parser.add_argument("--kernels", default=",".join(KERNELS))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    names = options.kernels.split(",")
    processor = min(os.sched_getaffinity(0))
    pairs = {}
    for name in names:
        links = round(SLOWDOWN * true_cycles(lengthened(name, CHAIN)).cycles / LINK)
        pairs[name] = (lengthened(name, CHAIN), lengthened(name, CHAIN + links), lengthened(name, CHAIN))
    with neighbours(processor) as busy:
        for what, count, right in (("alike", options.alike, None), ("planted", options.planted, "slower")):
            start, verdicts, held, shares, refused = time.monotonic(), [], 0, [], 0
            for number in range(count):
                a, slow, same = pairs[names[number % len(names)]]
                b = same if right is None else slow
                try:
                    found = compare(a, b, processes=options.processes, processor=processor, seed=number)
                except UnavailableError as error:
                    refused += 1
                    print(f"{what} {a.name}: {error}", file=sys.stderr, flush=True)
                    continue
                low, high = found.interval
                held += low <= (0 if right is None else SLOWDOWN) <= high
                verdicts.append(found.verdict)
                shares.append(found.busy_share)
                line = f"{what} {a.name} {found.effect:+.3%} ({low:+.3%} to {high:+.3%}) {found.verdict}"
                print(line, "" if found.quiet else "beside a busy thread", file=sys.stderr, flush=True)
            if not verdicts:
                continue
            called = sum(verdict in ("slower", "faster") for verdict in verdicts)
            slower = "" if right is None else f", {verdicts.count('slower')} of them slower"
            seconds = (time.monotonic() - start) / count
            print(f"{what}: {called} of {len(verdicts)} called a difference{slower}; {held} intervals hold the truth;")
            print(
                f"    {refused} refused; {sum(shares) / len(shares):.0%} of the rounds beside a busy thread, "
                f"{busy} other processors kept busy; {seconds:.1f} s per comparison",
                flush=True,
            )


main()
