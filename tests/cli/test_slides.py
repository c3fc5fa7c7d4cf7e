"""Which cells become slides, and what of them is shown."""

from typing import Any

import pytest

from perfkit.cli.pages import slides_of
from perfkit.cli.pages.formulas import with_pictures
from perfkit.course.answers import Unit
from perfkit.course.units import UNITS
from perfkit.course.versions import notebook_of, read_notebook
from perfkit.errors import FormatError


def cell(source: str, slide: str | None, *outputs: dict[str, Any]) -> dict[str, Any]:
    metadata = {} if slide is None else {"slideshow": {"slide_type": slide}}
    kind = "code" if outputs else "markdown"
    return {"cell_type": kind, "metadata": metadata, "source": source, "outputs": list(outputs)}


def data(**parts: str) -> dict[str, Any]:
    names = {"png": "image/png", "html": "text/html", "plain": "text/plain", "view": VIEW}
    return {"output_type": "display_data", "data": {names[name]: part for name, part in parts.items()}}


VIEW = "application/vnd.jupyter.widget-view+json"


def test_slides_begin_go_on_and_leave_out():
    page = slides_of(
        {
            "cells": [
                cell("before the first", None),
                cell("# A & B", "slide"),
                cell("secret = 1", "skip", {"output_type": "stream", "name": "stdout", "text": "skipped"}),
                cell("for the speaker", "notes"),
                cell("code not shown", "-", data(png="QUJD", plain="<Figure>", view="x")),
                cell("more", "subslide", {"output_type": "stream", "name": "stdout", "text": "a < b"}),
                cell("## Next", "slide"),
            ]
        },
        "A <b> title",
    )
    first, second, third = page.split('<section class="slide">')[1:]
    assert "<h1" in first
    assert "data:image/png;base64,QUJD" in first
    assert "&lt;Figure&gt;" not in first
    assert '<h2 class="again">A &amp; B</h2>' in second  # a subslide goes on under the last heading
    assert "<pre>a &lt; b</pre>" in second
    assert "again" not in third
    for hidden in ("before the first", "secret", "skipped", "for the speaker", "code not shown"):
        assert hidden not in page
    assert "<title>A &lt;b&gt; title</title>" in page


def test_a_question_and_a_folded_answer_are_shown_as_html_and_errors_output_is_not():
    folded = data(html="<details><summary>Answer</summary>8</details>", png="QUJD", view="x")
    told = {"output_type": "stream", "name": "stderr", "text": "a warning"}
    page = slides_of({"cells": [cell("x", "slide", folded, told)]}, "t")
    assert "<details><summary>Answer</summary>8</details>" in page
    assert "QUJD" not in page
    assert "a warning" not in page


def test_a_page_may_ask_nobody_for_anything():
    page = slides_of({"cells": [cell("# A", "slide")]}, "t")
    assert "default-src 'none'" in page


def test_a_notebook_without_slides_is_refused():
    with pytest.raises(FormatError, match="begins a slide"):
        slides_of({"cells": [cell("# A", None)]}, "t")


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_every_formula_of_the_course_becomes_a_picture(unit: Unit):
    for one in read_notebook(notebook_of(unit))["cells"]:
        if one["cell_type"] == "markdown":
            assert "<code>" not in with_pictures(one["source"]), one["source"]  # what cannot be drawn stays as its TeX
