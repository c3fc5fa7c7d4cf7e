"""Performance tests that are never flaky: simulated cycles of a pinned recording against a committed baseline.

A recording that is the same in every run (`perfkit.collectors.tracer.pinned`), simulated on one core's model without
asking anything of the machine, gives a number that only a change of the program, its compiler, its libraries or the
model can move; the baseline keeps enough to say which of these it was, and on which line.
"""

import fcntl
import hashlib
import json
import os
import shlex
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from perfkit.base.files import WRITER, is_folder, json_object, own_folder, replaced, whole_text
from perfkit.collectors.kernel_notes import starts_threads
from perfkit.collectors.kernels import SOURCES, compile_kernel, corpus_kernel, library_kernel
from perfkit.collectors.open_traces import kernel_arguments
from perfkit.collectors.tracer.elf import ElfFile
from perfkit.collectors.tracer.tracer import Tracer
from perfkit.diagnosis.gate_calls import MOST_CALLS, MOST_INSTRUCTIONS, CallsMade, calls_made
from perfkit.diagnosis.gate_verdict import GateVerdict
from perfkit.diagnosis.unmodelled import not_modelled
from perfkit.errors import (
    DataError,
    FormatError,
    MissingFileError,
    PerfkitError,
    PerfkitWarning,
    SettingError,
    counted,
    did_you_mean,
    how_often,
    of_extra,
    percent,
)
from perfkit.machine.core import Microarchitecture
from perfkit.machine.instruction_tables import InstructionTables
from perfkit.simulators.gus.diff import GusDiff, Line, Side, diff_sides, said_of
from perfkit.simulators.gus.gus import Gus, GusResult
from perfkit.trace.calls import calls_of
from perfkit.trace.trace import Trace

BASELINES = "perfkit-baselines.json"
"""The file beside the tests that holds what they are compared with."""
FLAGS = "-O2 -march={}"
"""How sources are compiled unless flags are given: for the pinned instruction set, not for this machine."""
_FORMAT = 1
_MOST_LINES, _GAIN = 40, 0.001  # of a baseline: lines, and the least speedup
_FIELDS = ("what", "arguments", "core", "instruction_set", "flags", "warm", "calls")  # must agree to be comparable


