"""The kinds of noise: which instructions, on which registers, and why a kind cannot be had at a place.

No instruction here changes the flags, unless they are dead, or touches the stack; each works on dead registers and on
memory of its own.
"""

import ctypes
import mmap
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from iced_x86 import Code, Decoder, Instruction, MemoryOperand, Register

from perfkit.collectors.host.code import flags
from perfkit.collectors.noise.liveness import GENERAL, VECTORS
from perfkit.collectors.noise.place import NoisePlace
from perfkit.errors import SettingError

LINE = 64
LINES = 8  # of memory of its own that a kind goes round in
LOADS, STORES, ONES = 0, 1024, 2048  # offsets in the buffer: what is loaded, what is stored, numbers
STATE, BACK, RESULTS = 2176, 3328, 3344  # of a program's function: registers to begin with, the caller's stack, results
BUFFER = 4096
# Loads from L2 go round every eighth line of 128 kB: 32 lines in each of eight sets of an L1 of 64 sets, more than any
# holds, and an eighth of its sets; the step is an odd number of such lines, on another page each time.
ROUND, STRIDE = 1 << 17, 4096 + 8 * LINE
FAR = 2 * ROUND  # bytes of their buffer
# Loads from L3 go round every eighth line of 4 MB in pages of 2 MB: 32 lines in each of an eighth of the sets of an L2
# of 2,048 sets or fewer, more than any holds. Those from memory do the same, and have the cache flush each line.
WIDE_ROUND, WIDE_STRIDE = 1 << 22, (1 << 17) + 8 * LINE
HUGE = 1 << 21
WIDE = 2 * WIDE_ROUND + HUGE
RANDOM = 3456  # offset in the buffer: the state of random branches
_MULTIPLIER, _INCREMENT = 0x5851F42D, 0x3C6EF35F  # of their generator, modulo 2**64: its upper bits look random
_NUMBER = 0x5A17


class NoRoom(Exception):  # noqa: N818 - why a kind is left out, not an error
    """A kind cannot be added at a place: the message says why."""


@dataclass(frozen=True)
class Buffers:
    """Where the noise's own memory lies: near the code; for loads from L2, and from L3 and memory, below 2 GB."""

    near: int
    far: int
    wide: int


@dataclass(frozen=True)
class NoiseKind:
    """One kind of noise.

    Parameters
    ----------
    name : str
        For example ``"load"``.
    resource : str
        What it takes up.
    make : callable
        (place, buffers, how many) to the instructions; raises `NoRoom`.
    feature : str
        A flag of /proc/cpuinfo that it needs.
    most : int
        How many are added at most: one of these takes as long as many others.
    huge : bool
        Whether it needs memory in pages of 2 MB.
    modelled : bool
        Whether a trace can hold it: random directions, and lines that are flushed, are in none.
    usual : bool
        Whether it is among those that are added where none are named.
    """

    name: str
    resource: str
    make: Callable[[NoisePlace, Buffers, int], list[Instruction]]
    feature: str = ""
    most: int = 1 << 20
    huge: bool = False
    modelled: bool = True
    usual: bool = True


def _bytes(text: str) -> Callable[[NoisePlace, Buffers, int], list[Instruction]]:
    return lambda _place, _buffers, count: [next(iter(Decoder(64, bytes.fromhex(text)))) for _ in range(count)]


def _dead(place: NoisePlace) -> tuple[Any, ...]:
    if not place.general:
        raise NoRoom("no general register is dead there")
    return place.general


def _low(register: int) -> Any:
    return Register.EAX + register - Register.RAX


def _word(register: int) -> Any:
    return Register.AX + register - Register.RAX


def _integer(place: NoisePlace, _: Buffers, count: int) -> list[Instruction]:
    dead = _dead(place)
    return [
        Instruction.create_reg_u32(Code.MOV_R32_IMM32, _low(dead[k % len(dead)]), _NUMBER + k) for k in range(count)
    ]


def _shift(place: NoisePlace, _: Buffers, count: int) -> list[Instruction]:
    dead = _dead(place)
    source = (place.constant_general or place.own_general or (Register.RSP,))[0]
    targets = [r for r in dead if r != source] or [dead[0]]
    return [
        Instruction.create_reg_reg_u32(Code.VEX_RORX_R64_RM64_IMM8, targets[k % len(targets)], source, 7)
        for k in range(count)
    ]


def _at(address: int) -> MemoryOperand:
    return MemoryOperand(Register.RIP, displ=address, displ_size=8)


def _line(buffers: Buffers, offset: int, k: int) -> MemoryOperand:
    return _at(buffers.near + offset + LINE * (k % LINES))


