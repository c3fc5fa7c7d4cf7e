"""The door to perfkit's own files.

Writing: a reader sees the old file or the whole new one, never a part. Reading: whatever is wrong with a file, be it
damaged or made to harm, is a FormatError that names it; nothing is allocated or inflated before its size is known to
fit, and no more of a file is believed than was checked.
"""

import copyreg
import errno
import json
import math
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from perfkit._version import __version__
from perfkit.errors import (
    DataError,
    FormatError,
    MissingFileError,
    PerfkitError,
    SettingError,
    UnavailableError,
    counted,
    expect,
    listed,
)

if TYPE_CHECKING:
    import zipfile

    import numpy as np
    import pandas as pd
    import pyarrow as pa

_T = TypeVar("_T")
WRITER = __version__  # the perfkit that writes a file, for files that say it
LARGEST_TEXT = 64 << 20  # of a member or file of JSON, TOML or YAML that perfkit takes apart as a whole


def _read_only(values: dict[Any, Any]) -> MappingProxyType[Any, Any]:
    return MappingProxyType(values)


# Cores, settings that hold one, and results are copied and sent to other processes, which read-only mappings cannot be.
copyreg.pickle(MappingProxyType, lambda view: (_read_only, (dict(view),)))


def give_compiled_code_a_place() -> str:
    """Let numba keep compiled code in a folder of this process where the user's cache is not writable; return it.

    Beside code that is not the user's and without a home, numba refuses to compile what is to be kept (RuntimeError: no
    locator available). The folder is private, since compiled code that is loaded is run, and goes with the process; ""
    is returned where none is needed. It must be named before numba is imported.
    """
    base = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    wanted = Path(os.environ.get("NUMBA_CACHE_DIR") or Path(base, "numba"))
    with suppress(OSError):
        wanted.mkdir(parents=True, exist_ok=True)  # as numba would
        if os.access(wanted, os.W_OK | os.X_OK):
            return ""
    import atexit
    import shutil
    import tempfile

    made = tempfile.mkdtemp(prefix="perfkit-compiled-")
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    os.environ["NUMBA_CACHE_DIR"] = made
    return made


# Endings that say what is in a file, to people and to other programs.
ENDINGS = frozenset(
    (".csv", ".html", ".ipynb", ".json", ".md", ".npy", ".npz", ".parquet", ".pdf", ".png", ".pq", ".svg", ".toml",
     ".tsv", ".txt", ".xlsx", ".yaml", ".yml")
)  # fmt: skip


def _check_ending(path: str | Path, own: tuple[str, ...]) -> None:
    ending = Path(path).suffix.lower()
    if own and ending in ENDINGS and ending not in own:
        fitting = Path(path).with_suffix(own[0]).name
        raise SettingError(f"{path}: what is saved here is no {ending} file; name it {fitting}, or without an ending")


@contextmanager
def replaced(path: str | Path, *own: str) -> Iterator[Path]:
    """Give a temporary path beside ``path``; what was written there takes its place when the block ends without error.

    The old file stays as it was if the block fails (a full disk, an interruption). Symbolic links are followed.
    A device or a pipe (``/dev/stdout``) is no file to replace: it is given itself, to be written to.

    With ``own`` endings (the best one first) a path that ends as another format does is refused.

    Raises
    ------
    SettingError
        There is no such folder, the path is one, or it ends as another format does.
    WrongTypeError
        It is no path.

    Examples
    --------
    >>> with replaced("result.json") as temporary:
    ...     _ = temporary.write_text("{}")
    """
    _check_ending(a_path(path, "writing a file"), own)
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise SettingError(f"{path}: a folder; name a file to write")
    if not target.parent.is_dir():
        raise MissingFileError(f"{path}: there is no folder {target.parent}; make it first")
    if target.exists() and not target.is_file():
        yield target
        return
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        yield temporary
        if target.exists():
            temporary.chmod(target.stat().st_mode & 0o7777)
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.replace(target)
    except OSError as error:
        code = error.errno or errno.EIO  # the file is called what the user calls it
        unnamed = error.filename is None and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        if temporary.name not in str(error) and not unnamed:
            raise
        raise OSError(code, os.strerror(code), str(path)) from error
    finally:
        temporary.unlink(missing_ok=True)


