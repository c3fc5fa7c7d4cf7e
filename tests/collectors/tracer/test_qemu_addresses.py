"""QEMU's traces against single-stepping: the same program counters, addresses, sizes and directions, one by one."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from perfkit.collectors.kernels import corpus_folder, corpus_kernel
from perfkit.collectors.tracer.elf import ElfFile
from perfkit.collectors.tracer.tracer import Tracer
from perfkit.trace.aarch64 import decode
from tests.collectors.tracer import qemu_stepper

HERE = Path(__file__).parent
FUNCTIONS = ["bytes", "triad", "singles", "list", "structs", "fibonacci", "halves", "interleaved", "modes"]
FLAGS = {"scalar": ["-O2", "-fno-tree-vectorize"], "vector": ["-O3", "-ffast-math"], "stack": ["-O0"]}
CORPUS = {"gemm": {"N": 7}, "cholesky": {"N": 10}, "nussinov": {"N": 10}, "string-copy": {"N": 60, "COUNT": 5}}
MAIN = """
extern void setup(void) __attribute__((weak));
extern void {0}(void);
int main(void) {{ if (setup) setup(); {0}(); return 0; }}
"""
ARM = [
    *((f, b) for f in FUNCTIONS[:7] for b in ("scalar", "vector")),
    ("interleaved", "scalar"), ("modes", "scalar"), ("triad", "stack"), ("halves", "stack"),
]  # fmt: skip
RISCV = [("bytes", "scalar"), ("triad", "scalar"), ("singles", "scalar"), ("list", "scalar"), ("structs", "vector"),
         ("halves", "stack")]  # fmt: skip


def need(isa: str) -> str:
    """Return the cross compiler, or skip."""
    machine = {"aarch64": "aarch64", "riscv64": "riscv64"}[isa]
    for tool in (f"qemu-{machine}", f"{machine}-linux-gnu-gcc", f"{machine}-linux-gnu-objdump"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    return f"{machine}-linux-gnu-gcc"


@pytest.fixture(scope="module")
def foreign(tmp_path_factory):
    """Build foreign.c once for each instruction set and flags: foreign(isa, build) -> path."""
    folder, built = tmp_path_factory.mktemp("foreign"), {}

    def build_program(isa: str, build: str) -> Path:
        if (isa, build) not in built:
            path = folder / f"{isa}-{build}"
            subprocess.run([need(isa), *FLAGS[build], "-static", "-o", path, HERE / "foreign.c"], check=True)
            built[isa, build] = path
        return built[isa, build]

    return build_program


def compare(isa: str, program: Path, function: str, arguments: list[str], folder: Path) -> None:
    trace = Tracer(backend="qemu").run(program, function, arguments)
    libraries = ["-L", f"/usr/{isa}-linux-gnu"] if ElfFile(program).is_dynamic else []
    processor = ["-cpu", "max"] if isa == "aarch64" else []
    command = [f"qemu-{isa}", *libraries, *processor, str(program), *arguments]
    truth = qemu_stepper.single_step(command, program, function, folder)
    which = np.concatenate(list(trace.instructions()))
    operand = np.concatenate(list(trace.operands()))
    assert 40 < len(truth.pcs) < 100_000
    assert trace.code.pc[which].tolist() == truth.pcs
    assert int(trace.provenance.extra["load_bias"], 16) == truth.bias
    found = zip(
        trace.addresses.tolist(),
        trace.access_sizes().tolist(),
        trace.code.read[operand].tolist(),
        trace.code.write[operand].tolist(),
        strict=True,
    )
    assert list(found) == truth.accesses
    if isa == "aarch64":  # what changed is what the decoder says is written
        written = {pc: set(i.written) for pc, i in zip(trace.code.pc.tolist(), decode(trace.code), strict=True)}
        assert {pc: changed - written[pc] for pc, changed in truth.changed.items() if changed - written[pc]} == {}


@pytest.mark.parametrize(("function", "build"), ARM)
def test_aarch64(foreign, tmp_path, function, build):
    compare("aarch64", foreign("aarch64", build), function, [str(FUNCTIONS.index(function))], tmp_path)


@pytest.mark.parametrize(("function", "build"), RISCV)
def test_riscv(foreign, tmp_path, function, build):
    compare("riscv64", foreign("riscv64", build), function, [str(FUNCTIONS.index(function))], tmp_path)


@pytest.mark.parametrize("isa", ["aarch64", "riscv64"])
def test_programs_that_lie_elsewhere_than_their_file_says(isa, tmp_path):
    """Position-independent and with shared libraries, as kernels are compiled."""
    compiler = need(isa)
    subprocess.run([compiler, "-O2", "-fPIE", "-pie", "-o", tmp_path / "p", HERE / "foreign.c"], check=True)
    compare(isa, tmp_path / "p", "structs", ["4"], tmp_path)


@pytest.mark.parametrize("isa", ["aarch64", "riscv64"])
@pytest.mark.parametrize("name", CORPUS)
def test_kernels_of_the_corpus(isa, name, tmp_path):
    compiler, function = need(isa), corpus_kernel(name, "scalar").function
    (tmp_path / "main.c").write_text(MAIN.format(function))
    defines = [f"-D{key}={value}" for key, value in CORPUS[name].items()]
    flags = ["-O3", "-static", "-fno-tree-loop-distribute-patterns", "-I", corpus_folder(), *defines]
    source = corpus_folder() / f"{name}.c"
    subprocess.run([compiler, *flags, "-o", tmp_path / "p", tmp_path / "main.c", source, "-lm"], check=True)
    compare(isa, tmp_path / "p", function, [], tmp_path)
