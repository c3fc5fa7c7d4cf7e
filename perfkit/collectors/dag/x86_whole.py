"""Every instruction of an x86-64 trace as nodes of a DAG: what `trace_dag(..., whole=True)` makes of it.

An instruction is a load for each operand that it reads from memory, one operation (floating-point arithmetic, a branch,
or other work, I), and a store for each operand that it writes. Values live in full registers, one slot each, flags in
another. What rename does alone takes a slot of fetch and no unit: moves between registers, idioms that clear a
register, NOPs. A comparison and the jump after it are one branch.
"""

from __future__ import annotations

import math
import re
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from perfkit.collectors.dag.ir_costs import Division, IrCosts, scaled_index, stores_by_units, two_flags
from perfkit.collectors.dag.vector_units import vector_units
from perfkit.collectors.dag.x86_operations import BRANCH_RESULT, STEP, X86Block, accessed, arithmetic, shape_of
from perfkit.dag.doubts import (
    CALLS,
    DOUBLE_PRODUCTS,
    GATHERS,
    GUESSED,
    PRODUCTS,
    SLOWER,
    SPLIT,
    STRINGS,
    SYSTEM_CALLS,
    UNITS,
    WAITING,
    WIDE_DIVISIONS,
    X87,
)
from perfkit.dag.program import (
    ADD,
    BRANCH,
    DIVIDE,
    DIVISION,
    FORWARD,
    FORWARDED_LOAD,
    FUSED,
    HOLD,
    INTEGER,
    JOIN,
    LOAD,
    MULTIPLY,
    OTHER,
    SQUARE_ROOT,
    STORE,
    VECTOR,
)
from perfkit.machine.forms import string_form
from perfkit.trace.code import StaticCode
from perfkit.trace.x86 import decode, form_name, operand_registers

if TYPE_CHECKING:
    from perfkit.machine.core import Microarchitecture

