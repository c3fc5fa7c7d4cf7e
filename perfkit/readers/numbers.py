"""Digit grouping and decimal signs: ``10,05,656``, ``3.642.649.330``, ``1 234,5`` and what they mean in one file.

A tool prints numbers in its user's locale. One number alone may not tell (``1,234`` is 1234 in London and 1.234 in
Berlin), but a whole file nearly always does, since a sign has one meaning in all of it. `settle` weighs the evidence
of all numbers of a file; where there is none it raises an error instead of guessing.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from perfkit.errors import FormatError, listed
from perfkit.readers.report import Report

# U+00A0 and U+202F group French numbers, U+2009 is SI style, U+2019 and ' are Swiss, _ is that of many languages.
SPACES = "\u00a0\u202f\u2009"
SIGNS = ".,'\u2019_" + SPACES
NUMBER = rf"[+-]?\d(?:[\d{SIGNS}]*\d)?(?:[eE][+-]?\d+)?"
NUMBER_PATTERN = re.compile(NUMBER)
SCALES = {
    "": 1.0,
    **dict.fromkeys(("k", "K", "Tsd", "Tsd.", "thousand"), 1e3),
    **dict.fromkeys(("M", "Mil", "Mio", "Mio.", "mln", "million"), 1e6),
    **dict.fromkeys(("G", "Bil", "Mrd", "Mrd.", "billion"), 1e9),  # "Billion" with a capital is German, and 1e12
    "T": 1e12,
}
_SCALE = "|".join(sorted(map(re.escape, filter(None, SCALES)), key=len, reverse=True))
# A number with what people write behind it: a scale (1.2K, 1,5 Mio), its spread (1000 ± 5), or a share (12 (0.3 %)).
DRESSED = re.compile(
    rf"(?P<number>{NUMBER})[ {SPACES}]?(?P<scale>{_SCALE})?"
    r"(?P<spread>\s*(?:(?:±|\+/?-)\s*\d.*|\(\s*\d+(?:[.,]\d+)?\s*%\s*\)))?"
)
# Digits in groups of three with plain blanks between: no number where blanks separate, but one in a cell.
BLANKS = re.compile(r"\d{1,3}(?: \d{3})+")
# Points between more than two numbers that group no digits: a day (27.11.2026), a version (5.15.0), an address.
POINTED = re.compile(r"(?!\d{1,3}(?:\.\d{3})+$)\d+(?:\.\d+){2,}")
_ONLY_GROUPS = "'\u2019_" + SPACES
_SHAPE = str.maketrans("0123456789", "0000000000")
_EXPONENT = re.compile(r"[eE][+-]?\d+$")


@dataclass(frozen=True)
class NumberStyle:
    """What a file's numbers use: the signs that group digits, and the decimal sign."""

    grouping: str = ""
    decimal: str = "."

    def parse(self, token: str) -> float:
        """Return the number that a token means."""
        if token.isdecimal():
            return float(token)
        for sign in self.grouping:
            token = token.replace(sign, "")
        return float(token.replace(self.decimal, ".") if self.decimal != "." else token)

    def describe(self) -> str:
        """Say in words which signs mean what."""
        named = dict.fromkeys(SPACES, "a narrow space") | {
            "'": "an apostrophe",
            "\u2019": "an apostrophe",
            "_": "an underscore",
        }
        groups = listed(dict.fromkeys(named.get(s, repr(s)) for s in self.grouping), last="or")
        return (f"{groups} groups digits, " if groups else "") + f"{self.decimal!r} is the decimal sign"


class Token(NamedTuple):
    """A number as written, the line it is on, and whether its format prints it as a whole number."""

    text: str
    line: int
    whole: bool = False


