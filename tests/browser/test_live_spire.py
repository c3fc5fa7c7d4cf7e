"""LiveSpire in Chromium, from disk and without a network: the same numbers as Python's, and operable by everyone."""

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pandas as pd
import pytest

import perfkit as pk
import perfkit_widgets as pw
from perfkit.plots.time_axis import TimeAxis
from tests.browser.live import DESKTOP, PHONE, opened, shown, take

pytestmark = [
    pytest.mark.browser,
    pytest.mark.filterwarnings("ignore:ranked without 1 event not in training:perfkit.errors.PerfkitWarning"),
]
HOSTILE = "<img src=x onerror=\"document.title='taken'\">&amp;"


def awkward(seed: int) -> tuple[pk.Samples, pk.Samples]:
    """Training and a workload of two runs on two places: missing counts, idle intervals, events that never happen in
    some, times that differ between events, and an event without a roofline."""
    rng = np.random.default_rng(seed)

    def make(names: list[str], n: int, differ: bool) -> pk.Samples:
        rows = []
        for run in range(2):
            for place in range(2):
                for i in range(n):
                    time, work = rng.uniform(1e6, 5e6), rng.uniform(1e6, 8e6)
                    for k, name in enumerate(names):
                        count = rng.choice([0.0, rng.uniform(1, 1e5), rng.uniform(1, 1e5), np.nan])
                        apart = time * (1 + 0.01 * k) if differ and i % 7 == 0 else time
                        rows.append((f"run-{run}", f"cpu{place}", i, i + 1.0, name, apart, work, count))
        columns = ["run", "place", "interval", "at", "event", "time", "work", "count"]
        return pk.Samples.from_frame(pd.DataFrame(rows, columns=columns), kind="generated", missing="keep")

    events = ["one", "two", HOSTILE, "$x_1$ four"]
    return make(events, 30, False), make([*events, "unknown"], 40, True)


def python_ranking(model: Any, samples: pk.Samples, window: list[int] | None) -> tuple[pd.DataFrame, float]:
    axis = TimeAxis.of(samples)
    if window is not None:
        ends = [0.0, *axis.position]  # of an interval, and of the one before it
        samples = axis.select(ends[window[0]], ends[window[1] + 1])
    ranking = model.rank(samples, bootstrap=0)
    table = ranking.to_frame(details=True)
    return table[table["status"] == "ok"], ranking.throughput


def assert_same(found: Any, table: pd.DataFrame, throughput: float) -> None:
    bounds = [row["throughput_bound"] for row in found["events"]]
    assert all(two >= one * (1 - 1e-12) for one, two in pairwise(bounds))
    # Events of one bound may stand in another order: rounding decides.
    assert sorted(row["event"] for row in found["events"]) == sorted(table["event"])
    table = table.set_index("event").loc[[row["event"] for row in found["events"]]]
    for name in ("throughput_bound", "left_fraction", "outside", "n_samples"):
        values = [row[name] for row in found["events"]]
        np.testing.assert_allclose(values, table[name].astype(float), rtol=1e-9, atol=1e-12, err_msg=name)
    assert found["throughput"] == pytest.approx(throughput, rel=1e-9)


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, pk.Samples, Path]:
    train, workload = pk.datasets.load("spire/train"), pk.datasets.load("spire/memory")
    model = pk.Spire().fit(train)
    path = pw.LiveSpire(model, workload, train).save_page(tmp_path_factory.mktemp("live") / "spire.html")
    return model, workload, path


def test_rankings_of_windows_are_pythons(browser: Any, shipped: Any):
    model, workload, path = shipped
    with opened(browser, path) as page:
        assert_same(shown(page), *python_ranking(model, workload, None))
        rng = np.random.default_rng(0)
        for window in [[0, 0], [59, 59], *np.sort(rng.integers(60, size=(25, 2))).tolist()]:
            assert_same(take(page, {"window": window}), *python_ranking(model, workload, window))


@pytest.mark.parametrize("seed", range(3))
def test_rankings_of_awkward_samples_are_pythons(browser: Any, tmp_path: Path, seed: int):
    train, workload = awkward(seed)
    model = pk.Spire().fit(train)
    path = pw.LiveSpire(model, workload, train).save_page(tmp_path / "awkward.html")
    n = len(TimeAxis.of(workload).position)
    with opened(browser, path) as page:
        assert_same(shown(page), *python_ranking(model, workload, None))
        for window in np.sort(np.random.default_rng(seed).integers(n, size=(20, 2))).tolist():
            assert_same(take(page, {"window": window}), *python_ranking(model, workload, window))


def test_a_name_is_text_whatever_it_holds(browser: Any, tmp_path: Path):
    train, workload = awkward(0)
    path = pw.LiveSpire(pk.Spire().fit(train), workload, train).save_page(tmp_path / "x.html", title=HOSTILE)
    with opened(browser, path) as page:
        take(page, {"event": HOSTILE})
        page.locator("summary").click()
        assert page.locator(".pkl img").count() == 0
        assert page.title() == HOSTILE
        assert page.locator(".pkl h4").first.text_content() == HOSTILE
        assert page.locator(f"[role=option] >> text={HOSTILE}").count() == 1
        assert HOSTILE in page.locator("table").text_content()


def test_a_click_on_a_row_shows_that_events_roofline(browser: Any, shipped: Any):
    *_, path = shipped
    with opened(browser, path) as page:
        roofs = []
        for k in (11, 0, 5, 5):
            row = page.get_by_role("option").nth(k)
            row.click()
            name = row.get_attribute("title")
            assert page.locator("h4.pkl-name").inner_text() == name
            assert name in page.locator(".pkl-advice").inner_text()
            assert page.locator("[role=option][aria-selected=true]").get_attribute("title") == name
            roofs.append(page.locator(".pkl-chart svg").first.inner_html())
        assert roofs[2] == roofs[3]  # a second click takes nothing back
        assert len(set(roofs)) == 3


def address(page: Any) -> str:
    page.wait_for_timeout(400)  # it is written a moment after the last change
    return str(page.evaluate("location.hash"))


def test_a_link_opens_the_view_as_it_was(browser: Any, shipped: Any):
    *_, path = shipped
    with opened(browser, path) as page:
        assert address(page) == ""
        options = page.get_by_role("option")
        options.nth(3).click()
        page.get_by_role("radio", name="linear").click()
        handle = page.get_by_role("slider", name="start of the window")
        handle.press("PageUp")
        handle.press("ArrowRight")
        before, link = shown(page), address(page)
        state = json.loads(unquote(link.partition("=")[2]).replace("+", " "))
        assert state == {"event": options.locator("xpath=self::*[@aria-selected='true']").get_attribute("title"),
                         "axes": "linear", "window": [7, 59]}  # fmt: skip
    with opened(browser, path, link) as page:
        assert shown(page) == before
        assert page.get_by_role("radio", name="linear").get_attribute("aria-checked") == "true"
        assert address(page) == link
        page.evaluate("location.hash = ''")
        page.wait_for_function("() => document.querySelector('.pkl').pkLive.state().axes === undefined")


def test_views_of_one_page_keep_their_own_part_of_the_address(browser: Any, shipped: Any, tmp_path: Path):
    model, workload, _ = shipped
    views = [pw.LiveSpire(model, workload), pw.LiveSpire(model, workload)]
    other = pw.LiveSpire(model, pk.datasets.load("spire/core"))
    path = views[0].save_page(tmp_path / "three.html", views[1], other)
    with opened(browser, path) as page:
        for i, steps in enumerate((1, 2, 3)):
            handle = page.get_by_role("slider", name="end of the window").nth(i)
            for _ in range(steps):
                handle.press("ArrowLeft")
        link = address(page)
        assert len(set(re.findall(r"live\.([\w.-]+)=", link))) == 3
    with opened(browser, path, link + "&section-2") as page:
        states = page.evaluate("[...document.querySelectorAll('.pkl')].map((el) => el.pkLive.state().window)")
        assert states == [[0, 58], [0, 57], [0, 56]]
        page.get_by_role("slider", name="end of the window").nth(1).press("End")
        assert "section-2" in address(page)  # what others put into the address stays


@pytest.mark.parametrize("wrong", ["{", "[1]", '{"window":[5,99]}', '{"event":"nowhere"}', '{"no":1}', "%"])
def test_a_link_that_cannot_be_read_is_told(browser: Any, shipped: Any, wrong: str):
    *_, path = shipped
    with opened(browser, path) as page:
        page.get_by_role("slider", name="end of the window").press("ArrowLeft")
        name = re.findall(r"(live\.[\w.-]+)=", address(page))[0]
    with opened(browser, path, f"#{name}={wrong}") as page:
        told = page.get_by_role("status")
        assert told.is_visible()
        assert "link" in told.text_content() or "address" in told.text_content()
        assert len(shown(page)["events"]) == 25


def test_it_is_operated_by_keyboard(browser: Any, shipped: Any):
    *_, path = shipped
    with opened(browser, path) as page:
        seen = []
        for _ in range(6):
            page.keyboard.press("Tab")
            seen.append(page.evaluate("document.activeElement.getAttribute('role') || document.activeElement.tagName"))
        assert seen == ["listbox", "radio", "slider", "slider", "BUTTON", "SUMMARY"]
        page.get_by_role("listbox").focus()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("End")
        chosen = page.locator("[role=option][aria-selected=true]")
        assert chosen.get_attribute("id") == page.get_by_role("listbox").get_attribute("aria-activedescendant")
        assert page.get_by_role("option").nth(11).get_attribute("aria-selected") == "true"


