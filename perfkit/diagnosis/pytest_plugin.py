"""pytest's plugin: the fixture ``perfkit_gate`` and the option ``--perfkit-update`` (docs/gate.md).

pytest loads this module in every run where perfkit is installed, so it imports nothing of perfkit before the fixture
is used.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from perfkit.diagnosis.gate_verdict import GateVerdict

_UPDATE = "--perfkit-update"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    group = parser.getgroup("perfkit", "performance tests that are never flaky")
    group.addoption(_UPDATE, action="store_true", help="Make what perfkit_gate measures now the baselines.")


@pytest.fixture
def perfkit_gate(request: pytest.FixtureRequest) -> "Callable[..., GateVerdict | None]":
    """Return a function that fails the test where a program became slower than its baseline.

    ``perfkit_gate("kernel.c:solve", "f8[1000], 1000", core="zen4", at_most="+2 %")``: as `perfkit.diagnosis.gate.Gate`,
    whose relative paths are relative to the test's file; returns the verdict, None where it wrote the baseline.
    """
    taken: dict[str, int] = {}

    def gate(what: str, arguments: Any = "", *, name: str = "", **settings: Any) -> "GateVerdict | None":
        __tracebackhide__ = True
        from perfkit.diagnosis.gate import BASELINES, Gate, check_gate, measured_twice, update_baselines
        from perfkit.errors import PerfkitError

        folder = request.path.parent
        name = name or f"{request.path.name}::{_own_name(request.node)} {what}"
        taken[name] = taken.get(name, 0) + 1
        name += f" #{taken[name]}" if taken[name] > 1 else ""
        try:
            asked = Gate(what, arguments, folder=folder, **settings)
            if request.config.getoption(_UPDATE):
                update_baselines({name: measured_twice(asked).entry()}, folder / BASELINES)
                return None
            verdict = check_gate(name, asked, folder / BASELINES, hint=f"pytest {_UPDATE}")
        except (PerfkitError, OSError) as error:  # the line that the command says, too
            message = f"{what}: {str(error).removeprefix(f'{what}: ')}"
        else:
            message = "" if verdict.passed else f"{what}: {verdict.message}"
        if message:
            pytest.fail(message, pytrace=False)
        return verdict

    return gate


def _own_name(node: Any) -> str:
    """Return a test's name with its classes, without its file."""
    return str(node.nodeid.partition("::")[2])
