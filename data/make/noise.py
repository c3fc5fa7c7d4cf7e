"""Measure the curves of data/noise on this machine, and describe them in its manifest: python data/make/noise.py.

Each host's lie in a folder with the name of its core; those of other hosts stay as they are.
"""

import hashlib
import json
import platform
import tomllib
import warnings
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import perfkit as pk
from perfkit.collectors.noise.kinds import KINDS
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
"""Last part of the data set's name -> kernel of tests/diagnosis/noise_kernels.py."""


def main() -> None:
    warnings.simplefilter("ignore", pk.errors.PerfkitWarning)
    core = pk.Microarchitecture.load("host").name
    (FOLDER / core).mkdir(parents=True, exist_ok=True)
    manifest = FOLDER / "manifest.toml"
    known = tomllib.loads(manifest.read_text(encoding="utf-8")) if manifest.exists() else {}
    known |= {
        f"noise/{core}/{short}": described(core, short, measured(core, short, name)) for short, name in SHIPPED.items()
    }
    write(manifest, known)


def measured(core: str, short: str, name: str) -> pk.NoiseResult:
    known = KERNELS[name]
    kernel = pk.collectors.compile_kernel(known.source, "f", flags=FLAGS, name=name)
    found = pk.Noise(kinds=list(KINDS), core="host", seconds=60).run(kernel, *known.arguments)
    print(found.summary(), "\n")
    if found.bottleneck not in known.right:
        raise SystemExit(f"{name}: found {found.bottleneck}, not shipped; right are {', '.join(known.right)}")
    found.save(FOLDER / core / f"{short}.parquet")
    return found


def described(core: str, short: str, found: pk.NoiseResult) -> dict[str, str]:
    path = FOLDER / core / f"{short}.parquet"
    virtual = " under a hypervisor" if "hypervisor" in Path("/proc/cpuinfo").read_text() else ""
    when = datetime.now(UTC).strftime("%Y-%m-%d")
    return {
        "file": f"{core}/{path.name}",
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "format": "noise",
        "kind": "measured",
        "holds": f"noise added to the kernel '{found.name}': measured curves of {len(found.kinds)} kinds; those of the "
        f"model {found.core} (simulated) beside them",
        "units": "slowdown (times) by added instructions per iteration",
        "source": f"measured on {found.host} ({core}){virtual}, {platform.system()}, {when}; simulated by Gus on "
        f"{found.core}",
        "licence": "MIT",
        "made_by": "data/make/noise.py",
    }


def write(manifest: Path, known: Mapping[str, Mapping[str, str]]) -> None:
    """Write the manifest: the hosts by name, each with its kernels in the order of `SHIPPED`."""
    order = {short: k for k, short in enumerate(SHIPPED)}
    names = sorted(known, key=lambda name: (name.split("/")[1], order[name.split("/")[2]]))
    text = "".join(
        f'\n["{name}"]\n' + "".join(f"{key} = {json.dumps(value)}\n" for key, value in known[name].items())
        for name in names
    )
    manifest.write_text(HEAD + text, encoding="utf-8")


if __name__ == "__main__":
    main()
