"""Real events by the names of the simulated PMU, and where they do not mean the same (events.toml)."""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from perfkit.fitters.bottlenecks.features import any_of
from perfkit.samples.events import normalise

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
    """

    simulated: str
    real: str
    note: str = ""


@cache
def event_map() -> Mapping[str, Any]:
    """Return the file as it is."""
    return tomllib.loads(_FILE.read_text(encoding="utf-8"))


def map_table() -> pd.DataFrame:
    """Return the map as a table: one row per simulated event and real name; vendor "" is every one."""
    known = event_map()
    rows = [
        {"simulated": event, "real": name, "note": entry.get("note", ""), "vendor": entry.get("vendor", "")}
        for event, entries in known["events"].items()
        for entry in entries
        for name in entry["names"]
    ]
    parts = {f"uops.{port}": names for port, names in known["ports"].items()}
    parts |= {any_of(name): names for name, names in known["classes"].items()}
    rows += [{"simulated": e, "real": n, "note": "", "vendor": ""} for e, names in parts.items() for n in names]
    return pd.DataFrame(rows)


def matched(events: Iterable[str], *, simulated: bool, vendor: str = "") -> tuple[Named, ...]:
    """Return which of a dump's events stand for which of the simulator's: one dump event for each at most.

    Parameters
    ----------
    events : iterable of str
        The dump's events.
    simulated : bool
        The dump is of the simulated PMU: every event stands for itself.
    vendor : str
        Of the processor: perf's generic names do not count the same on all. "" leaves those out that differ.
    """
    listed = list(events)
    if simulated:
        return tuple(Named(event, event) for event in listed)
    at_hand: dict[str, str] = {}
    for event in listed:
        at_hand.setdefault(normalise(event), event)
    found: dict[str, Named] = {}
    for row in map_table().itertuples():
        if row.simulated not in found and row.real in at_hand and row.vendor in ("", vendor):
            found[str(row.simulated)] = Named(str(row.simulated), at_hand[str(row.real)], str(row.note))
    return tuple(found.values())


def names_for(simulated: str, vendor: str) -> tuple[str, ...]:
    """Return real events that stand for a simulated one on processors of a vendor ("" for every)."""
    table = map_table()
    mine = table["vendor"].isin(["", vendor]) if vendor else True
    names = [str(name) for name in table.loc[(table["simulated"] == simulated) & mine, "real"]]
    amd = ("ex_", "ls_", "de_", "l2_pf", "ic_")
    kept = [n for n in names if vendor == "" or n.startswith(amd) == (vendor == "AMD") or "-" in n]
    return tuple(kept)
