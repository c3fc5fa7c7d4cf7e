"""Run the corpus on simulated cores with a simulated PMU, and write what the five methods are checked on: data/pmu/.

For each core: interval samples (simulated), the truth of the same runs, the roofs of the extended roofline on the same
traces, and MARTA's importances of the core's resources. Run from the repository's root, on x86-64 with AVX-512 and gcc:
python data/make/pmu.py, or python data/make/pmu.py 170 to begin nothing new after 170 seconds; the next call goes on.
"""

import hashlib
import shutil
import sys
import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from joblib import Parallel, delayed
from pmu_answers import write as write_answers

import perfkit as pk
from perfkit import SimulatedPmu
from perfkit.collectors import corpus, corpus_kernel
from perfkit.errors import PerfkitError
from perfkit.scoring import spire_scores, stack_scores
from perfkit.scoring.importances import resource_importance, resource_study
from perfkit.simulators.pmu.truth import Truth
from perfkit.trace.trace import Trace

FOLDER = Path(__file__).parent.parent / "pmu"
ANSWERS = FOLDER / "answers.json"
CORES = ("skylake_x", "zen4")
BUILDS = ("scalar", "avx2", "avx512")
INTERVALS = 24
LEAST = 2000  # instructions: shorter runs cannot be cut into intervals
CONFIGURATIONS = 128
SEED = 20261121
DEFAULT = "24 intervals"
ONE = "avx2"  # the build that all but samples and truth are of: builds of one kernel are no independent witnesses
VARIANTS = {
    "12 intervals": {"intervals": 12},
    DEFAULT: {"intervals": INTERVALS},
    "72 intervals": {"intervals": 72},
    "200 intervals": {"intervals": 200},
    "8 counters in turns": {"intervals": INTERVALS, "counters": 8, "rotations": 2, "seed": SEED},
    "5 % noise": {"intervals": INTERVALS, "noise": 0.05, "seed": SEED},
}
MOST_BYTES = 1_500_000


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
    "variants": (
        "-variants.csv",
        "csv",
        "scores with other settings of the PMU ",
        "as perfkit.scoring.Scores",
    ),
}


def recorded(name: str) -> dict[str, Trace]:
    """Trace a kernel of the corpus in every build that is long enough for intervals; an earlier call's are read."""
    of = {}
    for build in BUILDS:
        path = FOLDER.with_suffix(".parts") / "traces" / f"{name}@{build}.trace"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            corpus_kernel(name, build).trace().save(path)
        of[f"{name}/{build}"] = Trace.load(path)
    return {run: trace for run, trace in of.items() if trace.instruction_count >= LEAST}


def traces() -> dict[str, Trace]:
    """Trace every kernel of the corpus in every build."""
    return {run: trace for name in corpus().index for run, trace in recorded(name).items()}


def roofs(core: pk.Microarchitecture, run: str, trace: Trace) -> pd.DataFrame:
    """Return the roofs of a trace, one row per roof: with warm caches (the default), and with cold ones."""
    parts = [pd.DataFrame(columns=["run", "caches"])]
    for caches in ("warm", "cold"):
        try:
            roofline = pk.DagScheduler(core, warm=caches == "warm").run(pk.trace_dag(trace)).roofline()
        except PerfkitError as error:
            print(f"no roofline: {run}: {str(error)[:100]}")
            continue
        frame = roofline.to_frame()
        single = frame[frame["kind"] != "overlap"].drop(columns="formula")
        parts.append(single.assign(run=run, caches=caches))
    return pd.concat(parts[1:] or parts, ignore_index=True)


def importances(gus: pk.Gus, run: str, trace: Trace) -> pd.DataFrame:
    """Return the forest's importance (mean decrease in impurity) of each resource, one row."""
    study = resource_study(gus, trace, 2.0, CONFIGURATIONS, SEED)
    return pd.DataFrame([resource_importance(study, seed=SEED).mdi]).assign(run=run)


def write_run(core: str, part: str, run: str, trace: Trace, path: Path) -> None:
    """Make one part of one run, and write it; for other settings of the PMU, their samples."""
    pmu = SimulatedPmu(core, **VARIANTS.get(part, VARIANTS[DEFAULT]))
    if part in ("truth", "truth-warm"):
        made: Any = replace(pmu, warm=part == "truth-warm").truth({run: trace}).save
    elif part in ("roofs", "importances"):
        frame = roofs(pmu.gus.core, run, trace) if part == "roofs" else importances(pmu.gus, run, trace)
        made = partial(frame.to_parquet, index=False)
    else:
        made = pmu.collect({run: trace}).to_parquet
    made(path.with_suffix(".new.parquet"))
    path.with_suffix(".new.parquet").rename(path)


