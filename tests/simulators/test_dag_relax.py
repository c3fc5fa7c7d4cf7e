"""Scheduling again with each candidate twice as good, and Gus's answer beside it."""

import pytest

import perfkit as pk
from perfkit.scoring.dag_gus import group


def test_a_chain_gains_by_its_latency_only():
    dag = pk.Dag.from_nodes("A" * 100, [[i - 1] if i else [] for i in range(100)])
    found = pk.relax(dag, pk.DagScheduler(pk.DagCore.sandy_bridge_erm().replace(latency_A=4)))
    table = found.to_frame()
    assert (found.bottleneck, table["cycles"][0], table["gain"][0]) == ("latency of additions", 200, 1.0)
    assert table["gain"][1] == 0
    assert "latency of additions 100%" in found.summary()


def test_divisions_gain_by_the_divider():
    dag = pk.Dag.from_nodes("D" * 100, [[]] * 100)
    found = pk.relax(dag, pk.DagScheduler(pk.DagCore.load("alder_lake_p")))
    assert found.bottleneck == "divider"
    assert found.to_frame()["gain"][0] == pytest.approx(1, abs=0.1)
    # One of four cycles, evenly: begun in 0, 4, 8, ...
    run = pk.DagScheduler(pk.DagCore.load("alder_lake_p"), record=True).run(dag)
    assert run.issue.tolist() == list(range(0, 400, 4))
    assert "division throughput" in {roof.label for roof in run.roofline().hits}


def test_a_result_of_nothing_and_its_file(tmp_path):
    dag = pk.Dag.from_nodes("A", [[]])
    found = pk.relax(dag, pk.DagScheduler(pk.DagCore(latency_A=1)))
    again = pk.Relaxation.load(found.save(tmp_path / "relaxed.parquet"))
    assert again.to_frame().equals(found.to_frame())
    assert found.plot().patches


@pytest.mark.parametrize(
    ("ours", "gus"),
    [
        ("latency of additions", "instruction_latency"), ("bandwidth of L2", "L2_bandwidth"), ("reorder buffer", "rob"),
        ("fetch", "front_end"), ("latency of memory", "memory_latency"), ("divider", "FPDivider"),
    ],
)  # fmt: skip
def test_words_of_both_models(ours, gus):
    assert group(ours) == group(gus) != "other"
