"""Small programs of many kinds, measured on this machine and scheduled by the extended roofline, with its own doubts.

    python -m tests.benchmarks.dag_programs measure --folder /tmp/programs      # resumable; a quiet machine
    python -m tests.benchmarks.dag_programs score --folder /tmp/programs --core zen4

Recursion, an interpreter's loop, hashing, searching, sorting, chains of divisions, gathers, copies: no program of the
corpus, and nothing in the model was fitted to them but what docs/extended-roofline.md says. `score` prints how far
simulated cycles are from measured ones, without and with mispredicted branches, and what the schedule says of itself.
"""

import argparse
import json
import warnings
from pathlib import Path

import perfkit as pk
from perfkit.collectors import compile_kernel
from perfkit.collectors.dag.x86_dag import trace_source
from perfkit.collectors.host.true_cycles import true_cycles
from perfkit.errors import PerfkitWarning
from perfkit.simulators.dag.branches import predict_branches
from perfkit.trace.trace import Trace

SOURCES = Path(__file__).parent / "dag_kernels"
FLAGS = "-O2 -fno-builtin"


def measure(folder: Path) -> None:
    """Measure and record every program that the folder does not hold yet."""
    folder.mkdir(parents=True, exist_ok=True)
    for source in sorted(SOURCES.glob("*.c")):
        file = folder / f"{source.stem}.json"
        if file.exists():
            continue
        kernel = compile_kernel(source, "kernel", flags=FLAGS)
        kernel.trace(callees=True, limit=3_000_000).save(file.with_suffix(".trace"))
        cycles = true_cycles(kernel, repetitions=200)
        file.write_text(json.dumps({"cycles": cycles.cycles, "spread": cycles.spread, "host": cycles.host}))
        print(f"{source.stem}: {cycles.cycles:,.0f} cycles, spread {cycles.spread:.3f}", flush=True)


def score(folder: Path, core: str, only: list[str]) -> None:
    """Print a row for each program that was measured."""
    machine = pk.Microarchitecture.load(core)
    scheduler = pk.DagScheduler(machine, record=False)
    print(f"{'program':10s} {'measured':>10s} {'simulated':>9s} {'no missed branch':>16s} {'Gus':>6s}  doubts")
    for file in sorted(folder.glob("*.json")):
        if only and file.stem not in only:
            continue
        measured = json.loads(file.read_text())["cycles"]
        trace = Trace.load(file.with_suffix(".trace"))
        source = trace_source(trace, whole=True, core=machine)
        found = scheduler.run(predict_branches(source, machine))
        perfect, gus = scheduler.run(source).cycles, pk.Gus(machine, warm=True).run(trace).cycles
        apart = [f"{cycles / measured - 1:+.0%}" for cycles in (found.cycles, perfect, gus)]
        said = "; ".join(doubt.split(":")[0] for doubt in found.doubts)
        print(f"{file.stem:10s} {measured:10,.0f} {apart[0]:>9s} {apart[1]:>16s} {apart[2]:>6s}  {said}", flush=True)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.dag_programs")
    parser.add_argument("what", choices=("measure", "score"))
    parser.add_argument("--folder", type=Path, required=True, help="traces and cycles are kept here")
    parser.add_argument("--core", default="zen4", help="the core of the machine that they were measured on")
    parser.add_argument("--only", nargs="*", default=[], help="programs to score")
    given = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PerfkitWarning)
        measure(given.folder) if given.what == "measure" else score(given.folder, given.core, given.only)


if __name__ == "__main__":
    main()
