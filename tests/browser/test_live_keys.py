"""Arrow keys on the sliders of live views in a real JupyterLab, which has shortcuts of its own for them."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.lab import Lab
from tests.browser.operate import Opened

pytestmark = pytest.mark.browser

CELLS = [
    """
import perfkit as pk, perfkit_widgets as pw
from perfkit.collectors.dag.paper_kernels import kernel
prepared = pk.prepare(pk.Gus(pk.Microarchitecture.load("skylake_x")), pk.open_traces("fig1a")["fig1a"])
pw.LiveWhatIf(prepared.what_if, {"instruction_latency": "1"}, (0.5, 1, 2), title="fig1a")
""",
    """
dag = kernel("mmm_triple").trace(6).dag()
scheduler = pk.DagScheduler(pk.DagCore.sandy_bridge_erm(), record=False)
pw.LiveRoofs(scheduler.run(dag).roofline(), pk.rescheduler(dag, scheduler), {"latency_A": [1, 3, 6]})
""",
]
SLIDERS = {0: "instruction_latency", 1: "latency_A"}
PICTURE = "view => view.querySelector('.pkl-chart svg').innerHTML + view.querySelector('.pkl-words').textContent"


@pytest.fixture(scope="module")
def opened(browser: Any, lab: Lab) -> Iterator[Opened]:
    here = Opened(browser, lab, "live_keys", CELLS, (1200, 2400), views=0)
    here.page.locator(".pkl-sliders").nth(1).wait_for(timeout=60_000)
    yield here
    assert here.failures == []
    here.page.close()


@pytest.mark.parametrize("cell", SLIDERS)
@pytest.mark.parametrize("mode", ["command", "edit"])
@pytest.mark.parametrize("pointed", [True, False], ids=["mouse", "focus"])
def test_an_arrow_key_moves_the_slider_and_its_picture(opened: Opened, cell: int, mode: str, pointed: bool):
    page, view = opened.page, opened.page.locator(".pkl").nth(cell)
    slider = view.get_by_role("slider", name=SLIDERS[cell])
    page.locator(".jp-CodeCell").nth(cell).locator(".cm-content").click()
    if mode == "command":
        page.keyboard.press("Escape")
    page.locator(f".jp-Notebook.jp-mod-{mode}Mode").wait_for()
    active = page.locator(".jp-Cell.jp-mod-active").count()
    if pointed:
        slider.click()  # in its middle
    else:
        slider.focus()
    for key, by in (("ArrowRight", 1), ("ArrowLeft", -1), ("ArrowUp", 1), ("ArrowDown", -1)):
        value, picture = int(slider.input_value()), view.evaluate(PICTURE)
        page.keyboard.press(key)
        assert int(slider.input_value()) == value + by, key
        assert view.evaluate(PICTURE) != picture
    assert slider.evaluate("one => one === document.activeElement")
    assert page.locator(".jp-Cell.jp-mod-active").count() == active
