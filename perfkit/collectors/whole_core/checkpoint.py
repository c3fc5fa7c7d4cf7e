"""Figures kept as soon as they are known, so that an interrupted calibration goes on where it stopped."""

import errno
import json
import math
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from perfkit.errors import FormatError, UnavailableError

SCHEMA = 1


class Checkpoint:
    """A file of one JSON line per figure, after a line that says which host they are of.

    Parameters
    ----------
    path
        The file; made where there is none.
    host
        What this machine is.

    Raises
    ------
    FormatError
        The file is another's, of another host, or damaged (a last line that was cut off is not: it is measured again).
    UnavailableError
        The file cannot be written: no space is left on its disk, or the folder is not writable.
    """

    def __init__(self, path: Path, host: Mapping[str, Any]) -> None:
        self.path = path
        self._head = {"perfkit calibration": SCHEMA, "host": dict(host)}
        self.known: dict[str, float | None] = {}
        self._file: IO[str] | None = None

    def __enter__(self) -> Self:
        """Read what there is, and open the file to add to it."""
        lines = self._lines()
        for number, line in enumerate(lines[1:], start=2):
            try:
                key, value = json.loads(line)
            except (ValueError, TypeError) as error:
                raise FormatError(self._damaged(number, line)) from error
            if not isinstance(key, str) or not (value is None or _is_figure(value)):
                raise FormatError(self._damaged(number, line))
            self.known[key] = value
        try:
            self._file = self.path.open("w", encoding="utf-8")
            self._file.writelines(lines or [json.dumps(self._head) + "\n"])
            self._file.flush()
        except OSError as error:
            raise self._unwritable(error) from error
        return self

    def __exit__(self, kind: type | None, value: BaseException | None, trace: TracebackType | None) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def add(self, key: str, value: float | None) -> None:
        """Keep a figure; None says that it cannot be measured here, ever (a form that ends the measuring process)."""
        self.known[key] = value
        assert self._file is not None  # only inside the with block
        try:
            self._file.write(json.dumps([key, value]) + "\n")
            self._file.flush()
        except OSError as error:
            raise self._unwritable(error) from error

    def _lines(self) -> list[str]:
        if not self.path.exists() or not self.path.stat().st_size:
            return []
        try:
            lines = self.path.read_text(encoding="utf-8").splitlines(keepends=True)
            head = json.loads(lines[0])
        except (UnicodeDecodeError, ValueError) as error:
            raise FormatError(f"{self.path}: not a checkpoint of perfkit calibrate: remove it") from error
        if head != self._head:
            raise FormatError(
                f"{self.path}: a checkpoint that begins with {json.dumps(self._head)} was expected; found "
                f"{lines[0].strip()[:200]}: it is of another host or version; remove it, or choose another --output"
            )
        return lines if lines[-1].endswith("\n") else lines[:-1]

    def _damaged(self, number: int, line: str) -> str:
        return (
            f"{self.path}, line {number}: [name, cycles] was expected; found {line.strip()[:80]!r}: the checkpoint is "
            "damaged; remove it to measure everything again"
        )

    def _unwritable(self, error: OSError) -> UnavailableError:
        why = "there is no space left on its disk" if error.errno == errno.ENOSPC else str(error.strerror)
        return UnavailableError(
            f"{self.path}: a figure could not be kept: {why}; what was kept before stays, and the same command goes on "
            "from there"
        )


def _is_figure(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0
