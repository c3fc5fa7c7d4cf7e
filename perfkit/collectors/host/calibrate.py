"""Measure this host's instruction latencies and throughputs, caches and memory with the time stamp counter.

No hardware counter is needed: everything is timed in ticks, between two runs of a chain of dependent multiplications
that tell how long a cycle is (`perfkit.collectors.host.cycle_clock`, as for true cycles); samples around which the
clock changed are rejected, and only those count during which the core's other hardware thread slept. Each figure of an
instruction is the median of three, apart from one another.

The code that is timed is assembled here by iced-x86, runs in a child process, and never leaves its own buffers.
"""

from __future__ import annotations

import faulthandler
import json
import math
import os
import platform
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from perfkit.base.files import json_text
from perfkit.base.results import Kind, Plain, draw
from perfkit.collectors.host.bench import Bench
from perfkit.collectors.host.code import flags, processor
from perfkit.collectors.host.resources import EXTRAS, core_resources, memory_resources
from perfkit.errors import PerfkitWarning, SettingError, UnavailableError, did_you_mean, expect, listed, of_extra
from perfkit.machine.core import Microarchitecture, recognised_host
from perfkit.machine.forms import InstructionForm
from perfkit.machine.instruction_tables import InstructionTables
from perfkit.machine.overlays import write_overlay
from perfkit.trace.x86 import class_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

PASSES = 3  # times that every form is measured, apart from one another: a burst of other load spoils one of them
BUSY = 0.25  # share of rejected samples from which on the host is said to be busy
ALIKE = 0.06  # relative difference under which the host and a table agree


