"""perfkit gate: the command and the fixture, on programs that become slower for one reason or another."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from perfkit.diagnosis import gate as gating
from perfkit.diagnosis.gate import Gate, check_gate, measured_twice, percent, read_baselines, update_baselines
from perfkit.errors import DataError, FormatError, SettingError

ROOT = Path(__file__).parents[2]
SUM = """double sum(const double *x, long n) {
    double s = 0;
    for (long i = 0; i < n; i++)
        s += x[i];
    return s;
}
"""
SLOWER = SUM.replace("s += x[i];", "s += x[i] / 3;")
LOOP = """double work(long n) {
    double m = n;
    for (long k = 0; k < 200; k++)
        m += 1.0 / (k + 1 + m);
    return m;
}
"""
CALL = ("-f", "sum", "--", "f8[500]", "500")
PROGRAM = """
#include <stdio.h>
#include <time.h>
__attribute__((noinline)) long work(long n) {
    long s = 0;
    for (long i = 0; i < n; i++)
        s += i ^ (s << 1);
    return s;
}
__attribute__((noinline)) long clocked(void) {
    long s = 0, n = clock() % 1000;
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    for (long i = 0; i < n + t.tv_nsec % 1000; i++) s += i * s + 1;
    return s;
}
int main(int n, char **words) { printf("%ld\\n", work(300 + n) + clocked()); }
"""


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("pause", "pause"), ("mfence", "mfence"), ("clflush 64(%0)", "clflush"), ("rdtscp", "rdtscp"),
        ("mov %0, %%rsi; mov $9, %%ecx; rep lodsb", "rep lodsb"), ("fldpi; fsin; fstp %%st(0)", "fsin"),
    ],
)  # fmt: skip
def test_instructions_whose_time_is_not_simulated_fail_where_they_run_more_often(code, name, perfkit, tmp_path):
    """The gate said "ok +0.00 %" of pause in a loop, which took 28 % more time."""
    source, added = tmp_path / "k.c", f'__asm__ volatile("{code}" :: "r"(x) : "rax", "rcx", "rdx", "rsi", "memory");'
    source.write_text(SUM)
    perfkit("gate", "k.c", "--update", *CALL)
    source.write_text(SUM.replace("    double s = 0;", f"    double s = 0;\n    {added}"))
    told = perfkit("gate", "k.c", "--at-most", "50", *CALL, status=1)
    assert f"and more often than before: {name} once (0 in the baseline). What they take is in no cycles" in told
    assert "--update accepts them" in told
    perfkit("gate", "k.c", "--update", *CALL)
    assert "the same run" in perfkit("gate", "k.c", *CALL)
    source.write_text(source.read_text().replace("i++)", "i++) if (i < 490)"))
    assert re.search(r"ok +k.c:sum: ", perfkit("gate", "k.c", "--at-most", "99", *CALL)), "as many as before"


TURNS = """
#include <stdio.h>
#include <stdlib.h>
__attribute__((noipa)) double turn(const double *x, long n, long kind) {
    double s = 0;
    for (long i = 0; i < n; i++) s += x[i];
    if (kind == 2)
        for (long i = 0; i < n; i++) s = s OPERATION (1.5 + x[i]);
    return s;
}
int main(int count, char **words) {
    static double x[900];
    double s = 0;
    long times = atol(words[1]), least = atol(words[2]);
    for (long k = 0; k < times; k++) s += turn(x, least + 10 * (least < 90) * k, least < 90 ? 0 : k % 3);
    printf("%g\\n", s);
}
"""


def test_the_verdict_says_which_calls_it_judges_and_that_others_run_other_code(perfkit, tmp_path):
    """A change in every third call is in no figure of the first one, and passes: the verdict says so."""

    def build(operation):
        (tmp_path / "t.c").write_text(TURNS.replace("OPERATION", operation))
        subprocess.run(["gcc", "-g", "-O1", "t.c", "-o", "t"], cwd=tmp_path, check=True)

    build("*")
    few, one, grow = (("gate", "t", "-f", "turn", *more) for more in (("--baseline", "a.json", "--", "9", "800"),
        ("--baseline", "b.json", "--", "1", "800"), ("--baseline", "c.json", "--", "9", "10")))  # fmt: skip
    for call in (few, one, grow):
        perfkit(*call[:4], "--update", *call[4:])
    other = "judged: call 1 of 9; 3 of these run other code (t.c:8), which is in no figure: see --skip and --repeat"
    assert other in perfkit(*few), "the same run"
    assert "judged: call" not in perfkit(*one), "all are"
    assert "judged: call 1 of 9; 8 of these run another number of instructions, which is in no figure" in perfkit(*grow)
    build("/")
    assert re.search(rf"ok +t:turn: .*{re.escape(other)}", perfkit(*few))
    whole = (*few[:4], "--repeat", "9", *few[4:])
    perfkit(*whole[:4], "--update", *whole[4:])
    assert "judged: call" not in perfkit(*whole)


def test_a_baseline_that_does_not_count_them_is_not_taken_for_one_without(perfkit, tmp_path):
    source = tmp_path / "k.c"
    source.write_text(SUM)
    perfkit("gate", "k.c", "--update", *CALL)
    baselines = tmp_path / "perfkit-baselines.json"
    found = json.loads(baselines.read_text())
    assert found["baselines"]["k.c:sum"].pop("not_modelled") == {}
    baselines.write_text(json.dumps(found))
    source.write_text(SUM.replace("s = 0;", "s = 1;"))
    assert re.search(r"ok +k.c:sum: ", perfkit("gate", "k.c", "--at-most", "99", *CALL)), "there are none now"
    source.write_text(SUM.replace("double s = 0;", 'double s = 0; __asm__ volatile("pause");'))
    told = perfkit("gate", "k.c", "--at-most", "99", *CALL, status=1)
    assert "(pause once), and this baseline is of before these were counted: --update counts them" in told


def test_a_source_that_becomes_slower_fails_with_its_line(perfkit, tmp_path):
    source = tmp_path / "k.c"
    source.write_text(SUM)
    assert "there is no baseline 'k.c:sum'" in perfkit("gate", "k.c", *CALL, status=1)
    perfkit("gate", "k.c", "--update", *CALL)
    assert re.search(r"ok +k.c:sum: 1,5\d\d cycles, the same run", perfkit("gate", "k.c", *CALL))
    source.write_text(SLOWER)
    perfkit("gate", "k.c", "-o", "comment.md", *CALL, status=1)
    told = perfkit("gate", "k.c", *CALL, status=1)
    assert "+2 % is allowed. k.c:4 (s += x[i] / 3;)" in told
    assert "most of the change: fp_divider" in told
    assert "the bottleneck was instruction_latency and is now fp_divider" in told
    comment = (tmp_path / "comment.md").read_text()
    assert "### k.c:sum: **failed**" in comment
    assert "| k.c:4 | k.c:4 |" in comment
    perfkit("gate", "k.c", "--at-most", "200", *CALL)
    found = json.loads(perfkit("gate", "k.c", "--json", *CALL, status=1))
    assert found["passed"] is False
    assert found["gates"][0]["cause"] == "program"
    source.write_text(SUM)
    perfkit("gate", "k.c", *CALL)


def test_the_line_that_was_changed_and_the_one_with_the_cycles_are_both_named(perfkit, tmp_path):
    """More iterations of a loop: its header was changed, its body takes the time."""
    (tmp_path / "k.c").write_text(LOOP)
    perfkit("gate", "k.c", "-f", "work", "--update", "--", "500")
    (tmp_path / "k.c").write_text(LOOP.replace("k < 200", "k < 400"))
    told = perfkit("gate", "k.c", "-f", "work", "--", "500", status=1)
    assert re.search(r"k\.c:3 \(for .*; the cycles are at k\.c:4 \(m \+= 1\.0 / \(k \+ 1 \+ m\);\)", told)


def test_a_rare_addition_is_named_and_not_the_comparison_before_it(perfkit, tmp_path):
    """32 additions lengthen the chain by 96 cycles; the comparison, 1,000 times, costs nothing but retires."""
    (tmp_path / "k.c").write_text(SUM)
    call = ("-f", "sum", "--", "f8[1000]", "1000")
    perfkit("gate", "k.c", "--update", *call)
    inner = "{ s += x[i];\n    if ((i & 31) == 0)\n      s += 1.0; }"
    (tmp_path / "k.c").write_text(SUM.replace("s += x[i];", inner))
    told = perfkit("gate", "k.c", *call, status=1)
    assert re.search(r"k\.c:6 \(s \+= 1\.0; }\): \+(8|9)\d cycles, by instruction_latency", told)
    assert "as a run without it shows" in told
    assert "retire" not in told


def test_a_file_of_gates(perfkit, tmp_path):
    (tmp_path / "k.c").write_text(SUM)
    (tmp_path / "p.c").write_text(PROGRAM)
    subprocess.run(["gcc", "-O2", "-g", "p.c", "-o", "p"], cwd=tmp_path, check=True)
    text = """at-most = "+1 %"
