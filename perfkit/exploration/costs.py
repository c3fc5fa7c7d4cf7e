"""What counted events usually cost in cycles, and what they say of cycles and slots by themselves."""

import re

import numpy as np
import pandas as pd

from perfkit.errors import listed
from perfkit.exploration.facts import contradictions
from perfkit.samples.clocks import is_fixed_rate
from perfkit.samples.events import WORK_EVENTS, normalise, other_core
from perfkit.samples.impossible import CYCLES_OF
from perfkit.samples.processors import misses_level, processor_of
from perfkit.samples.table import Samples

# What one event usually costs, in cycles, on cores of today: to order events of dumps that allow no fit.
TYPICAL_COSTS: tuple[tuple[tuple[str, ...], float], ...] = (
    (("branch-misses", "branch-load-misses", "br_misp_retired.all_branches", "br_misp_retired.conditional",
      "br_misp_retired.indirect", "br_misp_retired.near_taken", "ex_ret_brn_misp", "papi_br_msp", "br_mis_pred",
      "br_mis_pred_retired", "retired_br_inst_misp", "retired_branch_instructions_mispredicted"), 17),
    (("llc-load-misses", "cache-misses", "longest_lat_cache.miss", "mem_load_retired.l3_miss",
      "mem_load_uops_retired.l3_miss", "mem_load_uops_retired.llc_miss", "mem_load_l3_miss_retired.local_dram",
      "papi_l3_tcm", "ls_dmnd_fills_from_sys.dram_io_near", "ls_dmnd_fills_from_sys.mem_io_local",
      "ls_refills_from_sys.ls_mabresp_lcl_dram", "ll_cache_miss_rd", "l3d_cache_refill", "l3d_cache_refill_rd"), 200),
    (("mem_load_l3_miss_retired.remote_dram", "ls_dmnd_fills_from_sys.dram_io_far",
      "ls_dmnd_fills_from_sys.mem_io_remote", "ls_refills_from_sys.ls_mabresp_rmt_dram"), 350),
    (("mem_load_l3_miss_retired.remote_hitm", "mem_load_l3_miss_retired.remote_fwd",
      "ls_dmnd_fills_from_sys.far_cache", "ls_refills_from_sys.ls_mabresp_rmt_cache"), 300),
    (("ls_dmnd_fills_from_sys.near_cache", "ls_dmnd_fills_from_sys.ext_cache_local"), 150),
    (("mem_load_l3_hit_retired.xsnp_hitm", "mem_load_l3_hit_retired.xsnp_fwd",
      "mem_load_uops_l3_hit_retired.xsnp_hitm"), 100),
    (("mem_load_retired.l3_hit", "mem_load_uops_retired.l3_hit", "mem_load_uops_retired.llc_hit",
      "mem_load_l3_hit_retired.xsnp_hit", "mem_load_l3_hit_retired.xsnp_none", "ls_dmnd_fills_from_sys.local_ccx",
      "ls_dmnd_fills_from_sys.int_cache", "ls_refills_from_sys.ls_mabresp_lcl_cache"), 40),
    (("l2_rqsts.miss", "l2_rqsts.demand_data_rd_miss", "l2_rqsts.code_rd_miss", "mem_load_retired.l2_miss",
      "mem_load_uops_retired.l2_miss", "l2d_cache_refill", "l2d_cache_refill_rd", "papi_l2_tcm", "papi_l2_dcm"), 40),
    (("l1-dcache-load-misses", "l1d.replacement", "mem_load_retired.l1_miss", "mem_load_uops_retired.l1_miss",
      "mem_load_retired.l2_hit", "mem_load_uops_retired.l2_hit", "l1d_cache_refill", "l1d_cache_refill_rd",
      "papi_l1_dcm", "ls_dmnd_fills_from_sys.lcl_l2", "ls_dmnd_fills_from_sys.local_l2",
      "ls_refills_from_sys.ls_mabresp_lcl_l2"), 12),
    (("l1-icache-load-misses", "l1i_cache_refill", "icache.misses", "icache_64b.iftag_miss", "papi_l1_icm"), 12),
    (("dtlb-load-misses", "itlb-load-misses", "dtlb_load_misses.walk_completed", "itlb_misses.walk_completed",
      "dtlb_load_misses.miss_causes_a_walk", "itlb_misses.miss_causes_a_walk", "mem_inst_retired.stlb_miss_loads",
      "ls_l1_d_tlb_miss.all_l2_miss", "ls_l1_d_tlb_miss.tlb_reload_4k_l2_miss", "bp_l1_tlb_miss_l2_tlb_miss",
      "dtlb_walk", "itlb_walk", "l2d_tlb_refill", "papi_tlb_dm", "papi_tlb_im"), 30),
    (("machine_clears.count", "machine_clears.memory_ordering"), 40),
    (("machine_clears.smc", "assists.any", "fp_assist.any", "other_assists.any"), 150),
    (("ld_blocks.store_forward",), 13),
    (("page-faults", "faults", "minor-faults"), 1000),
)  # fmt: skip
# LIKWID writes Intel's names with underscores alone: MEM_LOAD_RETIRED_L3_MISS.
_COSTS = {name.replace(".", "_"): cost for names, cost in TYPICAL_COSTS for name in names}
# What goes on with the work itself, and is no miss of anything.
_WITH_WORK = re.compile(
    r"^(?:branches|branch-instructions|branch-loads|cache-references|l1-[di]cache-(?:loads|stores)|llc-(?:loads|stores)|"
    r"[di]tlb-(?:loads|stores)|mem-(?:loads|stores)|br_inst_retired\.\w+|br_retired|br_pred|mem_inst_retired\.all_\w+|"
    r"mem_uops_retired\.all_\w+|ex_ret_(?:brn|ops|cops|brn_tkn)|ls_dispatch\.\w+|op_(?:retired|spec)|inst_spec|l1[di]_cache|"
    r"l2d_cache|papi_(?:br_ins|ld_ins|sr_ins|lst_ins)|longest_lat_cache\.reference|l2_rqsts\.references|"
    r"uops_(?:issued\.any|retired\.(?:retire_slots|all|slots)|executed\.thread))$"
)
_LEAST = 0.05  # of the cycles: less is no insight
_SLOTS = ("stall_slot_frontend", "stall_slot_backend", "op_spec", "op_retired")  # Arm's, of any width


