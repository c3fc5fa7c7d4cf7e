"""Generate the Cortex-A72's table (perfkit/machine/cores/tables/cortex_a72.csv.gz) from LLVM's scheduling model.

    .venv/bin/python data/make/instruction_tables_aarch64.py [--llvm-suffix=-22]

Needs llvm-mc and llvm-mca >= 21 (Debian: llvm-22) and capstone 6 (perfkit[arm]). Armv8-A's encodings are swept: every
value of the bits that say what is done, with fixed registers. perfkit's decoder names each encoding's form; llvm-mc
disassembles a few encodings of each, llvm-mca -mcpu=cortex-a72 says what they cost. Three checks, each row:

- max(usage / units) equals the reciprocal throughput that LLVM prints;
- all encodings of a form cost the same (else the form's name lacks something);
- the decoder's text is LLVM's, and it finds the registers that the text names.

LLVM schedules the Cortex-A72 as a Cortex-A57 (AArch64SchedA57.td). LLVM is Apache-2.0 WITH LLVM-exception.
"""

import argparse
import itertools
import re
import subprocess
import sys

from instruction_tables import check, llvm_version, without_repeats, write_table

from perfkit.errors import DataError, UnavailableError
from perfkit.machine.core import Microarchitecture
from perfkit.machine.llvm_mca import cumulated, exclusive, look_up, resource_prefix, unit_sets, uses_of
from perfkit.trace.aarch64 import FLAGS, decode_one, memory_access, simpler_forms

CPU = "cortex-a72"
SAMPLES = 4  # encodings of each form that must cost the same
RD, RN = 0, 1 << 5
# What the sweep leaves out: branches, and the instructions of the system that compiled code holds.
OTHERS = """b .+8;bl .+8;br x1;blr x1;ret;b.eq .+8;cbz x0, .+8;cbz w0, .+8;cbnz x0, .+8;cbnz w0, .+8;tbz x0, #40, .+8
tbz w0, #3, .+8;tbnz x0, #40, .+8;tbnz w0, #3, .+8;nop;dmb ish;dsb ish;isb;mrs x0, nzcv;msr nzcv, x0
mrs x0, tpidr_el0;mrs x0, fpcr;msr fpcr, x0;svc #0;dc zva, x0;clrex;adr x0, .+8;adrp x0, .+4096;yield"""


def sweep():
    """Yield the words of the sweep; bits 28-25 choose the group."""
    top = [value << 21 for value in range(2048)]
    low = [value << 10 for value in range(64)]
    for head in top:
        group = head >> 25 & 15
        if group & 7 == 7:  # vectors and floating point
            seconds = range(32)
        elif group & 5 == 4:  # loads and stores; 0 and 31 are opcodes of some
            seconds = (2, 0, 31)
        elif group & 7 == 5:  # on registers; 0 and 1 are opcodes of some
            seconds = (0, 1, 2)
        elif group & 14 == 8:  # with an immediate
            seconds = (2,)
        else:
            continue
        for second, middle in itertools.product(seconds, low):
            yield head | second << 16 | middle | RN | RD
        if group & 7 == 7:  # comparisons have an opcode where others have a destination, fmov's immediate has zeros
            yield from (head | 2 << 16 | middle for middle in low)
            for second, middle, opcode in itertools.product((0, 2), (1, 8), (8, 16, 24)):
                yield head | second << 16 | middle << 10 | RN | opcode


def encoded_forms(others):
    """Return {form: [its first encodings]}."""
    found = {}
    for word in itertools.chain(others, sweep()):
        data = word.to_bytes(4, "little")
        try:
            form = decode_one(data, 0x10000).form
        except (DataError, UnavailableError):  # no instruction, or one of an extension
            continue
        kept = found.setdefault(form, [])
        if len(kept) < SAMPLES or (word & 0x7F == 0 and len(kept) < 2 * SAMPLES):
            kept.append(data)
    return found


def assemble(lines, suffix):
    """Return the words of instructions written in assembly; what a linker would fill in ("A") is 0."""
    arguments = [f"llvm-mc{suffix}", "-triple=aarch64", f"-mcpu={CPU}", "-show-encoding"]
    text = subprocess.run(arguments, input="\n".join(lines), capture_output=True, text=True, check=True).stdout
    found = []
    for match in re.finditer(r"encoding: \[(.*)\]", text):
        parts = [part.replace("'A'", "").replace("A", "0") for part in match[1].split(",")]
        found.append(sum(int(part, 0) << (8 * k) for k, part in enumerate(parts)))
    return found


def marker(index):
    return (0xD4200000 | index << 5).to_bytes(4, "little")  # brk #index


def disassemble(encodings, suffix):
    """Return {encoding: text} by llvm-mc, of those that the core has."""
    arguments = [f"llvm-mc{suffix}", "--disassemble", "-triple=aarch64", f"-mcpu={CPU}"]
    texts = {}
    for start in range(0, len(encodings), 10000):
        part = encodings[start : start + 10000]
        lines = [" ".join(f"0x{byte:02x}" for byte in d) for k, e in enumerate(part) for d in (e, marker(k))]
        run = subprocess.run(arguments, input="\n".join(lines), capture_output=True, text=True, check=False)
        pending = []
        for line in run.stdout.splitlines():
            text = line.split("//")[0].strip()
            if match := re.fullmatch(r"brk\t#(0x[0-9a-f]+|\d+)", text):
                if len(pending) == 1:
                    texts[part[int(match[1], 0)]] = pending[0]
                pending = []
            elif text and not text.startswith("."):
                pending.append(text)
    return texts


