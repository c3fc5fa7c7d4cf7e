"""Samples in files that are read a piece at a time: one row per interval, and a column of counts per event.

`Samples.save` writes one row per sample and is read as a whole. A *part* holds the same with the time and the work of
an interval once, a third of the bytes, and is read a million counts at a time. Samples whose events each have a time
of their own have no such rows; they stay in the other form.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from perfkit.base.files import check_fields, existing, json_object, json_text, of_json, reading, replaced
from perfkit.errors import DataError, FormatError
from perfkit.samples.table import RUN_COLUMNS, Samples, complete_table, no_accounting, no_problems

FORMAT, _VERSION = "perfkit-intervals", 1
LONG_FORMAT = "perfkit-samples"
COUNT, RUNNING = "count ", "running "  # what an event's name follows in the names of its columns
_KEYS = ["run", "place", "interval"]
_GROUP = 1 << 18  # rows of a row group: 2 MiB a column
_BATCH = 1 << 15  # rows handed on at once: a dozen columns of them stay in a processor's cache


@dataclass(frozen=True)
class Part:
    """A file of samples, as its head describes it.

    Attributes
    ----------
    path : str
        Where it lies.
    whole : bool
        Whether it is what `Samples.save` wrote, which is read as a whole, rather than rows of intervals.
    groups : tuple of int
        Rows of each row group.
    runs : tuple of str
        The runs in it.
    events : tuple of str
        The events in it, without those that measure time and work.
    intervals : int
        How many intervals there are.
    missing : tuple of int
        Intervals in which each event was not counted.
    time_event, work_event : str
        What time and work are.
    """

    path: str
    whole: bool
    groups: tuple[int, ...]
    runs: tuple[str, ...]
    events: tuple[str, ...]
    intervals: int
    missing: tuple[int, ...]
    time_event: str
    work_event: str

    @property
    def n_samples(self) -> int:
        """How many samples are in it."""
        return sum(self.groups) * (1 if self.whole else len(self.events))


@dataclass(frozen=True, eq=False)
class Intervals:
    """Some intervals of a part: where each run's rows are, and the columns as arrays of one length.

    ``rows`` are (run, first row, row after the last); ``ends`` are `Samples.table`'s ``at``. ``running`` has the events
    whose share of time is known.
    """

    rows: tuple[tuple[str, int, int], ...]
    time: np.ndarray
    work: np.ndarray
    ends: np.ndarray
    counts: Mapping[str, np.ndarray]
    running: Mapping[str, np.ndarray]


def write_part(samples: Samples, path: str | Path) -> Part:
    """Write samples as a part and return its description; as `Samples.save` does where intervals have no one time."""
    try:
        columns, missing = _columns_of(samples)
    except DataError:
        samples.save(path)
        return read_head(path)
    head = {
        "events": samples.events,
        "missing": missing,
        "own": [e for e in (samples.time_event, samples.work_event) if e in samples.table["event"].cat.categories],
        "time_event": samples.time_event,
        "work_event": samples.work_event,
        "runs": json.loads(samples.runs.reset_index().to_json(orient="records")),
        "notes": list(samples.notes),
        "problems": json.loads(samples.problems.to_json(orient="records")),
        "accounting": json.loads(samples.accounting.to_json(orient="records")),
    }
    write_columns(path, columns, head)
    return read_head(path)


def write_columns(path: str | Path, columns: Mapping[str, Any], head: Mapping[str, Any]) -> None:
    """Write a part of arrays: ``time``, ``work``, ``at``, ``count EVENT`` of every event, and others as known."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    arrays = {name: pa.array(values) for name, values in columns.items()}
    schema = pa.schema([pa.field(name, array.type, nullable=False) for name, array in arrays.items()])
    metadata = {b"perfkit": json_text({"format": FORMAT, "version": _VERSION, **head}).encode()}
    table = pa.table(list(arrays.values()), schema=schema.with_metadata(metadata))
    with replaced(path, ".parquet", ".pq") as temporary:
        pq.write_table(
            table,
            temporary,
            compression="lz4",
            use_dictionary=[c for c in ("run", "place", "seconds") if c in arrays],
            row_group_size=_GROUP,
            write_statistics=False,
        )


