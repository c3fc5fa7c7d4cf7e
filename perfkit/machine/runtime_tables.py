"""The run-time layer of an instruction table: forms that no table knows, as an installed llvm-mca has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from perfkit.errors import DataError, UnavailableError
from perfkit.machine.layers import Layer, Row
from perfkit.machine.llvm_mca import OLDEST, PLAIN_LOADS, Answer, McaFigures, Model, find_llvm_mca, remembered, uses_of

if TYPE_CHECKING:
    from perfkit.machine.core import Microarchitecture


def runtime_layer(
    texts: Mapping[str, str], core: Microarchitecture, known: Callable[[str], Row | None]
) -> tuple[Layer | None, str]:
    """Look forms up with llvm-mca: one run for all of them.

    Parameters
    ----------
    texts
        Form -> the text of one such instruction (AT&T syntax).
    core
        The core; its ``llvm_cpu`` is LLVM's name of it.
    known
        What the core's table says of a form, None where it does not know it: a form that loads has the latency of the
        same form without memory operand.

    Returns
    -------
    (Layer or None, str)
        The layer, None where nothing could be looked up; and what to tell people of the forms that it lacks.
    """
    tool = find_llvm_mca()
    if tool is None:
        return None, f"no llvm-mca of LLVM {OLDEST} or later is installed to look them up (Debian: llvm-22)"
    try:
        answer = remembered(tuple(sorted({**texts, **PLAIN_LOADS}.items())), core.llvm_cpu, tool.path)
        rows = _rows(texts, answer, core, known)
    except (UnavailableError, DataError) as error:
        return None, f"looking them up failed: {error}"
    said = f"LLVM {tool.version}'s llvm-mca -mcpu={core.llvm_cpu}"
    if not rows:
        return None, f"{said} does not know them, or names ports that the core file lacks"
    title = f"{said}, asked at run time (Apache-2.0 WITH LLVM-exception)"
    return Layer("llvm-mca", MappingProxyType(rows), title), f"{said} does not know them either"


def _rows(
    texts: Mapping[str, str], answer: Answer, core: Microarchitecture, known: Callable[[str], Row | None]
) -> dict[str, Row]:
    loads = {form: answer.rows[form] for form in PLAIN_LOADS if form in answer.rows}
    if "MOV_R64_RM64/m" not in loads:
        return {}
    model = Model(answer.resources, loads)
    groups = {name: frozenset(port.units) for name, port in core.ports.items()}
    rows = {}
    for form in texts:
        if form not in answer.rows:
            continue
        register = form.replace("/m", "", 1)
        alike = known(register)
        latency = alike.latency if alike is not None else None
        if latency is None and register in answer.rows:
            latency = float(answer.rows[register].latency)
        found = model.figures(form, answer.rows[form], latency if register != form else None)
        placed = all(
            any(units <= group for group in groups.values()) for units in found.uses if units != model.everything
        )
        if placed:
            rows[form] = _row(found, groups)
    return rows


def _row(found: McaFigures, groups: Mapping[str, frozenset[str]]) -> Row:
    return Row(
        fused_uops=float(found.fused),
        unfused_uops=float(found.unfused),
        latency=float(found.latency),
        memory_latency=None if found.memory_latency is None else float(found.memory_latency),
        uses=MappingProxyType(uses_of(found.uses, groups)),
    )
