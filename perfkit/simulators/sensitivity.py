"""Which resource limits a run: each is made better in turn, all in one pass (Gus, section 3.2).

The speedup of weighting the capacity c of a resource r by w is the paper's ``s = f(c) / f(w c) - 1``, f being the
simulated time. A resource whose weighting gives a speedup is a bottleneck; pairs show what lifting one uncovers.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from perfkit.errors import SettingError
from perfkit.microarchitecture import TICKS_PER_CYCLE, Microarchitecture
from perfkit.simulators.gus import CHUNK, Gus, check
from perfkit.simulators.machine import Lanes
from perfkit.simulators.program import Program
from perfkit.trace import Trace

if TYPE_CHECKING:
    import pandas as pd

LANES = 32  # configurations simulated side by side: more need more cache than a core has
WEIGHTS = (1.1, 1.5, 2.0)


def sensitivity(
    gus: Gus,
    trace: Trace,
    weights: Sequence[float] = WEIGHTS,
    resources: Iterable[str] | None = None,
    pairs: bool = False,
) -> Sensitivity:
    """Simulate a trace with every resource made better by every weight.

    Parameters
    ----------
    gus, trace
        As for `Gus.run`.
    weights
        Factors on the capacity, above 0; below 1 makes a resource worse.
    resources
        Names of resources; None: all that the model uses (`swept`).
    pairs
        Whether to weight every pair of resources too, by the largest weight.

    Examples
    --------
    >>> sensitivity(Gus(core), trace).to_frame().head()                 # doctest: +SKIP
    """
    check(trace, gus.core)
    names = list(resources) if resources is not None else swept(gus, trace)
    if not names or not len(weights):
        raise SettingError("sensitivity needs at least one resource and one weight")
    cases: list[tuple[tuple[str, ...], float]] = [((name,), weight) for name in names for weight in weights]
    if pairs:
        cases += [(pair, max(weights)) for pair in itertools.combinations(names, 2)]
    cores = []
    for chosen, weight in cases:
        core = gus.core
        for name in chosen:
            core = core.scaled(name, weight)
        cores.append(core)
    cycles = simulate_cores(gus, trace, [gus.core, *cores])
    return Sensitivity(gus, trace, float(cycles[0]), tuple(cases), cycles[1:])


def swept(gus: Gus, trace: Trace) -> list[str]:
    """Return the resources of a core that the model uses: the port groups that this trace uses, and all others."""
    program = Program.of(trace.code, gus.core, gus.instruction_tables())
    used = (trace.instruction_counts() @ program.port_uses()) > 0
    ports = [name for name, holds in zip(program.ports, used, strict=True) if holds]
    others = ("instruction_latency", "front_end", "retire", "rob", "load_buffer", "store_buffer", "line_fill_buffers")
    levels = [level.name for level in gus.core.caches] + ["memory"]
    memory = [f"{level}_{what}" for level in levels for what in ("bandwidth", "latency")]
    forward = ["store_forward_latency", "vector_store_forward_latency"]
    return [name for name in (*others, *ports, *memory, *forward) if name in gus.core.resources]


def simulate_cores(gus: Gus, trace: Trace, cores: Sequence[Microarchitecture]) -> NDArray[np.float64]:
    """Return the cycles of a trace on several configurations of one core, in one pass over it.

    The configurations share the instruction tables and the caches' geometry; their resources may differ.
    """
    from perfkit.simulators.lanes_engine import new_state, simulate_lanes

    tables = gus.instruction_tables()
    code = trace.code
    program = Program.of(code, gus.core, tables)
    groups = [Lanes.of(program, code, [*cores[first : first + LANES]]) for first in range(0, len(cores), LANES)]
    states = [new_state(len(lanes.ports), lanes.count) for lanes in groups]
    store = tables.form("MOV_RM64_R64/m").uses
    commits = [_commit(store, cores[first : first + LANES]) for first in range(0, len(cores), LANES)]
    caches = gus.caches(trace)
    for chunk in trace.chunks(CHUNK):
        codes, distances = caches.classify(trace, chunk)
        for lanes, state, commit in zip(groups, states, commits, strict=True):
            simulate_lanes(
                chunk.stream,
                codes,
                distances,
                code.block_start,
                code.operand_start,
                code.read,
                code.write,
                program.uops,
                program.vector,
                program.address_reads,
                program.data_reads,
                program.writes,
                lanes.access_uses,
                lanes.compute_uses,
                lanes.latency,
                lanes.memory_latency,
                lanes.address_latency,
                lanes.l1,
                lanes.forward,
                lanes.farther,
                lanes.links,
                np.stack([lanes.front_end, lanes.retire]),
                np.stack([lanes.rob, lanes.load_buffer, lanes.store_buffer, lanes.line_fill_buffers]),
                commit,
                state,
            )
    return np.concatenate([state[1][2] for state in states]) / TICKS_PER_CYCLE


def _commit(uses: Any, cores: Sequence[Microarchitecture]) -> NDArray[np.int64]:
    cycles = [max((count / core.value(name) for name, count in uses.items()), default=0.0) for core in cores]
    return np.rint(np.array(cycles) * TICKS_PER_CYCLE).astype(np.int64)


@dataclass(frozen=True)
class Sensitivity:
    """Speedups of a simulated run by resource and weight.

    Parameters
    ----------
    gus, trace
        What was run.
    cycles
        Simulated cycles of the core as it is.
    cases
        (resources, weight) of each configuration.
    scaled
        Simulated cycles of each configuration.
    """

    gus: Gus = field(repr=False)
    trace: Trace = field(repr=False)
    cycles: float
    cases: tuple[tuple[tuple[str, ...], float], ...] = field(repr=False)
    scaled: NDArray[np.float64] = field(repr=False)

    @property
    def speedups(self) -> NDArray[np.float64]:
        """The paper's s = f(c) / f(w c) - 1, of each case."""
        return self.cycles / self.scaled - 1

    def to_frame(self) -> pd.DataFrame:
        """Return speedups, a row a resource and a column a weight, the most sensitive first (by the last weight)."""
        import pandas as pd

        rows = [(c[0], w, s) for (c, w), s in zip(self.cases, self.speedups, strict=True) if len(c) == 1]
        frame = pd.DataFrame(rows, columns=["resource", "weight", "speedup"])
        table = frame.pivot_table(index="resource", columns="weight", values="speedup", sort=False)
        return table.sort_values(table.columns[-1], ascending=False, kind="stable")

    def pairs_frame(self) -> pd.DataFrame:
        """Return speedups of pairs, with what the pair gives beyond the better of its two resources alone."""
        import pandas as pd

        single = {(c[0], w): s for (c, w), s in zip(self.cases, self.speedups, strict=True) if len(c) == 1}
        rows = [
            (c[0], c[1], w, s, s - max(single[c[0], w], single[c[1], w]))
            for (c, w), s in zip(self.cases, self.speedups, strict=True)
            if len(c) == 2
        ]
        frame = pd.DataFrame(rows, columns=["first", "second", "weight", "speedup", "beyond"])
        return frame.sort_values("speedup", ascending=False, kind="stable", ignore_index=True)

    @property
    def bottleneck(self) -> str:
        """The most sensitive resource; "none" where no weight gains a thousandth."""
        table = self.to_frame()
        best = table.iloc[:, -1]
        return str(best.index[0]) if best.iloc[0] > 1e-3 else "none"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "kind": "simulated",
            "core": self.gus.core.name,
            "cycles": self.cycles,
            "bottleneck": self.bottleneck,
            "speedups": [
                {"resources": list(names), "weight": weight, "speedup": float(speedup)}
                for (names, weight), speedup in zip(self.cases, self.speedups, strict=True)
            ],
        }

    def plot(self, **options: Any) -> Any:
        """Draw the ranked bars (`perfkit.plots.gus.plot_sensitivity`)."""
        from perfkit.plots.gus import plot_sensitivity

        return plot_sensitivity(self, **options)
