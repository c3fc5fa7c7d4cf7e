"""Three tries, with pauses, for tests that measure this machine or drive a browser; all other tests get one.

A neighbour that comes and goes can spoil a measurement; no tolerance is widened for it. Where the last try fails, too,
the test fails, unless there is evidence that the machine was busy in every try: then it is skipped, with that evidence
and with what failed as its reason. Errors other than a refusal or an expectation that was not met always fail, and so
does an expectation that was missed in the same words every time: a neighbour's noise is never twice alike. A test of
the browser is not tried a third time after that; beside other workers of pytest it is tried once, as is a test that
measures for words alone, and what fails there is run again alone (`./kit test`), because the other workers would pass
for neighbours.
"""

import os
import platform
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from perfkit.collectors.host.bench import Bench
from perfkit.errors import UnavailableError

MARKS = ("measures", "browser")
PAUSES = (5.0, 20.0)  # seconds before the second and the third try
OTHERS = 0.25
"""From this share of all processors' time on, spent by others or withheld by the hypervisor, a machine is busy."""
EXCUSED = ("AssertionError", "TimeoutError", "Timeout", "PerfkitWarning")
failed = pytest.StashKey[list[tuple[str, str]]]()


class Neighbours:
    """What share of the machine's processor time went to others since this was made."""

    def __init__(self, stat: Path = Path("/proc/stat")) -> None:
        self.stat = stat
        self.start = self.now()

    def now(self) -> tuple[float, float, float]:
        """Seconds of processor time: all there was, what was not idle (with steal), and this process and children's."""
        user, nice, system, idle, iowait, irq, softirq, steal = (
            int(x) / os.sysconf("SC_CLK_TCK") for x in self.stat.read_text().split()[1:9]
        )
        used = user + nice + system + irq + softirq + steal
        return used + idle + iowait, used, sum(os.times()[:4])

    def share(self) -> float:
        """0 to 1; tests that other workers of pytest run at the same time are others."""
        whole, used, own = (b - a for a, b in zip(self.start, self.now(), strict=True))
        return max(used - own, 0.0) / whole if whole > 0 else 0.0


def crowded() -> float:
    """What share of 200 samples, taken now, ran beside a busy hardware thread of the same core or an unsteady clock.

    `/proc/stat` does not show the other guests of a host; the clock's own probes do.
    """
    try:
        bench = Bench(repetitions=200, patience=2.0)
        bench.window(bench.load([]), 2000)
    except UnavailableError:
        return 1.0
    return (bench.busy + bench.rejected) / bench.taken


def evidence(errors: list[tuple[str, str]], share: float, beside: float = 0.0) -> str | None:
    """Why a failed try was the machine's, or None: a method's own refusal, or neighbours beside what was not met."""
    if errors and all("busy" in text and kind != "KeyError" for kind, text in errors):
        return "the method refused to measure"
    if share >= OTHERS and all(kind in EXCUSED for kind, _ in errors):
        return f"others took {share:.0%} of the processors' time"
    if beside >= OTHERS and all(kind in EXCUSED for kind, _ in errors):
        return f"{beside:.0%} of samples right after it ran beside a busy hardware thread or an unsteady clock"
    return None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Note the type and the text of what went wrong, for `evidence`."""
    report: Any = yield
    if report.failed and call.excinfo is not None:
        item.stash.setdefault(failed, []).append((call.excinfo.typename, str(call.excinfo.value)))
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run a test that depends on the machine up to three times, until it passes; leave the others to pytest."""
    marks = {mark for mark in MARKS if item.get_closest_marker(mark)}
    alone = "measures" in marks and not item.get_closest_marker("words")
    if not marks or (hasattr(item.config, "workerinput") and not alone):
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reasons: list[str | None] = []
    told: set[tuple[tuple[str, str], ...]] = set()
    for pause in (*PAUSES, None):
        item.stash[failed] = []
        neighbours = Neighbours()
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
        if not any(report.failed for report in reports):
            break
        told.add(tuple(item.stash[failed]))
        beside = crowded() if "measures" in marks and platform.machine() == "x86_64" else 0.0
        reasons.append(evidence(item.stash[failed], neighbours.share(), beside))
        if len(reasons) == 2 and "measures" not in marks and alike(told):
            break  # what a page shows and does not change is the page's
        if pause is not None:
            tries = f"{len(reasons)} of {len(PAUSES) + 1}"
            item.config.get_terminal_writer().line(f"\n{item.nodeid}: failed on try {tries}, tried again")
            item.session._setupstate.teardown_exact(None)  # fixtures of modules are made anew for the next try
            time.sleep(pause)
    else:
        if all(reasons) and not alike(told):
            excuse(reports, f"the machine was too busy in {len(reasons)} tries ({'; '.join(map(str, reasons))})")
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def alike(told: set[tuple[tuple[str, str], ...]]) -> bool:
    """Return whether every try missed an expectation in the same words."""
    return len(told) == 1 and any(kind == "AssertionError" for kind, _ in next(iter(told)))


def excuse(reports: list[pytest.TestReport], reason: str) -> None:
    """Turn what failed into skips that name the reason and what was expected."""
    for report in reports:
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            message = f"{reason}: {crash.message.splitlines()[0] if crash else report.longreprtext[-200:]}"
            path, line, _ = report.location
            report.outcome = "skipped"
            report.longrepr = (path, (line or 0) + 1, f"Skipped: {message}")
