"""``perfkit gus``: simulate a trace, rank the resources by sensitivity and name the instructions that cost the time."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perfkit.cli import options
from perfkit.cli.output import print_json, wrote
from perfkit.errors import SettingError

if TYPE_CHECKING:
    import pandas as pd

    from perfkit.machine.core import Microarchitecture
    from perfkit.simulators.gus.gus import Gus, GusResult
    from perfkit.trace.threads import ThreadTraces

_SENSITIVITY, _PERFECT = "sensitivity", "if it were perfect"  # names of tables


def gus(
    ctx: typer.Context,
    what: str = typer.Argument(
        "",
        metavar="[WHAT]",
        help="A trace, a C or C++ file, a program, module:function, corpus:NAME, block:CODE or a shipped trace.",
    ),
    source: Path | None = typer.Option(
        None, "--source", metavar="FILE", help="A C or C++ file: compile it, trace it and simulate it."
    ),
    words: options.Words = [],  # noqa: B006  typer copies it
    function: options.Function = "",
    core: options.Core = "host",
    sensitivity: bool = typer.Option(False, "--sensitivity", help="Rank the resources by the speedup they allow."),
    causality: bool = typer.Option(False, "--causality", help="Rank the instructions by what they delay."),
    weights: str = typer.Option(
        "1.1,1.5,2",
        "--weights",
        metavar="A,B,...",
        help="With --sensitivity: multiply each capacity by these factors, separated by commas.",
    ),
    calibration: Path | None = typer.Option(
        None, "--calibration", metavar="FILE", help="This host's figures (perfkit calibrate --core CORE -o FILE)."
    ),
    uops_info: Path | None = typer.Option(
        None, "--uops-info", metavar="FILE", help="Your copy of uops.info's instructions.xml."
    ),
    overrides: Path | None = typer.Option(
        None, "--overrides", metavar="FILE", help="Your own figures of instruction forms (TOML; docs/cores.md)."
    ),
    look_up: bool = typer.Option(True, help="Ask an installed llvm-mca about forms that no table defines."),
    warm: options.Warm = None,
    warm_caches: bool = typer.Option(
        False, "--warm-caches", help="Start with caches that have seen the run, and an untrained branch predictor."
    ),
    build: options.Build = "",
    flags: options.Flags = "",
    arguments: options.Arguments = "",
    limit: options.Limit = 10_000_000,
    top: options.Top = 10,
    output: Annotated[
        Path | None, options.output("Save the result (.gus): perfkit.GusResult.load opens it.", ".gus")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Simulate a trace on a core: cycles, where they went, what would help.

    Caches and branch predictor start cold, unless --warm or --warm-caches is given.

    Example: perfkit gus --source kernel.c -f f --sensitivity --causality -- 'f8[1000]' 1000
    """
    from perfkit.collectors.named_traces import of_threads
    from perfkit.collectors.open_traces import open_traces, source_kind
    from perfkit.machine.core import Microarchitecture
    from perfkit.machine.instruction_tables import InstructionTables
    from perfkit.machine.overlays import calibrated_core, calibrated_for
    from perfkit.simulators.gus.gus import ACCOUNT, Gus, cpi_by_cause, use_of_resources
    from perfkit.simulators.gus.sensitivity import sensitivity as rank

    if warm is not None and warm_caches:
        raise SettingError("--warm, --cold and --warm-caches say how the caches start; give one of them")
    if not sensitivity:
        options.has_no_effect(ctx, "without --sensitivity", "weights")
    factors = options.numbers(weights, "--weights")
    called = options.called_with(words, arguments)
    if bool(what) == bool(source):
        raise SettingError("give one of WHAT (a trace, a program, a C or C++ file, ...) and --source FILE (C, C++)")
    what = what or str(source)
    if source_kind(what) in ("trace", "file"):
        _check_recorded(ctx, called)
    team = of_threads(what)
    how: dict[str, Any] = {"function": function, "build": build, "flags": flags, "arguments": called, "limit": limit}
    traces = [team[0]] if team is not None else list(open_traces(what, **how).values())
    if len(traces) > 1:
        raise SettingError(f"{what} names {len(traces)} traces; perfkit gus simulates one: name it")
    trace = traces[0]
    if core == "host" and calibration is not None:
        core = calibrated_for(calibration)
    machine = Microarchitecture.load(core)
    if calibration is not None:
        machine = calibrated_core(machine, calibration)
    costs = InstructionTables.load(machine, overrides, calibration, uops_info, look_up)
    settings = Gus(machine, tables=costs, warm="all" if warm else "caches" if warm_caches else "none")
    if team is not None:
        _tell_threads(
            settings, team, factors, output, top, sensitivity=sensitivity, causality=causality, as_json=as_json
        )
        return
    result = settings.run(trace)
    if output is not None:
        result.save(output)
        wrote(output)
    coverage = costs.served(trace)
    found = _summary(result, machine.name) | {
        "layers": {name: share for name, share in coverage.shares.items() if share}
    }
    found["calibrated"] = sorted(_calibrated(machine)) if calibration is not None else []
    # Rows and not frames: pandas takes as long to import as a small trace's simulation.
    tables = {"CPI stack": [{"cause": cause, "CPI": cycles} for cause, cycles in cpi_by_cause(result).items()]}
    tables["occupancy"] = [{"resource": name, "share": share} for name, share in use_of_resources(result).items()]
    if sensitivity:
        ranked = rank(settings, trace, factors, perfect=True)
        tables[_SENSITIVITY] = _rows(ranked.to_frame())
        tables[_PERFECT] = [{"scenario": name, "speedup": s} for name, s in ranked.perfect.items()]
    if causality:
        tables["causality"] = _responsible(result)
    if as_json:
        print_json(found | {name.replace(" ", "_"): table for name, table in tables.items()})
        return
    print(f"{found['trace']} on {found['core']} (simulated): {found['instructions']:,} instructions")
    print(f"{found['cycles']:,.0f} cycles, {found['ipc']:.2f} instructions per cycle")
    for missing in found["missing"]:
        print(f"not in these figures: {missing}")
    print("\nlayers of the instruction table, by share of the executed instructions")
    for name, share in found["layers"].items():
        print(f"  {share:7.1%}  {name}: {coverage.titles.get(name, 'a guess')}")
    if found["calibrated"]:
        print(f"  and from the calibration, of the core: {', '.join(found['calibrated'])}")
    for name, table in tables.items():
        more = f": {ACCOUNT} (--sensitivity)" if name == "CPI stack" else ""
        print(f"\n{name} (simulated){more}")
        print(_text(_as_gains(name, table[:top])))


