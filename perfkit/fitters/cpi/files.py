"""Fits of CPI stacks as files: the data as a parquet table, the results as JSON in its metadata."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from perfkit.errors import FormatError
from perfkit.fitters.cpi.counts import CpiCounts

if TYPE_CHECKING:
    from perfkit.fitters.cpi.stack import CpiFit

_FORMAT = "perfkit-cpi-fit"
_VERSION = 1
_ROWS = ("run", "place", "interval", "at", "seconds", "row")


def save_fit(fit: "CpiFit", path: str | Path) -> Path:
    """Write a fit into one parquet file: its intervals as rows; settings, results and draws as metadata.

    Intervals and events that the fit left out of its source are not written; a loaded fit refits what it used.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    data = fit.data
    columns: dict[str, Any] = {c: data.rows[c].to_numpy() for c in _ROWS}
    columns |= {"cycles": data.cycles, "instructions": data.instructions}
    columns |= {f"event {e}": data.counts[:, i] for i, e in enumerate(data.events)}
    head = {
        "format": _FORMAT,
        "version": _VERSION,
        "settings": asdict(fit.settings),
        "data": {
            "events": data.events,
            "kind": data.kind,
            "running": data.running,
            "left_out": data.left_out,
            "bad_input": data.bad_input,
            "runs": json.loads(data.runs.reset_index().to_json(orient="records")),
        },
        "numbers": {name: getattr(fit, name) for name in ("base", "cpi", "adjusted_r2", "rmse", "f", "p", "alpha")},
        "penalties": fit.penalties.tolist(),
        "components": fit.components.tolist(),
        "other": fit.other.tolist(),
        "vif": fit.vif.tolist(),
        "r2": asdict(fit.r2),
        "placebos": fit.placebos.tolist(),
        "bracket": asdict(fit.bracket),
        "penalty_draws": fit.penalty_draws.to_numpy().tolist(),
        "component_draws": fit.component_draws.to_numpy().tolist(),
        "block": fit.block,
        "warnings": fit.warnings,
        "verdict": asdict(fit.verdict),
    }
    table = pa.table(columns)
    path = Path(path)
    pq.write_table(table.replace_schema_metadata({b"perfkit": json.dumps(head).encode()}), path, compression="zstd")
    return path


def load_fit(path: str | Path) -> "CpiFit":
    """Read a fit that `save_fit` wrote.

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
    return _assemble(head, table.to_pandas())


def _assemble(head: dict[str, Any], table: pd.DataFrame) -> "CpiFit":
    from perfkit.fitters.cpi.stack import CpiFit, CpiStack, CpiVerdict
    from perfkit.fitters.cpi.validation import CpiBracket, CpiR2

    about = head["data"]
    events = list(about["events"])
    data = CpiCounts(
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
    settings = CpiStack(**head["settings"])
    parts = ["base", *events]
    other = "cpi" if settings.form == "ipc" else "ipc"

    def draws(name: str) -> pd.DataFrame:
        return pd.DataFrame(np.array(head[name], dtype="float64").reshape(-1, len(parts)), columns=parts)

    return CpiFit(
        settings=settings,
        data=data,
        penalties=pd.Series(head["penalties"], index=events, name="penalty"),
        components=pd.Series(head["components"], index=parts, name="component"),
        other=pd.Series(head["other"], index=parts, name=f"component ({other} form)"),
        vif=pd.Series(head["vif"], index=events, name="vif"),
        r2=CpiR2(**head["r2"]),
        placebos=np.array(head["placebos"]),
        bracket=CpiBracket(**head["bracket"]),
        penalty_draws=draws("penalty_draws"),
        component_draws=draws("component_draws"),
        block=head["block"],
        warnings=tuple(head["warnings"]),
        verdict=CpiVerdict(head["verdict"]["level"], tuple(head["verdict"]["reasons"])),
        source=data,
        **head["numbers"],
    )
