"""Studies: a kernel and the dimensions whose product is the space of configurations to measure (MARTA, section II-A).

`Study` is what a study file (YAML) and a Python call both become. It only describes:
`perfkit.collectors.Microbenchmark` compiles and measures it. Every key is checked when the study is made, and unknown
keys are errors.
"""

import hashlib
import itertools
import json
import math
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic
import yaml
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from perfkit.errors import FormatError, SettingError
from perfkit.files import reading, whole_text
from perfkit.names import did_you_mean
from perfkit.study.expressions import Expression

Value = bool | int | float | str

# Columns that the collector adds: a dimension of that name would overwrite them.
RESERVED = frozenset(
    ("configuration", "compiler", "flags", "threads", "status", "settled", "attempts", "message", "tsc", "ns", "cycles",
     "spread", "steps", "host")
)  # fmt: skip
CALM = 100_000
"""Spaces larger than this are refused unless the caller says that it is meant."""


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=False)


class Range(_Strict):
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


class Assembly(_Strict):
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
            if not line.strip() or "\n" in line or '"' in line or "\\" in line or line.strip().startswith((".", "#")):
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


class Policy(_Strict):
    """The repetition policy of the paper (section III-B): X runs, extremes dropped, repeated while one deviates over T.

    Parameters
    ----------
    repetitions : int
        X: runs in an experiment; the smallest and the largest are dropped, the rest is averaged.
    tolerance : float
        T: the largest relative deviation from that mean that a kept run may have.
    attempts : int
        Experiments tried before a configuration is kept and marked as never settled.
    windows : int
        Timed windows in a run; the run's value is the 10th percentile of those between two equal calibration chains.
    metric : {"cycles", "tsc", "ns"}
        The figure that must settle.
    """

    repetitions: Annotated[int, Field(ge=3, le=1000)] = 5
    tolerance: Annotated[float, Field(gt=0, lt=1)] = 0.02
    attempts: Annotated[int, Field(ge=1, le=1000)] = 10
    windows: Annotated[int, Field(ge=1, le=10_000)] = 20
    metric: Literal["cycles", "tsc", "ns"] = "tsc"


class MachineSettings(_Strict):
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


