"""Which recent store a load's bytes come from, byte by byte.

A store's data can be forwarded to a load only where one store wrote all of the load's bytes; where some come from
elsewhere, the load waits until the store is in the cache (Intel 64 and IA-32 Architectures Optimization Reference
Manual, "Store Forwarding"). Stores to other bytes of the same word do not matter.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from perfkit.simulators.compiled import inlined

RECENT = 255  # stores that may still be in a store buffer, also one of twice the size; a power of two less one
_U: Any = np.uint64


class Stores(NamedTuple):
    """A ring of the last stores, by their number modulo ``RECENT + 1``; ``number`` is that of the last one."""

    number: NDArray[np.int64]
    address: NDArray[np.int64]
    width: NDArray[np.int64]  # bytes; 0 nothing stored, -1 several places
    expression: NDArray[np.int32]  # which address expression it has
    vector: NDArray[np.bool_]
    before: NDArray[np.int64]  # (stores, 2) the store before to its first and to its last granule


def recent_stores() -> Stores:
    """Return the ring before the first store."""
    size = RECENT + 1
    return Stores(
        np.full(1, RECENT, dtype=np.int64),
        np.zeros(size, dtype=np.int64),
        np.zeros(size, dtype=np.int64),
        np.zeros(size, dtype=np.int32),
        np.zeros(size, dtype=np.bool_),
        np.zeros((size, 2), dtype=np.int64),
    )


@inlined
def source(  # pragma: no cover - compiled
    recent: Any, writer: Any, written: Any, begin: Any, until: Any, address: Any, width: Any
) -> Any:
    """Return (the newest store to any of a load's bytes, whether it wrote all of them); 0 where none is recent.

    ``writer`` holds the last store to each granule of 8 bytes, ``begin`` to ``until`` are the load's.
    """
    newest = np.int64(0)
    same = True
    end = address + width
    for q in range(begin, until):
        low = max(address, ((address >> 3) + (q - begin)) << 3)
        high = min(end, ((address >> 3) + (q - begin) + 1) << 3)
        n = writer[_U(q)]
        while n > written - RECENT:
            k = _U(n & RECENT)
            w = recent.width[k]
            if w < 0 or (recent.address[k] < high and recent.address[k] + w > low):
                break
            n = recent.before[k, 0 if recent.address[k] >> 3 == low >> 3 else 1]
        if n <= written - RECENT:
            n = np.int64(0)
        if q > begin and n != newest:
            same = False
        newest = max(newest, n)
    k = _U(newest & RECENT)
    whole = same and recent.address[k] <= address and recent.address[k] + recent.width[k] >= end
    return newest, whole
