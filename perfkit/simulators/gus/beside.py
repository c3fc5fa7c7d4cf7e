"""Two simulations beside each other, which an interrupt does not wait for."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from threading import Thread
from typing import Any, TypeVar

Result = TypeVar("Result")


def beside(function: Callable[..., Result], *each: Sequence[Any]) -> list[Result]:
    """Call a function once for each of some values at once, like `map`; the first that fails is raised.

    Simulated code holds no lock of Python's. The threads are left behind where this one is interrupted: those of a
    pool would be waited for, for as long as a simulation takes.
    """
    futures: list[Future[Result]] = [Future() for _ in each[0]]

    def call(future: Future[Result], *values: Any) -> None:
        try:
            future.set_result(function(*values))
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is asked for
            future.set_exception(error)

    for future, *values in zip(futures, *each, strict=True):
        Thread(target=call, args=(future, *values), daemon=True).start()
    return [future.result() for future in futures]
