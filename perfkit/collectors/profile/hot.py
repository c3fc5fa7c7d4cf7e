"""The functions that a run spends its time in, by whichever way of watching works here."""

import math
import re
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from perfkit.base.results import Kind, Tabled, draw
from perfkit.collectors.profile.sampled import CodePlace, Sampled, Target, opened, total
from perfkit.collectors.profile.watched import said, watched
from perfkit.collectors.tracer.demangle import forms, parted
from perfkit.collectors.tracer.elf import ElfFile
from perfkit.collectors.tracer.stubs import stub_at
from perfkit.errors import DataError, MissingFileError, UnavailableError, of_extra
from perfkit.trace.system import STUB

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_ENOUGH, _MOST_RUNS, _FEW = 100, 20, 20
_HARDLY = 20_000_000  # instructions: a run that failed before so many has done no work; starting takes some
_OPENMP = re.compile(r"lib(gomp|omp5?|iomp5)([-.]|$)")  # libraries whose threads wait for others
_BLAS_WAITS = "blas_thread_server"  # where OpenBLAS's threads wait for work
SYSTEM = ("/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/", "/lib32/")
Say = Callable[[str], None]


def is_openmp(library: str) -> bool:
    """Return whether a library, by its file's name, is one of OpenMP's."""
    return _OPENMP.match(library) is not None


@dataclass(frozen=True)
class HotFunction:
    """A function, and how often the run was seen in it.

    Attributes
    ----------
    name : str
        As its source writes it, without parameters where that is unambiguous.
    symbol, path : str
        Its symbol and the file that holds it; an empty symbol is code that no symbol names.
    samples : int
        How often the run was seen in it (its callees not included).
    share : float
        Of all samples.
    threads, processes : int
        In how many threads of one process, at most, and in how many processes it was seen.
    by_thread : str
        Of several threads of a process, the samples of each in the order in which they were started, separated by
        spaces; empty where that is not known.
    thread : int
        In which thread it was seen most, counted in that order from 0 among all that were seen; -1 where that is not
        known.
    """

    name: str
    symbol: str
    path: str
    samples: int
    share: float
    threads: int
    processes: int
    by_thread: str = ""
    thread: int = -1

    @property
    def library(self) -> str:
        """The file's name."""
        return Path(self.path).name

    @property
    def is_system(self) -> bool:
        """Whether it lies in a library of the system, such as libc."""
        return self.path.startswith(SYSTEM) or not self.path.startswith("/")

    @property
    def only_waits(self) -> bool:
        """Whether threads of a library of threads wait for work in it, or for each other."""
        return is_openmp(self.library) or self.symbol == _BLAS_WAITS


@dataclass(frozen=True, eq=False, repr=False)
class Profile(Tabled):
    """Where a run spends its time (measured; by instructions executed where valgrind had to count).

    Attributes
    ----------
    table : DataFrame
        One row per function, the hottest first: function, symbol, file, samples, share, threads, processes, by_thread,
        thread.
    addresses : DataFrame
        One row per sampled address: file, address (as objdump prints it), samples, seconds (of user time since the
        process began, in the middle of these samples; nan where that is not known).
    program, method, unit, ended : str
        What ran; how it was watched; what is counted; how the run ended if not by itself with status 0.
    seconds : float
        How long it was watched, all runs together.
    runs : int
        How often it was run.
    why_not : tuple of str
        The ways of watching that did not work here, with why.

    Examples
    --------
    >>> print(pk.Profile.load("profile.parquet").summary())  # doctest: +SKIP
    """

    _rows: ClassVar[str] = "table"

    table: "pd.DataFrame"
    addresses: "pd.DataFrame"
    program: str
    method: str
    unit: str
    seconds: float
    ended: str = ""
    runs: int = 1
    why_not: tuple[str, ...] = ()

    @property
    def kind(self) -> Kind:
        """``"measured"``; counts of valgrind are simulated."""
        return "measured" if self.unit == "samples" else "simulated"

    @property
    def total(self) -> int:
        """All samples."""
        return int(self.table["samples"].sum())

    @property
    def functions(self) -> tuple[HotFunction, ...]:
        """The functions, the hottest first."""
        columns = ["function", "symbol", "file", "samples", "share", "threads", "processes", "by_thread", "thread"]
        later = {"by_thread": "", "thread": -1}  # older files lack these
        table = self.table.assign(**{name: none for name, none in later.items() if name not in self.table})
        return tuple(
            HotFunction(str(a), str(b), str(c), int(d), float(e), int(f), int(g), str(h), int(i))
            for a, b, c, d, e, f, g, h, i in table[columns].itertuples(index=False)
        )

    def to_frame(self) -> "pd.DataFrame":
        """Return one row per function, the hottest first."""
        return self.table.copy()

    def summary(self) -> str:
        """Say where the time goes."""
        runs = f" in {self.runs} runs" if self.runs > 1 else ""
        lines = [f"{self.total:,} {self.unit} of {self.program} in {self.seconds:.2f} s{runs} ({self.method})"]
        lines += [f"{each.share:6.1%}  {each.name}  ({each.library})" for each in self.functions[:5]]
        return "\n".join(lines + ([f"the run was {self.ended}"] if self.ended else []))

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the functions' shares as bars; return the axes."""
        return draw("profile:plot_profile", self, ax=ax)


