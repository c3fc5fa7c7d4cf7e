"""The events of the simulated PMU: what each counts, and how it is counted from a trace and the simulation's state."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perfkit.simulators.gus import timing
from perfkit.simulators.pmu.cycles import EVENTS as CYCLE_EVENTS
from perfkit.simulators.pmu.stepping import RECORDED, Stepping
from perfkit.simulators.program.program import CONDITIONAL, INDIRECT, RETURN
from perfkit.trace.code import NO_ACCESS, TraceChunk, expand

# Stalls that the simulation accounts for exactly, and that real PMUs have counters for: event -> cause of the account.
STALLS = {
    "stall.front_end": "front_end",
    "stall.misprediction": "misprediction_penalty",
    "stall.rob": "rob",
    "stall.load_buffer": "load_buffer",
    "stall.store_buffer": "store_buffer",
    "stall.line_fill_buffers": "line_fill_buffers",
    "stall.scheduler": "vector_scheduler",
    "stall.second_tlb": "second_tlb_latency",
    "stall.page_walk": "page_walk_latency",
}
PORT_PREFIX = "uops."

# Event -> unit, and what one count is.
DESCRIPTIONS: dict[str, tuple[str, str]] = {
    "cycles": ("cycles", "simulated time: from one interval's last retirement to the next one's"),
    "instructions": ("instructions", "executed instructions"),
    "uops": ("uops", "fused uops: slots taken at rename, in the ROB and at retirement"),
    "branches": (
        "branches",
        "executed conditional branches, indirect jumps and calls, and returns (the ones the model predicts)",
    ),
    "branch-misses": ("branches", "branches that the model's predictor got wrong"),
    "mem-loads": ("accesses", "recorded memory operands that were read; a gather has one per lane"),
    "mem-stores": ("accesses", "recorded memory operands that were written"),
    "mem-splits": ("accesses", "accesses that crossed a cache line"),
    "store-forwards": ("accesses", "loads of a word that one of the last stores (as many as the store buffer) wrote"),
    "l1.accesses": ("lines", "lines that loads and stores asked L1 for; an access across two lines asks twice"),
    "l1.misses": ("lines", "of these, not in L1"),
    "l2.hits": ("lines", "demand misses of L1 that L2 served"),
    "l2.misses": ("lines", "demand misses of L1 that L2 did not have"),
    "l2.prefetches": ("lines", "lines that the prefetcher brought into L2"),
    "l3.hits": ("lines", "demand misses of L2 that L3 served"),
    "l3.misses": ("lines", "demand misses that memory served"),
    "l3.prefetch-misses": ("lines", "prefetched lines that came from memory"),
    "stall.front_end": ("cycles", "retirement waited for the width of the front end"),
    "stall.misprediction": ("cycles", "retirement waited for the restart after a mispredicted branch"),
    "stall.rob": ("cycles", "retirement waited for what a full reorder buffer had kept from being dispatched"),
    "stall.load_buffer": ("cycles", "the same for the load buffer"),
    "stall.store_buffer": ("cycles", "the same for the store buffer"),
    "stall.line_fill_buffers": ("cycles", "retirement waited for a miss that waited for a line fill buffer"),
    "stall.scheduler": ("cycles", "retirement waited for a full vector scheduler"),
    "stall.second_tlb": ("cycles", "retirement waited for the second TLB"),
    "stall.page_walk": ("cycles", "retirement waited for a page walk"),
    **RECORDED,
    **CYCLE_EVENTS,
}


@dataclass(frozen=True)
class EventTable:
    """What one trace's blocks count each time they run: per-block totals of the events that the code decides.

    Attributes
    ----------
    names : tuple of str
        Every event of the PMU, cycles and instructions first.
    static : dict of str to (blocks,) float
        Counts of each block's execution.
    """

    names: tuple[str, ...]
    static: dict[str, NDArray[np.float64]]

    @classmethod
    def of(cls, stepping: Stepping) -> "EventTable":
        """Return the table of a simulation."""
        program, code = stepping.program, stepping.trace.code
        first = code.block_start
        owner = np.repeat(np.arange(len(program.slots)), np.diff(program.use_start))
        static = {
            "instructions": np.diff(first).astype(float),
            "uops": _per_block(program.slots, first),
            "branches": _per_block(program.ending & (CONDITIONAL | INDIRECT | RETURN) != 0, first),
        }
        for k, group in enumerate(program.groups):
            mine = program.use == k
            each = np.bincount(owner[mine], program.amount[mine], minlength=len(program.slots))
            static[PORT_PREFIX + group] = _per_block(each, first)
        others = [e for e in DESCRIPTIONS if e not in ("cycles", "instructions", "uops")]
        ports = [PORT_PREFIX + g for g in program.groups]
        return cls(("cycles", "instructions", "uops", *ports, *others), static)

    def counts(self, stepping: Stepping, chunks: Sequence[TraceChunk], before: "Reading") -> NDArray[np.float64]:
        """Return the counts of all events since ``before``, in the order of ``names``; 0 for those of whole cycles."""
        now = Reading.of(stepping)
        blocks = np.zeros(stepping.trace.code.block_count)
        found: dict[str, float] = dict.fromkeys(("mem-loads", "mem-stores", "mem-splits"), 0.0)
        line = stepping.gus.core.caches[0].line
        for chunk in chunks:
            blocks += np.bincount(chunk.stream, minlength=len(blocks))
            for name, count in _accesses(stepping, chunk, line).items():
                found[name] += count
        found |= {name: float(blocks @ each) for name, each in self.static.items()}
        found |= now.since(before, stepping.causes)
        found |= dict.fromkeys(CYCLE_EVENTS, 0.0)  # known when later instructions have begun: `with_cycles`
        return np.array([found[name] for name in self.names])

    def with_cycles(self, counts: NDArray[np.float64], stepping: Stepping) -> NDArray[np.float64]:
        """Return the counts of all stretches of a run that has ended with those of the events of whole cycles."""
        whole = counts.copy()
        whole[:, [self.names.index(name) for name in CYCLE_EVENTS]] = stepping.cycle_counts.totals()
        return whole


@dataclass(frozen=True)
class Reading:
    """What the simulation has counted up to a moment."""

    spent: NDArray[np.int64]
    served: NDArray[np.int64]
    prefetched: NDArray[np.int64]
    mispredictions: int
    forwards: int
    recorded: dict[str, float]

    @classmethod
    def of(cls, stepping: Stepping) -> "Reading":
        """Read the counters."""
        return cls(
            stepping.spent,
            stepping.served.copy(),
            stepping.prefetched.copy(),
            stepping.mispredictions,
            stepping.forwards,
            dict(stepping.recorded),
        )

    @property
    def ticks(self) -> int:
        """Simulated time."""
        return int(self.spent.sum())

    def since(self, before: "Reading", causes: Sequence[str]) -> dict[str, float]:
        """Return the events that the simulation's state decides."""
        spent = self.spent - before.spent
        served, prefetched = self.served - before.served, self.prefetched - before.prefetched
        found = {
            "cycles": spent.sum() / timing.TICKS,
            "branch-misses": self.mispredictions - before.mispredictions,
            "store-forwards": self.forwards - before.forwards,
            "l1.accesses": served.sum(),
            "l1.misses": served[1:].sum(),
            "l2.hits": served[1],
            "l2.misses": served[2:].sum(),
            "l2.prefetches": prefetched.sum(),
            "l3.hits": served[2],
            "l3.misses": served[3],
            "l3.prefetch-misses": prefetched[3],
        }
        place = {cause: k for k, cause in enumerate(causes)}
        stalls = {event: spent[place[cause]] / timing.TICKS for event, cause in STALLS.items()}
        recorded = {name: count - before.recorded[name] for name, count in self.recorded.items()}
        return {name: float(count) for name, count in {**found, **stalls, **recorded}.items()}


def describe(groups: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return unit and meaning of every event of a core with these port groups."""
    ports = {
        PORT_PREFIX + g: ("uops", f"uops sent to port group {g} and the groups within it (unfused)") for g in groups
    }
    return {**DESCRIPTIONS, **ports}


def _per_block(each: NDArray[np.generic], first: NDArray[np.int32]) -> NDArray[np.float64]:
    total = np.concatenate(([0.0], np.cumsum(np.asarray(each, dtype=float))))
    return np.asarray(total[first[1:]] - total[first[:-1]])


def _accesses(stepping: Stepping, chunk: TraceChunk, line: int) -> dict[str, float]:
    """Count loads, stores and split accesses of a part of the trace."""
    code = stepping.trace.code
    which = expand(chunk.stream, code.block_operand_start)
    size = code.size[which].astype(np.int64)
    size[code.dynamic[which]] = chunk.sizes
    real = (chunk.addresses != NO_ACCESS) & (size > 0)
    offset = (chunk.addresses % np.uint64(line)).astype(np.int64)
    return {
        "mem-loads": float((real & code.read[which]).sum()),
        "mem-stores": float((real & code.write[which]).sum()),
        "mem-splits": float((real & (offset + size > line)).sum()),
    }
