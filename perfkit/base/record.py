"""`record`: a number of a notebook's run that tables of many runs are made of (the idea of scrapbook)."""

import math
import sys
from typing import Any

from perfkit.errors import SettingError

RECORD_TYPE = "application/vnd.perfkit.record+json"


def record(name: str, value: Any) -> None:
    """Keep a result of a notebook's cell under a name, and show it; `perfkit report --grid` tabulates what runs kept.

    Parameters
    ----------
    name : str
        The column of the table.
    value : number, text or bool
        Also a NumPy scalar. NaN is kept as missing.

    Raises
    ------
    SettingError
        There is no name, or the value is a table, a list or another object: record its numbers one by one.

    Examples
    --------
    >>> record("cycles", 1200)
    cycles = 1200
    """
    plain = value.item() if hasattr(value, "item") and getattr(value, "size", 1) == 1 else value
    if not str(name).strip():
        raise SettingError(f"a recorded result needs a name; found {name!r}")
    if not isinstance(plain, int | float | str | bool):
        raise SettingError(f"record takes a number, a text or a bool; {name!r} is {type(value).__name__}")
    if isinstance(plain, float) and math.isinf(plain):
        raise SettingError(f"record takes finite numbers; {name!r} is {plain}")
    kept = None if isinstance(plain, float) and math.isnan(plain) else plain
    shown = f"{name} = {plain:.6g}" if isinstance(plain, float) else f"{name} = {plain}"
    notebook = sys.modules.get("IPython.display")  # there in every kernel; perfkit itself needs no notebook library
    shell = sys.modules.get("IPython")
    if notebook is None or shell is None or shell.get_ipython() is None:
        sys.stdout.write(f"{shown}\n")
        return
    notebook.display({"text/plain": shown, RECORD_TYPE: {"name": name, "value": kept}}, raw=True)
