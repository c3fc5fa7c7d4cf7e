"""``perfkit app`` and ``perfkit lab``: the notebooks in a browser, as apps or to work on, on this machine alone."""

import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote, urlsplit

import typer

from perfkit.base.files import shipped_folder
from perfkit.cli import options
from perfkit.cli.notebook_runs import (
    checked,
    find_notebook,
    pairs_of,
    parameters_of,
    reading_notebook,
    shipped_notebooks,
    shipped_units,
)
from perfkit.cli.output import print_json
from perfkit.cli.report import ReportCommand
from perfkit.errors import SettingError, UnavailableError

HOST = "127.0.0.1"
FORGOTTEN = 60  # seconds after which the kernel of an app's closed page is ended
PATIENCE = 120.0  # seconds that a server may take to answer for the first time
_TEMPLATES = Path(__file__).parent / "jupyter"  # a folder of Jupyter data, as JUPYTER_PATH names them

Port = Annotated[
    int | None,
    typer.Option("--port", min=1, max=65535, help="The port to listen on (default: one that is free)."),
]
Browser = Annotated[
    bool, typer.Option("--browser/--no-browser", help="Open the page in a browser, or only print its address.")
]
app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command("app", cls=ReportCommand)
def serve_app(
    notebook: str | None = typer.Argument(
        None, metavar="[NOTEBOOK]", help="A notebook's path or the name of a shipped one (default: a list of all)."
    ),
    parameters: options.Parameters = [],  # noqa: B006  typer copies it
    port: Port = None,
    browser: Browser = True,
    as_json: options.Json = False,
) -> None:
    """Show a notebook as an app: its text, pictures and live views, without its code.

    The page is served to this machine alone, to whoever knows the address with its token, and fetches nothing from any
    other machine. Ctrl-C ends it.

    Example: perfkit app spire -p analysed dumps/app.txt
    """
    _need("voila", "app")
    if notebook is None and parameters:
        raise SettingError("parameters (-p) are those of one notebook: name it, for example perfkit app spire -p ...")
    chosen = None if notebook is None else find_notebook(notebook)
    values = checked(pairs_of(parameters), parameters_of(chosen), chosen) if chosen and parameters else {}
    port, token = _free_port(port), secrets.token_urlsafe(24)
    with tempfile.TemporaryDirectory(prefix="perfkit-app-") as folder:
        # The others are there, too: notebooks link to each other.
        copies = {path: _place(path) for path in [*shipped_notebooks(), *shipped_units()]}
        if chosen:
            place = _place(chosen)
            copies = {path: other for path, other in copies.items() if other != place} | {chosen: place}
        for path, place in copies.items():
            _copy_as_app(path, Path(folder) / place, values if path == chosen else {})
        command = [
            *(sys.executable, "-P", "-m", "voila", folder, "--no-browser", f"--Voila.ip={HOST}", f"--port={port}"),
            *("--Voila.port_retries=0", "--Voila.auto_token=True", "--template=perfkit"),
            *("--VoilaConfiguration.classic_tree=True", "--VoilaConfiguration.progressive_rendering=True"),
            *("--VoilaConfiguration.show_tracebacks=True", "--VoilaConfiguration.allow_template_override=NO"),
            # A page that was closed or loaded anew leaves its kernel behind, some 0.35 GB.
            *(f"--MappingKernelManager.cull_idle_timeout={FORGOTTEN}", "--MappingKernelManager.cull_interval=10"),
        ]
        page = f"voila/render/{quote(copies[chosen].as_posix())}" if chosen else ""
        names = [chosen.stem] if chosen else sorted(path.stem for path in copies)
        said = {"notebooks": names}
        _serve(command, f"http://{HOST}:{port}/{page}", token, browser=browser, as_json=as_json, said=said)


def serve_lab(
    ctx: typer.Context,
    notebook: str | None = typer.Argument(
        None, metavar="[NOTEBOOK]", help="A notebook's path or the name of a shipped one (default: the tour)."
    ),
    folder: Path = typer.Option(
        Path("perfkit-notebooks"),
        "--folder",
        metavar="FOLDER",
        help="Where the copies of the shipped notebooks are kept; yours are never overwritten.",
    ),
    port: Port = None,
    browser: Browser = True,
    as_json: options.Json = False,
) -> None:
    """Open JupyterLab on copies of the shipped notebooks, or on a notebook of your own.

    The page is served to this machine alone. Ctrl-C ends it.

    Example: perfkit lab 30_gus_optimization
    """
    from perfkit.cli.workspace import refresh

    _need("jupyterlab", "lab")
    import nbformat

    path = find_notebook("00_tour" if notebook is None else notebook)
    root = path.parent
    shipped = path in [*shipped_notebooks(), *shipped_units()]
    if not shipped:
        options.has_no_effect(ctx, f"on {path}, which is opened where it lies", "folder")
        with reading_notebook(path):  # before a server stands there to show nothing
            nbformat.read(path, as_version=4)
    port, token = _free_port(port), secrets.token_urlsafe(24)
    if shipped:
        if not folder.parent.is_dir():
            raise SettingError(f"there is no folder {str(folder.parent)!r} to make {folder.name!r} in")
        if folder.exists() and not folder.is_dir():
            raise SettingError(f"--folder: expected a folder; {str(folder)!r} is a file")
        for line in refresh(shipped_folder("notebooks"), folder):
            typer.echo(f"perfkit: note: {line}", err=True)
        root, path = folder, folder / _place(path)
    command = [
        *(sys.executable, "-P", "-m", "jupyterlab", "--no-browser", f"--ip={HOST}", f"--port={port}"),
        *("--ServerApp.port_retries=0", f"--ServerApp.root_dir={root.resolve()}"),
        # Neither is asked over the network: whether there is news, whether there is a later version.
        *("--LabApp.news_url=None", "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"),
    ]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")
    address = f"http://{HOST}:{port}/lab/tree/{quote(path.relative_to(root).as_posix())}"
    _serve(command, address, token, browser=browser, as_json=as_json, said={"notebook": str(path)})


