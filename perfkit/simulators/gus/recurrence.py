"""Algorithm 1 of the Gus paper, the one place where it is written.

All times are whole ticks (`perfkit.simulators.gus.timing`). The pass keeps, for every resource, register, recent
store and line of memory, the earliest time at which it is available, and moves through the instructions in order. What
it is given decides what numba compiles:

- ``spent``: every tick by which retirement advances is added to its instruction and cause;
- ``taint``: every constraint is told to the hooks of `perfkit.simulators.gus.hooks`;
- arrays of one time each, or of rows of `perfkit.simulators.gus.lanes.LANES` times (then neither of the above).

What is added to the printed algorithm, with its reason:

- a load's latency delays its memory operand, not its register operands (micro-fused forms);
- a value forwarded from a store arrives after the store-forward latency;
- retirement has a width and is in order; loads and stores hold their buffer entries until they retire and are
  written, an L1 miss holds a line-fill buffer until its line arrives;
- latency and bandwidth of each memory level are separate; an access that crosses a line uses two lines;
- a mispredicted branch delays the next dispatch (the paper predicts perfectly), and so does a taken one on cores that
  take but so many in a cycle, or pairs of them;
- a load of bytes from several stores waits until these are written; on cores that rename memory, one of a whole
  register that was stored before has the register's value without loading;
- a line that is on its way is not in L1: accesses to it wait until it arrives;
- an access to a page that no TLB holds waits for the page walk, one that only the second TLB holds for that TLB; both
  are given the part of the time in which they hold up retirement, and not the rest of the access; where the
  core file has the number of page walkers, only so many walks are on their way at a time;
- the front end gets its uops in groups from the micro-op cache, one line of code and one taken branch at most in each,
  where the core file has the figure; groups may run ahead of dispatch;
- stores into one aligned piece of a line that follow each other are written together, one across its end in two parts,
  where the core file names the piece; otherwise stores to one line, or pairs of them;
- lines that come into one set of L1 come one after the other, where the core file has the figure;
- a load across the end of a line uses its ports again and takes longer; a written line that a level gives up takes the
  next level's bandwidth, where the core file has figures of these;
- vector operations hold a scheduler's entry until they begin, where the core file gives its size.
"""

from typing import Any

import numpy as np

from perfkit.simulators.compiled import compiled, inlined
from perfkit.simulators.gus import hooks as to
from perfkit.simulators.gus.lanes import gather, later, like, load, reaches, store, times
from perfkit.simulators.gus.schedulers import admit, freed_in, hold
from perfkit.simulators.gus.timing import (
    ADDRESSES,
    AHEAD,
    CROSSES,
    DATA,
    EARLY,
    FILL_BUFFERS,
    FIRST_SET,
    FLAGS,
    FORWARD,
    FRONT_END,
    LATE,
    LATENCY,
    LEVEL_BANDWIDTH,
    LEVEL_LATENCY,
    LOAD_BUFFER,
    LOADS,
    MISPREDICTION,
    NEVER,
    NEW_LINE,
    OPERANDS,
    PORTS,
    QUICK,
    READ,
    RETIRE,
    ROB,
    SCHEDULED,
    SCHEDULED_SHIFT,
    SCHEDULER,
    SET_FILL,
    SLOTS,
    STORE_BUFFER,
    STORES,
    TICKS,
    TRANSLATION,
    VECTOR,
    WALKERS,
    WALKING,
    WRITES,
)
from perfkit.simulators.memory.memory import (
    BLOCKED,
    DISTANCE_SHIFT,
    FORWARDED,
    LEVEL,
    MISPREDICTED,
    PAGE_SPLIT,
    PAGE_WALK,
    PREFETCH_SHIFT,
    RENAMED,
    RETAGGED,
    SECOND_SHIFT,
    SPLIT,
    TAKEN,
    WALK,
    WALK_SHIFT,
    WRITE_BACK_SHIFT,
    WRITE_BACKS,
)
from perfkit.simulators.program.program import REGISTERS

_U: Any = np.uint64  # an index of unsigned type saves numba the test for a negative one
_I: Any = np.int64


