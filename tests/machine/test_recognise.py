"""Which core file a processor gets, from the text of /proc/cpuinfo."""

import pytest

from perfkit.errors import PerfkitWarning
from perfkit.machine import core as core_module
from perfkit.machine.core import Microarchitecture, listed_core
from perfkit.machine.recognise import Recognised, recognise


def cpuinfo(vendor, family, model, flags=""):
    """Two processors, of which the first counts."""
    one = (
        f"vendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\nmodel name\t: X\nflags\t\t: fpu {flags}\n"
    )
    return f"{one}\n{one.replace(str(model), '1')}"


@pytest.mark.parametrize(
    ("vendor", "family", "model", "flags", "core", "exact"),
    [
        ("AuthenticAMD", 25, 17, "avx2 avx512f", "zen4", True),
        ("AuthenticAMD", 25, 1, "avx2", "zen3", True),
        ("AuthenticAMD", 25, 1, "avx2 avx512f", "zen4", False),  # a masked model number
        ("AuthenticAMD", 26, 2, "avx2 avx512f", "zen5", True),
        ("AuthenticAMD", 23, 49, "avx2", "zen3", False),
        ("GenuineIntel", 6, 85, "avx2 avx512f", "skylake_x", True),
        ("GenuineIntel", 6, 106, "avx2 avx512f avx512_vbmi2", "ice_lake", True),
        ("GenuineIntel", 6, 143, "avx2 avx512f amx_tile avx512_fp16", "golden_cove", True),
        ("GenuineIntel", 6, 207, "avx2 avx512f amx_tile avx512_fp16", "raptor_cove", True),
        ("GenuineIntel", 6, 167, "avx2 avx512f avx512_vbmi2 amx_tile avx512_fp16", "golden_cove", True),  # masked
        ("GenuineIntel", 6, 167, "avx2 avx512f avx512_vbmi2", "ice_lake", False),  # Rocket Lake
        ("GenuineIntel", 6, 154, "avx2 avx_vnni", "alder_lake_p", True),
        ("GenuineIntel", 6, 94, "avx2", "skylake_x", False),
        ("GenuineIntel", 6, 58, "avx", "sandy_bridge", False),
    ],
)
def test_a_processor_gets_its_core_or_the_nearest(vendor, family, model, flags, core, exact):
    found = recognise(cpuinfo(vendor, family, model, flags), listed_core)
    assert (found.core, found.exact) == (core, exact)
    assert found.core in Microarchitecture.names()
    assert found.reason


@pytest.mark.parametrize(
    ("model", "cache", "core"),
    [
        (167, "64K", "redwood_cove"),
        (167, "32K", "golden_cove"),
        (143, "64K", "golden_cove"),
        (207, "64K", "raptor_cove"),
        (173, "", "redwood_cove"),
    ],
)
def test_granite_rapids_is_told_from_sapphire_rapids_by_its_first_cache(model, cache, core):
    text = cpuinfo("GenuineIntel", 6, model, "avx2 avx512f avx512_vbmi2 amx_tile avx512_fp16")
    found = recognise(text, listed_core, instruction_cache=cache)
    assert (found.core, found.exact) == (core, True)


def test_aarch64_has_one_core():
    assert recognise("CPU part\t: 0xd08\n", listed_core, "aarch64").exact
    assert not recognise("CPU part\t: 0xd40\n", listed_core, "aarch64").exact


def test_the_nearest_core_is_named_loudly(monkeypatch):
    near = Recognised("skylake_x", False, "Some CPU (family 6, model 94)", "it has AVX2")
    monkeypatch.setattr(core_module, "host", lambda listed: near)
    with pytest.warns(PerfkitWarning, match=r"no core file for Some CPU.*simulating skylake_x, the nearest"):
        assert Microarchitecture.load("host").name == "skylake_x"


def test_a_known_host_is_loaded_without_a_word(monkeypatch, recwarn):
    monkeypatch.setattr(core_module, "host", lambda listed: Recognised("zen4", True, "Y", "its model"))
    assert Microarchitecture.load("host").name == "zen4"
    assert not recwarn.list