@dataclass(frozen=True, repr=False)
class Calibration(Plain):
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
        Name of a core's resource -> measured value, in the resource's unit; and a few figures that no core file has
        (`perfkit.collectors.host.resources.EXTRAS`).
    rejected, busy
        Share of the samples that were rejected because the clock changed or something interrupted, and of those that
        were left out because they ran beside a busy thread of the same core.
    left_out
        What could not be measured because of the conditions -> the reason. No figure of these is given.
    spreads
        Of resources that were measured several times (all but latencies of memory and the ROB) the least and the most.
    """

    host: Mapping[str, str]
    cycle_seconds: float
    latencies: Mapping[str, float]
    throughputs: Mapping[str, float]
    resources: Mapping[str, float]
    rejected: float = 0.0
    busy: float = 0.0
    left_out: Mapping[str, str] = field(default_factory=dict)
    spreads: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def kind(self) -> Kind:
        """``"measured"``."""
        return "measured"

    def to_frame(self) -> pd.DataFrame:
        """Return one row per figure: name, what (latency, cycles per instruction, resource) and the measured value."""
        pd = of_extra("pandas")

        parts = {"latency": self.latencies, "cycles per instruction": self.throughputs, "resource": self.resources}
        rows = [(name, what, float(value)) for what, part in parts.items() for name, value in part.items()]
        return pd.DataFrame(rows, columns=["name", "what", "measured"])

    def summary(self) -> str:
        """Say what was measured, on what, and how much had to be left out."""
        forms = {*self.latencies, *self.throughputs}
        lines = [
            (
                f"{self.host.get('processor', 'this host')}: {len(forms)} instruction forms and {len(self.resources)} "
                f"resources measured, {1e-9 / self.cycle_seconds:.2f} GHz"
            )
        ]
        some = [f"{name} {value:.4g}{self._ends(name)}" for name, value in list(self.resources.items())[:6]]
        if some:
            lines.append(", ".join(some))
        lines.append(f"{self.rejected:.0%} of the samples rejected, {self.busy:.0%} left out beside a busy thread")
        if self.left_out:
            lines.append(
                "not measured: " + "; ".join(f"{name} ({why})" for name, why in list(self.left_out.items())[:3])
            )
        return "\n".join(lines)

    def _ends(self, name: str) -> str:
        return " ({:.4g} to {:.4g})".format(*self.spreads[name]) if name in self.spreads else ""

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the measured latencies and throughputs; return the axes."""
        return draw("cycles:plot_calibration", self, ax=ax)

    def compare(self, core: Microarchitecture) -> pd.DataFrame:
        """Return measured beside tabulated: form or resource, what, cycles, the core's figure, seconds, differs.

        Of a resource also the ``least`` and the ``most`` of its measurements, where there were several.
        """
        pd = of_extra("pandas")

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
            else:
                rows.append((name, EXTRAS.get(name, "cycles"), value, math.nan))
        frame = pd.DataFrame(rows, columns=["name", "what", "measured", "table"])
        timed = frame["what"].isin(["latency", "cycles per instruction", "cycles"])
        frame["seconds"] = np.where(timed, frame["measured"] * self.cycle_seconds, np.nan)
        measured = zip(frame["what"], frame["measured"], strict=True)
        counts = [_tidy(value) if what == "latency" else value for what, value in measured]
        ends = [self.spreads.get(name, (math.nan, math.nan)) for name in frame["name"]]
        frame["least"], frame["most"] = (pd.Series([pair[at] for pair in ends], dtype=float) for at in (0, 1))
        frame["differs"] = (pd.Series(counts) - frame["table"]).abs() > ALIKE * frame["table"].abs() + 0.02
        return frame

    def overlay(self, core: Microarchitecture) -> dict[str, dict[str, float]]:
        """Return the figures in which this host differs from the core's tables: form -> what to change.

        A form that the table lacks, and another stands in for, is always written: else a change of the other would
        change it too. What is measured of registers holds for the same operation after a load, where the table has
        one figure for both (it has not for moves, which are loads then).
        """
        frame = self.compare(core)
        tables = InstructionTables.load(core)
        changes: dict[str, dict[str, float]] = {}
        for name, what, measured in zip(frame["name"], frame["what"], frame["measured"], strict=True):
            known = tables.form(name) if name in self.latencies or name in self.throughputs else None
            differs = frame.loc[(frame["name"] == name) & (frame["what"] == what), "differs"].iloc[0]
            if known is None or not (bool(differs) or tables.stood_in_for(name)):
                continue
            if what == "latency":
                if known.loads:
                    changes.setdefault(name, {})["address_latency"] = _tidy(measured - known.memory_latency)
                else:
                    changes.setdefault(name, {})["latency"] = _tidy(measured)
                    operation = "/" not in name and class_of(name) != "move"
                    loaded = tables.form(f"{name}/m") if operation else None
                    if loaded is not None and loaded.source == "llvm" and loaded.memory_latency == known.latency:
                        changes.setdefault(loaded.name, {}).update(
                            latency=_tidy(measured), memory_latency=_tidy(measured)
                        )
            elif known.uses and measured > known.fused_uops * core.resource("front_end").inverse_throughput + 0.02:
                changes.setdefault(name, {})["inverse_throughput"] = (
                    _tidy(measured) if measured >= 0.5 else round(measured, 2)
                )
        return changes

    def save_overlay(self, path: str | Path, core: Microarchitecture) -> Path:
        """Write the differences as an overlay (TOML) for `InstructionTables.load(core, calibration=path)`."""
        how = "load one with perfkit.Microarchitecture.load"
        expect(isinstance(core, Microarchitecture), core, "Calibration.save_overlay", "a Microarchitecture", how)
        title = f"perfkit calibrate on {self.host['processor']}, {self.host['date']}"
        header = [f"{key}: {value}" for key, value in self.host.items()]
        resources = {name: float(f"{value:.4g}") for name, value in self.resources.items() if self._counts(name, core)}
        spreads = {  # around the figure as it is rounded
            name: (min(least, resources[name]), max(most, resources[name]))
            for name, (least, most) in self.spreads.items()
            if name in resources
        }
        write_overlay(path, core.name, title, self.overlay(core), header, resources, spreads)
        return Path(path)

    def _counts(self, name: str, core: Microarchitecture) -> bool:
        """Whether a measured resource goes into the overlay: an estimate of a documented size only where it differs."""
        if name not in core.resources:
            return False
        known, measured = core.resource(name), self.resources[name]
        return known.kind != "buffer" or abs(measured - known.value) > ALIKE * known.value

    def to_json(self) -> str:
        """Return everything as JSON text."""
        return json_text({f.name: _plain(getattr(self, f.name)) for f in fields(self)}, exact=False, indent=1)


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value


def _total_latency(form: InstructionForm) -> float:
    """Return cycles from the registers that the measured chain goes through to the result."""
    return form.address_latency + form.memory_latency if form.loads else form.latency


def _tidy(value: float) -> float:
    """Round to a whole number of cycles where the measurement is within 6 % of one, else to 0.01.

    A latency of less than half a cycle is that of a move that renaming does: none.
    """
    if value < 0.5:
        return 0.0
    whole = round(value)
    return float(whole) if whole and abs(value - whole) <= ALIKE * whole else round(value, 2)


