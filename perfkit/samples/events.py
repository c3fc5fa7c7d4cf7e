"""Names of hardware events: what a dump calls them, and what they are called without the dump's decoration."""

import re
import unicodedata
from collections.abc import Iterable

from perfkit.errors import listed

# Events that count elapsed time and completed work, most specific first. perf, LIKWID, PAPI, VTune and Nsight Compute
# name them differently; `normalise` has taken case, PMU and modifiers off before the comparison.
TIME_EVENTS = (
    "cycles",
    "cpu-cycles",
    "cpu_clk_unhalted.thread",
    "cpu_clk_unhalted_core",
    "cpu_clk_unhalted.core",
    "cpu_clk_unhalted",
    "cpu_clk_unhalted_thread",
    "cpu_clk_unhalted.thread_any",
    "cpu_cycles",
    "cpu_clocks_unhalted",
    "ls_not_halted_cyc",
    "papi_tot_cyc",
    "cycles_not_in_halt",
    "actual_cpu_clock",
    "core_active_cycle",
    "fixed_cycles",
    "smsp__cycles_active.sum",
    "smsp__cycles_elapsed.sum",
    "sm__cycles_active.sum",
    "sm__cycles_elapsed.sum",
    "sm__cycles_elapsed.max",
    "seconds",
)
WORK_EVENTS = (
    "instructions",
    "inst_retired.any",
    "instr_retired_any",
    "inst_retired_any",
    "inst_retired",
    "retired_instructions",
    "ex_ret_instr",
    "retired_inst",
    "papi_tot_ins",
    "inst_all",
    "fixed_instructions",
    "smsp__inst_executed.sum",
)

# perf's own names that scripts write with underscores, as columns of their tables.
_OTHER_NAMES = {
    name.replace("-", "_"): name
    for name in (
        "branch-misses", "branch-instructions", "cache-misses", "cache-references", "page-faults", "context-switches",
        "cpu-migrations", "stalled-cycles-frontend", "stalled-cycles-backend", "l1-dcache-loads",
        "l1-dcache-load-misses", "l1-icache-load-misses", "llc-loads", "llc-load-misses", "dtlb-loads",
        "dtlb-load-misses", "itlb-load-misses", "branch-load-misses",
    )
}  # fmt: skip
# As spreadsheets in English, German, Spanish, Portuguese, Italian, Polish, Russian and Chinese head their columns.
_TRANSLATIONS = {
    **dict.fromkeys(("cpu cycles", "clock cycles", "cpu clock cycles", "clockticks"), "cycles"),
    **dict.fromkeys(("instructions retired", "retired instructions", "instructions_retired"), "instructions"),
    **dict.fromkeys(("zyklen", "takte", "taktzyklen", "ciclos", "cicli", "cykle", "такты", "周期"), "cycles"),
    **dict.fromkeys(
        ("befehle", "instruktionen", "instrucciones", "instruções", "istruzioni", "instrukcje", "инструкции", "指令"),
        "instructions",
    ),
}

_PMU = re.compile(r"^(?P<pmu>[a-z][a-z0-9_]*)/(?P<event>[^/]+)/(?P<modifiers>[a-zA-Z]*)$")
_CORE_UNITS = ("cpu_", "armv8_", "armv9_", "apple_", "(")  # PMUs that count one kind of core, and names of cores
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])?")
_CONTROLS = ("Cc", "Cf", "Cs", "Zl", "Zp")
_CORE = re.compile(r" \((?:Cortex|Neoverse|ARM)[^)]*\)$", re.IGNORECASE)  # as Streamline names them
_SUM = re.compile(r":sum$", re.IGNORECASE)  # over threads, as tables of PAPI's counters say
_EVENT_WORD = re.compile(
    r"(?<![a-z])(?:misses|miss|branches|branch|loads|stores|faults|stalls|retired|uops|instructions|hits|references|"
    r"switches|migrations|accesses)(?![a-z])"
)
_NO_EVENT = re.compile(r"^(?:n|num|number|nr|no|tsc|mtime|default)[ _.-]")
_MODIFIERS = re.compile(r":(?P<modifiers>[ukhHGpPSDWeb]+)$")


def normalise(event: str) -> str:
    """Return an event's name without PMU, modifiers and case: ``cpu_core/cycles/u`` gives ``cycles``.

    perf's generic events have their hyphens, also where a table writes underscores: ``branch_misses``.
    """
    name = event.strip()
    match = _PMU.match(name)
    if match:
        name = match["event"]
        if name.startswith("event=") and "name=" not in name:
            return event.strip().lower()  # a raw encoding has no other name
    name = _MODIFIERS.sub("", _SUM.sub("", _CORE.sub("", name))).lower()
    return _OTHER_NAMES.get(name) or _TRANSLATIONS.get(name, name)


def is_translated(event: str) -> bool:
    """Whether a name is a word of some language for cycles or instructions (``Zyklen``): what a table calls so."""
    return event.strip().lower() in _TRANSLATIONS


def sounds_like_event(name: str) -> bool:
    """Whether a name has a word that is typical of events, not of clocks or addresses."""
    known = normalise(name)
    return _EVENT_WORD.search(known) is not None and _NO_EVENT.match(known) is None


def counter_unit(event: str) -> str:
    """Return what an event is counted by, where there are several: its PMU (``cpu_core``) or the core in its name."""
    match, core = _PMU.match(event.strip()), _CORE.search(event)
    return match["pmu"] if match else core[0].strip() if core else ""


def core_unit(event: str) -> str:
    """Return the kind of core that an event was counted on, where its name tells one (``cpu_core``)."""
    unit = counter_unit(event)
    return unit if unit.startswith(_CORE_UNITS) else ""


