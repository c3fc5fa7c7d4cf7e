"""A saved page in Chromium with the network off: its widgets are drawn, and nothing is asked of anyone."""

import re
import runpy
from pathlib import Path
from typing import Any

import nbformat
import pytest
from ipywidgets import Widget
from ipywidgets.embed import embed_data

import perfkit as pk
from perfkit.cli.pages import single_page
from perfkit_widgets import CpiStackExplorer, SpireExplorer, TreeView
from tests.browser.lab import ROOT
from tests.browser.look import EYE

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    train = pk.datasets.load("spire/train")
    view = SpireExplorer(pk.Spire().fit(train), pk.datasets.load("spire/memory"), train)
    return page_of(view, tmp_path_factory.mktemp("page") / "page.html")


def page_of(view: Any, path: Path) -> Path:
    """Save the page of a notebook that shows this view."""
    data = embed_data([view], drop_defaults=False, state=Widget.get_manager_state(drop_defaults=False)["state"])
    bundle = view._repr_mimebundle_()
    output = nbformat.v4.new_output("display_data", bundle[0] if isinstance(bundle, tuple) else bundle)
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("view", outputs=[output])])
    notebook.metadata["widgets"] = {"application/vnd.jupyter.widget-state+json": data["manager_state"]}
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


def test_controls_that_need_a_kernel_are_grey_and_out_of_reach(page: Any, saved: Path):
    page.goto(saved.as_uri())
    page.locator(".pk-still", has_text="./kit lab").wait_for(timeout=30_000)
    assert page.locator(".pk-still").count() == 1
    view = page.locator(".jp-OutputArea-output.pk-view")
    controls = view.locator("select, input, button, .noUi-target")
    assert controls.count() > 5
    assert view.locator(":is(select, input, button, .noUi-target):not([inert])").count() == 0
    assert set(controls.evaluate_all("all => all.map(c => getComputedStyle(c).opacity)")) == {"0.5"}
    reached = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.add(
            page.evaluate("document.activeElement.tagName + ' ' + document.activeElement.textContent.slice(0, 20)")
        )
    assert any("Save table" in name for name in reached)  # works without a kernel
    assert not [name for name in reached if name.startswith(("SELECT", "INPUT", "BUTTON"))]
    title = view.locator(".pk-title").nth(1).inner_text()
    bar = page.locator(".bqplot rect.bar").nth(4).bounding_box()
    page.mouse.click(bar["x"] + 5, bar["y"] + 5)
    tall = "all => all.filter(one => one.getBoundingClientRect().height > 0).length"
    assert page.locator(".bqplot_tooltip_div").evaluate_all(tall) == 0  # whose words are a kernel's
    strip = page.locator(".bqplot rect.overlay").first  # a brush that is drawn chooses nothing without a kernel
    assert strip.count() == 1
    box = strip.bounding_box()
    page.mouse.move(box["x"] + 100, box["y"] + 30)
    page.mouse.down()
    page.mouse.move(box["x"] + 300, box["y"] + 30, steps=5)
    page.mouse.up()
    page.wait_for_timeout(300)
    drawn = "all => all.filter(rect => rect.checkVisibility() && rect.getBoundingClientRect().width > 1).length"
    assert page.locator(".bqplot rect.selection").evaluate_all(drawn) == 0
    assert view.locator(".pk-title").nth(1).inner_text() == title
    assert page.failures == []


def test_a_bar_tells_its_name_and_value_under_the_pointer(page: Any, saved: Path):
    """Without a kernel, bars had no hover."""
    page.goto(saved.as_uri())
    bar = page.locator(".bqplot rect.bar").nth(2)
    page.wait_for_function("() => document.querySelectorAll('.bqplot rect.bar title').length === 12", timeout=30_000)
    over = "([x, y]) => document.elementFromPoint(x, y)?.querySelector('title')?.textContent"
    bar.scroll_into_view_if_needed()
    box = bar.bounding_box()
    assert page.evaluate(over, [box["x"] + 5, box["y"] + 5]) == "3. longest_lat_cache.miss: 0.9701"


def titles(page: Any, path: Path, bars: int) -> list[str]:
    """Return what the bars of a saved page tell under the pointer, from the top, or of a stack from the bottom."""
    page.goto(path.as_uri())
    page.wait_for_function(
        "n => document.querySelectorAll('.bqplot rect.bar title').length === n", arg=bars, timeout=30_000
    )
    return page.locator(".bqplot rect.bar title").evaluate_all("all => all.map(one => one.textContent)")


