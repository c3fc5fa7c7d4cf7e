"""Samples and a trained model that the tests of the views share."""

import numpy as np
import pandas as pd
import pytest

import perfkit as pk


def make_samples(n: int = 40, runs: int = 2, seed: int = 0, kind: str = "measured") -> pk.Samples:
    """Samples of three events: stalls cost cycles, hits help, clears happen in every fourth interval only."""
    rng = np.random.default_rng(seed)
    rows = []
    for r in range(runs):
        for i in range(n):
            stalls = 1e6 * rng.uniform(0.2, 5)
            hits = 1e6 * rng.uniform(1, 20)
            clears = 2e3 if i % 4 == 0 else 0
            instructions = 4e7
            cycles = instructions / 4 + 6 * stalls + (20e6 - hits) * 0.5 + 40 * clears
            counts = {"cycles": cycles, "instructions": instructions, "stalls": stalls, "hits": hits, "clears": clears}
            rows += [(f"run-{r}", i, i + 1.0, 1.0, e, c, 0.5) for e, c in counts.items()]
    names = ["run", "interval", "at", "seconds", "event", "count", "running"]
    return pk.Samples.from_counts(pd.DataFrame(rows, columns=names), kind=kind)


@pytest.fixture(scope="session")
def samples() -> pk.Samples:
    return make_samples()


@pytest.fixture(scope="session")
def training() -> pk.Samples:
    return make_samples(n=60, runs=3, seed=1)


@pytest.fixture(scope="session")
def model(training: pk.Samples):
    return pk.Spire().fit(training)


@pytest.fixture(name="make_samples", scope="session")
def maker():
    return make_samples
