"""What a kernel's calls as they go on take, beside the fast ones of the samples that are quoted.

Samples are few, and what is quoted of them is the fastest tenth. Rare calls that take longer, calls that take turns, a
table that the first thousand calls fill: none of these need show. So behind the samples each process goes on for some
ten milliseconds, in windows of as many calls as a sample has.

Interrupts and neighbours make windows longer, too. So behind each window the shortest loop turns for as long, which is
a kernel of known cycles: what the same disturbances do to it is taken off. Of windows that take much longer than most,
those of a kind (by how much longer they take) count where there are surely more of them than of such turns; else they
are what else runs here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfkit.collectors.host.cycle_clock import AWAKE, QUANTILE, SHARED, TURNS, judge

_KINDS = np.array([0.0, 1e4, 4e4, 2e5, 1e6, 4e6])  # cycles from which a window is another kind of long ones
_BY_CHANCE = 2e-4  # how likely so many are at most where they are what else runs, for them to be the kernel's
_WAITS = 1e6  # cycles that only another program has, which the system tells: then, if no turns were so long,
_HARDLY, _FEWEST = 0.05, 7  # that is enough; and so many there have to be
_SURE_OF = 30  # rare calls to be expected, of which there are so many that they show in nearly all measurements
_LONGER = 0.03  # than the middle window, relative, from which one is one of the long ones
_QUARTILES = 4.0  # or so many times as much longer as a quarter of all takes
_SELDOM = 2e5  # cycles of windows that are disturbed the more often the longer they are: they count nevertheless
_BESIDE = 1.5  # times as long as alone, about, beside a busy thread
_REFILLED = 3e5  # cycles that it takes to fill caches again which another program has emptied
_FEW, _ENOUGH = 5, 30  # windows that say something, and that say what they take on average
_MEAN, _MEAN_OF_LONG = 0.01, 0.03  # by how much the mean is another than what is quoted, from which that is told, also
_LONG = 1e6  # of windows of so many cycles, which interrupts meet now and then,
_SURE, _USUAL = [0.001, 0.999], [0.025, 0.975]
_T95 = 2.78  # of five processes: so many standard errors of their mean hold it with 95 %
_RESAMPLED, _GROUPS = 2000, 400
_CHANGED = 0.02  # by how much later calls take longer or less, from which that is told
_AGREE = 0.8  # share of the processes
_ENDS = [0.1, 0.9]


@dataclass(frozen=True)
class Later:
    """What calls as they go on say.

    Parameters
    ----------
    calls
        How many were looked at on a quiet core, with no other program between them.
    mean, low, high
        Of all calls, relative to the median of what is quoted of the processes, and its interval of 95 %, which holds
        how far processes are apart; what else runs is taken off. NaN where nothing is known.
    differs
        Whether the mean is surely another than what is quoted.
    changed
        How many times as long as what is quoted the last calls take, where in nearly all processes nearly all of them
        take longer, or less, than nearly all of the first ones; else 1.
    least
        By how much the mean differs, relative, where it is told to differ.
    """

    calls: int = 0
    mean: float = np.nan
    low: float = np.nan
    high: float = np.nan
    differs: bool = False
    changed: float = 1.0
    least: float = _MEAN


@dataclass(frozen=True)
class Windows:
    """Windows of calls in a row of one process, as timer.c's perfkit_look makes them.

    Parameters
    ----------
    blocks : (b, 10) int64
        Of windows between two readings of the clock: the one before, ticks, the one after, ticks that others had, how
        many windows there are, and how often the kernel gave the processor up.
    windows : (w, 5) int64
        Ticks of the calls; of the turns behind them those of the first, of all between the first and the last and how
        many these are, and of the last.
    """

    blocks: NDArray[np.int64]
    windows: NDArray[np.int64]

    @classmethod
    def of_samples(cls, ticks: NDArray[np.int64]) -> "Windows":
        """Return samples of timer.c's perfkit_time as blocks of one window each."""
        ones = np.ones(len(ticks), dtype=np.int64)
        each = (ticks[:, 3], ticks[:, 4 + 2], 0 * ones, 0 * ones, ticks[:, 4 + 2])
        return cls(np.column_stack([ticks, ones, 0 * ones]), np.column_stack(each))

    def before(self, other: "Windows") -> "Windows":
        """Return these, and another's behind them."""
        return Windows(np.concatenate([self.blocks, other.blocks]), np.concatenate([self.windows, other.windows]))


