"""One word for where samples come from: a shipped data set's name, a file, or a pattern of files."""

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from perfkit.errors import MissingFileError, SettingError
from perfkit.samples.events import closest
from perfkit.samples.table import Samples


def open_samples(
    source: str | Path | Iterable[str | Path],
    *,
    time_event: str = "",
    work_event: str = "",
    errors: Literal["raise", "collect"] = "raise",
    cumulative: bool | None = None,
) -> Samples:
    """Return the samples that a notebook's parameter or a command's argument names.

    Parameters
    ----------
    source : str, path, or several
        The name of a shipped data set (``spire/train``), a counter dump of any format that `perfkit.read_samples`
        knows, or a pattern such as ``dumps/*.txt`` whose files become one run each. Several are put together.
    time_event, work_event : str
        The events that measure time and work; "" leaves the choice to the data: cycles and instructions.
    errors, cumulative
        Of files, as in `perfkit.read_samples`.

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
    from perfkit.readers import read_samples

    parts: list[Samples] = []
    files: list[Path] = []
    known = datasets.names()
    for each in [source] if isinstance(source, str | Path) else source:
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


def dump_files(source: str | Path) -> list[Path]:
    """Return the files that a path or a pattern names; SettingError where there are none."""
    return _files(source, [])


def _files(source: str | Path, known: list[str]) -> list[Path]:
    if Path(source).is_file():
        return [Path(source)]
    if Path(source).is_dir():
        raise SettingError(f"{str(source)!r} is a folder; name the files in it, as in '{Path(source) / '*'}'")
    pattern = Path(source)
    inside = str(pattern.relative_to(pattern.anchor))
    found = sorted(p for p in Path(pattern.anchor).glob(inside) if p.is_file()) if inside != "." else []
    if not found:
        near = closest(str(source), known) or known[:3]
        raise MissingFileError(
            f"{str(source)!r} is neither a data set nor a file, and no file matches it as a pattern (looked in "
            f"{Path.cwd()})." + (f" Data sets with the nearest names: {', '.join(near)}." if near else "")
        )
    return found


def _with_axes(samples: Samples, time_event: str, work_event: str) -> Samples:
    wanted = (time_event or samples.time_event, work_event or samples.work_event)
    return samples if wanted == (samples.time_event, samples.work_event) else samples.with_axes(*wanted)
