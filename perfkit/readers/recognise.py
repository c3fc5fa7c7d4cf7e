"""Which format a file has, told by its content."""

from importlib import import_module
from types import ModuleType

from perfkit.errors import FormatError, SettingError
from perfkit.events import nearest

# In the order of asking: a format with an unmistakable beginning before one that nearly any text would fit.
FORMATS = ("perf_json", "perf_text", "perf_csv")
_HEAD = 200_000


def reader(name: str) -> ModuleType:
    """Return the module that reads a format, by the format's name (``perf-text``)."""
    known = [f.replace("_", "-") for f in FORMATS]
    if name not in known:
        near = nearest(name, known)
        meant = f"; did you mean {near[0]}?" if near else "."
        raise SettingError(f"format={name!r} is not one that perfkit reads{meant} It reads {', '.join(known)}.")
    return import_module(f"perfkit.readers.{name.replace('-', '_')}")


def recognise(text: str, file: str) -> ModuleType:
    """Return the module that reads a text, told by its beginning.

    Raises
    ------
    FormatError
        No known format fits.
    """
    head = text[:_HEAD]
    if not head.strip():
        raise FormatError(f"{file}: the file is empty")
    for name in FORMATS:
        module = import_module(f"perfkit.readers.{name}")
        if module.recognise(head):
            return module
    titles = "; ".join(import_module(f"perfkit.readers.{name}").TITLE for name in FORMATS)
    raise FormatError(
        f"{file}: not a dump that perfkit recognises. It reads: {titles}. The file begins with {head[:120]!r}. "
        "If it is one of these, say which with format=..., and the reader will say which line does not fit."
    )
