"""Measure everything that a core file of this machine needs: the forms, their ports, the core's own figures."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perfkit.collectors.host.calibrate import calibrate
from perfkit.collectors.host.code import flags
from perfkit.collectors.host.machine_state import read_state
from perfkit.collectors.whole_core.bodies import chains
from perfkit.collectors.whole_core.candidates import memory_forms, register_forms
from perfkit.collectors.whole_core.checkpoint import Checkpoint
from perfkit.collectors.whole_core.figures import Course
from perfkit.collectors.whole_core.port_figures import port_map
from perfkit.collectors.whole_core.settled import Settled, in_passes, passes, settled
from perfkit.errors import UnavailableError
from perfkit.machine.core import Microarchitecture, recognised_host
from perfkit.machine.instruction_tables import InstructionTables
from perfkit.machine.layers import COMPLETE, Row
from perfkit.machine.port_mapping.discover import PortMap
from perfkit.machine.recognise import Recognised
from perfkit.trace.x86 import memory_access

MINUTES = 5.0
_DOUBTFUL = 0.05  # of the forms whose ports were looked for: as many without any mean that the map itself is wrong


@dataclass(frozen=True)
class CoreMeasurement:
    """What was measured.

    Parameters
    ----------
    host
        What this machine is.
    nearest
        The known core that is nearest to it.
    alone
        Form -> cycles per instruction of independent ones.
    latencies
        Form -> operand -> cycles from it to the result.
    ports
        What the mixtures say.
    resources
        The core's own figures.
    cycle_seconds
        Seconds of a cycle.
    left_out
        What has no figure -> the reason.
    """

    host: Mapping[str, Any]
    nearest: Recognised
    alone: Mapping[str, Settled]
    latencies: Mapping[str, Mapping[int, Settled]]
    ports: PortMap
    resources: Mapping[str, float]
    cycle_seconds: float
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def counts(self) -> dict[str, int]:
        """How many figures there are of each kind."""
        return {
            "throughputs": len(self.alone),
            "latencies": sum(len(operands) for operands in self.latencies.values()),
            "port_uses": len(self.ports.mapped),
            "resources": len(self.resources),
        }

    @property
    def doubt(self) -> str:
        """Why the ports that were found are not to be trusted, "" where nothing speaks against them.

        A map of ports that is right explains nearly all mixtures; one that is wrong also gives wrong cycles for the
        forms that it explains.
        """
        failed = sum(what.startswith("ports of ") for what in self.left_out)
        looked_for = failed + len(self.ports.mapped)
        if failed <= _DOUBTFUL * looked_for:
            return ""
        return (
            f"the ports that were found explain the mixtures of {len(self.ports.mapped):,} of {looked_for:,} forms "
            f"only: do not trust this core's cycles. Measure again when idle, or use --core {self.nearest.core}"
        )

    def summary(self) -> str:
        """Say what was measured, and which ports were found."""
        sets = self.ports.model.sets
        every = sorted(frozenset().union(*sets.values()))
        counts = self.counts
        return (
            f"{self.host['processor']} (family {self.host['family']}, model {self.host['model']}), "
            f"{1e-9 / self.cycle_seconds:.2f} GHz: {counts['throughputs']:,} throughputs and {counts['latencies']:,} "
            f"latencies measured; ports of {counts['port_uses']:,} forms, by {len(sets)} basis forms on {len(every)} "
            f"ports; nearest known core: {self.nearest.core}{'' if self.nearest.exact else ' (another processor)'}"
        )


def measure_core(
    keep: str | Path,
    *,
    minutes: float = MINUTES,
    processor: int | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> CoreMeasurement:
    """Measure this machine's core.

    Parameters
    ----------
    keep
        A file to keep each figure in as soon as it is known; what it holds is not measured again.
    minutes
        Time after which what is not measured yet is left out.
    processor
        The processor to run on; None: any.
    progress
        Called with (what is measured, figures done, of how many) now and then.

    Raises
    ------
    UnavailableError
        No x86-64 Linux, or the machine is too busy; what was measured is kept.
    FormatError
        The file of `keep` is another's, of another host, or damaged.
    """
    state = read_state()
    host = {"processor": state.processor, "family": state.family, "model": state.model, "stepping": state.stepping}
    until = time.monotonic() + 60 * minutes
    nearest = recognised_host()
    table = table_rows(nearest.core)
    with Checkpoint(Path(keep), host) as checkpoint:
        own, seconds, left_out = _own_figures(checkpoint)

        def course(what: str) -> Course:
            say = None if progress is None else lambda done, total: progress(what, done, total)
            return Course(checkpoint, until, 60.0, processor, say)

        registers, loads = register_forms(table, flags()), memory_forms(table, flags())
        alone, missing = _alone(course("throughputs"), [*registers, *loads])
        left_out |= missing
        latencies, missing = _latencies(course("latencies"), registers)
        left_out |= missing
        front = _whole(own["front_end"])
        ports, missing = port_map(course("ports"), alone, latencies, front, table)
        left_out |= missing
    return CoreMeasurement(host, nearest, alone, latencies, ports, own, seconds, left_out)


def table_rows(core: str) -> dict[str, Row]:
    """Return the rows of a core's table with its corrections, and those of the locked forms that these know."""
    tables = InstructionTables.load(Microarchitecture.load(core), look_up=False)
    names = [form for layer in tables.layers if layer.name in COMPLETE for form in layer.rows]
    names += [form for layer in tables.layers for form in layer.rows if not re.search(r"[*?\[]", form)]
    stored = [f"{form}/lock" for form in names if form.endswith("/m") and memory_access(form) == (True, True)]
    names += [form for form in stored if tables.form(form).source == "correction"]
    found = {}
    for name in dict.fromkeys(names):
        form = tables.form(name)
        memory = form.memory_latency if form.loads else None
        found[name] = Row(form.fused_uops, form.unfused_uops, form.latency, None, memory, None, form.uses)
    return found


