"""The eye of the gate sees planted faults, and sees none on a page without."""

import base64
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.browser.inked import Eye, of_axes
from tests.browser.lab import ROOT, Lab
from tests.browser.look import CANVAS, EYE, in_pictures, operate_all, run_all

pytestmark = pytest.mark.browser

PAGE = (
    "<!DOCTYPE html><html><body style='background:{paper};color:{ink}'><div class='area'>{content}</div></body></html>"
)
SVG = "<svg width='300' height='80' style='background:none'>{}</svg>"

DOTS = "<path d='M10 30h.01M20 30h90' style='stroke:#7B8794;opacity:.6;stroke-width:4'/>"
PALE = b"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 18 18'><path fill='#dddddd' d='M5 6L9 9l4-3z'/></svg>"
MARK = '"data:image/svg+xml;base64,' + base64.b64encode(PALE).decode() + '"'
CANVAS_WITH = (
    "<canvas width='200' height='50'></canvas><script>{{ const c = document.querySelector('canvas').getContext('2d'); "
    "c.clearRect(0, 0, 200, 50); c.font = '13px sans-serif'; {} }}</script>"
)

PLANTED = {
    "clipped": SVG.format("<text x='250' y='30' font-size='14'>a label that ends outside</text>"),
    "overlap": SVG.format("<text x='10' y='30'>first label</text><text x='30' y='32'>second label</text>"),
    "small": SVG.format("<text x='10' y='30' font-size='6'>six pixels</text>"),
    "faint text": "<p style='color:#bbb'>hardly there</p>",
    "faint line": SVG.format("<path class='line' d='M0,0L90,60' style='stroke:#eee;fill:none'/>"),
    "faint line: under a brush": SVG.format(
        "<path class='line' d='M0,0L90,60' style='stroke:#0072B2;fill:none'/>"
        "<rect class='selection' width='200' height='60' style='fill:#D55E00;fill-opacity:0.6'/>"
    ),
    "ellipsis": "<p style='width:60px;overflow:hidden;text-overflow:ellipsis;white-space:nowrap'>long description</p>",
    "raw output": "<pre>&lt;Axes: xlabel='cycles'&gt;</pre>",
    "scrollbar": "<div style='width:200px;overflow:auto'><div style='width:230px'>a little too wide</div></div>",
    "wide table": "<div style='width:200px;overflow:auto'><table class='dataframe'><thead><tr>"
    "<th style='min-width:150px'>run</th><th style='min-width:150px'>verdict</th></tr></thead></table></div>",
    "wide table: with a format": "<div style='width:200px;overflow:auto'><table id='T_1'><thead><tr>"
    "<th style='min-width:150px'>run</th><th style='min-width:150px'>verdict</th></tr></thead></table></div>",
    "cut field": "<input value='0.251331, 0.392097, 0.717282, 1.06506' style='width:60px'>",
    "struck": SVG.format(
        "<g class='axis' transform='translate(20,40)'><path class='domain' d='M0,6V0H200V6' style='stroke:#222'/>"
        "<g class='tick'><text y='12' text-anchor='middle'>0</text></g></g>"
    ),
    "broken word": "<pre style='width:70px;white-space:pre-wrap;word-break:break-all'>the hottest functions</pre>",
    "twice": 2 * "<img src='data:image/gif;base64,R0lGODlhAQABAAAAACH5BAEKAAEALAAAAAABAAEAAAICTAEAOw=='>",
    "faint line: dots of a live view": f"<div class='pkl-chart'>{SVG.format(DOTS)}</div>",
    "faint line: a bar": "<p class='pkl-bar'><i style='display:block;width:30px;height:9px;background:#acc'></i></p>",
    "faint line: the mark of a list": f"<select style='background:#fff url({MARK})'><option>one</option></select>",
    "faint line: a bar on a canvas": CANVAS_WITH.format("c.fillStyle = '#bbb'; c.fillRect(10, 10, 50, 9)"),
    "faint text: on a canvas": CANVAS_WITH.format("c.fillStyle = '#aaa'; c.fillText('hardly there', 10, 30)"),
    "faint text: on a bar of a canvas": CANVAS_WITH.format(
        "c.fillStyle = '#333'; c.fillRect(0, 0, 200, 14); c.fillStyle = '#111'; c.fillText('hardly there', 10, 11)"
    ),
    "small: on a canvas": CANVAS_WITH.format("c.font = '7px sans-serif'; c.fillText('seven pixels', 10, 30)"),
    "missing value": "<table><tr><td>front_end</td><td>NaN</td></tr></table>",
    "negative zero": "<p>R² -0.00 in sample</p>",
    "crowded": SVG.format(
        "<g class='axis'><text class='axislabel' x='90' y='30' text-anchor='end'>CPI</text>"
        "<g class='tick'><text x='91' y='30'>0.5</text></g></g>"
    ),
    "cut cell": "<table><tr><td>the first words of an ans...</td></tr></table>",
}
SOUND = (
    "<p>A sentence.</p><table><tr><td>whole answer.</td></tr></table>"
    + SVG.format("<path class='line' d='M0,0L90,60' style='stroke:#222;fill:none'/><text x='120' y='30'>a label</text>")
    + "<p style='width:60px;overflow-wrap:anywhere'>hottest functions one_name_<wbr>of_parts averylongwordwithout</p>"
    + CANVAS_WITH.format(
        "c.fillStyle = '#0072B2'; c.fillRect(0, 0, 90, 14);"
        "c.fillStyle = getComputedStyle(document.body).color; c.fillText('a label', 99, 11)"
    )
    + "<table><tr><td>none</td><td>–</td><td>1-0.05</td></tr></table>"
    + "<input value='0.25, 0.39' style='width:200px'>"
    + "<div style='height:40px;overflow:auto'><p>one</p><p>two, scrolled out of sight</p></div>"
)


