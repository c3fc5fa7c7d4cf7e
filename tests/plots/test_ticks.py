"""Numbers along an axis stand beside each other, whatever their size and however wide the picture."""

from itertools import pairwise
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from perfkit.plots.gus import plot_instruction_schedule
from perfkit.plots.threads import plot_imbalance
from perfkit.plots.ticks import large_numbers


def gaps(ax) -> list[float]:
    """Pixels between the numbers across that are seen, each to the next, in order."""
    ax.figure.canvas.draw()
    low, high = sorted(ax.get_xlim())
    every = zip(ax.get_xticks(), ax.get_xticklabels(), strict=True)
    seen = sorted((label.get_window_extent() for at, label in every if low <= at <= high), key=lambda box: box.x0)
    return [after.x0 - before.x1 for before, after in pairwise(seen)]


@pytest.mark.parametrize("size", [1, 1e3, 4.1e4, 4.1e5, 4.1e6, 4.1e9])
@pytest.mark.parametrize("wide", [2.5, 5, 10])
def test_numbers_across_stand_apart(size, wide):
    figure, (ax, _) = plt.subplots(1, 2, figsize=(2 * wide, 3), layout="constrained")
    ax.barh(range(4), [size / 5, size / 2, 0.8 * size, size])
    large_numbers(ax)
    found = gaps(ax)
    assert all(gap > 3 for gap in found)
    if size < 1e6 * wide:  # of longer ones there is room for one alone
        assert len(found) >= (1 if wide < 5 else 2)
    plt.close(figure)


class FourThreads(list):
    """As much of a result of threads as its picture asks for, with 41,500 cycles."""

    thread_cycles = np.array([8000.0, 22_000, 34_600, 41_500])
    waits = 41_500 - thread_cycles
    imbalance = 1.57
    results = (SimpleNamespace(settings=SimpleNamespace(core=SimpleNamespace(name="zen5"))),)


def test_threads_of_many_cycles_have_numbers_that_can_be_read():
    figure, axes = plt.subplots(1, 2, figsize=(10.5, 3.2), layout="constrained")
    plot_imbalance(FourThreads([f"thread {k}" for k in range(4)]), ax=axes[0])
    assert min(gaps(axes[0])) > 3
    assert "40,000" in [label.get_text() for label in axes[0].get_xticklabels()]
    plt.close(figure)


def test_a_schedule_late_in_a_run_has_cycles_that_can_be_read():
    late = pd.DataFrame({"text": ["add", "mul"], "dispatch": 2e6, "start": [2e6, 2e6 + 3], "end": 2e6 + 40.0})
    figure, axes = plt.subplots(1, 2, figsize=(9, 3), layout="constrained")
    plot_instruction_schedule(late.assign(retire=2e6 + 50), ax=axes[0])
    assert min(gaps(axes[0])) > 3
    plt.close(figure)


def test_small_numbers_stay_as_they_were():
    figure, ax = plt.subplots()
    ax.barh([0], [8])
    before = ax.get_xticks().tolist()
    large_numbers(ax)
    assert ax.get_xticks().tolist() == pytest.approx(before)
    plt.close(figure)