def profile(target: Target, seconds: float = 3.0, *, say: Say | None = None) -> Profile:
    """Run a program and find where it spends its time.

    Parameters
    ----------
    target : Target
        The program.
    seconds : float
        Stop the run after so long; shorter runs are repeated until there are enough samples.
    say : callable, optional
        Called with what is being done.

    Raises
    ------
    UnavailableError
        No way of watching works here, with why not and what to install.
    DataError
        The program cannot be started, or fails before it has done any work.
    """
    from perfkit.collectors.profile import callgrind, perf, timer

    ways: list[tuple[str, Callable[[Target, float], Sampled]]] = [
        ("perf", perf.sample),
        ("profiling timer", timer.sample),
        ("valgrind", callgrind.sample),
    ]
    why_not: list[str] = []
    for name, sample in ways:
        if say is not None:
            say(f"running {target.subject.name} under {name}")
        try:
            found = _sampled(target, seconds, sample)
        except UnavailableError as error:
            why_not.append(f"{name}: {error}")
            continue
        return _named(target, found, tuple(why_not))
    raise UnavailableError(
        f"no way of finding the hot function of {target.subject.name} works here: {'; '.join(why_not)}. "
        "Install perf, a C compiler or valgrind, or name the function (-f)"
    )


def _sampled(target: Target, seconds: float, sample: Callable[[Target, float], Sampled]) -> Sampled:
    """Watch a run; watch it again where it was too short."""
    parts = [sample(target, seconds)]
    _check_worked(target, parts[0], seconds)
    if parts[0].unit == "samples":
        while (
            sum(p.total for p in parts) < _ENOUGH
            and not parts[-1].ended
            and len(parts) < _MOST_RUNS
            and sum(p.seconds for p in parts) < seconds / 2
        ):
            parts.append(sample(target, seconds))
    found = total(parts)
    if not found.total:
        raise UnavailableError(f"{found.method} saw nothing in {found.runs} runs of {found.seconds:.2f} s together")
    return found


def _check_worked(target: Target, run: Sampled, seconds: float) -> None:
    """Refuse a program that fails almost at once: its hottest function is that of starting up."""
    if not run.ended.startswith("ended ") or run.total >= (_FEW if run.unit == "samples" else _HARDLY):
        return
    plain = watched(target.words, seconds, target.stdin)  # was it the watching that failed?
    ended = said(plain, seconds)
    if not ended.startswith("ended "):
        return
    printed = plain.printed.strip()[-300:]
    raise DataError(
        f"{target.subject.name} {ended.replace('ended with', 'exited with').replace('ended by', 'was ended by')} "
        f"after {run.total:,} {run.unit} ({run.method}), before doing work that could be explained. Give it the words "
        f"and the input that it needs{f'. It printed: {printed}' if printed else ''}"
    )


