"""The measured table of a study: one row per configuration, and every raw repetition beside it."""

import json
import math
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pandas as pd

from perfkit.base.files import a_path, arrow_table, check_fields, existing, json_object, json_text, reading, replaced
from perfkit.base.results import Summarised, answering, draw, expect_shown, labelled
from perfkit.errors import (
    DataError,
    FormatError,
    MissingFileError,
    PerfkitWarning,
    SettingError,
    counted,
    expect,
    listed,
)
from perfkit.study.expressions import Expression
from perfkit.study.parts import FENCE_ERROR

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False, repr=False)
class StudyRuns(Summarised):
    """What a study measured.

    Parameters
    ----------
    table : DataFrame
        One row per configuration, indexed by its key: the dimensions; ``compiler``, ``flags``, ``threads``; ``status``
        ("ok" or "failed"), ``message``; ``settled`` (whether the repetition policy was met), ``attempts``
        (experiments made, one per pass); ``passes`` (those that agree with the row's figure); ``steps`` (executions
        in a timed window); ``tsc`` (TSC ticks), ``ns`` (wall time) and ``cycles`` (core cycles by calibrated chains) an
        execution of the region; ``cycles_apart`` (of executions that begin when the one before has ended; those
        of ``cycles`` may overlap); ``spread`` (largest relative deviation of a pass that counts); ``cycles_low``
        and ``cycles_high`` (the interval of the passes), and the same of the metric that must settle (``tsc_low``);
        ``cycles_error`` (by how many cycles each end of it lies further out, for what marks, fences and the counter's
        steps leave open);
        ``quiet`` (share of the windows beside no busy
        neighbour); ``host`` and ``processor``; then event, reported, static and derived columns. What was not measured
        is NaN.
    raw : DataFrame
        Every repetition: ``key``, ``event`` ("" for the timing runs), ``attempt`` (the pass), ``repetition``, ``tsc``,
        ``ns``, ``cycles``, ``value`` (the event's count an execution), ``kept`` and ``tried`` windows, ``quiet`` ones,
        and ``level`` (cycles that a step of the probe took; NaN in tables of before there was one).
    dimensions : tuple of str
        The columns that the study varied.
    metadata : dict
        The study's text, the machine, the compilers' versions, the date.

    Examples
    --------
    >>> runs = pk.datasets.load("studies/fma")
    >>> runs.dimensions
    ('WIDTH', 'TYPE', 'REG', 'ORDER', 'INSTRUCTIONS')
    """

    table: pd.DataFrame
    raw: pd.DataFrame
    dimensions: tuple[str, ...]
    metadata: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_records(
        cls, records: Iterable[Mapping[str, Any]], metadata: Mapping[str, Any], derive: Mapping[str, str] | None = None
    ) -> Self:
        """Build the tables from a store's records.

        `metadata` says how they were measured; `derive` maps further columns to their expressions.
        """
        how = "load its folder with perfkit.StudyRuns.from_folder"
        expect(isinstance(metadata, Mapping), metadata, "StudyRuns.from_records", "records and metadata", how)
        metric = _metric(metadata)
        rows: list[dict[str, Any]] = []
        repetitions: list[dict[str, Any]] = []
        names: list[str] = []
        for record in records:
            rows.append(_row(record, metric))
            repetitions += _repetitions(record)
            names += [name for name in record["values"] if name not in names]
        table = pd.DataFrame(rows)
        if rows:
            table = table.set_index("configuration").infer_objects()
        for column, text in (derive or {}).items():
            if rows and column in table:  # a study's check cannot know what its kernel reports
                warnings.warn(
                    f"the derived column {column!r} is left out: it would overwrite what was measured", PerfkitWarning,
                    stacklevel=3,
                )  # fmt: skip
            elif rows:
                table[column] = _derived(table.assign(**metadata.get("host", {})), column, text)
        about = dict(metadata) | ({"derived": list(derive)} if derive else {})
        return cls(table, pd.DataFrame(repetitions, columns=_RAW), tuple(names), about)

    @property
    def ok(self) -> pd.DataFrame:
        """The rows that were measured, settled or not."""
        return self.table[self.table["status"] == "ok"] if len(self.table) else self.table

    def to_frame(self) -> pd.DataFrame:
        """Return the table of configurations (a copy)."""
        return self.table.copy()

    @property
    def kind(self) -> str:
        """What the data is: measured, unless the metadata say otherwise."""
        return str(self.metadata.get("kind", "measured"))

    @property
    def metric(self) -> str:
        """The figure that had to settle (the study's policy): "cycles", "tsc" or "ns"."""
        return _metric(self.metadata)

    @property
    def _tolerance(self) -> float:
        """The relative deviation within which experiments agree (the study's policy)."""
        return float(self.metadata.get("policy", {}).get("tolerance", 0.02))

    @property
    def _fence(self) -> float:
        """Cycles by which the fence between executions has moved each end of a row's interval."""
        return FENCE_ERROR if self.metadata.get("executions") == "apart" else 0.0

    def summary(self) -> str:
        """Say what was varied, how many configurations were measured, and between which times they lie."""
        count, varied = self.counts(), ", ".join(self.dimensions) or "nothing"
        done = f"{count['ok']} of {count['configurations']} configurations measured"
        lines = [f"{done}{labelled(self.kind)}, over {varied}"]
        taken = self.ok[self.metric].dropna() if len(self.ok) else pd.Series(dtype=float)
        if len(taken):
            low, high = self.ok.loc[taken.idxmin()], self.ok.loc[taken.idxmax()]
            lines += [
                f"{what}: {row[self.metric]:,.4g} {_UNITS[self.metric]} per execution, " + self._values(row)
                for what, row in (("fastest", low), ("slowest", high))
            ]
        lines.append(f"{count['settled']} settled, {count['unsettled']} never settled, {count['failed']} failed")
        return "\n".join([*lines, *self.remarks()])

    def remarks(self) -> list[str]:
        """Say what a reader of the figures has to know: what compilers left, overlaps, fences, clocks, two states."""
        said = (self.same(), self.overlap(), self.fence(), self.drift(), self.states(), self.single())
        return [told for told in (*self.told(), *said) if told]

    def told(self) -> list[str]:
        """Say what is to be known of measured rows, each with the number of rows it holds for, and which, where few.

        What differs in its numbers alone is said once, with the largest.
        """
        if "message" not in self.table:
            return []
        messages = self.ok["message"].fillna("")
        messages = messages[messages != ""]
        alike = messages.groupby(messages.str.replace(_NUMBER, "0", regex=True), sort=False)
        return [
            f"in {len(rows)} of {len(self.ok)} rows {self._which(rows.index)}{max(rows, key=_numbers)}"
            + (" (the largest of their numbers)" if len(set(rows)) > 1 else "")
            for _, rows in alike
        ]

    def _which(self, index: Any) -> str:
        """Name a few rows of several by what was varied."""
        varied = self._varied
        if len(index) > _NAMED or len(index) == len(self.ok) or not varied:
            return ""
        named = self.ok.loc[index, varied].to_dict("records")
        return "(" + "; ".join(", ".join(f"{name}={row[name]}" for name in varied) for row in named) + ") "

    @property
    def _varied(self) -> list[str]:
        """What has several values in the measured rows."""
        names = [name for name in (*self.dimensions, "flags", "compiler", "threads") if name in self.ok]
        return [name for name in names if len(self.ok[name].unique()) > 1]

    def same(self) -> str:
        """Say that nothing which was varied changes the time, as where work was removed; "" where something does."""
        varied = self._varied
        taken = self.ok[self.metric].dropna() if varied and self.metric in self.ok else pd.Series(dtype=float)
        if len(taken) < _ALIKE or taken.max() - taken.min() > max(self._tolerance * taken.min(), _NOTHING):
            return ""
        alike = f"all {len(taken)} measured rows take the same time, within {self._tolerance:.0%}"
        differ = self.ok["message"].fillna("").str.contains(_ON_AVERAGE).sum() if "message" in self.ok else 0
        if differ:
            return f"{alike}, by their fast windows; on average, {counted(int(differ), 'rows')} take longer (above)"
        return (
            f"{alike}: none of {listed(varied)} changes it. If you expected otherwise, the compiler may have removed "
            "the work: results that nothing uses (PK_KEEP), data that it knows (PK_KEEP_MEMORY), names that the kernel "
            "does not use"
        )

    def overlap(self) -> str:
        """Say in how many rows executions overlapped so much that ``cycles`` is no latency; "" where in none."""
        if "cycles_apart" not in self.table:
            return ""
        rows = self.ok.dropna(subset=["cycles_apart"])
        longer = rows["cycles_apart"] / rows["cycles"]
        # Executions that differ may take longer for that alone.
        differ = rows["message"].fillna("").str.contains(_DIFFER_TOLD) if "message" in rows else longer < 0
        over = longer[(longer > _OVERLAP) & (rows["cycles_apart"] - rows["cycles"] > _FENCE) & ~differ]
        if not len(over):
            return ""
        return (
            f"in {len(over)} of {len(rows)} rows executions overlap: `cycles` is their throughput, and one alone takes "
            f"up to {over.max():.2g} times as long (column cycles_apart)"
        )

    def fence(self) -> str:
        """Say in how many rows what marks or fences leave open may weigh more than the tolerance; "" where in none."""
        if "cycles" not in self.table:
            return ""
        error = self.ok["cycles_error"].fillna(self._fence) if "cycles_error" in self.ok else self._fence
        told = self.ok["message"].fillna("").str.contains(_STEPS_TOLD) if "message" in self.ok else False
        short = self.ok[(error > self._tolerance * self.ok["cycles"]) & ~told]
        if not len(short):
            return ""
        most = short["cycles_error"].max() if "cycles_error" in short else self._fence
        return (
            f"in {len(short)} of {len(self.ok)} rows what is timed is so short that marks or fences, whose cycles are "
            f"known to {max(most, self._fence):.2g}, may be over {self._tolerance:.0%} of it "
            "(cycles_low, cycles_high): repeat the work between them"
        )

    def drift(self) -> str:
        """Say of how many rows that never settled another clock did: cycles of the core, or ticks of constant rate."""
        if not len(self.ok) or not len(self.raw):
            return ""
        rows, other = self.ok[~self.ok["settled"].astype(bool)], "tsc" if self.metric == "cycles" else "cycles"
        tolerance = self._tolerance
        timing = self.raw[(self.raw["event"] == "") & self.raw["key"].isin(rows.index)]
        each = timing.groupby(["key", "attempt"])[[self.metric, other]].median()
        passes = each.groupby("key").agg(["min", "max"])  # of one pass alone, 0 apart
        apart = {name: passes[name, "max"] / passes[name, "min"] - 1 for name in (self.metric, other)}
        # Where both are noise, one of them may lie within the tolerance by chance: it has to be by far.
        clear = (apart[other] <= tolerance) & (apart[self.metric] > _CLEAR * tolerance)
        agree = int((clear & (apart[self.metric] > _CLEAR * apart[other])).sum())
        if not agree:
            return ""
        why = (
            "the clock's rate moved"
            if other == "cycles"
            else "the readings of the rate are off, or it waits for memory, which takes its time at any rate"
        )
        return (
            f"in {agree} of {len(rows)} rows that never settled ({self.metric}) the {_UNITS[other]} did: {why}. "
            f"policy: {{metric: {other}}} settles by those"
        )

    def single(self) -> str:
        """Say in how many settled rows nothing says how far another pass would differ; "" where in none."""
        if "passes" not in self.table:
            return ""
        rows = self.ok[self.ok["settled"].astype(bool)]
        alone = int((rows["passes"] == 1).sum())
        if not alone:
            return ""
        return (
            f"in {alone} of {len(rows)} settled rows one pass was enough, as the policy says: nothing tells how far "
            "another would differ, and the columns of its interval (cycles_low, cycles_high) are empty"
        )

    def states(self) -> str:
        """Say of how many settled rows some quiet pass took much longer: the row is the faster of two states."""
        if "cycles_low" not in self.table:
            return ""
        rows = self.ok[self.ok["settled"].astype(bool)]
        moved = rows["cycles_error"].fillna(self._fence) if "cycles_error" in rows else self._fence
        longer = (rows["cycles_high"] - moved) / (rows["cycles_low"] + moved)
        told = rows["message"].fillna("").str.contains("several states") if "message" in rows else longer < 0
        over = longer[(longer > _STATES) & ~told]
        if not len(over):
            return ""
        return (
            f"in {len(over)} of {len(rows)} settled rows a quiet pass took over {_STATES - 1:.0%} longer than the "
            f"fastest, up to {over.max():.2g} times as long (cycles_low, cycles_high): their figure is that of the "
            "fastest state"
        )

    def figures(self) -> pd.DataFrame:
        """Return measured and predicted rows in few columns: what was varied, an execution's cycles, what is derived.

        Before them the figure that had to settle, where that is another.
        """
        rows = self.table[self.table["status"] != "failed"] if len(self.table) else self.table
        if not len(rows):
            return pd.DataFrame()
        several = (*self.dimensions, "compiler", "flags", "threads")  # those of rows that failed count, too
        varied = [name for name in several if len(self.table[name].unique()) > 1]
        settles = [] if self.metric == "cycles" else [self.metric, f"{self.metric}_low", f"{self.metric}_high"]
        known = [*settles, "cycles", "cycles_low", "cycles_high", "cycles_apart", "settled", "predicted",
                 "predicted_low", "predicted_high"]  # fmt: skip
        names = {name: f"{name} ({self.metric})" for name in known if name.startswith("predicted")}
        known += self.metadata.get("derived", [])
        return rows[varied + [name for name in known if name in rows]].rename(columns=names)

    def _values(self, row: Any) -> str:
        return ", ".join(f"{name} {row[name]}" for name in self.dimensions)

    def plot(
        self,
        ax: "Axes | None" = None,
        *,
        x: str | None = None,
        y: str | None = None,
        by: Sequence[str] | None = None,
    ) -> "Axes":
        """Draw the median of ``y`` over the dimension ``x``, a line for each combination of ``by``; return the axes.

        By default of the figure that had to settle, over the first dimension with several values that are numbers, a
        line for each value of the next.
        """
        expect_shown(len(self.ok), "no run was measured")
        varied = [name for name in self.dimensions if len(self.ok[name].unique()) > 1] or list(self.dimensions)
        numbers = [name for name in varied if pd.api.types.is_numeric_dtype(self.ok[name])]
        across = x or (numbers or varied)[0]
        lines = [name for name in varied if name != across][:1] if by is None else by
        return draw("studies:plot_lines", self.ok, x=across, y=y or self.metric, by=lines, ax=ax)

    def counts(self) -> dict[str, int]:
        """Count the rows: all, measured, settled, never settled, failed, predicted."""
        if not len(self.table):
            return {"configurations": 0, "ok": 0, "settled": 0, "unsettled": 0, "failed": 0, "predicted": 0}
        ok = self.table["status"] == "ok"
        settled = ok & self.table["settled"].fillna(value=False).astype(bool)
        return {
            "configurations": len(self.table), "ok": int(ok.sum()), "settled": int(settled.sum()),
            "unsettled": int((ok & ~settled).sum()), "failed": int((self.table["status"] == "failed").sum()),
            "predicted": int((self.table["status"] == "predicted").sum()),
        }  # fmt: skip

    def failures(self) -> pd.DataFrame:
        """Return the failed rows' dimensions, compiler and message."""
        wanted = [*self.dimensions, "compiler", "flags", "threads", "message"]
        if not len(self.table):
            return pd.DataFrame(columns=wanted)
        return self.table.loc[self.table["status"] == "failed", wanted]

    def derive(self, **columns: str) -> Self:
        """Return runs with more columns, each an expression over the row.

        Raises
        ------
        SettingError
            The table has a column of that name already.
        """
        table = self.table.copy()
        for name, text in columns.items():
            if name in table:
                raise SettingError(f"the table has a column {name!r} already: name the derived one otherwise")
            table[name] = Expression(text).over(table)
        return type(self)(table, self.raw, self.dimensions, self.metadata)

    def where(self, condition: str) -> Self:
        """Return the runs whose row fulfils an expression, e.g. ``runs.where("WIDTH == 256 and settled")``."""
        keep = [value is True for value in Expression(condition).over(self.table)]
        table = self.table[keep]
        return type(self)(table, self.raw[self.raw["key"].isin(table.index)], self.dimensions, self.metadata)

    def save(self, path: str | Path) -> Path:
        """Write everything to one parquet file: the raw repetitions are nested in their configuration's row.

        Raises
        ------
        DataError
            A column of the table is named as the file's own.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        if _NESTED in self.table.columns:  # of a folder, or a DataFrame, that no study's check has seen
            raise DataError(f"a column named {_NESTED!r} cannot be saved: the file has its own; rename yours")
        nested: dict[str, list[dict[str, Any]]] = {key: [] for key in self.table.index}
        for one in self.raw.to_dict("records"):
            nested[one.pop("key")].append(one)
        whole = pa.Table.from_pandas(self.table.reset_index(), preserve_index=False)
        whole = whole.append_column(_NESTED, pa.array(list(nested.values()), type=_nested_type()))
        about = {"dimensions": self.dimensions, "metadata": self.metadata}
        whole = whole.replace_schema_metadata({**(whole.schema.metadata or {}), _MARK: json_text(about).encode()})
        with replaced(path, ".parquet", ".pq") as temporary:
            pq.write_table(whole, temporary, compression="zstd", compression_level=9)
        return Path(path)

    def to_parquet(self, path: str | Path) -> Path:
        """Write everything to one parquet file: the same as `save`."""
        return self.save(path)

    @classmethod
    def from_parquet(cls, path: str | Path) -> Self:
        """Read a saved table: the same as `load`."""
        return cls.load(path)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote; FileNotFoundError if there is none, FormatError if it is another's or damaged."""
        with reading(existing(path), "a study's table"):
            return answering(cls._of_table(arrow_table(path), path))

    @classmethod
    def _of_table(cls, whole: Any, path: str | Path) -> Self:
        about = (whole.schema.metadata or {}).get(_MARK)
        if about is None:
            raise FormatError(f"{path} is a parquet file, but no study's table: pandas.read_parquet reads it")
        parsed = json_object(about, path, "a study's table")
        check_fields(parsed, {"dimensions": list, "metadata": dict}, path, "a study's table")
        nested = whole.column(_NESTED).to_pylist()
        table = whole.drop_columns([_NESTED]).to_pandas().set_index("configuration")
        lacking = [name for name in ("status", *parsed["dimensions"]) if name not in table.columns]
        if lacking:
            raise FormatError(f"{path}: a study's table without {listed(lacking)} among its columns")
        rows = [{"key": key, **one} for key, many in zip(table.index, nested, strict=True) for one in many]
        return cls(table, pd.DataFrame(rows, columns=_RAW), tuple(parsed["dimensions"]), parsed["metadata"])

    @classmethod
    def from_folder(cls, folder: str | Path) -> Self:
        """Read the store of a study that is running, was stopped, or is complete.

        Raises
        ------
        MissingFileError
            There is no such folder.
        FormatError
            It is no study's.
        """
        from perfkit.study.study import Study

        folder = a_path(folder, "StudyRuns.from_folder")
        if not folder.exists():
            raise MissingFileError(f"{folder}: no such folder")
        try:
            study = Study.from_yaml(folder / "study.yaml")
            metadata = json.loads((folder / "metadata.json").read_text(encoding="utf-8"))
        except OSError as error:
            raise FormatError(f"{folder} is no study folder: {error}") from None
        mark = study.fingerprint()
        place = {one.key(mark): at for at, one in enumerate(study.configurations())}
        records = sorted(read_records(folder), key=lambda record: place.get(record["key"], len(place)))
        return cls.from_records(records, metadata, study.derive)


