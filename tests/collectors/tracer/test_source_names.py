"""Functions of C++ and Rust by the names that their source gives them."""

import shutil
import subprocess

import pytest

import perfkit as pk
from perfkit.collectors.kernels import compile_kernel
from perfkit.collectors.tracer.demangle import by_ending, demangled, forms, matching
from perfkit.collectors.tracer.elf import ElfFile
from perfkit.collectors.tracer.tracer import Tracer
from perfkit.errors import DataError

pytestmark = pytest.mark.skipif(shutil.which("c++filt") is None, reason="no c++filt (binutils) on this machine")
OUT = "__attribute__((noipa)) "
SOURCE = f"""
namespace app {{
struct Table {{
    int values[8];
    {OUT}int total(int n) const {{ int s = 0; for (int i = 0; i < n; i++) s += values[i]; return s; }}
    {OUT}int over(int n) const {{ return values[n]; }}
    {OUT}int over(double n) const {{ return values[(int)n] * 2; }}
    {OUT}int operator()(int n) const {{ return values[n] * 3; }}
}};
template <class T> {OUT}T only(T x) {{ return x * 3; }}
}}
int main() {{
    app::Table t = {{{{1, 2, 3, 4, 5, 6, 7, 8}}}};
    return t.total(4) + t.over(1) + t.over(2.0) + t(3) + app::only(1) == 0;
}}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    if shutil.which("g++") is None:
        pytest.skip("no g++ on this machine")
    folder = tmp_path_factory.mktemp("names")
    (folder / "t.cpp").write_text(SOURCE)
    subprocess.run(["g++", "-O1", "-o", folder / "t", folder / "t.cpp"], check=True, timeout=120)
    return folder / "t"


@pytest.mark.parametrize(
    ("name", "symbol"),
    [
        ("app::Table::total", "_ZNK3app5Table5totalEi"),
        ("app::Table::total(int)", "_ZNK3app5Table5totalEi"),
        ("app::Table::total( int ) const", "_ZNK3app5Table5totalEi"),
        ("_ZNK3app5Table5totalEi", "_ZNK3app5Table5totalEi"),
        ("app::Table::over(double)", "_ZNK3app5Table4overEd"),
        ("app::Table::operator()", "_ZNK3app5TableclEi"),
        ("app::only", "_ZN3app4onlyIiEET_S1_"),
        ("app::only<int>(int)", "_ZN3app4onlyIiEET_S1_"),
        ("only", "_ZN3app4onlyIiEET_S1_"),
        ("total", "_ZNK3app5Table5totalEi"),
        ("Table::total", "_ZNK3app5Table5totalEi"),
        ("Table::over(double)", "_ZNK3app5Table4overEd"),
    ],
)
def test_a_function_is_found_with_and_without_parameters(program, name, symbol):
    assert ElfFile(program).function(name).name == symbol


def test_a_method_is_traced_by_its_name(program):
    one, other = (Tracer().run(program, name) for name in ("app::Table::total", "_ZNK3app5Table5totalEi"))
    assert one.instruction_count == other.instruction_count > 10
    assert one.provenance.function == "app::Table::total"


def test_overloads_are_not_guessed_and_a_miss_names_its_neighbours(program):
    with pytest.raises(DataError, match=r"several .*over\(double\) const, app::Table::over\(int\) const"):
        ElfFile(program).function("app::Table::over")
    with pytest.raises(DataError, match=r"several .*over\(double\) const, app::Table::over\(int\) const"):
        ElfFile(program).function("over")
    with pytest.raises(DataError, match=r"nearest: app::Table::total\(int\) const"):
        ElfFile(program).function("app::Table::totl")


def test_a_name_unlike_all_gets_the_functions_of_the_source(tmp_path):
    text = "int one(int n) { return n; }\nint two(int n) { return n + 1; }\nint main() { return one(1); }\n"
    (tmp_path / "t.c").write_text(text)
    with pytest.raises(
        DataError, match=r"no function 'qqq' \(it has (?=.*one)(?=.*two)(?=.*main)[a-z]+, [a-z]+, [a-z]+\)"
    ):
        compile_kernel(tmp_path / "t.c", "qqq", flags="-O0")


def test_names_of_rust():
    """The older mangling of Rust ends in a hash; the newer one is its own."""
    symbols = ["_ZN4work5total17h0123456789abcdefE", "_RNvC4work5total", "main"]
    assert demangled(symbols) == {symbols[0]: "work::total", symbols[1]: "work::total"}
    assert matching("work::total", demangled(symbols[:1])) == symbols[:1]


def test_names_of_numba():
    """Its version of a function and the options are no part of a name that anybody wrote."""
    symbol = "_ZN8__main__6mandelB2v1B38c8tJTIeFIjxB2IKSgI4CrvQClQZ6FczSBAA_3dEd"
    assert demangled([symbol]) == {symbol: "__main__::mandel(double)"}


def test_a_method_is_found_without_its_const():
    assert forms("app::Table::total(int) const")[1:] == ("app::Table::total(int)", "app::Table::total")


def test_a_part_of_a_function_is_not_the_function():
    assert forms("app::f(int) [clone .part.0]") == ("app::f(int) [clone .part.0]",)
    assert matching("app::f", {"a": "app::f(int) [clone .part.0]", "b": "app::f(int)"}) == ["b"]


def test_a_source_is_called_by_its_name(tmp_path):
    file = tmp_path / "h.cpp"
    file.write_text("namespace app { int twice(int x) { return 2 * x; } }\n")
    assert compile_kernel(file).function == compile_kernel(file, "app::twice").function == "_ZN3app5twiceEi"
    with pytest.raises(DataError, match=r"h\.cpp: no function 'app::twic' \(nearest: app::twice\(int\)\)"):
        compile_kernel(file, "app::twic")


@pytest.mark.parametrize(
    ("language", "name"), [("c", "work"), ("cpp", "app::work"), ("cpp", "app::work(double const*, long)")]
)
def test_a_clone_in_a_functions_place_is_found_by_its_name(tmp_path, language, name):
    """A static function that is only called with one constant becomes work.constprop.0 (gcc)."""
    cpp = language == "cpp"
    body = (
        "static __attribute__((noinline)) double work(const double *x, long n) {"
        " double s = 0; for (long i = 0; i < n; i++) s += x[i] * x[i]; return s; }"
    )
    source = f"namespace app {{ {body} }}" if cpp else body
    called = "app::work" if cpp else "work"
    (tmp_path / f"p.{language}").write_text(
        f"{source}\ndouble a[64];\nint main(void) {{ return (int){called}(a, 64) + (int){called}(a + 1, 64); }}\n"
    )
    compiler = "g++" if cpp else "gcc"
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler} on this machine")
    program = tmp_path / "p"
    subprocess.run([compiler, "-O2", "-o", program, tmp_path / f"p.{language}"], check=True, timeout=120)
    elf = ElfFile(program)
    (clone,) = [symbol for symbol in elf.functions if "work" in symbol]
    assert ".constprop." in clone
    assert elf.function(name).name == clone
    assert elf.symbol(name) == clone
    assert Tracer().run(program, name).instruction_count > 64


def test_results_name_the_function_as_its_source_does(program):
    """Asked for by its symbol, as `perfkit why` does, it was told by its symbol in every summary that follows."""
    trace = Tracer().run(program, "_ZNK3app5Table5totalEi")
    assert trace.provenance.title == "t:app::Table::total"
    result = pk.Gus("zen4").run(trace)
    for text in (result.summary(), trace.summary(), repr(result), pk.diff(result, result).summary()):
        assert "t:app::Table::total" in text
        assert "_ZNK3app5Table5totalEi" not in text.partition("\n")[0]


def test_an_ending_is_no_other_function_than_what_a_person_can_mean():
    """A result of std's, a trait of std's for a type of one's own: not of the library."""
    texts = {
        "own": "std::vector<long> app::fill<long>(long)",
        "std": "std::vector<long>::fill(long)",
        "trait": "<app::S as core::iter::Iterator>::next",
        "mine": "<core::iter::Map<u8> as app::Trait>::next",
        "theirs": "<&mut core::iter::Map<u8> as core::iter::Iterator>::next",
    }
    assert by_ending("fill", texts) == ["own"]
    assert by_ending("next", texts) == ["trait", "mine"]
    assert set(by_ending("next", texts, libraries=True)) == {"trait", "mine", "theirs"}