def write_kernel(name: str, until: float) -> dict[str, list[Path]]:
    """Make what is not there of one kernel's runs from an earlier, stopped call; return the files by core and part."""
    warnings.simplefilter("ignore")
    found: dict[str, list[Path]] = {}
    for run, trace in recorded(name).items():
        for core, part in ((of, part) for of in CORES for part in pieces(of, run)):
            path = FOLDER.with_suffix(".parts") / core / part.replace(" ", "-") / f"{run.replace('/', '@')}.parquet"
            found.setdefault(f"{core}/{part}", []).append(path)
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.exists() and time.time() < until:
                write_run(core, part, run, trace, path)
    return found


def pieces(core: str, run: str) -> list[str]:
    """Return what is made of a run: samples and truth; of one build the rest, and samples of other settings."""
    if not run.endswith(ONE):
        return ["samples", "truth"]
    others = [name for name in VARIANTS if core == CORES[0] and name != DEFAULT]
    return [part for part in PARTS if part != "variants"] + others


def joined(files: list[Path]) -> Truth:
    """Return the truth of all runs, in order."""
    of = [Truth.load(path) for path in files]
    stack = pd.concat([one.stack for one in of]).fillna(0.0)
    speedup, workload = pd.concat([one.speedup for one in of]), pd.concat([one.workload for one in of])
    return Truth(of[0].core, of[0].weight, stack, speedup, workload)


def scored(core: str, files: Mapping[str, list[Path]]) -> pd.DataFrame:
    """Return the scores of SPIRE and of CPI stacks with other settings of the PMU, one row per measure."""
    parts, whole = [], joined(files[f"{core}/truth"])
    runs = [run for run in whole.runs if run.endswith(ONE)]
    truth = replace(
        whole, stack=whole.stack.loc[runs], speedup=whole.speedup.loc[runs], workload=whole.workload.loc[runs]
    )
    for name in VARIANTS:
        of = files[f"{core}/{'samples' if name == DEFAULT else name}"]
        samples = pk.Samples.concat(pk.Samples.load(one) for one in of if one.stem.endswith(ONE))
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


def write(core: str, part: str, path: Path, files: Mapping[str, list[Path]]) -> None:
    """Put the runs of one part together and write it."""
    if part == "variants":
        scored(core, files).to_csv(path, index=False, float_format="%.6g")
        return
    of = files[f"{core}/{part}"]
    if part == "samples":
        pk.Samples.concat(pk.Samples.load(one) for one in of).to_parquet(path)
    elif part in ("truth", "truth-warm"):
        joined(of).to_parquet(path)
    else:
        frame = pd.concat([pd.read_parquet(one) for one in of], ignore_index=True)
        frame.to_parquet(path, index=False, compression="zstd")


def files_of() -> Iterator[tuple[str, str, Path]]:
    """Yield core, part and path of all files."""
    for core in CORES:
        for part, (ending, *_) in PARTS.items():
            if part != "variants" or core == CORES[0]:
                yield core, part, FOLDER / f"{core}{ending}"


def manifest(files: Mapping[str, list[Path]]) -> None:
    """Write the manifest of all files."""
    tables = []
    for core, part, path in files_of():
        of = files[f"{core}/{'truth-warm' if part == 'variants' else part}"]
        builds = sorted({one.stem.partition("@")[2] for one in of})
        what = f"{len(of)} runs (kernels of the corpus, {', '.join(builds)}) on a simulated {core}"
        _, form, holds, units = PARTS[part]
        known = f"pmu/{core}" if part == "samples" else f"pmu/{core}-{part}"
        tables.append(entry(known, path, form, f"{holds}, of {what}", units))
    tables.append(entry("pmu/answers", ANSWERS, "text", "the simulator's counts when these runs were made", "counts"))
    (FOLDER / "manifest.toml").write_text("# Made by data/make/pmu.py; do not edit by hand.\n\n" + "\n".join(tables))


def main(seconds: float) -> None:
    """Write every core's files and the manifest, or stop when the time is over."""
    files: dict[str, list[Path]] = {}
    until = time.time() + seconds
    jobs = (delayed(write_kernel)(name, until) for name in corpus().index)
    for found in Parallel(n_jobs=2, return_as="generator")(jobs):
        for part, of in found.items():
            files[part] = files.get(part, []) + of
    missing = sum(not path.exists() for of in files.values() for path in of)
    if missing:
        print(f"{missing} of {sum(map(len, files.values()))} parts of runs are missing: call again")
        return
    for core, part, path in files_of():
        write(core, part, path, files)
    write_answers(ANSWERS)
    manifest(files)
    shutil.rmtree(FOLDER.with_suffix(".parts"))


if __name__ == "__main__":
    main(float(sys.argv[1]) if sys.argv[1:] else float("inf"))
