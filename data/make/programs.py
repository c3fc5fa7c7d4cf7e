"""Random kernels in C: loop nests, recurrences, lookups and branches over arrays, compiled and run like the corpus's.

Loops of one piece (data/make/loops.py) are purer than what a compiler makes of a program: here several statements share
a loop, compilers choose the instructions, and data is cold at first. No statement was taken from a kernel of the
corpus; subscripts, bounds, orders of loops, sizes and operations are drawn at random. For data/make/pmu_runs.py.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from perfkit.collectors import compile_kernel
from perfkit.trace.trace import Trace

Rng = np.random.Generator
LEAST, MOST = 2000, 400_000  # instructions of a kernel
ITERATIONS = (1500, 12_000)  # of the innermost body, about
_SIZES = tuple(1 << k for k in range(9, 19))  # elements of an array
_BUILDS = ("avx2", "avx2", "scalar")


@dataclass(frozen=True)
class Nest:
    """What a statement may use: element type, sizes and a source of chance."""

    rng: Rng
    real: str  # double or float
    size: int  # elements of each one-dimensional array
    side: int  # of each square array

    def between(self, low: int, high: int) -> int:
        """Return a whole number from a range, both ends included."""
        return int(self.rng.integers(low, high + 1))

    def pick(self, *several: str) -> str:
        """Return one of them."""
        return several[int(self.rng.integers(len(several)))]

    def array(self) -> str:
        """Return the name of an array of the element type."""
        return self.pick("A", "B", "C")

    def square(self) -> str:
        """Return the name of a square array."""
        return self.pick("X", "Y", "Z")

    def constant(self) -> str:
        """Return a constant of the element type."""
        return f"({self.real}){self.rng.uniform(0.1, 0.9):.3f}"

    def expression(self, leaf: Callable[[], str], depth: int = 2) -> str:
        """Return a random expression; divisions and roots are rarer than additions and products."""
        if depth == 0 or self.rng.random() < 0.25:
            return leaf() if self.rng.random() < 0.8 else self.constant()
        form = self.pick(*["{a} + {b}"] * 4, *["{a} * {b}"] * 4, "{a} - {b}", "{a} / ({b} + 2)", "SQRT({a} + 1)",
                         "({a} > {b} ? {a} : {b})")  # fmt: skip
        a, b = (f"({self.expression(leaf, depth - 1)})" for _ in range(2))
        return form.format(a=a, b=b)

    def flat(self) -> str:
        """Return a read of a one-dimensional array near i, ahead of it in steps, or from the other end."""
        near = f"i + {self.between(0, 3)}"
        return f"{self.array()}[{self.pick(near, near, near, f'(i * {self.between(2, 9)}) & MASK', 'MASK - i')}]"

    def grid(self) -> str:
        """Return a read of a square array at (i, j), beside it, or across."""
        at = self.pick("[i][j]", "[i][j]", f"[i][j + {self.between(0, 2)}]", f"[i + {self.between(0, 2)}][j]", "[j][i]")
        return self.square() + at


def elementwise(n: Nest) -> str:
    """Make each element of others: nothing is carried."""
    return f"{n.array()}[i] = {n.expression(n.flat)};"


def reduction(n: Nest) -> str:
    """Sum in a register."""
    return f"s += {n.expression(n.flat)};"


def recurrence(n: Nest) -> str:
    """Take an element from one that was written a few iterations before, through memory."""
    name, back = n.array(), n.between(1, 6)
    return f"{name}[i + {back}] = {name}[i] * {n.constant()} + {n.expression(n.flat, 1)};"


def in_memory(n: Nest) -> str:
    """Sum in memory, because the compiler cannot exclude an alias."""
    return f"*{n.pick('at', 'other')} += {n.expression(n.flat, 1)};"


def lookup(n: Nest) -> str:
    """Read through indices."""
    return f"s += {n.array()}[P[i]]{n.pick('', f' * {n.flat()}')};"


def scatter(n: Nest) -> str:
    """Update through indices, some of them the same element soon after."""
    return f"{n.array()}[P[i] & {(1 << n.between(2, 12)) - 1}] += {n.expression(n.flat, 1)};"


def branch(n: Nest) -> str:
    """Decide on data: more or less at random."""
    limit = n.rng.uniform(0.05, 0.95)
    body = f"{n.array()}[i] = {n.expression(n.flat, 1)};"
    return f"if (D[i] > {limit:.2f}) {{ {body} KEEPX(s); }} else {{ s += {n.flat()}; KEEPX(s); }}"


def walk(n: Nest) -> str:
    """Walk a list: the next place is known when this one is there."""
    return f"p = P[p]; s += {n.pick(n.flat(), '1')};"


def hashing(n: Nest) -> str:
    """Carry an integer along."""
    return f"h = (h ^ P[i]) * {n.between(3, 1 << 20) | 1}u{n.pick('', '; h ^= h >> 7')};"


def bits(n: Nest) -> str:
    """Compute integers side by side."""
    return (
        f"Q[i] = {n.pick('__builtin_popcount(P[i])', 'P[i] % (h | 7)', '(P[i] << 3) ^ (P[i] >> 2)', 'P[i] * 7 + i')};"
    )


def machine(n: Nest) -> str:
    """Go from state to state by a table."""
    return f"p = T[(p & 15) * 16 + (P[i] & 15)]{n.pick('', '; Q[p]++')};"


FLAT = (elementwise, reduction, recurrence, in_memory, lookup, scatter, branch, walk, hashing, bits, machine)


def stencil(n: Nest) -> str:
    """Make a square array of its neighbours, in place or not, by rows or by columns."""
    order, j = n.pick("ij", "ij", "ji"), n.pick("0", "0", "i")
    body = f"{n.square()}[i + 1][j + 1] = {n.expression(n.grid)};"
    outer, inner = (
        f"for (int {v} = {'0' if k == 0 or order == 'ji' else j}; {v} < {n.side}; {v}++)" for k, v in enumerate(order)
    )
    return f"{outer} {inner} {body}"


def product(n: Nest) -> str:
    """Multiply two square arrays: three loops in some order."""
    a, b, c = n.square(), n.square(), n.square()
    body = f"{a}[i][j] += {b}{n.pick('[i][k]', '[k][i]')} * {c}{n.pick('[k][j]', '[j][k]')};"
    order = n.pick("ijk", "ikj", "jki", "kij", "jik")
    side = max(8, round(n.between(*ITERATIONS) ** (1 / 3)))
    ends = {
        "i": str(side),
        "j": n.pick(str(side), "i + 1") if order.index("i") < order.index("j") else str(side),
        "k": str(side),
    }
    return " ".join(f"for (int {v} = 0; {v} < {ends[v]}; {v}++)" for v in order) + f" {body}"


def rows(n: Nest) -> str:
    """Go by rows with a vector: a sum for each row, kept in memory or not."""
    a, v, w = n.square(), n.array(), n.array()
    inner = n.pick(f"s += {a}[i][j] * {v}[j];", f"{w}[i] += {a}[i][j] * {v}[j];", f"{w}[j] += {a}[i][j] * {v}[i];",
                   f"{w}[i] -= {a}[j][i] * {v}[(i - j) & MASK];")  # fmt: skip
    end, after = n.pick(str(n.side), "i"), f"{n.array()}[i] = {n.expression(lambda: 's', 1)};"
    return f"for (int i = 0; i < {n.side}; i++) {{ for (int j = 0; j < {end}; j++) {inner} {after} }}"


SQUARE = (stencil, stencil, product, rows, rows)
_TEXT = """#include "kernel.h"
#define SIZE {size}
#define MASK (SIZE - 1)
typedef {real} real;
static ALIGNED real A[SIZE + 16], B[SIZE + 16], C[SIZE + 16];
static ALIGNED real X[{side} + 4][{side} + 4], Y[{side} + 4][{side} + 4], Z[{side} + 4][{side} + 4];
static ALIGNED double D[SIZE + 16];
static ALIGNED unsigned P[SIZE + 16], Q[SIZE + 16], T[256];
real *at = C, *other = B + 5;
real result; unsigned checks;
OUTPUT(A)

