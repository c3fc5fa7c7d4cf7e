"""The paper's kernels on this machine, measured and simulated: FFT of 2^14 to 2^16 points, MVM of 500 to 2500 rows.

    python -m tests.benchmarks.dag_host --core zen4
    python -m tests.benchmarks.dag_host --core zen4 --sets     # what lines that share sets of L1 cost

Measured are core cycles of the same scalar code without recording (`measure_kernel`, warm); simulated is the whole
kernel with integer work, addresses and branches. Only meaningful on the core's own kind of host, and on a quiet one.
"""

import argparse
import time

import numpy as np

import perfkit as pk
from perfkit.collectors.dag.kernel_timing import measure_kernel
from perfkit.collectors.dag.paper_kernels import kernel
from perfkit.collectors.host.code import processor

SIZES = {"fft": (1 << 14, 1 << 15, 1 << 16), "mvm": (500, 1000, 1500, 2000, 2500)}
LINES, PAGE = 70, 512  # lines, and doubles from one to the next


def kernels(core: str, repetitions: int) -> None:
    """Print a row per kernel and size: flops per cycle measured and simulated, and how far they are apart."""
    scheduler = pk.DagScheduler(pk.DagCore.load(core), record=False)
    errors = []
    print(f"{'kernel':12s} {'measured':>9s} {'simulated':>9s} {'error':>6s} kept rejected")
    for name, sizes in SIZES.items():
        for size in sizes:
            source = kernel(name).trace(size, whole=True, core=pk.Microarchitecture.load(core))
            timed = measure_kernel(source, repetitions)
            run = scheduler.run(source)
            errors.append(timed.cycles / run.cycles - 1)
            text = f"{run.work / timed.cycles:9.3f} {run.performance:9.3f} {errors[-1]:+6.0%}"
            print(f"{source.name:12s} {text} {len(timed.samples):4d} {timed.rejected:8d}", flush=True)
    print(f"largest error {max(map(abs, errors)):.0%} (wanted at most 25 %)")


def read(data, stride, turns, out):
    """Load a double of each line."""
    total = 0.0
    for _ in range(turns):
        for i in range(0, data.size, stride):
            total += data[i]
    out[0] = total


def write(data, stride, turns, out):
    """Store a double to each line."""
    for turn in range(turns):
        for i in range(0, data.size, stride):
            data[i] = out[0] + turn


def change(data, stride, turns, out):
    """Load and store a double of each line."""
    for _ in range(turns):
        for i in range(0, data.size, stride):
            data[i] += 1.0


def change_slowly(data, stride, turns, out):
    """Load and store a double of each line beside a chain of six multiplications."""
    x = 1.0
    for _ in range(turns):
        for i in range(0, data.size, stride):
            data[i] += 1.0
            x = x * 1.0001 * 0.999 * 1.0001 * 1.00001 * 0.999 * 0.9998
    out[0] = x


def sets(core: str, repetitions: int) -> None:
    """Print cycles per line and set, measured and simulated, of lines that share one, two and four sets of L1."""
    scheduler = pk.DagScheduler(pk.DagCore.load(core), record=False)
    for count in (1, 2, 4):
        stride, lines = PAGE // count, LINES * count
        for function in (read, write, change, change_slowly):
            turns = 30_000 // lines
            source = pk.trace_numba(function, np.zeros(lines * stride), stride, turns, np.zeros(1), whole=True)
            per_line = count / (lines * turns)
            measured = measure_kernel(source, repetitions).cycles * per_line
            simulated = scheduler.run(source).cycles * per_line
            print(
                f"sets: {count}, {function.__name__:14s} {measured:6.1f} measured, {simulated:6.1f} simulated",
                flush=True,
            )


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.dag_host")
    parser.add_argument("--core", default="zen4", help="the core of this host")
    parser.add_argument("--repetitions", type=int, default=15)
    parser.add_argument("--sets", action="store_true", help="what lines that share sets of L1 cost")
    given = parser.parse_args()
    print(f"{processor()}, {time.strftime('%Y-%m-%d')}; simulated on {given.core}")
    (sets if given.sets else kernels)(given.core, given.repetitions)


if __name__ == "__main__":
    main()
