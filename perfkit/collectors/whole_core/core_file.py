"""Make a core of what was measured on this machine, and of the nearest known core where nothing was."""

import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType

from perfkit.collectors.host.resources import EXTRAS
from perfkit.collectors.whole_core.groups import Group, own_uses, ports_name, shares, translation
from perfkit.collectors.whole_core.whole import CoreMeasurement, table_rows
from perfkit.machine.core import Figure, Microarchitecture, Resource
from perfkit.machine.layers import Row
from perfkit.machine.measured_forms import HERE, NEAREST, MeasuredForm
from perfkit.machine.port_mapping.families import closure
from perfkit.trace.x86 import class_of, is_vector, memory_access

SOURCE = "here"
_DIGITS = 4


def measured_core(found: CoreMeasurement, name: str = "host") -> Microarchitecture:
    """Return the core that `perfkit.collectors.whole_core.whole.measure_core` measured.

    What could not be measured comes from the nearest known core, and says so; where that is not this processor's own
    core, features and buffers that were not measured are left out.
    """
    base = Microarchitecture.load(found.nearest.core)
    rows = table_rows(found.nearest.core)
    measured = {form: mapped.uses for form, mapped in found.ports.mapped.items()}
    towards = translation(base, rows, measured)
    forms = _forms(found, base, rows, towards)
    every = closure(group for _, _, uses in forms.values() for group in uses)
    written = {
        form: MeasuredForm(
            replace(row, uses=MappingProxyType(shares(uses, every))),
            kind,
            _interval(found, form) if kind == HERE else None,
            _latency_intervals(found, form) if kind == HERE else MappingProxyType({}),
        )
        for form, (row, kind, uses) in forms.items()
    }
    return Microarchitecture(
        name=name,
        title=f"{found.host['processor']} (measured{', its ports not to be trusted' if found.doubt else ''})",
        vendor=base.vendor,
        isa=base.isa,
        llvm_cpu=base.llvm_cpu,
        table=base.table,
        aliases=(),
        sources=MappingProxyType({"model": base.sources["model"], **_sources(found, base)}),
        frequency=Figure(round(1e-9 / found.cycle_seconds, 3), SOURCE, "GHz", "while it was measured"),
        resources=MappingProxyType(_resources(found, base) | _ports(every)),
        caches=tuple(
            replace(
                level,
                figures=MappingProxyType(
                    {key: replace(one, source=NEAREST, note="") for key, one in level.figures.items()}
                ),
            )
            for level in base.caches
        ),
        features=MappingProxyType(_features(found, base, towards, {ports_name(one) for one in every})),
        forms=MappingProxyType(written),
    )


def _forms(
    found: CoreMeasurement, base: Microarchitecture, rows: Mapping[str, Row], towards: Mapping[Group, Group]
) -> dict[str, tuple[Row, str, Mapping[Group, float]]]:
    """Return of each form its row, whether that was measured here or on the nearest core, and its uses of ports."""
    forms: dict[str, tuple[Row, str, Mapping[Group, float]]] = {}
    for form, row in rows.items():
        own = _own_uses(form, found, rows)
        if own is None:
            forms[form] = (row, NEAREST, own_uses(row.uses or {}, base, towards))
        else:
            forms[form] = (_costs(form, row, found), HERE, own)
    return forms


def _sources(found: CoreMeasurement, base: Microarchitecture) -> dict[str, str]:
    host = f"{found.host['processor']}, family {found.host['family']} model {found.host['model']}"
    doubt = f"; {found.doubt}" if found.doubt else ""
    return {
        SOURCE: f"measured on {host}, with perfkit calibrate --full, {time.strftime('%Y-%m-%d')}{doubt}",
        "cpuid": "what the processor reports of its caches",
        NEAREST: f"not measured here: as {base.title} ({base.name})",
    }


def _ports(every: Iterable[Group]) -> dict[str, Resource]:
    """Return the groups of ports as resources, the smallest first."""
    return {
        ports_name(group): Resource(
            ports_name(group),
            "ports",
            float(len(group)),
            "uops/cycle",
            SOURCE if all(port.startswith("P") for port in group) else NEAREST,
            units=tuple(sorted(group)),
        )
        for group in sorted(every, key=lambda one: (len(one), ports_name(one)))
    }


def _resources(found: CoreMeasurement, base: Microarchitecture) -> dict[str, Resource]:
    kept: dict[str, Resource] = {}
    for name, known in base.resources.items():
        if known.kind == "ports":
            continue
        value = found.resources.get(name)
        if value is not None and name not in EXTRAS and not (known.kind == "buffer" and found.nearest.exact):
            kept[name] = replace(known, value=_tidy(value), source=SOURCE, note=f"{known.value:g} of {base.name}")
        elif known.source == "model":
            kept[name] = known
        elif found.nearest.exact or name in ("rob", "L1_latency", "memory_latency", "store_forward_latency", "retire"):
            kept[name] = replace(known, source=NEAREST, note="")
    return kept


