"""Measure vector forms with an operand in memory, alone and beside shuffles, and print those of which a core is wrong.

    .venv/bin/python data/make/memory_forms.py zen5 [--seconds 600] [--table forms.csv]

data/make/measure_forms.py measures forms of registers, and a core's table makes their sisters with memory of these.
That is wrong where a load does the work (broadcasts), where one leaves an operation behind (parts of a register), and
where nothing crosses from the integer units (conversions). Beside three shuffles, which all four vector pipes of Zen 5
take, a form without a vector operation takes .75 cycles in all, and a quarter more for each operation that it has. What
differs by more than 8 % belongs into perfkit/machine/cores/corrections. Divisions and roots are left out: they depend
on their values. Needs a host of that core; some two minutes; the same command resumes where it stopped.
"""

import argparse
import csv
import sys
import time
from pathlib import Path

import perfkit as pk
from perfkit.collectors.host.code import flags, processor
from perfkit.collectors.tracer.clone import encoded
from perfkit.collectors.whole_core.bodies import repeated
from perfkit.collectors.whole_core.candidates import memory_forms
from perfkit.collectors.whole_core.checkpoint import Checkpoint
from perfkit.collectors.whole_core.figures import Course, Timing
from perfkit.machine.instruction_tables import InstructionTables

SHUFFLES = ("VEX_VUNPCKLPD_XMM_XMM_XMMM128", 3)
OFF = 0.08
LONGEST = 4096  # bytes of a block that is simulated
PARTIAL = Path(__file__).parents[2] / "perfkit-out" / "memory-forms.partial"


def candidates(core: pk.Microarchitecture) -> list[str]:
    """Return the core's vector forms with an operand in memory that this host runs."""
    rows = InstructionTables.load(core).layers[-1].rows
    found = [form for form in memory_forms(rows, flags()) if any(kind in form for kind in ("XMM", "YMM", "ZMM"))]
    return [form for form in found if "DIV" not in form and "SQRT" not in form]


def code(figure: Timing) -> str:
    """Return a mixture's instructions in hexadecimal digits."""
    return encoded(repeated(figure.counts)[0], 0x1000).hex()


def simulated(core: pk.Microarchitecture, figures: list[Timing]) -> list[float]:
    """Return the cycles of each mixture on the core."""
    found = pk.Gus(core).blocks([code(figure) for figure in figures]).to_frame()["unrolled"]
    return [float(cycles) / repeated(figure.counts)[1] for cycles, figure in zip(found, figures, strict=True)]


def main() -> None:
    """Measure, simulate and print."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("core")
    options.add_argument("--seconds", type=float, default=600)
    options.add_argument("--table", type=Path, help="write all figures there")
    chosen = options.parse_args()
    core = pk.Microarchitecture.load(chosen.core)
    figures = [Timing(counts) for form in candidates(core) for counts in (((form, 1),), ((form, 1), SHUFFLES))]
    PARTIAL.parent.mkdir(exist_ok=True)
    with Checkpoint(PARTIAL, {"processor": processor()}) as kept:
        found = Course(kept, time.monotonic() + chosen.seconds, patience=chosen.seconds).measured(figures)
    known = [one for one in figures if found.get(one) and len(code(one)) <= 2 * LONGEST]
    rows = [
        (one.key.split(" #")[0], round(found[one], 3), round(cycles, 3))
        for one, cycles in zip(known, simulated(core, known), strict=True)
    ]
    if chosen.table:
        with chosen.table.open("w", newline="") as file:
            csv.writer(file).writerows([("forms", "measured", core.name), *rows])
    wrong = [row for row in rows if abs(row[2] / row[1] - 1) > OFF]
    for forms, measured, cycles in wrong:
        print(f"{forms}: measured {measured}, {core.name} {cycles}")
    print(
        f"{len(wrong)} of {len(rows)} mixtures are off by more than {OFF:.0%}; {len(figures) - len(rows)} not measured"
    )


if __name__ == "__main__":
    sys.exit(main())
