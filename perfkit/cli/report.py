"""``perfkit report``: a notebook run with other parameters, as a notebook or one HTML page, or for a table of them."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from perfkit.base.files import replaced
from perfkit.cli import options
from perfkit.cli.notebook_runs import checked, execute, find_notebook, pairs_of, parameters_of, shipped_notebooks
from perfkit.cli.output import print_json, progress_bar, wrote
from perfkit.errors import SettingError, listed

if TYPE_CHECKING:
    from perfkit.cli.pages.reports import ReportKind

_FORMATS = (".ipynb", ".html")
app = typer.Typer(add_completion=False, rich_markup_mode=None)


class ReportCommand(options.Command):
    """The command with papermill's ``-p name value``, which typer's lists of options cannot express."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Join each name and value before typer sees them."""
        return super().parse_args(ctx, joined(args))


@app.command("report", cls=ReportCommand)
def report(
    ctx: typer.Context,
    notebook: str = typer.Argument(
        "",
        metavar="[NOTEBOOK]",
        help="A method (spire, cpi, dump, gus, roofline, study): one screen on your data. Or a notebook: its path, or "
        "a shipped lesson's name (10_spire_walkthrough).",
    ),
    parameters: options.Parameters = [],  # noqa: B006  typer copies it
    output: Path | None = typer.Option(
        None,
        "--output",
        "-o",
        metavar="FILE",
        help="Write the result: .html is one page, .ipynb a notebook. Its folder is made if needed.",
    ),
    list_only: bool = typer.Option(
        False, "--list", help="Only list the notebook's parameters; without a notebook, all that there are."
    ),
    timeout: float = typer.Option(
        600.0, "--timeout", min=1, max=1e6, callback=options.finite, help="Give up on a cell after this many seconds."
    ),
    grid: Path | None = typer.Option(
        None,
        "--grid",
        metavar="FILE",
        help="Run a notebook (10_spire_walkthrough, not a method's name) for each row of a CSV table of parameters, "
        "into a folder.",
    ),
    cluster: str | None = options.cluster("Run a grid"),
    jobs: int | None = typer.Option(
        None, "--jobs", min=1, help="Runs of a grid at a time (default: one per processor)."
    ),
    without: str = typer.Option(
        "", "--without", metavar="TAG", help="Leave out a notebook's cells with this tag (view: interactive views)."
    ),
    as_json: options.Json = False,
) -> None:
    """Report on your own data in one screen, or run a notebook with your own parameters.

    A method's name (spire, cpi, dump, gus, roofline, study) gives one page with the answer first and your data alone.
    A notebook gives the whole lesson, as a page or as a notebook.

    Example: perfkit report spire -p training 'dumps/train-*.txt' -p analysed dumps/app.txt -o report.html
    """
    if not notebook and list_only:
        names = {"methods": _methods(), "notebooks": [p.stem for p in shipped_notebooks()]}
        if as_json:
            print_json(names)
        else:
            typer.echo("\n".join(f"{kind}: {', '.join(each)}" for kind, each in names.items()))
        return
    if not notebook:
        raise SettingError("name a method or a notebook; perfkit report --list names them all")
    own = _report(notebook, output)
    path = Path(notebook) if own else find_notebook(notebook, _methods())
    known = own.parameters if own else parameters_of(path)
    if list_only:
        unused = ("parameters", "output", "grid", "cluster", "jobs", "without", "timeout")
        options.has_no_effect(ctx, "with --list, which runs nothing", *unused)
        if as_json:
            print_json(known)
        else:
            typer.echo(_listed(path, known))
        return
    if output is not None and (grid is not None or not output.suffix):
        if own or output.suffix:
            lessons = [p.stem for p in shipped_notebooks() if own and notebook in p.stem] or ["30_gus_optimization"]
            found = f"{notebook!r} names a method, which is one page" if own else f"-o {output} is a file"
            raise SettingError(
                f"many runs (--grid, or -o FOLDER) are of a notebook, into a folder; {found}. For example: perfkit "
                f"report {lessons[0]} --grid runs.csv -o FOLDER"
            )
        _many(path, list(parameters), grid, output, timeout, cluster or "", jobs or 0, without, as_json)
        return
    options.has_no_effect(ctx, "without --grid or -o FOLDER: there is one run", "cluster", "jobs")
    if own:
        options.has_no_effect(ctx, f"on {notebook}, a method's page, which runs no notebook", "without", "timeout")
    if output is None:
        raise SettingError("report needs -o OUT.html or -o OUT.ipynb (or --list to see the parameters)")
    if output.suffix not in _FORMATS:
        raise SettingError(f"a report is written as {listed(_FORMATS, last='or')}; found {str(output)!r}")
    options.check_writable(output)
    values = checked(pairs_of(parameters), known, path)
    start = time.perf_counter()
    if own:
        from perfkit.cli.pages.answer import write_page

        write_page(own.page(notebook, values), output)
    else:
        executed = execute(path, values, timeout, without=without)
        given = ", ".join(f"{k} = {v}" for k, v in values.items()) or "defaults"
        write(executed, output, title=f"{path.stem}: {given}")
    seconds = time.perf_counter() - start
    wrote(output)
    if as_json:
        print_json({"written": output, "notebook": path, "parameters": values, "seconds": seconds})
    else:
        typer.echo(f"{path.name} in {seconds:.1f} s")


