"""How often the extended roofline and Gus name the same bottleneck, on every trace that ships.

    python -m tests.benchmarks.dag_agreement                       # skylake_x, as `perfkit dag` by default
    python -m tests.benchmarks.dag_agreement --core zen4 --only fig1a,triad

Both models simulate the same trace on the same core; each names the resource that gains most at twice its capacity
(`perfkit.scoring.dag_gus.second_opinion` says when two names are one). Nothing is measured.
"""

import argparse
import warnings
from collections.abc import Sequence

import pandas as pd

import perfkit as pk
from perfkit.collectors.dag.x86_dag import trace_source
from perfkit.errors import PerfkitWarning
from perfkit.scoring.dag_gus import second_opinion
from perfkit.simulators.dag.branches import predict_branches


def agreement(core: str = "skylake_x", only: Sequence[str] = ()) -> pd.DataFrame:
    """Return a row per shipped trace: trace, gus, gain, roofline, agree, cycles, apart."""
    machine = pk.Microarchitecture.load(core)
    scheduler = pk.DagScheduler(machine, record=False)
    rows = []
    for name in only or shipped():
        trace = pk.datasets.load(f"traces/{name}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PerfkitWarning)  # string instructions: known, and said by the command
            dag = predict_branches(trace_source(trace, whole=True, core=machine), machine).in_memory()
            opinion = second_opinion(trace, machine, pk.relax(dag, scheduler))
        rows.append({"trace": name, **opinion})
    return pd.DataFrame(rows)


def shipped() -> list[str]:
    """Return the names of the x86-64 traces that ship."""
    return [name.removeprefix("traces/") for name in pk.datasets.names() if name.startswith("traces/")]


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.dag_agreement")
    parser.add_argument("--core", default="skylake_x")
    parser.add_argument("--only", default="", help="traces, with commas between")
    given = parser.parse_args()
    table = agreement(given.core, [name for name in given.only.split(",") if name])
    columns = ["trace", "gus", "gain", "roofline", "agree"]
    print(table[columns].to_string(index=False, float_format=lambda v: f"{v:.2f}"))
    print(f"{table['agree'].sum()} of {len(table)} traces: the same bottleneck (simulated, {given.core})")


if __name__ == "__main__":
    main()
