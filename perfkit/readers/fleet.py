"""Opening a fleet: thousands of files, read in parallel into parts that are never all in memory.

Parquet files that perfkit wrote are used where they are. Dumps are read once into a folder (``store``), one part per
file, under ``machine=.../day=...``. What became of each file is kept in the store's ``files.jsonl``, line by line, so
that a stop or a full disk loses nothing that was read, and files that have not changed are not read again.
"""

import hashlib
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, Literal
from urllib.parse import quote

import pandas as pd

from perfkit.base.files import paths_of
from perfkit.base.in_order import Progress, in_order
from perfkit.errors import DataError, MissingFileError, PerfkitError, SettingError, UnavailableError
from perfkit.readers.fleet_labels import label_runs
from perfkit.samples.events import normalise
from perfkit.samples.fleet import FILE_COLUMNS, Fleet
from perfkit.samples.parts import Part, part_of, read_head, runs_of, with_events, write_part

JOURNAL = "files.jsonl"
_OUR_OWN = {".parquet", ".pq"}


@dataclass(frozen=True)
class Found:
    """A file of a fleet: its path, its name below the folder that was given, and what tells whether it has changed."""

    path: str
    name: str
    size: int
    changed: int


@dataclass(frozen=True)
class HowRead:
    """How dumps are read: see `perfkit.read_samples`."""

    time_event: str = ""
    work_event: str = ""
    errors: Literal["raise", "collect"] = "raise"
    cumulative: bool | None = None


def open_fleet(
    source: "str | Path | Iterable[str | Path]",
    *,
    store: str | Path | None,
    asked: HowRead,
    paths: str,
    labels: "pd.DataFrame | str | Path | None",
    cluster: str,
    workers: int,
    progress: Progress | None,
) -> Fleet:
    """Return the fleet of some files; the parameters are those of `perfkit.open_samples`."""
    sources = paths_of(source, "open_samples")
    if store is None and len(sources) == 1 and (Path(sources[0]) / JOURNAL).is_file():
        store = sources[0]  # a store itself
    files, hidden = find_files(sources, store)
    how: dict[str, Any] = {"cluster": cluster, "workers": workers, "progress": progress}
    dumps: list[Found] = []
    records: list[dict[str, Any]] = []
    for found in files:
        if Path(found.path).suffix.lower() not in _OUR_OWN:
            dumps.append(found)
            continue
        try:
            records.append(_record_of(found, read_head(found.path)))
        except PerfkitError as error:
            if store is None:  # damaged, or not ours: it is listed, and the others are used
                records.append(_failed(found, error))
            else:
                dumps.append(found)
    if dumps and store is None:
        raise SettingError(
            f"{len(dumps):,} of {len(files):,} files are dumps that have to be read first (the first is "
            f"{dumps[0].name}): name a folder for what is read of them, store=..., or load them all into memory with "
            "memory=True"
        )
    if store is not None:
        records += _stored(Path(store), dumps, asked, how)
    return _assembled(records, hidden, asked, paths, labels, how)


def find_files(sources: Sequence[str | Path], store: str | Path | None = None) -> tuple[list[Found], int]:
    """Return the files of folders, patterns and paths, sorted, each once, and how many hidden files were passed over.

    Raises
    ------
    MissingFileError
        There is no such file or folder, or a pattern fits none.
    """
    own = None if store is None else Path(store).resolve()
    found: dict[str, Found] = {}
    hidden = 0
    for each in sources:
        root, paths = _below(Path(each).expanduser())
        new: dict[str, Found] = {}
        # Of a file that has several names, the first one counts, and of those the ones that no link makes.
        for path in sorted(paths, key=lambda p: (_is_linked(p, root), p)):
            full = path.resolve()
            if str(full) in found or (own is not None and own in full.parents):
                continue
            name = path.relative_to(root).as_posix()
            if any(part.startswith(".") for part in Path(name).parts):
                hidden += 1
                continue
            try:
                about = full.stat()
                size, changed = about.st_size, about.st_mtime_ns
            except OSError:  # a link to nothing, or a file that has gone meanwhile: reading it will say so
                size = changed = 0
            new.setdefault(str(full), Found(str(full), name, size, changed))
        found |= {f.path: f for f in sorted(new.values(), key=lambda f: Path(f.name))}
    if not found and not (own is not None and (own / JOURNAL).is_file()):
        raise MissingFileError(f"no file was found in {', '.join(map(str, sources))} (looked in {Path.cwd()})")
    return list(found.values()), hidden


def _is_linked(path: Path, root: Path) -> bool:
    """Whether a link is on the way from a folder to a file in it."""
    return any(p.is_symlink() for p in (path, *path.parents) if p != root and root in p.parents)


