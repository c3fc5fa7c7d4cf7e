"""Counting instructions by function with valgrind: simulated, slow, and always there where valgrind is."""

import re
import shutil
import tempfile
import time
from collections import Counter
from pathlib import Path

from perfkit.collectors.profile.sampled import CodePlace, Sampled, Target, opened
from perfkit.collectors.profile.watched import said, watched
from perfkit.collectors.tracer.elf import ElfFile
from perfkit.errors import UnavailableError

_COST = re.compile(r"^[+*-]?\d* ?(?:[+-]?\d+|\*) (\d+)$|^(?:[+-]?\d+|\*) (\d+)$")


def sample(target: Target, seconds: float) -> Sampled:
    """Run a program under valgrind for at most this many seconds, and count instructions by function.

    Raises
    ------
    UnavailableError
        There is no valgrind, or it cannot run this program (AVX-512, for example).
    """
    program = shutil.which("valgrind")
    if program is None:
        raise UnavailableError("valgrind is not installed")
    with tempfile.TemporaryDirectory(prefix="perfkit-callgrind-") as folder:
        options = ["--demangle=no", "--trace-children=yes", "--compress-strings=no", "--compress-pos=no"]
        words = [program, "--tool=callgrind", *options, f"--callgrind-out-file={folder}/%p", *target.words]
        began = time.monotonic()
        run = watched(words, seconds, target.stdin)
        spent = time.monotonic() - began
        found: Counter[tuple[CodePlace, int, int]] = Counter()
        files: dict[str, ElfFile | None] = {}
        for number, path in enumerate(sorted(Path(folder).iterdir())):
            for where, costs in _costs(path.read_text(errors="surrogateescape"), files).items():
                found[where, number, number] += costs
    if not found:
        last = [line for line in run.printed.splitlines() if line.startswith("==") or "valgrind" in line][-1:]
        raise UnavailableError(f"valgrind counted nothing ({last[0] if last else said(run, seconds) or 'no reason'})")
    return Sampled("valgrind, instructions executed", dict(found), spent, said(run, seconds), "instructions")


def _costs(text: str, files: dict[str, ElfFile | None]) -> dict[CodePlace, int]:
    """Return each function's own instructions from callgrind's file."""
    found: Counter[CodePlace] = Counter()
    path = symbol = source = home = ""
    called = False
    for line in text.splitlines():
        if line.startswith("ob="):
            path = line[3:]
        elif line.startswith(("fl=", "fi=", "fe=")):
            source = Path(line[3:]).name
        elif line.startswith("fn="):
            symbol = line[3:].partition("'")[0]  # a recursive call's has a number behind it
            home = source  # what is inlined into it may come from other files
        elif line.startswith("calls="):
            called = True  # the next line is the callee's cost
        elif match := _COST.match(line):
            if not called:
                found[_place(path, symbol, home, files)] += int(match[1] or match[2])
            called = False
    return dict(found)


def _place(path: str, symbol: str, source: str, files: dict[str, ElfFile | None]) -> CodePlace:
    elf = opened(path, files)
    functions = elf.functions if elf is not None else {}
    known = functions.get(f"{source}:{symbol}") or functions.get(symbol)
    return CodePlace(path if elf is not None else "", known.address if known is not None else 0)
