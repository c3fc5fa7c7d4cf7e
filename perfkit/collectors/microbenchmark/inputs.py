"""Files that a program is given as arguments: its rows belong to one state of them, unless it writes them itself."""

import functools
import os
import re
import stat
import warnings
from collections.abc import Iterable
from typing import Any

from perfkit.collectors.microbenchmark.files_read import hash_of
from perfkit.collectors.microbenchmark.sources import variant
from perfkit.errors import PerfkitWarning, SettingError
from perfkit.study.study import Configuration, Study

_Signature = tuple[int, ...] | None
_NAMED = re.compile(r"(?:|-\w|[^/]*[=:@,])(/.*)", re.DOTALL)  # alone, or behind an option's name


class Inputs:
    """The files that arguments name, as they were before anything was measured.

    Only absolute names are those of files: a program runs in a folder of perfkit's. What it opens by other names is not
    known.

    Parameters
    ----------
    study : Study
        One of whole programs; of any other, there are none.
    todo : iterable of (Configuration, str)
        What will be measured, and its keys.
    """

    def __init__(self, study: Study, todo: Iterable[tuple[Configuration, str]]) -> None:
        self._given: dict[str, tuple[str, ...]] = {}
        if study.is_program and study.arguments:
            for one, key in todo:
                named = map(_NAMED.fullmatch, variant(study, one, key).arguments)
                self._given[key] = tuple(dict.fromkeys(found[1] for found in named if found))
        self._before = {path: _signature(path) for paths in self._given.values() for path in paths}

    def note(self, key: str, metadata: dict[str, Any]) -> bool:
        """After an experiment: keep in ``files`` what was read, and in ``written`` what changed; whether there is more.

        Raises
        ------
        SettingError
            A file of which there are rows already has changed.
        """
        more = False
        for path in self._given.get(key, ()):
            before, now = self._before[path], _signature(path)
            known = metadata["files"].get(path)
            if path in metadata["written"] or before is now is None:
                continue
            if known is not None:
                self._expect_unchanged(path, known, before, now)
            elif before == now:
                metadata["files"][path], more = _hash(path, now), True
            else:
                metadata["written"].append(path)
                more = True
                warnings.warn(
                    f"{path}, an argument of the program, changed while it ran: it is taken for a file that the "
                    "program writes, and no longer looked at; if it is one that it reads, begin anew in another folder",
                    PerfkitWarning,
                    stacklevel=2,
                )
            self._before[path] = now
        return more

    def read_by(self, key: str) -> dict[str, str]:
        """Return the states of the files that a row was given and that did not change since."""
        now = {path: _signature(path) for path in self._given.get(key, ())}
        return {path: _hash(path, found) for path, found in now.items() if found and found == self._before[path]}

    def _expect_unchanged(self, path: str, known: str, before: _Signature, now: _Signature) -> None:
        if before != now and _hash(path, now) != known:
            raise SettingError(
                f"{path}, an argument of the program, has changed while it was measured: put it back, and run the "
                "study again, or name another folder"
            )


@functools.lru_cache(maxsize=1 << 12)
def _hash(path: str, _signature: _Signature) -> str:
    return hash_of(path)


def _signature(path: str) -> _Signature:
    """Return what changes when a file is written; None if there is no plain file of that name."""
    try:
        found = os.stat(path)  # noqa: PTH116 -- after every experiment
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(found.st_mode):
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino
