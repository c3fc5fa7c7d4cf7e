"""No option's value, however bad, ends in a traceback or in something that is not one message."""

import os
import platform
import shutil
from pathlib import Path

import pytest
import typer.main
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perfkit.cli.main import app, main
from perfkit.cli.options import types_of

FIXTURE = Path(__file__).parents[1] / "readers" / "fixtures" / "two-runs-concatenated.txt"
FILES = {
    "a.yaml": b"categories: {target: t, method: bins, bins: [5]}\ntree: {features: [N]}\n",
    "d.csv": b"N,t\n" + b"".join(b"%d,%d\n" % (n, 1 + 8 * (n > 19)) for n in range(40)),
    "blocks.csv": b"hex\nzz\n",
    "k.c": b"PK_REGION { for (long i = 0; i < N; i++) PK_KEEP(i); }\n",
    "s.yaml": b"kernel: k.c\ndimensions: {N: [4, 16]}\n",
    "f.c": b"long f(long n){long s=0;while(n--)s+=n;return s;}\n",
    "empty": b"", "random.bin": bytes(range(256)), "latin.toml": b'a = "\xff"\n', "broken.zip": b"PK\x03\x04junk",
    "small.toml": b"a = 1\n", "t.gus": b"",
    "empty.ipynb": b"", "binary.ipynb": bytes(range(256)), "null.c": bytes(64),
    "p.py": b"def g(a):\n    return len(a)\n", "raises.py": b"1 / 0\n", "wrong.py": b"def g(:\n",
    "twice.yaml": b"gates:\n  a: {what: f.c}\n  a: {what: k.c}\n",
}  # fmt: skip
# Words that work and take no time: each option's bad values are put before them.
WORKING = {
    "analyse": ["a.yaml", "--input", "d.csv"],
    "app": ["none"],  # one that is there would go on serving
    "asm": ["add %rax, %rbx", "--repetitions", "3"],
    "blocks": ["blocks.csv", "--core", "zen4"],
    "calibrate": ["--form", "ADD_R64_RM64", "--no-memory", "--repetitions", "5", "--core", "skylake_x"],
    "compare": ["none.c"],
    "convert": ["dump.txt", "out.csv"],
    "course grade": ["none.ipynb"],
    "course list": [],
    "course slides": ["none"],
    "course student": ["none"],
    "cpi": ["cpi/planted"],
    "dag compare": ["--core", "none"],
    "dag kernel": ["reduction", "--size", "50"],
    "dag paper": None,  # it takes no values
    "dag run": ["triad"],
    "dag sweep": ["reduction", "rs", "8", "--size", "50"],
    "data": [],
    "diff": ["fig1a", "fig1a", "--core", "zen4"],
    "explore": ["dump.txt"],
    "gate": ["none.c"],
    "gus": ["fig1a", "--sensitivity"],
    "lab": ["none"],
    "noise": ["none.c"],
    "report": ["tour", "--list"],
    "samples": ["dump.txt"],
    "spire rank": ["--train", "spire/train", "--analyse", "spire/memory"],
    "spire train": ["none"],
    "study run": ["s.yaml", "--dry-run"],
    "study show": ["none"],
    "trace": ["f.c", "--timeout", "5", "--", "5"],
    "why": ["none"],
}
BAD_NUMBERS = ["", "abc", "-1", "0", "nan", "inf", "9" * 20]
BAD_FILES = ["", "x.foo", ".", "empty", "random.bin", "latin.toml", "broken.zip", "small.toml"]
BAD_TEXT = ["", "-1", "nan", "9" * 20, "[bold]", "\udcff", "a,b", "rs=nan", "%s{}", "none/x.png"]
BAD = list(dict.fromkeys(BAD_NUMBERS + BAD_FILES + BAD_TEXT))
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*of the samples were rejected:perfkit.errors.PerfkitWarning"),
    pytest.mark.filterwarnings("ignore:left out, because conditions:perfkit.errors.PerfkitWarning"),
    pytest.mark.filterwarnings("default::ResourceWarning"),
]


def leaves():
    def walk(command, name):
        for each in getattr(command, "commands", {}):
            yield from walk(command.commands[each], f"{name} {each}".strip())
        if not hasattr(command, "commands"):
            yield name, command

    return dict(walk(typer.main.get_command(app), ""))