@dataclass(frozen=True)
class Gate:
    """What is run and simulated, and how much slower it may become.

    Parameters
    ----------
    what : str
        A program, library or source file and a function: ``build/solver:cfd::solve``, ``kernel.so:solve``,
        ``kernel.c:solve``; or ``corpus:NAME``.
    arguments : str or sequence
        A program's words; of a function in a library or source its arguments: numbers and numpy arrays, or as text,
        ``f8[1000], 2.0, 1000``.
    core : str
        The core whose model counts the cycles; not ``host``.
    at_most : float
        Per cent that the cycles may be above the baseline's; a negative bound demands that they fall.
    instruction_set : str
        What the run is pinned to: ``x86-64-v2``, ``-v3`` or ``-v4`` (AVX-512).
    flags, compiler : str
        For sources; `FLAGS`, and gcc or g++.
    cold : bool
        Whether the simulation begins with empty caches and an untrained predictor.
    callees : bool
        Whether called functions are simulated, too.
    skip, repeat, limit : int
        As in `perfkit.collectors.Tracer`.
    folder : Path
        What relative paths are relative to.
    """

    what: str
    arguments: Any = ""
    core: str = "zen4"
    at_most: float = 2.0
    instruction_set: str = "x86-64-v3"
    flags: str = ""
    compiler: str = ""
    cold: bool = False
    callees: bool = True
    skip: int = 0
    repeat: int = 1
    limit: int = 10_000_000
    folder: Path = field(default_factory=Path)

    def __post_init__(self) -> None:
        if self.core == "host":
            raise SettingError("a gate needs a core that is the same everywhere: name one, such as zen4, not host")
        object.__setattr__(self, "at_most", percent(self.at_most))
        if self.at_most <= -100:
            raise SettingError(
                f"a bound is above -100 %, for cycles cannot become fewer than none; found {self.at_most:g}"
            )

    def measure(self) -> "GateReading":
        """Record and simulate.

        Raises
        ------
        DataError
            The recording is not whole, lacks calls that were asked for, or could not be pinned.
        """
        core = Microarchitecture.load(self.core)
        trace, compiler = self._recorded()
        if not trace.provenance.complete:
            raise DataError(
                f"{self.what}: the recording stopped at the {trace.provenance.stopped}: a gate needs whole calls. "
                "Raise the limit, run a smaller problem, or name a function inside"
            )
        held = calls_of(trace)
        if held is not None and held < self.repeat:
            raise DataError(
                f"{self.what}: {counted(self.repeat, 'calls')} from call {self.skip + 1} on were asked for, and "
                f"only {held} made: lower repeat or skip"
            )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PerfkitWarning)  # forms that no table knows: the same ones every time
            # Asking an installed llvm-mca would let the machine decide.
            tables = InstructionTables.load(core, look_up=False)
            result = Gus(core, tables, warm=not self.cold).run(trace)
        return GateReading(self, result, compiler)

    def calls_made(self) -> CallsMade | None:
        """Return which calls the program makes beside those that are gated; None of kernels, and where it is not known.

        Calls from the first one on are recorded for that, up to 3 million instructions.
        """
        path = self._split()[0]
        if path is None or path.suffix in SOURCES or not ElfFile(path).is_program:
            return None
        further = replace(self, skip=0, repeat=MOST_CALLS, limit=MOST_INSTRUCTIONS)
        try:
            return calls_made(further._recorded()[0], self.skip, self.repeat)
        except PerfkitError:
            return None

    @property
    def built_with(self) -> str:
        """The flags that a source is compiled with; "" for what is built already."""
        name = self.what.partition(":")[0]
        is_source = name == "corpus" or Path(name).suffix in SOURCES
        return (self.flags or FLAGS.format(self.instruction_set)) if is_source else ""

    @property
    def how(self) -> str:
        """On which model the cycles are counted, and how a source is compiled."""
        built = f", compiled with {self.built_with.strip() or 'no flags'}" if self.built_with else ""
        return f"simulated on {self.core}{built}"

    @property
    def calls(self) -> str:
        """Which calls are gated: how many, and from which one on."""
        return f"{self.repeat} from {self.skip + 1}"

    @property
    def words(self) -> str:
        """The arguments as text."""
        if isinstance(self.arguments, str):
            return self.arguments
        return ", ".join(_array(each) if isinstance(each, np.ndarray) else str(each) for each in self.arguments)

    def _recorded(self) -> tuple[Trace, str]:
        """Return the pinned recording and what compiled the program."""
        path, _, function = self._split()
        tracer = Tracer(
            limit=self.limit, skip=self.skip, repeat=self.repeat, callees=self.callees, early=True,
            pinned=self.instruction_set,
        )  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PerfkitWarning)  # what was not followed stands in the reading
            if path is None or path.suffix in SOURCES or not ElfFile(path).is_program:
                kernel = self._kernel(path, function)
                values = kernel_arguments(self.arguments) if isinstance(self.arguments, str) else list(self.arguments)
                trace = tracer.run_kernel(kernel, *values)
                return trace, kernel.compiler if kernel.source else ElfFile(kernel.path).compiler
            if not function:
                raise SettingError(f"say which function of {path.name} is gated: {self.what}:FUNCTION")
            if self.flags or self.compiler:
                raise SettingError(f"flags and compiler are for sources; {path.name} is built already")
            words = shlex.split(self.arguments) if isinstance(self.arguments, str) else self.arguments
            return tracer.run(path, function, words), ElfFile(path).compiler

    def _split(self) -> tuple[Path | None, str, str]:
        """Return the file (None: the corpus), its name, and the function."""
        if self.what.startswith("corpus:"):
            return None, self.what, self.what.removeprefix("corpus:")
        name, _, function = self.what.partition(":")
        path = self.folder / name
        if not path.is_file():
            raise MissingFileError(f"there is no file {str(path)!r} to gate{is_folder(path)}; build it first")
        return path, name, function

    def _kernel(self, path: Path | None, function: str) -> Any:
        if path is not None and path.suffix not in SOURCES:
            if self.flags or self.compiler:
                raise SettingError(f"flags and compiler are for sources; {path.name} is built already")
            if not function:
                raise SettingError(f"say which function of {path.name} is gated: {path.name}:FUNCTION")
            return library_kernel(path, function)
        flags = self.built_with
        if path is None:
            return corpus_kernel(function, flags=flags, compiler=self.compiler or "gcc")
        compiler = self.compiler or ("gcc" if path.suffix == ".c" else "g++")
        return compile_kernel(path, function or None, flags=flags, compiler=compiler)


def _array(values: Any) -> str:
    mark = hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()[:8]
    return f"{values.dtype.str[1:]}{list(values.shape)} {mark}"


