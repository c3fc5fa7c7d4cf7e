"""Many runs of a notebook: one for each row of a table of parameters, in parallel, resumable, with an index page.

A folder holds everything: one page per run, its record (parameters, recorded results, or the error), thumbnails, the
widget libraries once, ``index.html`` and ``results.csv``. A run is known by its notebook and its parameters: the same
command resumes where it stopped, and tries again what failed.
"""

import base64
import csv
import hashlib
import io
import itertools
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from perfkit.base.files import existing, replaced
from perfkit.base.in_order import in_order
from perfkit.base.record import RECORD_TYPE
from perfkit.cli import options
from perfkit.cli.notebook_runs import checked, execute, pairs_of, parameters_of
from perfkit.errors import FormatError, PerfkitError, SettingError, UnavailableError

_LIBRARIES = "widgets.js"
_TRIES = 2  # a kernel that dies (killed, out of memory) is started once more
_THUMBNAIL = 320  # pixels
_EVERY = 10.0  # seconds between two index pages while runs are going on


@dataclass(frozen=True)
class Rerun:
    """One run: its number in the table, what names its files, and its parameters as the notebook takes them."""

    number: int
    key: str
    values: Mapping[str, Any]


def grid_of(path: Path, parameters: Sequence[str], grid: Path | None, without: str = "") -> list[Rerun]:
    """Return the runs that a table and parameters ask for: each row with each combination of the parameters' values.

    Raises
    ------
    SettingError
        The notebook has no such parameter, a value is not of its type, or a run is asked for twice.
    FormatError
        The table has no rows, or a row has more or fewer cells than the header.
    """
    known = parameters_of(path)
    pairs = pairs_of(list(parameters))
    checked({name: "" for name in pairs if name not in known}, known, path)
    lists = {
        n: [v] if known[n]["inferred_type_name"].startswith("list") else options.words(v) or [v]
        for n, v in pairs.items()
    }
    rows = _rows(grid) if grid is not None else [{}]
    both = set(rows[0]) & set(pairs)
    if both:
        raise SettingError(f"{', '.join(sorted(both))}: given by -p and by the table; give it once")
    text = path.read_bytes()
    runs: dict[str, Rerun] = {}
    for row in rows:
        for chosen in itertools.product(*lists.values()):
            values = checked({**row, **dict(zip(lists, chosen, strict=True))}, known, path)
            told = json.dumps(values, sort_keys=True).encode()
            key = hashlib.sha256(b"\0".join([text, told, *([without.encode()] if without else [])])).hexdigest()[:16]
            if key in runs:
                raise SettingError(f"run {len(runs) + 1} is asked for twice: {_told(values)}")
            runs[key] = Rerun(len(runs), key, values)
    return list(runs.values())