EXPORT void setup(void) {{
    FILL(D);
    for (int i = 0; i < SIZE + 16; i++) {{ A[i] = next(); B[i] = next(); C[i] = next(); P[i] = i & MASK; }}
    real *squares[] = {{X[0], Y[0], Z[0]}};
    for (int k = 0; k < 3; k++) for (int i = 0; i < ({side} + 4) * ({side} + 4); i++) squares[k][i] = next();
    for (int i = MASK; i > 0; i--) {{
        int j = (int)(next() * (i < {reach} ? i + 1 : {reach}));
        unsigned t = P[i]; P[i] = P[i - j]; P[i - j] = t;
    }}
    for (int i = 0; i < 256; i++) T[i] = (unsigned)(next() * 16);
}}

KERNEL void generated(void) {{
    real s = 0; unsigned h = 1, p = 0;
    {body}
    result = s; checks = h + p;
}}
"""


def source(number: int, seed: int) -> str:
    """Return the C text of one of the kernels."""
    rng = np.random.default_rng([seed, 1, number])
    size = _SIZES[int(rng.integers(len(_SIZES)))]
    nest = Nest(rng, "double" if rng.random() < 0.7 else "float", size, 0)
    side = max(12, round(nest.between(*ITERATIONS) ** 0.5))
    nest = Nest(rng, nest.real, size, side)
    several = []
    for _ in range(nest.between(1, 2)):
        if rng.random() < 0.4:
            several.append(SQUARE[int(rng.integers(len(SQUARE)))](nest))
            continue
        chosen = rng.choice(len(FLAT), nest.between(1, 3), replace=False)
        body = " ".join(FLAT[int(k)](nest) for k in chosen)
        iterations = nest.between(*ITERATIONS)
        inner = min(iterations, size)
        several.append(
            f"for (int t = 0; t < {max(1, iterations // inner)}; t++) for (int i = 0; i < {inner}; i++) {{ {body} }}"
        )
    return _TEXT.format(
        size=size, side=side, real=nest.real, reach=nest.pick("1", "64", "SIZE"), body="\n    ".join(several)
    )


def generate(number: int, seed: int) -> Trace | None:
    """Return the trace of one of the kernels; None where it is too short or too long."""
    build = _BUILDS[np.random.default_rng([seed, 2, number]).integers(len(_BUILDS))]
    trace = compile_kernel(source(number, seed), "generated", build=build, name=f"kernel-{number:03d}").trace()
    return trace if LEAST <= trace.instruction_count <= MOST else None
