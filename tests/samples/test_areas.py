"""Top-down areas of events."""

import pytest

import perfkit as pk
from perfkit.errors import FormatError, SettingError
from perfkit.samples.areas import AREAS, COLOURS, OTHER, Areas
from perfkit.samples.events import normalise


@pytest.fixture(scope="module")
def areas():
    return Areas.load()


def test_every_event_of_the_papers_table_3_has_its_area(areas):
    table = pk.datasets.load("spire/table-3")
    assert areas.to_frame(table["event"])["area"].tolist() == table["area"].tolist()


@pytest.mark.parametrize(
    ("event", "area"),
    [
        ("branch-misses:u", "bad speculation"),
        ("cpu_core/L1-dcache-load-misses/", "memory"),
        ("iTLB-load-misses", "front-end"),
        ("dTLB-store-misses", "memory"),
        ("ARITH.DIVIDER_ACTIVE", "core"),
        ("stalled-cycles-frontend", "front-end"),
        ("PAPI_BR_MSP", "bad speculation"),
        ("instructions", OTHER),
        ("something-new", OTHER),
    ],
)
def test_events_of_dumps(areas, event, area):
    assert areas.of(event) == area


def test_the_longest_pattern_wins_but_ones_own_come_first(areas):
    assert areas.of("idq_uops_not_delivered.core") == "front-end"
    assert areas.of("idq_uops_not_delivered.cycles_fe_was_ok") == "core"
    own = areas.extended({"IDQ*": "memory"})
    assert own.of("idq_uops_not_delivered.cycles_fe_was_ok") == "memory"
    assert areas.of("idq_uops_not_delivered.cycles_fe_was_ok") == "core"


def test_a_file_extends_it(areas, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('"bad speculation" = ["npu.flush*"]\nother = ["branch-misses"]\n')
    own = areas.extended(path)
    assert (own.of("npu.flushes"), own.of("branch-misses")) == ("bad speculation", OTHER)


@pytest.mark.parametrize("text", ["not toml", 'backend = ["a"]', "core = 1", "core = [1]"])
def test_a_bad_file_is_refused(areas, tmp_path, text):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(FormatError, match=r"mine\.toml"):
        areas.extended(path)
    with pytest.raises(SettingError, match="'back'"):
        areas.extended({"a": "back"})


def test_every_area_has_a_colour_of_its_own():
    assert set(COLOURS) == {*AREAS, OTHER}
    assert len(set(COLOURS.values())) == len(COLOURS)


def test_perfs_names_written_with_underscores_are_perfs():
    assert [normalise(name) for name in ("branch_misses", "cpu/Cache_Misses/u", "L1-dcache-load-misses")] == [
        "branch-misses", "cache-misses", "l1-dcache-load-misses"
    ]  # fmt: skip
    assert normalise("cpu_cycles") == "cpu_cycles"  # Arm's own
