"""Benchmarks and scripts that no test starts: what they import is there, and what they call is callable."""

import ast
import contextlib
import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted(p for folder in ("tests/benchmarks", "data/make", "scripts") for p in (ROOT / folder).rglob("*.py"))


def problems(tree: ast.Module) -> Iterator[str]:
    """Return what a file takes from perfkit or its widgets that is not there, or calls and cannot be called."""
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    for node in ast.walk(tree):
        if not (
            isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in ("perfkit", "perfkit_widgets")
        ):
            continue
        for name in node.names:
            module = importlib.import_module(node.module)
            with contextlib.suppress(ModuleNotFoundError):  # a module that nothing has imported yet is no attribute
                importlib.import_module(f"{node.module}.{name.name}")
            try:
                found = getattr(module, name.name)
            except AttributeError:
                yield f"line {node.lineno}: {node.module} has no {name.name}"
                continue
            if (name.asname or name.name) in called and not callable(found):
                yield f"line {node.lineno}: {node.module}.{name.name} is called and is a {type(found).__name__}"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_what_a_script_takes_from_the_kit_is_there(path: Path):
    assert not list(problems(ast.parse(path.read_text(encoding="utf-8"))))


def test_planted_faults_are_found():
    text = """
def measure():
    from perfkit.collectors.host import true_cycles
    from perfkit import no_such_name
    return true_cycles()
"""
    assert len(list(problems(ast.parse(text)))) == 2


@pytest.mark.parametrize(
    ("script", "words", "why"),
    [
        ("fuzz", "--seconds -1", "--seconds is more than 0"),
        ("fuzz", "--seconds nan", "--seconds is more than 0"),
        ("fuzz", "--inputs 0", "--inputs at least 1"),
        ("gallery", "--only nothing", "no notebook's name holds 'nothing'; there are: 00_tour"),
        ("gallery", "--timeout 0", "--timeout is at least 1 second"),
        ("gallery", "--out kit", "kit is a file"),
    ],
)
def test_what_asks_for_nothing_is_refused_at_once(script, words, why):
    command = [sys.executable, str(ROOT / "scripts" / f"{script}.py"), *words.split()]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"usage: ./kit {script}" in done.stderr
    assert why in done.stderr
