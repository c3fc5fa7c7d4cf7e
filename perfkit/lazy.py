"""Public names of a package that are imported from their modules when they are first used."""

import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any


def load(package: str, home: Mapping[str, str], name: str) -> Any:
    """Return a package's public name, and keep it there; ``home`` says which module defines each.

    Raises
    ------
    AttributeError
        The package has no such name.
    """
    if name not in home:
        raise AttributeError(f"module {package!r} has no attribute {name!r}; it has: {', '.join(sorted(home))}")
    value = getattr(import_module(home[name]), name)
    setattr(sys.modules[package], name, value)
    return value
