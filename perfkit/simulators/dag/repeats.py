"""Blocks that repeat: where the engine found before what a block does to a state of the core, it is not found again.

Which cycles a block's nodes take follows from the core's state when it is fetched, the levels that its accesses hit,
and when the values that it loads are stored. A state is written down relative to the cycle of fetch; equal ones have
one number. A *step* is a state, a block and these inputs, with what the engine made of them: the next state, the cycles
closed, and when its stores issued. Taking a step is a look-up, and what steps count is added up at the end. So every
answer is the engine's own; only the paper's machine is followed so (`_Run` in `perfkit.simulators.dag.schedule`).

A state that is new costs as much as some dozens of blocks. Who meets few states again gets no more of them (`CREDIT`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from perfkit.dag.program import DIVIDE, FORWARD, LOAD, STORE, BlockProgram
from perfkit.simulators.compiled import compiled, helper, inlined
from perfkit.simulators.dag.engine import _clean, _row, run
from perfkit.simulators.dag.layout import (
    AT_OP,
    AT_RECORD,
    BASE,
    CODE,
    COUNT,
    COVERED,
    DIRTY,
    DONE,
    END,
    FETCH,
    FIRST_LEVEL,
    IDLE,
    INSTRUCTIONS,
    ISSUED,
    LAST_LOAD,
    LAST_STORE,
    LB_NOW,
    LEAVE,
    LEFT,
    LEVEL,
    LFB_NOW,
    LINE_SHIFT,
    MARGIN,
    NODES,
    OP_BITS,
    PREVIOUS,
    RETIRED,
    ROB,
    ROW_BITS,
    SB_NOW,
    SIZE,
    TAKEN_A,
    TAKEN_B,
    TOP,
    WIDE_BITS,
    WORD_SHIFT,
    Stream,
    Tally,
)
from perfkit.simulators.dag.reuse import INDEX, INDEX_BITS, UNLIMITED, rarely

Ints = npt.NDArray[np.int64]
_U = np.uint64

# Scalars: the current state (-1: not known), the cycle of fetch and whether the engine's arrays hold that state, how
# many cycles they hold and from which on, states, steps, words used, and what may still be spent on new states.
STATE, NOW, REAL, ROWS, ROWS_FROM, STATES, STEPS, USED, CREDIT, SCALARS = range(10)
# Columns of a step, by its place in the table: one more than its state and block, levels of its last accesses, how
# many words it depends on beside these, their place in `words` (what it does follows them), next state, cycles that
# fetch goes on, how often it was taken, and the place of the cycles in which its stores issue (0: it has none).
_WHO, _LEVELS, _BESIDE, _MORE, _NEXT, _GOES_ON, _TAKEN, _STORES, _STEP_BITS = 0, 1, 2, 3, 4, 5, 6, 7, 3
_STEP_TABLE, _STATE_TABLE, _WORDS, _LOG, _LONGEST = 1 << 16, 1 << 15, 1 << 22, 1 << 12, 1 << 15
# Three bits tell what an access hits, a word what so many of them hit; such a word, beside those that tell when values
# are there that are loaded.
_MOST_ACCESSES, _IN_A_WORD, _HITS = 80, 20, np.int64(1 << 62)
NOWHERE = 4
_OF_BLOCK, _PARTLY = np.int64(1 << 31), -1  # what an access tells of a store before it
_TOO_LONG = -2  # a state that is not followed
# A new state costs one; a block that the engine takes, or a step, earns a part. Who has nothing left lets it take many.
_BEGIN, _BLOCK, _STEP, _PART, _PLAIN = 1024, 1, 32, 512, 4096
_NEVER, _ROWS_BITS = -(1 << 60), 8


class Repeats(NamedTuple):
    """What is known of states and steps; of each block whether it has steps, and its accesses.

    An access is its words, and above them whether it stores.
    """

    scalars: Ints
    steps: Ints
    places: Ints
    state_table: npt.NDArray[np.int32]
    states: Ints
    words: Ints
    log: Ints
    found: Ints
    may: npt.NDArray[np.bool_]
    first: Ints
    accesses: Ints


def new_repeats(program: BlockProgram, ops: Ints) -> Repeats:
    """Return nothing known of a program."""
    table = ops.reshape(-1, 1 << OP_BITS)
    code = table[:, CODE]
    is_access = (code == LOAD) | (code == STORE)
    first = np.concatenate(([0], np.cumsum(is_access)))[program.block_ops]
    accesses = table[is_access, SIZE] << 1 | (code[is_access] == STORE)
    may = (np.diff(first) == program.block_addresses) & (program.block_addresses <= _MOST_ACCESSES)
    scalars = np.zeros(SCALARS, dtype=np.int64)
    scalars[STATE], scalars[REAL], scalars[CREDIT], scalars[USED] = -1, 1, _BEGIN * _PART, 1
    # All but a little of this is never used by a small program, and so takes no memory.
    steps, states = np.zeros(_STEP_TABLE << _STEP_BITS, dtype=np.int64), np.zeros(_STATE_TABLE, dtype=np.int64)
    places, words, log, found = (np.empty(n, dtype=np.int64) for n in (_STEP_TABLE // 2, _WORDS, _LOG, _LONGEST))
    no_states: npt.NDArray[np.int32] = np.zeros(_STATE_TABLE, dtype=np.int32)
    return Repeats(scalars, steps, places, no_states, states, words, log, found, may, first, accesses)


@inlined
def _mixed(one: Any, other: Any) -> Any:
    mixed = (one ^ (other * np.int64(-7046029254386353131))) * np.int64(-4417276706812531889)
    return mixed ^ (mixed >> np.int64(29))


@helper
def _written_down(
    found: Any, saved: Any, rings: Any, units: Any, queues: Any, frames: Any, tally: Any, core: Any
) -> Any:
    """Write the engine's state into `found`, relative to fetch; return how long it is (0: too long) and its cycles.

    What was before fetch is as good as at fetch: nothing is compared with an earlier cycle.
    """
    fetch, base = saved[FETCH], saved[BASE]
    # Before anything is written: a long frame has more values than there is room.
    if 64 + tally.busy.shape[0] + units.owed.shape[0] + saved[TOP] > found.shape[0]:
        return np.int64(0), np.int64(0)
    found[1], found[2], found[3] = saved[LEFT], saved[TAKEN_A], saved[TAKEN_B]
    found[4], found[5] = saved[PREVIOUS], saved[END] - fetch
    n = np.int64(6)
    for place in (LB_NOW, SB_NOW, LFB_NOW, RETIRED, LAST_LOAD, LAST_STORE):
        found[n] = max(saved[place] - fetch, 0)
        n += 1
    found[n] = tally.busy[0]
    n += 1
    for k in range(1, tally.busy.shape[0]):
        found[n] = max(tally.busy[k] - fetch, 0)
        n += 1
    for k in range(units.owed.shape[0]):
        found[n] = units.owed[k]
        n += 1
    for k in range(saved[TOP]):
        found[n] = max(frames.ready[base + k] - fetch, 0)
        n += 1
    rob, mask = queues.rob, queues.rob.shape[0] - 1
    count = core[ROB] if mask > 0 else np.int64(0)
    if n + count + 64 > found.shape[0]:
        return np.int64(0), np.int64(0)
    first = n
    n += 1
    for k in range(saved[NODES] - count, saved[NODES]):
        if rob[k & mask] > fetch:
            found[n] = rob[k & mask] - fetch
            n += 1
    found[first] = n  # those before are free: entries leave in order
    mask = (rings.rows.shape[0] >> ROW_BITS) - 1
    rows = rings.rows
    last: Any = np.int64(0)
    for cycle in range(min(saved[END] - fetch + core[MARGIN], mask)):
        i = _row(fetch + cycle, mask)
        busy, wide = rows[i], False
        if rarely(busy & DIRTY != 0):
            last = cycle + 1
            for k in range(1 << WIDE_BITS):
                wide |= rings.wide[(((fetch + cycle) & mask) << WIDE_BITS) + k] != 0
            if not wide:
                busy &= ~DIRTY
        given = rows[i + _U(LEAVE)] | rows[i + _U(LEAVE + 1)] | rows[i + _U(ISSUED)]
        if busy == core[IDLE] and given == 0:
            continue
        if n + 5 + (1 << WIDE_BITS) > found.shape[0]:
            return np.int64(0), np.int64(0)
        last = cycle + 1
        found[n], found[n + 1] = cycle, busy
        found[n + 2], found[n + 3], found[n + 4] = rows[i + _U(LEAVE)], rows[i + _U(LEAVE + 1)], rows[i + _U(ISSUED)]
        n += 5
        if rarely(wide):
            for k in range(1 << WIDE_BITS):
                found[n] = rings.wide[(((fetch + cycle) & mask) << WIDE_BITS) + k]
                n += 1
    found[0] = n
    return n, last


@helper
def _made_real(
    repeats: Any, saved: Any, rings: Any, units: Any, queues: Any, frames: Any, tally: Any, core: Any
) -> None:
    """Bring the engine's arrays into the current state."""
    s, words = repeats.scalars, repeats.words
    if s[REAL]:
        return
    mask = (rings.rows.shape[0] >> ROW_BITS) - 1
    rows = rings.rows
    for cycle in range(s[ROWS_FROM], s[ROWS_FROM] + s[ROWS]):
        i = _row(cycle, mask)
        _clean(cycle, mask, core[IDLE], rings)
        rows[i + _U(LEAVE)], rows[i + _U(LEAVE + 1)], rows[i + _U(ISSUED)] = 0, 0, 0
    at, fetch, base = repeats.states[s[STATE]], s[NOW], saved[BASE]
    end = at + words[at]
    saved[FETCH], saved[LEFT], saved[TAKEN_A], saved[TAKEN_B] = fetch, words[at + 1], words[at + 2], words[at + 3]
    saved[PREVIOUS], saved[END] = words[at + 4], words[at + 5] + fetch
    n = at + 6
    for place in (LB_NOW, SB_NOW, LFB_NOW, RETIRED, LAST_LOAD, LAST_STORE):
        saved[place] = words[n] + fetch
        n += 1
    tally.busy[0] = words[n]
    n += 1
    for k in range(1, tally.busy.shape[0]):
        tally.busy[k] = words[n] + fetch
        n += 1
    for k in range(units.owed.shape[0]):
        units.owed[k] = words[n]
        n += 1
    for k in range(saved[TOP]):
        frames.ready[base + k] = words[n] + fetch
        n += 1
    rob, last_of_rob = queues.rob, queues.rob.shape[0] - 1
    rob[:] = 0
    left = at + words[n]
    n += 1
    for k in range(saved[NODES] - (left - n), saved[NODES]):
        rob[k & last_of_rob] = words[n] + fetch
        n += 1
    last = np.int64(0)
    while n < end:
        cycle = words[n] + fetch
        i = _row(cycle, mask)
        last = words[n] + 1
        rows[i] = words[n + 1]
        rows[i + _U(LEAVE)], rows[i + _U(LEAVE + 1)], rows[i + _U(ISSUED)] = words[n + 2], words[n + 3], words[n + 4]
        n += 5
        if rows[i] & DIRTY:
            for k in range(1 << WIDE_BITS):
                rings.wide[((cycle & mask) << WIDE_BITS) + k] = words[n]
                n += 1
    s[ROWS_FROM], s[ROWS], s[REAL] = fetch, last, 1


