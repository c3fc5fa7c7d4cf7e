"""Readers of counter dumps: one format a file, each recognised by its content."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perfkit.readers.read import read_samples as read_samples

__all__ = ["read_samples"]


def __getattr__(name: str) -> Any:
    if name == "read_samples":
        return import_module("perfkit.readers.read").read_samples
    raise AttributeError(f"module 'perfkit.readers' has no attribute {name!r}")
