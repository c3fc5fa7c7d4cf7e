"""Live views in a page from disk, with the network off, for the end-to-end tests."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.browser.lab import launched

PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}
DESKTOP = {"viewport": {"width": 1200, "height": 1000}}


@contextmanager
def opened(browser: Any, path: Path, fragment: str = "", **device: Any) -> Iterator[Any]:
    """Open a saved page; on leaving, nothing was asked of a network and no script failed."""
    context = browser.new_context(**(device or DESKTOP), offline=True)
    page = context.new_page()
    asked: list[str] = []
    failed: list[str] = []
    page.on("request", lambda r: asked.append(r.url) if not r.url.startswith(("file:", "data:", "blob:")) else None)
    page.on("pageerror", lambda error: failed.append(str(error)))
    page.on("console", lambda told: failed.append(told.text) if told.type == "error" else None)
    try:
        page.goto(path.as_uri() + fragment)
        page.wait_for_function("() => [...document.querySelectorAll('[data-model]')].every((el) => el.pkLive)")
        yield page
        assert asked == []
        assert failed == []
    finally:
        context.close()


def shown(page: Any, which: int = 0) -> Any:
    """Return the numbers that a live view shows."""
    return page.evaluate("i => document.querySelectorAll('.pkl')[i].pkLive.result()", which)


def take(page: Any, state: dict[str, Any], which: int = 0) -> Any:
    """Give a live view a state, as a link does, and return the numbers that it shows then."""
    told = page.evaluate("([i, s]) => document.querySelectorAll('.pkl')[i].pkLive.take(s)", [which, state])
    assert told == []
    return shown(page, which)


@contextmanager
def own_browser() -> Iterator[Any]:
    """Give a browser of its own (benchmarks)."""
    with launched() as browser:
        yield browser