@dataclass(frozen=True)
class GateReading:
    """What one run of a gate gave."""

    gate: Gate
    result: GusResult
    compiler: str

    @property
    def cycles(self) -> float:
        """Simulated cycles."""
        return self.result.cycles

    @cached_property
    def trace(self) -> str:
        """What tells this recording from any other: instructions, their order, and every address."""
        return mark_of(self.result.trace)

    @cached_property
    def judged(self) -> str:
        """Which calls are judged, of how many, and whether the others run other code; "" where all are."""
        made = self.gate.calls_made()
        return "" if made is None else made.told(self.gate.skip, self.gate.repeat)

    @cached_property
    def side(self) -> Side:
        """What a comparison needs of it: asking what would help takes a few simulations more."""
        found = Side.of(self.result, self.gate.what)
        first = sorted(
            found.lines, key=lambda line: -max(line.cycles / found.cycles, line.instructions / found.instructions)
        )
        kept = set(first[:_MOST_LINES])
        return replace(found, lines=tuple(line for line in found.lines if line in kept))

    def entry(self) -> dict[str, Any]:
        """Return what a baseline keeps."""
        gate, side, origin = self.gate, self.side, self.result.trace.provenance
        return {
            "what": gate.what,
            "arguments": gate.words,
            "core": gate.core,
            "instruction_set": gate.instruction_set,
            "flags": gate.built_with,
            "warm": side.warm,
            "calls": gate.calls,
            "judged": self.judged,
            "cycles": round(side.cycles, 3),
            "instructions": side.instructions,
            "trace": self.trace,
            "compiler": self.compiler,
            "libraries": json.loads(origin.extra.get("libraries", "{}")),
            "code": self.code,
            "model": self.model,
            "perfkit": WRITER,
            "not_modelled": not_modelled(self.result),
            "not_followed": origin.extra.get("not_followed_calls", ""),
            "causes": {name: round(cycles, 3) for name, cycles in side.causes.items() if cycles},
            "speedups": {name: round(gain, 4) for name, gain in side.speedups.items() if gain >= _GAIN},
            "lines": [
                [line.place, round(line.cycles, 3), line.instructions, line.mix, line.text] for line in side.lines
            ],
        }

    @property
    def code(self) -> dict[str, str]:
        """The files whose code ran, but for the system's libraries, by name, with the digest of what runs in them."""
        found: dict[str, str] = json.loads(self.result.trace.provenance.extra.get("own_code", "{}"))
        return found

    @property
    def asks_for_folder(self) -> bool:
        """Whether the recording asks in which folder it runs, which is not pinned."""
        return "getcwd" in self.result.trace.code.function

    @property
    def starts_threads(self) -> str:
        """By what the program or library itself can start threads, of which a reading holds one; "" of others."""
        name = self.gate.what.partition(":")[0]
        path = self.gate.folder / name
        if name == "corpus" or path.suffix in SOURCES or not path.is_file():
            return ""
        return starts_threads(path)

    @property
    def model(self) -> str:
        """What tells this core's figures from those of another version of its model."""
        core, tables = self.result.settings.core, self.result.settings.tables
        figures = repr(tables.layers) if tables is not None else ""
        return hashlib.sha256((core.to_toml() + figures).encode()).hexdigest()[:12]


def mark_of(trace: Trace) -> str:
    """Return what tells a recording from any other: a hash of its instructions, their order, and every address."""
    found, code = hashlib.sha256(), trace.code
    for part in (trace.stream, trace.addresses, trace.sizes, code.pc):
        found.update(np.ascontiguousarray(part).tobytes())
    found.update(b"".join(code.encoding))
    return found.hexdigest()[:16]


def plain_name(what: str, folder: str | Path) -> str:
    """Return what is gated by one name, however its path is written: relative to a folder, links in it resolved.

    Parameters
    ----------
    what : str
        As in `Gate`.
    folder : path
        What relative paths in it are relative to.
    """
    if what.startswith("corpus:"):
        return what
    try:
        whole = Path(folder, what).is_file()
    except OSError:  # no name that a file could have
        return what
    file, colon, function = (what, "", "") if whole else what.partition(":")
    path, base = Path(folder, file).absolute(), Path(folder).resolve()
    return Path(os.path.relpath(path.parent.resolve() / path.name, base)).as_posix() + colon + function


