"""Copies of the notebooks to work on: what a person changes there never meets the originals.

    python -m perfkit.cli.workspace SOURCE TARGET        (./kit lab: notebooks/ to workspace/)

A copy whose cells are as they were copied follows the original when that changes; outputs do not count. A copy that
somebody edited stays, and the new version is put beside it as NAME.new.ipynb.
"""

import hashlib
import json
import shutil
import sys
from pathlib import Path

from perfkit.base.files import replaced

RECORD = ".copied.json"


def refresh(source: Path, target: Path) -> list[str]:
    """Bring ``target`` up to date with the notebooks of ``source``; return what a person should know, a line each."""
    target.mkdir(exist_ok=True)
    record = target / RECORD
    copied: dict[str, str] = json.loads(record.read_text()) if record.is_file() else {}
    said = []
    for path in sorted(source.rglob("*")):
        name = path.relative_to(source).as_posix()
        if not path.is_file() or ".ipynb_checkpoints" in path.parts:
            continue
        new, copy = _cells(path), target / name
        if copy.is_file() and _cells(copy) != copied.get(name):
            if copied.get(name) != new and _cells(copy) != new:
                beside = copy.with_suffix(".new" + copy.suffix)
                shutil.copyfile(path, beside)
                said.append(f"{target.name}/{name} has your changes; the new version is {beside.name} beside it")
                copied[name] = new
            continue
        if not copy.is_file() or copied.get(name) != new:
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
        copied[name] = new
    with replaced(record) as temporary:
        temporary.write_text(json.dumps(copied, indent=1, sort_keys=True))
    return said


def _cells(path: Path) -> str:
    """Return a digest of what a person writes: a notebook's cells without outputs, any other file's bytes."""
    data = path.read_bytes()
    if path.suffix == ".ipynb":
        try:
            cells = json.loads(data)["cells"]
            text = [(c["cell_type"], "".join(c["source"])) for c in cells]
            data = json.dumps(text).encode()
        except (ValueError, KeyError, TypeError):  # not a notebook any more: somebody's change
            pass
    return hashlib.sha256(data).hexdigest()


if __name__ == "__main__":
    for line in refresh(Path(sys.argv[1]), Path(sys.argv[2])):
        print(f"kit: {line}", file=sys.stderr)
