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
- vector operations hold a scheduler's entry until they begin, and a register until they retire, where the core file
  gives the sizes; stores take none of L1's bandwidth, where it says so.
"""

from typing import Any, NamedTuple

import numpy as np

from perfkit.simulators.compiled import compiled, inlined
from perfkit.simulators.gus import hooks as to
from perfkit.simulators.gus.lanes import gather, later, like, load, reaches, store, times
from perfkit.simulators.gus.schedulers import admit, freed_in, hold
from perfkit.simulators.gus.timing import (
    ADDRESSES,
    AHEAD,
    BESIDE,
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
    NAMED,
    NEVER,
    NEW_LINE,
    OPERANDS,
    PORTS,
    QUICK,
    READ,
    REGISTER_FILE,
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
    AT_STRIDE,
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


class Constants(NamedTuple):
    """What stays the same during a pass: read once, because machine code cannot know that nothing is written there."""

    split: Any  # what a load across the end of a line takes longer
    again: Any  # how often more it uses the load's ports
    retag_port: Any
    fill_buffers: Any
    sizes: Any  # of the reorder, load and store buffers, the queue of vector operations and the vector registers
    penalty: Any  # of a misprediction
    byte: Any  # of L1's bandwidth
    taken: Any  # between taken branches
    jump_pairs: Any  # whether two of these go together
    group: Any  # room of a group of the micro-op cache, 0 where the core has none
    most: Any  # uops and constants of such a group
    lined: Any  # whether lines of code are read apart from groups
    in_pairs: Any  # stores: 0 by line, 1 pairs, else the shift of a piece of a line
    runs: Any  # whether stores into one piece that follow one another are written together
    piece: Any  # what a granule is shifted by to get what is written at a time


class Accessed(NamedTuple):
    """What one instruction's accesses to memory have come to so far."""

    value: Any  # when all values that it loads are there, or before every time
    cause: Any  # of the latest of them
    walked: Any  # whether that waited for a TLB: the bits of its access's code
    count: Any  # its constraints
    arrived: Any  # when the lines that it stores to are there
    split_store: Any
    page_split: Any
    uses: Any
    misses: Any  # fill buffers used since the beginning
    newest: Any  # when the latest line arrives


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
    into: Any, flags: Any, lined: Any, place: Any, constants: Any, counts: Any, group: Any, most: Any, front: Any, disp:
    Any, costs: Any, now: Any,
) -> Any:  # fmt: skip
    """Front end: a full group of uops is followed by another; return when its uops are there, and the next's counts."""
    grouped, crowded = counts[0] + place, counts[1] + constants
    if grouped > group or crowded > most or into & TAKEN or (flags & NEW_LINE and not lined):
        grouped, crowded = place, constants
        fetch = load(costs.fetch, 0)
        opened = later(load(now, 8) + fetch, disp + times(fetch, -AHEAD))
        store(now, 8, opened)
        front = later(front, opened)
    return front, (grouped, crowded)


@inlined
def _entered(  # pragma: no cover - compiled
    taint: Any, spent: Any, count: Any, disp: Any, why: Any, uops: Any, flags: Any, scheduled: Any, slots: Any, loads:
    Any, stores: Any, queued: Any, named: Any, sizes: Any, costs: Any, state: Any, n: Any,
) -> Any:  # fmt: skip
    """Dispatch: an entry in every buffer that the instruction needs; return the time, constraints and cause.

    ``sizes`` are as in `Constants`.
    """
    rob, lb, sb, queue, registers = sizes
    if uops > 0:
        v, at = _freed(state.rob, slots + uops - 1, rob, costs.rob), (slots + uops - 1 - rob) & (len(state.rob) - 1)
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
    if flags & NAMED:
        v = _freed(state.vectors, named, registers, costs.vector_registers)
        at = (named - registers) & (len(state.vectors) - 1)
        disp, count, why = _waits(taint, spent, to.DISPATCH, count, disp, v, to.BY_VECTORS, at, n, why, REGISTER_FILE)
    return disp, count, why


@inlined
def _led(  # pragma: no cover - compiled
    into: Any, flags: Any, lined: Any, front: Any, disp: Any, costs: Any, now: Any
) -> Any:
    """Front end: a line of code or a taken branch begins another read of it; return when its uops are there."""
    if lined and (into & TAKEN or flags & NEW_LINE):
        fetch = load(costs.fetch, 0)
        read = 2 if into & TAKEN and flags & CROSSES else 1
        opened = later(load(now, 9) + times(fetch, read), disp + times(fetch, -AHEAD))
        store(now, 9, opened)
        front = later(front, opened)
    return front


