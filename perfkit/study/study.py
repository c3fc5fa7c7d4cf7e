"""Studies: a kernel and the dimensions whose product is the space of configurations to measure (MARTA, section II-A).

`Study` is what a study file (YAML) and a Python call both become. It only describes:
`perfkit.collectors.Microbenchmark` compiles and measures it. Every key is checked when the study is made, and unknown
keys are errors.
"""

import hashlib
import itertools
import json
import math
import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic
import yaml
from pydantic import BaseModel, Field, field_validator, model_validator

from perfkit.base.files import a_path, is_folder
from perfkit.errors import SettingError, did_you_mean
from perfkit.study.expressions import Expression
from perfkit.study.parts import (
    Assembly,
    Configuration,
    Limits,
    MachineSettings,
    Policy,
    Range,
    Strict,
    Value,
    size,
)
from perfkit.study.settings_file import explain, line_of_setting, placed, read_yaml, text_at

# Columns that the collector adds: a dimension of that name would overwrite them.
RESERVED = frozenset(
    ("configuration", "compiler", "flags", "threads", "status", "settled", "attempts", "message", "tsc", "ns", "cycles",
     "spread", "steps", "host", "processor", "low", "high", "tsc_low", "tsc_high", "ns_low", "ns_high",
     "cycles_low", "cycles_high", "cycles_error", "cycles_apart", "passes", "quiet", "predicted", "predicted_low",
     "predicted_high", "repetitions", "kind", "LAST_CACHE", "CPUS")
)  # fmt: skip
_OF_ASSEMBLY = ("INSTRUCTIONS", "ORDER")
_OF_KERNELS = ("pk", "memory", "memory_size")
_STATIC = {  # what is known of their names beforehand
    "mix": {"static_instructions"},
    "mca": {"mca_cycles", "mca_block_rthroughput", "mca_ipc", "mca_uops_per_cycle"},
    "vectorization": {"vectorized_loops", "vectorized_bytes"},
    "osaca": {"osaca_cycles", "osaca_throughput", "osaca_dependency"},
}
_MIX = re.compile(r"mix_[a-z0-9]+(_([XYZ]MM|GPR|K|IMM|MEM|LABEL))*")
HOST_FACTS = ("LAST_CACHE", "CPUS")
"""Names that expressions may use for the host: bytes of its last cache, and processors that may be used."""
# Strings (raw ones first), characters (no digit separators) and comments of C and C++, whichever begins first.
_NO_CODE = re.compile(
    r"""R"([^()\\\s]*)\([\s\S]*?\)\1"|"(?:\\[\s\S]|[^"\\\n])*"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])*'"""
    r"|//(?:\\\n|[^\n])*|/\*[\s\S]*?\*/"
)
CPP = frozenset((".cc", ".cpp", ".cxx", ".C"))
CALM = 100_000
"""Spaces larger than this are refused unless the caller says that it is meant."""
_KEYWORDS = frozenset(
    ("alignas", "alignof", "asm", "auto", "bool", "break", "case", "catch", "char", "class", "const", "constexpr",
     "continue", "default", "defined", "delete", "do", "double", "else", "enum", "explicit", "extern", "false", "float",
     "for", "friend", "goto", "if", "inline", "int", "long", "mutable", "namespace", "new", "noexcept", "nullptr",
     "operator", "private", "protected", "public", "register", "restrict", "return", "short", "signed", "sizeof",
     "static", "struct", "switch", "template", "this", "throw", "true", "try", "typedef", "typeid", "typename",
     "typeof", "union", "unsigned", "using", "virtual", "void", "volatile", "while")
)  # fmt: skip


