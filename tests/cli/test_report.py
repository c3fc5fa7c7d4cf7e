"""``perfkit report``: names, types and files; one real notebook is run, on the smallest source."""

import json
from pathlib import Path

import nbformat
import pytest
from typer.testing import CliRunner

from perfkit.cli import report
from perfkit.cli.main import app
from perfkit.errors import FormatError, SettingError, UnavailableError


@pytest.fixture
def notebook(tmp_path: Path) -> Path:
    """A notebook that prints its parameters and draws nothing."""
    cells = [
        nbformat.v4.new_code_cell('word: str = "a"  # a word\ntop: int = 3  # how many\nflag: bool = False  # whether'),
        nbformat.v4.new_code_cell("print(repr((word, top, flag)))"),
    ]
    cells[0].metadata["tags"] = ["parameters"]
    nb = nbformat.v4.new_notebook(cells=cells)
    nb.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    path = tmp_path / "small.ipynb"
    nbformat.write(nb, path)
    return path


def invoke(*arguments: object):
    return CliRunner().invoke(app, ["report", *map(str, arguments)])


def test_parameters_reach_the_notebook_in_their_types(notebook: Path, tmp_path: Path):
    out = tmp_path / "deep" / "out.ipynb"
    done = invoke(notebook, "-p", "word", "x = y", "-p", "top=7", "--parameter", "flag", "yes", "-o", out)
    assert done.exit_code == 0, done.output
    executed = nbformat.read(out, as_version=4)
    assert executed.cells[-1].outputs[0].text.strip() == "('x = y', 7, True)"
    assert nbformat.read(notebook, as_version=4).cells[-1].outputs == []


def test_a_report_can_be_one_page(notebook: Path, tmp_path: Path):
    out = tmp_path / "out.html"
    assert invoke(notebook, "-o", out).exit_code == 0
    page = out.read_text()
    assert "small: defaults" in page
    assert "https://" not in page.split("</style>")[-1]


@pytest.mark.parametrize("text", ["{}", '{"cells": 3}', "[]", '{"cells": [3], "nbformat": 4, "nbformat_minor": 5}'])
def test_what_is_no_notebook_is_refused(tmp_path: Path, text: str):
    path = tmp_path / "broken.ipynb"
    path.write_text(text)
    for words in ([path], [path, "--list"]):
        assert isinstance(invoke(*words).exception, FormatError)
    assert isinstance(CliRunner().invoke(app, ["app", str(path)]).exception, FormatError)


def test_unknown_parameters_name_the_nearest(notebook: Path, tmp_path: Path):
    done = invoke(notebook, "-p", "tops", "3", "-o", tmp_path / "o.html")
    assert isinstance(done.exception, SettingError)
    assert "did you mean top?" in str(done.exception)
    assert "Its parameters are word, top, flag" in str(done.exception)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["-p", "top", "many"], "top is of type int; found 'many'"),
        (["-p", "flag", "perhaps"], "flag is of type bool"),
        (["-p", "word"], "NAME VALUE"),
    ],
)
def test_wrong_values_are_errors(notebook: Path, tmp_path: Path, arguments: list[str], says: str):
    done = invoke(notebook, "-o", tmp_path / "o.html", *arguments)
    assert done.exit_code != 0
    assert says in f"{done.exception} {done.output}"


def test_output_must_be_named_and_of_a_known_kind(notebook: Path, tmp_path: Path):
    assert "-o OUT.html" in str(invoke(notebook).exception)
    assert "found" in str(invoke(notebook, "-o", tmp_path / "o.pdf").exception)


def test_a_failing_cell_is_reported_with_its_error(notebook: Path, tmp_path: Path):
    nb = nbformat.read(notebook, as_version=4)
    nb.cells.append(nbformat.v4.new_code_cell("1 / 0"))
    nbformat.write(nb, notebook)
    done = invoke(notebook, "-o", tmp_path / "o.html")
    assert isinstance(done.exception, UnavailableError)
    assert "ZeroDivisionError" in str(done.exception)
    assert not (tmp_path / "o.html").exists()


def test_parameters_are_listed(notebook: Path):
    listed = json.loads(invoke(notebook, "--list", "--json").output)
    assert listed["top"] == {"name": "top", "inferred_type_name": "int", "default": "3", "help": "how many"}
    assert "how many" in invoke(notebook, "--list").output


def test_shipped_notebooks_are_found_by_a_part_of_their_name():
    assert report.find_notebook("tour").name == "00_tour.ipynb"
    assert report.find_notebook("10_spire_walkthrough.ipynb").stem == "10_spire_walkthrough"
    assert report.find_notebook("spire").stem == "10_spire_walkthrough"  # a method's before a unit's
    assert report.find_notebook("unit2").parent.name == "course"
    with pytest.raises(SettingError, match="no notebook"):
        report.find_notebook("nowhere")


def test_lists_are_given_as_words_or_json():
    known = {"runs": {"inferred_type_name": "list[str]"}}
    assert report.checked({"runs": "a, b"}, known, Path("n")) == {"runs": ["a", "b"]}
    assert report.checked({"runs": '["a"]'}, known, Path("n")) == {"runs": ["a"]}


def test_without_a_name_all_are_listed():
    told = invoke("--list").output
    assert told.startswith("methods: spire, cpi, ")
    assert "notebooks: 00_tour, 01_your_dump, " in told
    assert json.loads(invoke("--list", "--json").output)["methods"][0] == "spire"
    with pytest.raises(SettingError, match="--list names them all"):
        CliRunner().invoke(app, ["report"], catch_exceptions=False)
