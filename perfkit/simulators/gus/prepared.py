"""Gus for one trace, with everything done once that no capacity changes: for sliders and other repeated questions.

The decoded program, the levels that serve the accesses and the mispredicted branches
(`perfkit.simulators.memory.memory`) depend on caches and code, not on the capacities that a sensitivity analysis
weights (Gus, section 3.2). They are kept; only the timing is done again.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from perfkit.errors import SettingError, of_extra
from perfkit.machine.core import Microarchitecture
from perfkit.simulators.gus.gus import Gus
from perfkit.simulators.gus.passes import Progress, windows
from perfkit.simulators.gus.sensitivity import Sensitivity, sensitivity, what_if
from perfkit.simulators.memory.memory import MemoryPass, Window
from perfkit.simulators.program.program import Program
from perfkit.trace.code import TraceChunk
from perfkit.trace.trace import Trace, expect_trace

if TYPE_CHECKING:
    import pandas as pd


@dataclass
class Replay(MemoryPass):
    """A pass over memory that was made before: it hands out its windows again, in order."""

    kept: Sequence[Window] = ()
    at: int = 0

    def window(self, chunk: TraceChunk) -> Window:
        """Return the window that was made of this chunk."""
        found = self.kept[self.at]
        blocks, accesses = len(chunk.stream), len(chunk.addresses)
        if len(found.stream) < blocks:
            raise SettingError(f"window {self.at} was made of {len(found.stream)} blocks, not {blocks}")
        self.at += 1
        if len(found.stream) == blocks:
            return found
        return Window(  # of the trace's first part
            found.stream[:blocks],
            found.control[:blocks],
            found.granule[:accesses],
            found.code[:accesses],
            found.size[:accesses],
        )


@dataclass(frozen=True, eq=False)
class Prepared(Gus):
    """The settings of `Gus` with one trace's program and memory pass kept; made by `prepare`.

    Use it as the ``gus`` of `perfkit.sensitivity` and `perfkit.what_if`, or by its own methods. What is kept needs
    about 16 bytes per access and 5 bytes per basic block executed.
    """

    trace: Trace = field(kw_only=True, repr=False)
    kept_program: Program = field(kw_only=True, repr=False)
    kept_pass: MemoryPass = field(kw_only=True, repr=False)
    kept_windows: tuple[Window, ...] = field(kw_only=True, repr=False)

    __eq__ = object.__eq__  # not that of `Gus`, for which two traces make no difference
    __hash__ = object.__hash__

    def program(self, trace: Trace) -> Program:
        """Return the kept program, or that of another trace."""
        return self.kept_program if trace is self.trace else super().program(trace)

    def memory(self, trace: Trace, program: Program) -> MemoryPass:
        """Return the kept pass over memory, to be gone through again."""
        if trace is not self.trace:
            return super().memory(trace, program)
        return Replay(**vars(self.kept_pass), kept=self.kept_windows)

    @cached_property
    def _as_it_is(self) -> NDArray[np.float64]:
        """The cycles of the trace on the core without a change, shape (1,)."""
        return super().cycles(self.trace, (self.core,))

    def cycles(
        self,
        trace: Trace,
        cores: Sequence[Microarchitecture],
        *,
        progress: Progress | None = None,
        mispredicted: bool = True,
    ) -> NDArray[np.float64]:
        """Return `Gus.cycles`; the core as it is, where it comes first, is simulated once only."""
        if trace is not self.trace or not len(cores) or cores[0] is not self.core or not mispredicted:
            return super().cycles(trace, cores, progress=progress, mispredicted=mispredicted)
        rest = super().cycles(trace, cores[1:], progress=progress) if len(cores) > 1 else np.zeros(0)
        return np.concatenate([self._as_it_is, rest])

    def sensitivity(
        self, weights: Sequence[float] = (2.0,), resources: Sequence[str] | None = None, **options: Any
    ) -> Sensitivity:
        """Return `perfkit.sensitivity` of the trace."""
        return sensitivity(self, self.trace, weights, resources, **options)

    def what_if(self, capacities: dict[str, float], weight: float = 2.0) -> Sensitivity:
        """Return `perfkit.what_if` of the trace."""
        return what_if(self, self.trace, capacities, weight)

    def ranker(self, most: float = 4.0) -> "Callable[[float], pd.DataFrame]":
        """Return a function from a weight, 1 to ``most``, to the ranked table of all resources.

        All are simulated once, at ``most``. Times are made of sums and maxima of costs, so they never fall when a
        capacity does: what gives nothing at ``most`` gives nothing below it, and only the others are simulated again.

        Examples
        --------
        >>> view = SensitivityView(pk.prepare(gus, trace).ranker())  # doctest: +SKIP
        """
        if not most > 1:
            raise SettingError(f"the largest weight is above 1; found {most}")
        all_of_them = self.sensitivity((most,))
        able = [group[0] for group, s in zip(all_of_them.resources, all_of_them.speedup[:, 0], strict=True) if s > 0]
        rest = [group[0] for group in all_of_them.resources if group[0] not in able]

        def rank(weight: float) -> "pd.DataFrame":
            pd = of_extra("pandas")

            if not 1 <= weight <= most:
                raise SettingError(f"weights go from 1 to {most:g} here; found {weight}")
            if weight == most or not able:
                return all_of_them.to_frame()
            frame = self.sensitivity((weight,), able).to_frame()
            none = pd.DataFrame({"resource": rest, frame.columns[1]: 0.0})
            return pd.concat([frame, none], ignore_index=True)

        return rank


def prepare(gus: Gus, trace: Trace) -> Prepared:
    """Decode a trace's program and go through its memory accesses once, for many simulations with other capacities.

    Parameters
    ----------
    gus : Gus
        Core, tables, and whether caches are warm.
    trace : Trace
        What ran.

    Examples
    --------
    >>> import perfkit as pk
    >>> prepared = pk.prepare(gus, trace)                             # doctest: +SKIP
    >>> prepared.sensitivity((1.5,), ["rob", "front_end"]).to_frame()  # doctest: +SKIP
    """
    expect_trace(trace, "prepare")
    program = gus.program(trace)
    memory = gus.memory(trace, program)
    kept = tuple(windows(trace, memory))
    return Prepared(
        gus.core,
        gus.tables,
        gus.warm,
        trace=trace,
        kept_program=program,
        kept_pass=memory,
        kept_windows=kept,
    )
