"""Learn `perfkit.Bottlenecks`, and score it beside other methods on the same runs (data/bottlenecks/runs.parquet).

Run from the repository's root:

- ``python data/make/league.py table``: every method on held-out kernels (and ours on held-out cores, too), with
  intervals from draws of whole kernels; writes data/bottlenecks/league.csv;
- ``python data/make/league.py real``: print how ours does with the events that each core has a name for;
- ``python data/make/league.py missing``: print how often ours names a class rightly, and wrongly, with events missing;
- ``python data/make/league.py orders``: print how ours does where credits are of three times as many orders of
  the classes (some of the runs, simulated anew);
- ``python data/make/league.py docs``: print that table as docs/bottlenecks.md has it;
- ``python data/make/league.py learn``: learn from all runs, calibrate by predictions of held-out kernels, and write
  data/bottlenecks/model.npz.

Nothing here is fitted to the scores: the forest's size and the rules were fixed on part of the generated loops.
"""

import hashlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from real_names import as_real

import perfkit as pk
from perfkit.fitters.bottlenecks.alike import Pool
from perfkit.fitters.bottlenecks.features import NAMES, matrix, needed, rule_scores, ruled_out
from perfkit.fitters.bottlenecks.features import features as shares
from perfkit.fitters.bottlenecks.forest import VENDORS, Forest, learn
from perfkit.fitters.bottlenecks.model import rates_of
from perfkit.fitters.bottlenecks.names import countable, matched
from perfkit.machine.classes import CLASSES, class_of, classes_of
from perfkit.machine.core import Microarchitecture
from perfkit.scoring.evidence import Evidence
from perfkit.scoring.ranks import rank_score
from perfkit.simulators.pmu.credit import Variants

FOLDER = Path(__file__).parent.parent / "bottlenecks"
FOLDS, SEED, DRAWS = 5, 20261123, 400
BINS, KINDS = 10, 8  # of first answers, by probability; parts of the kinds of loops, each held out once
SMALL = 0.01  # credits below this are no effect
NEAR, LEAST = 0.9, 0.02  # as perfkit.simulators.pmu.truth
SURE = 0.5  # the probability below which no class is named
TREES, LEAF = 30, 6  # a file under a megabyte; 40 and 3 score the same within half a hundredth
MORE_ORDERS, SAMPLED = 12, 60  # of the classes, for credits; runs of each origin that are asked again
OUTPUTS = tuple(CLASSES)
ORIGINS = ("generated", "generated kernel", "corpus")
TURNED = ", 8 counters, 5 % noise"
CYCLES = 1e9  # of a run's dump by real names
KINDS_OUT = "Bottlenecks, kinds of loops held out"
Order = NDArray[np.float64]  # (runs, classes): the larger, the earlier
Split = tuple[NDArray[np.bool_], NDArray[np.bool_]]  # which runs are trained on, and which are tested


# ------------------------------------------------------------------ runs and their truth


def table(path: Path = FOLDER / "runs.parquet") -> pd.DataFrame:
    """Return the runs in which anything gives a speedup."""
    frame = pd.read_parquet(path)
    credit = credits_of(frame)
    return frame[credit.max(axis=1) >= LEAST].reset_index(drop=True)


def credits_of(frame: pd.DataFrame) -> NDArray[np.float64]:
    """Return the true credits, 0 for classes that a core does not have, (runs, classes)."""
    columns = [f"credit:{name}" for name in OUTPUTS]
    return frame.reindex(columns=columns).fillna(0.0).to_numpy(dtype=float)


def rates(frame: pd.DataFrame, prefix: str = "rate") -> dict[str, NDArray[np.float64]]:
    """Return counts per cycle by event; what stalls by the simulator's account is left out: no PMU counts it."""
    chosen = [c for c in frame.columns if c.startswith(f"{prefix}:") and not c.startswith(f"{prefix}:stall.")]
    return {c.partition(":")[2]: frame[c].to_numpy(dtype=float) for c in chosen}


def in_turns(frame: pd.DataFrame) -> pd.DataFrame:
    """Return runs with the rates that counters in turns give, and noise; methods train on such rates, too."""
    seen = frame.copy()
    for column in (c for c in frame.columns if c.startswith("turn:")):
        seen[column.replace("turn:", "rate:", 1)] = frame[column]
    return seen


def x_of(frame: pd.DataFrame, prefix: str = "rate") -> NDArray[np.float32]:
    """Return the features of runs on several cores."""
    found = np.full((len(frame), len(NAMES)), -1.0, dtype=np.float32)
    for core, part in frame.groupby("core"):
        found[part.index] = matrix(rates(part, prefix), Microarchitecture.load(str(core)))
    return found


def folds(frame: pd.DataFrame) -> NDArray[np.int64]:
    """Return the fold of each run: all runs of one kernel or program, on all cores, are in one."""
    names = sorted(frame["workload"].unique())
    order = dict(zip(np.random.default_rng(SEED).permutation(names), range(len(names)), strict=True))
    return frame["workload"].map(order).to_numpy() % FOLDS


# ------------------------------------------------------------------ methods: training rows, rows to rank -> order


