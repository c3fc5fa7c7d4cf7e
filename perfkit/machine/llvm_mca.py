"""What LLVM's scheduling models say about instructions: run ``llvm-mca`` and read its instruction tables.

``llvm-mca -instruction-tables=full`` prints each instruction's cumulated use of every group of ports; this module turns
that into base uops (Moebius inversion over the groups) and into the figures of an instruction form. The bundled tables
are made with it (``data/make/instruction_tables.py``), and a trace's forms that no table knows are looked up with it
at run time, where an ``llvm-mca`` of LLVM 21 or later is installed.

LLVM is Apache-2.0 WITH LLVM-exception.
"""

from __future__ import annotations

import collections
import itertools
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from types import MappingProxyType
from typing import NamedTuple

from perfkit.errors import DataError, UnavailableError

OLDEST = 21  # the first LLVM whose -instruction-tables=full says all that is read here
SECONDS = 20.0  # for one run of llvm-mca
Units = frozenset[str]
Resources = dict[str, tuple[int, list[str]]]


class Tool(NamedTuple):
    """An installed ``llvm-mca``: where it is, and its version ("22.1.8")."""

    path: str
    version: str


class McaRow(NamedTuple):
    """One row that ``llvm-mca`` printed: cycles and uops as LLVM counts them."""

    uops: int
    latency: int
    throughput: float
    load: bool
    store: bool
    bypass: int
    uses: dict[str, int]
    opcode: str


class McaFigures(NamedTuple):
    """What a row comes to for perfkit: slots, uops, latencies in cycles, uses of groups of ports."""

    fused: int
    unfused: int
    latency: int
    memory_latency: int | None
    uses: dict[Units, int]


@dataclass(frozen=True)
class Answer:
    """What ``llvm-mca`` said about some instructions.

    Parameters
    ----------
    resources
        LLVM's name of a resource -> units, and the resources it is made of.
    rows
        Key of an instruction -> its row.
    refused
        Keys of those it cannot read or has no model of.
    """

    resources: Resources
    rows: dict[str, McaRow]
    refused: tuple[str, ...]


def find_llvm_mca() -> Tool | None:
    """Return the newest installed llvm-mca of LLVM 21 or later, None where there is none."""
    return _find(os.environ.get("PATH", ""))


@cache
def _find(path: str) -> Tool | None:
    found = []
    for name in ("llvm-mca", *(f"llvm-mca-{number}" for number in range(OLDEST, OLDEST + 20))):
        where = shutil.which(name, path=path)
        if where is None:
            continue
        try:
            said = subprocess.run([where, "--version"], capture_output=True, text=True, check=False, timeout=SECONDS)
        except (OSError, subprocess.TimeoutExpired):
            continue
        match = re.search(r"LLVM version (\d+)(\S*)", said.stdout)
        if match and int(match[1]) >= OLDEST:
            found.append((int(match[1]), Tool(where, match[1] + match[2])))
    return max(found, key=lambda pair: pair[0])[1] if found else None


@lru_cache(maxsize=32)
def remembered(texts: tuple[tuple[str, str], ...], cpu: str, tool: str) -> Answer:
    """Return `look_up` of x86-64 instructions, from memory where the same was asked before."""
    return look_up(dict(texts), cpu, tool)


