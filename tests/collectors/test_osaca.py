import shutil
from dataclasses import replace

import pytest
import yaml

from perfkit.collectors.host.machine_state import read_state
from perfkit.collectors.host.osaca import architecture, bounds_of, osaca
from perfkit.collectors.host.toolchain import Disassembled
from perfkit.errors import UnavailableError

# What OSACA 0.7 reports of the loop below for Zen 4, shortened.
REPORT = "Summary: {CriticalPath: 7.0, LCD: 4.0, PortPressure: {'0': 0.5, '1': 0.33, 11DV: 0.0, '12': 1.5}}"


def test_the_larger_of_ports_and_dependencies_bounds_a_loop():
    assert bounds_of(yaml.safe_load(REPORT)) == {
        "osaca_cycles": 4.0, "osaca_throughput": 1.5, "osaca_dependency": 4.0,
    }  # fmt: skip


def test_cores_have_the_names_that_osaca_gives_them():
    state = replace(read_state(), vendor="AuthenticAMD", family=25, model=17)
    assert architecture(state) == "ZEN4"
    assert architecture(replace(state, model=33)) == "ZEN3"
    intel = replace(state, vendor="GenuineIntel", family=6, model=85, stepping=7)
    assert [architecture(intel), architecture(replace(intel, stepping=4))] == ["CSX", "SKX"]
    with pytest.raises(UnavailableError, match="no model of"):
        architecture(replace(state, family=26))


@pytest.mark.skipif(shutil.which("osaca") is None, reason="OSACA is not installed (pip install osaca)")
def test_a_chain_of_fmas_is_bound_by_its_latency():
    lines = [Disassembled(0, "vfmadd213ps", "%xmm2,%xmm1,%xmm0"), Disassembled(5, "dec", "%rax")]
    found = osaca({"loop": [*lines, Disassembled(8, "jne", "0 <f>")]}, "ZEN4")["loop"]
    assert found["osaca_cycles"] == found["osaca_dependency"] == 4