def _derived(table: pd.DataFrame, column: str, text: str) -> list[Any]:
    """Evaluate a study's derived column; a fault in it warns, for it must not cost the measurements."""
    try:
        return Expression(text).over(table)
    except SettingError as error:
        warnings.warn(f"the derived column {column!r} stays missing: {error}", PerfkitWarning, stacklevel=4)
        return [math.nan] * len(table)


_MARK = b"perfkit.study"
_NESTED = "repetitions"
_NUMBER = re.compile(r"(?<![\w.-])\d+(?:\.\d+)?(?![\w.])")  # no part of a name (AVX2) or an option (-O3)
_UNITS = {"cycles": "core cycles", "tsc": "TSC ticks", "ns": "nanoseconds"}
# How much longer an execution alone takes before that is told: the fence's own cycles are known to about this many.
_OVERLAP, _FENCE = 1.05, 6
_CLEAR = 2  # times as far apart as the other clock's passes, and as the tolerance, from which the clock is the reason
_ALIKE = 4  # measured rows of one time, from which it is said that nothing changes it
_NOTHING = 0.1  # cycles, ticks or ns by which rows differ of which nothing is left
_DIFFER_TOLD = "later executions take|its windows take|rare executions take|several states|repetitions differ"
_STEPS_TOLD = "steps of this host.s time stamp counter"  # in the message of a row whose windows are a few of them
_NAMED = 2  # rows that a remark holds for, which are named
_ON_AVERAGE = "longer on average|% longer than the figure|to the mean"  # in the message of such a row
_STATES = 1.15  # times the fastest quiet pass: a slower one is told