def _augmented(frame: pd.DataFrame) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Return features as counted, as counters in turns see them, and with some events not counted at all."""
    exact, turns, y = x_of(frame), x_of(frame, "turn"), credits_of(frame)
    rng = np.random.default_rng(SEED)
    groups = rng.random((len(frame), len(NAMES))) < rng.uniform(0.1, 0.8, (len(frame), 1))
    return np.concatenate([exact, turns, np.where(groups, np.float32(-1), turns)]), np.concatenate([y, y, y])


def forest_of(frame: pd.DataFrame) -> Forest:
    """Learn from these runs, not calibrated."""
    x, y = _augmented(frame)
    return learn(x, np.sqrt(y), features=NAMES, outputs=OUTPUTS, trees=TREES, leaf=LEAF, seed=SEED)


def masked(frame: pd.DataFrame, values: Order) -> Order:
    """Return an order without the classes that a core does not have."""
    found = values.copy()
    for core, part in frame.groupby("core"):
        has = classes_of(Microarchitecture.load(str(core)))
        found[np.ix_(part.index, [k for k, name in enumerate(OUTPUTS) if name not in has])] = -np.inf
    return found


def by_rules(_train: pd.DataFrame, test: pd.DataFrame) -> Order:
    """Rank by the largest share of capacity: no training."""
    found = np.full((len(test), len(OUTPUTS)), -np.inf)
    for core, part in test.groupby("core"):
        scores = rule_scores(shares(rates(part), Microarchitecture.load(str(core))))
        found[part.index] = np.nan_to_num(np.stack([scores[name] for name in OUTPUTS], axis=1), nan=-np.inf)
    return found


def by_rate(train: pd.DataFrame, test: pd.DataFrame) -> Order:
    """Rank by how unusual the rate of any of a class's events is among training runs of the core: no roofline."""
    found = np.full((len(test), len(OUTPUTS)), -np.inf)
    for core, part in test.groupby("core"):
        before, now = rates(train[train["core"] == core]), rates(part)
        for event, of in classes_of_events(str(core)).items():
            if event in now and np.isfinite(before[event]).any():
                known = np.sort(before[event][np.isfinite(before[event])])
                share = np.searchsorted(known, now[event]) / len(known)
                for k in of:
                    found[part.index, k] = np.fmax(found[part.index, k], share)
    return found


def classes_of_events(core: str) -> dict[str, list[int]]:
    """Return which classes each event is evidence of, as `perfkit.scoring.evidence` has it."""
    evidence = Evidence.of(Microarchitecture.load(core)).events
    found = {
        event: sorted({OUTPUTS.index(c) for c in map(class_of, of) if c in OUTPUTS}) for event, of in evidence.items()
    }
    return {event: of for event, of in found.items() if of and not event.startswith("stall.")}


def by_spire(train: pd.DataFrame, test: pd.DataFrame, honest: bool = False) -> Order:
    """Rank by SPIRE's bounds, one model a core; a class comes where the first of its events comes.

    A run is one sample here, so that its events' bounds are those at its intensities.
    """
    found = np.full((len(test), len(OUTPUTS)), -np.inf)
    for core, part in test.groupby("core"):
        of = classes_of_events(str(core))
        model = pk.Spire(honest=honest).fit(_samples(train[train["core"] == core], list(of)))
        for event, roofline in model.rooflines.items():
            rate = part[f"rate:{event}"].to_numpy(dtype=float)
            with np.errstate(divide="ignore"):
                bound = roofline.bound(part["rate:instructions"].to_numpy(dtype=float) / rate)
            if honest:
                known = model.training.loc[event, "bounds"]
                left, right = (np.searchsorted(known, bound, side=side) for side in ("left", "right"))
                bound = np.where(np.isnan(bound), np.nan, left + right)
            for k in of[event]:
                found[part.index, k] = np.fmax(found[part.index, k], np.where(np.isnan(bound), -np.inf, -bound))
    return found


def _samples(frame: pd.DataFrame, events: list[str]) -> pk.Samples:
    """Return runs as samples of one interval each."""
    parts = []
    for event in events:
        rate = frame.get(f"rate:{event}")
        if rate is not None and rate.notna().any():
            counts = rate * frame["cycles"]
            parts.append(pd.DataFrame({"run": frame["run"], "event": event, "count": counts}))
    long = pd.concat(parts).merge(frame[["run", "cycles", "instructions"]], on="run")
    long = long.rename(columns={"cycles": "time", "instructions": "work"}).assign(interval=0)
    return pk.Samples.from_frame(long, kind="simulated")


