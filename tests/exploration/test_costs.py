"""What events usually cost: nothing is said to take little of which nobody knows what it takes."""

import pytest

import perfkit as pk
from tests.exploration.test_explore import table_of_perf

WHOLE = {"cycles": (4_000_000_000, 1), "instructions": (1_600_000_000, 1)}


def headline(folder, **counts):
    return pk.explore(table_of_perf(folder, WHOLE | {e.replace("__", "."): (n, 1) for e, n in counts.items()})).headline


@pytest.mark.parametrize(
    ("event", "count", "cost"),
    [
        ("br_mis_pred_retired", 61_000_000, 17),
        ("ls_refills_from_sys.ls_mabresp_lcl_dram", 11_000_000, 200),
        ("mem_load_uops_retired.l3_hit", 33_000_000, 40),
        ("dtlb_walk", 47_000_000, 30),
    ],
)
def test_a_miss_under_its_vendors_name_has_its_usual_cost(tmp_path, event, count, cost):
    counts = WHOLE | {event: (count, 1), "page-faults": (200, 1)}
    told = pk.explore(table_of_perf(tmp_path, counts)).methods.set_index("method").loc["typical costs", "finding"]
    assert f"{event} would take up to {count * cost / 4_000_000_000:.0%} of the cycles" in told


def test_an_event_without_a_known_cost_is_not_said_to_take_little(tmp_path):
    """Every event that the table did not know was covered by "none of the counted misses takes over 0.4 %"."""
    told = headline(tmp_path, **{"branch-misses": 900_000, "my_unit.my_misses": 70_000_000, "branches": 300_000_000})
    assert "branch-misses takes at most 0.4% of the cycles" in told
    assert "of my_unit.my_misses no usual cost is known: it may be more" in told
    assert "branches" not in told
    told = headline(tmp_path, **{"branch-misses": 900_000, "page-faults": 9})
    assert "branch-misses and page-faults take at most 0.4% of the cycles each" in told
    assert "no usual cost" not in told


@pytest.mark.parametrize("event", ["stalled-cycles-frontend", "stall_backend", "ex_div_busy"])
def test_cycles_that_an_event_counts_need_no_cost(tmp_path, event):
    assert f"{event} counts 55% of the cycles" in headline(tmp_path, **{event: 2_200_000_000, "branch-misses": 9_000})


def test_slots_of_an_unknown_width_say_which_part_of_the_lost_ones_it_is(tmp_path):
    slots = {"stall_slot_frontend": 900, "stall_slot_backend": 8_100, "op_spec": 2_600, "op_retired": 1_600}
    told = headline(tmp_path, **{e: n * 1_000_000 for e, n in slots.items()})
    assert "of the issue slots that are lost 81% are lost to the back end" in told


def test_misses_that_are_doubted_go_before_what_takes_little(tmp_path):
    told = headline(
        tmp_path, **{"cache-misses": 80_000_000, "cache-references": 3_000_000, "L1-dcache-load-misses": 9_000}
    )
    assert told.startswith("IPC 0.4; cache-misses are 8e+07 and cache-references")


def test_what_bottlenecks_can_tell_goes_before_usual_costs(tmp_path):
    """Page walks of 80 % of the cycles and dividers of 97 % were passed over for "none of the counted misses"."""
    few = {"mem_load_retired__l3_miss": 2_000, "br_misp_retired__all_branches": 2_000}
    told = headline(tmp_path, dtlb_load_misses__walk_active=2_800_000_000, **few)
    assert told.startswith("IPC 0.4: page walks, at least 70% of the cycles")
    told = headline(tmp_path, arith__divider_active=3_900_000_000, **few)
    assert "dividers is likeliest" in told


def test_dumps_of_several_processors_are_each_answered_by_itself(tmp_path):
    """The dump of an Intel was refused for the other file's events, and all of them were called AMD's."""
    few = {"branch-misses": (31_000_000, 1)}
    own = {"intel": {"mem_load_retired.l3_miss": (3_000, 1)}, "amd": {"ex_ret_brn_misp": (44_000_000, 1)}}
    paths = []
    for name, counts in own.items():
        made = table_of_perf(tmp_path, WHOLE | few | counts)
        paths.append(made.rename(tmp_path / f"{name}.txt"))
    found = pk.explore(paths)
    assert found.facts["processor"].startswith("intel: Intel")
    assert "; amd: AMD" in found.facts["processor"]
    for path in paths:
        alone = pk.explore(path)
        assert f"{path.stem}: {alone.headline}" in found.headline
        rows = found.methods.set_index("method")["trust"]
        assert all(rows[f"{row.method} ({path.stem})"] == row.trust for row in alone.methods.itertuples())
    same = pk.explore([paths[0], table_of_perf(tmp_path, WHOLE | own["intel"])])
    assert "Intel, by the names" in same.facts["processor"]
    assert "top-down" in set(same.methods["method"])
