"""Copy a function and put recording code between its instructions (x86-64, iced-x86).

A clone records one block id for each basic block and one address for each memory operand, and otherwise computes what
the original computes, from the same stack layout and at near-native speed. It runs in place of the original, whose
first bytes become a jump to the clone's entry stub (:mod:`perfkit.collectors.tracer.child` does that).
"""

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise

from iced_x86 import (
    BlockEncoder,
    Code,
    Decoder,
    FlowControl,
    Instruction,
    InstructionInfoFactory,
    MemoryOperand,
    Mnemonic,
    OpKind,
    Register,
    RegisterInfo,
)

from perfkit.collectors.tracer import dispatch, entry
from perfkit.collectors.tracer.accesses import Access, Kind, Refused, accesses
from perfkit.collectors.tracer.elf import opens_loops
from perfkit.collectors.tracer.emit import Emitter

_BRANCHES = (FlowControl.CONDITIONAL_BRANCH, FlowControl.UNCONDITIONAL_BRANCH)
_CALLS = (FlowControl.CALL, FlowControl.INDIRECT_CALL)
_INDIRECT = (FlowControl.INDIRECT_BRANCH, FlowControl.INDIRECT_CALL)
_CALLEE_SAVED = [getattr(Register, name) for name in ("R15", "R14", "R13", "R12", "RBP", "RBX")]
_OTHERS = [getattr(Register, name) for name in ("R11", "R10", "R9", "R8", "RSI", "RDI")]
_IMMEDIATE = (OpKind.IMMEDIATE32, OpKind.IMMEDIATE32TO64, OpKind.IMMEDIATE64)
_CLONES = (56, 57, 58, 435)  # system calls: clone, fork, vfork, clone3
# Copied code is labelled with its original address plus this, so that only branches follow it to its new place:
# addresses of code that the program computes stay those of the original.
_MOVED = 0x7D00_0000_0000_0000


@dataclass(frozen=True)
class Function:
    """A piece of machine code in memory, with the symbol it belongs to."""

    name: str
    start: int
    size: int

    @property
    def family(self) -> str:
        """Name without the suffix of a part that the compiler moved away (``f.cold``).

        Code without a symbol, named ``libc.so.6+0x957a0``, is of no family.
        """
        return self.name if "+" in self.name else self.name.partition(".")[0]

    def __contains__(self, address: int) -> bool:
        return self.start <= address < self.start + self.size


@dataclass(frozen=True)
class ClonedBlock:
    """A basic block: its instructions, each with its accesses."""

    function: str
    instructions: list[Instruction]
    accesses: list[list[Access]]

    @cached_property
    def slots(self) -> int:
        """Addresses recorded for one execution."""
        return sum(access.slots for each in self.accesses for access in each)


