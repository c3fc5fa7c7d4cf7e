"""How well the ports that perfkit calibrate --full finds predict mixtures of forms that it never measured.

    .venv/bin/perfkit calibrate --full -o host.toml
    python -m tests.benchmarks.port_map --keep host.toml.partial

Draws mixtures of two to four forms at random (two thirds within vectors or within integers), one to four of each, and
measures them on this machine. Forms of the basis are as likely as others; nothing is fitted.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

from perfkit.collectors.whole_core.checkpoint import Checkpoint
from perfkit.collectors.whole_core.figures import Course, Timing
from perfkit.collectors.whole_core.whole import measure_core


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--keep", type=Path, required=True)
    options.add_argument("--mixtures", type=int, default=600)
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    ports = measure_core(given.keep).ports
    rng = np.random.default_rng(given.seed)
    forms = sorted(form for form in ports.mapped if not form.startswith("EVEX_"))
    vectors = [form for form in forms if "MM_" in form]
    integers = [form for form in forms if "MM_" not in form]
    drawn = {}
    for k in range(given.mixtures):
        pool = (vectors, integers, forms)[k % 3]
        some = rng.choice(pool, int(rng.integers(2, 5)), replace=False)
        counts = tuple((str(form), int(rng.integers(1, 5))) for form in some)
        drawn[Timing(counts)] = ports.cycles(counts)
    with tempfile.TemporaryDirectory() as folder, Checkpoint(Path(folder) / "mixtures", {}) as kept:
        found = Course(kept, time.monotonic() + 120).measured(list(drawn))
    told = np.array([drawn[figure] for figure in found])
    error = np.abs(told / np.array(list(found.values())) - 1)
    print(
        f"{len(error)} mixtures never measured before: mean error {error.mean():.1%}, median {np.median(error):.1%}, "
        f"{np.mean(error <= 0.05):.0%} within 5 %, {np.mean(error <= 0.1):.0%} within 10 %"
    )
    for figure in sorted(found, key=lambda one: -abs(drawn[one] / found[one] - 1))[:8]:
        print(f"{found[figure]:7.2f} measured {drawn[figure]:7.2f} predicted  {figure.key}")


if __name__ == "__main__":
    main()
