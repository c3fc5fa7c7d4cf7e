"""Turning LLVM IR into a DAG program and into code that records which blocks ran and what they accessed.

The text of the IR is read once. Every basic block that does floating-point work gets a number, a table of its
operations (`perfkit.dag.program.BlockProgram`) and a few instructions that write the block's number and the addresses
of its floating-point accesses into a buffer. Compiled and run natively, that costs little; the dependences of the DAG
follow from the tables afterwards and cost nothing while the kernel runs.

Counted as nodes: fadd, fsub, fcmp, min and max (A), fmul (M), fdiv, frem, sqrt (D), floating-point load and store
(L, S); a fused multiply-add is an M and an A. Values pass through phi, select, fneg, fabs, conversions between
floating-point types, vector shuffles, calls and returns. Integers, addresses and control are left out, as in the paper.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from perfkit.dag.program import ADD, CALL, DIVIDE, FORWARD, LOAD, MULTIPLY, OTHER, RETURN, STORE, BlockProgram
from perfkit.errors import DataError

_ID = r'(?:"[^"]*"|[\w.$-]+)'
_LOCAL = rf"%{_ID}"
_SCALAR = r"(?:double|float|half)"
_FLOAT = rf"(?:{_SCALAR}|<\d+ x {_SCALAR}>|\{{ {_SCALAR}(?:, {_SCALAR})* \}}|\[\d+ x {_SCALAR}\])"
_FLAGS = r"(?:(?:fast|nnan|ninf|nsz|arcp|contract|afn|reassoc) )*"
_VALUE = rf"(?:{_LOCAL}|@{_ID}|<[^>]*>|[^\s,()]+)"
_DEF = re.compile(rf"^define .*?@({_ID})\(")
_LABEL = re.compile(rf"^({_ID}):")
_BINARY = re.compile(rf"^({_LOCAL}) = (fadd|fsub|fmul|fdiv|frem) {_FLAGS}({_FLOAT}) ({_VALUE}), ({_VALUE})")
_COMPARE = re.compile(rf"^({_LOCAL}) = fcmp {_FLAGS}\w+ ({_FLOAT}) ({_VALUE}), ({_VALUE})")
_LOADED = re.compile(
    rf"^({_LOCAL}) = load (?:volatile )?({_FLOAT}), ptr (?:addrspace\(\d+\) )?({_VALUE}|getelementptr .*)"
)
_STORED = re.compile(
    rf"^store (?:volatile )?({_FLOAT}) ({_VALUE}), ptr (?:addrspace\(\d+\) )?({_VALUE}|getelementptr .*)"
)
_PHI = re.compile(rf"^({_LOCAL}) = phi {_FLAGS}({_FLOAT}) (.*)")
_EDGE = re.compile(rf"\[ ({_VALUE}), ({_LOCAL}) \]")
_SELECT = re.compile(rf"^({_LOCAL}) = select {_FLAGS}.*?, ({_FLOAT}) ({_VALUE}), {_FLOAT} ({_VALUE})")
_ONE_OPERAND = re.compile(
    rf"^({_LOCAL}) = (?:fneg|freeze|fpext|fptrunc|extractelement|extractvalue) {_FLAGS}({_FLOAT}) ({_VALUE})"
)
_TWO_OPERANDS = re.compile(
    rf"^({_LOCAL}) = (?:shufflevector|insertelement|insertvalue) ({_FLOAT}) ({_VALUE}), {_FLOAT} ({_VALUE})"
)
_CALLED = re.compile(rf"^(?:({_LOCAL}) = )?(?:(?:tail|musttail|notail) )?call (.*?)@({_ID})\((.*)\)")
_INDIRECT = re.compile(rf"^(?:({_LOCAL}) = )?(?:(?:tail|musttail|notail) )?call (.*?) ?{_LOCAL}\((.*)\)")
_INVOKED = re.compile(r"^(?:%.* = )?invoke ")
_VECTOR = re.compile(rf"^<(\d+) x ({_SCALAR})>$")
_TESTED = re.compile(rf"^br i1 ({_LOCAL}),")
_FOLDED = re.compile(
    rf"^(?:{_LOCAL} = (?:getelementptr|bitcast|ptrtoint|inttoptr|zext|sext|trunc|freeze|extractvalue) "
    r"|br label |unreachable"
    r"|(?:tail )?call void @llvm\.(?:lifetime|dbg|assume|experimental))"
)
_BYTES = {"double": 8, "float": 4, "half": 2}

_MIN_MAX = re.compile(r"^llvm\.(?:min|max)(?:num|imum|imumnum)\.")
_FUSED = re.compile(r"^llvm\.(?:fma|fmuladd)\.")
_PASSED = re.compile(r"^llvm\.(?:fabs|copysign|canonicalize|arithmetic\.fence|floor|ceil|trunc|rint|nearbyint|round)")
_REDUCED = re.compile(r"^llvm\.vector\.reduce\.(fadd|fmul|fmin|fmax)")
_SQUARE_ROOT = re.compile(r"^(?:llvm\.sqrt\.|sqrtf?$)")
_BLOCK_MOVES = re.compile(r"^llvm\.(memset|memcpy|memmove)\.p0(?:\.p0)?\.i(32|64)")

REPEAT = "erm_repeat"
ENTRY_SYMBOLS = ("erm_cursor", "erm_end", "erm_flush")

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

# LLVM turns loops that clear or copy arrays into memset and memcpy; as nodes they are loads and stores of doubles.
_MEMSET = """define internal void @erm.memset(ptr %to, i64 %bytes) noinline {
entry:
  %n = lshr i64 %bytes, 3
  %none = icmp eq i64 %n, 0
  br i1 %none, label %out, label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %j, %loop ]
  %p = getelementptr double, ptr %to, i64 %i
  store double 0.0, ptr %p
  %j = add i64 %i, 1
  %more = icmp ult i64 %j, %n
  br i1 %more, label %loop, label %out
