"""Run the corpus on simulated cores with a simulated PMU, and write what the five methods are checked on: data/pmu/.

For each core: interval samples (simulated), the truth of the same runs, the roofs of the extended roofline on the same
traces, and MARTA's importances of the core's resources. Run from the repository's root, on x86-64 with AVX-512 and gcc
(some ten minutes of processor time): python data/make/pmu.py, or python data/make/pmu.py roofs truth for some parts.
"""

import hashlib
import sys
import time
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import pandas as pd

import perfkit as pk
from perfkit import SimulatedPmu
from perfkit.collectors import corpus, corpus_kernel
from perfkit.errors import PerfkitError
from perfkit.scoring import spire_scores, stack_scores
from perfkit.scoring.importances import resource_importance, resource_study
from perfkit.simulators.pmu.truth import Truth
from perfkit.trace.trace import Trace

FOLDER = Path(__file__).parent.parent / "pmu"
CORES = ("skylake_x", "zen4")
BUILDS = ("scalar", "avx2", "avx512")
INTERVALS = 24
LEAST = 2000  # instructions: shorter runs cannot be cut into intervals
CONFIGURATIONS = 128
SEED = 20261121
VARIANTS = {
    "12 intervals": {"intervals": 12},
    "24 intervals": {"intervals": INTERVALS},
    "72 intervals": {"intervals": 72},
    "200 intervals": {"intervals": 200},
    "8 counters in turns": {"intervals": INTERVALS, "counters": 8, "rotations": 2, "seed": SEED},
    "5 % noise": {"intervals": INTERVALS, "noise": 0.05, "seed": SEED},
}
MOST_BYTES = 1_000_000


# Part -> end of the file's name, format, what it holds, units.
PARTS = {
    "samples": (".parquet", "samples", "interval samples", "cycles, instructions; counts as docs/simulated-pmu.md"),
    "truth": ("-truth.parquet", "truth", "exact CPI stacks and sensitivities (x2)", "cycles per instruction; speedup"),
    "roofs": ("-roofs.parquet", "parquet", "the extended roofline's roofs", "flops per cycle"),
    "truth-warm": ("-truth-warm.parquet", "truth", "the same with warm caches and predictor", "as the truth"),
    "importances": (
        "-importances.parquet",
        "parquet",
        f"a forest's importance of each resource over {CONFIGURATIONS} random cores",
        "mean decrease in impurity",
    ),
    "variants": ("-variants.csv", "csv", "scores with other settings of the PMU", "as perfkit.scoring.Scores"),
}


def traces() -> dict[str, Trace]:
    """Trace every kernel of the corpus in every build."""
    found = {}
    for name in corpus().index:
        for build in BUILDS:
            trace = corpus_kernel(name, build).trace()
            if trace.instruction_count >= LEAST:
                found[f"{name}/{build}"] = trace
            else:
                print(f"left out: {name}/{build} has {trace.instruction_count} instructions")
    return found


def roofs(core: pk.Microarchitecture, of: dict[str, Trace]) -> pd.DataFrame:
    """Return the roofs of every trace, one row per roof: with warm caches (the default), and with cold ones."""
    parts = []
    for caches in ("warm", "cold"):
        scheduler = pk.DagScheduler(core, warm=caches == "warm")
        for run, trace in of.items():
            try:
                roofline = scheduler.run(pk.trace_dag(trace)).roofline()
            except PerfkitError as error:
                print(f"no roofline: {run}: {str(error)[:100]}")
                continue
            frame = roofline.to_frame()
            single = frame[frame["kind"] != "overlap"].drop(columns="formula")
            parts.append(single.assign(run=run, caches=caches))
    return pd.concat(parts, ignore_index=True)


