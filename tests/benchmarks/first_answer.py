"""How long `perfkit why` takes with nothing compiled, and then again: ``python -m tests.benchmarks.first_answer``."""

import os
import resource
import subprocess
import sys
import tempfile
import time

from tests.diagnosis.programs import CHAIN, compiled


def answer(words: list[str], cache: str) -> None:
    """Run the command with a cache of its own, and print when each stage began."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = last = time.monotonic()
    silence = 0.0
    process = subprocess.Popen(
        words, env=os.environ | {"NUMBA_CACHE_DIR": cache}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    while piece := os.read(process.stderr.fileno(), 4096):
        now = time.monotonic()
        silence, last = max(silence, now - last), now
        for line in piece.decode().splitlines():
            if "perfkit:" in line:
                print(f"  {now - began:6.1f} s  {line.partition('perfkit: ')[2]}")
    status = process.wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - spent.ru_utime - spent.ru_stime
    wall = time.monotonic() - began
    print(f"{wall:.1f} s, {processor:.1f} s of processor time, longest silence {silence:.1f} s, status {status}")


if __name__ == "__main__":
    program = compiled("chain", CHAIN)
    command = [sys.executable, "-m", "perfkit", "why", str(program), "--timeout", "1", "--", "3000"]
    with tempfile.TemporaryDirectory() as folder:
        for title in ("nothing compiled", "compiled"):
            print(title)
            answer(command, folder)
