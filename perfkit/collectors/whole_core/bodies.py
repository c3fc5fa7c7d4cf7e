"""The loops that are timed: a form alone, chained through one of its operands, and mixtures of forms."""

from collections.abc import Sequence
from typing import Any

from perfkit.collectors.host.code import flags, iced, independent, one_of
from perfkit.errors import DataError
from perfkit.trace.x86 import memory_access

LENGTH = 160
"""Instructions of a timed loop, at least: what the loop itself costs does not count beside them."""
_STORES = 0x840  # bytes behind what is loaded


def mixture(counts: Sequence[tuple[str, int]]) -> list[Any]:
    """Return this many instructions of each form, evenly mixed, none waiting for another of the mixture.

    Raises
    ------
    DataError
        A form has no independent instances.
    """
    placed: list[tuple[float, Any]] = []
    for order, (form, count) in enumerate(counts):
        several = independent(form)
        if not several:
            raise DataError(f"{form}: no independent instances can be made")
        if memory_access(form)[1]:
            several = [_elsewhere(instruction, _STORES) for instruction in several]
        elif form.startswith("LEA_") and form.endswith("/m"):
            several = [_elsewhere(instruction, 8) for instruction in several]  # without a displacement it is a move
        many = max(count, 1)
        placed += [((k + 0.5) / many + order * 1e-6, several[(k + 5 * order) % len(several)]) for k in range(count)]
    return [instruction for _, instruction in sorted(placed, key=lambda one: one[0])]


def _elsewhere(instruction: Any, displacement: int) -> Any:
    """Return an instruction whose address is so many bytes farther: of a store, so that no load waits for it."""
    moved = instruction.copy()
    moved.memory_displacement, moved.memory_displ_size = displacement, 8
    return moved


def repeated(counts: Sequence[tuple[str, int]]) -> tuple[list[Any], int]:
    """Return a loop's body of mixtures and how many of these it holds; destinations go on from one to the next."""
    total = sum(count for _, count in counts)
    times = max(1, -(-LENGTH // total))
    return mixture([(form, count * times) for form, count in counts]), times


def chains(form: str) -> dict[int, Any]:
    """Return, for each operand that the result can be chained through, an instruction of which that is the result.

    A destination that is read as well is always part of the chain: then it is the only operand.
    """
    ix = iced()
    plain = one_of(form, 0, False)
    if plain is None or form.startswith(("CMP_", "TEST_")) or plain.op_count == 0:
        return {}
    info = ix.InstructionInfoFactory().info(plain)
    if plain.op0_kind != ix.OpKind.REGISTER or info.op0_access in (ix.OpAccess.READ, ix.OpAccess.NONE):
        return {}
    if info.op0_access in (ix.OpAccess.READ_WRITE, ix.OpAccess.READ_COND_WRITE):
        return {0: plain}
    kinds = {value: key for key, value in vars(ix.Register).items() if isinstance(value, int)}
    stem = _stem(kinds[plain.op0_register])
    found = {}
    for k in range(1, plain.op_count):
        linked = plain.copy()
        if plain.op_kind(k) == ix.OpKind.MEMORY and stem == "R64" and form.endswith("/m"):
            linked.memory_base = plain.op0_register
        elif plain.op_kind(k) == ix.OpKind.REGISTER and _stem(kinds[plain.op_register(k)]) == stem:
            linked.set_op_register(k, plain.op0_register)
        else:
            continue
        found[k] = linked
    return found


def _stem(name: str) -> str:
    for stem in ("XMM", "YMM", "ZMM"):
        if name.startswith(stem):
            return stem
    if name.endswith("L"):
        return "R8"
    return "R32" if name.endswith("D") or name.startswith("E") else "R64"


def before(forms: Sequence[str]) -> list[Any]:
    """Return what runs once before: an instruction of SSE keeps, and waits for, the upper half unless it is zero."""
    legacy = any("MM" in form and not form.startswith(("VEX_", "EVEX_")) for form in forms)
    return [iced().Instruction.create(iced().Code.VEX_VZEROUPPER)] if legacy and "avx" in flags() else []
