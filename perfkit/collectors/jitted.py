"""A function that numba compiles, as a kernel: its machine code in a library, called from a little C."""

import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from perfkit.collectors.kernels import KeptFolder, Kernel, library_kernel
from perfkit.errors import DataError, SettingError

_CALLER = "perfkit_call"
# Of a library alone, numba's runtime is not there.
_RUNTIME = re.compile(r"NRT_|numba_|Py|_Py")
_SCALARS = {"int64": "long", "uint64": "unsigned long", "int32": "int", "uint32": "unsigned", "float64": "double",
            "float32": "float"}  # fmt: skip


def is_jitted(function: Any) -> bool:
    """Whether something is a function that numba compiles for the processor."""
    return hasattr(function, "py_func") and hasattr(function, "targetoptions") and hasattr(function, "overloads")


def jitted_kernel(function: Any, *arguments: Any) -> tuple[Kernel, list[Any]]:
    """Compile a function of numba for some arguments, and return a kernel that calls it with the values beside it.

    Parameters
    ----------
    function
        What ``numba.njit`` returns. It is compiled anew with its own options.
    *arguments
        Numbers and numpy arrays.

    Raises
    ------
    SettingError
        An argument is of a type that cannot be passed, or the function runs in parallel.
    DataError
        The function needs numba's runtime: it makes arrays or other objects.
    """
    import llvmlite.binding as llvm
    import numba

    if function.targetoptions.get("parallel"):
        raise SettingError(
            f"{function.__name__} is compiled with parallel=True, and threads of numba's are not followed: ask about "
            "it without"
        )
    fresh = type(function)(function.py_func, targetoptions=dict(function.targetoptions))
    signature = tuple(numba.typeof(each) for each in arguments)
    fresh.compile(signature)
    compiled = fresh.overloads[signature]
    symbol = compiled.fndesc.llvm_func_name
    codegen = compiled.library.codegen
    options: dict[str, Any] = {"opt": 3}
    codegen._customize_tm_options(options)
    options |= {"reloc": "pic", "codemodel": "default"}
    machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(**options)
    module = _alone(str(compiled.library._final_module), symbol, machine)
    needed = [each.name for each in module.functions if each.is_declaration and _RUNTIME.match(each.name)]
    if needed:
        raise DataError(
            f"{function.__name__} calls numba's runtime ({', '.join(needed[:3])}): it makes arrays or other objects. "
            "Hand in the arrays that it fills"
        )
    folder = KeptFolder()
    parts = Path(folder.name)
    (parts / "code.o").write_bytes(machine.emit_object(module))
    name = function.__name__
    taken = {each.name for each in module.functions}
    called = (
        name if name.isascii() and name.isidentifier() and name not in taken else _CALLER
    )  # what it is called in answers
    text, values = _caller(function.__name__, called, symbol, arguments)
    (parts / "call.c").write_text(text)
    library = parts / f"{function.__name__}.so"
    words = ["gcc", "-O2", "-shared", "-fPIC", "call.c", "code.o", "-o", library.name, "-lm"]
    done = subprocess.run(words, cwd=parts, capture_output=True, text=True, check=False)
    if done.returncode:
        raise DataError(f"{function.__name__} cannot be made a library: {done.stderr.strip()[:1000]}")
    return replace(library_kernel(library, called, function.__name__), _folder=folder), values


def _alone(text: str, symbol: str, machine: Any) -> Any:
    """Return a module (LLVM's language) with one function and what it calls, without its wrappers for Python."""
    import llvmlite.binding as llvm

    module = llvm.parse_assembly(text)
    for each in module.functions:
        if not each.is_declaration and each.name != symbol:
            each.linkage = "internal"
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(module, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options()))
    return module


def _caller(name: str, called: str, symbol: str, arguments: tuple[Any, ...]) -> tuple[str, list[Any]]:
    """Return C that calls the function as numba does, with the shapes written into it, and what is handed to it."""
    taken, passed, types, values = [], ["perfkit_result", "&raised"], ["void *", "void **"], []
    for k, value in enumerate(arguments):
        if isinstance(value, np.ndarray):
            taken.append(f"char *a{k}")
            whole = [value.size, value.itemsize]
            passed += ["0", "0", *map(str, whole), f"a{k}", *map(str, value.shape), *map(str, value.strides)]
            types += ["void *", "void *", "long", "long", "void *", *["long"] * (2 * value.ndim)]
            values.append(value)
            continue
        kind = str(np.asarray(value).dtype)
        if kind not in _SCALARS or np.ndim(value):
            raise SettingError(f"{name} is called with numbers and numpy arrays; found {type(value).__name__}")
        c = _SCALARS[kind]
        taken.append(f"{c} a{k}")
        passed.append(f"a{k}")
        types.append(c)
        values.append(value)
    text = "\n".join([
        f'extern int code({", ".join(types)}) __asm__("{symbol}");',
        "static char perfkit_result[4096] __attribute__((aligned(64)));",
        f'int {_CALLER}({", ".join(taken) or "void"}) __asm__("{called}");',
        f"int {_CALLER}({', '.join(taken) or 'void'}) {{",
        "    void *raised = 0;",
        f"    int status = code({', '.join(passed)});",
        "    if (status > 0) __builtin_trap();",
        "    return status;",
        "}",
        "",
    ])  # fmt: skip
    return text, values
