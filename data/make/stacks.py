"""Learn the CPI stacks of `perfkit.Bottlenecks.stacks`, and score them beside the regression's.

Everything is simulated. Run from the repository's root, after data/make/pmu_runs.py:

- ``python data/make/stacks.py table``: distance from the exact stack, kernels held out (five folds, all runs of a
  kernel or program in one): half the sum of absolute differences over the CPI;
- ``python data/make/stacks.py nested``: why the shares nearest to the trees', and leaves of two runs: for each of these
  folds, mean, median and nearest, leaves of three and of two, on further folds of its training kernels alone, then on
  the fold itself;
- ``python data/make/stacks.py regression``: beside `perfkit.CpiStack` on data/pmu, run by run;
- ``python data/make/stacks.py missing``: with events missing, of the kernels of one fold: as if what was not counted
  were below every threshold, and completed by the simulated runs of the other folds;
- ``python data/make/stacks.py learn``: learn from all runs, calibrate by predictions of held-out kernels, and write
  data/bottlenecks/stacks.npz.

A forest goes from shares of capacity to the roots of the shares of cycles, which span orders of magnitude. Its size is
that of `perfkit.Bottlenecks`' forest; nothing was fitted to the scores of the corpus. The way in which the trees are
put together and the size of the leaves were chosen on further folds within the training kernels.
"""

import hashlib
import sys
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
from league import COUNTED, FOLDER, FOLDS, SEED, chosen, credits_of, folds, manifest, rates, x_of
from numpy.typing import NDArray

import perfkit as pk
from perfkit.fitters.bottlenecks.alike import Pool, completed
from perfkit.fitters.bottlenecks.features import NAMES, known, matrix
from perfkit.fitters.bottlenecks.forest import Forest, learn
from perfkit.fitters.bottlenecks.model import WAYS
from perfkit.fitters.bottlenecks.stacks import SUPPORTED, UNCERTAIN, shares_in_ways, shares_of
from perfkit.machine.classes import CLASSES
from perfkit.machine.core import Microarchitecture
from perfkit.scoring import stack_scores
from perfkit.scoring.evidence import COMPONENTS

OUTPUTS = ("base", *COMPONENTS)
TREES, LEAF, BINS = 30, 2, 40
CHOICES = [(leaf, how) for leaf in (3, 2) for how in ("mean", "median", "nearest")]
Table = NDArray[np.float64]


def exact_shares(frame: pd.DataFrame) -> Table:
    """Return the exact shares of cycles, the base first, (runs, 1 + components)."""
    found = frame[[f"stack:{part}" for part in COMPONENTS]].to_numpy(dtype=float)
    return np.clip(np.column_stack([1.0 - found.sum(axis=1), found]), 0.0, 1.0)


def distance(said: Table, exact: Table) -> Table:
    """Return the share of cycles in the wrong place, run by run."""
    return np.asarray(0.5 * np.abs(said - exact).sum(axis=1))


def seen(frame: pd.DataFrame) -> list[NDArray[np.float32]]:
    """Return features as counted, as counters in turns see them, and with some events not counted at all."""
    turns = x_of(frame, "turn")
    rng = np.random.default_rng(SEED)
    left_out = rng.random(turns.shape) < rng.uniform(0.1, 0.8, (len(frame), 1))
    return [x_of(frame), turns, np.where(left_out, np.float32(-1), turns)]


def forest_of(frame: pd.DataFrame, leaf: int = LEAF) -> Forest:
    """Learn from these runs, not calibrated."""
    several = seen(frame)
    y = np.sqrt(np.concatenate([exact_shares(frame)] * len(several)))
    return learn(np.concatenate(several), y, features=NAMES, outputs=OUTPUTS, trees=TREES, leaf=leaf, seed=SEED)


