"""Execute every notebook and write static pages that open without a network: gallery/index.html.

    ./kit gallery                       all notebooks
    ./kit gallery --only spire          those whose name holds "spire"; the others' pages stay
    ./kit gallery --out /tmp/pages      elsewhere

Live views on the pages compute in the browser; the other widgets work as far as they need no kernel (hovering,
zooming, links). Where a page's scripts do
not run, each shows its static picture. Everything comes from the installed packages.
"""

import argparse
import base64
import html
import json
import os
import re
import struct
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = ROOT / "notebooks"
_SIGNS = {"cdot": "·", "times": "×", "le": "≤", "ge": "≥", "infty": "∞"}
_CARD = (300, 170)  # pixels of a card's picture
_ELSEWHERE = re.compile(r":$|\b[Bb]elow\b")  # sentences that lead to something which is not on the card
_LINK = re.compile(r"\]\((?!\w+:)([^)#\s]+)\.ipynb")

STYLE = """
body { font: 16px/1.55 system-ui, sans-serif; color: #222; max-width: 1040px; margin: 0 auto; padding: 24px; }
h1 { font-size: 28px; } a { color: #0b5cad; }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(300px, 1fr)); gap: 20px; padding: 0; }
.card { list-style: none; border: 1px solid #ddd; border-radius: 8px; overflow: hidden; background: #fff; }
.card a { display: block; text-decoration: none; color: inherit; height: 100%; }
.card a:hover, .card a:focus { background: #f4f8fc; }
.card .picture { display: block; width: 100%; height: 170px; object-fit: contain; background: #fff;
  border-bottom: 1px solid #eee; }
.card .text { padding: 12px 16px; } .card h2 { font-size: 18px; margin: 0 0 6px; color: #0b5cad; }
.card p { margin: 0; color: #444; font-size: 14px; } .muted { color: #666; font-size: 14px; }
.card .missing { padding: 12px 16px; color: #595959; } .missing h2 { color: inherit; }
@media (prefers-color-scheme: dark) {
  body { background: #111; color: #e0e0e0; color-scheme: dark; } a, .card h2 { color: #7cb7f0; }
  .card { background: #1b1b1b; border-color: #444; } .card a:hover, .card a:focus { background: #26303a; }
  .card .picture { border-color: #444; filter: invert(.9) hue-rotate(180deg); }
  .card p, .card .missing, .card .missing h2, .muted { color: #b8b8b8; }
}
"""


@dataclass(frozen=True)
class Card:
    """What the index says of one page."""

    page: str
    title: str
    text: str
    picture: str
    made: bool = True


def main() -> int:
    """Write the gallery; return 1 where a notebook failed (the others are written)."""
    parser = argparse.ArgumentParser(
        prog="./kit gallery", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=ROOT / "gallery", help="the folder to write (default: gallery/)")
    parser.add_argument("--only", default="", help="execute only notebooks whose name holds this")
    parser.add_argument("--timeout", type=int, default=600, help="seconds a cell may take")
    options = parser.parse_args()
    chosen = [path for path in notebooks() if options.only in path.stem]
    if not chosen:
        names = ", ".join(path.stem for path in notebooks())
        parser.error(f"no notebook's name holds {options.only!r}; there are: {names}")
    if options.timeout < 1:
        parser.error(f"--timeout is at least 1 second; found {options.timeout}")
    if options.out.exists() and not options.out.is_dir():
        parser.error(f"--out names a folder; {options.out} is a file")
    # Kernels import the packages of this checkout, whatever is installed.
    paths = [str(ROOT), str(ROOT / "widgets"), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(p for p in paths if p)
    sys.path[:0] = paths[:2]
    from perfkit.cli.pages.page import bundle

    assets = options.out / "assets"
    assets.mkdir(parents=True, exist_ok=True)
    (assets / "widgets.js").write_text(bundle(), encoding="utf-8")
    failed = []
    write_index(options.out)  # first, so that it can be opened at once and reloaded while the pages are made
    for path in chosen:
        start = time.perf_counter()
        print(f"gallery: {path.name} ...", flush=True)
        try:
            write_page(path, options.out, options.timeout)
        except Exception as error:  # noqa: BLE001 - one notebook's failure must not cost the others
            failed.append(path.name)
            print(f"gallery: {path.name} FAILED: {error}", flush=True)
        else:
            print(f"gallery: {path.name} in {time.perf_counter() - start:.1f} s", flush=True)
        write_index(options.out)  # after each page: what is there can be opened while the others are made
    write_index(options.out)
    print(f"gallery: {options.out / 'index.html'}" + (f"; FAILED: {', '.join(failed)}" if failed else ""))
    return 1 if failed else 0


def notebooks() -> list[Path]:
    """Return all notebooks: those of the methods, then the units of the course."""
    return [*sorted(NOTEBOOKS.glob("*.ipynb")), *sorted((NOTEBOOKS / "course").glob("*.ipynb"))]


def page_name(path: Path) -> str:
    """Return where a notebook's page lies, below the gallery: as the notebook does below its folder."""
    return path.relative_to(NOTEBOOKS).with_suffix(".html").as_posix()


def write_index(out: Path) -> None:
    """Write the index: every notebook, with a link where its page is there."""
    cards = [read_card(path, out) for path in notebooks()]
    (out / "index.html").write_text(index(cards), encoding="utf-8")


def write_page(path: Path, out: Path, timeout: int) -> None:
    """Execute one notebook and write its page and its picture for the index."""
    from perfkit.cli.notebook_runs import execute
    from perfkit.cli.pages import Site, page_of

    page = out / page_name(path)
    page.parent.mkdir(parents=True, exist_ok=True)
    up = "" if page.parent == out else "../"
    with as_shown(path) as shown:
        executed = execute(shown, {}, timeout)
    for cell in executed.cells:
        if cell.cell_type == "markdown":
            cell.source = _LINK.sub(r"](\1.html", cell.source)
    bar = f'<a href="{up}index.html">perfkit gallery</a> · executed with its shipped data; opened without a kernel, '
    bar += "live views compute in the browser; the other widgets show, and compute nothing. To play with all: "
    bar += f"<code>./kit lab</code>, notebook <code>{path.name}</code>."
    title = title_of(executed, path)
    page.write_text(page_of(executed, title, Site(f"{up}assets/widgets.js", bar)), encoding="utf-8")
    picture = card_picture(executed)
    if picture:
        (out / "assets" / f"{path.stem}.png").write_bytes(picture)


@contextmanager
def as_shown(path: Path) -> Iterator[Path]:
    """Yield the notebook that is executed: of a unit of the course the students' version, without solutions."""
    from perfkit.course.versions import read_notebook, student_version

    if path.parent == NOTEBOOKS:
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        version = Path(folder) / path.name
        version.write_text(json.dumps(student_version(read_notebook(path))), encoding="utf-8")
        yield version


def read_card(path: Path, out: Path) -> Card:
    """Return the index entry of a notebook."""
    import nbformat

    notebook = nbformat.read(path, as_version=4)
    picture = f"assets/{path.stem}.png"
    return Card(
        page_name(path),
        title_of(notebook, path),
        misconception(path) or first_paragraph(notebook),
        picture if (out / picture).is_file() else "",
        (out / page_name(path)).is_file(),
    )


def index(cards: list[Card]) -> str:
    """Return the index page."""
    methods, units = (
        "".join(_item(card) for card in cards if card.page.startswith("course/") is of_course)
        for of_course in (False, True)
    )
    ready = sum(card.made for card in cards)
    course = f'<h2>The course: six units of 90 minutes</h2><ul class="cards">{units}</ul>' if units else ""
    state = "" if ready == len(cards) else f" {ready} of {len(cards)} are made so far: reload this page for more."
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>perfkit gallery</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE}</style></head><body><h1>perfkit: why is this code slow?</h1>"
        f"<p>Every notebook, executed. The pages need no network and no kernel.{state}</p>"
        f'<ul class="cards">{methods}</ul>{course}'
        '<p class="muted">Made by <code>./kit gallery</code>. Data that was not measured says so where it is shown.</p>'
        "</body></html>"
    )


