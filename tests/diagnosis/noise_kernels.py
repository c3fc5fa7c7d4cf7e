"""Kernels whose bottleneck is known by construction: C or a loop of assembly, arguments, what holds them back."""

from dataclasses import dataclass
from typing import Any

import numpy as np

FLAGS = "-O2 -mavx2 -mfma -fno-tree-vectorize -ffp-contract=off -fno-unroll-loops"


@dataclass(frozen=True)
class Known:
    """A kernel: its C text, the arguments, and the words that are right for its bottleneck."""

    source: str
    arguments: tuple[Any, ...]
    right: frozenset[str]


def _asm(lines: list[str], clobbers: str, turns: int = 1000) -> str:
    body = "".join(f'"{line}\\n\\t"' for line in lines)
    return (
        "double a[4096] __attribute__((aligned(64)));\n"
        f"void f(void) {{ long n = {turns};\n"
        f'__asm__ volatile(".p2align 6\\n1:\\n\\t" {body} "dec %0\\n\\tjnz 1b" : "+r"(n) : "r"(a) : "cc", "memory", '
        f"{clobbers}); }}\n"
    )


def _vectors(instruction: str, count: int, sources: str = "%%ymm15, %%ymm15") -> str:
    names = ", ".join(f'"xmm{k}"' for k in range(16) if k < count or k == 15)
    return _asm([f"{instruction} {sources}, %%ymm{k}" for k in range(count)], names)


def _chase(lines: int) -> tuple[np.ndarray, int]:
    """A ring of pointers, a line each, as offsets in bytes from the start."""
    order = np.random.default_rng(0).permutation(lines)
    ring = np.zeros(8 * lines, dtype=np.int64)
    ring[8 * order] = 64 * np.roll(order, -1)
    return ring, 2000


_WALK = "long f(const char *ring, long n) { long p = 0; while (n--) p = *(const long *)(ring + p); return p; }"
_GENERAL = ("rax", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11")
_COIN = """
static unsigned long x = 88172645463325252ul;
long f(long n) {
    long a = 0, b = 1;
    while (n--) {
        x = x * 6364136223846793005ul + 1442695040888963407ul;
        if ((long)x < 0) a += n; else b ^= n;
        __asm__ volatile("" : "+r"(a), "+r"(b));
    }
    return a + b;
}
"""
_DOT = """
double f(const double *a, const double *b, long n) {
    double s = 0;
    for (long i = 0; i < n; i++) s += a[i] * b[i];
    return s;
}
"""
_HORNER = "long f(long n) { long x = 3; while (n--) x = x * 5 + 7; return x; }"
_REGISTERS = ", ".join(f'"{r}"' for r in _GENERAL)

KERNELS: dict[str, Known] = {
    "additions in a chain": Known(_DOT, (np.ones(1000), np.ones(1000), 1000), frozenset({"latency"})),
    "chase in L1": Known(_WALK, _chase(128), frozenset({"latency"})),
    "chase in L2": Known(_WALK, _chase(2000), frozenset({"latency"})),
    "multiplications in a chain": Known(_HORNER, (2000,), frozenset({"latency"})),
    "fused multiply-adds": Known(
        _vectors("vfmadd231pd", 12), (), frozenset({"vector multiply", "vector add"})
    ),
    "vector additions": Known(_vectors("vaddpd", 12), (), frozenset({"vector add", "vector multiply"})),
    "vector integers": Known(_vectors("vpaddd", 15), (), frozenset({"vector integer"})),
    "shuffles": Known(_vectors("vshufpd $1,", 8), (), frozenset({"shuffle"})),
    "divisions": Known(_vectors("vdivpd", 2), (), frozenset({"divide"})),
    "loads": Known(
        _asm([f"vmovapd {32 * k}(%1), %%ymm{k % 8}" for k in range(12)], ", ".join(f'"xmm{k}"' for k in range(8))),
        (), frozenset({"vector load", "load"}),
    ),
    "stores": Known(_asm([f"mov %0, {64 * k}(%1)" for k in range(10)], '"rax"'), (), frozenset({"store"})),
    "integers": Known(
        _asm([f"add %%{r}, %%{r}" for r in _GENERAL * 3], _REGISTERS), (), frozenset({"integer", "shift"})
    ),
    "no-operations": Known(_asm(["nopl 0(%%rax)"] * 40, '"rax"'), (), frozenset({"front end"})),
    "mispredicted branches": Known(_COIN, (3000,), frozenset({"restarts"})),
}  # fmt: skip
"""By name; 14 of them."""