def test_after_a_drag_arrow_keys_go_on_where_the_pointer_ended(browser: Any, shipped: Any):
    *_, path = shipped
    with opened(browser, path) as page:
        box = page.locator(".pkl-strip").bounding_box()
        y = box["y"] + 40
        page.mouse.move(box["x"] + 0.3 * box["width"], y)
        page.mouse.down()
        page.mouse.move(box["x"] + 0.6 * box["width"], y, steps=5)
        page.mouse.up()
        page.locator(".pkl-words", has_text="The chosen window").wait_for()
        window = "() => [...document.querySelectorAll('.pkl-handle')].map(h => Number(h.getAttribute('aria-valuenow')))"
        first, last = page.evaluate(window)
        page.keyboard.press("ArrowRight")
        assert page.evaluate(window) == [first, last + 1]


@pytest.mark.parametrize("kind", ["spire", "cpi"])
def test_the_line_is_broken_where_nothing_was_measured_and_between_runs(browser: Any, tmp_path: Path, kind: str):
    if kind == "spire":
        samples, css = pk.datasets.load("spire/memory"), "pkl-series"
    else:
        samples, css = pk.synthetic_cpi(intervals=200, seed=1)[0], "pkl-measured"
    at = samples.table["at"]
    gone = samples.table[(at < at.quantile(0.4)) | (at > at.quantile(0.6))].reset_index(drop=True)
    events = {"time_event": samples.time_event, "work_event": samples.work_event}
    later = samples.table["interval"] > samples.table["interval"].median()
    runs = samples.table.assign(run=np.where(later, "later", "first"))
    gap, two = pk.Samples.from_frame(gone, **events, runs=samples.runs), pk.Samples.from_frame(runs, **events)
    lines = []
    for name, given in (("whole", samples), ("gap", gap), ("runs", two)):
        view = (
            pw.LiveSpire(pk.Spire().fit(given), given) if kind == "spire" else pw.LiveCpiStack(pk.CpiStack().fit(given))
        )
        with opened(browser, view.save_page(tmp_path / f"{name}.html")) as page:
            lines.append(page.locator(f".pkl-strip path.{css}").get_attribute("d"))
            handle = page.get_by_role("slider", name="start of the window")
            handle.press("End")
            handle.press("ArrowLeft")
            assert page.locator(".pkl-shade").bounding_box()["width"] < 100
    assert [line.count("M") for line in lines] == [1, 2, 2]


def test_on_a_phone_it_fits_and_is_operated_by_touch(browser: Any, shipped: Any):
    *_, path = shipped
    with opened(browser, path, **PHONE) as page:
        assert page.evaluate("document.documentElement.scrollWidth") == 360
        page.get_by_role("option").nth(2).tap()
        assert page.get_by_role("option").nth(2).get_attribute("aria-selected") == "true"
        strip = page.locator(".pkl-strip")
        strip.scroll_into_view_if_needed()
        box = strip.bounding_box()
        # A finger that is put down, moved across, and lifted.
        touch = page.context.new_cdp_session(page)
        for kind, x in (("touchStart", 120), ("touchMove", 160), ("touchMove", 240)):
            point = [{"x": box["x"] + x, "y": box["y"] + 50}]
            touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": point})
            page.wait_for_timeout(60)
        touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
        page.wait_for_timeout(60)
        low, high = page.evaluate("document.querySelector('.pkl').pkLive.state().window")
        assert 0 < low < high < 59


def test_it_says_what_the_data_is_and_follows_the_theme(browser: Any, shipped: Any):
    *_, path = shipped
    for scheme, darkness in (("light", 255), ("dark", 22)):
        with opened(browser, path, **DESKTOP, color_scheme=scheme) as page:
            assert page.locator(".pkl-kind").text_content().startswith("GENERATED")
            paper = page.evaluate("getComputedStyle(document.querySelector('.pkl')).backgroundColor")
            assert paper == f"rgb({darkness}, {darkness}, {darkness})"


def test_where_scripts_do_not_run_the_picture_stands(browser: Any, shipped: Any):
    *_, path = shipped
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(path.as_uri())
    assert page.locator("img").bounding_box()["width"] > 400
    context.close()


def test_dashed_lines_have_dashed_keys(browser: Any, shipped: Any):
    *_, path = shipped
    with opened(browser, path) as page:
        assert page.locator(".pkl-peak").count() == page.locator(".pkl-bound").count() == 1
        legend = page.locator(".pkl-legend", has_text="roofline").locator(".pkl-key").all()
        style = "key => getComputedStyle(key.querySelector('i')).backgroundImage"
        dashed = [key.inner_text().split()[0] for key in legend if "repeating" in key.evaluate(style)]
        assert dashed == ["peak", "bound"]
