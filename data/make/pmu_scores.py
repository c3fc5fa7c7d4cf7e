"""Print the scores of the methods on the shipped simulated runs, as the table of docs/simulated-pmu.md.

Run from the repository's root (about a minute): python data/make/pmu_scores.py
"""

import perfkit as pk
from perfkit import scoring

CORES = ("skylake_x", "zen4")


def all_scores(core: str) -> list[scoring.Scores]:
    """Return every scoring of one core's shipped runs."""
    samples, truth = pk.datasets.load(f"pmu/{core}"), pk.datasets.load(f"pmu/{core}-truth")
    counted = [e for e in samples.events if not e.startswith("stall.")]
    roofs = dict(list(pk.datasets.load(f"pmu/{core}-roofs").groupby("run")))
    importances = pk.datasets.load(f"pmu/{core}-importances").set_index("run").to_dict("index")
    return [
        scoring.spire_scores(samples, truth, events=counted),
        scoring.topdown_scores(samples, truth),
        scoring.stack_scores(samples, truth),
        scoring.roof_scores(roofs, truth),
        scoring.importance_scores(importances, truth),
    ]


def main() -> None:
    """Print one table a core."""
    for core in CORES:
        print(f"\n**{core}**\n")
        print("| method | measure | score | 95 % | baseline | against | runs |")
        print("| --- | --- | --- | --- | --- | --- | --- |")
        for found in all_scores(core):
            for name, row in found.summary.iterrows():
                spread = f"{row['low']:.2f} to {row['high']:.2f}"
                shown = f"{row['score']:.2f} | {spread} | {row['baseline']:.2f} | {row['against']} | {row['runs']}"
                print(f"| {found.method} | {name} | {shown} |")
            for reason, runs in found.left_out.items():
                print(f"| {found.method} | *left out: {reason}* | | | | | {len(runs)} |")


if __name__ == "__main__":
    main()
