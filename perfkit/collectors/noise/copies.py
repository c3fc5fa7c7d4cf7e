"""Copies of a function with noise in one of its loops, in this process's memory, ready to be called."""

import ctypes
import mmap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from iced_x86 import BlockEncoder, Code, Decoder, Instruction, MemoryOperand, OpKind, Register

from perfkit.collectors.noise.function import FunctionCode
from perfkit.collectors.noise.kinds import (
    BUFFER,
    FAR,
    HUGE,
    KINDS,
    ONES,
    WIDE,
    WIDE_ROUND,
    Buffers,
    NoRoom,
    is_huge,
    vector_source,
)
from perfkit.collectors.noise.liveness import VECTORS
from perfkit.collectors.noise.place import NoisePlace
from perfkit.collectors.noise.removal import REMOVALS, removed
from perfkit.errors import DataError, UnavailableError

_SAVED = (Register.RBX, Register.RBP, Register.R12, Register.R13, Register.R14, Register.R15)
_LABEL = 0x3000_0000_0000_0000  # instruction pointers that only name instructions within a copy
_FIXED, _LOW, _PRIVATE = 0x100000, 0x40, 0x22  # MAP_FIXED_NOREPLACE, MAP_32BIT, MAP_PRIVATE | MAP_ANONYMOUS
_REACH = 1 << 30
_LINE = 64
_NOTHING = b"\x0f\x1f\x00"
_STUB = 640  # bytes that the code which calls a copy may have
_NEAR = (OpKind.NEAR_BRANCH16, OpKind.NEAR_BRANCH32, OpKind.NEAR_BRANCH64)


@dataclass(frozen=True)
class NoiseVariant:
    """How many instructions of which kind; of no kind for the plain copy; or a way of `removal`, and no count."""

    kind: str
    count: int


def noise(variant: NoiseVariant, place: NoisePlace, buffers: Buffers) -> list[Instruction]:
    """Return a variant's noise."""
    return KINDS[variant.kind].make(place, buffers, variant.count) if variant.kind in KINDS else []


def encoded_copy(
    function: FunctionCode,
    place: NoisePlace,
    added: Sequence[Instruction],
    address: int,
    removed: Mapping[int, Instruction | None] | None = None,
) -> tuple[bytes, int]:
    """Return the function's code for another address, with instructions added at the place, and where it lies.

    Those at the addresses in `removed` are left out, or others take their place.

    Branches to the place come to the first of the added ones. All but branches and relative addresses is copied byte
    by byte. The code is moved on by up to 63 bytes, so that the loop begins at the same place in a line as before:
    branches before it may have become longer.

    Raises
    ------
    DataError
        The code cannot be encoded there.
    """
    out: list[Instruction] = []
    for i in function.instructions:
        if i.ip == place.address:
            head = len(out)
            out += _labelled(added, i.ip)
        gone = removed is not None and i.ip in removed
        instead = removed[i.ip] if removed is not None and gone else None
        if gone and instead is None and i.ip not in function.blocks:
            continue  # where a block begins, a branch may come: something has to be there
        if instead is not None:
            copy = instead.copy()
        elif gone:
            copy = Instruction.create_declare_byte(_NOTHING)
        else:
            copy = i.copy() if _moves(i) else Instruction.create_declare_byte(function.bytes_of(i))
        copy.ip = _LABEL if i.ip == place.address and added else i.ip
        out.append(copy)
    code = _encode(function, out, address)
    at = next(found.ip for k, found in enumerate(Decoder(64, code, ip=address)) if k == head)
    moved = address + (place.address - at) % _LINE
    return _encode(function, out, moved), moved


def _encode(function: FunctionCode, out: Sequence[Instruction], address: int) -> bytes:
    encoder = BlockEncoder(64)
    encoder.add_many(list(out))
    try:
        return bytes(encoder.encode(address))
    except ValueError as error:
        raise DataError(f"{function.name} cannot be encoded at another address ({error})") from error


