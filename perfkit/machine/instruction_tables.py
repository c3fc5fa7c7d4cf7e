"""What instructions cost on a core: layers of tables; the highest-priority layer that defines a form wins.

Highest priority first: the user's overrides, the calibration of this host (``perfkit calibrate``), the user's own copy
of uops.info's ``instructions.xml``, the corrections that ship with perfkit, the bundled table made from LLVM's
scheduling model, what an installed ``llvm-mca`` says of the trace's forms that none of these knows, and the default
of the instruction's class. A layer may say only part (a latency, a throughput): the
rest stays what the weaker layers say. `Coverage` tells which layer served which share of a trace; class defaults are
warned about by name, for they are guesses.
"""

from __future__ import annotations

import csv
import gzip
import math
import re
import tomllib
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from perfkit.errors import FormatError, PerfkitWarning, SettingError, expect, listed, of_extra
from perfkit.machine.forms import InstructionForm
from perfkit.machine.layers import COMPLETE, LAYERS, Layer, Row
from perfkit.machine.measured_forms import form_layers
from perfkit.machine.overlays import overlay, read_overlay
from perfkit.trace import aarch64 as decode_aarch64
from perfkit.trace import x86 as decode

if TYPE_CHECKING:
    import pandas as pd

    from perfkit.machine.core import Microarchitecture
    from perfkit.trace.code import StaticCode

_NOT_ASKED = "llvm-mca has no figures of locked or repeated instructions, or of extensions that the core lacks"


def _rules(isa: str) -> Any:
    """Return the module that knows what the names of an instruction set's forms mean."""
    return decode_aarch64 if isa == "aarch64" else decode


