"""Measure loops of a few instructions on this host: what tests/machine/test_microbenchmarks.py holds a core's model to.

    .venv/bin/python data/make/measure_loops.py zen3 [--like zen4] [--cpu 1]      # about a minute

Writes tests/machine/CORE_loops.csv: the loops of another core's file (those that this host can run), in core cycles of
a turn of the instructions, ``dec`` and ``jnz``: the median of three, apart from one another. The loops' registers hold
addresses 192 bytes apart in one page, as the test's traces have them. Needs a host of that core, GNU as, and no
hardware counters (perfkit.collectors.host.bench).
"""

import argparse
import csv
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from iced_x86 import Code, Decoder, Instruction, MemoryOperand, Register, RegisterInfo

from perfkit.collectors.host import code as host_code
from perfkit.collectors.host.bench import Bench
from perfkit.errors import UnavailableError

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.simulators.assembled import assemble

LOOPS = Path(__file__).parents[2] / "tests" / "machine"
PASSES = 3
AREA = 1 << 20  # bytes
HELD = (
    "RAX",
    "RCX",
    "RDX",
    "RBP",
    "R8",
    "R9",
    "R10",
    "R11",
    "R12",
    "R13",
    "R14",
)  # rsi is the memory; RBX, an index, stays 1


def before(body: str) -> list[Any]:
    """Return what puts addresses into the registers, and makes vectors' upper halves known where SSE is timed."""
    found = [
        Instruction.create_reg_mem(
            Code.LEA_R64_M,
            getattr(Register, name),
            MemoryOperand(Register.RSI, displ=0x100 + 192 * RegisterInfo(getattr(Register, name)).number, displ_size=8),
        )
        for name in HELD
    ]
    first = [word.split()[0] for word in body.split(";")]
    if "mm" in body and not any(word.startswith("v") for word in first):
        found.insert(0, Instruction.create(Code.VEX_VZEROUPPER))
    return found


def cycles(bench: Bench, body: str) -> float:
    """Return the core cycles of one turn."""
    text = body.replace(";", "\n").replace("rdi", "r14").replace("edi", "r14d")  # rdi counts here
    decoded = list(Decoder(64, assemble(text), ip=0x1000))
    word = (bench.base - bench.data.ctypes.data) // 8 + 0x100 // 8
    bench.data[word] = bench.base + 0x100  # RAX points to itself, for chains of loads
    return bench.cycles(decoded, 1, before(body))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("core")
    parser.add_argument("--like", default="zen4", help="the core whose loops to measure")
    parser.add_argument("--cpu", type=int, default=0)
    options = parser.parse_args()
    os.sched_setaffinity(0, {options.cpu})
    rows = list(csv.DictReader((LOOPS / f"{options.like}_loops.csv").read_text().splitlines()[1:]))
    missing = {"zmm", "k1"} if "avx512f" not in host_code.flags() else set()
    rows = [row for row in rows if "call" not in row["asm"] and not any(word in row["asm"] for word in missing)]
    bench = Bench(9)
    bench.data = np.zeros(AREA // 8, dtype=np.uint64)  # a loop may walk on through memory
    bench.base = (bench.data.ctypes.data + 4095) & ~4095
    found: dict[str, list[float]] = {row["name"]: [] for row in rows}
    for _ in range(PASSES):
        for row in rows:
            try:
                found[row["name"]].append(cycles(bench, row["asm"]))
            except UnavailableError as error:
                print(f"{row['name']}: {error}", file=sys.stderr)
    info = host_code.cpuinfo()
    host = f"{info.get('model name')} (family {info.get('cpu family')}, model {info.get('model')})"
    path = LOOPS / f"{options.core}_loops.csv"
    with path.open("w", newline="") as file:
        file.write(
            f"# {host}, KVM guest, no counters, {time.strftime('%Y-%m-%d')}; "
            "cycles of a turn of the instructions, dec r15, jnz\n"
        )
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["name", "asm", "cycles"])
        for row in rows:
            if len(found[row["name"]]) == PASSES:
                writer.writerow([row["name"], row["asm"], f"{np.median(found[row['name']]):.2f}"])
    spread = max(max(x) - min(x) for x in found.values() if x)
    print(
        f"{path}: {sum(len(x) == PASSES for x in found.values())} of {len(rows)} loops; "
        f"passes differ by up to {spread:.2f} cycles"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
