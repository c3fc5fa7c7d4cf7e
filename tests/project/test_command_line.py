"""One vocabulary on the command line: the table of all options, and the commands that documents show."""

import itertools
import json
import re
import shlex
from pathlib import Path

import pytest
import typer
import typer.main
from typer.testing import CliRunner

from perfkit.cli.main import COMMANDS, app
from perfkit.cli.options import CallingCommand, types_of
from tests.commands import commands

ROOT = Path(__file__).resolve().parents[2]

# Every option of the program. One thing has one spelling: before a new line is added here, look for the word that says
# it already.
VOCABULARY = """
--output -o        --json             --picture          --core             --top              --seed
--time-event       --work-event       --repetitions      --folder           --timeout          --limit
--function -f      --build            --flags            --compiler         --define -D        --arguments
--source           --calibration      --overrides        --uops-info        --look-up --no-look-up
--sensitivity      --causality        --weights          --warm --cold --warm-caches
--train            --analyse          --model            --save-model       --min-running      --areas
--form             --method           --events           --aggregate        --between          --paper --trim
--collect          --input            --parameter -p     --list             --set              --size
--cumulative --counts                 --apart
--count-all        --small            --all --full       --memory --no-memory
--skip             --repeat           --callees          --backend          --begin            --end
--dry-run          --yes              --jobs             --batch            --retry --cluster --budget
--function-b       --flags-b          --compiler-b       --define-b         --processes        --confidence
--least            --patience         --grid              --student
--python           --trace            --sizes            --paper-nodes      --relax --no-relax --gus --no-gus
--measure --no-measure
--html             --notebook         --timeline
--intel            --unroll           --init             --first            --subsets          --permutations
--port             --browser --no-browser              --without          --at-most
--threads
--instruction-set  --baseline         --update           --markdown
--kinds            --at                --remove           --noise            --builds           --host-roofs
"""
WORDS = set(re.findall(r"--?[A-Za-z-]+", VOCABULARY))
# Spellings that other programs use, and the word for them here.
SYNONYMS = {
    "--out": "--output", "--save": "--output", "--export": "--output", "--file": "--output", "--format": "--json",
    "--plot": "--picture", "--figure": "--picture", "--image": "--picture", "--cpu": "--core", "--march": "--core",
    "--arch": "--core", "--machine": "--core", "--head": "--top", "--count": "--top", "--rows": "--top",
    "--time": "--time-event", "--work": "--work-event", "--runs": "--repetitions", "--cflags": "--flags",
    "--args": "--arguments", "--analyze": "--analyse", "--hot": "--warm",
    "--dir": "--folder", "--directory": "--folder", "--resume": "--folder", "--random-state": "--seed",
}  # fmt: skip
# What two commands mean differently by one word, each the word of its own method.
TWO_MEANINGS = {"--form", "--weights"}
# What takes one value in most commands, and may be repeated where a command writes several kinds of file.
SEVERAL = {"--output"}


def options():
    """(command, option) of the whole program."""
    found = [(name, p) for name, command in commands().items() for p in command.params]
    return [(name, p) for name, p in found if p.param_type_name == "option" and p.name != "help"]


def test_every_option_is_a_word_of_the_vocabulary():
    used = {spelling for _, option in options() for spelling in (*option.opts, *option.secondary_opts)}
    assert not used - WORDS, f"use a word that is there, or add a line: {used - WORDS}"
    assert not WORDS - used, "words that no command uses any more"
    assert not used & set(SYNONYMS), {word: SYNONYMS[word] for word in used & set(SYNONYMS)}


def test_one_word_is_one_thing():
    """A word has the same short form, type and kind of value in every command."""
    seen = {}
    for name, option in options():
        word = option.opts[0]
        look = (
            tuple(option.opts),
            tuple(option.secondary_opts),
            re.sub(r"list\[(pathlib\.Path)\]", r"<class '\1'>", str(types_of(commands()[name])[option.name])),
            option.multiple and word not in SEVERAL,
            option.nargs,
        )
        first, known = seen.setdefault(word, (name, look))
        assert look == known or word in TWO_MEANINGS, f"{word} of {name} differs from {first}'s: {look} {known}"


def test_a_timeout_ends_something_in_every_command():
    """Of `why` it was how long to watch."""
    for name, option in options():
        if option.opts[0] == "--timeout":
            assert re.match(r"(Give up|Stop) .*after this many seconds", option.help), f"{name}: {option.help}"


def test_a_word_has_one_spelling():
    """No "analyze" beside "analyse"."""
    words = {each for name in commands() for each in name.split()}
    words |= {s.strip("-") for _, option in options() for s in (*option.opts, *option.secondary_opts)}
    spellings = {}
    for word in words:
        spellings.setdefault(word.replace("yz", "ys").replace("iz", "is").replace("or", "our"), set()).add(word)
    assert [found for found in spellings.values() if len(found) > 1] == []


def test_what_a_program_or_function_is_called_with_is_given_one_way():
    """After ``--``; as one text, too."""
    for name, command in commands().items():
        given = {p.name for p in command.params}
        assert ("words" in given) == ("arguments" in given) == isinstance(command, CallingCommand), name
    assert sum(isinstance(command, CallingCommand) for command in commands().values()) == 8


