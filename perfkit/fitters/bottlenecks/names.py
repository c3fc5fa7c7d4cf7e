"""Real events by the names of the simulated PMU, and where they do not mean the same (events.toml)."""

import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from perfkit import datasets
from perfkit.errors import listed
from perfkit.fitters.bottlenecks.features import any_of
from perfkit.samples.clocks import is_fixed_rate
from perfkit.samples.events import TIME_EVENTS, WORK_EVENTS, modes, normalise, other_core

# Events that a core's processors do not list: one may have been left out of a list, or been renamed. Several show
# another processor where one lists them, and so large a share of the dump.
_SEVERAL, _NEARLY = 2, 0.9
_FILE = Path(__file__).with_name("events.toml")


@dataclass(frozen=True)
class Named:
    """An event of a dump and the simulator's event that it stands for.

    Attributes
    ----------
    simulated, real : str
        The simulator's name and the dump's.
    note : str
        Where the two do not mean the same; "" where nothing is known to differ.
    shared : bool
        It is of one port, and counts uops that other ports take, too, where the simulator's does not.
    """

    simulated: str
    real: str
    note: str = ""
    shared: bool = False


_AMD = (
    "ex_",
    "ls_",
    "de_",
    "l2_pf",
    "ic_",
    "bp_",
    "op_cache",
    "l2_cache_req",
    "l2_request",
    "l2_wcb",
    "fp_ret",
    "fp_disp",
)


@cache
def event_map() -> Mapping[str, Any]:
    """Return the file as it is."""
    return tomllib.loads(_FILE.read_text(encoding="utf-8"))


@cache
def map_rows() -> tuple[tuple[str, str, str, str, tuple[str, ...], int, bool, bool], ...]:
    """Return the map, one row per simulated event and real name.

    Each row is: simulated, real, note, vendor ("" is every one), cores (empty: all of the vendor's), group (rows of one
    group are added up), port (whether it tells a port, whose names differ from one generation of cores to the next),
    shared (whether it counts what other ports take, too).
    """
    known = event_map()
    parts = {f"uops.{port}": entries for port, entries in known["ports"].items()}
    parts |= {any_of(name): entries for name, entries in known["classes"].items()}
    rows, group = [], 0
    for event, entries in (known["events"] | known["aside"] | parts).items():
        for entry in entries:
            for name in entry["names"]:
                group += not entry.get("sum", False) or name == entry["names"][0]
                cores = tuple(entry.get("cores", ()))
                is_port = event in parts and event.startswith("uops.p")
                shared = entry.get("shared", False)
                rows.append(
                    (event, name, entry.get("note", ""), entry.get("vendor", ""), cores, group, is_port, shared)
                )
    return tuple(rows)


def maker(real: str) -> str:
    """Return the vendor whose processors have an event of such a name; "" for perf's generic names."""
    name = normalise(real)
    if name.startswith(_AMD):
        return "AMD"
    return "Intel" if "." in name and "-" not in name else ""


def _own(real: str, of: str, cores: Sequence[str], vendor: str, core: str) -> bool:
    """Whether a row of the map is of a vendor's processors ("" for every one), and of a core ("" likewise)."""
    if of not in ("", vendor) or (vendor and maker(real) not in ("", vendor)):
        return False
    known = {name for names in event_map()["vendors"].values() for name in names}
    if _is_absent(real, core):
        return False
    return not cores or core in cores or core not in known


def _is_absent(name: str, core: str) -> bool:
    return name.startswith(tuple(event_map()["absent"].get(core, ())))


def matched(events: Iterable[str], *, simulated: bool, vendor: str = "", core: str = "") -> tuple[Named, ...]:
    """Return which of a dump's events stand for which of the simulator's: those of one simulated event are added up.

    Parameters
    ----------
    events : iterable of str
        The dump's events.
    simulated : bool
        The dump is of the simulated PMU: every event stands for itself.
    vendor, core : str
        Of the processor: events of others' are not used, and perf's generic names do not count the same on all. ""
        leaves those out that differ by vendor.
    """
    every = list(events)
    if simulated:
        return tuple(Named(event, event) for event in every)
    at_hand: dict[str, str] = {}
    for event in every:
        at_hand.setdefault(normalise(event), event)
    groups: dict[int, list[Named]] = {}
    complete: dict[int, bool] = {}
    for event, real, note, of, cores, group, _, shared in map_rows():
        if _own(real, of, cores, vendor, core):
            complete[group] = complete.get(group, True) and real in at_hand
            groups.setdefault(group, []).append(Named(event, at_hand.get(real, ""), note, shared))
    found: dict[str, list[Named]] = {}
    for group, names in groups.items():
        if complete[group]:
            found.setdefault(names[0].simulated, names)
    return tuple(name for names in found.values() for name in names)