def by_topdown(_train: pd.DataFrame, test: pd.DataFrame) -> Order:
    """Rank as the top-down tree goes (Yasin 2014): retiring, bad speculation, back end by level, ports, dividers."""
    r = {event: np.nan_to_num(values) for event, values in rates(test).items()}
    cores = {name: Microarchitecture.load(name) for name in test["core"].unique()}
    width = test["core"].map(lambda c: cores[c].value("front_end")).to_numpy()
    penalty = test["core"].map(lambda c: cores[c].value("misprediction_penalty")).to_numpy()
    many = r["pending.l3.4+"] / np.maximum(r["pending.l3"], 1e-9)
    core_bound = np.clip(r["exec.0"] - r["exec.0.pending.l1"], 0, None)
    divider = sum(r.get(f"uops.{name}", 0.0) for name in ("Divider", "FPDivider", "integer_divider", "fp_divider"))
    tree = {
        "pipeline width": r["uops"] / width,
        "mispredicted branches": r["branch-misses"] * penalty,
        "L2": np.clip(r["exec.0.pending.l1"] - r["exec.0.pending.l2"], 0, None),
        "L3": np.clip(r["exec.0.pending.l2"] - r["exec.0.pending.l3"], 0, None),
        "memory latency": r["exec.0.pending.l3"] * (many < 0.7),
        "memory bandwidth": r["exec.0.pending.l3"] * (many >= 0.7),
        "store buffer": r["full.store_buffer"],
        "dividers": np.asarray(divider),
        "instruction latency": core_bound,
        "integer units": r["exec.3+"] * 0.5,
    }
    found = np.full((len(test), len(OUTPUTS)), -np.inf)
    for name, values in tree.items():
        found[:, OUTPUTS.index(name)] = values
    return found


def by_constant(train: pd.DataFrame, test: pd.DataFrame) -> Order:
    """Rank by how often each class is the bottleneck in training: one order for all."""
    often = rights(credits_of(train)).mean(axis=0)
    return np.tile(often, (len(test), 1))


# ------------------------------------------------------------------ scores