def own_folder() -> Path:
    """Return a folder that only this user can write to: others could take a predictable name in a shared one.

    Raises
    ------
    UnavailableError
        Somebody else holds the folder's name.
    """
    import stat
    import tempfile

    def is_private(folder: Path) -> bool:
        found = folder.lstat()
        return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022

    runtime = Path(os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}")
    if runtime.is_dir() and is_private(runtime):
        return runtime
    folder = Path(tempfile.gettempdir()) / f"perfkit-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if not is_private(folder):
        raise UnavailableError(
            f"{folder}: expected a folder that only this user can write to, for locks; it belongs to "
            "another, or is open to others. Remove it, or set XDG_RUNTIME_DIR to a folder of your own."
        )
    return folder


def shipped_folder(name: str) -> Path:
    """Return a folder that ships with perfkit (``data``, ``notebooks``): the wheel's, or the one beside the package.

    Raises
    ------
    DataError
        It is in neither place.
    """
    package = Path(__file__).resolve().parents[1]
    places = (package / f"_{name}", package.parent / name)
    for candidate in places:
        if candidate.is_dir():
            return candidate
    raise DataError(f"no {name} found in {places[0]} or {places[1]}; install perfkit again")


def module_path() -> str:
    """Return a ``PYTHONPATH`` that begins with this perfkit's own place, before what the user's environment names.

    For children that are started with ``-P``, which find nothing in the working folder: also from a clone that is not
    installed.
    """
    return os.pathsep.join([str(Path(__file__).resolve().parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])])


def a_path(path: str | Path, where: str) -> Path:
    """Return a path as one; WrongTypeError where something else was given."""
    expect(isinstance(path, str | os.PathLike), path, where, "the path of a file", "give its name")
    return Path(path)


def existing(path: str | Path) -> Path:
    """Return the path of a file that is there.

    Raises
    ------
    MissingFileError
        There is no such file (it is a FileNotFoundError too).
    FormatError
        It is a folder, or a device, which may have no end.
    WrongTypeError
        It is no path.
    """
    found = a_path(path, "reading a file")
    if found.is_dir():
        raise FormatError(f"{path}: expected a file, found a folder")
    if found.is_char_device() or found.is_block_device():
        raise FormatError(f"{path}: expected a file, found a device")
    if not found.exists():
        raise MissingFileError(f"{path}: no such file")
    return found


def is_folder(path: str | Path) -> str:
    """Return what a message adds where no such file is there because it is a folder."""
    return " (it is a folder)" if Path(path).is_dir() else ""


def check_source(path: Path) -> None:
    """Check that a file to compile is text, before a compiler says so in a hundred lines.

    Raises
    ------
    FormatError
        It holds NUL bytes, which no text does.
    """
    if b"\0" in path.read_bytes():
        raise FormatError(f"{path}: expected source text; found binary data")


def paths_of(given: Any, where: str) -> list[str | Path]:
    """Return the one path or the several that a caller names.

    Raises
    ------
    SettingError
        Something else was given.
    """
    if hasattr(given, "to_parquet"):  # a DataFrame, or results: their parts are no paths
        made = "Samples.from_frame and Samples.from_counts make samples of a table"
        raise SettingError(f"{where} takes a path or several; found {type(given).__name__}. {made}")
    paths = [given] if isinstance(given, str | Path) else list(given) if isinstance(given, Iterable) else [given]
    for each in paths:
        if not isinstance(each, str | Path):
            raise SettingError(f"{where} takes a path or several; found {type(each).__name__}")
    return paths


# ------------------------------------------------------------------ reading


