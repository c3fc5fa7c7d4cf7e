"""``perfkit dag``: the extended roofline on the command line."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from perfkit.cli import options
from perfkit.cli.output import draw, print_json, progress_bar, rows, write_picture, wrote

app = options.group(
    "Extended roofline: schedule a kernel's DAG on a modelled core and name its bottlenecks.\n\n"
    "The word run may be left out: perfkit dag kernel.c -- 'f8[1000]' 1000",
    options.DefaultGroup,
)
Name = Annotated[
    str, typer.Argument(metavar="KERNEL", help="A kernel: reduction, mvm, mmm_triple, mmm_sixfold, fft, ...")
]
Size = Annotated[
    int | None, typer.Option("--size", min=1, help="Rows, points, ...; the default takes less than a second.")
]
Core = Annotated[
    str,
    typer.Option(
        "--core",
        metavar="CORE",
        help="A core's name, a core file (*.toml), or host: this machine's core; sandy_bridge_erm is the paper's.",
    ),
]
Change = Annotated[
    list[str], typer.Option("--set", metavar="NAME=NUMBER", help="Change a parameter (rs=20); may be repeated.")
]


@app.command("run", cls=options.CallingCommand)
def run_command(
    ctx: typer.Context,
    what: Annotated[
        str,
        typer.Argument(
            metavar="[WHAT]",
            help="A program, a source, module:function, a trace or a kernel of the paper; several with commas.",
        ),
    ] = "",
    words: options.Words = [],  # noqa: B006  typer copies it
    source: Annotated[Path | None, typer.Option("--source", metavar="FILE", help="A C, C++ or LLVM IR file.")] = None,
    python: Annotated[str, typer.Option("--python", metavar="MODULE:FUNCTION", help="A function for numba.")] = "",
    trace: Annotated[str, typer.Option("--trace", metavar="TRACE", help="A trace file or a shipped trace.")] = "",
    function: options.Function = "",
    arguments: options.Arguments = "",
    sizes: Annotated[
        str, typer.Option("--sizes", metavar="A,B,...", help="Sizes for N in the arguments, separated by commas.")
    ] = "",
    builds: Annotated[
        str,
        typer.Option("--builds", metavar="A,B,...", help="Flags of a source's builds, separated by commas: -O1,-O3."),
    ] = "",
    core: Core = "host",
    warm: options.Warm = True,
    change: Change = [],  # noqa: B006  typer reads it and copies it
    paper_nodes: Annotated[
        bool, typer.Option("--paper-nodes", help="Leave out integer work, addresses and branches, as the paper does.")
    ] = False,
    ranked: Annotated[
        bool,
        typer.Option(
            "--relax/--no-relax",
            help="Try what each better resource would gain; with --no-relax Gus is asked for its cycles alone.",
        ),
    ] = True,
    gus: Annotated[bool, typer.Option("--gus/--no-gus", help="Of traces: ask Gus, too.")] = True,
    top: options.Top = 5,
    measured: Annotated[
        bool, typer.Option("--measure/--no-measure", help="Time C, C++ and Python functions on this machine, too.")
    ] = False,
    picture: Annotated[
        Path | None,
        typer.Option(
            "--picture",
            metavar="FILE",
            help="Draw all of them below the core's roofs (.png, .pdf; .svg answers the pointer).",
            callback=options.ends_in(*options.PICTURES, ".html"),
        ),
    ] = None,
    host_roofs: Annotated[
        Path | None,
        typer.Option("--host-roofs", metavar="FILE", help="Draw this host's bandwidths, too (perfkit calibrate -o)."),
    ] = None,
    output: Annotated[
        Path | None,
        options.output(
            "Write one page (.html): the verdict, this picture, which answers the pointer, the gains.", ".html"
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Schedule your own code: C, C++, Python, a program or a trace.

    Example: perfkit dag run kernel.c -f f --sizes 1000,100000 -- 'f8[N]' N

    Example: perfkit dag run ./program -f f -- 2000
    """
    from perfkit.collectors.own_code import open_dags
    from perfkit.errors import PerfkitError, SettingError
    from perfkit.machine.core import Microarchitecture
    from perfkit.machine.overlays import calibrated_for, measured_bandwidths

    given = [str(word) for word in (what, source, python, trace) if word]
    if not given:
        raise SettingError("say what to schedule: WHAT, --source FILE, --python MODULE:FUNCTION or --trace TRACE")
    if python and ":" not in python:
        raise SettingError(f"--python takes MODULE:FUNCTION or FILE.py:FUNCTION; found {python!r}")
    places = [place for place in (picture, output) if place is not None]
    if host_roofs is not None and not places:
        raise SettingError("--host-roofs are drawn: say where with --picture FILE or -o FILE.html")
    if not ranked:
        options.has_no_effect(ctx, "with --no-relax", "top")
    called = options.called_with(words, arguments)
    host = {}
    if host_roofs is not None:
        host = measured_bandwidths(host_roofs, Microarchitecture.load(calibrated_for(host_roofs)))
    found: list[dict[str, Any]] = []
    machine = Microarchitecture.load(core)
    scheduler = _scheduler(machine.name if core == "host" else core, change, warm)
    counts = _whole_sizes(sizes) if sizes else []
    refused: dict[str, PerfkitError] = {}
    opened = open_dags(
        ",".join(given),
        function=function,
        arguments=called,
        sizes=counts,
        builds=[build.strip() for build in builds.split(",") if build.strip()],
        whole=not paper_nodes,
        core=machine,
        refused=refused,
    )
    own = machine.name == Microarchitecture.load("host").name
    for name, dag in opened.items():
        try:
            timed = _timed(name, dag, scheduler.warm) if measured else None
            cycles = timed.cycles if timed is not None and own else math.nan
            row = _analysed(name, dag, scheduler, machine, ranked, gus, top, cycles)
        except PerfkitError as error:
            if len(opened) + len(refused) == 1:
                raise
            refused[name] = error
            continue
        if timed is not None:
            row |= _measured(timed, row, own)
        found.append(row)
        if not as_json:
            typer.echo(row["text"] + "\n")
    if refused and not found:
        raise next(iter(refused.values()))
    if places:
        _draw_levels(found, places, host)
    if as_json:
        print_json([{key: value for key, value in row.items() if key not in _OBJECTS} for row in found])
    for name, why in refused.items():
        typer.echo(f"perfkit: {'' if name in str(why) else f'{name}: '}{why}", err=True)
    if refused:
        raise typer.Exit(2)


