"""The simulator's answers on a few cases, by which a test notices that simulated data are of an older model.

Written beside the data, as data/bottlenecks/answers.json and data/pmu/answers.json.
"""

import json
from pathlib import Path

import perfkit as pk
from perfkit import SimulatedPmu

CORES = ("skylake_x", "golden_cove", "zen4", "zen5")
TRACES = ("triad", "divider", "branchy", "store-forward")
PATH = Path(__file__).parent.parent / "bottlenecks" / "answers.json"


def answers() -> dict[str, dict[str, float]]:
    """Return every count of a few shipped traces on every core, as run: event: count with nine digits."""
    found = {}
    for core in CORES:
        for name in TRACES:
            pmu = SimulatedPmu(core, interval=10**9, unit="instructions")
            exact, _ = pmu.run_counts(pk.datasets.load(f"traces/{name}"))
            found[f"{core}/{name}"] = {event: float(f"{count:.9g}") for event, count in exact.items() if count}
    return found


def write(path: Path = PATH) -> None:
    """Write the answers of today's simulator."""
    path.write_text(json.dumps(answers(), indent=0, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write()
