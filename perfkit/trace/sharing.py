"""Which lines of memory several threads use while one of them writes: the same bytes of it, or different ones.

Only accesses in the same phase count (`ThreadTraces.phases`), where phases are known. Truly shared: one thread writes a
byte that another reads or writes. Falsely shared: they touch different bytes, and only the line makes them wait for
each other; memory laid out in another way would end that.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from perfkit.base.results import Kind, Tabled, draw, labelled
from perfkit.errors import SettingError, of_extra
from perfkit.trace.code import expand

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from perfkit.trace.threads import ThreadTraces

SERIAL = -1
"""The phase of what runs while no other thread of the region does."""

_USER = 1 << 47  # below it lies what a program may access; above, `NO_ACCESS` and the kernel's pages
_LINE_BITS = 44
_PLACES = 3  # source lines named for a line of memory


@dataclass(frozen=True, eq=False, repr=False)
class SharedLines(Tabled):
    """The shared lines of a region's threads, those with most accesses first.

    Attributes
    ----------
    table : DataFrame
        One row per line: ``address`` (of its first byte), ``variable`` (the static variable there, "" for others),
        ``sharing`` ("false", "true" or "both"), ``threads``, ``writers``, ``reads`` and ``writes`` (by all its threads,
        in the phases in which it is shared), ``places`` (source lines, or addresses, with most of them).
    name : str
        What ran.
    threads : int
        How many threads there are.
    line : int
        Bytes of a line.
    phased : bool
        Whether the phases in which threads run at the same time were known.
    origin : str
        The kind of the traces.

    Examples
    --------
    >>> import numpy as np
    >>> triad = pk.datasets.load("traces/triad")
    >>> once = np.array([[0, 0]])  # one call, in the first phase
    >>> traces = pk.ThreadTraces((triad, triad), (once, once))  # the same addresses twice
    >>> lines = traces.shared_lines().to_frame()
    >>> set(lines["sharing"]), set(lines["threads"])
    ({'true'}, {'0, 1'})
    """

    table: "pd.DataFrame"
    name: str
    threads: int
    line: int
    phased: bool
    origin: Kind
    _rows: ClassVar[str] = "table"

    @property
    def kind(self) -> Kind:
        """The kind of the traces: which lines are shared follows from their addresses alone."""
        return self.origin

    def to_frame(self) -> "pd.DataFrame":
        """Return the table."""
        return self.table.copy()

    def false(self) -> "pd.DataFrame":
        """Return the rows of lines that are shared falsely, wholly or in part."""
        return self.table[self.table["sharing"] != "true"].reset_index(drop=True)

    def summary(self) -> str:
        """Say how many lines are shared, how, and which most of all."""
        if self.threads < 2:
            return f"{self.name}: no lines are shared where only one thread ran"
        kinds = self.table["sharing"].value_counts()
        told = ", ".join(f"{kinds[k]:,} {text}" for k, text in _WORDS.items() if k in kinds) or "none"
        size, kind = self.line, labelled(self.kind)
        lines = [f"{self.name}: lines of {size} bytes that {self.threads} threads share while one writes{kind}: {told}"]
        lines += [
            f"{row.variable or 'memory'} at {row.address:#x}: {row.sharing} sharing by threads {row.threads}, "
            f"{row.writes:,} writes and {row.reads:,} reads, from {row.places}"
            for row in self.table.head(3).itertuples()
        ]
        if not self.phased and len(self.table):
            lines.append(
                "when the threads ran side by side is not known (no OpenMP loop of the function, no barrier): accesses "
                "that a join or a lock keeps apart are counted, too"
            )
        return "\n".join(lines)

    def plot(self, ax: "Axes | None" = None, top: int = 12) -> "Axes":
        """Draw the accesses of the lines that are shared most as bars; return the axes."""
        return draw("threads:plot_shared_lines", self, top=top, ax=ax)


_WORDS = {"false": "falsely", "true": "truly", "both": "both ways"}


class Accesses(NamedTuple):
    """A thread's accesses of lines in phases that others may share, one entry for each line that an access touches."""

    block: NDArray[np.int64]  # which executed block
    operand: NDArray[np.int64]  # which static operand
    phase: NDArray[np.int64]
    line: NDArray[np.int64]
    first: NDArray[np.int64]  # its first byte in the line, and how many
    width: NDArray[np.int64]
    write: NDArray[np.bool_]
    read: NDArray[np.bool_]
    position: NDArray[np.int64]  # which access of the trace


