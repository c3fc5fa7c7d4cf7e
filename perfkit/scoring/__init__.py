"""Scores of the methods that infer, against the known answers of simulated runs (`perfkit.simulators.pmu.truth`).

SPIRE ranks events, a CPI stack by regression gives each event cycles, the extended roofline names roofs, MARTA's forest
ranks dimensions. On simulated runs each of them can be right or wrong, and is counted. Nothing here is fitted to the
simulator: what an event, a roof or a cause stands for is fixed in `perfkit.scoring.evidence`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
