"""The durable store of a study: an append-only file of whole lines, so that a kill loses nothing that was written."""

import fcntl
import json
import os
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from perfkit.errors import DataError, SettingError
from perfkit.study.runs import read_records


class Store:
    """A folder that holds a study's results, open for one writer.

    ``results.jsonl`` has one line a configuration, written by a single ``write`` and never changed. A line that a
    kill cut short is dropped when the store is opened again; its configuration is then measured as if it never had
    been.

    Parameters
    ----------
    folder : Path
        Made if it is not there.
    identity : str
        Fingerprint of the study; a folder that belongs to another one is refused.
    """

    def __init__(self, folder: Path, identity: str) -> None:
        self.folder = folder
        self._identity = identity
        self._file = -1
        self._lock = -1

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(self.folder / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise SettingError(f"{self.folder} is in use by another run: wait for it, or name another folder") from None
        try:
            self._claim()
            self._drop_torn_line()
            self._file = os.open(self._path, os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o644)
        except BaseException:
            os.close(self._lock)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.fsync(self._file)
        os.close(self._file)
        os.close(self._lock)

    @property
    def _path(self) -> Path:
        return self.folder / "results.jsonl"

    def _claim(self) -> None:
        mark = self.folder / "identity"
        if not mark.exists():
            write_whole(mark, self._identity + "\n")
        found = mark.read_text(encoding="utf-8").strip()
        if found != self._identity:
            raise SettingError(
                f"{self.folder} holds the results of another kernel or measurement ({found}, this study is "
                f"{self._identity}): name another folder, or remove that one"
            )

    def _drop_torn_line(self) -> None:
        if not self._path.exists():
            return
        with self._path.open("rb+") as file:
            data = file.read()
            whole = data.rfind(b"\n") + 1
            if whole < len(data):
                file.truncate(whole)

    def add(self, record: dict[str, Any]) -> None:
        """Append one configuration's record."""
        line = (json.dumps(record, separators=(",", ":")) + "\n").encode()
        written = os.write(self._file, line)
        if written < len(line):
            raise DataError(f"the disk took {written} of {len(line)} bytes of a result in {self.folder}: make room")

    def records(self) -> Iterable[dict[str, Any]]:
        """Yield what is stored, in the order of measurement."""
        return read_records(self.folder) if self._path.exists() else iter(())


def write_whole(path: Path, text: str) -> None:
    """Write a file so that it is there in whole or not at all."""
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text, encoding="utf-8")
    partial.rename(path)