@contextmanager
def reading(path: str | Path, what: str) -> Iterator[None]:
    """Raise FormatError, naming the file and what it should be, for whatever goes wrong while a file is taken apart.

    ``what`` is what the file should be, in words: "a trace that Trace.save wrote". Errors of perfkit pass, as does a
    file that is not there; what was raised stays as the cause.
    """
    import csv
    import lzma
    import struct
    import tokenize
    import zipfile
    import zlib

    try:
        yield
    except (PerfkitError, FileNotFoundError):
        raise
    except PermissionError as error:
        raise FormatError(f"{path}: there is no permission to read it; `ls -l` shows whose it is") from error
    except (
        ArithmeticError, AttributeError, EOFError, LookupError, MemoryError, OSError, RuntimeError, TypeError,
        ValueError, SyntaxError, csv.Error, lzma.LZMAError, struct.error, tokenize.TokenError,
        zipfile.BadZipFile, zlib.error,
    ) as error:  # fmt: skip
        raise FormatError(f"{path}: expected {what}; {_why_unread(path, error)}") from error


def _why_unread(path: str | Path, error: Exception) -> str:
    """Say in words why a file could not be taken apart, a library's own words last."""
    with suppress(OSError, ValueError):
        if not Path(path).stat().st_size:
            return "the file is empty"
    told = f"{type(error).__name__}: {error}"
    if isinstance(error, MemoryError):
        told = "more than memory holds"
    if isinstance(error, UnicodeDecodeError):
        told = f"its byte {error.start + 1:,} is no text in UTF-8"
    return f"it cannot be read: damaged, or another file ({told[:300]})"


def affordable() -> int:
    """Return how many bytes one file may take in memory: half of what is free now."""
    import resource

    free = 4 << 30
    try:
        with Path("/proc/meminfo").open(encoding="ascii") as file:
            free = next(int(line.split()[1]) << 10 for line in file if line.startswith("MemAvailable"))
    except (OSError, StopIteration, ValueError):
        with suppress(ValueError, OSError):
            free = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return min(free, limit if limit != resource.RLIM_INFINITY else free) // 2


def afford(n: int, path: str | Path, what: str) -> int:
    """Return a size in bytes that a file claims, once it is known to be sensible.

    Raises
    ------
    FormatError
        It is negative, or more than memory can hold.
    """
    most = affordable()
    if not 0 <= n <= most:
        raise FormatError(
            f"{path}: {what} claims {n:,} bytes, more than memory can hold ({most:,}); it is damaged or harmful"
        )
    return n


_NO_NUMBER = "not finite"


def json_text(value: Any, default: Callable[[Any], Any] | None = None, *, exact: bool = True, **options: Any) -> str:
    """Return a value as JSON, which has no NaN and no infinity.

    Parameters
    ----------
    value
        What `json.dumps` takes.
    default : callable, optional
        As of `json.dumps`.
    exact : bool
        Whether `of_json` shall read what is not finite again, from an object in its place; else it is null.
    options
        Of `json.dumps`.

    Examples
    --------
    >>> json_text([1.5, float("nan")]), json_text([float("inf")], exact=False)
    ('[1.5, {"not finite": "nan"}]', '[null]')
    """
    try:
        return json.dumps(value, default=default, allow_nan=False, **options)
    except ValueError:
        return json.dumps(_finite(value, default, exact), allow_nan=False, **options)


def _finite(value: Any, default: Callable[[Any], Any] | None, exact: bool) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return {_NO_NUMBER: str(float(value))} if exact else None
    if isinstance(value, dict):
        return {key: _finite(each, default, exact) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each, default, exact) for each in value]
    if default is None or value is None or isinstance(value, str | int | float):
        return value
    return _finite(default(value), default, exact)


def of_json(data: bytes | str) -> Any:
    """Return what JSON holds, with the NaN and infinities that `json_text` wrote (older files hold them bare).

    Examples
    --------
    >>> of_json('[{"not finite": "-inf"}, NaN, {"a": 1}]')
    [-inf, nan, {'a': 1}]
    """
    return json.loads(data, object_hook=_number_of)


def _number_of(found: dict[str, Any]) -> Any:
    return float(found[_NO_NUMBER]) if found.keys() == {_NO_NUMBER} else found


def json_object(data: bytes | str, path: str | Path, what: str) -> dict[str, Any]:
    """Return JSON that is one object.

    Raises
    ------
    FormatError
        It is no JSON, nested absurdly deep, too long, or not an object.
    """
    if len(data) > LARGEST_TEXT:
        raise FormatError(f"{path}: {what} is {len(data):,} bytes long; at most {LARGEST_TEXT:,} are read")
    try:
        found = of_json(data)
    except (ValueError, TypeError, RecursionError) as error:
        raise FormatError(f"{path}: expected {what}; its description is not JSON ({error})") from error
    if not isinstance(found, dict):
        raise FormatError(f"{path}: expected {what}, a JSON object; found a {type(found).__name__}")
    return found


