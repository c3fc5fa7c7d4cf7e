"""Look at notebooks in a real browser: every output at several widths, on a light and a dark page.

A notebook that runs can still show nothing, or text that nobody can read. `look.js` is the eye; this opens the page.
"""

import collections
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.browser.lab import IDLE, Lab

WIDTHS = (900, 1200, 1500)
THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}
OPERATED = (("dark", 1500), ("light", 1200))  # looked at once more after everything was used
# And with every slider at one of its ends, and brushes dragged over that part (of their strip's width and height).
ENDS = {"End": ("dark", 1200, (0.55, 0.95)), "Home": ("light", 900, (0.05, 0.4))}
# Fonts differ from machine to machine: text of other widths, in the same fonts (font-size-adjust scales them to this
# height of an x; DejaVu Sans, among the widest, has 0.55, Arial 0.52 and is narrower).
FONTS = {"wide": (0.6, 1300), "narrow": (0.46, 1200)}
EYE = (Path(__file__).parent / "look.js").read_text()
CANVAS = (Path(__file__).parent / "canvas.js").read_text()
PICTURES = """() => document.querySelectorAll(
    '.jp-OutputArea-output img, .jp-OutputArea-output svg.svg-figure, .jp-OutputArea-output canvas, ' +
    '.jp-OutputArea-output .pk-tree-svg, .jp-OutputArea-output .pk-listing table').length"""
# Where pictures of pixels stand, and how much the page shrinks them.
SHOWN = """() => [...document.querySelectorAll('.jp-OutputArea-output img')].map(img => ({
    place: [...document.querySelectorAll('.jp-Cell')].indexOf(img.closest('.jp-Cell')),
    size: [img.naturalWidth, img.naturalHeight], shown: img.getBoundingClientRect().width}))"""
SMALLEST = 7.5  # pixels on the page, of a text in a picture
# The notebook's panel is as high as all its cells, so that every output lies in the viewport and is drawn.
KERNEL = (
    "() => window.jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel?.connectionStatus === 'connected'"
)
# The outputs that say that a cell failed; on the page, JupyterLab marks them as it marks warnings.
ERROR = """window.jupyterapp.shell.currentWidget.content.widgets.flatMap(
    cell => cell.model.outputs?.toJSON() ?? []).find(output => output.output_type === 'error')"""
RAN = f"""() => {ERROR} ||
    [...document.querySelectorAll('.jp-CodeCell .jp-InputPrompt')].every(p => /\\d/.test(p.textContent))"""
FAILED = f"() => {{ const one = {ERROR}; return one && `${{one.ename}}: ${{one.evalue}}`.slice(0, 400); }}"
TO_THE_TOP = """() => {
    const scroller = document.querySelector('.jp-WindowedPanel-outer');
    if (scroller) scroller.scrollTop = 0;
    window.dispatchEvent(new Event('resize'));
}"""
# Resolves when nothing in the notebook has changed for half a second, or after five.
STILL = """() => new Promise(done => {
    const start = performance.now();
    let last = start;
    const watching = new MutationObserver(() => { last = performance.now(); });
    const all = {subtree: true, childList: true, attributes: true, characterData: true};
    watching.observe(document.querySelector('.jp-Notebook'), all);
    const clock = setInterval(() => {
        const now = performance.now();
        if (now - last < 500 && now - start < 5000) return;
        clearInterval(clock);
        watching.disconnect();
        done();
    }, 50);
})"""
HEIGHT = """() => {
    const scroller = document.querySelector('.jp-WindowedPanel-outer');
    return scroller ? scroller.scrollHeight + 200 : document.documentElement.scrollHeight;
}"""


@dataclass
class Seen:
    """What was seen of one page: its faults by place and look, its pictures, its messages, its requests elsewhere."""

    name: str
    pictures: int = 0
    faults: dict[tuple[str, str, str], list[str]] = field(default_factory=lambda: collections.defaultdict(list))
    messages: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)

    def add(self, look: str, faults: list[dict[str, Any]]) -> None:
        """Note the faults of one look (a width and a theme)."""
        for fault in faults:
            looks = self.faults[(str(fault["place"]), fault["fault"], fault["text"])]
            if look not in looks:
                looks.append(look)

    def report(self) -> list[str]:
        """Return one line per fault."""
        lines = [f"cell {p}: {kind}: {text} [{', '.join(looks)}]" for (p, kind, text), looks in self.faults.items()]
        lines += [f"console: {text}" for text in self.messages]
        return [f"{self.name}: {line}" for line in lines + [f"request to {url}" for url in self.elsewhere]]


