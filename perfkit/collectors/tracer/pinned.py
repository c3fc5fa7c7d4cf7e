"""A recording that is the same in every run and on every host: what is pinned before the run, and renamed after it.

Before: the choices that libc and BLAS make by processor, the environment, the stack, the heap and where memory is
mapped (:mod:`perfkit.collectors.tracer.pinned_child`). After: where the system's loader and the kernel put files and
the heap is renamed to places of our own, so that it does not matter whether the kernel lets us switch random addresses
off (containers often do not).
"""

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfkit.collectors.tracer.lines import Loaded
from perfkit.collectors.tracer.outside import Maps
from perfkit.collectors.tracer.recording import Recording
from perfkit.errors import SettingError, UnavailableError
from perfkit.trace.code import NO_ACCESS

LEVELS = ("x86-64-v2", "x86-64-v3", "x86-64-v4")
"""Instruction sets that a recording can be pinned to: what compilers and libraries call the levels of x86-64."""
_AVX512 = ("AVX512F", "AVX512VL", "AVX512BW", "AVX512DQ", "AVX512CD", "AVX512ER", "AVX512PF")
_NEEDS = {
    "x86-64-v2": ("ssse3", "sse4_1", "sse4_2", "popcnt"),
    "x86-64-v3": ("avx2", "fma", "bmi1", "bmi2", "movbe"),
    "x86-64-v4": ("avx2", "fma", "bmi1", "bmi2", "movbe", "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"),
}
# What glibc must not use above the level.
_WITHOUT = {
    "x86-64-v2": ("AVX", "AVX2", "FMA", "FMA4", "BMI1", "BMI2", "LZCNT", "MOVBE", "XSAVEC", *_AVX512),
    "x86-64-v3": ("FMA4", *_AVX512),
    "x86-64-v4": ("FMA4", "AVX512ER", "AVX512PF"),
}
# Flags by which glibc tells processors of one level apart, and the sizes that it takes from their caches.
_ALIKE = (
    "-ERMS,-FSRM,-RTM,-Prefer_ERMS,-Prefer_FSRM,-Prefer_No_VZEROUPPER,-Prefer_No_AVX512_Probing,-Slow_BSF,"
    "-Prefer_PMINUB_for_stringop,-Slow_SSE4_2,-Fast_Rep_String,-Fast_Copy_Backward,Fast_Unaligned_Load,"
    "Fast_Unaligned_Copy"
)
_SIZES = {
    "x86_data_cache_size": 32 << 10,
    "x86_shared_cache_size": 1 << 20,
    "x86_non_temporal_threshold": 3 << 18,
    "x86_rep_movsb_threshold": 2048,
    "x86_rep_stosb_threshold": 2048,
}
_BLAS = {
    "x86-64-v2": ("Nehalem", "COMPATIBLE", "generic"),
    "x86-64-v3": ("Haswell", "AVX2", "haswell"),
    "x86-64-v4": ("SkylakeX", "AVX512", "skx"),
}
# Ranges of the renamed addresses: far from each other and from what `pinned_child` places.
_FILES, _FILE_ROOM = 0x1000_0000_0000, 1 << 32
_HEAPS, _THREAD, _KERNEL = (0x5000_0000_0000, 0x5100_0000_0000), 0x5200_0000_0000, 0x5300_0000_0000
_THREAD_BELOW, _THREAD_ABOVE = 1 << 13, 1 << 13
_RECORDS, _HEAP_RECORDS = 4096, 0x4F00_0000_0000  # malloc's own, at the heap's beginning
PLACED = (0x6000_0000_0000, 0x6D00_0000_0000, 0x6F00_0000_0000)
"""Of `pinned_child`: below the second, memory is mapped downwards; above it lie arguments, and below the third the
stack. The first is where renaming stops: what lies between is as it was."""