@inlined
def _translated(  # pragma: no cover - compiled
    taint: Any,
    spent: Any,
    code: Any,
    walk: Any,
    come: Any,
    which: Any,
    n_acc: Any,
    uses: Any,
    disp: Any,
    n: Any,
    costs: Any,
    level: Any,
) -> Any:
    """Load: the address's page is looked for; return the access's time, cause, constraints and the uses.

    Who asked for a line ahead of its load (``code``) asked for its page, too: the load waits for a walker at most.
    """
    if walk == PAGE_WALK:
        cost, cause = load(costs.walk, WALKING), TRANSLATION + walk - 1
        come, n_acc, which, uses = _used(
            taint, spent, to.ACCESS, n_acc, come, which, uses, cause, to.BY_LEVEL, level, WALKERS, cost, disp, n
        )
    if walk and not code & AT_STRIDE:
        come = come + load(costs.walk, walk)
    return come, which, n_acc, uses


@inlined
def _moved(  # pragma: no cover - compiled
    taint: Any, spent: Any, code: Any, level: Any, come: Any, which: Any, n_acc: Any, uses: Any, disp: Any, n: Any,
    costs: Any, s_level: Any,
) -> Any:  # fmt: skip
    """Load: a line comes from beyond L1, through every level's bandwidth; return as `_translated`.

    A prefetch costs no latency, but the access that asks for it waits for the bandwidth.
    """
    fetched = (code >> PREFETCH_SHIFT) & LEVEL
    for z in range(1, level + max(fetched, 1)):
        q = z if z <= level else z - level + 1
        cost, cause = load(costs.line, q), LEVEL_BANDWIDTH + q
        come, n_acc, which, uses = _used(
            taint, spent, to.ACCESS, n_acc, come, which, uses, cause, to.BY_LEVEL, s_level, q, cost, disp, n
        )
    if code & WRITE_BACKS:  # nothing waits for them, but they take bandwidth
        for q in range(1, 4):
            if code >> (WRITE_BACK_SHIFT - 1 + q) & 1:
                v = load(s_level, q)
                if taint is not None:
                    uses = to.use(taint, to.BY_LEVEL, q, uses, v, disp, n)
                store(s_level, q, later(v, disp) + load(costs.back, q))
    return come, which, n_acc, uses


@inlined
def _asked_at_once(asks: Any, latency: Any, line: Any, lines: Any) -> Any:  # pragma: no cover - compiled
    """Return whether a load asks for a line when the access that brings it did: it would bring the line as soon itself.

    It then waits for its own address as that does, and is no less to blame: of a list's links and the values beside
    them, the links. What asks later has the line sooner by the other; where that waited for a fill buffer or bandwidth,
    so would what asks.
    """
    first = lines.asked[_U(line)]
    return first != NEVER and first - latency <= asks <= first + latency


@inlined
def _arrived(  # pragma: no cover - compiled
    taint: Any, spent: Any, code: Any, level: Any, vector: Any, i: Any, line: Any, place: Any, asks: Any, come: Any,
    which: Any, n_acc: Any, newest: Any, n: Any, costs: Any, state: Any, lines: Any,
) -> Any:  # fmt: skip
    """Load: the value comes from its level, its line or the store that has it; return its time, cause, constraints."""
    come = come + load(costs.load, i) + load(costs.beyond, level + vector)
    if code & SPLIT:
        come = come + load(costs.split, 0)
    if level == 0 and reaches(newest, come):  # a hit, but the line may be on its way
        v = load(lines.arrival, line)
        if taint is not None and not _asked_at_once(asks, load(costs.load, i), line, lines):
            n_acc = to.constrain(taint, to.ACCESS, n_acc, come, v, to.BY_LINE, line, n)
        if spent is not None and v > come:
            which = LEVEL_LATENCY + lines.origin[_U(line)]
        come = later(come, v)
    if code & BLOCKED:
        v = load(state.stores, place) + load(costs.forward, 2)
        come, n_acc, which = _waits(taint, spent, to.ACCESS, n_acc, come, v, to.BY_STORES, place, n, which, FORWARD)
    elif code & FORWARDED:
        v = load(state.data, place) + load(costs.forward, vector >> 2)
        come, n_acc, which = _waits(taint, spent, to.ACCESS, n_acc, come, v, to.BY_DATA, place, n, which, FORWARD)
    return come, which, n_acc


