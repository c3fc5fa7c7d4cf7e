"""Run notebooks, each in a kernel of its own, and print when the first picture came and how much memory was used.

    python scripts/first_picture.py 'notebooks/*.ipynb'

A picture is an image or a live view. Fails where a notebook fails or passes a limit (scripts/simulate_binder.sh).
"""

import os
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import nbformat
import psutil
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

SECONDS = float(os.environ.get("PERFKIT_BINDER_SECONDS", "60"))
MEGABYTES = float(os.environ.get("PERFKIT_BINDER_MEGABYTES", "1500"))
PICTURES = ("image/png", "image/svg+xml", "application/vnd.jupyter.widget-view+json")


def main(patterns: list[str]) -> int:
    """Run what the patterns match; return 1 where something failed."""
    paths = [path for pattern in patterns for path in sorted(Path().glob(pattern))]
    if not paths:
        print(f"expected notebooks; nothing matches {' '.join(patterns)}", file=sys.stderr)
        return 2
    faults = []
    print(f"{'notebook':36} {'first picture':>13} {'all':>8} {'memory':>9}")
    for path in paths:
        first, total, memory, fault = run(path)
        shown = "none" if first is None else f"{first:.1f} s"
        print(f"{path.stem:36} {shown:>13} {total:>6.1f} s {memory:>6.0f} MB", flush=True)
        if fault:
            faults.append(f"{path.stem}: {fault}")
        if first is None or first > SECONDS:
            faults.append(f"{path.stem}: first picture after {shown}; at most {SECONDS:.0f} s")
        if memory > MEGABYTES:
            faults.append(f"{path.stem}: {memory:.0f} MB; at most {MEGABYTES:.0f} MB")
    for fault in faults:
        print(fault, file=sys.stderr)
    return bool(faults)


def run(path: Path) -> tuple[float | None, float, float, str]:
    """Run a notebook; return seconds to the first picture and in all, the kernel's peak in MB, and what went wrong."""
    notebook = nbformat.read(path, as_version=4)
    start, seen, fault = time.perf_counter(), [], ""
    memory, ended = [0.0], threading.Event()
    client = NotebookClient(notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": path.parent}})
    client.extra_arguments = ["--log-level=ERROR"]  # each kernel warns that its socket on this host is plain TCP

    def look(cell: Any, cell_index: int, **_: Any) -> None:  # noqa: ARG001  nbclient names them
        kinds = {kind for output in cell.get("outputs", []) for kind in output.get("data", {})}
        if kinds.intersection(PICTURES):
            seen.append(time.perf_counter() - start)
        memory[0] = max(memory[0], peak(client.km.provisioner.process.pid))

    def watch() -> None:
        while not ended.wait(0.1):
            if client.km is not None and client.km.has_kernel:
                memory[0] = max(memory[0], with_children(client.km.provisioner.process.pid))

    client.on_cell_executed = look
    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    try:
        client.execute()
    except CellExecutionError as error:
        fault = f"{error.ename}: {error.evalue}"
    finally:
        ended.set()
        watching.join()
    return (seen[0] if seen else None), time.perf_counter() - start, memory[0], fault


def peak(process: int) -> float:
    """Return the largest memory that a process has had at a time, in MB (10^6 bytes); its children's are not in it."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return float(line.split()[1]) * 1024 / 1e6
    return float("nan")


def with_children(process: int) -> float:
    """Return the memory of a process and all that it has started, in MB; a page that they share counts for each."""
    total = 0
    with suppress(psutil.NoSuchProcess, AttributeError):  # the kernel may end meanwhile
        root = psutil.Process(process)
        for each in (root, *root.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                total += each.memory_info().rss
    return total / 1e6


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
