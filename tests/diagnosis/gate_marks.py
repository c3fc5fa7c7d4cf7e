"""Gates whose recordings every host must repeat: ``python -m tests.diagnosis.gate_marks`` adds this host's.

It compares them with those of the hosts in the table first; its status is 1 where one differs. A row is of one program,
bit by bit, with the same libraries: a host whose compiler makes another one has no row to compare with, and adds its
own. Cycles are compared where the simulator and the core's figures are the same, too.
"""

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import perfkit
from perfkit.collectors.tracer.tracer import processor_name
from perfkit.diagnosis.gate import Gate, GateReading
from tests.benchmarks.test_bench_gate import CPP, KERNELS, RUST, source

TABLE = Path(__file__).with_name("gate_marks.json")
CPP_NAMES, RUST_NAMES = ("sorted", "counted"), ("sieve", "counts")
NAMES = (*KERNELS, *CPP_NAMES, *RUST_NAMES)
"""The 20 programs of the benchmark, without what it plants into them."""


def read(name: str, folder: Path) -> GateReading:
    """Build one of the benchmark's programs, the same in any folder; record and simulate it."""
    if name in CPP_NAMES:
        built(folder / "p.cpp", CPP.format("", ""), ["g++", "-O2", "-g", f"-ffile-prefix-map={folder}=."])
        return Gate(f"p:{name}", folder=folder).measure()
    if name in RUST_NAMES:
        words = ["rustc", "-C", "opt-level=2", "-g", "--cap-lints", "allow", f"--remap-path-prefix={folder}=."]
        built(folder / "r.rs", RUST.format("", ""), words)
        return Gate(f"r:r::{name}", folder=folder).measure()
    (folder / f"{name}.c").write_text(source(KERNELS[name][0], ";"))
    return Gate(f"{name}.c:f", "f8[256], f8[256], i8[256], 256", flags="-O2 -fno-math-errno", folder=folder).measure()


def built(file: Path, text: str, command: list[str]) -> None:
    """Compile a source into a program beside it, unless it is there."""
    if not file.with_suffix("").exists():
        file.write_text(text)
        subprocess.run([*command, file.name, "-o", file.stem], cwd=file.parent, check=True)


def possible(name: str) -> bool:
    """Whether this machine has the program's compiler."""
    return name not in RUST_NAMES or shutil.which("rustc") is not None


def row_of(name: str, reading: GateReading) -> dict[str, Any]:
    """Return what the table keeps."""
    trace = reading.result.trace
    origin = trace.provenance
    return {
        "name": name, "binary": origin.binary_sha256[:16], "libraries": json.loads(origin.extra["libraries"]),
        "trace": reading.trace, "instructions": trace.instruction_count, "cycles": round(reading.cycles, 3),
        "model": f"{reading.model} {simulator()}", "compiler": reading.compiler, "host": host(),
    }  # fmt: skip


def host() -> str:
    """Name the processor, with its family and model: guests' names leave these out."""
    fields = dict(
        map(str.strip, line.split(":", 1)) for line in Path("/proc/cpuinfo").read_text().splitlines() if ":" in line
    )
    return f"{processor_name()}, family {fields.get('cpu family', '?')}, model {fields.get('model', '?')}"


def simulator() -> str:
    """Return what tells this simulator's code from that of another version."""
    found = hashlib.sha256()
    for folder in ("simulators", "machine"):
        for path in sorted((Path(perfkit.__file__).parent / folder).rglob("*.py")):
            found.update(path.read_bytes())
    return found.hexdigest()[:12]


def rows() -> list[dict[str, Any]]:
    """Return the table."""
    return json.loads(TABLE.read_text()) if TABLE.exists() else []


def alike(table: Iterable[Mapping[str, Any]], mine: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the rows of the same program, bit by bit, with the same libraries."""
    return [row for row in table if all(row[key] == mine[key] for key in ("name", "binary", "libraries"))]


def differences(table: Iterable[Mapping[str, Any]], mine: Mapping[str, Any]) -> list[str]:
    """Return in which figures other hosts differ from this one's, empty where none does."""
    found = []
    for row in alike(table, mine):
        keys = ("trace", "instructions", *(("cycles",) if row["model"] == mine["model"] else ()))
        found += [f"{key} {row[key]} on {row['host']}" for key in keys if row.get(key, mine[key]) != mine[key]]
    return found


def digest(table: Iterable[Mapping[str, Any]], of_host: str) -> str:
    """Return what the benchmark prints of a host's recordings of all programs."""
    marks = {row["name"]: row["trace"] for row in table if row["host"] == of_host}
    text = json.dumps({name: [marks[name]] for name in NAMES if name in marks})
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def main() -> int:
    here, table, kept, wrong = host(), rows(), rows(), 0
    with tempfile.TemporaryDirectory() as folder:
        for name in filter(possible, NAMES):
            new = row_of(name, read(name, Path(folder)))
            others = sorted({row["host"] for row in alike(table, new) if row["host"] != here})
            differs = differences([row for row in table if row["host"] in others], new)
            wrong += bool(differs)
            verdict = (
                f"NOT as on others: {'; '.join(differs)}" if differs else f"as on {', '.join(others) or 'no other'}"
            )
            kept = [old for old in kept if old["host"] != here or not alike([old], new)]
            kept.append(new)
            sys.stdout.write(f"{name}: {new['trace']}, {new['instructions']:,} instructions, {new['cycles']:,} cycles: "
                             f"{verdict}\n")  # fmt: skip
    sys.stdout.write(f"the digest of all, as tests/benchmarks/test_bench_gate.py prints it: {digest(kept, here)}\n")
    kept.sort(key=lambda row: (row["name"], row["compiler"], row["host"]))
    TABLE.write_text("[\n" + ",\n".join(f" {json.dumps(row)}" for row in kept) + "\n]\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
