"""What instructions of whole kernels cost in their DAGs, by hand, and what kernels may not do to the process."""

import time

import numpy as np
import pytest

import perfkit as pk
from perfkit import DagCore, DagScheduler
from perfkit.collectors.dag.kernel_trace import working_copies
from perfkit.collectors.dag.llvm_ir import instrument
from perfkit.collectors.open_traces import kernel_arguments
from perfkit.dag.program import HOLD, INTEGER
from perfkit.errors import DataError, PerfkitWarning, SettingError

LOOP = """{declared}
define {kind} @f({kind} %start, ptr %p, i64 %n) {attributes}{{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %j, %loop ]
  %s = phi {kind} [ %start, %entry ], [ %t, %loop ]
{body}
  %j = add i64 %i, 1
  %more = icmp ult i64 %j, %n
  br i1 %more, label %loop, label %out
out:
  ret {kind} %t
}}
{groups}"""
BASELINE = 'attributes #0 = { "target-cpu"="x86-64" "target-features"="+sse2,+cx8" }\n'
N = 400


def source(tmp_path, body, kind="i64", start=1, declared="", target=None, data=None, whole=True, core=None):
    groups, attributes = ("", "") if target is None else (target, "#0 ")
    text = LOOP.format(kind=kind, body=body, declared=declared, groups=groups, attributes=attributes)
    path = tmp_path / "f.ll"
    path.write_text(text)
    return pk.trace_c(path, "f", start, np.zeros(8) if data is None else data, N, whole=whole, core=core)


def link(traced, core="zen4"):
    """Return the cycles of one turn of the loop."""
    return DagScheduler(DagCore.load(core), record=False).run(traced).cycles / N


@pytest.mark.parametrize(
    ("operation", "cycles"),
    [
        ("udiv i64 %s, 7", 5),
        ("sdiv i64 %s, 7", 6),
        ("urem i64 %s, 7", 9),
        ("sdiv i64 %s, 8", 3),
        ("sdiv i64 %s, -7", 6),
    ],
)
def test_a_division_by_a_constant_needs_no_divider(tmp_path, operation, cycles):
    traced = source(tmp_path, f"  %t = {operation}", start=1 << 60)
    assert not (traced.program.op == HOLD).any()
    assert link(traced) == pytest.approx(cycles, abs=0.1)


MAXIMUM = "declare i64 @llvm.smax.i64(i64, i64)"


@pytest.mark.parametrize(
    ("body", "cycles"),
    [
        # A comparison and a conditional move behind the addition.
        ("  %u = add i64 %s, %i\n  %t = call i64 @llvm.smax.i64(i64 %u, i64 0)", 3),
        # The largest of all: a jump that is predicted, alone or unrolled.
        ("  %t = call i64 @llvm.smax.i64(i64 %s, i64 %i)", 1),
        ("  %u = call i64 @llvm.smax.i64(i64 %s, i64 %i)\n  %t = call i64 @llvm.smax.i64(i64 %u, i64 5)", 2),
    ],
)
def test_a_maximum_compares_and_moves(tmp_path, body, cycles):
    assert link(source(tmp_path, body, declared=MAXIMUM)) == pytest.approx(cycles, abs=0.1)


@pytest.mark.parametrize("end", ["return m;", "*out = m; return 0;", "return m + 1;", "return m > 7 ? *out : m;"])
@pytest.mark.parametrize(("step", "cycles"), [("b = a[i];", 1), ("b = a[i] + m;", 3)])
def test_what_becomes_of_the_largest_behind_the_loop_is_no_matter(tmp_path, end, step, cycles):
    path = tmp_path / "largest.c"
    path.write_text(
        "long largest(const long *a, long *out, long n) {\n  long m = 0, b;\n"
        f"  for (long i = 0; i < n; i++) {{ {step} m = m > b ? m : b; }}\n  {end}\n}}\n"
    )
    arguments = np.arange(N) % 7, np.ones(1, np.int64), N
    flags = ("-O2", "-fno-vectorize", "-fno-unroll-loops")
    traced = pk.trace_c(path, "largest", *arguments, flags=flags, whole=True)
    assert link(traced) == pytest.approx(cycles, abs=0.2)


