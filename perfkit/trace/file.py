"""The trace file: a ZIP archive of JSON and zstd-compressed streams (``docs/tracing.md``).

Addresses are stored as differences to the last address of the same operand, which for most loops is a constant: a
hundred million instructions often fit a few megabytes, and reading is bound by memory, not by decompression.
"""

import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import zstandard
from numpy.typing import NDArray

from perfkit.base.files import (
    a_path,
    afford,
    arrow_buffer,
    arrow_table,
    check_fields,
    existing,
    json_object,
    json_text,
    member,
    reading,
    replaced,
)
from perfkit.errors import DataError, FormatError, of_extra
from perfkit.trace.code import (
    Provenance,
    StaticCode,
    TraceChunk,
    expand,
    flat,
    provenance_from_dict,
    provenance_to_dict,
)

MAGIC = "perfkit-trace"
VERSION = 2  # the first had its static tables in parquet
BLOCKS_PER_CHUNK = 1 << 20
_WHAT = "a perfkit trace"
_ORIGIN = "what its header says of its origin"
_MOST_BLOCKS = 1 << 26  # in a chunk; more is a damaged header
_FEW = 1 << 18  # accesses: fewer are not worth loading a compiler for
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same trace gives the same bytes
_STREAMS = {"stream": np.uint32, "addresses": np.uint64, "sizes": np.uint32}


def save_trace(path: Path, code: StaticCode, provenance: Provenance, chunks: Iterable[TraceChunk], level: int) -> Path:
    """Write a trace's parts; a file of that name is replaced only once the new one is complete."""
    codec = zstandard.ZstdCompressor(level=level)
    lengths = np.diff(code.block_start).astype(np.int64)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replaced(path, ".trace") as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as archive:
        sizes, instructions = [], 0
        for number, chunk in enumerate(chunks):
            sizes.append({name: len(getattr(chunk, name)) for name in _STREAMS})
            instructions += int(lengths[chunk.stream].sum())
            for name in _STREAMS:
                values = getattr(chunk, name)
                if name == "addresses":
                    values = _differences(chunk.stream, code.block_operand_start, values)
                _put(archive, f"{name}/{number:06}.zst", _compress(codec, values))
        _put(archive, "code.json", json_text(_tables(code)).encode(), zipfile.ZIP_DEFLATED)
        header = {
            "format": MAGIC,
            "version": VERSION,
            "isa": code.isa,
            "instructions": instructions,
            "chunks": sizes,
            "provenance": provenance_to_dict(provenance),
        }
        _put(archive, "trace.json", json_text(header, indent=1).encode())
    return path