def _need(module: str, command: str) -> None:
    """Check that what a command starts is installed."""
    for name in (module, "ipywidgets", "bqplot", "anywidget", "ipykernel"):
        if find_spec(name) is None:
            raise UnavailableError(
                f"perfkit {command} needs {name}, which is not installed: pip install 'perfkit[lab]'"
            )
    if find_spec("bqplot_gl") is not None:
        raise UnavailableError(
            "bqplot-gl is installed, and with it the views' brushes do not reach Python: pip uninstall bqplot-gl"
        )


def _free_port(port: int | None) -> int:
    """Return the port, or one that is free where none is given.

    Raises
    ------
    SettingError
        The port is taken, or may not be listened on.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port or 0))
        except OSError as error:
            raise SettingError(
                f"--port: cannot listen on {HOST}:{port} ({error.strerror}); choose another, or leave --port out"
            ) from error
        return int(probe.getsockname()[1])


def _place(path: Path) -> Path:
    """Return where a notebook lies among the shipped ones (``course/unit1...``); one of somebody's own beside them."""
    whole = path.resolve()
    return whole.relative_to(shipped_folder("notebooks")) if whole in shipped_units() else Path(path.name)


def _copy_as_app(path: Path, target: Path, values: dict[str, Any]) -> None:
    """Copy a notebook with its parameters set; its kernel works where the command was given, as relative names mean."""
    import nbformat
    from papermill.parameterize import parameterize_notebook

    from perfkit.course.versions import read_notebook, student_version

    with reading_notebook(path):
        notebook = nbformat.read(path, as_version=4)
        if path.resolve() in shipped_units():  # an app runs all cells, and what solutions print would be read
            notebook = nbformat.from_dict(student_version(read_notebook(path)))
    if values:
        notebook.metadata.setdefault("papermill", nbformat.NotebookNode())  # papermill expects its place, and tags
        for cell in notebook.cells:
            cell.metadata.setdefault("tags", [])
        notebook = parameterize_notebook(notebook, values)
    start = nbformat.v4.new_code_cell(f"import os\n\nos.chdir({str(Path.cwd())!r})")
    notebook.cells.insert(0, start)
    target.parent.mkdir(exist_ok=True)
    nbformat.write(notebook, target)


def _serve(command: list[str], address: str, token: str, *, browser: bool, as_json: bool, said: dict[str, Any]) -> None:
    """Run a server until it or the person ends it; print its address when it answers."""
    with tempfile.TemporaryFile("w+", errors="replace") as log, _process(command, token, log) as server:
        _wait_for(server, address, log)
        found = f"{address}?token={token}"
        if as_json:
            print_json({"address": found, **said})
        else:
            typer.echo(f"{found}\nCtrl-C ends it.")
        sys.stdout.flush()
        if browser:
            typer.launch(found)
        status = server.wait()
        if status:
            raise UnavailableError(f"the server ended with status {status}: {_end_of(log)}")


@contextmanager
def _process(command: list[str], token: str, log: Any) -> Iterator[subprocess.Popen[str]]:
    """Start the server; end it with this program."""
    # The token goes by the environment: a command line can be read by everybody on the machine.
    path = os.pathsep.join([str(_TEMPLATES), *filter(None, [os.environ.get("JUPYTER_PATH")])])
    environment = {**os.environ, "JUPYTER_TOKEN": token, "JUPYTER_PATH": path}
    # In a session of its own, so that Ctrl-C reaches this program alone, which then ends it in order.
    with subprocess.Popen(
        command, env=environment, stdout=log, stderr=subprocess.STDOUT, text=True, start_new_session=True
    ) as server:
        try:
            yield server
        finally:
            server.terminate()
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:
                server.kill()


def _wait_for(server: subprocess.Popen[str], address: str, log: Any) -> None:
    """Wait until the server answers.

    Raises
    ------
    UnavailableError
        It ended, or gave no answer within ``PATIENCE`` seconds.
    """
    end = time.monotonic() + PATIENCE
    port = urlsplit(address).port
    while time.monotonic() < end:
        if server.poll() is not None:
            raise UnavailableError(f"the server did not start (status {server.returncode}): {_end_of(log)}")
        with suppress(OSError), socket.create_connection((HOST, port), timeout=5):
            return
        time.sleep(0.1)
    raise UnavailableError(f"the server gave no answer within {PATIENCE:.0f} s: {_end_of(log)}")


def _end_of(log: Any) -> str:
    log.seek(0)
    return " / ".join(log.read().strip().splitlines()[-4:])[-600:] or "it said nothing"
