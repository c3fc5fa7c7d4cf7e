"""One selection across views: an instruction, and a resource, chosen in one of them are chosen in all."""

from typing import Any

from perfkit.errors import SettingError
from perfkit_widgets.listing_view import ListingView
from perfkit_widgets.roofline_view import RooflineView
from perfkit_widgets.schedule_view import ScheduleView
from perfkit_widgets.sensitivity_view import SensitivityView
from perfkit_widgets.source_view import SourceView
from perfkit_widgets.timeline_view import TimelineView

_LINKED = (ListingView, TimelineView, SourceView, SensitivityView, RooflineView, ScheduleView)
COMPUTING = ("A", "M", "D", "F")  # the node types of computation


def link_selection(*views: Any) -> None:
    """Let views of one run share what is chosen.

    An instruction chosen in a `ListingView` is chosen in every `TimelineView`, at its execution nearest to the one
    chosen before, and the other way round; where a window has no execution of it, the timeline shows none. A resource
    chosen in a `SensitivityView` sorts the listings by their instructions' shares of it; where it is no column (a
    latency, a buffer, a bandwidth), by their shares of the causes, which the listing says. A column by which a listing
    is sorted is chosen in the `SensitivityView`, if it is a resource. A `SourceView` shows the line of the
    chosen instruction with its share of the time and of the causes; a line chosen there chooses its instruction with
    most causes.

    An instruction that one of them has chosen already is chosen in all at once.

    What a `RooflineView` schedules is drawn in every `ScheduleView`, and the node types of the roof that is chosen in
    it stand out there.

    Raises
    ------
    SettingError
        Something else than these views was given.

    Examples
    --------
    >>> listing, timeline = ListingView(run.to_frame()), TimelineView(run.timeline(0, 1000))  # doctest: +SKIP
    >>> link_selection(listing, timeline)  # doctest: +SKIP
    """
    kinds = {kind: [v for v in views if isinstance(v, kind)] for kind in _LINKED}
    others = [type(v).__name__ for v in views if not isinstance(v, _LINKED)]
    if others:
        known = ", ".join(kind.__name__ for kind in _LINKED)
        raise SettingError(f"views that can be linked are {known}; found {', '.join(others)}")
    listings: list[ListingView] = kinds[ListingView]
    instructions = _Instructions(listings, kinds[TimelineView], kinds[SourceView])
    for listing in listings:
        listing.observe(lambda change: instructions.choose(int(change["new"])), "selected")
        listing.observe(lambda change: _choose_resource(kinds[SensitivityView], str(change["new"])), "sort")
    for timeline in kinds[TimelineView]:
        timeline.observe(lambda change: instructions.executed(change["owner"], int(change["new"])), "selected")
    for source in kinds[SourceView]:
        source.observe(lambda change: instructions.line(change["owner"]), "selected")
    instructions.begin()
    for ranking in kinds[SensitivityView]:
        ranking.observe(lambda change: _sort(listings, str(change["new"])), "resource")
    for roofline in kinds[RooflineView]:
        roofline.observe(lambda change: _follow(change["owner"], kinds[ScheduleView]), ["roofline", "roof"])
        _follow(roofline, kinds[ScheduleView])


class _Instructions:
    """Which static instruction is chosen; views that are being told do not answer."""

    def __init__(self, listings: list[ListingView], timelines: list[TimelineView], sources: list[SourceView]) -> None:
        self._listings, self._timelines, self._sources = listings, timelines, sources
        self._telling = False

    def begin(self) -> None:
        """Choose what one of the views shows as chosen, an instruction of the listing before one of a timeline."""
        chosen = [listing.selected for listing in self._listings if listing.selected >= 0]
        shown = [timeline for timeline in self._timelines if timeline.selected >= 0]
        if chosen:
            self.choose(chosen[0])
        elif shown:
            self.executed(shown[0], shown[0].selected)

    def line(self, source: SourceView) -> None:
        self.choose(source.instruction, source)

    def executed(self, source: TimelineView, n: int) -> None:
        rows = source.schedule
        found = rows.loc[rows["n"] == n, "instruction"].tolist()
        self.choose(int(found[0]) if found else -1, source)

    def choose(self, instruction: int, source: TimelineView | SourceView | None = None) -> None:
        if self._telling:
            return
        self._telling = True
        try:
            for listing in self._listings:
                listing.selected = instruction if instruction < len(listing.frame) else -1
            for timeline in self._timelines:
                if timeline is not source:
                    timeline.selected = _nearest(timeline, instruction)
            for view in self._sources:
                if view is not source:
                    view.show(instruction)
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
        listing.sort_by(resource)


def _choose_resource(rankings: list[SensitivityView], name: str) -> None:
    for ranking in rankings:
        if name in set(ranking.ranking["resource"]):
            ranking.resource = name


def _follow(roofline: RooflineView, schedules: list[ScheduleView]) -> None:
    chosen = roofline.chosen
    for view in schedules:
        if view.schedule is not roofline.roofline.schedule:
            view.schedule = roofline.roofline.schedule
        types = chosen.of if chosen else ()
        view.marked = tuple(name for kind in types for name in (COMPUTING if kind == "comp" else (kind,)))
