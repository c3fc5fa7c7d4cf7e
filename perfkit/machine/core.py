"""The machine that a simulation runs on: resources with a capacity, caches, features, each with its source.

A core is a TOML file in ``perfkit/machine/cores/``. Everything whose capacity can be varied (Gus, section 3.2: port
groups, instruction latencies, front end, ROB, retirement, bandwidths and latencies of the memory levels) is a
`Resource`; `Microarchitecture.scaled` gives it a weight w as the paper does: capacity c becomes w c, and a latency
becomes c / w.
What instructions cost is not in the core file but in the instruction tables (`perfkit.machine.instruction_tables`).
"""

from __future__ import annotations

import difflib
import lzma
import math
import re
import tomllib
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from numbers import Real
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from perfkit.base.files import is_folder, reading, whole_text
from perfkit.errors import FormatError, MissingFileError, PerfkitWarning, SettingError, expect, of_extra
from perfkit.machine.measured_forms import MeasuredForm, read_forms, write_forms
from perfkit.machine.recognise import Recognised, host

if TYPE_CHECKING:
    import pandas as pd

    from perfkit.machine.instruction_tables import Coverage

SCHEMA = 1

# Section of the core file -> kind of resource, the unit of its value, the names it must define and those it may.
_SECTIONS: dict[str, tuple[str, str, tuple[str, ...], tuple[str, ...]]] = {
    "widths": ("width", "uops/cycle", ("front_end", "retire"), ("store_commit", "taken_branches", "op_cache")),
    "buffers": (
        "buffer",
        "entries",
        ("rob",),
        (
            "scheduler",
            "vector_scheduler",
            "vector_store_scheduler",
            "vector_queue",
            "vector_registers",
            "load_buffer",
            "store_buffer",
            "line_fill_buffers",
        ),
    ),
    "latencies": (
        "latency",
        "cycles",
        ("L1_latency", "memory_latency", "store_forward_latency"),
        (
            "L1_vector_latency",
            "line_split_latency",
            "L2_latency",
            "L3_latency",
            "vector_store_forward_latency",
            "blocked_store_forward_latency",
            "misprediction_penalty",
            "instruction_latency",
            "second_tlb_latency",
            "page_walk_latency",
            "page_split_store",
            "L1_set_fill",
        ),
    ),
    "bandwidths": ("bandwidth", "bytes/cycle", ("L1_bandwidth", "memory_bandwidth"), ("L2_bandwidth", "L3_bandwidth")),
}
_TEXTS = ("name", "title", "vendor", "isa", "llvm_cpu", "table")
_LISTS = ("aliases", "processors", "uops_info")
_CACHE_KEYS = ("size", "ways", "line", "policy")
_POLICIES = ("lru", "plru")
_FEATURES: dict[str, type | tuple[type, ...]] = {
    "macro_fusion": str,
    "unlamination": str,
    "move_elimination": bool,
    "constants_at_rename": bool,
    "mov_fusion": bool,
    "branch_history": int,
    "indirect_targets": int,
    "indirect_targets_per_branch": int,
    "return_stack": int,
    "return_stack_empty": str,
    "memory_renaming": str,
    "linear_tags": bool,
    "store_pairing": bool,
    "stores_beside_loads": bool,
    "store_boundary": int,
    "op_cache_group": int,
    "op_cache_constants": int,
    "op_cache_evex": int,
    "op_cache_lines": bool,
    "op_cache_across_lines": bool,
    "shift_of_constant": (int, float),
    "flags_of_logic": (int, float),
    "fused_branch_ports": str,
    "tlb_entries": int,
    "second_tlb_entries": int,
    "page_walkers": int,
    "taken_branch_pairs": bool,
    "add_forwarding": (int, float),
    "next_line_prefetch": bool,
    "stream_prefetch": bool,
    "stride_prefetch": int,
    "stride_prefetch_reach": int,
    "line_split_penalty": int,
    "retag_uses": int,
    "retag_ports": str,
    "store_pair_bytes": int,
    "nop_fusion": int,
    "stack_sync": int,
    "scaled_index_latency": (int, float),
    "write_back_lines": (int, float),
    "L1_set_fill_written": (int, float),
}
_SIZES = ("indirect_targets", "indirect_targets_per_branch", "return_stack")  # of tables that cannot be empty
_FEATURE_UNITS = {
    "line_split_penalty": "uses of a port",
    "retag_uses": "uses of a port",
    "store_pair_bytes": "bytes",
    "stack_sync": "cycles",
    "nop_fusion": "bytes",
    "scaled_index_latency": "cycles",
    "write_back_lines": "lines",
    "stride_prefetch": "lines",
    "stride_prefetch_reach": "bytes",
    "L1_set_fill_written": "cycles",
    "add_forwarding": "cycles",
    "shift_of_constant": "cycles",
    "flags_of_logic": "cycles",
    "store_boundary": "bytes",
    "op_cache_group": "uops",
    "op_cache_constants": "constants of 32 bits",
    "op_cache_evex": "instructions",
}
# Features with a fixed set of values. Macro-fusion: which instructions fuse with a following conditional jump.
# Unlamination: which micro-fused uops take two slots at rename (loads and stores with an index register). Memory
# renaming: which loads of a word that was just stored have its value without loading ("by base register": where both
# addresses have no index register and are not relative to RIP; "also bytes": those too, but neither a load that is
# sign-extended nor an update of memory by a register; "learned by moves": whatever the addresses, but only
# where the load is a move, or is stored again by the same instruction). Linear tags: a line that L1 holds is not found
# where it was last used as part of another page. NOP fusion: a NOP takes no slot behind another instruction that is no
# vector one, if both have at most so many bytes. Stores beside loads: those of a vector or less take none of the
# bandwidth of L1, which is that of loads. Store boundary: stores into one aligned piece of so
# many bytes that follow one another are written to L1 together, and one across its end is written in two parts. Group
# of the micro-op cache: the front end gets at most so many uops at once, of one line of code, up to a taken branch;
# `op_cache` says how many such groups per cycle. Each constant of 32 bits beyond so many (`op_cache_constants`), and
# every so many instructions with EVEX (`op_cache_evex`, from the second on), take the place of a uop. With
# `op_cache_lines`, a group may go on in the next line, but no more lines than `op_cache` are begun in a cycle;
# with `op_cache_across_lines`, lines do not matter. Constants at rename: -1024 to 1023 added to a 64-bit register by
# ADD, SUB, INC, DEC or LEA take a slot, but no port and no time; a shift of such a register in the same block takes
# `shift_of_constant` longer. Stride prefetch: after so many lines that miss L1 at one distance (to within a line, and
# at most `stride_prefetch_reach`), the next ones of that load are there, and their pages known, when it asks for them.
# Flags of logic: by how much SETcc and CMOVcc take longer after flags of AND, OR, XOR or
# TEST. Indirect targets: how many the predictor of indirect jumps and calls remembers, each with those it followed, and
# how many of one branch where those are fewer. Return stack: what it predicts once all its entries were taken
# ("stale": what older calls left in them; "oldest": the last entry that was taken, again and again).
_CHOICES = {
    "macro_fusion": ("none", "cmp-test", "alu"),
    "unlamination": ("none", "indexed", "indexed unless 2-operand"),
    "memory_renaming": (
        "none",
        "same expression",
        "by base register",
        "by base register, also bytes",
        "learned",
        "learned by moves",
    ),
    "return_stack_empty": ("stale", "oldest"),
    "store_boundary": (32, 64),
    "store_pair_bytes": (32, 64),
}


