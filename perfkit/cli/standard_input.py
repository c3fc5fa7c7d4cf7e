"""What a command's own standard input holds, kept for a program that runs several times."""

import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from os import fstat
from pathlib import Path


@contextmanager
def kept() -> Iterator[Path | None]:
    """Yield a file that holds the standard input if that is a pipe or a file; None for a terminal or nothing."""
    try:
        mode = fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError, AttributeError):  # closed, or replaced by a test
        yield None
        return
    if not (stat.S_ISFIFO(mode) or stat.S_ISREG(mode)):
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="perfkit-stdin-") as folder:
        path = Path(folder) / "stdin"
        with path.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        yield path
