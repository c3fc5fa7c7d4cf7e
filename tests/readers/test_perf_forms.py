"""Forms of perf's output that people capture: summaries without a mark, prompts, control groups, two modes."""

import pytest

from perfkit.errors import FormatError
from tests.readers.test_traps import counts


def timed(rows, form="     {at}.000123456 {value:>16,}      {event}\n"):
    return "".join(form.format(at=at, value=value, event=event) for at, event, value in rows)


TWO = [
    (1, "cycles", 1_000_000),
    (1, "instructions", 2_000_000),
    (2, "cycles", 3_000_000),
    (2, "instructions", 5_000_000),
]
CSV = "     {at}.000123456,{value},,{event},1000,100.00,,\n"


# ------------------------------------------------------------------ totals behind intervals


def test_totals_behind_intervals_without_a_mark_are_left_out(read):
    samples = read(timed(TWO, CSV) + "4000000,,cycles,2000,100.00,,\n7000000,,instructions,2000,100.00,,\n")
    assert counts(samples, "cycles") == [1_000_000, 3_000_000]
    assert any("2 lines of totals (--summary), not read again" in n for n in samples.notes)
    assert samples.accounting["left_out"].sum() == 2


@pytest.mark.parametrize(
    "last",
    [
        "3000000,,cycles,2000,100.00,,\n7000000,,instructions,2000,100.00,,\n",  # a run of its own
        "4000000,,cycles,2000,100.00,,\n7000000,,branches,2000,100.00,,\n",  # an event that no interval has
    ],
)
def test_other_lines_without_an_interval_are_problems(read, last):
    with pytest.raises(FormatError, match="expected the interval's end in the first field"):
        read(timed(TWO, CSV) + last)


def test_a_line_of_the_last_interval_that_lost_its_time_is_no_total(read):
    rows = timed([*TWO[:2], (2, "cycles", 1_000_100)], CSV) + "2000000,,instructions,2000,100.00,,\n"
    with pytest.raises(FormatError, match="expected the interval's end in the first field"):
        read(rows)


# ------------------------------------------------------------------ what stands around


def test_a_bare_prompt_with_the_command_is_no_count(read):
    samples = read("$ sudo perf stat -b 254 -e cycles,instructions -I 1000\n" + timed(TWO))
    assert counts(samples, "instructions") == [2_000_000, 5_000_000]


def test_json_of_versions_that_left_a_comma_at_the_end(read):
    line = '{{"interval" : {at}.000123456, "counter-value" : "{value}.000000", "unit" : "", "event" : "{event}", '
    samples = read(timed(TWO, line + '"event-runtime" : 5, "pcnt-running" : 100.00, }}\n'))
    assert counts(samples, "cycles") == [1_000_000, 3_000_000]


# ------------------------------------------------------------------ modes


MODES = [("cycles:k", 90), ("cycles:u", 1000), ("instructions:k", 50), ("instructions:u", 2000), ("branches:u", 7)]


@pytest.mark.parametrize("order", [MODES, MODES[::-1]])
def test_of_two_modes_time_is_the_one_that_did_most_in_any_order(read, order):
    samples = read(timed([(at, e, n * at) for at in (1, 2, 3) for e, n in order]))
    assert (samples.time_event, samples.work_event) == ("cycles:u", "instructions:u")


@pytest.mark.parametrize(
    ("events", "axes"),
    [
        (["cycles", "cycles:u", "instructions", "instructions:u"], ("cycles", "instructions")),
        (["cycles", "cycles:u", "instructions:u"], ("cycles:u", "instructions:u")),  # one mode for both
        (["cycles", "cycles:u", "instructions"], ("cycles", "instructions")),
        (["cycles:k", "cycles:u", "instructions:k"], ("cycles:k", "instructions:k")),
    ],
)
def test_time_and_work_are_of_one_mode_where_both_were_counted_in_one(read, events, axes):
    size = {"cycles": 100, "cycles:u": 90, "cycles:k": 10, "instructions": 300, "instructions:u": 200}
    samples = read(timed([(at, e, at * size.get(e, 20)) for at in (1, 2) for e in events]))
    assert (samples.time_event, samples.work_event) == axes


# ------------------------------------------------------------------ control groups


def grouped(per_group, form="     {at}.000420001 {value:>14,}      {event:<20} {group}\n"):
    return "".join(
        form.format(at=at, value=value * at * at, event=event, group=group)
        for at in (1, 2, 3)
        for group, values in per_group.items()
        for event, value in zip(("cycles", "instructions"), values, strict=True)
    )


def test_the_root_group_that_sums_up_the_others_is_left_out(read):
    samples = read(grouped({"system.slice": (10_000, 20_000), "user.slice": (30_000, 5_000), "/": (40_000, 25_000)}))
    assert samples.table["place"].unique().tolist() == ["system.slice", "user.slice"]
    assert sum(counts(samples, "cycles")) == 40_000 * 14
    assert any("6 lines of control groups that sum up others, left out (/)" in n for n in samples.notes)
    only = samples.accounting.iloc[0]
    assert only["counts"] + only["describes"] + only["left_out"] + only["problems"] == only["total"]


def test_a_group_that_holds_another_and_more_is_told(read):
    form = "     {at}.000420001,{value},,{event},{group},1000,100.00,,\n"
    samples = read(grouped({"a": (50_000, 60_000), "a/b": (30_000, 5_000), "ab": (7_000, 9_000)}, form))
    assert samples.table["place"].nunique() == 3
    assert [n for n in samples.notes if "caution: control group a holds what those below it did" in n]


def test_groups_beside_one_another_are_read_as_they_are(read):
    samples = read(grouped({"a": (50_000, 60_000), "ab": (30_000, 5_000), "c": (80_000, 65_000)}))
    assert samples.table["place"].nunique() == 3
    assert not [n for n in samples.notes if "control group" in n]


# ------------------------------------------------------------------ what spreadsheets and scripts make of -x


def test_lines_in_one_cell_each_are_read(read):
    samples = read("".join(f'"{line}"\n' for line in timed(TWO, CSV).splitlines()))
    assert counts(samples, "cycles") == [1_000_000, 3_000_000]


def test_a_header_that_somebody_put_above_is_none_of_the_counts(read):
    samples = read("time,count,unit,event,runtime,pct,metric,unit of it\n" + timed(TWO, CSV))
    assert counts(samples, "instructions") == [2_000_000, 5_000_000]
    with pytest.raises(FormatError, match="line 2: expected"):
        read(timed(TWO[:1], CSV) + "time,count,unit,event,runtime,pct\n" + timed(TWO[1:], CSV))