@dataclass(frozen=True)
class Figure:
    """A value with its unit and where it comes from (a key of `Microarchitecture.sources`)."""

    value: float | str | bool
    source: str
    unit: str = ""
    note: str = ""


@dataclass(frozen=True)
class Resource:
    """Something of which a core has a finite capacity (Gus, section 3.2).

    Parameters
    ----------
    name
        "front_end", "rob", "L2_bandwidth", a port group such as "p01", ...
    kind
        "ports" and "width" (uops per cycle), "buffer" (entries), "bandwidth" (bytes per cycle),
        "latency" (cycles; for "instruction_latency" a factor on every latency of the instruction table).
    value
        The capacity in `unit`; for a latency, the latency.
    source
        Where the value comes from: a key of `Microarchitecture.sources`.
    note
        What the source does not say: conditions, spread, reasoning behind an estimate.
    units
        The ports of a port group; the paper's conjunctive ("combined") resource is their union.
    """

    name: str
    kind: str
    value: float
    unit: str
    source: str
    note: str = ""
    units: tuple[str, ...] = ()

    @property
    def quantity(self) -> str:
        """The capacity with its unit, for people: "4 uops/cycle"."""
        return "all latencies" if self.name == "instruction_latency" else f"{self.value:g} {self.unit}"

    @property
    def inverse_throughput(self) -> float:
        """Cycles for one uop (ports, widths) or one byte (bandwidths): Algorithm 1's ``inversethroughput``."""
        if self.kind not in ("ports", "width", "bandwidth"):
            raise SettingError(f"{self.name} is a {self.kind}: it has no throughput")
        return 1.0 / self.value

    def scaled(self, weight: float) -> Resource:
        """Return the resource with its capacity multiplied by `weight` (a latency is divided by it)."""
        try:
            fine = math.isfinite(weight) and weight > 0
        except TypeError:
            fine = False
        if not fine:
            raise SettingError(f"a weight is a finite number above 0, not {weight!r}")
        value = self.value / weight if self.kind == "latency" else self.value * weight
        return replace(self, value=value)


