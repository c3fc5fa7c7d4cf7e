"""Small C functions of many kinds, drawn by a seed: a seed that nobody drew is a set of kernels that nobody has seen.

A function is named ``f``; the first line of its source, a comment, says what it is called with:

    // f8[1000]-1:1 i4[1000]0:64 1000

are an array of 1000 doubles drawn from -1 to 1, one of 1000 `int` from 0 to 63, and the number 1000.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

_FLOATS = {"double": "f8", "float": "f4"}
_INTEGERS = {"int": "i4", "long": "i8", "unsigned": "u4", "unsigned long": "u8", "short": "i2", "unsigned char": "u1"}
_BUILDS = ("", "", "", "-O3", "-O2 -mavx2 -mfma", "-O1")
"""Options of clang; "" are those of `perfkit dag run`, scalar code at -O3."""


class Draw(NamedTuple):
    """A kernel: its kind, its source (whose first line says what `f` is called with), options of clang."""

    kind: str
    source: str
    build: str


def draws(seed: int, count: int) -> list[Draw]:
    """Return so many kernels, all kinds by turns."""
    rng = random.Random(seed)
    kinds = list(_KINDS.items())
    rng.shuffle(kinds)
    found = []
    for k in range(count):
        name, make = kinds[k % len(kinds)]
        arguments, text = make(rng)
        source = f"// {arguments}\n#include <math.h>\n#include <stdlib.h>\n{text}\n"
        found.append(Draw(name, source, rng.choice(_BUILDS)))
    return found


def _type(rng: random.Random) -> str:
    return rng.choice([*_FLOATS, *_FLOATS, *_INTEGERS])


def _array(kind: str, n: int, low: float = -2, high: float = 2) -> str:
    """Return the words for an array of a C type: floating-point numbers in a range, integers of small size."""
    if kind in _FLOATS:
        return f"{_FLOATS[kind]}[{n}]{low}:{high}"
    return f"{_INTEGERS[kind]}[{n}]0:{200 if 'char' in kind else 1000}"


def _expression(rng: random.Random, kind: str, leaves: list[str], depth: int) -> str:
    """Return an expression over some leaves."""
    if depth == 0:
        constant = f"{rng.uniform(0.1, 2):.3f}" if kind in _FLOATS else str(rng.randint(1, 60))
        return rng.choice([*leaves, *leaves, f"({kind}){constant}"])
    x, y = (_expression(rng, kind, leaves, depth - 1) for _ in range(2))
    if kind in _FLOATS:
        suffix = "f" if kind == "float" else ""
        forms = ["({x} + {y})", "({x} - {y})", "({x} * {y})"] * 3
        forms += [
            f"fabs{suffix}({{x}})", "({x} > {y} ? {x} : {y})", "({x} < {y} ? {x} : {y})", "({x} > 0 ? {x} : {y})",
            f"({kind})(long)({{x}})",
        ]  # fmt: skip
    else:
        forms = ["({x} + {y})", "({x} - {y})", "({x} ^ {y})", "({x} & {y})", "({x} | {y})", "({x} * {y})"] * 2
        forms += [
            f"({{x}} << {rng.randint(1, 5)})", f"({{x}} >> {rng.randint(1, 5)})", "({x} > {y} ? {x} : {y})",
            "({x} < {y} ? {y} : {x})", "({x} & 1 ? {x} : {y})", "({x} == {y})",
        ]  # fmt: skip
    return rng.choice(forms).format(x=x, y=y)


def _map(rng: random.Random) -> tuple[str, str]:
    t, n = _type(rng), rng.choice((400, 800, 1200))
    e = _expression(rng, t, ["a[i]", "b[i]"], rng.randint(1, 3))
    arrays = " ".join(_array(t, n) for _ in range(3))
    return f"{arrays} {n}", (
        f"void f(const {t} *restrict a, const {t} *restrict b, {t} *restrict c, int n)"
        f" {{ for (int i = 0; i < n; i++) c[i] = {e}; }}"
    )


def _reduce(rng: random.Random) -> tuple[str, str]:
    t, n = _type(rng), rng.choice((500, 1000, 1500))
    e = _expression(rng, t, ["a[i]", "b[i]"], rng.randint(0, 2))
    total = "double" if t in _FLOATS else "long"
    step = rng.choice([f"s += {e}", f"s += {e}", f"s = {e} > s ? {e} : s", f"if ({e} > 1) s += {e}", f"s -= {e} * 2"])
    return f"{_array(t, n)} {_array(t, n)} {n}", (
        f"{total} f(const {t} *a, const {t} *b, int n)"
        f" {{ {total} s = 0; for (int i = 0; i < n; i++) {{ {step}; }} return s; }}"
    )


def _stencil(rng: random.Random) -> tuple[str, str]:
    t, n, reach = rng.choice(list(_FLOATS)), rng.choice((600, 1200)), rng.randint(1, 3)
    taps = " + ".join(f"({t}){rng.uniform(-1, 1):.3f} * a[i + {k}]" for k in range(-reach, reach + 1))
    into = rng.choice(("b", "b", "a"))
    return f"{_array(t, n)} {_array(t, n)} {n}", (
        f"void f({t} *a, {t} *b, int n) {{ for (int i = {reach}; i < n - {reach}; i++)"
        f" {into}[i] = ({taps}) * ({t}).3; }}"
    )


def _choose(rng: random.Random) -> tuple[str, str]:
    t, n = rng.choice([*_FLOATS, *_FLOATS, "int", "unsigned char", "short"]), rng.choice((500, 1000))
    edge = f"({t}){rng.uniform(-1, 1):.2f}" if t in _FLOATS else str(rng.randint(50, 180))
    low, high = (_expression(rng, t, ["a[i]", "b[i]"], rng.randint(0, 1)) for _ in range(2))
    chosen = f"a[i] {rng.choice(('<', '>', '<=', '>='))} {rng.choice((edge, 'b[i]'))} ? {low} : {high}"
    if rng.random() < 0.4:
        total = t if t in _FLOATS else "long"
        return f"{_array(t, n)} {_array(t, n)} {n}", (
            f"{total} f(const {t} *a, const {t} *b, int n)"
            f" {{ {total} s = 0; for (int i = 0; i < n; i++) s += {chosen}; return s; }}"
        )
    return f"{_array(t, n)} {_array(t, n)} {_array(t, n)} {n}", (
        f"void f(const {t} *restrict a, const {t} *restrict b, {t} *restrict c, int n)"
        f" {{ for (int i = 0; i < n; i++) c[i] = {chosen}; }}"
    )


def _blend(rng: random.Random) -> tuple[str, str]:
    n = rng.choice((800, 1600))
    weight = rng.choice(("c[i]", "c[i]", str(rng.randint(20, 230))))
    done = rng.choice(
        (
            f"(a[i] * {weight} + b[i] * (255 - {weight})) >> 8",
            f"(a[i] * {weight} + b[i] * (255 - {weight}) + 127) / 255",
            f"b[i] + (((a[i] - b[i]) * {weight}) >> 8)",
            "a[i] + b[i] > 255 ? 255 : a[i] + b[i]",
            "(77 * a[i] + 150 * b[i] + 29 * c[i]) >> 8",
            "abs(a[i] - b[i])",
        )
    )
    return f"u1[{n}]0:256 u1[{n}]0:256 u1[{n}]0:256 u1[{n}]0:256 {n}", (
        "void f(const unsigned char *restrict a, const unsigned char *restrict b, const unsigned char *restrict c,"
        f" unsigned char *restrict d, int n) {{ for (int i = 0; i < n; i++) d[i] = {done}; }}"
    )


def _bytes(rng: random.Random) -> tuple[str, str]:
    n, low = rng.choice((1500, 4000)), rng.randint(20, 120)
    body = rng.choice(
        (
            f"s += a[i] == {low}",
            f"s += a[i] >= {low} && a[i] < {low + 60}",
            "s = s * 31 + a[i]",
            f"if (a[i] < {low}) s++; else s ^= a[i]",
            "s += a[i] != a[i + 1]",
            "s += (unsigned char)(a[i] | 32) - 'a' < 26",
            "s += __builtin_popcount(a[i])",
        )
    )
    return f"u1[{n + 1}]0:256 {n}", (
        f"long f(const unsigned char *a, int n) {{ long s = 0; for (int i = 0; i < n; i++) {{ {body}; }} return s; }}"
    )


def _hash(rng: random.Random) -> tuple[str, str]:
    n, t = rng.choice((500, 1000)), rng.choice(("unsigned", "unsigned long"))
    bits = 32 if t == "unsigned" else 64
    steps = [
        f"h = h * {rng.randrange(3, 1 << 31, 2)}u", "h ^= a[i]", "h += a[i]", f"h ^= h >> {rng.randint(5, 20)}",
        f"h += h << {rng.randint(1, 10)}",
        "h = h << {} | h >> {}".format(*(lambda r: (r, bits - r))(rng.randint(3, 25))),
    ]  # fmt: skip
    body = "; ".join(["h ^= a[i]", *rng.sample(steps, rng.randint(1, 4))])
    return f"{_INTEGERS[t]}[{n}]0:100000 {n}", (
        f"{t} f(const {t} *a, int n) {{ {t} h = 7; for (int i = 0; i < n; i++) {{ {body}; }} return h; }}"
    )


def _gather(rng: random.Random) -> tuple[str, str]:
    t, m, n = _type(rng), rng.choice((256, 4000, 30000, 400000)), rng.choice((1000, 3000))
    if rng.random() < 0.3:
        return f"i4[{n}]0:{m} {_array(t, m)} {n}", (
            f"void f(const int *x, {t} *a, int n) {{ for (int i = 0; i < n; i++) a[x[i]] += 1; }}"
        )
    more = rng.choice(("", " * a[x[i] / 2]", " + a[x[n - 1 - i]]"))
    total = "double" if t in _FLOATS else "long"
    return f"i4[{n}]0:{m} {_array(t, m)} {n}", (
        f"{total} f(const int *x, const {t} *a, int n)"
        f" {{ {total} s = 0; for (int i = 0; i < n; i++) s += a[x[i]]{more}; return s; }}"
    )


def _interpolate(rng: random.Random) -> tuple[str, str]:
    t, n, m = rng.choice(list(_FLOATS)), rng.choice((500, 1000)), rng.choice((64, 1000))
    last = rng.choice(("a[j] + u * (a[j + 1] - a[j])", "u", "a[j] * (1 - u) + a[j + 1] * u", "u * u * (3 - 2 * u)"))
    return f"{_array(t, n, 0, m - 2)} {_array(t, m)} {_array(t, n)} {n}", (
        f"void f(const {t} *restrict x, const {t} *restrict a, {t} *restrict y, int n)"
        f" {{ for (int i = 0; i < n; i++) {{ {rng.choice(('int', 'long'))} j = x[i];"
        f" {t} u = x[i] - j; y[i] = {last}; }} }}"
    )


def _divide(rng: random.Random) -> tuple[str, str]:
    t, n = _type(rng), rng.choice((300, 600))
    if t in _FLOATS:
        e = rng.choice(("a[i] / b[i]", "1 / (a[i] * a[i] + 1)", "sqrt(a[i] * a[i] + b[i])", "s / (b[i] + 3) + a[i]"))
    else:
        e = rng.choice(("a[i] / (b[i] | 1)", "a[i] % (b[i] | 1)", f"a[i] / {rng.randint(3, 99)}", "(s + a[i]) % 1009"))
    total = "double" if t in _FLOATS else "long"
    high = _array(t, n, 0.5, 3)
    step = rng.choice(("s += {}", "s = {}")) if "s" in e else "s += {}"
    return f"{high} {high} {n}", (
        f"{total} f(const {t} *a, const {t} *b, int n)"
        f" {{ {total} s = 1; for (int i = 0; i < n; i++) {step.format(e)}; return s; }}"
    )


def _recur(rng: random.Random) -> tuple[str, str]:
    t, n = rng.choice([*_FLOATS, "int", "long"]), rng.choice((500, 1000))
    half = f"({t}).5" if t in _FLOATS else "3"
    body = rng.choice(
        (
            f"s = s * {half} + a[i]; b[i] = s",
            "r = s; s = a[i] - s / 2 + q; q = r; b[i] = s",
            "s = s + a[i] > 100 ? 0 : s + a[i]; b[i] = s",
            "s = s > a[i] ? s : a[i]; b[i] = s",
            "s = (s < 0 ? -s : s) + a[i] - 2; b[i] = s",
            f"b[i] = b[i - 1] * {half} + a[i]",
        )
    )
    return f"{_array(t, n)} {_array(t, n)} {n}", (
        f"{t} f(const {t} *a, {t} *b, int n)"
        f" {{ {t} s = 0, q = 0, r = 0; for (int i = 1; i < n; i++) {{ {body}; }} return s + q + r; }}"
    )


def _recurse(rng: random.Random) -> tuple[str, str]:
    n = rng.randint(12, 15)
    cut, more = rng.randint(2, 4), rng.choice(("", " + 1", " ^ n"))
    if rng.random() < 0.5:
        return f"{n}", f"long f(long n) {{ return n < {cut} ? n : f(n - 1) + f(n - 2){more}; }}"
    return f"f8[1024]-2:2 {rng.choice((512, 1024))}", (
        f"double f(const double *a, long n) {{ if (n <= {2 * cut}) {{ double s = 0;"
        " for (int i = 0; i < n; i++) s += a[i];"
        " return s; } return f(a, n / 2) + f(a + n / 2, n - n / 2); }"
    )


def _matrix(rng: random.Random) -> tuple[str, str]:
    t, n = rng.choice([*_FLOATS, *_FLOATS, "int"]), rng.choice((12, 17, 24, 30))
    body = rng.choice(
        (
            "for (int k = 0; k < n; k++) c[i * n + j] += a[i * n + k] * b[k * n + j]",
            "c[j * n + i] = a[i * n + j] + b[i * n + j]",
            "c[i] += a[i * n + j] * b[j]",
            "c[i * n + j] = c[i * n + j] > a[i * n] + b[j] ? a[i * n] + b[j] : c[i * n + j]",
            "c[j] += a[i * n + j] * b[i]",
        )
    )
    arrays = " ".join(_array(t, n * n) for _ in range(3))
    return f"{arrays} {n}", (
        f"void f(const {t} *restrict a, const {t} *restrict b, {t} *restrict c, int n)"
        f" {{ for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) {{ {body}; }} }}"
    )


def _search(rng: random.Random) -> tuple[str, str]:
    n = rng.choice((300, 600))
    body = rng.choice(
        (
            "int l = 0, h = n; while (l < h) { int m = (l + h) / 2; if (b[m] < a[i]) l = m + 1; else h = m; } s += l",
            "int j = a[i] % n, k = 0; while (k < 4 && b[j] != a[i]) { j = (j + 1) % n; k++; } s += j",
            "long v = a[i]; while (v > 1) { v = v & 1 ? 3 * v + 1 >> 2 : v / 2; s++; }",
            "int x = a[i], y = b[i] + 1; while (y) { int z = x % y; x = y; y = z; } s += x",
            "s += __builtin_ctz(a[i] | 1024) + __builtin_popcount(b[i])",
        )
    )
    return f"i4[{n}]0:1000 i4[{n}]0:1000 {n}", (
        f"long f(const int *a, const int *b, int n)"
        f" {{ long s = 0; for (int i = 0; i < n; i++) {{ {body}; }} return s; }}"
    )


def _table(rng: random.Random) -> tuple[str, str]:
    n, m = rng.choice((60, 100)), rng.choice((40, 70))
    best = rng.choice(
        (
            "int x = d[j - 1] + (a[i] == b[j]), y = d[j]; d[j] = x > y ? x : y",
            (
                "int x = p + (a[i] != b[j]), y = d[j] + 1, z = d[j - 1] + 1; p = d[j];"
                " d[j] = x < y ? (x < z ? x : z) : y < z ? y : z"
            ),
            "d[j] = d[j] + d[j - 1] & 1023",
        )
    )
    return f"i4[{n}]0:4 i4[{m}]0:4 i4[{m}]0:9 {n} {m}", (
        "int f(const int *a, const int *b, int *d, int n, int m)"
        f" {{ int p = 0; for (int i = 0; i < n; i++) for (int j = 1; j < m; j++) {{ {best}; }} return d[m - 1] + p; }}"
    )


_KINDS: dict[str, Callable[[random.Random], tuple[str, str]]] = {
    "map": _map,
    "reduction": _reduce,
    "stencil": _stencil,
    "choice": _choose,
    "blend": _blend,
    "bytes": _bytes,
    "hash": _hash,
    "gather": _gather,
    "interpolation": _interpolate,
    "division": _divide,
    "recurrence": _recur,
    "recursion": _recurse,
    "matrix": _matrix,
    "search": _search,
    "table": _table,
}