class TraceFile:
    """A trace file opened for reading piece by piece: for traces larger than memory.

    Examples
    --------
    >>> from perfkit.trace.file import TraceFile
    >>> with TraceFile("big.trace") as file:  # doctest: +SKIP
    ...     for chunk in file.chunks():
    ...         print(chunk.first_instruction, len(chunk.stream))
    """

    def __init__(self, path: str | Path) -> None:
        self.path = a_path(path, "Trace")
        self._archive = _open(self.path)
        try:
            with reading(self.path, _WHAT):
                self._header = self._read_header()
                self.code = self._read_code()
                self.provenance = self._read_provenance()
                self.chunk_sizes = self._read_chunk_sizes()
                self.instruction_count = int(self._header["instructions"])
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "TraceFile":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._archive.close()

    def chunks(self) -> Iterator[TraceChunk]:
        """Go through the trace as it lies in the file: about a million blocks at a time."""
        lengths = np.diff(self.code.block_start).astype(np.int64)
        instruction = access = 0
        for number, count in enumerate(self.chunk_sizes):
            afford(sum(count[n] * np.dtype(d).itemsize for n, d in _STREAMS.items()), self.path, f"chunk {number}")
            parts = {name: np.empty(count[name], dtype=dtype) for name, dtype in _STREAMS.items()}
            self.read_chunk(number, parts)
            yield TraceChunk(instruction, access, **parts)
            instruction += int(lengths[parts["stream"]].sum())
            access += count["addresses"]

    def streams(self) -> dict[str, NDArray[Any]]:
        """Read all chunks into memory: stream, addresses and sizes, as `perfkit.trace.trace.Trace` has them."""
        totals = {name: sum(chunk[name] for chunk in self.chunk_sizes) for name in _STREAMS}
        afford(
            sum(totals[name] * np.dtype(dtype).itemsize for name, dtype in _STREAMS.items()), self.path, "its streams"
        )
        with reading(self.path, _WHAT):
            parts = {name: np.empty(totals[name], dtype=dtype) for name, dtype in _STREAMS.items()}
        at = dict.fromkeys(_STREAMS, 0)
        for number, count in enumerate(self.chunk_sizes):
            self.read_chunk(number, {name: part[at[name] : at[name] + count[name]] for name, part in parts.items()})
            at = {name: at[name] + count[name] for name in _STREAMS}
        return parts

    def read_chunk(self, number: int, into: dict[str, NDArray[Any]]) -> None:
        """Read one chunk into arrays of the right lengths."""
        count, starts = self.chunk_sizes[number], self.code.block_operand_start
        if max(count["stream"], 0) > _MOST_BLOCKS:
            raise FormatError(f"{self.path}: chunk {number} claims {count['stream']} blocks, more than {_MOST_BLOCKS}")
        stream = into["stream"]
        stream[:] = self._values("stream", number)
        if stream.size and int(stream.max()) >= self.code.block_count:
            raise FormatError(f"{self.path}: chunk {number} names a block that the code does not have")
        executed = np.bincount(stream, minlength=self.code.block_count)
        if int(executed @ np.diff(starts)) != count["addresses"]:
            raise FormatError(f"{self.path}: chunk {number} has the wrong number of addresses")
        _sum_up(stream, starts, self._values("addresses", number), into["addresses"])
        if int(executed @ np.diff(self.code.block_dynamic_start)) != count["sizes"]:
            raise FormatError(f"{self.path}: chunk {number} has the wrong number of sizes")
        into["sizes"][:] = self._values("sizes", number)

    def _read_chunk_sizes(self) -> list[dict[str, int]]:
        sizes = []
        for number, chunk in enumerate(self._header["chunks"]):
            if not isinstance(chunk, dict):
                raise FormatError(f"{self.path}: expected the sizes of chunk {number}; found {str(chunk)[:60]!r}")
            check_fields(chunk, dict.fromkeys(_STREAMS, int), self.path, f"chunk {number}")
            if any(chunk[name] < 0 for name in _STREAMS):
                raise FormatError(f"{self.path}: chunk {number} claims a negative size")
            sizes.append({name: chunk[name] for name in _STREAMS})
        return sizes

    def _read_header(self) -> dict[str, Any]:
        if "threads.json" in self._archive.namelist():
            raise FormatError(
                f"{self.path}: holds the traces of several threads; perfkit.ThreadTraces.load reads it, and "
                "perfkit.run_threads simulates it"
            )
        header = json_object(self._member("trace.json"), self.path, _WHAT)
        if header.get("format") != MAGIC:
            raise FormatError(f"{self.path}: not a perfkit trace")
        if not isinstance(header.get("version"), int) or not 1 <= header["version"] <= VERSION:
            raise FormatError(
                f"{self.path}: written in trace format {header.get('version')}, this perfkit reads up to {VERSION}; "
                "upgrade perfkit"
            )
        fields = {"isa": str, "instructions": int, "chunks": list, "provenance": dict, "version": int}
        check_fields(header, fields, self.path, "its header")
        return header

    def _read_provenance(self) -> Provenance:
        values = self._header["provenance"]
        texts = {k: str for k, v in asdict(Provenance()).items() if isinstance(v, str) and k in values}
        check_fields(values, {**texts, **{k: dict for k in ("extra", "sources") if k in values}}, self.path, _ORIGIN)
        for name in ("extra", "sources"):
            check_fields(
                values.get(name, {}), dict.fromkeys(values.get(name, {}), str), self.path, f"{_ORIGIN} ({name})"
            )
        try:
            return provenance_from_dict(values)
        except DataError as error:
            raise FormatError(f"{self.path}: {error}") from error

    def _read_code(self) -> StaticCode:
        try:
            tables = self._first_tables() if self._header["version"] == 1 else self._tables()
            code, operands = tables["instructions"], tables["operands"]
            if not all(isinstance(text, str) for name in ("text", "function", "file") for text in code.get(name, ())):
                raise DataError("its instructions have no text")
            return StaticCode(
                isa=self._header["isa"],
                pc=code["pc"],
                encoding=tuple(code["bytes"]),
                text=tuple(code["text"]),
                function=tuple(code["function"]),
                block_start=_offsets(tables["blocks"]["instructions"]),
                operand_start=_offsets(code["operands"]),
                read=operands["read"],
                write=operands["write"],
                size=operands["size"],
                # Only there where lines are known.
                **({"file": tuple(code["file"]), "line": code["line"]} if {"file", "line"} <= set(code) else {}),
            )
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, FormatError):
                raise
            raise FormatError(f"{self.path}: its static tables are damaged ({error})") from error

    def _tables(self) -> dict[str, dict[str, Any]]:
        """Return the tables of static code, each a mapping of columns."""
        tables = json_object(self._member("code.json"), self.path, "a trace's code")
        for name in ("instructions", "operands", "blocks"):
            check_fields(tables, {name: dict}, self.path, "its code")
            check_fields(tables[name], dict.fromkeys(tables[name], list), self.path, f"its {name}")
        tables["instructions"]["bytes"] = list(map(bytes.fromhex, tables["instructions"]["bytes"]))
        return tables

    def _first_tables(self) -> dict[str, dict[str, Any]]:
        """Return the same of the format's first version."""
        pa = of_extra("pyarrow")
        try:
            return {
                # pq.read_table imports pandas, as does to_numpy: that takes longer than simulating a small trace.
                name: arrow_table(arrow_buffer(self._member(f"{name}.parquet"))).to_pydict()
                for name in ("instructions", "operands", "blocks")
            }
        except pa.ArrowException as error:
            raise FormatError(f"{self.path}: its static tables are damaged ({error})") from error

    def _member(self, name: str) -> bytes:
        return member(self._archive, name, self.path, _WHAT)

    def _values(self, stream: str, number: int) -> NDArray[Any]:
        name, dtype = f"{stream}/{number:06}.zst", np.dtype(_STREAMS[stream])
        size = self.chunk_sizes[number][stream] * dtype.itemsize
        if size == 0:
            return np.empty(0, dtype=dtype)
        packed = self._member(name)
        try:
            claimed = zstandard.frame_content_size(packed)
            if claimed not in (-1, size):  # -1: it does not say
                raise FormatError(f"{self.path}: {name} should hold {size} bytes, and does not")
            data = zstandard.ZstdDecompressor().decompress(packed, max_output_size=size)
        except (zstandard.ZstdError, MemoryError) as error:
            raise FormatError(f"{self.path}: {name} is damaged ({error})") from error
        if len(data) != size:
            raise FormatError(f"{self.path}: {name} should hold {size} bytes, and does not")
        return np.frombuffer(data, dtype=dtype.newbyteorder("<")).astype(dtype, copy=False)


