"""The result of comparing two kernels: the effect, its confidence interval, and what that says."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from perfkit.base.files import a_path, json_text, replaced
from perfkit.base.results import Kind, Tabled, draw, drawn
from perfkit.collectors.host.true_cycles import ALONE, CLOCK, FENCE, MOSTLY

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

Verdict = Literal["slower", "faster", "same", "undecided"]


_TIMES = 9.0  # a change of which a factor says more than its percent
_SHARED = 0.1  # logarithm of the change of a kernel's time that the other one brings, from which nothing is relied on
_FAR = 4.0  # standard deviations from no effect at which few processes that agree are enough
_SURE_OF_MEANS, _TAIL = 5, 0.02  # processes, and what else the mean has to say, from which that is said
_TRIMMED = 0.1  # of the processes at either end, which something else may have disturbed
SELDOM_ALONE = 1e5  # cycles of a call, from which all rounds count, by their own time: neighbours make it longer
_DIFFER = 1.04  # how many times as long nine tenths of the rounds take as one tenth, from which its calls differ
_RARE = 0.015  # of a mean that rare rounds add, from which that is told
_MANY_CALLS = 14_000  # below which it is said how many were timed
_SURE_OF = 14  # rare calls to be expected, of which there are so many that they show in nearly all comparisons
_RESAMPLED = 10_000
_WAITS = 0.02  # of its rounds in which a kernel gave the processor up, from which it is told to wait
_STATES = 1.25  # how many times as long some processes take as others, from which a kernel has several states
_HALVES = 5  # halves of its interval by which an effect on calls alone is another, from which that is told
_SPREAD = 0.02  # of the processes' ratios, above which they are told to be of several kinds


@dataclass(frozen=True, eq=False, repr=False)
class KernelComparison(Tabled):
    """How much slower or faster kernel b is than kernel a, measured.

    Parameters
    ----------
    names
        Of a and of b.
    builds
        Compiler and flags of each.
    table
        One row per process: ``process``, ``cycles_a`` and ``cycles_b`` per call (medians), ``ratio`` (median of the
        rounds' b/a), the ``rounds`` that count, those ``busy`` (beside a busy thread of the same core) and those
        ``rejected`` (the clock rate changed or something interrupted). Also the ``mean_a`` and ``mean_b`` of all
        calls, what a tenth of the rounds is below (``low_a``, ``low_b``) and above (``high_a``, ``high_b``), what rare
        calls that take much longer add to the mean, relative (``rare_a``, ``rare_b``), and the share of the rounds in
        which the kernel gave the processor up (``waited_a``, ``waited_b``). Not in results of before these were kept.
    confidence
        Of the interval.
    least
        The smallest effect that matters, relative.
    quiet
        Whether only quiet rounds count; if not, too few were, and the effect is one beside a busy thread.
    calls
        Calls timed as one; of a kernel that takes more than four times as long as the other, fewer.
    host
        Where this was measured.
    apart
        Whether each call began when the one before had ended.
    alone
        Cycles of a call of a and of b that so began, where those that were compared may overlap; None if they are
        apart, or one call is longer than a sample has to be.
    alone_off
        By how much the logarithm of the ratio of the two in `alone` may be off, as far as processes differ.
    called
        What a call of a and of b is, such as ``sum(f8[1000], 1000)``; empty in results of before it was kept.
    date
        When this was measured; empty in results of before it was kept.
    grain
        By how much the steps of the time stamp counter may move the ratio of two readings, relative.
    asked
        Processes that were started; 0 in results of before it was kept. Those with too few rounds are not in `table`.
    start
        How many calls of each kernel came before those that were timed, at most; each process draws how many.
    disturbed
        Whether one kernel takes so much longer that something interrupts nearly every sample of it, and not of the
        other: `table` holds its lowest round of each process then, and `interval` is the range of the processes.
    before
        How many times as long a and b took once the other was loaded and called in their process, as before: the
        change that four of five processes exceed, 1 where these do not agree. None where that is not known.
    notes
        What warnings said of the kernels and their arguments.

    Examples
    --------
    >>> from perfkit.collectors import corpus_kernel
    >>> a, b = (corpus_kernel("gemm", build=build) for build in ("scalar", "avx2"))  # doctest: +SKIP
    >>> print(pk.compare(a, b).summary())  # doctest: +SKIP
    """

    names: tuple[str, str]
    builds: tuple[str, str]
    table: "pd.DataFrame"
    confidence: float
    least: float
    quiet: bool
    calls: int
    host: str
    apart: bool = False
    alone: tuple[float, float] | None = None
    alone_off: float = 0.0
    called: tuple[str, str] = ("", "")
    date: str = ""
    grain: float = 0.0
    asked: int = 0
    start: int = 0
    disturbed: bool = False
    before: tuple[float, float] | None = None
    notes: tuple[str, ...] = ()

    _rows: ClassVar[str] = "table"

    @property
    def kind(self) -> Kind:
        """Measured."""
        return "measured"

    @property
    def cycles(self) -> tuple[float, float]:
        """Cycles per call of a, the geometric mean of the processes, and of b: as many more as the effect says.

        Not two medians: where some processes take half as long again, the median of one may be of the one kind and that
        of the other of the other kind, and the two say the opposite of the effect.
        """
        return mean_cycles(self.table)

    @property
    def effect(self) -> float:
        """How much longer b takes than a, relative: 0.02 is 2 % slower, -0.02 is 2 % faster."""
        return mean_effect(self.table)

    @property
    def interval(self) -> tuple[float, float]:
        """Confidence interval of the effect: Student's t over the processes, of the logarithms of their ratios.

        No narrower than what the counter's steps leave open, were all processes to read the same by chance: the error
        of readings that begin anywhere in a step, over all rounds. Of a kernel that is `disturbed`, which makes all
        ratios err to one side, the range of the processes, and what the clock itself may be off.
        """
        from scipy.stats import t

        logs = np.log(self.table["ratio"].to_numpy())
        if self.disturbed:
            return float(np.expm1(logs.min() - CLOCK)), float(np.expm1(logs.max() + CLOCK))
        steps = self.grain / np.sqrt(8 * max(float(self.table["rounds"].sum()), 1.0))  # half a step, of a and of b
        error = max(logs.std(ddof=1) / np.sqrt(len(logs)), steps)
        half = t.ppf((1 + self.confidence) / 2, len(logs) - 1) * error
        return float(np.expm1(logs.mean() - half)), float(np.expm1(logs.mean() + half))

    @property
    def verdict(self) -> Verdict:
        """What the interval says of b.

        "same" if all of it lies within ±`least`; else "slower" or "faster" if zero lies outside; else "undecided": the
        difference may be zero, or as large as the interval says. Where the ratio differs much between processes, these
        come in few states rather than around one mean; then most of them have to agree as well (sign test). Where one
        kernel's time changed when the other came into its process (`before`), it is undecided; and where a kernel gives
        the processor up in so many rounds that its middle one may be one of these.
        """
        low, high = self.interval
        if self._changed or self._mostly_wait:
            return "undecided"
        if -self.least <= low and high <= self.least:
            return "same"
        if low <= 0 <= high or (self.spread > _SPREAD and not self._most_agree()):
            return "undecided"
        return "slower" if low > 0 else "faster"

    @property
    def spread(self) -> float:
        """Standard deviation of the processes' ratios, relative: the same for b/a and a/b."""
        return float(np.expm1(np.log(self.table["ratio"]).std(ddof=1)))

    def _most_agree(self) -> bool:
        from scipy.stats import binomtest

        same_side = int(((self.table["ratio"] > 1) == (self.effect > 0)).sum())
        sure = binomtest(same_side, len(self.table)).pvalue <= 1 - self.confidence
        logs = np.log(self.table["ratio"])
        # Few processes that all agree, far from no effect: no two states lie on either side of it.
        far = same_side == len(logs) and abs(logs.mean()) > _FAR * logs.std(ddof=1)
        return bool(far or sure) and 2 * same_side > len(self.table)

    @property
    def busy_share(self) -> float:
        """Share of the steady rounds that ran beside a busy thread of the same core."""
        quiet = self.table["rounds"].sum() if self.quiet else self.table["rounds"].sum() - self.table["busy"].sum()
        return float(self.table["busy"].sum() / max(quiet + self.table["busy"].sum(), 1))

    @property
    def where(self) -> str:
        """Say on which processor this was measured, and when."""
        return f"Measured on {self.host}{f', {self.date}' if self.date else ''}."

    def to_frame(self) -> "pd.DataFrame":
        """One row per process; see `table`."""
        return self.table

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as plain values: names, builds, cycles, effect and interval, verdict, how it was found."""
        low, high = self.interval
        means = self.on_average
        return {
            "kind": self.kind,
            "a": {"name": self.names[0], "build": self.builds[0], "cycles": self.cycles[0], "call": self.called[0]},
            "b": {"name": self.names[1], "build": self.builds[1], "cycles": self.cycles[1], "call": self.called[1]},
            "effect": self.effect,
            "interval": [low, high],
            "confidence": self.confidence,
            "verdict": self.verdict,
            "least": self.least,
            "processes": len(self.table),
            "rounds": int(self.table["rounds"].sum()),
            "effect_on_means": None if means is None else means[0],
            "interval_on_means": None if means is None else list(means[1:]),
            "before": None if self.before is None else list(self.before),
            "busy_share": self.busy_share,
            "apart": self.apart,
            "cycles_apart": None if self.alone is None else list(self.alone),
            "quiet": self.quiet,
            "notes": list(self.notes),
            "host": self.host,
            "date": self.date,
        }

    def summary(self) -> str:
        """Say what was found: verdict, effect and interval first."""
        a, b = self.names
        low, high = self.interval
        verdict = {
            "slower": f"{b} is slower than {a} by {self.effect:.2%}"
            if self.effect < _TIMES
            else f"{b} is slower than {a}: it takes {1 + self.effect:,.0f} times as long",
            "faster": f"{b} is faster than {a}: it takes {-self.effect:.2%} fewer cycles",
            "same": f"{b} and {a} take the same time, within {self.least:.1%}",
            "undecided": f"no verdict on {b} and {a}"
            if self._changed or self._mostly_wait
            else f"no difference between {b} and {a} was found, but one is not excluded either"
            if low <= 0 <= high
            else self._too_few,
        }[self.verdict]
        beside = f"{self.busy_share:.0%} of the steady rounds ran beside a busy thread"
        beside += " and do not count" if self.quiet else ""
        took = (
            f"{self.cycles[0]:,.1f} cycles per call{self._range('cycles_a')}",
            f"{self.cycles[1]:,.1f}{self._range('cycles_b')}",
        )
        verdict += ", calls in a row, which overlap" if self._overlaps else ""
        verdict += ", apart from what calls wait for" if self._waits and not self._mostly_wait else ""
        means, rare = self.on_average, self._added_by_rare
        apart = means is not None and not self._agrees(*means)
        verdict += ", by the middle round" if apart else ", rare calls apart" if not means and max(rare) > _RARE else ""
        mean = f"; by the mean {self._longer_on_average(*means)}" if means is not None and apart else ""
        lines = [
            f"{verdict} ({_change(low)} to {_change(high)} with {self.confidence:.0%} confidence; measured){mean}.",
            f"{a}: {took[0]}; {b}: {took[1]}.",
            f"{self._counted}, {int(self.table['rounds'].sum())} rounds; {beside}.{self._few_calls}{self._looked}",
        ]
        if self.disturbed:
            longer = a if self.cycles[0] > self.cycles[1] else b
            lines.append(
                f"Something interrupts nearly every call of {longer}, which is long: its figure is the lowest of "
                "each process, and the interval is the range of the processes."
            )
        if self.before is not None and self._changed:
            lines.insert(0, self._told_changed(self.before))
        if any(self.called):
            same = self.called[0] == self.called[1]
            each = self.called[0] if same else f"{self.called[0]} of {a}, {self.called[1]} of {b}"
            kept = "; arrays are filled once, and a call finds what the one before left in them" if "[" in each else ""
            lines.append(f"Called: {each}{kept}.")
        if self.alone is not None and self._overlaps:
            one, other = self.alone
            lines.append(
                f"Calls overlap, so this is the throughput of {self.calls:,} in a row: a call alone takes some "
                f"{one:,.0f} and {other:,.0f} cycles ({_change(other / one - 1, 1)}; from {ALONE} rounds per process, "
                f"give or take {FENCE} cycles and what calls differ by), and the effect on it may be another: --apart "
                "(apart=True) compares those."
            )
        if self.apart and min(self.cycles) < 20 * FENCE:
            lines.append(f"What keeps the calls apart is subtracted, give or take {FENCE} cycles.")
        if not self.quiet:
            lines.append("Too few rounds were quiet: this is the effect beside a busy thread of the same core.")
        if means is not None:
            lines.append(self._told_means(*means))
        elif max(rare) > _RARE:
            lines.append(self._told_rare(*rare))
        if self._waits:
            lines.append(self._waits)
        if not self._differing and min(self._states) > _STATES:
            lines.append(
                f"Both take up to {max(self._states):.1f} times as long in some processes as in others (branch "
                "predictors, or where code and data lie): an effect of so many cycles is another share of each. Time "
                "them in the program they are for."
            )
        if self.spread > _SPREAD:
            slower = int((self.table["ratio"] > 1).sum())
            why = (
                "it depends on where code and data lie in memory, or on how many calls came before (tables that fill, "
                "lists that grow), or something disturbed some of them"
            )
            why = "calls differ, and the middle round is one of them" if self._differing else why
            lines.append(
                f"The ratio varies by {self.spread:.1%} between processes (standard deviation; {b} takes longer in "
                f"{slower} of {len(self.table)}): {why}. Compare again before you rely on its size."
            )
        return "\n".join(lines)

    @property
    def on_average(self) -> tuple[float, float, float] | None:
        """The effect on the mean of all calls, and its interval, where that is or may be another than on the median.

        It surely is where the means say so; it may be where calls of a kernel differ from each other: of one that takes
        twice as long in 45 and another that does in 55 of 100 calls, the medians say "the same", or twice as long.
        """
        from scipy.stats import binom, t

        if "mean_a" not in self.table or self.disturbed or len(self.table) < _SURE_OF_MEANS or self._waits:
            return None  # calls that wait are none of those that count
        if self._few_calls:
            return self._by_pooled_means
        if "rare_a" in self.table and not self._differing:
            return self._where_means_say_more
        logs = np.log((self.table["mean_b"] / self.table["mean_a"]).to_numpy())
        error = logs.std(ddof=1) / np.sqrt(len(logs))
        off = abs(logs.mean() - np.log1p(self.effect))
        if not self._differing and off <= max(t.ppf(0.9995, len(logs) - 1) * error, _TAIL):
            return None
        middle, half = logs.mean(), t.ppf((1 + self.confidence) / 2, len(logs) - 1) * error
        low, high = middle - half, middle + half
        outside = int(binom.ppf((1 - self.confidence) / 2, len(logs), 0.5))
        if self._differing and outside:  # the median of the processes: one that was disturbed moves their mean
            middle, (low, high) = np.median(logs), np.sort(logs)[[outside - 1, -outside]]
        return float(np.expm1(middle)), float(np.expm1(low)), float(np.expm1(high))

    @property
    def _by_pooled_means(self) -> tuple[float, float, float] | None:
        """The effect on the mean of so few calls that a process has a long one or none; None where it is the middle's.

        By the means of all processes' calls, resampled by process: what is trimmed or the middle of processes leaves
        out the few that tell.
        """
        a, b = (self.table[f"mean_{name}"].to_numpy() for name in "ab")
        drawn = np.random.default_rng(0).integers(0, len(a), (_RESAMPLED, len(a)))
        effects = b[drawn].sum(axis=1) / a[drawn].sum(axis=1) - 1
        surely = np.quantile(effects, [0.0005, 0.9995])
        if not self._differing and surely[0] <= self.effect <= surely[1]:
            return None
        low, high = np.quantile(effects, [(1 - self.confidence) / 2, (1 + self.confidence) / 2])
        return float(b.sum() / a.sum() - 1), float(low), float(high)

    @property
    def _where_means_say_more(self) -> tuple[float, float, float] | None:
        """The effect on the mean, and its interval, where the means surely say more than the middle rounds do.

        Of rare calls that take longer; of calls that differ by so little that no tenth of the rounds shows it; of
        samples of some calls, all of which hold two or three that take longer: the middle one is one or the other.
        Interrupts add to both in proportion to their time, and so nothing to the ratio. By the mean of the processes
        without the tenth at either end (Yuen 1974, The two-sample trimmed t for unequal population variances).
        """
        table = self.table
        all_calls = np.log(table["mean_b"] / table["mean_a"] / table["ratio"])
        # Without the long ones, which interrupts may be: a small difference of the rest would be lost beside them.
        usual = all_calls - np.log((1 + table["rare_b"]) / (1 + table["rare_a"]))
        for more in (all_calls, usual):
            found = self._said_more(np.sort(more.to_numpy()))
            if found is not None:
                return found
        return None

    def _said_more(self, more: NDArray[np.float64]) -> tuple[float, float, float] | None:
        """Return the effect and its interval, where the processes surely say `more` than the middle rounds; sorted."""
        from scipy.stats import t

        cut = int(_TRIMMED * len(more))
        kept = more[cut : len(more) - cut]
        middle = float(kept.mean())
        error = np.clip(more, kept[0], kept[-1]).std(ddof=1) / (len(kept) / len(more) * np.sqrt(len(more)))
        if abs(middle) <= max(t.ppf(0.9995, len(kept) - 1) * error, self.least / 4):
            return None
        half = t.ppf((1 + self.confidence) / 2, len(kept) - 1) * error
        effect, (low, high) = np.log1p(self.effect), np.log1p(self.interval)
        ends = np.hypot(half, [effect - low, high - effect])
        return float(np.expm1(effect + middle)), *np.expm1(effect + middle + ends * [-1, 1]).tolist()

    @property
    def _differing(self) -> list[int]:
        """The kernels (0: a) whose calls take different times in most processes."""
        return [k for k, range_ in enumerate(self._ranges) if range_ > _DIFFER]

    @property
    def _ranges(self) -> tuple[float, float]:
        """How many times as long nine tenths of the rounds of a and of b take as one tenth; 1 where it was not kept."""
        if "low_a" not in self.table:
            return 1.0, 1.0
        a, b = (float((self.table[f"high_{name}"] / self.table[f"low_{name}"]).median()) for name in "ab")
        return a, b

    @property
    def _looked(self) -> str:
        """Say which calls of each kernel a process looked at: what comes later may take another time."""
        if "samples_a" not in self.table or not self.start or self.disturbed:
            return ""
        each = int(min(self.table["samples_a"].median(), self.table["samples_b"].median())) * self.calls
        return (
            f" A process looks at some {each:,} calls of each, behind 0 to {self.start:,} others, as drawn: what comes "
            "later does not show."
        )

    @property
    def _few_calls(self) -> str:
        """Say how many calls were timed, and which rare ones that does not show, where they are few."""
        if "samples_a" not in self.table or self.disturbed:
            return ""
        least = int(min(self.table["samples_a"].sum(), self.table["samples_b"].sum())) * self.calls
        if not 0 < least < _MANY_CALLS:
            return ""
        return f" {least:,} calls were timed: what fewer than one of {max(least // _SURE_OF, 1):,} does would not show."

    @property
    def _added_by_rare(self) -> tuple[float, float]:
        """What calls much longer than the middle one add to the means of a and of b, without the worst processes."""
        if "rare_a" not in self.table or self.disturbed or self._waits:
            return 0.0, 0.0
        counts = len(self.table) - (len(self.table) + 9) // 10
        more = [np.sort(self.table[f"rare_{k}"])[:counts] for k in "ab"]
        return float(more[0].mean()), float(more[1].mean())

    def _told_rare(self, of_a: float, of_b: float) -> str:
        """Say what rare calls add to the means."""
        return (
            f"Rare calls take much longer, by themselves or by interrupts: they add {of_a:.0%} to the mean of "
            f"{self.names[0]} and {of_b:.0%} to that of {self.names[1]}, which the effect above leaves out."
        )

    @property
    def _waiting(self) -> dict[str, float]:
        """The kernels that give the processor up, and in which share of their rounds."""
        if "waited_a" not in self.table:
            return {}
        shares = zip(self.names, self.table[["waited_a", "waited_b"]].mean(), strict=True)
        return {name: float(share) for name, share in shares if share > _WAITS}

    @property
    def _mostly_wait(self) -> bool:
        """Whether the middle round of a kernel may be one in which it waits."""
        return max(self._waiting.values(), default=0.0) > MOSTLY

    @property
    def _waits(self) -> str:
        """Say of which kernels calls wait now and then."""
        if not self._waiting:
            return ""
        each = [f"{name} gives the processor up in {share:.0%} of its rounds" for name, share in self._waiting.items()]
        where = (
            "the figures above hold what falling asleep and waking up take. Compare what it does between its waits"
            if self._mostly_wait
            else "calls that wait are not in the figures above"
        )
        return (
            f"{' and '.join(each)}: waiting for a process, a file, a lock or a clock is no time that cycles measure, "
            f"and {where}."
        )

    @property
    def _states(self) -> tuple[float, float]:
        """How many times as long a and b take in slow processes as in fast ones."""
        low, high = self.table[["cycles_a", "cycles_b"]].quantile([0.05, 0.95]).to_numpy()
        return float(high[0] / low[0]), float(high[1] / low[1])

    def _agrees(self, effect: float, low: float, high: float) -> bool:
        """Whether the effect on the middle round may be that on the mean, or both are as small as matters to nobody."""
        small = self.verdict == "same" and -self.least <= low and high <= self.least
        return small or (low <= self.effect <= high and (effect > 0) == (self.effect > 0))

    def _longer_on_average(self, effect: float, low: float, high: float) -> str:
        """Say by how much b takes longer than a on average."""
        range_ = f"({_change(low)} to {_change(high)})"
        if low <= 0 <= high:
            return f"no difference was found {range_}"
        many = f"{1 + effect:,.0f} times as long"
        few = f"{abs(effect):.2%} {'more' if effect > 0 else 'fewer'} cycles"
        return f"{self.names[1]} takes {many if effect > _TIMES else few} {range_}"

    def _told_means(self, effect: float, low: float, high: float) -> str:
        """Say what the effect on the mean is, and why it is another than on the middle round."""
        ranges = [
            f"{self.names[k]} takes {self.table[f'low_{name}'].median():,.1f} to "
            f"{self.table[f'high_{name}'].median():,.1f} cycles per call (a tenth of its rounds less, a tenth more"
            f"{f'; up to {self.calls:,} calls in each' if self.calls > 1 else ''})"
            for k, name in enumerate("ab")
            if k in self._differing
        ]
        added = [
            f"{more:.1%} to the mean of {name}" for more, name in zip(self._added_by_rare, self.names, strict=True)
        ]
        rare = f"Rare calls take much longer, and add {' and '.join(added)}, interrupts included"
        of_a, of_b = self._added_by_rare
        if abs(of_b - of_a) < max(abs(effect - self.effect) / 2, self.least):
            rare = "Calls differ by a little, or every sample holds a few that take longer"
        long = self.table[["cycles_a", "cycles_b"]].median().max() > SELDOM_ALONE
        by = ", by themselves or by what else runs here, which such long calls seldom escape" if long else ""
        why = f"Calls differ{by}: {'; '.join(ranges)}" if ranges else rare
        return (
            f"{why}. The effect on the mean of all calls is {_change(effect)} ({_change(low)} to {_change(high)}), "
            "where the one above is on the middle round"
            f"{'' if self._agrees(effect, low, high) else '. Decide which of them counts'}. Of a kernel that counts "
            "its calls, or draws from a fixed seed, later ones may have another mean."
        )

    @property
    def _changed(self) -> list[int]:
        """The kernels (0: a) whose time changed when the other came into their process, by more than calls differ."""
        return [
            k
            for k, (ratio, range_) in enumerate(zip(self.before or (), self._ranges, strict=False))
            if abs(np.log(ratio)) > max(_SHARED, np.log(range_))
        ]

    def _told_changed(self, before: tuple[float, float]) -> str:
        """Say that a kernel's time changed when the other came into its process, and what that may be."""
        each = [f"{self.names[k]} took {before[k]:.2f} times as long then as before" for k in self._changed]
        return (
            "Do not rely on this: in processes into which the other kernel was loaded later, "
            f"{', and '.join(each)}. Their time changes from call to call (a table that grows, memory that is filled), "
            "or the two share something of the process (threads that were started, the locale, settings of the C "
            "library or the processor, a library, a file). Time each in a program of its own."
        )

    @property
    def _too_few(self) -> str:
        """Say why an interval without zero in it is no verdict: processes of several kinds."""
        a, b = self.names
        longer = int((self.table["ratio"] > 1).sum())
        if 0 < longer < len(self.table):
            return f"no verdict: {b} takes longer than {a} in some processes, and less in others"
        how = "longer" if longer else "less"
        return (
            f"no verdict: {b} takes {how} than {a} in all {len(self.table)} processes, which are too few where the "
            "effect varies so (more: --processes)"
        )

    @property
    def _overlaps(self) -> bool:
        """Whether a call alone takes so much longer that the effect on it may be another: by more than calls differ."""
        if self.alone is None:
            return False
        least = 0.0 if self._effect_alone_differs else self._overlap_told
        return any(
            one - cycles > max(FENCE, least * cycles, (range_ - 1) * cycles if range_ > _DIFFER else 0.0)
            for one, cycles, range_ in zip(self.alone, self.cycles, self._ranges, strict=True)
        )

    @property
    def _effect_alone_differs(self) -> bool:
        """Whether the effect on a call alone surely is another than on calls in a row, by as much as matters.

        By a third of it, or, of a large one, by far more than its interval; and by more than `FENCE` leaves open.
        """
        if self.alone is None:
            return False
        a, b = self.alone
        effect = float(np.log1p(self.effect))
        low, high = np.log1p(self.interval)
        matters = max(min(abs(effect) / 3, _HALVES * (high - low) / 2), self.least / 2)
        return abs(np.log(b / a) - effect) > max(matters, self.alone_off, FENCE * abs(1 / a - 1 / b))

    @property
    def _overlap_told(self) -> float:
        """Share of a call above which it is told that calls overlap: where it may change the effect."""
        return min(max(abs(self.effect), self.least), 0.05)

    @property
    def _counted(self) -> str:
        """Say how many processes count, and why not all."""
        counted = len(self.table)
        if self.asked <= counted:
            return f"{counted} processes"
        return (
            f"{counted} of {self.asked} processes (the others had too few {'quiet' if self.quiet else 'steady'} rounds)"
        )

    def _range(self, column: str) -> str:
        """Say between which values the processes lie, where they differ by more than a twentieth."""
        low, high = self.table[column].quantile([0.05, 0.95])
        return f" ({low:,.1f} to {high:,.1f} over the processes)" if high > 1.05 * low else ""

    def to_json(self) -> str:
        """Return the answer, and the table of processes, as JSON."""
        return json_text(self.to_dict() | {"table": self.table.to_dict("records")}, exact=False, indent=1)

    def to_markdown(self) -> str:
        """Return the answer as Markdown, for a commit message or a review."""
        a, b = self.names
        low, high = self.interval
        return (
            f"| | cycles per call | build |\n| --- | ---: | --- |\n"
            f"| {_cell(a)} | {self.cycles[0]:,.1f} | {_cell(self.builds[0])} |\n"
            f"| {_cell(b)} | {self.cycles[1]:,.1f} | {_cell(self.builds[1])} |\n"
            f"| **effect** | **{_change(self.effect)}** ({_change(low)} to {_change(high)}) | **{self.verdict}** |\n\n"
            + "  \n".join(self.said())
            + f"  \n{self.where}\n"
        )

    def said(self) -> list[str]:
        """Return the lines of the summary, and the notes."""
        return [*self.summary().splitlines(), *(f"Note: {note}" for note in self.notes)]

    def to_html(self) -> str:
        """Return the answer as a page that needs nothing else, with the picture."""
        return drawn("compare:page", self)

    def write(self, path: str | Path) -> Path:
        """Write a report: ``.md``, ``.html``, ``.json``; or the table, as `save` does: ``.csv``, ``.parquet``."""
        makers = {".md": self.to_markdown, ".html": self.to_html, ".json": self.to_json}
        target = a_path(path, "KernelComparison.write")
        if target.suffix not in makers:
            return self.save(target)
        with replaced(target) as temporary:
            temporary.write_text(makers[target.suffix](), encoding="utf-8")
        return target

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the ratio of each process, and the effect with its interval."""
        return draw("compare:plot_comparison", self, ax=ax)


def mean_effect(table: "pd.DataFrame") -> float:
    """Return how much longer b takes than a, relative: by the geometric mean of the processes' ratios."""
    return float(np.expm1(np.log(table["ratio"]).mean()))


def mean_cycles(table: "pd.DataFrame") -> tuple[float, float]:
    """Return the cycles per call of a, the geometric mean of the processes, and of b: as many more as the effect."""
    a = float(np.exp(np.log(table["cycles_a"]).mean()))
    return a, a * (1 + mean_effect(table))


def _change(effect: float, digits: int = 2) -> str:
    """Write a relative change: in percent, or as a factor where that is many times."""
    return f"{effect:+.{digits}%}" if effect < _TIMES else f"{1 + effect:,.0f} times"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
