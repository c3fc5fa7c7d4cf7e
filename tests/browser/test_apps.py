"""Every notebook as an app in Chromium: no code, no error, its pictures there, and nothing asked of another machine."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted(path.name for path in (ROOT / "notebooks").glob("*.ipynb"))
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
    shown = watched.eval_on_selector_all("li a", "links => links.map(link => link.pathname.split('/').pop())")
    assert shown == NOTEBOOKS
    assert watched.foreign == []


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_is_an_app(served: str, watched: Any, name: str):
    address, _, token = served.partition("?")
    watched.goto(f"{address}voila/render/{name}?{token}")
    picture = ".jp-OutputArea-output img, .jp-OutputArea-output .bqplot, .jp-OutputArea-output canvas"
    watched.wait_for_selector(picture, state="visible", timeout=200_000)
    watched.wait_for_function("document.querySelectorAll('.voila-skeleton-container').length == 0", timeout=300_000)
    assert watched.locator(".jp-CodeCell .jp-InputArea:visible").count() == 0
    errors = watched.locator("[data-mime-type='application/vnd.jupyter.error'], .jp-RenderedText .ansi-red-fg")
    assert errors.all_inner_texts() == []
    assert watched.foreign == []
    assert watched.failures == []
