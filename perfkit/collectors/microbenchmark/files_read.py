"""The files that a variant was made of, and those that a compiler would have taken instead, had they been there.

A row belongs to one state of them. What is noted is path -> SHA-256, and path -> "" of a file that was looked for
before the one that was found: a header that appears there later would make other rows of the same study.
"""

import functools
import hashlib
import itertools
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from perfkit.collectors.host import toolchain
from perfkit.collectors.microbenchmark.sources import NATIVE
from perfkit.errors import SettingError

LINKED = (".a", ".so", ".o")  # how names of what is linked, not compiled, end
FOLDER_FLAGS = ("-I", "-L", "-iquote", "-isystem", "-idirafter")
ENVIRONMENT = ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX")
"""Variables that name folders to compilers."""
_HANDED_ON = ("-Xassembler", "-Xlinker")  # the word behind is not the compiler's
_ASSEMBLED = re.compile(r"""\.(?:include|incbin)\s*\\?"([^"\\\n]+)\\?\"""")


_ASKED_WHETHER = re.compile(r"""__has_include(?:_next)?[ \t]*\([ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)""")
_CONDITION = re.compile(r"""^[ \t]*#[ \t]*(?:el)?if\b(?:[^\\\n]|\\.|\\\n)*""", re.MULTILINE)
_ASKED = re.compile(r"""^[ \t]*#[ \t]*(?:include|import)[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)""", re.MULTILINE)


@dataclass(frozen=True)
class Search:
    """Folders in which a compiler looks for headers, in its order.

    Parameters
    ----------
    quoted, angled : tuple of str
        Those for names in quotes alone, which come first, and those for all names.
    own : frozenset of str
        Which of these are the compiler's and the system's.
    """

    quoted: tuple[str, ...]
    angled: tuple[str, ...]
    own: frozenset[str]

    def is_own(self, path: str) -> bool:
        """Whether a header is the compiler's or the system's."""
        return any(path.startswith(folder + "/") for folder in self.own)

    def asked(self, text: str, folder: str) -> Iterator[tuple[str, list[str]]]:
        """Yield what each line of a text that asks for a header finds, and where it was looked for before."""
        for quoted, angled in _ASKED.findall(text):
            path, before = self._find(quoted, angled, folder)
            if path:
                yield path, before

    def asked_whether(self, text: str, folder: str) -> Iterator[str]:
        """Yield where a text's conditions ask in vain whether there is a header, and those that they find."""
        for condition in _CONDITION.findall(text):
            for quoted, angled in _ASKED_WHETHER.findall(condition):
                path, before = self._find(quoted, angled, folder)
                yield from [path] if path else before

    def _find(self, quoted: str, angled: str, folder: str) -> tuple[str, list[str]]:
        """Return what is found by a name, "" if nothing is, and where it was looked for before."""
        name = quoted or angled
        before: list[str] = []
        folders = [*([folder] if folder else []), *self.quoted] if quoted else []
        for one in (*folders, *self.angled):
            path = str(Path(one, name))
            if Path(path).is_file():
                return path, before
            before.append(path)
        return "", before

    def before(self, path: str, beside: Iterable[str]) -> Iterator[str]:
        """Yield where a header of which it is not known who asked for it may have been looked for before.

        Parameters
        ----------
        path : str
            As the compiler writes it: a folder of its search, and the name that was asked for.
        beside : iterable of str
            Further folders, of files that may ask.
        """
        first = () if path.startswith(tuple(folder + "/" for folder in self.own)) else (*beside, *self.quoted)
        folders = (*first, *self.angled)
        for place, folder in enumerate(folders):
            if path.startswith(folder + "/"):
                name = path[len(folder) + 1 :]
                yield from (f"{one}/{name}" for one in folders[:place] if one not in self.own)


