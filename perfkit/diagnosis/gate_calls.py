"""Which calls of its function a gate judges, of how many that its program makes, and whether others run other code."""

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from perfkit.trace.calls import call_starts
from perfkit.trace.standing import places
from perfkit.trace.trace import Trace

MOST_CALLS, MOST_INSTRUCTIONS = 10_000, 3_000_000
"""What is recorded, at most, to see what further calls run."""
_PART = 0.1  # of a call's instructions, in code that no judged call runs, from which it runs other code
_ABOUT_AS_MANY = 1.5  # instructions of a call, over or under those of the judged ones


@dataclass(frozen=True)
class CallsMade:
    """What a program's calls of a function run.

    Attributes
    ----------
    made : int
        Calls that were recorded to see that.
    whole : bool
        Whether these are all that the program makes.
    unlike : int
        Calls that run code which no judged one runs, or another number of instructions.
    place : str
        The source line with most of that code's instructions; "" where only their number is another.
    """

    made: int
    whole: bool
    unlike: int
    place: str = ""

    def told(self, skip: int, repeat: int) -> str:
        """Say which calls are judged, and that others are not; "" where all are.

        Parameters
        ----------
        skip, repeat : int
            Calls before the judged ones, and how many these are.
        """
        if self.whole and repeat >= self.made:
            return ""
        which = f"call {skip + 1}" if repeat == 1 else f"calls {skip + 1} to {skip + repeat}"
        judged = f"; judged: {which} of {'' if self.whole else 'more than '}{self.made:,}"
        if not self.unlike:
            return judged
        where = f" ({self.place})" if self.place else ""
        how = "other code" if self.place else "another number of instructions"
        return f"{judged}; {self.unlike:,} of these run {how}{where}, which is in no figure: see --skip and --repeat"


def calls_made(trace: Trace, skip: int, repeat: int) -> CallsMade | None:
    """Return what the calls of a recording from the first on run; None where they cannot be told apart.

    Parameters
    ----------
    trace : Trace
        A recording of as many calls as there was room for.
    skip, repeat : int
        Calls before the judged ones, and how many these are.
    """
    starts = call_starts(trace)
    if starts is None:
        return None
    complete = trace.provenance.complete
    whole = complete and len(starts) < MOST_CALLS
    bounds = [*starts.tolist(), *([trace.blocks_executed] if complete else [])]  # else the last one was cut
    calls = [trace.stream[first:end] for first, end in pairwise(bounds)]
    judged = calls[skip : skip + repeat]
    if not judged:
        return None
    known, lengths = np.unique(np.concatenate(judged)), np.diff(trace.code.block_start).astype(np.int64)
    usual = sum(int(lengths[call].sum()) for call in judged) / len(judged)
    unlike, new = 0, Counter[int]()
    for call in calls:
        blocks, times = np.unique(call, return_counts=True)
        ran, others = times * lengths[blocks], ~np.isin(blocks, known)
        count, elsewhere = int(ran.sum()), int(ran[others].sum())
        if elsewhere > _PART * count:
            new.update(dict(zip(blocks[others].tolist(), ran[others].tolist(), strict=True)))
        unlike += elsewhere > _PART * count or not usual / _ABOUT_AS_MANY < count < usual * _ABOUT_AS_MANY
    place = places(trace)[int(trace.code.block_start[max(new, key=lambda block: new[block])])] if new else ""
    return CallsMade(len(calls), whole, int(unlike), place)
