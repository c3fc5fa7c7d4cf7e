"""Arrays between pages that nothing may touch: how a kernel's first run tells an access outside of its arrays.

Behind an array of numpy lies what the process needs: a store there ends it much later, or leaves it wrong.
"""

from __future__ import annotations

import ctypes
import mmap
import signal
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

_PAGE = mmap.PAGESIZE
_FENCE = 1 << 26  # bytes that nothing may touch: a row beyond the last, not a page alone; they take no memory
_PATTERN = 0xA5  # what lies in the rest of an array's pages, where no fence can
_SA_SIGINFO = 4
_ADDRESS = 16  # where siginfo_t has the address of a fault


class Beyond(NamedTuple):
    """Where a kernel left its arrays.

    Parameters
    ----------
    span
        The number, from 0, of the span that was left: an array, or several that share memory.
    offset
        The byte that was accessed, counted from the span's begin; less than 0 before it.
    stored
        Whether a changed byte told of it, which a load does not leave.
    """

    span: int
    offset: int
    stored: bool


class Fences:
    """Copies of spans of memory, each of which ends where a fence begins, or less than `aligned` bytes before.

    Parameters
    ----------
    spans
        Where the arrays lie: begin and end; of arrays that share memory, the whole of it.
    aligned
        Each begins at a multiple of so many bytes, which the code may rely on.
    """

    def __init__(self, spans: Sequence[tuple[int, int]], aligned: int) -> None:
        self._spans = list(spans)
        self._rooms = [_fenced(end - begin, aligned) for begin, end in spans]
        for (begin, end), (_, _, at) in zip(self._spans, self._rooms, strict=True):
            ctypes.memmove(at, begin, end - begin)

    def place(self, address: int) -> int | None:
        """Return where the copy has what lies at an address, None where no array begins or lies there."""
        inside = (n for n, (begin, end) in enumerate(self._spans) if begin <= address < max(end, begin + 1))
        number = next(inside, None)
        return None if number is None else self._rooms[number][2] + address - self._spans[number][0]

    def changed(self) -> Beyond | None:
        """Return the first byte beside an array that is not what it was."""
        for number, ((begin, end), (room, low, at)) in enumerate(zip(self._spans, self._rooms, strict=True)):
            pages = np.frombuffer(room, dtype=np.uint8)[_FENCE:-_FENCE]
            first, size = at - low - _FENCE, end - begin
            for start, part in ((first + size, pages[first + size :]), (0, pages[:first])):
                if (other := np.flatnonzero(part != _PATTERN)).size:
                    nearest = other[0] if start else other[-1]
                    return Beyond(number, int(start + nearest - first), True)
        return None

    def met(self, address: int) -> Beyond | None:
        """Return which array's fence an address lies in."""
        for number, (room, low, at) in enumerate(self._rooms):
            if low <= address < low + len(room):
                return Beyond(number, address - at, False)
        return None

    def watch(self, tell: Callable[[Beyond], None]) -> Any:
        """Call `tell` with what a fault at a fence says, in the fault's handler; return what must be kept for it."""

        def handle(number: int, info: int, _: int) -> None:
            found = self.met(ctypes.c_uint64.from_address(info + _ADDRESS).value)
            if found is not None:
                tell(found)
            signal.signal(number, signal.SIG_DFL)  # the instruction faults again

        handler = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(handle)
        action = _Action(ctypes.cast(handler, ctypes.c_void_p), flags=_SA_SIGINFO)
        ctypes.CDLL(None).sigaction(int(signal.SIGSEGV), ctypes.byref(action), None)
        return handler


class _Action(ctypes.Structure):
    """What glibc's sigaction takes."""

    _fields_ = (
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_ulong * (128 // ctypes.sizeof(ctypes.c_ulong))),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    )


def _fenced(size: int, aligned: int) -> tuple[mmap.mmap, int, int]:
    """Return pages with a fence before and behind them, where these begin, and where so many bytes go at their end."""
    kept = -(-size // _PAGE) * _PAGE
    room = mmap.mmap(-1, kept + 2 * _FENCE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=0)
    pages: npt.NDArray[np.uint8] = np.frombuffer(room, dtype=np.uint8)
    low, libc = pages.ctypes.data, ctypes.CDLL(None, use_errno=True)
    begin = low + _FENCE
    if libc.mprotect(ctypes.c_void_p(begin), ctypes.c_size_t(kept), mmap.PROT_READ | mmap.PROT_WRITE):
        raise OSError(ctypes.get_errno(), "no room between fences")
    ctypes.memset(begin, _PATTERN, kept)
    return room, low, (begin + kept - size) // aligned * aligned
