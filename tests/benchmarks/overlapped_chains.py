"""Chains of fused multiply-adds that overlap with the next ones: in loops and straight code, measured here and by Gus.

``python -m tests.benchmarks.overlapped_chains`` prints cycles per chain. What limits the overlap is how many operations
may wait in the vector schedulers. On a Zen 5 guest a loop of two chains takes as long as one of one, although twice as
many operations wait: see docs/gus.md.
"""

import numpy as np
import pandas as pd

import perfkit as pk
from perfkit.collectors import compile_kernel, true_cycles

CHAINS = 1000
LENGTHS = (20, 30, 40)
FIRST, SECOND, THIRD = (f"vfmadd231sd %%xmm1,%%xmm2,%%xmm{k}" for k in (0, 3, 4))
KINDS = {
    "loop of one chain": (True, (FIRST,)),
    "loop of one, two links per turn": (True, (FIRST, FIRST)),
    "loop of two chains": (True, (FIRST, SECOND)),
    "loop of three chains": (True, (FIRST, SECOND, THIRD)),
    "straight, one chain": (False, (FIRST,)),
    "straight, three nops per link": (False, (FIRST, "nop", "nop", "nop")),
    "straight, seven nops per link": (False, (FIRST, *("nop",) * 7)),
    "straight, two chains": (False, (FIRST, SECOND)),
}


def _source(loop: bool, turn: tuple[str, ...], length: int) -> str:
    turns = length // turn.count(FIRST)
    work = "\\n ".join(turn)
    body = f"mov ${turns},%%ecx\\n1: {work}\\n dec %%ecx\\n jnz 1b" if loop else f".rept {turns}\\n {work}\\n .endr"
    clear = "\\n ".join(f"vxorpd %%xmm{k},%%xmm{k},%%xmm{k}" for k in (0, 3, 4))
    changed = ", ".join(f'"{name}"' for name in ("xmm0", "xmm3", "xmm4", "ecx", "cc"))
    asm = f'__asm__ volatile("{clear}\\n {body}" ::: {changed});'
    return f"double chains(double *x, int n) {{ for (int i = 0; i < n; i++) {asm} return x[0]; }}"


def main() -> None:
    """Print the table."""
    core = pk.Microarchitecture.load("host")
    gus = pk.Gus(core)
    rows = []
    for kind, (loop, turn) in KINDS.items():
        for length in LENGTHS:
            kernel = compile_kernel(_source(loop, turn, length), flags="-O2 -mavx2 -mfma")
            arguments = (np.ones(8), CHAINS)
            measured = true_cycles(kernel, *arguments).cycles / CHAINS
            simulated = gus.run(kernel.trace(*arguments)).cycles / CHAINS
            rows.append((kind, length, measured, simulated, 100 * (simulated / measured - 1)))
    table = pd.DataFrame(rows, columns=["code", "links", "measured", "simulated", "off_percent"])
    print(f"cycles per chain; simulated: Gus on {core.name}")
    print(table.round(1).to_string(index=False))


if __name__ == "__main__":
    main()