def _load(place: NoisePlace, buffers: Buffers, count: int) -> list[Instruction]:
    dead = _dead(place)
    return [
        Instruction.create_reg_mem(Code.MOV_R64_RM64, dead[k % len(dead)], _line(buffers, LOADS, k))
        for k in range(count)
    ]


def _store(place: NoisePlace, buffers: Buffers, count: int) -> list[Instruction]:
    sources = place.constant_general or place.own_general or place.general
    if not sources:
        raise NoRoom("no general register is constant or dead there")
    return [Instruction.create_mem_reg(Code.MOV_RM64_R64, _line(buffers, STORES, k), sources[0]) for k in range(count)]


def _far_load(place: NoisePlace, buffers: Buffers, count: int) -> list[Instruction]:
    """Go round more lines of some sets of L1 than it holds: each load misses it and hits L2."""
    if not place.own_general:
        raise NoRoom("no general register is free in the whole function, to hold an address")
    pointer = place.own_general[0]
    targets = [r for r in place.general if r != pointer]
    if not targets:
        raise NoRoom("only one general register is dead there, and it holds the address")
    if not count:
        return []
    # The pointer counts pairs of bytes, so that its lower 16 bits wrap round where the lines begin anew.
    step = STRIDE // 2 * count % (1 << 16)
    go = Instruction.create_reg_mem(Code.LEA_R64_M, pointer, MemoryOperand(pointer, displ=step, displ_size=8))
    wrap = Instruction.create_reg_reg(Code.MOVZX_R32_RM16, _low(pointer), _word(pointer))
    loads = []
    for k in range(count):
        where = MemoryOperand(Register.NONE, pointer, 2, buffers.far + STRIDE * k % ROUND, 8)
        loads.append(Instruction.create_reg_mem(Code.MOV_R64_RM64, targets[k % len(targets)], where))
    return [go, wrap, *loads]


