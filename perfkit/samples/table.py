"""Samples: counts of events over intervals of running workloads; the one table that every method reads.

A sample (SPIRE, section III-A) is a period of length T in which work W was done and an event x was counted M_x
times. `Samples` holds many of them as a tidy long table, with a second table that says of each run what was measured,
where and how.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
import pandas as pd

from perfkit.base.files import a_path, check_fields, existing, json_object, json_text, reading, replaced
from perfkit.base.results import KINDS, Kind, Summarised, draw, drawn, joint_kind
from perfkit.errors import DataError, FormatError, SettingError, closest, counted, expect, expect_number, listed
from perfkit.samples.events import TIME_EVENTS, WORK_EVENTS, counter_unit, is_translated, modes, normalise, per_unit

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = ("run", "place", "interval", "at", "seconds", "event", "time", "work", "count", "running")
# One row per file: its lines (or values) that are not blank, those that became counts, those that describe counts,
# those left out by design, and those that could not be used.
ACCOUNT_COLUMNS = ("file", "unit", "total", "counts", "describes", "left_out", "problems")
RUN_COLUMNS = ("workload", "host", "command", "parameters", "source", "kind")

_TEXT = ("run", "place", "event")
_NUMBERS = ("at", "seconds", "time", "work", "count", "running")
_COUNTS = ("time", "work", "count")
_INTERVAL_KEY = ["run", "place", "interval"]
_FORMAT = "perfkit-samples"
_FORMAT_VERSION = 1


def no_problems() -> pd.DataFrame:
    """Return the empty table of a reader's problems: file, line (1-based), text and reason."""
    return _empty(file="str", line="int64", text="str", reason="str").copy()


def no_accounting() -> pd.DataFrame:
    """Return the empty table of what became of each file's lines."""
    return _empty(**{c: "str" if c in ("file", "unit") else "int64" for c in ACCOUNT_COLUMNS}).copy()


@cache
def _empty(**kinds: str) -> pd.DataFrame:
    """Return a table without rows; to make one takes as long as to read a small dump, and every `Samples` has two."""
    return pd.DataFrame({name: pd.Series([], dtype=kind) for name, kind in kinds.items()})


