"""Turning LLVM IR into a DAG program and into code that records which blocks ran and what they accessed.

Every basic block that does anything gets a number, a table of its operations (`perfkit.dag.program.BlockProgram`, see
`perfkit.collectors.dag.ir_operations`) and a few instructions that write the block's number and the addresses of its
accesses into a buffer. Compiled and run natively, that costs little; the dependences of the DAG follow from the tables
afterwards and cost nothing while the kernel runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from perfkit.collectors.dag.ir_costs import IrCosts
from perfkit.collectors.dag.ir_module import IrFunction, IrModule, IrValue, read_module, reference
from perfkit.collectors.dag.ir_operations import MEMCPY, MEMSET, MOVES, IrOperation, IrPart, IrReader
from perfkit.collectors.tracer.demangle import demangled, matching
from perfkit.dag.program import CALL, LOAD, RETURN, STORE, BlockProgram
from perfkit.errors import DataError, SettingError, closest, listed

if TYPE_CHECKING:
    from perfkit.machine.core import Microarchitecture

REPEAT = "erm_repeat"
ENTRY_SYMBOLS = ("erm_cursor", "erm_end", "erm_flush")
# Of functions that other files cannot call, or that any file with the same header has.
_INSIDE = {"internal", "private", "linkonce", "linkonce_odr", "weak_odr", "available_externally"}

# Recording is one reservation in the buffer per block; the block's stores into it follow in line.
_RUNTIME = """
@erm_cursor = global ptr null
@erm_end = global ptr null
@erm_flush = global ptr null

define internal ptr @erm_begin(i64 %block, i64 %length) alwaysinline {
  %at = load ptr, ptr @erm_cursor
  %next = getelementptr i64, ptr %at, i64 %length
  %end = load ptr, ptr @erm_end
  %fits = icmp ule ptr %next, %end
  br i1 %fits, label %go, label %full, !prof !99999
full:
  %flush = load ptr, ptr @erm_flush
  call void %flush()
  %again = load ptr, ptr @erm_cursor
  %later = getelementptr i64, ptr %again, i64 %length
  br label %go
go:
  %here = phi ptr [ %at, %0 ], [ %again, %full ]
  %after = phi ptr [ %next, %0 ], [ %later, %full ]
  store ptr %after, ptr @erm_cursor
  store i64 %block, ptr %here
  ret ptr %here
}
!99999 = !{!"branch_weights", i32 1000000, i32 1}
"""

# LLVM turns loops that clear or copy arrays into memset and memcpy; as nodes they are loads and stores of doubles. The
# moves themselves stay as they are; these loops record beside them what they access, and only read. Of whole kernels
# they move vectors, as libraries do.
_VECTOR = (4, 8)
_HELPERS = """
define internal void @erm.memset(ptr %to, i64 %bytes) noinline {
entry:
  %none = icmp eq i64 %bytes, 0
  br i1 %none, label %out, label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %j, %loop ]
  %q = getelementptr i8, ptr %to, i64 %i
  %w = load volatile i8, ptr %q
  %j = add i64 %i, 8
  %more = icmp ult i64 %j, %bytes
  br i1 %more, label %loop, label %out
out:
  ret void
}

define internal void @erm.memcpy(ptr %to, ptr %from, i64 %bytes) noinline {
entry:
  %none = icmp eq i64 %bytes, 0
  br i1 %none, label %out, label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %j, %loop ]
  %p = getelementptr i8, ptr %from, i64 %i
  %q = getelementptr i8, ptr %to, i64 %i
  %v = load volatile i8, ptr %p
  %w = load volatile i8, ptr %q
  %j = add i64 %i, 8
  %more = icmp ult i64 %j, %bytes
  br i1 %more, label %loop, label %out
