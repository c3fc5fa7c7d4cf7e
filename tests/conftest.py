"""What holds for every test: a measurement or a browser that a busy neighbour spoilt is tried again, and said so."""

from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol

# Tests that read this machine's clock or drive a browser. A failure of theirs may be the machine's: they get three
# tries, as the repetition policy of the methods themselves does; no tolerance is widened. All other tests get one.
TRIES = 3
DEPEND_ON_THE_MACHINE = (
    "browser/",
    "collectors/microbenchmark/",
    "collectors/test_asm.py",
    "collectors/test_calibrate.py",
    "collectors/test_compare.py",
    "collectors/test_known_answers.py",
    "collectors/test_true_cycles.py",
    "collectors/test_machine_state.py",
    "cli/test_calibrate.py",
    "cli/test_studies.py",
)
HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run a test that depends on the machine up to `TRIES` times, until it passes; leave the others to pytest."""
    if not item.path.is_relative_to(HERE):
        return None
    if not item.path.relative_to(HERE).as_posix().startswith(DEPEND_ON_THE_MACHINE):
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for tried in range(1, TRIES + 1):
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
        if tried == TRIES or not any(r.failed for r in reports):
            break
        item.config.get_terminal_writer().line(f"\n{item.nodeid}: failed on try {tried} of {TRIES}, tried again")
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True