PICTURES = {
    "overlap in picture": lambda ax: (ax.text(0.3, 0.5, "first label"), ax.text(0.33, 0.505, "second label")),
    "clipped in picture": lambda ax: ax.figure.text(0.9, 0.5, "a label that ends outside"),
    "faint text in picture": lambda ax: ax.text(0.1, 0.5, "hardly there", color="#bbb"),
    "axis without a name": lambda ax: ax.set_xlabel(""),
    "legend over data": lambda ax: (ax.plot([0, 1], [0, 1], label="a line"), ax.legend(loc="lower left")),
    "legend over data: one dot": lambda ax: (ax.plot([0, 1], [0, 1], "o", label="dots"), ax.legend(loc="lower left")),
    "faint line in picture": lambda ax: ax.plot([0, 1], [0, 1], color="0.5", lw=0.9, ls=":", label="peak"),
    "squeezed axes": lambda ax: ax.set_yticks([0.5], ["a name that leaves no room for what it is the name of"]),
    "invisible text in picture": lambda ax: ax.text(0.1, 0.5, "white on white", color="white"),
}


@pytest.fixture
def drawn(tmp_path: Path) -> Any:
    """Draw a picture as a kernel does, and return what was seen of it."""
    from matplotlib.figure import Figure

    def draw(plant: Any, paper: str = "white") -> dict[str, Any]:
        figure = Figure(figsize=(5, 3), dpi=100, facecolor=paper, layout="constrained")
        ax = figure.subplots()
        ax.set(xlabel="cycles", ylabel="events", title="a sound title $x^2$")
        plant(ax)
        with Eye() as eye:
            figure.savefig(tmp_path / "drawn.png")
        return {"size": eye.size, "smallest": eye.smallest, "faults": eye.faults + of_axes(ax)}

    return draw


@pytest.mark.parametrize("fault", PICTURES)
def test_a_fault_planted_in_a_picture_is_seen(drawn: Any, fault: str):
    assert fault.partition(":")[0] in [found for found, _ in drawn(PICTURES[fault])["faults"]]


def test_a_sound_picture_has_none(drawn: Any):
    seen = drawn(lambda ax: ax.text(0.5, 0.5, "turned", rotation=90))
    assert seen["faults"] == []
    assert seen["size"] == (500, 300)


def test_a_formula_is_as_wide_as_it_is_drawn(drawn: Any):
    # Read as plain text, the power would reach far over the edge.
    assert drawn(lambda ax: ax.figure.text(0.95, 0.5, r"$\mathdefault{10^{4}}$"))["faults"] == []


def test_a_picture_without_paper_is_held_against_both_themes(drawn: Any):
    assert {found for found, _ in drawn(lambda _: None, paper="none")["faults"]} == {"faint text in picture"}


