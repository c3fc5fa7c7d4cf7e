"""The contract that every result keeps: a table, a picture, a file, a summary in a few lines.

A settings object's ``fit`` or ``run`` returns a new result. Whatever the method, a result can be asked the same things:
see `Result`. Pictures live in `perfkit.plots`, above the results; `draw` is the only way up.
"""

import html
import io
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from importlib import import_module
from inspect import signature
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, Self, TypeVar, get_args, runtime_checkable

from perfkit.base.files import a_path, arrow_table, existing, json_text, of_json, reading, replaced
from perfkit.errors import (
    DataError,
    FormatError,
    SettingError,
    UnavailableError,
    did_you_mean,
    expect,
    listed,
    of_extra,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Where a figure comes from: every set of data says one of these.
Kind = Literal["measured", "simulated", "generated", "published"]
KINDS: tuple[str, ...] = get_args(Kind)
UNKNOWN = "unknown"  # a plain table that does not say where its figures come from
LONGEST_REPR, LARGEST_HTML = 300, 3900


@runtime_checkable
class Result(Protocol):
    """What can be asked of any result of perfkit."""

    @property
    def kind(self) -> str:
        """Where the figures come from: measured, simulated, generated or published.

        Of data of several kinds ``mixed (...)``, naming them; of a plain table that does not say, ``unknown``.
        """

    def to_frame(self) -> "pd.DataFrame":
        """Return the result as a table, one row per thing that was found."""

    def plot(self, ax: "Axes | None" = None) -> "Axes | Figure":
        """Draw the result: into ``ax`` if given; returns the axes (the figure, where there are several axes)."""

    def summary(self) -> str:
        """Say what was found in a few lines of plain text: the answer first, with units and the kind of data."""

    def save(self, path: str | Path) -> Path:
        """Write the result to a file, replacing an older one only when the new one is complete."""

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a saved result again; FileNotFoundError if there is no such file, FormatError if it is another's."""


class Summarised:
    """Short displays made from ``summary()``; decorate dataclasses with ``repr=False`` so that these are kept."""

    def summary(self) -> str:
        """Say what was found in a few lines of plain text."""
        raise NotImplementedError

    def __repr__(self) -> str:
        """Return the class and the first line of the summary, at most 300 characters."""
        first = self.summary().partition("\n")[0]
        text = f"<{type(self).__name__}: {first}>"
        return text if len(text) <= LONGEST_REPR else text[: LONGEST_REPR - 2] + "…>"

    def __str__(self) -> str:
        """Return the summary."""
        return self.summary()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Return the result's table as Arrow's C stream: polars, duckdb and pyarrow read it directly."""
        import pyarrow as pa

        table = self.to_frame()  # type: ignore[attr-defined]
        flat = table if table.index.names == [None] else table.reset_index()
        return pa.Table.from_pandas(flat, preserve_index=False).__arrow_c_stream__(requested_schema)

    def _repr_html_(self) -> str:
        """Return the summary for a notebook, at most 4 kB."""
        shown = html.escape(self.summary())
        if len(shown.encode()) > LARGEST_HTML:
            shown = shown.encode()[:LARGEST_HTML].decode(errors="ignore")
            head, _, rest = shown.rpartition("&")  # a cut may leave half of an entity
            shown = (shown if ";" in rest or not head else head) + "…"
        # JupyterLab breaks plain output anywhere, in the middle of words too.
        style = "white-space: pre-wrap; word-break: normal; overflow-wrap: anywhere"
        return f"<pre style='{style}'>{shown}</pre>"


class Tabled(Summarised):
    """A result that is a flat dataclass of tables, arrays and plain values, with one file format for all such results.

    ``.parquet`` holds everything: one table as its rows, which any program can read, and the rest in its metadata.
    ``.csv`` and ``.json`` hold that table only, for other programs; they cannot be loaded again.
    """

    # The field whose table is the rows of the file; "" for `to_frame`, which is then not read back.
    _rows: ClassVar[str] = ""

    def to_frame(self) -> "pd.DataFrame":
        """Return the result as a table."""
        raise NotImplementedError

    def save(self, path: str | Path) -> Path:
        """Write the result: ``.parquet`` with everything, to `load` again; ``.csv`` or ``.json`` with the table only.

        Raises
        ------
        SettingError
            The name has another ending.
        """
        table = getattr(self, self._rows) if self._rows else self.to_frame()
        save_table(self, table, path)
        return Path(path)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a ``.parquet`` file that `save` wrote.

        Raises
        ------
        FileNotFoundError
            There is no such file.
        FormatError
            The file is damaged, another result's, or holds the table only (``.csv``, ``.json``).
        """
        return _loaded(cls, existing(path))


def save_table(result: Tabled, table: "pd.DataFrame", path: str | Path) -> None:
    """Write a result with ``table`` as its rows; see `Tabled.save`."""
    target = a_path(path, f"{type(result).__name__}.save")
    if target.suffix not in (".csv", ".json", ".parquet"):
        raise SettingError(
            f"{type(result).__name__}.save writes .csv, .json or .parquet (everything, to load it again); "
            f"found {target.name!r}"
        )
    flat = table if table.index.names == [None] else table.reset_index()
    with replaced(target) as temporary:
        if target.suffix == ".csv":
            flat.to_csv(temporary, index=False)
        elif target.suffix == ".json":
            flat.to_json(temporary, orient="records", indent=1)
        else:
            _write_parquet(result, table, temporary)


class Plain(Summarised):
    """A result that is a dataclass of plain values (numbers, text, tuples, mappings), saved as JSON."""

    def save(self, path: str | Path) -> Path:
        """Write everything as JSON."""
        head = {"format": _FORMAT, "version": _VERSION, "class": type(self).__name__, "values": vars(self)}
        with replaced(path, ".json") as temporary:
            temporary.write_text(json_text(head, _plain) + "\n", encoding="utf-8")
        return Path(path)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote.

        Raises
        ------
        FileNotFoundError
            There is no such file.
        FormatError
            The file is damaged, or another result's.
        """
        name, found = cls.__name__, existing(path)
        with reading(path, f"JSON that {name}.save wrote"):
            head = of_json(found.read_text(encoding="utf-8"))
            if not isinstance(head, dict) or head.get("format") != _FORMAT or head.get("class") != name:
                raise FormatError(f"{path}: JSON, but not what {name}.save wrote")
            return answering(cls._of(_tuples(head["values"])))

    @classmethod
    def _of(cls, values: dict[str, Any]) -> Self:
        """Make the result of its fields' values."""
        return cls(**values)


_R = TypeVar("_R", bound=Summarised)


def answering(result: _R) -> _R:
    """Return a result just loaded once it has answered: a file whose parts do not fit together fails here, not later.

    To be called within `perfkit.base.files.reading`, which makes a FormatError of whatever goes wrong.
    """
    result.summary()
    with suppress(UnavailableError):  # without pandas there are no tables
        result.to_frame()  # type: ignore[attr-defined]
    return result


_FORMAT, _VERSION = "perfkit-result", 1
_T = TypeVar("_T", bound=Tabled)


def _write_parquet(result: Tabled, table: "pd.DataFrame", temporary: Path) -> None:
    pd = of_extra("pandas")
    import pyarrow as pa
    import pyarrow.parquet as pq

    plain, metadata, series = {}, {}, []
    for field in fields(result):  # type: ignore[arg-type]
        value = getattr(result, field.name)
        if field.name == result._rows:
            continue
        if isinstance(value, pd.Series):
            series.append(field.name)
            value = value.to_frame("value" if value.name is None else value.name)
        if hasattr(value, "dtype") or isinstance(value, pd.DataFrame):
            metadata[f"perfkit:{field.name}".encode()] = _packed(value)
        else:
            plain[field.name] = value
    head = {
        "format": _FORMAT,
        "version": _VERSION,
        "class": type(result).__name__,
        "kind": result.kind,  # type: ignore[attr-defined]
        "values": plain,
        "series": series,
    }
    rows = pa.Table.from_pandas(table)
    metadata |= {**(rows.schema.metadata or {}), b"perfkit": json_text(head, _plain).encode()}
    pq.write_table(rows.replace_schema_metadata(metadata), temporary, compression="zstd")


def _loaded(cls: type[_T], path: Path) -> _T:
    name = cls.__name__
    if path.suffix in (".csv", ".json"):
        raise FormatError(f"{path}: {path.suffix} holds the table only; {name}.load reads what was saved as .parquet")
    with reading(path, f"a parquet file of {name}.save"):
        return answering(_rebuilt(cls, arrow_table(path), path))


def _rebuilt(cls: type[_T], arrow: Any, path: Path) -> _T:
    metadata = arrow.schema.metadata or {}
    head = of_json(metadata.get(b"perfkit", b"{}"))
    if head.get("format") != _FORMAT or head["class"] != cls.__name__:
        found = head.get("class", head.get("format", "a plain table"))
        raise FormatError(f"{path}: a parquet file, but not one that {cls.__name__}.save wrote (found {found})")
    if head["version"] > _VERSION:
        raise FormatError(f"{path}: a result of format version {head['version']}; this perfkit reads up to {_VERSION}")
    values = {key: _tuples(value) for key, value in head["values"].items()}
    for key, data in metadata.items():
        if key.startswith(b"perfkit:"):
            values[key[8:].decode()] = _unpacked(data)
    for key in head["series"]:
        only = values[key].columns[0]
        values[key] = values[key][only]
    if cls._rows:
        values[cls._rows] = arrow.to_pandas()
    return cls(**values)


def _plain(value: Any) -> Any:
    """Return a NumPy number, a table, a part that is a dataclass, or a mapping of another type as JSON holds it."""
    if hasattr(value, "columns"):
        return value.to_dict("list")
    if hasattr(value, "item"):
        return value.item()
    return vars(value) if is_dataclass(value) else dict(value)


def _packed(value: Any) -> bytes:
    """Return a table (as Arrow's stream) or an array (as a .npy file) as bytes."""
    import numpy as np
    import pyarrow as pa

    data = io.BytesIO()
    if hasattr(value, "columns"):
        table = pa.Table.from_pandas(value)
        with pa.ipc.new_stream(data, table.schema) as stream:
            stream.write_table(table)
    else:
        np.lib.format.write_array(data, np.asarray(value), allow_pickle=False)
    return data.getvalue()


def _unpacked(data: bytes) -> Any:
    import numpy as np
    import pyarrow as pa

    if data.startswith(b"\x93NUMPY"):
        return np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)
    with pa.ipc.open_stream(data) as stream:
        table = stream.read_all()
    table.validate(full=True)  # see perfkit.base.files.arrow_table
    return table.to_pandas()


