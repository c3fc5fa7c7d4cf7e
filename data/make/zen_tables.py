"""Make the instruction tables of the Zen cores that were measured: LLVM's rows, with what a host measured.

    .venv/bin/python data/make/zen_tables.py zen3|zen4|zen5 [--llvm-suffix=-22] [--ports]

LLVM 22 schedules znver5 with its Zen 4 model: four integer units, 256-bit vectors. So the rows that come from LLVM
(operations, macro-operations, latencies not measured) are put on each core's units here, and every register form that
data/make/measure_forms.py could measure on a host of that core takes its latency, its throughput and, for vectors, its
ports from data/make/measured/CORE.csv. Where data/cores has the core as `perfkit calibrate --full` measured it, that
comes first: throughputs, latencies, and the ports of forms that use one group of them. The rows that were measured are
marked M in the table's flags. LLVM's own rows are checked against its reciprocal throughputs first, as for every other
core.
"""

import argparse
import csv
import lzma
import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import instruction_tables as llvm
from iced_x86 import InstructionInfoFactory, OpAccess, RegisterInfo

from perfkit.collectors.host.code import one_of
from perfkit.machine.core import Microarchitecture
from perfkit.machine.llvm_mca import cumulated, exclusive, group_name, look_up, unit_sets

FOLDER = Path(__file__).parent / "measured"
CORES = Path(__file__).parents[1] / "cores"
FP = {name: frozenset(f"FP{digit}" for digit in name) for name in ("0123", "01", "23", "12", "03", "45")}
STORE = frozenset(("Store.0", "Store.1"))


def units(stem, digits):
    """Return a set of units: ``units("ALU", "03")`` is ALU0 and ALU3."""
    return frozenset(f"{stem}{digit}" for digit in digits)


@dataclass(frozen=True)
class Machine:
    """What a core has in place of the units of LLVM's model, as measured with microbenchmarks."""

    name: str
    cpu: str  # LLVM's name
    extensions: str  # in iced-x86's names
    prefix: str  # of LLVM's resource names
    alu: frozenset
    multiply: frozenset
    shift: frozenset
    test: frozenset  # conditional moves and flags
    branch: frozenset
    agu: frozenset
    load: frozenset
    vector_loads: dict  # width -> load slots that a load takes
    vector_stores: dict  # width -> store slots
    steps: tuple  # throughputs of integer operations: up to these no unit, any unit, some of the units is used
    forward: float  # cycles by which additions forward earlier to each other
    quarters: bool  # whether throughputs within 4 % of a multiple of a quarter cycle are taken as that
    divider: bool  # whether divisions and roots were seen to leave their pipe to others

    @property
    def groups(self):
        """What LLVM's exclusive groups of its model are on this core."""
        return {
            ("ALU0", "ALU1", "ALU2", "ALU3"): self.alu,
            ("ALU0", "ALU3"): self.test,
            ("ALU0", "BRU1"): self.branch,
            ("BRU1",): self.branch,
            ("ALU1", "ALU2"): self.shift,
            ("ALU1",): self.multiply,
            ("AGU0", "AGU1", "AGU2"): self.agu,
            ("Load.0", "Load.1", "Load.2"): self.load,
            ("Store.0", "Store.1"): STORE,
        }


