"""The part of a recording that shows its bottleneck at work: around one execution of the line that it costs most at."""

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from perfkit.trace.standing import places

if TYPE_CHECKING:
    from perfkit.diagnosis.diagnosis import Diagnosis
    from perfkit.simulators.gus.timeline import Timeline

_SOON, _LATE = 60_000, 300_000  # instructions: simulating them again takes a second; more than the latter is not done


class HotWindow(NamedTuple):
    """So many executed instructions from ``first`` on, around number ``chosen`` (-1: none)."""

    first: int
    length: int
    chosen: int


def hot_window(found: "Diagnosis", length: int) -> HotWindow:
    """Return the executed instructions around the bottleneck's line, once caches and buffers have filled.

    Of the line's instructions the one that takes most of the time, and of its executions among the first 60,000
    instructions the middle one; where it runs later, its first. The beginning where it runs later than that.

    Parameters
    ----------
    found : Diagnosis
        The answer.
    length : int
        Executed instructions in the window, as far as there are so many.
    """
    result, line = found.result, found.line
    code, stream = result.trace.code, result.trace.stream
    there = zip(places(result.trace), code.function, strict=True)
    here = np.array([each == (line["place"], line["function"]) for each in there])
    hottest = int(np.where(here, result.spent.sum(axis=1), -1).argmax())
    block = int(code.block[hottest])
    ends = np.cumsum(np.diff(code.block_start).astype(np.int64)[stream])
    begins = np.concatenate(([0], ends[:-1]))
    ran = begins[stream == block] + (hottest - int(code.block_start[block]))
    soon = ran[ran < _SOON]
    chosen = int(soon[len(soon) // 2] if len(soon) else ran[0]) if len(ran) else -1
    if not 0 <= chosen < _LATE:
        return HotWindow(0, min(length, result.instructions), -1)
    first = max(0, min(chosen - length // 2, result.instructions - length))
    return HotWindow(first, min(length, result.instructions - first), chosen)


def hot_timeline(found: "Diagnosis", length: int) -> "Timeline":
    """Return the timeline of `hot_window`, with addresses as objdump prints them."""
    first, count, _ = hot_window(found, length)
    part = found.result.timeline(first, count)
    text = found.listing()["text"].to_numpy()[part.schedule["instruction"].to_numpy()]
    return replace(part, schedule=part.schedule.assign(text=text))