@pytest.mark.parametrize(("kind", "cycles"), [("i64", 5), ("i8", 4)])
def test_a_scaled_index_delays_a_load_on_zen5(tmp_path, kind, cycles):
    """Measured there with scales of 2, 4 and 8; without a scale an index takes nothing."""
    indexed = f"  %a = getelementptr {kind}, ptr %p, i64 %s\n  %t = load i64, ptr %a"
    traced = source(tmp_path, indexed, start=0, core=pk.Microarchitecture.load("zen5"))
    assert link(traced, "zen5") == pytest.approx(cycles, abs=0.1)


def test_a_division_by_a_variable_does(tmp_path):
    traced = source(tmp_path, "  %d = or i64 %i, 1\n  %t = udiv i64 %s, %d")
    assert (traced.program.op == HOLD).any()
    assert link(traced) > 12


# Cycles until the result and until the next one, of 64 bits (unsigned) and of 32 (signed): the core files' own sources.
DIVISIONS = {
    "sandy_bridge": (25, 10, 25, 10),
    "skylake_x": (35, 21, 26, 6),
    "ice_lake": (18, 10, 15, 6),
    "golden_cove": (18, 10, 15, 6),
    "raptor_cove": (15, 10, 12, 6),
    "redwood_cove": (18, 10, 15, 6),
    "zen3": (9, 7, 9, 6),
    "zen4": (9, 7, 9, 6),
    "zen5": (13, 7, 12, 6),
}


@pytest.mark.parametrize(("core", "figures"), DIVISIONS.items())
def test_a_division_of_integers_takes_what_its_core_takes(tmp_path, core, figures):
    """It took 14 cycles on every core, and the next one began after seven."""
    machine = pk.Microarchitecture.load(core)
    latency, busy, latency_32, busy_32 = figures
    odd = "  %d = or i64 %i, 1\n"
    short = "  %x = trunc i64 %s to i32\n  %e = trunc i64 %d to i32\n"
    chain = source(tmp_path, odd + "  %t = udiv i64 %s, %d", start=1 << 62, core=machine)
    assert link(chain, core) == pytest.approx(latency, abs=0.1)
    chain = source(tmp_path, odd + short + "  %y = sdiv i32 %x, %e\n  %t = zext i32 %y to i64", core=machine)
    assert link(chain, core) == pytest.approx(latency_32, abs=0.1)
    apart = source(tmp_path, odd + "  %t = udiv i64 %n, %d", core=machine)
    assert link(apart, core) == pytest.approx(busy, abs=0.2)
    apart = source(
        tmp_path, odd + short.replace("%s", "%n") + "  %y = srem i32 %x, %e\n  %t = zext i32 %y to i64", core=machine
    )
    assert link(apart, core) == pytest.approx(busy_32, abs=0.2)


def test_without_a_core_of_x86_divisions_take_what_is_usual(tmp_path):
    body = "  %d = or i64 %i, 1\n  %t = udiv i64 %s, %d"
    usual = source(tmp_path, body)
    assert link(usual) == pytest.approx(14, abs=0.1)
    other = source(tmp_path, body, core=pk.Microarchitecture.load("cortex_a72"))
    assert (other.program.delay == usual.program.delay).all()


@pytest.mark.parametrize(
    ("core", "product_and_sum", "sums"),
    [("zen5", 6, 2), ("raptor_cove", 7, 2), ("redwood_cove", 6, 2), ("zen4", 6, 3), ("zen3", 6, 3)],
)
def test_a_sum_comes_earlier_to_an_addition_only(tmp_path, core, product_and_sum, sums):
    """A term of Horner's rule took five cycles on Zen 5, 5.9 measured: sums were forwarded to products."""
    machine = pk.Microarchitecture.load(core)
    horner = "  %a = fmul double %s, 0.5\n  %t = fadd double %a, 1.0"
    assert link(source(tmp_path, horner, "double", core=machine), core) == pytest.approx(product_and_sum, abs=0.1)
    chain = source(tmp_path, "  %t = fsub double %s, 1.0", "double", core=machine)
    assert link(chain, core) == pytest.approx(sums, abs=0.1)
    # Two sums, the second of which a product takes, per turn: one forwarded, one not.
    mixed = "  %a = fadd double %s, 1.0\n  %b = fadd double %a, 2.0\n  %t = fmul double %b, 0.5"
    taken = link(source(tmp_path, mixed, "double", core=machine), core)
    assert taken == pytest.approx(product_and_sum + sums, abs=0.1)


