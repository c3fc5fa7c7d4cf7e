"""What a resource does in a program that it holds back: which operations share its ports, which branches are missed."""

import re
from typing import TYPE_CHECKING

import numpy as np

from perfkit.diagnosis import words
from perfkit.simulators.gus.mispredicted import branch_ticks
from perfkit.simulators.program.program import INDIRECT, RETURN
from perfkit.trace.code import NO_ACCESS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfkit.simulators.gus.gus import GusResult

_MOST = 0.5  # the share of a group's work that makes it the work of one kind
_NEARLY_ALL = 0.9
_NAMED = 0.15  # operations with a smaller share of it are not named
_TORN = 0.25  # share of the accesses that lie across a line's end above which this is said
_PAGE = 4096
_OF_STORES = frozenset({"store_commit", "store_buffer", "page_split_store"})
_LOCKED = re.compile(r"lock |xchg .*\[")
_PREFIX = re.compile(r"^(?:lock|rep\w*|xacquire|xrelease|notrack|bnd) ")
_DIVISIONS = "divisions"
_DIVISION = re.compile(r"v?(div|sqrt|fdiv|fsqrt|idiv)")
_SLOW = 1.5  # cycles from which a division is one that waits for a unit that is not pipelined
_KEPT = (
    4.0  # cycles for which an operation keeps a whole group of ports, from which the operation is named, not the rate
)
_REPEATS = re.compile(r"(rep\w* \w+)")
_LESS = (
    (_REPEATS, "copies and fills of a size that is known, or loops of vector moves: one that repeats begins slowly"),
    (re.compile(r"[msl]fence|serialize|cpuid"), "fewer fences, or an acquire or release in their place"),
    (re.compile(r"rdtscp?|rdpmc"), "reading the clock less often"),
)
_GATHER = re.compile(r"vp?gather")
_STORE = re.compile(r"(v?mov\w*|push|stos\w*|v?p?extr\w*|vextract\w*|vp?scatter\w*) (\w+ ptr )?(\w\w:)?\[|push ")


def keeping(result: "GusResult", resource: str) -> "NDArray[np.int64]":
    """Return the static instructions each of which keeps a whole group of ports for many cycles; none of most groups.

    Others wait for the ports meanwhile, and the cycles are theirs: the reason stands where these are.
    """
    nothing = np.zeros(0, dtype=np.int64)
    if resource not in result.program.groups or not words.is_ports(resource):
        return nothing
    use, texts = _use(result, resource), result.trace.code.text
    if not use.sum() or _kept_by(result, resource, name := _commonest(texts, use)) < _KEPT:
        return nothing
    return np.flatnonzero((use > 0) & np.array([_named(name).match(text) is not None for text in texts]))


def _use(result: "GusResult", resource: str) -> "NDArray[np.float64]":
    """Return what each static instruction takes of a group of ports, all of its executions together."""
    p, runs = result.program, result.executions
    owner = np.repeat(np.arange(len(runs)), np.diff(p.use_start))
    mine = p.use == p.groups.index(resource)
    return np.bincount(owner[mine], p.amount[mine] * runs[owner[mine]], minlength=len(runs)).astype(np.float64)


def _named(name: str) -> re.Pattern[str]:
    return re.compile(rf"(lock )?{re.escape(name)}\b")


def _kept_by(result: "GusResult", resource: str, name: str) -> float:
    """Return the cycles for which each operation of a name keeps the ports; 0 where others take as much of them."""
    use, pattern = _use(result, resource), _named(name)
    those = [k for k, text in enumerate(result.trace.code.text) if use[k] and pattern.match(text)]
    if use[those].sum() <= _MOST * use.sum():
        return 0.0
    return float(use[those].sum() / result.executions[those].sum() / result.settings.core.value(resource))


