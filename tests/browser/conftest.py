"""A JupyterLab server and a Chromium for the end-to-end tests; both are skipped, saying why, where no browser is."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.lab import Lab, launched


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    with launched() as opened:
        yield opened


@pytest.fixture(scope="session")
def lab(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    server = Lab(tmp_path_factory.mktemp("lab"))
    yield server
    server.stop()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    opened = browser.new_page(viewport={"width": 1500, "height": 2400})
    opened.failures = []
    # anywidget gives its modules two seconds, less than a busy machine may need; it goes on when they come later.
    slow = "[anywidget] Failed to initialize model"
    opened.on("pageerror", lambda error: None if slow in str(error) else opened.failures.append(str(error)))
    yield opened
    opened.close()
