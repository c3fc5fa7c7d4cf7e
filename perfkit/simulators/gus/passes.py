"""Going through a trace: windows of executed blocks with their memory accesses, prepared for timing."""

from collections.abc import Callable, Iterator

from perfkit.errors import DataError
from perfkit.simulators.memory.memory import MemoryPass, Window
from perfkit.trace.trace import Trace

Progress = Callable[[int, int], None]


def windows(trace: Trace, memory: MemoryPass, progress: Progress | None = None) -> Iterator[Window]:
    """Go through a trace in windows prepared for timing."""
    total = trace.blocks_executed
    if not total:
        raise DataError("the trace holds no executed instruction; there is nothing to simulate")
    blocks = 1 << 16
    for k, chunk in enumerate(trace.chunks(blocks)):
        yield memory.window(chunk)
        if progress is not None:
            progress(min(total, (k + 1) * blocks), total)
