"""Opening a dump: plain, gzip, xz, bzip2 or zstandard, told by its first bytes and not by its name."""

import bz2
import lzma
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from perfkit.base.files import afford, affordable
from perfkit.errors import DataError, FormatError

_MAGIC = {"gzip": b"\x1f\x8b", "xz": b"\xfd7zXZ\x00", "bzip2": b"BZh", "zstandard": b"\x28\xb5\x2f\xfd"}
_COMPRESSED = {".gz", ".xz", ".bz2", ".zst"}
_PLAIN = {
    ".txt", ".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".log", ".out", ".dat", ".parquet", ".pq", ".perf", ".md",
}  # fmt: skip
_BLOCK = 1 << 20
_SPACES = np.frombuffer(b"\n\r \t\f\v", dtype="uint8")
# What colours text in a terminal or sets its title (ECMA-48), as found in a captured output.
_ESCAPES = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)?|[@-Z\\^_]|[ -/]+[0-~])?")


_UNKNOWN = "binary data. A perf.data file is not a dump: give what `perf stat` prints, or writes with -o."
_DIGIT, _DIGIT_OF_EBCDIC = re.compile(rb"[0-9]"), re.compile(rb"[\xf0-\xf9]{3}")
_EBCDIC = "EBCDIC, as mainframes write text. Convert it: iconv -f IBM037 -t UTF-8."
# Files of counts that are no text, and how to get a table out of them.
_BINARY = {
    b"PERFILE2": "a recording of perf (perf.data). Give what `perf stat` prints, or writes with -o.",
    b"PK\x03\x04": "an Excel workbook or another ZIP archive. Save the sheet as CSV, or unpack the archive.",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook (.xls). Save the sheet as CSV.",
    b"\x89HDF\r\n": "HDF5 data. Write the table as CSV or Parquet: pandas.read_hdf(file).to_parquet('out.parquet').",
    b"ARROW1": "Arrow (Feather) data. Write it as Parquet: pandas.read_feather(file).to_parquet('out.parquet').",
    b"SQLite format 3": "an SQLite database. Write the counts as CSV: sqlite3 -header -csv file 'select ...'.",
    b"\x93NUMPY": "a NumPy array, which has no names of events. Write it as CSV with a header.",
}


@dataclass
class Opened:
    """A file's content after decompression.

    ``cut`` says in words how the compressed data ended early; it is empty for a whole file. ``escapes`` counts the
    escape sequences for a terminal that were taken off.
    """

    path: Path
    data: bytes
    cut: str = ""
    escapes: int = 0

    def __post_init__(self) -> None:
        if b"\x1b" in self.data:
            self.data, self.escapes = _ESCAPES.subn(b"", self.data)
        if b"\n" not in self.data and b"\x00" not in self.data:
            self.data = self.data.replace(b"\r", b"\n")  # spreadsheets on a Mac write "CSV (Macintosh)" so

    @property
    def name(self) -> str:
        """The file's name, without folders."""
        return self.path.name

    @cached_property  # each look goes through the whole content
    def encoding(self) -> str:
        """The text's encoding: UTF-8 where it can be, UTF-16 and UTF-32 where it says so, and Latin-1 of what remains.

        Raises
        ------
        FormatError
            The content is not text.
        """
        if self.data.startswith((b"\xff\xfe\x00\x00", b"\x00\x00\xfe\xff")):
            return "utf-32"
        if self.data.startswith((b"\xff\xfe", b"\xfe\xff")):
            return "utf-16"
        if b"\x00" in self.data:
            what = next((told for magic, told in _BINARY.items() if self.data.startswith(magic)), self._unmarked)
            raise FormatError(f"{self.name}: expected a text dump; found {what}")
        if self.data.isascii():
            return "utf-8-sig"
        try:
            self.data.decode("utf-8-sig")
        except UnicodeDecodeError:
            if _DIGIT_OF_EBCDIC.search(self.data) and not _DIGIT.search(self.data):
                raise FormatError(f"{self.name}: expected a text dump; found {_EBCDIC}") from None
            return "latin-1"
        return "utf-8-sig"

    @property
    def _unmarked(self) -> str:
        """What data with zeros is, told by more than its first bytes."""
        if self.data[257:262] == b"ustar":
            return "a tar archive. Unpack it, and give the files in it."
        if next((kind for kind, magic in _MAGIC.items() if self.data.startswith(magic)), ""):
            return "compressed data within compressed data. Decompress it once."
        begin = self.data[:200]
        for zeros, order in ((begin[1::2], "LE"), (begin[::2], "BE")):
            if len(begin) > 1 and not zeros.strip(b"\x00"):
                return f"UTF-16 without its mark. Convert it: iconv -f UTF-16{order} -t UTF-8."
        return _UNKNOWN

    def text(self) -> str:
        """Return the content as text.

        Raises
        ------
        FormatError
            It is not text after all, as UTF-16 with half a character at its end.
        """
        try:
            return self.data.decode(self.encoding)
        except UnicodeDecodeError as error:
            raise FormatError(f"{self.name}: {self.encoding.upper()} text that is damaged ({error.reason})") from error

    @property
    def ends_with_newline(self) -> bool:
        """Whether the last line is whole; a file that was cut mostly ends in the middle of one."""
        return self.data.rstrip(b"\x00").endswith(b"\n")

    def lines(self) -> list[str]:
        """Return the content's lines without their ends; only a newline ends one (after a carriage return or not)."""
        lines = self.text().split("\n")
        if lines and not lines[-1]:
            lines.pop()
        return [x.removesuffix("\r") for x in lines]

    def blank_lines(self) -> tuple[int, list[int]]:
        """Return how many lines there are, and the numbers (from 1) of those that hold nothing but spaces."""
        if self.encoding in ("utf-16", "utf-32"):
            lines = self.lines()
            return len(lines), [i for i, x in enumerate(lines, 1) if not x.strip("\ufeff \t\r\f\v")]
        data = self.data
        n, may_be_blank = _count_lines(data)
        if not may_be_blank:
            return n, []  # nearly all tables, told at the speed of memory
        lines_of = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")[:n]
        return n, [i for i, x in enumerate(lines_of, 1) if not x.strip()]

    def head(self, size: int = 200_000) -> str:
        """Return the beginning of the content as text."""
        return self.data[:size].decode(self.encoding, errors="replace")

    def hand_over(self) -> bytes:
        """Return the content in UTF-8 without a byte-order mark, and forget it: large tables are not held twice."""
        data = self.data.removeprefix(b"\xef\xbb\xbf") if self.encoding == "utf-8-sig" else self.text().encode()
        self.data = b""
        return data


