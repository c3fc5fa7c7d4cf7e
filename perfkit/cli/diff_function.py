"""Which function of two programs ``perfkit diff`` compares where none is named: one that both have, and run."""

import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from perfkit.cli.diff_side import DiffSide
from perfkit.errors import PerfkitError, PerfkitWarning, SettingError

if TYPE_CHECKING:
    from perfkit.collectors.profile.hot import HotFunction, Profile
    from perfkit.collectors.profile.sampled import Target

_SECONDS = 3.0  # for which a program is watched
_SEEN = 0.05  # a function with less of either program's time is not what they spend it on: `main` with one sample


def named(side: DiffSide, others: str, say: Callable[[str], None]) -> DiffSide:
    """Return a side with a function: of a program without one the other side's, if it has that, else its hottest.

    Parameters
    ----------
    side : DiffSide
        Of a program, a library, a file.
    others : str
        The other side's function, where it is known.
    say : callable
        Called with what is being done.
    """
    if not side.is_open:
        return side
    if others and others in _functions(side.path):
        warnings.warn(
            f"{side.path.name}: no function was named; {others} is compared, as of the other side",
            PerfkitWarning,
            stacklevel=2,
        )
        return replace(side, function=others)
    target, found = _profile(side)
    hot = _longer(target, found, _own(side, target, found)[0], say)
    _note(side, hot.name, hot.share, found)
    return replace(side, function=hot.symbol)


def both_named(sides: Iterable[DiffSide], say: Callable[[str], None]) -> list[DiffSide]:
    """Return two sides with the function that is compared, where both are programs and none is named for either.

    Of the functions that both ran it is the one with most time in both together: of two that have about as much, the
    hottest of each may be another. Where its calls are too short to be compared, its caller.

    Raises
    ------
    SettingError
        They share no function of their own that was seen running for a twentieth of the time of either.
    """
    a, b = sides
    if not (a.is_open and b.is_open):
        return [a, b]
    say("looking for what to compare")
    have = _functions(a.path) & _functions(b.path)
    (to_a, in_a), (to_b, in_b) = _profile(a), _profile(b)
    first, second = ({each.symbol: each for each in _own(*of)} for of in ((a, to_a, in_a), (b, to_b, in_b)))
    # What one of them never stood in, but has, counts as well: it may have become quick.
    running = (each.symbol for each in (*first.values(), *second.values()) if each.share >= _SEEN)
    shared = [symbol for symbol in dict.fromkeys(running) if symbol in have]
    if not shared:
        hottest = [next(iter(each.values())) for each in (first, second)]
        raise SettingError(
            f"no function was named, and {a.path.name} and {b.path.name} share none of those that took their time: "
            f"name what is compared, -f {hottest[0].symbol} --function-b {hottest[1].symbol}"
        )
    share = {s: sum(of[s].share for of in (first, second) if s in of) for s in shared}
    most = max(share, key=lambda symbol: share[symbol])
    target, found, hot = (to_a, in_a, first[most]) if most in first else (to_b, in_b, second[most])
    longer = _longer(target, found, hot, say)
    chosen = longer.symbol if longer.symbol in have else most
    for side, of, profile in ((a, first, in_a), (b, second, in_b)):
        _note(side, longer.name if chosen != most else hot.name, of[chosen].share if chosen in of else 0.0, profile)
    return [replace(side, function=chosen) for side in (a, b)]


def _functions(program: Path) -> set[str]:
    from perfkit.collectors.tracer.elf import elf_as_it_is

    return set(elf_as_it_is(program).functions)


def _profile(side: DiffSide) -> "tuple[Target, Profile]":
    from perfkit.collectors.profile.hot import profile
    from perfkit.collectors.profile.sampled import Target

    target = Target(side.path.absolute(), side.words, side.stdin)
    return target, profile(target, _SECONDS)


def _own(side: DiffSide, target: "Target", found: "Profile") -> "list[HotFunction]":
    """Return the program's own functions that were seen running, the hottest first; one at least."""
    from perfkit.collectors.profile.hot import own
    from perfkit.collectors.profile.waits import waits_of

    path = side.path.resolve()
    mine = [each for each in found.functions if own([each]) is not None and Path(each.path).resolve() == path]
    if not mine or own(found.functions) != mine[0]:
        nothing = f"no function of {side.path.name} itself was seen running ({found.summary()}): name one, --function"
        waits = waits_of(target, _SECONDS).told(side.path.name)
        raise SettingError(". ".join(filter(None, (waits, nothing))))
    return mine


def _longer(target: "Target", found: "Profile", hot: "HotFunction", say: Callable[[str], None]) -> "HotFunction":
    """Return what `perfkit why` would explain: the caller of a function whose calls are short."""
    from perfkit.diagnosis.why import explainable

    try:
        return explainable(target, found, hot, say)
    except PerfkitError:  # its calls cannot be told apart: it is recorded as it is
        return hot


def _note(side: DiffSide, name: str, share: float, found: "Profile") -> None:
    from perfkit.diagnosis.words import brief

    seen = f"{share:.0%} of {found.total:,} {found.unit} there"
    warnings.warn(
        f"{side.path.name}: no function was named; {brief(name)} is compared ({seen})", PerfkitWarning, stacklevel=3
    )
