"""The analyzer as a file: filter, derive, normalise, categorise, learn, draw (MARTA, section II-B), on any table.

::

    input: gather_*.csv.xz          # CSV (compressed or not), parquet, or a study's folder; a name pattern or a list
    filter: ["GATHER == 1"]
    derive: {WIDTH: "128 if ELEMS <= 4 else 256"}
    normalize: {N_CL: min-max}      # adds N_CL.normalized; or z-score
    categories: {target: tsc, method: kde, bandwidth: silverman}
    tree: {features: [N_CL, WIDTH], max_depth: 4}
    regression: {features: [N_CL, WIDTH]}
    forest: {features: [N_CL, WIDTH]}
    classifiers: [{features: [N_CL, WIDTH], method: knn}]    # or svm
    lines: [{x: N_CL, y: tsc, by: [WIDTH]}]
    scatter: [{x: N_CL, y: tsc, by: [WIDTH], log_y: true}]
    formats: [png, svg]             # of the pictures; or pdf
    output: analysis                # a folder for tables, JSON and pictures
"""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pydantic
from pydantic import BaseModel, ConfigDict, Field

from perfkit.base.files import a_path, arrow_table, data_frame, existing, json_text, of_json, reading, replaced
from perfkit.base.results import Kind, Summarised, drawn, joint_kind, kind_of, labelled
from perfkit.errors import DataError, FormatError, MissingFileError, SettingError, counted
from perfkit.fitters.studies.categories import (
    NOT_MEASURED,
    Categories,
    FixedBins,
    KdeCategories,
    KMeansCategories,
    as_frame,
    column,
    measured_rows,
)
from perfkit.fitters.studies.classifier import Classification, Classifier
from perfkit.fitters.studies.decision_tree import DecisionTree, Tree
from perfkit.fitters.studies.random_forest import Importance, RandomForest
from perfkit.study.expressions import Expression
from perfkit.study.settings_file import explain, line_of_setting, placed, read_yaml

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class CategorySettings(_Strict):
    """How the target is cut: `KdeCategories`, `FixedBins` or `KMeansCategories` (`bins`: how many)."""

    target: str
    method: Literal["kde", "bins", "kmeans"] = "kde"
    bandwidth: Literal["silverman", "silverman-0.9", "isj", "grid"] | float = "silverman"
    prominence: float = 1e-4
    log: bool = False
    bins: int | tuple[float, ...] = 5


class TreeSettings(_Strict):
    """See `DecisionTree`."""

    features: Annotated[tuple[str, ...], Field(min_length=1)]
    max_depth: int = 4
    min_samples: int = 1
    folds: int = 5
    seed: int = 0
    group: tuple[str, ...] = ()


class RegressionSettings(TreeSettings):
    """A tree of the target itself; without a target, of the categories' one."""

    target: str | None = None


class ForestSettings(_Strict):
    """See `RandomForest`."""

    features: Annotated[tuple[str, ...], Field(min_length=1)]
    trees: int = 100
    max_depth: int | None = None
    folds: int = 5
    shuffles: int = 3
    seed: int = 0
    group: tuple[str, ...] = ()


class ClassifierSettings(_Strict):
    """See `Classifier`."""

    features: Annotated[tuple[str, ...], Field(min_length=1)]
    method: Literal["knn", "svm"] = "knn"
    neighbours: int = 5
    penalty: float = 1.0
    folds: int = 5
    seed: int = 0
    group: tuple[str, ...] = ()


class LineSettings(_Strict):
    """See `perfkit.plots.studies.plot_lines` and `plot_scatter`."""

    x: str
    y: str
    by: tuple[str, ...] = ()
    log_x: bool = False
    log_y: bool = False


