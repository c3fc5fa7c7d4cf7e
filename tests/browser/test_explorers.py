"""The explorers of counter samples in a real JupyterLab and Chromium, control by control."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.browser.lab import Lab
from tests.browser.operate import WORDS, Opened
from tests.notebooks.uploads import dump_of

pytestmark = pytest.mark.browser

CELLS = [
    """
%matplotlib inline
import perfkit as pk, perfkit_widgets as pw
train, samples = pk.datasets.load("spire/train"), pk.datasets.load("spire/memory")
counted = pk.SimulatedPmu("zen4", intervals=8).collect(
    {n: pk.datasets.load(f"traces/{n}") for n in ("divider", "branchy")})
""",
    "pw.SpireExplorer(pk.Spire().fit(train), samples, train)",
    "pw.SamplesExplorer(samples)",
    'pw.BottleneckExplorer(pk.Bottlenecks.load("zen4"), counted)',
    'pw.YourDump(pk.explore, pk.explore("spire/memory"))',
    """
features, bins = ["INSTRUCTIONS", "WIDTH", "TYPE"], pk.FixedBins("FMAS_PER_CYCLE", (0.9, 1.8))
pw.StudyExplorer(pk.datasets.load("studies/fma"), features, categorise=bins.fit,
                 grow=pk.DecisionTree(features, max_depth=3).fit, rank=pk.RandomForest(features, trees=5).fit)
""",
    'pw.CpiStackExplorer(pk.CpiStack().fit_each(pk.open_samples("cpi/workloads")))',
    """
prepared = pk.prepare(pk.Gus(pk.Microarchitecture.load("skylake_x")), pk.open_traces("fig1a")["fig1a"])
pw.WhatIf(prepared.what_if, {"instruction_latency": "1", "front_end": "4 uops/cycle"})
""",
    """
import time
class Slow:
    def __init__(self, model):
        self.model = model
    def __getattr__(self, name):
        return getattr(self.model, name)
    def rank(self, samples):
        time.sleep(0.7)
        return self.model.rank(samples)
