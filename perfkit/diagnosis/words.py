"""Resources in words: what it means for a program that one of them is scarce."""

import re

FAR = 0.25  # measured and simulated cycles further apart than this are not the same thing explained
SOME = 0.1  # from here on their difference is told, about the model's mean error
SETS = "L1_set_fill"
NEAREST = "L1"

# A resource's name -> what holds the code back, and what would help.
_WORDS = (
    ("instruction_latency",
     "chains of dependent operations: each waits for the result before it",
     "several independent chains (unroll with separate accumulators), or operations of lower latency"),
    ("misprediction_penalty",
     "mispredicted branches",
     "branches that are predictable, or code without them (min, select, masks)"),
    ("front_end",
     "the number of instructions: the front end hands on as many as it can",
     "fewer instructions: wider vectors, work taken out of the loop"),
    ("retire",
     "the number of instructions: as many retire as can",
     "fewer instructions: wider vectors"),
    ("taken_branches",
     "taken branches: the front end follows only one per cycle, or a pair of them",
     "longer loop bodies (unroll)"),
    ("op_cache",
     "the place of the code: a short loop across the end of a line of code (64 bytes) takes a cycle for each part",
     "aligning the loop (-falign-loops=64), or longer loop bodies (unroll); at most so much: more may limit it"),
    ("store_commit",
     "stores: they are written to the cache one after the other",
     "fewer or wider stores"),
    (".*store_forward_latency",
     "values that go through memory: loads wait for the stores before them",
     "keeping these values in registers"),
    ("memory_latency",
     "waiting for memory: single accesses that miss all caches",
     "accesses in order, prefetching, or smaller data"),
    ("memory_bandwidth",
     "the bandwidth of memory",
     "touching less data, or the same data again while it is in a cache (blocking)"),
    (r"(L\d)\w*_latency",
     r"waiting for the \1 cache",
     "accesses that do not depend on each other, or data in a nearer cache"),
    (r"(L\d)_bandwidth",
     r"the bandwidth of the \1 cache",
     "fewer accesses: wider ones, or values kept in registers"),
    ("page_walk_latency|second_tlb_latency",
     "address translation: data on many pages",
     "huge pages, or accesses page by page"),
    ("page_split_store",
     "stores that cross the end of a page",
     "aligned data"),
    ("L1_set_fill",
     "lines a large power of two apart: they share one set of the L1 cache, which takes them one by one",
     "rows that are longer by a line (64 bytes), or going through memory in order"),
    ("line_fill_buffers",
     "the number of misses under way at once",
     "fewer misses, or accesses in order"),
    ("rob|.*scheduler|.*queue|load_buffer|store_buffer|vector_registers",
     "the window of instructions: work further ahead is out of sight",
     "shorter waits, or independent work nearer together"),
    (".*divider",
     "divisions, which share one unit that is not pipelined",
     "multiplying by the reciprocal"),
    (".*",
     "the ports {name}, which these operations share",
     "fewer of these operations, or wider ones"),
)  # fmt: skip


def held_back(resource: str) -> str:
    """Say what it means that a resource is the bottleneck.

    Examples
    --------
    >>> held_back("L2_bandwidth")
    'the bandwidth of the L2 cache'
    """
    return _found(resource)[0]


def is_ports(resource: str) -> bool:
    """Whether a resource is a group of ports, for which there are only general words."""
    return next(pattern for pattern, *_ in _WORDS if re.fullmatch(pattern, resource)) == _WORDS[-1][0]


def remedy(resource: str) -> str:
    """Say what usually helps."""
    return _found(resource)[1]


def better(resource: str, weight: float) -> str:
    """Say what is changed where a resource is made `weight` times as good."""
    name = resource.replace("_", " ")
    is_time = any(word in resource for word in ("latency", "penalty", "page_split_store", "L1_set_fill"))
    return f"{name} divided by {weight:g}" if is_time else f"{weight:g} times {name}"


def as_no_limit(resource: str) -> str:
    """Say what it means that a resource is no limit."""
    if resource == SETS:
        return "with the lines in all of its sets"
    return f"at the latency of {NEAREST}" if is_farther(resource) else "if it were no limit at all"


def is_farther(resource: str) -> bool:
    """Whether a resource is the latency of a cache behind the first, or of memory: near data take time, too."""
    return bool(re.fullmatch(r"(L[2-9]|memory)_latency", resource))


def brief(name: str, most: int = 60) -> str:
    """Return a long name of a function without the arguments of its templates.

    Examples
    --------
    >>> brief("std::__introsort_loop<__gnu_cxx::__normal_iterator<Rec*, std::vector<Rec> >, long>")
    'std::__introsort_loop<...>'
    >>> brief("<alloc::vec::Vec<T,A> as core::ops::index::IndexMut<I>>::index_mut")
    'alloc::vec::Vec<...>::index_mut'
    """
    if len(name) <= most or "operator" in name:
        return name
    whole = _of_type(name)
    kept, depth = [], 0
    for letter in whole:
        if letter == "<":
            kept.append("<...>" * (depth == 0))
        depth += (letter == "<") - (letter == ">" and depth > 0)
        if not depth and letter != ">":
            kept.append(letter)
    return "".join(kept)


def _of_type(name: str) -> str:
    """Return Rust's ``<Type as Trait>::function`` as ``Type::function``; other names as they are."""
    depth, kind = 0, 0
    for at, letter in enumerate(name if name.startswith("<") else ""):
        depth += (letter == "<") - (letter == ">" and name[at - 1] != "-")  # not that of ->
        if depth == 1 and not kind and name.startswith(" as ", at):
            kind = at
        if depth == 0:
            return name[1 : kind or at] + name[at + 1 :]
    return name


def _found(resource: str) -> tuple[str, str]:
    for pattern, held, helps in _WORDS:
        match = re.fullmatch(pattern, resource)
        if match:
            return match.expand(held).format(name=resource), helps
    raise AssertionError(resource)


def lies(apart: float) -> str:
    """Say where a figure lies beside another, from their ratio less one: 68% below (-0.68), 5% above (0.05)."""
    return f"{abs(apart):.0%} {'below' if apart < 0 else 'above'}"
