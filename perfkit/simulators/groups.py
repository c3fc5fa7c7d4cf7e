"""Which part of a core a resource belongs to, whichever of the simulators names it."""

import re

# Groups of resources that both models have, by words of either; the first that matches counts.
_GROUPS = (
    ("latency of operations", r"instruction_latency|latency of (?:all|additions|mult|div|fused|integer)"),
    ("latency of memory", r"memory_latency|latency of memory|L3_latency|latency of L3"),
    ("latency of caches", r"L[12]\w*_latency|forward|latency of L[12]"),
    ("bandwidth of memory", r"memory_bandwidth|bandwidth of memory|L3_bandwidth|bandwidth of L3"),
    ("load and store units", r"L1_bandwidth|bandwidth of L1|AGU|LSU|Load|Store|store_commit|p23|p237|p49|p78|p4\b"),
    ("sets of L1", r"L1_set_fill|sets of L1"),
    ("bandwidth of L2", r"L2_bandwidth|bandwidth of L2"),
    ("window", r"^rob$|scheduler|_queue|buffer|station|line.fill|vector.registers"),
    ("front end", r"front_end|fetch|retire|taken_branches|jumps back|op_cache"),
    ("divider", r"[Dd]ivider"),
    ("mispredicted branches", r"mispredict"),
    ("integer units", r"ALU|integer units|BRU|p06|p0156|branch"),
    ("floating-point units", r"FP|floating-point units|^p\d+|p01|p5"),
)


def group(resource: str) -> str:
    """Return the group that a resource of either model belongs to.

    Examples
    --------
    >>> group("instruction_latency") == group("latency of additions")
    True
    """
    return next((name for name, words in _GROUPS if resource == name or re.search(words, resource)), "other")
