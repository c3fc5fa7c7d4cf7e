"""Measured or generated inputs: tables of samples, studies and traces. Collectors never analyse."""

from typing import Any

from perfkit import lazy

# Public name -> the module that defines it, imported when the name is first used.
_HOME = {
    "Cachegrind": "perfkit.collectors.cachegrind",
    "Kernel": "perfkit.collectors.kernels",
    "Microbenchmark": "perfkit.collectors.microbenchmark",
    "SimulatedPmu": "perfkit.simulators.pmu.simulated_pmu",
    "PerfStat": "perfkit.collectors.perf_stat",
    "Tracer": "perfkit.collectors.tracer.tracer",
    "compile_kernel": "perfkit.collectors.kernels",
    "corpus": "perfkit.collectors.kernels",
    "corpus_kernel": "perfkit.collectors.kernels",
    "library_kernel": "perfkit.collectors.kernels",
    "true_cycles": "perfkit.collectors.host.true_cycles",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    """Load a public name from its module when it is first used."""
    return lazy.load(__name__, _HOME, name)


def __dir__() -> list[str]:
    return __all__
