"""A core's capacities in ticks, one column a configuration: what the simulator's loops read beside the program.

A configuration ("lane") is the core with weights on some resources; `Lanes.of` lays any number of them side by side, so
that one pass over the trace times them all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perfkit.errors import SettingError
from perfkit.microarchitecture import TICKS_PER_CYCLE, Microarchitecture
from perfkit.simulators.program import Program, ticks
from perfkit.trace import StaticCode

ROB_RING = 4096  # uops: more than any reorder buffer and instruction together
QUEUE_RING = 1024  # loads, stores and misses in flight: more than any of their buffers
UNBOUNDED = QUEUE_RING - 1


@dataclass(frozen=True)
class Lanes:
    """Capacities of ``k`` configurations of one core, in ticks; ``n`` instructions, ``m`` memory operands.

    Parameters
    ----------
    ports : tuple of str
        The port groups that can hold anything back (`Program.needed_ports`), as the uses number them.
    front_end, retire : (k,) int64
        Ticks per uop.
    rob, load_buffer, store_buffer, line_fill_buffers : (k,) int64
        Entries.
    latency, memory_latency, address_latency : (n, k) int64
        Of every instruction.
    forward : (2, k) int64
        From a store's data to a load of it: general, vector.
    farther : (4, k) int64
        What a level adds to the L1 latency.
    links : (3, k) int64
        Ticks per line over the links of L2, L3 and memory.
    l1 : (m, k) int64
        Ticks of L1 bandwidth per access of each operand.
    access_uses, compute_uses : (offsets (n + 1,), port, (u, k) ticks)
        Ticks of each use of a port group.
    """

    ports: tuple[str, ...]
    front_end: NDArray[np.int64]
    retire: NDArray[np.int64]
    rob: NDArray[np.int64]
    load_buffer: NDArray[np.int64]
    store_buffer: NDArray[np.int64]
    line_fill_buffers: NDArray[np.int64]
    latency: NDArray[np.int64]
    memory_latency: NDArray[np.int64]
    address_latency: NDArray[np.int64]
    forward: NDArray[np.int64]
    farther: NDArray[np.int64]
    links: NDArray[np.int64]
    l1: NDArray[np.int64]
    access_uses: tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]
    compute_uses: tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]

    @classmethod
    def of(cls, program: Program, code: StaticCode, cores: Sequence[Microarchitecture]) -> Lanes:
        """Lay configurations of one core side by side."""
        base = cores[0]
        capacities = np.array([[core.value(port) for port in program.ports] for core in cores])
        needed = program.needed_ports(capacities)
        factor = _row(cores, "instruction_latency")
        l1 = _row(cores, "L1_latency")
        # Scaling L1_latency changes every load by the same factor, vector loads and gathers too.
        near = l1 / base.value("L1_latency")
        levels = [level.name for level in base.caches[1:]]
        # What a level adds does not grow when L1 gets faster: it is counted from the L1 that was not weighted.
        unweighted = l1 * np.array([core.weights.get("L1_latency", 1.0) for core in cores])
        farther = np.zeros((4, len(cores)))
        for row in range(1, 4):
            name = f"L{row + 1}" if row < 3 and f"L{row + 1}" in levels else "memory"
            farther[row] = np.maximum(_row(cores, f"{name}_latency") - unweighted, 0)
        line = base.cache("L1").line
        links = np.zeros((3, len(cores)))
        for row in range(3):
            name = f"L{row + 2}" if row < 2 and f"L{row + 2}" in levels else "memory"
            links[row] = line / _row(cores, f"{name}_bandwidth")
        forward = _row(cores, "store_forward_latency")
        vector = (
            _row(cores, "vector_store_forward_latency") if "vector_store_forward_latency" in base.resources else forward
        )
        return cls(
            tuple(port for port, keep in zip(program.ports, needed, strict=True) if keep),
            ticks(1 / _row(cores, "front_end")),
            ticks(1 / _row(cores, "retire")),
            _entries(cores, "rob", ROB_RING // 2),
            _entries(cores, "load_buffer", UNBOUNDED),
            _entries(cores, "store_buffer", UNBOUNDED),
            _entries(cores, "line_fill_buffers", UNBOUNDED),
            ticks(program.latency[:, None] * factor),
            ticks(program.memory_latency[:, None] * factor),
            ticks(program.address_latency[:, None] * factor * near),
            ticks(np.stack([forward, vector]) * factor),
            ticks(farther),
            ticks(links),
            ticks(code.size[:, None] / _row(cores, "L1_bandwidth")),
            _scaled_uses(program.access_uses, capacities, needed),
            _scaled_uses(program.compute_uses, capacities, needed),
        )

    @property
    def count(self) -> int:
        """Number of configurations."""
        return len(self.front_end)


def _row(cores: Sequence[Microarchitecture], name: str) -> NDArray[np.float64]:
    return np.array([core.value(name) for core in cores], np.float64)


def _entries(cores: Sequence[Microarchitecture], name: str, most: int) -> NDArray[np.int64]:
    """Return whole entries of a buffer; a core whose file does not name the buffer has it without bound."""
    if name not in cores[0].resources:
        return np.full(len(cores), most, np.int64)
    found = np.maximum(np.rint(_row(cores, name)), 1).astype(np.int64)
    if found.max() > most:
        raise SettingError(f"{name}: at most {most} entries can be simulated, not {found.max()}")
    return found


def _scaled_uses(
    uses: tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float64]],
    capacities: NDArray[np.float64],
    needed: NDArray[np.bool_],
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]:
    offsets, ports, counts = uses
    kept = needed[ports]
    rows = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))[kept]
    lengths = np.bincount(rows, minlength=len(offsets) - 1)
    renumbered = (np.cumsum(needed) - 1)[ports[kept]].astype(np.int32)
    amounts = ticks(counts[kept][:, None] / capacities[:, ports[kept]].T)
    return np.concatenate(([0], np.cumsum(lengths))).astype(np.int32), renumbered, amounts.reshape(-1, len(capacities))


__all__ = ["QUEUE_RING", "ROB_RING", "TICKS_PER_CYCLE", "Lanes"]
