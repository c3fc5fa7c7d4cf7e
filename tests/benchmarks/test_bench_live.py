"""From an action to the redrawn live view, in Chromium, from disk: at most 50 ms.

An action is a key on a slider's handle or a list, a click on a box or a button. The time runs from the event until the
frame after the redraw was painted; beside it stands the processor time of the page's main thread, which other programs
do not change. The baseline of the same run is a button that changes one word: what a frame costs.
"""

from pathlib import Path
from typing import Any

import pytest

import perfkit as pk
import perfkit_widgets as pw
from perfkit.collectors.dag.paper_kernels import kernel
from tests.browser.live import opened, own_browser

LIMIT = 50.0
SHARED = Path(__file__).resolve().parents[3] / "shared" / "data" / "perf" / "paper-531.deepsjeng_r.csv.xz"
# Times of dispatching events one after another: until the handler has returned, and until its frame was painted.
TIMED = """async ([selector, kind, keys, times]) => {
    const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    const out = [];
    for (let i = 0; i < times; i++) {
        const el = document.querySelector(selector), key = keys[i % keys.length];
        await frame();
        const start = performance.now();
        if (kind === 'click') el.click();
        else el.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true, cancelable: true}));
        const handled = performance.now() - start;
        el.getBoundingClientRect();
        await frame();
        out.push([handled, performance.now() - start]);
    }
    return out;
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
                bare = sorted(t for _, t in page.evaluate(TIMED, ["#bare", "click", [""], 40]))
                busy |= bare[37] > 25
                for selector, kind, keys in todo:
                    before = processor_time(session)
                    times = page.evaluate(TIMED, [selector, kind, keys, 60])
                    used = (processor_time(session) - before) / 60
                    all_of_it = sorted(total for _, total in times)
                    print(
                        f"\n{name}, {kind} on {selector}: processor {used:.1f} ms an action; to the painted frame "
                        f"median {all_of_it[30]:.1f}, 95th percentile {all_of_it[56]:.1f}, most {all_of_it[-1]:.1f} ms "
                        f"(a bare button: {bare[20]:.1f} and {bare[37]:.1f})"
                    )
                    processors[f"{name}, {selector}"], walls[f"{name}, {selector}"] = used, all_of_it[56]
    print(f"\nlargest: processor {max(processors.values()):.1f} ms, 95th percentile {max(walls.values()):.1f} ms")
    assert max(processors.values()) < LIMIT, processors
    if busy:
        pytest.skip("the machine is too busy to judge by the clock: a button that changes one word takes over 25 ms")
    assert max(walls.values()) < LIMIT, walls
