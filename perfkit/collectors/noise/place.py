"""What is free where noise goes: dead registers, dead flags, constant registers, the chain that iterations carry."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from iced_x86 import EncodingKind, Instruction, Mnemonic, OpCodeInfo, OpKind, Register, RegisterInfo

from perfkit.collectors.noise.function import FunctionCode, Loop
from perfkit.collectors.noise.liveness import GENERAL, VECTORS, effect, live_at, touched, written


@dataclass(frozen=True)
class NoisePlace:
    """The head of a loop, as noise finds it. Registers are full ones, as iced-x86 numbers them.

    Parameters
    ----------
    address : int
        The loop's header: noise runs before its instructions, once in every iteration.
    general, vectors : tuple of int
        Dead registers.
    own_general, own_vectors : tuple of int
        Of these, those that the whole function leaves alone: they keep a value from one iteration to the next.
    constant_general : tuple of int
        Registers that the loop does not write: reading them waits for nothing.
    constant_vectors : tuple of int
        The same of vectors that the function uses.
    flags_dead : bool
        Whether all arithmetic flags are written before they are read.
    width : int
        Bytes of the widest vector that the function uses; 16 where it uses none.
    legacy : bool
        Whether it uses SSE instructions without VEX.
    carried : int
        The register that carries the longest chain of dependent instructions from iteration to iteration; 0: none.
    links : int
        About how many cycles that chain takes in one iteration, by rule of thumb.
    calls : bool
        Whether the loop calls functions.
    """

    address: int
    general: tuple[Any, ...]
    vectors: tuple[Any, ...]
    own_general: tuple[Any, ...]
    own_vectors: tuple[Any, ...]
    constant_general: tuple[Any, ...]
    constant_vectors: tuple[Any, ...]
    flags_dead: bool
    width: int
    legacy: bool
    carried: Any
    links: int
    calls: bool


def noise_place(function: FunctionCode, loop: Loop) -> NoisePlace:
    """Find what is free at a loop's head."""
    live, flags = live_at(function, loop.header)
    used, body = touched(function.instructions), function.body(loop)
    changed = written(body)
    carried, links = _chain(body, live)
    sizes = [_size(i) for i in function.instructions]
    general = [r for r in GENERAL if r not in live and r != Register.RSP]
    vectors = [r for r in VECTORS if r not in live]
    return NoisePlace(
        address=loop.header,
        general=tuple(general),
        vectors=tuple(vectors),
        own_general=tuple(r for r in general if r not in used),
        own_vectors=tuple(r for r in vectors if r not in used),
        constant_general=tuple(r for r in GENERAL if r in live - changed and r != Register.RSP),
        constant_vectors=tuple(r for r in VECTORS if r in live - changed),
        flags_dead=not flags,
        width=max([16, *sizes]),
        legacy=any(_is_legacy(i) for i in function.instructions),
        carried=carried,
        links=links,
        calls=any(i.is_call_near or i.is_call_near_indirect for i in body),
    )


def _size(i: Instruction) -> int:
    """Return the bytes of the widest vector register that an instruction names."""
    named = [i.op_register(k) for k in range(i.op_count) if i.op_kind(k) == OpKind.REGISTER]
    return max([int(RegisterInfo(r).size) for r in named if int(RegisterInfo(r).full_register) in VECTORS], default=0)


def _is_legacy(i: Instruction) -> bool:
    return _size(i) > 0 and OpCodeInfo(i.code).encoding == EncodingKind.LEGACY


def _chain(body: Sequence[Instruction], live: frozenset[int]) -> tuple[int, int]:
    """Return the register with the longest chain from a loop's head to its end, and the chain's rough latency."""
    effects = [(effect(i), _latency(i)) for i in body]
    changed = {register for each, _ in effects for register in each.writes}
    lengths = {}
    for register in sorted(live & changed & {*GENERAL, *VECTORS} - {Register.RSP}):
        at = {register: 0}
        for each, latency in effects:
            longest = max((at[r] for r in each.reads if r in at), default=None)
            for r in each.writes:
                if longest is not None:
                    at[r] = longest + latency
                elif r not in each.reads:
                    at.pop(r, None)
        if at.get(register, 0):
            lengths[register] = at[register]
    best = max(lengths, key=lambda r: lengths[r], default=0)
    return best, lengths.get(best, 0)


def _latency(i: Instruction) -> int:
    """Return an instruction's latency by rule of thumb: only which chain is the longest depends on it."""
    name = next((n for n, v in vars(Mnemonic).items() if v == i.mnemonic), "")
    loads = any(i.op_kind(k) == OpKind.MEMORY for k in range(1, i.op_count)) and i.mnemonic != Mnemonic.LEA
    if "DIV" in name or "SQRT" in name:
        own = 13
    elif _size(i) and name.endswith(("PS", "PD", "SS", "SD")) and not name.lstrip("V").startswith(("MOV", "XOR", "OR")):
        own = 4
    elif "MUL" in name:
        own = 3
    else:
        own = 0 if name.startswith(("MOV", "VMOV")) and not loads else 1
    return own + (4 if loads else 0)


def register_name(register: int) -> str:
    """Return a register's name as people write it."""
    names = {value: name for name, value in vars(Register).items() if isinstance(value, int)}
    return names[register].lower().replace("zmm", "xmm")
