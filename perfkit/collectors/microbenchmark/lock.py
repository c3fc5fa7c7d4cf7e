"""The lock that keeps two studies of one user from timing at once on a machine."""

import fcntl
import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from perfkit.base.files import own_folder


@contextmanager
def measuring_lock(path: Path | None = None, say: Callable[[str], None] | None = None) -> Iterator[None]:
    """Hold this machine's measuring lock: two studies of one user never time at once. Waiting for it is said."""
    path = path or own_folder() / "measuring.lock"
    # A link in its place would have another file cut to nothing.
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        waits = False
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not waits:
                    holder = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip() or "?"
                    text = "waiting for another study, which is measuring (process %s, lock %s)"
                    logging.getLogger(__name__).warning(text, holder, path)
                    if say is not None:
                        say("waiting for another study")
                    waits = True
                time.sleep(0.02)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(descriptor)
