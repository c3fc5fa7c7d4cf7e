"""A delimited text as columns: delimiter, header, ragged rows, repeated headers, and numbers as people write them.

What the readers of tables share. The cells are read by Arrow; only columns that are not plain numbers are looked at
cell by cell.
"""

import csv
import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc

from perfkit.base.files import arrow_buffer
from perfkit.errors import FormatError, counted
from perfkit.readers.numbers import BLANKS, DRESSED, NUMBER_PATTERN, POINTED, SCALES, SPACES, Token, settle
from perfkit.readers.report import Report, quoted
from perfkit.readers.scales import bears_scale, caution_of_scale
from perfkit.samples.clocks import is_name_of_clock
from perfkit.samples.events import TIME_EVENTS, WORK_EVENTS, normalise, sounds_like_event

MISSING = (
    "", "NA", "N/A", "n/a", "n.a.", "N.A.", "#N/A", "#NV", "#DIV/0!", "nan", "NaN", "NAN", "-nan", "null",
    "NULL", "None", "-", "--", "?",
)  # fmt: skip
NOT_THERE = ("<not counted>", "<not supported>")
_AXES = {*TIME_EVENTS, *WORK_EVENTS}
_DELIMITERS = ",;\t|"
_SEPARATOR = re.compile(r"^sep=.$")  # Excel's
_MOST_ABOVE = 20  # lines about a table
_BLOCK = 4 << 20
_LOOKED_AT = 50  # cells of a column, to see what it holds
# From this size on a text is read by the compiled reader first, which takes half a second to load.
_LARGE = 8 << 20
_FIGURE = re.compile(r"[+-]?\d+(?:\.\d*)?(?:e[+-]?\d+)?", re.IGNORECASE)
_CUT = 0.2  # a number that lost a digit is at most a tenth of what it was
# Runs of a thousand seconds and more are rare, of a thousand ms or us common: only seconds tell.
_IN_SECONDS = re.compile(r"(?:^|[ _.])s(?:ec(?:ond)?s?)?$|[(\[]s(?:ec(?:ond)?s?)?[)\]]$|elapsed$", re.IGNORECASE)
_GROUPED_ABOVE = 1e5  # numbers that every tool groups which groups any
_THOUSANDS, _FEWEST_GROUPED = re.compile(r"[1-9]\d{0,2},\d{3}"), 4
_THREE_DECIMALS = re.compile(r"[1-9]\d{0,2}\.\d{3}")

Column: TypeAlias = "np.ndarray | pa.ChunkedArray"


@dataclass(frozen=True, eq=False)
class Grid:
    """A table of cells: ``names`` of the columns (which may repeat) and their values.

    A column is float64 where all columns of the table are plain numbers; ``matrix`` then holds them all, one per row.
    Else it is what Arrow made of the cells. ``parts`` are the rows at which the header was repeated, as in files that
    were put one after another.
    """

    names: tuple[str, ...]
    columns: tuple[Column, ...]
    parts: tuple[int, ...] = ()
    matrix: np.ndarray | None = field(default=None, repr=False)
    first_line: int = 1
    kept_lines: Sequence[int] | None = field(default=None, repr=False)
    delimiter: str = ""

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return len(self.columns[0]) if self.columns else 0

    @property
    def lines(self) -> Sequence[int]:
        """The line in the file (from 1) of each row."""
        return range(self.first_line, self.first_line + self.n_rows) if self.kept_lines is None else self.kept_lines

    def only(self, keep: np.ndarray) -> "Grid":
        """Return the table with those of its rows for which ``keep`` holds."""
        mask = pa.array(keep)
        return replace(
            self,
            columns=tuple(c[keep] if isinstance(c, np.ndarray) else c.filter(mask) for c in self.columns),
            parts=tuple(int(keep[:p].sum()) for p in self.parts),
            matrix=None,
            kept_lines=np.asarray(self.lines)[keep].tolist(),
        )

    def take(self, order: np.ndarray) -> "Grid":
        """Return the table with its rows in another order."""
        rows = pa.array(order)
        return replace(
            self,
            columns=tuple(c[order] if isinstance(c, np.ndarray) else c.take(rows) for c in self.columns),
            matrix=None,
            kept_lines=np.asarray(self.lines)[order].tolist(),
        )


