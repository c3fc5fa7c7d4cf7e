"""Compile variants, each a shared object of its own, and check what came out.

Only what all variants begin with in the same way, the kernel's leading system headers, is compiled once (gcc's
precompiled headers, which gcc itself refuses where a variant's macros could change them).
"""

import functools
import hashlib
import itertools
import json
import re
import shlex
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from perfkit.base.files import replaced
from perfkit.collectors.host import toolchain
from perfkit.collectors.host.osaca import osaca
from perfkit.collectors.microbenchmark import redefined
from perfkit.collectors.microbenchmark.code_kind import Code, kind_of_code
from perfkit.collectors.microbenchmark.files_read import (
    FOLDER_FLAGS,
    LINKED,
    are_current,
    files_read,
    libraries,
    search_of,
    texts_of,
)
from perfkit.collectors.microbenchmark.not_flushed import data_sizes, not_flushed
from perfkit.collectors.microbenchmark.sources import (
    EMPTY_REGION,
    LOOP,
    NATIVE,
    PREFIX,
    Variant,
    is_cpp,
    kernel_name,
    leading_includes,
    region_unit,
    variant,
)
from perfkit.errors import DataError, UnavailableError
from perfkit.study.parts import EMPTY, Configuration
from perfkit.study.study import Study, mangled, text_without_comments

_TIME_LIMIT = 300.0
_WORTH_PRECOMPILING = 3  # variants
_REGISTER = re.compile(r"%(?!rip)\w+")
# Hidden, so that what a kernel calls is bound, and may be inlined, as in a program of its own.
_ASSEMBLERS = dict.fromkeys(("-fno-integrated-as", "-no-integrated-as"), True)
_ASSEMBLERS |= dict.fromkeys(("-fintegrated-as", "-integrated-as"), False)
"""Clang's flags that choose an assembler: whether it is GNU's."""
_RULES_TO = ("-MF", "-MT", "-MQ", "-MJ")  # a word follows
_RUST = (
    "{}: `compilers` are those that take gcc's options (gcc, g++, clang, gfortran), and rustc takes others. Have it "
    'make a static library (rustc --crate-type staticlib -O; its functions are `#[no_mangle] pub extern "C"`), name '
    "that in `libraries`, and call its functions in a kernel in C"
)
_NO_OBJECT = (
    "with the flags {!r} no shared object is made, of which a study needs one for each row: leave out what has the "
    "compiler stop before it (-E, -S, -c, -fsyntax-only, --version and the like)"
)
_PK_BEGIN = re.compile(r"\bPK_BEGIN\b")
_NO_SINKING = ["-mllvm", "-instcombine-code-sinking=0"]  # clang's
_SHARED = ("-fPIC", "-fvisibility=hidden")
# What a program's start, and its own calls of exit, come to first (window.c).
_WRAPPED = ("-Wl,--wrap=main", "-Wl,--wrap=exit")
_LACKS_MAIN = re.compile(r"undefined (?:reference to|symbol:?) [`']?(?:__real_)?main\b")
_NO_MAIN = "the sources have neither a region (PK_REGION) nor a main()"


@dataclass(frozen=True)
class Batch:
    """Variants that share a study, a compiler and its flags: one task for a processor."""

    study: Study
    compiler: str
    flags: str
    variants: tuple[Variant, ...]

    @property
    def place(self) -> str:
        """The folder of the objects: a hash of all that they share."""
        parts = [self.compiler, self.flags, self.study.fingerprint(), self.study.folder]
        parts += [_version_or_nothing(self.compiler), (NATIVE / "perfkit.h").read_text(encoding="utf-8"), LOOP]
        parts += _staying(self)
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:20]


@dataclass(frozen=True)
class Built:
    """What compiling gave for one variant.

    Parameters
    ----------
    key : str
        Of the configuration.
    object : str
        The shared object; "" if there is none.
    message : str
        Why there is none, or what is to be known of it.
    static : dict
        The static columns.
    files : dict
        The files that were read beside the kernel (headers, sources, libraries): path -> SHA-256, or "" of one that
        would have come before another, had it been there.
    own : dict
        The same of headers of the compiler and the system.
    marks : bool
        Whether marks of what is to be timed stand in it: ``PK_BEGIN`` in a region, calls of ``pk_start`` in a program.
    code : Code
        What kind of code is timed.
    """

    key: str
    object: str = ""
    message: str = ""
    static: dict[str, float] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    own: dict[str, str] = field(default_factory=dict)
    marks: bool = False
    code: Code = Code.ANY

    @property
    def failed(self) -> bool:
        """Whether there is no object."""
        return not self.object


