"""The C text of the variants of a kernel, each a translation unit of its own: macros never reach another variant."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from perfkit.collectors.microbenchmark.asm import loop_source
from perfkit.errors import SettingError
from perfkit.study.study import CPP, Configuration, Study, Value, fill

NATIVE = Path(__file__).parent / "native"
PREFIX = "perfkit_prefix.h"


@dataclass(frozen=True)
class Variant:
    """One configuration on its way to the compiler.

    Parameters
    ----------
    key : str
        Of the configuration.
    macros : str
        The lines that define its dimensions, read before anything else.
    unit : str
        The text of the main translation unit; "" for a program that consists of `sources`.
    sources : tuple of str
        More files to compile.
    arguments : tuple of str
        Of a whole program.
    expect : tuple of (str, int)
        Mnemonics that the compiled region must hold, and how often at least.
    """

    key: str
    macros: str
    unit: str
    sources: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    expect: tuple[tuple[str, int], ...] = ()


def variant(study: Study, configuration: Configuration, key: str) -> Variant:
    """Write the text of one variant."""
    if study.assembly is not None:
        return Variant(key, "", loop_source(study.assembly, configuration, "pk_run"))
    macros = "".join(f"#define {name} {_macro(name, value)}\n" for name, value in configuration.values.items())
    values = {**configuration.values, "threads": configuration.threads}
    values |= {"compiler": configuration.compiler, "flags": configuration.flags}
    sources = tuple(str(Path(study.folder, fill(text, values))) for text in study.sources)
    arguments = tuple(fill(text, values) for text in study.arguments)
    return Variant(key, macros, main_unit(study), sources, arguments, tuple(study.expect.items()))


def main_unit(study: Study) -> str:
    """Return the text of the translation unit around a kernel: of a whole program, the program itself."""
    if study.source is None:
        return ""
    if study.is_program:
        return f'#include "kernel/{kernel_name(study)}"\n'
    return f'#include "{PREFIX}"\n#include "kernel/{kernel_name(study)}"\n{LOOP}'


def kernel_name(study: Study) -> str:
    """Return the name under which the compiler sees the kernel's text."""
    name = Path(study.kernel or "kernel.c").name
    return name if re.fullmatch(r"[A-Za-z0-9._-]+", name) else "kernel.c"


LOOP = """PK_LINKAGE __attribute__((__noinline__)) void pk_run(pk_context *pk) {
    for (long pk_step = 0, pk_steps = pk->steps; pk_step < pk_steps; pk_step++) {
        PK_MAY_GO_TO(pk_execution_ends);
        pk_region(pk, pk_step);
    pk_execution_ends:
        PK_EXECUTION_ENDS();
    }
}
PK_FENCES
"""
EMPTY_REGION = f'#include "{PREFIX}"\nPK_REGION {{ (void)pk; (void)step; }}\n{LOOP}'


# What headers of the C library look at: it tells them what to declare, and has to stand before the first of them.
_FEATURES = (
    r"_(?:GNU|DEFAULT|BSD|SVID|POSIX|POSIX_C|XOPEN|ISOC99|ISOC11|ISOC2X|ATFILE|LARGEFILE|LARGEFILE64)_SOURCE"
    "|_FILE_OFFSET_BITS|_TIME_BITS"
)


def leading_includes(kernel: str) -> tuple[str, str]:
    """Return the feature macros and the ``#include <...>`` lines that a kernel begins with, comments apart.

    These, and nothing else, may be compiled once for all variants: whatever comes later may depend on what precedes it.
    """
    macros: list[str] = []
    includes: list[str] = []
    text = re.sub(r"/\*.*?\*/", lambda comment: "\n" * comment[0].count("\n"), kernel, flags=re.DOTALL)
    for line in text.splitlines():
        bare = line.split("//")[0].strip()
        if re.fullmatch(rf"#\s*define\s+(?:{_FEATURES})(?:\s+\w+)?", bare) and not includes:
            macros.append(bare)
        elif re.fullmatch(r"#\s*include\s*<[^>]+>", bare):
            includes.append(bare)
        elif bare:
            break
    return "".join(line + "\n" for line in macros), "".join(line + "\n" for line in includes)


def idle_dimensions(study: Study, files: Iterable[str]) -> list[str]:
    """Return the dimensions with several values that nothing mentions: neither the kernel, nor `files`, nor a setting.

    Parameters
    ----------
    study : Study
        A study in C or C++; of one in assembly, nothing is returned.
    files : iterable of str
        The user's sources and headers that its variants read.
    """
    if study.assembly is not None:
        return []
    texts = [study.source or "", *(Path(path).read_text(encoding="utf-8", errors="replace") for path in files)]
    texts += [str(study.memory)]
    for values in study.dimensions.values():
        texts += [values] if isinstance(values, str) else [one for one in values if isinstance(one, str)]
    named = set(re.findall(r"[A-Za-z_]\w*", "\n".join(texts)))
    for text in (*study.sources, *study.arguments, *study.preamble, *study.finalize):
        named |= set(re.findall(r"\{(\w+)\}", text))
    several = [name for name, values in study.dimensions.items() if isinstance(values, str) or len(values) > 1]
    return [name for name in several if name not in named]


def region_unit(region: tuple[str, str]) -> str:
    """Return C text that marks calls of a region's functions."""
    begin, end = region
    return (
        f"int pk_has_region = 1;\nvoid pk_start(void), pk_stop(void), __real_{begin}(void), __real_{end}(void);\n"
        f"void __wrap_{begin}(void) {{ __real_{begin}(); pk_start(); }}\n"
        f"void __wrap_{end}(void) {{ pk_stop(); __real_{end}(); }}\n"
    )


def is_cpp(path: str) -> bool:
    """Whether a file's name is that of C++ source."""
    return Path(path).suffix in CPP


def _macro(name: str, value: Value) -> str:
    text = str(int(value)) if isinstance(value, bool) else str(value)
    if "\n" in text or "\r" in text:
        raise SettingError(f"the dimension {name}: a macro's value is one line, not {text!r}")
    return text
