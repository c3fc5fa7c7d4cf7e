"""A process that has imported what a notebook imports, and forks itself into a kernel whenever one is asked for.

Started by `perfkit.cli.warm_kernels`. Each name that it is given is a module, or a module's attribute that is imported
when first asked for (``perfkit.Gus``). Requests are lines of JSON on standard input (``arguments`` of the kernel,
``env``, ``cwd``), answered by the kernel's process number, or 0 where it could not begin; at the end of the input the
process ends, and its kernels see that and end too.
"""

import importlib
import json
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from types import ModuleType
from typing import Any


def import_named(name: str) -> None:
    """Import a module, or what a module imports when asked for an attribute; the cell that needs it tells of errors."""
    with suppress(Exception):
        module, _, attribute = name.rpartition(".")
        try:
            importlib.import_module(name)
        except ImportError:
            found: ModuleType = importlib.import_module(module)
            getattr(found, attribute)


def main(names: Sequence[str]) -> None:
    """Import, then fork a kernel for each request; returns at the end of the input, and in each kernel at its end."""
    # What ipykernel and matplotlib read while they are imported, as they find it in a kernel.
    os.environ["JPY_PARENT_PID"] = str(os.getpid())
    os.environ.setdefault("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    from ipykernel import kernelapp

    for name in names:
        import_named(name)
    if "numba" in sys.modules:  # what its first compiled function would import, some 250 modules
        with suppress(Exception):
            sys.modules["numba"].core.registry.cpu_target.target_context.refresh()
    answers = os.dup(1)
    os.dup2(2, 1)
    # Dead kernels leave nothing to wait for: whoever asked for one watches it by its process descriptor.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        if not os.fork():
            try:
                arguments = _in_the_kernel(json.loads(line), answers)
            except BaseException:
                os.write(answers, b"0\n")  # whoever waits for a number would wait for ever
                raise
            kernelapp.launch_new_instance(argv=arguments)
            return


def _in_the_kernel(request: dict[str, Any], answers: int) -> list[str]:
    """Make the fork a process as if it had been started by itself; return the kernel's arguments."""
    os.setsid()
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"], JPY_PARENT_PID=str(os.getppid()))
    for number in (signal.SIGCHLD, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL if number == signal.SIGCHLD else signal.SIG_IGN)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    if "numpy.random" in sys.modules:  # otherwise all runs would draw the same "random" numbers
        sys.modules["numpy.random"].seed()
    arguments: list[str] = request["arguments"]
    sys.argv = ["ipykernel_launcher", *arguments]
    os.write(answers, b"%d\n" % os.getpid())
    os.close(answers)
    return arguments
