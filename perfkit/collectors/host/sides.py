"""Find a kernel by what a person would type: a file, a file of a commit, a library, a kernel of the corpus."""

import subprocess
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perfkit.base.files import is_folder
from perfkit.collectors.kernels import CXX, SOURCES, Kernel, compile_kernel, corpus_kernel, library_kernel
from perfkit.errors import MissingFileError, SettingError


def kernel_from(
    text: str, function: str | None = None, compiler: str | None = None, options: Mapping[str, Any] | None = None
) -> Kernel:
    """Make a kernel of what names it.

    Parameters
    ----------
    text
        ``kernel.c`` (also C++), ``REVISION:kernel.c`` (that file, with all that lies beside it, in a git commit),
        ``library.so``, or ``corpus:NAME``.
    function
        Needed for libraries, and where a file has several.
    compiler
        Default: gcc, or g++ for C++.
    options
        Further ones of :func:`~perfkit.collectors.compile_kernel`: build, flags, defines.

    Raises
    ------
    MissingFileError
        If there is no such file.
    SettingError
        If there is no such commit or kernel.
    """
    more = dict(options or {})
    if text.startswith("corpus:"):
        if function is not None:
            raise SettingError(f"{text} names a function already: leave out --function {function}")
        return corpus_kernel(text.removeprefix("corpus:"), compiler=compiler or "gcc", **more)
    path = Path(text)
    if not path.exists() and ":" in text:
        revision, _, inside = text.partition(":")
        with tempfile.TemporaryDirectory(prefix="perfkit-commit-") as folder:
            file = _of_commit(revision, inside, Path(folder))
            return _compiled(file, function, compiler, more | {"name": f"{Path(inside).name} at {revision}"})
    if not path.is_file():
        raise MissingFileError(
            f"no file {text}{is_folder(path)}: expected a C or C++ file, REVISION:FILE of a git repository, a shared "
            "library (.so) or corpus:NAME"
        )
    return _compiled(path, function, compiler, more)


def is_program(text: str) -> bool:
    """Whether what is named is a file of machine code that is no shared library."""
    path = Path(text)
    if not path.is_file() or is_library(path):
        return False
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def is_library(path: Path) -> bool:
    """Whether a file's name is that of a shared library."""
    return path.suffix == ".so" or ".so." in path.name


def _compiled(path: Path, function: str | None, compiler: str | None, options: dict[str, Any]) -> Kernel:
    if is_library(path):
        if function is None:
            raise SettingError(f"say which function of {path.name} to time: --function NAME")
        return library_kernel(path, function)
    if path.suffix not in SOURCES:
        raise SettingError(
            f"{path.name} is neither C ({', '.join(SOURCES)}) nor a shared library (.so); build other "
            "languages into a library first"
        )
    return compile_kernel(path, function, compiler=compiler or ("g++" if path.suffix in CXX else "gcc"), **options)


def _of_commit(revision: str, inside: str, folder: Path) -> Path:
    """Extract a commit of the repository around the working folder; return the path of a file in it."""
    if Path(revision).is_file():
        raise SettingError(
            f"expected REVISION:FILE, and {revision} is a file here: give it alone, and its function by --function "
            f"{inside} (another one of B by --function-b)"
        )
    prefix = _git("rev-parse", "--show-prefix").decode().strip()
    top = _git("rev-parse", "--show-toplevel").decode().strip()
    archive = folder / "tree.tar"
    archive.write_bytes(_git("-C", top, "archive", "--format=tar", revision))
    tree = folder / "tree"
    with tarfile.open(archive) as tar:
        # The filter is of Python 3.11.4 and later; before, what git itself wrote is taken as it is.
        tar.extraction_filter = getattr(tarfile, "data_filter", None)
        tar.extractall(tree)  # noqa: S202
    for candidate in (tree / prefix / inside, tree / inside):
        if candidate.is_file():
            return candidate
    raise SettingError(f"commit {revision} has no file {prefix}{inside}")


def _git(*words: str) -> bytes:
    try:
        done = subprocess.run(["git", *words], capture_output=True, check=False)
    except FileNotFoundError:
        raise SettingError("REVISION:FILE needs git, which is not installed") from None
    if done.returncode:
        raise SettingError(f"git says: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout
