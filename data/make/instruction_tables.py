"""Generate the bundled instruction tables (perfkit/cores/tables/*.csv.gz) from LLVM's scheduling models.

    .venv/bin/python data/make/instruction_tables.py [CORE ...] [--llvm-suffix=-22] [--ports]

Needs llvm-mc and llvm-mca >= 21 (Debian: llvm-22). Every encoding that iced-x86 knows in 64-bit mode is built with
register and memory operands, encoded, disassembled by llvm-mc and looked up by llvm-mca -instruction-tables=full, which
prints each instruction's cumulated use of every group of ports. On every row max(usage / units) must equal the
reciprocal throughput that LLVM prints. --ports prints the [ports] section of each core file instead.

LLVM is Apache-2.0 WITH LLVM-exception; the tables say which version they come from.
"""

import argparse
import collections
import csv
import gzip
import io
import itertools
import re
import subprocess
import sys
from pathlib import Path

from iced_x86 import CpuidFeature, Decoder, Encoder, Instruction, OpCodeInfo, OpCodeOperandKind, OpKind, Register

from perfkit.decode import code_names, form_name, simpler_forms

TABLES = Path(__file__).parents[2] / "perfkit" / "cores" / "tables"
BASE = """INTEL8086 INTEL186 INTEL286 INTEL386 INTEL486 X64 FPU FPU287 FPU387 CMOV MMX SSE SSE2 SSE3 SSSE3 SSE4_1 SSE4_2
POPCNT AVX AES PCLMULQDQ CX8 CMPXCHG16B FXSR XSAVE XSAVEOPT TSC RDTSCP CPUID MULTIBYTENOP PAUSE SYSCALL CLFSH CET_IBT
PREFETCHW MONITOR"""
HASWELL = f"{BASE} AVX2 FMA BMI1 BMI2 LZCNT MOVBE F16C FSGSBASE RDRAND RDSEED ADX CLFLUSHOPT XSAVEC"
AVX512 = f"{HASWELL} AVX512F AVX512VL AVX512BW AVX512DQ AVX512CD AVX512_VNNI CLWB"
SUNNY = f"""{AVX512} AVX512_VBMI AVX512_VBMI2 AVX512_BITALG AVX512_VPOPCNTDQ AVX512_IFMA GFNI VAES VPCLMULQDQ SHA
RDPID"""
ALDER = f"{HASWELL} AVX_VNNI GFNI VAES VPCLMULQDQ SHA RDPID CLWB WAITPKG MOVDIRI MOVDIR64B SERIALIZE"
CORES = {  # table -> (LLVM's -mcpu, prefix of its resource names, extensions that the core has, in iced-x86's names)
    "sandy_bridge": ("sandybridge", "SB", BASE),
    "skylake_x": ("skylake-avx512", "SKX", AVX512),
    "ice_lake": ("icelake-server", "ICX", SUNNY),
    "alder_lake_p": ("alderlake", "ADLP", ALDER),
    "zen3": ("znver3", "Zn3", f"{HASWELL} SSE4A CLWB CLZERO SHA VAES VPCLMULQDQ RDPID"),
    "zen4": ("znver4", "Zn4", f"{SUNNY} SSE4A CLZERO AVX512_BF16"),
}
COLUMNS = ("form", "opcode", "fused", "unfused", "latency", "memory_latency", "flags", "uses")
KINDS = {value: name for name, value in vars(OpCodeOperandKind).items() if isinstance(value, int)}
ENCODINGS = (0, 1, 2)  # legacy, VEX, EVEX
# The registers of each class that the built instructions use, by operand position.
CLASSES = {
    "R8": (Register.BL, Register.CL, Register.DL),
    "R16": (Register.BX, Register.CX, Register.DX),
    "R32": (Register.EBX, Register.ECX, Register.EDX),
    "R64": (Register.RBX, Register.RCX, Register.RDX),
    "MM": (Register.MM1, Register.MM2, Register.MM3),
    "XMM": (Register.XMM1, Register.XMM2, Register.XMM3, Register.XMM4, Register.XMM5),
    "YMM": (Register.YMM1, Register.YMM2, Register.YMM3, Register.YMM4, Register.YMM5),
    "ZMM": (Register.ZMM1, Register.ZMM2, Register.ZMM3, Register.ZMM4, Register.ZMM5),
    "K": (Register.K2, Register.K3, Register.K4),
}
FIXED = {name: getattr(Register, name) for name in ("AL", "AX", "EAX", "RAX", "CL", "DX", "ST0", "FS", "GS")}
STRINGS = {"SEG_RSI": OpKind.MEMORY_SEG_RSI, "ES_RDI": OpKind.MEMORY_ESRDI, "SEG_RDI": OpKind.MEMORY_SEG_RDI}
IMMEDIATES = {
    "IMM8": OpKind.IMMEDIATE8,
    "IMM16": OpKind.IMMEDIATE16,
    "IMM32": OpKind.IMMEDIATE32,
    "IMM64": OpKind.IMMEDIATE64,
    "IMM8SEX16": OpKind.IMMEDIATE8TO16,
    "IMM8SEX32": OpKind.IMMEDIATE8TO32,
    "IMM8SEX64": OpKind.IMMEDIATE8TO64,
    "IMM32SEX64": OpKind.IMMEDIATE32TO64,
    "IMM8_CONST_1": OpKind.IMMEDIATE8,
}
VSIB = {"X": Register.XMM6, "Y": Register.YMM6, "Z": Register.ZMM6}


