"""Generated loops whose bottlenecks are spread over all resources: assembled, decoded and given addresses, never run.

A program is one or two pieces in a loop. Each piece was written to press on one class of resources (`PIECES`), with
random counts, widths and footprints; what the program is bound by is not what it was written for but what
`perfkit.simulators.pmu.credit` finds. Needs GNU as and objcopy (Debian package binutils). For data/make/pmu_runs.py.
"""

import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from iced_x86 import Decoder, Formatter, FormatterSyntax, InstructionInfoFactory, MemorySizeExt, Mnemonic, OpAccess

from perfkit.trace.code import Provenance, StaticCode
from perfkit.trace.trace import Trace

Rng = np.random.Generator
Addresses = Callable[[np.ndarray, Rng], np.ndarray]
LINE, PAGE = 64, 4096
MEMORY = 1 << 20  # lines of a footprint that no cache holds
MOST = 150_000  # instructions of a program
_INTS = (("rax", "rcx", "rdx"), ("rsi", "rdi", "r8"))
_VECTORS = ((0, 1, 2, 3, 4), (5, 6, 7, 8, 9))
_INT_OPS = ("lea {d},[{s}+1]", "mov {d},{s}", "bsf {d},{s}", "rorx {d},{s},7", "imul {d},{s},9", "andn {d},{s},{s}")
_VECTOR_OPS = (
    "vaddpd {v}{d},{v}{s},{v}{s}", "vmulpd {v}{d},{v}{s},{v}{s}", "vfmadd213pd {v}{s},{v}{t},{v}{t}",
    "vpshufd {v}{d},{v}{s},27", "vpaddd {v}{d},{v}{s},{v}{t}", "vpslld {v}{d},{v}{s},3", "vpmulld {v}{d},{v}{s},{v}{t}",
)  # fmt: skip
_CHAINS = (
    "add {r},r12", "imul {r},r12", "lea {r},[{r}+r12*2]", "vaddpd {y},{y},ymm14", "vmulpd {y},{y},ymm14",
    "vfmadd231pd {y},ymm14,ymm15", "vpaddd {y},{y},ymm14", "vpermilps {y},{y},27", "popcnt {r},{r}",
)  # fmt: skip


@dataclass(frozen=True)
class Line:
    """An instruction, where its memory operand lies, and whether a block ends with it (and how it goes on)."""

    text: str
    at: Addresses | None = None
    ends: str = ""  # "", "jump" (always to the next block but one or next), "skip" (over the next block), "indirect"
    chance: float = 0.0


def hot(place: int) -> Addresses:
    """Return an address that stays."""
    return lambda k, _: np.full(len(k), (1 << 20) + 64 * place, dtype=np.int64)


def strided(base: int, stride: int) -> Addresses:
    """Return addresses that go on and on."""
    return lambda k, _: (np.int64(base) << 32) + k * stride


def shifted(at: Addresses, by: int) -> Addresses:
    """Return addresses so many bytes further on."""
    return lambda k, rng: at(k, rng) + by


@dataclass(frozen=True)
class Scattered:
    """Lines of a footprint in random order (or one after the other), each once before any comes again."""

    base: int
    lines: int
    stride: int = LINE
    ordered: bool = False

    def __call__(self, k: np.ndarray, rng: Rng) -> np.ndarray:
        """Return the address of each execution."""
        if self.lines == MEMORY:  # too many to come again
            return (np.int64(self.base) << 32) + rng.integers(0, MEMORY, len(k)) * np.int64(self.stride)
        order = np.arange(self.lines) if self.ordered else rng.permutation(self.lines)
        return (np.int64(self.base) << 32) + order[k % self.lines] * np.int64(self.stride)


def between(rng: Rng, low: int, high: int) -> int:
    """Return a whole number from a range, both ends included."""
    return int(rng.integers(low, high + 1))


def pick(rng: Rng, several: tuple[str, ...] | list[str]) -> str:
    """Return one of them."""
    return several[int(rng.integers(len(several)))]


# ------------------------------------------------------------------ pieces