def rights(credit: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which classes are bottlenecks of each run: within a tenth of the largest credit."""
    return credit >= NEAR * credit.max(axis=1, keepdims=True)


def score(frame: pd.DataFrame, order: Order, small: float = -np.inf, votes: Order | None = None) -> pd.DataFrame:
    """Return, run by run, whether the first and one of the first three are right, and Kendall's tau.

    Where there are ``votes``, they say which comes first, as in `perfkit.Bottlenecks.explain`; ``order``, the predicted
    credits, is for tau, and where as many trees vote for one class as for another.

    Classes that give nothing have no order, but a method lists them in some order: the strict tau of the truth's own
    list, with such classes in any order, is below 1, and no method can reach more.

    ``small`` is the predicted credit below which a class counts as none, for methods that predict credits.
    """
    credit = credits_of(frame)
    firsts = order if votes is None else said_first(order, votes)
    right, ranked = rights(credit), np.argsort(-masked(frame, firsts), axis=1, kind="stable")
    rows = np.arange(len(frame))
    first = right[rows, ranked[:, 0]]
    three = right[rows[:, None], ranked[:, :3]].any(axis=1)
    strict, tied = zip(*(_taus(order[k], credit[k], small) for k in range(len(frame))), strict=True)
    most = [_taus(np.where(np.isfinite(order[k]), credit[k], -np.inf), credit[k], small)[0] for k in range(len(frame))]
    latency = right[:, OUTPUTS.index("instruction latency")]
    return pd.DataFrame(
        {
            "workload": frame["workload"], "core": frame["core"], "origin": frame["origin"],
            "class": [OUTPUTS[k] for k in credit.argmax(axis=1)], "latency": latency,
            "first": first, "three": three, "tau": tied, "tau strict": strict,
            "tau strict, of the truth": most,
        }
    )  # fmt: skip


def said_first(credit: Order, votes: Order) -> Order:
    """Return the order in which `perfkit.Bottlenecks.explain` names classes."""
    return votes + 1e-3 * credit


def _taus(said: NDArray[np.float64], true: NDArray[np.float64], small: float) -> tuple[float, float]:
    """Return tau in strict order of what was said, and tau-b where credits under 0.01 are tied (said: ``small``)."""
    names = [str(k) for k in np.argsort(-said, kind="stable") if np.isfinite(said[k])]
    strict = rank_score(names, {names[0]}, {name: float(true[int(name)]) for name in names}).tau if names else np.nan
    a = np.where(np.isfinite(said) & (said >= small), said, min(small, 0.0) if np.isfinite(small) else -1e9)
    b = np.where(true >= SMALL, true, 0.0)
    upper = np.triu_indices(len(a), 1)
    da, db = (np.sign(v[:, None] - v[None, :])[upper] for v in (a, b))
    both = np.sqrt((da != 0).sum() * (db != 0).sum())
    return strict, float((da * db).sum() / both) if both else np.nan


def measures(scored: pd.DataFrame) -> dict[str, float]:
    """Return the figures of one method over runs, with the ends of 95 % of draws of whole kernels."""
    found = {}
    places = list(scored.groupby("workload").indices.values())
    rng = np.random.default_rng(SEED)
    draws = [np.concatenate([places[k] for k in rng.integers(0, len(places), len(places))]) for _ in range(DRAWS)]
    free = ~scored["latency"].to_numpy()
    for name in ("first", "three", "tau", "tau strict"):
        values = scored[name].to_numpy(dtype=float)
        drawn = [np.nanmean(values[d]) for d in draws] if np.isfinite(values).any() else [np.nan]
        low, high = np.quantile(drawn, [0.025, 0.975])
        found |= {name: np.nanmean(values), f"{name} low": low, f"{name} high": high}
        if name in ("first", "three"):
            found[f"{name}, not latency"] = values[free].mean()
    found["tau strict, of the truth"] = np.nanmean(scored["tau strict, of the truth"])
    by_class = scored.groupby("class")["first"].mean()
    return {**found, "first, mean of classes": by_class.mean(), "first, worst class": by_class.min()} | {
        "runs": len(scored), "kernels": len(places),
    }  # fmt: skip


METHODS: dict[str, Callable[[pd.DataFrame, pd.DataFrame], Order]] = {
    "rules": by_rules,
    "unusual rates": by_rate,
    "SPIRE": by_spire,
    "SPIRE, honest": lambda train, test: by_spire(train, test, honest=True),
    "top-down tree": by_topdown,
    "one order for all": by_constant,
}


def held_out(frame: pd.DataFrame) -> Iterator[Split]:
    """Yield training and test runs: kernels held out, on all cores."""
    fold = folds(frame)
    for k in range(FOLDS):
        yield fold != k, fold == k


def held_out_kinds(frame: pd.DataFrame) -> Iterator[Split]:
    """Yield training and test runs: of loops all that begin with some kinds of pieces held out, else kernels."""
    fold, loops = folds(frame), (frame["origin"] == "generated").to_numpy()
    piece = frame["piece"].astype(str).to_numpy()
    kinds = np.random.default_rng(SEED).permutation(sorted(set(piece[loops])))
    for k in range(KINDS):
        held = loops & np.isin(piece, kinds[k::KINDS])
        yield ~held, held
    for k in range(FOLDS):
        yield fold != k, (fold == k) & ~loops


def held_out_origins(frame: pd.DataFrame) -> Iterator[Split]:
    """Yield training and test runs: a third of the kinds of loops, all generated kernels or the corpus held out."""
    origin, piece = frame["origin"].to_numpy(), frame["piece"].astype(str).to_numpy()
    loops = origin == ORIGINS[0]
    kinds = np.random.default_rng(SEED).permutation(sorted(set(piece[loops])))
    for held in [*(loops & np.isin(piece, kinds[k::3]) for k in range(3)), *(origin == each for each in ORIGINS[1:])]:
        yield ~held, held


def held_out_cores(frame: pd.DataFrame) -> Iterator[Split]:
    """Yield training and test runs: one core held out with a fifth of the kernels, that of no other core."""
    fold, core = folds(frame), frame["core"].to_numpy()
    for k, name in enumerate(sorted(set(core))):
        yield (fold != k) & (core != name), (fold == k) & (core == name)


def by_core(frame: pd.DataFrame, train: NDArray[np.bool_], test: NDArray[np.bool_]) -> list[Split]:
    """Return training and test runs of one core after the other: those of the other cores, and its own."""
    core = frame["core"].to_numpy()
    return [(train & (core != name), test & (core == name)) for name in sorted(set(core))]


def predicted(frame: pd.DataFrame, train: NDArray[np.bool_], test: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return credits and votes of test runs, as counted and as noisy counters in turns see them, (4, runs, classes)."""

    def make() -> NDArray[np.float64]:
        forest, part = forest_of(frame[train].reset_index(drop=True)), frame[test].reset_index(drop=True)
        return np.stack([each for way in ("rate", "turn") for each in credits_and_votes(forest, x_of(part, way))])

    return kept(frame, train, test, "", make)


def kept(
    frame: pd.DataFrame,
    train: NDArray[np.bool_],
    test: NDArray[np.bool_],
    what: str,
    make: Callable[[], NDArray[np.float64]],
) -> NDArray[np.float64]:
    """Return what is made of training and test runs; what an earlier, stopped call has made of them is read again."""
    key = np.concatenate([train, test]).tobytes() + frame["cycles"].to_numpy().tobytes() + bytes([TREES, LEAF, 7])
    path = FOLDER / "league.parts" / f"{hashlib.sha256(key + what.encode()).hexdigest()[:16]}.npy"
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        with path.with_suffix(".new").open("wb") as file:
            np.save(file, make())
        path.with_suffix(".new").rename(path)
    return np.asarray(np.load(path))


def credits_and_votes(forest: Forest, x: NDArray[np.float32]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return credits and votes: the forest predicts the credits' roots, which span fewer orders of magnitude."""
    roots, votes = forest.predict(x, ruled_out(x, OUTPUTS))
    return np.square(roots), votes


def forests(frame: pd.DataFrame, splits: Iterator[Split]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return `predicted` of all splits, (4, runs, classes), and which runs were tested."""
    found, tested = np.zeros((4, len(frame), len(OUTPUTS))), np.zeros(len(frame), dtype=np.bool_)
    for train, test in splits:
        found[:, test] = predicted(frame, train, test)
        tested |= test
        print(".", end="", flush=True)
    print()
    return found, tested


def calibration(frame: pd.DataFrame, votes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return (2, k) shares of votes and how often such a class was right: bins of equal counts, made monotone."""
    x, y = votes.ravel(), rights(credits_of(frame)).ravel()
    kept = x > 0
    order = np.argsort(x[kept], kind="stable")
    bins = np.array_split(order, 25)
    at, share = (np.array([v[kept][b].mean() for b in bins]) for v in (x, y.astype(float)))
    share = np.maximum.accumulate(share)
    return np.array([[0.0, *at, 1.0], [0.0, *share, share[-1]]])  # all trees are not always right


def miscalibrated(frame: pd.DataFrame, probability: NDArray[np.float64]) -> dict[str, float]:
    """Return the calibration error of the first answers, and what it is by chance where probabilities are right.

    The error is the mean difference between probability and share of right answers, over ten bins of equal counts. A
    bin of twenty answers that are right with a probability of one half is off by 0.09 on average.
    """
    first = probability.argmax(axis=1)
    p = probability[np.arange(len(first)), first]
    right = rights(credits_of(frame))[np.arange(len(first)), first]
    return dict(zip(("calibration error", "calibration error by chance"), apart(p, right), strict=True))


def apart(p: NDArray[np.float64], right: NDArray[np.bool_]) -> tuple[float, float]:
    """Return how far probabilities are from how often they are right, and how far they would be by chance alone."""
    bins = np.array_split(np.argsort(p, kind="stable"), BINS)
    drawn = np.random.default_rng(SEED).random((DRAWS, len(p))) < p
    found = [np.mean([abs(p[b].mean() - each[b].mean()) for b in bins]) for each in (right, *drawn)]
    return float(found[0]), float(np.mean(found[1:]))


def league(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the table: one row a method."""
    rows, both = {}, votes_held_out(frame)
    for name, splits in (
        ("Bottlenecks", held_out), (KINDS_OUT, held_out_kinds), ("Bottlenecks, core held out too", held_out_cores),
    ):  # fmt: skip
        found, tested = forests(frame, splits(frame))
        part = frame[tested].reset_index(drop=True)
        for ending, (credit, votes) in (("", found[:2]), (TURNED, found[2:])):
            error = miscalibrated(part, crossed(frame, votes, both)[tested])
            rows[name + ending] = measures(score(part, credit[tested], SMALL, votes[tested])) | error
        scored, sure = score(part, found[0][tested], SMALL, found[1][tested]), crossed(frame, found[1], both)[tested]
        for origin in ORIGINS if splits is not held_out_kinds else ORIGINS[:1]:
            mine = (part["origin"] == origin).to_numpy()
            error = miscalibrated(part[mine].reset_index(drop=True), sure[mine])
            rows[f"{name}, {origin} only"] = measures(scored[mine]) | error
        if splits is held_out:
            scored.groupby("class")[["first", "three"]].agg(["mean", "size"]).to_csv(FOLDER / "league-classes.csv")
    own = (frame["origin"] != "corpus").to_numpy()
    levels = curve(frame, both, own)
    for learnt_on, ways in (
        ("learnt on loops alone, on the corpus", [(np.asarray(frame["origin"] == "generated"), ~own)]),
        ("learnt on loops and generated kernels alone, on the corpus", [(own, ~own)]),
        ("learnt on these of other cores alone, on the corpus", by_core(frame, own, ~own)),
    ):
        found, tested = forests(frame, iter(ways))
        part = frame[tested].reset_index(drop=True)
        for ending, (credit, votes) in (("", found[:2]), (TURNED, found[2:])):
            error = miscalibrated(part, np.interp(votes[tested], *levels))
            rows[f"Bottlenecks, {learnt_on}{ending}"] = (
                measures(score(part, credit[tested], SMALL, votes[tested])) | error
            )
    for name, method in METHODS.items():
        for ending, seen in (("", frame), (TURNED, in_turns(frame))):
            order = np.zeros((len(frame), len(OUTPUTS)))
            for train, test in held_out(frame):
                order[test] = method(seen[train].reset_index(drop=True), seen[test].reset_index(drop=True))
            rows[name + ending] = measures(score(frame, order))
            print(name + ending, {k: round(rows[name + ending][k], 3) for k in ("first", "three")}, flush=True)
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("method")


def real_rates(part: pd.DataFrame, core: Microarchitecture, divided: pd.Series) -> pd.DataFrame:
    """Return what is known of runs by the events that a processor has a name for, as of a dump of these."""
    wide = pd.DataFrame(rates(part)).dropna(axis=1, how="all").assign(cycles=1.0) * CYCLES
    wide.index = pd.Index([str(k) for k in range(len(part))], name="run")
    samples = as_real(wide, core, part["workload"].map(divided).to_numpy() * CYCLES)
    names = matched(samples.events, simulated=False, vendor=core.vendor, core=core.name)
    return rates_of(samples, names, ["run"]).reindex(wide.index)


def divided_by(frame: pd.DataFrame) -> pd.Series:
    """Return floating-point divisions per cycle by workload: they do not depend on the core, and AMD counts them."""
    divider = np.nansum(frame.reindex(columns=["rate:uops.fp_divider", "rate:uops.FPDivider"]).to_numpy(float), axis=1)
    return pd.Series(divider, index=frame["workload"]).groupby(level=0).max()


def real_votes(frame: pd.DataFrame) -> NDArray[np.float64]:
    """Return the votes by real names that calibrate, (2, runs, classes): of held-out kinds of loops, and of origins.

    What a processor counts leaves more open the less a program is like any that was learnt from; held-out kernels of
    the same generators are too much like them.
    """
    return real_judged(frame)[1:, 0]


def real_judged(frame: pd.DataFrame) -> NDArray[np.float64]:
    """Return the votes by real names, and which classes are told by them, (3, 2, runs, classes)."""
    found = np.zeros((len(REAL), 2, len(frame), len(OUTPUTS)))
    for each, splits in zip(found, REAL.values(), strict=True):
        for train, test in splits(frame):
            each[:, test] = kept(frame, train, test, "real names", partial(_real_judged, frame, train, test))
    return found


def _real_judged(frame: pd.DataFrame, train: NDArray[np.bool_], test: NDArray[np.bool_]) -> NDArray[np.float64]:
    found = np.zeros((2, len(frame), len(OUTPUTS)))
    forest, divided = forest_of(frame[train].reset_index(drop=True)), divided_by(frame)
    known = frame[train].reset_index(drop=True)
    pool = Pool(x_of(known), np.array(OUTPUTS)[credits_of(known).argmax(axis=1)])
    for name in sorted(frame.loc[test, "core"].unique()):
        mine, core = test & (frame["core"] == name).to_numpy(), Microarchitecture.load(str(name))
        counts, has = real_rates(frame[mine], core, divided), countable(core.vendor, core.name)
        judged = pk.Bottlenecks(core, forest).judge(counts, decide=False, has=has, runs=pool)
        at = np.ix_(mine, [OUTPUTS.index(str(each)) for each in judged.names])
        found[0][at], found[1][at] = np.nan_to_num(judged.probability), judged.status() == "told"
    return found[:, test]


def vendors_of(frame: pd.DataFrame) -> NDArray[np.str_]:
    """Return whose core each run was simulated on."""
    return frame["core"].map({n: Microarchitecture.load(n).vendor for n in frame["core"].unique()}).to_numpy(str)


def real_curves(frame: pd.DataFrame, votes: NDArray[np.float64], of: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the calibration by some runs of `real_votes`, one curve for each vendor, (vendors, 2, k)."""
    vendor = vendors_of(frame)
    return np.stack([curve(frame, votes, of & (vendor == name)) for name in VENDORS])


def by_real_names(frame: pd.DataFrame, judged: NDArray[np.float64]) -> pd.DataFrame:
    """Return how `perfkit.Bottlenecks` does with all events that a core has a name for, held out, run by run.

    ``judged`` is that of `real_judged`: the other folds' calibrate.
    """
    fold, rows, right, found = folds(frame), np.arange(len(frame)), rights(credits_of(frame)), []
    vendor = vendors_of(frame)
    for way, (votes, told) in zip(REAL, judged, strict=True):
        order, probability = np.argsort(-votes, axis=1, kind="stable"), np.zeros(len(frame))
        first = order[:, 0]
        for k in range(FOLDS):
            for name, levels in zip(VENDORS, real_curves(frame, judged[1:, 0], fold != k), strict=True):
                mine = (fold == k) & (vendor == name)
                probability[mine] = np.interp(votes[rows, first][mine], *levels)
        parts = {"first": right[rows, first], "three": right[rows[:, None], order[:, :3]].any(axis=1)}
        named = (told[rows, first] > 0) & (probability >= SURE)
        found.append(frame[["core", "workload"]].assign(**parts, probability=probability, named=named, held_out=way))
    return pd.concat(found, ignore_index=True)


REAL = {"kernels": held_out, "kinds of loops": held_out_kinds, "origins": held_out_origins}


def real_names() -> str:
    """Return the table of docs/bottlenecks.md of real names: per core and in all."""
    frame = table()
    every = by_real_names(frame, real_judged(frame))
    columns = ["core", "events", "held out", "named, of these right", "first right", "one of three",
               "calibration error (by chance)", "runs"]  # fmt: skip
    lines = [f"| {' | '.join(columns)} |", "| --- " * len(columns) + "|"]
    for way, mine in every.groupby("held_out"):
        for name, part in [("all", mine), *mine.groupby("core")]:
            right, named = part["first"].to_numpy(), part["named"].to_numpy()
            error = apart(part["probability"].to_numpy(), right)
            events = "" if name == "all" else str(len(countable(Microarchitecture.load(str(name)).vendor, str(name))))
            lines.append(
                f"| {name} | {events} | {way} | {named.mean():.2f}, {right[named].mean():.2f} | {right.mean():.2f} | "
                f"{part['three'].mean():.2f} | {error[0]:.3f} ({error[1]:.3f}) | {len(part)} |"
            )
    return "\n".join(lines)


COUNTED = (
    "everything",
    "all but dividers",
    "all but cycles with loads pending",
    "all but misses of branches",
    "uops, branches, loads, stores and misses",
    "half of the events, drawn",
    "one event of each class",
)
_PLAIN = {"uops", "branches", "branch-misses", "mem-loads", "mem-stores", "l1.misses", "l2.misses", "l3.misses"}


def chosen(name: str, events: list[str], core: Microarchitecture, rng: np.random.Generator) -> set[str]:
    """Return the events that are counted; instructions always are."""
    of_classes = [needed(of, core) for of in classes_of(core) if needed(of, core)]
    sets = {
        "everything": set(events),
        "all but dividers": {e for e in events if "ivider" not in e},
        "all but cycles with loads pending": {e for e in events if "pending" not in e},
        "all but misses of branches": {e for e in events if not e.startswith("branch-misses")},
        "uops, branches, loads, stores and misses": _PLAIN,
        "half of the events, drawn": {e for e in events if rng.random() < 0.5},
        "one event of each class": {each[rng.integers(len(each))] for each in of_classes},
    }
    return sets[name] | {"instructions"}


def with_events_missing() -> str:
    """Return the table of docs/bottlenecks.md of what is named where events were not counted, kernels of one fold."""
    frame = table()
    both = votes_held_out(frame)
    mine = folds(frame) == 0
    train, test = (frame[those].reset_index(drop=True) for those in (~mine, mine))
    forest = replace(forest_of(train), levels=curve(frame, both, ~mine), prior=rights(credits_of(train)).mean(0))
    pool = Pool(x_of(train), np.array(OUTPUTS)[credits_of(train).argmax(axis=1)])
    lines = ["| counted | named rightly | named wrongly | runs |", "| --- | --- | --- | --- |"]
    for name in COUNTED:
        rng, found = np.random.default_rng(SEED), []
        for core, part in test.groupby("core"):
            machine, every = Microarchitecture.load(str(core)), rates(part)
            some = chosen(name, list(every), machine, rng)
            counts = pd.DataFrame({event: values for event, values in every.items() if event in some})
            judged = pk.Bottlenecks(machine, forest).judge(counts, decide=False, runs=pool)
            order, rows = judged.order(), np.arange(len(part))
            right = rights(credits_of(part))[:, [OUTPUTS.index(str(each)) for each in judged.names]]
            told = (judged.status()[rows, order[:, 0]] == "told") & (judged.probability[rows, order[:, 0]] >= SURE)
            bound = right.any(axis=1)
            found.append(np.stack([told & right[rows, order[:, 0]], told & ~right[rows, order[:, 0]]])[:, bound])
        share = np.concatenate(found, axis=1)
        lines.append(f"| {name} | {share[0].mean():.2f} | {share[1].mean():.2f} | {share.shape[1]} |")
    return "\n".join(lines)


def by_more_orders() -> str:
    """Return how ours does by the shipped credits, and by credits of the same runs from more orders of the classes."""
    from pmu_runs import corpus_programs, kernel_programs, programs  # they need a compiler and an assembler

    frame = table()
    (credit, votes, _, _), _ = forests(frame, held_out(frame))
    rng, lines = np.random.default_rng(SEED), []
    found: dict[str, list[pd.DataFrame]] = {}
    for origin in ORIGINS:
        mine = rng.permutation(np.flatnonzero(frame["origin"] == origin))[:SAMPLED]
        better = frame.iloc[mine].reset_index(drop=True)
        for row, (core, run) in enumerate(zip(better["core"], better["run"], strict=True)):
            kind, _, number = run.partition("-")
            chosen = {"loop": lambda n=number: programs(range(int(n), int(n) + 1)),
                      "kernel": lambda n=number: kernel_programs(range(int(n), int(n) + 1))}  # fmt: skip
            _, trace, warm = next(chosen.get(kind, lambda r=run: corpus_programs([r.rpartition("/")[0]]))())
            machine = Microarchitecture.load(str(core))
            gus = pk.SimulatedPmu(machine, warm="caches" if warm else "none").gus
            for of, value in Variants(machine, MORE_ORDERS, SEED + 1).credit(gus, trace).credit.items():
                better.loc[row, f"credit:{of}"] = value
        for name, part in (("shipped", frame.iloc[mine].reset_index(drop=True)), ("more orders", better)):
            found.setdefault(name, []).append(score(part, credit[mine], SMALL, votes[mine]))
        same = rights(credits_of(frame.iloc[mine])) & rights(credits_of(better))
        lines.append(f"{origin}: both truths name a class in common in {same.any(axis=1).mean():.2f} of {len(mine)}")
        for name, parts in found.items():
            lines.append(f"  {name}: first {parts[-1]['first'].mean():.2f}, three {parts[-1]['three'].mean():.2f}")
        print("\n".join(lines[-3:]), flush=True)
    return "\n".join(lines)


def votes_held_out(frame: pd.DataFrame) -> NDArray[np.float64]:
    """Return the votes that calibrate, (4, runs, classes): of held-out kernels and kinds, exact and in turns.

    A program that somebody asks about may be of a kind that was learnt from, or of none: half of the votes are of each.
    """
    return np.concatenate([forests(frame, split(frame))[0][[1, 3]] for split in (held_out, held_out_kinds)])


def curve(frame: pd.DataFrame, both: NDArray[np.float64], of: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the calibration by some runs, of `votes_held_out`."""
    mine = frame[of].reset_index(drop=True)
    return calibration(pd.concat([mine] * len(both), ignore_index=True), np.concatenate([votes[of] for votes in both]))


def crossed(frame: pd.DataFrame, votes: NDArray[np.float64], both: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the probabilities of votes by the curves of the other folds' runs."""
    fold, probability = folds(frame), np.zeros_like(votes)
    for k in range(FOLDS):
        probability[fold == k] = np.interp(votes[fold == k], *curve(frame, both, fold != k))
    return probability


def learnt(frame: pd.DataFrame, digest: str) -> Forest:
    """Return the forest of all runs, calibrated by predictions of kernels and kinds that were held out."""
    levels = curve(frame, votes_held_out(frame), np.ones(len(frame), dtype=np.bool_))
    prior = rights(credits_of(frame)).mean(axis=0)
    real = real_curves(frame, real_votes(frame), np.ones(len(frame), dtype=np.bool_))
    return replace(forest_of(frame), levels=levels, prior=prior / prior.sum(), digest=np.array(digest), real=real)


def markdown(league: pd.DataFrame) -> str:
    """Return the league as the table of docs/bottlenecks.md."""
    columns = ["method", "first right", "one of three", "first, three without latency-bound runs", "tau",
               "tau, strict order", "the truth's own", "calibration error (by chance)", "runs"]  # fmt: skip
    lines = ["| " + " | ".join(columns) + " |", "| --- " * len(columns) + "|"]
    for method, row in league.iterrows():
        sure = not np.isnan(row["calibration error"])
        error = f"{row['calibration error']:.3f} ({row['calibration error by chance']:.3f})" if sure else ""
        cells = [
            f"{row['first']:.2f} ({row['first low']:.2f} to {row['first high']:.2f})", f"{row['three']:.2f}",
            f"{row['first, not latency']:.2f}, {row['three, not latency']:.2f}", f"{row['tau']:.2f}",
            f"{row['tau strict']:.2f}", f"{row['tau strict, of the truth']:.2f}", error, f"{row['runs']:.0f}",
        ]  # fmt: skip
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


SOURCE = "perfkit's simulator on generated loops and on traces of generated and shipped kernels; no counters"
ENTRIES = {
    "bottlenecks/runs": ("runs.parquet", "parquet", "event rates, credit of classes and stacks of whole runs",
                         "counts per cycle; natural logarithm of speedup; share of cycles", "data/make/pmu_runs.py"),
    "bottlenecks/model": ("model.npz", "forest", "what perfkit.Bottlenecks has learnt of these runs", "credit",
                          "data/make/league.py learn"),
    "bottlenecks/stacks": ("stacks.npz", "forest", "what perfkit.Bottlenecks.stacks has learnt of these runs",
                           "roots of shares of cycles", "data/make/stacks.py learn"),
    "bottlenecks/league": ("league.csv", "csv", "every method's scores on these runs", "shares of runs",
                           "data/make/league.py table"),
    "bottlenecks/answers": (
        "answers.json",
        "text",
        "the simulator's counts on a few traces, by which a test notices older data",
        "counts",
        "data/make/pmu_answers.py",
    ),
    "bottlenecks/classes": ("league-classes.csv", "csv", "the scores of perfkit.Bottlenecks by class of the bottleneck",
                            "shares of runs", "data/make/league.py table"),
}  # fmt: skip


def manifest() -> None:
    """Write the manifest of what is there."""
    tables = []
    for name, (file, form, holds, units, made_by) in ENTRIES.items():
        if (FOLDER / file).exists():
            lines = {
                "file": file,
                "sha256": hashlib.sha256((FOLDER / file).read_bytes()).hexdigest(),
                "format": form,
                "kind": "simulated",
                "holds": holds,
                "units": units,
                "source": SOURCE,
                "licence": "MIT",
                "made_by": made_by,
            }
            tables.append("\n".join([f'["{name}"]', *(f'{key} = "{value}"' for key, value in lines.items())]) + "\n")
    head = "# Made by data/make/league.py; do not edit by hand.\n\n"
    (FOLDER / "manifest.toml").write_text(head + "\n".join(tables), encoding="utf-8")


def main() -> None:
    """Do what is asked for."""
    if sys.argv[1:] == ["docs"]:
        print(markdown(pd.read_csv(FOLDER / "league.csv", index_col="method")))
        return
    if sys.argv[1:] in (["real"], ["missing"]):
        print(real_names() if sys.argv[1] == "real" else with_events_missing())
        return
    if sys.argv[1:] == ["orders"]:
        by_more_orders()
        return
    frame = table()
    if sys.argv[1:] == ["learn"]:
        digest = hashlib.sha256((FOLDER / "runs.parquet").read_bytes()).hexdigest()[:16]
        learnt(frame, digest).save(FOLDER / "model.npz")
    else:
        found = league(frame)
        found.to_csv(FOLDER / "league.csv", float_format="%.4f")
        print(found.round(3).to_string())
    manifest()


if __name__ == "__main__":
    main()
