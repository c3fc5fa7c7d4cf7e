"""The parameters of the extended roofline's core, taken from a core file and its instruction table."""

from __future__ import annotations

import math

from perfkit.dag.program import WORD
from perfkit.errors import UnavailableError, expect
from perfkit.machine.core import Microarchitecture
from perfkit.machine.forms import InstructionForm
from perfkit.machine.instruction_tables import InstructionTables

# Of the multiplication the AVX form: LLVM's models of Zen 3 and 4 give the older one the ports of additions, but both
# together begin more than two per cycle (2.7 flops per cycle of Horner's rule, measured on a Zen 4).
_OPERATIONS = {
    "A": "ADDSD_XMM_XMMM64", "M": "VEX_VMULSD_XMM_XMM_XMMM64", "D": "DIVSD_XMM_XMMM64", "I": "ADD_R64_RM64",
}  # fmt: skip
_FUSED = "VEX_VFMADD231SD_XMM_XMM_XMMM64"
_VECTOR_WORK = "PADDD_XMM_XMMM128"  # any work on vector registers but additions and multiplications
_LOAD, _STORE, _BRANCH = "MOV_R64_RM64/m", "MOV_RM64_R64/m", "JNE_REL8_64"
_VECTOR_LOAD, _VECTOR_STORE = "MOVSD_XMM_XMMM64/m", "MOVSD_XMMM64_XMM/m"
_STREAMS = 16  # that prefetchers follow at a time: Intel's and AMD's manuals name 16 to 32
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
    "latency_forward": "store_forward_latency",
    "latency_forward_FP": "vector_store_forward_latency",
    "latency_blocked": "blocked_store_forward_latency",
    "misprediction_penalty": "misprediction_penalty",
    "vector_rs": "vector_scheduler",
    "vector_queue": "vector_queue",
    "set_fill": "L1_set_fill",
    "loop_turns": "taken_branches",
    "code_reads": "op_cache",
    "throughput_L2": "L2_bandwidth",
    "throughput_L3": "L3_bandwidth",
    "throughput_mem": "memory_bandwidth",
}
Figures = dict[str, tuple[float | None, str]]
# Figures that only this model reads, of cores (by LLVM's name) whose files do not give them.
_HOST = "measured on a Zen 5 guest, 2026-11-27"
_SETS = f"{_HOST} (python -m tests.benchmarks.dag_host --sets)"
_SUSTAINED = (
    "measured on a Zen 5 guest, 2026-11-28 (pk.Block): two, three, four operations in a row 3.8, 4.2, 4.4 per cycle, "
    "chains 3.8 to 5.3, loops 2.7 to 4.3; only single ones reach the table's six"
)
_INTEGER_SCHEDULER = (
    "AMD, Software Optimization Guide for the AMD Zen5 Microarchitecture: 88 entries for integer work; those of memory "
    "operations (56) and of vector stores (38) hold what takes no entry here"
)
_STORE_DATA = (
    "measured on a Zen 5 guest, 2026-11-28: loops of 24 additions take 4.88 cycles, with four stores of integer "
    "registers 5.5 to 5.9, of vector registers 4.88; a chain of additions with stores waits as one with an AND each"
)
_REGISTERS = (
    "measured on a Zen 4 guest, 2026-11-29: so many additions, loads, or loads that add fit between two misses that "
    "overlap (149 or 150 by turns with each other); zero idioms 318"
)
_OWN: dict[str, Figures] = {
    "znver4": {"vector_registers": (150.0, _REGISTERS)},
    "znver5": {
        "set_fill_written": (45.0, f"{_SETS}: loads and stores of lines a page apart, 46 per line, in two sets 52"),
        "set_fill_stored": (27.0, f"{_SETS}: stores alone, lines a page apart"),
        "store_refill": (12.0, f"{_SETS}: stores alone, lines in four and in eight sets, 12.3 per line"),
        "store_lines": (8.0, f"{_HOST}: stores to 4 and 8 lines by turns take 0.51 cycles, to 16 to 64 lines 1.03"),
        "throughput_I": (4.0, _SUSTAINED),
        "rs": (88.0, _INTEGER_SCHEDULER),
        "store_data": (1.0, _STORE_DATA),
    },
}
_SMALLER = ("throughput_I", "rs")  # than its table and file say


