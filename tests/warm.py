"""Kernels of many notebooks, forked from one process that has imported what any of them does (`warm_kernels`).

The runs with the defaults (`tests/notebooks`) start theirs, and import for themselves.
"""

from functools import cache
from pathlib import Path

from perfkit.cli.warm_kernels import names_in as names_of

FOLDER = Path(__file__).parents[1] / "notebooks"


@cache
def _all_names() -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for path in sorted(FOLDER.rglob("*.ipynb")) for name in names_of(path)))


def names_in(path: Path) -> tuple[str, ...]:
    """Return what all notebooks import; nothing for one whose kernel is started as usual."""
    return _all_names() if names_of(path) else ()