[gates.sum]
what = "k.c:sum"
arguments = "f8[500], 500"
core = "skylake_x"
[gates.work]
what = "p:work"
arguments = ["several", "words"]
"""
    (tmp_path / "gates.toml").write_text(text)
    perfkit("gate", "gates.toml", "--update")
    assert set(read_baselines(tmp_path / "perfkit-baselines.json")) == {"sum", "work"}
    assert perfkit("gate", "gates.toml").count("the same run") == 2
    (tmp_path / "gates.yaml").write_text("gates: {sum: {what: 'k.c:sum', arguments: 'f8[500], 500'}}\n")
    told = perfkit("gate", "gates.yaml", status=1)
    assert "core was 'skylake_x' and is 'zen4'" in told
    # A second file of gates in the folder shares the baselines: what it takes the place of is told, once.
    replaced = "the baseline of another gate is replaced: core was 'skylake_x' and is 'zen4'"
    assert replaced in perfkit("gate", "gates.yaml", "--update")
    assert "is replaced" not in perfkit("gate", "gates.yaml", "--update")
    (tmp_path / "gates.toml").write_text(text.replace("core", "coer"))
    assert "unknown 'coer'" in perfkit("gate", "gates.toml", status=2)
    told = perfkit("gate", "gates.toml", "--cold", status=2)
    assert "--warm/--cold has no effect here: a file of gates says that itself" in told


def test_one_gate_that_cannot_be_recorded_does_not_keep_the_others_from_it(perfkit, tmp_path):
    (tmp_path / "k.c").write_text(SUM)
    text = """[gates.first]
