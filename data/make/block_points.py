"""Write the measured cycles of basic blocks into data/blocks, with their manifest.

    .venv/bin/python -m tests.benchmarks.blocks measure --blocks FILE.csv --keep /tmp/cycles.csv
    .venv/bin/python data/make/block_points.py zen4 /tmp/cycles.csv

The blocks themselves are not in the table: each is named by the first 16 digits of its machine code's SHA-256, so that
whoever has the list (BHive's) can score a model without the machine. Blocks that could not be measured have no figure.
"""

import argparse
import time
from pathlib import Path

from data.make.manifest import describe
from tests.benchmarks.blocks import kept_table

FOLDER = Path(__file__).parents[1] / "blocks"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("core")
    parser.add_argument("kept", type=Path)
    options = parser.parse_args()
    host = options.kept.read_text(encoding="utf-8").partition("\n")[0].partition(" measured on ")[2]
    FOLDER.mkdir(exist_ok=True)
    points = kept_table(options.kept).round(3).sort_values("block")
    file = FOLDER / f"{options.core}.csv"
    points.to_csv(file, index=False)
    entry = {
        "file": file.name,
        "format": "csv",
        "kind": "measured",
        "holds": f"core cycles of {len(points):,} basic blocks of BHive's applications, by the SHA-256 of their code",
        "units": "core cycles of a turn of a loop over the block (looped) and of a copy (unrolled); none: not measured",
        "source": f"perfkit.collectors.blocks on {host}, under a hypervisor, {time.strftime('%Y-%m-%d')}",
        "licence": "MIT",
    }
    describe(FOLDER, {f"blocks/{file.stem}": entry}, "data/make/block_points.py")


if __name__ == "__main__":
    main()
