"""What instructions cost on Raptor Cove, against every form that a host of that core measured."""

import csv
import re
from functools import cache
from pathlib import Path

import numpy as np

from perfkit.machine.core import Microarchitecture
from perfkit.machine.instruction_tables import InstructionTables

MEASURED = Path(__file__).parents[2] / "data" / "make" / "measured" / "raptor_cove.csv"
# Chains that do not show the latency of the table: through the operand that a conversion, an insertion or a shift by a
# register keeps; additions that Gus forwards earlier, or adds while renaming; roots, which end at those of 1; moves.
OTHER_CHAINS = re.compile(
    r"CVT\w*SI2|CVTS[SDH]2S[SDH]|PINSR|(PS[RL]L|PSRA)[DQW]_\w*XMMM128$|(ADD|SUB|ADDSUB)[PS][SD]_|SQRT|MOV|XCHG"
    r"|(ADD|SUB)_RM64_IMM|(INC|DEC)_RM64"
)
# Each waits for the one before it: through AX or the flags.
DEPENDENT = re.compile(r"CMPXCHG|I?MUL_RM8")


@cache
def errors(what: str) -> dict[str, float]:
    """Form -> relative error of the model's latency or cycles per instruction."""
    core = Microarchitecture.load("raptor_cove")
    tables = InstructionTables.load(core, look_up=False)
    found = {}
    for row in csv.DictReader(MEASURED.read_text().splitlines()[1:]):
        truth = float(row[what] or 0)
        if truth < 0.15 or (OTHER_CHAINS if what == "latency" else DEPENDENT).search(row["form"]):
            continue
        form = tables.form(row["form"])
        busy = max((count * core.resource(port).inverse_throughput for port, count in form.uses.items()), default=0)
        model = form.latency if what == "latency" else max(busy, form.fused_uops / core.value("front_end"))
        found[row["form"]] = model / truth - 1
    return found


def test_latencies_are_those_measured():
    assert len(found := errors("latency")) > 1800
    assert {form for form, error in found.items() if abs(error) > 0.1} == set()
    assert np.median(np.abs(list(found.values()))) < 0.005


def test_throughputs_are_those_measured():
    found = errors("throughput")
    assert len(found) > 2400
    off = {form for form, error in found.items() if abs(error) > 0.15}
    assert len(off) < 0.01 * len(found), off
    assert np.median(np.abs(list(found.values()))) < 0.005
