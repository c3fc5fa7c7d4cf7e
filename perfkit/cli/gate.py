"""``perfkit gate``: performance tests that are never flaky, for projects in C, C++ and Rust."""

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perfkit.base.files import is_folder
from perfkit.cli import options
from perfkit.cli.output import print_json, wrote
from perfkit.errors import MissingFileError, PerfkitError, SettingError

if TYPE_CHECKING:
    from perfkit.diagnosis.gate import Gate
    from perfkit.diagnosis.gate_verdict import GateVerdict

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
        callback=options.flags,
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
    from perfkit.diagnosis.progress import stages

    with stages("starting") as say:  # what is imported next takes seconds on a slow disk
        from perfkit.diagnosis.gate import BASELINES, check_gate, measured_twice, read_baselines

        given = {"core": core, "instruction_set": instruction_set, "at_most": at_most}
        given = {name: value for name, value in given.items() if value not in ("", None)}
        path, called = Path(what), options.called_with(words, arguments)
        if as_json:
            options.has_no_effect(ctx, "with --json", "markdown")
        if update:
            options.has_no_effect(ctx, "with --update, which compares nothing", "markdown", "output", "at_most")
        several = path.suffix in _FILES
        if several:
            options.has_no_effect(ctx, f"here: {_SAYS}", "function", "flags", "warm", "skip", "repeat", "limit")
            if called:
                raise SettingError(f"arguments ({' '.join(called)}) have no effect here: {_SAYS}")
            gates = _read(path, given)
        baselines = baseline or (path.parent if several else Path()) / BASELINES
        entries = read_baselines(baselines)
        beside = path.parent / BASELINES
        if not (several or baseline or entries or update) and beside.is_file():
            say(f"baselines are looked for here, and lie in {beside}, too: --baseline {beside} takes those")
        if update:
            options.check_writable(baselines)
        if not several:
            given |= {"flags": flags, "cold": warm is False, "limit": limit, "skip": skip, "repeat": repeat}
            gates = _one(what, function, called, given, baselines.absolute().parent, entries)
        if update:
            found, errors = _each(gates, say, lambda _, each: measured_twice(each), "recording twice and simulating")
            say("writing the baselines")
            made = _written(found, baselines)
        else:
            found, errors = _each(
                gates, say, lambda name, each: check_gate(name, each, baselines), "recording and simulating"
            )
    if not several:
        for error in errors.values():
            raise error
    if update:
        _tell_kept(found, made, errors, baselines, as_json, entries)
    else:
        verdicts = {name: _unmeasured(name, error, entries) for name, error in errors.items()}
        _tell([{**found, **verdicts}[name] for name in gates], markdown, as_json, output)
    if errors:
        raise typer.Exit(2)
    if not update and not all(each.passed for each in found.values()):
        raise typer.Exit(1)


def _each(
    gates: "Mapping[str, Gate]", say: Callable[[str], None], run: "Callable[[str, Gate], Any]", doing: str
) -> tuple[dict[str, Any], dict[str, Exception]]:
    """Run every gate; what cannot be run does not keep the others from it."""
    found: dict[str, Any] = {}
    errors: dict[str, Exception] = {}
    for number, (name, each) in enumerate(gates.items(), 1):
        say(f"{doing} {name}" + (f" ({number} of {len(gates)})" if len(gates) > 1 else ""))
        try:
            found[name] = run(name, each)
        except (PerfkitError, OSError) as error:
            errors[name] = error
    return found, errors


def _unmeasured(name: str, error: Exception, entries: Mapping[str, Any]) -> "GateVerdict":
    from perfkit.diagnosis.gate_verdict import GateVerdict

    before = float(entries[name]["cycles"]) if name in entries else 0.0
    return GateVerdict(name, False, "error", str(error), 0.0, before)


def _written(found: Mapping[str, Any], baselines: Path) -> dict[str, dict[str, Any]]:
    """Write the baselines of what could be measured, and return them."""
    from perfkit.diagnosis.gate import update_baselines

    entries = {name: reading.entry() for name, reading in found.items()}
    if found:
        update_baselines(entries, baselines)
    return entries