class Study(Strict):
    """A kernel, the dimensions to explore, and how to compile and measure each configuration.

    Parameters
    ----------
    name, description : str
        What to call it, and what it is about.
    kernel : str or Path, optional
        A C or C++ file with a ``PK_REGION`` (docs/studies.md), or its text; or a whole program with a ``main``.
        Either this, `sources` or `assembly`. Its text is kept in ``source``, "c" or "c++" in ``language``.
    sources : sequence of str
        More C or C++ files to compile and link with the kernel, or a whole program's; ``{NAME}`` is replaced.
    include, libraries : sequence of str
        Folders with headers (the kernel's own and `folder` are searched, too); libraries to link after the sources, by
        name (``m``) or file (``lib/libx.a``).
    region : (str, str), optional
        Functions without arguments whose calls begin and end the timed part of a whole program, for example
        ``["polybench_timer_start", "polybench_timer_stop"]``. By default what the program marks, else all of ``main``.
    arguments : sequence of str
        The arguments of a whole program; ``{NAME}`` is replaced.
    program : bool, optional
        Whether this is a whole program; by default, whether the kernel has no ``PK_REGION``.
    folder : str
        What relative file names are relative to; of a study file, its folder.
    beside : str
        Where the kernel's headers in quotes lie; of a kernel file, its folder.
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
        The CPUs to pin to, in order; empty: those that this process may use, the last one first, as the first serves
        most interrupts.
    memory : int or str
        Bytes of aligned, already touched memory that the kernel finds in ``pk->memory``, e.g. ``"16 MiB"``, or an
        expression of the dimensions.
    pages : {"huge", "small"}
        Pages to ask for: 2 MiB ones, which keep address translation out of the picture, or 4 KiB ones.
    cache : {"hot", "cold"}
        Whether `memory` is flushed from the caches before every timed window.
    warmup : int
        Untimed executions before a window.
    steps : int, optional
        Executions in a timed window; by default as many as take about 8,000 TSC ticks, and one where caches are flushed
        (of more, all but the first find warm what every execution reads).
    executions : {"overlapping", "apart"}
        Whether an execution may begin while the one before is not finished, as it does in a program that repeats it,
        or only afterwards, behind a fence whose own cycles are subtracted: throughput, or latency.
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
    static : sequence of {"mix", "mca", "vectorization", "osaca"}
        Static columns to add.
    machine : MachineSettings
        Governor, turbo and scheduler while measuring.
    limits : Limits
        Memory and file sizes that a kernel may use up.
    host : mapping
        The facts of the host that expressions use (`HOST_FACTS`); the collector fills them in.

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
    dimensions: dict[str, tuple[Value, ...] | Range | str] = Field(default_factory=dict)
    assembly: Assembly | None = None
    sources: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    region: tuple[str, str] | None = None
    arguments: tuple[str, ...] = ()
    program: bool | None = None
    folder: str = ""
    beside: str = ""
    where: tuple[str, ...] = ()
    compilers: Annotated[tuple[str, ...], Field(min_length=1)] = ("gcc",)
    flags: Annotated[tuple[str, ...], Field(min_length=1)] = ("-O2",)
    threads: Annotated[tuple[Annotated[int, Field(ge=1, le=4096)], ...], Field(min_length=1)] = (1,)
    affinity: tuple[Annotated[int, Field(ge=0)], ...] = ()
    memory: Annotated[int, Field(ge=0)] | str = 1 << 16
    pages: Literal["huge", "small"] = "huge"
    cache: Literal["hot", "cold"] = "hot"
    warmup: Annotated[int, Field(ge=0)] = 1
    steps: Annotated[int, Field(ge=1)] | None = None
    executions: Literal["overlapping", "apart"] = "overlapping"
    policy: Policy = Policy()
    time_limit: Annotated[float, Field(gt=0)] = 30.0
    events: tuple[str, ...] = ()
    preamble: tuple[str, ...] = ()
    finalize: tuple[str, ...] = ()
    derive: dict[str, str] = Field(default_factory=dict)
    expect: dict[str, Annotated[int, Field(ge=1)]] = Field(default_factory=dict)
    static: tuple[Literal["mix", "mca", "vectorization", "osaca"], ...] = ()
    machine: MachineSettings = MachineSettings()
    limits: Limits = Limits()
    host: dict[str, int] = Field(default_factory=dict)

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
        if re.match(r"\s*[0-9.]+\s*[A-Za-z]*\s*$", value):
            return size(value)
        Expression(value)
        return value

    @field_validator("compilers", "flags", "preamble", "finalize")
    @classmethod
    def _splits(cls, texts: tuple[str, ...]) -> tuple[str, ...]:
        for text in texts:
            try:
                shlex.split(text)
            except ValueError as error:
                raise ValueError(f"cannot split {text!r} into words: {str(error).lower()}") from None
        return texts

    @field_validator("region")
    @classmethod
    def _functions(cls, names: tuple[str, str] | None) -> tuple[str, str] | None:
        for name in names or ():
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
                cpp = f", which nm shows: {mangled(name)}" if re.fullmatch(r"\w+(::\w+)*(\(\))?", name) else ""
                raise ValueError(f"{name!r} is no name of a function as linkers see it{cpp}")
        return names

    @field_validator("dimensions", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise ValueError("expected a mapping of names to values")
        plain = {}
        for name, one in value.items():
            if isinstance(name, bool):
                raise ValueError(
                    f"a name was read as {name}: YAML takes on, off, yes and no for that; put it in quotes"
                )
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
            if isinstance(one, list | tuple):
                _no_number_as_text(name, one)
                if any(isinstance(v, float) and not math.isfinite(v) for v in one):
                    raise ValueError(f"{name}: values are finite; found {one!r}")
            plain[name] = tuple(one) if isinstance(one, list | tuple) else one
        return plain

    @model_validator(mode="after")
    def _makes_sense(self) -> "Study":
        given = self.source is not None or bool(self.sources)
        if given == (self.assembly is not None):
            raise ValueError(
                f"give a `kernel` or an `assembly` list, and not both; found {'both' if given else 'neither'}"
            )
        if (self.region or self.arguments) and not self.is_program:
            raise ValueError("`region` and `arguments` belong to a whole program; this kernel has a PK_REGION")
        if self.executions == "apart" and (self.is_program or self.assembly is not None):
            raise ValueError(
                "`executions: apart` needs a PK_REGION: "
                + (
                    "a run of a whole program is apart from the others anyway, so leave `executions` out"
                    if self.is_program
                    else "the turns of an assembly list's loop belong together; leave `executions` out"
                )
            )
        if self.is_program and self.cache == "cold":
            raise ValueError("a whole program flushes the caches itself: `cache: cold` needs a PK_REGION")
        for name, values in self.dimensions.items():
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
                raise ValueError(f"{name!r} cannot name a dimension: it is no C macro name")
            if name in _KEYWORDS:
                raise ValueError(
                    f"{name!r} cannot name a dimension: it is a word of C, which the macro would replace in all headers"
                )
            if name.lower().startswith("pk_"):
                raise ValueError(f"{name!r} cannot name a dimension: names with PK_ are those of perfkit.h")
            if name in _OF_KERNELS and self.assembly is None and not self.is_program:
                raise ValueError(
                    f"{name!r} cannot name a dimension: the macro would replace it where a kernel says pk->memory or "
                    "pk->memory_size; name it otherwise, such as BYTES"
                )
            if name in RESERVED:
                raise ValueError(
                    f"{name!r} cannot name a dimension: it is taken by a column of perfkit's tables or a value of "
                    f"expressions; reserved are {', '.join(sorted(RESERVED, key=str.lower))}"
                )
            if self.assembly is not None and name in _OF_ASSEMBLY:
                raise ValueError(
                    f"{name!r} cannot name a dimension: in assembly mode perfkit says in it what was timed"
                )
            if self._adds(name):
                raise ValueError(f"{name!r} cannot name a dimension: the study's events or static add that column")
            if isinstance(values, tuple) and not values:
                raise ValueError(f"the dimension {name} has no values")
            if isinstance(values, tuple) and len(set(values)) < len(values):
                raise ValueError(f"the dimension {name} lists a value twice")
        known: list[str] = []
        for name, values in self.dimensions.items():
            if isinstance(values, str):
                _only_known(Expression(values), [*known, *HOST_FACTS], f"the dimension {name}")
            known.append(name)
        if self.assembly is not None:
            known += _OF_ASSEMBLY
            for line in (*self.assembly.instructions, *self.assembly.init):
                _fill(line, dict.fromkeys(known, "0"))
        for text in (*self.sources, *self.arguments):
            _fill(text, dict.fromkeys(known, "0"))
        for text in (*self.compilers, *self.flags):
            for name in re.findall(r"\{([A-Za-z_][A-Za-z0-9_]*)\}", text):
                if name in self.dimensions:
                    raise ValueError(
                        f"{{{name}}} in {text!r} is not replaced there: the dimension is a macro ({name}) already; "
                        "list one entry per value where a flag must change"
                    )
            for name in re.findall(r"(?:^|\s)['\"]?-D\s*(\w+)", text):
                if name in self.dimensions:
                    raise ValueError(
                        f"{text!r} defines {name}, which is a dimension, too, and has its values: leave one of them out"
                    )
        known += ["threads", "compiler", "flags", *HOST_FACTS]
        for text in self.where:
            _only_known(Expression(text), known, "where")
        if isinstance(self.memory, str):
            _only_known(Expression(self.memory), known, "memory")
        for name, text in self.derive.items():
            if name in RESERVED or name in self.dimensions or self._adds(name):
                raise ValueError(
                    f"derive: {name!r} is a column that is measured or varied, which it would overwrite: name it "
                    "otherwise"
                )
            Expression(text)
        return self

    def _adds(self, name: str) -> bool:
        """Whether `events` or `static` add a column of that name, or may: those of ``mix`` are of what is compiled."""
        added = {event.replace("-", "_") for event in self.events}.union(*(_STATIC[one] for one in self.static))
        return name in added or ("mix" in self.static and _MIX.fullmatch(name) is not None)

    # -- reading and writing ---------------------------------------------------------------------------------------

    @classmethod
    def from_yaml(cls, path: str | Path) -> "Study":
        """Read and check a study file; the kernel's path is relative to the file.

        Raises
        ------
        SettingError
            The file is an analysis, or a setting is wrong; the message names its line.
        FormatError
            It is no YAML.
        """
        path = a_path(path, "Study.from_yaml")
        settings = read_yaml(path)
        folder = text_at(settings, "folder", path) if "folder" in settings else ""
        settings["folder"] = str(Path(path.parent, folder).absolute())
        settings.setdefault("name", re.sub(r"[^A-Za-z0-9._-]", "-", path.stem))
        known = [field.alias or name for name, field in cls.model_fields.items()]
        if settings.keys() & {"categories", "tree", "regression"}:
            raise SettingError(f"{path} is no study but an analysis of one: `perfkit analyse` reads it")
        for key in settings:
            if key not in known:
                raise SettingError(f"{line_of_setting(path, (key,))}: unknown key {key!r}; {did_you_mean(key, known)}")
        if settings.get("kernel") is not None:
            text_at(settings, "kernel", path)
            if settings.get("source") is not None:
                raise SettingError(
                    f"{line_of_setting(path, ('source',))}: `kernel` names the source already: leave `source` out"
                )
        try:
            return cls(**settings)
        except SettingError as error:
            raise SettingError(placed(path, error)) from None

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
        if "kernel" in changes:  # what was found of the one before goes with it
            found = {"source", "beside", *(["language"] if self._language_is_found(str(changes["kernel"])) else [])}
            settings = {key: value for key, value in settings.items() if key not in found or key in changes}
        else:
            settings["source"] = self.source
        if "dimensions" in changes:
            settings["dimensions"] = changes["dimensions"]
        return type(self)(**{key: _plain(value) for key, value in settings.items()})

    def _language_is_found(self, kernel: str) -> bool:
        """Whether another kernel's name says its language, and nobody said that of this one against its name."""
        return not _is_text(kernel) and (self.kernel is None or self.language == _language_of(self.kernel))

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

    @property
    def is_program(self) -> bool:
        """Whether this is a whole program with its own ``main`` rather than a kernel with a region."""
        if self.program is not None:
            return self.program
        return self.assembly is None and not _has_region(self.source or "")

    def uses_host(self, derived: bool = False) -> bool:
        """Whether an expression of the space asks for a fact of the host; with `derived`, or of a derived column."""
        texts = [text for text in self.dimensions.values() if isinstance(text, str)] + list(self.where)
        texts += [self.memory] if isinstance(self.memory, str) else []
        texts += self.derive.values() if derived else []
        return any(set(HOST_FACTS) & Expression(text).names for text in texts)

    def memory_of(self, configuration: Configuration) -> int:
        """Return the bytes of memory that a configuration asks for."""
        if not isinstance(self.memory, str):
            return self.memory
        known = {**self.host, **configuration.values, "threads": configuration.threads}
        return int(Expression(self.memory)(known))

    def size_bound(self) -> int | None:
        """Return the space's size before constraints, or None where a dimension depends on others."""
        total = len(set(self._builds()))
        for values in self.dimensions.values():
            if isinstance(values, str):
                return None
            total *= len(values)
        return total * (self.assembly.count() if self.assembly is not None else 1)

    def _builds(self) -> list[tuple[str, str, int]]:
        """Return the compilers, each with its flags and threads; what several entries say is there several times."""
        builds = []
        for compiler, flags, threads in itertools.product(self.compilers, self.flags, self.threads):
            name, own = split_compiler(compiler, self.folder)
            builds.append((name, f"{own} {flags}".strip(), threads))
        return builds

    def repeated(self) -> int:
        """Count how often a configuration is given again, by lists that expressions make or by flags that are equal.

        Each is there once in `configurations`, and measured once.
        """
        dependent = any(isinstance(values, str) for values in self.dimensions.values())
        if not dependent and len(set(self._builds())) == len(self._builds()):
            return 0
        every = self._configurations(self._builds(), listed=list)
        return sum(1 for _ in every) - sum(1 for _ in self.configurations())

    def configurations(self) -> Iterator[Configuration]:
        """Yield every configuration that the constraints allow, once and in a fixed order.

        Raises
        ------
        SettingError
            The space depends on the host, whose facts are not given (`host`).
        """
        if self.uses_host() and not self.host:
            raise SettingError(
                f"the study {self.name!r} depends on the host ({', '.join(HOST_FACTS)}): give it `host`, for example "
                "Study.replace(host={'LAST_CACHE': 32 << 20, 'CPUS': 2})"
            )
        yield from self._configurations(list(dict.fromkeys(self._builds())), _once_each)

    def _configurations(
        self, builds: Sequence[tuple[str, str, int]], listed: Callable[[list[Any]], Iterable[Any]]
    ) -> Iterator[Configuration]:
        """Yield the configurations of some builds; `listed` says what to take of a list that an expression made."""
        axes = self._axes()
        checks = [Expression(text) for text in self.where]
        for name, flags, threads in builds:
            fixed: dict[str, Any] = {"compiler": name, "flags": flags, "threads": threads}
            for values in _points(list(axes.items()), {**self.host, **fixed}, checks, listed):
                mine = {key: value for key, value in values.items() if key not in fixed and key not in HOST_FACTS}
                if self.assembly is not None:
                    order = mine.get("ORDER")
                    every = len(self.assembly.instructions)
                    mine["INSTRUCTIONS"] = every if order is None else order.count(",") + 1
                yield Configuration(values=mine, **fixed)

    def count(self, limit: int = CALM) -> int:
        """Count the space; stops at `limit` + 1."""
        bound = self.size_bound()
        if bound is not None and (bound > limit or not self.where):
            return bound
        return sum(1 for _ in itertools.islice(self.configurations(), limit + 1))

    def fingerprint(self) -> str:
        """Return a hash of what a value depends on beside its configuration: the kernel and how it is measured."""
        free = {"dimensions", "where", "compilers", "flags", "threads", "name", "description", "derive", "kernel",
                "folder", "host"}  # fmt: skip
        parts = self.model_dump(mode="json", exclude=free)
        if self.executions == "overlapping":  # folders of before there was a choice can be gone on with
            del parts["executions"]
        if (
            self.cache == "cold" and self.steps is None
        ):  # rows of many executions per flush, once the default, are others
            parts["steps"] = 1
        if not self.beside:
            del parts["beside"]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def _no_number_as_text(name: str, values: Sequence[Any]) -> None:
    """Refuse ``1e3``, which YAML 1.1 takes for text: it wants a point and a sign in a number with an exponent."""
    for value in values:
        if isinstance(value, str) and re.fullmatch(r"[-+]?[0-9][0-9_]*(\.[0-9_]*)?[eE][-+]?[0-9]+", value):
            number = float(value)
            said = repr(int(number) if number.is_integer() and abs(number) < 2**53 else number)
            said = said if "." in said else said.replace("e", ".0e")
            raise ValueError(f"{name}: {value} is text for YAML: write {said}; where text is meant, ({value})")


