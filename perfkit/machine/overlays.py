"""Figures of instructions in a file of their own: a user's overrides, and what a calibration of this host measured."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from perfkit.base.files import a_path, replaced, toml_of
from perfkit.errors import FormatError
from perfkit.machine.layers import Layer, Row

if TYPE_CHECKING:
    from perfkit.machine.core import Microarchitecture

_NUMBERS = ("fused_uops", "unfused_uops", "latency", "address_latency", "memory_latency", "inverse_throughput")


def read_overlay(path: str | Path, layer: str, core: Microarchitecture) -> Layer:
    """Read a table of overrides or a calibration (TOML): ``[forms."FORM"] latency = 3, uses = {p01 = 1}, ...``."""
    what = "a calibration" if layer == "calibration" else "a table of figures"
    return overlay(toml_of(path, f"{what} (TOML)"), layer, core, str(path))


def overlay(data: Mapping[str, Any], layer: str, core: Microarchitecture, where: str) -> Layer:
    """Check a table of figures against a core and return it as a layer; `where` names it in errors."""
    for key in data:
        if key not in ("schema", "core", "title", "host", "measured", "forms", "resources", "spreads"):
            raise FormatError(
                f"{where}: unknown key {key!r}; known: schema, core, title, host, measured, forms, resources, spreads"
            )
    if data.get("core", core.name) != core.name:
        raise FormatError(
            f"{where}: made for the core {data['core']}, not for {core.name}; choose that core, or make another with "
            f"perfkit calibrate --core {core.name} -o FILE"
        )
    if layer != "calibration" and "resources" in data:
        raise FormatError(f"{where}: [resources] belongs to a calibration; overrides hold [forms] only")
    _overlay_resources(data.get("resources", {}), core, where)
    _overlay_spreads(data.get("spreads", {}), data.get("resources", {}), where)
    rows = {}
    for form, entry in data.get("forms", {}).items():
        rows[form] = _overlay_row(entry, core, f'{where}: [forms."{form}"]')
    if layer == "calibration" and "core" not in data:
        raise FormatError(f'{where}: core = "NAME" is missing: a calibration says which core it was made for')
    return Layer(layer, MappingProxyType(rows), str(data.get("title", where)))


def _overlay_resources(table: Any, core: Microarchitecture, where: str) -> None:
    if not isinstance(table, Mapping):
        raise FormatError(f"{where}: [resources] name = number expected, found {table!r}")
    for name, value in table.items():
        if name not in core.resources:
            raise FormatError(f"{where}: [resources] {name}: {core.name} has no such resource")
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
            raise FormatError(f"{where}: [resources] {name}: a number above 0 expected, found {value!r}")


def _overlay_spreads(table: Any, resources: Mapping[str, Any], where: str) -> None:
    """Check that each spread is of a measured resource, and around it."""
    if not isinstance(table, Mapping):
        raise FormatError(f"{where}: [spreads] name = [least, most] expected, found {table!r}")
    for name, ends in table.items():
        numbers = isinstance(ends, list) and len(ends) == 2 and all(isinstance(v, int | float) for v in ends)
        if name not in resources or not numbers or not ends[0] <= resources[name] <= ends[1]:
            raise FormatError(
                f"{where}: [spreads] {name}: [least, most] around the figure in [resources] expected, found {ends!r}"
            )


def _overlay_row(entry: Any, core: Microarchitecture, place: str) -> Row:
    if not isinstance(entry, Mapping):
        raise FormatError(f"{place}: a table expected, found {entry!r}")
    for key in entry:
        if key not in (*_NUMBERS, "operand_latency", "uses", "source"):
            known = (*_NUMBERS, "operand_latency", "uses", "source")
            raise FormatError(f"{place}: unknown key {key!r}; known: {', '.join(known)}")
    numbers = {key: entry[key] for key in _NUMBERS if key in entry}
    uses = entry.get("uses")
    if uses is not None:
        for name in uses:
            if name not in core.ports:
                raise FormatError(f"{place}: {core.name} has no ports {name!r}; it has: {', '.join(core.ports)}")
        numbers |= {f"uses.{name}": count for name, count in uses.items()}
    for key, value in numbers.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
            raise FormatError(f"{place} {key}: a number of 0 or more expected, found {value!r}")
    given = {key: float(value) for key, value in numbers.items() if not key.startswith("uses.")}
    shares = None if uses is None else MappingProxyType({name: float(count) for name, count in uses.items()})
    by_operand = _by_operand(entry, place) if "operand_latency" in entry else None
    return Row(**given, uses=shares, source=str(entry.get("source", "")), operand_latency=by_operand)


_OPERANDS = ("base", "index", "flags", "0", "1", "2", "3")


def _by_operand(entry: Mapping[str, Any], place: str) -> Mapping[str, float]:
    """Check the cycles from single operands to the result: beside the form's latency, one other figure."""
    table = entry["operand_latency"]
    if not isinstance(table, Mapping):
        raise FormatError(f"{place} operand_latency: {{ OPERAND = cycles, ... }} expected, found {table!r}")
    for operand, value in table.items():
        if operand not in _OPERANDS:
            raise FormatError(
                f"{place} operand_latency: an operand ({', '.join(_OPERANDS)}) expected, found {operand!r}"
            )
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
            raise FormatError(f"{place} operand_latency {operand}: a number of 0 or more expected, found {value!r}")
    if "latency" not in entry:
        raise FormatError(f"{place}: operand_latency stands beside latency, which is what all other operands take")
    if len({float(value) for value in (entry["latency"], *table.values())}) > 2:
        raise FormatError(
            f"{place} operand_latency: one figure beside the latency {entry['latency']!r} expected, "
            f"found {dict(table)!r}"
        )
    return MappingProxyType({operand: float(value) for operand, value in table.items()})


