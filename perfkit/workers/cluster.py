"""A cluster of dask: one that runs, worker processes on this machine, or jobs of SLURM."""

from collections.abc import Iterator
from contextlib import contextmanager
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
        with client:
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
        try:
            from dask_jobqueue import SLURMCluster
        except ImportError:
            raise UnavailableError("SLURM needs the package dask-jobqueue: pip install dask-jobqueue") from None
        made = SLURMCluster(n_workers=int(rest or 1))
    with made, Client(made) as client:
        yield client
