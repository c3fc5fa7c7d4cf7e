"""The numerical kernels of the extended roofline's evaluation, as plain Python for numba to compile.

Caparros Cabezas and Pueschel (ISPASS 2014, section III-C) use a fast Fourier transform as in Numerical Recipes,
iterative and recursive Walsh-Hadamard transforms, matrix-vector and matrix-matrix multiplication (triple loop and six
loops), a 3D 7-point stencil as in StencilProbe and k-means clustering as in Phoenix; section V adds a sum reduction.
They are written anew here from the descriptions of the algorithms, all on doubles. Where the paper's curves tell how
its own were written, those named plainly are as published: matrix-vector and six-fold multiplication keep their sums in
memory, the latter with blocks of 50, and the stencil divides. The same with sums in registers, blocks that fit L1 and a
multiplication for the division are ``mvm_register``, ``mmm_sixfold_register`` and ``stencil_multiplied``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from perfkit.dag.program import HITS_WAIT
from perfkit.errors import SettingError

if TYPE_CHECKING:
    from perfkit.collectors.dag.kernel_trace import KernelTrace
    from perfkit.machine.core import Microarchitecture


_PUBLISHED_BLOCK, _BLOCK = 50, 20  # of the six-fold multiplication: as published; three blocks of doubles fit in 32 KB
_SWEEPS = 5
_CLUSTERS, _DIMENSIONS = 10, 3


def reduction(x: Any, out: Any) -> None:
    """Sum a vector: out[0] = sum of x."""
    total = 0.0
    for i in range(x.shape[0]):
        total += x[i]
    out[0] = total


def mvm(a: Any, x: Any, y: Any) -> None:
    """Multiply matrix and vector as the paper does, y in memory: y += a x."""
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            y[i] += a[i, j] * x[j]


def mvm_register(a: Any, x: Any, y: Any) -> None:
    """Multiply matrix and vector, the sum of a row in a register: y += a x."""
    for i in range(a.shape[0]):
        total = y[i]
        for j in range(a.shape[1]):
            total += a[i, j] * x[j]
        y[i] = total


def mmm_triple(a: Any, b: Any, c: Any) -> None:
    """Multiply matrices with three loops: c += a b."""
    n = a.shape[0]
    for i in range(n):
        for j in range(n):
            total = c[i, j]
            for k in range(n):
                total += a[i, k] * b[k, j]
            c[i, j] = total


def mmm_sixfold(a: Any, b: Any, c: Any, block: int) -> None:
    """Multiply matrices block by block, with six loops, as the paper does, c in memory: c += a b."""
    n = a.shape[0]
    for i0 in range(0, n, block):
        for j0 in range(0, n, block):
            for k0 in range(0, n, block):
                for i in range(i0, min(i0 + block, n)):
                    for j in range(j0, min(j0 + block, n)):
                        for k in range(k0, min(k0 + block, n)):
                            c[i, j] += a[i, k] * b[k, j]


def mmm_sixfold_register(a: Any, b: Any, c: Any, block: int) -> None:
    """Multiply matrices block by block, with six loops, the sums in registers: c += a b."""
    n = a.shape[0]
    for i0 in range(0, n, block):
        for j0 in range(0, n, block):
            for k0 in range(0, n, block):
                for i in range(i0, min(i0 + block, n)):
                    for j in range(j0, min(j0 + block, n)):
                        total = c[i, j]
                        for k in range(k0, min(k0 + block, n)):
                            total += a[i, k] * b[k, j]
                        c[i, j] = total


def fft(data: Any, sines: Any) -> None:
    """Transform complex numbers, real and imaginary parts alternating, in place (decimation in time, radix 2).

    ``sines[s]`` is sin(2 pi / 2^(s+1)), so that no external function is called.
    """
    n = data.shape[0]
    j = 0
    for i in range(0, n, 2):
        if j > i:
            real, imaginary = data[i], data[i + 1]
            data[i], data[i + 1] = data[j], data[j + 1]
            data[j], data[j + 1] = real, imaginary
        m = n >> 1
        while m >= 2 and j >= m:
            j -= m
            m >>= 1
        j += m
    half, stage = 2, 0
    while half < n:
        step = half << 1
        # Rotation by recurrence: w *= exp(2 pi i / (step / 2)).
        s = sines[stage + 1]
        step_real, step_imaginary = -2.0 * s * s, sines[stage]
        real, imaginary = 1.0, 0.0
        for m in range(0, half, 2):
            for i in range(m, n, step):
                k = i + half
                x = real * data[k] - imaginary * data[k + 1]
                y = real * data[k + 1] + imaginary * data[k]
                data[k] = data[i] - x
                data[k + 1] = data[i + 1] - y
                data[i] += x
                data[i + 1] += y
            old = real
            real = old * step_real - imaginary * step_imaginary + old
            imaginary = imaginary * step_real + old * step_imaginary + imaginary
        half, stage = step, stage + 1


def wht_iterative(x: Any) -> None:
    """Walsh-Hadamard transform in place, stage by stage."""
    n = x.shape[0]
    half = 1
    while half < n:
        for start in range(0, n, 2 * half):
            for i in range(start, start + half):
                u, v = x[i], x[i + half]
                x[i] = u + v
                x[i + half] = u - v
        half *= 2


def wht_recursive(x: Any, start: int, n: int) -> int:
    """Walsh-Hadamard transform of x[start : start + n] in place: both halves, then one stage."""
    if n == 1:
        return 0
    half = n // 2
    wht_recursive(x, start, half)
    wht_recursive(x, start + half, half)
    for i in range(start, start + half):
        u, v = x[i], x[i + half]
        x[i] = u + v
        x[i + half] = u - v
    return 0


def stencil(grid: Any, result: Any, factor: float, sweeps: int) -> None:
    """Sweep a 3D 7-point stencil over a grid as StencilProbe does, with a division by the square of a factor."""
    nx, ny, nz = grid.shape
    for sweep in range(sweeps):
        source, target = (grid, result) if sweep % 2 == 0 else (result, grid)
        for i in range(1, nx - 1):
            for j in range(1, ny - 1):
                for k in range(1, nz - 1):
                    target[i, j, k] = (
                        source[i, j, k + 1]
                        + source[i, j, k - 1]
                        + source[i, j + 1, k]
                        + source[i, j - 1, k]
                        + source[i + 1, j, k]
                        + source[i - 1, j, k]
                        - 6.0 * source[i, j, k] / (factor * factor)
                    )


def stencil_multiplied(grid: Any, result: Any, centre: float, sweeps: int) -> None:
    """Sweep a 3D 7-point stencil over a grid, back and forth between two arrays, without a division."""
    nx, ny, nz = grid.shape
    for sweep in range(sweeps):
        source, target = (grid, result) if sweep % 2 == 0 else (result, grid)
        for i in range(1, nx - 1):
            for j in range(1, ny - 1):
                for k in range(1, nz - 1):
                    target[i, j, k] = (
                        source[i, j, k + 1]
                        + source[i, j, k - 1]
                        + source[i, j + 1, k]
                        + source[i, j - 1, k]
                        + source[i + 1, j, k]
                        + source[i - 1, j, k]
                        - centre * source[i, j, k]
                    )


def kmeans(points: Any, means: Any, sums: Any, sizes: Any) -> None:
    """Do one iteration of k-means: give each point to its nearest mean, then move the means."""
    for c in range(means.shape[0]):
        sizes[c] = 0.0
        for d in range(means.shape[1]):
            sums[c, d] = 0.0
    for i in range(points.shape[0]):
        nearest, least = 0, 1e300
        for c in range(means.shape[0]):
            distance = 0.0
            for d in range(means.shape[1]):
                difference = points[i, d] - means[c, d]
                distance += difference * difference
            if distance < least:
                nearest, least = c, distance
        sizes[nearest] += 1.0
        for d in range(means.shape[1]):
            sums[nearest, d] += points[i, d]
    for c in range(means.shape[0]):
        if sizes[c] > 0.0:
            for d in range(means.shape[1]):
                means[c, d] = sums[c, d] / sizes[c]


@dataclass(frozen=True)
class PaperKernel:
    """A kernel with its arguments for a size.

    Parameters
    ----------
    name, title
        Its short name and what it is.
    size
        What the size means.
    function
        The kernel.
    arguments
        Makes the arguments of a size, from a seed.
    flops
        Floating-point operations of a size (comparisons included); None where they depend on the data.
    default
        A size that is scheduled within a second.
    """

    name: str
    title: str
    size: str
    function: Callable[..., Any]
    arguments: Callable[[int, np.random.Generator], tuple[Any, ...]]
    flops: Callable[[int], int] | None
    default: int

    def trace(
        self,
        size: int | None = None,
        seed: int = 0,
        vectorize: bool = False,
        count_all: bool = False,
        whole: bool = False,
        core: Microarchitecture | None = None,
    ) -> KernelTrace:
        """Compile the kernel with numba so that it can be scheduled; see `perfkit.trace_numba`."""
        from perfkit.collectors.dag.numba_kernel import trace_numba

        n = self.default if size is None else size
        if n < 2 or (self.name in _POWERS and n & (n - 1)):
            what = "a power of two" if self.name in _POWERS else "at least 2"
            raise SettingError(f"{self.name}: size is {self.size}, {what}, not {n}")
        try:
            arguments = self.arguments(n, np.random.default_rng(seed))
        except (ValueError, OverflowError) as error:
            raise SettingError(f"{self.name}: size is {self.size}; arrays for {n} are too large") from error
        name = f"{self.name}({n})"
        compiled = _compiled(self.function)
        traced = trace_numba(
            compiled, *arguments, vectorize=vectorize, count_all=count_all, whole=whole, core=core, name=name
        )
        if self.name in _HITS_WAIT and not whole:
            traced.facts[HITS_WAIT] = "1"
        return traced


_HITS_WAIT = ("fft",)  # Fig. 6(a): 0.595 flops per cycle at 2^14, where 1.37 are possible if hits pass the misses
_POWERS = ("fft", "wht_iterative", "wht_recursive")


def _compiled(function: Callable[..., Any]) -> Any:
    """Return a numba function; one that calls itself must find itself compiled under its own name."""
    if function is not wht_recursive:
        return function
    import types

    import numba

    names = dict(function.__globals__)
    clone = types.FunctionType(function.__code__, names, function.__name__)
    names[function.__name__] = numba.njit(clone)
    return names[function.__name__]


def _fft_arguments(n: int, rng: np.random.Generator) -> tuple[Any, ...]:
    stages = n.bit_length()
    return rng.random(2 * n), np.array([math.sin(2 * math.pi / 2.0 ** (s + 1)) for s in range(stages + 1)])


def _kmeans_arguments(n: int, rng: np.random.Generator) -> tuple[Any, ...]:
    points = rng.random((n, _DIMENSIONS))
    return points, points[:_CLUSTERS].copy(), np.zeros((_CLUSTERS, _DIMENSIONS)), np.zeros(_CLUSTERS)


def _fft_flops(n: int) -> int:
    stages = n.bit_length() - 1
    # Ten operations a butterfly; per stage two for the step and eight per rotation of the factor.
    return 5 * n * stages + sum(2 + 8 * 2**s for s in range(stages))


def _log2(n: int) -> int:
    return n.bit_length() - 1


def _square(count: int) -> Callable[[int, np.random.Generator], tuple[Any, ...]]:
    return lambda n, rng: tuple(rng.random((n, n)) for _ in range(count))


KERNELS = {
    kernel.name: kernel
    for kernel in (
        PaperKernel(
            "reduction", "sum of a vector", "elements", reduction,
            lambda n, rng: (rng.random(n), np.zeros(1)), lambda n: n, 200_000,
        ),
        PaperKernel(
            "mvm", "matrix-vector multiplication", "rows and columns", mvm,
            lambda n, rng: (rng.random((n, n)), rng.random(n), rng.random(n)), lambda n: 2 * n * n, 500,
        ),
        PaperKernel(
            "mvm_register", "matrix-vector multiplication, sums in registers", "rows and columns", mvm_register,
            lambda n, rng: (rng.random((n, n)), rng.random(n), rng.random(n)), lambda n: 2 * n * n, 500,
        ),
        PaperKernel(
            "mmm_triple", "matrix multiplication, three loops", "rows and columns", mmm_triple,
            _square(3), lambda n: 2 * n**3, 100,
        ),
        PaperKernel(
            "mmm_sixfold", "matrix multiplication, six loops", "rows and columns", mmm_sixfold,
            lambda n, rng: (*_square(3)(n, rng), _PUBLISHED_BLOCK), lambda n: 2 * n**3, 100,
        ),
        PaperKernel(
            "mmm_sixfold_register", "matrix multiplication, six loops, sums in registers", "rows and columns",
            mmm_sixfold_register, lambda n, rng: (*_square(3)(n, rng), _BLOCK), lambda n: 2 * n**3, 100,
        ),
        PaperKernel("fft", "fast Fourier transform", "complex points", fft, _fft_arguments, _fft_flops, 4096),
        PaperKernel(
            "wht_iterative", "Walsh-Hadamard transform, iterative", "points", wht_iterative,
            lambda n, rng: (rng.random(n),), lambda n: n * _log2(n), 16384,
        ),
        PaperKernel(
            "wht_recursive", "Walsh-Hadamard transform, recursive", "points", wht_recursive,
            lambda n, rng: (rng.random(n), 0, n), lambda n: n * _log2(n), 16384,
        ),
        PaperKernel(
            "stencil", "3D 7-point stencil, 5 sweeps", "points along each edge", stencil,
            lambda n, rng: (rng.random((n, n, n)), np.zeros((n, n, n)), 3.0, _SWEEPS),
            # Twice more: the square, and numba's test that it is not 0, are taken out of the loops.
            lambda n: 8 * _SWEEPS * (n - 2) ** 3 + 2, 22,
        ),
        PaperKernel(
            "stencil_multiplied", "3D 7-point stencil, 5 sweeps, without division", "points along each edge",
            stencil_multiplied, lambda n, rng: (rng.random((n, n, n)), np.zeros((n, n, n)), 6.0, _SWEEPS),
            lambda n: 7 * _SWEEPS * (n - 2) ** 3, 22,
        ),
        PaperKernel(
            "kmeans", "one iteration of k-means, 10 means in 3 dimensions", "points", kmeans,
            _kmeans_arguments, None, 10_000,
        ),
    )
}  # fmt: skip


def kernel(name: str) -> PaperKernel:
    """Return a kernel by name; the error lists them."""
    if name not in KERNELS:
        raise SettingError(f"unknown kernel {name!r}; known: {', '.join(KERNELS)}")
    return KERNELS[name]
