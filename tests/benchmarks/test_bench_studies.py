"""Variants a minute: shared headers and one measuring process, against one process per variant.

Both sides compile the same sources with the same compiler, measure with the same policy, and run on this machine.
"""

import time
from pathlib import Path

import pytest

from perfkit.collectors.microbenchmark import Microbenchmark
from perfkit.collectors.microbenchmark.compile import batches_of, build_harness, compile_batch
from perfkit.collectors.microbenchmark.lock import measuring_lock
from perfkit.collectors.microbenchmark.passes import measure_all
from perfkit.study.study import Study

GATHER = Path(__file__).resolve().parents[2] / "data" / "studies" / "gather.yaml"
PAPER = 3000 / (3 * 60)  # "more than 3K combinations", "roughly three hours" (section IV-A)


@pytest.fixture
def study():
    whole = Study.from_yaml(GATHER)
    return whole.replace(where=[*whole.where, "ELEMENTS in [5, 6]", "IDX1 == 8"])


def test_variants_a_minute(benchmark, study, tmp_path):
    started = time.perf_counter()
    benchmark.pedantic(lambda: Microbenchmark(folder=tmp_path / "many").collect(study), rounds=1)
    count = study.count()
    ours = 60 * count / (time.perf_counter() - started)

    few = study.replace(where=[*study.where, "IDX2 == 9", "ELEMENTS == 5"])
    started = time.perf_counter()
    records = one_binary_a_variant(few, tmp_path / "one")
    theirs = 60 * len(records) / (time.perf_counter() - started)
    assert all(record["status"] == "ok" for record in records)

    print(f"\nheaders compiled once, one process: {ours:.0f} variants per minute ({count} measured)")
    print(f"one process per variant: {theirs:.0f} variants per minute ({len(records)} measured)")
    print(
        f"ratio {ours / theirs:.1f}; the paper's gather study ran at about {PAPER:.0f} a minute "
        "(its machine, with counters)"
    )
    print(f"the whole study of 3318 configurations at this rate: {3318 / ours:.1f} minutes")
    assert ours > theirs


def one_binary_a_variant(study: Study, folder: Path) -> list[dict]:
    """The baseline: each variant is compiled alone and measured by a process of its own; everything else is equal."""
    harness = build_harness(folder)
    records = []
    mark = study.fingerprint()
    for configuration in study.configurations():
        todo = [(configuration, configuration.key(mark))]
        (batch,) = batches_of(study, todo, 1)
        built = {one.key: one for one in compile_batch(batch, folder)}
        with measuring_lock():
            records += measure_all(study, todo, built, harness, folder)
    return records