def spellings(command):
    """The options that take a value, with how many, and bad ones. None lies outside the test's folder."""
    bad = {int: BAD_NUMBERS, float: BAD_NUMBERS, Path: BAD_FILES, str: BAD_TEXT, list[Path]: BAD_FILES}
    found = [p for p in leaves()[command].params if p.param_type_name == "option" and p.name != "help"]
    types = types_of(leaves()[command])
    kinds = [(p, types[p.name]) for p in found]
    return [(p.opts[0], p.nargs, bad.get(kind, BAD_TEXT)) for p, kind in kinds if kind is not bool]


@pytest.fixture
def refused(monkeypatch, tmp_path, capsys):
    """Run the program in a folder made anew; check how it ends."""
    monkeypatch.delenv("PERFKIT_TRACEBACK", raising=False)

    def run(words):
        folder = tmp_path / "here"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for name, content in FILES.items():
            (folder / name).write_bytes(content)
        shutil.copy(FIXTURE, folder / "dump.txt")
        (folder / "folder.html").mkdir()
        monkeypatch.chdir(folder)
        monkeypatch.setattr("sys.argv", ["perfkit", *words])
        try:
            main()
            status = 0
        except SystemExit as ended:
            status = ended.code or 0
        told = capsys.readouterr().err
        verdict = status == 1 and words[0] == "diff" and "is allowed" in told  # --at-most -1 asks for a faster B
        assert status in (0, 2) or verdict, f"{words}: {status}: {told}"
        assert "Traceback" not in told, words
        assert status == 0 or told.strip(), f"{words}: refused without a word"
        return status, told

    return run


def test_every_command_is_tried():
    assert set(WORKING) == set(leaves())


@pytest.mark.parametrize("command", [name for name, words in WORKING.items() if words is not None])
def test_bad_values_of_every_option(refused, command):
    if command in ("asm", "calibrate", "trace") and (platform.machine() != "x86_64" or not shutil.which("gcc")):
        pytest.skip(f"perfkit {command} needs an x86-64 machine with gcc")
    for option, number, values in spellings(command):
        words = list(WORKING[command])
        if option in words:  # the last one counts
            at = words.index(option)
            del words[at : at + 1 + number]
        for value in values:
            refused([*command.split(), option, *[value] * number, *words])


@pytest.mark.parametrize("command", ["analyse", "convert", "cpi", "data", "gus", "report", "samples", "study show"])
def test_bad_arguments(refused, command):
    for value in BAD:
        if command == "data" or value != "-1":
            refused([*command.split(), "--", value] if value.startswith("-") else [*command.split(), value])


