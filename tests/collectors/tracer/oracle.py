"""Single-stepping, evaluated: what a kernel must have executed and touched, worked out from its registers.

This shares no code with the cloner: registers come from ptrace, addresses are computed here.
"""

import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from iced_x86 import Decoder, InstructionInfoFactory, MemorySizeInfo, Mnemonic, OpAccess, Register, RegisterInfo

from perfkit.collectors.kernels import Kernel
from perfkit.collectors.tracer.elf import ElfFile
from perfkit.trace.code import NO_ACCESS
from perfkit.trace.trace import Trace

_GENERAL = [
    getattr(Register, f"R{n}")
    for n in ["AX", "CX", "DX", "BX", "SP", "BP", "SI", "DI", "8", "9", "10", "11", "12", "13", "14", "15"]
]
_NAMES = {value: name for name, value in vars(Mnemonic).items() if isinstance(value, int)}
_VECTOR_MASKED = {"VMASKMOVPS": 4, "VMASKMOVPD": 8, "VPMASKMOVD": 4, "VPMASKMOVQ": 8}
_STRINGS = {"MOVS", "STOS", "LODS", "CMPS", "SCAS"}


@dataclass
class Step:
    """One instruction, before it runs."""

    pc: int
    general: dict[int, int]
    fs: int
    vectors: np.ndarray | None
    masks: np.ndarray | None

    def value(self, register: int) -> int:
        if register == Register.NONE:
            return 0
        info = RegisterInfo(register)
        value = self.general[info.full_register]
        return value if info.size == 8 else value & (1 << 8 * info.size) - 1

    def lanes(self, register: int, kind: str) -> np.ndarray:
        info = RegisterInfo(register)
        return self.vectors[info.number, : info.size].view(kind)


@dataclass
class Truth:
    """What single-stepping saw: program counters relative to the load address; (address, size) pairs, normalised."""

    pcs: list[int]
    accesses: list[tuple[str, int, int]]


def build_stepper(folder: Path) -> Path:
    path = folder / "stepper"
    source = Path(__file__).with_name("stepper.c")
    subprocess.run(["gcc", "-O2", "-o", str(path), str(source), "-ldl"], check=True)
    return path


def decode(elf: ElfFile, functions: list[str]) -> dict[int, object]:
    """Instructions of functions by address, from the file."""
    found = {}
    for name in functions:
        symbol = elf.functions[name]
        segment = next(s for s in elf.segments if s.kind == 1 and s.address <= symbol.address < s.address + s.file_size)
        start = symbol.address - segment.address + segment.offset
        for i in Decoder(64, elf.data[start : start + symbol.size], ip=symbol.address):
            found[i.ip] = i.copy()
    return found


def needs_vectors(i) -> bool:
    return i.is_vsib or i.has_op_mask or _NAMES[i.mnemonic] in _VECTOR_MASKED


def single_step(
    stepper: Path, kernel: Kernel, functions: list[str], stack: int, folder: Path, most: int = 100_000
) -> Truth:
    elf = ElfFile(kernel.path)
    code = decode(elf, functions)
    ranges = [
        str(x) for f in functions for x in (elf.functions[f].address, elf.functions[f].address + elf.functions[f].size)
    ]
    vectors = [str(ip) for ip, i in code.items() if needs_vectors(i)]
    output = folder / "steps"
    words = [
        str(stepper),
        str(kernel.path),
        kernel.function,
        str(output),
        str(most),
        str(stack),
        *ranges,
        "-",
        *vectors,
    ]
    subprocess.run(words, check=True, timeout=300)
    base, steps = read(output)
    assert len(steps) - 1 < most, "the kernel is too large for the oracle"
    first_rsp = steps[0].general[Register.RSP]
    pcs, accesses = [], []
    position = 0
    info = InstructionInfoFactory()
    while position < len(steps) - 1:
        step = steps[position]
        i = code[step.pc - base]
        pcs.append(step.pc - base)
        after = position + 1
        string = (i.has_rep_prefix or i.has_repne_prefix) and _NAMES[i.mnemonic][:4] in _STRINGS
        while string and steps[after].pc == step.pc:
            after += 1
        for address, size in touched(info, i, step, steps[after], base):
            accesses.append((*place(address, base, first_rsp, step.fs, elf), size))
        position = after
    return Truth(pcs, accesses)


def step_threads(program: Path, functions: list[str], folder: Path) -> list[Truth]:
    """Step every thread of a program; return what each did in some functions, in the order in which they were started.

    Stacks are told from the last access, the last return.
    """
    stepper, elf = folder / "thread_stepper", ElfFile(program)
    source = Path(__file__).with_name("thread_stepper.c")
    subprocess.run(["gcc", "-O2", "-o", str(stepper), str(source)], check=True)
    code, named = decode(elf, functions), [elf.functions[f] for f in functions]
    ranges = [str(x) for each in named for x in (each.address, each.address + each.size)]
    output = folder / "threads"
    start = str(elf.functions["main"].address)
    subprocess.run([str(stepper), str(program), str(output), start, *ranges], check=True, timeout=300)
    found, info = [], InstructionInfoFactory()
    for path in sorted(folder.glob("threads.*"), key=lambda path: int(path.suffix[1:])):
        base, steps = read(path)
        raw = [each for step in steps for each in touched(info, code[step.pc - base], step, step, base)]
        stack, fs = raw[-1][0], steps[0].fs
        accesses = [(*place(address, base, stack, fs, elf), size) for address, size in raw]
        found.append(Truth([step.pc - base for step in steps], accesses))
    return found


