"""Assembly mode: a list of instructions becomes an unrolled loop in a function of its own (MARTA, section IV-B).

The loop is emitted as text, so no compiler touches the instructions. Registers on entry: ``rdi rsi r8..r15 rbx rbp``
point to the study's memory (whose first word points to itself: ``mov (%rsi), %rsi`` is a chain of loads), ``rax = rcx
= 1``, ``rdx = 0``, and the vector registers 0..15 are full of ones of the instructions' type (1.0; zeros where they are
indices of addresses). A core that knows a register to be zero need not wait for what an instruction keeps of it
(``movsd %xmm1, %xmm0`` takes a Zen 4 0.25 cycles then, and 1 otherwise). One callee-saved register that the
instructions leave alone counts the turns.
"""

import re
from collections.abc import Sequence

from perfkit.errors import SettingError
from perfkit.study.study import Assembly, Configuration, fill

# 64-bit name -> every name of (a part of) that register.
_COUNTERS = {
    "r15": r"r15[dwb]?", "r14": r"r14[dwb]?", "r13": r"r13[dwb]?", "r12": r"r12[dwb]?",
    "rbx": r"[re]?bx|bl|bh", "rbp": r"[re]?bp|bpl",
}  # fmt: skip
_SAVED = ("rbx", "rbp", "r12", "r13", "r14", "r15")
# How floating-point instructions of 2, 4 and 8 bytes end -> 8 bytes full of their 1.0: other bits are denormal numbers
# in a few divisions. Lists of several types, and those without numbers, have the last.
_HALF, _SINGLE, _DOUBLE = 0x3C00_3C00_3C00_3C00, 0x3F80_0000_3F80_0000, 0x3FF0_0000_0000_0000
_ONES = {r"v[a-z0-9]+[ps]h": _HALF, r"[a-z0-9]+[ps]s": _SINGLE, r"[a-z0-9]+[ps]d": _DOUBLE}
_POINTERS = ("rsi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "rbx", "rbp", "rdi")


def chosen(assembly: Assembly, configuration: Configuration) -> list[str]:
    """Return the instructions of one configuration: selected, ordered, and with the dimensions filled in."""
    order = configuration.values.get("ORDER")
    indices = range(len(assembly.instructions)) if order is None else [int(i) for i in str(order).split(",")]
    return [_filled(assembly.instructions[i], configuration) for i in indices]


def loop_source(assembly: Assembly, configuration: Configuration, symbol: str) -> str:
    """Return C text that defines `symbol`: the unrolled loop, its set-up and its end.

    Raises
    ------
    SettingError
        If the instructions use every register that could count, or the stack pointer as a destination.
    """
    body = chosen(assembly, configuration)
    init = [_filled(line, configuration) for line in assembly.init]
    text = "\n".join(body + init)
    counter = next((name for name, names in _COUNTERS.items() if not _mentions(text, names)), None)
    if counter is None:
        raise SettingError(f"the instructions use all of {', '.join(_COUNTERS)}: leave one for the loop counter")
    vectors = bool(re.search(r"\b[yz]mm\d", text)) or bool(re.search(r"^\s*v", text, re.MULTILINE))
    lines = [f".globl {symbol}", f".type {symbol}, @function", ".p2align 6", f"{symbol}:"]
    lines += [f"push %{name}" for name in _SAVED]
    lines += ["mov (%rdi), %rax", "push %rax", "mov 8(%rdi), %rdi"]
    # Stored from a vector register: Golden Cove follows a stored general register through memory, and a chain of loads
    # of it then takes no time, however long it is (0.33 cycles per load, instead of 5).
    lines += ["movq %rdi, %xmm0", "movq %xmm0, (%rdi)"]
    lines += [f"mov %rdi, %{name}" for name in _POINTERS if name != "rdi"]
    lines += [f"pop %{counter}", *_filled_vectors(text, vectors)]
    lines += ["mov $1, %eax", "mov $1, %ecx", "xor %edx, %edx"]  # last: what fills the vector registers uses rax
    lines += _in_syntax(init, assembly.syntax)
    lines += [".p2align 6", f".Lloop_{symbol}:"]  # no number: a list may have labels of its own
    lines += _in_syntax(body * assembly.unroll, assembly.syntax)
    lines += [f"dec %{counter}", f"jnz .Lloop_{symbol}"]
    lines += ["vzeroupper"] if vectors else []
    lines += [f"pop %{name}" for name in reversed(_SAVED)]
    lines += ["ret", f".size {symbol}, .-{symbol}"]
    return "__asm__(\n" + "\n".join(f'    "{line}\\n"' for line in [".text", *lines]) + "\n);\n"


def _filled_vectors(text: str, vectors: bool) -> list[str]:
    """Return what gives the vector registers 0..15 their values before a list of instructions."""
    nothing = ["vzeroall"] if vectors else [f"pxor %xmm{i}, %xmm{i}" for i in range(16)]
    if re.search("gather|scatter", text, re.IGNORECASE):
        return nothing
    wide = next((name for name in ("zmm", "ymm") if re.search(rf"\b{name}\d", text, re.IGNORECASE)), "xmm")
    copies = {"xmm": 2, "ymm": 4, "zmm": 8}[wide]
    lines = [f"mov ${_one_of(text):#x}, %rax", *["push %rax"] * copies]
    lines += nothing[:1] if vectors else []  # so that the upper halves are known to be zero
    move = "vmovups" if vectors else "movups"
    return [*lines, *(f"{move} (%rsp), %{wide}{i}" for i in range(16)), f"add ${8 * copies}, %rsp"]


def _one_of(text: str) -> int:
    """Return 8 bytes full of ones of the type that a list of instructions computes with."""
    names = [line.split()[0].lower() for line in text.splitlines() if line.strip()]
    kinds = {one for name in names for end, one in _ONES.items() if re.fullmatch(end, name)}
    return kinds.pop() if len(kinds) == 1 else _DOUBLE


def _in_syntax(lines: Sequence[str], syntax: str) -> list[str]:
    if syntax == "att" or not lines:
        return list(lines)
    return [".intel_syntax noprefix", *lines, ".att_syntax prefix"]


def _filled(line: str, configuration: Configuration) -> str:
    try:
        return fill(line, configuration.values)
    except ValueError as error:
        raise SettingError(str(error)) from None


def _mentions(text: str, names: str) -> bool:
    return re.search(rf"(?<![A-Za-z0-9_])(?:{names})(?![A-Za-z0-9_])", text, re.IGNORECASE) is not None
