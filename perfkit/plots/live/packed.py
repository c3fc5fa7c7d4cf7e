"""A model for the browser: a head of plain values and some arrays, packed into one string of bytes.

The layout, which ``widgets/live/src/packed.ts`` reads: the magic word, the length of the head (4 bytes, little-endian)
and 4 bytes of zero, the head as JSON (its entry ``arrays`` says of each array its type, place and length), and the
arrays, each at a multiple of 8 bytes.
"""

import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from perfkit.errors import DataError
from perfkit.plots.style import kind_note

_MAGIC = b"PKLIVE01"
_TYPES = {"f8": "<f8", "f4": "<f4", "i4": "<i4"}
LARGEST = 24 << 20  # bytes; beyond it a page takes seconds to open on a phone


@dataclass(frozen=True, eq=False)
class LiveModel:
    """What a view in the browser computes with.

    Attributes
    ----------
    head : mapping
        Plain values, among them ``view`` (which one shows it), ``key`` (its name in a page's address), ``title``,
        ``kind`` (measured, simulated, ...) and ``note`` (what a picture says of data that was not measured).
    arrays : mapping of str to array
        One-dimensional arrays of float64, float32 or int32.
    """

    head: Mapping[str, Any]
    arrays: Mapping[str, np.ndarray]

    @classmethod
    def of(
        cls,
        view: str,
        title: str,
        kind: str,
        head: Mapping[str, Any],
        arrays: Mapping[str, np.ndarray],
        names: Iterable[str] = (),
    ) -> "LiveModel":
        """Make a model; ``names`` are what tells this view from others of its sort, for its key in an address."""
        word = "\n".join([title, *names]).encode()
        key = f"{view}-{zlib.crc32(word):08x}"
        common = {"view": view, "key": key, "title": title, "kind": kind, "note": kind_note(kind)}
        return cls({**common, **head}, arrays)

    def packed(self) -> bytes:
        """Return the bytes that the browser unpacks.

        Raises
        ------
        DataError
            They are more than a page should hold.
        """
        described: dict[str, tuple[str, int, int]] = {}
        parts, at = [], 0
        for name, array in self.arrays.items():
            short = f"{array.dtype.kind}{array.dtype.itemsize}"
            data = np.ascontiguousarray(array, dtype=_TYPES[short]).tobytes()
            described[name] = (short, at, array.size)
            parts.append(data + bytes(-len(data) % 8))
            at += len(parts[-1])
        if at > LARGEST:
            raise DataError(
                f"{self.head['title']}: this view would take {at / 1e6:.0f} MB into the page, and at most "
                f"{LARGEST / 1e6:.0f} are sensible. Give it fewer events, or a part of the run (samples.select)."
            )
        text = self._head_text(described, 0)
        while True:  # the places stand in the head, whose length they depend on
            start = 16 + len(text)
            moved = self._head_text(described, start)
            if len(moved) == len(text):
                return _MAGIC + len(text).to_bytes(4, "little") + bytes(4) + moved + b"".join(parts)
            text = moved

    def _head_text(self, described: Mapping[str, tuple[str, int, int]], start: int) -> bytes:
        arrays = {name: (kind, at + start, size) for name, (kind, at, size) in described.items()}
        text = json.dumps({**self.head, "arrays": arrays}, allow_nan=False, ensure_ascii=False).encode()
        return text + b" " * (-len(text) % 8)
