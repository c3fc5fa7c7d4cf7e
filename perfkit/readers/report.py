"""What a reader finds on its way through a file: counts, lines it cannot use, and notes on what it left out."""

from dataclasses import dataclass, field

import pandas as pd

from perfkit.errors import FormatError
from perfkit.samples.table import no_problems

_SHOWN = 160


@dataclass
class Report:
    """Collects the problems and notes of one file, or raises at the first problem.

    Parameters
    ----------
    file : str
        The file's name, without folders.
    collect : bool
        Collect problems as rows instead of raising.
    """

    file: str
    collect: bool = False
    rows: list[tuple[str, int, str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def problem(self, line: int, text: str, reason: str) -> None:
        """Take down a line that cannot be used; raise FormatError with it unless problems are collected."""
        shown = text.rstrip("\r\n")
        shown = shown if len(shown) <= _SHOWN else shown[: _SHOWN - 4] + " ..."
        if not self.collect:
            where = f"{self.file}, line {line}" if line else self.file
            raise FormatError(
                f"{where}: {reason}. Found: {shown!r}. Mend the file, or read what can be read with errors='collect'."
            )
        self.rows.append((self.file, line, shown, reason))

    def note(self, text: str) -> None:
        """Take down what was left out or changed by design."""
        self.notes.append(f"{self.file}: {text}")

    def problems(self) -> pd.DataFrame:
        """Return the problems as a table: file, line, text, reason."""
        if not self.rows:
            return no_problems()
        return pd.DataFrame(self.rows, columns=["file", "line", "text", "reason"]).astype({"line": "int64"})


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
