"""Which machine, day and version each run of a fleet is of: said by its dump, its path, or a table of labels."""

import re
from pathlib import Path, PurePosixPath
from typing import Any

import pandas as pd

from perfkit.errors import DataError, SettingError

_FIELD = re.compile(r"\\\{(\w+)\\\}")
_DATE = re.compile(r"\d{4}([-_.]?\d\d){1,2}(\D.*)?$")  # 2026-11-02, 20261102T10, 2026-11: a folder of a day
_OWN = {"part", "run", "parameters", "started", "source", "file"}


def label_runs(
    runs: pd.DataFrame, paths: str, labels: "pd.DataFrame | str | Path | None"
) -> tuple[pd.DataFrame, bool, tuple[str, ...]]:
    """Return the runs with their labels, whether their machines are known, and what should be said of them.

    The later wins: folders called ``name=value``, what ``paths`` takes out of the files' names, the table of labels.
    """
    out = runs.reset_index(drop=True)
    notes: list[str] = []
    for column in ("workload", "host", "command", "kind", "source"):
        out[column] = out[column].fillna("").astype(str)
    folders = pd.DataFrame([_from_folders(name) for name in out["file"]], index=out.index)
    fits = _fitting(out["file"], paths) if paths else None
    found = pd.DataFrame(index=out.index)
    if fits is not None:
        found = pd.DataFrame([match.groupdict() for match in fits], index=out.index)
    for column in [*folders.columns, *found.columns]:
        if column in _OWN:
            raise SettingError(f"a label cannot be called {column!r}; choose another name")
        out[column] = (found if column in found.columns else folders)[column].fillna("")
    started = out["started"].dropna()  # pandas 2.2 rounds what lies in memory where there is none
    day = pd.to_datetime(started, unit="s").dt.strftime("%Y-%m-%d").reindex(out.index)
    if "day" not in out:
        out["day"] = day.fillna("")
    known = "machine" in out and bool((out["machine"] != "").all())
    if not known:
        out["machine"], known, told = _machines(out, fits)
        notes += told
    if labels is not None:
        out, told = _with_table(out, labels)
        notes += told
    if not known:
        notes.append(
            f"the dumps do not name their hosts: each of {out['machine'].nunique():,} files counts as a machine. If a "
            "machine wrote several, say which part of a path names it: paths='{machine}/{day}.txt'"
        )
    for column in out.columns:
        if column not in ("part", "started"):
            out[column] = out[column].fillna("").astype(str)
    first = ["part", "file", "run", "machine", "day"]
    return out[[*first, *[c for c in out.columns if c not in first]]], known, tuple(notes)


def _from_folders(name: str) -> dict[str, str]:
    """Return what folders called ``name=value`` say."""
    pairs = [folder.partition("=") for folder in PurePosixPath(name).parts[:-1]]
    return {key: value for key, sign, value in pairs if sign and key}


def _fitting(names: pd.Series, pattern: str) -> pd.Series:
    """Return how paths fit a pattern such as ``{machine}/{version}-*.txt`` at their ends.

    Raises
    ------
    SettingError
        The pattern names no label, or some files do not fit it.
    """
    text = _FIELD.sub(r"(?P<\1>[^/]+?)", re.escape(pattern)).replace(r"\*", "[^/]*")
    try:
        fits = re.compile(rf"(?:^|.*/){text}$")
    except re.error as error:
        raise SettingError(f"paths names a label twice, or badly: {pattern!r} ({error})") from error
    if not fits.groupindex:
        raise SettingError(f"paths is a pattern with labels in braces, as '{{machine}}/{{day}}.txt'; found {pattern!r}")
    found = names.map(lambda name: fits.match(name))
    if found.isna().any():
        bad = names[found.isna()]
        raise SettingError(
            f"{bad.nunique():,} of {names.nunique():,} files do not fit paths={pattern!r}: the first is "
            f"{bad.iloc[0]!r}. Change the pattern ('*' fits any text), or name only the files that do."
        )
    return found


def _machines(runs: pd.DataFrame, fits: pd.Series | None) -> tuple[pd.Series, bool, list[str]]:
    """Return the machine of each run, whether that is known, and what to say of it.

    The host that the dump names; else the folder, where files are of one name and their paths differ in one folder,
    apart from other labels and days; else the file. Where two folders differ, as in ``rack/web-1/perf.txt``, either
    could be the machine, and files of one machine taken for several would make evidence out of nothing.
    """
    host = runs["host"]
    if (host != "").all():
        return host, True, []
    rest = [_unclaimed(name, None if fits is None else fits[i]) for i, name in runs["file"].items()]
    folders = [tuple(f for f in r[:-1] if f and "=" not in f and not _DATE.match(f)) for r in rest]
    if len({r[-1] for r in rest}) == 1 and len({len(f) for f in folders}) == 1:
        vary = [i for i, values in enumerate(zip(*folders, strict=True)) if len(set(values)) > 1]
        if len(vary) == 1:
            named = pd.Series([f[vary[0]] for f in folders], index=runs.index)
            first = list(dict.fromkeys(named))
            told = f"folders are taken for machines: {', '.join(first[:3])}{', ...' * (len(first) > 3)}"
            return named.where(host == "", host), True, [told]
    return runs["file"].where(host == "", host), False, []


def _unclaimed(name: str, match: re.Match[str] | None) -> list[str]:
    """Return the parts of a path without what a pattern took out of it as labels."""
    spans = [] if match is None else sorted(match.span(i + 1) for i in range(len(match.groups())))
    for start, end in reversed(spans):
        name = name[:start] + name[end:]
    return name.split("/")


def _with_table(runs: pd.DataFrame, labels: "pd.DataFrame | str | Path") -> tuple[pd.DataFrame, list[str]]:
    """Return the runs with the columns of a table, joined by the columns that both have."""
    table: Any = labels
    if isinstance(labels, str | Path):
        table = pd.read_csv(labels, dtype=str, keep_default_na=False)
    if not isinstance(table, pd.DataFrame):
        raise SettingError(f"labels is a table, or the path of a CSV file; found {type(labels).__name__}")
    table = (table.reset_index() if table.index.name in runs.columns else table).astype(str)
    keys = [c for c in table.columns if c in runs.columns]
    new = [c for c in table.columns if c not in runs.columns]
    if not keys or not new:
        raise SettingError(
            f"the table of labels needs a column that runs have ({', '.join(map(str, runs.columns[2:]))}) and "
            f"others to add; found {', '.join(map(str, table.columns))}"
        )
    twice = table.duplicated(keys)
    if twice.any():
        row = table.loc[twice.idxmax(), keys].to_dict()
        raise DataError(f"the table of labels describes {row} twice")
    joined = runs.merge(table, on=keys, how="left", validate="many_to_one")
    lacking = joined[new[0]].isna()
    notes = []
    if lacking.all():
        raise DataError(
            f"no run is in the table of labels: it has {', '.join(map(str, table[keys[0]].head(3)))} as {keys[0]}, the "
            f"runs {', '.join(runs[keys[0]].head(3))}"
        )
    if lacking.any():
        notes.append(f"{lacking.sum():,} of {len(runs):,} runs are not in the table of labels; theirs are empty")
    return joined.fillna(dict.fromkeys(new, "")), notes
