"""The file of a Gus result: what was simulated, on what, and what was found, to be opened elsewhere.

A ZIP archive: ``result.json`` (core as a core file's text, settings, the instruction forms used), the arrays as
``.npy`` members (so that `numpy.load` opens it as well) and the trace as a trace file. Nothing in it is executed.
"""

import io
import json
import math
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfkit.errors import DataError, FormatError, SettingError
from perfkit.files import array_of, existing, json_object, member, reading, replaced
from perfkit.machine.forms import InstructionForm
from perfkit.machine.instruction_tables import InstructionTables
from perfkit.trace.code import StaticCode
from perfkit.trace.trace import Trace

MAGIC = "perfkit-gus-result"
VERSION = 1
_WHAT = "a saved Gus result"
_ARRAYS = ("spent", "served", "prefetched")
_DIMENSIONS = {"spent": 2, "served": 1, "prefetched": 1}
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


def save_result(path: Path, header: Mapping[str, Any], arrays: Mapping[str, NDArray[np.int64]], trace: Trace) -> Path:
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


def load_result(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[np.int64]], Trace]:
    """Read what `save_result` wrote: header, arrays and trace.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    FormatError
        The file is no result, is truncated or damaged, or of a later version.
    """
    path = existing(path)
    int64 = np.dtype(np.int64)
    with reading(path, _WHAT), zipfile.ZipFile(path) as archive:
        header = _header(archive, path)
        packed = {name: member(archive, f"{name}.npy", path, _WHAT) for name in _ARRAYS}
        arrays = {name: array_of(packed[name], path, f"{name}.npy", int64, _DIMENSIONS[name]) for name in _ARRAYS}
        data = member(archive, "trace", path, _WHAT)
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
        with reading(path, _WHAT):
            yield
    except FormatError:
        raise
    except (SettingError, DataError) as error:
        raise FormatError(f"{path}: its parts do not fit together ({error})") from error


def _header(archive: zipfile.ZipFile, path: Path) -> dict[str, Any]:
    header = json_object(member(archive, "result.json", path, _WHAT), path, _WHAT)
    if header.get("format") != MAGIC:
        raise FormatError(f"{path}: not a saved Gus result (its header does not say {MAGIC})")
    if header.get("version") != VERSION:
        raise FormatError(
            f"{path}: written in version {header.get('version')} of the format, this perfkit reads {VERSION}; upgrade"
        )
    return header


def form_to_dict(form: InstructionForm) -> dict[str, Any]:
    """Return a form as JSON holds it: what does not apply is null."""
    values = {**vars(form), "uses": dict(form.uses)}
    del values["name"]
    return {k: None if isinstance(v, float) and math.isnan(v) else v for k, v in values.items()}


def form(name: str, values: dict[str, Any]) -> InstructionForm:
    """Return a form that `form_to_dict` wrote."""
    known: dict[str, Any] = {key: math.nan if value is None else value for key, value in values.items()}
    return InstructionForm(name=name, **known)


def _put(archive: zipfile.ZipFile, name: str, data: bytes, how: int) -> None:
    info = zipfile.ZipInfo(name, _EPOCH)
    info.compress_type = how
    archive.writestr(info, data)
