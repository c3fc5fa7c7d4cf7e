"""``perfkit gate``: performance tests that are never flaky, for projects in C, C++ and Rust."""

import tomllib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perfkit.cli import options
from perfkit.cli.output import print_json
from perfkit.errors import SettingError

if TYPE_CHECKING:
    from perfkit.diagnosis.gate import Gate, GateVerdict

_SAYS = "a file of gates says that itself, for each gate"
_FILES = (".toml", ".yaml", ".yml")


def gate(
    ctx: typer.Context,
    what: str = typer.Argument(
        metavar="WHAT",
        help="A file of gates (.toml, .yaml); or a program, a library, a C or C++ file, or corpus:NAME.",
    ),
    words: options.Words = [],  # noqa: B006  typer copies it
    arguments: options.Arguments = "",
    function: options.Function = "",
    core: str = typer.Option("", "--core", metavar="CORE", help="A core's name or file; not host (default: zen4)."),
    at_most: options.AtMost = None,
    instruction_set: str = typer.Option(
        "", "--instruction-set", metavar="LEVEL", help="Pin to x86-64-v2, x86-64-v3 or x86-64-v4 (default: x86-64-v3)."
    ),
    flags: str = typer.Option(
        "",
        "--flags",
        metavar="TEXT",
        callback=options.plain,
        help="Of a source: compiler flags (default: -O2 -march=LEVEL, not that of diff and why).",
    ),
    warm: options.Warm = None,
    limit: options.Limit = 10_000_000,
    skip: options.Skip = 0,
    repeat: options.Repeat = 1,
    baseline: Path | None = typer.Option(
        None,
        "--baseline",
        metavar="FILE",
        help="The file of baselines (default: the one beside the file of gates, or here).",
        callback=options.ends_in(".json"),
    ),
    update: bool = typer.Option(False, "--update", help="Make what is measured now the baseline."),
    output: Annotated[Path | None, options.output("Write the verdicts for a comment (.md).", ".md")] = None,
    markdown: bool = typer.Option(False, "--markdown", help="Print Markdown."),
    as_json: options.Json = False,
) -> None:
    """Fail when a program became slower: simulated cycles of a pinned recording, the same in every run.

    Caches and branch predictor start warm, unless --cold is given, and at most 2 % more cycles pass, unless --at-most
    says otherwise.

    Example: perfkit gate kernel.c -f sum --update -- 'f8[1000]' 1000

    Example: perfkit gate gates.toml -o comment.md
    """
    from perfkit.diagnosis.gate import BASELINES, check_gate, measured_twice
    from perfkit.diagnosis.gate import update_baselines as keep

    given = {"core": core, "instruction_set": instruction_set, "at_most": at_most}
    given = {name: value for name, value in given.items() if value not in ("", None)}
    path, called = Path(what), options.called_with(words, arguments)
    if as_json:
        options.has_no_effect(ctx, "with --json", "markdown")
    if update:
        options.has_no_effect(ctx, "with --update, which compares nothing", "markdown", "output", "at_most")
    if path.suffix in _FILES:
        options.has_no_effect(ctx, f"here: {_SAYS}", "function", "flags", "warm", "skip", "repeat", "limit")
        if called:
            raise SettingError(f"arguments ({' '.join(called)}) have no effect here: {_SAYS}")
        gates = _read(path, given)
        here = path.parent
    else:
        given |= {"flags": flags, "cold": warm is False, "limit": limit, "skip": skip, "repeat": repeat}
        named = f"{what}:{function}" if function else what
        gates = {named: _one(what, named, called, given)}
        here = Path()
    baselines = baseline or here / BASELINES
    if update:
        readings = {name: measured_twice(each) for name, each in gates.items()}
        keep({name: reading.entry() for name, reading in readings.items()}, baselines)
        if as_json:
            print_json({"written": baselines, "cycles": {name: found.cycles for name, found in readings.items()}})
            return
        for name, reading in readings.items():
            typer.echo(f"{name}: {reading.cycles:,.0f} cycles (simulated on {reading.gate.core})")
        typer.echo(f"wrote {baselines}", err=True)
        return
    found = [check_gate(name, each, baselines) for name, each in gates.items()]
    _tell(found, markdown, as_json, output)
    if not all(each.passed for each in found):
        raise typer.Exit(1)


def _one(what: str, named: str, called: list[str], given: Mapping[str, Any]) -> "Gate":
    """Return the gate that the command line describes."""
    import shlex

    from perfkit.diagnosis.gate import SOURCES, Gate

    is_program = not what.startswith("corpus:") and Path(what).suffix not in (*SOURCES, ".so")
    values = [value.strip() for word in called for value in word.split(",") if value.strip()]
    return Gate(named, shlex.join(called) if is_program else ", ".join(values), **given)


def _read(path: Path, given: dict[str, Any]) -> "dict[str, Gate]":
    """Return the gates of a file: a table each below ``gates``, defaults for all of them above.

    Raises
    ------
    FormatError, SettingError
        The file is none, or a name in it is unknown.
    """
    import yaml

    from perfkit.diagnosis.gate import Gate
    from perfkit.errors import FormatError
    from perfkit.files import reading, whole_text
    from perfkit.names import did_you_mean

    text = whole_text(path, "a file of gates")
    with reading(path, "a file of gates in TOML or YAML"):
        try:
            found = tomllib.loads(text) if path.suffix == ".toml" else yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise FormatError(f"{path}: expected a file of gates in YAML; {error}") from error
    tables = found.pop("gates", None) if isinstance(found, dict) else None
    if not isinstance(tables, dict) or not tables or not all(isinstance(each, dict) for each in tables.values()):
        raise FormatError(f"{path}: expected a table [gates.NAME] for each gate, with what = ...")
    known = {f.name.replace("_", "-"): f.name for f in fields(Gate) if f.name != "folder"}
    gates = {}
    for name, table in tables.items():
        values = {}
        for key, value in (found | table).items():
            if key.replace("_", "-") not in known:
                raise SettingError(f"{path}: gate {name!r}: unknown {key!r}; {did_you_mean(key, known)}")
            values[known[key.replace("_", "-")]] = value
        if not isinstance(values.get("what"), str):
            raise SettingError(f"{path}: gate {name!r}: say what is gated: what = 'build/solver:solve'")
        _check_kinds(path, name, values)
        gates[name] = Gate(**(values | given), folder=path.parent)
    return gates


_KINDS: dict[str, Any] = {
    "arguments": (str, list), "core": str, "instruction_set": str, "flags": str, "compiler": str, "cold": bool,
    "callees": bool, "skip": int, "repeat": int, "limit": int, "at_most": (int, float, str),
}  # fmt: skip


def _check_kinds(path: Path, name: str, values: Mapping[str, Any]) -> None:
    from perfkit.files import check_fields

    check_fields(values, {key: kind for key, kind in _KINDS.items() if key in values}, path, f"gate {name!r}")


def _tell(found: "list[GateVerdict]", markdown: bool, as_json: bool, output: Path | None) -> None:
    """Print the verdicts, and write the comment."""
    text = "\n".join(["## perfkit gate", "", *(each.markdown() for each in found)])
    if output is not None:
        from perfkit.files import replaced

        with replaced(output) as temporary:
            temporary.write_text(text, encoding="utf-8")
    if as_json:
        print_json({"passed": all(each.passed for each in found), "gates": [each.to_dict() for each in found]})
    elif markdown:
        typer.echo(text)
    else:
        for each in found:
            typer.echo(f"{'ok    ' if each.passed else 'FAILED'} {each.name}: {each.message}")
    if output is not None:
        typer.echo(f"wrote {output}", err=True)
