"""One word for where samples come from: a shipped data set's name, a file, or a pattern of files."""

import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Literal, overload

from perfkit.base.files import paths_of
from perfkit.errors import MissingFileError, SettingError, closest
from perfkit.samples.fleet import Fleet
from perfkit.samples.table import Samples

if TYPE_CHECKING:
    import pandas as pd

    from perfkit.base.in_order import Progress

Source = str | Path | Iterable[str | Path]


@overload
def open_samples(
    source: Source,
    *,
    memory: Literal[True] = ...,
    time_event: str = ...,
    work_event: str = ...,
    errors: Literal["raise", "collect"] = ...,
    cumulative: bool | None = ...,
) -> Samples: ...


@overload
def open_samples(
    source: Source,
    *,
    memory: Literal[False],
    time_event: str = ...,
    work_event: str = ...,
    errors: Literal["raise", "collect"] = ...,
    cumulative: bool | None = ...,
    store: str | Path | None = ...,
    paths: str = ...,
    labels: "pd.DataFrame | str | Path | None" = ...,
    cluster: str = ...,
    workers: int = ...,
    progress: "Progress | None" = ...,
) -> Fleet: ...


@overload
def open_samples(
    source: Source,
    *,
    memory: bool | None,
    time_event: str = ...,
    work_event: str = ...,
    errors: Literal["raise", "collect"] = ...,
    cumulative: bool | None = ...,
    store: str | Path | None = ...,
    paths: str = ...,
    labels: "pd.DataFrame | str | Path | None" = ...,
    cluster: str = ...,
    workers: int = ...,
    progress: "Progress | None" = ...,
) -> Samples | Fleet: ...


def open_samples(
    source: Source,
    *,
    memory: bool | None = True,
    time_event: str = "",
    work_event: str = "",
    errors: Literal["raise", "collect"] = "raise",
    cumulative: bool | None = None,
    store: str | Path | None = None,
    paths: str = "",
    labels: "pd.DataFrame | str | Path | None" = None,
    cluster: str = "",
    workers: int = 0,
    progress: "Progress | None" = None,
) -> Samples | Fleet:
    """Return the samples that a notebook's parameter or a command's argument names.

    In memory as `Samples`; with ``memory=False`` as a `Fleet`, which reads its files in parallel and never holds all of
    them.

    Parameters
    ----------
    source : str, path, or several
        The name of a shipped data set (``spire/train``), a counter dump of any format that `perfkit.read_samples`
        knows, or a pattern such as ``dumps/*.txt`` whose files become one run each. Several are put together.
    time_event, work_event : str
        The events that measure time and work; "" leaves the choice to the data: cycles and instructions.
    errors, cumulative
        Of files, as in `perfkit.read_samples`. A file of a fleet that cannot be read does not stop the others: the
        table `Fleet.files` says why.
    memory : bool, optional
        True for `Samples`, False for a `Fleet`; None leaves it to the source: a folder, a pattern ``*.parquet``, or
        what has a ``store``, is a `Fleet`, the rest `Samples`.
    store : path, optional
        A folder for what is read of dumps, so that they are read once: the same call later reads what is new or has
        changed. Parquet files that perfkit wrote need none. A store is itself a source.
    paths : str, optional
        Which parts of the files' paths are labels: ``"{machine}/{version}-*.txt"``, matched at their ends. Folders
        called ``name=value`` are labels anyway.
    labels : DataFrame or path of a CSV file, optional
        Further labels, joined by the columns that it shares with the runs (``machine``, ``version``, ``run``, ...).
    cluster : str, optional
        Where the fleet is read: "" for threads here, ``local:N`` for N processes, ``tcp://HOST:PORT`` for a scheduler
        of dask, ``slurm:N``.
    workers : int
        Threads; 0 for one per processor.
    progress : callable, optional
        Called with how many tasks are done and how many there are.

    Raises
    ------
    SettingError
        Neither a data set nor a file has this name; the message names the nearest data sets.

    Examples
    --------
    >>> import perfkit as pk
    >>> pk.open_samples("spire/memory").kind
    'generated'
    """
    from perfkit import datasets

    given = paths_of(source, "open_samples")
    known = datasets.names()
    if memory is None:
        memory = store is None and not any(_is_large(each, known) for each in given)
    if not memory:
        from perfkit.readers.fleet import HowRead, open_fleet

        return open_fleet(
            given,
            store=store,
            asked=HowRead(time_event, work_event, errors, cumulative),
            paths=paths,
            labels=labels,
            cluster=cluster,
            workers=workers,
            progress=progress,
        )
    if store is not None or paths or labels is not None or cluster:
        raise SettingError("store, paths, labels and cluster are of fleets, which are not in memory: memory=False")
    return _in_memory(given, known, time_event, work_event, errors, cumulative)


