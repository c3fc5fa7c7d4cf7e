"""The command line: ``perfkit``. Each command group is a module of this package; only here does perfkit print."""

try:
    from perfkit.cli.main import main
except (KeyboardInterrupt, RuntimeError) as stopped:  # Ctrl-C while it starts: end quietly, as amid a command
    # Of one that came in a `__set_name__` Python makes a RuntimeError before 3.12.
    if isinstance(stopped, RuntimeError) and not isinstance(stopped.__cause__, KeyboardInterrupt):
        raise
    raise SystemExit(130) from None

__all__ = ["main"]
