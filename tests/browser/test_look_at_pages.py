"""Look at every kind of page that perfkit writes, with the rules for notebooks: three widths, light and dark.

Screenshots are kept in the folder that $PERFKIT_SCREENSHOTS names, if it does.
"""

import json
import os
import runpy
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.backend_bases import FigureCanvasBase

import perfkit as pk
from perfkit.cli import notebook_runs, warm_kernels
from perfkit.cli.pages.answer import of_cpi, of_exploration, of_gus, of_spire, of_study, write_page
from perfkit.cli.pages.diagnosis import save_page
from perfkit.cli.pages.diff import save_counts_page, save_diff_page
from perfkit.cli.pages.levels import of_levels
from perfkit.cli.pages.page import bundle
from perfkit.cli.pages.reports import REPORTS
from perfkit.exploration.methods import Tried
from perfkit.plots.roofs_by_level import plot_levels, svg_with
from tests.browser.inked import watch
from tests.browser.lab import ROOT
from tests.browser.look import EYE, SMALLEST, WIDTHS
from tests.results import examples
from tests.warm import names_in

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
SCHEMES = ("light", "dark")
NOTEBOOKS = sorted(
    path.relative_to(ROOT / "notebooks").with_suffix("").as_posix() for path in (ROOT / "notebooks").rglob("*.ipynb")
)
# The paper of a page, as a share of white.
PAPER = """() => {
    const papers = [document.body, document.documentElement].map(one => getComputedStyle(one).backgroundColor);
    const paper = papers.find(one => !/, 0\\)$/.test(one)) ?? (matchMedia('(prefers-color-scheme: dark)').matches
        && getComputedStyle(document.documentElement).colorScheme.includes('dark') ? 'rgb(0,0,0)' : 'rgb(255,255,255)');
    return paper.match(/[\\d.]+/g).slice(0, 3).reduce((sum, part) => sum + Number(part), 0) / 765;
}"""
SHRUNK = "() => [...document.images].map(one => one.getBoundingClientRect().width / one.naturalWidth)"


def _spire(path: Path) -> Path:
    samples = {part: pk.datasets.load(f"spire/{part}") for part in ("train", "memory")}
    return write_page(of_spire(pk.Spire().fit(samples["train"]).rank(samples["memory"]), "train"), path)


def _cpi(path: Path) -> Path:
    fit = pk.CpiStack(resamples=50, placebos=5).fit(pk.datasets.load("cpi/planted"))
    return write_page(of_cpi(fit), path)


def _explored(runs: int) -> Callable[[Path], Path]:
    def write(path: Path) -> Path:
        rng, dump = np.random.default_rng(2), path.with_suffix(".csv")
        misses = rng.integers(1_000, 60_000, (runs, 60))
        rows = [
            {"run": f"run-{run}", "cycles": 500_000 + 20 * m, "instructions": 10**6, "mem_load_retired.l1_miss": m}
            for run, counts in enumerate(misses.tolist())
            for m in counts
        ]
        pd.DataFrame(rows).to_csv(dump, index=False)
        tried: list[Tried] = []
        return write_page(of_exploration(pk.explore(dump, tried_out=tried), tried), path)

    return write


def _gus(path: Path) -> Path:
    result = examples.gus_result()
    return write_page(of_gus(result, result.sensitivity((1.1, 1.5, 2.0))), path)


def _roofline(path: Path) -> Path:
    return write_page(REPORTS["roofline"].page("roofline", {"what": "gemm-avx2", "core": "zen4"}), path)


def _levels(path: Path) -> Path:
    roofline = examples.extended_roofline()
    picture = svg_with(plot_levels({"kernel": roofline}).figure, {})
    row = {"name": "kernel", "roofline": roofline, "verdict": roofline.verdict, "doubts": ["a doubt"], "unit": "flops"}
    row |= {"notes": ["a note"], "cycles": roofline.schedule.cycles, "performance": roofline.performance}
    return write_page(of_levels([row], picture), path)


PAGES: dict[str, Callable[[Path], Path]] = {
    "why": lambda path: save_page(examples.answer(), path),
    "diff": lambda path: save_diff_page(examples.gus_diff(), path),
    "counts": lambda path: save_counts_page(examples.counts_diff(), path),
    "compare": lambda path: examples.kernel_comparison().write(path),
    "levels": _levels,
    "explored": _explored(1),
    "several": _explored(3),
    "spire": _spire,
    "cpi": _cpi,
    "gus": _gus,
    "roofline": _roofline,
    "study": lambda path: write_page(of_study(examples.analysis()), path),
}


