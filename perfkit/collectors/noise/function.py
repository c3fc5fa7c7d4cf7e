"""The machine code of one function: its instructions, basic blocks and natural loops (x86-64)."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from iced_x86 import Code, Decoder, FlowControl, Instruction

from perfkit.collectors.tracer.elf import ElfFile
from perfkit.errors import DataError

_BRANCHES = (FlowControl.CONDITIONAL_BRANCH, FlowControl.UNCONDITIONAL_BRANCH)
_ENDS = (*_BRANCHES, FlowControl.INDIRECT_BRANCH, FlowControl.RETURN, FlowControl.EXCEPTION, FlowControl.INTERRUPT)
_PADDING = (Code.NOPD, Code.NOPW, Code.INT3)


@dataclass(frozen=True)
class Loop:
    """A natural loop: one entry, its header, to which its back edges return.

    Parameters
    ----------
    header : int
        Address of its first instruction.
    blocks : frozenset of int
        First addresses of its basic blocks.
    """

    header: int
    blocks: frozenset[int]


@dataclass(frozen=True)
class FunctionCode:
    """A function that can be copied to another address.

    Parameters
    ----------
    name : str
        Its symbol.
    parts : tuple of tuples of Instruction
        Its instructions: of the function, and of the cold part that the compiler put elsewhere.
    code : tuple of bytes
        The machine code of each part.
    """

    name: str
    parts: tuple[tuple[Instruction, ...], ...]
    code: tuple[bytes, ...]

    def bytes_of(self, i: Instruction) -> bytes:
        """Return an instruction's own bytes."""
        for part, code in zip(self.parts, self.code, strict=True):
            at = i.ip - part[0].ip
            if 0 <= at < len(code):
                return code[at : at + i.len]
        raise DataError(f"{self.name} has no instruction at {i.ip:#x}")

    @property
    def start(self) -> int:
        """The address that it is called at."""
        return int(self.parts[0][0].ip)

    @cached_property
    def instructions(self) -> tuple[Instruction, ...]:
        """All instructions, part after part."""
        return tuple(i for part in self.parts for i in part)

    @cached_property
    def blocks(self) -> dict[int, list[Instruction]]:
        """Basic blocks by the address of their first instruction; calls do not end them."""
        targets = {i.near_branch_target for i in self.instructions if i.flow_control in _BRANCHES}
        found: dict[int, list[Instruction]] = {}
        for part in self.parts:
            begins = True
            for i in part:
                if begins or i.ip in targets:
                    block = found.setdefault(i.ip, [])
                block.append(i)
                begins = i.flow_control in _ENDS
        return found

    @cached_property
    def successors(self) -> dict[int, list[int]]:
        """Where each block may go on within the function."""
        found: dict[int, list[int]] = {}
        for start, block in self.blocks.items():
            last = block[-1]
            after = [last.near_branch_target] if last.flow_control in _BRANCHES else []
            if last.flow_control == FlowControl.CONDITIONAL_BRANCH or last.flow_control not in _ENDS:
                after.append(last.next_ip)
            found[start] = [at for at in after if at in self.blocks]
        return found

    @cached_property
    def _order(self) -> list[int]:
        """Blocks that the entry reaches, each before what follows it, but for the edges back."""
        done: list[int] = []
        seen = {self.start}
        stack = [(self.start, iter(self.successors[self.start]))]
        while stack:
            rest = stack[-1][1]
            following = next((at for at in rest if at not in seen), None)
            if following is None:
                done.append(stack.pop()[0])
            else:
                seen.add(following)
                stack.append((following, iter(self.successors[following])))
        return done[::-1]

    @cached_property
    def _dominators(self) -> dict[int, set[int]]:
        """The blocks that every way from the entry to a block goes through."""
        before: dict[int, list[int]] = {at: [] for at in self._order}
        for at in self._order:
            for following in self.successors[at]:
                before[following].append(at)
        every = set(self._order)
        found = dict.fromkeys(self._order, every) | {self.start: {self.start}}
        changed = True
        while changed:
            changed = False
            for at in self._order[1:]:
                new = {at} | set.intersection(*(found[one] for one in before[at]))
                changed |= new != found[at]
                found[at] = new
        return found

    @cached_property
    def loops(self) -> tuple[Loop, ...]:
        """The natural loops; those of one header are one."""
        bodies: dict[int, set[int]] = {}
        before: dict[int, set[int]] = {at: set() for at in self._order}
        for at in self._order:
            for following in self.successors[at]:
                before[following].add(at)
        for at, header in self._edges_back():
            if header not in self._dominators[at]:
                continue
            body = bodies.setdefault(header, {header})
            pending = [at]
            while pending:
                one = pending.pop()
                if one not in body:
                    body.add(one)
                    pending += before[one]
        return tuple(Loop(header, frozenset(body)) for header, body in bodies.items())

    def _edges_back(self) -> list[tuple[int, int]]:
        """Edges against the order: each closes a cycle."""
        place = {at: k for k, at in enumerate(self._order)}
        return [(at, to) for at in self._order for to in self.successors[at] if place[to] <= place[at]]

    @cached_property
    def entered_inside(self) -> tuple[int, ...]:
        """Blocks that close a cycle which can also be entered elsewhere: such a loop has no header."""
        return tuple(to for at, to in self._edges_back() if to not in self._dominators[at])

    def block_of(self, address: int) -> int:
        """Return the start of the block that holds an address.

        Raises
        ------
        DataError
            The address is that of no instruction of the function.
        """
        starts = sorted(self.blocks)
        k = bisect_right(starts, address) - 1
        if k < 0 or address not in {i.ip for i in self.blocks[starts[k]]}:
            raise DataError(f"{self.name} has no instruction at {address:#x}")
        return starts[k]

    def loop_at(self, address: int) -> Loop:
        """Return the smallest loop around an address.

        Raises
        ------
        DataError
            There is none, or it has no header.
        """
        block = self.block_of(address)
        around = [loop for loop in self.loops if block in loop.blocks]
        if not around:
            if self.entered_inside:
                raise DataError(
                    f"{self.name} is entered in the middle of its loop at {self.entered_inside[0]:#x}: no place is "
                    "passed once in every iteration"
                )
            raise DataError(f"{self.name} has no loop at {address:#x}: noise needs an innermost loop")
        loop = min(around, key=lambda each: len(each.blocks))
        if any(at in loop.blocks for at in self.entered_inside):
            raise DataError(
                f"the loop of {self.name} at {loop.header:#x} holds another one that is entered in its middle, at "
                f"{self.entered_inside[0]:#x}: no place is passed once in every iteration of it"
            )
        return loop

    @property
    def innermost(self) -> tuple[Loop, ...]:
        """The loops that hold no other one."""
        return tuple(loop for loop in self.loops if not any(one.blocks < loop.blocks for one in self.loops))

    def hottest(self, counts: Mapping[int, int]) -> int:
        """Return the block that executed most instructions, from executions by address."""
        return max(self.blocks, key=lambda at: len(self.blocks[at]) * counts.get(at, 0))

    def body(self, loop: Loop) -> list[Instruction]:
        """Return a loop's instructions by address."""
        return [i for at in sorted(loop.blocks) for i in self.blocks[at]]