def _inside(folder: Path) -> Iterator[Path]:
    """Yield the files of a folder and of those in it, also by links, but not round and round."""
    for here, names, files in os.walk(folder, followlinks=True):
        place = Path(here)
        if place.is_symlink() and any(above.resolve() == place.resolve() for above in place.parents):
            names.clear()
            continue
        yield from (p for p in (place / name for name in files) if p.is_file() or p.is_symlink())


def _below(path: Path) -> tuple[Path, list[Path]]:
    """Return the folder that names are told from, and the files."""
    if path.is_dir():
        return path, list(_inside(path))
    if path.is_file():
        return path.parent, [path]
    inside = path.parts[1:] if path.is_absolute() else path.parts
    fixed = Path(path.anchor)
    rest = list(inside)
    while rest and not any(c in rest[0] for c in "*?["):
        fixed /= rest.pop(0)
    files = [p for p in fixed.glob("/".join(rest)) if p.is_file()] if rest else []
    if not files:
        raise MissingFileError(f"{str(path)!r} is neither a file nor a folder, and no file fits it (in {Path.cwd()})")
    return fixed, files


# ------------------------------------------------------------------ files that are parts already


def _record_of(found: Found, part: Part) -> dict[str, Any]:
    """Return the record of a part that is used where it is."""
    try:
        part = with_events(part)
        runs = runs_of(part)
    except PerfkitError as error:
        return _failed(found, error)
    return _record(found, "used", part, runs, {"total": sum(part.groups), "counts": sum(part.groups)})


def _record(
    found: Found, status: str, part: Part, runs: pd.DataFrame, lines: Mapping[str, int], notes: Sequence[str] = ()
) -> dict[str, Any]:
    return {
        **asdict(found),
        "status": status,
        "reason": "",
        "part": asdict(part),
        "about": json.loads(runs.reset_index().to_json(orient="records")),
        "lines": dict(lines),
        "notes": list(notes),
    }


def _failed(found: Found, error: Exception) -> dict[str, Any]:
    return {**asdict(found), "status": "failed", "reason": str(error)[:1000], "part": None, "lines": {}, "notes": []}


# ------------------------------------------------------------------ dumps