def check_gate(name: str, gate: Gate, baselines: str | Path, hint: str = "--update") -> GateVerdict:
    """Compare a gate with its baseline.

    Parameters
    ----------
    name : str
        Of the baseline in the file.
    gate : Gate
        What to run.
    baselines : path
        The file of baselines; it need not exist.
    hint : str
        The option that updates baselines, for the message.
    """
    of_extra("pandas")  # a change is told by it: not only where there is one
    entries = read_baselines(baselines)
    old = entries.get(name)
    reading = gate.measure()
    if old is None:
        near = f" ({did_you_mean(name, entries)})" if entries else ""
        told = f"there is no baseline {name!r} in {baselines}{near}"
        try:
            measured_twice(gate, reading)
        except DataError as error:
            return GateVerdict(name, False, "no baseline", f"{told}, and {hint} would refuse: {error}", reading.cycles)
        return GateVerdict(
            name, False, "no baseline",
            f"{told}: run once with {hint}, look at the cycles ({reading.cycles:,.0f}, {gate.how}), "
            "and commit the file", reading.cycles,
        )  # fmt: skip
    mine = plain_name(gate.what, gate.folder)
    if old["what"] == name == mine or plain_name(old["what"], gate.folder) == mine:
        old = old | {"what": gate.what}
    now: dict[str, Any] = {
        "what": gate.what,
        "arguments": gate.words,
        "core": gate.core,
        "instruction_set": gate.instruction_set,
    }
    now |= {"flags": gate.built_with, "warm": reading.result.settings.warm, "calls": gate.calls}
    before = float(old["cycles"])
    if other := other_settings(old, now):
        told = f"another thing is measured than the baseline was: {'; '.join(other)}. If that is wanted, {hint}"
        return GateVerdict(name, False, "settings", told, reading.cycles, before)
    if old["trace"] == reading.trace and abs(before - reading.cycles) < 0.01:
        judged = old.get("judged", "")
        told, passed = f"{before:,.0f} cycles, the same run ({gate.how}{judged})", gate.at_most >= 0
        told += "" if passed else f"; {gate.at_most:+g} % is demanded, and nothing became faster"
        return GateVerdict(name, passed, "same", told, reading.cycles, before)
    return _judged(name, gate, old, reading, hint)


def _judged(name: str, gate: Gate, old: Mapping[str, Any], reading: GateReading, hint: str) -> GateVerdict:
    """Say what changed, and whether it is allowed."""
    before, cycles = float(old["cycles"]), reading.cycles
    slower = 100 * (cycles / before - 1)
    within, further = slower <= gate.at_most, _not_modelled(old, reading, hint)
    passed = within and not further
    figures = (
        f"{cycles:,.0f} cycles, {slower:+z.2f} % against the baseline's {before:,.0f} ({gate.how}{reading.judged})"
    )
    figures += "" if within else f"; {gate.at_most:+g} % is allowed"
    cause, why = _origin(old, reading)
    gains = dict.fromkeys(reading.side.speedups, 0.0)  # those that bring nothing are not kept
    before_it, same_code = replace(_side(old), speedups=gains | old["speedups"]), _is_same_code(old, reading)
    change = diff_sides(before_it, reading.side, (None, reading.result), same_code)
    if cause == "program":
        why = _reason(change)
    elif cause == "input":
        why += f". {_reason(change)}"
    elif cause in ("model", "compiler", "libraries"):
        why += f": update the baseline ({hint}) in a commit of its own"
    if passed and slower < -max(1.0, abs(gate.at_most)):
        why += f". {hint} keeps the gain"
    if further:  # a line that gains cycles while the whole does not would be taken for their cause
        why = f"{further}. {why}" if not within else further
    return GateVerdict(name, passed, cause, f"{figures}. {why}", cycles, before, change)


def _not_modelled(old: Mapping[str, Any], reading: GateReading, hint: str) -> str:
    """Say that instructions ran whose time is in no cycles, more often than in the baseline; "" where none did."""
    now = not_modelled(reading.result)
    if "not_modelled" not in old:
        if not now:
            return ""
        told = ", ".join(f"{name} {how_often(times)}" for name, times in now.items())
        return (
            f"Not judged: what it ran holds instructions whose time is not simulated ({told}), and this baseline is of "
            f"before these were counted: {hint} counts them"
        )
    before = old["not_modelled"]
    more = {name: times for name, times in now.items() if times > before.get(name, 0)}
    if not more:
        return ""
    told = ", ".join(
        f"{name} {how_often(times)} ({before.get(name, 0):,} in the baseline)" for name, times in more.items()
    )
    return (
        f"Not judged: instructions ran whose time is not simulated, and more often than before: {told}. What they take "
        f"is in no cycles here: measure it (perfkit compare); {hint} accepts them"
    )