def _own_figures(checkpoint: Checkpoint) -> tuple[dict[str, float], float, dict[str, str]]:
    """Return the core's own figures, as `perfkit calibrate` measures them."""
    kept = {key.removeprefix("own "): value for key, value in checkpoint.known.items() if key.startswith("own ")}
    if "cycle_seconds" not in kept:
        found = calibrate(["ADD_R64_RM64"], memory=True)
        if "front_end" not in found.resources:
            why = found.left_out.get("front_end", "no sample was kept")
            raise UnavailableError(f"the width of the front end could not be measured, and all else needs it: {why}")
        for name, value in found.resources.items():
            checkpoint.add(f"own {name}", value)
        left_out = dict(found.left_out)
        if not left_out:
            checkpoint.add("own cycle_seconds", found.cycle_seconds)
        return dict(found.resources), found.cycle_seconds, left_out
    figures = {name: value for name, value in kept.items() if value is not None}
    return figures, figures.pop("cycle_seconds"), {}


def _whole(width: float) -> float:
    """Return a width as a whole number where it is within 6 % of one."""
    return float(round(width)) if abs(width - round(width)) <= 0.06 * width else width


def _alone(course: Course, forms: list[str]) -> tuple[dict[str, Settled], dict[str, str]]:
    groups = {form: passes([(form, 1)]) for form in forms}
    found = course.measured(in_passes(list(groups.values())))
    results = {form: settled(group, found) for form, group in groups.items()}
    return _parted(results, "throughput of ")


def _latencies(course: Course, forms: list[str]) -> tuple[dict[str, dict[int, Settled]], dict[str, str]]:
    groups = {(form, operand): passes([(form, 1)], operand) for form in forms for operand in chains(form)}
    found = course.measured(in_passes(list(groups.values())))
    results = {key: settled(group, found) for key, group in groups.items()}
    good: dict[str, dict[int, Settled]] = {}
    for (form, operand), value in results.items():
        if isinstance(value, Settled):
            good.setdefault(form, {})[operand] = value
    return good, {
        f"latency of {form} from operand {operand}": value
        for (form, operand), value in results.items()
        if isinstance(value, str)
    }


def _parted(results: Mapping[str, Settled | str], what: str) -> tuple[dict[str, Settled], dict[str, str]]:
    good = {form: value for form, value in results.items() if isinstance(value, Settled)}
    return good, {f"{what}{form}": value for form, value in results.items() if isinstance(value, str)}