def _count_lines(data: bytes) -> tuple[int, bool]:
    """Return how many lines there are, and whether one of them begins as a blank one would."""
    text = np.frombuffer(data, dtype="uint8")
    n, blank = 0, not data[:1].strip()
    for start in range(0, len(text), _BLOCK):  # blocks that stay in the cache
        ends = np.flatnonzero(text[start : start + _BLOCK] == 10) + start
        n += len(ends)
        blank = blank or bool(np.isin(text[ends[ends < len(text) - 1] + 1], _SPACES).any())
    return n + (not data.endswith(b"\n") and bool(data)), blank


def open_dump(path: str | Path) -> Opened:
    """Read a file, decompressing it where its first bytes say so.

    Raises
    ------
    FormatError
        The compressed data is corrupted in a way that leaves nothing to read. Data that merely ends early is returned
        with `Opened.cut` set, so that the caller can refuse it or read what is there.
    """
    path = Path(path)
    if path.is_dir():
        raise DataError(f"{path}: expected a file; found a folder. Give the paths of the files in it.")
    with path.open("rb") as file:
        begin = file.read(4)  # not to be read again from a pipe
        if path.is_file():
            if begin == b"PAR1":
                return Opened(path, b"PAR1")  # Arrow maps it into memory by itself
            afford(path.stat().st_size, path.name, "the file")
            begin = b""  # else all of it would be copied
            file.seek(0)
        raw = begin + file.read(affordable() + 1)
    for kind, magic in _MAGIC.items():
        if raw.startswith(magic):
            data, cut = _decompress(raw, kind, path.name)
            if cut and not data:
                raise FormatError(f"{path.name}: {cut}; nothing in it can be read. Copy the file again.")
            return Opened(path, data, cut)
    return Opened(path, raw)


def run_name(path: Path) -> str:
    """Return a run's name from its file's: without folders, compression and the usual suffixes of dumps."""
    name = path.name
    for suffixes in (_COMPRESSED, _PLAIN):
        suffix = Path(name).suffix
        if suffix.lower() in suffixes and name != suffix:
            name = name[: -len(suffix)]
    return name


def _decompress(raw: bytes, kind: str, name: str) -> tuple[bytes, str]:
    """Return all that can be decompressed and how it ended early, if it did."""
    if kind == "zstandard":
        return _zstandard(raw, name)
    make: dict[str, Callable[[], zlib._Decompress | lzma.LZMADecompressor | bz2.BZ2Decompressor]] = {
        "gzip": lambda: zlib.decompressobj(wbits=31),
        "xz": lzma.LZMADecompressor,
        "bzip2": bz2.BZ2Decompressor,
    }
    parts: list[bytes] = []
    rest, size, most = raw, 0, affordable()
    while rest.strip(b"\x00"):  # several members one after another, with padding, are one file
        member = make[kind]()
        try:
            for at in range(0, len(rest), _BLOCK):
                parts.append(_inflate(member, rest[at : at + _BLOCK], most - size, name))
                size += len(parts[-1])
                if member.eof:
                    rest = member.unused_data + rest[at + _BLOCK :]
                    break
        except (zlib.error, lzma.LZMAError, OSError, EOFError) as error:
            return b"".join(parts), f"{kind} data is corrupted ({error})"
        if not member.eof:
            return b"".join(parts), f"{kind} data ends early, after {sum(map(len, parts)):,} bytes of content"
    return b"".join(parts), ""


def _inflate(member: Any, data: bytes, most: int, name: str) -> bytes:
    """Return what a block of compressed data holds, as long as that is not more than memory can hold."""
    if isinstance(member, bz2.BZ2Decompressor | lzma.LZMADecompressor):
        out = member.decompress(data, max_length=max(most, 0) + 1)
        full = not member.eof and not member.needs_input
    else:
        out = member.decompress(data, max(most, 0) + 1)
        full = bool(member.unconsumed_tail)
    if full or len(out) > most:
        _refuse(name)
    return out


def _refuse(name: str) -> NoReturn:
    raise FormatError(
        f"{name}: compressed data of more than the {affordable():,} bytes that memory can hold; decompress it to a "
        "file if that is meant, and read a part of it"
    )


def _zstandard(raw: bytes, name: str) -> tuple[bytes, str]:
    import pyarrow as pa

    parts: list[bytes] = []
    try:
        with pa.CompressedInputStream(pa.BufferReader(raw), "zstd") as stream:
            most = affordable()
            while block := stream.read(_BLOCK):
                parts.append(block)
                most -= len(block)
                if most < 0:
                    _refuse(name)
    except OSError as error:
        return b"".join(parts), f"zstandard data ends early or is corrupted ({error})"
    return b"".join(parts), ""
