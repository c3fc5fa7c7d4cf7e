"""Branch prediction: directions, targets of indirect jumps and calls, and a return stack.

Directions are predicted as TAGE does (Seznec and Michaud, "A case for (partially) TAgged GEometric history length
branch prediction", 2006), targets as ITTAGE does (Seznec, "A 64-Kbytes ITTAGE indirect branch predictor", 2011); both
simplified. How many targets are remembered, each with the history it followed, is a feature of the core
(``indirect_targets``, and ``indirect_targets_per_branch`` where one branch cannot have them all): a further one takes
the place of any. Returns are predicted by a stack of the calls that are in the trace; a deeper recursion than it has
entries overwrites the oldest. What an empty stack predicts is a feature of the core (``return_stack_empty``): what
stands in its entries ("stale", as if they were a ring), or the last entry that was left, again and again ("oldest").
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from perfkit.machine.core import Microarchitecture
from perfkit.simulators.compiled import inlined

_COUNTERS = 1 << 14  # of each table of the direction predictor
_TARGETS = 1 << 13  # places in each table of the target predictor: enough that few of those remembered share one
_REMEMBERED = 3072  # targets, where the core file does not say: what the makers of several cores state
_HISTORY = 60  # branches that index the last of the tagged tables, where the core file does not say
_SHARES = (0.1, 0.24, 0.5, 1.0)  # of these, what indexes each table
_TARGET_BITS = 5  # that one target adds to their history
_PATHS = (5, 10, 25, 60)  # bits of the history of targets that index each table of the target predictor
_RETURNS = 16  # entries of the return stack, where the core file does not say
_U: Any = np.uint64


class Predictor(NamedTuple):
    """Direction tables, target tables, the return stack.

    ``places`` says where in ``target`` those are that are remembered, ``place_of`` which of ``places`` that is, and
    ``filled`` how many of a group there are. ``meta``: last block, branches, mispredictions, outcomes, calls that are
    open, history of targets, entries of the return stack that hold one of them, the last that was taken, whether an
    empty stack gives that one again, and the state of the numbers that choose whose place is taken.
    """

    bimodal: NDArray[np.int8]
    counter: NDArray[np.int8]
    tag: NDArray[np.int16]
    useful: NDArray[np.int8]
    lengths: NDArray[np.int64]
    last_target: NDArray[np.int64]  # (blocks,)
    target: NDArray[np.int64]  # (tables, _TARGETS)
    target_tag: NDArray[np.int16]
    sure: NDArray[np.int8]
    place_of: NDArray[np.int32]
    places: NDArray[np.int32]  # (groups, targets in each)
    filled: NDArray[np.int64]  # (groups,)
    paths: NDArray[np.int64]
    stack: NDArray[np.int64]
    meta: NDArray[np.int64]


def predictor(core: Microarchitecture, blocks: int) -> Predictor:
    """Return a predictor that has seen nothing, for a program of so many blocks."""
    history = int(core.feature("branch_history", _HISTORY))
    tables, targets = len(_SHARES), len(_PATHS)
    remembered = int(core.feature("indirect_targets", _REMEMBERED))
    of_one = min(remembered, int(core.feature("indirect_targets_per_branch", remembered)))
    return Predictor(
        np.full(_COUNTERS, 1, dtype=np.int8),
        np.zeros((tables, _COUNTERS), dtype=np.int8),
        np.full((tables, _COUNTERS), -1, dtype=np.int16),
        np.zeros((tables, _COUNTERS), dtype=np.int8),
        np.array([max(1, min(60, int(history * share))) for share in _SHARES], dtype=np.int64),
        np.full(blocks, -1, dtype=np.int64),
        np.full((targets, _TARGETS), -1, dtype=np.int64),
        np.full((targets, _TARGETS), -1, dtype=np.int16),
        np.zeros((targets, _TARGETS), dtype=np.int8),
        np.full((targets, _TARGETS), -1, dtype=np.int32),
        np.full((remembered // of_one, of_one), -1, dtype=np.int32),
        np.zeros(remembered // of_one, dtype=np.int64),
        np.array(_PATHS, dtype=np.int64),
        np.full(int(core.feature("return_stack", _RETURNS)), -1, dtype=np.int64),
        np.array([-1, 0, 0, 0, 0, 0, 0, 0, core.feature("return_stack_empty") == "oldest", 1], dtype=np.int64),
    )


@inlined
def _fold(history: Any, length: Any, block: Any, table: Any) -> Any:  # pragma: no cover - compiled
    """Return a hash of a block and the last ``length`` bits of a history."""
    h = history & ((np.int64(1) << length) - 1)
    h = (h ^ (h >> 23) ^ (np.int64(block) * 0x9E3779B1) ^ (table * 0x85EBCA6B)) & 0x7FFFFFFFFFFF
    h = (h ^ (h >> 15)) * 0x2C1B3C6D
    return (h ^ (h >> 19)) & 0x7FFFFFFFFFFF


@inlined
def predict(p: Any, block: Any, taken: Any) -> Any:  # pragma: no cover - compiled
    """Predict whether a block's conditional branch is taken, learn, and return whether the prediction was wrong."""
    bimodal, counter, tag, useful, lengths = p.bimodal, p.counter, p.tag, p.useful, p.lengths
    history = p.meta[3]
    b = _U(np.int64(block) & (_COUNTERS - 1))
    predicted = bimodal[b] >= 2
    provider = -1
    for k in range(len(lengths) - 1, -1, -1):
        h = _fold(history, lengths[_U(k)], block, k)
        if tag[_U(k), _U(h & (_COUNTERS - 1))] == (h >> 20) & 0x7FFF:
            provider = k
            predicted = counter[_U(k), _U(h & (_COUNTERS - 1))] >= 0
            break
    wrong = predicted != taken
    if provider >= 0:
        q, i = _U(provider), _U(_fold(history, lengths[_U(provider)], block, provider) & (_COUNTERS - 1))
        counter[q, i] = min(3, counter[q, i] + 1) if taken else max(-4, counter[q, i] - 1)
        useful[q, i] = max(0, useful[q, i] - 1) if wrong else min(3, useful[q, i] + 1)
    else:
        bimodal[b] = min(3, bimodal[b] + 1) if taken else max(0, bimodal[b] - 1)
    if wrong:
        for k in range(provider + 1, len(lengths)):
            h = _fold(history, lengths[_U(k)], block, k)
            i = h & (_COUNTERS - 1)
            if useful[k, i] == 0:
                tag[k, i] = (h >> 20) & 0x7FFF
                counter[k, i] = 0 if taken else -1
                break
            useful[k, i] -= 1
    p.meta[1] += 1
    p.meta[2] += wrong
    p.meta[3] = (history << 1) | taken
    return wrong