def line_accesses(traces: "ThreadTraces", thread: int, line: int, *, alone: bool = False) -> Accesses:
    """Return the accesses of a thread; those while it runs alone only where they are wanted."""
    trace, phases = traces[thread], traces.phases(thread)
    code = trace.code
    operand = expand(trace.stream, code.block_operand_start).astype(np.int64)
    per_block = np.diff(code.block_operand_start)[trace.stream]
    block = np.repeat(np.arange(len(trace.stream)), per_block)
    size = trace.access_sizes().astype(np.int64)
    keep = (trace.addresses < np.uint64(_USER)) & (size > 0) & (alone | (phases[block] != SERIAL))
    position = np.flatnonzero(keep)
    address, size = trace.addresses[keep].astype(np.int64), size[keep]
    first, last = address // line, (address + size - 1) // line
    lines = (last - first + 1).astype(np.int64)
    which = np.repeat(np.arange(len(address)), lines)
    number = np.arange(len(which)) - np.repeat(np.cumsum(lines) - lines, lines) + first[which]
    begin = np.maximum(address[which], number * line)
    end = np.minimum(address[which] + size[which], (number + 1) * line)
    about, blocks = operand[keep][which], block[keep][which]
    return Accesses(
        blocks, about, phases[blocks], number, begin - number * line, end - begin, code.write[about], code.read[about],
        position[which],
    )  # fmt: skip


def contended(
    traces: "ThreadTraces", line: int, *, by_phase: bool = True
) -> tuple[NDArray[np.int64], list[Accesses], list[NDArray[np.int64]]]:
    """Return the lines that threads share while one writes, the accesses of these, and which one each is of.

    By phase, each line is one for each phase in which it is shared, and what a thread does alone does not count; else
    lines that are shared at any time. The first is (n, 2): phase and line of each.
    """
    phases = np.unique(np.concatenate([traces.phases(k) for k in traces])) if by_phase else np.array([SERIAL])

    def keyed(thread: int) -> tuple[Accesses, NDArray[np.int64]]:
        found = line_accesses(traces, thread, line, alone=not by_phase)
        return found, (np.searchsorted(phases, found.phase) if by_phase else 0) << _LINE_BITS | found.line

    touched, written = [], []
    for thread in traces:  # twice through the accesses, which are many, to keep those few of shared lines only
        found, key = keyed(thread)
        touched.append(np.unique(key))
        written.append(np.unique(key[found.write]))
    lines, threads = np.unique(np.concatenate(touched), return_counts=True)
    shared = np.intersect1d(lines[threads > 1], np.concatenate(written))
    kept, places = [], []
    for thread in traces if len(shared) else ():
        found, key = keyed(thread)
        at = np.minimum(np.searchsorted(shared, key), len(shared) - 1)
        mine = shared[at] == key
        kept.append(Accesses(*(column[mine] for column in found)))
        places.append(at[mine])
    return np.stack([phases[shared >> _LINE_BITS], shared & (1 << _LINE_BITS) - 1], axis=1), kept, places


def shared_lines(traces: "ThreadTraces", line: int = 64) -> SharedLines:
    """Return the lines that threads share while one of them writes (`SharedLines`).

    Parameters
    ----------
    traces : ThreadTraces
        What the threads ran.
    line : int
        Bytes of a line: 8 to 64, a power of two.

    Raises
    ------
    SettingError
        Lines of another size.
    """
    pd = of_extra("pandas")

    if line not in (8, 16, 32, 64):
        raise SettingError(f"a line has 8, 16, 32 or 64 bytes; found {line}")
    shared, found, places = contended(traces, line)
    masks = [_masks(each, at, len(shared)) for each, at in zip(found, places, strict=True)]
    true, false = _ways(masks) if masks else (np.zeros(0), np.zeros(0))
    rows: dict[int, dict[str, Any]] = {}
    for k, number in enumerate(shared[:, 1].tolist()):
        row = rows.setdefault(number, {"true": False, "false": False, "threads": set(), "writers": set(), "at": []})
        row["true"] |= bool(true[k])
        row["false"] |= bool(false[k])
        row["threads"] |= {t for t, (read, written) in enumerate(masks) if read[k] | written[k]}
        row["writers"] |= {t for t, (_, written) in enumerate(masks) if written[k]}
        row["at"].append(k)
    counts = _counts(traces, found, places, len(shared))
    names = _variables(traces)
    table = [
        {
            "address": number * line,
            "variable": names(number * line, _touched(masks, row["at"])),
            "sharing": "both" if row["true"] and row["false"] else "true" if row["true"] else "false",
            "threads": ", ".join(map(str, sorted(row["threads"]))),
            "writers": ", ".join(map(str, sorted(row["writers"]))),
            **counts(row["at"]),
        }
        for number, row in rows.items()
    ]
    columns = ["address", "variable", "sharing", "threads", "writers", "reads", "writes", "places"]
    frame = pd.DataFrame(table, columns=columns).sort_values(
        ["writes", "reads", "address"], ascending=[False, False, True]
    )
    origin = traces[0].provenance
    name = origin.title
    return SharedLines(frame.reset_index(drop=True), name, len(traces), line, traces.phased, traces.kind)