def _features(
    found: CoreMeasurement, base: Microarchitecture, towards: Mapping[Group, Group], groups: Iterable[str]
) -> dict[str, Figure]:
    """Return the nearest core's features, where it is this processor's; port groups by their names here."""
    if not found.nearest.exact:
        return {}
    kept = {}
    for name, figure in base.features.items():
        value = figure.value
        if name in ("fused_branch_ports", "retag_ports"):
            units = frozenset(base.resource(str(value)).units)
            value = ports_name(towards.get(units, units))
            if value not in groups:
                continue
        kept[name] = replace(figure, value=value, source=NEAREST, note="")
    if "retag_ports" not in kept:
        kept.pop("retag_uses", None)
    return kept


def _own_uses(form: str, found: CoreMeasurement, rows: Mapping[str, Row]) -> dict[Group, float] | None:
    """Return the uses of a form that was measured; None of another.

    An operation on memory has those of the operation on registers and of a load of that width: where that does not
    give its measured throughput, the load alone is tried (a broadcast), and then all are scaled to it.
    """
    mapped = found.ports.mapped.get(form)
    alone = found.alone.get(form)
    if mapped is not None:
        return _named(mapped.uses, form, found)
    twin = _twin(form, rows) if "/m" not in form else None
    if twin is not None and twin in found.ports.mapped and alone is not None:
        return _scaled(_named(found.ports.mapped[twin].uses, form, found), alone.value, found)
    register = form.split("/")[0]
    if form == f"{register}/m" and alone is not None and memory_access(form) == (True, False):
        operation = _own_uses(register, found, rows)
        load = found.ports.mapped.get(_load_of(form))
        if operation is None or load is None:
            return None
        plain = _named(load.uses, form, found)
        both = {group: operation.get(group, 0) + plain.get(group, 0) for group in {*operation, *plain}}
        near = min((both, plain), key=lambda uses: abs(_cycles(uses, found) - alone.value) > 0.06 * alone.value)
        return _scaled(near, alone.value, found)
    return None


def _twin(form: str, rows: Mapping[str, Row]) -> str | None:
    """Return the AVX form of the same operation as an SSE form."""
    parts = re.fullmatch(r"(?!VEX_|EVEX_)(\w+?)_XMM_(\w+)", form)
    if parts is None:
        return None
    name, rest = parts.groups()
    return next((f for f in (f"VEX_V{name}_XMM_XMM_{rest}", f"VEX_V{name}_XMM_{rest}") if f in rows), None)


def _load_of(form: str) -> str:
    for width, load in (("ZMM", "EVEX_VMOVUPS_ZMM_K1Z_ZMMM512/m"), ("YMM", "VEX_VMOVUPS_YMM_YMMM256/m")):
        if width in form:
            return load
    return "VEX_VMOVUPS_XMM_XMMM128/m" if "XMM" in form else "MOV_R64_RM64/m"


def _named(uses: Mapping[frozenset[int], float], form: str, found: CoreMeasurement) -> dict[Group, float]:
    """Return uses with the ports' names; a port that no basis form uses is one of the form's class, vector or not."""
    unknown = found.ports.model.unknown
    own = f"P:{class_of(form)}{' vector' if is_vector(form) and 'vector' not in class_of(form) else ''}"
    return {frozenset(own if port == unknown else f"P{port}" for port in ports): count for ports, count in uses.items()}


def _cycles(uses: Mapping[Group, float], found: CoreMeasurement) -> float:
    unknown = found.ports.model.unknown
    ports = [
        (frozenset(int(port[1:]) if port[1:].isdigit() else unknown for port in group), count)
        for group, count in uses.items()
    ]
    return found.ports.model.cycles([(1.0, dict(ports), 1.0)])


def _scaled(uses: dict[Group, float], cycles: float, found: CoreMeasurement) -> dict[Group, float]:
    """Return uses that take the measured cycles, where they are more than 6 % off and not the front end's."""
    told = _cycles(uses, found)
    if not uses or abs(told - cycles) <= 0.06 * cycles:
        return uses
    return {group: count * cycles / told for group, count in uses.items()}


def _costs(form: str, row: Row, found: CoreMeasurement) -> Row:
    """Return a row with the measured latency: of several operands the longest, rounded where it is nearly whole."""
    register = form.split("/")[0]
    plain = "/m" in form and class_of(form) == "move"
    known = found.latencies.get(register, {})
    latency = row.latency
    if known and not plain:
        latency = _tidy(max(figure.value for figure in known.values()))
        if latency < 0.5:
            latency = 0.0
    loads, _ = memory_access(form)
    memory = None if not loads else 0.0 if plain else latency
    alone = found.alone.get(form)
    front = found.ports.model.front
    slots = row.fused_uops or 1.0
    if alone is not None and alone.value < 1.05:
        slots = min(slots, max(1.0, alone.value * front * 1.05 // 1))
    return replace(row, latency=latency, memory_latency=memory, fused_uops=slots)


def _tidy(value: float) -> float:
    whole = round(value)
    return float(whole) if whole and abs(value - whole) <= min(0.04 * whole, 0.1) else float(f"{value:.{_DIGITS}g}")


def _interval(found: CoreMeasurement, form: str) -> tuple[float, float] | None:
    figure = found.alone.get(form)
    return None if figure is None else (round(figure.low, 3), round(figure.high, 3))


def _latency_intervals(found: CoreMeasurement, form: str) -> Mapping[str, tuple[float, float]]:
    known = found.latencies.get(form, {})
    return MappingProxyType({str(k): (round(one.low, 3), round(one.high, 3)) for k, one in known.items()})
