"""AArch64 instructions from assembly, and traces of loops written in it, without running them."""

import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from perfkit.trace.aarch64 import decode_one
from perfkit.trace.code import StaticCode
from perfkit.trace.trace import Trace

COMPILER = "aarch64-linux-gnu-gcc"
needs_assembler = pytest.mark.skipif(
    shutil.which(COMPILER) is None, reason=f"needs {COMPILER} (Debian package gcc-aarch64-linux-gnu)"
)


def assemble(text: str) -> list[bytes]:
    """Return the machine code of some instructions, four bytes each."""
    with tempfile.TemporaryDirectory() as folder:
        source, obj, raw = (Path(folder) / f"code.{end}" for end in ("s", "o", "bin"))
        source.write_text(f".arch armv8-a+crypto+crc\n{text}\n")
        subprocess.run([COMPILER, "-c", "-o", obj, source], check=True, capture_output=True)
        objcopy = COMPILER.removesuffix("gcc") + "objcopy"
        subprocess.run([objcopy, "-O", "binary", "-j", ".text", obj, raw], check=True, capture_output=True)
        code = raw.read_bytes()
    return [code[k : k + 4] for k in range(0, len(code), 4)]


def same_place(_iteration: int, operand: int) -> int:
    return 4096 + 64 * operand


def loop(body: str, iterations: int, address: Callable[[int, int], int] = same_place) -> Trace:
    """A block of assembly executed so many times; ``address(iteration, operand)`` says where its operands lie."""
    encodings = assemble(body)
    decoded = [decode_one(data, 0x1000 + 4 * k) for k, data in enumerate(encodings)]
    start, operands = [0], []
    for instruction in decoded:
        operands += instruction.memory
        start.append(len(operands))
    code = StaticCode(
        "aarch64",
        pc=[i.pc for i in decoded],
        encoding=encodings,
        text=[i.text for i in decoded],
        function=["f"] * len(decoded),
        block_start=[0, len(decoded)],
        operand_start=start,
        read=[m.read for m in operands],
        write=[m.write for m in operands],
        size=[m.size for m in operands],
    )
    addresses = [address(k, m) for k in range(iterations) for m in range(len(operands))]
    return Trace.from_parts(code, stream=[0] * iterations, addresses=addresses)
