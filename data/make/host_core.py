"""Put a core file that was measured into data/cores, compressed, with its manifest.

.venv/bin/perfkit calibrate --full -o host.toml
.venv/bin/python data/make/host_core.py zen4-host host.toml
"""

import argparse
import lzma
from pathlib import Path

from data.make.manifest import describe
from perfkit.machine.core import Microarchitecture

FOLDER = Path(__file__).parents[1] / "cores"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("core", type=Path)
    options = parser.parse_args()
    core = Microarchitecture.load(options.core)
    FOLDER.mkdir(exist_ok=True)
    file = FOLDER / f"{options.name}.toml.xz"
    file.write_bytes(lzma.compress(options.core.read_bytes(), preset=9))
    measured = sum(form.source == "measured" for form in core.forms.values())
    entry = {
        "file": file.name,
        "format": "core",
        "kind": "measured",
        "holds": f"a core: {measured:,} measured forms of {len(core.forms):,}, their ports, and the core's figures",
        "units": "cycles, operations, bytes per cycle, entries",
        "source": core.sources["here"],
        "licence": "Apache-2.0 WITH LLVM-exception",
    }
    describe(FOLDER, {f"cores/{options.name}": entry}, "data/make/host_core.py")


if __name__ == "__main__":
    main()