@inlined
def _field(about: Any, place: Any) -> Any:  # pragma: no cover - compiled
    """Return a count, or the flags, of an instruction."""
    return (about >> place[0]) & place[1]


@inlined
def _freed(ring: Any, place: Any, size: Any, sizes: Any) -> Any:  # pragma: no cover - compiled
    """Return when the entry that ``place`` takes in a buffer was given free: its last user lies ``size`` before."""
    if size > 0:  # the same in every lane
        return load(ring, (place - size) & (len(ring) - 1))
    return gather(ring, place, sizes)


@inlined
def _waits(  # pragma: no cover - compiled
    taint: Any,
    spent: Any,
    point: Any,
    count: Any,
    t: Any,
    v: Any,
    kind: Any,
    place: Any,
    n: Any,
    cause: Any,
    because: Any,
) -> Any:
    """Let a point whose time is t wait for an entry that is available at v.

    Return its time, its number of constraints, and its cause: ``because`` where it had to wait.
    """
    if taint is not None:
        count = to.constrain(taint, point, count, t, v, kind, place, n)
    if spent is not None and v > t:
        cause = because
    return later(t, v), count, cause


@inlined
def _used(  # pragma: no cover - compiled
    taint: Any, spent: Any, point: Any, count: Any, t: Any, cause: Any, uses: Any, because: Any, kind: Any, free: Any,
    q: Any, cost: Any, disp: Any, n: Any,
) -> Any:  # fmt: skip
    """Let a point whose time is t wait for a port or a level's bandwidth, which is in use for ``cost`` from there on.

    ``free`` is when each of its kind is; return the time, number of constraints, cause and uses.
    """
    v = load(free, q)
    if taint is not None:
        count = to.constrain(taint, point, count, t, v, kind, q, n)
        uses = to.use(taint, kind, q, uses, v, disp, n)
    if spent is not None and v > t:
        cause = because
    store(free, q, later(v, disp) + cost)
    return later(t, v), count, cause, uses


@inlined
def _grouped(  # pragma: no cover - compiled
    into: Any, flags: Any, lined: Any, place: Any, constants: Any, counts: Any, group: Any, most: Any, fe: Any,
    disp: Any, costs: Any, now: Any,
) -> Any:  # fmt: skip
    """Front end: a full group of uops is followed by another; return when its uops are there, and the next's counts."""
    grouped, crowded = counts[0] + place, counts[1] + constants
    if grouped > group or crowded > most or into & TAKEN or (flags & NEW_LINE and not lined):
        grouped, crowded = place, constants
        fetch = load(costs.fetch, 0)
        opened = later(load(now, 8) + fetch, disp + times(fetch, -AHEAD))
        store(now, 8, opened)
        fe = later(fe, opened)
    return fe, (grouped, crowded)


@inlined
def _entered(  # pragma: no cover - compiled
    taint: Any, spent: Any, count: Any, disp: Any, why: Any, u: Any, flags: Any, scheduled: Any, slots: Any, loads: Any,
    stores: Any, queued: Any, sizes: Any, costs: Any, state: Any, n: Any,
) -> Any:  # fmt: skip
    """Dispatch: an entry in every buffer that the instruction needs; return the time, constraints and cause.

    ``sizes`` are those of the reorder, load and store buffers and of the queue of vector operations.
    """
    rob, lb, sb, queue = sizes
    if u > 0:
        v, at = _freed(state.rob, slots + u - 1, rob, costs.rob), (slots + u - 1 - rob) & (len(state.rob) - 1)
        disp, count, why = _waits(taint, spent, to.DISPATCH, count, disp, v, to.BY_ROB, at, n, why, ROB)
    if flags & LOADS:
        v, at = _freed(state.loads, loads, lb, costs.load_buffer), (loads - lb) & (len(state.loads) - 1)
        disp, count, why = _waits(taint, spent, to.DISPATCH, count, disp, v, to.BY_LOADS, at, n, why, LOAD_BUFFER)
    if flags & STORES:
        v, at = _freed(state.stores, stores, sb, costs.store_buffer), (stores - sb) & (len(state.stores) - 1)
        disp, count, why = _waits(taint, spent, to.DISPATCH, count, disp, v, to.BY_STORES, at, n, why, STORE_BUFFER)
    if scheduled:
        v, at = _freed(state.queue, queued, queue, costs.vector_queue), (queued - queue) & (len(state.queue) - 1)
        disp, count, why = _waits(taint, spent, to.DISPATCH, count, disp, v, to.BY_QUEUE, at, n, why, SCHEDULER)
    return disp, count, why