@inlined
def _remember(p: Any, block: Any, where: Any) -> Any:  # pragma: no cover - compiled
    """Make room for a target of a block, at the place of any other of the block's group once they are all taken."""
    group = ((np.int64(block) * 0x9E3779B1) >> 7) % len(p.filled)
    size = p.places.shape[1]
    if p.filled[group] < size:
        place = p.filled[group]
        p.filled[group] += 1
    else:
        p.meta[9] = (p.meta[9] * 1103515245 + 12345) & 0x7FFFFFFF
        place = (p.meta[9] >> 8) % size
        old = p.places[group, place]
        if p.place_of[old // _TARGETS, old % _TARGETS] == group * size + place:  # another group's may be there by now
            p.target_tag[old // _TARGETS, old % _TARGETS] = -1
            p.sure[old // _TARGETS, old % _TARGETS] = 0
    p.places[group, place] = where
    p.place_of[where // _TARGETS, where % _TARGETS] = group * size + place


@inlined
def predict_target(p: Any, block: Any, target: Any) -> Any:  # pragma: no cover - compiled
    """Predict where a block's indirect jump or call goes, learn, and return whether the prediction was wrong."""
    path = p.meta[5]
    predicted = p.last_target[_U(block)]
    provider = -1
    for k in range(len(p.paths) - 1, -1, -1):
        h = _fold(path, p.paths[_U(k)], block, k)
        if p.target_tag[_U(k), _U(h & (_TARGETS - 1))] == (h >> 20) & 0x7FFF:
            provider = k
            predicted = p.target[_U(k), _U(h & (_TARGETS - 1))]
            break
    wrong = predicted != target
    if provider >= 0:
        q, i = _U(provider), _U(_fold(path, p.paths[_U(provider)], block, provider) & (_TARGETS - 1))
        if not wrong:
            p.sure[q, i] = min(3, p.sure[q, i] + 1)
        elif p.sure[q, i] > 0:
            p.sure[q, i] -= 1
        else:
            p.target[q, i] = target
    if wrong:
        for k in range(provider + 1, len(p.paths)):
            h = _fold(path, p.paths[_U(k)], block, k)
            i = h & (_TARGETS - 1)
            if p.sure[k, i] == 0:
                _remember(p, block, k * _TARGETS + i)
                p.target_tag[k, i] = (h >> 20) & 0x7FFF
                p.target[k, i] = target
                break
            p.sure[k, i] -= 1
    p.last_target[_U(block)] = target
    mixed = (target * 0x2C1B3C6D) ^ (target >> 3)
    p.meta[1] += 1
    p.meta[2] += wrong
    p.meta[5] = (path << _TARGET_BITS) ^ (mixed & 0xFF)
    return wrong


@inlined
def call(p: Any, follows: Any) -> Any:  # pragma: no cover - compiled
    """Note where a call returns to."""
    size = len(p.stack)
    p.stack[p.meta[4] % size] = follows
    p.meta[4] += 1
    p.meta[6] = min(size, p.meta[6] + 1)


@inlined
def returns(p: Any, target: Any) -> Any:  # pragma: no cover - compiled
    """Return whether a return to ``target`` is mispredicted; one from beyond the trace is not known to be."""
    if p.meta[4] <= 0:
        return False
    p.meta[4] -= 1
    if p.meta[6] > 0 or not p.meta[8]:
        p.meta[6] = max(0, p.meta[6] - 1)
        p.meta[7] = p.meta[4] % len(p.stack)
    wrong = p.stack[p.meta[7]] != target
    p.meta[1] += 1
    p.meta[2] += wrong
    return wrong
