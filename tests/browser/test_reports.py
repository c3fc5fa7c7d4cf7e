"""Reports in Chromium: the verdict within the first screen, nothing fetched, names shown as text."""

import io
from typing import Any

import numpy as np
import pytest
from PIL import Image

import perfkit as pk
from perfkit.cli.pages.answer import of_cpi, of_exploration, write_page

pytestmark = pytest.mark.browser
HOSTILE = "<img src=x onerror=document.title='run'>"


@pytest.fixture
def written(tmp_path: Any) -> Any:
    rng = np.random.default_rng(3)
    misses = rng.integers(1_000, 60_000, 80)
    lines = ["cycles,instructions,mem_load_retired.l1_miss.by_a_very_long_event_name_indeed," + HOSTILE]
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


# Words, and parts of names of events, that stand in two lines.
BROKEN = """() => {
    const found = [], range = document.createRange();
    const texts = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT);
    for (let text; (text = texts.nextNode()); ) {
        if (text.parentElement.closest('pre')) continue;
        for (const word of text.data.matchAll(/[^\\s._:/,-]+/g)) {
            range.setStart(text, word.index);
            range.setEnd(text, word.index + word[0].length);
            if (new Set([...range.getClientRects()].map((r) => r.top)).size > 1) found.push(word[0]);
        }
    }
    return found;
}"""


@pytest.mark.parametrize("width", [390, 780, 1200])
def test_no_word_is_broken(page: Any, written: Any, width: int):
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(written.as_uri())
    assert page.locator("td", has_text="by_a_very_long").count() >= 1
    assert page.evaluate(BROKEN) == []


@pytest.mark.parametrize(("scheme", "light"), [("light", True), ("dark", False)])
def test_the_chart_has_the_papers_colour(page: Any, written: Any, scheme: str, light: bool):
    page.emulate_media(color_scheme=scheme)
    page.goto(written.as_uri())
    seen = Image.open(io.BytesIO(page.locator(".first img").screenshot())).convert("L")
    paper = np.asarray(seen)[6, 20:-20].mean()
    assert paper > 240 if light else paper < 50


@pytest.mark.parametrize("width", [390, 700, 1200])
def test_no_short_word_is_broken(page: Any, tmp_path: Any, width: int):
    dump = tmp_path / "two runs.csv"
    dump.write_text("run,cycles,instructions,branch-misses\na,1000,2000,10\nb,2000,3000,25\n")
    tried: list[Any] = []
    found = pk.explore(dump, tried_out=tried)
    written = write_page(of_exploration(found, tried), tmp_path / "look.html")
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(written.as_uri())
    broken = """() => [...document.querySelectorAll("td")].filter(td => {
      const lines = new Set(), walk = document.createTreeWalker(td, NodeFilter.SHOW_TEXT);
      while (walk.nextNode()) {
        const range = document.createRange(); range.selectNodeContents(walk.currentNode);
        for (const one of range.getClientRects()) lines.add(Math.round(one.top / 8));
      }
      return /^\\w{2,14}$/.test(td.textContent.trim()) && lines.size > 1;
    }).map(td => td.textContent)"""
    assert page.locator("td", has_text="unsupported").count() >= 1
    assert page.evaluate(broken) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
