"""Measure the curves of data/noise on this machine, and describe them in its manifest: python data/make/noise.py.

Each host's lie in a folder with the name of its core; those of other hosts stay as they are.
"""

import platform
import warnings
from datetime import UTC, datetime
from pathlib import Path

import perfkit as pk
from data.make.manifest import describe
from perfkit.collectors.noise.kinds import KINDS
from tests.diagnosis.noise_kernels import FLAGS, KERNELS

FOLDER = Path(__file__).parents[1] / "noise"
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
    entries = {
        f"noise/{core}/{short}": described(core, short, measured(core, short, name)) for short, name in SHIPPED.items()
    }
    describe(FOLDER, entries, "data/make/noise.py", order)


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
        "format": "noise",
        "kind": "measured",
        "holds": f"noise added to the kernel '{found.name}': measured curves of {len(found.kinds)} kinds; those of the "
        f"model {found.core} (simulated) beside them",
        "units": "slowdown (times) by added instructions per iteration",
        "source": f"measured on {found.host} ({core}){virtual}, {platform.system()}, {when}; simulated by Gus on "
        f"{found.core}",
        "licence": "MIT",
    }


def order(name: str) -> tuple[str, int]:
    """Sort the data sets by core, and those of a core in the order of `SHIPPED`."""
    _, core, short = name.split("/")
    return core, list(SHIPPED).index(short)


if __name__ == "__main__":
    main()
