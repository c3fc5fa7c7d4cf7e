"""Counters in one line of memory against counters in lines of their own: this machine's clock beside the simulation.

``python -m tests.benchmarks.false_sharing``: ratios above 1 are what the shared line costs. Two threads, which need two
processors; runs are interleaved, and the shortest of each counts.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import perfkit as pk

SOURCE = """
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <omp.h>
struct { long v; char pad[PAD]; } counter[64] __attribute__((aligned(64)));
__attribute__((noipa)) void solve(long n) {
    #pragma omp parallel
    {
        long *p = &counter[omp_get_thread_num()].v;
        for (long i = 0; i < n; i++) STEP;
    }
}
int main(int argc, char **argv) {
    struct timespec a, b;
    long n = atol(argv[1]);
    solve(n / 10);
    clock_gettime(CLOCK_MONOTONIC, &a);
    solve(n);
    clock_gettime(CLOCK_MONOTONIC, &b);
    printf("%.9f\\n", ((b.tv_sec - a.tv_sec) + 1e-9 * (b.tv_nsec - a.tv_nsec)) / n * 1e9);
}
"""
STEPS = {
    "load, add, store": "(*(volatile long *)p)++",
    "store": "*(volatile long *)p = i",
    "atomic add": "__atomic_fetch_add(p, 1, __ATOMIC_RELAXED)",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    if len(os.sched_getaffinity(0)) < 2:
        print("one processor: two threads never run at once here, nothing can be measured")
        return 1
    os.environ |= {"OMP_NUM_THREADS": "2", "OMP_PROC_BIND": "true"}
    gus = pk.Gus()
    print(f"{'':18} {'measured: shared, padded, ratio':>36}   simulated ratio ({gus.core.name})")
    with TemporaryDirectory() as folder:
        for name, step in STEPS.items():
            built = [_built(Path(folder), step, pad) for pad in (0, 56)]
            times: list[list[float]] = [[], []]
            for _ in range(rounds):
                for program, found in zip(built, times, strict=True):
                    done = subprocess.run([program, "2000000"], capture_output=True, text=True, check=True)
                    found.append(float(done.stdout))
            shared, padded = (min(each) for each in times)
            cycles = [
                pk.run_threads(gus, pk.trace_threads(program, "solve", ["3000"], skip=1)).cycles for program in built
            ]
            print(
                f"{name:18} {shared:10.3f} ns {padded:10.3f} ns {shared / padded:10.2f}   {cycles[0] / cycles[1]:15.2f}"
            )
    return 0


def _built(folder: Path, step: str, pad: int) -> Path:
    path = folder / f"program{len(list(folder.iterdir()))}"
    source = path.with_suffix(".c")
    source.write_text(SOURCE)
    words = ["gcc", "-O2", "-g", "-fopenmp", f"-DPAD={pad}", f"-DSTEP={step}", str(source), "-o", str(path)]
    subprocess.run(words, check=True)
    return path


if __name__ == "__main__":
    sys.exit(main())
