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
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from perfkit.base.files import shipped_folder
from perfkit.base.results import KINDS
from perfkit.errors import DataError, SettingError, closest, expect, of_extra

if TYPE_CHECKING:
    import pandas as pd

    from perfkit.diagnosis.noise_result import NoiseResult
    from perfkit.fitters.bottlenecks.forest import Forest
    from perfkit.machine.core import Microarchitecture
    from perfkit.samples.table import Samples
    from perfkit.simulators.pmu.truth import Truth
    from perfkit.study.runs import StudyRuns
    from perfkit.trace.trace import Trace

    # The names of the data sets of each type, for type checkers (tests/test_datasets.py compares).
    _SAMPLES = Literal[
        "cpi/artefact", "cpi/planted", "cpi/workloads", "pmu/skylake_x", "pmu/zen4", "spire/bad_speculation",
        "spire/core", "spire/front_end", "spire/memory", "spire/train",
    ]  # fmt: skip
    _TABLES = Literal[
        "accuracy/raptor_cove-corpus", "accuracy/raptor_cove-held-out", "accuracy/redwood_cove-corpus",
        "accuracy/redwood_cove-held-out", "accuracy/zen3-corpus", "accuracy/zen3-held-out", "accuracy/zen4-corpus",
        "accuracy/zen4-held-out", "accuracy/zen5-corpus", "accuracy/zen5-held-out", "blocks/raptor_cove",
        "blocks/zen4", "bottlenecks/classes", "bottlenecks/league", "bottlenecks/runs", "cpi/paper/statistics",
        "cpi/paper/table-03", "cpi/paper/table-04", "cpi/paper/table-05", "cpi/paper/table-06", "cpi/paper/table-08",
        "cpi/paper/table-10", "cpi/paper/table-12", "cpi/paper/table-14", "cpi/truth", "events/published",
        "gus/correlation_measured", "gus/table-2", "pmu/skylake_x-importances", "pmu/skylake_x-roofs",
        "pmu/skylake_x-variants", "pmu/zen4-importances", "pmu/zen4-roofs", "second-truth/zen4",
        "second-truth/zen4-noise", "second-truth/zen4-scores", "spire/table-1", "spire/table-2", "spire/table-3",
    ]  # fmt: skip
    _STUDIES = Literal["studies/fma", "studies/gather", "studies/stream"]
    _TRACES = Literal[
        "traces/branchy", "traces/cholesky-scalar", "traces/correlation-v0", "traces/correlation-v0-small",
        "traces/correlation-v1", "traces/correlation-v1-small", "traces/correlation-v2", "traces/correlation-v2-small",
        "traces/correlation-v3", "traces/correlation-v3-small", "traces/correlation-v4", "traces/correlation-v4-small",
        "traces/correlation-v5", "traces/correlation-v5-small", "traces/correlation-v6", "traces/correlation-v6-small",
        "traces/divider", "traces/fig1a", "traces/fig1b", "traces/floyd-warshall-avx2", "traces/gather-avx2",
        "traces/gemm-avx2", "traces/gemm-avx512", "traces/gemm-scalar", "traces/jacobi-1d-avx2",
        "traces/jacobi-2d-avx2", "traces/l2-bound", "traces/latency-add", "traces/latency-multiply",
        "traces/load-bound", "traces/masked-update-avx512", "traces/pointer-chase", "traces/store-bound",
        "traces/store-forward", "traces/throughput-add", "traces/triad",
    ]  # fmt: skip
    _TRUTHS = Literal[
        "pmu/skylake_x-truth", "pmu/skylake_x-truth-warm", "pmu/zen4-truth", "pmu/zen4-truth-warm",
    ]  # fmt: skip
    _NOISE = Literal[
        "noise/golden_cove/additions", "noise/golden_cove/chase", "noise/golden_cove/fma",
        "noise/golden_cove/integers", "noise/golden_cove/loads", "noise/golden_cove/mispredicted",
        "noise/zen3/additions", "noise/zen3/chase", "noise/zen3/fma", "noise/zen3/integers", "noise/zen3/loads",
        "noise/zen3/mispredicted", "noise/zen4/additions", "noise/zen4/chase", "noise/zen4/fma", "noise/zen4/integers",
        "noise/zen4/loads", "noise/zen4/mispredicted",
    ]  # fmt: skip
    _FORESTS = Literal["bottlenecks/model", "bottlenecks/stacks"]
    _CORES = Literal["cores/zen4-host"]
    _TEXTS = Literal[
        "bottlenecks/answers", "kernels/2mm", "kernels/3mm", "kernels/adi", "kernels/atax", "kernels/bicg",
        "kernels/branchy", "kernels/cholesky", "kernels/correlation", "kernels/correlation-v0",
        "kernels/correlation-v1", "kernels/correlation-v2", "kernels/correlation-v3", "kernels/correlation-v4",
        "kernels/correlation-v5", "kernels/correlation-v6", "kernels/correlation.h", "kernels/covariance",
        "kernels/deriche", "kernels/divider", "kernels/doitgen", "kernels/durbin", "kernels/fdtd-2d", "kernels/fig1a",
        "kernels/fig1b", "kernels/floyd-warshall", "kernels/gather", "kernels/gemm", "kernels/gemver",
        "kernels/gesummv", "kernels/gramschmidt", "kernels/heat-3d", "kernels/jacobi-1d", "kernels/jacobi-2d",
        "kernels/kernel.h", "kernels/l2-bound", "kernels/latency-add", "kernels/latency-multiply",
        "kernels/load-bound", "kernels/lu", "kernels/ludcmp", "kernels/masked-update", "kernels/mvt",
        "kernels/nussinov", "kernels/pointer-chase", "kernels/seidel-2d", "kernels/store-bound",
        "kernels/store-forward", "kernels/string-copy", "kernels/symm", "kernels/syr2k", "kernels/syrk",
        "kernels/throughput-add", "kernels/triad", "kernels/trisolv", "kernels/trmm", "pmu/answers",
        "studies/fma.yaml", "studies/gather.c", "studies/gather.yaml", "studies/stream.c", "studies/stream.yaml",
    ]  # fmt: skip

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


@overload
def load(name: "_SAMPLES", root: None = ...) -> "Samples": ...


@overload
def load(name: "_TABLES", root: None = ...) -> "pd.DataFrame": ...


@overload
def load(name: "_STUDIES", root: None = ...) -> "StudyRuns": ...


@overload
def load(name: "_TRACES", root: None = ...) -> "Trace": ...


@overload
def load(name: "_TRUTHS", root: None = ...) -> "Truth": ...


@overload
def load(name: "_NOISE", root: None = ...) -> "NoiseResult": ...


@overload
def load(name: "_FORESTS", root: None = ...) -> "Forest": ...


@overload
def load(name: "_CORES", root: None = ...) -> "Microarchitecture": ...


@overload
def load(name: "_TEXTS", root: None = ...) -> str: ...


@overload
def load(name: str, root: str | Path | None = ...) -> Any: ...


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


def _read(manifest: Path) -> tuple[Dataset, ...]:
    try:
        return _parsed(manifest, manifest.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"{manifest}: expected TOML: {error}") from error


@lru_cache(maxsize=64)  # every name that is looked up asks for all manifests, which take 15 ms
def _parsed(manifest: Path, text: str) -> tuple[Dataset, ...]:
    return tuple(_described(manifest, name, fields) for name, fields in tomllib.loads(text).items())


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