@dataclass(frozen=True)
class _Judged:
    """Windows of a process: cycles relative to what is quoted, which of them nothing disturbed, and sums by block.

    The sums: of windows that are none of the long ones, relative to what is quoted, and how many they are; the same of
    turns. Of each kind of long windows (`_KINDS`) how many there are, cycles by which they are longer, and cycles among
    which they would have been seen; the same of turns.
    """

    cycles: NDArray[np.float64]
    counts: NDArray[np.bool_]
    sums: NDArray[np.float64]


def later_calls(
    windows: Sequence[Windows],
    first: Sequence[NDArray[np.float64]],
    quoted: Sequence[float],
    link: int,
    calls: int,
    fence: float = 0.0,
) -> Later:
    """Return what windows of calls say, which nothing but the kernel makes longer.

    Parameters
    ----------
    windows
        Of each process, in the order that they were made.
    first
        Cycles per call of each process's first samples that count.
    quoted
        Cycles per call that are quoted of each process.
    link
        Cycles of a dependent multiplication.
    calls
        Of a window.
    fence
        Cycles that what keeps calls apart takes of each.
    """
    judged = [_judged(one, figure, link, calls, fence) for one, figure in zip(windows, quoted, strict=True)]
    looked = calls * sum(int(np.count_nonzero(one.counts)) for one in judged)
    changed = _changed(judged, [one / figure for one, figure in zip(first, quoted, strict=True)])
    sums = np.concatenate([one.sums for one in judged]) if judged else np.zeros((0, _COLUMNS))
    if not sums[:, 1].any():
        return Later(looked, changed=changed)
    of_kernel = _kinds_of_kernel(sums)
    # What is quoted of processes may differ: whether calls do is asked in each, their mean is that of all.
    own, sums = sums, sums.copy()
    scales = np.array(quoted) / float(np.median(quoted))
    sums[:, 0] *= np.repeat(scales, [len(one.sums) for one in judged])
    begins = np.arange(0, len(sums), -(-len(sums) // _GROUPS))
    own, grouped = np.add.reduceat(own, begins), np.add.reduceat(sums, begins)
    weights = np.random.default_rng(0).poisson(1.0, (_RESAMPLED, len(begins))).astype(np.float64)
    weights = weights[weights @ grouped[:, 1] > 0]
    none, every = of_kernel & False, of_kernel | True
    (usual,), (more,) = (_mean(own.sum(axis=0)[None], kinds) for kinds in (none, of_kernel))
    mean = float(_mean(grouped.sum(axis=0)[None], of_kernel)[0])
    low, high = np.quantile(_mean(weights @ grouped, of_kernel), _USUAL)
    of_each = _mean(np.array([each.sum(axis=0) for each in _of_processes(sums, judged)]), of_kernel)
    if len(of_each) > 1:  # what all windows of a process have in common
        apart = _T95 * float(np.std(of_each, ddof=1)) / np.sqrt(len(of_each))
        low = min(low, max(mean - apart, float(of_each.min())))
        high = max(high, min(mean + apart, float(of_each.max())))
    if of_kernel.any():  # of the other kinds, too, some may be the kernel's
        high = max(high, np.quantile(_mean(weights @ grouped, every), _USUAL[1]))
    least, most = np.quantile(_mean(weights @ own, none), _SURE)
    told = _MEAN_OF_LONG if calls * float(np.median(quoted)) > _LONG else _MEAN
    differs = (usual > 1 + told and least > 1 + told / 2) or (usual < 1 - told and most < 1 - told / 2)
    differs &= own[:, 1].sum() >= _ENOUGH
    differs |= bool(of_kernel.any()) and more > 1 + told
    return Later(looked, mean, float(low), float(high), bool(differs), changed, told)


def _of_processes(sums: NDArray[np.float64], judged: Sequence[_Judged]) -> list[NDArray[np.float64]]:
    """Return the blocks of each process in which some windows count."""
    ends = np.cumsum([len(one.sums) for one in judged])
    return [each for each in np.split(sums, ends[:-1]) if each[:, 1].any()]


def rarest(looked: int, least: float) -> str:
    """Say what does not show in this many calls, where the mean has to differ by `least`, relative."""
    if not looked:
        return "none was looked at while nothing else ran: if calls differ, that does not show"
    one_of = looked // _SURE_OF
    rare = f"what fewer than one of {one_of:,} does" if one_of > 1 else "what some alone do"
    return (
        f"{looked:,} were looked at while nothing else ran: {rare}, or adds less than {least:.0%} to the mean, would "
        "not show"
    )


_COLUMNS = 4 + 6 * len(_KINDS)


def _of_kinds(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return of windows and turns how many there are of each kind, their cycles, and those among which they were."""
    return sums[..., 4:].reshape(*sums.shape[:-1], 2, 3, len(_KINDS))


def _mean(sums: NDArray[np.float64], kinds: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the mean, relative to what is quoted, of windows that are not long, and of these kinds of long ones.

    A neighbour slows turns as much as anything: more than it slows some kernels.
    """
    each = _of_kinds(sums) / np.maximum(_of_kinds(sums)[..., 2:, :], 1.0)
    longer = (each[:, 0, 1] - each[:, 1, 1])[:, kinds].sum(axis=1)
    usual = sums[:, 0] / sums[:, 1]
    turned = np.where(sums[:, 3] > 0, sums[:, 2] / np.maximum(sums[:, 3], 1.0), 1.0)
    return np.asarray(np.clip(usual - np.maximum(turned - 1, 0.0), np.minimum(usual, 1.0), None) * (1 + longer))


def _kinds_of_kernel(sums: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return of which kinds of long windows there are surely more than of such turns."""
    (many, _, among), (turns, _, turned) = _of_kinds(sums.sum(axis=0))
    in_blocks = np.count_nonzero(_of_kinds(sums)[:, 0, 0], axis=0)
    share = turned / np.maximum(among + turned, 1.0)
    chance = [_at_most(int(few), int(few + more), p) for few, more, p in zip(turns, many, share, strict=True)]
    enough = np.where((_KINDS >= _WAITS) & (turns == 0), _HARDLY, _BY_CHANCE)
    return (in_blocks >= _FEWEST) & (np.array(chance) < enough)


def _at_most(few: int, of: int, share: float) -> float:
    """Return the probability that of so many, each of which is one with this probability, at most a few are."""
    if few >= of or not 0 < share < 1:
        return 1.0
    k = np.arange(few)
    logs = of * np.log1p(-share) + np.cumsum(np.concatenate([[0.0], np.log((of - k) / (k + 1) * share / (1 - share))]))
    return float(np.exp(logs).sum())


def _judged(one: Windows, quoted: float, link: int, calls: int, fence: float) -> _Judged:
    """Judge the windows of a process.

    Beside a busy thread of the core, in a block in which another program had the processor and in the one behind it
    (caches are another's then), only such a window is a long one that takes longer than that explains. (Left out, the
    longer a call, the more seldom it would count.) Blocks in which the kernel gave the processor up do not count.
    """
    blocks, many, rows = one.blocks, one.blocks[:, 8], one.windows
    rates = judge(blocks[:, :7], link).rates
    steady = np.isfinite(rates)
    if not len(rows) or not steady.any():
        return _Judged(np.zeros(0), np.zeros(0, dtype=bool), np.zeros((0, _COLUMNS)))
    rates = np.where(steady, rates, np.median(rates[steady]))
    waited, gave = blocks[:, 7] > 0, blocks[:, 9] > 0
    alone = ~waited & ~np.concatenate([[False], waited[:-1]])
    block = np.repeat(np.arange(len(blocks)), many)
    begins = np.cumsum(many) - many
    before = np.concatenate([[0], rows[:-1, 4]])
    before[begins[many > 0]] = blocks[many > 0, 2]
    slowest = AWAKE * TURNS * rates[block, None]
    asleep: NDArray[np.bool_] = np.column_stack([before, rows[:, 1], rows[:, 4]]) <= slowest
    own = _own(one, begins)

    still = alone[block] & steady[block] & ~gave[block]
    cycles = np.maximum(own[:, 0] / rates[block] / calls - fence, 1.0) / quoted
    counts = asleep[:, 0] & asleep[:, 1] & still
    middle = float(np.median(cycles[counts])) if np.count_nonzero(counts) >= _FEW else 1.0
    least = _LONGER
    if np.count_nonzero(counts) >= _FEW:
        least = max(least, _QUARTILES * (float(np.quantile(cycles[counts], 0.75)) / middle - 1))
    length = middle * quoted * calls  # of a window
    lengths = np.full(len(cycles), length)
    sums = [_sums(cycles / middle, middle, counts, asleep[:, 0] & asleep[:, 1], lengths, least * length, block, alone)]

    turned = rows[:, 3] > 0
    turns = own[turned, 1] / rates[block[turned]] / (rows[turned, 3] * TURNS)
    calm = (asleep[:, 1] & asleep[:, 2] & still)[turned]
    usual = float(np.quantile(turns[calm], QUANTILE)) if np.count_nonzero(calm) >= _FEW else 1.0
    sleeping = (asleep[:, 1] & asleep[:, 2])[turned]
    lengths = rows[turned, 3] * TURNS * usual
    sums.append(_sums(turns / usual, 1.0, calm, sleeping, lengths, least * length, block[turned], alone))
    together = np.concatenate([*(each[:, :2] for each in sums), *(each[:, 2:] for each in sums)], axis=1)
    return _Judged(cycles, counts, together[~gave])


def _sums(
    cycles: NDArray[np.float64],
    middle: float,
    counts: NDArray[np.bool_],
    asleep: NDArray[np.bool_],
    lengths: NDArray[np.float64],
    least: float,
    block: NDArray[np.int64],
    alone: NDArray[np.bool_],
) -> NDArray[np.float64]:
    """Return by block the sum and number of the windows that are not long, and what `_Judged` has of each kind."""
    more = (cycles - 1) * lengths
    explained = np.where(asleep, 0.0, (SHARED - 1) * lengths) + np.where(alone[block], 0.0, _REFILLED)
    long = more > np.maximum(least, explained)
    more = (np.where(asleep, cycles, cycles / _BESIDE) - 1) * lengths
    kind = np.searchsorted(_KINDS, more, side="right") - 1

    def by_block(values: NDArray[Any]) -> NDArray[np.float64]:
        return np.asarray(np.bincount(block, values, len(alone)), dtype=np.float64)

    kinds = range(len(_KINDS))
    # Where one of the kind would be seen: short ones in windows that nothing disturbs, of which there are enough.
    seen = [(explained == 0) | ((_KINDS[k] >= _SELDOM) & (explained <= max(_KINDS[k], least))) for k in kinds]
    of_kind = [long & (kind == k) & seen[k] for k in kinds]
    usual = counts & ~long
    return np.column_stack(
        [
            by_block(np.where(usual, cycles * middle, 0.0)),
            by_block(usual),
            *(by_block(one) for one in of_kind),
            *(by_block(np.where(one, more, 0.0)) for one in of_kind),
            *(by_block(np.where(one, lengths, 0.0)) for one in seen),
        ]
    )


def _own(one: Windows, begins: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return ticks of the windows and of the turns, without what others had: it is taken off each block's longest."""
    ticks = one.windows[:, [0, 2]].astype(np.float64)
    for at in np.flatnonzero((one.blocks[:, 7] > 0) & (one.blocks[:, 8] > 0)):
        mine = ticks[begins[at] : begins[at] + one.blocks[at, 8]]
        row, which = np.unravel_index(int(mine.argmax()), mine.shape)
        mine[row, which] = max(mine[row, which] - one.blocks[at, 7], min(1.0, mine[row, which]))
    return ticks


def _changed(judged: Sequence[_Judged], first: Sequence[NDArray[np.float64]]) -> float:
    """Return how many times as long as what is quoted the last third of the windows takes; 1 where processes differ."""
    found = []
    for one, early in zip(judged, first, strict=True):
        last = len(one.cycles) * 2 // 3
        late = one.cycles[last:][one.counts[last:]]
        if len(late) < _FEW or len(early) < _FEW:
            continue
        low, high = np.quantile(late, _ENDS)
        until = max(1.0, float(np.quantile(early, _ENDS[1])))
        changes = low > (1 + _CHANGED) * until or high < 1 - _CHANGED
        found.append(float(np.median(late)) if changes else 1.0)
    middle = float(np.median(found)) if found else 1.0
    agree = np.mean([(one - 1) * (middle - 1) > 0 for one in found]) if found else 0.0
    return middle if agree >= _AGREE else 1.0
