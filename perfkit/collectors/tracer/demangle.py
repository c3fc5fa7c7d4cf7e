"""The names of C++, Rust and Fortran functions as their source writes them; C++'s and Rust's by ``c++filt``."""

import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping

_MANGLED = re.compile(r"_Z|_R[A-Z]|_R\d|__Z")
# numba's: which version of a function, and with which options it was compiled.
_NUMBA = re.compile(r"\[abi:v\d+\](?:\[abi:c\w+\])?")
# Of C++ and Rust, and what Rust links into every program.
_LIBRARIES = re.compile(
    r"(?:std|__gnu_cxx|core|alloc|hashbrown|compiler_builtins|miniz_oxide|gimli|addr2line|rustc_demangle)::"
)
_FORTRAN = re.compile(r"__([a-z]\w*)_MOD_(\w+)")  # gfortran's: module and procedure
_OF_FILE = re.compile(r"([^:()<>\s]+):(?!:)(.+)")


def parted(name: str) -> tuple[str, str]:
    """Return the source file that tells a function from others of its name, "" where there is none, and the rest.

    Examples
    --------
    >>> parted("grid.c:step"), parted("Grid::step")
    (('grid.c', 'step'), ('', 'Grid::step'))
    """
    found = _OF_FILE.fullmatch(name)
    return (found[1], found[2]) if found else ("", name)


def demangled(names: Iterable[str]) -> dict[str, str]:
    """Return the mangled ones among some symbols: symbol -> its name in the source, with the parameters' types.

    Those with a file in front (`parted`) are among them in any case, and keep it. Without ``c++filt`` there are only
    these, and those of Fortran's modules (``module::procedure``).
    """
    split = {name: parted(name) for name in names}
    plain = _demangled({rest for _, rest in split.values()})
    return {
        name: f"{file}:{plain.get(rest, rest)}" if file else plain[rest]
        for name, (file, rest) in split.items()
        if file or rest in plain
    }


def _demangled(names: Iterable[str]) -> dict[str, str]:
    modules = {name: f"{found[1]}::{found[2]}" for name in names if (found := _FORTRAN.match(name))}
    mangled = [name for name in names if _MANGLED.match(name)]
    program = shutil.which("c++filt")
    if not mangled or program is None:
        return modules
    text = "\n".join(mangled) + "\n"
    done = subprocess.run([program], input=text, capture_output=True, text=True, timeout=60, check=False)
    lines = done.stdout.splitlines()
    if done.returncode or len(lines) != len(mangled):
        return modules
    # Hashes in Rust's names say nothing to a person: at the end of the older ones, behind the crate in the newer.
    hashes = {True: r"(?<=\w)\[[0-9a-f]+\]", False: r"::h[0-9a-f]{16}$"}
    plain = (
        _NUMBA.sub("", re.sub(hashes[name.startswith("_R")], "", line))
        for name, line in zip(mangled, lines, strict=True)
    )
    return modules | {name: text for name, text in zip(mangled, plain, strict=True) if text != name}


def named_as(symbol: str) -> str:
    """Return a function's name as its source writes it, without parameters; the symbol where it is not mangled."""
    text = demangled([symbol]).get(symbol, symbol)
    return _before_parameters(text)[0] if text != symbol else symbol


def forms(name: str) -> tuple[str, ...]:
    """Return the ways in which a demangled name may be written, the most exact first.

    With its file, where it has one; whole; without a template's result type, without ``const`` at its end, without
    parameters, without a template's arguments, without those of all of its classes.

    Examples
    --------
    >>> forms("int app::sum<int>(int)")
    ('int app::sum<int>(int)', 'app::sum<int>(int)', 'app::sum<int>', 'app::sum')
    >>> forms("app::Table::total(int) const")
    ('app::Table::total(int) const', 'app::Table::total(int)', 'app::Table::total')
    >>> forms("app::Grid<double, 2>::step(double)")[2:]
    ('app::Grid::step',)
    """
    file, rest = parted(name)
    if file:
        plain = forms(rest)
        return (*(f"{file}:{form}" for form in plain), *plain)
    if " [clone " in name:  # a part or a variant of the function, not the function
        return (name,)
    head, tail = _before_parameters(name)
    bare = head[_last_space(head) + 1 :]
    found = [name, bare + tail, bare + tail[: tail.rfind(")") + 1], bare]
    if bare.endswith(">") and "operator" not in bare:
        found.append(bare[: _opening(bare, "<>")])
    if "<" in bare and "operator" not in bare and not bare.startswith("<"):
        found.append(_without_templates(bare))
    return tuple(dict.fromkeys(found))


