"""What `settled` is worth: the FMA study beside a deliberate neighbour, against what the core can do.

Run it from the repository's root: python tests/benchmarks/known_fma.py [NEIGHBOURS]
Each neighbour is a process that computes without end, on any processor. The answer is min(n / latency, ports) FMAs a
cycle, where 512-bit FMAs of Zen 4 and of Intel cores with one such unit go one a cycle.
"""

import subprocess
import sys
import warnings

import numpy as np

import perfkit as pk


def main(neighbours: int) -> None:
    warnings.simplefilter("ignore")
    busy = [subprocess.Popen([sys.executable, "-c", "while True: sum(range(10000))"]) for _ in range(neighbours)]
    try:
        study = pk.Study.from_yaml(pk.datasets.path("studies/fma.yaml")).replace(static=[])
        table = pk.Microbenchmark().collect(study).ok
    finally:
        for one in busy:
            one.kill()
            one.wait()
    rate = table["INSTRUCTIONS"] * 20 / table["cycles"]
    wide = table["WIDTH"] == 512
    ports = np.where(wide, np.round(rate[wide & table["settled"]].max()) if wide.any() else 1, 2)
    off = (rate / np.minimum(table["INSTRUCTIONS"] / 4, ports) - 1).abs()
    settled = table["settled"].astype(bool)
    print(f"{len(table)} rows beside {neighbours} busy processes: {settled.mean():.0%} settled")
    if settled.any():
        right, worst = (off[settled] <= 0.02).mean(), off[settled].max()
        print(f"settled rows within 2 % of the known answer: {right:.0%}, worst {worst:.1%}")
    print(f"quiet windows: {table['quiet'].median():.0%} (median); passes: {table['attempts'].median():.0f} (median)")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
