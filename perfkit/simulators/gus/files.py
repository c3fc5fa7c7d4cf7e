"""The file of a Gus result: what was simulated, on what, and what was found, to be opened elsewhere.

A ZIP archive: ``result.json`` (core as a core file's text, settings, the instruction forms used), the arrays as
``.npy`` members (so that `numpy.load` opens it as well) and the trace as a trace file. Nothing in it is executed.
"""

import io
import json
import math
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfkit.errors import DataError, FormatError, SettingError
from perfkit.files import existing, replaced
from perfkit.machine.forms import InstructionForm
from perfkit.machine.instruction_tables import InstructionTables
from perfkit.trace.code import StaticCode
from perfkit.trace.trace import Trace

MAGIC = "perfkit-gus-result"
VERSION = 1
_ARRAYS = ("spent", "served", "prefetched")
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same result gives the same bytes


@dataclass(frozen=True)
class SavedTables(InstructionTables):
    """The instruction forms that a saved result used, in place of the tables they came from."""

    saved: Mapping[str, InstructionForm] = field(default_factory=dict, repr=False)

    def form(self, name: str) -> InstructionForm:
        """Return what a form costs.

        Raises
        ------
        DataError
            The form is not of the result's trace.
        """
        if name not in self.saved:
            raise DataError(f"a saved result keeps the forms of its own trace; {name} is not one of them")
        return self.saved[name]

    def extended(self, code: StaticCode) -> "SavedTables":  # noqa: ARG002 - the signature of InstructionTables
        """Return the tables as they are: nothing is looked up for what was simulated before."""
        return self


def save(path: Path, header: Mapping[str, Any], arrays: Mapping[str, NDArray[np.int64]], trace: Trace) -> Path:
    """Write the parts of a result; a file of that name is replaced only once the new one is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = {"format": MAGIC, "version": VERSION, **header}
    with (
        tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as folder,
        replaced(path) as temporary,
        zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        for name, values in arrays.items():
            data = io.BytesIO()
            np.lib.format.write_array(data, values, allow_pickle=False)
            _put(archive, f"{name}.npy", data.getvalue(), zipfile.ZIP_DEFLATED)
        _put(archive, "trace", trace.save(Path(folder) / "trace").read_bytes(), zipfile.ZIP_STORED)
        _put(archive, "result.json", json.dumps(whole, indent=1).encode(), zipfile.ZIP_DEFLATED)
    return path


def load(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[np.int64]], Trace]:
    """Read what `save` wrote: header, arrays and trace.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    FormatError
        The file is no result, is truncated or damaged, or of a later version.
    """
    path = existing(path)
    try:
        with zipfile.ZipFile(path) as archive:
            header = _header(archive, path)
            arrays = {name: _array(archive.read(f"{name}.npy")) for name in _ARRAYS}
            data = archive.read("trace")
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError) as error:
        raise FormatError(f"{path}: not a saved Gus result, or truncated or damaged ({error})") from error
    except (KeyError, ValueError) as error:
        raise FormatError(f"{path}: not a complete Gus result ({error})") from error
    with tempfile.TemporaryDirectory() as folder:
        inner = Path(folder) / "trace"
        inner.write_bytes(data)
        try:
            trace = Trace.load(inner)
        except FormatError as error:
            raise FormatError(f"{path}: its trace cannot be read ({error})") from error
    return header, arrays, trace


@contextmanager
def fitting(path: str | Path) -> Iterator[None]:
    """Raise FormatError where the parts of a file turn out not to fit together."""
    try:
        yield
    except FormatError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, SettingError, DataError) as error:
        raise FormatError(f"{path}: its parts do not fit together ({error})") from error


def _header(archive: zipfile.ZipFile, path: Path) -> dict[str, Any]:
    header = json.loads(archive.read("result.json"))
    if not isinstance(header, dict) or header.get("format") != MAGIC:
        raise FormatError(f"{path}: not a saved Gus result (its header does not say {MAGIC})")
    if header.get("version") != VERSION:
        raise FormatError(
            f"{path}: written in version {header.get('version')} of the format, this perfkit reads {VERSION}; upgrade"
        )
    return header


def _array(data: bytes) -> NDArray[np.int64]:
    found = np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)
    if found.dtype != np.int64:
        raise ValueError(f"an array of int64 expected, found {found.dtype}")
    return found


def plain(form: InstructionForm) -> dict[str, Any]:
    """Return a form as JSON holds it: what does not apply is null."""
    values = {**vars(form), "uses": dict(form.uses)}
    del values["name"]
    return {k: None if isinstance(v, float) and math.isnan(v) else v for k, v in values.items()}


def form(name: str, values: dict[str, Any]) -> InstructionForm:
    """Return a form that `plain` wrote."""
    known: dict[str, Any] = {key: math.nan if value is None else value for key, value in values.items()}
    return InstructionForm(name=name, **known)


def _put(archive: zipfile.ZipFile, name: str, data: bytes, how: int) -> None:
    info = zipfile.ZipInfo(name, _EPOCH)
    info.compress_type = how
    archive.writestr(info, data)
