"""Cycles of basic blocks on this machine, without counters: thousands of them, each in a child process.

`harness.c` beside this file runs a loop over each block between readings of the kit's clock
(`perfkit.collectors.host.cycle_clock`); only samples on a quiet core count. Every block is measured in two processes,
and refused where these differ by more than 2 %.
"""

from __future__ import annotations

import csv
import os
import platform
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from perfkit.base.files import replaced
from perfkit.base.results import Kind, Tabled, draw
from perfkit.collectors.blocks.assembled import code_of
from perfkit.collectors.host.measuring import CLOCK
from perfkit.errors import DataError, FormatError, SettingError, UnavailableError, listed, of_extra
from perfkit.trace.block import CODE, PAGE, WORD, BasicBlock, listed_blocks

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

MODES = ("looped", "unrolled")
REPEATS = 0.02
"""By how much two processes may differ in a block's cycles."""
_PROCESSES = 2
_PATIENCE = (0.1, 0.5, 2.0)  # seconds that a block may wait for a quiet core, in each pass over those still open
_START = 10.0  # seconds to find out what a quiet core looks like
_REASONS = {
    "division": "it divides by zero, or the quotient does not fit",
    "illegal": "this processor does not know an instruction",
    "general-protection": "it asks for an address that cannot be (misaligned vectors, no canonical address)",
    "bus": "it faults (SIGBUS)",
    "trap": "it traps",
    "time": "a turn takes too long (a repeated string instruction of a huge count?)",
    "writes-code": "it writes into its own code",
    "many-pages": "it touches more than 2000 pages",
    "null": "it touches the lowest 64 KiB of memory, which cannot be mapped",
    "unmappable": "it touches memory that cannot be mapped, or is the measuring process's",
    "new-pages": "its addresses are others in every run",
    "crash": "it ended the measuring process",
    "long": "the unrolled loop is longer than 64 KiB",
    "no-memory": "the system gave no memory at the places that are needed",
    "no-seccomp": "this system does not let a process give up its right to system calls (seccomp)",
}
_COLUMNS = [
    "block",
    *(f"{mode}{part}" for mode in MODES for part in ("", "_low", "_high", "_reason")),
    "pages",
    "refused",
]


