"""One selection across views, in a real JupyterLab and Chromium: what is chosen in one is seen in all."""

import re
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.browser.lab import Lab
from tests.browser.operate import DRAWN, WORDS, Opened

pytestmark = pytest.mark.browser

CELLS = [
    '''
%matplotlib inline
import numpy as np, perfkit as pk, perfkit_widgets as pw
from perfkit.collectors.dag.paper_kernels import kernel
source = """
double f(double *y, double *z, double *u, double *v, double *w, const double *x, long n) {
    double sum = 0;
    for (long i = 0; i < n; i++) {
        y[i] = 3 * x[i];
        z[i] = x[i]; u[i] = x[i]; v[i] = x[i]; w[i] = x[i];
        sum = sum + y[i];
    }
    return sum;
}
"""
trace = pk.collectors.compile_kernel(source, "f", build="scalar").trace(*(np.ones(300) for _ in range(6)), 300)
prepared = pk.prepare(pk.Gus(pk.Microarchitecture.load("skylake_x"), warm=True), trace)
run = prepared.run(trace)
shares = run.causality().shares
dag = kernel("mmm_triple").trace(12).dag()
scheduler = pk.DagScheduler(pk.DagCore.sandy_bridge_erm())
schedule = scheduler.run(dag)
''',
    "sensitivity = pw.SensitivityView(prepared.ranker()); sensitivity",
    "listing = pw.ListingView(run.to_frame(), shares); listing",
    "lines = pw.SourceView(run.to_frame(), shares); lines",
    """
timeline = pw.TimelineView(pk.timeline(run, 500, 900))
pw.link_selection(sensitivity, listing, lines, timeline)
timeline
""",
    """
sliders = {"rs": [8, 16, 54], "latency_A": [1, 3, 6]}
roofs = pw.RooflineView(schedule.roofline(), pk.rescheduler(dag, scheduler), sliders)
roofs
""",
    "cycles = pw.ScheduleView(schedule); pw.link_selection(roofs, cycles); cycles",
]
SENSITIVITY, LISTING, LINES, TIMELINE, ROOFS, CYCLES = range(1, 7)


@pytest.fixture(scope="module")
def opened(browser: Any, lab: Lab) -> Iterator[Opened]:
    here = Opened(browser, lab, "linked", CELLS, (1400, 5200), views=4)
    yield here
    assert here.failures == []
    here.page.close()


def hint(view: Any) -> str:
    return str(view.locator(".pk-hint").first.inner_text())


def test_a_row_of_the_listing_is_chosen_in_the_lines_and_in_the_timeline(opened: Opened):
    listing, lines, timeline = (opened.view(cell) for cell in (LISTING, LINES, TIMELINE))
    row = listing.locator("tbody tr", has_text="y[i] = 3 * x[i];").filter(has_text="mulsd").first
    opened.changes(timeline, row.click)
    assert "mulsd" in hint(timeline)
    assert "y[i] = 3 * x[i];" in hint(lines)
    assert "% of the causes" in hint(lines)  # and of the time
    opened.changes(timeline, partial(listing.locator(".pk-l-scroll").press, "ArrowDown"))
    assert listing.locator("tr.pk-l-chosen").count() == 1


def test_an_instruction_of_the_timeline_is_chosen_in_the_listing_and_in_the_lines(opened: Opened):
    listing, lines, timeline = (opened.view(cell) for cell in (LISTING, LINES, TIMELINE))
    canvas = timeline.locator("canvas")
    for _ in range(12):
        opened.changes(timeline, partial(canvas.press, "ArrowDown"))
        if "addsd" in hint(timeline):
            break
    listing.locator("tr.pk-l-chosen", has_text="addsd").wait_for(timeout=10_000)
    lines.locator(".pk-hint", has_text="sum = sum + y[i]").wait_for(timeout=10_000)


def test_what_waits_for_a_resource_names_it(opened: Opened):
    """Five stores per iteration have one port, which its legend calls p4."""
    timeline = opened.view(TIMELINE)
    for _ in range(40):
        if "in use by" in hint(timeline):
            break
        opened.changes(timeline, partial(timeline.locator("canvas").press, "ArrowDown"))
    assert re.search(r"last waited for p\d+(?: and p\d+)*, in use by ", hint(timeline)), hint(timeline)