@inlined
def _led(  # pragma: no cover - compiled
    into: Any, flags: Any, lined: Any, fe: Any, disp: Any, costs: Any, now: Any
) -> Any:
    """Front end: a line of code or a taken branch begins another read of it; return when its uops are there."""
    if lined and (into & TAKEN or flags & NEW_LINE):
        fetch = load(costs.fetch, 0)
        read = 2 if into & TAKEN and flags & CROSSES else 1
        opened = later(load(now, 9) + times(fetch, read), disp + times(fetch, -AHEAD))
        store(now, 9, opened)
        fe = later(fe, opened)
    return fe


@inlined
def _translated(  # pragma: no cover - compiled
    taint: Any,
    spent: Any,
    walk: Any,
    got: Any,
    which: Any,
    no: Any,
    uses: Any,
    disp: Any,
    n: Any,
    costs: Any,
    level: Any,
) -> Any:
    """Load: the address's page is looked for; return the access's time, cause, constraints and the uses."""
    if walk == PAGE_WALK:
        cost, cause = load(costs.walk, WALKING), TRANSLATION + walk - 1
        got, no, which, uses = _used(
            taint, spent, to.ACCESS, no, got, which, uses, cause, to.BY_LEVEL, level, WALKERS, cost, disp, n
        )
    if walk:
        got = got + load(costs.walk, walk)
    return got, which, no, uses


@inlined
def _moved(  # pragma: no cover - compiled
    taint: Any, spent: Any, code: Any, level: Any, got: Any, which: Any, no: Any, uses: Any, disp: Any, n: Any,
    costs: Any, s_level: Any,
) -> Any:  # fmt: skip
    """Load: a line comes from beyond L1, through every level's bandwidth; return as `_translated`.

    A prefetch costs no latency, but the access that asks for it waits for the bandwidth.
    """
    fetched = (code >> PREFETCH_SHIFT) & LEVEL
    for z in range(1, level + max(fetched, 1)):
        q = z if z <= level else z - level + 1
        cost, cause = load(costs.line, q), LEVEL_BANDWIDTH + q
        got, no, which, uses = _used(
            taint, spent, to.ACCESS, no, got, which, uses, cause, to.BY_LEVEL, s_level, q, cost, disp, n
        )
    if code & WRITE_BACKS:  # nothing waits for them, but they take bandwidth
        for q in range(1, 4):
            if code >> (WRITE_BACK_SHIFT - 1 + q) & 1:
                v = load(s_level, q)
                if taint is not None:
                    uses = to.use(taint, to.BY_LEVEL, q, uses, v, disp, n)
                store(s_level, q, later(v, disp) + load(costs.back, q))
    return got, which, no, uses


@inlined
def _arrived(  # pragma: no cover - compiled
    taint: Any, spent: Any, code: Any, level: Any, vector: Any, i: Any, line: Any, place: Any, got: Any, which: Any,
    no: Any, newest: Any, n: Any, costs: Any, state: Any, lines: Any,
) -> Any:  # fmt: skip
    """Load: the value comes from its level, its line or the store that has it; return its time, cause, constraints."""
    got = got + load(costs.load, i) + load(costs.beyond, level + vector)
    if code & SPLIT:
        got = got + load(costs.split, 0)
    if level == 0 and reaches(newest, got):  # a hit, but the line may be on its way
        v = load(lines.arrival, line)
        if taint is not None:
            no = to.constrain(taint, to.ACCESS, no, got, v, to.BY_LINE, line, n)
        if spent is not None and v > got:
            which = LEVEL_LATENCY + lines.origin[_U(line)]
        got = later(got, v)
    if code & BLOCKED:
        v = load(state.stores, place) + load(costs.forward, 2)
        got, no, which = _waits(taint, spent, to.ACCESS, no, got, v, to.BY_STORES, place, n, which, FORWARD)
    elif code & FORWARDED:
        v = load(state.data, place) + load(costs.forward, vector >> 2)
        got, no, which = _waits(taint, spent, to.ACCESS, no, got, v, to.BY_DATA, place, n, which, FORWARD)
    return got, which, no