def held_out(frame: pd.DataFrame) -> pd.DataFrame:
    """Return distance and spread of every run as `seen` has it, its kernel held out; ``counts`` says in which way."""
    fold, parts = folds(frame), []
    for k in range(FOLDS):
        forest = forest_of(frame[fold != k].reset_index(drop=True))
        test = frame[fold == k].reset_index(drop=True)
        for name, x in zip(("exact", "8 counters in turns, 5 % noise", "events left out"), seen(test), strict=True):
            shares, spread = shares_of(forest, x)
            exact = exact_shares(test)
            part = test[["core", "run", "origin", "workload"]].assign(counts=name, spread=spread, fold=k)
            parts.append(part.assign(distance=distance(shares, exact), base=1.0 - exact[:, 0]))
    return pd.concat(parts, ignore_index=True)


def nested(frame: pd.DataFrame) -> None:
    """Print mean and p90 of every choice, within the training kernels of each fold and on the fold itself."""
    fold, last = folds(frame), []
    for k in range(FOLDS):
        train, test = (frame[mine].reset_index(drop=True) for mine in (fold != k, fold == k))
        inner = folds(train)
        splits = [
            (train[inner != j].reset_index(drop=True), train[inner == j].reset_index(drop=True)) for j in range(FOLDS)
        ]
        within = np.concatenate([choices(*split) for split in splits], axis=1)
        held = choices(train, test)
        last.append(held[np.quantile(within, 0.9, axis=1).argmin()])
        for name, rows in (("within", within), ("held out", held)):
            for (leaf, how), row in zip(CHOICES, rows, strict=True):
                told(f"fold {k}, {name}: leaves of {leaf}, {how} of the trees", pd.Series(row))
    told("held out, whichever was best within", pd.Series(np.concatenate(last)))


def choices(train: pd.DataFrame, test: pd.DataFrame) -> Table:
    """Return the distances (choices, runs) of `CHOICES`."""
    x, exact, found = x_of(test), exact_shares(test), []
    for leaf in dict.fromkeys(leaf for leaf, _ in CHOICES):
        forest = forest_of(train, leaf)
        each = np.array(list(forest.each(x)))
        mean, median = each.mean(axis=0), np.median(each, axis=0)
        for roots in (mean, np.where(median.any(axis=1, keepdims=True), median, mean)):
            squares = np.square(roots)
            found.append(distance(squares / squares.sum(axis=1, keepdims=True), exact))
        found.append(distance(shares_of(forest, x)[0], exact))
    return np.array(found)


def missing(frame: pd.DataFrame) -> None:
    """Print the distances with events missing, the kernels of one fold held out."""
    mine = folds(frame) == 0
    train, test = (frame[those].reset_index(drop=True) for those in (~mine, mine))
    forest, exact = forest_of(train), exact_shares(test)
    pool = Pool(x_of(train), np.array(list(CLASSES))[credits_of(train).argmax(axis=1)])
    for name in COUNTED:
        rng = np.random.default_rng(SEED)
        taken, expected, before = np.zeros_like(exact), np.zeros(len(test)), np.zeros_like(exact)
        for core, part in test.groupby("core"):
            machine = Microarchitecture.load(str(core))
            every = rates(part)
            some = {
                event: values for event, values in every.items() if event in chosen(name, list(every), machine, rng)
            }
            before[part.index] = shares_of(forest, matrix(some, machine))[0]
            for each in completed(known(some, machine), WAYS, pool):
                at = part.index[each.rows]
                taken[at], expected[at] = shares_in_ways(forest, each)
        told(f"{name}: everything in the base", pd.Series(1.0 - exact[:, 0]))
        told(f"{name}: what is missing as if below every threshold", pd.Series(distance(before, exact)))
        told(f"{name}: completed", pd.Series(distance(taken, exact)))
        told(f"{name}: mean distance of the trees in all ways", pd.Series(expected))


def levels(found: pd.DataFrame) -> Table:
    """Return (2, k) spreads of the trees and the mean distance there: bins of equal counts, made monotone."""
    ordered = found.sort_values("spread", kind="stable")
    bins = np.array_split(ordered[["spread", "distance"]].to_numpy(), BINS)
    at, mean = np.array([b.mean(axis=0) for b in bins]).T
    return np.array([[0.0, *at], np.maximum.accumulate([mean[0], *mean])])


