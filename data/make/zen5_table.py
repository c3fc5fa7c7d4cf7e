"""Make the Zen 5 instruction table: LLVM's rows on Zen 5's ports, with what a Zen 5 host measured.

    .venv/bin/python data/make/zen5_table.py [--llvm-suffix=-22] [--ports]

LLVM 22 schedules znver5 with its Zen 4 model: four integer units, 256-bit vectors. So the rows that come from LLVM
(operations, macro-operations, latencies not measured) are put on Zen 5's units here, and every register form that
data/make/measure_forms.py could measure on a Zen 5 host takes its latency, its throughput and, for vectors, its ports
from data/make/measured/zen5.csv. The rows that were measured are marked M in the table's flags. LLVM's own rows are
checked against its reciprocal throughputs first, as for every other core.
"""

import argparse
import csv
import re
import sys
from pathlib import Path

import instruction_tables as llvm
from iced_x86 import InstructionInfoFactory, OpAccess, RegisterInfo

from perfkit.collectors.host.code import one_of
from perfkit.machine.llvm_mca import cumulated, exclusive, group_name, look_up, unit_sets

MEASURED = Path(__file__).parent / "measured" / "zen5.csv"
ALU = frozenset(f"ALU{k}" for k in range(6))
MULTIPLY = frozenset(("ALU0", "ALU1", "ALU2"))
SHIFT = frozenset(("ALU1", "ALU2", "ALU3"))  # measured: a shift and a multiplication together use four units
BRANCH = frozenset(("ALU3", "ALU4", "ALU5"))
AGU = frozenset(f"AGU{k}" for k in range(4))
LOAD = frozenset(f"Load.{k}" for k in range(4))
STORE = frozenset(("Store.0", "Store.1"))
FP = {name: frozenset(f"FP{digit}" for digit in name) for name in ("0123", "01", "23", "12", "03", "45")}
# What LLVM's exclusive groups of its Zen 4 model are on Zen 5.
GROUPS = {
    ("ALU0", "ALU1", "ALU2", "ALU3"): ALU,
    ("ALU0", "ALU3"): ALU,
    ("ALU0", "BRU1"): BRANCH,
    ("BRU1",): BRANCH,
    ("ALU1", "ALU2"): SHIFT,
    ("ALU1",): MULTIPLY,
    ("AGU0", "AGU1", "AGU2"): AGU,
    ("Load.0", "Load.1", "Load.2"): LOAD,
    ("Store.0", "Store.1"): STORE,
}
DROPPED = ("LSU", "FPSt")  # AGU and Store say the same


def renamed(base):
    """Return LLVM's exclusive uses on Zen 5's units."""
    found = {}
    for units, count in base.items():
        key = tuple(sorted(units))
        if key[0].startswith(DROPPED):
            continue
        target = GROUPS.get(key, units)
        found[target] = found.get(target, 0) + count
    return found


def row_uses(row, sets, measured, form):
    """Return {unit set: uops} of one form: LLVM's or the measured operation, and Zen 5's loads and stores."""
    base = renamed(exclusive(cumulated(row, sets)))
    vector = re.search(r"XMM|YMM|ZMM", form) is not None
    memory = {AGU, LOAD, STORE}
    own = {units: count for units, count in base.items() if units not in memory}
    if row.load or row.store:
        own.pop(FP["45"], None)
    if not row.load and not row.store and base.get(AGU):  # LEA: an addition in an integer unit
        own = {ALU: 1}
    if (row.load or row.store) and is_move(form):
        own = {}
    elif measured is not None:
        own = operation(own, measured, vector)
    loads = max(1, round(base.get(LOAD, 1))) if row.load else 0
    stores = 1 if row.store else 0
    if "GATHER" not in form and "SCATTER" not in form:
        loads = min(loads, 1)
    if loads:  # a vector load takes two of the four load slots
        own[LOAD] = loads * (2 if vector else 1)
    if stores:  # a 512-bit store takes both stores
        own[STORE] = 2 if "ZMM" in form else 1
    if loads + stores:
        own[AGU] = loads + stores
    return own


def operation(own, measured, vector):
    """Return the uses of an operation from its measured throughput and, for vectors, its pairs."""
    cycles = measured["throughput"]
    if cycles <= 0.14:
        return {}
    if not vector:
        units = ALU if cycles <= 0.215 else (MULTIPLY if MULTIPLY in own else SHIFT) if cycles <= 0.37 else None
        return {units: 1} if units else scaled(own, cycles)
    if cycles <= 0.29:
        return {FP["0123"]: 1}
    if cycles <= 0.56 and "with_add" in measured:
        add, multiply, shuffle = (measured[f"with_{name}"] for name in ("add", "mul", "shuffle"))
        if max(add, multiply, shuffle) < 0.6:
            return {FP["45"]: 1}
        if add > 0.9:
            return {FP["23"]: 1}
        if multiply > 0.9:
            return {FP["01"]: 1}
        return {FP["12"] if shuffle > 0.85 else FP["03"]: 1}
    pairs = [measured.get(f"with_{name}", 9) for name in ("add", "mul", "shuffle")]
    if 0.9 < cycles < 1.1 and max(pairs) < 1.1:  # beside a vector operation, not on its pipes: the way between files
        return {FP["45"]: 2} | ({FP["23"]: 1} if FP["23"] in own else {})
    return scaled(own or {FP["0123"]: 1}, cycles)