def usual_cost(event: str, family: str = "") -> float | None:
    """Return what one such event usually costs, in cycles, on a family of processors; None where nobody said."""
    name = {"": event, "L2": "l2_rqsts.miss", "L1D": "l1d_cache_refill"}[misses_level(event, family)]
    return _COSTS.get(normalise(name).replace(".", "_"))


def usual_costs(samples: Samples) -> dict[str, float]:
    """Return the usual cost, in cycles, of each event that has one and may be a cause of the samples' time."""
    family, _ = processor_of(samples)
    found = {e: usual_cost(e, family) for e in _causes(samples)}
    return {e: cost for e, cost in found.items() if cost is not None}


def without_cost(samples: Samples) -> list[str]:
    """Return the events of which nobody said what they cost, and which are neither cycles nor part of the work."""
    known, work = usual_costs(samples), normalise(samples.work_event)
    return [
        e
        for e in _causes(samples)
        if e not in known and not _counts_cycles(e) and not _WITH_WORK.match(normalise(e)) and normalise(e) != work
    ]


def cost_in_words(samples: Samples) -> tuple[str, dict[str, float]]:
    """Say which event takes most cycles, by its usual cost or by counting them, with the share of each; "" of none.

    An event without a known cost is never among those that are said to take little.
    """
    cpi = 1 / samples.throughput() if samples.throughput() > 0 else np.nan
    rates = samples.describe()["rate"]
    costs = {e: float(rates[e] * cost / cpi) for e, cost in usual_costs(samples).items() if np.isfinite(rates[e])}
    cycles = {e: float(rates[e] / cpi) for e in _causes(samples) if _counts_cycles(e) and np.isfinite(rates[e])}
    shares = costs | cycles
    if not np.isfinite(cpi) or samples.time_event == "seconds":
        return "", {}
    told = []
    first = max(costs, key=lambda e: costs[e], default="")
    if first and costs[first] >= _LEAST:
        part = f"up to {costs[first]:.0%}" if costs[first] <= 1 else "all"
        rate = f" ({rates[first] * 1000:.3g} per 1000 {work_in_words(samples)})"
        told.append(
            f"at its usual cost {first} would take {part} of the cycles{'' if first == samples.work_event else rate}"
        )
    waits = max(cycles, key=lambda e: cycles[e], default="")
    if waits and cycles[waits] >= _LEAST and (not told or 1 >= cycles[waits] > costs[first]):
        told.append(f"{waits} counts {min(cycles[waits], 1.0):.0%} of the cycles")
    told += _slots_in_words(rates, {normalise(e): e for e in samples.events})
    if not told and shares:
        told = [_little(samples, shares)]
    return "; ".join(told), shares


def work_in_words(samples: Samples) -> str:
    """Return what the work is counted in: instructions by whatever name, or the event that stands in for them."""
    return "instructions" if normalise(samples.work_event) in WORK_EVENTS else samples.work_event


def _little(samples: Samples, shares: dict[str, float]) -> str:
    """Say that none of the events whose share is known takes much, and of which nobody knows what they take."""
    most = max(max(shares.values()), 0.001)
    names = listed(sorted(shares, key=lambda e: -shares[e]), 3, last="and")
    told = f"at usual costs {names} take{'s' if len(shares) == 1 else ''} at most {most:.1%} of the cycles"
    told += " each" if len(shares) > 1 else ""
    unknown = without_cost(samples)
    return f"{told}; of {listed(unknown, 3)} no usual cost is known: it may be more" if unknown else told


def _slots_in_words(rates: pd.Series, named: dict[str, str]) -> list[str]:
    """Say what takes most of the slots that are lost, of Arm's processors whose width the events do not tell."""
    if not all(e in named and np.isfinite(rates[named[e]]) for e in _SLOTS):
        return []
    front, back, begun, retired = (float(rates[named[e]]) for e in _SLOTS)
    lost = {"the front end": front, "the back end": back, "bad speculation": max(begun - retired, 0.0)}
    main = max(lost, key=lambda e: lost[e])
    whole = sum(lost.values())
    return [f"of the issue slots that are lost {lost[main] / whole:.0%} are lost to {main}"] if whole > 0 else []


def _causes(samples: Samples) -> list[str]:
    doubted = contradictions(samples)
    every = [str(e) for e in dict.fromkeys((*samples.events, samples.work_event))]
    return [e for e in every if e not in doubted and not is_fixed_rate(e) and not other_core(e, samples.work_event)]


def _counts_cycles(event: str) -> bool:
    return normalise(event).replace(".", "_") in CYCLES_OF