@dataclass(frozen=True, eq=False, repr=False)
class AnalysisResult(Summarised):
    """What an analysis made; parts that were not asked for are None.

    Parameters
    ----------
    table : DataFrame
        The filtered rows with derived and normalised columns, and ``category``.
    categories, tree, regression, importance
        The fitted parts.
    rows_read : int
        Rows before the filters.
    settings : Analysis
        What made it.
    classifications : tuple of Classification
        Of the other classifiers.
    """

    table: pd.DataFrame
    categories: Categories | None
    tree: Tree | None
    regression: Tree | None
    importance: Importance | None
    rows_read: int
    settings: "Analysis"
    classifications: tuple[Classification, ...] = ()

    @property
    def kind(self) -> str:
        """What the data is: measured, simulated, generated or published; unknown for tables that do not say."""
        return kind_of(self.table)

    @property
    def _learnt(self) -> list[Tree | Importance | Classification]:
        parts = (self.tree, self.regression, self.importance, *self.classifications)
        return [part for part in parts if part is not None]

    @property
    def rows_learnt(self) -> int:
        """Rows that something was learnt from; where nothing was, those with a category, or all."""
        if self._learnt:
            return max(part.rows for part in self._learnt)
        return sum(self.categories.counts) if self.categories is not None else len(self.table)

    @property
    def about_rows(self) -> tuple[str, ...]:
        """What became of the rows read that were not learnt from, and which of the others are to be doubted."""
        before = Counter(self.table.attrs.get(NOT_MEASURED, {}))
        filtered = self.rows_read - len(self.table) - before.total()
        target = self.settings.regression.target if self.settings.regression else None
        target = self.categories.target if self.categories is not None else target
        there = self.table[target].notna() if target else pd.Series(data=True, index=self.table.index)
        without = _statuses(self.table[~there])
        lacking = len(self.table) - self.rows_learnt - without.total()
        told = [f"{counted(filtered, 'rows')} left out by the filters"] if filtered else []
        told += [
            f"{counted(rows, 'rows')} left out: {status}, not measured" for status, rows in (before + without).items()
        ]
        told += [f"{counted(lacking, 'rows')} left out for a missing value"] if lacking else []
        told += [
            f"{rows:,} of the {self.rows_learnt:,} rows were not measured: {status}"
            for status, rows in _statuses(self.table[there]).items()
        ]
        if unsettled := _unsettled(self.table[there]):
            told.append(f"{unsettled:,} of the {self.rows_learnt:,} rows never settled: their figures may be off")
        return tuple(told)

    def to_frame(self) -> pd.DataFrame:
        """Return the processed table."""
        return self.table.copy()

    def summary(self) -> str:
        """Return the findings as a few lines."""
        lines = []
        if self.categories is not None:
            lines.append(
                f"{counted(len(self.categories), 'categories')} of {self.categories.target} ({self.categories.method})"
            )
        if self.tree is not None:
            lines.append(f"tree: {self.tree.verdict}")
        lines += [f"{one.method}: {one.verdict}" for one in self.classifications]
        if self.regression is not None:
            lines.append(f"regression: {self.regression.verdict}")
        if self.importance is not None and self.importance.only_one_category:
            lines.append(f"importance: {self.importance.caveat}")
        elif self.importance is not None:
            ranked = self.importance.to_frame()
            lines.append("importance (MDI): " + ", ".join(f"{name} {row.mdi:.3f}" for name, row in ranked.iterrows()))
            lines += [f"  {self.importance.caveat}"] if self.importance.caveat else []
        left = f"{self.rows_learnt} learnt from" if self._learnt else f"{len(self.table)} left"
        lines.append(f"{self.rows_read} rows read, {left}{labelled(self.kind)}")
        lines += [f"  {one}" for one in self.about_rows]
        return "\n".join(lines)

    def save(self, folder: str | Path) -> Path:
        """Write the processed table (CSV), each part as JSON and each picture as PNG into a folder; return it."""
        folder = a_path(folder, "AnalysisResult.save")
        folder.mkdir(parents=True, exist_ok=True)
        with replaced(folder / "processed.csv") as temporary:
            self.table.to_csv(temporary, index=False)
        with replaced(folder / "summary.txt") as temporary:
            temporary.write_text(self.summary() + "\n", encoding="utf-8")
        for name in _PARTS:
            if (part := getattr(self, name)) is not None:
                part.save(folder / f"{name}.json")
        for number, one in enumerate(self.classifications, 1):
            one.save(folder / f"classifier-{number}.json")
        for name, figure in drawn("studies:each_picture", self):
            for kind in self.settings.formats:
                with replaced(folder / f"{name}.{kind}") as temporary:
                    figure.savefig(temporary, dpi=110, format=kind)
        about = {"format": _FORMAT, "rows_read": self.rows_read, "settings": self.settings.model_dump(mode="json")}
        about["parts"] = [name for name in _PARTS if getattr(self, name) is not None]
        about["attributes"] = dict(self.table.attrs)  # before its version 18, pyarrow does not keep them
        table = pa.Table.from_pandas(self.table)
        metadata = {**(table.schema.metadata or {}), b"perfkit": json_text(about).encode()}
        with replaced(folder / _TABLE) as temporary:  # last: it says what else is there
            pq.write_table(table.replace_schema_metadata(metadata), temporary, compression="zstd")
        return folder

    @classmethod
    def load(cls, folder: str | Path) -> "AnalysisResult":
        """Read the folder that `save` wrote.

        Raises
        ------
        FileNotFoundError
            There is no such folder.
        FormatError
            It is not the folder of an analysis, or a part of it is damaged or missing.
        """
        folder = a_path(folder, "AnalysisResult.load")
        if not folder.exists():
            raise MissingFileError(f"{folder}: no such folder")
        try:
            table = arrow_table(folder / _TABLE)
            about = of_json((table.schema.metadata or {}).get(b"perfkit", b"{}"))
        except (OSError, ValueError) as error:
            raise FormatError(f"{folder}: expected a folder that AnalysisResult.save wrote: {error}") from error
        if about.get("format") != _FORMAT:
            raise FormatError(f"{folder}: its {_TABLE} is not the one of an analysis")
        kinds: dict[str, Any] = {"categories": Categories, "tree": Tree, "regression": Tree, "importance": Importance}
        parts: dict[str, Any] = {
            name: kind.load(folder / f"{name}.json") if name in about["parts"] else None for name, kind in kinds.items()
        }
        settings = Analysis(**about["settings"])
        files = [folder / f"classifier-{number}.json" for number in range(1, len(settings.classifiers) + 1)]
        parts["classifications"] = tuple(Classification.load(file) for file in files)
        frame = table.to_pandas()
        frame.attrs |= about.get("attributes", {})
        return cls(table=frame, rows_read=about["rows_read"], settings=settings, **parts)

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the first of tree, regression, importance and categories that there is; `pictures` draws all.

        What was learnt of an only category is left to the last: it has nothing to show.

        Raises
        ------
        SettingError
            The analysis only filtered and derived: there is nothing to draw.
        """
        parts = [part for part in (self.tree, self.regression, self.importance, self.categories) if part is not None]
        for part in sorted(parts, key=lambda part: getattr(part, "only_one_category", False)):
            return part.plot(ax=ax)
        raise SettingError("this analysis has no tree, regression, forest or categories: there is nothing to draw")

    def pictures(self) -> dict[str, Any]:
        """Draw everything that there is: name -> matplotlib axes."""
        return drawn("studies:pictures", self)


def _statuses(table: pd.DataFrame) -> Counter[str]:
    """Count the rows of each status of a study's table that tells of no measurement: failed, predicted."""
    if "status" not in table:
        return Counter()
    return Counter(str(status) for status in table["status"].dropna() if status in _WITHOUT_FIGURES)