def test_the_papers_nodes_are_those_of_no_core(tmp_path):
    body = "  %a = fmul double %s, 0.5\n  %t = fadd double %a, 1.0"
    alone = source(tmp_path, body, "double", whole=False)
    of_zen5 = source(tmp_path, body, "double", whole=False, core=pk.Microarchitecture.load("zen5"))
    for column, other in zip(alone.program, of_zen5.program, strict=True):
        assert np.array_equal(column, other)


@pytest.mark.parametrize(
    ("core", "kind", "latency", "interval"),
    [
        ("zen5", "double", 20, 7.5),
        ("zen4", "double", 21, 8.25),
        ("golden_cove", "double", 18, 6),
        ("zen5", "float", 14, 4.5),
    ],
)
def test_a_square_root_takes_what_its_core_takes(tmp_path, core, kind, latency, interval):
    """It took a division's cycles until its result: 13 on Zen 5, where 20 were measured."""
    machine = pk.Microarchitecture.load(core)
    bits = {"double": 64, "float": 32}[kind]
    declared = f"declare {kind} @llvm.sqrt.f{bits}({kind})"
    call = f"call {kind} @llvm.sqrt.f{bits}({kind} "
    chain = source(tmp_path, f"  %t = {call}%s)", kind, 2.0, declared, core=machine)
    assert link(chain, core) == pytest.approx(latency, abs=0.15)
    apart = source(tmp_path, f"  %x = sitofp i64 %i to {kind}\n  %t = {call}%x)", kind, 2.0, declared, core=machine)
    assert link(apart, core) == pytest.approx(interval, abs=0.15)


@pytest.mark.parametrize(
    ("core", "there_and_back"), [("zen5", 13), ("zen4", 12), ("golden_cove", 14), ("skylake_x", 11)]
)
def test_a_conversion_takes_what_its_core_takes(tmp_path, core, there_and_back):
    body = "  %x = sitofp i64 %s to double\n  %t = fptosi double %x to i64"
    traced = source(tmp_path, body, core=pk.Microarchitecture.load(core))
    assert link(traced, core) == pytest.approx(there_and_back, abs=0.1)


def test_conversions_and_signs_on_the_chain_take_time(tmp_path):
    core = DagCore.load("zen4")
    body = "  %a = fpext float %s to double\n  %b = fadd double %a, 1.0\n  %t = fptrunc double %b to float"
    assert link(source(tmp_path, body, "float")) == pytest.approx(core.latency_A + 8, abs=0.1)
    assert link(source(tmp_path, "  %a = fneg double %s\n  %t = fadd double %a, 1.0", "double")) == pytest.approx(
        core.latency_A + 1, abs=0.1
    )
    # The paper's nodes leave both out.
    assert link(source(tmp_path, body, "float", whole=False)) == pytest.approx(core.latency_A, abs=0.1)


def test_long_doubles_are_converted_as_they_are_loaded(tmp_path):
    body = "  %a = fpext double %s to x86_fp80\n  %b = fadd x86_fp80 %a, %a\n  %t = fptrunc x86_fp80 %b to double"
    assert link(source(tmp_path, body, "double")) == pytest.approx(DagCore.load("zen4").latency_A, abs=0.1)


def test_counting_bits_and_rounding_depend_on_the_target(tmp_path):
    declared = "declare i64 @llvm.ctpop.i64(i64)"
    body = "  %a = call i64 @llvm.ctpop.i64(i64 %s)\n  %t = or i64 %a, %i"
    have = source(tmp_path, body, declared=declared)
    lack = source(tmp_path, body, declared=declared, target=BASELINE)
    work = [int((traced.program.op == INTEGER).sum()) for traced in (have, lack)]
    assert work[1] == work[0] + 11
    declared = "declare double @llvm.floor.f64(double)"
    body = "  %a = call double @llvm.floor.f64(double %s)\n  %t = fadd double %a, 1.5"
    assert link(source(tmp_path, body, "double", declared=declared)) > DagCore.load("zen4").latency_A + 4
    with pytest.warns(PerfkitWarning, match=r"floor.*SSE4\.1"):
        source(tmp_path, body, "double", declared=declared, target=BASELINE)