def chain(rng: Rng, w: int) -> list[Line]:
    """Chains of dependent operations."""
    op, chains, length = pick(rng, _CHAINS), between(rng, 1, 2), between(rng, 3, 10)
    return [
        Line(op.format(r=_INTS[w][c], y=f"ymm{_VECTORS[w][c]}")) for _ in range(length) for c in range(chains)
    ]  # fmt: skip


def width(rng: Rng, w: int) -> list[Line]:
    """As many cheap instructions of different kinds as fit."""
    kinds = [Line("nop"), Line("lea r10,[r12+1]"), Line("vpaddd ymm12,ymm14,ymm15"), Line("nop"), Line("nop")]
    loads = [Line("mov r11,[r14]", hot(w))] if rng.random() < 0.5 else []
    return [line for _ in range(between(rng, 3, 9)) for line in [*kinds[: between(rng, 2, 5)], Line("nop"), *loads]]


def taken(rng: Rng, _w: int) -> list[Line]:
    """Many jumps."""
    lines = []
    for _ in range(between(rng, 4, 12)):
        lines += [Line("nop")] * between(rng, 0, 2) + [Line("jmp {next}", ends="jump"), Line("nop", ends="fall")]
    return lines


def first_level_chain(rng: Rng, w: int) -> list[Line]:
    """Pointers followed in L1."""
    r = _INTS[w][0]
    extra = [Line(f"add {r},r12")] * between(rng, 0, 1)
    return [line for k in range(between(rng, 2, 8)) for line in (Line(f"mov {r},[{r}]", hot(8 * w + k)), *extra)]


def loads(rng: Rng, w: int) -> list[Line]:
    """Independent loads in L1."""
    text = pick(rng, ("mov r10,[r14]", "vmovups ymm12,[r14]", "vmovups xmm12,[r14]", "vaddpd ymm12,ymm14,[r14]"))
    return [Line(text, hot(16 * w + k)) for k in range(between(rng, 8, 20))]


def stores(rng: Rng, w: int) -> list[Line]:
    """Press on stores to L1."""
    text, lines = pick(rng, ("mov [r14],r12", "vmovups [r14],ymm14", "mov [r14],r12b")), between(rng, 1, 12)
    return [Line(text, hot(32 + 16 * w + k % lines)) for k in range(between(rng, 4, 16))]


def forwarding(rng: Rng, w: int) -> list[Line]:
    """Store, load and store again: a chain through memory."""
    y, r, place = _VECTORS[w][0], _INTS[w][0], hot(64 + w)
    if rng.random() < 0.3:
        upper = hot(64 + w)
        two = [Line(f"mov [r14],{r}", place), Line(f"mov [r14+8],{r}", lambda k, g: upper(k, g) + 8)]
        return [*two, Line(f"vmovups xmm{y},[r14]", place), Line(f"vmovq {r},xmm{y}")]
    op = [Line(f"vaddps ymm{y},ymm{y},ymm14")] * between(rng, 0, 1)
    pair = [Line(f"vmovups [r14],ymm{y}", place), Line(f"vmovups ymm{y},[r14]", place), *op]
    return pair * between(rng, 1, 3)


def mispredicted(rng: Rng, _w: int) -> list[Line]:
    """Branches with random outcomes."""
    lines = []
    for _ in range(between(rng, 1, 2)):
        lines += [Line("lea r10,[r12+1]")] * between(rng, 1, 6) + [Line("test r12,r12")]
        lines += [Line("jne {skip}", ends="skip", chance=float(rng.uniform(0.08, 0.5))), Line("nop", ends="fall")]
    return lines


def indirect(rng: Rng, _w: int) -> list[Line]:
    """Jump to one of several places, at random."""
    head = [Line("lea r10,[r12+1]")] * between(rng, 1, 8)
    return [*head, Line("jmp r13", ends="indirect", chance=float(rng.uniform(0.2, 0.7))), Line("nop", ends="fall")]