# A chain of additions is measured at 2 cycles each, but one of additions and anything else at 3 and the other's: the
# core file's add_forwarding says so, and the table's latency is the general one.
ADDITION = re.compile(r"^(VEX_V|EVEX_V)?(ADD|SUB)[PS][SD]_")
FORWARD = 1
MOVES = re.compile(r"^(VEX_V|EVEX_V)?MOV(?!MSK|DDUP|SHDUP|SLDUP|SX|ZX|S_|SB|SW|SQ|BE)")


def is_move(form):
    """Whether a form only moves its operand, so that with memory it is a plain load or store."""
    return MOVES.match(form) is not None


def plain(form):
    """Return the register form without masks and repeated operands that a form is measured as."""
    return form.split("/")[0]


def scaled(own, cycles):
    """Return LLVM's uses, with the group that takes longest taking exactly the measured cycles and no other more."""
    if not own:
        return {}
    total = {units: sum(count for part, count in own.items() if part <= units) / len(units) for units in own}
    factor = cycles / max(total.values())
    return {units: count * factor for units, count in own.items()}


def trustworthy(form):
    """Whether independent instances of a form are independent: no register but those named, flags not both ways."""
    built = one_of(form, 0, False)
    if built is None:
        return False
    info = InstructionInfoFactory().info(built)
    named = {RegisterInfo(built.op_register(k)).full_register for k in range(built.op_count)}
    for used in info.used_registers():
        if RegisterInfo(used.register).full_register not in named and used.access != OpAccess.READ:
            return False
    return not (built.rflags_read and built.rflags_modified) and built.op_count > 0


def read_measured():
    lines = MEASURED.read_text().splitlines()
    rows = csv.DictReader(lines[1:])
    return lines[0], {row["form"]: {key: float(v) for key, v in row.items() if key != "form" and v} for row in rows}


def tidy(cycles):
    """Round a latency to whole cycles where it is within 6 % of a whole number."""
    whole = round(cycles)
    return whole if whole and abs(cycles - whole) <= 0.06 * whole else round(cycles, 1)


def latencies(form, row, rows, measured, loads):
    """Return (latency, memory latency) of a form as the table has them."""
    if row.store and not row.load:
        return 0, ""
    register = plain(form)
    known = measured.get(register, {}).get("latency")
    idiom = "/same" in form and not row.uses
    if known is not None and trustworthy(register) and not idiom and not (is_move(form) and row.load):
        value = tidy(known) + FORWARD * (ADDITION.match(form) is not None) if known >= 0.4 else 0
        return value, value if row.load else ""
    if not row.load:
        return row.latency, ""
    beyond = 0 if is_move(form) else max(row.latency - loads, 0)
    return (rows[register].latency if register in rows and not is_move(form) else min(row.bypass, beyond)), beyond


def table(rows, resources, measured):
    sets = unit_sets(resources, "Zn4")
    bases = {}
    for form, row in rows.items():
        idiom = "/same" in form and not row.uses
        own = measured.get(plain(form)) if trustworthy(plain(form)) and not idiom else None
        if own is not None and "throughput" not in own:
            own = None
        bases[form] = ({} if idiom else row_uses(row, sets, own, form), own is not None)
    groups = {units for uses, _ in bases.values() for units in uses}
    growing = True
    while growing:
        unions = {a | b for a in groups for b in groups if a & b and not (a <= b or b <= a)} - groups
        growing = bool(unions)
        groups |= unions
    integer, vector = rows["MOV_R64_RM64/m"].latency, rows["VEX_VMOVUPS_XMM_XMMM128/m"].latency
    out = []
    for form, row in sorted(rows.items()):
        base, was_measured = bases[form]
        uses = {}
        for group in groups:
            total = sum(count for units, count in base.items() if units <= group)
            if total:
                uses[group_name(group)] = total
        latency, memory = latencies(form, row, rows, measured, vector if "MM" in form else integer)
        flags = "L" * row.load + "S" * row.store + "M" * was_measured
        slots = rows.get(form.replace("ZMM", "YMM"), row).uops
        packed = " ".join(f"{name}:{count:.4g}" for name, count in sorted(uses.items()))
        out.append(
            (form, row.opcode, slots, max(row.uops, 1 if uses else 0) if uses else 0, latency, memory, flags, packed)
        )
    return groups, out


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--llvm-suffix", default="-22")
    parser.add_argument("--ports", action="store_true")
    options = parser.parse_args()
    suffix = options.llvm_suffix
    version = llvm.llvm_version(suffix)
    extensions = f"{llvm.SUNNY} SSE4A CLZERO AVX512_BF16 AVX_VNNI MOVDIRI MOVDIR64B AVX512_VP2INTERSECT"
    texts = llvm.available(llvm.disassemble(list(llvm.encoded_forms()), suffix), extensions.split())
    answer = look_up(texts, "znver5", f"llvm-mca{suffix}")
    resources, rows = answer.resources, answer.rows
    bad = llvm.check(rows, resources)
    source, measured = read_measured()
    groups, out = table(rows, resources, measured)
    if options.ports:
        llvm.print_ports(groups, "zen5-host")
        return bad > 0
    kept = llvm.without_repeats(out)
    title = (
        f"LLVM {version}, -mcpu=znver5; Apache-2.0 WITH LLVM-exception; {source.lstrip('# ')}; data/make/zen5_table.py"
    )
    size = llvm.write_table("zen5", title, kept)
    marked = sum("M" in row[6] for row in kept)
    print(
        f"zen5: {len(kept)} forms, {marked} measured, {len(groups)} port groups, {size} bytes; "
        f"{bad} rows differ from LLVM"
    )
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