def test_wide_divisions_keep_the_divider_longer(tmp_path):
    core = DagCore.load("zen4")
    body = """  %v = load {kind}, ptr %p, align 8
  %w = fdiv {kind} %v, %v
  %t = add i64 %s, 1"""
    once, four, eight = (
        link(source(tmp_path, body.replace("{kind}", kind))) for kind in ("double", "<4 x double>", "<8 x double>")
    )
    assert once == pytest.approx(1 / core.throughput_D, rel=0.2)
    assert (four / once, eight / once) == pytest.approx((1.5, 3), rel=0.1)


def test_atomic_operations_wait_for_each_other(tmp_path):
    body = "  %q = getelementptr i64, ptr %p, i64 %i\n  %t = atomicrmw add ptr %q, i64 1 seq_cst"
    assert link(source(tmp_path, body, data=np.zeros(N, dtype=np.int64))) == pytest.approx(17, abs=1.5)


def test_a_remainder_of_floats_is_a_call(tmp_path):
    with pytest.warns(PerfkitWarning, match="fmod"):
        source(tmp_path, "  %t = frem double %s, 3.0", "double")


def test_moves_of_whole_kernels_go_by_vectors(tmp_path):
    ir = """
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
define void @f(ptr %p, i64 %n) {
  call void @llvm.memset.p0.i64(ptr %p, i8 0, i64 %n, i1 false)
  ret void
}
"""
    path = tmp_path / "set.ll"
    path.write_text(ir)
    whole, paper = (pk.trace_c(path, "f", np.ones(512), 4096, whole=w) for w in (True, False))
    assert whole.dag().counts["S"] == 128
    assert paper.dag().counts["S"] == 512
    told = DagScheduler(DagCore.load("zen4"), record=False).run(whole)
    assert told.doubts == ()  # no function of the kernel's own is called


def test_work_that_is_not_seen_is_a_doubt_where_it_is_executed(tmp_path):
    declared = "declare double @sin(double)"
    core = DagScheduler(DagCore.load("zen4"), record=False)
    with pytest.warns(PerfkitWarning, match="sin"):
        always = source(tmp_path, "  %t = call double @sin(double %s)", "double", declared=declared)
    assert any("400 calls of functions that are not in the source" in doubt for doubt in core.run(always).doubts)
    body = """  %never = icmp eq i64 %i, -1
  br i1 %never, label %rare, label %go
rare:
  %r = call double @sin(double %s)
  br label %go
go:
  %t = phi double [ %r, %rare ], [ %s, %loop ]"""
    text = LOOP.replace("[ %j, %loop ]", "[ %j, %go ]").replace("[ %t, %loop ]", "[ %t, %go ]")
    path = tmp_path / "rare.ll"
    path.write_text(text.format(kind="double", body=body, declared=declared, groups="", attributes=""))
    with pytest.warns(PerfkitWarning, match="sin"):
        rarely = pk.trace_c(path, "f", 1.0, np.zeros(1), N, whole=True)
    assert core.run(rarely).doubts == ()


def shifted(a, b):
    """Add half of what is before in `b` to each element of `a`."""
    for i in range(1, a.size):
        a[i] += b[i - 1] * 0.5


def test_arrays_that_share_memory_share_it_in_the_copies():
    core = DagScheduler(DagCore.load("zen4"), record=False)
    x = np.ones(500)
    apart = core.run(pk.trace_numba(shifted, x, x.copy(), whole=True)).cycles
    same = pk.trace_numba(shifted, x, x, whole=True)
    assert core.run(same).cycles > 3 * apart  # a chain through memory
    assert same.run()[0][2] == 1.75
    assert same.digest() != pk.trace_numba(shifted, x, x.copy(), whole=True).digest()
    (a, _), (b, kept), nothing = working_copies([x[:300], x[100:], 5])
    assert nothing is None
    assert b.ctypes.data - a.ctypes.data == 800
    a[150] = 7.0
    assert (b[50], kept[50]) == (7.0, 1.0)


