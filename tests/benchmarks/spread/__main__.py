"""How far apart are true cycles of one kernel, measured again and again: the whole corpus, on this machine as it is.

    python -m tests.benchmarks.spread --times 3

Each measurement is a call of `true_cycles` of its own. Printed per kernel: the spread (highest over lowest, minus one)
of those that found a quiet core, and the share of samples beside a busy thread; last, how many kernels have a spread of
at most 3 %, and how many measurements were refused or said that the core was never quiet.
"""

import argparse
import warnings

import numpy as np

from perfkit.collectors import corpus, corpus_kernel
from perfkit.collectors.host.true_cycles import true_cycles
from perfkit.errors import PerfkitError

MOST = 0.03


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--build", default="avx2")
    parser.add_argument("--repetitions", type=int, default=200)
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # a busy core is counted below
    spreads, refused, calls, held = [], 0, 0, 0
    for name in corpus().index:
        kernel = corpus_kernel(name, options.build)
        found, busy, bars = [], [], []
        for _ in range(options.times):
            calls += 1
            try:
                measured = true_cycles(kernel, repetitions=options.repetitions)
            except PerfkitError as error:
                refused += 1
                print(f"{name}: {error}")
                continue
            busy.append(measured.busy_share)
            if measured.quiet:
                found.append(measured.cycles)
                bars.append(measured.interval)
            else:
                refused += 1
        if len(found) > 1:
            spreads.append(max(found) / min(found) - 1)
            held += max(low for low, _ in bars) <= min(high for _, high in bars)
            print(
                f"{name:18} {np.median(found):12,.0f} cycles, spread {spreads[-1]:7.2%} of {len(found)}; "
                f"{np.mean(busy):4.0%} of the samples beside a busy thread",
                flush=True,
            )
    good = sum(spread <= MOST for spread in spreads)
    print(
        f"{good} of {len(spreads)} kernels within {MOST:.0%}; {refused} of {calls} measurements refused or not quiet;"
    )
    print(f"    the error bars of {held} of {len(spreads)} kernels have a value in common")


main()