def look_at_notebook(
    browser: Any, lab: Lab, notebook: str, folder: Path | None = None, timeout: float = 300_000
) -> Seen:
    """Open and run a notebook, look at it in every width and theme, and save the screenshots in ``folder``."""
    seen = Seen(notebook.removesuffix(".ipynb"))
    page = browser.new_page(viewport={"width": 1500, "height": 3000})
    page.add_init_script(CANVAS)
    _listen(page, seen)
    try:
        lab.pictures()  # those of the notebook before
        run_all(page, lab, notebook, timeout)
        drawn = lab.pictures()
        for theme in THEMES:
            _theme(page, theme)
            for width in WIDTHS:
                _settle(page, width)
                seen.add(f"{width} {theme}", _look(page))
                seen.add(f"{width} {theme}", in_pictures(page.evaluate(SHOWN), drawn))
                if folder is not None:
                    _save(page, folder / f"{seen.name}-{width}-{theme}.png")
        for name, (x_height, width) in FONTS.items():
            style = page.add_style_tag(content=f"*, ::before {{ font-size-adjust: {x_height} !important; }}")
            _settle(page, width)
            seen.add(f"{width}, {name} font", _look(page))
            if folder is not None:
                _save(page, folder / f"{seen.name}-{width}-{name}.png")
            style.evaluate("style => style.remove()")
        seen.pictures = page.evaluate(PICTURES)
        operate_all(page)
        for theme, width in OPERATED:
            _theme(page, theme)
            _settle(page, width)
            seen.add(f"{width} {theme}, operated", _look(page))
            if folder is not None:
                _save(page, folder / f"{seen.name}-{width}-{theme}-operated.png")
        for key, (theme, width, part) in ENDS.items():
            _theme(page, theme)
            _settle(page, width)
            to_the_ends(page, key, part)
            seen.add(f"{width} {theme}, sliders at {key}", _look(page))
            if folder is not None:
                _save(page, folder / f"{seen.name}-{width}-{theme}-{key.lower()}.png")
    finally:
        page.close()
    return seen