out:
  ret void
}
"""


@dataclass(frozen=True)
class Instrumented:
    """IR with recording code, the program its records refer to, and what was left out.

    Parameters
    ----------
    text
        The instrumented module; it defines the pointers ``erm_cursor``, ``erm_end`` and ``erm_flush``.
    plain
        The same functions without recording code, to be timed.
    program
        The static tables.
    entry
        The traced function's name.
    parameters, returns
        The types of its parameters and of its result, as in the IR.
    ignored
        External functions that may do work of the kernel: it is not in the DAG.
    callers
        The numbers of the blocks that call these, which may never be executed, and how many calls each has.
    calls
        Whether it calls traced functions (moves of blocks of memory apart).
    """

    text: str
    plain: str
    program: BlockProgram
    entry: str
    parameters: tuple[str, ...]
    returns: str
    ignored: tuple[str, ...]
    callers: Mapping[int, int] = field(default_factory=dict)
    calls: bool = False


def instrument(
    ir: str, entry: str, count_all: bool = False, whole: bool = False, core: Microarchitecture | None = None
) -> Instrumented:
    """Instrument a function and all functions of the module that it calls.

    Parameters
    ----------
    ir
        A module as text, with opaque pointers (LLVM 15 and later; clang 14 with ``-mllvm -opaque-pointers``).
    entry
        The function's name in the module; of a C++ function its plain name will do where it is unambiguous.
    count_all
        Keep an `OTHER` operation for every instruction that is no node but that a processor would have to fetch: not
        PHIs, addresses (getelementptr) and widenings, which x86 folds into accesses, nor a jump without a condition
        or the comparison of one that has it.
    whole
        Make nodes of integer operations, addresses, branches, and integer loads and stores too, and let accesses wait
        for their addresses.
    core
        Of a whole kernel: whose latencies (of divisions of integers, square roots, conversions) these are; None: those
        of recent cores.

    Raises
    ------
    DataError
        If LLVM cannot read the module, if it has no such function, or if it uses what cannot be traced (invoke of a
        traced function).
    """
    module = read_module(ir)
    name = _entry(module, entry)
    traced = _reachable(module, name, _helpers(_VECTOR if whole else (1, 8)))
    ignored: set[str] = set()
    read = {}
    costs = IrCosts.of(core)
    for function in traced.values():
        reader = IrReader(function, traced, ignored, count_all, whole, costs)
        read[function.name] = [reader.parts(block) for block in function.blocks]
    for helper in (MEMSET, MEMCPY):
        if helper in read:
            _stand_for_moves(read[helper], traced[helper], _VECTOR if whole else (1, 8))
    numbered = _number(read, name)
    program = _program(traced, numbered, name)
    own = [f for f in traced.values() if f.name not in (MEMSET, MEMCPY)]
    others = [f for f in module.functions.values() if f.name not in traced]
    untouched = [_text(f, None) for f in others]
    plain = "\n".join([*module.rest, *untouched, *(_text(f, None) for f in own)]) + _repeat(traced[name])
    text = "\n".join([*module.rest, *untouched, *(_text(f, read[f.name]) for f in traced.values()), _RUNTIME])
    parameters = tuple(kind for kind, _ in traced[name].parameters)
    callers = {part.number: part.unseen for part in numbered if part.unseen}
    return Instrumented(
        text,
        plain,
        program,
        name,
        parameters,
        traced[name].returns,
        tuple(sorted(ignored)),
        callers,
        calls=len(own) > 1,
    )


def _entry(module: IrModule, entry: str) -> str:
    """Return the name of the traced function in the module."""
    if entry in module.functions:
        return entry
    mangled = matching(entry, demangled(module.functions)) or [f for f in module.functions if _plain(f) == entry]
    if len(mangled) == 1:
        return mangled[0]
    if mangled:
        raise DataError(f"several functions are called {entry!r}: {', '.join(mangled)}; name one of them")
    known = sorted(_plain(name) or name for name in module.functions)
    near = closest(entry, known)
    told = listed([*near, *(name for name in known if name not in near)], 20) or "none"
    raise DataError(f"the IR defines no function {entry!r}; it defines: {told}")


def only_function(ir: str) -> str:
    """Return the name of a module's only function that other files can call, without C++'s mangling.

    Raises
    ------
    SettingError
        If there is none, or several: the message names them.
    """
    own = [f.name for f in read_module(ir).functions.values() if not _INSIDE & set(f.header.partition("@")[0].split())]
    if len(own) == 1:
        return _plain(own[0]) or own[0]
    known = listed(sorted(_plain(name) or name for name in own), 20) or "none"
    raise SettingError(f"name the function to trace: the source has {len(own)} that qualify ({known})")


def _plain(name: str) -> str:
    """Return the last plain name of a mangled C++ function, "" for others."""
    if not name.startswith("_Z"):
        return ""
    rest, found = re.sub(r"^_Z[NL]*K?", "", name), ""
    while number := re.match(r"\d+", rest):
        end = number.end() + int(number[0])
        found, rest = rest[number.end() : end], rest[end:]
    return found


def _helpers(moved: tuple[int, int]) -> dict[str, IrFunction]:
    """Return the loops that stand for moves, which go by so many elements of so many bytes."""
    return read_module(_HELPERS.replace("add i64 %i, 8", f"add i64 %i, {moved[0] * moved[1]}")).functions


def _reachable(module: IrModule, entry: str, helpers: dict[str, IrFunction]) -> dict[str, IrFunction]:
    """Return the entry and all defined functions it calls, with loops that stand for its block moves."""
    found: dict[str, IrFunction] = {}
    todo = [entry]
    while todo:
        name = todo.pop()
        if name in found:
            continue
        function = found[name] = module.functions.get(name) or helpers[name]
        for block in function.blocks:
            for instruction in block.instructions:
                if move := MOVES.match(instruction.callee):
                    todo.append(MEMSET if move[1] == "memset" else MEMCPY)
                elif instruction.callee[1:] in module.functions:
                    todo.append(instruction.callee[1:])
    return found


def _stand_for_moves(blocks: list[list[IrPart]], helper: IrFunction, moved: tuple[int, int]) -> None:
    """Give the loop of a helper the operations of the move: a load and a store of its value, or a store."""
    loop = blocks[1][0]
    places = [(at, i.operands[0].text) for at, i in enumerate(helper.blocks[1].instructions) if i.opcode == "load"]
    copies = helper.name == MEMCPY
    loop.operations = [IrOperation(LOAD, into="%v", shape=moved)] if copies else []
    loop.operations.append(IrOperation(STORE, "%v" if copies else "", shape=moved))
    loop.pointers = places
    loop.instructions = loop.covered = len(places)
    for part in (blocks[0][0], blocks[2][0]):
        part.operations = [o for o in part.operations if o.code == RETURN]


def _number(read: dict[str, list[list[IrPart]]], entry: str) -> list[IrPart]:
    """Give numbers to the parts that must be recorded: with operations, PHIs or instructions, or named by a PHI."""
    found: list[IrPart] = []
    for name, blocks in read.items():
        named = {label for parts in blocks for _, edges in parts[0].phis for _, label in edges}
        for parts in blocks:
            for part in parts:
                if name == entry:
                    # Nothing is above the entry function: its return ends the trace.
                    part.operations = [o for o in part.operations if o.code != RETURN]
                if part.operations or part.phis or part.instructions or part.origin in named:
                    part.number = len(found)
                    found.append(part)
    return found


def _text(function: IrFunction, blocks: list[list[IrPart]] | None) -> str:
    """Return the function's definition, with recording code where parts are given."""
    out = [function.header]
    for k, block in enumerate(function.blocks):
        out.append(f"{reference(block.name, '')}:")
        inserted: dict[int, list[str]] = {}
        for part in blocks[k] if blocks else ():
            if part.number < 0:
                continue
            n = part.number
            inserted.setdefault(part.begin, []).append(
                f"  %erm.at.{n} = call ptr @erm_begin(i64 {n}, i64 {1 + len(part.pointers)})"
            )
            for slot, (at, pointer) in enumerate(part.pointers):
                inserted.setdefault(at, []).extend(_record_address(n, slot, pointer))
        for at, instruction in enumerate(block.instructions):
            out += inserted.get(at, [])
            out.append("  " + instruction.text)
            if blocks and (move := MOVES.match(instruction.callee)):
                out += _record_move(instruction.operands, move[1], f"{k}.{at}")
    return "\n".join([*out, "}"])


