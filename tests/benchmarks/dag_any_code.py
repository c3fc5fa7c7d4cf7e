"""How far `perfkit dag run` is from this machine on code of any kind, and how often it says so.

    python -m tests.benchmarks.dag_any_code                        # the kernels by which rules were found
    python -m tests.benchmarks.dag_any_code --seed 7 --count 75    # drawn ones: of a new seed nobody has seen any
    python -m tests.benchmarks.dag_any_code --seed 7 --times 4     # all measured four times, the least of each counts
    python -m tests.benchmarks.dag_any_code --seed 7 --show 12     # the source of one

Each function is compiled, its machine code scheduled on this machine's core and timed here, on random data. A row per
kernel: cycles measured and simulated, and what the schedule says of itself. *silent*: more than 30 % apart without a
word; *false*: doubted, and less than 15 % apart. What is measured beside other work has its errors as well.
"""

import argparse
import re
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import perfkit as pk
from perfkit.collectors.dag.clang_kernel import FLAGS, trace_c
from perfkit.collectors.dag.kernel_timing import measure_kernel
from perfkit.collectors.dag.machine_code import machine_nodes
from perfkit.errors import PerfkitError, UnavailableError
from perfkit.simulators.dag.branches import predict_branches
from tests.benchmarks.dag_draws import Draw, draws

KNOWN = Path(__file__).parent / "dag_choices"
FAR, NEAR = 1.3, 1.15
_ARRAY = re.compile(r"([fiu][1248])\[(\d+)\](-?[\d.]+):(-?[\d.]+)")


def known() -> list[Draw]:
    """Return the kernels that are files, by which rules of the model were found."""
    return [Draw(file.stem, file.read_text(), "") for file in sorted(KNOWN.glob("*.c"))]


def arguments(text: str, rng: np.random.Generator) -> list[Any]:
    """Return what the first line of a source says that its function is called with."""
    found: list[Any] = []
    for word in text.partition("\n")[0].removeprefix("//").split():
        array = _ARRAY.fullmatch(word)
        if array is None:
            found.append(int(word) if re.fullmatch(r"-?\d+", word) else float(word))
            continue
        kind, count, low, high = np.dtype(array[1]), int(array[2]), float(array[3]), float(array[4])
        drawn = rng.uniform(low, high, count) if kind.kind == "f" else rng.integers(int(low), int(high), count)
        found.append(drawn.astype(kind))
    return found


def scored(kernels: dict[int, Draw], core: str, seed: int = 0, times: int = 1) -> list[dict[str, Any]]:
    """Return a row per kernel, given by number: number, kind, build, measured, simulated, doubts, failed.

    Beside other work a kernel's least time of several counts, with all other kernels between one time and the next.
    """
    machine = pk.Microarchitecture.load(core)
    scheduler = pk.DagScheduler(machine, record=False)
    rows: list[dict[str, Any]] = []
    for number, each in kernels.items():
        row: dict[str, Any] = {"number": number, "kind": each.kind, "build": each.build, "failed": ""}
        try:
            row |= _scored(each, machine, scheduler, np.random.default_rng([seed, number]))
        except PerfkitError as error:
            row["failed"] = str(error)
        rows.append(row)
    for _ in range(times - 1):
        for row in rows:
            if not row["failed"]:
                row["measured"] = min(row["measured"], measure_kernel(row["kernel"], 11).cycles)
    return rows


def _scored(each: Draw, machine: Any, scheduler: Any, rng: np.random.Generator) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernel.c"
        source.write_text(each.source)
        flags = tuple(each.build.split()) or FLAGS
        kernel = trace_c(source, "f", *arguments(each.source, rng), flags=flags, whole=True, core=machine)
    try:
        nodes: Any = machine_nodes(kernel, machine, 3_000_000)
        dag, code = predict_branches(nodes, machine), "machine"
    except UnavailableError:
        dag, code = kernel, "IR"
    schedule = scheduler.run(dag)
    measured = measure_kernel(kernel, 11).cycles
    found = {"measured": measured, "simulated": schedule.cycles, "doubts": schedule.doubts}
    return found | {"code": code, "kernel": kernel}


def totals(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Return the figures of a set: kernels, far, silent, doubted, false and the median error."""
    good = [row for row in rows if not row["failed"]]
    apart = [max(row["simulated"] / row["measured"], row["measured"] / row["simulated"]) for row in good]
    said = [bool(row["doubts"]) for row in good]
    return {
        "kernels": len(good),
        "failed": len(rows) - len(good),
        "far": sum(a > FAR for a in apart),
        "silent": sum(a > FAR and not s for a, s in zip(apart, said, strict=True)),
        "doubted": sum(said),
        "false": sum(a < NEAR and s for a, s in zip(apart, said, strict=True)),
        "median error": float(np.median([abs(row["simulated"] / row["measured"] - 1) for row in good] or [np.nan])),
    }


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.dag_any_code")
    parser.add_argument("--seed", type=int, help="draw kernels; without it those that are files")
    parser.add_argument("--count", type=int, default=75)
    parser.add_argument("--times", type=int, default=1, help="that each is measured")
    parser.add_argument("--core", default="host")
    parser.add_argument("--show", type=int, help="print the source of one, and measure nothing")
    parser.add_argument("--only", type=int, nargs="*", default=[], help="numbers")
    given = parser.parse_args()
    kernels = known() if given.seed is None else draws(given.seed, given.count)
    if given.show is not None:
        print(f"{kernels[given.show].source}// {kernels[given.show].build or ' '.join(FLAGS)}")
        return
    rows = []
    chosen = {k: kernels[k] for k in given.only or range(len(kernels))}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for row in scored(chosen, given.core, given.seed or 0, given.times):
            rows.append(row)
            if row["failed"]:
                print(f"{row['number']:3d} {row['kind']:14s} failed: {row['failed'][:120]}", flush=True)
                continue
            apart = row["simulated"] / row["measured"] - 1
            mark = "SILENT" if max(1 + apart, 1 / (1 + apart)) > FAR and not row["doubts"] else ""
            said = "; ".join(doubt[:40] for doubt in row["doubts"])
            print(
                f"{row['number']:3d} {row['kind']:14s} {row['measured']:10,.0f} {row['simulated']:10,} {apart:+6.0%} "
                f"{mark:6s} {row['code']:7s} {row['build']:16s} {said}",
                flush=True,
            )
    found = totals(rows)
    print(
        f"{found['kernels']} kernels ({found['failed']} failed): {found['far']} more than 30 % apart, of these "
        f"{found['silent']} silent; {found['doubted']} doubted, {found['false']} of these less than 15 % apart; median "
        f"error {found['median error']:.0%}"
    )


if __name__ == "__main__":
    main()
