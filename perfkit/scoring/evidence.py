"""What events, roofs and causes stand for: the one place where a judgement enters the scores.

Written down before any score was computed, from what each event counts; it is an argument of the scoring functions, so
that others can use another one.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from perfkit.machine.classes import classes_of
from perfkit.machine.core import Microarchitecture

_FORWARD = ("store_forward_latency", "vector_store_forward_latency", "blocked_store_forward_latency")
_MEMORY = ("memory_latency", "memory_bandwidth")

# Event of the simulated PMU -> the resources that an analyst would suspect on seeing it first in a ranking. Port
# groups are added by name. Nothing counts instruction latency itself, a chain of dependences; idle cycles hint at it.
RESOURCES_OF_EVENTS: dict[str, tuple[str, ...]] = {
    "uops": ("front_end", "retire"),
    "branches": (),
    "branch-misses": ("misprediction_penalty",),
    "mem-loads": ("load_buffer", "L1_latency", "L1_vector_latency"),
    "mem-stores": ("store_buffer",),
    "mem-splits": ("L1_bandwidth",),
    "store-forwards": _FORWARD,
    "l1.accesses": ("L1_bandwidth", "L1_latency", "L1_vector_latency"),
    "l1.misses": ("line_fill_buffers", "L2_latency", "L2_bandwidth"),
    "l2.hits": ("L2_latency", "L2_bandwidth"),
    "l2.misses": ("L3_latency", "L3_bandwidth", *_MEMORY),
    "l2.prefetches": ("L3_bandwidth", "memory_bandwidth"),
    "l3.hits": ("L3_latency", "L3_bandwidth"),
    "l3.misses": _MEMORY,
    "l3.prefetch-misses": ("memory_bandwidth",),
    "stall.front_end": ("front_end",),
    "stall.misprediction": ("misprediction_penalty",),
    "stall.rob": ("rob",),
    "stall.load_buffer": ("load_buffer",),
    "stall.store_buffer": ("store_buffer",),
    "stall.line_fill_buffers": ("line_fill_buffers",),
    "stall.scheduler": ("vector_scheduler", "vector_store_scheduler", "vector_queue"),
    "stall.second_tlb": ("second_tlb_latency",),
    "stall.page_walk": ("page_walk_latency",),
    # Events of whole cycles and of buffers came later; they too were written down before any score with them.
    "branches.taken": ("taken_branches",),
    "branch-misses.indirect": ("misprediction_penalty",),
    "store-forwards.blocked": ("blocked_store_forward_latency",),
    "tlb.misses": ("second_tlb_latency",),
    "tlb.walks": ("page_walk_latency",),
    "tlb.walk-cycles": ("page_walk_latency",),
    "occupancy.rob": ("rob",),
    "occupancy.scheduler": ("instruction_latency",),
    "occupancy.load_buffer": ("load_buffer",),
    "occupancy.store_buffer": ("store_buffer",),
    "occupancy.misses": ("line_fill_buffers",),
    "full.rob": ("rob",),
    "full.load_buffer": ("load_buffer",),
    "full.store_buffer": ("store_buffer",),
    "full.scheduler": ("vector_scheduler", "vector_store_scheduler", "vector_queue"),
    "full.line_fill_buffers": ("line_fill_buffers",),
    "exec.0": ("instruction_latency",),
    "exec.1": ("instruction_latency",),
    "exec.2": (),
    "exec.3+": ("front_end", "retire"),
    "retired.0": (),
    "retired.1": (),
    "retired.2": (),
    "retired.3+": ("front_end", "retire"),
    "pending.l1": ("L2_latency", "L2_bandwidth"),
    "pending.l2": ("L3_latency", "L3_bandwidth"),
    "pending.l3": ("memory_latency",),
    "pending.l3.4+": ("memory_bandwidth",),
    "exec.0.pending.l1": ("L2_latency", "L2_bandwidth"),
    "exec.0.pending.l2": ("L3_latency", "L3_bandwidth"),
    "exec.0.pending.l3": ("memory_latency",),
}

# Component of a CPI stack -> the causes of the exact account that it is made of, and the events that stand for it in a
# regression. Everything else is the base. Full buffers have no event: nothing counts what filled them.
COMPONENTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "misprediction": (("misprediction_penalty",), ("branch-misses",)),
    "store forwarding": (("store_forward_latency",), ("store-forwards",)),
    "L2": (("L2_latency", "L2_bandwidth"), ("l2.hits",)),
    "L3": (("L3_latency", "L3_bandwidth"), ("l3.hits",)),
    "memory": (_MEMORY, ("l3.misses", "l3.prefetch-misses")),
    "full buffers": (("rob", "load_buffer", "store_buffer", "line_fill_buffers"), ()),
}

_BUFFERS = {
    "RS": "scheduler",
    "ROB": "rob",
    "LB": "load_buffer",
    "SB": "store_buffer",
    "LFB": "line_fill_buffers",
}
_LEVELS = {"L1": "L1", "L2": "L2", "L3": "L3", "mem": "memory"}
_COMPUTE = ("ADDSD_XMM_XMMM64", "MULSD_XMM_XMMM64", "DIVSD_XMM_XMMM64")
_ACCESS = ("MOVSD_XMM_XMMM64/m", "MOVSD_XMMM64_XMM/m")


@dataclass(frozen=True)
class Evidence:
    """The resources of a core that each event or roof corresponds to.

    Attributes
    ----------
    events : mapping of str to tuple of str
        Event -> resources; an event that is not listed belongs to none.
    compute_ports, access_ports : tuple of str
        The port groups that floating-point operations, and loads and stores, go through.
    dividers, integer_ports : tuple of str
        Those that divisions and integer work go through (roofs that the paper does not have).
    """

    events: Mapping[str, tuple[str, ...]]
    compute_ports: tuple[str, ...] = ()
    access_ports: tuple[str, ...] = ()
    dividers: tuple[str, ...] = ()
    integer_ports: tuple[str, ...] = ()

    @classmethod
    def of(cls, core: Microarchitecture) -> "Evidence":
        """Return the evidence as written down for this core."""
        from perfkit.machine.instruction_tables import InstructionTables

        tables = InstructionTables.load(core)
        ports = {f"uops.{group}": (group,) for group in core.ports}
        groups = [tuple(dict.fromkeys(g for name in names for g in tables.form(name).uses if g in core.resources))
                  for names in (_COMPUTE, _ACCESS)]  # fmt: skip
        classes = classes_of(core)
        beyond = (classes.get(name, ()) for name in ("dividers", "integer units"))
        return cls({**RESOURCES_OF_EVENTS, **ports}, *groups, *beyond)

    def right_events(self, events: Iterable[str], bottlenecks: Collection[str]) -> set[str]:
        """Return the events that belong to any of the bottlenecks."""
        return {e for e in events if set(self.events.get(e, ())) & set(bottlenecks)}

    def gains(self, events: Iterable[str], speedup: Mapping[str, float]) -> dict[str, float]:
        """Return what the resources of each of some events would give: the largest `speedup`, 0 where it has none."""
        return {e: max((float(speedup.get(r, 0.0)) for r in self.events.get(e, ())), default=0.0) for e in events}

    def of_roof(self, kind: str, of: tuple[str, ...], buffer: str) -> tuple[str, ...]:
        """Return the resources that a roof of the extended roofline corresponds to; an overlap names no single one.

        `kind`, `of` and `buffer` are those of `perfkit.Roof`.
        """
        if kind == "overlap":
            return ()
        if kind == "stall":
            return (_BUFFERS[buffer],)
        (part,) = of
        if part in ("D", "I"):
            return self.dividers if part == "D" else self.integer_ports
        if part == "comp":
            return ("instruction_latency",) if kind == "latency" else self.compute_ports
        level = _LEVELS[part]
        if kind == "latency":
            return ("L1_latency", "L1_vector_latency") if part == "L1" else (f"{level}_latency",)
        return (f"{level}_bandwidth", *self.access_ports) if part == "L1" else (f"{level}_bandwidth",)


def area(resources: Iterable[str]) -> str:
    """Return the top-down area (first level) of the first of these resources; ``back_end`` is whatever is left."""
    for resource in resources:
        return {"front_end": "front_end", "misprediction_penalty": "bad_speculation"}.get(resource, "back_end")
    return ""
