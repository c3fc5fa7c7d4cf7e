"""`read_samples`: any counter dump as `Samples`."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from perfkit.base.files import existing, paths_of, reading
from perfkit.errors import FormatError, SettingError, counted
from perfkit.readers.identical import identical_runs
from perfkit.readers.open import open_dump, run_name
from perfkit.readers.recognise import reader, recognise
from perfkit.readers.report import Asked, Dump, Lines, Report, account_table
from perfkit.readers.running_totals import AT_PLACE, ENDS, OF_ALL_PLACES, is_axis
from perfkit.readers.scales import is_gauge, is_ratio
from perfkit.readers.summary_rows import places_above
from perfkit.samples.divided import find_divided, is_rate, restore
from perfkit.samples.events import printable
from perfkit.samples.table import Kind, Samples, complete_runs, complete_table, no_problems

# Formats that anybody may have written; the outputs of counting tools hold what was counted.
_BEYOND = 2.0**63
_TABLES = ("plain-table", "framed-table", "named-counts", "key-values", "json-records", "nested", "parquet")


def read_samples(
    path: str | Path | Iterable[str | Path],
    *,
    errors: Literal["raise", "collect"] = "raise",
    time_event: str | None = None,
    work_event: str | None = None,
    workload: str | Sequence[str] | None = None,
    format: str | None = None,  # noqa: A002 - the word that users look for
    kind: Kind = "measured",
    cumulative: bool | None = None,
) -> Samples:
    """Read counter dumps of any known format into samples.

    Parameters
    ----------
    path : path or iterable of paths
        Files, plain or compressed (gzip, xz, bzip2, zstandard). Each becomes one run, named after its file, or
        several where it holds several.
    errors : "raise" or "collect"
        Whether a line that cannot be used is an error, or a row of ``Samples.problems``.
    time_event, work_event : str, optional
        The events that measure time and work; by default the cycles and instructions under the names that the
        dump's tool gives them. ``"seconds"`` is the interval's length on the clock.
    workload : str or sequence of str, optional
        What ran: one for all files, or one per file. By default the run's name.
    format : str, optional
        The format, where recognising it by content is not wanted: ``perf-text``, ``perf-csv``, ...
    kind : str
        What the data is; measured unless said otherwise.
    cumulative : bool, optional
        Whether the rows of a table are running totals, whose differences are the counts. By default they are taken as
        such where a table with time stamps has no count that ever falls; without time stamps such a table is refused.

    Raises
    ------
    FormatError
        A file is of no known format, is truncated or corrupted, or a line of it makes no sense: file, line and text.
    SettingError
        The events that measure time and work are not in the data; the message lists what is.

    Examples
    --------
    >>> samples = pk.read_samples(["train-a.txt.xz", "train-b.csv"])    # doctest: +SKIP
    >>> samples.describe()                                               # doctest: +SKIP
    """
    if errors not in ("raise", "collect"):
        raise SettingError(f"errors is 'raise' or 'collect'; found {errors!r}")
    paths = [Path(each) for each in paths_of(path, "read_samples")]
    if not paths:
        raise SettingError("read_samples needs at least one path; the list is empty")
    workloads = _workloads(workload, paths)
    asked = Asked(frozenset(e for e in (time_event, work_event) if e), cumulative)
    reports, dumps = [], []
    for each, named in zip(paths, workloads, strict=True):
        report = Report(printable(each.name), errors == "collect", asked)
        dumps.append(_finish(_read_one(each, report, format), each, named, kind))
        reports.append(report)
    read = _together(dumps, reports, time_event, work_event, kind)
    same = identical_runs(read.table)
    return replace(read, notes=(*read.notes, *same)) if same else read


def events_of(path: str | Path) -> tuple[list[str], list[str]]:
    """Return a dump's events, whether or not any of them measures time and work, and those counted at least once."""
    path = Path(path)
    counts = _read_one(path, Report(printable(path.name), collect=True), None).counts
    every, counted = (pd.unique(rows["event"]) for rows in (counts, counts[counts["count"] > 0]))
    return [str(e) for e in every], [str(e) for e in counted]


def _read_one(path: Path, report: Report, name: str | None) -> Dump:
    existing(path)
    with reading(path.with_name(report.file), "a counter dump"):
        return _taken_apart(path, report, name)


def _taken_apart(path: Path, report: Report, name: str | None) -> Dump:
    opened = open_dump(path)
    if opened.cut:
        report.problem(0, opened.cut, "the compressed data is damaged; what comes before the damage is read")
    module = reader(name) if name else recognise(opened)
    lines = Lines(opened) if module.NAME != "parquet" else None
    if opened.escapes:
        report.note(f"{counted(opened.escapes, 'escape sequences')} for the terminal (colours, titles), taken off")
    if module.NAME != "parquet" and (encoding := opened.encoding) != "utf-8-sig":
        report.note(f"not UTF-8; read as {encoding.upper()}")
    dump: Dump = _clean(module.read(opened, report, printable(run_name(path))))
    if lines is not None:
        report.close(lines)
    if dump.counts.empty:
        raise FormatError(f"{report.file}: recognised as {module.TITLE}, but no count in it could be read")
    if module.NAME not in _TABLES:
        return _possible(dump, report)
    return _undivided(_placed(_possible(_without_limits(dump, report), report), report), report)


