"""``perfkit diff``: two simulated runs, or two dumps of counters, side by side, for a pull request."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perfkit.cli import options
from perfkit.cli.output import print_json, rows, wrote
from perfkit.errors import DataError, SettingError

if TYPE_CHECKING:
    from perfkit.cli.diff_side import DiffSide
    from perfkit.exploration.counts_diff import CountsDiff
    from perfkit.simulators.gus.diff import GusDiff

_ENDINGS = (".html", ".md", ".parquet", ".json", ".csv")


def diff(
    a: str = typer.Argument(
        ...,
        metavar="A",
        help="A program or PROGRAM:FUNCTION, LIBRARY.so:FUNCTION, a C or C++ file, corpus:NAME; a trace file or saved "
        "result (perfkit gus -o); or a dump of counters.",
    ),
    b: str = typer.Argument("", metavar="[B]", help="The same for the other side (default: A, built otherwise)."),
    words: options.Words = [],  # noqa: B006  typer copies it
    function: options.Function = "",
    function_b: options.FunctionB = "",
    core: str = typer.Option(
        "",
        "--core",
        metavar="CORE",
        help="A core's name, a core file (*.toml), or host, this machine's core (default: host; a saved result's own).",
    ),
    warm: options.Warm = None,
    flags: options.Flags = "",
    flags_b: options.FlagsB = "",
    arguments: options.Arguments = "",
    skip: options.Skip = 0,
    repeat: options.Repeat = 1,
    limit: options.Limit = 10_000_000,
    at_most: options.AtMost = None,
    measure: bool = typer.Option(
        True,
        "--measure/--no-measure",
        help="Also measure what runs here, where it is simulated on this machine's core: a change that is not borne "
        "out is told.",
    ),
    time_event: options.TimeEvent = "",
    work_event: options.WorkEvent = "",
    top: options.Top = 10,
    html: options.Html = None,
    output: Annotated[
        list[Path],
        options.outputs("Write one page (.html), a report (.md) or the result (.parquet, .json, .csv)", *_ENDINGS),
    ] = [],  # noqa: B006  typer copies it
    as_json: options.Json = False,
) -> None:
    """Say what changed between two simulated runs, or two dumps: cycles, causes, bottleneck and lines.

    Caches and branch predictor start warm, unless --cold is given. A saved result is simulated again only where --core,
    --warm or --cold is given.

    Example: perfkit diff kernel.c -f sum --flags "-O1" --flags-b "-O3 -march=native" -- 'f8[1000]' 1000

    Example: perfkit diff ./before ./after -f solve -o change.html -- 48 grid.txt

    Example: perfkit diff before.trace after.trace --core zen4 -o change.md
    """
    from perfkit.cli.diff_side import DiffSide, check_dumps, check_sides
    from perfkit.cli.standard_input import kept
    from perfkit.diagnosis.progress import stages

    with stages() as say, kept(say) as stdin:
        called = tuple(options.called_with(words, arguments))
        more = (called, skip, repeat, limit, core, warm, stdin)
        sides = [
            DiffSide(a, function, flags, *more),
            DiffSide(b or a, function_b or function, flags_b or flags, *more),
        ]
        check_sides(sides, b, {"--flags-b": flags_b, "--function-b": function_b})
        if sides[0].form == "dump":
            check_dumps({"--core": core, "--warm/--cold": warm is not None, "--at-most": at_most is not None})
            say(f"reading {sides[0].path.name} and {sides[1].path.name}")
            found: GusDiff | CountsDiff = _of_dumps(sides, time_event, work_event)
        else:
            for option, value in (("--time-event", time_event), ("--work-event", work_event)):
                if value:
                    raise SettingError(f"{option} is for dumps of counters; these two sides are simulated runs")
            found = _of_runs(sides, say, measure)
    places = [*output, *([html] if html is not None else [])]
    for path in places:
        _write(found, path, top)
    if as_json:
        print_json(_content(found))
    else:
        typer.echo(_text(found, top))
    for path in places:
        wrote(path)
    if at_most is not None:
        _judge(found, at_most)


def _of_dumps(sides: "list[DiffSide]", time_event: str, work_event: str) -> "CountsDiff":
    from perfkit.exploration.counts_diff import diff_counts

    a, b = (side.samples(time_event, work_event) for side in sides)
    return diff_counts(a, b, names=(sides[0].path.name, sides[1].path.name))


def _of_runs(sides: "list[DiffSide]", say: Any, measure: bool) -> "GusDiff":
    from perfkit.cli.diff_function import both_named, named
    from perfkit.cli.diff_measured import MeasuredSides, measure_sides, of_threads
    from perfkit.cli.diff_side import DiffSide, names_of
    from perfkit.simulators.gus.beside import beside
    from perfkit.simulators.gus.diff import diff as compare

    if all(side.form in ("trace", "result") for side in sides):
        say(f"simulating {sides[0].what} and {sides[1].what}")
        results = beside(DiffSide.result, sides)
    else:
        sides = both_named(sides, say)
        results, known = [], ""
        # A program whose function nobody named is recorded last: the other side's may be known by then.
        order = sorted(range(2), key=lambda k: sides[k].is_open)
        for k in order:
            sides[k] = named(sides[k], known, say)
            say(f"{'AB'[k]}: {sides[k].doing} {sides[k].what}")
            results.append(sides[k].result())
            known = results[-1].trace.provenance.function
        results = [results[order.index(k)] for k in range(2)]
    timed = measure_sides(sides, results, say) if measure else MeasuredSides(doubts=of_threads(sides))
    say("asking what would help each")
    found = compare(*results, names=names_of(sides, results))
    return replace(
        found, measured=timed.cycles, how_measured=timed.how, measured_between=timed.between, doubts=timed.doubts
    )


def _judge(found: Any, at_most: float) -> None:
    if found.is_cut:
        raise DataError(
            "--at-most cannot be judged: a recording was cut, and what it lacks may take any time; raise --limit, or "
            "take a smaller problem"
        )
    if found.lacks_callees:
        raise DataError(
            "--at-most cannot be judged: a recording lacks functions that were called, which may take any time; record "
            "both with callees (perfkit trace --callees)"
        )
    slower = found.cycles[1] / found.cycles[0] - 1
    if found.measured_between[1] < 1 / (1 + at_most / 100) and slower <= at_most / 100:
        a, b = found.measured
        raise DataError(
            f"--at-most cannot be judged: B is measured {b / a - 1:+.0%} cycles, and surely more than the "
            f"{at_most:+g} % allowed ({1 / found.measured_between[1] - 1:+.0%} at least), while "
            f"{1 / found.speedup - 1:+.0%} are simulated: the model misses what changed; perfkit compare measures it "
            "(--no-measure judges simulated cycles alone)"
        )
    if found.is_of_unlike_calls:
        raise DataError(
            f"--at-most cannot be judged: {'; '.join(found.doubts)}; or name a function whose calls are alike "
            "(--no-measure judges the simulated calls alone)"
        )
    if found.is_far and found.is_told_apart and found.measured_speedup < 1 / (1 + at_most / 100):
        raise DataError(
            f"--at-most cannot be judged: B is measured {1 / found.measured_speedup - 1:+.0%} cycles, far from the "
            f"simulated {1 / found.speedup - 1:+.0%}: the model misses what changed; perfkit compare measures it "
            "(--no-measure judges simulated cycles alone)"
        )
    if slower > at_most / 100:
        typer.echo(f"perfkit: B takes {slower:+.2%} cycles (simulated), and {at_most:+g} % is allowed", err=True)
        raise typer.Exit(1)


def _text(found: Any, top: int) -> str:
    from perfkit.simulators.gus.diff import GusDiff

    if isinstance(found, GusDiff):
        last = "simulated, and no better than the model: perfkit compare measures both on this machine"
        if found.measured_speedup > 0:
            last = "simulated but for the measured line; perfkit compare says how certain a measured change is"
        return f"{found.summary()}\n\n{_lines(found, top)}\n\n{last}"
    rates = found.to_frame().head(top).to_string(index=False, float_format=lambda v: f"{v:.4g}", na_rep="not counted")
    parts = [found.summary(), f"per 1000 {found.events[1]} ({found.kind} counts)\n{rates}"]
    if len(found.stack):
        stack = found.stack.to_string(index=False, float_format=lambda v: f"{v:.4f}", na_rep="")
        parts.append(f"CPI stacks ({found.kind} counts)\n{stack}")
    return "\n\n".join(parts)


def _write(found: Any, output: Path, top: int) -> None:
    from perfkit.base.files import replaced
    from perfkit.simulators.gus.diff import GusDiff

    if output.suffix == ".html":
        from perfkit.cli.pages.diff import save_counts_page, save_diff_page

        (save_diff_page if isinstance(found, GusDiff) else save_counts_page)(found, output)
    elif output.suffix == ".md":
        with replaced(output) as temporary:
            temporary.write_text(found.markdown(top), encoding="utf-8")
    else:
        found.save(output)


def _content(found: Any) -> dict[str, Any]:
    """Return everything as plain values."""
    from perfkit.simulators.gus.diff import GusDiff

    shared = {"kind": found.kind, "notes": list(found.notes)}
    if isinstance(found, GusDiff):
        return shared | {"speedup": found.speedup, "unit": found.unit} | _content_of_runs(found)
    sides = {
        side: {"name": found.names[k], "kind": found.kinds[k], "time_per_work": found.time_per_work[k],
               "verdict": found.verdicts[k]}
        for k, side in enumerate("ab")
    }  # fmt: skip
    return shared | {"unit": found.unit} | sides | {"rates": rows(found.to_frame()), "stack": rows(found.stack)}


def _content_of_runs(found: "GusDiff") -> dict[str, Any]:
    sides = {
        side: {
            "name": found.names[k],
            "core": found.cores[k],
            "warm": found.warm[k],
            "cycles": found.cycles[k],
            "calls": found.calls[k] or None,
            "measured_cycles": found.measured[k],
            "instructions": found.instructions[k],
            "bottleneck": found.bottlenecks[k],
        }
        for k, side in enumerate("ab")
    }
    names = ("measured_speedup", "measured_between", "how_measured", "is_far", "is_told_apart", "doubts")
    far = {name: getattr(found, name) for name in names}
    tables = {"causes": found.causes, "resources": found.resources, "lines": found.to_frame()}
    return sides | far | {name: rows(table) for name, table in tables.items()}


def _lines(found: "GusDiff", top: int) -> str:
    """Return the lines that changed most, one per row."""
    from perfkit.simulators.gus.diff import place_of

    lines = [f"{'A':>12} {'B':>12} {'change':>12}  line (simulated {found.unit})"]
    for row in found.to_frame().head(top).itertuples():
        place = row.place_b or place_of(row)
        lines.append(
            f"{row.cycles_a:>12,.0f} {row.cycles_b:>12,.0f} {row.change:>+12,.0f}  {place}  {row.text}".rstrip()
        )
    return "\n".join(lines)
