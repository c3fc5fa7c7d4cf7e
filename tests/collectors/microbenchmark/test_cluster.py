"""A study on a cluster: rows arrive one by one, a killed worker loses none, and each names its host."""

import json
import os
import signal
import sys
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from perfkit.base import cluster as clusters
from perfkit.collectors.microbenchmark import Microbenchmark
from perfkit.collectors.microbenchmark import cluster as collecting
from perfkit.collectors.microbenchmark.collector import _note
from perfkit.collectors.microbenchmark.store import Store
from perfkit.errors import SettingError, UnavailableError
from perfkit.study.runs import StudyRuns, read_records
from perfkit.study.study import Study

pytestmark = [pytest.mark.measures, pytest.mark.words, pytest.mark.filterwarnings("default")]
QUICK = {"repetitions": 3, "attempts": 1, "windows": 3}
KERNEL = """#include <unistd.h>
PK_REGION { long sum = 0; for (long i = 0; i < N; i++) { sum += i; PK_KEEP(sum); }
    PK_REPORT("measured_by", getppid()); }"""


@pytest.fixture(autouse=True)
def _has_dask():
    pytest.importorskip("distributed", reason="the optional cluster packages are not installed")


def test_a_killed_worker_loses_no_finished_row(tmp_path):
    """The worker that measured the first rows is killed: these stay as they were, the rest is measured elsewhere."""
    study = Study(KERNEL, {"N": list(range(1, 41))}, policy=QUICK, steps=50_000)
    results, kept, killed = tmp_path / "results.jsonl", {}, []

    def kill(done, total, what):
        if done >= 3 and not killed:
            rows = list(read_records(tmp_path))
            kept.update({row["key"]: row for row in rows})
            killed.append(int(rows[-1]["reports"]["measured_by"]))
            # Of the measuring process the worker is the parent.
            os.kill(int(Path(f"/proc/{killed[0]}/stat").read_text().rpartition(")")[2].split()[1]), signal.SIGKILL)

    runs = Microbenchmark(folder=tmp_path, cluster="local:2", batch=20, progress=kill).collect(study)
    assert killed
    assert results.read_bytes().count(b"\n") == 40
    stored = {row["key"]: row for row in read_records(tmp_path)}
    assert {key: stored[key] for key in kept} == kept
    assert sorted(runs.table["N"]) == list(range(1, 41))
    assert (runs.table["status"] == "ok").all()
    assert (runs.table["host"] == os.uname().nodename).all()
    assert runs.table["processor"].nunique() == 1
    assert set(runs.table["measured_by"]) - set(killed)


def test_rows_of_two_states_of_a_header_do_not_mix(tmp_path):
    """Workers compile: what they read is noted as it is here, also for whoever goes on elsewhere."""
    header, out = tmp_path / "v.h", tmp_path / "out"
    settings = {"folder": str(tmp_path), "policy": QUICK, "steps": 100}
    kernel = '#include "v.h"\nPK_REGION { for (long i = 0; i < N * V; i++) __asm__ volatile(""); }'
    few, more = (Study(kernel, {"N": values}, **settings) for values in ([1, 2], [1, 2, 3]))
    header.write_text("#define V 100\n")
    collector = Microbenchmark(folder=out, cluster="local:2", batch=1)
    assert (collector.collect(few).table["status"] == "ok").all()
    header.write_text("#define V 300\n")
    for other in (collector, Microbenchmark(folder=out), Microbenchmark(folder=out, spread=True)):
        with pytest.raises(SettingError, match=r"v\.h has changed"):
            other.collect(more)
    header.write_text("#define V 100\n")
    assert len(collector.collect(more).table) == 3


def test_a_row_of_another_state_is_refused_when_it_arrives(tmp_path):
    """The header changes on the way: of a worker, or while batches are measured."""
    metadata = {"files": {"/a/v.h": "one"}, "own": {}}
    with Store(tmp_path, "f") as store:
        row = {"key": "a", "files": {"/a/v.h": "one", "/a/w.h": "w"}, "own": {"/usr/s.h": "s"}}
        _note(store, metadata, row)
        assert row == {"key": "a"}
        assert metadata == {"files": {"/a/v.h": "one", "/a/w.h": "w"}, "own": {"/usr/s.h": "s"}}
        assert json.loads((tmp_path / "metadata.json").read_text()) == metadata
        with pytest.raises(SettingError, match=r"/a/v\.h that node7 read is not that of the rows of"):
            _note(store, metadata, {"key": "b", "host": "node7", "files": {"/a/v.h": "two"}})
        with pytest.raises(SettingError, match=r"/usr/s\.h that node7 read is not that of the rows of"):
            _note(store, metadata, {"key": "b", "host": "node7", "own": {"/usr/s.h": "two"}})