class Configuration(_Strict):
    """One point of the space: the dimensions' values, the compiler, its flags and the number of threads."""

    values: dict[str, Value]
    compiler: str
    flags: str
    threads: int

    def key(self, fingerprint: str) -> str:
        """Return the name under which the store keeps this configuration's result: 16 hex digits."""
        text = json.dumps([fingerprint, self.values, self.compiler, self.flags, self.threads], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


_UNITS = {"": 1, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "kB": 10**3, "MB": 10**6, "GB": 10**9}


class Study(_Strict):
    """A kernel, the dimensions to explore, and how to compile and measure each configuration.

    Parameters
    ----------
    kernel : str or Path, optional
        A C or C++ file with a ``PK_REGION`` (docs/studies.md), or its text. Either this or `assembly`.
    dimensions : mapping
        Name -> a list of values, a range ``{from, to, step | factor}``, or an expression of earlier dimensions that
        gives one value or a list. In C, each is a macro of that name; in assembly, ``{NAME}`` is replaced.
    assembly : Assembly, optional
        Instructions to time instead of a kernel.
    where : sequence of str
        Expressions that every configuration must fulfil.
    compilers, flags : sequence of str
        Their product with the dimensions is measured. A compiler entry may carry flags of its own: ``"gcc -O3"``.
    threads : sequence of int
        OpenMP threads (1: no OpenMP needed).
    affinity : sequence of int
        The CPUs to pin to, in order; empty: the first ones this process may use.
    memory : int or str
        Bytes of aligned, already touched memory that the kernel finds in ``pk->memory``, e.g. ``"16 MiB"``.
    pages : {"huge", "small"}
        Pages to ask for: 2 MiB ones, which keep address translation out of the picture, or 4 KiB ones.
    cache : {"hot", "cold"}
        Whether `memory` is flushed from the caches before every timed window.
    warmup : int
        Untimed executions before a window.
    steps : int, optional
        Executions in a timed window; by default as many as take about 8,000 TSC ticks.
    policy : Policy
        When a measurement counts.
    time_limit : float
        Seconds after which one experiment counts as hung.
    events : sequence of str
        Hardware or software events of ``perf_event_open``, each measured in runs of its own with the TSC.
    preamble, finalize : sequence of str
        Commands (no shell) run before and after each configuration; ``{NAME}`` is replaced.
    derive : mapping
        Column -> expression over dimensions and measurements.
    expect : mapping
        Mnemonic -> least count in the compiled region; in assembly mode filled in from the instructions.
    static : sequence of {"mix", "mca", "vectorization"}
        Static columns to add.
    machine : MachineSettings
        Governor, turbo and scheduler while measuring.

    Examples
    --------
    >>> study = Study("PK_REGION { PK_KEEP(step); }", {"N": [1, 2, 4], "stride": [1, 8]}, compilers=["gcc -O3"])
    >>> study.count()
    6
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$")] = "study"
    description: str = ""
    kernel: str | None = None
    source: str | None = None
    language: Literal["c", "c++"] = "c"
    dimensions: dict[str, tuple[Value, ...] | Range | str] = {}
    assembly: Assembly | None = None
    where: tuple[str, ...] = ()
    compilers: Annotated[tuple[str, ...], Field(min_length=1)] = ("gcc",)
    flags: Annotated[tuple[str, ...], Field(min_length=1)] = ("-O2",)
    threads: Annotated[tuple[Annotated[int, Field(ge=1, le=4096)], ...], Field(min_length=1)] = (1,)
    affinity: tuple[Annotated[int, Field(ge=0)], ...] = ()
    memory: Annotated[int, Field(ge=0)] = 1 << 16
    pages: Literal["huge", "small"] = "huge"
    cache: Literal["hot", "cold"] = "hot"
    warmup: Annotated[int, Field(ge=0)] = 1
    steps: Annotated[int, Field(ge=1)] | None = None
    policy: Policy = Policy()
    time_limit: Annotated[float, Field(gt=0)] = 30.0
    events: tuple[str, ...] = ()
    preamble: tuple[str, ...] = ()
    finalize: tuple[str, ...] = ()
    derive: dict[str, str] = {}
    expect: dict[str, Annotated[int, Field(ge=1)]] = {}
    static: tuple[Literal["mix", "mca", "vectorization"], ...] = ()
    machine: MachineSettings = MachineSettings()

    def __init__(self, kernel: Any = None, dimensions: Any = None, **settings: Any) -> None:
        if kernel is not None:
            settings["kernel"] = str(kernel)
        if dimensions is not None:
            settings["dimensions"] = dimensions
        try:
            super().__init__(**_with_source(settings))
        except pydantic.ValidationError as error:
            raise SettingError(explain(error, type(self))) from None

    @field_validator("memory", mode="before")
    @classmethod
    def _bytes(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        found = re.fullmatch(r"\s*([0-9.]+)\s*([A-Za-z]*)\s*", value)
        if not found or found[2] not in _UNITS:
            raise ValueError(f"{value!r} is not a size such as '16 MiB'; units: {', '.join(filter(None, _UNITS))}")
        return int(float(found[1]) * _UNITS[found[2]])

    @field_validator("dimensions", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise ValueError("dimensions are a mapping: name -> values")
        plain = {}
        for name, one in value.items():
            if isinstance(one, Mapping):
                one = _range_of(name, one)
            elif isinstance(one, bool | int | float):
                one = [one]
            elif isinstance(one, range):
                one = list(one)
            if isinstance(one, list | tuple) and not all(isinstance(v, bool | int | float | str) for v in one):
                raise ValueError(f"{name}: values are numbers, text or true/false, not {one!r}")
            if not isinstance(one, list | tuple | str | Range):
                raise ValueError(f"{name}: give a list of values, a range or an expression, not {one!r}")
            plain[name] = tuple(one) if isinstance(one, list | tuple) else one
        return plain

    @model_validator(mode="after")
    def _makes_sense(self) -> "Study":
        if (self.source is None) == (self.assembly is None):
            raise ValueError("give a kernel or an assembly list, and not both")
        for name, values in self.dimensions.items():
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or name.lower().startswith("pk_") or name in RESERVED:
                raise ValueError(f"{name!r} cannot name a dimension: it is no C macro name, or it is taken")
            if isinstance(values, tuple) and not values:
                raise ValueError(f"the dimension {name} has no values")
            if isinstance(values, tuple) and len(set(values)) < len(values):
                raise ValueError(f"the dimension {name} lists a value twice")
        known: list[str] = []
        for name, values in self.dimensions.items():
            if isinstance(values, str):
                _only_known(Expression(values), known, f"the dimension {name}")
            known.append(name)
        if self.assembly is not None:
            known += ["INSTRUCTIONS", "ORDER"]
            for line in (*self.assembly.instructions, *self.assembly.init):
                _fill(line, dict.fromkeys(known, "0"))
        for text in self.where:
            _only_known(Expression(text), [*known, "threads", "compiler", "flags"], "where")
        for text in self.derive.values():
            Expression(text)
        return self

    # -- reading and writing ---------------------------------------------------------------------------------------

    @classmethod
    def from_yaml(cls, path: str | Path) -> "Study":
        """Read and check a study file; the kernel's path is relative to the file."""
        path = Path(path)
        settings = read_yaml(path)
        if isinstance(settings.get("kernel"), str) and not _is_text(settings["kernel"]):
            settings["kernel"] = str(path.parent / settings["kernel"])
        settings.setdefault("name", re.sub(r"[^A-Za-z0-9._-]", "-", path.stem))
        known = {field.alias or name for name, field in cls.model_fields.items()}
        for key in settings:
            if key not in known:
                raise SettingError(f"{path}: unknown key {key!r}; {did_you_mean(key, known)}")
        try:
            return cls(**settings)
        except SettingError as error:
            raise SettingError(f"{path}: {error}") from None

    def to_yaml(self) -> str:
        """Return the study as YAML text that `from_yaml` reads to an equal study (the kernel's text included)."""
        plain = json.loads(self.model_dump_json(by_alias=True, exclude_defaults=True))
        if self.source is not None:
            plain["kernel"] = self.source
            plain.pop("source", None)
        return yaml.safe_dump(plain, sort_keys=False, width=120)

    def replace(self, **changes: Any) -> "Study":
        """Return a study with some settings changed."""
        settings = {name: getattr(self, name) for name in self.model_fields_set} | changes
        if "kernel" not in changes:
            settings["source"] = self.source
        if "dimensions" in changes:
            settings["dimensions"] = changes["dimensions"]
        return type(self)(**{key: _plain(value) for key, value in settings.items()})

    # -- the space -------------------------------------------------------------------------------------------------

    def _axes(self) -> dict[str, tuple[Value, ...] | Range | str]:
        axes = dict(self.dimensions)
        if self.assembly is not None and (self.assembly.select != "all" or self.assembly.permutations):
            if self.assembly.count() > 10_000_000:
                raise SettingError(f"{self.assembly.count()} orders of the instructions: ask for fewer")
            # Made only as far as configurations() is consumed would need a lazy axis; ten million texts are the bound.
            orders = [",".join(map(str, order)) for order in itertools.islice(self.assembly.orders(), CALM + 1)]
            axes["ORDER"] = tuple(orders)
        return axes

    def size_bound(self) -> int | None:
        """Return the space's size before constraints, or None where a dimension depends on others."""
        total = len(self.compilers) * len(self.flags) * len(self.threads)
        for values in self.dimensions.values():
            if isinstance(values, str):
                return None
            total *= len(values)
        return total * (self.assembly.count() if self.assembly is not None else 1)

    def configurations(self) -> Iterator[Configuration]:
        """Yield every configuration that the constraints allow, in a fixed order."""
        axes = self._axes()
        checks = [Expression(text) for text in self.where]
        builds = list(itertools.product(self.compilers, self.flags, self.threads))
        for compiler, flags, threads in builds:
            name, own = split_compiler(compiler)
            fixed: dict[str, Any] = {"compiler": name, "flags": f"{own} {flags}".strip(), "threads": threads}
            for values in _points(list(axes.items()), dict(fixed), checks):
                mine = {key: value for key, value in values.items() if key not in fixed}
                if "ORDER" in mine:
                    mine["INSTRUCTIONS"] = mine["ORDER"].count(",") + 1
                elif self.assembly is not None:
                    mine["INSTRUCTIONS"] = len(self.assembly.instructions)
                yield Configuration(values=mine, **fixed)

    def count(self, limit: int = CALM) -> int:
        """Count the space; stops at `limit` + 1."""
        bound = self.size_bound()
        if bound is not None and (bound > limit or not self.where):
            return bound
        return sum(1 for _ in itertools.islice(self.configurations(), limit + 1))

    def fingerprint(self) -> str:
        """Return a hash of what a value depends on beside its configuration: the kernel and how it is measured."""
        free = {"dimensions", "where", "compilers", "flags", "threads", "name", "description", "derive", "kernel"}
        parts = self.model_dump(mode="json", exclude=free)
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def _range_of(name: str, one: Mapping[str, Any]) -> Range:
    try:
        return Range(**one)
    except pydantic.ValidationError as error:
        raise ValueError(f"{name}: {explain(error, Range)}") from None


def _points(axes: list[tuple[str, Any]], so_far: dict[str, Any], checks: list[Expression]) -> Iterator[dict[str, Any]]:
    """Walk the product in order, dropping a branch as soon as a constraint that can be decided fails."""
    waiting = []
    for check in checks:
        if check.names <= set(so_far):
            if not check(so_far):
                return
        else:
            waiting.append(check)
    if not axes:
        if waiting:
            raise SettingError(f"the constraint {waiting[0].text!r} names what no configuration has")
        yield so_far
        return
    (name, values), rest = axes[0], axes[1:]
    if isinstance(values, str):
        made = Expression(values)(so_far)
        values = made if isinstance(made, list) else [made]
        if not values:
            return
    elif isinstance(values, Range):
        values = values.values()
    for value in values:
        yield from _points(rest, {**so_far, name: value}, waiting)


def _only_known(expression: Expression, known: list[str], where: str) -> None:
    for name in sorted(expression.names):
        if name not in known:
            raise ValueError(f"{where} uses {name!r}, which is not known there; {did_you_mean(name, known)}")


def _fill(text: str, values: Mapping[str, Any]) -> str:
    """Replace ``{NAME}`` by its value; unknown names are errors, and nothing of str.format is reachable."""

    def value(found: re.Match[str]) -> str:
        if found[1] not in values:
            raise ValueError(f"{{{found[1]}}} in {text!r} names no dimension; {did_you_mean(found[1], values)}")
        return str(values[found[1]])

    return re.sub(r"\{([A-Za-z_][A-Za-z0-9_]*)\}", value, text)


fill = _fill


def split_compiler(text: str) -> tuple[str, str]:
    """Split ``"gcc -O3"`` into the compiler and its own flags."""
    words = shlex.split(text)
    if not words:
        raise SettingError("a compiler's name is missing")
    return words[0], " ".join(words[1:])


def _is_text(kernel: str) -> bool:
    """Tell whether a kernel is given as its text rather than as a path."""
    return "\n" in kernel or "PK_REGION" in kernel


def _with_source(settings: dict[str, Any]) -> dict[str, Any]:
    """Load the kernel's text, so that a study holds all it needs."""
    kernel = settings.get("kernel")
    if kernel is None or settings.get("source") is not None:
        return settings
    if _is_text(kernel):
        return {**settings, "kernel": None, "source": kernel}
    path = Path(kernel)
    if not path.is_file():
        raise SettingError(f"no kernel file {kernel}: give a C or C++ file's path, or its text")
    language = settings.get("language") or ("c++" if path.suffix in {".cc", ".cpp", ".cxx", ".C"} else "c")
    return {**settings, "kernel": path.name, "source": path.read_text(encoding="utf-8"), "language": language}


def _plain(value: Any) -> Any:
    return value.model_dump(by_alias=True) if isinstance(value, BaseModel) else value


_MOST_YAML = 200_000


def _written_out(loaded: Any, known: dict[int, int]) -> int:
    """Return how many values a document holds once its aliases are written out (infinity where one holds itself)."""
    if not isinstance(loaded, dict | list):
        return 1
    if id(loaded) not in known:
        known[id(loaded)] = _MOST_YAML + 1  # as long as it is not known
        inside = loaded.values() if isinstance(loaded, dict) else loaded
        known[id(loaded)] = 1 + sum(_written_out(one, known) for one in inside)
    return known[id(loaded)]


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a YAML file whose top is a mapping."""
    text = whole_text(path, "a YAML file")
    try:
        with reading(path, "a YAML file"):
            loaded = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise FormatError(f"{path} is not YAML: {error}") from None
    if _written_out(loaded, {}) > _MOST_YAML:
        raise FormatError(
            f"{path}: its aliases stand for over {_MOST_YAML:,} values; write what they mean, or less of it"
        )
    if not isinstance(loaded, dict):
        raise FormatError(f"{path} holds {type(loaded).__name__}, expected a mapping of settings")
    return {str(key): value for key, value in loaded.items()}


def explain(error: pydantic.ValidationError, model: type[BaseModel]) -> str:
    """Turn pydantic's report into one line a fault, naming the nearest key for an unknown one."""
    lines = []
    for fault in error.errors():
        path = ".".join(str(part) for part in fault["loc"])
        if fault["type"] == "extra_forbidden":
            keys = _keys_at(model, fault["loc"][:-1])
            lines.append(f"unknown key {path!r}; {did_you_mean(str(fault['loc'][-1]), keys)}")
        else:
            found = fault.get("input")
            shown = "" if isinstance(found, BaseModel | dict | list) else f" (found {found!r:.80})"
            message = fault["msg"].removeprefix("Value error, ")
            lines.append(f"{path}: {message}{shown}" if path else message)
    return "; ".join(dict.fromkeys(lines))


def _keys_at(model: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    """Return the keys that are known where an unknown one was found."""
    for part in location:
        field = model.model_fields.get(str(part))
        kinds = [] if field is None else [field.annotation, *getattr(field.annotation, "__args__", ())]
        models = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)]
        if models:
            model = models[0]
        elif part == "Range":
            model = Range
    return [field.alias or name for name, field in model.model_fields.items()]