@dataclass(frozen=True)
class CacheLevel:
    """One level of data cache: geometry and replacement policy; its latency and bandwidth are resources.

    Parameters
    ----------
    name
        "L1", "L2" or "L3".
    size
        Bytes available to one core's thread.
    ways
        Associativity.
    line
        Bytes of a line.
    policy
        "lru" or "plru" (tree pseudo-LRU, the paper's choice for every level).
    figures
        The same values with their sources.
    """

    name: str
    size: int
    ways: int
    line: int
    policy: str
    figures: Mapping[str, Figure] = field(default_factory=dict, compare=False, repr=False)

    @property
    def sets(self) -> int:
        """Number of sets."""
        return self.size // (self.ways * self.line)


@dataclass(frozen=True)
class Microarchitecture:
    """A core: its resources, caches and features, each figure with a source.

    Attributes
    ----------
    name, title, vendor : str
        Its short name, its full name, and who makes it.
    isa, llvm_cpu, table : str
        Its instruction set, LLVM's name of it, and its instruction table.
    aliases : tuple of str
        Other names for `load`.
    sources : mapping
        Source -> its description; each figure names one.
    frequency : Figure
        Its nominal clock, GHz.
    resources : mapping
        Name -> `Resource`: widths, ports, buffers, latencies and bandwidths.
    caches : tuple of CacheLevel
        From L1 on.
    features : mapping
        Name -> what it can do beyond the paper's model.
    weights : mapping
        Resource -> the factor by which `scaled` has changed it.
    processors : tuple of str
        "VENDOR FAMILY MODELS" of the processors that have it, as in /proc/cpuinfo.
    uops_info : tuple of str
        What uops.info calls it.
    forms : mapping
        Instruction form -> what was measured of it, above the table's.

    Examples
    --------
    >>> core = Microarchitecture.load("zen4")
    >>> core.resource("front_end").value
    6.0
    >>> core.scaled("front_end", 2).resource("front_end").value
    12.0
    """

    name: str
    title: str
    vendor: str
    isa: str
    llvm_cpu: str
    table: str
    aliases: tuple[str, ...]
    sources: Mapping[str, str]
    frequency: Figure
    resources: Mapping[str, Resource]
    caches: tuple[CacheLevel, ...]
    features: Mapping[str, Figure]
    weights: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    processors: tuple[str, ...] = ()
    uops_info: tuple[str, ...] = ()
    forms: Mapping[str, MeasuredForm] = field(default_factory=lambda: MappingProxyType({}), repr=False)

    def __repr__(self) -> str:
        """Return the name and what was changed: the figures fill pages, and `resources` has them."""
        changed = ", ".join(f"{name} x{factor:g}" for name, factor in self.weights.items())
        return f"<Microarchitecture {self.name}: {self.title}{f' with {changed}' if changed else ''}>"

    def is_processor(self, vendor: str, family: int, model: int) -> bool:
        """Say whether a processor, by its `vendor`, `family` and `model` in /proc/cpuinfo, has this core."""
        for text in self.processors:
            known_vendor, known_family, models = text.split()
            first, _, last = models.partition("-")
            if (known_vendor, int(known_family)) == (vendor, family) and int(first) <= model <= int(last or first):
                return True
        return False

    @staticmethod
    def names() -> list[str]:
        """Return the names of the cores that ship with perfkit."""
        return sorted(_bundled_names())

    @classmethod
    def load(cls, name: str | Path) -> Microarchitecture:
        """Load a bundled core by name or alias, a core file by its path, or ``"host"``: this machine's.

        Core files end with ``.toml``, or ``.toml.xz`` where they are compressed.

        Where no core file describes this machine, ``"host"`` is the nearest, with a warning that says so.

        Raises
        ------
        SettingError
            No such core; the message lists those there are.
        MissingFileError
            No such file.
        FormatError
            The file is not a valid core: an unknown key, a value out of range, a missing source.
        """
        how = "perfkit.Microarchitecture.names() lists those that ship"
        expect(isinstance(name, str | Path), name, "Microarchitecture.load", "a core's name or file", how)
        if name == "host":
            found = recognised_host()
            if not found.exact:
                warnings.warn(
                    f"perfkit has no core file for {found.processor}: simulating {found.core}, the nearest "
                    f"({found.reason}). Name a core, or measure your own figures: perfkit calibrate",
                    PerfkitWarning,
                    stacklevel=2,
                )
            return cls.load(found.core)
        if isinstance(name, Path) or str(name).endswith((".toml", ".toml.xz")):
            path = Path(name)
            if not path.is_file():
                raise MissingFileError(
                    f"{path}: no such core file{is_folder(path)}; bundled cores: {', '.join(cls.names())}"
                )
            if path.suffix == ".xz":
                with reading(path, "a core file (TOML, compressed with xz)"):
                    return cls.from_toml(lzma.decompress(path.read_bytes()), str(path))
            return cls.from_toml(whole_text(path, "a core file (TOML)"), str(path))
        if name in _bundled_names():
            return _bundled(str(name))
        bundled = {known: _bundled(known) for known in _bundled_names()}
        for core in bundled.values():
            if name in core.aliases:
                return core
        known = sorted(bundled) + sorted(alias for core in bundled.values() for alias in core.aliases)
        near = difflib.get_close_matches(str(name), known, 1)
        hint = f"; did you mean {near[0]}?" if near else "."
        kind = MissingFileError if "/" in str(name) else SettingError  # a path, or a name
        raise kind(f"no core named {name!r}{hint} Known: {', '.join(known)}")

    @classmethod
    def from_toml(cls, text: str | bytes, where: str = "core file") -> Microarchitecture:
        """Read a core from the text of a core file; `where` names it in errors."""
        with reading(where, "a core file (TOML)"):
            try:
                data = tomllib.loads(text if isinstance(text, str) else text.decode())
            except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
                raise FormatError(f"{where}: not TOML: {error}") from error
            return _read_core(data, where)

    def to_toml(self) -> str:
        """Return the core as the text of a core file; loading it gives an equal core."""
        return _write_core(self)

    def resource(self, name: str) -> Resource:
        """Return a resource by name; the error names the nearest."""
        expect(isinstance(name, str), name, "Microarchitecture", "a resource's name", "see its .resources")
        if name not in self.resources:
            near = difflib.get_close_matches(name, self.resources, 3)
            raise SettingError(
                f"{self.name} has no resource {name!r}"
                + (f" (nearest: {', '.join(near)})" if near else "")
                + f"; it has: {', '.join(self.resources)}"
            )
        return self.resources[name]

    def value(self, name: str, default: float | None = None) -> float:
        """Return the value of the resource `name`; `default` where this core does not have it."""
        if default is not None and name not in self.resources:
            return default
        return self.resource(name).value

    def feature(self, name: str, default: Any = None) -> Any:
        """Return the value of the feature `name`, or `default` where the core file does not state it."""
        expect(isinstance(name, str), name, "Microarchitecture.feature", "a feature's name", "see its .features")
        figure = self.features.get(name)
        return default if figure is None else figure.value

    def cache(self, name: str) -> CacheLevel:
        """Return a cache level by name ("L1", "L2", "L3").

        Raises
        ------
        SettingError
            The core has no such cache.
        """
        for level in self.caches:
            if level.name == name:
                return level
        raise SettingError(f"{self.name} has no cache {name!r}; it has: {', '.join(c.name for c in self.caches)}")

    @property
    def ports(self) -> dict[str, Resource]:
        """The port groups, by name."""
        return {name: resource for name, resource in self.resources.items() if resource.kind == "ports"}

    def coverage(self, trace: Any) -> Coverage:
        """Say which share of a trace's executed instructions each layer of this core's instruction table serves.

        Returns `perfkit.machine.instruction_tables.Coverage`; warns of the forms that no table knows, by name.
        """
        from perfkit.machine.instruction_tables import InstructionTables

        return InstructionTables.load(self).coverage(trace)

    def scaled(self, resource: str, weight: float) -> Microarchitecture:
        """Return the core with one resource's capacity multiplied by `weight` (Gus, section 3.2).

        A weight above 1 is a better machine: more uops per cycle, more entries, more bytes per cycle, less latency.
        """
        changed = dict(self.resources)
        changed[resource] = self.resource(resource).scaled(weight)
        weights = {**self.weights, resource: self.weights.get(resource, 1.0) * weight}
        return replace(self, resources=MappingProxyType(changed), weights=MappingProxyType(weights))

    def replaced(self, resource: str, value: float, source: str, note: str = "") -> Microarchitecture:
        """Return the core with one resource's value set; `source` and `note` say where the new value comes from.

        Raises
        ------
        SettingError
            There is no such resource, or the value is not finite and above 0.
        """
        expect(isinstance(value, Real), value, "Microarchitecture.replaced", "a number (value)", "give one above 0")
        if not (math.isfinite(value) and value > 0):
            raise SettingError(f"{resource}: a finite value above 0 is needed, not {value!r}")
        key = source if source in self.sources else "user"
        sources = self.sources if source in self.sources else MappingProxyType({**self.sources, "user": source})
        changed = dict(self.resources)
        changed[resource] = replace(self.resource(resource), value=float(value), source=key, note=note)
        return replace(self, resources=MappingProxyType(changed), sources=sources)

    def to_frame(self) -> pd.DataFrame:
        """Return every figure as a table: name, kind, value, unit, source (in words), note."""
        pd = of_extra("pandas")

        rows: list[dict[str, Any]] = [
            {"name": r.name, "kind": r.kind, "value": r.value, "unit": r.unit, "source": r.source, "note": r.note}
            for r in self.resources.values()
        ]
        for level in self.caches:
            rows += [
                {"name": f"{level.name}.{key}", "kind": "cache", **_figure_row(figure)}
                for key, figure in level.figures.items()
            ]
        rows += [{"name": name, "kind": "feature", **_figure_row(figure)} for name, figure in self.features.items()]
        rows.append({"name": "frequency", "kind": "clock", **_figure_row(self.frequency)})
        frame = pd.DataFrame(rows)
        frame["source"] = [self.sources.get(key, key) for key in frame["source"]]
        return frame


