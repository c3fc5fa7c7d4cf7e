"""Assemble the commands into one program, and turn what goes wrong into one line and an exit code.

A command's module is imported when the command is used: ``perfkit --help`` reads the table below and nothing else.
"""

import atexit
import gc
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import wraps
from importlib import import_module
from inspect import signature
from pathlib import Path
from types import FrameType
from typing import Any, cast

import typer
import typer.main
from typer.core import TyperGroup

from perfkit._version import __version__
from perfkit.errors import PerfkitError, SettingError, uninstalled

# Command -> the function or typer application that it is, and its line in the list of commands (the first sentence of
# its own help).
COMMANDS = {
    "why": (
        "why:why",
        "Say why a program is slow: its hot function, what holds it back, on which line, and what would help.",
    ),
    "explore": (
        "explore:explore",
        "Say what dumps are, which methods they allow and why not the others, and what to measure next.",
    ),
    "spire": ("spire:app", "Rank a workload's events by SPIRE's throughput bounds, lowest first."),
    "cpi": ("cpi:cpi", "Fit a CPI stack to each workload; compare several."),
    "samples": ("samples:samples", "Print what counter dumps hold."),
    "convert": ("convert:convert", "Convert counter dumps into one file."),
    "trace": ("trace:trace", "Record the instructions and addresses of one function."),
    "gus": ("gus:gus", "Simulate a trace on a core: cycles, where they went, what would help."),
    "diff": (
        "diff:diff",
        "Say what changed between two simulated runs, or two dumps: cycles, causes, bottleneck and lines.",
    ),
    "gate": (
        "gate:gate",
        "Fail when a program became slower: simulated cycles of a pinned recording, the same in every run.",
    ),
    "dag": ("dag:app", "Extended roofline: schedule a kernel's DAG on a modelled core and name its bottlenecks."),
    "study": ("study:app", "Microbenchmark studies: measure every configuration of a kernel's dimensions."),
    "analyse": ("analyse:analyse", "Filter, categorise and learn from a table, as an analysis file says."),
    "asm": ("asm:asm", "Measure the cycles that a list of instructions takes, beside the model's."),
    "blocks": ("blocks:blocks", "Measure basic blocks on this machine and predict them, looped and unrolled."),
    "noise": (
        "noise:noise",
        "Add noise to a kernel's innermost loop and measure how much of each kind it absorbs.",
    ),
    "compare": ("compare:compare", "Compare two kernels, builds, compilers or commits: the effect with its interval."),
    "calibrate": ("calibrate:calibrate", "Measure this host's latencies and throughputs with the time stamp counter."),
    "report": ("report:app", "Report on your own data in one screen, or run a notebook with your own parameters."),
    "course": (
        "course:app",
        "A class in a box: list the units, write students' versions and slides, grade submissions.",
    ),
    "app": ("serve:app", "Show a notebook as an app: its text, pictures and live views, without its code."),
    "lab": ("serve:serve_lab", "Open JupyterLab on copies of the shipped notebooks, or on a notebook of your own."),
    "data": ("data:data", "List the shipped data sets."),
}


class _Commands(Mapping[str, Any]):
    """The commands by name, each made when it is first asked for."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            module, _, function = COMMANDS[name][0].partition(":")
            found = getattr(import_module(f"perfkit.cli.{module}"), function)
            if not isinstance(found, typer.Typer):
                from perfkit.cli.options import CallingCommand, Command

                single = typer.Typer(add_completion=False, rich_markup_mode=None)
                single.command(name, cls=CallingCommand if "words" in signature(found).parameters else Command)(found)
                found = single
            self._made[name] = _keeping_inputs(typer.main.get_command(found))
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


def _keeping_inputs(command: Any) -> Any:
    """Return a command that refuses to write onto a file that it is given to read."""
    for each in getattr(command, "commands", {}).values():
        _keeping_inputs(each)
    written = {p.name for p in command.params if {"--output", "--picture", "--html"} & {*p.opts}}
    run = command.callback
    if run is None or not written:
        return command

    @wraps(run)
    def checked(**values: Any) -> Any:
        listed = [(name, value if isinstance(value, list | tuple) else [value]) for name, value in values.items()]
        given = [each for name, found in listed if name not in written for each in found]
        for place in (each for name, found in listed if name in written for each in found):
            if isinstance(place, Path) and place.is_file() and any(_is_file(each, place) for each in given):
                raise SettingError(f"{place} is both read and written; name another file to write")
        return run(**values)

    command.callback = checked
    return command


def _is_file(word: Any, place: Path) -> bool:
    """Whether a value of a command names this file."""
    if not isinstance(word, str | Path):
        return False
    with suppress(OSError, ValueError):
        return Path(word).samefile(place)
    return False


class _Program(TyperGroup):
    """The group of all commands; its list of commands loads none of them."""

    def __init__(self, **attrs: Any) -> None:
        super().__init__(**attrs)
        self.commands = cast(Any, _Commands())

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


# Plain help, not Rich's: it starts in half the time, and brackets in a help text are text.
app = typer.Typer(
    name="perfkit", cls=_Program, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"perfkit {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    ctx: typer.Context,
    version: bool = typer.Option(  # noqa: ARG001
        False, "--version", callback=_show_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Find out why code is slow: counters, microbenchmarks, traces and simulation."""
    from perfkit.cli.output import notes_to_stderr

    ctx.with_resource(notes_to_stderr())