@pytest.mark.parametrize("command", ["cpi", "dag sweep", "gus", "samples", "spire rank", "study run"])
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_text_is_a_value(refused, command, data):
    option, number, _ = data.draw(st.sampled_from(spellings(command)))
    text = st.text(st.characters(exclude_characters="\0/"), max_size=12)
    value = data.draw(st.one_of(text, st.floats().map(str), st.integers().map(str)))
    refused(
        [*command.split(), f"{option}={value}" if number == 1 else option, *[value] * (number - 1), *WORKING[command]]
    )


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("gus fig1a --sensitivity --weights abc", "--weights takes numbers separated by commas; found 'abc'"),
        ("gus fig1a --sensitivity --weights 1.5,nan", "--weights takes numbers separated by commas"),
        ("gus fig1a --top -3", "'--top'"),
        ("spire --train spire/train --analyse spire/memory --top 0", "'--top'"),
        ("gus missing.trace", "missing.trace: no such file, and no shipped trace of this name"),
        ("gus traces/missing/my", "traces/missing/my: no such file, and no shipped trace of this name"),
        ("gus fig1", "did you mean"),
        ("cpi cpi/planted --picture x.foo", "expected a name that ends in .png, .svg or .pdf; found 'x.foo'"),
        ("cpi cpi/planted --picture none/x.png", "there is no folder 'none'"),
        ("dag kernel reduction --picture x.foo", "expected a name that ends in .png, .svg or .pdf"),
        ("cpi cpi/planted --seed -1", "'--seed'"),
        ("cpi cpi/planted --plot x.png", "No such option: --plot"),
        ("calibrate --form ADD_R64_R64", "no instruction form 'ADD_R64_R64'"),
        ("asm nop --core none", "no core named 'none'. Known:"),
        ("gus fig1a --warm --warm-caches", "give one of them"),
        ("gus fig1a --function nope", "--function has no effect without --source FILE"),
        ("gus fig1a --weights 2", "--weights has no effect without --sensitivity"),
        ("gus fig1a --limit 5", "--limit has no effect on a trace"),
        ("gus fig1a --flags=-O2", "--flags has no effect on a trace"),
        ("gus fig1a -- 5", "arguments (5) go with --source FILE"),
        ("gus f.c --arguments 5 -- 6", "not by both"),
        ("cpi dump.txt --events nothere", "unknown event 'nothere': no event but those of time and work was counted"),
        ("gate folder.html", "there is no file 'folder.html' to gate (it is a folder)"),
        ("compare folder.html", "no file folder.html (it is a folder): expected a C or C++ file"),
        ("trace folder.html -f f", "folder.html: expected a file, found a folder"),
        (
            "analyse a.yaml --input random.bin",
            "random.bin: expected a CSV table; it cannot be read: damaged",
        ),
        ("trace null.c -f f -- 5", "null.c: expected source text; found binary data"),
        ("dag run null.c -f f -- 5", "null.c: expected source text; found binary data"),
        ("gate twice.yaml", "twice.yaml, line 3, column 3: not YAML: the key 'a' stands there twice"),
        ("study run random.bin", "random.bin: expected a YAML file"),
        ("gus fig1a --overrides empty", "empty: expected a table of figures (TOML); the file is empty"),
        ("why . -f f", ".: expected a file, found a folder"),
        ("trace /bin/true -f f -D N=1", "--define has no effect on a program"),
        ("trace corpus:gemm -f f", "--function has no effect of corpus:NAME"),
        ("trace f.c --threads --backend cloner", "--backend has no effect with --threads"),
        ("cpi cpi/planted --trim 3", "--trim has no effect without --paper"),
        ("cpi cpi/planted --paper --form cpi", "--form has no effect with --paper"),
        ("cpi cpi/planted --paper --picture x.png", "--picture has no effect with --paper"),
        ("spire --model m.spire --analyse a.csv --min-running 0.5", "--min-running has no effect with --model"),
        ("asm nop --first --subsets", "--first has no effect with --subsets"),
        ("calibrate --full -o c.toml --no-memory", "--memory/--no-memory has no effect with --full"),
        ("calibrate --all --json", "--all has no effect with --json"),
        ("gate f.c --json --markdown", "--markdown has no effect with --json"),
        ("gate f.c --update -o x.md", "--output has no effect with --update"),
        ("report tour --list -p a 1", "--parameter has no effect with --list"),
        ("report tour -o x.html --jobs 2", "--jobs has no effect without --grid"),
        ("report spire -o x.html --without view", "--without has no effect on spire"),
        ("study run s.yaml --dry-run -o t.csv", "--output has no effect with --dry-run"),
        ("dag run triad --no-relax --top 3", "--top has no effect with --no-relax"),
        ("dag run triad -f f", "leave it out"),
        ("dag run triad -- 5", "arguments (5) are for functions and programs"),
        ("dag run f.c --sizes 5 -- 7", "sizes stand for N in the arguments"),
        ("lab none.ipynb --folder here", "no notebook"),
        ("lab empty.ipynb", "empty.ipynb: expected a Jupyter notebook; the file is empty"),
        ("lab binary.ipynb", "binary.ipynb: expected a Jupyter notebook; it cannot be read"),
        ("app binary.ipynb", "binary.ipynb: expected a Jupyter notebook; it cannot be read"),
        ("diff f.c:f f.c:f -f g", "names its function already"),
        ("compare corpus:gemm -f f", "corpus:gemm names a function already"),
        ("compare f.so g.so --flags=-O2", "--flags has no effect on libraries"),
        ("compare f.c g.so --flags-b=-O2", "--flags-b has no effect where B is a library"),
        ("noise f.so --compiler clang", "--compiler has no effect on a library"),
        ("gus t.gus -o t.gus", "t.gus is both read and written"),
        ("convert random.bin random.bin", "convert writes .parquet or .csv"),
        ("explore dump.txt broken.zip -o x.foo", "expected a name that ends in .html, .csv or .parquet"),
        ("why ./x -o x.svg", "expected a name that ends in .html or .answer; found 'x.svg'"),
        ("gus fig1a -o r.xyz", "expected a name that ends in .gus; found 'r.xyz'"),
        ("gus fig1a --core zen4 -o /proc/x.gus", "No such file or directory: /proc/x.gus"),
        ("convert dump.txt /proc/x.parquet", "No such file or directory: /proc/x.parquet"),
        ("convert dump.txt --json", "at least one dump and, last, the file to write"),
        ("report tour -o f.c/x.html", "'f.c/x.html' cannot be written: f.c is a file, not a folder"),
        ("report tour -o folder.html", "expected the name of a file; 'folder.html' is a folder"),
        ("dag kernel reduction --size 99999999999999999999", "arrays for 99999999999999999999 are too large"),
        ("dag run f.c --python x", "--python takes MODULE:FUNCTION or FILE.py:FUNCTION; found 'x'"),
        ("dag run --python p.py:g", "p.py:g cannot be compiled for no arguments: "),
        ("dag run --python p.py:g -- 5", "p.py:g cannot be compiled for 5: "),
        ("dag run --python p.py:g -- 99999999999999999999", "p.py:g cannot be compiled for 99999999999999999999: "),
        ("dag run --python raises.py:g -- 5", "raises.py cannot be imported: ZeroDivisionError: division by zero"),
        ("dag run --python wrong.py:g -- 5", "wrong.py cannot be imported: SyntaxError: "),
        ("cpi cpi/planted --paper --seed 4294967296", "the seed of the paper's split is from 0 to 4294967295"),
        ("blocks /dev/zero", "/dev/zero: expected a file, found a device"),
        ("trace /dev/zero -f f", "/dev/zero: expected a file, found a device"),
        ("analyse a.yaml --input /dev/zero", "/dev/zero: expected a file, found a device"),
        ("gus missing.trace --core zen4", "missing.trace: no such file, and no shipped trace of this name"),
        ("report random.bin --list", "expected a notebook (.ipynb); found the file 'random.bin'"),
    ],
)
def test_what_is_said(refused, words, why):
    status, told = refused(words.split())
    assert status == 2
    assert why in " ".join(told.split())


