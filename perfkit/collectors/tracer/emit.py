"""The recording code that the cloner inserts: where it writes, and the instruction sequences.

Ordinary blocks and addresses are recorded with ``mov`` and ``lea`` alone, so that flags survive; the rarer sequences
(gathers, masks, REP, indirect jumps) save the flags with ``lahf``/``seto`` and restore them. Registers are saved to
RIP-relative slots, never to the stack, so that the red zone survives.
"""

from dataclasses import dataclass, field
from itertools import count
from typing import Any

from iced_x86 import Code, Instruction, MemoryOperand, Register, RegisterInfo, UsedMemory

from perfkit.collectors.tracer.accesses import Access, Kind, Refused, is_opmask

NONE: Any = Register.NONE
RAX, RCX, RDX, R11, RSP, RIP = (getattr(Register, name) for name in ("RAX", "RCX", "RDX", "R11", "RSP", "RIP"))

# Offsets in the context page, which the child shares with its parent. All are 8 bytes but the last two.
BLOCK_POINTER, ADDRESS_POINTER, SIZE_POINTER = 0, 8, 16
CALLS, FIRST_CALL, LAST_CALL, ACTIVE, RETURN, TARGET, MISSING, FS_BASE, MINUS_ONE = range(24, 96, 8)
SAVED_RAX, SAVED_RCX, SAVED_RDX, FLAGS, BASE, COUNT, SECOND = range(96, 152, 8)
THUNK_RAX, THUNK_RCX, THUNK_RDX, THUNK_FLAGS, SAVED_R11 = range(160, 200, 8)
OTHERS, FORKED_IN = 200, 240  # calls in other threads, which are not recorded; forks in the region
LATE = 248  # where in the copy a thread goes on that has met a breakpoint (`late`)
# A thread's own page: its address, the log of its calls, and where that ends; the kernel's number of the thread.
SELF, CALL_POINTER, CALL_END, THREAD = range(208, 240, 8)
RESERVED = 256  # 16 registers
VECTOR, MASK = 384, 448
# A call that was let pass and has not returned: where its return address lies, what that was, and what it is meanwhile.
PASSED_AT, PASSED_TO, PASSED_BY = 512, 520, 528
# Targets of calls and jumps through pointers that lie outside of the region, each with a count behind it.
OUTSIDE, OUTSIDE_ROOM = 1024, 128
PINNED = 3584  # two heaps' starts and ends, and where the thread's memory begins (`pinned_child`)

_LABELS = 0x7E00_0000_0000_0000  # no code lies there: branch targets inside the inserted code


