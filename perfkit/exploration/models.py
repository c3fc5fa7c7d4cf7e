"""Models of SPIRE for dumps without training runs: trained on simulated runs, and said to be so.

The simulated cores count cycles, instructions, branches, mispredictions, accesses and misses of each level. Where a
dump counts the same under perf's names, a model of the nearest core can rank them. It knows simulated loops only, no
page walks, no other threads: its ranking is a hint for what to measure, no finding.
"""

import re
from functools import cache

import pandas as pd

from perfkit import datasets
from perfkit.fitters.bottlenecks.names import cores_of, listing_most, maker
from perfkit.fitters.spire.model import Spire, SpireModel
from perfkit.machine.core import Microarchitecture
from perfkit.samples.events import normalise
from perfkit.samples.processors import misses_level
from perfkit.samples.table import Samples

# What the simulated counters are called by perf; some names stand for the same count.
_PERF_NAMES: dict[str, tuple[str, ...]] = {
    "branch-misses": ("branch-misses", "branch-load-misses", "br_misp_retired.all_branches", "ex_ret_brn_misp"),
    "branches": ("branches", "branch-instructions", "branch-loads", "br_inst_retired.all_branches", "ex_ret_brn"),
    "mem-loads": ("mem-loads", "l1-dcache-loads", "mem_inst_retired.all_loads"),
    "mem-stores": ("mem-stores", "l1-dcache-stores", "mem_inst_retired.all_stores"),
    "l1.misses": ("l1-dcache-load-misses", "l1d.replacement", "mem_load_retired.l1_miss"),
    "l2.misses": ("l2_rqsts.miss", "mem_load_retired.l2_miss"),
    "l3.misses": ("llc-load-misses", "cache-misses", "longest_lat_cache.miss", "mem_load_retired.l3_miss"),
    "uops": ("uops_issued.any", "uops_retired.retire_slots", "ex_ret_ops"),
}
_CORES = {"amd": "zen4"}
_DEFAULT = "skylake_x"


def nearest_core(family: str) -> str:
    """Return the simulated core that is nearest to a family of processors."""
    return _CORES.get(family, _CORES.get(family.partition("-")[0], _DEFAULT))


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
    (r"\b(?:sandy|ivy) ?bridge\b", "sandy_bridge"),
)
_PREFERRED = ("zen4", "skylake_x", "golden_cove")  # of cores whose events fit as well


def core_of(samples: Samples, named: str) -> tuple[str, tuple[str, ...]]:
    """Return the core that a dump is of, "" for none that is known, and what else its events fit as well.

    By the processor that the dump names; else by names of events that only some cores have, and by the published lists
    of events of processors whose cores are not modelled.
    """
    if bool((samples.runs["source"] == "perfkit SimulatedPmu").all()):
        said = {str(host).removeprefix("simulated ") for host in samples.runs["host"]}
        return (said.pop(), ()) if len(said) == 1 and said <= set(Microarchitecture.names()) else ("", ())
    said_of = " ".join([named, *samples.runs["parameters"], *samples.runs["host"]]).lower()
    for pattern, core in _NAMED:
        if re.search(pattern, said_of):
            return core, ()
    known = cores_of(samples.events)
    best = max(known.values(), key=lambda both: both[0] - both[1])
    alike = [core for core, both in known.items() if both == best]
    makers = {maker(event) for event in samples.events} - {""}
    if best[0] <= best[1] or not makers:
        return "", ()
    core = next((core for core in _PREFERRED if core in alike), alike[0])
    return core, (*(other for other in alike if other != core), *listing_most(samples.events, core))


def simulated_model(samples: Samples, family: str) -> SpireModel | None:
    """Return a model for the events of a dump that the simulator counts too; None where there are none."""
    wanted: dict[str, list[str]] = {}
    for event in samples.events:
        name = {"L2": "l2_rqsts.miss", "L1D": "l1d.replacement"}.get(misses_level(event, family), normalise(event))
        for simulated, names in _PERF_NAMES.items():
            if name in names:
                wanted.setdefault(simulated, []).append(event)
    if not wanted:
        return None
    table = _training(nearest_core(family))
    parts = [table[table["event"] == s].assign(event=e) for s, events in wanted.items() for e in events]
    whole = pd.concat(parts, ignore_index=True)
    training = Samples.from_frame(
        whole, kind="simulated", time_event=samples.time_event, work_event=samples.work_event, missing="keep"
    )
    return Spire().fit(training)


@cache
def _training(core: str) -> pd.DataFrame:
    """Return the simulated samples of a core, thinned to what a model needs."""
    loaded = datasets.load(f"pmu/{core}")
    table = loaded.table[loaded.table["event"].isin(list(_PERF_NAMES))]
    return table.assign(**{c: table[c].astype(str) for c in ("run", "place", "event")}).reset_index(drop=True)