def host_core() -> str | None:
    """Return the name of the bundled core that this host is, None where it is none of them."""
    found = recognised_host()
    return found.core if found.exact else None


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
        Samples per figure, of which the tenth percentile counts.
    memory
        Whether to measure cache and memory latencies, bandwidths and the reorder buffer too (a few seconds).
    cpu
        The CPU to run on; None: any that the process may use.
    progress
        Called with (done, all) after each form.

    Raises
    ------
    UnavailableError
        The host is not x86-64 Linux or too busy to measure, or a form crashed (its name is in the message).

    Warns
    -----
    PerfkitWarning
        More than a quarter of the samples were rejected: the host is busy, and the figures less certain. Or figures are
        left out, because too few samples were steady and quiet.
    """
    if platform.machine() not in ("x86_64", "AMD64") or not hasattr(os, "fork"):
        raise UnavailableError("perfkit calibrate measures x86-64 Linux hosts only")
    if repetitions < 3:
        raise SettingError(f"repetitions: at least 3 are needed, not {repetitions}")
    wanted = common_forms(flags()) if forms is None else _known(forms)
    work = _Work(tuple(wanted), repetitions, memory, cpu)
    result = _in_child(work, progress)
    host = {
        "processor": processor(),
        "hypervisor": "yes" if "hypervisor" in flags() else "no",
        "kernel": platform.release(),
        "date": time.strftime("%Y-%m-%d"),
    }
    found = Calibration(MappingProxyType(host), **result)
    if found.rejected > BUSY:
        warnings.warn(
            f"{found.rejected:.0%} of the samples were rejected, because the clock changed around them: this host is "
            "busy, and its figures are less certain; repeat the calibration and compare",
            PerfkitWarning,
            stacklevel=2,
        )
    if memory and "L3_latency" not in found.resources:
        why = found.left_out.get("L3") or found.left_out.get("L3_latency") or "no sample of it was kept"
        warnings.warn(f"L3 could not be measured: {why}", PerfkitWarning, stacklevel=2)
    others = [name for name in found.left_out if name not in ("L3", "L3_latency")]
    if others:
        warnings.warn(
            f"left out, because conditions did not allow measuring: {listed(others, 8)} ({found.left_out[others[0]]})",
            PerfkitWarning,
            stacklevel=2,
        )
    return found


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
_FLAGS |= {"SSE": "sse", "SSE3": "pni", "SSSE3": "ssse3", "SSE4_1": "sse4_1"}
_FLAGS |= {"INTEL8086": "", "INTEL386": "", "X64": "", "INTEL186": "", "CMOV": "cmov", "SSE2": "sse2", "INTEL486": ""}


def common_forms(flags: Iterable[str]) -> list[str]:
    """Return the forms that `calibrate` measures on a host with these /proc/cpuinfo flags."""
    import iced_x86

    from perfkit.trace.x86 import code_names

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
        legacy = "_XMM_XMMM" in name and f"V{name.split('_')[0]}" in stems
        if not (vector or legacy or name in scalars):
            continue
        blank = iced_x86.Instruction()
        blank.code = code  # type: ignore[assignment]
        extensions = [features[feature] for feature in blank.cpuid_features()]
        if all(_FLAGS.get(extension, "unknown") in have for extension in extensions):
            chosen.append(name)
    return [*chosen, "MOV_R64_RM64/m", "LEA_R64_M/m", "LEA_R64_M/m2", "LEA_R64_M/m3"]


def _known(forms: Iterable[str]) -> list[str]:
    """Return forms that were asked for; a name that iced-x86 does not know is an error that suggests the nearest."""
    known = {name for name, value in vars(of_extra("iced_x86").Code).items() if isinstance(value, int)}
    wanted = list(forms)
    for name in wanted:
        if name.partition("/")[0] not in known:  # behind the slash: the kind of its memory operand
            raise SettingError(
                f"no instruction form {name!r}: forms are named as iced-x86 names them, as ADD_R64_RM64; "
                f"{did_you_mean(name, sorted(known))}"
            )
    return wanted


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
    bench = Bench(work.repetitions)
    latencies: dict[str, list[float]] = {}
    throughputs: dict[str, list[float]] = {}
    left_out: dict[str, str] = {}
    for turn in range(PASSES):
        for form in work.forms:
            if turn == 0:
                say("form", form)
            try:
                latency, throughput = bench.form(form)
            except UnavailableError as error:
                left_out[form] = str(error)
                continue
            if latency is not None:
                latencies.setdefault(form, []).append(latency)
            if throughput is not None:
                throughputs.setdefault(form, []).append(throughput)
    resources, spreads, refused = core_resources(bench)
    left_out |= refused
    if work.memory:
        more, ends, refused = memory_resources(bench)
        resources |= more
        spreads |= ends
        left_out |= refused
    if not bench.rates:
        raise UnavailableError(f"nothing could be measured: {next(iter(left_out.values()))}")
    # One figure of a form cannot tell an outlier: there are at least two, or none.
    settled = {form for form in work.forms if left_out.get(form) is None or _passes(form, latencies, throughputs) >= 2}
    return {
        "cycle_seconds": bench.cycle_seconds(),
        "latencies": {form: float(np.median(values)) for form, values in latencies.items() if form in settled},
        "throughputs": {form: float(np.median(values)) for form, values in throughputs.items() if form in settled},
        "resources": resources,
        "spreads": spreads,
        "rejected": bench.rejected / bench.taken,
        "busy": bench.busy / bench.taken,
        "left_out": {name: why for name, why in left_out.items() if name not in settled},
    }


def _passes(form: str, *found: Mapping[str, Sequence[float]]) -> int:
    return max(len(values.get(form, ())) for values in found)
