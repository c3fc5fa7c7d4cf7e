"""``perfkit report``: a notebook run with other parameters, as a notebook or as one HTML page."""

import json
import time
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand

from perfkit.cli import options
from perfkit.cli.output import print_json
from perfkit.errors import FormatError, SettingError, UnavailableError
from perfkit.files import replaced
from perfkit.samples.events import closest

_FORMATS = (".ipynb", ".html")
app = typer.Typer(add_completion=False, rich_markup_mode=None)


class ReportCommand(TyperCommand):
    """The command with papermill's ``-p name value``, which typer's lists of options cannot express."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Join each name and value before typer sees them."""
        return super().parse_args(ctx, joined(args))


@app.command("report", cls=ReportCommand)
def report(
    notebook: str = typer.Argument(
        ...,
        metavar="NOTEBOOK",
        help="A notebook's path, or the name of a shipped one (10_spire_walkthrough, or spire).",
    ),
    parameters: list[str] = typer.Option(
        [], "--parameter", "-p", metavar="NAME VALUE", help="Set a parameter of the notebook; may be repeated."
    ),
    output: Path = typer.Option(
        None, "--output", "-o", metavar="FILE", help="Write the result: .html is one page, .ipynb a notebook."
    ),
    list_only: bool = typer.Option(False, "--list", help="Only list the notebook's parameters."),
    timeout: float = typer.Option(
        600.0, "--timeout", min=1, max=1e6, callback=options.finite, help="Give up on a cell after this many seconds."
    ),
    as_json: options.Json = False,
) -> None:
    """Run a notebook with your own parameters, and write it as a page or a notebook.

    The SPIRE walkthrough becomes a report on your dump.

    Example: perfkit report spire -p training 'dumps/train-*.txt' -p analysed dumps/app.txt -o report.html
    """
    path = find_notebook(notebook)
    known = parameters_of(path)
    if list_only:
        if as_json:
            print_json(known)
        else:
            typer.echo(_listed(path, known))
        return
    if output is None:
        raise SettingError("report needs -o OUT.html or -o OUT.ipynb (or --list to see the parameters)")
    if output.suffix not in _FORMATS:
        raise SettingError(f"a report is written as {' or '.join(_FORMATS)}; found {str(output)!r}")
    values = checked(pairs_of(parameters), known, path)
    start = time.perf_counter()
    executed = execute(path, values, timeout)
    write(executed, output, title=f"{path.stem}: {', '.join(f'{k} = {v}' for k, v in values.items()) or 'defaults'}")
    seconds = time.perf_counter() - start
    if as_json:
        print_json({"written": output, "notebook": path, "parameters": values, "seconds": seconds})
    else:
        typer.echo(f"{output}: {path.name} in {seconds:.1f} s")


def find_notebook(name: str) -> Path:
    """Return the path of a notebook given by path, or by the (shortened) name of a shipped one.

    Raises
    ------
    SettingError
        There is no such notebook, or the name fits several; the message lists them.
    """
    path = Path(name)
    if path.is_file():
        if path.suffix != ".ipynb":
            raise SettingError(f"expected a notebook (.ipynb); found the file {name!r}")
        return path
    shipped = shipped_notebooks()
    stem = path.name.removesuffix(".ipynb")
    fitting = [p for p in shipped if p.stem == stem] or [p for p in shipped if stem.lower() in p.stem.lower()]
    if len(fitting) == 1:
        return fitting[0]
    listed = ", ".join(p.stem for p in fitting or shipped)
    raise SettingError(
        f"{name!r} is {'the name of several notebooks' if fitting else 'no notebook'}; there are: {listed}"
    )


def shipped_notebooks() -> list[Path]:
    """Return the notebooks that come with perfkit: those of the wheel, or of the checkout."""
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "_notebooks", package.parent / "notebooks"):
        if folder.is_dir():
            return sorted(folder.glob("*.ipynb"))
    return []