@pytest.mark.parametrize(
    "words", ["why none", "why f.c --arguments 5 -- 6", "compare none.c", "dag kernel none", "dag sweep none rs 8"]
)
def test_a_refusal_stands_alone(refused, words):
    """Nothing is said of work that does not begin."""
    status, told = refused(words.split())
    assert status == 2
    assert told.startswith("perfkit: ")
    assert told.count("\n") == 1


def test_a_core_that_is_none_is_told_before_anything_is_measured(refused, monkeypatch):
    monkeypatch.setattr("perfkit.collectors.microbenchmark.Microbenchmark.collect", None)
    status, told = refused(["asm", "nop", "--core", "none"])
    assert status == 2
    assert "no core named 'none'. Known:" in told


def test_a_folder_that_may_not_be_written_is_told_before_the_work(refused, monkeypatch):
    monkeypatch.setattr("os.access", lambda path, mode: not (str(path) == "." and mode == os.W_OK))  # root may
    status, told = refused(["gus", "fig1a", "--core", "zen4", "-o", "x.gus"])
    assert status == 2
    assert "there is no permission to write into the folder '.'" in " ".join(told.split())


@pytest.mark.parametrize(
    ("words", "work"),
    [
        (["trace", "f.c", "--", "5"], "perfkit.collectors.kernels.compile_kernel"),
        (["convert", "dump.txt", "out.csv"], "perfkit.cli.convert.read_dumps"),
        (["gate", "f.c", "--update", "--", "5"], "perfkit.diagnosis.gate.measured_twice"),
    ],
)
def test_a_folder_that_cannot_be_written_is_told_before_the_work(monkeypatch, tmp_path, capsys, words, work):
    """They did the whole work and then named a file of their own."""

    def done(*_, **__):
        raise AssertionError("worked before it looked")

    (tmp_path / "f.c").write_bytes(FILES["f.c"])
    shutil.copy(FIXTURE, tmp_path / "dump.txt")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(work, done)
    allowed = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK and allowed(path, mode))
    monkeypatch.setattr("sys.argv", ["perfkit", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "there is no permission to write into the folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "found"), [(["--flags", ""], ()), ([], ("-O3", "-march=native")), (["--flags", "-O1"], ("-O1",))]
)
def test_empty_flags_are_no_flags(monkeypatch, tmp_path, given, found):
    def seen(kernel, *_, **__):
        asked.append(kernel.flags)
        raise KeyboardInterrupt

    asked = []
    (tmp_path / "f.c").write_bytes(FILES["f.c"])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("perfkit.collectors.host.compare.compare", seen)
    monkeypatch.setattr("sys.argv", ["perfkit", "compare", "f.c", *given, "--", "5"])
    with pytest.raises(SystemExit):
        main()
    assert asked == [found]
