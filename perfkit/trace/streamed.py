"""A trace that stays in its file: for simulators that go through it once, however long it is."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfkit.errors import DataError
from perfkit.trace.file import TraceFile
from perfkit.trace.trace import Trace, TraceChunk


class StreamedTrace(Trace):
    """A `Trace` whose streams are read from its file piece by piece, every time they are gone through.

    Everything that goes through a trace in chunks works (all of Gus does); what needs a whole stream at once says so.

    Parameters
    ----------
    path : path
        A trace file; it must stay as it is.
    """

    def __init__(self, path: str | Path) -> None:
        with TraceFile(path) as file:
            values = {"path": file.path, "code": file.code, "provenance": file.provenance}
            values |= {"_sizes": tuple(file.chunk_sizes), "_instructions": file.instruction_count}
        for name, value in values.items():  # the class is frozen
            object.__setattr__(self, name, value)

    path: Path
    _sizes: tuple[dict[str, int], ...]
    _instructions: int

    def _whole(self) -> Any:
        raise DataError(f"{self.path} is read piece by piece; load it with Trace.load to have its streams at once")

    stream = property(_whole)
    addresses = property(_whole)
    sizes = property(_whole)

    @property
    def instruction_count(self) -> int:
        """Executed instructions."""
        return self._instructions

    @property
    def blocks_executed(self) -> int:
        """Executed basic blocks."""
        return sum(chunk["stream"] for chunk in self._sizes)

    @property
    def access_count(self) -> int:
        """Recorded memory operands."""
        return sum(chunk["addresses"] for chunk in self._sizes)

    @cached_property
    def _counts(self) -> NDArray[np.int64]:
        counts = np.zeros(self.code.block_count, dtype=np.int64)
        for chunk in self.chunks(1 << 20):
            counts += np.bincount(chunk.stream, minlength=len(counts))
        return counts

    def block_counts(self) -> NDArray[np.int64]:
        """How often each block ran, shape (b,); goes through the file the first time."""
        return self._counts.copy()

    def chunks(self, blocks: int = 1 << 18) -> Iterator[TraceChunk]:
        """Go through the trace in windows of at most `blocks` executed blocks."""
        with TraceFile(self.path) as file:
            for piece in file.chunks():
                part = Trace(self.code, piece.stream, piece.addresses, piece.sizes, self.provenance)
                for chunk in part.chunks(blocks):
                    yield replace(
                        chunk,
                        first_instruction=piece.first_instruction + chunk.first_instruction,
                        first_access=piece.first_access + chunk.first_access,
                    )

    def head(self, instructions: int) -> Trace:  # type: ignore[override]
        """Return the longest run of whole blocks from the start with at most `instructions`, in memory."""
        lengths = np.diff(self.code.block_start).astype(np.int64)
        parts: list[TraceChunk] = []
        for chunk in self.chunks():
            parts.append(chunk)
            if chunk.first_instruction + int(lengths[chunk.stream].sum()) >= instructions:
                break
        stream, addresses, sizes = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("stream", "addresses", "sizes")
        )
        start = Trace(self.code, stream, addresses, sizes, self.provenance)
        return start if start.instruction_count < instructions else start.head(instructions)

    def save(self, path: str | Path, *, level: int = 3) -> Path:  # noqa: ARG002 - its file is compressed already
        """Copy the file."""
        return Path(shutil.copyfile(self.path, path))