def test_a_kernel_that_would_end_the_process_is_refused(tmp_path):
    traced = source(tmp_path, "  %d = load volatile i64, ptr %p\n  %t = udiv i64 %s, %d")
    with pytest.raises(DataError, match="SIGFPE, a division of integers by zero"):
        traced.dag()
    with pytest.raises(DataError, match="SIGFPE"):
        traced.seconds()
    far = "  %k = shl i64 %i, 40\n  %q = getelementptr i8, ptr %p, i64 %k\n  %t = load i64, ptr %q"
    with pytest.raises(DataError, match="SIGSEGV, an access outside"):
        source(tmp_path, far).replay(lambda records, length: None)


def test_a_kernel_that_does_not_return_is_told_and_can_be_stopped(tmp_path):
    path = tmp_path / "endless.c"
    path.write_text("void f(volatile long *a) { while (!*a) ; }\n")
    started = time.monotonic()
    traced = pk.trace_c(path, "f", np.zeros(1, np.int64))
    with pytest.raises(PerfkitWarning, match="has not returned after 5 s of its first run"):
        traced.dag()
    assert 4 < time.monotonic() - started < 60


FILLS = """void f(double *a, long n) { for (long i = 0; i < n; i++) a[i] = 1; }
double g(const double *a, const int *b, long n) { double s = 0; for (long i = 0; i < n; i++) s += a[b[i]]; return s; }
void h(char *a, long n) { a[n] = 1; }
"""


@pytest.mark.parametrize(
    ("function", "arguments", "words"),
    [
        ("f", (np.zeros(1000, np.float32), 1000), r"one at byte 4,000 of an array of 4,000 bytes \(float32\)"),
        ("f", (np.zeros(999), 1000), r"one at byte 7,992 of an array of 7,992 bytes \(float64\)"),
        ("g", (np.zeros(64), np.arange(65, dtype=np.int32), 65), r"one at byte 512 of an array of 512 bytes"),
        ("g", (np.zeros(64), np.arange(62, dtype=np.int32), 64), r"one at byte 248 of an array of 248 bytes \(int32\)"),
        ("h", (np.zeros(1001, np.int8), 1001), r"a store at byte 1,001 of an array of 1,001 bytes \(int8\)"),
        ("h", (np.zeros(1000, np.int8), 1 << 24), r"one at byte 16,777,216 of an array of 1,000 bytes"),
        ("h", (np.zeros(1000, np.int8), -(1 << 24)), r"one at byte -16,777,216 of an array of 1,000 bytes"),
        ("h", (np.zeros(1000, np.int8), -3), r"a store at byte -3 of an array of 1,000 bytes \(int8\)"),
    ],
)
def test_a_kernel_that_leaves_its_arrays_is_refused(tmp_path, function, arguments, words):
    """Stores a few bytes behind an array ended this process (5 of 5 times) or had it wait for ever."""
    path = tmp_path / "fills.c"
    path.write_text(FILLS)
    with pytest.raises(DataError, match=words):
        pk.trace_c(path, function, *arguments).dag()


def test_arrays_that_a_kernel_fills_to_their_ends_are_within_bounds(tmp_path):
    """The whole of each array, of arrays that share memory, of none, and of code that relies on 64 bytes' alignment."""
    path = tmp_path / "fills.c"
    path.write_text(
        FILLS + "void k(double *a, long n) { a = __builtin_assume_aligned(a, 64); "
        "for (long i = 0; i < n; i++) a[i] += 1; }\n"
    )
    for length in (0, 1, 7, 999, 5000):
        assert pk.trace_c(path, "f", np.zeros(length), length).run()[0].sum() == length
        assert pk.trace_c(path, "k", np.zeros(length), length, flags=["-O3", "-mavx2"]).run()[0].sum() == length
    whole = np.zeros(100)
    traced = pk.trace_c(path, "g", whole, whole.view(np.int32)[:64], 64)
    assert len(traced.run()) == 2


def test_divisions_of_128_bits_call_what_the_compilers_library_has(tmp_path):
    path = tmp_path / "wide.c"
    path.write_text(
        "unsigned long f(unsigned long b, long n) { unsigned long r = 1; for (long i = 0; i < n; i++) "
        "r = (unsigned __int128)r * b % 1000000007u; return r; }\n"
    )
    with pytest.warns(PerfkitWarning, match="__divti3"):
        traced = pk.trace_c(path, "f", 12345, 100, whole=True)
    assert traced.dag().counts["I"] > 100


