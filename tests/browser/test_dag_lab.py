"""End to end: the extended roofline's notebook in a real JupyterLab and Chromium."""

from typing import Any

import pytest

from tests.browser.lab import Lab, open_and_run

pytestmark = pytest.mark.browser


def test_a_slider_schedules_the_dag_anew(page: Any, lab: Lab):
    open_and_run(page, lab, "40_extended_roofline.ipynb", views=2, timeout=180_000)
    view = page.locator(".pk-view", has=page.get_by_text("Extended roofline: mmm_triple(28)")).first
    view.scroll_into_view_if_needed()
    note = view.locator(".pk-muted").first
    before = note.inner_text()
    assert "flops/cycle" in before
    roofs = "() => [...document.querySelectorAll('.pk-view path.line')].map(p => p.getAttribute('d')).join('|')"
    drawn = page.evaluate(roofs)
    view.locator(".noUi-handle").nth(2).focus()  # latency_A, by keyboard
    page.keyboard.press("ArrowRight")
    page.wait_for_function(f"drawn => ({roofs})() !== drawn", arg=drawn, timeout=10_000)
    note.get_by_text(before, exact=True).wait_for(state="detached", timeout=10_000)
    button = view.get_by_role("button", name="latency", exact=True)
    button.click()
    assert page.failures == []
