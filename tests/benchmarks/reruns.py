"""Hundreds of reruns of a notebook that survive a killed worker, a full disk and a killed program.

    python -m tests.benchmarks.reruns --runs 24 [--cluster local:2] [--without view] [--folder DIR]

A quarter of the way a worker process is killed (SIGKILL); half way another program fills the disk, until it makes room
again; at three quarters the program itself is killed. The disk is a small one of its own (a tmpfs, which root may
mount); without one that step is left out, and said to be. Every page that was there before must be the same file
afterwards, not written anew.
"""

import argparse
import csv
import errno
import itertools
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

VERSIONS = [f"correlation-v{i}-small" for i in range(7)]
CORES = ["skylake_x", "ice_lake", "golden_cove", "raptor_cove", "redwood_cove", "alder_lake_p", "zen3", "zen4", "zen5"]
NARROW = {"alder_lake_p", "zen3"}  # no vectors of 512 bits: the notebook refuses them
WEIGHTS = ["[1.5, 2.0]", "[1.1, 2.0]", "[2.0, 4.0]", "[1.2, 3.0]"]
BITS = [128, 256, 512]
RUN_MB, LIBRARIES_MB = 6, 20  # room for a page with its record, more than it takes
Condition = Callable[[], bool]


def write_grid(path: Path, runs: int) -> None:
    """Write a table of as many rows, drawn from all combinations."""
    rows = [r for r in itertools.product(VERSIONS, CORES, WEIGHTS, BITS) if r[1] not in NARROW or r[3] < 512]
    if runs > len(rows):
        raise SystemExit(f"at most {len(rows)} different runs")
    with path.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(["kernel", "core", "weights", "vector_bits"])
        out.writerows(random.Random(0).sample(rows, runs))


def pages(folder: Path) -> dict[str, int]:
    """Return when each finished page was written."""
    return {p.name: p.stat().st_mtime_ns for p in (folder / "pages").glob("*.html")}


def is_warm(process: psutil.Process) -> bool:
    """Whether kernels are forked from a process."""
    return any("perfkit.base import warm" in word for word in process.cmdline())