def _tuples(value: Any) -> Any:
    """Return what JSON gave with tuples for its lists: results are frozen."""
    if isinstance(value, dict):
        return {key: _tuples(one) for key, one in value.items()}
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


# Types of settings: what fits, and how an error calls it.
_MEANT: dict[Any, tuple[Callable[[Any], bool], str]] = {
    bool: (lambda value: type(value).__name__ in ("bool", "bool_"), "True or False"),
    int: (lambda value: isinstance(value, Integral), "a whole number"),
    float: (lambda value: isinstance(value, Real), "a number"),
    str: (lambda value: isinstance(value, str), "text"),
    NoneType: (lambda value: value is None, "nothing"),
}


class Settings:
    """Settings of a method, used as scikit-learn's estimators are: `get_params`, `set_params`, `sklearn.base.clone`.

    Settings are frozen, so that ``set_params`` returns new ones and leaves these as they are.
    """

    _instead: ClassVar[str] = "see its parameters"  # what to do who gives something else than a number, say

    def __post_init__(self) -> None:
        """Refuse what is no number, text or switch where a setting is one, and seeds below 0."""
        for field in fields(self):  # type: ignore[arg-type]
            value, kind = getattr(self, field.name), field.type
            kinds = get_args(kind) if isinstance(kind, UnionType) else (kind,)
            if not all(kind in _MEANT for kind in kinds):
                continue
            words = " or ".join(_MEANT[kind][1] for kind in kinds if kind is not NoneType)
            fits = any(_MEANT[kind][0](value) for kind in kinds)
            expect(fits, value, type(self).__name__, f"{words} ({field.name})", self._instead)
            if field.name == "seed" and value < 0:
                raise SettingError(f"seed must be at least 0; found {value}")

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002 - scikit-learn's signature
        """Return the settings by name."""
        return {field.name: getattr(self, field.name) for field in fields(self) if field.init}  # type: ignore[arg-type]

    def set_params(self, **params: Any) -> Self:
        """Return new settings with some changed.

        Raises
        ------
        SettingError
            There is no such setting, or its value is not allowed.
        """
        known = self.get_params()
        for name in params:
            if name not in known:
                raise SettingError(f"{type(self).__name__} has no setting {name!r}; {did_you_mean(name, known)}")
        return replace(self, **params)  # type: ignore[type-var]

    def __sklearn_clone__(self) -> Self:
        """Return unfitted settings alike (these are never fitted: `fit` returns a result)."""
        return replace(self)  # type: ignore[type-var]


