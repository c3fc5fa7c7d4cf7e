"""Examples of public names: every name has one, and they run."""

import doctest
import importlib
import inspect
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

import perfkit as pk
import perfkit_widgets as pw

NAMES = [(m, n) for m in (pk, pw, pk.course) for n in sorted(m.__all__) if callable(getattr(m, n))]


def examples(found: Any) -> list[doctest.DocTest]:
    """The examples in an object's own docstring and in those of its methods."""
    here = {**vars(sys.modules[found.__module__]), "pk": pk, "pw": pw, found.__name__: found}
    return [test for test in doctest.DocTestFinder().find(found, found.__name__, globs=here) if test.examples]


PUBLIC = tuple(f"{each.__module__}.{each.__qualname__}" for each in (getattr(m, n) for m, n in NAMES))
FOLDER = Path(pk.__file__).parent
WITH_EXAMPLES = sorted(
    ".".join(("perfkit", *path.relative_to(FOLDER).with_suffix("").parts))
    for path in FOLDER.rglob("*.py")
    if ">>>" in path.read_text() and path.stem not in ("__init__", "__main__")
)


def test_every_public_name_has_an_example():
    assert [name for module, name in NAMES if ">>>" not in (inspect.getdoc(getattr(module, name)) or "")] == []


@pytest.mark.parametrize(("module", "name"), NAMES, ids=lambda v: v if isinstance(v, str) else v.__name__)
def test_examples_run(module: Any, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    said: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pk.errors.PerfkitWarning)
        for test in examples(getattr(module, name)):
            runner.run(test, out=said.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(said)


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples_of_what_is_not_public_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    said: list[str] = []
    for test in doctest.DocTestFinder().find(importlib.import_module(name), name, extraglobs={"pk": pk}):
        if not test.name.startswith(PUBLIC):
            runner.run(test, out=said.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(said)
