"""Sweeps over a parameter: rows, progress, and going on where one was stopped."""

import json

import pytest
from joblib import Parallel, delayed

import perfkit as pk
from perfkit.collectors.dag.paper_kernels import kernel
from perfkit.errors import FormatError, SettingError
from perfkit.simulators.dag import sweep as dag_sweep
from perfkit.simulators.dag.core import DagCore

CHAIN = pk.Dag.from_nodes("A" * 50, [[i - 1] if i else [] for i in range(50)])
CORE = DagCore.sandy_bridge_erm()


def counted(monkeypatch, stop_after=None):
    """Count the schedules that are made; interrupt the one after so many."""
    made = []
    row = dag_sweep._row

    def counting(scheduler, dag):
        if stop_after is not None and len(made) >= stop_after:
            raise KeyboardInterrupt
        made.append(scheduler.core.latency_A)
        return row(scheduler, dag)

    monkeypatch.setattr(dag_sweep, "_row", counting)
    return made


@pytest.mark.parametrize("threads", [1, 2])
def test_a_stopped_sweep_goes_on_without_loss(tmp_path, monkeypatch, threads):
    values, told = [1, 2, 3, 4, 5], []
    expected = pk.sweep(CHAIN, CORE, "latency_A", values)
    assert expected["cycles"].tolist() == [50, 100, 150, 200, 250]
    with monkeypatch.context() as patch:
        counted(patch, stop_after=3)
        with pytest.raises(KeyboardInterrupt):
            pk.sweep(CHAIN, CORE, "latency_A", values, threads, folder=tmp_path)
    assert len(list(tmp_path.glob("*.json"))) == 3
    assert not list(tmp_path.glob(".sweep-*"))
    made = counted(monkeypatch)
    again = pk.sweep(
        CHAIN, CORE, "latency_A", values, threads, folder=tmp_path, progress=lambda done, of: told.append((done, of))
    )
    assert len(made) == 2
    assert told == [(3, 5), (4, 5), (5, 5)]
    assert again.equals(expected)


def test_the_folder_tells_dags_cores_and_switches_apart(tmp_path, monkeypatch):
    made = counted(monkeypatch)
    pk.sweep(CHAIN, CORE, "latency_A", [1, 2], folder=tmp_path)
    pk.sweep(CHAIN, CORE.replace(name="other"), "latency_A", [2.0, 1.0], folder=tmp_path)  # the same configurations
    assert len(made) == 2
    for dag, core, switches in (
        (pk.Dag.from_nodes("A" * 50, [[]] * 50), CORE, {}),
        (CHAIN, CORE.replace(rs=20), {}),
        (CHAIN, CORE, {"warm": False}),
    ):
        before = len(made)
        pk.sweep(dag, core, "latency_A", [1, 2], folder=tmp_path, **switches)
        assert len(made) == before + 2


def test_a_traced_kernel_is_named_by_code_and_arguments():
    digests = [kernel("mvm").trace(n, seed=seed).digest() for n, seed in ((20, 0), (20, 0), (21, 0), (20, 1))]
    assert digests[0] == digests[1]
    assert len(set(digests)) == 3
    # Numba numbers what it compiles, with more digits as time goes by.
    assert len({kernel("fft").trace(8).digest() for _ in range(12)}) == 1
    dag = kernel("mvm").trace(20).dag()
    assert dag.digest() == dag.digest() != kernel("mvm").trace(21).dag().digest()


def test_joblib_processes_share_a_folder(tmp_path, monkeypatch):
    values = [1, 2, 3, 4]
    parts = Parallel(n_jobs=2)(
        delayed(pk.sweep)(CHAIN, CORE, "latency_A", part, folder=tmp_path) for part in (values[:2], values[2:])
    )
    made = counted(monkeypatch)
    whole = pk.sweep(CHAIN, CORE, "latency_A", values, folder=tmp_path)
    assert not made
    assert whole["cycles"].tolist() == [c for part in parts for c in part["cycles"]] == [50, 100, 150, 200]


def test_streaming_kernels_are_swept(tmp_path):
    source = kernel("reduction").trace(500)
    table = pk.sweep(source, CORE, "rs", [54, 20], folder=tmp_path, warm=False)
    assert table["cycles"].is_monotonic_increasing
    assert pk.sweep(source, CORE, "rs", [54, 20], folder=tmp_path, warm=False).equals(table)


def test_bad_sweeps_say_what_is_wrong(tmp_path):
    with pytest.raises(SettingError, match="unknown parameter"):
        pk.sweep(CHAIN, CORE, "speed", [1])
    with pytest.raises(SettingError, match="threads is at least 1"):
        pk.sweep(CHAIN, CORE, "rs", [1], threads=0)
    with pytest.raises(SettingError, match="rs is a whole number"):
        pk.sweep(CHAIN, CORE, "rs", [54, 1.5])  # before anything is scheduled

    class Source:
        name, program = "other", CHAIN.program

        def replay(self, consume):
            CHAIN.replay(consume)

    with pytest.raises(SettingError, match="has no digest"):
        pk.sweep(Source(), CORE, "rs", [1], folder=tmp_path)
    pk.sweep(CHAIN, CORE, "rs", [5], folder=tmp_path)
    for text in ("{", "[]", json.dumps({"cycles": 1})):
        next(tmp_path.glob("*.json")).write_text(text)
        with pytest.raises(FormatError, match="not a result of a sweep"):
            pk.sweep(CHAIN, CORE, "rs", [5], folder=tmp_path)


def test_changes_are_written_as_text():
    from perfkit.simulators.dag.schedule import DagScheduler, changed_by

    before = DagScheduler(DagCore.sandy_bridge_erm(), warm=False)
    found = changed_by(before, [" rs=20", " inflight_blocking=1", "x86_order=0", " l3_rounding=up"])
    assert (found.core.rs, found.inflight_blocking, found.x86_order, found.l3_rounding) == (20, True, False, "up")
    assert not found.warm
    assert changed_by(before, [""]) == before
    for wrong, said in (
        ("rs", "PARAMETER=NUMBER"),
        ("rs=many", "many"),
        ("window=3", "unknown parameter window"),
    ):
        with pytest.raises(SettingError, match=said):
            changed_by(before, [wrong])