@dataclass(frozen=True, eq=False, repr=False)
class Samples(Summarised):
    """Counts of events over intervals, with the time and the work of each interval.

    Make one with `perfkit.read_samples`, `Samples.from_frame`, `Samples.from_counts` or a collector.

    Attributes
    ----------
    table : DataFrame
        One row per sample: ``run``, ``place`` (``""``, or the CPU, core, socket or thread, or the function, kernel or
        region for tools that count by those), ``interval`` (its number within the run), ``at`` (seconds from the run's
        start to the interval's end), ``seconds`` (its length on the clock), ``event``, ``time`` (T, in units of
        ``time_event``), ``work`` (W, in units of ``work_event``), ``count`` (M_x) and ``running`` (the fraction of the
        interval in which the event was counted, below 1 when counters were multiplexed). NaN means not measured or not
        known; it never means zero.
    runs : DataFrame
        One row per run (indexed by run): ``workload``, ``host``, ``command``, ``parameters`` (JSON), ``source`` (the
        file or program the counts come from) and ``kind``: measured, simulated, generated or published.
    time_event, work_event : str
        What ``time`` and ``work`` count: cycles and instructions make W/T the IPC.
    problems : DataFrame
        Lines that a reader could not use, where it was asked to collect them: file, line, text, reason.
    notes : tuple of str
        What a reader left out by design, with numbers.
    accounting : DataFrame
        One row per file that was read: how many of its lines that are not blank (``unit``; the values of a JSON
        document, the rows of a parquet table) there are in ``total``, and how many of them became ``counts``, say what
        the counts are (``describes``: headers, rules), were ``left_out`` by design (the notes say which) or are
        ``problems``. The four add up to the total.

    Examples
    --------
    >>> import perfkit as pk
    >>> samples = pk.datasets.load("spire/memory")
    >>> len(samples.events), samples.kind
    (25, 'generated')
    """

    table: pd.DataFrame
    runs: pd.DataFrame
    time_event: str = "cycles"
    work_event: str = "instructions"
    problems: pd.DataFrame = field(default_factory=no_problems)
    notes: tuple[str, ...] = ()
    accounting: pd.DataFrame = field(default_factory=no_accounting)

    def __post_init__(self) -> None:
        _check_table(self.table)
        _check_runs(self.runs, self.table)

    # ---------------------------------------------------------------- making

    @classmethod
    def from_frame(
        cls,
        df: pd.DataFrame,
        *,
        runs: pd.DataFrame | None = None,
        kind: Kind = "measured",
        time_event: str = "cycles",
        work_event: str = "instructions",
        missing: Literal["error", "keep"] = "error",
    ) -> "Samples":
        """Make samples of a long table that has at least the columns event, time, work and count.

        Parameters
        ----------
        df : DataFrame
            One row per sample. ``run``, ``place``, ``interval``, ``at``, ``seconds`` and ``running`` may be there too;
            without ``interval`` the i-th row of an event in its run is interval i. Other columns are an error.
        runs : DataFrame, optional
            What is known of each run, indexed by run.
        kind : str
            What the data is, for runs that ``runs`` does not describe.
        time_event, work_event : str
            What the columns time and work count.
        missing : "error" or "keep"
            Whether NaN among time, work and count is an error that names the rows, or means "not measured".

        Raises
        ------
        DataError
            A column is absent or not numeric, or a value is negative or infinite (the rows are named).

        Examples
        --------
        >>> import pandas as pd, perfkit as pk
        >>> s = pk.Samples.from_frame(pd.DataFrame(
        ...     {"event": ["llc-misses"] * 2, "time": [100, 100], "work": [150, 50], "count": [1, 10]}))
        >>> s.events
        ['llc-misses']
        """
        _expect_frame(df, "Samples.from_frame")
        lacking = [c for c in ("event", *_COUNTS) if c not in df.columns]
        if lacking:
            raise DataError(
                f"Samples.from_frame expects the columns event, time, work and count; {', '.join(lacking)} not found "
                f"among {', '.join(map(str, df.columns))}. Rename the columns, or use Samples.from_counts."
            )
        unknown = [str(c) for c in df.columns if c not in COLUMNS]
        if unknown:
            raise DataError(
                f"Samples.from_frame does not know the columns {', '.join(unknown)}; it takes {', '.join(COLUMNS)}. "
                "Drop them, or put what describes a whole run into the table given as runs=."
            )
        table = complete_table(df)
        if missing == "error":
            _refuse_missing(table)
        return cls(table, complete_runs(table, runs, kind), time_event, work_event)

    @classmethod
    def from_counts(
        cls,
        counts: pd.DataFrame,
        *,
        time_event: str | None = None,
        work_event: str | None = None,
        runs: pd.DataFrame | None = None,
        kind: Kind = "measured",
        problems: pd.DataFrame | None = None,
        notes: Sequence[str] = (),
        accounting: pd.DataFrame | None = None,
    ) -> "Samples":
        """Make samples of plain counts: each interval's time and work are its counts of two chosen events.

        Parameters
        ----------
        counts : DataFrame
            Columns event and count, and as known: run, place, interval, at, seconds, running.
        time_event, work_event : str, optional
            The events that measure time and work; ``"seconds"`` takes the interval's length on the clock. By
            default the cycles and instructions of the tool that made the dump, found by name.
        runs : DataFrame, optional
            What is known of each run, indexed by run.
        kind : str
            What the data is, for runs that `runs` does not describe.
        problems, accounting : DataFrame, optional
            What a reader could not read, and what became of the dump's lines (`Samples.problems`, `.accounting`).
        notes : sequence of str
            What the user should know of the dump, in words.

        Raises
        ------
        SettingError
            The chosen events are not there, or none is found: the message lists what is.
        DataError
            The table has no column event or count.
        """
        _expect_frame(counts, "Samples.from_counts")
        lacking = [c for c in ("event", "count") if c not in counts.columns]
        if lacking:
            raise DataError(f"counts need the columns event and count; {', '.join(lacking)} not found")
        # A table that has all its columns is taken as it is, since a copy of a large one does not fit beside it.
        whole = _is_complete(counts)
        table = counts if whole else complete_table(counts.drop(columns=["time", "work"], errors="ignore"))
        time_event = time_event or _choose(table, TIME_EVENTS, "time")
        work_event = work_event or _choose(table, WORK_EVENTS, "work", beside=time_event)
        return cls(
            _with_axes(table, time_event, work_event),
            complete_runs(table, runs, kind),
            time_event,
            work_event,
            no_problems() if problems is None else problems,
            tuple(notes),
            no_accounting() if accounting is None else accounting,
        )

    @classmethod
    def from_wide(
        cls,
        df: pd.DataFrame,
        *,
        time_event: str | None = None,
        work_event: str | None = None,
        runs: pd.DataFrame | None = None,
        kind: Kind = "measured",
    ) -> "Samples":
        """Make samples of a wide table `df`: one row per interval, one column per event.

        Columns (or index levels) called run, place, interval, at and seconds are taken as such; `time_event`,
        `work_event`, `runs` and `kind` mean what they do in `from_counts`.

        Raises
        ------
        DataError
            An event has two columns.
        """
        _expect_frame(df, "Samples.from_wide")
        flat = df.reset_index() if any(n in COLUMNS for n in df.index.names) else df.reset_index(drop=True)
        keys = [c for c in ("run", "place", "interval", "at", "seconds") if c in flat.columns]
        duplicated = flat.columns[flat.columns.duplicated()].unique()
        if len(duplicated):
            raise DataError(f"each event needs one column; found twice: {', '.join(map(str, duplicated))}")
        if "interval" not in keys:
            by = [flat[k] for k in ("run", "place") if k in keys]
            number = flat.groupby(by, observed=True).cumcount() if by else np.arange(len(flat))
            flat = flat.assign(interval=number)
            keys.append("interval")
        long = flat.melt(id_vars=keys, var_name="event", value_name="count")
        return cls.from_counts(long, time_event=time_event, work_event=work_event, runs=runs, kind=kind)

    @classmethod
    def concat(cls, parts: Iterable["Samples"]) -> "Samples":
        """Put samples with the same time and work events into one; runs of the same name are numbered apart.

        Raises
        ------
        DataError
            There are no samples to put together.
        SettingError
            Their time or work events differ.
        """
        how = "put several into a list, or read dumps with perfkit.read_samples"
        expect(isinstance(parts, Iterable), parts, "Samples.concat", "several Samples", how)
        parts = [parts] if isinstance(parts, pd.DataFrame) else list(parts)
        if not parts:
            raise DataError("nothing to concatenate: expected at least one Samples")
        for part in parts:
            expect_samples(part, "Samples.concat")
        axes = {(p.time_event, p.work_event) for p in parts}
        if len(axes) > 1:
            listed = "; ".join(f"{t} and {w}" for t, w in sorted(axes))
            raise SettingError(
                f"samples to be put together must share their time and work events; found {listed}. "
                "Use .with_axes(time, work) on each first."
            )
        taken: set[str] = set()
        tables, runs = [], []
        for part in parts:
            names = {}
            for run in part.runs.index:
                names[run] = _free_name(str(run), taken)
                taken.add(names[run])
            tables.append(part.table.assign(run=part.table["run"].cat.rename_categories(names)))
            runs.append(part.runs.rename(index=names))
        columns: dict[str, Any] = {}
        for name in COLUMNS:
            of_parts = [t[name] for t in tables]
            columns[name] = _joined(of_parts) if name in _TEXT else np.concatenate([v.to_numpy() for v in of_parts])
        return cls(
            pd.DataFrame(columns, copy=False),
            pd.concat(runs),
            parts[0].time_event,
            parts[0].work_event,
            pd.concat([p.problems for p in parts], ignore_index=True),
            tuple(note for p in parts for note in p.notes),
            pd.concat([p.accounting for p in parts], ignore_index=True),
        )

    # ------------------------------------------------------------- what is in it

    def __len__(self) -> int:
        return len(self.table)

    def summary(self) -> str:
        """Say how much was counted, what throughput it amounts to, and what is missing."""
        t, names = self.table, [str(w) for w in dict.fromkeys(self.runs["workload"])]
        lines = [
            (
                f"{counted(len(t), 'samples')} of {counted(len(self.events), 'events')} in "
                f"{counted(self.n_intervals, 'intervals')} of {counted(len(self.runs), 'runs')}, {self.kind}; "
                f"time = {self.time_event}, work = {self.work_event}"
                f"{self._axes_counted()}"
            )
        ]
        if len(t):
            rate = f"{self.throughput():.4g} {per_unit(self.work_event, self.time_event)}"
            lines.append(f"{rate} over all of {listed(names, 4)}")
            missing, shared = float(t["count"].isna().mean()), float(t["running"].mean())
            known = "" if np.isnan(shared) else f"; counted {shared:.0%} of the time on average (multiplexing)"
            lines.append(f"{missing:.1%} of the samples are missing{known}")
        if len(self.problems):
            lines.append(f"{len(self.problems):,} of the input's lines could not be read: see problems")
        return "\n".join(lines)

    def _axes_counted(self) -> str:
        own = [e for e in (self.time_event, self.work_event) if e in self.table["event"].cat.categories]
        return f" (samples of {listed(dict.fromkeys(own))} included)" if own else ""

    @overload
    def plot(self, ax: "Axes | None" = ...) -> "Axes": ...

    @overload
    def plot(self, ax: None = ..., *, events: Sequence[str]) -> "Figure": ...

    def plot(self, ax: "Axes | None" = None, *, events: Sequence[str] = ()) -> "Axes | Figure":
        """Draw the throughput over time and return the axes; with events, a panel each, and return the figure.

        Raises
        ------
        SettingError
            Both events and axes were given: panels need a figure of their own.
        """
        if not events:
            return draw("samples:plot_throughput", self, ax=ax)
        if ax is not None:
            raise SettingError("the rates of events have panels of their own: leave ax out, or name no events")
        figure: Figure = drawn("samples:plot_over_time", self, events=events)
        return figure

    @property
    def events(self) -> list[str]:
        """The events counted, in order of first appearance, without those that measure time and work."""
        axes = (self.time_event, self.work_event)
        return [str(e) for e in self.table["event"].cat.categories if e not in axes]

    @property
    def n_intervals(self) -> int:
        """How many intervals there are, over all runs and places."""
        return len(self.table[_INTERVAL_KEY].drop_duplicates())

    @property
    def kind(self) -> str:
        """What the data is: measured, simulated, generated or published, or ``mixed (...)`` naming them."""
        return joint_kind(self.runs["kind"])

    def to_frame(self) -> pd.DataFrame:
        """Return a copy of the long table."""
        return self.table.copy()

    def describe(self) -> pd.DataFrame:
        """Return one row per event: samples, missing, zero, total count, rate per work and mean running share.

        The rate is total count over total work of the samples in which both are known, never a mean of ratios. Count
        and rate of an event that was never counted are NaN.
        """
        t = self.table
        known = t["count"].notna() & t["work"].notna()
        frame = pd.DataFrame(
            {
                "event": t["event"],
                "samples": 1,
                "missing": t["count"].isna(),
                "zero": t["count"] == 0,
                "count": t["count"],
                "known_count": t["count"].where(known),
                "known_work": t["work"].where(known),
                "running": t["running"],
            }
        )
        by = frame.groupby("event", observed=True, sort=False)
        out = by[["samples", "missing", "zero", "count", "known_count", "known_work"]].sum()
        out["count"] = by["count"].sum(min_count=1)  # of an event that was never counted there is no total
        out["running"] = by["running"].mean()
        work = out.pop("known_work")
        out["rate"] = out.pop("known_count") / work.where(work > 0)
        return out

    def throughput(self) -> float:
        """Return total work over total time of all intervals in which both are known (NaN when time is zero)."""
        each = self.intervals()
        known = each["time"].notna() & each["work"].notna()
        time = each["time"][known].sum()
        return float(each["work"][known].sum() / time) if time > 0 else float("nan")

    def intervals(self) -> pd.DataFrame:
        """Return one row per interval: run, place, interval, at, seconds, time and work.

        Raises
        ------
        DataError
            Time or work differ between the events of one interval, as where every event was sampled for itself.
        """
        columns = [*_INTERVAL_KEY, "at", "seconds", "time", "work"]
        each = self.table[columns].drop_duplicates()
        again = each.duplicated(_INTERVAL_KEY)
        if again.any():
            first = each.loc[again.idxmax(), _INTERVAL_KEY]
            raise DataError(
                f"run {first['run']!r}, interval {first['interval']}: time or work differ between its events, so there "
                "is no one row per interval. Every event was sampled for itself: use the long table (.table) instead."
            )
        return each.reset_index(drop=True)

    # ------------------------------------------------------------- choosing and shaping

    def select(
        self,
        *,
        events: Iterable[str] | None = None,
        runs: Iterable[str] | None = None,
        between: tuple[float, float] | None = None,
        mask: "np.ndarray | pd.Series | None" = None,
    ) -> "Samples":
        """Return the samples of the named events and runs, with ``at`` within the closed range ``between`` (seconds).

        ``mask`` is a boolean array over the rows of ``table``. The events of time and work stay in.

        Raises
        ------
        SettingError
            There is no such event or run, or `between` ends before it begins.
        """
        keep = np.ones(len(self.table), dtype=bool)
        if events is not None:
            wanted = _known(events, self.table["event"].cat.categories, "event")
            keep &= self.table["event"].isin([*wanted, self.time_event, self.work_event]).to_numpy()
        if runs is not None:
            keep &= self.table["run"].isin(_known(runs, self.runs.index, "run")).to_numpy()
        if between is not None:
            if not between[0] <= between[1]:
                raise SettingError(f"between takes the earlier time first; found {between[0]:g} > {between[1]:g}")
            keep &= self.table["at"].between(*between).to_numpy()
        if mask is not None:
            keep &= np.asarray(mask, dtype=bool)
        return self._of(self.table[keep])

    def with_axes(self, time_event: str, work_event: str) -> "Samples":
        """Return the same counts with `time_event` as time and `work_event` as work (``"seconds"``: the clock's)."""
        for event in (time_event, work_event):
            expect(isinstance(event, str), event, "Samples.with_axes", "names of events", 'name them, or "seconds"')
        return replace(
            self,
            table=_with_axes(self.table, time_event, work_event),
            time_event=time_event,
            work_event=work_event,
        )

    def aggregate(self, n: int) -> "Samples":
        """Return the sums over each ``n`` consecutive intervals of a run and place; a shorter last group stays.

        A sum is missing where one of its parts is; ``running`` becomes the mean share.

        Raises
        ------
        SettingError
            `n` is less than 1.
        """
        expect_number(n, "Samples.aggregate", "n", "say how many intervals to sum", whole=True)
        if n < 1:
            raise SettingError(f"aggregate needs a number of intervals of at least 1; found {n}")
        keys = self.table[_INTERVAL_KEY].drop_duplicates().sort_values(_INTERVAL_KEY)
        keys["group"] = keys.groupby(["run", "place"], observed=True).cumcount() // n
        table = self.table.merge(keys, on=_INTERVAL_KEY, how="left").sort_values("interval", kind="stable")
        by = table.groupby(["run", "place", "event", "group"], observed=True, sort=False)
        sums = by[["seconds", *_COUNTS]]
        out = sums.sum().where(sums.count().eq(by.size(), axis=0))
        out["at"] = by["at"].max()
        out["running"] = by["running"].mean()
        return self._of(complete_table(out.reset_index().rename(columns={"group": "interval"}), like=self.table))

    def to_wide(self, value: str = "count") -> pd.DataFrame:
        """Return one row per interval (indexed by run, place and interval) and one column per event.

        ``value`` is count, running, time or work. Time and work of the interval come first, under their events' names,
        where ``value`` is count and every interval has one time and work.

        Raises
        ------
        SettingError
            `value` is none of the four.
        DataError
            An event stands twice in an interval.
        """
        if str(value) not in ("count", "running", *_COUNTS):
            raise SettingError(f"to_wide gives count, running, time or work; found {value!r}")
        again = self.table.duplicated([*_INTERVAL_KEY, "event"])
        if again.any():
            row = self.table.loc[again.idxmax()]
            raise DataError(
                f"run {row['run']!r}, interval {row['interval']}: event {row['event']!r} is there twice; a wide table "
                "has one cell for it. Select one of them first."
            )
        wide = self.table.pivot(index=_INTERVAL_KEY, columns="event", values=value)
        wide.columns = pd.Index([str(c) for c in wide.columns], name="event")
        order = [str(c) for c in self.table["event"].cat.categories if c in wide.columns]
        wide = wide[order]
        if value != "count":
            return wide
        axes = self.intervals().set_index(_INTERVAL_KEY)[["time", "work"]].reindex(wide.index)
        axes.columns = pd.Index([self.time_event, self.work_event], name="event")
        # Joined at once: pandas warns of tables that grew beyond a hundred columns one by one.
        return pd.concat([axes, wide.drop(columns=list(axes), errors="ignore")], axis=1)

    # ------------------------------------------------------------- files

    def save(self, path: str | Path) -> Path:
        """Write both tables into one parquet file and return its path."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        head = {
            "format": _FORMAT,
            "version": _FORMAT_VERSION,
            "time_event": self.time_event,
            "work_event": self.work_event,
            "runs": json.loads(self.runs.reset_index().to_json(orient="records")),
            "notes": list(self.notes),
            "problems": json.loads(self.problems.to_json(orient="records")),
            "accounting": json.loads(self.accounting.to_json(orient="records")),
        }
        head["empty"] = [c for c in _NUMBERS if np.isnan(np.fmin.reduce(self.table[c].to_numpy(), initial=np.nan))]
        arrays = {c: _to_arrow(self.table[c]) for c in COLUMNS if c not in head["empty"]}
        arrow = pa.table(arrays).replace_schema_metadata({b"perfkit": json_text(head).encode()})
        path = a_path(path, "Samples.save")
        # A dictionary of floats helps nobody, and lz4 is read at twice the speed of zstd.
        with replaced(path, ".parquet", ".pq") as temporary:
            pq.write_table(
                arrow,
                temporary,
                compression="lz4",
                use_dictionary=[c for c in (*_TEXT, "at", "seconds", "running") if c in arrays],
                row_group_size=max(len(arrow), 1),
                write_statistics=False,
            )
        return path

    @classmethod
    def load(cls, path: str | Path) -> "Samples":
        """Read what `save` wrote; FileNotFoundError if there is none, FormatError if it is another's or damaged."""
        return cls(**read_parquet(path))

    def to_parquet(self, path: str | Path) -> Path:
        """Write the samples: the same as `save`."""
        return self.save(path)

    @classmethod
    def from_parquet(cls, path: str | Path) -> "Samples":
        """Read samples: the same as `load`."""
        return cls.load(path)

    def _of(self, table: pd.DataFrame) -> "Samples":
        """Return these samples with other rows; runs and categories that no longer occur are left out."""
        table = table.reset_index(drop=True)
        for column in _TEXT:
            table[column] = table[column].cat.remove_unused_categories()
        return replace(
            self, table=table, runs=self.runs.loc[[r for r in self.runs.index if r in set(table["run"].cat.categories)]]
        )


