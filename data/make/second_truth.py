"""A second truth for the league of data/bottlenecks: bottlenecks measured on this machine by adding noise.

The 14 loops of tests/diagnosis/noise_kernels.py, whose bottleneck is known by construction, and kernels of the corpus,
on the processor at hand (`perfkit.Noise`: time stamps only) and on the model of its core: Gus, the extended roofline,
and the league's methods on *simulated* counters, as no counters are needed to measure and most hosts have none. Run
from the repository's root on an idle machine: ``python data/make/second_truth.py [SECONDS] [MORE KERNELS]``. After so
many seconds nothing new begins; rows that are there are kept, and the next call goes on.
Writes data/second-truth/CORE.csv.
"""

import hashlib
import sys
import time
import tomllib
import warnings
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
from league import METHODS, OUTPUTS, credits_and_votes, forest_of, masked, said_first, table, x_of

import perfkit as pk
from perfkit import SimulatedPmu
from perfkit.collectors import compile_kernel, corpus, corpus_kernel
from perfkit.collectors.dag.x86_dag import trace_source
from perfkit.diagnosis.noise_curves import UNTOLD
from perfkit.simulators.dag.branches import predict_branches
from perfkit.simulators.groups import group
from perfkit.simulators.pmu.credit import Variants
from perfkit.trace.trace import Trace
from tests.diagnosis.noise_kernels import FLAGS, KERNELS

FOLDER = Path(__file__).parent.parent / "second-truth"
ORDERS, SEED = 8, 20261124
EVERY = 4  # kernel of the corpus in the order of their names
OPERATIONS, CACHES, MEMORY = "latency of operations", "latency of caches", "latency of memory"
UNITS, VECTOR, BRANCHES = "load and store units", "floating-point units", "mispredicted branches"
# Group of resources (`perfkit.scoring.dag_gus.group`) -> answers of `perfkit.Noise` that may mean it, and classes of
# `perfkit.machine.classes` that it holds. Written down before anything was scored.
OF_NOISE = {
    OPERATIONS: ("latency",),
    CACHES: ("latency", "load L2"),
    MEMORY: ("latency",),
    "bandwidth of L2": ("load L2",),
    "front end": ("front end",),
    BRANCHES: ("restarts",),
    "window": ("restarts",),
    "integer units": ("integer", "shift", "branch"),
    UNITS: ("load", "vector load", "store"),
    VECTOR: ("vector add", "vector multiply", "vector integer", "shuffle"),
    "divider": ("divide",),
}
OF_CLASS = {
    OPERATIONS: ("instruction latency",),
    CACHES: ("L1 latency", "store forwarding", "L2"),
    MEMORY: ("L3", "memory latency", "address translation"),
    "bandwidth of L2": ("L2",),
    "bandwidth of memory": ("L3", "memory bandwidth"),
    "front end": ("pipeline width", "taken branches"),
    BRANCHES: ("mispredicted branches",),
    "window": ("reorder buffer", "load buffer", "store buffer", "line fill buffers", "schedulers"),
    "integer units": ("integer units",),
    UNITS: ("store ports", "load ports"),
    VECTOR: ("vector units",),
    "divider": ("dividers",),
}
BUILT = {
    "additions in a chain": OPERATIONS, "chase in L1": CACHES, "chase in L2": CACHES,
    "multiplications in a chain": OPERATIONS, "fused multiply-adds": VECTOR, "vector additions": VECTOR,
    "vector integers": VECTOR, "shuffles": VECTOR, "divisions": "divider", "loads": UNITS, "stores": UNITS,
    "integers": "integer units", "no-operations": "front end", "mispredicted branches": BRANCHES,
}  # fmt: skip


def kernel_of(name: str) -> tuple[Any, tuple[Any, ...]]:
    """Return a kernel and its arguments."""
    known = KERNELS.get(name)
    if known:
        return compile_kernel(known.source, "f", flags=FLAGS, name=name), known.arguments
    return corpus_kernel(name, "avx2"), ()


