"""perfkit: find out why code is slow.

Five published methods on one set of types: SPIRE, MARTA's studies, the extended roofline, Gus and CPI stacks.
Start with ``import perfkit as pk`` and ``pk.read_samples(path)``, or open ``notebooks/00_tour.ipynb``.

Names are loaded when they are first used (PEP 562), so that ``import perfkit`` costs a few milliseconds.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from perfkit._version import __version__

# Public name -> the module that defines it.
_HOME = {
    "Areas": "perfkit.areas",
    "CpiComparison": "perfkit.fitters.cpi_comparison",
    "CpiCounts": "perfkit.fitters.cpi_counts",
    "CpiFit": "perfkit.fitters.cpi_stack",
    "CpiStack": "perfkit.fitters.cpi_stack",
    "PaperCpiFit": "perfkit.fitters.paper_cpi_stack",
    "paper_cpi_stack": "perfkit.fitters.paper_cpi_stack",
    "artefact_cpi": "perfkit.collectors.synthetic_cpi",
    "synthetic_cpi": "perfkit.collectors.synthetic_cpi",
    "Gus": "perfkit.simulators.gus",
    "flops": "perfkit.floating_point",
    "peak_flops": "perfkit.floating_point",
    "open_traces": "perfkit.trace_sources",
    "GusResult": "perfkit.simulators.gus",
    "InstructionTables": "perfkit.instruction_tables",
    "Microarchitecture": "perfkit.microarchitecture",
    "calibrated_core": "perfkit.instruction_tables",
    "Dag": "perfkit.dag",
    "DagCore": "perfkit.simulators.dag_core",
    "DagScheduler": "perfkit.simulators.dag_schedule",
    "ExtendedRoofline": "perfkit.simulators.extended_roofline",
    "Schedule": "perfkit.simulators.dag_measures",
    "rescheduler": "perfkit.simulators.dag_schedule",
    "sweep": "perfkit.simulators.dag_sweep",
    "trace_c": "perfkit.collectors.clang_kernel",
    "trace_dag": "perfkit.collectors.x86_dag",
    "trace_numba": "perfkit.collectors.numba_kernel",
    "PerfkitError": "perfkit.errors",
    "Roofline": "perfkit.roofline",
    "Samples": "perfkit.samples",
    "SimulatedPmu": "perfkit.collectors.simulated_pmu",
    "Spire": "perfkit.fitters.spire",
    "Ranking": "perfkit.fitters.spire_ranking",
    "SpireModel": "perfkit.fitters.spire",
    "TopDown": "perfkit.fitters.topdown",
    "open_samples": "perfkit.sources",
    "read_samples": "perfkit.readers",
    "Analysis": "perfkit.fitters.analysis",
    "Categories": "perfkit.fitters.categories",
    "DecisionTree": "perfkit.fitters.decision_tree",
    "FixedBins": "perfkit.fitters.categories",
    "Importance": "perfkit.fitters.random_forest",
    "KdeCategories": "perfkit.fitters.categories",
    "Microbenchmark": "perfkit.collectors.microbenchmark",
    "RandomForest": "perfkit.fitters.random_forest",
    "Study": "perfkit.study",
    "StudyRuns": "perfkit.study_runs",
    "Tree": "perfkit.fitters.decision_tree",
    "Trace": "perfkit.trace",
    "prepare": "perfkit.simulators.prepared",
    "sensitivity": "perfkit.simulators.sensitivity",
    "timeline": "perfkit.simulators.timeline",
    "what_if": "perfkit.simulators.sensitivity",
}
_MODULES = ("collectors", "datasets", "errors", "fitters", "plots", "readers", "scoring", "simulators")

if TYPE_CHECKING:
    from perfkit.areas import Areas as Areas
    from perfkit.collectors.clang_kernel import trace_c as trace_c
    from perfkit.collectors.microbenchmark import Microbenchmark as Microbenchmark
    from perfkit.collectors.numba_kernel import trace_numba as trace_numba
    from perfkit.collectors.simulated_pmu import SimulatedPmu as SimulatedPmu
    from perfkit.collectors.synthetic_cpi import artefact_cpi as artefact_cpi
    from perfkit.collectors.synthetic_cpi import synthetic_cpi as synthetic_cpi
    from perfkit.collectors.x86_dag import trace_dag as trace_dag
    from perfkit.dag import Dag as Dag
    from perfkit.errors import PerfkitError as PerfkitError
    from perfkit.fitters.analysis import Analysis as Analysis
    from perfkit.fitters.categories import Categories as Categories
    from perfkit.fitters.categories import FixedBins as FixedBins
    from perfkit.fitters.categories import KdeCategories as KdeCategories
    from perfkit.fitters.cpi_comparison import CpiComparison as CpiComparison
    from perfkit.fitters.cpi_counts import CpiCounts as CpiCounts
    from perfkit.fitters.cpi_stack import CpiFit as CpiFit
    from perfkit.fitters.cpi_stack import CpiStack as CpiStack
    from perfkit.fitters.decision_tree import DecisionTree as DecisionTree
    from perfkit.fitters.decision_tree import Tree as Tree
    from perfkit.fitters.paper_cpi_stack import PaperCpiFit as PaperCpiFit
    from perfkit.fitters.paper_cpi_stack import paper_cpi_stack as paper_cpi_stack
    from perfkit.fitters.random_forest import Importance as Importance
    from perfkit.fitters.random_forest import RandomForest as RandomForest
    from perfkit.fitters.spire import Spire as Spire
    from perfkit.fitters.spire import SpireModel as SpireModel
    from perfkit.fitters.spire_ranking import Ranking as Ranking
    from perfkit.fitters.topdown import TopDown as TopDown
    from perfkit.floating_point import flops as flops
    from perfkit.floating_point import peak_flops as peak_flops
    from perfkit.instruction_tables import InstructionTables as InstructionTables
    from perfkit.instruction_tables import calibrated_core as calibrated_core
    from perfkit.microarchitecture import Microarchitecture as Microarchitecture
    from perfkit.readers import read_samples as read_samples
    from perfkit.roofline import Roofline as Roofline
    from perfkit.samples import Samples as Samples
    from perfkit.simulators.dag_core import DagCore as DagCore
    from perfkit.simulators.dag_measures import Schedule as Schedule
    from perfkit.simulators.dag_schedule import DagScheduler as DagScheduler
    from perfkit.simulators.dag_schedule import rescheduler as rescheduler
    from perfkit.simulators.dag_sweep import sweep as sweep
    from perfkit.simulators.extended_roofline import ExtendedRoofline as ExtendedRoofline
    from perfkit.simulators.gus import Gus as Gus
    from perfkit.simulators.gus import GusResult as GusResult
    from perfkit.simulators.prepared import prepare as prepare
    from perfkit.simulators.sensitivity import sensitivity as sensitivity
    from perfkit.simulators.sensitivity import what_if as what_if
    from perfkit.simulators.timeline import timeline as timeline
    from perfkit.sources import open_samples as open_samples
    from perfkit.study import Study as Study
    from perfkit.study_runs import StudyRuns as StudyRuns
    from perfkit.trace import Trace as Trace
    from perfkit.trace_sources import open_traces as open_traces

__all__ = ["__version__", *sorted(_HOME), *_MODULES]


def __getattr__(name: str) -> Any:
    """Load a public name from its module when it is first used."""
    if name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
    elif name in _MODULES:
        value = import_module(f"perfkit.{name}")
    else:
        raise AttributeError(f"module 'perfkit' has no attribute {name!r}; it has: {', '.join(__all__)}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