def _unsettled(table: pd.DataFrame) -> int:
    """Count the measured rows of a study's table that never settled."""
    if not {"status", "settled"} <= set(table.columns):
        return 0
    return int((table["status"].eq("ok") & table["settled"].astype(str).eq("False")).sum())


_WITHOUT_FIGURES = {"failed", "predicted"}  # statuses of a study's rows that were not measured
_PARTS = ("categories", "tree", "regression", "importance")
_TABLE, _FORMAT = "processed.parquet", "perfkit-analysis"


class Analysis(_Strict):
    """An analysis file's content; see the module's text for an example.

    Parameters
    ----------
    input : sequence of str
        Files, name patterns or study folders, relative to the analysis file.
    filter : sequence of str
        Expressions that a row must fulfil.
    derive : mapping
        Column -> expression.
    normalize : mapping
        Column -> "min-max" or "z-score": adds ``COLUMN.normalized``.
    categories, tree, regression, forest, classifiers, lines, scatter
        The parts; each is made if it is there.
    formats : sequence of {"png", "svg", "pdf"}
        Of the pictures.
    output : str, optional
        Folder of the results, relative to the analysis file.
    folder : Path
        What `input` is relative to: the analysis file's folder.

    Examples
    --------
    >>> runs = pk.datasets.load("studies/fma")
    >>> bins = {"target": "tsc", "method": "bins", "bins": 2}
    >>> result = pk.Analysis(categories=bins, tree={"features": ["WIDTH"]}).run(runs)
    >>> result.tree.features
    ('WIDTH',)
    """

    input: tuple[str, ...] = ()
    filter: tuple[str, ...] = ()
    derive: dict[str, str] = {}
    normalize: dict[str, Literal["min-max", "z-score"]] = {}
    categories: CategorySettings | None = None
    tree: TreeSettings | None = None
    regression: RegressionSettings | None = None
    forest: ForestSettings | None = None
    classifiers: tuple[ClassifierSettings, ...] = ()
    lines: tuple[LineSettings, ...] = ()
    scatter: tuple[LineSettings, ...] = ()
    formats: Annotated[tuple[Literal["png", "svg", "pdf"], ...], Field(min_length=1)] = ("png",)
    output: str | None = None
    folder: Path = Path()

    def __init__(self, **settings: Any) -> None:
        for key in ("input", "filter"):
            if isinstance(settings.get(key), str):
                settings[key] = (settings[key],)
        try:
            super().__init__(**settings)
        except pydantic.ValidationError as error:
            raise SettingError(explain(error, type(self))) from None
        for text in (*self.filter, *self.derive.values()):
            Expression(text)
        if self.classifiers and self.categories is None:
            raise SettingError("classifiers need categories")
        if self.tree is not None and self.categories is None:
            raise SettingError("a tree needs categories; `regression` learns the target itself")

    @classmethod
    def from_yaml(cls, path: str | Path) -> "Analysis":
        """Read and check an analysis file.

        Raises
        ------
        SettingError
            The file is a study, or a setting is wrong; the message names its line.
        FormatError
            It is no YAML.
        """
        path = a_path(path, "Analysis.from_yaml")
        settings = read_yaml(path)
        if "folder" in settings:
            raise SettingError(f"{line_of_setting(path, ('folder',))}: unknown key 'folder'; did you mean 'output'?")
        if "dimensions" in settings:
            raise SettingError(f"{path} is no analysis but a study: `perfkit study run` measures it")
        try:
            return cls(**settings, folder=path.parent)
        except SettingError as error:
            raise SettingError(placed(path, error)) from None

    def of_files(self, *inputs: str) -> "Analysis":
        """Return the same analysis of other files than those that it names; these are relative to where one is."""
        return self.model_copy(update={"input": inputs, "folder": Path()})

    def run(self, table: Any = None) -> AnalysisResult:
        """Run the pipeline on a table, or on the files that `input` names.

        The result of a table names no input: the files of the settings were not read.
        """
        frame = read_tables(self.input, self.folder) if table is None else as_frame(table)
        read = len(frame) + sum(frame.attrs.get(NOT_MEASURED, {}).values())
        frame = self._prepared(frame)
        categories = self._categorised(frame)
        if categories is not None:
            frame["category"] = categories.assign(frame[categories.target])
        target: Categories | str | None = categories
        return AnalysisResult(
            table=frame,
            categories=categories,
            tree=DecisionTree(**_plain(self.tree)).fit(frame, categories) if self.tree and categories else None,
            regression=self._regressed(frame, categories),
            importance=RandomForest(**_plain(self.forest)).fit(frame, self._target(target)) if self.forest else None,
            rows_read=read,
            settings=self if table is None else self.of_files(),
            classifications=tuple(
                Classifier(**_plain(one)).fit(frame, self._target(target)) for one in self.classifiers
            ),
        )

    def _prepared(self, frame: pd.DataFrame) -> pd.DataFrame:
        frame = frame.reset_index(drop=True).copy()
        for name, text in self.derive.items():
            frame[name] = Expression(text).over(frame)
        for text in self.filter:
            frame = frame[[value is True for value in Expression(text).over(frame)]]
            if not len(frame):
                raise DataError(f"the filter {text!r} leaves no row")
        frame = frame.reset_index(drop=True)
        for name, way in self.normalize.items():
            frame[f"{name}.normalized"] = _normalized(column(frame, name), way)
        return frame

    def _categorised(self, frame: pd.DataFrame) -> Categories | None:
        one = self.categories
        if one is None:
            return None
        if one.method == "bins":
            return FixedBins(one.target, one.bins, one.log).fit(frame)
        if one.method == "kmeans":
            if not isinstance(one.bins, int):
                raise SettingError("method: kmeans needs a number of categories as `bins`, not boundaries")
            return KMeansCategories(one.target, one.bins, one.log).fit(frame)
        return KdeCategories(one.target, one.bandwidth, one.log, one.prominence).fit(frame)

    def _regressed(self, frame: pd.DataFrame, categories: Categories | None) -> Tree | None:
        if self.regression is None:
            return None
        plain = _plain(self.regression)
        target = plain.pop("target") or (categories.target if categories else None)
        if target is None:
            raise SettingError("a regression needs a target")
        return DecisionTree(**plain).fit(frame, target)

    def _target(self, categories: Categories | str | None) -> Any:
        if categories is None:
            raise SettingError("a forest needs categories")
        return categories


