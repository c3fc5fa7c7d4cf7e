"""Traces made by hand: a loop of x86-64 machine code that runs a number of times, with addresses by a rule."""

from collections.abc import Callable, Sequence

import numpy as np
from iced_x86 import Decoder, Formatter, FormatterSyntax, InstructionInfoFactory, MemorySizeInfo, OpAccess

from perfkit.trace import StaticCode, Trace

READS = (OpAccess.READ, OpAccess.COND_READ, OpAccess.READ_WRITE, OpAccess.READ_COND_WRITE)
WRITES = (OpAccess.WRITE, OpAccess.COND_WRITE, OpAccess.READ_WRITE, OpAccess.READ_COND_WRITE)

# name: machine code (llvm-mc, Intel syntax)
CODE = {
    "fma ymm0": "c4c215b8c6",  # vfmadd231ps ymm0, ymm13, ymm14
    "fma ymm1": "c4c215b8ce",  # vfmadd231ps ymm1, ymm13, ymm14
    "addps": "c5fc58c1",  # vaddps ymm0, ymm0, ymm1
    "mulps": "c5fc59c1",  # vmulps ymm0, ymm0, ymm1
    "free addps": "c4c11458c6",  # vaddps ymm0, ymm13, ymm14
    "load ymm2": "c5fc2810",  # vmovaps ymm2, [rax]
    "fma 3": "c4e275b8c3",  # vfmadd231ps ymm0, ymm1, ymm3
    "fma 2": "c4e275b8c2",  # vfmadd231ps ymm0, ymm1, ymm2
    "chase": "488b00",  # mov rax, [rax]
    "load": "488b07",  # mov rax, [rdi]
    "load rbx": "488b1f",  # mov rbx, [rdi]
    "store": "488907",  # mov [rdi], rax
    "store 8": "48895f08",  # mov [rdi+8], rbx
    "add": "4801c8",  # add rax, rcx
    "add rbx": "4801cb",  # add rbx, rcx
    "add load": "480307",  # add rax, [rdi]
    "add store": "48010f",  # add [rdi], rcx
    "imul": "480fafc1",  # imul rax, rcx
    "zero": "31c0",  # xor eax, eax
    "move": "4889c8",  # mov rax, rcx
    "move back": "4889c1",  # mov rcx, rax
    "cmp": "4839c8",  # cmp rax, rcx
    "jne": "75f8",  # jne
    "nop": "90",
    "lea 3": "488d440808",  # lea rax, [rax+rcx+8]
    "div": "c4c1155ec6",  # vdivpd ymm0, ymm13, ymm14
    "load ymm": "c5fc1007",  # vmovups ymm0, [rdi]
    "store ymm": "c5fc1107",  # vmovups [rdi], ymm0
    "addps load": "c5945807",  # vaddps ymm0, ymm13, [rdi]
    "addps indexed": "c59458040f",  # vaddps ymm0, ymm13, [rdi+rcx]
    "push": "50",
    "pop": "58",
}


def loop(
    names: Sequence[str], times: int, address: Callable[[int, int], int] = lambda iteration, operand: 0x10000
) -> Trace:
    """Return the trace of a block that runs `times` times; `address(iteration, operand)` for every memory operand."""
    formatter, factory = Formatter(FormatterSyntax.INTEL), InstructionInfoFactory()
    encodings = [bytes.fromhex(CODE[name]) for name in names]
    pc, text, read, write, size, starts = [], [], [], [], [], [0]
    at = 0x400000
    for data in encodings:
        instruction = next(iter(Decoder(64, data, ip=at)))
        pc.append(at)
        text.append(formatter.format(instruction))
        for memory in factory.info(instruction).used_memory():
            if memory.access != OpAccess.NO_MEM_ACCESS:
                read.append(memory.access in READS)
                write.append(memory.access in WRITES)
                size.append(MemorySizeInfo(memory.memory_size).size)
        starts.append(len(size))
        at += len(data)
    n = len(encodings)
    code = StaticCode("x86-64", pc, encodings, text, ["loop"] * n, [0, n], starts, read, write, size)
    addresses = [address(iteration, operand) for iteration in range(times) for operand in range(len(size))]
    return Trace.from_parts(code, stream=np.zeros(times, np.uint32), addresses=np.array(addresses, np.uint64))
