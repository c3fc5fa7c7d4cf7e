"""The parts of a study: ranges, assembly lists, the repetition policy, limits, and one configuration of the space."""

import hashlib
import itertools
import json
import math
import re
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

Value = bool | int | float | str
EMPTY = "the region is empty for these dimensions: nothing was timed"  # the message of such a row
FENCE_ERROR = 2.0  # cycles: what the fence between two executions takes depends on the code around it
_UNITS = {"": 1, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "kB": 10**3, "MB": 10**6, "GB": 10**9}


def size(text: str) -> int:
    """Return the bytes of a size such as ``"16 MiB"``; raises ValueError that lists the units."""
    found = re.fullmatch(r"\s*([0-9.]+)\s*([A-Za-z]*)\s*", text)
    if not found or found[2] not in _UNITS:
        raise ValueError(f"{text!r} is not a size such as '16 MiB'; units: {', '.join(filter(None, _UNITS))}")
    return int(float(found[1]) * _UNITS[found[2]])


class Strict(BaseModel):
    """The base of settings: frozen, and unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=False)


class Range(Strict):
    """Values from `first` to `last` (both included) in steps of `step`, or as powers: first, first*factor, ..."""

    first: int | float = Field(alias="from", allow_inf_nan=False)
    last: int | float = Field(alias="to", allow_inf_nan=False)
    step: int | float | None = Field(default=None, allow_inf_nan=False)
    factor: int | float | None = Field(default=None, allow_inf_nan=False)

    @model_validator(mode="after")
    def _moves(self) -> "Range":
        if self.step is not None and self.factor is not None:
            raise ValueError("give a step or a factor, not both")
        if self.step is not None and self.step <= 0:
            raise ValueError(f"step must be over 0, not {self.step}")
        if self.factor is not None and (self.factor <= 1 or self.first <= 0):
            raise ValueError("a factor must be over 1, and `from` over 0")
        if self.last < self.first:
            raise ValueError(f"the range from {self.first} to {self.last} is empty")
        return self

    def __len__(self) -> int:
        if self.factor is not None:
            return 1 + math.floor(math.log(self.last / self.first) / math.log(self.factor) + 1e-9)
        return 1 + math.floor((self.last - self.first) / (self.step or 1) + 1e-9)

    def values(self) -> list[Value]:
        """Return the values of the range."""
        if self.factor is not None:
            return [self.first * self.factor**i for i in range(len(self))]
        return [self.first + (self.step or 1) * i for i in range(len(self))]


class Assembly(Strict):
    """Assembly mode: a list of instructions becomes an unrolled loop (MARTA, Fig. 6).

    ``{NAME}`` in an instruction is replaced by that dimension's value, so registers and data types can be dimensions.

    Parameters
    ----------
    instructions : tuple of str
        The loop's body, in order.
    syntax : {"att", "intel"}
        How the instructions are written.
    unroll : int
        Copies of the body in the loop.
    init : tuple of str
        Instructions to run once before the loop.
    select : {"all", "first", "subsets"}
        The whole list; the first 1..n of it (dimension INSTRUCTIONS); or every non-empty subset (dimension ORDER).
    permutations : bool
        Also every order of what was selected (dimension ORDER).
    """

    instructions: Annotated[tuple[str, ...], Field(min_length=1)]
    syntax: Literal["att", "intel"] = "att"
    unroll: Annotated[int, Field(ge=1, le=4096)] = 16
    init: tuple[str, ...] = ()
    select: Literal["all", "first", "subsets"] = "all"
    permutations: bool = False

    @field_validator("instructions", "init")
    @classmethod
    def _one_line_each(cls, lines: tuple[str, ...]) -> tuple[str, ...]:
        for line in lines:
            comment = line.strip().startswith((".", "#", "/"))
            if not line.strip() or "\n" in line or '"' in line or "\\" in line or comment:
                raise ValueError(f"{line!r} is not one assembly instruction")
        return tuple(line.strip() for line in lines)

    def orders(self) -> Iterator[tuple[int, ...]]:
        """Yield the index lists that `select` and `permutations` ask for."""
        everything = range(len(self.instructions))
        sizes = [len(everything)] if self.select == "all" else range(1, len(everything) + 1)
        for size in sizes:
            chosen = itertools.combinations(everything, size) if self.select == "subsets" else [tuple(range(size))]
            for one in chosen:
                yield from itertools.permutations(one) if self.permutations else [tuple(one)]

    def count(self) -> int:
        """How many index lists `orders` yields, without making them."""
        n = len(self.instructions)
        sizes = [n] if self.select == "all" else range(1, n + 1)
        return sum(
            (math.comb(n, size) if self.select == "subsets" else 1) * (math.factorial(size) if self.permutations else 1)
            for size in sizes
        )


class Policy(Strict):
    """The repetition policy of the paper (section III-B): X runs, extremes dropped, repeated while one deviates over T.

    Parameters
    ----------
    repetitions : int
        X: runs in an experiment; the smallest and the largest are dropped, the rest is averaged.
    tolerance : float
        T: the largest relative deviation from that mean that a kept run may have.
    passes : int
        Passes over the shuffled space, one experiment per configuration in each, whose fastest must agree within T
        before a configuration counts as settled (at most `attempts`). Experiments in a row all meet the same neighbour
        on a shared core; passes apart in time do not.
    attempts : int
        Experiments (passes) tried before a configuration is kept and marked as never settled.
    windows : int
        Timed windows in a run; the run's value is the 10th percentile of those between two equal calibration chains.
    metric : {"cycles", "tsc", "ns"}
        The figure that must settle, and that a budget predicts. Cycles of the core do not move with the clock's rate;
        what waits for memory takes the same time at any rate: "tsc" or "ns".
    """

    repetitions: Annotated[int, Field(ge=3, le=1000)] = 5
    tolerance: Annotated[float, Field(gt=0, lt=1)] = 0.02
    passes: Annotated[int, Field(ge=1, le=1000)] = 3
    attempts: Annotated[int, Field(ge=1, le=1000)] = 10
    windows: Annotated[int, Field(ge=1, le=10_000)] = 20
    metric: Literal["cycles", "tsc", "ns"] = "cycles"


class Limits(Strict):
    """What a kernel may use up before it counts as failed (``setrlimit`` of the measuring process).

    Parameters
    ----------
    memory : int or str
        Bytes of address space, e.g. ``"4 GiB"``; 0: as much as the machine has memory.
    files : int or str
        Bytes of the largest file that it may write.
    """

    memory: Annotated[int, Field(ge=0)] = 0
    files: Annotated[int, Field(ge=0)] = 64 << 20

    @field_validator("memory", "files", mode="before")
    @classmethod
    def _bytes(cls, value: object) -> object:
        return size(value) if isinstance(value, str) else value


class MachineSettings(Strict):
    """What to set on the machine while measuring, where that is allowed (section III-A); None leaves it as it is.

    Parameters
    ----------
    governor : str, optional
        cpufreq governor, e.g. ``"performance"``.
    turbo : bool, optional
        Whether turbo frequencies are allowed.
    scheduler : {"other", "fifo"}
        Scheduling class of the measuring process.
    """

    governor: str | None = None
    turbo: bool | None = None
    scheduler: Literal["other", "fifo"] = "other"


class Configuration(Strict):
    """One point of the space: the dimensions' values, the compiler, its flags and the number of threads."""

    values: dict[str, Value]
    compiler: str
    flags: str
    threads: int

    def key(self, fingerprint: str) -> str:
        """Return the name under which the store keeps this configuration's result: 16 hex digits."""
        text = json.dumps([fingerprint, self.values, self.compiler, self.flags, self.threads], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]
