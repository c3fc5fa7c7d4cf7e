"""A trace's static instructions with their costs on a core, as the flat arrays that the simulator's loop reads.

Latencies are split by operand (the page's correction of Algorithm 1): register operands wait for the form's latency,
the memory operand for the load and then for what remains; the ports of address generation and of stores hold back the
access, the others the computation. Macro-fused pairs are one uop; eliminated moves and zero idioms take no port and
wait for nothing; micro-fused uops with an index register come apart where the core's file says so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from perfkit.decode import decode, form_name, is_vector
from perfkit.instruction_tables import InstructionTables
from perfkit.microarchitecture import TICKS_PER_CYCLE, InstructionForm, Microarchitecture
from perfkit.trace import StaticCode

if TYPE_CHECKING:
    from iced_x86 import Instruction

REGISTERS = 72  # 16 general, 32 vector, 8 mask, carry, the other flags, 8 x87/MMX, and room
_CARRY, _FLAGS = 56, 57


@dataclass(frozen=True)
class Program:
    """Costs of a static code on a core; ``n`` instructions, ``u`` uses of ports.

    Parameters
    ----------
    forms : tuple of InstructionForm, length n
        What each instruction costs, before fusion and elimination.
    uops : (n,) int64
        Slots at rename and retirement.
    latency, memory_latency : (n,) float64
        Cycles from the last register operand, and from the loaded data, to the result.
    address_latency : (n,) float64
        Cycles from the address to the loaded data, in L1.
    vector : (n,) bool
        Whether loads go to a vector register.
    fused : (n,) bool
        Instructions that are one uop with the conditional jump after them.
    address_reads, data_reads, writes : (offsets (n + 1,), registers) int32
        Registers that the address waits for, that the computation waits for, and that are written.
    access_uses, compute_uses : (offsets (n + 1,), port group, uops)
        Uses of port groups that hold back the access to memory and the computation.
    ports : tuple of str
        The core's port groups, in the order that uses number them.
    """

    forms: tuple[InstructionForm, ...]
    uops: NDArray[np.int64]
    latency: NDArray[np.float64]
    memory_latency: NDArray[np.float64]
    address_latency: NDArray[np.float64]
    vector: NDArray[np.bool_]
    fused: NDArray[np.bool_]
    address_reads: tuple[NDArray[np.int32], NDArray[np.int32]]
    data_reads: tuple[NDArray[np.int32], NDArray[np.int32]]
    writes: tuple[NDArray[np.int32], NDArray[np.int32]]
    access_uses: tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float64]]
    compute_uses: tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float64]]
    ports: tuple[str, ...]

    @classmethod
    def of(cls, code: StaticCode, core: Microarchitecture, tables: InstructionTables | None = None) -> Program:
        """Decode a trace's static code and look its instructions up in the core's tables."""
        tables = tables if tables is not None else InstructionTables.load(core)
        instructions = decode(code)
        forms = [tables.form(form_name(instruction)) for instruction in instructions]
        memory_ports = _memory_ports(tables)
        drafts = [_Draft.of(i, f, core, memory_ports) for i, f in zip(instructions, forms, strict=True)]
        fused = _fuse(drafts, instructions, code, core)
        ports = tuple(core.ports)
        number = {name: index for index, name in enumerate(ports)}
        return cls(
            tuple(forms),
            np.array([draft.uops for draft in drafts], np.int64),
            np.array([draft.latency for draft in drafts], np.float64),
            np.array([draft.memory_latency for draft in drafts], np.float64),
            np.array([draft.address_latency for draft in drafts], np.float64),
            np.array([draft.vector for draft in drafts], np.bool_),
            fused,
            _ragged([draft.address_reads for draft in drafts]),
            _ragged([draft.data_reads for draft in drafts]),
            _ragged([draft.writes for draft in drafts]),
            _uses([draft.access_uses for draft in drafts], number),
            _uses([draft.compute_uses for draft in drafts], number),
            ports,
        )

    def port_uses(self) -> NDArray[np.float64]:
        """Return uops of every instruction on every port group, shape (n, ports)."""
        total = np.zeros((len(self.uops), len(self.ports)))
        for offsets, ports, counts in (self.access_uses, self.compute_uses):
            rows = np.repeat(np.arange(len(self.uops)), np.diff(offsets))
            np.add.at(total, (rows, ports), counts)
        return total

    def needed_ports(self, capacities: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Say which port groups can hold anything back, shape (ports,); capacities of shape (lanes, ports).

        A group never holds an instruction back if some other one takes at least as long for every instruction of the
        program, in every lane: its availability never overtakes the other's. Leaving it out changes no result.
        """
        uses = self.port_uses()
        needed = np.array(uses.any(axis=0), dtype=np.bool_)
        access = np.zeros_like(uses, dtype=bool)
        access[np.repeat(np.arange(len(uses)), np.diff(self.access_uses[0])), self.access_uses[1]] = True
        for port in np.argsort(-capacities[0], kind="stable"):
            for other in np.flatnonzero(needed):
                if other == port or not needed[port] or (access[:, port] & ~access[:, other]).any():
                    continue
                if (access[:, other] & ~access[:, port] & (uses[:, port] > 0)).any():
                    continue
                times = (
                    uses[:, None, port] / capacities[None, :, port] <= uses[:, None, other] / capacities[None, :, other]
                )
                if times.all():
                    needed[port] = False
        return needed


