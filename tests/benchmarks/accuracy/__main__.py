"""How close Gus comes to the true cycles of this host, beside llvm-mca and OSACA on the same points.

    python -m tests.benchmarks.accuracy measure --folder /tmp/accuracy                  # resumable; one file per point
    python -m tests.benchmarks.accuracy measure --folder /tmp/held-out --set held-out
    python -m tests.benchmarks.accuracy score --folder /tmp/accuracy --core zen5
    python -m tests.benchmarks.accuracy score --points data/accuracy/zen5-held-out.csv --core zen5
    python -m tests.benchmarks.accuracy score --points data/accuracy/zen4-corpus.csv --folder /tmp/zen4 \
        --core zen4 host.toml --no-rivals --seconds 150                                 # resumable

``measure`` compiles every kernel of the corpus in three builds, records its trace and measures its core cycles with
the calibrated chain (perfkit.collectors.host.true_cycles); the set "held-out" is the same sources by another
compiler, clang, in builds that nobody looked at while the model was written. ``score`` simulates every trace with
warm caches, as the kernels are timed in a loop, and runs llvm-mca (and OSACA where it is installed: pip install
osaca) on the basic blocks that make 99 % of the executed instructions, each block's steady state weighted by its
executions: that is how such tools are used on whole kernels. With ``--points``, the traces are recorded anew and the
cycles are those measured on the host that the table names; a point whose compiler gives another number of
instructions here is left out and counted. With a table and a folder, traces and cycles are kept in the folder as they
are made, and the next call goes on; ``--seconds`` ends a call early. What a core file or the simulator gave before it
was changed is kept as well: take another folder then, or remove its ``scored-*.csv``. Nothing is fitted here.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.stats import kendalltau

import perfkit as pk
from perfkit.errors import PerfkitError
from perfkit.simulators.gus.gus import att_text
from perfkit.trace.trace import Trace

if TYPE_CHECKING:
    from perfkit.collectors.kernels import Kernel

SETS: dict[str, dict[str, dict[str, Any]]] = {
    "corpus": {build: {"build": build} for build in ("scalar", "avx2", "avx512")},
    "held-out": {
        "clang-scalar": {
            "compiler": "clang",
            "flags": "-O2 -fno-vectorize -fno-slp-vectorize -fno-math-errno -fno-builtin",
        },
        "clang-avx2": {"compiler": "clang", "flags": "-O3 -march=haswell -fno-math-errno -fno-builtin"},
    },
}
MCA = ("llvm-mca-22", "llvm-mca-21", "llvm-mca")
# The nearest that OSACA has; it has no Zen 5.
OSACA_ARCHITECTURE = {"skylake_x": "csx", "ice_lake": "icl", "zen3": "zen3", "zen4": "zen4", "zen5": "zen4"}


def compiled(name: str, build: str) -> "Kernel":
    """Compile one point of any set."""
    from perfkit.collectors import corpus_kernel

    options = next(builds[build] for builds in SETS.values() if build in builds)
    return corpus_kernel(name, **options)


def measure(folder: Path, which: str, repetitions: int) -> None:
    """Measure every point that the folder does not hold yet."""
    from perfkit.collectors import corpus
    from perfkit.collectors.host.true_cycles import true_cycles

    folder.mkdir(parents=True, exist_ok=True)
    for name in corpus().index:
        for build in SETS[which]:
            file = folder / f"{name}-{build}.json"
            if file.exists():
                continue
            try:
                kernel = compiled(name, build)
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
                "compiler": kernel.compiler,
                "host": cycles.host,
            }
            file.write_text(json.dumps(found))
            print(f"{name} {build}: {cycles.cycles:,.0f} cycles, spread {cycles.spread:.3f}", flush=True)


def points(folder: Path | None, table: Path | None) -> Iterator[tuple[dict[str, Any], Trace]]:
    """Go through the measured points and their traces."""
    if table is None:
        assert folder is not None
        for file in sorted(folder.glob("*.json")):
            yield json.loads(file.read_text()), Trace.load(file.with_suffix(".trace"))
        return
    left_out = 0
    for row in pd.read_csv(table, comment="#").to_dict("records"):
        trace = recorded(row["kernel"], row["build"], folder)
        if trace.instruction_count == row["instructions"]:
            yield row, trace
        else:
            left_out += 1
    if left_out:
        print(f"{left_out} points left out: the compiler here gives another number of instructions")


def recorded(name: str, build: str, folder: Path | None) -> Trace:
    """Return the trace of a point, kept in the folder where one is given."""
    if folder is None:
        return compiled(name, build).trace()
    file = folder / f"{name}-{build}.trace"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        compiled(name, build).trace().save(file)
    return Trace.load(file)


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
    """Return the cycles that OSACA gives the hot blocks: the larger of throughput and loop-carried dependence.

    Its search for dependences takes minutes for long blocks; it is stopped after five seconds per block (its own
    option), and a block that takes more than half a minute leaves the point without a figure.
    """
    program = shutil.which("osaca") or str(Path(sys.executable).with_name("osaca"))
    total = 0.0
    for lines, runs in hot_blocks(trace):
        with tempfile.NamedTemporaryFile("w", suffix=".s") as file:
            file.write("\n".join(lines) + "\n")
            file.flush()
            command = [program, "--arch", architecture, "--ignore-unknown", "--lcd-timeout", "5", file.name]
            try:
                done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
            except subprocess.TimeoutExpired:
                return float("nan")
        cycles = osaca_cycles(done.stdout)
        if cycles is None:
            return float("nan")
        total += cycles * runs
    return total


def osaca_cycles(report: str) -> float | None:
    """Return cycles per iteration: the busiest port or the longest loop-carried dependence; not the critical path."""
    body, _, carried = report.partition("Loop-Carried Dependencies Analysis Report")
    sums = [line.split() for line in body.splitlines() if re.match(r"^\s+[\d. ]+$", line)]
    if not sums:
        return None
    ports = [float(x) for x in sums[-1][:-2]]  # the last two are the critical path and the longest dependence
    chains = [float(x) for x in re.findall(r"^\s*\d+ \|\s*([\d.]+) \|", carried, re.MULTILINE)]
    return max([*ports, *chains], default=None)


def score(given: argparse.Namespace) -> None:
    """Simulate every point on every core and print the distribution of the errors, core by core and tool by tool."""
    machines = {core: pk.Microarchitecture.load(core) for core in given.core}
    osaca = given.rivals and (shutil.which("osaca") or Path(sys.executable).with_name("osaca").exists())
    mca = given.rivals and any(shutil.which(name) for name in MCA)
    kept = {core: Kept(given.folder, core) for core in machines}
    until = time.monotonic() + given.seconds
    for point, trace in points(given.folder, given.points):
        for core, machine in machines.items():
            if time.monotonic() > until or kept[core].has(point):
                continue
            scored = point | {"Gus": pk.Gus(machine, warm=True).run(trace).cycles}
            if mca:
                scored["llvm-mca"] = by_mca(trace, machine.llvm_cpu)
            if osaca and core in OSACA_ARCHITECTURE:
                scored["OSACA"] = by_osaca(trace, OSACA_ARCHITECTURE[core])
            kept[core].add(scored)
        if time.monotonic() > until:
            print("the time is up: call again for the other points")
            break
    for core, rows in kept.items():
        if rows.rows:
            report(pd.DataFrame(rows.rows), core, given.worst)


class Kept:
    """The scored points of one core, kept in a folder where one is given."""

    def __init__(self, folder: Path | None, core: str) -> None:
        self.path = folder / f"scored-{Path(core).stem}.csv" if folder is not None else None
        there = self.path is not None and self.path.exists()
        self.rows: list[dict[str, Any]] = pd.read_csv(self.path).to_dict("records") if there else []

    def has(self, point: dict[str, Any]) -> bool:
        """Whether a point was scored before."""
        return any(row["kernel"] == point["kernel"] and row["build"] == point["build"] for row in self.rows)

    def add(self, row: dict[str, Any]) -> None:
        """Keep a scored point."""
        self.rows.append(row)
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            pd.DataFrame(self.rows).to_csv(self.path, index=False)


def report(table: pd.DataFrame, core: str, worst: int) -> None:
    """Print every tool's errors, on all its points and on those that all tools have, and the worst points of Gus."""
    tools = [t for t in ("Gus", "llvm-mca", "OSACA") if t in table]
    print(f"{len(table)} points, core {core}, measured on {', '.join(table['host'].unique())}")
    common = table[table[tools].notna().all(axis=1)]
    for title, shown in (("all points", table), ("points that every tool has", common)):
        print(f"{title}: {len(shown)}")
        for tool in tools:
            print(f"  {tool}: {line(shown[shown[tool].notna()], tool)}")
    error = (table["Gus"] / table["cycles"] - 1).rename("error")
    shown = table.assign(error=error).reindex(error.abs().sort_values(ascending=False).index)
    print(f"\nthe {worst} worst of Gus")
    print(shown.head(worst)[["kernel", "build", "instructions", "cycles", "Gus", "error"]].to_string(index=False))


