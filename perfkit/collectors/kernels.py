"""Kernels in C and C++: compile source text, and the corpus in ``data/kernels/``.

A kernel is one C function, the region of interest, compiled into a shared library of its own. The kernels of the
corpus take no arguments: they work on arrays of their file, which their ``setup()`` fills the same way every time.
"""

import os
import re
import shlex
import shutil
import subprocess
import tempfile
import tomllib
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfkit.base.files import a_path, check_source, is_folder
from perfkit.collectors.tracer.demangle import forms
from perfkit.collectors.tracer.elf import ElfFile
from perfkit.errors import DataError, MissingFileError, SettingError, UnavailableError, expect, of_extra

if TYPE_CHECKING:
    import pandas as pd

    from perfkit.trace.trace import Trace

# A region should hold its own loops: no memset or memcpy in their place, and a square root without a call for errno.
_SELF_CONTAINED = ("-fno-math-errno", "-fno-tree-loop-distribute-patterns")
BUILDS = {
    "scalar": ("-O2", "-fno-tree-vectorize", *_SELF_CONTAINED),
    "avx2": ("-O3", "-march=haswell", *_SELF_CONTAINED),
    "avx512": ("-O3", "-march=skylake-avx512", "-mprefer-vector-width=512", *_SELF_CONTAINED),
}
"""The three ways in which the corpus is compiled for x86-64."""

# A program around a kernel, for backends that run programs only. It prints a checksum of the kernel's output.
_MAIN = """
#include <stdio.h>
extern void setup(void) __attribute__((weak));
extern volatile void *output __attribute__((weak));
extern long output_size __attribute__((weak));
extern void {function}(void);
int main(void) {{
    if (setup) setup();
    {function}();
    if (&output) {{
        unsigned long sum = 14695981039346656037ul;
        for (long i = 0; i < output_size; i++) sum = (sum ^ ((volatile unsigned char *)output)[i]) * 1099511628211ul;
        printf("%016lx\\n", sum);
    }}
    return 0;
}}
"""
_NOT_KERNELS = {"setup", "main", "_init", "_fini"}
CXX = (".cc", ".cpp", ".cxx", ".c++", ".C")
"""Suffixes of files that gcc and clang compile as C++."""
SOURCES = (".c", *CXX)
"""Suffixes of files that can be kernels."""


@dataclass(frozen=True)
class Kernel:
    """A compiled C function.

    Parameters
    ----------
    path : Path
        The shared library; it lives as long as this object.
    function : str
        The region of interest.
    name : str
        What to call it in tables: the corpus's name, or the function.
    source : str
        The C text.
    compiler, flags : str
        The compiler's version line and the flags, as given.
    isa : str
        What the library was made for.
    has_setup : bool
        Whether it has a function ``setup()`` to call first.
    file : Path
        The file that was compiled; text lies in one of this object's own.
    command : tuple of str
        The words that compiled it.
    """

    path: Path
    function: str
    name: str
    source: str
    compiler: str
    flags: tuple[str, ...]
    isa: str
    has_setup: bool
    file: Path = field(repr=False)
    command: tuple[str, ...] = field(repr=False)
    _folder: "KeptFolder" = field(repr=False, compare=False)

    @property
    def folder(self) -> Path:
        """Where its library lies: a folder of its own, which goes with it."""
        return Path(self._folder.name)

    @property
    def folders(self) -> tuple[Path, ...]:
        """Where its source and what it includes lie; a trace keeps the texts of the files there that it ran."""
        return self.file.parent, corpus_folder()

    def trace(self, *arguments: Any, **settings: Any) -> "Trace":
        """Run the kernel and record what it does.

        Parameters
        ----------
        *arguments
            What the C function takes: integers, floats (``double``; ``numpy.float32`` for ``float``) and numpy arrays
            (passed as pointers to copies aligned to 64 bytes; the originals are not changed).
        **settings
            Fields of :class:`~perfkit.collectors.Tracer`.

        Examples
        --------
        >>> import perfkit as pk
        >>> kernel = pk.collectors.compile_kernel("long f(long n) { return n * n; }")  # doctest: +SKIP
        >>> kernel.trace(7).to_frame()["text"].tolist()  # doctest: +SKIP
        ['imul rdi,rdi', 'mov rax,rdi', 'ret']
        """
        from perfkit.collectors.tracer.tracer import Tracer

        return Tracer(**settings).run_kernel(self, *arguments)

    def program(self) -> Path:
        """Compile a statically linked program around the kernel (of no arguments), for QEMU; return its path."""
        folder = Path(self._folder.name)
        path = folder / "program"
        if not path.exists():
            main = folder / "main.c"
            main.write_text(_MAIN.format(function=self.function))
            shared = {"-shared", "-fvisibility=hidden"}
            words = [word for word in self.command if word not in shared]
            words[words.index("-o") + 1] = str(path)
            _compile([*words[:-1], "-static", str(main), "-lm"])
        return path


