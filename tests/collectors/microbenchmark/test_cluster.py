"""A study on a cluster: rows arrive one by one, a killed worker loses none, and each names its host."""

import os
import signal

import pytest

from perfkit.collectors.microbenchmark import Microbenchmark
from perfkit.errors import SettingError, UnavailableError
from perfkit.study.runs import StudyRuns, read_records
from perfkit.study.study import Study

pytestmark = [pytest.mark.measures, pytest.mark.filterwarnings("default")]
QUICK = {"repetitions": 3, "attempts": 1, "windows": 3}
KERNEL = """#include <unistd.h>
PK_REGION { long sum = 0; for (long i = 0; i < N; i++) { sum += i; PK_KEEP(sum); } PK_REPORT("worker", getppid()); }"""


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
            killed.append(int(rows[-1]["reports"]["worker"]))
            os.kill(killed[0], signal.SIGKILL)

    runs = Microbenchmark(folder=tmp_path, cluster="local:2", batch=20, progress=kill).collect(study)
    assert killed
    assert results.read_bytes().count(b"\n") == 40
    stored = {row["key"]: row for row in read_records(tmp_path)}
    assert {key: stored[key] for key in kept} == kept
    assert sorted(runs.table["N"]) == list(range(1, 41))
    assert (runs.table["status"] == "ok").all()
    assert (runs.table["host"] == os.uname().nodename).all()
    assert runs.table["processor"].nunique() == 1
    assert set(runs.table["worker"]) - set(killed)


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