_MOVE = re.compile(r"^(?:MOV|V?MOV[AU]P[SD]|V?MOVDQ[AU](?:8|16|32|64)?)$")
# The instructions whose latencies are those of the node types, as the scheduler's core takes them.
_USUAL = {
    ADD: "ADDSD_XMM_XMMM64",
    MULTIPLY: "MULSD_XMM_XMMM64",
    DIVIDE: "DIVSD_XMM_XMMM64",
    FUSED: "VEX_VFMADD231SD_XMM_XMM_XMMM64",
    INTEGER: "ADD_R64_RM64",
    BRANCH: "ADD_R64_RM64",
}
_NOTHING = re.compile(r"^(?:NOP|ENDBR64|FNOP|PAUSE|PREFETCH\w*|VZEROUPPER|LFENCE|SFENCE|MFENCE)$")
_FUSES = re.compile(r"^(?:CMP|TEST|ADD|SUB|AND|INC|DEC)$")
_VECTOR = re.compile(r"[XYZ]MM\d+$")
_TWO_FLAGS = re.compile(r"^CMOV(?:L|LE|G|GE|A|BE)$")
_DIVIDES = re.compile(r"^I?DIV$")
_MULTIPLIES = re.compile(r"^(?:I?MUL|MULX)$")
_PRODUCT = "IMUL_R64_RM64"
_PADS = ("ENDBR64", "ENDBR32")
_SYSTEM = ("SYSCALL", "SYSENTER", "INT")
# Cycles, fewer than any core takes of each: measured on a Zen 4 LFENCE 19, MFENCE 58, PAUSE 88, CLFLUSH 1,000, RDTSCP
# and RDRAND more than 30 and 300, PCMPISTRI 7 more than it is simulated with.
LEAST_WAITS = {"LFENCE": 8, "MFENCE": 20, "CPUID": 100, "SERIALIZE": 50, "PAUSE": 30, "CLFLUSH": 50, "CLFLUSHOPT": 20}
LEAST_WAITS |= {"XCHG": 6, "CMPXCHG16B": 6, "LDMXCSR": 10}  # with memory: 17, 12 and 25 with a store before it
LEAST_WAITS |= {"CLWB": 20, "RDTSCP": 20, "RDRAND": 100, "RDSEED": 100, "XGETBV": 10, "RDPMC": 10}
LEAST_WAITS |= dict.fromkeys(("PCMPISTRI", "PCMPISTRM", "PCMPESTRI", "PCMPESTRM"), 4)
LEAST_WAITS |= {"MASKMOVDQU": 10, "MASKMOVQ": 10}  # 17
"""Cycles that instructions which wait for others take at least, beyond those they are simulated with."""
_PAST = re.compile(r"^V?MOVNT(?!DQA)|^MOVNTS")
_ROTATES = re.compile(r"^RC[LR]$")
_MASKED = re.compile(r"^V(?:MASKMOVP|PMASKMOV)")
_ATOMIC = re.compile(r"^(?:ADD|SUB|AND|OR|XOR|INC|DEC)$")
_BITS = re.compile(r"^BT[SRC]?$")
_STRINGS = ("MOVS", "STOS", "CMPS", "SCAS", "LODS")
_WIDTHS = ("EVEX_VADDPD_ZMM_K1Z_ZMM_ZMMM512B64_ER", "VEX_VADDPD_YMM_YMM_YMMM256")
_STACK_POINTER = "RSP"
_POINTERS = ("RSI", "RDI")
_OVERFLOW = "overflow"  # the flag that ADOX carries, in code with ADOX
_LOCKED = "atomic"  # the slot of the last atomic instruction
_EARLY = " to an addition"
_ADDITION = re.compile(r"^V?(?:ADD|SUB)[PS][SD]$")
_RENAMED = re.compile(r"^(?:MOV|POP|CMOV\w+)$")  # whose loads a core renames that learns moves alone
# Cycles of integer work beyond one, where no core's table says more: as in the LLVM front end.
_SLOW = (
    (re.compile(r"^I?MUL"), 2),
    (re.compile(r"^V?CVT"), 3),
    (re.compile(r"^V?PMUL|^V?PMADD"), 4),
    (re.compile(r"^V?PERM|^V?EXTRACT|^V?INSERT|^V?BROADCAST|^V?PBROADCAST"), 2),
)


