"""Measured on this machine, and compared with what is published of its core. Nothing here is mocked.

A measurement that does not settle is repeated by the method's own policy; the tolerance is the issue's 5 %.
"""

import shutil

import pytest

from perfkit.collectors.host.machine_state import read_state
from perfkit.collectors.microbenchmark import Microbenchmark
from perfkit.machine.core import recognised_host
from perfkit.study.study import Study

pytestmark = pytest.mark.measures

# Core -> FMA latency, and FMAs per cycle by width. Sources: Intel's and AMD's optimisation manuals, uops.info. Server
# Skylake, Cascade Lake and Ice Lake parts have one or two 512-bit units; either is a right answer.
CORES = {
    "skylake_x": (4, {128: (2,), 256: (2,), 512: (1, 2)}),
    "ice_lake": (4, {128: (2,), 256: (2,), 512: (1, 2)}),
    "golden_cove": (4, {128: (2,), 256: (2,), 512: (2,)}),
    "raptor_cove": (4, {128: (2,), 256: (2,), 512: (2,)}),
    "redwood_cove": (4, {128: (2,), 256: (2,), 512: (2,)}),
    "zen4": (4, {128: (2,), 256: (2,), 512: (1,)}),
    # AMD 58455: four vector pipes, two of them multiply; mobile parts have a 256-bit data path.
    "zen5": (4, {128: (2,), 256: (2,), 512: (1, 2)}),
}
POLICY = {"metric": "cycles", "repetitions": 5, "tolerance": 0.02, "attempts": 50}


def cycles(instructions: list[str], unroll: int = 64, **more) -> float:
    """Cycles that one pass over the instructions takes."""
    study = Study(assembly={"instructions": instructions, "unroll": unroll, **more}, policy=POLICY)
    row = Microbenchmark().collect(study).table.iloc[0]
    assert row["status"] == "ok", row["message"]
    assert row["settled"], f"the machine is busy: {row['quiet']:.3%} of the samples were quiet, spread {row['spread']}"
    return row["cycles"] / unroll


@pytest.fixture(scope="module")
def core():
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc")
    found = recognised_host()
    if not found.exact or found.core not in CORES:
        pytest.skip(
            f"no published answers for {found.processor} in this test's table; the nearest core is {found.core}"
        )
    flags = read_state().flags
    if "fma" not in flags:
        pytest.skip("this machine hides FMA from its guests")
    return CORES[found.core], flags


def test_a_chain_of_adds_takes_a_cycle_each():
    """True of every x86-64 core of the last twenty years."""
    assert cycles(["add %rcx, %rax"]) == pytest.approx(1, rel=0.05)
    assert cycles(["add rax, rcx", "add rax, rcx"], syntax="intel") == pytest.approx(2, rel=0.05)


def test_fma_latency(core):
    (latency, _), _flags = core
    assert cycles(["vfmadd213ps %xmm2, %xmm1, %xmm0"]) == pytest.approx(latency, rel=0.05)
    assert cycles(["vfmadd213pd %ymm2, %ymm1, %ymm0"]) == pytest.approx(latency, rel=0.05)


@pytest.mark.parametrize("width", [128, 256, 512])
def test_fma_throughput(core, width):
    (_, rates), flags = core
    if width == 512 and "avx512f" not in flags:
        pytest.skip("this machine has no AVX-512")
    register = {128: "xmm", 256: "ymm", 512: "zmm"}[width]
    # More chains than the 8 that latency times rate asks for, as many as the registers allow: where ports are chosen at
    # rename, as on Intel's cores, ten chains are not always spread evenly (1.88 per cycle was seen with 512 bits).
    chains = 24 if width == 512 else 12
    body = [f"vfmadd213ps %{register}{chains + 1}, %{register}{chains}, %{register}{i}" for i in range(chains)]
    rate = len(body) / cycles(body, unroll=8)
    assert any(rate == pytest.approx(expected, rel=0.05) for expected in rates[width]), rate
