"""Look at every notebook in Chromium: at three widths, on a light and a dark page (`look.py` says what is a fault).

Screenshots are kept in the folder that $PERFKIT_SCREENSHOTS names, if it does (./kit look: screenshots/).
"""

import os
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.browser.lab import ROOT, Lab
from tests.browser.look import look_at_notebook

pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]

NOTEBOOKS = sorted(path.relative_to(ROOT / "notebooks").as_posix() for path in (ROOT / "notebooks").rglob("*.ipynb"))


@pytest.mark.parametrize("notebook", NOTEBOOKS)
def test_every_picture_is_there_and_can_be_read(browser: Any, lab: Lab, notebook: str):
    kept = os.environ.get("PERFKIT_SCREENSHOTS")
    seen = look_at_notebook(browser, lab, notebook, Path(kept) if kept else None)
    declared = nbformat.read(ROOT / "notebooks" / notebook, as_version=4).metadata.get("perfkit", {}).get("pictures")
    assert declared is not None, f"{notebook} does not declare its pictures: metadata perfkit.pictures"
    assert seen.pictures >= declared, f"{notebook} shows {seen.pictures} pictures and declares {declared}"
    faults = seen.report()
    assert not faults, "\n".join(faults)  # all of them, which pytest would shorten
