"""Tasks on threads or on a cluster, whose results come in the order of the tasks.

What is merged in one order is the same number to the last bit, however many workers there are and whichever of them
is done first. Each task's result is handed out once: a task whose worker died is done again as a whole.
"""

import os
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from perfkit.base.cluster import connected
from perfkit.errors import SettingError, UnavailableError

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")
Progress = Callable[[int, int], None]
_AHEAD = 4  # tasks under way or waiting to be merged, for each worker: what bounds the memory
_MOST_DEATHS = 3  # workers that one task may cost before it is given up


def in_order(
    function: Callable[[_Task], _Result],
    tasks: Sequence[_Task],
    *,
    cluster: str = "",
    workers: int = 0,
    progress: Progress | None = None,
    lost: Callable[[_Task, str], _Result] | None = None,
) -> Iterator[_Result]:
    """Yield ``function(task)`` of every task, in their order.

    Parameters
    ----------
    function, tasks
        A function of a module (a cluster's workers import it), and what it is called with.
    cluster : str
        "" for threads of this process; else what `perfkit.base.cluster.connected` takes.
    workers : int
        Threads; 0 for one per processor. A cluster has the workers that it has.
    progress : callable, optional
        Called with the number of tasks done and of all.
    lost : callable, optional
        Given a task that three workers died of and words that say so, returns what stands for its result. Without it
        such a task is an error: a sum would be short of it.

    Raises
    ------
    UnavailableError
        Three workers died of one task and there is no `lost`, or there is no such cluster.
    """
    if workers < 0:
        raise SettingError(f"workers is a number of threads, or 0 for one per processor; found {workers}")
    source = _on_cluster(function, tasks, cluster, lost) if cluster else _on_threads(function, tasks, workers)
    try:
        for done, result in enumerate(source, 1):
            if progress is not None:
                progress(done, len(tasks))
            yield result
    finally:
        source.close()


def _on_threads(
    function: Callable[[_Task], _Result], tasks: Sequence[_Task], workers: int
) -> Generator[_Result, None, None]:
    n = min(workers or len(os.sched_getaffinity(0)), max(len(tasks), 1))
    if n == 1:
        yield from map(function, tasks)
        return
    pool = ThreadPoolExecutor(n, thread_name_prefix="perfkit")
    waiting: deque[Any] = deque()
    try:
        for task in tasks:
            waiting.append(pool.submit(function, task))
            if len(waiting) == _AHEAD * n:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _on_cluster(
    function: Callable[[_Task], _Result],
    tasks: Sequence[_Task],
    where: str,
    lost: Callable[[_Task, str], _Result] | None,
) -> Generator[_Result, None, None]:
    from distributed import wait as settled

    with connected(where) as client:
        client.wait_for_workers(1, timeout=600)
        deaths: Counter[int] = Counter()
        futures: dict[int, Any] = {}

        def submit(i: int) -> None:
            # Earlier tasks first: results are merged in order, and what waits takes memory.
            futures[i] = client.submit(function, tasks[i], pure=False, priority=-i, retries=0)

        submitted = 0
        for at in range(len(tasks)):
            window = at + _AHEAD * max(len(client.nthreads()), 1)
            while submitted < min(window, len(tasks)):
                submit(submitted)
                submitted += 1
            while not _finished(futures[at]) and deaths[at] < _MOST_DEATHS - 1:
                # A task that only waited in a worker that died is suspected with the one that killed it: from now on
                # this one runs alone, so the next death is its own.
                deaths[at] += 1
                settled([f for i, f in futures.items() if i != at])
                submit(at)
            future = futures.pop(at)
            if future.status == "finished":
                yield future.result()
                continue
            told = f"{_MOST_DEATHS} workers died of it (killed, or out of memory: the workers' logs may say)"
            if lost is None:
                raise UnavailableError(
                    f"task {at + 1} of {len(tasks)}: {told}; less memory is needed with smaller files"
                )
            yield lost(tasks[at], told)


def _finished(future: Any) -> bool:
    """Wait for a task; False where its worker died, and its own error where it failed by itself."""
    from distributed import wait as settled

    settled(future)
    if future.status == "finished":
        return True
    fault = future.exception() if future.status == "error" else None
    if fault is None or type(fault).__name__ in {"KilledWorker", "CancelledError", "FutureCancelledError"}:
        return False
    raise fault