def settle(
    tokens: Iterable[Token], report: Report, *, decimal_sign: str = "", two_decimals: bool = False
) -> NumberStyle:
    """Find the one style that all numbers of a file agree with.

    Parameters
    ----------
    tokens : iterable of Token
        Numbers as written; those of digits only may be left out.
    report : Report
        Told of numbers that fit no style, and of the fewer ones where two contradict each other.
    decimal_sign : str
        The decimal sign as other numbers of the file prove it (perf's percentages always have one).
    two_decimals : bool
        The format never prints exactly three decimals (perf prints two or none), so that a sign before exactly
        three digits groups them.

    Raises
    ------
    FormatError
        Nothing in the file tells what a sign means.
    """
    groups: dict[str, list[Token]] = {}
    decimals: dict[str, list[Token]] = {}
    undecided: dict[str, list[Token]] = {}
    alike: dict[tuple[str, bool, bool], list[Token]] = {}  # by shape, of which there are few
    for token in tokens:
        alike.setdefault((token.text.translate(_SHAPE), token.text[0] == "0", token.whole), []).append(token)
    for (_, _, whole), same in alike.items():
        claims = _claims(same[0].text)
        if claims is None:
            for token in same:
                report.problem(token.line, token.text, "not a number in any digit grouping (1,234,567 or 12,34,567)")
            continue
        group, decimal, either = claims
        for sign in group:
            groups.setdefault(sign, []).extend(same)
        if decimal:
            decimals.setdefault(decimal, []).extend(same)
        if either:
            (groups if whole else undecided).setdefault(either, []).extend(same)
    if decimal_sign:
        decimals.setdefault(decimal_sign, [])
    _settle_contradictions(groups, decimals, decimal_sign, report)
    for sign, unclear in undecided.items():
        if sign in groups or sign in decimals:
            continue
        if decimals or two_decimals:
            groups[sign] = unclear
        elif {*groups} & {".", ","}:
            decimals[sign] = unclear
        else:
            token = unclear[0]
            raise FormatError(
                f"{report.file}, line {token.line}: {token.text!r} can mean {token.text.replace(sign, '')} or "
                f"{token.text.replace(sign, '.')}, and nothing else in the file tells which. Write the numbers "
                "without digit grouping and with a decimal point (run the tool under LC_ALL=C)."
            )
    return NumberStyle("".join(groups), next(iter(decimals), "," if "." in groups else "."))


def _claims(text: str) -> tuple[str, str, str] | None:
    """Return the signs that surely group digits in a number, the one that is surely decimal, and an undecided one."""
    body = _EXPONENT.sub("", text.lstrip("+-"))
    signs = [c for c in body if not c.isdecimal()]
    if not signs:
        return "", "", ""
    last = signs[-1]
    before, after = body[: body.rindex(last)], body[body.rindex(last) + 1 :]
    if signs.count(last) == 1 and last not in _ONLY_GROUPS:
        if len(signs) > 1:  # 1.234,5
            return ("".join(dict.fromkeys(signs[:-1])), last, "") if _well_grouped(before) else None
        if len(after) != 3 or len(before) > 3 or before.startswith("0"):
            return "", last, ""
        return "", "", last
    return ("".join(dict.fromkeys(signs)), "", "") if _well_grouped(body) else None


def _well_grouped(digits: str) -> bool:
    """Whether a locale groups so: three digits last, two (India) or three in all groups before, one sign."""
    parts = re.split(f"[{SIGNS}]", digits)
    inner = {len(p) for p in parts[1:-1]}
    one_sign = len({c for c in digits if not c.isdecimal()}) == 1
    return one_sign and 1 <= len(parts[0]) <= 3 and len(parts[-1]) == 3 and inner in (set(), {2}, {3})


def _settle_contradictions(
    groups: dict[str, list[Token]], decimals: dict[str, list[Token]], proven: str, report: Report
) -> None:
    """Report the numbers of the rarer use where a sign both groups digits and is decimal, or two signs are decimal."""
    for sign in [s for s in groups if s in decimals]:
        loser = groups if sign == proven or len(groups[sign]) < len(decimals[sign]) else decimals
        for token in loser.pop(sign):
            as_what = "groups digits" if loser is groups else "is the decimal sign"
            report.problem(token.line, token.text, f"{sign!r} {as_what} here, but not in the rest of the file")
    if len(decimals) > 1:
        kept = proven or max(decimals, key=lambda s: len(decimals[s]))
        for sign in [s for s in decimals if s != kept]:
            for token in decimals.pop(sign):
                report.problem(token.line, token.text, f"{sign!r} is the decimal sign here, {kept!r} in the others")
