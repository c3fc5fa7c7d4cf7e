"""The function that a person means: by its name in the source, its symbol, its clones' parent, in whichever file."""

import difflib
from collections.abc import Iterable
from pathlib import Path

from perfkit.collectors.profile.hot import SYSTEM, HotFunction, Profile, shown
from perfkit.collectors.profile.sampled import Target, opened
from perfkit.collectors.tracer.demangle import by_ending, forms, matching, parted
from perfkit.collectors.tracer.elf import MOVED, ElfFile
from perfkit.diagnosis.words import brief
from perfkit.errors import DataError, listed

AS_ASKED = "as asked"
_TOLD = 5  # functions of one name that are named
_ALIKE, _VERY_ALIKE = 0.5, 0.75  # a system library has thousands of names: some are always a little alike


def named(asked: str, target: Target, found: Profile | None) -> tuple[HotFunction, str]:
    """Return the function that `asked` names: of those that ran the hottest, else one that the program has.

    Raises
    ------
    DataError
        There is none, with the nearest names; or several that did not run have the name.
    """
    library, _, name = asked.partition(":") if ".so" in asked.partition(":")[0] else ("", "", asked)
    seen = [each for each in (found.functions if found else ()) if each.symbol and _in(library, each.path)]
    meant = [each for each in seen if _is(name, each)]
    if meant:
        return meant[0], _as_asked(meant)
    # The profile names files by their real path.
    loaded = [Path(e.path).resolve() for e in seen if e.path.startswith("/")]
    files = list(dict.fromkeys([target.program.resolve(), *loaded]))
    if library:
        files = [path for path in files if _in(library, str(path))] or _given(library, target)
    known: dict[bool, dict[str, str]] = {True: {}, False: {}}  # the program's own names, those of the system
    kept: dict[str, ElfFile | None] = {}
    elves = {path: elf for path in files if (elf := opened(str(path), kept)) is not None}
    for path, elf in elves.items():
        if symbols := _exactly(name, elf):
            return _only(name, path, elf, symbols)
        names = known[not str(path).startswith(SYSTEM)]
        names |= {form: text for text in elf.demangled.values() for form in forms(text)}
        names |= {symbol: symbol for symbol in elf.functions if symbol not in elf.demangled}
    # Nothing is called so: what a person means without its classes or modules, first among what ran.
    mine = [each for each in seen if not each.is_system and not MOVED.search(each.symbol)]
    texts = {str(at): ElfFile(each.path).demangled.get(each.symbol, "") for at, each in enumerate(mine)}
    texts = {at: text.partition(" [clone ")[0] for at, text in texts.items()}
    for libraries in (False, True):
        if meant := [mine[int(at)] for at in by_ending(name, texts, libraries)]:
            return meant[0], _as_asked(meant)
        for path, elf in elves.items():
            if not str(path).startswith(SYSTEM) and (symbols := by_ending(name, elf.called, libraries)):
                return _only(name, path, elf, symbols)
    told = _nearest(name, known[True], _ALIKE) + _nearest(name, known[False], _ALIKE if library else _VERY_ALIKE)
    told = list(dict.fromkeys(told))[:5]
    hot = _list(brief(e.name) for e in sorted(seen, key=lambda e: e.is_system)[:5])
    raise DataError(
        f"no function {asked!r} in {_list(p.name for p in files) or library}"
        + (f"; nearest: {'; '.join(told)}. " if told else ". ")
        + (f"What ran most: {hot}. " if hot else "")
        + _why_not_there([elf for path, elf in elves.items() if library or _may_hold(path, target)])
    )


def _may_hold(path: Path, target: Target) -> bool:
    """Whether a file is the program's own: none of the system, and no interpreter."""
    return not str(path).startswith(SYSTEM) and not (target.script and path == target.program.resolve())


def _why_not_there(elves: Iterable[ElfFile]) -> str:
    """Say why a function may be missing from the files that it is looked for in."""
    stripped = [elf.path.name for elf in elves if elf.is_stripped and elf.debug_file is None]
    if stripped:
        return f"{listed(stripped)} was stripped, and has no names of such functions: build it without -s"
    return "If it should be there, the compiler inlined it into its caller"


def _as_asked(meant: list[HotFunction]) -> str:
    told = [f"{brief(e.name)} ({e.share:.1%} of the run)" for e in meant[1:]]
    others = listed(told, _TOLD)
    return f"{AS_ASKED}; the hottest of {len(meant)} of this name that ran, beside {others}" if told else AS_ASKED


def _exactly(name: str, elf: ElfFile) -> list[str]:
    return [name] if name in elf.functions else matching(name, elf.demangled) or _family(name, elf)


def _only(name: str, path: Path, elf: ElfFile, symbols: list[str]) -> tuple[HotFunction, str]:
    """Return the one function that some symbols stand for; DataError where they stand for several."""
    addresses = {elf.functions[symbol].address: symbol for symbol in symbols}
    if len(addresses) > 1:
        raise DataError(
            f"several functions of {path.name} are called {name!r}, and none was seen running; name one: "
            f"{_list(sorted(elf.demangled.get(s, s) for s in addresses.values()))}"
        )
    held = (str(path.resolve()), next(iter(addresses.values())))
    return HotFunction(shown({held}, {held[0]: elf})[held], held[1], held[0], 0, 0.0, 1, 1), (
        f"{AS_ASKED}; it was not seen running"
    )


def _nearest(name: str, names: dict[str, str], alike: float) -> list[str]:
    """Return the names most like one, then those that hold it."""
    near = difflib.get_close_matches(name, names, 5, alike)
    near += [other for other in sorted(names) if name.lower() in other.lower() and other not in near]
    return [names[one] for one in near]


def _is(name: str, each: HotFunction) -> bool:
    """Whether a function that ran is called so: also a clone, by the name of the function that it was made of."""
    if name in (each.symbol, each.name) or _parent(each.symbol) == name:
        return True
    elf = ElfFile(each.path)
    text = elf.demangled.get(each.symbol, "")
    return bool(text) and bool(matching(name, {each.symbol: text.partition(" [clone ")[0]}))


def _parent(symbol: str) -> str:
    """Return what a clone's or a part's symbol was made of; "" where it is none."""
    name, dot, _ = parted(symbol)[1].partition(".")
    return name if dot else ""


def _family(name: str, elf: ElfFile) -> list[str]:
    """Return the clones and parts (``f.constprop.0``, ``f._omp_fn.0``) of a function that is not there itself."""
    plain = [symbol for symbol in elf.functions if _parent(symbol) == name]
    clones = {s: text.partition(" [clone ")[0] for s, text in elf.demangled.items() if " [clone " in text}
    return [s for s in (plain or matching(name, clones)) if not MOVED.search(s)]


def _in(library: str, path: str) -> bool:
    """Whether a path is the library that was named: by its path, its name, or its name up to ``.so``."""
    return not library or path == library or Path(path).name == library or Path(path).name.startswith(f"{library}.")


def _given(library: str, target: Target) -> list[Path]:
    for path in (Path(library), target.program.parent / library):
        if path.is_file():
            return [path.absolute()]
    raise DataError(f"{target.program.name} was not seen running code of {library!r}, and there is no such file")


def _list(names: Iterable[str]) -> str:
    return ", ".join(names)