def _figure_row(figure: Figure) -> dict[str, Any]:
    return {"value": figure.value, "unit": figure.unit, "source": figure.source, "note": figure.note}


def recognised_host() -> Recognised:
    """Return which bundled core this machine has, or the nearest."""
    return host(listed_core)


def listed_core(vendor: str, family: int, model: int) -> str | None:
    """Return the bundled core whose file lists a processor, None where none does."""
    cores = map(_bundled, _bundled_names())
    return next((core.name for core in cores if core.is_processor(vendor, family, model)), None)


@cache
def _bundled_names() -> tuple[str, ...]:
    entries = files("perfkit.machine").joinpath("cores").iterdir()
    return tuple(sorted(entry.name.removesuffix(".toml") for entry in entries if entry.name.endswith(".toml")))


@cache
def _bundled(name: str) -> Microarchitecture:
    entry = files("perfkit.machine").joinpath("cores", f"{name}.toml")
    return Microarchitecture.from_toml(entry.read_text(encoding="utf-8"), f"perfkit/machine/cores/{name}.toml")


# --- reading a core file -------------------------------------------------------------------------------------------


def _read_core(data: dict[str, Any], where: str) -> Microarchitecture:
    sections = (*_SECTIONS, "ports", "caches", "features", "forms")
    _known(data, ("schema", *_LISTS, "sources", "clock", *_TEXTS, *sections), where)
    if data.get("schema") != SCHEMA:
        raise FormatError(f"{where}: schema = {SCHEMA} expected, found {data.get('schema')!r}")
    texts = {key: _text(data, key, where) for key in _TEXTS}
    sources = data.get("sources")
    if not isinstance(sources, dict) or not sources or not all(isinstance(v, str) and v for v in sources.values()):
        raise FormatError(f'{where}: [sources] with at least one key = "text" is needed: every figure names its source')
    resources: dict[str, Resource] = {}
    for section, (kind, unit, required, optional) in _SECTIONS.items():
        resources |= _read_section(data, section, kind, unit, required, optional, sources, where)
    resources |= _read_ports(data.get("ports", {}), sources, f"{where}: [ports]")
    note = "on every latency of the instruction table"
    factor = resources.get("instruction_latency", Resource("", "", 1.0, "", "model")).value
    resources["instruction_latency"] = Resource("instruction_latency", "latency", factor, "factor", "model", note)
    clock = data.get("clock", {})
    _known(clock, ("nominal",), f"{where}: [clock]")
    if "nominal" not in clock:
        raise FormatError(f"{where}: [clock] nominal (GHz) is missing")
    lists = {key: data.get(key, []) for key in _LISTS}
    for key, found in lists.items():
        if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
            raise FormatError(f"{where}: {key} is a list of names, found {found!r}")
    for text in lists["processors"]:
        if not re.fullmatch(r"\w+ \d+ \d+(-\d+)?", text):
            raise FormatError(f'{where}: processors: "VENDOR FAMILY MODEL[-MODEL]" expected, found {text!r}')
    return Microarchitecture(
        name=texts["name"],
        title=texts["title"],
        vendor=texts["vendor"],
        isa=texts["isa"],
        llvm_cpu=texts["llvm_cpu"],
        table=texts["table"],
        aliases=tuple(lists["aliases"]),
        processors=tuple(lists["processors"]),
        uops_info=tuple(lists["uops_info"]),
        sources=MappingProxyType({"model": "a parameter of perfkit's model, not of a machine", **sources}),
        frequency=_figure(clock["nominal"], sources, f"{where}: [clock] nominal", "GHz"),
        resources=MappingProxyType(resources),
        caches=_read_caches(data.get("caches", {}), sources, where),
        features=MappingProxyType(_read_features(data.get("features", {}), sources, f"{where}: [features]")),
        forms=read_forms(data.get("forms", {}), data.get("ports", {}), f"{where}: [forms]"),
    )