def parameters_of(path: Path) -> dict[str, dict[str, str]]:
    """Return a notebook's parameters in order: name -> inferred_type_name, default (as Python text) and help."""
    try:
        found = _papermill().inspect_notebook(str(path))
    except (ValueError, AttributeError, KeyError, RecursionError) as error:
        raise FormatError(f"{path}: expected a Jupyter notebook; reading it failed: {str(error)[:200]}") from error
    return {name: {k: str(v) for k, v in entry.items()} for name, entry in found.items()}


def pairs_of(given: list[str]) -> dict[str, str]:
    """Return parameters given as ``name=value``."""
    pairs: dict[str, str] = {}
    for text in given:
        name, sign, value = text.partition("=")
        if not sign or not name.strip():
            raise SettingError(f"a parameter is given as -p NAME VALUE or -p NAME=VALUE; found {text!r}")
        pairs[name.strip()] = value
    return pairs


def checked(pairs: dict[str, str], known: dict[str, dict[str, str]], path: Path) -> dict[str, Any]:
    """Return the values in the types that the notebook's annotations name.

    Raises
    ------
    SettingError
        The notebook has no such parameter (the nearest are named), or the value is not of its type.
    """
    values: dict[str, Any] = {}
    for name, text in pairs.items():
        if name not in known:
            near = closest(name, known) or list(known)
            raise SettingError(
                f"{path.name} has no parameter {name!r}; did you mean {', '.join(near)}? "
                f"Its parameters are {', '.join(known) or 'none'}."
            )
        values[name] = _typed(name, text, known[name]["inferred_type_name"])
    return values


def execute(path: Path, values: dict[str, Any], timeout: float) -> Any:
    """Return the notebook executed with these parameter values, as an nbformat node; progress goes to stderr."""
    import tempfile

    import nbformat

    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / path.name
        try:
            _papermill().execute_notebook(
                str(path),
                str(out),
                parameters=values,
                kernel_name="python3",
                execution_timeout=round(timeout),
                log_output=False,
            )
        except _papermill().PapermillExecutionError as error:
            raise UnavailableError(
                f"{path.name} stopped at cell {error.exec_count}: {error.ename}: {error.evalue}"
            ) from error
        return nbformat.read(out, as_version=4)


def write(executed: Any, output: Path, title: str) -> None:
    """Write an executed notebook as .ipynb or as one HTML page that needs no network."""
    output.parent.mkdir(parents=True, exist_ok=True)
    if output.suffix == ".ipynb":
        import nbformat

        nbformat.write(executed, output)
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


def _typed(name: str, text: str, kind: str) -> Any:
    makers: dict[str, Any] = {"int": int, "float": float, "bool": _truth, "list": _json_list}
    maker = makers.get(kind.split("[")[0], str)
    try:
        return maker(text)
    except ValueError as error:
        raise SettingError(f"parameter {name} is of type {kind}; found {text!r}") from error


def _truth(text: str) -> bool:
    if text.lower() in ("true", "yes", "1"):
        return True
    if text.lower() in ("false", "no", "0"):
        return False
    raise ValueError(text)


def _json_list(text: str) -> list[Any]:
    """Return a list given as JSON, or as words with commas between."""
    if text.lstrip().startswith("["):
        value = json.loads(text)
        return list(value)
    return [part.strip() for part in text.split(",") if part.strip()]


def _listed(path: Path, known: dict[str, dict[str, str]]) -> str:
    width = max((len(n) for n in known), default=4)
    lines = [f"{n:{width}}  {k['inferred_type_name']:6} = {k['default']}  # {k['help']}" for n, k in known.items()]
    return "\n".join([f"{path}:", *lines])


def _papermill() -> Any:
    try:
        import papermill
    except ImportError as error:
        raise UnavailableError(
            "perfkit report runs notebooks by papermill, which is not installed: pip install 'perfkit[lab]'"
        ) from error
    return papermill