def importances(gus: pk.Gus, of: dict[str, Trace]) -> pd.DataFrame:
    """Return the forest's importance (mean decrease in impurity) of each resource, one row per run."""
    found = {}
    for run, trace in of.items():
        study = resource_study(gus, trace, 2.0, CONFIGURATIONS, SEED)
        found[run] = resource_importance(study, seed=SEED).mdi
    return pd.DataFrame.from_dict(found, orient="index").rename_axis("run").reset_index()


def variants(core: str, of: dict[str, Trace], truth: Truth) -> pd.DataFrame:
    """Return the scores of SPIRE and of CPI stacks with other settings of the PMU, one row per measure."""
    parts = []
    for name, settings in VARIANTS.items():
        samples = SimulatedPmu(core, **settings).collect(of)
        counted = [e for e in samples.events if not e.startswith("stall.")]
        both = (spire_scores(samples, truth, events=counted), stack_scores(samples, truth))
        parts += [found.measures.reset_index().assign(variant=name, method=found.method) for found in both]
        print(f"variant {name}: {samples}")
    return pd.concat(parts, ignore_index=True)


def entry(name: str, path: Path, form: str, holds: str, units: str) -> str:
    """Return a data set's table of the manifest."""
    size = path.stat().st_size
    print(f"{name:28} {size:>9,} bytes")
    assert size < MOST_BYTES, f"{name}: {size} bytes"
    lines = {
        "file": path.name,
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "format": form,
        "kind": "simulated",
        "holds": holds,
        "units": units,
        "source": "perfkit's simulator on traces of the corpus's kernels, recorded by its cloner; no counters",
        "licence": "MIT",
        "made_by": "data/make/pmu.py",
    }
    return "\n".join([f'["{name}"]', *(f'{key} = "{value}"' for key, value in lines.items())]) + "\n"


def make(name: str, of: dict[str, Trace], parts: Collection[str]) -> list[str]:
    """Write the files of one core, or those of some parts of it; return the tables of the manifest of all."""
    start = time.process_time()
    pmu = SimulatedPmu(name, intervals=INTERVALS)
    what = f"{len(of)} runs (kernels of the corpus, {', '.join(BUILDS)}) on a simulated {name}"
    tables = []
    for part, (ending, form, holds, units) in PARTS.items():
        if part == "variants" and name != CORES[0]:
            continue
        path = FOLDER / f"{name}{ending}"
        if part in parts:
            write(part, path, pmu, of)
            print(f"{name}: {part} by {time.process_time() - start:.0f} s of processor time")
        known = f"pmu/{name}" if part == "samples" else f"pmu/{name}-{part}"
        tables.append(entry(known, path, form, f"{holds}, of {what}", units))
    return tables


def write(part: str, path: Path, pmu: SimulatedPmu, of: dict[str, Trace]) -> None:
    """Make one part and write it."""
    if part == "samples":
        pmu.collect(of).to_parquet(path)
    elif part in ("truth", "truth-warm"):
        replace(pmu, warm=part == "truth-warm").truth(of).to_parquet(path)
    elif part == "variants":
        truth = Truth.from_parquet(FOLDER / f"{pmu.gus.core.name}{PARTS['truth'][0]}")
        variants(pmu.gus.core.name, of, truth).to_csv(path, index=False, float_format="%.6g")
    else:
        frame = roofs(pmu.gus.core, of) if part == "roofs" else importances(pmu.gus, of)
        frame.to_parquet(path, index=False, compression="zstd")


def main(parts: Collection[str]) -> None:
    """Write every core's files (or those of the named parts) and the manifest."""
    unknown = set(parts) - set(PARTS)
    assert not unknown, f"unknown parts {unknown}; known: {', '.join(PARTS)}"
    FOLDER.mkdir(exist_ok=True)
    of = traces()
    tables = [table for name in CORES for table in make(name, of, parts or PARTS)]
    (FOLDER / "manifest.toml").write_text("# Made by data/make/pmu.py; do not edit by hand.\n\n" + "\n".join(tables))


if __name__ == "__main__":
    main(sys.argv[1:])
