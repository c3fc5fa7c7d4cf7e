"""LiveCpiStack in Chromium: every refit is Python's, whatever window, events, form and method."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import perfkit as pk
import perfkit_widgets as pw
from perfkit.errors import DataError
from tests.browser.live import PHONE, opened, shown, take

pytestmark = [
    pytest.mark.browser,
    pytest.mark.filterwarnings("ignore:.*intervals are left out:perfkit.errors.PerfkitWarning"),
]
SHARED = Path(__file__).resolve().parents[3] / "shared" / "data" / "perf"
HOSTILE = "<img src=x onerror=\"document.title='taken'\">"


def refitted(fit: Any, state: dict[str, Any]) -> Any:
    """Python's fit of a view's state, without what is drawn at random."""
    rows = None
    if "window" in state:
        rows = np.zeros(len(fit.source), dtype=bool)
        rows[state["window"][0] : state["window"][1] + 1] = True
    changes: dict[str, Any] = {name: state[name] for name in ("form", "method") if name in state}
    changes["aggregate"] = int(state.get("sums", fit.settings.aggregate))
    events = [e for e in fit.source.events if e not in state.get("off", ())]
    return fit.refit(events=events, rows=rows, placebos=1, resamples=0, **changes)


def assert_same(found: Any, fit: Any) -> None:
    # Huber's method stops when a step changes less than 1e-6: where events are nearly alike it is no nearer to itself.
    # Where they are combinations of each other to rounding (Python says so), the last digits are anybody's.
    singular = [event for event, vif in fit.vif.items() if math.isinf(vif)]
    exact = 1e-6 if fit.settings.method == "huber" or singular else 1e-9

    def close(found: Any, expected: Any, what: str, scale: float = 0.0) -> None:
        values = [math.nan if v is None else float(v) for v in np.atleast_1d(np.array(found, dtype=object))]
        np.testing.assert_allclose(values, np.atleast_1d(expected), rtol=exact, atol=exact * scale, err_msg=what)

    assert found["events"] == list(fit.events)
    assert found["singular"] == singular
    close(found["cpi"], fit.cpi, "cpi")
    # A part is compared with the whole: of one that is all but zero, 1e-9 of itself means nothing.
    close(found["components"], fit.components, "components", fit.cpi)
    close(found["other"], fit.other, "other form", fit.cpi)
    close(np.array(found["penalties"]) * fit.data.rates, fit.penalties * fit.data.rates, "penalties", fit.cpi)
    close(found["r2"], fit.r2.in_sample, "R2", 1.0)
    # Predictions that may be off by 1e-9 of the mean move R2 = 1 - SSE/SST by this at most (Cauchy and Schwarz): much
    # where the target hardly varies, or where phases kept out are predicted badly (an R2 of -187 is met).
    cpi = fit.intervals()["cpi"]
    target = cpi if fit.settings.form == "cpi" else 1 / cpi
    follows = 2 * math.sqrt(1 - fit.r2.blocked) * target.mean() / target.std() if fit.r2.blocked <= 1 else 0.0
    close(found["r2_blocked"], fit.r2.blocked, "R2 of phases kept out", max(1.0, follows))
    close(found["predicted"], fit.intervals()["predicted"], "prediction", fit.cpi)


def states(fit: Any, rng: np.random.Generator, times: int) -> list[dict[str, Any]]:
    n, out = len(fit.source), []
    for _ in range(times):
        low, high = np.sort(rng.integers(n, size=2)).tolist()
        state: dict[str, Any] = {"window": [low, high], "form": str(rng.choice(["ipc", "cpi"]))}
        state["method"] = str(rng.choice(["nnls", "nnls", "ols", "huber"]))
        state["sums"] = str(rng.choice([1, 1, 5, 20]))
        state["off"] = [e for e in fit.source.events if rng.random() < 0.25]
        out.append(state)
    return out


def compared(page: Any, fit: Any, name: str, tried: list[dict[str, Any]]) -> int:
    """Compare the view's answers with Python's; return how many stacks there were."""
    stacks = 0
    for state in tried:
        found = take(page, {"stack": name, **state})
        try:
            expected = refitted(fit, state)
        except DataError:
            assert set(found) == {"why"}, state
            continue
        assert "why" not in found, (state, found)
        assert_same(found, expected)
        stacks += 1
    return stacks


@pytest.mark.parametrize("data", ["cpi/workloads", "cpi/planted", "cpi/artefact"])
def test_refits_are_pythons(browser: Any, tmp_path: Path, data: str):
    fits = pk.CpiStack(resamples=0).fit_each(pk.datasets.load(data))
    path = pw.LiveCpiStack(fits).save_page(tmp_path / "cpi.html")
    rng, stacks = np.random.default_rng(0), 0
    with opened(browser, path) as page:
        assert_same(shown(page), fits[next(iter(fits))])
        for name in list(fits)[:3]:
            stacks += compared(page, fits[name], name, states(fits[name], rng, 12))
    assert stacks > 8


def test_refits_of_awkward_counts_are_pythons(browser: Any, tmp_path: Path):
    """Two runs, an event that is zero in a part, a twin of another, one at a constant rate, two nearly alike."""
    rng = np.random.default_rng(1)
    rows = []
    for run in range(2):
        for i in range(150):
            instructions = rng.uniform(1e8, 3e8)
            a, b = rng.gamma(2.0, 1e5), rng.gamma(1.0, 3e4)
            late = rng.gamma(1.0, 2e4) * (i > 70)
            cycles = 0.4 * instructions + 20 * a + 90 * b + 40 * late + rng.normal(0, 2e6)
            counts = {
                "cycles": cycles,
                "instructions": instructions,
                "a": a,
                HOSTILE: b,
                "late": late,
                "twin-of-a": 3 * a,
            }
            counts |= {"constant": instructions / 1000, "mix": a + b * (1 + 0.01 * rng.normal()), "never": 0.0}
            rows += [(f"run-{run}", i, i + 1.0, 1.0, event, count, 1.0) for event, count in counts.items()]
    names = ["run", "interval", "at", "seconds", "event", "count", "running"]
    samples = pk.Samples.from_counts(pd.DataFrame(rows, columns=names), kind="generated")
    fit = pk.CpiStack(resamples=0).fit(samples)
    assert {"twin-of-a", "constant", "never"}.isdisjoint(fit.events)
    path = pw.LiveCpiStack(fit).save_page(tmp_path / "awkward.html")
    with opened(browser, path) as page:
        assert set(shown(page)["left_out"]) == {"twin-of-a", "constant", "never"}
        tried = [*states(fit, rng, 30), {"window": [0, 60]}, {"window": [0, 3]}, {"off": list(fit.source.events)}]
        assert compared(page, fit, fit.name, tried) > 15
        assert page.locator(".pkl img").count() == 0
        assert page.locator("label", has_text=HOSTILE).count() == 1


@pytest.mark.shared_data
def test_refits_of_a_real_dump_are_pythons(browser: Any, tmp_path: Path):
    dump = SHARED / "paper-531.deepsjeng_r.csv.xz"
    if not dump.is_file():
        pytest.skip("the real dumps (../shared/data/perf) are not here")
    fit = pk.CpiStack(resamples=0).fit(pk.open_samples(str(dump)))
    view = pw.LiveCpiStack(fit)
    assert len(view.model) < 500_000
    with opened(browser, view.save_page(tmp_path / "real.html")) as page:
        assert_same(shown(page), fit)
        assert compared(page, fit, fit.name, states(fit, np.random.default_rng(2), 25)) > 15


def test_it_is_operated_on_a_phone_and_remembers(browser: Any, tmp_path: Path):
    fits = pk.CpiStack(resamples=0).fit_each(pk.datasets.load("cpi/workloads"))
    path = pw.LiveCpiStack(fits).save_page(tmp_path / "cpi.html")
    with opened(browser, path, **PHONE) as page:
        assert page.evaluate("document.documentElement.scrollWidth") == 360
        page.locator(".pkl-list [role=option]").nth(2).tap()
        page.get_by_role("checkbox").nth(0).tap()
        page.get_by_role("radio", name="CPI form").tap()
        page.get_by_role("combobox").select_option("5")
        page.get_by_role("slider", name="end of the window").press("PageDown")
        state = page.evaluate("document.querySelector('.pkl').pkLive.state()")
        assert state == {"stack": "memory", "form": "cpi", "sums": "5", "off": ["branch-misses"], "window": [0, 539]}
        before = shown(page)
        page.wait_for_timeout(400)
        link = page.evaluate("location.hash")
        for bar in page.locator(".pkl-events label").all():
            assert bar.evaluate("el => el.scrollWidth <= el.clientWidth")
    with opened(browser, path, link) as page:
        assert shown(page) == before


def test_a_window_without_a_stack_says_why(browser: Any, tmp_path: Path):
    fits = pk.CpiStack(resamples=0).fit_each(pk.datasets.load("cpi/workloads"))
    with opened(browser, pw.LiveCpiStack(fits).save_page(tmp_path / "cpi.html")) as page:
        assert "2 intervals cannot tell 7 unknowns apart" in take(page, {"window": [5, 6]})["why"]
        assert "No stack of compute here" in page.locator(".pkl-words").text_content()
