"""Which core file describes the processor that perfkit runs on: by CPUID, and by features where that is masked.

Hypervisors may show another model number than the processor's own, but not instructions that it lacks: what only one
core has decides first (AMX and half-precision AVX-512: Sapphire Rapids).
"""

import platform
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_ZEN3 = (range(0x10), range(0x20, 0x60))
_ZEN4 = (range(0x10, 0x20), range(0x60, 0x80), range(0xA0, 0xB0))
# Intel's model numbers of family 6 (Software Developer's Manual, volume 4, table 2-1).
_INTEL = {
    "sandy_bridge": (42, 45),
    "skylake_x": (85,),
    "ice_lake": (106, 108, 125, 126),
    "alder_lake_p": (151, 154, 183, 186, 191),
    "golden_cove": (143, 207),
}


@dataclass(frozen=True)
class Recognised:
    """The core file for a processor.

    Attributes
    ----------
    core : str
        Its name.
    exact : bool
        Whether it is that processor's core; else the nearest there is.
    processor : str
        What the processor calls itself.
    reason : str
        What decided.
    """

    core: str
    exact: bool
    processor: str
    reason: str


@cache
def host() -> Recognised:
    """Return the core file for this machine."""
    path = Path("/proc/cpuinfo")
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    return recognise(text, platform.machine())


def recognise(cpuinfo: str, machine: str = "x86_64") -> Recognised:
    """Return the core file for the first processor of a ``/proc/cpuinfo``."""
    found = dict(re.findall(r"^([\w ]+?)\s*: *(.*)$", cpuinfo.partition("\n\n")[0], re.MULTILINE))
    if machine in ("aarch64", "arm64"):
        part = found.get("CPU part", "unknown")
        return Recognised("cortex_a72", part == "0xd08", f"AArch64 part {part}", "the only AArch64 core")
    name = found.get("model name", "an unknown processor")
    family, model = (int(found.get(key, -1)) for key in ("cpu family", "model"))
    flags = set(found.get("flags", "").split())
    processor = f"{name} (family {family}, model {model})"
    if found.get("vendor_id") == "AuthenticAMD":
        return Recognised(*_amd(family, model, flags), processor=processor, reason=_why(family, model))
    return _intel(found.get("vendor_id", ""), family, model, flags, processor)


def _why(family: int, model: int) -> str:
    return f"its family {family} and model {model}"


def _amd(family: int, model: int, flags: set[str]) -> tuple[str, bool]:
    if family == 26:
        return "zen5", True
    if family == 25:
        known = "zen3" if any(model in r for r in _ZEN3) else "zen4" if any(model in r for r in _ZEN4) else None
        features = "zen4" if "avx512f" in flags else "zen3"
        return (features, known == features)
    return ("zen5" if "avx512_vp2intersect" in flags else "zen4" if "avx512f" in flags else "zen3"), False


def _intel(vendor: str, family: int, model: int, flags: set[str], processor: str) -> Recognised:
    if flags & {"amx_tile", "avx512_fp16"}:
        listed = model in _INTEL["golden_cove"]
        reason = _why(family, model) if listed else "AMX and half-precision AVX-512, whatever the model number says"
        return Recognised("golden_cove", True, processor, reason)
    if vendor == "GenuineIntel" and family == 6:
        for core, models in _INTEL.items():
            if model in models:
                return Recognised(core, True, processor, _why(family, model))
    for core, needed in (("ice_lake", "avx512_vbmi2"), ("skylake_x", "avx512f"), ("alder_lake_p", "avx_vnni")):
        if needed in flags:
            return Recognised(core, False, processor, f"it has {needed}")
    nearest = "skylake_x" if "avx2" in flags else "sandy_bridge"
    return Recognised(nearest, False, processor, "it has AVX2" if "avx2" in flags else "it has no AVX2")