pw.SpireExplorer(Slow(pk.Spire().fit(train)), samples)
""",
]
SPIRE, SAMPLES, BOTTLENECKS, DUMP, STUDY, STACKS, WHAT_IF, SLOW = range(1, 9)


@pytest.fixture(scope="module")
def opened(browser: Any, lab: Lab) -> Iterator[Opened]:
    here = Opened(browser, lab, "explorers", CELLS, (1400, 2600), views=17)
    yield here
    assert here.failures == []
    here.page.close()


def drag(page: Any, picture: Any, start: float, end: float) -> None:
    """Drag across a picture, from one share of its width to another."""
    picture.scroll_into_view_if_needed()
    box = picture.bounding_box()
    y = box["y"] + 0.4 * box["height"]
    page.mouse.move(box["x"] + start * box["width"], y)
    page.mouse.down()
    page.mouse.move(box["x"] + end * box["width"], y + 5, steps=8)
    page.mouse.up()


def presses(opened: Opened, view: Any, handle: Any, key: str, times: int) -> None:
    """Press a key on a handle so many times: each press changes the picture."""
    handle.focus()
    for _ in range(times):
        opened.changes(view, partial(opened.page.keyboard.press, key))


def choose(view: Any, label: str, index: int) -> Any:
    return partial(view.get_by_label(label, exact=True).select_option, index=index)


def test_spire_every_way_to_choose_an_event(opened: Opened):
    view = opened.view(SPIRE)
    title = view.locator(".pk-title").nth(1)
    names = view.get_by_label("Event", exact=True).locator("option").all_inner_texts()
    assert title.inner_text() == names[0]
    opened.changes(view, choose(view, "Event", 2))
    assert title.inner_text() == names[2]
    opened.changes(view, view.get_by_role("button", name="▼").click)
    assert title.inner_text() == names[3]
    opened.changes(view, view.get_by_role("button", name="▲").click)
    assert title.inner_text() == names[2]
    bars = view.locator(".bqplot rect.bar")
    assert bars.count() == 12
    opened.changes(view, bars.nth(6).click)
    assert title.inner_text() == names[6]
    bars.nth(3).hover()
    told = opened.page.locator(".bqplot_tooltip_div", has_text=names[3])
    told.wait_for(timeout=5_000)
    assert "bound" in told.inner_text()


def test_spire_names_ranks_and_no_toolbar(opened: Opened):
    for width in (1400, 900):
        opened.page.set_viewport_size({"width": width, "height": 2600})
        view = opened.view(SPIRE)
        opened.settle(view)
        words = view.locator(".bqplot.figure").first.locator("svg text").all_text_contents()
        assert {w.split(".")[0] for w in words if ". " in w} == {str(k) for k in range(1, 13)}
        for name in ("▲", "▼"):
            button = view.get_by_role("button", name=name)
            assert button.evaluate("b => b.scrollWidth <= b.clientWidth")
        bar = view.locator(".bqplot rect.bar").first.bounding_box()
        for toolbar in view.locator(".bqplot .toolbar_div, .bqplot .toolbar").all():
            box = toolbar.bounding_box()
            assert not toolbar.is_visible() or box["y"] + box["height"] <= bar["y"]
    opened.page.set_viewport_size({"width": 1400, "height": 2600})


def test_spire_window_and_axes(opened: Opened):
    view = opened.view(SPIRE)
    opened.changes(view, view.get_by_role("button", name="linear").click)
    opened.changes(view, view.get_by_role("button", name="log").click)
    whole = view.evaluate(WORDS)
    handles = view.locator(".noUi-handle")
    presses(opened, view, handles.nth(0), "ArrowRight", 6)
    presses(opened, view, handles.nth(1), "ArrowLeft", 6)
    opened.changes(view, view.get_by_role("button", name="Whole").click)
    opened.becomes(view, whole)
    opened.changes(view, partial(drag, opened.page, view.locator(".bqplot.figure").last, 0.3, 0.6))
    assert "the whole run" not in view.inner_text()
    opened.changes(view, view.get_by_role("button", name="Whole").click)


def test_a_click_comes_after_what_was_done_before_it(opened: Opened):
    view = opened.view(SLOW)
    whole = view.evaluate(WORDS)
    view.locator(".noUi-handle").nth(0).focus()
    for _ in range(5):  # faster than the ranking: a slider sends its next value when the kernel is done with the last
        opened.page.keyboard.press("ArrowRight")
    view.get_by_role("button", name="Whole").click()
    view.get_by_text("the whole run").wait_for(state="hidden", timeout=10_000)
    opened.becomes(view, whole)
    opened.page.wait_for_timeout(2_000)
    assert view.evaluate(WORDS) == whole


def test_spire_saves_its_table_and_its_picture(opened: Opened):
    view = opened.view(SPIRE)
    assert view.get_by_role("link", name="Save table (CSV)").get_attribute("href").startswith("data:text/csv")
    view.get_by_role("button", name="Draw picture to save").click()
    view.get_by_role("link", name="Save picture (PNG)").wait_for(timeout=20_000)


def test_samples(opened: Opened):
    view = opened.view(SAMPLES)
    opened.changes(view, choose(view, "Event A", 5))
    opened.changes(view, choose(view, "Event B", 3))
    opened.changes(view, choose(view, "Rates", 1))
    opened.changes(view, choose(view, "Rates", 0))
    opened.changes(view, view.get_by_role("button", name="linear").click)
    opened.changes(view, view.get_by_role("button", name="log").click)
    presses(opened, view, view.locator(".noUi-handle").first, "ArrowRight", 6)
    assert "whole data" not in view.inner_text()
    for handle, keys in ((0, ("End", "Home")), (1, ("Home", "End"))):
        for key in keys:
            presses(opened, view, view.locator(".noUi-handle").nth(handle), key, 1)
            assert ("whole data" in view.inner_text()) == (key == keys[1])
    presses(opened, view, view.locator(".noUi-handle").first, "ArrowRight", 1)
    opened.changes(view, view.get_by_role("button", name="Whole").click)
    assert "whole data" in view.inner_text()
    before = view.locator("table").inner_text()
    opened.changes(view, partial(drag, opened.page, view.locator(".bqplot.figure").first, 0.2, 0.5))
    assert view.locator("table").inner_text() != before
    opened.changes(view, view.get_by_role("button", name="Whole").click)


def click_in_row(page: Any, bar: Any) -> None:
    """Click in a bar's row: a probability of nearly zero has hardly any bar."""
    box = bar.bounding_box()
    page.mouse.click(box["x"] + 20, box["y"] + box["height"] / 2)