def read_function(elf: ElfFile, name: str, base: int = 0) -> FunctionCode:
    """Read a function from its file, as if the file were loaded at `base`.

    Raises
    ------
    DataError
        It cannot be copied: its length is not known, it may be rewritten, it jumps through tables or pointers, or to
        places inside of instructions.
    """
    symbol = elf.function(name)
    if elf.is_writable(symbol.address):
        raise DataError(f"{name} lies in memory that the program may write: self-modifying code gets no noise")
    found, spans = [_decoded(elf, name, symbol.address, symbol.size, base)], [symbol]
    inside = {i.ip for i in found[0]}
    for target in sorted(_jumps_out(found[0], inside, symbol.address + base, symbol.size)):
        other = elf.holds(target - base)
        if other is not None and other.name.startswith(f"{symbol.name}.") and other.address + base not in inside:
            part = _decoded(elf, other.name, other.address, other.size, base)
            found.append(part)
            spans.append(other)
            inside |= {i.ip for i in part}
    code = tuple(_bytes(elf, name, each.address, each.size) for each in spans)
    function = FunctionCode(symbol.name, tuple(found), code)
    _check(function, inside)
    return function


def _decoded(elf: ElfFile, name: str, address: int, size: int, base: int) -> tuple[Instruction, ...]:
    if not size:
        raise DataError(f"the symbol table does not say how long {name} is: add .size to hand-written assembly")
    code = list(Decoder(64, _bytes(elf, name, address, size), ip=address + base))
    bad = next((i for i in code if i.code == Code.INVALID), None)
    if bad is not None:
        raise DataError(f"{name} has bytes at {bad.ip:#x} that are no x86-64 instruction")
    while len(code) > 1 and code[-1].code in _PADDING:
        code.pop()
    last = code[-1].flow_control  # a call at the end does not return
    if last == FlowControl.CONDITIONAL_BRANCH or (last not in _ENDS and last != FlowControl.CALL):
        raise DataError(f"{name} runs on into what lies behind it")
    return tuple(code)


def _bytes(elf: ElfFile, name: str, address: int, size: int) -> bytes:
    for segment in elf.segments:
        if segment.kind == 1 and segment.address <= address < segment.address + segment.file_size:
            first = segment.offset + address - segment.address
            return elf.data[first : first + size]
    raise DataError(f"{name} lies in no segment of {elf.name}")


def _jumps_out(code: Iterable[Instruction], inside: set[int], start: int, size: int) -> set[int]:
    targets = {int(i.near_branch_target) for i in code if i.flow_control in _BRANCHES}
    return {target for target in targets if target not in inside and not start <= target < start + size}


def _check(function: FunctionCode, inside: set[int]) -> None:
    spans = [(part[0].ip, part[-1].next_ip) for part in function.parts]
    for i in function.instructions:
        if i.flow_control == FlowControl.INDIRECT_BRANCH:
            raise DataError(
                f"{function.name} jumps through a table or pointer at {i.ip:#x} (a switch, perhaps): it would leave "
                "its copy; build it with -fno-jump-tables"
            )
        if i.flow_control in _BRANCHES and i.near_branch_target not in inside:
            if any(first <= i.near_branch_target < last for first, last in spans):
                raise DataError(f"{function.name} jumps into the middle of an instruction at {i.near_branch_target:#x}")
            if i.flow_control != FlowControl.UNCONDITIONAL_BRANCH:
                raise DataError(
                    f"{function.name} branches at {i.ip:#x} to {i.near_branch_target:#x} outside of it: from there it "
                    "might come back to the original instead of its copy"
                )