def _origin(old: Mapping[str, Any], reading: GateReading) -> tuple[str, str]:
    """Say whose change it is."""
    entry_compiler, libraries = reading.compiler, json.loads(reading.result.trace.provenance.extra["libraries"])
    model = old["model"] != reading.model or old["perfkit"] != WRITER
    versions = f" (perfkit {old['perfkit']} and {WRITER})" if old["perfkit"] != WRITER else ""
    if old["trace"] == reading.trace:
        return "model", f"the program runs the very same instructions, and the model changed{versions}"
    if old["compiler"] != entry_compiler:
        return "compiler", f"the compiler changed, from {old['compiler']!r} to {entry_compiler!r}"
    if old["libraries"] != libraries:
        both = set(old["libraries"]) | set(libraries)
        names = sorted(n for n in both if old["libraries"].get(n) != libraries.get(n))
        changed = [n for n in names if n in old["libraries"] and n in libraries]
        if changed:
            return "libraries", f"the code of {', '.join(changed)} changed, which is run, too"
    same_code = _is_same_code(old, reading)
    if model:
        other = "what the program is given" if same_code else "the program"
        return "model", f"the model changed{versions}, and so did {other}"
    return ("input", _otherwise_given(old, reading)) if same_code else ("program", "")


def _is_same_code(old: Mapping[str, Any], reading: GateReading) -> bool:
    """Whether what ran is known to be the code that the baseline was made of, however often each part of it ran."""
    was, now = old.get("code", {}), reading.code
    both = was.keys() & now.keys()
    return bool(both) and all(was[name] == now[name] for name in both)


def _otherwise_given(old: Mapping[str, Any], reading: GateReading) -> str:
    """Say that the same code ran otherwise, and why that may be."""
    more = reading.side.instructions - old["instructions"]
    how = f"executed {'more' if more > 0 else 'less'} often ({more:+,} instructions)" if more else "run otherwise"
    folder = "; it asks for the current folder (getcwd)" if reading.asks_for_folder else ""
    return f"the same code, {how}: its input or its surroundings (files, the current folder) changed{folder}"


def _reason(change: GusDiff) -> str:
    """Say in one sentence which resource and which line made the change."""
    causes = change.by_cause()
    sign = 1 if change.cycles[1] >= change.cycles[0] else -1
    most = causes.loc[(sign * causes["change"]).idxmax()]
    told = f"most of the change: {most['cause']} ({most['change']:+,.0f} cycles)"
    row = change.changed_line()
    if row is not None:
        costly = change.to_frame().iloc[0]  # where the cycles are, which may be behind the line that was changed
        if change.explains(row):  # whatever the account says
            told = change.said(row)
        else:
            more = "" if costly["change"] == row["change"] else f"; the cycles are at {said_of(costly)}"
            told = f"{change.said(row)}{more}; {told}"
    first, second = change.bottlenecks
    if first != second:
        told += f"; the bottleneck was {first or 'no single resource'} and is now {second or 'no single resource'}"
    elif first and first != most["cause"]:  # cycles are counted where retirement waits, which may be behind it
        told += f"; the bottleneck stays: {first}"
    return told


# ------------------------------------------------------------------ the file of baselines


def read_baselines(path: str | Path) -> dict[str, dict[str, Any]]:
    """Return the baselines of a file by name; none where there is no file.

    Raises
    ------
    FormatError
        The file holds something else.
    """
    if not Path(path).exists():
        return {}
    found = json_object(whole_text(path, "baselines of perfkit gate"), path, "baselines of perfkit gate")
    entries = found.get("baselines")
    if found.get("perfkit_gate") != _FORMAT or not isinstance(entries, dict):
        raise FormatError(f"{path}: expected baselines of perfkit gate (version {_FORMAT})")
    for name, entry in entries.items():
        _check_entry(path, name, entry)
    return entries


_WANTED = {
    "what": str, "arguments": str, "core": str, "instruction_set": str, "flags": str, "warm": str, "cycles": float,
    "instructions": int, "trace": str, "compiler": str, "libraries": dict, "model": str, "perfkit": str, "causes": dict,
    "speedups": dict, "lines": list, "code": dict, "not_modelled": dict, "judged": str,
}  # fmt: skip