# ------------------------------------------------------------------ helpers


def _expect_frame(given: Any, where: str) -> None:
    how = "read a dump with perfkit.read_samples, or put the counts into a DataFrame"
    expect(isinstance(given, pd.DataFrame), given, where, "a DataFrame", how)


def expect_samples(given: Any, where: str) -> None:
    """Refuse what is not `Samples`, and say how to make them.

    Raises
    ------
    DataError
        Something else was given, for example a DataFrame.
    """
    if isinstance(given, Samples):
        return
    how = "read them with perfkit.read_samples"
    if hasattr(given, "to_samples"):
        how = "draw some with .sample(20_000), or bring a part into memory with .where(...).to_samples()"
    if isinstance(given, pd.DataFrame):
        how = "make them with perfkit.Samples.from_counts (event, count) or from_frame (with time and work)"
    expect(False, given, where, "Samples", how)


def read_parquet(path: str | Path) -> dict[str, Any]:
    """Return what a file that `Samples.to_parquet` wrote holds: the arguments of `Samples`."""
    import pyarrow.parquet as pq

    name = existing(path).name
    with reading(path, "a parquet file of samples"), pq.ParquetFile(path, memory_map=True) as file:
        columns, metadata = file.schema_arrow.names, file.schema_arrow.metadata or {}
        head = json_object(metadata.get(b"perfkit", b"{}"), name, "the description of samples")
        _check_head(head, columns, name)
        return {
            "table": _table_of(file, columns),
            "runs": _runs_of(head["runs"]).set_index("run"),
            "time_event": head["time_event"],
            "work_event": head["work_event"],
            "problems": _rows_of(head["problems"], no_problems()),
            "notes": tuple(head["notes"]),
            "accounting": _rows_of(head.get("accounting") or [], no_accounting()),
        }


