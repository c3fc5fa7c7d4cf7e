"""Which core file describes the processor that perfkit runs on: by CPUID, and by features where that is masked.

Hypervisors may show another model number than the processor's own, but not instructions that it lacks. So what only few
cores have decides first (AMX and half-precision AVX-512: Sapphire and Granite Rapids, which the size of the first cache
of instructions tells apart), then ``processors`` of the core files, then the features.
"""

import platform
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

# Of each vendor, the nearest core to a processor that no file lists: the first whose feature it has.
_NEAREST = {
    "AuthenticAMD": (("zen5", "avx512_vp2intersect"), ("zen4", "avx512f"), ("zen3", "fpu")),
    "GenuineIntel": (
        ("ice_lake", "avx512_vbmi2"),
        ("skylake_x", "avx512f"),
        ("alder_lake_p", "avx_vnni"),
        ("skylake_x", "avx2"),
        ("sandy_bridge", "fpu"),
    ),
}
_SINCE_GOLDEN_COVE = {"amx_tile", "avx512_fp16"}
_NUMBERED = {"golden_cove", "raptor_cove"}  # known by their model numbers, where these are not masked
_REDWOOD_COVE = "64K"  # of L1 for instructions; Golden Cove has 32 KiB
_INSTRUCTION_CACHE = Path("/sys/devices/system/cpu/cpu0/cache/index1/size")


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


def host(listed: Callable[[str, int, int], str | None]) -> Recognised:
    """Return the core file for this machine; ``listed`` says which core lists a vendor, family and model."""
    path = Path("/proc/cpuinfo")
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    cache = _INSTRUCTION_CACHE.read_text(encoding="ascii").strip() if _INSTRUCTION_CACHE.is_file() else ""
    return recognise(text, listed, platform.machine(), cache)


def recognise(
    cpuinfo: str, listed: Callable[[str, int, int], str | None], machine: str = "x86_64", instruction_cache: str = ""
) -> Recognised:
    """Return the core file for the first processor of a ``/proc/cpuinfo``.

    ``instruction_cache`` is the size of its first cache of instructions as Linux gives it ("32K"), "" where unknown.
    """
    found = dict(re.findall(r"^([\w ]+?)\s*: *(.*)$", cpuinfo.partition("\n\n")[0], re.MULTILINE))
    if machine in ("aarch64", "arm64"):
        part = found.get("CPU part", "unknown")
        return Recognised("cortex_a72", part == "0xd08", f"AArch64 part {part}", "the only AArch64 core")
    name, vendor = found.get("model name", "an unknown processor"), found.get("vendor_id", "")
    family, model = (int(found.get(key, -1)) for key in ("cpu family", "model"))
    flags = {"fpu", *found.get("flags", "").split()}
    processor = f"{name} (family {family}, model {model})"
    core = listed(vendor, family, model)
    if flags & _SINCE_GOLDEN_COVE and vendor == "GenuineIntel":
        reason = "AMX and half-precision AVX-512, whatever the model number says"
        if core == "redwood_cove" or (core not in _NUMBERED and instruction_cache == _REDWOOD_COVE):
            return Recognised("redwood_cove", True, processor, f"{reason}, and 64 KiB of L1 for instructions")
        return Recognised("raptor_cove" if core == "raptor_cove" else "golden_cove", True, processor, reason)
    nearest, feature = next(pair for pair in _NEAREST.get(vendor, _NEAREST["GenuineIntel"]) if pair[1] in flags)
    if core is not None and not (core == "zen3" and "avx512f" in flags):  # Zen 3 has no AVX-512: masked
        return Recognised(core, True, processor, f"its family {family} and model {model}")
    return Recognised(nearest, False, processor, f"it has {feature}")