def calibrated_core(core: Microarchitecture, calibration: str | Path) -> Microarchitecture:
    """Return the core with the resources that a calibration of this host measured (its ``[resources]`` table).

    Examples
    --------
    >>> core = pk.calibrated_core(pk.Microarchitecture.load("host"), "mine.toml")  # doctest: +SKIP
    """
    path = a_path(calibration, "a calibration")
    read_overlay(path, "calibration", core)  # for its checks
    data = toml_of(path, "a calibration (TOML)")
    for name, value in data.get("resources", {}).items():
        core = core.replaced(name, float(value), str(data.get("title", path.name)))
    return core


def measured_bandwidths(calibration: str | Path, core: Microarchitecture) -> dict[str, tuple[float, float, float]]:
    """Return the bandwidths that a calibration measured, in bytes per cycle, by level (L1, L2, L3, mem).

    Of each the median, the least and the most of several measurements; where the file has no spread, the median thrice.
    `core` is the one it was made for (`calibrated_for`).

    Raises
    ------
    FormatError
        It is no calibration, or has no bandwidths (``perfkit calibrate --no-memory``).
    """
    path = a_path(calibration, "a calibration")
    read_overlay(path, "calibration", core)  # for its checks
    data = toml_of(path, "a calibration (TOML)")
    found = {}
    for level, name in (("L1", "L1"), ("L2", "L2"), ("L3", "L3"), ("mem", "memory")):
        if (value := data.get("resources", {}).get(f"{name}_bandwidth")) is not None:
            least, most = data.get("spreads", {}).get(f"{name}_bandwidth", (value, value))
            found[level] = (float(value), float(least), float(most))
    if not found:
        raise FormatError(f"{path}: no bandwidths: make it with perfkit calibrate -o FILE, without --no-memory")
    return found


def calibrated_for(calibration: str | Path) -> str:
    """Return the name of the core that a calibration was made for; "host" where it names none."""
    return str(toml_of(calibration, "a calibration (TOML)").get("core", "host"))


def write_overlay(
    path: str | Path,
    core: str,
    title: str,
    forms: Mapping[str, Mapping[str, float]],
    header: Iterable[str] = (),
    resources: Mapping[str, float] | None = None,
    spreads: Mapping[str, tuple[float, float]] | None = None,
) -> None:
    """Write figures as an overlay file that `InstructionTables.load` reads; `header` lines become comments.

    `resources` are the core's own figures (bandwidths, latencies of the memory levels): `calibrated_core` uses them.
    `spreads` are the least and the most of some of them: `measured_bandwidths`.
    """
    lines = [f"# {line}" for line in header]
    lines += ["schema = 1", f'core = "{core}"', f'title = "{title}"', ""]
    if resources:
        lines += ["[resources]", *(f"{name} = {value:g}" for name, value in resources.items()), ""]
    if spreads:
        lines += ["[spreads]", *(f"{name} = [{low:g}, {high:g}]" for name, (low, high) in spreads.items()), ""]
    for form in sorted(forms):
        lines.append(f'[forms."{form}"]')
        lines += [f"{key} = {value:g}" for key, value in forms[form].items()]
        lines.append("")
    with replaced(path) as temporary:
        temporary.write_text("\n".join(lines), encoding="utf-8")