def measured(names: Sequence[str], path: Path, until: float) -> dict[str, str]:
    """Return what noise says holds each kernel back, as measured now or before; unsettled answers are not kept."""
    found = dict(pd.read_csv(path).to_numpy()) if path.exists() else {}
    for name in names:
        if name not in found and time.time() < until:
            kernel, arguments = kernel_of(name)
            try:
                word = pk.Noise(seconds=20).run(kernel, *arguments).bottleneck
            except pk.PerfkitError as error:
                word = f"refused: {type(error).__name__}"
            print(f"{name}: {word}", flush=True)
            if word != UNTOLD:
                found[name] = word
                pd.DataFrame(found.items(), columns=["kernel", "measured by noise"]).to_csv(path, index=False)
    return found


def row_of(name: str, core: pk.Microarchitecture) -> dict[str, Any]:
    """Ask the simulators: events per cycle, credits, and the extended roofline."""
    kernel, arguments = kernel_of(name)
    trace = kernel.trace(*arguments)
    exact, _ = SimulatedPmu(core.name, interval=10**9, unit="instructions", warm="all").run_counts(trace)
    credit = Variants(core, ORDERS, SEED).credit(pk.Gus(core, warm="all"), trace).credit
    cycles = exact["cycles"]
    return {
        "kernel": name,
        "workload": name if name in BUILT else trace.provenance.workload,
        "built": BUILT.get(name, ""),
        "roofline": roofline_of(trace, core),
        "core": core.name,
        "cycles": cycles,
        **{f"rate:{event}": count / cycles for event, count in exact.items() if event != "cycles"},
        **{f"credit:{of}": value for of, value in credit.items()},
    }


def roofline_of(trace: Trace, core: pk.Microarchitecture) -> str:
    """Return the extended roofline's bottleneck, as `perfkit dag` names it."""
    dag = predict_branches(trace_source(trace, whole=True, core=core), core).in_memory()
    return pk.relax(dag, pk.DagScheduler(core, record=False)).bottleneck


def answers(rows: pd.DataFrame) -> pd.DataFrame:
    """Return what was measured and what every method says, one row a kernel; answers are groups of resources.

    Training runs are those of data/bottlenecks without these kernels.
    """
    before = table()
    before = before[~before["workload"].isin(rows["workload"])].reset_index(drop=True)
    told: dict[str, Any] = {"kernel": rows["kernel"], "measured by noise": rows["noise"], "known": rows["built"]}
    credit = rows.reindex(columns=[f"credit:{of}" for of in OUTPUTS]).fillna(0.0).to_numpy(dtype=float)
    told["Gus"] = [OUTPUTS[k] for k in credit.argmax(axis=1)]
    told["extended roofline"] = rows["roofline"].fillna("")
    orders = {"Bottlenecks": said_first(*credits_and_votes(forest_of(before), x_of(rows)))}
    orders |= {name: method(before, rows) for name, method in METHODS.items()}
    for name, order in orders.items():
        told[name] = [OUTPUTS[k] for k in masked(rows, order).argmax(axis=1)]
    return pd.DataFrame(told)


def groups(of: Mapping[str, Collection[str]], word: str) -> set[str]:
    """Return the groups that a word stands for."""
    return {name for name, words in of.items() if word in words}


def scores(told: pd.DataFrame) -> pd.DataFrame:
    """Return of each method how many answers agree with what is known, and with what was measured."""
    measured = [groups(OF_NOISE, word) for word in told["measured by noise"]]
    known = [{word} - {""} for word in told["known"]]
    said = {method: [groups(OF_CLASS, word) or {group(word)} for word in told[method]] for method in told.columns[3:]}
    said["noise, measured"] = measured
    found = {}
    for method, of in said.items():
        right = [sum(bool(a & b) for a, b in zip(of, truth, strict=True)) for truth in (known, measured)]
        found[method] = dict(zip(("known", "of"), (right[0], sum(map(bool, known))), strict=True))
        found[method] |= {"measured": right[1], "of measured": sum(map(bool, measured))}
    return pd.DataFrame.from_dict(found, orient="index").rename_axis("method")