@dataclass(frozen=True, eq=False, repr=False)
class BlockCycles(Tabled):
    """Core cycles of basic blocks in their steady state, measured.

    Parameters
    ----------
    table : pd.DataFrame
        One row per block: block (hexadecimal machine code), looped (cycles of a turn of a loop over the block: its
        instructions, a decrement and a jump), looped_low and looped_high (the least and the most of the rounds of two
        processes), looped_reason (why there is no figure; "" where there is), the same of unrolled (cycles of a copy in
        a loop over so many copies that the loop's own cost does not count), pages (4 KiB each, all mapped to one), and
        refused (the reasons, joined).
    host : str
        Where this was measured.

    Examples
    --------
    >>> import perfkit as pk
    >>> found = pk.measure_blocks(["480fafc3", "4801d8"])  # doctest: +SKIP
    >>> found.to_frame()[["block", "looped", "unrolled"]]  # doctest: +SKIP
    """

    table: pd.DataFrame
    host: str

    _rows = "table"

    @property
    def kind(self) -> Kind:
        """``"measured"``."""
        return "measured"

    @property
    def looped(self) -> float:
        """Cycles of a turn of the loop, of a single block."""
        return self._only("looped")

    @property
    def unrolled(self) -> float:
        """Cycles of a copy of the unrolled block, of a single block."""
        return self._only("unrolled")

    def _only(self, mode: str) -> float:
        if len(self.table) != 1:
            raise SettingError(f"{len(self.table)} blocks have no single figure; take them from to_frame()")
        row = self.table.iloc[0]
        if row[f"{mode}_reason"]:
            raise DataError(f"{row['block'][:60]} {mode}: {row[f'{mode}_reason']}")
        return float(row[mode])

    @property
    def share(self) -> float:
        """Share of the blocks whose loop has a figure."""
        return float(self.table["looped"].notna().mean())

    def to_frame(self) -> pd.DataFrame:
        """Return the table."""
        return self.table.copy()

    def summary(self) -> str:
        """Say what the blocks take, and why some have no figure."""
        if len(self.table) == 1:
            row = self.table.iloc[0]
            found = [
                f"{row[mode]:.2f} ({row[f'{mode}_low']:.2f} to {row[f'{mode}_high']:.2f}) cycles {mode}"
                if not row[f"{mode}_reason"]
                else f"{mode}: {row[f'{mode}_reason']}"
                for mode in MODES
            ]
            return f"{', '.join(found)}, measured on {self.host}"
        lines = [
            (
                f"{self.share:.1%} of {len(self.table):,} blocks measured on {self.host}: "
                f"median {self.table['looped'].median():.2f} cycles per iteration looped"
            )
        ]
        reasons = self.table.loc[self.table["looped"].isna(), "looped_reason"].value_counts()
        return "\n".join([*lines, *(f"{count:,}: {reason}" for reason, count in reasons[:8].items())])

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the cycles of the blocks, looped beside unrolled; return the axes."""
        return draw("blocks:plot_blocks", self, ax=ax)


def measure_blocks(
    blocks: Iterable[BasicBlock | str],
    *,
    keep: str | Path | None = None,
    patience: float = 600.0,
    processor: int | None = None,
    modes: Sequence[str] = MODES,
    progress: Callable[[int, int], None] | None = None,
) -> BlockCycles:
    """Measure the steady state of many blocks on this machine, looped and unrolled.

    Parameters
    ----------
    blocks : iterable of Block or str
        The blocks, or their machine code or text. What is no block is refused in its row.
    keep : path, optional
        A file to add each figure to as soon as it is known. What it holds already is not measured again: an interrupted
        measurement resumes where it stopped.
    patience : float
        Seconds to wait for a quiet core, over all blocks. Blocks that had none are refused as "busy", and tried again
        when the file of `keep` is given another time.
    processor : int, optional
        Which processor to use; by default the first that may be used.
    modes : sequence of str
        "looped", "unrolled" or both.
    progress : callable, optional
        Called with the figures done and their total.

    Returns
    -------
    BlockCycles
        One row per block, in their order.

    Raises
    ------
    UnavailableError
        This machine is no x86-64 Linux, has no C compiler, or no core of it was quiet at all.
    FormatError
        The file of `keep` is another's, or of another host.

    Examples
    --------
    >>> import perfkit as pk
    >>> pk.measure_blocks(["480fafc3", "4801d8"]).to_frame()["looped"]  # doctest: +SKIP
    """
    if platform.machine() != "x86_64" or platform.system() != "Linux":
        raise UnavailableError(f"blocks are measured on x86-64 Linux; this is {platform.machine()} {platform.system()}")
    if wrong := [mode for mode in modes if mode not in MODES]:
        raise SettingError(f"modes are {listed(MODES)}; found {listed(wrong)}")
    taken, refused = _taken(listed_blocks(blocks))
    host = host_name()
    wanted = {(one.hex, mode): one for one in taken.values() for mode in modes if _placeable(one)}
    with ExitStack() as stack:
        known, store = _kept(stack, keep, host)
        todo = {key: one for key, one in wanted.items() if key not in known}
        done = len(wanted) - len(todo)
        if todo:
            for key, figures in _measured(todo, processor, patience):
                known[key] = figures
                if store is not None and not figures["reason"].startswith("busy"):
                    store(key, figures)
                done += 1
                if progress is not None:
                    progress(done, len(wanted))
    return BlockCycles(_table(taken, refused, known, modes), host)


def host_name() -> str:
    """Return this machine's name in a measurement."""
    from perfkit.collectors.host.machine_state import read_state

    state = read_state()
    return f"{state.processor}, family {state.family} model {state.model}"


def _taken(given: Sequence[BasicBlock | str]) -> tuple[dict[int, BasicBlock], dict[int, tuple[str, str]]]:
    """Return the blocks by their place, and the text and the reason of what is none."""
    taken: dict[int, BasicBlock] = {}
    refused: dict[int, tuple[str, str]] = {}
    for k, one in enumerate(given):
        try:
            taken[k] = one if isinstance(one, BasicBlock) else BasicBlock(code_of(one))
        except DataError as error:
            refused[k] = (str(one), str(error))
    return taken, refused


def _placeable(block: BasicBlock) -> bool:
    return block.counter is not None


