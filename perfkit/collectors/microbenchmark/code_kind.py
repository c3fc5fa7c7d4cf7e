"""What kind of code is timed: what reads the clock waits longer for floating-point operations than for integer ones."""

import re
from collections.abc import Sequence
from enum import IntEnum

from perfkit.collectors.host.toolchain import Disassembled


class Code(IntEnum):
    """As in kinds.h: `PLAIN` consists of nothing but common integer instructions, `VECTOR` has others of registers."""

    ANY = 0
    PLAIN = 1
    VECTOR = 2


_VECTOR = re.compile(r"%([xyz]?mm\d|st\b)")
_PLAIN = re.compile(
    r"(mov(abs)?|add|sub|adc|sbb|inc|dec|neg|not|and|or|xor|test|cmp|imul|mul|i?div|sh[lr]d?|sal|sar|ro[lr]"
    r"|s[ah][lr]x|shlx|rorx|andn|bls\w|bextr|bzhi|pdep|pext|mulx|lea|push|pop|popcnt|[lt]zcnt|bs[fr]|bts?|bswap|crc32)"
    r"[bwlq]{0,2}|mov[sz][bwlq]{2}|c[wl]t[dl]|cltq|cq?tq?o|cltd|cqto|cmov\w+|set\w+|j\w+|nop\w*|prefetch\w+|endbr64|ret\w?|leave"
    r"|rdtsc|lfence"
)


def kind_of_code(functions: Sequence[Sequence[Disassembled]], marks: bool) -> Code:
    """Judge the functions that a region became; with `marks`, what stands between each pair where that can be told.

    Pairs of two kinds are of none: each would be as far off as the other kind's marks take longer.
    """
    whole = [line for one in functions for line in one]
    kinds = {_kind_of(lines) for lines in (_between_marks(functions) if marks else []) or [whole]}
    return kinds.pop() if len(kinds) == 1 else Code.ANY


def _kind_of(lines: Sequence[Disassembled]) -> Code:
    if any(_VECTOR.search(line.operands) for line in lines):
        return Code.VECTOR
    plain = all(_PLAIN.fullmatch(line.mnemonic) and not line.locked for line in lines)
    return Code.PLAIN if plain else Code.ANY


def _between_marks(functions: Sequence[Sequence[Disassembled]]) -> list[Sequence[Disassembled]]:
    """Return what lies between each two readings of the clock, or nothing if these are no stretches of code.

    What stands between two pairs, as where the second reading is kept and looked at, is no part of either.
    """
    marked = [one for one in functions if any(line.mnemonic == "rdtsc" for line in one)]
    if len(marked) != 1:
        return []
    at = [k for k, line in enumerate(marked[0]) if line.mnemonic == "rdtsc"]
    if len(at) % 2:
        return []
    stretches = [marked[0][begin : end + 1] for begin, end in zip(at[::2], at[1::2], strict=True)]
    return stretches if all(map(_stays, stretches)) else []


def _stays(stretch: Sequence[Disassembled]) -> bool:
    """Whether all of its jumps lead to itself."""
    inside = {line.address for line in stretch}
    targets = [re.match(r"[0-9a-f]+", line.operands) for line in stretch if line.mnemonic.startswith("j")]
    return all(found and int(found[0], 16) in inside for found in targets)