def compile_kernel(
    source: str | Path,
    function: str | None = None,
    *,
    build: str | None = None,
    flags: str | Sequence[str] | None = None,
    compiler: str = "gcc",
    defines: Mapping[str, Any] | None = None,
    name: str | None = None,
) -> Kernel:
    """Compile a C function into a library that can be traced and timed.

    Parameters
    ----------
    source : str or Path
        C text, or the path of a C or C++ file. Files of the corpus can be included (``#include "kernel.h"``).
    function : str, optional
        The region of interest; not needed when the source has only one function that is not static.
    build : {"scalar", "avx2", "avx512"}, optional
        Named flags, see :data:`BUILDS`.
    flags : str or sequence of str, optional
        Compiler flags in place of a build's; ``-O3 -march=native`` when neither is given.
    compiler : str
        For example ``gcc-12``, ``clang`` or ``aarch64-linux-gnu-gcc``.
    defines : mapping, optional
        Macros, for example ``{"N": 64}``.
    name : str, optional
        What to call the kernel.

    Raises
    ------
    SettingError
        When the function is not there or must be named, or the build is unknown.
    MissingFileError
        When there is no such file.
    DataError
        When the source does not compile, with the compiler's words.
    UnavailableError
        When there is no such compiler.
    """
    expect(isinstance(source, str | Path), source, "compile_kernel", "C or C++, or a file of it", "give text or a path")
    if build is not None and build not in BUILDS:
        raise SettingError(f"unknown build {build!r}; known: {', '.join(BUILDS)}")
    if build is not None and flags is not None:
        raise SettingError("give either a build or flags, not both")
    native = ["-O3"] if "-linux-gnu" in compiler else ["-O3", "-march=native"]
    chosen = list(BUILDS[build]) if build else _words(flags) if isinstance(flags, str) else list(flags or native)
    chosen += [f"-D{key}={value}" for key, value in (defines or {}).items()]
    if shutil.which(compiler) is None:
        raise UnavailableError(f"no compiler {compiler!r} on this machine; install it, or name another one")
    folder = KeptFolder()
    file = _source_file(source, Path(folder.name))
    library = Path(folder.name) / "kernel.so"
    # The compiler takes text in any encoding, so that a comment in Latin-1 stops nobody.
    text = file.read_text(encoding="utf-8", errors="replace")
    visibility = ["-fvisibility=hidden"] if '"kernel.h"' in text or "correlation.h" in text else []
    include = ["-I", str(corpus_folder())]
    # Line tables first, so that flags can say -g0. They change no instruction.
    debug = ["-g", *_relative(compiler, corpus_folder(), file.parent)]
    # The C++ library where the code needs it; and again what the flags link, whose order counts.
    libraries = ["-Wl,--as-needed", "-lstdc++"] if file.suffix in CXX else []
    libraries += [flag for flag in chosen if flag.startswith("-l")]
    link = ["-fPIC", "-shared", "-o", str(library), str(file), *libraries, "-lm"]
    command = [compiler, *debug, *chosen, *visibility, *include, *link]
    _compile(command)
    elf = ElfFile(library, str(source) if isinstance(source, Path) or _is_path(source) else "the kernel's text")
    region = _choose(elf, function, text)
    return Kernel(
        path=library,
        function=region,
        name=name or (file.stem if isinstance(source, Path) or _is_path(source) else region),
        source=text,
        compiler=_version(compiler),
        flags=tuple(chosen),
        isa=elf.isa,
        has_setup="setup" in elf.functions,
        file=file,
        command=tuple(command),
        _folder=folder,
    )


def _words(flags: str) -> list[str]:
    """Split flags as a shell would, without running one."""
    try:
        return shlex.split(flags)
    except ValueError as error:
        raise SettingError(f"the flags {flags!r} cannot be split into words ({error}); balance their quotes") from None


def library_kernel(path: str | Path, function: str, name: str | None = None) -> Kernel:
    """Take a function of a shared library that you built yourself, in any language, as a kernel to time.

    Parameters
    ----------
    path
        The library (``.so``).
    function
        The symbol; of Fortran often with a trailing underscore, of C++ and Rust best exported unmangled.
    name
        What to call it; the symbol by default.

    Raises
    ------
    SettingError
        There is no such library.
    """
    library = a_path(path, "library_kernel")
    if not library.is_file():
        raise SettingError(f"no shared library {library}{is_folder(library)}")
    elf = ElfFile(library)
    return Kernel(
        path=library.resolve(),
        function=elf.function(function).name,
        name=name or function,
        source="",
        compiler=f"built before ({library.name})",
        flags=(),
        isa=elf.isa,
        has_setup="setup" in elf.functions,
        file=library.resolve(),
        command=(),
        _folder=KeptFolder(),
    )