def _moves(i: Instruction) -> bool:
    """Whether an instruction's bytes depend on where it lies.

    Others are taken as they are: encoded anew, a padding of many prefixes would become shorter.
    """
    return bool(i.is_ip_rel_memory_operand or (i.op_count and i.op0_kind in _NEAR))


def _labelled(added: Sequence[Instruction], first: int) -> list[Instruction]:
    """Give added instructions addresses: the first stands for the place, and branches go to what follows them."""
    found = [i.copy() for i in added]
    for k, i in enumerate(found):
        i.ip = first if k == 0 else _LABEL + 16 * (len(found) - k)
        if i.is_jcc_short_or_near or i.is_jmp_short_or_near:
            i.near_branch64 = _LABEL + 16 * (len(found) - k - 1)
    return found


def caller(place: NoisePlace, target: int, near: int) -> list[Instruction]:
    """Return code that saves what calls preserve, sets the vector register that noise reads, and calls a copy."""
    make = Instruction
    out = saved()
    rsp = Register.RSP
    out.append(make.create_reg_mem(Code.LEA_R64_M, rsp, MemoryOperand(rsp, displ=-8, displ_size=1)))
    out += source_set(place, near)
    # Where a function returns nothing, what is left in this register must not differ between the copies.
    out.append(make.create_reg_u32(Code.MOV_R32_IMM32, Register.EAX, 8))
    out.append(make.create_branch(Code.CALL_REL32_64, target))
    out.append(make.create_reg_mem(Code.LEA_R64_M, rsp, MemoryOperand(rsp, displ=8, displ_size=1)))
    return out + restored()


def source_set(place: NoisePlace, near: int) -> list[Instruction]:
    """Return what sets the vector register that noise reads, where it is one of the noise's own."""
    try:
        source = vector_source(place)
    except NoRoom:
        return []
    if source not in place.own_vectors:
        return []
    codes = {
        16: (Code.VEX_VMOVUPD_XMM_XMMM128, Register.XMM0), 32: (Code.VEX_VMOVUPD_YMM_YMMM256, Register.YMM0),
        64: (Code.EVEX_VMOVUPD_ZMM_K1Z_ZMMM512, Register.ZMM0),
    }  # fmt: skip
    code, first = codes[place.width]
    register: Any = first + source - VECTORS[0]
    return [Instruction.create_reg_mem(code, register, MemoryOperand(Register.RIP, displ=near + ONES, displ_size=8))]


def saved() -> list[Instruction]:
    """Return what saves the registers that calls preserve."""
    return [Instruction.create_reg(Code.PUSH_R64, register) for register in _SAVED]


def restored() -> list[Instruction]:
    """Return what restores these registers, and returns."""
    pops = [Instruction.create_reg(Code.POP_R64, register) for register in reversed(_SAVED)]
    return [*pops, Instruction.create(Code.RETNQ)]


def _is_huge(variant: NoiseVariant) -> bool:
    return variant.kind in KINDS and KINDS[variant.kind].huge


