"""Damage files at random and open them: whatever comes but a result or a PerfkitError is a finding.

``./kit fuzz --seconds 60`` mutates the readers' fixtures and small files of perfkit's own (traces, graphs, simulations,
models), opens each in a child process and reports exceptions of other kinds, crashes, hangs, and dumps of which a line
got lost without a word. Findings are kept in ``fuzz/``, one input per place in the code, to become tests. Exit status 1
where there is one. ``--bounds --target Trace --target Dag`` compiles the engines with checks of every index.
"""

import argparse
import contextlib
import gc
import hashlib
import io
import math
import multiprocessing
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "widgets")]
_LARGEST, _HANG_SECONDS, _MEMORY = 20_000, 20, 4 << 30
_PIECES = [
    *(b"0 -0 -1 1e400 nan inf 1,5 1.234,5 12,34,567 0x10 9223372036854775808 100.00% <not <not counted>").split(b" "),
    *(b"\x00 \xef\xbb\xbf \xff\xfe \r\n \r \n \t , ; | : \" # { } [ ] [[ = \\ \x1a \x1b[31m").split(b" "),
    *b"cycles instructions CPU0 S0-D0 summary null true {} -".split(b" "),
    "\u202f\u2028\u0661".encode(),
    b"9" * 400,
    b"# started on Sat Nov 21 06:10:05 2026\n",
]  # fmt: skip


@dataclass
class Target:
    """Files of one kind: seeds, how one is damaged, and what opens it."""

    suffix: str
    seeds: list[bytes]
    opened: Callable[[Path, random.Random], Any]


@dataclass
class Tally:
    """What came of the inputs of one target."""

    inputs: int = 0
    read: int = 0
    refused: int = 0
    findings: dict[str, str] = field(default_factory=dict)


# ------------------------------------------------------------------ damage


def damaged(target: Target, rng: random.Random) -> bytes:
    """Return a damaged copy of one of a target's seeds."""
    data, other = rng.choice(target.seeds), rng.choice(target.seeds)
    if rng.random() < 0.15:
        return _text(rng, data, other)
    if data.startswith(b"PK"):
        return _archive(rng, data, other)
    return _parquet(rng, data, other) if data.startswith(b"PAR1") else _text(rng, data, other)


def _text(rng: random.Random, data: bytes, other: bytes) -> bytes:
    for _ in range(rng.choice((1, 1, 2, 3, 6))):
        data = rng.choice((_insert, _cut, _flip, _lines, _field, _splice))(rng, data, other)[:_LARGEST]
    return data


