"""Traces of a region that several threads ran: one of each thread, and in which phase of the program each part ran."""

import json
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from perfkit.base.files import check_fields, existing, json_object, member, read_archive, reading, write_archive
from perfkit.base.results import Kind, Summarised, draw, labelled
from perfkit.errors import DataError, FormatError, SettingError, of_extra
from perfkit.trace.sharing import SERIAL, SharedLines, shared_lines
from perfkit.trace.trace import Trace

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

MAGIC, VERSION = "perfkit-thread-traces", 1
_WHAT = "perfkit's traces of threads"
# What all threads of a team wait in for each other: a new phase begins behind it.
BARRIERS = frozenset(
    {
        "GOMP_barrier", "GOMP_loop_end", "GOMP_sections_end", "GOMP_workshare_task_reduction_unregister",
        "__kmpc_barrier", "__kmpc_barrier_master", "__kmpc_reduce", "pthread_barrier_wait",
    }
)  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class ThreadTraces(Summarised, Mapping[int, Trace]):
    """A mapping from threads, numbered from 0 in the order in which they were started, to what each ran.

    Parameters
    ----------
    traces : tuple of Trace
        One of each thread that came to the region.
    calls : tuple of (calls, 2) int64
        Of each thread: where in the stream (in executed blocks) each call of the region begins, and the number of the
        program's phase then. Parallel loops of one function have phases of their own.
    bodies : tuple of str
        Functions that were recorded as the bodies of the function's parallel loops; empty where there are none.

    Examples
    --------
    >>> traces = pk.trace_threads("./a.out", "solve")  # doctest: +SKIP
    >>> traces[0].instruction_count, traces.shared_lines().to_frame()  # doctest: +SKIP
    """

    traces: tuple[Trace, ...]
    calls: tuple[NDArray[np.int64], ...]
    bodies: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.traces or len(self.traces) != len(self.calls):
            raise DataError(
                f"{len(self.traces)} traces and {len(self.calls)} lists of calls; one of each thread expected"
            )
        for number, (trace, calls) in enumerate(zip(self.traces, self.calls, strict=True)):
            places = calls[:, 0] if calls.ndim == 2 and calls.shape[1] == 2 else np.array([-1])
            if (places < 0).any() or (np.diff(places) < 0).any() or (places >= trace.blocks_executed).any():
                raise DataError(
                    f"thread {number}: its calls do not lie in its stream of {trace.blocks_executed} blocks"
                )

    def __getitem__(self, thread: int) -> Trace:
        if not isinstance(thread, Integral) or thread not in range(len(self.traces)):
            raise KeyError(f"no thread {thread}: there are 0 to {len(self.traces) - 1}")
        return self.traces[thread]

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.traces)))

    def __len__(self) -> int:
        return len(self.traces)

    @property
    def kind(self) -> Kind:
        """``"measured"`` where the traces were recorded, ``"generated"`` where they were made."""
        return self.traces[0].kind

    @property
    def phased(self) -> bool:
        """Whether the phases in which threads run at the same time are known, rather than all taken for one."""
        if any("calls_without_phase" in trace.provenance.extra for trace in self.traces):
            return False
        return bool(self.bodies) or any(self._barriers(k).any() for k in self)

    @property
    def complete(self) -> bool:
        """Whether no thread's trace ends early."""
        return all(trace.provenance.complete for trace in self.traces)

    def _barriers(self, thread: int) -> NDArray[np.bool_]:
        """Say which static blocks of a thread end in a call that waits for all threads."""
        extra = json.loads(self.traces[thread].provenance.extra.get("barriers", "[]"))
        found = np.zeros(self.traces[thread].code.block_count, dtype=np.bool_)
        found[[k for k in extra if k < len(found)]] = True
        return found

    def phases(self, thread: int) -> NDArray[np.int64]:
        """Return in which phase each executed block of a thread ran, shape (blocks,); :data:`SERIAL` where alone.

        Phases of one number ran at the same time, or could have. They are told apart by the parallel loops' starts, and
        by barriers within them; of a program that uses neither, all is one phase.

        Raises
        ------
        SettingError
            There is no such thread.
        """
        if not isinstance(thread, Integral) or thread not in self:
            raise SettingError(f"no thread {thread!r}; threads are numbered from 0 to {len(self) - 1}")
        trace, calls = self.traces[thread], self.calls[thread]
        found = np.zeros(len(trace.stream), dtype=np.int64)
        at = np.searchsorted(calls[:, 0], np.arange(len(found)), side="right") - 1
        begun = calls[np.maximum(at, 0), 1] if len(calls) else found
        after = self._barriers(thread)[trace.stream]
        passed = np.concatenate(([0], np.cumsum(after)[:-1])) if len(after) else found
        if self.bodies:
            first = np.concatenate(([0], passed))[calls[:, 0] + 1] if len(calls) else found
            passed = passed - (first[np.maximum(at, 0)] if len(calls) else 0)
        found = (begun << 32) + passed
        own = self.traces[thread].provenance.extra.get("entry", "")
        if self.bodies and own not in self.bodies:  # the function itself starts them, and waits for them
            names = np.array(trace.code.function)[trace.code.block_start[:-1]]
            outer = (names == own)[trace.stream]
            last_outer = np.maximum.accumulate(np.where(outer, np.arange(len(found)), -1))
            entered = np.where(at >= 0, calls[np.maximum(at, 0), 0] if len(calls) else -1, -1)
            found[outer | (last_outer >= entered)] = SERIAL
        return found

    def shared_lines(self) -> SharedLines:
        """Return the lines of memory that threads shared while one of them wrote: truly, or falsely."""
        return shared_lines(self)

    @cached_property
    def instructions(self) -> NDArray[np.int64]:
        """Executed instructions of each thread."""
        return np.array([trace.instruction_count for trace in self.traces])

    def to_frame(self) -> "pd.DataFrame":
        """Return one row per thread: thread, instructions, accesses, calls, share of the most, complete, stopped."""
        pd = of_extra("pandas")

        return pd.DataFrame(
            {
                "thread": list(self),
                "instructions": self.instructions,
                "accesses": [trace.access_count for trace in self.traces],
                "calls": [len(calls) for calls in self.calls],
                "share": self.instructions / self.instructions.max(),
                "complete": [trace.provenance.complete for trace in self.traces],
                "stopped": [trace.provenance.stopped for trace in self.traces],
            }
        )

    def summary(self) -> str:
        """Say how many threads ran how much, and how unevenly."""
        origin, counts = self.traces[0].provenance, self.instructions
        where = origin.title or "without a name"
        lines = [
            (
                f"{where}: {len(self)} threads, {counts.sum():,} instructions{labelled(self.kind)}; "
                f"the most ({counts.max():,}, thread {int(counts.argmax())}) is {counts.max() / counts.mean():.2f} "
                "times the mean"
                if len(self) > 1
                else f"{where}: only one thread came to it, {counts.sum():,} instructions{labelled(self.kind)}"
            )
        ]
        if elsewhere := json.loads(self.traces[0].provenance.extra.get("loops_elsewhere", "[]")):
            called = self._called()
            first = [name for name in elsewhere if name in called] or elsewhere
            lines.append(
                f"{origin.function} holds no parallel loop; {', '.join(first)}"
                + (", which it calls," if first[0] in called else "")
                + f" {'does' if len(first) == 1 else 'do'}: record {first[0]} instead (-f {first[0]})"
            )
        if self.bodies:
            lines.append(f"parallel loops: {', '.join(map(self._named, self.bodies))}")
        early = sorted({trace.provenance.stopped for trace in self.traces if not trace.provenance.complete})
        if early:
            lines.append(f"incomplete, so that threads cannot be compared: {'; '.join(early)}")
        return "\n".join(lines)

    def _called(self) -> set[str]:
        """Return the names of what was called and not recorded."""
        names = self.traces[0].provenance.extra.get("not_followed_calls", "")
        return {name.rpartition(": ")[0] for name in names.split(", ")}

    def _named(self, body: str) -> str:
        """Return a loop's function with the line where it begins, if that is known."""
        for trace in self.traces:
            code = trace.code
            places = [
                (line, file)
                for name, file, line in zip(code.function, code.file, code.line.tolist(), strict=True)
                if name == body and line
            ]
            if places:
                line, file = min(places)
                return f"{body} ({Path(file).name}:{line})"
        return body

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the instructions of each thread as bars; return the axes."""
        return draw("threads:plot_work", self, ax=ax)

    def save(self, path: str | Path) -> Path:
        """Write all threads' traces to one file, an archive of trace files."""
        header = {"format": MAGIC, "version": VERSION, "threads": len(self), "bodies": list(self.bodies)}
        calls = {f"{number:02}.calls": each for number, each in enumerate(self.calls)}
        traces = {f"{number:02}.trace": each for number, each in enumerate(self.traces)}
        return write_archive(path, ("threads.json", header), calls, traces, ".threads")

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote; FileNotFoundError if there is none, FormatError if it is another's or damaged."""
        path = existing(path)
        with reading(path, _WHAT), zipfile.ZipFile(path) as archive:
            header = json_object(member(archive, "threads.json", path, _WHAT), path, _WHAT)
            if header.get("format") != MAGIC or header.get("version") != VERSION:
                raise FormatError(f"{path}: not {_WHAT}, of version {VERSION} (its header does not say so)")
            check_fields(header, {"threads": int, "bodies": list}, path, _WHAT)
            numbers = range(header["threads"])
            calls, traces = read_archive(
                archive, path, _WHAT,
                {f"{k:02}.calls": (np.int64, 2) for k in numbers}, {f"{k:02}.trace": Trace.load for k in numbers},
            )  # fmt: skip
            try:
                bodies = tuple(str(name) for name in header["bodies"])
                return cls(tuple(traces.values()), tuple(calls.values()), bodies)
            except DataError as error:
                raise FormatError(f"{path}: its parts do not fit together ({error})") from error
