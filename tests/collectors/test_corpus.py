"""The kernels of the corpus compute what their names say: against numpy and scipy, in all three builds."""

import ctypes
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from scipy import linalg, signal

from perfkit.collectors.kernels import BUILDS, corpus, corpus_kernel

CPU_FLAGS = set(Path("/proc/cpuinfo").read_text().split())
NEEDS = {"scalar": set(), "avx2": {"avx2", "fma"}, "avx512": {"avx512f", "avx512dq", "avx512bw", "avx512vl"}}
N = 12


class Numbers:
    """The sequence that kernel.h's next() gives."""

    def __init__(self):
        self.state = 1

    def __call__(self, *shape, dtype=np.float64):
        count = int(np.prod(shape))
        found = np.empty(count)
        for k in range(count):
            self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
            found[k] = (self.state >> 11) * 2.0**-53
        return found.astype(dtype).reshape(shape)


def fills(count, *shape):
    numbers = Numbers()
    return [numbers(*shape) for _ in range(count)]


def two_mm():
    A, B, C, D = fills(4, N, N)
    return 1.5 * A @ B @ C + 1.2 * D


def three_mm():
    A, B, C, D = fills(4, N, N)
    return A @ B @ (C @ D)


def adi():
    """Each half step solves tridiagonal systems whose first and last values are 1."""
    u, steps = Numbers()(N, N), 3
    dx, dt = 1 / N, 1 / steps
    mul1, mul2 = 2 * dt / dx**2, dt / dx**2
    a, b, d, e = -mul1 / 2, 1 + mul1, -mul2 / 2, 1 + mul2

    def solve(off, middle, right):
        bands = np.zeros((3, N))
        bands[0, 2:] = bands[2, :-2] = off
        bands[1] = middle
        bands[1, 0] = bands[1, -1] = 1
        right[0] = right[-1] = 1
        return linalg.solve_banded((1, 1), bands, right)

    for _ in range(steps):
        v = np.zeros((N, N))
        for i in range(1, N - 1):
            v[:, i] = solve(a, b, -d * u[:, i - 1] + (1 + 2 * d) * u[:, i] - d * u[:, i + 1])
        for i in range(1, N - 1):
            u[i] = solve(d, e, -a * v[i - 1] + (1 + 2 * a) * v[i] - a * v[i + 1])
    return u


def atax():
    numbers = Numbers()
    A, x = numbers(10, N), numbers(N)
    return A.T @ (A @ x)


def bicg():
    numbers = Numbers()
    A, _, r = numbers(N, 10), numbers(10), numbers(N)
    return A.T @ r


def cholesky():
    A = Numbers()(N, N)
    A = np.tril(A, -1) + np.tril(A, -1).T + 2.0 * N * np.eye(N)
    return np.tril(np.linalg.cholesky(A)) + np.triu(A, 1)


def deriche():
    image = Numbers()(10, N, dtype=np.float32).astype(float)
    alpha, e1, e2 = 0.25, np.exp(-0.25), np.exp(-0.5)
    k = (1 - e1) ** 2 / (1 + 2 * alpha * e1 - e2)
    forth, back, feedback = [k, k * e1 * (alpha - 1)], [0, k * e1 * (alpha + 1), -k * e2], [1, -2 * e1, e2]

    def smooth(x, axis):
        ahead = signal.lfilter(forth, feedback, x, axis=axis)
        return ahead + np.flip(signal.lfilter(back, feedback, np.flip(x, axis), axis=axis), axis)

    return smooth(smooth(image, 1), 0)


def doitgen():
    numbers = Numbers()
    A, C4 = numbers(3, 4, N), numbers(N, N)
    return A @ C4


def durbin():
    r = N + 1.0 - np.arange(N)
    return np.linalg.solve(linalg.toeplitz([1, *r[:-1]]), -r)


