"""The core as the extended roofline sees it: the 22 parameters of its Fig. 4, and those of division.

Source: Caparros Cabezas and Pueschel, ISPASS 2014, Fig. 4 and Table I.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from types import MappingProxyType
from typing import TYPE_CHECKING

from perfkit.errors import SettingError

if TYPE_CHECKING:
    import pandas as pd

    from perfkit.machine.core import Microarchitecture

TYPES = ("A", "M", "D", "L1", "L2", "L3", "mem")
BUFFERS = ("RS", "ROB", "LB", "SB", "LFB")
MEMORY = ("L1", "L2", "L3", "mem")
_WHOLE = ("fetch", "rs", "rob", "lb", "sb", "lfb", "load_ports", "store_ports", "agus")
_LARGEST = 10_000  # lanes that fit the engine's counters
_HIGHEST = 2**40  # of any other parameter: far above any machine, and within the engine's integers
_FINEST = 1_000  # a throughput is a fraction with at most this denominator


@dataclass(frozen=True)
class DagCore:
    """Parameters of the modelled core.

    Every throughput and every buffer may be 0 or infinite: both take the feature out of the model. A cache of 0 bytes
    does not exist; one of infinite size holds all that was ever touched. A latency may be 0, not infinite.

    Parameters
    ----------
    fetch
        Nodes fetched in a cycle (phi).
    throughput_A, throughput_M, throughput_D
        Additions, multiplications, divisions begun in a cycle (pi); 1/22 is one in 22 cycles on one unit.
    throughput_L1, throughput_L2, throughput_L3, throughput_mem
        L1: accesses in a cycle; beyond it doubles in a cycle (beta).
    latency_A ... latency_mem
        Cycles from issue to completion (lambda, mu), whole numbers.
    rs, rob, lb, sb, lfb
        Entries of the reservation station, the reorder, load and store buffers and the line fill buffers.
    size_L1, size_L2, size_L3
        Bytes (gamma).
    line
        Bytes of a cache line (chi), a power of two; 0 where every access names its level.
    load_ports, store_ports, agus
        Loads, stores, and both together that may issue in a cycle (not in the paper's model).
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
    latency_A: float = 0  # noqa: N815
    latency_M: float = 0  # noqa: N815
    latency_D: float = 0  # noqa: N815
    latency_L1: float = 0  # noqa: N815
    latency_L2: float = 0  # noqa: N815
    latency_L3: float = 0  # noqa: N815
    latency_mem: float = 0
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
    sources: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        for name in parameter_names():
            value = getattr(self, name)
            if not isinstance(value, int | float) or isinstance(value, bool) or not value >= 0:
                raise SettingError(f"{name} is a number of at least 0 (0 or inf: not modelled), not {value!r}")
            if name.startswith("latency") and (math.isinf(value) or value != int(value)):
                raise SettingError(
                    f"{name} is a whole number of cycles, not {value!r}: with an infinite one nothing would ever end"
                )
            if not math.isinf(value) and value > _HIGHEST:
                raise SettingError(f"{name} is at most {_HIGHEST:,}, or inf (not modelled); found {value!r}")
            if name in _WHOLE and not math.isinf(value) and value != int(value):
                raise SettingError(f"{name} is a whole number, not {value!r}")
            if name.startswith("throughput"):
                lanes(value)

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
        those of MOVSD to and from memory. Where additions and multiplications share their ports, each type gets half
        of them. Latencies are rounded to whole cycles. What the core file does not give is not modelled.

        Raises
        ------
        UnavailableError
            If the core has no table of x86 instructions.
        """
        from perfkit.simulators.dag.core_files import read_core

        figures = read_core(core)
        sources = MappingProxyType({name: source for name, (_, source) in figures.items()})
        return cls(core.name, **{name: value for name, (value, _) in figures.items()}, sources=sources)

    def replace(self, **changes: float) -> DagCore:
        """Return the core with some parameters changed; an unknown name is an error that lists the known ones."""
        if unknown := sorted(set(changes) - {"name", *parameter_names()}):
            raise SettingError(f"unknown parameter {', '.join(unknown)}; known: {', '.join(parameter_names())}")
        return replace(self, **changes)  # type: ignore[arg-type]

    def throughput(self, kind: str) -> float:
        """Return the throughput of a node type (Pi); 0 is returned as infinite."""
        return float(getattr(self, f"throughput_{kind}")) or math.inf

    def latency(self, kind: str) -> int:
        """Return the latency of a node type (Lambda), in cycles."""
        return int(getattr(self, f"latency_{kind}"))

    def to_frame(self) -> pd.DataFrame:
        """Return the parameters as a table: parameter, value, source."""
        import pandas as pd

        rows = [(name, getattr(self, name), self.sources.get(name, "")) for name in parameter_names()]
        return pd.DataFrame(rows, columns=["parameter", "value", "source"])


def parameter_names() -> tuple[str, ...]:
    """Return the names of all numeric parameters of a `DagCore`."""
    return tuple(f.name for f in fields(DagCore) if f.name not in ("name", "sources"))


def lanes(throughput: float) -> tuple[int, int]:
    """Return a throughput as (lanes, cycles a node keeps its lane): 3/2 is (3, 2); (0, 1) is unlimited.

    Raises
    ------
    SettingError
        If it is no fraction of small numbers.
    """
    if throughput == 0 or math.isinf(throughput):
        return 0, 1
    fraction = Fraction(throughput).limit_denominator(_FINEST)
    if fraction <= 0 or fraction.numerator > _LARGEST or abs(float(fraction) / throughput - 1) > 1e-3:
        raise SettingError(
            f"a throughput is 0 or infinite (unlimited), or a fraction of whole numbers up to {_LARGEST} over up to "
            f"{_FINEST} a cycle, not {throughput!r}"
        )
    return fraction.numerator, fraction.denominator
