"""Look at every notebook in Chromium: at three widths, on a light and a dark page (`look.py` says what is a fault).

The screenshots are kept in the folder that $PERFKIT_SCREENSHOTS names (./kit look: screenshots/).
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
def test_every_picture_is_there_and_can_be_read(browser: Any, lab: Lab, notebook: str, tmp_path: Path):
    folder = Path(os.environ.get("PERFKIT_SCREENSHOTS", tmp_path))
    seen = look_at_notebook(browser, lab, notebook, folder)
    declared = nbformat.read(ROOT / "notebooks" / notebook, as_version=4).metadata.get("perfkit", {}).get("pictures")
    assert declared is not None, f"{notebook} does not declare its pictures: metadata perfkit.pictures"
    assert seen.pictures >= declared, f"{notebook} shows {seen.pictures} pictures and declares {declared}"
    faults = seen.report()
    assert not faults, "\n".join(faults)  # all of them, which pytest would shorten