def _named(target: Target, found: Sampled, why_not: tuple[str, ...]) -> Profile:
    """Return samples by function."""
    pd = of_extra("pandas")

    files: dict[str, ElfFile | None] = {}
    by_function: Counter[tuple[str, str]] = Counter()
    by_address: Counter[tuple[str, int]] = Counter()
    seen: dict[tuple[str, str], Counter[tuple[int, int]]] = {}
    for (where, pid, tid), count in found.places.items():
        key = (where.path, _symbol(where, files))
        by_function[key] += count
        by_address[where.path, where.address] += count
        seen.setdefault(key, Counter())[pid, tid] += count
    rows, order = [], _order(key for threads in seen.values() for key in threads)
    names = shown({key for key in by_function if key[1]}, files)
    for (path, symbol), count in by_function.most_common():
        pids = [pid for pid, _ in seen[path, symbol]]
        rows.append(
            {
                "function": names.get((path, symbol)) or (f"code of {path or 'no file'} without a symbol"),
                "symbol": symbol,
                "file": path,
                "samples": count,
                "share": count / found.total,
                "threads": max(Counter(pids).values()),
                "processes": -(-len(set(pids)) // found.runs),
                "by_thread": " ".join(map(str, _by_thread(seen[path, symbol]))),
                "thread": order[max(seen[path, symbol], key=lambda key: seen[path, symbol][key])],
            }
        )
    addresses = [
        {"file": path, "address": at, "samples": n, "seconds": _middle(found.moments.get(CodePlace(path, at), ()))}
        for (path, at), n in by_address.most_common()
    ]
    return Profile(
        pd.DataFrame(rows), pd.DataFrame(addresses), target.subject.name, found.method, found.unit, found.seconds,
        found.ended, found.runs, why_not,
    )  # fmt: skip


def _order(threads: Iterable[tuple[int, int]]) -> dict[tuple[int, int], int]:
    """Return the number of each thread (process, thread) in its process, in the order in which they were started."""
    found: dict[tuple[int, int], int] = {}
    begun: Counter[int] = Counter()
    for pid, tid in sorted(set(threads)):
        found[pid, tid] = begun[pid]
        begun[pid] += 1
    return found


def _by_thread(seen: Counter[tuple[int, int]]) -> list[int]:
    """Return the samples of each thread, by their order in each run; none of one thread, or of runs that differ."""
    runs: dict[int, list[int]] = {}
    for pid, tid in sorted(seen):
        runs.setdefault(pid, []).append(seen[pid, tid])
    if len({len(counts) for counts in runs.values()}) != 1 or len(next(iter(runs.values()))) < 2:
        return []
    return [sum(counts) for counts in zip(*runs.values(), strict=True)]


def _middle(moments: Sequence[float]) -> float:
    return statistics.median(moments) if moments else math.nan


def _symbol(where: CodePlace, files: dict[str, ElfFile | None]) -> str:
    elf = opened(where.path, files)
    if elf is None:
        return ""
    held = elf.function_at(where.address) or stub_at(elf, where.address)
    return held.name if held is not None else ""


def shown(symbols: set[tuple[str, str]], files: dict[str, ElfFile | None]) -> dict[tuple[str, str], str]:
    """Return the names that people use of symbols (file, symbol), without parameters where none is mistaken."""
    found: dict[tuple[str, str], str] = {}
    for path in {path for path, _ in symbols}:
        elf = opened(path, files)
        mine = [symbol for where, symbol in symbols if where == path]
        known = elf.demangled if elf is not None else {}
        text = "\n".join(known.values())
        for symbol in mine:
            whole = known.get(symbol, symbol)
            plain = _short(whole)
            # Large libraries have a hundred thousand names: only those that hold this one may be shortened to it.
            near = _lines_with(plain, text) if plain in whole else known.values()
            is_mistaken = symbol in known and sum(_short(each) == plain for each in near) > 1
            found[path, symbol] = whole if is_mistaken else plain
    return found


def _lines_with(words: str, text: str) -> Iterator[str]:
    """Yield the lines of a text that hold some words."""
    at = text.find(words)
    while at >= 0:
        end = text.find("\n", at)
        end = end if end >= 0 else len(text)
        yield text[text.rfind("\n", 0, at) + 1 : end]
        at = text.find(words, end)


def _short(name: str) -> str:
    """Return a demangled name with its template's arguments, without result and parameters."""
    file, rest = parted(name)
    if file:
        return f"{file}:{_short(rest)}"
    ways = forms(name)
    return next((way for way in reversed(ways) if not way.endswith(")") and ("<" in way) == ("<" in name)), ways[0])


def own(functions: Sequence[HotFunction], interpreter: Path | None = None) -> HotFunction | None:
    """Return the hottest function that is the program's own, of those that have a symbol; none of an interpreter's."""
    but = str(interpreter.resolve()) if interpreter else ""
    known = (each for each in functions if each.symbol and not each.symbol.endswith(STUB))
    mine = (each for each in known if not each.is_system and not each.only_waits)
    if interpreter is not None:
        mine = (each for each in mine if each.path != but and not each.library.startswith("libpython"))
    return next(mine, None)


def few(found: Profile) -> bool:
    """Whether there are too few samples to trust the order."""
    return found.unit == "samples" and too_few(found.total)


def too_few(samples: int) -> bool:
    """Whether so many samples (or counted instructions) are too few to trust the order of the functions."""
    return samples < _FEW


def check_program(target: Target) -> None:
    """Check that there is a program to run.

    Raises
    ------
    MissingFileError
        There is no such file.
    DataError
        It is none that can be run and traced.
    """
    import os

    if target.program.is_dir():
        raise DataError(f"expected a program; {str(target.program)!r} is a folder")
    if not target.program.is_file():
        raise MissingFileError(f"there is no program {str(target.program)!r}")
    if not _is_elf(target.program):
        if not os.access(target.program, os.X_OK) and target.program.read_bytes()[:2] != b"#!":
            empty = " is empty," if target.program.stat().st_size == 0 else " is"
            raise DataError(
                f"{target.program.name}{empty} no program (no ELF file); dumps of counters are for perfkit explore"
            )
        starts = _programs_named(target.program)
        raise DataError(
            f"{target.program.name} is not an ELF program; trace the program it starts: "
            + (", ".join(starts) if starts else "its text names none that lies here")
        )
    if not os.access(target.program, os.X_OK):
        raise DataError(f"{target.program.name} is not executable (chmod +x)")


def _is_elf(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(4) == b"\x7fELF"
    except OSError:
        return False


def _programs_named(script: Path) -> list[str]:
    """Return the ELF programs whose paths stand in a script's text, from here or from beside it."""
    import os
    import re

    words = re.findall(r"[\w./+-]+", script.read_bytes()[: 1 << 20].decode(errors="replace").partition("\n")[2])
    paths = [where / word for word in dict.fromkeys(words) if "/" in word for where in (Path.cwd(), script.parent)]
    return list(dict.fromkeys(str(p.resolve()) for p in paths if p.is_file() and os.access(p, os.X_OK) and _is_elf(p)))
