"""What a command's own standard input holds, kept for a program that runs several times."""

import os
import select
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from perfkit.errors import UnavailableError

PATIENCE = 30.0
"""Seconds without a byte after which a pipe that stays open is refused."""
_QUIET = 1.0  # seconds until it is said what is waited for
_BLOCK = 1 << 16


@contextmanager
def kept(say: Callable[[str], None] = lambda _: None) -> Iterator[Path | None]:
    """Yield a file that holds the standard input if that is a pipe or a file; None for a terminal or nothing.

    Raises
    ------
    UnavailableError
        For a pipe that stays open and brings nothing for `PATIENCE` seconds, as a service's or an editor's may.
    """
    try:
        number = sys.stdin.fileno()
        mode = os.fstat(number).st_mode
    except (OSError, ValueError, AttributeError):  # closed, or replaced by a test
        yield None
        return
    if not (stat.S_ISFIFO(mode) or stat.S_ISREG(mode)):
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="perfkit-stdin-") as folder:
        path = Path(folder) / "stdin"
        with path.open("wb") as file:
            _copy(number, file, say)
        yield path


def _copy(number: int, file: BinaryIO, say: Callable[[str], None]) -> None:
    """Copy what a descriptor brings until it ends."""
    last, told = time.monotonic(), False
    while True:
        if not select.select([number], [], [], _QUIET)[0]:
            if not told:
                say("waiting for the end of standard input, a pipe (< /dev/null gives none)")
                told = True
            if time.monotonic() - last > PATIENCE:
                raise UnavailableError(
                    f"expected input for the program, or its end: standard input is a pipe that has brought nothing "
                    f"for {PATIENCE:.0f} s and stays open. Give it a file, or none: < /dev/null"
                )
            continue
        block = os.read(number, _BLOCK)
        if not block:
            return
        file.write(block)
        last = time.monotonic()
