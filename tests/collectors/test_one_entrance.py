"""Whatever `perfkit gus` takes, `perfkit dag` takes, by the same words: both go through `open_traces`."""

import json
import shutil
import subprocess

import pytest
from typer.testing import CliRunner

import perfkit as pk
from perfkit.cli.main import app
from perfkit.dag.doubts import SUBNORMAL
from perfkit.errors import DataError, PerfkitError, SettingError

pytestmark = pytest.mark.skipif(
    not all(map(shutil.which, ("gcc", "clang"))), reason="gcc and clang are needed: apt-get install gcc clang"
)

SOURCE = """#include <stdlib.h>
double total(const double *x, long n) { double s = 0; for (long i = 0; i < n; i++) s += x[i]; return s; }
"""
MAIN = """
__attribute__((noinline)) double total(const double *x, long n);
int main(int argc, char **argv) {
    long n = atol(argv[1]);
    double *x = malloc(n * sizeof *x);
    for (long i = 0; i < n; i++) x[i] = i;
    return total(x, n) < 0;
}
"""
# What is given, the function, and what it is called with: by way of a shell in all cases.
INPUTS = {
    "source": ("k.c", "total", "f8[400], 400"),
    "program": ("./program", "total", "400"),
    "python file": ("own.py:total", "", "f8[400]"),
    "python module": ("own:total", "", "f8[400]"),
    "corpus": ("corpus:divider", "", ""),
    "shipped": ("fig1a", "", ""),
    "trace file": ("mine.trace", "", ""),
    "block, hex": ("block:4883c008480fafc3", "", ""),
    "block, text": ("block:addsd xmm0, xmm1; mulsd xmm2, xmm0", "", ""),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("inputs")
    (made / "k.c").write_text(SOURCE)
    (made / "main.c").write_text(SOURCE + MAIN)
    subprocess.run(["gcc", "-O1", "-fno-inline", "-o", made / "program", made / "main.c"], check=True)
    python = "def total(x):\n    s = 0.0\n    for i in range(x.size):\n        s += x[i]\n    return s\n"
    (made / "own.py").write_text(python)
    pk.datasets.load("traces/latency-add").save(made / "mine.trace")
    return made


@pytest.fixture(autouse=True)
def there(folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)


@pytest.mark.parametrize("kind", INPUTS)
def test_both_methods_take_it(kind):
    what, function, arguments = INPUTS[kind]
    (trace,) = pk.open_traces(what, function=function, arguments=arguments).values()
    (dag,) = pk.open_dags(what, function=function, arguments=arguments).values()
    assert trace.instruction_count > 300
    core = pk.Microarchitecture.load("zen5")
    cycles = pk.Gus(core, warm="all").run(trace).cycles
    scheduled = pk.DagScheduler(core, record=False).run(dag).cycles
    assert scheduled == pytest.approx(cycles, rel=0.3), "two models of the same run"


@pytest.mark.parametrize("kind", INPUTS)
@pytest.mark.parametrize("command", ["gus", "dag"])
def test_both_commands_take_it(command, kind):
    what, function, arguments = INPUTS[kind]
    words = [command, what, *(["-f", function] if function else []), "--core", "zen5", "--json"]
    words += ["--no-relax"] if command == "dag" else ["--warm"]
    said = CliRunner().invoke(app, [*words, *(["--arguments", arguments] if arguments else [])])
    assert said.exit_code == 0, said.output + said.stderr
    found = json.loads(said.stdout)
    assert (found[0] if command == "dag" else found)["cycles"] > 300


def test_a_block_is_a_loop_around_it_and_no_recording():
    trace = pk.Block("imul rax, rbx").trace(500)
    assert trace.provenance.kind == "generated"
    assert trace.instruction_count == 500 * 3  # the counter and the jump
    assert [text.split()[0] for text in trace.code.text] == ["imul", "dec", "jne"]
    core = pk.Microarchitecture.load("zen4")
    assert pk.Gus(core).run(trace).cycles == pytest.approx(3 * 500, rel=0.05)
    (dag,) = pk.open_dags(pk.Block("imul rax, rbx"), core=core).values()
    assert pk.DagScheduler(core, record=False).run(dag).cycles == pytest.approx(3 * 1000, rel=0.05)


def test_a_blocks_accesses_move_within_their_page():
    trace = pk.Block("mov rax, [rdi]; add rdi, 64").trace(200)
    assert len(set(trace.addresses.tolist())) == 64, "lines of one page"
    assert len({address >> 12 for address in trace.addresses.tolist()}) == 1
    with pytest.raises(DataError, match="how often a string instruction is repeated is not known"):
        pk.Block("f3a4").trace()


@pytest.mark.parametrize(
    ("what", "given", "message"),
    [
        ("./program", {}, "say which function of ./program to trace"),
        ("own:total", {"function": "total", "arguments": "f8[4]"}, "function says nothing of own:total"),
        ("own:nothing", {}, "own has no function 'nothing'"),
        ("own:total", {"arguments": "'f8[4]', 2"}, "an argument is a number or an array"),
        ("own:total", {"arguments": "f8[4], --json"}, "options go before --, .* found '--json'"),
        ("own:total", {"arguments": "f8[4], 2"}, r"own:total cannot be compiled for f8\[4\], 2"),
        ("no_such_module:f", {}, "no Python module or file 'no_such_module'"),
        ("mine.trace", {"defines": "N=3"}, "mine.trace is recorded already"),
        ("block:jmp rax", {}, "jmp|assemble"),
        ("block:", {}, "at least one instruction"),
        ("corpus:none", {}, "no kernel 'none' in the corpus"),
    ],
)
def test_what_cannot_be_is_refused_with_its_cause(what, given, message):
    with pytest.raises(PerfkitError, match=message):
        pk.open_traces(what, **given)


def test_gus_simulates_one():
    said = CliRunner().invoke(app, ["gus", "fig1a,fig1b", "--core", "zen5"])
    assert isinstance(said.exception, SettingError) or "simulates one" in said.output + said.stderr


def test_functions_of_one_name_are_told_apart_by_file(folder, tmp_path):
    """Two programs' functions were both "f" in what is printed; two sizes had the name of the first array's."""
    for name in ("one", "two"):
        shutil.copy("program", tmp_path / name)
    both = pk.open_dags(f"{tmp_path}/one,{tmp_path}/two", function="total", arguments="500")
    assert [(name, dag.name) for name, dag in both.items()] == [(f"total of {n}",) * 2 for n in ("one", "two")]
    (tmp_path / "further").mkdir()
    shutil.copy("program", tmp_path / "further" / "one")
    both = pk.open_dags(f"{tmp_path}/one,{tmp_path}/further/one", function="total", arguments="500")
    assert list(both) == [f"total of {tmp_path}/one", f"total of {tmp_path}/further/one"]
    assert list(pk.open_dags(f"{tmp_path}/one", function="total", arguments="500")) == ["total"]
    sized = pk.open_dags("k.c", function="total", arguments="f8[600], N", sizes=[400, 500])
    assert [(name, dag.name) for name, dag in sized.items()] == [(f"total({n})",) * 2 for n in (400, 500)]


def test_one_refused_program_does_not_lose_the_others(tmp_path):
    stripped = tmp_path / "stripped"
    shutil.copy("program", stripped)
    subprocess.run(["strip", stripped], check=True)
    call = ["dag", "run", f"./program,{stripped},own:total", "-f", "total", "--core", "zen4", "--no-relax", "--json"]
    said = CliRunner().invoke(app, [*call, "--arguments", "500"])
    assert said.exit_code == 2
    assert [row["name"] for row in json.loads(said.stdout)] == ["total"]
    assert "stripped: no function 'total'" in said.stderr
    assert "own:total" in said.stderr
    alone = CliRunner().invoke(app, ["dag", "run", str(stripped), "-f", "total", "--no-relax"])
    assert isinstance(alone.exception, PerfkitError)
    with pytest.raises(PerfkitError, match="no function 'total'"):
        pk.open_dags(f"./program,{stripped}", function="total", arguments="500")


DECAY = """#include <stdlib.h>
__attribute__((noinline)) double decay(double *a, double by, long n) {
    double y = 1;
    for (long i = 0; i < n; i++) { y *= by; a[i] = y; }
    return y;
}
int main(int argc, char **argv) { long n = atol(argv[1]); return decay(malloc(8 * n), 0.5, n) > 1; }
"""


@pytest.mark.parametrize(("turns", "met"), [(1070, "1"), (1020, "0")])
def test_a_program_whose_arithmetic_meets_subnormal_numbers_is_told(tmp_path, turns, met):
    """By hand: 2**-1022 is the last normal number, and 2**-1074 the last of all."""
    (tmp_path / "decay.c").write_text(DECAY)
    subprocess.run(["gcc", "-O1", "-o", tmp_path / "decay", tmp_path / "decay.c"], check=True)
    (nodes,) = pk.open_dags(tmp_path / "decay", function="decay", arguments=str(turns)).values()
    assert nodes.facts[SUBNORMAL] == met
    (nodes,) = pk.open_dags("./program", function="total", arguments="50").values()
    assert nodes.facts[SUBNORMAL] == "0"
