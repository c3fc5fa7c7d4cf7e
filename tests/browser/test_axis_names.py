"""The names along an axis are those that were set last, however quickly one set follows another."""

from typing import Any

import pytest

from tests.browser.lab import Lab
from tests.browser.operate import Opened

pytestmark = pytest.mark.browser

CELL = """
import numpy as np
from perfkit_widgets import figures

scales = {"x": figures.bq.LinearScale(min=0, max=1), "y": figures.bq.LinearScale()}
ax = figures.axis(scales["y"], "left")
def show(names):
    at = np.arange(len(names), dtype=float)
    figures.set_ticks(ax, -0.5, len(names) - 0.5, at, {str(i): n for i, n in enumerate(names)})
show(["first"])
mark = figures.line(scales, "#777777")
figures.set_xy(mark, np.array([0.0, 1.0]), np.array([0.0, 1.0]))
figures.figure([mark], [ax], height=200, margin={"left": 100, "right": 5, "top": 5, "bottom": 5})
"""
LATER = """
for k in range(40):
    show([f"{k}-{i}" for i in range(2 + k % 3)])
    show([f"{k}+{i}" for i in range(2 + k % 3)])
"""
NAMES = "() => [...document.querySelectorAll('.bqplot .tick text')].map(t => t.textContent)"


def test_the_last_names_stay(browser: Any, lab: Lab):
    page = Opened(browser, lab, "axis_names", [CELL], (1500, 600), views=1).page
    page.wait_for_function("() => document.querySelector('.bqplot .tick text')?.textContent === 'first'")
    run = """code => { const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
        return kernel.requestExecute({code}).done.then(() => null); }"""
    for _ in range(3):
        page.evaluate(run, LATER)
        page.wait_for_function(f"() => ({NAMES})().sort().join() === '39+0,39+1'", timeout=20_000)
        page.wait_for_timeout(400)  # what is drawn a frame later must not bring older names back
        assert sorted(page.evaluate(NAMES)) == ["39+0", "39+1"]
    page.close()