def _numbers(text: str) -> list[float]:
    return [float(each) for each in _NUMBER.findall(text)]


def study_metadata(path: str | Path) -> dict[str, Any] | None:
    """Return the metadata of a study's table in a parquet file; None where it is another table."""
    import pyarrow.parquet as pq

    about = (pq.read_schema(path).metadata or {}).get(_MARK)
    return None if about is None else dict(json_object(about, path, "a study's table").get("metadata", {}))


def _nested_type() -> Any:
    import pyarrow as pa

    kinds = {
        "event": pa.string(),
        "attempt": pa.int32(),
        "repetition": pa.int32(),
        "kept": pa.int32(),
        "tried": pa.int32(),
    }
    return pa.list_(pa.struct([(name, kinds.get(name, pa.float64())) for name in _RAW[1:]]))


_RAW = ["key", "event", "attempt", "repetition", "tsc", "ns", "cycles", "value", "kept", "tried", "quiet", "level"]


def read_records(folder: Path) -> Iterable[dict[str, Any]]:
    """Yield a store's whole records; raises DataError for a damaged line, or a configuration that is there twice."""
    seen = set()
    with (folder / "results.jsonl").open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return  # being written, or cut short by a kill
            try:
                record = json.loads(line)
                key = record["key"]
                _ = [record[name] for name in ("values", "compiler", "flags", "threads", "status", "message")]
            except (ValueError, KeyError, TypeError):
                raise DataError(f"{file.name}, line {number} is damaged: remove it to have it measured again") from None
            if key in seen:
                raise DataError(f"{file.name}, line {number}: the configuration {key} is there twice: remove this line")
            seen.add(key)
            yield record


