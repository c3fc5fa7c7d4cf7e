"""Measure the mixtures that tell which ports forms use: the basis first, then one form of each that are alike."""

import re
from collections.abc import Mapping
from typing import Any

from perfkit.collectors.host.code import flags
from perfkit.collectors.whole_core.figures import Course, Timing
from perfkit.collectors.whole_core.settled import Settled
from perfkit.machine.layers import Row
from perfkit.machine.port_mapping.basis import ports_of
from perfkit.machine.port_mapping.discover import Counts, PortMap, found_basis, mapped_forms
from perfkit.machine.port_mapping.families import components
from perfkit.trace.x86 import class_of, is_vector, memory_access

UNFIT = 0.08
"""Mean relative error of a form's mixtures above which its ports are left out."""
_POOL = 9  # candidates for the basis of each kind and number of ports
_CONDITION = re.compile(r"(CMOV|SET)(?:N?[ABCGLOPSZE]E?|PE|PO)_")


def port_map(
    course: Course,
    alone: Mapping[str, Settled],
    latencies: Mapping[str, Mapping[int, Settled]],
    front: float,
    table: Mapping[str, Row],
) -> tuple[PortMap, dict[str, str]]:
    """Return what the mixtures say of every form, and what has no ports -> the reason.

    Of forms that are alike (see `_alike`), one is mixed with others, and the rest are as that one.
    """

    def measure(mixtures: Any) -> dict[Counts, float]:
        figures = {counts: Timing(tuple(counts)) for counts in mixtures}
        found = course.measured(list(figures.values()))
        return {counts: found[figure] for counts, figure in figures.items() if figure in found}

    operations = {form: figure.value for form, figure in alone.items() if _operates(form)}
    pool = _pool(operations, front)
    basis, model = found_basis({form: operations[form] for form in pool}, front, measure, _apart)
    parts = components(model.sets.values())

    def partners(form: str) -> list[str]:
        """Return the basis of the ports that forms of this kind have, and the widest of each other part."""
        chosen = []
        for part in parts:
            names = sorted((n for n in basis.sizes if model.sets[n] in part), key=lambda n: -basis.sizes[n])
            chosen += names if any(_kind(name) == _kind(form) for name in names) else names[:1]
        return chosen

    def slots(form: str) -> float:
        row = table.get(form)
        known = 1.0 if row is None or row.fused_uops is None else row.fused_uops
        return min(known, max(1.0, alone[form].value * front * 1.05 // 1))

    alike: dict[Any, list[str]] = {}
    for form in sorted(operations, key=lambda one: (one not in basis.sizes, one.startswith("EVEX_"), one)):
        alike.setdefault(_alike(form, operations[form], latencies.get(form, {})), []).append(form)
    firsts = {several[0]: operations[several[0]] for several in alike.values()} | {
        form: operations[form] for form in basis.sizes
    }
    found = mapped_forms(firsts, basis, model, measure, partners, slots)
    mapped = dict(found.mapped)
    for first, *others in alike.values():
        mapped |= {form: mapped[first] for form in others if first in mapped and form not in mapped}
    missing = {form: "too few of its mixtures could be measured" for form in operations if form not in mapped}
    missing |= {form: "no ports explain its mixtures" for form, one in mapped.items() if one.error > UNFIT}
    fitting = {form: one for form, one in mapped.items() if form not in missing}
    return PortMap(model, basis, fitting, tuple(missing)), {f"ports of {form}": why for form, why in missing.items()}


def _alike(form: str, cycles: float, latencies: Mapping[int, Settled]) -> tuple[Any, ...]:
    """Return what forms have in common that are taken to use the same ports.

    The same operation on registers of the same width, whatever its encoding, mask or condition, with the same
    throughput and the same latency from the same operands.
    """
    name = _CONDITION.sub(r"\1cc_", form.removeprefix("EVEX_").removeprefix("VEX_"))
    stem = re.sub(r"(D|Q|32|64|8|16)(X[24])?$", "", name.split("_")[0].removeprefix("V"))
    width = max(re.findall(r"[XYZ]MM|R8|R16|R32|R64", form), default="", key="R8 R16 R32 R64 XMM YMM ZMM".find)
    widened = "R32" if width == "R64" else width  # that they take as long is part of the key
    kind = (_kind(form), "IMM" in form, bool(re.search(r"_(1|CL)$", form)))
    return stem, widened, kind, round(cycles / 0.05), tuple(sorted((k, round(v.value)) for k, v in latencies.items()))


def _apart(a: str, b: str) -> bool:
    """Whether two candidates are taken to share no ports: a plain load or store, and an operation on registers."""
    return ("/m" in a) != ("/m" in b)


def _operates(form: str) -> bool:
    """Whether a form is mapped by mixtures: operations on registers, plain loads and stores.

    SSE instructions beside AVX ones wait for the merging of registers, whatever ports they take; they are as the same
    operations of AVX.
    """
    if "/m" in form:
        loads, stores = memory_access(form)
        address = not loads and not stores  # LEA
        return (address or (class_of(form) == "move" and loads != stores)) and not _legacy(form)
    return not _legacy(form)


def _legacy(form: str) -> bool:
    return "avx" in flags() and is_vector(form) and not form.startswith(("VEX_", "EVEX_"))


def _kind(form: str) -> str:
    loads, stores = memory_access(form)
    return "store" if stores else "load" if loads else "vector" if is_vector(form) else "integer"


def _plain(form: str) -> bool:
    """Whether a form is a load or a store of a whole register, and nothing else."""
    return (
        re.fullmatch(r"MOV_R\w*_RM?\d+/m|(VEX_V)?MOV([UA]P[SD]|DQ[UA])_\w+/m", form) is not None and "IMM" not in form
    )


def _pool(alone: Mapping[str, float], front: float) -> list[str]:
    """Return candidates for the basis: of each kind and number of ports some operations, spread over the alphabet."""
    cells: dict[tuple[str, str, int], dict[str, str]] = {}
    for form, cycles in sorted(alone.items()):
        count = ports_of(cycles, front)
        if count is None or re.search(r"^EVEX_|_IMM(32|64)", form) or ("/m" in form and not _plain(form)):
            continue
        found = re.search(r"[XYZ]MM", form)
        width = found[0] if found else ""
        stem = form.removeprefix("VEX_").split("_")[0]
        cells.setdefault((_kind(form), width, count), {}).setdefault(stem, form)
    chosen = []
    wide = {stem for (_, width, _), stems in cells.items() if width == "YMM" for stem in stems}
    for (_, width, _), stems in cells.items():
        forms = list(stems.values())
        if width == "XMM" and any(key[1] == "YMM" for key in cells):
            forms = [form for form in forms if "/m" in form]  # operations: the same as of 256 bits
            forms += [form for stem, form in stems.items() if "/m" not in form and stem not in wide]
        step = max(1, len(forms) // _POOL)
        chosen += forms[::step][:_POOL]
    return chosen