@dataclass
class Region:
    """The functions to be traced, decoded and cut into basic blocks.

    Parameters
    ----------
    entry : Function
        The function whose calls are traced.
    read : callable
        ``read(address, size)`` gives bytes of memory.
    find : callable
        ``find(address)`` gives the function that an address lies in, or None.
    callees : bool
        Whether called functions are traced too, where they can be.
    leaders : set of int
        Addresses known to be targets of indirect jumps, from earlier attempts.
    pointed : list of int
        Addresses known to be called through pointers, from earlier attempts.
    bodies : list of Function
        More functions whose calls are traced: bodies of parallel loops, or what other threads run.
    likely : callable, optional
        ``likely(functions)`` gives addresses that those functions most likely call through pointers.
    threads : bool
        Whether several threads are recorded: functions that call the kernel, as threads that wait do, stay outside.
    """

    entry: Function
    read: Callable[[int, int], bytes]
    find: Callable[[int], Function | None]
    callees: bool = False
    leaders: set[int] = field(default_factory=set)
    pointed: list[int] = field(default_factory=list)
    bodies: list[Function] = field(default_factory=list)
    likely: Callable[[list[Function]], list[int]] | None = None
    threads: bool = False
    functions: list[Function] = field(default_factory=list)
    blocks: list[ClonedBlock] = field(default_factory=list)
    outside: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._code: dict[int, list[Instruction]] = {}
        self._accesses: dict[int, list[Access]] = {}
        self._take([self.entry, *self.bodies, *self._reached_by_pointer(self.pointed)])
        if self.callees and self.likely is not None:
            self._take(self._reached_by_pointer(self.likely(self.functions)))
        self._ordered = sorted(self.functions, key=lambda function: function.start)
        if self.has_indirect_jumps:
            starts = {i.ip for code in self._code.values() for i in code}
            for function in self.functions:
                self.leaders |= self._jump_table_targets(function, starts)
        leaders = sorted(self.leaders | self._direct_targets())
        for function in self.functions:
            first, last = (bisect_left(leaders, at) for at in (function.start, function.start + function.size))
            self.blocks += self._cut(function, set(leaders[first:last]))

    @property
    def opens(self) -> bool:
        """Whether the entry starts the bodies; else all of them are entries of one kind."""
        return opens_loops(self.entry.name, [each.name for each in self.bodies])

    @property
    def entries(self) -> list[Function]:
        """The functions whose first bytes become a jump to the clone."""
        return [self.entry, *self.bodies]

    @property
    def has_indirect_jumps(self) -> bool:
        """Whether blocks may begin where only tables of addresses say so."""
        kinds = _INDIRECT if self.callees else (FlowControl.INDIRECT_BRANCH,)
        return any(i.flow_control in kinds for code in self._code.values() for i in code)

    @property
    def has_lookups(self) -> bool:
        """Whether targets must be looked up at run time: calls through pointers that lead out are counted, too."""
        return any(i.flow_control in _INDIRECT for code in self._code.values() for i in code)

    def instructions(self, function: Function) -> list[Instruction]:
        """Return the decoded instructions of a function of the region."""
        return self._code[function.start]

    def owner(self, address: int) -> Function | None:
        """Return the function of the region that an address lies in."""
        k = bisect_right(self._ordered, address, key=lambda function: function.start) - 1
        return self._ordered[k] if k >= 0 and address in self._ordered[k] else None

    def _take(self, pending: list[Function]) -> None:
        """Decode functions, and those that they lead to."""
        while pending:
            function = pending.pop()
            if function.start not in self._code:
                self._decode(function)
                pending += self._followed(function)

    def _reached_by_pointer(self, addresses: list[int]) -> list[Function]:
        """Return the functions that are called through pointers; what cannot be copied stays outside."""
        found = []
        for address in addresses:
            function = self.find(address)
            if function is not None and self._clonable(function):
                found.append(function)
            else:
                self.outside.add(address)
        return found

    def _decode(self, function: Function) -> None:
        self._code[function.start] = self._listing(function)
        self.functions.append(function)

    def _listing(self, function: Function) -> list[Instruction]:
        """Return a function's instructions, checked."""
        if function.size == 0:
            raise Refused(f"the symbol table does not say how long {function.name} is")
        code = list(Decoder(64, self.read(function.start, function.size), ip=function.start))
        bad = next((i for i in code if i.code == Code.INVALID), None)
        if bad is not None:
            raise Refused(f"{function.name} has bytes at {bad.ip:#x} that are no x86-64 instruction")
        while len(code) > 1 and code[-1].code in (Code.NOPD, Code.NOPW, Code.INT3):
            code.pop()
        if code[-1].flow_control == FlowControl.NEXT:
            raise Refused(f"{function.name} runs on into what lies behind it")
        for before, i in pairwise(code):
            if i.flow_control == FlowControl.RETURN and _sets_return_address(before):
                raise Refused(f"{function.name} returns at {i.ip:#x} to an address of its own making, as retpolines do")
        return code

    def _followed(self, function: Function) -> list[Function]:
        """Return the functions that this one leads to and that belong to the trace."""
        found = []
        for i in self._code[function.start]:
            target = self._target(i)
            if not target or target in function:
                continue
            other = self.find(target)
            moved = other is not None and other.family == function.family and i.flow_control in _BRANCHES
            if other is not None and (moved or other in self.entries or self._clonable(other)):
                found.append(other)
            else:
                self.outside.add(target)
        return found

    def _target(self, i: Instruction) -> int:
        """Return where an instruction leads to, if that is known before it runs; 0 if not."""
        if i.flow_control in _BRANCHES or i.flow_control == FlowControl.CALL:
            return int(i.near_branch_target)
        if i.flow_control in _INDIRECT and self.callees and i.is_ip_rel_memory_operand:
            return int(struct.unpack("<Q", self.read(i.ip_rel_memory_address, 8))[0])
        return 0

    def _clonable(self, function: Function) -> bool:
        """Whether a called function is to be traced and can be: refusals of callees leave them outside."""
        if not self.callees:
            return False
        if function.start in self._code:
            return True
        try:
            code = self._listing(function)
            self._accesses |= {i.ip: accesses(i) for i in code}
        except Refused:
            return False
        if _starts_threads(code) or (self.threads and any(i.mnemonic == Mnemonic.SYSCALL for i in code)):
            return False
        # As in libc's jumps past a lock prefix.
        starts = {i.ip for i in code}
        targets = {i.near_branch_target for i in code if i.flow_control in _BRANCHES}
        return all(target in starts for target in targets if target in function)

    def _jump_table_targets(self, function: Function, starts: set[int]) -> set[int]:
        """Guess the targets of indirect jumps, which are among `starts`, from the tables that the code mentions.

        A wrong guess only splits a block; a missing one is found when the clone runs into it.
        """
        found: set[int] = set()
        code = self._code[function.start]
        labels = {int(i.ip_rel_memory_address) for i in code if i.is_ip_rel_memory_operand} & starts
        labels = {label for label in labels if label in function}  # as printf's tables, of distances to a label
        for i in code:
            if i.is_ip_rel_memory_operand:
                table = int(i.ip_rel_memory_address)
            elif i.flow_control == FlowControl.INDIRECT_BRANCH and i.op0_kind == OpKind.MEMORY:
                table = int(i.memory_displacement)
            else:
                continue
            if self.owner(table) is None:
                found |= self._table(table, 8, starts, 0)
                for base in (table, *labels):
                    found |= self._table(table, 4, starts, base)
        return found

    def _table(self, table: int, width: int, starts: set[int], base: int) -> set[int]:
        """Read table entries (4 bytes: relative to a base; 8 bytes: absolute) as long as they name instructions."""
        found: set[int] = set()
        for k in range(4096):
            try:
                data = self.read(table + width * k, width)
            except OSError:
                break
            target = base + struct.unpack("<i" if width == 4 else "<Q", data)[0]
            if target not in starts:
                break
            found.add(target)
        return found

    def _direct_targets(self) -> set[int]:
        """Return where the branches and calls of the region lead to."""
        kinds = (*_BRANCHES, FlowControl.CALL)
        return {i.near_branch_target for each in self._code.values() for i in each if i.flow_control in kinds}

    def _cut(self, function: Function, leaders: set[int]) -> list[ClonedBlock]:
        code = self._code[function.start]
        cuts = [0]
        for k, i in enumerate(code[1:], 1):
            if i.ip in leaders or code[k - 1].flow_control != FlowControl.NEXT:
                cuts.append(k)
        cuts.append(len(code))
        found = []
        for first, last in pairwise(cuts):
            part = code[first:last]
            known = self._accesses
            found.append(
                ClonedBlock(function.name, part, [known[i.ip] if i.ip in known else accesses(i) for i in part])
            )
        inside = {i.ip for i in code}
        stray = [t for t in leaders if t not in inside]
        if stray:
            raise Refused(f"{function.name} jumps into the middle of an instruction at {min(stray):#x}")
        return found