def read_experiments(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the experiments of configurations that are not finished: key -> experiments, in their order."""
    path = folder / "passes.jsonl"
    found: dict[str, list[dict[str, Any]]] = {}
    if not path.exists():
        return found
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                break
            try:
                plain = json.loads(line)
                found.setdefault(plain["key"], []).append(plain["experiment"])
            except (ValueError, KeyError, TypeError):
                raise DataError(f"{path}, line {number} is damaged: remove it to have it measured again") from None
    return found


def _metric(metadata: Mapping[str, Any]) -> str:
    return str(metadata.get("policy", {}).get("metric", "tsc"))  # what tables of before there was a choice had


def _row(record: Mapping[str, Any], metric: str) -> dict[str, Any]:
    row = {"configuration": record["key"], **record["values"]}
    row |= {name: record[name] for name in ("compiler", "flags", "threads", "status", "message")}
    row |= {"settled": bool(record.get("settled", False)), "attempts": int(record.get("attempts", 0))}
    row["passes"] = int(record.get("passes", 0))
    same = ("steps", "tsc", "ns", "cycles", "cycles_low", "cycles_high", "cycles_error", "cycles_apart", "spread",
            "quiet")  # fmt: skip
    columns = {name: name for name in same} | {f"{metric}_{end}": end for end in ("low", "high")}
    for name, kept in columns.items():
        value = record.get(kept)
        row[name] = math.nan if value is None else float(value)
    row |= {name: record.get(name, "") for name in ("host", "processor")}
    if record["status"] == "predicted":
        row |= {name: record[name] for name in ("predicted", "predicted_low", "predicted_high")}
    for group in ("events", "reports", "static"):
        for given, value in record.get(group, {}).items():
            name = given.replace("-", "_")  # so that expressions can use it
            if name in row:
                whose = {"events": "event", "reports": "report", "static": "static column"}[group]
                raise DataError(f"the kernel's {whose} {name!r} would overwrite a column: name that column otherwise")
            row[name] = math.nan if value is None else float(value)
    return row


def _repetitions(record: Mapping[str, Any]) -> Sequence[dict[str, Any]]:
    out = []
    for experiment in record.get("experiments", []):
        for number, run in enumerate(experiment["runs"]):
            values = [math.nan if value is None else value for value in run]
            out.append(
                dict(
                    zip(
                        _RAW, [record["key"], experiment["event"], experiment["attempt"], number, *values], strict=False
                    )
                )
            )
    return out