def check_fields(values: Mapping[str, Any], schema: Mapping[str, Any], path: str | Path, what: str) -> None:
    """Check that a header has the fields of a schema, each of its type; further fields are left alone.

    A type is one that `isinstance` takes. ``int`` takes no booleans, ``float`` takes whole numbers; both are finite.

    Raises
    ------
    FormatError
        A field is missing or of another type: the message names it.
    """
    for name, kind in schema.items():
        if name not in values:
            raise FormatError(f"{path}: {what} lacks {name!r}; the file is incomplete, or of another version")
        value = values[name]
        wanted = kind if isinstance(kind, tuple) else (kind,)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        fits = isinstance(value, kind) or (float in wanted and number)
        if isinstance(value, bool) and bool not in wanted:
            fits = False
        if not fits or (number and not math.isfinite(value)):
            names = listed(("null" if k is type(None) else k.__name__ for k in wanted), last="or")
            raise FormatError(f"{path}: {what}: expected {name} to be {names}; found {str(value)[:60]!r}")


_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same parts give the same bytes


def write_archive(
    path: str | Path,
    header: tuple[str, Mapping[str, Any]],
    arrays: "Mapping[str, np.ndarray]",
    inner: Mapping[str, Any],
    own: str,
) -> Path:
    """Write a ZIP archive of a header, arrays and whole files; one of that name is replaced once the new is complete.

    Parameters
    ----------
    path : path
        The file; its folder is made.
    header : (str, mapping)
        The header's name in the archive, and what it holds (JSON).
    arrays : mapping
        Name -> array, written as ``NAME.npy``.
    inner : mapping
        Name -> something with ``save(path)``, whose file is put into the archive as it is.
    own : str
        The ending of such files.
    """
    import io
    import tempfile
    import zipfile

    import numpy as np

    path = a_path(path, "writing a file")
    path.parent.mkdir(parents=True, exist_ok=True)

    def put(name: str, data: bytes, how: int) -> None:
        info = zipfile.ZipInfo(name, _EPOCH)
        info.compress_type = how
        archive.writestr(info, data)

    with (
        replaced(path, own) as temporary,
        tempfile.TemporaryDirectory(dir=temporary.parent, prefix=f"{temporary.name}.") as folder,
        zipfile.ZipFile(temporary, "w") as archive,
    ):
        put(header[0], json_text(header[1], indent=1).encode(), zipfile.ZIP_DEFLATED)
        for name, values in arrays.items():
            data = io.BytesIO()
            np.lib.format.write_array(data, values, allow_pickle=False)
            put(f"{name}.npy", data.getvalue(), zipfile.ZIP_DEFLATED)
        for name, part in inner.items():
            saved = part.save(Path(folder) / "inner")
            put(name, saved.read_bytes(), zipfile.ZIP_STORED)  # compressed already
    return path


def read_archive(
    archive: "zipfile.ZipFile", path: str | Path, what: str, arrays: Mapping[str, tuple[Any, int]],
    inner: Mapping[str, Callable[[Path], _T]],
) -> tuple[dict[str, "np.ndarray"], dict[str, _T]]:  # fmt: skip
    """Return arrays and whole files of an archive that `write_archive` wrote.

    Parameters
    ----------
    archive, path, what
        The open archive, its file, and what that should be, in words.
    arrays : mapping
        Name -> its type and its dimensions.
    inner : mapping
        Name -> what reads that file.

    Raises
    ------
    FormatError
        A part is missing, damaged, or of another type.
    """
    import tempfile

    import numpy as np

    found = {
        name: array_of(member(archive, f"{name}.npy", path, what), path, f"{name}.npy", np.dtype(kind), dimensions)
        for name, (kind, dimensions) in arrays.items()
    }
    parts = {}
    for name, load in inner.items():
        data = member(archive, name, path, what)
        with tempfile.TemporaryDirectory() as folder:
            temporary = Path(folder) / "inner"
            temporary.write_bytes(data)
            try:
                parts[name] = load(temporary)
            except FormatError as error:
                raise FormatError(f"{path}: its {name} cannot be read ({error})") from error
    return found, parts


