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
    "CpiComparison": "perfkit.fitters.cpi_comparison",
    "CpiCounts": "perfkit.fitters.cpi_counts",
    "CpiFit": "perfkit.fitters.cpi_stack",
    "CpiStack": "perfkit.fitters.cpi_stack",
    "PaperCpiFit": "perfkit.fitters.paper_cpi_stack",
    "paper_cpi_stack": "perfkit.fitters.paper_cpi_stack",
    "artefact_cpi": "perfkit.collectors.synthetic_cpi",
    "synthetic_cpi": "perfkit.collectors.synthetic_cpi",
    "Gus": "perfkit.simulators.gus",
    "InstructionTables": "perfkit.instruction_tables",
    "Microarchitecture": "perfkit.microarchitecture",
    "PerfkitError": "perfkit.errors",
    "Roofline": "perfkit.roofline",
    "Samples": "perfkit.samples",
    "Spire": "perfkit.fitters.spire",
    "SpireModel": "perfkit.fitters.spire",
    "read_samples": "perfkit.readers",
    "causality": "perfkit.simulators.causality",
    "sensitivity": "perfkit.simulators.sensitivity",
    "Trace": "perfkit.trace",
}
_MODULES = ("collectors", "datasets", "errors", "fitters", "plots", "readers", "simulators")

if TYPE_CHECKING:
    from perfkit.collectors.synthetic_cpi import artefact_cpi as artefact_cpi
    from perfkit.collectors.synthetic_cpi import synthetic_cpi as synthetic_cpi
    from perfkit.errors import PerfkitError as PerfkitError
    from perfkit.fitters.cpi_comparison import CpiComparison as CpiComparison
    from perfkit.fitters.cpi_counts import CpiCounts as CpiCounts
    from perfkit.fitters.cpi_stack import CpiFit as CpiFit
    from perfkit.fitters.cpi_stack import CpiStack as CpiStack
    from perfkit.fitters.paper_cpi_stack import PaperCpiFit as PaperCpiFit
    from perfkit.fitters.paper_cpi_stack import paper_cpi_stack as paper_cpi_stack
    from perfkit.fitters.spire import Spire as Spire
    from perfkit.fitters.spire import SpireModel as SpireModel
    from perfkit.instruction_tables import InstructionTables as InstructionTables
    from perfkit.microarchitecture import Microarchitecture as Microarchitecture
    from perfkit.readers import read_samples as read_samples
    from perfkit.roofline import Roofline as Roofline
    from perfkit.samples import Samples as Samples
    from perfkit.simulators.causality import causality as causality
    from perfkit.simulators.gus import Gus as Gus
    from perfkit.simulators.sensitivity import sensitivity as sensitivity
    from perfkit.trace import Trace as Trace

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
