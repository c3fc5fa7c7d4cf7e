"""Every notebook as an app in Chromium: no code, no error, its pictures there, and nothing asked of another machine."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.notebooks.uploads import dump_of

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted(path.name for path in (ROOT / "notebooks").glob("*.ipynb"))
UNITS = sorted(f"course/{path.name}" for path in (ROOT / "notebooks" / "course").glob("*.ipynb"))
PHONE = {"width": 400, "height": 800}
# What a reader would have to push sideways to see, but for tables and trees, which scroll in their own box.
WIDE = """() => [...document.querySelectorAll('.jp-OutputArea-output')].map(box => box.getBoundingClientRect().right)
    .concat(document.documentElement.scrollWidth, document.body.scrollWidth).filter(right => right > innerWidth + 1)"""
HERE = ("http://127.0.0.1", "ws://127.0.0.1", "data:", "blob:")
pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the list of apps, served from a folder that holds nothing of perfkit."""
    with subprocess.Popen(
        [Path(sys.executable).with_name("perfkit"), "app", "--no-browser", "--json"],
        stdout=subprocess.PIPE, text=True, cwd=tmp_path_factory.mktemp("elsewhere"),
    ) as server:  # fmt: skip
        text = ""
        while not text.endswith("}\n"):
            line = server.stdout.readline()
            assert line, "perfkit app ended"
            text += line
        yield json.loads(text)["address"]
        server.terminate()


@pytest.fixture
def watched(page: Any) -> Any:
    """A page that notes what it asks of other machines."""
    page.foreign = []
    page.on("request", lambda request: None if request.url.startswith(HERE) else page.foreign.append(request.url))
    return page


def test_the_list_holds_every_notebook(served: str, watched: Any):
    watched.goto(served)
    paths = "links => links.map(link => link.pathname.split('/render/').pop())"
    assert watched.eval_on_selector_all("li a[href*=render]", paths) == NOTEBOOKS
    watched.get_by_role("link", name="course/").click()
    assert watched.eval_on_selector_all("li a[href*=render]", paths) == UNITS
    assert watched.foreign == []


@pytest.mark.parametrize(("name", "theme"), [("00_tour.ipynb", "light"), *((n, "dark") for n in [*NOTEBOOKS, *UNITS])])
def test_a_notebook_is_an_app(served: str, watched: Any, name: str, theme: str):
    """On a phone, and then on a desktop."""
    address, _, token = served.partition("?")
    watched.set_viewport_size(PHONE)
    watched.goto(f"{address}voila/render/{name}?{token}&theme={theme}")
    picture = ".jp-OutputArea-output img, .jp-OutputArea-output .bqplot, .jp-OutputArea-output canvas"
    watched.wait_for_selector(picture, state="visible", timeout=200_000)
    watched.wait_for_function("document.querySelectorAll('.voila-skeleton-container').length == 0", timeout=300_000)
    assert watched.locator(".jp-CodeCell .jp-InputArea:visible").count() == 0
    errors = watched.locator("[data-mime-type='application/vnd.jupyter.error'], .jp-RenderedText .ansi-red-fg")
    assert errors.all_inner_texts() == []
    assert watched.evaluate("document.body.dataset.jpThemeLight") == str(theme == "light").lower()
    if theme == "dark":  # pictures lie on cards
        edges = "all => all.map(img => [getComputedStyle(img).padding, getComputedStyle(img).borderRadius])"
        seen = watched.locator(".jp-RenderedImage img").evaluate_all(edges)
        assert all(edge == ["8px", "8px"] for edge in seen), seen
    for size in (PHONE, {"width": 1500, "height": 2400}):
        watched.set_viewport_size(size)
        watched.wait_for_timeout(500)
        assert watched.evaluate(WIDE) == []
    if name in UNITS:
        assert "points. Right" not in watched.locator("body").inner_text()  # no solution is shown
    assert watched.foreign == []
    assert watched.failures == []


@pytest.mark.parametrize("alone", [True, False])
def test_an_app_tells_of_an_upload_everywhere(served: str, watched: Any, tmp_path: Path, alone: bool):
    """Nobody can run the cells below it again, and one of them had ended in an error where nothing else was counted."""
    address, _, token = served.partition("?")
    watched.set_viewport_size({"width": 1200, "height": 2400})
    watched.goto(f"{address}voila/render/01_your_dump.ipynb?{token}")
    watched.wait_for_function("document.querySelectorAll('.voila-skeleton-container').length == 0", timeout=300_000)
    watched.get_by_text("run: memory").wait_for(timeout=60_000)
    lines = [line for line in dump_of(2.0).splitlines() if not (alone and "branch-misses" in line)]
    dump = tmp_path / "mine.csv"
    dump.write_text("\n".join(lines) + "\n")
    with watched.expect_file_chooser() as chooser:
        watched.get_by_role("button", name="Your dumps").click()
    chooser.value.set_files(dump)
    watched.get_by_text("run: mine").wait_for(timeout=60_000)
    assert watched.get_by_text("run: memory").count() == 0
    assert watched.get_by_text("Only time and work were counted").count() == int(alone)
    assert watched.get_by_text("GENERATED").count() == 0
    assert watched.get_by_text("generated counts are of no core").count() == 0
    errors = watched.locator("[data-mime-type='application/vnd.jupyter.error'], .jp-RenderedText .ansi-red-fg")
    assert errors.all_inner_texts() == []
    assert watched.failures == []


def kernels() -> int:
    """The kernels of apps that this program's servers have started."""
    found = 0
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            found += any("voila_" in part for part in process.cmdline())
    return found


def test_a_closed_page_leaves_no_kernel_behind(served: str):
    end = time.monotonic() + 150
    while kernels() and time.monotonic() < end:
        time.sleep(1)
    assert kernels() == 0
