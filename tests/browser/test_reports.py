"""Reports in Chromium: the verdict within the first screen, nothing fetched, names shown as text."""

from typing import Any

import numpy as np
import pytest

import perfkit as pk
from perfkit.cli.pages.answer import of_cpi, write_page

pytestmark = pytest.mark.browser
HOSTILE = "<img src=x onerror=document.title='run'>"


@pytest.fixture
def written(tmp_path: Any) -> Any:
    rng = np.random.default_rng(3)
    misses = rng.integers(1_000, 60_000, 80)
    lines = ["cycles,instructions,L1-dcache-load-misses," + HOSTILE]
    lines += [f"{500_000 + 20 * m},1000000,{m},{rng.integers(1, 99)}" for m in misses]
    dump = tmp_path / "own.csv"
    dump.write_text("\n".join(lines) + "\n")
    return write_page(of_cpi(pk.CpiStack(resamples=20, placebos=5).fit(pk.read_samples(dump))), tmp_path / "out.html")


@pytest.mark.parametrize("width", [390, 1200])
def test_the_verdict_is_on_the_first_screen(page: Any, written: Any, width: int):
    asked: list[str] = []
    page.on("request", lambda r: asked.append(r.url) if not r.url.startswith(("file:", "data:")) else None)
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(written.as_uri())
    assert page.locator("h1").bounding_box()["y"] + page.locator("h1").bounding_box()["height"] < 800
    assert page.locator(".first img").bounding_box()["y"] < 800
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert asked == []
    assert page.failures == []


def test_a_hostile_name_is_text(page: Any, written: Any):
    page.goto(written.as_uri())
    assert page.title() != "run"
    assert page.locator("table img").count() == 0
    assert page.locator("td", has_text="<img src=x").count() >= 1