def registers_named(text):
    """Return the numbers of the registers in a line of assembly (the zero register is none)."""
    found = set()
    for kind, number in re.findall(r"\b([xwbhsdqv])(\d+)\b", text.partition("\t")[2]):
        found.add(int(number) + (32 if kind in "bhsdqv" else 0))
    return found | ({31} if re.search(r"\bw?sp\b", text) else set())


def compare_texts(texts):
    """Every row: decoder and LLVM print the same (but for targets relative to the instruction) and name the same."""
    bad = 0
    for data, text in texts.items():
        i = decode_one(data, 0x10000)
        link = {30} if i.branch else set()
        mine = {*i.address, *i.data, *i.written} - {FLAGS} - link
        relative = i.branch or i.form.endswith("/literal") or i.mnemonic in ("ADR", "ADRP")
        if mine != registers_named(text) - link or (plain(text) != plain(i.text) and not relative):
            bad += 1
            print(f"  decoded differently: {text!r}, {i.text!r}, registers {sorted(mine)}", file=sys.stderr)
    return bad


def plain(text):
    return re.sub(r"0x[0-9a-f]+", lambda match: str(int(match[0], 16)), "".join(text.lower().split()))


def table(samples, rows, resources):
    """Return the table's rows, and how many forms have encodings that cost different things."""
    sets = unit_sets(resources, resource_prefix(resources))
    names = {"".join(sorted({unit.split(".")[0] for unit in units})): units for units in sets.values()}
    core = Microarchitecture.load("cortex_a72")
    first = core.value("L1_latency"), core.value("L1_vector_latency")
    out, ambiguous = [], 0
    for form, encodings in sorted(samples.items()):
        known = [(data, rows[data]) for data in encodings if data in rows]
        if not known:
            continue
        figures = {cost(form, decode_one(data), row, sets, names, first) for data, row in known}
        if len(figures) > 1:
            ambiguous += 1
            print(f"  {form} costs different things: {sorted(figures)}", file=sys.stderr)
        out.append((form, known[0][1].opcode, *cost(form, decode_one(known[0][0]), known[0][1], sets, names, first)))
    return out, ambiguous


def cost(form, instruction, row, sets, names, first):
    """Return fused, unfused, latency, memory_latency, flags and uses of one row."""
    base = exclusive(cumulated(row, sets))
    packed = " ".join(f"{name}:{n:g}" for name, n in sorted(uses_of(base, names).items()))
    loads, stores = memory_access(form)
    merges = instruction.merges
    results = set(instruction.written) - {instruction.updated}
    # What is accumulated may come late: LLVM's "bypass latency" is the one from there.
    latency, memory = (min(row.bypass, row.latency) if merges or "/accumulate" in form else row.latency), ""
    if loads:
        vector = any(32 <= register < FLAGS for register in instruction.written)
        memory = max(row.latency - int(first[vector]), 0)
        latency = memory if merges else 0
    elif stores:
        latency = row.latency if results else 0  # data to memory: what follows is the store-forward latency
    # The core dispatches uops, not instructions: one slot each.
    return max(1, row.uops), row.uops if packed else 0, latency, memory, "L" * loads + "S" * stores, packed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llvm-suffix", default="-22")
    options = parser.parse_args()
    version = llvm_version(options.llvm_suffix)
    samples = encoded_forms(assemble(OTHERS.replace("\n", ";").split(";"), options.llvm_suffix))
    encodings = [data for kept in samples.values() for data in kept]
    texts = disassemble(encodings, options.llvm_suffix)
    print(f"LLVM {version}: {len(samples)} forms encoded, {len(texts)} of {len(encodings)} encodings are {CPU}'s")
    different = compare_texts(texts)
    answer = look_up(texts, CPU, f"llvm-mca{options.llvm_suffix}", "aarch64", seconds=600, batch=4000)
    resources, rows = answer.resources, answer.rows
    bad = check({texts[data]: row for data, row in rows.items()}, resources)
    out, ambiguous = table(samples, rows, resources)
    kept = without_repeats(out, simpler_forms)
    title = (
        f"LLVM {version}, -mcpu={CPU} (the Cortex-A57's model); Apache-2.0 WITH LLVM-exception; "
        "data/make/instruction_tables_aarch64.py"
    )
    size = write_table("cortex_a72", title, kept)
    print(
        f"cortex_a72: {len(out)} forms, {len(kept)} rows, {size} bytes; of {len(rows)} encodings looked up, "
        f"throughput differs on {bad}, text or registers on {different}; {ambiguous} forms cost different things"
    )
    return bool(bad or different or ambiguous)


if __name__ == "__main__":
    sys.exit(main())
