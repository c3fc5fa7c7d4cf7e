"""What to measure next: a ready ``perf stat`` line with the events that a dump lacks, for its processor."""

from collections.abc import Iterable, Sequence

from perfkit.fitters.bottlenecks.names import maker, published
from perfkit.samples.clocks import is_fixed_rate
from perfkit.samples.events import as_perf_types, normalise, other_core
from perfkit.samples.processors import processor_of
from perfkit.samples.table import Samples

_GENERIC = ("branch-misses", "L1-dcache-load-misses", "LLC-load-misses", "dTLB-load-misses", "iTLB-load-misses")
# The events of one level of top-down analysis and of the misses that make up a CPI stack, by family of processors.
_TOPDOWN: dict[str, tuple[str, ...]] = {
    "intel-topdown": ("slots", "topdown-retiring", "topdown-bad-spec", "topdown-fe-bound", "topdown-be-bound"),
    "intel-hybrid": ("slots", "topdown-retiring", "topdown-bad-spec", "topdown-fe-bound", "topdown-be-bound"),
    "intel": (
        "uops_issued.any", "uops_retired.retire_slots", "idq_uops_not_delivered.core", "int_misc.recovery_cycles",
    ),
    "amd-slots": ("ex_ret_ops", "de_src_op_disp.all", "de_no_dispatch_per_slot.no_ops_from_frontend"),
    "arm-slots": ("stall_slot_frontend", "stall_slot_backend", "op_retired", "op_spec"),
}  # fmt: skip
_NO_COUNTERS = (
    "the machine has no counters (a virtual machine), or perf may not use them (/proc/sys/kernel/perf_event_paranoid). "
    "Without counters: perfkit why -- ./program, perfkit asm, or valgrind --tool=cachegrind"
)
_BY_LISTS = ("intel", "intel-topdown", "intel-before")  # whose names differ from generation to generation
_SLOTS, _LARGER = "topdown.slots", "cpu_core"  # the event by which lists show slots; the PMU of a hybrid's large cores
_GPU = ("sm__", "smsp__", "gpc__", "gpu__", "l1tex__", "lts__", "dram__")  # Nsight Compute's
_MISSES: dict[str, tuple[str, ...]] = {
    "intel": ("branch-misses", "mem_load_retired.l1_miss", "mem_load_retired.l2_miss", "mem_load_retired.l3_miss"),
    "intel-before": (
        "branch-misses",
        "mem_load_uops_retired.l1_miss",
        "mem_load_uops_retired.l2_miss",
        "mem_load_uops_retired.l3_miss",
    ),
    "intel-oldest": _GENERIC,  # a Sandy Bridge and an Ivy Bridge have no two of these in common
    # The kernel's own names: those of AMD's fills differ from Zen to Zen, and perf stops at one that is not there.
    "amd": ("branch-misses", "L1-dcache-load-misses", "cache-misses", "dTLB-load-misses", "iTLB-load-misses"),
    "arm": ("branch-misses", "l1d_cache_refill", "l2d_cache_refill", "ll_cache_miss_rd", "l1i_cache_refill"),
}


def wanted(samples: Samples, what: str) -> list[str]:
    """Return the events of ``what`` (topdown or misses) for this processor; none where the dump has all of them."""
    family, _ = processor_of(samples)
    table = _TOPDOWN if what == "topdown" else _MISSES
    events = table.get(family, table.get(family.partition("-")[0], () if what == "topdown" else _GENERIC))
    if family in _BY_LISTS:
        choices = (events, *(table[name] for name in _BY_LISTS if name in table), *([_GENERIC] * (what == "misses")))
        events = next((each for each in choices if _all_listed(each, samples.events)), events)
    have = {normalise(e) for e in samples.table["event"].cat.categories}
    return [] if all(normalise(e) in have for e in events) else list(events)


def _all_listed(events: Sequence[str], counted: Iterable[str]) -> bool:
    """Return whether every processor has these events that may have made a dump, by the published lists."""
    names = {normalise(each) for each in counted}
    of = [published()[name] for name in names if maker(name) == "Intel" and name in published()]
    mine = frozenset.intersection(*of) if of else frozenset()
    asked = {_SLOTS if each == "slots" else each for each in events}
    return all(mine <= published().get(each, frozenset()) for each in asked if maker(each))


def perf_line(events: list[str], program: str = "./program", interval: int = 100, unit: str = "") -> str:
    """Return the command that counts these events in intervals, in a group that is not multiplexed where it fits.

    ``unit`` is the PMU that counts top-down metrics, which the kernel refuses outside a group that slots lead.
    """
    listed = ",".join(["cycles", "instructions", *events])
    if "slots" in events:
        listed = as_perf_types(["cycles", "instructions", *events], f"{unit}/cycles/" if unit else "cycles")
    return f"perf stat -I {interval} -x, -o dump.csv -e '{listed}' -- {program}"


def advice(samples: Samples) -> list[str]:
    """Return ready commands, each with what it would tell; "" of events are those that the dump has already."""
    if any(e.startswith(_GPU) for e in samples.table["event"].cat.categories):
        return [f"more of this kernel's counters: ncu --csv --page raw --set full {_program(samples)}"]
    if samples.table["count"].isna().all():
        return [f"nothing was counted: {_NO_COUNTERS}"]
    out = []
    top, misses = wanted(samples, "topdown"), wanted(samples, "misses")
    program = _program(samples)
    if top:
        unit = _LARGER if processor_of(samples)[0] == "intel-hybrid" else ""
        out.append(f"for top-down analysis (where the issue slots go): {perf_line(top, program, unit=unit)}")
    if misses or samples.n_intervals < 50:
        events = misses or samples.events[:4]
        out.append(f"for a CPI stack (what each kind of miss costs): {perf_line(events, program)}")
    here = [e for e in samples.events if not is_fixed_rate(e) and not other_core(e, samples.work_event)]
    running = samples.table.loc[samples.table["event"].isin(here), "running"].mean()  # not of other kinds of core
    if running < 0.9 and len(here) > 1:
        few = here[: min(4, len(here) // 2)]
        told = f"so that none is scaled up, {len(few)} of {len(here)} here and the others in further runs"
        out.append(f"fewer events at a time, {told}: {perf_line(few, program)}")
    if not out:
        out.append(
            "the same events for 3 to 5 other programs, to train SPIRE on this machine: "
            "perfkit spire train 'runs/*.csv' -o mine.spire"
        )
    return out


def _program(samples: Samples) -> str:
    commands = [c for c in samples.runs["command"] if c and not c.startswith(("process id", "system wide", "CPU"))]
    return commands[0] if commands and len(set(commands)) == 1 and len(commands[0]) < 80 else "./program"
