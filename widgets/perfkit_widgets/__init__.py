"""Interactive views of perfkit's results for Jupyter: they hold a selection and draw; they never compute.

Names are loaded when they are first used, so that one view does not pay for the libraries of another.
"""

from typing import TYPE_CHECKING, Any

from perfkit import lazy

# Public name -> the module that defines it.
_HOME = {
    "CpiStackExplorer": "perfkit_widgets.cpi_stack_explorer",
    "RooflineView": "perfkit_widgets.roofline_view",
    "SamplesExplorer": "perfkit_widgets.samples_explorer",
    "ScheduleView": "perfkit_widgets.schedule_view",
    "SpireExplorer": "perfkit_widgets.spire_explorer",
    "StudyExplorer": "perfkit_widgets.study_explorer",
    "TreeView": "perfkit_widgets.tree_view",
    "ListingView": "perfkit_widgets.listing_view",
    "SensitivityView": "perfkit_widgets.sensitivity_view",
    "TimelineView": "perfkit_widgets.timeline_view",
    "WhatIf": "perfkit_widgets.what_if",
}

if TYPE_CHECKING:
    from perfkit_widgets.cpi_stack_explorer import CpiStackExplorer as CpiStackExplorer
    from perfkit_widgets.listing_view import ListingView as ListingView
    from perfkit_widgets.roofline_view import RooflineView as RooflineView
    from perfkit_widgets.samples_explorer import SamplesExplorer as SamplesExplorer
    from perfkit_widgets.schedule_view import ScheduleView as ScheduleView
    from perfkit_widgets.sensitivity_view import SensitivityView as SensitivityView
    from perfkit_widgets.spire_explorer import SpireExplorer as SpireExplorer
    from perfkit_widgets.study_explorer import StudyExplorer as StudyExplorer
    from perfkit_widgets.timeline_view import TimelineView as TimelineView
    from perfkit_widgets.tree_view import TreeView as TreeView
    from perfkit_widgets.what_if import WhatIf as WhatIf

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    """Load a public name from its module when it is first used."""
    return lazy.load(__name__, _HOME, name)


def __dir__() -> list[str]:
    return list(__all__)
