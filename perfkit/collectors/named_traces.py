"""Traces as commands name them: a file, a kernel of the corpus, a shipped trace."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfkit.errors import FormatError, SettingError

if TYPE_CHECKING:
    from perfkit.trace.threads import ThreadTraces
    from perfkit.trace.trace import Trace


def named_trace(what: str, limit: int, **build: Any) -> "Trace":
    """Return the trace that a command names: a trace file, ``corpus:NAME`` (recorded now) or a shipped trace's name."""
    from perfkit import datasets
    from perfkit.collectors.kernels import corpus_kernel
    from perfkit.trace.trace import Trace

    if what.startswith("corpus:"):
        return corpus_kernel(what.removeprefix("corpus:"), **build).trace(limit=limit)
    if Path(what).exists():
        return _loaded(Trace, what)
    if Path(what).suffix or Path(what).parent.name not in ("", "traces"):
        raise SettingError(f"there is no file {what!r}; perfkit trace records one")
    loaded = datasets.load(what if what.startswith("traces/") else f"traces/{what}")
    if not isinstance(loaded, Trace):
        raise SettingError(f"{what} is no trace")
    return loaded


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


def _loaded(trace: "type[Trace]", what: str) -> "Trace":
    path = Path(what)
    if path.is_file():
        with path.open("rb") as file:
            if file.read(4) == b"\x7fELF":
                raise FormatError(
                    f"{what} is a program or library, not a trace of one: record it first, "
                    f"perfkit trace {what} -f FUNCTION -o {path.stem}.trace"
                )
    return trace.load(what)
