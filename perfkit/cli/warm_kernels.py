"""Kernels that are forked from a process that has imported everything, for many runs of one notebook.

Importing takes most of a short run. Each kernel is a process of its own as before, in the state after the imports, so
that no run sees anything of another.
"""

import ast
import atexit
import functools
import json
import os
import select
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from jupyter_client.manager import AsyncKernelManager
from jupyter_client.provisioning import LocalProvisioner

# What may be imported before the notebook does: packages that do nothing but define something.
_KNOWN = {"IPython", "ipywidgets", "matplotlib", "numpy", "pandas", "perfkit", "perfkit_widgets", "scipy"}
_LAZY = {"perfkit", "perfkit_widgets"}


def names_in(notebook: Path) -> tuple[str, ...]:
    """Return what a notebook's cells import of known packages, and what they name of perfkit; none where unsuitable.

    Without ``%matplotlib inline`` importing pyplot in a kernel does more than outside of one: such a notebook's kernels
    are started as usual.
    """
    cells = json.loads(notebook.read_text(encoding="utf-8")).get("cells", [])
    sources = ["".join(c["source"]) for c in cells if c.get("cell_type") == "code"]
    if not any(line.startswith("%matplotlib inline") for text in sources for line in text.splitlines()):
        return ()
    names: dict[str, None] = {}
    aliases: dict[str, str] = {}
    for text in sources:
        code = "\n".join(line for line in text.splitlines() if not line.startswith(("%", "!")))
        try:
            tree = ast.parse(code)
        except SyntaxError:
            continue
        for node in ast.walk(tree):
            for name, known_as in _imported(node):
                if name.partition(".")[0] in _KNOWN:
                    names[name] = None
                    aliases[known_as] = name
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                module = aliases.get(node.value.id, "")
                if module in _LAZY:
                    names[f"{module}.{node.attr}"] = None
    return tuple(names)


def _imported(node: ast.AST) -> list[tuple[str, str]]:
    if isinstance(node, ast.Import):
        return [(a.name, a.asname or a.name) for a in node.names]
    if isinstance(node, ast.ImportFrom) and node.module and not node.level:
        return [(f"{node.module}.{a.name}", a.asname or a.name) for a in node.names if a.name != "*"]
    return []


class _Kernel:
    """A forked kernel: no child of this process, so watched by its process descriptor. As `subprocess.Popen`."""

    stdin = stdout = stderr = None

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        try:
            self._descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            self.returncode = 1

    def poll(self) -> int | None:
        if self.returncode is None:
            watched = select.poll()
            watched.register(self._descriptor, select.POLLIN)
            if watched.poll(0):
                os.close(self._descriptor)
                self.returncode = 1  # how it ended is not known here, and nobody asks
        return self.returncode

    def wait(self) -> int:
        if self.returncode is None:
            watched = select.poll()
            watched.register(self._descriptor, select.POLLIN)
            watched.poll()
        return int(self.poll() or 0)

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)


class WarmKernels:
    """The process that is forked; it ends with the one that made it, or with `close`."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = list(names)
        self._lock = threading.Lock()
        self._process = self._started()

    def _started(self) -> subprocess.Popen[str]:
        # Not -P: the kernels inherit it, and would not find the modules beside their notebook.
        start = "import sys; del sys.path[0]; from perfkit.base import warm; warm.main(sys.argv[1:])"
        command = [sys.executable, "-c", start, *self._names]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def fork(self, arguments: Sequence[str], env: Mapping[str, str], cwd: str) -> _Kernel:
        """Return a new kernel with these arguments; where the process to be forked was killed, of a new one."""
        request = json.dumps({"arguments": list(arguments), "env": dict(env), "cwd": cwd}) + "\n"
        with self._lock:
            answer = self._asked(request)
            if not answer:
                self.close()
                self._process = self._started()
                answer = self._asked(request)
        if int(answer or 0) <= 0:
            raise RuntimeError(f"no kernel could be forked in {cwd}")
        return _Kernel(int(answer))

    def _asked(self, request: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(request)
            self._process.stdin.flush()
            return self._process.stdout.readline()
        except OSError:
            return ""

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()


class _Provisioner(LocalProvisioner):
    """Starts a kernel by a fork instead of a program."""

    warm: WarmKernels

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> Any:
        if cmd[:3] != [sys.executable, "-m", "ipykernel_launcher"]:  # another kernel than that of this environment
            return await super().launch_kernel(cmd, **kwargs)
        place = str(kwargs.get("cwd") or Path.cwd())
        kernel = self.warm.fork(cmd[3:], kwargs.get("env") or os.environ, place)
        self.process = cast("Any", kernel)  # all that is asked of a Popen here
        self.pid = self.pgid = kernel.pid  # the first process of a session of its own
        self.cwd = place
        return self.connection_info


@functools.cache
def warm_manager(names: tuple[str, ...]) -> type[AsyncKernelManager] | None:
    """Return the class of managers whose kernels are forked from one process of this program; None where impossible."""
    if not names or not hasattr(os, "pidfd_open"):
        return None
    warm = WarmKernels(names)
    atexit.register(warm.close)

    class Manager(AsyncKernelManager):
        async def _async_pre_start_kernel(self, **kw: Any) -> Any:
            if self.provisioner is None:
                own = _Provisioner(kernel_id=self.kernel_id or "", kernel_spec=self.kernel_spec, parent=self)
                own.warm = warm
                self.provisioner = own
            return await super()._async_pre_start_kernel(**kw)

    return Manager
