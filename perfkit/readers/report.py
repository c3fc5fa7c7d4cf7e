"""What a reader finds on its way through a file: counts, lines it cannot use, and notes on what it left out.

Nothing is lost silently: a reader says of every line that is not blank whether it became counts, describes them, was
left out by design or cannot be used, and `Report.close` turns lines that nobody spoke of into problems.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from perfkit.errors import FormatError, counted
from perfkit.readers.open import Opened
from perfkit.samples.table import ACCOUNT_COLUMNS, no_problems

_SHOWN = 160
_QUOTED = 16 << 20
_COUNTS, _DESCRIBES, _LEFT_OUT, _WRONG = 1, 2, 3, 4
_PASSED_OVER = "the reader does not know what this line is"


@dataclass(frozen=True)
class Asked:
    """What the user said of a file: events that measure time or work, and whether its rows are running totals."""

    axes: frozenset[str] = frozenset()
    cumulative: bool | None = None


@dataclass
class Report:
    """Collects the problems and notes of one file, or raises at the first problem.

    Parameters
    ----------
    file : str
        The file's name, without folders.
    collect : bool
        Collect problems as rows instead of raising.
    asked : Asked
        What the user said of the file.
    """

    file: str
    collect: bool = False
    asked: "Asked" = field(default_factory=lambda: Asked())
    rows: list[tuple[str, int, str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    unit: str = "line"
    written: Callable[[int], str] | None = field(
        default=None, repr=False
    )  # a line of the file, where rows are rewritten
    dated: bool = False  # whether the times of the rows count from a date, so that the first row's length is unknown
    _said: list[tuple[int, "Iterable[int] | int"]] = field(default_factory=list)
    _left_out: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    _account: tuple[int, int, int, int] | None = None

    def problem(self, line: int, text: str, reason: str) -> None:
        """Take down a line that cannot be used; raise FormatError with it unless problems are collected."""
        shown = quoted(text)
        if not self.collect:
            where = f"{self.file}, line {line}" if line else self.file
            raise FormatError(
                f"{where}: {reason}. Found: {shown!r}. Fix the file, or read what can be read with errors='collect' "
                "(in a shell: perfkit samples or perfkit convert with --collect)."
            )
        self.rows.append((self.file, line, shown, reason))

    def note(self, text: str) -> None:
        """Take down what was left out or changed by design."""
        self.notes.append(f"{self.file}: {text}")

    def counts(self, lines: "Iterable[int] | int") -> None:
        """Say that these lines (1-based) became counts."""
        self._said.append((_COUNTS, lines))

    def describes(self, lines: "Iterable[int] | int") -> None:
        """Say that these lines describe the counts: headers, rules, what ran, how long it took."""
        self._said.append((_DESCRIBES, lines))

    def left_out(self, lines: "Iterable[int] | int", why: str, things: str = "lines") -> None:
        """Say that these lines are left out by design; ``why`` goes on after "N lines" in a note."""
        self._left_out.setdefault((things, why), []).extend([lines] if isinstance(lines, int) else lines)

    def document(self, total: int, counts: int, left_out: int, unit: str = "value") -> None:
        """Account for a file that is no sequence of lines: its values (or rows), those used and those left out."""
        self.unit = unit
        self._account = (total, counts, total - counts - left_out, left_out)

    def close(self, content: "Lines") -> None:
        """Write the notes of what was left out; lines that nobody spoke of are problems."""
        for (things, why), lines in self._left_out.items():
            self.note(f"{counted(len(set(lines)), things)} {why}")
        if self._account is not None:
            return
        status = np.zeros(content.n + 1, dtype="uint8")
        for what, said in [*self._said, *((_LEFT_OUT, lines) for lines in self._left_out.values())]:
            _mark(status, said, what)
        _mark(status, [line for _, line, _, _ in self.rows if line], _WRONG)
        for line in np.flatnonzero((status == 0) & content.there).tolist():
            self.problem(line, content.text_of(line), _PASSED_OVER)
            status[line] = _WRONG
        of = np.bincount(status[content.there], minlength=5)
        self._account = (int(content.there.sum()), int(of[_COUNTS]), int(of[_DESCRIBES]), int(of[_LEFT_OUT]))

    def accounting(self) -> tuple[str, str, int, int, int, int, int]:
        """Return a row of `Samples.accounting`; call `close` first."""
        if self._account is None:
            raise RuntimeError("the account is made by close()")
        total, counts, describes, left_out = self._account
        if self.unit != "line":
            return (self.file, self.unit, total, counts, describes, left_out, 0)
        return (self.file, self.unit, total, counts, describes, left_out, total - counts - describes - left_out)

    def problems(self) -> pd.DataFrame:
        """Return the problems as a table: file, line, text, reason."""
        if not self.rows:
            return no_problems()
        return pd.DataFrame(self.rows, columns=["file", "line", "text", "reason"]).astype({"line": "int64"})


def quoted(text: str) -> str:
    """Return a text as problems quote it: without a newline, and not longer than a line of a screen or two."""
    text = text.rstrip("\r\n")
    return text if len(text) <= _SHOWN else text[: _SHOWN - 4] + " ..."


class Lines:
    """The lines of a file: how many, and which of them are not blank (``there``, indexed by line from 1)."""

    def __init__(self, content: Opened) -> None:
        self.n, blank = content.blank_lines()
        self.there = np.ones(self.n + 1, dtype=bool)
        self.there[0] = False
        self.there[blank] = False
        # Readers of large tables take the text over; of small ones it is kept to quote from.
        self._text = content.data if len(content.data) <= _QUOTED else b""
        self._encoding = content.encoding

    def text_of(self, line: int) -> str:
        """Return the text of a line."""
        return self._text.decode(self._encoding).split("\n")[line - 1] if self._text else ""


def _mark(status: np.ndarray, lines: "Iterable[int] | int", what: int) -> None:
    if isinstance(lines, int):
        status[lines] = what
    elif isinstance(lines, range):
        status[lines.start : lines.stop : lines.step] = what
    else:
        status[np.fromiter(lines, dtype="int64")] = what


def account_table(rows: "list[tuple[str, str, int, int, int, int, int]]") -> pd.DataFrame:
    """Return accounts of files as a table."""
    return pd.DataFrame(rows, columns=list(ACCOUNT_COLUMNS))


@dataclass(frozen=True, eq=False)
class Dump:
    """What a reader makes of one file.

    ``counts`` has the columns run, event, count and as known place, interval, at, seconds and running; ``runs`` is what
    the file says of its runs (indexed by run, columns as in `Samples.runs` and others).
    ``prefer`` are the events that measure time and work in this format, where their names do not tell. ``axes`` are
    the time and work events where every sample brings its own; ``counts`` then has the columns time and work already.
    Axes of ``("", "")`` are those whose events the file does not name.
    """

    counts: pd.DataFrame
    runs: pd.DataFrame | None = None
    axes: tuple[str, str] | None = None
    prefer: tuple[str, str] | None = None

    def run_names(self) -> list[str]:
        """Return the names of the runs, in order of first appearance."""
        runs = self.counts["run"]
        if isinstance(runs.dtype, pd.CategoricalDtype):
            return [str(r) for r in runs.cat.categories]
        return [str(r) for r in pd.unique(runs)]