@functools.lru_cache(maxsize=256)
def search_of(words: tuple[str, ...], cpp: bool) -> Search:
    """Ask a compiler, called by `words`, where it looks for headers."""
    kinds: dict[str, list[str]] = {name: [] for name in ("-iquote", "-I", "-isystem", "-idirafter")}
    after = ""
    plain = [word for before, word in itertools.pairwise(("", *words)) if before not in _HANDED_ON]
    for word in plain:
        joined = next((name for name in kinds if word.startswith(name) and word != name), "")
        if after or joined:
            kinds[after or joined].append(word.removeprefix(joined))
        after = word if word in kinds and not after else ""
    language = "c++" if cpp else "c"
    said = toolchain.run_tool([*words, "-E", "-v", "-x", language, "/dev/null"], timeout=60).stderr
    listed = re.findall(r"^ (/\S.*)$", said.partition("search starts here:")[2].partition("End of search")[0], re.M)
    everywhere = _folders_of("CPATH")
    by_language = _folders_of("CPLUS_INCLUDE_PATH" if cpp else "C_INCLUDE_PATH")
    given = [*kinds["-I"], *everywhere, *kinds["-isystem"], *by_language]
    known = {*kinds["-iquote"], *given, *kinds["-idirafter"]}
    own = [folder.rstrip("/") for folder in listed if folder not in known]
    angled = _absolute([*given, *own, *kinds["-idirafter"]])
    return Search(_absolute(kinds["-iquote"]), angled, frozenset(own))


def _absolute(folders: Iterable[str]) -> tuple[str, ...]:
    """Return folders once each; a relative one begins where compilers run, where nothing of the user's lies."""
    return tuple(dict.fromkeys(folder.rstrip("/") for folder in folders if folder.startswith("/")))


def _folders_of(variable: str) -> list[str]:
    return [folder for folder in os.environ.get(variable, "").split(os.pathsep) if folder]


_KNOWN: dict[tuple[tuple[str, ...], Path, Search, bool], tuple[dict[str, str], dict[str, str]]] = {}
_MOST_KNOWN = 256


def files_read(
    rules: Iterable[Path], place: Path, search: Search, assembled: bool
) -> tuple[dict[str, str], dict[str, str]]:
    """Return what a compiler and assembler read, by the rules they wrote for make: the user's files, their own headers.

    With the user's stand those that would have come before another, had they been there.

    Parameters
    ----------
    rules : iterable of Path
        Their files.
    place : Path
        Where they ran: what lies there, and perfkit's own headers, are not the user's.
    search : Search
        Where they look.
    assembled : bool
        Whether the assembler wrote a rule; else what it includes is looked for in the text of the others.
    """
    found: dict[str, None] = {}
    for rule in rules:
        text = rule.read_text(encoding="utf-8", errors="replace").replace("\\\n", " ")
        for word in re.findall(r"(?:[^\s\\]|\\.)+", text.partition(":")[2]):
            found[re.sub(r"\\(.)", r"\1", word).replace("$$", "$")] = None
    # The assembler's own source is a temporary file, gone by now.
    theirs = [path for path in found if path.startswith("/") and _state(path)]
    theirs = [path for path in theirs if not _is_within(path, NATIVE) and not _is_within(path, place)]
    asked = (tuple(theirs), place, search, assembled)
    known = _KNOWN.get(asked)
    if known and all(map(are_current, known)):
        return known
    if len(_KNOWN) > _MOST_KNOWN:
        _KNOWN.clear()
    _KNOWN[asked] = _with_before(theirs, place, search, assembled)
    return _KNOWN[asked]