def _runs_of(records: list[Any]) -> pd.DataFrame:
    """Return the runs that a file describes, of which there may be none, one row each."""
    text = ("run", *RUN_COLUMNS)
    return pd.DataFrame(records, columns=None if records else list(text)).astype(dict.fromkeys(text, "str"))


def _check_head(head: Mapping[str, Any], columns: Sequence[str], name: str) -> None:
    if head.get("format") != _FORMAT:
        raise FormatError(
            f"{name}: a parquet file, but not one that Samples.to_parquet wrote. Read a plain table with "
            "perfkit.read_samples, or pandas and Samples.from_frame."
        )
    fields = {"version": int, "runs": list, "time_event": str, "work_event": str, "problems": list, "notes": list}
    check_fields(head, fields, name, "the description of samples")
    lacking = set(COLUMNS) - set(columns) - set(head.get("empty", ()))
    if lacking:
        raise FormatError(f"{name}: samples without {listed(sorted(lacking))} among their columns")
    if head["version"] > _FORMAT_VERSION:
        raise FormatError(
            f"{name}: samples of format version {head['version']}; this perfkit reads up to {_FORMAT_VERSION}. "
            "Update perfkit."
        )


def _rows_of(records: list[Any], empty: pd.DataFrame) -> pd.DataFrame:
    """Return records as a table with the columns and types of an empty one."""
    if not records:
        return empty
    return pd.DataFrame.from_records(records)[list(empty.columns)].astype(empty.dtypes.to_dict())


