"""`./kit lab` as a student starts it, in Chromium: nothing that git tracks is modified, and nothing covers the page."""

import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.lab import IDLE, ROOT

pytestmark = pytest.mark.browser
TOKEN = "perfkit-test"
SAVED = "() => window.jupyterapp.shell.currentWidget.context.save().then(() => true)"


def tracked() -> str:
    """What git says of the files that it tracks."""
    words = ["git", "-C", str(ROOT), "status", "--porcelain", "--untracked-files=no"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def started(tmp_path: Path) -> Iterator[str]:
    """The address of JupyterLab as ./kit lab starts it, with settings of its own but for those of the environment."""
    if not (ROOT / ".venv" / ".kit-dev").exists():
        pytest.skip("./kit has not set up .venv here (./kit setup dev), and would install packages first")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    private = {
        name: str(tmp_path / name.lower())
        for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "JUPYTERLAB_SETTINGS_DIR",
                     "JUPYTERLAB_WORKSPACES_DIR", "IPYTHONDIR")
    }  # fmt: skip
    options = [
        "--no-browser",
        "--ip=127.0.0.1",  # a person may say what ./kit says itself
        f"--port={port}",
        f"--IdentityProvider.token={TOKEN}",
        "--LabApp.expose_app_in_browser=1",
    ]
    log = tmp_path / "log"
    with log.open("w") as stream:
        server = subprocess.Popen(
            ["./kit", "lab", *options], cwd=ROOT, env={**os.environ, **private},
            stdout=stream, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    address = f"http://127.0.0.1:{port}"
    for _ in range(600):
        try:
            urllib.request.urlopen(f"{address}/api/status?token={TOKEN}", timeout=5).close()
        except (urllib.error.URLError, ConnectionError):
            assert server.poll() is None, log.read_text()[-2000:]
            time.sleep(0.1)
        else:
            break
    yield address
    os.killpg(server.pid, signal.SIGTERM)
    server.wait(30)


@pytest.fixture
def own_dump() -> Iterator[str]:
    """A dump that a person put beside the copies of the notebooks."""
    path = ROOT / "workspace" / "a-dump-of-my-own.csv"
    path.parent.mkdir(exist_ok=True)
    path.write_text("time,cycles\n1.0,100\n", encoding="utf-8")
    yield path.name
    path.unlink()


def test_a_notebook_is_run_and_saved_and_git_sees_no_change(page: Any, started: str, own_dump: str):
    before = tracked()
    page.set_viewport_size({"width": 1200, "height": 800})
    page.goto(f"{started}/lab/tree/workspace/00_tour.ipynb?reset&token={TOKEN}", timeout=60_000)
    page.wait_for_selector(IDLE, timeout=60_000)
    page.locator(".jp-Notebook h1", has_text="A tour of perfkit").wait_for(timeout=20_000)
    page.wait_for_timeout(3000)  # questions about news come a little later
    assert page.locator(".jp-toast, .Toastify__toast, .jp-Dialog").count() == 0
    beyond = "() => [...document.querySelectorAll('.jp-Cell .cm-scroller')].filter(c => c.scrollWidth > c.clientWidth)"
    page.set_viewport_size({"width": 900, "height": 800})
    page.wait_for_timeout(500)
    assert page.evaluate(f"({beyond})().length") == 0  # long lines of code are wrapped
    page.set_viewport_size({"width": 1200, "height": 800})

    page.evaluate("() => { window.jupyterapp.commands.execute('notebook:run-all-cells'); }")
    strip = page.locator(".bqplot.figure").first
    strip.wait_for(timeout=120_000)
    page.wait_for_selector(IDLE, timeout=60_000)
    page.evaluate("() => { document.querySelector('.jp-WindowedPanel-outer').scrollTop = 0; }")
    page.wait_for_timeout(500)
    box = strip.bounding_box()
    assert box["y"] + box["height"] < 800  # the first picture is above the fold
    assert page.evaluate(SAVED)
    assert tracked() == before

    shown = page.locator(".jp-DirListing-itemText")
    shown.filter(has_text=own_dump).wait_for(timeout=20_000)  # the browser follows the notebook into workspace/
    listed = shown.all_inner_texts()
    if "data" not in listed:  # one step up is everything
        page.locator(".jp-BreadCrumbs-home").click()
        page.locator(".jp-DirListing-itemText", has_text="docs").first.wait_for(timeout=10_000)
        listed = page.locator(".jp-DirListing-itemText").all_inner_texts()
    assert {"data", "docs", "notebooks", "workspace"} <= {name.strip() for name in listed}
    assert page.failures == []
