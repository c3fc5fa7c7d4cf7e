"""Add source lines to the traces in data/traces/ that were recorded before there were any; nothing else changes.

Run from the repository's root, with the compiler that the traces name: python data/make/trace_lines.py

The kernel is compiled again. Where every byte of the traced code is that of the recording, the new library's lines are
the recording's, too; else that is an error. Whether the source is still the recorded one is noted.
"""

import hashlib
import re
from dataclasses import replace

from traces import FOLDER, MOST_BYTES, WANTED

from perfkit.collectors.kernels import Kernel, corpus_kernel
from perfkit.collectors.tracer.elf import ElfFile
from perfkit.collectors.tracer.lines import Loaded, annotate
from perfkit.trace.trace import Trace


def loaded(trace: Trace, kernel: Kernel) -> Loaded:
    """Say where the library lay when the trace was recorded, having checked that it is the same code."""
    assert kernel.compiler == trace.provenance.compiler, kernel.compiler
    elf = ElfFile(kernel.path)
    entered = int(trace.code.pc[trace.code.block_start[trace.stream[0]]])
    base = entered - elf.function(kernel.function).address
    assert base % 4096 == 0
    for pc, code in zip(trace.code.pc.tolist(), trace.code.encoding, strict=True):
        at = next(s.offset + pc - base - s.address for s in elf.segments if s.kind == 1 and _in(pc - base, s))
        assert elf.data[at : at + len(code)] == code, hex(pc)
    return Loaded(str(kernel.path), base, int(trace.code.pc.max()) + 16, base)


def _in(address: int, segment: object) -> bool:
    return segment.address <= address < segment.address + segment.file_size  # type: ignore[attr-defined]


def add(name: str) -> str:
    """Add the lines of one trace; return its new SHA-256."""
    path = FOLDER / f"{name}.trace"
    old = Trace.load(path)
    kernel, build, macros = WANTED[name]
    again = corpus_kernel(kernel, build, defines=macros)
    new = annotate(old, [loaded(old, again)], again.folders)
    assert new.code.line.all(), name
    same = hashlib.sha256(again.source.encode()).hexdigest() == old.provenance.extra["source_sha256"]
    source = "the same source" if same else "a later source, which gives the same code,"
    note = {"lines": f"added by data/make/trace_lines.py from {source} compiled again"}
    new = replace(new, provenance=replace(new.provenance, extra={**new.provenance.extra, **note}))
    assert new.stream is old.stream
    assert new.addresses is old.addresses
    new.save(path, level=19)
    assert path.stat().st_size < MOST_BYTES
    lines = len(set(new.code.line.tolist()))
    print(f"{name:24} {source:44} {lines:>4} lines of {', '.join(new.provenance.sources)}")
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    manifest = FOLDER / "manifest.toml"
    text = manifest.read_text()
    for each in WANTED:
        if Trace.load(FOLDER / f"{each}.trace").code.line.any():
            continue
        table = re.escape(f'["traces/{each}"]')
        text, count = re.subn(rf'({table}\nfile = "[^"]+"\nsha256 = ")[0-9a-f]+', rf"\g<1>{add(each)}", text)
        assert count == 1, each
        manifest.write_text(text)
