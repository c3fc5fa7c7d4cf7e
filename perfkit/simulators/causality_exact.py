"""The paper's tainting, to the letter, for short traces: Algorithm 1 in plain Python with a set of instructions a time.

Every quantity of the simulation is a pair (tick, taint): ``ConstrainBy`` keeps the later of two and joins the taints
of equals (lines 1-6), ``UsedBy`` adds the instruction that uses a resource (lines 10-16). A taint is an integer with a
bit for each of the last 2 ROB dynamic instructions. When an instruction leaves that window, it has a share in the run's
length if it is in the taint of the dispatch then (lines 42-44); what is still in the window at the end is judged by the
taint of the last retirement.

Slow (some 20 000 instructions a second) and simple: the oracle for the fast versions, of times and of shares.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from perfkit.simulators.cache import ABSENT, SPLIT
from perfkit.simulators.gus import CHUNK, Gus, check, commit_ticks
from perfkit.simulators.machine import Lanes
from perfkit.simulators.program import REGISTERS, Program

if TYPE_CHECKING:
    from perfkit.trace import Trace

Tainted = tuple[int, int]  # ticks, taint
NEVER: Tainted = (0, 0)


def later(this: Tainted, other: Tainted, delay: int = 0) -> Tainted:
    """ConstrainBy: `this`, not before `other` and a delay."""
    tick = other[0] + delay
    if tick > this[0]:
        return tick, other[1]
    return (this[0], this[1] | other[1]) if tick == this[0] else this


def used(this: Tainted, earliest: int, cost: int, bit: int) -> Tainted:
    """UsedBy: the resource after an instruction used it."""
    if this[0] < earliest:
        return earliest + cost, bit
    return this[0] + cost, this[1] | bit


@dataclass
class ExactRun:
    """What `run_exact` found: total ticks, how often each static instruction was in a cause, and of how many."""

    ticks: int
    counts: NDArray[np.int64]
    retired: list[int]


def run_exact(gus: Gus, trace: Trace, window: int | None = None, in_turns: bool = False) -> ExactRun:
    """Simulate a (short) trace with taints.

    Parameters
    ----------
    gus, trace
        As for `Gus.run`.
    window
        The taint queue's length in instructions; None: twice the ROB.
    in_turns
        Judge instructions when the fast version does (every half window), not each as it leaves the window: then the
        two must find the same.
    """
    check(trace, gus.core)
    code = trace.code
    tables = gus.instruction_tables()
    program = Program.of(code, gus.core, tables)
    lanes = Lanes.of(program, code, [gus.core])
    machine = _Machine(lanes, commit_ticks(tables), window or 2 * int(lanes.rob[0]), in_turns)
    caches = gus.caches(trace)
    for chunk in trace.chunks(CHUNK):
        codes, distances = caches.classify(trace, chunk)
        at = 0
        for block in chunk.stream.tolist():
            for i in range(int(code.block_start[block]), int(code.block_start[block + 1])):
                first, last = int(code.operand_start[i]), int(code.operand_start[i + 1])
                operands = [
                    (
                        int(codes[at + k]),
                        int(distances[at + k]),
                        bool(code.read[m]),
                        bool(code.write[m]),
                        int(lanes.l1[m, 0]),
                    )
                    for k, m in enumerate(range(first, last))
                ]
                at += last - first
                machine.step(i, program, operands)
    counts = np.bincount(machine.finish(), minlength=code.instruction_count)
    return ExactRun(machine.retired[0], counts.astype(np.int64), machine.retirements)


class _Machine:
    """The state of the simulated core; `step` runs one dynamic instruction."""

    def __init__(self, lanes: Lanes, commit: int, window: int, in_turns: bool) -> None:
        self.lanes, self.commit, self.window, self.in_turns = lanes, commit, window, in_turns
        self.judged = 0
        self.now: Tainted = NEVER
        self.front: Tainted = NEVER
        self.retired: Tainted = NEVER
        self.committed: Tainted = NEVER
        self.registers: list[Tainted] = [NEVER] * REGISTERS
        self.resources: list[Tainted] = [NEVER] * (len(lanes.ports) + 4)
        self.rob: list[Tainted] = []
        self.loads: list[Tainted] = []
        self.commits: list[Tainted] = []
        self.stored: list[Tainted] = []
        self.fills: list[Tainted] = []
        self.order: list[int] = []
        self.caused: list[int] = []
        self.retirements: list[int] = []

    def _old(self, queue: list[Tainted], back: int) -> Tainted:
        return queue[len(queue) - back] if 0 < back <= len(queue) else NEVER

    def step(self, i: int, program: Program, operands: list[tuple[int, int, bool, bool, int]]) -> None:
        lanes, resources = self.lanes, self.resources
        bit = 1 << len(self.order)
        self.order.append(i)
        present = [operand for operand in operands if not operand[0] & ABSENT]
        loading, storing = sum(o[2] for o in present), sum(o[3] for o in present)
        taken = int(program.uops[i])
        now = self.now
        if taken:
            now = later(now, self._old(self.rob, int(lanes.rob[0]) - taken + 1))
        if loading:
            now = later(now, self._old(self.loads, int(lanes.load_buffer[0]) - loading + 1))
        if storing:
            now = later(now, self._old(self.commits, int(lanes.store_buffer[0]) - storing + 1))
        self.front = used(later(self.front, now), now[0], taken * int(lanes.front_end[0]), bit)
        now = self.now = later(now, self.front)

        issue = now
        for register in _row(program.address_reads, i):
            issue = later(issue, self.registers[register])
        access = _use_row(lanes.access_uses, i)
        for port, cost in access:
            issue = later(issue, resources[port])
            resources[port] = used(resources[port], now[0], cost, bit)
        data: Tainted | None = None
        reached, seen = issue, 0
        ports = len(lanes.ports)
        address = int(lanes.address_latency[i, 0])
        for code, back, reads, writes, l1 in operands:
            if code & ABSENT:
                seen += writes
                continue
            begin = issue
            if code & SPLIT:
                for port, cost in access:
                    resources[port] = (resources[port][0] + cost, resources[port][1])
            if reads:
                begin = later(begin, resources[ports])
                resources[ports] = used(resources[ports], now[0], l1, bit)
            for link in range(3):
                lines = (code >> (2 + 3 * link)) & 7
                if lines:
                    place = ports + 1 + link
                    begin = later(begin, resources[place])
                    resources[place] = used(resources[place], now[0], lines * int(lanes.links[link, 0]), bit)
            level = code & 3
            if level:
                begin = later(begin, self._old(self.fills, int(lanes.line_fill_buffers[0])))
            there: Tainted = (begin[0] + address + int(lanes.farther[level, 0]), begin[1])
            if level:
                self.fills.append(there)
            if reads:
                if back:
                    vector = int(program.vector[i])
                    stored = self.stored[len(self.stored) + seen - back] if back - seen <= len(self.stored) else NEVER
                    there = later(there, stored, int(lanes.forward[vector, 0]))
                data = there if data is None else later(data, there)
            if writes:
                seen += 1
                reached = later(reached, there if level else begin)

        ready = now
        for register in _row(program.data_reads, i):
            ready = later(ready, self.registers[register])
        for port, cost in _use_row(lanes.compute_uses, i):
            ready = later(ready, resources[port])
            resources[port] = used(resources[port], now[0], cost, bit)
        end: Tainted = (ready[0] + int(lanes.latency[i, 0]), ready[1])
        if data is not None:
            end = later(end, data, int(lanes.memory_latency[i, 0]))
        end = (end[0], end[1] | bit)
        for register in _row(program.writes, i):
            self.registers[register] = end
        done = later(end, issue) if storing else end
        done = (done[0], done[1] | bit)
        self.stored += [done] * seen
        self.retired = later((self.retired[0] + taken * int(lanes.retire[0]), self.retired[1] | bit), done)
        self.rob += [self.retired] * taken
        self.loads += [self.retired] * loading
        for _ in range(storing):
            self.committed = later((self.committed[0] + self.commit, self.committed[1] | bit), self.retired)
            self.committed = later(self.committed, reached)
            self.committed = (self.committed[0], self.committed[1] | bit)
            self.commits.append(self.committed)
        # In `commits` the store buffer counts stores that access memory; `stored` counts every store operand.
        self.retirements.append(self.retired[0])
        count, every = len(self.order), max(self.window // 2, 1)
        if not self.in_turns:
            self._judge(count - self.window + 1, self.now[1])
        elif count % every == 0 and count >= self.window:
            self._judge(count - self.window + every // 2, self.now[1])

    def _judge(self, until: int, taint: int) -> None:
        """Decide for the instructions before `until` that are not decided yet whether they are in a taint."""
        for old in range(self.judged, until):
            if taint >> old & 1:
                self.caused.append(self.order[old])
        self.judged = max(self.judged, until)

    def finish(self) -> list[int]:
        """Judge what is still in the window by the last retirement; return the causes, an entry each time."""
        self._judge(len(self.order), self.retired[1])
        return self.caused


def _row(ragged: tuple[Any, Any], i: int) -> list[int]:
    return list(ragged[1][ragged[0][i] : ragged[0][i + 1]].tolist())


def _use_row(uses: tuple[Any, Any, Any], i: int) -> list[tuple[int, int]]:
    part = slice(uses[0][i], uses[0][i + 1])
    return list(zip(uses[1][part].tolist(), uses[2][part, 0].tolist(), strict=True))