@dataclass(frozen=True)
class Header:
    """Where a delimited text's header is (line from 1, and offset of the text behind it), and what it says."""

    line: int
    end: int
    delimiter: str
    names: tuple[str, ...]
    text: str


def cells_of(line: str, delimiter: str = ",") -> list[str]:
    """Return a line's cells; one that is no CSV (a stray carriage return, a field of megabytes) is simply cut."""
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:
        return line.split(delimiter)


def find_header(head: str) -> Header | None:
    """Return the header of a table: its first line, or below lines about it the first that names time and work.

    What stands above (``Machine;Xeon``) has fewer fields, and none that names time or work.
    """
    first = found = _first_line(head)
    for _ in range(_MOST_ABOVE):
        if found is None or first is None or any(normalise(n) in _AXES for n in first.names):
            break
        named = {normalise(n) for n in found.names}
        words = len(found.names) > len(first.names) and not any(n[:1].isdecimal() for n in found.names)
        if words and named & set(TIME_EVENTS) and named & set(WORK_EVENTS):
            return found
        below = _first_line(head[found.end :])
        found = below and replace(below, line=below.line + head[: found.end].count("\n"), end=below.end + found.end)
    return first


def _first_line(head: str) -> Header | None:
    """Return the first line that is neither empty nor a comment, taken apart at its most frequent delimiter.

    Where that line holds numbers only, and the comment right above as many names (``# cycles,instructions``, as NumPy
    and gnuplot write tables), the comment is the header.
    """
    at = 0
    above: str | None = None
    comment: str | None = None
    for number, line in enumerate(io.StringIO(head, newline="\n"), 1):
        above, comment = comment, None
        at += len(line)
        text = line.strip("\r\n")
        if text.startswith("#"):
            comment = text
        if not text.strip() or text.startswith("#") or _SEPARATOR.match(text):
            continue
        bare = re.sub(r'"(?:[^"]|"")*"', "", text)
        delimiter = max(_DELIMITERS, key=bare.count)
        names = tuple(n.strip() for n in cells_of(text, delimiter))
        if above is not None and len(names) > 1 and all(_FIGURE.fullmatch(n) for n in names):
            said = tuple(n.strip() for n in cells_of(above.lstrip("# "), delimiter))
            if len(said) == len(names) and all(n and not _FIGURE.fullmatch(n) for n in said):
                return Header(number - 1, at - len(line), delimiter, said, above)
        words = text.split() if above is not None and len(names) == 1 else []
        if above is not None and len(words) > 1 and all(_FIGURE.fullmatch(w) for w in words):
            said = tuple(above.lstrip("# ").split())
            if len(said) == len(words) and not any(_FIGURE.fullmatch(n) for n in said):
                bare = above.lstrip("# ")
                return Header(number - 1, at - len(line), delimiter, (bare,), bare)
        return Header(number, at, delimiter, names, text)
    return None


