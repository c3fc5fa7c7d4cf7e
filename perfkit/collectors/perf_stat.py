"""`PerfStat`: hardware counters of a command, by ``perf stat``."""

import json
import os
import platform
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pandas as pd

from perfkit.collectors.command import run_quietly, warn_of_status, words_of
from perfkit.errors import SettingError, UnavailableError, expect
from perfkit.readers.read import read_samples
from perfkit.samples.table import Samples

_SEPARATOR = ";"
_INSTEAD = (
    "Measure on a machine with counters and read its dump with perfkit.read_samples, use software events "
    "(time_event='task-clock', work_event=...), or perfkit.collectors.Cachegrind, which needs no counters."
)


@dataclass(frozen=True)
class PerfStat:
    """Count events of a command with ``perf stat -I``.

    Attributes
    ----------
    events : sequence of str
        Events by the names that ``perf list`` gives; a group ``{a,b}`` is counted together.
    interval : float
        Length of an interval, in seconds (perf allows 0.01 and more).
    mode : "multiplexed" or "grouped"
        All events in one run, of which perf counts some at a time and scales (``running`` says how long each was
        counted); or one run after another with ``group_size`` events each, never scaled, as separate runs of samples.
    group_size : int
        Events per run in grouped mode, beside those of time and work.
    time_event, work_event : str
        Counted in every run; what time and work of the samples are.
    keep_in : path
        The folder in which the dumps are kept as perf wrote them; nothing in it is overwritten.
    perf : str
        The program.

    Examples
    --------
    >>> collector = pk.collectors.PerfStat(["cache-misses", "branch-misses"], interval=0.1)
    >>> samples = collector.run(["./stencil", "1000"])                     # doctest: +SKIP
    """

    events: Sequence[str]
    interval: float = 0.1
    mode: Literal["multiplexed", "grouped"] = "multiplexed"
    group_size: int = 4
    time_event: str = "cycles"
    work_event: str = "instructions"
    keep_in: str | Path = "perf-dumps"
    perf: str = "perf"

    def __post_init__(self) -> None:
        fits = hasattr(self.events, "__iter__") and all(isinstance(event, str) for event in self.events)
        expect(fits, self.events, "PerfStat", "names of events (events)", "list them, as perf list gives them")
        if isinstance(self.events, str) or not all(self.events):
            raise SettingError(f"events is a list of names, as perf list gives them; found {self.events!r}")
        odd = [e for e in (*self.events, self.time_event, self.work_event) if e.startswith("-") or re.search(r"\s", e)]
        if odd:
            raise SettingError(f"not the name of an event: {odd[0]!r}")
        if not self.interval >= 0.01:
            raise SettingError(f"interval is in seconds and at least 0.01, which perf demands; found {self.interval}")
        if self.mode not in ("multiplexed", "grouped"):
            raise SettingError(f"mode is 'multiplexed' or 'grouped'; found {self.mode!r}")
        if self.group_size < 1:
            raise SettingError(f"group_size is at least 1; found {self.group_size}")

    def run(
        self,
        command: Sequence[str],
        *,
        workload: str | None = None,
        cwd: str | Path | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Samples:
        """Run a command and return its samples.

        Parameters
        ----------
        command : sequence of str
            The program and its arguments; no shell is involved. What it prints is discarded.
        workload : str, optional
            What to call it; by default the program's name.
        cwd : path, optional
            The folder to run it in.
        progress : callable, optional
            Told, before each run, how many are done and how many there are.

        Raises
        ------
        UnavailableError
            There is no perf, it may not count, or the machine has no counters for time and work.
        SettingError
            perf does not know an event, or the command cannot be run.
        """
        command = words_of(command)
        workload = workload or Path(command[0]).name
        self._check_available()
        folder = Path(self.keep_in)
        folder.mkdir(parents=True, exist_ok=True)
        groups = self._groups()
        parts = []
        for i, group in enumerate(groups):
            if progress is not None:
                progress(i, len(groups))
            name = workload if len(groups) == 1 else f"{workload}-{i + 1}-of-{len(groups)}"
            raw = _free_path(folder, name)
            status = self._perf(group, command, raw, cwd)
            samples = read_samples(
                raw, time_event=self.time_event, work_event=self.work_event, workload=workload, format="perf-csv"
            )
            parts.append(self._described(samples, command, group, status))
        return parts[0] if len(parts) == 1 else Samples.concat(parts)

    def _groups(self) -> list[list[str]]:
        axes = [e for e in dict.fromkeys((self.time_event, self.work_event)) if e != "seconds"]
        events = [e for e in self.events if e not in axes]
        if self.mode == "multiplexed" or len(events) <= self.group_size:
            return [[*axes, *events]]
        return [[*axes, *events[i : i + self.group_size]] for i in range(0, len(events), self.group_size)]

    def _check_available(self) -> None:
        """Count time and work of a program that does nothing, before a long one is run for nothing."""
        if shutil.which(self.perf) is None:
            raise UnavailableError(
                f"the program {self.perf!r} is not installed (Debian: linux-perf; Ubuntu: linux-tools-generic). "
                + _INSTEAD
            )
        axes = self._groups()[0][:2]
        done = self._call(["-x", _SEPARATOR, "-e", ",".join(axes), "--", "true"])
        lacking = [
            line.split(_SEPARATOR)[2]
            for line in done.stderr.splitlines()
            if line.startswith("<not supported>") and line.count(_SEPARATOR) >= 2
        ]
        if lacking:
            raise UnavailableError(
                f"this machine has no counters for {', '.join(lacking)} (perf says <not supported>), as is usual in "
                f"virtual machines and containers. {_INSTEAD}"
            )
        self._refuse(done, ["true"])

    def _perf(self, events: list[str], command: list[str], raw: Path, cwd: str | Path | None) -> int:
        milliseconds = str(round(self.interval * 1000))
        done = self._call(
            ["-x", _SEPARATOR, "-I", milliseconds, "-o", str(raw.resolve()), "-e", ",".join(events), "--", *command],
            cwd,
        )
        if not raw.exists() or _SEPARATOR not in raw.read_text(errors="replace"):
            raw.unlink(missing_ok=True)
            self._refuse(done, command)
            raise UnavailableError(f"perf stat wrote no counts; it said: {done.stderr.strip()[:400]!r}")
        warn_of_status(command, done.returncode)
        return done.returncode

    def _call(self, arguments: list[str], cwd: str | Path | None = None) -> subprocess.CompletedProcess[str]:
        return run_quietly([self.perf, "stat", *arguments], cwd, {**os.environ, "LC_ALL": "C"})

    def _refuse(self, done: subprocess.CompletedProcess[str], command: list[str]) -> None:
        """Raise what perf's own error message means."""
        said = done.stderr.strip()
        short = " ".join(said.split())[:400]
        if re.search(r"event syntax error|Cannot find|unknown|Bad event", said) and done.returncode:
            raise SettingError(f"perf does not know one of the events ({short}). `perf list` shows those there are.")
        if re.search(r"No permission|Permission denied|paranoid|Access to performance monitoring", said):
            raise UnavailableError(
                f"perf may not count here ({short}). Lower kernel.perf_event_paranoid (sysctl) or run it as root."
            )
        if re.search(r"Workload failed|No such file or directory|failed to exec", said):
            raise SettingError(f"cannot run {shlex.join(command)}: {short}")
        if done.returncode and command == ["true"]:
            raise UnavailableError(f"perf stat does not work here; it said: {short!r}. {_INSTEAD}")

    def _described(self, samples: Samples, command: list[str], events: list[str], status: int) -> Samples:
        """Add host, command, versions and settings to what the reader knows of the run."""
        runs = samples.runs.copy()
        about = {
            "perf": _version(self.perf),
            "kernel": platform.release(),
            "cpu": _cpu_model(),
            "interval_seconds": self.interval,
            "mode": self.mode,
            "events": events,
            "exit_status": status,
        }
        runs["host"] = platform.node()
        runs["command"] = shlex.join(command)
        runs["parameters"] = pd.Series(
            [json.dumps({**json.loads(p), **about}) for p in runs["parameters"]], index=runs.index, dtype="str"
        )
        return Samples(samples.table, runs, samples.time_event, samples.work_event, samples.problems, samples.notes)


def _free_path(folder: Path, name: str) -> Path:
    safe = re.sub(r"[^\w.-]+", "_", name)
    number = 1
    while (path := folder / (f"{safe}.csv" if number == 1 else f"{safe}-{number}.csv")).exists():
        number += 1
    return path


def _version(perf: str) -> str:
    done = subprocess.run([perf, "--version"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def _cpu_model() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(errors="replace")
    except OSError:
        return platform.processor()
    match = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return match[1].strip() if match else platform.processor()
