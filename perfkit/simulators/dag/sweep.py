"""Scheduling a DAG for several values of one parameter: with progress, and resumed without loss."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfkit.base.files import WRITER, replaced
from perfkit.dag.graph import Dag
from perfkit.dag.program import NodeSource
from perfkit.errors import FormatError, SettingError, of_extra
from perfkit.simulators.dag.core import DagCore, parameter_names
from perfkit.simulators.dag.schedule import DagScheduler

if TYPE_CHECKING:
    import pandas as pd

    from perfkit.machine.core import Microarchitecture

Progress = Callable[[int, int], None]


def sweep(
    dag: NodeSource,
    core: DagCore | Microarchitecture,
    parameter: str,
    values: Sequence[float],
    threads: int = 1,
    *,
    folder: str | Path | None = None,
    progress: Progress | None = None,
    **switches: Any,
) -> pd.DataFrame:
    """Schedule a DAG on a core with one parameter set to each of several values.

    Parameters
    ----------
    dag
        A `Dag`, or a kernel that is traced as it runs.
    core
        A `DagCore` or a `perfkit.Microarchitecture`.
    parameter
        A parameter of `DagCore` ("rs", "latency_A", "throughput_mem", ...), or a switch of `DagScheduler`
        ("x86_order", "load_ports", ...).
    threads
        How many schedules run at once (of a `Dag` in memory; a kernel that is traced as it runs goes one by one).
    folder
        Keep each finished value in a file of this folder, named by a digest of the DAG, the core, the switches and
        perfkit's version, and take what is there from it. A sweep that was stopped resumes where it stopped; several
        processes (joblib) may share a folder.
    progress
        Called as ``progress(done, total)``, at first with what the folder had. Calls do not overlap.
    **switches
        Further settings of `DagScheduler`.

    Returns
    -------
    DataFrame with a row per value, in their order: the parameter, cycles, performance (flops/cycle), a column
    ``stall_<buffer>`` with the cycles of each buffer, and ``verdict``, the roofs that hit the point.

    Raises
    ------
    SettingError
        If the parameter is unknown, or a value is impossible: before anything is scheduled.
    FormatError
        If a file of the folder is not one of a sweep.

    Examples
    --------
    >>> chain = Dag.from_nodes("AA", [[], [0]])
    >>> sweep(chain, DagCore.sandy_bridge_erm(), "latency_A", [1, 3])["cycles"].tolist()
    [2, 6]
    """
    pd = of_extra("pandas")

    base = DagScheduler(core, **{"record": False, **switches})  # type: ignore[arg-type]  # it takes either
    names = set(parameter_names()) | set(base.settings())
    if parameter not in names:
        raise SettingError(f"unknown parameter {parameter!r}; known: {', '.join(sorted(names))}")
    if threads < 1:
        raise SettingError(f"threads is at least 1, not {threads}")
    schedulers = [_changed(base, parameter, value) for value in values]
    files = _files(dag, schedulers, folder)
    rows = {k: _read(file) for k, file in enumerate(files) if file is not None and file.exists()}
    left = [k for k in range(len(schedulers)) if k not in rows]

    def tell() -> None:
        if progress is not None:
            progress(len(rows), len(schedulers))

    def run(k: int) -> tuple[int, dict[str, Any]]:
        row = _row(schedulers[k], dag)
        if (file := files[k]) is not None:
            _write(file, row)
        return k, row

    tell()
    if threads > 1 and isinstance(dag, Dag):
        with ThreadPoolExecutor(threads) as pool:
            try:
                for done in as_completed([pool.submit(run, k) for k in left]):
                    rows.update([done.result()])
                    tell()
            except BaseException:  # Ctrl-C too: those that run are finished and kept, no other begins
                pool.shutdown(cancel_futures=True)
                raise
    else:
        for k in left:
            rows.update([run(k)])
            tell()
    table = pd.DataFrame([{parameter: value, **rows[k]} for k, value in enumerate(values)])
    table.attrs["kind"] = "simulated"
    return table


def _changed(base: DagScheduler, parameter: str, value: Any) -> DagScheduler:
    if parameter in base.settings():
        return replace(base, **{parameter: value})
    return replace(base, core=base.core.replace(**{parameter: value}))


def _row(scheduler: DagScheduler, dag: NodeSource) -> dict[str, Any]:
    schedule = scheduler.run(dag)
    verdict = ", ".join(roof.label for roof in schedule.roofline().hits) if schedule.work else ""
    stalls = {f"stall_{name}": cycles for name, cycles in schedule.stalls.items()}
    return {"cycles": schedule.cycles, "performance": schedule.performance, **stalls, "verdict": verdict}


def _files(dag: NodeSource, schedulers: Sequence[DagScheduler], folder: str | Path | None) -> list[Path | None]:
    """Return the file of each configuration, None without a folder."""
    if folder is None:
        return [None] * len(schedulers)
    content = getattr(dag, "digest", None)
    if content is None:
        raise SettingError(
            f"folder=... names its files by the DAG's content, and a {type(dag).__name__} has no digest(); take a Dag "
            "or a traced kernel, or leave folder out"
        )
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    source = content()
    return [place / f"{_digest(source, scheduler)}.json" for scheduler in schedulers]


def _digest(source: str, scheduler: DagScheduler) -> str:
    core = {f.name: getattr(scheduler.core, f.name) for f in fields(DagCore) if f.name not in ("name", "sources")}
    # 54 and 54.0 are one configuration.
    numbers = {name: None if value is None else float(value) for name, value in core.items()}
    about = {"perfkit": WRITER, "dag": source, "core": numbers, "switches": scheduler.settings()}
    return hashlib.sha256(json.dumps(about, sort_keys=True, default=float).encode()).hexdigest()


def _read(file: Path) -> dict[str, Any]:
    try:
        row = json.loads(file.read_text(encoding="utf-8"))
        if isinstance(row, dict) and {"cycles", "performance", "verdict"} <= set(row):
            return row
    except ValueError as error:
        raise FormatError(f"{file} is not a result of a sweep: {error}; delete it to have it computed anew") from error
    raise FormatError(f"{file} is not a result of a sweep: cycles, performance, verdict expected; delete it")


def _write(file: Path, row: dict[str, Any]) -> None:
    """Write a file whole or not at all."""
    with replaced(file) as temporary:
        temporary.write_text(json.dumps(row), encoding="utf-8")