def _joined(parts: list[pd.Series]) -> pd.Categorical:
    """Put categorical columns one after another, their categories in order of first appearance."""
    order: dict[str, int] = {}
    codes = []
    for part in parts:
        new = [order.setdefault(str(c), len(order)) for c in part.cat.categories]
        codes.append(np.array(new, dtype="int32")[part.cat.codes.to_numpy()])
    return pd.Categorical.from_codes(np.concatenate(codes), categories=list(order))


def _to_arrow(values: pd.Series) -> "pa.Array":
    """Return a column as Arrow holds it; NaN stays NaN, which unlike null needs no second look at reading."""
    import pyarrow as pa

    if not isinstance(values.dtype, pd.CategoricalDtype):
        return pa.array(values.to_numpy())
    categories = pa.array([str(c) for c in values.cat.categories], pa.string())
    return pa.DictionaryArray.from_arrays(pa.array(values.cat.codes.to_numpy(), pa.int32()), categories)


def _table_of(file: "pq.ParquetFile", names: Sequence[str]) -> pd.DataFrame:
    """Return the table of samples; a column that the file leaves out was missing in all of them.

    Columns are read one after another: what one was decoded from is gone before the next.
    """
    import pyarrow as pa

    unknown = np.full(file.metadata.num_rows, np.nan)
    unknown.flags.writeable = False  # several columns may share it
    columns = {name: _column_of(file, name) if name in names else unknown for name in COLUMNS}
    pa.default_memory_pool().release_unused()
    return complete_table(pd.DataFrame(columns, copy=False))


