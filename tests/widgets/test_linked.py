"""What is chosen in one view of a run is chosen in the others."""

import pytest

import perfkit as pk
import perfkit_widgets as pw
from perfkit.errors import DataError, SettingError


@pytest.fixture(scope="module")
def run():
    return pk.Gus(pk.Microarchitecture.load("skylake_x")).run(pk.datasets.load("traces/correlation-v3-small"))


def test_an_instruction_is_chosen_in_all_views(run):
    listing = pw.ListingView(run.to_frame())
    first, second = pw.TimelineView(run.timeline(500, 300)), pw.TimelineView(run.timeline(600, 100))
    pw.link_selection(listing, first, second)
    schedule = first.schedule
    n = int(schedule["n"].iloc[150])
    first.selected = n
    static = int(schedule["instruction"].iloc[150])
    assert listing.selected == static
    assert listing.instruction["text"] == schedule["text"].iloc[150]
    assert first.selected == n  # not moved to another execution
    assert second.schedule.set_index("n")["instruction"].get(second.selected, -1) in (static, -1)
    other = int(schedule.loc[schedule["instruction"] != static, "instruction"].iloc[0])
    listing.selected = other
    chosen = schedule.set_index("n").loc[first.selected]
    assert chosen["instruction"] == other
    nearest = (schedule.loc[schedule["instruction"] == other, "n"] - n).abs().min()
    assert abs(first.selected - n) == nearest
    listing.selected = -1
    assert first.selected == second.selected == -1


def test_what_a_view_has_chosen_before_it_is_linked_is_chosen_in_all(run):
    window = run.timeline(500, 300)
    listing, timeline = pw.ListingView(run.to_frame()), pw.TimelineView(window, selected=window.middle())
    lines = pw.SourceView(run.to_frame(), run.causality().shares)
    pw.link_selection(listing, timeline, lines)
    assert timeline.selected == window.middle()
    static = timeline.schedule.set_index("n").loc[window.middle(), "instruction"]
    assert listing.selected == static
    assert lines.lines["line"].iloc[lines.selected] == run.to_frame()["line"].iloc[static]
    second = pw.TimelineView(window)
    listing.selected = other = int(
        timeline.schedule.loc[timeline.schedule["instruction"] != static, "instruction"].iloc[0]
    )
    pw.link_selection(listing, second)
    assert second.schedule.set_index("n").loc[second.selected, "instruction"] == other


def test_a_resource_sorts_the_listing(run):
    listing = pw.ListingView(run.to_frame())
    ranking = pw.SensitivityView(run.ranker() if hasattr(run, "ranker") else lambda w: run.sensitivity((w,)).to_frame())
    pw.link_selection(listing, ranking)
    shown = [r for r in ranking.ranking["resource"] if r in listing.frame]
    assert shown
    ranking.resource = shown[-1]
    assert (listing.sort, listing.descending) == (shown[-1], True)


def test_a_resource_without_a_column_sorts_by_the_causes_and_says_so(run):
    listing = pw.ListingView(run.to_frame(), run.causality().shares)
    ranking = pw.SensitivityView(lambda w: run.sensitivity((w,)).to_frame())
    pw.link_selection(listing, ranking)
    assert "rob" not in listing.frame
    ranking.resource = "rob"
    assert (listing.sort, listing.descending) == ("causality", True)
    assert "no column of rob: sorted by cause %, the share of the causes" in listing._instead.value
    assert ranking.resource == "rob"
    listing.sort = "pc"
    assert listing._instead.value == ""
    ranking.resource = next(r for r in ranking.ranking["resource"] if r in listing.frame)
    assert listing._instead.value == ""


def test_a_sorted_column_chooses_its_resource(run):
    listing = pw.ListingView(run.to_frame())
    ranking = pw.SensitivityView(lambda w: run.sensitivity((w,)).to_frame())
    pw.link_selection(listing, ranking)
    other = next(r for r in ranking.ranking["resource"] if r in listing.frame and r != ranking.resource)
    listing.sort = other
    assert ranking.resource == other
    listing.sort = "time_share"  # no resource: the choice stays
    assert ranking.resource == other


def test_source_lines_follow_and_lead(run):
    frame, shares = run.to_frame(), run.causality().shares
    listing, source = pw.ListingView(frame, shares), pw.SourceView(frame, shares)
    timeline = pw.TimelineView(run.timeline(500, 300))
    pw.link_selection(listing, source, timeline)
    lines = source.lines
    assert lines["causality"].sum() == pytest.approx(shares[frame["line"].notna().to_numpy()].sum())
    source.selected = 1
    chosen = frame.iloc[listing.selected]
    assert (chosen["file"], chosen["line"]) == tuple(lines.loc[1, ["file", "line"]])
    assert shares[listing.selected] == shares[(frame["line"] == chosen["line"]).to_numpy()].max()
    static = timeline.schedule["instruction"].iloc[10]
    timeline.selected = int(timeline.schedule["n"].iloc[10])
    assert lines.loc[source.selected, "line"] == frame["line"].iloc[static]
    listing.selected = -1
    assert source.selected == -1
    source.share = "time_share"
    assert source.table()["time_share"].is_monotonic_decreasing
    assert source.png().startswith(b"\x89PNG")
    with pytest.raises(SettingError, match="no line"):
        source.selected = len(lines)
    with pytest.raises(DataError, match="compile with -g"):
        pw.SourceView(frame.assign(line=None), shares)


def test_the_schedule_follows_the_roofline():
    dag = pk.Dag.from_nodes(
        "LMA" * 60, [[], [0], [1]] + [[k - 3] for k in range(3, 180)], level=["L1", None, None] * 60
    )
    scheduler = pk.DagScheduler(pk.DagCore.sandy_bridge_erm())
    roofline = pw.RooflineView(scheduler.run(dag).roofline(), pk.rescheduler(dag, scheduler), {"latency_A": [3, 30]})
    cycles = pw.ScheduleView(scheduler.run(dag), width=20)
    pw.link_selection(roofline, cycles)
    assert cycles.schedule is roofline.roofline.schedule
    roofline.values = {"latency_A": 30}
    assert cycles.schedule is roofline.roofline.schedule
    assert cycles.schedule.core.latency_A == 30
    roofline.roof = next(roof.label for roof in roofline.roofline.roofs if roof.of == ("L1",))
    assert cycles.marked == ("L1",)
    assert cycles._bodies["A"][1].fill_opacities < cycles._bodies["L1"][1].fill_opacities
    roofline.roof = ""
    assert cycles.marked == ()
    with pytest.raises(SettingError, match="no roof"):
        roofline.roof = "nothing"


def test_other_things_are_refused():
    with pytest.raises(SettingError, match="found str"):
        pw.link_selection("a view")