@inlined
def _charged(  # pragma: no cover - compiled
    spent: Any, i: Any, cause: Any, walked: Any, address: Any, before: Any, retired: Any, costs: Any
) -> None:
    """Retire: charge an instruction with the ticks by which retirement advanced, by cause."""
    part = 0
    if walked:  # as much of the translation, which begins with the address, as retirement waited for
        part = max(min(address + load(costs.walk, walked), retired) - later(address, before), 0)
        spent[_U(i), _U(TRANSLATION + walked - 1)] += part
    spent[_U(i), _U(cause)] += retired - before - part


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


@inlined
def _constants(costs: Any) -> Any:  # pragma: no cover - compiled
    """Read what stays the same."""
    in_pairs = costs.pairs[0]
    runs = in_pairs > 1
    return Constants(
        split=load(costs.split, 0),
        again=costs.again[0],
        retag_port=costs.retag_port[0],
        fill_buffers=costs.same[3],
        sizes=(costs.same[0], costs.same[1], costs.same[2], costs.same[4], costs.same[5]),
        penalty=load(costs.penalty, 0),
        byte=load(costs.byte, 0),
        taken=load(costs.taken, 0),
        jump_pairs=costs.taken_pairs[0] != 0,
        group=costs.group[0],
        most=costs.most[0],
        lined=costs.lined[0],
        in_pairs=in_pairs,
        runs=runs,
        piece=in_pairs if runs else costs.piece[0],
    )


@inlined
def _jumped(  # pragma: no cover - compiled
    jump: Any, joined: Any, place: Any, last: Any, disp: Any, fixed: Any
) -> Any:
    """Front end: a taken branch leads to a block at ``place``; return when, and whether another may go with it.

    ``last`` is the block that was left: where it lies, and whether it ends with a jump. Of a pair the first leads on:
    no turn of a loop takes less than a cycle. Calls and returns go alone.
    """
    came_from, jumped = last
    both = joined and jumped
    if not both:
        jump = later(jump + fixed.taken, disp)
    return jump, fixed.jump_pairs and jumped and not both and place > came_from


@inlined
def _dispatched(  # pragma: no cover - compiled
    taint: Any, spent: Any, why: Any, into: Any, i: Any, block: Any, about: Any, disp: Any, end: Any, jump: Any, counts:
    Any, joined: Any, last: Any, slots: Any, loads: Any, stores: Any, queued: Any, named: Any, n: Any, fixed: Any,
    program: Any, costs: Any, state: Any,
) -> Any:  # fmt: skip
    """Dispatch: an entry in every buffer, then the front end; return the time, its cause, and where the front end is.

    ``into`` says how block ``b`` was entered, where the instruction is its first. Of the front end: when the last taken
    branch was there, the counts of its group of uops, and whether a taken branch may go with the last one.
    """
    uops, flags = _field(about, SLOTS), _field(about, FLAGS)
    front = disp
    n_disp = 0
    begins_anew = False
    if taint is not None:
        n_disp = to.begin(taint, n, i)
    if into & MISPREDICTED:
        v = end + fixed.penalty
        disp, n_disp, why = _waits(taint, spent, to.DISPATCH, n_disp, disp, v, to.BY_RESULT, 0, n, why, MISPREDICTION)
        if taint is not None:  # one by one: numba leaves out what is None
            begins_anew = disp == v
        if spent is not None:
            begins_anew = disp == v
        if fixed.group:
            store(state.now, 8, later(load(state.now, 8), disp))
            store(state.now, 9, later(load(state.now, 9), disp))
    if fixed.group and uops > 0:
        place, constants = _I(program.place[_U(i)]), _I(program.constants[_U(i)])
        front, counts = _grouped(
            into, flags, fixed.lined, place, constants, counts, fixed.group, fixed.most, front, disp, costs, state.now
        )
    front = _led(into, flags, fixed.lined, front, disp, costs, state.now)
    if into & TAKEN:
        jump, joined = _jumped(jump, joined, program.block_place[_U(block)], last, disp, fixed)
        front = later(front, jump)
    scheduled = flags >> SCHEDULED_SHIFT & SCHEDULED
    disp, n_disp, why = _entered(
        taint, spent, n_disp, disp, why, uops, flags, scheduled, slots, loads, stores, queued, named, fixed.sizes,
        costs, state, n,
    )  # fmt: skip
    if taint is not None:  # what the front end takes to begin anew is the branch's, not what came before it
        to.front(taint, n_disp, disp - 1 if begins_anew else front, disp, n)
    if spent is not None and front > disp and not begins_anew:
        why = FRONT_END
    return later(front, disp) + load(costs.front_end, uops), why, jump, counts, joined


