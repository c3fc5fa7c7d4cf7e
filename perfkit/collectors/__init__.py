"""Measured or generated inputs: tables of samples, studies and traces. Collectors never analyse."""

from importlib import import_module
from typing import Any

# Loaded when first used: `import perfkit` stays fast.
_HOME = {"Microbenchmark": "perfkit.collectors.microbenchmark"}


def __getattr__(name: str) -> Any:
    """Load a collector when it is first used."""
    if name not in _HOME:
        raise AttributeError(f"module 'perfkit.collectors' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