def member(archive: "zipfile.ZipFile", name: str, path: str | Path, what: str) -> bytes:
    """Return a member of a ZIP archive, once the size that it claims is known to fit into memory."""
    with reading(path, what):
        try:
            info = archive.getinfo(name)
        except KeyError:
            raise FormatError(f"{path}: expected {what}; it has no {name}") from None
        afford(info.file_size, path, name)
        return archive.read(info)


def array_of(
    data: bytes, path: str | Path, name: str, dtype: "np.dtype[Any] | None" = None, ndim: int = 1
) -> "np.ndarray":
    """Return the array of a ``.npy`` member, once its header is known to agree with the bytes that are there."""
    import io

    import numpy as np

    with reading(path, f"an array {name}"):
        file = io.BytesIO(data)
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, kind = read(file)
        claims = math.prod(int(n) for n in shape) * kind.itemsize
        if kind.hasobject or fortran or any(n < 0 for n in shape) or claims != len(data) - file.tell():
            raise FormatError(f"{path}: {name} says it has shape {shape} of {kind}, which its bytes do not")
        if len(shape) != ndim or (dtype is not None and kind != dtype):
            wanted = counted(ndim, "dimensions") + (f" of {dtype}" if dtype is not None else "")
            raise FormatError(f"{path}: expected {name} to have {wanted}; found shape {shape} of {kind}")
        return np.frombuffer(data, dtype=kind, offset=file.tell()).reshape(shape).copy()


def arrow_buffer(data: bytes | memoryview) -> "pa.Buffer":
    """Return a copy of bytes in memory of Arrow's own.

    Arrow's threads hold what they read for a moment longer than the call takes. If it is Python's, they let it go by
    Python's lock, and a process that is ending by then is aborted, or waits for ever.
    """
    import numpy as np
    import pyarrow as pa

    own = pa.allocate_buffer(len(data))
    np.frombuffer(own, dtype="uint8")[:] = np.frombuffer(data, dtype="uint8")
    return own


def arrow_table(source: "str | Path | pa.Buffer") -> Any:
    """Return the parquet file at a path (or in a buffer of Arrow's) as an Arrow table that is sound throughout.

    Arrow trusts what a file claims: a damaged one can hold offsets and indices that later crash the process.

    Raises
    ------
    ValueError
        Arrow's own: the file is no parquet, or damaged. Call it within `reading`.
    """
    import pyarrow.parquet as pq

    table = pq.ParquetFile(source).read()
    table.validate(full=True)
    return table


def data_frame(path: str | Path) -> "pd.DataFrame":
    """Return a parquet file's table as a data frame.

    Arrow opens the file: pandas would give it an open file of Python's (see `arrow_buffer`).

    Raises
    ------
    ValueError, OSError
        Arrow's own: the file is no parquet, damaged, or not there.
    """
    frame: pd.DataFrame = arrow_table(path).to_pandas()
    return frame


def whole_text(path: str | Path, what: str) -> str:
    """Return a text file in UTF-8 that is taken apart as a whole (TOML, YAML, JSON), if it is not absurdly long."""
    found = existing(path)
    with reading(path, what):
        if found.stat().st_size > LARGEST_TEXT or not found.is_file():
            raise FormatError(f"{path}: expected {what}; this is no plain file of at most {LARGEST_TEXT >> 20} MiB")
        if text := found.read_bytes().decode("utf-8"):
            return text
    raise FormatError(f"{path}: expected {what}; the file is empty")


def toml_of(path: str | Path, what: str) -> dict[str, Any]:
    """Return what a TOML file holds.

    Raises
    ------
    MissingFileError
        There is no such file.
    FormatError
        It is empty, or no TOML; with the line.
    """
    import tomllib

    text = whole_text(path, what)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise FormatError(f"{path}: expected {what}; not TOML: {error}") from error