def _without_limits(dump: Dump, report: Report) -> Dump:
    """Return a table without the events that show a counter's end in every row: limits, or stopped before the first.

    Those of time and work stay, to be refused: without them there is no answer.
    """
    values = dump.counts["count"].to_numpy(dtype="float64")
    if not np.fmax.reduce(values, initial=0.0) >= min(ENDS):
        return dump
    ended = pd.Series(np.isin(values, list(ENDS)), index=dump.counts.index)
    if not ended.any():
        return dump
    always = ended.groupby(dump.counts["event"], observed=True).agg(["all", "size"])
    found = [e for e in always.index[always["all"] & (always["size"] > 1)] if not is_axis(str(e))]
    if not found:
        return dump
    report.note(
        f"events that show the end of a counter's bits (2^32 - 1 and the like) in every row, limits or counters that "
        f"stopped before, left out: {', '.join(map(str, found))}"
    )
    kept = dump.counts[~dump.counts["event"].isin(found)].reset_index(drop=True)
    if isinstance(kept["event"].dtype, pd.CategoricalDtype):
        kept["event"] = kept["event"].cat.remove_unused_categories()
    return replace(dump, counts=kept)


def _possible(dump: Dump, report: Report) -> Dump:
    """Return a dump without what is no count: a difference below zero, written without a sign, and a counter's end."""
    values = dump.counts["count"].to_numpy(dtype="float64")
    if not np.fmax.reduce(values, initial=0.0) >= min(ENDS):
        return dump
    wrong = (values >= _BEYOND) | np.isin(values, list(ENDS))
    for event, value in zip(dump.counts["event"][wrong], values[wrong], strict=True):
        if value in ENDS:
            why = (
                f"2^{ENDS[value]} - 1 is where a counter of {ENDS[value]} bits ends: it stopped there, and how much "
                "was counted is not known (count in shorter intervals)"
            )
            report.problem(0, f"{event}: {value:.0f}", why)
            continue
        report.problem(0, f"{event}: {value:g}", "a count of 2^63 or more is no count but a counter that went wrong")
    return replace(dump, counts=dump.counts.assign(count=np.where(wrong, np.nan, values)))


def _placed(dump: Dump, report: Report) -> Dump:
    """Return a dump whose events stand at the places that all of their names begin or end with (``CPU0:cycles``).

    A place that holds what others do (``socket0:cycles``, ``total:cycles``) is left out.
    """
    names = [str(e) for e in pd.unique(dump.counts["event"])]
    found = {n: m for n in names if (m := AT_PLACE.match(n)) is not None}
    every = {n: m for n in names if n not in found and (m := OF_ALL_PLACES.match(n)) is not None} if found else {}
    matches = found | every
    if (
        len(matches) < len(names)
        or report.asked.axes & set(names)
        or (dump.counts.get("place", pd.Series("")) != "").any()
    ):
        return dump
    place = {n: m["before"] or m["behind"] for n, m in matches.items()}
    event = {n: m["event"] or m["of"] for n, m in matches.items()}
    named = dump.counts["event"].astype(object)
    counts = dump.counts.assign(event=named.map(event), place=named.map(place))
    above = places_above(counts)
    if not {place[n] for n in every} <= {*above}:
        return dump  # what is called the whole of the places is not: nobody can tell what it is
    left = [p for p in dict.fromkeys(place.values()) if p not in above]
    report.note(f"the names of events begin or end with their place, taken as such: {', '.join(left)}")
    if above:
        report.note(f"columns of places that sum up others, left out: {', '.join(above)}")
    none = [e for e in dict.fromkeys(event.values()) if is_ratio(e) or is_rate(e) or is_gauge(e)]
    if none:
        report.note(f"rates, quotients and readings of a moment at places, no counts, left out: {', '.join(none)}")
    return replace(dump, counts=counts[~counts["event"].isin(none) & counts["place"].isin(left)].reset_index(drop=True))


def _clean(dump: Dump) -> Dump:
    """Return a dump whose names hold no control characters: they end up in terminals, pages and pictures."""
    changed = {}
    for column in ("event", "place", "run"):
        if column not in dump.counts:
            continue
        values = dump.counts[column]
        coded = isinstance(values.dtype, pd.CategoricalDtype)
        names = [str(n) for n in (values.cat.categories if coded else pd.unique(values.dropna()))]
        renamed = {n: printable(n) for n in names if printable(n) != n}
        if renamed:
            changed[column] = dump.counts[column].astype(object).replace(renamed)
    if not changed:
        return dump
    runs = dump.runs.rename(index=printable) if dump.runs is not None and "run" in changed else dump.runs
    return replace(dump, counts=dump.counts.assign(**changed), runs=runs)


