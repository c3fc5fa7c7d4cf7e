"""The section ``[forms]`` of a core file: what instructions cost, with what was measured of each."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from perfkit.errors import FormatError
from perfkit.machine.layers import Layer, Row

HERE, NEAREST = "measured", "nearest"
"""Sources of a form: measured on the host of the file, or taken from the nearest known core's table."""
_NUMBERS = ("fused_uops", "unfused_uops", "latency", "memory_latency")
Interval = tuple[float, float]


@dataclass(frozen=True)
class MeasuredForm:
    """A form of a core file.

    Parameters
    ----------
    row
        What it costs.
    source
        ``"measured"`` or ``"nearest"``.
    cycles
        Least and most of the cycles per instruction that were measured; None where they were not.
    latencies
        Operand (by its place, from 0) -> least and most of the cycles from it to the result.
    """

    row: Row
    source: str
    cycles: Interval | None = None
    latencies: Mapping[str, Interval] = field(default_factory=lambda: MappingProxyType({}))


def read_forms(table: Any, ports: Mapping[str, Any], place: str) -> Mapping[str, MeasuredForm]:
    """Read ``[forms]``; `place` names it in errors.

    Raises
    ------
    FormatError
        An unknown key, a port group that the core lacks, a value that is no number of 0 or more.
    """
    if not isinstance(table, dict):
        raise FormatError(f"{place}: FORM = {{ ... }} expected, found {table!r}")
    return MappingProxyType({name: _form(entry, ports, f"{place} {name}") for name, entry in table.items()})


def _form(entry: Any, ports: Mapping[str, Any], place: str) -> MeasuredForm:
    if not isinstance(entry, dict):
        raise FormatError(f"{place}: {{ uses = {{...}}, latency = ..., source = ... }} expected, found {entry!r}")
    known = (*_NUMBERS, "uses", "source", "measured_cycles", "measured_latency")
    for key in entry:
        if key not in known:
            raise FormatError(f"{place}: unknown key {key!r}; known: {', '.join(known)}")
    uses = entry.get("uses", {})
    if not isinstance(uses, dict) or (wrong := [name for name in uses if name not in ports]):
        raise FormatError(f"{place} uses: port groups of [ports] expected, found {uses if not uses else wrong[0]!r}")
    values: dict[str, Any] = {key: _number(entry[key], f"{place} {key}") for key in _NUMBERS if key in entry}
    if missing := [key for key in _NUMBERS[:3] if key not in values]:
        raise FormatError(f"{place}: {', '.join(missing)} missing")
    source = entry.get("source")
    if source not in (HERE, NEAREST):
        raise FormatError(f"{place} source: {HERE!r} or {NEAREST!r} expected, found {source!r}")
    shares = {name: _number(count, f"{place} uses.{name}") for name, count in uses.items()}
    cycles = entry.get("measured_cycles")
    latencies = entry.get("measured_latency", {})
    if not isinstance(latencies, dict):
        raise FormatError(f"{place} measured_latency: operand = [least, most] expected, found {latencies!r}")
    return MeasuredForm(
        Row(**values, uses=MappingProxyType(shares)),
        source,
        None if cycles is None else _interval(cycles, f"{place} measured_cycles"),
        MappingProxyType({key: _interval(pair, f"{place} measured_latency {key}") for key, pair in latencies.items()}),
    )


def _number(value: Any, place: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise FormatError(f"{place}: a number of 0 or more expected, found {value!r}")
    return float(value)


def _interval(value: Any, place: str) -> Interval:
    if not isinstance(value, list) or len(value) != 2:
        raise FormatError(f"{place}: [least, most] expected, found {value!r}")
    low, high = (_number(one, place) for one in value)
    if low > high:
        raise FormatError(f"{place}: [least, most] expected, found {value!r}")
    return low, high


def write_forms(forms: Mapping[str, MeasuredForm]) -> list[str]:
    """Return the lines of ``[forms]``."""
    return ["", "[forms]", *(f'"{name}" = {_written(form)}' for name, form in sorted(forms.items()))]


def _written(form: MeasuredForm) -> str:
    row = form.row
    parts = [f"{key} = {value!r}" for key in _NUMBERS if (value := getattr(row, key)) is not None]
    parts.append("uses = { " + ", ".join(f'"{name}" = {n!r}' for name, n in (row.uses or {}).items()) + " }")
    if form.cycles is not None:
        parts.append(f"measured_cycles = [{form.cycles[0]!r}, {form.cycles[1]!r}]")
    if form.latencies:
        pairs = ", ".join(f"{key} = [{low!r}, {high!r}]" for key, (low, high) in form.latencies.items())
        parts.append(f"measured_latency = {{ {pairs} }}")
    return "{ " + ", ".join([*parts, f'source = "{form.source}"']) + " }"


def form_layers(forms: Mapping[str, MeasuredForm], title: str, nearest: str) -> tuple[Layer, ...]:
    """Return a core file's own forms as layers of an instruction table: the measured ones, then the others."""
    layers = []
    for name, source, words in (("measured", HERE, title), ("llvm", NEAREST, nearest)):
        rows = {form: found.row for form, found in forms.items() if found.source == source}
        layers.append(Layer(name, MappingProxyType(rows), words))
    return tuple(layers)