@dataclass(frozen=True)
class InstructionTables:
    """The layers of a core, strongest first.

    Parameters
    ----------
    core
        The core.
    layers
        Its layers.
    look_up
        Whether `extended` asks an installed llvm-mca about forms that no layer knows.
    note
        What became of that, for people: which llvm-mca, or why there was none.

    Examples
    --------
    >>> from perfkit.machine.core import Microarchitecture
    >>> tables = InstructionTables.load(Microarchitecture.load("skylake_x"))
    >>> form = tables.form("VEX_VFMADD231PS_YMM_YMM_YMMM256/m")
    >>> form.latency, form.address_latency, form.unfused_uops
    (4.0, 7.0, 2.0)
    """

    core: Microarchitecture
    layers: tuple[Layer, ...]
    look_up: bool = True
    note: str = ""

    def __repr__(self) -> str:
        """Return the core and its layers: the rows fill pages."""
        layers = ", ".join(f"{layer.name} ({len(layer.rows):,} forms)" for layer in self.layers)
        return f"<InstructionTables of {self.core.name}: {layers}>"

    @classmethod
    def load(
        cls,
        core: Microarchitecture,
        overrides: Mapping[str, Mapping[str, Any]] | str | Path | None = None,
        calibration: str | Path | None = None,
        uops_info: str | Path | None = None,
        look_up: bool = True,
    ) -> InstructionTables:
        """Put the layers of a core together.

        Parameters
        ----------
        core
            The core whose tables these are.
        overrides
            The user's figures: {form or pattern: {"latency": 3, "uses": {"p01": 1}, ...}} or a TOML file of that form.
        calibration
            The overlay that ``perfkit calibrate`` wrote.
        uops_info
            The user's copy of uops.info's ``instructions.xml`` (perfkit ships none of it).
        look_up
            Whether a trace's forms that no table knows are looked up with an installed ``llvm-mca`` (LLVM 21 or
            later) when they are met; they get their class's default otherwise.

        Raises
        ------
        SettingError
            `core` is no Microarchitecture, or an overlay is for another core.
        FormatError
            The core names an instruction table that is not there.
        """
        if not hasattr(core, "forms"):
            raise SettingError(
                f"InstructionTables.load takes a Microarchitecture; found {type(core).__name__}: "
                "Microarchitecture.load finds one by its name"
            )
        layers = []
        if isinstance(overrides, str | Path):
            layers.append(read_overlay(overrides, "user", core))
        elif overrides:
            layers.append(overlay({"forms": dict(overrides)}, "user", core, "overrides"))
        if calibration is not None:
            layers.append(read_overlay(calibration, "calibration", core))
        if uops_info is not None:
            from perfkit.machine.uops_info import read_uops_info

            layers.append(read_uops_info(uops_info, core))
        if core.forms:
            layers += form_layers(core.forms, core.title, f"{core.table}'s table, not measured here")
            return cls(core, tuple(layers), look_up)
        shipped = core.name in core.names()
        layers += _bundled_layers(core.name, core.table, core.load if shipped else None)
        if shipped and not any(layer.name in COMPLETE for layer in layers):
            raise FormatError(
                f"perfkit/machine/cores/{core.name}.toml: there is no instruction table {core.table!r}; name one "
                "that is there (another core's, with its port groups), or make it with data/make/instruction_tables.py"
            )
        return cls(core, tuple(layers), look_up)

    def extended(self, code: StaticCode) -> InstructionTables:
        """Return the tables with a layer "llvm-mca" for those forms of `code` that no layer knows completely.

        One run of an installed ``llvm-mca`` is asked about all of them. Nothing is kept but in memory. Left to their
        class's default are locked and repeated instructions (LLVM's models leave out what the lock costs, and do not
        know how often), forms of extensions of which the core's table holds no form (LLVM answers for those with
        another core's guess), and what LLVM refuses; the tables are returned as they are where there is no llvm-mca,
        or ``look_up`` is False.

        Raises
        ------
        SettingError
            The core is of another instruction set than the code.
        """
        if code.isa in ("x86-64", "aarch64") and code.isa != self.core.isa:
            raise SettingError(
                f"the trace is {code.isa}, {self.core.title} is {self.core.isa}: choose a core of the trace's kind"
            )
        if any(layer.name == "llvm-mca" for layer in self.layers):
            return self
        if code.isa != "x86-64":
            return replace(self, note="llvm-mca is asked at run time about x86-64 only")
        from perfkit.machine.runtime_tables import runtime_layer

        texts = self._unknown(code)
        if not texts:
            return replace(self, note=_NOT_ASKED)
        if not self.look_up:
            return replace(self, note="looking them up with llvm-mca is turned off")
        layer, note = runtime_layer(texts, self.core, self._base)
        return replace(self, layers=self.layers if layer is None else (*self.layers, layer), note=note)

    def _unknown(self, code: StaticCode) -> dict[str, str]:
        """Return the forms of `code` that no complete layer knows -> the text of one such instruction."""
        found: dict[str, str] = {}
        for instruction in dict(zip(code.encoding, decode.decode(code), strict=True)).values():  # of those alike one
            form = decode.form_name(instruction)
            if form in found or any(self._base(name) is not None for name in (form, *decode.simpler_forms(form))):
                continue
            if {"rep", "lock"} & set(form.split("/")):
                continue
            known = _features_of(self.core.table)
            if not known or decode.code_features(form) <= known:
                found[form] = str(_gas().format(instruction))
        return found

    def form(self, name: str) -> InstructionForm:
        """Return what a form costs; `InstructionForm.source` names the highest-priority layer that contributed."""
        stand_ins = _rules(self.core.isa).simpler_forms(name)
        known = next((n for n in (name, *stand_ins) if self._base(n) is not None), name)
        row = self._base(known)
        source = "" if row is None else self._base_source(known)
        if row is None:
            reference = _reference(name, self)
            row, source = (self._base(reference) if reference else None), "class default"
        form = _complete(name, row or Row(), self.core, source)
        strongest = LAYERS.index(source)
        for layer in reversed(self.layers):  # the weaker first, so that the stronger have the last word
            if LAYERS.index(layer.name) >= strongest or layer.name in COMPLETE:
                continue
            found = layer.find(name) or (layer.find(known) if known != name else None)
            if found is not None:
                form = _changed(form, found, layer.name, self.core)
        return form

    def stood_in_for(self, name: str) -> bool:
        """Say whether the core's table lacks a form and has one that stands in for it."""
        return self._base(name) is None and self.form(name).source != "class default"

    def _base(self, name: str) -> Row | None:
        for layer in self.layers:
            if layer.name in COMPLETE and name in layer.rows:
                return layer.rows[name]
        return None

    def _base_source(self, name: str) -> str:
        return next(layer.name for layer in self.layers if layer.name in COMPLETE and name in layer.rows)

    def coverage(self, trace: Any) -> Coverage:
        """Say which layer served which share of a trace's executed instructions; warn of class defaults by name."""
        coverage = self.served(trace)
        coverage.warn()
        return coverage

    def served(self, trace: Any) -> Coverage:
        """Return `coverage` without a warning."""
        how = "record one with perfkit.collectors.Tracer, or open a file with perfkit.Trace.load"
        expect(hasattr(trace, "code"), trace, "InstructionTables.coverage", "a Trace", how)
        tables = self.extended(trace.code)
        names = _rules(trace.isa).form_names(trace.code)
        counts: dict[str, int] = {}
        for name, executed in zip(names, trace.instruction_counts().tolist(), strict=True):
            counts[name] = counts.get(name, 0) + executed
        served = {name: tables.form(name).source for name in counts}
        titles = MappingProxyType({layer.name: layer.title for layer in tables.layers})
        return Coverage(self.core.name, MappingProxyType(counts), MappingProxyType(served), titles, tables.note)


