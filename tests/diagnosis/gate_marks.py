"""Gates whose recordings every host must repeat: ``python -m tests.diagnosis.gate_marks`` adds this host's.

A row is of one program, bit by bit, with the same libraries: a host whose compiler makes another one has no row to
compare with, and adds its own.
"""

import hashlib
import json
import sys
import tempfile
from pathlib import Path

import perfkit
from perfkit.collectors.tracer.tracer import processor_name
from perfkit.diagnosis.gate import Gate, GateReading
from tests.benchmarks.test_bench_gate import KERNELS, source

TABLE = Path(__file__).with_name("gate_marks.json")
NAMES = ("dot", "branch", "list", "stencil", "bits", "memcpy")


def read(name: str, folder: Path) -> GateReading:
    """Build one of the benchmark's programs, record and simulate it."""
    (folder / f"{name}.c").write_text(source(KERNELS[name][0], ";"))
    return Gate(f"{name}.c:f", "f8[256], f8[256], i8[256], 256", flags="-O2 -fno-math-errno", folder=folder).measure()


def row_of(name: str, reading: GateReading) -> dict[str, object]:
    """Return what the table keeps."""
    origin = reading.result.trace.provenance
    return {
        "name": name, "binary": origin.binary_sha256[:16], "libraries": json.loads(origin.extra["libraries"]),
        "trace": reading.trace, "cycles": round(reading.cycles, 3), "model": f"{reading.model} {simulator()}",
        "compiler": reading.compiler, "host": host(),
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


def rows() -> list[dict[str, object]]:
    """Return the table."""
    return json.loads(TABLE.read_text()) if TABLE.exists() else []


def main() -> int:
    here, kept = host(), rows()
    with tempfile.TemporaryDirectory() as folder:
        for name in NAMES:
            new = row_of(name, read(name, Path(folder)))
            same = ("name", "binary", "libraries")
            kept = [old for old in kept if old["host"] != here or any(old[key] != new[key] for key in same)]
            kept.append(new)
            sys.stdout.write(f"{name}: {new['trace']}, {new['cycles']:,} cycles, {new['compiler']} on {here}\n")
    kept.sort(key=lambda row: (row["name"], row["compiler"], row["host"]))
    TABLE.write_text("[\n" + ",\n".join(f" {json.dumps(row)}" for row in kept) + "\n]\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
