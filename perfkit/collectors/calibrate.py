"""Measure this host's instruction latencies and throughputs, caches and memory with the time stamp counter.

No hardware counter is needed: a chain of dependent additions runs at one addition a cycle, so timing it in time stamp
ticks gives the length of a cycle; everything else is measured in ticks and divided by it. Each time is the smallest
of many short windows, because other load on the host can only lengthen a window, between two measurements of the
clock that agree; each figure is the median of three such.

The code that is timed is assembled here by iced-x86, runs in a child process, and never leaves its own buffers.
"""

from __future__ import annotations

import ctypes
import faulthandler
import json
import math
import mmap
import os
import platform
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from perfkit.errors import SettingError, UnavailableError
from perfkit.instruction_tables import InstructionTables, write_overlay
from perfkit.microarchitecture import InstructionForm, Microarchitecture

if TYPE_CHECKING:
    import pandas as pd

HUGE = 2 << 20  # bytes of a huge page
CHAIN = 256  # dependent additions in one pass of the clock chain
PASSES = 3  # times that every form is measured, apart from one another: a burst of other load spoils one of them
ATTEMPTS = 40  # to find a window in which the length of a cycle holds
DRIFT = 0.02  # by which it may change within one
BODY = 48  # instructions in one pass of a measured loop
ALIKE = 0.06  # relative difference under which the host and a table agree


@dataclass(frozen=True)
class Calibration:
    """What was measured on this host.

    Parameters
    ----------
    host
        Processor, kernel, date.
    cycle_seconds
        Seconds of a core cycle while measuring.
    latencies, throughputs
        Form -> cycles from operand to result, cycles per instruction.
    resources
        Name of a core's resource -> measured value, in the resource's unit.
    """

    host: Mapping[str, str]
    cycle_seconds: float
    latencies: Mapping[str, float]
    throughputs: Mapping[str, float]
    resources: Mapping[str, float]

    def compare(self, core: Microarchitecture) -> pd.DataFrame:
        """Return measured beside tabulated: form or resource, what, cycles, seconds, the core's figure, differs."""
        import pandas as pd

        tables = InstructionTables.load(core)
        rows: list[tuple[str, str, float, float]] = []
        for form, cycles in self.latencies.items():
            known = tables.form(form)
            rows.append((form, "latency", cycles, _total_latency(known)))
        for form, cycles in self.throughputs.items():
            known = tables.form(form)
            front = known.fused_uops * core.resource("front_end").inverse_throughput
            rows.append((form, "cycles per instruction", cycles, max(known.inverse_throughput(core), front)))
        for name, value in self.resources.items():
            if name in core.resources:
                rows.append((name, core.resource(name).unit, value, core.value(name)))
        frame = pd.DataFrame(rows, columns=["name", "what", "measured", "table"])
        timed = frame["what"].isin(["latency", "cycles per instruction", "cycles"])
        frame["seconds"] = np.where(timed, frame["measured"] * self.cycle_seconds, np.nan)
        frame["differs"] = (frame["measured"] - frame["table"]).abs() > ALIKE * frame["table"].abs() + 0.02
        return frame

    def overlay(self, core: Microarchitecture) -> dict[str, dict[str, float]]:
        """Return the figures in which this host differs from the core's tables: form -> what to change."""
        frame = self.compare(core)
        tables = InstructionTables.load(core)
        changes: dict[str, dict[str, float]] = {}
        for name, what, measured in zip(frame["name"], frame["what"], frame["measured"], strict=True):
            known = tables.form(name) if name in self.latencies or name in self.throughputs else None
            if known is None or not bool(
                frame.loc[(frame["name"] == name) & (frame["what"] == what), "differs"].iloc[0]
            ):
                continue
            if what == "latency":
                if known.loads:
                    changes.setdefault(name, {})["address_latency"] = _tidy(measured - known.memory_latency)
                else:
                    changes.setdefault(name, {})["latency"] = _tidy(measured)
                    with_load = f"{name}/m"  # the same operation after a load
                    if tables.form(with_load).source == "llvm":
                        changes.setdefault(with_load, {}).update(
                            latency=_tidy(measured), memory_latency=_tidy(measured)
                        )
            elif known.uses and measured > known.fused_uops * core.resource("front_end").inverse_throughput + 0.02:
                changes.setdefault(name, {})["inverse_throughput"] = _tidy(measured)
        return changes

    def save_overlay(self, path: str | Path, core: Microarchitecture) -> Path:
        """Write the differences as an overlay (TOML) for `InstructionTables.load(core, calibration=path)`."""
        title = f"perfkit calibrate on {self.host['processor']}, {self.host['date']}"
        header = [f"{key}: {value}" for key, value in self.host.items()]
        resources = {name: float(f"{value:.4g}") for name, value in self.resources.items() if name in core.resources}
        write_overlay(path, core.name, title, self.overlay(core), header, resources)
        return Path(path)

    def to_json(self) -> str:
        """Return everything as JSON text."""
        fields = ("host", "cycle_seconds", "latencies", "throughputs", "resources")
        return json.dumps({name: _plain(getattr(self, name)) for name in fields}, indent=1)


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value