def _item(card: Card) -> str:
    words = f"<h2>{html.escape(card.title)}</h2><p>{html.escape(card.text)}</p>"
    if not card.made:
        return f'<li class="card"><div class="missing">{words}<p>(not executed yet)</p></div></li>'
    words_of = f"A picture of this page: {card.title}"  # the last view that it draws
    picture = f'<img class="picture" src="{html.escape(card.picture)}" alt="{html.escape(words_of)}">'
    inside = (picture if card.picture else "") + f'<div class="text">{words}</div>'
    return f'<li class="card"><a href="{html.escape(card.page)}">{inside}</a></li>'


def title_of(notebook: Any, path: Path) -> str:
    """Return the first heading of a notebook, or its name."""
    for cell in notebook.cells:
        match = re.search(r"^# (.+)$", cell.source, re.M) if cell.cell_type == "markdown" else None
        if match:
            return match[1].strip()
    return path.stem


def first_paragraph(notebook: Any, length: int = 240) -> str:
    """Return the first paragraph after the heading as plain text, or as many of its sentences as fit."""
    for cell in notebook.cells:
        if cell.cell_type != "markdown":
            continue
        for part in cell.source.split("\n\n"):
            text = " ".join(part.split())
            if text and not text.startswith(("#", "|", "```", "-", "!", "<")):
                text = re.sub(r"\[([^\]]+)\]\([^)]*\)|[*`$]", lambda m: m[1] or "", text)
                text = re.sub(r"\\(\w+)", lambda m: _SIGNS.get(m[1], m[1]), text)  # of formulas
                return _sentences(text, length)
    return ""


def misconception(path: Path) -> str:
    """Return what many believe before a unit of the course; "" for other notebooks."""
    if path.parent == NOTEBOOKS:
        return ""
    from perfkit.course.units import UNITS

    return next((f"Many believe: {unit.misconception}" for unit in UNITS if unit.notebook == path.name), "")


def _sentences(text: str, length: int) -> str:
    """Return the first sentences, as many as fit; none that leads to what follows on the page, and none that is cut."""
    first, *more = [one for one in re.split(r"(?<=[.?!]) (?=[A-Z])", text) if not _ELSEWHERE.search(one)] or [text]
    for one in more:
        if len(first) + 1 + len(one) > length:
            break
        first += f" {one}"
    return first.rstrip(":")


def card_picture(notebook: Any) -> bytes:
    """Return the first picture of the cell tagged ``thumbnail``, else the one whose letters are largest on a card."""
    found = [
        ("thumbnail" in cell.metadata.get("tags", []), base64.b64decode("".join(output["data"]["image/png"])))
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if "image/png" in output.get("data", {})
    ]
    tagged = [picture for chosen, picture in found if chosen]
    return tagged[0] if tagged else max((picture for _, picture in found), key=_shrunk, default=b"")


def _shrunk(png: bytes) -> float:
    """Return by how much a picture is made smaller or larger to fit a card."""
    width, height = struct.unpack(">II", png[16:24])  # of its header
    return min(_CARD[0] / width, _CARD[1] / height)


if __name__ == "__main__":
    sys.exit(main())
