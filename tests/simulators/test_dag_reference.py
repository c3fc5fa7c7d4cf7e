"""The engine against a tick-by-tick simulator written from the rules alone, on random DAGs with random switches."""

from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import perfkit as pk
from perfkit.collectors.dag.paper_kernels import kernel
from perfkit.dag.graph import Dag
from perfkit.simulators.dag.core import BUFFERS, MEMORY, TYPES, DagCore, lanes
from perfkit.simulators.dag.schedule import DagScheduler

INFINITE = float("inf")


def lru_levels(addresses, given, sizes, line, warm):
    """Return the level of each access by walking an explicit LRU stack."""
    stack, levels = [], []
    for last in (False, True) if warm else (True,):
        for address, level in zip(addresses, given, strict=True):
            hit = 3
            if address is not None:
                where = address // line
                if where in stack:
                    distance = stack.index(where) + 1
                    stack.remove(where)
                    hit = next((k for k, size in enumerate(sizes) if size / line >= distance), 3)
                stack.insert(0, where)
            if last:
                levels.append(hit if level is None else MEMORY.index(level))
    return levels


class Node:
    def __init__(self, index, op, deps, address, width, nbytes, kind):
        self.index, self.op, self.deps, self.address, self.kind = index, op, deps, address, kind
        self.width, self.bytes = width, nbytes
        self.fetched = self.issue = self.done = None
        self.entry = self.line_entry = False


