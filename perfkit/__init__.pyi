"""Every public name of perfkit, by what it is for; `perfkit/__init__.py` loads each when it is first used."""

from . import collectors as collectors  # perf, valgrind, tracing, compiled kernels, the cycle clock
from . import course as course  # a class in a box: exercises on each student's own data
from . import datasets as datasets  # the data sets that ship, by name
from . import errors as errors
from . import fitters as fitters
from . import plots as plots  # static pictures (matplotlib)
from . import readers as readers
from . import scoring as scoring  # the methods against known answers
from . import simulators as simulators
from ._version import __version__ as __version__

# Why a program is slow, from the program itself.
from .collectors.profile.hot import Profile as Profile
from .diagnosis.diagnosis import Diagnosis as Diagnosis
from .diagnosis.kernel import why_kernel as why_kernel
from .diagnosis.why import why as why

# Which resource of the machine has no slack: instructions added to a kernel's innermost loop, measured.
from .diagnosis.noise import Noise as Noise
from .diagnosis.noise_result import NoiseResult as NoiseResult

# Samples: counts of hardware events over time.
from .readers.open_samples import open_samples as open_samples
from .readers.read import read_samples as read_samples
from .exploration.counts_diff import CountsDiff as CountsDiff
from .exploration.counts_diff import diff_counts as diff_counts
from .exploration.exploration import Exploration as Exploration
from .exploration.exploration import explore as explore
from .samples.areas import Areas as Areas
from .samples.fleet import Fleet as Fleet
from .samples.table import Samples as Samples

# SPIRE: which event bounds this workload; the top-down method beside it.
from .fitters.spire.fleet import FleetRankings as FleetRankings
from .fitters.spire.model import Spire as Spire
from .fitters.spire.model import SpireModel as SpireModel
from .fitters.spire.piecewise import Roofline as Roofline
from .fitters.spire.ranking import Ranking as Ranking
from .fitters.topdown import TopDown as TopDown

# Which class of resources holds a program back, from its counters: rules and a model learnt on simulated runs.
from .fitters.bottlenecks.explanation import Explanation as Explanation
from .fitters.bottlenecks.model import Bottlenecks as Bottlenecks
from .fitters.bottlenecks.stacks import LearntStacks as LearntStacks

# CPI stacks by regression: how many cycles each event costs.
from .collectors.synthetic_cpi import artefact_cpi as artefact_cpi
from .collectors.synthetic_cpi import synthetic_cpi as synthetic_cpi
from .fitters.cpi.counts import CpiCounts as CpiCounts
from .fitters.cpi.paper import PaperCpiFit as PaperCpiFit
from .fitters.cpi.paper import paper_cpi_stack as paper_cpi_stack
from .fitters.cpi.fleet import FleetStacks as FleetStacks
from .fitters.cpi.stack import CpiComparison as CpiComparison
from .fitters.cpi.stack import CpiFit as CpiFit
from .fitters.cpi.stack import CpiStack as CpiStack

# Fleets: what changed between two versions, by machine.
from .fitters.fleet_changes import FleetChanges as FleetChanges
from .fitters.fleet_changes import fleet_changes as fleet_changes

# Numbers that a notebook keeps for tables of many runs.
from .base.record import record as record

# Cores: resources, caches and what instructions cost.
from .machine.core import Microarchitecture as Microarchitecture
from .machine.floating_point import flops as flops
from .machine.floating_point import peak_flops as peak_flops
from .machine.instruction_tables import InstructionTables as InstructionTables
from .machine.overlays import calibrated_core as calibrated_core

# Gus: a traced binary on a core; which resource or instruction costs the time.
from .collectors.open_traces import open_traces as open_traces
from .simulators.gus.diff import GusDiff as GusDiff
from .simulators.gus.diff import diff as diff
from .simulators.gus.gus import Gus as Gus
from .simulators.gus.gus import GusResult as GusResult
from .simulators.gus.prepared import prepare as prepare
from .simulators.gus.sensitivity import sensitivity as sensitivity
from .simulators.gus.sensitivity import what_if as what_if
from .simulators.gus.timeline import timeline as timeline
from .simulators.gus.trace_events import save_trace_events as save_trace_events
from .simulators.pmu.simulated_pmu import SimulatedPmu as SimulatedPmu
from .trace.trace import Trace as Trace

# Basic blocks: measured here without counters, and predicted, by thousands.
from .collectors.blocks.block import Block as Block
from .collectors.blocks.cycles import BlockCycles as BlockCycles
from .collectors.blocks.cycles import measure_blocks as measure_blocks
from .simulators.gus.blocks import BlockPredictions as BlockPredictions

# Several threads: who waits for whom, and which lines of memory they share.
from .collectors.trace_threads import trace_threads as trace_threads
from .simulators.gus.threads import ThreadsResult as ThreadsResult
from .simulators.gus.threads import run_threads as run_threads
from .trace.sharing import SharedLines as SharedLines
from .trace.threads import ThreadTraces as ThreadTraces

# The extended roofline: a dependence graph scheduled on a parameterised core.
from .collectors.dag.clang_kernel import trace_c as trace_c
from .collectors.dag.numba_kernel import trace_numba as trace_numba
from .collectors.own_code import open_dags as open_dags
from .collectors.dag.x86_dag import trace_dag as trace_dag
from .dag.graph import Dag as Dag
from .simulators.dag.core import DagCore as DagCore
from .simulators.dag.measures import ExtendedRoofline as ExtendedRoofline
from .simulators.dag.measures import Schedule as Schedule
from .simulators.dag.schedule import DagScheduler as DagScheduler
from .simulators.dag.branches import predict_branches as predict_branches
from .simulators.dag.relax import Relaxation as Relaxation
from .simulators.dag.relax import relax as relax
from .simulators.dag.schedule import rescheduler as rescheduler
from .simulators.dag.sweep import sweep as sweep

# Studies (MARTA): spaces of microbenchmarks, measured and mined.
from .collectors.microbenchmark.collector import Microbenchmark as Microbenchmark
from .fitters.studies.analysis import Analysis as Analysis
from .fitters.studies.categories import Categories as Categories
from .fitters.studies.categories import FixedBins as FixedBins
from .fitters.studies.categories import KdeCategories as KdeCategories
from .fitters.studies.categories import KMeansCategories as KMeansCategories
from .fitters.studies.classifier import Classification as Classification
from .fitters.studies.classifier import Classifier as Classifier
from .fitters.studies.decision_tree import DecisionTree as DecisionTree
from .fitters.studies.decision_tree import Tree as Tree
from .fitters.studies.random_forest import Importance as Importance
from .fitters.studies.random_forest import RandomForest as RandomForest
from .study.runs import StudyRuns as StudyRuns
from .study.study import Study as Study

# Which of two kernels, builds, compilers or commits is faster.
from .collectors.host.compare import compare as compare
from .collectors.host.comparison import KernelComparison as KernelComparison

# What every error of perfkit is.
from .errors import PerfkitError as PerfkitError
