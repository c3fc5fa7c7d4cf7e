"""A fleet's samples: more than memory holds, in files, read in parallel and never all at once.

Fits of a fleet are made of summaries that merge: each task reads some row groups and returns a summary a *cell* (the
runs that share the labels asked for), and summaries are merged in the order of the files. The result does not depend on
how many workers there are.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pandas as pd

from perfkit.base.files import existing, json_object, json_text, reading, replaced
from perfkit.base.in_order import Progress, in_order
from perfkit.base.results import Summarised, answering, draw, joint_kind
from perfkit.errors import DataError, FormatError, SettingError, counted, did_you_mean, expect, expect_number, listed
from perfkit.samples.parts import Intervals, Part, load_part, load_rows, part_of, rows_of
from perfkit.samples.table import Samples

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FORMAT, _VERSION = "perfkit-fleet", 1
_CHUNK, _MOST_FILES = 1 << 23, 64  # samples of a task, and files of one,
_MOST_TASKS = 10_000  # as long as there are no more tasks than these; their results are merged one by one
_HOUR = 3600.0
FILE_COLUMNS = ("file", "status", "runs", "samples", "total", "counts", "describes", "left_out", "problems", "reason")
Key = tuple[int, float]  # a cell's number, and the hour or day (0 where none was asked for)
_Summary = TypeVar("_Summary")


@dataclass(frozen=True)
class Piece:
    """Row groups of a part for a task: the cell of each of its runs (a run without one is passed over)."""

    part: Part
    groups: tuple[int, ...]
    cells: Mapping[str, int]
    started: Mapping[str, float] = field(default_factory=dict)
    period: float = 0.0

    def slices(self, batch: Intervals) -> Iterator[tuple[Key, slice]]:
        """Yield the cells of a batch, each with its rows."""
        for run, low, high in batch.rows:
            cell = self.cells.get(run, -1)
            if cell < 0:
                continue
            if not self.period:
                yield (cell, 0.0), slice(low, high)
                continue
            times = np.floor((self.started[run] + batch.ends[low:high]) / self.period)
            edges = [0, *(np.flatnonzero(np.diff(times)) + 1).tolist(), high - low]
            for a, b in pairwise(edges):
                if b > a and np.isfinite(times[a]):
                    yield (cell, float(times[a]) * self.period), slice(low + a, low + b)


@dataclass(frozen=True, eq=False, repr=False)
class Fleet(Summarised):
    """Samples of many machines, in files. Make one with `perfkit.open_samples`.

    `Spire.fit`, `CpiStack.fit` and others take it as they take `Samples`.

    Attributes
    ----------
    parts : tuple of Part
        The files that hold the samples.
    runs : DataFrame
        One row per run: ``part`` (the number of its file), ``run``, what `Samples.runs` says of it, ``machine``,
        ``day`` and the labels that were given.
    files : DataFrame
        One row per file that was found: its status (read, kept from an earlier time, failed, left out), how many runs
        and samples it holds, what became of its lines as in `Samples.accounting`, and the reason where it failed.
    time_event, work_event : str
        What time and work are.
    machines_known : bool
        Whether dumps, folders or labels say which machine a run is of. Otherwise each file stands for a machine.
    notes : tuple of str
        What the user should know of it, in words.
    cluster, workers, progress
        Where it is read: see `perfkit.open_samples`.

    Examples
    --------
    >>> samples, _ = pk.synthetic_cpi(intervals=60, seed=1)
    >>> _ = [samples.save(f"{name}.parquet") for name in ("a", "b")]
    >>> fleet = pk.open_samples(".", memory=False)
    >>> len(fleet.files), fleet.kind
    (2, 'generated')
    """

    parts: tuple[Part, ...]
    runs: pd.DataFrame
    files: pd.DataFrame
    time_event: str
    work_event: str
    machines_known: bool = True
    notes: tuple[str, ...] = ()
    cluster: str = ""
    workers: int = 0
    progress: Progress | None = None

    def __post_init__(self) -> None:
        how = "open the files of its machines with perfkit.open_samples(..., memory=False)"
        expect(hasattr(self.runs, "columns"), self.runs, "Fleet", "a table of runs", how)
        if not len(self.runs):
            raise DataError("no run is left of the fleet; choose other labels")

    def __len__(self) -> int:
        return sum(p.n_samples for p in self.parts)

    @property
    def events(self) -> list[str]:
        """The events counted, in order of first appearance, without those of time and work."""
        return list(dict.fromkeys(e for p in self.parts for e in p.events))

    @property
    def kind(self) -> str:
        """What the data is: measured, simulated, generated or published, or ``mixed (...)`` naming them."""
        return joint_kind(self.runs["kind"])

    @property
    def machines(self) -> list[str]:
        """The machines, in order of first appearance."""
        return [str(m) for m in dict.fromkeys(self.runs["machine"])]

    @property
    def labels(self) -> list[str]:
        """What runs can be grouped by and chosen by."""
        return [c for c in self.runs.columns if c not in ("part", "parameters", "started")] + ["hour"]

    def summary(self) -> str:
        """Say how much there is, of how many machines, and which files are not in it."""
        lines = [
            (
                f"{counted(len(self), 'samples')} of {counted(len(self.events), 'events')} in "
                f"{counted(len(self.parts), 'files')}, {counted(len(self.runs), 'runs')} of "
                f"{counted(len(self.machines), 'machines')}, {self.kind}; time = {self.time_event}, work = "
                f"{self.work_event}; not in memory"
            )
        ]
        if not self.machines_known:
            lines.append("nothing says which machine a file is of: each file counts as a machine of its own")
        failed = self.files["status"] == "failed"
        if failed.any():
            names = ", ".join(self.files.loc[failed, "file"].head(3))
            lines.append(f"{failed.sum():,} of {len(self.files):,} files could not be read ({names}): see files")
        dropped = int(self.files[["left_out", "problems"]].sum().sum())
        if dropped:
            lines.append(f"left out of the files that were read: {counted(dropped, 'lines')}, see files")
        return "\n".join([*lines, *self.notes[:3]])

    def to_frame(self) -> pd.DataFrame:
        """Return one row per run: its file, machine, day and labels."""
        return self.runs.copy()

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw how many runs there are of each machine; return the axes."""
        return draw("fleet:plot_fleet", self, ax=ax)

    def where(self, **labels: Any) -> "Fleet":
        """Return the runs whose labels have these values (a value, or several): ``fleet.where(version="2.1")``.

        Raises
        ------
        SettingError
            There is no such label.
        DataError
            No run has these values.
        """
        keep = np.ones(len(self.runs), dtype=bool)
        for name, wanted in labels.items():
            self.check_labels([name])
            values = [wanted] if isinstance(wanted, str) or not isinstance(wanted, Sequence) else list(wanted)
            known = self.runs[name].astype(str)
            unknown = [str(v) for v in values if str(v) not in set(known)]
            if unknown:
                raise SettingError(f"no run has {name}={unknown[0]!r}; {did_you_mean(unknown[0], sorted(set(known)))}")
            keep &= known.isin([str(v) for v in values]).to_numpy()
        return replace(self, **_chosen(self, keep))

    def check_labels(self, names: Sequence[str]) -> None:
        """Raise SettingError where runs have no such label."""
        expect(hasattr(names, "__iter__"), names, "a Fleet", "a list of labels", f"name some of {listed(self.labels)}")
        for name in names:
            if name == "hour":
                raise SettingError("an hour is of intervals, and a run has several: group by it, by='hour'")
            if name not in self.runs.columns:
                raise SettingError(f"runs have no label {name!r}; {did_you_mean(name, self.labels)}")

    def to_samples(self) -> Samples:
        """Return all samples, in memory."""
        parts = []
        for i, part in enumerate(self.parts):
            mine = self.runs.loc[self.runs["part"] == i, "run"]
            parts.append(load_part(part).select(runs=list(mine)))
        return Samples.concat(parts)

    def sample(self, intervals: int = 20_000, seed: int = 0) -> Samples:
        """Return intervals drawn at random, in memory, for methods that need samples there; its notes say of how many.

        Each interval of the fleet is as likely as any other, so busy times and machines with more of them have more.
        The same seed draws the same, wherever the fleet is read.

        Parameters
        ----------
        intervals : int
            How many, at most those that there are.
        seed : int
            Of the draw.

        Raises
        ------
        SettingError
            Fewer than one interval is asked for.
        """
        expect_number(intervals, "Fleet.sample", "intervals", "say how many to draw", whole=True)
        if intervals < 1:
            raise SettingError(f"expected at least one interval to draw; found {intervals}")
        runs = [list(names) for _, names in self.runs.groupby("part", sort=True)["run"]]
        rows = [rows_of(part, mine) for part, mine in zip(self.parts, runs, strict=True)]
        edges = np.cumsum([0, *map(len, rows)])
        total = int(edges[-1])
        drawn = np.sort(np.random.default_rng(seed).choice(total, size=min(intervals, total), replace=False))
        cuts = np.searchsorted(drawn, edges)
        tasks = [
            (part, mine[drawn[a:b] - edge])
            for part, mine, edge, (a, b) in zip(self.parts, rows, edges[:-1], pairwise(cuts.tolist()), strict=True)
            if b > a
        ]
        parts = in_order(_drawn, tasks, cluster=self.cluster, workers=self.workers, progress=self.progress)
        told = f"{len(drawn):,} of the {total:,} intervals of a fleet, drawn at random (seed {seed})"
        return replace(Samples.concat(parts), notes=(told,))

    # ------------------------------------------------------------ reading

    def scan(
        self,
        summarise: Callable[[Sequence[Piece]], Mapping[Key, _Summary]],
        merge: Callable[[_Summary, _Summary], _Summary],
        by: Sequence[str] = (),
    ) -> tuple[pd.DataFrame, list[_Summary]]:
        """Read everything once: summarise the pieces of each task by cell, and merge the summaries in order.

        Parameters
        ----------
        summarise : callable
            Takes pieces, returns a summary for each cell in them. A function of a module, or a partial of one.
        merge : callable
            Takes two summaries of a cell, the earlier first.
        by : sequence of str
            The labels that runs of one cell share; ``hour`` for the hour in which an interval ended.

        Returns
        -------
        table, summaries
            One row per cell with its labels, and its summary.
        """
        for given in (summarise, merge):
            expect(callable(given), given, "Fleet.scan", "functions (summarise, merge)", "see its documentation")
        cells, pieces = self.pieces(by)
        found: dict[Key, _Summary] = {}
        chunks = list(_chunks(pieces))
        for part in in_order(summarise, chunks, cluster=self.cluster, workers=self.workers, progress=self.progress):
            for key, summary in part.items():
                found[key] = merge(found[key], summary) if key in found else summary
        keys = sorted(found)
        table = cells.iloc[[cell for cell, _ in keys]].reset_index(drop=True)
        if "hour" in by:
            table["hour"] = pd.to_datetime([when for _, when in keys], unit="s").strftime("%Y-%m-%d %H:00")
        return table[list(by)], [found[key] for key in keys]

    def pieces(self, by: Sequence[str] = ()) -> tuple[pd.DataFrame, list[Piece]]:
        """Return the cells (one row each, with the labels ``by``), and every part with the cells of its runs.

        Raises
        ------
        SettingError
            `by` names no label; or it is ``hour``, and no dump says when it was started.
        """
        self.check_labels([name for name in by if name != "hour"] if hasattr(by, "__iter__") else by)
        by = list(by)
        plain = [name for name in by if name != "hour"]
        period = _HOUR if "hour" in by else 0.0
        started = self.runs["started"].to_numpy(dtype="float64")
        if period and np.isnan(started).all():
            raise SettingError("no dump says when it was started, so there are no hours to group by")
        if plain:
            numbers = self.runs.groupby(plain, sort=False, dropna=False).ngroup().to_numpy()
            cells = self.runs.loc[~pd.Series(numbers, index=self.runs.index).duplicated(), plain].reset_index(drop=True)
        else:
            numbers, cells = np.zeros(len(self.runs), dtype=np.int64), pd.DataFrame(index=[0])
        numbers = np.where(np.isnan(started) & (period > 0), -1, numbers)
        of_part: dict[int, list[int]] = {}
        for row, where in enumerate(self.runs["part"].to_numpy().tolist()):
            of_part.setdefault(where, []).append(row)
        names = self.runs["run"].to_numpy()
        pieces = []
        for i, part in enumerate(self.parts):
            rows = of_part[i]
            pieces.append(
                Piece(
                    part,
                    tuple(range(len(part.groups))),
                    {str(names[r]): int(numbers[r]) for r in rows},
                    {str(names[r]): float(started[r]) for r in rows} if period else {},
                    period,
                )
            )
        return cells, pieces

    # -------------------------------------------------------------- files

    def save(self, path: str | Path) -> Path:
        """Write which files the fleet consists of, with its labels (not the samples themselves); return the path."""
        head = {
            "format": _FORMAT,
            "version": _VERSION,
            "parts": [asdict(p) for p in self.parts],
            "runs": self.runs.to_dict(orient="list"),
            "files": self.files.to_dict(orient="list"),
            **{n: getattr(self, n) for n in ("time_event", "work_event", "machines_known", "notes")},
        }
        with replaced(path, ".json") as temporary:
            temporary.write_text(json_text(head, _plain), encoding="utf-8")
        return Path(path)

    @classmethod
    def load(cls, path: str | Path) -> "Fleet":
        """Read what `save` wrote.

        Raises
        ------
        FormatError
            The file is not what `save` wrote.
        """
        found = existing(path)
        with reading(path, "a fleet that Fleet.save wrote"):
            head = json_object(found.read_bytes(), path, "a fleet that Fleet.save wrote")
            if head.get("format") != _FORMAT or head.get("version", 0) > _VERSION:
                raise FormatError(f"{path}: JSON, but not what Fleet.save wrote")
            plain = {n: head[n] for n in ("time_event", "work_event", "machines_known")}
            runs = pd.DataFrame(head["runs"]).astype({"started": "float64"})
            parts = tuple(part_of(p) for p in head["parts"])
            return answering(cls(parts, runs, pd.DataFrame(head["files"]), notes=tuple(head["notes"]), **plain))


