"""What the first bytes of a traced function become: whose calls are recorded, and where those go on (x86-64).

Flags are free at a function's entry and after its return, and so is the stack below its pointer: the caller's red zone
ended with the call. The return address is exchanged in place, because arguments on the stack must stay where they are.
"""

from dataclasses import dataclass
from typing import Any

from iced_x86 import Code, MemoryOperand, Register

from perfkit.collectors.tracer import emit
from perfkit.collectors.tracer.emit import R11, RAX, RCX, RIP, RSP, Emitter, Immediate

RDI, RSI = Register.RDI, Register.RSI
OWN_THREAD = MemoryOperand(displ=0, displ_size=8, seg=Register.FS)  # where a thread's own memory begins
MOST_THREADS = 64
_NEAR = 64 << 20  # bytes of stack that calls of one thread lie within of each other
# What all threads share, in the page before their own; behind FS_BASE, which must stay 0 there, lies nothing.
NEXT_THREAD, REFUSED, GATE, PHASE, FORKED = range(0, 40, 8)
_SYS_ARCH_PRCTL, _ARCH_SET_GS, _SYS_GETTID = 158, 0x1001, 186


@dataclass(frozen=True)
class Door:
    """An entry of the region.

    Parameters
    ----------
    start : int
        Where its recorded copy begins (a label).
    plain : int
        Where its copy without recording code lies.
    label : int
        What the stub is to be called.
    opens : bool
        Whether its wanted calls let those of the other doors be recorded, too.
    gated : bool
        Whether it is recorded only while another door's call is.
    """

    start: int
    plain: int
    label: int
    opens: bool = False
    gated: bool = False


def one_thread(e: Emitter, start: int, plain: int, unwinds: bool) -> None:
    """Enter the clone for the wanted calls of the first thread that comes; count those of other threads."""
    mine, untraced, back = e.new_label(), e.new_label(), e.new_label()
    reserved = [r for r in (e.block, e.address, e.scratch) if r]
    e.code(Code.PUSH_R64, R11)
    e.code(Code.PUSH_R64, RAX)
    e.code(Code.MOV_R64_RM64, R11, OWN_THREAD)
    e.code(Code.XOR_R32_RM32, Register.EAX, Register.EAX)
    e.locked(Code.CMPXCHG_RM64_R64, e.slot(emit.FS_BASE), R11)
    e.branch(Code.JE_REL32_64, mine)
    e.code(Code.CMP_R64_RM64, RAX, R11)
    e.branch(Code.JE_REL32_64, mine)
    e.locked(Code.INC_RM64, e.slot(emit.OTHERS))
    e.code(Code.POP_R64, RAX)
    e.label(untraced)
    e.code(Code.POP_R64, R11)
    e.branch(Code.JMP_REL32_64, plain)
    e.label(mine)
    e.code(Code.POP_R64, RAX)
    e.load(R11, emit.ACTIVE)
    e.code(Code.TEST_RM64_R64, R11, R11)
    e.branch(Code.JNE_REL32_64, untraced)
    _count_call(e, untraced, unwinds)
    _go(e, start, back, reserved)
    e.label(back)
    if e.block:
        e.store(emit.BLOCK_POINTER, e.block)
    if e.address:
        e.store(emit.ADDRESS_POINTER, e.address)
    for k, register in enumerate(reserved):
        e.load(register, emit.RESERVED + 8 * k)
    e.code(Code.MOV_RM64_IMM32, e.slot(emit.ACTIVE), Immediate(0))
    e.code(Code.JMP_RM64, e.slot(emit.RETURN))


def many_threads(e: Emitter, doors: list[Door], contexts: int, unwinds: bool) -> None:
    """Enter the clone for the wanted calls of every thread, each with the buffers of its own.

    A thread is known by its gs register, which it inherits from the thread that started it, and by the owner that the
    page there names: where that is another, it takes the next page of `contexts`.
    """
    claim = e.new_label()
    for door in doors:
        _door(e, door, claim, unwinds)
    _claim(e, claim, contexts)


def _door(e: Emitter, door: Door, claim: int, unwinds: bool) -> None:
    known, inside, untraced, back = (e.new_label() for _ in range(4))
    e.label(door.label)
    e.code(Code.PUSH_R64, R11)
    e.code(Code.MOV_R64_RM64, R11, OWN_THREAD)
    e.code(Code.CMP_R64_RM64, R11, e.slot(emit.FS_BASE))
    e.branch(Code.JE_REL32_64, known)
    e.branch(Code.CALL_REL32_64, claim)
    e.branch(Code.JE_REL32_64, known)
    e.label(untraced)
    e.code(Code.POP_R64, R11)
    e.branch(Code.JMP_REL32_64, door.plain)
    e.label(known)
    # A call within a recorded one comes back by itself: what is recorded lies in memory, not in registers.
    e.load(R11, emit.ACTIVE)
    e.code(Code.TEST_RM64_R64, R11, R11)
    e.branch(Code.JNE_REL32_64, inside)
    if door.gated:
        e.code(Code.CMP_RM64_IMM8, e.shared(GATE), Immediate(0))
        e.branch(Code.JE_REL32_64, untraced)
    else:
        _count_call(e, untraced, unwinds)
    if door.opens:
        e.locked(Code.INC_RM64, e.shared(GATE))
    _log_call(e)
    _go(e, door.start, back, [])
    e.label(inside)
    _log_call(e)
    e.code(Code.POP_R64, R11)
    e.branch(Code.JMP_REL32_64, door.start)
    e.label(back)
    e.code(Code.MOV_RM64_IMM32, e.slot(emit.ACTIVE), Immediate(0))
    if door.opens:
        e.locked(Code.DEC_RM64, e.shared(GATE))
    e.code(Code.JMP_RM64, e.slot(emit.RETURN))