class Copies:
    """A function's variants in executable memory near the original.

    Parameters
    ----------
    function : FunctionCode
        Read as loaded in this process.
    place : NoisePlace
        Where the noise goes.
    variants : sequence of NoiseVariant
        What to make, in this order.
    vectors : bool
        Whether this processor has AVX, so that the register that noise reads is set.
    enter : callable
        (place, address of the code, the noise's memory near it) -> what to call in its place.
    number : int
        Copies of other numbers lie elsewhere, if there is room.

    Attributes
    ----------
    calls : list of int
        The address to call, of each variant.
    original : int
        The same of the original.
    buffers : Buffers
        The noise's own memory.
    """

    def __init__(
        self,
        function: FunctionCode,
        place: NoisePlace,
        variants: Sequence[NoiseVariant],
        vectors: bool = True,
        enter: Callable[[NoisePlace, int, int], list[Instruction]] = caller,
        number: int = 0,
    ) -> None:
        self.function, self.variants, self.enter = function, tuple(variants), enter
        self.place = place if vectors else replace(place, own_vectors=())
        size = sum(i.len for i in function.instructions)
        room = [(size + _STUB + 16 * (variant.count + 4) + 2 * 4096) & ~4095 for variant in variants]
        self.lacks_huge = False
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._libc.mmap.restype = ctypes.c_uint64
        self._libc.mmap.argtypes = [ctypes.c_uint64, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
        near = self._near(function.start, 2 * BUFFER + sum(room) + 4096, number)
        self.buffers = Buffers(near, self._low(FAR), self._wide() if any(_is_huge(v) for v in variants) else 0)
        ctypes.memset(self.buffers.far, 1, FAR)  # pages that were never written are all one page of zeros
        numbers = (ctypes.c_double * 8)(*[1.0] * 8)
        ctypes.memmove(near + ONES, numbers, 64)
        # A page lies between: processors watch for stores near code.
        at, self.calls = near + 2 * BUFFER, []
        for variant, pages in zip(variants, room, strict=True):
            self.calls.append(self._write(variant, at, pages))
            at += pages
        self.original, stub = at, self._stub(function.start, at)
        ctypes.memmove(at, stub, len(stub))

    def _write(self, variant: NoiseVariant, at: int, room: int) -> int:
        """Put a variant at the same place in its page as the original; return the address to call."""
        added = noise(variant, self.place, self.buffers)
        less = None
        if variant.kind in REMOVALS:
            loop = self.function.loop_at(self.place.address)
            less = removed(self.function, loop, self.place, variant.kind)
        code, start = encoded_copy(self.function, self.place, added, at + self.function.start % 4096, less)
        call = (start + len(code) + 63) & ~63
        stub = self._stub(start, call)
        if call + len(stub) > at + room:
            raise DataError(f"the copy of {self.function.name} is longer than expected")
        ctypes.memmove(start, code, len(code))
        ctypes.memmove(call, stub, len(stub))
        return call

    def _stub(self, target: int, at: int) -> bytes:
        added = self.enter(self.place, target, self.buffers.near)
        for i in added:
            i.ip = 0
        encoder = BlockEncoder(64)
        encoder.add_many(added)
        return bytes(encoder.encode(at))

    def _near(self, address: int, size: int, number: int) -> int:
        """Map memory within reach of the code's relative addresses."""
        step = 1 << 21
        for distance in range(step * (1 + 16 * number), _REACH, step):
            for at in (address - distance - size, address + distance):
                at &= ~4095
                if at > 0 and (found := self._try(at, size)) == at:
                    return found
        raise UnavailableError(f"no free memory within 1 GB of {self.function.name} to put copies of it")

    def _try(self, at: int, size: int) -> int:
        rwx = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
        return int(self._libc.mmap(at, size, rwx, _PRIVATE | _FIXED, -1, 0))

    def _low(self, size: int) -> int:
        return self._map(0, size, _LOW | _PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)

    def _wide(self) -> int:
        """Map pages of 2 MB; where there are none, the variants that need them are not to be run."""
        at = -(-self._low(WIDE) // HUGE) * HUGE
        self.lacks_huge = not is_huge(at, 2 * WIDE_ROUND)
        return at

    def lacking(self) -> list[int]:
        """Return the variants for which there is no memory."""
        return [k for k, variant in enumerate(self.variants) if self.lacks_huge and _is_huge(variant)]

    def _map(self, at: int, size: int, flags: int, protection: int) -> int:
        found = int(self._libc.mmap(at, size, protection, flags, -1, 0))
        if found >= 1 << 63:
            raise UnavailableError(f"cannot map {size} bytes for noise (errno {ctypes.get_errno()})")
        return found