def _total_latency(form: InstructionForm) -> float:
    """Return cycles from the registers that the measured chain goes through to the result."""
    return form.address_latency + form.memory_latency if form.loads else form.latency


def _tidy(value: float) -> float:
    """Round to a whole number of cycles where the measurement is within 6 % of one, else to 0.01."""
    whole = round(value)
    return float(whole) if whole and abs(value - whole) <= ALIKE * whole else round(value, 2)


def host_core() -> str | None:
    """Return the name of the bundled core that this host is, None where it is none of them."""
    info = _cpuinfo()
    family, model = int(info.get("cpu family", -1)), int(info.get("model", -1))
    if info.get("vendor_id") == "GenuineIntel" and family == 6:
        known = {42: "sandy_bridge", 45: "sandy_bridge", 85: "skylake_x", 106: "ice_lake", 108: "ice_lake"}
        known |= {125: "ice_lake", 126: "ice_lake", 151: "alder_lake_p", 154: "alder_lake_p", 183: "alder_lake_p"}
        return known.get(model)
    if info.get("vendor_id") == "AuthenticAMD" and family == 26:
        return "zen5"
    if info.get("vendor_id") == "AuthenticAMD" and family == 25:
        return "zen4" if 0x10 <= model <= 0x1F or 0x60 <= model <= 0x7F or 0xA0 <= model <= 0xAF else "zen3"
    return None


@cache
def _cpuinfo() -> dict[str, str]:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return {}
    lines = [line.partition(":") for line in text.split("\n\n")[0].splitlines()]
    return {key.strip(): value.strip() for key, _, value in lines}


