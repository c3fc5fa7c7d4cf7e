"""Whether a file holds the traces of several threads."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perfkit.trace.threads import ThreadTraces


def of_threads(what: str) -> "ThreadTraces | None":
    """Return the traces of all threads that a file holds; None where it is another file, or none."""
    import zipfile

    from perfkit.trace.threads import ThreadTraces

    path = Path(what)
    if not path.is_file() or not zipfile.is_zipfile(path):
        return None
    with zipfile.ZipFile(path) as archive:
        if "threads.json" not in archive.namelist():
            return None
    return ThreadTraces.load(path)
