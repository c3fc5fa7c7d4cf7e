"""What every sampler hands over, and where a sampled address lies in the files that were loaded."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from perfkit.collectors.tracer.elf import ElfFile, elf_as_it_is
from perfkit.errors import FormatError


@dataclass(frozen=True)
class Target:
    """A program to run.

    Parameters
    ----------
    program : Path
        The file, absolute.
    arguments : tuple of str
        Its words.
    stdin : Path, optional
        What it reads from its standard input; nothing by default.
    script : Path, optional
        A Python script that the program, this Python's interpreter, runs.
    """

    program: Path
    arguments: tuple[str, ...] = ()
    stdin: Path | None = None
    script: Path | None = None

    @property
    def subject(self) -> Path:
        """The file that a person means: the script where there is one."""
        return self.script or self.program

    @property
    def words(self) -> list[str]:
        """The command."""
        return [str(self.program), *([str(self.script)] if self.script else []), *self.arguments]


@dataclass(frozen=True)
class Mapped:
    """A file's code in a process: its addresses there, and where they begin in the file."""

    start: int
    end: int
    offset: int
    path: str


@dataclass(frozen=True)
class CodePlace:
    """A sampled address: the file that holds it and its address there (before relocation), or what it is instead.

    `path` is "" for code of no file: `address` is then 0.
    """

    path: str
    address: int


@dataclass(frozen=True)
class Sampled:
    """The samples of one or several runs.

    Parameters
    ----------
    method : str
        How they were taken, for people.
    places : mapping
        Samples by place, process and thread.
    seconds : float
        How long the run was watched, in seconds.
    ended : str
        How the run ended: "" if it came to its end with status 0, else what happened.
    unit : str
        What is counted: samples or instructions.
    runs : int
        How often it was run.
    moments : mapping
        Of each place, when it was sampled: seconds of user time since its process began; empty where that is not known.
    """

    method: str
    places: Mapping[tuple[CodePlace, int, int], int]
    seconds: float
    ended: str = ""
    unit: str = "samples"
    runs: int = 1
    notes: tuple[str, ...] = field(default=())
    moments: Mapping[CodePlace, Sequence[float]] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """All samples."""
        return sum(self.places.values())


def mapped_code(text: str) -> list[Mapped]:
    """Return the files' code in ``/proc/PID/maps``."""
    found = []
    for line in text.splitlines():
        words = line.split(maxsplit=5)
        if len(words) == 6 and "x" in words[1]:
            start, end = (int(word, 16) for word in words[0].split("-"))
            found.append(Mapped(start, end, int(words[2], 16), words[5]))
    return found


def place(address: int, mapped: Sequence[Mapped], files: dict[str, ElfFile | None]) -> CodePlace:
    """Return which file an address lies in, and where in it."""
    for each in reversed(mapped):  # the last mapping at an address counts
        if each.start <= address < each.end:
            elf = opened(each.path, files)
            if elf is None:
                return CodePlace(each.path if each.path.startswith("[") else "", 0)
            offset = address - each.start + each.offset
            for segment in elf.segments:
                if segment.kind == 1 and segment.offset <= offset < segment.offset + segment.file_size:
                    return CodePlace(each.path, offset - segment.offset + segment.address)
            return CodePlace(each.path, offset)
    return CodePlace("", 0)


def opened(path: str, files: dict[str, ElfFile | None]) -> ElfFile | None:
    """Return a loaded file, None where it is none (memory, the kernel's page, a file that is gone)."""
    if path not in files:
        try:
            files[path] = elf_as_it_is(path) if path.startswith("/") else None
        except FormatError:
            files[path] = None
    return files[path]


def total(parts: Sequence[Sampled]) -> Sampled:
    """Return the samples of several runs together."""
    counts: Counter[tuple[CodePlace, int, int]] = Counter()
    moments: dict[CodePlace, list[float]] = {}
    for part in parts:
        counts.update(part.places)
        for where, when in part.moments.items():
            moments.setdefault(where, []).extend(when)
    last = parts[-1]
    return Sampled(
        last.method, dict(counts), sum(p.seconds for p in parts), last.ended, last.unit, len(parts), last.notes, moments
    )
