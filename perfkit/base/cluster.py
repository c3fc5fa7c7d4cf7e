"""A cluster of dask: one that runs, worker processes on this machine, or jobs of SLURM."""

import getpass
import logging
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from perfkit.errors import SettingError, UnavailableError


@contextmanager
def connected(where: str) -> Iterator[Any]:
    """Yield a client of a cluster; what was started for it is ended.

    Parameters
    ----------
    where : str
        ``tcp://HOST:PORT`` of a scheduler that runs; ``local:N``: N worker processes on this machine; ``slurm``, or
        ``slurm:N`` for N jobs, whose settings dask-jobqueue reads from its configuration.

    Raises
    ------
    UnavailableError
        If a package is missing, or the scheduler does not answer.
    SettingError
        If `where` is none of these.
    """
    kind, _, rest = where.partition(":")
    try:
        from dask import config
        from distributed import Client, LocalCluster
    except ImportError:
        raise UnavailableError(
            "a cluster needs the packages dask and distributed: pip install 'perfkit[cluster]'"
        ) from None
    if kind in {"tcp", "tls", "ucx"}:
        try:
            client = Client(where, timeout=10)
        except (OSError, TimeoutError) as error:
            raise UnavailableError(
                f"no scheduler answers at {where}: {error}; start one with `dask scheduler`"
            ) from None
        with _hushed(), client:
            yield client
        return
    if (
        kind not in {"local", "slurm"}
        or (rest and not (rest.isdigit() and int(rest) > 0))
        or (kind, rest) == ("local", "")
    ):
        raise SettingError(f"a cluster is tcp://HOST:PORT, slurm, slurm:JOBS or local:WORKERS, not {where!r}")
    # A batch whose worker dies comes back at once: only what is missing of it is tried again.
    config.set({"distributed.scheduler.allowed-failures": 0})
    if kind == "local":
        made: Any = LocalCluster(n_workers=int(rest), threads_per_worker=1, dashboard_address=None, host="127.0.0.1")
    else:
        made = _slurm(int(rest or 1))
    with _hushed():
        try:
            with Client(made) as client:
                yield client
        finally:
            with suppress(AssertionError, RuntimeError, OSError):  # jobs that could not even be submitted
                made.close()


def _slurm(jobs: int) -> Any:
    """Return a cluster of so many jobs; `faults` of it lists why some could not be submitted."""
    main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGINT)
    try:
        from dask_jobqueue.slurm import SLURMCluster, SLURMJob
    except ImportError:
        raise UnavailableError("SLURM needs the package dask-jobqueue: pip install dask-jobqueue") from None
    if main and signal.getsignal(signal.SIGINT) is not before:
        signal.signal(signal.SIGINT, before)  # the import makes Ctrl-C a silent exit with status 0
    faults: list[str] = []

    class Job(SLURMJob):
        async def _submit_job(self, script: str) -> Any:
            try:
                return await super()._submit_job(script)
            except (RuntimeError, OSError) as error:
                faults.append(str(error).rpartition("stderr:")[2].strip().replace("\n", "; "))
                raise

    class Cluster(SLURMCluster):
        job_cls = Job

    try:
        with _hushed():
            made: Any = Cluster(n_workers=jobs)
    except (ValueError, TypeError) as error:
        raise SettingError(f"the settings of jobqueue.slurm in ~/.config/dask/jobqueue.yaml: {error}") from None
    made.faults = faults
    return made


def jobs_gone(client: Any) -> str:
    """Say why no job of a client's SLURM cluster can work any more; "" while one runs or waits, or nobody can tell."""
    cluster = client.cluster
    if not hasattr(cluster, "faults"):
        return ""
    mine = {job.job_id for job in cluster.workers.values() if getattr(job, "job_id", None)}
    if not mine and not cluster.faults:
        return ""  # they are being submitted
    words = ["squeue", "--noheader", "--format=%A", f"--user={getpass.getuser()}"]
    try:
        told = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        return f"SLURM cannot be asked: {error}" if isinstance(error, FileNotFoundError) else ""
    if told.returncode or mine & set(told.stdout.split()):
        return ""
    if cluster.faults and not mine:
        return f"SLURM took no job: {cluster.faults[0]}"
    return (
        f"all jobs of SLURM have ended ({', '.join(sorted(mine))}: cancelled, out of time, or unable to start; their "
        "logs slurm-*.out say which)"
    )


@contextmanager
def _hushed() -> Iterator[None]:
    """Keep dask's own log of what is told here anyway (killed workers, jobs) out of the terminal."""
    loggers = [logging.getLogger(name) for name in ("distributed", "tornado.application", "asyncio")]
    before = [one.level for one in loggers]
    for one in loggers:
        one.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for one, level in zip(loggers, before, strict=True):
            one.setLevel(level)