@dataclass
class _Draft:
    """One instruction's costs while fusion is still to come."""

    uops: float
    latency: float
    memory_latency: float
    address_latency: float
    vector: bool
    address_reads: list[int]
    data_reads: list[int]
    writes: list[int]
    access_uses: dict[str, float]
    compute_uses: dict[str, float]

    @classmethod
    def of(
        cls, instruction: Instruction, form: InstructionForm, core: Microarchitecture, memory_ports: frozenset[str]
    ) -> _Draft:
        address, data, writes = _registers(instruction, form)
        access = {name: count for name, count in form.uses.items() if name in memory_ports}
        compute = {name: count for name, count in form.uses.items() if name not in memory_ports}
        latency, uops = form.latency, form.fused_uops
        if not (form.loads or form.stores):
            access, compute = {}, dict(form.uses)
        if form.loads and not data and not compute:
            latency = 0.0  # nothing but the loaded data decides when the result is there
        if _is_idiom(form):
            data = []
        if core.feature("move_elimination", False) and _is_register_move(instruction, form):
            latency, compute = 0.0, {}
        if instruction.is_stack_instruction and not core.name.startswith("zen"):
            # The stack engine updates RSP before rename; LLVM's Intel models give it a uop.
            removed = max(0.0, sum(1.0 for name in ("p0156", "p015") if name in compute and len(compute) == 1))
            if removed and instruction.op_count == 1:
                compute, uops = {}, max(uops - 1, 1.0)
        uops += _unlaminated(instruction, form, core)
        return cls(
            uops=max(round(uops), 0),
            latency=latency,
            memory_latency=form.memory_latency if form.loads else 0.0,
            address_latency=form.address_latency if form.loads else 0.0,
            vector=is_vector(form.name),
            address_reads=address,
            data_reads=data,
            writes=writes,
            access_uses=access,
            compute_uses=compute,
        )


def _iced() -> Any:
    import iced_x86

    return iced_x86


def _memory_ports(tables: InstructionTables) -> frozenset[str]:
    """Return the port groups of plain loads and stores: those that hold back an access, not a computation."""
    plain = ("MOV_R64_RM64/m", "MOV_RM64_R64/m", "VEX_VMOVUPS_XMM_XMMM128/m", "VEX_VMOVUPS_XMMM128_XMM/m")
    found: set[str] = set()
    for form in plain:
        found |= set(tables.form(form).uses)
    return frozenset(found)


def _number(register: int) -> int:
    """Return the number of the architectural register that a register is part of; -1 for those not followed."""
    iced = _iced()
    r = iced.Register
    full = iced.RegisterInfo(register).full_register
    if r.RAX <= full <= r.R15:
        return int(full - r.RAX)
    if r.ZMM0 <= full <= r.ZMM31:
        return int(16 + full - r.ZMM0)
    if r.K0 <= full <= r.K7:
        return int(48 + full - r.K0)
    if r.ST0 <= full <= r.ST7:
        return int(58 + full - r.ST0)
    if r.MM0 <= full <= r.MM7:
        return int(58 + full - r.MM0)
    return -1


def _registers(instruction: Instruction, form: InstructionForm) -> tuple[list[int], list[int], list[int]]:
    """Return the registers that the address needs, that the computation needs, and that are written."""
    iced = _iced()
    a = iced.OpAccess
    reading = (a.READ, a.COND_READ, a.READ_WRITE, a.READ_COND_WRITE)
    writing = (a.WRITE, a.COND_WRITE, a.READ_WRITE, a.READ_COND_WRITE)
    info = iced.InstructionInfoFactory().info(instruction)
    touches_memory = form.loads or form.stores
    in_address = {_number(m.base) for m in info.used_memory()} | {_number(m.index) for m in info.used_memory()}
    in_address = (in_address - {-1}) if touches_memory else set()
    explicit = {
        _number(instruction.op_register(index))
        for index in range(instruction.op_count)
        if instruction.op_kind(index) == iced.OpKind.REGISTER and info.op_access(index) in reading
    }
    data: set[int] = set()
    writes: set[int] = set()
    for used in info.used_registers():
        number = _number(used.register)
        if number < 0:
            continue
        if used.access in reading and (number not in in_address or number in explicit):
            data.add(number)
        if used.access in writing:
            writes.add(number)
            partial = iced.RegisterInfo(used.register).size < 4 and number < 16
            if partial or used.access in (a.COND_WRITE, a.READ_COND_WRITE):
                data.add(number)  # the rest of the register stays: the write merges
    if instruction.is_stack_instruction:
        stack = _number(iced.Register.RSP)
        in_address.discard(stack)  # the stack engine knows RSP at rename
        data.discard(stack)
        writes.discard(stack)
    carry = iced.RflagsBits.CF
    if instruction.rflags_read & carry:
        data.add(_CARRY)
    if instruction.rflags_read & ~carry:
        data.add(_FLAGS)
    if instruction.rflags_modified & carry:
        writes.add(_CARRY)
    if instruction.rflags_modified & ~carry:
        writes.add(_FLAGS)
    return sorted(in_address), sorted(data), sorted(writes)