MACHINES = {
    "zen3": Machine(
        "zen3",
        "znver3",
        f"{llvm.HASWELL} SSE4A CLWB CLZERO SHA VAES VPCLMULQDQ RDPID",
        prefix="Zn3",
        alu=units("ALU", "0123"),
        multiply=units("ALU", "1"),
        shift=units("ALU", "12"),
        test=units("ALU", "03"),
        branch=frozenset(("ALU0", "BRU1")),
        agu=units("AGU", "012"),
        load=units("Load.", "012"),
        vector_loads={"XMM": 1.5, "YMM": 1.5},  # two loads of 256 bits a cycle
        vector_stores={"XMM": 2, "YMM": 2},  # one of 256 bits a cycle
        steps=(0.14, 0.29, 0.56),
        forward=0,
        quarters=True,
        divider=True,
    ),
    "zen4": Machine(
        "zen4",
        "znver4",
        f"{llvm.SUNNY} SSE4A CLZERO AVX512_BF16",
        prefix="Zn4",
        alu=units("ALU", "0123"),
        multiply=units("ALU", "1"),
        shift=units("ALU", "12"),
        test=units("ALU", "03"),
        branch=frozenset(("ALU0", "BRU1")),
        agu=units("AGU", "012"),
        load=units("Load.", "012"),
        vector_loads={"XMM": 1.5, "YMM": 1.5, "ZMM": 3},  # two loads of 256 bits a cycle, one of 512
        vector_stores={"XMM": 2, "YMM": 2, "ZMM": 4},  # one of 256 bits a cycle, half of one of 512
        steps=(0.18, 0.29, 0.56),
        forward=0,
        quarters=True,
        divider=True,  # eight multiplications beside a division take no longer than the division
    ),
    "zen5": Machine(
        "zen5",
        "znver5",
        f"{llvm.SUNNY} SSE4A CLZERO AVX512_BF16 AVX_VNNI MOVDIRI MOVDIR64B AVX512_VP2INTERSECT",
        prefix="Zn4",
        alu=units("ALU", "012345"),
        multiply=units("ALU", "012"),
        shift=units("ALU", "123"),  # measured: a shift and a multiplication together use four units
        test=units("ALU", "012345"),
        branch=units("ALU", "345"),
        agu=units("AGU", "0123"),
        load=units("Load.", "0123"),
        vector_loads={"XMM": 2, "YMM": 2, "ZMM": 2},  # a vector load takes two of the four load slots
        vector_stores={"XMM": 1, "YMM": 1, "ZMM": 2},  # a 512-bit store takes both stores
        steps=(0.14, 0.215, 0.37),
        # A chain of additions is measured at 2 cycles each, but one of additions and others at 3 and the other's:
        # the core file's add_forwarding says so, and the table's latency is the general one.
        forward=1,
        quarters=False,
        divider=False,
    ),
}
DROPPED = ("LSU", "FPSt")  # AGU and Store say the same


def renamed(base, machine):
    """Return LLVM's exclusive uses on the core's units."""
    found = {}
    for group, count in base.items():
        key = tuple(sorted(group))
        if key[0].startswith(DROPPED):
            continue
        target = machine.groups.get(key, group)
        found[target] = found.get(target, 0) + count
    return found


def row_uses(row, sets, measured, form, machine, loading=None):
    """Return {unit set: uops} of one form: LLVM's or the measured operation, and the core's loads and stores.

    `loading` is the measured throughput of a form that loads: its operation may be another than that of registers.
    """
    base = renamed(exclusive(cumulated(row, sets)), machine)
    vector = re.search(r"XMM|YMM|ZMM", form) is not None
    memory = {machine.agu, machine.load, STORE}
    own = {group: count for group, count in base.items() if group not in memory}
    if row.load or row.store:
        own.pop(FP["45"], None)
    if not row.load and not row.store and base.get(machine.agu):  # LEA: an addition in an integer unit
        own = {machine.alu: 1}
    if (row.load or row.store) and is_move(form):
        own = {}
    elif measured is not None:
        own = operation(own, measured, vector, machine)
        if machine.divider and vector and re.search(r"(DIV|(?<!R)SQRT)[PS][SDH]", form):
            own = {frozenset(("FP1",)): 1, frozenset(("fp_divider",)): measured["throughput"]}
    loads = max(1, round(base.get(machine.load, 1))) if row.load else 0
    stores = 1 if row.store else 0
    if "GATHER" not in form and "SCATTER" not in form:
        loads = min(loads, 1)
    width = next((w for w in ("ZMM", "YMM", "XMM") if w in form), "")
    if loads:
        own[machine.load] = loads * machine.vector_loads.get(width, 2 if vector else 1)
    if stores:
        own[STORE] = machine.vector_stores.get(width, 1)
    if loading is not None and own and not stores and not is_move(form):
        alone = max(busy(own), loads * machine.vector_loads.get(width, 2 if vector else 1) / len(machine.load))
        kept = {group: count for group, count in own.items() if group not in memory}
        if abs(alone / loading - 1) > 0.1 and kept:
            own |= scaled(kept, loading)
    if loads + stores:
        own[machine.agu] = loads + stores
    return own


def busy(own):
    """Return the cycles that the busiest group of ports takes."""
    return max(sum(count for part, count in own.items() if part <= units) / len(units) for units in own)


