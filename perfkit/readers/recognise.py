"""Which format a file has, told by its content."""

from functools import cache
from importlib import import_module
from types import ModuleType

from perfkit.errors import FormatError, SettingError, closest
from perfkit.readers.open import Opened

# In the order of asking: a format with an unmistakable beginning before one that nearly any text would fit.
FORMATS = (
    "perf_json",
    "papi",
    "google_benchmark",
    "simpleperf",
    "cachegrind",
    "likwid",
    "nsight",
    "vtune",
    "toplev",
    "uprof",
    "perf_text",
    "perf_csv",
    "named_counts",
    "key_values",
    "no_counts",
    "framed_table",
    "json_records",
    "spire_wide",
    "nested",
    "plain_table",
)


def reader(name: str) -> ModuleType:
    """Return the module that reads a format, by the format's name (``perf-text``)."""
    known = [f.replace("_", "-") for f in (*FORMATS, "parquet") if f != "no_counts"]
    if name not in known:
        near = closest(name, known)
        meant = f"; did you mean {near[0]}?" if near else "."
        raise SettingError(f"format={name!r} is not one that perfkit reads{meant} It reads {', '.join(known)}.")
    return _module(name.replace("-", "_"))


@cache
def _module(name: str) -> ModuleType:
    return import_module(f"perfkit.readers.{name}")  # even of what is loaded it takes 20 us, for each of the formats


def recognise(content: Opened) -> ModuleType:
    """Return the module that reads a file, told by its beginning.

    Raises
    ------
    FormatError
        No known format fits.
    """
    if content.data.startswith(b"PAR1"):
        return _module("parquet")
    head = content.head()
    if not head.strip():
        raise FormatError(f"{content.name}: the file is empty")
    for name in FORMATS:
        module = _module(name)
        if module.recognise(head):
            return module
    titles = "; ".join(_module(n).TITLE for n in FORMATS if n != "no_counts")
    raise FormatError(
        f"{content.name}: not a dump that perfkit recognises. The file begins with {head[:120]!r}. perfkit reads: "
        f"{titles}. If it is one of these, say which with format=..., and the reader will say which line does not fit; "
        "else write a table: a header, a column per event with cycles and instructions among them, a row per interval."
    )
