"""Traces of loops written in assembly, without running them: the hand-computed cases of the simulator."""

import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from iced_x86 import Decoder, Formatter, FormatterSyntax, InstructionInfoFactory, MemorySizeExt, Mnemonic, OpAccess

from perfkit.trace.code import StaticCode
from perfkit.trace.trace import Trace

needs_assembler = pytest.mark.skipif(shutil.which("as") is None, reason="needs GNU as (Debian package binutils)")


def assemble(text: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        source, obj, raw = (Path(folder) / f"code.{end}" for end in ("s", "o", "bin"))
        source.write_text(f".intel_syntax noprefix\n{text}\n")
        subprocess.run(["as", "-o", obj, source], check=True, capture_output=True)
        subprocess.run(["objcopy", "-O", "binary", "-j", ".text", obj, raw], check=True, capture_output=True)
        return raw.read_bytes()


def same_place(_iteration: int, operand: int) -> int:
    return 4096 + 64 * operand


def loop(body: str, iterations: int, address: Callable[[int, int], int] = same_place, at: int = 0x1000) -> Trace:
    """A block of assembly executed so many times; ``address(iteration, operand)`` says where its operands lie.

    Its first byte lies at `at`.
    """
    raw = assemble(body)
    text = Formatter(FormatterSyntax.INTEL)
    decoded = list(Decoder(64, raw, ip=at))
    factory = InstructionInfoFactory()
    start, read, write, size = [0], [], [], []
    for instruction in decoded:
        if instruction.mnemonic != Mnemonic.LEA:
            for memory in factory.info(instruction).used_memory():
                both = (OpAccess.READ_WRITE, OpAccess.READ_COND_WRITE)
                read.append(memory.access in (OpAccess.READ, *both))
                write.append(memory.access in (OpAccess.WRITE, *both))
                size.append(MemorySizeExt.size(memory.memory_size))
        start.append(len(size))
    code = StaticCode(
        "x86-64",
        pc=[i.ip for i in decoded],
        encoding=[raw[i.ip - at : i.ip - at + i.len] for i in decoded],
        text=[text.format(i) for i in decoded],
        function=["f"] * len(decoded),
        block_start=[0, len(decoded)],
        operand_start=start,
        read=read,
        write=write,
        size=size,
    )
    addresses = [address(k, m) for k in range(iterations) for m in range(len(size))]
    return Trace.from_parts(code, stream=[0] * iterations, addresses=addresses)