def read_grid(data: bytes, report: Report, arrange: Callable[[tuple[str, ...]], Sequence[int]] | None = None) -> Grid:
    """Read a delimited text with a header; rows of another length than the header are problems.

    ``arrange`` is given the names and returns the order in which `Grid.matrix` holds the columns.
    """
    first = max(data.find(b"\n"), 0) + 1
    head = data[: max(first, 1 << 16)].decode("utf-8", errors="replace")
    found = find_header(head)
    if found is None or len(found.names) < 2:
        raise FormatError(
            f"{report.file}: expected a table whose columns are separated by a comma, semicolon, tab or bar; "
            f"found {head[:80]!r}"
        )
    begin = len(head[: found.end].encode())
    if _blanks_before_quotes(head[found.end :], found):
        blanks = re.compile(rb"(?m)(^|" + re.escape(found.delimiter.encode()) + rb')[ \t]+(?=")')
        data = data[:begin] + blanks.sub(rb"\1", data[begin:])
    report.describes(found.line)
    if found.line > 1:
        above = [i for i, x in enumerate(head[: found.end].split("\n")[: found.line - 1], 1) if x.strip()]
        report.left_out(above, "of comments above the table, not read") if above else None
        if told := caution_of_scale(head[: found.end].split("\n")[: found.line - 1]):
            report.note(told)
    if begin == len(data):
        raise FormatError(f"{report.file}: a header and no rows")
    if not _header_again(data, begin, found, report):
        order = np.arange(len(found.names)) if arrange is None else np.asarray(arrange(found.names))
        n_lines = data.count(b"\n", begin) + (not data.endswith(b"\n"))
        columns = None
        matrix = None if _perhaps_grouped(head[found.end :], found) else _matrix(data, begin, n_lines, found, order)
        if matrix is None:
            columns = _columns(memoryview(data)[begin:], found)
        else:
            columns = tuple(matrix[i] for i in np.argsort(order))
        if columns is not None:
            kept = None if len(columns[0]) == n_lines else _lines_with_text(data, begin, found.line + 1)
            if kept is None or len(kept) == len(columns[0]):
                report.counts(range(found.line + 1, found.line + 1 + n_lines) if kept is None else kept)
                _note_open_end(data, columns[-1], report)
                return Grid(found.names, columns, (), matrix, found.line + 1, kept, found.delimiter)
    kept_rows, lines, parts = _sound_rows(data[begin:], found, data.endswith(b"\n"), report)
    columns = _columns(b"\n".join(kept_rows) + b"\n", found) if kept_rows else None
    if columns is None:
        raise FormatError(f"{report.file}: no row of it has the {len(found.names)} fields of the header")
    if len(columns[0]) != len(lines):
        at = next((i for i, row in enumerate(kept_rows) if row.count(b'"') % 2), 0)
        raise FormatError(
            f"{report.file}, line {lines[at]}: expected a quote that is closed in the same row; found "
            f"{kept_rows[at].decode(errors='replace')[:80]!r}. Close it, or take it out"
        )
    report.counts(lines)
    _note_open_end(data, columns[-1], report)
    if parts:
        report.note(
            f"the header is repeated at {counted(len(parts), 'places')}: files put one after another, taken as runs"
        )
    return Grid(found.names, columns, parts, kept_lines=lines, delimiter=found.delimiter)


def _blanks_before_quotes(body: str, header: Header) -> bool:
    """Whether rows fit the header only where blanks before a quote are none of the cell (``a, "1,234"``)."""
    rows = [x for x in body.split("\n")[:_LOOKED_AT] if x.strip()]
    if not any(f'{header.delimiter} "' in x for x in rows):
        return False
    fits = [csv.reader(rows, delimiter=header.delimiter, skipinitialspace=skip) for skip in (False, True)]
    try:
        plain, skipped = (sum(len(cells) != len(header.names) for cells in each) for each in fits)
    except csv.Error:
        return False
    return skipped == 0 < plain


def _header_again(data: bytes, begin: int, header: Header, report: Report) -> bool:
    """Whether the header is repeated, in the same or another order.

    Raises
    ------
    FormatError
        A header of other names follows, so that the rows below it would be read under the wrong names.
    """
    if data.find(header.text.encode(), begin) >= 0:
        return True
    axis = next((n for n in header.names if normalise(n) in _AXES), "")
    # A line that begins like the header, or names time or work anywhere.
    first = f"\n{header.names[0]}{header.delimiter}" if header.names[0] else ""
    beginnings = [name for name in (axis, first) if name]
    return any([_other_header(data, begin, header, name, report) for name in beginnings])  # noqa: C419 - ask for both


def _other_header(data: bytes, begin: int, header: Header, name: str, report: Report) -> bool:
    at, again = begin - 1, False
    while (at := data.find(name.encode(), at)) >= 0:
        at += name.startswith("\n")
        start, stop = data.rfind(b"\n", 0, at) + 1, data.find(b"\n", at)
        stop = len(data) if stop < 0 else stop
        names = [c.strip() for c in cells_of(data[start:stop].decode(errors="replace").strip("\r"), header.delimiter)]
        if sorted(names) == sorted(header.names):
            again = True
        elif (
            (header.names[0] if name.startswith("\n") else name) in names
            and len(names) == len(header.names)
            and not any(map(NUMBER_PATTERN.fullmatch, names))
            and not (start == begin and _stands_over(header.names))
        ):
            line = data.count(b"\n", 0, start) + 1
            raise FormatError(
                f"{report.file}, line {line}: a second header with other columns than the first ({', '.join(names)}; "
                f"before: {', '.join(header.names)}). Split the file there, and read the parts."
            )
        at = stop
    return again