@pytest.mark.parametrize("name", commands())
def test_help_writes_values_in_capitals_and_shows_an_example(name):
    shown = CliRunner().invoke(app, [*name.split(), "--help"], prog_name="perfkit").output
    assert shown.startswith(f"Usage: perfkit {name} [OPTIONS]")  # its own, not that of a command above it
    assert not re.search(r"<[a-z][\w ]*>", shown), (
        shown
    )  # <path>, <int range>; <a|b> lists what there is to choose from
    for argument in (p for p in commands()[name].params if p.param_type_name == "argument"):
        assert re.fullmatch(r"(\[?(-- )?[A-Z]+(\.\.\.)?\]?(\.\.\.)? ?)+", argument.metavar), (name, argument.metavar)
    examples = re.findall(r"^  Example: (perfkit .*)$", shown, re.M)
    assert examples
    assert all(line.startswith(f"perfkit {name}") for line in examples)


def test_every_command_prints_json():
    assert [
        name for name, command in commands().items() if "--json" not in [o for p in command.params for o in p.opts]
    ] == []


def test_lists_are_written_one_way():
    """Values of one option are separated by commas (A,B,...); what may hold commas itself is an option to repeat."""
    for name, option in options():
        if option.multiple:
            assert "may be repeated" in option.help or option.metavar == "FILE...", f"{name} {option.opts}"
        listed = option.metavar == "A,B,..."
        assert listed == ("separated by commas" in option.help), f"{name} {option.opts}"
        assert "separated by spaces" not in option.help


def test_every_option_is_described():
    for name, option in options():
        assert option.help, f"{name} {option.opts}"
        assert option.help.rstrip()[-1] in ".)", f"{name} {option.opts}: {option.help}"


def test_the_list_of_commands_says_what_each_commands_help_says():
    loaded = commands()
    for name, (_, line) in COMMANDS.items():
        groups = typer.main.get_command(app).commands
        assert groups[name].help.split("\n")[0].rstrip(".") == line.rstrip("."), name
    assert {name.split()[0] for name in loaded} == set(COMMANDS)


def test_lists_of_commands_are_whole_sentences_on_a_screen_of_80_columns():
    groups = {" ".join(name.split()[:-1]) for name in commands()}
    assert {"", "dag", "study", "course", "spire"} <= groups
    for group in groups:
        shown = CliRunner().invoke(app, [*group.split(), "--help"], env={"COLUMNS": "80"}).output
        listed = shown.partition("Commands:")[2]
        assert listed, group
        assert [line for line in listed.splitlines() if line.endswith("...")] == [], group


@pytest.mark.parametrize("words", [[], *[[*name.split()] for name in commands()]], ids=" ".join)
def test_help_shows_every_word_of_its_texts(words):
    """Brackets in a text are text: Rich's markup would swallow `f8[1000]` or `[bold]`."""
    shown = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "200"})
    assert shown.exit_code == 0
    text = "".join(shown.output.split())  # lines end anywhere, also behind a hyphen
    if words:
        for parameter in (p for p in commands()[" ".join(words)].params if not getattr(p, "hidden", False)):
            assert "".join((getattr(parameter, "help", "") or "").split()) in text


def documented():
    """(page, command): what help texts show, and documents and notebooks in code blocks and between backticks."""
    for name, command in commands().items():
        yield from ((name, line) for line in re.findall(r"^ *Example: (perfkit .*)$", command.help, re.M))
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "notebooks").glob("*.ipynb")]:
        text = page.read_text()
        if page.suffix == ".ipynb":
            text = "\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"])
        blocks = "\n".join(re.findall(r"^```.*?^```$", text, re.M | re.S) + re.findall(r"^    .*$", text, re.M))
        shown = re.findall(r"^ *(perfkit .*)$", blocks, re.M) + re.findall(r"`(perfkit [^`]+)`", text)
        yield from ((page.name, line) for line in shown)


def test_documents_show_commands_and_options_that_exist():
    known = commands()
    shown = list(documented())
    assert len(shown) > 50
    for page, line in shown:
        words = shlex.split(line.replace("...", ""), comments=True)[1:]
        words = words[: words.index("--")] if "--" in words else words
        own = {"dag": "dag run", "spire": "spire rank"}  # what may be left out
        name = next((name for name in (" ".join(words[:2]), words[0], own.get(words[0])) if name in known), None)
        spellings = {"--help"}
        if name is None:
            assert words[0] in COMMANDS or words[0] == "--help", f"{page}: {line}"
        else:
            spellings |= {s for p in known[name].params for s in (*p.opts, *p.secondary_opts)}
        # A compiler's flags are the value of an option.
        mine = [
            word
            for before, word in itertools.pairwise(["", *words])
            if before not in ("--flags", "--flags-b", "--builds")
        ]
        wrong = [word for word in mine if re.match(r"--?[A-Za-z]", word) and word not in spellings]
        assert not wrong, f"{page}: {line}: {wrong}"
