"""A fleet of generated samples: how fast it is read and fitted, in how much memory, and whether that grows evenly.

    python -m tests.benchmarks.fleet --samples 50000000 [--machines 1000] [--folder DIR] [--clusters] [--merge N]

Speeds are samples per second of processor time (all threads together), which a shared machine disturbs less than wall
time. Memory is the most that was resident in a pass, mapped files included. The folder is deleted afterwards, unless it
was given.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import perfkit as pk
from perfkit.base.in_order import in_order
from perfkit.fitters.spire.summary import merge_events, summarise
from perfkit.samples.parts import write_columns

open_samples = partial(pk.open_samples, memory=None)  # a folder is a fleet, a file is not

Pass = Callable[[pk.Fleet], Any]
EVENTS = {
    "branch-misses": (15.0, 4e-3), "l1-misses": (8.0, 2e-2), "l2-misses": (14.0, 6e-3), "llc-misses": (90.0, 8e-4),
    "dtlb-walks": (25.0, 5e-4), "itlb-walks": (25.0, 5e-5), "uops-cache-misses": (3.0, 1e-2),
    "store-stalls": (1.0, 2e-2), "divider-busy": (1.0, 5e-3), "locks": (18.0, 1e-4),
}  # fmt: skip


def generate(folder: Path, samples: int, machines: int, parts: int) -> int:
    """Write parts of generated intervals; return how many samples there are."""
    rows = max(samples // len(EVENTS) // parts, 16)
    for i in range(parts):
        rng = np.random.default_rng(i)
        work = np.round(rng.uniform(0.5e9, 2e9, rows))
        cost, columns = 0.25 * rng.uniform(0.9, 1.1), {}
        for event, (penalty, rate) in EVENTS.items():
            columns[f"count {event}"] = np.round(work * rate * rng.gamma(2.0, 0.5, rows))
            cost = cost + penalty * columns[f"count {event}"] / work
        name = f"m{i % machines}-{i // machines}"
        run = {"run": name, "workload": "generated", "host": f"m{i % machines}", "command": "", "parameters": "{}",
               "source": "tests.benchmarks.fleet", "kind": "generated"}  # fmt: skip
        head = {"events": list(EVENTS), "missing": [0] * len(EVENTS), "own": [], "time_event": "cycles",
                "work_event": "instructions", "runs": [run]}  # fmt: skip
        base = {"interval": np.arange(rows), "at": np.arange(rows) + 1.0, "time": np.round(work * cost), "work": work}
        write_columns(folder / f"{name}.parquet", {**base, **columns}, head)
    return rows * len(EVENTS) * parts


def passes(fleet: pk.Fleet, groups: list[str]) -> dict[str, Pass]:
    """What is measured, by name."""
    model = pk.Spire().fit(fleet.where(machine=fleet.machines[:1]))
    found: dict[str, Pass] = {
        "SPIRE, one model": lambda f: pk.Spire().fit(f),
        "CPI, one stack": lambda f: pk.CpiStack(resamples=0).fit(f),
    }
    for label in groups:
        found[f"CPI, a stack {label}"] = lambda f, label=label: pk.CpiStack(resamples=0).fit_each(f, label)
    for label in groups:
        found[f"SPIRE, a ranking {label}"] = lambda f, label=label: model.rank_each(f, label, bootstrap=0)
    return found


def resident(what: str = "VmHWM") -> float:
    """Return the most memory held since `forget_memory`, in GB; with VmRSS, that held now."""
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith(what)).split()[1]) / 1e6


def forget_memory() -> None:
    """Let the kernel begin anew with the most memory that this process held."""
    Path("/proc/self/clear_refs").write_text("5")


def measured(name: str, call: Pass, fleet: pk.Fleet) -> None:
    """Print a pass's speed and memory."""
    forget_memory()
    wall, processor = time.perf_counter(), time.process_time()
    call(fleet)
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    n = len(fleet)
    print(
        f"{name:34} {n / processor / 1e6:6.1f} M samples/s of processor time, {wall:7.1f} s, {resident():.2f} GB",
        flush=True,
    )


def on_workers(folder: Path, n: int) -> None:
    """Print what a pass costs on worker processes of dask: processor time and memory of each, and bytes merged."""
    from distributed import Client, LocalCluster

    made = LocalCluster(n_workers=n, threads_per_worker=1, dashboard_address=None, host="127.0.0.1")
    with made, Client(made) as client:
        tasks, start = 2000, time.perf_counter()
        for _ in in_order(abs, range(tasks), cluster=client.scheduler.address):
            pass
        each = 1e3 * (time.perf_counter() - start) / tasks
        print(f"dask, workers {n}: {each:.2f} ms for a task that does nothing", flush=True)
        fleet = open_samples(folder, cluster=client.scheduler.address)
        small = fleet.where(machine=fleet.machines[:2])
        for name, call in {
            "SPIRE, one model": lambda f: pk.Spire().fit(f),
            "CPI, one stack": lambda f: pk.CpiStack(resamples=0).fit(f),
        }.items():
            for _ in range(n):
                call(small)  # compile, or load what is compiled
            client.run(forget_memory)
            before, mine = client.run(time.process_time), time.process_time()
            wall = time.perf_counter()
            call(fleet)
            wall = time.perf_counter() - wall
            after = client.run(time.process_time)
            each = [after[w] - before[w] for w in after]
            print(
                f"{name}, dask, workers {n}: {len(fleet) / sum(each) / 1e6:.1f} M samples/s of processor time, "
                f"{wall:.1f} s, {max(client.run(resident).values()):.2f} GB a worker; the client took "
                f"{time.process_time() - mine:.1f} s",
                flush=True,
            )