def _whole_sizes(text: str) -> list[int]:
    from perfkit.errors import SettingError

    sizes = options.numbers(text, "--sizes")
    if not all(size >= 1 and size == int(size) for size in sizes):
        raise SettingError(f"--sizes takes whole numbers from 1 on, separated by commas; found {text!r}")
    return [int(size) for size in sizes]


_OBJECTS = ("roofline", "relaxation", "text")  # of a row, not for JSON
_FAR = 1.3  # times: a simulation further from what was measured is not to be relied on


def _timed(name: str, dag: Any, warm: bool) -> Any:
    """Return what a function takes on this machine."""
    from perfkit.collectors.dag.kernel_timing import measure_kernel
    from perfkit.errors import SettingError

    if not hasattr(dag, "seconds"):
        raise SettingError(
            f"{name}: only C, C++ and Python functions are timed here; use perfkit why or compare for programs"
        )
    return measure_kernel(dag, warm=warm)


def _measured(timed: Any, row: dict[str, Any], own: bool) -> dict[str, Any]:
    """Return what a function takes on this machine, in the row's unit: the value and the ends of its error bar.

    Where the core is this machine's `own`, a simulation that is far from it is doubted, as in the verdict.
    """
    import numpy as np

    work = row["roofline"].schedule.work
    least, most = (float(v) for v in work / np.quantile(timed.samples, (0.9, 0.1)))
    value = work / timed.cycles
    apart = row["performance"] / value - 1
    text = (
        f"{row['text']}\n\nmeasured here: {value:.3g} {row['unit']} ({least:.3g} to {most:.3g}; {timed.cycles:,.0f} "
        f"cycles, {len(timed.samples)} runs, {timed.rejected} rejected); simulated on {row['core']}: {apart:+.0%}"
    )
    found = {"measured": {"performance": value, "least": least, "most": most, "cycles": timed.cycles}, "text": text}
    far = timed.cycles / row["cycles"]
    if not own or 1 / _FAR <= far <= _FAR:
        return found
    schedule = row["roofline"].schedule
    # Calls timed in a row overlap, where nothing in one waits for the one before it.
    decides = (
        "what this DAG lacks decides"
        if far > 1
        else "calls in a row overlap, or this DAG waits for what the core does not wait for"
    )
    said = f"measured here, it takes {far:.2g} times as long ({timed.cycles:,.0f} cycles): {decides}"
    roofline = replace(schedule, doubts=(*schedule.doubts, said)).roofline()
    text = roofline.verdict + text[len(row["verdict"]) :]
    doubts = [*row["doubts"], said]
    return found | {"text": text, "roofline": roofline, "verdict": roofline.verdict, "doubts": doubts}