class WholeReader:
    """Reads instructions into operations on slots: one per register, then temporaries.

    Parameters
    ----------
    code
        The trace's instructions.
    core
        Whose table gives latencies; None: those of all recent cores' integer units.
    """

    def __init__(self, code: StaticCode, core: Microarchitecture | None) -> None:
        import iced_x86

        self.iced, self.code = iced_x86, code
        self.instructions = decode(code)
        self.names = {v: k for k, v in vars(iced_x86.Mnemonic).items() if isinstance(v, int)}
        self.registers = {v: k for k, v in vars(iced_x86.Register).items() if isinstance(v, int)}
        self.factory = iced_x86.InstructionInfoFactory()
        self.known: dict[str, int] = {}
        self.slots = 0
        self.early: dict[int, int] = {}  # of a delayed sum its slot before the delay
        self.tables: Any = None
        self.forms: dict[str, Any] = {}
        self.costs = IrCosts.of(core)
        self.usual: dict[int, int] = {}
        self.forwards = bool(core is not None and core.features.get("add_forwarding"))
        self.scaled = 0 if core is None else scaled_index(core)
        self.stores_by_units = core is not None and stores_by_units(core)
        self.two_flags = 0 if core is None else two_flags(core)
        self.moves = core is not None and core.feature("memory_renaming", "none") == "learned by moves"
        self.merges = core is None or str(getattr(core.features.get("macro_fusion"), "value", "alu")) != "none"
        if core is not None:
            from perfkit.machine.instruction_tables import InstructionTables

            self.tables = InstructionTables.load(core)
            self.usual = {code: round(self.tables.form(form).latency) for code, form in _USUAL.items()}
            if self.forwards:
                self.usual[ADD] = round(
                    self.tables.form(_USUAL[ADD]).latency - float(core.features["add_forwarding"].value)
                )

    def counts(self, runs: Any) -> dict[str, str]:
        """Return how often instructions were executed that the DAG knows too little of (`perfkit.dag.doubts`)."""
        kinds = [CALLS, STRINGS, SPLIT, GATHERS, WIDE_DIVISIONS, PRODUCTS, DOUBLE_PRODUCTS, SYSTEM_CALLS, WAITING]
        found = dict.fromkeys([*kinds, X87, SLOWER, GUESSED], 0)
        repeats = {i for i, one in enumerate(self.instructions) if one.has_rep_prefix or one.has_repne_prefix}
        for k, times in enumerate(runs.tolist()):
            for i in range(int(self.code.block_start[k]), int(self.code.block_start[k + 1])):
                one = self.instructions[i]
                found[CALLS] += times * (one.flow_control == self.iced.FlowControl.RETURN)
                found[STRINGS] += times * (i in repeats and self.names[one.mnemonic].startswith(_STRINGS))
                found[GATHERS] += times * ("GATHER" in self.names[one.mnemonic])
                found[WIDE_DIVISIONS] += times * bool(self.divides(i) and "RM64" in form_name(one))
                found[PRODUCTS] += times * (self.one_multiplier and bool(_MULTIPLIES.match(self.names[one.mnemonic])))
                found[SYSTEM_CALLS] += times * (self.names[one.mnemonic] in _SYSTEM)
                found[WAITING] += times * self.waits(one)
                found[SLOWER] += times * self.slower(i)
                found[DOUBLE_PRODUCTS] += times * self.keeps_others(i)
                found[GUESSED] += times * self.guessed(i)
                found[X87] += times * bool(self.stacked & set(one.cpuid_features()))
                found[SPLIT] += times * (self.splits and "_ZMM" in form_name(one))
        found[UNITS] = round(self.busiest(runs))
        return {name: str(count) for name, count in found.items()}

    def form(self, i: int) -> Any:
        """Return what the core's table says of an instruction; of strings that it guesses, what was measured."""
        name = form_name(self.instructions[i])
        if name not in self.forms:  # a large program has thousands of instructions, of tens of forms
            found = self.tables.form(name)
            self.forms[name] = string_form(found, self.tables.core) if found.is_guessed_string else found
        return self.forms[name]

    def busiest(self, runs: Any) -> float:
        """Return the cycles that the instruction table's busiest group of units needs.

        Divisions are left out, whose time depends on what is divided, and moves and idioms, which rename does alone.

        A DAG has units by type of node, a core by instruction: of some of them it takes any.
        """
        if self.tables is None:
            return 0.0
        times = np.repeat(np.asarray(runs), np.diff(self.code.block_start))
        needed: dict[str, float] = {}
        for i, one in enumerate(self.instructions):
            name = self.names[one.mnemonic]
            moves = (
                bool(_NOTHING.match(name))
                or self.clears(one)
                or (bool(_MOVE.match(name)) and not form_name(one).endswith("/m"))
            )
            if times[i] and not moves and not self.divides(i) and arithmetic(name) != DIVIDE:
                for group, uses in self.form(i).uses.items():
                    needed[group] = needed.get(group, 0.0) + uses * float(times[i])
        core = self.tables.core
        return max((uses * core.resource(group).inverse_throughput for group, uses in needed.items()), default=0.0)

    def waits(self, one: Any) -> int:
        """Return the cycles that an instruction takes at least beyond those it is simulated with."""
        name = self.names[one.mnemonic]
        return 0 if name == "XCHG" and not self.accesses(one) else LEAST_WAITS.get(name, 0)

    @cached_property
    def overflows(self) -> bool:
        """Whether the code adds with the overflow flag as a carry."""
        return any(self.names[one.mnemonic] == "ADOX" for one in self.instructions)

    @cached_property
    def stacked(self) -> set[int]:
        """Return the features of the x87 unit."""
        return {value for name, value in vars(self.iced.CpuidFeature).items() if name.startswith("FPU")}

    @cached_property
    def one_multiplier(self) -> bool:
        """Whether one of the core's integer units multiplies."""
        if self.tables is None:
            return False
        uses = self.tables.form(_PRODUCT).uses
        return any(used >= 1 and len(self.tables.core.resource(group).units) == 1 for group, used in uses.items())

    @property
    def past_caches(self) -> list[bool]:
        """Whether each instruction stores past the caches."""
        return [bool(_PAST.match(self.names[one.mnemonic])) for one in self.instructions]

    def slower(self, i: int) -> int:
        """Return the cycles that an instruction takes at least beyond those it is simulated with, of short ones."""
        one = self.instructions[i]
        name = self.names[one.mnemonic]
        if _ROTATES.match(name):  # a Zen 4: 4 and 3 cycles; other cores' tables have as many
            return max(0, 2 - self.delay(i, INTEGER)) if "_IMM" in form_name(one) else 0
        if _MASKED.match(name):  # 6 cycles, whatever its size, for some 3.7
            return 2 * self.stored(i)
        if _BITS.match(name):  # of a bit that a register names: which word is not recorded
            return 2 * (self.accesses(one) and "_IMM" not in form_name(one))
        if name == "LEA" and "/m3" in form_name(one):  # a Zen 4: 2 cycles from its base, and 1 from its index
            used = {self.full(one.op0_register), self.full(one.memory_index)}  # x = x + i + 7, y = 5 * x + 7
            told = self.tables is not None and bool(self.form(i).operand_latency)
            return int(self.full(one.memory_base) in used and not told and not self.delay(i, INTEGER))
        if one.has_lock_prefix and _ATOMIC.match(name):  # 6 cycles to one place, 7.5 to others, 8.7 behind a store
            return 2
        return int(name == "XADD" and self.stored(i) and not one.has_lock_prefix)

    def keeps_others(self, i: int) -> int:
        """Return for how many cycles a multiplication keeps more of the core's units than its operations need."""
        if self.tables is None or not _MULTIPLIES.match(self.names[self.instructions[i].mnemonic]):
            return 0
        form, core = self.form(i), self.tables.core
        return int(form.inverse_throughput(core) >= 1 and max(form.uses.values(), default=0) >= form.unfused_uops + 3)

    def stored(self, i: int) -> bool:
        """Whether an instruction stores."""
        return bool(self.code.write[self.code.operand_start[i] : self.code.operand_start[i + 1]].any())

    def guessed(self, i: int) -> int:
        """Return the cycles that the core's table guesses of an instruction of microcode; 0 where it knows more."""
        form = self.form(i) if self.tables is not None else None
        rep = self.instructions[i].has_rep_prefix or self.instructions[i].has_repne_prefix
        idle = rep or self.names[self.instructions[i].mnemonic] in (*_PADS, *LEAST_WAITS)
        return 0 if form is None or idle or not form.is_guessed else round(form.latency)

    @cached_property
    def splits(self) -> bool:
        """Whether the core runs operations of 512 bits in two passes."""
        if self.tables is None:
            return False
        whole, half = (self.tables.form(name).inverse_throughput(self.tables.core) for name in _WIDTHS)
        return bool(whole >= 1.5 * half)

    def slot(self, name: str) -> int:
        """Return the slot of a register."""
        return self.known.setdefault(name, self.new_slot()) if name not in self.known else self.known[name]

    def new_slot(self) -> int:
        """Return a new temporary slot."""
        self.slots += 1
        return self.slots - 1

    def block(self, number: int) -> X86Block:
        """Return the operations of a basic block."""
        block = X86Block()
        first, end = (int(self.code.block_start[number + k]) for k in (0, 1))
        begin = int(self.code.operand_start[first])
        merged = self.merged(end - 1) if end - first > 1 else -1
        for i in range(first, end):
            before = len(block.ops)
            self.instruction(i, begin, block, merged)
            self.join(block, before)
            for _ in range(self.further_slots(i) if i != merged else 0):
                block.add(OTHER, -1, -1, -1)
            block.covered += any(op[0] not in (FORWARD, HOLD, OTHER, JOIN) for op in block.ops[before:]) or i == merged
        return block

    def further_slots(self, i: int) -> int:
        """Return how many slots of fetch and of the reorder buffer an instruction takes beyond its first."""
        if self.tables is None:
            return 0
        one = self.instructions[i]
        # Landing pads are decoded as other NOPs are, and not by microcode as what tables do not have.
        uops = 1 if self.names[one.mnemonic] in _PADS else self.form(i).fused_uops
        return 0 if math.isnan(uops) else max(0, round(uops) - 1)

    def write(self, registers: list[str], value: int, block: X86Block) -> None:
        """Give registers a value; vector registers also what an addition gets, where a core forwards that earlier."""
        for register in registers:
            block.add(FORWARD, value, -1, self.slot(register))
            if self.forwards and register.startswith("ZMM"):
                block.add(FORWARD, self.early.get(value, value), -1, self.slot(register + _EARLY))

    def join(self, block: X86Block, before: int) -> None:
        """Let the nodes of an instruction share its slot."""
        nodes = [k for k in range(before, len(block.ops)) if block.ops[k][0] not in (FORWARD, HOLD, JOIN)]
        for k in reversed(nodes[1:]):
            block.ops.insert(k, (JOIN, -1, -1, -1, (1, 8), 0))

    def merged(self, last: int) -> int:
        """Return the comparison that a block's last jump is one operation with, -1 if there is none."""
        jump, before = self.instructions[last], self.instructions[last - 1]
        if not self.merges or jump.flow_control != self.iced.FlowControl.CONDITIONAL_BRANCH:
            return -1
        return last - 1 if _FUSES.match(self.names[before.mnemonic]) else -1

    def instruction(self, i: int, begin: int, block: X86Block, merged: int) -> None:
        """Add the operations of an instruction."""
        instruction = self.instructions[i]
        name = self.names[instruction.mnemonic]
        if _NOTHING.match(name):
            block.add(OTHER, -1, -1, -1)
            return
        operands = range(int(self.code.operand_start[i]), int(self.code.operand_start[i + 1]))
        if (instruction.has_rep_prefix or instruction.has_repne_prefix) and any(self.code.dynamic[o] for o in operands):
            self.repeated(operands, begin, block)
            return
        reads, writes = self.used(instruction, name)
        if instruction.is_string_instruction:  # its pointers move on beside it: the next one does not wait for that
            writes = [register for register in writes if register not in _POINTERS]
        address = self.address(instruction, block)
        shape = shape_of(self, name, instruction, operands)
        integer = not any(map(_VECTOR.match, writes))
        vector = any(map(_VECTOR.match, reads))
        stores = [o for o in operands if self.code.write[o]]
        renamed = not self.moves or (bool(stores) and not self.is_forwarded(i)) or bool(_RENAMED.match(name))
        loads = self.indexed(instruction, address, block) if any(self.code.read[o] for o in operands) else address
        kind = int(integer) * (FORWARDED_LOAD if not renamed else 1)
        loaded = [self.load(o, begin, shape, loads, kind, block) for o in operands if self.code.read[o]]
        added = self.forwards and bool(_ADDITION.match(name))
        sources = [self.slot(r + _EARLY if added and r.startswith("ZMM") else r) for r in reads]
        sources = self.waited_for(i, reads, sources, block)
        for _ in range(self.two_flags if _TWO_FLAGS.match(name) else 0):
            made = self.new_slot()
            block.add(INTEGER, sources[reads.index("FLAGS")], -1, made)
            sources[reads.index("FLAGS")] = made
        pure = not loaded and not stores
        if pure and writes and (_MOVE.match(name) or self.clears(instruction)):
            value = -1 if self.clears(instruction) else (sources[0] if sources else -1)
            self.write(writes, value, block)
            block.add(OTHER, -1, -1, -1)
            return
        locked = self.slot(_LOCKED) if self.locks(instruction) else -1
        if locked >= 0:
            sources.append(locked)
        held = any(map(_VECTOR.match, [*reads, *writes]))
        value = self.compute(
            i, name, [*sources, *loaded], bool(loaded), writes, bool(stores), shape, block, merged, held
        )
        self.write(writes, value, block)
        if locked >= 0:
            block.add(FORWARD, value, -1, locked)
        for o in stores:
            if self.stores_by_units and not vector and self.stored_by_unit(instruction):
                block.add(INTEGER, value, -1, -1)
            block.add(STORE, value, address, -1, accessed(self.code, o, shape), int(not vector))
            block.operands.append(o - begin)

    def waited_for(self, i: int, reads: list[str], sources: list[int], block: X86Block) -> list[int]:
        """Return the slots of an instruction's operands, later for those from which its result takes longer."""
        form = self.form(i) if self.tables is not None else None
        if form is None or not form.operand_latency or form.loads:
            return sources
        places = {operand: self.full(r) for operand, r in operand_registers(self.instructions[i]).items()}
        cycles = form.cycles_from({**places, "flags": "FLAGS"})
        found = []
        for register, source in zip(reads, sources, strict=True):
            later = round(cycles.get(register, form.latency) - form.latency)
            slot = self.new_slot() if later else source
            if later:
                block.add(FORWARD, source, -1, slot, (1, 8), later)
            found.append(slot)
        return found

    def repeated(self, operands: range, begin: int, block: X86Block) -> None:
        """Add a step of a string instruction to the block, and a block of one more step."""
        further = X86Block()
        for part in (block, further):
            count, value = self.slot("repeated step"), self.new_slot()
            part.add(INTEGER, count, -1, count)
            for o in sorted(operands, key=lambda o: bool(self.code.write[o])):
                if self.code.write[o]:
                    part.add(STORE, value, count, -1, (STEP // 8, 8))
                else:
                    part.add(LOAD, count, -1, value, (STEP // 8, 8))
                part.operands.append(o - begin)
        block.repeats.append(further)

    def compute(
        self,
        i: int,
        name: str,
        sources: list[int],
        loads: bool,
        writes: list[str],
        stores: bool,
        shape: tuple[int, int],
        block: X86Block,
        merged: int,
        vector: bool,
    ) -> int:
        """Add the operation of an instruction; return the slot of its result."""
        instruction = self.instructions[i]
        flow = self.iced.FlowControl
        plain_move = bool(_MOVE.match(name)) or (name.startswith(("MOV", "VMOV", "PUSH", "POP")) and (loads or stores))
        if plain_move or (name.startswith(("VBROADCAST", "VPBROADCAST")) and loads):
            return self.joined(sources, block) if sources else -1
        code = arithmetic(name)
        if instruction.flow_control != flow.NEXT:
            if instruction.flow_control == flow.UNCONDITIONAL_BRANCH:
                block.add(OTHER, -1, -1, -1)
                return -1
            code = BRANCH
        if i == merged:  # the jump does it, but its result is needed
            value = self.joined(sources, block)
            if any(register != "FLAGS" for register in writes):
                into = self.new_slot()
                block.add(FORWARD, value, -1, into, (1, 8), self.usual.get(INTEGER, 1))
                return into
            return value
        value = self.slot(BRANCH_RESULT) if code == BRANCH else self.new_slot()
        while len(sources) > 2:
            between = self.new_slot()
            block.add(FORWARD, sources.pop(), sources.pop(), between)
            sources.append(between)
        left, right = [*sources, -1, -1][:2]
        code = INTEGER if code < 0 else code
        if code == INTEGER and (busy := self.divides(i)):
            return self.divided(i, busy, [left, right], block)
        work, *further = self.units(i) if vector and code == INTEGER else [0]
        work = self.longer(i) if code == DIVIDE else work
        block.add(code, left, right, value, shape if code != BRANCH else (1, 8), work)
        for more in further:
            block.add(INTEGER, left, right, -1, shape, more)
        return value if code == BRANCH else self.delayed(value, i, code, block)

    def is_forwarded(self, i: int) -> bool:
        """Whether an update of memory gets what was stored before as forwarded, on a core that renames others'."""
        return not self.locks(self.instructions[i]) and bool(self.form(i).is_forwarded_update)

    def locks(self, one: Any) -> bool:
        """Whether an instruction is atomic: these come one after the other."""
        return bool(one.has_lock_prefix) or (self.names[one.mnemonic] == "XCHG" and self.accesses(one))

    def accesses(self, one: Any) -> bool:
        """Whether an operand of an instruction is in memory."""
        return self.iced.OpKind.MEMORY in [one.op_kind(k) for k in range(one.op_count)]

    def units(self, i: int) -> list[int]:
        """Return the units that integer work on vector registers takes, one for each of its operations."""
        return [VECTOR] if self.tables is None else vector_units(self.tables, form_name(self.instructions[i]))

    def longer(self, i: int) -> int:
        """Return what an instruction keeps the divider longer than a division of doubles, in parts of that one's time.

        Less than nothing for a shorter one, of single precision.
        """
        if self.tables is None:
            return SQUARE_ROOT if "SQRT" in self.names[self.instructions[i].mnemonic] else 0
        core = self.tables.core
        usual = self.tables.form(_USUAL[DIVIDE]).inverse_throughput(core)
        own = self.tables.form(form_name(self.instructions[i])).inverse_throughput(core)
        return round(DIVISION * (own / usual - 1)) if usual and not math.isnan(own) else 0

    def divides(self, i: int) -> int:
        """Return for how many cycles an instruction keeps the integer divider, which is not pipelined (0: none)."""
        return self.division(i).busy if _DIVIDES.match(self.names[self.instructions[i].mnemonic]) else 0

    def division(self, i: int) -> Division:
        """Return what a division of integers takes, by the size of its operand.

        Tables of operands in memory have other figures for the same divider (Zen 5: 12 cycles, not 6; Skylake: 4).
        """
        form = form_name(self.instructions[i])
        bits = re.search(r"RM(\d+)", form)
        return self.costs.division("sdiv" if form.startswith("I") else "udiv", f"i{bits[1]}" if bits else "i64")

    def divided(self, i: int, busy: int, sources: list[int], block: X86Block) -> int:
        """Add a division of integers, which takes the divider."""
        value = self.new_slot()
        known = [source for source in sources if source >= 0]
        operand = self.joined(known, block) if known else -1
        block.add(HOLD, -1, -1, -1, (1, 8), busy)
        block.add(INTEGER, operand, -1, value)
        return self.delayed(value, i, INTEGER, block)

    def joined(self, sources: list[int], block: X86Block) -> int:
        """Return a slot that is ready when all of these are."""
        if len(sources) == 1:
            return sources[0]
        value = self.new_slot()
        left, right = [*sources, -1, -1][:2]
        block.add(FORWARD, left, right, value)
        for more in sources[2:]:
            block.add(FORWARD, value, more, value)
        return value

    def delayed(self, value: int, i: int, code: int, block: X86Block) -> int:
        """Return the slot of a result when its instruction has it: after, or before, its type's latency."""
        delay = self.delay(i, code)
        if not delay:
            return value
        into = self.new_slot()
        block.add(FORWARD, value, -1, into, (1, 8), delay)
        if self.forwards and _ADDITION.match(self.names[self.instructions[i].mnemonic]):
            self.early[into] = value
        return into

    def delay(self, i: int, code: int) -> int:
        """Return the cycles that an instruction takes beyond its type's latency, below 0 for those that it takes less.

        Minima, maxima and comparisons take 1 or 2 cycles on AMD's cores, additions 3; divisions of floats less than of
        doubles.
        """
        instruction = self.instructions[i]
        if _DIVIDES.match(self.names[instruction.mnemonic]):
            return self.division(i).latency - 1
        if self.tables is None:
            if code != INTEGER:
                return 0
            name = self.names[instruction.mnemonic]
            return next((cycles for pattern, cycles in _SLOW if pattern.match(name)), 0)
        form = self.form(i)
        least = 0 if code in (INTEGER, BRANCH) else 1 - self.usual[code]
        return 0 if math.isnan(form.latency) else max(least, round(form.latency) - self.usual[code])

    # --- operands --------------------------------------------------------------------------------------------------

    def used(self, instruction: Any, name: str) -> tuple[list[str], list[str]]:
        """Return the registers that an instruction reads and writes, addresses apart."""
        access = self.iced.OpAccess
        read, written = [], []
        none = self.iced.Register.NONE
        inside = {instruction.memory_base, instruction.memory_index} - {none}
        lea = name == "LEA"
        operands = {
            instruction.op_register(k)
            for k in range(instruction.op_count)
            if instruction.op_kind(k) == self.iced.OpKind.REGISTER
        }
        for used in self.factory.info(instruction).used_registers():
            register = self.full(used.register)
            if register in ("", _STACK_POINTER):
                continue
            if used.register in inside and used.register not in operands and not lea and used.access == access.READ:
                continue
            if used.access in (access.READ, access.READ_WRITE, access.COND_READ, access.READ_COND_WRITE):
                read.append(register)
            if used.access in (access.WRITE, access.READ_WRITE, access.COND_WRITE, access.READ_COND_WRITE):
                written.append(register)
            if used.access == access.COND_WRITE:
                read.append(register)
        adds = name == "ADOX"
        if instruction.rflags_read and not adds:
            read.append("FLAGS")
        if instruction.rflags_modified and not adds:
            written.append("FLAGS")
        if self.overflows:  # whose carries are a chain beside those of ADCX
            read += [_OVERFLOW] * bool(instruction.rflags_read & self.iced.RflagsBits.OF)
            written += [_OVERFLOW] * bool(instruction.rflags_modified & self.iced.RflagsBits.OF)
        return list(dict.fromkeys(read)), list(dict.fromkeys(written))

    def full(self, register: Any) -> str:
        """Return the name of the whole register that one is part of; "" for those that are no values."""
        name = self.registers[self.iced.RegisterExt.full_register(register)]
        return "" if name in ("NONE", "RIP") or name.endswith("S") else name

    def address(self, instruction: Any, block: X86Block) -> int:
        """Return the slot that an instruction's address is ready with."""
        parts = [self.full(r) for r in (instruction.memory_base, instruction.memory_index)]
        found = [self.slot(r) for r in parts if r and r != _STACK_POINTER]
        return self.joined(found, block) if len(found) > 1 else (found[0] if found else -1)

    def indexed(self, instruction: Any, address: int, block: X86Block) -> int:
        """Return the slot that a load's address is ready with, after what a scaled index takes."""
        scaled = instruction.memory_index != self.iced.Register.NONE and instruction.memory_index_scale > 1
        if not self.scaled or not scaled or address < 0:
            return address
        slot = self.new_slot()
        block.add(FORWARD, address, -1, slot, (1, 8), self.scaled)
        return slot

    def stored_by_unit(self, instruction: Any) -> bool:
        """Whether a store's address has an index, or what it stores is a constant."""
        kinds = {instruction.op_kind(k) for k in range(instruction.op_count)}
        constants = {v for k, v in vars(self.iced.OpKind).items() if k.startswith("IMMEDIATE")}
        return bool(instruction.memory_index != self.iced.Register.NONE or kinds & constants)

    def clears(self, instruction: Any) -> bool:
        """Whether an instruction only clears its register."""
        name = form_name(instruction)
        return name.endswith("/same") and bool(re.match(r"^(?:VEX_V|EVEX_V)?(?:P?XOR|SUB_R|PSUB)", name))

    def load(
        self, operand: int, begin: int, shape: tuple[int, int], address: int, integer: int, block: X86Block
    ) -> int:
        """Add a load: of a vector register (0), of an integer (1), of one that is not renamed (`FORWARDED_LOAD`)."""
        slot = self.new_slot()
        block.add(LOAD, address, -1, slot, accessed(self.code, operand, shape), integer)
        block.operands.append(operand - begin)
        return slot
