"""Answers as they were when they were last looked at: what results say and hold, in files beside the tests.

A test of these says that a change of the code changed an answer, not that the answer is right: that others say. Where
the change is meant, ``python -m tests.recorded [FOLDER...]`` writes the files of ``tests/FOLDER`` anew; read their
difference before it is committed.
"""

import json
import math
import re
import sys
import zlib
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

MODULES = {
    "readers": "tests.readers.test_read_as_before",
    "fitters": "tests.fitters.test_answers_as_before",
    "simulators": "tests.simulators.test_answers_as_before",
}
_FEW = 6  # values of a column that are kept one by one
_DIGITS = 10
_NEAR = 1e-6


def held(values: Any) -> Any:
    """Return what a result, a table or a number holds, as JSON keeps it."""
    if isinstance(values, pd.Series):
        return {"index": _column(pd.Series(values.index.astype(str))), "values": _column(values.reset_index(drop=True))}
    if isinstance(values, pd.DataFrame):
        table = values.reset_index(drop=isinstance(values.index, pd.RangeIndex))
        return {f"{i} {name}": _column(table.iloc[:, i]) for i, name in enumerate(table.columns)}
    if isinstance(values, dict):
        return {str(k): held(v) for k, v in values.items()}
    if isinstance(values, np.ndarray):
        return _column(pd.Series(values.reshape(-1)))
    if isinstance(values, list | tuple | set | frozenset):
        return [held(v) for v in (sorted(values) if isinstance(values, set | frozenset) else values)]
    if isinstance(values, bool | np.bool_ | str | type(None)):
        return values if values is None or isinstance(values, str) else bool(values)
    if isinstance(values, int | float | np.number):
        return _number(float(values))
    told: dict[str, Any] = {"said": _said(str(values))}
    if hasattr(values, "to_frame"):
        told["table"] = held(values.to_frame())
    return told


def _column(column: "pd.Series[Any]") -> Any:
    """Return a column value by value, or of many their number, sum, and a sum that knows their order."""
    if not (pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)):
        texts = [_said(str(v))[0] if str(v) else "" for v in column.tolist()]
        return texts if len(texts) <= _FEW else f"{len(texts)} {zlib.crc32(json.dumps(texts).encode()):08x}"
    values = column.to_numpy(dtype="float64")
    if len(values) <= _FEW:
        return [_number(v) for v in values.tolist()]
    finite = np.where(np.isfinite(values), values, 0.0)
    order = 1 + np.arange(len(values)) * 7919 % 101 / 101
    return [len(values), int(np.isnan(values).sum()), _number(finite.sum()), _number((finite * order).sum())]


def _number(value: float) -> float | str:
    return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else str(value)


def _said(text: str) -> list[str]:
    """Return the lines of a text, without what differs between machines: folders."""
    return [re.sub(r"(?:/[\w.+-]+){2,}/", "FOLDER/", line).rstrip() for line in text.splitlines()] or [""]


def differences(was: Any, now: Any, where: str = "") -> list[str]:
    """Return where two answers differ, a line for each place; numbers differ from a millionth on."""
    if isinstance(was, dict) and isinstance(now, dict):
        keys = [*was, *(k for k in now if k not in was)]
        return [x for k in keys for x in differences(was.get(k, "nothing"), now.get(k, "nothing"), f"{where}/{k}")]
    if isinstance(was, list) and isinstance(now, list) and len(was) == len(now):
        return [x for i, (a, b) in enumerate(zip(was, now, strict=True)) for x in differences(a, b, f"{where}[{i}]")]
    if all(isinstance(v, int | float) and not isinstance(v, bool) for v in (was, now)):
        return [] if math.isclose(was, now, rel_tol=_NEAR, abs_tol=1e-9) else [f"{where}: {was} was, {now} is"]
    return [] if was == now else [f"{where}: {was!r} was, {now!r} is"]


@cache
def kept(file: Path) -> dict[str, Any]:
    """Return the answers of a file, by case."""
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def write(file: Path, cases: dict[str, Callable[[], Any]]) -> None:
    """Write the answers of all cases, a line for each."""
    rows = [f"{json.dumps(name)}: {json.dumps(held(make()), ensure_ascii=False)}" for name, make in cases.items()]
    file.write_text("{\n" + ",\n".join(rows) + "\n}\n")


if __name__ == "__main__":
    for folder in sys.argv[1:] or MODULES:
        module = import_module(MODULES[folder])
        write(module.FILE, module.CASES)
