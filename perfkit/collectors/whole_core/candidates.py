"""Which forms are measured: those of a core's table that work on registers, and the same after a load."""

import re
from collections.abc import Iterable

from perfkit.collectors.host.code import iced, one_of
from perfkit.trace.x86 import code_features

# Left out: what changes the machine's state, traps, or depends on its operands' values.
_WORDS = """
XSAVE FX LDMXCSR WR RD SYS CLI STI HLT INT IN_ OUT MOV_DR MOV_CR J CALL RET LOOP ENTER LEAVE PUSH POP
XABORT XBEGIN XEND MONITOR MWAIT CLFLUSH CLWB CLZERO WBINVD UD SALC LAR LSL VER S STR LMSW SMSW SLDT
SGDT SIDT LLDT LTR DIV_ IDIV_ AAM AAD BOUND IRET CPUID PAUSE TPAUSE UMWAIT
"""
_SKIPPED = tuple(_WORDS.split())
_KEPT = ("SUB", "SBB", "SHL", "SHR", "SAR", "SAL", "SHLD", "SHRD", "SHUFP", "SQRT", "SET", "SHA", "RDPID_NONE")
_NAMES = {"LZCNT": "abm", "SSE3": "pni", "CMPXCHG16B": "cx16", "INVPCID": "invpcid", "CMOV": "cmov"}
_ALWAYS = {"INTEL8086", "INTEL186", "INTEL286", "INTEL386", "INTEL486", "X64", "CMOV", "FPU", "MMX"}


def measurable(forms: Iterable[str]) -> list[str]:
    """Return the forms without suffixes that may be measured: no state, traps or values that decide their time."""
    found = []
    for form in forms:
        stem = form.removeprefix("VEX_").removeprefix("EVEX_")
        if "/" in form or "RSP" in form or (stem.startswith(_SKIPPED) and not stem.startswith(_KEPT)):
            continue
        found.append(form)
    return found


def supported(form: str, flags: Iterable[str]) -> bool:
    """Say whether a host with these /proc/cpuinfo flags has the form's extensions."""
    names = {value: key for key, value in vars(iced().CpuidFeature).items() if isinstance(value, int)}
    have = {flag.replace("_", "") for flag in flags}
    needed = {names[feature] for feature in code_features(form)}
    return all(name in _ALWAYS or _NAMES.get(name, name.lower()).replace("_", "") in have for name in needed)


def independent_forms(form: str) -> bool:
    """Say whether instances of a form do not wait for one another.

    They write no register but those named (nor the stack of x87), and do not both read and write flags.
    """
    ix = iced()
    built = one_of(form, 0, False)
    if built is None or built.op_count == 0 or form.startswith("F"):
        return False
    whole = {ix.RegisterInfo(built.op_register(k)).full_register for k in range(built.op_count)}
    for used in ix.InstructionInfoFactory().info(built).used_registers():
        if ix.RegisterInfo(used.register).full_register not in whole and used.access != ix.OpAccess.READ:
            return False
    return not (built.rflags_read and built.rflags_modified)


def register_forms(table: Iterable[str], flags: Iterable[str]) -> list[str]:
    """Return the forms of a table that work on registers, and of which this host can time independent instances."""
    have = frozenset(flags)
    return [form for form in measurable(sorted(table)) if supported(form, have) and independent_forms(form)]


def memory_forms(table: Iterable[str], flags: Iterable[str]) -> list[str]:
    """Return the forms of a table with a memory operand, addressed by one register, that this host can time."""
    have = frozenset(flags)
    plain = [form for form in sorted(table) if form.endswith("/m") and form.count("/") == 1]
    plain += [form for form in sorted(table) if re.fullmatch(r"LEA_\w+/m[23]", form)]
    chosen = set(measurable(form.split("/")[0] for form in plain))
    return [
        form
        for form in plain
        if form.split("/")[0] in chosen
        and supported(form, have)
        and not re.search(r"GATHER|SCATTER|PREFETCH|CMPXCHG|VMASKMOV|NT", form)
        and independent_forms(form)
    ]