def _masks(found: Accesses, at: NDArray[np.int64], lines: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return which bytes of each shared line a thread reads and which it writes, as bits."""
    whole = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
    bits = (whole >> (64 - found.width).astype(np.uint64)) << found.first.astype(np.uint64)
    out = []
    for which in (found.read, found.write):
        mask = np.zeros(lines, dtype=np.uint64)
        np.bitwise_or.at(mask, at[which], bits[which])
        out.append(mask)
    return out[0], out[1]


def _touched(masks: Sequence[tuple[NDArray[np.uint64], NDArray[np.uint64]]], which: list[int]) -> int:
    """Return which bytes of a line any thread reads or writes, as bits."""
    return int(np.bitwise_or.reduce([read[which] | written[which] for read, written in masks], axis=None))


def _ways(masks: Sequence[tuple[NDArray[np.uint64], NDArray[np.uint64]]]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return which lines are shared truly by some two threads, and which falsely."""
    true = false = np.zeros(len(masks[0][0]), dtype=np.bool_)
    for i, (_, written) in enumerate(masks):
        for j, (read, other) in enumerate(masks):
            if i != j:
                both = (written != 0) & ((read | other) != 0)
                overlap = (written & (read | other)) != 0
                true, false = true | (both & overlap), false | (both & ~overlap)
    return true, false


def _counts(traces: "ThreadTraces", found: Sequence[Accesses], places: Sequence[NDArray[np.int64]], lines: int) -> Any:
    """Return a function from shared lines to their counts and source lines."""
    reads, writes = np.zeros(lines, dtype=np.int64), np.zeros(lines, dtype=np.int64)
    sources: list[dict[str, int]] = [{} for _ in range(lines)]
    for thread, (each, at) in enumerate(zip(found, places, strict=True)):
        code = traces[thread].code
        reads += np.bincount(at[each.read], minlength=lines)
        writes += np.bincount(at[each.write], minlength=lines)
        owner = np.repeat(np.arange(len(code.pc)), np.diff(code.operand_start))[each.operand]
        pairs, times = np.unique(at * len(code.pc) + owner, return_counts=True)
        address = traces[thread].object_addresses()
        for pair, count in zip(pairs.tolist(), times.tolist(), strict=True):
            k, i = divmod(pair, len(code.pc))
            where = (
                f"{Path(code.file[i]).name}:{code.line[i]}"
                if code.line[i]
                else f"{code.function[i]} at {int(address[i]):#x}"
            )
            sources[k][where] = sources[k].get(where, 0) + count

    def of(which: list[int]) -> dict[str, Any]:
        total: dict[str, int] = {}
        for k in which:
            for where, count in sources[k].items():
                total[where] = total.get(where, 0) + count
        most = sorted(total, key=lambda where: (-total[where], where))[:_PLACES]
        return {"reads": int(reads[which].sum()), "writes": int(writes[which].sum()), "places": ", ".join(most)}

    return of


def _variables(traces: "ThreadTraces") -> Any:
    """Return a function from an address and bits of bytes there to the static variables that these belong to."""
    rows = sorted({tuple(row) for t in traces.traces for row in json.loads(t.provenance.extra.get("variables", "[]"))})

    def named(address: int, touched: int) -> str:
        found = []
        for start, length, name in rows:
            first, last = max(start - address, 0), min(start + length - address, 64)
            if first < last and touched >> first & (1 << last - first) - 1:
                found.append(name)
        return ", ".join(found)

    return named
