"""An AArch64 trace's static code as numbers for one core: the same `Program` as for x86-64.

What differs from x86-64:

- Registers are those of `perfkit.trace.aarch64`: 0-30 integer, 31 the stack pointer, 32-63 vector, 64 the flags.
- A base register that pre- or post-indexed addressing updates is not written here. An instruction's results have one
  time in Algorithm 1, and the updated base (a cycle) must not wait for the loaded value or the stored data. As the load
  and store units take one such access per cycle, a chain of these updates alone would never be what is waited for.
- Nothing is fused or renamed away: the core files say so.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from perfkit.machine.core import Microarchitecture
from perfkit.simulators.program.program import CONDITIONAL, Forms, Program
from perfkit.trace.aarch64 import FLAGS, VECTORS, decode
from perfkit.trace.code import StaticCode


def lower(code: StaticCode, core: Microarchitecture, forms: Forms) -> Program:
    """Return the program that AArch64 `code` is on `core`, with each form's figures taken from `forms`.

    Raises
    ------
    UnavailableError
        capstone 6 is not installed, or the code uses SVE or SME.
    """
    decoded = decode(code)
    found = [forms(i.form) for i in decoded]
    groups = tuple(core.ports)
    number = {name: k for k, name in enumerate(groups)}
    at_load = set(forms("LDR_X_M").uses)  # the ports that delay the load, not the operation on its value
    uses: list[list[tuple[int, float]]] = []
    load_uses = []
    for form in found:
        pairs = [(number[g], float(amount)) for g, amount in form.uses.items() if g in number and amount > 0]
        early = [p for p in pairs if form.loads and groups[p[0]] in at_load]
        uses.append(early + [p for p in pairs if p not in early])
        load_uses.append(len(early))
    address_start, address = _flat([i.address for i in decoded])
    data_start, data = _flat([i.data for i in decoded])
    results = [[r for r in i.written if r != i.updated] for i in decoded]
    write_start, written = _flat(results)
    vector = np.array([any(VECTORS <= r < FLAGS for r in own) for own in results], dtype=np.bool_)
    return Program(
        core=core,
        code=code,
        groups=groups,
        slots=np.array([max(1, round(f.fused_uops)) for f in found], dtype=np.int32),
        latency=np.array([f.latency for f in found], dtype=np.float64),
        value_latency=np.array([f.memory_latency if f.loads else 0.0 for f in found], dtype=np.float64),
        load_latency=np.array([f.address_latency if f.loads else 0.0 for f in found], dtype=np.float64),
        use_start=np.concatenate(([0], np.cumsum([len(u) for u in uses]))).astype(np.int32),
        load_uses=np.array(load_uses, dtype=np.int32),
        use=np.array([g for u in uses for g, _ in u], dtype=np.int32),
        amount=np.array([a for u in uses for _, a in u], dtype=np.float64),
        address_start=address_start,
        address_register=address,
        data_start=data_start,
        data_register=data,
        write_start=write_start,
        write_register=written,
        vector=vector,
        named=vector,
        early=np.zeros(len(decoded)),
        scheduler=np.zeros(len(decoded), dtype=np.int8),
        ending=np.array([CONDITIONAL if i.conditional else 0 for i in decoded], dtype=np.int8),
        constants=np.zeros(len(decoded), dtype=np.uint8),
        wide=np.zeros(len(decoded), dtype=np.bool_),
        expression=np.full(len(code.size), -1, dtype=np.int32),
        forms=tuple(found),
    )


def _flat(lists: Sequence[Sequence[int]]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    start = np.concatenate(([0], np.cumsum([len(x) for x in lists]))).astype(np.int32)
    return start, np.array([r for x in lists for r in x], dtype=np.int32)