def test_a_source_line_chooses_its_instruction_with_most_causes(opened: Opened):
    listing, lines, timeline = (opened.view(cell) for cell in (LISTING, LINES, TIMELINE))
    chosen = listing.locator("tr.pk-l-chosen")
    names = [n for n in lines.locator(".bqplot.figure svg text").all_text_contents() if ": " in n]
    text = names[-1].partition(": ")[2][:8]  # of the first bar: it is drawn on top, its name last
    other = "z[i] = x[i]" if "z[i]" not in names[-1] else "y[i] = 3"
    listing.locator("tbody tr", has_text=other).first.click()
    lines.locator(".pk-hint", has_text=other).wait_for(timeout=10_000)
    lines.locator(".bqplot rect.bar").first.click(force=True)
    lines.locator(".pk-hint", has_text=text).wait_for(timeout=10_000)
    listing.locator("tr.pk-l-chosen", has_text=text).wait_for(timeout=10_000)
    told = chosen.locator("td.pk-l-code").nth(1).inner_text()
    # An instruction before the loop is not in the window: then none is chosen there.
    either = re.compile(f"{re.escape(told)}|Click a bar")
    timeline.locator(".pk-hint", has_text=either).wait_for(timeout=10_000)
    opened.changes(lines, lines.get_by_role("button", name="time").click)
    assert chosen.count() == 1


def test_a_resource_sorts_the_listing_and_a_column_chooses_the_resource(opened: Opened):
    sensitivity, listing = opened.view(SENSITIVITY), opened.view(LISTING)
    sorted_by = listing.locator("th[aria-sort=descending], th[aria-sort=ascending]")
    heads = listing.locator("thead th.pk-l-resource")
    other = next(head for head in heads.all() if head.inner_text() not in ("p4", ""))
    wanted = other.inner_text()
    opened.changes(sensitivity, other.get_by_role("button").click, WORDS)
    assert hint(sensitivity).startswith(wanted)
    assert sorted_by.inner_text().startswith(wanted)
    # Five stores per iteration: the port of stores comes first.
    opened.changes(listing, sensitivity.locator(".bqplot rect.bar").first.click, WORDS)
    assert hint(sensitivity).startswith("p4 (rank 1 of")
    assert sorted_by.inner_text().startswith("p4")


def test_a_roof_stands_out_in_the_schedule(opened: Opened):
    roofs, cycles = opened.view(ROOFS), opened.view(CYCLES)
    names = roofs.get_by_label("Roof").locator("option").all_inner_texts()
    latency = next(i for i, n in enumerate(names) if "latency" in n)
    before = cycles.evaluate(DRAWN)
    opened.changes(roofs, partial(roofs.get_by_label("Roof").select_option, index=latency))
    opened.settle(cycles)
    assert cycles.evaluate(DRAWN) != before
    opened.changes(cycles, partial(roofs.get_by_label("Roof").select_option, index=0))
    assert cycles.evaluate(DRAWN) == before


def test_a_click_on_a_roof_chooses_it_and_hovering_tells_its_equation(opened: Opened):
    roofs, cycles = opened.view(ROOFS), opened.view(CYCLES)
    for at in roof_points(roofs):
        opened.page.mouse.move(*at)
        opened.page.wait_for_timeout(300)
        told = opened.page.locator(".bqplot_tooltip_div:visible")
        if told.count() and "flops/cycle" in told.first.inner_text():
            break
    assert "x the performance" in told.first.inner_text()
    before, select = cycles.evaluate(DRAWN), roofs.get_by_label("Roof")
    opened.changes(cycles, partial(opened.page.mouse.click, *at))
    chosen = "view => view.querySelector('select').value"
    assert select.evaluate("list => list.selectedIndex") > 0
    for _ in range(6):  # those that lie on it; after the last one, none
        opened.changes(roofs, partial(opened.page.mouse.click, *at), chosen)
        if select.evaluate("list => list.selectedIndex") == 0:
            break
    opened.settle(cycles)
    assert cycles.evaluate(DRAWN) == before
    opened.page.mouse.move(0, 0)


# Where dashed roofs have their gaps, on the page.
GAPS = """view => [...view.querySelectorAll('svg path.line')].filter(
    line => line.style.strokeDasharray.replace(/[ px]/g, '') === '10,10' && line.checkVisibility()).map(line => {
        const at = 15 + 20 * Math.floor(line.getTotalLength() * 0.35 / 20);
        const { x, y } = line.getPointAtLength(at).matrixTransform(line.getScreenCTM());
        return [x, y];
    })"""


def test_a_click_in_a_gap_of_a_dashed_roof_or_beside_it_chooses_it(opened: Opened):
    roofs = opened.view(ROOFS)
    gaps = roofs.evaluate(GAPS)
    assert len(gaps) >= 2
    for x, y in gaps:
        for beside in (0, 4):
            opened.changes(
                roofs, partial(opened.page.mouse.click, x, y + beside), "view => view.querySelector('select').value"
            )
            opened.page.mouse.move(0, 0)


