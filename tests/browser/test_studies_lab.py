"""The study explorer in a real JupyterLab and Chromium: the tree is clicked, the boundaries are typed and dragged."""

from typing import Any

import pytest

from tests.browser.lab import Lab, at_rest, open_and_run

pytestmark = pytest.mark.browser

LINES = """() => [...document.querySelectorAll('path.line')].map(p => p.getAttribute('d')).join('|')"""


def test_fma_tree_and_explorer(page: Any, lab: Lab):
    open_and_run(page, lab, "21_fma.ipynb", views=2)
    trees = page.locator(".pk-tree-svg")
    trees.last.wait_for(timeout=30_000)
    assert trees.count() == 2

    # The tree opens at its root, not on the paper above it.
    frame, root = trees.last.locator("xpath=..").bounding_box(), trees.last.locator("[data-node='0']").bounding_box()
    middle = (root["y"] + root["height"] / 2 - frame["y"]) / frame["height"]
    assert 0.3 < middle < 0.7, middle
    assert root["x"] - frame["x"] < 20

    # A click on a node says which rows reach it; the arrow keys go on from there.
    view = page.locator(".pk-view", has=page.locator(".pk-tree-svg")).first
    view.scroll_into_view_if_needed()
    view.locator("[data-node='1']").first.click()
    view.locator(".pk-hint", has_text="INSTRUCTIONS <=").wait_for(timeout=10_000)
    page.keyboard.press("ArrowLeft")  # the tree runs from left to right: the parent stands left
    view.locator(".pk-hint", has_text="all rows").wait_for(timeout=10_000)

    # A click in the explorer's own tree redraws its lines with the node's rows alone.
    before = page.evaluate(LINES)
    trees.last.locator("[data-node='1']").click()
    page.wait_for_function(f"before => ({LINES})() !== before", arg=before, timeout=15_000)

    # A bar of importance tells its figure.
    page.locator(".pk-view", has=page.get_by_text("What decides")).last.locator(".bqplot rect.bar").last.hover()
    told = page.locator(".bqplot_tooltip_div:visible", has_text="feature")
    told.wait_for(timeout=5_000)
    assert any(name in told.inner_text() for name in ("INSTRUCTIONS", "WIDTH", "TYPE")), told.inner_text()
    page.mouse.move(5, 5)

    # Other boundaries make other categories.
    typed = page.get_by_label("Boundaries").last
    typed.fill("1.1")
    typed.press("Enter")
    page.get_by_text("2 categories").first.wait_for(timeout=20_000)

    # The handle on the boundary can be dragged, once all is drawn anew: the heading comes first.
    at_rest(page)
    page.wait_for_function("() => document.querySelectorAll('.bqplot .object_grp').length === 1", timeout=20_000)
    handle = page.locator(".bqplot .object_grp .dot")
    handle.hover()  # when it stands still
    box = handle.bounding_box()
    page.mouse.down()
    page.mouse.move(box["x"] + 120, box["y"] + box["height"] / 2, steps=10)
    page.mouse.up()
    page.wait_for_function(
        "() => [...document.querySelectorAll('input[type=text]')].some(i => +i.value > 1.15 && +i.value < 1.9)",
        timeout=20_000,
    )
    assert page.failures == []


def test_a_tree_larger_than_its_frame_is_folded(page: Any, lab: Lab):
    """Of 39 nodes five were to be seen, boxes cut at two edges, in a frame of mostly paper."""
    open_and_run(page, lab, "22_stream.ipynb", views=2)
    tree = page.locator(".pk-tree-box").first
    tree.scroll_into_view_if_needed()
    nodes = tree.locator(".pk-node")
    nodes.nth(6).wait_for(timeout=30_000)
    assert nodes.count() == 7
    assert tree.evaluate("box => box.scrollWidth <= box.clientWidth && box.scrollHeight <= box.clientHeight")
    folded = sum(int(more.removeprefix("+")) for more in tree.locator(".pk-more").all_text_contents())
    assert f", {folded + 7} nodes)" in page.locator(".pk-view", has=page.locator(".pk-tree-svg")).first.inner_text()
    # A click on a folded node unfolds two levels below it, and leaves its way and what branches off.
    last = nodes.nth(6)
    index = last.get_attribute("data-node")
    last.click()
    page.wait_for_function("([box, index]) => box.querySelector('.pk-chosen')?.dataset.node === index",
                           arg=[tree.element_handle(), index], timeout=10_000)  # fmt: skip
    at_rest(page)
    assert nodes.count() > 5 + 1
    assert tree.locator(".pk-chosen").evaluate(
        "node => { const a = node.getBoundingClientRect(), b = node.closest('.pk-tree-box').getBoundingClientRect();"
        " return a.left >= b.left - 1 && a.right <= b.right + 1 && a.top >= b.top - 1 && a.bottom <= b.bottom + 1; }"
    )