def _record_address(number: int, slot: int, pointer: str) -> list[str]:
    return [
        f"  %erm.to.{number}.{slot} = getelementptr i64, ptr %erm.at.{number}, i64 {slot + 1}",
        f"  %erm.address.{number}.{slot} = ptrtoint {pointer} to i64",
        f"  store i64 %erm.address.{number}.{slot}, ptr %erm.to.{number}.{slot}",
    ]


def _record_move(operands: tuple[IrValue, ...], move: str, place: str) -> list[str]:
    size = operands[2].text
    widened = []
    if not size.startswith("i64 "):
        widened = [f"  %erm.size.{place} = zext {size} to i64"]
        size = f"i64 %erm.size.{place}"
    pointers = operands[0].text if move == "memset" else f"{operands[0].text}, {operands[1].text}"
    helper = MEMSET if move == "memset" else MEMCPY
    return [*widened, f"  call void @{helper}({pointers}, {size})"]


def _repeat(entry: IrFunction) -> str:
    """Return a function that calls the entry again and again: calls from Python take longer than small kernels.

    It is not optimised (``optnone``), and keeps each result: a call whose result nobody uses would be removed, or
    moved out of the loop.
    """
    returns = entry.returns
    kinds = [kind for kind, _ in entry.parameters]
    formal = ", ".join([*(f"{kind} %a{k}" for k, kind in enumerate(kinds)), "i64 %n"])
    actual = ", ".join(f"{kind} %a{k}" for k, kind in enumerate(kinds))
    kept = f"store volatile {returns} %result, ptr %kept" if returns != "void" else ""
    place = f"%kept = alloca {returns}" if returns != "void" else ""
    return f"""
define void @{REPEAT}({formal}) noinline optnone {{
entry:
  {place}
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %j, %loop ]
  {"%result = " if kept else ""}call {returns} {reference(entry.name, "@")}({actual}) noinline
  {kept}
  %j = add i64 %i, 1
  %more = icmp ult i64 %j, %n
  br i1 %more, label %loop, label %out
out:
  ret void
}}
"""


