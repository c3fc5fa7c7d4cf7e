"""Write data/tables: Tables I-III of the SPIRE paper, transcribed from its text.

N. Wendt, M. Ketkar, V. Bertacco: SPIRE: Inferring Hardware Bottlenecks from Performance Counter Data.
Run it from the repository's root: python data/make/spire_tables.py
"""

import csv
import hashlib
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "tables"

# Table I. Cell colours give each workload's main bottleneck; the text has lost them. Those of the four testing
# workloads are also printed in Table II.
TABLE_1 = """\
training|numenta-nab|Relative Entropy
training|qmcpack|O_ae_pyscf_UHF
training|remhos|Sample Remap
training|scikit-learn|SGDOneClassSVM
training|mafft|
training|lammps|Model: 20k Atoms
training|graph500|Scale: 29
training|faiss|polysemous_sift1m
training|tensorflow-lite|Mobilenet Quant
training|openvino|Face Detect. F16-I8
training|rodinia|CFD Solver
training|parboil|Stencil
training|onednn|IP Shapes 3D
training|llamafile|wizardcoder-python
training|heffte|r2c, FFTW, F64, 256
training|scikit-learn|Feature Expansions
training|npb|BT.C
training|faiss|demo_sift1M
training|parboil|MRI Gridding
training|openvino|Age Gen. Recog. F16
training|arrayfire|BLAS CPU
training|scikit-learn|Random Projections
training|fftw|Stock, 1D FFT, 4096
testing|tnn|SqueezeNet v1.1
testing|scikit-learn|Sparsify
testing|onnx|T5 Encoder, Std.
testing|parboil|CUTCP
"""
# Table II: workload, measured IPC, main bottleneck by top-down analysis, then the ten lowest mean estimates.
TABLE_2 = (
    (
        "TNN",
        "2.11",
        "front-end",
        "0.77 FE.3, 1.03 DB.1, 1.62 DQ.2, 1.64 FE.1, 1.66 DB.3, 1.70 DQ.1, 1.71 DB.2, 1.74 DQ.C, 1.92 DQ.3, 1.94 FE.2",
    ),
    (
        "Scikit",
        "1.72",
        "bad speculation",
        "1.81 CS.2, 1.90 CS.6, 1.92 DQ.K, 2.05 M, 2.07 C1.3, 2.09 BP.2, 2.09 BP.1, 2.10 DB.1, 2.10 BP.3, 2.10 DB.4",
    ),
    (
        "ONNX",
        "0.24",
        "memory",
        "0.04 VW, 0.23 L3, 0.23 L1.1, 0.24 M, 0.24 DQ.K, 0.24 CS.5, 0.24 CS.4, 0.24 CS.1, 0.25 L1.2, 0.25 L1.3",
    ),
    (
        "Parboil",
        "1.35",
        "core",
        "0.84 C1.3, 1.00 LK, 1.33 MS.1, 1.37 M, 1.37 DQ.K, 1.53 CS.3, 1.57 CS.5, 1.57 MS.2, 1.62 C1.1, 1.62 C1.2",
    ),
)
# Table III. Colours give the closest area; the text has lost them. Section V says it of some ("text"); the area of the
# others is inferred from their abbreviation and event name ("inferred").
TABLE_3 = """\
FE.1|frontend_retired.latency_ge_2_bubbles_ge_1|front-end|inferred
FE.2|frontend_retired.latency_ge_2_bubbles_ge_2|front-end|inferred
FE.3|frontend_retired.latency_ge_2_bubbles_ge_3|front-end|inferred
DB.1|idq.dsb_cycles|front-end|text
DB.2|idq.dsb_uops|front-end|text
DB.3|frontend_retired.dsb_miss|front-end|text
DB.4|idq.all_dsb_cycles_any_uops|front-end|text
MS.1|idq.ms_switches|front-end|text
MS.2|idq.ms_dsb_cycles|front-end|text
DQ.1|idq_uops_not_delivered.cycles_le_1_uop_deliv.core|front-end|inferred
DQ.2|idq_uops_not_delivered.cycles_le_2_uop_deliv.core|front-end|inferred
DQ.3|idq_uops_not_delivered.cycles_le_3_uop_deliv.core|front-end|inferred
DQ.C|idq_uops_not_delivered.core|front-end|inferred
DQ.K|idq_uops_not_delivered.cycles_fe_was_ok|core|text
BP.1|br_misp_retired.all_branches|bad speculation|text
BP.2|int_misc.recovery_cycles|bad speculation|text
BP.3|int_misc.recovery_cycles_any|bad speculation|text
M|cycle_activity.cycles_mem_any|memory|text
L1.1|cycle_activity.cycles_l1d_miss|memory|inferred
L1.2|cycle_activity.stalls_l1d_miss|memory|inferred
L1.3|l1d_pend_miss.pending_cycles|memory|inferred
L3|longest_lat_cache.miss|memory|text
LK|mem_inst_retired.lock_loads|memory|text
CS.1|cycle_activity.stalls_total|core|text
CS.2|uops_retired.stall_cycles|core|text
CS.3|uops_issued.stall_cycles|core|text
CS.4|uops_executed.stall_cycles|core|text
CS.5|resource_stalls.any|core|text
CS.6|exe_activity.exe_bound_0_ports|core|text
C1.1|uops_executed.core_cycles_ge_1|core|text
C1.2|uops_executed.cycles_ge_1_uop_exec|core|text
C1.3|exe_activity.1_ports_util|core|text
VW|uops_issued.vector_width_mismatch|core|text
"""
SOURCE = "Wendt, Ketkar, Bertacco: SPIRE: Inferring Hardware Bottlenecks from Performance Counter Data, {table}"
ENTRY = """
["spire/{name}"]
file = "spire-{name}.csv"
sha256 = "{sha256}"
format = "csv"
kind = "published"
holds = "{holds}"
units = "{units}"
source = "{source}"
licence = "facts from the paper, cited; the transcription is MIT"
made_by = "data/make/spire_tables.py"
"""


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    bottleneck = {workload: area for workload, _, area, _ in TABLE_2}
    names = {"tnn": "TNN", "scikit-learn": "Scikit", "onnx": "ONNX", "parboil": "Parboil"}
    first = [
        (*row, bottleneck[names[row[1]]] if row[0] == "testing" else "")
        for row in (line.split("|") for line in TABLE_1.splitlines())
    ]
    second = []
    for workload, ipc, area, estimates in TABLE_2:
        for rank, pair in enumerate(estimates.split(", "), start=1):
            second.append((workload, ipc, area, rank, *pair.split()))
    third = [line.split("|") for line in TABLE_3.splitlines()]
    text = "# Made by data/make/spire_tables.py; do not edit by hand.\n"
    text += write(
        "table-1",
        ("use", "workload", "configuration", "main_bottleneck"),
        first,
        "Table I, the 27 workloads; the main bottleneck of the training ones was a colour, lost in the text (empty)",
        "none",
    )
    text += write(
        "table-2",
        ("workload", "measured_ipc", "main_bottleneck", "rank", "estimated_ipc", "abbreviation"),
        second,
        "Table II, the ten events with the lowest mean estimates of each testing workload",
        "instructions per cycle",
    )
    text += write(
        "table-3",
        ("abbreviation", "event", "area", "area_from"),
        third,
        "Table III, abbreviations of events; areas were colours, lost in the text: area_from says whether section V "
        "names the area (text) or it is inferred from abbreviation and event name (inferred)",
        "none",
    )
    (FOLDER / "manifest.toml").write_text(text, encoding="utf-8")


def write(name: str, columns: tuple[str, ...], rows: list, holds: str, units: str) -> str:
    path = FOLDER / f"spire-{name}.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)
    print(f"{path.name}: {len(rows)} rows")
    source = SOURCE.format(table={"table-1": "Table I", "table-2": "Table II", "table-3": "Table III"}[name])
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    return ENTRY.format(name=name, sha256=sha256, holds=holds, units=units, source=source)


if __name__ == "__main__":
    main()