def _read_section(
    data: dict[str, Any],
    section: str,
    kind: str,
    unit: str,
    required: tuple[str, ...],
    optional: tuple[str, ...],
    sources: dict[str, str],
    where: str,
) -> dict[str, Resource]:
    place = f"{where}: [{section}]"
    table = data.get(section, {})
    _known(table, (*required, *optional), place)
    if missing := [name for name in required if name not in table]:
        raise FormatError(f"{place}: {', '.join(missing)} missing")
    found = {}
    for name, entry in table.items():
        figure = _figure(entry, sources, f"{place} {name}", unit)
        found[name] = Resource(name, kind, _number(figure, f"{place} {name}"), unit, figure.source, figure.note)
    return found


def _read_ports(table: Any, sources: dict[str, str], place: str) -> dict[str, Resource]:
    if not isinstance(table, dict) or not table:
        raise FormatError(f'{place}: a core needs port groups: name = {{ units = [...], source = "..." }}')
    found = {}
    for name, entry in table.items():
        spot = f"{place} {name}"
        if not isinstance(entry, dict):
            raise FormatError(f'{spot}: {{ units = [...], source = "..." }} expected, found {entry!r}')
        _known(entry, ("units", "capacity", "source", "note"), spot)
        units = entry.get("units")
        if not isinstance(units, list) or not units or len(set(units)) != len(units):
            raise FormatError(f"{spot}: units is a list of different port names, found {units!r}")
        source = _source(entry, sources, spot)
        capacity = entry.get("capacity", len(units))
        if not isinstance(capacity, int | float) or isinstance(capacity, bool) or not 0 < capacity < math.inf:
            raise FormatError(f"{spot} capacity: uops per cycle above 0 expected, found {capacity!r}")
        note = entry.get("note", "")
        found[name] = Resource(name, "ports", float(capacity), "uops/cycle", source, note, tuple(units))
    return found


