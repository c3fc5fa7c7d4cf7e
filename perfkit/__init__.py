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
    "Dag": "perfkit.dag",
    "DagCore": "perfkit.simulators.dag_core",
    "DagScheduler": "perfkit.simulators.dag_schedule",
    "ExtendedRoofline": "perfkit.simulators.extended_roofline",
    "Schedule": "perfkit.simulators.dag_measures",
    "sweep": "perfkit.simulators.dag_schedule",
    "trace_c": "perfkit.collectors.clang_kernel",
    "trace_numba": "perfkit.collectors.numba_kernel",
    "PerfkitError": "perfkit.errors",
    "Samples": "perfkit.samples",
}
_MODULES = ("collectors", "datasets", "errors", "fitters", "plots", "readers", "simulators")

if TYPE_CHECKING:
    from perfkit.collectors.clang_kernel import trace_c as trace_c
    from perfkit.collectors.numba_kernel import trace_numba as trace_numba
    from perfkit.dag import Dag as Dag
    from perfkit.errors import PerfkitError as PerfkitError
    from perfkit.samples import Samples as Samples
    from perfkit.simulators.dag_core import DagCore as DagCore
    from perfkit.simulators.dag_measures import Schedule as Schedule
    from perfkit.simulators.dag_schedule import DagScheduler as DagScheduler
    from perfkit.simulators.dag_schedule import sweep as sweep
    from perfkit.simulators.extended_roofline import ExtendedRoofline as ExtendedRoofline

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