def matching(name: str, known: Mapping[str, str]) -> list[str]:
    """Return the symbols of `known` (symbol -> demangled name) that a person means by `name`; spaces do not count.

    Where `name` is the whole name of some, these alone are meant.
    """
    wanted = _spaceless(name)
    near = {symbol: text for symbol, text in known.items() if wanted and wanted[:8] in _spaceless(text)}
    exact = [symbol for symbol, text in near.items() if _spaceless(text) == wanted]
    return exact or [symbol for symbol, text in near.items() if wanted in map(_spaceless, forms(text))]


def by_ending(name: str, known: Mapping[str, str], libraries: bool = False) -> list[str]:
    """Return the symbols of functions that a person means without naming their classes, modules or crates.

    `known` is as that of `matching`, which comes first. Those of the standard libraries only where that is asked for.

    Examples
    --------
    >>> by_ending("Solver::solve", {"a": "cfd::Solver<double>::solve(long)", "b": "std::Solver::solve()"})
    ['a']
    """
    wanted = f"::{_spaceless(name)}"
    first = re.split(r"\W", wanted[2:])[0]
    near = {symbol: text for symbol, text in known.items() if first in text}
    found = [symbol for symbol, text in near.items() if any(_spaceless(form).endswith(wanted) for form in forms(text))]
    return [symbol for symbol in found if libraries or not _is_library(known[symbol])]


def _is_library(text: str) -> bool:
    """Whether a function is a standard library's: of Rust's ``<type as trait>``, if neither of them is another's."""
    bare = forms(text)[-1]
    implemented = re.match(r"<(.+) as (.+)>::", bare)
    parts = implemented.groups() if implemented else (bare,)
    paths = [re.sub(r"^(?:[&*\[(<]|mut |const |dyn )+", "", part) for part in parts]
    return not any("::" in path and not _LIBRARIES.match(path) for path in paths)


def _without_templates(name: str) -> str:
    """Return a name without all that stands in angle brackets."""
    depth, kept = 0, []
    for letter in name:
        depth += letter == "<"
        kept.append(letter if not depth else "")
        depth -= letter == ">"
    return "".join(kept)


def _spaceless(text: str) -> str:
    return re.sub(r"\s+", "", text)


def _before_parameters(name: str) -> tuple[str, str]:
    """Cut a name where its parameters begin; the second part is "" where it has none."""
    end = re.search(r"\)(?: const| volatile| &&?)*$", name)
    if end is None:
        return name, ""
    at = _opening(name[: end.start() + 1], "()")
    head = name[:at]
    return (name, "") if not head or head.endswith(("::", "operator")) else (head, name[at:])


def _opening(text: str, pair: str) -> int:
    """Return where the bracket opens that the last letter closes."""
    depth = 0
    for at in range(len(text) - 1, -1, -1):
        depth += (text[at] == pair[1]) - (text[at] == pair[0])
        if depth == 0:
            return at
    return 0


def _last_space(head: str) -> int:
    """Return where a result type ends in front of a name; -1 where there is none."""
    if "operator" in head or head.startswith("<"):
        return -1
    depth = 0
    for at in range(len(head) - 1, -1, -1):
        depth += (head[at] in ">)}]") - (head[at] in "<({[")
        if head[at] == " " and depth == 0:
            return at
    return -1