def build(code, memory, same=False, mask=False, zeroing=False, broadcast=False, address=2):
    """Return one instruction of this encoding, or None where it cannot have these operands."""
    info = OpCodeInfo(code)
    instruction = Instruction()
    instruction.code = code
    has_memory = immediates = 0
    for index, kind in enumerate(info.op_kinds()):
        name = KINDS[kind]
        wants = (memory and "_OR_MEM" in name) or name in ("MEM", "MEM_MIB", "SIBMEM") or name.startswith("MEM_VSIB")
        if wants:
            has_memory += 1
            set_kind(instruction, index, OpKind.MEMORY)
            instruction.memory_base = Register.RAX
            if name.startswith("MEM_VSIB"):
                instruction.memory_index = VSIB[name[-1]]
                instruction.memory_index_scale = 4
            elif address > 1 or name in ("MEM_MIB", "SIBMEM"):
                instruction.memory_index = Register.RDI if address > 1 else Register.NONE
            instruction.memory_displacement = 64 if address > 2 else 0
            instruction.memory_displ_size = 1 if address > 2 else 0
        elif name in FIXED:
            set_kind(instruction, index, OpKind.REGISTER)
            set_register(instruction, index, FIXED[name])
        elif name in STRINGS:
            set_kind(instruction, index, STRINGS[name])
        elif name in IMMEDIATES:
            set_kind(instruction, index, OpKind.IMMEDIATE8_2ND if immediates and name == "IMM8" else IMMEDIATES[name])
            instruction.set_immediate_i32(index, 1) if name != "IMM64" else instruction.set_immediate_u64(
                index, 1 << 40
            )
            immediates += 1
        elif name.startswith("BR64"):
            set_kind(instruction, index, OpKind.NEAR_BRANCH64)
            instruction.near_branch64 = 0x1010
        elif name == "STI_OPCODE":
            set_kind(instruction, index, OpKind.REGISTER)
            set_register(instruction, index, Register.ST2)
        elif (registers := CLASSES.get(name.split("_")[0].rstrip("P13"))) is not None:
            first = 1 if info.op_count > 2 else 0
            pick = registers[0] if same and index >= first else registers[index % len(registers)]
            set_kind(instruction, index, OpKind.REGISTER)
            set_register(instruction, index, pick)
        else:
            return None
    if memory and not has_memory:
        return None
    if mask or info.require_op_mask_register:
        if not info.can_use_op_mask_register:
            return None
        instruction.op_mask = Register.K1
        if zeroing:
            if not info.can_use_zeroing_masking:
                return None
            instruction.zeroing_masking = True
    if broadcast:
        if not info.can_broadcast:
            return None
        instruction.is_broadcast = True
    return instruction


