"""Every dump beside the tests, whole, damaged and with options: what is read and said is as kept in ``as-before.json``.

The readers' behaviour is frozen: what a change of the code changes, this says (`tests.recorded`); what is right, the
other tests say.
"""

import json
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
import pytest

import perfkit as pk
from perfkit.errors import PerfkitError
from tests.recorded import differences, held, kept

HERE = Path(__file__).parent
FILE = HERE / "as-before.json"
DUMPS = sorted(
    p for f in ("dialects", "fixtures") for p in (HERE / f).iterdir() if p.suffix not in (".toml", ".md", ".xz")
)
_DIGITS = 9


def read_as(data: bytes, name: str, **asked: Any) -> Any:
    """Return all that is read and said of a dump, or why it is refused."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        try:
            samples = pk.read_samples(path, **asked)
        except PerfkitError as refused:
            return str(refused).replace(folder, "FOLDER")
    notes = [n.replace(folder, "FOLDER") for n in samples.notes]
    axes = [samples.time_event, samples.work_event]
    rest = [samples.problems, samples.accounting, samples.runs.drop(columns="kind"), samples.describe()]
    return [notes, axes, {name: _code(samples.table[name]) for name in samples.table}, [_code(t) for t in rest]]


def _code(values: "pd.Series[Any] | pd.DataFrame") -> str:
    table = values.to_frame() if isinstance(values, pd.Series) else values.reset_index()
    cells = [
        [f"{v:.{_DIGITS}g}" if isinstance(v, float) else str(v) for v in column.tolist()] for _, column in table.items()
    ]
    return f"{zlib.crc32(json.dumps([list(map(str, table.columns)), cells]).encode()):08x}"


def variants(data: bytes) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """Give a dump with options, and damaged in ways that files are damaged: cut, a line lost, doubled or joined."""
    yield data, {"errors": "collect"}
    yield data, {"cumulative": True}
    yield data, {"cumulative": False}
    yield data, {"time_event": "seconds"}
    lines = data.splitlines(keepends=True)
    for at in [zlib.crc32(data) % len(lines)] if lines else []:
        yield b"".join([*lines[:at], *lines[at + 1 :]]), {"errors": "collect"}
        yield b"".join([*lines[:at], lines[at], *lines[at:]]), {"errors": "collect"}
        yield b"".join([*lines[:at], lines[at].rstrip(b"\r\n"), *lines[at + 1 :]]), {"errors": "collect"}
        yield b"".join([*lines[:at], lines[at].replace(b"1", b"x", 1), *lines[at + 1 :]]), {"errors": "collect"}
        yield b"".join([*lines[:at], lines[at][: len(lines[at]) // 2]]), {"errors": "collect"}
    yield data + data, {"errors": "collect"}
    yield data.replace(b"\n", b"\r\n"), {}


def one(path: Path) -> Any:
    data = path.read_bytes()
    others = [json.dumps(read_as(d, path.name, **asked)) for d, asked in variants(data)]
    return [read_as(data, path.name), " ".join(f"{zlib.crc32(text.encode()) & 0xFFFF:04x}" for text in others)]


CASES: dict[str, Callable[[], Any]] = {f"{p.parent.name}/{p.name}": partial(one, p) for p in DUMPS}


@pytest.mark.parametrize("name", CASES)
def test_a_dump_is_read_as_it_was(name):
    assert differences(kept(FILE)[name], held(CASES[name]())) == []


def test_nothing_is_kept_of_a_dump_that_is_gone():
    assert list(kept(FILE)) == list(CASES)