def kind_of(table: Any) -> str:
    """Return what data a table is: its ``kind``; a DataFrame's ``attrs["kind"]``, or unknown where it does not say."""
    found = table.attrs.get("kind") if hasattr(table, "attrs") else getattr(table, "kind", None)
    return str(found) if found else UNKNOWN


def joint_kind(kinds: Iterable[str]) -> str:
    """Return the one kind that data are of, or ``mixed (...)`` naming them; of no data, unknown.

    Examples
    --------
    >>> joint_kind(["simulated", "measured", "simulated"]), joint_kind(["published"]), joint_kind([])
    ('mixed (measured, simulated)', 'published', 'unknown')
    """
    found = sorted(set(kinds)) or [UNKNOWN]
    return found[0] if len(found) == 1 else f"mixed ({', '.join(found)})"


def kinds_of(kind: str) -> list[str]:
    """Return the kinds that ``mixed (...)`` names, or the one kind."""
    return kind.removeprefix("mixed (").removesuffix(")").split(", ")


def labelled(kind: str) -> str:
    """Return what a title or a line of text adds about the data: nothing where it is measured."""
    if kind == UNKNOWN:
        return " [unknown whether measured or simulated]"
    return "" if kind == "measured" else f" [{kind} data]"


def markdown_table(head: Sequence[Any], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def check_top(top: object) -> None:
    """Refuse what is no number of rows or bars to show.

    Raises
    ------
    SettingError
        It is below 1, or no whole number.
    """
    if not isinstance(top, Integral) or top < 1:
        raise SettingError(f"top is a whole number of at least 1, how many to show; found {top!r}")


def expect_shown(there: object, what: str) -> None:
    """Refuse to draw a result that holds nothing; `what` says what it lacks.

    Raises
    ------
    DataError
        There is nothing to draw.
    """
    if not there:
        raise DataError(f"{what}: there is nothing to draw")


def _check_axes(cls: type, ax: object) -> None:
    """Refuse what is no axes where axes are meant: a number of bars, say, or a table, given without its name."""
    others = list(signature(cls.plot).parameters)[2:] if hasattr(cls, "plot") else []
    named = listed([f"{name}=" for name in others if name != "how"], last="or")
    how = "leave it out for a new figure" + (f", or name what you give: {named}" if named else "")
    expect(ax is None or hasattr(ax, "get_figure"), ax, f"{cls.__name__}.plot", "matplotlib's axes first (ax)", how)


def draw(picture: str, result: Any, /, **options: Any) -> "Axes":
    """Draw a result as `drawn` does, where what is drawn are one pair of axes."""
    axes: Axes = drawn(picture, result, **options)
    return axes


def drawn(picture: str, result: Any, /, **options: Any) -> Any:
    """Draw a result with a function of `perfkit.plots`, imported when it is first needed.

    Parameters
    ----------
    picture
        Module and function below `perfkit.plots`, for example ``"spire:plot_ranking"``.
    result
        The function's first argument.
    options
        Passed on; ``ax`` among them.
    """
    _check_axes(type(result), options.get("ax"))
    check_top(options.get("top", 1))
    module, _, name = picture.partition(":")
    made = getattr(import_module(f"perfkit.plots.{module}"), name)(result, **options)
    figure = getattr(made, "figure", made)
    if hasattr(figure, "axes"):  # not the files that pictures were saved to
        import_module("perfkit.plots.style").as_written(figure)
    return made