@dataclass(frozen=True)
class Coverage:
    """Which layer of a core's tables served which forms of a trace.

    Parameters
    ----------
    core
        The core's name.
    counts
        Form -> executions.
    layers
        Form -> the highest-priority layer that defines it (`LAYERS`).
    titles
        Layer -> where it comes from (LLVM's version, the calibration's host and date).
    note
        What became of looking unknown forms up at run time.
    """

    core: str
    counts: Mapping[str, int]
    layers: Mapping[str, str]
    titles: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    note: str = ""

    @property
    def shares(self) -> dict[str, float]:
        """Layer -> share of the executed instructions."""
        total = sum(self.counts.values())
        found = dict.fromkeys(LAYERS, 0)
        for form, count in self.counts.items():
            found[self.layers[form]] += count
        return {layer: count / total if total else math.nan for layer, count in found.items()}

    @property
    def unknown(self) -> dict[str, int]:
        """Forms that only their class's default served -> executions, most executed first."""
        found = {form: count for form, count in self.counts.items() if self.layers[form] == "class default"}
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def warn(self) -> None:
        """Warn of the forms that no table knows, by name."""
        if unknown := self.unknown:
            share = self.shares["class default"]
            names = listed(unknown, 8)
            warnings.warn(
                f"{self.core}: no table knows {names} ({share:.1%} of the executed instructions); the default of "
                f"their class stands in{f' ({self.note})' if self.note else ''}. Give figures as overrides, by perfkit "
                "calibrate or from uops.info's file.",
                PerfkitWarning,
                stacklevel=3,
            )

    def to_frame(self) -> pd.DataFrame:
        """Return one row per form: executions, share, layer, where the layer comes from."""
        pd = of_extra("pandas")

        total = sum(self.counts.values())
        frame = pd.DataFrame(
            [(form, count, count / total, self.layers[form]) for form, count in self.counts.items()],
            columns=["form", "executions", "share", "layer"],
        )
        frame["source"] = [self.titles.get(layer, "a guess") for layer in frame["layer"]]
        return frame.sort_values("executions", ascending=False, ignore_index=True)


@cache
def _bundled_layers(name: str, table: str, load: Callable[[str], Microarchitecture] | None) -> tuple[Layer, ...]:
    """Return the layers that ship with perfkit; `load` gives the core as it ships, None where it does not."""
    folder = files("perfkit.machine").joinpath("cores")
    layers = []
    for owner in dict.fromkeys((name, table)):  # a core's own, then those of the table that it shares with others
        corrections = folder.joinpath("corrections", f"{owner}.toml")
        if load is not None and corrections.is_file():
            data = tomllib.loads(corrections.read_text(encoding="utf-8"))
            data.pop("core", None)  # the file's name says whose they are
            layers.append(overlay(data, "correction", load(name), f"perfkit/machine/cores/corrections/{owner}.toml"))
    bundled = folder.joinpath("tables", f"{table}.csv.gz")
    if bundled.is_file():
        text = gzip.decompress(bundled.read_bytes()).decode()
        title, _, body = text.partition("\n")
        layers.append(Layer("llvm", MappingProxyType(_read_table(body)), title.lstrip("# ")))
    return tuple(layers)


@cache
def _features_of(table: str) -> frozenset[int]:
    """Return the extensions (iced-x86's CpuidFeature) of the forms in a bundled table; nothing where there is none."""
    from perfkit.trace.x86 import code_features

    bundled = files("perfkit.machine").joinpath("cores", "tables", f"{table}.csv.gz")
    if not bundled.is_file():
        return frozenset()
    _, _, body = gzip.decompress(bundled.read_bytes()).decode().partition("\n")
    return frozenset().union(*(code_features(form) for form in _read_table(body)))


@cache
def _gas() -> Any:
    import iced_x86

    return iced_x86.Formatter(iced_x86.FormatterSyntax.GAS)


def _read_table(text: str) -> dict[str, Row]:
    rows = csv.reader(text.splitlines())
    next(rows)
    found = {}
    for form, _, fused, unfused, latency, memory, _, uses in rows:
        shares = MappingProxyType({name: float(n) for name, n in (use.split(":") for use in uses.split())})
        found[form] = Row(
            float(fused), float(unfused), float(latency), None, float(memory) if memory else None, None, shares
        )
    return found


