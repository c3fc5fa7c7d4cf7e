import signal
import threading
import time

import pytest

from perfkit.errors import DataError
from perfkit.simulators.gus.beside import beside


def test_the_results_come_in_the_order_of_the_values():
    """And two wait for each other, so that they do run beside each other."""
    both = threading.Barrier(2, timeout=10)
    assert beside(lambda a, b: both.wait() * 0 + a * b, (2, 3), (5, 7)) == [10, 21]


def test_the_first_that_fails_is_raised():
    def work(name: str) -> str:
        if name == "typo":
            raise DataError("no such trace")
        return name

    with pytest.raises(DataError, match="no such trace"):
        beside(work, ("there", "typo"))


def test_an_interrupt_waits_for_none_of_them():
    begin = time.monotonic()
    timer = threading.Timer(0.2, signal.pthread_kill, (threading.get_ident(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        beside(time.sleep, (20, 20))
    assert time.monotonic() - begin < 10
    timer.join()
