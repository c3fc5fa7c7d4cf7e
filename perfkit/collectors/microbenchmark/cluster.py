"""A study on several machines: batches of configurations on dask's workers, and rows that are stored as they arrive.

Every worker compiles and measures its batch with the policy of a single machine. A row comes back by an event of the
scheduler as soon as it is done, so a worker that is killed loses nothing that it finished; what it had not finished is
handed to another one.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from queue import Empty, SimpleQueue
from typing import Any

from perfkit.base.cluster import connected, jobs_gone
from perfkit.collectors.microbenchmark.passes import Task
from perfkit.errors import UnavailableError
from perfkit.study.study import Study

_TOPIC = "perfkit-study-rows"
_PATIENCE = 5.0  # seconds without a row and without a worker before SLURM is asked for the jobs
_MOST_DEATHS = 3  # workers that a batch may cost before it is given up


def collect_on(
    where: str,
    study: Study,
    todo: Sequence[Task],
    size: int,
    seed: int,
    say: Callable[[int, str], None],
    note: Callable[[dict[str, Any]], None],
) -> Iterator[dict[str, Any]]:
    """Measure configurations on a cluster and yield each row as it arrives, once.

    Parameters
    ----------
    where : str
        As `connected` takes it.
    study : Study
        With its facts of the host left open: each worker fills in its own.
    todo : sequence of (Configuration, str)
        What to measure, with its key.
    size : int
        Configurations in a batch.
    seed : int
        Of the passes' orders.
    say : callable
        Called with the rows that have arrived and what the nodes have done.
    note : callable
        Called with every row that arrives, those that are there already, too: it takes out of it the states of what
        this row, and others of its batch that follow, were made of.
    """
    rows: SimpleQueue[dict[str, Any]] = SimpleQueue()
    left, nodes, deaths = {key: one for one, key in todo}, Counter[str](), Counter[str]()
    with connected(where) as client:
        say(0, f"waiting for the workers of {where}")
        client.subscribe_topic(_TOPIC, lambda event: rows.put(event[1]))
        plain = study.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        run, tasks = str(time.time_ns()), {}

        def submit(part: Sequence[Task]) -> None:
            future = client.submit(measure_batch, plain, list(part), seed, run, pure=False, retries=0)
            tasks[future] = list(part)

        for at in range(0, len(todo), size):
            submit(todo[at : at + size])
        heard = time.monotonic()
        while tasks or not rows.empty():
            try:
                row = rows.get(timeout=0.05)
            except Empty:
                row = None
            if row is not None:
                heard = time.monotonic()
                if row.get("run") != run:
                    continue
                note(row["record"])
                if left.pop(row["record"]["key"], None) is not None:
                    nodes[row["record"].get("host", "?")] += 1
                    say(sum(nodes.values()), "measuring: " + ", ".join(f"{n} {k}" for n, k in sorted(nodes.items())))
                    yield row["record"]
                continue
            for future in [one for one in tasks if one.done()]:
                part = tasks.pop(future)
                if future.status == "finished":
                    for record in future.result():
                        rows.put({"run": run, "record": record})
                    continue
                fault = future.exception()
                if type(fault).__name__ not in {"KilledWorker", "CancelledError"}:
                    raise fault
                missing = [(one, key) for one, key in part if key in left]
                deaths.update(key for _, key in missing)
                over = [(one, key) for one, key in missing if deaths[key] >= _MOST_DEATHS]
                if over:
                    raise UnavailableError(
                        f"{_MOST_DEATHS} workers died while they measured {len(over)} configurations, the first with "
                        f"{over[0][0].values}: look at the workers' logs; the rows that arrived are kept"
                    )
                if missing:
                    submit(missing)
            if time.monotonic() - heard > _PATIENCE:
                heard = time.monotonic()
                if not client.nthreads():
                    say(sum(nodes.values()), f"waiting for the workers of {where}")
                    reason = jobs_gone(client)
                    if reason:
                        raise UnavailableError(
                            f"{reason}; the {sum(nodes.values())} rows that arrived are kept, and the same command "
                            "resumes"
                        )


def measure_batch(settings: dict[str, Any], part: Sequence[Task], seed: int, run: str) -> list[dict[str, Any]]:
    """Compile and measure a batch on the worker that this runs on; every row is sent as soon as it is done."""
    import tempfile
    from pathlib import Path

    from distributed import get_worker

    from perfkit.collectors.microbenchmark import compile as compiling
    from perfkit.collectors.microbenchmark.inputs import Inputs
    from perfkit.collectors.microbenchmark.lock import measuring_lock
    from perfkit.collectors.microbenchmark.passes import measure_all

    study, worker = Study(**settings), get_worker()
    with tempfile.TemporaryDirectory(prefix="perfkit-study-") as place:
        objects = Path(place) / "objects"
        harness = compiling.build_harness(objects)
        built: dict[str, compiling.Built] = {}
        for one in compiling.batches_of(study, part, len(part)):
            built |= {result.key: result for result in compiling.compile_batch(one, objects)}
        done, inputs = [], Inputs(study, part)
        with measuring_lock():
            told: dict[str, dict[str, str]] = {"files": {}, "own": {}}
            for record in measure_all(study, part, built, harness, objects, seed):
                made, given = built[record["key"]], inputs.read_by(record["key"]) if record["status"] == "ok" else {}
                for kind, files in (("files", made.files | given), ("own", made.own)):
                    record[kind] = {path: state for path, state in files.items() if told[kind].get(path) != state}
                    told[kind] |= files
                worker.log_event(_TOPIC, {"run": run, "record": record})
                done.append(record)
    return done