@inlined
def _addressed(  # pragma: no cover - compiled
    taint: Any, spent: Any, about: Any, disp: Any, why: Any, use: Any, register: Any, n: Any, program: Any, costs: Any,
    state: Any,
) -> Any:  # fmt: skip
    """Load: address registers, then load ports; return when and why it goes on, constraints, uses.

    ``use`` and ``register`` are the next entries of its lists of these; they are returned, too.
    """
    address, cause = disp, why
    n_addr = uses = 0
    if taint is not None:
        n_addr = to.start(taint, to.ADDRESS, to.DISPATCH, 0, n)
    for _ in range(_field(about, ADDRESSES)):
        q = _I(program.register[_U(register)])
        register += 1
        v = load(state.register, q)
        address, n_addr, cause = _waits(
            taint, spent, to.ADDRESS, n_addr, address, v, to.BY_REGISTER, q, n, cause, LATENCY
        )
    for _ in range(_field(about, EARLY)):
        q = _I(program.use[_U(use)])
        cost, because = load(costs.use, use), PORTS + q
        address, n_addr, cause, uses = _used(
            taint, spent, to.ADDRESS, n_addr, address, cause, uses, because, to.BY_PORT, state.port, q, cost, disp, n
        )
        use += 1
    return address, cause, n_addr, uses, use, register


@inlined
def _admitted(  # pragma: no cover - compiled
    taint: Any, spent: Any, scheduler: Any, ready: Any, n_data: Any, cause: Any, left: Any, queued: Any, disp: Any, n:
    Any, state: Any,
) -> Any:  # fmt: skip
    """Execute: a vector operation leaves the queue, in order, for an entry of its scheduler; return when."""
    place = queued & (len(state.queue) - 1)
    admitted = admit(state.held, scheduler, later(left, disp))
    if taint is not None:
        if admitted > later(left, disp):  # whoever began in the cycle before gave the entry free
            who = freed_in(state.held, scheduler, admitted - TICKS)
            to.inherit(taint, to.BY_QUEUE, place, to.BY_ISSUE, who, n)
        elif left > disp:  # the queue is left in order
            to.inherit(taint, to.BY_QUEUE, place, to.BY_QUEUE, (queued - 1) & (len(state.queue) - 1), n)
        else:
            to.put(taint, to.BY_QUEUE, place, to.DISPATCH, n)
    store(state.queue, place, admitted)
    ready, n_data, cause = _waits(
        taint, spent, to.DATA, n_data, ready, admitted, to.BY_QUEUE, place, n, cause, SCHEDULER
    )
    return ready, n_data, cause, admitted


@inlined
def _missed(  # pragma: no cover - compiled
    taint: Any, spent: Any, code: Any, level: Any, granule: Any, flags: Any, i: Any, ports: Any, come: Any, which: Any,
    n_acc: Any, uses: Any, misses: Any, disp: Any, n: Any, fixed: Any, program: Any, costs: Any, state: Any, lines: Any,
) -> Any:  # fmt: skip
    """Load: what is not simply in L1: two lines, lines from beyond, a fill buffer and a place in L1 for each.

    ``ports`` are the first and the last use of a load port.
    """
    filled = FIRST_SET
    if code & SPLIT:  # a second access: the load's ports once more
        for z in range(ports[0], ports[1]):
            q = _I(program.use[_U(z)])
            store(state.port, q, load(state.port, q) + times(load(costs.use, z), fixed.again))
        second = (code >> SECOND_SHIFT) & LEVEL
        if second > level:
            level = second
            which = LEVEL_LATENCY + level
    come, which, n_acc, uses = _moved(taint, spent, code, level, come, which, n_acc, uses, disp, n, costs, state.level)
    if level > 0:
        if code & RETAGGED and fixed.retag_port >= 0 and flags & LOADS:  # loads of it are tried again
            store(state.port, fixed.retag_port, load(state.port, fixed.retag_port) + load(costs.retag, 0))
        mask = len(state.misses) - 1
        v, place = _freed(state.misses, misses, fixed.fill_buffers, costs.fill_buffers), misses - fixed.fill_buffers
        come, n_acc, which = _waits(
            taint, spent, to.ACCESS, n_acc, come, v, to.BY_MISSES, place & mask, n, which, FILL_BUFFERS
        )
        if lines.sets:
            filled = FIRST_SET + (granule >> lines.shift & (lines.sets - 1))
            v = load(state.level, filled)
            come, n_acc, which = _waits(
                taint, spent, to.ACCESS, n_acc, come, v, to.BY_LEVEL, filled, n, which, SET_FILL
            )
            # A written line that leaves the set is one more to move.
            store(state.level, filled, come + load(costs.set_fill, code >> WRITE_BACK_SHIFT & 1))
        store(state.misses, misses & mask, come + load(costs.load, i) + load(costs.beyond, level))
        misses += 1
    return come, which, n_acc, uses, level, misses, filled


