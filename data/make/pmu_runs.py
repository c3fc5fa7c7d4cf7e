"""Run generated loops and kernels and the corpus on four simulated cores: event rates of whole runs, and their truth.

What `perfkit.Bottlenecks` learns from and is scored on: data/bottlenecks/runs.parquet, one row per program and core.
Run from the repository's root, on x86-64 with gcc and GNU as: python data/make/pmu_runs.py.
"""

import shutil
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from loops import EACH, LATER, PIECES, generate
from pmu_answers import write as write_answers
from programs import generate as generate_kernel

import perfkit as pk
from perfkit import SimulatedPmu
from perfkit.collectors import corpus, corpus_kernel
from perfkit.scoring.evidence import COMPONENTS
from perfkit.simulators.pmu.credit import Variants
from perfkit.trace.trace import Trace

CORES = ("skylake_x", "golden_cove", "zen4", "zen5")
BUILDS = ("avx2",)  # builds of one kernel are no independent witnesses
KERNELS = 220  # numbers of generated kernels; those of an unfit length are left out
LEAST, INTERVALS, SEED = 2000, 4, 20261123
TURNS = {"counters": 8, "rotations": 1, "noise": 0.05}
ORDERS = 4  # of the classes, for their credit
ORIGINS = {"loop": "generated", "kernel": "generated kernel"}
_DIGITS = 3


def one_run(core: str, name: str, trace: Trace, warm: bool, variants: Variants) -> dict[str, object]:
    """Return the row of one program on one core."""
    length = trace.instruction_count
    pmu = SimulatedPmu(
        core, interval=max(1, length // INTERVALS), unit="instructions", warm="caches" if warm else "none", seed=SEED,
        **TURNS,
    )  # fmt: skip
    exact, turns = pmu.run_counts(trace)
    cycles = exact["cycles"]
    found = variants.credit(pmu.gus, trace)
    stack = pmu.gus.run(trace).cpi_stack() / (cycles / length)
    parts = {part: float(stack.reindex(list(causes)).sum()) for part, (causes, _) in COMPONENTS.items()}
    origin = trace.provenance
    return {
        "core": core,
        "run": name,
        "workload": origin.workload or name,
        "origin": ORIGINS.get(name.partition("-")[0], "corpus"),
        "piece": origin.function if name.startswith("loop-") else "",
        "cycles": cycles,
        "instructions": length,
        **{f"rate:{event}": count / cycles for event, count in exact.items() if event != "cycles"},
        **{f"turn:{event}": count / cycles for event, count in turns.items() if event != "cycles"},
        **{f"credit:{of}": value for of, value in found.credit.items()},
        **{f"alone:{of}": value for of, value in found.alone.items()},
        **{f"stack:{part}": share for part, share in parts.items()},
    }


def programs(which: range) -> Iterator[tuple[str, Trace, bool]]:
    """Yield name, trace and warmth: the generated programs, then the corpus."""
    for number in which:
        loop = generate(number, SEED)
        yield loop.name, loop.trace, loop.warm


def kernel_programs(numbers: range) -> Iterator[tuple[str, Trace, bool]]:
    """Yield the generated kernels, every other one with its data in the caches."""
    for number in numbers:
        trace = generate_kernel(number, SEED)
        if trace is not None:
            yield f"kernel-{number:03d}", trace, bool(number % 2)


def corpus_programs(names: list[str]) -> Iterator[tuple[str, Trace, bool]]:
    """Yield the corpus's kernels in all builds, cold."""
    for name in names:
        for build in BUILDS:
            trace = corpus_kernel(name, build).trace()
            if trace.instruction_count >= LEAST:
                yield f"{name}/{build}", trace, False


Programs = Callable[..., Iterator[tuple[str, Trace, bool]]]
Which = range | list[str]


def rows_of(several: Programs, which: Which) -> list[dict[str, object]]:
    """Return the rows of some programs on all cores."""
    warnings.simplefilter("ignore")
    every = {core: Variants(pk.Microarchitecture.load(core), ORDERS, SEED) for core in CORES}
    return [one_run(core, *one, variants) for one in several(which) for core, variants in every.items()]


def kept_rows(number: int, several: Programs, which: Which, folder: Path) -> pd.DataFrame:
    """Return the rows of some programs; what an earlier, stopped call has made is read from the folder."""
    path = folder / f"{number:03d}.parquet"
    if not path.exists():
        made = pd.DataFrame(rows_of(several, which))
        made.to_parquet(path.with_suffix(".new"), index=False)
        path.with_suffix(".new").rename(path)
    return pd.read_parquet(path)


def runs(folder: Path, workers: int = 2) -> pd.DataFrame:
    """Return all runs, in a fixed order, with figures of three digits."""
    each, parts_of_corpus = len(PIECES), 20
    loops = EACH * (each + len(LATER))
    tasks: list[tuple[Programs, Which]] = [(programs, range(k, min(k + each, loops))) for k in range(0, loops, each)]
    tasks += [(kernel_programs, range(k, k + each)) for k in range(0, KERNELS, each)]
    tasks += [(corpus_programs, list(corpus().index)[k::parts_of_corpus]) for k in range(parts_of_corpus)]
    folder.mkdir(parents=True, exist_ok=True)
    start, parts = time.time(), []
    jobs = (delayed(kept_rows)(number, *task, folder) for number, task in enumerate(tasks))
    for done, part in enumerate(Parallel(n_jobs=workers, return_as="generator_unordered")(jobs), 1):
        parts.append(part)
        print(f"{done} of {len(tasks)} parts, {len(part)} runs, {time.time() - start:.0f} s", flush=True)
    frame = pd.concat(parts).sort_values(["core", "run"], kind="stable", ignore_index=True)
    numbers = frame.select_dtypes(float).columns
    frame[numbers] = frame[numbers].apply(rounded)
    return frame


def rounded(column: pd.Series) -> pd.Series:
    """Return numbers of so many digits, as float32: more would be noise that does not compress."""
    values = column.to_numpy(dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = 10.0 ** (_DIGITS - 1 - np.floor(np.log10(np.abs(values))))
        kept = np.where((values == 0) | ~np.isfinite(values), values, np.round(values * scale) / scale)
    return pd.Series(kept.astype(np.float32), index=column.index)


def write(path: Path, workers: int = 2) -> None:
    """Make the table and write it; its parts are kept until it is there, so that a stopped call goes on."""
    folder = path.with_suffix(".parts")
    frame = runs(folder, workers)
    frame.to_parquet(path, index=False, compression="zstd", compression_level=19)
    shutil.rmtree(folder)


if __name__ == "__main__":
    write(
        Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).parent.parent / "bottlenecks" / "runs.parquet",
        int(sys.argv[2]) if sys.argv[2:] else 2,
    )
    write_answers()
