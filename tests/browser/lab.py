"""A JupyterLab server of its own, and the steps of a person in front of it, for the end-to-end tests."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[2]
IDLE = ".jp-Notebook-ExecutionIndicator[data-status='idle']"
_TOKEN = "perfkit-test"


class Lab:
    """JupyterLab on a free port of this machine, with settings and notebooks in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.notebooks = folder / "notebooks"
        shutil.copytree(ROOT / "notebooks", self.notebooks)
        private = {
            name: str(folder / name.lower())
            for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")
        }
        # All cells are in the page, also those that are not on the screen.
        tracker = folder / "settings" / "@jupyterlab" / "notebook-extension"
        tracker.mkdir(parents=True)
        (tracker / "tracker.jupyterlab-settings").write_text('{"windowingMode": "none"}')
        # The kernels look at the pictures that they draw, and say here what is wrong with them.
        start = folder / "ipythondir" / "profile_default" / "startup"
        start.mkdir(parents=True)
        (start / "00-look.py").write_text(
            f"from pathlib import Path\nfrom tests.browser.inked import watch\nwatch(Path({str(folder)!r}))\n"
        )
        # No question about news over the page, and the rest of what `./kit lab` sets.
        shutil.copytree(ROOT / "scripts" / "jupyter" / "labconfig", folder / "jupyter_config_dir" / "labconfig")
        private["JUPYTERLAB_SETTINGS_DIR"] = str(folder / "settings")
        private["JUPYTERLAB_WORKSPACES_DIR"] = str(folder / "workspaces")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.log = folder / "lab.log"
        path = os.pathsep.join([str(ROOT), str(ROOT / "widgets")])
        with self.log.open("w") as log:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    *("-m", "jupyterlab", "--allow-root", "--no-browser", "--ip=127.0.0.1", f"--port={self.port}"),
                    *(f"--IdentityProvider.token={_TOKEN}", f"--ServerApp.root_dir={self.notebooks}"),
                    *("--ServerApp.port_retries=0", "--LabApp.news_url=None"),
                    "--LabApp.expose_app_in_browser=True",
                ],
                env={**os.environ, **private, "PYTHONPATH": path},
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self._wait()

    def address(self, notebook: str) -> str:
        """The address of a notebook in a fresh workspace."""
        return f"http://127.0.0.1:{self.port}/lab/tree/{notebook}?reset&token={_TOKEN}"

    def pictures(self) -> list[dict[str, Any]]:
        """Return what the kernels saw of the pictures they drew since this was last asked (`inked.watch`)."""
        told = self.folder / "pictures.jsonl"
        lines = told.read_text().splitlines() if told.exists() else []
        told.unlink(missing_ok=True)
        return [json.loads(line) for line in lines]

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _wait(self) -> None:
        for _ in range(600):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/status?token={_TOKEN}", timeout=5).close()
            except (urllib.error.URLError, ConnectionError):
                if self._process.poll() is not None:
                    break
                time.sleep(0.1)
            else:
                return
        self.stop()
        raise RuntimeError(f"JupyterLab did not start:\n{self.log.read_text()[-3000:]}")


def chromium() -> str | None:
    """The browser: $CHROMIUM, or Debian's package."""
    named = os.environ.get("CHROMIUM")
    return named or shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def open_and_run(page: Any, lab: Lab, notebook: str, views: int = 1, timeout: float = 180_000) -> None:
    """Open a notebook, run all cells, and wait for that many bqplot figures and an idle kernel.

    JupyterLab sometimes ignores Run All while it is still settling; then the page is opened anew, once.
    """
    from playwright.sync_api import TimeoutError as PlaywrightTimeoutError

    for attempt in (1, 2):
        try:
            page.goto(lab.address(notebook), timeout=60_000)
            page.wait_for_selector(IDLE, timeout=60_000)
            page.keyboard.press("Escape")
            page.get_by_role("menuitem", name="Run", exact=True).click(timeout=60_000)
            page.get_by_text("Run All Cells", exact=True).click()
            page.wait_for_selector(".jp-InputPrompt:has-text('[*]'), .jp-OutputArea-output", timeout=20_000)
            break
        except PlaywrightTimeoutError:
            if attempt == 2:
                raise
    page.wait_for_function("n => document.querySelectorAll('svg.svg-figure').length >= n", arg=views, timeout=timeout)
    page.wait_for_selector(IDLE, timeout=timeout)


def at_rest(page: Any) -> None:
    """Wait until the kernel has had nothing to do for a second: what an act began is worked out then."""
    rested = 0
    while rested < 4:
        page.wait_for_timeout(250)
        rested = rested + 1 if page.locator(IDLE).count() else 0


@contextmanager
def launched() -> Iterator[Any]:
    """Give a Chromium, or skip the test where there is none."""
    path = chromium()
    if path is None:
        pytest.skip("no Chromium found: install Debian's package chromium, or name a browser with CHROMIUM=/path")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # The sandbox needs privileges that containers do not give; the pages are this project's own.
        # A headless Chromium hides scrollbars; an ordinary one shows them, and they take room.
        browser = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox"], ignore_default_args=["--hide-scrollbars"]
        )
        yield browser
        browser.close()


@contextmanager
def running(folder: Path, cells: Sequence[str], height: int, views: int = 1) -> Iterator[Any]:
    """Give the page of a notebook of these cells, run, in a JupyterLab and a browser of its own."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in cells])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    with launched() as browser:
        lab = Lab(folder)
        try:
            nbformat.write(notebook, lab.notebooks / "cells.ipynb")
            page = browser.new_page(viewport={"width": 1500, "height": height})
            open_and_run(page, lab, "cells.ipynb", views=views)
            yield page
        finally:
            lab.stop()
