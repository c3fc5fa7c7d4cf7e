"""Core files: what ships is complete and cited, what is wrong is refused with the reason."""

import math
from dataclasses import replace

import pytest

from perfkit.errors import FormatError, SettingError
from perfkit.machine.core import Microarchitecture
from perfkit.machine.instruction_tables import InstructionTables

CORES = Microarchitecture.names()
MINIMAL = """
schema = 1
name = "toy"
title = "A toy"
vendor = "nobody"
isa = "x86-64"
llvm_cpu = "x86-64"
table = "toy"
aliases = []
[sources]
made = "made up for a test"
[clock]
nominal = { value = 1.0, source = "made" }
[widths]
front_end = { value = 4, source = "made" }
retire = { value = 4, source = "made" }
[buffers]
rob = { value = 64, source = "made" }
[latencies]
L1_latency = { value = 4, source = "made" }
memory_latency = { value = 100, source = "made" }
store_forward_latency = { value = 5, source = "made" }
[bandwidths]
L1_bandwidth = { value = 64, source = "made" }
memory_bandwidth = { value = 4, source = "made" }
[ports]
p01 = { units = ["p0", "p1"], source = "made" }
[caches.L1]
size = { value = 32768, source = "made" }
ways = { value = 8, source = "made" }
line = { value = 64, source = "made" }
policy = { value = "lru", source = "made" }
[features]
macro_fusion = { value = "alu", source = "made" }
"""


def test_the_papers_cores_and_zen_ship():
    wanted = {"sandy_bridge", "skylake_x", "ice_lake", "alder_lake_p", "zen3", "zen4", "cortex_a72"}
    assert wanted <= set(CORES)
    assert Microarchitecture.load("cascade_lake").name == "skylake_x"


@pytest.mark.parametrize("name", CORES)
def test_every_figure_has_a_source_and_the_file_round_trips(name):
    core = Microarchitecture.load(name)
    frame = core.to_frame()
    assert (frame["source"].str.len() > 10).all()
    assert Microarchitecture.from_toml(core.to_toml()) == core
    # What is nearer is faster, and no level holds less than the one before it.
    levels = [level.name for level in core.caches]
    latencies = [core.value(f"{level}_latency") for level in [*levels, "memory"]]
    bandwidths = [core.value(f"{level}_bandwidth") for level in [*levels, "memory"]]
    sizes = [level.size for level in core.caches]
    assert latencies == sorted(latencies)
    assert bandwidths == sorted(bandwidths, reverse=True)
    assert sizes == sorted(sizes)
    assert all(level.sets * level.ways * level.line == level.size for level in core.caches)


@pytest.mark.parametrize("name", CORES)
def test_a_core_is_named_as_its_file_and_shares_no_name_or_processor(name):
    """Otherwise one of two is never found by name, or never recognised."""
    core = Microarchitecture.load(name)
    assert core.name == name, "`name` in the file is the file's own name"
    for other in (Microarchitecture.load(each) for each in CORES if each != name):
        shared = {core.name, *core.aliases} & {other.name, *other.aliases}
        assert not shared, f"{shared} is {other.name} already: take it out of `aliases`"
        for vendor, family, models in map(str.split, core.processors):
            first, _, last = models.partition("-")
            taken = [m for m in range(int(first), int(last or first) + 1) if other.is_processor(vendor, int(family), m)]
            assert not taken, f"{vendor} {family} {taken} is {other.name} already: take it out of `processors`"


@pytest.mark.parametrize("name", CORES)
def test_an_estimate_says_why(name):
    frame = Microarchitecture.load(name).to_frame()
    guessed = frame[frame["source"].str.startswith("estimate")]
    assert (guessed["note"].str.len() > 5).all(), guessed[guessed["note"].str.len() <= 5]["name"].tolist()
    used = set(frame["source"])
    unused = [text for key, text in Microarchitecture.load(name).sources.items() if text not in used and key != "model"]
    assert not unused, "a source that no figure names"


def test_minimal_core_and_scaling():
    core = Microarchitecture.from_toml(MINIMAL)
    assert core.resource("p01").inverse_throughput == 0.5
    faster = core.scaled("p01", 2).scaled("L1_latency", 2).scaled("rob", 1.5).scaled("instruction_latency", 2)
    assert faster.value("p01") == 4
    assert faster.value("L1_latency") == 2
    assert faster.value("rob") == 96
    assert faster.value("instruction_latency") == 0.5
    assert core.value("p01") == 2, "the core that was scaled must not change"
    again = Microarchitecture.from_toml(faster.to_toml())
    assert {r.name: r.value for r in again.resources.values()} == {r.name: r.value for r in faster.resources.values()}
    assert again.sources[again.resource("rob").source] == (
        "toy with a hypothetical capacity: p01 x 2, L1_latency x 2, rob x 1.5, instruction_latency x 2"
    )