@dataclass
class Emitter:
    """A growing list of instructions, with the registers that the copied code leaves free.

    Parameters
    ----------
    context : int
        Address of the context page; of several threads, of what they share.
    block, address, scratch : int
        Registers that hold the two buffer pointers and temporary values all the time, or ``Register.NONE`` where the
        copied code leaves too few registers free; then the slots in the context page are used.
    threads : bool
        Whether each thread has a context page of its own, where the gs register says.
    """

    context: int
    block: Any = Register.NONE
    address: Any = Register.NONE
    scratch: Any = Register.NONE
    threads: bool = False
    out: list[Instruction] = field(default_factory=list)
    _labels: "count[int]" = field(default_factory=lambda: count(_LABELS))
    _next_ip: int = 0

    def add(self, instruction: Instruction) -> None:
        """Append; the instruction gets the label that was set last, if any."""
        instruction.ip = self._next_ip
        self._next_ip = 0
        self.out.append(instruction)

    def new_label(self) -> int:
        """Return a place that branches can name."""
        return next(self._labels)

    def label(self, ip: int) -> None:
        """Let branches to `ip` come to the next instruction."""
        if self._next_ip:
            self.code(Code.NOPD)
        self._next_ip = ip

    # Single instructions ---------------------------------------------------------------------------------------

    def slot(self, offset: int) -> MemoryOperand:
        """Return the memory operand of a context slot."""
        if self.threads:
            return MemoryOperand(displ=offset, displ_size=8, seg=Register.GS)
        return self.shared(offset)

    def shared(self, offset: int) -> MemoryOperand:
        """Return the memory operand of a slot that all threads see."""
        return MemoryOperand(RIP, displ=self.context + offset, displ_size=8)

    def place(self, register: Any, offset: int) -> None:
        """Address of a context slot into register."""
        if self.threads:
            self.load(register, SELF)
            self.lea(register, MemoryOperand(register, displ=offset, displ_size=8))
        else:
            self.lea(register, self.slot(offset))

    def load(self, register: Any, offset: int) -> None:
        """Register from context slot."""
        self.add(Instruction.create_reg_mem(Code.MOV_R64_RM64, register, self.slot(offset)))

    def store(self, offset: int, register: Any) -> None:
        """Register to context slot."""
        self.add(Instruction.create_mem_reg(Code.MOV_RM64_R64, self.slot(offset), register))

    def lea(self, register: Any, memory: MemoryOperand) -> None:
        """Address into register."""
        self.add(Instruction.create_reg_mem(Code.LEA_R64_M, register, memory))

    def code(self, code: Any, *operands: object) -> None:
        """Any instruction of registers, immediates and memory operands (at most one of those)."""
        kinds = "_".join(
            "mem" if isinstance(o, MemoryOperand) else "i32" if isinstance(o, Immediate) else "reg" for o in operands
        )
        plain = [o.value if isinstance(o, Immediate) else o for o in operands]
        make = getattr(Instruction, f"create_{kinds}" if kinds else "create")
        self.add(make(code, *plain))

    def locked(self, code: Any, *operands: object) -> None:
        """Any instruction that no other thread sees half done."""
        self.code(code, *operands)
        self.out[-1].has_lock_prefix = True

    def branch(self, code: Any, target: int) -> None:
        """Jump or call."""
        self.add(Instruction.create_branch(code, target))

    def constant(self, register: Any, value: int) -> None:
        """64-bit constant into register."""
        self.add(Instruction.create_reg_u64(Code.MOV_R64_IMM64, register, value & (2**64 - 1)))

    # Sequences -------------------------------------------------------------------------------------------------

    def block_head(self, number: int, slots: int) -> None:
        """Record that block `number` begins, and make room for its addresses (the pointer then points behind them)."""
        temporary = self.scratch or RAX
        spill = not self.scratch and (not self.block or (slots and not self.address))
        if spill:
            self.store(SAVED_RAX, RAX)
        if self.block:
            self.code(Code.MOV_RM32_IMM32, MemoryOperand(self.block), Immediate(number + 1))
            self.lea(self.block, MemoryOperand(self.block, displ=4, displ_size=1))
        else:
            self.load(temporary, BLOCK_POINTER)
            self.code(Code.MOV_RM32_IMM32, MemoryOperand(temporary), Immediate(number + 1))
            self.lea(temporary, MemoryOperand(temporary, displ=4, displ_size=1))
            self.store(BLOCK_POINTER, temporary)
        if slots and self.address:
            self.lea(self.address, MemoryOperand(self.address, displ=8 * slots, displ_size=8))
        elif slots:
            self.load(temporary, ADDRESS_POINTER)
            self.lea(temporary, MemoryOperand(temporary, displ=8 * slots, displ_size=8))
            self.store(ADDRESS_POINTER, temporary)
        if spill:
            self.load(RAX, SAVED_RAX)

    def before(self, access: Access, behind: int) -> None:
        """Record an access ahead of its instruction; `behind` is the distance of its slot from the pointer (< 0)."""
        if access.kind is Kind.PLAIN:
            self._plain(access.memory, behind)
        elif access.kind is Kind.STRING:
            self._plain(access.memory, behind)
            self.store(COUNT, RCX)
        elif access.kind is Kind.LANES:
            self._lanes(access, behind)
        else:
            self._masked(access, behind)

    def after_string(self, strings: list[tuple[Access, int]]) -> None:
        """Record how many bytes a REP string instruction went through, once it is done."""
        self._save_flags()
        self.load(RAX, COUNT)
        self.code(Code.SUB_R64_RM64, RAX, RCX)
        self._multiply(Code.SHL_RM64_IMM8, RAX, strings[0][0].element)
        for _ in strings:
            self._append_size(RDX, Register.EAX)
        done = self.new_label()
        self.code(Code.TEST_RM64_R64, RAX, RAX)
        self.branch(Code.JNE_REL32_64, done)
        self.load(RAX, MINUS_ONE)
        for _, behind in strings:
            self._put(RAX, behind, RCX)
        self.label(done)
        self._restore_flags()

    def _plain(self, memory: UsedMemory, behind: int) -> None:
        thread_local = memory.segment in (Register.FS, Register.GS)
        if memory.segment == Register.GS:
            raise Refused("it uses the gs segment")
        temporary = self.scratch or RAX
        spill_first = not self.scratch
        spill_second = thread_local or not self.address
        if spill_first:
            self.store(SAVED_RAX, RAX)
        if spill_second:
            self.store(SECOND, RCX)
        if _is_bare(memory) and not thread_local:
            value = memory.base
        else:
            self.lea(temporary, _effective(memory))
            value = temporary
        if thread_local:
            self.load(RCX, FS_BASE)
            self.lea(temporary, MemoryOperand(temporary, RCX))
        if not self.address and value == RCX:
            self.lea(temporary, MemoryOperand(RCX))
            value = temporary
        self._put(value, behind, RCX)
        if spill_second:
            self.load(RCX, SECOND)
        if spill_first:
            self.load(RAX, SAVED_RAX)

    def _put(self, value: Any, behind: int, pointer: Any) -> None:
        """Write a register to an address slot; `pointer` is free for the buffer pointer where none is reserved."""
        if self.address:
            pointer = self.address
        else:
            self.load(pointer, ADDRESS_POINTER)
        self.code(Code.MOV_RM64_R64, MemoryOperand(pointer, displ=behind, displ_size=8), value)

    def _append_size(self, pointer: Any, value32: Any) -> None:
        self.load(pointer, SIZE_POINTER)
        self.code(Code.MOV_RM32_R32, MemoryOperand(pointer), value32)
        self.lea(pointer, MemoryOperand(pointer, displ=4, displ_size=1))
        self.store(SIZE_POINTER, pointer)

    def _save_flags(self, memory: MemoryOperand | None = None) -> None:
        """Free rax, rcx, rdx and the flags; leave the address of `memory` in slot BASE."""
        self.store(SAVED_RAX, RAX)
        if memory is not None:
            self.lea(RAX, memory)
            self.store(BASE, RAX)
        self.store(SAVED_RCX, RCX)
        self.store(SAVED_RDX, RDX)
        self.keep_flags(FLAGS)

    def _restore_flags(self) -> None:
        self.return_flags(FLAGS)
        self.load(RDX, SAVED_RDX)
        self.load(RCX, SAVED_RCX)
        self.load(RAX, SAVED_RAX)

    def keep_flags(self, offset: int) -> None:
        """Save the arithmetic flags in a slot, through rax."""
        self.code(Code.LAHF)
        self.code(Code.SETO_RM8, Register.AL)
        self.store(offset, RAX)

    def return_flags(self, offset: int) -> None:
        """Undo :meth:`keep_flags`: 127 + 1 overflows, so the addition sets the overflow flag anew."""
        self.load(RAX, offset)
        self.code(Code.ADD_RM8_IMM8, Register.AL, Immediate(127))
        self.code(Code.SAHF)

    def _multiply(self, code: Any, register: Any, power: int) -> None:
        if power > 1:
            self.code(code, register, Immediate(power.bit_length() - 1))

    def _lanes(self, access: Access, behind: int) -> None:
        memory = access.memory
        self._save_flags(_effective(memory, with_index=False))
        self._spill_vector(memory.index, VECTOR)
        if is_opmask(access.mask):
            self.code(Code.VEX_KMOVW_M16_KR, self.slot(MASK), access.mask)
        else:
            self._spill_vector(access.mask, MASK)
        for lane in range(access.lanes):
            index = self.slot(VECTOR + memory.vsib_size * lane)
            self.code(Code.MOVSXD_R64_RM32 if memory.vsib_size == 4 else Code.MOV_R64_RM64, RCX, index)
            self.load(RDX, BASE)
            self.lea(RDX, MemoryOperand(RDX, RCX, memory.scale))
            if is_opmask(access.mask):
                byte, bit = self.slot(MASK + lane // 8), 1 << lane % 8
            else:
                byte, bit = self.slot(MASK + access.element * (lane + 1) - 1), 0x80
            self.add(Instruction.create_mem_u32(Code.TEST_RM8_IMM8, byte, bit))
            self.code(Code.CMOVE_R64_RM64, RDX, self.slot(MINUS_ONE))
            self._put(RDX, behind + 8 * lane, RCX)
        self._restore_flags()

    def _spill_vector(self, register: Any, offset: int) -> None:
        width, number = RegisterInfo(register).size, RegisterInfo(register).number
        if width == 64 or number > 15:
            code = {
                16: Code.EVEX_VMOVDQU64_XMMM128_K1Z_XMM,
                32: Code.EVEX_VMOVDQU64_YMMM256_K1Z_YMM,
                64: Code.EVEX_VMOVDQU64_ZMMM512_K1Z_ZMM,
            }[width]
        else:
            code = {16: Code.VEX_VMOVDQU_XMMM128_XMM, 32: Code.VEX_VMOVDQU_YMMM256_YMM}[width]
        self.code(code, self.slot(offset), register)

    def _masked(self, access: Access, behind: int) -> None:
        """Record a masked access: rax gets the mask's bits, rcx the address, edx the size in bytes."""
        self._save_flags(_effective(access.memory))
        self._mask_bits(access)
        nothing, store = self.new_label(), self.new_label()
        self.code(Code.TEST_RM64_R64, RAX, RAX)
        self.branch(Code.JE_REL32_64, nothing)
        if access.kind is Kind.SPAN:
            self.code(Code.BSF_R64_RM64, RCX, RAX)
            self.code(Code.BSR_R64_RM64, RDX, RAX)
            self.code(Code.SUB_R64_RM64, RDX, RCX)
            self.lea(RDX, MemoryOperand(RDX, displ=1, displ_size=1))
            self._multiply(Code.SHL_RM64_IMM8, RDX, access.element)
            self._multiply(Code.SHL_RM64_IMM8, RCX, access.element)
            self.code(Code.ADD_R64_RM64, RCX, self.slot(BASE))
        else:
            if access.kind is Kind.PACKED:
                self.code(Code.POPCNT_R64_RM64, RDX, RAX)
                self._multiply(Code.SHL_RM64_IMM8, RDX, access.element)
            self.load(RCX, BASE)
        self.branch(Code.JMP_REL32_64, store)
        self.label(nothing)
        self.load(RCX, MINUS_ONE)
        self.code(Code.XOR_R32_RM32, Register.EDX, Register.EDX)
        self.label(store)
        self._put(RCX, behind, RAX)
        if access.size == 0:
            self._append_size(RAX, Register.EDX)
        self._restore_flags()

    def _mask_bits(self, access: Access) -> None:
        """Put the mask into rax, one bit per element."""
        if is_opmask(access.mask):
            if access.lanes > 16:
                self.code(Code.VEX_KMOVQ_R64_KR, RAX, access.mask)
            else:
                self.code(Code.VEX_KMOVW_R32_KR, Register.EAX, access.mask)
        else:
            wide = RegisterInfo(access.mask).size == 32
            code = {
                (4, False): Code.VEX_VMOVMSKPS_R32_XMM,
                (4, True): Code.VEX_VMOVMSKPS_R32_YMM,
                (8, False): Code.VEX_VMOVMSKPD_R32_XMM,
                (8, True): Code.VEX_VMOVMSKPD_R32_YMM,
            }[access.element, wide]
            self.code(code, Register.EAX, access.mask)
        if access.lanes < 32:
            self.code(Code.AND_RM32_IMM32, Register.EAX, Immediate((1 << access.lanes) - 1))
        elif access.lanes == 32:
            self.code(Code.MOV_R32_RM32, Register.EAX, Register.EAX)


@dataclass(frozen=True)
class Immediate:
    """A 32-bit constant operand."""

    value: int


def _signed(displacement: int) -> int:
    return displacement - (1 << 64) if displacement >> 63 else displacement


def _effective(memory: UsedMemory, *, with_index: bool = True) -> MemoryOperand:
    """Return the operand of an address computation (``lea``) for a used memory location."""
    index = memory.index if with_index else NONE
    if memory.base == RIP or (memory.base == NONE and index == NONE):
        place = _signed(memory.displacement)
        # Compilers leave loads from places below 0 where a pointer is null: nothing can be so near to those.
        if memory.segment == Register.FS or (memory.base == NONE and -(1 << 31) <= place < 0):
            return MemoryOperand(displ=place, displ_size=8)
        return MemoryOperand(RIP, displ=memory.displacement, displ_size=8)
    scale = memory.scale if with_index else 1
    return MemoryOperand(memory.base, index, scale, _signed(memory.displacement), 8)


def _is_bare(memory: UsedMemory) -> bool:
    """Whether the address is the value of one 64-bit register."""
    return (
        memory.index == NONE
        and memory.displacement == 0
        and memory.base not in (NONE, RIP)
        and RegisterInfo(memory.base).size == 8
    )
