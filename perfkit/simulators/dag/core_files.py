"""The parameters of the extended roofline's core, taken from a core file and its instruction table."""

from __future__ import annotations

import math

from perfkit.errors import UnavailableError
from perfkit.machine.core import Microarchitecture
from perfkit.machine.forms import InstructionForm
from perfkit.machine.instruction_tables import InstructionTables

_WORD = 8  # bandwidths are in doubles a cycle, as in the paper
_OPERATIONS = {"A": "ADDSD_XMM_XMMM64", "M": "MULSD_XMM_XMMM64", "D": "DIVSD_XMM_XMMM64"}
_LOAD, _STORE = "MOVSD_XMM_XMMM64/m", "MOVSD_XMMM64_XMM/m"
_RESOURCES = {
    "fetch": "front_end",
    "rob": "rob",
    "rs": "scheduler",
    "lb": "load_buffer",
    "sb": "store_buffer",
    "lfb": "line_fill_buffers",
    "latency_L1": "L1_latency",
    "latency_L2": "L2_latency",
    "latency_L3": "L3_latency",
    "latency_mem": "memory_latency",
    "throughput_L2": "L2_bandwidth",
    "throughput_L3": "L3_bandwidth",
    "throughput_mem": "memory_bandwidth",
}
Figures = dict[str, tuple[float, str]]


def read_core(core: Microarchitecture) -> Figures:
    """Return parameter -> (value, source), as `DagCore.from_microarchitecture` describes."""
    if core.isa != "x86-64":
        raise UnavailableError(
            f"{core.name} ({core.isa}) has no table of x86-64 instructions to take floating-point latencies and "
            "throughputs from; make a DagCore of your own: DagCore(latency_A=..., throughput_A=..., ...)"
        )
    return {**_resources(core), **_caches(core), **_instructions(core)}


def _resources(core: Microarchitecture) -> Figures:
    found: Figures = {}
    for name, resource in _RESOURCES.items():
        if resource in core.resources:
            figure = core.resource(resource)
            value = figure.value / _WORD if name.startswith("throughput") else round(figure.value)
            found[name] = (value, _words(core, figure.source, figure.note))
    return found


def _caches(core: Microarchitecture) -> Figures:
    found: Figures = {}
    for level in core.caches:
        for name, key in ((f"size_{level.name}", "size"), ("line", "line")):
            figure = level.figures[key]
            found[name] = (getattr(level, key), _words(core, figure.source, figure.note))
    return found


def _words(core: Microarchitecture, source: str, note: str) -> str:
    return "; ".join(filter(None, (core.sources.get(source, source), note)))


def _instructions(core: Microarchitecture) -> Figures:
    """Return the parameters that follow from the core's instruction table."""
    tables = InstructionTables.load(core)
    forms = {kind: tables.form(name) for kind, name in _OPERATIONS.items()}
    load, store = tables.form(_LOAD), tables.form(_STORE)
    found: Figures = {}
    shared = _narrowest(core, forms["A"]) == _narrowest(core, forms["M"])
    for kind, form in forms.items():
        source = f"{form.name} in the {form.source} table"
        found[f"latency_{kind}"] = (round(form.latency), source)
        halved = shared and kind != "D"
        note = "; its ports are shared with the other of add and multiply, each gets half" if halved else ""
        found[f"throughput_{kind}"] = ((0.5 if halved else 1.0) / form.inverse_throughput(core), source + note)
    for form, names in ((load, ("throughput_L1", "load_ports")), (store, ("store_ports",))):
        figure = (float(math.floor(1 / form.inverse_throughput(core))), f"{form.name} in the {form.source} table")
        found |= dict.fromkeys(names, figure)
    both = [core.resource(group).value for group in load.uses.keys() & store.uses.keys()]
    if both:
        found["agus"] = (max(both), f"ports that {load.name} and {store.name} share in the {load.source} table")
    return found


def _narrowest(core: Microarchitecture, form: InstructionForm) -> str:
    """Return the port group that limits a form."""
    return max(form.uses, key=lambda group: form.uses[group] * core.resource(group).inverse_throughput)