def _stored(store: Path, dumps: Sequence[Found], asked: HowRead, how: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Read what the store does not hold yet; return the records of all dumps (of a store alone: all that it holds)."""
    store.mkdir(parents=True, exist_ok=True)
    known = read_journal(store)
    options = asdict(asked)
    kept, todo = [], []
    for found in dumps:
        old = known.get(found.path)
        same = old is not None and all(old[k] == v for k, v in (("size", found.size), ("changed", found.changed)))
        if old is not None and same and old["asked"] == options and _is_there(store, old):
            kept.append({**old, "name": found.name, "status": "failed" if old["status"] == "failed" else "kept"})
        else:
            todo.append(found)
    if not dumps:
        return [
            _placed(store, {**r, "status": "failed" if r["status"] == "failed" else "kept"}) for r in known.values()
        ]
    read = []
    with (store / JOURNAL).open("a+b") as journal:
        if journal.tell() and not _ends_in_a_line(journal):
            journal.write(b"\n")  # a stop cut the last record off
        work = partial(read_one, store=str(store.resolve()), asked=asked)
        for record in in_order(work, todo, **how):
            if record["status"] == "unwritten":
                raise UnavailableError(
                    f"{record['name']}: what was read of it could not be written into {store}: {record['reason']}. "
                    "Files that are read already are kept; make room, and run the same again."
                )
            journal.write(json.dumps({**record, "asked": options}).encode() + b"\n")
            journal.flush()
            read.append(record)
    by_path = {r["path"]: r for r in [*kept, *read]}
    return [_placed(store, by_path[found.path]) for found in dumps]


def _ends_in_a_line(file: IO[bytes]) -> bool:
    file.seek(-1, os.SEEK_END)
    return file.read(1) == b"\n"


def read_one(found: Found, store: str, asked: HowRead) -> dict[str, Any]:
    """Read a dump and write its part; return its record. What cannot be read is a record with the reason."""
    from perfkit.readers.read import read_samples

    try:
        samples = read_samples(
            found.path,
            errors=asked.errors,
            time_event=asked.time_event or None,
            work_event=asked.work_event or None,
            cumulative=asked.cumulative,
        )
    except (PerfkitError, OSError) as error:
        return _failed(found, error)
    lines = samples.accounting[["total", "counts", "describes", "left_out", "problems"]].sum()
    digest = hashlib.sha256(found.path.encode(errors="surrogateescape")).hexdigest()[:12]
    hosts = {h for h in samples.runs["host"] if h}
    machine = quote(hosts.pop() if len(hosts) == 1 else "unknown", safe="")
    started = started_of(samples.runs)
    day = time.strftime("%Y-%m-%d", time.gmtime(started.min())) if started.notna().any() else "unknown"
    name = f"machine={machine}/day={day}/{quote(Path(found.path).stem, safe='')[:80]}-{digest}.parquet"
    target = Path(store) / name
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        part = with_events(write_part(samples, target))
    except OSError as error:
        return {**_failed(found, error), "status": "unwritten"}
    record = _record(found, "read", part, samples.runs, {k: int(v) for k, v in lines.items()}, samples.notes)
    return {**record, "part": {**record["part"], "path": name}}


def started_of(runs: pd.DataFrame) -> pd.Series:
    """Return when each run was started, in seconds since 1970 by the clock of its machine; NaN where not known."""
    said = [json.loads(p or "{}").get("started", "") for p in runs["parameters"]]
    when = pd.to_datetime(pd.Series(said, index=runs.index, dtype=object), format="mixed", errors="coerce", utc=True)
    return (when - pd.Timestamp(0, tz="UTC")).dt.total_seconds()


def read_journal(store: Path) -> dict[str, dict[str, Any]]:
    """Return the last record of each file; a line that a stop cut off is passed over."""
    path = store / JOURNAL
    if not path.is_file():
        return {}
    known = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            record = json.loads(line)
            known[record["path"]] = record
        except (ValueError, KeyError, TypeError):
            continue
    return known


def _is_there(store: Path, record: Mapping[str, Any]) -> bool:
    return record["status"] == "failed" or (store / record["part"]["path"]).is_file()


def _placed(store: Path, record: dict[str, Any]) -> dict[str, Any]:
    if record["part"] is None:
        return record
    return {**record, "part": {**record["part"], "path": str((store / record["part"]["path"]).resolve())}}


# ------------------------------------------------------------------ together


def _assembled(
    records: list[dict[str, Any]],
    hidden: int,
    asked: HowRead,
    paths: str,
    labels: "pd.DataFrame | str | Path | None",
    how: Mapping[str, Any],
) -> Fleet:
    axes = _axes(records, asked)
    parts: list[Part] = []
    runs, files = [], []
    for record in records:
        reason, status = record["reason"], record["status"]
        part = None if record["part"] is None else part_of(record["part"])
        if part is not None and _normalised(part) != axes:
            status, reason = "failed", _other_axes(part, axes)
            part = None
        size = (len(record["about"]), part.n_samples) if part else (0, 0)
        files.append((record["name"], status, *size, *(record["lines"].get(c, 0) for c in FILE_COLUMNS[4:9]), reason))
        if part is None:
            continue
        runs += [{"part": len(parts), "file": record["name"], **about} for about in record["about"]]
        parts.append(part)
    table = pd.DataFrame(files, columns=list(FILE_COLUMNS))
    if not parts:
        first = table.loc[table["status"] == "failed", "reason"]
        raise DataError(f"none of {len(table):,} files could be read. The first: {first.iloc[0] if len(first) else ''}")
    frame = pd.DataFrame(runs)
    frame["started"] = started_of(frame)
    labelled, known, notes = label_runs(frame, paths, labels)
    if hidden:
        notes = (*notes, f"{hidden:,} hidden files (names that begin with a dot) were passed over")
    time_event, work_event = parts[0].time_event, parts[0].work_event
    return Fleet(tuple(parts), labelled, table, time_event, work_event, known, notes, **how)


def _normalised(part: Part) -> tuple[str, str]:
    return normalise(part.time_event), normalise(part.work_event)


def _axes(records: Sequence[Mapping[str, Any]], asked: HowRead) -> tuple[str, str]:
    """Return the time and work of most files, or those that were asked for."""
    found: dict[tuple[str, str], int] = {}
    for record in records:
        if record["part"] is not None:
            key = (normalise(record["part"]["time_event"]), normalise(record["part"]["work_event"]))
            found[key] = found.get(key, 0) + 1
    most = max(found, key=lambda k: found[k]) if found else ("", "")
    return normalise(asked.time_event) or most[0], normalise(asked.work_event) or most[1]


def _other_axes(part: Part, axes: tuple[str, str]) -> str:
    return (
        f"its time is {part.time_event} and its work {part.work_event}, those of most files {axes[0]} and {axes[1]}; "
        "name the ones that are meant: time_event=..., work_event=..."
    )
