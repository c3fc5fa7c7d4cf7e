"""Inference from tables: settings objects whose ``fit`` returns a new result."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any


def __getattr__(name: str) -> Any:
    """Load a fitter's module when it is first used, so that ``perfkit.fitters.topdown`` needs no import of its own."""
    if not name.startswith("_") and find_spec(f"{__name__}.{name}") is not None:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module 'perfkit.fitters' has no attribute {name!r}")
