"""Reading LLVM IR: functions, blocks and instructions with their operands, as LLVM itself sees them.

The text is parsed by llvmlite's LLVM, which also names every value; what an instruction is, what it reads and of which
types come from there. Each instruction keeps its line of text, so that code can be put before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from perfkit.errors import DataError

_PLAIN_NAME = re.compile(r"[-a-zA-Z$._][-a-zA-Z$._0-9]*")
_LABEL = re.compile(r'^(?:"[^"]*"|[-\w.$]+):')
_OLD_RANGE = re.compile(r"\binrange (?=i\d+ )")
_SCALARS = {"double": 8, "float": 4, "half": 2, "bfloat": 2, "x86_fp80": 16, "fp128": 16, "ptr": 8}


@dataclass(frozen=True)
class IrValue:
    """An operand: its name in the function ("" for constants, blocks, functions), its type, its text with the type."""

    name: str
    type: str
    text: str


@dataclass(frozen=True)
class IrInstruction:
    """An instruction: opcode, result's name and type, operands, the function that it calls, its line of text."""

    opcode: str
    name: str
    type: str
    operands: tuple[IrValue, ...]
    text: str
    callee: str = ""
    incoming: tuple[str, ...] = ()  # of a PHI: the blocks its values come from
    intrinsic_type: str = ""  # of an address: what it counts in


@dataclass
class IrBlock:
    """A basic block: its name and its instructions."""

    name: str
    instructions: list[IrInstruction] = field(default_factory=list)


@dataclass
class IrFunction:
    """A function that the module defines; its target's features, None for this machine's."""

    name: str
    header: str
    parameters: list[tuple[str, str]]  # type, name
    returns: str
    blocks: list[IrBlock]
    features: frozenset[str] | None = None

    def has(self, feature: str) -> bool:
        """Whether code for the function may use a feature of x86-64 such as ``sse4.1``."""
        return self.features is None or feature in self.features


@dataclass(frozen=True)
class IrModule:
    """The functions of a module by name, and everything else of its text."""

    functions: dict[str, IrFunction]
    rest: list[str]


def read_module(ir: str) -> IrModule:
    """Parse a module.

    Raises
    ------
    DataError
        If LLVM cannot read it; the message says which LLVM and what it found.
    """
    import llvmlite.binding as llvm

    text = readable(ir)
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        version = ".".join(map(str, llvm.llvm_version_info))
        typed = "*" in text and "ptr" not in text
        hint = (
            "; it has pointers with types, write it again with -opaque-pointers (clang 14) or a later clang"
            if typed
            else ""
        )
        raise DataError(f"LLVM {version} of llvmlite cannot read the IR: {str(error).strip()}{hint}") from error
    _name_values(llvm, module)
    texts, rest = _split(str(module))
    functions = {f.name: _function(f, *texts[f.name]) for f in module.functions if not f.is_declaration}
    return IrModule(functions, rest)


def readable(ir: str) -> str:
    """Return a module's text as the kit's LLVM reads it: without its target, which is the JIT's business.

    Older clangs write how far an address in a table of virtual functions may move in a way that was given up (``inrange
    i32 0``); it only helps to optimise.
    """
    lines = (line for line in ir.split("\n") if not line.startswith(("target ", "source_filename")))
    return _OLD_RANGE.sub("", "\n".join(lines))


def _name_values(llvm: Any, module: Any) -> None:
    """Give every value and block a name."""
    manager = llvm.create_new_module_pass_manager()
    manager.add_instruction_namer_pass()
    manager.add_strip_debug_declare_pass()
    llvm.initialize_native_target()
    machine = llvm.Target.from_default_triple().create_target_machine()
    manager.run(module, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options()))


def _split(text: str) -> tuple[dict[str, tuple[str, list[str]]], list[str]]:
    """Return each function's header and lines, and all lines outside functions."""
    functions: dict[str, tuple[str, list[str]]] = {}
    rest: list[str] = []
    lines = iter(text.split("\n"))
    for line in lines:
        if line.startswith("define "):
            found = re.search(r'@("(?:[^"]*)"|[-\w.$]+)\(', line)
            assert found is not None, line
            functions[_unquoted(found[1])] = (line, list(_body(lines)))
        elif not line.startswith(("; ", "target ", "source_filename")):
            rest.append(line)
    return functions, rest


def _unquoted(name: str) -> str:
    if not name.startswith('"'):
        return name
    # LLVM writes what is not printable as \XX.
    raw = re.sub(rb"\\([0-9A-Fa-f]{2})", lambda m: bytes([int(m[1], 16)]), name[1:-1].encode())
    return raw.decode()