def test_bottlenecks(opened: Opened):
    view = opened.view(BOTTLENECKS)
    told = view.locator("b", has_text="dividers").first
    told.wait_for(timeout=10_000)
    third = view.locator(".bqplot rect.bar").nth(2)
    third.scroll_into_view_if_needed()
    opened.changes(view, partial(click_in_row, opened.page, third))
    assert told.count() == 0
    bars, chosen = view.locator(".bqplot rect.bar"), view.locator("b:has(+ .pk-muted)").last
    seen = {chosen.inner_text()}
    for k, beside in ((1, -60), (bars.count() - 1, -60), (0, 200), (3, 200)):  # a row's name, and in its row
        box = bars.nth(k).bounding_box()
        click = partial(opened.page.mouse.click, box["x"] + beside, box["y"] + box["height"] / 2)
        opened.changes(view, click)
        seen.add(chosen.inner_text())
        assert bars.nth(k).evaluate("bar => getComputedStyle(bar).strokeWidth") == "2px"  # of the others: 1
    assert len(seen) == 5
    presses(opened, view, view.locator(".noUi-handle").first, "ArrowRight", 3)
    opened.changes(view, view.get_by_role("button", name="Whole").click)
    opened.changes(view, partial(drag, opened.page, view.locator(".bqplot.figure").first, 0.3, 0.7))


def test_a_dump_is_uploaded(opened: Opened, tmp_path: Path):
    view = opened.page.locator(".jp-CodeCell").nth(DUMP).locator(".jp-OutputArea-output").last
    view.scroll_into_view_if_needed()

    def upload(file: Path) -> None:
        with opened.page.expect_file_chooser() as chooser:
            view.get_by_role("button", name="Your dumps").click()
        chooser.value.set_files(file)

    dump = tmp_path / "mine.txt"
    dump.write_text(dump_of(2.0))
    opened.changes(view, partial(upload, dump), WORDS)
    view.get_by_text("mine.txt").first.wait_for(timeout=20_000)  # the button counts the files before that
    view.get_by_text("IPC 0.5").first.wait_for(timeout=20_000)
    broken = tmp_path / "<b>broken.txt"
    broken.write_text("nothing that anybody counted\n")
    opened.changes(view, partial(upload, broken), WORDS)
    view.get_by_text("broken.txt").first.wait_for(timeout=20_000)
    assert view.locator("b", has_text="broken").count() == 0  # a file's name is text


def test_study(opened: Opened):
    view = opened.view(STUDY)
    opened.changes(view, choose(view, "Lines", 2))
    opened.changes(view, choose(view, "Across", 1))
    opened.changes(view, choose(view, "Across", 0))
    lists = view.locator("select[multiple]")
    opened.changes(view, partial(lists.nth(1).select_option, index=[0]))
    assert "of 60 configurations" in view.inner_text()
    assert "60 of 60" not in view.inner_text()
    opened.changes(view, view.get_by_role("button", name="All rows").click)
    assert "60 of 60" in view.inner_text()
    typed = view.get_by_label("Boundaries")
    typed.fill("1.1")
    opened.changes(view, partial(typed.press, "Enter"))
    assert "2 categories" in view.inner_text()
    opened.changes(view, view.get_by_role("button", name="Find them again").click)
    assert "3 categories" in view.inner_text()
    typed.fill("one")
    opened.changes(view, partial(typed.press, "Enter"), WORDS)
    assert view.get_by_role("alert").inner_text().startswith("Boundaries are numbers")
    tree = view.locator(".pk-tree-box")
    tree.focus()
    opened.changes(view, partial(tree.press, "ArrowRight"))
    opened.changes(view, partial(tree.press, "ArrowLeft"))


def test_stacks(opened: Opened):
    view = opened.view(STACKS)
    for label, index in (("Workload", 1), ("Form", 1), ("Form", 0), ("Method", 1), ("Method", 0), ("Intervals", 2)):
        opened.changes(view, choose(view, label, index))
    opened.changes(view, choose(view, "Intervals", 0))
    opened.changes(view, view.get_by_role("checkbox").first.click)
    opened.changes(view, view.get_by_role("button", name="All", exact=True).click)
    presses(opened, view, view.locator(".noUi-handle").first, "PageUp", 3)
    opened.changes(view, view.get_by_role("button", name="Whole run").click)


def test_what_if(opened: Opened):
    view = opened.view(WHAT_IF)
    first = view.evaluate(WORDS)
    for place in (0, 1):
        view.locator(".noUi-handle").nth(place).focus()
        for _ in range(2):
            opened.changes(view, partial(opened.page.keyboard.press, "ArrowLeft"), WORDS)
    reset = view.get_by_role("button", name="Reset to baseline")
    assert reset.evaluate("b => b.scrollWidth <= b.clientWidth")
    opened.changes(view, reset.click, WORDS)
    opened.becomes(view, first)
