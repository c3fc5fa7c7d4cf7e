"""From measured port groups to a core file's: names, what each group includes, and what known groups correspond to."""

from collections import Counter
from collections.abc import Iterable, Mapping

from perfkit.machine.core import Microarchitecture
from perfkit.machine.layers import Row

Group = frozenset[str]
"""Names of ports: P0, P1, ... as measured here, others as in the nearest core's file."""


def ports_name(group: Group) -> str:
    """Return the name of a port group: P0+P2."""
    return "+".join(sorted(group, key=lambda port: (len(port), port)))


def shares(uses: Mapping[Group, float], every: Iterable[Group]) -> dict[str, float]:
    """Return the uses of each group, those of the groups that it includes counted in (Gus, section 3.1.1)."""
    found = {}
    for group in every:
        total = sum(count for own, count in uses.items() if own <= group)
        if total:
            found[ports_name(group)] = float(f"{total:.4g}")
    return dict(sorted(found.items()))


def own_uses(uses: Mapping[str, float], base: Microarchitecture, towards: Mapping[Group, Group]) -> dict[Group, float]:
    """Return the uses of a known core's row, each operation on its own group only, with the measured groups' ports."""
    groups = {name: frozenset(base.resource(name).units) for name in uses}
    own: dict[Group, float] = {}
    for name in sorted(uses, key=lambda one: len(groups[one])):
        inside = sum(count for group, count in own.items() if group < groups[name])
        if uses[name] - inside > 1e-6:
            own[groups[name]] = uses[name] - inside
    found: dict[Group, float] = {}
    for group, count in own.items():
        target = towards.get(group, group)
        # Two groups of the known core that are one here (addresses and loads) are busy at once, not in turn.
        found[target] = max(found.get(target, 0.0), count) if target is not group else found.get(target, 0.0) + count
    return found


def translation(
    base: Microarchitecture, rows: Mapping[str, Row], measured: Mapping[str, Mapping[frozenset[int], float]]
) -> dict[Group, Group]:
    """Return a known core's groups -> the measured ports of most forms that use that group in the core's table.

    Only forms count whose uses were found to be of one group; of those with several in the table (an address and a
    load), only groups of as many ports.
    """
    votes: dict[Group, Counter[Group]] = {}
    for form, uses in measured.items():
        row = rows.get(form)
        if row is None or not row.uses or len(uses) != 1:
            continue
        ports = frozenset(f"P{port}" for port in next(iter(uses)))
        own = own_uses(row.uses, base, {})
        for group in own:
            if len(own) == 1 or len(group) == len(ports):
                votes.setdefault(group, Counter())[ports] += 1
    return {group: count.most_common(1)[0][0] for group, count in votes.items()}