out:
  ret void
}"""
_MEMCPY = """define internal void @erm.memcpy(ptr %to, ptr %from, i64 %bytes) noinline {
entry:
  %n = lshr i64 %bytes, 3
  %none = icmp eq i64 %n, 0
  br i1 %none, label %out, label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %j, %loop ]
  %p = getelementptr double, ptr %from, i64 %i
  %q = getelementptr double, ptr %to, i64 %i
  %v = load double, ptr %p
  store double %v, ptr %q
  %j = add i64 %i, 1
  %more = icmp ult i64 %j, %n
  br i1 %more, label %loop, label %out
out:
  ret void
}"""


@dataclass
class _Part:
    """A block, or the part of one up to a call: its operations, and where recording code goes."""

    function: _Function
    origin: str
    phis: list[tuple[str, list[tuple[str, str]]]] = field(default_factory=list)
    # (code, left, right, into, shape or call)
    ops: list[tuple[int, str, str, str, tuple[int, int], tuple[str, list[tuple[str, str]]] | None]] = field(
        default_factory=list
    )
    pointers: list[tuple[int, str]] = field(default_factory=list)
    begin: int = -1
    number: int = -1


@dataclass
class _Function:
    name: str
    header: str
    parameters: list[tuple[str, str]]
    blocks: list[tuple[str, list[str]]]
    parts: list[list[_Part]] = field(default_factory=list)
    slots: dict[str, int] = field(default_factory=dict)

    def slot(self, value: str) -> int:
        if not value.startswith("%"):
            return -1
        return self.slots.setdefault(value, len(self.slots))


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
        External functions called with floating-point values: their work is not in the DAG.
    """

    text: str
    plain: str
    program: BlockProgram
    entry: str
    parameters: tuple[str, ...]
    returns: str
    ignored: tuple[str, ...]