def test_replaced_says_where_the_value_comes_from():
    core = Microarchitecture.from_toml(MINIMAL).replaced("memory_latency", 250, "measured yesterday")
    assert core.value("memory_latency") == 250
    assert core.sources[core.resource("memory_latency").source] == "measured yesterday"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("front_end =", "frontend =", "unknown key 'frontend'; did you mean 'front_end'"),
        ("value = 64, source", "value = -64, source", "[buffers] rob: a finite value above 0 expected, found -64"),
        ("front_end = { value = 4", "front_end = { value = -4", "[widths] front_end: a finite value above 0 expected"),
        ("retire = { value = 4", "retire = { value = 0", "[widths] retire: a finite value above 0 expected, found 0"),
        ('units = ["p0", "p1"]', 'units = ["p0", "p1"], capacity = -1', "uops per cycle above 0 expected, found -1"),
        ('rob = { value = 64, source = "made" }', "rob = { value = 64 }", "no source"),
        ('rob = { value = 64, source = "made" }', 'rob = { value = 64, source = "hearsay" }', "'hearsay' is not in"),
        ('rob = { value = 64, source = "made" }', "rob = 64", "expected, found 64"),
        ("schema = 1", "schema = 2", "schema = 1 expected, found 2"),
        ('[ports]\np01 = { units = ["p0", "p1"], source = "made" }', "", "needs port groups"),
        ('units = ["p0", "p1"]', 'units = ["p0", "p0"]', "different port names"),
        ("value = 32768", "value = 32000", "not a whole number of sets"),
        ('value = "lru"', 'value = "fifo"', "one of lru, plru"),
        ('value = "alu"', 'value = "some"', "one of none, cmp-test, alu"),
        ('retire = { value = 4, source = "made" }\n', "", "retire missing"),
        ('made = "made up for a test"', "", "every figure names its source"),
        ('name = "toy"', "name = toy", "not TOML"),
        ("value = 4, source", "value = nan, source", "finite value above 0"),
        ('rob = { value = 64, source = "made" }', 'rob = { value = "many", source = "made" }', "a number was expected"),
    ],
)
def test_bad_core_files_are_refused_with_the_reason(old, new, message):
    assert old in MINIMAL
    with pytest.raises(FormatError, match=r"toy\.toml: ") as error:
        Microarchitecture.from_toml(MINIMAL.replace(old, new, 1), "toy.toml")
    assert message in str(error.value)


def test_unknown_names_suggest_the_nearest():
    with pytest.raises(SettingError, match="did you mean skylake_x"):
        Microarchitecture.load("skylakex")
    with pytest.raises(SettingError, match="nearest: L2_bandwidth"):
        Microarchitecture.load("zen4").scaled("L2_bandwith", 2)
    with pytest.raises(SettingError, match="no such core file"):
        Microarchitecture.load("missing.toml")


@pytest.mark.parametrize("weight", [0, -1, math.inf, math.nan, "2"])
def test_weights_are_finite_and_positive(weight):
    with pytest.raises(SettingError, match="weight"):
        Microarchitecture.from_toml(MINIMAL).scaled("rob", weight)


def test_a_shipped_core_without_its_instruction_table_is_refused():
    """Otherwise every instruction would cost its class's default, without a word."""
    core = replace(Microarchitecture.load("zen4"), table="none")
    with pytest.raises(FormatError, match=r"zen4\.toml: there is no instruction table 'none'; name one that is there"):
        InstructionTables.load(core)


def test_processors_and_names_of_others_come_from_the_core_file():
    core = Microarchitecture.load("zen4")
    assert [core.is_processor("AuthenticAMD", 25, model) for model in (15, 16, 31, 32, 97, 160)] == [
        False, True, True, False, True, True,
    ]  # fmt: skip
    assert not core.is_processor("GenuineIntel", 25, 16)
    assert Microarchitecture.from_toml(core.to_toml()).processors == core.processors
    text = MINIMAL.replace("aliases = []", 'aliases = []\nprocessors = ["AMD 25"]')
    with pytest.raises(FormatError, match=r'processors: "VENDOR FAMILY MODEL\[-MODEL\]" expected'):
        Microarchitecture.from_toml(text)


def test_no_two_cores_are_the_same_processor():
    cores = [Microarchitecture.load(name) for name in CORES]
    for family in (6, 25, 26):
        for model in range(256):
            for vendor in ("GenuineIntel", "AuthenticAMD"):
                assert sum(core.is_processor(vendor, family, model) for core in cores) <= 1