def step_everything(stepper: Path, kernel: Kernel, stack: int, folder: Path, most: int = 100_000) -> list[int]:
    """Places within their pages of all instructions from entry to return, in whichever library they lie."""
    output = folder / "steps"
    words = [str(stepper), str(kernel.path), kernel.function, str(output), str(most), str(stack), "all", "all", "-"]
    subprocess.run(words, check=True, timeout=300)
    _, steps = read(output)
    assert len(steps) - 1 < most
    return [step.pc % 4096 for step in steps[:-1]]


def read(path: Path) -> tuple[int, list[Step]]:
    data = path.read_bytes()
    base, _ = struct.unpack_from("<QQ", data)
    at, steps = 16, []
    while at < len(data):
        row = struct.unpack_from("<19Q", data, at)
        at += 19 * 8
        vectors = masks = None
        if row[18]:
            vectors = np.frombuffer(data, np.uint8, 2048, at).reshape(32, 64)
            masks = np.frombuffer(data, np.uint64, 8, at + 2048)
            at += 2048 + 64
        steps.append(Step(row[0], dict(zip(_GENERAL, row[1:17], strict=True)), row[17], vectors, masks))
    return base, steps


def touched(info, i, step: Step, after: Step, base: int):
    """Yield (address, size) of each operand of an instruction."""
    name = _NAMES[i.mnemonic]
    loads = (OpAccess.READ, OpAccess.COND_READ, OpAccess.READ_WRITE, OpAccess.READ_COND_WRITE)
    for memory in sorted(info.info(i).used_memory(), key=lambda m: m.access not in loads):
        if memory.access == OpAccess.NO_MEM_ACCESS:
            continue
        kind = MemorySizeInfo(memory.memory_size)
        if memory.base == Register.RIP or (
            memory.base == memory.index == Register.NONE and memory.segment != Register.FS
        ):
            address = memory.displacement + (base if memory.base == Register.RIP else 0)
            address += base if memory.base == Register.NONE else 0
        else:
            address = step.value(memory.base) + memory.displacement
            if not i.is_vsib:
                address += step.value(memory.index) * memory.scale
            address += step.fs if memory.segment == Register.FS else 0
            address %= 1 << (32 if memory.base and RegisterInfo(memory.base).size == 4 else 64)
        if i.is_vsib:
            yield from gathered(i, step, memory, address, kind.element_size)
        elif (i.has_rep_prefix or i.has_repne_prefix) and name[:4] in _STRINGS:
            count = step.value(Register.RCX) - after.value(Register.RCX)
            size = count * {"B": 1, "W": 2, "D": 4, "Q": 8}[name[-1]]
            yield (address, size) if count else (NO_ACCESS, 0)
        elif name in _VECTOR_MASKED:
            element = _VECTOR_MASKED[name]
            yield span(address, step.lanes(i.op1_register, f"<i{element}") < 0, element)
        elif i.has_op_mask:
            count = 1 if kind.is_broadcast else kind.element_count
            bits = (
                kind.element_count if not kind.is_broadcast else RegisterInfo(i.op0_register).size // kind.element_size
            )
            mask = np.array([int(step.masks[RegisterInfo(i.op_mask).number]) >> b & 1 for b in range(bits)], dtype=bool)
            if kind.is_broadcast or count == 1:
                yield (address if mask.any() else NO_ACCESS, kind.element_size)
            elif "COMPRESS" in name or "EXPAND" in name:
                yield (address, int(mask.sum()) * kind.element_size) if mask.any() else (NO_ACCESS, 0)
            else:
                yield span(address, mask, kind.element_size)
        else:
            yield address, kind.element_size if kind.is_broadcast else kind.size


def gathered(i, step: Step, memory, address: int, element: int):
    scatter = "SCATTER" in _NAMES[i.mnemonic]
    data = i.op1_register if scatter else i.op0_register
    index = step.lanes(memory.index, f"<i{memory.vsib_size}")
    lanes = min(RegisterInfo(data).size // element, len(index))
    for lane in range(lanes):
        if i.has_op_mask:
            active = int(step.masks[RegisterInfo(i.op_mask).number]) >> lane & 1
        else:
            active = step.lanes(i.op2_register, f"<i{element}")[lane] < 0
        yield ((address + int(index[lane]) * memory.scale) % 2**64 if active else NO_ACCESS), element


def span(address: int, mask: np.ndarray, element: int):
    active = np.flatnonzero(mask)
    if not active.size:
        return NO_ACCESS, 0
    return address + int(active[0]) * element, int(active[-1] - active[0] + 1) * element


def place(address: int, base: int, stack: int, fs: int, elf: ElfFile) -> tuple[str, int]:
    """Where an address lies, told in a way that does not change from process to process."""
    if address == NO_ACCESS:
        return "none", 0
    if base <= address < base + 0x1000000:
        return "library", address - base
    if abs(address - stack) < 0x100000:
        return "stack", address - stack
    if abs(address - fs) < 0x10000:
        return "thread", address - fs
    return "elsewhere", 0


def told(trace: Trace, elf: ElfFile, function: str, fs: int = 0) -> Truth:
    """The same account of a recorded trace."""
    ids = np.concatenate(list(trace.instructions()))
    entry = elf.functions[function].address
    base = int(trace.code.pc[ids[0]]) - entry
    stack = int(trace.addresses[-1])  # the last access is that of the function's own `ret`
    sizes = trace.access_sizes()
    accesses = [
        (*place(int(address), base, stack, fs, elf), int(size))
        for address, size in zip(trace.addresses, sizes, strict=True)
    ]
    return Truth((trace.code.pc[ids].astype(np.int64) - base).tolist(), accesses)
