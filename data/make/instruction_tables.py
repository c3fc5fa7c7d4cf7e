"""Generate the bundled instruction tables (perfkit/machine/cores/tables/*.csv.gz) from LLVM's scheduling models.

    .venv/bin/python data/make/instruction_tables.py [CORE ...] [--llvm-suffix=-22] [--ports]

Needs llvm-mc and llvm-mca >= 21 (Debian: llvm-22). Every encoding that iced-x86 knows in 64-bit mode is built with
register and memory operands, encoded, disassembled by llvm-mc and looked up by llvm-mca -instruction-tables=full, which
prints each instruction's cumulated use of every group of ports. On every row max(usage / units) must equal the
reciprocal throughput that LLVM prints. --ports prints the [ports] section of each core file instead.

LLVM is Apache-2.0 WITH LLVM-exception; the tables say which version they come from.
"""

import argparse
import csv
import gzip
import io
import itertools
import re
import subprocess
import sys
from pathlib import Path

from iced_x86 import CpuidFeature, Decoder, Encoder, Instruction, OpCodeInfo, OpCodeOperandKind, OpKind, Register

from perfkit.machine.llvm_mca import PLAIN_LOADS, Model, closed_groups, group_name, look_up, resource_prefix, uses_of
from perfkit.trace.x86 import code_names, form_name, simpler_forms

TABLES = Path(__file__).parents[2] / "perfkit" / "machine" / "cores" / "tables"
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
    "golden_cove": (
        "sapphirerapids",
        "SPR",
        f"{SUNNY} AVX512_FP16 AVX512_BF16 AVX_VNNI WAITPKG MOVDIRI MOVDIR64B SERIALIZE",
    ),
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


def without_repeats(out, simpler=simpler_forms):
    """Drop a form that says the same as the form that would stand in for it."""
    rows = {row[0]: row for row in out}
    kept = []
    for row in out:
        stand_in = next((rows[form] for form in simpler(row[0]) if form in rows), None)
        if stand_in is None or stand_in[2:] != row[2:]:
            kept.append(row)
    return kept


def llvm_version(suffix):
    found = subprocess.run([f"llvm-mca{suffix}", "--version"], capture_output=True, text=True, check=True)
    return re.search(r"LLVM version (\S+)", found.stdout)[1]


def write_table(name, title, rows):
    """Write a core's table; return its size in bytes."""
    text = io.StringIO()
    text.write(f"# {name}: {title}\n")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(rows)
    data = gzip.compress(text.getvalue().encode(), 9, mtime=0)
    TABLES.mkdir(parents=True, exist_ok=True)
    (TABLES / f"{name}.csv.gz").write_bytes(data)
    return len(data)


def print_ports(groups, source):
    """Print the [ports] section of a core file."""
    for group in sorted(groups, key=lambda g: (len(g), group_name(g))):
        units = ", ".join(f'"{unit}"' for unit in sorted(group))
        print(f'"{group_name(group)}" = {{ units = [{units}], source = "{source}" }}')


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


def check(rows, resources):
    """Every row: max(usage / units) over LLVM's own groups equals its reciprocal throughput."""
    bad = 0
    for form, row in rows.items():
        largest = max((uses / resources[name][0] for name, uses in row.uses.items()), default=0.0)
        if row.uses and abs(largest - row.throughput) > 0.0051:
            bad += 1
            print(f"  throughput differs: {form} LLVM {row.throughput} tables {largest:.3f}", file=sys.stderr)
    return bad


def table(rows, resources):
    """Return the groups and the rows of one core's table."""
    model = Model(resources, {form: rows[form] for form in PLAIN_LOADS if form in rows})
    groups = closed_groups(rows.values(), model.sets, model.everything)
    named = {group_name(group): group for group in groups}
    out = []
    for form, row in sorted(rows.items()):
        counterpart = rows.get(form.replace("/m", ""))
        found = model.figures(form, row, counterpart.latency if counterpart else None)
        flags = "L" * row.load + "S" * row.store
        packed = " ".join(f"{name}:{count:g}" for name, count in sorted(uses_of(found.uses, named).items()))
        memory = "" if found.memory_latency is None else found.memory_latency
        out.append((form, row.opcode, found.fused, found.unfused, found.latency, memory, flags, packed))
    return groups, out


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cores", nargs="*", default=[])
    parser.add_argument("--llvm-suffix", default="-22")
    parser.add_argument("--ports", action="store_true")
    options = parser.parse_args()
    version = llvm_version(options.llvm_suffix)
    forms = list(encoded_forms())
    texts = disassemble(forms, options.llvm_suffix)
    print(f"LLVM {version}: {len(forms)} forms encoded, {len(texts)} disassembled")
    failed = 0
    for name in options.cores or CORES:
        cpu, prefix, extensions = CORES[name]
        answer = look_up(available(texts, extensions.split()), cpu, f"llvm-mca{options.llvm_suffix}")
        resources, rows = answer.resources, answer.rows
        if resource_prefix(resources) != prefix:
            raise SystemExit(f"{cpu}: LLVM's resources begin with {resource_prefix(resources)}, not with {prefix}")
        if answer.refused:
            print(f"  {cpu}: llvm-mca cannot take {len(answer.refused)} forms, such as {answer.refused[0]}")
        bad = check(rows, resources)
        failed += bad
        groups, out = table(rows, resources)
        if options.ports:
            print(f"# {name}")
            print_ports(groups, "llvm")
            continue
        out = without_repeats(out)
        title = f"LLVM {version}, -mcpu={cpu}; Apache-2.0 WITH LLVM-exception; data/make/instruction_tables.py"
        size = write_table(name, title, out)
        print(f"{name}: {len(out)} forms, {len(groups)} port groups, {size} bytes, throughput differs on {bad} rows")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
