"""What a side of ``perfkit diff`` may be, told by what the file holds: how it is recorded, built or opened."""

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from perfkit.errors import PerfkitError, SettingError, did_you_mean

if TYPE_CHECKING:
    from perfkit.collectors.kernels import Kernel
    from perfkit.samples.table import Samples
    from perfkit.simulators.gus.gus import Gus, GusResult
    from perfkit.trace.trace import Trace

SOURCES = (".c", ".cc", ".cpp", ".cxx")
Form = Literal["source", "corpus", "program", "library", "result", "trace", "dump"]
WORDS: dict[Form, str] = {
    "source": "a C or C++ file",
    "corpus": "a kernel of the corpus",
    "program": "a program",
    "library": "a library",
    "result": "a saved result",
    "trace": "a trace",
    "dump": "a dump of counters",
}


@dataclass(frozen=True)
class DiffSide:
    """One side: what it is, and how it is built, run, recorded and simulated."""

    what: str
    function: str
    flags: str
    words: tuple[str, ...]
    skip: int
    repeat: int
    limit: int
    core: str
    warm: bool | None
    stdin: Path | None = None

    @cached_property
    def path(self) -> Path:
        """The file, without the function that may stand behind it."""
        return Path(self.what) if Path(self.what).is_file() else Path(self.what.partition(":")[0])

    @property
    def inside(self) -> str:
        """The function: the one behind the file's name, else the one asked for."""
        return "" if Path(self.what).is_file() else self.what.partition(":")[2]

    @cached_property
    def form(self) -> Form:
        """What the side is.

        Raises
        ------
        SettingError
            There is no such thing, or it cannot be a side.
        """
        if self.what.startswith("corpus:"):
            return "corpus"
        if not self.path.is_file():
            return self._shipped()
        if self.path.suffix in SOURCES:
            return "source"
        with self.path.open("rb") as file:
            head = file.read(4)
        if head == b"\x7fELF":
            from perfkit.collectors.tracer.elf import ElfFile

            return "program" if ElfFile(self.path).is_program else "library"
        if head == b"PK\x03\x04":
            return self._archive()
        return "dump"

    def _shipped(self) -> Form:
        from perfkit import datasets

        if self.what in datasets.names() and not self.what.startswith("traces/"):
            return "dump"
        return "trace"  # its name, or a miss, which is told of where it is opened

    def _archive(self) -> Form:
        try:
            with zipfile.ZipFile(self.path) as archive:
                names = set(archive.namelist())
        except (OSError, zipfile.BadZipFile):
            return "trace"  # damaged, which is told of where it is opened
        if "threads.json" in names:
            raise SettingError(
                f"{self.what} holds the traces of several threads, and diff compares two runs of one: simulate it "
                f"(perfkit gus {self.what}), or record one thread (perfkit trace without --threads)"
            )
        return "result" if "result.json" in names else "trace"

    @property
    def is_built(self) -> bool:
        """Whether it is compiled here."""
        return self.form in ("source", "corpus")

    @property
    def is_called(self) -> bool:
        """Whether a function is called with arguments given here, rather than by a program."""
        return self.form in ("source", "library")

    @property
    def runs_here(self) -> bool:
        """Whether it is run now, rather than opened."""
        return self.is_built or self.is_called or self.form == "program"

    @property
    def is_open(self) -> bool:
        """Whether it is a program of which nobody named the function."""
        return self.form == "program" and not (self.inside or self.function)

    @property
    def doing(self) -> str:
        """What is done with it, in a word."""
        if self.form in ("result", "trace"):
            return "simulating"
        return "compiling, recording and simulating" if self.is_built else "recording and simulating"

    def samples(self, time_event: str = "", work_event: str = "") -> "Samples":
        """Return a dump's samples."""
        from perfkit.readers.open_samples import open_samples

        try:
            return open_samples(self.what, memory=True, time_event=time_event, work_event=work_event)
        except PerfkitError as error:
            raise type(error)(
                f"{self.what} is no program, library, C or C++ file, trace or saved result, and as a dump of counters "
                f"it cannot be read: {error}"
            ) from error

    def result(self) -> "GusResult":
        """Return its simulation; a saved one as it is, unless another core or start is asked for."""
        from perfkit.simulators.gus.gus import GusResult

        if self.form == "result":
            return self._again(GusResult.load(self.what))
        return self._gus(self.core or "host").run(self._trace())

    def _again(self, saved: "GusResult") -> "GusResult":
        """Return a saved result, simulated anew where a core or a start is asked for."""
        if self.core:
            return self._gus(self.core).run(saved.trace)
        return saved if self.warm is None else replace(saved.settings, warm=self.warm).run(saved.trace)

    def _gus(self, core: str) -> "Gus":
        from perfkit.machine.core import Microarchitecture
        from perfkit.simulators.gus.gus import Gus

        return Gus(Microarchitecture.load(core), warm=self.warm is not False)

    def _trace(self) -> "Trace":
        from perfkit.collectors.open_traces import kernel_arguments, open_traces
        from perfkit.collectors.tracer.tracer import Tracer

        if self.form == "program":
            return self._recorded(self.inside or self.function)
        if not self.runs_here:
            return next(iter(open_traces(self.what, limit=self.limit).values()))
        if self.form == "corpus":
            return self.kernel.trace(limit=self.limit)
        values = kernel_arguments(self.words)
        return Tracer(limit=self.limit, skip=self.skip, repeat=self.repeat).run_kernel(self.kernel, *values)

    @cached_property
    def kernel(self) -> "Kernel":
        """What is compiled here, or a library's function.

        Raises
        ------
        SettingError
            Of a library nobody named the function.
        """
        from perfkit.collectors.kernels import compile_kernel, corpus_kernel, library_kernel

        build: dict[str, Any] = {"flags": self.flags} if self.flags and self.is_built else {}
        function = self.inside or self.function
        if self.form == "corpus":
            return corpus_kernel(self.what.removeprefix("corpus:"), **build)
        if self.form == "source":
            return compile_kernel(self.path, function or None, **build)
        if function:
            return library_kernel(self.path, function)
        raise SettingError(f"say which function of {self.path.name}: {self.what}:FUNCTION, or --function FUNCTION")

    def _recorded(self, function: str) -> "Trace":
        """Run the program and record calls of a function, with the functions that it calls."""
        from perfkit.collectors.tracer.tracer import Tracer

        tracer = Tracer(
            limit=self.limit, skip=self.skip, repeat=self.repeat, callees=True, early=True, stdin=self.stdin
        )
        return tracer.run(self.path, function, self.words)

    def name(self, result: "GusResult", folder: str = "") -> str:
        """Return what to call it, by a folder's name where that tells it from the other side."""
        from perfkit.collectors.tracer.demangle import demangled
        from perfkit.diagnosis.words import brief

        function, flags = result.trace.provenance.function, result.trace.provenance.flags
        function = brief(demangled([function]).get(function, function))
        built = f" ({flags})" if flags and self.is_built else ""
        return folder + self.path.name + (f":{function}" if function else "") + built


