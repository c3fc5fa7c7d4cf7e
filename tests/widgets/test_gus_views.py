"""The views of Gus's results, without a kernel and without Gus: they draw what they are handed."""

import re
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

import perfkit as pk
import perfkit_widgets as pw
from perfkit.errors import DataError, SettingError
from perfkit.plots.gus import plot_ladder
from perfkit.plots.noise import plot_strips
from perfkit.plots.style import LESS, MORE


def ranking(weight: float = 2.0) -> pd.DataFrame:
    gains = {"p01": 0.2 * (weight - 1), "rob": 0.05, "L2_latency": 0.0}
    frame = pd.DataFrame({"resource": list(gains), f"x{weight:g}": list(gains.values())})
    return frame.sort_values(f"x{weight:g}", ascending=False, kind="stable").reset_index(drop=True)


@pytest.fixture
def frame() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "pc": [0x400, 0x404, 0x408, 0x410],
            "function": "f",
            "text": ["vmovaps ymm2,[rdi]", "vfmadd231ps ymm0,ymm1,ymm2", "dec rax", "jne 400h"],
            "att": ["vmovaps (%rdi),%ymm2", "vfmadd231ps %ymm2,%ymm1,%ymm0", "dec %rax", "jne 0x400"],
            "block": [0, 0, 0, 0],
            "executions": [100, 100, 100, 100],
            "slots": [1, 1, 1, 1],
            "latency": [7.0, 4.0, 1.0, np.nan],
            "inverse_throughput": [0.5, 0.5, 0.25, 0.5],
            "time_share": [0.1, 0.8, 0.1, 0.0],
            "cause": ["retire", "instruction_latency", "retire", ""],
            "file": ["k.c", "k.c", "k.c", ""],
            "line": pd.array([4, 5, 3, pd.NA], dtype="Int64"),
            "source_line": ["y = a[i];", "s += y * w;", "for (; n; n--)", ""],
            "p01": [0.0, 1.0, 0.0, 0.0],
            "p23": [1.0, 0.0, 0.0, 0.0],
        }
    )


@pytest.fixture
def schedule() -> pd.DataFrame:
    n = np.arange(1000, 1060)
    start = 4.0 * (n - 1000)
    return pd.DataFrame(
        {
            "n": n,
            "instruction": n % 2,
            "text": np.where(n % 2, "vfmadd231ps ymm0,ymm1,ymm2", "vfmadd231ps ymm0,ymm1,ymm3"),
            "dispatch": (n - 1000) / 4,
            "start": start,
            "end": start + 4,
            "retire": start + 4.25,
            "parent": np.where(n > 1000, n - 1, -1),
        }
    )


@dataclass(frozen=True)
class Window:
    """What perfkit.timeline returns, by hand: two ports, the second instruction waits for the first."""

    schedule: pd.DataFrame
    resources: pd.DataFrame
    uses: pd.DataFrame
    producers: pd.DataFrame
    complete: tuple[float, float] = (0.0, 100.0)


@pytest.fixture
def window(schedule) -> Window:
    uses = schedule.assign(resource=np.where(schedule["n"] % 2, "p0", "p1"), lane=0, end=schedule["start"] + 1)
    return Window(
        schedule,
        pd.DataFrame({"resource": ["p0", "p1"], "kind": "ports", "units": [1, 1], "busy": [0.125, 0.125]}),
        uses[["resource", "lane", "n", "start", "end"]],
        pd.DataFrame({"n": schedule["n"][1:], "producer": schedule["n"][:-1].to_numpy(), "through": "register"}),
    )


# ------------------------------------------------------------- SensitivityView


def test_the_slider_calls_the_function_once_a_weight():
    calls = []
    view = pw.SensitivityView(lambda w: calls.append(w) or ranking(w), weight=2.0)
    assert view._bars.names == ["p01", "rob", "L2_latency"]
    assert view._bars.bars.y.tolist() == pytest.approx([20, 5, 0])
    view._slider.value = 1.1  # at this weight the buffer wins
    assert view._bars.names[0] == "rob"
    view.weight = 2.0
    assert calls == [2.0, 1.1]


