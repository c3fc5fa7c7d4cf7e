"""``%load_ext perfkit``: the cell magics ``%%why``, ``%%gus`` and ``%%compare`` for C in a notebook.

Each compiles the cell and returns a result, which the notebook shows; what the result does not say itself is printed.
Arguments that are not given are made for the parameters' types, which is said. A user's mistake is one line, not the
way through this package that it took.
"""

import functools
import re
import shlex
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from perfkit.collectors.tracer.bounds import BeyondWarning
from perfkit.errors import PerfkitError, SettingError

_WORDS = {
    "-f": "function", "--function": "function", "--arguments": "arguments", "--flags": "flags", "--core": "core",
    "--build": "build",
}  # fmt: skip
_APART = "// ---"
_FILE = re.compile(r"\S*perfkit-kernel-[^/\s]*/kernel\.c\b")  # what the compiler calls the cell
_CHECKED = 1_000_000  # instructions of a comparison's functions that are looked at for accesses beside their arrays

Magic = Callable[[str, str], Any]


class CellError(PerfkitError):
    """A user's mistake in the line or the text of a cell."""

    def _render_traceback_(self) -> list[str]:
        """Return what IPython shows of it: its text alone."""
        return [str(self)]


def register(shell: Any) -> None:
    """Add the magics to an IPython shell."""
    for magic in (why, gus, compare):
        shell.register_magic_function(_told_in_a_line(magic), "cell", magic.__name__)


def _told_in_a_line(magic: Magic) -> Magic:
    """Return a magic that tells what is wrong with its line or its cell in one line."""

    @functools.wraps(magic)
    def called(line: str, cell: str) -> Any:
        try:
            return magic(line, cell)
        except (PerfkitError, FileNotFoundError) as error:
            raise CellError(f"%%{magic.__name__}: {_FILE.sub('the cell', str(error))}") from None

    return called


def why(line: str, cell: str) -> Any:
    """Say why the function of a C cell is slow: ``%%why -f solve --arguments "f8[1000], 1000"``."""
    from perfkit.diagnosis.kernel import why_kernel

    asked = _asked(line)
    kernel, arguments, notes = _compiled(cell, asked)
    _told(notes)
    found = why_kernel(kernel, *arguments, core=asked.get("core", "host"))
    return found.but(unseen=(*notes, *found.unseen))


def gus(line: str, cell: str) -> Any:
    """Simulate the function of a C cell: ``%%gus -f solve --arguments "f8[1000], 1000" --core zen4``."""
    from perfkit.machine.core import Microarchitecture
    from perfkit.simulators.gus.gus import Gus

    asked = _asked(line)
    kernel, arguments, notes = _compiled(cell, asked)
    with _warnings_told():
        trace = kernel.trace(*arguments, callees=True)
    _told((*notes, "a later call: this is the first, with empty caches (%%why explains a later one)"))
    return Gus(Microarchitecture.load(asked.get("core", "host"))).run(trace)


def compare(line: str, cell: str) -> Any:
    """Compare two functions in C, a line ``// ---`` between them: ``%%compare --arguments "f8[1000], 1000"``."""
    from perfkit.collectors.host.compare import compare as compared

    asked = _asked(line)
    parts = [part for part in cell.split(f"\n{_APART}") if part.strip()]
    if len(parts) != 2:
        raise SettingError(f"it takes two versions with a line {_APART!r} between them; found {len(parts)}")
    texts = (part.partition("\n")[2] if k else part for k, part in enumerate(parts))
    (a, arguments, notes), (b, *_) = (_compiled(text, asked) for text in texts)
    for kernel in (a, b):  # what lies beside an array would be compared, or end the process that measures
        try:
            with _warnings_told():
                kernel.trace(*arguments, limit=_CHECKED)
        except PerfkitError as error:  # what cannot be recorded may well be timed
            notes = (*notes, f"whether it accesses memory beside its arrays: {error}")
    _told(notes)
    return compared(a, b, *arguments)


def _asked(line: str) -> dict[str, str]:
    """Return a magic's options."""
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise SettingError(f"the line cannot be read ({error}): {line}") from error
    found: dict[str, str] = {}
    while words:
        word, equals, value = words.pop(0).partition("=")
        if equals:
            words.insert(0, value)
        if word not in _WORDS or not words:
            raise SettingError(f"expected options with a value each ({', '.join(_WORDS)}); found {word!r}")
        found[_WORDS[word]] = words.pop(0)
    return found


def _compiled(cell: str, asked: dict[str, str]) -> tuple[Any, list[Any], tuple[str, ...]]:
    """Return a cell's function, its arguments, and what is to be said of these."""
    from perfkit.collectors.kernels import compile_kernel
    from perfkit.diagnosis.sources import arguments_of

    kernel = compile_kernel(
        cell.strip() + "\n", asked.get("function"), build=asked.get("build"), flags=asked.get("flags")
    )
    return kernel, *arguments_of(kernel, asked.get("arguments", ""), 'with --arguments "f8[1000], 2.0, 1000"')


@contextmanager
def _warnings_told() -> Iterator[None]:
    """Print what is warned of in each run of a cell: Python shows a warning of one place once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for each in caught:
        print(f"{'BEWARE: ' * issubclass(each.category, BeyondWarning)}{each.message}")


def _told(notes: tuple[str, ...]) -> None:
    """Show what a result does not say itself."""
    for note in notes:
        print(f"not seen: {note}")