@dataclass(frozen=True)
class Clone:
    """Machine code ready to be put at `address`, whose first byte is the entry stub.

    `starts` maps the original address of every block to its address in the clone, `stubs` that of every entry to its
    stub.
    """

    address: int
    code: bytes
    starts: dict[int, int]
    stubs: dict[int, int]


def _sets_return_address(i: Instruction) -> bool:
    """Whether an instruction ahead of a ``ret`` makes it a jump, to where the copy would be left unseen."""
    if i.mnemonic == Mnemonic.PUSH:
        return True
    if i.mnemonic != Mnemonic.MOV or i.op0_kind != OpKind.MEMORY:
        return False
    return (i.memory_base, i.memory_index, i.memory_displacement) == (Register.RSP, Register.NONE, 0)


def _starts_threads(code: list[Instruction]) -> bool:
    """Whether a function asks the kernel for a thread or process, which would go on in the copy beside this one."""
    asks = any(i.mnemonic == Mnemonic.SYSCALL for i in code)
    loads = (i for i in code if i.mnemonic == Mnemonic.MOV and i.op0_register in (Register.EAX, Register.RAX))
    return asks and any(i.op_count == 2 and i.op1_kind in _IMMEDIATE and i.immediate(1) in _CLONES for i in loads)


def free_registers(region: Region) -> list[int]:
    """List general registers that the region leaves alone, those first that called functions preserve."""
    info = InstructionInfoFactory()
    used = set()
    leaves = bool(region.outside)
    for block in region.blocks:
        for i in block.instructions:
            leaves |= i.flow_control in (*_INDIRECT, FlowControl.CALL)
            for register in info.info(i).used_registers():
                used.add(RegisterInfo(register.register).full_register)
    return [r for r in (_CALLEE_SAVED if leaves else _CALLEE_SAVED + _OTHERS) if r not in used]