def _tell_threads(
    settings: "Gus", team: "ThreadTraces", factors: list[float], output: Path | None, top: int, *,
    sensitivity: bool, causality: bool, as_json: bool,
) -> None:  # fmt: skip
    """Simulate every thread on a core of its own, and say who waits for whom, and what holds each back."""
    from perfkit.diagnosis.progress import stages
    from perfkit.simulators.gus.threads import run_threads

    with stages() as say:
        say(f"simulating {len(team)} threads, each on a core of its own")
        result = run_threads(settings, team)
        say("looking for lines that they share")
        lines = team.shared_lines()
        if output is not None:
            result.save(output)
        say("asking what holds each back")
        table = result.to_frame().assign(bottleneck=[name or "no single one" for name in result.bottlenecks])
        tables = {"threads": _rows(table), "lines that threads share": _rows(lines.to_frame())}
        slowest = result[result.critical]
        if sensitivity:
            say(f"asking what would help thread {result.critical}")
            ranked = slowest.sensitivity(tuple(factors)).to_frame()
            tables[f"{_SENSITIVITY} of thread {result.critical}, without the lines that others take"] = _rows(ranked)
        if causality:
            say(f"asking which instructions of thread {result.critical} are responsible")
            tables[f"causality of thread {result.critical}"] = _responsible(slowest)
    if output is not None:
        wrote(output)
    if as_json:
        print_json(
            {
                "kind": result.kind, "core": settings.core.name, "cycles": result.cycles,
                "imbalance": result.imbalance, "critical": result.critical, "slowdown": result.slowdown,
                "transfers": int(result.transfers.sum()), "phased": team.phased, "complete": team.complete,
            } | {name.replace(" ", "_"): rows for name, rows in tables.items()}
        )  # fmt: skip
        return
    print(result.summary())
    print(lines.summary())
    for name, rows in tables.items():
        if rows:
            print(f"\n{name} (simulated)" if name != "lines that threads share" else f"\n{name}")
            shown = _as_gains(name, rows[:top])
            print(_text([row | {"address": f"{row['address']:#x}"} if "sharing" in row else row for row in shown]))
            if len(rows) > top:
                print(f"... and {len(rows) - top} more rows (--top {len(rows)} shows all)")