def instrument(ir: str, entry: str, count_all: bool = False) -> Instrumented:
    """Instrument a function and all functions of the module that it calls.

    Parameters
    ----------
    ir
        A module as text, with opaque pointers (LLVM 15 and later; clang 14 with ``-mllvm -opaque-pointers``).
    entry
        The function's name in the module.
    count_all
        Keep an `OTHER` operation for every instruction that is no node but that a processor would have to fetch: not
        PHIs, addresses (getelementptr) and widenings, which x86 folds into accesses, nor a jump without a condition
        or the comparison of one that has it.

    Raises
    ------
    DataError
        If the module has no such function, or uses what cannot be traced (invoke of a traced function).
    """
    functions, rest = _split(ir)
    if entry not in functions:
        known = ", ".join(sorted(functions)[:8]) or "none"
        raise DataError(f"the IR defines no function {entry!r}; it defines: {known}")
    traced = _reachable(functions, entry)
    ignored: set[str] = set()
    for function in traced.values():
        _read(function, traced, ignored, count_all)
    parts = _number(traced)
    program = _program(traced, parts, entry)
    plain = "\n".join([*rest, *(_text(f, recorded=False) for f in traced.values())])
    plain += _repeat(traced[entry])
    text = "\n".join([*rest, *(_text(f, recorded=True) for f in traced.values()), _RUNTIME])
    parameters = tuple(kind for kind, _ in traced[entry].parameters)
    returns = traced[entry].header.split("@", 1)[0].split()[-1]
    return Instrumented(text, plain, program, entry, parameters, returns, tuple(sorted(ignored)))


def _repeat(entry: _Function) -> str:
    """Return a function that calls the entry again and again: calls from Python take longer than small kernels.

    It is not optimised (``optnone``), and keeps each result: a call whose result nobody uses would be removed, or
    moved out of the loop.
    """
    returns = entry.header.split("@", 1)[0].split()[-1]
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
  {"%result = " if kept else ""}call {returns} @"{entry.name}"({actual}) noinline
  {kept}
  %j = add i64 %i, 1
  %more = icmp ult i64 %j, %n
  br i1 %more, label %loop, label %out
