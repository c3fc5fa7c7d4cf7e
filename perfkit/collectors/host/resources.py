"""Measure a core's own figures: widths, store forwarding, misprediction, reorder buffer, caches and memory.

Names are those of a core's resources (`perfkit.machine.core`), so that a calibration can put them in their place;
a few that no core file has (`EXTRAS`) say how they came about.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from perfkit.collectors.host.bench import Bench
from perfkit.collectors.host.code import LABELS, flags, iced
from perfkit.collectors.host.cycle_clock import QUANTILE
from perfkit.errors import UnavailableError

HUGE = 2 << 20  # bytes of a huge page
# Figures that no core file has -> their unit.
EXTRAS = {"front_end_nops": "uops/cycle", "store_forward_renamed": "cycles"}

_TIMES = 3  # that each figure is measured


@dataclass
class MeasuredFigures:
    """Figures that were measured, and those that conditions did not allow, with the reason.

    Parameters
    ----------
    found
        Name -> every value measured.
    left_out
        What was asked for -> why there is no value.
    """

    found: dict[str, list[float]] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    def attempt(self, name: str, measure: Callable[[], float | Mapping[str, float] | None]) -> float | None:
        """Measure one figure, or several at once; keep the reason if this is not possible now."""
        try:
            value = measure()
        except UnavailableError as error:
            self.left_out[name] = str(error)
            return None
        if value is None:
            return None
        values = value if isinstance(value, Mapping) else {name: value}
        for key, one in values.items():
            self.found.setdefault(key, []).append(float(one))
        return None if isinstance(value, Mapping) else value

    def medians(self, least: int = 1) -> dict[str, float]:
        """Return the median of every figure with at least this many values; fewer are too few to tell an outlier."""
        return {name: float(np.median(values)) for name, values in self.found.items() if len(values) >= least}

    def spreads(self) -> dict[str, tuple[float, float]]:
        """Return the least and the most of every figure that was measured several times."""
        return {name: (min(values), max(values)) for name, values in self.found.items() if len(values) > 1}


def core_resources(bench: Bench) -> tuple[dict[str, float], dict[str, tuple[float, float]], dict[str, str]]:
    """Return front-end and retire widths, store-forward latencies, and the misprediction penalty: medians.

    Also returns the least and the most of each, and what could not be measured, with the reason.
    """
    figures = MeasuredFigures()
    for _ in range(_TIMES):
        front = figures.attempt("front_end", lambda: front_end(bench))
        figures.attempt("front_end_nops", lambda: nops(bench))
        if front is not None:
            figures.attempt("retire", partial(retire_width, bench, front))
        figures.attempt("store forwarding", lambda: store_forwarding(bench))
        figures.attempt("misprediction_penalty", lambda: misprediction_penalty(bench))
    medians = figures.medians(least=2)
    if "store_forward_latency" in medians:
        figures.left_out.pop("store forwarding", None)
    spreads = {name: ends for name, ends in figures.spreads().items() if name in medians}
    return medians, spreads, {name: why for name, why in figures.left_out.items() if name not in medians}


def nops(bench: Bench) -> float:
    """Return NOPs per cycle; cores that fuse NOPs with their neighbours show more than they rename of anything else."""
    ix = iced()
    return 1 / bench.cycles([ix.Instruction.create(ix.Code.NOPD)] * 96, 96)


def front_end(bench: Bench) -> float:
    """Return the instructions of one uop that are renamed in a cycle, sustained: the best of some mixes.

    No single mix asks little of the ports, register files and load units of every core.
    """
    ix = iced()
    make, code, r = ix.Instruction, ix.Code, ix.Register
    integers = (r.RAX, r.RDX, r.R8, r.R9, r.R10, r.R11, r.R12)

    def instruction(kind: str, k: int) -> Any:
        if kind == "add":
            return make.create_reg_reg(code.ADD_RM64_R64, integers[k % len(integers)], r.RCX)
        if kind == "load":
            memory = ix.MemoryOperand(r.RSI, displ=8 * (k % 2), displ_size=1)
            return make.create_reg_mem(code.MOV_R64_RM64, (r.R13, r.R14)[k % 2], memory)
        if kind == "move":
            return make.create_reg_i32(code.MOV_R32_IMM32, r.R8D + k % 5, k)
        if kind == "vector":
            return make.create_reg_reg_reg(code.VEX_VPADDD_XMM_XMM_XMMM128, r.XMM0 + k % 12, r.XMM13, r.XMM14)
        return make.create(code.NOPD)

    plain = ("add load add nop", "add add nop nop")
    mixes = ("move vector", "add vector load vector", "add load vector") if "avx" in flags() else plain
    found = []
    for mix in mixes:
        pattern = [instruction(kind, k) for k, kind in enumerate(mix.split() * (96 // len(mix.split())))]
        found.append(len(pattern) / bench.cycles(pattern))
    return max(found)


def retire_width(bench: Bench, front: float) -> float | None:
    """Return the instructions retired in a cycle, None where that cannot be seen.

    A chain of multiplications holds retirement up while N independent moves behind it finish; once it ends, they retire
    as fast as the core can, and a fence waits for the last. The time grows by 1/width for each.
    """
    ix = iced()
    make, code, r = ix.Instruction, ix.Code, ix.Register
    multiply = make.create_reg_reg(code.IMUL_R64_RM64, r.RAX, r.RCX)
    targets = (r.R8D, r.R9D, r.R10D, r.R11D, r.R12D, r.R13D, r.R14D, r.EBX)
    counts = (16, 40, 64, 88, 112)
    times = []
    for count in counts:
        moves = [make.create_reg_i32(code.MOV_R32_IMM32, targets[k % len(targets)], k) for k in range(count)]
        times.append(bench.cycles([*[multiply] * 40, *moves, make.create(code.LFENCE)]))
    slope, start = np.polyfit(counts, times, 1)
    straight = np.abs(np.polyval((slope, start), counts) - times).max() < 1.5
    width = 1 / slope if slope > 0 else 0.0
    return float(width) if straight and 0.9 * front <= width <= 32 else None


def store_forwarding(bench: Bench) -> dict[str, float]:
    """Return the cycles from stored data through memory to a register.

    A load of part of what was stored always goes through the store buffer; one of all of it may be renamed to the
    stored register, which takes a cycle or none on some cores, and is an extra figure. A load of more than was stored
    is blocked until the store is done.
    """
    ix = iced()
    make, code, r = ix.Instruction, ix.Code, ix.Register
    # The load's address comes from another register, so that it is not the same in the same words.
    here, there = ix.MemoryOperand(r.RSI), ix.MemoryOperand(r.R8, displ=-8, displ_size=1)
    before = [make.create_reg_mem(code.LEA_R64_M, r.R8, ix.MemoryOperand(r.RSI, displ=8, displ_size=1))]

    def chain(store: Any, load: Any) -> float:
        return bench.cycles([store, load] * 16, 16, before)

    store_8 = make.create_mem_reg(code.MOV_RM64_R64, here, r.RAX)
    store_4 = make.create_mem_reg(code.MOV_RM32_R32, here, r.EAX)
    load_8 = make.create_reg_mem(code.MOV_R64_RM64, r.RAX, there)
    load_2 = make.create_reg_mem(code.MOVZX_R32_RM16, r.EAX, there)
    found = {
        "store_forward_latency": chain(store_4, load_2),
        "store_forward_renamed": chain(store_8, load_8),
        "blocked_store_forward_latency": chain(store_4, load_8),
    }
    if "avx" in flags():
        vector = make.create_mem_reg(code.VEX_VMOVUPS_YMMM256_YMM, here, r.YMM0)
        load = make.create_reg_mem(code.VEX_VMOVUPS_YMM_YMMM256, r.YMM0, there)
        found["vector_store_forward_latency"] = chain(vector, load)
    return found


def misprediction_penalty(bench: Bench) -> float:
    """Return the cycles from a mispredicted branch's result to the next dispatch.

    A congruential generator in a register decides each branch, so that half of them are mispredicted whatever the
    predictor. A step takes a multiplication and an addition (m + 1 cycles) where the branch was predicted; else the
    penalty, the step and the branch: the mean is half of ``penalty + (m + 2) + (m + 1)``.
    """
    ix = iced()
    make, code, r = ix.Instruction, ix.Code, ix.Register
    seed = [
        make.create_reg_u64(code.MOV_R64_IMM64, r.RCX, 6364136223846793005),
        make.create_reg_u64(code.MOV_R64_IMM64, r.RDX, 1442695040888963407),
    ]
    body = []
    for k in range(16):
        step = [
            make.create_reg_reg(code.IMUL_R64_RM64, r.RAX, r.RCX),
            make.create_reg_reg(code.ADD_RM64_R64, r.RAX, r.RDX),
            make.create_branch(code.JS_REL8_64, LABELS + k),
            make.create(code.NOPD),
            make.create(code.NOPD),
        ]
        step[-1].ip = LABELS + k
        body += step
    # Another seed each time: a predictor may learn a sequence that it sees again and again.
    moves = [make.create_reg_reg(code.MOV_R64_RM64, r.RAX, r.RSI), *seed]
    loop = bench.load(body, moves)
    random = np.random.default_rng(1)
    lines = [bench.base + 8 * int(k) for k in random.integers(0, 2048, 1 << 14)]
    addresses = iter(lines)
    passes = 64

    def somewhere() -> int:
        return next(addresses)

    each = (bench.window(loop, 3 * passes, somewhere) - bench.window(loop, passes, somewhere)) / (2 * passes * 16)
    return max(2 * each - (2 * bench.link + 3), 1.0)


# --- caches and memory ------------------------------------------------------------------------------------------------


class HugePages:
    """A block of memory in huge pages (so that caches are measured, not the translation of addresses), with a chase."""

    def __init__(self, size: int) -> None:
        self.size = size
        block = mmap.mmap(-1, size + 2 * HUGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            block.madvise(mmap.MADV_HUGEPAGE)
        self.words = np.frombuffer(block, dtype=np.uint64)
        self.base = (self.words.ctypes.data + HUGE - 1) & ~(HUGE - 1)
        self.first = (self.base - self.words.ctypes.data) // 8
        self.random = np.random.default_rng(0)

    def chase(self) -> None:
        """Fill the block with a random cycle of pointers through all of its lines; each line also holds a partner."""
        lines = self.size // 64
        order = self.random.permutation(lines)
        addresses = np.uint64(self.base) + order.astype(np.uint64) * np.uint64(64)
        self.words[self.first + order * 8] = np.roll(addresses, -1)
        self.words[self.first + order * 8 + 1] = np.roll(addresses, lines // 2)

    def anywhere(self) -> int:
        """Return the address of a random line."""
        return self.base + 64 * int(self.random.integers(self.size // 64))


def memory_resources(
    bench: Bench,
) -> tuple[dict[str, float], dict[str, tuple[float, float]], dict[str, str]]:
    """Return latencies (a pointer chase) and bandwidths (vector loads) of every level, and the ROB's entries.

    Bandwidths are medians, and their least and most are returned, too; last, what could not be measured, and why.
    """
    figures = MeasuredFigures()
    sizes = cache_sizes()
    # Of L2 a quarter: few enough pages for the first table of translations, where huge pages are not to be had.
    second = max(sizes[1] // 4, 2 * sizes[0])
    third = min(4 * sizes[1], sizes[2] // 2)  # far from fitting L2, and small: what else runs evicts less of it
    wanted = {
        "L1": sizes[0] // 2,
        "L2": second,
        "L3": third,
        "memory": min(max(256 << 20, 4 * sizes[2]), 1 << 30),
    }
    levels = {level: 1 << (size.bit_length() - 1) for level, size in wanted.items()}
    for level, size in levels.items():
        memory = HugePages(size)
        memory.chase()
        figures.attempt(f"{level}_latency", partial(latency, bench, memory, warm=level != "memory"))
        if level == "memory":
            figures.attempt("rob", partial(reorder_buffer, bench, memory))
        memory.words[:] = 0
        for _ in range(_TIMES):
            figures.attempt(f"{level}_bandwidth", partial(bandwidth, bench, memory))
    found = figures.medians()
    if found.get("L3_latency", 0.0) > found.get("memory_latency", np.inf) / 2:
        del found["L3_latency"]
        found.pop("L3_bandwidth", None)
        figures.left_out["L3"] = "what else runs on this host evicts it faster than it is read again"
    spreads = {name: ends for name, ends in figures.spreads().items() if name in found}
    return found, spreads, figures.left_out


def latency(bench: Bench, memory: HugePages, warm: bool) -> float:
    """Return the cycles of one dependent load; short windows from random places, so that few are interrupted.

    Of a cache, the least is quoted, after a walk through all of the block: what else runs on the machine evicts the
    block from caches that it shares.
    """
    ix = iced()
    r = ix.Register
    step = ix.Instruction.create_reg_mem(ix.Code.MOV_R64_RM64, r.RSI, ix.MemoryOperand(r.RSI))
    loop = bench.load([step] * 32)
    if not warm:
        return bench.window(loop, 16, memory.anywhere) / (32 * 16)
    walk = max(memory.size // 64 // 32, 1)
    passes = 2048 if memory.size <= cache_sizes()[1] else 64  # what runs between samples leaves its own data in L1

    def after_a_walk() -> int:
        loop(walk, memory.base)  # all lines once: the next are those that were used longest ago
        return memory.base

    return bench.window(loop, passes, after_a_walk, 2 * bench.repetitions, quantile=0.0) / (32 * passes)


def bandwidth(bench: Bench, memory: HugePages) -> float:
    """Return the bytes that vector loads get in a cycle."""
    ix = iced()
    r, code, make = ix.Register, ix.Code, ix.Instruction
    wide = "avx512f" in flags()
    avx = code.VEX_VMOVUPS_YMM_YMMM256 if "avx" in flags() else code.MOVUPS_XMM_XMMM128
    form = code.EVEX_VMOVUPS_ZMM_K1Z_ZMMM512 if wide else avx
    step, first = (64, r.ZMM0) if wide else (32, r.YMM0) if "avx" in flags() else (16, r.XMM0)
    unroll = 32
    loads = [
        make.create_reg_mem(form, first + k % 8, ix.MemoryOperand(r.RSI, r.RDX, 1, k * step, 8)) for k in range(unroll)
    ]
    # The offset in rdx wraps at the size, a power of two: a small level is read many times in one window.
    advance = [
        make.create_reg_i32(code.ADD_RM64_IMM32, r.RDX, unroll * step),
        make.create_reg_i32(code.AND_RM64_IMM32, r.RDX, min(memory.size, HUGE) - 1),
    ]
    loop = bench.load([*loads, *advance])
    passes = max(min(memory.size, HUGE), 1 << 18) // (unroll * step)
    pieces = max(memory.size // HUGE, 1)
    turn = iter(range(1 << 40))

    def next_piece() -> int:
        return memory.base + next(turn) % pieces * HUGE

    for _ in range(pieces):
        loop(passes, next_piece())
    least = 0.0 if memory.size <= HUGE * 16 else QUANTILE  # of a cache, as for its latency
    return passes * unroll * step / bench.window(loop, passes, next_piece, quantile=least)


def reorder_buffer(bench: Bench, memory: HugePages) -> float | None:
    """Return an estimate of the ROB's entries, None where the step cannot be seen.

    Henry Wong's method: two independent loads that miss every cache, N instructions apart, over and over. While both
    are in the ROB their times overlap, and one more instruction between them doubles the time of a pass. The
    instructions between are of three kinds (a move to an integer register, a vector addition, a zero idiom), so that no
    register file fills up before the ROB does; NOPs would not do, for some cores keep two in one entry. Zero idioms
    alone must say the same.

    Raises
    ------
    UnavailableError
        They do not: 318 on a Zen 4, where the mixture says 437.
    """
    if "avx" not in flags():
        return None
    ix = iced()
    make, code, r = ix.Instruction, ix.Code, ix.Register
    before = [
        make.create_reg_mem(code.MOV_R64_RM64, r.R9, ix.MemoryOperand(r.RSI, displ=8, displ_size=1)),
        make.create_reg_reg(code.MOV_R64_RM64, r.R8, r.RSI),
    ]
    chases = [make.create_reg_mem(code.MOV_R64_RM64, a, ix.MemoryOperand(a)) for a in (r.R8, r.R9)]
    kinds = [
        make.create_reg_i32(code.MOV_R32_IMM32, r.R10D, 1),
        make.create_reg_reg_reg(code.VEX_VPADDD_XMM_XMM_XMMM128, r.XMM1, r.XMM13, r.XMM14),
        make.create_reg_reg_reg(code.VEX_VPXOR_XMM_XMM_XMMM128, r.XMM2, r.XMM2, r.XMM2),
    ]

    def entries(kinds: Sequence[Any]) -> float | None:
        def time(count: int) -> float:
            between = [kinds[k % len(kinds)] for k in range(count)]
            loop = bench.load([chases[0], *between, chases[1], *between], before)
            return bench.window(loop, 24, memory.anywhere) / 24

        return _step(time)

    mixed, idioms = entries(kinds), entries(kinds[-1:])
    if mixed and idioms and not 0.9 < mixed / idioms < 1.1:
        raise UnavailableError(
            f"it depends on the instructions between the loads: {mixed:.0f} of three kinds, {idioms:.0f} zero idioms "
            "(another buffer is full first, or some share an entry)"
        )
    return mixed


def _step(time: Callable[[int], float], low: int = 32, high: int = 1024) -> float | None:
    """Return the ROB's entries: the largest distance at which a pass takes the time of one miss and not of two."""
    one, two = np.median([time(low) for _ in range(3)]), np.median([time(high) for _ in range(3)])
    if two < 1.6 * one:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        if float(np.median([time(middle) for _ in range(3)])) < np.sqrt(one * two):
            low = middle
        else:
            high = middle
    return float(low + 2)  # the instructions between, and both loads


def cache_sizes() -> list[int]:
    """Return bytes of the data caches by level, from sysfs; 32 KiB, 256 KiB, 8 MiB where it is silent."""
    found = {1: 32 << 10, 2: 256 << 10, 3: 8 << 20}
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        if (index / "type").read_text(encoding="utf-8").strip() != "Instruction":
            text = (index / "size").read_text(encoding="utf-8").strip()
            scale = {"K": 1 << 10, "M": 1 << 20}.get(text[-1], 1)
            found[int((index / "level").read_text(encoding="utf-8"))] = int(text.rstrip("KM")) * scale
    return [found[1], found[2], found[3]]
