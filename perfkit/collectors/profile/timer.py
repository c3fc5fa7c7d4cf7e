"""Sampling with a timer of processor time that is loaded into the program: where perf may not be used."""

import shutil
import subprocess
import tempfile
import time
from collections import Counter
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np

from perfkit.collectors.profile.sampled import CodePlace, Sampled, Target, mapped_code, place
from perfkit.collectors.profile.watched import said, watched
from perfkit.collectors.tracer.elf import ElfFile
from perfkit.errors import FormatError, UnavailableError

_COMPILERS = ("cc", "gcc", "clang")


def sample(target: Target, seconds: float) -> Sampled:
    """Run a program for at most this many seconds and sample where it is.

    Raises
    ------
    UnavailableError
        There is no C compiler, or nothing can be loaded into this program (it is statically linked).
    """
    compiler = next(filter(None, map(shutil.which, _COMPILERS)), None)
    if compiler is None:
        raise UnavailableError(f"no C compiler to make the timer with ({', '.join(_COMPILERS)})")
    try:
        if not ElfFile(target.program).is_dynamic:
            raise UnavailableError("a timer cannot be loaded into a statically linked program")
    except FormatError:
        pass  # a script: what it starts is sampled
    with tempfile.TemporaryDirectory(prefix="perfkit-timer-") as folder:
        library = _library(compiler, Path(folder))
        samples = Path(folder) / "samples"
        samples.mkdir()
        began = time.monotonic()
        run = watched(
            target.words, seconds, target.stdin, {"LD_PRELOAD": str(library), "PERFKIT_SAMPLES": str(samples)}
        )
        spent = time.monotonic() - began
        found: Counter[tuple[CodePlace, int, int]] = Counter()
        moments: dict[CodePlace, list[float]] = {}
        loaded: dict[str, ElfFile | None] = {}
        lost = 0
        for path in sorted(samples.glob("*-*")):
            if path.suffix != ".maps":
                lost += _read(path, str(library), loaded, found, moments)
    notes = (f"{lost} samples had no room",) if lost else ()
    return Sampled("timer of processor time", dict(found), spent, said(run, seconds), notes=notes, moments=moments)


def _library(compiler: str, folder: Path) -> Path:
    out = folder / "timer.so"
    with as_file(files("perfkit.collectors.profile") / "timer.c") as source:
        done = subprocess.run(
            [compiler, "-O1", "-shared", "-fPIC", "-o", str(out), str(source), "-lpthread"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    if done.returncode:
        raise UnavailableError(f"{compiler} cannot make the timer: {done.stderr.strip()[:200]}")
    return out


def _read(
    path: Path, library: str, loaded: dict[str, ElfFile | None], found: Counter[tuple[CodePlace, int, int]],
    moments: dict[CodePlace, list[float]],
) -> int:  # fmt: skip
    """Add one process's samples; return how many had no room."""
    values = np.fromfile(path, dtype=np.uint64)
    count = int(values[0]) if len(values) else 0
    kept = min(count, len(values) // 3 - 1)
    maps = Path(f"{path}.maps")
    mapped = mapped_code(maps.read_text(errors="surrogateescape")) if maps.exists() else []
    pid = int(path.name.partition("-")[0])
    places: dict[int, CodePlace] = {}
    for address, thread, when in values[3 : 3 + 3 * kept].reshape(-1, 3).tolist():
        if address not in places:
            places[address] = place(address, mapped, loaded)
        where = places[address]
        if where.path != library:
            found[where, pid, thread] += 1
            moments.setdefault(where, []).append(when / 1e6)
    return count - kept
