"""./kit lab opens copies of the notebooks: nothing that git tracks is modified, and nobody's work is overwritten."""

import json
from pathlib import Path
from typing import Any

from perfkit.cli.workspace import refresh


def write(path: Path, *sources: str, outputs: Any = ()) -> None:
    cells = [{"cell_type": "code", "source": [s], "outputs": list(outputs)} for s in sources]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"cells": cells}))


def sources(path: Path) -> list[str]:
    return ["".join(c["source"]) for c in json.loads(path.read_text())["cells"]]


def test_copies_follow_the_originals_until_somebody_edits_them(tmp_path: Path):
    original, target = tmp_path / "notebooks" / "a.ipynb", tmp_path / "workspace"
    write(original, "one")
    assert refresh(original.parent, target) == []
    copy = target / "a.ipynb"
    assert sources(copy) == ["one"]
    write(copy, "one", outputs=[{"text": "1"}])  # run, not edited
    write(original, "two")
    assert refresh(original.parent, target) == []
    assert sources(copy) == ["two"]
    write(copy, "two", "mine")
    assert refresh(original.parent, target) == []
    write(original, "three")
    (said,) = refresh(original.parent, target)
    assert "workspace/a.ipynb has your changes" in said
    assert sources(copy) == ["two", "mine"]
    assert sources(target / "a.new.ipynb") == ["three"]
    assert refresh(original.parent, target) == []  # said once


def test_an_output_alone_does_not_count_and_a_broken_copy_is_somebodys(tmp_path: Path):
    original, target = tmp_path / "notebooks" / "a.ipynb", tmp_path / "workspace"
    write(original, "one")
    refresh(original.parent, target)
    (target / "a.ipynb").write_text("no notebook")
    write(original, "two")
    assert len(refresh(original.parent, target)) == 1
    assert (target / "a.ipynb").read_text() == "no notebook"
