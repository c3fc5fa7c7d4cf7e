"""A sign of life: what is being done, and for how long already, on the error output."""

import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_EVERY = 1.0  # seconds


@contextmanager
def stages(first: str = "") -> Iterator[Callable[[str], None]]:
    """Yield a function that is called with each stage; while one lasts, a line tells how long already.

    On a terminal the line is rewritten; elsewhere each stage is one line, and every second adds a dot to a long one.
    What ends with a full stop is no stage but something found out: it stays. `first` is the stage that has begun
    already; it is told only once it lasts, so that what is refused at once is told without it. Warnings wait for the
    end of the stage in which they come, so that they begin lines of their own.
    """
    state: dict[str, Any] = {"what": "", "since": time.monotonic()}
    over, begun = threading.Event(), threading.Event()
    terminal = sys.stderr.isatty()

    held: list[tuple[Any, Any]] = []
    shown = warnings.showwarning

    def hold(*parts: Any, **more: Any) -> None:
        held.append((parts, more))

    def tell() -> None:
        if held and state["what"]:
            sys.stderr.write("\r\x1b[K" if terminal else "\n")
            state.update(what="")
        for parts, more in held:
            shown(*parts, **more)
        held.clear()

    def show(end: str = "") -> None:
        spent = time.monotonic() - state["since"]
        sys.stderr.write(f"\r\x1b[K{state['what']} ... {spent:.0f} s{end}")
        sys.stderr.flush()

    def watch() -> None:
        if first and not over.wait(_EVERY) and not begun.is_set():
            say(first)
        while not over.wait(_EVERY):
            if state["what"] and terminal:
                show()
            elif state["what"]:
                sys.stderr.write(".")
                sys.stderr.flush()

    def say(what: str) -> None:
        begun.set()
        tell()
        if what.endswith("."):
            sys.stderr.write(
                f"\r\x1b[K{what}\n" if terminal else f"{chr(10) if state['what'] else ''}perfkit: {what}\n"
            )
            sys.stderr.flush()
            state.update(what="")
            return
        if not terminal:
            sys.stderr.write(f"{chr(10) if state['what'] else ''}perfkit: {what} ")
            sys.stderr.flush()
        state.update(what=what, since=time.monotonic())
        if terminal:
            show()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    warnings.showwarning = hold
    try:
        yield say
    finally:
        over.set()
        watcher.join()
        warnings.showwarning = shown
        tell()
        if state["what"]:
            sys.stderr.write("\r\x1b[K" if terminal else "\n")
        sys.stderr.flush()


@contextmanager
def signs(say: Callable[[str], None] | bool | None, first: str = "") -> Iterator[Callable[[str], None]]:
    """Yield what is called with each stage of something that takes seconds.

    Parameters
    ----------
    say : callable or bool, optional
        What the caller asks for: a function of its own; True for `stages`; False for nothing. By default `stages` in a
        plain script, and nothing where the error output is somebody else's: a notebook's, or a test's that keeps it.
    first : str
        As in `stages`.
    """
    if say is None:
        say = sys.stderr is not None and sys.stderr is sys.__stderr__
    if callable(say):
        yield say
    elif say:
        with stages(first) as told:
            yield told
    else:
        yield lambda _: None