def _draw_levels(found: list[dict[str, Any]], paths: list[Path], host: dict[str, tuple[float, float, float]]) -> None:
    """Draw all rows below the core's roofs."""
    import matplotlib as mpl

    mpl.use("Agg")
    from perfkit.cli.pages.answer import write_page
    from perfkit.cli.pages.levels import of_levels
    from perfkit.plots.roofs_by_level import host_titles, level_titles, plot_levels, svg_with

    rooflines = {row["name"]: row["roofline"] for row in found}
    timed = {row["name"]: row["measured"] for row in found if "measured" in row}
    bars = {name: (m["performance"], m["least"], m["most"]) for name, m in timed.items()}
    titles = level_titles(rooflines, bars) | host_titles(host)
    figure = plot_levels(rooflines, bars, host=host).figure
    for path in paths:
        if path.suffix == ".html":
            write_page(of_levels(found, svg_with(figure, titles)), path)
        else:
            write_picture(figure, path, titles)
        wrote(path)


def _analysed(
    name: str, dag: Any, scheduler: Any, machine: Any, ranked: bool, gus: bool, top: int, measured: float
) -> dict[str, Any]:
    """Return everything that is said of one DAG, beside what it took on such a core where that was `measured`."""
    from perfkit.scoring.dag_gus import NO_TRACE, NOT_ASKED, checked, doubting, second_opinion
    from perfkit.simulators.dag.branches import predict_branches
    from perfkit.simulators.dag.relax import relax

    trace = getattr(dag, "trace", None)
    if trace is not None:
        # A trace knows where its branches went, and so which of them the core's predictor misses.
        dag = (predict_branches(dag, machine, scheduler.warm) if dag.branch_slot >= 0 else dag).in_memory()
    schedule = scheduler.run(dag)
    lines: list[str] = []
    row: dict[str, Any] = {"name": name, "core": machine.name, "cycles": schedule.cycles}
    if ranked:
        with progress_bar(f"{name}: relaxing") as progress:
            relaxation = relax(dag, scheduler, schedule, progress)
        table = relaxation.to_frame()
        lines += ["", relaxation.summary(), table[:top].to_string(index=False, float_format=lambda v: f"{v:.3f}")]
        row |= {"gains": rows(table), "relaxation": relaxation}
    asked = trace if gus else None
    if asked is not None and ranked:
        opinion = second_opinion(asked, machine, relaxation, scheduler.warm, measured, schedule.doubts)
        lines += ["", opinion["sentence"]]
        row["gus"] = opinion
        schedule = doubting(schedule, opinion["doubt"])
    elif math.isnan(measured):
        why_not = NO_TRACE if trace is None else NOT_ASKED
        schedule = (
            checked(schedule, asked, machine, scheduler.warm)
            if asked is not None
            else replace(schedule, remarks=(*schedule.remarks, why_not))
        )
    row["roofline"] = roofline = schedule.roofline()
    row |= {"performance": schedule.performance, "unit": f"{schedule.unit}/cycle", "verdict": roofline.verdict}
    row |= {"doubts": list(schedule.doubts), "notes": list(schedule.remarks)}
    row["coverage"] = None if math.isnan(schedule.coverage) else schedule.coverage
    return row | {"text": "\n".join([roofline.verdict, *lines])}


