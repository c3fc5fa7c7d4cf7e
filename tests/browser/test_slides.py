"""Slides of every unit in Chromium with the network off: they show, keys move, and nothing is cut off at 1280x720."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from perfkit.cli.main import app
from perfkit.course.units import UNITS
from tests.browser.lab import ROOT

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]
SMALLEST = 0.7  # of 26 px: the smallest text that a slide may shrink to


@pytest.mark.parametrize("unit", [unit.name for unit in UNITS])
def test_slides_need_no_network_and_nothing_is_cut_off(
    browser: Any, unit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{ROOT / 'widgets'}")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    path = tmp_path / "slides of a class.html"
    made = CliRunner().invoke(app, ["course", "slides", unit, "-o", str(path), "--json"])
    assert made.exit_code == 0, made.output
    text = path.read_text(encoding="utf-8")
    assert "SOLUTION" not in text
    assert "mine.check" not in text
    page = browser.new_page(viewport={"width": 1280, "height": 720})
    asked: list[str] = []
    failures: list[str] = []
    page.on("request", lambda r: asked.append(r.url) if not r.url.startswith(("file:", "data:")) else None)
    page.on("pageerror", lambda error: failures.append(str(error)))
    page.on("console", lambda m: failures.append(m.text) if m.type == "error" else None)
    page.context.set_offline(True)
    page.goto(path.as_uri())
    page.wait_for_selector("body.ready")
    title = next(u.title for u in UNITS if u.name == unit)
    assert title in page.locator(".slide.shown h1").inner_text()
    count = page.locator(".slide").count()
    assert count == json.loads(made.stdout)["slides"] >= 8
    answers = 0
    for number in range(1, count + 1):
        assert page.locator("#at").inner_text() == f"{number} / {count}"
        assert page.locator(".slide.shown").count() == 1
        _fits(page, number)
        folded = page.locator(".slide.shown details:not([open])").count()
        if folded:
            answers += folded
            page.keyboard.press("a")
            page.wait_for_function("!document.querySelector('.slide.shown details:not([open])')")
            page.evaluate("new Promise(requestAnimationFrame)")
            _fits(page, number)
        page.keyboard.press("ArrowRight")
    assert page.locator("#at").inner_text() == f"{count} / {count}"  # the last one stays
    assert answers >= 1
    page.keyboard.press("Home")
    assert page.locator("#at").inner_text() == f"1 / {count}"
    assert asked == []
    assert failures == []
    page.close()


def _fits(page: Any, number: int) -> None:
    """The slide shown is all on the screen, in text that can be read."""
    right, bottom, inside, scale = page.evaluate(
        """() => {
            const inner = document.querySelector('.slide.shown .fit'), box = inner.getBoundingClientRect();
            const parts = [...inner.querySelectorAll('*')].map((e) => e.getBoundingClientRect());
            const out = parts.filter((r) => r.width && (r.right > innerWidth + 1 || r.bottom > innerHeight + 1)).length;
            return [box.right, box.bottom, out, Number(inner.parentElement.dataset.scale)];
        }"""
    )
    assert (right <= 1281, bottom <= 721, inside) == (True, True, 0), (number, right, bottom, inside)
    assert scale >= SMALLEST, (number, scale)
