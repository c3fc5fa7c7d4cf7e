"""The door to perfkit's own files: a reader sees the old file or the whole new one, never a part."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from perfkit.errors import FormatError, MissingFileError


@contextmanager
def replaced(path: str | Path) -> Iterator[Path]:
    """Give a temporary path beside ``path``; what was written there takes its place when the block ends without error.

    The old file stays as it was if the block fails (a full disk, an interruption). Symbolic links are followed.

    Examples
    --------
    >>> with replaced("result.json") as temporary:
    ...     temporary.write_text("{}")
    """
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        yield temporary
        if target.exists():
            temporary.chmod(target.stat().st_mode & 0o7777)
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def existing(path: str | Path) -> Path:
    """Return the path of a file that is there.

    Raises
    ------
    MissingFileError
        There is no such file (it is a FileNotFoundError too).
    FormatError
        It is a folder.
    """
    found = Path(path)
    if found.is_dir():
        raise FormatError(f"{path}: expected a file, found a folder")
    if not found.exists():
        raise MissingFileError(f"{path}: no such file")
    return found
