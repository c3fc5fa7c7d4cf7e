"""How far apart are true cycles of one kernel, measured again and again: the whole corpus, on this machine as it is.

    python -m tests.benchmarks.spread --times 3 --neighbours 1 --rows rows.jsonl

Each measurement is a call of `true_cycles` of its own; the calls of one kernel are as far apart as the corpus is long.
`--neighbours` processes compute without end meanwhile, on any processor. With ``--rows`` it can be stopped at any time:
the same command goes on. Printed per kernel: the spread (highest over lowest, minus one) of those that found a quiet
core and whose processes agree, and the share of samples beside a busy thread; last, how many kernels have a spread of
at most 3 %, and how many measurements were refused or said that the core was never quiet.
"""

import argparse
import contextlib
import json
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from perfkit.collectors import corpus, corpus_kernel
from perfkit.collectors.host.true_cycles import true_cycles
from perfkit.errors import PerfkitError

MOST = 0.03


@contextlib.contextmanager
def neighbours(count: int) -> Iterator[None]:
    """Keep this many processes computing."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: sum(range(10000))"]) for _ in range(count)]
    try:
        yield
    finally:
        for one in busy:
            one.kill()
            one.wait()


def row(name: str, turn: int, options: argparse.Namespace) -> dict[str, Any]:
    """Measure a kernel once; returns what is stored of it."""
    about = {"kernel": name, "turn": turn}
    try:
        found = true_cycles(corpus_kernel(name, options.build), repetitions=options.repetitions)
    except PerfkitError as error:
        return about | {"quiet": False, "message": str(error)}
    low, high = found.interval
    return about | {
        "quiet": found.quiet,
        "settled": found.settled,
        "cycles": found.cycles,
        "low": low,
        "high": high,
        "busy": found.busy_share,
    }


def told(one: dict[str, Any]) -> bool:
    """Whether a measurement names its cycles without a word against them."""
    return bool(one["quiet"] and one["settled"])


def main() -> None:
    """Measure what the file does not hold yet, and print the figures of all that it holds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--build", default="avx2")
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--neighbours", type=int, default=0)
    parser.add_argument("--rows", type=Path, help="keep a line per measurement here, and go on after them")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # a busy core is counted below
    known = options.rows.read_text().splitlines() if options.rows is not None and options.rows.exists() else []
    rows: list[dict[str, Any]] = [json.loads(line) for line in known]
    done = {(one["kernel"], one["turn"]) for one in rows}
    with neighbours(options.neighbours):
        for turn in range(options.times):
            for name in corpus().index:
                if (name, turn) not in done:
                    rows.append(row(name, turn, options))
                    if options.rows is not None:
                        with options.rows.open("a") as file:
                            file.write(json.dumps(rows[-1]) + "\n")
    spreads, held = [], 0
    for name in corpus().index:
        quiet = [one for one in rows if one["kernel"] == name and told(one)]
        if len(quiet) < 2:
            continue
        cycles = [one["cycles"] for one in quiet]
        spreads.append(max(cycles) / min(cycles) - 1)
        held += max(one["low"] for one in quiet) <= min(one["high"] for one in quiet)
        print(
            f"{name:18} {np.median(cycles):12,.0f} cycles, spread {spreads[-1]:7.2%} of {len(quiet)}; "
            f"{np.mean([one['busy'] for one in quiet]):4.0%} of the samples beside a busy thread"
        )
    good, refused = sum(spread <= MOST for spread in spreads), sum(not told(one) for one in rows)
    print(f"{good} of {len(spreads)} kernels within {MOST:.0%};", end=" ")
    print(f"{refused} of {len(rows)} measurements refused, not quiet or not settled;")
    print(f"    the error bars of {held} of {len(spreads)} kernels have a value in common")


main()
