"""Classes of resources: what resources of different cores are the same thing, by name.

A core file names ports as its instruction table does (``p0156``, ``ALU0123``); whether arithmetic or stores hold a
program back can be asked of every core. The classes are those that `perfkit.Bottlenecks` names, and between
which credit is shared (`perfkit.simulators.pmu.credit`).
"""

import re
from functools import lru_cache

from perfkit.machine.core import Microarchitecture

# Class -> names of its resources (regular expression over the whole name). The first that fits counts.
CLASSES: dict[str, str] = {
    "pipeline width": r"front_end|retire|op_cache",
    "taken branches": r"taken_branches",
    "mispredicted branches": r"misprediction_penalty",
    "instruction latency": r"instruction_latency",
    "L1 latency": r"L1_(vector_)?latency",
    "store forwarding": r"\w*store_forward_latency",
    "L2": r"L2_(latency|bandwidth)|L1_set_fill",
    "L3": r"L3_(latency|bandwidth)",
    "memory latency": r"memory_latency",
    "memory bandwidth": r"memory_bandwidth",
    "address translation": r"second_tlb_latency|page_walk_latency",
    "reorder buffer": r"rob|vector_registers",
    "load buffer": r"load_buffer",
    "store buffer": r"store_buffer",
    "line fill buffers": r"line_fill_buffers",
    "schedulers": r"vector_(store_)?scheduler|vector_queue",
    "dividers": r"\w*[Dd]ivider",
    "store ports": r"store_commit|page_split_store|Store|FPSt|FP45|p4|p49|p78|S",
    "load ports": r"L1_bandwidth|Load|LSU|AGU\d+|p23A?|p2378?A?|L",
    "integer units": r"ALU[\d+BRU]*|BRU\d*|p1|p6|p06|p016|p056|p0156B?|B|I|M",
    "vector units": r"FP\d+|p0|p5|p01|p05|p15B?|p015B?|W|X|WX",
}
OTHER = "other"
# Buffers of the model that Gus does not simulate, and ports that only stand for what the table does not know.
_IGNORED = ("scheduler", "PortInvalid")


@lru_cache(maxsize=4096)  # the few names of the cores' resources, asked for some thousand times per answer
def class_of(resource: str) -> str:
    """Return the class of a resource, ``"other"`` where none fits.

    Examples
    --------
    >>> class_of("p0156"), class_of("ALU03+BRU1"), class_of("FP01")
    ('integer units', 'integer units', 'vector units')
    """
    return next((name for name, words in CLASSES.items() if re.fullmatch(words, resource)), OTHER)


def classes_of(core: Microarchitecture) -> dict[str, tuple[str, ...]]:
    """Return the classes that a core has, in the order of `CLASSES`, each with its resources."""
    found: dict[str, list[str]] = {name: [] for name in (*CLASSES, OTHER)}
    for resource in core.resources:
        if resource not in _IGNORED:
            found[class_of(resource)].append(resource)
    return {name: tuple(names) for name, names in found.items() if names}