_IDIOMS = re.compile(r"V?(P?XOR[DQ]?|XORP[SD]|P?SUB[BWDQ]?|PSUBU?S[BW]|PCMPEQ[BWDQ]|PCMPGT[BWDQ]|PANDN|ANDNP[SD])_")


def _is_idiom(form: InstructionForm) -> bool:
    """Say whether the result does not depend on the operands (x xor x, x == x)."""
    name = form.name.removeprefix("VEX_").removeprefix("EVEX_")
    return form.name.endswith("/same") and _IDIOMS.match(name) is not None


_MOVES = re.compile(r"(MOV_R(M?)(32|64)_R(M?)(32|64)|V?MOV(AP[SD]|UP[SD]|DQ[AU](32|64|8|16)?))(_|$)")


def _is_register_move(instruction: Instruction, form: InstructionForm) -> bool:
    name = form.name.removeprefix("VEX_").removeprefix("EVEX_")
    plain = "/" not in form.name and _MOVES.match(name) is not None
    return plain and instruction.op0_register != instruction.op1_register


def _unlaminated(instruction: Instruction, form: InstructionForm, core: Microarchitecture) -> float:
    """Return the slots that micro-fused uops with an index register take beyond one (0 or 1)."""
    iced = _iced()
    how = core.feature("unlamination", "none")
    if how == "none" or instruction.memory_index == iced.Register.NONE or form.unfused_uops < 2:
        return 0.0
    if not (form.loads or form.stores) or form.fused_uops >= form.unfused_uops:
        return 0.0
    if how == "indexed":
        return 1.0
    info = iced.InstructionInfoFactory().info(instruction)
    two_operands = instruction.op_count <= 2 and info.op0_access != iced.OpAccess.WRITE
    store = form.stores and not form.loads
    return 0.0 if two_operands or store else 1.0


# Instructions that fuse with a conditional jump after them, and the conditions they do not fuse with.
_FUSES = {
    "cmp-test": {"CMP": "SONP", "TEST": ""},
    "alu": {"CMP": "SONP", "TEST": "", "ADD": "SONP", "SUB": "SONP", "AND": "", "INC": "SONPABC", "DEC": "SONPABC"},
}
_CONDITIONS = {"O": "O", "NO": "O", "S": "S", "NS": "S", "P": "P", "NP": "P"}


def _fuse(
    drafts: Sequence[_Draft], instructions: Sequence[Instruction], code: StaticCode, core: Microarchitecture
) -> NDArray[np.bool_]:
    """Merge macro-fused pairs: the first of each takes no slot and no port, the jump does both."""
    fused = np.zeros(len(drafts), np.bool_)
    fusible = _FUSES.get(core.feature("macro_fusion", "none"), {})
    iced = _iced()
    names = {value: key for key, value in vars(iced.Mnemonic).items() if isinstance(value, int)}
    block = code.block
    for index in range(len(drafts) - 1):
        first, jump = instructions[index], instructions[index + 1]
        if block[index] != block[index + 1] or jump.flow_control != iced.FlowControl.CONDITIONAL_BRANCH:
            continue
        condition = names[jump.mnemonic].removeprefix("J")
        refused = fusible.get(names[first.mnemonic])
        if refused is None or not jump.is_jcc_short_or_near or _refuses(refused, condition):
            continue
        if drafts[index].access_uses and _has_immediate(first):
            continue  # memory and immediate together do not fuse
        draft = drafts[index]
        draft.uops = max(draft.uops - 1, 0)
        draft.compute_uses = {}
        fused[index] = True
    return fused


def _refuses(refused: str, condition: str) -> bool:
    if condition in _CONDITIONS:
        return _CONDITIONS[condition] in refused and "N" in refused
    carries = condition in ("A", "AE", "B", "BE", "NA", "NB")
    return carries and "C" in refused


def _has_immediate(instruction: Instruction) -> bool:
    iced = _iced()
    kinds = [instruction.op_kind(index) for index in range(instruction.op_count)]
    return any(iced.OpKind.IMMEDIATE8 <= kind <= iced.OpKind.IMMEDIATE32TO64 for kind in kinds)


def _ragged(rows: Sequence[Sequence[int]]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    offsets = np.concatenate(([0], np.cumsum([len(row) for row in rows]))).astype(np.int32)
    return offsets, np.array([item for row in rows for item in row], np.int32)


def _uses(
    rows: Sequence[dict[str, float]], number: dict[str, int]
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float64]]:
    offsets, ports = _ragged([[number[name] for name in row] for row in rows])
    return offsets, ports, np.array([count for row in rows for count in row.values()], np.float64)


def ticks(cycles: NDArray[np.float64] | float) -> Any:
    """Return cycles as whole ticks (see `TICKS_PER_CYCLE`)."""
    return np.rint(np.asarray(cycles) * TICKS_PER_CYCLE).astype(np.int64)
