"""One selection across views: an instruction, and a resource, chosen in one of them are chosen in all."""

from typing import Any

from perfkit.errors import SettingError
from perfkit_widgets.listing_view import ListingView
from perfkit_widgets.sensitivity_view import SensitivityView
from perfkit_widgets.timeline_view import TimelineView


def link_selection(*views: Any) -> None:
    """Let views of one run share what is chosen.

    An instruction chosen in a `ListingView` is chosen in every `TimelineView`, at its execution nearest to the one
    chosen before, and the other way round; where a window has no execution of it, the timeline shows none. A resource
    chosen in a `SensitivityView` sorts the listings by their instructions' shares of it.

    Raises
    ------
    SettingError
        Something else than these views was given.

    Examples
    --------
    >>> listing, timeline = ListingView(run.to_frame()), TimelineView(run.timeline(0, 1000))  # doctest: +SKIP
    >>> link_selection(listing, timeline)  # doctest: +SKIP
    """
    listings = [v for v in views if isinstance(v, ListingView)]
    timelines = [v for v in views if isinstance(v, TimelineView)]
    rankings = [v for v in views if isinstance(v, SensitivityView)]
    others = [type(v).__name__ for v in views if v not in [*listings, *timelines, *rankings]]
    if others:
        raise SettingError(f"listings, timelines and sensitivities can be linked, found {', '.join(others)}")
    instructions = _Instructions(listings, timelines)
    for listing in listings:
        listing.observe(lambda change: instructions.choose(int(change["new"])), "selected")
    for timeline in timelines:
        timeline.observe(lambda change: instructions.executed(change["owner"], int(change["new"])), "selected")
    for ranking in rankings:
        ranking.observe(lambda change: _sort(listings, str(change["new"])), "resource")


class _Instructions:
    """Which static instruction is chosen; views that are being told do not answer."""

    def __init__(self, listings: list[ListingView], timelines: list[TimelineView]) -> None:
        self._listings, self._timelines, self._telling = listings, timelines, False

    def executed(self, source: TimelineView, n: int) -> None:
        rows = source.schedule
        found = rows.loc[rows["n"] == n, "instruction"].tolist()
        self.choose(int(found[0]) if found else -1, source)

    def choose(self, instruction: int, source: TimelineView | None = None) -> None:
        if self._telling:
            return
        self._telling = True
        try:
            for listing in self._listings:
                listing.selected = instruction if instruction < len(listing.frame) else -1
            for timeline in self._timelines:
                if timeline is not source:
                    timeline.selected = _nearest(timeline, instruction)
        finally:
            self._telling = False


def _nearest(timeline: TimelineView, instruction: int) -> int:
    """Return the execution of an instruction that is nearest to the one that a timeline shows now, or -1."""
    rows = timeline.schedule
    found = rows.loc[rows["instruction"] == instruction, "n"].tolist()
    here = timeline.selected if timeline.selected >= 0 else int(rows["n"].iloc[len(rows) // 2])
    return int(min(found, key=lambda n: abs(n - here), default=-1))


def _sort(listings: list[ListingView], resource: str) -> None:
    for listing in listings:
        if resource in listing.frame:
            listing.sort, listing.descending = resource, True
