"""Compilers and the static tools around them: versions, disassembly, llvm-mca, vectorisation records."""

import functools
import gzip
import json
import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from perfkit.errors import DataError, UnavailableError

_PACKAGES = {"gcc": "gcc", "g++": "g++", "clang": "clang", "objdump": "binutils", "as": "binutils",
             "objcopy": "binutils", "llvm-mca": "llvm"}  # fmt: skip


@dataclass(frozen=True)
class Disassembled:
    """One disassembled instruction: its address in the object, its mnemonic, its operands in AT&T syntax.

    `refers` is the symbol that objdump says it refers to ("" for none); `locked`: it has the prefix ``lock``.
    """

    address: int
    mnemonic: str
    operands: str
    refers: str = ""
    locked: bool = False

    @property
    def form(self) -> str:
        """The mnemonic with its operands' kinds, as the paper's tables name it: ``vgatherdps_YMM_MEM_YMM``."""
        return "_".join([self.mnemonic, *operand_kinds(self.operands)])


def find_tool(program: str) -> str:
    """Return the program's path; raises UnavailableError that says what to install."""
    path = shutil.which(program)
    if path is None:
        package = _PACKAGES.get(program)
        hint = f"install the package {package}" if package else "install it, or name another"
        raise UnavailableError(f"no program {program!r} on PATH: {hint}")
    return path