class TickByTick:
    """Every cycle: older nodes first, take buffer entries and issue; then fetch, node by node.

    A unit that is kept for several cycles could be taken by a young node just before an older one wants it. The rule
    is that no node delays an older one; a tick-by-tick simulator finds out too late, so it forbids that issue and
    starts again.
    """

    def __init__(self, nodes, scheduler):
        self.nodes, self.s, self.core = nodes, scheduler, scheduler.core
        self.banned = set()
        self.kept = None
        while victim := self.simulate():
            # What younger nodes were forbidden was for the sake of one that is now elsewhere itself.
            self.banned = {ban for ban in self.banned if ban[0] <= victim[0]} | {victim}

    def size(self, name):
        return getattr(self.core, name) or INFINITE

    def simulate(self):
        for node in self.nodes:
            node.__init__(node.index, node.op, node.deps, node.address, node.width, node.bytes, node.kind)
        self.violations, self.stalls = [], []
        self.next, self.cycle, wanted = 0, 0, None
        while self.next < len(self.nodes) or any(n.done is None or n.done > self.cycle for n in self.nodes):
            for node in self.nodes[: self.next]:
                self.attempt(node)
            stall, wanted = self.fetch(wanted)
            self.stalls.append(stall | self.waiting())
            self.cycle += 1
        self.cycles = max(max(n.done, n.issue + 1) for n in self.nodes)
        self.stalls = self.stalls[: self.cycles]
        return min(self.violations)[1:] if self.violations else None

    def fetch(self, wanted):
        fetched = 0
        while self.next < len(self.nodes):
            in_rs = sum(1 for n in self.nodes[: self.next] if self.in_rs(n))
            in_rob = self.next - next((i for i, n in enumerate(self.nodes[: self.next]) if not self.over(n)), self.next)
            full = "RS" if in_rs >= self.size("rs") else "ROB" if in_rob >= self.size("rob") else None
            if full:
                wanted = self.cycle if wanted is None else wanted
                return ({full} if self.cycle > wanted else set()), wanted
            if fetched >= self.size("fetch"):
                return set(), None
            wanted = None
            node = self.nodes[self.next]
            node.fetched = self.cycle
            self.next += 1
            fetched += 1
            self.attempt(node)
        return set(), None

    def over(self, node):
        return node.done is not None and node.done <= self.cycle

    def in_rs(self, node):
        return not node.entry if node.op in "LS" else node.issue is None

    def waiting(self):
        fetched = self.nodes[: self.next]
        return {
            name
            for name, waits in (
                ("LB", any(n.op == "L" and not n.entry for n in fetched)),
                ("SB", any(n.op == "S" and not n.entry for n in fetched)),
                ("LFB", any(n.op in "LS" and n.kind > 3 and not n.line_entry for n in fetched)),
            )
            if waits
        }

    def attempt(self, node):
        if node.issue is not None:
            return
        if node.op in "LS":
            held = sum(1 for n in self.nodes if n.op == node.op and n.entry and not self.over(n))
            if not node.entry and held < self.size("lb" if node.op == "L" else "sb"):
                node.entry = True
            held = sum(1 for n in self.nodes if n.line_entry and not self.over(n))
            if node.kind > 3 and not node.line_entry and held < self.size("lfb"):
                node.line_entry = True
            if not node.entry or (node.kind > 3 and not node.line_entry):
                return
        if not self.ordered(node) or not all(self.over(self.nodes[d]) for d in node.deps):
            return
        if (node.index, self.cycle) in self.banned or not self.units_free(node):
            return
        node.issue = self.cycle
        node.done = self.cycle + self.core.latency(TYPES[node.kind])

    def ordered(self, node):
        if node.op not in "LS":
            return True
        older = self.nodes[: node.index]
        if self.s.x86_order:
            before = [n for n in older if n.op == "L" or (n.op == "S" and node.op == "S")]
            if any(n.issue is None for n in before):
                return False
        if node.address is None:
            return True
        line = int(self.core.line)
        if self.s.inflight_blocking:
            misses = [n for n in older if n.address is not None and n.address // line == node.address // line]
            misses = [n for n in misses if n.kind > 3]
            if misses and not self.over(misses[-1]):
                return False
        if self.s.memory_dependences and node.op == "L":
            for word in self.words(node):
                stores = [n for n in older if n.op == "S" and n.address is not None and word in self.words(n)]
                if stores and stores[-1].issue is None:
                    return False
        return True

    def words(self, node):
        first = node.address // node.bytes
        line = node.address // int(self.core.line)
        return {w for w in range(first, first + node.width) if w * node.bytes // int(self.core.line) == line}

    def columns(self, node):
        """Return (name, lanes, lanes needed, cycles held) of the units that a node takes."""
        kind = TYPES[node.kind]
        count, need, hold = self.lanes_kept()[node.index]
        found = [(kind, count, need, hold)]
        if node.op in "LS":
            port = self.s.load_ports if node.op == "L" else self.s.store_ports
            found += [(node.op, lanes(port)[0], 1, 1), ("agu", lanes(self.s.agus)[0], 1, 1)]
        return [unit for unit in found if unit[1]]

    def lanes_kept(self):
        """Return (lanes, lanes needed, cycles held) of each node; nodes of a type hold theirs evenly."""
        if self.kept is None:
            left = dict.fromkeys(TYPES, Fraction(0))
            self.kept = []
            for node in self.nodes:
                kind, elements = TYPES[node.kind], 1
                count, hold = lanes(self.core.throughput(kind))
                if node.kind > 3:
                    elements = int(self.core.line) // 8 if self.s.below_l1 == "line" else node.width
                need = min(elements, count) if count else 1
                left[kind] += elements * hold
                cycles = left[kind] // need
                left[kind] -= cycles * need
                self.kept.append((count, need, cycles))
        return self.kept

    def units_free(self, node):
        free = True
        for name, count, need, _ in self.columns(node):
            older = younger = 0
            holders = []
            for other in self.nodes:
                for other_name, _, other_need, other_hold in self.columns(other) if other.issue is not None else []:
                    if other_name == name and other.issue <= self.cycle < other.issue + other_hold:
                        if other.index < node.index:
                            older += other_need
                        else:
                            younger += other_need
                            holders.append(other)
            if older + younger + need > count:
                free = False
                if older + need <= count:
                    worst = max(holders, key=lambda n: n.index)
                    self.violations.append((node.index, worst.index, worst.issue))
        return free

    def histogram(self):
        states = Counter()
        for cycle, stall in enumerate(self.stalls):
            executes = issues = 0
            for n in self.nodes:
                if n.issue <= cycle < max(n.done, n.issue + 1):
                    executes |= 1 << n.kind
                if n.issue == cycle:
                    issues |= 1 << n.kind
            mask = sum(1 << BUFFERS.index(b) for b in stall)
            states[executes | issues << 7 | mask << 14] += 1
        return states


def random_case(rng, throughputs=(1, 2, 1 / 3, 3 / 2, 2 / 5, 0, INFINITE), longest=6):
    """Return a random DAG, the reference's nodes for it and a random scheduler."""

    def pick(*values):
        return values[rng.integers(len(values))]

    line = pick(16, 64)
    core = DagCore(
        "random",
        fetch=pick(1, 2, 4, 0),
        **{f"throughput_{k}": pick(*throughputs) for k in TYPES[:7]},
        **{f"latency_{k}": int(rng.integers(0, longest)) for k in TYPES[:3]},
        **{f"latency_{k}": int(rng.integers(0, 5 + 9 * i)) for i, k in enumerate(MEMORY)},
        rs=pick(1, 2, 5, 20, 0),
        rob=pick(1, 3, 8, 30, INFINITE),
        lb=pick(1, 2, 6, 0),
        sb=pick(1, 2, 6, INFINITE),
        lfb=pick(1, 2, 5, 0),
        size_L1=line * pick(0, 1, 3),
        size_L2=line * pick(0, 3, 6),
        size_L3=line * pick(4, 8, INFINITE),
        line=line,
    )
    scheduler = DagScheduler(
        core,
        warm=pick(False, True),
        x86_order=pick(False, True),
        inflight_blocking=pick(False, True),
        memory_dependences=pick(False, True),
        load_ports=pick(0, 1, 2),
        store_ports=pick(INFINITE, 1, 2),
        agus=pick(0, 1, 2),
        below_l1=pick("access", "line"),
        record=True,
    )
    n = int(rng.integers(1, 40))
    mix = rng.dirichlet(np.ones(5))
    op = [str(o) for o in rng.choice(list("AMDLS"), n, p=mix)]
    reach = pick(2, 6, n)
    deps = [
        sorted({int(d) for d in rng.integers(max(0, i - reach), i, rng.integers(0, 5))}) if i else [] for i in range(n)
    ]
    span = pick(4, 20, 60)
    nbytes = pick(4, 8)
    address = [int(rng.integers(span)) * nbytes if o in "LS" and rng.random() < 0.9 else None for o in op]
    level = [
        pick(*MEMORY) if o in "LS" and (a is None or rng.random() < 0.1) else None
        for o, a in zip(op, address, strict=True)
    ]
    width = [pick(1, 1, 2, 4) for _ in op]
    dag = Dag.from_nodes(op, deps, address, level, width, nbytes)
    sizes = (core.size_L1, core.size_L2, core.size_L3)
    access = [i for i in range(n) if op[i] in "LS"]
    hits = lru_levels([address[i] for i in access], [level[i] for i in access], sizes, line, scheduler.warm)
    kinds = {i: 3 + hit for i, hit in zip(access, hits, strict=True)}
    kinds = {i: TYPES.index(op[i]) if op[i] in TYPES else kinds[i] for i in range(n)}
    nodes = [Node(i, op[i], deps[i], address[i], width[i], nbytes, kinds[i]) for i in range(n)]
    return dag, nodes, scheduler


@pytest.mark.parametrize("chunk", range(6))
def test_engine_equals_the_tick_by_tick_simulator(chunk):
    compare(np.random.default_rng(chunk), 100, f"chunk {chunk}")


def test_units_of_many_lanes_and_latencies_of_many_cycles():
    """The engine counts up to 32 lanes and 255 cycles in few bits, and all beyond another way."""
    compare(np.random.default_rng(7), 40, "long", throughputs=(1, 31, 32, 33, 70, 40 / 3, 1 / 200), longest=600)


def compare(rng, cases, label, **ranges):
    for case in range(cases):
        dag, nodes, scheduler = random_case(rng, **ranges)
        expected = TickByTick(nodes, scheduler)
        found = scheduler.run(dag)
        where = f"{label}, case {case}: {scheduler}"
        assert found.type.tolist() == [n.kind for n in nodes], where
        assert found.issue.tolist() == [n.issue for n in nodes], where
        assert found.done.tolist() == [n.done for n in nodes], where
        assert found.cycles == expected.cycles, where
        assert dict(zip(found.states.tolist(), found.counts.tolist(), strict=True)) == expected.histogram(), where
        masks = [sum(1 << BUFFERS.index(b) for b in stall) for stall in expected.stalls]
        assert found.stall_mask.tolist() == masks, where
        # Without a record, cycles in which nothing happens are passed over together.
        unrecorded = replace(scheduler, record=False).run(dag)
        assert unrecorded.cycles == expected.cycles, where
        counts = dict(zip(unrecorded.states.tolist(), unrecorded.counts.tolist(), strict=True))
        assert counts == expected.histogram(), where


@pytest.mark.parametrize("name", ["mmm_triple", "fft", "stencil", "wht_recursive"])
def test_the_engine_of_the_papers_machine_is_the_whole_engine_with_parts_left_out(name):
    """No access of these crosses the end of a line: what the larger engine is compiled for changes nothing."""
    core = pk.DagCore.sandy_bridge_erm()
    source = kernel(name).trace(16)
    small, whole = (pk.DagScheduler(c, record=True).run(source) for c in (core, core.replace(line_splits=1)))
    for part in ("issue", "done", "type", "stall_mask", "states", "counts", "nodes"):
        assert np.array_equal(getattr(small, part), getattr(whole, part)), part
