"""A trace's static code as numbers for one core: what each instruction uses, reads, writes and how long it takes.

This is the step between a decoded binary and Algorithm 1 of the Gus paper (section 3.1): every static instruction gets
its slots, its conjunctive resources with their inverse throughput, its operands and its latency, split into the parts
that delay address registers, data registers and stored data. One latency per instruction is wrong for forms that load:
the load's latency delays the memory operand only.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from perfkit.machine.core import Microarchitecture
from perfkit.machine.forms import InstructionForm
from perfkit.trace.code import StaticCode

Forms = Callable[[str], InstructionForm]

# x86-64: 0-15 integer, 16-47 vector, 48-55 masks, 56-63 x87/MMX, 64 flags, 65 flags of INC and DEC, 66 ADOX's.
REGISTERS = 72
VECTOR, STORE = 1, 2  # schedulers
CONDITIONAL, INDIRECT, CALL, RETURN = 1, 2, 4, 8  # how an instruction may go on; an indirect call is both


@dataclass(frozen=True)
class Program:
    """The static instructions of a trace on a core, as flat arrays (``n`` instructions).

    Attributes
    ----------
    core : Microarchitecture
        The core it was made for.
    code : StaticCode
        The instructions.
    slots : (n,) int32
        Fused uops: slots at the front end, in the ROB and at retirement; 0 for the second of a fused pair.
    latency, value_latency, load_latency : (n,) float
        Cycles from the last data register to the results, from the loaded value to the results, and from the address
        registers to the loaded value in L1. Where nothing is loaded, address registers are those operands from which
        the result takes that much longer than from the data registers (else 0).
    use_start, use, amount : (n + 1,) int32, (m,) int32, (m,) float
        Which of `groups` each instruction uses and how many uops it sends there; uses at the load stage come first,
        ``load_uses`` of them.
    address_start, address_register, data_start, data_register, write_start, write_register
        Registers read for addresses, read as data, and written.
    vector : (n,) bool
        Whether a loaded value goes to a vector register (L1 and store-forward latencies differ).
    named : (n,) bool
        Whether a result takes a register of the vector file until it retires: a zero, a mask, or what a move renames
        takes none.
    early : (n,) float
        Cycles by which floating-point additions forward to each other earlier than to other operations (else 0).
    scheduler : (n,) int8
        What holds the instruction until it executes, where the core file gives its size: 0 nothing that is modelled,
        `VECTOR` operations, or the data of a vector `STORE` (and moves between the register files).
    ending : (n,) int8
        `CONDITIONAL`, `INDIRECT`, `CALL` (direct ones only this), `RETURN`, or 0 for what needs no prediction.
    constants, wide : (n,) uint8
        Constants of 32 bits (values and displacements; one of 64 bits counts as two, of 8 as none) and whether
        the instruction has the prefix EVEX: what takes room in the micro-op cache beside uops.
    expression : (operands,) int32
        A number for each way in which memory operands are addressed (base, index, scale, displacement), -1 for operands
        that cannot be compared (lanes of gathers).
    forms : tuple of InstructionForm
        Where each instruction's figures come from.
    """

    core: Microarchitecture
    code: StaticCode
    groups: tuple[str, ...]
    slots: NDArray[np.int32]
    latency: NDArray[np.float64]
    value_latency: NDArray[np.float64]
    load_latency: NDArray[np.float64]
    use_start: NDArray[np.int32]
    load_uses: NDArray[np.int32]
    use: NDArray[np.int32]
    amount: NDArray[np.float64]
    address_start: NDArray[np.int32]
    address_register: NDArray[np.int32]
    data_start: NDArray[np.int32]
    data_register: NDArray[np.int32]
    write_start: NDArray[np.int32]
    write_register: NDArray[np.int32]
    vector: NDArray[np.bool_]
    named: NDArray[np.bool_]
    early: NDArray[np.float64]
    scheduler: NDArray[np.int8]
    ending: NDArray[np.int8]
    constants: NDArray[np.uint8]
    wide: NDArray[np.bool_]
    expression: NDArray[np.int32]
    forms: tuple[InstructionForm, ...]

    @staticmethod
    def is_vector(register: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Return which of the program's register numbers are vector or mask registers."""
        return np.asarray((register >= 16) & (register < 56))

    @cached_property
    def inverse_throughput(self) -> NDArray[np.float64]:
        """Cycles each instruction takes of its busiest port group, shape (n,)."""
        each = np.array([self.core.resource(g).inverse_throughput for g in self.groups])
        cost = self.amount * each[self.use] if len(self.use) else np.zeros(0)
        out = np.zeros(len(self.slots))
        np.maximum.at(out, np.repeat(np.arange(len(out)), np.diff(self.use_start)), cost)
        return out


def pruned(program: Program, cores: Sequence[Microarchitecture]) -> Program:
    """Return the program without the port groups that can never be the ones waited for, on any of ``cores``.

    A group whose every use costs no more than the use of some other group, at the same stage of the same instruction,
    is never available later than that one (both are idle up to the same dispatch). The times stay exactly the same;
    an x86 instruction uses up to a dozen groups, of which few can bind.
    """
    n, g = len(program.slots), len(program.groups)
    owner = np.repeat(np.arange(n), np.diff(program.use_start))
    place = np.arange(len(program.use)) - program.use_start[owner]
    late = place >= program.load_uses[owner]
    dense = np.zeros((g, 2, n))
    np.add.at(dense, (program.use, late.astype(int), owner), program.amount)
    inverse = np.array([[core.resource(name).inverse_throughput for core in cores] for name in program.groups])
    keep = np.ones(g, dtype=np.bool_)
    # From the largest groups to the smallest, so that of two equal ones the smaller stays.
    for k in sorted(range(g), key=lambda q: -len(program.core.ports[program.groups[q]].units)):
        if program.groups[k] == program.core.feature("retag_ports", ""):  # used beside the instructions' own uses
            continue
        used = dense[k] > 0
        for other in range(g):
            if other == k or not keep[other]:
                continue
            cost = dense[k][used][:, None] * inverse[k]
            if (cost <= dense[other][used][:, None] * inverse[other]).all():
                keep[k] = False
                break
    stays = keep[program.use]
    per = np.bincount(owner[stays], minlength=n)
    return replace(
        program,
        use_start=np.concatenate(([0], np.cumsum(per))).astype(np.int32),
        load_uses=np.bincount(owner[stays & ~late], minlength=n).astype(np.int32),
        use=program.use[stays],
        amount=program.amount[stays],
    )
