"""Measured or generated inputs, by what they are for."""

from . import synthetic as synthetic  # samples with known ceilings
from . import synthetic_cpi as synthetic_cpi  # samples with a known CPI stack
from .synthetic_fleet import generate_fleet as generate_fleet  # a folder of samples with a planted regression

# Counts of hardware events.
from .cachegrind import Cachegrind as Cachegrind
from .perf_stat import PerfStat as PerfStat

# Kernels: compiled, run, recorded.
from .kernels import Kernel as Kernel
from .kernels import compile_kernel as compile_kernel
from .kernels import corpus as corpus
from .kernels import corpus_kernel as corpus_kernel
from .kernels import library_kernel as library_kernel
from .tracer.tracer import Tracer as Tracer

# Time on this machine.
from .host.true_cycles import true_cycles as true_cycles
from .microbenchmark.collector import Microbenchmark as Microbenchmark
