"""Record the traces that ship in data/traces/, and write their manifest.

Run from the repository's root, on x86-64 with AVX2 and AVX-512: python data/make/traces.py
"""

import hashlib
from pathlib import Path

from perfkit.collectors.kernels import corpus_kernel

FOLDER = Path(__file__).parent.parent / "traces"
MOST_BYTES = 2_000_000
# Kernel of the corpus, build, macros.
WANTED = {
    # Two sizes of the ladder: matrices that live in L2, as in the paper's study, and small ones that live in L1.
    **{f"correlation-v{k}": (f"correlation-v{k}", "avx2", {"M": 144, "N": 144}) for k in range(7)},
    **{f"correlation-v{k}-small": (f"correlation-v{k}", "avx2", {}) for k in range(7)},
    "fig1a": ("fig1a", "avx2", {}),
    "fig1b": ("fig1b", "avx2", {}),
    "gemm-scalar": ("gemm", "scalar", {"N": 32}),
    "gemm-avx2": ("gemm", "avx2", {}),
    "gemm-avx512": ("gemm", "avx512", {}),
    "jacobi-1d-avx2": ("jacobi-1d", "avx2", {}),
    "jacobi-2d-avx2": ("jacobi-2d", "avx2", {}),
    "cholesky-scalar": ("cholesky", "scalar", {"N": 40}),
    "floyd-warshall-avx2": ("floyd-warshall", "avx2", {"N": 32}),
    "gather-avx2": ("gather", "avx2", {}),
    "masked-update-avx512": ("masked-update", "avx512", {}),
    **{
        name: (name, "avx2", {})
        for name in (
            "latency-add", "latency-multiply", "throughput-add", "load-bound", "store-bound", "l2-bound", "divider",
            "store-forward", "branchy", "pointer-chase", "triad",
        )
    },
}  # fmt: skip


def make(name: str) -> str:
    """Record one trace; return its table of the manifest."""
    kernel, build, macros = WANTED[name]
    trace = corpus_kernel(kernel, build, defines=macros).trace(limit=50_000_000)
    assert trace.provenance.complete, name
    assert trace.provenance.backend == "cloner", name
    path = trace.save(FOLDER / f"{name}.trace", level=19)
    size = path.stat().st_size
    assert size < MOST_BYTES, f"{name}: {size} bytes"
    sizes = "".join(f", {key}={value}" for key, value in macros.items())
    lines = {
        "file": path.name,
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "format": "trace",
        "kind": "measured",
        "holds": f"{trace.instruction_count} instructions recorded of the corpus's kernel {kernel} ({build}{sizes})",
        "units": "executed instructions; addresses in bytes",
        "source": f"perfkit's cloner; {trace.provenance.compiler}; flags {trace.provenance.flags}",
        "licence": "MIT",
        "made_by": "data/make/traces.py",
    }
    print(f"{name:24} {trace.instruction_count:>9,} instructions {size:>9,} bytes")
    return f'["traces/{name}"]\n' + "".join(f'{key} = "{value}"\n' for key, value in lines.items())


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    tables = [make(name) for name in WANTED]
    head = "# Made by data/make/traces.py; do not edit by hand.\n\n"
    (FOLDER / "manifest.toml").write_text(head + "\n".join(tables))