def compile_batch(batch: Batch, folder: Path) -> list[Built]:
    """Compile a batch into `folder` and check what came out; never raises for a variant's fault.

    A variant counts as failed if its region lacks the instructions that were asked for, or is empty although it is not
    without optimisation: the compiler removed the work. One that is empty for its dimensions' values is only told.

    Raises
    ------
    DataError
        If there is no room left for the objects.
    """
    try:
        toolchain.find_tool(batch.compiler)
    except UnavailableError as error:
        return [Built(one.key, message=str(error)) for one in batch.variants]
    if toolchain.version(batch.compiler).startswith("rustc "):
        return [Built(one.key, message=_RUST.format(batch.compiler)) for one in batch.variants]
    place = folder / batch.place
    _prepare(batch, place)
    messages = {}
    for one in batch.variants:
        messages[one.key] = _compile(batch, one, place)
    good = [one for one in batch.variants if not messages[one.key]]
    checked = {one.key: one for one in _inspect(batch, good, place)}
    failed = {key: Built(key, message=f"{batch.compiler}: {text}") for key, text in messages.items() if text}
    return [failed.get(one.key) or checked[one.key] for one in batch.variants]


# -- one variant -------------------------------------------------------------------------------------------------------


def _prepare(batch: Batch, place: Path) -> None:
    """Write what all variants share."""
    study = batch.study
    try:
        (place / "kernel").mkdir(parents=True, exist_ok=True)
        _write_shared(place / "kernel" / kernel_name(study), study.source or "")
        features, includes = leading_includes(study.source or "")
        _write_shared(place / PREFIX, f'{features}#include "perfkit.h"\n{includes}')
    except OSError as error:
        raise DataError(f"cannot write to {place}: {error.strerror}") from None
    header = place / f"{PREFIX}.gch"
    if header.exists() and _is_noted(PREFIX, place):
        return
    header.unlink(missing_ok=True)  # of headers that have changed since: compilers would take it
    if study.is_program or study.assembly is not None:
        return
    if len(batch.variants) < _WORTH_PRECOMPILING or toolchain.compiler_kind(batch.compiler) != "gcc":
        return
    partial = f"{hashlib.sha256(batch.variants[0].key.encode()).hexdigest()[:12]}.partial.gch"
    language = f"{study.language}-header"
    words = _compile_words(batch)
    done = _run([*words, "-MD", "-MF", f"{partial}.d", "-x", language, PREFIX, "-o", partial], place)
    if not done and (place / partial).exists():  # where it fails, every variant says why
        search = search_of(tuple(words), study.language == "c++")
        _keep_noted(PREFIX, place, *files_read([place / f"{partial}.d"], place, search, assembled=True))
        (place / partial).rename(header)


