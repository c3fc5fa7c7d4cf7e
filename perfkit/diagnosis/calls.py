"""Which calls of a function are recorded: whole ones, as like the others as can be, as many as there is room for."""

import json
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from perfkit.trace.trace import Trace

BRIEF = 200.0  # cycles: the stub around a call costs up to some tens, which the clock's own cost does not hold
PER_CYCLE = 3.0  # instructions per cycle assumed before any is counted
_PLACES = 9
_LIKE_THE_MEAN = 1.25  # by how many times calls may take more or less than the mean and still stand for all
_ABOUT_AS_LONG = 1.5
_MANY, _INTERRUPTED = 200, 0.01  # so many calls, of which such a share may hold what other programs took
_OTHER = 0.1  # of a part's instructions that may be others than the whole call's mix would have


@dataclass(frozen=True)
class Calls:
    """So many calls from one on.

    Attributes
    ----------
    skip, count : int
        Calls before, and calls taken.
    share : float
        Of the time of all timed calls.
    typical : float
        Cycles per call, relative to the `middle` of all timed calls.
    alike : float
        The share of all timed calls' time that is in calls about as long as these.
    """

    skip: int
    count: int
    share: float = 1.0
    typical: float = 1.0
    alike: float = 1.0

    @property
    def is_like_the_mean(self) -> bool:
        """Whether they take as long as the mean call, about."""
        return 1 / _LIKE_THE_MEAN <= self.typical <= _LIKE_THE_MEAN