def _open(path: Path) -> zipfile.ZipFile:
    existing(path)
    try:
        with path.open("rb") as file:
            start = file.read(4)
    except OSError as error:
        raise FormatError(f"{path}: cannot be read ({error.strerror})") from error
    if start != b"PK\x03\x04":
        raise FormatError(
            f"{path}: not a perfkit trace (a ZIP archive with a trace.json); record a program, compiled with -g "
            "from any language: perfkit trace ./program -f FUNCTION -o work.trace"
        )
    try:
        return zipfile.ZipFile(path)
    except (zipfile.BadZipFile, NotImplementedError) as error:  # or packed as no version of today's does
        raise FormatError(f"{path}: truncated or damaged: {error}") from error


def _put(archive: zipfile.ZipFile, name: str, data: bytes, packed: int = zipfile.ZIP_STORED) -> None:
    archive.writestr(zipfile.ZipInfo(name, _EPOCH), data, packed)


def _compress(codec: zstandard.ZstdCompressor, values: NDArray[Any]) -> bytes:
    little = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<"))
    return codec.compress(little.view(np.uint8).data)


def _tables(code: StaticCode) -> dict[str, dict[str, list[Any]]]:
    places = {"file": list(code.file), "line": code.line.tolist()} if code.line.any() else {}
    return {
        "instructions": {
            "pc": code.pc.tolist(),
            "bytes": [one.hex() for one in code.encoding],
            "text": list(code.text),
            "function": list(code.function),
            "operands": np.diff(code.operand_start).tolist(),
            **places,
        },
        "operands": {name: getattr(code, name).tolist() for name in ("read", "write", "size")},
        "blocks": {"instructions": np.diff(code.block_start).tolist()},
    }


def _offsets(counts: list[int]) -> NDArray[np.int32]:
    return np.concatenate(([0], np.cumsum(flat(counts, np.int32, "counts"), dtype=np.int64))).astype(np.int32)


def _differences(
    stream: NDArray[np.uint32], starts: NDArray[np.int32], addresses: NDArray[np.uint64]
) -> NDArray[np.uint64]:
    """Return each address minus the last one of the same operand in this chunk (modulo 2**64)."""
    found = np.empty_like(addresses)
    if len(addresses) > _FEW:
        from perfkit.trace.loops import differences

        differences(stream, starts, addresses, found)
        return found
    order, firsts = _by_operand(stream, starts)
    ordered = addresses[order]
    steps = np.diff(ordered, prepend=np.uint64(0))
    steps[firsts] = ordered[firsts]
    found[order] = steps
    return found


def _sum_up(
    stream: NDArray[np.uint32], starts: NDArray[np.int32], steps: NDArray[np.uint64], addresses: NDArray[np.uint64]
) -> None:
    """Undo :func:`_differences`."""
    if len(addresses) > _FEW:
        from perfkit.trace.loops import sum_up

        sum_up(stream, starts, steps, addresses)
        return
    order, firsts = _by_operand(stream, starts)
    ordered = steps[order]
    sums = np.cumsum(ordered, dtype=np.uint64)
    # What the operands before have summed up to, taken off again (modulo 2**64).
    before = sums[firsts] - ordered[firsts]
    addresses[order] = sums - np.repeat(before, np.diff(np.append(firsts, len(order))))


def _by_operand(stream: NDArray[np.uint32], starts: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Order accesses by operand, in time within each; also where each operand's begin."""
    which = expand(stream, starts)
    order = np.argsort(which, kind="stable")
    ordered = which[order]
    firsts = np.flatnonzero(np.diff(ordered, prepend=np.int32(-1)))
    return order, firsts