out:
  ret void
}}
"""


def _split(ir: str) -> tuple[dict[str, _Function], list[str]]:
    """Return the functions that the module defines, and all its other lines (the target's are the JIT's business)."""
    functions, rest = {}, []
    lines = iter(ir.split("\n"))
    for line in lines:
        found = _DEF.match(line)
        if found is None:
            if not line.startswith(("target ", "source_filename")):
                rest.append(line)
            continue
        body = list(_body(lines))
        parameters = _parameters(line[found.end() - 1 :])
        entry_label = f"%{sum(1 for _, name in parameters if name[1:].isdigit())}"
        functions[_bare(found[1])] = _Function(_bare(found[1]), line, parameters, _blocks(body, entry_label))
    return functions, rest


def _body(lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        if line == "}":
            return
        yield line


def _blocks(body: list[str], entry: str) -> list[tuple[str, list[str]]]:
    blocks: list[tuple[str, list[str]]] = [(entry, [])]
    for line in body:
        label = _LABEL.match(line)
        if label is None:
            if line.strip():
                blocks[-1][1].append(line.strip())
        elif blocks[-1][1]:
            blocks.append((f"%{label[1]}", []))
        else:
            blocks[-1] = (f"%{label[1]}", [])
    return blocks


def _bare(name: str) -> str:
    return name.strip('"')


def _arguments(text: str) -> list[str]:
    """Split an argument list, which begins after its parenthesis, at its top-level commas."""
    found, depth, quoted, current = [], 0, False, ""
    for character in text:
        if character == '"':
            quoted = not quoted
        if not quoted:
            if character in "([{<":
                depth += 1
            elif character in ")]}>":
                if depth == 0:
                    break
                depth -= 1
            elif character == "," and depth == 0:
                found.append(current.strip())
                current = ""
                continue
        current += character
    return [*found, current.strip()] if current.strip() else found


def _typed(argument: str) -> tuple[str, str]:
    """Return the type and the value of an argument, without its attributes."""
    kind = re.match(rf"{_FLOAT}|\{{[^}}]*\}}|\[[^\]]*\]|<[^>]*>|\S+", argument)
    return (kind[0] if kind else "", argument.rsplit(" ", 1)[-1])


def _parameters(text: str) -> list[tuple[str, str]]:
    """Return type and name of each parameter of a definition; nameless ones are numbered."""
    found = []
    unnamed = 0
    for argument in _arguments(text[1:]):
        if argument == "...":
            continue
        kind, name = _typed(argument)
        if not name.startswith("%"):
            name, unnamed = f"%{unnamed}", unnamed + 1
        elif name[1:].isdigit():
            unnamed += 1
        found.append((kind, name))
    return found


def _reachable(functions: dict[str, _Function], entry: str) -> dict[str, _Function]:
    """Return the entry and all defined functions it calls, after turning block moves into calls of loops."""
    found: dict[str, _Function] = {}
    todo = [entry]
    while todo:
        name = todo.pop()
        if name in found or name not in functions:
            continue
        function = found[name] = functions[name]
        for _, lines in function.blocks:
            for k, line in enumerate(lines):
                lines[k], helper = _unfolded(line, name, k)
                if helper and helper not in functions:
                    source = _MEMSET if helper == "erm.memset" else _MEMCPY
                    functions |= _split(source)[0]
                called = _CALLED.match(lines[k].split("\n")[-1])
                if called:
                    todo.append(_bare(called[3]))
    return found


def _unfolded(line: str, function: str, number: int) -> tuple[str, str]:
    """Replace a memset to zero, a memcpy or a memmove by a call of the loop that it came from."""
    called = _CALLED.match(line)
    move = _BLOCK_MOVES.match(called[3]) if called else None
    if called is None or move is None:
        return line, ""
    arguments = [_typed(argument) for argument in _arguments(called[4])]
    size = arguments[2][1]
    widen = ""
    if move[2] == "32":
        name = f"%erm.size.{len(function)}.{zlib.crc32(f'{function} {number} {line}'.encode())}"
        widen, size = f"{name} = zext i32 {size} to i64\n", name
    if move[1] == "memset":
        if arguments[1][1] != "0":
            return line, ""
        return f"{widen}call void @erm.memset(ptr {arguments[0][1]}, i64 {size})", "erm.memset"
    return f"{widen}call void @erm.memcpy(ptr {arguments[0][1]}, ptr {arguments[1][1]}, i64 {size})", "erm.memcpy"


def _shape(kind: str) -> tuple[int, int]:
    """Return elements and bytes per element of a floating-point type."""
    if kind[0] in "{[":
        scalars = re.findall(_SCALAR, kind)
        count = int(kind[1:].split(" ")[0]) if kind[0] == "[" else len(scalars)
        return count, _BYTES[scalars[0]]
    vector = _VECTOR.match(kind)
    return (int(vector[1]), _BYTES[vector[2]]) if vector else (1, _BYTES[kind])


def _read(function: _Function, traced: dict[str, _Function], ignored: set[str], count_all: bool) -> None:
    """Fill in the function's parts."""
    for label, lines in function.blocks:
        part = _Part(function, label)
        parts = [part]
        tested = _TESTED.match(lines[-1]) if lines else None
        for at, line in enumerate(lines):
            if " = phi " in line:
                if phi := _PHI.match(line):
                    part.phis.append((phi[1], _EDGE.findall(phi[3])))
                continue
            if part.begin < 0:
                part.begin = at
            before = len(part.ops)
            called = _CALLED.match(line.split("\n")[-1])
            if called and _bare(called[3]) in traced:
                _read_call(part, called, traced)
                part = _Part(function, label, begin=at + 1)
                parts.append(part)
            elif called:
                _read_external(part, called, ignored)
            elif pointed := _INDIRECT.match(line):
                values = [kind for kind, _ in map(_typed, _arguments(pointed[3]))]
                if any(re.fullmatch(_FLOAT, kind) for kind in values):
                    ignored.add("a function called through a pointer")
            else:
                _read_operation(part, line, at, traced)
            if count_all and len(part.ops) == before and _fetched(line, tested[1] if tested else ""):
                part.ops.append((OTHER, "", "", "", (1, 8), None))
        function.parts.append(parts)


def _fetched(line: str, tested: str) -> bool:
    """Whether an instruction that is no node takes a slot of fetch of its own on x86."""
    return not (_FOLDED.match(line) or (tested and line.startswith(f"{tested} = icmp ")))


