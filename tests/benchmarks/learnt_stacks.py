"""CPI stacks learnt on simulated runs of other kernels, beside those of the regression: how far from the exact stack?

    python -m tests.benchmarks.learnt_stacks

Everything is simulated. A forest goes from shares of capacity (as `perfkit.Bottlenecks` reads them) to the shares of
cycles by component, learnt on data/bottlenecks without the kernel that is asked for (five folds of kernels); it is
applied to whole runs and to each interval of data/pmu by itself. Depth of its leaves and the threshold of its verdict
are chosen on training kernels only. Distance: half the sum of absolute differences over the CPI (`perfkit.scoring`).
"""

import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import perfkit as pk
from perfkit.scoring import stack_scores
from perfkit.scoring.evidence import COMPONENTS

sys.path.insert(0, str(Path(__file__).parents[2] / "data" / "make"))
from league import FOLDS, SEED, folds, x_of

PARTS = list(COMPONENTS)
LEAVES, TREES = (1, 3, 6), 60
Table = NDArray[np.float64]


def shares(frame: pd.DataFrame) -> Table:
    """Return the exact shares of cycles, the base first, (runs, 1 + components)."""
    found = frame[[f"stack:{part}" for part in PARTS]].to_numpy(dtype=float)
    return np.column_stack([1.0 - found.sum(axis=1), found])


def distance(said: Table, exact: Table) -> Table:
    """Return the share of cycles in the wrong place, run by run."""
    return 0.5 * np.abs(said - exact).sum(axis=1)


def forest(x: Table, y: Table, leaf: int):
    from sklearn.ensemble import ExtraTreesRegressor

    return ExtraTreesRegressor(TREES, min_samples_leaf=leaf, max_features=0.5, random_state=SEED).fit(x, y)


def learnt(x: Table, y: Table, kernels: NDArray[np.int64]):
    """Return a forest with the leaf that is best on kernels held out of these, one of distances, and their median."""
    inner = kernels % 3
    trials = {}
    for leaf in LEAVES:
        said = np.zeros_like(y)
        for k in range(3):
            said[inner == k] = forest(x[inner != k], y[inner != k], leaf).predict(x[inner == k])
        trials[leaf] = distance(said, y)
    best = min(trials, key=lambda leaf: trials[leaf].mean())
    doubt = forest(x, trials[best][:, None], 6)
    return forest(x, y, best), doubt, float(np.median(trials[best])), best


def whole_runs(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the distances on data/bottlenecks, a fifth of the kernels held out at a time."""
    x, y, fold = x_of(frame).astype(float), shares(frame), folds(frame)
    codes = pd.factorize(frame["workload"])[0]
    parts = []
    for k in range(FOLDS):
        train, test = fold != k, fold == k
        model, doubt, limit, leaf = learnt(x[train], y[train], codes[train])
        print(f"fold {k}: leaves of {leaf}", flush=True)
        part = frame.loc[test, ["core", "run", "origin", "workload"]].assign(
            learnt=distance(model.predict(x[test]), y[test]), base=1.0 - y[test, 0],
            sure=doubt.predict(x[test]).ravel() <= limit, fold=k,
        )  # fmt: skip
        parts.append(part)
    return pd.concat(parts)


def told(name: str, values: pd.Series) -> None:
    """Print one line of figures."""
    figures = f"mean {values.mean():.3f}  p90 {values.quantile(0.9):.3f}  median {values.median():.3f}"
    print(f"{name:58} {figures}  ({len(values)})", flush=True)


def beside_regression(frame: pd.DataFrame, core: str) -> pd.DataFrame:
    """Return the distances on data/pmu of one core: regression, forest by run and by interval, and their means."""
    samples, truth = pk.datasets.load(f"pmu/{core}"), pk.datasets.load(f"pmu/{core}-truth")
    scored = stack_scores(samples, truth).table
    fitted, exact = (
        scored[[f"{of}:{part}" for part in ("base", *PARTS)]].to_numpy(dtype=float) / scored[["cpi"]].to_numpy()
        for of in ("fitted", "true")
    )
    wide = samples.to_wide()
    run = wide.index.get_level_values("run").astype(str)
    fold = folds(pd.concat([frame[["workload"]], scored[["workload"]]], ignore_index=True))
    before, here = fold[: len(frame)], fold[len(frame) :]
    by_run, by_interval = np.zeros_like(exact), np.zeros_like(exact)
    x, y = x_of(frame).astype(float), shares(frame)
    for k in range(FOLDS):
        model, *_ = learnt(x[before != k], y[before != k], pd.factorize(frame["workload"])[0][before != k])
        for row in np.flatnonzero(here == k):
            counts = wide[run == scored.index[row]]
            for table, into in ((counts.sum().to_frame().T, by_run), (counts, by_interval)):
                cycles = table["cycles"].to_numpy(dtype=float)
                rates = table.drop(columns="cycles").div(cycles, axis=0).add_prefix("rate:").assign(core=core)
                said = model.predict(x_of(rates.reset_index(drop=True)).astype(float))
                into[row] = (said * cycles[:, None]).sum(axis=0) / cycles.sum()
    return pd.DataFrame(
        {
            "everything in the base": 1.0 - exact[:, 0],
            "regression": distance(fitted, exact),
            "learnt, whole runs": distance(by_run, exact),
            "learnt, intervals apart": distance(by_interval, exact),
            "mean of regression and learnt": distance(0.5 * (fitted + by_run), exact),
        },
        index=scored.index,
    ).assign(verdict=scored["verdict"])


def main() -> None:
    """Print the tables."""
    warnings.simplefilter("ignore")
    frame = pd.read_parquet(Path(__file__).parents[2] / "data" / "bottlenecks" / "runs.parquet")
    if "pmu" not in sys.argv[1:]:
        found = whole_runs(frame)
        corpus = found[found["origin"] == "corpus"]
        for name, part in (("all runs", found), ("the corpus", corpus)):
            told(f"{name}: everything in the base", part["base"])
            told(f"{name}: learnt, kernels held out", part["learnt"])
            for sure, rows in part.groupby("sure"):
                told(f"{name}: learnt, {'supported' if sure else 'unsupported'}", rows["learnt"])
        return
    for core in ("skylake_x", "zen4"):
        found = beside_regression(frame, core)
        for name in found.columns[:-1]:
            told(f"{core}: {name}", found[name])
        for verdict, rows in found.groupby("verdict"):
            told(f"{core}: regression, {verdict}", rows["regression"])


if __name__ == "__main__":
    main()
