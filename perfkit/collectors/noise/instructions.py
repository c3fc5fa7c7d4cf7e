"""What an instruction does, by its name and operands: to tell which kinds of noise are like a loop's own work."""

import re

from iced_x86 import Instruction, Mnemonic, OpAccess

from perfkit.collectors.noise.liveness import VECTORS, effect, memory_used

_VECTOR = (  # name without V, by rule of thumb -> kind of noise; the first that fits
    (r"(DIV|SQRT)[PS][SDH]", "divide"),
    (r"MUL[PS][SDH]|FN?M(ADD|SUB)\w*", "vector multiply"),
    (r"(ADD|SUB|ADDSUB|HADD|HSUB|MIN|MAX|CMP|ROUND)[PS][SDH]|U?COMIS[SD]|CVT\w*", "vector add"),
    (r"P?SHUF\w*|PERM\w*|P?UNPCK\w*|P?(INSERT|INSR|EXTRACT|EXTR)\w*|P?BROADCAST\w*|PALIGNR|MOV(D|SL|SH)DUP", "shuffle"),
    (r"P(?!REFETCH|USH|OP)\w+|(AND|ANDN|OR|XOR)P[SD]", "vector integer"),
)
_SHIFT = r"(SH|SA|RO)[LR]X?|RORX|SH[LR]D"
_NO_WORK = r"MOV\w*|NOP|LFENCE|MFENCE|SFENCE|PREFETCH\w*|CLFLUSH\w*|CALL|RET|JMP|PUSH|POP|CPUID|RDTSCP?"


def mnemonic(i: Instruction) -> str:
    """Return an instruction's name in capitals."""
    return next((name for name, value in vars(Mnemonic).items() if value == i.mnemonic), "")


def is_vector(i: Instruction) -> bool:
    """Whether an instruction reads or writes a vector register."""
    each = effect(i)
    return bool((each.reads | each.writes) & {*VECTORS})


def reads_memory(i: Instruction) -> bool:
    """Whether an instruction reads memory."""
    return any(used.access in (OpAccess.READ, OpAccess.COND_READ, OpAccess.READ_WRITE) for used in memory_used(i))


def stores(i: Instruction) -> bool:
    """Whether an instruction writes memory."""
    return any(used.access in (OpAccess.WRITE, OpAccess.COND_WRITE, OpAccess.READ_WRITE) for used in memory_used(i))


def kinds_like(i: Instruction) -> set[str]:
    """Return the kinds of noise that are like an instruction: their units are those that it uses.

    Examples
    --------
    ``vaddpd ymm0, ymm1, [rsi]`` is like "vector add" and "vector load"; ``dec rax`` like "integer".
    """
    name, vector, found = mnemonic(i), is_vector(i), set()
    if reads_memory(i):
        found.add("vector load" if vector else "load")
    if stores(i):
        found.add("store")
    if vector:
        plain = name.removeprefix("V")
        found |= {kind for kind in [next((k for words, k in _VECTOR if re.fullmatch(words, plain)), "")] if kind}
    elif i.is_jcc_short_or_near:
        found.add("branch")
    elif re.fullmatch(_SHIFT, name):
        found.add("shift")
    elif not re.fullmatch(_NO_WORK, name):
        found.add("integer")
    return found
