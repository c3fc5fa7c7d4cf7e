"""The command line: ``perfkit``. Each command group is a module of this package; only here does perfkit print."""

try:
    from perfkit.cli.main import main
except KeyboardInterrupt:  # Ctrl-C while the program starts: end quietly, as in the middle of a command
    raise SystemExit(130) from None

__all__ = ["main"]
