"""Dimensions whose macros a kernel or header changes, so that a row is not what it says, or whose names it has too.

A preprocessor is asked only about a unit of which a text defines or undefines a dimension's name, for `#ifndef N` may
stand around it.
"""

import functools
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from perfkit.collectors.host import toolchain
from perfkit.study.study import text_without_comments

_SPACE = r"(?:[ \t]|\\\n|/\*.*?\*/)"
_CHANGES = re.compile(rf"^[ \t]*#{_SPACE}*(?:define|undef){_SPACE}+([A-Za-z_]\w*)", re.MULTILINE)
_RESTORED = re.compile(r'\bpop_macro\s*\(\s*\\?"(\w+)\\?"')
_MARKER = re.compile(r'# (\d+) "((?:[^"\\]|\\.)*)"((?: \d)*)')
_CHANGE = re.compile(r"#(define|undef) ([A-Za-z_]\w*)(.*)")
_SAID = re.compile(r"^(?P<file>[^:\n]+):(?P<line>\d+):\d+: (?P<kind>(?:fatal )?error|note): (?P<text>.*)$")
_EXPANDED = re.compile(r"(?:in expansion of|expanded from) macro '(\w+)'")
_NO_NAME = re.compile(  # what compilers say where a macro's value stands in place of a name
    r"expected (identifier|unqualified-id|member name|';', ',' or '\)'|',' or '\.\.\.'|'\)')|two or more data types"
    r"|cannot combine with|declaration does not declare|lvalue required|expression is not assignable"
)


def changed_in(names: Iterable[str], files: Mapping[str, str], kernel: Iterable[Path]) -> set[str]:
    """Return which of some names any of the files that were read defines or undefines, in any of its branches.

    Those that are restored are left out: preprocessors do not show what `pop_macro` brings back.
    """
    read = [_changes(path, state) for path, state in files.items() if state]
    read += [_changes_of(path.read_text(encoding="utf-8", errors="replace")) for path in kernel]
    changed = {name for one, _ in read for name in one}
    return changed.intersection(names) - {name for _, one in read for name in one}


@functools.lru_cache(maxsize=1 << 12)
def _changes(path: str, _state: str) -> tuple[frozenset[str], frozenset[str]]:
    return _changes_of(Path(path).read_text(encoding="utf-8", errors="replace"))


def _changes_of(text: str) -> tuple[frozenset[str], frozenset[str]]:
    return frozenset(_CHANGES.findall(text)), frozenset(_RESTORED.findall(text))


def complaint(words: Sequence[str], unit: str, given: str, names: Iterable[str], place: Path) -> str:
    """Return which dimension's macro a unit does not find as it was given, and where it was changed; "" if none.

    Parameters
    ----------
    words : sequence of str
        The compiler and its flags.
    unit, given : str
        The file that is compiled, and the one whose lines give the dimensions their values.
    names : iterable of str
        The dimensions to ask about.
    place : Path
        Where the compiler runs.
    """
    extra = [] if unit == given else ["-include", given]
    said = toolchain.run_tool([*words, *extra, "-E", "-dD", "-o", "-", unit], timeout=60, cwd=place)
    if said.returncode:
        return f"{unit} cannot be preprocessed alone (-E): {said.stderr[:300]}"
    lines = list(_placed(said.stdout.splitlines()))
    return next((fault for name in sorted(names) if (fault := _fault(lines, name, given, place))), "")


_Line = tuple[str, int, bool, str]
"""A file, a line of it, whether it is the user's, and what the preprocessor left of it."""


def _placed(lines: Iterable[str]) -> Iterator[_Line]:
    """Yield the lines of a preprocessed unit, in which directives stand, with the place of each."""
    file, line, users = "", 0, True
    for text in lines:
        if marker := _MARKER.match(text):
            file, line, users = marker[2], int(marker[1]), "3" not in marker[3]
        else:
            yield file, line, users, text
            line += 1