def set_kind(instruction, index, kind):
    if index < 4:
        setattr(instruction, f"op{index}_kind", kind)
    else:
        instruction.set_op_kind(index, kind)


def set_register(instruction, index, register):
    if index < 4:
        setattr(instruction, f"op{index}_register", register)
    else:
        instruction.set_op_register(index, register)


def encoded_forms():
    """Yield (form, bytes) of every form that encodes and decodes back to itself."""
    seen = set()
    for code, name in sorted(code_names().items()):
        if name in ("INVALID",) or name.startswith(("DECLARE", "ZERO_BYTES")):
            continue
        info = OpCodeInfo(code)
        if not info.mode64 or info.encoding not in ENCODINGS or info.must_be_cpl0 or not info.is_instruction:
            continue
        variants = itertools.product((False, True), (False, True), ("", "k", "z"), (False, True), (1, 2, 3))
        for memory, same, mask, broadcast, address in variants:
            is_lea = name.startswith("LEA_")
            if (address != 1 and not is_lea) or (same and (memory or mask or broadcast)):
                continue
            instruction = build(code, memory or is_lea, same, mask != "", mask == "z", broadcast, address)
            if instruction is None:
                continue
            try:
                encoder = Encoder(64)
                encoder.encode(instruction, 0x1000)
                data = encoder.take_buffer()
            except ValueError:
                continue
            back = next(iter(Decoder(64, data, ip=0x1000)))
            if back.code != code:
                continue
            form = form_name(back)
            if form not in seen:
                seen.add(form)
                yield form, data


def available(texts, extensions):
    """Return the forms whose every extension the core has: LLVM answers for others with another core's guess."""
    features = {value: name for name, value in vars(CpuidFeature).items() if isinstance(value, int)}
    codes = {name: code for code, name in code_names().items()}
    kept = {}
    for form, text in texts.items():
        instruction = Instruction()
        instruction.code = codes[form.split("/")[0]]
        if all(features[feature] in extensions for feature in instruction.cpuid_features()):
            kept[form] = text
    return kept


def without_repeats(out):
    """Drop a form that says the same as the form that would stand in for it (perfkit.decode.simpler_forms)."""
    rows = {row[0]: row for row in out}
    kept = []
    for row in out:
        stand_in = next((rows[form] for form in simpler_forms(row[0]) if form in rows), None)
        if stand_in is None or stand_in[2:] != row[2:]:
            kept.append(row)
    return kept


def disassemble(forms, suffix):
    """Return {form: AT&T text} by llvm-mc; a marker after each keeps the two lists aligned."""
    lines = []
    for index, (_, data) in enumerate(forms):
        lines.append(" ".join(f"0x{byte:02x}" for byte in data))
        lines.append(" ".join(f"0x{byte:02x}" for byte in b"\x0f\x1f\x80" + (0x1000000 + index).to_bytes(4, "little")))
    arguments = [f"llvm-mc{suffix}", "--disassemble", "--triple=x86_64", "-mattr=+avx512f"]
    run = subprocess.run(arguments, input="\n".join(lines), capture_output=True, text=True, check=False)
    texts, pending = {}, []
    for line in run.stdout.splitlines():
        text = line.split("#")[0].strip()
        if match := re.fullmatch(r"nopl\t(\d+)\(%rax\)", text):
            form = forms[int(match[1]) - 0x1000000][0]
            if len(pending) == 1:
                texts[form] = pending[0]
            pending = []
        elif text and not text.startswith("."):
            pending.append(text)
    return texts


ROW = re.compile(r"^\s*(\d+)\s+(\d+)\s+([\d.]+|-)\s(.{20,40}?)\s(\d+)\s+(.*)$")