def calibrate(
    forms: Iterable[str] | None = None,
    repetitions: int = 25,
    memory: bool = True,
    cpu: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Calibration:
    """Measure this host.

    Parameters
    ----------
    forms
        The instruction forms to measure (register forms and loads); None: some two hundred common ones.
    repetitions
        Windows per figure; the smallest counts.
    memory
        Whether to measure cache and memory latencies and bandwidths too (a few seconds).
    cpu
        The CPU to run on; None: the one the process is on.
    progress
        Called with (done, all) after each form.

    Raises
    ------
    UnavailableError
        The host is not x86-64 Linux, or a form crashed (its name is in the message).
    """
    if platform.machine() not in ("x86_64", "AMD64") or not hasattr(os, "fork"):
        raise UnavailableError("perfkit calibrate measures x86-64 Linux hosts only")
    if repetitions < 3:
        raise SettingError(f"repetitions: at least 3 are needed, not {repetitions}")
    info = _cpuinfo()
    wanted = list(forms) if forms is not None else common_forms(info.get("flags", "").split())
    work = _Work(tuple(wanted), repetitions, memory, cpu)
    result = _in_child(work, progress)
    host = {
        "processor": info.get("model name", platform.processor()),
        "hypervisor": "yes" if "hypervisor" in info.get("flags", "").split() else "no",
        "kernel": platform.release(),
        "date": time.strftime("%Y-%m-%d"),
    }
    return Calibration(MappingProxyType(host), **{key: result[key] for key in result})


# --- what is measured ------------------------------------------------------------------------------------------------

_GPR = (
    "ADD SUB AND OR XOR CMP TEST MOV IMUL MOVZX MOVSX MOVSXD POPCNT LZCNT TZCNT ANDN BLSR CMOVE BSWAP NOT NEG INC DEC"
)
_SHIFTS = "SHL SHR SAR ROL ROR SHLX SHRX SARX RORX"
_FLOAT = "ADD SUB MUL DIV SQRT MIN MAX AND XOR FMADD231 FMADD213 FNMADD231 UNPCKL SHUF BLENDV"
_INTEGER = (
    "PADDD PADDQ PSUBD PMULLD PMULUDQ PMADDWD PAND POR PXOR PCMPEQD PCMPGTD PSHUFB PSHUFD PUNPCKLDQ PSLLD PSRLD "
    "PALIGNR PACKUSDW PMAXSD PMINSD PABSD PSADBW PERMD PERMQ PERM2F128 PERMILPS PERMILPD BROADCASTSS BROADCASTSD "
    "EXTRACTF128 INSERTF128 MOVDDUP MOVSHDUP BLENDPS BLENDPD ROUNDPS ROUNDPD CVTDQ2PS CVTTPS2DQ PBLENDD ADDSUBPD HADDPD"
)
# Extensions, as iced-x86 names them, and the flag of /proc/cpuinfo that says the host has them.
_FLAGS = {
    "AVX": "avx",
    "AVX2": "avx2",
    "FMA": "fma",
    "BMI1": "bmi1",
    "BMI2": "bmi2",
    "LZCNT": "abm",
    "POPCNT": "popcnt",
}
_FLAGS |= {"AVX512F": "avx512f", "AVX512VL": "avx512vl", "AVX512DQ": "avx512dq", "AVX512BW": "avx512bw"}
_FLAGS |= {"INTEL8086": "", "INTEL386": "", "X64": "", "INTEL186": "", "CMOV": "cmov", "SSE2": "sse2", "INTEL486": ""}


def common_forms(flags: Iterable[str]) -> list[str]:
    """Return the forms that `calibrate` measures on a host with these /proc/cpuinfo flags."""
    import iced_x86

    from perfkit.decode import code_names

    have = {"", *flags}
    features = {value: key for key, value in vars(iced_x86.CpuidFeature).items() if isinstance(value, int)}
    scalars = {f"{op}_R64_RM64" for op in _GPR.split()} | {f"{op}_R32_RM32" for op in ("ADD", "IMUL", "MOV")}
    scalars |= {f"{op}_RM64_{kind}" for op in (*_GPR.split(), *_SHIFTS.split()) for kind in ("IMM8", "R64", "1")}
    scalars |= {f"{op}_RM64" for op in ("NOT", "NEG", "INC", "DEC")} | {"BSWAP_R64", "IMUL_R64_RM64_IMM8"}
    scalars |= {f"VEX_{op}_R64_RM64_R64" for op in _SHIFTS.split()} | {
        "VEX_RORX_R64_RM64_IMM8",
        "VEX_ANDN_R64_R64_RM64",
    }
    stems = {f"V{op}{kind}" for op in _FLOAT.split() for kind in ("PS", "PD", "SS", "SD")}
    stems |= {f"V{op}" for op in _INTEGER.split()}
    chosen = []
    for code, name in sorted(code_names().items(), key=lambda item: item[1]):
        vector = name.startswith(("VEX_", "EVEX_")) and name.split("_")[1] in stems
        if vector and name.startswith("EVEX_") and "ZMM" not in name:
            continue
        if not vector and name not in scalars:
            continue
        blank = iced_x86.Instruction()
        blank.code = code  # type: ignore[assignment]
        extensions = [features[feature] for feature in blank.cpuid_features()]
        if all(_FLAGS.get(extension, "unknown") in have for extension in extensions):
            chosen.append(name)
    return [*chosen, "MOV_R64_RM64/m", "LEA_R64_M/m", "LEA_R64_M/m2", "LEA_R64_M/m3"]


@dataclass(frozen=True)
class _Work:
    forms: tuple[str, ...]
    repetitions: int
    memory: bool
    cpu: int | None


def _in_child(work: _Work, progress: Callable[[int, int], None] | None) -> dict[str, Any]:
    """Run the measurements in a forked child, which may crash without taking the caller with it."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(reading)
            faulthandler.disable()  # a form that crashes is reported by the parent, by name
            with os.fdopen(writing, "w") as pipe:

                def say(kind: str, value: Any) -> None:
                    pipe.write(json.dumps([kind, value]) + "\n")
                    pipe.flush()

                try:
                    say("result", _measure_all(work, say))
                except Exception as error:  # noqa: BLE001 - the caller, not this process, must hear of it
                    say("error", f"{type(error).__name__}: {error}")
            status = 0
        finally:
            os._exit(status)
    os.close(writing)
    last, result, problem, done = "the clock", None, None, 0
    with os.fdopen(reading) as pipe:
        for line in pipe:
            kind, value = json.loads(line)
            if kind == "form":
                last, done = value, done + 1
                if progress is not None:
                    progress(done, len(work.forms))
            elif kind == "result":
                result = value
            else:
                problem = value
    _, status = os.waitpid(child, 0)
    if problem is not None:
        raise UnavailableError(f"measuring {last} failed: {problem}")
    if result is None:
        raise UnavailableError(f"measuring {last} ended the measuring process (status {status}); leave this form out")
    return dict(result)


def _measure_all(work: _Work, say: Callable[[str, Any], None]) -> dict[str, Any]:
    if work.cpu is not None:
        os.sched_setaffinity(0, {work.cpu})
    bench = _Bench(work.repetitions)
    latencies: dict[str, list[float]] = {}
    throughputs: dict[str, list[float]] = {}
    for turn in range(PASSES):
        for form in work.forms:
            if turn == 0:
                say("form", form)
            latency, throughput = bench.form(form)
            if latency is not None:
                latencies.setdefault(form, []).append(latency)
            if throughput is not None:
                throughputs.setdefault(form, []).append(throughput)
    resources = bench.core_resources()
    if work.memory:
        resources |= bench.memory_resources()
    return {
        "cycle_seconds": bench.cycle_seconds(),
        "latencies": {form: float(np.median(values)) for form, values in latencies.items()},
        "throughputs": {form: float(np.median(values)) for form, values in throughputs.items()},
        "resources": resources,
    }


class _Bench:
    """Assembles loops, times them in ticks, and divides by the ticks of a dependent addition."""

    def __init__(self, repetitions: int) -> None:
        self.repetitions = repetitions
        self.code = mmap.mmap(-1, 1 << 16, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.code))
        self.data = np.zeros(1 << 13, dtype=np.uint64)
        self.base = (self.data.ctypes.data + 4095) & ~4095
        self.data[(self.base - self.data.ctypes.data) // 8] = self.base  # a pointer chase of one place
        self.ticks_per_cycle = math.inf
        chain = _assemble(_chain)
        self.chain = chain
        self._refresh()

    def _refresh(self) -> None:
        """Measure the length of a cycle again: the host may have changed its frequency."""
        long, short = self._time(self.chain, 24), self._time(self.chain, 8)
        self.ticks_per_cycle = (long - short) / (16 * CHAIN)

    def _load(self, code: bytes) -> Any:
        self.code.seek(0)
        self.code.write(code)
        return ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64)(self.address)

    def _time(self, code: bytes, passes: int, base: int | None = None) -> float:
        function = self._load(code)
        base = self.base if base is None else base
        function(passes, base)
        return float(min(function(passes, base) for _ in range(self.repetitions)))

    def cycles(self, body: Callable[[Any], list[Any]], count: int) -> float:
        """Return cycles per one of the `count` instructions of the loop's body, loop overhead subtracted.

        The clock is measured before and after; where the two differ by more than 2 %, the frequency changed in
        between and the measurement is repeated.
        """
        code = _assemble(body)
        passes = 24

        def ticks() -> float:
            return (self._time(code, 3 * passes) - self._time(code, passes)) / (2 * passes * count)

        return self._in_cycles(ticks)

    def _in_cycles(self, ticks: Callable[[], float]) -> float:
        self._refresh()
        for _ in range(ATTEMPTS):
            before = self.ticks_per_cycle
            found = ticks()
            self._refresh()
            if found > 0 and abs(self.ticks_per_cycle / before - 1) < DRIFT:
                return 2 * found / (before + self.ticks_per_cycle)
        raise UnavailableError(
            f"the length of a cycle changed by more than {DRIFT:.0%} in each of {ATTEMPTS} attempts; "
            "run on a quieter host, or pin the frequency"
        )

    def form(self, form: str) -> tuple[float | None, float | None]:
        """Return latency (None where operand and result cannot be chained) and cycles per instruction of a form."""
        self._fill("PS" if re.search(r"[PS]S(_|$)", form) else "PD")
        chained, independent = _chained(form), _independent(form)
        latency = self.cycles(lambda _: chained * (BODY // len(chained)), BODY // len(chained)) if chained else None
        throughput = None
        if independent:
            many = independent * max(BODY // len(independent), 1)
            throughput = self.cycles(lambda _: many, len(many))
        return latency, throughput

    def _fill(self, kind: str) -> None:
        """Fill the vector registers' source with numbers just above one: no chain leaves the normal numbers."""
        line = (self.base - self.data.ctypes.data) // 8 + 8
        one = {"PS": 0x3F80_0001_3F80_0001, "PD": 0x3FF0_0000_1000_0001}[kind]
        self.data[line : line + 8] = one

    def cycle_seconds(self) -> float:
        """Return seconds per core cycle: ticks per cycle over ticks per second."""
        start, first = time.perf_counter(), self._stamp()
        time.sleep(0.05)
        end, last = time.perf_counter(), self._stamp()
        return self.ticks_per_cycle * (end - start) / (last - first)

    def _stamp(self) -> int:
        return int(self._load(_stamp_code())(0, self.base))

    def core_resources(self) -> dict[str, float]:
        """Return front-end width and store-forward latencies."""
        iced = _iced()
        width = 1 / self.cycles(lambda _: [iced.Instruction.create(iced.Code.NOPD)] * 96, 96)
        rsi = iced.MemoryOperand(iced.Register.RSI)
        rax, ymm = iced.Register.RAX, iced.Register.YMM0
        code = iced.Code
        scalar = [
            iced.Instruction.create_mem_reg(code.MOV_RM64_R64, rsi, rax),
            iced.Instruction.create_reg_mem(code.MOV_R64_RM64, rax, rsi),
        ]
        vector = [
            iced.Instruction.create_mem_reg(code.VEX_VMOVUPS_YMMM256_YMM, rsi, ymm),
            iced.Instruction.create_reg_mem(code.VEX_VMOVUPS_YMM_YMMM256, ymm, rsi),
        ]
        found = {"front_end": width, "store_forward_latency": self.cycles(lambda _: scalar * 16, 16)}
        if "avx" in _cpuinfo().get("flags", "").split():
            found["vector_store_forward_latency"] = self.cycles(lambda _: vector * 16, 16)
        return found

    def memory_resources(self) -> dict[str, float]:
        """Return latencies (pointer chase over shuffled lines) and bandwidths (vector loads) of every level."""
        iced = _iced()
        found = {}
        sizes = _cache_sizes()
        rsi = iced.Register.RSI
        step = iced.Instruction.create_reg_mem(iced.Code.MOV_R64_RM64, rsi, iced.MemoryOperand(rsi))
        chase = _assemble(lambda _: [step] * 32)
        third = min(4 * sizes[1], sizes[2] // 2)
        wanted = {"L1": sizes[0] // 2, "L2": sizes[1] // 2, "L3": third, "memory": 256 << 20}
        levels = {level: 1 << (size.bit_length() - 1) for level, size in wanted.items()}
        for level, size in levels.items():
            block = mmap.mmap(-1, size + HUGE)
            if hasattr(mmap, "MADV_HUGEPAGE"):  # so that caches are measured, not the translation of addresses
                block.madvise(mmap.MADV_HUGEPAGE)
            memory = np.frombuffer(block, dtype=np.uint64)
            base = (memory.ctypes.data + HUGE - 1) & ~(HUGE - 1)
            offset = (base - memory.ctypes.data) // 8
            lines = size // 64
            order = np.random.default_rng(0).permutation(lines)
            memory[offset + order * 8] = base + np.roll(order, -1).astype(np.uint64) * np.uint64(64)
            passes = max(min(lines // 32, 4096), 16)
            self._time(chase, passes, base)
            found[f"{level}_latency"] = self._in_cycles(lambda: self._time(chase, passes, base) / (passes * 32))  # noqa: B023
            memory[:] = 0
            found[f"{level}_bandwidth"] = self._bandwidth(base, size)
        return found

    def _bandwidth(self, base: int, size: int) -> float:
        iced = _iced()
        r = iced.Register
        wide = "avx512f" in _cpuinfo().get("flags", "").split()
        code = iced.Code.EVEX_VMOVUPS_ZMM_K1Z_ZMMM512 if wide else iced.Code.VEX_VMOVUPS_YMM_YMMM256
        step, first = (64, r.ZMM0) if wide else (32, r.YMM0)
        unroll = 32
        memory, make, code_of = iced.MemoryOperand, iced.Instruction, iced.Code
        loads = [make.create_reg_mem(code, first + k % 8, memory(r.RSI, r.RDX, 1, k * step, 8)) for k in range(unroll)]
        # The offset in rdx wraps at the size, a power of two: a small level is read many times in one window.
        advance = [
            make.create_reg_i32(code_of.ADD_RM64_IMM32, r.RDX, unroll * step),
            make.create_reg_i32(code_of.AND_RM64_IMM32, r.RDX, size - 1),
        ]
        stream = _assemble(lambda _: [*loads, *advance])
        passes = max(size, 1 << 20) // (unroll * step)
        self._time(stream, passes, base)
        return passes * unroll * step / self._in_cycles(lambda: self._time(stream, passes, base))


def _cache_sizes() -> list[int]:
    """Return bytes of the data caches by level, from sysfs; 32 KiB, 256 KiB, 8 MiB where it is silent."""
    found = {1: 32 << 10, 2: 256 << 10, 3: 8 << 20}
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        if (index / "type").read_text(encoding="utf-8").strip() != "Instruction":
            text = (index / "size").read_text(encoding="utf-8").strip()
            scale = {"K": 1 << 10, "M": 1 << 20}.get(text[-1], 1)
            found[int((index / "level").read_text(encoding="utf-8"))] = int(text.rstrip("KM")) * scale
    return [found[1], found[2], found[3]]


# --- assembling ------------------------------------------------------------------------------------------------------


def _iced() -> Any:
    try:
        import iced_x86
    except ImportError as error:
        raise UnavailableError("perfkit calibrate needs iced-x86: pip install 'perfkit[trace]'") from error
    return iced_x86


def _chain(iced: Any) -> list[Any]:
    r = iced.Register
    return [iced.Instruction.create_reg_reg(iced.Code.ADD_RM64_R64, r.RAX, r.RCX)] * CHAIN


def _stamp_code() -> bytes:
    # lfence; rdtsc; lfence; shl rdx, 32; or rax, rdx; ret
    return bytes.fromhex("0faee8 0f31 0faee8 48c1e220 4809d0 c3".replace(" ", ""))


def _assemble(body: Callable[[Any], list[Any]]) -> bytes:
    """Return ticks(passes in rdi, memory in rsi): a loop of `body`, timed between two serialised time stamps.

    rdi counts (and is free to no one); rbx, rbp and r12..r15 are saved; r15 and r14 hold the first time stamp.
    """
    iced = _iced()
    r, code, make = iced.Register, iced.Code, iced.Instruction
    saved = (r.RBX, r.RBP, r.R12, r.R13, r.R14, r.R15)
    out = [make.create_reg(code.PUSH_R64, register) for register in saved]
    out += [make.create(code.LFENCE), make.create(code.RDTSC), make.create(code.LFENCE)]
    out += [make.create_reg_u32(code.SHL_RM64_IMM8, r.RDX, 32), make.create_reg_reg(code.OR_R64_RM64, r.RAX, r.RDX)]
    out.append(make.create_reg_reg(code.MOV_R64_RM64, r.R15, r.RAX))
    for register in (r.RAX, r.RCX, r.RDX, r.RBX, r.RBP, r.R8, r.R9, r.R10, r.R11, r.R12, r.R13, r.R14):
        out.append(make.create_reg_i32(code.MOV_RM64_IMM32, register, 0 if register == r.RDX else 1))
    out.append(make.create_reg_reg(code.MOV_R64_RM64, r.RAX, r.RSI))
    flags = _cpuinfo().get("flags", "").split()
    numbers = iced.MemoryOperand(r.RSI, displ=64, displ_size=1)
    for k in range(15 if "avx" in flags else 0):
        wide, narrow = code.EVEX_VMOVUPS_ZMM_K1Z_ZMMM512, code.VEX_VMOVUPS_YMM_YMMM256
        load = (wide, r.ZMM0 + k) if "avx512f" in flags else (narrow, r.YMM0 + k)
        out.append(make.create_reg_mem(*load, numbers))
    measured = [instruction.copy() for instruction in body(iced)]
    legacy = all(iced.OpCodeInfo(one.code).encoding == iced.EncodingKind.LEGACY for one in measured)
    if legacy and "avx" in flags:  # legacy SSE merges with upper halves that are in use: a cycle more on some cores
        out.append(make.create(code.VEX_VZEROUPPER))
    start = len(out)
    out += measured
    out.append(make.create_reg(code.DEC_RM64, r.RDI))
    out.append(make.create_branch(code.JNE_REL32_64, 0x100000))
    out += [make.create(code.RDTSCP), make.create(code.LFENCE)]
    out += [make.create_reg_u32(code.SHL_RM64_IMM8, r.RDX, 32), make.create_reg_reg(code.OR_R64_RM64, r.RAX, r.RDX)]
    out.append(make.create_reg_reg(code.SUB_R64_RM64, r.RAX, r.R15))
    if "avx" in flags:
        out.append(make.create(code.VEX_VZEROUPPER))
    out += [make.create_reg(code.POP_R64, register) for register in reversed(saved)]
    out.append(make.create(code.RETNQ))
    for instruction in out:
        instruction.ip = 0
    out[start].ip = 0x100000
    encoder = iced.BlockEncoder(64)
    encoder.add_many(out)
    return bytes(encoder.encode(0x200000))


# Registers a measured instruction may use: rdi counts, rsi points to memory, r15 holds the time, rsp is the stack.
_POOLS = {
    "R8": ("AL", "DL", "BL", "R8L", "R9L", "R10L", "R11L", "R12L", "R13L", "R14L"),
    "R32": ("EAX", "EDX", "EBX", "R8D", "R9D", "R10D", "R11D", "R12D", "R13D", "R14D"),
    "R64": ("RAX", "RDX", "RBX", "R8", "R9", "R10", "R11", "R12", "R13", "R14"),
    "XMM": tuple(f"XMM{k}" for k in range(13)),
    "YMM": tuple(f"YMM{k}" for k in range(13)),
    "ZMM": tuple(f"ZMM{k}" for k in range(13)),
}
# Two constant sources: the same register twice would be a zero idiom.
_SOURCES = {"R8": ("CL", "BPL"), "R32": ("ECX", "EBP"), "R64": ("RCX", "RBP")}
_SOURCES |= {stem: (f"{stem}13", f"{stem}14") for stem in ("XMM", "YMM", "ZMM")}


def _instruction(form: str, destination: int, chained: bool) -> Any | None:
    """Return one instruction of a form: its destination from the pool; sources constant, or the destination too."""
    iced = _iced()
    name, *suffixes = form.split("/")
    instruction = iced.Instruction()
    instruction.code = getattr(iced.Code, name)
    kinds = {value: key for key, value in vars(iced.OpCodeOperandKind).items() if isinstance(value, int)}
    linked = False
    classes: list[str] = []
    for index, kind in enumerate(kinds[kind] for kind in iced.OpCodeInfo(instruction.code).op_kinds()):
        stem = kind.split("_")[0]
        if kind == "MEM" and not suffixes:
            return None
        if kind == "MEM" or ("_OR_MEM" in kind and suffixes and suffixes[0].startswith("m")):
            instruction.set_op_kind(index, iced.OpKind.MEMORY)
            chain_here = chained and classes[:1] == ["R64"]
            own = getattr(iced.Register, _POOLS["R64"][destination])
            instruction.memory_base = own if chain_here else iced.Register.RSI
            linked |= chain_here
            if suffixes[0] in ("m2", "m3"):
                instruction.memory_index = iced.Register.RCX
            if suffixes[0] == "m3":
                instruction.memory_displacement, instruction.memory_displ_size = 8, 1
        elif stem in _POOLS:
            first = index == 0
            # FMA's second operand stays constant, so that only its accumulator is chained.
            same = first or (chained and stem == classes[0] and not linked and not _reads_destination(instruction))
            linked |= same and not first
            instruction.set_op_kind(index, iced.OpKind.REGISTER)
            register = _POOLS[stem][destination] if same else _SOURCES[stem][index % 2]
            instruction.set_op_register(index, getattr(iced.Register, register))
            classes.append(stem)
        elif kind in ("IMM8", "IMM8_CONST_1", "IMM8SEX64", "IMM8SEX32"):
            sizes = {"IMM8SEX64": iced.OpKind.IMMEDIATE8TO64, "IMM8SEX32": iced.OpKind.IMMEDIATE8TO32}
            instruction.set_op_kind(index, sizes.get(kind, iced.OpKind.IMMEDIATE8))
            instruction.set_immediate_i32(index, 1)
        else:
            return None
    if chained and not linked and not _reads_destination(instruction):
        return None
    return instruction


def _reads_destination(instruction: Any) -> bool:
    iced = _iced()
    access = iced.InstructionInfoFactory().info(instruction).op0_access
    return access in (iced.OpAccess.READ_WRITE, iced.OpAccess.READ_COND_WRITE)


def _chained(form: str) -> list[Any]:
    """Return an instruction whose result is its own next operand; nothing where the form writes no such register."""
    iced = _iced()
    instruction = _instruction(form, 0, True)
    if instruction is None or form.startswith(("CMP_", "TEST_")):
        return []
    access = iced.InstructionInfoFactory().info(instruction).op0_access
    return [instruction] if access not in (iced.OpAccess.READ, iced.OpAccess.NONE) else []


def _independent(form: str) -> list[Any]:
    """Return as many instructions with different destinations as there are registers."""
    found = []
    for destination in range(10):
        instruction = _instruction(form, destination, False)
        if instruction is None:
            return []
        found.append(instruction)
    return found
