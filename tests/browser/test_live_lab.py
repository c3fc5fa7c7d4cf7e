"""A live view in JupyterLab and in a page of the gallery: the same numbers as on a page of its own."""

from pathlib import Path
from typing import Any

import pytest

import perfkit as pk
from perfkit.cli.pages import single_page
from tests.browser.lab import Lab, open_and_run

pytestmark = pytest.mark.browser
CELLS = (
    "import perfkit as pk, perfkit_widgets as pw",
    "model = pk.Spire().fit(pk.datasets.load('spire/train'))",
    "view = pw.LiveSpire(model, pk.datasets.load('spire/memory'))",
    "view",
    "view.state = {'window': [10, 30]}",
)


def expected() -> float:
    from perfkit.plots.time_axis import TimeAxis

    samples = pk.datasets.load("spire/memory")
    axis = TimeAxis.of(samples)
    part = axis.select(axis.position[9], axis.position[30])
    model = pk.Spire().fit(pk.datasets.load("spire/train"))
    return float(model.rank(part, bootstrap=0).throughput_bound)


LOWEST = "document.querySelector('.pkl').pkLive.result().events[0].throughput_bound"


def test_in_jupyterlab_state_goes_both_ways(page: Any, lab: Lab):
    import nbformat

    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in CELLS])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(notebook, lab.notebooks / "live.ipynb")
    open_and_run(page, lab, "live.ipynb", views=0)
    page.wait_for_selector(".pkl", timeout=60_000)
    page.wait_for_function(f"v => Math.abs({LOWEST} - v) < 1e-9", arg=expected(), timeout=30_000)
    # Arrow keys are the view's, not the notebook's.
    handle = page.get_by_role("slider", name="start of the window")
    handle.press("ArrowRight")
    assert page.evaluate("document.querySelector('.pkl').pkLive.state().window") == [11, 30]
    page.wait_for_timeout(500)
    assert "live.spire-" in page.evaluate("location.hash")
    assert page.failures == []


def test_a_gallery_page_computes_without_a_kernel(page: Any, tmp_path: Path):
    import nbformat
    from ipywidgets import Widget
    from ipywidgets.embed import embed_data

    import perfkit_widgets as pw

    model = pk.Spire().fit(pk.datasets.load("spire/train"))
    view = pw.LiveSpire(model, pk.datasets.load("spire/memory"))
    data = embed_data([view], drop_defaults=False, state=Widget.get_manager_state(drop_defaults=False)["state"])
    bundle = view._repr_mimebundle_()
    output = nbformat.v4.new_output("display_data", bundle[0] if isinstance(bundle, tuple) else bundle)
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("view", outputs=[output])])
    notebook.metadata["widgets"] = {"application/vnd.jupyter.widget-state+json": data["manager_state"]}
    path = tmp_path / "page.html"
    path.write_text(single_page(notebook, "live"), encoding="utf-8")
    page.context.set_offline(True)
    page.goto(path.as_uri())
    page.wait_for_selector(".pkl .pkl-handle", timeout=30_000)
    page.evaluate("document.querySelector('.pkl').pkLive.take({window: [10, 30]})")
    assert page.evaluate(LOWEST) == pytest.approx(expected(), rel=1e-9)
    radio = page.get_by_role("radio", name="linear")
    radio.click()  # not greyed as controls that need a kernel are
    assert radio.get_attribute("aria-checked") == "true"
    assert page.failures == []


def test_in_voila_it_is_the_same(page: Any, tmp_path: Path):
    """Voila renders the widgets that a kernel made; the view computes on its own all the same."""
    import os
    import socket
    import subprocess
    import sys

    import nbformat

    root = Path(__file__).resolve().parents[2]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in CELLS])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(notebook, tmp_path / "live.ipynb")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    env = {**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{root / 'widgets'}"}
    command = [sys.executable, "-m", "voila", "live.ipynb", "--no-browser", f"--port={port}", "--Voila.ip=127.0.0.1"]
    log = (tmp_path / "log").open("w")
    server = subprocess.Popen(command, cwd=tmp_path, env=env, stdout=log, stderr=subprocess.STDOUT)
    try:
        # Voila's page asks a CDN for icons; without a network that would wait for minutes.
        page.route("**/*", lambda r: r.continue_() if "127.0.0.1" in r.request.url else r.abort())
        for _ in range(120):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            page.wait_for_timeout(500)
        page.goto(f"http://127.0.0.1:{port}/", timeout=120_000, wait_until="domcontentloaded")
        page.wait_for_selector(".pkl .pkl-handle", timeout=90_000)
        page.wait_for_function(f"v => Math.abs({LOWEST} - v) < 1e-9", arg=expected(), timeout=30_000)
    finally:
        server.terminate()
        server.wait(20)
        log.close()
