"""Dumps of a small fleet, generated."""

import numpy as np
import pytest


def dump(path, seed=0, intervals=12, started="", broken=False):
    """A dump as `perf stat -I -x,` writes it; the counts are generated."""
    rng = np.random.default_rng(seed)
    lines = [f"# started on {started}", ""] if started else []
    for k in range(intervals):
        counts = {
            "cycles": 2_000_000,
            "instructions": int(rng.integers(1e6, 3e6)),
            "branch-misses": int(rng.integers(1e4)),
        }
        lines += [f"{k + 1:6d}.000100000,{n},,{event},1000,100.00,," for event, n in counts.items()]
    if broken:
        lines[-1] = lines[-1].replace(",", ";garbage,", 1)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def dumps(tmp_path):
    """Six machines that all write perf.txt, in a folder with a space in its name."""
    for i in range(6):
        dump(tmp_path / "the dumps" / f"machine {i}" / "perf.txt", i)
    return tmp_path / "the dumps"
