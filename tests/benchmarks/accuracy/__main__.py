"""How close Gus comes to the true cycles of this host, beside llvm-mca and OSACA on the same points.

    python -m tests.benchmarks.accuracy measure --folder /tmp/accuracy     # resumable; one file a point
    python -m tests.benchmarks.accuracy score --folder /tmp/accuracy --core skylake_x

``measure`` compiles every kernel of the corpus in three builds, records its trace and measures its core cycles with the
calibrated chain (perfkit.collectors.true_cycles). ``score`` simulates every trace with warm caches, as the kernels are
timed in a loop, and runs llvm-mca (and OSACA where it is installed: pip install osaca) on the basic blocks that make
99 % of the executed instructions, each block's steady state weighted by its executions: that is how such tools are
used on whole kernels. Nothing is fitted here.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import kendalltau

import perfkit as pk
from perfkit.errors import PerfkitError
from perfkit.simulators.gus import att_text
from perfkit.trace import Trace

BUILDS = ("scalar", "avx2", "avx512")
MCA = ("llvm-mca-22", "llvm-mca-21", "llvm-mca")
OSACA_ARCHITECTURE = {"skylake_x": "csx", "ice_lake": "icl", "zen3": "zen3", "zen4": "zen4"}


def measure(folder: Path, repetitions: int) -> None:
    """Measure every point that the folder does not hold yet."""
    from perfkit.collectors import corpus, corpus_kernel, true_cycles

    folder.mkdir(parents=True, exist_ok=True)
    for name in corpus().index:
        for build in BUILDS:
            file = folder / f"{name}-{build}.json"
            if file.exists():
                continue
            try:
                kernel = corpus_kernel(name, build)
                trace = kernel.trace()
                trace.save(file.with_suffix(".trace"))
                cycles = true_cycles(kernel, repetitions=repetitions)
            except PerfkitError as error:
                print(f"{name} {build}: {error}", flush=True)
                continue
            found = {
                "kernel": name,
                "build": build,
                "instructions": trace.instruction_count,
                "cycles": cycles.cycles,
                "spread": cycles.spread,
                "kept": len(cycles.samples),
                "rejected": cycles.rejected,
                "host": cycles.host,
            }
            file.write_text(json.dumps(found))
            print(f"{name} {build}: {cycles.cycles:,.0f} cycles, spread {cycles.spread:.3f}", flush=True)


def hot_blocks(trace: Trace, share: float = 0.99) -> list[tuple[list[str], int]]:
    """Return the blocks (their AT&T text, their executions) that make ``share`` of the executed instructions."""
    code, runs = trace.code, trace.block_counts()
    weight = runs * np.diff(code.block_start)
    text, found, covered = att_text(code), [], 0
    for k in np.argsort(-weight):
        if covered >= share * weight.sum() or not weight[k]:
            break
        lines = text[code.block_start[k] : code.block_start[k + 1]]
        # A branch's target is no label here; where it goes does not matter to these tools.
        found.append(([re.sub(r"^(j\w+|call) .*", r"\1 0", line) for line in lines], int(runs[k])))
        covered += weight[k]
    return found


def by_mca(trace: Trace, cpu: str) -> float:
    """Return the cycles that llvm-mca gives the hot blocks (NaN where it refuses one)."""
    program = next(name for name in MCA if shutil.which(name))
    total = 0.0
    for lines, runs in hot_blocks(trace):
        done = subprocess.run(
            [program, f"-mcpu={cpu}", "-iterations=200", "-skip-unsupported-instructions=any"],
            input="\n".join(lines) + "\n",
            capture_output=True,
            text=True,
            check=False,
        )
        match = re.search(r"Total Cycles:\s+(\d+)", done.stdout)
        if not match:
            return float("nan")
        total += int(match[1]) / 200 * runs
    return total


def by_osaca(trace: Trace, architecture: str) -> float:
    """Return the cycles that OSACA gives the hot blocks: the larger of throughput and loop-carried dependence."""
    program = shutil.which("osaca") or str(Path(sys.executable).with_name("osaca"))
    total = 0.0
    for lines, runs in hot_blocks(trace):
        with tempfile.NamedTemporaryFile("w", suffix=".s") as file:
            file.write("\n".join(lines) + "\n")
            file.flush()
            command = [program, "--arch", architecture, "--ignore-unknown", file.name]
            try:
                done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
            except subprocess.TimeoutExpired:
                return float("nan")
        rows = [line for line in done.stdout.splitlines() if re.match(r"^\s+[\d. ]+$", line)]
        if not rows:
            return float("nan")
        total += max(float(x) for x in rows[-1].split()) * runs
    return total


def score(folder: Path, core: str, worst: int) -> None:
    """Simulate every point and print the distribution of the errors, tool by tool."""
    machine = pk.Microarchitecture.load(core)
    osaca = shutil.which("osaca") or Path(sys.executable).with_name("osaca").exists()
    mca = any(shutil.which(name) for name in MCA)
    rows = []
    for file in sorted(folder.glob("*.json")):
        point = json.loads(file.read_text())
        trace = Trace.load(file.with_suffix(".trace"))
        point["Gus"] = pk.Gus(machine, warm=True).run(trace).cycles
        if mca:
            point["llvm-mca"] = by_mca(trace, machine.llvm_cpu)
        if osaca and core in OSACA_ARCHITECTURE:
            point["OSACA"] = by_osaca(trace, OSACA_ARCHITECTURE[core])
        rows.append(point)
    table = pd.DataFrame(rows)
    table.to_csv(folder / "score.csv", index=False)
    tools = [t for t in ("Gus", "llvm-mca", "OSACA") if t in table]
    print(
        f"{len(table)} points, core {core}, measured on {', '.join(table['host'].unique())}" if "host" in table else ""
    )
    for tool in tools:
        known = table[table[tool].notna()]
        error = known[tool] / known["cycles"] - 1
        tau = kendalltau(known["instructions"] / known[tool], known["instructions"] / known["cycles"])[0]
        quantiles = ", ".join(f"{q:.0%}: {v:+.3f}" for q, v in error.quantile([0.05, 0.25, 0.5, 0.75, 0.95]).items())
        print(f"{tool}: {len(known)} points, MAPE {error.abs().mean():.3f}, tau of IPC {tau:.3f}; errors {quantiles}")
    error = (table["Gus"] / table["cycles"] - 1).rename("error")
    shown = table.assign(error=error).reindex(error.abs().sort_values(ascending=False).index)
    print(f"\nthe {worst} worst of Gus")
    print(shown.head(worst)[["kernel", "build", "instructions", "cycles", "Gus", "error"]].to_string(index=False))


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.accuracy")
    parser.add_argument("what", choices=["measure", "score"])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--core", default="skylake_x")
    parser.add_argument("--repetitions", type=int, default=150)
    parser.add_argument("--worst", type=int, default=10)
    given = parser.parse_args()
    if given.what == "measure":
        measure(given.folder, given.repetitions)
    else:
        score(given.folder, given.core, given.worst)


if __name__ == "__main__":
    main()