def _range_of(name: str, one: Mapping[str, Any]) -> Range:
    try:
        return Range(**one)
    except pydantic.ValidationError as error:
        raise ValueError(f"{name}: {explain(error, Range)}") from None


def _once_each(values: list[Any]) -> list[Any]:
    """Return values without those that came before; 1, 1.0 and true are three, for a macro of each is another text."""
    return list({(type(value), repr(value)): value for value in values}.values())


def _points(
    axes: list[tuple[str, Any]],
    so_far: dict[str, Any],
    checks: list[Expression],
    listed: Callable[[list[Any]], Iterable[Any]],
) -> Iterator[dict[str, Any]]:
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
        values = listed(made) if isinstance(made, list) else [made]
    elif isinstance(values, Range):
        values = values.values()
    for value in values:
        yield from _points(rest, {**so_far, name: value}, waiting, listed)


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


def split_compiler(text: str, folder: str = "") -> tuple[str, str]:
    """Split ``"gcc -O3"`` into the compiler (a relative path begins at the study's folder) and its own flags."""
    words = shlex.split(text)
    if not words:
        raise SettingError("a compiler's name is missing")
    name = os.path.normpath(Path(folder, words[0])) if folder and "/" in words[0] else words[0]
    return name, shlex.join(words[1:])