def _complete(name: str, row: Row, core: Microarchitecture, source: str) -> InstructionForm:
    rules = _rules(core.isa)
    loads, stores = rules.memory_access(name)
    level = "L1_vector_latency" if rules.is_vector(name) and "L1_vector_latency" in core.resources else "L1_latency"
    latency = 1.0 if row.latency is None else row.latency
    return InstructionForm(
        name,
        1.0 if row.fused_uops is None else row.fused_uops,
        1.0 if row.unfused_uops is None else row.unfused_uops,
        latency,
        row.uses or MappingProxyType({}),
        (core.value(level) if row.address_latency is None else row.address_latency) if loads else math.nan,
        (latency if row.memory_latency is None else row.memory_latency) if loads else math.nan,
        loads,
        stores,
        source,
    )


def _changed(form: InstructionForm, row: Row, layer: str, core: Microarchitecture) -> InstructionForm:
    keys = ("fused_uops", "unfused_uops", "latency", *(("address_latency", "memory_latency") if form.loads else ()))
    given = {key: getattr(row, key) for key in keys if getattr(row, key) is not None}
    form = replace(form, **given, source=layer)
    if row.latency is not None:  # what a weaker layer says of single operands is not of this latency
        form = replace(form, operand_latency=row.operand_latency or MappingProxyType({}))
    if row.uses is not None:
        form = replace(form, uses=row.uses)
    if row.inverse_throughput is not None:
        form = replace(form, uses=uses_for_throughput(form.uses, row.inverse_throughput, core))
    return form


def uses_for_throughput(uses: Mapping[str, float], cycles: float, core: Microarchitecture) -> Mapping[str, float]:
    """Return uses of the same ports whose largest share of inverse throughput is `cycles`.

    A group that would take longer is cut to `cycles`; if none takes that long, the group that takes longest is raised.
    """
    if not uses:
        return uses
    share = {name: count * core.resource(name).inverse_throughput for name, count in uses.items()}
    slowest = max(share, key=lambda name: share[name])
    changed = {name: min(uses[name], cycles * core.value(name)) for name in uses}
    changed[slowest] = cycles * core.value(slowest)
    return MappingProxyType(changed)


# The default of a class is what a common instruction of that class costs on the same core.
_REFERENCES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "nop": ("NOPD",),
        "branch": ("JNE_REL8_64",),
        "move": ("MOV_R64_RM64", "VEX_VMOVAPS_XMM_XMMM128", "VEX_VMOVAPS_YMM_YMMM256", "EVEX_VMOVAPS_ZMM_K1Z_ZMMM512"),
        "integer": ("ADD_R64_RM64",),
        "multiply": ("IMUL_R64_RM64",),
        "divide": ("IDIV_RM64", "VEX_VDIVPD_XMM_XMM_XMMM128", "VEX_VDIVPD_YMM_YMM_YMMM256"),
        "mask": ("VEX_KANDW_KR_KR_KR",),
        "vector integer": (
            "VEX_VPADDD_XMM_XMM_XMMM128",
            "VEX_VPADDD_YMM_YMM_YMMM256",
            "EVEX_VPADDD_ZMM_K1Z_ZMM_ZMMM512B32",
        ),
        "vector float": (
            "VEX_VADDPD_XMM_XMM_XMMM128",
            "VEX_VADDPD_YMM_YMM_YMMM256",
            "EVEX_VADDPD_ZMM_K1Z_ZMM_ZMMM512B64_ER",
        ),
    }
)


def _reference(name: str, tables: InstructionTables) -> str | None:
    """Return the form of the same class, width and memory operand whose cost stands in for an unknown one."""
    if tables.core.isa == "aarch64":
        return decode_aarch64.reference_form(name)
    candidates = _REFERENCES[decode.class_of(name)]
    width = re.search(r"[XYZ]MM", name)
    fitting = [form for form in candidates if width and width[0] in form] or [
        form for form in candidates if not re.search(r"[YZ]MM", form)
    ]
    loads, stores = decode.memory_access(name)
    for form in fitting:
        if stores and not loads:
            store = "MOV_RM64_R64/m" if not width else "VEX_VMOVAPS_XMMM128_XMM/m"
            if tables._base(store) is not None:
                return store
        if loads and tables._base(f"{form}/m") is not None:
            return f"{form}/m"
        if tables._base(form) is not None:
            return form
    return None
