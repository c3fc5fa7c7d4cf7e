"""Live views without a browser: what they carry, the pages they write, and what they refuse."""

import base64
import json
import re

import numpy as np
import pytest

import perfkit as pk
import perfkit_widgets as pw
from perfkit.errors import DataError, SettingError
from perfkit.plots.live.packed import LARGEST, LiveModel


def unpacked(data: bytes) -> tuple[dict, dict]:
    """The head and the arrays of a packed model, as the browser reads them."""
    assert data[:8] == b"PKLIVE01"
    length = int.from_bytes(data[8:12], "little")
    head = json.loads(data[16 : 16 + length])
    arrays = {
        name: np.frombuffer(data, dtype=f"<{kind}", offset=at, count=n)
        for name, (kind, at, n) in head.pop("arrays").items()
    }
    return head, arrays


@pytest.fixture(scope="module")
def view(model, samples, training) -> pw.LiveSpire:
    return pw.LiveSpire(model, samples, training)


def test_a_packed_model_comes_out_as_it_went_in():
    rng = np.random.default_rng(0)
    for n in range(1, 40):  # lengths of the head pass every border of padding
        arrays = {"x" * n: rng.normal(size=n), "y": np.arange(3, dtype="int32"), "z": np.float32([0.5, np.inf])}
        model = LiveModel.of("spire", "ü" * n, "simulated", {"extra": None}, arrays)
        head, found = unpacked(model.packed())
        assert head == model.head
        assert head["note"].startswith("SIMULATED")
        for name, array in arrays.items():
            np.testing.assert_array_equal(found[name], array)


def test_a_model_too_large_for_a_page_is_refused():
    model = LiveModel.of("spire", "t", "measured", {}, {"x": np.zeros(LARGEST // 8 + 1)})
    with pytest.raises(DataError, match="at most"):
        model.packed()


def test_a_key_tells_views_apart_and_stays_the_same(model, samples, training):
    def key(*args: object, **options: object) -> str:
        return unpacked(pw.LiveSpire(*args, **options).model)[0]["key"]

    assert key(model, samples) == key(model, samples, training)
    less = samples.select(events=["stalls", "hits"]) if hasattr(samples, "select") else samples
    with pytest.warns(pk.errors.PerfkitWarning, match="only in training"):
        assert key(model, less) != key(model, samples)


def test_the_view_travels_with_its_picture(view):
    bundle = view._repr_mimebundle_()
    data = bundle[0] if isinstance(bundle, tuple) else bundle
    assert data["image/png"].startswith("iVBOR")
    assert "application/vnd.jupyter.widget-view+json" in data


def test_a_page_is_whole_and_asks_nobody(view, tmp_path):
    path = view.save_page(tmp_path / "page.html", title="</title><script>alert(1)</script>")
    text = path.read_text(encoding="utf-8")
    assert "<title>&lt;/title&gt;" in text
    assert not re.search(r"""(?:src|href)=["'](?!data:)""", text)
    assert "default-src 'none'" in text.replace("&#x27;", "'")
    packed = re.search(r'<script type="text/plain" id="model-0">([^<]+)</script>', text)[1]
    assert base64.b64decode(packed) == view.model


def test_a_page_keeps_the_state(view, tmp_path):
    view.state = {"event": "hits"}
    text = view.save_page(tmp_path / "page.html").read_text(encoding="utf-8")
    view.state = {}
    assert 'data-state="{&quot;event&quot;: &quot;hits&quot;}"' in text


@pytest.mark.parametrize("name", ["page.png", "page"])
def test_a_page_has_its_ending(view, tmp_path, name):
    with pytest.raises(SettingError, match=r"saved as \.html"):
        view.save_page(tmp_path / name)


def test_a_page_holds_live_views_only(view, tmp_path):
    with pytest.raises(SettingError, match="found dict"):
        view.save_page(tmp_path / "page.html", {})


def test_what_cannot_be_ranked_has_no_view(model, make_samples):
    other = make_samples().with_axes("instructions", "cycles")
    with pytest.raises(SettingError, match="trained with"):
        pw.LiveSpire(model, other)


@pytest.fixture(scope="module")
def stack() -> pk.CpiFit:
    samples, _ = pk.synthetic_cpi(intervals=120, seed=0)
    return pk.CpiStack(resamples=0).fit(samples)


@pytest.mark.parametrize(
    ("changes", "told"),
    [({"method": "lasso", "alpha": 0.01}, "fitted by 'lasso'"), ({"bounds": {"branch-misses": (0, 30)}}, "bounds")],
)
def test_a_stack_that_a_browser_cannot_fit_is_refused(stack, changes, told):
    with pytest.raises(SettingError, match=told):
        pw.LiveCpiStack(stack.refit(**changes))


def test_stacks_of_one_view_have_one_way_of_fitting(stack):
    with pytest.raises(SettingError, match="other settings"):
        pw.LiveCpiStack({"one": stack, "two": stack.refit(form="cpi")})


def test_a_stack_opens_with_its_events(stack):
    event = stack.events[0]
    head, arrays = unpacked(pw.LiveCpiStack(stack.refit(events=stack.events[1:])).model)
    assert head["off"] == [event]
    assert len(arrays["counts0"]) == len(stack.source) * len(stack.source.events)
    assert unpacked(pw.LiveCpiStack(stack).model)[0]["off"] == []


@pytest.mark.parametrize(
    ("resources", "factors", "told"),
    [
        ({}, (1, 2), "at least one resource"),
        ({"rob": ""}, (0.5, 2), "1 .the core as it is. is one of them"),
        ({"rob": ""}, (-1, 1), "above 0"),
        (dict.fromkeys("abcdefgh", ""), (0.5, 1, 2), r"6,561 simulations; at most 3,000"),
    ],
)
def test_a_grid_that_cannot_be_shown_is_refused_before_it_is_simulated(resources, factors, told):
    from perfkit.plots.live.grid import live_what_if

    def never(_):
        raise AssertionError

    with pytest.raises(SettingError, match=told):
        live_what_if(never, resources, factors)


def test_a_grid_tells_its_progress(stack):
    from perfkit.plots.live.grid import live_roofs

    dag = pk.Dag.from_nodes("LMA", [[], [0], [1]], level=["L1", None, None])
    scheduler = pk.DagScheduler(pk.DagCore.sandy_bridge_erm(), record=False)
    told = []
    model = live_roofs(
        scheduler.run(dag).roofline(),
        pk.rescheduler(dag, scheduler),
        {"latency_A": [1, 2]},
        progress=lambda done, total: told.append((done, total)),
    )
    assert told == [(0, 3), (1, 3), (2, 3), (3, 3)]  # its own latency is added
    head, _ = unpacked(model.packed())
    assert head["axes"][0]["values"] == [1.0, 2.0, 3.0]
