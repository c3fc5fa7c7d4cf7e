"""How often the intervals of ``study run --budget`` hold the rows that it does not measure, on tables that are known.

    python -m tests.benchmarks.budget gather 150 --seeds 20

Printed per seed: the rows measured, the share of the others whose interval of 90 % holds them, and the median error.
"""

import argparse

import numpy as np

import perfkit as pk
from perfkit.study.design import SequentialDesign

DERIVED = {"gather": ["LINES"], "stream": []}


def main() -> None:
    """Let each seed choose its rows of a shipped table, and compare its predictions with the rest."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", choices=sorted(DERIVED))
    parser.add_argument("budget", type=int)
    parser.add_argument("--seeds", type=int, default=20)
    options = parser.parse_args()
    rows = pk.datasets.load(f"studies/{options.table}")
    table = rows.ok.reset_index(drop=True)
    features, values = table[[*rows.dimensions, *DERIVED[options.table]]], table["tsc"].to_numpy(float)
    found = []
    for seed in range(options.seeds):
        design = SequentialDesign(features, options.budget, 0.05, seed)
        while chosen := design.propose():
            design.observe(chosen, [values[row] for row in chosen])
        predicted = design.predictions()
        true = values[predicted.index]
        held = float(((predicted["low"] <= true) & (true <= predicted["high"])).mean())
        found.append((held, float(np.median(np.abs(predicted["predicted"] / true - 1)))))
        print(f"seed {seed}: {len(design.values)} of {len(table)} measured, {held:.1%} held, error {found[-1][1]:.1%}")
    held, error = np.array(found).T
    print(
        f"held {held.mean():.1%} ({held.min():.1%} to {held.max():.1%}); median error {error.min():.1%} to "
        f"{error.max():.1%}"
    )


main()
