"""How long `perfkit diff` takes for two traces of two million instructions: ``python -m tests.benchmarks.diff_traces``.

Once with nothing compiled, then again.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from tests.benchmarks.first_answer import answer
from tests.diagnosis.programs import CHAIN, compiled

INSTRUCTIONS = 2_000_000

if __name__ == "__main__":
    program = compiled("chain", CHAIN)
    perfkit = [sys.executable, "-m", "perfkit"]
    with tempfile.TemporaryDirectory() as folder:
        traces = [Path(folder, f"{side}.trace") for side in "ab"]
        for trace, calls in zip(traces, ("3000", "4000"), strict=True):
            words = ["trace", str(program), "-f", "main", "--callees", "--limit", str(INSTRUCTIONS), "-o", str(trace)]
            subprocess.run([*perfkit, *words, "--", calls], check=True, stdout=subprocess.DEVNULL)
        for title in ("nothing compiled", "compiled"):
            print(title)
            answer([*perfkit, "diff", *map(str, traces)], folder)
