"""Print the scores of the methods on the shipped simulated runs, as the table of docs/simulated-pmu.md.

Run from the repository's root (about a minute): python data/make/pmu_scores.py. With the word ``prefetcher`` it prints
what becomes of the extended roofline's score on cold caches when the simulated core has no prefetcher (needs gcc).
"""

import sys
from dataclasses import replace

import perfkit as pk
from perfkit import scoring
from perfkit.errors import counted
from perfkit.simulators.pmu.truth import Truth, truth_of

Importances = dict[str, dict[str, float]]
CORES = ("skylake_x", "zen4")


def all_scores(core: str) -> list[scoring.Scores]:
    """Return every scoring of one core's shipped runs."""
    samples, truth = pk.datasets.load(f"pmu/{core}"), pk.datasets.load(f"pmu/{core}-truth")
    counted = [e for e in samples.events if not e.startswith("stall.")]
    return [
        scoring.spire_scores(samples, truth, events=counted),
        scoring.topdown_scores(samples, truth),
        scoring.stack_scores(samples, truth),
        *(replace(found, method=f"{found.method}, {caches}") for caches, found in roofs_of(core).items()),
        scoring.importance_scores(*forest_of(core)),
    ]


def forest_of(core: str) -> tuple[Importances, Truth]:
    """Return one core's shipped importances by run, and the truth."""
    found = pk.datasets.load(f"pmu/{core}-importances").set_index("run").to_dict("index")
    return found, pk.datasets.load(f"pmu/{core}-truth")


def roofs_of(core: str) -> dict[str, scoring.Scores]:
    """Return the scores of one core's shipped roofs: by what is warm."""
    truth, frame = pk.datasets.load(f"pmu/{core}-truth"), pk.datasets.load(f"pmu/{core}-roofs")
    warm, cold = (dict(list(frame[frame["caches"] == caches].groupby("run"))) for caches in ("warm", "cold"))
    return {
        "both warm": scoring.roof_scores(warm, pk.datasets.load(f"pmu/{core}-truth-warm")),
        "warm roofs, cold truth": scoring.roof_scores(warm, truth),
        "both cold": scoring.roof_scores(cold, truth),
    }


def without_prefetcher(core: str) -> scoring.Scores:
    """Return the scores of the cold roofs against the truth of a core without a prefetcher (traces the corpus)."""
    from pmu import traces

    machine = pk.Microarchitecture.load(core)
    off = replace(machine.features["next_line_prefetch"], value=False)
    machine = replace(machine, features={**machine.features, "next_line_prefetch": off})
    frame = pk.datasets.load(f"pmu/{core}-roofs")
    cold = dict(list(frame[frame["caches"] == "cold"].groupby("run")))
    return scoring.roof_scores(cold, truth_of(pk.Gus(machine), traces().items()))


def main() -> None:
    """Print the table."""
    if sys.argv[1:] == ["prefetcher"]:
        print("\n".join(f"{core}, cold, no prefetcher: {without_prefetcher(core)}" for core in CORES))
        return
    found = {core: all_scores(core) for core in CORES}
    print("| method | measure | against | " + " | ".join(f"{c} | baseline" for c in CORES) + " |")
    print("| --- " * (3 + 2 * len(CORES)) + "|")
    for of_method in zip(*found.values(), strict=True):
        for line in lines(of_method):
            print(line)


def lines(of_method: tuple[scoring.Scores, ...]) -> list[str]:
    """Return the rows of one method, the cores side by side."""
    shown = []
    for name, first in of_method[0].measures.iterrows():
        cells = []
        for one in of_method:
            known = one.measures.reindex([name]).iloc[0]
            spread = f"{known['low']:.2f} to {known['high']:.2f}, {known['runs']:.0f} runs"
            cells += [f"{known['score']:.2f} ({spread})", f"{known['baseline']:.2f}"]
        shown.append(f"| {of_method[0].method} | {name} | {first['against']} | " + " | ".join(cells) + " |")
    for reason in of_method[0].left_out:
        counts = " | ".join(f"{counted(len(one.left_out.get(reason, ())), 'runs')} | " for one in of_method)
        shown.append(f"| {of_method[0].method} | *excluded: {reason}* | | {counts} |")
    return shown


if __name__ == "__main__":
    main()
