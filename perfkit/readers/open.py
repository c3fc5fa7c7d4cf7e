"""Opening a dump: plain, gzip, xz, bzip2 or zstandard, told by its first bytes and not by its name."""

import bz2
import lzma
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from perfkit.errors import DataError, FormatError

_MAGIC = {"gzip": b"\x1f\x8b", "xz": b"\xfd7zXZ\x00", "bzip2": b"BZh", "zstandard": b"\x28\xb5\x2f\xfd"}
_COMPRESSED = {".gz", ".xz", ".bz2", ".zst"}
_PLAIN = {".txt", ".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".log", ".out", ".dat", ".parquet", ".pq", ".perf"}
_BLOCK = 1 << 20


@dataclass(frozen=True)
class Opened:
    """A file's content after decompression.

    ``cut`` says in words how the compressed data ended early; it is empty for a whole file.
    """

    path: Path
    data: bytes
    cut: str = ""

    @property
    def name(self) -> str:
        """The file's name, without folders."""
        return self.path.name

    def text(self) -> tuple[str, str]:
        """Return the content as text, and a note on its encoding where that is not UTF-8."""
        if self.data.startswith((b"\xff\xfe", b"\xfe\xff")):
            return self.data.decode("utf-16"), f"{self.name}: read as UTF-16"
        try:
            return self.data.decode("utf-8-sig"), ""
        except UnicodeDecodeError as error:
            if b"\x00" in self.data[:4096]:
                raise FormatError(
                    f"{self.name}: expected a text dump; found binary data. A perf.data file is not a dump: "
                    "give what `perf stat` prints, or writes with -o."
                ) from error
            return self.data.decode("latin-1"), f"{self.name}: not UTF-8; read as Latin-1"


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
        raise DataError(f"{path.name}: expected a file; found a folder. Give the files in it as a list of paths.")
    raw = path.read_bytes()
    for kind, magic in _MAGIC.items():
        if raw.startswith(magic):
            data, cut = _decompress(raw, kind)
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


def _decompress(raw: bytes, kind: str) -> tuple[bytes, str]:
    """Return all that can be decompressed and how it ended early, if it did."""
    if kind == "zstandard":
        return _zstandard(raw)
    make: dict[str, Callable[[], zlib._Decompress | lzma.LZMADecompressor | bz2.BZ2Decompressor]] = {
        "gzip": lambda: zlib.decompressobj(wbits=31),
        "xz": lzma.LZMADecompressor,
        "bzip2": bz2.BZ2Decompressor,
    }
    parts: list[bytes] = []
    rest = raw
    while rest.strip(b"\x00"):  # several members one after another, with padding, are one file
        member = make[kind]()
        try:
            for at in range(0, len(rest), _BLOCK):
                parts.append(member.decompress(rest[at : at + _BLOCK]))
                if member.eof:
                    rest = member.unused_data + rest[at + _BLOCK :]
                    break
        except (zlib.error, lzma.LZMAError, OSError, EOFError) as error:
            return b"".join(parts), f"{kind} data is corrupted ({error})"
        if not member.eof:
            return b"".join(parts), f"{kind} data ends early, after {sum(map(len, parts)):,} bytes of content"
    return b"".join(parts), ""


def _zstandard(raw: bytes) -> tuple[bytes, str]:
    import pyarrow as pa

    parts: list[bytes] = []
    try:
        with pa.CompressedInputStream(pa.BufferReader(raw), "zstd") as stream:
            while block := stream.read(_BLOCK):
                parts.append(block)
    except OSError as error:
        return b"".join(parts), f"zstandard data ends early or is corrupted ({error})"
    return b"".join(parts), ""
