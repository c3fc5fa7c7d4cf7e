"""Read the user's own copy of uops.info's ``instructions.xml`` as a layer of an instruction table.

uops.info (Abel and Reineke, ASPLOS 2019) measures latency, throughput and ports of every instruction form on many
cores. perfkit ships none of its data; a copy that the user points at is read as a stream (the file has some 150 MB).
Structure: ``extension/instruction[@asm]/operand`` and
``instruction/architecture[@name]/measurement[@uops, @ports, @TP_unrolled, ...]/latency[@start_op, @target_op, @cycles,
@cycles_addr, @cycles_mem]``.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from perfkit.errors import FormatError, MissingFileError, SettingError, listed
from perfkit.machine.layers import Layer, Row
from perfkit.trace.x86 import code_names, is_vector, memory_access, signature

if TYPE_CHECKING:
    from perfkit.machine.core import Microarchitecture


def read_uops_info(path: str | Path, core: Microarchitecture) -> Layer:
    """Read what ``instructions.xml`` says about one core, every form that perfkit can name.

    Raises
    ------
    SettingError
        The file is missing, or uops.info does not cover the core.
    FormatError
        The file is not uops.info's, or is cut short.
    """
    path = Path(path)
    if not path.is_file():
        raise MissingFileError(f"{path}: no such file; uops.info offers its instructions.xml for download")
    wanted = core.uops_info
    if not wanted:
        covered = [name for name in core.names() if core.load(name).uops_info]
        raise SettingError(
            f"uops.info has no measurements of {core.name} (its core file names none: uops_info = [...]); it covers: "
            f"{', '.join(covered)}"
        )
    forms = _forms_by_signature()
    rows: dict[str, Row] = {}
    seen = 0
    try:
        for _, element in ET.iterparse(path):  # noqa: S314 - the user's own file; expat limits entity expansion
            if element.tag == "instruction":
                seen += 1
                measurement = _measurement(element, wanted)
                if measurement is not None:
                    for form in forms.get(_signature_of(element), ()):
                        rows[form] = _row(measurement, form, core)
            if element.tag in ("instruction", "extension"):
                element.clear()
    except ET.ParseError as error:
        raise FormatError(f"{path}: not uops.info's instructions.xml, or cut short: {error}") from error
    if not rows:
        raise FormatError(
            f"{path}: no measurement of {listed(wanted, last='or')} among its {seen} instructions; "
            "expected uops.info's instructions.xml"
        )
    return Layer("uops.info", MappingProxyType(rows), f"uops.info, {path.name}, {wanted[0]}")


def _measurement(instruction: ET.Element, wanted: tuple[str, ...]) -> ET.Element | None:
    by_name = {node.get("name"): node.find("measurement") for node in instruction.findall("architecture")}
    return next((by_name[name] for name in wanted if by_name.get(name) is not None), None)


def _signature_of(instruction: ET.Element) -> tuple[str, ...]:
    words = re.sub(r"\{[^}]*\}", "", instruction.get("asm", "")).split()
    prefixes = [word.lower() for word in words[:-1]]
    found = [words[-1].upper() if words else ""]
    masked = broadcast = False
    for operand in instruction.findall("operand"):
        if operand.get("suppressed") == "1":
            continue
        text = (operand.text or "").split(",")[0]
        if operand.get("opmask") == "1" or (operand.get("name") == "REG1" and instruction.get("mask") == "1"):
            masked = True
            continue
        kind = operand.get("type")
        if kind == "reg":
            found.append(_register_class(text, operand.get("width", "")))
        elif kind in ("mem", "agen"):
            found.append(f"m{operand.get('width', '0')}" if kind == "mem" else "m0")
        elif kind in ("imm", "relbr"):
            found.append("i")
    broadcast = instruction.get("bcast", "") not in ("", "0")
    if instruction.get("evex") == "1":
        found.append("evex")
    zero = instruction.get("zeroing") == "1"
    marks = [("b", broadcast), ("k", masked and not zero), ("z", masked and zero)]
    found += [mark for mark, holds in marks if holds]
    found += [word for word in ("lock", "rep") if word in prefixes or (word == "rep" and "repe" in prefixes)]
    return tuple(found)


def _register_class(text: str, width: str) -> str:
    for stem in ("XMM", "YMM", "ZMM", "MM"):
        if text.startswith(stem):
            return stem.lower()
    if re.fullmatch(r"K\d", text):
        return "k"
    if text.startswith("ST"):
        return "st"
    return f"r{width}"


@cache
def _forms_by_signature() -> dict[tuple[str, ...], tuple[str, ...]]:
    found: dict[tuple[str, ...], list[str]] = {}
    for name in code_names().values():
        if name.startswith(("INVALID", "DECLARE", "ZERO_BYTES", "MVEX", "D3NOW")):
            continue
        for suffix in ("", "/m", "/m/b"):
            if suffix and "M" not in name:
                continue
            for mask in ("", "/k", "/z") if name.startswith("EVEX") else ("",):
                form = name + suffix + mask
                found.setdefault(signature(form), []).append(form)
    return {key: tuple(forms) for key, forms in found.items()}


def _number(element: ET.Element, *names: str) -> float | None:
    for name in names:
        try:
            return float(element.attrib[name])
        except (KeyError, ValueError):  # absent, or not a number ("2 or 3"): the next name, or nothing said
            continue
    return None


def _row(measurement: ET.Element, form: str, core: Microarchitecture) -> Row:
    registers, addresses, memories = [], [], []
    for latency in measurement.findall("latency"):
        cycles = _number(latency, "cycles", "max_cycles")
        address, memory = _number(latency, "cycles_addr"), _number(latency, "cycles_mem")
        registers += [cycles] if cycles is not None else []
        addresses += [address] if address is not None else []
        memories += [memory] if memory is not None else []
    loads, stores = memory_access(form)
    level = "L1_vector_latency" if is_vector(form) and "L1_vector_latency" in core.resources else "L1_latency"
    after_load = max(max(addresses) - core.value(level), 0.0) if addresses and loads else None
    throughputs = [_number(measurement, name) for name in ("TP", "TP_unrolled", "TP_loop")]
    known = [value for value in throughputs if value is not None]
    ports = _uses(measurement.get("ports", ""), core)
    return Row(
        fused_uops=_number(measurement, "uops_retire_slots", "uops_retire_slots_unrolled"),
        unfused_uops=_number(measurement, "uops"),
        latency=0.0 if stores and not loads else max(registers, default=None),
        memory_latency=after_load,
        inverse_throughput=min(known) if known and ports is None else None,
        uses=ports,
        source="uops.info",
    )


def _uses(ports: str, core: Microarchitecture) -> Mapping[str, float] | None:
    """Return "1*p01+1*p23" as uses of the core's port groups; None where it names ports the core file lacks."""
    groups = core.ports
    everything = {unit for group in groups.values() for unit in group.units}
    found = dict.fromkeys(groups, 0.0)
    for term in ports.replace(" ", "").split("+"):
        match = re.fullmatch(r"(\d+)\*p([0-9A-F]+)", term)
        if match is None:
            return None
        units = {f"p{digit}" for digit in match[2]}
        if not units <= everything:
            return None
        for name, group in groups.items():
            if units <= set(group.units):
                found[name] += float(match[1])
    return MappingProxyType({name: count for name, count in found.items() if count})