def main() -> None:
    """Run the command line (the ``perfkit`` program).

    Exit codes: 0 success; 1 the output could not be written; 2 an error of use or of the data, named in one line; 70 a
    fault of perfkit; 130 interrupted; 141 the reader of the output has closed it.
    """
    atexit.register(gc.freeze)  # all of it ends now: the search for cycles at the end took up to 1.6 s after the answer
    try:
        try:
            _have_interrupts_end_quietly()
            _open_what_is_closed()
            for stream in (sys.stdout, sys.stderr):
                if hasattr(stream, "reconfigure"):
                    stream.reconfigure(errors="backslashreplace")  # names of files need not be text
            app()
        finally:
            sys.stdout.flush()
    except PerfkitError as error:
        _end(2, as_options(str(error)))
    except KeyboardInterrupt:
        _end(130, "interrupted")
    except SystemExit as ended:  # click's own way out of a closed pipe
        if not isinstance(ended.__context__, BrokenPipeError):
            raise
        _end(128 + signal.SIGPIPE)
    except BrokenPipeError:  # the reader, for example `head`, has seen enough
        _end(128 + signal.SIGPIPE)
    except OSError as error:
        place = f": {error.filename}" if error.filename else ""
        _end(2 if place else 1, f"{error.strerror or error}{place}")
    except MemoryError as error:
        _end(2, f"not enough memory ({error})")
    except ModuleNotFoundError as error:
        _end(2 if uninstalled(error) else 70, str(uninstalled(error) or error))
    except Exception as error:  # the last resort: a person sees a line, not a traceback
        if os.environ.get("PERFKIT_TRACEBACK"):
            raise
        _end(
            70,
            f"unexpected {type(error).__name__}: {error}\n"
            "This is a fault of perfkit: please report it. PERFKIT_TRACEBACK=1 in the environment prints where it is.",
        )


def as_options(message: str) -> str:
    """Return a message with what it recommends to give spelled as on a command line, not as in Python."""
    return re.sub(r"\b(time|work)_event=\.\.\.", r"--\1-event EVENT", message)


# Python that LLVM calls while it compiles.
_CALLED_BACK = "llvmlite/binding/executionengine.py"


def _have_interrupts_end_quietly() -> None:
    """Have Ctrl-C end the program without a traceback where no code of ours is left: while Python waits for threads."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not where a caller handles or ignores it
        with suppress(ValueError):  # only the main thread may
            signal.signal(signal.SIGINT, _interrupted)


def _open_what_is_closed() -> None:
    """Let the null device stand for a standard stream that is closed; Python has None for it then.

    Else its number would go to the next file that is opened, such as the memory that a recording copy writes to, and
    what is started would write its output there.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8"))


def _interrupted(number: int, frame: FrameType | None) -> None:
    while frame is not None:
        code = frame.f_code
        if code.co_filename.endswith(_CALLED_BACK) or code.co_name in ("__del__", "__set_name__"):
            # What is raised there is forgotten, or (before Python 3.12) becomes a RuntimeError.
            again = threading.Timer(0.02, os.kill, (os.getpid(), number))
            again.daemon = True
            again.start()
            return
        if frame.f_code.co_name == "<module>":  # the program, a notebook's cell or a test is still running
            signal.default_int_handler(number, frame)
        frame = frame.f_back
    os._exit(130)  # the program is over, its output written


def _end(status: int, message: str = "") -> None:
    """Say why, and end the program; what is left in a full or closed output's buffer is dropped."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if message:
        typer.echo(f"perfkit: {message}", err=True)
    sys.exit(status)
