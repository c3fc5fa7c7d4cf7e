"""Compile batches of variants, many to an object; a failing batch is halved until the faulty variants stand alone."""

import hashlib
import itertools
import shlex
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from perfkit.collectors.host import toolchain
from perfkit.collectors.microbenchmark.sources import KERNEL_FILE, NATIVE, Variant, translation_unit
from perfkit.errors import UnavailableError
from perfkit.study.study import split_compiler


@dataclass(frozen=True)
class Batch:
    """Variants that share a compiler, flags and a kernel: one object, if nothing fails."""

    compiler: str
    flags: str
    language: str
    kernel: str
    variants: tuple[Variant, ...]
    static: tuple[str, ...] = ()
    time_limit: float = 300.0

    def name(self) -> str:
        """Return the object's name: a hash of all that decides its content."""
        parts = [self.compiler, self.flags, self.language, self.kernel, translation_unit(self.variants)]
        parts += [_version_or_nothing(self.compiler), (NATIVE / "perfkit.h").read_text(encoding="utf-8")]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:20]


@dataclass(frozen=True)
class Built:
    """What compiling gave for one variant: its object, or why there is none, and the static columns."""

    key: str
    object: str = ""
    message: str = ""
    static: dict[str, float] = field(default_factory=dict)

    @property
    def failed(self) -> bool:
        """Whether there is no object."""
        return not self.object


def compile_batch(batch: Batch, folder: Path) -> list[Built]:
    """Compile a batch into `folder` and check what came out; never raises for a variant's fault.

    A variant whose region lacks the instructions that were asked for counts as failed: the compiler removed them.
    """
    try:
        toolchain.find_tool(batch.compiler)
    except UnavailableError as error:
        return [Built(one.key, message=str(error)) for one in batch.variants]
    place = folder / batch.name()
    done = place / "variants.so"
    if not done.exists():
        try:
            message = _compile(batch, place, done)
        except UnavailableError as error:
            message = str(error)
        if message:
            if len(batch.variants) == 1:
                return [Built(batch.variants[0].key, message=f"{batch.compiler}: {message}")]
            return [built for half in _halves(batch) for built in compile_batch(half, folder)]
    return _inspect(batch, place, done)


def _compile(batch: Batch, place: Path, done: Path) -> str:
    """Compile, naming the object only when it is whole; returns the compiler's complaint or ""."""
    place.mkdir(parents=True, exist_ok=True)
    suffix = ".cpp" if batch.language == "c++" else ".c"
    (place / KERNEL_FILE).write_text(batch.kernel, encoding="utf-8")
    (place / f"variants{suffix}").write_text(translation_unit(batch.variants), encoding="utf-8")
    extra = toolchain.vectorization_flags(batch.compiler) if "vectorization" in batch.static else []
    if batch.compiler.endswith("gcc") and batch.language == "c++":
        extra.append("-lstdc++")
    command = [*split_words(batch.compiler, batch.flags), *extra, "-shared", "-fPIC", "-w", f"-I{NATIVE}", "-I."]
    result = toolchain.run_tool(
        [*command, "-o", "partial.so", f"variants{suffix}"], timeout=batch.time_limit, cwd=place
    )
    if result.returncode:
        return _shorten(result.stderr) or f"exit status {result.returncode} without a message"
    (place / "partial.so").rename(done)
    return ""


def split_words(compiler: str, flags: str) -> list[str]:
    """Return the command's first words; `flags` are split as a shell would, without running one."""
    name, own = split_compiler(f"{compiler} {flags}")
    return [name, *shlex.split(own)]


def _halves(batch: Batch) -> list[Batch]:
    middle = len(batch.variants) // 2
    parts = (batch.variants[:middle], batch.variants[middle:])
    return [
        Batch(batch.compiler, batch.flags, batch.language, batch.kernel, part, batch.static, batch.time_limit)
        for part in parts
    ]


def _inspect(batch: Batch, place: Path, done: Path) -> list[Built]:
    """Check every variant's region by disassembly and collect the static columns."""
    needs = batch.static or any(one.expect for one in batch.variants)
    functions = toolchain.disassemble(done) if needs else {}
    regions = {one.key: toolchain.region(functions, one.symbol) for one in batch.variants}
    loops = {key: toolchain.hottest_loop(found) for key, found in regions.items()}
    figures = toolchain.mca(loops) if "mca" in batch.static else {}
    records = toolchain.vectorization(place) if "vectorization" in batch.static else {}
    out = []
    for one in batch.variants:
        lacking = toolchain.missing_instructions(itertools.chain(*regions[one.key]), dict(one.expect))
        if lacking:
            message = f"the compiled region lacks what was asked for ({lacking}): use PK_KEEP on what it computes"
            out.append(Built(one.key, message=message))
            continue
        static: dict[str, float] = {}
        if "mix" in batch.static:
            static |= toolchain.instruction_mix(loops[one.key])
        static |= figures.get(one.key, {})
        if "vectorization" in batch.static:
            static |= records.get(one.symbol, {"vectorized_loops": 0.0, "vectorized_bytes": 0.0})
        out.append(Built(one.key, object=str(done), static=static))
    return out


def batches(batch: Batch, size: int) -> list[Batch]:
    """Cut one batch into batches of at most `size` variants."""
    return [
        Batch(batch.compiler, batch.flags, batch.language, batch.kernel, batch.variants[at : at + size], batch.static,
              batch.time_limit)
        for at in range(0, len(batch.variants), size)
    ]  # fmt: skip


def build_harness(folder: Path) -> Path:
    """Compile the measuring process once into `folder`; raises UnavailableError without a C compiler."""
    source = NATIVE / "measure.c"
    text = source.read_text(encoding="utf-8") + (NATIVE / "perfkit.h").read_text(encoding="utf-8")
    program = folder / f"measure-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    if program.exists():
        return program
    folder.mkdir(parents=True, exist_ok=True)
    partial = program.with_suffix(".partial")
    compiler = next((name for name in ("gcc", "cc", "clang") if _exists(name)), "gcc")
    try:
        done = toolchain.run_tool([compiler, "-O2", f"-I{NATIVE}", "-o", str(partial), str(source), "-ldl"])
    except (UnavailableError, subprocess.SubprocessError) as error:
        raise UnavailableError(f"cannot build the measuring process: {error}") from None
    if done.returncode:
        raise UnavailableError(f"cannot build the measuring process: {_shorten(done.stderr)}")
    partial.rename(program)
    return program


def _exists(name: str) -> bool:
    try:
        toolchain.find_tool(name)
    except UnavailableError:
        return False
    return True


def _version_or_nothing(compiler: str) -> str:
    try:
        return toolchain.version(compiler)
    except UnavailableError:
        return ""


def _shorten(text: str, lines: int = 6, width: int = 300) -> str:
    """Return the first error lines of a compiler's output."""
    important = [line for line in text.splitlines() if "error" in line.lower() or "undefined" in line.lower()]
    return "\n".join(line[:width] for line in (important or text.splitlines())[:lines]).strip()
