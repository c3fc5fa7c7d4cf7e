"""``perfkit why``: from a program to the reason why it is slow."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perfkit.cli import options
from perfkit.cli.output import print_json, wrote

if TYPE_CHECKING:
    from perfkit.diagnosis.diagnosis import Diagnosis

_EVENTS = 3000  # executed instructions of a timeline that is written: browsers bear some ten thousand events


def why(
    program: str = typer.Argument(
        metavar="PROGRAM",
        help="A program (x86-64), a Python script, a source in C, C++, Rust or Fortran, or LIBRARY.so:FUNCTION.",
    ),
    words: options.Words = [],  # noqa: B006  typer copies it
    arguments: options.Arguments = "",
    function: options.Function = "",
    flags: options.Flags = "",
    core: options.Core = "host",
    timeout: float = typer.Option(
        3.0,
        "--timeout",
        min=0.1,
        max=1e6,
        callback=options.finite,
        help="Stop each run after this many seconds, and answer from its first part.",
    ),
    limit: options.Limit = 3_000_000,
    noise: bool = typer.Option(
        False, "--noise", help="Of a program: also add instructions to its hot loop and time it, for a minute or so."
    ),
    html: options.Html = None,
    notebook: Path | None = typer.Option(
        None,
        "--notebook",
        metavar="FILE",
        help="Write a notebook with the interactive views, and the answer beside it.",
        callback=options.ends_in(".ipynb"),
    ),
    timeline: Path | None = typer.Option(
        None,
        "--timeline",
        metavar="FILE",
        help="Write when which resource was used around the bottleneck's line, for Perfetto (trace events).",
        callback=options.ends_in(".json"),
    ),
    output: Annotated[
        list[Path],
        options.outputs(
            "Write one page (.html), or the answer (.answer), which perfkit.Diagnosis.load opens", ".html", ".answer"
        ),
    ] = [],  # noqa: B006  typer copies it
    as_json: options.Json = False,
) -> None:
    """Say why a program is slow: its hot function, what holds it back, on which line, and what would help.

    Arguments of a function are made up for its parameters' types where none are given.

    Example: perfkit why ./program -f solve -- 48

    Example: perfkit why ./program -o why.html -o why.answer
    """
    from perfkit.base.files import existing
    from perfkit.cli.standard_input import kept
    from perfkit.diagnosis.progress import stages

    path, function = _parted(program, function)
    existing(path)
    called = options.called_with(words, arguments)
    with stages("starting") as say, kept(say) as stdin:  # what is imported next takes seconds on a slow disk
        from perfkit.diagnosis.ahead import Ahead

        with Ahead(core, say) as ahead:
            from perfkit.diagnosis.why import why as ask

            answer = ask(
                path, function, called, core=core, seconds=timeout, limit=limit, stdin=stdin, flags=flags,
                noise=noise, say=say, ahead=ahead,
            )  # fmt: skip
        say("writing the answer")
        told = _write(answer, [*output, *([html] if html is not None else [])], notebook, timeline)
        values, text = (answer.to_dict(), "") if as_json else ({}, answer.report())
    for place, what in told.items():
        wrote(place, what)
    if as_json:
        print_json(values)
        return
    print(text)


def _parted(program: str, function: str) -> tuple[str, str]:
    """Return a file and a function, which may stand behind the file's name."""
    path, _, behind = program.rpartition(":")
    return (
        (path, behind)
        if behind and not function and not Path(program).exists() and Path(path).is_file()
        else (program, function)
    )


def _write(found: "Diagnosis", output: list[Path], notebook: Path | None, timeline: Path | None) -> dict[Path, str]:
    """Write the files that are asked for; return what each is for."""
    if notebook is not None or any(path.suffix == ".html" for path in output):
        import matplotlib as mpl

        mpl.use("Agg")
    told: dict[Path, str] = {}
    for path in output:
        if path.suffix == ".html":
            from perfkit.cli.pages.diagnosis import save_page

            save_page(found, path)
        else:
            found.save(path)
        told[path] = ""
    if notebook is not None:
        from perfkit.cli.pages.diagnosis import save_notebook

        told[save_notebook(found, notebook)] = f"open it with jupyter lab {shlex.quote(str(notebook))}"
    if timeline is not None:
        from perfkit.diagnosis.window import hot_timeline
        from perfkit.simulators.gus.trace_events import save_trace_events, window_told

        part = hot_timeline(found, _EVENTS)
        place = save_trace_events(part, timeline, found.result)
        told[place] = f"{window_told(part, found.result)}; simulated; open it at ui.perfetto.dev"
    return told