def _column_of(file: "pq.ParquetFile", name: str) -> Any:
    import pyarrow as pa

    # One batch is one piece of memory, which numpy can use as it is.
    rows = file.metadata.num_rows
    whole = next(file.iter_batches(batch_size=max(rows, 1), columns=[name]), None)
    in_one = whole is not None and whole.num_rows == rows
    arrow = pa.Table.from_batches([whole]) if in_one else file.read(columns=[name])
    arrow.validate(full=True)  # a damaged file's indices would crash the process later
    values = arrow.column(name)
    if name not in _TEXT:
        # A file may hold what is missing as nulls, which takes a copy, or as NaN, which takes none.
        return values.chunk(0).to_numpy(zero_copy_only=False) if values.num_chunks == 1 else values.to_numpy()
    coded = values if pa.types.is_dictionary(values.type) else values.dictionary_encode()
    coded = coded.chunk(0) if coded.num_chunks == 1 else coded.unify_dictionaries().combine_chunks()
    coded = coded.chunk(0) if isinstance(coded, pa.ChunkedArray) else coded
    categories = pd.Index(coded.dictionary.to_pylist(), dtype="str")  # also where there are none
    return pd.Categorical.from_codes(coded.indices.to_numpy(), categories=categories)


def complete_table(df: pd.DataFrame, like: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return a table of counts with all columns in order and of their types; what is not known is NaN or empty."""
    if like is None and _is_complete(df):
        return df
    n = len(df)
    run = df["run"] if "run" in df.columns else pd.Series(["run"] * n, index=df.index)
    place = df["place"] if "place" in df.columns else pd.Series([""] * n, index=df.index)
    columns: dict[str, Any] = {"run": run, "place": place, "event": df["event"]}
    for name in _TEXT:
        columns[name] = _as_category(columns[name], name, None if like is None else like[name].cat.categories)
    for name in _NUMBERS:
        columns[name] = _as_number(df[name], name) if name in df.columns else np.full(n, np.nan)
    if "interval" in df.columns:
        columns["interval"] = _as_interval(df["interval"])
    else:
        keys = [columns["run"].cat.codes, columns["place"].cat.codes, columns["event"].cat.codes]
        columns["interval"] = columns["event"].groupby(keys).cumcount().to_numpy(dtype="int64")
    return pd.DataFrame({c: np.asarray(columns[c]) if c in _NUMBERS else columns[c] for c in COLUMNS}).reset_index(
        drop=True
    )


def _is_complete(df: pd.DataFrame) -> bool:
    """Whether a table has all columns with their types already, so that nothing needs to be copied."""
    if list(df.columns) != list(COLUMNS) or not isinstance(df.index, pd.RangeIndex) or df.index.start != 0:
        return False
    return (
        all(isinstance(df[c].dtype, pd.CategoricalDtype) for c in _TEXT)
        and all(df[c].dtype == "float64" for c in _NUMBERS)
        and df["interval"].dtype == "int64"
        and bool(df["interval"].to_numpy().min(initial=0) >= 0)
    )


def _as_category(values: pd.Series, name: str, order: pd.Index | None = None) -> pd.Series:
    if isinstance(values.dtype, pd.CategoricalDtype):
        return values.cat.remove_unused_categories()
    if values.isna().any():
        raise DataError(f"column {name}: every row needs a name; missing in {_rows(values.isna())}")
    text = values.astype(str)
    seen = pd.unique(text)
    if order is not None:
        present = set(seen)
        seen = np.array([c for c in order if c in present], dtype=object)
    return pd.Series(pd.Categorical(text, categories=seen), index=values.index)


def _as_number(values: pd.Series, name: str) -> np.ndarray:
    try:
        return pd.to_numeric(values).to_numpy(dtype="float64", na_value=np.nan)
    except (ValueError, TypeError) as error:
        bad = pd.to_numeric(values, errors="coerce").isna() & values.notna()
        raise DataError(
            f"column {name}: expected numbers; found {str(values[bad].iloc[0])!r} in {_rows(bad)}. "
            "Convert the text first, with missing values as NaN."
        ) from error


def _as_interval(values: pd.Series) -> np.ndarray:
    number = _as_number(values, "interval")
    bad = ~(np.isfinite(number) & (number == np.floor(number)) & (number >= 0) & (number <= 2**53))
    if bad.any():
        raise DataError(f"column interval: expected whole numbers from 0 to 2^53; not so in {_rows(bad)}")
    return number.astype("int64")


def _rows(bad: "pd.Series | np.ndarray", at_most: int = 5) -> str:
    """Name the rows (by position) in which ``bad`` holds."""
    where = np.flatnonzero(np.asarray(bad))
    return f"row{'s' if len(where) > 1 else ''} {listed(where, at_most)}"


def _refuse_missing(table: pd.DataFrame) -> None:
    for name in _COUNTS:
        bad = table[name].isna()
        if bad.any():
            raise DataError(
                f"column {name}: expected a number in every row; missing in {_rows(bad)}. "
                "If it was not measured there, say so with missing='keep'."
            )


def _check_table(table: pd.DataFrame) -> None:
    _expect_frame(table, "Samples")
    if list(table.columns) != list(COLUMNS):
        raise DataError(f"a table of samples has the columns {', '.join(COLUMNS)}; found {', '.join(map(str, table))}")
    for name in _TEXT:
        if not isinstance(table[name].dtype, pd.CategoricalDtype):
            raise DataError(f"column {name} must be categorical; make samples with Samples.from_frame")
    for name in (*_COUNTS, "running", "seconds"):
        values = table[name].to_numpy()
        # fmin and fmax leave NaN out and need no memory, unlike comparing every value.
        if np.fmin.reduce(values, initial=0.0) < 0 or np.fmax.reduce(values, initial=0.0) == np.inf:
            bad = (values < 0) | np.isinf(values)
            value = values[np.argmax(bad)]
            raise DataError(f"column {name}: expected finite numbers of at least 0; found {value} in {_rows(bad)}")
    running = table["running"].to_numpy()
    if np.fmax.reduce(running, initial=0.0) > 1.0 + 1e-9:
        raise DataError(f"column running is a fraction from 0 to 1; above it in {_rows(running > 1.0 + 1e-9)}")


def _check_runs(runs: pd.DataFrame, table: pd.DataFrame) -> None:
    lacking = [c for c in RUN_COLUMNS if c not in runs.columns]
    if lacking:
        raise DataError(f"the table of runs lacks the columns {', '.join(lacking)}")
    if runs.index.has_duplicates:
        raise DataError(f"the table of runs names a run twice: {', '.join(runs.index[runs.index.duplicated()])}")
    unknown = [str(r) for r in table["run"].cat.categories if r not in runs.index]
    if unknown:
        raise DataError(f"the table of runs does not describe {', '.join(unknown)}")
    wrong = sorted(set(runs["kind"]) - set(KINDS))
    if wrong:
        raise DataError(f"a run's kind is one of {', '.join(KINDS)}; found {', '.join(map(str, wrong))}")


def complete_runs(table: pd.DataFrame, runs: pd.DataFrame | None, kind: str) -> pd.DataFrame:
    """Return the table of runs of a table of samples: what is given, and defaults for the rest."""
    names = [str(r) for r in table["run"].cat.categories]
    index = pd.Index(names, name="run", dtype="str")
    given = pd.DataFrame(index=index) if runs is None else runs.reindex(index)
    empty = {"workload": names, "parameters": ["{}"] * len(names), "kind": [kind] * len(names)}
    filled = {}
    for column in RUN_COLUMNS:
        default = empty.get(column, [""] * len(names))
        said = given[column].astype(object).tolist() if column in given.columns else default
        filled[column] = [d if pd.isna(v) else str(v) for v, d in zip(said, default, strict=True)]
    out = pd.DataFrame(filled, index=index, dtype="str")
    further = [c for c in given.columns if c not in RUN_COLUMNS]
    return out.join(given[further]) if further else out


_MAY_MEASURE = {
    "time": re.compile(r"^(?!.*(?:stall|idle|wait)).*(?:cyc|unhalted)", re.IGNORECASE),
    "work": re.compile(r"instruction|tot_ins|inst_?retired", re.IGNORECASE),
}


def _choose(table: pd.DataFrame, candidates: Sequence[str], role: str, beside: str = "") -> str:
    """Return the event that measures time or work, by the name it has in the tools that perfkit reads.

    Where several kinds of core were counted, it is of the same kind as ``beside``.
    """
    names = [str(e) for e in table["event"].cat.categories]
    partners = {modes(e) for e in ([beside] if beside else names) if beside or normalise(e) in WORK_EVENTS}
    here = table["event"].cat.codes.to_numpy()[~np.isnan(table["count"].to_numpy())]
    counted = dict(zip(names, np.bincount(here, minlength=len(names)), strict=True))
    plain = [e for e in names if not is_translated(e)]
    if any(normalise(e) in candidates for e in plain if e != "seconds"):
        names = plain  # a column Zyklen beside cycles is the table's own, such as how often a loop went round
    for candidate in candidates:
        fitting = [e for e in names if normalise(e) == candidate]
        if fitting:
            # Of several kinds of core the one that did most; of cycles:k and cycles:u the one counted most often, of
            # these one in the mode (user, kernel) of the other axis, and of these the one that did most.
            same = [e for e in fitting if counter_unit(e) == counter_unit(beside) and counted[e]]
            if len(fitting) == 1:
                return fitting[0]
            sums = table["count"].groupby(table["event"], observed=True).sum()
            if not same and len({counter_unit(e) for e in fitting}) > 1:
                most = counter_unit(max(fitting, key=lambda e: (sums.get(e, 0.0), counted[e])))
                same = [e for e in fitting if counter_unit(e) == most]
            return max(
                same or fitting,
                key=lambda e: (counted[e], modes(e) in partners, sums.get(e, 0.0)),
            )
        if candidate == "seconds" and table["seconds"].notna().any():
            return "seconds"
    shown = ", ".join(names[:20]) + (" ..." if len(names) > 20 else "")
    likely = [e for e in names if _MAY_MEASURE[role].search(e)]
    told = f"{listed(likely, 3, last='or')} may be it. " if likely else ""
    raise SettingError(
        f"no event that measures {role} was found among: {shown}. {told}"
        f"Name one: {role}_event=... (for example one of {', '.join(candidates[:4])})."
    )


def _with_axes(table: pd.DataFrame, time_event: str, work_event: str) -> pd.DataFrame:
    """Return the table with time and work taken from the counts of two of its events, by run, place and interval."""
    key, n_keys = _interval_numbers(table)
    events = table["event"].cat
    out = table.copy(deep=False)
    for column, name in (("time", time_event), ("work", work_event)):
        if name == "seconds" and name not in events.categories:
            if not table["seconds"].notna().any():
                raise SettingError(f"{column}_event='seconds' needs interval lengths; this data has none")
            out[column] = table["seconds"]
            continue
        _known([name], events.categories, "event")
        rows = np.flatnonzero(events.codes.to_numpy() == events.categories.get_loc(name))
        if np.bincount(key[rows], minlength=1).max() > 1:
            raise DataError(f"event {name!r} is there more than once in an interval; it cannot measure {column}")
        of_interval = np.full(n_keys, np.nan)
        of_interval[key[rows]] = table["count"].to_numpy()[rows]
        out[column] = of_interval[key]
    return out


def _interval_numbers(table: pd.DataFrame) -> tuple[np.ndarray, int]:
    """Give each interval of all runs and places a number: one per row, and how many numbers there may be."""
    run, place = table["run"].cat, table["place"].cat
    interval = table["interval"].to_numpy()
    n = int(interval.max(initial=0)) + 1
    size = n * len(place.categories) * max(len(run.categories), 1)
    if size <= 4 * len(table) + 1024:
        key = run.codes.to_numpy().astype("int64")
        key *= len(place.categories)
        key += place.codes.to_numpy()
        key *= n
        key += interval
        return key, size
    numbers = table.groupby(_INTERVAL_KEY, observed=True, sort=False).ngroup().to_numpy()
    return numbers, int(numbers.max(initial=-1)) + 1


def _known(wanted: Iterable[str], known: Iterable[Any], what: str) -> list[str]:
    if isinstance(wanted, str):
        wanted = [wanted]
    names = [str(k) for k in known]
    wanted = list(wanted)
    unknown = [w for w in wanted if w not in set(names)]
    if unknown:
        near = closest(unknown[0], names) or names[:3]
        raise SettingError(f"unknown {what} {unknown[0]!r}; did you mean {', '.join(near)}? There are {len(names)}.")
    return wanted


def _free_name(name: str, taken: set[str]) -> str:
    if name not in taken:
        return name
    number = 2
    while f"{name} ({number})" in taken:
        number += 1
    return f"{name} ({number})"