def read_core(core: Microarchitecture) -> Figures:
    """Return parameter -> (value, source), as `DagCore.from_microarchitecture` describes."""
    how = "load one with perfkit.Microarchitecture.load, or use perfkit.DagCore.load, which takes a core's name"
    expect(hasattr(core, "isa"), core, "DagCore.from_microarchitecture", "a Microarchitecture", how)
    if core.isa != "x86-64":
        raise UnavailableError(
            f"{core.name} ({core.isa}) has no table of x86-64 instructions to take floating-point latencies and "
            "throughputs from; make a DagCore of your own: DagCore(latency_A=..., throughput_A=..., ...)"
        )
    found = {**_resources(core), **_caches(core), **_instructions(core), **_beyond_the_paper(core)}
    own = _OWN.get(core.llvm_cpu, {})
    return found | {name: figure for name, figure in own.items() if name in _SMALLER or not found[name][0]}


def _resources(core: Microarchitecture) -> Figures:
    found: Figures = {"latency_forward_FP": (None, "not in the core file: the latency of L1")}
    one = core.sources.get("erm", "not in the core file: one reservation station for all operations")
    found |= {"vector_rs": (0.0, one), "vector_queue": (0.0, one)}
    found["vector_registers"] = (0.0, core.sources.get("erm", "not known: as many as the reorder buffer holds"))
    found["set_fill"] = (0.0, core.sources.get("erm", "not in the core file: lines come into a set as fast as into L1"))
    stored = core.sources.get("erm", "not known apart: twice set_fill, whatever the set")
    found |= {"set_fill_stored": (0.0, stored), "store_refill": (0.0, stored)}
    found["loop_turns"] = (0.0, core.sources.get("erm", "not in the core file: as fast as what it executes"))
    found["code_reads"] = (0.0, core.sources.get("erm", "not in the core file: as fast as fetch"))
    for name, resource in _RESOURCES.items():
        if resource in core.resources:
            figure = core.resource(resource)
            value = figure.value / WORD if name.startswith("throughput") else round(figure.value)
            found[name] = (value, _words(core, figure.source, figure.note))
    if own := found.get("vector_rs"):
        both, source = found["rs"]
        found["rs"] = ((both or 0) - (own[0] or 0), f"{source}; less the {own[0]:g} of the vector scheduler")
    if "erm" in core.sources or "L1_vector_latency" not in core.resources:
        return found | {"integer_loads_earlier": (0.0, "one latency for all loads")}
    # The core file's latencies are those of integer loads; loads of vector registers, scalar doubles too, take longer.
    figure = core.resource("L1_vector_latency")
    longer = round(figure.value) - round(core.resource("L1_latency").value)
    words = _words(core, figure.source, figure.note)
    if longer < 0:  # the engine knows loads of integers that come earlier, none that come later
        words = f"all loads take as long as those of integers: {-longer} cycles less for vector registers not modelled"
        return found | {"integer_loads_earlier": (0.0, words)}
    for name in ("latency_L1", "latency_L2", "latency_L3", "latency_mem"):
        if name in found:
            latency, source = found[name]
            found[name] = ((latency or 0) + longer, f"{source}; and {longer} cycles for vector registers: {words}")
    return found | {"integer_loads_earlier": (float(longer), words)}


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
    fused = tables.form(_FUSED)
    nothing = "none: the core has no fused multiply-add, a multiplication and an addition take its place"
    found: Figures = {"latency_F": (None, nothing), "throughput_F": (None, nothing)}
    if fused.source != "class default":
        forms["F"] = fused
    for kind, form in forms.items():
        source = f"{form.name} in the {form.source} table"
        found[f"latency_{kind}"] = (round(form.latency), source)
        found[f"throughput_{kind}"] = (1 / form.inverse_throughput(core), source)
    if earlier := _forwarding(core):
        latency, source = found["latency_A"]
        found["latency_A"] = (round((latency or 0) - earlier), f"{source}, less {earlier:g} to another addition")
    found |= _ports(core, tables)
    return found | _shared_ports(core, forms)