def _body(lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        if line == "}":
            return
        yield line


def _function(function: Any, header: str, lines: list[str]) -> IrFunction:
    texts: list[list[str]] = []
    for line in lines:
        if _LABEL.match(line):
            texts.append([])
        elif not line.strip() or line.lstrip().startswith((";", "#dbg")):
            continue
        else:
            if not texts:
                texts.append([])
            if re.match(r"  [^ \]]", line):
                texts[-1].append(line.strip())
            else:  # a switch's cases, an invoke's labels, a landing pad's clauses
                texts[-1][-1] += "\n" + line
    blocks = list(function.blocks)
    if len(blocks) != len(texts):
        raise DataError(f"{function.name}: {len(blocks)} blocks, but text of {len(texts)}; please report this IR")
    return IrFunction(
        function.name,
        header,
        [(str(a.type), f"%{a.name}") for a in function.arguments],
        str(function.global_value_type).split(" (", 1)[0],
        [_block(function.name, block, found) for block, found in zip(blocks, texts, strict=True)],
        _features(" ".join(attribute.decode() for attribute in function.attributes)),
    )


def _features(attributes: str) -> frozenset[str] | None:
    found = re.search(r'"target-features"="([^"]*)"', attributes)
    if found is None:
        return None
    return frozenset(feature[1:] for feature in found[1].split(",") if feature.startswith("+"))


def _block(function: str, block: Any, texts: list[str]) -> IrBlock:
    instructions = list(block.instructions)
    if len(instructions) != len(texts):
        raise DataError(
            f"{function}: block {block.name} has {len(instructions)} instructions, but text of {len(texts)}; "
            "please report this IR"
        )
    return IrBlock(block.name, [_instruction(i, t) for i, t in zip(instructions, texts, strict=True)])


def _instruction(found: Any, text: str) -> IrInstruction:
    opcode = found.opcode
    operands = list(found.operands)
    callee = ""
    if opcode in ("call", "invoke") and operands:
        last = operands[-1]
        callee = f"@{last.name}" if last.value_kind.name in ("function", "global_alias") else "pointer"
        if last.value_kind.name == "inline_asm" or " asm " in text:
            callee = "asm"
        operands = operands[:-1]
    incoming = tuple(block.name for block in found.incoming_blocks) if opcode == "phi" else ()
    counted = re.search(r"getelementptr(?: inbounds| nusw| nuw)* ([^,]*(?:\[[^\]]*\])?[^,]*),", text)
    return IrInstruction(
        opcode,
        f"%{found.name}" if found.name else "",
        str(found.type),
        tuple(map(_value, operands)),
        text,
        callee,
        incoming,
        counted[1] if counted and opcode == "getelementptr" else "",
    )


def _value(operand: Any) -> IrValue:
    kind, of = operand.value_kind.name, str(operand.type)
    if kind in ("argument", "instruction"):
        return IrValue(f"%{operand.name}", of, f"{of} {reference(operand.name)}")
    if kind == "basic_block":
        return IrValue("", "label", operand.name)
    if kind in ("function", "global_variable", "global_alias", "global_ifunc"):
        return IrValue("", of, f"{of} {reference(operand.name, '@')}")
    return IrValue("", of, str(operand))


def reference(name: str, sign: str = "%") -> str:
    """Write a name as LLVM reads it."""
    if _PLAIN_NAME.fullmatch(name):
        return sign + name
    escaped = "".join(chr(b) if 32 <= b < 127 and b not in (34, 92) else f"\\{b:02X}" for b in name.encode())
    return f'{sign}"{escaped}"'


def is_float(kind: str) -> bool:
    """Whether values of a type hold floating-point numbers (vectors, and structures of numbers, too)."""
    return bool(re.search(r"\b(?:double|float|half|bfloat|x86_fp80|fp128)\b", kind))


def is_value(kind: str) -> bool:
    """Whether a type is one of numbers or addresses (vectors, arrays and structures of them, too)."""
    return kind not in ("void", "label", "metadata", "token")


def shape(kind: str) -> tuple[int, int]:
    """Return elements and bytes per element of a type."""
    scalars = re.findall(r"double|float|half|bfloat|x86_fp80|fp128|ptr|\bi\d+\b", kind) or ["i64"]
    counted = re.match(r"[<\[](?:vscale x )?(\d+) x ", kind)
    count = int(counted[1]) if counted else len(scalars) if kind.startswith("{") else 1
    return max(1, count), size_of(scalars[0])


def size_of(scalar: str) -> int:
    """Return the bytes of a scalar type, as a power of two."""
    if scalar in _SCALARS:
        return _SCALARS[scalar]
    bits = int(scalar[1:]) if re.fullmatch(r"i\d+", scalar) else 64
    return 1 << max(0, (max(bits, 8) - 1).bit_length() - 3)