def _stands_over(names: Sequence[str]) -> bool:
    """Whether names can be those of groups of columns, of which a row below tells the events."""
    return len(set(names)) < len(names) and not any(normalise(n) in _AXES for n in names)


def _note_open_end(data: bytes, last: Column, report: Report) -> None:
    """Say where the last line has no end, as that of a file that was cut: digits of its last number may be missing."""
    if data.endswith((b"\n", b'"')) or len(last) < 2:
        return
    told = "the last line has no end; if the file was cut, digits of its last number are missing"
    values = as_float(last) if is_number(last) else np.array([len(c or "") for c in as_text(last)], dtype="float64")
    before = values[:-1][values[:-1] > 0]
    short = len(before) and values[-1] < (_CUT * before.min() if is_number(last) else before.min())
    report.note(f"caution: {told}: it is far smaller than all before it" if short else told)


def _perhaps_grouped(body: str, header: Header) -> bool:
    """Whether all points in the first rows' counts of time and work stand before three digits (``1.234``)."""
    axes = [i for i, name in enumerate(header.names) if normalise(name) in _AXES]
    rows = [cells_of(line, header.delimiter) for line in body.split("\n")[:_LOOKED_AT]]
    pointed = [row[i].strip() for row in rows for i in axes if i < len(row) and "." in row[i]]
    return bool(pointed) and all(_THREE_DECIMALS.fullmatch(cell) for cell in pointed)


def _matrix(data: bytes, begin: int, n_lines: int, header: Header, order: np.ndarray) -> np.ndarray | None:
    """Return all columns as rows of one array, in ``order``; None where a cell is not a plain number."""
    if len(data) - begin > _LARGE:
        from perfkit.readers.compiled import parse_numbers

        out = np.empty((len(header.names), n_lines))
        text = np.frombuffer(data, dtype="uint8", offset=begin)
        rows = parse_numbers(text, ord(header.delimiter), np.argsort(order), out)
        if rows >= 0:  # empty lines are no rows
            return out if rows == n_lines else np.ascontiguousarray(out[:, :rows])
    table = _arrow(memoryview(data)[begin:], header)
    if table is None or not all(is_number(c) for c in table.columns):
        return None
    return np.array([as_float(table.column(int(i))) for i in order])


def _lines_with_text(data: bytes, begin: int, first: int) -> list[int]:
    return [i for i, text in enumerate(data[begin:].split(b"\n"), first) if text.rstrip(b"\r")]


def _columns(body: bytes | memoryview, header: Header) -> tuple[Column, ...] | None:
    """Return all columns as Arrow reads them; None where a row has not as many fields as the header.

    Arrow takes every point for a decimal one. Beside numbers that it cannot read (``1.234.567``, ``1,5``), and
    where all points of cycles may group digits, columns with points are kept as they are written.
    """
    table = _arrow(body, header)
    if table is None:
        return None
    pointed = {name: pa.string() for name, c in zip(table.column_names, table.columns, strict=True) if is_floating(c)}
    foreign = (as_text(c.slice(0, _LOOKED_AT)) for c in table.columns if not is_number(c))
    odd = any(any(c and not c.isdecimal() for c in cells) and _mostly_numbers(cells) for cells in foreign)
    if pointed and (odd or _perhaps_grouped(bytes(body[: 1 << 16]).decode("utf-8", errors="replace"), header)):
        table = _arrow(body, header, pointed)
    return None if table is None else tuple(table.columns)


def _arrow(text: bytes | memoryview, header: Header, types: dict[str, pa.DataType] | None = None) -> pa.Table | None:
    try:
        return pc.read_csv(
            pa.BufferReader(arrow_buffer(text)),
            read_options=pc.ReadOptions(column_names=[str(i) for i in range(len(header.names))], block_size=_BLOCK),
            parse_options=pc.ParseOptions(delimiter=header.delimiter),
            convert_options=pc.ConvertOptions(
                null_values=[*MISSING, *NOT_THERE], strings_can_be_null=True, column_types=types
            ),
        )
    except pa.ArrowInvalid:
        return None