@inlined
def _charged(  # pragma: no cover - compiled
    spent: Any, i: Any, cause: Any, walked: Any, a: Any, before: Any, ret: Any, costs: Any
) -> None:
    """Retire: charge an instruction with the ticks by which retirement advanced, by cause."""
    part = 0
    if walked:  # as much of the translation, which begins with the address, as retirement waited for
        part = max(min(a + load(costs.walk, walked), ret) - later(a, before), 0)
        spent[_U(i), _U(TRANSLATION + walked - 1)] += part
    spent[_U(i), _U(cause)] += ret - before - part


@inlined
def _committed(  # pragma: no cover - compiled
    line: Any, split_store: Any, page_split: Any, written: Any, pieces: Any, in_pairs: Any, costs: Any
) -> Any:
    """Retire: write a store to L1 after the others; return when, and the pieces of lines that were written last.

    ``pieces`` are the one before the last, the last, and whether that is a pair already.
    """
    line_before, line_last, paired = pieces
    runs = in_pairs > 1
    same_line = line == line_last and (runs or not paired) if in_pairs else line in (line_last, line_before)
    paired = 1 if same_line and not runs else 0
    if line != line_last:
        line_before, line_last = line_last, line
    written = written + load(costs.commit, 0 if same_line else 1)
    if split_store:
        written = written + load(costs.commit, 1)
        paired = 1
        if runs:  # its second part goes together with what comes next into that piece
            line_last = line + 1
    if page_split:
        written = written + load(costs.page_split, 0)
    return written, (line_before, line_last, paired)