def _undivided(dump: Dump, report: Report) -> Dump:
    """Refuse tables of rates, or make counts of them where the table tells how."""
    divided = find_divided(dump.counts) if dump.axes is None else None
    if divided is None:
        return dump
    if not divided.total:
        raise FormatError(f"{report.file}: {divided.reason()}.")
    report.note(
        f"{divided.base} is {divided.value:g} in every row: the columns were divided by it; multiplied by "
        f"{divided.total}, they are counts again"
    )
    return replace(dump, counts=restore(dump.counts, divided))


def _workloads(workload: str | Sequence[str] | None, paths: list[Path]) -> list[str | None]:
    if workload is None or isinstance(workload, str):
        return [workload] * len(paths)
    if len(workload) != len(paths):
        raise SettingError(f"workload names {len(workload)} for {len(paths)} files; give one for all, or one per file")
    return list(workload)


def _finish(dump: Dump, path: Path, workload: str | None, kind: Kind) -> Dump:
    """Fill in what is known of every file: source, kind and workload."""
    names = dump.run_names()
    runs = pd.DataFrame(index=names) if dump.runs is None else dump.runs.reindex(names)
    if "source" not in runs:
        runs["source"] = printable(path.name)
    if "kind" not in runs:
        runs["kind"] = kind
    if workload is not None:
        runs["workload"] = workload
    return replace(dump, runs=runs)


def _together(
    dumps: list[Dump], reports: list[Report], time_event: str | None, work_event: str | None, kind: Kind
) -> Samples:
    dumps = _name_apart(dumps)
    problems = _concatenated([r.problems() for r in reports])
    notes = tuple(n for r in reports for n in r.notes)
    accounts = account_table([r.accounting() for r in reports])
    if any(d.axes for d in dumps):
        if len(dumps) == 1:
            own = _with_own_axes(dumps[0], time_event, work_event, kind, problems, notes)
            return replace(own, accounting=accounts)
        parts = [_with_own_axes(d, time_event, work_event, kind) for d in dumps]
        return replace(Samples.concat(parts), problems=problems, notes=notes, accounting=accounts)
    prefer = dumps[0].prefer if len({d.prefer for d in dumps}) == 1 else None
    counts = _concatenated([d.counts for d in dumps])
    return Samples.from_counts(
        counts,
        time_event=time_event or (prefer[0] if prefer else None),
        work_event=work_event or (prefer[1] if prefer else None),
        runs=pd.concat([d.runs for d in dumps if d.runs is not None]),
        kind=kind,
        problems=problems,
        notes=notes,
        accounting=accounts,
    )


def _concatenated(tables: list[pd.DataFrame]) -> pd.DataFrame:
    return tables[0] if len(tables) == 1 else pd.concat(tables, ignore_index=True)


def _with_own_axes(
    dump: Dump,
    time_event: str | None,
    work_event: str | None,
    kind: Kind,
    problems: pd.DataFrame | None = None,
    notes: tuple[str, ...] = (),
) -> Samples:
    """Make samples of one of several files of which some bring their own time and work."""
    if dump.axes is None:
        return Samples.from_counts(dump.counts, time_event=time_event, work_event=work_event, runs=dump.runs, kind=kind)
    counts = complete_table(dump.counts)
    problems = no_problems() if problems is None else problems
    runs = complete_runs(counts, dump.runs, kind)
    if dump.axes == ("", ""):
        return Samples(counts, runs, time_event or "cycles", work_event or "instructions", problems, notes)
    samples = Samples(counts, runs, *dump.axes, problems, notes)
    wanted = (time_event or dump.axes[0], work_event or dump.axes[1])
    if wanted == dump.axes:
        return samples
    for asked, there, what in zip(wanted, dump.axes, ("time", "work"), strict=True):
        if asked not in ("seconds", there) and asked not in set(counts["event"].cat.categories):
            raise SettingError(
                f"{runs['source'].iloc[0]}: every sample brings its own {what}, measured by {there!r}; "
                f"{asked!r} is not among its events. Leave {what}_event out."
            )
    return samples.with_axes(*wanted)


def _name_apart(dumps: list[Dump]) -> list[Dump]:
    """Give runs of the same name in different files their own names."""
    taken: set[str] = set()
    out = []
    for dump in dumps:
        names = {}
        for name in dump.run_names():
            free, number = str(name), 2
            while free in taken:
                free, number = f"{name} ({number})", number + 1
            taken.add(free)
            names[name] = free
        if all(k == v for k, v in names.items()) or dump.runs is None:
            out.append(dump)
            continue
        out.append(
            Dump(
                dump.counts.assign(run=dump.counts["run"].map(names)),
                dump.runs.rename(index=names),
                dump.axes,
                dump.prefer,
            )
        )
    return out
