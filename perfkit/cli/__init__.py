"""The command line: ``perfkit``. Each command group is a module of this package; only here does perfkit print."""

from perfkit.cli.main import main

__all__ = ["main"]