@compiled(
    "gus.causal",
    "gus.exact",
    "gus.hooks",
    "gus.lanes",
    "gus.schedulers",
    "gus.timing",
    "memory.forwarding",
    "memory.memory",
    "program.program",
    nogil=True,
)
def simulate(  # pragma: no cover - compiled
    window: Any, program: Any, costs: Any, state: Any, lines: Any, spent: Any, taint: Any
) -> None:
    """Simulate one window: dispatch, load, execute, retire, each instruction in turn.

    Stages that need few of the pass's many times are functions of their own, all inlined. The last of them (`_used`,
    `_grouped`, `_entered`) took 0.98 to 0.99 of the time of the pass with these written out (plain, causality, lanes;
    medians of 15 pairs of fresh processes of 5 interleaved runs, at a load of 10 on two processors). Compare fresh
    processes: in one pair, 15 interleaved runs gave from 0.85 to 1.11 for these changes and parts of them. What is left
    of the load and execution stages reads and writes most of the pass's times, and would return nearly all that it is
    given.

    ``window`` is a `perfkit.simulators.memory.memory.Window`, ``program`` a `Static`, then `Costs`, a `State` and
    `LineArrivals`; ``spent`` is (instructions, causes) or None; ``taint`` is None or what hooks know.
    """
    stream, control, w_granule, w_code, w_size = window.stream, window.control, window.granule, window.code, window.size
    block_start, block_use, block_register, block_operand = (
        program.block_start,
        program.block_use,
        program.block_register,
        program.block_operand,
    )
    head, p_use, p_register, p_operand = program.head, program.use, program.register, program.operand
    c_front, c_retire, c_use = costs.front_end, costs.retire, costs.use
    c_latency, c_value, c_load = costs.latency, costs.value, costs.load
    c_beyond, c_walk = costs.beyond, costs.walk
    c_set_fill, filled = costs.set_fill, FIRST_SET
    split, again, retag_port = load(costs.split, 0), costs.again[0], costs.retag_port[0]
    fb, sizes = costs.same[3], (costs.same[0], costs.same[1], costs.same[2], costs.same[4])
    s_register, s_port, s_level = state.register, state.port, state.level
    s_rob, s_loads, s_stores, s_misses = state.rob, state.loads, state.stores, state.misses
    s_data, s_value = state.data, state.value
    rob_mask, lb_mask, sb_mask, fb_mask = len(s_rob) - 1, len(s_loads) - 1, len(s_stores) - 1, len(s_misses) - 1
    s_now, s_counts = state.now, state.counts
    arrival, origin, line_shift, sets = lines.arrival, lines.origin, lines.shift, lines.sets
    page_lines = 512 >> line_shift
    disp, fe, ret, written, end = load(s_now, 0), load(s_now, 1), load(s_now, 2), load(s_now, 3), load(s_now, 4)
    jump, left, newest = load(s_now, 5), load(s_now, 6), load(s_now, 7)
    n, slots, loads, stores, misses = s_counts[0], s_counts[1], s_counts[2], s_counts[3], s_counts[4]
    queued, pieces = s_counts[5], (s_counts[6], s_counts[7], s_counts[8])
    counts = (s_counts[9], s_counts[10])  # uops and constants of the front end's group
    joined, came_from, jump_pairs = s_counts[11] != 0, s_counts[12], costs.taken_pairs[0] != 0
    block_place, block_jumps, jumped = program.block_place, program.block_jumps, s_counts[13] != 0
    group, most, lined = costs.group[0], costs.most[0], costs.lined[0]
    p_place, p_constants = program.place, program.constants
    penalty, byte, taken = load(costs.penalty, 0), load(costs.byte, 0), load(costs.taken, 0)
    s_queue, held = state.queue, state.held
    queue_mask = len(s_queue) - 1
    c_early, in_pairs = costs.early, costs.pairs[0]
    runs = in_pairs > 1  # stores into one piece that follow one another are written together
    piece = in_pairs if runs else costs.piece[0]  # what a granule is shifted by
    nd = na = nx = nm = no = uses = 0
    j = 0
    for t in range(len(stream)):
        b = _I(stream[_U(t)])
        into = _I(control[_U(t)])
        late = into & MISPREDICTED
        why = FRONT_END
        k = _I(block_use[_U(b)])
        r = _I(block_register[_U(b)])
        m = _I(block_operand[_U(b)])
        for i in range(_I(block_start[_U(b)]), _I(block_start[_U(b + 1)])):
            about = head[_U(i)]
            u = _field(about, SLOTS)
            flags = _field(about, FLAGS)
            operands = _field(about, OPERANDS)
            if taint is not None:
                nd = to.begin(taint, n, i)
            # Dispatch: an entry in every buffer, then the front end.
            if late:
                late = False
                v = end + penalty
                disp, nd, why = _waits(taint, spent, to.DISPATCH, nd, disp, v, to.BY_RESULT, 0, n, why, MISPREDICTION)
                if group:
                    store(s_now, 8, later(load(s_now, 8), disp))
                    store(s_now, 9, later(load(s_now, 9), disp))
            if group and u > 0:
                place, constants = _I(p_place[_U(i)]), _I(p_constants[_U(i)])
                fe, counts = _grouped(into, flags, lined, place, constants, counts, group, most, fe, disp, costs, s_now)
            fe = _led(into, flags, lined, fe, disp, costs, s_now)
            if into & TAKEN:
                into = 0
                both = joined and jumped
                if not both:
                    jump = later(jump + taken, disp)
                # Of a pair the first leads on: no turn of a loop takes less than a cycle. Calls and returns go alone.
                joined = jump_pairs and jumped and not both and block_place[_U(b)] > came_from
                fe = later(fe, jump)
            scheduled = flags >> SCHEDULED_SHIFT & SCHEDULED
            disp, nd, why = _entered(
                taint, spent, nd, disp, why, u, flags, scheduled, slots, loads, stores, queued, sizes, costs, state, n
            )
            if taint is not None:
                to.front(taint, nd, fe, disp, n)
            if spent is not None and fe > disp:
                why = FRONT_END
            fe = later(fe, disp) + load(c_front, u)
            disp = fe
            # The load stage: address registers, load ports, memory.
            a = disp
            cause = why
            if taint is not None:
                na = to.start(taint, to.ADDRESS, to.DISPATCH, 0, n)
                uses = 0
            for _ in range(_field(about, ADDRESSES)):
                q = _I(p_register[_U(r)])
                r += 1
                v = load(s_register, q)
                a, na, cause = _waits(taint, spent, to.ADDRESS, na, a, v, to.BY_REGISTER, q, n, cause, LATENCY)
            first_use = k
            for _ in range(_field(about, EARLY)):
                q = _I(p_use[_U(k)])
                a, na, cause, uses = _used(
                    taint, spent, to.ADDRESS, na, a, cause, uses, PORTS + q, to.BY_PORT, s_port, q, load(c_use, k),
                    disp, n,
                )  # fmt: skip
                k += 1
            early = k
            # What does not load waits for its address registers as for its data; a load's value comes by itself.
            x = a
            by_memory = by_address = cause
            if flags & LOADS:
                x = disp
                cause = why
            if taint is not None:
                if flags & LOADS:
                    nx = to.start(taint, to.DATA, to.DISPATCH, 0, n)
                else:
                    nx = to.start(taint, to.DATA, to.ADDRESS, na, n)
                nm = to.clear(taint, to.MEMORY, n)
            if scheduled:
                admitted = admit(held, scheduled - 1, later(left, disp))
                if taint is not None:
                    place = queued & queue_mask
                    if admitted > later(left, disp):  # whoever began in the cycle before gave the entry free
                        who = freed_in(held, scheduled - 1, admitted - TICKS)
                        to.inherit(taint, to.BY_QUEUE, place, to.BY_ISSUE, who, n)
                    elif left > disp:  # the queue is left in order
                        to.inherit(taint, to.BY_QUEUE, place, to.BY_QUEUE, (queued - 1) & queue_mask, n)
                    else:
                        to.put(taint, to.BY_QUEUE, place, to.DISPATCH, n)
                left = admitted
                store(s_queue, queued & queue_mask, left)
                at = queued & queue_mask
                x, nx, cause = _waits(taint, spent, to.DATA, nx, x, left, to.BY_QUEUE, at, n, cause, SCHEDULER)
                queued += 1
            loaded = like(disp, NEVER)
            walked = 0  # whether the loaded value waited for a TLB: the bits of its access's code
            arrived = a
            first_access = j
            split_store = page_split = False
            for _ in range(operands):
                g = w_granule[_U(j)]
                if g < 0:
                    j += 1
                    m += 1
                    continue
                code = _I(w_code[_U(j)])
                size = _I(w_size[_U(j)])
                level = code & LEVEL
                got = a
                # An L1 hit that waits for nothing of its own leaves the time with what held it up before.
                which = by_address if level == 0 and by_address != LATENCY else LEVEL_LATENCY + level
                if taint is not None:
                    no = to.start(taint, to.ACCESS, to.ADDRESS, na, n)
                walk = code >> WALK_SHIFT & WALK
                got, which, no, uses = _translated(taint, spent, walk, got, which, no, uses, disp, n, costs, s_level)
                cost, because = times(byte, size), LEVEL_BANDWIDTH
                got, no, which, uses = _used(
                    taint, spent, to.ACCESS, no, got, which, uses, because, to.BY_LEVEL, s_level, 0, cost, disp, n
                )
                if code & (BLOCKED - 1):  # not simply in L1
                    if code & SPLIT:  # a second access: the load's ports once more
                        for z in range(first_use, early):
                            q = _I(p_use[_U(z)])
                            store(s_port, q, load(s_port, q) + times(load(c_use, z), again))
                        second = (code >> SECOND_SHIFT) & LEVEL
                        if second > level:
                            level = second
                            which = LEVEL_LATENCY + level
                    got, which, no, uses = _moved(
                        taint, spent, code, level, got, which, no, uses, disp, n, costs, s_level
                    )
                    if level > 0:
                        if code & RETAGGED and retag_port >= 0 and flags & LOADS:  # loads of it are tried again
                            store(s_port, retag_port, load(s_port, retag_port) + load(costs.retag, 0))
                        v = _freed(s_misses, misses, fb, costs.fill_buffers)
                        if taint is not None:
                            place = (misses - fb) & fb_mask
                            no = to.constrain(taint, to.ACCESS, no, got, v, to.BY_MISSES, place, n)
                        if spent is not None and v > got:
                            which = FILL_BUFFERS
                        got = later(got, v)
                        if sets:
                            filled = FIRST_SET + (g >> line_shift & (sets - 1))
                            v = load(s_level, filled)
                            if taint is not None:
                                no = to.constrain(taint, to.ACCESS, no, got, v, to.BY_LEVEL, filled, n)
                            if spent is not None and v > got:
                                which = SET_FILL
                            got = later(got, v)
                            # A written line that leaves the set is one more to move.
                            store(s_level, filled, got + load(c_set_fill, code >> WRITE_BACK_SHIFT & 1))
                        store(s_misses, misses & fb_mask, got + load(c_load, i) + load(c_beyond, level))
                        misses += 1
                line = g >> line_shift
                vector = 4 if flags & VECTOR else 0
                if level > 0:
                    come = got + load(c_load, i) + load(c_beyond, level + vector)
                    store(arrival, line, come)
                    newest = later(newest, come)
                    if spent is not None:
                        origin[_U(line)] = level
                    if taint is not None:
                        to.fetch(taint, line, n)
                    if code & SPLIT and (line + 1) % page_lines:
                        store(arrival, line + 1, come)
                        if spent is not None:
                            origin[_U(line + 1)] = level
                        if taint is not None:
                            to.fetch(taint, line + 1, n)
                if p_operand[_U(m)] & READ:
                    place = (stores - 1 - (code >> DISTANCE_SHIFT)) & sb_mask
                    if code & RENAMED:  # what was stored is known by its register: nothing waits for the load
                        v = load(s_value, place)
                        got = disp
                        if taint is not None:
                            no = to.start(taint, to.ACCESS, to.DISPATCH, 0, n)
                            no = to.constrain(taint, to.ACCESS, no, got, v, to.BY_DATA, place, n)
                        if spent is not None:
                            which = FORWARD if v > got else why
                        got = later(got, v)
                    else:
                        got, which, no = _arrived(
                            taint,
                            spent,
                            code,
                            level,
                            vector,
                            i,
                            line,
                            place,
                            got,
                            which,
                            no,
                            newest,
                            n,
                            costs,
                            state,
                            lines,
                        )
                    if taint is not None:
                        nm = to.join(taint, nm, loaded, got, no, n)
                    if spent is not None and got > loaded:
                        by_memory = which
                        # What came later than address, translation and level say waited for something else.
                        alone = a + load(c_walk, walk) + load(c_load, i) + load(c_beyond, level + vector)
                        if code & SPLIT:
                            alone = alone + split
                        walked = walk if got == alone and not code & RENAMED else 0
                    loaded = later(loaded, got)
                else:
                    if code & SPLIT and not flags & LOADS:
                        split_store = True
                    if code & PAGE_SPLIT:
                        page_split = True
                    if level > 0:
                        arrived = later(arrived, got + load(c_beyond, level))
                    elif reaches(newest, got):
                        arrived = later(arrived, load(arrival, line))
                if taint is not None and level > 0:
                    to.miss(taint, to.BY_MISSES, (misses - 1) & fb_mask, n)
                    if sets:
                        to.miss(taint, to.BY_LEVEL, filled, n)
                j += 1
                m += 1
            # The execution stage: data registers, ports.
            quick = REGISTERS if flags & QUICK else 0
            for _ in range(_field(about, DATA)):
                q = _I(p_register[_U(r)]) + quick
                r += 1
                v = load(s_register, q)
                x, nx, cause = _waits(taint, spent, to.DATA, nx, x, v, to.BY_REGISTER, q, n, cause, LATENCY)
            for _ in range(_field(about, LATE)):
                q = _I(p_use[_U(k)])
                cost = load(c_use, k)
                if split_store and not runs:  # a second access: the store's ports once more
                    cost = cost + load(c_use, k)
                x, nx, cause, uses = _used(
                    taint, spent, to.DATA, nx, x, cause, uses, PORTS + q, to.BY_PORT, s_port, q, cost, disp, n
                )
                k += 1
            if scheduled:
                begun = later(x, loaded)
                hold(held, scheduled - 1, begun)
                if taint is not None:
                    to.issue(taint, freed_in(held, scheduled - 1, begun), n)
            value = x
            end = x + load(c_latency, i)
            loaded_end = loaded + load(c_value, i)
            if taint is not None:
                to.result(taint, nx, nm, end, loaded_end, uses, n)
            if spent is not None:
                if loaded_end > end:
                    cause = by_memory
                else:
                    walked = 0
            end = later(end, loaded_end)
            if flags & LOADS:
                value = end
            early_end = end + load(c_early, 1 if flags & QUICK else 0)
            for _ in range(_field(about, WRITES)):
                q = _I(p_register[_U(r)])
                r += 1
                store(s_register, q, end)
                store(s_register, q + REGISTERS, early_end)
                if taint is not None:
                    to.put(taint, to.BY_REGISTER, q, to.RESULT, n)
                    to.put(taint, to.BY_REGISTER, q + REGISTERS, to.RESULT, n)
            # Retirement, in order.
            before = ret
            ret = ret + load(c_retire, u)
            if taint is not None:
                to.retire(taint, ret, end, n)
            if spent is not None and end <= ret:
                cause = RETIRE
                walked = 0
            ret = later(ret, end)
            if spent is not None:
                _charged(spent, i, cause, walked, a, before, ret, costs)
            for _ in range(u):
                store(s_rob, slots & rob_mask, ret)
                if taint is not None:
                    to.put(taint, to.BY_ROB, slots & rob_mask, to.RETIRED, n)
                slots += 1
            if flags & LOADS:
                store(s_loads, loads & lb_mask, ret)
                if taint is not None:
                    to.put(taint, to.BY_LOADS, loads & lb_mask, to.RETIRED, n)
                loads += 1
            if flags & STORES:
                store(s_data, stores & sb_mask, end)
                store(s_value, stores & sb_mask, value)
                if taint is not None:
                    to.put(taint, to.BY_DATA, stores & sb_mask, to.RESULT, n)
                line = w_granule[_U(first_access)] >> piece if operands else -1
                written, pieces = _committed(line, split_store, page_split, written, pieces, in_pairs, costs)
                if taint is not None:
                    to.write(taint, written, ret, arrived, n)
                written = later(later(written, ret), arrived)
                store(s_stores, stores & sb_mask, written)
                if taint is not None:
                    to.put(taint, to.BY_STORES, stores & sb_mask, to.WRITTEN, n)
                stores += 1
            if taint is not None:
                to.finish(taint, n, i, disp, a if loaded > NEVER and a > x else x, end, ret)
            n += 1
        came_from, jumped = _I(block_place[_U(b)]), block_jumps[_U(b)]
    store(s_now, 0, disp)
    store(s_now, 1, fe)
    store(s_now, 2, ret)
    store(s_now, 3, written)
    store(s_now, 4, end)
    store(s_now, 5, jump)
    store(s_now, 6, left)
    store(s_now, 7, newest)
    s_counts[9], s_counts[10], s_counts[11], s_counts[12] = counts[0], counts[1], _I(joined), came_from
    s_counts[13] = _I(jumped)
    s_counts[5] = queued
    s_counts[6], s_counts[7], s_counts[8] = pieces
    s_counts[0], s_counts[1], s_counts[2], s_counts[3], s_counts[4] = n, slots, loads, stores, misses