def test_results_that_cannot_be_taken_are_refused(tmp_path):
    ir = (
        "define { i64, i64 } @f(i64 %a) {\n  %r = insertvalue { i64, i64 } undef, i64 %a, 0\n  ret { i64, i64 } %r\n}\n"
    )
    path = tmp_path / "two.ll"
    path.write_text(ir)
    assert instrument(ir, "f").returns == "{ i64, i64 }"
    with pytest.raises(SettingError, match=r"returns \{ i64, i64 \}, which cannot be taken"):
        pk.trace_c(path, "f", 1)


def test_complex_arrays_can_be_arguments():
    (array,) = kernel_arguments("c16[4]")
    assert array.dtype == np.complex128
    assert array[1] == 1 + 1 / 64


def test_a_plain_loop_has_no_branches_that_are_hard_to_predict(tmp_path):
    short = source(tmp_path, "  %t = add i64 %s, %i")
    assert DagScheduler(DagCore.load("zen4"), record=False).run(short).doubts == ()


def test_a_load_with_a_scaled_index_is_later_where_the_core_says_so(tmp_path):
    """Only traces had this: a chain through an array of indices took four cycles on Zen 4, 5.0 measured."""
    body = "  %q = getelementptr inbounds i64, ptr %p, i64 %s\n  %t = load i64, ptr %q"
    plain = body.replace("i64, ptr %p", "i8, ptr %p")
    zen4, golden_cove = (pk.Microarchitecture.load(name) for name in ("zen4", "golden_cove"))
    start, zeros = 0, np.zeros(8, dtype=np.int64)
    scaled = link(source(tmp_path, body, start=start, data=zeros, core=zen4))
    assert scaled == pytest.approx(link(source(tmp_path, plain, start=start, data=zeros, core=zen4)) + 1, abs=0.1)
    others = [
        link(source(tmp_path, b, start=start, data=zeros, core=golden_cove), "golden_cove") for b in (body, plain)
    ]
    assert others[0] == others[1]


def test_unsigned_numbers_of_64_bits_are_converted_in_steps(tmp_path):
    """They took what signed ones take: 9 cycles there and back, where a Zen 5 took 25."""
    body = "  %x = uitofp i64 %s to double\n  %t = fptoui double %x to i64"
    assert link(source(tmp_path, body, target=BASELINE)) == pytest.approx(11 + 11, abs=0.1)
    wide = BASELINE.replace("+cx8", "+cx8,+avx512f")
    assert link(source(tmp_path, body, target=wide)) == pytest.approx(8, abs=0.1)
    half = "  %y = trunc i64 %s to i32\n  %x = uitofp i32 %y to double\n  %z = fptoui double %x to i32\n"
    half += "  %t = zext i32 %z to i64"
    assert link(source(tmp_path, half, target=BASELINE)) == pytest.approx(8, abs=0.1)


def test_leading_zeros_take_a_second_operation_without_lzcnt(tmp_path):
    body = "  %t = call i64 @llvm.ctlz.i64(i64 %s, i1 true)"
    declared = "declare i64 @llvm.ctlz.i64(i64, i1)"
    assert link(source(tmp_path, body, declared=declared, target=BASELINE)) == pytest.approx(2, abs=0.1)
    with_it = BASELINE.replace("+cx8", "+cx8,+lzcnt")
    assert link(source(tmp_path, body, declared=declared, target=with_it)) == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("name", ["k.f90", "k.F", "k.rs"])
def test_sources_of_other_languages_are_refused_with_the_way_out(tmp_path, name):
    """They were "neither a source nor a program"."""
    path = tmp_path / name
    path.write_text("end\n")
    with pytest.raises(SettingError, match=r"build .*, and name its program"):
        pk.open_dags(str(path), function="f")


def test_the_papers_kernels_take_the_cores_latencies_in_whole():
    zen5 = pk.Microarchitecture.load("zen5")
    of_zen5 = pk.open_dags("mvm", sizes=[8], core=zen5)["mvm(8)"]
    assert len(of_zen5.program.op) > len(pk.open_dags("mvm", sizes=[8])["mvm(8)"].program.op), "sums are forwarded"
    paper = [pk.open_dags("mvm", sizes=[8], core=c, whole=False)["mvm(8)"].program.op for c in (zen5, None)]
    assert np.array_equal(*paper)


