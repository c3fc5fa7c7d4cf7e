"""What the instructions of LLVM IR are in a DAG: nodes, values passed on, calls, or nothing.

Nodes: fadd, fsub, fcmp, min and max (A), fmul (M), fdiv, frem, sqrt (D), fused multiply-adds (F), floating-point loads
and stores (L, S). Values pass through phi, select, fneg, fabs, conversions between floating-point types, vector
shuffles, calls and returns. Integers, addresses and control are left out, as in the paper, unless the whole kernel is
wanted. Then integer operations and addresses that an access does not compute by itself are nodes (I), jumps with a
condition with the comparison before them are (B), integer loads and stores are, and an access waits for its address.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from perfkit.collectors.dag.ir_costs import IrCosts
from perfkit.collectors.dag.ir_module import IrBlock, IrFunction, IrInstruction, IrValue, is_float, is_value, shape
from perfkit.dag.program import (
    ADD,
    BRANCH,
    CALL,
    DIVIDE,
    DIVISION,
    FORWARD,
    FUSED,
    HOLD,
    INTEGER,
    LOAD,
    MULTIPLY,
    OTHER,
    RETURN,
    STORE,
)
from perfkit.errors import DataError

_BINARY = {"fadd": ADD, "fsub": ADD, "fcmp": ADD, "fmul": MULTIPLY, "fdiv": DIVIDE, "frem": DIVIDE}
_PASSED_ON = frozenset(
    ("fneg", "freeze", "fpext", "fptrunc", "extractelement", "extractvalue", "select", "shufflevector")
) | {"insertelement", "insertvalue", "bitcast"}
# Integer operations, and the cycles beyond an addition's that they take: multiplications 3 in all on every x86-64 core
# since Nehalem; of divisions and conversions it is each core's own (`IrCosts`).
_INTEGER = {
    **dict.fromkeys(("add", "sub", "and", "or", "xor", "shl", "lshr", "ashr", "icmp", "sext"), 0),
    "mul": 2,
}
# Conversions of unsigned numbers of 64 bits without AVX-512: by halves, with subtractions and additions between (what
# each step takes beyond a cycle); moves between kinds of registers count 3 cycles.
_UNSIGNED = {"uitofp": (2, 0, 2, 0, 2), "fptoui": (2, 5, 0, 0)}
_CONVERTS = frozenset(("sitofp", "uitofp", "fptosi", "fptoui", "fpext", "fptrunc"))
_SHUFFLES = frozenset(("extractelement", "insertelement", "shufflevector"))
_LOCKED = 13  # of atomic operations beyond their load: 18 in all on Golden Cove; one waits for the other
# Bytes beyond which a division takes so many times as long: 256 bits twice on Intel's cores and once on AMD's, 512 bits
# four times and twice.
_WIDE = ((32, 3.0), (16, 1.5))
_LOCK = "locked operation"  # the slot that says when the last one has ended
_POPCOUNT = 11  # operations beyond one that count bits where the target has no instruction for it
# Operations, and the cycles beyond an addition's that each takes, that stand for a division by a constant: multiply by
# its inverse, shift, subtract the product for a remainder; by a power of two, shift and round.
_BY_CONSTANT = {"udiv": (3, 0), "sdiv": (3, 0, 0), "urem": (3, 0, 2, 0), "srem": (3, 0, 0, 2, 0)}
_BY_POWER = {"udiv": (0,), "sdiv": (0, 0, 0), "urem": (0,), "srem": (0, 0, 0, 0)}
_SUMS = ("fadd", "fsub")
_EARLY = " to an addition"
_FREE = frozenset(("zext", "trunc", "bitcast", "ptrtoint", "inttoptr", "freeze", "addrspacecast"))
# Instructions that x86 does not fetch on their own: addresses, widenings, jumps to the next block.
_FOLDED = frozenset(
    ("getelementptr", "bitcast", "ptrtoint", "inttoptr", "zext", "sext", "trunc", "freeze", "extractvalue")
) | {"unreachable", "phi", "alloca", "addrspacecast", "fence"}
_NO_CODE = re.compile(r"^@llvm\.(?:lifetime|dbg|assume|experimental|invariant|prefetch|donothing|expect|annotation)")
_MIN_MAX = re.compile(r"^@llvm\.(?:min|max)(?:num|imum|imumnum)\.")
_FUSED_CALL = re.compile(r"^@llvm\.(?:fma|fmuladd)\.")
_PASSED = re.compile(
    r"^@llvm\.(?:fabs|copysign|canonicalize|arithmetic\.fence|floor|ceil|trunc|rint|nearbyint|round|experimental)"
)
_ROUNDING = re.compile(r"^@llvm\.(floor|ceil|trunc|rint|nearbyint|round|roundeven)\.")
_BITWISE = re.compile(r"^@llvm\.(?:fabs|copysign)\.")
_REDUCED = re.compile(r"^@llvm\.vector\.reduce\.(fadd|fmul|fmin|fmax)")
_SQUARE_ROOT = re.compile(r"^@(?:llvm\.sqrt\.|sqrtf?$)")
_INTEGER_INTRINSIC = re.compile(
    r"^@llvm\.(?:[su](?:min|max)|abs|ctpop|ctlz|cttz|bswap|bitreverse|fsh[lr]|[su](?:add|sub|mul))"
)
_CHOSEN = re.compile(r"^@llvm\.[su](?:min|max)\.")
_COMPARES = re.compile(r"\bicmp (?:samesign )?([a-z]+) ")
_ZERO = re.compile(r"^(?:\S+ |<.*> )(?:0\.0+e\+00|zeroinitializer)$")
# What functions that are not in the module may do without a word: memory from the system, errors, numba's own service.
_HARMLESS = re.compile(
    r"^@(?:llvm\.|NRT_|numba_(?:gil|unpickle|do_raise|runtime|attempt_nocopy|make_|recreate)|_?Py|malloc$|free$|calloc$"
    r"|realloc$|aligned_alloc$|posix_memalign$|abort$|exit$|_exit$|__assert|_Zn[aw]|_Zd[al]|__cxa|__clang_call|_ZSt\d+__throw"
    r"|_ZSt9terminate|__stack_chk|__gxx|_Unwind|erm\.)"
)
MOVES = re.compile(r"^@llvm\.(memset|memcpy|memmove)(?:\.inline)?\.")
MEMSET, MEMCPY = "erm.memset", "erm.memcpy"
_SCALES = (1, 2, 4, 8)  # that an x86 address multiplies an index by
# What LLVM makes of a multiplication by a constant: one LEA, or two of LEA, shifts and additions, one after the other.
_LEA = (3, 5, 9)
_ADDS_TOO = {7} | {a * s for a in _LEA for s in _SCALES[1:]}  # whose last step adds another number, too
_TWO_STEPS = {a * b for a in _LEA for b in _LEA} | {1 + a * b for a in _SCALES[1:] for b in _LEA}

Operand = str  # a slot's name; "" is ready from the start


@dataclass(frozen=True)
class IrOperation:
    """An operation of a part: code, slots read and written, shape, the call it is, its delay."""

    code: int
    left: Operand = ""
    right: Operand = ""
    into: str = ""
    shape: tuple[int, int] = (1, 8)
    call: tuple[str, tuple[tuple[str, str], ...]] | None = None
    delay: int = 0


@dataclass
class IrPart:
    """A block, or the part of one up to a call: its operations, and where recording code goes."""

    function: str
    origin: str
    phis: list[tuple[str, list[tuple[str, str]]]] = field(default_factory=list)  # into, (value, block)
    operations: list[IrOperation] = field(default_factory=list)
    pointers: list[tuple[int, str]] = field(default_factory=list)  # place in the block, operand with its type
    begin: int = -1
    number: int = -1
    instructions: int = 0
    covered: int = 0
    unseen: int = 0  # calls of functions whose work is not seen


def _integer_register(kind: str) -> int:
    """Return 1 for a type whose values are in integer registers, 0 for floating-point numbers and vectors."""
    return int(not is_float(kind) and not kind.startswith("<"))


def steps_of(factor: int) -> int:
    """Return in how many operations of a cycle LLVM multiplies by a constant: 1, 2, or 0 (by the multiplier).

    Examples
    --------
    >>> [steps_of(factor) for factor in (3, 8, 33, 31, 10, 45, 35, 6364136223846793005)]
    [1, 1, 2, 2, 2, 2, 0, 0]
    """
    odd = factor // (factor & -factor)
    if factor in _LEA or factor.bit_count() == 1:
        return 1
    two = odd in _LEA or factor in _TWO_STEPS or factor.bit_count() <= 2 or (factor + 1).bit_count() == 1
    return 2 if two else 0


class IrReader:
    """Reads the blocks of one function.

    Parameters
    ----------
    function
        The function.
    traced
        The functions that are traced with it, by name.
    ignored
        Takes the names of external functions whose work is not seen.
    count_all
        Keep an `OTHER` operation for every instruction that is no node but that a processor would have to fetch.
    whole
        Make nodes of integer work, too.
    costs
        What operations of a whole kernel take on the core.
    """

    def __init__(
        self,
        function: IrFunction,
        traced: Mapping[str, IrFunction],
        ignored: set[str],
        count_all: bool,
        whole: bool,
        costs: IrCosts,
    ) -> None:
        self.function, self.traced, self.ignored = function, traced, ignored
        self.count_all, self.whole, self.costs = count_all, whole, costs
        self.users: dict[str, list[tuple[IrInstruction, int]]] = {}
        self.made = {i.name: i for block in function.blocks for i in block.instructions if i.name}
        for block in function.blocks:
            for instruction in block.instructions:
                for k, operand in enumerate(instruction.operands):
                    if operand.name:
                        self.users.setdefault(operand.name, []).append((instruction, k))
        self.temporaries = 0
        self.scaled: set[str] = set()  # addresses with an index times 2, 4 or 8
        self.sums = self.added() if whole and costs.forwarding else set()

    def added(self) -> set[str]:
        """Return the values that are sums, or PHIs of some: another addition gets them earlier."""
        made = [i for block in self.function.blocks for i in block.instructions if i.name and is_float(i.type)]
        sums = {i.name for i in made if i.opcode in _SUMS}
        phis = [i for i in made if i.opcode == "phi"]
        while more := {i.name for i in phis if any(v.name in sums for v in i.operands)} - sums:
            sums |= more
        return sums

    def early(self, name: str) -> str:
        """Return the slot from which an addition takes a value."""
        return name + _EARLY if name in self.sums else name

    def parts(self, block: IrBlock) -> list[IrPart]:
        """Return the parts of a block."""
        part = IrPart(self.function.name, block.name)
        parts = [part]
        tested = self.tested(block)
        for at, instruction in enumerate(block.instructions):
            if instruction.opcode == "phi":
                if self.seen(instruction.type):
                    pairs = zip(instruction.operands, instruction.incoming, strict=True)
                    came = [(value.name, label) for value, label in pairs]
                    part.phis.append((instruction.name, came))
                    if instruction.name in self.sums:
                        part.phis.append((self.early(instruction.name), [(self.early(n), at) for n, at in came]))
                continue
            if part.begin < 0:
                part.begin = at
            before = len(part.operations)
            helper = self.moved(instruction)
            if helper or instruction.callee[1:] in self.traced:
                self.call(part, instruction, helper or instruction.callee[1:])
                part.instructions += 1
                part.covered += 1
                part = IrPart(self.function.name, block.name, begin=at + 1)
                parts.append(part)
                continue
            self.read(part, instruction, at, tested)
            made = [operation.code for operation in part.operations[before:]]
            if self.fetched(instruction, tested):
                part.instructions += 1
                nodes = any(code not in (FORWARD, RETURN, OTHER) for code in made)
                part.covered += nodes
                if self.count_all and not nodes and not made:
                    part.operations.append(IrOperation(OTHER))
        return parts

    def unseen(self, part: IrPart, name: str) -> None:
        """Keep the name of a function whose work is not seen."""
        self.ignored.add(name)
        part.unseen += 1

    def seen(self, kind: str) -> bool:
        """Whether values of a type have producers in the DAG."""
        return is_float(kind) or (self.whole and is_value(kind))

    def tested(self, block: IrBlock) -> str:
        """Return the comparison that the block's last jump tests, if nothing else uses it: they are one instruction."""
        if not block.instructions:
            return ""
        last = block.instructions[-1]
        name = last.operands[0].name if last.opcode == "br" and len(last.operands) == 3 else ""
        return name if name and len(self.users.get(name, ())) == 1 else ""

    def fetched(self, instruction: IrInstruction, tested: str) -> bool:
        """Whether an instruction takes a slot of fetch of its own on x86."""
        if instruction.opcode in _FOLDED or _NO_CODE.match(instruction.callee):
            return False
        if instruction.opcode == "br" and len(instruction.operands) == 1:
            return False
        return not (tested and instruction.name == tested and instruction.opcode == "icmp")

    # --- operations ------------------------------------------------------------------------------------------------

    def read(self, part: IrPart, i: IrInstruction, at: int, tested: str) -> None:
        """Add the operations of an instruction that is no call of a traced function."""
        names = [value.name if self.seen(value.type) else "" for value in i.operands]
        if i.callee:
            self.external(part, i)
        elif i.opcode in _BINARY:
            if i.opcode == "frem":
                self.unseen(part, "fmod (the remainder of floating-point numbers)")
            kind = i.operands[0].type
            into = i.name if self.seen(i.type) else ""
            code = _BINARY[i.opcode]
            longer = self.divides_longer(kind, 0) if code == DIVIDE else 0
            if i.opcode in _SUMS:
                names, into = [self.early(name) for name in names], self.early(into)
            part.operations.append(IrOperation(code, names[0], names[1], into, shape(kind), delay=longer))
            if into != i.name and into:
                part.operations.append(IrOperation(FORWARD, into, "", i.name, delay=self.costs.forwarding))
        elif i.opcode == "load" and self.seen(i.type):
            address = names[0]
            if address in self.scaled:
                address = self.temporary(i)
                part.operations.append(IrOperation(FORWARD, names[0], "", address, delay=self.costs.scaled))
            part.operations.append(
                IrOperation(LOAD, address, "", i.name, shape(i.type), delay=_integer_register(i.type))
            )
            part.pointers.append((at, i.operands[0].text))
        elif i.opcode == "store" and self.seen(i.operands[0].type):
            kind = i.operands[0].type
            part.operations.append(
                IrOperation(STORE, names[0], names[1], "", shape(kind), delay=_integer_register(kind))
            )
            part.pointers.append((at, i.operands[1].text))
        elif i.opcode in ("atomicrmw", "cmpxchg") and self.whole:
            kind = i.operands[1].type
            begin = self.temporary(i)
            part.operations.append(IrOperation(FORWARD, names[0], _LOCK, begin))
            part.operations.append(IrOperation(LOAD, begin, "", i.name, shape(kind), delay=1))
            part.operations.append(IrOperation(FORWARD, i.name, "", _LOCK, delay=_LOCKED))
            part.operations.append(IrOperation(STORE, _LOCK, names[0], "", shape(kind), delay=1))
            part.pointers += [(at, i.operands[0].text)] * 2
        elif i.opcode in _PASSED_ON and is_float(i.type):
            self.passed_on(part, i, names)
        elif i.opcode == "ret":
            part.operations.append(IrOperation(RETURN, names[0] if names else ""))
        elif i.opcode == "invoke" and i.callee[1:] in self.traced:
            raise DataError(
                f"{self.function.name} invokes a traced function; compile without exceptions (-fno-exceptions)"
            )
        elif self.whole:
            self.integer(part, i, names, tested)

    def passed_on(self, part: IrPart, i: IrInstruction, names: list[str]) -> None:
        """Add what passes an instruction's operands on as its result, or (of whole kernels) the operation that does."""
        if self.whole and self.works(i):
            self.node(part, INTEGER, i, names, self.costs.converted(i.opcode) - 1 if i.opcode in _CONVERTS else 0)
            return
        if self.whole and self.blends(i):
            self.blend(part, i, names)
            return
        left, right, *more = [*[n for n in names if n], "", ""]
        if more and more[0]:  # a select of three values
            between = self.temporary(i)
            part.operations.append(IrOperation(FORWARD, left, right, between))
            left, right = between, more[0]
        part.operations.append(IrOperation(FORWARD, left, right, i.name))

    def works(self, i: IrInstruction) -> bool:
        """Whether an instruction that the paper's DAGs leave out needs a unit: conversions, signs, shuffles."""
        if i.opcode in ("insertelement", "extractelement"):
            first = i.operands[-1].text.endswith(" 0")
            fresh = i.opcode == "extractelement" or i.operands[0].text.endswith(("poison", "undef"))
            return not (first and fresh)
        if i.opcode in ("fpext", "fptrunc"):  # x87 converts as it loads and stores
            return "x86_fp80" not in (i.type, i.operands[0].type)
        if i.opcode == "fneg":  # fused operations have a sign of their own
            users = self.users.get(i.name, ())
            return not users or not all(_FUSED_CALL.match(user.callee) for user, _ in users)
        return i.opcode == "shufflevector"

    def blends(self, i: IrInstruction) -> bool:
        """Whether a choice of floating-point numbers takes operations beside its comparison: no minimum or maximum."""
        if i.opcode != "select" or not is_float(i.type):
            return False
        condition = self.made.get(i.operands[0].name)
        if condition is None or condition.opcode != "fcmp":
            return False
        return {value.text for value in i.operands[1:]} != {value.text for value in condition.operands}

    def blend(self, part: IrPart, i: IrInstruction, names: list[str]) -> None:
        """Choose by a comparison's mask: one instruction of SSE4.1; before that AND, AND NOT and OR."""
        if not self.function.has("sse4.1") and not any(_ZERO.match(value.text) for value in i.operands[1:]):
            masked = [replace(i, name=self.temporary(i)) for _ in range(2)]
            for made, value in zip(masked, names[1:], strict=True):
                self.node(part, INTEGER, made, [names[0], value])
            names = [made.name for made in masked]
        self.node(part, INTEGER, i, names)

    def choose(self, part: IrPart, i: IrInstruction, names: list[str]) -> None:
        """Add a conditional move, and what it takes longer where its condition reads two flags."""
        condition = self.made.get(i.operands[0].name)
        found = _COMPARES.search(condition.text) if condition is not None and condition.opcode == "icmp" else None
        moved = i.type != "i1" and any(value.name for value in i.operands[1:])  # of two constants: SETcc and arithmetic
        if condition is not None and found is not None and moved and not i.type.startswith("<"):
            for _ in range(self.reads_two_flags(found[1], condition.operands[1])):
                made = replace(i, name=self.temporary(i), type="i64")
                self.node(part, INTEGER, made, names[:1])
                names = [made.name, *names[1:]]
        self.node(part, INTEGER, i, names)

    def reads_two_flags(self, predicate: str, against: IrValue) -> int:
        """Return how many operations more a move on a condition takes; a sign is one flag, a carry another."""
        if predicate[0] == "s":
            sign = (predicate, against.text.split()[-1]) in (("slt", "0"), ("sgt", "-1"))
            return 0 if sign else self.costs.signed_choice
        # Against a constant, above is not below the next one.
        return self.costs.unsigned_choice if predicate in ("ugt", "ule") and against.name else 0

    def temporary(self, i: IrInstruction) -> str:
        """Return a new slot's name."""
        self.temporaries += 1
        return f"{i.name}.{self.temporaries}"

    def divided(self, part: IrPart, i: IrInstruction, names: list[str]) -> None:
        """Add a division of integers, which takes the divider: it is not pipelined."""
        if i.type == "i128":
            self.unseen(part, "__divti3 (a division of 128-bit integers)")
        if divisor := re.fullmatch(r"i\d+ (-?\d+)", i.operands[1].text):
            self.by_constant(part, i, names[0], abs(int(divisor[1])))
            return
        taken = self.costs.division(i.opcode, i.type)
        part.operations.append(IrOperation(HOLD, delay=taken.busy))
        self.node(part, INTEGER, i, names, taken.latency - 1)

    def by_constant(self, part: IrPart, i: IrInstruction, dividend: str, divisor: int) -> None:
        """Add what a compiler makes of a division by a constant: it needs no divider."""
        *before, last = (_BY_CONSTANT if divisor & (divisor - 1) else _BY_POWER)[i.opcode]
        self.chain(part, i, [dividend], before, last)

    def chain(self, part: IrPart, i: IrInstruction, names: list[str], before: Sequence[int], last: int) -> None:
        """Add an operation of integers after others, by what each takes beyond a cycle."""
        for delay in before:
            made = replace(i, name=self.temporary(i))
            self.node(part, INTEGER, made, names, delay)
            names = [made.name]
        self.node(part, INTEGER, i, names, last)

    def times_constant(self, part: IrPart, i: IrInstruction, names: list[str], factor: int) -> None:
        """Add a multiplication by a constant, which takes the multiplier where shifts and additions take longer."""
        if i.type not in ("i32", "i64") or factor < 2 or steps_of(factor) == 0:
            self.node(part, INTEGER, i, names, _INTEGER["mul"])
            return
        users = self.users.get(i.name, ())
        beside = factor in _ADDS_TOO or (factor - 1) & (factor - 2) == 0
        beside &= len(users) == 1 and users[0][0].opcode == "add"
        if steps_of(factor) == 2:
            made = replace(i, name=self.temporary(i))
            self.node(part, INTEGER, made, names)
            # h * 33 + x is (h << 5) + (h + x): the addition of h is not in the way.
            names = names if beside else [made.name]
        self.node(part, INTEGER, i, names)

    def node(self, part: IrPart, code: int, i: IrInstruction, names: list[str], delay: int = 0) -> None:
        """Add a node of any number of operands, and what passes its result on after a delay."""
        sources = [name for name in names if name]
        while len(sources) > 2:
            between = self.temporary(i)
            part.operations.append(IrOperation(FORWARD, sources.pop(), sources.pop(), between))
            sources.append(between)
        left, right = [*sources, "", ""][:2]
        kind = i.type if is_value(i.type) else "i64"
        vector = code == INTEGER and (is_float(kind) or kind.startswith("<"))
        delay = delay or (self.costs.vector - 1) * vector
        into = self.temporary(i) if delay else i.name
        units = self.units(i, vector) if code == INTEGER else 0
        part.operations.append(IrOperation(code, left, right, into, shape(kind), delay=units))
        if delay:
            part.operations.append(IrOperation(FORWARD, into, "", i.name, delay=delay))

    def units(self, i: IrInstruction, vector: bool) -> int:
        """Return which units integer work takes: conversions to integers take floating-point ones, too."""
        if i.opcode in _CONVERTS and i.operands[0].type != "i1":
            return self.costs.unit(i.opcode)
        if not vector:
            return 0
        if i.opcode in _SHUFFLES:
            return self.costs.unit("shuffle")
        return self.costs.unit("rounding" if i.opcode == "call" and _ROUNDING.match(i.callee) else "bitwise")

    def integer(self, part: IrPart, i: IrInstruction, names: list[str], tested: str) -> None:
        """Add the operations of integer work (of whole kernels)."""
        if i.opcode in ("sdiv", "udiv", "srem", "urem"):
            self.divided(part, i, names)
        elif i.opcode == "mul" and (factor := re.fullmatch(r"i\d+ (\d+)", i.operands[1].text)):
            self.times_constant(part, i, names, int(factor[1]))
        elif i.opcode in ("zext", "uitofp") and i.operands[0].type == "i1" and not is_float(i.type):
            self.node(part, INTEGER, i, names)  # the condition goes from the flags to a register
        elif i.opcode in _INTEGER and not (i.name == tested and i.opcode == "icmp"):
            if i.type == "i128":  # two operations on halves
                part.operations.append(IrOperation(INTEGER, names[0], names[-1], self.temporary(i)))
            self.node(part, INTEGER, i, names, _INTEGER[i.opcode])
        elif i.opcode in _UNSIGNED and "i64" in (i.type, i.operands[0].type) and not self.function.has("avx512f"):
            *before, last = _UNSIGNED[i.opcode]
            self.chain(part, i, names, before, last)
        elif i.opcode in _CONVERTS:
            self.node(part, INTEGER, i, names, self.costs.converted(i.opcode) - 1)
        elif i.opcode == "icmp":
            self.passed_on(part, i, names)
        elif i.opcode == "select":
            self.choose(part, i, names)
        elif i.opcode in _SHUFFLES:
            self.node(part, INTEGER, i, names)
        elif i.opcode == "getelementptr":
            self.address(part, i, names)
        elif (i.opcode == "br" and len(i.operands) == 3) or i.opcode in ("switch", "indirectbr"):
            self.node(part, BRANCH, i, names[:1])
        elif i.opcode in _FREE or i.opcode in _PASSED_ON:
            self.passed_on(part, i, names)

    def address(self, part: IrPart, i: IrInstruction, names: list[str]) -> None:
        """Add what an address costs: an access computes base + index * scale + constant by itself."""
        indices = [value for value in i.operands[1:] if value.name]
        accessed = all(
            (user.opcode == "load" and k == 0) or (user.opcode == "store" and k == 1)
            for user, k in self.users.get(i.name, ())
        )
        counted = i.intrinsic_type.strip()
        elements, size = shape(counted) if counted else (1, 1)
        simple = elements * size in _SCALES and not counted.startswith(("[", "{", "%"))
        free = accessed and len(indices) <= 1 and (simple or not indices)
        if free and indices and elements * size > 1 and self.costs.scaled:
            self.scaled.add(i.name)
        extra = max(0, len(indices) - 1) + (not free and bool(indices or not accessed))
        if not extra:
            self.passed_on(part, i, names)
            return
        for _ in range(extra - 1):
            part.operations.append(IrOperation(INTEGER, indices[0].name, "", self.temporary(i)))
        self.node(part, INTEGER, i, names)

    # --- calls -----------------------------------------------------------------------------------------------------

    def moved(self, i: IrInstruction) -> str:
        """Return the helper that stands for a block move: LLVM makes them of loops that clear or copy arrays."""
        move = MOVES.match(i.callee)
        if move is None:
            return ""
        return MEMSET if move[1] == "memset" else MEMCPY

    def call(self, part: IrPart, i: IrInstruction, name: str) -> None:
        """Add the call of a traced function."""
        formal = self.traced[name].parameters
        actual = i.operands
        if name == MEMSET:
            actual = (i.operands[0], i.operands[2])
        elif name == MEMCPY:
            actual = i.operands[:3]
        passed = tuple(
            (value.name, into) for (kind, into), value in zip(formal, actual, strict=False) if self.seen(kind)
        )
        if self.whole:
            part.operations.append(IrOperation(BRANCH))
        part.operations.append(IrOperation(CALL, into=i.name if self.seen(i.type) else "", call=(name, passed)))

    def external(self, part: IrPart, i: IrInstruction) -> None:
        """Add what a function that is not traced does, as far as it is known."""
        name = i.callee
        floats = [value for value in i.operands if is_float(value.type)]
        values = [value.name for value in floats]
        first, second = [*values, "", ""][:2]
        kind = shape(floats[0].type) if floats else (1, 8)
        if _FUSED_CALL.match(name):
            self.node_of(part, FUSED, values, i.name, kind)
        elif _MIN_MAX.match(name):
            part.operations.append(IrOperation(ADD, first, second, i.name, kind))
        elif _SQUARE_ROOT.match(name) and floats:
            later, busy = self.costs.square_root(kind[1]) if self.whole else (0, 0)
            made = replace(i, name=self.temporary(i)) if later else i
            part.operations.append(
                IrOperation(DIVIDE, first, "", made.name, kind, delay=self.divides_longer(i.type, busy))
            )
            if later:
                part.operations.append(IrOperation(FORWARD, made.name, "", i.name, delay=later))
        elif reduced := _REDUCED.match(name):
            self.reduction(part, reduced[1], floats, i.name)
        elif self.whole and _INTEGER_INTRINSIC.match(name):
            self.intrinsic(part, i)
        elif self.whole and _BITWISE.match(name):
            self.node(part, INTEGER, i, values)
        elif self.whole and _ROUNDING.match(name) and self.function.has("sse4.1"):
            self.node(part, INTEGER, i, values, self.costs.rounding - 1)
        elif _ROUNDING.match(name) and not self.function.has("sse4.1"):
            self.unseen(part, f"{_shown(name)} (a call where the target has no SSE4.1)")
        elif not _HARMLESS.match(name):
            self.unseen(part, "a function called through a pointer" if name == "pointer" else _shown(name))
        if not part.operations or part.operations[-1].into != i.name:
            passes = is_float(i.type) or (self.whole and is_value(i.type) and not _NO_CODE.match(name))
            if passes and (floats or self.whole):
                sources = [v.name for v in (i.operands if self.whole else floats) if v.name]
                self.node_of(part, FORWARD, sources, i.name, kind)
                # Others than LLVM's own were kept above.
                if floats and _HARMLESS.match(name) and not _PASSED.match(name) and not _REDUCED.match(name):
                    self.unseen(part, "a function called through a pointer" if name == "pointer" else _shown(name))

    def divides_longer(self, kind: str, beyond: int) -> int:
        """Return what a division keeps the divider longer than a scalar one, in parts of that one's time."""
        if not self.whole:
            return 0
        elements, size = shape(kind)
        halves = next((cost for width, cost in _WIDE if elements * size > width), 1.0)
        return round((DIVISION + beyond) * halves) - DIVISION

    def intrinsic(self, part: IrPart, i: IrInstruction) -> None:
        """Add the integer operations of an intrinsic."""
        names = [value.name for value in i.operands]
        before = 0
        if "ctpop" in i.callee and not self.function.has("popcnt"):
            before = _POPCOUNT
        elif "ctlz" in i.callee and not self.function.has("lzcnt"):
            before = 1  # BSR counts from the other end
        elif i.type.startswith("<"):
            before = 0
        elif _CHOSEN.match(i.callee) and not self.reduces(i):
            signed, largest = i.callee.startswith("@llvm.s"), "max." in i.callee
            predicate = "sgt" if signed else "ugt" if largest else "ult"
            # A comparison, then a conditional move.
            against = next((value for value in i.operands if not value.name), i.operands[1])
            before = 1 + (self.costs.signed_choice if signed else self.reads_two_flags(predicate, against))
        elif ".abs." in i.callee or ".sat." in i.callee:
            # Negate, or add, and move where the sign or the carry says so; the sign's bound takes two operations more.
            before = 3 if re.match(r"^@llvm\.s(?:add|sub)", i.callee) else 1
        self.chain(part, i, names, [0] * before, 2 if ".mul" in i.callee else 0)

    def reduces(self, i: IrInstruction) -> bool:
        """Whether a minimum or maximum only goes on to the next one of a whole loop's.

        LLVM jumps over the move then, which is predicted (measured on a Zen 5: 0.8 to 1.2 cycles per element, random or
        ascending), and nothing waits for the comparison.
        """
        behind: dict[str, IrInstruction] = {}
        waiting = [i.name]
        while waiting:
            for user, _ in self.users.get(waiting.pop(), ()):
                if user.name and user.name not in behind:
                    behind[user.name] = user
                    waiting.append(user.name)
        if i.name not in behind:
            return False
        # What leads back to it is the loop's; what becomes of the last one is no matter.
        loop, waiting = {i.name}, [i.name]
        while waiting:
            for value in behind[waiting.pop()].operands:
                if value.name in behind and value.name not in loop:
                    loop.add(value.name)
                    waiting.append(value.name)
        return all(behind[name].opcode == "phi" or behind[name].callee == i.callee for name in loop)

    def node_of(self, part: IrPart, code: int, sources: list[str], into: str, kind: tuple[int, int]) -> None:
        """Add an operation of any number of operands."""
        sources = [s for s in sources if s]
        while len(sources) > 2:
            self.temporaries += 1
            between = f"{into}.{self.temporaries}"
            part.operations.append(IrOperation(FORWARD, sources.pop(), sources.pop(), between))
            sources.append(between)
        left, right = [*sources, "", ""][:2]
        part.operations.append(IrOperation(code, left, right, into, kind))

    def reduction(self, part: IrPart, operation: str, arguments: list[IrValue], into: str) -> None:
        """Reduce a vector by halves, as the code generator does; a start value takes one operation more."""
        code = MULTIPLY if operation == "fmul" else ADD
        elements, size = shape(arguments[-1].type)
        value = arguments[-1].name
        while elements > 1:
            elements = (elements + 1) // 2
            self.temporaries += 1
            half = f"{into}.{self.temporaries}"
            part.operations.append(IrOperation(code, value, "", half, (elements, size)))
            value = half
        start = arguments[0] if len(arguments) > 1 else None
        if start is not None and not start.text.endswith("-0.000000e+00"):
            part.operations.append(IrOperation(code, value, start.name, into, (1, size)))
        else:
            part.operations.append(IrOperation(FORWARD, value, "", into, (1, size)))


def _shown(callee: str) -> str:
    """Return a function's name for a message."""
    name = callee.lstrip("@")
    if name.startswith(("numba_xx", "numba_ez")):
        return f"{name} (numba's call of BLAS or LAPACK)"
    return name
