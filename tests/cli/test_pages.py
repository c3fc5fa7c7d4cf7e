"""Pages without a network: formulas, libraries, and no address that a browser would ask."""

import base64
import re

import nbformat
import pytest

from perfkit.cli.pages import Site, page_of, single_page
from perfkit.cli.pages.formulas import with_pictures
from perfkit.cli.pages.page import bundle

VIEW = "application/vnd.jupyter.widget-view+json"
_ASKS = re.compile(r"""(?:src|href)=["'](?:https?:)?//[^"']+""")


def notebook(*cells):
    nb = nbformat.v4.new_notebook(cells=list(cells))
    nb.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return nb


def test_formulas_have_no_paper_of_their_own():
    """Inverted on a dark page, their white paper was a black box."""
    (data,) = re.findall(r"base64,([^\"]+)", with_pictures("$$C = b\\,I + \\sum_i p_i$$"))
    drawn = base64.b64decode(data).decode()
    assert "#ffffff" not in drawn
    assert drawn.count("<use") > 3


def test_formulas_become_pictures_and_code_stays():
    text = with_pictures("Let $P = W/T$, code `$x$` and\n\n$$\\bar{P} = \\frac{a}{b}$$\n\n```\n$HOME$\n```")
    assert text.count("<img") == 2
    assert 'alt="P = W/T"' in text
    assert "`$x$`" in text
    assert "$HOME$" in text


@pytest.mark.parametrize("text", ["costs $5 and $6", "no formula", r"a \$ sign"])
def test_other_dollar_signs_stay(text):
    assert with_pictures(text) == text


def test_tex_that_cannot_be_drawn_is_shown_as_it_is():
    assert with_pictures(r"$\begin{cases} a & b \end{cases}$").startswith("<code>")


def test_the_bundle_defines_every_library():
    text = bundle()
    for name in ("@jupyter-widgets/controls", "bqplot", "bqscales", "anywidget"):
        assert f'pk.begin("{name}");' in text


def test_a_page_asks_no_network_and_leaves_the_notebook_alone():
    nb = notebook(
        nbformat.v4.new_markdown_cell("# Title\n\n$x^2$"),
        nbformat.v4.new_code_cell("1", outputs=[nbformat.v4.new_output("stream", text="out <b>")]),
    )
    page = page_of(nb, "A & B", Site(bar="line above"))
    assert not _ASKS.findall(page)
    assert "<title>A &amp; B</title>" in page
    assert "line above" in page
    assert "out &lt;b&gt;" in page
    assert nb.cells[0].source.endswith("$x^2$")
    assert "pk.start" not in page  # no views, no libraries


def test_a_view_comes_with_its_picture_and_the_libraries():
    data = {VIEW: {"model_id": "m", "version_major": 2, "version_minor": 0}, "image/png": "iVBORw0K"}
    output = nbformat.v4.new_output("display_data", data)
    nb = notebook(nbformat.v4.new_code_cell("view", outputs=[output]))
    page = single_page(nb, "t")
    assert 'src="data:image/png;base64,iVBORw0K"' in page
    assert "pk.start();" in page
    linked = page_of(nb, "t", Site("assets/widgets.js"))
    assert '<script src="assets/widgets.js" defer></script>' in linked
    assert len(linked) < len(page) - 1_000_000