def merging(partitions: int) -> None:
    """Print how long the merge of so many partitions' summaries takes."""
    rng = np.random.default_rng(0)
    parts = []
    for _ in range(partitions):
        found = {}
        for event in EVENTS:
            at, height = rng.gamma(2.0, 100.0, 300), rng.uniform(0, 4, 300)
            found[event] = summarise(at, height, [300, 0, 0, 0])
        parts.append(found)
    start, merged = time.process_time(), parts[0]
    for part in parts[1:]:
        merged = merge_events(merged, part)
    print(f"merge of {partitions:,} partitions: {time.process_time() - start:.2f} s of processor time", flush=True)


def killed(folder: Path, expected: pk.SpireModel) -> None:
    """Print whether a fit whose worker is killed in the middle gives the same model, to the last bit."""
    from distributed import Client, LocalCluster

    made = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, host="127.0.0.1")
    with made, Client(made) as client:
        pids, tasks = client.run(os.getpid), []

        def kill_one(done: int, of: int) -> None:
            tasks.append(done)
            if done == max(of // 3, 1):
                os.kill(next(iter(pids.values())), signal.SIGKILL)

        fleet = open_samples(folder, cluster=client.scheduler.address, progress=kill_one)
        tasks.clear()
        found = pk.Spire().fit(fleet)
        now = client.run(os.getpid)
    same = found.to_frame().equals(expected.to_frame()) and found.training.equals(expected.training)
    gone = len(set(pids.values()) - set(now.values()))
    print(
        f"{gone} worker killed after a third of {len(tasks)} tasks: {'the same' if same else 'ANOTHER'} model",
        flush=True,
    )
    if not same or gone != 1:
        raise SystemExit("expected one worker to die and the model to stay the same")


def sizes(fleet: pk.Fleet) -> None:
    """Print how many tasks a pass has, and the bytes that go to a worker and come back from it for each."""
    from distributed.protocol import dumps

    from perfkit.fitters.cpi.moments import moments_of_pieces
    from perfkit.fitters.spire.summary import summarise_pieces
    from perfkit.samples.fleet import _chunks

    chunks = list(_chunks(fleet.pieces()[1]))
    results = {
        "SPIRE": summarise_pieces(chunks[0], 0.0),
        "CPI": moments_of_pieces(chunks[0], tuple(fleet.events), 5),
    }
    told = [f"{name} {sum(map(len, dumps(found))) / 1e3:.1f} kB" for name, found in results.items()]
    sent = sum(map(len, dumps(chunks[0]))) / 1e3
    print(f"{len(chunks)} tasks; each is sent {sent:.1f} kB and returns: {', '.join(told)}", flush=True)


def main() -> None:
    """Generate, measure, delete."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=50_000_000)
    parser.add_argument("--machines", type=int, default=1000)
    parser.add_argument("--parts", type=int, default=1000)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--clusters", action="store_true", help="also on dask workers, one and two")
    parser.add_argument("--merge", type=int, default=10_000, help="partitions to merge (0: none)")
    parser.add_argument("--only-make", action="store_true", help="only write the samples into the folder")
    asked = parser.parse_args()
    if asked.only_make:
        generate(asked.folder, asked.samples, asked.machines, asked.parts)
        return
    folder = asked.folder or Path(tempfile.mkdtemp(prefix="perfkit-fleet-", dir=tempfile.gettempdir()))
    folder.mkdir(exist_ok=True)
    try:
        if not any(folder.iterdir()):
            # In a process of its own, so that its memory is not counted here.
            again = ["--samples", str(asked.samples), "--machines", str(asked.machines), "--parts", str(asked.parts)]
            command = [sys.executable, "-m", "tests.benchmarks.fleet", *again, "--folder", str(folder), "--only-make"]
            subprocess.run(command, check=True)
        size = sum(p.stat().st_size for p in folder.iterdir())
        start = time.perf_counter()
        fleet = open_samples(folder)
        print(f"{fleet}\n{size / 1e9:.2f} GB, opened in {time.perf_counter() - start:.1f} s", flush=True)
        numbers = [n for n in (10, 100, 1000) if n < len(fleet.runs)]
        runs = fleet.runs["run"].tolist()
        groups = {f"for each of {n}": [str(i % n) for i in range(len(runs))] for n in numbers}
        fleet = open_samples(folder, labels=pd.DataFrame({"run": runs, **groups}))
        sizes(fleet)
        small = fleet.where(machine=fleet.machines[:2])
        for name, call in passes(fleet, [*groups, "machine"]).items():
            call(small)  # compile
            measured(name, call, fleet)
        if asked.clusters:
            for n in (1, 2):
                on_workers(folder, n)
            killed(folder, pk.Spire().fit(fleet))
        if asked.merge:
            merging(asked.merge)
    finally:
        if asked.folder is None:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
