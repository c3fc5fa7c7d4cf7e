"""End to end, in a real JupyterLab and Chromium: open a notebook, run it all, use its widgets."""

from typing import Any

import pytest

from tests.browser.lab import Lab, open_and_run

pytestmark = pytest.mark.browser

# The drawn roofline is the explorer's widest solid dark line.
ROOF = """() => {
    const lines = [...document.querySelectorAll('path.line')].filter(p => p.style.strokeWidth.startsWith('2.5'));
    return lines.map(p => p.getAttribute('d')).join('|');
}"""


def test_walkthrough_choosing_an_event_changes_the_roofline(page: Any, lab: Lab):
    open_and_run(page, lab, "10_spire_walkthrough.ipynb", views=6)
    choice = page.locator("select", has=page.locator("option", has_text="br_misp_retired.all_branches")).last
    choice.scroll_into_view_if_needed()
    page.wait_for_function(f"() => ({ROOF})().length > 100")
    before = page.evaluate(ROOF)
    chosen = choice.input_value()
    choice.focus()
    page.keyboard.press("ArrowDown")  # by keyboard, as the page says
    page.wait_for_function(f"before => ({ROOF})() !== before", arg=before, timeout=10_000)
    assert choice.input_value() != chosen
    title = page.locator(".pk-title", has_text=choice.input_value())
    title.first.wait_for(timeout=5_000)

    again = page.evaluate(ROOF)
    page.locator(".bqplot rect.bar").nth(4).click()  # by mouse, on the fifth bar
    page.wait_for_function(f"before => ({ROOF})() !== before", arg=again, timeout=10_000)
    assert page.failures == []


def test_tour_brushing_selects_a_window_in_time(page: Any, lab: Lab):
    open_and_run(page, lab, "00_tour.ipynb", views=4)
    strip = page.locator(".bqplot.figure").first
    strip.scroll_into_view_if_needed()
    whole = page.get_by_text("whole data:")
    whole.wait_for(timeout=10_000)
    box = strip.bounding_box()
    page.mouse.move(box["x"] + 0.3 * box["width"], box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + 60, steps=8)
    page.mouse.up()
    whole.wait_for(state="detached", timeout=10_000)
    assert page.get_by_text("seconds: ").first.is_visible()
    assert page.failures == []
