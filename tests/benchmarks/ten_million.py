"""Reading 10,000,000 counts from a wide CSV: seconds of processor time, and memory beside the result.

``python -m tests.benchmarks.ten_million`` writes generated counts of 100 events and reads them in a process of its own.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

_EVENTS, _COUNTS = 100, 10_000_000
_READ = """
import sys, time
import perfkit as pk
def memory(what):
    return next(int(x.split()[1]) for x in open("/proc/self/status") if x.startswith(what)) / 1024
pk.read_samples(sys.argv[1])
before, start = memory("VmRSS"), time.process_time()
samples = pk.read_samples(sys.argv[2])
seconds = time.process_time() - start
table = samples.table.memory_usage(deep=True).sum() / 2**20
print(len(samples), seconds, memory("VmHWM") - before - table, table)
"""


def main() -> None:
    rng = np.random.default_rng(1)
    names = ["cycles", "instructions", *(f"event_{i}" for i in range(_EVENTS - 2))]
    frame = pd.DataFrame(rng.integers(10**5, 10**7, (_COUNTS // _EVENTS, _EVENTS)), columns=names)
    with tempfile.TemporaryDirectory() as folder:
        first, large = Path(folder, "first.csv"), Path(folder, "large.csv")
        frame[:15_000].to_csv(first, index=False)  # large enough for the compiled reader, which it loads
        frame.to_csv(large, index=False)
        command = [sys.executable, "-c", _READ, str(first), str(large)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    counts, seconds, beside, table = map(float, done.stdout.split())
    print(
        f"{counts:,.0f} counts, {table:.0f} MiB: {seconds:.1f} s of processor time, {beside:.0f} MiB beside the result"
    )


if __name__ == "__main__":
    main()