def names_of(sides: list[DiffSide], results: "Sequence[GusResult]") -> tuple[str, str]:
    """Return what to call two sides: apart, also where they are files of one name in two folders."""
    paths = [side.path.absolute() for side in sides]
    a, b = ("", "")
    if paths[0].name == paths[1].name and all(side.path.is_file() for side in sides):
        parts = zip(*(reversed(path.parts[:-1]) for path in paths), strict=False)
        shared = next((k for k, (x, y) in enumerate(parts) if x != y), None)
        if shared is not None:
            a, b = ("/".join(path.parts[-2 - shared : -1]) + "/" for path in paths)
    return sides[0].name(results[0], a), sides[1].name(results[1], b)


def check_sides(sides: list[DiffSide], b: str, of_b: dict[str, str]) -> None:
    """Refuse what would be ignored, and sides that cannot stand beside each other."""
    first, second = sides
    forms = {side.form for side in sides}
    for side in sides:
        _check_there(side)
    if not b and not any(of_b.values()):
        raise SettingError("the two sides are the same: name B, or build A differently (--flags-b, --function-b)")
    if "dump" in forms and len(forms) > 1:
        dump, other = (first, second) if first.form == "dump" else (second, first)
        if dump.path.is_file():
            dump.samples()  # a file that is none of all that is told first
        raise SettingError(
            f"{dump.what} is {WORDS['dump']} and {other.what} is {WORDS[other.form]}: the counts of one and the "
            "simulated cycles of the other are not two sides of one change. Compare two dumps (counts), or two "
            "recordings (simulated); perfkit why sets measured beside simulated cycles of one program"
        )
    if of_b["--flags-b"] and not second.is_built:
        raise SettingError(f"--flags-b is for C and C++ files and corpus:NAME; {second.what} is built already")
    if of_b["--function-b"] and not (second.is_called or second.form == "program"):
        raise SettingError(
            f"--function-b is for programs, libraries and C and C++ files; {second.what} is of one function already"
        )
    if first.flags and not any(side.is_built for side in sides):
        raise SettingError("--flags is for C and C++ files and corpus:NAME; these two sides are built already")
    running = [side for side in sides if side.is_called or side.form == "program"]
    if first.function and not running:
        raise SettingError(
            "--function is for programs, libraries and C and C++ files; these two sides say themselves what ran"
        )
    if first.words and not running:
        raise SettingError(f"arguments ({' '.join(first.words)}) are for what runs here, and nothing does")
    for option, given in (("--skip", first.skip), ("--repeat", first.repeat - 1)):
        if given and not running:
            raise SettingError(f"{option} is for what is recorded now; these two sides are recorded already")
    for option, side in (("--function", first), ("--function-b", second)):
        if of_b.get(option, side.function) and side.inside and side in running:
            raise SettingError(f"{side.what} names its function already, and {option} another; give one of them")


def _check_there(side: DiffSide) -> None:
    """Refuse a name that nothing has, before the other side is run.

    Raises
    ------
    SettingError
        There is neither such a file nor a shipped trace.
    """
    from perfkit import datasets

    if side.form != "trace" or side.path.is_file():
        return
    name = side.what.removeprefix("traces/")
    if f"traces/{name}" in datasets.names():
        return
    if side.path.is_dir():
        raise SettingError(f"{side.what!r} is a folder; a side is a file")
    near = did_you_mean(name, [each.removeprefix("traces/") for each in datasets.names()])
    hint = f" ({near})" if near.startswith("did") else ""
    raise SettingError(f"there is no file {str(side.path)!r}, nor a shipped trace of that name{hint}")


def check_dumps(given: dict[str, Any]) -> None:
    """Refuse options of simulations where two dumps are compared."""
    for option, value in given.items():
        if value:
            raise SettingError(f"{option} is for simulated runs; these two sides are dumps of counters")
