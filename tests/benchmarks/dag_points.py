"""How close the extended roofline's cycles come to measured ones, beside Gus on the same traces.

    python -m tests.benchmarks.dag_points data/accuracy/zen5-held-out.csv
    python -m tests.benchmarks.dag_points data/accuracy/zen4-corpus.csv --folder /tmp/points   # traces are kept there

The points are those of docs/gus.md (`python -m tests.benchmarks.accuracy`): kernels of the corpus, whose true cycles
were measured on the host that the table names. Traces are recorded anew; a point whose compiler gives another number of
instructions here is left out and counted. The DAG is the whole kernel's, with warm caches.
"""

import argparse
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

import perfkit as pk
from perfkit.collectors.dag.x86_dag import trace_source
from perfkit.errors import PerfkitError, PerfkitWarning
from perfkit.simulators.dag.branches import predict_branches
from perfkit.trace.trace import Trace
from tests.benchmarks.accuracy.__main__ import compiled, line


def points(table: Path, folder: Path | None, only: str = "") -> Iterator[tuple[dict[str, Any], Trace]]:
    """Go through the measured points and their traces."""
    left_out = 0
    for row in pd.read_csv(table, comment="#").to_dict("records"):
        name = f"{row['kernel']}-{row['build']}"
        if only and only not in name:
            continue
        kept = folder / f"{name}.trace" if folder else None
        if kept is not None and kept.exists():
            trace = Trace.load(kept)
        else:
            try:
                trace = compiled(row["kernel"], row["build"]).trace()
            except PerfkitError as error:
                print(f"{name}: {error}")
                left_out += 1
                continue
            if kept is not None:
                kept.parent.mkdir(parents=True, exist_ok=True)
                trace.save(kept)
        if trace.instruction_count == row["instructions"]:
            yield row, trace
        else:
            left_out += 1
    if left_out:
        print(f"{left_out} points left out: no such build here, or another number of instructions")


def score(table: Path, core: str, folder: Path | None, gus: bool, only: str = "") -> pd.DataFrame:
    """Return a row per point: kernel, build, cycles (measured), dag and Gus (simulated)."""
    machine = pk.Microarchitecture.load(core)
    scheduler = pk.DagScheduler(machine, record=False)
    rows = []
    for row, trace in points(table, folder, only):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PerfkitWarning)
            nodes = predict_branches(trace_source(trace, whole=True, core=machine), machine)
            row["dag"] = scheduler.run(nodes).cycles
            if gus:
                row["Gus"] = pk.Gus(machine, warm=True).run(trace).cycles
        rows.append(row)
    return pd.DataFrame(rows)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.dag_points")
    parser.add_argument("table", type=Path, help="a table of measured points: data/accuracy/zen5-held-out.csv")
    parser.add_argument("--core", help="by default the first word of the table's name")
    parser.add_argument("--folder", type=Path, help="keep the traces here")
    parser.add_argument("--no-gus", action="store_true")
    parser.add_argument("--only", default="", help="points whose name holds this")
    parser.add_argument("--worst", type=int, default=20)
    given = parser.parse_args()
    core = given.core or given.table.stem.partition("-")[0]
    found = score(given.table, core, given.folder, not given.no_gus, given.only)
    print(f"{len(found)} points of {given.table}, core {core}, measured on {', '.join(found['host'].unique())}")
    for tool in ("dag", "Gus"):
        if tool in found:
            print(f"  {tool}: {line(found, tool)}")
    found["error"] = found["dag"] / found["cycles"] - 1
    worst = found.reindex(found["error"].abs().sort_values(ascending=False).index)
    columns = ["kernel", "build", "instructions", "cycles", "dag", *(["Gus"] if "Gus" in found else []), "error"]
    print(worst.head(given.worst)[columns].to_string(index=False))


if __name__ == "__main__":
    main()
