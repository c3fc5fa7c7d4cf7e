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
    "Areas": "perfkit.samples.areas",
    "CpiComparison": "perfkit.fitters.cpi.stack",
    "CpiCounts": "perfkit.fitters.cpi.counts",
    "CpiFit": "perfkit.fitters.cpi.stack",
    "CpiStack": "perfkit.fitters.cpi.stack",
    "PaperCpiFit": "perfkit.fitters.cpi.paper",
    "paper_cpi_stack": "perfkit.fitters.cpi.paper",
    "artefact_cpi": "perfkit.collectors.synthetic_cpi",
    "synthetic_cpi": "perfkit.collectors.synthetic_cpi",
    "Gus": "perfkit.simulators.gus.gus",
    "flops": "perfkit.machine.floating_point",
    "peak_flops": "perfkit.machine.floating_point",
    "open_traces": "perfkit.collectors.open_traces",
    "GusResult": "perfkit.simulators.gus.gus",
    "InstructionTables": "perfkit.machine.instruction_tables",
    "Microarchitecture": "perfkit.machine.core",
    "calibrated_core": "perfkit.machine.overlays",
    "KernelComparison": "perfkit.collectors.host.comparison",
    "compare": "perfkit.collectors.host.compare",
    "Dag": "perfkit.dag.graph",
    "DagCore": "perfkit.simulators.dag.core",
    "DagScheduler": "perfkit.simulators.dag.schedule",
    "ExtendedRoofline": "perfkit.simulators.dag.extended_roofline",
    "Schedule": "perfkit.simulators.dag.measures",
    "rescheduler": "perfkit.simulators.dag.schedule",
    "sweep": "perfkit.simulators.dag.sweep",
    "trace_c": "perfkit.collectors.dag.clang_kernel",
    "trace_dag": "perfkit.collectors.dag.x86_dag",
    "trace_numba": "perfkit.collectors.dag.numba_kernel",
    "PerfkitError": "perfkit.errors",
    "Roofline": "perfkit.fitters.spire.piecewise",
    "Samples": "perfkit.samples.table",
    "SimulatedPmu": "perfkit.simulators.pmu.simulated_pmu",
    "Spire": "perfkit.fitters.spire.model",
    "Ranking": "perfkit.fitters.spire.ranking",
    "SpireModel": "perfkit.fitters.spire.model",
    "TopDown": "perfkit.fitters.topdown",
    "open_samples": "perfkit.readers.open_samples",
    "read_samples": "perfkit.readers",
    "Analysis": "perfkit.fitters.studies.analysis",
    "Categories": "perfkit.fitters.studies.categories",
    "DecisionTree": "perfkit.fitters.studies.decision_tree",
    "FixedBins": "perfkit.fitters.studies.categories",
    "Importance": "perfkit.fitters.studies.random_forest",
    "KdeCategories": "perfkit.fitters.studies.categories",
    "Microbenchmark": "perfkit.collectors.microbenchmark",
    "RandomForest": "perfkit.fitters.studies.random_forest",
    "Study": "perfkit.study.study",
    "StudyRuns": "perfkit.study.runs",
    "Tree": "perfkit.fitters.studies.decision_tree",
    "Trace": "perfkit.trace.trace",
    "prepare": "perfkit.simulators.gus.prepared",
    "sensitivity": "perfkit.simulators.gus.sensitivity",
    "timeline": "perfkit.simulators.gus.timeline",
    "what_if": "perfkit.simulators.gus.sensitivity",
}
_MODULES = ("collectors", "datasets", "errors", "fitters", "plots", "readers", "scoring", "simulators")

if TYPE_CHECKING:
    from perfkit.collectors.dag.clang_kernel import trace_c as trace_c
    from perfkit.collectors.dag.numba_kernel import trace_numba as trace_numba
    from perfkit.collectors.dag.x86_dag import trace_dag as trace_dag
    from perfkit.collectors.host.compare import compare as compare
    from perfkit.collectors.host.comparison import KernelComparison as KernelComparison
    from perfkit.collectors.microbenchmark import Microbenchmark as Microbenchmark
    from perfkit.collectors.open_traces import open_traces as open_traces
    from perfkit.collectors.synthetic_cpi import artefact_cpi as artefact_cpi
    from perfkit.collectors.synthetic_cpi import synthetic_cpi as synthetic_cpi
    from perfkit.dag.graph import Dag as Dag
    from perfkit.errors import PerfkitError as PerfkitError
    from perfkit.fitters.cpi.counts import CpiCounts as CpiCounts
    from perfkit.fitters.cpi.paper import PaperCpiFit as PaperCpiFit
    from perfkit.fitters.cpi.paper import paper_cpi_stack as paper_cpi_stack
    from perfkit.fitters.cpi.stack import CpiComparison as CpiComparison
    from perfkit.fitters.cpi.stack import CpiFit as CpiFit
    from perfkit.fitters.cpi.stack import CpiStack as CpiStack
    from perfkit.fitters.spire.model import Spire as Spire
    from perfkit.fitters.spire.model import SpireModel as SpireModel
    from perfkit.fitters.spire.piecewise import Roofline as Roofline
    from perfkit.fitters.spire.ranking import Ranking as Ranking
    from perfkit.fitters.studies.analysis import Analysis as Analysis
    from perfkit.fitters.studies.categories import Categories as Categories
    from perfkit.fitters.studies.categories import FixedBins as FixedBins
    from perfkit.fitters.studies.categories import KdeCategories as KdeCategories
    from perfkit.fitters.studies.decision_tree import DecisionTree as DecisionTree
    from perfkit.fitters.studies.decision_tree import Tree as Tree
    from perfkit.fitters.studies.random_forest import Importance as Importance
    from perfkit.fitters.studies.random_forest import RandomForest as RandomForest
    from perfkit.fitters.topdown import TopDown as TopDown
    from perfkit.machine.core import Microarchitecture as Microarchitecture
    from perfkit.machine.floating_point import flops as flops
    from perfkit.machine.floating_point import peak_flops as peak_flops
    from perfkit.machine.instruction_tables import InstructionTables as InstructionTables
    from perfkit.machine.overlays import calibrated_core as calibrated_core
    from perfkit.readers import read_samples as read_samples
    from perfkit.readers.open_samples import open_samples as open_samples
    from perfkit.samples.areas import Areas as Areas
    from perfkit.samples.table import Samples as Samples
    from perfkit.simulators.dag.core import DagCore as DagCore
    from perfkit.simulators.dag.extended_roofline import ExtendedRoofline as ExtendedRoofline
    from perfkit.simulators.dag.measures import Schedule as Schedule
    from perfkit.simulators.dag.schedule import DagScheduler as DagScheduler
    from perfkit.simulators.dag.schedule import rescheduler as rescheduler
    from perfkit.simulators.dag.sweep import sweep as sweep
    from perfkit.simulators.gus.gus import Gus as Gus
    from perfkit.simulators.gus.gus import GusResult as GusResult
    from perfkit.simulators.gus.prepared import prepare as prepare
    from perfkit.simulators.gus.sensitivity import sensitivity as sensitivity
    from perfkit.simulators.gus.sensitivity import what_if as what_if
    from perfkit.simulators.gus.timeline import timeline as timeline
    from perfkit.simulators.pmu.simulated_pmu import SimulatedPmu as SimulatedPmu
    from perfkit.study.runs import StudyRuns as StudyRuns
    from perfkit.study.study import Study as Study
    from perfkit.trace.trace import Trace as Trace

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