def rerun_all(
    path: Path,
    runs: Sequence[Rerun],
    folder: Path,
    *,
    timeout: float,
    cluster: str = "",
    jobs: int = 0,
    progress: Callable[[int, int], None] | None = None,
    without: str = "",
) -> list[dict[str, Any]]:
    """Run what is not done yet, write the index and the table, and return the record of every run.

    Raises
    ------
    UnavailableError
        A page could not be written (a full disk): finished pages are kept.
    """
    from perfkit.cli.pages.page import bundle

    for name in ("pages", "records", "thumbnails"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    with _writing(folder):
        if not (folder / _LIBRARIES).is_file():
            with replaced(folder / _LIBRARIES) as temporary:
                temporary.write_text(bundle(), encoding="utf-8")
    kept = {r.key: found for r in runs if (found := finished(folder, r)) is not None}
    todo = [r for r in runs if r.key not in kept]
    task = partial(
        run_one, notebook=str(path.resolve()), folder=str(folder.resolve()), timeout=timeout, without=without
    )
    lost = partial(_given_up, folder=folder)
    done: dict[str, dict[str, Any]] = {}
    written = time.monotonic()

    def write() -> list[dict[str, Any]]:
        records = [{**kept, **done}[r.key] for r in runs if r.key in kept or r.key in done]
        with _writing(folder):
            write_index(folder, path.stem, records, len(runs))
        return records

    try:
        for found in in_order(task, todo, cluster=cluster, workers=jobs, progress=progress, lost=lost):
            if found["status"] == "unwritten":
                raise UnavailableError(
                    f"{_told(found['values'])}: its page could not be written: {found['error']}. Finished pages are "
                    "kept; make room and run the same again."
                )
            done[found["key"]] = found
            if time.monotonic() - written > _EVERY:
                write()
                written = time.monotonic()
    except UnavailableError:
        with suppress(UnavailableError):  # the index fits no disk that is full: what stopped the runs is told
            write()
        raise
    except BaseException:
        write()
        raise
    return write()


def finished(folder: Path, run: Rerun) -> dict[str, Any] | None:
    """Return the record of a run that is done and whose page is there."""
    try:
        found: dict[str, Any] = json.loads((folder / "records" / f"{run.key}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    whole = found.get("status") == "ok" and (folder / str(found.get("page"))).is_file()
    return {**found, "kept": True} if whole else None


def run_one(run: Rerun, notebook: str, folder: str, timeout: float, without: str = "") -> dict[str, Any]:
    """Run the notebook once and write its page and its record; return the record, also of a run that failed."""
    place, start = Path(folder), time.perf_counter()
    found = _begun(run)
    try:
        try:
            executed = _executed(Path(notebook), run, timeout, without)
        except PerfkitError as error:
            found |= _failed(str(error))
        else:
            found["recorded"] = recorded(executed)
            _write_page(executed, place, found, f"{Path(notebook).stem}: {_told(run.values)}")
        found["seconds"] = round(time.perf_counter() - start, 2)
    except OSError as error:
        return {**found, "status": "unwritten", "error": str(error)}
    return _kept_record(place, found)


def _begun(run: Rerun) -> dict[str, Any]:
    return {
        "key": run.key, "number": run.number, "values": dict(run.values), "status": "ok", "error": "",
        "recorded": {}, "page": f"pages/{run.key}.html", "thumbnail": "", "kept": False,
    }  # fmt: skip


def _failed(reason: str) -> dict[str, Any]:
    return {"status": "failed", "error": reason[:2000], "page": ""}


def _given_up(run: Rerun, reason: str, folder: Path) -> dict[str, Any]:
    """Return, and keep, the record of a run whose workers died again and again; the others go on."""
    return _kept_record(folder, _begun(run) | _failed(reason))


def _kept_record(folder: Path, found: dict[str, Any]) -> dict[str, Any]:
    try:
        with replaced(folder / "records" / f"{found['key']}.json") as temporary:
            temporary.write_text(json.dumps(found), encoding="utf-8")
    except OSError as error:
        return {**found, "status": "unwritten", "error": str(error)}
    return found


def _executed(path: Path, run: Rerun, timeout: float, without: str) -> Any:
    """Return the executed notebook; a kernel that died is tried once more."""
    for attempt in range(_TRIES):
        try:
            return execute(path, dict(run.values), timeout, quiet=True, many=True, without=without)
        except RuntimeError as error:  # nbclient's DeadKernelError; perfkit's own errors of cells are not tried again
            if isinstance(error, PerfkitError) or attempt == _TRIES - 1:
                raise (
                    error if isinstance(error, PerfkitError) else UnavailableError(f"its kernel died: {error}")
                ) from error
    raise AssertionError


def recorded(executed: Any) -> dict[str, Any]:
    """Return what `perfkit.record` kept in an executed notebook, in order; the last of a name counts."""
    found: dict[str, Any] = {}
    for cell in executed.cells:
        for output in cell.get("outputs", []):
            kept = output.get("data", {}).get(RECORD_TYPE)
            if isinstance(kept, Mapping) and "name" in kept:
                found[str(kept["name"])] = kept.get("value")
    return found


def _write_page(executed: Any, place: Path, found: dict[str, Any], title: str) -> None:
    import html

    from perfkit.cli.pages.page import Site, page_of

    bar = f'<a href="../index.html">All runs</a> · {html.escape(title)}'
    picture = _thumbnail(executed)
    if picture:
        found["thumbnail"] = f"thumbnails/{found['key']}.png"
        with replaced(place / found["thumbnail"]) as temporary:
            temporary.write_bytes(picture)
    with replaced(place / found["page"]) as temporary:
        temporary.write_text(page_of(executed, title, Site(f"../{_LIBRARIES}", bar)), encoding="utf-8")


def _thumbnail(executed: Any) -> bytes:
    """Return a picture of the notebook, made small: that of the cell tagged ``thumbnail``, else the first."""
    from PIL import Image

    for cell in sorted(executed.cells, key=lambda c: "thumbnail" not in c.metadata.get("tags", [])):
        for output in cell.get("outputs", []):
            data = output.get("data", {}).get("image/png")
            if data:
                with Image.open(io.BytesIO(base64.b64decode(data))) as image:
                    small = image.convert("RGB")
                    small.thumbnail((_THUMBNAIL, _THUMBNAIL))
                    out = io.BytesIO()
                    small.save(out, "PNG", optimize=True)
                return out.getvalue()
    return b""


# ------------------------------------------------------------------ the index


def write_index(folder: Path, title: str, records: Sequence[Mapping[str, Any]], total: int) -> None:
    """Write ``results.csv`` (parameters, recorded results, status) and ``index.html``."""
    names = list(dict.fromkeys(n for r in records for n in r["values"]))
    columns = list(dict.fromkeys(n for r in records for n in r["recorded"]))
    with replaced(folder / "results.csv") as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow([*names, *columns, "status", "seconds", "page", "error"])
        for r in records:
            out.writerow([
                *(r["values"].get(n, "") for n in names), *(r["recorded"].get(n, "") for n in columns),
                r["status"], r.get("seconds", ""), r["page"], r["error"],
            ])  # fmt: skip
    with replaced(folder / "index.html") as temporary:
        temporary.write_text(_page(title, records, names, columns, total), encoding="utf-8")


_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.4 system-ui, sans-serif; margin: 1.5rem; }
div { overflow-x: auto; } table { border-collapse: collapse; }
th, td { padding: .35rem .7rem; text-align: left; vertical-align: middle; }
tr { border-bottom: 1px solid color-mix(in srgb, currentColor 20%, transparent); }
img { width: 160px; background: white; display: block; }
.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.failed { color: light-dark(#a3260b, #ff9c85); } pre { white-space: pre-wrap; max-width: 60rem; }
"""


def _page(title: str, records: Sequence[Mapping[str, Any]], names: list[str], columns: list[str], total: int) -> str:
    from html import escape

    failed = [r for r in records if r["status"] != "ok"]
    state = f"{len(records) - len(failed)} of {total} runs done, {len(failed)} failed"
    rows = []
    for r in records:
        picture = f'<img src="{escape(r["thumbnail"])}" alt="{escape(_of_run(r))}">' if r["thumbnail"] else ""
        link = (
            f'<a href="{escape(r["page"])}">{picture or "page"}</a>'
            if r["page"]
            else '<span class="failed">failed</span>'
        )
        cells = [*(r["values"].get(n) for n in names), *(r["recorded"].get(n) for n in columns), r.get("seconds")]
        rows.append(f"<tr><td>{link}</td>{''.join(_cell('td', v) for v in cells)}</tr>")
    first = {n: v for r in reversed(records) for n, v in {**r["values"], **r["recorded"]}.items()}
    head = "".join(_cell("th", first.get(n), n) for n in ("page", *names, *columns))
    reasons: dict[str, list[str]] = {}
    for r in failed:
        reasons.setdefault(r["error"], []).append(_told(r["values"]))
    errors = "".join(
        f'<h3 class="failed">{len(of)} run{"s" * (len(of) > 1)}</h3><pre>{escape(reason)}</pre>'
        f"<ul>{''.join(f'<li>{escape(told)}</li>' for told in of)}</ul>"
        for reason, of in reasons.items()
    )
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}: {total} runs</title><style>{_STYLE}</style><h1>{escape(title)}</h1>"
        f'<p>{state}. All numbers: <a href="results.csv">results.csv</a>.</p>'
        f"<div><table><thead><tr>{head}<th class=n>seconds</th></tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div>"
        f"{'<h2>Failed, and tried again next time</h2>' + errors if failed else ''}</html>"
    )


def _of_run(record: Mapping[str, Any]) -> str:
    """Say what a thumbnail shows: of which run it is, and what that found."""
    found = {**record["values"], **record["recorded"]}
    return "A picture of the run with " + ", ".join(f"{name} = {_short(value)}" for name, value in found.items())


def _cell(tag: str, value: Any, text: str | None = None) -> str:
    """Return a cell of the table, numbers at its right; ``text`` where it is not the value itself."""
    from html import escape

    number = isinstance(value, int | float) and not isinstance(value, bool)
    return f"<{tag}{' class=n' * number}>{escape(_short(value) if text is None else text)}</{tag}>"


def _short(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def _told(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in values.items()) or "defaults"


def _rows(grid: Path) -> list[dict[str, str]]:
    """Return the rows of a table of parameters."""
    try:
        with existing(grid).open(encoding="utf-8-sig", newline="") as file:  # a quoted cell may hold line breaks
            lines = list(csv.reader(file))
    except (UnicodeDecodeError, csv.Error) as error:
        raise FormatError(f"{grid}: expected a CSV table of parameters in UTF-8; it cannot be read: {error}") from error
    lines = [line for line in lines if any(cell.strip() for cell in line)]
    if len(lines) < 2:
        raise FormatError(f"{grid}: expected a header with the names of parameters, and a row for each run")
    names = [name.strip() for name in lines[0]]
    if len(set(names)) < len(names) or not all(names):
        raise FormatError(f"{grid}: each column needs a name of its own; found {', '.join(names)}")
    for i, line in enumerate(lines[1:], 2):
        if len(line) != len(names):
            raise FormatError(f"{grid}, row {i}: {len(names)} cells expected, one per parameter; found {len(line)}")
    return [dict(zip(names, line, strict=True)) for line in lines[1:]]


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if isinstance(error, PerfkitError):
            raise
        raise UnavailableError(f"{folder}: cannot be written to: {error}; finished pages are kept") from error