def _table(
    taken: dict[int, BasicBlock],
    refused: dict[int, tuple[str, str]],
    known: dict[tuple[str, str], dict[str, Any]],
    modes: Sequence[str],
) -> pd.DataFrame:
    pd = of_extra("pandas")

    rows = []
    for k in range(len(taken) + len(refused)):
        text, reason = refused.get(k, ("", ""))
        block = taken.get(k)
        row: dict[str, Any] = {"block": text if block is None else block.hex, "pages": 0}
        if block is not None and not _placeable(block):
            reason = "it uses every integer register: none is left to count the turns of a loop"
        for mode in MODES:
            nothing = {"value": np.nan, "low": np.nan, "high": np.nan, "reason": reason or "not asked for", "pages": 0}
            found = nothing if block is None or mode not in modes else known.get((block.hex, mode), nothing)
            row |= {mode: found["value"], **{f"{mode}_{part}": found[part] for part in ("low", "high", "reason")}}
            row["pages"] = max(row["pages"], found["pages"])
        row["refused"] = "; ".join(dict.fromkeys(row[f"{mode}_reason"] for mode in modes if row[f"{mode}_reason"]))
        rows.append(row)
    return pd.DataFrame(rows, columns=_COLUMNS)


# --- what was measured before -----------------------------------------------------------------------------------------

_FIELDS = ["block", "mode", "value", "low", "high", "pages", "reason"]
_Kept = dict[tuple[str, str], dict[str, Any]]


def _kept(
    stack: ExitStack, path: str | Path | None, host: str
) -> tuple[_Kept, Callable[[tuple[str, str], dict[str, Any]], None] | None]:
    """Return what a file holds of this host, and what adds to it."""
    if path is None:
        return {}, None
    path, head = Path(path), f"# cycles of basic blocks measured on {host}"
    known: _Kept = {}
    if path.exists() and path.stat().st_size:
        known = read_kept(path, head)
        file = stack.enter_context(path.open("a", newline="", encoding="utf-8"))
        writer = csv.DictWriter(file, _FIELDS)
    else:
        file = stack.enter_context(path.open("w", newline="", encoding="utf-8"))
        file.write(head + "\n")
        writer = csv.DictWriter(file, _FIELDS)
        writer.writeheader()

    def store(key: tuple[str, str], figures: dict[str, Any]) -> None:
        writer.writerow({"block": key[0], "mode": key[1], **figures})
        file.flush()

    return known, store


def read_kept(path: Path, head: str = "") -> _Kept:
    """Read a file of `measure_blocks`; a last line that was cut off counts as not there.

    Raises
    ------
    FormatError
        It is another's, or of another host than ``head`` says.
    """
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    if not lines[0].startswith("# cycles of basic blocks measured on ") or (head and lines[0].strip() != head):
        raise FormatError(f"{path}: a file that begins with {head!r} was expected; found {lines[0][:100].strip()!r}")
    if not lines[-1].endswith("\n"):
        with replaced(path) as temporary:
            temporary.write_text("".join(lines[:-1]), encoding="utf-8")
        lines = lines[:-1]
    known: _Kept = {}
    for row in csv.DictReader(lines[1:]):
        try:
            figures = {part: float(row[part]) for part in ("value", "low", "high")}
            known[row["block"], row["mode"]] = {**figures, "pages": int(row["pages"]), "reason": row["reason"]}
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError(f"{path}: {','.join(_FIELDS)} expected; found {row} ({error})") from None
    return known


# --- measuring --------------------------------------------------------------------------------------------------------


def _measured(
    todo: dict[tuple[str, str], BasicBlock], processor: int | None, patience: float
) -> Iterator[tuple[tuple[str, str], dict[str, Any]]]:
    """Yield each figure as soon as it is known; those that found no quiet core come last."""
    until = time.monotonic() + patience
    where = min(os.sched_getaffinity(0)) if processor is None else processor
    with tempfile.TemporaryDirectory(prefix="perfkit-blocks-") as scratch:
        program = _built(Path(scratch))
        left = dict(todo)
        busy: dict[tuple[str, str], dict[str, Any]] = {}
        for wait in _PATIENCE:
            busy = {}
            for key, figures in _passed(program, left, where, wait, until):
                if figures["reason"].startswith("busy"):
                    busy[key] = figures
                else:
                    yield key, figures
            left = {key: left[key] for key in busy}
            if not left or time.monotonic() > until:
                break
        yield from busy.items()


