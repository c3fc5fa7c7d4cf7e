"""numba's cache sees a change of the modules that a function is built from."""

import importlib.util
import os

import pytest
from numba.core.caching import IndexDataCacheFile

FUNCTION = """
from perfkit.simulators.compiled import compiled
from {folder} import constants

@compiled("constants")
def f():
    return constants.ANSWER
"""


def compile_in(folder, monkeypatch):
    """Import the function as a new process would, and call it."""
    monkeypatch.syspath_prepend(folder.parent)
    modules = []
    for name in ("constants", "user"):
        spec = importlib.util.spec_from_file_location(f"{folder.name}.{name}", folder / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(__import__("sys").modules, f"{folder.name}.{name}", module)
        if name == "user":
            monkeypatch.setattr(importlib.import_module(folder.name), "constants", modules[0], raising=False)
        spec.loader.exec_module(module)
        modules.append(module)
    found = modules[1].f()
    return found, sum(modules[1].f.stats.cache_hits.values())


@pytest.fixture
def folder(tmp_path, monkeypatch):
    folder = tmp_path / "constants_of_a_test"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "user.py").write_text(FUNCTION.format(folder=folder.name))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    (folder / "constants.py").write_text("ANSWER = 41\n")
    return folder


def test_a_changed_constant_is_compiled_anew(folder, monkeypatch):
    assert compile_in(folder, monkeypatch) == (41, 0)
    assert compile_in(folder, monkeypatch) == (41, 1)
    (folder / "constants.py").write_text("ANSWER = 42\n")
    os.utime(folder / "constants.py", (1e9, 1e9))
    assert compile_in(folder, monkeypatch) == (42, 0)


def test_one_that_ends_while_it_keeps_leaves_no_older_code_under_the_new_name(folder, monkeypatch):
    """numba's list is on the disk before the code that it names: a kill between the two is met here."""
    assert compile_in(folder, monkeypatch) == (41, 0)
    (folder / "constants.py").write_text("ANSWER = 42\n")
    os.utime(folder / "constants.py", (1e9, 1e9))
    with monkeypatch.context() as dying:
        dying.setattr(IndexDataCacheFile, "_save_data", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            compile_in(folder, dying)
    assert compile_in(folder, monkeypatch) == (42, 0)