def _read_call(part: _Part, called: re.Match[str], traced: dict[str, _Function]) -> None:
    name = _bare(called[3])
    passed = []
    actual = [_typed(argument) for argument in _arguments(called[4])]
    for (kind, formal), (_, value) in zip(traced[name].parameters, actual, strict=False):
        if re.fullmatch(_FLOAT, kind):
            passed.append((value, formal))
    into = called[1] if called[1] and re.search(_FLOAT, called[2]) else ""
    part.ops.append((CALL, "", "", into, (1, 8), (name, passed)))


def _read_external(part: _Part, called: re.Match[str], ignored: set[str]) -> None:
    into, name = called[1] or "", _bare(called[3])
    arguments = [(kind, value) for kind, value in map(_typed, _arguments(called[4])) if re.fullmatch(_FLOAT, kind)]
    if not arguments:
        return
    kind, values = arguments[0][0], [value for _, value in arguments]
    shape = _shape(kind)
    first, second = [*values, "", ""][:2]
    if _FUSED.match(name):
        part.ops.append((MULTIPLY, first, second, f"{into}.product", shape, None))
        part.ops.append((ADD, f"{into}.product", values[2], into, shape, None))
    elif _MIN_MAX.match(name):
        part.ops.append((ADD, first, second, into, shape, None))
    elif _SQUARE_ROOT.match(name):
        part.ops.append((DIVIDE, first, "", into, shape, None))
    elif reduced := _REDUCED.match(name):
        _read_reduction(part, reduced[1], arguments, into)
    elif into:
        if not _PASSED.match(name):
            ignored.add(name)
        part.ops.append((FORWARD, first, second, into, shape, None))


def _read_reduction(part: _Part, operation: str, arguments: list[tuple[str, str]], into: str) -> None:
    """Reduce a vector by halves, as the code generator does; a start value takes one operation more."""
    code = MULTIPLY if operation == "fmul" else ADD
    elements, size = _shape(arguments[-1][0])
    value = arguments[-1][1]
    while elements > 1:
        elements = (elements + 1) // 2
        part.ops.append((code, value, "", f"{into}.half{elements}", (elements, size), None))
        value = f"{into}.half{elements}"
    start = arguments[0][1] if len(arguments) > 1 else ""
    if start and not start.startswith("-0.0"):
        part.ops.append((code, value, start, into, (1, size), None))
    else:
        part.ops.append((FORWARD, value, "", into, (1, size), None))


def _read_operation(part: _Part, line: str, at: int, traced: dict[str, _Function]) -> None:
    if found := _BINARY.match(line):
        code = {"fadd": ADD, "fsub": ADD, "fmul": MULTIPLY}.get(found[2], DIVIDE)
        part.ops.append((code, found[4], found[5], found[1], _shape(found[3]), None))
    elif found := _COMPARE.match(line):
        part.ops.append((ADD, found[3], found[4], "", _shape(found[2]), None))
    elif found := _LOADED.match(line):
        part.ops.append((LOAD, "", "", found[1], _shape(found[2]), None))
        part.pointers.append((at, _pointer(found[3])))
    elif found := _STORED.match(line):
        part.ops.append((STORE, found[2], "", "", _shape(found[1]), None))
        part.pointers.append((at, _pointer(found[3])))
    elif (found := _SELECT.match(line)) or (found := _TWO_OPERANDS.match(line)):
        part.ops.append((FORWARD, found[3], found[4], found[1], (1, 8), None))
    elif found := _ONE_OPERAND.match(line):
        part.ops.append((FORWARD, found[3], "", found[1], (1, 8), None))
    elif line.startswith("ret "):
        kind, value = _typed(line[4:])
        is_float = bool(re.match(_FLOAT, kind))
        part.ops.append((RETURN, value if is_float else "", "", "", (1, 8), None))
    elif _INVOKED.match(line) and any(f"@{name}(" in line for name in traced):
        raise DataError(f"{part.function.name} invokes a traced function; compile without exceptions (-fno-exceptions)")


def _pointer(text: str) -> str:
    """Return a pointer operand: a value, or a whole constant expression."""
    if not text.startswith("getelementptr"):
        return text
    depth = 0
    for k, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if character == ")" and depth == 0:
            return text[: k + 1]
    return text


