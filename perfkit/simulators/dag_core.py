"""The core as the extended roofline sees it: the 22 parameters of its Fig. 4, and those of division.

Source: Caparros Cabezas and Pueschel, ISPASS 2014, Fig. 4 and Table I.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from perfkit.errors import SettingError

if TYPE_CHECKING:
    import pandas as pd

TYPES = ("A", "M", "D", "L1", "L2", "L3", "mem")
BUFFERS = ("RS", "ROB", "LB", "SB", "LFB")
MEMORY = ("L1", "L2", "L3", "mem")
_WORD = 8  # bandwidths are in doubles a cycle, as in the paper
_LARGEST = 10_000  # lanes that fit the engine's counters
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
            if name in ("fetch", "rs", "rob", "lb", "sb", "lfb") and not math.isinf(value) and value != int(value):
                raise SettingError(f"{name} is a whole number, not {value!r}")
            if name.startswith("throughput"):
                lanes(value)

    @classmethod
    def sandy_bridge_erm(cls) -> DagCore:
        """Return the paper's machine: an Intel Xeon E5-2680 as in its Table I."""
        text = (
            files("perfkit").joinpath("cores", "extended_roofline", "sandy_bridge_erm.toml").read_text(encoding="utf-8")
        )
        return _from_toml(tomllib.loads(text))

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


def _from_toml(data: dict[str, Any]) -> DagCore:
    """Make a core of a core file (see `perfkit.microarchitecture`)."""
    flops = (("A", "add"), ("M", "multiply"), ("D", "divide"))
    levels = (("L1", "L1"), ("L2", "L2"), ("L3", "L3"), ("mem", "memory"))
    entries = {
        "fetch": data["widths"]["front_end"],
        **{f"throughput_{kind}": data["floating_point"][f"{name}_throughput"] for kind, name in flops},
        **{f"latency_{kind}": data["floating_point"][f"{name}_latency"] for kind, name in flops},
        **{f"throughput_{kind}": data["bandwidths"][f"{name}_bandwidth"] for kind, name in levels},
        **{f"latency_{kind}": data["latencies"][f"{name}_latency"] for kind, name in levels},
        "rs": data["buffers"]["scheduler"],
        "rob": data["buffers"]["rob"],
        "lb": data["buffers"]["load_buffer"],
        "sb": data["buffers"]["store_buffer"],
        "lfb": data["buffers"]["line_fill_buffers"],
        **{f"size_{kind}": data["caches"][kind]["size"] for kind in MEMORY[:3]},
        "line": data["caches"]["L1"]["line"],
    }
    values = {name: entry["value"] for name, entry in entries.items()}
    for kind, _ in levels:
        values[f"throughput_{kind}"] /= _WORD
    sources = {
        name: "; ".join(filter(None, (data["sources"][entry["source"]], entry.get("note"))))
        for name, entry in entries.items()
    }
    return DagCore(data["name"], **values, sources=MappingProxyType(sources))