def _footprint(rng: Rng, w: int, lines: int, base: int) -> list[Line]:
    """Follow pointers, or load independently, in a footprint."""
    if rng.random() < 0.6:
        r = _INTS[w][0]
        return [Line(f"mov {r},[{r}]", Scattered(base, lines)), *[Line("lea r10,[r12+1]")] * between(rng, 0, 6)]
    each, filler = between(rng, 1, 3), between(rng, 0, 10)
    return [Line("mov r10,[r14]", Scattered(base + k, lines // each)) for k in range(each)] + [Line("nop")] * filler


def second_level(rng: Rng, w: int) -> list[Line]:
    """Load what L2 serves."""
    lines = between(rng, 2000, 7000)
    if rng.random() < 0.4:
        each = between(rng, 1, 3)
        return [Line("vmovups ymm12,[r14]", Scattered(20 + k, lines // each)) for k in range(2 * each)]
    return _footprint(rng, w, lines, 20 + 4 * w)


def third_level(rng: Rng, w: int) -> list[Line]:
    """Load what L3 serves."""
    return _footprint(rng, w, between(rng, 40000, 46000), 30 + 4 * w)


def memory_chain(rng: Rng, w: int) -> list[Line]:
    """Load from memory, one after another or a few at once."""
    return _footprint(rng, w, MEMORY, 40 + 4 * w)


def memory_stream(rng: Rng, _w: int) -> list[Line]:
    """Arrays gone through once."""
    arrays, step = between(rng, 1, 4), 32 * between(rng, 1, 2)
    found = [Line("vaddpd ymm12,ymm14,[r14]", strided(50 + k, step)) for k in range(arrays)]
    return found + [Line("vmovups [r14],ymm14", strided(58, step))] * between(rng, 0, 1) + _filler(rng, 0, 12)


def _filler(rng: Rng, low: int, high: int) -> list[Line]:
    kinds = [Line("nop"), Line("lea r10,[r12+1]"), Line("vpaddd ymm12,ymm14,ymm15")]
    return [kinds[k % 3] for k in range(between(rng, low, high))]


def _far(rng: Rng, base: int) -> Addresses:
    """Return addresses in memory, mostly, or in L2."""
    return Scattered(base, MEMORY if rng.random() < 0.75 else between(rng, 1500, 3000))


def window(rng: Rng, _w: int) -> list[Line]:
    """Misses too far apart for the reorder buffer to hold several."""
    at = _far(rng, 60)
    return [Line("mov r10,[r14]", at), *_filler(rng, 60, 220)]


def load_buffer(rng: Rng, _w: int) -> list[Line]:
    """Misses with many loads between them."""
    at = _far(rng, 61)
    return [Line("mov r10,[r14]", at)] + [Line("mov r11,[r14]", hot(k % 16)) for k in range(between(rng, 30, 90))]


def store_buffer(rng: Rng, _w: int) -> list[Line]:
    """Let stores miss, with others behind them."""
    at = Scattered(62, MEMORY)
    each = [Line("mov [r14],r12", at)] + [Line("mov [r14],r12", hot(k % 4)) for k in range(between(rng, 6, 40))]
    return each + _filler(rng, 0, 20)


def fill_buffers(rng: Rng, _w: int) -> list[Line]:
    """Arrays gone through backwards: misses that no prefetched line spares, more than there are fill buffers."""
    each = between(rng, 2, 8)
    return [Line("mov r10,[r14]", strided(70 + k, -LINE)) for k in range(each)] + _filler(rng, 0, 6)


def waiting_vectors(rng: Rng, w: int) -> list[Line]:
    """Long sequences of vector operations that wait for a load."""
    y, at = _VECTORS[w][0], _far(rng, 63)
    op = pick(rng, ("vaddpd", "vmulpd", "vpaddd"))
    chain_of = [Line(f"{op} ymm{y},ymm{y},ymm14") for _ in range(between(rng, 6, 30))]
    return [Line(f"vmovups ymm{y},[r14]", at), *chain_of]


def pages(rng: Rng, w: int) -> list[Line]:
    """One line of each of many pages."""
    count, r = between(rng, 4000, 9000) if rng.random() < 0.7 else between(rng, 400, 1500), _INTS[w][0]
    at = Scattered(64, count, PAGE + LINE)
    return [Line(f"mov {r},[{r}]" if rng.random() < 0.8 else "mov r10,[r14]", at), *_filler(rng, 0, 10)]


def division(rng: Rng, _w: int) -> list[Line]:
    """Independent divisions."""
    kind = between(rng, 0, 3)
    if kind == 0:
        return [Line("mov eax,r12d"), Line("xor edx,edx"), Line("div r12d")] * between(rng, 1, 3) + _filler(rng, 0, 8)
    text = ("vdivpd ymm12,ymm14,ymm15", "vsqrtpd ymm12,ymm14", "vdivsd xmm12,xmm14,xmm15")[kind - 1]
    return [Line(text)] * between(rng, 1, 3) + _filler(rng, 0, 12)


def integers(rng: Rng, _w: int) -> list[Line]:
    """Independent integer operations."""
    ops = [pick(rng, _INT_OPS[:1] + _INT_OPS[2:]) for _ in range(between(rng, 1, 3))]
    return [Line(ops[k % len(ops)].format(d=("r10", "r11")[k % 2], s="r12")) for k in range(between(rng, 6, 20))]


def vectors(rng: Rng, _w: int) -> list[Line]:
    """Independent vector operations."""
    ops = [op for op in (pick(rng, _VECTOR_OPS) for _ in range(between(rng, 1, 3))) if "213" not in op]
    ops, v = ops or ["vaddpd {v}{d},{v}{s},{v}{s}"], pick(rng, ("xmm", "ymm"))
    return [Line(ops[k % len(ops)].format(v=v, d=11 + k % 3, s=14, t=15)) for k in range(between(rng, 6, 20))]


def far_stores(rng: Rng, _w: int) -> list[Line]:
    """Store to what L2 or L3 holds: one or several stores to a line, or lines of several arrays in turn."""
    lines = between(rng, 2000, 7000) if rng.random() < 0.7 else between(rng, 40000, 46000)
    text = pick(rng, ("mov [r14],r12", "mov [r14],r12d", "vmovups [r14],xmm14", "vmovups [r14],ymm14"))
    ordered, several, most = rng.random() < 0.7, rng.random() < 0.4, 2 if "ymm" in text else 4
    each = between(rng, 1, most)
    if several and ordered:
        at = Scattered(66, lines, ordered=True)
        body = [Line(text, shifted(at, LINE // most * k)) for k in range(each)]
        return [Line(text, at), *body[1:], *_filler(rng, 0, 8)]
    return [Line(text, Scattered(66 + k, lines // each, ordered=ordered)) for k in range(each)] + _filler(rng, 0, 8)


PIECES: tuple[Callable[[Rng, int], list[Line]], ...] = (
    chain, width, taken, first_level_chain, loads, stores, forwarding, mispredicted, indirect, division, integers,
    vectors, second_level, third_level, memory_chain, memory_stream, window, load_buffer, store_buffer, fill_buffers,
    waiting_vectors, pages,
)  # fmt: skip
EVERYWHERE = PIECES[:12]  # pieces that stay in L1
EACH = 23  # programs that begin with each of the pieces
LATER = (far_stores,)  # their programs come after all others, which stay as they are


@dataclass(frozen=True)
class Loop:
    """A generated program: its trace, and whether caches are warm before it is timed."""

    name: str
    trace: Trace
    warm: bool


def generate(number: int, seed: int) -> Loop:
    """Return generated program ``number``: its first piece goes round `PIECES`, then `LATER`; a second one is drawn."""
    rng = np.random.default_rng([seed, number])
    pieces = PIECES if number < EACH * len(PIECES) else LATER
    first = pieces[number % len(pieces)]
    second = EVERYWHERE[int(rng.integers(len(EVERYWHERE)))] if rng.random() < 0.35 else None
    lines = first(rng, 0) + (second(rng, 1) if second is not None and second is not first else [])
    name = f"loop-{number:04d}"
    cold = first in (memory_stream, fill_buffers) or _footprint_of(lines) == MEMORY
    return Loop(name, _trace(name, lines, rng, first.__name__), not cold)


def _trace(name: str, lines: list[Line], rng: Rng, piece: str) -> Trace:
    blocks = _blocks([*lines, Line("dec r15"), Line("jnz {first}", ends="skip", chance=1.0)])
    code = _decoded([[line.text for line in block] for block in blocks])
    executed, footprint = sum(map(len, blocks)), _footprint_of(lines)
    iterations = int(np.clip(12_000 / executed, 80, 4000))
    if footprint != MEMORY:  # go through all of it, and a little more
        iterations = max(iterations, min(footprint + 500, MOST // executed))
    stream = _stream(blocks, iterations, rng)
    return Trace.from_parts(
        code, stream, _addresses(blocks, stream, rng), provenance=Provenance(workload=name, function=piece)
    )


def _footprint_of(lines: list[Line]) -> int:
    """Return the lines of the largest footprint that is gone through at random; 0 where there is none."""
    return max((line.at.lines for line in lines if isinstance(line.at, Scattered)), default=0)


def _blocks(lines: list[Line]) -> list[list[Line]]:
    blocks: list[list[Line]] = [[]]
    for line in lines:
        blocks[-1].append(line)
        if line.ends:
            blocks.append([])
    return [block for block in blocks if block]


def _stream(blocks: list[list[Line]], iterations: int, rng: Rng) -> np.ndarray:
    """Return which blocks are executed."""
    found = []
    for _ in range(iterations):
        k = 0
        while k < len(blocks):
            found.append(k)
            end = blocks[k][-1]
            jumps = end.ends == "jump" or (end.ends in ("skip", "indirect") and rng.random() < end.chance)
            k += 2 if jumps and k + 2 < len(blocks) else 1
    return np.array(found, dtype=np.uint32)


def _addresses(blocks: list[list[Line]], stream: np.ndarray, rng: Rng) -> np.ndarray:
    runs = np.bincount(stream, minlength=len(blocks))
    tables = []
    for block, count in zip(blocks, runs, strict=True):
        columns = [line.at(np.arange(count), rng) for line in block if line.at is not None]
        tables.append(np.stack(columns, axis=1) if columns else np.zeros((count, 0), dtype=np.int64))
    done = np.zeros(len(blocks), dtype=np.int64)
    parts = []
    for k in stream.tolist():
        if tables[k].shape[1]:
            parts.append(tables[k][done[k]])
            done[k] += 1
    return np.concatenate(parts).astype(np.uint64) if parts else np.zeros(0, dtype=np.uint64)


def _decoded(blocks: list[list[str]]) -> StaticCode:
    """Assemble blocks; each label is the beginning of its block."""
    text = []
    for k, block in enumerate(blocks):
        text.append(f"L{k}:")
        after = {"next": f"L{min(k + 2, len(blocks) - 1)}", "skip": f"L{min(k + 2, len(blocks) - 1)}", "first": "L0"}
        text += [line.format(**after) for line in block]
    raw = _assembled("\n".join(text))
    show, factory, base = Formatter(FormatterSyntax.INTEL), InstructionInfoFactory(), 0x400000
    decoded = list(Decoder(64, raw, ip=base))
    start, read, write, size = [0], [], [], []
    for instruction in decoded:
        if instruction.mnemonic not in (Mnemonic.LEA, Mnemonic.NOP):
            for memory in factory.info(instruction).used_memory():
                both = (OpAccess.READ_WRITE, OpAccess.READ_COND_WRITE)
                read.append(memory.access in (OpAccess.READ, *both))
                write.append(memory.access in (OpAccess.WRITE, *both))
                size.append(MemorySizeExt.size(memory.memory_size))
        start.append(len(size))
    return StaticCode(
        "x86-64",
        pc=[i.ip for i in decoded],
        encoding=[raw[i.ip - base : i.ip - base + i.len] for i in decoded],
        text=[show.format(i) for i in decoded],
        function=["f"] * len(decoded),
        block_start=np.concatenate(([0], np.cumsum([len(block) for block in blocks]))).tolist(),
        operand_start=start,
        read=read,
        write=write,
        size=size,
    )


def _assembled(text: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        source, obj, raw = (Path(folder) / f"code.{end}" for end in ("s", "o", "bin"))
        source.write_text(f".intel_syntax noprefix\n{text}\n", encoding="utf-8")
        subprocess.run(["as", "-o", obj, source], check=True, capture_output=True)
        subprocess.run(["objcopy", "-O", "binary", "-j", ".text", obj, raw], check=True, capture_output=True)
        return raw.read_bytes()
