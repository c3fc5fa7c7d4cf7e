"""Measure the curves of data/noise on this machine, and describe them in its manifest: python data/make/noise.py."""

import hashlib
import json
import platform
import warnings
from datetime import UTC, datetime
from pathlib import Path

import perfkit as pk
from tests.diagnosis.noise_kernels import FLAGS, KERNELS

FOLDER = Path(__file__).parents[1] / "noise"
HEAD = "# Made by data/make/noise.py; do not edit by hand.\n"
SHIPPED = {
    "additions": "additions in a chain",
    "chase": "chase in L2",
    "fma": "fused multiply-adds",
    "loads": "loads",
    "integers": "integers",
    "mispredicted": "mispredicted branches",
}
"""Data set -> kernel of tests/diagnosis/noise_kernels.py."""


def main() -> None:
    warnings.simplefilter("ignore", pk.errors.PerfkitWarning)
    FOLDER.mkdir(exist_ok=True)
    entries = [describe(short, measured(short, name)) for short, name in SHIPPED.items()]
    (FOLDER / "manifest.toml").write_text(HEAD + "".join(entries), encoding="utf-8")


def measured(short: str, name: str) -> pk.NoiseResult:
    known = KERNELS[name]
    kernel = pk.collectors.compile_kernel(known.source, "f", flags=FLAGS, name=name)
    found = pk.Noise(core="host", seconds=60).run(kernel, *known.arguments)
    print(found.summary(), "\n")
    if found.bottleneck not in known.right:
        raise SystemExit(f"{name}: found {found.bottleneck}, not shipped; right are {', '.join(known.right)}")
    found.save(FOLDER / f"{short}.parquet")
    return found


def describe(short: str, found: pk.NoiseResult) -> str:
    path = FOLDER / f"{short}.parquet"
    virtual = " under a hypervisor" if "hypervisor" in Path("/proc/cpuinfo").read_text() else ""
    when = datetime.now(UTC).strftime("%Y-%m-%d")
    fields = {
        "file": path.name,
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "format": "noise",
        "kind": "measured",
        "holds": f"noise added to the kernel '{found.name}': measured curves of {len(found.kinds)} kinds; those of the "
        f"model {found.core} (simulated) beside them",
        "units": "slowdown (times) by added instructions per iteration",
        "source": f"measured on {found.host}{virtual}, {platform.system()}, {when}; simulated by Gus on {found.core}",
        "licence": "MIT",
        "made_by": "data/make/noise.py",
    }
    lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in fields.items())
    return f'\n["noise/{short}"]\n{lines}'


if __name__ == "__main__":
    main()
