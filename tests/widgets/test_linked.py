"""What is chosen in one view of a run is chosen in the others."""

import pytest

import perfkit as pk
import perfkit_widgets as pw
from perfkit.errors import SettingError


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


def test_a_resource_sorts_the_listing(run):
    listing = pw.ListingView(run.to_frame())
    ranking = pw.SensitivityView(run.ranker() if hasattr(run, "ranker") else lambda w: run.sensitivity((w,)).to_frame())
    pw.link_selection(listing, ranking)
    shown = [r for r in ranking.ranking["resource"] if r in listing.frame]
    assert shown
    ranking.resource = shown[-1]
    assert (listing.sort, listing.descending) == (shown[-1], True)


def test_other_things_are_refused():
    with pytest.raises(SettingError, match="found str"):
        pw.link_selection("a view")
