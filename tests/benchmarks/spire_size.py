"""SPIRE at the paper's size: processor time of the ranking with its bootstrap, and memory of the fit, in all.

``python -m tests.benchmarks.spire_size`` writes generated samples of 424 events and measures in processes of their own.
Memory is the most that the process ever held, with Python, its libraries and the samples; the first line says how much
of that is there before any sample of this size is: after the fit of 18 rows.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

import perfkit as pk

EVENTS, SAMPLES = 424, 3000


def generated(events: int, samples: int) -> pk.Samples:
    """Return samples whose counts are independent of their time and work."""
    rng = np.random.default_rng(0)
    time_ = rng.uniform(1e6, 2e6, samples)
    frame = pd.DataFrame(
        {
            "interval": np.repeat(np.arange(samples), events),
            "event": np.tile([f"event.{k}" for k in range(events)], samples),
            "time": np.repeat(time_, events),
            "work": np.repeat(time_ * rng.uniform(0.5, 3.0, samples), events),
            "count": rng.lognormal(8.0, 2.0, samples * events).round(),
        }
    )
    return pk.Samples.from_frame(frame, kind="generated")


def measure(path: str) -> None:
    """Print the memory of a fit to a file's samples and the processor time of its rankings."""
    samples = pk.Samples.load(path)
    loaded = _held()
    model = pk.Spire().fit(samples)
    fitted = _held()
    model.rank(samples)  # compiled, or loaded from numba's cache
    took = {draws: min(_seconds(model, samples, draws) for _ in range(5)) for draws in (0, 200)}
    print(
        f"{len(samples):,} samples: {loaded:.0f} MB in all after reading, {fitted:.0f} MB at the fit; "
        f"rank {took[0]:.2f} s, with 200 draws {took[200]:.2f} s of processor time (best of 5)"
    )


def _held() -> float:
    """Return the most MB that this process ever held; not by getrusage, which begins with its parent's."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1e3


def _seconds(model: pk.SpireModel, samples: pk.Samples, draws: int) -> float:
    start = time.process_time()
    model.rank(samples, bootstrap=draws)
    return time.process_time() - start


def main() -> None:
    """Measure in processes of their own."""
    if sys.argv[1:]:
        measure(sys.argv[1])
        return
    with tempfile.TemporaryDirectory() as folder:
        for events, samples in ((2, 9), (EVENTS, SAMPLES)):
            path = generated(events, samples).save(Path(folder, f"{events}.parquet"))
            subprocess.run([sys.executable, "-m", "tests.benchmarks.spire_size", str(path)], check=True)


if __name__ == "__main__":
    main()