def in_pictures(shown: list[dict[str, Any]], drawn: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the faults inside pictures of pixels, at the place where a picture of that size is shown.

    A picture that is drawn and not shown (it stands in for a live view where no scripts run) has the place "drawn".
    """
    faults = []
    for one in drawn:
        here = [each for each in shown if list(each["size"]) == list(one["size"])]
        place = here[0]["place"] if here else "drawn"
        faults += [{"place": place, "fault": fault, "text": text} for fault, text in one["faults"]]
        pixels, text = one["smallest"]
        scale = min((each["shown"] / each["size"][0] for each in here), default=1.0)
        if pixels * scale < SMALLEST:
            faults.append({"place": place, "fault": "small in picture", "text": f"{text} ({pixels * scale:.1f} px)"})
    return faults


def operate_all(page: Any) -> None:
    """Use what the outputs offer: commit predictions, move each slider, choose bars, rows and nodes, open answers."""
    output = ".jp-OutputArea-output"
    for button in page.locator(output).get_by_role("button", name="Commit").all():
        _commit(page, button)
    _press(page, "ArrowRight")
    for figure in page.locator(f"{output} svg.svg-figure").all():
        bars = [bar for bar in figure.locator("rect.bar").all() if _has_area(bar)]  # nobody clicks a bar of 0
        if len(bars) > 1:
            bars[1].click(force=True)
            page.wait_for_timeout(300)
    for row in (".pk-listing tbody tr:nth-child(3)", ".pk-tree-svg g:nth-of-type(4)"):
        for one in page.locator(f"{output} {row}").all():
            one.click(force=True)
    page.evaluate("() => document.querySelectorAll('details').forEach(one => { one.open = true; })")
    page.mouse.move(0, 0)
    page.wait_for_timeout(2500)


def to_the_ends(page: Any, key: str, part: tuple[float, float]) -> None:
    """Move each slider to an end, drag each brush over a part of its strip, and wait until the kernel is done."""
    _press(page, key)
    for strip in page.locator(".jp-OutputArea-output svg.svg-figure rect.overlay").all():
        if strip.is_visible():
            _brush(page, strip, part)
    page.mouse.move(0, 0)
    page.wait_for_timeout(1000)
    page.wait_for_selector(IDLE, timeout=120_000)
    page.evaluate(STILL)


def _brush(page: Any, strip: Any, part: tuple[float, float]) -> None:
    """Drag a brush over a part of its strip; one that is there is drawn by its edges, for its middle would move it."""
    box = strip.bounding_box()
    ends = [(box["x"] + share * box["width"], box["y"] + share * box["height"]) for share in part]
    beside = strip.locator("xpath=..")
    edges = [beside.locator(f"rect.handle--{side}").first for side in ("w", "e")]
    if edges[0].count() and edges[0].is_visible():
        # Outwards first: an edge that passes the other takes it along.
        order = (0, 1) if part[0] < 0.5 else (1, 0)
        starts = [(edges[k], ends[k]) for k in order]
    else:
        starts = [(None, ends[1])]
    for edge, to in starts:
        at = ends[0]
        if edge is not None:
            grip = edge.bounding_box()
            at = (grip["x"] + grip["width"] / 2, grip["y"] + grip["height"] / 2)
        page.mouse.move(*at)
        page.mouse.down()
        page.mouse.move(*to, steps=6)
        page.mouse.up()
        page.wait_for_timeout(600)


def _press(page: Any, key: str) -> None:
    """Press a key on each slider that can be moved."""
    sliders = ".jp-OutputArea-output :is(.noUi-handle, .pkl-handle, input[type=range]):not([disabled])"
    for handle in page.locator(sliders).all():
        if handle.is_visible() and not handle.locator("xpath=ancestor::*[@disabled]").count():
            handle.press(key)
            page.wait_for_timeout(200)


def _has_area(bar: Any) -> bool:
    """Whether a bar has a width and a height."""
    box = bar.bounding_box()
    return box is not None and min(box["width"], box["height"]) >= 1


def _commit(page: Any, button: Any) -> None:
    """Choose the first answer and commit it, unless that is done: without it, nobody looks at the answer's picture.

    The kernel enables the button, which takes a busy machine seconds.
    """
    asked = button.locator("xpath=ancestor::*[contains(@class, 'pk-view')][1]")
    radios, handles = asked.locator("input[type=radio]"), asked.locator(".noUi-handle")
    if radios.count():
        if radios.first.is_disabled():
            return
        radios.first.click()
    elif handles.count() and not asked.locator("[disabled] .noUi-handle").count():
        handles.first.press("ArrowRight")
    else:
        return
    button.click(timeout=30_000)  # waits until it is enabled
    page.wait_for_function("button => button.disabled", arg=button.element_handle(), timeout=30_000)
    page.wait_for_timeout(500)


def _theme(page: Any, theme: str) -> None:
    page.evaluate("n => { window.jupyterapp.commands.execute('apputils:change-theme', {theme: n}); }", THEMES[theme])
    page.wait_for_function("light => document.body.dataset.jpThemeLight === light", arg=str(theme == "light").lower())


def _listen(page: Any, seen: Seen) -> None:
    # anywidget gives its modules two seconds, less than a busy machine may need; it goes on when they come later.
    slow = "[anywidget] Failed to initialize model"
    page.on("pageerror", lambda error: None if slow in str(error) else seen.messages.append(str(error)))
    page.on("console", lambda m: seen.messages.append(m.text) if m.type == "error" and slow not in m.text else None)
    own = ("http://127.0.0.1", "ws://127.0.0.1", "data:", "blob:", "file:", "about:")
    page.on("request", lambda r: None if r.url.startswith(own) else seen.elsewhere.append(r.url))


def run_all(page: Any, lab: Lab, notebook: str, timeout: float) -> None:
    """Open a notebook and run its cells; a cell that fails is an AssertionError with what it raised."""
    page.goto(lab.address(notebook), timeout=60_000)
    page.wait_for_selector(IDLE, timeout=60_000)
    page.wait_for_function(KERNEL, timeout=60_000)
    page.evaluate("() => { window.jupyterapp.commands.execute('notebook:run-all-cells'); }")
    # The last code cell gets its number when everything before it has run, unless a cell fails.
    page.wait_for_function(RAN, timeout=timeout)
    failed = page.evaluate(FAILED)
    if failed:
        raise AssertionError(f"{notebook}: {failed}")
    page.wait_for_selector(IDLE, timeout=timeout)
    page.evaluate("() => window.jupyterapp.shell.collapseLeft()")
    page.evaluate(STILL)


def _look(page: Any) -> list[dict[str, Any]]:
    """Return the faults that stay: a view that is just drawing itself anew for another width is not at fault."""
    standing = list(page.evaluate(EYE, ".jp-OutputArea-output"))
    for _ in range(5):
        if not standing:
            break
        page.wait_for_timeout(500)
        now = page.evaluate(EYE, ".jp-OutputArea-output")
        standing = [fault for fault in standing if fault in now]
    return standing


def _settle(page: Any, width: int) -> None:
    """Give the page a width, and a height that shows all of it; wait until views have drawn themselves anew."""
    page.set_viewport_size({"width": width, "height": 3000})
    page.wait_for_timeout(300)
    page.set_viewport_size({"width": width, "height": min(int(page.evaluate(HEIGHT)), 16_000)})
    page.evaluate(TO_THE_TOP)
    page.evaluate(STILL)


def _save(page: Any, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=str(path))