@app.command("kernel", cls=options.Command)
def kernel_command(
    name: Name,
    size: Size = None,
    core: Core = "sandy_bridge_erm",
    warm: options.Warm = True,
    change: Change = [],  # noqa: B006  typer reads it and copies it
    count_all: Annotated[
        bool, typer.Option("--count-all", help="Count all instructions against fetch and ROB.")
    ] = False,
    picture: Annotated[Path | None, options.picture("Draw the roofline")] = None,
    as_json: options.Json = False,
) -> None:
    """Schedule one of the paper's kernels and print its roofs.

    Example: perfkit dag kernel reduction --cold --set rs=20
    """
    from perfkit.collectors.dag.paper_kernels import kernel

    source, scheduler = kernel(name), _scheduler(core, change, warm)
    _tell_paper(core)
    schedule = scheduler.run(source.trace(size, count_all=count_all))
    roofline = schedule.roofline()
    if picture is not None:
        draw(roofline, picture)
    if as_json:
        print_json({"core": core, "verdict": roofline.verdict, "roofs": rows(roofline.to_frame())})
        return
    typer.echo(roofline.verdict)
    columns = ["kind", "of", "buffer", "bound", "distance", "utilisation"]
    typer.echo("\n" + roofline.to_frame()[columns].to_string(index=False, float_format=lambda v: f"{v:.3g}"))


