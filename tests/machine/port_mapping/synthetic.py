"""Synthetic machines: ports, forms with known uses, and the time of any mixture, with noise."""

import zlib
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Machine:
    """A machine whose port map is known (generated, no real core's)."""

    uses: dict  # form -> {frozenset of ports: operations}
    front: float
    noise: float
    seed: int

    def cycles(self, counts):
        """Return the cycles of a mixture: the busiest union of port groups bounds it (Hall), or the front end."""
        groups = {ports for form, _ in counts for ports in self.uses[form]}
        unions = set(groups)
        for group in groups:
            unions |= {one | group for one in unions}
        busiest = max(
            sum(n * k for form, n in counts for ports, k in self.uses[form].items() if ports <= union) / len(union)
            for union in unions
        )
        slots = sum(n for _, n in counts)
        rng = np.random.default_rng([self.seed, *(zlib.crc32(repr(counts).encode()),)])
        return max(busiest, slots / self.front) * (1 + self.noise * abs(rng.normal()))

    def measure(self, mixtures):
        """Return the cycles of mixtures, as `perfkit.machine.port_mapping.discover.Measure` does."""
        return {counts: self.cycles(counts) for counts in mixtures}


def machine(seed, noise=0.004):
    """Generate a machine: integer and vector ports, forms of one operation on many groups, and forms of several."""
    rng = np.random.default_rng(seed)
    front = float(rng.integers(4, 9))
    uses = {}
    start = 0
    for kind, ports in (("i", int(rng.integers(3, 6))), ("v", int(rng.integers(2, 5))), ("m", int(rng.integers(2, 4)))):
        every = list(range(start, start + ports))
        start += ports
        groups = {frozenset(every)}
        while len(groups) < min(2**ports - 1, 5):
            groups.add(frozenset(rng.choice(every, int(rng.integers(1, ports + 1)), replace=False).tolist()))
        for k, group in enumerate(sorted(groups, key=sorted)):
            for copy in range(3):
                uses[f"{kind}{k}{'abc'[copy]}"] = {group: 1}
        several = sorted(groups, key=sorted)
        for k in range(6):
            first, second = rng.choice(len(several), 2)
            own = {several[first]: int(rng.integers(1, 4))}
            own[several[second]] = own.get(several[second], 0) + int(rng.integers(0, 3))
            uses[f"{kind}x{k}"] = {group: count for group, count in own.items() if count}
    return Machine(uses, front, noise, seed)