def test_choosing_a_resource_says_what_it_is_worth():
    view = pw.SensitivityView(ranking)
    assert view.resource == "p01"
    assert "20.0% faster" in view._words.value
    view._bars.bars.selected = [2]
    assert view.resource == "L2_latency"
    assert "no difference" in view._words.value
    with pytest.raises(SettingError, match="no resource 'p9'"):
        view.resource = "p9"


def test_a_resource_that_costs_cycles_says_so_and_has_a_bar():
    """It said "no difference", and its bar lay over the names."""
    view = pw.SensitivityView(lambda weight: pd.DataFrame({"resource": ["p0", "rob"], f"{weight}x": [0.1, -0.25]}))
    view.resource = "rob"
    assert "25.0% slower" in view._words.value
    assert view._bars._across.scale.min == pytest.approx(-26.5)


def test_weights_stay_on_the_slider():
    view = pw.SensitivityView(ranking, weights=(1.1, 3.0))
    view.weight = 100.0
    assert view.weight == view._slider.value == 3.0
    with pytest.raises(SettingError, match="larger one"):
        pw.SensitivityView(ranking, weights=(2.0, 1.0))


# ------------------------------------------------------------- DiffView


@pytest.fixture(scope="module")
def change():
    runs = [pk.Gus("zen4").run(pk.datasets.load(f"traces/correlation-{v}-small").head(4000)) for v in ("v1", "v2")]
    return pk.diff(*runs, names=("v1", "v2"))


def test_a_comparison_shows_causes_lines_and_resources(change):
    view = pw.DiffView(change)
    assert "A: v1; B: v2." in view._head.value
    first = change.by_cause().iloc[0]
    assert first["cause"] in view._bars.value
    assert f"({first['change']:+,.0f})" in view._bars.value
    view._choose.value = "line"
    assert view.by == "line"
    assert change.to_frame()["place_b"].iloc[0] in view._bars.value
    assert view.table() is view._changes["line"]
    view.by = "resource"
    assert f"{change.bottlenecks[1]}: B" in view._bars.value
    assert view._choose.value == "resource"
    assert view.picture().axes[0].get_xlabel().splitlines()[0] == "gain of the simulated run (%)"


def test_fewer_and_more_have_the_colours_of_the_pictures(change):
    """Fewer cycles were blue in the view and green in the picture, and more of them orange and red."""
    css = (Path(pw.__file__).parent / "static/frame.css").read_text()
    expected = [re.search(rf"\.pk-{kind}\b[^{{]*{{ background: (#\w+); }}", css).group(1) for kind in ("less", "more")]
    drawn = change.plot(ax=Figure().subplots())
    widths = {bar.get_width(): to_hex(bar.get_facecolor()) for bar in drawn.patches}
    assert {colour for width, colour in widths.items() if width < 0} <= {expected[0].lower()}
    assert {colour for width, colour in widths.items() if width > 0} <= {expected[1].lower()}
    assert len(set(widths.values())) > 0
    assert [expected[0], expected[1]] == [LESS, MORE]


def test_figures_per_call_are_called_so(change):
    view = pw.DiffView(replace(change, calls=(2, 3)))
    view.line = int(change.table.index[0])
    for shown in (view._head.value, view._bars.value, view._code.value):
        assert "ycles per call" in shown
    view.by = "line"
    assert view.picture().axes[0].get_xlabel().splitlines()[0] == "change of the simulated cycles per call"