def _read_caches(table: dict[str, Any], sources: dict[str, str], where: str) -> tuple[CacheLevel, ...]:
    _known(table, ("L1", "L2", "L3"), f"{where}: [caches]")
    if "L1" not in table or ("L3" in table and "L2" not in table):
        raise FormatError(f"{where}: [caches] needs L1, and L2 before L3; found {', '.join(table) or 'nothing'}")
    levels = []
    for name in sorted(table):
        place = f"{where}: [caches.{name}]"
        _known(table[name], _CACHE_KEYS, place)
        if missing := [key for key in _CACHE_KEYS if key not in table[name]]:
            raise FormatError(f"{place}: {', '.join(missing)} missing")
        units = {"size": "bytes", "ways": "ways", "line": "bytes", "policy": ""}
        figures = {key: _figure(table[name][key], sources, f"{place} {key}", units[key]) for key in _CACHE_KEYS}
        size, ways, line = (int(_number(figures[key], f"{place} {key}")) for key in ("size", "ways", "line"))
        policy = figures["policy"].value
        if policy not in _POLICIES:
            raise FormatError(f"{place} policy: one of {', '.join(_POLICIES)} expected, found {policy!r}")
        if size % (ways * line) or line & (line - 1):
            raise FormatError(f"{place}: size {size} is not a whole number of sets of {ways} ways x {line} bytes")
        levels.append(CacheLevel(name, size, ways, line, str(policy), MappingProxyType(figures)))
    return tuple(levels)


