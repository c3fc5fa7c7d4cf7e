"""Write data/gus: Table 2 of the Gus paper, transcribed, and its correlation kernels measured on this host.

Run from the repository's root, on x86-64 with AVX2 and two FMA units: python data/make/correlation_measured.py
Cycles come from perfkit.collectors.host.true_cycles, which needs no hardware counter.
"""

import csv
import datetime
import hashlib
import re
from pathlib import Path

import perfkit as pk
from perfkit.collectors import corpus_kernel
from perfkit.collectors.host.true_cycles import TrueCycles, true_cycles

FOLDER = Path(__file__).parents[1] / "gus"
# Version, transformations, per cent of peak, bottleneck by top-down analysis, and by Gus (resource, instructions).
TABLE_2 = """\
v0|none|4.5||
v1|vectorized|12.5|Backend (L2)|L2
v2|vectorized, register tiling 2x16|33.1|Retiring|Retire buffer
v3|vectorized, register tiling 2x16, hoisting|46.8|Backend (ports usage)|L2: vbroadcastsd, vmovapd (loads)
v4|vectorized, register tiling 2x16, hoisting, tiling|81.2|Backend (ports usage)|Retire buffer, includes vmovapd
v5|vectorized, register tiling 4x16, hoisting, tiling|52.6|Backend (ports usage)|Latency, includes vmovapd [rsp] (spill)
v6|vectorized, register tiling 3x12, hoisting, tiling|82.8|Backend (ports usage)|P01
"""
SIZES = {48: ("-small", 400), 144: ("", 100)}  # size: (suffix of the shipped trace, repetitions)
STEADY, ATTEMPTS = 0.1, 4  # a busy host disturbs kernels of milliseconds: measured again until the spread is small
PEAK = 16.0  # double operations per cycle: two FMA units, four doubles, a multiplication and an addition
ENTRY = """
["gus/{name}"]
file = "{name}.csv"
sha256 = "{sha256}"
format = "csv"
kind = "{kind}"
holds = "{holds}"
units = "{units}"
source = "{source}"
licence = "{licence}"
made_by = "data/make/correlation_measured.py"
"""


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    columns = ["trace", "version", "size", "cycles", "spread", "kept", "rejected"]
    columns += ["useful_flops", "executed_flops", "percent_of_peak", "percent_of_peak_executed"]
    rows, facts = [], {}
    for size, (suffix, repetitions) in SIZES.items():
        for k in range(7):
            kernel = corpus_kernel(f"correlation-v{k}", "avx2", defines={"M": size, "N": size})
            time = steady(kernel, repetitions)
            facts = {"host": time.host, "compiler": kernel.compiler}
            trace = kernel.trace(limit=100_000_000)
            assert trace.provenance.complete
            useful, executed = size * size * (size + 1), pk.flops(trace)
            calm = time.spread <= STEADY  # else the time is left out: missing, not guessed
            shares = [round(100 * work / PEAK / time.cycles, 2) if calm else "" for work in (useful, executed)]
            name = f"correlation-v{k}{suffix}"
            measured = [round(time.cycles, 1) if calm else "", round(time.spread, 4), len(time.samples), time.rejected]
            rows.append([name, f"v{k}", size, *measured, useful, executed, *shares])
            print(dict(zip(columns, rows[-1], strict=True)), flush=True)
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    flags = " ".join(flag for flag in kernel.flags if not re.match("-D[MN]=", flag))
    text = "# Made by data/make/correlation_measured.py; do not edit by hand.\n"
    text += write(
        "correlation_measured",
        columns,
        rows,
        kind="measured",
        holds="core cycles of the seven correlation kernels at two sizes, and per cent of a peak of 16 double "
        "operations per cycle, of useful operations (N M (M + 1): the lower triangle) and of executed ones; empty "
        "where other work on the host disturbed every attempt",
        units="core cycles per call (10th percentile; spread is the median's relative distance to it)",
        source=f"pk.collectors.true_cycles on {facts['host']} (a virtual machine, KVM; other work ran on it), "
        f"{today}; {facts['compiler']}; {flags} -DM=size -DN=size",
        licence="MIT",
    )
    published = [line.split("|") for line in TABLE_2.splitlines()]
    text += write(
        "table-2",
        ["version", "transformations", "percent_of_peak", "top_down", "gus"],
        published,
        kind="published",
        holds="Table 2, seven versions of the correlation kernel on Skylake-X; empty where the paper prints nothing",
        units="per cent of peak performance",
        source="Dutilleul et al.: Performance debugging through microarchitectural sensitivity and causality analysis, "
        "Table 2 (its vmovaddpd and vmovaddps read as vmovapd, the instruction its text names)",
        licence="facts from the paper, cited; the transcription is MIT",
    )
    (FOLDER / "manifest.toml").write_text(text, encoding="utf-8")


def steady(kernel: pk.collectors.Kernel, repetitions: int) -> TrueCycles:
    for _ in range(ATTEMPTS):
        time = true_cycles(kernel, repetitions=repetitions)
        if time.spread <= STEADY:
            return time
    return time


def write(name: str, columns: list[str], rows: list, **described: str) -> str:
    path = FOLDER / f"{name}.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)
    return ENTRY.format(name=name, sha256=hashlib.sha256(path.read_bytes()).hexdigest(), **described)


if __name__ == "__main__":
    main()