def fdtd():
    ex, ey, hz = fills(3, N, N)
    for t in range(3):
        ey[0] = t
        ey[1:] -= 0.5 * (hz[1:] - hz[:-1])
        ex[:, 1:] -= 0.5 * (hz[:, 1:] - hz[:, :-1])
        hz[:-1, :-1] -= 0.7 * (ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1])
    return hz


def floyd_warshall():
    i, j = np.indices((N, N))
    path = np.where(((i + j) % 13 == 0) | ((i + j) % 7 == 0), 999, i * j % 7 + 1)
    for k in range(N):
        path = np.minimum(path, path[:, k, None] + path[None, k])
    return path


def gemm():
    A, B, C = fills(3, N, N)
    return 1.5 * A @ B + 1.2 * C


def gemver():
    numbers = Numbers()
    A = numbers(N, N)
    u1, v1, u2, v2, x, y, z = (numbers(N) for _ in range(7))
    A = A + np.outer(u1, v1) + np.outer(u2, v2)
    return 1.5 * A @ (x + 1.2 * A.T @ y + z)


def gesummv():
    numbers = Numbers()
    A, B, x = numbers(N, N), numbers(N, N), numbers(N)
    return 1.5 * A @ x + 1.2 * B @ x


def gramschmidt():
    Q, R = np.linalg.qr(Numbers()(14, N))
    return Q * np.sign(np.diag(R))


def heat():
    A = Numbers()(N, N, N)
    for _ in range(2 * 2):
        B = A.copy()
        inner = A[1:-1, 1:-1, 1:-1]
        B[1:-1, 1:-1, 1:-1] = inner + 0.125 * (
            A[2:, 1:-1, 1:-1] + A[:-2, 1:-1, 1:-1] + A[1:-1, 2:, 1:-1] + A[1:-1, :-2, 1:-1]
            + A[1:-1, 1:-1, 2:] + A[1:-1, 1:-1, :-2] - 6 * inner
        )  # fmt: skip
        A = B
    return A


def jacobi_1d():
    A, B = fills(2, N)
    for _ in range(3):
        B[1:-1] = 0.33333 * (A[:-2] + A[1:-1] + A[2:])
        A[1:-1] = 0.33333 * (B[:-2] + B[1:-1] + B[2:])
    return A


def jacobi_2d():
    A, B = fills(2, N, N)
    for _ in range(3):
        for x, y in ((A, B), (B, A)):
            y[1:-1, 1:-1] = 0.2 * (x[1:-1, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:] + x[2:, 1:-1] + x[:-2, 1:-1])
    return A


def lu():
    A = Numbers()(N, N) + N * np.eye(N)
    U = A.copy()
    for k in range(N):
        U[k + 1 :, k] /= U[k, k]
        U[k + 1 :, k + 1 :] -= np.outer(U[k + 1 :, k], U[k, k + 1 :])
    return U


def ludcmp():
    numbers = Numbers()
    A, b = numbers(N, N), numbers(N)
    return np.linalg.solve(A + N * np.eye(N), b)


def mvt():
    numbers = Numbers()
    A, _, x2, _, v = numbers(N, N), numbers(N), numbers(N), numbers(N), numbers(N)
    return x2 + A.T @ v


def nussinov():
    sequence = [(i + 1) % 4 for i in range(N)]

    @lru_cache(None)
    def most(i, j):
        if j <= i:
            return 0
        pair = (most(i + 1, j - 1) + (sequence[i] + sequence[j] == 3)) if i < j - 1 else 0
        return max(pair, most(i, j - 1), most(i + 1, j), *(most(i, k) + most(k + 1, j) for k in range(i + 1, j)), 0)

    return np.array([[most(i, j) if j > i else 0 for j in range(N)] for i in range(N)])


def seidel():
    A = Numbers()(N, N)
    for _ in range(3):
        for i in range(1, N - 1):
            for j in range(1, N - 1):
                A[i, j] = A[i - 1 : i + 2, j - 1 : j + 2].mean()
    return A


def symm():
    numbers = Numbers()
    A, B, C = numbers(10, 10), numbers(10, N), numbers(10, N)
    return 1.5 * (np.tril(A) + np.tril(A, -1).T) @ B + 1.2 * C


