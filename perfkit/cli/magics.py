"""``%load_ext perfkit``: the cell magics ``%%why``, ``%%gus`` and ``%%compare`` for C in a notebook.

Each compiles the cell and returns a result, which the notebook shows: nothing is printed. Arguments that are not given
are made for the parameters' types, which is said.
"""

import shlex
import warnings
from typing import Any

from perfkit.errors import PerfkitWarning, SettingError

_WORDS = {
    "-f": "function", "--function": "function", "--arguments": "arguments", "--flags": "flags", "--core": "core",
    "--build": "build",
}  # fmt: skip
_APART = "// ---"


def register(shell: Any) -> None:
    """Add the magics to an IPython shell."""
    for magic in (why, gus, compare):
        shell.register_magic_function(magic, "cell", magic.__name__)


def why(line: str, cell: str) -> Any:
    """Say why the function of a C cell is slow: ``%%why -f solve --arguments "f8[1000], 1000"``."""
    from perfkit.diagnosis.kernel import why_kernel

    asked = _asked(line)
    kernel, arguments, notes = _compiled(cell, asked)
    found = why_kernel(kernel, *arguments, core=asked.get("core", "host"))
    return found.but(unseen=(*notes, *found.unseen))


def gus(line: str, cell: str) -> Any:
    """Simulate the function of a C cell: ``%%gus -f solve --arguments "f8[1000], 1000" --core zen4``."""
    from perfkit.machine.core import Microarchitecture
    from perfkit.simulators.gus.gus import Gus

    asked = _asked(line)
    kernel, arguments, notes = _compiled(cell, asked)
    _told(notes)
    return Gus(Microarchitecture.load(asked.get("core", "host"))).run(kernel.trace(*arguments))


def compare(line: str, cell: str) -> Any:
    """Compare two functions in C, a line ``// ---`` between them: ``%%compare --arguments "f8[1000], 1000"``."""
    from perfkit.collectors.host.compare import compare as compared

    asked = _asked(line)
    parts = [part for part in cell.split(f"\n{_APART}") if part.strip()]
    if len(parts) != 2:
        raise SettingError(f"%%compare takes two versions with a line {_APART!r} between them; found {len(parts)}")
    texts = (part.partition("\n")[2] if k else part for k, part in enumerate(parts))
    (a, arguments, notes), (b, *_) = (_compiled(text, asked) for text in texts)
    _told(notes)
    return compared(a, b, *arguments)


def _asked(line: str) -> dict[str, str]:
    """Return a magic's options."""
    words = shlex.split(line)
    found: dict[str, str] = {}
    while words:
        word = words.pop(0)
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


def _told(notes: tuple[str, ...]) -> None:
    """Show what a result does not say itself."""
    for note in notes:
        warnings.warn(f"not seen: {note}", PerfkitWarning, stacklevel=3)