def here_and_now(core: str) -> str:
    """Return what is measured on, and when."""
    virtual = ", a virtual machine" if "hypervisor" in Path("/proc/cpuinfo").read_text() else ""
    return f"{core}{virtual}, {datetime.now(UTC):%Y-%m-%d}"


def manifest(files: Mapping[str, str], core: str, measured: str) -> None:
    """Describe the files of this core, measured on so and so."""
    tables = []
    for file, holds in files.items():
        lines = {
            "file": file, "sha256": hashlib.sha256((FOLDER / file).read_bytes()).hexdigest(), "format": "csv",
            "kind": "measured", "holds": holds, "units": "groups and classes of resources; numbers of kernels",
            "source": f"measured on {measured}, without counters; every method's answer is from simulated counters of "
            f"the model {core}, {datetime.now(UTC):%Y-%m-%d}",
            "licence": "MIT", "made_by": "data/make/second_truth.py",
        }  # fmt: skip
        name = f"second-truth/{file.removesuffix('.csv')}"
        tables.append("\n".join([f'["{name}"]', *(f'{key} = "{value}"' for key, value in lines.items())]) + "\n")
    head = "# Made by data/make/second_truth.py; do not edit by hand.\n\n"
    (FOLDER / "manifest.toml").write_text(head + "\n".join(tables), encoding="utf-8")


def main(seconds: float = float("inf"), *more: str) -> None:
    """Measure what is not there yet, then write the answers and the scores."""
    core = pk.Microarchitecture.load("host")
    FOLDER.mkdir(exist_ok=True)
    names = [*KERNELS, *list(corpus().index)[::EVERY], *more]
    noise = measured(names, FOLDER / f"{core.name}-noise.csv", time.time() + seconds)
    if len(noise) < len(names):
        print(f"{len(noise)} of {len(names)} kernels could be told; call again for the others")
    ask({name: noise[name] for name in names if name in noise}, core, here_and_now(core.name))


def again(name: str) -> None:
    """Ask today's models and methods of what was measured on a core, and write the answers and the scores."""
    noise = dict(pd.read_csv(FOLDER / f"{name}-noise.csv").to_numpy())
    source = tomllib.loads((FOLDER / "manifest.toml").read_text())[f"second-truth/{name}-noise"]["source"]
    measured = source.removeprefix("measured on ").partition(", without counters")[0]
    ask(noise, pk.Microarchitecture.load(name), measured)


def ask(noise: Mapping[str, str], core: pk.Microarchitecture, measured: str) -> None:
    """Write what every method says of these kernels, beside what noise says, and how many are right."""
    rows = pd.DataFrame([row_of(name, core) for name in noise])
    told = answers(rows.assign(noise=rows["kernel"].map(noise)))
    told.to_csv(FOLDER / f"{core.name}.csv", index=False)
    found = scores(told)
    found.to_csv(FOLDER / f"{core.name}-scores.csv")
    print(found.to_string())
    files = {
        f"{core.name}-noise.csv": "the bottleneck of kernels, as measured by adding noise",
        f"{core.name}.csv": "the same, as built, and as methods say",
        f"{core.name}-scores.csv": "how many first answers are right",
    }
    manifest(files, core.name, measured)


if __name__ == "__main__":
    warnings.simplefilter("ignore", pk.errors.PerfkitWarning)
    if sys.argv[1:] and (FOLDER / f"{sys.argv[1]}-noise.csv").exists():
        again(sys.argv[1])
    else:
        main(*(float(word) if k == 0 else word for k, word in enumerate(sys.argv[1:])))  # type: ignore[arg-type]
