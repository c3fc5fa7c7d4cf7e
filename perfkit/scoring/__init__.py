"""Scores of the methods that infer, against the known answers of simulated runs (`perfkit.simulators.pmu.truth`).

SPIRE ranks events, a CPI stack by regression gives each event cycles, the extended roofline names roofs, MARTA's forest
ranks dimensions. On simulated runs each of them can be right or wrong, and is counted. Nothing here is fitted to the
simulator: what an event, a roof or a cause stands for is fixed in `perfkit.scoring.evidence`.
"""

from typing import Any

from perfkit import lazy

# Public name -> the module that defines it, imported when the name is first used.
_HOME = {
    "Evidence": "perfkit.scoring.evidence",
    "RankScore": "perfkit.scoring.ranks",
    "Scores": "perfkit.scoring.scores",
    "importance_scores": "perfkit.scoring.importances",
    "rank_score": "perfkit.scoring.ranks",
    "roof_scores": "perfkit.scoring.roofs",
    "spire_scores": "perfkit.scoring.spire",
    "stack_scores": "perfkit.scoring.stacks",
    "topdown_scores": "perfkit.scoring.spire",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    """Load a public name from its module when it is first used."""
    return lazy.load(__name__, _HOME, name)


def __dir__() -> list[str]:
    return __all__
