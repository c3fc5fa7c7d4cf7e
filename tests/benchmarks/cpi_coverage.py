"""How often intervals of CPI stacks hold a planted truth, and how long they are.

Run: python -m tests.benchmarks.cpi_coverage.

Generated data (`tests.fitters.test_cpi_validation.many_events`): 2 % of noise in the cycles, alone, lasting (each value
0.8 of the one before), or with an error of 5 % in each count, as multiplexing gives. Some five minutes.
"""

import sys
import warnings

import numpy as np

import perfkit as pk
from tests.fitters.test_cpi_validation import COSTS, many_events

WAYS = {"2 % noise": {}, "lasting noise": {"lasting": 0.8}, "5 % error of counts": {"multiplexed": 0.05}}


def held(n: int, events: int, form: str, seeds: int, **settings: float) -> tuple[float, float]:
    """Return the share of intervals of base and penalties that hold the truth, and their median length over the CPI."""
    inside, lengths = [], []
    for seed in range(seeds):
        fit = pk.CpiStack(form=form, placebos=1).fit(many_events(seed, n, events, **settings))
        table = fit.to_frame().drop(index="residual")
        truth = np.append(0.4, COSTS[[int(name[1:]) for name in fit.events]])
        low, high = (np.append(table[end].iloc[0], table[f"penalty_{end}"].iloc[1:]) for end in ("low", "high"))
        inside += ((low - 1e-9 <= truth) & (truth <= high + 1e-9)).tolist()
        lengths += ((high - low) * np.append(1.0, table["rate"].iloc[1:]) / fit.cpi).tolist()
    return float(np.mean(inside)), float(np.median(lengths))


def main(seeds: int = 24) -> None:
    """Print a table."""
    warnings.simplefilter("ignore")
    print("| intervals | events |" + "".join(f" {form}, {way} |" for form in ("ipc", "cpi") for way in WAYS))
    print("| --- " * (2 + 2 * len(WAYS)) + "|")
    for n in (40, 100, 200, 1000):
        for events in (3, 6, 9):
            cells = [held(n, events, form, seeds, **way) for form in ("ipc", "cpi") for way in WAYS.values()]
            shown = "".join(f" {share:.2f}, {length:.3f} |" for share, length in cells)
            print(f"| {n} | {events} |{shown}", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
