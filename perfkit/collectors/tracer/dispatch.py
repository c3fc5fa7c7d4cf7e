"""Jumps and calls through registers and memory: where the copy goes on is looked up while it runs (x86-64).

A target in the region has a copy, which a table names. A target outside of it is left as it is, and counted in the
context page, so that what is not recorded is known.
"""

from iced_x86 import Code, FlowControl, Instruction, MemoryOperand, OpKind, Register

from perfkit.collectors.tracer import emit
from perfkit.collectors.tracer.accesses import Refused
from perfkit.collectors.tracer.emit import RAX, RCX, RDX, RIP, RSP, Emitter, Immediate


def indirect(e: Emitter, i: Instruction, thunk: int) -> None:
    """Jump or call to wherever the dispatcher says that the target's copy lies."""
    e.store(emit.SAVED_RAX, RAX)
    if i.op0_kind == OpKind.REGISTER:
        e.code(Code.MOV_R64_RM64, RAX, i.op0_register)
    else:
        if i.memory_segment in (Register.FS, Register.GS):
            raise Refused(f"it jumps or calls through thread-local memory at {i.ip:#x}")
        if i.is_ip_rel_memory_operand:
            where = MemoryOperand(RIP, displ=i.ip_rel_memory_address, displ_size=8)
        else:
            displacement = i.memory_displacement
            displacement -= (1 << 64) if displacement >> 63 else 0
            where = MemoryOperand(i.memory_base, i.memory_index, i.memory_index_scale, displacement, 8)
        e.code(Code.MOV_R64_RM64, RAX, where)
    e.store(emit.TARGET, RAX)
    e.load(RAX, emit.SAVED_RAX)
    e.lea(RSP, MemoryOperand(RSP, displ=-128, displ_size=8))
    e.branch(Code.CALL_REL32_64, thunk)
    e.lea(RSP, MemoryOperand(RSP, displ=128, displ_size=8))
    jump = i.flow_control == FlowControl.INDIRECT_BRANCH
    e.code(Code.JMP_RM64 if jump else Code.CALL_RM64, e.slot(emit.TARGET))


def dispatcher(e: Emitter, tables: list[tuple[int, int, int]], address: int) -> None:
    """Replace the target in its slot by the target's copy; count targets outside of the region, and leave them."""
    e.store(emit.THUNK_RAX, RAX)
    e.store(emit.THUNK_RCX, RCX)
    e.store(emit.THUNK_RDX, RDX)
    e.keep_flags(emit.THUNK_FLAGS)
    done, missing = e.new_label(), e.new_label()
    for start, size, table in tables:
        other = e.new_label()
        e.load(RAX, emit.TARGET)
        e.constant(RCX, start)
        e.code(Code.SUB_R64_RM64, RAX, RCX)
        e.code(Code.CMP_RM64_IMM32, RAX, Immediate(size))
        e.branch(Code.JAE_REL32_64, other)
        e.constant(RCX, table)
        e.code(Code.MOV_R32_RM32, Register.ECX, MemoryOperand(RCX, RAX, 4))
        e.code(Code.TEST_RM32_R32, Register.ECX, Register.ECX)
        e.branch(Code.JE_REL32_64, missing)
        e.constant(RDX, address)
        e.code(Code.ADD_R64_RM64, RCX, RDX)
        e.store(emit.TARGET, RCX)
        e.branch(Code.JMP_REL32_64, done)
        e.label(other)
    _count_outside(e, done)
    e.label(missing)
    e.load(RAX, emit.TARGET)
    e.store(emit.MISSING, RAX)
    e.code(Code.UD2)
    e.label(done)
    e.return_flags(emit.THUNK_FLAGS)
    e.load(RDX, emit.THUNK_RDX)
    e.load(RCX, emit.THUNK_RCX)
    e.load(RAX, emit.THUNK_RAX)
    e.code(Code.RETNQ)


def _count_outside(e: Emitter, done: int) -> None:
    """Find the target's entry in the context page's list, or make one, count, and go on at `done`.

    The entry behind the last one counts what the list has no room for.
    """
    search, new, found = e.new_label(), e.new_label(), e.new_label()
    e.load(RDX, emit.TARGET)
    e.place(RAX, emit.OUTSIDE)
    e.label(search)
    e.place(RCX, emit.OUTSIDE + 16 * emit.OUTSIDE_ROOM)
    e.code(Code.CMP_R64_RM64, RAX, RCX)
    e.branch(Code.JE_REL32_64, found)
    e.code(Code.MOV_R64_RM64, RCX, MemoryOperand(RAX))
    e.code(Code.CMP_R64_RM64, RCX, RDX)
    e.branch(Code.JE_REL32_64, found)
    e.code(Code.TEST_RM64_R64, RCX, RCX)
    e.branch(Code.JE_REL32_64, new)
    e.lea(RAX, MemoryOperand(RAX, displ=16, displ_size=1))
    e.branch(Code.JMP_REL32_64, search)
    e.label(new)
    e.code(Code.MOV_RM64_R64, MemoryOperand(RAX), RDX)
    e.label(found)
    e.code(Code.MOV_R64_RM64, RCX, MemoryOperand(RAX, displ=8, displ_size=1))
    e.lea(RCX, MemoryOperand(RCX, displ=1, displ_size=1))
    e.code(Code.MOV_RM64_R64, MemoryOperand(RAX, displ=8, displ_size=1), RCX)
    e.branch(Code.JMP_REL32_64, done)