def _drawn(task: tuple[Part, np.ndarray]) -> Samples:
    return load_rows(*task)


def groups_of(cells: pd.DataFrame, by: Sequence[str]) -> list[tuple[tuple[str, ...], list[int]]]:
    """Return the groups of a scan's cells by some of their labels, as they first appear: the values, and the rows."""
    found: dict[tuple[str, ...], list[int]] = {}
    keys = zip(*(cells[name].astype(str) for name in by), strict=True) if by else [()] * len(cells)
    for row, key in enumerate(keys):
        found.setdefault(key, []).append(row)
    return list(found.items())


def _chosen(fleet: Fleet, keep: np.ndarray) -> dict[str, Any]:
    """Return the parts and the runs of a fleet that are kept."""
    runs = fleet.runs[keep]
    if not len(runs):
        raise DataError("no run has all of these labels")
    used = sorted(set(runs["part"]))
    number = {old: new for new, old in enumerate(used)}
    return {
        "parts": tuple(fleet.parts[i] for i in used),
        "runs": runs.assign(part=runs["part"].map(number)).reset_index(drop=True),
    }


def _chunks(pieces: Sequence[Piece]) -> Iterator[tuple[Piece, ...]]:
    """Yield tasks: several small files, or parts of a large one; eight million samples, or a ten thousandth of all.

    They depend on the files alone, never on who reads them, so that sums come out the same everywhere.
    """
    each_task = max(_CHUNK, sum(p.part.n_samples for p in pieces) // _MOST_TASKS)
    most_files = max(_MOST_FILES, len(pieces) // _MOST_TASKS)
    waiting: list[Piece] = []
    size = 0
    for piece in pieces:
        part = piece.part
        if part.whole:
            splits = [(tuple(range(len(part.groups))), part.n_samples)]
        else:
            splits = list(_splits(part.groups, max(len(part.events), 1), each_task))
        for groups, n in splits:
            waiting.append(replace(piece, groups=groups))
            size += n
            if size >= each_task or len(waiting) >= most_files:
                yield tuple(waiting)
                waiting, size = [], 0
    if waiting:
        yield tuple(waiting)


def _splits(groups: Sequence[int], each: int, each_task: int) -> Iterator[tuple[tuple[int, ...], int]]:
    taken: list[int] = []
    size = 0
    for i, rows in enumerate(groups):
        taken.append(i)
        size += rows * each
        if size >= each_task:
            yield tuple(taken), size
            taken, size = [], 0
    if taken:
        yield tuple(taken), size


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else str(value)


def expect_fleet(given: Any, where: str) -> None:
    """Refuse what is no `Fleet`, and say how to open one.

    Raises
    ------
    WrongTypeError
        Something else was given, for example Samples or a DataFrame.
    """
    how = "save samples, and open their files with perfkit.open_samples(..., memory=False)"
    expect(isinstance(given, Fleet), given, where, "a Fleet", how)
