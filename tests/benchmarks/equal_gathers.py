"""Do gathers of equal lines and elements take equal time? Measured on this machine, beside the shipped table's rows.

    python -m tests.benchmarks.equal_gathers --folder gathers

Of `data/studies/gather.yaml`, the 256-bit variants of so many elements are measured; with ``--folder`` it can be
stopped at any time, and the same command goes on. Printed for the shipped rows and for those measured: how many lie
within 5 % of the median of their group (equal elements and number of lines), the worst, how many lie within 2 % of the
median of those that touch the very same lines, and the share of the variation within groups that the lines explain.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

import perfkit as pk
from perfkit.study.study import Study

ROOT = Path(__file__).resolve().parents[2]
INDICES = [f"IDX{number}" for number in range(8)]


def figures(name: str, table: pd.DataFrame) -> None:
    """Print what the variation within groups is made of."""
    lines = [",".join(map(str, sorted({index // 16 for index in row}))) for row in table[INDICES].to_numpy()]
    table = table.assign(SET=lines, log=np.log(table["tsc"]))
    far = (table["tsc"] / table.groupby(["ELEMENTS", "LINES"])["tsc"].transform("median") - 1).abs()
    same = table.groupby(["ELEMENTS", "SET"])["tsc"]
    apart = (table["tsc"] / same.transform("median") - 1).abs()[same.transform("size") > 1]
    rest = table["log"] - table.groupby(["ELEMENTS", "LINES"])["log"].transform("mean")
    error = table["log"] - table.groupby(["ELEMENTS", "SET"])["log"].transform("mean")
    print(f"{name}: {len(table)} rows, {table['settled'].sum()} settled")
    print(f"    {(far <= 0.05).mean():.1%} within 5 % of the median of their group (worst {far.max():.1%});")
    print(f"    {(apart <= 0.02).mean():.1%} within 2 % of those that touch the same lines (worst {apart.max():.1%});")
    print(f"    the lines explain {1 - (error**2).sum() / (rest**2).sum():.0%} of the variation within groups")


def main() -> None:
    """Measure what the folder does not hold yet, and print the figures of both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--elements", default="4,5,6")
    parser.add_argument("--folder", type=Path, help="keep rows here, and go on after them")
    options = parser.parse_args()
    study = Study.from_yaml(ROOT / "data" / "studies" / "gather.yaml")
    elements = [int(count) for count in options.elements.split(",")]
    study = study.replace(dimensions={**study.dimensions, "WIDTH": [256], "ELEMENTS": elements})
    measured = pk.collectors.Microbenchmark(folder=options.folder).collect(study).ok
    shipped = pk.datasets.load("studies/gather").ok
    figures("shipped", shipped[(shipped["WIDTH"] == 256) & shipped["ELEMENTS"].isin(elements)])
    figures("measured", measured)


main()