def judged(found: pd.DataFrame) -> pd.DataFrame:
    """Return it with the distance that the other folds' runs let expect, and its verdict."""
    expected = np.zeros(len(found))
    for k in range(FOLDS):
        mine = (found["fold"] == k).to_numpy()
        expected[mine] = np.interp(found["spread"][mine], *levels(found[~mine]))
    verdict = np.where(expected <= SUPPORTED, "supported", np.where(expected <= UNCERTAIN, "uncertain", "unsupported"))
    return found.assign(expected=expected, verdict=verdict)


def told(name: str, values: pd.Series) -> None:
    """Print one line of figures."""
    figures = f"mean {values.mean():.3f}  p90 {values.quantile(0.9):.3f}  median {values.median():.3f}"
    print(f"{name:72} {figures}  ({len(values)})", flush=True)


def tables(frame: pd.DataFrame) -> None:
    """Print the distances of held-out kernels."""
    found = judged(held_out(frame))
    for counts, every in found.groupby("counts", sort=False):
        for origin, part in [("all", every), *every.groupby("origin")]:
            told(f"{counts}: {origin}, everything in the base", part["base"])
            told(f"{counts}: {origin}", part["distance"])
            for verdict, rows in part.groupby("verdict"):
                told(f"{counts}: {origin}, {verdict}", rows["distance"])
    apart = frame["origin"] == "corpus"
    shares, _ = shares_of(forest_of(frame[~apart].reset_index(drop=True)), x_of(frame[apart].reset_index(drop=True)))
    told("exact: corpus, no kernel of the corpus learnt from", pd.Series(distance(shares, exact_shares(frame[apart]))))


def beside_regression(frame: pd.DataFrame, core: str) -> pd.DataFrame:
    """Return the distances on data/pmu of one core: of the regression, of the forest, and of their mean."""
    samples, truth = pk.datasets.load(f"pmu/{core}"), pk.datasets.load(f"pmu/{core}-truth")
    scored = stack_scores(samples, truth).table
    fitted, exact = (
        scored[[f"{of}:{part}" for part in OUTPUTS]].to_numpy(dtype=float) / scored[["cpi"]].to_numpy()
        for of in ("fitted", "true")
    )
    fold = folds(pd.concat([frame[["workload"]], scored[["workload"]]], ignore_index=True))
    before, here = fold[: len(frame)], fold[len(frame) :]
    sums = samples.to_wide().groupby("run", observed=True).sum()
    counts = sums.loc[scored.index.astype(str)].reset_index(drop=True)
    per_cycle = counts.drop(columns="cycles").div(counts["cycles"], axis=0).add_prefix("rate:").assign(core=core)
    learnt, x = np.zeros_like(exact), x_of(per_cycle)
    for k in range(FOLDS):
        learnt[here == k] = shares_of(forest_of(frame[before != k].reset_index(drop=True)), x[here == k])[0]
    return pd.DataFrame(
        {
            "everything in the base": 1.0 - exact[:, 0],
            "regression": distance(fitted, exact),
            "learnt": distance(learnt, exact),
            "mean of both": distance(0.5 * (fitted + learnt), exact),
        },
        index=scored.index,
    ).assign(verdict=scored["verdict"])


def main() -> None:
    """Do what is asked for."""
    warnings.simplefilter("ignore")
    path = FOLDER / "runs.parquet"
    frame = pd.read_parquet(path)
    if sys.argv[1:] == ["learn"]:
        digest = np.array(hashlib.sha256(path.read_bytes()).hexdigest()[:16])
        replace(forest_of(frame), levels=levels(held_out(frame)), digest=digest).save(FOLDER / "stacks.npz")
        manifest()
    elif sys.argv[1:] in (["nested"], ["missing"]):
        (nested if sys.argv[1] == "nested" else missing)(frame)
    elif sys.argv[1:] == ["regression"]:
        for core in ("skylake_x", "zen4"):
            found = beside_regression(frame, core)
            for name in found.columns[:-1]:
                told(f"{core}: {name}", found[name])
            for verdict, rows in found.groupby("verdict"):
                told(f"{core}: regression, {verdict}", rows["regression"])
    else:
        tables(frame)


if __name__ == "__main__":
    main()
