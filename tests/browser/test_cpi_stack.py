"""The CpiStackExplorer in a real JupyterLab and Chromium: untick an event, brush a phase, choose a workload."""

import json
from typing import Any

import pytest

from tests.browser.lab import Lab, open_and_run

pytestmark = pytest.mark.browser

CODE = """
import perfkit as pk
import perfkit_widgets as pw
pw.CpiStackExplorer(pk.CpiStack().fit_each(pk.open_samples("cpi/workloads")))
"""
TEXT = "text => document.querySelector('.pk-view').textContent.includes(text)"


def test_unticking_brushing_and_choosing_refit_the_stack(page: Any, lab: Lab):
    # A notebook of the view alone: the whole lesson is executed by the notebooks' tests.
    cell = {"cell_type": "code", "id": "a", "metadata": {}, "source": CODE, "outputs": [], "execution_count": None}
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook = {"cells": [cell], "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    (lab.notebooks / "cpi_stack_explorer.ipynb").write_text(json.dumps(notebook))
    open_and_run(page, lab, "cpi_stack_explorer.ipynb", views=4)
    page.wait_for_function(TEXT, arg="over 600 intervals", timeout=20_000)

    page.get_by_role("checkbox").first.focus()
    page.keyboard.press("Space")
    page.wait_for_function(TEXT, arg="not in the model", timeout=20_000)

    strip = page.locator(".bqplot.figure").nth(1)
    strip.scroll_into_view_if_needed()
    at = strip.bounding_box()
    page.mouse.move(at["x"] + 0.3 * at["width"], at["y"] + 60)
    page.mouse.down()
    page.mouse.move(at["x"] + 0.7 * at["width"], at["y"] + 70, steps=8)
    page.mouse.up()
    page.wait_for_function(
        "() => !document.querySelector('.pk-view').textContent.includes('over 600 intervals')", timeout=20_000
    )

    boxes = [bar.bounding_box() for bar in page.locator(".bqplot").first.locator("rect.bar").all()]
    right = max((b for b in boxes if b and b["height"] > 20), key=lambda b: b["x"])
    page.mouse.click(right["x"] + right["width"] / 2, right["y"] + right["height"] / 2)
    page.wait_for_function(TEXT, arg="CPI stack of memory", timeout=20_000)
    assert page.failures == []
