"""``%load_ext perfkit``: the cell magics ``%%why``, ``%%gus`` and ``%%compare`` for C in a notebook.

Each compiles the cell and returns a result, which the notebook shows: nothing is printed.
"""

import shlex
from typing import Any

from perfkit.errors import SettingError

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
    kernel, arguments = _compiled(cell, asked)
    return why_kernel(kernel, *arguments, core=asked.get("core", "host"))


def gus(line: str, cell: str) -> Any:
    """Simulate the function of a C cell: ``%%gus -f solve --arguments "f8[1000], 1000" --core zen4``."""
    from perfkit.machine.core import Microarchitecture
    from perfkit.simulators.gus.gus import Gus

    asked = _asked(line)
    kernel, arguments = _compiled(cell, asked)
    return Gus(Microarchitecture.load(asked.get("core", "host"))).run(kernel.trace(*arguments))


def compare(line: str, cell: str) -> Any:
    """Compare two functions in C, a line ``// ---`` between them: ``%%compare --arguments "f8[1000], 1000"``."""
    from perfkit.collectors.host.compare import compare as compared

    asked = _asked(line)
    parts = [part for part in cell.split(f"\n{_APART}") if part.strip()]
    if len(parts) != 2:
        raise SettingError(f"%%compare takes two versions with a line {_APART!r} between them; found {len(parts)}")
    (a, arguments), (b, _) = (_compiled(part.partition("\n")[2] if k else part, asked) for k, part in enumerate(parts))
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


def _compiled(cell: str, asked: dict[str, str]) -> tuple[Any, list[Any]]:
    from perfkit.collectors.kernels import compile_kernel
    from perfkit.collectors.open_traces import kernel_arguments

    kernel = compile_kernel(
        cell.strip() + "\n", asked.get("function"), build=asked.get("build"), flags=asked.get("flags")
    )
    return kernel, kernel_arguments(asked.get("arguments", ""))