# Where at least two roofs lie on one another, on the page, and how many do.
TOGETHER = """view => {
    const lines = [...view.querySelectorAll('svg path.line')].filter(l => l.style.opacity && l.checkVisibility());
    const at = lines.map(l => [0.3, 0.45, 0.8].map(share => {
        const { x, y } = l.getPointAtLength(share * l.getTotalLength()).matrixTransform(l.getScreenCTM());
        return [x, y];
    })).flat();
    const here = ([x, y]) => lines.filter(l => {
        const svg = new DOMPoint(x, y).matrixTransform(l.getScreenCTM().inverse()), n = l.getTotalLength();
        return Array.from({ length: 2000 }, (_, k) => l.getPointAtLength(n * k / 2000)).some(
            p => Math.hypot(p.x - svg.x, p.y - svg.y) < 0.8);
    }).length;
    const { left, right, top, bottom } = view.querySelector('.plotarea_events').getBoundingClientRect();
    return at.filter(([x, y]) => left < x && x < right && top < y && y < bottom).map(p => [...p, here(p)]).sort(
        (a, b) => b[2] - a[2])[0];
}"""


def test_clicks_where_roofs_lie_on_one_another_choose_each_in_turn(opened: Opened):
    roofs = opened.view(ROOFS)
    select = roofs.get_by_label("Roof")
    select.select_option(index=0)
    opened.settle(roofs)
    x, y, there = roofs.evaluate(TOGETHER)
    assert there >= 2
    for _ in range(2):  # a second round: no tooltip of the first may keep its clicks
        chosen: list[int] = []
        while not chosen or (chosen[-1] and len(chosen) <= 2 * there):  # the place in the list; 0 is none
            x, y, _there = roofs.evaluate(TOGETHER)  # anew: views that follow may have moved this one on the page
            opened.changes(roofs, partial(opened.page.mouse.click, x, y), "view => view.querySelector('select').value")
            chosen.append(select.evaluate("list => list.selectedIndex"))
        assert len(set(chosen)) == len(chosen) > there  # each once, and then none
    opened.page.mouse.move(0, 0)


def roof_points(roofs: Any) -> list[tuple[float, float]]:
    """Return where roofs run, on the page: the middle of each line."""
    found: list[list[float]] = roofs.evaluate("""view => [...view.querySelectorAll('svg path.line')].map(line => {
        const half = line.getPointAtLength(line.getTotalLength() * 0.35).matrixTransform(line.getScreenCTM());
        return [half.x, half.y];
    })""")
    return [(x, y) for x, y in found if x > 0 and y > 0]


def test_the_schedule_follows_the_sliders_of_the_roofline(opened: Opened):
    roofs, cycles = opened.view(ROOFS), opened.view(CYCLES)
    handles = roofs.locator(".noUi-handle")
    for place, key in ((0, "ArrowLeft"), (1, "ArrowRight")):
        handles.nth(place).focus()
        before = roofs.evaluate(DRAWN)
        opened.changes(cycles, partial(opened.page.keyboard.press, key))
        assert roofs.evaluate(DRAWN) != before


def test_each_kind_of_roof_is_hidden_and_shown(opened: Opened):
    roofs = opened.view(ROOFS)
    shown = roofs.evaluate(DRAWN)
    for kind in ("throughput", "issue", "latency", "overlap"):
        opened.changes(roofs, roofs.get_by_role("button", name=kind).click)
        opened.changes(roofs, roofs.get_by_role("button", name=kind).click)
        assert roofs.evaluate(DRAWN) == shown


def test_the_schedule_steps_by_events_and_zooms(opened: Opened):
    cycles = opened.view(CYCLES)

    def first() -> int:
        return int(re.search(r"cycles ([\d,]+) to", cycles.inner_text())[1].replace(",", ""))  # type: ignore[index]

    cycles.get_by_label("cycles shown").select_option(label="200")
    opened.settle(cycles)
    at = first()
    opened.changes(cycles, cycles.get_by_role("button", name="next stall").click)
    assert first() > at
    at = first()
    opened.changes(cycles, cycles.get_by_role("button", name="▶").click)
    assert first() == at + 100
    opened.changes(cycles, cycles.get_by_role("button", name="◀").click)
    assert first() == at
    opened.changes(cycles, partial(cycles.locator(".noUi-handle").press, "ArrowRight"))
    assert first() >= at + 20 - 19  # a tenth of the picture, from the slider's grid
    opened.changes(cycles, partial(cycles.get_by_label("cycles shown").select_option, index=0))
    assert "50" in cycles.inner_text()
