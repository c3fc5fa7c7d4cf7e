"""The file of a Gus result: what was simulated, on what, and what was found, to be opened elsewhere.

A ZIP archive: ``result.json`` (core as a core file's text, settings, the instruction forms used), the arrays as
``.npy`` members (so that `numpy.load` opens it as well) and the trace as a trace file. Nothing in it is executed.
"""

import math
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfkit.base.files import existing, json_object, member, read_archive, reading, write_archive
from perfkit.errors import DataError, FormatError, SettingError
from perfkit.machine.forms import InstructionForm
from perfkit.machine.instruction_tables import InstructionTables
from perfkit.trace.code import StaticCode
from perfkit.trace.trace import Trace

MAGIC = "perfkit-gus-result"
VERSION = 1
_WHAT = "a saved Gus result"
_ARRAYS = {"spent": (np.int64, 2), "served": (np.int64, 1), "prefetched": (np.int64, 1)}


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
    head = {"format": MAGIC, "version": VERSION, **header}
    return write_archive(path, ("result.json", head), arrays, {"trace": trace}, ".gus")


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
    with reading(path, _WHAT), zipfile.ZipFile(path) as archive:
        header = _header(archive, path)
        arrays, inner = read_archive(archive, path, _WHAT, _ARRAYS, {"trace": Trace.load})
    return header, arrays, inner["trace"]


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
    values = {**vars(form), "uses": dict(form.uses), "operand_latency": dict(form.operand_latency)}
    del values["name"]
    if not form.operand_latency:
        del values["operand_latency"]
    return {k: None if isinstance(v, float) and math.isnan(v) else v for k, v in values.items()}


def form(name: str, values: dict[str, Any]) -> InstructionForm:
    """Return a form that `form_to_dict` wrote."""
    known: dict[str, Any] = {key: math.nan if value is None else value for key, value in values.items()}
    if "operand_latency" in known:
        known["operand_latency"] = MappingProxyType(known["operand_latency"])
    return InstructionForm(name=name, **known)
