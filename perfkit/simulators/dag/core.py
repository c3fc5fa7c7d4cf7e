"""The core as the extended roofline sees it: the 22 parameters of its Fig. 4, and those of later cores and other work.

Source: Caparros Cabezas and Pueschel, ISPASS 2014, Fig. 4 and Table I.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from perfkit.errors import SettingError, of_extra

if TYPE_CHECKING:
    import pandas as pd

    from perfkit.machine.core import Microarchitecture

TYPES = ("A", "M", "D", "L1", "L2", "L3", "mem", "F", "I")
BUFFERS = ("RS", "ROB", "LB", "SB", "LFB")
MEMORY = ("L1", "L2", "L3", "mem")
_WHOLE = (
    "fetch", "rs", "rob", "lb", "sb", "lfb", "load_ports", "store_ports", "agus", "fp_ports", "branch_ports",
    "prefetch_streams", "inflight_merging", "ordered_loads", "whole_lines", "integer_loads_earlier",
    "vector_load_ports", "vector_store_ports", "misprediction_penalty",
    "line_splits", "memory_renaming", "vector_rs", "vector_queue", "vector_registers", "ways_L1", "set_fill",
    "set_fill_written", "set_fill_stored", "store_refill", "loop_turns", "code_reads",
    "store_lines", "store_data",
)  # fmt: skip
_FOLLOWS = ("throughput_F", "latency_F", "latency_forward", "latency_forward_FP")  # None: follows from other figures
_LARGEST = 10_000  # lanes that fit the engine's counters
_HIGHEST = 2**40  # of any other parameter: far above any machine, and within the engine's integers
_PORTS = 8  # that a row of the engine can count
_FINEST = 1_000  # a throughput is a fraction with at most this denominator


@dataclass(frozen=True)
class DagCore:
    """Parameters of the modelled core.

    Every throughput and every buffer may be 0 or infinite: both take the feature out of the model. A cache of 0 bytes
    does not exist; one of infinite size holds all that was ever touched. A latency may be 0, not infinite.

    Parameters
    ----------
    name
        What to call it.
    fetch
        Nodes fetched per cycle (phi).
    throughput_A, throughput_M, throughput_D
        Additions, multiplications, divisions begun per cycle (pi); 1/22 is one in 22 cycles on one unit.
    throughput_F, latency_F
        Fused multiply-adds, which also take a multiplier. None: the core has none, and a fused multiply-add takes a
        multiplication and an addition, one after the other.
    throughput_I, latency_I
        Integer operations, addresses and branches (for DAGs of whole kernels).
    throughput_L1, throughput_L2, throughput_L3, throughput_mem
        L1: accesses per cycle; beyond it doubles per cycle (beta).
    latency_A, latency_M, latency_D, latency_L1, latency_L2, latency_L3, latency_mem
        Cycles from issue to completion (lambda, mu), whole numbers.
    rs, rob, lb, sb, lfb
        Entries of the reservation station, the reorder, load and store buffers and the line fill buffers.
    size_L1, size_L2, size_L3
        Bytes (gamma).
    line
        Bytes of a cache line (chi), a power of two; 0 where every access names its level.
    load_ports, store_ports, agus, fp_ports, branch_ports
        Loads, stores, both together, additions, multiplications and fused multiply-adds together with integer work on
        their units (conversions, vector registers), and branches that may issue in a cycle (not in the paper's model).
    prefetch_streams
        Streams of lines that a prefetcher follows at a time: from a stream's third line on a miss takes the latency of
        the level above (of L2 at most), and the bandwidth of its own (not in the paper's model).
    inflight_merging
        1: a hit of a line that is under way completes with the line, not before (not in the paper's model).
    ordered_loads
        1: a load does not issue before the load before it, as the paper reads the x86 memory model. 0: real cores load
        ahead of order and check afterwards.
    whole_lines
        1: an access that misses L1 takes the bandwidth below of its whole line; 0: of its own elements.
    latency_forward, latency_forward_FP
        Of a load of an integer, or of a floating-point number, whose store it waits for; None: L1's.
    latency_blocked
        From the writing of the last of several stores, in order and not before it is the oldest, to the value of a load
        of bytes from more than this one: it cannot be forwarded. 0: forwarded all the same (not in the paper's model).
    integer_loads_earlier
        Cycles by which loads of integers take less than the latencies above, which are those of floating-point loads.
    vector_load_ports
        Of the loads that may issue in a cycle how many may load vector registers (floating-point scalars, too), at most
        8; 0 or infinite: all.
    vector_store_ports
        1 of 2 `store_ports`: a store from a vector register takes both (Zen 3 and 4); else they are like others.
    misprediction_penalty
        Cycles from a mispredicted branch's result to the fetch of what follows it, for DAGs that know which branches
        were mispredicted (`perfkit.predict_branches`).
    line_splits
        How often more an access that crosses the end of a line takes its units (not in the paper's model).
    memory_renaming
        1: a load of an integer of at least four bytes whose store it waits for has the value at once.
    vector_rs, vector_queue
        Entries of a reservation station of their own for floating-point and vector operations, which then take none of
        `rs`, and how many may wait in order before it; 0 or infinite: there is none (not in the paper's model).
    vector_registers
        Instructions under way that may write a vector register, each until it retires: who finds none waits as for a
        full ROB, and counts as its stall; 0 or infinite: as many as the ROB holds (not in the paper's model).
    ways_L1
        Lines in a set of L1, replaced by pseudo-LRU; more where there were more sets than lines in a
        page. 0: L1 is fully associative, as in the paper. The levels below always are: a DAG does not know which page
        of memory an address is mapped to.
    set_fill, set_fill_written
        Cycles from a line that comes into a set of L1 to the next one. `set_fill_written` where a line leaves for it
        that a store of the same window (`rob`) wrote: it has to come again. Twice `set_fill` where only stores bring
        lines, and written ones leave. Not in the paper's model.
    set_fill_stored, store_refill
        Where only stores bring lines, and one leaves that a store of the same window wrote: cycles to the next line of
        the set (0: twice `set_fill`), and of any set.
    store_lines
        Lines, those opened last, that further stores join; another line is opened in a cycle of its own. 0: stores are
        written as they come, as in the paper.
    store_data
        1: a store from an integer register takes a unit of integer work for its data, and holds an entry of `rs` until
        these are there. 0: stores take units of memory only (the paper's, cores whose stores have ports for data).
    loop_turns
        Turns of a loop of one block that may be fetched in a cycle: its jump back ends what is fetched. 0 or infinite:
        no limit, as in the paper.
    code_reads
        Groups of decoded instructions that fetch reads in a cycle, and lines of 64 bytes of code that it begins: a
        taken jump ends both. 0 or infinite: no limit, as in the paper. Only nodes of machine code know their groups
        and lines (`perfkit.predict_branches`).
    sources
        Where each figure comes from.

    Examples
    --------
    >>> core = DagCore.sandy_bridge_erm()
    >>> core.rs, core.replace(rs=20).rs
    (54, 20)
    """

    name: str = "custom"
    fetch: float = math.inf
    throughput_A: float = math.inf  # noqa: N815 - the paper's names
    throughput_M: float = math.inf  # noqa: N815
    throughput_D: float = math.inf  # noqa: N815
    throughput_L1: float = math.inf  # noqa: N815
    throughput_L2: float = math.inf  # noqa: N815
    throughput_L3: float = math.inf  # noqa: N815
    throughput_mem: float = math.inf
    throughput_F: float | None = None  # noqa: N815
    throughput_I: float = math.inf  # noqa: N815
    latency_A: float = 0  # noqa: N815
    latency_M: float = 0  # noqa: N815
    latency_D: float = 0  # noqa: N815
    latency_L1: float = 0  # noqa: N815
    latency_L2: float = 0  # noqa: N815
    latency_L3: float = 0  # noqa: N815
    latency_mem: float = 0
    latency_F: float | None = None  # noqa: N815
    latency_I: float = 0  # noqa: N815
    rs: float = math.inf
    rob: float = math.inf
    lb: float = math.inf
    sb: float = math.inf
    lfb: float = math.inf
    size_L1: float = 0  # noqa: N815
    size_L2: float = 0  # noqa: N815
    size_L3: float = 0  # noqa: N815
    line: float = 0
    load_ports: float = 0
    store_ports: float = 0
    agus: float = 0
    fp_ports: float = 0
    branch_ports: float = 0
    prefetch_streams: float = 0
    inflight_merging: float = 0
    ordered_loads: float = 1
    whole_lines: float = 0
    latency_forward: float | None = None
    latency_forward_FP: float | None = None  # noqa: N815
    latency_blocked: float = 0
    integer_loads_earlier: float = 0
    vector_load_ports: float = 0
    vector_store_ports: float = 0
    misprediction_penalty: float = 0
    line_splits: float = 0
    memory_renaming: float = 0
    vector_rs: float = 0
    vector_queue: float = 0
    vector_registers: float = 0
    ways_L1: float = 0  # noqa: N815
    set_fill: float = 0
    set_fill_written: float = 0
    set_fill_stored: float = 0
    store_refill: float = 0
    loop_turns: float = 0
    code_reads: float = 0
    store_lines: float = 0
    store_data: float = 0
    sources: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        for name in parameter_names():
            value = getattr(self, name)
            if value is None and name in _FOLLOWS:
                continue
            if not isinstance(value, int | float) or isinstance(value, bool) or not value >= 0:
                raise SettingError(f"{name} is a number of at least 0 (0 or inf: not modelled), not {value!r}")
            if name.startswith("latency") and math.isinf(value):
                raise SettingError(f"{name} is a whole number of cycles, not {value!r}: nothing would ever end")
            if name.startswith("latency") and value != int(value):
                raise SettingError(
                    f"{name} is a whole number of cycles, not {value!r}: nodes end in whole cycles; give "
                    f"{math.floor(value)} or {math.ceil(value)}, and see between which results it lies"
                )
            if not math.isinf(value) and value > _HIGHEST:
                raise SettingError(f"{name} is at most {_HIGHEST:,}, or inf (not modelled); found {value!r}")
            if name in _WHOLE and not math.isinf(value) and value != int(value):
                raise SettingError(f"{name} is a whole number, not {value!r}")
            if name.startswith("throughput"):
                lanes(value)
        if self.vector_load_ports > _PORTS and not math.isinf(self.vector_load_ports):
            raise SettingError(
                f"vector_load_ports is at most {_PORTS}, 0 or inf (no limit), not {self.vector_load_ports:g}"
            )

    @classmethod
    def sandy_bridge_erm(cls) -> DagCore:
        """Return the paper's machine: an Intel Xeon E5-2680 as in its Table I."""
        return cls.load("sandy_bridge_erm")

    @classmethod
    def load(cls, name: str) -> DagCore:
        """Return a shipped core by name: `from_microarchitecture` of ``Microarchitecture.load(name)``."""
        from perfkit.machine.core import Microarchitecture

        return cls.from_microarchitecture(Microarchitecture.load(name))

    @classmethod
    def from_microarchitecture(cls, core: Microarchitecture) -> DagCore:
        """Take the parameters from a core file and its instruction table.

        Latency and throughput of operations are those of the scalar double instructions (ADDSD, MULSD, DIVSD), ports
        those of MOVSD to and from memory. Ports that additions and multiplications share are `fp_ports`. Latencies are
        rounded to whole cycles. What the core file does not give is not modelled.

        Raises
        ------
        UnavailableError
            If the core has no table of x86 instructions.
        """
        from perfkit.simulators.dag.core_files import read_core

        figures = read_core(core)
        sources = MappingProxyType({name: source for name, (_, source) in figures.items()})
        values: dict[str, Any] = {name: value for name, (value, _) in figures.items()}
        return cls(core.name, **values, sources=sources)

    def replace(self, **changes: float) -> DagCore:
        """Return the core with some parameters changed; an unknown name is an error that lists the known ones."""
        if unknown := sorted(set(changes) - {"name", *parameter_names()}):
            raise SettingError(f"unknown parameter {', '.join(unknown)}; known: {', '.join(parameter_names())}")
        return replace(self, **changes)  # type: ignore[arg-type]

    def _figure(self, name: str) -> Any:
        if name not in parameter_names():
            raise SettingError(f"no parameter {name!r}; known: {', '.join(parameter_names())}")
        return getattr(self, name)

    def throughput(self, kind: str) -> float:
        """Return the throughput of a node type (Pi); 0 is returned as infinite."""
        found = self._figure(f"throughput_{kind}")
        if found is None:
            return min(self.throughput("A"), self.throughput("M"))
        return float(found) or math.inf

    def latency(self, kind: str) -> int:
        """Return the latency of a node type (Lambda), in cycles."""
        found = self._figure(f"latency_{kind}")
        return self.latency("A") + self.latency("M") if found is None else int(found)

    def to_frame(self) -> pd.DataFrame:
        """Return the parameters as a table: parameter, value, source."""
        pd = of_extra("pandas")

        rows = [(name, getattr(self, name), self.sources.get(name, "")) for name in parameter_names()]
        return pd.DataFrame(rows, columns=["parameter", "value", "source"])


@cache
def parameter_names() -> tuple[str, ...]:
    """Return the names of all numeric parameters of a `DagCore`."""
    return tuple(f.name for f in fields(DagCore) if f.name not in ("name", "sources"))


def lanes(throughput: float) -> tuple[int, Fraction]:
    """Return a throughput as lanes and the cycles that a node keeps one on average: 3/2 is 2 lanes of 4/3 cycles.

    A unit that begins less than one node per cycle is one lane, kept for longer. Unlimited are 0 lanes.

    Raises
    ------
    SettingError
        If it is no fraction of small numbers.
    """
    if throughput == 0 or math.isinf(throughput):
        return 0, Fraction(1)
    fraction = _fraction(throughput)
    if fraction <= 0 or fraction > _LARGEST or abs(float(fraction) / throughput - 1) > 1e-3:
        raise SettingError(
            f"a throughput is 0 or infinite (unlimited), or a fraction of whole numbers up to {_LARGEST} over up to "
            f"{_FINEST} a cycle, not {throughput!r}"
        )
    count = math.ceil(fraction)
    return count, count / fraction


def _fraction(throughput: float) -> Fraction:
    """Return the simplest fraction within a thousandth: table figures such as 0.25025 stand for 1/4."""
    for limit in (1, 2, 4, 12, 60, _FINEST):
        fraction = Fraction(throughput).limit_denominator(limit)
        if abs(float(fraction) / throughput - 1) <= 1e-3:
            return fraction
    return 1 / Fraction(1 / throughput).limit_denominator(_FINEST) if throughput < 1 else Fraction(0)