def test_a_lines_instructions_stand_beside_each_other(change):
    view = pw.DiffView(change)
    rows = change.aligned()
    table = change.table
    most = (table["cycles_b"] - table["cycles_a"]).abs().idxmax()
    assert view.line == most
    mine = rows[rows["line"] == most]
    assert mine["address_a"].iloc[0] in view._code.value  # the line is not in B
    assert set(mine["instruction_b"]) == {""}
    # Beside it stands the costliest of the lines that B alone has.
    new = table[(table["place_a"] == "") & (table["place_b"] != "")]["cycles_b"].idxmax()
    assert f"not in B, which has {table.loc[new, 'place_b']} that A lacks" in view._code.value
    assert rows[rows["line"] == new]["address_b"].iloc[0] in view._code.value
    view.line = int(table[(table["place_a"] != "") & (table["place_b"] != "")]["cycles_b"].idxmax())
    assert "not in" not in view._code.value
    view._lines.value = int(rows["line"].iloc[-1])
    assert view.line == rows["line"].iloc[-1]
    with pytest.raises(SettingError, match="there is no line 99999"):
        view.line = 99999


# ------------------------------------------------------------- WhatIf


@dataclass(frozen=True)
class Simulated:
    cycles: float
    weight: float

    def to_frame(self) -> pd.DataFrame:
        return ranking(self.weight)


def test_moving_a_slider_simulates_the_changed_core():
    calls = []
    view = pw.WhatIf(
        lambda factors: calls.append(factors) or Simulated(1000 / factors.get("p01", 1), 2 - 0.9 * ("p01" in factors)),
        {"p01": "2 uops/cycle", "rob": "224 entries"},
    )
    assert "Next bottleneck: p01" in view._words.value
    assert "no faster than the core as it is" in view._words.value
    assert "the core as it is: 1,000 cycles (simulated)" in view.picture().axes[0].get_title()
    view.sliders["p01"].value = 2.0
    assert view.capacities == {"p01": 2.0}
    assert view.speedup == pytest.approx(1.0)
    assert "<b>500 cycles</b>: 2 times as fast as the core as it is" in view._words.value
    assert "p01 x2: 500 cycles, 2 times as fast as the core as it is" in view.picture().axes[0].get_title()
    assert "Next bottleneck: rob" in view._words.value
    view._reset.click()
    assert view.sliders["p01"].value == 1.0
    assert view.speedup == 0.0
    assert calls == [{}, {"p01": 2.0}]


def test_a_factor_can_be_set_from_another_cell_within_bounds():
    view = pw.WhatIf(lambda f: Simulated(10.0, 2.0), {"rob": "224 entries"})
    view.capacities = {"rob": 0.5}
    assert view.sliders["rob"].value == 0.5
    with pytest.raises(SettingError, match="no slider for p7"):
        view.capacities = {"p7": 2.0}
    with pytest.raises(SettingError, match=r"0\.25 to 4"):
        view.capacities = {"rob": 9.0}


# ------------------------------------------------------------- ListingView


def test_a_click_in_the_browser_reaches_the_view(frame):
    view = pw.ListingView(frame, [0.0, 1.0, 0.0, 0.0])
    assert view.instruction is None
    view.listing.set_state({"selected": 1})  # what the browser sends
    assert view.selected == 1
    assert view.instruction["text"].startswith("vfmadd231ps")
    with pytest.raises(SettingError, match="no instruction 4"):
        view.selected = 4


def test_the_table_is_what_is_shown(frame):
    view = pw.ListingView(frame, [0.3, 0.7, 0.0, 0.0])
    view.sort = "causality"
    assert view.table()["pc"].tolist() == [0x404, 0x400, 0x408, 0x410]
    assert view.listing.sort == "causality"
    view.listing.set_state({"search": "YMM2", "descending": False})
    assert view.table()["pc"].tolist() == [0x400, 0x404]
    with pytest.raises(SettingError, match="no column 'speed'"):
        view.sort = "speed"


def test_cells_are_heated_by_kind_and_missing_stays_missing(frame):
    view = pw.ListingView(frame, [0.3, 0.7, 0.0, 0.0])
    columns = {c["key"]: c for c in view.listing.columns}
    assert [k for k, c in columns.items() if c["kind"] == "resource"] == ["p01", "p23"]
    assert columns["time_share"]["most"] == 0.8
    assert columns["causality"]["most"] == 0.7
    latency = list(columns).index("latency")
    assert [row[latency] for row in view.listing.rows] == [7, 4, 1, None]


