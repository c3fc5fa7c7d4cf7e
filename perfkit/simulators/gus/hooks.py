"""What the simulator's recurrence calls to record which times constrain which: Algorithm 1's three procedures.

`perfkit.simulators.gus.recurrence` goes through the instructions once; where it is given ``taint``, it says at every
step what is constrained by what (``constrain``, lines 1 to 6), used by what (``use``, lines 10 to 15) and set by what
(``put``, lines 7 to 9). `perfkit.simulators.gus.causal` remembers that for a while, `perfkit.simulators.gus.exact`
carries sets along; numba picks by the type of ``taint``. None of these is ever run as Python.
"""
# ruff: noqa: D401 - signatures, and what is the case when they are called

from collections.abc import Callable
from typing import Any

from numba.core import types

from perfkit.simulators import compiled

# Points in time of the instruction at hand.
DISPATCH, FRONT, RETIRED, WRITTEN, RESULT, ADDRESS, DATA, ACCESS, MEMORY = range(9)
POINTS = 9
# What has a time that lasts: tables and rings, one entry each for a register, a port, ...
BY_REGISTER, BY_PORT, BY_LEVEL, BY_ROB, BY_LOADS, BY_STORES, BY_MISSES, BY_QUEUE, BY_ISSUE, BY_DATA = range(10)
BY_VECTORS, BY_LINE, BY_RESULT = 10, 11, 12


def begin(taint: Any, n: Any, i: Any) -> Any:
    """Begin executed instruction n, an execution of i; return how many constraints its dispatch has."""


def constrain(taint: Any, point: Any, count: Any, t: Any, v: Any, kind: Any, k: Any, n: Any) -> Any:
    """ConstrainBy: a point whose time is t waits for entry k of a table, available at v; return its constraints."""


def use(taint: Any, kind: Any, k: Any, uses: Any, v: Any, disp: Any, n: Any) -> Any:
    """UsedBy: the instruction dispatched at disp uses entry k, available at v; return how many it has used."""


def put(taint: Any, kind: Any, k: Any, point: Any, n: Any) -> Any:
    """SetBy: entry k of a table gets the time of a point."""


def start(taint: Any, point: Any, source: Any, count: Any, n: Any) -> Any:
    """SetBy: a point begins with the time of another, of so many constraints; return how many it has."""


def clear(taint: Any, point: Any, n: Any) -> Any:
    """Begin a point before every time."""


def join(taint: Any, count: Any, t: Any, v: Any, others: Any, n: Any) -> Any:
    """ConstrainBy: all accesses, ready at t, wait for one more, ready at v, of ``others`` constraints."""


def front(taint: Any, count: Any, fe: Any, disp: Any, n: Any) -> Any:
    """Dispatch, of so many constraints, waits for the front end and uses it."""


def result(taint: Any, data: Any, memory: Any, x: Any, loaded: Any, uses: Any, n: Any) -> Any:
    """The result comes when operation and loaded value have, of so many constraints each."""


def retire(taint: Any, ret: Any, end: Any, n: Any) -> Any:
    """Retirement, ret where nothing is waited for, waits for the result."""


def write(taint: Any, written: Any, ret: Any, arrived: Any, n: Any) -> Any:
    """The store, written at best at ``written``, waits for retirement and for its line."""


def miss(taint: Any, kind: Any, k: Any, n: Any) -> Any:
    """The access at hand, a miss, holds entry k of a table: a fill buffer, or a set of L1."""


def fetch(taint: Any, k: Any, n: Any) -> Any:
    """The access at hand brings line k, whose arrival later accesses wait for."""


def issue(taint: Any, k: Any, n: Any) -> Any:
    """The operation at hand begins, and gives its scheduler's entry free in cycle k."""


def inherit(taint: Any, kind: Any, k: Any, other: Any, q: Any, n: Any) -> Any:
    """SetBy: entry k of a table, which the instruction at hand takes, gets the time of entry q of another table."""


def finish(taint: Any, n: Any, i: Any, disp: Any, begun: Any, end: Any, ret: Any) -> Any:
    """Executed instruction n is done."""


def implements(
    hook: Callable[..., Any], kind: type, *, inline: bool = True
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator: the function is what the hook does for a ``taint`` of this named tuple."""

    def fits(taint: Any, *_: Any) -> bool:
        return isinstance(taint, types.NamedTuple) and taint.instance_class is kind

    return compiled.implements(hook, fits, inline=inline)