@helper
def _numbered(repeats: Any, length: Any) -> Any:
    """Return the number of the state that was written down, a new one if need be; -1: there is no room."""
    s, words, found = repeats.scalars, repeats.words, repeats.found
    mixed = np.int64(0)
    for k in range(length):
        mixed = _mixed(mixed, found[k])
    at = mixed & (_STATE_TABLE - 1)
    while repeats.state_table[at] > 0:
        state = np.int64(repeats.state_table[at]) - 1
        begin, same = repeats.states[state], True
        for k in range(length):
            if words[begin + k] != found[k]:
                same = False
                break
        if same:
            return state
        at = (at + 1) & (_STATE_TABLE - 1)
    if s[STATES] >= _STATE_TABLE // 2 or s[USED] + length > words.shape[0]:
        return np.int64(-1)
    state = s[STATES]
    repeats.state_table[at] = state + 1
    repeats.states[state] = s[USED]
    for k in range(length):
        words[s[USED] + k] = found[k]
    s[USED] += length
    s[STATES] += 1
    return state


@helper
def _here(repeats: Any, saved: Any, rings: Any, units: Any, queues: Any, frames: Any, tally: Any, core: Any) -> Any:
    """Return the number of the state that the engine's arrays hold, or -1."""
    s = repeats.scalars
    length, last = _written_down(repeats.found, saved, rings, units, queues, frames, tally, core)
    if length == 0:
        return np.int64(_TOO_LONG)
    s[NOW], s[REAL], s[ROWS_FROM], s[ROWS] = saved[FETCH], 1, saved[FETCH], last
    return _numbered(repeats, length)


