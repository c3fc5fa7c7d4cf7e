"""How long `perfkit why` takes: with nothing compiled and then again, or for some programs.

``python -m tests.benchmarks.first_answer [PROGRAM...]`` prints when each stage began, when the first answer came
(cycles and where they go, before what would help), when the whole one did, and the longest time without a sign of life.
"""

import os
import re
import resource
import subprocess
import sys
import tempfile
import time

from tests.diagnosis.programs import CHAIN, compiled


def answer(words: list[str], cache: str = "") -> None:
    """Run the command, with a cache of its own if one is given, and print when each stage began."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = last = time.monotonic()
    silence, first = 0.0, ""
    environment = os.environ | ({"NUMBA_CACHE_DIR": cache} if cache else {})
    process = subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    while piece := os.read(process.stderr.fileno(), 4096):
        now = time.monotonic()
        silence, last = max(silence, now - last), now
        for line in piece.decode().splitlines():
            if "perfkit:" in line:
                print(f"  {now - began:6.1f} s  {line.partition('perfkit: ')[2]}")
                first = first or (
                    f"{now - began:.1f} s" if re.search(r"What would help( besides)? comes next", line) else ""
                )
    status = process.wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - spent.ru_utime - spent.ru_stime
    wall = time.monotonic() - began
    print(f"first answer {first or 'with the whole'}, whole {wall:.1f} s")
    print(f"{processor:.1f} s of processor time, longest silence {silence:.1f} s, status {status}")


if __name__ == "__main__":
    for path in sys.argv[1:]:
        print(f"{path} (load {os.getloadavg()[0]:.1f})")
        answer([sys.executable, "-m", "perfkit", "why", path])
    if sys.argv[1:]:
        sys.exit()
    program = compiled("chain", CHAIN)
    command = [sys.executable, "-m", "perfkit", "why", str(program), "--timeout", "1", "--", "3000"]
    with tempfile.TemporaryDirectory() as folder:
        for title in ("nothing compiled", "compiled"):
            print(title)
            answer(command, folder)
