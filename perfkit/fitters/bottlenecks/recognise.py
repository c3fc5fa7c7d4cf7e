"""Which core a dump was counted on: by the processor that it names, or by its events' names."""

import re
from collections.abc import Mapping

from perfkit.fitters.bottlenecks.names import cores_of, listing_most, maker
from perfkit.machine.core import Microarchitecture
from perfkit.samples.events import counter_unit, normalise
from perfkit.samples.table import Samples

SIMULATED, SIMULATED_ON = "perfkit SimulatedPmu", "simulated "
"""The source of the simulated PMU's runs, and what begins their host: the core follows."""
_NAMED = (
    (r"\b(?:zen ?5|turin|granite ridge|strix)\b|epyc(?:\(tm\))? 9\d\d5|ryzen .*\b9\d{3}", "zen5"),
    (r"\b(?:zen ?4|genoa|bergamo|raphael)\b|epyc(?:\(tm\))? 9\d\d4|ryzen .*\b7\d[^23]\d", "zen4"),
    (r"\b(?:zen ?3|milan|vermeer)\b|epyc(?:\(tm\))? 7\d\d3|ryzen .*\b5(?![357]00u)\d{3}", "zen3"),
    (r"\b(?:sapphire|emerald) ?rapids\b|xeon.*(?:platinum|gold|silver) [3-9][45]\d\d", "golden_cove"),
    (r"\braptor ?lake\b|1[34]th gen intel", "raptor_cove"),
    (r"\balder ?lake\b|12th gen intel", "alder_lake_p"),
    (r"\b(?:meteor ?lake|granite rapids)\b", "redwood_cove"),
    (r"\b(?:ice|tiger|rocket) ?lake\b|xeon.*(?:platinum|gold|silver) [3-9]3\d\d", "ice_lake"),
    (r"\b(?:skylake|cascade ?lake)\b|xeon.*(?:platinum|gold|silver|bronze) [3-9][12]\d\d", "skylake_x"),
    (r"\b(?:sandy|ivy) ?bridge\b|e[357]-\d{4}[a-z]?(?: 0| ?v2)? @|core\(tm\) i\d-[23]\d{3}[a-z]*\b", "sandy_bridge"),
    # Processors of which no core is like: by their events, which are others' too, they would be taken for these.
    (r"\b(?:haswell|broadwell)\b|e[357]-\d{4}[a-z]? ?v[34]\b|core\(tm\) i\d-[45]\d{3}[a-z]*\b", ""),
    (r"\bzen ?[12]\+?(?!\w)|epyc(?:\(tm\))? 7\d\d[12]\b|ryzen .*\b[1-4]\d{3}", ""),
)
_SLOTS = ("slots", "topdown.slots")
_AMD_SLOTS = (
    "de_src_op_disp.all", "de_no_dispatch_per_slot.no_ops_from_frontend", "de_no_dispatch_per_slot.backend_stalls",
    "de_no_dispatch_per_slot.smt_contention",
)  # fmt: skip
_OPS = ("ex_ret_ops", "de_src_op_disp.all", "uops_retired.slots", "topdown-retiring")  # no more than slots
_AS_WIDE = 0.04  # by which slots per cycle may be off
_KINDS = ("cpu_core", "cpu_atom")  # PMUs of hybrid processors
_HYBRID = ("alder_lake_p", "raptor_cove", "redwood_cove")
_PREFERRED = ("zen4", "skylake_x", "golden_cove")  # of cores whose events fit as well


def core_named(said: str) -> str | None:
    """Return the core of the processor that a text names, "" for one that no core here is like; None for no name."""
    return next((core for pattern, core in _NAMED if re.search(pattern, said.lower())), None)


def core_of(samples: Samples, named: str) -> tuple[str, tuple[str, ...]]:
    """Return the core that a dump is of, "" for none that is known, and what else its events fit as well.

    By the processor that the dump names; else by names of events that only some cores have, and by the published lists
    of events of processors whose cores are not modelled.
    """
    if bool((samples.runs["source"] == SIMULATED).all()):
        said = {str(host).removeprefix(SIMULATED_ON) for host in samples.runs["host"]}
        return (said.pop(), ()) if len(said) == 1 and said <= set(Microarchitecture.names()) else ("", ())
    said_of = " ".join([named, *samples.runs["parameters"], *samples.runs["host"]])
    if (core := core_named(said_of)) is not None:
        return core, ()
    known = _as_wide(samples, cores_of(samples.events))
    hybrid = any(counter_unit(event) in _KINDS for event in (*samples.events, samples.time_event))
    if hybrid:
        known = {core: both for core, both in known.items() if core in _HYBRID}
    best = max(known.values(), key=lambda both: both[0] - both[1])
    alike = [core for core, both in known.items() if both == best]
    makers = {maker(event) for event in samples.events} - {""}
    if best[0] <= best[1] or not makers:
        return "", ()
    core = next((core for core in _PREFERRED if core in alike), alike[0])
    unmodelled = () if hybrid else listing_most(samples.events, core)
    return core, (*(other for other in alike if other != core), *unmodelled)


def _as_wide(samples: Samples, known: Mapping[str, tuple[int, int]]) -> Mapping[str, tuple[int, int]]:
    """Return those of cores whose width is the one that was counted, as slots per cycle; all where none is."""
    rates = samples.describe()["rate"]
    by_name = {normalise(str(event)): float(rate) for event, rate in rates.items()}
    slots = next((by_name[name] for name in _SLOTS if by_name.get(name, 0.0) > 0), 0.0)
    parts = [by_name[name] for name in _AMD_SLOTS if name in by_name]
    counted = sum(parts) if _AMD_SLOTS[:3] == tuple(n for n in _AMD_SLOTS[:3] if n in by_name) else 0.0
    slots = (slots or counted) * samples.throughput() if samples.time_event != "seconds" else 0.0
    least = max((by_name[name] for name in _OPS if name in by_name), default=0.0) * samples.throughput()
    wide = {core: Microarchitecture.load(core).value("front_end") for core in known}
    fit = [
        c for c in known if (not slots or abs(slots / wide[c] - 1) <= _AS_WIDE) and least <= wide[c] * (1 + _AS_WIDE)
    ]
    return {core: known[core] for core in fit} or known