def _sound_rows(
    body: bytes, header: Header, ends: bool, report: Report
) -> tuple[list[bytes], list[int], tuple[int, ...]]:
    """Return the rows that have as many fields as the header, their lines, and where the header is repeated."""
    kept: list[bytes] = []
    lines: list[int] = []
    parts: list[int] = []
    order: list[int] | None = None  # of the fields, below a header in another order
    rows = body.split(b"\n")
    last = (
        header.line + 1 + max((i for i, row in enumerate(rows) if row.strip() and row.lstrip()[:1] != b"#"), default=0)
    )
    for number, raw in enumerate(rows, header.line + 1):
        text = raw.rstrip(b"\r").decode("utf-8")
        if not text.strip():
            continue
        fields = cells_of(text, header.delimiter)
        if fields[0].strip() in header.names and sorted(c.strip() for c in fields) == sorted(header.names):
            names = [c.strip() for c in fields]
            where = {n: [i for i, m in enumerate(names) if m == n] for n in names}
            order = None if tuple(names) == header.names else [where[n].pop(0) for n in header.names]
            parts.append(len(kept))
            report.describes(number)
            continue
        # Further up a comment may part two runs; and where rows begin so ("#1"), it is none.
        if number > last and len(fields) != len(header.names) and not any(r.startswith(b"#") for r in kept[:1]):
            report.left_out(number, "of comments below the rows, not read")
            if told := caution_of_scale([text]):
                report.note(told)
            continue
        if len(fields) != len(header.names):
            cut = number - header.line == len(rows) and not ends
            reason = f"expected {len(header.names)} fields as in the header, found {len(fields)}"
            shown = report.written(number) if report.written is not None else text
            report.problem(number, shown, f"the file ends in the middle of a row: {reason}" if cut else reason)
            continue
        if order is not None:
            raw = header.delimiter.join('"' + fields[i].replace('"', '""') + '"' for i in order).encode()
        kept.append(raw)
        lines.append(number)
    return kept, lines, tuple(parts)


# ------------------------------------------------------------------ cells


def is_number(column: Column) -> bool:
    """Whether a column was read as numbers, or as nothing at all."""
    if isinstance(column, np.ndarray):
        return True
    kind = column.type
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_null(kind))


def is_floating(column: Column) -> bool:
    """Whether Arrow read a column as numbers of which some have a point."""
    return not isinstance(column, np.ndarray) and bool(pa.types.is_floating(column.type))


def as_float(column: Column) -> np.ndarray:
    """Return a column of numbers as float64, with NaN where there is nothing."""
    if isinstance(column, np.ndarray):
        return column
    if pa.types.is_null(column.type):
        return np.full(len(column), np.nan)
    return np.asarray(column.to_numpy(), dtype="float64")


def as_text(column: Column) -> list[str | None]:
    """Return a column as text cell by cell; None where there is nothing."""
    if isinstance(column, np.ndarray):
        return [None if np.isnan(v) else f"{v:.15g}" for v in column]
    return [None if v is None else str(v).strip() or None for v in column.to_pylist()]


def numbers(grid: Grid, which: list[int], report: Report, *, counted: bool = False) -> dict[int, np.ndarray]:
    """Return those of the columns that hold numbers, as float64.

    Scales behind them (``1.2K``) are multiplied out where all columns are ``counted``, or time or work are so written:
    elsewhere they may be sizes, which are text. Grouped digits and decimal commas are settled by all cells of all
    columns together. A column with fewer numbers than other words is text and left out, but not one of time or
    work that has a digit; a word in a column of numbers, a negative or an infinite number is a problem.
    """
    out = {i: as_float(grid.columns[i]) for i in which if is_number(grid.columns[i])}
    cells = {i: as_text(grid.columns[i]) for i in which if i not in out}
    # Whoever groups digits does so in counts of time or work, too; elsewhere "128 128" is a shape.
    if any(c and BLANKS.fullmatch(c) for i in cells if counted or normalise(grid.names[i]) in _AXES for c in cells[i]):
        cells = {i: [c and (c.replace(" ", SPACES[1]) if BLANKS.fullmatch(c) else c) for c in cells[i]] for i in cells}
    factors = _undress(grid, cells, counted, report)
    cells = {
        i: c
        for i, c in cells.items()
        if (_mostly_numbers(c) and (_counts(grid, i) or not _all_pointed(c)))
        or (normalise(grid.names[i]) in _AXES and any(word and word[0].isdecimal() for word in c))
    }
    if cells:
        parsed = _parse(grid, cells, out, report)
        out |= {i: np.round(v * factors[i], 6) if i in factors else v for i, v in parsed.items()}
    return {i: counts(grid, i, values, report) for i, values in out.items()}