def beyond(events: Iterable[str], time: str) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the events of a dump that count what is not modelled, with their entries of ``[beyond]`` in events.toml.

    ``time`` is the event that time is measured in: those that another kind of core counted are left out, and those
    that do not count all of its modes (user, kernel), or take time in another.
    """
    known = event_map()["beyond"]
    mine = [event for event in events if not other_core(event, time) and set(modes(time)) <= set(modes(event))]
    found = [(event, known[normalise(event)]) for event in mine if normalise(event) in known]
    return [(event, one) for event, one in found if not one.get("kernel") or "k" in modes(time)]


@cache
def published() -> Mapping[str, frozenset[str]]:
    """Return, for each event of the published lists, the processors that have it (data/make/event_lists.py)."""
    table = datasets.load("events/published")
    of: dict[str, frozenset[str]] = {}
    for name, processors in zip(table["event"], table["processors"], strict=True):
        of[name] = of.get(name, frozenset()) | frozenset(processors.split("; "))
    return of


def _listed(events: Iterable[str], vendor: str) -> set[str]:
    """Return which of a dump's events tell its processor: those of a vendor's that the lists or the map know."""
    mapped = {row[1] for row in map_rows()}
    names = {normalise(event) for event in events}
    return {name for name in names if maker(name) == vendor and (name in published() or name in mapped)}


def _vendor_of(core: str) -> str:
    return next((of for of, cores in event_map()["vendors"].items() if core in cores), "")


def not_listed(events: Iterable[str], core: str) -> frozenset[str]:
    """Return the events that a core's processors do not list though others do; none where no list is of the core."""
    mine, vendor = frozenset(event_map()["processors"].get(core, ())), _vendor_of(core)
    own = {row[1] for row in map_rows() if _own(row[1], row[3], row[4], vendor, core)}
    names = _listed(events, vendor) - own if mine else set()
    return frozenset(name for name in names if not mine & published().get(name, frozenset()))


def shown_by_lists(events: Iterable[str], core: str) -> frozenset[str]:
    """Return the events by which the lists show that a dump is not of a core's processors; none where they do not.

    Several that they do not list though another processor lists them with nearly all of the dump; lists grow, and what
    an early one may yet get shows nothing (events.toml: early_lists).
    """
    vendor, before = _vendor_of(core), frozenset(event_map()["early_lists"].get(core, ()))
    has = {name: _having(name, vendor) for name in _listed(events, vendor)}
    shown = frozenset(name for name in not_listed(has, core) if not before & has[name])
    most = max(Counter(one for each in has.values() for one in each).values(), default=0)
    ahead = most - (len(has) - len(shown))
    return shown if ahead >= _SEVERAL and most >= _NEARLY * len(has) else frozenset()


@cache
def _having(name: str, vendor: str) -> frozenset[str]:
    """Return the processors of the lists, and the vendor's cores of the map, that have an event."""
    rows = [row for row in map_rows() if row[1] == name]
    cores = event_map()["vendors"].get(vendor, ())
    mapped = (core for core in cores if any(_own(name, row[3], row[4], vendor, core) for row in rows))
    return published().get(name, frozenset()).union(mapped)


def listing_most(events: Iterable[str], core: str) -> tuple[str, ...]:
    """Return the processors without a core here that list most of a dump's events, of a core's vendor."""
    names = _listed(events, _vendor_of(core))
    lists = {processor: 0 for of in published().values() for processor in sorted(of)}
    for name in names:
        for processor in published().get(name, ()):
            lists[processor] += 1
    most = max(lists.values())
    best = sorted(processor for processor, n in lists.items() if n == most > 0)
    return unmodelled(best) if most == len(names) else ()


def unmodelled(processors: Iterable[str]) -> tuple[str, ...]:
    """Return those of the published lists' processors that have no core here."""
    modelled = {name for names in event_map()["processors"].values() for name in names}
    return tuple(name for name in processors if name not in modelled)


