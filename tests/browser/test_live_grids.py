"""LiveWhatIf and LiveRoofs in Chromium: at every place of the sliders they show what Python worked out."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import perfkit as pk
import perfkit_widgets as pw
from perfkit.collectors.dag.paper_kernels import kernel
from tests.browser.live import PHONE, opened, shown, take

pytestmark = pytest.mark.browser
FACTORS = (0.5, 1.0, 2.0)


@pytest.fixture(scope="module")
def prepared() -> Any:
    return pk.prepare(pk.Gus(pk.Microarchitecture.load("skylake_x")), pk.open_traces("fig1a")["fig1a"])


@pytest.fixture(scope="module")
def what_if(prepared: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    view = pw.LiveWhatIf(prepared.what_if, {"instruction_latency": "1", "rob": "224 entries"}, FACTORS, title="fig1a")
    return view.save_page(tmp_path_factory.mktemp("live") / "what-if.html")


def test_what_if_is_pythons_at_every_place(browser: Any, prepared: Any, what_if: Path):
    with opened(browser, what_if) as page:
        for latency, rob in itertools.product(FACTORS, FACTORS):
            factors = {n: f for n, f in {"instruction_latency": latency, "rob": rob}.items() if f != 1}
            found, expected = take(page, {"factors": factors} if factors else {}), prepared.what_if(factors)
            assert found["cycles"] == expected.cycles
            table = expected.to_frame().set_index("resource").iloc[:, 0]
            assert found["speedup"] == pytest.approx(table.to_dict(), rel=1e-9)
            assert list(found["speedup"].values()) == sorted(table, reverse=True)


def test_a_slider_is_moved_by_keys_and_the_link_keeps_it(browser: Any, prepared: Any, what_if: Path):
    with opened(browser, what_if, **PHONE) as page:
        assert page.evaluate("document.documentElement.scrollWidth") == 360
        page.get_by_role("slider", name="instruction_latency").press("ArrowRight")
        assert shown(page)["cycles"] == prepared.what_if({"instruction_latency": 2}).cycles
        assert "simulated" in page.locator(".pkl-words").text_content()
        assert page.locator(".pkl-kind").text_content().startswith("SIMULATED")
        page.wait_for_timeout(400)
        link = page.evaluate("location.hash")
    with opened(browser, what_if, link) as page:
        assert shown(page)["cycles"] == prepared.what_if({"instruction_latency": 2}).cycles
        page.get_by_role("button", name="Reset to baseline").click()
        assert shown(page)["cycles"] == prepared.what_if({}).cycles
    with opened(browser, what_if, link.replace(":2", ":3")) as page:
        assert "not on the grid" in page.get_by_role("status").text_content()


def test_roofs_are_pythons_at_every_place(browser: Any, tmp_path: Path):
    dag = kernel("mmm_triple").trace(6).dag()
    scheduler = pk.DagScheduler(pk.DagCore.sandy_bridge_erm(), record=False)
    first, again = scheduler.run(dag).roofline(), pk.rescheduler(dag, scheduler)
    sliders = {"latency_A": [1, 3, 6], "rs": [8, 54]}
    view = pw.LiveRoofs(first, again, sliders)
    path = view.save_page(tmp_path / "roofs.html")
    with opened(browser, path, **PHONE) as page:
        assert page.evaluate("document.documentElement.scrollWidth") == 360
        for latency, rs in itertools.product(*sliders.values()):
            now = {"latency_A": first.schedule.core.latency_A, "rs": first.schedule.core.rs}
            values = {n: v for n, v in {"latency_A": latency, "rs": rs}.items() if v != now[n]}
            found, expected = take(page, {"values": values} if values else {}), again(latency_A=latency, rs=rs)
            assert found["verdict"] == expected.verdict
            assert found["performance"] == pytest.approx(expected.performance, rel=1e-9)
            assert [roof["label"] for roof in found["roofs"]] == [roof.label for roof in expected.roofs]
            centre = first.intensity
            for shown_roof, roof in zip(found["roofs"], expected.roofs, strict=True):
                at = roof.at(centre * 10.0 ** np.array([-1.5, 0, 1.5]))
                np.testing.assert_allclose(shown_roof["at"], at, rtol=1e-9)
                np.testing.assert_allclose(
                    [shown_roof["bound"], shown_roof["distance"]], [roof.bound, roof.distance], 1e-9
                )
        bars = page.locator(".pkl-list .pkl-bar i:first-child").evaluate_all("all => all.map(i => i.offsetWidth)")
        told = [float(text) for text in page.locator(".pkl-list .pkl-value").all_inner_texts()]
        assert told == sorted(told)
        assert max(told) > min(told)
        assert bars == pytest.approx([t / max(told) * max(bars) for t in told], abs=2)
        drawn = {"classical bounds", "computation", "overlaps", "L1", "L2", "L3", "memory"}
        assert set(page.locator(".pkl-key").all_inner_texts()) <= drawn
        before = page.locator(".pkl-chart path").count()
        assert page.locator(".pkl-key", has_text="overlaps").count() == 1
        page.get_by_role("button", name="overlap").tap()
        assert page.locator(".pkl-key", has_text="overlaps").count() == 0
        assert page.locator(".pkl-chart path").count() < before
        assert page.evaluate("document.querySelector('.pkl').pkLive.state().hidden") == ["overlap"]
        page.get_by_role("slider", name="latency_A").press("End")
        page.get_by_role("option").nth(1).tap()
        state = page.evaluate("document.querySelector('.pkl').pkLive.state()")
        assert state.keys() == {"hidden", "values", "roof"}
        result = shown(page)
        page.wait_for_timeout(400)
        link = page.evaluate("location.hash")
    with opened(browser, path, link) as page:
        assert page.evaluate("document.querySelector('.pkl').pkLive.state()") == state
        assert shown(page) == result
        assert page.get_by_role("slider", name="latency_A").input_value() == "2"
        assert page.get_by_role("button", name="overlap").get_attribute("aria-pressed") == "false"
