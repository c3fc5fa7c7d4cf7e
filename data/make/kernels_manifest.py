"""Write data/kernels/manifest.toml from the kernels themselves: titles, groups, sizes, functions, sums.

Run from the repository's root: python data/make/kernels_manifest.py
"""

import hashlib
import re
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "kernels"
GROUPS = {"fig1": "gus-figure-1", "correlation-v": "gus-correlation"}
BOTTLENECKS = {
    "latency-add", "latency-multiply", "throughput-add", "load-bound", "store-bound", "l2-bound", "divider",
    "store-forward", "gather", "branchy", "pointer-chase", "masked-update", "triad", "string-copy",
}  # fmt: skip
SHARED = {"kernel.h": "what every kernel needs", "correlation.h": "what the correlation kernels share"}


def group(name: str) -> str:
    """Return the part of the corpus that a kernel belongs to."""
    for prefix, found in GROUPS.items():
        if name.startswith(prefix):
            return found
    return "bottleneck" if name in BOTTLENECKS else "polybench"


def entry(path: Path) -> str:
    """Write one table of the manifest."""
    text = path.read_text()
    lines = {"file": path.name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest(), "format": "text"}
    lines |= {
        "kind": "generated",
        "units": "C source",
        "licence": "MIT",
        "made_by": "by hand; described by data/make/kernels_manifest.py",
    }
    if path.suffix == ".h":
        lines |= {"holds": SHARED[path.name], "source": "written for perfkit"}
    else:
        title = re.sub(r"\s+", " ", text[2 : text.index("*/")]).strip()
        sizes = dict(re.findall(r"#define (\w+) (\d+)", text)) or {"M": "48", "N": "48"}
        if group(path.stem) == "bottleneck" or path.stem.startswith("fig1"):
            sizes = dict(re.findall(r"#ifndef \w+\n#define (\w+) (\d+)", text))
        source = {
            "polybench": "own code, from the mathematical definition of PolyBench's kernel of this name",
            "bottleneck": "own code",
            "gus-figure-1": "own code after Fig. 1 of the Gus paper (hal-04851704)",
            "gus-correlation": "own code after section 3.3 and Table 2 of the Gus paper (hal-04851704)",
        }[group(path.stem)]
        function = re.search(r"KERNEL void (\w+)\(void\)", text)
        assert function is not None, path
        lines |= {"holds": title, "source": source, "group": group(path.stem), "function": function[1]}
        lines["sizes"] = ", ".join(f"{key}={value}" for key, value in sizes.items())
    body = "\n".join(f'{key} = "{value}"' for key, value in lines.items())
    return f'["kernels/{path.stem if path.suffix == ".c" else path.name}"]\n{body}\n'


if __name__ == "__main__":
    files = sorted([*FOLDER.glob("*.c"), *FOLDER.glob("*.h")])
    head = "# Made by data/make/kernels_manifest.py; do not edit by hand.\n\n"
    (FOLDER / "manifest.toml").write_text(head + "\n".join(entry(path) for path in files))
    print(f"{len(files)} files described in {FOLDER / 'manifest.toml'}")