def look_up(
    texts: Mapping[str, str], cpu: str, tool: str, triple: str = "x86_64", seconds: float = SECONDS, batch: int = 2000
) -> Answer:
    """Ask llvm-mca about instructions: one run for each `batch` of them, and more where it stumbles over one.

    Parameters
    ----------
    texts
        Key -> assembly text (AT&T syntax on x86-64).
    cpu
        LLVM's name of the core.
    tool
        Path of llvm-mca.
    triple
        LLVM's name of the instruction set.
    seconds
        Time limit of each run.

    Raises
    ------
    UnavailableError
        A run exceeded its time limit, or llvm-mca cannot be run.
    """
    arguments = [tool, f"-mtriple={triple}", f"-mcpu={cpu}", "-instruction-tables=full",
                 "-resource-pressure=false", "-skip-unsupported-instructions=any"]  # fmt: skip
    marker = _MARKERS["aarch64" if triple.startswith("aarch64") else "x86_64"]
    resources: Resources = {}
    rows: dict[str, McaRow] = {}
    refused: list[str] = []
    todo = [list(texts)[start : start + batch] for start in range(0, len(texts), batch)]
    while todo:
        order = todo.pop()
        lines = []
        for index, key in enumerate(order):
            lines += [texts[key], marker.format(index)]
        text = "\n".join(lines) + "\n"
        try:
            run = subprocess.run(arguments, input=text, capture_output=True, text=True, check=False, timeout=seconds)
        except subprocess.TimeoutExpired:
            raise UnavailableError(f"{tool} did not answer about {len(order)} instructions in {seconds:g} s") from None
        except OSError as error:
            raise UnavailableError(f"{tool} cannot be run: {error}") from error
        if "is not a recognized processor" in run.stderr or "unable to get target" in run.stderr:
            raise UnavailableError(f"{tool} knows no -mcpu={cpu} of {triple}: {run.stderr.strip().splitlines()[0]}")
        errors = {int(number) for number in re.findall(r"^<stdin>:(\d+):\d+: error", run.stderr, re.MULTILINE)}
        if errors:  # text that llvm-mc prints and llvm-mca cannot read: "movslq %ecx, %bx"
            refused += [key for index, key in enumerate(order) if 2 * index + 1 in errors]
            todo.append([key for index, key in enumerate(order) if 2 * index + 1 not in errors])
        elif run.returncode and len(order) > 1:  # a form that crashes llvm-mca: find it by halves
            todo += [order[: len(order) // 2], order[len(order) // 2 :]]
        elif run.returncode:
            refused += order
        else:
            parse_table(run.stdout, order, resources, rows)
    refused += [key for key in texts if key not in rows and key not in refused]
    return Answer(resources, rows, tuple(refused))


# Instructions that change nothing and carry a number: one after each instruction keeps the two lists aligned where
# llvm-mca skips one. (AArch64's move takes 16 bits.)
_MARKERS = {"x86_64": "nopl 16777216+{}(%rax)", "aarch64": "movz x29, #{}"}
_MARKED = re.compile(r"nopl\t(\d+)\(%rax\)|mov\tx29, #(\d+)")


def parse_table(text: str, order: Sequence[str], resources: Resources, rows: dict[str, McaRow]) -> None:
    """Read llvm-mca's output into `resources` and `rows`; `order` has the keys that were asked about."""
    pending: list[McaRow] = []
    inside = False
    for line in text.splitlines():
        if match := re.match(r"\[\d+\]\s+- (\S+?):(\d+)\s*(.*)$", line):
            resources[match[1]] = (int(match[2]), [part.strip() for part in match[3].split(",") if part.strip()])
        elif line.startswith("[1]    [2]"):
            inside = True
        elif inside and line.strip():
            row = parse_row(line, resources)
            if match := _MARKED.search(line):
                if len(pending) == 1:
                    rows[order[int(match[1]) - 0x1000000 if match[1] else int(match[2])]] = pending[0]
                pending = []
            else:
                pending.append(row)


def parse_row(line: str, resources: Resources) -> McaRow:
    """Read one row of llvm-mca's table of instructions."""
    uops, latency, throughput = line.split()[:3]
    middle = line[: line.index("\t")] if "\t" in line else line
    flags = line[21:42]
    match = re.match(r"^\s*\d+\s+\d+\s+[\d.-]+\s+[* U]*?(\d+)\s+(\S.*)$", middle)
    if match is None:
        raise DataError(f"cannot read llvm-mca's row: {line!r}")
    tokens = match[2].split()
    uses, opcode = {}, tokens[0]
    if re.split(r"[,\[]", tokens[0])[0] in resources:
        opcode = tokens[1]
        for name, cycles in re.findall(r"(\w+(?:\.\w+)*)(?:\[([\d,]+)\])?", tokens[0]):
            numbers = [int(part) for part in cycles.split(",")] if cycles else [1]
            uses[name] = numbers[0] if len(numbers) == 1 else numbers[1] - numbers[0]
    return McaRow(
        uops=int(uops),
        latency=int(latency),
        throughput=float(throughput) if throughput != "-" else 0.0,
        load="*" in flags[:7],
        store="*" in flags[7:14],
        bypass=int(match[1]),
        uses=uses,
        opcode=opcode,
    )


# --- ports ------------------------------------------------------------------------------------------------------------


def resource_prefix(resources: Iterable[str]) -> str:
    """Return what LLVM puts before each name of a resource: SKX, Zn4, ADLP, A57Unit."""
    names = sorted(resources)
    shared = (a == b for a, b in zip(names[0], names[-1], strict=False))  # of sorted names the ends differ most
    return names[0][: len(list(itertools.takewhile(bool, shared)))].partition("Port")[0]


def unit_sets(resources: Resources, prefix: str) -> dict[str, Units]:
    """Return {LLVM's name: our port names}."""
    sets: dict[str, Units] = {}
    for name, (count, parts) in resources.items():
        if not parts:
            plain = port_name(name, prefix)
            digits = re.search(r"\d+$", plain)
            if count == 1:
                sets[name] = frozenset([plain])
            elif digits and len(digits[0]) == count:  # SBPort23, Zn4FP45: one name for several ports
                sets[name] = frozenset(plain[: digits.start()] + digit for digit in digits[0])
            else:
                sets[name] = frozenset(f"{plain}.{index}" for index in range(count))
    for name, (_, parts) in resources.items():
        if parts:
            sets[name] = frozenset().union(*(sets[part] for part in parts))
    return sets


def port_name(name: str, prefix: str) -> str:
    """Return our name of one of LLVM's resources: SKXPort015 is p015, Zn4ALU0 is ALU0."""
    name = name.removeprefix(prefix)
    if match := re.fullmatch(r"Port([\d_]+)", name):
        digits = match[1]
        numbers = digits.split("_") if prefix in ("ADLP", "SPR") else list(digits)  # Port00_01_11, or Port015
        return "p" + "".join(f"{int(number):X}" for number in numbers)
    return name


def group_name(units: Units) -> str:
    """Return the name of a group: p0, p1 -> p01; FP0, FP1 -> FP01; units of several kinds are joined by +."""
    by_stem = collections.defaultdict(list)
    for unit in sorted(units):
        match = (
            re.fullmatch(r"(.*?)\.?([\dA-F]?)", unit) if re.fullmatch(r"p[\dA-F]", unit) or unit[-1].isdigit() else None
        )
        stem, digit = (match[1], match[2]) if match else (unit, "")
        by_stem[stem].append((unit, digit))
    names = []
    for stem, members in sorted(by_stem.items()):
        dotted = all("." in unit for unit, _ in members)
        names.append(stem if dotted else stem + "".join(digit for _, digit in members))
    return "+".join(names)


def cumulated(row: McaRow, sets: Mapping[str, Units]) -> dict[Units, int]:
    """Return {units: largest use}: groups that LLVM lists under several names are one."""
    found: dict[Units, int] = {}
    for name, uses in row.uses.items():
        found[sets[name]] = max(found.get(sets[name], 0), uses)
    return found


def exclusive(inclusive: Mapping[Units, int]) -> dict[Units, int]:
    """Moebius inversion over the subset order: the uops that go to exactly this group."""
    base: dict[Units, int] = {}
    for units in sorted(inclusive, key=len):
        left = inclusive[units] - sum(count for other, count in base.items() if other < units)
        if left > 0:
            base[units] = left
    return base


def closed_groups(rows: Iterable[McaRow], sets: Mapping[str, Units], everything: Units) -> set[Units]:
    """Return the groups in use, and the unions of overlapping ones that LLVM lacks (Gus, [20]'s conjunctive form)."""
    groups = {units for row in rows for units in exclusive(cumulated(row, sets))} - {everything}
    growing = True
    while growing:
        unions = {a | b for a, b in itertools.combinations(groups, 2) if a & b and not (a <= b or b <= a)} - groups
        growing = bool(unions - {everything}) and len(groups) < 64
        groups |= unions - {everything}
    return groups


# --- figures ----------------------------------------------------------------------------------------------------------

# Plain loads, whose latency and ports every other load has: asked about along with the forms that are looked up.
PLAIN_LOADS: Mapping[str, str] = MappingProxyType(
    {
        "MOV_R64_RM64/m": "movq (%rax), %rbx",
        "VEX_VMOVUPS_XMM_XMMM128/m": "vmovups (%rax), %xmm1",
        "VEX_VMOVUPS_YMM_YMMM256/m": "vmovups (%rax), %ymm1",
        "EVEX_VMOVUPS_ZMM_K1Z_ZMMM512/m": "vmovups (%rax), %zmm1",
    }
)
_VECTOR_LOADS = dict(zip(("XMM", "YMM", "ZMM"), list(PLAIN_LOADS)[1:], strict=True))


@dataclass(frozen=True)
class Model:
    """LLVM's model of one x86-64 core, as far as it concerns what a row means.

    Parameters
    ----------
    resources
        As in `Answer`.
    loads
        Rows of `PLAIN_LOADS`, as far as the core has them; the integer load it has to have.
    """

    resources: Resources
    loads: Mapping[str, McaRow]

    @cached_property
    def prefix(self) -> str:
        """What LLVM puts before each of the core's resources."""
        return resource_prefix(self.resources)

    @cached_property
    def sets(self) -> dict[str, Units]:
        """LLVM's name of a resource -> our port names."""
        return unit_sets(self.resources, self.prefix)

    @cached_property
    def everything(self) -> Units:
        """The group of all ports, where LLVM counts uops with it (Intel); else a group that nothing is in."""
        return next((self.sets[name] for name in self.sets if name.endswith("PortAny")), frozenset(["-"]))

    @cached_property
    def load_units(self) -> Units:
        """The ports of a load: of what a plain load uses, the largest group (AMD lists its queue and its AGU too)."""
        base = exclusive(cumulated(self.loads["MOV_R64_RM64/m"], self.sets))
        named = [units for units in base if group_name(units) == "Load"]
        return named[0] if named else max(base, key=len)

    def load_latency(self, form: str) -> int:
        """Return the cycles of a plain load to a register of the kind that the form loads to."""
        width = re.search(r"_([XYZ]?MM)", form)
        kind = "" if width is None else "XMM" if width[1] == "MM" else width[1]
        plain = self.loads.get(_VECTOR_LOADS.get(kind, ""))
        return (plain.latency if plain else 0) or self.loads["MOV_R64_RM64/m"].latency

    def figures(self, form: str, row: McaRow, register_latency: float | None) -> McaFigures:
        """Return what a row comes to; `register_latency` is that of the same form without a memory operand."""
        inclusive = cumulated(row, self.sets)
        base = exclusive(inclusive)
        ports = sum(count for units, count in base.items() if not any("Divider" in unit for unit in units))
        counted = self.everything != frozenset(["-"])
        unfused = inclusive.get(self.everything, ports) if counted else max(row.uops, 1 if inclusive else 0)
        if not set(base) - {self.everything}:
            unfused = 0
        latency, memory = row.latency, None
        if row.load:
            memory = max(row.latency - self.load_latency(form), 0)
            if register_latency is not None:
                latency = int(register_latency)
                if memory and abs(memory - latency) <= 2:
                    memory = latency  # LLVM adds another load latency for some forms than its own loads have
            else:
                latency = min(row.bypass, memory) if memory else 0
        elif row.store:
            latency = 0  # data to memory: what follows it is the core's store-forward latency
        loads = base.get(self.load_units, 0) if row.load else 0
        fused = self._fused(row, unfused if counted else row.uops, loads)
        return McaFigures(fused, unfused, latency, memory, base)

    def _fused(self, row: McaRow, unfused: int, loads: int) -> int:
        """Slots at rename. LLVM counts macro-operations on AMD, and unfused uops on Intel (not on every row)."""
        if self.prefix.startswith("Zn"):
            return row.uops
        fused = unfused
        if row.load and loads == 1 and unfused > 1:
            fused -= 1
        if row.store and unfused > 1:
            fused -= 1
        if loads > 1:  # gathers: microcoded, LLVM's own count
            fused = row.uops
        return max(fused, 1)


def uses_of(base: Mapping[Units, int], groups: Mapping[str, Units]) -> dict[str, float]:
    """Return the uses of named groups, each group counting what its subsets do (the paper's conjunctive form)."""
    found = {}
    for name, group in groups.items():
        total = sum(count for units, count in base.items() if units <= group)
        if total:
            found[name] = float(total)
    return found
