"""OSACA as a static analyser: what its model of this core predicts for a loop, where the program is installed.

OSACA (Laukemann et al.) gives the pressure on each port and the longest loop-carried dependency of a marked loop; the
larger of both bounds the cycles of an iteration.
"""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from perfkit.collectors.host.machine_state import MachineState, read_state
from perfkit.collectors.host.toolchain import Disassembled, for_assembler, run_tool
from perfkit.errors import UnavailableError

_INTEL = {42: "SNB", 45: "SNB", 58: "IVB", 62: "IVB", 60: "HSW", 63: "HSW", 61: "BDW", 79: "BDW", 94: "SKX",
          106: "ICX", 108: "ICX", 143: "SPR", 207: "SPR"}  # fmt: skip
_CASCADE_LAKE = 5  # the stepping of family 6, model 85 from which on it is no Skylake


def architecture(state: MachineState) -> str:
    """Return OSACA's name of a core.

    Raises
    ------
    UnavailableError
        If OSACA has no model of it.
    """
    if state.vendor == "GenuineIntel" and state.family == 6:
        if state.model == 85:
            return "CSX" if state.stepping >= _CASCADE_LAKE else "SKX"
        if state.model in _INTEL:
            return _INTEL[state.model]
    if state.vendor == "AuthenticAMD":
        if state.family == 23:
            return "ZEN2" if state.model >= 0x30 else "ZEN1"
        if state.family == 25:
            return "ZEN4" if 0x10 <= state.model <= 0x1F or 0x60 <= state.model <= 0x7F else "ZEN3"
    raise UnavailableError(f"OSACA has no model of {state.processor} (family {state.family}, model {state.model})")


def osaca(loops: Mapping[str, Sequence[Disassembled]], arch: str | None = None) -> dict[str, dict[str, float]]:
    """Run OSACA over loop bodies.

    Parameters
    ----------
    loops : mapping
        Name -> instructions of one iteration.
    arch : str, optional
        OSACA's name of the core; by default this machine's.

    Returns
    -------
    dict
        Name -> ``osaca_cycles`` (the larger of the next two), ``osaca_throughput`` (cycles of the busiest port an
        iteration) and ``osaca_dependency`` (cycles of the longest loop-carried dependency); NaN for a body that it
        cannot read.

    Raises
    ------
    UnavailableError
        If the program is not there, or has no model of this core.
    """
    name = arch or architecture(read_state())
    out = {}
    known: dict[str, dict[str, float]] = {}
    for key, loop in loops.items():
        text = "\n".join(["# OSACA-BEGIN", "loop:", *(for_assembler(line) for line in loop), "# OSACA-END", ""])
        if text not in known:
            known[text] = _analysed(text, name)
        out[key] = known[text]
    return out


def _analysed(text: str, arch: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="perfkit-osaca-") as place:
        path = Path(place) / "loop.s"
        path.write_text(text, encoding="utf-8")
        report = Path(place) / "report.yaml"
        done = run_tool(["osaca", "--arch", arch, "--ignore-unknown", "--yaml-out", str(report), str(path)], timeout=60)
        if done.returncode or not report.exists():
            return dict.fromkeys(_COLUMNS, float("nan"))
        # What comes before describes Python objects, which a safe reader rightly refuses.
        summary = report.read_text(encoding="utf-8").partition("\nSummary:")[2].partition("\nTarget:")[0]
        return bounds_of(yaml.safe_load(f"Summary:{summary}"))


_COLUMNS = ("osaca_cycles", "osaca_throughput", "osaca_dependency")


def bounds_of(report: Mapping[str, Any]) -> dict[str, float]:
    """Return the bounds of OSACA's report: the busiest port, and the longest loop-carried dependency."""
    summary = report["Summary"]
    throughput = max((float(value) for value in summary["PortPressure"].values()), default=0.0)
    dependency = float(summary["LCD"])
    return dict(zip(_COLUMNS, (max(throughput, dependency), throughput, dependency), strict=True))