def lower(update, C):
    return np.where(np.tri(N, dtype=bool), update + 1.2 * C, C)


def syr2k():
    numbers = Numbers()
    A, B, C = numbers(N, 10), numbers(N, 10), numbers(N, N)
    return lower(1.5 * (A @ B.T + B @ A.T), C)


def syrk():
    numbers = Numbers()
    A, C = numbers(N, 10), numbers(N, N)
    return lower(1.5 * A @ A.T, C)


def trisolv():
    numbers = Numbers()
    L, b = numbers(N, N), numbers(N)
    return linalg.solve_triangular(L + N * np.eye(N), b, lower=True)


def trmm():
    numbers = Numbers()
    A, B = numbers(10, 10), numbers(10, N)
    return 1.5 * (B + np.tril(A, -1).T @ B)


def statistics(function):
    data = Numbers()(14, 10)
    return function(data.T)


def gather():
    numbers = Numbers()
    x = numbers(N)
    return x[(numbers(N) * N).astype(int)]


def masked_update():
    x, y = fills(2, N)
    return np.where(x > 0.5, 2 * x, y)


def fig1():
    """Both versions add x constant + x y to a sum that starts at zero, once an iteration."""
    x, y, constant = (numbers.astype(float) for numbers in np.split(Numbers()(24, dtype=np.float32), 3))
    return 100 * (x * constant + x * y)


def branchy():
    low = np.count_nonzero(Numbers()(2048) < 0.5)
    return np.array([low, 3 * (2048 - low)])


def pointer_chase():
    numbers, size, steps = Numbers(), 1024, 2000
    order = list(range(size))
    for i, number in zip(range(size - 1, 0, -1), numbers(size - 1), strict=True):
        j = int(number * i)
        order[i], order[j] = order[j], order[i]
    following = dict(zip(order, order[1:] + order[:1], strict=True))
    assert len(following) == size, "Sattolo's shuffle makes one cycle of all"
    at = 0
    for _ in range(steps):
        at = following[at]
    return np.array([at])


def store_bound():
    """Line b of 128 was last written by the last of 400 iterations that is b modulo 128."""
    last = [max(i for i in range(400) if i % 128 == line) for line in range(128)]
    return np.repeat(last, 8)


def triad():
    b, c = fills(2, N)
    return b + 3 * c


SQUARE, WIDE, TALL = {"N": N}, {"M": 10, "N": N}, {"M": N, "N": 10}
REFERENCES = {
    "2mm": (SQUARE, two_mm), "3mm": (SQUARE, three_mm), "adi": ({"N": N, "STEPS": 3}, adi), "atax": (WIDE, atax),
    "bicg": (WIDE, bicg), "cholesky": (SQUARE, cholesky),
    "correlation": ({"M": 10, "N": 14}, lambda: statistics(np.corrcoef)),
    "covariance": ({"M": 10, "N": 14}, lambda: statistics(np.cov)), "deriche": ({"W": 10, "H": N}, deriche),
    "doitgen": ({"R": 3, "Q": 4, "S": N}, doitgen), "durbin": (SQUARE, durbin),
    "fdtd-2d": ({"N": N, "STEPS": 3}, fdtd), "floyd-warshall": (SQUARE, floyd_warshall), "gemm": (SQUARE, gemm),
    "gemver": (SQUARE, gemver), "gesummv": (SQUARE, gesummv), "gramschmidt": ({"M": 14, "N": N}, gramschmidt),
    "heat-3d": ({"N": N, "STEPS": 2}, heat), "jacobi-1d": ({"N": N, "STEPS": 3}, jacobi_1d),
    "jacobi-2d": ({"N": N, "STEPS": 3}, jacobi_2d), "lu": (SQUARE, lu), "ludcmp": (SQUARE, ludcmp),
    "mvt": (SQUARE, mvt),
    "nussinov": (SQUARE, nussinov), "seidel-2d": ({"N": N, "STEPS": 3}, seidel), "symm": (WIDE, symm),
    "syr2k": ({"M": 10, "N": N}, syr2k), "syrk": ({"M": 10, "N": N}, syrk), "trisolv": (SQUARE, trisolv),
    "trmm": (WIDE, trmm), "gather": (SQUARE, gather), "masked-update": (SQUARE, masked_update),
    "fig1a": ({"COUNT": 100}, fig1), "fig1b": ({"COUNT": 100}, fig1), "branchy": ({}, branchy),
    "divider": ({}, lambda: np.array([1.5, 2.5, 3.5, 4.5]) / 1.25),
    "l2-bound": ({"SIZE": 1024}, lambda: 2 * Numbers()(1024)[::8].sum(keepdims=True)),
    "latency-add": ({}, lambda: np.array([1 + 3 * 4000])),
    "latency-multiply": ({}, lambda: np.array([1.5 * 0.9999**2000])),
    # What is loaded is thrown away: how far the pointer came, 400 times 8 places in a ring of 1024, says how often.
    "load-bound": ({}, lambda: np.array([400 * 8 % 1024])),
    "pointer-chase": ({}, pointer_chase), "store-bound": ({}, store_bound),
    "store-forward": ({}, lambda: np.array([1000])),
    "string-copy": ({}, lambda: np.arange(3000).astype(np.int8)),
    "throughput-add": ({}, lambda: Numbers()(10) + 500), "triad": (SQUARE, triad),
}  # fmt: skip


