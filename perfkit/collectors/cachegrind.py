"""`Cachegrind`: simulated counts of a command, by valgrind, for machines without counters."""

import json
import platform
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from perfkit.base.files import replaced
from perfkit.collectors.command import run_quietly, warn_of_status, words_of
from perfkit.errors import SettingError, UnavailableError, expect_number
from perfkit.readers import cachegrind
from perfkit.readers.report import Report
from perfkit.samples.table import Samples


@dataclass(frozen=True)
class Cachegrind:
    """Simulate caches and branch prediction of a command and return each function's counts as a sample.

    There is no clock in the simulation. The samples' time is ``estimated-cycles``: Ir + ``l1_penalty`` L1m +
    ``ll_penalty`` LLm + ``branch_penalty`` Bm. It is an estimate, named so, and the runs are of kind ``simulated``:
    good for trying methods out and for comparing locality, no substitute for measured cycles. A model fitted to it
    finds the penalties that were put in.

    Attributes
    ----------
    at_least : int
        Functions of fewer instructions are left out (and how many, in the notes): their ratios are noise.
    l1_penalty, ll_penalty, branch_penalty : float
        Cycles per miss in the estimate.
    i1, d1, ll : str
        The simulated caches as ``size,ways,line`` in bytes. Fixed, not the host's, so that others can repeat a run.
    valgrind : str
        The program.

    Examples
    --------
    >>> samples = pk.collectors.Cachegrind().run(["./stencil", "100"])     # doctest: +SKIP
    >>> samples.kind                                                       # doctest: +SKIP
    'simulated'
    """

    at_least: int = 1000
    l1_penalty: float = cachegrind.L1_PENALTY
    ll_penalty: float = cachegrind.LL_PENALTY
    branch_penalty: float = cachegrind.BRANCH_PENALTY
    i1: str = "32768,8,64"
    d1: str = "32768,8,64"
    ll: str = "8388608,16,64"
    valgrind: str = "valgrind"

    def __post_init__(self) -> None:
        for name in ("i1", "d1", "ll"):
            parts = str(getattr(self, name)).split(",")
            if len(parts) != 3 or not all(p.isdigit() and int(p) > 0 for p in parts):
                raise SettingError(f"{name} is size,ways,line in bytes, as 32768,8,64; found {getattr(self, name)!r}")
        for name in ("l1_penalty", "ll_penalty", "branch_penalty", "at_least"):
            expect_number(getattr(self, name), "Cachegrind", name, "the program goes to .run(command)")
        if min(self.l1_penalty, self.ll_penalty, self.branch_penalty, self.at_least) < 0:
            raise SettingError("penalties and at_least are at least 0")

    def run(self, command: Sequence[str], *, workload: str | None = None, keep: str | Path | None = None) -> Samples:
        """Run a command under cachegrind (some 50 times slower than alone) and return its functions' samples.

        ``workload`` is what to call the run (by default by its program), ``keep`` where cachegrind's output file is
        copied to. What the command prints is discarded.

        Raises
        ------
        UnavailableError
            There is no valgrind, or it cannot run the program.
        """
        command = words_of(command)
        if shutil.which(self.valgrind) is None:
            raise UnavailableError(f"the program {self.valgrind!r} is not installed (Debian and Ubuntu: valgrind).")
        with tempfile.TemporaryDirectory(prefix="perfkit-cachegrind-") as folder:
            out = Path(folder) / "cachegrind.out"
            status = self._simulate(command, out)
            text = out.read_text(errors="replace")
            if keep is not None:
                with replaced(keep) as temporary:
                    temporary.write_text(text)
        return self._samples(text, command, workload or Path(command[0]).name, status)

    def _simulate(self, command: list[str], out: Path) -> int:
        settings = [f"--I1={self.i1}", f"--D1={self.d1}", f"--LL={self.ll}", f"--cachegrind-out-file={out}"]
        done = run_quietly(
            [self.valgrind, "--tool=cachegrind", "--cache-sim=yes", "--branch-sim=yes", *settings, *command]
        )
        if not out.exists() or not out.stat().st_size:
            said = " ".join(done.stderr.split())[-400:]
            raise UnavailableError(f"valgrind could not run {shlex.join(command)}; it said: {said!r}")
        warn_of_status(command, done.returncode)
        return done.returncode

    def _samples(self, text: str, command: list[str], workload: str, status: int) -> Samples:
        frame, about = cachegrind.functions(text.split("\n"), Report("cachegrind.out"))
        costs = (self.l1_penalty, self.ll_penalty, self.branch_penalty)
        whole = cachegrind.with_estimate(frame, *costs)
        large = whole[whole["Ir"] >= self.at_least]
        if large.empty:
            raise SettingError(f"no function executes at_least={self.at_least} instructions; lower it")
        notes = [cachegrind.estimate_note(whole, *costs)]
        if len(large) < len(whole):
            share = 1 - large["Ir"].sum() / whole["Ir"].sum()
            notes.append(
                f"{len(whole) - len(large):,} functions of fewer than {self.at_least:,} instructions left out "
                f"({share:.1%} of all instructions)"
            )
        dump = cachegrind.to_dump(large, workload, about)
        version = subprocess.run(
            [self.valgrind, "--version"], capture_output=True, text=True, check=False
        ).stdout.strip()
        parameters = {**about, "valgrind": version, "exit_status": status, "estimate": notes[0]}
        runs = pd.DataFrame(
            {
                "workload": workload,
                "host": platform.node(),
                "command": shlex.join(command),
                "parameters": json.dumps(parameters),
                "source": f"{version} cachegrind",
                "kind": "simulated",
            },
            index=[workload],
        )
        return Samples.from_counts(
            dump.counts,
            time_event=cachegrind.TIME_EVENT,
            work_event=cachegrind.WORK_EVENT,
            runs=runs,
            kind="simulated",
            notes=notes,
        )