def _tell_kept(
    found: Mapping[str, Any],
    entries: Mapping[str, Mapping[str, Any]],
    errors: Mapping[str, Exception],
    baselines: Path,
    as_json: bool,
    before: Mapping[str, Mapping[str, Any]],
) -> None:
    """Say of what baselines were written, what could not be measured, and what was of something else before."""
    from perfkit.diagnosis.gate import other_settings

    others = {name: other_settings(before[name], entry) for name, entry in entries.items() if name in before}
    others = {name: changed for name, changed in others.items() if changed}
    failed = {name: str(error) for name, error in errors.items()}
    if found:
        wrote(baselines)
    if as_json:
        cycles = {name: reading.cycles for name, reading in found.items()}
        also = {key: value for key, value in (("errors", failed), ("replaced", others)) if value}
        print_json({"written": baselines if found else None, "cycles": cycles} | also)
        return
    for name, reading in found.items():
        replaced = f"; the baseline of another gate is replaced: {'; '.join(others[name])}" if name in others else ""
        folder = "; it asks for the current folder (getcwd): run from another, it may differ" * reading.asks_for_folder
        threads = (
            f"; it can start threads ({reading.starts_threads}): these are the cycles of one, and what others do, and "
            "lines of memory that they take from it, are not in them"
        ) * bool(reading.starts_threads)
        typer.echo(
            f"{name}: {reading.cycles:,.0f} cycles ({reading.gate.how}{reading.judged}){replaced}{folder}{threads}"
        )
    for name, message in failed.items():
        typer.echo(f"ERROR  {name}: {message}")
    if not found:
        typer.echo(f"{baselines} stays as it was", err=True)


def _one(
    what: str, function: str, called: list[str], given: Mapping[str, Any], folder: Path, entries: Mapping[str, Any]
) -> "dict[str, Gate]":
    """Return the gate that the command line describes, by the name that its baseline has or will have.

    That is the file's name as seen from the baselines' folder, however it is typed; older baselines may have it as it
    was typed then.
    """
    import shlex

    from perfkit.diagnosis.gate import SOURCES, Gate, plain_name

    in_corpus = what.startswith("corpus:")
    file, _, inside = (what, "", "") if in_corpus or Path(what).is_file() else what.partition(":")
    if function and (inside or in_corpus):
        raise SettingError(f"{what} names its function already, and --function another; give one of them")
    if not in_corpus and not Path(file).is_file():
        raise MissingFileError(f"there is no file {file!r} to gate{is_folder(file)}; build it first")
    function = function or inside
    plain = what if in_corpus else plain_name(str(Path(file).absolute()), folder) + (f":{function}" if function else "")
    typed = f"{file}:{function}" if function else what
    # As it was typed then: unless that is another file, beside the baselines.
    older = [
        key for key in entries if plain_name(key, folder) == plain or (key == typed and not (folder / file).is_file())
    ]
    name = plain if plain in entries or not older else older[0]
    is_program = not in_corpus and Path(file).suffix not in (*SOURCES, ".so")
    values = [value.strip() for word in called for value in word.split(",") if value.strip()]
    return {name: Gate(plain, shlex.join(called) if is_program else ", ".join(values), folder=folder, **given)}


def _read(path: Path, given: dict[str, Any]) -> "dict[str, Gate]":
    """Return the gates of a file: a table each below ``gates``, defaults for all of them above.

    Raises
    ------
    FormatError, SettingError
        The file is none, or a name in it is unknown.
    """
    from perfkit.base.files import reading, whole_text
    from perfkit.diagnosis.gate import Gate
    from perfkit.errors import FormatError, did_you_mean
    from perfkit.study.settings_file import load_yaml

    text = whole_text(path, "a file of gates")
    with reading(path, "a file of gates in TOML or YAML"):
        found = tomllib.loads(text) if path.suffix == ".toml" else load_yaml(text, path)
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
        try:
            gates[name] = Gate(**(values | given), folder=path.parent)
        except SettingError as error:
            raise SettingError(f"{path}: gate {name!r}: {error}") from error
    return gates


_KINDS: dict[str, Any] = {
    "arguments": (str, list), "core": str, "instruction_set": str, "flags": str, "compiler": str, "cold": bool,
    "callees": bool, "skip": int, "repeat": int, "limit": int, "at_most": (int, float, str),
}  # fmt: skip


def _check_kinds(path: Path, name: str, values: Mapping[str, Any]) -> None:
    from perfkit.base.files import check_fields

    check_fields(values, {key: kind for key, kind in _KINDS.items() if key in values}, path, f"gate {name!r}")


def _tell(found: "list[GateVerdict]", markdown: bool, as_json: bool, output: Path | None) -> None:
    """Print the verdicts, and write the comment."""
    text = "\n".join(["## perfkit gate", "", *(each.markdown() for each in found)])
    if output is not None:
        from perfkit.base.files import replaced

        with replaced(output) as temporary:
            temporary.write_text(text, encoding="utf-8")
    if as_json:
        print_json({"passed": all(each.passed for each in found), "gates": [each.to_dict() for each in found]})
    elif markdown:
        typer.echo(text)
    else:
        for each in found:
            typer.echo(f"{each.mark:6} {each.name}: {each.message}")
    if output is not None:
        wrote(output)