def clone(
    region: Region,
    context: int,
    address: int,
    plain: dict[int, int],
    tables: list[tuple[int, int, int]],
    *,
    threads: bool = False,
    late: bool = False,
    unwinds: bool = False,
) -> Clone:
    """Copy a region with recording code.

    Parameters
    ----------
    region : Region
        What to copy.
    context : int
        Address of the context page (:mod:`~perfkit.collectors.tracer.emit`); of several threads, of the page that they
        share, behind which their own lie.
    address : int
        Where the clone will lie, within 2 GB of the original.
    plain : dict
        Address of an uninstrumented copy of each entry, by where it lies itself, for calls that are not traced.
    tables : list of (start, size, address)
        For every function, the table that maps offsets of its code to offsets in the clone (32-bit, 0: none).
    threads : bool
        Whether to record every thread.
    late : bool
        Whether recording begins in the middle of a call: no register holds then what the entry would have put there.
    unwinds : bool
        Whether exceptions may pass calls that are not recorded: their return addresses must stay what they are.
    """
    free: list[int] = [Register.NONE] * 3
    if not threads and not late:  # else calls within calls must find everything in memory
        free = [*free_registers(region), *free]
    e = Emitter(context, address=free[0], scratch=free[1], block=free[2], threads=threads)
    thunk = e.new_label()
    doors = [entry.Door(f.start + _MOVED, plain[f.start], e.new_label()) for f in region.entries]
    if threads:
        roles = [
            replace(door, opens=region.opens and not k, gated=region.opens and k > 0) for k, door in enumerate(doors)
        ]
        entry.many_threads(e, roles, context + 4096, unwinds)
    else:
        e.label(doors[0].label)
        entry.one_thread(e, doors[0].start, doors[0].plain, unwinds)
    if region.has_lookups:
        e.label(thunk)
        dispatch.dispatcher(e, tables, address)
    for number, block in enumerate(region.blocks):
        e.label(block.instructions[0].ip + _MOVED)
        e.block_head(number, block.slots)
        _body(e, region, block, thunk)
    code = encoded(e.out, address)
    copies = list(Decoder(64, code, ip=address))
    if len(copies) != len(e.out):
        raise Refused("its branches reach farther than a copy can")
    places = {made.ip: copy.ip for made, copy in zip(e.out, copies, strict=True) if made.ip}
    begins = [block.instructions[0].ip for block in region.blocks]
    stubs = {f.start: places[door.label] for f, door in zip(region.entries, doors, strict=True)}
    return Clone(address, code, {ip: places[ip + _MOVED] for ip in begins}, stubs)


def plain_copy(region: Region, function: Function, address: int, *, unwinds: bool = False) -> bytes:
    """Copy an entry function without recording code: the original's first bytes will be overwritten.

    It calls itself, not the original: the encoder moves calls of a code's own first instruction with it.
    All of it; only the `beginning` where exceptions may pass the function (`unwinds`): no table tells how to unwind
    what is copied.
    """
    code = region.instructions(function)
    return encoded(beginning(function, code) if unwinds else [i.copy() for i in code], address)