def _number(traced: dict[str, _Function]) -> list[_Part]:
    """Give numbers to the parts that must be recorded: with operations or PHIs, or named by a PHI."""
    found: list[_Part] = []
    for k, function in enumerate(traced.values()):
        named = {p for parts in function.parts for _, edges in parts[0].phis for _, p in edges}
        for parts in function.parts:
            if k == 0:
                # Nothing is above the entry function: its return ends the trace.
                for part in parts:
                    part.ops = [op for op in part.ops if op[0] != RETURN]
            for part in parts:
                if part.ops or part.phis or part.origin in named:
                    part.number = len(found)
                    found.append(part)
    return found


def _text(function: _Function, recorded: bool) -> str:
    """Return the function's definition, with or without recording code."""
    out = [function.header]
    for k, ((label, lines), parts) in enumerate(zip(function.blocks, function.parts, strict=True)):
        if k or not label[1:].isdigit():
            out.append(f"{label[1:]}:")
        inserted: dict[int, list[str]] = {}
        for part in parts if recorded else ():
            if part.number < 0:
                continue
            n = part.number
            inserted.setdefault(part.begin, []).append(
                f"  %erm.at.{n} = call ptr @erm_begin(i64 {n}, i64 {1 + len(part.pointers)})"
            )
            for slot, (at, pointer) in enumerate(part.pointers):
                inserted.setdefault(at, []).extend(_record_address(n, slot, pointer))
        for at, line in enumerate(lines):
            out += inserted.get(at, [])
            out.append("  " + line.replace("\n", "\n  "))
    return "\n".join([*out, "}"])


def _record_address(number: int, slot: int, pointer: str) -> list[str]:
    return [
        f"  %erm.to.{number}.{slot} = getelementptr i64, ptr %erm.at.{number}, i64 {slot + 1}",
        f"  %erm.address.{number}.{slot} = ptrtoint ptr {pointer} to i64",
        f"  store i64 %erm.address.{number}.{slot}, ptr %erm.to.{number}.{slot}",
    ]


def _program(traced: dict[str, _Function], parts: list[_Part], entry: str) -> BlockProgram:
    """Build the static tables."""
    origins = {(p.function.name, p.origin): p.number for p in reversed(parts)}
    shapes = sorted({op[4] for part in parts for op in part.ops}) or [(1, 8)]
    phis: list[int] = []
    edges: list[tuple[int, int]] = []
    ops: list[tuple[int, int, int, int, int, int]] = []
    calls: list[tuple[_Function, str, list[tuple[str, str]]]] = []
    block_ops, block_phis, phi_edges = [0], [0], [0]
    for part in parts:
        slot = part.function.slot
        for into, incoming in part.phis:
            phis.append(slot(into))
            edges += [(origins[part.function.name, label], slot(value)) for value, label in incoming]
            phi_edges.append(len(edges))
        for code, left, right, into, shape, call in part.ops:
            if call:
                calls.append((part.function, *call))
            which = len(calls) - 1 if call else -1
            ops.append((code, slot(left), slot(right), slot(into), shapes.index(shape), which))
        block_ops.append(len(ops))
        block_phis.append(len(phis))
    arguments = [
        [(function.slot(value), traced[name].slot(formal)) for value, formal in passed]
        for function, name, passed in calls
    ]
    flat = [pair for pairs in arguments for pair in pairs]
    table = np.array(ops, dtype=np.int64).reshape(-1, 6)
    return BlockProgram(
        block_ops=_ints(block_ops),
        block_phis=_ints(block_phis),
        block_origin=_ints(origins[p.function.name, p.origin] for p in parts),
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
        call_frame=_ints(len(function.slots) for function, _, _ in calls),
        call_args=_ints(np.cumsum([0, *(len(pairs) for pairs in arguments)]).tolist()),
        arg_from=_ints(pair[0] for pair in flat),
        arg_into=_ints(pair[1] for pair in flat),
        frame=_ints([len(traced[entry].slots), *(len(f.slots) for name, f in traced.items() if name != entry)]),
    )


def _ints(values: Iterable[int]) -> np.ndarray:
    return np.array(list(values), dtype=np.int64)
