"""How long a view takes to redraw after a choice: the Python side, up to the messages that it sends."""

import numpy as np
import pandas as pd
import pytest

import perfkit as pk
from perfkit_widgets import SamplesExplorer, SpireExplorer

N = 3000
EVENTS = 40


def samples(n: int, seed: int) -> pk.Samples:
    rng = np.random.default_rng(seed)
    work = np.full(n, 1e9)
    counts = 10 ** rng.uniform(3, 7, (EVENTS, n))
    time = work / 4 + (counts * rng.uniform(1, 20, (EVENTS, 1))).sum(axis=0)
    frame = pd.DataFrame(
        {
            "event": np.repeat([f"event-{i}" for i in range(EVENTS)], n),
            "interval": np.tile(np.arange(n), EVENTS),
            "at": np.tile(np.arange(1.0, n + 1), EVENTS),
            "time": np.tile(time, EVENTS),
            "work": np.tile(work, EVENTS),
            "count": counts.ravel(),
        }
    )
    return pk.Samples.from_frame(frame, kind="generated")


@pytest.fixture(scope="module")
def explorer():
    train = samples(N, 0)
    return SpireExplorer(pk.Spire().fit(train), samples(N, 1), train)


def alternate(view, trait, values):
    state = {"next": 0}

    def change():
        state["next"] = 1 - state["next"]
        setattr(view, trait, values[state["next"]])

    change()
    return change


def report(benchmark, what, limit):
    median = benchmark.stats.stats.median * 1000
    print(f"\n{what}: {median:.1f} ms for {N} samples per event; limit {limit} ms, ratio {median / limit:.2f}")
    assert median < limit


@pytest.mark.parametrize("axes", ["log", "linear"])
def test_choosing_an_event(benchmark, explorer, axes):
    explorer.axes = axes
    benchmark(alternate(explorer, "event", explorer._shown[:2]))
    report(benchmark, f"SpireExplorer, event ({axes})", 150)


def test_choosing_a_window(benchmark, explorer):
    benchmark(alternate(explorer, "window", [(10.0, 2000.0), (500.0, 2500.0)]))
    report(benchmark, f"SpireExplorer, window re-ranked over {EVENTS} events", 1000)


def test_choosing_an_event_of_samples(benchmark):
    view = SamplesExplorer(samples(N, 2))
    benchmark(alternate(view, "x", ["event-1", "event-2"]))
    report(benchmark, "SamplesExplorer, event", 150)
