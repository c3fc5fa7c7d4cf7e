"""An unknown dump explored: what it is, which methods it allows and why not the others, and what to measure next."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perfkit.exploration.exploration import Exploration as Exploration
    from perfkit.exploration.exploration import explore as explore

__all__ = ["Exploration", "explore"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module("perfkit.exploration.exploration"), name)
    raise AttributeError(f"module 'perfkit.exploration' has no attribute {name!r}")
