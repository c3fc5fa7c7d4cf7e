"""Which files were written is said one way by every command, and pages are asked for one way."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import perfkit as pk
from perfkit.cli.main import app
from tests.commands import commands

CLI = Path(__file__).resolve().parents[2] / "perfkit" / "cli"
RUN = CliRunner()


def test_only_one_function_says_that_a_file_was_written():
    said = {path.name for path in CLI.rglob("*.py") if re.search(r"(echo|print)\([^)]*wrote ", path.read_text())}
    assert said == {"output.py"}


@pytest.mark.parametrize(
    ("words", "file"),
    [
        ("explore spire/memory", "page.html"),
        ("explore spire/memory", "table.csv"),
        ("report cpi -p source cpi/planted", "page.html"),
        ("cpi cpi/planted", "fit.parquet"),
        ("cpi cpi/planted --json", "fit.parquet"),
        ("spire train spire/train", "mine.spire"),
        ("spire train spire/train --json", "mine.spire"),
        ("course student 1 --folder .", "unit1_what_bounds_code.ipynb"),
    ],
)
def test_a_file_that_was_written_is_told_on_the_error_output(tmp_path, monkeypatch, words, file):
    monkeypatch.chdir(tmp_path)
    done = RUN.invoke(app, [*words.split(), *([] if "--folder" in words else ["-o", file])])
    assert done.exit_code == 0, done.output
    assert Path(file).is_file()
    assert f"wrote {file}\n" in done.stderr
    assert file not in done.stdout or "--json" in words  # where it is the key "written"


def test_a_converted_dump_is_told_likewise(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.csv").write_text("cycles,instructions\n10,20\n11,21\n")
    done = RUN.invoke(app, ["convert", "a.csv", "b.parquet"])
    assert done.stderr.endswith("wrote b.parquet\n")
    assert "b.parquet" not in done.stdout


def test_every_command_that_writes_a_page_takes_it_as_output():
    """Commands that write a page say .html at --output, and the older --html stands in no help."""
    for name, command in commands().items():
        options = {word: p for p in command.params for word in p.opts}
        if "--html" in options:
            assert options["--html"].hidden, name
            assert ".html" in options["--output"].help, name
        picture = options.get("--picture")
        assert picture is None or ".html" not in picture.help, name


def test_a_page_and_a_table_are_written_by_one_option_given_twice(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, misses in (("a", 3), ("b", 5)):
        rows = "\n".join(f"{100 + k},{200 + k},{misses + k}" for k in range(5))
        Path(f"{name}.csv").write_text(f"cycles,instructions,cache-misses\n{rows}\n")
    done = RUN.invoke(app, ["diff", "a.csv", "b.csv", "-o", "d.html", "-o", "d.md", "--html", "old.html"])
    assert done.exit_code == 0, done.output
    assert [Path(name).is_file() for name in ("d.html", "d.md", "old.html")] == [True] * 3
    assert re.findall(r"^wrote (.+)$", done.stderr, re.M) == ["d.html", "d.md", "old.html"]
    assert Path("d.html").read_text() == Path("old.html").read_text()


@pytest.mark.parametrize("words", ["-o b.csv", "-o d.md -o b.csv"])
def test_none_of_several_files_may_be_one_that_is_read(tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    text = "cycles,instructions\n10,20\n11,21\n"
    for name in ("a.csv", "b.csv"):
        Path(name).write_text(text)
    done = RUN.invoke(app, ["diff", "a.csv", "b.csv", *words.split()])
    assert isinstance(done.exception, pk.PerfkitError)
    assert "b.csv is both read and written" in str(done.exception)
    assert Path("b.csv").read_text() == text
    assert not Path("d.md").exists()


def test_the_page_of_a_roofline_is_written_by_output(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["dag", "run", "reduction", "--core", "zen4", "--no-relax"]
    for more in (["-o", "p.html"], ["--picture", "old.html"]):
        done = RUN.invoke(app, [*words, *more])
        assert done.exit_code == 0, done.output
        assert done.stderr.endswith(f"wrote {more[1]}\n")
    assert RUN.invoke(app, [*words, "-o", "p.svg"]).exit_code == 2
