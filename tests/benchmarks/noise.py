"""Machine beside model: ``python -m tests.benchmarks.noise [--known] [--core zen3] [--folder FOLDER] [KERNEL...]``.

Every kernel of the corpus is profiled twice, with other orders. Printed are, of all that could be told: the rank
correlation of what machine and model absorb (over the kinds of a kernel; mean and median of the kernels), the share of
kernels in which both name the same first bottleneck, and the share of curves whose two profiles absorb the same within
one instruction. ``--known`` takes the loops of tests/diagnosis/noise_kernels.py, whose bottleneck is known by
construction, and counts the right answers, too.

Profiles are kept in FOLDER, and the next call goes on; ``--until`` ends a call early.
"""

import argparse
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

import perfkit as pk
from perfkit.diagnosis.noise_curves import NONE, UNTOLD
from tests.diagnosis.noise_kernels import FLAGS, KERNELS


@dataclass
class Tally:
    """What was counted over the kernels."""

    ranks: list[float] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    told: int = 0
    same: int = 0
    within: int = 0
    alike: int = 0
    near: int = 0
    curves: int = 0
    answers: int = 0
    right: int = 0
    wrong: list[str] = field(default_factory=list)


def kernel_of(name: str, given: argparse.Namespace) -> tuple[Any, tuple[Any, ...]]:
    """Return a kernel and its arguments."""
    if given.known:
        known = KERNELS[name]
        return pk.collectors.compile_kernel(known.source, "f", flags=FLAGS, name=name), known.arguments
    return pk.collectors.corpus_kernel(name, given.build), ()


def profiles(name: str, given: argparse.Namespace) -> Iterator[pk.NoiseResult]:
    """Profile a kernel again and again, or read what was kept; the model is beside the first."""
    for seed in range(given.profiles):
        file = given.folder / f"{name.replace(' ', '-')}-{seed}.parquet" if given.folder else None
        if file is not None and file.exists():
            yield pk.NoiseResult.load(file)
            continue
        kernel, arguments = kernel_of(name, given)
        found = pk.Noise(core=None if seed else given.core, seed=seed, seconds=20).run(kernel, *arguments)
        if file is not None:
            given.folder.mkdir(parents=True, exist_ok=True)
            found.save(file)
        yield found


def counted(name: str, found: list[pk.NoiseResult], tally: Tally, known: bool) -> str:
    """Count what the profiles of a kernel say, and say it."""
    first, second = found[:2]
    table, again = (one.to_frame().set_index("kind") for one in (first, second))
    both = [k for k in table.index if k in again.index and UNTOLD not in (first.slack[k], second.slack[k])]
    gaps = np.abs(table.loc[both, "absorbed"] - again.loc[both, "absorbed"])
    scale = first.curves["added"][first.curves["added"] > 0].min()
    tally.alike, tally.near = tally.alike + int((gaps <= 1).sum()), tally.near + int((gaps <= scale).sum())
    tally.curves += len(both)
    rank = float(spearmanr(table["absorbed"], table["simulated_absorbed"]).statistic)
    answers = [one.bottleneck for one in found]
    if known:
        tally.answers, tally.right = tally.answers + 1, tally.right + all(a in KERNELS[name].right for a in answers)
        tally.wrong += [f"{name}: {a}" for a in answers if a not in KERNELS[name].right]
    if first.bottleneck != UNTOLD:
        tally.told += 1
        tally.ranks.append(rank)
        tally.same += first.bottleneck == first.simulated_bottleneck
        tight = [kind for kind, slack in first.slack.items() if slack == NONE]
        tally.within += first.simulated_bottleneck in tight or first.bottleneck == first.simulated_bottleneck
    off = pd.DataFrame({"first": table["absorbed"], "again": again["absorbed"]}).loc[gaps.index[gaps > 1]].round(1)
    return (
        f"{name}: measured {' / '.join(answers)}, simulated {first.simulated_bottleneck}, rank correlation {rank:.2f}, "
        f"{(gaps <= 1).mean():.0%} of curves repeat{''.join(f', not {k} {a} {b}' for k, a, b in off.itertuples())}; "
        f"{first.cycles:.1f} cycles and {first.instructions:.0f} instructions per iteration, original "
        f"{first.original:.3f}"
    )


def report(tally: Tally, found: pk.NoiseResult) -> None:
    """Print what was counted."""
    told = max(tally.told, 1)
    names = ", ".join(tally.refused)
    print(f"\n{tally.told} kernels told, {len(tally.refused)} refused ({names}), on {found.host}, model {found.core}")
    if tally.answers:
        print(
            f"right in every profile: {tally.right} of {tally.answers} loops; {'; '.join(tally.wrong) or 'none wrong'}"
        )
    print(f"rank correlation of absorbed amounts: mean {np.nanmean(tally.ranks):.2f}, median "
          f"{np.nanmedian(tally.ranks):.2f}")  # fmt: skip
    print(
        f"same first bottleneck: {tally.same} of {tally.told} ({tally.same / told:.0%}); the model's is one of those "
    )
    print(f"that the machine finds without slack in {tally.within} of {tally.told} ({tally.within / told:.0%})")
    curves = max(tally.curves, 1)
    print(f"two profiles within one instruction: {tally.alike} of {tally.curves} curves ({tally.alike / curves:.0%}); ")
    print(f"within one step of the counts: {tally.near} ({tally.near / curves:.0%})")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("kernels", nargs="*", default=[])
    options.add_argument("--core", default="host")
    options.add_argument("--build", default="avx2")
    options.add_argument("--folder", type=Path)
    options.add_argument("--known", action="store_true", help="the loops whose bottleneck is known")
    options.add_argument("--profiles", type=int, default=2, help="of each kernel, at least 2")
    options.add_argument("--until", type=float, default=np.inf, help="begin no new kernel after these seconds")
    given = options.parse_args()
    if given.profiles < 2:
        options.error("--profiles: two at least, as they are compared")
    warnings.simplefilter("ignore", pk.errors.PerfkitWarning)
    tally, last, began = Tally(), None, time.monotonic()
    for name in given.kernels or list(KERNELS if given.known else pk.collectors.corpus().index):
        if time.monotonic() - began > given.until:
            print("the time is up: call again for the other kernels")
            break
        try:
            found = list(profiles(name, given))
        except pk.PerfkitError as error:
            tally.refused.append(name)
            print(f"{name}: {type(error).__name__}: {' '.join(str(error).split())[-200:]}", flush=True)
            continue
        print(counted(name, found, tally, given.known), flush=True)
        last = found[0]
    if last is not None:
        report(tally, last)


if __name__ == "__main__":
    main()