def line(known: pd.DataFrame, tool: str) -> str:
    """Return one tool's errors in a line."""
    error = known[tool] / known["cycles"] - 1
    tau = kendalltau(known["instructions"] / known[tool], known["instructions"] / known["cycles"])[0]
    quantiles = ", ".join(f"{q:.0%}: {v:+.3f}" for q, v in error.quantile([0.05, 0.25, 0.5, 0.75, 0.95]).items())
    middle = error.abs().median()
    head = f"{len(known)} points, MAPE {error.abs().mean():.3f}, median {middle:.3f}, tau of IPC {tau:.3f}"
    return f"{head}; errors {quantiles}"


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.accuracy")
    parser.add_argument("what", choices=["measure", "score"])
    parser.add_argument("--folder", type=Path, help="where the points are or shall be")
    parser.add_argument("--points", type=Path, help="a table of measured points, whose traces are recorded anew")
    parser.add_argument("--set", choices=list(SETS), default="corpus")
    parser.add_argument("--core", nargs="+", default=["zen5"])
    parser.add_argument("--rivals", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="to score: begin no new point after these")
    parser.add_argument("--repetitions", type=int, default=150)
    parser.add_argument("--worst", type=int, default=10)
    given = parser.parse_args()
    if given.folder is None and (given.points is None or given.what == "measure"):
        parser.error("give --folder, or to score a table of points --points")
    if given.what == "measure":
        measure(given.folder, given.set, given.repetitions)
    else:
        score(given)


if __name__ == "__main__":
    main()
