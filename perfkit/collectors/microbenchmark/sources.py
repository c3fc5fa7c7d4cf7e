"""The C text of many variants of a kernel in one translation unit, each with its own macros and its own symbol."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from perfkit.collectors.microbenchmark.asm import expected, loop_source
from perfkit.study.study import Configuration, Study, Value

NATIVE = Path(__file__).parent / "native"
KERNEL_FILE = "perfkit_kernel_source.h"


@dataclass(frozen=True)
class Variant:
    """One configuration on its way to the compiler: its key, the C text that defines it, and what it must contain."""

    key: str
    text: str
    expect: tuple[tuple[str, int], ...] = ()

    @property
    def symbol(self) -> str:
        """The function that the measuring process calls."""
        return f"pk_run_{self.key}"


def variant(study: Study, configuration: Configuration, key: str) -> Variant:
    """Write the text of one variant."""
    if study.assembly is not None:
        wanted = expected(study.assembly, configuration)
        return Variant(key, loop_source(study.assembly, configuration, f"pk_run_{key}"), tuple(wanted.items()))
    macros = {name: _macro(value) for name, value in configuration.values.items()}
    lines = [f"#define PK_VARIANT {key}", *(f"#define {name} {text}" for name, text in macros.items())]
    lines += [f'#include "{KERNEL_FILE}"', _LOOP]
    lines += [f"#undef {name}" for name in ("PK_VARIANT", *macros)]
    return Variant(key, "\n".join(lines) + "\n", tuple(study.expect.items()))


# The barrier keeps the compiler from merging executions; it costs no instruction.
_LOOP = """PK_LINKAGE __attribute__((noinline)) void PK_NAME(pk_run)(pk_context *pk) {
    for (long step = 0, steps = pk->steps; step < steps; step++) {
        PK_NAME(pk_region)(pk, step);
        PK_KEEP_MEMORY();
    }
}"""


def translation_unit(variants: Iterable[Variant]) -> str:
    """Join variants into the text of one C or C++ file."""
    return '#include "perfkit.h"\n' + "\n".join(one.text for one in variants)


def _macro(value: Value) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)