def test_a_picture_that_the_page_shrinks_has_small_text():
    one = {"size": [1600, 400], "smallest": [14.0, "tick"], "faults": [["clipped in picture", "title"]]}
    shown = {"place": 7, "size": [1600, 400], "shown": 640.0}
    assert in_pictures([shown], [one]) == [
        {"place": 7, "fault": "clipped in picture", "text": "title"},
        {"place": 7, "fault": "small in picture", "text": "tick (5.6 px)"},
    ]
    assert [fault["place"] for fault in in_pictures([], [one])] == ["drawn"]


def test_every_picture_of_a_kernel_is_told(tmp_path: Path):
    code = (
        "from pathlib import Path; import sys, matplotlib; matplotlib.use('agg')\n"
        "from tests.browser.inked import watch; watch(Path(sys.argv[1]))\n"
        "from matplotlib.figure import Figure\n"
        "figure = Figure(); ax = figure.subplots(); ax.text(0.9, 0.5, 'a label that ends outside'); ax.axis('off')\n"
        "figure.savefig(sys.argv[1] + '/one.png'); figure.savefig(sys.argv[1] + '/two.png')\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, cwd=ROOT)
    told = [json.loads(line) for line in (tmp_path / "pictures.jsonl").read_text().splitlines()]
    assert [[fault for fault, _ in one["faults"]] for one in told] == 2 * [["clipped in picture"]]


@pytest.fixture
def faults(browser: Any) -> Any:
    page = browser.new_page(viewport={"width": 900, "height": 700})
    page.add_init_script(CANVAS)
    page.goto("about:blank")

    def look(content: str, paper: str = "#fff", ink: str = "#222") -> list[str]:
        page.set_content(PAGE.format(content=content, paper=paper, ink=ink))
        return [fault["fault"] for fault in page.evaluate(EYE, ".area")]

    yield look
    page.close()


@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_is_seen(faults: Any, fault: str):
    assert fault.partition(":")[0] in faults(PLANTED[fault])


def test_a_sound_page_has_none(faults: Any):
    assert faults(SOUND) == []


def test_dots_within_the_padding_of_a_button_are_seen(faults: Any):
    style = "box-sizing:border-box;width:34px;padding:0 12px;border:0;overflow:hidden;text-overflow:ellipsis"
    # By the fonts of the machine, the text may also reach over the button's edge.
    assert "ellipsis" in faults(f"<button style='{style};white-space:nowrap'>▲▲</button>")
    assert faults(f"<button style='{style.replace('34', '60')};white-space:nowrap'>▲▲</button>") == []


def test_a_dark_line_is_seen_on_a_dark_page_only(faults: Any):
    assert faults(SOUND.replace("<text", "<text fill='#eee'"), paper="#111", ink="#eee") == ["faint line"]


# As a kernel that takes a second: it enables the button after a choice, and locks all after a click on it.
ASKED = """<div class='jp-OutputArea-output'><div class='pk-view'>
<input type='radio'><button disabled>Commit</button></div></div>
<script>
const [radio, button] = document.querySelectorAll('input, button');
const later = act => setTimeout(act, 1000);
radio.onclick = () => later(() => { button.disabled = false; });
button.onclick = () => later(() => { button.disabled = radio.disabled = true; document.body.append('seen'); });
</script>"""


def test_an_answer_is_looked_at_also_where_the_kernel_is_slow(browser: Any):
    page = browser.new_page()
    page.set_content(ASKED)
    operate_all(page)
    assert page.get_by_text("seen").count() == 1
    operate_all(page)  # what is committed stays so
    assert page.get_by_text("seen").count() == 1
    page.close()


def test_a_cell_that_fails_is_told_at_once(browser: Any, tmp_path: Path):
    """It waited its whole time: the page tells no error from a warning."""
    lab = Lab(tmp_path / "lab")
    page = browser.new_page()
    try:
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in ("1 / 0", "2")])
        notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
        nbformat.write(notebook, lab.notebooks / "fails.ipynb")
        with pytest.raises(AssertionError, match=r"fails\.ipynb: ZeroDivisionError: division by zero"):
            run_all(page, lab, "fails.ipynb", 60_000)
    finally:
        page.close()
        lab.stop()


def test_a_notebook_without_its_pictures_is_told(tmp_path: Path):
    from tests.browser.look import Seen

    seen = Seen("40", pictures=0)
    seen.add("900 dark", [{"place": 3, "fault": "clipped", "text": "axis"}])
    seen.add("1200 dark", [{"place": 3, "fault": "clipped", "text": "axis"}])
    assert seen.report() == ["40: cell 3: clipped: axis [900 dark, 1200 dark]"]
