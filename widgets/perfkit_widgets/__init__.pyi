"""Interactive views for Jupyter."""

from .bottleneck_explorer import BottleneckExplorer as BottleneckExplorer
from .cpi_stack_explorer import CpiStackExplorer as CpiStackExplorer
from .diff_view import DiffView as DiffView
from .linked import link_selection as link_selection
from .live import LiveCpiStack as LiveCpiStack
from .live import LiveRoofs as LiveRoofs
from .live import LiveSpire as LiveSpire
from .live import LiveWhatIf as LiveWhatIf
from .listing_view import ListingView as ListingView
from .noise_view import NoiseView as NoiseView
from .predict import Predict as Predict
from .predict import Reveal as Reveal
from .roofline_view import RooflineView as RooflineView
from .samples_explorer import SamplesExplorer as SamplesExplorer
from .schedule_view import ScheduleView as ScheduleView
from .sensitivity_view import SensitivityView as SensitivityView
from .source_view import SourceView as SourceView
from .spire_explorer import SpireExplorer as SpireExplorer
from .study_explorer import StudyExplorer as StudyExplorer
from .timeline_view import TimelineView as TimelineView
from .tree_view import TreeView as TreeView
from .what_if import WhatIf as WhatIf
from .your_dump import YourDump as YourDump
