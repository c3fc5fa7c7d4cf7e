"""The lines to paste, read by the real perf: its parser and its lists of events, without a counter.

perf finds a processor's list by ``PERF_CPUID`` and the formats of events below ``SYSFS_PATH``. What it cannot open
afterwards is `<not supported>` here; what it cannot read is a syntax error, on any machine.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import perfkit as pk
from perfkit.fitters.bottlenecks.names import names_for
from perfkit.samples.events import as_perf_types
from tests.fitters.event_names import map_table
from tests.fitters.test_published_events import dump

PERF = shutil.which("perf")
# Processors and their cores, as perf 6.1 names it in its lists; Zen 4 and 5 are younger than these.
PROCESSORS = {
    "Sandy Bridge": ("sandy_bridge", "GenuineIntel-6-2A-7"),
    "Ivy Bridge": ("sandy_bridge", "GenuineIntel-6-3A-9"),
    "Skylake": ("skylake_x", "GenuineIntel-6-5E-3"),
    "Skylake-X": ("skylake_x", "GenuineIntel-6-55-4"),
    "Cascade Lake": ("skylake_x", "GenuineIntel-6-55-7"),
    "Ice Lake": ("ice_lake", "GenuineIntel-6-7E-5"),
    "Ice Lake-SP": ("ice_lake", "GenuineIntel-6-6A-6"),
    "Tiger Lake": ("ice_lake", "GenuineIntel-6-8C-1"),
    "Sapphire Rapids": ("golden_cove", "GenuineIntel-6-8F-8"),
    "Zen 3": ("zen3", "AuthenticAMD-25-21-0"),
}
FORMATS = {
    "GenuineIntel": {
        "event": "config:0-7", "umask": "config:8-15", "edge": "config:18", "any": "config:21", "inv": "config:23",
        "cmask": "config:24-31", "ldlat": "config1:0-15", "offcore_rsp": "config1:0-63", "frontend": "config1:0-23",
        "in_tx": "config:32", "in_tx_cp": "config:33",
    },
    "AuthenticAMD": {
        "event": "config:0-7,32-35", "umask": "config:8-15", "edge": "config:18", "inv": "config:23",
        "cmask": "config:24-31",
    },
}  # fmt: skip
# What Linux itself names, whatever perf's lists have.
EVENTS = {"slots": "event=0x00,umask=0x4", **{f"topdown-{k}": f"event=0x00,umask={n}" for k, n in (
    ("retiring", "0x80"), ("bad-spec", "0x81"), ("fe-bound", "0x82"), ("be-bound", "0x83"))}}  # fmt: skip


def errors(types: str, processor: str, folder: Path) -> str:
    """What perf says of what stands after its -e on a processor, if it cannot read it."""
    assert PERF is not None
    device = folder / "bus/event_source/devices/cpu"
    for name, files in (("format", FORMATS[PROCESSORS[processor][1].split("-")[0]]), ("events", EVENTS)):
        (device / name).mkdir(parents=True, exist_ok=True)
        for file, text in files.items():
            (device / name / file).write_text(text + "\n")
    (device / "type").write_text("4\n")
    around = {**os.environ, "PERF_CPUID": PROCESSORS[processor][1], "SYSFS_PATH": str(folder), "LC_ALL": "C"}
    done = subprocess.run(
        [PERF, "stat", "-x", ",", "-e", types, "--", "true"], env=around, capture_output=True, text=True, check=False
    )
    return done.stderr if "syntax error" in done.stderr or "parser error" in done.stderr else ""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Skip where perf does not read events so, or has no list of these processors."""
    made = tmp_path_factory.mktemp("sys")
    if PERF is None:
        pytest.skip("perf is not installed (Debian: linux-perf)")
    if told := errors("cycles,mem_inst_retired.all_loads", "Skylake-X", made):
        pytest.skip(f"this perf has no list of a Skylake-X's events: {told.splitlines()[0]}")
    return made


def test_perf_refuses_names_that_it_does_not_have(folder):
    """The check itself can fail: a mistyped name, and an event of another processor."""
    assert "syntax error" in errors("cycles,mem_inst_retired.all_loadss", "Skylake-X", folder)
    assert "syntax error" in errors("cycles,mem_uops_retired.all_loads", "Skylake-X", folder)
    assert "syntax error" in errors("cycles,mem_inst_retired.all_loads", "Zen 3", folder)


@pytest.mark.parametrize("core", dict.fromkeys(core for core, _ in PROCESSORS.values()))
def test_some_processor_of_a_core_has_every_name_that_is_asked_for(core, folder):
    vendor = pk.Microarchitecture.load(core).vendor
    each = {name for event in map_table()["simulated"].unique() for name in names_for(event, vendor, core)}
    asked = {part for name in each for part in name.split("+")}
    mine = [processor for processor, (of, _) in PROCESSORS.items() if of == core]
    assert len(asked) > 20
    for processor in mine:
        asked = {name for name in asked if errors(as_perf_types(["cycles", name], "cycles"), processor, folder)}
    assert asked == set()


STARTS = {
    "plain": {"branch-misses": 0.001, "branches": 0.1, "cache-misses": 0.001},
    "caches": {
        "L1-dcache-load-misses": 0.02,
        "L1-dcache-loads": 0.3,
        "dTLB-load-misses": 0.001,
        "LLC-load-misses": 0.0,
    },
    "nothing": {"page-faults": 0.0},
}


@pytest.mark.parametrize("time", ["cycles", "cycles:u"])
@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("processor", PROCESSORS)
def test_perf_reads_the_line_to_paste(processor, start, time, folder):
    """Names of an Ivy Bridge were in the line for a Sandy Bridge: refused whole."""
    core = PROCESSORS[processor][0]
    found = pk.Bottlenecks.load(core).explain(dump(STARTS[start], time=time), intervals=False)
    line = found.command("r", "true")
    assert line, found.why("r")
    assert len(line.split("'")[1].split(",")) > len(found.events["real"].unique()) + 2
    assert errors(line.split("'")[1], processor, folder) == ""


def test_perf_reads_its_own_top_down_metrics(folder):
    events = {"slots": 6.0, "topdown-retiring": 1.2, "branch-misses": 0.0005, "branches": 0.1}
    line = pk.Bottlenecks.load("golden_cove").explain(dump(events), intervals=False).command("r")
    assert "{slots,topdown-retiring}" in line
    assert errors(line.split("'")[1], "Sapphire Rapids", folder) == ""