def _with_before(
    theirs: list[str], place: Path, search: Search, assembled: bool
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the states of what was read, and of what would have come before it, as `files_read` does."""
    users = [path for path in theirs if not search.is_own(path)]
    texts = texts_of(place, users)
    if not assembled:
        more = list(_assembled(texts, search))
        theirs, users = [*theirs, *more], [*users, *more]
    before = _before(texts, theirs, place, search)
    whether = _whether(texts, place, search)
    users = [*users, *(path for path in sorted(whether) if _state(path) and path not in theirs)]
    theirs = list(dict.fromkeys([*theirs, *users]))
    absent = {path: "" for path in sorted(before | whether) if not _state(path)}
    states = {path: _state(path) for path in sorted(theirs)}
    return absent | {path: states[path] for path in users}, {path: states[path] for path in theirs if path not in users}


def texts_of(place: Path, users: Iterable[str]) -> list[str]:
    """Return the user's texts: the kernel, which lies where compilers run, and the files that it was found to need."""
    return [*map(str, (place / "kernel").glob("*")), *(path for path in users if _state(path))]


def _before(texts: Iterable[str], read: Iterable[str], place: Path, search: Search) -> set[str]:
    """Return where what was read was looked for before: as users' texts ask for it; of the rest, where it may be."""
    left, found = {os.path.normpath(path): path for path in read}, set()
    known = dict(left)
    for text in texts:
        folder = "" if _is_within(text, place) else str(Path(text).parent)
        for path, before in search.asked(Path(text).read_text(encoding="utf-8", errors="replace"), folder):
            if os.path.normpath(path) in known:
                found.update(before)
                left.pop(os.path.normpath(path), None)
    beside = dict.fromkeys(str(Path(text).parent) for text in texts if not _is_within(text, place))
    return found.union(*(search.before(path, beside) for path in left.values()))


def _whether(texts: Iterable[str], place: Path, search: Search) -> set[str]:
    """Return the user's headers that ``__has_include`` found, and where it looked in vain."""
    found: set[str] = set()
    for text in texts:
        folder = "" if _is_within(text, place) else str(Path(text).parent)
        found.update(search.asked_whether(Path(text).read_text(encoding="utf-8", errors="replace"), folder))
    return {path for path in found if not search.is_own(path) and not _is_within(path, NATIVE)}


def _assembled(texts: Sequence[str], search: Search) -> Iterator[str]:
    """Yield the files that assembly in some texts includes, and those that these include."""
    left, seen = list(texts), set(texts)
    while left:
        text = Path(left.pop()).read_text(encoding="utf-8", errors="replace")
        for name in _ASSEMBLED.findall(text):
            folders = (*search.quoted, *search.angled)
            paths = [name] if Path(name).is_absolute() else [f"{folder}/{name}" for folder in folders]
            path = next((path for path in paths if _state(path)), "")
            if path and path not in seen:
                seen.add(path)
                left.append(path)
                yield path


def _is_within(path: str, folder: Path) -> bool:
    return path.startswith(f"{folder}/")


def libraries(words: Sequence[str], last: Sequence[str]) -> dict[str, str]:
    """Return the user's libraries that are linked: those named by their files, and those in a folder of ``-L``."""
    folders = [Path(found) for found in re.findall(r"(?:^|\0)-L\0?([^\0]+)", "\0".join([*words, *last]))]
    found = [Path(word) for word in last if not word.startswith("-")]
    for name in (word[2:] for word in last if word.startswith("-l")):
        for path in (folder / f"lib{name}.{end}" for folder in folders for end in ("so", "a")):
            found.append(path)  # where there is none, one may appear
            if path.is_file():
                break
    return {str(path): _state(str(path)) for path in found}


def hash_of(path: str) -> str:
    """Return a file's SHA-256, or "" if it cannot be read."""
    try:
        with Path(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def are_current(files: Mapping[str, str]) -> bool:
    """Whether files are in the states that are noted of them."""
    return all(_state(path) == known for path, known in files.items())


def _state(path: str) -> str:
    """As `hash_of`; of a file that stays what it is, from memory."""
    try:
        found = os.stat(path)  # noqa: PTH116 -- some hundred for every variant
    except OSError:
        return ""
    return _hash_of_state(path, found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)


@functools.lru_cache(maxsize=1 << 14)
def _hash_of_state(path: str, *_state: int) -> str:
    return hash_of(path)


def files_of(noted: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return the files of any of some variants: path -> SHA-256, or "" where there must be none.

    Raises
    ------
    SettingError
        Two of them read different states of one file.
    """
    out: dict[str, str] = {}
    for files in {id(one): one for one in noted}.values():
        for path, found in files.items():
            if out.setdefault(path, found) != found:
                raise SettingError(
                    f"{path} has changed while the study was compiled: no more was measured; leave it as it is, and "
                    "run the study again"
                )
    return out