def _write_shared(path: Path, text: str) -> None:
    """Write a file that compilers of other tasks may be reading: it never is empty, or there in part."""
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return
    with replaced(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _compile(batch: Batch, one: Variant, place: Path) -> str:
    """Compile a variant, naming the object only when it is whole; returns the compiler's complaint or ""."""
    done, partial = place / _made(batch.study, one.key), f"{one.key}.partial"
    if done.exists() and _is_noted(one.key, place):
        return ""
    study = batch.study
    (place / f"{one.key}.h").write_text(one.macros, encoding="utf-8")
    main = _main_file(batch, one)
    if main:
        # The macros stand in the file itself: after `-include`, gcc takes no precompiled header.
        (place / main).write_text(one.macros + one.unit, encoding="utf-8")
    words, last = _compile_words(batch), _link_words(batch, one)
    if study.is_program:
        message = _compile_program(batch, one, place, partial)
    elif not one.sources:
        wanted = [*_noting(batch, one.key), "-shared", "-o", partial, main]
        message = _run([*words, *wanted, *last], place, one)
    else:
        message, objects = _compile_sources(batch, one, place, words)
        message = message or _run([*words, "-shared", "-o", partial, *objects, *last], place)
    if message:
        return message + _asked_wrongly(message, study)
    if not _is_linked(place / partial, study.is_program):
        return _NO_OBJECT.format(batch.flags)
    if taken := _note_files(batch, one, place, libraries(words, last)) or _redefined(batch, one, place, words):
        return taken
    (place / partial).rename(done)
    return ""


def _made(study: Study, key: str) -> str:
    """Return the name of the file that a variant becomes: a shared object, or an executable of a program's own."""
    return f"{key}{'' if study.is_program else '.so'}"


def _is_linked(path: Path, program: bool) -> bool:
    """Whether a compiler made what it should: some flags have it stop before, or write something else."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        start = file.read(18)
    return start[:4] == b"\x7fELF" and (start[16:] == b"\3\0" or (program and start[16:] == b"\2\0"))


def _redefined(batch: Batch, one: Variant, place: Path, words: Sequence[str]) -> str:
    """Return a complaint where a kernel or header defines or undefines a dimension's macro itself, or ""."""
    users, own = _files_noted(one.key, place)
    kernel = () if batch.study.assembly is not None else (place / "kernel").glob("*")
    names = redefined.changed_in(_macros(one), users | own, kernel)
    main = _main_file(batch, one)
    for unit in (main, *one.sources) if names else ():
        if unit and (told := redefined.complaint(words, unit, main if unit == main else f"{one.key}.h", names, place)):
            return told
    return ""


def _macros(one: Variant) -> dict[str, str]:
    return dict(re.findall(r"^#define (\w+) (.*)$", one.macros, re.MULTILINE))


def _asked_wrongly(message: str, study: Study) -> str:
    """Say what to do about a header that was not found though it is near, and about marks outside of a region."""
    lost = re.search(r"fatal error: ([^:\n]+): No such file", message)  # clang says so itself
    if lost and any(Path(folder, lost[1]).is_file() for folder in _kernel_folders(study)):
        return (
            f'\n{lost[1]} lies beside the kernel: ask for it in quotes ("{lost[1]}"), or name its folder in `include`'
        )
    if re.search(r"'pk' (undeclared|was not declared)|undeclared identifier 'pk'", message):
        if study.is_program:
            return (
                "\npk is a region's: whole programs mark what is timed by pk_start() and pk_stop(), and report nothing"
            )
        return (
            "\nPK_BEGIN, PK_END and PK_REPORT use the region's pk: give it to a function of yours that they stand in "
            "(a parameter `pk_context *pk`)"
        )
    return ""


def _noting(batch: Batch, name: str) -> list[str]:
    """Return the words that have the compiler, and gcc's assembler, write which files they read."""
    words = ["-MD", "-MF", f"{name}.d"]
    return [*words, f"-Wa,--MD,{name}.as.d"] if _has_gnu_assembler(batch) else words


def _has_gnu_assembler(batch: Batch) -> bool:
    """Whether a compiler hands its assembly to the assembler of GNU, as gcc always does."""
    said = [word for word in _split(batch.flags) if word in _ASSEMBLERS]
    return toolchain.compiler_kind(batch.compiler) == "gcc" or bool(said and _ASSEMBLERS[said[-1]])


def _note_files(batch: Batch, one: Variant, place: Path, linked: dict[str, str]) -> str:
    """Keep the states of the files that an object was made of: once for all the variants in which they are the same.

    Returns a complaint, or "": gcc's own <limits.h> looks for the C library's where quoted names are looked for, too.
    """
    cpp = batch.study.language == "c++" or any(is_cpp(name) for name in one.sources)
    search = search_of(tuple(_compile_words(batch)), cpp)
    users, own = files_read(_rules(one, place), place, search, _has_gnu_assembler(batch))
    if (place / f"{PREFIX}.gch").exists():  # what it was made of, and in which state, only its own rule says
        before = _files_noted(PREFIX, place)
        users, own = users | before[0], own | before[1]
    _keep_noted(one.key, place, users | linked, own)
    aside = {f"{folder}/limits.h" for folder in search.quoted if folder not in search.angled}
    limits = [path for path, state in users.items() if state and path in aside]
    if not limits or any('"limits.h"' in Path(path).read_text(errors="replace") for path in texts_of(place, users)):
        return ""
    return f"{limits[0]} would be taken for the system's <limits.h>: name it otherwise, or name its folder in `include`"


def _rules(one: Variant, place: Path) -> list[Path]:
    """Return the files in which compiler and assembler wrote what a variant was made of."""
    stems = [one.key, *(f"{one.key}.{number}" for number in range(len(one.sources) + 1))]
    names = (place / f"{stem}{end}" for stem in stems for end in (".d", ".as.d"))
    return [path for path in names if path.is_file()]


def _keep_noted(name: str, place: Path, users: Mapping[str, str], own: Mapping[str, str]) -> None:
    """Keep the states of the files that something was made of: once for all that share them."""
    text = json.dumps([users, own])
    shared = f"{hashlib.sha256(text.encode()).hexdigest()[:20]}.files.json"
    if not (place / shared).is_file():
        _write_shared(place / shared, text)
    (place / f"{name}.files").write_text(shared, encoding="utf-8")


def _compile_sources(batch: Batch, one: Variant, place: Path, words: Sequence[str]) -> tuple[str, list[str]]:
    files = [name for name in (_main_file(batch, one), *one.sources) if name]
    objects = []
    for number, name in enumerate(files):
        if not (place / name).is_file():
            return f"no source file {name}", []
        made = f"{one.key}.{number}.o"
        macros = [] if name == _main_file(batch, one) else ["-include", f"{one.key}.h"]
        wanted = [*macros, *_noting(batch, f"{one.key}.{number}"), "-c", "-o", made, name]
        message = _run([*words, *wanted], place, one)
        if message:
            return message, []
        objects.append(made)
    return "", objects


def _compile_program(batch: Batch, one: Variant, place: Path, partial: str) -> str:
    """Make an executable as a program's user would, with what runs its main() as a window; keep its command line."""
    words = _compile_words(batch)
    message, objects = _compile_sources(batch, one, place, words)
    if message:
        return message
    (place / f"{one.key}.words").write_bytes(b"".join(f"{word}\0".encode() for word in ("program", *one.arguments)))
    if batch.study.region is not None:
        (place / f"{one.key}.region.c").write_text(region_unit(batch.study.region), encoding="utf-8")
        objects.append(f"{one.key}.region.o")
        message = _run([_c_compiler(), "-O1", "-w", "-c", "-o", objects[-1], f"{one.key}.region.c"], place)
    objects.append(build_window(place).name)
    message = message or _run([*words, "-o", partial, *objects, *_WRAPPED, *_link_words(batch, one)], place)
    return _NO_MAIN if _LACKS_MAIN.search(message) else _explained(batch.study, message)


def _explained(study: Study, text: str) -> str:
    """Say of a function of the region that the program lacks what its name may be."""
    lost = re.search(r"undefined (?:reference to|symbol:?) [`']?(?:__real_)?(\w+)", text)
    if not lost or lost[1] not in (study.region or ()):
        return text
    return (
        f"undefined symbol: {lost[1]} (a function of `region` has the name that linkers see, which nm shows: "
        f"{mangled(lost[1])} in C++)"
    )


def _main_file(batch: Batch, one: Variant) -> str:
    if not one.unit:
        return ""
    return f"{one.key}{'.cpp' if batch.study.language == 'c++' else '.c'}"


def _compile_words(batch: Batch) -> list[str]:
    """Return the compiler, its flags (split as a shell would, without running one) and where headers lie."""
    study = batch.study
    extra = toolchain.vectorization_flags(batch.compiler) if "vectorization" in study.static else []
    flags = [word for word in _without_rules(_split(batch.flags)) if not word.startswith("-l")]
    flags = _from_folder(flags, study.folder)
    # What stands in quotes is looked for beside the kernel first, as a compiler does: its text is compiled elsewhere.
    # What stands in angle brackets is the system's where it has such a header: a limits.h beside the kernel is not.
    beside = _kernel_folders(study)
    folders = [f"-I{Path(study.folder, name)}" for name in study.include]
    last = ["-idirafter", str(NATIVE)]
    for name in beside if _has_gnu_assembler(batch) else ():  # clang's own knows the quoted
        last += ["-Xassembler", "-I", "-Xassembler", name]
    quoted = [word for name in beside for word in ("-iquote", name)]
    shared = () if study.is_program else _SHARED
    return [batch.compiler, "-w", *shared, *_staying(batch), *quoted, *flags, *extra, *folders, *last]


def _staying(batch: Batch) -> list[str]:
    """Return the flags without which compilers move calls out from between PK_BEGIN and PK_END, over memory clobbers.

    gcc finds out of a function that it depends on its arguments alone; both move what only a branch needs into it.
    """
    if batch.study.is_program or not _PK_BEGIN.search(text_without_comments(batch.study.source or "")):
        return []
    if toolchain.compiler_kind(batch.compiler) == "gcc":
        return ["-fno-ipa-pure-const", "-fno-tree-sink"]
    return _NO_SINKING if _takes(batch.compiler, tuple(_NO_SINKING)) else []


@functools.lru_cache(maxsize=16)
def _takes(compiler: str, words: tuple[str, ...]) -> bool:
    return not _run([compiler, *words, "-fsyntax-only", "-x", "c", "/dev/null"], Path("/"))


def _kernel_folders(study: Study) -> list[str]:
    """Return the folder of a study's kernel, and its own."""
    if not study.folder:
        return []
    return list(dict.fromkeys((str(Path(study.folder, study.beside)), study.folder)))


@functools.lru_cache(maxsize=64)
def _split(flags: str) -> tuple[str, ...]:
    return tuple(shlex.split(flags))


def _without_rules(flags: Sequence[str]) -> list[str]:
    """Take out of compiler flags those that write rules for make, elsewhere or fewer than `_noting` asks for."""
    out, before = [], ""
    for word in flags:
        if before not in _RULES_TO and not re.fullmatch(r"-M.*|-Wp,-M.*|--(write-)?(user-)?dependencies", word):
            out.append(word)
        before = word
    return out


def _from_folder(flags: Sequence[str], folder: str) -> list[str]:
    """Have the relative folders among compiler flags start at the study's folder: compilers run elsewhere."""
    out: list[str] = []
    for word in flags:
        if not folder:
            out.append(word)
        elif out and out[-1] in FOLDER_FLAGS:
            out.append(str(Path(folder, word)))
        elif found := re.fullmatch(r"(-[IL])([^=].*)", word):
            out.append(found[1] + str(Path(folder, found[2])))
        else:
            out.append(word)
    return out


def _link_words(batch: Batch, one: Variant) -> list[str]:
    """Return the libraries, which linkers want after what uses them."""
    study = batch.study
    words = [f"-Wl,--wrap={name}" for name in study.region or ()] if study.is_program else ["-Wl,-Bsymbolic"]
    for name in study.libraries:
        if name.startswith("-"):
            words.append(name)
        elif "/" in name or name.endswith(LINKED):
            path = Path(study.folder, name)
            words += [str(path), f"-Wl,-rpath,{path.parent}"] if path.suffix == ".so" else [str(path)]
        else:
            words.append(f"-l{name}")
    words += [word for word in _split(batch.flags) if word.startswith("-l")]
    cpp = study.language == "c++" or any(is_cpp(name) for name in one.sources)
    if cpp and not batch.compiler.endswith("++"):
        words.append("-lstdc++")
    return words


def _run(words: Sequence[str], place: Path, one: Variant | None = None) -> str:
    """Run the compiler, on a variant's own sources if it is given; returns its complaint or ""."""
    try:
        done = toolchain.run_tool(words, timeout=_TIME_LIMIT, cwd=place)
    except UnavailableError as error:
        return str(error)
    if done.returncode == 0:
        return ""
    if "No space left on device" in done.stderr:
        raise DataError(f"no space left on the disk of {place}: make room, and the study resumes")
    said = done.stderr
    if one is not None:
        if taken := redefined.named_otherwise(said, _macros(one), one.key):
            return taken
        said = redefined.of_dimensions(said, _macros(one), one.key)
    return shortened(said) or f"exit status {done.returncode} without a message"


# -- what came out -----------------------------------------------------------------------------------------------------


def _inspect(batch: Batch, good: Sequence[Variant], place: Path) -> list[Built]:
    """Check every variant's region by disassembly and collect the static columns."""
    study = batch.study
    objects = [place / _made(study, one.key) for one in good]
    found = dict(zip((one.key for one in good), map(_own, toolchain.disassemble_all(objects)), strict=True))
    start = "main" if study.is_program else "pk_run"
    regions = {key: toolchain.region(functions, start) for key, functions in found.items()}
    loops = {key: _without_places(toolchain.hottest_loop(region)) for key, region in regions.items()}
    figures = toolchain.mca(loops) if "mca" in study.static and loops else {}
    more = osaca(loops) if "osaca" in study.static and loops else {}
    records = _records(place) if "vectorization" in study.static else {}
    kernel = not study.is_program and study.assembly is None
    empty = _empty(batch, place) if kernel and good else None
    own = dict(zip(found, data_sizes(objects), strict=True)) if kernel and study.cache == "cold" else {}
    out = []
    for one in good:
        lacking = toolchain.missing_instructions(itertools.chain(*regions[one.key]), dict(one.expect))
        if lacking:
            message = f"the compiled region lacks what was asked for ({lacking}): use PK_KEEP on what it computes"
            out.append(Built(one.key, message=message))
            continue
        note = ""
        if empty and _code(found[one.key]) == empty:
            if _was_removed(batch, one, place):
                message = (
                    "the compiled region is empty: the compiler removed all of it; use PK_KEEP on what it computes"
                )
                out.append(Built(one.key, message=message))
                continue
            note = EMPTY
        elif empty and _only_constants(_code(found[one.key]), empty) and _branches(batch, one, place):
            note = (
                "the compiler worked out the region's loop beforehand: only constants are left of it, and the time is "
                "not the loop's; use PK_KEEP on what it computes from"
            )
        elif one.key in own:
            note = not_flushed(found[one.key], regions[one.key], own[one.key])
        static: dict[str, float] = {}
        if "mix" in study.static:
            static |= toolchain.instruction_mix(loops[one.key])
        static |= figures.get(one.key, {}) | more.get(one.key, {})
        if "vectorization" in study.static:
            static |= _vectorized(records.get(one.key, ()), whole=study.is_program)
        (files, theirs), marks = _files_noted(one.key, place), _has_marks(study, place, one.key, found[one.key])
        if study.is_program and not study.region and not marks and _mentions_start(study, files):
            note = "all of main() was timed: pk_start() stands in the sources, and is not called in what was compiled"
        code = Code.ANY if study.is_program else kind_of_code(regions[one.key], marks)
        out.append(Built(one.key, str(place / _made(study, one.key)), note, static, files, theirs, marks, code))
    return out


def _own(functions: Mapping[str, tuple[toolchain.Disassembled, ...]]) -> dict[str, tuple[toolchain.Disassembled, ...]]:
    """Leave out the functions of window.c."""
    return {name: lines for name, lines in functions.items() if not name.startswith(_OURS)}


def _has_marks(
    study: Study, place: Path, key: str, functions: Mapping[str, tuple[toolchain.Disassembled, ...]]
) -> bool:
    """Whether an object holds PK_BEGIN's note, or a program refers to pk_start() (of a stripped one, its parts do)."""
    if not study.is_program:
        return b"perfkit: a region has PK_BEGIN\0" in (place / f"{key}.so").read_bytes()
    if "main" in functions:
        return any(line.refers == "pk_start" for lines in functions.values() for line in lines)
    return any(b"\0pk_start\0" in path.read_bytes() for path in place.glob(f"{key}.*.o"))


def _mentions_start(study: Study, files: Mapping[str, str]) -> bool:
    """Whether the code of a program, or of the user's files that it consists of, names ``pk_start``."""
    theirs = {path: state for path, state in files.items() if state and not path.endswith((*LINKED, "/perfkit.h"))}
    return _names_start(study.source or "") or any(_file_names_start(*one) for one in theirs.items())


@functools.lru_cache(maxsize=16)
def _names_start(text: str) -> bool:
    return re.search(r"\b(pk_start|PK_START)\b", text_without_comments(text)) is not None


@functools.lru_cache(maxsize=1 << 12)
def _file_names_start(path: str, _state: str) -> bool:
    return _names_start(Path(path).read_text(encoding="utf-8", errors="replace"))


def _without_places(loop: Sequence[toolchain.Disassembled]) -> tuple[toolchain.Disassembled, ...]:
    """Leave out the no-ops in whose place fences go (perfkit.h)."""
    return tuple(line for line in loop if (line.mnemonic, line.operands) != ("nopl", "(%rax)"))


def _empty(batch: Batch, place: Path, *more: str) -> list[tuple[str, str]]:
    """Return the code of an empty region as this compiler and these flags make it."""
    done = place / f"empty{''.join(more)}.so"
    suffix = ".cpp" if batch.study.language == "c++" else ".c"
    if not done.exists():
        partial = f"empty-{batch.variants[0].key}"
        (place / f"{partial}{suffix}").write_text(EMPTY_REGION, encoding="utf-8")
        words = [*_compile_words(batch), *more, "-shared", "-o", f"{partial}.partial", f"{partial}{suffix}"]
        if _run([*words, *_link_words(batch, batch.variants[0])], place):
            return []
        (place / f"{partial}.partial").rename(done)
    return _code(toolchain.disassemble_all([done])[0])


def _only_constants(code: Sequence[tuple[str, str]], empty: Sequence[tuple[str, str]]) -> bool:
    """Whether a region does no more than an empty one, beside setting registers to constants."""
    more = _whatever_register(code) - _whatever_register(empty)
    constant = r"(\$\S+|\S*\(%rip\)|%R)(,\s*%R)+"  # to a register: a number, what lies beside the code, a register
    return bool(more) and all(
        re.fullmatch(r"v?(mov|pxor|xor)\w*", name) and re.fullmatch(constant, operands) for name, operands in more
    )


def _whatever_register(code: Sequence[tuple[str, str]]) -> Counter[tuple[str, str]]:
    """Count instructions, where those that differ in registers alone are alike; ``(%rip)`` stays."""

    def shape(name: str, operands: str) -> str:
        if "xor" in name and len(set(_REGISTER.findall(operands))) > 1:
            return operands  # of two registers: no constant
        return _REGISTER.sub("%R", operands)

    return Counter((name, shape(name, operands)) for name, operands in code)


def _branches(batch: Batch, one: Variant, place: Path) -> bool:
    """Whether the region as it is written has more branches than an empty one: its loops, were they not optimised."""
    plain = _plain(batch, one, place)
    jumps = [sum(name.startswith("j") for name, _ in code) for code in (plain or [], _empty(batch, place, "-O0"))]
    return jumps[0] > jumps[1]


def _plain(batch: Batch, one: Variant, place: Path) -> list[tuple[str, str]] | None:
    """Return the region's code without optimisation; None where that does not compile."""
    plain = place / f"{one.key}.plain.so"
    words = [*_compile_words(batch), "-O0", "-shared", "-o", plain.name]
    if _run([*words, _main_file(batch, one), *_link_words(batch, one)], place):
        return None
    return _code(toolchain.disassemble_all([plain])[0])


def _was_removed(batch: Batch, one: Variant, place: Path) -> bool:
    """Whether a region that is empty when optimised is not without: it is not the preprocessor that emptied it."""
    plain = _plain(batch, one, place)
    return plain is None or _work(plain) != _work(_empty(batch, place, "-O0"))


def _work(code: Sequence[tuple[str, str]]) -> Counter[str]:
    """Count the mnemonics beside those that only lay out the stack: unreachable code still declares its variables."""
    frame = ("push", "pop", "leave")
    return Counter(name for name, operands in code if name not in frame and not operands.endswith("%rsp"))


def _code(functions: Mapping[str, Sequence[toolchain.Disassembled]]) -> list[tuple[str, str]]:
    """Return a region's function without its addresses and padding."""
    lines = functions.get("pk_run", ())
    return [
        (line.mnemonic, re.sub(r"[0-9a-f]+ <[^>]*>", "", line.operands))
        for line in lines
        if not line.mnemonic.startswith("nop") and line.operands != "%ax,%ax"
    ]


def _records(place: Path) -> dict[str, list[Path]]:
    """Return the optimisation records that compilers left, by the variant's key: thousands lie there, listed once."""
    out: dict[str, list[Path]] = {}
    for path in sorted(place.iterdir()):
        if path.name.endswith(toolchain.RECORDS):
            out.setdefault(path.name.partition(".")[0], []).append(path)
    return out


def _vectorized(paths: Iterable[Path], whole: bool) -> dict[str, float]:
    records = toolchain.vectorization(paths)
    nothing = {"vectorized_loops": 0.0, "vectorized_bytes": 0.0}
    if not whole:
        return next((records[name] for name in ("pk_run", "pk_region") if name in records), nothing)
    for row in records.values():
        nothing["vectorized_loops"] += row["vectorized_loops"]
        nothing["vectorized_bytes"] = max(nothing["vectorized_bytes"], row["vectorized_bytes"])
    return nothing


def _files_noted(key: str, place: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Return what `files_read` found when something was compiled; the same for the variants that share it."""
    return _noted(place / (place / f"{key}.files").read_text(encoding="utf-8"))


@functools.lru_cache(maxsize=1 << 10)
def _noted(path: Path) -> tuple[dict[str, str], dict[str, str]]:
    users, own = json.loads(path.read_text(encoding="utf-8"))
    return users, own


def _is_noted(key: str, place: Path) -> bool:
    """Whether the files that something was made of are noted, and still what they were."""
    return (place / f"{key}.files").is_file() and all(map(are_current, _files_noted(key, place)))


def batches_of(study: Study, todo: Sequence[tuple[Configuration, str]], size: int) -> Iterator[Batch]:
    """Cut configurations into batches of one compiler and its flags, of at most `size` variants."""
    groups: dict[tuple[str, str], list[Variant]] = {}
    for one, key in todo:
        groups.setdefault((one.compiler, one.flags), []).append(variant(study, one, key))
    for (compiler, flags), variants in groups.items():
        for at in range(0, len(variants), size):
            yield Batch(study, compiler, flags, tuple(variants[at : at + size]))


# -- the measuring process ---------------------------------------------------------------------------------------------


_HARNESSES: dict[str, bytes] = {}
"""The measuring processes, and what programs are linked with, that were compiled in this process, by their names."""
_HOST = Path(toolchain.__file__).parent
_RENAMED = "pk_own_"
_OURS = (_RENAMED, "pk_start", "pk_stop", "__wrap_main", "__wrap_exit")


def build_window(folder: Path) -> Path:
    """Put what runs a program's main() as a window (window.c) into `folder`; UnavailableError without a C compiler.

    Its own functions get names that no program has: of two of one name, disassembly would tell as one.
    """
    sources = [NATIVE / name for name in ("window.c", "marks.h", "system.h", "clock.h", "perfkit.h")]
    done = folder / f"window-{_version([*sources, _HOST / 'clock_step.h'])}.o"
    if done.name not in _HARNESSES:
        with tempfile.TemporaryDirectory() as made:
            plain, names = Path(made, "window.o"), Path(made, "names")
            # Of no C library: a copy is written out, nothing checked, and what is called of it known from the start.
            alone = ("-fno-builtin", "-fno-tree-loop-distribute-patterns", "-fno-stack-protector", "-fno-plt")
            words = [_c_compiler(), "-O2", "-fPIE", *alone, f"-I{NATIVE}", f"-I{_HOST}", "-c", "-o", str(plain)]
            _compile_harness([*words, str(sources[0])], folder)
            listed = _told_by(["nm", str(plain)])
            own = re.findall(r"^[0-9a-f]+ [bdrt] (\w\S*)$", listed, re.MULTILINE)
            names.write_text("".join(f"{name} {_RENAMED}{name}\n" for name in own), encoding="utf-8")
            # Of pages that it shared, the program would not be the first to touch them.
            apart = ["--rename-section", f".bss={_RENAMED}data", "--set-section-alignment", ".bss=4096"]
            kept = re.findall(r" (\.rodata\S*) ", _told_by(["objdump", "-h", str(plain)]))
            for (
                name
            ) in kept:  # what it reads lies beside its code: the first to read a program's constants is the program
                apart += ["--rename-section", f"{name}={_RENAMED}code,alloc,load,readonly,code,contents"]
            _told_by(["objcopy", f"--redefine-syms={names}", *apart, str(plain)])
            _HARNESSES[done.name] = plain.read_bytes()
    if not done.is_file():
        with replaced(done) as temporary:
            temporary.write_bytes(_HARNESSES[done.name])
    return done


def _version(sources: Sequence[Path]) -> str:
    text = "".join(path.read_text(encoding="utf-8") for path in sources)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _told_by(words: Sequence[str]) -> str:
    done = toolchain.run_tool(words)
    if done.returncode:
        raise UnavailableError(f"cannot build what programs are linked with: {words[0]}: {done.stderr.strip()[:200]}")
    return done.stdout


def build_harness(folder: Path) -> Path:
    """Put the measuring process into `folder`; raises UnavailableError without a C compiler.

    It is compiled once in this process: that takes as long as all the rest of a study of a few rows.
    """
    sources = [
        *(
            NATIVE / name
            for name in ("measure.c", "clock.h", "marks.h", "program.h", "system.h", "kinds.h", "rare.h", "perfkit.h")
        ),
        *(_HOST / name for name in ("clock_step.h", "elsewhere.h")),
    ]
    program = folder / f"measure-{_version(sources)}"
    if program.exists():
        return program
    partial = program.with_suffix(".partial")
    # -rdynamic: programs that mark their region call functions of the measuring process, whose own calls wait for none.
    words = [
        _c_compiler(),
        "-O2",
        "-rdynamic",
        "-Wl,-z,now",
        f"-I{NATIVE}",
        f"-I{_HOST}",
        "-o",
        str(partial),
        str(sources[0]),
        "-ldl",
    ]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if program.name not in _HARNESSES:
            _compile_harness(words, folder)
            _HARNESSES[program.name] = partial.read_bytes()
        else:
            partial.write_bytes(_HARNESSES[program.name])
            partial.chmod(0o755)
        partial.rename(program)
    except OSError as error:
        raise DataError(f"cannot write to {folder}: {error.strerror}") from None
    return program


def _compile_harness(words: Sequence[str], folder: Path) -> None:
    try:
        done = toolchain.run_tool(words)
    except (UnavailableError, subprocess.SubprocessError) as error:
        raise UnavailableError(f"cannot build the measuring process: {error}") from None
    if done.returncode:
        if "No space left on device" in done.stderr:
            raise DataError(f"no space left on the disk of {folder}: make room, and the study resumes")
        raise UnavailableError(f"cannot build the measuring process: {shortened(done.stderr)}")


def _c_compiler() -> str:
    return next((name for name in ("gcc", "cc", "clang") if _exists(name)), "gcc")


def _exists(name: str) -> bool:
    try:
        toolchain.find_tool(name)
    except UnavailableError:
        return False
    return True


def _version_or_nothing(compiler: str) -> str:
    try:
        return toolchain.version(compiler)
    except UnavailableError:
        return ""


def shortened(text: str) -> str:
    """Return the first error lines of a compiler's output, each once; an assembler's without its temporary file."""
    told = list(dict.fromkeys(re.sub(r"^\S*/cc\w+\.s:(\d+: )?", "", line) for line in text.splitlines()))
    important = [line for line in told if re.search("error|undefined|cannot find|multiple definition", line.lower())]
    driver = "collect2: error"  # what the linker's driver adds after the linker's own words
    if len(told) > 1:
        told, important = ([line for line in lines if not line.startswith(driver)] for lines in (told, important))
    return "\n".join(line[:300] for line in (important or told)[:6]).strip()
