"""Write the measured points of the accuracy benchmark into data/accuracy, with their manifest.

    .venv/bin/python -m tests.benchmarks.accuracy measure --folder /tmp/corpus
    .venv/bin/python -m tests.benchmarks.accuracy measure --folder /tmp/held-out --set held-out
    .venv/bin/python data/make/accuracy_points.py zen5 /tmp/corpus /tmp/held-out

Run it on the host that measured: its processor and compilers go into the manifest, beside what it holds of other
cores. The traces are recorded anew wherever they are needed.
"""

import argparse
import json
import time
from pathlib import Path

import pandas as pd

from data.make.manifest import describe
from perfkit.collectors.host.code import cpuinfo
from perfkit.collectors.host.toolchain import version

FOLDER = Path(__file__).parents[1] / "accuracy"
SETS = ("corpus", "held-out")
HOLDS = {
    "corpus": "core cycles of a call of each kernel of the corpus in three builds by gcc",
    "held-out": "core cycles of a call of each kernel of the corpus in two builds by clang: scored, not fitted",
}
COLUMNS = ["kernel", "build", "instructions", "cycles", "spread", "kept", "rejected", "host"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("core")
    parser.add_argument("folders", nargs=2, type=Path, metavar=("CORPUS", "HELD_OUT"))
    options = parser.parse_args()
    info = cpuinfo()
    host = f"{info['model name']}, family {info['cpu family']} model {info['model']}, under a hypervisor"
    FOLDER.mkdir(exist_ok=True)
    entries = {}
    for name, folder in zip(SETS, options.folders, strict=True):
        points = pd.DataFrame([json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))])
        points["host"] = host
        file = FOLDER / f"{options.core}-{name}.csv"
        points[COLUMNS].round({"cycles": 1, "spread": 4}).to_csv(file, index=False)
        compiler = version("clang" if name == "held-out" else "gcc")
        entries[f"accuracy/{file.stem}"] = {
            "file": file.name,
            "format": "csv",
            "kind": "measured",
            "holds": f"{HOLDS[name]}: {len(points)} points",
            "units": "core cycles per call (10th percentile; spread is the median's relative distance to it)",
            "source": f"perfkit.collectors.host.true_cycles on {host}, {time.strftime('%Y-%m-%d')}; {compiler}",
            "licence": "MIT",
        }
    describe(FOLDER, entries, "data/make/accuracy_points.py")


if __name__ == "__main__":
    main()