def _insert(rng: random.Random, data: bytes, _: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice(_PIECES) + data[at:]


def _cut(rng: random.Random, data: bytes, _: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + data[at + rng.choice((1, 2, 7, 60, _LARGEST)) :]


def _flip(rng: random.Random, data: bytes, _: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]


def _lines(rng: random.Random, data: bytes, other: bytes) -> bytes:
    mine, theirs = data.split(b"\n"), other.split(b"\n")
    i, j = rng.randrange(len(mine)), rng.randrange(len(mine))
    what = rng.randrange(4)
    if what == 0:
        del mine[i]
    elif what == 1:
        mine.insert(j, mine[i])
    elif what == 2:
        mine[i], mine[j] = mine[j], mine[i]
    else:
        mine[i:i] = theirs[: rng.choice((1, 3, 10))]
    return b"\n".join(mine)


def _field(rng: random.Random, data: bytes, _: bytes) -> bytes:
    sign = rng.choice((b",", b";", b"\t", b" ", b":", b'"'))
    fields = data.split(sign)
    i = rng.randrange(len(fields))
    fields[i : i + 1] = rng.choice(([], [fields[i]] * 2, [rng.choice(_PIECES)]))
    return sign.join(fields)


def _splice(rng: random.Random, data: bytes, other: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + other[rng.randrange(len(other) + 1) :][: rng.choice((3, 30, 300))] + data[at:]


def _archive(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """Damage a member of a ZIP archive and pack it anew, so that its checksums are right."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = {i.filename: archive.read(i) for i in archive.infolist()}
    except zipfile.BadZipFile:
        return _text(rng, data, other)
    name = rng.choice(list(members))
    members[name] = _array(rng, members[name]) if name.endswith(".npy") else _text(rng, members[name], data)
    if rng.random() < 0.05:
        del members[name]
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for each, body in members.items():
            archive.writestr(each, body)
    return out.getvalue()


def _array(rng: random.Random, body: bytes) -> bytes:
    """Return an array with a value, its type or its length changed: headers stay right, so that checks are reached."""
    import numpy as np

    array = np.load(io.BytesIO(body), allow_pickle=False)
    what = rng.randrange(5)
    if array.dtype.kind not in "iuf" or not array.size or what == 0:
        return _text(rng, body, body)
    if what == 1:
        array = array[: len(array) // 2] if array.ndim else array
    elif what == 2:
        array = array.astype(rng.choice(("f8", "i4", "u1", "i8")))
    else:
        low, high = (
            (-1e300, 1e300) if array.dtype.kind == "f" else (np.iinfo(array.dtype).min, np.iinfo(array.dtype).max)
        )
        array = array.copy()
        array.flat[rng.randrange(array.size)] = rng.choice((low, high, 0, 1, 2, 3, 100, np.nan if low == -1e300 else 7))
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def _parquet(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """Damage a parquet file's metadata, types, columns or rows, and write it anew."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.ParquetFile(io.BytesIO(data)).read()
    what, name = rng.randrange(6), rng.choice(table.column_names) if table.num_columns else ""
    metadata = dict(table.schema.metadata or {})
    try:
        if what < 3 and metadata:
            key = rng.choice(sorted(metadata))
            metadata[key] = _text(rng, metadata[key], other)
            table = table.replace_schema_metadata(metadata)
        elif what == 3 and name:
            table = table.drop_columns([name])
        elif what == 4 and name:
            kind = rng.choice((pa.string(), pa.int64(), pa.float64(), pa.bool_(), pa.int8(), pa.timestamp("s")))
            at = table.column_names.index(name)
            table = table.set_column(at, name, table.column(name).cast(kind, safe=False))
        else:
            table = table.slice(0, rng.choice((0, 1, 2)))
    except (pa.ArrowException, ValueError):
        return _text(rng, data, other)
    out = io.BytesIO()
    pq.write_table(table, out)
    return out.getvalue()


# ------------------------------------------------------------------ targets


def targets(folder: Path, chosen: Sequence[str] = ()) -> dict[str, Target]:
    """Return what is fuzzed, all of it or what is ``chosen``; small files of perfkit's own are written into `folder`.

    The others' examples are not made: that takes minutes, most of all where compiled code checks every index.
    """
    from tests.results.examples import EXAMPLES

    known = ("dumps", "Dag", *(cls.__name__ for cls in EXAMPLES))
    if unknown := sorted(set(chosen) - set(known)):
        raise SystemExit(f"no target {', '.join(unknown)}; there are {', '.join(sorted(known))}")
    folders = (ROOT / "tests/readers/fixtures", ROOT / "tests/readers/dialects")
    dumps = [p.read_bytes()[:3000] for f in folders for p in sorted(f.iterdir()) if p.is_file()]
    found = {"dumps": Target(".txt", dumps, _read)}
    for cls, example in EXAMPLES.items():
        if chosen and cls.__name__ not in chosen:
            continue
        seed = _saved(example(), folder)
        if seed is not None:
            suffix, data = seed
            found[cls.__name__] = Target(suffix, [data], partial(_open, cls))
    suffix, data = _saved(_graph(), folder)  # no result, and so none of the examples
    found["Dag"] = Target(suffix, [data], _open_graph)
    return found


def _graph() -> Any:
    import perfkit as pk

    needs = [[], [0], [0, 1], [2], [], [3, 4]]
    return pk.Dag.from_nodes("LMASLA", needs, level=["L1", None, None, "L1", "mem", None])


def _open_graph(path: Path, _: random.Random) -> None:
    import perfkit as pk

    dag = pk.Dag.load(path)
    for scheduler in _schedulers():
        scheduler.run(dag)


@cache
def _schedulers() -> tuple[Any, ...]:
    import perfkit as pk

    return tuple(pk.DagScheduler(core) for core in (pk.DagCore.sandy_bridge_erm(), pk.DagCore.load("zen4")))


@cache
def _gus() -> Any:
    import perfkit as pk

    return pk.Gus(pk.Microarchitecture.load("zen4"))


def _read(path: Path, rng: random.Random) -> None:
    import perfkit as pk
    from perfkit.errors import FormatError

    try:
        samples = pk.read_samples(path, errors=rng.choice(("raise", "collect")))
    except FormatError as error:
        cause = error.__cause__
        if "it cannot be read: damaged, or another file" in str(error) and not isinstance(cause, MemoryError | OSError):
            # No reader gave a reason: something in it failed, and was taken for the file's fault.
            raise (cause or error) from None
        raise
    for row in samples.accounting.itertuples():
        if row.total != row.counts + row.describes + row.left_out + row.problems:
            raise AssertionError(f"lines are lost without a word: {row}")


def _open(cls: Any, path: Path, _: random.Random) -> None:
    """Load a result and ask it what every result can be asked; of what compiled code follows, let it be followed."""
    import perfkit as pk

    result = cls.load(path)
    result.summary()
    result.to_frame()
    if cls is pk.Trace:
        _gus().run(result)


def _saved(result: Any, folder: Path) -> tuple[str, bytes] | None:
    """Return a result's file, which is small; None where it is a folder."""
    from perfkit.errors import SettingError

    for suffix in (".parquet", ".npz", ".json", ".trace"):
        path = folder / f"{type(result).__name__}{suffix}"
        try:
            result.save(path)
        except SettingError:
            continue
        return (suffix, path.read_bytes()) if path.is_file() else None
    raise AssertionError(f"no known ending of {type(result).__name__}")


# ------------------------------------------------------------------ the loop


class _HangError(BaseException):
    """An input took too long; no `except Exception` may take it for anything else."""


def fuzz(name: str, target: Target, seconds: float, seed: int, most: int, path: Path) -> Tally:
    """Open damaged files of one kind for this many seconds; return what came of it.

    Each is written to ``path``, where it still lies if the process dies.
    """
    from perfkit.errors import PerfkitError

    tally, rng, end = Tally(), random.Random(seed), time.monotonic() + seconds

    def late(*_: Any) -> None:
        raise _HangError

    signal.signal(signal.SIGALRM, late)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path.write_bytes(target.seeds[0])
        with contextlib.suppress(PerfkitError, FileNotFoundError):
            target.opened(path, random.Random(seed))  # what is compiled here, whole, is no hang below
        gc.collect()
        gc.freeze()  # else the libraries' own million objects are gone through again and again
        while time.monotonic() < end and tally.inputs < most:
            data = damaged(target, rng)
            path.write_bytes(data)
            tally.inputs += 1
            signal.alarm(_HANG_SECONDS)
            try:
                target.opened(path, random.Random(tally.inputs))
                tally.read += 1
            except (PerfkitError, FileNotFoundError):
                tally.refused += 1
            except (_HangError, Exception) as error:  # noqa: BLE001  the very thing that is looked for
                _keep(name, target, data, error, tally)
            finally:
                signal.alarm(0)
        gc.unfreeze()
    return tally


def _keep(name: str, target: Target, data: bytes, error: BaseException, tally: Tally) -> None:
    """Keep the first input that ends at a place in the code."""
    where = traceback.extract_tb(error.__traceback__)[-1]
    key = f"{type(error).__name__} at {Path(where.filename).name}:{where.lineno}"
    if key in tally.findings:
        return
    digest = hashlib.sha256(data).hexdigest()[:12]
    kept = ROOT / "fuzz" / f"{name}-{digest}{target.suffix}"
    kept.parent.mkdir(exist_ok=True)
    kept.write_bytes(data)
    tally.findings[key] = f"{kept.relative_to(ROOT)}\n{''.join(traceback.format_exception(error)[-4:])}".encode(
        errors="replace"
    ).decode()


def _in_memory() -> str | None:
    """Return the folder whose files are held in memory, if there is one: writing to a disk takes a millisecond."""
    folder = "/dev/shm"  # noqa: S108  a folder of a new name is made in it
    return folder if os.access(folder, os.W_OK) else None


def _child(name: str, target: Target, seconds: float, seed: int, most: int, path: Path, out: Any) -> None:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + _MEMORY, used + _MEMORY))
    out.send(fuzz(name, target, seconds, seed, most, path))


def main() -> int:
    """Fuzz each target in a child of its own; print what was found."""
    parser = argparse.ArgumentParser(prog="./kit fuzz", description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seconds", type=float, default=60, help="for all targets together")
    parser.add_argument("--inputs", type=int, default=10**9, help="at most so many for each target")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--target", action="append", default=[], help="dumps, Trace, Dag, SpireModel, ...; repeat")
    parser.add_argument("--bounds", action="store_true", help="compiled code checks every index; slower")
    asked = parser.parse_args()
    if not 0 < asked.seconds < math.inf or asked.inputs < 1 or asked.seed < 0:
        parser.error("--seconds is more than 0, --inputs at least 1, --seed at least 0")
    if asked.bounds:  # before anything loads numba; what is compiled without checks must not be used
        os.environ |= {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(ROOT / "fuzz" / "checked")}
    bad = 0
    (ROOT / "fuzz").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=_in_memory()) as folder:
        known = targets(Path(folder), asked.target)
        if folders := sorted(set(asked.target) - set(known)):
            parser.error(f"no file to damage: {', '.join(folders)}")
        chosen = asked.target or list(known)
        for name in chosen:
            print(f"{name}: seed {asked.seed}, {asked.seconds / len(chosen):.0f} s", flush=True)
            out, into = multiprocessing.Pipe(duplex=False)
            path = Path(folder) / f"fuzzed{known[name].suffix}"
            arguments = (name, known[name], asked.seconds / len(chosen), asked.seed, asked.inputs, path, into)
            child = multiprocessing.get_context("fork").Process(target=_child, args=arguments)
            child.start()
            into.close()
            try:
                tally = out.recv()
                child.join()
            except EOFError:
                child.join()
                shutil.copyfile(path, ROOT / "fuzz" / f"last-{name}")
                print(f"  the process died (exit {child.exitcode}) over fuzz/last-{name}")
                bad += 1
                continue
            told = f"{tally.read:,} read, {tally.refused:,} refused, {len(tally.findings)} findings"
            print(f"  {tally.inputs:,} inputs: {told}")
            for key, told in tally.findings.items():
                print(f"  {key}: {told}")
            bad += len(tally.findings)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