def test_a_bar_whose_name_was_cut_tells_the_whole_of_it(page: Any, tmp_path: Path):
    """It told the name that stands beside it already, with its middle left out."""
    samples = pk.datasets.load("spire/memory")
    names = {event: f"{event}.and_a_name_that_goes_on_and_on_beyond_what_fits" for event in samples.events}
    table = samples.table.assign(event=samples.table["event"].map(lambda event: names.get(event, event)))
    long = pk.Samples(table, samples.runs, samples.time_event, samples.work_event)
    told = titles(page, page_of(SpireExplorer(pk.Spire().fit(long), long, top=5), tmp_path / "long.html"), 5)
    assert all("_beyond_what_fits: " in one and "…" not in one for one in told), told
    assert page.failures == []


def test_a_part_of_a_stack_tells_which_it_is(page: Any, tmp_path: Path):
    """All parts of a bar had the workload's name alone."""
    fit = pk.CpiStack(resamples=0).fit(pk.datasets.load("cpi/planted"))
    told = titles(page, page_of(CpiStackExplorer({"mine": fit}), tmp_path / "stack.html"), 2 + len(fit.events))
    assert {one.split(": ")[0] for one in told} == {f"mine, {part}" for part in ("base", *fit.events, "unattributed")}
    base = next(one for one in told if one.startswith("mine, base"))
    assert float(base.split(": ")[1]) == pytest.approx(fit.base, rel=1e-3)
    assert page.failures == []


def test_a_tree_keeps_the_node_that_stands_below_it(page: Any, tmp_path: Path):
    """A click marked another node; its way, its rows and the table to save stayed those of the first."""
    runs = pk.datasets.load("studies/fma")
    tree = pk.DecisionTree(["WIDTH", "INSTRUCTIONS"], max_depth=2).fit(runs, "tsc")
    page.goto(page_of(TreeView(tree, runs.table), tmp_path / "tree.html").as_uri())
    nodes = page.locator(".pk-tree .pk-node")
    nodes.nth(2).wait_for(timeout=30_000)
    nodes.nth(2).click()
    page.locator(".pk-tree-box").press("ArrowRight")
    page.wait_for_timeout(300)
    assert page.locator(".pk-tree .pk-chosen").get_attribute("data-node") == "0"
    assert page.locator(".pk-hint").inner_text().startswith("all rows")
    assert nodes.nth(2).evaluate("node => getComputedStyle(node).cursor") == "default"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_follows_the_readers_colour_scheme(browser: Any, saved: Path, scheme: str):
    """Ground, text, code and views together: all that can be read on one is told apart from it on the other."""
    page = browser.new_page(viewport={"width": 1200, "height": 1600}, color_scheme=scheme)
    page.goto(saved.as_uri())
    page.wait_for_function("() => document.body.dataset.widgets === 'shown'", timeout=30_000)
    page.wait_for_function("() => document.querySelectorAll('svg.svg-figure').length >= 3", timeout=20_000)
    page.wait_for_timeout(1500)

    def light(place: str, of: str) -> float:
        told = page.evaluate("([p, of]) => getComputedStyle(document.querySelector(p))[of]", [place, of])
        return sum(float(x) for x in re.findall(r"[\d.]+", told)[:3]) / 765

    for place in ("html", "body", ".highlight"):
        assert (light(place, "backgroundColor") > 0.5) == (scheme == "light"), place
    for place in (".pk-bar", ".pk-title", ".highlight pre"):
        assert (light(place, "color") < 0.5) == (scheme == "light"), place
    assert page.evaluate("document.body.dataset.jpThemeLight") == str(scheme == "light").lower()
    assert page.evaluate(EYE, "body") == []
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_gallerys_index_can_be_read_while_it_is_made_and_after(browser: Any, tmp_path: Path, scheme: str):
    script = runpy.run_path(str(ROOT / "scripts" / "gallery.py"))
    cards = [script["Card"](f"{made}.html", "A title", "What it is about", "", made) for made in (True, False)]
    path = tmp_path / "index.html"
    path.write_text(script["index"](cards), encoding="utf-8")
    page = browser.new_page(viewport={"width": 900, "height": 800}, color_scheme=scheme)
    page.goto(path.as_uri())
    assert page.locator("h1, h2").count() == 3
    assert page.evaluate(EYE, "body") == []
    page.locator(".card a").hover()
    assert page.evaluate(EYE, "body") == []
    page.close()


def test_where_scripts_do_not_run_the_picture_stays(browser: Any, saved: Path):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(saved.as_uri())
    picture = page.locator(".pk-fallback img")
    assert picture.is_visible()
    assert picture.get_attribute("alt") == "SpireExplorer: a static picture of what it shows"
    assert picture.bounding_box()["width"] > 400
    context.close()