def read_head(path: str | Path) -> Part:
    """Return the description of a part, or of a file that `Samples.save` wrote.

    Raises
    ------
    FormatError
        It is neither, or damaged.
    """
    import pyarrow.parquet as pq

    found = existing(path)
    with reading(path, "a parquet file of samples"):
        metadata = pq.read_metadata(found)
        groups = tuple(metadata.row_group(i).num_rows for i in range(metadata.num_row_groups))
        head = json_object((metadata.metadata or {}).get(b"perfkit", b"{}"), path, "the description of samples")
    if head.get("format") == LONG_FORMAT:
        check_fields(head, {"runs": list, "time_event": str, "work_event": str}, path, "samples")
        runs = tuple(str(r["run"]) for r in head["runs"])
        return Part(str(found), True, groups, runs, (), 0, (), head["time_event"], head["work_event"])
    _check_head(head, path)
    return Part(
        str(found),
        False,
        groups,
        tuple(str(r["run"]) for r in head["runs"]),
        tuple(head["events"]),
        sum(groups),
        tuple(head["missing"]),
        head["time_event"],
        head["work_event"],
    )


def part_of(record: Mapping[str, Any]) -> Part:
    """Return the description of a part that `dataclasses.asdict` and JSON made a record of."""
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in record.items()}
    return Part(**values)


def runs_of(part: Part) -> pd.DataFrame:
    """Return the table of the runs of a part."""
    import pyarrow.parquet as pq

    with reading(part.path, "a parquet file of samples"):
        head = of_json(pq.read_metadata(part.path).metadata[b"perfkit"])
        runs = pd.DataFrame(head["runs"]).astype(dict.fromkeys(("run", *RUN_COLUMNS), "str"))
    return runs.set_index("run")


def load_part(part: Part) -> Samples:
    """Return the samples of a part, in memory."""
    import pyarrow.parquet as pq

    if part.whole:
        return Samples.load(part.path)
    with reading(part.path, "a parquet file of intervals"):
        table = pq.read_table(part.path, memory_map=False)
        head = of_json(table.schema.metadata[b"perfkit"])
        frame = _long(table.to_pandas(), head)
        return Samples(
            complete_table(frame),
            runs_of(part),
            part.time_event,
            part.work_event,
            pd.DataFrame(head["problems"]) if head.get("problems") else no_problems(),
            tuple(head.get("notes", ())),
            pd.DataFrame(head["accounting"]) if head.get("accounting") else no_accounting(),
        )


def rows_of(part: Part, runs: Collection[str]) -> np.ndarray:
    """Return the rows of a part (the intervals, of a file read as a whole) that are of some of its runs."""
    import pyarrow.parquet as pq

    if set(part.runs) <= set(runs):
        return np.arange(part.intervals)
    if part.whole:
        each = Samples.load(part.path).table[_KEYS].drop_duplicates()
        return np.flatnonzero(each["run"].isin(runs).to_numpy())
    with reading(part.path, "a parquet file of intervals"):
        return np.flatnonzero(np.isin(pq.read_table(part.path, columns=["run"])["run"].to_pylist(), list(runs)))


