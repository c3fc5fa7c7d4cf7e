"""Fits of CPI stacks as files: the data as a parquet table, the results as JSON in its metadata."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from perfkit.errors import FormatError
from perfkit.fitters.cpi.counts import CpiCounts

_FORMAT = "perfkit-cpi-fit"
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
    pq.write_table(table.replace_schema_metadata({b"perfkit": json.dumps(head).encode()}), path, compression="zstd")
    return path


def load_fit(path: str | Path) -> tuple[dict[str, Any], CpiCounts]:
    """Read what `save_fit` wrote: the results, and the data that was fitted.

    Raises
    ------
    FormatError
        The file is not parquet, not a fit, or of a newer version.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
    except pa.ArrowInvalid as error:
        raise FormatError(f"{path}: expected a parquet file of a CPI fit; it cannot be read: {error}") from error
    head = json.loads((table.schema.metadata or {}).get(b"perfkit", b"{}"))
    if head.get("format") != _FORMAT:
        raise FormatError(f"{path}: a parquet file, but not one that CpiFit.save wrote (found {head.get('format')})")
    if head["version"] > _VERSION:
        raise FormatError(f"{path}: a fit of format version {head['version']}; this perfkit reads up to {_VERSION}")
    return head, _data(head["data"], table.to_pandas())


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