@helper
def add_up(repeats: Any, program: Any, ops: Any, saved: Any, tally: Any) -> None:
    """Count what the steps did since they were counted last, and forget states and steps."""
    s, steps, words = repeats.scalars, repeats.steps, repeats.words
    for number in range(s[STEPS]):
        at = repeats.places[number]
        block, taken, more = (steps[at + _WHO] - 1) & INDEX, steps[at + _TAKEN], steps[at + _MORE]
        steps[at + _WHO] = 0
        if taken == 0:
            continue
        saved[INSTRUCTIONS] += taken * program.block_instructions[block]
        saved[COVERED] += taken * program.block_covered[block]
        hits = more
        more += steps[at + _BESIDE]
        for k in range(words[more]):
            tally.histogram[words[more + 1 + 2 * k]] += taken * words[more + 2 + 2 * k]
        levels = np.int64(0)
        seen: Any = np.int64(0)
        in_word: Any = np.int64(0)
        accesses = program.block_addresses[block]
        for op in range(program.block_ops[block], program.block_ops[block + 1]):
            code, count = ops[(op << OP_BITS) + CODE], ops[(op << OP_BITS) + COUNT]
            if code < 0 or code >= FORWARD:
                continue
            if code > DIVIDE:
                if seen % _IN_A_WORD == 0:
                    in_word = min(accesses - seen, _IN_A_WORD)
                    if seen + in_word == accesses:
                        levels = steps[at + _LEVELS]
                    else:
                        while words[hits] & _HITS == 0:
                            hits += 1
                        levels = words[hits]
                        hits += 1
                in_word -= 1
                seen += 1
                level, hit = ops[(op << OP_BITS) + LEVEL], levels >> 3 * in_word & 7
                count += FIRST_LEVEL + (hit if level < 0 and hit != NOWHERE else level)
            tally.nodes[count] += taken
    for at in range(repeats.state_table.shape[0] if s[STATES] > 0 else 0):
        repeats.state_table[at] = 0
    s[STATES], s[STEPS], s[USED], s[STATE] = 0, 0, 1, -1