def _fault(lines: Sequence[_Line], name: str, given: str, place: Path) -> str:
    """Follow one macro through a preprocessed unit."""
    value: str | None = None  # as it was given
    changes = [(at, found) for at, line in enumerate(lines) if (found := _CHANGE.match(line[3])) and found[2] == name]
    ends = [at for at, _ in changes[1:]] + [len(lines)]
    for (at, change), end in zip(changes, ends, strict=True):
        file, line, _, _ = lines[at]
        now = " ".join(change[3].split())
        if value is None:
            value = now if Path(file).name == given and change[1] == "define" else None
            continue
        if change[1] == "define" and now == value:
            continue
        if change[1] == "undef" and not _is_named(lines[at + 1 : end + 1], name, place):
            continue
        done = f"defined as {now or 'nothing'}" if change[1] == "define" else "undefined before it is used"
        return (
            f"the dimension {name} is {value} in this row, and is {done} in {Path(file).name}, line {line}: take that "
            f"out, or put it between #ifndef {name} and #endif"
        )
    return ""


def _is_named(lines: Iterable[_Line], name: str, place: Path) -> bool:
    """Whether the user's text between the first and the last of some lines names something, in code or conditions."""
    spans: dict[str, tuple[int, int]] = {}
    for file, line, users, _ in lines:
        if users:
            first, last = spans.get(file, (line, line))
            spans[file] = min(first, line), max(last, line)
    for file, (first, last) in spans.items():
        if (place / file).is_file():
            text = (place / file).read_text(encoding="utf-8", errors="replace")
            code = text_without_comments("\n".join(text.splitlines()[first - 1 : last]))
            if re.search(rf"^(?![ \t]*#[ \t]*(?:undef|define)[ \t]+{name}\b).*\b{name}\b", code, re.MULTILINE):
                return True
    return False


def named_otherwise(said: str, macros: Mapping[str, str], key: str) -> str:
    """Return a complaint where a compiler's first error is that a dimension's name stands for something else, or "".

    Parameters
    ----------
    said : str
        What gcc or clang said.
    macros : mapping
        The dimensions' names and values.
    key : str
        Of the files that define them: their names without the ending.
    """
    lines = said.splitlines()
    found = [(at, match) for at, line in enumerate(lines) if (match := _SAID.match(line))]
    first = next((number for number, (_, match) in enumerate(found) if match["kind"] != "note"), len(found))
    if first == len(found) or not _NO_NAME.match(found[first][1]["text"]):
        return ""
    at, error = found[first]
    notes = itertools.takewhile(lambda match: match["kind"] == "note", (match for _, match in found[first + 1 :]))
    expanded = ((note, macro[1]) for note in notes if (macro := _EXPANDED.match(note["text"])))
    note, name = next(((note, macro) for note, macro in expanded if macro in macros), (error, ""))
    where = next((one for one in (error, note) if Path(one["file"]).stem != key), None)
    if not name and where is None:  # gcc says nothing more of what stands in a header of its own or the system's
        name = dict(enumerate(macros, 1)).get(int(error["line"]), "")
    elif not name:  # assigned to: gcc says no macro then
        code = lines[at + 1] if at + 1 < len(lines) else ""
        name = next((one for one in macros if re.search(rf"\b{one}\s*([-+*/%&|^]?=[^=]|\+\+|--)", code)), "")
    if not name:
        return ""
    place = f"{Path(where['file']).name}, line {where['line']}," if where else "a header of the system"
    return (
        f"the dimension {name} is a macro ({macros[name]} in this row), and {place} has {name} for something else "
        f"({error['text']}): rename the dimension" + (f", or what the kernel calls {name}" if where else "")
    )


def of_dimensions(said: str, macros: Mapping[str, str], key: str) -> str:
    """Name the dimension in place of the line, of a file of perfkit's, that defines it."""
    names = dict(enumerate(macros, 1))

    def named(place: re.Match[str]) -> str:
        name = names.get(int(place[1]), "")
        return f"the dimension {name} ({macros[name]} in this row): " if name else place[0]

    return re.sub(rf"^{re.escape(key)}\.\w+:(\d+):\d+: ", named, said, flags=re.MULTILINE)
