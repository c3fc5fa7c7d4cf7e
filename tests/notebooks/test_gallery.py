"""The gallery's index: there before the first page is, and true while pages are made."""

import base64
import importlib.util
import io
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def gallery() -> Any:
    spec = importlib.util.spec_from_file_location("gallery", ROOT / "scripts" / "gallery.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_index_lists_every_notebook_and_links_those_that_are_there(gallery: Any, tmp_path: Path):
    folder = ROOT / "notebooks"
    notebooks = [path.relative_to(folder).with_suffix("").as_posix() for path in sorted(folder.rglob("*.ipynb"))]
    (tmp_path / "course").mkdir()
    gallery.write_index(tmp_path)
    before = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert before.count("not executed yet") == len(notebooks)
    assert f"0 of {len(notebooks)} are made so far" in before
    assert "<a " not in before
    (tmp_path / f"{notebooks[0]}.html").touch()
    gallery.write_index(tmp_path)
    after = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert after.count("<a ") == 1
    assert "<img" not in after
    assert f'href="{notebooks[0]}.html"' in after
    for name in notebooks:
        (tmp_path / f"{name}.html").touch()
    gallery.write_index(tmp_path)
    done = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "made so far" not in done
    assert "\\" not in done  # no formula as it is typed
    assert "…" not in done  # texts end with a sentence


def test_each_picture_of_the_index_says_in_words_of_which_page_it_is(gallery: Any, tmp_path: Path):
    (tmp_path / "assets").mkdir()
    for stem in ("30_gus_optimization", "50_cpi_stack"):
        (tmp_path / f"{stem}.html").touch()
        (tmp_path / "assets" / f"{stem}.png").touch()
    gallery.write_index(tmp_path)
    told = re.findall(r'<img [^>]*alt="([^"]+)"', (tmp_path / "index.html").read_text(encoding="utf-8"))
    assert len(told) == 2
    assert "optimise a kernel by sensitivity and causality" in told[0]
    assert "CPI stacks by regression" in told[1]


def test_no_text_of_a_card_ends_in_its_middle_or_leads_to_what_is_not_on_it(gallery: Any, tmp_path: Path):
    for path in gallery.notebooks():
        text = gallery.read_card(path, tmp_path).text
        assert text[-1] in ".?!", (path.name, text)
        assert not re.search(r"\bbelow\b", text, re.I), (path.name, text)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("One. Two asks this:", "One."),
        ("One. Below, a view. Three.", "One. Three."),
        ("One: two.", "One: two."),  # a colon within is none that leads on
        ("It is 1.5 times e.g. this. Yes?", "It is 1.5 times e.g. this. Yes?"),
        ("One. " + "Two " * 80 + "end.", "One."),
        ("Only this:", "Only this"),
    ],
)
def test_sentences_are_whole(gallery: Any, text: str, kept: str):
    assert gallery._sentences(text, 240) == kept


def _png(width: int, height: int) -> str:
    stream = io.BytesIO()
    Image.new("L", (width, height)).save(stream, "PNG")
    return base64.b64encode(stream.getvalue()).decode()


def _cell(width: int, height: int, *tags: str) -> Any:
    data = {"image/png": _png(width, height)}
    shown = [nbformat.v4.new_output("display_data", data)]
    return nbformat.v4.new_code_cell(metadata={"tags": list(tags)}, outputs=shown)


@pytest.mark.parametrize(
    ("cells", "chosen"),
    [
        ([(900, 500), (2371, 2384)], (900, 500)),  # a whole explorer, made as small as a card, cannot be read
        ([(2371, 2384), (600, 400), (1000, 400)], (600, 400)),
        ([(600, 400), (900, 500, "thumbnail"), (700, 400, "thumbnail")], (900, 500)),
    ],
)
def test_the_picture_of_a_card_is_the_one_that_can_be_read(gallery: Any, cells: list[Any], chosen: tuple[int, int]):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("x"), *(_cell(*one) for one in cells)])
    with Image.open(io.BytesIO(gallery.card_picture(notebook))) as image:
        assert image.size == chosen
    assert gallery.card_picture(nbformat.v4.new_notebook()) == b""


def test_units_of_the_course_are_shown_without_their_solutions(gallery: Any):
    shown = 0
    for path in gallery.notebooks():
        with gallery.as_shown(path) as version:
            text = version.read_text(encoding="utf-8")
        assert "BEGIN SOLUTION" not in text
        shown += "BEGIN SOLUTION" in path.read_text(encoding="utf-8")
    assert shown == 6