what = "k.c:none"
arguments = "f8[500], 500"
[gates.second]
what = "k.c:sum"
arguments = "f8[500], 500"
[gates.third]
what = "k.c:sum"
core = "zen9"
arguments = "f8[500], 500"
"""
    (tmp_path / "gates.toml").write_text(text)
    written = perfkit("gate", "gates.toml", "--update", status=2)
    assert "second: 1,5" in written
    assert re.search(r"ERROR +first: .*no function 'none'", written)
    assert set(read_baselines(tmp_path / "perfkit-baselines.json")) == {"second"}
    told = perfkit("gate", "gates.toml", "-o", "c.md", status=2)
    assert re.search(r"ok +second: 1,5\d\d cycles, the same run", told)
    assert "ERROR  third: no core named 'zen9'" in told
    assert "### first: **could not be run**" in (tmp_path / "c.md").read_text()
    found = json.loads(perfkit("gate", "gates.toml", "--json", status=2))
    assert [each["cause"] for each in found["gates"]] == ["error", "same", "error"]
    assert found["gates"][0]["cycles"] is None
    assert set(json.loads(perfkit("gate", "gates.toml", "--json", "--update", status=2))["errors"]) == {
        "first",
        "third",
    }
    (tmp_path / "gates.toml").write_text(text + 'at-most = "lots"\n')
    assert "gate 'third': a bound is a number" in perfkit("gate", "gates.toml", status=2)


def test_a_file_has_one_baseline_however_its_path_is_typed(perfkit, tmp_path):
    here = tmp_path / "with a space"
    below = here / "below"
    below.mkdir(parents=True)
    (here / "k.c").write_text(SUM)
    call = ("--", "f8[500]", "500")
    perfkit("gate", "./k.c:sum", "--update", *call, folder=here)
    file = here / "perfkit-baselines.json"
    assert list(read_baselines(file)) == ["k.c:sum"]
    for typed in ("k.c:sum", here / "k.c:sum", "below/../k.c:sum"):
        assert "the same run" in perfkit("gate", typed, *call, folder=here)
    assert "the same run" in perfkit("gate", "k.c:sum", "--arguments", "f8[500], 500", folder=here)
    assert "the same run" in perfkit("gate", "../k.c", "-f", "sum", "--baseline", file, *call, folder=below)
    told = perfkit("gate", "../k.c", "-f", "sum", *call, status=1, folder=below)
    assert "--baseline ../perfkit-baselines.json takes those" in told
    # As an older perfkit wrote it there: by the path that was typed.
    (below / "b.json").write_text(file.read_text().replace('"k.c:sum"', '"../k.c:sum"'))
    assert "the same run" in perfkit("gate", here / "k.c", "-f", "sum", "--baseline", "b.json", *call, folder=below)
    (tmp_path / "b.json").write_text(file.read_text().replace('"k.c:sum"', '"./with a space/k.c:sum"'))
    assert "the same run" in perfkit("gate", "k.c:sum", "--baseline", "../b.json", *call, folder=here)
    (below / "k.c").write_text(SLOWER)
    told = perfkit("gate", "k.c:sum", "--baseline", "b.json", *call, status=1, folder=below)
    assert "there is no baseline 'k.c:sum' in b.json (did you mean '../k.c:sum'?)" in told
    told = perfkit("gate", "k.c:sum", "-f", "sum", *call, status=2, folder=here)
    assert "names its function already" in told
    assert "there is no file './no.c' to gate" in perfkit("gate", "./no.c:sum", *call, status=2, folder=here)


def test_bounds_on_the_command_line_are_those_of_files(perfkit, tmp_path):
    (tmp_path / "k.c").write_text(SUM)
    perfkit("gate", "k.c", "--update", *CALL)
    for bound in ("2 %", "+2 %", "5%", "0"):
        perfkit("gate", "k.c", "--at-most", bound, *CALL)
    told = perfkit("gate", "k.c", "--at-most", "-5", *CALL, status=1)
    assert "-5 % is demanded, and nothing became faster" in told
    assert "a bound is a number of per cent" in perfkit("gate", "k.c", "--at-most", "lots", *CALL, status=2)


def test_calls_that_were_never_made_are_missed(perfkit, tmp_path):
    (tmp_path / "p.c").write_text(PROGRAM)
    subprocess.run(["gcc", "-O2", "-g", "p.c", "-o", "p"], cwd=tmp_path, check=True)
    told = perfkit("gate", "p", "-f", "work", "--repeat", "9", status=2)
    assert "9 calls from call 1 on were asked for, and only 1 made" in told


def test_other_calls_than_the_baselines_are_another_thing(tmp_path):
    (tmp_path / "k.c").write_text(SUM)
    file = tmp_path / "b.json"
    first = Gate("k.c:sum", "f8[500], 500", folder=tmp_path).measure().entry()
    update_baselines({"x": first}, file)
    asked = Gate("k.c:sum", "f8[500], 500", repeat=3, folder=tmp_path)
    told = check_gate("x", asked, file)
    assert told.cause == "settings"
    assert "calls was '1 from 1' and is '3 from 1'" in told.message
    assert check_gate("x", asked, file).cause == "settings"
    older = {key: value for key, value in first.items() if key not in ("calls", "code")}
    update_baselines({"x": older}, file)
    assert check_gate("x", asked, file).cause == "program"  # of before, when baselines did not say it
    assert check_gate("x", Gate("k.c:sum", "f8[500], 500", folder=tmp_path), file).cause == "same"


def test_it_says_what_it_is_doing(tmp_path):
    (tmp_path / "k.c").write_text(SUM)
    command = [sys.executable, "-m", "perfkit", "gate", "k.c", *CALL]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "perfkit: recording and simulating k.c:sum" in done.stderr


def test_what_depends_on_the_time_is_refused(tmp_path):
    (tmp_path / "p.c").write_text(PROGRAM)
    subprocess.run(["gcc", "-O2", "-g", "p.c", "-o", "p"], cwd=tmp_path, check=True)
    with pytest.raises(DataError, match="two recordings of it differ"):
        measured_twice(Gate("p:clocked", folder=tmp_path))


GIVEN = """
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static const long TABLE[] = {3, 3, 3, 3};
__attribute__((noipa)) long file(const char *name) {
    char text[32] = "";
    int from = open(name, O_RDONLY);
    if (from < 0 || read(from, text, sizeof text - 1) < 1) return -1;
    long s = 0, n = strtol(text, 0, 10);
    for (long i = 0; i < n; i++)
        for (long k = TABLE[i & 3]; k > 0; k--)
            s += i ^ (s << 1);
    close(from);
    return s;
}
__attribute__((noipa)) long folder(void) {
    char name[4096];
    long s = 0;
    if (!getcwd(name, sizeof name)) return -1;
    for (int k = 0; k < 50; k++)
        for (char *at = name; *at; at++)
            s = s * 31 + *at;
    return s;
}
int main(int n, char **words) { printf("%ld\\n", file(words[1]) + folder()); }
"""


def built(folder, text, *flags):
    (folder / "p.c").write_text(text)
    subprocess.run(["gcc", "-g", *flags, "p.c", "-o", "p"], cwd=folder, check=True)


def test_the_same_code_with_another_input_is_told_from_other_code(tmp_path):
    """By its bytes: more executions of a line were taken for code that was compiled otherwise."""
    file, numbers = tmp_path / "b.json", tmp_path / "n.txt"
    asked = Gate("p:file", [str(numbers)], folder=tmp_path)
    built(tmp_path, GIVEN, "-O1")
    numbers.write_text("100")
    update_baselines({"x": measured_twice(asked).entry()}, file)
    numbers.write_text("200")
    more = check_gate("x", asked, file)
    assert (more.passed, more.cause) == (False, "input")
    assert re.search(
        r"the same code, executed more often \(\+\d[\d,]+ instructions\): its input or its surr", more.message
    )
    assert "p.c:14 (s += i ^ (s << 1);)" in more.message
    assert "compiled otherwise" not in more.message
    assert "getcwd" not in more.message
    numbers.write_text("50")
    assert "the same code, executed less often (-" in check_gate("x", asked, file).message
    numbers.write_text("100")
    # Other debug information is not other code; other optimisation, and other constants, are.
    built(tmp_path, GIVEN + "// a comment at the end\n", "-O1", "-g3")
    assert check_gate("x", asked, file).cause == "same"
    built(tmp_path, GIVEN, "-O0")
    other = check_gate("x", asked, file)
    assert other.cause == "program"
    assert "compiled otherwise" in other.message
    assert "the same code" not in other.message
    built(tmp_path, GIVEN.replace("{3, 3, 3, 3}", "{3, 9, 3, 9}"), "-O1")
    table = check_gate("x", asked, file)
    assert table.cause == "program"
    assert "compiled otherwise" not in table.message  # the line's own instructions are what they were
    # A baseline of before holds no digests, and its lines how often they were executed: neither is said.
    entry = read_baselines(file)["x"]
    entry["lines"] = [[*row[:3], "0" * 8, row[4]] for row in entry["lines"]]
    update_baselines({"x": {key: value for key, value in entry.items() if key != "code"}}, file)
    before = check_gate("x", asked, file)
    assert before.cause == "program"
    assert not re.search("compiled otherwise|the same code", before.message)
    update_baselines({"x": entry | {"code": ["p"]}}, file)
    with pytest.raises(FormatError, match="expected code to be dict"):
        read_baselines(file)


THREADED = """#include THREADS
volatile long counts[2];
__attribute__((noipa)) void work(volatile long *at, long n) {
    for (long i = 0; i < n; i++) *at += i & 3;
}
static void more(void) { work(counts + 1, 1000); }
"""
PTHREAD = """static void *t(void *x) { more(); return x; }
int main(void) { pthread_t p; work(counts, 1000); pthread_create(&p, 0, t, 0); pthread_join(p, 0); }
"""
THREAD = "int main() { work(counts, 1000); std::thread t(more); t.join(); }"
STARTS = {"pthread_create": ("gcc", "pthread.h", PTHREAD), "std::thread": ("g++", "thread", THREAD)}


@pytest.mark.parametrize("how", [*STARTS, ""])
def test_a_program_that_can_start_threads_is_told_to_be_gated_as_one(perfkit, tmp_path, how):
    compiler, header, main = STARTS.get(how, ("gcc", "stdio.h", "int main(void) { work(counts, 1000); more(); }"))
    (tmp_path / "p.txt").write_text(THREADED + main)
    language = "c++" if compiler == "g++" else "c"
    command = [compiler, f'-DTHREADS="{header}"', "-O1", "-pthread", "-x", language, "p.txt", "-o", "p"]
    subprocess.run(command, cwd=tmp_path, check=True)
    told = perfkit("gate", "p:work", "--update", "--core", "zen4", "--baseline", "b.json")
    assert (f"it can start threads ({how}): these are the cycles of one" in told) == bool(how)
    assert ("it can start threads" in told) == bool(how)


def test_the_folder_that_a_program_asks_for_is_told(perfkit, tmp_path):
    here, there = tmp_path / "a", tmp_path / "another"
    for each in (here, there):
        each.mkdir()
        (each / "n.txt").write_text("10")
        built(each, GIVEN, "-O1")
    call = ("--baseline", tmp_path / "b.json")
    asks = "it asks for the current folder (getcwd)"
    baseline = tmp_path / "b.json"
    gates = "".join(f'[gates.{one}]\nwhat = "p:{one}"\narguments = ["n.txt"]\n' for one in ("folder", "file"))
    for each in (here, there):
        (each / "g.toml").write_text(gates)
    told = perfkit("gate", "g.toml", "--update", *call, folder=here).splitlines()
    assert [asks in line for line in told if "cycles" in line] == [True, False]
    assert perfkit("gate", "g.toml", *call, folder=here).count("the same run") == 2
    told = perfkit("gate", "g.toml", *call, folder=there, status=1)
    assert re.search(rf"FAILED folder: .*the same code, executed more often .*{re.escape(asks)}", told)
    assert re.search(r"ok +file: .*the same run", told)
    assert json.loads(baseline.read_text())["baselines"]["folder"]["code"].keys() == {"p"}


def test_a_baseline_that_update_refuses_is_not_advised(perfkit, tmp_path):
    built(tmp_path, PROGRAM, "-O2")
    told = perfkit("gate", "p", "-f", "clocked", status=1)
    assert "there is no baseline 'p:clocked'" in told
    assert "--update would refuse: p:clocked: two recordings of it differ" in told
    assert "run once with" not in told
    told = perfkit("gate", "p", "-f", "work", status=1)
    assert "run once with --update" in told
    assert "refuse" not in told


def test_a_model_a_compiler_and_a_library_that_changed_are_told_from_the_program(tmp_path, monkeypatch):
    (tmp_path / "k.c").write_text(SUM)
    asked, file = Gate("k.c:sum", "f8[500], 500", folder=tmp_path), tmp_path / "b.json"
    entry = measured_twice(asked).entry()

    def cause(**changed):
        update_baselines({"x": entry | changed}, file)
        return check_gate("x", asked, file)

    model = cause(cycles=1000.0, model="older")
    assert (model.cause, model.passed) == ("model", False)
    assert "the very same instructions, and the model changed: update the baseline" in model.message
    assert cause(cycles=1500.0, model="older").passed
    compiler = cause(cycles=1000.0, trace="other", compiler="gcc 1.0")
    assert compiler.cause == "compiler"
    assert "the compiler changed, from 'gcc 1.0'" in compiler.message
    given = cause(cycles=1000.0, trace="other", model="older")
    assert given.cause == "model"
    assert "the model changed, and so did what the program is given: update" in given.message
    other = {"kernel.so": "other"}
    both = cause(cycles=1000.0, trace="other", model="older", code=other)
    assert "the model changed, and so did the program: update" in both.message
    # No library is run here.
    assert cause(trace="other", code=other, libraries={"libc.so.6": "older"}).cause == "program"
    assert cause(trace="other", libraries={"libc.so.6": "older"}).cause == "input"
    assert cause(trace="other").passed
    monkeypatch.setattr(gating, "WRITER", "9.9")
    assert "(perfkit 0.1.0 and 9.9)" in cause(cycles=1000.0).message


def test_the_machine_is_asked_nothing(tmp_path):
    """An installed llvm-mca would be asked about forms that no table knows, and another machine has another one."""
    (tmp_path / "k.c").write_text(SUM)
    reading = Gate("k.c:sum", "f8[500], 500", folder=tmp_path).measure()
    assert reading.result.settings.tables.look_up is False
    with pytest.raises(SettingError, match="the same everywhere"):
        Gate("k.c:sum", core="host")


def test_what_is_not_whole_is_refused(tmp_path):
    (tmp_path / "k.c").write_text(SUM)
    with pytest.raises(DataError, match="a gate needs whole calls"):
        Gate("k.c:sum", "f8[500], 500", limit=100, folder=tmp_path).measure()
    with pytest.raises(SettingError, match="build it first"):
        Gate("nothing:sum", folder=tmp_path).measure()


@pytest.mark.parametrize(("text", "value"), [("+2 %", 2), ("0.5", 0.5), (-3, -3), ("+0%", 0)])
def test_bounds(text, value):
    assert percent(text) == value


def test_bad_bounds_and_files(tmp_path):
    for bad in ("fast", "nan", None, "5%%", "1 0"):
        with pytest.raises(SettingError, match="a bound is a"):
            percent(bad)
    with pytest.raises(SettingError, match="cycles cannot become fewer than none; found -200"):
        Gate("k.c:sum", at_most=-200, folder=tmp_path)
    file = tmp_path / "b.json"
    for text in ("[]", "{}", '{"perfkit_gate": 1, "baselines": {"x": {}}}', '{"perfkit_gate": 2, "baselines": {}}'):
        file.write_text(text)
        with pytest.raises(FormatError, match=r"b\.json"):
            read_baselines(file)


def test_the_file_is_sorted_and_keeps_others_entries(tmp_path):
    (tmp_path / "k.c").write_text(SUM)
    entry = Gate("k.c:sum", "f8[500], 500", folder=tmp_path).measure().entry()
    file = tmp_path / "b.json"
    update_baselines({"b": entry}, file)
    update_baselines({"a": entry}, file)
    text = file.read_text()
    assert list(read_baselines(file)) == ["a", "b"]
    assert '["k.c:4", ' in text
    damaged = {**entry, "causes": {**entry["causes"], next(iter(entry["causes"])): "many"}}
    (tmp_path / "d.json").write_text(json.dumps({**json.loads(text), "baselines": {"a": damaged}}))
    with pytest.raises(FormatError, match=r"causes of baseline 'a'.*found 'many'"):
        read_baselines(tmp_path / "d.json")
    (tmp_path / "d.json").unlink()
    assert len(text) < 4000
    update_baselines({"b": entry}, file)
    assert file.read_text() == text
    assert sorted(p.name for p in tmp_path.iterdir()) == ["b.json", "k.c"]


TESTS = """
import pytest
@pytest.mark.parametrize("n", [100, 200, 300, 400])
def test_sum(perfkit_gate, n):
    perfkit_gate("k.c:sum", f"f8[{n}], {n}", core="zen4", at_most="+2 %")