def test_source_lines_are_shown_searched_and_sorted(frame):
    view = pw.ListingView(frame)
    columns = {c["key"]: c for c in view.listing.columns}
    assert columns["line"]["kind"] == "source"
    assert columns["source_line"]["kind"] == columns["file"]["kind"] == "hidden"
    at = list(columns).index("line")
    assert [row[at] for row in view.listing.rows] == [4, 5, 3, None]
    view.search = "for (;"
    assert view.table()["pc"].tolist() == [0x408]
    view.search = ""
    view.listing.set_state({"sort": "line", "descending": False})
    assert view.table()["line"].tolist()[1:] == [3, 4, 5]
    assert "line" not in [c["key"] for c in pw.ListingView(frame.assign(line=pd.NA)).listing.columns]


def test_a_listing_of_one_syntax_offers_no_other(frame):
    """The button wrote "AT&T" over Intel's syntax, and moved the column to the right."""
    one = pw.ListingView(frame.drop(columns="att", errors="ignore"))
    assert "att" not in [column["key"] for column in one.listing.columns]  # which is when the button is hidden


def test_a_listing_refuses_what_does_not_fit(frame):
    with pytest.raises(DataError, match="3 shares of causality for 4"):
        pw.ListingView(frame, [0, 0, 1])
    with pytest.raises(DataError, match="pc"):
        pw.ListingView(frame.drop(columns="pc"))


# ------------------------------------------------------------- TimelineView


def test_the_canvas_gets_the_times_as_they_are(schedule):
    view = pw.TimelineView(schedule)
    sent = np.frombuffer(view.canvas.times).reshape(-1, 8)
    assert sent[:, :4].tolist() == schedule[["dispatch", "start", "end", "retire"]].to_numpy().tolist()
    assert [view.canvas.texts[int(k)] for k in sent[:, 4]] == schedule["text"].tolist()
    assert sent[:, 5].tolist() == schedule["parent"].tolist()
    assert sent[:, 6].tolist() == schedule["operate" if "operate" in schedule else "start"].tolist()


def test_the_canvas_gets_what_was_waited_for(schedule, window):
    assert pw.TimelineView(schedule).canvas.waits == [""]
    through = np.where(schedule["n"] % 2, "p0", "a cache line")
    view = pw.TimelineView(Window(schedule.assign(through=through), window.resources, window.uses, window.producers))
    sent = np.frombuffer(view.canvas.times).reshape(-1, 8)
    assert [view.canvas.waits[int(k)] for k in sent[:, 7]] == through.tolist()


def test_the_chain_goes_back_to_the_start_of_the_window(schedule):
    view = pw.TimelineView(schedule)
    assert view.chain().empty
    assert pw.TimelineView(schedule, selected=1002).canvas.selected == 1002
    view.canvas.set_state({"selected": 1003})
    assert view.chain()["n"].tolist() == [1003, 1002, 1001, 1000]
    with pytest.raises(SettingError, match="goes from 1000 to 1059"):
        view.selected = 5


def test_a_schedule_with_gaps_is_refused(schedule):
    with pytest.raises(DataError, match="consecutive"):
        pw.TimelineView(schedule.drop(index=3))
    with pytest.raises(DataError, match="parent"):
        pw.TimelineView(schedule.drop(columns="parent"))


def test_resources_are_the_rows_where_the_window_has_them(window):
    view = pw.TimelineView(window, selected=1003)
    assert view.mode == view.canvas.mode == "resources"
    sent = np.frombuffer(view.canvas.uses).reshape(-1, 5)
    assert [view.canvas.resources[int(k)]["name"] for k in sent[:, 0]] == window.uses["resource"].tolist()
    assert sent[:, 2:].tolist() == window.uses[["n", "start", "end"]].to_numpy().tolist()
    assert np.frombuffer(view.canvas.producers).reshape(-1, 2)[2].tolist() == [1003, 1002]
    assert view.producers()["producer"].tolist() == [1002]
    assert view.table()["text"].iloc[3] == window.schedule["text"].iloc[3]
    view.canvas.set_state({"mode": "instructions"})  # what the browser sends
    assert view.mode == "instructions"
    assert list(view.table()) == list(window.schedule)


