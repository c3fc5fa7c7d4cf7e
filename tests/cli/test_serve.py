"""``perfkit app`` and ``perfkit lab``: what they refuse, and that the server runs, asks for its token and ends."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import nbformat
import pytest
from typer.testing import CliRunner

from perfkit.cli import serve
from perfkit.cli.main import app
from perfkit.cli.notebook_runs import find_notebook
from perfkit.errors import FormatError, SettingError, UnavailableError


def invoke(*arguments: object):
    return CliRunner().invoke(app, [*map(str, arguments), "--no-browser"])


@pytest.mark.parametrize("command", ["app", "lab"])
def test_what_cannot_be_served_is_refused(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    missing = invoke(command, "nowhere.ipynb")
    assert isinstance(missing.exception, SettingError)
    assert "00_tour" in str(missing.exception)
    assert "65535" in invoke(command, "--port", 65536).output
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        busy = invoke(command, "tour", "--port", taken.getsockname()[1])
    assert isinstance(busy.exception, SettingError)
    assert "cannot listen on 127.0.0.1" in str(busy.exception)
    assert list(tmp_path.iterdir()) == []


def test_parameters_need_a_notebook_and_are_checked(tmp_path: Path):
    assert "name it" in str(invoke("app", "-p", "top", "3").exception)
    assert "did you mean top" in str(invoke("app", "10_spire_walkthrough", "-p", "tops", "3").exception)
    broken = tmp_path / "broken.ipynb"
    broken.write_text("{}")
    assert isinstance(invoke("app", broken).exception, FormatError)


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(serve, "find_spec", lambda name: None if name == "voila" else (name != "bqplot_gl" or None))
    with pytest.raises(UnavailableError, match=r"needs voila.*pip install 'perfkit\[lab\]'"):
        serve._need("voila", "app")
    monkeypatch.setattr(serve, "find_spec", lambda name: True)
    with pytest.raises(UnavailableError, match="pip uninstall bqplot-gl"):
        serve._need("voila", "app")


def test_a_folder_for_the_copies_must_be_one(tmp_path: Path):
    assert "there is no folder" in str(invoke("lab", "--folder", tmp_path / "a" / "b").exception)
    (tmp_path / "file").touch()
    assert "is a file" in str(invoke("lab", "--folder", tmp_path / "file").exception)


def test_a_server_that_ends_at_once_is_reported_with_its_words():
    program = [sys.executable, "-c", "raise SystemExit('no such thing')"]
    with pytest.raises(UnavailableError, match=r"did not start \(status 1\): no such thing"):
        serve._serve(program, "http://127.0.0.1:9/", "t", browser=False, as_json=False, said={})


@pytest.mark.parametrize(
    ("command", "notebook", "where"),
    [
        ("app", "spire", "voila/render/10_spire_walkthrough.ipynb"),
        ("lab", "unit1", "lab/tree/course/unit1_what_bounds"),
    ],
)
def test_the_server_answers_this_machine_to_its_token_alone_and_ends_with_the_command(
    command: str, notebook: str, where: str, tmp_path: Path
):
    program = Path(sys.executable).with_name("perfkit")
    private = {k: str(tmp_path / k) for k in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR")}
    with subprocess.Popen(
        [program, command, notebook, "--no-browser", "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env={**os.environ, **private},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a background job ignores it
    ) as server:  # fmt: skip
        try:
            lines = [server.stdout.readline() for _ in range(3 if command == "lab" else 2)]
            while "}" not in lines[-1]:
                assert lines[-1], server.stderr.read()
                lines.append(server.stdout.readline())
            address = json.loads("".join(lines))["address"]
            assert address.startswith("http://127.0.0.1:")
            assert f"/{where}" in address
            with urllib.request.urlopen(address, timeout=60) as page:
                assert page.status == 200
            try:
                with urllib.request.urlopen(address.partition("?")[0], timeout=60) as page:
                    answer = page.geturl()  # JupyterLab shows the page that asks for the token
            except urllib.error.HTTPError as error:
                answer = f"login refused: {error.code}"
            assert "login" in answer
            port = int(address.split(":")[2].split("/")[0])
            listening = Path("/proc/net/tcp").read_text().splitlines()[1:]
            mine = {
                line.split()[1] for line in listening if line.split()[3] == "0A" and f":{port:04X}" in line.split()[1]
            }
            assert mine == {f"0100007F:{port:04X}"}
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(60)
    assert server.returncode == 130
    end = time.monotonic() + 10
    with socket.socket() as probe:
        while probe.connect_ex(("127.0.0.1", port)) == 0 and time.monotonic() < end:
            time.sleep(0.2)
        assert probe.connect_ex(("127.0.0.1", port)) != 0
    if command == "lab":
        for name in ("10_spire_walkthrough.ipynb", "course/unit1_what_bounds_code.ipynb"):
            assert (tmp_path / "perfkit-notebooks" / name).is_file()


@pytest.mark.parametrize(("name", "parameter"), [("00_tour", "source"), ("unit1_what_bounds_code", "student")])
def test_an_apps_parameters_follow_those_of_its_notebook(name: str, parameter: str, tmp_path: Path):
    """An app with a parameter once ended with an AttributeError: papermill expects tags in every cell."""
    path = find_notebook(name)
    serve._copy_as_app(path, tmp_path / path.name, {parameter: "mine"})
    cells = nbformat.read(tmp_path / path.name, as_version=4).cells
    tags = [cell.metadata.get("tags", []) for cell in cells]
    given = tags.index(["injected-parameters"])
    assert "parameters" in tags[given - 1]
    assert f'{parameter} = "mine"' in cells[given].source
    assert not any("BEGIN SOLUTION" in cell.source for cell in cells)