"""


def test_the_fixture_with_several_workers(tmp_path):
    (tmp_path / "k.c").write_text(SUM)
    (tmp_path / "test_k.py").write_text(TESTS)

    def run(*more):
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
        ]
        words = [*command, "--rootdir", str(tmp_path), "-c", "/dev/null", *more, "test_k.py"]
        return subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert "there is no baseline 'test_k.py::test_sum[100] k.c:sum'" in run("-x").stdout
    updated = run("--perfkit-update", "-n", "2")
    assert updated.returncode == 0, updated.stdout
    assert len(read_baselines(tmp_path / "perfkit-baselines.json")) == 4
    assert run("-n", "2").returncode == 0
    (tmp_path / "k.c").write_text(SLOWER)
    failed = run("-k", "100").stdout
    assert "k.c:4 (s += x[i] / 3;)" in failed
    assert "fp_divider" in failed


TWICE_EACH = """
import pathlib, pytest
for number in range(4):
    for update in ([], ["--perfkit-update"]):
        if number:
            pathlib.Path("perfkit-baselines.json").unlink(missing_ok=True)
        words = ["-q", "-p", "no:cacheprovider", "--rootdir", ".", "-c", "/dev/null", *update]
        status = pytest.main([*words, f"test_{number}.py"])
        print(f"\\fended with {int(status)}\\f")