def _is_large(source: str | Path, known: list[str]) -> bool:
    """Whether a source is a folder, or a pattern of parquet files."""
    text = str(source)
    return text not in known and (
        Path(text).expanduser().is_dir() or (any(c in text for c in "*?[") and text.endswith((".parquet", ".pq")))
    )


def _in_memory(
    given: list[str | Path],
    known: list[str],
    time_event: str,
    work_event: str,
    errors: Literal["raise", "collect"],
    cumulative: bool | None,
) -> Samples:
    from perfkit import datasets
    from perfkit.readers import read_samples

    parts: list[Samples] = []
    files: list[Path] = []
    for each in given:
        if str(each) in known:
            loaded = datasets.load(str(each))
            if not isinstance(loaded, Samples):
                raise SettingError(f"data set {each} holds no samples: {datasets.find(str(each)).holds}")
            parts.append(_with_axes(loaded, time_event, work_event))
        else:
            files += _files(each, known)
    if files:
        parts.append(
            read_samples(
                files,
                time_event=time_event or None,
                work_event=work_event or None,
                errors=errors,
                cumulative=cumulative,
            )
        )
    if not parts:
        raise SettingError("a source is the name of a data set, a file, or a pattern of files; found none")
    return parts[0] if len(parts) == 1 else Samples.concat(parts)


def is_shipped(source: str | Path) -> bool:
    """Whether a source is the name of a data set that ships with perfkit."""
    from perfkit import datasets

    return str(source) in datasets.names()


def dump_files(source: str | Path) -> list[Path]:
    """Return the files that a path or a pattern names; SettingError where there are none."""
    return _files(source, [])


def _files(source: str | Path, known: list[str]) -> list[Path]:
    if str(source) in ("-", "/dev/stdin"):
        return [Path("/dev/stdin")]
    if Path(source).is_file() or Path(source).is_fifo():
        return [Path(source)]
    if not str(source).strip():
        raise SettingError("expected the name of a data set, a file or a pattern of files; found an empty name")
    if Path(source).is_dir():
        raise SettingError(
            f"{str(source)!r} is a folder; name the files in it, as in '{Path(source) / '*'}', or in Python read it as "
            "a fleet: memory=False"
        )
    if Path(source).exists():
        raise SettingError(f"{str(source)!r} is no regular file (a device or a socket); name a file with counts")
    pattern = Path(source)
    inside = str(pattern.relative_to(pattern.anchor))
    found = sorted(p for p in Path(pattern.anchor).glob(inside) if p.is_file()) if inside != "." else []
    if not found:
        sets = difflib.get_close_matches(str(source), known, 3, 0.6)
        beside = closest(pattern.name, _names_beside(pattern))
        near = f" Files there with the nearest names: {', '.join(beside)}." if beside else ""
        near += f" Data sets with the nearest names: {', '.join(sets)}." if sets else ""
        raise MissingFileError(
            f"{str(source)!r} is neither a data set nor a file, and no file matches it as a pattern (looked in "
            f"{Path.cwd()}).{near or ' `perfkit data` lists the data sets.'}"
        )
    return found


def _names_beside(path: Path) -> list[str]:
    """Return the names in the folder in which a file was looked for; none where there is no such folder."""
    try:
        return [each.name for each in path.parent.iterdir()]
    except OSError:
        return []


def _with_axes(samples: Samples, time_event: str, work_event: str) -> Samples:
    wanted = (time_event or samples.time_event, work_event or samples.work_event)
    return samples if wanted == (samples.time_event, samples.work_event) else samples.with_axes(*wanted)
