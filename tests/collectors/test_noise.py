"""Noise in machine code: loops, dead registers, copies, the same in traces; and what is refused, with the reason."""

import ctypes
from dataclasses import replace

import numpy as np
import pytest

iced = pytest.importorskip("iced_x86", reason="iced-x86 is not installed")

import perfkit as pk  # noqa: E402
from perfkit.collectors.host.code import flags  # noqa: E402
from perfkit.collectors.noise.copies import Copies, NoiseVariant, encoded_copy, noise  # noqa: E402
from perfkit.collectors.noise.function import FunctionCode, read_function  # noqa: E402
from perfkit.collectors.noise.kinds import KINDS, Buffers, kinds, refused  # noqa: E402
from perfkit.collectors.noise.liveness import live_at  # noqa: E402
from perfkit.collectors.noise.measure import own_variables  # noqa: E402
from perfkit.collectors.noise.place import noise_place, register_name  # noqa: E402
from perfkit.collectors.noise.traced import BUFFERS, with_noise  # noqa: E402
from perfkit.collectors.tracer.elf import ElfFile  # noqa: E402
from perfkit.errors import DataError, SettingError  # noqa: E402

R = iced.Register
DOT = """
double f(const double *a, const double *b, long n) {
    double s = 0;
    for (long i = 0; i < n; i++) s += a[i] * b[i];
    return s;
}
"""
PLAIN = "-O2 -fno-tree-vectorize"


def assembled(text: str, size: str = ".size f, .-f") -> pk.collectors.Kernel:
    """A function of hand-written assembly."""
    lines = "".join(
        f'"{line}\\n"' for line in [".text", ".globl f", ".type f, @function", "f:", *text.split(";"), size]
    )
    return pk.collectors.compile_kernel(f"__asm__({lines});\nlong f(long n);\n", "f", flags="-O1")


def function(kernel: pk.collectors.Kernel) -> FunctionCode:
    return read_function(ElfFile(kernel.path), "f")


def place(kernel: pk.collectors.Kernel):
    made = function(kernel)
    return noise_place(made, made.loops[0])


def hottest(kernel: pk.collectors.Kernel):
    made = function(kernel)
    return made.loop_at(made.hottest(dict.fromkeys((i.ip for i in made.instructions), 1)))


@pytest.fixture(scope="module")
def dot():
    return pk.collectors.compile_kernel(DOT, "f", flags=PLAIN)


def test_nested_loops_and_the_innermost_of_them():
    made = function(
        assembled("xor %eax, %eax; 1:; mov $8, %ecx; 2:; add %rdi, %rax; dec %ecx; jnz 2b; dec %rdi; jnz 1b; ret")
    )
    outer, inner = sorted(made.loops, key=lambda loop: len(loop.blocks), reverse=True)
    assert inner.blocks < outer.blocks
    assert next(str(i) for i in made.body(inner)) == "add rax,rdi"
    assert made.loop_at(inner.header) == inner
    assert made.loop_at(outer.header) == outer
    counts = {i.ip: 80 if i.ip in {j.ip for j in made.body(inner)} else 10 for i in made.instructions}
    assert made.hottest(counts) == inner.header


def test_dead_registers_of_a_dot_product(dot):
    """By hand: the loop needs a, b, n, i and the sum; the product is written before it is read."""
    free = place(dot)
    assert {R.RDI, R.RSI, R.RDX, R.RAX, R.RSP}.isdisjoint(free.general)
    assert {R.RBX, R.R8, R.R15} <= {*free.own_general}  # what calls preserve is saved before the copy is called
    assert R.ZMM0 not in free.vectors  # the product: SSE keeps the upper half of what it writes
    assert R.ZMM0 + 2 in free.own_vectors
    assert free.carried == R.ZMM1
    assert register_name(free.carried) == "xmm1"
    assert free.links == 4
    assert free.legacy
    assert free.flags_dead
    assert free.width == 16