def look_up(texts, cpu, suffix):
    """Return LLVM's resources {name: (units, subunits)} and {form: row} for the forms the core has."""
    arguments = [f"llvm-mca{suffix}", "-mtriple=x86_64", f"-mcpu={cpu}", "-instruction-tables=full",
                 "-resource-pressure=false", "-skip-unsupported-instructions=any"]  # fmt: skip
    resources, rows, refused = {}, {}, []
    todo = [list(texts)[start : start + 2000] for start in range(0, len(texts), 2000)]
    while todo:
        order = todo.pop()
        lines = []
        for index, form in enumerate(order):
            lines += [texts[form], f"nopl {0x1000000 + index}(%rax)"]
        run = subprocess.run(arguments, input="\n".join(lines) + "\n", capture_output=True, text=True, check=False)
        errors = {int(number) for number in re.findall(r"^<stdin>:(\d+):\d+: error", run.stderr, re.MULTILINE)}
        if errors:  # text that llvm-mc prints and llvm-mca cannot read: "movslq %ecx, %bx"
            refused += [form for index, form in enumerate(order) if 2 * index + 1 in errors]
            todo.append([form for index, form in enumerate(order) if 2 * index + 1 not in errors])
        elif run.returncode and len(order) > 1:  # a form that crashes llvm-mca: find it by halves
            todo += [order[: len(order) // 2], order[len(order) // 2 :]]
        elif run.returncode:
            refused += order
        else:
            parse_table(run.stdout, order, resources, rows)
    if refused:
        print(f"  {cpu}: llvm-mca cannot take {len(refused)} forms, such as {refused[0]}", file=sys.stderr)
    return resources, rows


def parse_table(text, order, resources, rows):
    pending, inside = [], False
    for line in text.splitlines():
        if match := re.match(r"\[\d+\]\s+- (\S+?):(\d+)\s*(.*)$", line):
            resources[match[1]] = (int(match[2]), [part.strip() for part in match[3].split(",") if part.strip()])
        elif line.startswith("[1]    [2]"):
            inside = True
        elif inside and line.strip():
            row = parse_row(line, resources)
            if match := re.search(r"nopl\t(\d+)\(%rax\)", line):
                if len(pending) == 1:
                    rows[order[int(match[1]) - 0x1000000]] = pending[0]
                pending = []
            else:
                pending.append(row)


def parse_row(line, resources):
    uops, latency, throughput = line.split()[:3]
    middle = line[: line.index("\t")] if "\t" in line else line
    flags = line[21:42]
    match = re.match(r"^\s*\d+\s+\d+\s+[\d.-]+\s+[* U]*?(\d+)\s+(\S.*)$", middle)
    if match is None:
        raise SystemExit(f"cannot read llvm-mca's row: {line!r}")
    tokens = match[2].split()
    uses, opcode = {}, tokens[0]
    if re.split(r"[,\[]", tokens[0])[0] in resources:
        opcode = tokens[1]
        for name, cycles in re.findall(r"(\w+(?:\.\w+)*)(?:\[([\d,]+)\])?", tokens[0]):
            numbers = [int(part) for part in cycles.split(",")] if cycles else [1]
            uses[name] = numbers[0] if len(numbers) == 1 else numbers[1] - numbers[0]
    return {
        "uops": int(uops),
        "latency": int(latency),
        "throughput": float(throughput) if throughput != "-" else 0.0,
        "load": "*" in flags[:7],
        "store": "*" in flags[7:14],
        "bypass": int(match[1]),
        "uses": uses,
        "opcode": opcode,
    }


def unit_sets(resources, prefix):
    """Return {LLVM's name: frozenset of our port names}."""
    sets = {}
    for name, (count, parts) in resources.items():
        if not parts:
            plain = port_name(name, prefix)
            digits = re.search(r"\d+$", plain)
            if count == 1:
                sets[name] = frozenset([plain])
            elif digits and len(digits[0]) == count:  # SBPort23, Zn4FP45: one name for several ports
                sets[name] = frozenset(plain[: digits.start()] + digit for digit in digits[0])
            else:
                sets[name] = frozenset(f"{plain}.{index}" for index in range(count))
    for name, (_, parts) in resources.items():
        if parts:
            sets[name] = frozenset().union(*(sets[part] for part in parts))
    return sets


def port_name(name, prefix):
    name = name.removeprefix(prefix)
    if match := re.fullmatch(r"Port([\d_]+)", name):
        digits = match[1]
        numbers = digits.split("_") if prefix == "ADLP" else list(digits)  # ADLP: Port00_01_11; the others: Port015
        return "p" + "".join(f"{int(number):X}" for number in numbers)
    return name


def group_name(units):
    """p0, p1 -> p01; FP0, FP1 -> FP01; units of several kinds are joined by +."""
    by_stem = collections.defaultdict(list)
    for unit in sorted(units):
        match = (
            re.fullmatch(r"(.*?)\.?([\dA-F]?)", unit) if re.fullmatch(r"p[\dA-F]", unit) or unit[-1].isdigit() else None
        )
        stem, digit = (match[1], match[2]) if match else (unit, "")
        by_stem[stem].append((unit, digit))
    names = []
    for stem, members in sorted(by_stem.items()):
        dotted = all("." in unit for unit, _ in members)
        names.append(stem if dotted else stem + "".join(digit for _, digit in members))
    return "+".join(names)


def cumulated(row, sets):
    """Return {unit set: largest use}: groups that LLVM lists under several names are one."""
    found = {}
    for name, uses in row["uses"].items():
        found[sets[name]] = max(found.get(sets[name], 0), uses)
    return found


def exclusive(inclusive):
    """Moebius inversion over the subset order: the uops that go to exactly this group."""
    base = {}
    for units in sorted(inclusive, key=len):
        left = inclusive[units] - sum(count for other, count in base.items() if other < units)
        if left > 0:
            base[units] = left
    return base


def closed_groups(rows, sets, everything):
    """Return the groups in use, and the unions of overlapping ones that LLVM lacks (Gus, [20]'s conjunctive form)."""
    groups = {units for row in rows.values() for units in exclusive(cumulated(row, sets))} - {everything}
    growing = True
    while growing:
        unions = {a | b for a, b in itertools.combinations(groups, 2) if a & b and not (a <= b or b <= a)} - groups
        growing = bool(unions - {everything}) and len(groups) < 64
        groups |= unions - {everything}
    return groups


def check(rows, resources):
    """Every row: max(usage / units) over LLVM's own groups equals its reciprocal throughput."""
    bad = 0
    for form, row in rows.items():
        largest = max((uses / resources[name][0] for name, uses in row["uses"].items()), default=0.0)
        if row["uses"] and abs(largest - row["throughput"]) > 0.0051:
            bad += 1
            print(f"  throughput differs: {form} LLVM {row['throughput']} tables {largest:.3f}", file=sys.stderr)
    return bad


def fused_uops(row, prefix, unfused, loads):
    """Slots at rename. LLVM counts macro-operations on AMD, and unfused uops on Intel (not on every row)."""
    if prefix.startswith("Zn"):
        return row["uops"]
    fused = unfused
    if row["load"] and loads == 1 and unfused > 1:
        fused -= 1
    if row["store"] and unfused > 1:
        fused -= 1
    if loads > 1:  # gathers: microcoded, LLVM's own count
        fused = row["uops"]
    return max(fused, 1)


LOADS = {"SB": "p23", "SKX": "p23", "ICX": "p23", "ADLP": "p23A", "Zn3": "Load", "Zn4": "Load"}


def table(rows, resources, prefix):
    """Return the groups and the rows of one core's table."""
    sets = unit_sets(resources, prefix)
    any_ports = next((sets[name] for name in sets if name.endswith("PortAny")), frozenset(["-"]))
    groups = closed_groups(rows, sets, any_ports)
    load = next(units for units in sets.values() if group_name(units) == LOADS[prefix])
    integer_load, vector_load = rows["MOV_R64_RM64/m"]["latency"], {}
    for width in ("XMM", "YMM", "ZMM"):
        form = {
            "XMM": "VEX_VMOVUPS_XMM_XMMM128/m",
            "YMM": "VEX_VMOVUPS_YMM_YMMM256/m",
            "ZMM": "EVEX_VMOVUPS_ZMM_K1Z_ZMMM512/m",
        }
        vector_load[width] = rows.get(form[width], {}).get("latency", 0)
    out = []
    for form, row in sorted(rows.items()):
        inclusive = cumulated(row, sets)
        base = exclusive(inclusive)
        uses = {}
        for group in groups:
            total = sum(count for units, count in base.items() if units <= group)
            if total:
                uses[group_name(group)] = total
        ports = sum(count for units, count in base.items() if not any("Divider" in unit for unit in units))
        unfused = (
            inclusive.get(any_ports, ports) if any_ports != frozenset(["-"]) else max(row["uops"], 1 if uses else 0)
        )
        if not uses:
            unfused = 0
        latency, memory = row["latency"], ""
        if row["load"]:
            counterpart = rows.get(form.replace("/m", ""))
            load_latency = vector_load.get(vector_width(form), 0) or integer_load
            memory = max(row["latency"] - load_latency, 0)
            latency = counterpart["latency"] if counterpart else min(row["bypass"], memory) if memory else 0
            if counterpart and memory and abs(memory - latency) <= 2:
                memory = latency  # LLVM adds another load latency for some forms than its own loads have
        elif row["store"]:
            latency = 0  # data to memory: what follows it is the core's store-forward latency
        flags = "L" * row["load"] + "S" * row["store"]
        loads = base.get(load, 0) if row["load"] else 0
        fused = fused_uops(row, prefix, unfused if any_ports != frozenset(["-"]) else row["uops"], loads)
        packed = " ".join(f"{name}:{count:g}" for name, count in sorted(uses.items()))
        out.append((form, row["opcode"], fused, unfused, latency, memory, flags, packed))
    return groups, out


def vector_width(form):
    match = re.search(r"_(XMM|YMM|ZMM|MM)", form)
    return match[1].replace("MM", "MM") if match and match[1] != "MM" else ("XMM" if match else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cores", nargs="*", default=[])
    parser.add_argument("--llvm-suffix", default="-22")
    parser.add_argument("--ports", action="store_true")
    options = parser.parse_args()
    version = subprocess.run(
        [f"llvm-mca{options.llvm_suffix}", "--version"], capture_output=True, text=True, check=True
    )
    version = re.search(r"LLVM version (\S+)", version.stdout)[1]
    forms = list(encoded_forms())
    texts = disassemble(forms, options.llvm_suffix)
    print(f"LLVM {version}: {len(forms)} forms encoded, {len(texts)} disassembled")
    TABLES.mkdir(parents=True, exist_ok=True)
    failed = 0
    for name in options.cores or CORES:
        cpu, prefix, extensions = CORES[name]
        resources, rows = look_up(available(texts, extensions.split()), cpu, options.llvm_suffix)
        bad = check(rows, resources)
        failed += bad
        groups, out = table(rows, resources, prefix)
        if options.ports:
            print(f"# {name}")
            for group in sorted(groups, key=lambda g: (len(g), group_name(g))):
                units = ", ".join(f'"{unit}"' for unit in sorted(group))
                print(f'"{group_name(group)}" = {{ units = [{units}], source = "llvm" }}')
            continue
        text = io.StringIO()
        text.write(
            f"# {name}: LLVM {version}, -mcpu={cpu}; Apache-2.0 WITH LLVM-exception; data/make/instruction_tables.py\n"
        )
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(COLUMNS)
        out = without_repeats(out)
        writer.writerows(out)
        data = gzip.compress(text.getvalue().encode(), 9, mtime=0)
        (TABLES / f"{name}.csv.gz").write_bytes(data)
        print(
            f"{name}: {len(out)} forms, {len(groups)} port groups, {len(data)} bytes, throughput differs on {bad} rows"
        )
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
