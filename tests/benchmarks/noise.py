"""Machine beside model on the corpus: ``python -m tests.benchmarks.noise [--core zen3] [--folder FOLDER] [KERNEL...]``.

Every kernel is profiled twice, with other orders. Printed are, of all that could be told: the rank correlation of what
machine and model absorb (over the kinds of a kernel; mean and median of the kernels), the share of kernels in which
both name the same first bottleneck, and the share of curves whose two profiles absorb the same within one instruction.
"""

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

import perfkit as pk
from perfkit.diagnosis.noise_curves import NONE, UNTOLD


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("kernels", nargs="*", default=[])
    options.add_argument("--core", default="host")
    options.add_argument("--build", default="avx2")
    options.add_argument("--folder", type=Path)
    given = options.parse_args()
    warnings.simplefilter("ignore", pk.errors.PerfkitWarning)
    ranks, same, within, near, alike, curves, refused = [], 0, 0, 0, 0, 0, []
    for name in given.kernels or list(pk.collectors.corpus().index):
        began = time.monotonic()
        kernel = pk.collectors.corpus_kernel(name, given.build)
        try:
            first, second = (
                pk.Noise(core=core, seed=seed, seconds=20).run(kernel) for seed, core in enumerate((given.core, None))
            )
        except pk.PerfkitError as error:
            refused.append(name)
            print(f"{name}: {type(error).__name__}: {' '.join(str(error).split())[-200:]}", flush=True)
            continue
        if given.folder:
            first.save(given.folder / f"{name}.parquet")
        table, again = (found.to_frame().set_index("kind") for found in (first, second))
        known = [k for k in table.index if k in again.index and UNTOLD not in (first.slack[k], second.slack[k])]
        gaps = np.abs(table.loc[known, "absorbed"] - again.loc[known, "absorbed"])
        scale = first.curves["added"][first.curves["added"] > 0].min()
        alike, near, curves = alike + int((gaps <= 1).sum()), near + int((gaps <= scale).sum()), curves + len(known)
        rank = float(spearmanr(table["absorbed"], table["simulated_absorbed"]).statistic)
        print(
            f"{name}: measured {first.bottleneck} (again {second.bottleneck}), simulated {first.simulated_bottleneck}, "
            f"rank correlation {rank:.2f}, {(gaps <= 1).mean():.0%} of curves repeat, {first.cycles:.1f} cycles and "
            f"{first.instructions:.0f} instructions per iteration, original {first.original:.3f}, "
            f"{time.monotonic() - began:.0f} s",
            flush=True,
        )
        if first.bottleneck != UNTOLD:
            ranks.append(rank)
            same += first.bottleneck == first.simulated_bottleneck
            tight = [kind for kind, slack in first.slack.items() if slack == NONE]
            within += first.simulated_bottleneck in tight or first.bottleneck == first.simulated_bottleneck
    told = len(ranks)
    print(f"\n{told} kernels told, {len(refused)} refused ({', '.join(refused)}), on {first.host}, model {first.core}")
    print(f"rank correlation of absorbed amounts: mean {np.nanmean(ranks):.2f}, median {np.nanmedian(ranks):.2f}")
    print(f"same first bottleneck: {same} of {told} ({same / max(told, 1):.0%}); the model's is one of those that the ")
    print(f"machine finds without slack in {within} of {told} ({within / max(told, 1):.0%})")
    print(
        f"two profiles within one instruction: {alike} of {curves} curves ({alike / max(curves, 1):.0%}); within one "
    )
    print(f"step of the counts: {near} ({near / max(curves, 1):.0%})")


if __name__ == "__main__":
    main()