def check_level(level: str) -> None:
    """Check that an instruction set can be pinned here.

    Raises
    ------
    SettingError
        It is none of `LEVELS`.
    UnavailableError
        This processor lacks some of it.
    """
    if level not in LEVELS:
        raise SettingError(f"an instruction set to pin is one of {', '.join(LEVELS)}; found {level!r}")
    try:
        flags = next(line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags"))
    except (OSError, StopIteration):
        return
    missing = [each for each in _NEEDS[level] if each not in flags.split()]
    if missing:
        raise UnavailableError(
            f"this processor lacks {', '.join(missing)} of {level}: record on another machine, or pin a lower level"
        )


def pinned_environment(level: str) -> dict[str, str]:
    """Return all that a pinned program finds in its environment: no name, folder or language of a user's."""
    without = ",".join(f"-{name}" for name in _WITHOUT[level])
    fast = ",AVX_Fast_Unaligned_Load" if level != "x86-64-v2" else ""
    tunables = [f"glibc.cpu.hwcaps={without},{_ALIKE}{fast}"]
    tunables += [f"glibc.cpu.{name}={size}" for name, size in _SIZES.items()]
    openblas, mkl, blis = _BLAS[level]
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": "/",
        "LC_ALL": "C",
        "TZ": "UTC",
        "GLIBC_TUNABLES": ":".join(tunables),
        "OPENBLAS_CORETYPE": openblas,
        "MKL_CBWR": mkl,
        "BLIS_ARCH_TYPE": blis,
        **dict.fromkeys(
            ("OMP_NUM_THREADS", "OMP_THREAD_LIMIT", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS"), "1"
        ),
    }


def process_environment(level: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the process that records: the pinned one, and what loading needs of the usual one."""
    kept = ("PYTHONPATH", "PYTHONHASHSEED", "LD_BIND_NOW", "LD_LIBRARY_PATH", "TMPDIR")
    return {name: environment[name] for name in kept if name in environment} | pinned_environment(level)


@dataclass(frozen=True)
class _Move:
    """Addresses from `start` to `end` become those from `to` on."""

    start: int
    end: int
    to: int


def renamed(recording: Recording, maps: Maps, places: Sequence[int]) -> Recording:
    """Return a recording with the addresses of its code and data at places that no host and no run changes.

    Parameters
    ----------
    recording : Recording
        As recorded.
    maps : Maps
        Of the process, after the run.
    places : sequence of int
        What `pinned_child` left: two heaps' starts and ends, and where the thread's own memory begins.
    """
    records = _Move(maps.heap(), maps.heap() + _RECORDS, _HEAP_RECORDS)
    moves = sorted([*_files(maps), *_others(places), *_kernel(maps), records], key=lambda move: move.start)
    thread = _thread(maps, places[-1])
    starts = np.array([m.start for m in moves], dtype=np.uint64)
    ends = np.array([m.end for m in moves], dtype=np.uint64)
    shifts = np.array([(m.to - m.start) & (2**64 - 1) for m in moves], dtype=np.uint64)

    def moved(addresses: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], int]:
        k = np.searchsorted(starts, addresses, side="right").astype(np.int64) - 1
        inside = (k >= 0) & (addresses < ends[k])
        own = (addresses >= thread.start) & (addresses < thread.end)  # it may lie right behind a file's zeros
        kept = (addresses == NO_ACCESS) | ((addresses >= PLACED[0]) & (addresses < PLACED[2]))
        found = np.where(inside, addresses + shifts[k], addresses)
        found = np.where(own, addresses + np.uint64((thread.to - thread.start) & (2**64 - 1)), found)
        return found, int((~inside & ~kept & ~own).sum())

    addresses, stray = moved(recording.addresses)
    notes = recording.notes | ({"unpinned_accesses": str(stray)} if stray else {})
    blocks = [_block(block, moved) for block in recording.blocks]
    loaded = [_loaded(each, moved) for each in recording.loaded]
    return replace(recording, addresses=addresses, blocks=blocks, notes=notes, loaded=tuple(loaded))


def _loaded(each: Loaded, moved: Any) -> Loaded:
    to = int(moved(np.array([each.start], dtype=np.uint64))[0][0])
    shift = to - each.start
    return Loaded(each.path, to, each.end + shift, each.load_address + shift)


def _block(block: Mapping[str, Any], moved: Any) -> dict[str, Any]:
    """Return a block at its new place, to be disassembled anew: the text names addresses."""
    places = moved(np.array([row[0] for row in block["instructions"]], dtype=np.uint64))[0].tolist()
    rows = zip(places, block["instructions"], strict=True)
    return {**block, "instructions": [[place, code, "", operands] for place, (_, code, _, operands) in rows]}


def _files(maps: Maps) -> Iterable[_Move]:
    """Give each file a place by its name alone: it does not depend on which other files there are."""
    taken: set[int] = set()
    for path, (start, end) in sorted(maps.files().items(), key=lambda row: Path(row[0]).name):
        mark = zlib.crc32(Path(path.removesuffix(" (deleted)")).name.encode())
        slot = mark & 0x1FFF
        while slot in taken:
            slot = (slot + 1) & 0x1FFF
        taken.add(slot)
        yield _Move(start, end, _FILES + slot * _FILE_ROOM + (mark >> 20 << 12))


def _others(places: Sequence[int]) -> Iterable[_Move]:
    heaps = places[:4]
    yield _Move(heaps[0], heaps[1], _HEAPS[0])
    yield _Move(heaps[2], heaps[3], _HEAPS[1])


def _thread(maps: Maps, at: int) -> _Move:
    """Return where the thread's own memory lies around the address that it is known by."""
    start, end = maps.around(at)
    start, end = max(start, at - _THREAD_BELOW), min(end, at + _THREAD_ABOVE)
    return _Move(start, end, _THREAD + start - at)


def _kernel(maps: Maps) -> Iterable[_Move]:
    for k, (start, end) in enumerate(maps.kernel()):
        yield _Move(start, end, _KERNEL + k * _FILE_ROOM)