def _passed(
    program: Path, todo: dict[tuple[str, str], BasicBlock], processor: int, wait: float, until: float
) -> Iterator[tuple[tuple[str, str], dict[str, Any]]]:
    """Measure all blocks once; what is left when the time is over counts as busy."""
    keys = list(todo)
    with tempfile.TemporaryFile("w+") as lines:
        for number, key in enumerate(keys):
            for _ in range(_PROCESSES):
                lines.write(_line(number, todo[key], key[1], wait))
        lines.seek(0)
        command = [str(program), str(processor), str(_START)]
        with subprocess.Popen(command, stdin=lines, stdout=subprocess.PIPE, text=True, bufsize=1) as running:
            assert running.stdout is not None  # asked for
            try:
                yield from _judged(running.stdout, keys, todo, until)
            finally:
                if running.poll() is None:
                    running.kill()
        if running.returncode == 3:
            raise UnavailableError(
                "no quiet core was seen: another thread of it was always at work, or its clock changed; "
                "try again when the machine is quieter"
            )


def _judged(
    answers: IO[str], keys: list[tuple[str, str]], todo: dict[tuple[str, str], BasicBlock], until: float
) -> Iterator[tuple[tuple[str, str], dict[str, Any]]]:
    waiting: list[list[str]] = []
    at = -1
    for answer in answers:
        words = answer.split()
        waiting.append(words)
        if len(waiting) < _PROCESSES:
            continue
        at = int(words[0])
        yield keys[at], _figures(waiting, todo[keys[at]].copies if keys[at][1] == "unrolled" else 1)
        waiting = []
        if time.monotonic() > until:
            break
    else:
        if at >= 0 and at + 1 < len(keys):
            raise UnavailableError(f"the measuring program ended after {at + 1} of {len(keys)} blocks")
    for key in keys[at + 1 :] if at >= 0 else []:
        yield key, _nothing("busy: the time was over before its turn")


def _nothing(reason: str) -> dict[str, Any]:
    return {"value": np.nan, "low": np.nan, "high": np.nan, "pages": 0, "reason": reason}


def _figures(answers: list[list[str]], copies: int) -> dict[str, Any]:
    """Return what the processes of one block found, or why that is no figure."""
    for words in answers:
        if words[1] == "refused":
            return _nothing(_REASONS.get(words[2], words[2]))
    for words in answers:
        if words[1] == "busy":
            return _nothing(
                f"busy: too few quiet samples ({words[4]} quiet, {words[5]} beside a busy thread, {words[6]} unsteady)"
            )
    rates = np.array([[float(rate) for rate in words[2:5]] for words in answers]) / copies
    typical = np.median(rates, axis=1)
    value = float(np.median(rates))
    figures = {"value": value, "low": float(rates.min()), "high": float(rates.max()), "reason": ""}
    figures["pages"] = int(answers[0][5])
    if not value > 0 or abs(typical[0] - typical[1]) > REPEATS * value:
        reason = f"unstable: two processes differ, {typical[0]:.3f} and {typical[1]:.3f} cycles"
        return _nothing(reason)
    return figures


def _line(number: int, block: BasicBlock, mode: str, wait: float) -> str:
    loop = block.loop(block.copies if mode == "unrolled" else 1)
    registers = " ".join(map(str, block.registers))
    return f"{number} {loop.hex()} {block.vectors} {block.counter} {wait} {registers}\n"


def _built(folder: Path) -> Path:
    """Compile the harness in `folder`."""
    program = folder / "harness"
    with as_file(files("perfkit.collectors.blocks") / "harness.c") as source, as_file(CLOCK) as header:
        places = [f"-D{name}={value:#x}ul" for name, value in {"CODE": CODE, "PAGE": PAGE, "WORD": WORD}.items()]
        flags = ["-O2", "-fno-stack-protector", "-fcf-protection=none", "-fPIE", "-pie", f"-I{header.parent}"]
        command = ["gcc", *flags, *places, "-o", str(program), str(source), "-lm"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            raise UnavailableError("measuring blocks needs a C compiler (Debian's package gcc)") from None
    if done.returncode:
        raise UnavailableError(f"the measuring program does not compile: {done.stderr[:1000]}")
    return program
