"""Measure every instruction form that this host runs: the raw figures behind a core's measured rows.

    .venv/bin/python data/make/measure_forms.py zen5 [--cpu 1]      # about a minute

Writes data/make/measured/CORE.csv, which data/make/zen_tables.py merges into the core's table. Needs a host of that
core, and no hardware counters: everything is timed with the time stamp counter (perfkit.collectors.host.bench). Per
form, in cycles: latency (operand to result), throughput (cycles per instruction, of independent ones), and with_add,
with_mul, with_shuffle: the time of a pair of this form and a floating-point addition, multiplication or shuffle. Two
forms that share their ports take the sum of their times, two that do not the larger: that finds the ports of a vector
form. Only microbenchmarks, no kernel, go into these figures.
"""

import argparse
import csv
import json
import os
import platform
import sys
import time
from pathlib import Path

import numpy as np

from perfkit.collectors.host import code as host_code
from perfkit.collectors.host.bench import Bench
from perfkit.collectors.whole_core.candidates import measurable
from perfkit.errors import PerfkitError
from perfkit.machine.core import Microarchitecture
from perfkit.machine.instruction_tables import InstructionTables

PASSES = 5
FOLDER = Path(__file__).parent / "measured"
COLUMNS = ("form", "latency", "throughput", "with_add", "with_mul", "with_shuffle")
PARTNERS = {
    "with_add": "VEX_VADDPD_YMM_YMM_YMMM256",
    "with_mul": "VEX_VMULPD_YMM_YMM_YMMM256",
    "with_shuffle": "VEX_VPERMD_YMM_YMM_YMMM256",
}


def candidates(table: str) -> list[str]:
    """Return the forms of the core's base table that operate on registers (and the plain loads)."""
    base = InstructionTables.load(Microarchitecture.load(table)).layers[-1].rows
    return measurable(base)


class Measurement:
    """One child process's measurements."""

    def __init__(self, cpu: int) -> None:
        os.sched_setaffinity(0, {cpu})
        self.bench = Bench(9)

    def row(self, form: str) -> dict[str, float]:
        """Return the figures of one form; what cannot be measured is left out."""
        latency, throughput = self.bench.form(form)
        found = {"latency": latency, "throughput": throughput}
        vector = any(kind in form for kind in ("XMM", "YMM", "ZMM"))
        if vector and throughput is not None and throughput < 1.2 and host_code.independent(form):
            found |= {name: self._pair(form, partner) for name, partner in PARTNERS.items()}
        return {key: value for key, value in found.items() if value is not None}

    def _pair(self, form: str, partner: str) -> float:
        body = []
        for k in range(30):
            body.append(host_code.one_of(form, k % 10, False))
            body.append(host_code.one_of(partner, (k + 3) % 10, False))
        return self.bench.cycles(body, 30)


def in_child(forms: list[str], cpu: int, results: dict[str, dict[str, float]]) -> str | None:
    """Measure forms in a forked child until done; return the form that killed it, if one did."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        with os.fdopen(writing, "w") as pipe:
            measurement = Measurement(cpu)
            for form in forms:
                pipe.write(json.dumps([form, None]) + "\n")
                pipe.flush()
                try:
                    row = measurement.row(form)
                except (ValueError, AttributeError, PerfkitError) as error:
                    row = {"problem": str(error)[:80]}
                pipe.write(json.dumps([form, row]) + "\n")
                pipe.flush()
        os._exit(0)
    os.close(writing)
    last = None
    with os.fdopen(reading) as pipe:
        for line in pipe:
            form, row = json.loads(line)
            last = form
            if row is not None:
                results[form] = row
                last = None
    os.waitpid(child, 0)
    return last


def middle(rows: list[dict[str, float]]) -> dict[str, float]:
    """Return the median of each figure over the passes."""
    if any("problem" in row for row in rows):
        return rows[0]
    return {key: float(np.median([row[key] for row in rows if key in row])) for key in rows[0]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("core")
    parser.add_argument("--base", default=None, help="the core whose forms to measure (default: the same)")
    parser.add_argument("--cpu", type=int, default=0)
    options = parser.parse_args()
    forms = candidates(options.base or options.core)
    passes: list[dict[str, dict[str, float]]] = []
    killed: list[str] = []
    for turn in range(PASSES):  # apart from one another: a burst of other load spoils one of them
        results: dict[str, dict[str, float]] = {}
        todo = [form for form in forms if form not in killed]
        while todo:
            dead = in_child(todo, options.cpu, results)
            if dead is not None:
                killed.append(dead)
            todo = [form for form in todo if form not in results and form not in killed]
        passes.append(results)
        print(f"pass {turn + 1}: {len(results)} of {len(forms)}, {len(killed)} forms end the process", file=sys.stderr)
    results = {form: middle([found[form] for found in passes if form in found]) for form in passes[0]}
    problems = {form: row["problem"] for form, row in results.items() if "problem" in row}
    measured = {form: row for form, row in results.items() if row and "problem" not in row}
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"{options.core}.csv"
    with path.open("w", newline="") as file:
        info = host_code.cpuinfo()
        name = f"{info.get('model name')} family {info.get('cpu family')} model {info.get('model')}"
        file.write(
            f"# measured with the time stamp counter on {name}, {platform.release()}, {time.strftime('%Y-%m-%d')}\n"
        )
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for form in sorted(measured):
            row = measured[form]
            writer.writerow([form, *(f"{row[key]:.3f}" if key in row else "" for key in COLUMNS[1:])])
    print(
        f"{path}: {len(measured)} forms; {len(problems)} could not be measured, such as {list(problems.items())[:3]}; "
        f"killed by {killed[:8]}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
