"""A saved page in Chromium with the network off: its widgets are drawn, and nothing is asked of anyone."""

from pathlib import Path
from typing import Any

import nbformat
import pytest
from ipywidgets import Widget
from ipywidgets.embed import embed_data

import perfkit as pk
from perfkit.cli.pages import single_page
from perfkit_widgets import SpireExplorer

pytestmark = pytest.mark.browser
VIEW = "application/vnd.jupyter.widget-view+json"


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    train = pk.datasets.load("spire/train")
    view = SpireExplorer(pk.Spire().fit(train), pk.datasets.load("spire/memory"), train)
    data = embed_data([view], drop_defaults=False, state=Widget.get_manager_state(drop_defaults=False)["state"])
    bundle = view._repr_mimebundle_()
    output = nbformat.v4.new_output("display_data", bundle[0] if isinstance(bundle, tuple) else bundle)
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("view", outputs=[output])])
    notebook.metadata["widgets"] = {"application/vnd.jupyter.widget-state+json": data["manager_state"]}
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(single_page(notebook, "saved"), encoding="utf-8")
    return path


def test_widgets_of_a_saved_page_are_drawn_without_a_network(page: Any, saved: Path):
    asked: list[str] = []
    page.on("request", lambda r: asked.append(r.url) if not r.url.startswith(("file:", "data:", "blob:")) else None)
    page.context.set_offline(True)
    page.goto(saved.as_uri())
    page.wait_for_function("() => document.body.dataset.widgets", timeout=30_000)
    assert page.evaluate("document.body.dataset.widgets") == "shown"
    page.wait_for_function("() => document.querySelectorAll('svg.svg-figure').length >= 3", timeout=20_000)
    assert page.locator("text=What bounds memory").is_visible()
    assert page.locator(".pk-fallback").count() == 0  # the live view took the picture's place
    assert len(page.locator(".bqplot rect.bar").all()) == 12
    assert (
        page.evaluate("getComputedStyle(document.querySelector('.pk-title')).fontWeight") == "600"
    )  # the view's style
    assert asked == []
    assert page.failures == []


def test_where_scripts_do_not_run_the_picture_stays(browser: Any, saved: Path):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(saved.as_uri())
    picture = page.locator(".pk-fallback img")
    assert picture.is_visible()
    assert picture.bounding_box()["width"] > 400
    context.close()
