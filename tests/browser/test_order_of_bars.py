"""Bars of a ranking stand from the largest down: when they are drawn, when the ranking changed, and in a saved page."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.browser.lab import Lab, open_and_run

pytestmark = pytest.mark.browser

CELLS = [
    """
import pandas as pd
from perfkit_widgets.ranked_bars import RankedBars
def ranked(*names):
    return pd.DataFrame({"resource": names, "x2": [0.9, 0.5, 0.1]})
drawn, changed = RankedBars("speedup (%)", 3), RankedBars("speedup (%)", 3)
drawn.draw(ranked("first", "second", "third"))
changed.draw(ranked("third", "first", "second"))
drawn
""",
    "changed",
    'changed.draw(ranked("first", "second", "third"))',
]
NAMES = """() => [...document.querySelectorAll('.bqplot')].map(figure =>
    [...figure.querySelectorAll('text')].filter(one => ['first', 'second', 'third'].includes(one.textContent))
        .sort((a, b) => a.getBoundingClientRect().top - b.getBoundingClientRect().top).map(one => one.textContent))"""
RIGHT = [["first", "second", "third"]] * 2


def written(path: Path) -> Path:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text.strip()) for text in CELLS])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(notebook, path)
    return path


def test_in_jupyterlab(browser: Any, lab: Lab):
    written(lab.notebooks / "order.ipynb")
    page = browser.new_page(viewport={"width": 1200, "height": 1600})
    open_and_run(page, lab, "order.ipynb", views=2)
    page.wait_for_timeout(1500)
    assert page.evaluate(NAMES) == RIGHT
    page.close()


def test_in_a_page_without_a_server(browser: Any, tmp_path: Path):
    notebook = written(tmp_path / "order.ipynb")
    command = [sys.executable, "-m", "perfkit", "report", str(notebook), "-o", str(tmp_path / "order.html")]
    subprocess.run(command, check=True, capture_output=True)
    page = browser.new_page(viewport={"width": 1200, "height": 1600})
    page.goto((tmp_path / "order.html").as_uri())
    page.wait_for_selector("svg.svg-figure rect.bar")
    page.wait_for_timeout(1500)
    assert page.evaluate(NAMES) == RIGHT
    page.close()
