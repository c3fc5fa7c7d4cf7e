"""Make the pictures of docs/img from the real notebooks, in JupyterLab and Chromium.

    .venv/bin/python scripts/screenshots.py

Needs a Chromium (Debian's package chromium, or CHROMIUM=/path). Each picture stays below 300 KB.
"""

import io
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "docs" / "img"
LIMIT = 300_000


def main() -> int:
    """Make every picture; return 1 where there is no browser."""
    sys.path[:0] = [str(ROOT), str(ROOT / "widgets")]
    from playwright.sync_api import sync_playwright

    from tests.browser.lab import Lab, chromium, open_and_run

    path = chromium()
    if path is None:
        print("screenshots: no Chromium found; install Debian's package chromium, or name one with CHROMIUM=/path")
        return 1
    OUT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        lab = Lab(Path(folder))
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            page = browser.new_page(viewport={"width": 1600, "height": 2600})
            open_and_run(page, lab, "10_spire_walkthrough.ipynb", views=6)
            save(view(page, "What bounds"), "spire-explorer.png")
            save(view(page, "Samples at a glance"), "samples-explorer.png")
            page.set_viewport_size({"width": 1600, "height": 950})
            view(page, "What bounds").scroll_into_view_if_needed()
            page.wait_for_timeout(1500)
            save(page, "jupyterlab.png")
        finally:
            browser.close()
            lab.stop()
    return 0


def view(page: Any, heading: str) -> Any:
    """Return a view by its heading, once its figures are drawn."""
    found = page.locator(".pk-view", has_text=heading).first
    found.scroll_into_view_if_needed()
    page.wait_for_timeout(2000)
    return found


def save(what: Any, name: str) -> None:
    """Save a picture of a page or an element, with fewer colours, so that it stays small."""
    from PIL import Image

    image = Image.open(io.BytesIO(what.screenshot())).convert("RGB")
    path = OUT / name
    image.quantize(128, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE).save(path, optimize=True)
    size = path.stat().st_size
    print(f"screenshots: {path.relative_to(ROOT)} {image.width}x{image.height}, {size // 1000} KB")
    if size > LIMIT:
        raise SystemExit(f"screenshots: {name} is larger than {LIMIT // 1000} KB")


if __name__ == "__main__":
    sys.exit(main())
