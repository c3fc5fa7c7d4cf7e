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
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfkit.errors import DataError, FormatError, SettingError
from perfkit.machine.core import InstructionForm, Microarchitecture
from perfkit.machine.instruction_tables import InstructionTables
from perfkit.simulators.gus import timing
from perfkit.simulators.gus.gus import Gus, GusResult
from perfkit.simulators.memory.cache import CacheCounts
from perfkit.simulators.program.program import lower
from perfkit.trace.trace import StaticCode, Trace

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


def save(result: GusResult, path: Path) -> Path:
    """Write a result; a file of that name is replaced only once the new one is complete."""
    gus, trace = result.settings, result.trace
    asked: dict[str, InstructionForm] = {}
    tables = gus.instruction_tables(trace)

    def form(name: str) -> InstructionForm:
        return asked.setdefault(name, tables.form(name))

    lower(trace.code, gus.core, form)
    header = {
        "format": MAGIC,
        "version": VERSION,
        "core": gus.core.to_toml(),
        "weights": dict(gus.core.weights),
        "warm": gus.warm,
        "ticks": result.ticks,
        "ticks_per_cycle": timing.TICKS,
        "branches": list(result.branches),
        "forms": {name: _plain(found) for name, found in asked.items()},
    }
    arrays = {"spent": result.spent, "served": result.served.served, "prefetched": result.served.prefetched}
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as folder:
        whole = Path(folder) / "result"
        with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, values in arrays.items():
                data = io.BytesIO()
                np.lib.format.write_array(data, values, allow_pickle=False)
                _put(archive, f"{name}.npy", data.getvalue(), zipfile.ZIP_DEFLATED)
            _put(archive, "trace", trace.save(Path(folder) / "trace").read_bytes(), zipfile.ZIP_STORED)
            _put(archive, "result.json", json.dumps(header, indent=1).encode(), zipfile.ZIP_DEFLATED)
        whole.replace(path)
    return path


def load(path: Path) -> GusResult:
    """Read what `save` wrote.

    Raises
    ------
    FormatError
        The file is no result, is truncated or damaged, or of a later version.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            header = _header(archive, path)
            arrays = {name: _array(archive.read(f"{name}.npy")) for name in _ARRAYS}
            data = archive.read("trace")
    except FileNotFoundError as error:
        raise FormatError(f"{path}: no such file") from error
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
    try:
        return _result(header, arrays, trace)
    except (KeyError, TypeError, ValueError, AttributeError, SettingError, DataError) as error:
        if isinstance(error, FormatError):
            raise
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


def _result(header: dict[str, Any], arrays: dict[str, NDArray[np.int64]], trace: Trace) -> GusResult:
    weights = {str(name): float(weight) for name, weight in header["weights"].items()}
    core = replace(Microarchitecture.from_toml(header["core"], "its core"), weights=MappingProxyType(weights))
    forms = {name: _form(name, values) for name, values in header["forms"].items()}
    gus = Gus(core, tables=SavedTables(core, (), saved=forms), warm=bool(header["warm"]))
    program = gus.program(trace)
    spent, ticks = arrays["spent"], int(header["ticks"])
    shape = (len(program.slots), timing.PORTS + len(program.groups))
    if spent.shape != shape:
        raise DataError(f"an account of {shape} instructions and causes expected, found {spent.shape}")
    if header["ticks_per_cycle"] != timing.TICKS:
        raise DataError(f"times in {header['ticks_per_cycle']} ticks a cycle, where {timing.TICKS} are expected")
    if spent.sum() != ticks:
        raise DataError(f"its account sums to {spent.sum()} ticks, its time is {ticks}")
    branches, missed = header["branches"]
    served = CacheCounts(arrays["served"], arrays["prefetched"])
    return GusResult(gus, trace, program, ticks, spent, served, (int(branches), int(missed)))


def _plain(form: InstructionForm) -> dict[str, Any]:
    """Return a form as JSON holds it: what does not apply is null."""
    values = {**vars(form), "uses": dict(form.uses)}
    del values["name"]
    return {k: None if isinstance(v, float) and math.isnan(v) else v for k, v in values.items()}


def _form(name: str, values: dict[str, Any]) -> InstructionForm:
    known: dict[str, Any] = {key: math.nan if value is None else value for key, value in values.items()}
    return InstructionForm(name=name, **known)


def _put(archive: zipfile.ZipFile, name: str, data: bytes, how: int) -> None:
    info = zipfile.ZipInfo(name, _EPOCH)
    info.compress_type = how
    archive.writestr(info, data)
