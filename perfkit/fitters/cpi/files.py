"""Fits of CPI stacks as files: the data as a parquet table, the results as JSON in its metadata."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd

from perfkit.base.files import arrow_table, existing, json_text, of_json, reading, replaced
from perfkit.errors import FormatError
from perfkit.fitters.cpi.counts import CpiCounts

_FORMAT = "perfkit-cpi-fit"
_EACH = "perfkit-cpi-comparison"
_VERSION = 1
_ROWS = ("run", "place", "interval", "at", "seconds", "row")


def save_fit(path: Path, results: Mapping[str, Any], data: CpiCounts) -> Path:
    """Write a fit into one parquet file: its intervals as rows; settings, results and draws as metadata.

    Intervals and events that the fit left out of its source are not written; a loaded fit refits what it used.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns: dict[str, Any] = {c: data.rows[c].to_numpy() for c in _ROWS}
    columns |= {"cycles": data.cycles, "instructions": data.instructions}
    columns |= {f"event {e}": data.counts[:, i] for i, e in enumerate(data.events)}
    about = {
        "events": data.events,
        "kind": data.kind,
        "running": data.running,
        "left_out": data.left_out,
        "bad_input": data.bad_input,
        "runs": json.loads(data.runs.reset_index().to_json(orient="records")),
    }
    head = {"format": _FORMAT, "version": _VERSION, "data": about, **results}
    table = pa.table(columns)
    with replaced(path, ".parquet", ".pq") as temporary:
        metadata = {b"perfkit": json_text(head).encode()}
        pq.write_table(table.replace_schema_metadata(metadata), temporary, compression="zstd")
    return path


def load_fit(path: str | Path) -> tuple[dict[str, Any], CpiCounts]:
    """Read what `save_fit` wrote: the results, and the data that was fitted.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    FormatError
        The file is not parquet, not a fit, or of a newer version.
    """
    path = existing(path)
    with reading(path, "a parquet file of a CPI fit"):
        table = arrow_table(path)
        head = of_json((table.schema.metadata or {}).get(b"perfkit", b"{}"))
        if head.get("format") != _FORMAT:
            found = head.get("format")
            raise FormatError(f"{path}: a parquet file, but not one that CpiFit.save wrote (found {found})")
        if head["version"] > _VERSION:
            raise FormatError(f"{path}: a fit of format version {head['version']}; this perfkit reads up to {_VERSION}")
        return head, _data(head["data"], table.to_pandas())


def save_each(path: Path, fits: Mapping[str, Any], table: pd.DataFrame) -> Path:
    """Write several fits into one parquet file: ``table`` as its rows, each fit's own file in the metadata."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    head = {"format": _EACH, "version": _VERSION, "names": list(fits)}
    metadata = {b"perfkit": json_text(head).encode()}
    with TemporaryDirectory() as folder:
        for k, fit in enumerate(fits.values()):
            metadata[f"perfkit:{k}".encode()] = fit.save(Path(folder) / str(k)).read_bytes()
    with replaced(path, ".parquet", ".pq") as temporary:
        rows = pa.Table.from_pandas(table)
        metadata |= rows.schema.metadata or {}
        pq.write_table(rows.replace_schema_metadata(metadata), temporary, compression="zstd")
    return path


def load_each(path: str | Path, load: Callable[[Path], Any]) -> dict[str, Any]:
    """Read what `save_each` wrote: each fit's name, and what ``load`` makes of its file.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    FormatError
        The file is not parquet, or not one of a comparison.
    """
    import pyarrow.parquet as pq

    path = existing(path)
    fits = {}
    with reading(path, "a parquet file of CPI stacks"), TemporaryDirectory() as folder:
        metadata = pq.read_schema(path).metadata or {}
        head = of_json(metadata.get(b"perfkit", b"{}"))
        if head.get("format") != _EACH or head["version"] > _VERSION:
            raise FormatError(f"{path}: a parquet file, but not one that CpiComparison.save wrote")
        for k, name in enumerate(head["names"]):
            one = Path(folder) / str(k)
            one.write_bytes(metadata[f"perfkit:{k}".encode()])
            fits[name] = load(one)
    return fits


def _data(about: dict[str, Any], table: pd.DataFrame) -> CpiCounts:
    events = list(about["events"])
    return CpiCounts(
        rows=table[list(_ROWS)],
        cycles=table["cycles"].to_numpy(),
        instructions=table["instructions"].to_numpy(),
        counts=table[[f"event {e}" for e in events]].to_numpy(),
        events=tuple(events),
        kind=about["kind"],
        runs=pd.DataFrame(about["runs"]).set_index("run"),
        running=about["running"],
        left_out=tuple(about["left_out"]),
        bad_input=about["bad_input"],
    )
