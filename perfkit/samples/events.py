"""Names of hardware events: what a dump calls them, and what they are called without the dump's decoration."""

import difflib
import re
import unicodedata
from collections.abc import Iterable

# Events that count elapsed time and completed work, most specific first. perf, LIKWID, PAPI, VTune and Nsight Compute
# name them differently; `normalise` has taken case, PMU and modifiers off before the comparison.
TIME_EVENTS = (
    "cycles",
    "cpu-cycles",
    "cpu_clk_unhalted.thread",
    "cpu_clk_unhalted_core",
    "cpu_clk_unhalted.core",
    "cpu_clk_unhalted.thread_any",
    "cpu_cycles",
    "cpu_clocks_unhalted",
    "ls_not_halted_cyc",
    "papi_tot_cyc",
    "cycles_not_in_halt",
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
    "inst_retired",
    "retired_instructions",
    "ex_ret_instr",
    "retired_inst",
    "papi_tot_ins",
    "smsp__inst_executed.sum",
)

_PMU = re.compile(r"^(?P<pmu>[a-z][a-z0-9_]*)/(?P<event>[^/]+)/(?P<modifiers>[a-zA-Z]*)$")
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])?")
_CONTROLS = ("Cc", "Cf", "Cs", "Zl", "Zp")
_MODIFIERS = re.compile(r":[ukhHGpPSDWeb]+$")


def normalise(event: str) -> str:
    """Return an event's name without PMU, modifiers and case: ``cpu_core/cycles/u`` gives ``cycles``."""
    name = event.strip()
    match = _PMU.match(name)
    if match:
        name = match["event"]
        if name.startswith("event=") and "name=" not in name:
            return event.strip().lower()  # a raw encoding has no other name
    return _MODIFIERS.sub("", name).lower()


def printable(name: str) -> str:
    """Return a name without control characters (escape sequences for a terminal, line ends, direction marks)."""
    if name.isascii() and name.isprintable():
        return name
    bare = _ESCAPES.sub("", name)
    return "".join(
        " " if c in "\t\r\n" else c for c in bare if c in "\t\r\n" or unicodedata.category(c) not in _CONTROLS
    )


def closest(name: str, known: Iterable[str], n: int = 3) -> list[str]:
    """Return up to ``n`` known names that look most like ``name``, for an error message."""
    return difflib.get_close_matches(name, [str(k) for k in known], n=n, cutoff=0.4)