def run_tool(command: Sequence[str], timeout: float = 300, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a program without a shell and return what it said, in English, whatever its exit status."""
    try:
        return subprocess.run(
            [find_tool(command[0]), *command[1:]],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
            **({"env": os.environ | {"LC_ALL": "C"}} | options),
        )
    except subprocess.TimeoutExpired:
        raise UnavailableError(f"{command[0]} did not finish within {timeout:g} s") from None


@functools.lru_cache(maxsize=64)
def version(compiler: str) -> str:
    """Return the first line that ``COMPILER --version`` prints."""
    return (run_tool([compiler, "--version"], timeout=30).stdout.splitlines() or [""])[0].strip()


# -- disassembly -------------------------------------------------------------------------------------------------------

_SYMBOL = re.compile(r"^([0-9a-f]+) <(.+)>:$")
_LINE = re.compile(r"^\s*([0-9a-f]+):\s+(\S+)\s*(.*?)\s*(?:#(.*))?$")
_PREFIXES = {"lock", "rep", "repz", "repnz", "bnd", "notrack", "data16", "addr32", "cs", "ds"}


def disassemble_all(binaries: Sequence[Path]) -> list[dict[str, tuple[Disassembled, ...]]]:
    """Disassemble objects with as few runs of objdump as possible: symbol -> its instructions, in order."""
    out: list[dict[str, tuple[Disassembled, ...]]] = []
    for at in range(0, len(binaries), 256):
        out += _disassembled(binaries[at : at + 256])
    return out


def _disassembled(binaries: Sequence[Path]) -> list[dict[str, tuple[Disassembled, ...]]]:
    done = run_tool(["objdump", "-d", "-w", "--no-show-raw-insn", *map(str, binaries)])
    if done.returncode:
        raise DataError(f"objdump cannot read {binaries[0].parent}: {done.stderr.strip()[:200]}")
    files: list[dict[str, list[Disassembled]]] = []
    current: list[Disassembled] = []
    for line in done.stdout.splitlines():
        if "file format" in line and not line[:1].isspace():
            files.append({})
            continue
        symbol = _SYMBOL.match(line)
        if symbol:
            current = files[-1].setdefault(symbol[2], [])
            continue
        found = _LINE.match(line)
        if found:
            mnemonic, operands = found[2], found[3]
            locked = False
            while mnemonic in _PREFIXES and operands:
                locked |= mnemonic == "lock"
                mnemonic, _, operands = operands.partition(" ")
            refers = re.search(r"<([^>+]+)(?:\+0x[0-9a-f]+)?>", found[4] or operands)
            name = refers[1] if refers else ""
            current.append(Disassembled(int(found[1], 16), mnemonic, operands.strip(), name, locked))
    if len(files) != len(binaries):
        raise DataError(f"objdump described {len(files)} of {len(binaries)} objects in {binaries[0].parent}")
    return [{name: tuple(lines) for name, lines in functions.items()} for functions in files]


def region(functions: Mapping[str, tuple[Disassembled, ...]], symbol: str) -> list[tuple[Disassembled, ...]]:
    """Return the functions that a region became: its own, those cut out of it (OpenMP), those it refers to."""
    names = [name for name in functions if name == symbol or name.startswith(f"{symbol}.")]
    for name in names:  # grows while it is walked: what the found ones refer to is part of the region too
        for line in functions[name]:
            if line.refers in functions and line.refers not in names and "@" not in line.refers:
                names.append(line.refers)
    return [functions[name] for name in names if not name.startswith(("pk_setup", "pk_teardown", "pk_flush"))]


def operand_kinds(operands: str) -> list[str]:
    """Name the kinds of AT&T operands: XMM, YMM, ZMM, GPR, K, IMM, MEM or LABEL."""
    kinds = []
    for operand in re.findall(r"(?:[^,(]|\([^)]*\))+", operands):
        text = operand.strip().split("{")[0]
        if "(" in text:
            kinds.append("MEM")
        elif text.startswith("$"):
            kinds.append("IMM")
        elif text.startswith("%"):
            register = text[1:]
            kind = next((k for k in ("xmm", "ymm", "zmm") if register.startswith(k)), None)
            kinds.append(kind.upper() if kind else "K" if re.fullmatch(r"k[0-7]", register) else "GPR")
        elif text:
            kinds.append("LABEL")
    return kinds


def hottest_loop(functions: Iterable[Sequence[Disassembled]]) -> tuple[Disassembled, ...]:
    """Return the longest innermost loop of some functions, else all of the first function.

    A loop ends in a backward jump; one around another is no innermost loop: most of its time passes in the other.
    """
    functions = list(functions)
    best = max((loop for lines in functions for loop in _innermost_loops(lines)), key=len, default=())
    if best or not functions:
        return best
    return tuple(line for line in functions[0] if not line.mnemonic.startswith("ret"))


def _innermost_loops(lines: Sequence[Disassembled]) -> list[tuple[Disassembled, ...]]:
    start = {line.address: at for at, line in enumerate(lines)}
    ends: dict[int, int] = {}  # of the jump back that lies furthest: a loop may have several (`continue`)
    for at, line in enumerate(lines):
        target = re.match(r"([0-9a-f]+)\b", line.operands) if line.mnemonic.startswith("j") else None
        begin = start.get(int(target[1], 16)) if target else None
        if begin is not None and begin <= at:
            ends[begin] = at
    return [
        tuple(lines[begin : end + 1]) for begin, end in ends.items() if not any(begin < other <= end for other in ends)
    ]


def same_mnemonic(found: str, asked: str) -> bool:
    """Whether two mnemonics are one instruction: an AT&T size suffix may be left out by one of them."""
    return found == asked or found in {asked + s for s in "bwlq"} or asked in {found + s for s in "bwlq"}


def missing_instructions(lines: Iterable[Disassembled], expected: Mapping[str, int]) -> str:
    """Say which expected instructions a region lacks ("" if none): the compiler may have removed the work."""
    there = Counter(line.mnemonic for line in lines)
    faults = []
    for mnemonic, least in expected.items():
        count = sum(n for found, n in there.items() if same_mnemonic(found, mnemonic))
        if count < least:
            faults.append(f"{mnemonic}: {count} found, {least} expected")
    return "; ".join(faults)


# -- static columns ----------------------------------------------------------------------------------------------------


def instruction_mix(body: Sequence[Disassembled]) -> dict[str, float]:
    """Return how often each instruction form occurs in a loop, as columns ``mix_FORM``, and their total."""
    counts = Counter(line.form for line in body)
    return {"static_instructions": float(len(body))} | {f"mix_{form}": float(n) for form, n in sorted(counts.items())}


def find_mca() -> str:
    """Return the newest llvm-mca on PATH."""
    for name in ("llvm-mca", *(f"llvm-mca-{v}" for v in range(30, 10, -1))):
        if shutil.which(name) and name != "llvm-mca":
            return name
    find_tool("llvm-mca")
    return "llvm-mca"


def mca(loops: Mapping[str, Sequence[Disassembled]], cpu: str = "native") -> dict[str, dict[str, float]]:
    """Run llvm-mca once over many loop bodies.

    Parameters
    ----------
    loops : mapping
        Name -> instructions of one iteration.
    cpu : str
        LLVM's name of the core.

    Returns
    -------
    dict
        Name -> ``mca_cycles`` (block reciprocal throughput in cycles per iteration), ``mca_ipc``,
        ``mca_uops_per_cycle``; NaN for a body that llvm-mca does not know.
    """
    nothing = {"mca_cycles": float("nan"), "mca_ipc": float("nan"), "mca_uops_per_cycle": float("nan")}
    names = list(loops)
    lines = []
    for at, name in enumerate(names):
        lines.append(f"# LLVM-MCA-BEGIN r{at}")
        lines += [for_assembler(one) for one in loops[name]]
        lines.append(f"# LLVM-MCA-END r{at}")
    command = [find_mca(), f"-mcpu={cpu}", "-resource-pressure=false", "-instruction-info=false"]
    done = run_tool([*command, "-"], input="\n".join(lines) + "\n")
    if done.returncode:
        if len(names) == 1:
            return {names[0]: nothing}
        half = len(names) // 2
        return mca({n: loops[n] for n in names[:half]}, cpu) | mca({n: loops[n] for n in names[half:]}, cpu)
    out = dict.fromkeys(names, nothing)
    for part in re.split(r"\n(?=\[\d+\] Code Region)", done.stdout):
        region = re.search(r"Code Region - r(\d+)", part)
        block = re.search(r"Block RThroughput:\s+([0-9.]+)", part)
        total = re.search(r"Iterations:\s+(\d+).*?Total Cycles:\s+(\d+)", part, re.DOTALL)
        ipc, uops = re.search(r"\bIPC:\s+([0-9.]+)", part), re.search(r"uOps Per Cycle:\s+([0-9.]+)", part)
        if region and block and total and ipc and uops:
            out[names[int(region[1])]] = {
                "mca_cycles": int(total[2]) / int(total[1]),
                "mca_block_rthroughput": float(block[1]),
                "mca_ipc": float(ipc[1]),
                "mca_uops_per_cycle": float(uops[1]),
            }
    return out


def for_assembler(line: Disassembled) -> str:
    """Return an instruction as an assembler takes it: jumps and calls go to the next line."""
    operands = re.sub(r"\s*<[^>]*>", "", line.operands)
    if line.mnemonic.startswith("j") or line.mnemonic == "call":
        return f"{line.mnemonic} 1f\n1:"
    return f"{line.mnemonic} {operands}"


def vectorization_flags(compiler: str) -> list[str]:
    """Return the flags that make the compiler write an optimisation record."""
    kind = compiler_kind(compiler)
    if kind == "gcc":
        return ["-fsave-optimization-record"]
    return ["-fsave-optimization-record=yaml", "-foptimization-record-passes=loop-vectorize|slp-vectorizer"]


def compiler_kind(compiler: str) -> str:
    """Return "clang" or "gcc" by what the compiler says of itself."""
    return "clang" if "clang" in version(compiler).lower() else "gcc"


RECORDS = (".opt-record.json.gz", ".opt.yaml")
"""How names of the optimisation records of gcc and of clang end."""


def vectorization(records: Iterable[Path]) -> dict[str, dict[str, float]]:
    """Read optimisation records: function -> loops vectorised and the widest vector (bytes)."""
    out: dict[str, dict[str, float]] = {}
    for path in records:
        if path.name.endswith(RECORDS[0]):
            remarks = _gcc_remarks(json.loads(gzip.decompress(path.read_bytes())))
        else:
            remarks = _clang_remarks(path.read_text(encoding="utf-8"))
        for function, text in remarks:
            _note(out, function, text)
    return out


def _note(out: dict[str, dict[str, float]], function: str, text: str) -> None:
    row = out.setdefault(function, {"vectorized_loops": 0.0, "vectorized_bytes": 0.0})
    found = re.search(r"vectorized using (\d+)[ -]byte vectors", text)
    width = re.search(r"vectorization width: (\d+)", text)
    if found and "loop" in text:
        row["vectorized_loops"] += 1
        row["vectorized_bytes"] = max(row["vectorized_bytes"], float(found[1]))
    elif width and "vectorized loop" in text:
        row["vectorized_loops"] += 1
        row["vectorized_width"] = max(row.get("vectorized_width", 0.0), float(width[1]))


def _gcc_remarks(record: Any) -> Iterable[tuple[str, str]]:
    for entry in record[2] if isinstance(record, list) and len(record) > 2 else []:
        if isinstance(entry, dict) and entry.get("kind") == "success" and "function" in entry:
            parts = entry.get("message", [])
            text = "".join(p if isinstance(p, str) else str(p.get("expr", p.get("stmt", ""))) for p in parts)
            yield entry["function"], text


class _RemarkLoader(yaml.SafeLoader):
    """Reads LLVM's tagged remark documents as plain mappings."""


_RemarkLoader.add_multi_constructor(
    "!", lambda loader, tag, node: {"kind": tag, **loader.construct_mapping(node, deep=True)}
)


def _clang_remarks(text: str) -> Iterable[tuple[str, str]]:
    for entry in yaml.load_all(text, Loader=_RemarkLoader):
        if entry and entry["kind"] == "Passed":
            message = "".join(str(v) for part in entry.get("Args", []) for k, v in part.items() if k != "DebugLoc")
            yield entry["Function"], message