def counts(grid: Grid, i: int, values: np.ndarray, report: Report) -> np.ndarray:
    """Return the values of column ``i`` where they can be counts; negative and infinite ones are problems."""
    if np.fmin.reduce(values, initial=0.0) >= 0 and np.fmax.reduce(values, initial=0.0) < np.inf:
        return values
    wrong = (values < 0) | (values == np.inf)
    for row in np.flatnonzero(wrong).tolist():
        report.problem(grid.lines[row], f"{values[row]:g}", f"column {grid.names[i]}: expected a finite count >= 0")
    return np.where(wrong, np.nan, values)


def _undress(grid: Grid, cells: dict[int, list[str | None]], counted: bool, report: Report) -> dict[int, np.ndarray]:
    """Take scales and spreads off the numbers of columns that hold nothing else; return what each is multiplied by."""
    found = {i: [c and DRESSED.fullmatch(c) for c in column] for i, column in cells.items()}
    found = {
        i: matches
        for i, matches in found.items()
        if all(m is not None for m, c in zip(matches, cells[i], strict=True) if c is not None)
        and any(m and (m["scale"] or m["spread"]) for m in matches)
    }
    scaled = {i for i, matches in found.items() if any(m and m["scale"] for m in matches)}
    if not counted and not any(normalise(grid.names[i]) in _AXES for i in scaled):
        found = {i: m for i, m in found.items() if i not in scaled}
        scaled = set()
    spread = [i for i, matches in found.items() if any(m and m["spread"] for m in matches)]
    for which, what in (
        (scaled, "K, M, G or T behind them, multiplied out; as rounded as they were printed"),
        (spread, "their spread or share behind them, which is left out"),
    ):
        if which:
            report.note(f"numbers with {what}: {', '.join(grid.names[i] for i in sorted(which))}")
    for i, matches in found.items():
        cells[i] = [m and m["number"] for m in matches]
    return {i: np.array([SCALES[m["scale"] or ""] if m else 1.0 for m in found[i]]) for i in scaled}


def _mostly_numbers(cells: list[str | None]) -> bool:
    known = [c for c in cells if c is not None]
    return sum(NUMBER_PATTERN.fullmatch(c) is not None for c in known) * 2 > len(known)


def _all_pointed(cells: list[str | None]) -> bool:
    """Whether a column holds days, versions or addresses (``27.11.2026``) and no number."""
    return all(POINTED.fullmatch(c) for c in cells if c is not None)


def _refuse_mostly_wrong(
    grid: Grid,
    written: dict[int, list[str | None]],
    cells: dict[int, list[str | None]],
    bad: set[tuple[int, str]],
    report: Report,
) -> None:
    """Refuse a table in which most cells of a column are no numbers: what looks like one among them is none, either."""
    for i, column in cells.items():
        there = [(row, c) for row, c in enumerate(written[i]) if c is not None]
        wrong = [c for row, c in there if column[row] is None or (bad and (grid.lines[row], quoted(c)) in bad)]
        wrong = [c for c in wrong if any(map(str.isdigit, c))]  # a word ("not counted") says nothing of the others
        if 2 * len(wrong) > len(there):
            raise FormatError(
                f"{report.file}: {len(wrong):,} of {len(there):,} cells of column {grid.names[i]} are no decimal "
                f"numbers as the rest of the file writes them, such as {quoted(wrong[0])!r}; so its other cells "
                "are not to be trusted. Write numbers without units, hexadecimal ones with 0x, and one decimal sign"
            )


