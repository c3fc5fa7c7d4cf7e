"""``perfkit trace``: record what a function of a program, or a kernel in C, executes."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from perfkit.cli import options
from perfkit.cli.output import print_json, wrote
from perfkit.errors import counted

if TYPE_CHECKING:
    from perfkit.trace.threads import ThreadTraces
    from perfkit.trace.trace import Trace


def trace(
    ctx: typer.Context,
    what: str = typer.Argument(
        metavar="WHAT",
        help="A program; a C or C++ file (its kernel is compiled first); or corpus:NAME, a shipped kernel.",
    ),
    words: options.Words = [],  # noqa: B006  typer copies it
    arguments: options.Arguments = "",
    function: options.Function = "",
    output: Annotated[
        Path | None, options.output("Write the trace (default: FUNCTION.trace).", ".trace", ".threads")
    ] = None,
    limit: options.Limit = 10_000_000,
    skip: options.Skip = 0,
    repeat: options.Repeat = 1,
    callees: bool = typer.Option(False, "--callees", help="Record called functions, too."),
    backend: Annotated[Literal["auto", "cloner", "qemu"], typer.Option("--backend", help="Tracer.")] = "auto",
    timeout: float = typer.Option(
        120.0, "--timeout", min=0.1, max=1e6, callback=options.finite, help="Give up after this many seconds."
    ),
    begin: str = typer.Option("", "--begin", metavar="NAME", help="Record from each call of this function ..."),
    end: str = typer.Option("", "--end", metavar="NAME", help="... to the call of this one."),
    threads: bool = typer.Option(
        False, "--threads", help="Record every thread; of an OpenMP function, its parallel loops (OMP_NUM_THREADS)."
    ),
    build: options.Build = "",
    flags: options.Flags = "",
    compiler: options.Compiler = "",
    define: options.Define = [],  # noqa: B006  typer copies it
    as_json: options.Json = False,
) -> None:
    """Record the instructions and addresses of one function.

    Example: perfkit trace ./program --function work -o work.trace -- 48
    """
    from perfkit.collectors.kernels import SOURCES, compile_kernel, corpus_kernel
    from perfkit.collectors.open_traces import kernel_arguments
    from perfkit.collectors.tracer.tracer import Tracer
    from perfkit.errors import SettingError

    tracer = Tracer(
        limit=limit, skip=skip, repeat=repeat, callees=callees, backend=backend, timeout=timeout, begin=begin, end=end
    )
    called = options.called_with(words, arguments)
    if output is None:
        options.check_writable(Path("FUNCTION.trace"))
    if threads:
        options.has_no_effect(ctx, "with --threads, which the cloner alone records", "backend")
    if what.startswith("corpus:") or what.endswith(SOURCES):
        if threads and not flags and not build:
            flags = "-O2 -fopenmp"
        given = (("build", build), ("flags", flags), ("compiler", compiler))
        built: dict[str, Any] = {"defines": options.macros(define), **{key: value for key, value in given if value}}
        if what.startswith("corpus:"):
            options.has_no_effect(ctx, "of corpus:NAME, which names a function", "function")
            kernel = corpus_kernel(what.removeprefix("corpus:"), **built)
        else:
            kernel = compile_kernel(Path(what), function or None, **built)
        values = kernel_arguments(called)
        if threads:
            _tell_threads(tracer.run_kernel_threads(kernel, *values), output, as_json, callees=callees)
            return
        recorded = tracer.run_kernel(kernel, *values)
    else:
        options.has_no_effect(ctx, "on a program, which is built already", "build", "flags", "compiler", "define")
        if not function:
            raise SettingError("say which function of the program to record: --function NAME")
        if threads:
            _tell_threads(tracer.run_threads(what, function, called), output, as_json, callees=callees)
            return
        recorded = tracer.run(what, function, called)
    path = recorded.save(output or Path(f"{recorded.provenance.function.replace('/', '_')}.trace"))
    wrote(path)
    origin = recorded.provenance
    if as_json:
        print_json(
            {
                "written": path,
                "bytes": path.stat().st_size,
                "function": origin.function,
                "isa": recorded.isa,
                "instructions": recorded.instruction_count,
                "accesses": recorded.access_count,
                "backend": origin.backend,
                "complete": origin.complete,
                "stopped": origin.stopped,
                "not_followed_calls": origin.extra.get("not_followed_calls"),
            }
        )
        return
    print(f"{recorded.instruction_count:,} instructions, {recorded.access_count:,} accesses", end="")
    print(f" ({recorded.isa}), {path.stat().st_size:,} bytes")
    print(f"backend: {origin.backend}" + (f" ({origin.backend_reason})" if origin.backend_reason else ""))
    if origin.stopped:
        print(f"incomplete: {origin.stopped}")
    if {"GOMP_parallel", "__kmpc_fork_call"} & set(origin.extra.get("not_followed", "").split(", ")):
        print("its parallel loops are not in it: --threads records them, in every thread")
    _tell_outside(recorded, callees=callees)


def _tell_threads(recorded: "ThreadTraces", output: Path | None, as_json: bool, *, callees: bool) -> None:
    """Write the traces of all threads, and say what each ran and which lines of memory they share."""
    function = recorded[0].provenance.function
    path = recorded.save(output or Path(f"{function.replace('/', '_')}.threads"))
    wrote(path)
    lines = recorded.shared_lines()
    if as_json:
        print_json(
            {
                "written": path,
                "bytes": path.stat().st_size,
                "function": function,
                "bodies": recorded.bodies,
                "threads": recorded.to_frame().to_dict("records"),
                "phased": recorded.phased,
                "shared_lines": lines.to_frame().to_dict("records"),
            }
        )
        return
    print(recorded.summary())
    for row in recorded.to_frame().itertuples():
        print(
            f"  thread {row.thread}: {row.instructions:,} instructions, {row.accesses:,} accesses, "
            f"{counted(row.calls, 'calls')}"
        )
    print(lines.summary())
    _tell_outside(recorded[0], callees=callees)


def _tell_outside(recorded: "Trace", *, callees: bool) -> None:
    """Say what was called and is not in the trace."""
    extra = recorded.provenance.extra
    if extra.get("not_followed_calls"):
        hint = "" if callees else "; --callees records them where they can be"
        print(f"called and not recorded (name: calls): {extra['not_followed_calls']}{hint}")
