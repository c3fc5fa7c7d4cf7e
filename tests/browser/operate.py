"""Operating a view in a notebook: find it, use a control, and see that its picture changes."""

from collections.abc import Callable
from typing import Any

import nbformat

from tests.browser.lab import IDLE, Lab, open_and_run

# Everything that a view draws: lines, bars, texts of axes, the pixels of its canvases, its words.
DRAWN = """view => [
    ...[...view.querySelectorAll('svg path.line, svg path.area, svg rect.bar, svg rect.selection')].filter(
        e => e.checkVisibility()).map(
        e => ['d', 'transform', 'x', 'width', 'style'].map(a => e.getAttribute(a))),
    ...[...view.querySelectorAll('svg text')].map(e => e.textContent),
    ...[...view.querySelectorAll('canvas')].map(e => e.toDataURL()),
].join('|')"""
# Lines in an order of their own: an axis drawn anew may stand behind another one in the page.
WORDS = "view => view.innerText.split('\\n').sort().join('\\n')"
# anywidget gives its modules two seconds, less than a busy machine may need; it goes on when they come later.
_SLOW = "[anywidget] Failed to initialize model"


class Opened:
    """The page of a notebook whose cells each show one view.

    Attributes
    ----------
    page : playwright page
    failures : list of str
        What scripts of the page complained about.
    """

    def __init__(self, browser: Any, lab: Lab, name: str, cells: list[str], size: tuple[int, int], views: int) -> None:
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text.strip()) for text in cells])
        notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
        nbformat.write(notebook, lab.notebooks / f"{name}.ipynb")
        self.page = browser.new_page(viewport={"width": size[0], "height": size[1]})
        self.failures: list[str] = []
        self.page.on("pageerror", lambda e: None if _SLOW in str(e) else self.failures.append(str(e)))
        open_and_run(self.page, lab, f"{name}.ipynb", views=views)

    def view(self, cell: int) -> Any:
        """Return the view of a cell, scrolled to."""
        found = self.page.locator(".jp-CodeCell").nth(cell).locator(".jp-OutputArea-output .pk-view").first
        found.wait_for(timeout=20_000)
        found.scroll_into_view_if_needed()
        return found

    def changes(self, view: Any, act: Callable[[], Any], what: str = DRAWN) -> None:
        """Do something, and wait until the view's picture (or its words) has changed."""
        before = view.evaluate(what)
        act()
        self.page.wait_for_function(
            f"([view, before]) => ({what})(view) !== before", arg=[view.element_handle(), before], timeout=20_000
        )
        self.settle(view)

    def becomes(self, view: Any, expected: str, what: str = WORDS) -> None:
        """Wait until a view's words (or its picture) are these."""
        self.page.wait_for_function(
            f"([view, expected]) => ({what})(view) === expected", arg=[view.element_handle(), expected], timeout=20_000
        )

    def settle(self, view: Any) -> None:
        """Wait until a view draws itself no more, and the kernel works nothing out for it."""
        before, idle = "", 0
        while before != (now := view.evaluate(DRAWN) + view.evaluate(WORDS)) or not idle:
            before = now
            self.page.wait_for_timeout(250)
            idle = self.page.locator(IDLE).count()