@helper
def _noted(
    repeats: Any, place: Any, who: Any, levels: Any, waits: Any, begun: Any, records: Any, where: Any, at: Any,
    memory: Any, core: Any,
) -> None:  # fmt: skip
    """Note a step that the engine took from cycle `begun` on; its state and cycle are those of `repeats.scalars`."""
    s, words, log, steps = repeats.scalars, repeats.words, repeats.log, repeats.steps
    block = (who - 1) & INDEX
    first, count = repeats.first[block], repeats.first[block + 1] - repeats.first[block]
    n = s[USED]
    if n + waits + 2 * log[0] + count + 8 > words.shape[0] or 2 * log[0] + 1 >= log.shape[0]:
        return
    steps[place + _MORE], steps[place + _BESIDE] = n, waits
    for k in range(waits):
        words[n] = repeats.found[repeats.found.shape[0] - 1 - k]
        n += 1
    for k in range(2 * log[0] + 1):
        words[n] = log[k]
        n += 1
    stored = np.int64(0)
    if memory.stored.shape[0] > 0:
        shift = core[LINE_SHIFT] - core[WORD_SHIFT]
        for k in range(count):  # of two to the same words only the last one's cycle can be seen, and ever matters
            x = where[at + 1 + k]
            if repeats.accesses[first + k] & 1 and x >= 0:
                word = _word(x & INDEX, records[at + 1 + k], shift, core)
                if stored == 0:
                    stored = n
                words[n] = memory.stored[word] - begun
                n += 1
    s[USED] = n
    steps[place + _STORES] = stored
    steps[place + _LEVELS], steps[place + _NEXT], steps[place + _GOES_ON] = levels, s[STATE], s[NOW] - begun
    steps[place + _TAKEN], steps[place + _WHO] = 0, who
    repeats.places[s[STEPS]] = place
    s[STEPS] += 1