def test_a_variant_counts_where_it_is_all_that_is_left_of_a_function(tmp_path):
    source = f"""
    namespace app {{ {OUT.replace("noipa", "noinline")} static long step(long *x, long n, int k) {{
        for (long i = 0; i < n; i++) x[i] = x[i] * 3 + k; return x[n / 2]; }} }}
    namespace test {{ {OUT} long step(long x) {{ return x + 1; }} }}
    int main(int c, char **v) {{ static long x[999]; long s = 0;
        for (int i = 0; i < c * 9; i++) s += app::step(x, 999, 7); return s + test::step(s) == 1; }}
    """
    (tmp_path / "p.cpp").write_text(source)
    subprocess.run(["g++", "-O2", "-o", tmp_path / "p", tmp_path / "p.cpp"], check=True, timeout=120)
    elf = ElfFile(tmp_path / "p")
    assert any("app::step" in text and "[clone .constprop" in text for text in elf.demangled.values())
    with pytest.raises(DataError, match="several functions are called 'step'"):
        elf.function("step")


@pytest.mark.parametrize(
    "told",
    [
        ("plain(int)", "plain"),
        ("int plain<int>(int)", "plain<int>(int)", "plain<int>", "plain"),
        ("app::operator==(app::T const&, int)", "app::operator=="),
        ("app::T::operator long() const", "app::T::operator long()", "app::T::operator long"),
        ("app::T::operator()(int) const", "app::T::operator()(int)", "app::T::operator()"),
        ("app::T::f() const &", "app::T::f()", "app::T::f"),
        (
            "void app::run<int (*)(char)>(int (*)(char))",
            "app::run<int (*)(char)>(int (*)(char))",
            "app::run<int (*)(char)>",
            "app::run",
        ),
        (
            "std::vector<int, std::allocator<int> > app::all<int>()",
            "app::all<int>()",
            "app::all<int>",
            "app::all",
        ),
        (
            "app::Grid<int, 2>::sum<double>(double) const",
            "app::Grid<int, 2>::sum<double>(double)",
            "app::Grid<int, 2>::sum<double>",
            "app::Grid<int, 2>::sum",
            "app::Grid::sum",
        ),
        ("(anonymous namespace)::f(int)", "(anonymous namespace)::f"),
        ("app::f()::{lambda(int)#1}::operator()(int)", "app::f()::{lambda(int)#1}::operator()"),
        ("<app::T as core::fmt::Debug>::fmt",),
        ("<&mut app::T<u8> as app::Run>::run",),
        ("app::run(int) [clone .cold]",),
        ("one",),
    ],
)
def test_the_ways_to_write_a_name(told):
    assert forms(told[0]) == told