# The types of results that are not double, or long where they are whole numbers.
TYPES = {"floyd-warshall": np.int32, "nussinov": np.int32, "string-copy": np.int8}
TYPES |= dict.fromkeys(("deriche", "fig1a", "fig1b"), np.float32)
VERSIONS = [f"correlation-v{version}" for version in range(7)]


def output(kernel):
    """The kernel's output after setup() and one call."""
    library = ctypes.CDLL(str(kernel.path))
    library.setup()
    getattr(library, kernel.function)()
    size = ctypes.c_long.in_dll(library, "output_size").value
    return ctypes.string_at(ctypes.c_void_p.in_dll(library, "output").value, size)


def run(name, build, defines):
    """The output of one build."""
    needed = NEEDS[build] | (NEEDS["avx2"] if name.startswith("fig1") else set())  # Fig. 1's loop is assembly
    missing = needed - CPU_FLAGS
    if missing:
        pytest.skip(f"this processor lacks {', '.join(sorted(missing))}")
    return output(corpus_kernel(name, build, defines=defines))


def test_every_kernel_of_the_corpus_is_checked():
    table = corpus()
    assert {*REFERENCES, *VERSIONS} == set(table.index)
    assert len(table) >= 40


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("name", REFERENCES)
def test_a_kernel_computes_what_its_name_says(name, build):
    defines, reference = REFERENCES[name]
    wanted = reference()
    whole = wanted.dtype.kind == "i"
    dtype = TYPES.get(name, np.int64 if whole else np.float64)
    tolerance = 0 if whole else 1e-4 if dtype == np.float32 else 1e-9
    found = np.frombuffer(run(name, build, defines), dtype=dtype).reshape(wanted.shape)
    assert found == pytest.approx(wanted, rel=tolerance, abs=tolerance)


@pytest.mark.parametrize("name", ["fig1a", "fig1b", "string-copy"])
def test_kernels_in_assembly_say_the_same_in_c_for_other_instruction_sets(name):
    defines, reference = REFERENCES[name]
    kernel = corpus_kernel(name, flags="-O2 -U__x86_64__", defines=defines)
    assert np.frombuffer(output(kernel), dtype=TYPES[name]) == pytest.approx(reference(), rel=1e-4)


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("name", VERSIONS)
def test_all_correlation_versions_agree(name, build):
    data = Numbers()(48, 96)
    found = np.frombuffer(run(name, build, {"M": 96, "N": 48})).reshape(96, 96)
    assert found == pytest.approx(data.T @ data, rel=1e-12)