ZEN5 = pk.Microarchitecture.load("zen5")
TWO = """declare i64 @llvm.smax.i64(i64, i64)
declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.umax.i64(i64, i64)
declare i64 @llvm.abs.i64(i64, i1)
declare i32 @llvm.uadd.sat.i32(i32, i32)
declare i64 @llvm.usub.sat.i64(i64, i64)"""
ADD_TO = "  %u = add i64 %s, %i\n"


@pytest.mark.parametrize(
    ("body", "zen5", "zen4"),
    [
        (ADD_TO + "  %t = call i64 @llvm.smax.i64(i64 %u, i64 0)", 4, 3),
        (ADD_TO + "  %t = call i64 @llvm.umin.i64(i64 %u, i64 %i)", 3, 3),
        (ADD_TO + "  %t = call i64 @llvm.umax.i64(i64 %u, i64 %i)", 4, 3),
        (ADD_TO + "  %t = call i64 @llvm.umax.i64(i64 %u, i64 7)", 3, 3),
        (ADD_TO + "  %c = icmp sgt i64 %u, %i\n  %t = select i1 %c, i64 %s, i64 %i", 4, 3),
        (ADD_TO + "  %c = icmp slt i64 %u, 0\n  %t = select i1 %c, i64 %s, i64 %i", 3, 3),
        (ADD_TO + "  %c = icmp eq i64 %u, %i\n  %t = select i1 %c, i64 %s, i64 %i", 3, 3),
        (ADD_TO + "  %c = icmp ult i64 %u, %i\n  %t = select i1 %c, i64 %s, i64 %i", 3, 3),
        (ADD_TO + "  %c = icmp ugt i64 %u, 9\n  %t = select i1 %c, i64 %s, i64 %i", 3, 3),
        (ADD_TO + "  %c = icmp ugt i64 %u, %i\n  %t = select i1 %c, i64 %s, i64 %i", 4, 3),
        # The moved values wait for no flags: only the chain through the registers, one cycle a link (on Zen 5 the five
        # operations of a turn, of which a core of six units does four per cycle).
        ("  %c = icmp sgt i64 %i, 7\n  %t = select i1 %c, i64 %s, i64 %i", 1.25, 1),
        (ADD_TO + "  %t = call i64 @llvm.abs.i64(i64 %u, i1 true)", 3, 3),
        (ADD_TO + "  %t = call i64 @llvm.usub.sat.i64(i64 %u, i64 3)", 3, 3),
    ],
)
def test_a_conditional_move_takes_what_its_condition_takes(tmp_path, body, zen5, zen4):
    """Measured on a Zen 5: CMP, CMOVL, ADD 4.0 cycles per link, CMP, CMOVB, ADD 3.0."""
    assert link(source(tmp_path, body, declared=TWO, core=ZEN5), "zen5") == pytest.approx(zen5, abs=0.1)
    core = pk.Microarchitecture.load("zen4")
    assert link(source(tmp_path, body, declared=TWO, core=core), "zen4") == pytest.approx(zen4, abs=0.1)


def test_above_takes_two_operations_where_the_table_says_so(tmp_path):
    body = ADD_TO + "  %t = call i64 @llvm.{}.i64(i64 %u, i64 %i)"
    core = pk.Microarchitecture.load("ice_lake")
    for name, cycles in (("umax", 4), ("umin", 3), ("smax", 3)):
        traced = source(tmp_path, body.format(name), declared=TWO, core=core)
        assert link(traced, "ice_lake") == pytest.approx(cycles, abs=0.1)


@pytest.mark.parametrize(
    ("other", "sse2", "sse4"),
    [("1.5", 2, 1), ("0.0", 1, 1), ("%x", 0, 0)],  # beyond the comparison; the last is a minimum
)
def test_a_choice_of_floating_point_numbers_masks(tmp_path, other, sse2, sse4):
    body = (
        f"  %x = sitofp i64 %i to double\n  %c = fcmp olt double %s, %x\n  %t = select i1 %c, double %s, double {other}"
    )
    compared = DagCore.load("zen4").latency_A
    for target, cycles in ((BASELINE, sse2), (BASELINE.replace("+sse2", "+sse4.1"), sse4)):
        traced = source(tmp_path, body, kind="double", start=1.0, target=target)
        assert link(traced) == pytest.approx(compared + cycles, abs=0.1)
