"""A loop without its vector loads, or without its vector arithmetic: what goes, what it takes then, what is refused."""

import ctypes
import json

import numpy as np
import pytest
from typer.testing import CliRunner

pytest.importorskip("iced_x86", reason="iced-x86 is not installed")

import perfkit as pk
from perfkit.cli.main import app
from perfkit.collectors.host.code import flags
from perfkit.collectors.noise.copies import Copies, NoiseVariant
from perfkit.collectors.noise.function import read_function
from perfkit.collectors.noise.kinds import NoRoom
from perfkit.collectors.noise.place import noise_place
from perfkit.collectors.noise.removal import ARITHMETIC, LOADS, REMOVALS, removed
from perfkit.collectors.tracer.elf import ElfFile

FLAGS = "-O2 -fno-tree-vectorize -ffp-contract=off"
DOT = (
    "double f(double *a, double *b, long n) { double s = 1; for (long i = 0; i < n; i++) s += a[i] * b[i]; return s; }"
)
DIVIDE = "double f(const double *a, long n) { double s = 0; for (long i = 0; i < n; i++) s += 1 / a[i]; return s; }"

CALLS = """
__attribute__((noinline)) double g(double x) { __asm__ volatile(""); return x; }
double f(double *a, long n) { double s = 0; while (n--) s += g(a[n]); return s; }
"""


def parts(source: str, flags: str = FLAGS, base: int = 0):
    kernel = pk.collectors.compile_kernel(source, "f", flags=flags)
    function = read_function(ElfFile(kernel.path), "f", base)
    return kernel, function, noise_place(function, function.loops[0])


def told(source: str, way: str, flags: str = FLAGS) -> list[tuple[str, str]]:
    """What goes, and what takes its place, by their first words."""
    _, function, place = parts(source, flags)
    found = removed(function, function.loops[0], place, way)
    texts = {i.ip: str(i) for i in function.instructions}
    return [(texts[ip].partition(" ")[0], str(new).partition(" ")[0] if new else "") for ip, new in found.items()]


def test_what_goes_from_a_dot_product():
    """By hand: a load, a multiplication that loads, an addition."""
    assert told(DOT, LOADS) == [("movsd", ""), ("mulsd", "mulsd")]
    assert told(DOT, ARITHMETIC) == [("mulsd", "movsd"), ("addsd", "")]


@pytest.mark.skipif("avx2" not in flags(), reason="this processor lacks avx2")
def test_vectors_keep_their_width():
    source = "void f(double *a, double *b, long n) { for (long i = 0; i < n; i++) a[i] = b[i] * 3; }"
    _, function, place = parts(source, "-O3 -mavx2 -fno-unroll-loops")
    loop = next(each for each in function.loops if any("ymm" in str(i) for i in function.body(each)))
    (new,) = removed(function, loop, place, ARITHMETIC).values()
    assert str(new).startswith("vmovups ymm")


def test_a_copy_without_its_additions_leaves_the_sum():
    kernel, *_ = parts(DOT)
    library = ctypes.CDLL(str(kernel.path))
    base = ctypes.cast(library.f, ctypes.c_void_p).value - ElfFile(kernel.path).function("f").address
    function = read_function(ElfFile(kernel.path), "f", base)
    place = noise_place(function, function.loops[0])
    copies = Copies(function, place, [NoiseVariant("", 0), NoiseVariant(ARITHMETIC, 0)], "avx" in flags())
    a = np.arange(1.0, 9.0)
    signature = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long)
    plain, without = (signature(call)(a.ctypes.data, a.ctypes.data, 8) for call in copies.calls)
    assert plain == 1 + float(a @ a)
    assert without == 1


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("long f(double *a, long n) { long k = 0; while (n--) k += a[n] > 2; return k; }", "a number or a direction"),
        ("long f(double *a, long n) { long k = 0; while (n--) k += (long)a[n]; return k; }", "a number or a direction"),
        (CALLS, "calls others"),
        ("long f(long *a, long n) { long k = 0; while (n--) k += a[n]; return k; }", "has no vector"),
    ],
)  # fmt: skip
def test_what_is_refused(source, why):
    _, function, place = parts(source)
    for way in REMOVALS:
        with pytest.raises(NoRoom, match=why):
            removed(function, function.loops[0], place, way)


@pytest.mark.measures
def test_divisions_are_what_takes_the_time(tmp_path):
    """A division every four cycles at best, and nothing else that takes more than one: without it, a half at most."""
    kernel = pk.collectors.compile_kernel(DIVIDE, "f", flags=FLAGS)
    data = np.ones(2000)
    found = pk.Noise(seconds=8).without(kernel, data, 2000).set_index("removed")
    assert found["quiet"].all(), f"the machine was busy: {found['time'].to_dict()}"
    assert found.loc[ARITHMETIC, "time"] < 0.6
    assert found.loc[LOADS, "time"] == pytest.approx(1, abs=0.1)
    assert (data == 1).all()


def test_the_command_line(tmp_path):
    source = tmp_path / "k.c"
    source.write_text("long f(long *a, long n) { long k = 0; while (n--) k += a[n]; return k; }")
    words = ["noise", str(source), "--arguments", "i8[100], 100", "--remove"]
    done = CliRunner().invoke(app, [*words, "--flags", "-O1"])
    assert done.exit_code == 0, done.output
    assert "not measured: the loop has no vector loads" in done.output
    done = CliRunner().invoke(app, [*words, "--flags", "-O1", "--json"])
    assert json.loads(done.stdout)["results_changed"] is True
    assert CliRunner().invoke(app, [*words, "--kinds", "nop"]).exit_code
