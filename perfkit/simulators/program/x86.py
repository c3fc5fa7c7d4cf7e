"""An x86-64 trace's static code as numbers for one core: operands, fusion, eliminated moves, schedulers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from perfkit.machine.core import Microarchitecture
from perfkit.machine.forms import InstructionForm, string_form
from perfkit.simulators.program.program import CALL, CONDITIONAL, INDIRECT, RETURN, STORE, VECTOR, Forms, Program
from perfkit.trace.code import StaticCode
from perfkit.trace.x86 import constants, decode, form_name, operand_registers

_Told = TypeVar("_Told")
_FLAGS = 64  # the register number of the flags
_OVERFLOW = 66  # of the flag that ADOX carries, in code with ADOX

# Instructions whose result does not depend on their operands when these are one register.
_BREAKING = ("XOR", "SUB", "SBB", "PXOR", "PSUB", "PCMPEQ", "PCMPGT", "ANDNP", "PANDN")
_CONDITIONS_OF_INC = ("JE", "JNE", "JL", "JGE", "JLE", "JG")  # INC and DEC leave the carry alone
_FUSIBLE = {
    "none": (),
    "cmp-test": ("CMP", "TEST"),
    "alu": ("CMP", "TEST", "ADD", "SUB", "AND", "INC", "DEC"),
}
_PADS = ("ENDBR64", "ENDBR32")
"""Landing pads (-fcf-protection, the default of Ubuntu's compilers). LLVM's tables take them for 100 cycles and, on
AMD's cores, 100 operations; to a processor that does not check them they are NOPs (Zen 5: 8 per cycle, measured)."""
_PAD = "NOPD"  # the form that has their figures
_NOTHING = ("NOP", *_PADS)  # take a slot, whatever port a table gives them
_STACK = ("PUSH", "POP", "CALL", "RET")
_POINTERS = (6, 7)  # rsi, rdi


@dataclass(frozen=True)
class _Operands:
    """Registers of one instruction, as numbers from 0 to `REGISTERS` - 1."""

    address: tuple[int, ...]
    data: tuple[int, ...]
    written: tuple[int, ...]


def lower(code: StaticCode, core: Microarchitecture, forms: Forms) -> Program:
    """Return the program that x86-64 `code` is on `core`, with each form's figures taken from `forms`."""
    decoded = decode(code)
    n = len(decoded)
    alike = _alike(code)
    names = alike(form_name, decoded)
    found = [forms(_PAD if _mnemonic(i) in _PADS else name) for i, name in zip(decoded, names, strict=True)]
    strings = [form.is_guessed_string for form in found]
    found = [string_form(form, core) if k else form for form, k in zip(found, strings, strict=True)]
    second, copies = fused_pairs(code, decoded, core), fused_copies(code, decoded, core)
    groups = tuple(core.ports)
    number = {name: k for k, name in enumerate(groups)}
    at_load = _load_groups(forms)
    at_fused = _at_and_around(core, core.feature("fused_branch_ports", ""))
    slots = np.zeros(n, dtype=np.int32)
    latency = np.zeros(n)
    uses: list[list[tuple[int, float]]] = []
    load_uses = np.zeros(n, dtype=np.int32)
    operands = _overflows(decoded, alike(_operands, decoded))
    operands = [_stepped(o) if k else o for o, k in zip(operands, strings, strict=True)]
    told = [_by_operand(i, f, o) for i, f, o in zip(decoded, found, operands, strict=True)]
    operands = [each for each, _, _ in told]
    added = _added_at_rename(decoded, core)
    renamed = alike(partial(_eliminated, core=core), decoded)
    nops, waits = _fused_nops(code, decoded, operands, core), _stack_waits(code, decoded, core)
    for k, (instruction, form) in enumerate(zip(decoded, found, strict=True)):
        eliminated = k in added or renamed[k]
        whole = max(1, round(form.fused_uops)) + _unlaminated(instruction, form, core)
        slots[k] = 0 if k in second or k in copies or k in nops else whole + (k in waits)
        latency[k] = 0.0 if eliminated else told[k][1] + (core.feature("stack_sync", 0) if k in waits else 0)
        idle = eliminated or k + 1 in second or _mnemonic(instruction) in _NOTHING
        own = {} if idle else dict(form.uses)
        if k in second and _writes(decoded[k - 1]) and at_fused:
            own = at_fused
        pairs = [(number[g], float(amount)) for g, amount in own.items() if g in number and amount > 0]
        early = [p for p in pairs if form.loads and groups[p[0]] in at_load]
        uses.append(early + [p for p in pairs if p not in early])
        load_uses[k] = len(early)
    latency += _after_others(code, decoded, operands, added, core)
    start = np.concatenate(([0], np.cumsum([len(u) for u in uses]))).astype(np.int32)
    return Program(
        core=core,
        code=code,
        groups=groups,
        slots=slots,
        latency=latency,
        value_latency=np.array([_value_latency(f) for f in found]),
        load_latency=np.array(
            [
                f.address_latency + _scaled(i, core) if f.loads else more
                for f, i, (_, _, more) in zip(found, decoded, told, strict=True)
            ]
        ),
        use_start=start,
        load_uses=load_uses,
        use=np.array([g for u in uses for g, _ in u], dtype=np.int32),
        amount=np.array([a for u in uses for _, a in u], dtype=np.float64),
        **_flat("address", [o.address for o in operands]),
        **_flat("data", [o.data for o in operands]),
        **_flat("write", [o.written for o in operands]),
        vector=np.array([any(16 <= r < 56 for r in o.written) for o in operands], dtype=np.bool_),
        named=np.array(
            [len(u) > 0 and any(16 <= r < 48 for r in o.written) for o, u in zip(operands, uses, strict=True)]
        ),
        early=np.where(_closed(code, decoded, core), 0.0, np.array(alike(partial(_early, core=core), decoded))),
        scheduler=np.array(
            [_scheduler(o, f, len(u) > e) for o, f, u, e in zip(operands, found, uses, load_uses, strict=True)],
            dtype=np.int8,
        ),
        ending=np.array(alike(_ending, decoded), dtype=np.int8),
        constants=np.array(constants(code), dtype=np.uint8),
        wide=np.array([name.startswith("EVEX_") for name in names], dtype=np.bool_),
        expression=_expressions(code, decoded, str(core.feature("memory_renaming", "none"))),
        forms=tuple(found),
    )


def _alike(code: StaticCode) -> Callable[[Callable[[Any], _Told], Sequence[Any]], list[_Told]]:
    """Return what asks a question about each instruction of which its bytes are the answer: once for those alike."""
    first = {encoding: k for k, encoding in enumerate(code.encoding)}

    def asked(question: Callable[[Any], _Told], decoded: Sequence[Any]) -> list[_Told]:
        known = {encoding: question(decoded[k]) for encoding, k in first.items()}
        return [known[encoding] for encoding in code.encoding]

    return asked


def _overflows(decoded: Sequence[Any], operands: "list[_Operands]") -> "list[_Operands]":
    """Give the overflow flag a register of its own in code with ADOX, whose carries are a chain beside ADCX's."""
    from iced_x86 import RflagsBits

    if not any(_mnemonic(one) == "ADOX" for one in decoded):
        return operands
    found = []
    for one, each in zip(decoded, operands, strict=True):
        data, written = each.data, each.written
        if _mnemonic(one) == "ADOX":
            data = tuple(r for r in data if r not in (_FLAGS, _FLAGS + 1))
            written = tuple(r for r in written if r != _FLAGS)
        data += (_OVERFLOW,) if one.rflags_read & RflagsBits.OF else ()
        written += (_OVERFLOW,) if one.rflags_modified & RflagsBits.OF else ()
        found.append(replace(each, data=data, written=written))
    return found


def _by_operand(instruction: Any, form: InstructionForm, operands: "_Operands") -> "tuple[_Operands, float, float]":
    """Return the operands, the cycles from the last ones to the result, and how many more it takes from the others.

    The others are as registers of an address, which what loads nothing has none of. An operand in two places takes
    the longer of both.
    """
    if not form.operand_latency or form.loads or operands.address:
        return operands, form.latency, 0.0
    places = {operand: _number(register) for operand, register in operand_registers(instruction).items()}
    cycles = form.cycles_from(places) | dict.fromkeys((_FLAGS, _FLAGS + 1), form.cycles_from({"flags": 0})[0])
    each = {register: cycles.get(register, form.latency) for register in operands.data}
    least, most = min(each.values(), default=form.latency), max(each.values(), default=form.latency)
    if least == most:
        return operands, most, 0.0
    last = tuple(register for register in operands.data if each[register] == least)
    others = tuple(register for register in operands.data if each[register] > least)
    return replace(operands, address=others, data=last), least, most - least


def _stepped(operands: "_Operands") -> "_Operands":
    """Leave out that a string instruction moves its pointers on: the next one does not wait for its data for that."""
    return replace(operands, written=tuple(r for r in operands.written if r not in _POINTERS))


def _at_and_around(core: Microarchitecture, name: str) -> dict[str, float]:
    """Return one operation on a port group, and so on every group that holds its units; nothing without a name."""
    units = set(core.resource(name).units) if name else set()
    return {other: 1.0 for other, group in core.ports.items() if units and units <= set(group.units)}


def _writes(instruction: Any) -> bool:
    """Whether an instruction that a branch fuses with has a result beside the flags."""
    return _mnemonic(instruction) not in ("CMP", "TEST")


def _ending(instruction: Any) -> int:
    from iced_x86 import FlowControl

    return {
        FlowControl.CONDITIONAL_BRANCH: CONDITIONAL,
        FlowControl.INDIRECT_BRANCH: INDIRECT,
        FlowControl.INDIRECT_CALL: INDIRECT | CALL,
        FlowControl.CALL: CALL,
        FlowControl.RETURN: RETURN,
    }.get(instruction.flow_control, 0)


def _expressions(code: StaticCode, decoded: Sequence[Any], renaming: str) -> NDArray[np.int32]:
    """Return a number for the address expression of each memory operand of the trace.

    By base register, all expressions of a base register alone have one number, and the others have none.
    """
    from iced_x86 import InstructionInfoFactory, Register

    factory = InstructionInfoFactory()
    numbers: dict[tuple[Any, ...], int] = {}
    found = np.full(len(code.size), -1, dtype=np.int32)
    for k, instruction in enumerate(decoded):
        first, last = code.operand_start[k], code.operand_start[k + 1]
        memory = factory.info(instruction).used_memory() if last > first else ()
        if len(memory) != last - first:
            continue
        for at, used in enumerate(memory, first):
            key = (used.segment, used.base, used.index, used.scale, used.displacement)
            if renaming.startswith("by base register"):
                other = instruction.is_ip_rel_memory_operand or used.index != Register.NONE
                found[at] = -1 if other or ("also bytes" in renaming and _computes(instruction)) else 0
            else:
                found[at] = numbers.setdefault(key, len(numbers))
    return found


def _computes(instruction: Any) -> bool:
    """Whether a load is sign-extended, or updated in memory by a register: Golden Cove forwards the values of these."""
    from iced_x86 import OpKind

    if _mnemonic(instruction).startswith("MOVSX"):
        return True
    updates = instruction.op_count == 2 and _mnemonic(instruction) != "MOV"
    return updates and instruction.op_kind(0) == OpKind.MEMORY and instruction.op_kind(1) == OpKind.REGISTER


_AT_RENAME = range(-1024, 1024)  # the constants that Golden Cove adds to 64-bit registers while it renames them


def _added_at_rename(decoded: Sequence[Any], core: Microarchitecture) -> set[int]:
    """Return the additions of constants that the core does while it renames: no port, and no time for the register."""
    if not core.feature("constants_at_rename", False):
        return set()
    return {k for k, instruction in enumerate(decoded) if _constant(instruction) in _AT_RENAME}


# What takes longer where the constant added to its operand was not worked out yet, and what sets flags by logic alone.
_SHIFTS = ("SHL", "SHR", "SAR", "ROL", "ROR", "BSWAP", "SHLX", "SHRX", "SARX", "RORX")
_LOGIC = ("AND", "OR", "XOR", "TEST")


def _after_others(
    code: StaticCode, decoded: Sequence[Any], operands: Sequence[_Operands], added: set[int], core: Microarchitecture
) -> NDArray[np.float64]:
    """Return by how many cycles instructions take longer after what came before them in their block.

    That are shifts of a register to which a constant was added at rename, and SETcc and CMOVcc after flags of logic.
    """
    late = np.zeros(len(decoded))
    shifts, flags = float(core.feature("shift_of_constant", 0)), float(core.feature("flags_of_logic", 0))
    if not (shifts or flags):
        return late
    block = code.block
    writer: dict[int, int] = {}
    for k, one in enumerate(operands):
        if k and block[k] != block[k - 1]:
            writer = {}
        name = _mnemonic(decoded[k])
        if name in _SHIFTS and any(writer.get(r) in added for r in one.data):
            late[k] = shifts
        elif name.startswith(("SET", "CMOV")) and _FLAGS in writer and _mnemonic(decoded[writer[_FLAGS]]) in _LOGIC:
            late[k] = flags
        writer.update(dict.fromkeys(one.written, k))
    return late


def _constant(instruction: Any) -> int | None:
    """Return the constant that an instruction adds to a 64-bit register, None where it does something else."""
    from iced_x86 import OpKind, Register

    name = _mnemonic(instruction)
    if not instruction.op_count or instruction.op_kind(0) != OpKind.REGISTER or _size(instruction.op_register(0)) != 8:
        return None
    if name in ("INC", "DEC"):
        return 1
    if name == "LEA":
        alone = instruction.memory_index == Register.NONE and _size(instruction.memory_base) == 8
        distance = instruction.memory_displacement
        known = alone and _number(instruction.memory_base) >= 0
        return int((distance + (1 << 63)) % (1 << 64) - (1 << 63)) if known else None
    if name in ("ADD", "SUB") and instruction.op_kind(1) in (OpKind.IMMEDIATE8TO64, OpKind.IMMEDIATE32TO64):
        value = instruction.immediate(1)
        value = value - (1 << 64) if value >= 1 << 63 else value
        return int(value if name == "ADD" else -value)
    return None


def _scheduler(operands: "_Operands", form: InstructionForm, executes: Any) -> int:
    """Return which scheduler holds an instruction: a plain load, an idiom and a move renamed away need none."""
    vectors = any(16 <= r < 56 for r in (*operands.data, *operands.written))
    if not vectors or not (executes or form.stores):
        return 0
    integers = any(r < 16 for r in (*operands.data, *operands.written))
    return STORE if integers or (form.stores and not form.loads) else VECTOR


def fused_pairs(code: StaticCode, decoded: Sequence[Any], core: Microarchitecture) -> set[int]:
    """Return the branches that the core fuses with the instruction before them (macro-fusion), by index."""
    from iced_x86 import OpKind

    feature = core.features.get("macro_fusion")
    able = _FUSIBLE[str(feature.value) if feature else "none"]
    block = code.block
    found = set()
    for k in range(1, len(decoded)):
        if block[k] != block[k - 1] or not _is_conditional(decoded[k]):
            continue
        first = decoded[k - 1]
        name = _mnemonic(first)
        kinds = [first.op_kind(i) for i in range(first.op_count)]
        if name not in able or (OpKind.MEMORY in kinds and (len(kinds) > 1 and kinds[0] == OpKind.MEMORY)):
            continue
        if name in ("INC", "DEC") and _mnemonic(decoded[k]) not in _CONDITIONS_OF_INC:
            continue
        found.add(k)
    return found


# What a copy of one of its operands fuses with: operations that write the register they read.
_COPIED = ("ADD", "SUB", "AND", "OR", "XOR", "INC", "DEC", "NOT", "NEG", "SHL", "SHR", "SAR")


def fused_copies(code: StaticCode, decoded: Sequence[Any], core: Microarchitecture) -> set[int]:
    """Return the register moves that the core fuses with the operation on their copy that follows, by index."""
    from iced_x86 import OpKind

    feature = core.features.get("mov_fusion")
    found: set[int] = set()
    if not (feature and feature.value):
        return found
    block = code.block
    for k, (first, then) in enumerate(pairwise(decoded)):
        if block[k] != block[k + 1] or _mnemonic(then) not in _COPIED or not _eliminated(first, core):
            continue
        if then.op_kind(0) == OpKind.REGISTER and then.op_register(0) == first.op_register(0):
            found.add(k)
    return found


def _fused_nops(
    code: StaticCode, decoded: Sequence[Any], operands: "Sequence[_Operands]", core: Microarchitecture
) -> set[int]:
    """Return the NOPs that fuse with the instruction before them, by index: not with vector work, nor in many bytes."""
    found: set[int] = set()
    most = core.feature("nop_fusion", 0)
    most = 15 if most is True else int(most)  # true in files of before
    block = code.block
    for k in range(1, len(decoded)):
        first, then = decoded[k - 1 : k + 1]
        if _mnemonic(then) not in _NOTHING or block[k] != block[k - 1] or k - 1 in found:
            continue
        vectors = any(16 <= r < 56 for r in (*operands[k - 1].data, *operands[k - 1].written))
        if first.len + then.len <= most and not vectors:
            found.add(k)
    return found


def _stack_waits(code: StaticCode, decoded: Sequence[Any], core: Microarchitecture) -> set[int]:
    """Return the operations on the stack pointer before which the core has to add up what PUSH and POP did to it.

    These lie before it in its block, or after it where the block may be a loop's (it ends in no return).
    """
    from iced_x86 import OpKind, Register

    found: set[int] = set()
    if not core.feature("stack_sync", 0):
        return found
    for first, last in pairwise(code.block_start.tolist()):
        names = [_mnemonic(one) for one in decoded[first:last]]
        pending = names[-1] != "RET" and any(name in ("PUSH", "POP") for name in names)
        for k, name in enumerate(names, first):
            one = decoded[k]
            if name in ("PUSH", "POP"):
                pending = True
            elif (
                name in ("ADD", "SUB", "AND")
                and one.op_kind(0) == OpKind.REGISTER
                and one.op_register(0) == Register.RSP
            ):
                if pending:
                    found.add(k)
                pending = False
    return found


def _scaled(instruction: Any, core: Microarchitecture) -> float:
    """Return by how much a scaled index delays a load."""
    from iced_x86 import Register

    if instruction.memory_index == Register.NONE or instruction.memory_index_scale == 1:
        return 0.0
    return float(core.feature("scaled_index_latency", 0.0))


def _value_latency(form: InstructionForm) -> float:
    """Return the cycles from a loaded value to the result; a read-modify-write's stored value is its result.

    LLVM's figure for such a form counts the store in.
    """
    if not form.loads:
        return 0.0
    return min(form.latency, form.memory_latency) if form.stores else form.memory_latency


def _flat(name: str, lists: Sequence[Sequence[int]]) -> dict[str, NDArray[np.int32]]:
    start = np.concatenate(([0], np.cumsum([len(x) for x in lists]))).astype(np.int32)
    values = np.array([r for x in lists for r in x], dtype=np.int32)
    return {f"{name}_start": start, f"{name}_register": values}


def _load_groups(forms: Forms) -> set[str]:
    """Return the port groups that loads use: they delay the load, not the operation on its value."""
    return set(forms("MOV_R64_RM64/m").uses)


def _mnemonic(instruction: Any) -> str:
    return _mnemonics()[instruction.mnemonic]


@cache
def _mnemonics() -> dict[int, str]:
    from iced_x86 import Mnemonic

    return {v: k for k, v in vars(Mnemonic).items() if isinstance(v, int)}


def _is_conditional(instruction: Any) -> bool:
    from iced_x86 import FlowControl

    return bool(instruction.flow_control == FlowControl.CONDITIONAL_BRANCH)


def _closed(code: StaticCode, decoded: Sequence[Any], core: Microarchitecture) -> NDArray[np.bool_]:
    """Say which instructions stand in a block with an operation on 512 bits, for which the core closes a pipe.

    Intel's cores make the 512-bit pipe of two 256-bit ones and close one of these meanwhile, and additions go another
    way: a chain of scalar additions takes 2.0 cycles per link on Redwood Cove, and 3.2 to 3.4 beside 512-bit operations
    on other data. Zen 5 has whole ones: 2.0 cycles, beside them too.
    """
    if core.vendor != "Intel":
        return np.zeros(len(decoded), dtype=np.bool_)
    from iced_x86 import OpKind, RegisterInfo

    def wide(instruction: Any) -> bool:
        kinds = (k for k in range(instruction.op_count) if instruction.op_kind(k) == OpKind.REGISTER)
        return any(RegisterInfo(instruction.op_register(k)).size == 64 for k in kinds)

    found = np.array([wide(instruction) for instruction in decoded], dtype=bool)
    blocks = np.repeat(np.arange(code.block_count), np.diff(code.block_start))
    return np.isin(blocks, blocks[found])


def _early(instruction: Any, core: Microarchitecture) -> float:
    """Return by how many cycles additions forward to each other earlier than to other operations."""
    feature = core.features.get("add_forwarding")
    name = _mnemonic(instruction).removeprefix("V")
    addition = name[:3] in ("ADD", "SUB") and name[3:] in ("PS", "PD", "SS", "SD")
    return float(feature.value) if feature and addition else 0.0


def _eliminated(instruction: Any, core: Microarchitecture) -> bool:
    """Whether the core renames a register move away: it takes a slot, but no port and no time."""
    from iced_x86 import OpKind

    feature = core.features.get("move_elimination")
    if not (feature and feature.value) or instruction.op_count != 2 or instruction.has_op_mask:
        return False
    name = _mnemonic(instruction)
    if not (name in ("MOV", "MOVAPS", "MOVAPD", "MOVUPS", "MOVUPD", "MOVDQA", "MOVDQU") or name.startswith("VMOV")):
        return False
    if name.startswith("VMOV") and name[1:].rstrip("0123468") not in (
        "MOVAPS",
        "MOVAPD",
        "MOVUPS",
        "MOVUPD",
        "MOVDQA",
        "MOVDQU",
    ):
        return False
    registers = [instruction.op_kind(i) == OpKind.REGISTER for i in range(2)]
    first, last = (_number(instruction.op_register(i)) if registers[i] else -1 for i in range(2))
    return all(registers) and first >= 0 and last >= 0 and _size(instruction.op_register(0)) >= 4


def _unlaminated(instruction: Any, form: InstructionForm, core: Microarchitecture) -> int:
    """Return 1 where an Intel core splits a fused load at rename: three operands or more and an indexed address.

    Intel 64 and IA-32 Architectures Optimization Reference Manual, "Micro-fusion and un-lamination".
    """
    if core.vendor != "Intel" or not form.loads or form.unfused_uops <= form.fused_uops or instruction.op_count < 3:
        return 0
    from iced_x86 import OpKind, Register

    memory = any(instruction.op_kind(i) == OpKind.MEMORY for i in range(instruction.op_count))
    return int(memory and instruction.memory_index != Register.NONE)


@cache
def _number(register: Any) -> int:
    """Return a register's number in the program, or -1 for one that carries no dependence (RIP, segments)."""
    from iced_x86 import Register, RegisterInfo

    full = RegisterInfo(register).full_register
    for first, last, base in (
        (Register.RAX, Register.R15, 0),
        (Register.ZMM0, Register.ZMM31, 16),
        (Register.K0, Register.K7, 48),
        (Register.ST0, Register.ST7, 56),
        (Register.MM0, Register.MM7, 56),
    ):
        if first <= full <= last:
            return int(base + full - first)
    return -1


@cache
def _size(register: Any) -> int:
    from iced_x86 import RegisterInfo

    return int(RegisterInfo(register).size)


@lru_cache(maxsize=1 << 14)
def _operands(instruction: Any) -> _Operands:
    """Return the registers that an instruction reads for addresses, reads as data, and writes."""
    from iced_x86 import InstructionInfoFactory, OpAccess, OpKind, RflagsBits

    reads = (OpAccess.READ, OpAccess.COND_READ, OpAccess.READ_WRITE, OpAccess.READ_COND_WRITE)
    writes = (OpAccess.WRITE, OpAccess.COND_WRITE, OpAccess.READ_WRITE, OpAccess.READ_COND_WRITE)
    info = InstructionInfoFactory().info(instruction)
    name = _mnemonic(instruction)
    stack = name in _STACK
    address = {_number(r) for m in info.used_memory() for r in (m.base, m.index)}
    explicit = {
        _number(instruction.op_register(i))
        for i in range(instruction.op_count)
        if instruction.op_kind(i) == OpKind.REGISTER and info.op_access(i) in reads
    }
    data, written = set(explicit), set()
    for used in info.used_registers():
        number = _number(used.register)
        if used.access in reads and number not in address:
            data.add(number)
        if used.access in writes:
            written.add(number)
            # A write of a part merges with the rest of the register.
            if used.access == OpAccess.COND_WRITE or (0 <= number < 16 and _size(used.register) < 4):
                data.add(number)
    # INC and DEC leave the carry as it is: what reads the carry does not wait for them, other flags may be theirs.
    if instruction.rflags_read:
        data.add(_FLAGS)
        if instruction.rflags_read & ~RflagsBits.CF:
            data.add(_FLAGS + 1)
    if instruction.rflags_modified:
        written.add(_FLAGS + 1 if name in ("INC", "DEC") else _FLAGS)
    if form_name(instruction).split("/")[-1:] == ["same"] and name.removeprefix("V").startswith(_BREAKING):
        data -= explicit
    if stack:  # the stack engine adds up what these do to the pointer; they wait for what wrote it otherwise
        data.discard(4)
        written.discard(4)
    clean = [tuple(sorted(r for r in group if r >= 0)) for group in (address, data, written)]
    return _Operands(*clean)
