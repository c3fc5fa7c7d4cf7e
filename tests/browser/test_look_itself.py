"""The eye of the gate sees planted faults, and sees none on a page without."""

from pathlib import Path
from typing import Any

import pytest

from tests.browser.look import EYE

pytestmark = pytest.mark.browser

PAGE = (
    "<!DOCTYPE html><html><body style='background:{paper};color:{ink}'><div class='area'>{content}</div></body></html>"
)
SVG = "<svg width='300' height='80' style='background:none'>{}</svg>"

PLANTED = {
    "clipped": SVG.format("<text x='250' y='30' font-size='14'>a label that ends outside</text>"),
    "overlap": SVG.format("<text x='10' y='30'>first label</text><text x='30' y='32'>second label</text>"),
    "small": SVG.format("<text x='10' y='30' font-size='6'>six pixels</text>"),
    "faint text": "<p style='color:#bbb'>hardly there</p>",
    "faint line": SVG.format("<path class='line' d='M0,0L90,60' style='stroke:#eee;fill:none'/>"),
    "ellipsis": "<p style='width:60px;overflow:hidden;text-overflow:ellipsis;white-space:nowrap'>long description</p>",
    "raw output": "<pre>&lt;Axes: xlabel='cycles'&gt;</pre>",
    "cut cell": "<table><tr><td>the first words of an ans...</td></tr></table>",
}
SOUND = (
    "<p>A sentence.</p><table><tr><td>whole answer.</td></tr></table>"
    + SVG.format("<path class='line' d='M0,0L90,60' style='stroke:#222;fill:none'/><text x='120' y='30'>a label</text>")
    + "<div style='height:40px;overflow:auto'><p>one</p><p>two, scrolled out of sight</p></div>"
)


@pytest.fixture
def faults(browser: Any) -> Any:
    page = browser.new_page(viewport={"width": 900, "height": 700})

    def look(content: str, paper: str = "#fff", ink: str = "#222") -> list[str]:
        page.set_content(PAGE.format(content=content, paper=paper, ink=ink))
        return [fault["fault"] for fault in page.evaluate(EYE, ".area")]

    yield look
    page.close()


@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_is_seen(faults: Any, fault: str):
    assert fault in faults(PLANTED[fault])


def test_a_sound_page_has_none(faults: Any):
    assert faults(SOUND) == []


def test_a_dark_line_is_seen_on_a_dark_page_only(faults: Any):
    assert faults(SOUND.replace("<text", "<text fill='#eee'"), paper="#111", ink="#eee") == ["faint line"]


def test_a_notebook_without_its_pictures_is_told(tmp_path: Path):
    from tests.browser.look import Seen

    seen = Seen("40", pictures=0)
    seen.add("900 dark", [{"place": 3, "fault": "clipped", "text": "axis"}])
    seen.add("1200 dark", [{"place": 3, "fault": "clipped", "text": "axis"}])
    assert seen.report() == ["40: cell 3: clipped: axis [900 dark, 1200 dark]"]
