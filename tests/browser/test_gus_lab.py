"""End to end: Gus's four views in a real JupyterLab and Chromium, wired both ways: the browser draws, Python hears."""

import json
import math
import re
from collections.abc import Iterator
from typing import Any

import nbformat
import pytest

from tests.browser.lab import Lab, open_and_run

pytestmark = pytest.mark.browser

# What Python hears stands in a line below each view.
CELLS = [
    '''
import ipywidgets as widgets, perfkit as pk, perfkit_widgets as pw
source = """
double f(double *y, const double *x, long n) {
    double sum = 0;
    for (long i = 0; i < n; i++) {
        y[i] = 3 * x[i];
        sum = sum * 0.5 + y[i];
    }
    return sum;
}
"""
import numpy as np
trace = pk.collectors.compile_kernel(source, "f", build="scalar").trace(np.ones(300), np.ones(300), 300)
gus = pk.Gus(pk.Microarchitecture.load("skylake_x"), warm=True)
run, prepared = gus.run(trace), pk.prepare(gus, trace)
def heard(view, trait, name):
    label = widgets.HTML(f"{name} heard nothing")
    view.observe(lambda change: setattr(label, "value", f"{name} heard {change['new']}"), trait)
    return widgets.VBox([view, label])
''',
    'heard(pw.SensitivityView(prepared.ranker(), title="in a test"), "weight", "sensitivity")',
    'heard(pw.ListingView(run.to_frame(), run.causality().shares, title="in a test"), "selected", "listing")',
    'heard(pw.TimelineView(pk.timeline(run, 500, 900), title="in a test"), "selected", "timeline")',
    'heard(pw.WhatIf(prepared.what_if, {"instruction_latency": "all", "rob": "224"}), "capacities", "what-if")',
]