def other_core(event: str, axis: str) -> bool:
    """Whether an event was counted on another kind of core than ``axis`` (time or work) was, by both names."""
    here, there = counter_unit(event), counter_unit(axis)
    return here != there and all(u.startswith(_CORE_UNITS) for u in (here, there))


def per_unit(counted: str, unit: str) -> str:
    """Return the words for one event per one of another; cycles, instructions and seconds have a singular.

    Examples
    --------
    >>> per_unit("instructions", "cycles"), per_unit("uops", "cycles:u"), per_unit("page-faults", "seconds")
    ('instructions per cycle', 'uops per cycles:u', 'page-faults per second')
    """
    one = unit[:-1] if unit in ("cycles", "cpu-cycles", "instructions", "seconds") else unit
    return f"{counted} per {one}"


def modes(event: str) -> str:
    """Return the modes an event counts by its modifiers: ``"u"`` (user), ``"k"`` (kernel) or ``"ku"``, both."""
    name = event.strip()
    match = _PMU.match(name)
    if match and not match["modifiers"]:
        match = _MODIFIERS.search(match["event"])  # cpu_core/cycles:u/, as some versions print it
    match = match or _MODIFIERS.search(name)
    said = "" if match is None else match["modifiers"]
    return "".join(m for m in "ku" if m in said) or "ku"


def as_perf_types(events: Iterable[str], time_event: str) -> str:
    """Return what to write after perf's ``-e`` to count events together with time: each once, in its mode and PMU.

    The kernel refuses perf's top-down metrics (``topdown-retiring``) outside a group that ``slots`` leads.

    Examples
    --------
    >>> as_perf_types(["cycles", "topdown-retiring", "branches"], "cycles:u")
    '{slots:u,topdown-retiring:u},cycles:u,branches:u'
    >>> as_perf_types(["cycles", "llc-load-misses"], "cpu_core/cycles/")
    'cpu_core/cycles/,cpu_core/LLC-load-misses/'
    """
    unit, mode = core_unit(time_event), "" if modes(time_event) == "ku" else modes(time_event)
    around = f"{unit}/{{}}/{mode}" if unit and not unit.startswith("(") else "{}" + f":{mode}" * bool(mode)
    names = list(dict.fromkeys(normalise(event) for event in events))
    metrics = [name for name in names if name.startswith("topdown-")]
    group = ",".join(around.format(name) for name in ["slots", *metrics])
    alone = [around.format(spelt(name)) for name in names if name not in (*metrics, "slots" if metrics else "")]
    return ",".join([f"{{{group}}}", *alone] if metrics else alone)


def spelt(name: str) -> str:
    """Return a name with the capitals that perf insists on.

    Examples
    --------
    >>> spelt("llc-load-misses"), spelt("l1-dcache-loads"), spelt("dtlb-loads"), spelt("cycles")
    ('LLC-load-misses', 'L1-dcache-loads', 'dTLB-loads', 'cycles')
    """
    known = {"llc-": "LLC-", "l1-": "L1-", "dtlb-": "dTLB-", "itlb-": "iTLB-"}
    return next((new + name.removeprefix(old) for old, new in known.items() if name.startswith(old)), name)


_SOFTWARE = (
    "task-clock", "cpu-clock", "context-switches", "cs", "cpu-migrations", "migrations", "page-faults", "faults",
    "minor-faults", "major-faults", "alignment-faults", "emulation-faults", "duration_time", "user_time", "system_time",
)  # fmt: skip


def mode_cautions(time_event: str, work_event: str, events: Iterable[str]) -> list[str]:
    """Return a sentence for each way in which events count other modes (user, kernel) than time and work do."""
    axes = [e for e in (time_event, work_event) if e != "seconds"]
    words = {"u": "user mode only", "k": "kernel mode only", "ku": "user and kernel mode"}
    of_axes = list(dict.fromkeys(modes(e) for e in axes))
    if len(of_axes) > 1:
        both = f"{axes[0]} counts {words[of_axes[0]]}, {axes[1]} {words[of_axes[1]]}"
        return [f"{both}: work per time and all rates mix modes. Count both in one, as in -e cycles:u,instructions:u"]
    if not of_axes:
        return []
    mine, told = of_axes[0], []
    names = list(events)
    same_as_axes = {normalise(e) for e in axes}
    # What the kernel counts itself has no mode, and what was counted in this mode, too, needs no advice.
    no_advice = {*_SOFTWARE, *(normalise(e) for e in names if modes(e) == mine)}
    for other in ("ku", "u", "k"):
        apart = [e for e in names if modes(e) == other != mine and normalise(e) not in same_as_axes | no_advice]
        if apart:
            told.append(
                f"{listed(apart, 4)} {'count' if len(apart) > 1 else 'counts'} {words[other]}, {listed(axes)} "
                f"{words[mine]}: rates mix modes. Count all in one mode, such as "
                f"{normalise(apart[0])}{'' if mine == 'ku' else f':{mine}'}"
            )
    twins = [e for e in names if normalise(e) in same_as_axes and modes(e) != mine]
    if {normalise(e) for e in twins} == same_as_axes:
        told.append(
            f"{per_unit(work_event, time_event)} is of {words[mine]}: {listed(twins)} were counted too, and "
            "are not part of it"
        )
    return told


def printable(name: str) -> str:
    """Return a name without control characters (escape sequences for a terminal, line ends, direction marks)."""
    if name.isascii() and name.isprintable():
        return name
    bare = _ESCAPES.sub("", name)
    return "".join(
        " " if c in "\t\r\n" else c for c in bare if c in "\t\r\n" or unicodedata.category(c) not in _CONTROLS
    )