@app.command("sweep", cls=options.Command)
def sweep_command(
    name: Name,
    parameter: Annotated[
        str, typer.Argument(metavar="PARAMETER", help="A parameter of the core or a switch: rs, latency_A, agus, ...")
    ],
    values: Annotated[
        list[float], typer.Argument(metavar="VALUE...", help="Its values; 0 and inf remove the feature.")
    ],
    size: Size = None,
    core: Core = "sandy_bridge_erm",
    warm: options.Warm = True,
    change: Change = [],  # noqa: B006  typer reads it and copies it
    folder: Annotated[
        Path | None,
        typer.Option("--folder", metavar="FOLDER", help="Keep finished values here, and resume from them."),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Schedule a kernel for several values of one parameter.

    With --folder, Ctrl-C loses nothing: the same command resumes where it stopped.

    Example: perfkit dag sweep mvm rs 20 36 97 --folder sweep
    """
    from perfkit.collectors.dag.paper_kernels import kernel
    from perfkit.simulators.dag.sweep import sweep

    source, scheduler = kernel(name), _scheduler(core, change, warm)
    _tell_paper(core)
    with progress_bar(f"{name} {parameter}") as progress:
        traced = source.trace(size)
        switches = {name: value for name, value in scheduler.settings().items() if name not in (parameter, "record")}
        table = sweep(traced, scheduler.core, parameter, values, folder=folder, progress=progress, **switches)
    if as_json:
        print_json(rows(table))
        return
    typer.echo(table.to_string(index=False, float_format=lambda v: f"{v:.4g}"))


def _tell_paper(core: str) -> None:
    """Say where a paper's kernel is scheduled on the paper's machine, the default, and not on this one."""
    if core == "sandy_bridge_erm":
        typer.echo("on the paper's machine (Table I, sandy_bridge_erm), not on this one: --core host", err=True)


def _scheduler(core: str, change: list[str], warm: bool | None) -> Any:
    """Return a scheduler for a core with the changes of --set: the core's parameters, and the scheduler's switches."""
    from perfkit.simulators.dag.core import DagCore
    from perfkit.simulators.dag.schedule import DagScheduler, changed_by

    return changed_by(DagScheduler(DagCore.load(core), warm=warm is not False, record=False), change, "--set ")


@app.command("paper", cls=options.Command)
def paper_command(as_json: options.Json = False) -> None:
    """Check the paper's statements about its kernels.

    At the paper's sizes, which takes about a minute.

    Example: perfkit dag paper --json
    """
    from perfkit.scoring.dag_paper import paper_statements

    table = paper_statements(lambda name: typer.echo(f"scheduling {name}", err=True))
    if as_json:
        print_json(rows(table))
        return
    for _, row in table.iterrows():
        typer.echo(f"{row['of']} ({row['source']}): {'agrees' if row['agrees'] else 'DIFFERS'}")
        typer.echo(f"    stated: {row['stated']}\n    found:  {row['found']}")
        if row["elsewhere"]:
            typer.echo(f"    agrees with {row['elsewhere']}")
    for part, words in (("engine", "of the scheduler"), ("kernel", "of the kernels' curves")):
        own = table[table["part"] == part]
        typer.echo(f"{own['agrees'].sum()} of {len(own)} statements {words} agree")
    told = (table["elsewhere"] != "").sum()
    others = f"; of the others {told} with what the paper says of the same elsewhere" if told else ""
    typer.echo(f"{table['agrees'].sum()} of {len(table)} statements agree{others}")


# Kernels and sizes of the comparison with this machine: within L1, L2 and L3, up to the paper's own (Fig. 6, 10, 11).
_SIZES = {
    "mvm": (50, 500, 2500),
    "mmm_triple": (30, 100, 200, 500),
    "mmm_sixfold": (30, 100, 200, 500),
    "fft": (1 << 8, 1 << 10, 1 << 16, 1 << 20),
    "wht_iterative": (1 << 10, 1 << 16, 1 << 20),
    "wht_recursive": (1 << 10, 1 << 16, 1 << 20),
    "stencil": (12, 22, 60),
    "kmeans": (1000, 10_000),
}


@app.command("compare", cls=options.Command)
def compare_command(
    core: Annotated[
        str, typer.Option("--core", metavar="CORE", help="The core of this machine: a name, or host.")
    ] = "host",
    repetitions: Annotated[int, typer.Option("--repetitions", min=3, help="Measured runs of each kernel.")] = 20,
    small: Annotated[bool, typer.Option("--small", help="Only the two smallest sizes of each kernel.")] = False,
    as_json: options.Json = False,
) -> None:
    """Compare simulated with measured performance here.

    Of the same scalar code, on this machine (the paper's Fig. 6).

    "all" is the core with every instruction counted against its fetch width (not in the paper).

    Example: perfkit dag compare --small
    """
    import numpy as np

    from perfkit.machine.core import Microarchitecture

    core = Microarchitecture.load(core).name if core == "host" else core
    heads = ("Table I", core, "all", "measured", "error", "all")
    if not as_json:
        typer.echo(f"flops/cycle, warm caches: simulated on Table I, on {core} without and with all instructions")
        typer.echo(f"{'kernel':23s} " + " ".join(f"{head:>9s}" for head in heads) + " rejected")
    found = []
    for name, sizes in _SIZES.items():
        for size in sizes[: 2 if small else None]:
            found.append(row := _compared(name, size, core, repetitions))
            if not as_json:
                figures = [row[key] for key in ("table_1", "simulated", "all_instructions", "measured")]
                text = " ".join(f"{figure:9.3f}" for figure in figures)
                typer.echo(
                    f"{row['kernel']:23s} {text} {row['error']:+9.0%} {row['error_all']:+9.0%} {row['rejected']:8d}"
                )
    if as_json:
        print_json(found)
        return
    for label, key in (("the paper's model", "error"), ("all instructions", "error_all")):
        column = np.abs([row[key] for row in found])
        typer.echo(f"{label}: mean absolute error {np.mean(column):.0%}, median {np.median(column):.0%}")


def _compared(name: str, size: int, core: str, repetitions: int) -> dict[str, Any]:
    """Return one row of the comparison, in flops per cycle: the simulations and this machine."""
    from perfkit.collectors.dag.kernel_timing import measure_kernel
    from perfkit.collectors.dag.paper_kernels import kernel
    from perfkit.simulators.dag.core import DagCore
    from perfkit.simulators.dag.schedule import DagScheduler

    here, paper = DagCore.load(core), DagCore.sandy_bridge_erm()
    source, everything = kernel(name).trace(size), kernel(name).trace(size, count_all=True)
    pairs = (paper, source), (here, source), (here, everything)
    runs = [DagScheduler(model, record=False).run(nodes) for model, nodes in pairs]
    timed = measure_kernel(source, repetitions)
    measured = runs[0].work / timed.cycles
    return {
        "kernel": source.name,
        "table_1": runs[0].performance,
        "simulated": runs[1].performance,
        "all_instructions": runs[2].performance,
        "measured": measured,
        "error": runs[1].performance / measured - 1,
        "error_all": runs[2].performance / measured - 1,
        "rejected": timed.rejected,
    }
