"""Notebooks that are run with parameters: finding them, what parameters they have, and running them by papermill."""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from perfkit.base.files import reading, shipped_folder
from perfkit.errors import SettingError, UnavailableError, closest

_NUMBERS = re.compile(r"\[[-+.\d]+([ ,eE]+[-+.\d]+)*,?\]")  # a list of numbers, as Python text


def find_notebook(name: str, others: Sequence[str] = ()) -> Path:
    """Return the path of a notebook given by path, or by the (shortened) name of a shipped one.

    The message where there is none lists the names of `others` (methods), too.

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
    methods, units = shipped_notebooks(), shipped_units()
    stem = path.name.removesuffix(".ipynb")
    # "spire" is the method's notebook, though a unit has the word in its name, too.
    fitting = [p for p in [*methods, *units] if p.stem == stem]
    for shipped in (methods, units):
        fitting = fitting or [p for p in shipped if stem.lower() in p.stem.lower()]
    if len(fitting) == 1:
        return fitting[0]
    listed = ", ".join(p.stem for p in fitting or [*methods, *units])
    if fitting:
        raise SettingError(f"{name!r} is the name of several notebooks; there are: {listed}")
    if others:
        raise SettingError(f"{name!r} is no method ({', '.join(others)}) and no notebook; there are: {listed}")
    raise SettingError(f"{name!r} is no notebook; there are: {listed}")


def shipped_notebooks() -> list[Path]:
    """Return the methods' notebooks that come with perfkit: those of the wheel, or of the checkout."""
    return sorted(shipped_folder("notebooks").glob("*.ipynb"))


def shipped_units() -> list[Path]:
    """Return the course's notebooks."""
    return sorted((shipped_folder("notebooks") / "course").glob("*.ipynb"))


def parameters_of(path: Path) -> dict[str, dict[str, str]]:
    """Return a notebook's parameters in order: name -> inferred_type_name, default (as Python text) and help."""
    papermill = _papermill()
    with reading_notebook(path):
        found = papermill.inspect_notebook(str(path))
    return {name: {k: str(v) for k, v in entry.items()} for name, entry in found.items()}


@contextmanager
def reading_notebook(path: Path) -> Iterator[None]:
    """Raise FormatError, naming the file, where it is no notebook."""
    import nbformat

    with reading(path, "a Jupyter notebook"):
        try:
            yield
        except nbformat.ValidationError as error:
            raise ValueError(str(error)) from error


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
        values[name] = _typed(name, text, known[name]["inferred_type_name"], known[name].get("default", ""))
    return values


def execute(
    path: Path, values: dict[str, Any], timeout: float, quiet: bool = False, many: bool = False, without: str = ""
) -> Any:
    """Return the notebook executed with these parameter values, as an nbformat node; progress goes to stderr.

    A `quiet` run tells no progress. The kernel of one of `many` runs is forked from a process that has imported what
    the notebook imports. Cells that have the tag `without` are left out.
    """
    import tempfile

    import nbformat

    from perfkit.cli.warm_kernels import names_in, warm_manager

    manager = warm_manager(names_in(path)) if many else None
    notebook = nbformat.read(path, as_version=4)
    if without:
        notebook.cells = [c for c in notebook.cells if without not in c.metadata.get("tags", [])]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / path.name
        try:
            _papermill().execute_notebook(
                notebook,
                str(out),
                parameters=values,
                kernel_name="python3",
                execution_timeout=round(timeout),
                log_output=False,
                # Each kernel warns that its socket on this host is plain TCP, and calls it an error to be stopped.
                extra_arguments=["--log-level=CRITICAL"],
                progress_bar=not quiet,
                # Nobody looks at the file before the end, and writing it 60 times takes a second.
                request_save_on_cell_execute=False,
                autosave_cell_every=0,
                **({"kernel_manager_class": manager} if manager else {}),
            )
        except _papermill().PapermillExecutionError as error:
            raise UnavailableError(
                f"{path.name} stopped at cell {error.exec_count}: {error.ename}: {error.evalue}"
            ) from error
        except TimeoutError as error:
            raise UnavailableError(
                f"{path.name}: a cell took longer than {timeout:g} s and was given up; allow more with --timeout"
            ) from error
        return nbformat.read(out, as_version=4)


def _typed(name: str, text: str, kind: str, default: str) -> Any:
    makers: dict[str, Any] = {"int": int, "float": float, "bool": _truth, "list": partial(_list, default=default)}
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


def _list(text: str, default: str) -> list[Any]:
    """Return a list given as JSON, or as words with commas between: numbers where the default's are numbers."""
    if text.lstrip().startswith("["):
        value = json.loads(text)
        return list(value)
    words = [part.strip() for part in text.split(",") if part.strip()]
    return [json.loads(word) for word in words] if _NUMBERS.fullmatch(default.strip()) else words


def _papermill() -> Any:
    try:
        import papermill
    except ImportError as error:
        raise UnavailableError(
            "perfkit report runs notebooks by papermill, which is not installed: pip install 'perfkit[lab]'"
        ) from error
    return papermill