def operation(own, measured, vector, machine):
    """Return the uses of an operation from its measured throughput and, for vectors, its pairs."""
    cycles = measured["throughput"]
    nothing, any_unit, some_units = machine.steps
    if cycles <= nothing:
        return {}
    if "ports" in measured:
        return {measured["ports"]: round(cycles * len(measured["ports"]), 2)}
    if not vector:
        several = (machine.multiply, machine.test, machine.shift)
        some = next((group for group in several if group in own and 1 < len(group) < len(machine.alu)), machine.shift)
        group = machine.alu if cycles <= any_unit else some if cycles <= some_units else None
        return {group: 1} if group else scaled(own or {machine.alu: 1}, cycles)
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


PAIRS = ("with_add", "with_mul", "with_shuffle")
LEGACY = re.compile(r"(?!VEX_|EVEX_)(\w+?)_XMM_(\w+)")


def beside(form, measured):
    """Return what was measured of a form, an SSE form's pairs being those of the same operation's VEX form.

    The partners of the pairs are VEX forms. Beside one of these an SSE instruction waits for the merging of registers
    that a change of encoding asks for (one cycle per pair on Zen 4, hundreds on Zen 3), whatever ports it takes.
    """
    own, legacy = measured.get(form), LEGACY.fullmatch(form)
    if own is None or legacy is None:
        return own
    name, rest = legacy.groups()
    same = measured.get(f"VEX_V{name}_XMM_XMM_{rest}", measured.get(f"VEX_V{name}_XMM_{rest}", {}))
    taken = {p: same.get(p) for p in (*PAIRS, "ports")}
    return {key: value for key, value in {**own, **taken}.items() if value is not None}


ADDITION = re.compile(r"^(VEX_V|EVEX_V)?(ADD|SUB)[PS][SD]_")
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
    factor = cycles / busy(own)
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


def quarter(cycles):
    """Return the multiple of a quarter cycle within 4 % of what was measured, or that."""
    near = round(4 * cycles) / 4
    return near if abs(cycles - near) <= 0.04 * near else cycles


def read_measured(core):
    lines = (FOLDER / f"{core}.csv").read_text().splitlines()
    rows = csv.DictReader(lines[1:])
    return lines[0], {row["form"]: {key: float(v) for key, v in row.items() if key != "form" and v} for row in rows}


# Ports of the measured core -> of the table: additions, multiplications, shuffles and branches tell which is which.
UNITS = {
    "zen4-host": {
        "P0": "FP0", "P2": "FP1", "P3": "FP2", "P1": "FP3", "P7": "ALU0", "P10": "ALU1", "P9": "ALU2", "P8": "ALU3",
    },
}  # fmt: skip
PARTNERS = ("VEX_VADDPD_YMM_YMM_YMMM256", "VEX_VMULPD_YMM_YMM_YMMM256", "VEX_VPERMD_YMM_YMM_YMMM256")
BY_VALUE = re.compile(r"(DIV|(?<!R)SQRT|REDUCE)")  # what they load while they are measured is slow to divide


