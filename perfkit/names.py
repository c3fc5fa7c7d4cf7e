"""Suggest the nearest known name when a user writes an unknown one."""

import difflib
from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str], shown: int = 12) -> str:
    """Say which known name is meant, or list what is known.

    Examples
    --------
    >>> did_you_mean("dimension", ["dimensions", "kernel"])
    "did you mean 'dimensions'?"
    """
    known = [str(item) for item in known]
    close = difflib.get_close_matches(str(name), known, n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]!r}?"
    listed = ", ".join(known[:shown]) + (f" and {len(known) - shown} more" if len(known) > shown else "")
    return f"known: {listed or '(none)'}"
