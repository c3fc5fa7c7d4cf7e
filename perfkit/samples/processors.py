"""Which processor counts are of, and what perf's generic names count there."""

import json
import re
from collections.abc import Iterable

from perfkit.samples.events import normalise
from perfkit.samples.table import Samples

# Intel's processors whose counters tell the first level of top-down themselves: since Ice Lake, Xeons of the third
# generation (x3xx) on, but not Cooper Lake's (x3xxH).
_COUNTS_SLOTS = re.compile(
    r"ice ?lake|tiger ?lake|rocket ?lake|sapphire|emerald|granite|1[1-4]th gen intel|xeon.* (?:6\d{3}[pe]|max 9\d{3}|"
    r"w\d-[23]4\d\d|e-23\d\d|bronze 34\d\d)|i\d-10\d\dg\d|"
    r"xeon.*(?:platinum|gold|silver) [3-9][345]\d\d(?!h)"
)
_HYBRID = re.compile(
    r"alder ?lake|raptor ?lake|meteor ?lake|arrow ?lake|core\(tm\) (?:ultra|[3579] \d{3})|"
    r"1[234]th gen intel\(r\) core"
)
# Skylake's names of events do not hold for what came before it.
_BEFORE_SKYLAKE = re.compile(
    r"sandy|ivy ?bridge|haswell|broadwell|e[357]-\d{4}[a-z]?\b(?! ?v[56])|core\(tm\) i\d-[2-5]\d{3}[a-z]*"
)
_BEFORE_HASWELL = re.compile(r"sandy|ivy ?bridge|e[357]-\d{4}[a-z]?\b(?! ?v[3-6])|core\(tm\) i\d-[23]\d{3}[a-z]*\b")
# Those of AMD's and Arm's that count empty slots of dispatch: since Zen 4, and since Neoverse V1 and N2.
_AMD_SLOTS = re.compile(r"zen ?[45]|genoa|bergamo|turin|epyc(?:\(tm\))? 9\d{3}|ryzen .*\b(?:[89]\d{3}|7\d[^23]\d)")
_ARM_SLOTS = re.compile(r"neoverse[ -]?(?:v\d|n[2-9])|cortex[ -]?(?:x\d|a7[18]\d*|a7[2-9]\d)|graviton ?[34]|grace")
# IBM's mainframes count CPU_CYCLES, too, as Arm does.
_IBM_Z = ("l1i_dir_writes", "l1d_dir_writes", "l1i_penalty_cycles", "l1d_penalty_cycles", "problem_state_")
# What the kernel counts as cache-misses on processors whose generic event is none of the last level.
_CACHE_MISSES = {"amd": "L2", "arm": "L1D"}


def processor_of(samples: Samples) -> tuple[str, str]:
    """Return a processor's family and what it is, in words.

    Families are intel, intel-before (Skylake), intel-oldest (before Haswell), intel-hybrid, intel-topdown, amd,
    amd-slots, arm, arm-slots, or "".
    """
    said = " ".join(samples.runs["parameters"]).lower() + " " + " ".join(samples.runs["host"]).lower()
    names = [str(e).lower() for e in samples.table["event"].cat.categories]
    named = _named(samples)
    starts = {
        "intel-hybrid": ("cpu_core/", "cpu_atom/"),
        "amd": ("ex_ret_", "ls_", "de_", "bp_l1", "ic_", "retired_inst", "cycles_not_in_halt", "l2_cache_req_stat"),
        "arm": ("armv8", "armv9", "stall_slot", "inst_retired", "l1d_cache_refill", "cpu_cycles", "ll_cache"),
        "intel-topdown": ("topdown-retiring", "slots", "topdown.slots"),
        "intel": (
            "cpu_clk_unhalted",
            "inst_retired.",
            "uops_",
            "mem_load_",
            "br_misp_retired",
            "idq_",
            "cycle_activity",
        ),
    }
    words = {"intel": "intel", "amd": "amd", "arm": "cortex", "neoverse": "arm", "epyc": "amd", "ryzen": "amd"}
    for word, family in words.items():
        if word in named.lower() or (word in ("epyc", "ryzen", "neoverse") and word in said):
            return _generation(word if word in ("intel", "amd", "arm") else family, named.lower()), named or family
    if any(n.startswith(_IBM_Z) for n in names):
        return "", "IBM z, by the names of its events" + (f" ({named})" if named else "")
    for family, prefixes in starts.items():
        if any(n.startswith(prefixes) and not (family == "arm" and n.startswith("inst_retired.")) for n in names):
            vendor = {"amd": "AMD", "arm": "Arm"}.get(family, "Intel")
            if any(n.startswith(("de_no_dispatch_per_slot", "stall_slot")) for n in names):
                family = f"{family}-slots"
            return family, f"{vendor}, by the names of its events" + (f" ({named})" if named else "")
    return "", named or "not named in the dump"


def _generation(family: str, named: str) -> str:
    """Return the family of a processor's events: they differ by what counts the slots of issue or dispatch."""
    if family in ("amd", "arm"):
        return f"{family}-slots" if (_AMD_SLOTS if family == "amd" else _ARM_SLOTS).search(named) else family
    if family != "intel":
        return family
    if _BEFORE_SKYLAKE.search(named):
        return "intel-oldest" if _BEFORE_HASWELL.search(named) else "intel-before"
    return "intel-hybrid" if _HYBRID.search(named) else "intel-topdown" if _COUNTS_SLOTS.search(named) else family


def _named(samples: Samples) -> str:
    for text in samples.runs["parameters"]:
        try:
            told = json.loads(text)
        except ValueError:
            continue
        for key in ("cpu", "cpu_info"):
            if isinstance(told, dict) and isinstance(told.get(key), str) and told[key]:
                return str(told[key])
    return ""


def misses_level(event: str, family: str) -> str:
    """Return the cache whose misses perf's ``cache-misses`` are on a family of processors; "" for the last level."""
    return _CACHE_MISSES.get(family.partition("-")[0], "") if normalise(event) == "cache-misses" else ""


def generic_misses(samples: Samples, events: Iterable[str]) -> list[str]:
    """Return a sentence for each of these events whose name says the last level's misses, and counts another's."""
    family, _ = processor_of(samples)
    vendor = {"amd": "AMD's", "arm": "Arm's"}.get(family.partition("-")[0], "")
    return [
        f"{e} counts misses of {level} on {vendor} processors, and not those of the last level"
        for e in events
        if (level := misses_level(e, family))
    ]