def test_vex_overwrites_whole_registers():
    made = place(pk.collectors.compile_kernel(DOT, "f", flags=f"{PLAIN} -mavx"))
    assert R.ZMM0 in made.vectors  # the product
    assert R.ZMM0 not in made.own_vectors
    assert made.carried == R.ZMM1


def test_partial_writes_do_not_kill():
    """``mov al, 1`` leaves the rest of rax as it was; ``mov eax, 1`` does not."""
    live = [
        live_at(made, made.loops[0].header)[0]
        for text in ("mov $1, %al", "mov $1, %eax")
        for made in [function(assembled(f"mov %rdi, %rax; 1:; {text}; dec %rdi; jnz 1b; ret"))]
    ]
    assert R.RAX in live[0]
    assert R.RAX not in live[1]


def test_flags_that_the_loop_carries_are_live():
    """``adc`` takes the carry of the iteration before; ``lea`` and ``loop``-like counting keep it."""
    made = place(
        assembled("xor %eax, %eax; 1:; adc %rdi, %rax; lea -1(%rdi), %rdi; mov %rdi, %rcx; jrcxz 2f; jmp 1b; 2:; ret")
    )
    assert not made.flags_dead
    assert "flags are live" in refused(KINDS["branch"], made, flags())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [1, 7])
def test_noise_leaves_the_results_alone(dot, kind, count):
    elf = ElfFile(dot.path)
    library = ctypes.CDLL(str(dot.path))
    base = ctypes.cast(library.f, ctypes.c_void_p).value - elf.function("f").address
    made = read_function(elf, "f", base)
    where = noise_place(made, made.loops[0])
    why = refused(KINDS[kind], where, flags())
    if why:
        pytest.skip(why)
    copies = Copies(made, where, [NoiseVariant("", 0), NoiseVariant(kind, count)])
    a = np.random.default_rng(0).random(100)
    signature = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long)
    found = [signature(call)(a.ctypes.data, a.ctypes.data, len(a)) for call in copies.calls]
    assert found[0] == found[1] == pytest.approx(float(a @ a))


def test_a_copy_without_noise_is_the_code_at_another_place(dot):
    made = function(dot)
    code, start = encoded_copy(made, place(dot), [], made.start + (1 << 20) + 5)
    assert start % 64 == made.start % 64
    assert code == made.code[0][: len(code)]


def test_the_loop_keeps_its_place_in_a_line(dot):
    """Noise makes branches longer; the head of the loop stays where it was in its line, and noise stands before it."""
    made, where = function(dot), place(dot)
    added = noise(NoiseVariant("nop", 40), where, Buffers(1 << 20, 1 << 20, 1 << 24))
    code, start = encoded_copy(made, where, added, made.start + (1 << 20))
    listing = list(iced.Decoder(64, code, ip=start))
    heads = [k for k, i in enumerate(listing) if i.code == iced.Code.NOP_RM32 and i.len == 8]
    first = next(k for k in heads if listing[k + 39].code == iced.Code.NOP_RM32)
    assert listing[first].ip % 64 == where.address % 64
    back = [i for i in listing if i.is_jcc_short_or_near and i.near_branch_target == listing[first].ip]
    assert len(back) == 1