class Program:
    """A `perfkit report` under way."""

    def __init__(self, words: list[str], log: Path) -> None:
        self.log = log
        self.output = log.open("ab")
        command = [sys.executable, "-m", "perfkit", *words]
        self.process = subprocess.Popen(command, stdout=self.output, stderr=subprocess.STDOUT)
        self.about = psutil.Process(self.process.pid)

    def until(self, condition: Condition, seconds: float = 7200) -> bool:
        """Wait for a condition; False where the program ends before."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.process.poll() is not None:
                return False
            if condition():
                return True
            time.sleep(0.2)
        raise SystemExit(f"not reached in {seconds} s; see {self.log}")

    def ended(self) -> tuple[int, str]:
        """Wait for the end; return its status and its last line."""
        status = self.process.wait()
        self.output.close()
        lines = self.log.read_text(encoding="utf-8", errors="replace").replace("\r", "\n").splitlines()
        said = [line for line in lines if line.strip() and "B/s]" not in line and "it/s]" not in line]
        return status, said[-1] if said else ""

    def workers(self) -> list[psutil.Process]:
        """Return the processes, below this one, whose kernels (forked from a child of theirs) run now."""
        found = []
        for child in self.about.children(recursive=True):
            try:
                forked = [k for k in child.children() if is_warm(k) and k.children()]
                if forked and not is_warm(child) and child.pid != self.about.pid:
                    found.append(child)
            except psutil.Error:
                continue
        return found


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[bool]:
    """Mount a small disk; False where that is not allowed."""
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)], capture_output=True, check=False
    )
    try:
        yield done.returncode == 0
    finally:
        if done.returncode == 0:
            subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(path: Path) -> None:
    """Write until the disk is full."""
    with path.open("wb", buffering=0) as file:
        for block in (1 << 20, 1 << 12):
            try:
                while True:
                    file.write(b"\0" * block)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise


def compared(before: dict[str, int], folder: Path) -> str:
    """Say whether the pages of before are the same files still; exit where they are not."""
    now = pages(folder)
    lost = [name for name, when in before.items() if now.get(name) != when]
    if lost:
        raise SystemExit(f"{len(lost)} finished pages were lost or made again: {lost[:3]}")
    return f"{len(before)} finished pages are the same files as before"


def survive(runs: int, notebook: str, work: Path, out: Path, cluster: str, disk: bool, without: str) -> None:
    """Run the grid through all three; print what happened."""
    grid = work / "grid.csv"
    write_grid(grid, runs)
    how = [*(["--cluster", cluster] if cluster else []), *(["--without", without] if without else [])]
    words = ["report", notebook, "--grid", str(grid), "-o", str(out), *how]
    start = time.perf_counter()

    def done() -> int:
        return len(pages(out))

    program = Program(words, work / "log.txt")
    if cluster:
        if not program.until(lambda: done() >= max(runs // 4, 1) and bool(program.workers())):
            raise SystemExit(f"ended before a worker could be killed: {program.ended()}")
        victim = program.workers()[0]
        os.kill(victim.pid, signal.SIGKILL)
        print(f"after {done()} pages worker {victim.pid} was killed", flush=True)
    if disk:
        program.until(lambda: done() >= max(runs // 2, 2))
        fill(out / "ballast")
        status, said = program.ended()
        print(f"after {done()} pages the disk was filled: the program ended with {status}: {said[:200]}", flush=True)
        if status == 0:
            raise SystemExit("it should not have been able to finish")
        before = pages(out)
        (out / "ballast").unlink()
        program = Program(words, work / "log.txt")
    program.until(lambda: done() >= max(3 * runs // 4, 3))
    if disk:
        print(compared(before, out), flush=True)
    family = program.about.children(recursive=True)
    program.process.kill()
    program.process.wait()
    before = pages(out)
    _, alive = psutil.wait_procs(family, timeout=60)
    print(f"after {len(before)} pages the program was killed; {len(alive)} of its {len(family)} processes live on")
    program = Program(words, work / "log.txt")
    status, said = program.ended()
    print(f"the last call ended with {status}: {said[:200]}\n{compared(before, out)}", flush=True)
    with (out / "results.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    seconds = [float(r["seconds"]) for r in rows if r["seconds"]]
    ok = sum(r["status"] == "ok" for r in rows)
    size = sum(p.stat().st_size for p in out.rglob("*") if p.is_file()) / 1e6
    left = [p.name for p in out.rglob("*.part")]
    print(
        f"{ok} of {runs} runs done in {time.perf_counter() - start:.0f} s over all calls, "
        f"{sum(seconds) / len(rows):.1f} s a run; {size:.0f} MB, {size / runs:.1f} MB a run; "
        f"{len(left)} unfinished files left behind"
    )
    if ok != runs or status:
        raise SystemExit(f"{runs - ok} runs failed; see {out}")


def main() -> None:
    """Run the grid and delete it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=24)
    parser.add_argument("--notebook", default="30_gus_optimization")
    parser.add_argument("--cluster", default="local:2", help="where they run ('': threads; then no worker is killed)")
    parser.add_argument("--without", default="", help="leave out the cells with this tag (view)")
    parser.add_argument("--folder", type=Path, help="keep the pages here")
    asked = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="perfkit-reruns-"))
    disk_folder = work / "disk"
    disk_folder.mkdir()
    try:
        with small_disk(disk_folder, LIBRARIES_MB + RUN_MB * asked.runs) as mounted:
            if not mounted:
                print("no small disk can be mounted here (that takes root): the full disk is left out")
            out = disk_folder / "runs"
            try:
                survive(asked.runs, asked.notebook, work, out, asked.cluster, mounted, asked.without)
            finally:
                if asked.folder and out.is_dir():
                    shutil.copytree(out, asked.folder, dirs_exist_ok=True)
    finally:
        shutil.rmtree(work)


if __name__ == "__main__":
    main()