def _count_call(e: Emitter, untraced: int, unwinds: bool) -> None:
    """Go to `untraced` unless this call is one of those wanted; r11 lies on the stack, the return address behind it.

    A call within one that was let pass is not counted. That one's return address is exchanged, so that its end is seen;
    where exceptions may pass it (`unwinds`) it must stay, and a call that has ended is one whose return address was
    overwritten since.
    """
    counted, wanted, passed, closed = (e.new_label() for _ in range(4))
    e.load(R11, emit.PASSED_AT)
    e.code(Code.SUB_R64_RM64, R11, RSP)
    e.code(Code.CMP_RM64_IMM32, R11, Immediate(_NEAR))
    e.branch(Code.JAE_REL32_64, counted)  # not below it, or on another stack
    e.code(Code.CMP_RM64_IMM8, R11, Immediate(8))  # at the same place: what is jumped to at a function's end
    e.branch(Code.JBE_REL32_64 if unwinds else Code.JB_REL32_64, counted)
    e.code(Code.PUSH_R64, RAX)
    e.load(RAX, emit.PASSED_AT)
    e.code(Code.MOV_R64_RM64, RAX, MemoryOperand(RAX))
    e.code(Code.CMP_R64_RM64, RAX, e.slot(emit.PASSED_TO if unwinds else emit.PASSED_BY))
    e.code(Code.POP_R64, RAX)
    e.branch(Code.JE_REL32_64, untraced)
    e.label(counted)
    e.load(R11, emit.CALLS)
    e.lea(R11, MemoryOperand(R11, displ=1, displ_size=1))
    e.store(emit.CALLS, R11)
    e.code(Code.CMP_R64_RM64, R11, e.slot(emit.FIRST_CALL))
    e.branch(Code.JAE_REL32_64, wanted)
    e.lea(R11, MemoryOperand(RSP, displ=8, displ_size=1))
    if not unwinds:
        e.code(Code.CMP_R64_RM64, R11, e.slot(emit.PASSED_AT))
        e.branch(Code.JE_REL32_64, closed)  # left by a jump out of it
        e.code(Code.CMP_RM64_IMM8, e.slot(emit.PASSED_AT), Immediate(0))
        e.branch(Code.JNE_REL32_64, untraced)  # it goes on, on another stack
        e.label(closed)
    e.store(emit.PASSED_AT, R11)
    e.code(Code.MOV_R64_RM64, R11, MemoryOperand(R11))
    e.store(emit.PASSED_TO, R11)
    if not unwinds:
        e.lea(R11, MemoryOperand(RIP, displ=passed, displ_size=8))
        e.store(emit.PASSED_BY, R11)
        e.code(Code.MOV_RM64_R64, MemoryOperand(RSP, displ=8, displ_size=1), R11)
    e.branch(Code.JMP_REL32_64, untraced)
    if not unwinds:
        e.label(passed)
        e.code(Code.MOV_RM64_IMM32, e.slot(emit.PASSED_AT), Immediate(0))
        e.code(Code.JMP_RM64, e.slot(emit.PASSED_TO))
    e.label(wanted)
    if unwinds:
        e.code(Code.MOV_RM64_IMM32, e.slot(emit.PASSED_AT), Immediate(0))
    e.code(Code.CMP_R64_RM64, R11, e.slot(emit.LAST_CALL))
    e.branch(Code.JA_REL32_64, untraced)


def _go(e: Emitter, start: int, back: int, reserved: list[Any]) -> None:
    """Begin a recorded call, which is to come back to `back`; r11 lies on the stack."""
    e.code(Code.MOV_RM64_IMM32, e.slot(emit.ACTIVE), Immediate(1))
    e.code(Code.MOV_R64_RM64, R11, MemoryOperand(RSP, displ=8, displ_size=1))
    e.store(emit.RETURN, R11)
    e.lea(R11, MemoryOperand(RIP, displ=back, displ_size=8))
    e.code(Code.MOV_RM64_R64, MemoryOperand(RSP, displ=8, displ_size=1), R11)
    e.code(Code.POP_R64, R11)
    for k, register in enumerate(reserved):
        e.store(emit.RESERVED + 8 * k, register)
    if e.block:
        e.load(e.block, emit.BLOCK_POINTER)
    if e.address:
        e.load(e.address, emit.ADDRESS_POINTER)
    e.branch(Code.JMP_REL32_64, start)