@inlined
def _brought(  # pragma: no cover - compiled
    taint: Any, spent: Any, code: Any, level: Any, line: Any, asked: Any, arrives: Any, n: Any, lines: Any
) -> None:
    """Load: a line, or two, comes to L1 at a time that later accesses wait for."""
    store(lines.arrival, line, arrives)
    if spent is not None:
        lines.origin[_U(line)] = level
    if taint is not None:
        lines.asked[_U(line)] = asked
        to.fetch(taint, line, n)
    if code & SPLIT and (line + 1) % (512 >> lines.shift):  # not across the end of a page
        store(lines.arrival, line + 1, arrives)
        if spent is not None:
            lines.origin[_U(line + 1)] = level
        if taint is not None:
            lines.asked[_U(line + 1)] = asked
            to.fetch(taint, line + 1, n)


@inlined
def _renamed(  # pragma: no cover - compiled
    taint: Any, spent: Any, place: Any, why: Any, which: Any, disp: Any, n: Any, state: Any
) -> Any:
    """Load: what was stored is known by its register, and nothing waits for the load; return as `_arrived`."""
    v = load(state.value, place)
    n_acc = 0
    if taint is not None:
        n_acc = to.start(taint, to.ACCESS, to.DISPATCH, 0, n)
        n_acc = to.constrain(taint, to.ACCESS, n_acc, disp, v, to.BY_DATA, place, n)
    if spent is not None:
        which = FORWARD if v > disp else why
    return later(disp, v), which, n_acc


