"""Put a core file that was measured into data/cores, compressed, with its manifest.

.venv/bin/perfkit calibrate --full -o host.toml
.venv/bin/python data/make/host_core.py zen4-host host.toml
"""

import argparse
import hashlib
import lzma
import tomllib
from pathlib import Path

from perfkit.machine.core import Microarchitecture

FOLDER = Path(__file__).parents[1] / "cores"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("core", type=Path)
    options = parser.parse_args()
    core = Microarchitecture.load(options.core)
    FOLDER.mkdir(exist_ok=True)
    file, manifest = FOLDER / f"{options.name}.toml.xz", FOLDER / "manifest.toml"
    file.write_bytes(lzma.compress(options.core.read_bytes(), preset=9))
    entries = tomllib.loads(manifest.read_text()) if manifest.exists() else {}
    measured = sum(form.source == "measured" for form in core.forms.values())
    entries[f"cores/{options.name}"] = {
        "file": file.name,
        "sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
        "format": "core",
        "kind": "measured",
        "holds": f"a core: {measured:,} measured forms of {len(core.forms):,}, their ports, and the core's figures",
        "units": "cycles, operations, bytes per cycle, entries",
        "source": core.sources["here"],
        "licence": "Apache-2.0 WITH LLVM-exception",
        "made_by": "data/make/host_core.py",
    }
    text = "# Made by data/make/host_core.py; do not edit by hand.\n"
    for name, about in sorted(entries.items()):
        text += f'\n["{name}"]\n' + "".join(f'{key} = "{value}"\n' for key, value in about.items())
    manifest.write_text(text)


if __name__ == "__main__":
    main()
