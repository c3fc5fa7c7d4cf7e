"""The shipped data sets: named, described, and checked by their sums when loaded.

Each folder of ``data/`` has a ``manifest.toml`` with one table per data set::

    ["spire/train"]
    file = "spire-train.parquet"     # beside the manifest
    sha256 = "..."
    format = "samples"               # how `load` reads it: one of FORMATS
    kind = "generated"               # measured, simulated, generated or published
    holds = "what it is, in one sentence"
    units = "what its numbers count"
    source = "where it comes from"
    licence = "MIT"
    made_by = "data/make/spire_samples.py"
"""

import hashlib
import tomllib
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfkit.base.files import shipped_folder
from perfkit.base.results import KINDS
from perfkit.errors import DataError, SettingError, closest, expect, of_extra

if TYPE_CHECKING:
    import pandas as pd

# How each format is read: "module:function" of the path, imported when first used.
FORMATS = {
    "samples": "perfkit.samples.table:Samples.from_parquet",
    "csv": "pandas:read_csv",
    "study": "perfkit.study.runs:StudyRuns.from_parquet",
    "parquet": "perfkit.base.files:data_frame",
    "trace": "perfkit.trace.trace:Trace.load",
    "truth": "perfkit.simulators.pmu.truth:Truth.from_parquet",
    "noise": "perfkit.diagnosis.noise_result:NoiseResult.load",
    "forest": "perfkit.fitters.bottlenecks.forest:Forest.load",
    "core": "perfkit.machine.core:Microarchitecture.load",
    "text": "pathlib:Path.read_text",
}
_FIELDS = ("file", "sha256", "format", "kind", "holds", "units", "source", "licence", "made_by")


@dataclass(frozen=True)
class Dataset:
    """One line of a manifest: what a file holds and where it comes from.

    Attributes
    ----------
    name : str
        What `load` takes, for example ``spire/train``.
    path : Path
        The file.
    sha256, format, kind, holds, units, source, licence, made_by : str
        See the module's text.
    """

    name: str
    path: Path
    sha256: str
    format: str
    kind: str
    holds: str
    units: str
    source: str
    licence: str
    made_by: str

    def check(self) -> None:
        """Raise DataError where the file is absent or not the one that the manifest describes."""
        if not self.path.is_file():
            raise DataError(f"data set {self.name}: {self.path} is absent. Install perfkit again, or check it out.")
        found = hashlib.sha256(self.path.read_bytes()).hexdigest()
        if found != self.sha256:
            raise DataError(
                f"data set {self.name}: {self.path} has sha256 {found}; its manifest says {self.sha256}. The file was "
                f"changed: restore it, or make it again with {self.made_by} and update the manifest."
            )

    def load(self) -> Any:
        """Check the file and return what it holds."""
        self.check()
        if self.format not in FORMATS:
            raise SettingError(f"data set {self.name}: unknown format {self.format!r}; known: {', '.join(FORMATS)}")
        module, _, function = FORMATS[self.format].partition(":")
        loader: Any = import_module(module)
        for part in function.split("."):
            loader = getattr(loader, part)
        loaded = loader(self.path)
        if hasattr(loaded, "attrs"):  # a plain table does not say what it is; the manifest does
            loaded.attrs["kind"] = self.kind
        return loaded


def load(name: str, root: str | Path | None = None) -> Any:
    """Return a shipped data set by name, after checking its sum.

    Parameters
    ----------
    name : str
        As listed by `names` or `to_frame`.
    root : path, optional
        The folder of data to use instead of the shipped one.

    Examples
    --------
    >>> import perfkit as pk
    >>> pk.datasets.load("spire/train").kind
    'generated'
    """
    return find(name, root).load()


def find(name: str, root: str | Path | None = None) -> Dataset:
    """Return the description of a data set; an unknown name is an error that says which look alike."""
    expect(isinstance(name, str), name, "perfkit.datasets", "a data set's name", "perfkit.datasets.names() lists them")
    known = {d.name: d for d in catalogue(root)}
    if name not in known:
        near = closest(name, known) or sorted(known)[:5]
        raise SettingError(f"unknown data set {name!r}; did you mean {', '.join(near)}? perfkit data lists them all.")
    return known[name]


def path(name: str, root: str | Path | None = None) -> Path:
    """Return the checked file of a data set, for readers that want a path."""
    dataset = find(name, root)
    dataset.check()
    return dataset.path


def names(root: str | Path | None = None) -> list[str]:
    """Return the names of all data sets, sorted."""
    return [d.name for d in catalogue(root)]


def to_frame(root: str | Path | None = None) -> "pd.DataFrame":
    """Return one row per data set: its name, kind, format, what it holds, source, licence and size in bytes."""
    rows = [
        {
            "name": d.name,
            "kind": d.kind,
            "format": d.format,
            "holds": d.holds,
            "units": d.units,
            "source": d.source,
            "licence": d.licence,
            "bytes": d.path.stat().st_size if d.path.is_file() else float("nan"),
        }
        for d in catalogue(root)
    ]
    pd = of_extra("pandas")

    return pd.DataFrame(rows, columns=["name", "kind", "format", "holds", "units", "source", "licence", "bytes"])


def catalogue(root: str | Path | None = None) -> list[Dataset]:
    """Return every data set of the manifests below ``root``, sorted by name.

    Raises
    ------
    DataError
        A manifest cannot be read, lacks a field, or names a data set that another one names.
    """
    found: dict[str, Dataset] = {}
    for manifest in sorted(data_root(root).glob("*/manifest.toml")):
        for dataset in _read(manifest):
            if dataset.name in found:
                raise DataError(f"{manifest}: data set {dataset.name} is also in {found[dataset.name].path.parent}")
            found[dataset.name] = dataset
    return [found[name] for name in sorted(found)]


def data_root(root: str | Path | None = None) -> Path:
    """Return the folder of data: the given one, the wheel's, or the one beside the package in a checkout."""
    if root is not None:
        return Path(root)
    return shipped_folder("data")


def _read(manifest: Path) -> list[Dataset]:
    try:
        content = tomllib.loads(manifest.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"{manifest}: expected TOML: {error}") from error
    return [_described(manifest, name, fields) for name, fields in content.items()]


def _described(manifest: Path, name: str, fields: Any) -> Dataset:
    if not isinstance(fields, dict):
        raise DataError(f"{manifest}: expected one table per data set; found {name} = {fields!r}")
    lacking = [f for f in _FIELDS if not isinstance(fields.get(f), str)]
    if lacking:
        raise DataError(
            f"{manifest}: {name}: a data set has the text fields {', '.join(_FIELDS)}; lacking: {', '.join(lacking)}"
        )
    if fields["kind"] not in KINDS:
        raise DataError(f"{manifest}: {name}: kind is one of {', '.join(KINDS)}; found {fields['kind']!r}")
    given = {f: fields[f] for f in _FIELDS if f != "file"}
    return Dataset(name=name, path=manifest.parent / fields["file"], **given)
