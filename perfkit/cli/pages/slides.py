"""Slides of an executed notebook: one HTML file that asks no network for anything.

Which cells are slides, their metadata say, as for JupyterLab's own slideshow: ``slide`` and ``subslide`` begin one,
``-`` goes on, ``skip`` and ``notes`` are left out. Code is not shown, what it made is; views are their pictures.
"""

import base64
import html
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from perfkit.errors import FormatError

_VIEW = "application/vnd.jupyter.widget-view+json"
_HEADING = re.compile(r"^#{1,2} +(.+?) *$", re.M)
_BEGIN, _OUT = ("slide", "subslide"), ("skip", "notes")


def slides_of(notebook: Any, title: str) -> str:
    """Return the page of an executed notebook's slides.

    Raises
    ------
    FormatError
        No cell says that it begins a slide.
    """
    slides: list[list[str]] = []
    heading = ""
    for cell in notebook["cells"]:
        kind = cell["metadata"].get("slideshow", {}).get("slide_type", "-")
        if kind in _OUT:
            continue
        found = _HEADING.search(cell["source"]) if cell["cell_type"] == "markdown" else None
        if kind in _BEGIN:
            # A subslide without a heading of its own goes on under the last one.
            slides.append([] if found or not heading else [f'<h2 class="again">{html.escape(heading)}</h2>'])
        if slides:
            slides[-1] += _shown(cell)
        heading = found[1] if found else heading
    if not slides:
        raise FormatError(f"{title}: no cell begins a slide (View, Right Sidebar, Slide Type in JupyterLab)")
    page = Path(__file__).with_suffix(".html").read_text(encoding="utf-8")
    made = "\n".join(f'<section class="slide"><div class="fit">{"".join(parts)}</div></section>' for parts in slides)
    return page.replace("{{title}}", html.escape(title)).replace("{{slides}}", made)


def _shown(cell: Any) -> Iterator[str]:
    if cell["cell_type"] == "markdown":
        from nbconvert.filters.markdown import markdown2html

        from perfkit.cli.pages.formulas import with_pictures

        yield str(markdown2html(with_pictures(cell["source"])))
    for output in cell.get("outputs", []):
        if made := _output(output):
            yield f'<div class="output">{made}</div>'


def _output(output: Any) -> str:
    """Return an output as HTML: its own, or its picture, or its text."""
    data = output.get("data", {})
    if "text/html" in data:
        return str(data["text/html"])
    if "image/png" in data:
        picture = (
            data["image/png"] if isinstance(data["image/png"], str) else base64.b64encode(data["image/png"]).decode()
        )
        return f'<img alt="A picture that this slide\'s code drew" src="data:image/png;base64,{picture.strip()}">'
    text = output.get("text", "") if output.get("name") != "stderr" else ""
    text = text or ("" if _VIEW in data else data.get("text/plain", ""))
    return f"<pre>{html.escape(''.join(text))}</pre>" if "".join(text).strip() else ""