def _log_call(e: Emitter) -> None:
    """Note where in the thread's stream this call begins, and in which phase of the program; r11 is free."""
    full = e.new_label()
    e.code(Code.PUSH_R64, RAX)
    e.load(R11, emit.CALL_POINTER)
    e.code(Code.CMP_R64_RM64, R11, e.slot(emit.CALL_END))
    e.branch(Code.JAE_REL32_64, full)
    e.load(RAX, emit.BLOCK_POINTER)
    e.code(Code.MOV_RM64_R64, MemoryOperand(R11), RAX)
    e.code(Code.MOV_R64_RM64, RAX, e.shared(PHASE))
    e.code(Code.MOV_RM64_R64, MemoryOperand(R11, displ=8, displ_size=1), RAX)
    e.label(full)
    e.lea(R11, MemoryOperand(R11, displ=16, displ_size=1))
    e.store(emit.CALL_POINTER, R11)
    e.code(Code.POP_R64, RAX)


def _claim(e: Emitter, label: int, contexts: int) -> None:
    """Give the thread the next context page; the flags say "equal" if it has one, r11 is free."""
    full, end = e.new_label(), e.new_label()
    e.label(label)
    for register in (RAX, RCX, RDI, RSI):
        e.code(Code.PUSH_R64, register)
    e.code(Code.MOV_R32_IMM32, Register.EAX, Immediate(1))
    e.locked(Code.XADD_RM64_R64, e.shared(NEXT_THREAD), RAX)
    e.code(Code.CMP_RM64_IMM32, RAX, Immediate(MOST_THREADS))
    e.branch(Code.JAE_REL32_64, full)
    e.code(Code.SHL_RM64_IMM8, RAX, Immediate(12))
    e.constant(RSI, contexts)
    e.code(Code.ADD_R64_RM64, RSI, RAX)
    e.code(Code.MOV_R32_IMM32, Register.EDI, Immediate(_ARCH_SET_GS))
    e.code(Code.MOV_R32_IMM32, Register.EAX, Immediate(_SYS_ARCH_PRCTL))
    e.code(Code.SYSCALL)
    e.code(Code.TEST_RM64_R64, RAX, RAX)
    e.branch(Code.JNE_REL32_64, full)
    e.code(Code.MOV_R64_RM64, R11, OWN_THREAD)
    e.store(emit.FS_BASE, R11)
    e.code(Code.MOV_R32_IMM32, Register.EAX, Immediate(_SYS_GETTID))
    e.code(Code.SYSCALL)
    e.store(emit.THREAD, RAX)
    e.code(Code.XOR_R32_RM32, Register.EAX, Register.EAX)
    e.branch(Code.JMP_REL32_64, end)
    e.label(full)
    e.locked(Code.INC_RM64, e.shared(REFUSED))
    e.code(Code.MOV_R32_IMM32, Register.EAX, Immediate(1))
    e.label(end)
    e.code(Code.TEST_RM64_R64, RAX, RAX)
    for register in (RSI, RDI, RCX, RAX):
        e.code(Code.POP_R64, register)
    e.code(Code.RETNQ)


def before_fork(e: Emitter) -> None:
    """Make the function that ``fork`` calls first: it stops at a fork inside the region.

    Outside of it, a call that was let pass gets its return address back: the new process returns from it, too.
    """
    outside, passing = e.new_label(), e.new_label()
    e.code(Code.MOV_R64_RM64, R11, OWN_THREAD)
    e.code(Code.CMP_R64_RM64, R11, e.slot(emit.FS_BASE))
    e.branch(Code.JNE_REL32_64, outside)
    e.code(Code.CMP_RM64_IMM8, e.slot(emit.ACTIVE), Immediate(0))
    e.branch(Code.JE_REL32_64, passing)
    e.locked(Code.INC_RM64, e.shared(FORKED) if e.threads else e.slot(emit.FORKED_IN))
    e.code(Code.UD2)
    e.label(passing)
    e.load(R11, emit.PASSED_AT)
    e.code(Code.TEST_RM64_R64, R11, R11)
    e.branch(Code.JE_REL32_64, outside)
    e.load(RAX, emit.PASSED_BY)
    e.code(Code.CMP_R64_RM64, RAX, MemoryOperand(R11))
    e.branch(Code.JNE_REL32_64, outside)
    e.load(RAX, emit.PASSED_TO)
    e.code(Code.MOV_RM64_R64, MemoryOperand(R11), RAX)
    e.code(Code.MOV_RM64_IMM32, e.slot(emit.PASSED_AT), Immediate(0))
    e.label(outside)
    e.code(Code.RETNQ)


def after_fork(e: Emitter, entries: dict[int, bytes]) -> None:
    """Make the function that the new process calls: its entries get their first bytes back, nothing is recorded."""
    for start, code in entries.items():
        e.constant(RCX, start)
        for k, byte in enumerate(code):
            e.code(Code.MOV_RM8_IMM8, MemoryOperand(RCX, displ=k, displ_size=1), Immediate(byte))
    e.code(Code.RETNQ)
