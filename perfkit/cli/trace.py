"""``perfkit trace``: record what a function of a program, or a kernel in C, executes."""

from pathlib import Path

import typer


def trace(
    what: str = typer.Argument(
        help="A program; a C file (its kernel is compiled first); or corpus:NAME, a kernel of the corpus."
    ),
    arguments: list[str] = typer.Argument(
        None, help="The program's arguments, after --; a kernel's: 1000, 2.0, f8[1000] (an array)."
    ),
    function: str = typer.Option("", "--function", "-f", help="The function to record (not needed for kernels)."),
    output: Path | None = typer.Option(None, "--output", "-o", help="Trace file to write [default: FUNCTION.trace]."),
    limit: int = typer.Option(10_000_000, help="Stop after so many instructions."),
    skip: int = typer.Option(0, help="Calls of the function to let pass first."),
    repeat: int = typer.Option(1, help="Calls to record."),
    callees: bool = typer.Option(False, "--callees", help="Record called functions, too."),
    backend: str = typer.Option("auto", help="auto, cloner or qemu."),
    timeout: float = typer.Option(120.0, help="Seconds."),
    begin: str = typer.Option("", help="Record from each call of this function ..."),
    end: str = typer.Option("", help="... to the call of this one."),
    build: str = typer.Option("", help="For kernels: scalar, avx2 or avx512 [default: -O3 -march=native]."),
    flags: str = typer.Option("", help="For kernels: compiler flags in place of a build's."),
    compiler: str = typer.Option("gcc", help="For kernels."),
    define: list[str] = typer.Option(None, "--define", "-D", help="For kernels: a macro, NAME=VALUE."),
) -> None:
    """Record the instructions and addresses of one function.

    perfkit trace ./program --function work -o work.trace -- 48
    """
    from perfkit.collectors.kernels import compile_kernel, corpus_kernel
    from perfkit.collectors.open_traces import kernel_arguments
    from perfkit.collectors.tracer.tracer import Tracer
    from perfkit.errors import SettingError

    tracer = Tracer(
        limit=limit, skip=skip, repeat=repeat, callees=callees, backend=backend, timeout=timeout, begin=begin, end=end
    )
    if what.startswith("corpus:") or what.endswith(".c"):
        options: dict[str, object] = {"compiler": compiler, "defines": dict(_macro(each) for each in define or [])}
        options |= {key: value for key, value in (("build", build), ("flags", flags)) if value}
        if what.startswith("corpus:"):
            kernel = corpus_kernel(what.removeprefix("corpus:"), **options)  # type: ignore[arg-type]
        else:
            kernel = compile_kernel(Path(what), function or None, **options)  # type: ignore[arg-type]
        recorded = tracer.run_kernel(kernel, *kernel_arguments(", ".join(arguments or [])))
    else:
        if not function:
            raise SettingError("say which function of the program to record: --function NAME")
        recorded = tracer.run(what, function, arguments or [])
    path = recorded.save(output or Path(f"{recorded.provenance.function}.trace"))
    origin = recorded.provenance
    print(f"{path}: {recorded.instruction_count:,} instructions, {recorded.access_count:,} accesses", end="")
    print(f" ({recorded.isa}), {path.stat().st_size:,} bytes")
    print(f"backend: {origin.backend}" + (f" ({origin.backend_reason})" if origin.backend_reason else ""))
    if origin.stopped:
        print(f"incomplete: {origin.stopped}")
    if origin.extra.get("not_followed_calls"):
        hint = "" if callees else "; --callees records them where they can be"
        print(f"called and not recorded (name: calls): {origin.extra['not_followed_calls']}{hint}")


def _macro(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name, value or "1"
