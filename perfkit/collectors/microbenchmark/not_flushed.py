"""What a cold region uses and no flush reaches: arrays of the kernel's own, and memory that it allocates."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from perfkit.collectors.host import toolchain

NOT_COLD = "not cold"
"""What the remark on a cold row begins with whose data no flush reached."""
_LINE = 64  # bytes: a counter or pointer is no more than a line, which a region's own stores keep in the cache
_DATA = re.compile(r"^[0-9a-f]+ ([0-9a-f]+) [bBdDrR] (\S+)$", re.MULTILINE)
_ALLOCATORS = re.compile(
    r"(malloc|calloc|realloc|aligned_alloc|posix_memalign|memalign|valloc|mmap|mmap64|_Znw[jm]\w*|_Zna[jm]\w*)@plt"
)
_MOST = 3  # names
_Functions = Mapping[str, Sequence[toolchain.Disassembled]]


def data_sizes(objects: Sequence[Path]) -> list[dict[str, int]]:
    """Return the bytes of each object's own variables and constants."""
    out = []
    for path in objects:
        said = toolchain.run_tool(["nm", "-S", "--defined-only", str(path)], timeout=60).stdout
        out.append({name: int(size, 16) for size, name in _DATA.findall(said)})
    return out


def not_flushed(
    functions: _Functions, region: Iterable[Sequence[toolchain.Disassembled]], sizes: dict[str, int]
) -> str:
    """Say what of a region's data is not flushed before a cold window, or "".

    Parameters
    ----------
    functions : mapping
        All of an object's.
    region : iterable
        Those that the region became.
    sizes : dict
        The object's own data, as `data_sizes` has it.
    """
    region = list(region)
    flushed = set(_reached(functions, "pk_flush"))
    used = dict.fromkeys(line.refers for lines in region for line in lines)
    arrays = [name for name in used if sizes.get(name, 0) > _LINE and name not in flushed]
    made = {*used, *_reached(functions, "pk_setup")} if "pk_flush" not in functions else set()
    calls = sorted(
        "new" if found[1].startswith("_Z") else found[1] for name in made if (found := _ALLOCATORS.fullmatch(name))
    )
    what = [f"{name.partition('.')[0]} ({sizes[name]:,} bytes)" for name in arrays[:_MOST]]
    if len(arrays) > _MOST:
        what.append(f"{len(arrays) - _MOST} more of its own")
    if calls:
        what.append(f"what it allocates ({calls[0]})")
    if not what:
        return ""
    where = "which PK_FLUSH does not flush" if "pk_flush" in functions else "which is not flushed, as `memory` alone is"
    return f"{NOT_COLD}: the kernel uses {', '.join(what)}, {where}: PK_FLUSH {{ pk_flush_range(address, bytes); }}"


def _reached(functions: _Functions, start: str) -> Iterator[str]:
    """Yield what a function, and those that it calls, refer to."""
    names = [start]
    for name in names:  # grows while it is walked
        for line in functions.get(name, ()):
            if line.refers:
                yield line.refers
                if line.refers in functions and line.refers not in names:
                    names.append(line.refers)