def test_a_schedule_has_no_resources(schedule):
    view = pw.TimelineView(schedule)
    assert view.mode == "instructions"
    with pytest.raises(SettingError, match=r"pk\.timeline"):
        view.mode = "resources"
    with pytest.raises(SettingError, match=r"pk\.timeline"):
        view.producers()


# ------------------------------------------------------------- all of them


def test_each_view_travels_with_a_picture_that_says_simulated(frame, schedule, window):
    views = [
        pw.SensitivityView(ranking),
        pw.WhatIf(lambda f: Simulated(10.0, 2.0), {"rob": "224 entries"}),
        pw.ListingView(frame, [0.0, 1.0, 0.0, 0.0]),
        pw.TimelineView(schedule),
        pw.TimelineView(window),
        pw.TimelineView(window, selected=1010),
    ]
    for view in views:
        axes = view.picture().axes[0]
        assert "simulated" in f"{axes.get_title()} {axes.get_xlabel()}"
        assert view.png().startswith(b"\x89PNG")
        assert "image/png" in view._repr_mimebundle_()


def test_the_browser_code_is_in_the_package():
    from perfkit_widgets.listing_view import Listing
    from perfkit_widgets.timeline_view import Canvas

    for widget in (Listing(), Canvas()):
        assert "export default" in widget._esm
        assert ".pk-" in widget._css


def test_a_ranking_has_no_colour_that_nothing_explains():
    from perfkit_widgets.ranked_bars import RankedBars

    bars = RankedBars("speedup (%)", 3)
    bars.draw(pd.DataFrame({"resource": ["a", "b"], "x2": [0.5, 0.001]}))
    assert len(set(bars.bars.colors)) == 1


def test_causes_and_time_have_the_same_colours_in_every_view_and_picture(frame):
    """Causes were pink in the listing, blue in the source lines and red in the picture."""
    heat = dict(re.findall(r"(time|cause): '([\d, ]+)'", (Path(pw.__file__).parent / "static/listing.js").read_text()))
    expected = {
        share: to_hex([int(part) / 255 for part in heat[kind].split(", ")])
        for share, kind in (("time_share", "time"), ("causality", "cause"))
    }
    view = pw.SourceView(frame, [0.5, 0.25, 0.25, 0.0])
    for share, colour in expected.items():
        view.share = share
        assert {bar.lower() for bar in view._bars.bars.colors} == {colour}
        drawn = view.picture().axes[0]
        assert {to_hex(bar.get_facecolor()) for bar in drawn.patches} == {colour}
    run = pk.Gus("skylake_x").run(pk.datasets.load("traces/fig1a"))
    drawn = run.causality().plot(ax=Figure().subplots())
    assert {to_hex(bar.get_facecolor()) for bar in drawn.patches} == {expected["causality"]}


def test_measured_and_simulated_figures_have_the_same_colours_everywhere():
    """A ladder drew the simulated bars in the blue of what is measured in the curves of noise."""
    columns = {"simulated": "simulated", "measured": "measured", "published": "published"}
    ladder = plot_ladder(pd.DataFrame({name: [10.0, 20.0] for name in columns}), columns, Figure().subplots())
    bars = {group.get_label(): to_hex(group.patches[0].get_facecolor()) for group in ladder.containers}
    noise = plot_strips(pk.datasets.load("noise/zen4/additions"))
    lines = {line.get_label().split(" ")[0].lower(): to_hex(line.get_color()) for line in noise.axes[0].lines}
    assert bars["measured"] == lines["measured"]
    assert bars["simulated"] == lines["simulated"]
    other = plot_ladder(pd.DataFrame({"a": [1.0], "b": [2.0]}), {"a": "one", "b": "other"}, Figure().subplots())
    assert len({to_hex(group.patches[0].get_facecolor()) for group in other.containers}) == 2, "other names differ, too"