def unused(events: Iterable[str], names: Sequence[Named], vendor: str, core: str, time: str = "") -> pd.DataFrame:
    """Return the events of a dump that stand for nothing in an answer: event, why, foreign.

    ``foreign`` is whether it shows that the dump is of another processor: an event of the other vendor's, of a port by
    a name of another generation of cores, one that the map says the core has not, or one of several by which the
    lists show it (`shown_by_lists`). ``time`` is the event that time is measured in: those that another kind of core
    counted are not used.
    """
    used = {one.real for one in names}
    every = [event for event in events if event not in used]
    elsewhere, shown = not_listed(events, core), shown_by_lists(events, core)
    rows = []
    for event in every:
        name = normalise(event)
        if name in TIME_EVENTS or name in WORK_EVENTS or is_fixed_rate(event):
            continue
        mine = [row for row in map_rows() if row[1] == name and row[3] in ("", vendor)]
        own = any(_own(name, row[3], row[4], vendor, core) for row in mine)
        of = maker(event)
        if other_core(event, time):
            rows.append((event, f"counted on another kind of core than {time}", False))
        elif vendor and of not in ("", vendor) and (mine or name in published()):
            rows.append((event, f"an event of {of}'s processors, which {core} is none of", True))
        elif name in elsewhere or _is_absent(name, core) or (mine and not own):
            told = listed(sorted(published().get(name, ())), 3)
            sure = any(row[6] for row in mine) or _is_absent(name, core) or name in shown
            by_list = not mine and not sure  # the list may be older than the event's name there
            not_of = f"not in the list of {core}'s events (perf 6.1)" if by_list else f"not an event of {core}"
            rows.append((event, not_of + (f", but of {told}" if told else ""), sure))
        elif mine:
            same = {one.real for one in names if one.simulated in {row[0] for row in mine}}
            why = f"counts what {listed(sorted(same))} does" if same else "counts a part of a sum"
            apart = same and time and modes(event) != modes(time)
            rows.append((event, f"counted in another mode than {time}" if apart else why, False))
        elif name in event_map()["beyond"]:
            rows.append((event, "counts what is not modelled: told where it takes much of the cycles", False))
        else:
            rows.append((event, event_map()["other"].get(name, "stands for nothing that is modelled"), False))
    return pd.DataFrame(rows, columns=["event", "why", "foreign"])


def names_for(simulated: str, vendor: str, core: str = "") -> tuple[str, ...]:
    """Return real events that stand for a simulated one on a vendor's core ("" for every); sums are joined by +."""
    groups: dict[int, list[str]] = {}
    for event, real, _, of, cores, group, *_ in map_rows():
        if event == simulated and (not vendor or _own(real, of, cores, vendor, core)):
            groups.setdefault(group, []).append(real)
    return tuple("+".join(names) for names in groups.values())


def pasted(names: Sequence[str], core: str, events: Iterable[str]) -> str:
    """Return the first of an event's names that every processor lists which may have made a dump; "" where none is so.

    perf refuses a whole line for one name that the processor has not. Where no list is of the core, it is the first.

    Parameters
    ----------
    names : sequence of str
        As `names_for` returns them.
    core : str
        The dump's core, of which there may be several processors.
    events : iterable of str
        The dump's events: processors that do not list them did not make it.
    """
    mine = _may_be(core, events)
    return next((name for name in names if not _lack(name, mine)), "" if mine else next(iter(names), ""))


def lacking(name: str, core: str, events: Iterable[str]) -> tuple[str, ...]:
    """Return the processors of a core that do not list an event (a sum: all of it) though they may have made a dump.

    Parameters are as of `pasted`.
    """
    return tuple(sorted(_lack(name, _may_be(core, events))))


def _may_be(core: str, events: Iterable[str]) -> frozenset[str]:
    """Return the processors of a core that list all of a dump's events; all of the core's where none does."""
    every = event_map()["processors"].get(core, [])
    shown = [published()[name] for name in _listed(events, _vendor_of(core)) if name in published()]
    return frozenset(one for one in every if all(one in of for of in shown)) or frozenset(every)


def _lack(name: str, mine: frozenset[str]) -> frozenset[str]:
    parts = [part for part in name.split("+") if maker(part)]
    return frozenset(one for one in mine if any(one not in published().get(part, ()) for part in parts))


def cores_of(events: Iterable[str], vendor: str = "") -> dict[str, tuple[int, int]]:
    """Return, for each core that the map knows, how many of a dump's events it has, and how many it cannot have.

    Parameters
    ----------
    events : iterable of str
        The dump's events.
    vendor : str
        Whose cores; "" is every one's.
    """
    names = {normalise(event) for event in events}
    known = event_map()["vendors"]
    found = {}
    for of, cores in known.items():
        for core in cores if vendor in ("", of) else ():
            mine = {real: False for _, real, *_ in map_rows() if real in names}
            for _, real, _, generic, only, *_ in map_rows():
                if real in mine:
                    mine[real] |= _own(real, generic, only, of, core)
            found[core] = (sum(mine.values()), len(mine) - sum(mine.values()))
    return found


def countable(vendor: str, core: str) -> frozenset[str]:
    """Return the simulated events that have a name on a core."""
    return frozenset(
        row[0]
        for row in map_rows()
        if _own(row[1], row[3], row[4], vendor, core) and row[0] not in event_map()["aside"]
    )