@inlined
def _accessed(  # pragma: no cover - compiled
    taint: Any, spent: Any, granule: Any, code: Any, size: Any, does: Any, flags: Any, i: Any, address: Any, n_addr:
    Any, before: Any, disp: Any, why: Any, ports: Any, stores: Any, found: Any, n: Any, fixed: Any, program: Any, costs:
    Any, state: Any, lines: Any,
) -> Any:  # fmt: skip
    """Load: one access to memory, of ``size`` bytes; return what all of the instruction's have come to.

    ``address`` is when the address is known and the port is free, ``before`` what that waited for.
    """
    level = code & LEVEL
    vector = 4 if flags & VECTOR else 0
    line = granule >> lines.shift
    walk = code >> WALK_SHIFT & WALK
    come, uses, misses, newest, filled, n_acc = address, found.uses, found.misses, found.newest, FIRST_SET, 0
    at_hand = level == 0 or code & AT_STRIDE != 0
    # An L1 hit that waits for nothing of its own leaves the time with what held it up before.
    which = before if at_hand and before != LATENCY else LEVEL_LATENCY + (0 if at_hand else level)
    if taint is not None:
        n_acc = to.start(taint, to.ACCESS, to.ADDRESS, n_addr, n)
    come, which, n_acc, uses = _translated(
        taint, spent, code, walk, come, which, n_acc, uses, disp, n, costs, state.level
    )
    translated, asked = come, NEVER
    if not does & BESIDE or size > 64:  # strings are read and written by turns
        cost, because = times(fixed.byte, size), LEVEL_BANDWIDTH
        come, n_acc, which, uses = _used(
            taint, spent, to.ACCESS, n_acc, come, which, uses, because, to.BY_LEVEL, state.level, 0, cost, disp, n
        )
    if code & (BLOCKED - 1):  # not simply in L1
        come, which, n_acc, uses, level, misses, filled = _missed(
            taint, spent, code, level, granule, flags, i, ports, come, which, n_acc, uses, misses, disp, n, fixed,
            program, costs, state, lines,
        )  # fmt: skip
    moved = level > 0
    if code & AT_STRIDE:  # it took bandwidth and a fill buffer, but the line and its page are here
        level, walk = 0, 0
    if level > 0:
        arrives = come + load(costs.load, i) + load(costs.beyond, level + vector)
        newest = later(newest, arrives)
        if taint is not None and come <= translated + load(costs.load, i):  # it waited for no more than its address
            asked = address
        _brought(taint, spent, code, level, line, asked, arrives, n, lines)
    value, cause, walked, count, arrived = found.value, found.cause, found.walked, found.count, found.arrived
    split_store, page_split = found.split_store, found.page_split
    if does & READ:
        place = (stores - 1 - (code >> DISTANCE_SHIFT)) & (len(state.stores) - 1)
        if code & RENAMED:
            come, which, n_acc = _renamed(taint, spent, place, why, which, disp, n, state)
        else:
            come, which, n_acc = _arrived(
                taint, spent, code, level, vector, i, line, place, address, come, which, n_acc, newest, n, costs,
                state, lines,
            )  # fmt: skip
        if taint is not None:
            count = to.join(taint, count, value, come, n_acc, n)
        if spent is not None and come > value:
            cause = which
            # What came later than address, translation and level say waited for something else.
            alone = address + load(costs.walk, walk) + load(costs.load, i) + load(costs.beyond, level + vector)
            if code & SPLIT:
                alone = alone + fixed.split
            walked = walk if come == alone and not code & RENAMED else 0
        value = later(value, come)
    else:
        split_store = split_store or (code & SPLIT and not flags & LOADS) != 0
        page_split = page_split or code & PAGE_SPLIT != 0
        if level > 0:
            arrived = later(arrived, come + load(costs.beyond, level))
        elif reaches(newest, come):
            arrived = later(arrived, load(lines.arrival, line))
    if taint is not None and moved:
        to.miss(taint, to.BY_MISSES, (misses - 1) & (len(state.misses) - 1), n)
        if lines.sets:
            to.miss(taint, to.BY_LEVEL, filled, n)
    return Accessed(value, cause, walked, count, arrived, split_store, page_split, uses, misses, newest)


@inlined
def _executed(  # pragma: no cover - compiled
    taint: Any, spent: Any, about: Any, flags: Any, ready: Any, n_data: Any, cause: Any, uses: Any, twice: Any, use:
    Any, register: Any, disp: Any, n: Any, program: Any, costs: Any, state: Any,
) -> Any:  # fmt: skip
    """Execute: data registers, then ports; return when and why it begins, its constraints, uses, and as `_addressed`.

    ``twice``: a store across the end of a line is a second access, and takes the store's ports once more.
    """
    quick = REGISTERS if flags & QUICK else 0
    for _ in range(_field(about, DATA)):
        q = _I(program.register[_U(register)]) + quick
        register += 1
        v = load(state.register, q)
        ready, n_data, cause = _waits(taint, spent, to.DATA, n_data, ready, v, to.BY_REGISTER, q, n, cause, LATENCY)
    for _ in range(_field(about, LATE)):
        q = _I(program.use[_U(use)])
        cost, because = load(costs.use, use), PORTS + q
        if twice:
            cost = cost + load(costs.use, use)
        ready, n_data, cause, uses = _used(
            taint, spent, to.DATA, n_data, ready, cause, uses, because, to.BY_PORT, state.port, q, cost, disp, n
        )
        use += 1
    return ready, n_data, cause, uses, use, register


@inlined
def _resulted(  # pragma: no cover - compiled
    taint: Any, spent: Any, about: Any, flags: Any, i: Any, ready: Any, n_data: Any, cause: Any, uses: Any, found: Any,
    register: Any, n: Any, program: Any, costs: Any, state: Any,
) -> Any:  # fmt: skip
    """Execute: the result, and the registers that get it; return when, its cause and translation."""
    walked = found.walked
    end, loaded_end = ready + load(costs.latency, i), found.value + load(costs.value, i)
    if taint is not None:
        to.result(taint, n_data, found.count, end, loaded_end, uses, n)
    if spent is not None:
        if loaded_end > end:
            cause = found.cause
        else:
            walked = 0
    end = later(end, loaded_end)
    early_end = end + load(costs.early, 1 if flags & QUICK else 0)
    for _ in range(_field(about, WRITES)):
        q = _I(program.register[_U(register)])
        register += 1
        store(state.register, q, end)
        store(state.register, q + REGISTERS, early_end)
        if taint is not None:
            to.put(taint, to.BY_REGISTER, q, to.RESULT, n)
            to.put(taint, to.BY_REGISTER, q + REGISTERS, to.RESULT, n)
    return end, cause, walked