def load_rows(part: Part, rows: np.ndarray) -> Samples:
    """Return the samples of some rows of a part, sorted row numbers as `rows_of` counts them."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if part.whole:
        samples = Samples.load(part.path)
        numbers = samples.table.groupby(_KEYS, observed=True, sort=False).ngroup()
        table = samples.select(mask=np.isin(numbers, rows)).table
    else:
        with reading(part.path, "a parquet file of intervals"), pq.ParquetFile(part.path, memory_map=True) as file:
            head = of_json(file.schema_arrow.metadata[b"perfkit"])
            found = []
            for i, (low, high) in enumerate(pairwise(np.cumsum([0, *part.groups]).tolist())):
                here = rows[(rows >= low) & (rows < high)] - low
                if len(here):
                    found.append(file.read_row_group(i).take(here))
            table = complete_table(_long(pa.concat_tables(found).to_pandas(), head))
    runs = runs_of(part)
    return Samples(table, runs[runs.index.isin(set(table["run"].astype(str)))], part.time_event, part.work_event)


def batches(part: Part, groups: Sequence[int], *, running: bool = False, at: bool = False) -> Iterator[Intervals]:
    """Yield the intervals of some row groups of a part, in order.

    Raises
    ------
    FormatError
        The file is damaged, or was changed since it was opened.
    DataError
        The events of its intervals have times of their own.
    """
    import pyarrow.parquet as pq

    if part.whole:
        yield from _of_samples(Samples.load(part.path), at)
        return
    with reading(part.path, "a parquet file of intervals"), pq.ParquetFile(part.path, memory_map=True) as file:
        _check_head(
            json_object((file.schema_arrow.metadata or {}).get(b"perfkit", b"{}"), part.path, "intervals"), part.path
        )
        there = set(file.schema_arrow.names)
        wanted = ["time", "work", *(f"{COUNT}{e}" for e in part.events)]
        shares = {e: f"{RUNNING}{e}" for e in part.events if running and f"{RUNNING}{e}" in there}
        several = len(part.runs) > 1
        columns = [*wanted, *shares.values(), *(["at"] if at else []), *(["run"] if several else [])]
        for found in file.iter_batches(_BATCH, row_groups=list(groups), columns=columns, use_threads=False):
            values = {n: found.column(n) for n in columns}
            plain = {n: values[n].to_numpy(zero_copy_only=False) for n in columns if n != "run"}
            yield Intervals(
                _rows(values["run"]) if several else ((part.runs[0], 0, found.num_rows),),
                plain["time"],
                plain["work"],
                plain["at"] if at else np.empty(0),
                {e: plain[f"{COUNT}{e}"] for e in part.events},
                {e: plain[name] for e, name in shares.items()},
            )


def by_event(part: Part, groups: Sequence[int], *, running: bool = False, at: bool = False) -> Iterator[Intervals]:
    """Yield batches as `batches` does; of a file read as a whole, one event at a time, whose times may be its own."""
    if not part.whole:
        yield from batches(part, groups, running=running, at=at)
        return
    samples = Samples.load(part.path)
    table = samples.table
    codes = table["event"].cat.codes.to_numpy()
    order = np.lexsort((table["run"].cat.codes.to_numpy(), codes))
    edges = np.searchsorted(codes[order], np.arange(len(table["event"].cat.categories) + 1))
    for i, event in enumerate(map(str, table["event"].cat.categories)):
        if event in (samples.time_event, samples.work_event):
            continue
        mine = order[edges[i] : edges[i + 1]]
        rows = table.iloc[mine]
        yield Intervals(
            _segments(rows["run"].cat.codes.to_numpy(), list(map(str, rows["run"].cat.categories))),
            rows["time"].to_numpy(),
            rows["work"].to_numpy(),
            rows["at"].to_numpy(),
            {event: rows["count"].to_numpy()},
            {event: rows["running"].to_numpy()},
        )


# ------------------------------------------------------------------ helpers


def _check_head(head: Mapping[str, Any], path: str | Path) -> None:
    if head.get("format") != FORMAT:
        raise FormatError(
            f"{path}: a parquet file, but not one of perfkit's samples; give a folder for the samples that are read "
            "from it: store=..."
        )
    fields = {"version": int, "runs": list, "events": list, "missing": list, "time_event": str, "work_event": str}
    check_fields(head, fields, path, "the description of intervals")
    if head["version"] > _VERSION:
        raise FormatError(f"{path}: intervals of format version {head['version']}; this perfkit reads up to {_VERSION}")
    if not head["runs"]:
        raise FormatError(f"{path}: intervals of no run")


def _columns_of(samples: Samples) -> tuple[dict[str, Any], list[int]]:
    """Return the columns of a part; DataError where its intervals have no one time."""
    counts = samples.to_wide()
    shares = samples.to_wide("running")
    each = samples.intervals().set_index(["run", "place", "interval"]).reindex(counts.index)
    keys = counts.index.to_frame(index=False)
    columns: dict[str, Any] = {}
    if len(set(keys["run"])) > 1:
        columns["run"] = keys["run"].astype(str).to_numpy()
    if (keys["place"].astype(str) != "").any():
        columns["place"] = keys["place"].astype(str).to_numpy()
    columns |= {"interval": keys["interval"].to_numpy(), "at": each["at"].to_numpy()}
    columns |= {c: each[c].to_numpy() for c in ("seconds", "time", "work")}
    missing = []
    # A row that is not there and a count that is missing are one thing in a row of an interval.
    for event in samples.events:
        values = counts[event].to_numpy(dtype="float64")
        missing.append(int(np.isnan(values).sum()))
        columns[f"{COUNT}{event}"] = values
        share = shares[event].to_numpy(dtype="float64")
        if not np.isnan(share).all():
            columns[f"{RUNNING}{event}"] = share
    return columns, missing


def _long(wide: pd.DataFrame, head: Mapping[str, Any]) -> pd.DataFrame:
    """Return one row per sample of rows of intervals."""
    base = pd.DataFrame({c: wide[c] for c in ("interval", "at", "seconds", "time", "work") if c in wide})
    base["run"] = wide["run"] if "run" in wide else head["runs"][0]["run"]
    base["place"] = wide.get("place", "")
    unknown = np.full(len(wide), np.nan)
    rows = []
    for name, column in ((head["time_event"], "time"), (head["work_event"], "work")):
        if name in head.get("own", ()):
            rows.append(base.assign(event=name, count=wide[column], running=unknown))
    for event in head["events"]:
        share = f"{RUNNING}{event}"
        rows.append(base.assign(event=event, count=wide[f"{COUNT}{event}"], running=wide.get(share, unknown)))
    return pd.concat(rows, ignore_index=True)


def _of_samples(samples: Samples, at: bool) -> Iterator[Intervals]:
    """Yield all intervals of samples in memory as one batch."""
    columns, _ = _columns_of(samples)
    runs = columns.get("run")
    n = len(columns["time"])
    names = list(map(str, samples.runs.index))
    if runs is None:
        rows: tuple[tuple[str, int, int], ...] = ((str(samples.table["run"].cat.categories[0]), 0, n),)
    else:
        where = {name: i for i, name in enumerate(names)}
        rows = _segments(np.array([where[r] for r in runs]), names)
    yield Intervals(
        rows,
        columns["time"],
        columns["work"],
        columns["at"] if at else np.empty(0),
        {e: columns[f"{COUNT}{e}"] for e in samples.events},
        {e: columns[f"{RUNNING}{e}"] for e in samples.events if f"{RUNNING}{e}" in columns},
    )


def _rows(column: Any) -> tuple[tuple[str, int, int], ...]:
    import pyarrow as pa

    coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    return _segments(coded.indices.to_numpy(), coded.dictionary.to_pylist())


def _segments(codes: np.ndarray, names: Sequence[str]) -> tuple[tuple[str, int, int], ...]:
    """Return where each stretch of rows of one run begins and ends."""
    if not len(codes):
        return ()
    edges = [0, *(np.flatnonzero(np.diff(codes)) + 1).tolist(), len(codes)]
    return tuple((names[codes[a]], a, b) for a, b in pairwise(edges))


def with_events(part: Part) -> Part:
    """Return the description with the events and what is missing of a file that has to be read to know them."""
    if not part.whole:
        return part
    samples = Samples.load(part.path)
    table, n = samples.table, samples.n_intervals
    known = table["count"].notna().groupby(table["event"], observed=True).sum()
    events = tuple(samples.events)
    return replace(part, events=events, intervals=n, missing=tuple(n - int(known[e]) for e in events))