@inlined
def _word(x: Any, address: Any, shift: Any, core: Any) -> Any:
    """Return the word of an access: its place in `Memory.stored`."""
    return (x << shift) + ((address >> core[WORD_SHIFT]) & ((np.int64(1) << shift) - 1))


@inlined
def _stored_before(
    word: Any, word_end: Any, stores: Any, at: Any, k: Any, first: Any, accesses: Any, where: Any, records: Any,
    core: Any,
) -> Any:  # fmt: skip
    """Return which earlier store of a block has the words of its access `k`: 0 for none, `_PARTLY` for some of them."""
    shift = core[LINE_SHIFT] - core[WORD_SHIFT]
    for other in range(k - 1, -1, -1):
        x = where[_U(at + 1 + other)]
        if accesses[_U(first + other)] & 1 and x >= 0:
            x &= INDEX
            begin = _word(x, records[_U(at + 1 + other)], shift, core)
            end = min(begin + (accesses[_U(first + other)] >> 1), (x + 1) << shift)
            if word < end and word_end > begin:
                same = word == begin and word_end == end if stores else word >= begin and word_end <= end
                return _OF_BLOCK | other if same else np.int64(_PARTLY)
    return np.int64(0)


@compiled("layout", "reuse", "core", "memory.cache", "engine", "perfkit/dag/program", nogil=True, error_model="python")
def run_repeats(
    stream: Any, code: Any, parameters: Any, units: Any, saved: Any, rings: Any, queues: Any, memory: Any, stack: Any,
    frames: Any, tally: Any, record: Any, repeats: Any,
) -> Any:  # fmt: skip
    """Schedule the nodes of the records as `run` does for the paper's machine, by steps where these are known.

    `saved[AT_RECORD]` below 0: only bring everything up to date, and count what the steps did.
    """
    program, core, s = code.program, parameters, repeats.scalars
    records, where, steps, words, accesses = (
        stream.records,
        stream.where,
        repeats.steps,
        repeats.words,
        repeats.accesses,
    )
    logged = Tally(tally.histogram, tally.nodes, tally.busy, repeats.log)
    follows = memory.stored.shape[0] > 0
    shift = core[LINE_SHIFT] - core[WORD_SHIFT]
    at = saved[AT_RECORD]
    if at < 0:
        if s[STATE] >= 0:
            _made_real(repeats, saved, rings, units, queues, frames, tally, core)
        add_up(repeats, program, code.ops, saved, tally)
        return DONE
    state, fetch, credit = s[STATE], s[NOW], s[CREDIT]
    room = repeats.found.shape[0] - 1
    while at < stream.length:
        block = records[_U(at)]
        after = at + 1 + program.block_addresses[_U(block)]
        place, levels, waits = np.int64(-1), np.int64(0), np.int64(0)
        if not rarely(state < 0) and repeats.may[_U(block)]:
            first = repeats.first[_U(block)]
            who = ((state << INDEX_BITS) | block) + 1
            mixed, alone, known, begin, end = who, True, False, UNLIMITED, np.int64(0)
            for k in range(after - at - 1):
                if rarely(k % _IN_A_WORD == 0) and k > 0:
                    repeats.found[_U(room - waits)] = levels | _HITS
                    mixed, levels = _mixed(mixed, levels), np.int64(0)
                    waits += 1
                x = where[_U(at + 1 + k)]
                levels = levels << 3 | (np.int64(NOWHERE) if rarely(x < 0) else x >> INDEX_BITS)
                if follows and x >= 0:
                    x &= INDEX
                    stores = accesses[_U(first + k)] & 1
                    if stores or end > 0 or rarely(memory.lines[_U(2 * x + 1)] > fetch):
                        word = _word(x, records[_U(at + 1 + k)], shift, core)
                        word_end = min(word + (accesses[_U(first + k)] >> 1), (x + 1) << shift)
                        latest, tells = fetch, np.int64(0)
                        if word < end and word_end > begin:
                            tells = _stored_before(word, word_end, stores, at, k, first, accesses, where, records, core)
                            alone &= tells != _PARTLY
                        if stores:
                            begin, end = min(begin, word), max(end, word_end)
                        elif tells == 0 and rarely(memory.lines[_U(2 * x + 1)] > fetch):
                            for w in range(word, word_end):
                                latest = max(latest, memory.stored[_U(w)])
                            tells = latest - fetch
                        if rarely(tells != 0):
                            repeats.found[_U(room - waits)] = (k << INDEX_BITS) | tells
                            mixed = _mixed(mixed, repeats.found[_U(room - waits)])
                            waits += 1
            place = _mixed(mixed, levels) & (_STEP_TABLE - 1)
            while alone and steps[_U((place << _STEP_BITS) + _WHO)] != 0:
                row = place << _STEP_BITS
                if steps[_U(row + _WHO)] == who and steps[_U(row + _LEVELS)] == levels:
                    known = steps[_U(row + _BESIDE)] == waits
                    if known and rarely(waits > 0):
                        more = steps[_U(row + _MORE)]
                        for k in range(waits):
                            known &= words[_U(more + k)] == repeats.found[_U(room - k)]
                    if known:
                        break
                place = (place + 1) & (_STEP_TABLE - 1)
            place = place << _STEP_BITS if alone else np.int64(-1)
            if known:
                steps[_U(place + _TAKEN)] += 1
                issue = steps[_U(place + _STORES)]
                if rarely(issue > 0):
                    for k in range(after - at - 1):
                        x = where[_U(at + 1 + k)]
                        if accesses[_U(first + k)] & 1 and x >= 0:
                            x &= INDEX
                            word, cycle = _word(x, records[_U(at + 1 + k)], shift, core), fetch + words[_U(issue)]
                            for w in range(word, min(word + (accesses[_U(first + k)] >> 1), (x + 1) << shift)):
                                memory.stored[_U(w)] = cycle
                                memory.lines[_U(2 * x + 1)] = max(cycle, memory.lines[_U(2 * x + 1)])
                            issue += 1
                state = steps[_U(place + _NEXT)]
                fetch += steps[_U(place + _GOES_ON)]
                s[REAL] = 0
                credit += _STEP
                at = after
                continue

        # The engine itself: for this block, or for many without a look at their states.
        s[STATE], s[NOW] = state, fetch
        if state >= 0:
            _made_real(repeats, saved, rings, units, queues, frames, tally, core)
        if s[STEPS] >= _STEP_TABLE // 2:
            add_up(repeats, program, code.ops, saved, tally)
            state, place = np.int64(-1), np.int64(-1)
        many = credit < 0 or saved[AT_OP] >= 0
        if many and saved[AT_OP] < 0:
            blocks = 1
            while blocks < _PLAIN and after < stream.length:
                after += 1 + program.block_addresses[_U(records[_U(after)])]
                blocks += 1
            credit += blocks * _BLOCK
        saved[AT_RECORD] = at
        s[STATE], s[CREDIT] = -1, credit
        repeats.log[0] = 0
        part = Stream(records, where, after)
        if many:
            status = run(
                part, code, parameters, units, saved, rings, queues, memory, stack, frames, tally, record, None
            )
        else:
            status = run(
                part, code, parameters, units, saved, rings, queues, memory, stack, frames, logged, record, None
            )
        if status != DONE:
            return status
        begun = fetch
        state = np.int64(-1)
        if not many or credit >= 0:
            state = _here(repeats, saved, rings, units, queues, frames, tally, core)
            credit -= _PART * (1 + (s[ROWS] >> _ROWS_BITS))  # of many cycles to come it is dear to write down
            if state == _TOO_LONG:
                credit, state = _NEVER, np.int64(-1)
            elif state < 0:  # no room: begin anew
                add_up(repeats, program, code.ops, saved, tally)
            elif place >= 0 and not many:
                s[STATE] = state
                _noted(repeats, place, who, levels, waits, begun, records, where, at, memory, core)
            fetch = saved[FETCH]
        at = after
    s[STATE], s[NOW], s[CREDIT] = state, fetch, credit
    return DONE
