"""Models of SPIRE for dumps without training runs: trained on simulated runs, and said to be so.

The simulated cores count cycles, instructions, branches, mispredictions, accesses and misses of each level. Where a
dump counts the same under perf's names, a model of the nearest core can rank them. It knows simulated loops only, no
page walks, no other threads: its ranking is a hint for what to measure, no finding.
"""

from functools import cache

import pandas as pd

from perfkit.fitters.spire.model import Spire, SpireModel
from perfkit.readers.open_samples import open_samples
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
    table = open_samples(f"pmu/{core}", memory=True).table
    table = table[table["event"].isin(list(_PERF_NAMES))]
    return table.assign(**{c: table[c].astype(str) for c in ("run", "place", "event")}).reset_index(drop=True)