def in_words(result: "GusResult", resource: str) -> tuple[str, str]:
    """Say what holds the code back where a resource is scarce, and what usually helps.

    Of ports, with the operations that take most of what they give; of mispredicted branches, which kind they are; of
    all else as `perfkit.diagnosis.words` has it.
    """
    p = result.program
    if resource == "misprediction_penalty":
        return _missed(result)
    if resource in _OF_STORES and (torn := _torn(result, stores=True)):
        return f"{words.held_back(resource)}: {torn}", "aligned data"
    if resource not in p.groups or not words.is_ports(resource):
        return words.held_back(resource), words.remedy(resource)
    core, runs = result.settings.core, result.executions
    owner = np.repeat(np.arange(len(runs)), np.diff(p.use_start))
    mine = p.use == p.groups.index(resource)
    use = _use(result, resource)
    if not use.sum():
        return words.held_back(resource), words.remedy(resource)
    place = np.arange(len(owner)) - p.use_start[owner]
    is_load = mine & (place < p.load_uses[owner])
    loads = np.bincount(owner[is_load], p.amount[is_load] * runs[owner[is_load]], minlength=len(runs))
    texts, rate = result.trace.code.text, core.value(resource)

    def share(pattern: re.Pattern[str], what: np.ndarray = use) -> float:
        return float(
            sum(part for part, text in zip(what, texts, strict=True) if part and pattern.match(text)) / use.sum()
        )

    def each(pattern: re.Pattern[str]) -> float:
        """Return the cycles for which one of these operations keeps the ports, the mean of all that ran."""
        those = [k for k, text in enumerate(texts) if use[k] and pattern.match(text)]
        return float(use[those].sum() / runs[those].sum() / rate)

    if share(_LOCKED) > _MOST:
        cycles = each(_LOCKED)
        kept = f"each keeps the ports {resource} for {cycles:.0f} cycles" if cycles >= 2 else f"on the ports {resource}"
        return (
            f"atomic operations: {kept}",
            "fewer of them: a sum of its own for each thread or block, added once",
        )
    if share(_GATHER) > _MOST:
        return (
            f"gathers: each keeps the ports {resource} for {each(_GATHER):.1f} cycles, a load for each element",
            "loads of neighbouring elements, or of several that are used together",
        )
    if share(_DIVISION) > _MOST and each(_DIVISION) >= _SLOW:
        return (
            f"{_DIVISIONS}: each keeps the ports {resource} for {each(_DIVISION):.1f} cycles",
            "multiplying by the reciprocal",
        )
    name = _commonest(texts, use)
    if (cycles := _kept_by(result, resource, name)) >= _KEPT:
        less = next(
            (remedy for kind, remedy in _LESS if kind.match(name)), "fewer of them, or simpler ones in their place"
        )
        return f"{name}: each keeps the ports {resource} for {cycles:.0f} cycles", less
    most = f"the ports {resource} take {rate:g} a cycle at most"
    if loads.sum() >= _MOST * use.sum() and (torn := _torn(result, stores=False)):
        return f"loads: {torn}", "aligned data"
    if loads.sum() >= _NEARLY_ALL * use.sum():
        return f"loads: {most}", "wider loads, or values kept in registers"
    if share(_STORE) >= _NEARLY_ALL:
        return f"stores: {most}", "wider stores, or values kept in registers"
    return (
        f"the ports {resource}, which {_shared(texts, use)} share: {rate:g} a cycle at most",
        words.remedy(resource),
    )


def divides(result: "GusResult", resource: str) -> bool:
    """Whether a resource holds the code back by its divisions, whatever ports a core file gives its divider."""
    return in_words(result, resource)[0].startswith(_DIVISIONS)


def _missed(result: "GusResult") -> tuple[str, str]:
    """Say which branches are mispredicted, where one kind takes most of the time that all take."""
    ticks, ending = branch_ticks(result), result.program.ending
    if ticks[ending == RETURN].sum() > _MOST * ticks.sum():
        return (
            "mispredicted returns: calls are nested deeper than the processor's return stack",
            "a loop in the place of the recursion, or fewer levels of calls",
        )
    if ticks[(ending & INDIRECT) != 0].sum() > _MOST * ticks.sum():
        return (
            "mispredicted targets of indirect jumps and calls (a switch, function pointers, virtual functions)",
            "work sorted by its target, or a test for the commonest target before them",
        )
    return words.held_back("misprediction_penalty"), words.remedy("misprediction_penalty")


def _torn(result: "GusResult", stores: bool) -> str:
    """Say how many of the loads, or stores, lie on two lines of memory or on two pages; "" where few do."""
    trace, line = result.trace, result.settings.core.caches[0].line
    code = trace.code
    wanted = code.write if stores else code.read & ~code.write
    addresses, sizes = trace.addresses, trace.access_sizes()
    of = np.concatenate([np.zeros(0, dtype=np.int32), *trace.operands()])
    mine = wanted[of].astype(bool) & (addresses != NO_ACCESS) & (sizes > 0)
    first, last = addresses[mine], addresses[mine] + sizes[mine].astype(np.uint64) - np.uint64(1)
    for size, what in ((_PAGE, "the end of a page"), (line, f"the end of a line of {line} bytes")):
        crossing = float(np.mean(first // np.uint64(size) != last // np.uint64(size))) if len(first) else 0.0
        if crossing >= _TORN:
            return f"{crossing:.0%} of them lie across {what} and are two accesses each"
    return ""


def _commonest(texts: tuple[str, ...], use: np.ndarray) -> str:
    """Name the operation that takes most of a group's work; one that repeats with its prefix."""
    by_name: dict[str, float] = {}
    for text, part in zip(texts, use.tolist(), strict=True):
        repeats = _REPEATS.match(text)
        name = repeats[1] if repeats else _PREFIX.sub("", text).split(" ", 1)[0]
        by_name[name] = by_name.get(name, 0.0) + part
    return max(by_name, key=lambda name: by_name[name])


def _shared(texts: tuple[str, ...], use: np.ndarray) -> str:
    """Name the operations that take most of a group's work."""
    by_name: dict[str, float] = {}
    for text, part in zip(texts, use.tolist(), strict=True):
        name = _PREFIX.sub("", text).split(" ", 1)[0]
        by_name[name] = by_name.get(name, 0.0) + part
    total = sum(by_name.values())
    ranked = sorted(by_name.items(), key=lambda item: -item[1])
    named = [name for name, part in ranked if part >= _NAMED * total][:4]
    if not named:
        return "many operations"
    rest = sum(part for name, part in ranked if name not in named) >= _NAMED * total
    if len(named) == 1 and not rest:
        return f"all {named[0]}"
    return ", ".join(named) + (" and others" if rest else "")