def test_states_of_rows_that_were_there_already_are_noted(monkeypatch):
    """A part that is measured again begins with a row that had arrived: it alone names the files of those behind."""
    listener = []

    class Future:
        status = "finished"

        def done(self):
            return True

        def result(self):
            return []

    class Client:
        def subscribe_topic(self, _, handler):
            listener.append(handler)

        def submit(self, _, settings, part, seed, run, **more):
            rows = [("a", {"/h": "1"}), ("a", {"/h": "1", "/late": "2"}), ("b", {})]
            for key, files in rows:
                listener[0]((0, {"run": run, "record": {"key": key, "files": files}}))
            listener[0]((0, {"run": "another", "record": {"key": "b", "files": {"/other": "3"}}}))
            return Future()

    @contextmanager
    def connected(where):
        yield Client()

    monkeypatch.setattr(collecting, "connected", connected)
    study = Study(KERNEL, {"N": [1, 2]}, policy=QUICK)
    todo = list(zip(study.configurations(), "ab", strict=True))
    noted = {}
    rows = collecting.collect_on("x", study, todo, 2, 0, lambda *_: None, lambda row: noted.update(row.pop("files")))
    assert [row["key"] for row in rows] == ["a", "b"]
    assert noted == {"/h": "1", "/late": "2"}


def test_rows_are_stored_while_others_are_measured_and_a_stop_keeps_them(tmp_path):
    study = Study(KERNEL, {"N": list(range(1, 31))}, policy=QUICK, steps=50_000)
    said = []

    def stop(done, total, what):
        said.append(what)
        if done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Microbenchmark(folder=tmp_path, cluster="local:1", batch=30, progress=stop).collect(study)
    stored = (tmp_path / "results.jsonl").read_bytes()
    assert 4 <= stored.count(b"\n") < 30
    assert any(f"{os.uname().nodename} 3" in what for what in said)
    runs = Microbenchmark(folder=tmp_path).collect(study)  # goes on without a cluster
    assert len(runs.table) == 30
    assert (tmp_path / "results.jsonl").read_bytes().startswith(stored)
    assert len(StudyRuns.from_folder(tmp_path).table) == 30


def test_a_cluster_that_is_not_there_is_said():
    study = Study(KERNEL, {"N": [1]}, policy=QUICK)
    with pytest.raises(SettingError, match="local:WORKERS, not 'local'"):
        Microbenchmark(cluster="local").collect(study)
    with pytest.raises(SettingError, match="not 'cloud'"):
        Microbenchmark(cluster="cloud").collect(study)
    with pytest.raises(UnavailableError, match=r"no scheduler answers at tcp://127\.0\.0\.1:9"):
        Microbenchmark(cluster="tcp://127.0.0.1:9").collect(study)


# -- SLURM: what was found with one node of it (docs/cluster.md) -------------------------------------------------------


def slurm_of(monkeypatch, folder, squeue):
    """Put a `squeue` on the path that runs these lines of the shell."""
    program = folder / "squeue"
    program.write_text(f"#!/bin/sh\n{squeue}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)


def client_of(*jobs, faults=()):
    workers = {at: SimpleNamespace(job_id=job) for at, job in enumerate(jobs)}
    return SimpleNamespace(cluster=SimpleNamespace(workers=workers, faults=list(faults)))


def test_jobs_that_all_ended_are_told_from_some_that_wait(tmp_path, monkeypatch):
    slurm_of(monkeypatch, tmp_path, "echo 7; echo 9")
    assert clusters.jobs_gone(client_of("7", "8")) == ""
    assert "all jobs of SLURM have ended (5, 8: cancelled" in clusters.jobs_gone(client_of("5", "8"))
    assert clusters.jobs_gone(client_of(None)) == "", "it is being submitted"
    assert clusters.jobs_gone(client_of(None, faults=["no such partition"])) == "SLURM took no job: no such partition"
    slurm_of(monkeypatch, tmp_path, "echo 'slurm_load_jobs error' >&2; exit 1")
    assert clusters.jobs_gone(client_of("5")) == "", "a controller that does not answer says nothing of the jobs"


def test_a_study_does_not_wait_for_jobs_that_all_ended(monkeypatch):
    """Cancelled jobs, or jobs out of time, left the study waiting for ever."""
    from distributed import Client, LocalCluster

    @contextmanager
    def without_workers(_):
        with LocalCluster(n_workers=0, processes=False, dashboard_address=None) as made, Client(made) as client:
            yield client

    monkeypatch.setattr(collecting, "connected", without_workers)
    monkeypatch.setattr(collecting, "jobs_gone", lambda _: "all jobs have ended")
    monkeypatch.setattr(collecting, "_PATIENCE", 0.2)
    study = Study(KERNEL, {"N": [1]}, policy=QUICK)
    with pytest.raises(UnavailableError, match="all jobs have ended; the 0 rows that arrived are kept"):
        Microbenchmark(cluster="slurm").collect(study)


def test_the_package_for_slurm_leaves_ctrl_c_alone(tmp_path, monkeypatch):
    """dask-jobqueue 0.9 makes Ctrl-C a silent exit with status 0 where it is imported; a stand-in does the same."""
    package = tmp_path / "dask_jobqueue"
    package.mkdir()
    (package / "__init__.py").write_text("import signal\nsignal.signal(signal.SIGINT, lambda *_: None)\n")
    (package / "slurm.py").write_text(
        "class SLURMJob: ...\nclass SLURMCluster:\n    def __init__(self, n_workers): self.n_workers = n_workers\n"
    )
    for name in ("dask_jobqueue", "dask_jobqueue.slurm"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    before = signal.getsignal(signal.SIGINT)
    try:
        assert clusters._slurm(3).n_workers == 3
        assert signal.getsignal(signal.SIGINT) is before
    finally:
        signal.signal(signal.SIGINT, before)
        for name in ("dask_jobqueue", "dask_jobqueue.slurm"):
            sys.modules.pop(name, None)