def beginning(entry: Function, code: list[Instruction]) -> list[Instruction]:
    """Return what runs a function whose first bytes are patched: these instructions, and a jump to the others.

    Where branches come back into the first ones, all of it. A call among them returns to the original.
    """
    end = next(i.next_ip for i in code if i.next_ip >= entry.start + 5)
    branches = [i for i in code if i.is_jcc_short_or_near or i.is_jmp_short_or_near]
    if any(entry.start <= i.near_branch_target < end for i in branches):
        return [i.copy() for i in code]
    first = [i.copy() for i in code[: sum(i.ip < end for i in code)]]
    if first[-1].is_call_near or _is_plain_indirect(first[-1]):
        return [*first[:-1], *_called_for(first[-1])]
    return [*first, Instruction.create_branch(Code.JMP_REL32_64, end)]


def _is_plain_indirect(call: Instruction) -> bool:
    """Whether it calls what a register or a fixed place points to (-fno-plt), whatever the stack pointer is."""
    return bool(call.is_call_near_indirect and (call.is_ip_rel_memory_operand or call.op0_kind == OpKind.REGISTER))


def _called_for(call: Instruction) -> list[Instruction]:
    """Return what calls a function so that it returns to where the call itself does, in the original."""
    low, high = struct.unpack("<2i", struct.pack("<Q", call.next_ip))
    top, above = (MemoryOperand(Register.RSP, displ=at, displ_size=1) for at in (0, 4))
    if call.is_call_near:
        there = Instruction.create_branch(Code.JMP_REL32_64, call.near_branch_target)
    elif call.is_ip_rel_memory_operand:
        place = MemoryOperand(Register.RIP, displ=call.ip_rel_memory_address, displ_size=8)
        there = Instruction.create_mem(Code.JMP_RM64, place)
    else:
        there = Instruction.create_reg(Code.JMP_RM64, call.op0_register)
    return [
        Instruction.create_reg_mem(Code.LEA_R64_M, Register.RSP, MemoryOperand(Register.RSP, displ=-8, displ_size=1)),
        Instruction.create_mem_i32(Code.MOV_RM32_IMM32, top, low),
        Instruction.create_mem_i32(Code.MOV_RM32_IMM32, above, high),
        there,
    ]


def encoded(instructions: list[Instruction], address: int) -> bytes:
    """Return the machine code of instructions, placed at an address."""
    encoder = BlockEncoder(64)
    encoder.add_many(instructions)
    try:
        return bytes(encoder.encode(address))
    except ValueError as error:
        raise Refused(f"it cannot be encoded anew ({error})") from error


def _body(e: Emitter, region: Region, block: ClonedBlock, thunk: int) -> None:
    """Copy a block's instructions, each after the recording of its accesses."""
    behind = -8 * block.slots
    opens = region.opens and block.function == region.entry.name
    for i, each in zip(block.instructions, block.accesses, strict=True):
        strings = []
        for access in each:
            e.before(access, behind)
            if access.kind is Kind.STRING:
                strings.append((access, behind))
            behind += 8 * access.slots
        # What lies between two calls of the function that starts the threads' loops is a phase of the program.
        begins_phase = opens and i.flow_control in _CALLS
        if begins_phase:
            e.locked(Code.INC_RM64, e.shared(entry.PHASE))
        if i.flow_control in _INDIRECT:
            dispatch.indirect(e, i, thunk)
        else:
            e.add(_copy(i, region))
        if begins_phase:
            e.locked(Code.INC_RM64, e.shared(entry.PHASE))
        if strings:
            e.after_string(strings)


def _copy(i: Instruction, region: Region) -> Instruction:
    """Copy an instruction; a branch to a place in the region goes to that place's copy."""
    copy = i.copy()
    direct = i.flow_control in _BRANCHES or i.flow_control == FlowControl.CALL
    if direct and i.near_branch_target and region.owner(i.near_branch_target):
        copy.near_branch64 = i.near_branch_target + _MOVED
    return copy