def read_tables(inputs: tuple[str, ...], folder: Path) -> pd.DataFrame:
    """Read and join CSV files, parquet files, study tables and study folders; columns that a file lacks are missing."""
    from perfkit.study.runs import StudyRuns

    frames: list[pd.DataFrame] = []
    for text in inputs:
        given = Path(text)
        if not given.name:
            raise DataError(f"expected a file or a pattern of files as input; found {text!r}")
        paths = sorted(folder.glob(text)) if not given.is_absolute() else sorted(given.parent.glob(given.name))
        if not paths:
            raise MissingFileError(f"no file matches {text!r} in {folder.resolve()}")
        for path in paths:
            if path.is_dir():
                frames.append(measured_rows(StudyRuns.from_folder(path)))
            elif path.suffix == ".parquet":
                frames.append(_parquet(path))
            else:
                frames.append(_csv(path))
    if not frames:
        raise SettingError("no input: name files under `input`, or hand the table to run()")
    joined = pd.concat(frames, ignore_index=True)
    joined.attrs = {"kind": joint_kind(map(kind_of, frames))}
    counts = sum((Counter(frame.attrs.get(NOT_MEASURED, {})) for frame in frames), Counter[str]())
    if counts:
        joined.attrs[NOT_MEASURED] = dict(counts)
    return joined