def _many(
    path: Path, parameters: list[str], grid: Path | None, folder: Path, timeout: float, cluster: str, jobs: int,
    without: str, as_json: bool,
) -> None:  # fmt: skip
    """Run a notebook for every row and combination, and say how many are done."""
    from perfkit.cli.reruns import grid_of, rerun_all

    runs = grid_of(path, parameters, grid, without)
    with progress_bar(f"{len(runs)} runs") as bar:
        records = rerun_all(
            path, runs, folder, timeout=timeout, cluster=cluster, jobs=jobs, progress=bar, without=without
        )
    failed = [r for r in records if r["status"] != "ok"]
    wrote(folder / "index.html")
    if as_json:
        print_json({"folder": folder, "runs": records})
    else:
        kept = sum(r["kept"] for r in records)
        typer.echo(f"{len(records) - len(failed)} of {len(runs)} runs done ({kept} from before)")
        for r in failed[:5]:
            typer.echo(f"failed: {r['values']}: {r['error'].splitlines()[0] if r['error'] else ''}")
    if failed:
        raise typer.Exit(1)


def _methods() -> list[str]:
    from perfkit.cli.pages.reports import REPORTS

    return list(REPORTS)


def _report(name: str, output: Path | None) -> "ReportKind | None":
    """Return the report of this name; None for notebooks."""
    from perfkit.cli.pages.reports import REPORTS

    if name not in REPORTS:
        return None
    if output is not None and output.suffix == ".ipynb":
        raise SettingError(
            f"report {name} writes one page (.html). The lesson as a notebook: give its whole name, such as "
            f"{', '.join(p.stem for p in shipped_notebooks()[:4])}"
        )
    return REPORTS[name]


def write(executed: Any, output: Path, title: str) -> None:
    """Write an executed notebook as .ipynb or as one HTML page that needs no network."""
    output.parent.mkdir(parents=True, exist_ok=True)
    if output.suffix == ".ipynb":
        import nbformat

        with replaced(output) as temporary, temporary.open("w", encoding="utf-8") as file:
            nbformat.write(executed, file)
        return
    from perfkit.cli.pages import single_page

    with replaced(output) as temporary:
        temporary.write_text(single_page(executed, title), encoding="utf-8")


def joined(arguments: list[str]) -> list[str]:
    """Return command-line arguments with ``-p name value`` as ``-p name=value``, the form that the parser takes."""
    out: list[str] = []
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if word in ("-p", "--parameter") and len(rest) >= 2 and "=" not in rest[0]:
            word, name, value = word, rest.pop(0), rest.pop(0)
            out += [word, f"{name}={value}"]
        else:
            out.append(word)
    return out


def _listed(path: Path, known: dict[str, dict[str, str]]) -> str:
    width = max((len(n) for n in known), default=4)
    lines = [f"{n:{width}}  {k['inferred_type_name']:6} = {k['default']}  # {k['help']}" for n, k in known.items()]
    return "\n".join([f"{path}:", *lines])
