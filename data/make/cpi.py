"""Make data/cpi: generated samples with known CPI stacks, and the manifest of these and of the paper's tables.

The tables in data/cpi/tables were transcribed by hand. Run it from the repository's root: python data/make/cpi.py
"""

import hashlib
from pathlib import Path

import pandas as pd

import perfkit as pk

FOLDER = Path(__file__).parents[1] / "cpi"
SEED = 20250404
PAPER = "A. Ratnawat, S. Shekhar, T. Gautam, Multiple Regression model for CPI stack"
TABLES = {
    "table-03": ("III", "coefficients for 521.wrf_r (its TLB-load-misses is dTLB-load-misses in Table VIII)"),
    "table-04": ("IV", "coefficients for 525.x264_r"),
    "table-05": ("V", "coefficients for 526.blender_r"),
    "table-06": ("VI", "coefficients for 531.deepsjeng_r"),
    "table-08": ("VIII", "CPI stack for 521.wrf_r (l2_rqsts.all_demand_miss as printed; the data gives 0.022660)"),
    "table-10": ("X", "CPI stack for 525.x264_r"),
    "table-12": ("XII", "CPI stack for 526.blender_r"),
    "table-14": ("XIV", "CPI stack for 531.deepsjeng_r"),
    "statistics": ("VII, IX, XI and XIII", "statistics of the fits; XI and XIII carry each other's captions"),
}
# Three programs of one core: the same penalties, other rates (a thousand instructions).
WORKLOADS = {
    "compute": {"branch-misses": 1.0, "L1-dcache-load-misses": 4.0, "LLC-load-misses": 0.05},
    "branchy": {"branch-misses": 12.0, "L1-dcache-load-misses": 8.0, "LLC-load-misses": 0.1},
    "memory": {"branch-misses": 2.0, "L1-dcache-load-misses": 30.0, "LLC-load-misses": 2.5},
}
ENTRY = """
["{name}"]
file = "{file}"
sha256 = "{sha256}"
format = "{format}"
kind = "{kind}"
holds = "{holds}"
units = "{units}"
source = "{source}"
licence = "{licence}"
made_by = "{made_by}"
"""
COUNTS = "event counts an interval of 0.1 s; time in cycles, work in instructions"


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    entries = [*generated(), *tables()]
    text = "# Made by data/make/cpi.py; do not edit by hand.\n" + "".join(ENTRY.format(**e) for e in entries)
    (FOLDER / "manifest.toml").write_text(text, encoding="utf-8")


def generated() -> list[dict[str, str]]:
    idle = {"page-faults": 0.01, "LLC-store-misses": 0.3}
    planted, truth = pk.synthetic_cpi(idle=idle, count_noise=0.02, seed=SEED)
    artefact, r2 = pk.artefact_cpi(seed=SEED)
    parts, truths = [], {"planted": truth.components}
    for i, (name, rates) in enumerate(WORKLOADS.items()):
        all_rates = {**pk.collectors.synthetic_cpi.RATES, **rates}
        one, true = pk.synthetic_cpi(rates=all_rates, intervals=600, workload=name, count_noise=0.02, seed=SEED + 1 + i)
        parts.append(one)
        truths[name] = true.components
    pd.DataFrame(truths).rename_axis("part").round(9).to_csv(FOLDER / "truth.csv")
    planted.to_parquet(FOLDER / "planted.parquet")
    pk.Samples.concat(parts).to_parquet(FOLDER / "workloads.parquet")
    artefact.to_parquet(FOLDER / "artefact.parquet")
    source = f"perfkit.collectors.synthetic_cpi, seed {SEED}; no machine was measured"
    common = {"kind": "generated", "source": source, "licence": "MIT", "made_by": "data/make/cpi.py"}
    what = {
        "planted": "samples of a planted CPI stack: six events with known penalties, two that cost nothing",
        "workloads": "samples of three generated programs of one core, whose CPI stacks are known",
        "artefact": f"events unrelated to the cycles, that an ordinary CPI regression explains to R2 {r2:.2f}",
    }
    out = []
    for name, holds in what.items():
        entry = {"name": f"cpi/{name}", "file": f"{name}.parquet", "format": "samples", "holds": holds, "units": COUNTS}
        out.append({**common, **entry})
    truth_entry = {"name": "cpi/truth", "file": "truth.csv", "format": "csv", "units": "cycles per instruction"}
    out.append({**common, **truth_entry, "holds": "the true CPI stacks of cpi/planted and of cpi/workloads"})
    return [{**e, "sha256": sha256(FOLDER / e["file"])} for e in out]


def tables() -> list[dict[str, str]]:
    out = []
    for file, (numbers, holds) in TABLES.items():
        path = FOLDER / "tables" / f"{file}.csv"
        columns = pd.read_csv(path).columns
        cycles = "cycles per event; base in cycles per instruction"
        units = cycles if "coefficient" in columns else "cycles per instruction"
        out.append(
            {
                "name": f"cpi/paper/{file}",
                "file": f"tables/{file}.csv",
                "sha256": sha256(path),
                "format": "csv",
                "kind": "published",
                "holds": f"{holds} (Table{'s' if ' ' in numbers else ''} {numbers})",
                "units": "see the columns; rmse and average_cpi in CPI" if file == "statistics" else units,
                "source": f"{PAPER}, Table {numbers}",
                "licence": "figures quoted from the paper",
                "made_by": "transcribed by hand; data/make/cpi.py writes this entry",
            }
        )
    return out


def sha256(path: Path) -> str:
    print(f"{path.relative_to(FOLDER)}: {path.stat().st_size:,} bytes")
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    main()