def _csv(path: Path) -> pd.DataFrame:
    with reading(path, "a CSV table"):
        frame = pd.read_csv(existing(path))
    kinds = set(frame["kind"]) - _WITHOUT_FIGURES if "kind" in frame else set()
    if len(kinds) == 1 and kinds <= set(get_args(Kind)):  # as `perfkit study` writes it
        frame.attrs["kind"] = kinds.pop()
    return frame


def _parquet(path: Path) -> pd.DataFrame:
    from perfkit.study.runs import study_metadata

    try:
        frame = data_frame(path)
        about = study_metadata(path)
    except (ValueError, OSError) as error:
        raise FormatError(f"cannot read {path} as parquet: {error}") from None
    if about is not None:
        frame.attrs["kind"] = about.get("kind", "measured")
    return frame.drop(columns=[name for name in ("repetitions",) if name in frame.columns])


def _normalized(values: pd.Series, way: str) -> pd.Series:
    if not pd.api.types.is_numeric_dtype(values):
        raise DataError(f"the column {values.name!r} holds {values.dtype}: only numbers can be normalised")
    shift, scale = (values.min(), values.max() - values.min()) if way == "min-max" else (values.mean(), values.std())
    if not scale > 0:
        raise DataError(f"the column {values.name!r} is constant: it cannot be normalised")
    return (values - shift) / scale


def _plain(settings: BaseModel | None) -> dict[str, Any]:
    assert settings is not None
    plain: Mapping[str, Any] = json.loads(settings.model_dump_json())
    return {key: (value or None) if key == "group" else value for key, value in plain.items()}