def _wide_loads(flush: bool) -> Callable[[NoisePlace, Buffers, int], list[Instruction]]:
    """Return the maker of loads that go round more lines of some sets of L2 than it holds."""

    def make(place: NoisePlace, buffers: Buffers, count: int) -> list[Instruction]:
        if not place.own_general:
            raise NoRoom("no general register is free in the whole function, to hold an address")
        pointer = place.own_general[0]
        free = [r for r in place.general if r != pointer]
        if len(free) < 2:
            raise NoRoom("only two general registers are dead there, and they hold the address")
        if not count:
            return []
        # The pointer counts lines in 16 bits, as for loads from L2; eight of them are the scaled index.
        step = WIDE_STRIDE // LINE * count % (1 << 16)
        index, targets = free[0], free[1:]
        found = [
            Instruction.create_reg_mem(Code.LEA_R64_M, pointer, MemoryOperand(pointer, displ=step, displ_size=8)),
            Instruction.create_reg_reg(Code.MOVZX_R32_RM16, _low(pointer), _word(pointer)),
            Instruction.create_reg_mem(
                Code.LEA_R64_M, index, MemoryOperand(Register.NONE, pointer, 8, displ=0, displ_size=8)
            ),
        ]
        for k in range(count):
            at = buffers.wide + WIDE_STRIDE * k % WIDE_ROUND
            where = MemoryOperand(Register.NONE, index, 8, at, 8)
            found.append(Instruction.create_reg_mem(Code.MOV_R64_RM64, targets[k % len(targets)], where))
            if flush:  # a line that was loaded half a round ago
                half = buffers.wide + (WIDE_STRIDE * k + WIDE_ROUND // 2) % WIDE_ROUND
                found.append(
                    Instruction.create_mem(Code.CLFLUSHOPT_M8, MemoryOperand(Register.NONE, index, 8, half, 8))
                )
        return found

    return make


def _random_branch(place: NoisePlace, buffers: Buffers, count: int) -> list[Instruction]:
    """Branches to the next instruction that are taken at random: half of them are mispredicted."""
    if not place.flags_dead:
        raise NoRoom("the flags are live there, and a branch needs some of its own")
    register = _dead(place)[0]
    if not count:
        return []
    state = _at(buffers.near + RANDOM)
    found = [
        Instruction.create_reg_mem(Code.MOV_R64_RM64, register, state),
        Instruction.create_reg_reg_i32(Code.IMUL_R64_RM64_IMM32, register, register, _MULTIPLIER),
        Instruction.create_reg_mem(Code.LEA_R64_M, register, MemoryOperand(register, displ=_INCREMENT, displ_size=8)),
        Instruction.create_mem_reg(Code.MOV_RM64_R64, state, register),
    ]
    for k in range(count):
        found.append(Instruction.create_reg_u32(Code.BT_RM64_IMM8, register, 63 - k))
        found.append(Instruction.create_branch(Code.JB_REL8_64, 0))
    return found


def _sized(register: int, width: int) -> Any:
    first = {16: Register.XMM0, 32: Register.YMM0, 64: Register.ZMM0}[width]
    return first + register - VECTORS[0]


def vector_source(place: NoisePlace) -> Any:
    """Return the vector register that noise reads: one of its own, set before the call, or a constant of the loop's."""
    if place.own_vectors and not place.calls:
        return place.own_vectors[-1]
    if place.constant_vectors:
        return place.constant_vectors[0]
    raise NoRoom(
        "functions that the loop calls may leave anything in vector registers"
        if place.calls
        else "no vector register is free in the whole function or constant in the loop"
    )


def _vector(stem: str, *, immediate: bool = False) -> Callable[[NoisePlace, Buffers, int], list[Instruction]]:
    """Return the maker of three-operand instructions: source, source, into dead registers in turn."""

    def make(place: NoisePlace, _: Buffers, count: int) -> list[Instruction]:
        source, targets = vector_source(place), _targets(place)
        code = _code(stem, place.width, immediate)
        one, found = _sized(source, place.width), []
        for k in range(count):
            target = _sized(targets[k % len(targets)], place.width)
            if immediate:
                found.append(Instruction.create_reg_reg_reg_u32(code, target, one, one, 1))
            else:
                found.append(Instruction.create_reg_reg_reg(code, target, one, one))
        return found

    return make


def _targets(place: NoisePlace) -> list[Any]:
    taken = () if place.calls or not place.own_vectors else (place.own_vectors[-1],)
    targets = [r for r in place.vectors if r not in taken]
    if not targets:
        raise NoRoom("no vector register is dead there")
    return targets


def _code(stem: str, width: int, immediate: bool) -> Any:
    letter = {16: "X", 32: "Y", 64: "Z"}[width] + "MM"
    end = "_IMM8" if immediate else ""
    name = f"VEX_{stem}_{letter}_{letter}_{letter}M{8 * width}{end}"
    if width == 64:
        bits = "32" if stem == "VPADDD" else "64"
        rounding = "_ER" if stem in ("VADDPD", "VMULPD", "VDIVPD") else ""
        name = f"EVEX_{stem}_ZMM_K1Z_ZMM_ZMMM512B{bits}{end}{rounding}"
    return getattr(Code, name)


def _vector_load(place: NoisePlace, buffers: Buffers, count: int) -> list[Instruction]:
    targets = _targets(place)
    code = {
        16: Code.VEX_VMOVUPS_XMM_XMMM128, 32: Code.VEX_VMOVUPS_YMM_YMMM256, 64: Code.EVEX_VMOVUPS_ZMM_K1Z_ZMMM512,
    }[place.width]  # fmt: skip
    return [
        Instruction.create_reg_mem(code, _sized(targets[k % len(targets)], place.width), _line(buffers, LOADS, k))
        for k in range(count)
    ]


def _branch(place: NoisePlace, _: Buffers, count: int) -> list[Instruction]:
    """Branches that are never taken, to the next instruction: a register is equal to itself.

    Not the stack pointer, if another is there: Zen 4 compares that once per cycle, all others twice with their branch.
    """
    if not place.flags_dead:
        raise NoRoom("the flags are live there, and a branch needs some of its own")
    register: Any = (*place.constant_general, *place.own_general, *place.general, Register.RSP)[0]
    found = []
    for _each in range(count):
        found.append(Instruction.create_reg_reg(Code.CMP_RM64_R64, register, register))
        found.append(Instruction.create_branch(Code.JNE_REL8_64, 0))
    return found


def _link(place: NoisePlace, _: Buffers, count: int) -> list[Instruction]:
    """Instructions that leave a register as it is, a cycle later."""
    register = place.carried
    if not register:
        raise NoRoom("no register carries a chain of results from one iteration to the next")
    if register in GENERAL:
        # Not LEA: Golden Cove adds constants while it renames, and a chain of 24 of them took no time at all there.
        if "bmi2" in flags():
            turned = Code.VEX_RORX_R64_RM64_IMM8
            return [Instruction.create_reg_reg_u32(turned, register, register, 0) for _ in range(count)]
        same = MemoryOperand(register, displ=0, displ_size=1)
        return [Instruction.create_reg_mem(Code.LEA_R64_M, register, same) for _ in range(count)]
    if place.legacy:
        low = _sized(register, 16)
        return [Instruction.create_reg_reg(Code.ORPS_XMM_XMMM128, low, low) for _ in range(count)]
    one = _sized(register, place.width)
    code = {
        16: Code.VEX_VORPS_XMM_XMM_XMMM128,
        32: Code.VEX_VORPS_YMM_YMM_YMMM256,
        64: Code.EVEX_VPORD_ZMM_K1Z_ZMM_ZMMM512B32,
    }[place.width]
    return [Instruction.create_reg_reg_reg(code, one, one, one) for _ in range(count)]


KINDS: dict[str, NoiseKind] = {
    each.name: each
    for each in (
        # Of eight bytes: Zen 4 dispatches two shorter ones in one slot (tests/machine/test_microbenchmarks.py).
        NoiseKind("nop", "front end", _bytes("0f1f840000000000")),
        NoiseKind("long nop", "code size", _bytes("662e0f1f840000000000")),
        NoiseKind("integer", "integer units", _integer),
        NoiseKind("shift", "integer shifts", _shift, "bmi2"),
        NoiseKind("branch", "branches not taken", _branch),
        NoiseKind("random branch", "mispredictions", _random_branch, most=8, modelled=False, usual=False),
        NoiseKind("load", "loads from L1", _load),
        NoiseKind("vector load", "vector loads from L1", _vector_load, "avx"),
        NoiseKind("load L2", "loads from L2", _far_load),
        NoiseKind("load L3", "loads from L3", _wide_loads(flush=False), most=8, huge=True, usual=False),
        NoiseKind(
            "load memory",
            "loads from memory",
            _wide_loads(flush=True),
            "clflushopt",
            most=4,
            huge=True,
            modelled=False,
            usual=False,
        ),
        NoiseKind("store", "stores", _store),
        NoiseKind("vector add", "vector additions", _vector("VADDPD"), "avx"),
        NoiseKind("vector multiply", "vector multiplications and FMA", _vector("VMULPD"), "avx"),
        NoiseKind("vector integer", "vector integer units", _vector("VPADDD"), "avx2"),
        NoiseKind("shuffle", "vector shuffles", _vector("VSHUFPD", immediate=True), "avx"),
        NoiseKind("divide", "vector divider", _vector("VDIVPD"), "avx"),
        NoiseKind("latency", "chain of dependent instructions", _link),
    )
}
"""All kinds, by name."""


def kinds(names: Sequence[str] | None) -> list[NoiseKind]:
    """Return kinds by name; the usual ones for None.

    Raises
    ------
    SettingError
        There is no such kind.
    """
    unknown = [name for name in names or () if name not in KINDS]
    if unknown or (names is not None and not names):
        raise SettingError(f"no kind of noise {', '.join(unknown)!r}; there are: {', '.join(KINDS)}")
    return [KINDS[name] for name in names] if names else [kind for kind in KINDS.values() if kind.usual]


def refused(kind: NoiseKind, place: NoisePlace, features: Collection[str]) -> str:
    """Say why a kind cannot be had at a place; empty if it can."""
    if kind.feature and kind.feature not in features:
        return f"this processor lacks {kind.feature}"
    try:
        kind.make(place, Buffers(1 << 20, 1 << 20, 1 << 24), 1)
    except NoRoom as why:
        return str(why)
    return "" if not kind.huge or huge_pages() else NO_HUGE


NO_HUGE = "this system gives no pages of 2 MB, without which nobody knows which lines share a set of L2"


def huge_pages() -> bool:
    """Whether the system gives a process pages of 2 MB that asks for them."""
    with mmap.mmap(-1, 2 * HUGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as room:
        at = ctypes.addressof(ctypes.c_char.from_buffer(room))
        return is_huge(at, 2 * HUGE)


def is_huge(at: int, size: int) -> bool:
    """Ask for pages of 2 MB, touch them, and return whether all that could be are."""
    first, last = -(-at // HUGE) * HUGE, (at + size) // HUGE * HUGE
    libc = ctypes.CDLL(None)
    libc.madvise(ctypes.c_void_p(first), ctypes.c_size_t(last - first), ctypes.c_int(mmap.MADV_HUGEPAGE))
    ctypes.memset(first, 1, last - first)
    found = 0
    for line in Path("/proc/self/smaps").read_text().splitlines():
        words = line.split()
        if "-" in words[0] and not words[0].endswith(":"):
            begin, end = (int(word, 16) for word in words[0].split("-"))
        elif words[0] == "AnonHugePages:" and begin < last and end > first:
            found += int(words[1]) << 10
    return found >= last - first > 0
