"""Events, runs, functions, files, source lines, features and values that are HTML are text in every view."""

from typing import Any

import pytest

from tests.browser.lab import Lab
from tests.browser.operate import Opened

pytestmark = pytest.mark.browser

BAD = "<img src=x onerror=\"document.title='taken'\">"
CELLS = [
    f"""
%matplotlib inline
import numpy as np, pandas as pd, perfkit as pk, perfkit_widgets as pw
BAD = {BAD!r}
rng = np.random.default_rng(1)
misses, others = rng.integers(1000, 60000, 120), rng.integers(1, 99, 120)
pd.DataFrame({{"run": [BAD] * 60 + ["b"] * 60, "cycles": 500_000 + 20 * misses + 30 * others, "instructions": 1_000_000,
              "misses" + BAD: misses, "<b>others</b>": others, "$x_1$": rng.integers(1, 99, 120)}}
             ).to_csv("bad.csv", index=False)
samples = pk.read_samples("bad.csv")
run = pk.Gus(pk.Microarchitecture.load("skylake_x")).run(pk.open_traces("fig1a")["fig1a"])
shares = run.causality().shares
frame = run.to_frame().assign(function=BAD, file=BAD + ".c", source_line="a = b; // " + BAD, text=BAD)
runs = pk.datasets.load("studies/fma").to_frame()
runs = runs[runs["status"] == "ok"].rename(columns={{"TYPE": "TYPE" + BAD}})
runs["TYPE" + BAD] = runs["TYPE" + BAD].astype(str) + BAD
features = ["INSTRUCTIONS", "WIDTH", "TYPE" + BAD]
""",
    "pw.SamplesExplorer(samples)",
    "pw.SpireExplorer(pk.Spire().fit(samples), samples, samples)",
    "pw.CpiStackExplorer(pk.CpiStack(resamples=10, placebos=3).fit_each(samples))",
    "pw.YourDump(pk.explore, pk.explore(samples))",
    "pw.ListingView(frame, shares, title=BAD)",
    "pw.SourceView(frame, shares, title=BAD)",
    """
prepared = pk.prepare(pk.Gus(pk.Microarchitecture.load("skylake_x")), pk.open_traces("fig1a")["fig1a"])
pw.SensitivityView(prepared.ranker(), title=BAD)
""",
    """
bins = pk.FixedBins("FMAS_PER_CYCLE", (0.9, 1.8))
pw.StudyExplorer(runs, features, categorise=bins.fit, grow=pk.DecisionTree(features, max_depth=3).fit,
                 rank=pk.RandomForest(features, trees=5).fit)
""",
    "pw.TreeView(pk.DecisionTree(features, max_depth=3).fit(runs, bins.fit(runs)), runs)",
    "from IPython.display import HTML; HTML(''.join(x._repr_html_() for x in (samples, pk.explore(samples), run)))",
]


def test_a_name_that_is_html_is_text_in_every_view(browser: Any, lab: Lab):
    opened = Opened(browser, lab, "names", CELLS, (1400, 2600), views=8)
    page = opened.page
    errors = page.locator("[data-mime-type='application/vnd.jupyter.error']")
    assert errors.count() == 0, errors.first.text_content()
    page.wait_for_timeout(1000)
    assert page.title() != "taken"
    assert page.locator("img[onerror]").count() == 0
    assert page.locator(".jp-OutputArea-output b").get_by_text("others", exact=True).count() == 0
    for cell, code in enumerate(CELLS[1:], 1):
        shown = "".join(page.locator(".jp-CodeCell").nth(cell).locator(".jp-OutputArea-output").all_text_contents())
        # The tree is drawn on a canvas.
        assert "onerror" in shown or ("TreeView" in code and shown), f"the name is nowhere in what this shows: {code}"
    assert opened.failures == []
    page.close()