def _read_features(table: dict[str, Any], sources: dict[str, str], place: str) -> dict[str, Figure]:
    _known(table, tuple(_FEATURES), place)
    found = {}
    for name, entry in table.items():
        figure = _figure(entry, sources, f"{place} {name}", _FEATURE_UNITS.get(name, ""))
        if not isinstance(figure.value, _FEATURES[name]):
            raise FormatError(f"{place} {name}: {_FEATURES[name]} expected, found {figure.value!r}")
        if name in _SIZES and float(figure.value) < 1:
            raise FormatError(f"{place} {name}: at least 1 expected, found {figure.value!r}")
        if name in _CHOICES and figure.value not in _CHOICES[name]:
            raise FormatError(
                f"{place} {name}: one of {', '.join(map(str, _CHOICES[name]))} expected, found {figure.value!r}"
            )
        found[name] = figure
    return found


def _known(table: Any, keys: Iterable[str], place: str) -> None:
    if not isinstance(table, dict):
        raise FormatError(f"{place}: a table expected, found {table!r}")
    keys = list(keys)
    for key in table:
        if key not in keys:
            near = difflib.get_close_matches(key, keys, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise FormatError(f"{place}: unknown key {key!r}{hint} Known: {', '.join(keys)}")


def _text(data: dict[str, Any], key: str, where: str) -> str:
    value = data.get(key)
    if not isinstance(value, str) or not value:
        raise FormatError(f'{where}: {key} = "text" expected, found {value!r}')
    return value


def _source(entry: dict[str, Any], sources: dict[str, str], place: str) -> str:
    source = entry.get("source")
    if source is None:
        raise FormatError(f"{place}: no source; every figure names one of [sources]: {', '.join(sources)}")
    if source not in sources and source != "model":
        raise FormatError(f"{place}: source {source!r} is not in [sources]: {', '.join(sources)}")
    return str(source)


def _figure(entry: Any, sources: dict[str, str], place: str, unit: str) -> Figure:
    if not isinstance(entry, dict):
        raise FormatError(f'{place}: {{ value = ..., source = "..." }} expected, found {entry!r}')
    _known(entry, ("value", "source", "note"), place)
    if "value" not in entry:
        raise FormatError(f"{place}: no value")
    value = entry["value"]
    if isinstance(value, int | float) and not isinstance(value, bool):
        free = unit == "cycles" and value == 0  # a forwarded value may cost nothing: the core renames it
        if not free and not (math.isfinite(value) and value > 0):
            raise FormatError(f"{place}: a finite value above 0 expected, found {value!r}")
    return Figure(value, _source(entry, sources, place), unit, entry.get("note", ""))


def _number(figure: Figure, place: str) -> float:
    if isinstance(figure.value, bool) or not isinstance(figure.value, int | float):
        raise FormatError(f"{place}: a number was expected, found {figure.value!r}")
    return float(figure.value)


# --- writing one -----------------------------------------------------------------------------------------------------


def _write_core(core: Microarchitecture) -> str:
    lines = [f"schema = {SCHEMA}", *(f"{key} = {_toml(getattr(core, key))}" for key in _TEXTS)]
    lines += [*(f"{key} = {_toml(list(getattr(core, key)))}" for key in _LISTS), "", "[sources]"]
    sources = {key: text for key, text in core.sources.items() if key != "model"}
    if core.weights:
        scale = ", ".join(f"{name} x {weight:g}" for name, weight in core.weights.items())
        sources["scaled"] = f"{core.name} with a hypothetical capacity: {scale}"
    lines += [f"{_toml(key)} = {_toml(text)}" for key, text in sources.items()]
    lines += ["", "[clock]", f"nominal = {_toml_figure(core.frequency)}"]
    for section, (kind, _, _, _) in _SECTIONS.items():
        lines += ["", f"[{section}]"]
        for resource in core.resources.values():
            if resource.kind == kind and (resource.name != "instruction_latency" or resource.name in core.weights):
                source = "scaled" if resource.name in core.weights else resource.source
                lines.append(f"{resource.name} = {_toml_figure(Figure(resource.value, source, note=resource.note))}")
    lines += ["", "[ports]"]
    for resource in core.ports.values():
        note = f", note = {_toml(resource.note)}" if resource.note else ""
        units = _toml(list(resource.units))
        capacity = "" if resource.value == len(resource.units) else f", capacity = {resource.value!r}"
        source = _toml("scaled" if resource.name in core.weights else resource.source)
        lines.append(f"{_toml(resource.name)} = {{ units = {units}{capacity}, source = {source}{note} }}")
    for level in core.caches:
        lines += ["", f"[caches.{level.name}]"]
        lines += [f"{key} = {_toml_figure(figure)}" for key, figure in level.figures.items()]
    lines += ["", "[features]"]
    lines += [f"{name} = {_toml_figure(figure)}" for name, figure in core.features.items()]
    if core.forms:
        lines += write_forms(core.forms)
    return "\n".join(lines) + "\n"


def _toml_figure(figure: Figure) -> str:
    note = f", note = {_toml(figure.note)}" if figure.note else ""
    return f"{{ value = {_toml(figure.value)}, source = {_toml(figure.source)}{note} }}"


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'"{escaped}"'
    return repr(value)