def _listen(page: Any, found: list[str]) -> None:
    own = ("file:", "data:", "blob:")
    page.on("pageerror", lambda error: found.append(f"script: {error}"))
    page.on("request", lambda r: None if r.url.startswith(own) else found.append(f"asks for {r.url}"))


def faults(browser: Any, path: Path, shown: str = "() => true", smallest: float = 99.0) -> list[str]:
    """Return what is wrong with a page in any width and colour scheme."""
    found, kept = [], os.environ.get("PERFKIT_SCREENSHOTS")
    for scheme in SCHEMES:
        page = browser.new_page(viewport={"width": WIDTHS[-1], "height": 1000}, color_scheme=scheme)
        _listen(page, found)
        page.goto(path.as_uri())
        page.wait_for_function(shown, timeout=60_000)
        for width in WIDTHS:
            look = f"{width} {scheme}"
            page.set_viewport_size({"width": width, "height": 1000})
            page.wait_for_timeout(300)
            high = min(page.evaluate("document.documentElement.scrollHeight"), 16_000)
            page.set_viewport_size({"width": width, "height": high})
            page.wait_for_timeout(500)
            standing = page.evaluate(EYE, "body")
            for _ in range(5 if standing else 0):
                page.wait_for_timeout(500)
                now = page.evaluate(EYE, "body")
                standing = [fault for fault in standing if fault in now]
            found += [f"{look}: {fault['fault']}: {fault['text']}" for fault in standing]
            if page.evaluate("document.documentElement.scrollWidth") > width:
                found.append(f"{look}: the page is wider than its window")
            if (page.evaluate(PAPER) > 0.5) != (scheme == "light"):
                found.append(f"{look}: paper of {page.evaluate(PAPER):.0%} white")
            if smallest * min(page.evaluate(SHRUNK), default=1.0) < SMALLEST:
                found.append(f"{look}: small text in a picture")
            if kept:
                Path(kept).mkdir(parents=True, exist_ok=True)
                page.screenshot(path=str(Path(kept) / f"page-{path.stem}-{width}-{scheme}.png"))
        page.close()
    return found


@pytest.mark.parametrize("kind", PAGES)
def test_every_page_can_be_read(browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str):
    monkeypatch.setattr(FigureCanvasBase, "print_figure", FigureCanvasBase.print_figure)  # as it is, afterwards
    watch(tmp_path)
    path = PAGES[kind](tmp_path / f"{kind}.html")
    told = tmp_path / "pictures.jsonl"  # of pixels; some pages draw with text alone
    drawn = [json.loads(line) for line in told.read_text().splitlines()] if told.exists() else []
    found = [f"picture: {fault}: {text}" for one in drawn for fault, text in one["faults"]]
    found += faults(browser, path, smallest=min((one["smallest"][0] for one in drawn), default=99.0))
    assert not found, "\n".join(dict.fromkeys(found))


@pytest.fixture(scope="module")
def gallery(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return what writes the gallery's page of a notebook."""
    script = runpy.run_path(str(ROOT / "scripts" / "gallery.py"))
    folder = tmp_path_factory.mktemp("gallery")
    (folder / "assets").mkdir()
    (folder / "assets" / "widgets.js").write_text(bundle(), encoding="utf-8")

    def write(name: str) -> Path:
        script["write_page"](ROOT / "notebooks" / f"{name}.ipynb", folder, 600)
        return folder / f"{name}.html"

    return write


@pytest.mark.parametrize("notebook", NOTEBOOKS)
def test_every_page_of_the_gallery_can_be_read(
    browser: Any, gallery: Any, monkeypatch: pytest.MonkeyPatch, notebook: str
):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(ROOT / "widgets")]))
    monkeypatch.setattr(warm_kernels, "names_in", names_in)
    monkeypatch.setattr(notebook_runs, "execute", partial(notebook_runs.execute, many=True))
    path = gallery(notebook)
    views = "application/vnd.jupyter.widget-view+json" in path.read_text(encoding="utf-8")
    found = faults(browser, path, "() => document.body.dataset.widgets === 'shown'" if views else "() => true")
    assert not found, "\n".join(dict.fromkeys(found))
