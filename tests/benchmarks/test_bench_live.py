"""From an action to the redrawn live view, in Chromium, from disk: at most 50 ms.

An action is a key on a slider's handle or a list, a click on a box or a button. The time runs from the event until the
frame after the redraw was painted; beside it stands the processor time of the page's main thread, action by action,
which other programs hardly change. The baseline of the same run is a button that changes one word: what a frame costs.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import perfkit as pk
import perfkit_widgets as pw
from perfkit.collectors.dag.paper_kernels import kernel
from tests.browser.live import opened, own_browser

LIMIT = 50.0
SHARED = Path(__file__).resolve().parents[3] / "shared" / "data" / "perf" / "paper-531.deepsjeng_r.csv.xz"
TIMES = 60
# Milliseconds from an event until its frame was painted.
TIMED = """async ([selector, kind, key]) => {
    const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    const el = document.querySelector(selector);
    await frame();
    const start = performance.now();
    if (kind === 'click') el.click();
    else el.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true, cancelable: true}));
    el.getBoundingClientRect();
    await frame();
    return performance.now() - start;
}"""


def views(folder: Path) -> dict[str, tuple[Path, list[tuple[str, str, list[str]]]]]:
    """Pages, and of each the actions: selector, kind and keys."""
    window = (".pkl-handle", "key", ["ArrowRight", "ArrowRight", "PageUp", "ArrowLeft"])
    rows = (".pkl-list", "key", ["ArrowDown", "ArrowUp", "End", "Home"])
    train = pk.datasets.load("spire/train")
    spire = pw.LiveSpire(pk.Spire().fit(train), train, train)
    samples = pk.open_samples(str(SHARED)) if SHARED.is_file() else pk.datasets.load("cpi/workloads")
    cpi = pw.LiveCpiStack(pk.CpiStack(resamples=0).fit_each(samples))
    dag = kernel("mmm_triple").trace(12).dag()
    scheduler = pk.DagScheduler(pk.DagCore.sandy_bridge_erm(), record=False)
    roofs = pw.LiveRoofs(scheduler.run(dag).roofline(), pk.rescheduler(dag, scheduler), {"latency_A": [1, 2, 4, 8]})
    prepared = pk.prepare(pk.Gus(pk.Microarchitecture.load("skylake_x")), pk.open_traces("fig1a")["fig1a"])
    what_if = pw.LiveWhatIf(prepared.what_if, {"rob": "224 entries"})
    scale = ("[role=radio]:not([aria-checked=true])", "click", [""])
    reset = (".pkl-sliders button", "click", [""])
    actions = {
        f"LiveSpire, {len(train):,} samples": (spire, [window, rows, scale]),
        f"LiveCpiStack, {len(samples):,} counts": (cpi, [window, (".pkl-events input", "click", [""])]),
        "LiveRoofs": (roofs, [rows, reset, ("[aria-pressed]", "click", [""])]),
        "LiveWhatIf": (what_if, [reset]),
    }
    return {
        name: (view.save_page(folder / f"{i}.html"), todo) for i, (name, (view, todo)) in enumerate(actions.items())
    }


def processor_time(session: Any) -> float:
    """Milliseconds of processor time that the page's main thread has used: scripts, layout and painting."""
    metrics = {m["name"]: m["value"] for m in session.send("Performance.getMetrics")["metrics"]}
    return 1e3 * float(metrics["TaskDuration"])


def quantiles(times: np.ndarray) -> str:
    """The median, the 95th percentile and the largest of some times, in words."""
    return f"{np.median(times):.1f}, 95 % {np.percentile(times, 95):.1f}, most {times.max():.1f} ms"


def timed(page: Any, session: Any, selector: str, kind: str, keys: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Act again and again; return each action's time to the painted frame and its processor time, in ms."""
    walls, processors = [], []
    for i in range(TIMES):
        before = processor_time(session)
        walls.append(page.evaluate(TIMED, [selector, kind, keys[i % len(keys)]]))
        processors.append(processor_time(session) - before)
    return np.array(walls), np.array(processors)


@pytest.mark.browser
def test_a_live_view_is_redrawn_within_50_ms(tmp_path: Path):
    walls, processors, busy = {}, {}, False
    with own_browser() as browser:
        for name, (path, todo) in views(tmp_path).items():
            with opened(browser, path) as page:
                session = page.context.new_cdp_session(page)
                session.send("Performance.enable", {"timeDomain": "threadTicks"})
                page.wait_for_timeout(500)
                page.evaluate("document.body.append(Object.assign(document.createElement('button'), {id: 'bare'}))")
                page.evaluate("bare.addEventListener('click', () => { bare.textContent += '.'; })")
                bare, _ = timed(page, session, "#bare", "click", [""])
                busy |= float(np.percentile(bare, 95)) > 25
                for selector, kind, keys in todo:
                    wall, processor = timed(page, session, selector, kind, keys)
                    print(
                        f"\n{name}, {kind} on {selector}: processor {quantiles(processor)}; to the painted frame "
                        f"{quantiles(wall)} (a bare button: {quantiles(bare)})"
                    )
                    processors[f"{name}, {selector}"] = float(np.percentile(processor, 95))
                    walls[f"{name}, {selector}"] = float(np.percentile(wall, 95))
    print(f"\nlargest 95th percentiles: processor {max(processors.values()):.1f}, frame {max(walls.values()):.1f} ms")
    assert max(processors.values()) < LIMIT, processors
    if busy:
        pytest.skip("the machine is too busy to judge by the clock: a button that changes one word takes over 25 ms")
    assert max(walls.values()) < LIMIT, walls