"""
"""One process for all: what each would import takes it two seconds."""


def test_the_fixture_says_a_mistake_in_a_line(tmp_path):
    """A damaged file of baselines, a missing source and a bad bound were ninety lines of perfkit's own code."""
    (tmp_path / "k.c").write_text(SUM)
    body = """
def test_it(perfkit_gate):
    perfkit_gate({what!r}, "f8[500], 500"{more})
"""
    cases = (
        ("k.c:sum", "", "{bad", "perfkit-baselines.json"),
        ("gone.c:sum", "", "", "gone.c' to gate; build it first"),
        ("k.c:sum", ', at_most="lots"', "", "a bound is a number of per cent"),
        ("k.c:none", "", "", "no function 'none'"),
    )
    for number, (what, more, _, _) in enumerate(cases):
        (tmp_path / f"test_{number}.py").write_text(body.format(what=what, more=more))
    (tmp_path / "perfkit-baselines.json").write_text(cases[0][2])
    words = [sys.executable, "-c", TWICE_EACH]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    told, ends = done.stdout.split("\f")[:-1:2], done.stdout.split("\f")[1::2]
    assert ends == ["ended with 1"] * 8, done.stdout
    for (*_, said), twice in zip(cases, zip(told[::2], told[1::2], strict=True), strict=True):
        for text in twice:
            assert said in text
            assert "Traceback" not in text
            assert "perfkit/" not in text
            assert len(text.splitlines()) < 12, text


def test_importing_the_plugin_is_cheap():
    """Every run of pytest imports it where perfkit is installed."""
    code = "import sys, perfkit.diagnosis.pytest_plugin as p; print(*(n for n in sys.modules if n[:4] in 'perf nump'))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) <= {
        "perfkit",
        "perfkit.diagnosis",
        "perfkit.diagnosis.pytest_plugin",
        "perfkit._version",
    }
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]
    assert points == {"perfkit": "perfkit.diagnosis.pytest_plugin"}


def test_a_source_can_be_gated_without_flags(perfkit, tmp_path):
    (tmp_path / "k.c").write_text(SUM)
    assert "compiled with no flags" in perfkit("gate", "k.c", "--flags", "", "--update", *CALL)
    assert "the same run" in perfkit("gate", "k.c", "--flags", "", *CALL)
    assert "compiled with -O2 -march=x86-64-v3" in perfkit("gate", "k.c", "--update", *CALL)