def _responsible(result: "GusResult") -> list[dict[str, Any]]:
    """Return the instructions that the time hangs on, each with its address as objdump prints it and its line."""
    found = result.causality().to_frame()
    code, addresses = result.trace.code, result.trace.object_addresses()
    found["address"] = [f"{addresses[k]:#x}" for k in found.index]
    found["place"] = [f"{Path(code.file[k]).name}:{code.line[k]}" if code.line[k] else "" for k in found.index]
    found = found[(found["held"] > 0) | (found["share"] > 0)]
    return _rows(found[["address", "place", "text", "executions", "held", "share"]])


def _rows(frame: "pd.DataFrame") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(frame.to_json(orient="records"))
    return found


def _as_gains(name: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of a table as they are printed: what a better resource brings is a gain, in per cent."""
    if not name.startswith((_SENSITIVITY, _PERFECT)):
        return rows
    heads = {"speedup": "gain"}  # JSON keeps the names of the API
    return [
        {heads.get(key, f"gain {key}" if key.startswith("x") else key): f"{v:+z.1%}" if isinstance(v, float) else v
         for key, v in row.items()}
        for row in rows
    ]  # fmt: skip


def _text(rows: list[dict[str, Any]]) -> str:
    """Return rows as text, in columns aligned to the right."""
    if not rows:
        return "(nothing)"

    def said(value: Any) -> str:
        return f"{value:.3f}" if isinstance(value, float) else str(value)

    lines = [list(rows[0]), *([said(value) for value in row.values()] for row in rows)]
    widths = [max(len(line[k]) for line in lines) for k in range(len(lines[0]))]
    return "\n".join("  ".join(word.rjust(w) for word, w in zip(line, widths, strict=True)) for line in lines)


def _check_recorded(ctx: typer.Context, called: list[str]) -> None:
    """Refuse what is only for what is recorded now."""
    if called:
        raise SettingError(
            f"arguments ({' '.join(called)}) go with --source FILE, a program or a Python function: a trace is of the "
            "call that it recorded"
        )
    options.has_no_effect(ctx, "without --source FILE: a trace is of the call that it recorded", "function")
    options.has_no_effect(ctx, "on a trace, which is recorded already", "build", "flags", "limit")


def _calibrated(core: "Microarchitecture") -> list[str]:
    """Return the names of the core's figures that a calibration set."""
    return [name for name, resource in core.resources.items() if resource.source == "user"]


def _summary(result: "GusResult", core: str) -> dict[str, Any]:
    origin = result.trace.provenance
    branches, missed = result.branches
    return {
        "trace": origin.title,
        "complete": origin.complete,
        "missing": list(origin.missing),
        "core": core,
        "kind": result.kind,
        "instructions": result.instructions,
        "cycles": result.cycles,
        "ipc": result.ipc,
        "served": dict(zip(("L1", "L2", "L3", "memory"), result.served.served.tolist(), strict=True)),
        "branches": branches,
        "mispredicted": missed,
    }
