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
    "Microarchitecture": "perfkit.microarchitecture",
    "PerfkitError": "perfkit.errors",
    "Samples": "perfkit.samples",
    "Trace": "perfkit.trace",
}
_MODULES = ("collectors", "datasets", "errors", "fitters", "plots", "readers", "simulators")

if TYPE_CHECKING:
    from perfkit.errors import PerfkitError as PerfkitError
    from perfkit.microarchitecture import Microarchitecture as Microarchitecture
    from perfkit.samples import Samples as Samples
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