@pytest.fixture(scope="module")
def opened(browser: Any, lab: Lab) -> Iterator[Any]:
    """The notebook, run once for all of the tests."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text.strip()) for text in CELLS])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(notebook, lab.notebooks / "gus_views.ipynb")
    page = browser.new_page(viewport={"width": 1500, "height": 2400})
    page.failures = []
    slow = "[anywidget] Failed to initialize model"  # see the fixture page
    page.on("pageerror", lambda error: None if slow in str(error) else page.failures.append(str(error)))
    open_and_run(page, lab, "gus_views.ipynb", views=2)
    yield page
    assert page.failures == []
    page.close()


def view(page: Any, title: str) -> Any:
    found = page.locator(".pk-view", has=page.locator(".pk-title", has_text=title)).first
    found.scroll_into_view_if_needed()
    return found


def test_the_weight_slider_changes_the_bars(opened: Any):
    here = view(opened, "Sensitivity in a test")
    bars = "n => n.querySelectorAll('.bqplot rect.bar').length"
    opened.wait_for_function("() => document.querySelectorAll('.bqplot rect.bar').length > 5")
    widths = "n => [...n.querySelectorAll('.bqplot rect.bar')].map(r => r.getAttribute('width')).join()"
    assert here.evaluate(bars) == 12
    first = here.locator(".pk-hint").inner_text()
    assert first.startswith("instruction_latency (rank 1")  # the chain of sums
    handle = here.locator(".noUi-handle")
    handle.focus()
    before = here.evaluate(widths)
    opened.keyboard.press("ArrowRight")
    opened.get_by_text("sensitivity heard 2.05").wait_for(timeout=10_000)
    here.locator(".pk-hint", has_text="2.05 times as good").wait_for(timeout=10_000)
    assert here.evaluate(widths) != before
    here.locator(".bqplot rect.bar").nth(1).click(force=True)
    here.locator(".pk-hint", has_text="rank 2 of").wait_for(timeout=10_000)


def test_a_bar_without_width_is_chosen_by_its_row_and_its_name_and_by_keys(opened: Any):
    here = view(opened, "Sensitivity in a test")
    words, bars = here.locator(".pk-hint"), here.locator(".bqplot rect.bar")
    row = sorted((b.bounding_box() for b in bars.all()), key=lambda box: box["y"])
    empty = next(k for k in range(len(row)) if row[k]["width"] < 0.5)
    assert empty < len(row) - 2
    middle = row[empty]["y"] + row[empty]["height"] / 2
    opened.mouse.click(row[empty]["x"] + 200, middle)  # nothing is drawn here
    here.locator(".pk-hint", has_text=f"rank {empty + 1} of").wait_for(timeout=10_000)
    opened.mouse.click(row[empty]["x"] - 40, middle + row[1]["y"] - row[0]["y"])  # the next one's name
    here.locator(".pk-hint", has_text=f"rank {empty + 2} of").wait_for(timeout=10_000)
    opened.keyboard.press("ArrowUp")
    here.locator(".pk-hint", has_text=f"rank {empty + 1} of").wait_for(timeout=10_000)
    opened.wait_for_timeout(500)  # each press is one step, however many views listen
    assert f"rank {empty + 1} of" in words.inner_text()
    here.locator(".noUi-handle").focus()
    opened.keyboard.press("Tab")  # to the slider's number
    opened.keyboard.press("Tab")  # to the ranking
    opened.keyboard.press("ArrowUp")
    here.locator(".pk-hint", has_text=f"rank {empty} of").wait_for(timeout=10_000)
    bars.first.click(force=True)
    here.locator(".pk-hint", has_text="rank 1 of").wait_for(timeout=10_000)


def test_search_finds_a_source_line_and_keys_move_the_choice(opened: Any):
    here = view(opened, "Instructions in a test")
    rows = here.locator("tbody tr")
    everything = rows.count()
    here.get_by_label("Search instructions and source lines").fill("sum * 0.5")
    opened.wait_for_function(
        "([n, all]) => n.querySelectorAll('tbody tr').length < all", arg=[here.element_handle(), everything]
    )
    found = rows.all_inner_texts()
    assert found
    assert all("sum = sum * 0.5 + y[i];" in row for row in found)
    assert any("mulsd" in row for row in found)
    assert here.get_by_text(f"{len(found)} of {everything} instructions").is_visible()
    scroll = here.locator(".pk-l-scroll")
    scroll.focus()
    opened.keyboard.press("ArrowDown")
    opened.get_by_text(re.compile(r"listing heard \d+")).wait_for(timeout=10_000)
    first = opened.get_by_text(re.compile(r"listing heard \d+")).inner_text()
    opened.keyboard.press("ArrowDown")
    opened.wait_for_function("old => !document.body.innerText.includes(old)", arg=first, timeout=10_000)
    assert here.locator("tr.pk-l-chosen").count() == 1
    assert "sum * 0.5" in here.locator("tr.pk-l-chosen").inner_text()
    here.get_by_role("button", name=re.compile("^cause %")).click()
    here.locator("th[aria-sort=descending]").wait_for(timeout=10_000)


def test_a_listing_that_is_sorted_shows_its_top_also_with_a_row_chosen(opened: Any):
    here = view(opened, "Instructions in a test")
    here.get_by_label("Search instructions and source lines").fill("")
    rows, scroll = here.locator("tbody tr"), here.locator(".pk-l-scroll")
    scroll.evaluate("n => { n.style.maxHeight = '120px'; }")  # so that a short listing scrolls, too
    # The last of the order that is to come: to keep it in view, one would scroll to the bottom.
    share, last = here.get_by_role("button", name=re.compile("^cause %")), rows.last
    last.scroll_into_view_if_needed()
    last.click()
    here.locator("tr.pk-l-chosen").wait_for(timeout=10_000)
    for _ in range(2):
        scroll.evaluate("n => { n.scrollTop = n.scrollHeight; }")
        was = rows.first.inner_text()
        share.click()
        opened.wait_for_function(
            "([n, was]) => n.querySelector('tbody tr').innerText !== was", arg=[here.element_handle(), was]
        )
        opened.wait_for_timeout(300)
        if here.locator("th[aria-sort=ascending], th[aria-sort=descending]").count():
            assert scroll.evaluate("n => n.scrollTop") == 0
    assert here.locator("tr.pk-l-chosen").count() == 1


def test_a_chosen_instruction_gets_arrows_in_both_kinds_of_rows(opened: Any):
    here = view(opened, "Timeline in a test")
    canvas = here.locator("canvas")
    opened.wait_for_function("n => n.dataset.mode === 'resources'", arg=canvas.element_handle())
    assert json.loads(canvas.get_attribute("data-arrows")) == []
    canvas.focus()
    opened.keyboard.press("ArrowDown")  # the one in the middle; then on to a sum, which waits for the one before
    for _ in range(12):
        if "addsd" in here.locator(".pk-hint").inner_text():
            break
        opened.keyboard.press("ArrowDown")
    words = here.locator(".pk-hint").inner_text()
    number = int(re.match(r"Instruction (\d+): addsd", words)[1])
    opened.get_by_text(f"timeline heard {number}", exact=True).wait_for(timeout=10_000)
    assert "executed for 4 cycles, ended" in words  # an addition, and its unit
    arrows = json.loads(canvas.get_attribute("data-arrows"))
    assert [number - 1, number] in arrows or any(consumer == number for _, consumer in arrows)
    assert all(producer < consumer for producer, consumer in arrows)
    span = float(canvas.get_attribute("data-span"))
    opened.keyboard.press("+")
    assert float(canvas.get_attribute("data-span")) == pytest.approx(span / 1.5, rel=0.01)
    here.get_by_role("button", name="Rows: resources").click()
    opened.wait_for_function("n => n.dataset.mode === 'instructions'", arg=canvas.element_handle())
    assert any(consumer == number for _, consumer in json.loads(canvas.get_attribute("data-arrows")))
    assert here.locator(".pk-hint").inner_text().startswith(f"Instruction {number}")


def test_the_colours_of_the_timelines_legend_are_told_apart(opened: Any):
    """CIE76 distances of the swatches on a white and on a dark page."""
    here = view(opened, "Timeline in a test")
    for _ in range(2):
        colours = here.locator(".pk-l-bar .pk-key i").evaluate_all(
            "all => all.map(i => getComputedStyle(i)).filter(s => s.backgroundImage === 'none').map(s => "
            "[s.backgroundColor, s.borderTopWidth])"
        )
        filled = [colour for colour, border in colours if border == "0px"]
        for page in ((255, 255, 255), (17, 17, 17)):
            seen = [lab_of(over(colour, page)) for colour in filled]
            for k, one in enumerate(seen):
                assert all(math.dist(one, other) > 25 for other in seen[:k]), filled
        here.locator("canvas").press("m")
        opened.wait_for_timeout(300)


def over(colour: str, page: tuple[int, int, int]) -> list[float]:
    """A colour of CSS on a page, 0 to 1."""
    red, green, blue, *rest = (float(x) for x in re.findall(r"[\d.]+", colour))
    alpha = rest[0] if rest else 1.0
    return [(alpha * c + (1 - alpha) * p) / 255 for c, p in zip((red, green, blue), page, strict=True)]


def lab_of(colour: list[float]) -> tuple[float, float, float]:
    """sRGB to CIE L*a*b*, D65."""
    r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour)
    white = (0.95047, 1.0, 1.08883)
    xyz = (
        0.4124 * r + 0.3576 * g + 0.1805 * b,
        0.2126 * r + 0.7152 * g + 0.0722 * b,
        0.0193 * r + 0.1192 * g + 0.9505 * b,
    )
    x, y, z = (
        t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116 for t in (v / w for v, w in zip(xyz, white, strict=True))
    )
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def test_every_row_of_the_timeline_tells_what_it_is(opened: Any):
    here = view(opened, "Timeline in a test")
    canvas = here.locator("canvas")
    canvas.focus()
    if canvas.get_attribute("data-mode") == "instructions":
        opened.keyboard.press("m")
    opened.wait_for_function("n => n.dataset.mode === 'resources'", arg=canvas.element_handle())
    opened.keyboard.press("0")
    box = canvas.bounding_box()

    def told(x: float, y: float) -> str:
        opened.mouse.move(box["x"] + x, box["y"] + y)
        return str(canvas.get_attribute("title"))

    # Names left of the bars, then the bars: every lane of 11 pixels is passed.
    names = {told(60, y).partition(" (")[0] for y in range(24, int(box["height"]), 5)} - {""}
    assert {"front_end", "retire"} <= names
    bars = {told(x, y) for y in range(24, int(box["height"]), 5) for x in range(160, int(box["width"]), 40)}
    used = {words.partition(":")[0] for words in bars if "instruction" in words}
    assert {"front_end", "retire"} <= used <= names
    opened.keyboard.press("m")
    opened.wait_for_function("n => n.dataset.mode === 'instructions'", arg=canvas.element_handle())
    rows = [told(60, y) for y in range(30, int(box["height"]) - 10, 17)]
    assert all("dispatched" in words and "retired" in words for words in rows)
    assert len(set(rows)) == len(rows)


def test_wheel_and_drag_move_and_zoom_the_timeline(opened: Any):
    here = view(opened, "Timeline in a test")
    canvas = here.locator("canvas")
    canvas.focus()
    opened.keyboard.press("0")
    box = canvas.bounding_box()
    opened.mouse.move(box["x"] + 600, box["y"] + 100)

    def picture() -> str:
        opened.wait_for_timeout(150)
        return str(canvas.evaluate("c => c.toDataURL()"))

    def span() -> float:
        opened.wait_for_timeout(150)
        return float(canvas.get_attribute("data-span"))

    first, before = span(), picture()
    opened.mouse.wheel(0, 120)
    assert picture() != before
    assert span() == first
    opened.keyboard.down("Control")
    opened.mouse.wheel(0, -120)
    opened.keyboard.up("Control")
    assert span() == pytest.approx(first / 1.2, rel=0.01)
    for held, zooms in ((None, False), ("Shift", True)):
        before, wide = picture(), span()
        if held:
            opened.keyboard.down(held)
        opened.mouse.move(box["x"] + 500, box["y"] + 100)
        opened.mouse.down()
        opened.mouse.move(box["x"] + 700, box["y"] + 100, steps=5)
        opened.mouse.up()
        if held:
            opened.keyboard.up(held)
        assert picture() != before
        assert (span() < wide / 2) is zooms
    opened.keyboard.press("0")
    assert span() == first


def test_shift_and_drag_in_the_timeline_chooses_no_cells(opened: Any):
    """JupyterLab takes Shift and a press for a choice of cells, which the next keys would be for."""
    opened.locator(".jp-Cell").first.locator(".jp-InputPrompt, .jp-InputArea-prompt").first.click()
    canvas = view(opened, "Timeline in a test").locator("canvas")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    opened.mouse.move(box["x"] + 500, box["y"] + 100)
    opened.keyboard.down("Shift")
    opened.mouse.down()
    opened.mouse.move(box["x"] + 700, box["y"] + 100, steps=5)
    opened.mouse.up()
    opened.keyboard.up("Shift")
    assert opened.locator(".jp-Cell.jp-mod-multiSelected").count() == 0
    assert canvas.evaluate("c => document.activeElement === c")
    opened.keyboard.press("0")


def test_a_better_core_takes_fewer_cycles(opened: Any):
    here = view(opened, "What if?")
    words = here.locator(".pk-hint")
    assert "no faster than the core as it is" in words.inner_text()
    here.locator(".noUi-handle").first.focus()
    opened.keyboard.press("ArrowRight")
    opened.get_by_text("what-if heard {'instruction_latency': 1.1").wait_for(timeout=10_000)
    opened.wait_for_function("n => !n.innerText.includes('no faster')", arg=words.element_handle(), timeout=10_000)
    cycles, now = (int(n.replace(",", "")) for n in re.findall(r"([\d,]+) cycles", words.inner_text()))
    assert cycles < now
    here.get_by_role("button", name="Reset to baseline").click()
    here.locator(".pk-hint", has_text="no faster than").wait_for(timeout=10_000)