@inlined
def _retired(  # pragma: no cover - compiled
    taint: Any, spent: Any, uops: Any, i: Any, cause: Any, walked: Any, address: Any, end: Any, retired: Any, slots:
    Any, n: Any, costs: Any, state: Any,
) -> Any:  # fmt: skip
    """Retire: in order; return when, and the slots of the reorder buffer that were used since the beginning."""
    before = retired
    retired = retired + load(costs.retire, uops)
    if taint is not None:
        to.retire(taint, retired, end, n)
    if spent is not None and end <= retired:
        cause = RETIRE
        walked = 0
    retired = later(retired, end)
    if spent is not None:
        _charged(spent, i, cause, walked, address, before, retired, costs)
    mask = len(state.rob) - 1
    for _ in range(uops):
        store(state.rob, slots & mask, retired)
        if taint is not None:
            to.put(taint, to.BY_ROB, slots & mask, to.RETIRED, n)
        slots += 1
    return retired, slots


@inlined
def _stored(  # pragma: no cover - compiled
    taint: Any, line: Any, end: Any, value: Any, retired: Any, found: Any, written: Any, pieces: Any, stores: Any, n:
    Any, fixed: Any, costs: Any, state: Any,
) -> Any:  # fmt: skip
    """Retire: a store is written, and its entry free; return when, and the pieces of lines that were written last."""
    place = stores & (len(state.stores) - 1)
    store(state.data, place, end)
    store(state.value, place, value)
    if taint is not None:
        to.put(taint, to.BY_DATA, place, to.RESULT, n)
    written, pieces = _committed(line, found.split_store, found.page_split, written, pieces, fixed.in_pairs, costs)
    if taint is not None:
        to.write(taint, written, retired, found.arrived, n)
    written = later(later(written, retired), found.arrived)
    store(state.stores, place, written)
    if taint is not None:
        to.put(taint, to.BY_STORES, place, to.WRITTEN, n)
    return written, pieces


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

    Each stage is a function of its own, all inlined. The times that the pass carries from instruction to instruction
    are variables here, and no named tuple: with tuples for them, causality took 1.1 to 1.4 times as long. Against the
    pass written out, in fresh processes side by side, at loads of 7 to 18 on two processors: plain 1.01 and lanes 0.99
    (medians of 7 pairs), causality 1.03 (13 pairs, from 0.92 to 1.10; the layout of the machine code alone moves it as
    much: a variant with less to pass along took 1.2).

    Names that begin with ``n_`` are numbers of constraints: of the dispatch, the address, the data, an access and all
    of memory. ``window`` is a `perfkit.simulators.memory.memory.Window`, ``program`` a `Static`, then `Costs`, a
    `State` and `LineArrivals`; ``spent`` is (instructions, causes) or None; ``taint`` is None or what hooks know.
    """
    fixed = _constants(costs)
    now, counts = state.now, state.counts
    disp, retired, written, end, left, newest = (
        load(now, 0), load(now, 2), load(now, 3), load(now, 4), load(now, 6), load(now, 7),
    )  # fmt: skip
    n, slots, loads, stores, misses, queued = counts[0], counts[1], counts[2], counts[3], counts[4], counts[5]
    pieces = counts[6], counts[7], counts[8]
    named = counts[14]
    jump, grouped, joined = load(now, 5), (counts[9], counts[10]), counts[11] != 0
    last = counts[12], counts[13] != 0  # where the last block lies, and whether it ends with a jump
    access = 0
    for t in range(len(window.stream)):
        block = _I(window.stream[_U(t)])
        into = _I(window.control[_U(t)])
        why = FRONT_END
        use, register, operand = (
            _I(program.block_use[_U(block)]),
            _I(program.block_register[_U(block)]),
            _I(program.block_operand[_U(block)]),
        )
        for i in range(_I(program.block_start[_U(block)]), _I(program.block_start[_U(block + 1)])):
            about = program.head[_U(i)]
            uops, flags = _field(about, SLOTS), _field(about, FLAGS)
            scheduled = flags >> SCHEDULED_SHIFT & SCHEDULED
            disp, why, jump, grouped, joined = _dispatched(
                taint, spent, why, into, i, block, about, disp, end, jump, grouped, joined, last, slots, loads, stores,
                queued, named, n, fixed, program, costs, state,
            )  # fmt: skip
            into = 0

            # Load: address registers, load ports, memory.
            first_use, first_access = use, access
            address, before, n_addr, uses, use, register = _addressed(
                taint, spent, about, disp, why, use, register, n, program, costs, state
            )
            # What does not load waits for its address registers as for its data, or for some of its operands earlier
            # than for others; a load's value comes by itself.
            ready, cause, n_data, n_mem = address + load(costs.load, i), before, 0, 0
            if flags & LOADS:
                ready, cause = disp, why
            if taint is not None:
                if flags & LOADS:
                    n_data = to.start(taint, to.DATA, to.DISPATCH, 0, n)
                else:
                    n_data = to.start(taint, to.DATA, to.ADDRESS, n_addr, n)
                n_mem = to.clear(taint, to.MEMORY, n)
            if scheduled:
                ready, n_data, cause, left = _admitted(
                    taint, spent, scheduled - 1, ready, n_data, cause, left, queued, disp, n, state
                )
                queued += 1
            value, by, walked, arrived, split_store, page_split = like(disp, NEVER), before, 0, address, False, False
            for _ in range(_field(about, OPERANDS)):
                granule = window.granule[_U(access)]
                if granule >= 0:
                    code, size = _I(window.code[_U(access)]), _I(window.size[_U(access)])
                    does = program.operand[_U(operand)]
                    value, by, walked, n_mem, arrived, split_store, page_split, uses, misses, newest = _accessed(
                        taint, spent, granule, code, size, does, flags, i, address, n_addr, before, disp, why,
                        (first_use, use), stores, Accessed(value, by, walked, n_mem, arrived, split_store, page_split,
                        uses, misses, newest), n, fixed, program, costs, state, lines,
                    )  # fmt: skip
                access += 1
                operand += 1
            found = Accessed(value, by, walked, n_mem, arrived, split_store, page_split, uses, misses, newest)

            # Execute: data registers, ports, the result.
            twice = split_store and not fixed.runs
            ready, n_data, cause, uses, use, register = _executed(
                taint, spent, about, flags, ready, n_data, cause, uses, twice, use, register, disp, n, program, costs,
                state,
            )  # fmt: skip
            if scheduled:
                begun = later(ready, value)
                hold(state.held, scheduled - 1, begun)
                if taint is not None:
                    to.issue(taint, freed_in(state.held, scheduled - 1, begun), n)
            end, cause, walked = _resulted(
                taint, spent, about, flags, i, ready, n_data, cause, uses, found, register, n, program, costs, state
            )
            register += _field(about, WRITES)

            # Retire: in order; what was held is free.
            retired, slots = _retired(
                taint, spent, uops, i, cause, walked, address, end, retired, slots, n, costs, state
            )
            if flags & LOADS:
                place = loads & (len(state.loads) - 1)
                store(state.loads, place, retired)
                if taint is not None:
                    to.put(taint, to.BY_LOADS, place, to.RETIRED, n)
                loads += 1
            if flags & NAMED:
                place = named & (len(state.vectors) - 1)
                store(state.vectors, place, retired)
                if taint is not None:
                    to.put(taint, to.BY_VECTORS, place, to.RETIRED, n)
                named += 1
            if flags & STORES:
                line = window.granule[_U(first_access)] >> fixed.piece if access > first_access else -1
                stored = end if flags & LOADS else ready
                written, pieces = _stored(
                    taint, line, end, stored, retired, found, written, pieces, stores, n, fixed, costs, state
                )
                stores += 1
            if taint is not None:
                to.finish(taint, n, i, disp, address if value > NEVER and address > ready else ready, end, retired)
            n += 1
        last = _I(program.block_place[_U(block)]), program.block_jumps[_U(block)]
    store(now, 0, disp)
    store(now, 1, disp)
    store(now, 2, retired)
    store(now, 3, written)
    store(now, 4, end)
    store(now, 5, jump)
    store(now, 6, left)
    store(now, 7, newest)
    counts[0], counts[1], counts[2], counts[3], counts[4], counts[5] = n, slots, loads, stores, misses, queued
    counts[6], counts[7], counts[8] = pieces
    counts[9], counts[10] = grouped
    counts[11], counts[12], counts[13], counts[14] = _I(joined), last[0], _I(last[1]), named