def _program(traced: dict[str, IrFunction], parts: list[IrPart], entry: str) -> BlockProgram:
    """Build the static tables."""
    slots: dict[str, dict[str, int]] = {name: {} for name in traced}

    def slot(function: str, value: str) -> int:
        return slots[function].setdefault(value, len(slots[function])) if value else -1

    origins = {(p.function, p.origin): p.number for p in reversed(parts)}
    shapes = sorted({o.shape for part in parts for o in part.operations}) or [(1, 8)]
    phis: list[int] = []
    edges: list[tuple[int, int]] = []
    ops: list[tuple[int, ...]] = []
    calls: list[tuple[str, str, tuple[tuple[str, str], ...]]] = []
    block_ops, block_phis, phi_edges = [0], [0], [0]
    for part in parts:
        of = part.function
        for into, incoming in part.phis:
            phis.append(slot(of, into))
            edges += [(origins[of, label], slot(of, value)) for value, label in incoming]
            phi_edges.append(len(edges))
        for o in part.operations:
            if o.call:
                calls.append((of, *o.call))
            which = len(calls) - 1 if o.code == CALL else -1
            places = slot(of, o.left), slot(of, o.right), slot(of, o.into)
            ops.append((o.code, *places, shapes.index(o.shape), which, o.delay))
        block_ops.append(len(ops))
        block_phis.append(len(phis))
    arguments = [
        [(slot(function, value), slot(name, formal)) for value, formal in passed] for function, name, passed in calls
    ]
    flat = [pair for pairs in arguments for pair in pairs]
    table = np.array(ops, dtype=np.int64).reshape(-1, 7)
    return BlockProgram(
        block_ops=_ints(block_ops),
        block_phis=_ints(block_phis),
        block_origin=_ints(origins[p.function, p.origin] for p in parts),
        block_addresses=_ints(len(p.pointers) for p in parts),
        phi_into=_ints(phis),
        phi_edges=_ints(phi_edges),
        edge_from=_ints(e[0] for e in edges),
        edge_slot=_ints(e[1] for e in edges),
        op=table[:, 0].astype(np.uint8),
        left=table[:, 1].copy(),
        right=table[:, 2].copy(),
        into=table[:, 3].copy(),
        shape=table[:, 4].astype(np.uint8),
        level=np.full(len(table), -1, dtype=np.int8),
        shapes=np.array(shapes, dtype=np.int64),
        call=table[:, 5].copy(),
        call_frame=_ints(len(slots[function]) for function, _, _ in calls),
        call_args=_ints(np.cumsum([0, *(len(pairs) for pairs in arguments)]).tolist()),
        arg_from=_ints(pair[0] for pair in flat),
        arg_into=_ints(pair[1] for pair in flat),
        frame=_ints([len(slots[entry]), *(len(slots[name]) for name in traced if name != entry)]),
        delay=table[:, 6].copy(),
        block_instructions=_ints(p.instructions for p in parts),
        block_covered=_ints(p.covered for p in parts),
    )


def _ints(values: Iterable[int]) -> np.ndarray:
    return np.array(list(values), dtype=np.int64)