def middle(cycles: NDArray[np.float64]) -> float:
    """Return the trimmed mean: without the shortest and the longest twentieth, at least one of each from three on.

    A first call that meets cold caches, or one that was interrupted, would pull the mean away from all the others.
    """
    cut = max(len(cycles) // 20, min(1, (len(cycles) - 1) // 2))
    return float(np.sort(cycles)[cut : len(cycles) - cut].mean())


def undisturbed(cycles: NDArray[np.float64], waited: float) -> NDArray[np.float64]:
    """Return what calls took without other programs' time, which the longest hold: all above a level is taken off.

    Parameters
    ----------
    cycles : (calls,) float
        Of each call.
    waited : float
        Share of this time in which other programs had the processors.
    """
    total = float(cycles.sum())
    if waited <= 0 or len(cycles) < 2 or not total:
        return cycles
    ordered = np.sort(cycles)
    below = np.concatenate(([0.0], np.cumsum(ordered[:-1])))
    kept = below + ordered * np.arange(len(cycles), 0, -1)  # of all, where the level is each of them
    return np.minimum(cycles, np.interp(min(1 - waited, 1.0) * total, kept, ordered))


def choose_calls(cycles: NDArray[np.float64], limit: int, most: float) -> Calls:
    """Choose consecutive calls whose mean is nearest to the `middle` of all calls.

    Where none are near, as of calls of two kinds of which the mean is neither: those about as long as which take most
    of the time.

    Parameters
    ----------
    cycles : (calls,) float
        Of each call that returned.
    limit : int
        Instructions that may be recorded.
    most : float
        Cycles that may pass before the first of them.
    """
    room = limit / PER_CYCLE
    count = int(np.clip(room / max(float(np.median(cycles)), 1.0), 1, len(cycles)))
    # A call that was interrupted takes a million cycles and no more instructions: some in a hundred may have been.
    usual = np.minimum(cycles, np.quantile(cycles, 1 - _INTERRUPTED)) if len(cycles) >= _MANY else cycles
    while count > 1 and usual[:count].sum() > room:
        count -= max(1, count // 8)
    ends = np.concatenate(([0.0], np.cumsum(cycles)))
    last = max(0, min(len(cycles) - count, int(np.searchsorted(ends, most, side="right")) - 1))
    # The first call meets cold caches and untrained predictors: it is taken where there is no other.
    first = min(1, last)
    starts = np.unique(np.linspace(first, last, _PLACES).astype(int))
    found = [judged(Calls(int(start), count), cycles) for start in starts]
    nearest = min(found, key=lambda each: abs(each.typical - 1))
    return nearest if nearest.is_like_the_mean else max(found, key=lambda each: each.alike)


def judged(calls: Calls, cycles: NDArray[np.float64]) -> Calls:
    """Return calls with what they are among all timed ones (`cycles` of each): share, typical, alike."""
    total, mean = float(cycles.sum()), middle(cycles)
    here = float(cycles[calls.skip : calls.skip + calls.count].sum())
    each = here / max(calls.count, 1)
    like = (cycles > each / _ABOUT_AS_LONG) & (cycles < each * _ABOUT_AS_LONG)
    return replace(
        calls,
        share=here / total if total else 1.0,
        typical=each / mean if mean else 1.0,
        alike=float(cycles[like].sum()) / total if total else 1.0,
    )


def alike(cycles: NDArray[np.float64], skip: int, count: int, simulated: float) -> float:
    """Return the share of all calls' time that is in calls about as long as some; 1 where these are as the mean.

    A first call meets empty caches, which is no other code: it stands for the others where these are about as long as
    each other, no longer than it, and it is not simulated as longer than they take.

    Parameters
    ----------
    cycles : (calls,) float
        Of each call, as timed.
    skip, count : int
        Calls before those in question, and how many these are.
    simulated : float
        Cycles of one of these in filled caches.
    """
    others = cycles[1:] if skip == 0 and len(cycles) > 1 else cycles
    mean, measured = float(others.mean()), float(cycles[skip : skip + count].mean())
    if any(1 / _LIKE_THE_MEAN <= each / mean <= _LIKE_THE_MEAN for each in (measured, simulated)):
        return 1.0
    typical, kinds = float(np.median(others)), [measured, simulated]
    if skip == 0 and measured >= typical and simulated < _ABOUT_AS_LONG * typical:
        kinds.append(typical)
    near = ((others > each / _ABOUT_AS_LONG) & (others < each * _ABOUT_AS_LONG) for each in kinds)
    return max(float(others[those].sum() / others.sum()) for those in near)


def from_address(trace: Trace, address: int, limit: int) -> Trace | None:
    """Return this many instructions of a trace from where an address first runs; None where it never does.

    Parameters
    ----------
    trace : Trace
        A recording.
    address : int
        As objdump prints it; the block that holds it counts.
    limit : int
        Instructions at most, whole blocks.
    """
    code = trace.code
    at = np.flatnonzero(trace.object_addresses() <= np.uint64(address))
    held = [k for k in at.tolist() if trace.object_addresses()[k] + len(code.encoding[k]) > address]
    ran = np.flatnonzero(np.isin(trace.stream, code.block[held])) if held else np.zeros(0, dtype=np.int64)
    if not len(ran):
        return None
    first = int(ran[0])
    return trace.part(first, _until(trace, first, limit), f"limit of {limit} instructions")


def windows_of(trace: Trace, limit: int) -> list[tuple[int, int]]:
    """Return parts of a trace of about so many instructions, one after the other: first block, and the last one's end.

    Parameters
    ----------
    trace : Trace
        A recording.
    limit : int
        Instructions at most, whole blocks; what is left at the end is in none, unless there would be none at all.
    """
    found = [(0, _until(trace, 0, limit))]
    while found[-1][1] < len(trace.stream):
        found.append((found[-1][1], _until(trace, found[-1][1], limit)))
    return found[:-1] or found


def whole_calls(trace: Trace, begins: NDArray[np.int64]) -> tuple[Trace, int] | None:
    """Return the whole calls of a recording that was cut within one, and how many; None where it holds none.

    Parameters
    ----------
    trace : Trace
        A recording of calls in a row.
    begins : (calls,) int
        The block that each begins with. Where another one than a return comes before, it is not known to be one.
    """
    if len(begins) < 2:
        return None
    code = trace.code
    ends = (code.text[k].removeprefix("bnd ").startswith(("ret", "rep ret")) for k in code.block_start[1:] - 1)
    returns = np.fromiter(ends, dtype=bool)
    if not returns[trace.stream[begins[1:] - 1]].all():
        return None
    part, count = trace.part(0, int(begins[-1]), ""), len(begins) - 1
    extra = {**part.provenance.extra, "repeat": str(count)}
    return replace(part, provenance=replace(part.provenance, complete=True, stopped="", extra=extra)), count


def _until(trace: Trace, first: int, limit: int) -> int:
    """Return the block behind the last one of so many instructions at most, from block number `first` on."""
    lengths = np.diff(trace.code.block_start).astype(np.int64)
    more = int(np.searchsorted(np.cumsum(lengths[trace.stream[first:]]), limit, side="right"))
    return first + max(more, 1)


def share_of(part: Trace, whole: Trace) -> float | None:
    """Return which share of a call's instructions a part of it is; None where it runs other code than the whole call.

    Parameters
    ----------
    part, whole : Trace
        Recordings of the same program, which may have been run twice.
    """
    frames = [(each.object_addresses(), each.instruction_counts()) for each in (part, whole)]
    places = np.unique(np.concatenate([addresses for addresses, _ in frames]))
    mixes = []
    for addresses, counts in frames:
        mix = np.zeros(len(places))
        np.add.at(mix, np.searchsorted(places, addresses), counts / counts.sum())
        mixes.append(mix)
    if float(np.abs(mixes[0] - mixes[1]).sum()) / 2 > _OTHER:
        return None
    return part.instruction_count / whole.instruction_count


def share_of_counted(part: Trace, whole: Trace) -> float | None:
    """Return the share of a call that a part is, as `share_of` does, of a call that was counted further than recorded.

    None where it was not counted to its end, too.
    """
    counted = whole.provenance.extra
    if "counted" not in counted:
        return None
    bases = dict(zip(whole.code.pc.tolist(), whole.object_addresses().tolist(), strict=True))
    base = {pc - at for pc, at in bases.items()}
    first, executed = part.code.block_start[:-1], part.block_counts() * np.diff(part.code.block_start)
    mixes: list[dict[int, float]] = [{}, {}]
    recorded = part.instruction_count
    for at, n in zip(part.object_addresses()[first].tolist(), executed.tolist(), strict=True):
        mixes[0][at] = mixes[0].get(at, 0.0) + n / recorded
    total = int(counted["counted"])
    for pc, n in json.loads(counted["counted_by_block"]):
        at = bases.get(pc, pc - min(base, key=lambda each: abs(pc - each)))  # of code that was not kept
        mixes[1][at] = mixes[1].get(at, 0.0) + n / total
    apart = sum(abs(mixes[0].get(at, 0.0) - mixes[1].get(at, 0.0)) for at in mixes[0].keys() | mixes[1].keys()) / 2
    return None if apart > _OTHER else recorded / total


def fewer(calls: Calls) -> Calls:
    """Return a quarter of the calls, at least one."""
    return Calls(calls.skip, max(1, calls.count // 4))
