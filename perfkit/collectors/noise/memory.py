"""What a process changed in its memory: of two that were forked from the same one, the pages that differ."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

PAGE = 4096
_OWN, _SWAPPED, _PRESENT = 1 << 56, 1 << 62, 1 << 63  # bits of /proc/PID/pagemap: mapped by no other process, ...
Span = tuple[int, int]


@dataclass(frozen=True)
class MappedArea:
    """Memory that a process may write: its first address, the one behind its end, what /proc/PID/maps calls it."""

    start: int
    end: int
    name: str
    shared: bool


def writable(process: int | str = "self") -> list[MappedArea]:
    """List the memory that a process may write."""
    found = []
    for line in Path(f"/proc/{process}/maps").read_text().splitlines():
        words = line.split(maxsplit=5)
        if words[1].startswith("rw"):
            start, end = (int(word, 16) for word in words[0].split("-"))
            found.append(MappedArea(start, end, words[5] if len(words) > 5 else "", words[1].endswith("s")))
    return found


def without(areas: Sequence[MappedArea], left_out: Sequence[Span]) -> list[Span]:
    """Return the addresses of private areas but for some spans."""
    spans = [(area.start, area.end) for area in areas if not area.shared]
    for first, last in left_out:
        spans = [part for a, b in spans for part in ((a, min(b, first)), (max(a, last), b)) if part[0] < part[1]]
    return spans


def own_pages(process: int, spans: Sequence[Span]) -> NDArray[np.int64]:
    """Return the pages that a process shares with no other, as it wrote them after it was forked: their addresses."""
    found = [np.zeros(0, dtype=np.int64)]
    with Path(f"/proc/{process}/pagemap").open("rb") as pagemap:
        for start, end in spans:
            first, last = start // PAGE, -(-end // PAGE)
            pagemap.seek(8 * first)
            bits = np.frombuffer(pagemap.read(8 * (last - first)), dtype=np.uint64)
            mine = ((bits & np.uint64(_PRESENT) > 0) & (bits & np.uint64(_OWN) > 0)) | (bits & np.uint64(_SWAPPED) > 0)
            found.append((first + np.flatnonzero(mine)) * PAGE)
    return np.unique(np.concatenate(found))


def changed_spans(one: int, other: int, left_out: Sequence[Span]) -> list[Span]:
    """Return where the memory of two processes differs, in whole pages but for the spans that are left out.

    Both were forked from the same process, without a step between. Memory that only one of them has counts as a
    difference.
    """
    spans = [without(writable(process), left_out) for process in (one, other)]
    pages = np.union1d(*(own_pages(process, each) for process, each in zip((one, other), spans, strict=True)))
    handles = [os.open(f"/proc/{process}/mem", os.O_RDONLY) for process in (one, other)]
    try:
        found = []
        for page in pages.tolist():
            for first, last in _within(page, spans):
                if _read(handles[0], first, last) != _read(handles[1], first, last):
                    found.append((first, last))
        return joined(found)
    finally:
        for handle in handles:
            os.close(handle)


def joined(spans: Sequence[Span]) -> list[Span]:
    """Join spans that touch; they come in order."""
    found: list[Span] = []
    for first, last in spans:
        if found and found[-1][1] == first:
            found[-1] = (found[-1][0], last)
        else:
            found.append((first, last))
    return found


def _within(page: int, spans: Sequence[Sequence[Span]]) -> list[Span]:
    """Return the parts of a page that either process has, without what is left out."""
    found = {
        (max(a, page), min(b, page + PAGE)) for each in spans for a, b in each if a < page + PAGE and b > page
    }  # fmt: skip
    return sorted(found)


def _read(handle: int, first: int, last: int) -> bytes | None:
    try:
        return os.pread(handle, last - first, first)
    except OSError:
        return None