def _check_entry(path: str | Path, name: str, entry: Any) -> None:
    from perfkit.base.files import check_fields

    if not isinstance(entry, dict):
        raise FormatError(f"{path}: baseline {name!r} is no object")
    older: dict[str, Any] = {"code": {}, "not_modelled": {}, "judged": ""}  # as baselines were before: without these
    check_fields(older | entry, _WANTED, path, f"baseline {name!r}")
    if not entry["cycles"] > 0 or not entry["instructions"] > 0:
        raise FormatError(f"{path}: baseline {name!r}: cycles and instructions must be positive")
    counts = entry.get("not_modelled", {})
    check_fields(counts, dict.fromkeys(counts, int), path, f"not_modelled of baseline {name!r}")
    for part in ("causes", "speedups"):
        check_fields(entry[part], dict.fromkeys(entry[part], float), path, f"{part} of baseline {name!r}")
    kinds = (str, float, int, str, str)
    for row in entry["lines"]:
        if not isinstance(row, list) or len(row) != len(kinds):
            raise FormatError(f"{path}: baseline {name!r}: a line of it has other parts than place, cycles, ...")
        check_fields(dict(enumerate(row)), dict(enumerate(kinds)), path, f"a line of {name!r}")  # type: ignore[arg-type]


def other_settings(old: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Say which of the settings of a baseline are others than those of what is measured now."""
    # Baselines of before did not say which calls they hold.
    return [f"{key} was {old[key]!r} and is {now[key]!r}" for key in _FIELDS if key in old and old[key] != now[key]]


def update_baselines(entries: Mapping[str, Mapping[str, Any]], path: str | Path) -> Path:
    """Put baselines into a file beside those that it has; several processes may do so at once.

    The file is written as a whole, sorted, a source line per line, so that a change of one baseline is a small one in
    version control.
    """
    target = Path(path)
    with _alone(target):
        both = read_baselines(target) | {name: dict(entry) for name, entry in entries.items()}
        parts = [f"{json.dumps(name)}: {_written(both[name])}" for name in sorted(both)]
        text = f'{{"perfkit_gate": {_FORMAT},\n "baselines": {{\n' + ",\n".join(parts) + "\n}}\n"
        with replaced(target) as temporary:
            temporary.write_text(text, encoding="utf-8")
    return target


def _written(entry: Mapping[str, Any]) -> str:
    """Return an entry as JSON, each field and each source line on a line of its own."""
    fields = [
        f"  {json.dumps(key)}: {json.dumps(value, sort_keys=True)}"
        for key, value in sorted(entry.items())
        if key != "lines"
    ]
    lines = ",\n".join(f"   {json.dumps(row, ensure_ascii=False)}" for row in entry["lines"])
    return "{\n" + ",\n".join([*fields, f'  "lines": [\n{lines}\n  ]']) + "\n }"


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Keep other processes of this machine from writing the file in the meantime; nothing is left beside it."""
    mark = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:16]
    with (own_folder() / f"gate-{mark}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _side(entry: Mapping[str, Any]) -> Side:
    """Return the run that a baseline was made of."""
    lines = tuple(Line(place, text, cycles, n, mix) for place, cycles, n, mix, text in entry["lines"])
    return Side(
        "baseline", entry["core"], entry["warm"], float(entry["cycles"]), entry["instructions"], "", lines,
        entry["causes"], entry["speedups"],
    )  # fmt: skip


def measured_twice(gate: Gate, first: GateReading | None = None) -> GateReading:
    """Record and simulate twice (once more, where there is a first reading), and return the second, for a new baseline.

    Raises
    ------
    DataError
        The two differ: no number of this program can be relied on.
    """
    first, second = first or gate.measure(), gate.measure()
    if first.trace == second.trace:
        return second
    a, b = first.result.trace, second.result.trace
    n = min(len(a.stream), len(b.stream))
    other = np.flatnonzero(a.stream[:n] != b.stream[:n])
    if len(a.code.pc) == len(b.code.pc) and len(other):
        block = int(a.stream[max(int(other[0]) - 1, 0)])
        where = f"they part in {a.code.function[int(a.code.block_start[block])]}"
    else:
        where = f"{a.instruction_count:,} and {b.instruction_count:,} instructions, or other addresses"
    raise DataError(
        f"{gate.what}: two recordings of it differ ({where}): it depends on the time, on threads, or on what else it "
        "reads. Give it the same input every time, or gate a function that does not depend on it"
    )