def _decimal_of_clocks(grid: Grid, cells: dict[int, list[str | None]]) -> str:
    """Return the decimal sign as columns of time prove it where large counts are written without groups, or ``""``.

    ``4.999`` in a column ``seconds`` beside ``4892301234`` is no four thousand: whoever groups digits groups those.
    """
    of_clocks = [c for i, column in cells.items() if _IN_SECONDS.search(grid.names[i]) for c in column if c is not None]
    grouped = [c for i, column in cells.items() if not is_name_of_clock(grid.names[i]) for c in column if c is not None]
    if any("," in c or "." in c for c in grouped):
        return ""  # they say it themselves, or are grouped
    signs = {sign for c in of_clocks for sign in ".," if sign in c}
    if len(signs) != 1 or any(sum(map(c.count, ".,")) > 1 for c in of_clocks):
        return ""
    return signs.pop() if any(map(_holds_large_ungrouped, grid.columns)) else ""


def _holds_large_ungrouped(column: Column) -> bool:
    if is_number(column):
        return bool(np.fmax.reduce(as_float(column), initial=0.0) >= _GROUPED_ABOVE)
    return any(c is not None and c.isdecimal() and float(c) >= _GROUPED_ABOVE for c in as_text(column))


def _groups_thousands(grid: Grid, cells: dict[int, list[str | None]], plain: dict[int, np.ndarray]) -> bool:
    """Whether commas within the cells of a table that commas separate group thousands, as its counts say together.

    Counts are whole, of time and work, too: each from 1000 on has a comma before three digits, and none below has one.
    """
    if grid.delimiter != "," or any(map(bears_scale, grid.names)):
        return False
    with_comma = {i: [c for c in column if c is not None and "," in c] for i, column in cells.items()}
    grouped = [c for each in with_comma.values() for c in each]
    named = {normalise(grid.names[i]) for i, each in with_comma.items() if each}
    axes = all(named & {*of} for of in (TIME_EVENTS, WORK_EVENTS))
    if not axes or len(grouped) < _FEWEST_GROUPED or not all(map(_THOUSANDS.fullmatch, grouped)):
        return False
    bare = [c for i, column in cells.items() if with_comma[i] or _counts(grid, i) for c in column if c and "," not in c]
    values = [*(float(c) if c.isdecimal() else np.inf for c in bare)]
    values += [v for i, column in plain.items() if _counts(grid, i) for v in column[np.isfinite(column)]]
    return len(values) > 0 and all(v < 1000 and v % 1 == 0 for v in values)


def _counts(grid: Grid, i: int) -> bool:
    return normalise(grid.names[i]) in _AXES or sounds_like_event(grid.names[i])


def _parse(
    grid: Grid, cells: dict[int, list[str | None]], plain: dict[int, np.ndarray], report: Report
) -> dict[int, np.ndarray]:
    tokens: list[Token] = []
    written = {i: list(column) for i, column in cells.items()}
    whole = _groups_thousands(grid, cells, plain)
    for i, column in cells.items():
        for row, cell in enumerate(column):
            if cell is not None and NUMBER_PATTERN.fullmatch(cell) is None:
                more = ", and no word or unit behind it" * (cell[0].isdecimal() and any(map(str.isalpha, cell)))
                report.problem(grid.lines[row], cell, f"expected a number in column {grid.names[i]}{more}")
                column[row] = None
            elif cell is not None and not cell.isdecimal():
                tokens.append(Token(cell, grid.lines[row], whole))
    # Columns that Arrow read as numbers prove the decimal point where they have fractions.
    points = any(np.any(v[np.isfinite(v)] % 1) for v in plain.values())
    before = len(report.rows)
    style = settle(tokens, report, decimal_sign="." if points else _decimal_of_clocks(grid, cells))
    bad = {(line, text) for _, line, text, _ in report.rows[before:]}
    _refuse_mostly_wrong(grid, written, cells, bad, report)
    if style.grouping or style.decimal != ".":
        report.note(f"numbers: {style.describe()}")
    return {
        i: np.array(
            [
                np.nan if c is None or (bad and (grid.lines[row], quoted(c)) in bad) else style.parse(c)
                for row, c in enumerate(column)
            ]
        )
        for i, column in cells.items()
    }