def _ports(core: Microarchitecture, tables: InstructionTables) -> Figures:
    """Return how many accesses and branches may issue in a cycle."""
    load, store, branch = (tables.form(name) for name in (_LOAD, _STORE, _BRANCH))
    paper = "erm" in core.sources
    forms = {"load_ports": load, "store_ports": store, "branch_ports": branch}
    forms |= {"vector_load_ports": tables.form(_VECTOR_LOAD), "vector_store_ports": tables.form(_VECTOR_STORE)}
    found: Figures = {
        name: (float(math.floor(1 / form.inverse_throughput(core) + 1e-9)), f"{form.name} in the {form.source} table")
        for name, form in forms.items()
    }
    for name in ("load_ports", "store_ports"):
        if found[f"vector_{name}"][0] == found[name][0]:
            found[f"vector_{name}"] = (0.0, f"as {name}: {found[name][1]}")
    both = [core.resource(group).value for group in load.uses.keys() & store.uses.keys()]
    if both:
        found["agus"] = (max(both), f"ports that {load.name} and {store.name} share in the {load.source} table")
    # Table I counts loads and stores alike; on a real core each has its ports.
    apart = sum(found[name][0] or 0 for name in ("load_ports", "store_ports"))
    separate = (apart, f"loads and stores have ports of their own: {load.name} and {store.name}")
    found["throughput_L1"] = found["load_ports"] if paper else found.get("agus", separate)
    return found


def _shared_ports(core: Microarchitecture, forms: dict[str, InstructionForm]) -> Figures:
    """Return how many additions and multiplications may begin in a cycle, where they or vector work share ports."""
    groups = [_narrowest(core, forms[kind]) for kind in "AM"]
    units = {unit for group in groups for unit in core.resource(group).units}
    begun = sum(1 / forms[kind].inverse_throughput(core) for kind in "AM")
    source = f"ports of {groups[0]} and {groups[1]} in the {forms['A'].source} table"
    vector = core.resource(_narrowest(core, InstructionTables.load(core).form(_VECTOR_WORK))).units
    if len(units) < begun or units >= set(vector):
        return {"fp_ports": (float(len(units)), source)}
    return {"fp_ports": (0.0, f"no limit of its own: {source}")}


def _forwarding(core: Microarchitecture) -> float:
    """Return how many cycles earlier an addition's result reaches another addition (chains of sums are common)."""
    figure = core.features.get("add_forwarding")
    return float(figure.value) if figure else 0.0


def _beyond_the_paper(core: Microarchitecture) -> Figures:
    """Return what the paper's model does not have: on for real cores, off for its own machine."""
    figure = core.features.get("next_line_prefetch")
    fetches = bool(figure and figure.value)
    paper = "erm" in core.sources
    note = core.sources["erm"] if paper else "every out-of-order core merges accesses to a line that is under way"
    streams = (
        "the core file has no prefetcher" if not fetches else f"estimate: {_STREAMS} streams, as manuals name 16 to 32"
    )
    return {
        **(dict.fromkeys(("misprediction_penalty", "latency_blocked"), (0.0, core.sources["erm"])) if paper else {}),
        "prefetch_streams": (float(_STREAMS if fetches else 0), streams),
        "inflight_merging": (float(not paper), note),
        "ways_L1": (0.0, core.sources["erm"]) if paper else _ways(core),
        "set_fill_written": _feature(core, "L1_set_fill_written"),
        "store_lines": _feature(core, "store_pairing"),
        "store_data": _feature(core, "store_data"),
        "line_splits": _feature(core, "line_split_penalty"),
        # Cores that rename only loads with the same address expression are taken to forward: a DAG has no expressions.
        "memory_renaming": (
            float(str(core.feature("memory_renaming", "none")).startswith("learned")),
            _feature(core, "memory_renaming")[1],
        ),
        "whole_lines": (float(not paper), core.sources["erm"] if paper else "caches exchange whole lines"),
        "ordered_loads": (
            float(paper),
            core.sources["erm"] if paper else "loads go ahead of order, checked afterwards",
        ),
    }


def _ways(core: Microarchitecture) -> tuple[float, str]:
    """Return the ways of L1."""
    figure = core.caches[0].figures["ways"]
    return float(core.caches[0].ways), _words(core, figure.source, figure.note)


def _feature(core: Microarchitecture, name: str) -> tuple[float, str]:
    """Return a feature that counts something, and its source; 0 where the core file does not give it."""
    figure = core.features.get(name)
    if figure is None or "erm" in core.sources:
        return 0.0, core.sources.get("erm", "not in the core file")
    return (float(figure.value) if not isinstance(figure.value, str) else 0.0), _words(core, figure.source, figure.note)


def _narrowest(core: Microarchitecture, form: InstructionForm) -> str:
    """Return the port group that limits a form."""
    return max(form.uses, key=lambda group: form.uses[group] * core.resource(group).inverse_throughput)