def read_core(name):
    """Return what a measured core says of each form: latency, throughput, and "ports" where it uses one group."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "host.toml"
        path.write_bytes(lzma.decompress((CORES / f"{name}.toml.xz").read_bytes()))
        core = Microarchitecture.load(path)
    sets = {group: frozenset(port.units) for group, port in core.ports.items()}
    forms = {form: about for form, about in core.forms.items() if about.source == "measured"}
    return {
        form: figures(form, forms, sets, UNITS[name]) for form in forms if not ("/m" in form and BY_VALUE.search(form))
    }


def figures(form, forms, sets, units):
    about = forms[form]
    middle = round(sum(about.cycles) / 2, 3)
    third = round(3 * middle) / 3
    found = {"throughput": third if abs(middle - third) <= 0.01 * third else middle}
    if about.latencies:
        found["latency"] = max(sum(pair) / 2 for pair in about.latencies.values())
    base = {group: count for group, count in exclusive_of(about.row.uses, sets).items() if count > 0.02}
    (most, count), *_ = sorted(base.items(), key=lambda one: -one[1]) or [(frozenset(), 0)]
    if most and most <= set(units) and count >= 0.97 * sum(base.values()):
        found["ports"] = frozenset(units[port] for port in most)
    elif "/m" not in form and "MM" in form:
        names = ("with_add", "with_mul", "with_shuffle")
        found |= {name: together((form, partner), forms, sets) for name, partner in zip(names, PARTNERS, strict=True)}
    return found


def together(names, forms, sets):
    """Return the cycles that forms take together by their measured ports."""
    load = {}
    for name in names:
        for group, count in forms[name].row.uses.items():
            load[group] = load.get(group, 0) + count
    return max((count / len(sets[group]) for group, count in load.items()), default=0.0)


def exclusive_of(uses, sets):
    """Return {ports: operations} of inclusive uses."""
    found = {}
    for group in sorted(uses, key=lambda name: len(sets[name])):
        own = sets[group]
        found[own] = uses[group] - sum(count for ports, count in found.items() if ports < own)
    return found


def tidy(cycles):
    """Round a latency to whole cycles where it is within 6 % of a whole number."""
    whole = round(cycles)
    return whole if whole and abs(cycles - whole) <= 0.06 * whole else round(cycles, 1)


def latencies(form, row, rows, measured, loads, machine):
    """Return (latency, memory latency) of a form as the table has them."""
    if row.store and not row.load:
        return 0, ""
    register = plain(form)
    known = measured.get(register, {}).get("latency")
    idiom = "/same" in form and not row.uses
    if known is not None and trustworthy(register) and not idiom and not (is_move(form) and row.load):
        value = tidy(known) + machine.forward * (ADDITION.match(form) is not None) if known >= 0.4 else 0
        return value, value if row.load else ""
    if not row.load:
        return row.latency, ""
    beyond = 0 if is_move(form) else max(row.latency - loads, 0)
    return (rows[register].latency if register in rows and not is_move(form) else min(row.bypass, beyond)), beyond


def table(rows, resources, measured, machine):
    sets = unit_sets(resources, machine.prefix)
    bases = {}
    seen = read_core(f"{machine.name}-host") if f"{machine.name}-host" in UNITS else {}
    measured = {form: {**measured.get(form, {}), **seen.get(form, {})} for form in {*measured, *seen}}
    for form, row in rows.items():
        idiom = "/same" in form and not row.uses
        own = beside(plain(form), measured) if trustworthy(plain(form)) and not idiom else None
        if own is not None and "throughput" not in own:
            own = None
        if own is not None and machine.quarters:
            own = {**own, "throughput": quarter(own["throughput"])}
        loading = seen.get(form, {}).get("throughput") if row.load and "/m" in form and own is not None else None
        loading = quarter(loading) if loading is not None else None
        bases[form] = ({} if idiom else row_uses(row, sets, own, form, machine, loading), own is not None)
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
        latency, memory = latencies(form, row, rows, measured, vector if "MM" in form else integer, machine)
        flags = "L" * row.load + "S" * row.store + "M" * was_measured
        slots = rows.get(form.replace("ZMM", "YMM"), row).uops
        packed = " ".join(f"{name}:{count:.4g}" for name, count in sorted(uses.items()))
        out.append(
            (form, row.opcode, slots, max(row.uops, 1 if uses else 0) if uses else 0, latency, memory, flags, packed)
        )
    return groups, out


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("core", choices=list(MACHINES))
    parser.add_argument("--llvm-suffix", default="-22")
    parser.add_argument("--ports", action="store_true")
    options = parser.parse_args()
    suffix = options.llvm_suffix
    version = llvm.llvm_version(suffix)
    machine = MACHINES[options.core]
    texts = llvm.available(llvm.disassemble(list(llvm.encoded_forms()), suffix), machine.extensions.split())
    answer = look_up(texts, machine.cpu, f"llvm-mca{suffix}")
    resources, rows = answer.resources, answer.rows
    bad = llvm.check(rows, resources)
    source, measured = read_measured(machine.name)
    groups, out = table(rows, resources, measured, machine)
    if options.ports:
        llvm.print_ports(groups, f"{machine.name}-host")
        return bad > 0
    kept = llvm.without_repeats(out)
    title = (
        f"LLVM {version}, -mcpu={machine.cpu}; Apache-2.0 WITH LLVM-exception; "
        f"{source.lstrip('# ')}; data/make/zen_tables.py"
    )
    size = llvm.write_table(machine.name, title, kept)
    marked = sum("M" in row[6] for row in kept)
    print(
        f"{machine.name}: {len(kept)} forms, {marked} measured, {len(groups)} port groups, {size} bytes; "
        f"{bad} rows differ from LLVM"
    )
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
