"""Every writer killed in mid-write, and on a full disk: the file is the old one or the new one, never a part.

``python -m tests.benchmarks.faults --kills 100`` overwrites a file of each result again and again in a child process,
kills the child (signal 9) after a random time, and loads what is there; then it writes where the disk is full (a limit
on the size of files stands in for it). Exit status 1 where a file was lost or damaged.
"""

import argparse
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from perfkit.errors import PerfkitError, SettingError
from tests.results.examples import EXAMPLES

_SUFFIXES = (".parquet", ".npz", ".json", ".trace", ".gus")


def saved(result: Any, folder: Path) -> Path | None:
    """Save a result under the first ending that it takes; None where it is saved as a folder."""
    for suffix in _SUFFIXES:
        path = folder / f"{type(result).__name__}{suffix}"
        try:
            result.save(path)
        except SettingError:
            continue
        return path if path.is_file() else None
    raise AssertionError(f"no known ending of {type(result).__name__}")


def _in_child(work: Callable[[], None]) -> int:
    child = os.fork()
    if child:
        return child
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 2)
        work()
    finally:
        os._exit(0)


def killed(result: Any, path: Path, kills: int, rng: random.Random) -> str:
    """Kill a child that overwrites a file; return what is wrong with it then, or nothing."""
    whole = path.read_bytes()

    def forever() -> None:
        while True:
            result.save(path)

    for kill in range(kills):
        child = _in_child(forever)
        time.sleep(rng.uniform(0.0, 0.03))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        if path.read_bytes() == whole:
            continue
        try:
            type(result).load(path)  # the same content in other bytes (a time stamp)
        except (PerfkitError, OSError) as error:
            return f"after kill {kill + 1}: {error}"
    return ""


def full_disk(result: Any, path: Path) -> str:
    """Write where there is no room; return what is wrong with the old file then, or nothing."""
    before = path.read_bytes()

    def write() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (min(100, len(before) // 2), resource.RLIM_INFINITY))
        result.save(path)

    os.waitpid(_in_child(write), 0)
    left = [p.name for p in path.parent.iterdir() if p != path]
    return f"left behind: {', '.join(left)}" if left else "" if path.read_bytes() == before else "the old file is gone"


def check(kills: int, seed: int) -> dict[str, str]:
    """Return what is wrong with the files of each kind of result."""
    rng, found = random.Random(seed), {}
    for cls, example in EXAMPLES.items():
        with tempfile.TemporaryDirectory() as folder:
            path = saved(example(), Path(folder))
            if path is None:
                continue
            wrong = full_disk(example(), path) or killed(example(), path, kills, rng)
            found[cls.__name__] = wrong
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=100, help="of each writer")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    found = check(asked.kills, asked.seed)
    for name, wrong in found.items():
        print(f"{name}: {wrong or 'sound'}")
    print(f"{sum(not w for w in found.values())} of {len(found)} writers, each killed {asked.kills} times")
    return int(any(found.values()))


if __name__ == "__main__":
    sys.exit(main())
