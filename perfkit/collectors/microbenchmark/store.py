"""The durable store of a study: an append-only file of whole lines, so that a kill loses nothing that was written."""

import contextlib
import errno
import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from perfkit.base.files import replaced
from perfkit.errors import DataError, SettingError
from perfkit.study.runs import read_experiments, read_records


class Store:
    """A folder that holds a study's results, open for one writer.

    ``results.jsonl`` has one line per configuration, written by a single ``write`` and never changed;
    ``passes.jsonl`` has one line per experiment of a configuration that is not finished yet. A line that a kill cut
    short is dropped when the store is opened again; what it held is then measured as if it never had been.

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
        self._file = self._more = -1
        self._lock = -1

    def __enter__(self) -> Self:
        with _clear(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self.folder / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise SettingError(f"{self.folder} is in use by another run: wait for it, or name another folder") from None
        try:
            with _clear(self.folder):
                self._claim()
                for path in (self._results, self._passes):
                    _drop_torn_line(path)
                self._file, self._more = _append_to(self._results), _append_to(self._passes)
        except BaseException:
            os.close(self._lock)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):
            os.fsync(self._file)
        for descriptor in (self._file, self._more, self._lock):
            os.close(descriptor)

    @property
    def _results(self) -> Path:
        return self.folder / "results.jsonl"

    @property
    def _passes(self) -> Path:
        return self.folder / "passes.jsonl"

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

    def add(self, record: dict[str, Any]) -> None:
        """Append one configuration's record."""
        self._write(self._file, record)

    def add_experiment(self, key: str, experiment: dict[str, Any]) -> None:
        """Append one experiment of a configuration that is not finished."""
        self._write(self._more, {"key": key, "experiment": experiment})

    def _write(self, file: int, plain: dict[str, Any]) -> None:
        line = (json.dumps(plain, separators=(",", ":")) + "\n").encode()
        with _clear(self.folder):
            written = os.write(file, line)
        if written < len(line):
            raise DataError(f"the disk took {written} of {len(line)} bytes of a result in {self.folder}: make room")

    def records(self) -> Iterable[dict[str, Any]]:
        """Yield what is stored, in the order of measurement."""
        return read_records(self.folder) if self._results.exists() else iter(())

    def experiments(self) -> dict[str, list[dict[str, Any]]]:
        """Return the experiments of configurations that were not finished: key -> experiments."""
        return read_experiments(self.folder)

    def predictions(self) -> dict[str, float]:
        """Return what a design predicted of randomly drawn configurations before it measured them, by their key."""
        path = self.folder / "predictions.json"
        try:
            found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
            return {str(key): float(value) for key, value in found.items()}
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise DataError(f"{path} is damaged ({error}): remove it, and the error is estimated again") from None

    def keep_predictions(self, predictions: Mapping[str, float]) -> None:
        """Keep them: a study with a budget that goes on after a stop judges itself by them."""
        write_whole(self.folder / "predictions.json", json.dumps(dict(predictions)) + "\n")

    def drop_failed(self) -> int:
        """Forget the failed records, so that they are measured again; returns how many."""
        records = list(self.records())
        kept = [record for record in records if record["status"] == "ok"]
        if len(kept) < len(records):
            text = "".join(json.dumps(record, separators=(",", ":")) + "\n" for record in kept)
            write_whole(self._results, text)
            os.close(self._file)
            self._file = _append_to(self._results)
        return len(records) - len(kept)

    def finish(self) -> None:
        """Forget the single experiments: every configuration's record holds its own."""
        with _clear(self.folder):
            os.ftruncate(self._more, 0)


def _append_to(path: Path) -> int:
    return os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o644)


def _drop_torn_line(path: Path) -> None:
    if not path.exists():
        return
    with path.open("rb+") as file:
        data = file.read()
        whole = data.rfind(b"\n") + 1
        if whole < len(data):
            file.truncate(whole)


@contextlib.contextmanager
def _clear(folder: Path) -> Iterator[None]:
    """Turn a full disk or a read-only folder into one line."""
    try:
        yield
    except OSError as error:
        what = "there is no space left on its disk" if error.errno == errno.ENOSPC else error.strerror
        raise DataError(f"cannot write to {folder}: {what}; make room or name another folder with --folder") from None


def write_whole(path: Path, text: str) -> None:
    """Write a file so that it is there in whole or not at all."""
    with _clear(path.parent), replaced(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
