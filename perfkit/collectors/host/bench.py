"""Time assembled loops on this host in core cycles, with the clock of `perfkit.collectors.host.cycle_clock`."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import re
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfkit.collectors.host.code import assemble, chained, flags, iced, independent, stamp_code
from perfkit.collectors.host.cycle_clock import CHAIN, QUANTILE, TURNS, WIDTH, judge, link_cycles
from perfkit.errors import UnavailableError

BODY = 48  # instructions in one pass of a measured loop
WINDOW = 8000  # cycles of the shortest window
_UNROLL = 256  # of the clock's chains
_ADDED = ("RAX", "RBX", "RDX", "R8", "R9", "R10", "R11", "R12")  # by the probe of width
_ROUNDS = 40  # times the wanted samples that are tried on a busy machine before giving up
_CODE, _CHAINS = 1 << 16, 1 << 14  # bytes for a measured loop, and for each of the clock's loops before it
_LOOPS = 4  # of the clock
_RECENT = 500  # samples that the quiet core's width is learnt from
_WAIT = 2.0  # seconds that one figure may wait for a quiet core
FASTEST = 16  # instructions per cycle: more than any core finishes; what seems faster was disturbed
_TRIES = 4  # of two windows whose difference is no time

Ticks = Callable[[int, int], int]


class Bench:
    """Assembles loops, times them in ticks, and turns these into cycles.

    Every sample is timed between two readings of the clock, and rejected where these differ or a probe says that the
    core's other hardware thread was at work; a low quantile of those kept is quoted.

    Parameters
    ----------
    repetitions
        Samples per figure.
    patience
        Seconds, over all figures, to wait for a quiet core.

    Attributes
    ----------
    taken, rejected, busy
        Samples, those whose clock was not steady, and the steady ones beside a busy thread.
    """

    def __init__(self, repetitions: int, patience: float = 60.0) -> None:
        self.repetitions, self.patience = repetitions, patience
        self.taken = self.rejected = self.busy = 0
        self._recent = np.empty((0, 7), dtype=np.int64)
        self._code = mmap.mmap(-1, _CODE + _LOOPS * _CHAINS, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(self._code))
        self.data = np.zeros(1 << 13, dtype=np.uint64)
        self.base = (self.data.ctypes.data + 4095) & ~4095
        self.data[(self.base - self.data.ctypes.data) // 8] = self.base  # a pointer chase of one place
        empty = self._place(assemble([]), _LOOPS * _CHAINS)
        self.overhead = min(empty(1, self.base) for _ in range(100))
        ix = iced()
        rax, rcx = ix.Register.RAX, ix.Register.RCX
        add = ix.Instruction.create_reg_reg(ix.Code.ADD_RM64_R64, rax, rcx)
        multiply = ix.Instruction.create_reg_reg(ix.Code.IMUL_R64_RM64, rax, rcx)
        additions = self._place(assemble([add] * _UNROLL), _CHAINS)
        self._clock = self._place(assemble([multiply] * _UNROLL), 0)
        several = [r for name, r in vars(ix.Register).items() if name in _ADDED]
        wide = [ix.Instruction.create_reg_reg(ix.Code.ADD_RM64_R64, r, rcx) for r in several]
        self._width = self._place(assemble(wide * 8), 2 * _CHAINS)
        self._turns = self._place(assemble([add]), 3 * _CHAINS)
        self.link = self._link(additions)
        self.rates: list[float] = []

    def _link(self, additions: Ticks) -> int:
        """Find a multiplication's cycles; a busy machine gets some chances."""

        def pairs() -> NDArray[np.int64]:
            found = [(self._chain(additions), self._chain(self._clock)) for _ in range(103)]
            return np.array(found[3:], dtype=np.int64)

        for _ in range(9):
            with contextlib.suppress(UnavailableError):
                return link_cycles(pairs())
        return link_cycles(pairs())

    def _chain(self, clock: Ticks) -> int:
        return clock(CHAIN // _UNROLL, self.base) - self.overhead

    def _probe(self, loop: Ticks, turns: int) -> int:
        loop(1, self.base)  # what was measured may have evicted the code
        return loop(turns, self.base) - self.overhead

    def _before(self) -> list[int]:
        chain = self._chain(self._clock)
        return [chain, self._probe(self._width, WIDTH // 64), self._probe(self._turns, TURNS)]

    def _after(self) -> list[int]:
        turns, width = self._probe(self._turns, TURNS), self._probe(self._width, WIDTH // 64)
        return [self._chain(self._clock), width, turns]

    def _place(self, code: bytes, where: int) -> Ticks:
        self._code.seek(where)
        self._code.write(code)
        return ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64)(self._address + where)

    def load(self, body: Sequence[Any], before: Sequence[Any] = ()) -> Ticks:
        """Assemble a loop; return ticks(passes, memory). The loop loaded before is lost."""
        return self._place(assemble(body, before), _LOOPS * _CHAINS)

    def window(
        self,
        loop: Ticks,
        passes: int,
        base: Callable[[], int] | None = None,
        repetitions: int | None = None,
        quantile: float = QUANTILE,
    ) -> float:
        """Return the cycles of `passes` of a loop: the quoted quantile of the quiet samples.

        `base` gives each sample the address that its memory starts at.

        Raises
        ------
        UnavailableError
            Nearly every sample was rejected, or ran beside a busy thread: no figure can be told now.
        """
        where = base if base is not None else lambda: self.base
        wanted = repetitions or self.repetitions
        loop(passes, where())
        kept: list[float] = []
        taken = rejected = busy = 0
        start = time.monotonic()
        until = start + min(_WAIT, self.patience)
        while taken < _ROUNDS * wanted or (busy and time.monotonic() < until):
            ticks = np.empty((wanted, 7), dtype=np.int64)
            for row in ticks:
                address = where()
                row[:3] = self._before()
                row[3] = loop(passes, address) - self.overhead
                row[4:] = self._after()
            judged = judge(np.concatenate([self._recent, ticks]), self.link)
            quiet = judged.quiet[-wanted:]
            self._recent = np.concatenate([self._recent, ticks])[-_RECENT:]
            taken, busy = taken + wanted, busy + int(np.count_nonzero(judged.busy[-wanted:]))
            rejected = taken - busy - len(kept) - int(np.count_nonzero(quiet))
            kept += judged.cycles[-wanted:][quiet].tolist()
            self.rates += judged.rates[-wanted:][quiet].tolist()
            if len(kept) >= max(3, wanted // 2):
                break
        self.taken, self.rejected, self.busy = self.taken + taken, self.rejected + rejected, self.busy + busy
        self.patience -= time.monotonic() - start if taken >= _ROUNDS * wanted else 0
        if len(kept) >= max(3, wanted // 2):
            return float(np.quantile(kept, quantile))
        if busy > rejected:
            raise UnavailableError(
                f"{busy} of {taken} samples ran beside a busy thread of the same core, and too few on a quiet one; "
                "try again when the machine is quieter"
            )
        raise UnavailableError(
            f"{rejected} of {taken} samples were rejected, because the clock's chains before and after them "
            "differed: this machine is too busy, or its clock changes too often; run on a quieter one, or pin the "
            "frequency"
        )

    def cycles(self, body: Sequence[Any], count: int = 1, before: Sequence[Any] = ()) -> float:
        """Return cycles of one pass of a loop, divided by `count`; what the loop costs only once is subtracted.

        Raises
        ------
        UnavailableError
            The machine is too busy, or the longer of two windows took no more time than the shorter again and again:
            a core that throttles itself, as at the first 512-bit instructions, has both rates in one figure.
        """
        loop = self.load(body, before)
        for _ in range(_TRIES):
            once = self.window(loop, 16, repetitions=5) / 16
            passes = max(16, round(WINDOW / max(once, 1)))
            found = (self.window(loop, 3 * passes) - self.window(loop, passes)) / (2 * passes)
            if found * FASTEST >= len(body):
                return found / count
        raise UnavailableError(
            f"a loop of {len(body)} instructions seemed to take {found:.2f} cycles, more than {FASTEST} instructions "
            "per cycle: the core's rate changed while it was timed; try again when the machine is quieter"
        )

    def form(self, form: str) -> tuple[float | None, float | None]:
        """Return latency (None where operand and result cannot be chained) and cycles per instruction of a form."""
        self.fill("PS" if re.search(r"[PS]S(_|$)", form) else "PD")
        chain, several = chained(form), independent(form)
        before: list[Any] = []
        if "MM" in form and not form.startswith(("VEX_", "EVEX_")) and "avx" in flags():
            # An instruction of SSE keeps the upper half of its result, and waits for it unless it is known to be zero.
            before = [iced().Instruction.create(iced().Code.VEX_VZEROUPPER)]
        latency = self.cycles(chain * BODY, BODY, before) if chain else None
        throughput = None
        if several:
            many = several * max(BODY // len(several), 1)
            throughput = self.cycles(many, len(many), before)
        return latency, throughput

    def fill(self, kind: str) -> None:
        """Fill the vector registers' source with numbers just above one: no chain leaves the normal numbers."""
        line = (self.base - self.data.ctypes.data) // 8 + 8
        self.data[line : line + 8] = {"PS": 0x3F80_0001_3F80_0001, "PD": 0x3FF0_0000_1000_0001}[kind]

    def cycle_seconds(self) -> float:
        """Return seconds per core cycle: the median ticks per cycle while measuring, over ticks per second."""
        stamp = self._place(stamp_code(), _LOOPS * _CHAINS)
        start, first = time.perf_counter(), stamp(0, self.base)
        time.sleep(0.05)
        end, last = time.perf_counter(), stamp(0, self.base)
        return float(np.median(self.rates)) * (end - start) / (last - first)