def test_the_same_noise_in_a_trace(dot):
    a = np.ones(50)
    trace = dot.trace(a, a, 50)
    where = place(dot)
    header = int(trace.code.pc[np.flatnonzero(trace.object_addresses() == where.address)[0]])
    for kind, per in (("nop", 0), ("load", 3), ("load L2", 3), ("load L3", 3)):
        added = noise(NoiseVariant(kind, 3), where, BUFFERS)
        grown = with_noise(trace, header, added)
        assert grown.instruction_count == trace.instruction_count + 50 * len(added)
        assert grown.access_count == trace.access_count + 50 * per
        own = grown.addresses[np.isin(grown.addresses, trace.addresses)]
        np.testing.assert_array_equal(own, trace.addresses)
        assert grown.kind == "generated"
        # As in a copy: the header keeps its place, what was added stands there, and the code behind it follows.
        at = int(np.flatnonzero(trace.code.pc == np.uint64(header))[0])
        size = int(sum(grown.code.length[at : at + len(added)]))
        assert int(grown.code.pc[at]) == header
        moved = np.delete(grown.code.pc, np.s_[at : at + len(added)]) - trace.code.pc
        np.testing.assert_array_equal(moved, np.where(trace.code.pc >= np.uint64(header), size, 0))
        ends = grown.code.pc[at : at + len(added)] + grown.code.length[at : at + len(added)].astype(np.uint64)
        np.testing.assert_array_equal(ends, grown.code.pc[at + 1 : at + len(added) + 1])
    lines = np.unique(grown.addresses[~np.isin(grown.addresses, trace.addresses)] // 64)
    assert len(lines) > 100  # loads from L2 go round many lines
    assert pk.Gus("zen3").run(grown).cycles > 0


@pytest.mark.parametrize(
    ("text", "size", "why"),
    [
        ("mov %rdi, %rax; ret", ".size f, .-f", "has no loop"),
        ("test %rdi, %rdi; js 2f; 1:; dec %rdi; 2:; dec %rdi; jns 1b; ret", ".size f, .-f", "entered in the middle"),
        ("lea 3f(%rip), %rax; 1:; jmp *%rax; 3:; dec %rdi; jnz 1b; ret", ".size f, .-f", "table or pointer"),
        ("1:; dec %rdi; jnz 1b; ret", "", "how long f is"),
        ("1:; dec %rdi; jnz 1b", ".size f, .-f; nop; ret", "runs on"),
        ("jmp 1f+1; 1:; movabs $0x9090909090909090, %rax; 2:; dec %rdi; jnz 2b; ret", ".size f, .-f", "middle of an"),
        (".byte 0x06; 1:; dec %rdi; jnz 1b; ret", ".size f, .-f", "no x86-64 instruction"),
    ],
)  # fmt: skip
def test_what_is_refused(text, size, why):
    kernel = assembled(text, size)
    with pytest.raises(DataError, match=why):
        hottest(kernel)


def test_code_that_may_be_written_is_refused(dot):
    elf = ElfFile(dot.path)
    elf.segments = [replace(segment, flags=7) for segment in elf.segments]
    with pytest.raises(DataError, match="self-modifying"):
        read_function(elf, "f")


def test_no_dead_registers(dot):
    full = replace(
        place(dot), general=(), own_general=(), constant_general=(), vectors=(), own_vectors=(), constant_vectors=(),
        carried=0, flags_dead=False,
    )  # fmt: skip
    told = {each.name: refused(each, full, flags() | {"avx", "avx2", "bmi2"}) for each in kinds(None)}
    assert {name for name, why in told.items() if not why} == {"nop", "long nop"}
    assert "no general register is dead" in told["load"]
    assert "constant in the loop" in told["divide"]


def test_calls_make_vector_registers_unsafe(dot):
    assert "functions that the loop calls" in refused(
        KINDS["vector add"], replace(place(dot), calls=True), flags() | {"avx"}
    )


def test_unknown_kinds():
    with pytest.raises(SettingError, match="there are: nop"):
        kinds(["coffee"])
    with pytest.raises(SettingError, match="there are"):
        kinds([])


def test_the_variables_of_a_library_and_nothing_behind_them():
    """Memory that the system put right behind the variables is not theirs: it was once written over."""
    kernel = pk.collectors.compile_kernel("static char room[100000]; long f(long n) { return room[n]++; }", "f")
    elf, library = ElfFile(kernel.path), ctypes.CDLL(str(kernel.path))
    base = ctypes.cast(library.f, ctypes.c_void_p).value - elf.function("f").address
    total = sum(size for _, size in own_variables(elf, base))
    assert 100_000 <= total < 100_000 + 8192
    for at, size in own_variables(elf, base):
        ctypes.memmove(at, ctypes.string_at(at, size), size)  # all of it may be written
