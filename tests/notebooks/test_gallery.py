"""The gallery's index: there before the first page is, and true while pages are made."""

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

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
    notebooks = sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))
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