def corpus_folder() -> Path:
    """Where the kernels of the corpus lie: in the installed package, or in the checkout."""
    package = Path(str(files("perfkit")))
    for folder in (package / "_data" / "kernels", package.parent / "data" / "kernels"):
        if (folder / "manifest.toml").is_file():
            return folder
    raise DataError(f"no corpus of kernels in {package / '_data'} or {package.parent / 'data'}; install perfkit again")


def corpus() -> "pd.DataFrame":
    """List the corpus: one row per kernel, with its title, group and sizes."""
    pd = of_extra("pandas")

    rows = [
        {
            "kernel": name,
            "group": entry["group"],
            "title": entry["holds"],
            "function": entry["function"],
            "sizes": entry["sizes"],
        }
        for name, entry in _entries().items()
    ]
    return pd.DataFrame(rows).set_index("kernel")


def _entries() -> dict[str, dict[str, str]]:
    """Return the manifest's tables of kernels, by name."""
    manifest = tomllib.loads((corpus_folder() / "manifest.toml").read_text())
    return {name.partition("/")[2]: entry for name, entry in manifest.items() if "group" in entry}


def corpus_kernel(name: str, build: str = "avx2", **options: Any) -> Kernel:
    """Compile a kernel of the corpus.

    Parameters
    ----------
    name : str
        A row of :func:`corpus`, for example ``"gemm"``.
    build : str
        One of :data:`BUILDS`.
    **options
        As for :func:`compile_kernel`; for example ``defines={"N": 32}`` to change its size.

    Raises
    ------
    SettingError
        The corpus has no such kernel, or there is no such build.
    """
    entries = _entries()
    if str(name) not in entries:
        raise SettingError(f"no kernel {name!r} in the corpus; it has: {', '.join(entries)}")
    chosen = options if "flags" in options else {"build": build} | options
    return compile_kernel(corpus_folder() / f"{name}.c", entries[name]["function"], name=name, **chosen)


class KeptFolder:
    """A temporary folder that goes when the last kernel that names it goes."""

    def __init__(self) -> None:
        self.name = tempfile.mkdtemp(prefix="perfkit-kernel-")
        weakref.finalize(self, shutil.rmtree, self.name, ignore_errors=True)


def expect_kernel(given: Any, where: str) -> None:
    """Refuse what is not a `Kernel`, and say how to get one.

    Raises
    ------
    WrongTypeError
        Something else was given, for example a source file's name.
    """
    how = "compile a source file with perfkit.collectors.compile_kernel, or open a library with library_kernel"
    expect(isinstance(given, Kernel), given, where, "a Kernel", how)


def _is_path(source: str) -> bool:
    """Say whether a text is a file's name: one line, which has nothing that a function, `#include` or macro needs."""
    if "\n" in source or "{" in source:
        return False
    return source.endswith(SOURCES) or (bool(source.strip()) and not set("#;()") & set(source))


def _source_file(source: str | Path, folder: Path) -> Path:
    if isinstance(source, Path) or _is_path(source):
        path = Path(source)
        if not path.is_file():
            raise MissingFileError(f"no source file {path}{is_folder(path)}")
        check_source(path)
        return path.resolve()
    path = folder / "kernel.c"
    path.write_text(source if source.endswith("\n") else source + "\n")
    return path


def _choose(elf: ElfFile, function: str | None, source: str) -> str:
    """Find the region of interest."""
    if function is not None:
        return elf.function(function).name
    # Of C++: without qualifiers and parameters, as a definition names it.
    plain = {s: forms(elf.demangled.get(s, s))[-1].rpartition("::")[2] for s in elf.functions}
    exported = [
        s for s, name in plain.items() if s not in _NOT_KERNELS and re.search(rf"\b{re.escape(name)}\s*\(", source)
    ]
    if len(exported) != 1:
        found = ", ".join(elf.demangled.get(s, s) for s in exported) or "none"
        told = f"name the function: the source has {len(exported)} that qualify ({found})"
        if not exported and "main" in plain.values():
            told += "; main() is none, as whole programs are no kernels: move its work into a function"
        raise SettingError(told)
    return exported[0]


def _relative(compiler: str, *folders: Path) -> list[str]:
    """Have file names in line tables relative to these folders: the same source gives the same library anywhere."""
    clang = "clang" in _version(compiler)
    # The last map that fits wins: the longest folder, whether the work goes on above or below the source's.
    mapped = sorted({*map(str, folders), *([] if clang else [str(Path.cwd())])}, key=len)
    first = ["-fdebug-compilation-dir=."] if clang else []
    return [*first, *(f"-fdebug-prefix-map={folder}=." for folder in mapped)]


def _compile(command: list[str]) -> None:
    environment = os.environ | {"LC_ALL": "C"}
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", env=environment, check=False)
    if done.returncode:
        raise DataError(f"{command[0]} refuses the kernel (status {done.returncode}):\n{done.stderr.strip()[:4000]}")


def _version(compiler: str) -> str:
    done = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False)
    return done.stdout.partition("\n")[0].strip()