def mangled(name: str) -> str:
    """Return the name that linkers see of a C++ function without arguments, such as ``space::begin()``."""
    parts = [f"{len(part)}{part}" for part in name.removesuffix("()").split("::")]
    return f"_ZN{''.join(parts)}Ev" if len(parts) > 1 else f"_Z{parts[0]}v"


def _has_region(source: str) -> bool:
    """Whether a C or C++ text has a ``PK_REGION`` outside its comments, strings and characters."""
    return "PK_REGION" in source and re.search(r"\bPK_REGION\b", text_without_comments(source)) is not None


def text_without_comments(source: str) -> str:
    """Return a C or C++ text without its comments, strings and characters."""
    return _NO_CODE.sub(" ", source)


def _language_of(name: str) -> str:
    return "c++" if Path(name).suffix in CPP else "c"


def _is_text(kernel: str) -> bool:
    """Tell whether a kernel is given as its text rather than as a path."""
    return "\n" in kernel or "PK_REGION" in kernel


def _with_source(settings: dict[str, Any]) -> dict[str, Any]:
    """Load the kernel's text, so that a study holds all it needs."""
    if settings.get("folder") in (None, "") and any(settings.get(key) for key in ("sources", "include", "libraries")):
        settings = {**settings, "folder": str(Path.cwd())}
    kernel = settings.get("kernel")
    if kernel is None or settings.get("source") is not None:
        return settings
    if _is_text(kernel):
        return {**settings, "kernel": None, "source": kernel}
    path = Path(settings.get("folder") or "", kernel)
    if not path.is_file():
        raise SettingError(f"no kernel file {path}{is_folder(path)}: give a C or C++ file's path, or its text")
    language = settings.get("language") or _language_of(path.name)
    try:
        source = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingError(f"cannot read the kernel {path}: {error}") from None
    folder = settings.get("folder") or str(path.parent.absolute())
    found = {**settings, "kernel": path.name, "source": source, "language": language, "folder": folder}
    if path.parent.resolve() != Path(folder).resolve():
        found.setdefault(
            "beside", str(Path(kernel).parent)
        )  # the kernel is compiled as a copy elsewhere: its headers lie beside it
    return found


def _plain(value: Any) -> Any:
    return value.model_dump(by_alias=True) if isinstance(value, BaseModel) else value
